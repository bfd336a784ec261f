"""Training steps on a GPU, one contender in this process: what `minitorch bench --device cuda` asks.

    python benchmarks/gpu.py CONTENDER ROW... [--seconds 1] [--steps]

Prints one line of JSON for each row: `us`, the median microseconds per step; `first`, the seconds of the first call;
`shown`, what the first steps gave, all contenders from the same weights and inputs; or `error`. What they are compared
with is the contender `float64`, whose steps (PyTorch's ops in float64, or minitorch's) are not timed. Products of
float32 may round their factors to TF32 in all contenders alike. --steps: where a compiled step spends its time.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

CONTENDERS = ("compiled", "minitorch", "pytorch", "torch.compile", "pytorch graph", "jax", "float64")
LAYERS = {"grammar": (60, 23, 64, 5), "digits": (128, 64, 256, 10), "wide": (8192, 1024, 4096, 1000)}
ROWS = (*LAYERS, "block", "block bfloat16", "gpt", "lstm", "conv", "cross-entropy", "softmax", "gelu")
TOKENS, WIDTH, DEPTH, HEADS, BLOCK_HEADS = 50257, 512, 6, 8, 12
SHAPES = {
    "block": (16, 1024, 768),
    "block bfloat16": (16, 1024, 768),
    "gpt": (8, 512),
    "lstm": (64, 128, 256),
    "conv": (256, 64, 56, 56),
    "cross-entropy": (8192, TOKENS),
    "softmax": (65536, 1024),
    "gelu": (1 << 28,),
}
# So that some steps move a loss by more than TF32 rounds it.
RATES = {"wide": 1.0, "block": 1.0, "block bfloat16": 1.0, "lstm": 10.0, "conv": 0.1, "gpt": 1e-3}
RATE = 0.1
DEVICE = "cuda"
STEPS, SHOWN = 4, 64  # so many steps are looked at; of each large result so many elements


@dataclass
class Contestant:
    """A row as a contender runs it: a step, what waits for it, and what of its result is looked at.

    early: what was seen of steps that were run before the one whose result the first call returns.
    """

    step: Callable[[], Any]
    wait: Callable[[], Any]
    look: Callable[[Any], list[Any]] = lambda result: [result]
    early: list[Any] = field(default_factory=list)


def normal(seed: int, *shape: int) -> np.ndarray:
    """Return normal numbers. (Some millions are drawn, and repeated: to draw all would take longer than the steps.)"""
    random = np.random.default_rng(seed)
    some = random.standard_normal(min(int(np.prod(shape)), (1 << 22) + 1), dtype=np.float32)
    return np.resize(some, shape)


def numbers(row: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Return what a step is given: inputs, and targets where there are some."""
    random = np.random.default_rng(1)
    if row in LAYERS:
        rows, width, _, classes = LAYERS[row]
        return normal(1, rows, width), random.integers(0, classes, rows)
    shape = SHAPES[row]
    if row == "gpt":
        return random.integers(0, TOKENS, shape), random.integers(0, TOKENS, shape)
    targets = random.integers(0, shape[1], shape[0]) if row == "cross-entropy" else None
    return normal(1, *shape), targets


