"""Taking and putting elements by index: x[key], gather, scatter, masks, and the places themselves.

Enters: a tensor, indices, and what to write. Leaves: a new tensor; nothing is written in place.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.dtypes import int64, kind_of
from minitorch.engine.fast import apply_unary
from minitorch.engine.gpu import differ
from minitorch.engine.meta import Meta
from minitorch.engine.modes import autocasting, current
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.ops import indexing as ops
from minitorch.ops.indexing import check_there
from minitorch.ops.native import is_of_device
from minitorch.ops.op import Op, violated, zeros
from minitorch.ops.sparse import Coo
from minitorch.tensor.conversions import move
from minitorch.tensor.convert import (
    as_tensor,
    cast,
    choose,
    common_shape,
    is_array,
    one_axis,
    one_int,
    operand,
    promoted,
    tensor_for,
)
from minitorch.tensor.devices import gpu_of, place_of
from minitorch.tensor.methods.arguments import (
    as_row,
    check_mask,
    check_range,
    fill_of,
    index_tensor,
    required_axis,
    together,
)
from minitorch.tensor.methods.comparison import where
from minitorch.tensor.methods.public import function, in_place

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Indexing(Node):
    """Elements by index."""

    __slots__ = ()

    # --- taking ----------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        if key.__class__ not in _BASIC:
            integers, key = index_key(key, self._data)
            if integers is not None:
                return apply_unary(ops.GETITEM, self, {"key": integers})[key]
        return apply_unary(ops.GETITEM, self, {"key": key})

    def gather(
        self: Any,
        axis: int | None = None,
        index: Any = None,
        *,
        dim: int | None = None,
        sparse_grad: bool = False,
    ) -> Tensor:
        """out[i][j] = x[index[i][j]][j] for axis 0, and so on.   dx: g added where it was taken from

        >>> logits = minitorch.arange(15.0).reshape(3, 5)
        >>> logits.gather(1, minitorch.tensor([[4], [0], [2]]))
        tensor([[ 4.],
                [ 5.],
                [12.]])
        """
        at, places = _along_axis(self, choose(axis, dim), index, "gather")
        if places._array.ndim != self._array.ndim and not places._data.size:
            return self.reshape(-1)[:0].reshape(places._data.shape)
        return apply(ops.GATHER, self, places, axis=at)

    def take_along_dim(self: Any, indices: Any, axis: int | None = None, *, dim: int | None = None) -> Tensor:
        """Gather, with the other axes of x and `indices` broadcast; without an axis on the flattened tensor.

        >>> minitorch.tensor([[3.0, 1.0, 2.0]]).take_along_dim(minitorch.tensor([[2, 0]]), 1)
        tensor([[2., 3.]])
        """
        axis = choose(axis, dim)
        places = index_tensor(indices, "take_along_dim")
        if axis is None:
            return self.reshape(-1).gather(0, places.reshape(-1))
        if places._array.ndim != self._array.ndim:
            raise RuntimeError(
                f"take_along_dim: x has {self._array.ndim} axes but indices have {places._array.ndim}; "
                "they must be as many"
            )
        at = required_axis(self, axis, "take_along_dim")
        if not self._array.ndim:
            return self.gather(at, places)
        length, count = self._data.shape[at], places._data.shape[at]
        others = common_shape(
            "take_along_dim", *((*s[:at], 1, *s[at + 1 :]) for s in (self._data.shape, places._data.shape))
        )
        places = where(places < 0, places + length, places)  # counted from the end, as in an index
        return self.broadcast_to((*others[:at], length, *others[at + 1 :])).gather(
            at, places.broadcast_to((*others[:at], count, *others[at + 1 :]))
        )

    def index_select(
        self: Any, axis: int | None = None, index: Any = None, *, dim: int | None = None
    ) -> Tensor:
        """The slices of an axis that `index` names, in its order.   dx: g added where it was taken from

        >>> minitorch.arange(15.0).reshape(3, 5).index_select(0, minitorch.tensor([2, 0])).shape
        (2, 5)
        """
        at, places = _slices_of(self, choose(axis, dim), index, "index_select")
        check_range(places._data, self._data.shape[at] if self._array.ndim else 1, at, "index_select")
        if self._array.ndim == 0:
            if places._data.size != 1:
                raise RuntimeError(f"index_select: a 0-d tensor has 1 slice, not {places._data.size}")
            return self.reshape(1)[places].reshape(())
        if is_of_device(places._data):  # (they were looked at)
            return apply_unary(ops.GETITEM, self, {"key": (slice(None),) * at + (places._data,)})
        return self[(slice(None),) * at + (places,)]

    def take(self: Any, index: Any) -> Tensor:
        """The elements at these numbers, as if x were on one axis.   dx: g added where it was taken from

        >>> take(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), minitorch.tensor([0, 3]))
        tensor([1., 4.])
        """
        places = index_tensor(index, "take")
        if not self.numel() and places.numel():
            raise IndexError(f"take: from no elements (shape {self.shape}) none can be taken")
        return self.reshape(-1)[places]

    def masked_select(self: Any, mask: Any) -> Tensor:
        """The elements where the mask holds, on one axis.   dx = g there, 0 elsewhere

        >>> minitorch.arange(4.0).masked_select(minitorch.tensor([True, False, True, False]))
        tensor([0., 2.])
        """
        held = cast(check_mask(mask, "masked_select"), np.bool_)
        sizes = common_shape("masked_select", self._data.shape, held._data.shape)
        return self.broadcast_to(sizes)[held.broadcast_to(sizes)]

    # --- putting ---------------------------------------------------------------------------------

    @in_place
    def scatter(
        self,
        axis: int | None = None,
        index: Any = None,
        src: Any = None,
        *,
        dim: int | None = None,
        value: Any = None,
        reduce: str | None = None,
    ) -> Tensor:
        """x with out[index[i][j]][j] = src[i][j] for axis 0, and so on.

        dx = g where nothing was written, dsrc = g where it was written

        >>> minitorch.zeros(1, 4).scatter(1, minitorch.tensor([[2, 0]]), minitorch.tensor([[5.0, 7.0]]))
        tensor([[7., 0., 5., 0.]])
        """
        if reduce not in (None, "add"):
            raise RuntimeError(f"scatter: reduce must be None or 'add', got {reduce!r}")
        op = ops.SCATTER if reduce is None else ops.SCATTER_ADD
        return _scattered(self, op, choose(axis, dim), index, choose(src, value, "src and value"), "scatter")

    @in_place
    def scatter_add(
        self, axis: int | None = None, index: Any = None, src: Any = None, *, dim: int | None = None
    ) -> Tensor:
        """x with src[i][j] added at out[index[i][j]][j] for axis 0, and so on.   dx = g, dsrc: g where it was added

        >>> minitorch.zeros(3).scatter_add(0, minitorch.tensor([0, 0, 2]), minitorch.ones(3))
        tensor([2., 0., 1.])
        """
        if not isinstance(src, Node) and not is_array(src):
            raise TypeError(
                f"scatter_add: src must be a tensor, got {src!r}; write minitorch.full for a number"
            )
        return _scattered(self, ops.SCATTER_ADD, choose(axis, dim), index, src, "scatter_add")

    @in_place
    def index_add(
        self: Any,
        axis: int | None = None,
        index: Any = None,
        source: Any = None,
        *,
        dim: int | None = None,
        alpha: float = 1,
    ) -> Tensor:
        """x with α·source[i] added to the slice index[i] of an axis.   dx = g, dsource = α·(those slices of g)

        >>> minitorch.zeros(3).index_add(0, minitorch.tensor([0, 0]), minitorch.ones(2))
        tensor([2., 0., 0.])
        """
        at, places = _slices_of(self, choose(axis, dim), index, "index_add")
        added = _same_dtype(self, source, "index_add", "source")
        x = self if self._array.ndim else self.reshape(1)
        added = added if added._array.ndim else added.reshape(1)
        sizes = x._data.shape
        if added._data.shape != (*sizes[:at], places._data.size, *sizes[at + 1 :]):
            raise RuntimeError(
                f"index_add: {places._data.size} slices of axis {at} of shape {self._data.shape} need a source of "
                f"shape {(*sizes[:at], places._data.size, *sizes[at + 1 :])}, got {added._data.shape}"
            )
        check_range(places._data, sizes[at], at, "index_add")
        out = apply(ops.INDEX_ADD, x, places, added, axis=at, alpha=alpha)
        return out if self._array.ndim else out.reshape(())

    @in_place
    def index_put(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
        """x with `values` at x[indices], or added there.   dx = g where nothing was written, dvalues = g[indices]

        >>> index_put(minitorch.tensor([1.0, 2.0, 3.0]), (minitorch.tensor([0, 2]),), minitorch.tensor(9.0))
        tensor([9., 2., 9.])
        """
        key = tuple(slice(None) if part is None else _index_part(part, self._data) for part in indices)
        _check_parts(key, self._data)
        _, written = together(self, as_tensor(values))
        if written._array.dtype != self._array.dtype:
            raise RuntimeError(f"index_put: values are {written._array.dtype}, but x is {self._array.dtype}")
        if not accumulate:
            return _written(self, key, written, "index_put")
        if self._array.dtype.kind == "b":  # of bools the sum is `or`
            return index_put(cast(self, np.int64), indices, cast(written, np.int64), True) != 0
        region = apply(ops.GETITEM, self.detach(), key=key).shape
        return self + apply(ops.PUT_ADD, written.broadcast_to(region), key=key, shape=self.shape)

    @in_place
    def index_fill(
        self: Any, dim: int | None = None, index: Any = None, value: Any = None, *, axis: int | None = None
    ) -> Tensor:
        """x with `value` in the slices of an axis that `index` names.   dx = g elsewhere, dvalue = Σ g there

        >>> index_fill(minitorch.tensor([1.0, 2.0, 3.0]), 0, minitorch.tensor([0, 2]), -1.0)
        tensor([-1.,  2., -1.])
        """
        at, places = _slices_of(as_row(self), choose(axis, dim), index, "index_fill")
        value = operand(value, "index_fill")
        if isinstance(value, Node):
            if value._array.ndim:
                raise RuntimeError(f"index_fill: value must be one number, got shape {value._data.shape}")
            value = cast(value, self._array.dtype)
        row = as_row(self)
        check_range(where(places < 0, places + row.shape[at], places)._data, row.shape[at], at, "index_fill")
        named = apply(
            ops.INDEX_PUT, new_tensor(zeros((row.shape[at],), row._data) != 0), True, key=places._data
        )
        along = [1] * row.ndim
        along[at] = -1
        if not isinstance(value, Node):
            value = fill_of(value, self._array.dtype, "index_fill")
        return where(named.reshape(along), value, row).reshape(self.shape)

    @in_place
    def index_copy(
        self: Any, dim: int | None = None, index: Any = None, source: Any = None, *, axis: int | None = None
    ) -> Tensor:
        """x with source[i] in the slice index[i] of an axis.   dx = g elsewhere, dsource = those slices of g

        >>> index_copy(minitorch.tensor([1.0, 2.0, 3.0]), 0, minitorch.tensor([2, 0]), minitorch.tensor([8.0, 9.0]))
        tensor([9., 2., 8.])
        """
        at, places = _slices_of(as_row(self), choose(axis, dim), index, "index_copy")
        check_range(places._data, as_row(self).shape[at], at, "index_copy")
        source = tensor_for(source, "index_copy")
        if autocasting and current().precision is not None:
            self, source = promoted(self, source)
        wanted = (*as_row(self).shape[:at], places.numel(), *as_row(self).shape[at + 1 :])
        if source.numel() != math.prod(wanted):
            raise RuntimeError(f"index_copy: expects a source of shape {wanted}, got {source.shape}")
        return _written(
            as_row(self), _key_along(at, places._data), source.reshape(wanted), "index_copy"
        ).reshape(self.shape)

    @in_place
    def put(self: Any, index: Any, source: Any, accumulate: bool = False) -> Tensor:
        """x with `source` at these numbers, as if on one axis, or added there.

        >>> put(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), minitorch.tensor([0, 3]), minitorch.tensor([8.0, 9.0]))
        tensor([[8., 2.],
                [3., 9.]])
        """
        places, values = index_tensor(index, "put").reshape(-1), tensor_for(source, "put").reshape(-1)
        if places.shape != values.shape:
            raise RuntimeError(f"put: {places.numel()} places for {values.numel()} values")
        return index_put(self.reshape(-1), (places,), values, accumulate).reshape(self.shape)

    @in_place
    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """x with `value` where the mask holds.   dx = g where it does not, dvalue = Σ g where it does

        >>> minitorch.zeros(3).masked_fill(minitorch.tensor([False, True, False]), -float("inf"))
        tensor([0., -inf, 0.])
        """
        held = check_mask(mask, "masked_fill")
        value = operand(value, "masked_fill")
        if not isinstance(value, Node):
            return where(held, fill_of(value, self._array.dtype, "masked_fill"), self).contiguous()
        if value._array.ndim:
            raise RuntimeError(
                f"masked_fill: value must be one number, got shape {value._data.shape}; write where(mask, value, x)"
            )
        return where(held, cast(value, self._array.dtype), self).contiguous()

    @in_place
    def masked_scatter(self: Any, mask: Any, source: Any) -> Tensor:
        """x with the elements of `source`, in their order, where the mask holds.   dx = g elsewhere, dsource = g there

        >>> mask = minitorch.tensor([True, False, True])
        >>> masked_scatter(minitorch.tensor([1.0, 2.0, 3.0]), mask, minitorch.tensor([8.0, 9.0]))
        tensor([8., 2., 9.])
        """
        x, values = self, tensor_for(source, "masked_scatter")
        held = check_mask(mask, "masked_scatter")
        if values._array.dtype != x._array.dtype:
            raise RuntimeError(f"masked_scatter: source is {values._array.dtype}, but x is {x._array.dtype}")
        shape = common_shape("masked_scatter", x.shape, held.shape)
        x, held = x.broadcast_to(shape), cast(held, np.bool_).broadcast_to(shape)
        rank = held.reshape(-1).cumsum(0) - 1  # the how-manieth true this is
        if not x.numel():
            return x.clone()
        if violated((rank[-1] >= values.numel())._data):
            raise RuntimeError(
                f"masked_scatter: the mask holds at more places than the {values.numel()} elements of source"
            )
        if not values.numel():
            return x.clone()
        taken = values.reshape(-1)[rank.clamp(min=0)].reshape(shape)
        return where(held, taken, x)

    # --- folding ---------------------------------------------------------------------------------

    @in_place
    def scatter_reduce(
        self: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
    ) -> Tensor:
        """x with src[i][j] folded into out[index[i][j]][j] for axis 0, by 'sum', 'prod', 'mean', 'amax' or 'amin'.

        include_self: whether what is in x takes part. g goes to what was added, the products' other factors, or to the
        extremes, split evenly among ties.

        >>> index, source = minitorch.tensor([0, 0, 1]), minitorch.tensor([2.0, 3.0, 4.0])
        >>> scatter_reduce(minitorch.tensor([1.0, 5.0]), 0, index, source, "sum")
        tensor([6., 9.])
        """
        at, places = _along_axis(as_row(self), dim, index, "scatter_reduce")
        if reduce not in ("sum", "prod", "mean", "amax", "amin"):
            raise RuntimeError(
                f"scatter_reduce: reduce must be 'sum', 'prod', 'mean', 'amax' or 'amin', got {reduce!r}"
            )
        values = _same_dtype(self, src, "scatter_reduce", "src")
        if not places.numel():
            return self.clone()
        row, places, values = as_row(self), as_row(places), as_row(values)
        if any(n > have for n, have in zip(places.shape, values.shape, strict=True)):
            raise RuntimeError(
                f"scatter_reduce: index of shape {places.shape} needs a src at least as large, got {values.shape}"
            )
        if reduce in ("prod", "amax", "amin"):
            options = {"axis": at, "reduce": reduce, "include_self": include_self}
            return apply(ops.SCATTER_REDUCE, row, places, values, **options).reshape(self.shape)
        start = row if include_self else row.scatter(at, places, 0)
        total = start.scatter_add(at, places, values)
        if reduce == "mean":
            ones = new_tensor(np.ones_like(values._data))
            base = new_tensor(np.ones_like(row._data))
            count = (base if include_self else base.scatter(at, places, 0)).scatter_add(at, places, ones)
            floor = self._array.dtype.kind in "iu"
            count = count.clamp(min=1)
            total = total.div(count, rounding_mode="floor") if floor else total / count
        return total.reshape(self.shape)

    @in_place
    def index_reduce(
        self: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
    ) -> Tensor:
        """x with source[i] folded into the slice index[i] of an axis, by 'prod', 'mean', 'amax' or 'amin'.

        >>> index, source = minitorch.tensor([0, 0]), minitorch.tensor([3.0, 2.0])
        >>> index_reduce(minitorch.tensor([1.0, 5.0]), 0, index, source, "amax")
        tensor([3., 5.])
        """
        at, places = _slices_of(as_row(self), dim, index, "index_reduce")
        source = as_row(tensor_for(source, "index_reduce"))
        if reduce not in ("prod", "mean", "amax", "amin"):
            raise RuntimeError(
                f"index_reduce: reduce must be 'prod', 'mean', 'amax' or 'amin', got {reduce!r}"
            )
        along = [1] * as_row(self).ndim
        along[at] = -1
        spread = places.reshape(along).broadcast_to(source.shape)
        return scatter_reduce(as_row(self), at, spread, source, reduce, include_self=include_self).reshape(
            self.shape
        )

    # --- in place of a part ----------------------------------------------------------------------

    def select_scatter(self: Any, src: Any, dim: int, index: int) -> Tensor:
        """x with `src` in place of one slice of an axis.   dx = g elsewhere, dsrc = that slice of g

        >>> select_scatter(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), minitorch.tensor([8.0, 9.0]), 0, 1)
        tensor([[1., 2.],
                [8., 9.]])
        """
        at = one_axis(dim, self.ndim, "select_scatter")
        key = _key_along(at, one_int(index, "select_scatter", "index"))
        return _fitting(self, key, src, "select_scatter")

    def slice_scatter(
        self: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
    ) -> Tensor:
        """x with `src` in place of a slice start:end:step of an axis.   dx = g elsewhere, dsrc = that part of g

        >>> slice_scatter(minitorch.tensor([1.0, 2.0, 3.0]), minitorch.tensor([8.0, 9.0]), start=1)
        tensor([1., 8., 9.])
        """
        at = one_axis(dim, self.ndim, "slice_scatter")
        return _fitting(self, _key_along(at, slice(start, end, step)), src, "slice_scatter")

    def diagonal_scatter(self: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """x with `src` on the diagonal of two axes.   dx = g elsewhere, dsrc = g's diagonal

        >>> diagonal_scatter(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), minitorch.tensor([8.0, 9.0]))
        tensor([[8., 2.],
                [3., 9.]])
        """
        first, second = (one_axis(d, self.ndim, "diagonal_scatter") for d in (dim1, dim2))
        moved = self.movedim((first, second), (-2, -1))
        length = self.detach().diagonal(offset, dim1, dim2).shape[-1]
        places = np.arange(length, like=self._data)
        key = (..., places + max(-offset, 0), places + max(offset, 0))
        return _fitting(moved, key, src, "diagonal_scatter").movedim((-2, -1), (first, second))

    # --- places ----------------------------------------------------------------------------------

    def nonzero(self: Any, *, as_tuple: bool = False) -> Any:
        """The indices of the elements that are not 0: a row each, or a vector per axis with as_tuple=True.

        >>> nonzero(minitorch.tensor([0.0, 3.0, 0.0, 5.0]))
        tensor([[1],
                [3]])
        """
        places = np.nonzero(self._data.reshape(1) if not self.ndim else self._data)
        if as_tuple:
            return tuple(new_tensor(p) for p in places)
        if not self.ndim:
            return new_tensor(places[0].reshape(-1, 1)[:, :0])
        return new_tensor(np.stack(places, axis=1))

    def argwhere(self) -> Tensor:
        """The indices of the elements that are not 0, a row each.

        >>> argwhere(minitorch.tensor([[0, 1], [1, 0]]))
        tensor([[0, 1],
                [1, 0]])
        """
        return nonzero(self)


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = int64, device: Any = None, layout: Any = None
) -> Tensor:
    """The rows and columns of a lower triangle's elements.

    >>> tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    found = new_tensor(np.stack(np.tril_indices(row, offset, col)).astype(dtype))
    return move(found, gpu_of(device))


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = int64, device: Any = None, layout: Any = None
) -> Tensor:
    """The rows and columns of an upper triangle's elements.

    >>> triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    found = new_tensor(np.stack(np.triu_indices(row, offset, col)).astype(dtype))
    return move(found, gpu_of(device))


def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """The index per axis that numbers in a flattened tensor stand for.

    >>> unravel_index(minitorch.tensor([5]), (2, 3))
    (tensor([1]), tensor([2]))
    """
    numbers = tensor_for(indices, "unravel_index")
    if numbers._array.dtype.kind not in "iu":
        raise ValueError(f"unravel_index: expects integers, got {numbers._array.dtype}")
    sizes = (
        (shape,) if isinstance(shape, int) else tuple(one_int(n, "unravel_index", "length") for n in shape)
    )
    found, block = [], math.prod(sizes)
    for size in sizes:
        block //= size
        found.append(numbers // block % size)
    return tuple(found)


# --- keys and checks -----------------------------------------------------------------------------

_BASIC = frozenset((int, slice, type(None), type(...)))


def index_key(key: Any, x: Any) -> tuple[Any, Any]:
    """Return an index into an array as arrays understand it: x[key], or x[integers][key].

    Tensors and lists become arrays. PyTorch applies the integers first, and then looks whether the arrays stand side
    by side: the axes they make stay there, or else come first. For NumPy an integer is an array too, so where a slice
    stands between them it is applied alone before.
    """
    if isinstance(key, list) and _means_a_tuple(key):
        key = tuple(key)
    if not isinstance(key, tuple):
        part = _index_part(key, x)
        _check_parts((part,), x)
        return None, part
    parts = tuple([_index_part(part, x) for part in key])
    _check_parts(parts, x)
    kinds = {part.__class__ for part in parts}
    if kinds.issubset(_BASIC) or kinds.isdisjoint(_SEPARATING):
        return None, parts
    if type(...) in kinds and sum(map(_axes_used, parts)) == x.ndim:
        # An ellipsis between arrays that stands for no axis separates them for NumPy, and not for PyTorch.
        parts = tuple(part for part in parts if part is not ...)
    advanced = [i for i, part in enumerate(parts) if part.__class__ not in _SEPARATING]
    side_by_side = advanced[-1] - advanced[0] == len(advanced) - 1
    if side_by_side or all(_is_integer(parts[i]) for i in advanced):
        return None, parts
    integers: list[Any] = []
    for part in parts:
        if _is_integer(part) or part is ...:
            integers.append(part)
        else:
            integers += [slice(None)] * _axes_used(part)
    if all(part.__class__ in _SEPARATING for part in integers):
        return None, parts
    return tuple(integers), tuple(part for part in parts if not _is_integer(part))


_SEPARATING = frozenset((slice, type(None), type(...)))


def _check_parts(parts: tuple[Any, ...], x: Any) -> None:
    """Refuse places on a device that are out of range. (NumPy looks for itself.)"""
    if not is_of_device(x):
        return
    axis = 0
    for part in parts:
        if part is ...:
            axis = x.ndim - sum(map(_axes_used, parts)) + axis
        else:
            if is_of_device(part) and part.ndim and part.dtype.kind == "i" and axis < x.ndim:
                check_there(part, x.shape[axis], -x.shape[axis])
            axis += _axes_used(part)


def _means_a_tuple(key: Any) -> bool:
    """Tell whether PyTorch reads a list as a tuple of indices: where something in it is more than a number."""
    if len(key) >= 32 or all(isinstance(part, (int, float, np.generic)) for part in key):
        return False
    warnings.warn(
        "getitem: a list of sequences is read as a tuple of indices, one for each axis; write x[tuple(seq)], or for "
        "one index of more axes x[minitorch.tensor(seq)]",
        stacklevel=4,
    )
    return True


def _is_integer(part: Any) -> bool:
    """Tell whether a part of an index drops an axis: a number, or an array of one whose value is not known yet."""
    return part.__class__ is int or (hasattr(part, "dtype") and not part.ndim and part.dtype.kind in "iu")


def _axes_used(part: Any) -> int:
    """Return how many axes a part of an index is for."""
    if part is None or part is ... or part.__class__ is bool:
        return 0
    return part.ndim if hasattr(part, "dtype") and part.dtype.kind == "b" else 1


def _index_part(part: Any, x: Any) -> Any:
    if part.__class__ in _BASIC or part.__class__ is bool:
        return part
    if isinstance(part, Node):
        array = part._data
    elif isinstance(part, (list, tuple, range, np.ndarray)):
        array = as_tensor(part if isinstance(part, np.ndarray) else list(part))._data
        array = array.astype(np.int64) if array.size == 0 and kind_of(array.dtype) == "f" else array
        if x.__class__ is not np.ndarray and not isinstance(part, np.ndarray):
            array = np.asarray(array.tolist(), dtype=array.dtype, like=x)
    elif isinstance(part, (str, bytes, dict, set)):
        raise TypeError(f"getitem: {part!r} is no index; use ints, slices, None, ..., or tensors of them")
    else:
        return int(part) if isinstance(part, (int, np.integer)) else part
    if array.__class__ is Meta and x.__class__ is np.ndarray:
        raise RuntimeError(
            "getitem: Expected all tensors to be on the same device, but found 'cpu' and 'meta'; an index on 'meta' "
            "has no numbers"
        )
    plain = array.__class__ is np.ndarray
    if not (plain and x.__class__ is np.ndarray) and differ(array, x):
        if place_of(array).type == "cpu":
            if (array.ndim or not plain) and x.__class__ is not Coo:  # (which reads places on the CPU)
                array = move(new_tensor(array), place_of(x))._data
        elif array.ndim:
            raise RuntimeError(
                "getitem: indices should be either on the CPU or on the same device as the indexed tensor "
                f"({place_of(x)}); write index.cpu(), or x.to(index.device)"
            )
    kind = array.dtype.kind
    if kind == "i" and array.ndim:
        return array
    if kind not in "biu":
        raise IndexError(f"getitem: tensors used as indices must hold ints or bools, got {array.dtype}")
    if array.dtype == np.uint8:
        if array.ndim:
            warnings.warn(
                "getitem: an index of uint8 is read as a mask; write mask.bool(), or index.long() for places",
                stacklevel=5,
            )
        return array.astype(np.bool_)
    # A tensor of one integer selects as an integer does: a view. What is recorded does not know its value.
    return array if array.ndim or kind == "b" or hasattr(array, "__decide__") else int(array)


def _along_axis(x: Any, axis: Any, index: Any, name: str) -> tuple[int, Tensor]:
    """Return the axis, and an index with as many axes as this tensor and nowhere longer, beside it."""
    at = required_axis(x, axis, name)
    places = index_tensor(index, name)
    if not places._data.size:
        return at, places
    mine, theirs = x._data.shape or (1,), places._data.shape or (1,)
    if len(mine) != len(theirs) or any(
        n > limit for i, (n, limit) in enumerate(zip(theirs, mine, strict=True)) if i != at
    ):
        raise RuntimeError(
            f"{name}: index of shape {places._data.shape} and x of shape {x._data.shape}: index must have as "
            f"many axes, and except along axis {at} it may not be longer"
        )
    check_range(places._data, mine[at], at, name)
    return at, places


def _slices_of(x: Any, axis: Any, index: Any, name: str) -> tuple[int, Tensor]:
    """Return the axis, and a vector of places along it."""
    at = required_axis(x, axis, name)
    places = index_tensor(index, name)
    if places._array.ndim > 1:
        raise IndexError(f"{name}: index must be a vector, but has shape {places._data.shape}")
    return at, places.reshape(-1)


def _same_dtype(x: Any, source: Any, name: str, what: str) -> Tensor:
    """Return an argument as a tensor, which must have the dtype of x."""
    tensor = as_tensor(operand(source, name))
    if tensor._array.dtype != x._array.dtype:
        raise RuntimeError(
            f"{name}: {what} is {tensor._array.dtype}, but x is {x._array.dtype}; write {what}.to(x.dtype)"
        )
    return tensor


def _scattered(x: Any, op: Op, axis: Any, index: Any, source: Any, name: str) -> Tensor:
    at, places = _along_axis(x, axis, index, name)
    values = operand(source, name)
    if isinstance(values, Node):
        values = _same_dtype(x, values, name, "src")
        have, need = values._data.shape or (1,), places._data.shape or (1,)
        if places._data.size and (
            len(have) != len(need) or any(n > h for n, h in zip(need, have, strict=True))
        ):
            raise RuntimeError(f"{name}: index of shape {need} needs a src at least as large, got {have}")
    else:
        values = fill_of(values, x._array.dtype, name)
    if places._array.ndim != x._array.ndim and not places._data.size:
        return x.clone()
    return apply(op, x, places, values, axis=at)


def _written(x: Tensor, key: Any, values: Any, name: str) -> Tensor:
    """Return a copy of x with values at a key, as arrays understand it."""
    values = operand(values, name)
    if not isinstance(values, Node):
        values = fill_of(values, x._array.dtype, name)
    elif values._array.dtype != x._array.dtype:
        raise RuntimeError(
            f"{name}: the values are {values._array.dtype}, but x is {x._array.dtype}; write values.to(x.dtype)"
        )
    return apply(ops.INDEX_PUT, x, values, key=key)


def _key_along(axis: int, part: Any) -> tuple[Any, ...]:
    return (slice(None),) * axis + (part,)


def _fitting(x: Tensor, key: Any, src: Any, name: str) -> Tensor:
    source = tensor_for(src, name)
    wanted = x.detach()[tuple(new_tensor(k) if isinstance(k, np.ndarray) else k for k in key)].shape
    if source.shape != wanted:
        raise RuntimeError(f"{name}: expects a src of shape {wanted}, got {source.shape}")
    return _written(x, key, source, name)


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

gather = function(Indexing.gather)
take_along_dim = function(Indexing.take_along_dim)
index_select = function(Indexing.index_select)
take = function(Indexing.take)
masked_select = function(Indexing.masked_select)
scatter = function(Indexing.scatter)
scatter_add = function(Indexing.scatter_add)
index_add = function(Indexing.index_add)
index_put = function(Indexing.index_put)
index_fill = function(Indexing.index_fill)
index_copy = function(Indexing.index_copy)
put = function(Indexing.put)
masked_fill = function(Indexing.masked_fill)
masked_scatter = function(Indexing.masked_scatter)
scatter_reduce = function(Indexing.scatter_reduce)
index_reduce = function(Indexing.index_reduce)
select_scatter = function(Indexing.select_scatter)
slice_scatter = function(Indexing.slice_scatter)
diagonal_scatter = function(Indexing.diagonal_scatter)
nonzero = function(Indexing.nonzero)
argwhere = function(Indexing.argwhere)

__all__ = [
    "argwhere", "diagonal_scatter", "gather", "index_add", "index_copy", "index_fill", "index_put",
    "index_reduce", "index_select", "masked_fill", "masked_scatter", "masked_select", "nonzero", "put",
    "scatter", "scatter_add", "scatter_reduce", "select_scatter", "slice_scatter", "take", "take_along_dim",
    "tril_indices", "triu_indices", "unravel_index",
]  # fmt: skip
