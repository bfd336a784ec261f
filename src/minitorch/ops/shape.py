"""The same elements, arranged otherwise: views where NumPy can, copies where it must.

Enters: arrays. Leaves: arrays holding (some of) the same values. Backward puts each gradient back
where its value came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.ops.op import Array, Op, zeros

Key = Any


def inverse_permutation(axes: Sequence[int]) -> tuple[int, ...]:
    """Return the permutation that undoes `axes`.

    >>> inverse_permutation((2, 0, 1))
    (1, 2, 0)
    """
    return tuple(sorted(range(len(axes)), key=lambda i: axes[i]))


# --- views --------------------------------------------------------------------------------------

RESHAPE = Op(
    "reshape",
    lambda x, *, shape: x.reshape(shape),
    lambda g, out, x, *, shape: g.reshape(x.shape),
)
PERMUTE = Op(
    "permute",
    lambda x, *, axes: x.transpose(axes),
    lambda g, out, x, *, axes: g.transpose(inverse_permutation(axes)),
)
# The rule returns g as it is: summing over stretched axes is what the engine does anyway.
BROADCAST_TO = Op(
    "broadcast_to",
    lambda x, *, shape: np.broadcast_to(x, shape),
    lambda g, out, x, *, shape: g,
)
# An array of its own, as in PyTorch: NumPy's is a view from the other end, which few others can look through.
FLIP = Op("flip", lambda x, *, axis: np.flip(x, axis).copy(), lambda g, out, x, *, axis: np.flip(g, axis))
# An array of its own: what a person gets from clone() can be written into without touching the source.
CLONE = Op("clone", lambda x: x.copy(), lambda g, out, x: g)


# --- getitem and what puts things back ----------------------------------------------------------


def _parts(key: Key) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _may_repeat(key: Key) -> bool:
    """Tell whether an index can name one element twice: only arrays of integers can."""
    for part in _parts(key):
        if part.__class__ not in _BASIC and hasattr(part, "dtype") and part.dtype.kind in "iu" and part.ndim:
            return True
    return False


_BASIC = (int, slice, type(None), type(...))


def _add_at(target: Array, key: Key, values: Array) -> None:
    """Add `values` into `target[key]`, in place; what the key names twice is added twice."""
    if type(target).__module__.startswith("cupy"):
        import cupy  # np.add.at does not reach CuPy when the key is a tuple

        cupy.add.at(target, key, values)
    else:
        np.add.at(target, key, values)


def _sum_rows(rows: Array, values: Array, count: int) -> Array:
    """Return `count` rows: at r the sum of all `values[i]` with `rows[i] == r` (an embedding's gradient).

    It is the product of a sparse matrix, with a 1 at every (rows[i], i), and `values`: one walk over the
    values in their order, ten to twenty times as fast as np.add.at.
    """
    import scipy.sparse  # at first use: it takes a fifth of a second to import

    ones, columns = np.ones(len(rows), values.dtype), np.arange(len(rows) + 1)
    return scipy.sparse.csc_array((ones, rows, columns), shape=(count, len(rows))) @ values


# From so many values on, and in these dtypes, _sum_rows is worth its preparations.
_MANY, _SUMMED = 10_000, (np.float32, np.float64, np.complex64, np.complex128)


def _put_add(g: Array, *, key: Key, shape: tuple[int, ...]) -> Array:
    """Zeros of `shape` with `g` added at `key`; what the key names twice is added twice."""
    repeats = _may_repeat(key)
    if repeats and g.size >= _MANY and type(g) is np.ndarray and g.dtype in _SUMMED:
        parts = _parts(key)
        if len(parts) == 1:
            rows = parts[0].reshape(-1)
            rows = np.where(rows < 0, rows + shape[0], rows)
            summed = _sum_rows(rows, g.reshape(len(rows), -1), shape[0])
            return summed if len(shape) == 2 else summed.reshape(shape)
    target = zeros(shape, g)
    if repeats:
        _add_at(target, key, g)
    else:
        target[key] = g
    return target


def _getitem(x: Array, *, key: Key) -> Array:
    out = x[key]
    if isinstance(out, np.generic):
        # One int per axis gives a scalar, which is a copy; with an ellipsis behind them it is a view.
        return x[(*_parts(key), ...)]
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
    return x[_along(index, axis)] if index.ndim else x[index]


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
        _add_at(view, _along(index, axis), values)
    else:
        view[_along(index, axis)] = values
    return out


def _source_rule(g: Array, index: Array, source: Array, axis: int) -> Array:
    taken = GATHER(g, index, axis=axis)
    if source.shape == index.shape:
        return taken
    return PUT_ADD(taken, key=tuple(slice(0, n) for n in index.shape), shape=source.shape)


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
    _add_at(out, key, source if alpha == 1 else alpha * source)
    return out


INDEX_ADD = Op(
    "index_add",
    _index_add,
    lambda g, out, x, index, source, *, axis, alpha: g,
    None,
    lambda g, out, x, index, source, *, axis, alpha: alpha * g[(slice(None),) * axis + (index,)],
)

# --- joining and cutting ------------------------------------------------------------------------


def _cat_rule(i: int, g: Array, out: Array, *inputs: Array, axis: int, starts: tuple[int, ...]) -> Array:
    return g[(slice(None),) * axis + (slice(starts[i], starts[i + 1]),)]


CAT = Op("cat", lambda *xs, axis, starts: np.concatenate(xs, axis=axis), each=_cat_rule)
STACK = Op(
    "stack",
    lambda *xs, axis: np.stack(xs, axis=axis),
    each=lambda i, g, out, *xs, axis: g[(slice(None),) * axis + (i,)],
)


def _split(x: Array, *, axis: int, cuts: Sequence[int]) -> list[Array]:
    lead = (slice(None),) * axis
    bounds = zip((0, *cuts), (*cuts, x.shape[axis]), strict=True)
    return [x[(*lead, slice(a, b))] for a, b in bounds]


# Several results: the rule receives all their gradients at once, and one concatenation puts them
# back. (A getitem per piece would make a full-size array of zeros for each.)
SPLIT = Op(
    "split",
    _split,
    lambda g, out, x, *, axis, cuts: np.concatenate(g, axis=axis),
)
UNBIND = Op(
    "unbind",
    lambda x, *, axis: [x[(slice(None),) * axis + (i, ...)] for i in range(x.shape[axis])],
    lambda g, out, x, *, axis: np.stack(g, axis=axis),
)


def _tile_rule(g: Array, out: Array, x: Array, *, times: tuple[int, ...]) -> Array:
    # Each axis of length r·n is split into r copies of n; the copies are summed.
    lengths = (1,) * (len(times) - x.ndim) + tuple(x.shape)
    split = tuple(n for pair in zip(times, lengths, strict=True) for n in pair)
    return g.reshape(split).sum(axis=tuple(range(0, len(split), 2))).reshape(x.shape)


TILE = Op("tile", lambda x, *, times: np.tile(x, times), _tile_rule)
ROLL = Op(
    "roll",
    lambda x, *, shifts, axis: np.roll(x, shifts, axis),
    lambda g, out, x, *, shifts, axis: np.roll(
        g, tuple(-s for s in shifts) if isinstance(shifts, tuple) else -shifts, axis
    ),
)


def _pad(x: Array, *, widths: tuple[tuple[int, int], ...], value: float) -> Array:
    # A negative width crops.
    cropped = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, x.shape, strict=True))]
    grow = tuple((max(a, 0), max(b, 0)) for a, b in widths)
    return np.pad(cropped, grow, constant_values=value) if grow else cropped.copy()


PAD: Op = Op(
    "pad",
    _pad,
    lambda g, out, x, *, widths, value: PAD(g, widths=tuple((-a, -b) for a, b in widths), value=0.0),
)

# --- triangles, diagonals, windows --------------------------------------------------------------

TRIL = Op("tril", lambda x, *, k: np.tril(x, k), lambda g, out, x, *, k: np.tril(g, k))
TRIU = Op("triu", lambda x, *, k: np.triu(x, k), lambda g, out, x, *, k: np.triu(g, k))


def _put_diagonal(x: Array, *, shape: tuple[int, ...], offset: int, axis1: int, axis2: int) -> Array:
    """Zeros of `shape` with the last axis of `x` along a diagonal of two axes."""
    out = zeros(shape, x)
    places = np.arange(x.shape[-1], like=x).astype(np.int64)
    moved = np.moveaxis(out, (axis1, axis2), (-2, -1))
    moved[..., places + max(-offset, 0), places + max(offset, 0)] = x
    return out


def _diagonal(x: Array, *, offset: int, axis1: int, axis2: int) -> Array:
    out = np.diagonal(x, offset, axis1, axis2)
    if isinstance(out, np.ndarray) and out.base is not None and isinstance(x, np.ndarray):
        # NumPy's view is read only; PyTorch's is written into.
        out.flags.writeable = x.flags.writeable
    return out


DIAGONAL = Op(
    "diagonal",
    _diagonal,
    lambda g, out, x, *, offset, axis1, axis2: PUT_DIAGONAL(
        g, shape=x.shape, offset=offset, axis1=axis1, axis2=axis2
    ),
)
PUT_DIAGONAL: Op = Op(
    "put_diagonal",
    _put_diagonal,
    lambda g, out, x, *, shape, offset, axis1, axis2: np.diagonal(g, offset, axis1, axis2),
)


def _unfold(x: Array, *, axis: int, size: int, step: int) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=axis)
    return windows[(slice(None),) * axis + (slice(None, None, step),)]


def _fold(x: Array, *, axis: int, size: int, step: int, shape: tuple[int, ...]) -> Array:
    """Add overlapping windows (on the last axis) back to where they were cut from."""
    out = zeros(shape, x)
    count = x.shape[axis]
    for i in range(size):
        place = (slice(None),) * axis + (slice(i, i + step * (count - 1) + 1, step),)
        out[place] += x[..., i]
    return out


UNFOLD = Op(
    "unfold",
    _unfold,
    lambda g, out, x, *, axis, size, step: FOLD(g, axis=axis, size=size, step=step, shape=x.shape),
)
FOLD: Op = Op(
    "fold_windows",
    _fold,
    lambda g, out, x, *, axis, size, step, shape: UNFOLD(g, axis=axis, size=size, step=step),
)