def weights(row: str) -> dict[str, np.ndarray]:
    """Return a row's parameters, by PyTorch's names and as large as it makes them: matrices of outputs × inputs."""
    made: dict[str, np.ndarray] = {}

    def add(name: str, *shape: int, scale: float) -> None:
        made[name] = normal(2 + len(made), *shape) * np.float32(scale)

    def linear(name: str, outputs: int, inputs: int) -> None:
        add(f"{name}.weight", outputs, inputs, scale=(3 * inputs) ** -0.5)
        add(f"{name}.bias", outputs, scale=0.02)

    def norm(name: str, width: int) -> None:
        made[f"{name}.weight"], made[f"{name}.bias"] = np.ones(width, np.float32), np.zeros(width, np.float32)

    def block(prefix: str, width: int) -> None:
        norm(f"{prefix}before", width)
        norm(f"{prefix}between", width)
        for name, outputs, inputs in (("attend", 3, 1), ("out", 1, 1), ("up", 4, 1), ("down", 1, 4)):
            linear(prefix + name, outputs * width, inputs * width)

    if row in LAYERS:
        _, width, hidden, classes = LAYERS[row]
        linear("0", hidden, width)
        linear("2", classes, hidden)
    elif row.startswith("block"):
        block("", SHAPES[row][-1])
    elif row == "gpt":
        add("tokens.weight", TOKENS, WIDTH, scale=1.0)
        add("places.weight", SHAPES[row][1], WIDTH, scale=1.0)
        for number in range(DEPTH):
            block(f"blocks.{number}.", WIDTH)
        norm("norm", WIDTH)
        add("head.weight", TOKENS, WIDTH, scale=(3 * WIDTH) ** -0.5)
    elif row == "lstm":
        inputs = width = SHAPES[row][-1]
        for name, shape in (("weight_ih", (4 * width, inputs)), ("weight_hh", (4 * width, width))):
            add(f"cell.{name}_l0", *shape, scale=(3 * width) ** -0.5)
        for name in ("bias_ih", "bias_hh"):
            add(f"cell.{name}_l0", 4 * width, scale=0.02)
    elif row == "conv":
        channels = SHAPES[row][1]
        add("weight", channels, channels, 3, 3, scale=(27 * channels) ** -0.5)
        add("bias", channels, scale=0.02)
    return made


# --- PyTorch, and minitorch in its place ----------------------------------------------------------------------


def step_of(torch: Any, row: str, *, wide: bool = False, **options: Any) -> tuple[Any, Any]:
    """Return a row's step, of nothing, and what of its result is looked at.

    wide: in float64. options: of the optimiser.
    """
    given, targets = numbers(row)
    x = torch.from_numpy(given).to(DEVICE)
    y = None if targets is None else torch.from_numpy(targets).to(DEVICE)
    if wide and row != "gpt":
        x = x.double()
    if row == "cross-entropy":
        x.requires_grad_()
    step = step_on(torch, row, wide=wide, **options)
    return lambda: step(x, y), lambda result: [result, x.grad] if row == "cross-entropy" else [result]


def step_on(torch: Any, row: str, *, wide: bool = False, **options: Any) -> Any:
    """Return a row's step, as one writes it for PyTorch: a function of inputs and targets."""
    nn, functional = torch.nn, torch.nn.functional
    if row == "softmax":
        return lambda x, y: torch.softmax(x, -1)
    if row == "gelu":
        return lambda x, y: functional.gelu(x) * 2 + torch.tanh(x)
    if row == "cross-entropy":

        def entropy(x: Any, y: Any) -> Any:
            x.grad = None
            loss = functional.cross_entropy(x, y)
            loss.backward()
            return loss

        return entropy

    class Block(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, width = x.shape
            parts = self.attend(self.before(x)).split(width, dim=2)
            q, k, v = (p.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for p in parts)
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(functional.gelu(self.up(self.between(x))))

    class Gpt(nn.Module):
        def __init__(self, length: int) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(length, WIDTH)
            self.blocks = nn.Sequential(*(Block(WIDTH, HEADS) for _ in range(DEPTH)))
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)
            self.register_buffer("order", torch.arange(length), persistent=False)

        def forward(self, tokens: Any) -> Any:
            places = self.places(self.order[: tokens.shape[1]])
            return self.head(self.norm(self.blocks(self.tokens(tokens) + places)))

    class Lstm(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.cell = nn.LSTM(width, width)

        def forward(self, x: Any) -> Any:
            return self.cell(x)[0]

    if row in LAYERS:
        _, width, hidden, classes = LAYERS[row]
        model = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))
    elif row == "gpt":
        model = Gpt(SHAPES[row][1])
    elif row == "lstm":
        model = Lstm(SHAPES[row][-1])
    elif row == "conv":
        model = nn.Conv2d(SHAPES[row][1], SHAPES[row][1], 3, padding=1)
    else:
        model = Block(SHAPES[row][-1], BLOCK_HEADS)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in weights(row).items()})
    model = model.to(DEVICE)
    if wide:
        model = model.double()
    kind = torch.optim.AdamW if row == "gpt" else torch.optim.SGD
    optimizer = kind(model.parameters(), lr=RATES.get(row, RATE), **options)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        if row == "block bfloat16" and not wide:
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                out = model(x)
            out = out.float()
        else:
            out = model(x)
        if y is None:
            loss = (out * out).mean()
        else:
            loss = functional.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


