"""torch._tensor: another address of Tensor."""

from minitorch.tensor import Tensor

__all__ = ["Tensor"]
