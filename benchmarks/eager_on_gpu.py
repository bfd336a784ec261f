"""Eager ops on a GPU, by minitorch and by PyTorch. Enters: a GPU with both. Leaves: µs for each row, and the ratios.

    python benchmarks/eager_on_gpu.py [words that rows must hold]

Each row is one text, run by either library; medians of rounds that alternate, each of enough calls to last 20 ms,
waited for at its end.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any


def rows(t: Any) -> dict[str, Any]:
    """Return what is measured, by name: functions of nothing."""
    t.manual_seed(0)
    f = t.nn.functional
    made: dict[str, Any] = {}
    for size, shape in (("small", (60, 64)), ("large", (65536, 1024))):
        x, y = t.randn(*shape, device="cuda"), t.randn(*shape, device="cuda")
        wide = t.randn(*shape, device="cuda", requires_grad=True)
        scale, shift = t.ones(shape[1], device="cuda"), t.zeros(shape[1], device="cuda")
        labels = t.randint(0, shape[1], (shape[0],), device="cuda")
        seed = t.ones(*shape, device="cuda")
        made |= {
            f"add {size}": lambda x=x, y=y: x + y,
            f"exp {size}": lambda x=x: x.exp(),
            f"gelu {size}": lambda x=x: f.gelu(x),
            f"gelu forward+backward {size}": lambda x=wide, g=seed: f.gelu(x).backward(g),
            f"softmax {size}": lambda x=x: t.softmax(x, -1),
            f"softmax forward+backward {size}": lambda x=wide, g=seed: t.softmax(x, -1).backward(g),
            f"layer_norm {size}": lambda x=x, w=scale, b=shift: f.layer_norm(x, x.shape[-1:], w, b),
            f"cross_entropy {size}": lambda x=x, y=labels: f.cross_entropy(x, y),
            f"cross_entropy forward+backward {size}": lambda x=wide, y=labels: f.cross_entropy(
                x, y
            ).backward(),
            f"sum {size}": lambda x=x: x.sum(),
            f"sum of rows {size}": lambda x=x: x.sum(dim=-1),
        }
    for size, n in (("small", 64), ("large", 4096)):
        a, b = t.randn(n, n, device="cuda"), t.randn(n, n, device="cuda")
        made[f"matmul {size}"] = lambda a=a, b=b: a @ b
    for size, n, image in (("small", 4, 8), ("large", 64, 56)):
        kernel, images = t.randn(64, 64, 3, 3, device="cuda"), t.randn(n, 64, image, image, device="cuda")
        made[f"conv {size}"] = lambda x=images, w=kernel: f.conv2d(x, w, padding=1)
    for size, sizes in (("small", (23, 64, 5)), ("large", (1024, 4096, 1000))):
        inside, hidden, outside = sizes
        model = t.nn.Sequential(t.nn.Linear(inside, hidden), t.nn.ReLU(), t.nn.Linear(hidden, outside)).to(
            "cuda"
        )
        optimizer = t.optim.Adam(model.parameters(), lr=1e-3)
        batch = t.randn(60 if size == "small" else 8192, inside, device="cuda")
        classes = t.randint(0, outside, (batch.shape[0],), device="cuda")

        def step(model: Any = model, optimizer: Any = optimizer, x: Any = batch, y: Any = classes) -> None:
            optimizer.zero_grad()
            f.cross_entropy(model(x), y).backward()
            optimizer.step()

        step()
        made[f"MLP step {size}"] = step
        made[f"Adam step {size}"] = optimizer.step
    return made


def timed(call: Any, wait: Any) -> float:
    """Return the µs of one call."""
    call()
    wait()
    began = time.perf_counter()
    call()
    wait()
    count = max(3, min(2000, int(0.02 / (time.perf_counter() - began))))
    began = time.perf_counter()
    for _ in range(count):
        call()
    wait()
    return (time.perf_counter() - began) / count * 1e6


def main() -> None:
    """Measure and print."""
    import torch

    import minitorch

    mine, theirs = rows(minitorch), rows(torch)
    waits = (minitorch.cuda.synchronize, torch.cuda.synchronize)
    print(f"{'µs':38}{'minitorch':>12}{'PyTorch':>12}{'ratio':>8}", flush=True)
    for name in mine:
        if not all(word in name for word in sys.argv[1:]):
            continue
        try:
            for _ in range(4):  # kernels are made
                mine[name]()
            rounds = [(timed(mine[name], waits[0]), timed(theirs[name], waits[1])) for _ in range(3)]
        except Exception as error:
            print(f"{name:38}{type(error).__name__}: {error}"[:150], flush=True)
            continue
        ours, other = (statistics.median(each) for each in zip(*rounds, strict=True))
        print(f"{name:38}{ours:12.1f}{other:12.1f}{ours / other:8.2f}", flush=True)


if __name__ == "__main__":
    main()