def captured(torch: Any, contestant: Contestant) -> Contestant:
    """Return PyTorch's whole step captured as one CUDA graph, as a part of the first call."""
    step, made = contestant.step, []

    def replay() -> Any:
        if not made:
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                contestant.early = [shown(contestant.look(step())) for _ in range(STEPS - 1)]
            torch.cuda.current_stream().wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                made.append(step())
            made.append(graph)
        made[1].replay()
        return made[0]

    contestant.step = replay
    return contestant


def pytorchs(contender: str, row: str) -> Contestant:
    """Return PyTorch's step, with what makes it fast: TF32, the fastest algorithms of cuDNN, fused optimisers."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError(f"PyTorch {torch.__version__} finds no GPU")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    # What torch.compile makes of an optimiser is one kernel too. Adam's count of steps must lie on the device where
    # a graph is captured, and had better where it is compiled.
    options = {} if contender == "torch.compile" else {"fused": True}
    if row == "gpt" and contender != "pytorch":
        options["capturable"] = True
    step, look = step_of(torch, row, **options)
    made = Contestant(step, torch.cuda.synchronize, look)
    if contender == "torch.compile":
        made.step = torch.compile(step)
    return captured(torch, made) if contender == "pytorch graph" else made


def minitorchs(contender: str, row: str, verify: bool = True) -> Contestant:
    """Return minitorch's step."""
    import cupy

    import minitorch

    minitorch.backends.cuda.matmul.allow_tf32 = True
    step, look = step_of(minitorch, row)
    if contender == "compiled":
        step = minitorch.compile(step, verify=verify)
    return Contestant(step, cupy.cuda.Device().synchronize, look)


def reference(row: str) -> dict[str, Any]:
    """Return what the first steps give in float64, by PyTorch or, where that is not installed, minitorch."""
    if find_spec("torch") is not None:
        import torch as library
    else:
        import minitorch as library  # type: ignore[no-redef]
    step, look = step_of(library, row, wide=True)
    return {"shown": [shown(look(step())) for _ in range(STEPS)]}


# --- JAX ------------------------------------------------------------------------------------------------------


