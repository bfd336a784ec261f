"""Eager ops on a GPU, by minitorch and by PyTorch. Enters: a GPU with both. Leaves: µs for each row, and the ratios.

    python benchmarks/eager_on_gpu.py [words that rows must hold]

Each row is one text, run by either library; medians of rounds that alternate, each of enough calls to last 20 ms,
waited for at its end.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
from typing import Any

ROUNDS = 7
# Rows of arrays that are measured in bfloat16 too.
IN_HALVES = (
    "add",
    "gelu",
    "gelu forward+backward",
    "softmax",
    "softmax forward+backward",
    "layer_norm",
    "cross_entropy forward+backward",
    "sum",
)


def rows(t: Any) -> dict[str, Any]:
    """Return what is measured, by name: functions that make a function of nothing."""
    f = t.nn.functional
    made: dict[str, Any] = {}

    def of_rows(shape: tuple[int, int], call: Any, **how: Any) -> Any:
        """Return what makes a row of arrays of a shape: x, y, one with a gradient, a scale, a shift, labels, ones."""

        def build() -> Any:
            t.manual_seed(0)
            like = {"device": "cuda", **how}
            x, y = t.randn(*shape, **like), t.randn(*shape, **like)
            wide = t.randn(*shape, **like).requires_grad_()
            scale, shift = t.ones(shape[1], **like), t.zeros(shape[1], **like)
            labels = t.randint(0, shape[1], (shape[0],), device="cuda")
            ones = t.ones(*shape, **like)
            return lambda: call(x, y, wide, scale, shift, labels, ones)

        return build

    calls: dict[str, Any] = {
        "add": lambda x, y, *_: x + y,
        "exp": lambda x, *_: x.exp(),
        "gelu": lambda x, *_: f.gelu(x),
        "gelu forward+backward": lambda x, y, wide, w, b, labels, g: f.gelu(wide).backward(g),
        "softmax": lambda x, *_: t.softmax(x, -1),
        "softmax forward+backward": lambda x, y, wide, w, b, labels, g: t.softmax(wide, -1).backward(g),
        "layer_norm": lambda x, y, wide, w, b, *_: f.layer_norm(x, x.shape[-1:], w, b),
        "cross_entropy": lambda x, y, wide, w, b, labels, _: f.cross_entropy(x, labels),
        "cross_entropy forward+backward": lambda x, y, wide, w, b, labels, _: f.cross_entropy(
            wide, labels
        ).backward(),
        "dropout forward+backward": lambda x, y, wide, w, b, labels, g: f.dropout(wide, 0.1).backward(g),
        "sum": lambda x, *_: x.sum(),
        "sum of rows": lambda x, *_: x.sum(dim=-1),
    }
    for size, shape in (("small", (60, 64)), ("large", (65536, 1024))):
        made |= {f"{name} {size}": of_rows(shape, call) for name, call in calls.items()}
        for name in IN_HALVES:
            made[f"{name} bfloat16 {size}"] = of_rows(shape, calls[name], dtype=t.bfloat16)

    def matmul(n: int, **how: Any) -> Any:
        a, b = (t.randn(n, n, device="cuda", **how) for _ in range(2))
        return lambda: a @ b

    def conv(n: int, image: int, backward: bool, **how: Any) -> Any:
        like = {"device": "cuda", **how}
        kernel = t.randn(64, 64, 3, 3, **like).requires_grad_(backward)
        images = t.randn(n, 64, image, image, **like).requires_grad_(backward)
        ones = t.ones(n, 64, image, image, **like)
        if backward:
            return lambda: f.conv2d(images, kernel, padding=1).backward(ones)
        return lambda: f.conv2d(images, kernel, padding=1)

    def convolutions(n: int, image: int) -> Any:
        layers = []
        for _ in range(4):
            layers += [t.nn.Conv2d(64, 64, 3, padding=1), t.nn.BatchNorm2d(64), t.nn.ReLU()]
        model = t.nn.Sequential(*layers).to("cuda")
        images = t.randn(n, 64, image, image, device="cuda")

        def run() -> None:
            with t.autocast("cuda", dtype=t.bfloat16):
                out = model(images)
            out.float().mean().backward()

        return run

    def attention(batch: int, length: int, backward: bool, **how: Any) -> Any:
        q, k, v = (
            t.randn(batch, 8, length, 64, device="cuda", **how).requires_grad_(backward) for _ in range(3)
        )
        ones = t.ones(batch, 8, length, 64, device="cuda", **how)
        call = functools.partial(f.scaled_dot_product_attention, q, k, v, is_causal=True)
        return (lambda: call().backward(ones)) if backward else call

    def encoder(batch: int, length: int, width: int) -> Any:
        """A step of two layers of an encoder: sequences are padded, some is dropped, and gradients are clipped."""
        layer = t.nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.1, batch_first=True)
        model = t.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to("cuda")
        x = t.randn(batch, length, width, device="cuda")
        padding = (t.arange(length, device="cuda") > length * 3 // 4).expand(batch, length).contiguous()
        optimizer = t.optim.AdamW(model.parameters())

        def step() -> None:
            optimizer.zero_grad()
            (model(x, src_key_padding_mask=padding) ** 2).mean().backward()
            t.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        return step

    def pooled(n: int, image: int) -> Any:
        """A step of a conv net with pooling, whose gradients are clipped."""
        layers = [t.nn.Conv2d(3, 64, 3, padding=1), t.nn.BatchNorm2d(64), t.nn.ReLU(), t.nn.MaxPool2d(2)]
        layers += [t.nn.Conv2d(64, 64, 3, padding=1), t.nn.ReLU(), t.nn.MaxPool2d(2)]
        layers += [t.nn.Flatten(), t.nn.Linear(64 * (image // 4) ** 2, 10)]
        model = t.nn.Sequential(*layers).to("cuda")
        images, labels = t.randn(n, 3, image, image, device="cuda"), t.randint(0, 10, (n,), device="cuda")
        optimizer = t.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

        def step() -> None:
            optimizer.zero_grad()
            f.cross_entropy(model(images), labels, label_smoothing=0.1).backward()
            t.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        return step

    def training(sizes: tuple[int, int, int], rows: int, whole: bool, half: Any = None) -> Any:
        inside, hidden, outside = sizes
        model = t.nn.Sequential(t.nn.Linear(inside, hidden), t.nn.ReLU(), t.nn.Linear(hidden, outside)).to(
            "cuda"
        )
        optimizer = t.optim.Adam(model.parameters(), lr=1e-3)
        batch = t.randn(rows, inside, device="cuda")
        classes = t.randint(0, outside, (rows,), device="cuda")
        scaler = t.amp.GradScaler("cuda", enabled=half == t.float16)

        def in_halves() -> None:
            optimizer.zero_grad()
            with t.autocast("cuda", dtype=half):
                loss = f.cross_entropy(model(batch), classes)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

        def plain() -> None:
            optimizer.zero_grad()
            f.cross_entropy(model(batch), classes).backward()
            optimizer.step()

        step = plain if half is None else in_halves
        step()
        return step if whole else optimizer.step

    for size, n in (("small", 64), ("large", 4096)):
        made[f"matmul {size}"] = functools.partial(matmul, n)
        made[f"matmul bfloat16 {size}"] = functools.partial(matmul, n, dtype=t.bfloat16)
    for size, n, image in (("small", 4, 8), ("large", 64, 56)):
        made[f"conv {size}"] = functools.partial(conv, n, image, False)
        made[f"conv forward+backward {size}"] = functools.partial(conv, n, image, True)
        made[f"conv forward+backward bfloat16 {size}"] = functools.partial(
            conv, n, image, True, dtype=t.bfloat16
        )
        made[f"4 conv, batch norm, relu forward+backward autocast bfloat16 {size}"] = functools.partial(
            convolutions, n, image
        )
    for size, n, length in (("small", 2, 64), ("large", 16, 1024)):
        for name, how in (("", {}), (" bfloat16", {"dtype": t.bfloat16})):
            made[f"attention{name} {size}"] = functools.partial(attention, n, length, False, **how)
            made[f"attention forward+backward{name} {size}"] = functools.partial(
                attention, n, length, True, **how
            )
    for size, n, length, width in (("small", 4, 32, 64), ("large", 16, 512, 512)):
        made[f"encoder step {size}"] = functools.partial(encoder, n, length, width)
    for size, n, image in (("small", 4, 16), ("large", 128, 32)):
        made[f"conv net step {size}"] = functools.partial(pooled, n, image)
    for size, sizes, count in (("small", (23, 64, 5), 60), ("large", (1024, 4096, 1000), 8192)):
        made[f"MLP step {size}"] = functools.partial(training, sizes, count, True)
        for half in ("bfloat16", "float16"):
            made[f"MLP step autocast {half} {size}"] = functools.partial(
                training, sizes, count, True, getattr(t, half)
            )
        made[f"Adam step {size}"] = functools.partial(training, sizes, count, False)
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
    print(f"{'µs':64}{'minitorch':>12}{'PyTorch':>12}{'ratio':>8}", flush=True)
    for name in mine:
        if not all(word in name for word in sys.argv[1:]):
            continue
        try:
            calls = mine[name](), theirs[name]()
            for _ in range(4):  # kernels are made
                calls[0]()
            rounds = [(timed(calls[0], waits[0]), timed(calls[1], waits[1])) for _ in range(ROUNDS)]
        except Exception as error:
            print(f"{name:64}{type(error).__name__}: {error}"[:150], flush=True)
            continue
        ours, other = (statistics.median(each) for each in zip(*rounds, strict=True))
        print(f"{name:64}{ours:12.1f}{other:12.1f}{ours / other:8.2f}", flush=True)


if __name__ == "__main__":
    main()
