"""Training by several ranks, in minitorch and in PyTorch. Started by mpirun, from `minitorch bench --ranks`.

    mpirun -n 2 python benchmarks/ranks.py CONTENDER MODEL SECONDS

CONTENDER: minitorch (eager), compiled, or pytorch (its DDP, over gloo); with "alone" behind it, the same step without
DDP. MODEL: gpt or cnn. Rank 0 prints one line of JSON: the best seconds of a step, of one whose gradients stay here, of
the sums over ranks by themselves, and how much is sent. All contenders run the same lines.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BATCH = {"gpt": 16, "cnn": 64}


def gpt(m):
    nn, F = m.nn, m.nn.functional
    width, heads, length, characters, layers = 128, 4, 64, 64, 4

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            n, t, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).reshape(n, t, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (N, heads, T, width / heads)
            x = x + self.out(seen.transpose(1, 2).reshape(n, t, width))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.character, self.position = nn.Embedding(characters, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters)

        def forward(self, text):
            x = self.character(text) + self.position(m.arange(text.shape[1]))
            return self.head(self.norm(self.blocks(x))).flatten(0, 1)

    draws = np.random.default_rng(0)
    text = draws.integers(0, characters, (BATCH["gpt"], length + 1))
    return Gpt(), text[:, :-1].copy(), text[:, 1:].reshape(-1).copy()


def cnn(m):
    nn = m.nn
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 16, 128), nn.ReLU(),
        nn.Linear(128, 10),
    )  # fmt: skip
    draws = np.random.default_rng(0)
    images = draws.normal(size=(BATCH["cnn"], 1, 16, 16)).astype(np.float32)
    return net, images, draws.integers(0, 10, BATCH["cnn"])


def best(step, seconds, together):
    """Return the best seconds of a step; all ranks make equally many."""
    for _ in range(3):
        step()
    began = time.perf_counter()
    step()
    count = together(max(5, int(seconds / max(time.perf_counter() - began, 1e-5))))
    times = []
    for _ in range(count):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return float(np.quantile(times, 0.1))  # of many: the best ones, without the luckiest


def main(contender, model, seconds):
    contender, _, alone = contender.partition("-")
    if contender == "pytorch":
        import torch as m

        m.set_num_threads(1)
        rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
        place = Path(tempfile.gettempdir(), f"minitorch-bench-{os.getppid()}")
        m.distributed.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=size)
    else:
        import minitorch as m

        m.distributed.init_process_group("mpi")
    dist = m.distributed
    m.manual_seed(0)
    plain, inputs, targets = {"gpt": gpt, "cnn": cnn}[model](m)
    net = plain if alone else m.nn.parallel.DistributedDataParallel(plain)
    optimizer = m.optim.AdamW(plain.parameters(), lr=1e-3)
    x, y = m.tensor(inputs), m.tensor(targets)

    def step():
        optimizer.zero_grad()
        loss = m.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def step_here():
        optimizer.zero_grad()
        loss = m.nn.functional.cross_entropy(plain(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def together(count):
        agreed = m.tensor([count])
        dist.all_reduce(agreed, dist.ReduceOp.MIN)
        return int(agreed)

    if contender == "compiled":
        step, step_here = m.compile(step), m.compile(step_here)
    whole = best(step, seconds, together)
    numbers = sum(p.numel() for p in plain.parameters())
    flat = m.zeros(numbers)
    found = {
        "step": whole,
        "sum": best(lambda: dist.all_reduce(flat), seconds / 4, together)
        if dist.get_world_size() > 1
        else 0.0,
        "bytes": 4 * numbers,
        "samples": BATCH[model],
    }
    # Gradients that stay here: in a model of its own, as the wrapped one's are always averaged.
    plain, _, _ = {"gpt": gpt, "cnn": cnn}[model](m)
    optimizer = m.optim.AdamW(plain.parameters(), lr=1e-3)
    found["here"] = best(step_here, seconds, together)
    if contender != "pytorch" and dist.get_world_size() > 1 and model == "gpt" and not alone:
        found["sums"] = {}
        for n in (1, 1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22):
            flat = m.zeros(n)
            found["sums"][4 * n] = best(lambda flat=flat: dist.all_reduce(flat), seconds / 8, together)
    dist.barrier()
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
