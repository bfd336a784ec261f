"""Compiled functions with collectives in them beside the same functions uncompiled: run by test_training.py."""

import re
import warnings

import numpy as np

import minitorch as torch
import minitorch.distributed as dist
from minitorch import nn
from minitorch.nn.parallel import DistributedDataParallel

STEPS, ROWS = 6, 12


class Net(nn.Module):
    """A network, with a layer that is never used if asked for."""

    def __init__(self, unused):
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
        self.never = nn.Linear(2, 2) if unused else None

    def forward(self, x):
        return self.inner(x)


def train(net, rows, compiled, accumulated=False):
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    draws = np.random.default_rng(0)
    inputs, targets = draws.normal(size=(STEPS, ROWS, 6)), draws.integers(0, 3, (STEPS, ROWS))

    def step(x, y):
        optimizer.zero_grad()
        if accumulated:
            with net.no_sync():
                nn.functional.cross_entropy(net(x), y).backward()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = torch.compile(step, fullgraph=True) if compiled else step
    for x, y in zip(inputs, targets, strict=True):
        run(torch.tensor(x[rows]), torch.tensor(y[rows]))
    if compiled:
        steps = [
            re.search(r"call .*(start|wait) all_reduce", line) for line in str(run.explain()).splitlines()
        ]
        halves = [step[1] for step in steps if step]
        assert halves
        if not net.weigh_by_samples:  # all that can be is begun before anything is waited for
            assert halves == sorted(halves)
    return [p.detach().numpy().copy() for p in net.parameters()]


def check_training(rank, size):
    even, uneven = slice(rank * 4, rank * 4 + 4), [slice(0, 7), slice(7, 9), slice(9, 12)][rank]
    for rows, unused, options in (
        (even, False, {"bucket_cap_mb": 2e-4}),
        (even, True, {"static_graph": True}),
        (uneven, False, {"weigh_by_samples": True}),
    ):
        nets = [DistributedDataParallel(Net(unused).to(torch.float64), **options) for _ in range(2)]
        found = [train(net, rows, compiled) for net, compiled in zip(nets, (False, True), strict=True)]
        same(*found)
        if not unused:
            same(found[0], train(Net(False).to(torch.float64), slice(0, ROWS), False))
    nets = [DistributedDataParallel(Net(False).to(torch.float64)) for _ in range(2)]
    same(*(train(net, even, compiled, True) for net, compiled in zip(nets, (False, True), strict=True)))


def check_forward_alone(rank, size):
    """A compiled model whose backward is outside: averaged, also after a forward without gradients."""
    net = DistributedDataParallel(nn.BatchNorm1d(3))
    run = torch.compile(net)
    x = torch.full((2, 3), float(rank)) + torch.arange(2.0).reshape(2, 1)
    for i in range(6):
        net.zero_grad()
        if i == 4:
            with torch.no_grad():
                net(x)
        (run(x).sum() * (rank + 1)).backward()
        same([net.module.bias.grad], [np.full(3, 2.0 * np.mean(range(1, size + 1)))])


def check_functions(rank, size):
    @torch.compile(fullgraph=True)
    def f(x):
        doubled = x * 2
        work = dist.all_reduce(doubled, async_op=True)
        grown = x.exp()
        work.wait()
        dist.all_reduce(grown * 1)  # begun on all ranks, though nobody reads it
        parts = dist.nn.all_gather(grown)
        return doubled + grown, parts[1]

    for i in range(4):
        total, second = f(torch.full((3,), float(rank + i), dtype=torch.float64))
        same([total.numpy()], [np.full(3, 2 * sum(r + i for r in range(size)) + np.exp(rank + i))])
        same([second.numpy()], [np.full(3, np.exp(1 + i))])

    x = torch.ones(2, requires_grad=True)
    outside = torch.compile(lambda x: dist.nn.all_reduce(x * x).sum())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            x.grad = None
            outside(x).backward()
            same([x.grad], [np.full(2, 2.0 * size)])
    assert "go through a collective" in str(said[0].message)

    unused = DistributedDataParallel(Net(True), find_unused_parameters=True)
    step = torch.compile(lambda x: unused(x).sum().backward())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        step(torch.ones(2, 6))
    assert "static_graph=True" in str(said[0].message)
    same([unused.module.inner[2].bias.grad], [np.full(3, 2.0)])


def check_one_that_fails(rank, size):
    """An error in the recorded run of one rank is that rank's error, and is not exchanged twice."""
    net = DistributedDataParallel(Net(False))

    def step(x, wrong):
        net(x).sum().backward()
        if wrong:
            raise ValueError("here alone")

    run = torch.compile(step)
    run(torch.ones(2, 6), False)
    try:
        run(torch.ones(3, 6), rank == 1)
        dist.barrier()
    except ValueError as error:
        assert rank == 1 and str(error) == "here alone"
        print("rank 1 has its own error", flush=True)
        raise SystemExit(0) from None
    except dist.DistBackendError:  # of what rank 1 does, or that another has ended for it
        raise SystemExit(0) from None


def same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            a, b, rtol=1e-6 if np.asarray(a).dtype == np.float32 else 1e-10, atol=1e-12
        )


if __name__ == "__main__":
    dist.init_process_group("mpi")
    check_training(dist.get_rank(), dist.get_world_size())
    check_forward_alone(dist.get_rank(), dist.get_world_size())
    check_functions(dist.get_rank(), dist.get_world_size())
    print("compiled is as uncompiled", flush=True)
    check_one_that_fails(dist.get_rank(), dist.get_world_size())
