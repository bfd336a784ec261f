"""bfloat16 in the engine: two bytes in memory, float32 on the way. Enters: ops on such arrays. Leaves: such arrays.

NumPy has no bfloat16; the package ml_dtypes gives it one. No op is written for it: what an op reads is widened to
float32, and what it gives is rounded back, once. That is also what processors do, and what PyTorch computes. A
program without bfloat16 pays for no more than the question whether any was met.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.engine.dtypes import is_bfloat16
from minitorch.engine.modes import attention
from minitorch.ops.native import is_of_device
from minitorch.ops.op import Op

# Filled at the first bfloat16 tensor of this process: from then on ops and backward look out for them.
met: list[bool] = []
# These only look at an array, or move or convert what is in it: they take it as it is.
_AS_IT_IS = {
    "broadcast_to", "cast", "clone", "diagonal", "getitem", "index_put", "permute", "reshape", "select",
    "split", "to_int", "unbind", "unfold", "write_through",
}  # fmt: skip

# And these, on a device: there are kernels that read and write bfloat16, and their own lines widen it where there are
# none.
_BY_KERNELS = {"convolution", "convolution_transpose", "convolution_weight"}


def meet_bfloat16(dtype: Any) -> None:
    """Note that there are bfloat16 tensors, if this is their dtype."""
    if not met and is_bfloat16(dtype):
        met.append(True)
        attention.append("bfloat16")


def is_computed_in_float32(op: Op, arrays: Sequence[Any]) -> bool:
    """Tell whether an op is to be given other arrays than these."""
    if op.name in _AS_IT_IS or has_kernels(op, arrays[0]):
        return False
    return any(_is_narrow(each) for each in arrays)


def has_kernels(op: Op, array: Any) -> bool:
    """Tell whether an op, and its rules, take such an array as it is."""
    return op.name in _BY_KERNELS and is_of_device(array) and _is_narrow(array)


def widened(thing: Any) -> Any:
    """Return an array, or the arrays in a list, in float32 where they are bfloat16."""
    if isinstance(thing, (list, tuple)):
        return type(thing)(widened(each) for each in thing)  # (a gradient of an op with several results, too)
    return thing.astype(np.float32) if _is_narrow(thing) else thing


def narrowed(result: Any, arrays: Sequence[Any]) -> Any:
    """Return what an op computed from `arrays`, widened, in bfloat16; as it is if the first was no bfloat16."""
    if isinstance(result, (list, tuple)):
        return type(result)(narrowed(each, arrays) for each in result)
    first = next(each for each in arrays if hasattr(each, "dtype") and each.dtype.kind not in "biu")
    return result.astype(first.dtype) if _is_narrow(first) and result.dtype == np.float32 else result


def _is_narrow(thing: Any) -> bool:
    dtype = getattr(thing, "dtype", None)
    return dtype is not None and is_bfloat16(dtype)
