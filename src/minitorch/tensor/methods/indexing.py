"""Copies with some elements written, folded or taken by index, as functions and as Tensor methods.

Enters: a tensor, indices, and what to write. Leaves: a new tensor; nothing is written in place.
methods/families.py makes methods of those that PyTorch offers as methods too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.ops import indexing as ops
from minitorch.ops.op import violated, zeros
from minitorch.ops.shape import PUT_ADD
from minitorch.tensor.convert import (
    as_tensor,
    cast,
    choose,
    common_shape,
    one_axis,
    one_int,
    operand,
    tensor_for,
)
from minitorch.tensor.methods.elementwise import check_mask, fill_of, select
from minitorch.tensor.methods.shape import _check_range, _places, index_key

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


def _written(x: Tensor, key: Any, values: Any, name: str) -> Tensor:
    """Return a copy of x with values at a key, as arrays understand it."""
    values = operand(values, name)
    if not isinstance(values, Node):
        values = fill_of(values, x._data.dtype, name)
    elif values._data.dtype != x._data.dtype:
        raise RuntimeError(
            f"{name}: the values are {values._data.dtype}, but x is {x._data.dtype}; write values.to(x.dtype)"
        )
    return apply(ops.INDEX_PUT, x, values, key=key)


def _along(axis: int, part: Any) -> tuple[Any, ...]:
    return (slice(None),) * axis + (part,)


# --- by index -----------------------------------------------------------------------------------


def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """x with `values` at x[indices], or added there.   dx = g where nothing was written, dvalues = g[indices]

    >>> index_put(minitorch.tensor([1.0, 2.0, 3.0]), (minitorch.tensor([0, 2]),), minitorch.tensor(9.0))
    tensor([9., 2., 9.])
    """
    x = tensor_for(input, "index_put")
    key = index_key(tuple(slice(None) if part is None else part for part in indices))
    written = as_tensor(values)
    if written._data.dtype != x._data.dtype:
        raise RuntimeError(f"index_put: values are {written._data.dtype}, but x is {x._data.dtype}")
    if not accumulate:
        return _written(x, key, written, "index_put")
    if x._data.dtype.kind == "b":  # of bools the sum is `or`
        return index_put(cast(x, np.int64), indices, cast(written, np.int64), True) != 0
    region = x.detach()[tuple(indices) if not any(p is None for p in indices) else key]
    return x + apply(PUT_ADD, written.broadcast_to(region.shape), key=key, shape=x.shape)


def index_fill(
    input: Any, dim: int | None = None, index: Any = None, value: Any = None, *, axis: int | None = None
) -> Tensor:
    """x with `value` in the slices of an axis that `index` names.   dx = g elsewhere, dvalue = Σ g there

    >>> index_fill(minitorch.tensor([1.0, 2.0, 3.0]), 0, minitorch.tensor([0, 2]), -1.0)
    tensor([-1.,  2., -1.])
    """
    x = tensor_for(input, "index_fill")
    at, places = x._row()._slices(choose(axis, dim), index, "index_fill")
    value = operand(value, "index_fill")
    if isinstance(value, Node):
        if value._data.ndim:
            raise RuntimeError(f"index_fill: value must be one number, got shape {value._data.shape}")
        value = cast(value, x._data.dtype)
    row = x._row()
    _check_range(select(places < 0, places + row.shape[at], places)._data, row.shape[at], at, "index_fill")
    named = apply(ops.INDEX_PUT, new_tensor(zeros((row.shape[at],), row._data) != 0), True, key=places._data)
    along = [1] * row.ndim
    along[at] = -1
    if not isinstance(value, Node):
        value = fill_of(value, x._data.dtype, "index_fill")
    return select(named.reshape(along), value, row).reshape(x.shape)


def index_copy(
    input: Any, dim: int | None = None, index: Any = None, source: Any = None, *, axis: int | None = None
) -> Tensor:
    """x with source[i] in the slice index[i] of an axis.   dx = g elsewhere, dsource = those slices of g

    >>> index_copy(minitorch.tensor([1.0, 2.0, 3.0]), 0, minitorch.tensor([2, 0]), minitorch.tensor([8.0, 9.0]))
    tensor([9., 2., 8.])
    """
    x = tensor_for(input, "index_copy")
    at, places = x._row()._slices(choose(axis, dim), index, "index_copy")
    _check_range(places._data, x._row().shape[at], at, "index_copy")
    source = tensor_for(source, "index_copy")
    wanted = (*x._row().shape[:at], places.numel(), *x._row().shape[at + 1 :])
    if source.numel() != math.prod(wanted):
        raise RuntimeError(f"index_copy: expects a source of shape {wanted}, got {source.shape}")
    return _written(x._row(), _along(at, places._data), source.reshape(wanted), "index_copy").reshape(x.shape)


def index_reduce(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Tensor:
    """x with source[i] folded into the slice index[i] of an axis, by 'prod', 'mean', 'amax' or 'amin'.

    >>> index_reduce(minitorch.tensor([1.0, 5.0]), 0, minitorch.tensor([0, 0]), minitorch.tensor([3.0, 2.0]), "amax")
    tensor([3., 5.])
    """
    x = tensor_for(input, "index_reduce")
    at, places = x._row()._slices(dim, index, "index_reduce")
    source = tensor_for(source, "index_reduce")._row()
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce: reduce must be 'prod', 'mean', 'amax' or 'amin', got {reduce!r}")
    along = [1] * x._row().ndim
    along[at] = -1
    spread = places.reshape(along).broadcast_to(source.shape)
    return scatter_reduce(x._row(), at, spread, source, reduce, include_self=include_self).reshape(x.shape)


def take(input: Any, index: Any) -> Tensor:
    """The elements at these numbers, as if x were on one axis.   dx: g added where it was taken from

    >>> take(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), minitorch.tensor([0, 3]))
    tensor([1., 4.])
    """
    x = tensor_for(input, "take")
    places = _places(index, "take")
    if not x.numel() and places.numel():
        raise IndexError(f"take: from no elements (shape {x.shape}) none can be taken")
    return x.reshape(-1)[places]


def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Tensor:
    """x with `source` at these numbers, as if on one axis, or added there.

    >>> put(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), minitorch.tensor([0, 3]), minitorch.tensor([8.0, 9.0]))
    tensor([[8., 2.],
            [3., 9.]])
    """
    x = tensor_for(input, "put")
    places, values = _places(index, "put").reshape(-1), tensor_for(source, "put").reshape(-1)
    if places.shape != values.shape:
        raise RuntimeError(f"put: {places.numel()} places for {values.numel()} values")
    return index_put(x.reshape(-1), (places,), values, accumulate).reshape(x.shape)


# --- by mask ------------------------------------------------------------------------------------


def masked_scatter(input: Any, mask: Any, source: Any) -> Tensor:
    """x with the elements of `source`, in their order, where the mask holds.   dx = g elsewhere, dsource = g there

    >>> mask = minitorch.tensor([True, False, True])
    >>> masked_scatter(minitorch.tensor([1.0, 2.0, 3.0]), mask, minitorch.tensor([8.0, 9.0]))
    tensor([8., 2., 9.])
    """
    x, values = tensor_for(input, "masked_scatter"), tensor_for(source, "masked_scatter")
    where = check_mask(mask, "masked_scatter")
    if values._data.dtype != x._data.dtype:
        raise RuntimeError(f"masked_scatter: source is {values._data.dtype}, but x is {x._data.dtype}")
    shape = common_shape("masked_scatter", x.shape, where.shape)
    x, where = x.broadcast_to(shape), cast(where, np.bool_).broadcast_to(shape)
    rank = where.reshape(-1).cumsum(0) - 1  # the how-manieth true this is
    if not x.numel():
        return x.clone()
    if violated((rank[-1] >= values.numel())._data):
        raise RuntimeError(
            f"masked_scatter: the mask holds at more places than the {values.numel()} elements of source"
        )
    if not values.numel():
        return x.clone()
    taken = values.reshape(-1)[rank.clamp(min=0)].reshape(shape)
    return select(where, taken, x)


# --- by axis ------------------------------------------------------------------------------------


def select_scatter(input: Any, src: Any, dim: int, index: int) -> Tensor:
    """x with `src` in place of one slice of an axis.   dx = g elsewhere, dsrc = that slice of g

    >>> select_scatter(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), minitorch.tensor([8.0, 9.0]), 0, 1)
    tensor([[1., 2.],
            [8., 9.]])
    """
    x = tensor_for(input, "select_scatter")
    at = one_axis(dim, x.ndim, "select_scatter")
    key = _along(at, one_int(index, "select_scatter", "index"))
    return _fitting(x, key, src, "select_scatter")


def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """x with `src` in place of a slice start:end:step of an axis.   dx = g elsewhere, dsrc = that part of g

    >>> slice_scatter(minitorch.tensor([1.0, 2.0, 3.0]), minitorch.tensor([8.0, 9.0]), start=1)
    tensor([1., 8., 9.])
    """
    x = tensor_for(input, "slice_scatter")
    at = one_axis(dim, x.ndim, "slice_scatter")
    return _fitting(x, _along(at, slice(start, end, step)), src, "slice_scatter")


def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """x with `src` on the diagonal of two axes.   dx = g elsewhere, dsrc = g's diagonal

    >>> diagonal_scatter(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), minitorch.tensor([8.0, 9.0]))
    tensor([[8., 2.],
            [3., 9.]])
    """
    x = tensor_for(input, "diagonal_scatter")
    first, second = (one_axis(d, x.ndim, "diagonal_scatter") for d in (dim1, dim2))
    moved = x.movedim((first, second), (-2, -1))
    length = x.detach().diagonal(offset, dim1, dim2).shape[-1]
    places = np.arange(length, like=x._data)
    key = (..., places + max(-offset, 0), places + max(offset, 0))
    return _fitting(moved, key, src, "diagonal_scatter").movedim((-2, -1), (first, second))


def _fitting(x: Tensor, key: Any, src: Any, name: str) -> Tensor:
    source = tensor_for(src, name)
    wanted = x.detach()[tuple(new_tensor(k) if isinstance(k, np.ndarray) else k for k in key)].shape
    if source.shape != wanted:
        raise RuntimeError(f"{name}: expects a src of shape {wanted}, got {source.shape}")
    return _written(x, key, source, name)


# --- folding ------------------------------------------------------------------------------------


def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Tensor:
    """x with src[i][j] folded into out[index[i][j]][j] for axis 0, by 'sum', 'prod', 'mean', 'amax' or 'amin'.

    include_self: whether what is in x takes part. g goes to what was added, the products' other factors, or to the
    extremes, split evenly among ties.

    >>> index, source = minitorch.tensor([0, 0, 1]), minitorch.tensor([2.0, 3.0, 4.0])
    >>> scatter_reduce(minitorch.tensor([1.0, 5.0]), 0, index, source, "sum")
    tensor([6., 9.])
    """
    x = tensor_for(input, "scatter_reduce")
    at, places = x._row()._along(dim, index, "scatter_reduce")
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"scatter_reduce: reduce must be 'sum', 'prod', 'mean', 'amax' or 'amin', got {reduce!r}"
        )
    values = x._same_dtype(src, "scatter_reduce", "src")
    if not places.numel():
        return x.clone()
    row, places, values = x._row(), places._row(), values._row()
    if any(n > have for n, have in zip(places.shape, values.shape, strict=True)):
        raise RuntimeError(
            f"scatter_reduce: index of shape {places.shape} needs a src at least as large, got {values.shape}"
        )
    if reduce in ("prod", "amax", "amin"):
        options = {"axis": at, "reduce": reduce, "include_self": include_self}
        return apply(ops.SCATTER_REDUCE, row, places, values, **options).reshape(x.shape)
    start = row if include_self else row.scatter(at, places, 0)
    total = start.scatter_add(at, places, values)
    if reduce == "mean":
        ones = new_tensor(np.ones_like(values._data))
        base = new_tensor(np.ones_like(row._data))
        count = (base if include_self else base.scatter(at, places, 0)).scatter_add(at, places, ones)
        floor = x._data.dtype.kind in "iu"
        count = count.clamp(min=1)
        total = total.div(count, rounding_mode="floor") if floor else total / count
    return total.reshape(x.shape)


__all__ = [
    "diagonal_scatter", "index_copy", "index_fill", "index_put", "index_reduce", "masked_scatter", "put",
    "scatter_reduce", "select_scatter", "slice_scatter", "take",
]  # fmt: skip
