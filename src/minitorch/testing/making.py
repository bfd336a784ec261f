"""Random tensors for tests. Enters: a shape and a dtype. Leaves: a tensor, with PyTorch's draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch import creation, random
from minitorch.functions import view_as_complex
from minitorch.tensor import Tensor


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return numbers drawn evenly from [low, high): floats from [-9, 9), integers from [-9, 10), bools, if unsaid.

    noncontiguous: every second element along the last axis of more. exclude_zero: the least positive number for 0.

    >>> make_tensor(2, 3, dtype=minitorch.float32, low=0, high=1).shape
    (2, 3)
    """
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else tuple(shape)
    kind = np.dtype(dtype)
    whole = kind.kind in "iub"
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor: noncontiguous and memory_format are mutually exclusive")
    if requires_grad and whole:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}"
        )
    least, most = _limits(kind)
    usual = (0, 2) if kind.kind == "b" else (-9, 10) if whole else (-9, 9)
    low, high = (usual[0] if low is None else low), (usual[1] if high is None else high)
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if high < least or low >= most:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{least}, {most})"
        )
    low, high = (min(max(bound, least), most) for bound in (low, high))
    apart = noncontiguous and math.prod(size) > 1
    drawn_size = (*size[:-1], 2 * size[-1]) if apart else size
    if whole:
        made = random.randint(math.ceil(low), math.ceil(high), drawn_size, device=device, dtype=dtype)
    elif kind.kind == "c":
        part = np.float32 if kind.itemsize == 8 else np.float64
        pairs = creation.empty(*drawn_size, 2, dtype=part, device=device).uniform_(low, high)
        made = view_as_complex(pairs)
    else:
        made = creation.empty(drawn_size, dtype=dtype, device=device).uniform_(low, high)
    if apart:
        made = made[..., 1::2]
    elif memory_format is not None:
        made = made.clone(memory_format=memory_format)
    if exclude_zero:
        made[made == 0] = 1 if whole else float(np.finfo(kind).tiny)
    return made.requires_grad_(requires_grad)


def _limits(kind: np.dtype) -> tuple[float, float]:
    """Return the least number of a dtype, and what all lie below."""
    if kind.kind == "b":
        return 0, 2
    if kind.kind in "iu":
        return int(np.iinfo(kind).min), int(np.iinfo(kind).max) + (kind != np.int64)
    return float(np.finfo(kind).min), float(np.finfo(kind).max)
