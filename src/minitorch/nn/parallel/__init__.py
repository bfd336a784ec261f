"""PyTorch's address of wrappers around a Module: one for several GPUs, one for several processes.

Enters: a Module. Leaves: one that computes the same, of which every rank trains a copy.
"""

from minitorch.nn.lazy import DataParallel
from minitorch.nn.parallel.distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel"]
