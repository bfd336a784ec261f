"""Writing at indices, as values: a copy of an array with some elements replaced, or folded together.

Enters: an array, an index, and what to write. Leaves: a new array; nothing is written in place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.ops.op import Array, Op
from minitorch.ops.shape import GATHER, PUT_ADD, SCATTER_ADD, Key, _along, _region

# --- replacing ----------------------------------------------------------------------------------


def _index_put(x: Array, values: Array, *, key: Key) -> Array:
    out = x.copy()
    out[key] = values
    return out


# x loses its gradient where it was overwritten; the values get it. A key that names an element twice leaves
# the last value there, and gives both the gradient, as in PyTorch.
INDEX_PUT: Op = Op(
    "index_put",
    _index_put,
    lambda g, out, x, values, *, key: INDEX_PUT(g, 0.0, key=key),
    lambda g, out, x, values, *, key: g[key],
)


def _write(x: Array, values: Array, *, key: Key) -> Array:
    x[key] = values
    return x


# The same into x's own memory, where nobody needs what it held: `outs[t] = y` (see writing.py).
WRITE = Op("index_put", _write, *INDEX_PUT.rules, register=False)

# --- folding together ---------------------------------------------------------------------------

_FOLDS: dict[str, Any] = {"amax": np.maximum, "amin": np.minimum, "prod": np.multiply}


def _neutral(reduce: str, dtype: Any) -> Any:
    """Return what changes nothing: 1 in a product, the least number in a maximum."""
    if reduce == "prod":
        return 1
    if dtype.kind == "b":
        return reduce == "amin"
    if dtype.kind == "f":
        return -np.inf if reduce == "amax" else np.inf
    return int(np.iinfo(dtype).min if reduce == "amax" else np.iinfo(dtype).max)


def _scatter_reduce(
    x: Array, index: Array, source: Array, *, axis: int, reduce: str, include_self: bool
) -> Array:
    if 0 in index.shape:
        return x.copy()
    out = x.copy()
    if not include_self:  # what is there does not take part: start from what changes nothing
        out[_along(index, axis)] = _neutral(reduce, x.dtype)
    fold, values = _FOLDS[reduce], _region(source, index)
    if type(out) is np.ndarray:
        fold.at(out, _along(index, axis), values)
        return out
    # Slice by slice: within one slice of the index no element is named twice.
    for i in range(index.shape[axis]):
        part = (slice(None),) * axis + (slice(i, i + 1),)
        key = _along(index[part], axis)
        out[key] = fold(out[key], values[part])
    return out


def _shares(
    g: Array, out: Array, x: Array, index: Array, source: Array, axis: int, include_self: bool
) -> Any:
    """Return who equals the extreme, of x and of the source, and the gradient each of them gets."""
    region = _region(source, index)
    mine = x == out
    theirs = region == GATHER(out, index, axis=axis)
    untouched = SCATTER_ADD(np.zeros_like(g), index, np.ones_like(region), axis=axis) == 0
    counted = mine.astype(g.dtype) if include_self else (mine & untouched).astype(g.dtype)
    ties = SCATTER_ADD(counted, index, theirs.astype(g.dtype), axis=axis)
    return counted, theirs, g / np.where(ties == 0, 1, ties)


def _source_shape(gradient: Array, index: Array, source: Array) -> Array:
    if source.shape == index.shape:
        return gradient
    return PUT_ADD(gradient, key=tuple(slice(0, n) for n in index.shape), shape=source.shape)


def _scatter_reduce_rule(
    g: Array, out: Array, x: Array, index: Array, source: Array, *, axis: int, reduce: str, include_self: bool
) -> Any:
    if 0 in index.shape:
        return g, None, g[tuple(slice(0, 0) for _ in source.shape)].sum() * np.zeros_like(source)
    if reduce != "prod":
        mine, theirs, share = _shares(g, out, x, index, source, axis, include_self)
        return mine * share, None, _source_shape(theirs * GATHER(share, index, axis=axis), index, source)
    region = _region(source, index)
    fold = {"axis": axis, "reduce": "prod"}
    # To x: the product of the sources alone. To a source: the product of all others, which where it is the
    # only zero is the product with a 1 in its place, and else the whole divided by it.
    of_sources = SCATTER_REDUCE(np.ones_like(x), index, region, include_self=True, **fold)
    if not include_self:
        touched = SCATTER_ADD(np.zeros_like(g), index, np.ones_like(region), axis=axis) != 0
        to_x = np.where(touched, 0, g)
        start = np.where(touched, 1, x)
    else:
        to_x, start = g * of_sources, x
    zero = region == 0
    zeros = SCATTER_ADD(np.zeros_like(g), index, zero.astype(g.dtype), axis=axis)
    alone = zero & (GATHER(zeros, index, axis=axis) == 1)
    without = SCATTER_REDUCE(start, index, np.where(alone, 1, region), include_self=True, **fold)
    whole = GATHER(g * out, index, axis=axis) / np.where(zero, 1, region)
    to_source = np.where(alone, GATHER(g * without, index, axis=axis), whole)
    return to_x, None, _source_shape(to_source, index, source)


SCATTER_REDUCE: Op = Op("scatter_reduce", _scatter_reduce, joint=_scatter_reduce_rule)
