"""Training by several processes: mpirun -n 2 python examples/data_parallel.py

Every rank trains a copy of the network on its part of each batch; the gradients are averaged while backward runs, so
all copies stay the same. Without mpirun it is one rank, and trains the same network.
"""

import minitorch as torch
import minitorch.distributed as dist
from minitorch import nn
from minitorch.nn import functional as F
from minitorch.nn.parallel import DistributedDataParallel
from minitorch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main(epochs=5, show=print):
    """Learn to tell whether two numbers have the same sign; return the accuracy, which is the same on all ranks."""
    if not dist.is_initialized():
        dist.init_process_group("mpi")
    torch.manual_seed(0)  # the same data on all ranks
    x = torch.randn(512, 2)
    data = TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32 // dist.get_world_size(), sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
        right = torch.zeros(2)
        with torch.no_grad():
            for inputs, targets in loader:
                right += torch.stack([(model(inputs).argmax(1) == targets).sum(), torch.tensor(len(targets))])
        dist.all_reduce(right)  # over all ranks
        if dist.get_rank() == 0:
            show(f"epoch {epoch + 1}: {right[0] / right[1]:.1%} right, by {dist.get_world_size()} ranks")
    return (right[0] / right[1]).item()


if __name__ == "__main__":
    main()
