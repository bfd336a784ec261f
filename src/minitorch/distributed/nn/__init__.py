"""torch.distributed.nn: collectives through which gradients flow. Enters: Tensors. Leaves: Tensors."""

# ruff: noqa: F403
from minitorch.distributed.nn import functional
from minitorch.distributed.nn.functional import *
from minitorch.distributed.nn.functional import __all__ as _names

__all__ = [*_names, "functional"]
