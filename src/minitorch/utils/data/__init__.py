"""Data sets, samplers and the DataLoader. Enters: samples. Leaves: batches of Tensors."""

import sys as _sys

from minitorch.utils.data import loader as _loader
from minitorch.utils.data.collate import default_collate, default_convert
from minitorch.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from minitorch.utils.data.distributed import DistributedSampler
from minitorch.utils.data.loader import DataLoader
from minitorch.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from minitorch.utils.data.worker import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler",
    "TensorDataset", "WeightedRandomSampler", "WorkerInfo", "default_collate", "default_convert",
    "get_worker_info", "random_split",
]  # fmt: skip

# PyTorch's other address of the loader: `from torch.utils.data.dataloader import DataLoader`.
dataloader = _sys.modules[f"{__name__}.dataloader"] = _loader
