"""Sums of many numbers, as accurate as PyTorch's. Enters: an array and axes. Leaves: their sum.

NumPy adds the numbers of one row in a tree, but rows (a sum over the first axis: the gradient of a bias) one to the
other, and the error grows with their number. Here they are added in blocks, and the sums of the blocks likewise. And
it rounds float16 after each addition of rows: 2048 + 1 is 2048 then, so float16 is added up in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.ops.native import is_of_device, natively_there

Array = Any

HALF = np.dtype(np.float16)
_BLOCK = 64
_add_reduce: Any = np.add.reduce


def total(x: Array, *, axis: int | Sequence[int] | None, keepdims: bool) -> Array:
    """Return `x.sum(axis=axis, keepdims=keepdims)`, in the order of its axes."""
    if x.__class__ is not np.ndarray:
        if is_of_device(x) and x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
            return x.astype(np.float32).sum(axis=axis, keepdims=keepdims).astype(x.dtype)
        return x.sum(axis=axis, keepdims=keepdims)
    if x.dtype is HALF:
        return _add_reduce(x, axis, np.float32, None, keepdims).astype(HALF)
    if x.size > 4 * _BLOCK and axis is not None and x.dtype.kind == "f" and x.flags.c_contiguous:
        axes = sorted(a % x.ndim for a in ((axis,) if isinstance(axis, int) else axis))
        if axes and axes[-1] - axes[0] == len(axes) - 1 and axes[-1] != x.ndim - 1:
            return _over_rows(x, axes[0], axes[-1] + 1, keepdims)
    out = _add_reduce(x, axis, None, None, keepdims)
    return out if keepdims or out.ndim < 2 or out.flags.c_contiguous else out.copy()


total_there = natively_there(total)  # the same; of a device's arrays by a kernel


def _over_rows(x: np.ndarray, start: int, end: int, keepdims: bool) -> np.ndarray:
    """Return the sum over the axes from `start` to `end`, behind which there are others."""
    shape = x.shape
    before, rows, after = (int(np.prod(shape[a:b])) for a, b in ((0, start), (start, end), (end, x.ndim)))
    if rows <= 2 * _BLOCK or not before or not after:
        return _add_reduce(x, tuple(range(start, end)), None, None, keepdims)
    kept = (1,) * (end - start) if keepdims else ()
    return _in_blocks(x.reshape(before, rows, after)).reshape(*shape[:start], *kept, *shape[end:])


def _in_blocks(x: np.ndarray) -> np.ndarray:
    """Return (n, rows, k) summed over the rows, as products with ones: quicker than NumPy's sum."""
    n, rows, k = x.shape
    if rows <= 2 * _BLOCK:
        return np.matmul(np.ones(rows, x.dtype), x)
    whole = rows - rows % _BLOCK
    blocks = x[:, :whole].reshape(n, whole // _BLOCK, _BLOCK, k)
    out = _in_blocks(np.matmul(np.ones(_BLOCK, x.dtype), blocks))
    return out if whole == rows else out + np.matmul(np.ones(rows - whole, x.dtype), x[:, whole:])


def rounded_once(forward: Callable[..., Array]) -> Callable[..., Array]:
    """Let an op compute float16 in float32, and round at the end."""

    def run(x: Array, **attributes: Any) -> Array:
        if x.dtype is HALF:
            return forward(x.astype(np.float32), **attributes).astype(HALF)
        return forward(x, **attributes)

    return run
