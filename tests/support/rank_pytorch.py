"""DistributedDataParallel here and in PyTorch (gloo), in the same processes: run by tests/distributed/test_training.py."""

import os
import sys

import numpy as np

import minitorch
import minitorch.distributed as dist
from pytorch import torch

STEPS, ROWS = 10, 4


def network(m):
    """A network with plain batch norm, and a layer that only even steps use."""
    nn = m.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 3, 3)
            self.norm = nn.BatchNorm2d(3)
            self.sometimes = nn.Linear(27, 27)
            self.never = nn.Linear(2, 2)
            self.head = nn.Linear(27, 3)

        def forward(self, x, use):
            x = self.norm(self.conv(x)).relu().flatten(1)
            return self.head(self.sometimes(x) if use else x)

    return Net().to(m.float64)


def train(m, weights, rank, use, no_sync_every=0, **options):
    net = network(m)
    net.load_state_dict({k: m.tensor(v) for k, v in weights.items()})
    if rank == 1:  # rank 0's are everyone's from the beginning
        with m.no_grad():
            net.head.weight.mul_(2)
    ddp = m.nn.parallel.DistributedDataParallel(net, **options)
    optimizer = m.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    draws = np.random.default_rng(rank)
    losses = []
    for step in range(STEPS):
        x = m.tensor(draws.normal(size=(ROWS, 1, 5, 5)))
        y = m.tensor(draws.integers(0, 3, ROWS))
        if no_sync_every and step % no_sync_every:
            with ddp.no_sync():
                loss = m.nn.functional.cross_entropy(ddp(x, use(step, rank)), y)
                loss.backward()
        else:
            loss = m.nn.functional.cross_entropy(ddp(x, use(step, rank)), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses, {k: v.detach().numpy() for k, v in net.state_dict().items()}


def compare(rank, weights, use, **options):
    ours, theirs = (train(m, weights, rank, use, **options) for m in (minitorch, torch))
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-9, atol=1e-12)
    for name, value in theirs[1].items():
        np.testing.assert_allclose(ours[1][name], value, rtol=1e-9, atol=1e-12, err_msg=name)


if __name__ == "__main__":
    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=size
    )
    minitorch.manual_seed(0)
    weights = {k: v.detach().numpy() for k, v in network(minitorch).state_dict().items()}
    compare(rank, weights, lambda step, rank: step % 2 == 0, find_unused_parameters=True)
    compare(rank, weights, lambda step, rank: (step + rank) % 2 == 0, find_unused_parameters=True)
    compare(rank, weights, lambda step, rank: True, static_graph=True)
    compare(rank, weights, lambda step, rank: True, find_unused_parameters=True, broadcast_buffers=False)
    compare(rank, weights, lambda step, rank: True, find_unused_parameters=True, no_sync_every=3)
    # Without find_unused_parameters both complain in the second step, of the same thing.
    for m in (minitorch, torch):
        try:
            train(m, weights, rank, lambda step, rank: True)
        except RuntimeError as error:
            assert "Expected to have finished reduction in the prior iteration" in str(error), error
        else:
            raise AssertionError("unused parameters are not noticed")
    torch.distributed.destroy_process_group()
    print("all is as in PyTorch")
