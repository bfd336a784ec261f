"""What larger eager calls cost: minitorch beside PyTorch, row by row, where programs spend their time.

    python benchmarks/eager_rows.py [--rounds 5] [--threads 1] [--only WORD] [--json FILE]

Each row is a function or a layer at a size that people meet, forward and backward where it has a gradient. The
smallest time of all rounds counts; rounds alternate, each contender in a process of its own. minitorch is there twice:
with native kernels for large arrays (where llvmlite is installed), and by NumPy alone.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from typing import Any

import contest
import numpy as np

CONTENDERS = {"minitorch": "minitorch", "by NumPy": "minitorch", "PyTorch": "torch"}
WARM_SECONDS = 1.0
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def numbers(*shape: int, seed: int = 0, dtype: np.dtype = SINGLE) -> np.ndarray:
    """Return normally distributed numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def forward(call: Callable[..., Any], *shape: int, dtype: np.dtype = SINGLE) -> Callable[..., Any]:
    """A row that only computes."""

    def prepare(t: Any) -> Callable[[], Any]:
        x = t.tensor(numbers(*shape, dtype=dtype))
        return lambda: call(t, x)

    return prepare


def both(
    call: Callable[..., Any], *shape: int, dtype: np.dtype = SINGLE, turned: bool = False
) -> Callable[..., Any]:
    """A row that computes and differentiates, with respect to its input. turned: which lies the other way in memory."""

    def prepare(t: Any) -> Callable[[], Any]:
        x = t.tensor(numbers(*shape, dtype=dtype))
        x = (x.transpose(0, 1) if turned else x).requires_grad_()
        g = t.tensor(numbers(*call(t, x).shape, seed=1, dtype=dtype))

        def run() -> None:
            x.grad = None
            call(t, x).backward(g)

        return run

    return prepare


def layer(
    make: Callable[..., Any], *shape: int, first: bool = False, dtype: np.dtype = SINGLE
) -> Callable[..., Any]:
    """A row that runs a layer and differentiates, with respect to its input and its parameters."""

    def prepare(t: Any) -> Callable[[], Any]:
        t.manual_seed(0)
        module = make(t)
        x = t.tensor(numbers(*shape, dtype=dtype), requires_grad=True)
        call = (lambda: module(x)[0]) if first else (lambda: module(x))
        g = t.tensor(numbers(*call().shape, seed=1, dtype=dtype))

        def run() -> None:
            x.grad = None
            for p in module.parameters():
                p.grad = None
            call().backward(g)

        return run

    return prepare


def classes(count: int, width: int) -> Callable[..., Any]:
    """A row of the loss of a classifier, and its gradient."""

    def prepare(t: Any) -> Callable[[], Any]:
        x = t.tensor(numbers(count, width), requires_grad=True)
        y = t.tensor(np.random.default_rng(0).integers(0, width, count))

        def run() -> None:
            x.grad = None
            t.nn.functional.cross_entropy(x, y).backward()

        return run

    return prepare


def embedding(words: int, width: int, count: int) -> Callable[..., Any]:
    """A row of rows taken from a table, and its gradient."""

    def prepare(t: Any) -> Callable[[], Any]:
        table = t.tensor(numbers(words, width), requires_grad=True)
        ids = t.tensor(np.random.default_rng(0).integers(0, words, count))
        g = t.tensor(numbers(count, width, seed=1))

        def run() -> None:
            table.grad = None
            t.nn.functional.embedding(ids, table).backward(g)

        return run

    return prepare


def optimiser(make: Callable[..., Any], *shape: int, count: int = 1) -> Callable[..., Any]:
    """A row that takes steps of an optimiser."""

    def prepare(t: Any) -> Callable[[], Any]:
        parameters = [t.nn.Parameter(t.tensor(numbers(*shape, seed=i))) for i in range(count)]
        for i, p in enumerate(parameters):
            g = t.tensor(numbers(*shape, seed=i + 100))
            p.grad = g.numpy() if t.__name__ == "minitorch" else g
        return make(t, parameters).step

    return prepare


