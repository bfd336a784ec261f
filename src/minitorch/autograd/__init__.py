"""Differentiation as a tool: grad, Function, op, gradcheck, functional transforms, checkpoint, debugging."""

import importlib
import sys
from types import ModuleType
from typing import Any

from minitorch.autograd import functional, graph
from minitorch.autograd.anomaly import detect_anomaly, set_detect_anomaly
from minitorch.autograd.checkpoint import checkpoint
from minitorch.autograd.debug import debug, is_debug, set_debug
from minitorch.autograd.function import Function, FunctionCtx
from minitorch.autograd.grad import backward, grad
from minitorch.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from minitorch.autograd.user_op import UserOp, op
from minitorch.engine.modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor


def Variable(data: Any, requires_grad: bool = False, volatile: bool = False) -> Tensor:
    """PyTorch's old name for a tensor in a graph: the tensor itself.

    >>> from minitorch import ones
    >>> Variable(ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """
    tensor = as_tensor(data)
    return tensor.detach().requires_grad_() if requires_grad else tensor


# Its old address: `from torch.autograd.variable import Variable`.
variable = sys.modules[f"{__name__}.variable"] = ModuleType(
    f"{__name__}.variable", "Variable, at its old address."
)
vars(variable)["Variable"] = Variable


def __getattr__(name: str) -> Any:
    if name == "forward_ad":  # opened at first use: few programs differentiate forwards
        return importlib.import_module("minitorch.autograd.forward_ad")
    raise AttributeError(f"module 'minitorch.autograd' has no attribute {name!r}")


__all__ = [
    "Function", "FunctionCtx", "GradcheckError", "UserOp", "Variable", "backward", "checkpoint", "debug",
    "detect_anomaly", "enable_grad", "functional", "grad", "gradcheck", "gradgradcheck", "graph",
    "inference_mode", "is_debug", "is_grad_enabled", "no_grad", "op", "set_debug", "set_detect_anomaly",
    "set_grad_enabled",
]  # fmt: skip
