"""Many arrays together, as gradients are: their norm, and all of them times a number. Enters: arrays. Leaves: the same.

On a device few kernels do so, and nobody waits for what they find.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.ops.narrow import takes_narrow
from minitorch.ops.native import MOST_TOGETHER, is_of_device, natively_there, update_there
from minitorch.ops.op import Array


def multiply_all(arrays: Sequence[Array], factor: Array) -> None:
    """Multiply arrays by a number, in place."""
    if is_of_device(factor):
        update_there(_multiplied, [[array, factor] for array in arrays], ())
    else:
        for array in arrays:
            _multiplied([array, factor], ())


def _multiplied(arrays: list[Any], numbers: tuple[Any, ...]) -> None:
    array, factor = arrays
    np.multiply(array, factor, out=array, casting="same_kind")


def total_norm(arrays: Sequence[Array], order: float, dtype: Any) -> Array:
    """Return the norm of all arrays together: that of their norms."""
    if all(is_of_device(array) and array.size for array in arrays):
        few = [list(arrays[i : i + MOST_TOGETHER]) for i in range(0, len(arrays), MOST_TOGETHER)]
        if len(few) == 1:
            return _total_there(few[0], order=order, dtype=dtype)
        found = [_total_there(some, order=order, dtype=_wide(dtype)) for some in few]
        # (How many norms are not 0 is added up.)
        return _total_there(found, order=order or 1.0, dtype=dtype)
    wide = _wide(dtype)  # (squares of halves are soon too large for them)
    several = [array.astype(wide) if array.dtype.itemsize == 2 else array for array in arrays]
    norms = np.stack([_norm(array, order).astype(wide) for array in several])
    return _norm(norms, order).astype(dtype)


def _norm(array: Array, order: float) -> Any:
    """Return the norm of all elements of an array."""
    flat = np.abs(array.reshape(-1))
    if not flat.size:
        return flat.sum()
    if order == 2.0:
        return np.sqrt(flat @ flat)
    if order == math.inf:
        return flat.max()
    if order == -math.inf:
        return flat.min()
    if order == 0.0:
        return (flat != 0).sum()
    return (flat**order).sum() ** (1.0 / order)


def _wide(dtype: Any) -> Any:
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


@natively_there
@takes_narrow
def _total_there(arrays: list[Array], *, order: float, dtype: Any) -> Array:
    """Return the norm of all arrays together; it is computed in the widest dtype there is, in float32 at the least."""
    wide = _wide(dtype)
    arrays = [x if x.dtype == wide else x.astype(wide) for x in arrays]
    # (A sum of squares is a kernel's; a product of a vector with itself is a library's, one by one.)
    norms = np.stack([np.sqrt(np.square(x).sum()) if order == 2.0 else _norm(x, order) for x in arrays])
    return (np.sqrt(np.square(norms).sum()) if order == 2.0 else _norm(norms, order)).astype(dtype)


@natively_there
def factor_for(total: Array, *, most: float) -> Array:
    """Return what brings a norm down to `most`, if it is larger: at most 1."""
    return np.minimum(most / (total + 1e-6), 1)
