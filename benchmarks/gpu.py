"""Training steps on a GPU, one contender in this process: what `minitorch bench --device cuda` asks.

    python benchmarks/gpu.py CONTENDER ROW... [--seconds 1] [--steps]

Prints one line of JSON for each row: `us`, the median microseconds per step, and `first`, the seconds of the first
call; or `error`. Products of float32 may round their factors to TF32 in all contenders alike. --steps: where a compiled
step spends its time.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

CONTENDERS = ("compiled", "minitorch", "pytorch", "torch.compile", "pytorch graph", "jax")
LAYERS = {"grammar": (60, 23, 64, 5), "digits": (128, 64, 256, 10), "wide": (8192, 1024, 4096, 1000)}
ROWS = (*LAYERS, "block", "block bfloat16", "gpt", "lstm", "conv", "cross-entropy", "softmax", "gelu")
TOKENS, WIDTH, DEPTH, HEADS = 50257, 512, 6, 8


def numbers(row: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Return what a step is given: inputs, and targets where there are some."""
    random = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        # (Some millions are drawn, and repeated: all of them would take longer than what is measured.)
        some = random.standard_normal(min(int(np.prod(shape)), (1 << 22) + 1), dtype=np.float32)
        return np.resize(some, shape)

    if row in LAYERS:
        rows, width, _, classes = LAYERS[row]
        return normal(rows, width), random.integers(0, classes, rows)
    if row == "gpt":
        return random.integers(0, TOKENS, (8, 512)), random.integers(0, TOKENS, (8, 512))
    if row == "cross-entropy":
        return normal(8192, TOKENS), random.integers(0, TOKENS, 8192)
    shapes = {"lstm": (64, 128, 256), "conv": (256, 64, 56, 56), "softmax": (65536, 1024), "gelu": (1 << 28,)}
    return normal(*shapes.get(row, (16, 1024, 768))), None


# --- PyTorch, and minitorch in its place ----------------------------------------------------------------------


def step_of(torch: Any, row: str) -> Any:
    """Return a row's step."""
    given, targets = numbers(row)
    x = torch.tensor(given).to("cuda")
    y = None if targets is None else torch.tensor(targets).to("cuda")
    if row == "cross-entropy":
        x.requires_grad_()
    step = step_on(torch, row)
    return lambda: step(x, y)


