"""PyTorch's address of wrappers around a Module: one for several GPUs, one for several processes.

Enters: a Module. Leaves: one that computes the same, of which every rank trains a copy.
"""

from minitorch.nn.parallel.data_parallel import DataParallel
from minitorch.nn.parallel.distributed import DistributedDataParallel
from minitorch.nn.parallel.functions import data_parallel, parallel_apply, replicate
from minitorch.nn.parallel.scatter_gather import gather, scatter

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]  # fmt: skip
