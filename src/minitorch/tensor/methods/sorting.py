"""Order: sorting, the middle, quantiles, the commonest, the distinct; places in sorted sequences.

Enters: a tensor and an axis, called `dim` or `axis`. Leaves: tensors; where elements are chosen, also where they stand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.dtypes import kind_of
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.ops import sorting as ops
from minitorch.ops.shape import RESHAPE
from minitorch.tensor.convert import as_tensor, cast, choose, one_axis, one_int, operand, tensor_for
from minitorch.tensor.methods.arguments import as_row, beside, last_axis, required_axis, together
from minitorch.tensor.methods.comparison import where
from minitorch.tensor.methods.public import function
from minitorch.tensor.methods.reductions import ValuesAndIndices, pick, refuse_empty
from minitorch.tensor.precision import in_float32

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Sorting(Node):
    """Elements by their order."""

    __slots__ = ()

    # --- sorting ---------------------------------------------------------------------------------

    def sort(
        self,
        axis: int | None = None,
        descending: bool = False,
        stable: bool = True,
        *,
        dim: int | None = None,
    ) -> ValuesAndIndices:
        """The elements in order along `axis` (the last), and where each came from.   g follows the permutation

        >>> minitorch.tensor([3.0, 1.0, 2.0]).sort().values
        tensor([1., 2., 3.])
        """
        at = last_axis(self, axis, dim, "sort")
        order = apply(ops.ARGSORT, as_row(self), axis=at, descending=descending)
        return pick(self, order, at, True, "sort")

    def argsort(
        self,
        axis: int | None = None,
        descending: bool = False,
        stable: bool = True,
        *,
        dim: int | None = None,
    ) -> Tensor:
        """The indices that put the elements in order along `axis` (the last); equal ones keep their order.

        >>> minitorch.tensor([3.0, 1.0, 2.0]).argsort()
        tensor([1, 2, 0])
        """
        at = last_axis(self, axis, dim, "argsort")
        order = apply(ops.ARGSORT, as_row(self), axis=at, descending=descending)
        return order if self._array.ndim else apply(RESHAPE, order, shape=())

    def msort(self: Any) -> Tensor:
        """The elements in order along the first axis.   g follows the permutation

        >>> msort(minitorch.tensor([3.0, 1.0, 2.0]))
        tensor([1., 2., 3.])
        """
        return self.sort(0).values

    def topk(
        self,
        k: int,
        axis: int | None = None,
        largest: bool = True,
        sorted: bool = True,
        *,
        dim: int | None = None,
    ) -> ValuesAndIndices:
        """The k largest (or smallest) along `axis` (the last), and where they stand.   g to those

        >>> minitorch.tensor([3.0, 1.0, 2.0]).topk(2).values
        tensor([3., 2.])
        """
        at = last_axis(self, axis, dim, "topk")
        length = as_row(self)._data.shape[at]
        k = one_int(k, "topk", "k") or (0 if self._array.ndim else 1)  # a 0-d tensor has nothing to leave out
        if not 0 <= k <= length:
            raise RuntimeError(f"topk: k = {k} is out of range for an axis of length {length}")
        first = apply(ops.ARGSORT, as_row(self), axis=at, descending=largest, ranks=(0, k))
        return pick(self, first, at, True, "topk")

    def kthvalue(
        self: Any, k: int, dim: Any = None, keepdim: bool = False, *, axis: Any = None, keepdims: bool = False
    ) -> ValuesAndIndices:
        """The k-th smallest along an axis (the last), k = 1 the smallest, and where it stands.   g to it

        >>> kthvalue(minitorch.tensor([3.0, 1.0, 2.0]), 2).values
        tensor(2.)
        """
        at = last_axis(self, axis, dim, "kthvalue")
        length = as_row(self)._data.shape[at]
        if not 1 <= one_int(k, "kthvalue", "k") <= length:
            raise RuntimeError(f"kthvalue: k = {k} is out of range for an axis of length {length}")
        place = apply(ops.ARGSORT, as_row(self), axis=at, descending=False, ranks=(k - 1, k))
        return pick(self, place, at, keepdim or keepdims, "kthvalue")

    # --- middles ---------------------------------------------------------------------------------

    def median(
        self,
        axis: int | None = None,
        keepdims: bool = False,
        *,
        dim: int | None = None,
        keepdim: bool = False,
    ) -> Any:
        """The middle element, the lower of two; along one axis also where it stands.   g to that element

        >>> minitorch.tensor([4.0, 1.0, 3.0, 2.0]).median()
        tensor(2.)
        """
        axis = choose(axis, dim)
        if axis is None:
            if kind_of(self._array.dtype) != "f":
                refuse_empty(self, (*range(self._array.ndim),), "median")
            return apply(ops.MEDIAN, self)
        axis = required_axis(self, axis, "median")
        refuse_empty(self, axis, "median")
        half = (as_row(self)._data.shape[axis] - 1) // 2
        middle = apply(ops.ARGSORT, as_row(self), axis=axis, descending=False, ranks=(half, half + 1))._data
        if kind_of(self._array.dtype) == "f":  # a nan, sorted to the end, wins over the middle
            data = as_row(self)._data
            hasnan = np.isnan(data).any(axis=axis, keepdims=True)
            middle = np.where(hasnan, np.isnan(data).argmax(axis=axis, keepdims=True), middle)
        return pick(self, as_tensor(middle), axis, keepdims or keepdim, "median")

    def nanmedian(
        self: Any, dim: Any = None, keepdim: bool = False, *, axis: Any = None, keepdims: bool = False
    ) -> Any:
        """The median of what is not nan; along an axis also where it stands.   g to it

        >>> nanmedian(minitorch.tensor([1.0, float("nan"), 3.0, 2.0]))
        tensor(2.)
        """
        dim = choose(axis, dim)
        if kind_of(self._array.dtype) != "f":
            return self.median(dim, keepdim or keepdims)
        if dim is None:
            flat = self.reshape(-1)
            if not flat._data.size:
                return self.median()
            middle = nanmedian(flat.detach(), 0).values
            equal = (self == middle) | (self.isnan() & middle.isnan())
            return where(equal, self, 0.0).sum() / equal.sum()  # all that equal it share the gradient
        at = required_axis(self, dim, "nanmedian")
        refuse_empty(self, at, "nanmedian")
        row = as_row(self)
        order = apply(ops.ARGSORT, row, axis=at, descending=False)  # nan last
        count = (~row.isnan()).sum(at, keepdim=True)
        return pick(
            self, order.gather(at, ((count - 1) // 2).clamp(min=0)), at, keepdim or keepdims, "nanmedian"
        )

    def mode(
        self: Any, dim: Any = None, keepdim: bool = False, *, axis: Any = None, keepdims: bool = False
    ) -> ValuesAndIndices:
        """The commonest element along an axis (the last), the smallest of equally common ones.   g to it

        >>> mode(minitorch.tensor([1, 2, 2, 3])).values
        tensor(2)
        """
        at = last_axis(self, axis, dim, "mode")
        refuse_empty(self, at, "mode")
        return pick(self, apply(ops.MODE_PLACES, as_row(self), axis=at), at, keepdim or keepdims, "mode")

    @in_float32
    def quantile(
        self,
        q: Any,
        dim: Any = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
        axis: Any = None,
        keepdims: bool = False,
    ) -> Tensor:
        """The value below which a share q of the elements lies, between two of them by interpolation.

        q: one share, or several on a first axis. interpolation: 'linear', 'lower', 'higher', 'midpoint', 'nearest'.
        g to the elements around it, by their weights.

        >>> quantile(minitorch.tensor([0.0, 1.0, 2.0, 3.0]), 0.5)
        tensor(1.5000)
        """
        return _quantile(self, q, choose(axis, dim), keepdim or keepdims, interpolation, "quantile")

    @in_float32
    def nanquantile(
        self,
        q: Any,
        dim: Any = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
        axis: Any = None,
        keepdims: bool = False,
    ) -> Tensor:
        """The quantile of what is not nan.

        >>> nanquantile(minitorch.tensor([0.0, float("nan"), 2.0]), 0.5)
        tensor(1.)
        """
        return _quantile(self, q, choose(axis, dim), keepdim or keepdims, interpolation, "nanquantile")

    # --- distinct elements -----------------------------------------------------------------------

    def unique(
        self: Any,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """Each distinct element (or slice of an axis) once, in order; also where each came from, and how often.

        >>> unique(minitorch.tensor([3, 1, 3]), return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
        """
        at = None if dim is None else one_axis(dim, self.ndim, "unique")
        if at is None:
            values, inverse, counts = np.unique(
                self._data, return_inverse=True, return_counts=True, equal_nan=False
            )
            places = inverse.reshape(self.shape)
        elif 0 in self.shape:
            if self.shape[at]:
                raise RuntimeError(f"unique: slices of shape {self.shape} along axis {at} are empty")
            values, places, counts = self._data, np.zeros(0, np.int64), np.zeros(0, np.int64)
        else:
            values, inverse, counts = np.unique(
                self._data, return_inverse=True, return_counts=True, axis=at, equal_nan=False
            )
            places = inverse.reshape(-1)
        return _answers(values, places, counts, return_inverse, return_counts)

    def unique_consecutive(
        self: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """Each run of equal neighbours as one element; also which run each belongs to, and how long they are.

        >>> unique_consecutive(minitorch.tensor([1, 1, 2, 1]))
        tensor([1, 2, 1])
        """
        shape = self.shape if dim is None else (self.shape[one_axis(dim, self.ndim, "unique_consecutive")],)
        data = self._data.reshape(-1) if dim is None else np.moveaxis(self._data, dim, 0)
        if not len(data):
            values = self._data.reshape(-1) if dim is None else self._data
            none = np.zeros(0, np.int64)
            return _answers(values, none.reshape(shape), none, return_inverse, return_counts)
        differs = (data[1:] != data[:-1]).any(axis=tuple(range(1, data.ndim)))
        places = np.concatenate([np.zeros_like(differs, np.int64, shape=(1,)), np.cumsum(differs)])
        starts = np.flatnonzero(np.concatenate([np.ones_like(differs, shape=(1,)), differs]))
        values = data[starts] if dim is None else np.moveaxis(data[starts], 0, dim)
        counts = np.diff(np.concatenate([starts, np.full_like(starts, len(data), shape=(1,))]))
        return _answers(values, places.reshape(shape), counts, return_inverse, return_counts)


def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Tensor:
    """Where each value would stand in a sorted sequence: before equal ones, or behind them with right=True.

    >>> searchsorted(minitorch.tensor([1.0, 3.0, 5.0]), minitorch.tensor([3.0, 6.0]))
    tensor([1, 3])
    """
    sequence = tensor_for(sorted_sequence, "searchsorted")
    values = beside(operand(input, "searchsorted"), sequence)
    if side not in (None, "left", "right"):
        raise RuntimeError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    if sequence.ndim != 1 and sequence.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            f"searchsorted: sequences of shape {sequence.shape} and values of shape {values.shape} must agree "
            "on all axes but the last"
        )
    found = apply(ops.SEARCHSORTED, *together(sequence, values), right=right or side == "right")
    return cast(found, np.int32 if out_int32 else np.int64)


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the bucket each value falls in, between sorted boundaries.

    >>> bucketize(minitorch.tensor([0.5, 3.0]), minitorch.tensor([1.0, 3.0, 5.0]))
    tensor([0, 1])
    """
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def _quantile(input: Any, q: Any, dim: Any, keepdim: bool, interpolation: str, name: str) -> Tensor:
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"{name}: interpolation must be linear, lower, higher, midpoint or nearest, got {interpolation!r}"
        )
    x = tensor_for(input, name)
    if kind_of(x._array.dtype) != "f":
        raise RuntimeError(f"{name}: expects floats, got {x._array.dtype}; write x.float()")
    if not x._data.size:
        raise RuntimeError(f"{name}: of no elements there is none: the tensor has shape {x.shape}")
    shares = beside(q, x, None if isinstance(q, Node) else x._array.dtype)
    if shares._array.dtype != x._array.dtype:
        raise RuntimeError(
            f"{name}: q is {shares._array.dtype}, but x is {x._array.dtype}; write q.to(x.dtype)"
        )
    if shares.ndim > 1:
        raise RuntimeError(f"{name}: q must be a number or a vector, got shape {shares.shape}")
    row = as_row(x) if dim is not None else x.reshape(-1)
    at = 0 if dim is None else one_axis(dim, x.ndim, name)
    ordered = row.movedim(at, -1).sort(-1).values  # nan last
    last = ordered.shape[-1] - 1
    wanted = shares.reshape(-1)
    nans = ordered.isnan()
    if name == "nanquantile":
        count = (~nans).sum(-1, keepdim=True).to(x._array.dtype)
        ranks = (wanted * (count - 1)).clamp(min=0)
    else:  # one nan makes all of them nan: the last rank is one
        ranks = where(nans.any(-1, keepdim=True), float(last), wanted * last)
    if interpolation == "lower":
        ranks = ranks.floor()
    elif interpolation == "higher":
        ranks = ranks.ceil()
    elif interpolation == "nearest":
        ranks = ranks.round()
    below = ranks.floor().long()
    found = ordered.gather(-1, below)
    if interpolation in ("linear", "midpoint"):
        weight = ranks - below.to(x._array.dtype) if interpolation == "linear" else 0.5
        found = found.lerp(ordered.gather(-1, ranks.ceil().long()), weight)
    # (…, q): the axis that was reduced comes back as 1, the shares go to the front.
    if keepdim and x.ndim:
        found = found.reshape((1,) * x.ndim + (-1,)) if dim is None else found.unsqueeze(-2).movedim(-2, at)
    if dim is not None and not x.ndim:
        found = found.reshape(-1)
    return found.movedim(-1, 0) if shares.ndim else found.squeeze(-1)


def _answers(values: Any, places: Any, counts: Any, inverse: bool, count: bool) -> Any:
    answers = [new_tensor(values)]
    answers += [
        new_tensor(each.astype(np.int64)) for each, asked in ((places, inverse), (counts, count)) if asked
    ]
    return answers[0] if len(answers) == 1 else tuple(answers)


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

sort = function(Sorting.sort)
argsort = function(Sorting.argsort)
msort = function(Sorting.msort)
topk = function(Sorting.topk)
kthvalue = function(Sorting.kthvalue)
median = function(Sorting.median)
nanmedian = function(Sorting.nanmedian)
mode = function(Sorting.mode)
quantile = function(Sorting.quantile)
nanquantile = function(Sorting.nanquantile)
unique = function(Sorting.unique)
unique_consecutive = function(Sorting.unique_consecutive)

__all__ = [
    "argsort", "bucketize", "kthvalue", "median", "mode", "msort", "nanmedian", "nanquantile", "quantile",
    "searchsorted", "sort", "topk", "unique", "unique_consecutive",
]  # fmt: skip
