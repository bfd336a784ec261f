"""Quicker ways to the same numbers, for NumPy's own arrays; on every other kind the plain line runs.

Enters: arrays. Leaves: arrays. Each docstring gives the plain line that says what is computed; a reader of the
ops may take the name for that line, and skip this file.
"""

from __future__ import annotations

import math

import numpy as np
from numpy import maximum, ndarray

from minitorch.ops.op import Array

# Arrays with fewer elements than this are small: calls cost more than elements.
SMALL = 4096

# A number of the array's own dtype saves NumPy a conversion, half of the time of a small operation.
_ZEROS = {np.dtype(kind): np.zeros((), kind) for kind in (np.float32, np.float64)}
_ONES = {np.dtype(kind): np.ones((), kind) for kind in (np.float32, np.float64)}


def zero(x: Array) -> Array:
    """Return 0, to compute with beside `x`."""
    return _ZEROS.get(x.dtype, 0) if x.__class__ is np.ndarray else 0


def one_minus(x: Array) -> Array:
    """Return `1 - x`."""
    return (_ONES.get(x.dtype, 1) if x.__class__ is np.ndarray else 1) - x


def positive_part(x: Array) -> Array:
    """Return `np.maximum(x, 0)`."""
    return maximum(x, _ZEROS.get(x.dtype, 0) if x.__class__ is ndarray else 0)


def kept(g: Array, mask: Array) -> Array:
    """Return `np.where(mask, g, 0)`: g where the mask holds (is not 0), else 0, also where g is inf or nan.

    On a large array np.where takes four times as long as a product: it decides element by element, and a mask
    without a pattern makes the processor guess wrong half of the time. But 0·inf and 0·nan are nan, so it is
    the bits of `g`, read as integers, that are multiplied by 0 or 1.

    >>> kept(np.array([1.0, np.inf]), np.array([True, False]))
    array([1., 0.])
    """
    if g.__class__ is np.ndarray and g.size >= SMALL and g.itemsize <= 8 and g.shape == mask.shape:
        holds = mask if mask.dtype.kind == "b" else mask != 0
        out, bits = np.empty(g.shape, g.dtype), f"i{g.itemsize}"
        np.multiply(g.view(bits), holds, out=out.view(bits))
        return out
    return np.where(mask, g, zero(g))


def power(x: Array, y: Array) -> Array:
    """Return `x**y`. Cubes and fourth powers by multiplication: the general power takes a hundred times as long.

    Square roots as NumPy takes them itself, whoever computes: of -∞ there is none, and that of -0 is -0.
    """
    if isinstance(y, (int, float)):
        if y == 0.5 and x.dtype.kind in "fV":
            return np.sqrt(x)
        if y == 3:
            return x * x * x
        if y == 4:
            return np.square(np.square(x))
    return x**y


def stretch(x: Array, shape: tuple[int, ...]) -> Array:
    """Return `np.broadcast_to(x, shape)`: a view; or, if small, a copy, which takes a quarter of the time.

    >>> stretch(np.array(2.0), (2, 2))
    array([[2., 2.],
           [2., 2.]])
    """
    if x.shape == shape:
        return x
    if isinstance(x, (np.ndarray, np.generic)) and math.prod(shape) < SMALL:
        out = np.empty(shape, x.dtype)
        out[...] = x
        return out
    return np.broadcast_to(x, shape)


def matmul(x: Array, y: Array) -> Array:
    """Return `x @ y`."""
    if x.ndim == 2 and y.ndim == 2 and type(x) is np.ndarray:
        return x.dot(y)  # the same product; small matrices take half the time of x @ y
    if x.ndim > 2 and y.ndim == 2 and 0 not in x.shape and x.flags.c_contiguous:
        # One large product instead of one small one per batch.
        return (x.reshape(-1, x.shape[-1]) @ y).reshape((*x.shape[:-1], y.shape[-1]))
    return x @ y


# From so many values on, and in these dtypes, `sum_rows` is worth its preparations.
_MANY, _SUMMED = 10_000, (np.float32, np.float64, np.complex64, np.complex128)


def has_many_values(values: Array) -> bool:
    """Tell whether `sum_rows` is the quicker way to add these values up."""
    return values.size >= _MANY and type(values) is np.ndarray and values.dtype in _SUMMED


def sum_rows(rows: Array, values: Array, count: int) -> Array:
    """Return what `np.add.at(np.zeros((count, …)), rows, values)` makes: at r the sum of `values[rows == r]`.

    It is the product of a sparse matrix, with a 1 at every (rows[i], i), and `values`: one walk over the
    values in their order, ten to twenty times as fast (an embedding's gradient).
    """
    import scipy.sparse  # at first use: it takes a fifth of a second to import

    ones, columns = np.ones(len(rows), values.dtype), np.arange(len(rows) + 1)
    return scipy.sparse.csc_array((ones, rows, columns), shape=(count, len(rows))) @ values
