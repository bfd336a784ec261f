"""The Tensor a person holds: operators, methods by family, dtypes, devices, printing, protocols."""

from minitorch.tensor.tensor import HookHandle, Tensor, check_device, move, seed_gradient

__all__ = ["HookHandle", "Tensor", "check_device", "move", "seed_gradient"]