def gpt(t: Any) -> Callable[[], Any]:
    """A row that trains a small GPT: 4 blocks of width 128, 4 heads, 64 tokens, a batch of 16."""
    nn, F = t.nn, t.nn.functional
    width, heads, length, batch, words = 128, 4, 64, 16, 65

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            n, k, c = x.shape
            q, key, v = self.qkv(self.ln1(x)).split(width, dim=2)
            q, key, v = (a.view(n, k, heads, c // heads).transpose(1, 2) for a in (q, key, v))
            y = F.scaled_dot_product_attention(q, key, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(n, k, c))
            return x + self.down(F.gelu(self.up(self.ln2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(4)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, ids: Any) -> Any:
            x = self.tokens(ids) + self.places(t.arange(length))
            return self.head(self.norm(self.blocks(x)))

    t.manual_seed(0)
    model = GPT()
    adam = t.optim.AdamW(model.parameters(), lr=1e-3)
    ids = t.tensor(np.random.default_rng(0).integers(0, words, (batch, length + 1)))

    def step() -> None:
        adam.zero_grad()
        loss = F.cross_entropy(model(ids[:, :-1]).reshape(-1, words), ids[:, 1:].reshape(-1))
        loss.backward()
        adam.step()

    return step


def net(t: Any) -> Callable[[], Any]:
    """A row that trains a small convolutional network with batch normalisation and depthwise convolutions."""
    nn, F = t.nn, t.nn.functional
    t.manual_seed(0)

    def stage(inside: int, outside: int, stride: int) -> list[Any]:
        return [
            nn.Conv2d(inside, inside, 3, stride, 1, groups=inside, bias=False), nn.BatchNorm2d(inside), nn.ReLU(),
            nn.Conv2d(inside, outside, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(),
        ]  # fmt: skip

    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        *stage(32, 64, 2), *stage(64, 128, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    sgd = t.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = t.tensor(numbers(16, 3, 32, 32)), t.tensor(np.arange(16) % 10)

    def step() -> None:
        sgd.zero_grad()
        F.cross_entropy(model(x), y).backward()
        sgd.step()

    return step


ROWS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "erf 1M": forward(lambda t, x: t.erf(x), 1024, 1024),
    "erf 1M, backward": both(lambda t, x: t.erf(x), 1024, 1024),
    "erfc 1M": forward(lambda t, x: t.erfc(x), 1024, 1024),
    "gelu 1M": forward(lambda t, x: t.nn.functional.gelu(x), 1024, 1024),
    "gelu 1M, backward": both(lambda t, x: t.nn.functional.gelu(x), 1024, 1024),
    "gelu tanh 1M, backward": both(lambda t, x: t.nn.functional.gelu(x, approximate="tanh"), 1024, 1024),
    "silu 1M, backward": both(lambda t, x: t.nn.functional.silu(x), 1024, 1024),
    "tanh 1M, backward": both(lambda t, x: t.tanh(x), 1024, 1024),
    "sigmoid 1M, backward": both(lambda t, x: t.sigmoid(x), 1024, 1024),
    "softplus 1M, backward": both(lambda t, x: t.nn.functional.softplus(x), 1024, 1024),
    "softmax 1024×1024, backward": both(lambda t, x: t.softmax(x, -1), 1024, 1024),
    "log_softmax 1024×1024, backward": both(lambda t, x: t.log_softmax(x, -1), 1024, 1024),
    "sort 100k": forward(lambda t, x: t.sort(x), 100_000),
    "sort 1000×1000": forward(lambda t, x: t.sort(x, dim=1), 1000, 1000),
    "sort 1000×1000, descending": forward(lambda t, x: t.sort(x, dim=1, descending=True), 1000, 1000),
    "sort 1000×1000, first axis": forward(lambda t, x: t.sort(x, dim=0), 1000, 1000),
    "argsort 100k": forward(lambda t, x: t.argsort(x), 100_000),
    "topk 10 of 100k": forward(lambda t, x: t.topk(x, 10), 100_000),
    "topk 5 of 1000×1000": forward(lambda t, x: t.topk(x, 5, dim=1), 1000, 1000),
    "kthvalue of 1000×1000": forward(lambda t, x: t.kthvalue(x, 500, dim=1), 1000, 1000),
    "median of 1000×1000": forward(lambda t, x: t.median(x, dim=1), 1000, 1000),
    "depthwise 3×3, 16×64×32×32": layer(lambda t: t.nn.Conv2d(64, 64, 3, padding=1, groups=64), 16, 64, 32, 32),
    "depthwise 3×3 stride 2": layer(
        lambda t: t.nn.Conv2d(64, 64, 3, stride=2, padding=1, groups=64), 16, 64, 32, 32
    ),
    "depthwise 7×7, 8×96×28×28": layer(lambda t: t.nn.Conv2d(96, 96, 7, padding=3, groups=96), 8, 96, 28, 28),
    "groups of 8, 16×64×32×32": layer(lambda t: t.nn.Conv2d(64, 64, 3, padding=1, groups=8), 16, 64, 32, 32),
    "conv 3×3, 16×64×32×32": layer(lambda t: t.nn.Conv2d(64, 64, 3, padding=1), 16, 64, 32, 32),
    "LSTM 128, 32 steps of 32": layer(lambda t: t.nn.LSTM(128, 128), 32, 32, 128, first=True),
    "GRU 128, 32 steps of 32": layer(lambda t: t.nn.GRU(128, 128), 32, 32, 128, first=True),
    "RNN 128, 32 steps of 32": layer(lambda t: t.nn.RNN(128, 128), 32, 32, 128, first=True),
    "LSTM 32, 32 steps of 8": layer(lambda t: t.nn.LSTM(32, 32), 32, 8, 32, first=True),
    "GPT, a step of training": gpt,
    "depthwise net, a step of training": net,
    "Adam, 1M in one": optimiser(lambda t, p: t.optim.Adam(p), 1_000_000),
    "AdamW, 1M in 20": optimiser(lambda t, p: t.optim.AdamW(p), 50_000, count=20),
    "SGD, 1M in one": optimiser(lambda t, p: t.optim.SGD(p, lr=1e-3), 1_000_000),
    "SGD momentum, 1M in one": optimiser(lambda t, p: t.optim.SGD(p, lr=1e-3, momentum=0.9), 1_000_000),
    "interpolate bilinear ×2": both(
        lambda t, x: t.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"), 8, 16, 64, 64
    ),
    "interpolate nearest ×2": both(lambda t, x: t.nn.functional.interpolate(x, scale_factor=2), 8, 16, 64, 64),
    "interpolate bicubic ×2": both(
        lambda t, x: t.nn.functional.interpolate(x, scale_factor=2, mode="bicubic"), 8, 16, 64, 64
    ),
    "BatchNorm2d, 32×64×32×32": layer(lambda t: t.nn.BatchNorm2d(64), 32, 64, 32, 32),
    "BatchNorm2d eval": layer(lambda t: t.nn.BatchNorm2d(64).eval(), 32, 64, 32, 32),
    "LayerNorm, 1024×1024": layer(lambda t: t.nn.LayerNorm(1024), 1024, 1024),
    "max_pool 2, 32×64×32×32": both(lambda t, x: t.nn.functional.max_pool2d(x, 2), 32, 64, 32, 32),
    "relu 1M, backward": both(lambda t, x: t.relu(x), 1024, 1024),
    "mul of 4": forward(lambda t, x: x * x, 4),
    "add of 3, backward": both(lambda t, x: x + x, 3),
    "relu 10": forward(lambda t, x: t.relu(x), 10),
    "relu 10, backward": both(lambda t, x: t.relu(x), 10),
    **{
        f"{name} {size}, backward": both(call, *shape, **how)
        for name, call in (
            ("gelu", lambda t, x: t.nn.functional.gelu(x)),
            ("silu", lambda t, x: t.nn.functional.silu(x)),
            ("relu", lambda t, x: t.relu(x)),
        )
        for size, shape, how in (
            ("1k", (32, 32), {}),
            ("16k", (128, 128), {}),
            ("128k", (256, 512), {}),
            ("1M float64", (1024, 1024), {"dtype": DOUBLE}),
            ("1M turned", (1024, 1024), {"turned": True}),
        )
    },
    "leaky_relu 1M, backward": both(lambda t, x: t.nn.functional.leaky_relu(x, 0.1), 1024, 1024),
    "elu 1M, backward": both(lambda t, x: t.nn.functional.elu(x), 1024, 1024),
    "hardswish 1M, backward": both(lambda t, x: t.nn.functional.hardswish(x), 1024, 1024),
    "exp 1M, backward": both(lambda t, x: t.exp(x), 1024, 1024),
    "x·x+x 1M, backward": both(lambda t, x: x * x + x, 1024, 1024),
    "sum 1M, backward": both(lambda t, x: x.sum(), 1024, 1024),
    "mean of rows 1M, backward": both(lambda t, x: x.mean(-1), 1024, 1024),
    "dropout 1M, backward": both(lambda t, x: t.nn.functional.dropout(x, 0.1), 1024, 1024),
    "softmax 64×10, backward": both(lambda t, x: t.softmax(x, -1), 64, 10),
    "softmax 8×16×64×64, backward": both(lambda t, x: t.softmax(x, -1), 8, 16, 64, 64),
    "softmax 1024×1024 float64, backward": both(lambda t, x: t.softmax(x, -1), 1024, 1024, dtype=DOUBLE),
    "softmax 1024×1024, first axis, backward": both(lambda t, x: t.softmax(x, 0), 1024, 1024),
    "cross_entropy 1024×1000, backward": classes(1024, 1000),
    "cross_entropy 4096×65, backward": classes(4096, 65),
    "cross_entropy 64×10, backward": classes(64, 10),
    "embedding 4096 of 10k×128": embedding(10_000, 128, 4096),
    "embedding 1024 of 65×128": embedding(65, 128, 1024),
    "GroupNorm 8, 16×64×32×32": layer(lambda t: t.nn.GroupNorm(8, 64), 16, 64, 32, 32),
    "BatchNorm2d, 8×16×8×8": layer(lambda t: t.nn.BatchNorm2d(16), 8, 16, 8, 8),
    "BatchNorm1d, 1024×256": layer(lambda t: t.nn.BatchNorm1d(256), 1024, 256),
    "LayerNorm, 16×64×128": layer(lambda t: t.nn.LayerNorm(128), 16, 64, 128),
    "LayerNorm, 1024×1024 float64": layer(lambda t: t.nn.LayerNorm(1024).double(), 1024, 1024, dtype=DOUBLE),
    "max_pool 3 stride 2, 16×64×32×32": both(
        lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1), 16, 64, 32, 32
    ),
    "avg_pool 2, 32×64×32×32": both(lambda t, x: t.nn.functional.avg_pool2d(x, 2), 32, 64, 32, 32),
    "adaptive_avg_pool 1, 32×64×32×32": both(
        lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 1), 32, 64, 32, 32
    ),
    "conv 1×1, 16×64×32×32": layer(lambda t: t.nn.Conv2d(64, 64, 1), 16, 64, 32, 32),
    "conv 3×3 stride 2, 16×64×32×32": layer(
        lambda t: t.nn.Conv2d(64, 64, 3, stride=2, padding=1), 16, 64, 32, 32
    ),
    "conv 5×5, 32×1×28×28": layer(lambda t: t.nn.Conv2d(1, 8, 5), 32, 1, 28, 28),
    "conv1d 3, 32×64×256": layer(lambda t: t.nn.Conv1d(64, 64, 3, padding=1), 32, 64, 256),
    "conv1d depthwise 4, 8×256×128": layer(
        lambda t: t.nn.Conv1d(256, 256, 4, padding=3, groups=256), 8, 256, 128
    ),
    "conv_transpose 4 stride 2, 16×64×16×16": layer(
        lambda t: t.nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1), 16, 64, 16, 16
    ),
    "depthwise 3×3, 1×32×16×16": layer(lambda t: t.nn.Conv2d(32, 32, 3, padding=1, groups=32), 1, 32, 16, 16),
    "groups of 4, 8×32×16×16": layer(lambda t: t.nn.Conv2d(32, 32, 3, padding=1, groups=8), 8, 32, 16, 16),
    "GRU 32, 32 steps of 8": layer(lambda t: t.nn.GRU(32, 32), 32, 8, 32, first=True),
    "LSTM 256, 16 steps of 64": layer(lambda t: t.nn.LSTM(256, 256), 16, 64, 256, first=True),
    "LSTM 128 twice, both ways": layer(
        lambda t: t.nn.LSTM(128, 128, 2, bidirectional=True), 16, 32, 128, first=True
    ),
    "RMSprop, 1M in one": optimiser(lambda t, p: t.optim.RMSprop(p), 1_000_000),
    "AdamW, 1M in one": optimiser(lambda t, p: t.optim.AdamW(p), 1_000_000),
    "Adam, 50 of 100": optimiser(lambda t, p: t.optim.Adam(p), 100, count=50),
    "SGD, 50 of 100": optimiser(lambda t, p: t.optim.SGD(p, lr=1e-3), 100, count=50),
    "SGD decay, 1M in 20": optimiser(
        lambda t, p: t.optim.SGD(p, lr=1e-3, momentum=0.9, weight_decay=1e-4), 50_000, count=20
    ),
    "interpolate nearest ×2, 16×64×16×16": both(
        lambda t, x: t.nn.functional.interpolate(x, scale_factor=2), 16, 64, 16, 16
    ),
    "interpolate bilinear to 100, 8×3×64×64": both(
        lambda t, x: t.nn.functional.interpolate(x, size=(100, 100), mode="bilinear"), 8, 3, 64, 64
    ),
    "sort 64×64": forward(lambda t, x: t.sort(x), 64, 64),
    "sort 10k×32": forward(lambda t, x: t.sort(x), 10_000, 32),
    "sort 1M": forward(lambda t, x: t.sort(x), 1_000_000),
    "sort 1M float64": forward(lambda t, x: t.sort(x), 1_000_000, dtype=DOUBLE),
    "argsort 1000×1000": forward(lambda t, x: t.argsort(x), 1000, 1000),
    "topk 50 of 64×50k": forward(lambda t, x: t.topk(x, 50), 64, 50_000),
    "topk 2 of 4096×64": forward(lambda t, x: t.topk(x, 2), 4096, 64),
    "topk 500 of 1000×1000": forward(lambda t, x: t.topk(x, 500), 1000, 1000),
}  # fmt: skip


def work(name: str) -> None:
    """Be the process of one contender."""
    version = contest.version(CONTENDERS[name])
    if version is None:
        contest.serve(None, lambda task: 0.0)
        return
    library = importlib.import_module(CONTENDERS[name])
    threads = int(os.environ["OMP_NUM_THREADS"])
    if name == "PyTorch":
        library.set_num_threads(threads)
    elif name == "by NumPy":
        library.set_native_ops(False)
    # With one thread the processor's time is the time, less what other processes took of the machine.
    clock = time.process_time if threads == 1 else time.perf_counter
    warm: set[str] = set()

    def perform(row: str) -> float:
        function = ROWS[row](library)
        started = time.perf_counter()
        while name == "minitorch" and row not in warm and time.perf_counter() - started < WARM_SECONDS:
            function()  # until there are kernels: they are made of what has met many elements
        warm.add(row)
        return contest.seconds_per_call(function, 0.01, 5, clock)

    contest.serve(version, perform)


def main() -> None:
    """Hold the contest, or be one of its workers."""
    parser = contest.parser(__doc__.splitlines()[0], rounds=5)
    parser.add_argument("--only", default="", help="rows that have this word, or one of several (a;b)")
    parser.add_argument("--threads", type=int, default=1, help="of each contender (default %(default)s)")
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return
    rows = [row for row in ROWS if any(word in row for word in options.only.split(";"))]
    versions, times = contest.hold(__file__, CONTENDERS, rows, options.rounds, options.threads)
    print(contest.machine())
    print(f"{'ms':<42}{'minitorch':>11}{'by NumPy':>11}{'PyTorch':>11}{'ratio':>8}{'ratio':>8}")
    for row, rounds in times.items():
        ours, plain, theirs = (min(rounds[name]) * 1e3 for name in CONTENDERS)
        print(f"{row:<42}{ours:11.3f}{plain:11.3f}{theirs:11.3f}{ours / theirs:8.2f}{plain / theirs:8.2f}")
    contest.save(options.json, versions, times)


if __name__ == "__main__":
    main()
