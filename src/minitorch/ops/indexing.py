"""Taking and putting elements by index: getitem, gather, scatter.

Enters: an array, an index, and what to write. Leaves: a new array; nothing is written in place (but by WRITE). What
takes is the derivative of what puts, and the other way round.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.ops.fast import has_many_values, sum_rows
from minitorch.ops.native import is_of_device, is_on_gpu, natively_there
from minitorch.ops.op import Array, Op, in_axis_order, zeros

Key = Any

# --- indices on a device ---------------------------------------------------------------------------


def _furthest(index: Array, *, length: int, least: int) -> Array:
    """Return the largest of some places along an axis: a question whose answer is that there are such places."""
    if not hasattr(index, "__decide__") and bool(((index < least) | (index >= length)).any()):
        raise IndexError(f"an index is out of range for an axis of length {length}")
    # What is recorded is looked up, and so is checked when it runs.
    index = index if least else np.where(index < 0, length, index)
    return np.arange(length, like=index)[index].max()


_furthest_there = natively_there(_furthest)


def check_there(index: Array, length: int, least: int = 0) -> None:
    """Refuse an index on a device that is out of range: at once, or, by a kernel that nobody waits for, later.

    CuPy takes such an index for another one.
    """
    if index.size:
        _furthest_there(index, length=length, least=least)


# --- x[key], and what puts things back -----------------------------------------------------------


def parts_of(key: Key) -> tuple[Any, ...]:
    """Return an index as a tuple with a part for each axis (or more, or none)."""
    return key if isinstance(key, tuple) else (key,)


_BASIC = (int, slice, type(None), type(...))


def _may_repeat(key: Key) -> bool:
    """Tell whether an index can name one element twice: only arrays of integers can."""
    for part in parts_of(key):
        if part.__class__ not in _BASIC and hasattr(part, "dtype") and part.dtype.kind in "iu" and part.ndim:
            return True
    return False


def add_at(target: Array, key: Key, values: Array) -> None:
    """Add `values` into `target[key]`, in place; what the key names twice is added twice."""
    if not is_on_gpu(target):
        np.add.at(target, key, values)
        return
    # np.add.at does not reach CuPy when the key is a tuple; and of others' arrays (a batch's) CuPy does not know.
    known = (type(target), np.ndarray, np.generic)
    for each in (*parts_of(key), values):
        if hasattr(each, "__array_ufunc__") and not isinstance(each, known):
            each.__array_ufunc__(np.add, "at", target, key, values)
            return
    import cupy

    # CuPy adds up neither complex numbers, nor small integers, nor signed ones of 64 bits.
    dtype = target.dtype
    values = values if hasattr(values, "astype") else dtype.type(values)
    if dtype.kind == "c":
        cupy.add.at(target.real, key, values.real)
        cupy.add.at(target.imag, key, values.imag)
    elif dtype == np.int64:
        cupy.add.at(target.view(np.uint64), key, values.astype(np.int64, copy=False).view(np.uint64))
    elif dtype.kind in "bui" and dtype.itemsize < 4:
        wide = target.astype(np.int32)
        cupy.add.at(wide, key, values.astype(np.int32))
        target[...] = wide.astype(dtype)
    else:
        cupy.add.at(target, key, values)


def _put_add(g: Array, *, key: Key, shape: tuple[int, ...]) -> Array:
    """Zeros of `shape` with `g` added at `key`; what the key names twice is added twice."""
    repeats = _may_repeat(key)
    if repeats and has_many_values(g):
        parts = parts_of(key)
        if len(parts) == 1:
            rows = parts[0].reshape(-1)
            rows = np.where(rows < 0, rows + shape[0], rows)
            summed = sum_rows(rows, g.reshape(len(rows), -1), shape[0])
            return summed if len(shape) == 2 else summed.reshape(shape)
    target = zeros(shape, g)
    if repeats:
        add_at(target, key, g)
    else:
        target[key] = g
    return target


def _getitem(x: Array, *, key: Key) -> Array:
    out = x[key]
    if isinstance(out, np.generic):
        # One int per axis gives a scalar, which is a copy; with an ellipsis behind them it is a view.
        return x[(*parts_of(key), ...)]
    if out.__class__ is np.ndarray and out.base is not None and out.base is not x and out.base is not x.base:
        # NumPy picks by arrays along the first axis and turns the copy; PyTorch's lies in the order of its axes.
        return np.ascontiguousarray(out)
    return out


GETITEM = Op(
    "getitem",
    _getitem,
    lambda g, out, x, *, key: (_put_add if type(g) is np.ndarray else PUT_ADD)(g, key=key, shape=x.shape),
)
PUT_ADD: Op = Op("put_add", _put_add, lambda g, out, x, *, key, shape: g[key])

# --- along one axis ------------------------------------------------------------------------------


def _along(index: Array, axis: int) -> tuple[Array, ...]:
    """Return the full index that `index` stands for along one axis: arange on all others."""
    key: list[Array] = []
    for i, n in enumerate(index.shape):
        places = np.arange(n, like=index).reshape((-1,) + (1,) * (index.ndim - i - 1))
        key.append(index if i == axis % index.ndim else places)
    return tuple(key)


def _gather(x: Array, index: Array, *, axis: int) -> Array:
    if x.ndim == 0:
        return x.reshape(1)[index.reshape(-1)].reshape(index.shape)
    return in_axis_order(x[_along(index, axis)]) if index.ndim else x[index]


def _gather_rule(g: Array, out: Array, x: Array, index: Array, *, axis: int) -> Array:
    return SCATTER_ADD(zeros(x.shape, g), index, g, axis=axis)


GATHER = Op("gather", _gather, _gather_rule, None, whole=True)


def _region(value: Array, index: Array) -> Array:
    """Return the part of `value` that `index` covers; `value` may be larger."""
    return value[tuple(slice(0, n) for n in index.shape)] if value.ndim else value


def _scatter(x: Array, index: Array, source: Array, *, axis: int, add: bool) -> Array:
    out = x.copy()
    if index.ndim == 0:
        index, source = index.reshape(1), source.reshape(1) if hasattr(source, "reshape") else source
    if 0 in index.shape:
        return out
    values = _region(source, index) if hasattr(source, "ndim") else source
    view = out.reshape(1) if out.ndim == 0 else out
    if add:
        add_at(view, _along(index, axis), values)
    else:
        view[_along(index, axis)] = values
    return out


def _source_shape(gradient: Array, index: Array, source: Array) -> Array:
    """Return the gradient of the part of `source` that `index` covers, as a gradient of all of it."""
    if source.shape == index.shape:
        return gradient
    return PUT_ADD(gradient, key=tuple(slice(0, n) for n in index.shape), shape=source.shape)


def _source_rule(g: Array, index: Array, source: Array, axis: int) -> Array:
    return _source_shape(GATHER(g, index, axis=axis), index, source)


SCATTER_ADD = Op(
    "scatter_add",
    lambda x, index, source, *, axis: _scatter(x, index, source, axis=axis, add=True),
    lambda g, out, x, index, source, *, axis: g,
    None,
    lambda g, out, x, index, source, *, axis: _source_rule(g, index, source, axis),
    whole=True,
)
SCATTER: Op = Op(
    "scatter",
    lambda x, index, source, *, axis: _scatter(x, index, source, axis=axis, add=False),
    lambda g, out, x, index, source, *, axis: SCATTER(g, index, 0, axis=axis),
    None,
    lambda g, out, x, index, source, *, axis: _source_rule(g, index, source, axis),
)


def _index_add(x: Array, index: Array, source: Array, *, axis: int, alpha: float) -> Array:
    out = x.copy()
    key: Key = (slice(None),) * axis + (index,)
    add_at(out, key, source if alpha == 1 else alpha * source)
    return out


INDEX_ADD = Op(
    "index_add",
    _index_add,
    lambda g, out, x, index, source, *, axis, alpha: g,
    None,
    lambda g, out, x, index, source, *, axis, alpha: alpha * g[(slice(None),) * axis + (index,)],
)

# --- replacing -----------------------------------------------------------------------------------


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


def apart(values: Any, target: Array) -> Any:
    """Return what is to be written into an array: where nobody knows in which order, nothing that lies in it itself."""
    if not is_of_device(target) or values.__class__ is not target.__class__:
        return values  # (NumPy looks for itself)
    mine, other = (each if each.base is None else each.base for each in (values, target))
    return values.copy() if mine is other else values


def _write(x: Array, values: Array, *, key: Key) -> Array:
    x[key] = apart(values, x)
    return x


# The same into x's own memory, where nobody needs what it held: `outs[t] = y` (see writing.py).
WRITE = Op("index_put", _write, *INDEX_PUT.rules, register=False)

# --- folding together ----------------------------------------------------------------------------

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
