"""PyTorch's address of DataParallel: `from torch.nn.parallel import DataParallel`."""

from minitorch.nn.lazy import DataParallel

__all__ = ["DataParallel"]
