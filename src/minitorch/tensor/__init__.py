"""The Tensor a person holds: operators, methods by family, devices, printing, protocols."""

from minitorch.tensor.conversions import check_device, move
from minitorch.tensor.grad_fn import GradFn, HookHandle
from minitorch.tensor.tensor import Tensor, seed_gradient

__all__ = ["GradFn", "HookHandle", "Tensor", "check_device", "move", "seed_gradient"]