def jaxs(row: str) -> Contestant:
    """Return JAX's step."""
    import jax
    import jax.numpy as jnp

    if jax.default_backend() != DEVICE.replace("cuda", "gpu"):
        raise RuntimeError(f"JAX {jax.__version__} finds no GPU")
    given, targets = numbers(row)
    x, y = jnp.array(given), None if targets is None else jnp.array(targets)
    kept: dict[str, Any] = {}

    def wait() -> None:
        jax.block_until_ready(kept)

    def keeping(function: Any) -> Contestant:
        def step() -> Any:
            kept["out"] = None  # its memory may be used again
            kept["out"] = out = function(x, y)
            return out

        return Contestant(step, wait, lambda out: list(out) if isinstance(out, tuple) else [out])

    def entropy(scores: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), y[..., None], -1).mean()

    if row == "softmax":
        return keeping(jax.jit(lambda x, y: jax.nn.softmax(x, -1)))
    if row == "gelu":
        return keeping(jax.jit(lambda x, y: jax.nn.gelu(x, approximate=False) * 2 + jnp.tanh(x)))
    if row == "cross-entropy":
        return keeping(jax.jit(jax.value_and_grad(entropy)))
    halves = row == "block bfloat16"

    def linear(p: Any, name: str, x: Any) -> Any:
        weight, bias = p[f"{name}.weight"], p[f"{name}.bias"]
        if not halves:
            return x @ weight + bias
        return x.astype(jnp.bfloat16) @ weight.astype(jnp.bfloat16) + bias.astype(jnp.bfloat16)

    def normed(p: Any, name: str, x: Any) -> Any:
        x = x.astype(jnp.float32)
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]

    def block(p: Any, prefix: str, x: Any, heads: int) -> Any:
        batch, length, width = x.shape
        parts = jnp.split(linear(p, f"{prefix}attend", normed(p, f"{prefix}before", x)), 3, -1)
        q, k, v = (part.reshape(batch, length, heads, width // heads) for part in parts)
        how = "cudnn" if halves and DEVICE == "cuda" else None  # (which has it for halves alone)
        seen = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=how)
        x = x + linear(p, f"{prefix}out", seen.reshape(batch, length, width))
        inside = linear(p, f"{prefix}up", normed(p, f"{prefix}between", x))
        return x + linear(p, f"{prefix}down", jax.nn.gelu(inside, approximate=False))

    def loss(p: Any, x: Any, y: Any) -> Any:
        if row in LAYERS:
            return entropy(linear(p, "2", jax.nn.relu(linear(p, "0", x))), y)
        if row == "gpt":
            inside = p["tokens.weight"][x] + p["places.weight"]
            for number in range(DEPTH):
                inside = block(p, f"blocks.{number}.", inside, HEADS)
            return entropy(normed(p, "norm", inside) @ p["head.weight"], y)
        if row == "lstm":
            out = _jax_lstm(jax, jnp, p, x)
        elif row == "conv":
            out = jax.lax.conv_general_dilated(x, p["weight"], (1, 1), "SAME") + p["bias"][:, None, None]
        else:
            out = block(p, "", x, BLOCK_HEADS)
        return (out.astype(jnp.float32) ** 2).mean()

    # Matrices as JAX's layers have them: inputs × outputs.
    turned = {name: a.T if a.ndim == 2 and name[:6] not in ("tokens", "places") else a
              for name, a in weights(row).items()}  # fmt: skip
    p = {name: jnp.array(np.ascontiguousarray(a)) for name, a in turned.items()}
    kept["state"] = (p, *(jax.tree.map(jnp.zeros_like, p) for _ in range(2))) if row == "gpt" else p
    kept["steps"] = 0

    def moved(state: Any, x: Any, y: Any, steps: Any) -> Any:
        if row == "gpt":
            value, gradient = jax.value_and_grad(loss)(state[0], x, y)
            return value, _jax_adam(jax, jnp, state, gradient, steps, RATES[row])
        value, gradient = jax.value_and_grad(loss)(state, x, y)
        return value, jax.tree.map(lambda w, g: w - RATES.get(row, RATE) * g, state, gradient)

    compiled = jax.jit(moved, donate_argnums=0)

    def step() -> Any:
        kept["steps"] += 1
        value, kept["state"] = compiled(kept["state"], x, y, kept["steps"])
        return value

    return Contestant(step, wait)


def _jax_lstm(jax: Any, jnp: Any, p: Any, x: Any) -> Any:
    def cell(state: Any, now: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(now + h @ p["cell.weight_hh_l0"], 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    nothing = jnp.zeros(x.shape[1:])
    given = x @ p["cell.weight_ih_l0"] + p["cell.bias_ih_l0"] + p["cell.bias_hh_l0"]
    return jax.lax.scan(cell, (nothing, nothing), given)[1]


def _jax_adam(jax: Any, jnp: Any, state: Any, g: Any, t: Any, rate: float) -> Any:
    p, mean, square = state
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, g)
    square = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, square, g)

    def moved(w: Any, m: Any, v: Any) -> Any:
        return w * (1 - 0.01 * rate) - rate * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)

    return jax.tree.map(moved, p, mean, square), mean, square


# --- measuring ------------------------------------------------------------------------------------------------


