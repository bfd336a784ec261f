"""Training by ranks beside the same training by one: run by tests/distributed/test_training.py.

Every rank does both, so that each sees whether its own weights are the one rank's. In float64 to 1e-12, in float32 to
1e-5, after 50 steps.
"""

import functools
import sys

import numpy as np

import minitorch as torch
import minitorch.distributed as dist
from minitorch import nn
from minitorch.distributed.shards import drawn_together, shard_of
from minitorch.nn import functional as F
from minitorch.nn.parallel import DistributedDataParallel

STEPS, ROWS = 50, 12


class Gpt(nn.Module):
    """A small language model; the weights of its first and its last layer are one."""

    def __init__(self, tied):
        super().__init__()
        self.embedding = nn.Embedding(7, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, bias=False)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 7, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, text):
        x = self.embedding(text)
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1]).to(x.dtype)
        seen, _ = self.attention(x, x, x, attn_mask=mask, need_weights=False)
        return self.head(self.norm(x + seen))


def mlp():
    return nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.3), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3)
    )


def plain_mlp():
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 3),
    )


def data(kind, dtype):
    draws = np.random.default_rng(0)
    labels = draws.integers(0, 3, (STEPS, ROWS))
    if kind == "gpt":
        text = draws.integers(0, 7, (STEPS, ROWS, 6))
        return text[..., :-1], text[..., 1:]
    shape = (6, 6) if kind == "cnn" else ()
    return draws.normal(size=(STEPS, ROWS, 1, *shape) if shape else (STEPS, ROWS, 6)).astype(dtype), labels


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2)


def train(net, make, inputs, targets, shards, clip=None, compiled=False):
    """Train on parts of all batches; return the losses."""
    optimizer = make(net.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x).flatten(0, -2), y.flatten())
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        return loss

    run = torch.compile(step, fullgraph=True) if compiled else step
    found = []
    for x, y, shard in zip(inputs, targets, shards, strict=True):
        rows = slice(shard.first, shard.first + shard.mine)
        with drawn_together(shard):
            found.append(run(torch.tensor(x[rows]), torch.tensor(y[rows])).item())
    return np.array(found)


def accumulate(net, make, inputs, targets, shards, pieces):
    """As train, with gradients of several pieces added up before they are averaged."""
    optimizer = make(net.parameters())
    many = isinstance(net, DistributedDataParallel)
    found = []
    for x, y, shard in zip(inputs, targets, shards, strict=True):
        optimizer.zero_grad()
        total = 0.0
        for i in range(pieces):
            # One rank's piece i is what all ranks' pieces i are together.
            width = shard.mine // pieces
            start = i * (shard.total // pieces) + (shard.first // pieces if many else 0)
            rows = slice(start, start + (width if many else shard.total // pieces))
            quiet = many and i < pieces - 1
            with net.no_sync() if quiet else torch.enable_grad():
                loss = F.cross_entropy(net(torch.tensor(x[rows])), torch.tensor(y[rows])) / pieces
                loss.backward()
            total += loss.item()
        optimizer.step()
        found.append(total)
    return np.array(found)


CASES = {
    "mlp, SGD, dropout": (mlp, "mlp", sgd, train, {}),
    "mlp, AdamW, clipped": (plain_mlp, "mlp", adamw, functools.partial(train, clip=0.1), {}),
    "mlp, accumulated": (plain_mlp, "mlp", sgd, functools.partial(accumulate, pieces=2), {}),
    "cnn, batch norm over ranks": (cnn, "cnn", sgd, train, {}),
    "gpt, AdamW": (functools.partial(Gpt, False), "gpt", adamw, train, {}),
    "gpt, tied weights, SGD, small buckets": (
        functools.partial(Gpt, True),
        "gpt",
        sgd,
        train,
        {"bucket_cap_mb": 2e-4},
    ),
    "mlp, AdamW, dropout, compiled": (
        mlp,
        "mlp",
        adamw,
        functools.partial(train, compiled=True),
        {"bucket_cap_mb": 1e-3},
    ),
    "cnn, compiled": (cnn, "cnn", sgd, functools.partial(train, compiled=True), {}),
    "cnn, uneven": (cnn, "cnn", sgd, train, {"weigh_by_samples": True}),
}


def made(make, dtype):
    torch.manual_seed(0)
    return make().to(dtype)


def weights(net):
    return [t.detach().numpy() for t in net.state_dict().values() if t.dtype.kind == "f"]


def check(name, dtype, rank, size):
    make, kind, optimizer, training, options = CASES[name]
    inputs, targets = data(kind, dtype)
    whole = [shard_of(ROWS, 0, 1)] * STEPS
    mine = [shard_of(ROWS, rank, size)] * STEPS
    if name == "cnn, uneven":  # the last rank has fewer rows, or none
        inputs, targets = inputs[:, : ROWS - 3], targets[:, : ROWS - 3]
        whole = [shard_of(ROWS - 3, 0, 1)] * STEPS
        rows = [*([ROWS // size] * (size - 1)), 0]
        rows[-1] = max(ROWS - 3 - sum(rows), 0)
        rows[0] += ROWS - 3 - sum(rows)
        mine = [type(whole[0])(sum(rows[:rank]), rows[rank], ROWS - 3)] * STEPS
    torch.manual_seed(1)
    one = made(make, dtype)
    expected = training(one, optimizer, inputs, targets, whole)
    runs = []
    for _ in range(2):
        torch.manual_seed(1)
        net = made(make, dtype)
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
        ddp = DistributedDataParallel(net, **options)
        with np.errstate(invalid="ignore"):
            losses = torch.tensor(training(ddp, optimizer, inputs, targets, mine))
        if not options.get("weigh_by_samples"):
            dist.all_reduce(losses, dist.ReduceOp.AVG)
            np.testing.assert_allclose(losses.numpy(), expected, atol=1e-12 if dtype == np.float64 else 1e-5)
        runs.append(weights(net))
        if name != "mlp, AdamW, clipped":
            break
    assert all((a == b).all() for a, b in zip(runs[0], runs[-1], strict=True)), (
        "two runs are not the same, bit for bit"
    )
    apart = max(np.abs(a - b).max() for a, b in zip(weights(one), runs[0], strict=True))
    assert apart <= (1e-12 if dtype == np.float64 else 1e-5), f"{name} in {np.dtype(dtype)}: {apart} apart"


if __name__ == "__main__":
    dist.init_process_group("mpi")
    for case in CASES:
        if len(sys.argv) < 2 or any(word in case for word in sys.argv[1:]):
            for dtype in (np.float64, np.float32):
                check(case, dtype, dist.get_rank(), dist.get_world_size())
    print("all is as by one rank")
