"""Settings that public programs make, and questions they ask of tensors. Enters: flags. Leaves: the flags, remembered.

No setting changes a number here: everything is computed in the dtype it has, and always in the same order. (Whether
large arrays are computed by NumPy or by native kernels is chosen in ops/native.py.)
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from minitorch.engine.dtypes import common_dtype, kind_of, legacy_dtype, legacy_names_gpu, promote_types
from minitorch.engine.dtypes import set_default_dtype as _set_default_dtype
from minitorch.engine.modes import is_grad_enabled
from minitorch.engine.precision import precision as _precision
from minitorch.engine.precision import set_precision
from minitorch.tensor import Tensor
from minitorch.tensor.devices import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    get_default_device,
    has_gpu,
    jagged,
    layout,
    memory_format,
    preserve_format,
    set_default_device,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from minitorch.tensor.methods.public import function

_kept: dict[str, Any] = {"threads": 1, "deterministic": True}


def set_num_threads(number: int) -> None:
    """Remember a number of threads; NumPy's own are set by OMP_NUM_THREADS before it is imported.

    >>> set_num_threads(2); get_num_threads()
    2
    >>> set_num_threads(1)
    """
    _kept["threads"] = int(number)


def get_num_threads() -> int:
    """Return what set_num_threads was given."""
    return int(_kept["threads"])


set_num_interop_threads, get_num_interop_threads = set_num_threads, get_num_threads


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Do nothing: all algorithms are.

    >>> use_deterministic_algorithms(True); are_deterministic_algorithms_enabled()
    True
    """
    _kept["deterministic"] = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """Return what use_deterministic_algorithms was given."""
    return bool(_kept["deterministic"])


def set_float32_matmul_precision(precision: str) -> None:
    """Say how exactly compiled programs compute products of float32 on a GPU: all others compute them in float32.

    'highest': in float32. 'high' or 'medium': the factors may be rounded to TF32.

    >>> set_float32_matmul_precision("high"); get_float32_matmul_precision()
    'high'
    >>> set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"set_float32_matmul_precision: 'highest', 'high' or 'medium', got {precision!r}")
    set_precision(precision)


def get_float32_matmul_precision() -> str:
    """Return what set_float32_matmul_precision was given."""
    return _precision()


_device_by_type: list[str] = []  # the default device, if the default type chose it


def set_default_tensor_type(kind: Any) -> None:
    """Set the dtype of Python's floats, and the default device, by PyTorch's old names: 'torch.DoubleTensor'.

    >>> set_default_tensor_type("torch.FloatTensor")
    """
    on_gpu = legacy_names_gpu(kind)
    if on_gpu and not has_gpu():
        raise TypeError(f"type {getattr(kind, '__name__', kind)} not available: there is no GPU, or no CuPy")
    _set_default_dtype(legacy_dtype(kind))
    if on_gpu:
        set_default_device("cuda")
        _device_by_type[:] = ["cuda"]
    elif on_gpu is not None and _device_by_type:
        _device_by_type.clear()
        set_default_device("cpu")


def is_inference_mode_enabled() -> bool:
    """Tell whether nothing is recorded: inference_mode is no_grad here.

    >>> is_inference_mode_enabled()
    False
    """
    return not is_grad_enabled()


def result_type(tensor1: Any, tensor2: Any) -> Any:
    """Return the dtype in which two operands are computed together.

    >>> result_type(minitorch.tensor([1, 2]), 1.0)
    dtype('float32')
    """
    return common_dtype(*(o._data if isinstance(o, Tensor) else o for o in (tensor1, tensor2)))


def can_cast(from_: Any, to: Any) -> bool:
    """Tell whether a dtype may be written into another: never from floats to integers, never to bools.

    >>> can_cast(np.float64, np.float32), can_cast(np.float32, np.int64)
    (True, False)
    """
    order = "biufc"
    a, b = kind_of(np.dtype(from_)), kind_of(np.dtype(to))
    if a == b or promote_types(from_, to) == np.dtype(to):
        return True
    return (order.index(b) > 1 and order.index(a) <= order.index(b)) or (a == "u" and b == "i")


def is_tensor(obj: Any) -> bool:
    """Whether it is a Tensor.

    >>> is_tensor(1.0)
    False
    """
    return isinstance(obj, Tensor)


clone = function(Tensor.clone)
detach = function(Tensor.detach)
equal = function(Tensor.equal)
is_complex = function(Tensor.is_complex)
is_floating_point = function(Tensor.is_floating_point)
is_nonzero = function(Tensor.is_nonzero)
numel = function(Tensor.numel)

mps = SimpleNamespace(is_available=lambda: False, manual_seed=lambda seed: None, empty_cache=lambda: None)


__all__ = [
    "are_deterministic_algorithms_enabled", "can_cast", "channels_last", "channels_last_3d",
    "clone", "contiguous_format", "detach", "equal", "get_default_device", "get_float32_matmul_precision",
    "get_num_interop_threads", "get_num_threads", "is_complex", "is_floating_point",
    "is_inference_mode_enabled", "is_nonzero", "is_tensor", "jagged", "layout", "memory_format", "mps", "numel",
    "preserve_format",
    "result_type", "set_default_device", "set_default_tensor_type", "set_float32_matmul_precision",
    "set_num_interop_threads", "set_num_threads", "sparse_bsc", "sparse_bsr", "sparse_coo", "sparse_csc",
    "sparse_csr", "strided", "use_deterministic_algorithms",
]  # fmt: skip
