"""The worker of the growth curves: how time and memory grow with size, depth, width, batch and length.

Started by `minitorch bench`, once per contender: python benchmarks/curves.py --worker CONTENDER. A question is a
line: 'size mul, forward|1000', 'step DEPTH WIDTH BATCH', 'compile …', 'memory …', 'graph LENGTH', 'matmul N', 'copy N'.
"""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import contest
import numpy as np

PACKAGES = {
    "minitorch": "minitorch", "minitorch compiled": "minitorch", "minitorch eager": "minitorch",
    "minitorch from disk": "minitorch", "PyTorch": "torch", "JAX": "jax", "MyGrad": "mygrad", "autograd": "autograd",
    "NumPy": "numpy", "tinygrad": "tinygrad",
}  # fmt: skip
CHAIN = 10  # ops in the chain whose tensors grow


def threads() -> int:
    return int(os.environ.get("OMP_NUM_THREADS", "1"))


def timed(step: Callable[[], Any]) -> float:
    """Time a step that may take nanoseconds or seconds; it has run before."""
    begun = time.perf_counter()
    step()
    once = time.perf_counter() - begun
    if once > 0.5:
        return min(once, contest.once(step))
    return contest.seconds_per_call(step, at_least=min(0.02, 20 * once), repeats=3 if once > 0.05 else 8)


# --- one op against size --------------------------------------------------------------------------------------


def size(contender: str, question: str) -> float | None:
    import eager

    curve, _, count = question.partition("|")
    op, _, what = curve.partition(", ")
    n = int(count)
    x, w = np.full(n, 0.5, np.float32), np.full(n, 1.01, np.float32)
    if contender == "NumPy":
        if what != "forward":
            return None
        forward = eager.chain(eager.WORKLOADS[op].functions or eager.WORKLOADS[op].methods, np, CHAIN)
        return timed_twice(lambda: forward(x, w)) / CHAIN
    methods, np_like, make, run = eager.contender(contender)
    workload = eager.WORKLOADS[op]
    steps = workload.methods if methods else workload.functions or workload.methods
    arguments = [eager.chain(steps, np_like, CHAIN), make(x, True), make(w, True)]
    if what == "forward + backward":
        arguments.append(make(np.ones_like(x), False))
    return timed_twice(functools.partial(run, *arguments)) / CHAIN


def timed_twice(step: Callable[[], Any]) -> float:
    step()
    return timed(step)


# --- training steps -------------------------------------------------------------------------------------------


def make_step(contender: str, depth: int, width: int, batch: int) -> Callable[[], Any]:
    import compiled_models as models

    options = {"batch": batch, "sizes": (width,) * (depth + 1)}
    if contender == "JAX":
        step = models.jax_step("mlp", options)
        assert step is not None
        return step
    if contender == "tinygrad":
        return tinygrad_step(batch, (width,) * (depth + 1))
    library = __import__(PACKAGES[contender])
    plain = contender in ("PyTorch", "minitorch eager")
    return models.torch_like(library, (lambda f: f) if plain else library.compile, "mlp", options)


def tinygrad_step(batch: int, sizes: tuple[int, ...]) -> Callable[[], Any]:
    """The same step as tinygrad writes it: TinyJit over all of it."""
    os.environ["TRAINING"] = "1"  # its optimisers refuse to step otherwise; older versions read the attribute
    from tinygrad import Tensor, TinyJit, nn

    layers = [nn.Linear(n, m) for n, m in itertools.pairwise(sizes)]
    optimiser = nn.optim.SGD(nn.state.get_parameters(layers), lr=0.01)
    x, y = Tensor.randn(batch, sizes[0]).realize(), Tensor.randint(batch, low=0, high=sizes[-1]).realize()

    Tensor.training = True

    @TinyJit
    def step(x: Any, y: Any) -> Any:
        optimiser.zero_grad()
        out = x
        for i, layer in enumerate(layers):
            out = layer(out) if i == len(layers) - 1 else layer(out).relu()
        loss = out.sparse_categorical_crossentropy(y).backward()
        return loss.realize(*optimiser.schedule_step())

    return lambda: step(x, y).item()


held: dict[str, Callable[[], Any]] = {}  # the step of the question asked last: making it can take long


def step(contender: str, question: str) -> float:
    if question not in held:
        held.clear()
        held[question] = make_step(contender, *map(int, question.split()))
        for _ in range(3):
            held[question]()
    return timed(held[question])


def compile_time(contender: str, question: str) -> float:
    """Time the first two calls, after which there is code, in a process that has compiled something tiny before."""
    os.environ["MINITORCH_CACHE"] = ""
    if contender == "minitorch from disk":
        with tempfile.TemporaryDirectory() as folder:
            # A process before this one leaves its object code in the folder, which this one then finds.
            earlier = f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r}); import curves; "
            earlier += (
                f"step = curves.make_step('minitorch compiled', *{[int(n) for n in question.split()]}); "
            )
            earlier += "step(); step()"
            environment = {**os.environ, "MINITORCH_CACHE": folder}
            subprocess.run(
                [sys.executable, "-c", earlier], env=environment, check=True, stdout=subprocess.DEVNULL
            )
            os.environ["MINITORCH_CACHE"] = folder
            return _first_calls("minitorch compiled", question)
    return _first_calls(contender, question)