def step_on(torch: Any, row: str) -> Any:
    """Return a row's step, as one writes it for PyTorch: a function of inputs and targets."""
    nn, functional = torch.nn, torch.nn.functional
    torch.manual_seed(0)
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
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(512, WIDTH)
            self.blocks = nn.Sequential(*(Block(WIDTH, HEADS) for _ in range(DEPTH)))
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)
            self.register_buffer("order", torch.arange(512))

        def forward(self, tokens: Any) -> Any:
            places = self.places(self.order[: tokens.shape[1]])
            return self.head(self.norm(self.blocks(self.tokens(tokens) + places)))

    class Lstm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTM(256, 256)

        def forward(self, x: Any) -> Any:
            return self.cell(x)[0]

    if row in LAYERS:
        _, width, hidden, classes = LAYERS[row]
        model = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))
    elif row == "gpt":
        model = Gpt()
    elif row == "lstm":
        model = Lstm()
    elif row == "conv":
        model = nn.Conv2d(64, 64, 3, padding=1)
    else:
        model = Block(768, 12)
    model = model.to("cuda")
    kind = torch.optim.AdamW if row == "gpt" else torch.optim.SGD
    optimizer = kind(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        if row == "block bfloat16":
            with torch.autocast("cuda", dtype=torch.bfloat16):
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


def in_a_graph(torch: Any, step: Any) -> Any:
    """Return PyTorch's whole step captured as one CUDA graph."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def pytorchs(contender: str, row: str) -> tuple[Any, Any]:
    """Return PyTorch's step, and how to wait for it."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    step = step_of(torch, row)
    if contender == "torch.compile":
        return torch.compile(step), torch.cuda.synchronize
    if contender == "pytorch graph":
        captured: list[Any] = []

        def replay() -> None:
            if not captured:  # (a part of the first call)
                captured.append(in_a_graph(torch, step))
            captured[0]()

        return replay, torch.cuda.synchronize
    return step, torch.cuda.synchronize


def minitorchs(contender: str, row: str, verify: bool = True) -> tuple[Any, Any]:
    """Return minitorch's step, and how to wait for it."""
    import cupy

    import minitorch

    minitorch.backends.cuda.matmul.allow_tf32 = True
    step = step_of(minitorch, row)
    if contender == "compiled":
        step = minitorch.compile(step, verify=verify)
    return step, cupy.cuda.Device().synchronize


# --- JAX ------------------------------------------------------------------------------------------------------


def jaxs(row: str) -> tuple[Any, Any]:
    """Return JAX's step, and how to wait for it."""
    import jax
    import jax.numpy as jnp

    given, targets = numbers(row)
    random = np.random.default_rng(2)
    x, y = jnp.array(given), None if targets is None else jnp.array(targets)
    kept: dict[str, Any] = {}

    def weights(*shape: int) -> Any:
        return jnp.array(random.standard_normal(shape, dtype=np.float32) * 0.05)

    def keeping(function: Any) -> tuple[Any, Any]:
        return lambda: kept.update(out=function(x, y)), lambda: jax.block_until_ready(kept["out"])

    def entropy(scores: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), y[..., None], -1).mean()

    if row == "softmax":
        return keeping(jax.jit(lambda x, y: jax.nn.softmax(x, -1)))
    if row == "gelu":
        return keeping(jax.jit(lambda x, y: jax.nn.gelu(x, approximate=False) * 2 + jnp.tanh(x)))
    if row == "cross-entropy":
        return keeping(jax.jit(jax.value_and_grad(entropy)))

    def normed(x: Any, gain: Any, shift: Any) -> Any:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * gain + shift

    def block(p: Any, x: Any, heads: int) -> Any:
        batch, length, width = x.shape
        parts = jnp.split(normed(x, p["g1"], p["b1"]) @ p["wa"] + p["ba"], 3, -1)
        q, k, v = (part.reshape(batch, length, heads, width // heads) for part in parts)
        seen = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(batch, length, width)
        x = x + seen @ p["wo"] + p["bo"]
        inside = jax.nn.gelu(normed(x, p["g2"], p["b2"]) @ p["wu"] + p["bu"], approximate=False)
        return x + inside @ p["wd"] + p["bd"]

    def of_block(n: int) -> dict[str, Any]:
        shapes = {"wa": (n, 3 * n), "wo": (n, n), "wu": (n, 4 * n), "wd": (4 * n, n)}
        zeros = {"ba": 3 * n, "bo": n, "bu": 4 * n, "bd": n, "b1": n, "b2": n}
        made = {name: weights(*shape) for name, shape in shapes.items()}
        return (
            made | {name: jnp.zeros(m) for name, m in zeros.items()} | {g: jnp.ones(n) for g in ("g1", "g2")}
        )

    if row in LAYERS:
        _, width, hidden, classes = LAYERS[row]
        p: Any = [weights(width, hidden), jnp.zeros(hidden), weights(hidden, classes), jnp.zeros(classes)]

        def loss(p: Any, x: Any, y: Any) -> Any:
            return entropy(jax.nn.relu(x @ p[0] + p[1]) @ p[2] + p[3], y)

    elif row == "gpt":
        p = {"t": weights(TOKENS, WIDTH), "s": weights(512, WIDTH), "h": weights(WIDTH, TOKENS)}
        p |= {"g": jnp.ones(WIDTH), "b": jnp.zeros(WIDTH), "blocks": [of_block(WIDTH) for _ in range(DEPTH)]}

        def loss(p: Any, x: Any, y: Any) -> Any:
            inside = p["t"][x] + p["s"]
            for each in p["blocks"]:
                inside = block(each, inside, HEADS)
            return entropy(normed(inside, p["g"], p["b"]) @ p["h"], y)

        return _jax_adam(jax, jnp, loss, p, x, y)
    elif row == "lstm":
        p = {"w": weights(256, 1024), "u": weights(256, 1024), "b": jnp.zeros(1024)}

        def loss(p: Any, x: Any, y: Any) -> Any:
            def cell(state: Any, now: Any) -> Any:
                h, c = state
                i, f, g, o = jnp.split(now + h @ p["u"], 4, -1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
                return (h, c), h

            nothing = jnp.zeros((x.shape[1], 256))
            return (jax.lax.scan(cell, (nothing, nothing), x @ p["w"] + p["b"])[1] ** 2).mean()

    elif row == "conv":
        p = {"w": weights(64, 64, 3, 3), "b": jnp.zeros((64, 1, 1))}

        def loss(p: Any, x: Any, y: Any) -> Any:
            return ((jax.lax.conv_general_dilated(x, p["w"], (1, 1), "SAME") + p["b"]) ** 2).mean()

    else:
        p = of_block(768)

        def loss(p: Any, x: Any, y: Any) -> Any:
            return (block(p, x, 12) ** 2).mean()

    def descended(p: Any, x: Any, y: Any) -> Any:
        return jax.tree.map(lambda w, g: w - 1e-3 * g, p, jax.grad(loss)(p, x, y))

    step = jax.jit(descended, donate_argnums=0)
    kept["p"] = p
    return lambda: kept.update(p=step(kept["p"], x, y)), lambda: jax.block_until_ready(kept["p"])


def _jax_adam(jax: Any, jnp: Any, loss: Any, p: Any, x: Any, y: Any) -> tuple[Any, Any]:
    def adam(state: Any, t: Any) -> Any:
        p, mean, square = state
        g = jax.grad(loss)(p, x, y)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, g)
        square = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, square, g)

        def moved(w: Any, m: Any, v: Any) -> Any:
            return w * (1 - 1e-5) - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)

        return jax.tree.map(moved, p, mean, square), mean, square

    step = jax.jit(adam, donate_argnums=0)
    zeros = jax.tree.map(jnp.zeros_like, p)
    kept = {"state": (p, zeros, jax.tree.map(jnp.zeros_like, p)), "t": 1.0}

    def one() -> None:
        kept.update(state=step(kept["state"], kept["t"]), t=kept["t"] + 1)

    return one, lambda: jax.block_until_ready(kept["state"])


# --- measuring ------------------------------------------------------------------------------------------------


def measured(step: Any, wait: Any, seconds: float) -> dict[str, float]:
    """Return the median time of a step, device and all, and of the first call."""
    began = time.perf_counter()
    step()
    wait()
    first = time.perf_counter() - began
    for _ in range(4):
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
    return {"us": 1e6 * statistics.median(times), "first": first}


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


def prepared(contender: str, row: str, verify: bool) -> tuple[Any, Any]:
    """Return a contender's step, and how to wait for it."""
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
        step = wait = None
        try:
            step, wait = prepared(asked.contender, row, not asked.unverified)
            answer: dict[str, Any] = measured(step, wait, asked.seconds)
        except Exception as error:  # what it cannot do is an answer too, and the next row is asked
            traceback.print_exc()
            answer = {"error": (str(error).splitlines() or [type(error).__name__])[0]}
            failed = True
        version = getattr(sys.modules.get(library), "__version__", "")
        print(json.dumps({"row": row, "version": version, **answer}), flush=True)
        if asked.steps and asked.contender == "compiled" and "us" in answer:
            tell_steps(step)
        del step, wait
        forget()
    sys.exit(failed)


if __name__ == "__main__":
    main()
