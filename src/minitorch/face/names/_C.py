"""torch._C: the few of PyTorch's C++ names that packages ask. Enters: questions. Leaves: answers that hold here."""

from __future__ import annotations

from typing import Any

import minitorch
from minitorch.face.absent import absence
from minitorch.tensor.torch_function import not_asked, not_for_me
from minitorch.tensor.torch_types import is_dtype

Generator, Size, device = minitorch.Generator, minitorch.Size, minitorch.device
_TensorMeta = type
_TensorBase = TensorBase = minitorch.Tensor


_disabled_torch_function_impl = classmethod(not_for_me)
DisableTorchFunctionSubclass = DisableTorchFunction = not_asked


def _get_tracing_state() -> None:
    """Nothing is traced."""


def _log_api_usage_once(name: str) -> None:
    """Nobody is told."""


def _are_functorch_transforms_active() -> bool:
    return False


def _get_accelerator(check: Any = None) -> Any:
    return minitorch.device("cuda" if minitorch.cuda.is_available() else "cpu")


class _nn:
    """PyTorch's C++ functions of layers: the one that packages call."""

    @staticmethod
    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
        device, kind = kwargs.get("device"), kwargs.get("dtype")
        for each in args:
            if isinstance(each, minitorch.Tensor):
                device, kind = each.device, each.dtype
            elif is_dtype(each):
                kind = each
            elif isinstance(each, (str, int)) and not isinstance(each, bool):
                device = each
        where = None if device is None else minitorch.device(device)
        return where, kind, bool(kwargs.get("non_blocking", False)), kwargs.get("memory_format")


def _jit_set_profiling_mode(on: Any) -> bool:
    return False


_jit_set_profiling_executor = _jit_set_texpr_fuser_enabled = _jit_set_nvfuser_enabled = (
    _jit_set_profiling_mode
)
_jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _jit_set_profiling_mode


def __getattr__(name: str) -> Any:
    raise absence("torch._C", name, globals())