def shown(results: list[Any]) -> list[list[float]]:
    """Return some elements of each of a step's results."""
    found = []
    for each in results:
        each = each.detach() if hasattr(each, "detach") else each
        flat = each.reshape(-1)
        few = flat[:: max(1, flat.shape[0] // SHOWN)]
        few = few.cpu().numpy() if hasattr(few, "cpu") else few.get() if hasattr(few, "get") else few
        found.append(np.asarray(few, np.float64).tolist()[:SHOWN])
    return found


def measured(contestant: Contestant, seconds: float) -> dict[str, Any]:
    """Return the median time of a step, device and all, and of the first call, and what the first steps gave."""
    step, wait = contestant.step, contestant.wait
    began = time.perf_counter()
    result = step()
    wait()
    first = time.perf_counter() - began
    seen = [*contestant.early, shown(contestant.look(result))]
    seen += [shown(contestant.look(step())) for _ in range(STEPS - len(seen))]
    del result
    step()
    wait()
    began = time.perf_counter()
    step()
    wait()
    runs = max(1, int(0.05 / max(time.perf_counter() - began, 1e-6)))
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        began = time.perf_counter()
        for _ in range(runs):
            step()
        wait()
        times.append((time.perf_counter() - began) / runs)
    return {"us": 1e6 * statistics.median(times), "first": first, "shown": seen}


def tell_steps(step: Any) -> None:
    """Print where a compiled step spends its time, kernel by kernel."""
    print(step.explain(), file=sys.stderr)
    for program in step.cache.all():
        tell_steps_of(program)


def tell_steps_of(program: Any, arguments: Sequence[Any] = ()) -> None:
    """Print where a program spends its time, kernel by kernel."""
    call = SimpleNamespace(arguments=arguments, script=[each.run() for each in program.recorded.script])
    program.runner.measure([source.read(call) for source in program.recorded.sources], 3)
    steps = sorted(program.runner.report.steps, key=lambda each: -each.seconds)
    total = sum(each.seconds for each in steps)
    print(f"{len(steps)} steps, {total * 1e6:.0f} us one by one", file=sys.stderr)
    for each in steps[:14]:
        words = ", ".join(each.values)[:110]
        print(f"{each.seconds * 1e6:9.1f} us {each.kind:9} {each.note:40} {words}", file=sys.stderr)


def prepared(contender: str, row: str, verify: bool) -> Contestant:
    """Return a row as a contender runs it."""
    if contender == "jax":
        return jaxs(row)
    if contender in ("compiled", "minitorch"):
        return minitorchs(contender, row, verify)
    return pytorchs(contender, row)


def forget() -> None:
    """Give a row's memory back to the device, and what was compiled for it, before the next one."""
    gc.collect()
    if "cupy" in sys.modules:
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()
    if "torch" in sys.modules:
        sys.modules["torch"].compiler.reset()
        sys.modules["torch"].cuda.empty_cache()
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contender", choices=CONTENDERS)
    parser.add_argument("rows", choices=ROWS, nargs="+", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--unverified", action="store_true", help="compile without comparing the first call")
    asked = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
    library = {"compiled": "minitorch", "minitorch": "minitorch", "jax": "jax"}.get(asked.contender, "torch")
    failed = False
    for row in asked.rows:
        contestant = None
        try:
            if asked.contender == "float64":
                answer: dict[str, Any] = reference(row)
            else:
                contestant = prepared(asked.contender, row, not asked.unverified)
                answer = measured(contestant, asked.seconds)
        except Exception as error:  # what it cannot do is an answer too, and the next row is asked
            traceback.print_exc()
            answer = {"error": (str(error).splitlines() or [type(error).__name__])[0]}
            failed = True
        version = getattr(sys.modules.get(library), "__version__", "")
        print(json.dumps({"row": row, "version": version, **answer}), flush=True)
        if asked.steps and asked.contender == "compiled" and "us" in answer:
            assert contestant is not None
            tell_steps(contestant.step)
        del contestant
        forget()
    sys.exit(failed)


if __name__ == "__main__":
    main()