def _first_calls(contender: str, question: str) -> float:
    tiny = make_step(contender, 1, 3, 2)
    tiny()
    tiny()
    built = make_step(contender, *map(int, question.split()))
    return contest.once(built) + contest.once(built)


# --- memory ---------------------------------------------------------------------------------------------------


def held_bytes(most: bool) -> int:
    """Return the bytes of memory this process holds, or the most it ever held."""
    key = "VmHWM:" if most else "VmRSS:"
    try:
        # Not getrusage: its peak begins with what the parent held when it started us.
        with open("/proc/self/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith(key))
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak


def memory(contender: str, question: str) -> float:
    __import__(PACKAGES[contender])
    if contender == "JAX":
        __import__("jax").numpy.zeros(1).block_until_ready()
    before = held_bytes(most=False)
    built = make_step(contender, *map(int, question.split()))
    for _ in range(3):
        built()
    return max(1, held_bytes(most=True) - before)


def graph(contender: str, question: str) -> dict[str, float]:
    """Build a chain of `length` ops, mul and add in turn, and differentiate it, after a short one."""
    length = int(question)
    best = {"forward": float("inf"), "backward": float("inf")}
    x, w = np.ones(8, np.float32), np.full(8, 0.999, np.float32)
    _chain(contender, x, w, 100)
    before = held_bytes(most=False)
    for _ in range(max(1, min(5, 100_000 // length))):
        forward, backward = _chain(contender, x, w, length)
        best = {"forward": min(best["forward"], forward), "backward": min(best["backward"], backward)}
    peak = max(1, held_bytes(most=True) - before)
    named = {"forward": best["forward"], "backward": best["backward"], "peak memory": peak}
    return {f"{name}, {length:,} ops": value for name, value in named.items()}


def _chain(contender: str, x_array: Any, w_array: Any, length: int) -> tuple[float, float]:
    def build(x: Any, w: Any) -> Any:
        y = x
        for _ in range(length // 2):
            y = y * w + w
        return y

    if contender == "autograd":
        import autograd

        start = time.perf_counter()
        pull_back, _ = autograd.make_vjp(build, (0, 1))(x_array, w_array)
        middle = time.perf_counter()
        pull_back(np.ones_like(x_array))
        return middle - start, time.perf_counter() - middle
    library: Any = __import__(PACKAGES[contender])
    if contender == "MyGrad":
        x, w = library.tensor(x_array), library.tensor(w_array)
        ones = np.ones_like(x_array)
    else:
        x, w = (library.tensor(a, requires_grad=True) for a in (x_array, w_array))
        ones = library.ones(8)
    start = time.perf_counter()
    y = build(x, w)
    middle = time.perf_counter()
    y.backward(ones)
    return middle - start, time.perf_counter() - middle


# --- the machine ----------------------------------------------------------------------------------------------


def matmul(contender: str, question: str) -> float:
    n = int(question)
    if contender == "NumPy":
        a, out = np.ones((n, n), np.float32), np.empty((n, n), np.float32)
        return timed_twice(lambda: np.matmul(a, a, out=out))
    import torch

    b, result = torch.ones(n, n), torch.empty(n, n)
    return timed_twice(lambda: torch.matmul(b, b, out=result))


def copy(contender: str, question: str) -> float:
    n = int(question) // 4
    if contender == "NumPy":
        a, b = np.ones(n, np.float32), np.zeros(n, np.float32)
        return timed_twice(lambda: np.copyto(b, a))
    import torch

    c, d = torch.ones(n), torch.zeros(n)
    return timed_twice(lambda: d.copy_(c))


KINDS: dict[str, Callable[[str, str], Any]] = {
    "size": size, "step": step, "compile": compile_time, "memory": memory, "graph": graph, "matmul": matmul,
    "copy": copy,
}  # fmt: skip


def work(contender: str) -> None:
    """Be the process of one contender."""
    version = contest.version(PACKAGES[contender])
    if version is None:
        contest.serve(None, lambda task: 0.0)
        return
    if contender == "PyTorch":
        import torch

        torch.set_num_threads(threads())

    def perform(question: str) -> Any:
        kind, _, rest = question.partition(" ")
        try:
            return KINDS[kind](contender, rest)
        except (RecursionError, MemoryError, ImportError) as error:
            return {"problem": f"{type(error).__name__}: {error}"[:200]}

    contest.serve(version, perform)


if __name__ == "__main__":
    work(sys.argv[sys.argv.index("--worker") + 1])
