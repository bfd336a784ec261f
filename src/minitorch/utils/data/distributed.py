"""DistributedSampler: each rank's part of a data set. Enters: a data set's length, rank and number of ranks. Leaves:
indices, the same ones in the same order as PyTorch's for the same seed and epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from typing import Any

from minitorch.distributed.groups import get_rank, get_world_size
from minitorch.random import Generator, randperm
from minitorch.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every num_replicas-th sample, beginning with this rank's; so that all ranks together visit all of them.

    num_replicas, rank: those of the default process group if None. shuffle: in a random order, which is the same on
    all ranks, and another one in each epoch if `set_epoch(epoch)` is called. drop_last: leave samples out where the
    division leaves a remainder; otherwise some are visited twice. Either way all ranks get equally many.

    >>> [list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        num_replicas = get_world_size() if num_replicas is None else num_replicas
        rank = get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"DistributedSampler: rank {rank} is not among {num_replicas} ranks, 0 to {num_replicas - 1}"
            )
        self.dataset: Any = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        length = len(self.dataset)
        self.num_samples = length // num_replicas if drop_last else math.ceil(length / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        length = len(self.dataset)
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            indices = randperm(length, generator=generator).tolist()
        else:
            indices = list(range(length))
        if indices and not self.drop_last:
            times = math.ceil(self.total_size / len(indices))
            indices = indices * times
        return iter(indices[: self.total_size][self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, and with it the order: call it before each."""
        self.epoch = epoch
