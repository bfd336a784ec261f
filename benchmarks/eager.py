"""What one small op costs: minitorch beside PyTorch, MyGrad and HIPS autograd, on 8-element tensors.

    python benchmarks/eager.py [--rounds 7] [--json FILE]

On eight numbers the arithmetic is nearly free; what is measured is the library: finding the op,
recording it, walking back. Each workload is a chain of 100 ops whose inputs both require grad.
"forward" builds the chain (graph recorded, then dropped), "forward + backward" differentiates it as
well; both are divided by 100. The garbage collector stays on, as in a person's program.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import contest
import numpy as np

LENGTH = 100  # ops in a chain: long enough that the one call of backward() does not count

# Contender → the name it is installed under.
CONTENDERS = {"minitorch": "minitorch", "PyTorch": "torch", "MyGrad": "mygrad", "autograd": "autograd"}


class Workload(NamedTuple):
    """The ops of a chain, over `y` (what came before) and `w` (a leaf); repeated until it is full.

    `methods` as minitorch and PyTorch spell it, `functions` as MyGrad and autograd do, if otherwise.
    Each keeps shape and size of the numbers, so that it can follow itself.
    """

    methods: tuple[str, ...]
    functions: tuple[str, ...] = ()
    shape: tuple[int, ...] = (8,)
    scale: float = 1  # of w


WORKLOADS = {
    "add": Workload(("y + w",)),
    "sub": Workload(("y - w",)),
    "mul": Workload(("y * w",)),
    "div": Workload(("y / w",)),
    "mul by a number": Workload(("y * 1.01",)),
    "pow 2": Workload(("y ** 2",)),
    "exp, log": Workload(("y.exp()", "y.log()"), ("np.exp(y)", "np.log(y)")),
    "tanh": Workload(("y.tanh()",), ("np.tanh(y)",)),
    "relu": Workload(("y.relu()",), ("np.maximum(y, 0)",)),
    # Eight numbers to one, and one to eight again by broadcasting; w is about 1/8 here.
    "sum, mul": Workload(("y.sum()", "y * w"), ("np.sum(y)", "y * w"), scale=1 / 8),
    "matmul 8×8": Workload(("y @ w",), ("np.matmul(y, w)",), (8, 8)),
    "reshape": Workload(("y.reshape(2, 4)", "y.reshape(8)")),
    "getitem": Workload(("y[None]", "y[0]")),
    "mul, add": Workload(("y * w", "y + w")),
}


# --- the worker: one library --------------------------------------------------------------------


def chain(steps: tuple[str, ...], np_like: Any, length: int = LENGTH) -> Callable[[Any, Any], Any]:
    """Write the chain out as straight code, so that no loop and no call of ours is measured."""
    lines = [f"    y = {steps[i % len(steps)]}" for i in range(length)]
    scope: dict[str, Any] = {"np": np_like}
    exec("\n".join(["def run(y, w):", *lines, "    return y"]), scope)
    return scope["run"]


def inputs(workload: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Return start and operand of a chain, such that a hundred ops neither overflow nor vanish."""
    rng = np.random.default_rng(0)
    if workload.shape == (8, 8):
        return np.eye(8, dtype=np.float32), np.linalg.qr(rng.normal(size=(8, 8)))[0].astype(np.float32)
    w = workload.scale * rng.uniform(0.99, 1.01, workload.shape)
    return np.ones(workload.shape, np.float32), w.astype(np.float32)


def contender(name: str) -> tuple[bool, Any, Callable[..., Any], Callable[..., Any]]:
    """Import a library: does it spell ops as methods, its NumPy, how to make a leaf, how to go back.

    The last takes (chain, x, w, ones) and runs forward + backward; without ones, only forward.
    """
    if name in ("minitorch", "PyTorch"):
        library: Any = importlib.import_module(CONTENDERS[name])
        if name == "PyTorch":
            library.set_num_threads(1)

        def run(forward: Any, x: Any, w: Any, ones: Any = None) -> None:
            y = forward(x, w)
            if ones is not None:
                y.backward(ones)
                x.grad = w.grad = None

        return True, None, lambda a, leaf: library.tensor(a, requires_grad=leaf), run
    if name == "MyGrad":
        import mygrad

        def run_mygrad(forward: Any, x: Any, w: Any, ones: Any = None) -> None:
            y = forward(x, w)
            if ones is not None:
                y.backward(ones)

        return False, mygrad, lambda a, leaf: mygrad.tensor(a) if leaf else a, run_mygrad
    import autograd.numpy

    import autograd

    def run_autograd(forward: Any, x: Any, w: Any, ones: Any = None) -> None:
        pull_back, _ = autograd.make_vjp(forward, (0, 1))(x, w)
        if ones is not None:
            pull_back(ones)

    return False, autograd.numpy, lambda a, leaf: a, run_autograd


def work(name: str) -> None:
    """Be the process of one contender."""
    try:
        version = contest.version(CONTENDERS[name])
        methods, np_like, make, run = contender(name)
    except ImportError:
        contest.serve(None, lambda task: 0.0)
        return

    def perform(task: str) -> float:
        what, _, workload_name = task.partition(": ")
        workload = WORKLOADS[workload_name]
        steps = workload.methods if methods else workload.functions or workload.methods
        x, w = inputs(workload)
        arguments = [chain(steps, np_like), make(x, True), make(w, True)]
        if what == "forward + backward":
            arguments.append(make(np.ones_like(x), False))
        return contest.seconds_per_call(functools.partial(run, *arguments)) / LENGTH

    contest.serve(version, perform)


# --- the report ---------------------------------------------------------------------------------


def report(versions: dict[str, str], times: contest.Times) -> None:
    """Print one table for forward, one for forward + backward."""
    print(contest.machine())
    print(", ".join(f"{name} {version}" for name, version in versions.items()), "(one thread each)")
    compared = "minitorch" in versions and "PyTorch" in versions
    for what in ("forward", "forward + backward"):
        print(f"\n{what + ', µs per op':<24}" + "".join(f"{name:>11}" for name in versions), end="")
        print("   minitorch / PyTorch" if compared else "")
        ratios = []
        columns: dict[str, list[float]] = {name: [] for name in versions}
        for workload in WORKLOADS:
            rounds = times[f"{what}: {workload}"]
            best = {name: min(rounds[name]) * 1e6 for name in versions}
            for name in versions:
                columns[name].append(best[name])
            print(f"{workload:<24}" + "".join(f"{best[name]:11.2f}" for name in versions), end="")
            if compared:
                ratios.append(best["minitorch"] / best["PyTorch"])
                print(f"{ratios[-1]:12.2f}", end="")
            print()
        print(f"{'average':<24}" + "".join(f"{np.mean(columns[n]):11.2f}" for n in versions), end="")
        print(f"{np.mean(ratios):12.2f}" if compared else "")
        noise = {n: np.mean([contest.spread(times[f"{what}: {w}"][n]) for w in WORKLOADS]) for n in versions}
        print(f"{'middle round over best':<24}" + "".join(f"{noise[n]:+11.0%}" for n in versions))


def main() -> None:
    """Hold the contest, or be one of its workers."""
    options = contest.arguments(__doc__.splitlines()[0], rounds=7)
    if options.worker:
        work(options.worker)
        return
    tasks = [f"{what}: {name}" for name in WORKLOADS for what in ("forward", "forward + backward")]
    versions, times = contest.hold(__file__, CONTENDERS, tasks, options.rounds)
    report(versions, times)
    contest.save(options.json, versions, times)


if __name__ == "__main__":
    main()
