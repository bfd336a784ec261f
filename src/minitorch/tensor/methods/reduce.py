"""Tensor's reductions. Enters: a tensor and an axis. Leaves: a tensor with fewer elements.

`axis` is None (everything), an int or a tuple, negative counted from the end; `dim` and `keepdim`
are other names of `axis` and `keepdims`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minitorch.engine.dtypes import int64
from minitorch.engine.fast import apply_unary
from minitorch.engine.node import Node
from minitorch.engine.record import apply
from minitorch.ops import elementwise, reduce, shape
from minitorch.ops.linalg import SVDVALS
from minitorch.ops.op import count_of
from minitorch.tensor.convert import (
    as_tensor,
    binary,
    cast,
    choose,
    one_axis,
    one_int,
    reduction_axis,
    to_floating,
)

if TYPE_CHECKING:
    from minitorch.tensor import Tensor

Axis = int | Sequence[int] | None


class ValuesAndIndices(NamedTuple):
    """What max, min, median, sort and topk along an axis return."""

    values: Tensor
    indices: Tensor


class Reductions(Node):
    """Sums, extremes, products, spreads, norms, running totals, sorting."""

    __slots__ = ()

    # --- sums -----------------------------------------------------------------------------------

    def sum(
        self,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        dtype: Any = None,
        dim: Axis = None,
        keepdim: bool = False,
    ) -> Tensor:
        """Σ x over `axis`.   dx = g, spread over what was summed

        >>> logits = minitorch.ones(3, 5)            # person × tense
        >>> logits.sum(axis=0)                       # per tense
        tensor([3., 3., 3., 3., 3.])
        >>> logits.sum(axis=1, keepdims=True).shape  # per person
        (3, 1)
        """
        x = cast(self, dtype) if dtype is not None else self
        if x._data.dtype.kind in "biu" and dtype is None:
            x = cast(x, int64)
        return apply_unary(reduce.SUM, x, self._over(axis, dim, keepdims, keepdim, "sum"))

    def mean(
        self,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        dtype: Any = None,
        dim: Axis = None,
        keepdim: bool = False,
    ) -> Tensor:
        """Σ x / n over `axis`.   dx = g / n, spread

        >>> minitorch.arange(15.0).reshape(3, 5).mean(axis=1)
        tensor([ 2.,  7., 12.])
        """
        x = cast(self, dtype) if dtype is not None else self
        if x._data.dtype.kind in "biu":
            raise RuntimeError(
                f"mean: of {x._data.dtype} there is none; write x.float().mean() or x.mean(dtype=…)"
            )
        return apply_unary(reduce.MEAN, x, self._over(axis, dim, keepdims, keepdim, "mean"))

    def cumsum(self, axis: int | None = None, *, dim: int | None = None, dtype: Any = None) -> Tensor:
        """Running sums along `axis`.   dx: running sums of g, from the end

        >>> minitorch.tensor([1.0, 2.0, 3.0]).cumsum(0)
        tensor([1., 3., 6.])
        """
        return self._along_one(reduce.CUMSUM, choose(axis, dim), dtype)

    # --- products -------------------------------------------------------------------------------

    def prod(
        self,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        dtype: Any = None,
        dim: Axis = None,
        keepdim: bool = False,
    ) -> Tensor:
        """Π x over `axis`.   dxᵢ = g·Π of all others, right also where some are 0

        >>> x = minitorch.tensor([0.0, 2.0, 3.0], requires_grad=True)
        >>> x.prod().backward(); x.grad
        array([6., 0., 0.], dtype=float32)
        """
        x = self._running(dtype)
        out = apply(reduce.PROD, x, **self._over(axis, dim, keepdims, keepdim, "prod"))
        return (
            out if x._data.dtype.kind == "f" else cast(out, x._data.dtype)
        )  # NumPy counts bools as integers

    def cumprod(self, axis: int | None = None, *, dim: int | None = None, dtype: Any = None) -> Tensor:
        """Running products along `axis`.   dxᵢ = Σ_{k≥i} gₖ·Π_{j≤k, j≠i} xⱼ

        >>> minitorch.tensor([1.0, 2.0, 3.0]).cumprod(0)
        tensor([1., 2., 6.])
        """
        return self._along_one(reduce.CUMPROD, choose(axis, dim), dtype)

    # --- extremes -------------------------------------------------------------------------------

    def max(self, axis: Any = None, keepdims: bool = False, *, dim: Any = None, keepdim: bool = False) -> Any:
        """The largest element; along one axis also where it stands; of two tensors the larger, each.

        Over everything (and over a tuple of axes) g is split evenly among ties, along one axis it
        goes to the first.

        >>> scores = minitorch.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]])
        >>> scores.max()
        tensor(0.7000)
        >>> scores.max(axis=1).indices
        tensor([1, 0])
        """
        return self._extreme(choose(axis, dim), keepdims or keepdim, "max")

    def min(self, axis: Any = None, keepdims: bool = False, *, dim: Any = None, keepdim: bool = False) -> Any:
        """The smallest element; along one axis also where it stands; of two tensors the smaller, each.

        >>> minitorch.tensor([[3.0, 1.0], [2.0, 4.0]]).min(axis=0).values
        tensor([2., 1.])
        """
        return self._extreme(choose(axis, dim), keepdims or keepdim, "min")

    def amax(
        self, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        """The largest element over `axis`.   g split evenly among ties

        >>> minitorch.arange(15.0).reshape(3, 5).amax(axis=(0, 1))
        tensor(14.)
        """
        self._not_empty(choose(axis, dim), "amax")
        return apply(reduce.AMAX, self, **self._over(axis, dim, keepdims, keepdim, "amax"))

    def amin(
        self, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        """The smallest element over `axis`.   g split evenly among ties

        >>> minitorch.arange(15.0).reshape(3, 5).amin(axis=1)
        tensor([ 0.,  5., 10.])
        """
        self._not_empty(choose(axis, dim), "amin")
        return apply(reduce.AMIN, self, **self._over(axis, dim, keepdims, keepdim, "amin"))

    def argmax(
        self,
        axis: int | None = None,
        keepdims: bool = False,
        *,
        dim: int | None = None,
        keepdim: bool = False,
    ) -> Tensor:
        """Where the largest stands: the first one; in the flattened tensor without an axis.

        >>> minitorch.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]]).argmax(axis=1)
        tensor([1, 0])
        """
        return self._arg(reduce.ARGMAX, choose(axis, dim), keepdims or keepdim)

    def argmin(
        self,
        axis: int | None = None,
        keepdims: bool = False,
        *,
        dim: int | None = None,
        keepdim: bool = False,
    ) -> Tensor:
        """Where the smallest stands: the first one; in the flattened tensor without an axis.

        >>> minitorch.tensor([3.0, 1.0, 2.0]).argmin()
        tensor(1)
        """
        return self._arg(reduce.ARGMIN, choose(axis, dim), keepdims or keepdim)

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
            if self._data.dtype.kind != "f":
                self._not_empty((*range(self._data.ndim),), "median")
            return apply(reduce.MEDIAN, self)
        axis = self._one(axis, "median")
        self._not_empty(axis, "median")
        order = apply(reduce.ARGSORT, self._row(), axis=axis, descending=False)
        length = order._data.shape[axis]
        middle = np.take(order._data, [(length - 1) // 2], axis=axis)
        if self._data.dtype.kind == "f":  # a nan, sorted to the end, wins over the middle
            data = self._row()._data
            hasnan = np.isnan(data).any(axis=axis, keepdims=True)
            middle = np.where(hasnan, np.isnan(data).argmax(axis=axis, keepdims=True), middle)
        return self._pick(as_tensor(middle), axis, keepdims or keepdim)

    # --- spreads and norms ----------------------------------------------------------------------

    def var(
        self,
        axis: Any = None,
        unbiased: bool = True,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        dim: Axis = None,
        keepdim: bool = False,
    ) -> Tensor:
        """Σ (x - mean)² / (n - correction), correction 1 unless given.   dx = g·2·(x - mean) / (n - correction)

        >>> minitorch.tensor([1.0, 2.0, 3.0, 4.0]).var()
        tensor(1.6667)
        """
        return self._spread_of(reduce.VAR, axis, unbiased, keepdims or keepdim, correction, dim)

    def std(
        self,
        axis: Any = None,
        unbiased: bool = True,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        dim: Axis = None,
        keepdim: bool = False,
    ) -> Tensor:
        """√var.   dx = g·(x - mean) / ((n - correction)·std); 0 where std is 0

        >>> minitorch.tensor([1.0, 2.0, 3.0, 4.0]).std(unbiased=False)
        tensor(1.1180)
        """
        return self._spread_of(reduce.STD, axis, unbiased, keepdims or keepdim, correction, dim)

    def norm(
        self,
        p: float | str | None = 2,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        dtype: Any = None,
        dim: Axis = None,
        keepdim: bool = False,
    ) -> Tensor:
        """(Σ |x|ᵖ)^{1/p} of all elements taken as one vector, or over `axis`; p may be ±inf, 0, "fro", "nuc".

        dx = g·sign(x)·(|x| / ‖x‖)ᵖ⁻¹; 0 at the origin

        >>> minitorch.tensor([[3.0, 0.0], [0.0, 4.0]]).norm()
        tensor(5.)
        """
        x = to_floating(self if dtype is None else cast(self, dtype))
        if p == "nuc":
            return nuclear_norm(x, choose(axis, dim) or (-2, -1), keepdims or keepdim)
        x = x.abs() if x._data.dtype.kind == "c" else x
        if p in ("fro", None):
            p = 2
        if isinstance(p, str):
            raise RuntimeError(f"norm: p must be a number, 'fro' or 'nuc', got {p!r}")
        if not isinstance(p, (int, float)):
            raise TypeError(f"norm: p must be a number, 'fro' or 'nuc', got {p!r}")
        p = float(p)
        attributes = self._over(axis, dim, keepdims, keepdim, "norm")
        if (
            (math.isinf(p) or p < 0)
            and 0 in self._data.shape
            and count_of(self._data.shape, attributes["axis"]) == 0
        ):
            raise RuntimeError(
                f"norm: of order {p} there is none over an axis of length 0: the tensor has shape {self._data.shape}"
            )
        return apply(reduce.NORM, x, p=p, **attributes)

    def logsumexp(
        self, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        """log Σ eˣ over `axis`, without overflow.   dx = g·softmax(x)

        >>> minitorch.tensor([100.0, 100.0]).logsumexp(0)
        tensor(100.6931)
        """
        return apply(reduce.LOGSUMEXP, self, **self._over(axis, dim, keepdims, keepdim, "logsumexp"))

    # --- questions ------------------------------------------------------------------------------

    def all(
        self, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        """Whether every element is true (not 0).

        >>> minitorch.tensor([True, False]).all()
        tensor(False)
        """
        return self._question(reduce.ALL, choose(axis, dim), keepdims or keepdim)

    def any(
        self, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        """Whether some element is true (not 0).

        >>> minitorch.tensor([True, False]).any()
        tensor(True)
        """
        return self._question(reduce.ANY, choose(axis, dim), keepdims or keepdim)

    def count_nonzero(self, axis: Axis = None, *, dim: Axis = None) -> Tensor:
        """How many elements are not 0.

        >>> minitorch.tensor([[1, 0], [2, 3]]).count_nonzero(axis=0)
        tensor([2, 1])
        """
        return apply(
            reduce.COUNT_NONZERO, self, axis=self._over(axis, dim, False, False, "count_nonzero")["axis"]
        )

    # --- sorting --------------------------------------------------------------------------------

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
        at = self._last(axis, dim, "sort")
        order = apply(reduce.ARGSORT, self._row(), axis=at, descending=descending)
        return self._pick(order, at, True)

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
        at = self._last(axis, dim, "argsort")
        order = apply(reduce.ARGSORT, self._row(), axis=at, descending=descending)
        return order if self._data.ndim else apply(shape.RESHAPE, order, shape=())

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
        at = self._last(axis, dim, "topk")
        length = self._row()._data.shape[at]
        k = one_int(k, "topk", "k") or (0 if self._data.ndim else 1)  # a 0-d tensor has nothing to leave out
        if not 0 <= k <= length:
            raise RuntimeError(f"topk: k = {k} is out of range for an axis of length {length}")
        order = apply(reduce.ARGSORT, self._row(), axis=at, descending=largest)
        first = order[(slice(None),) * at + (slice(0, k),)]
        return self._pick(first, at, True)

    # --- helpers --------------------------------------------------------------------------------

    def _over(self, axis: Axis, dim: Axis, keepdims: bool, keepdim: bool, name: str) -> dict[str, Any]:
        axis = axis if dim is None else choose(axis, dim)
        if axis is None or (axis.__class__ is int and 0 <= axis < self._data.ndim):
            return {"axis": axis, "keepdims": keepdims or keepdim}
        where = reduction_axis(axis, self._data.ndim, name)
        if where == () and self._data.ndim:
            where = None  # PyTorch reads an empty list of axes as all of them
        return {"axis": where, "keepdims": keepdims or keepdim}

    def _one(self, axis: Any, name: str) -> int:
        if axis is None:
            raise TypeError(f"{name}: missing argument: axis (or dim)")
        return one_axis(axis, self._data.ndim, name)

    def _last(self, axis: Any, dim: Any, name: str) -> int:
        """Return the axis to sort along, the last unless named."""
        return self._one(-1 if axis is None and dim is None else choose(axis, dim), name)

    def _row(self) -> Tensor:
        """Return the tensor with at least one axis."""
        return self if self._data.ndim else apply(shape.RESHAPE, self, shape=(1,))  # type: ignore[return-value]

    def _along_one(self, op: reduce.Op, axis: Any, dtype: Any) -> Tensor:
        at = self._one(axis, op.name)
        x = self._running(dtype)
        return apply(op, x, axis=at) if self._data.ndim else x.clone()

    def _question(self, op: reduce.Op, axis: Any, keepdims: bool) -> Tensor:
        where = reduction_axis(
            axis, self._data.ndim, op.name
        )  # an empty tuple reduces nothing, as in PyTorch
        return apply(op, self, axis=where, keepdims=keepdims)

    def _running(self, dtype: Any) -> Tensor:
        x = cast(self, dtype) if dtype is not None else self
        return cast(x, int64) if x._data.dtype.kind in "biu" and dtype is None else x  # type: ignore[return-value]

    def _not_empty(self, axis: Any, name: str) -> None:
        sizes = self._data.shape
        axes = reduction_axis(axis, len(sizes), name)
        over = range(len(sizes)) if axes in (None, ()) else axes if isinstance(axes, tuple) else (axes,)
        if any(sizes[a] == 0 for a in over):
            # IndexError for an axis that was named, RuntimeError for the whole tensor, as in PyTorch.
            kind = RuntimeError if axis in (None, ()) and name not in ("argmax", "argmin") else IndexError
            raise kind(
                f"{name}: nothing to choose from: the tensor has shape {sizes}, and an axis of length 0 "
                "has no largest or smallest element"
            )

    def _extreme(self, axis: Any, keepdims: bool, name: str) -> Any:
        if isinstance(axis, Node) or hasattr(axis, "__array_function__"):
            return binary(elementwise.MAXIMUM if name == "max" else elementwise.MINIMUM, self, axis)
        self._not_empty(axis, name)
        whole = reduce.AMAX if name == "max" else reduce.AMIN
        if axis is None or isinstance(axis, (tuple, list)):
            return apply(whole, self, **self._over(axis, None, keepdims, False, name))
        axis = self._one(axis, name)
        where = apply(
            reduce.ARGMAX if name == "max" else reduce.ARGMIN, self._row(), axis=axis, keepdims=True
        )
        return self._pick(where, axis, keepdims)

    def _pick(self, indices: Tensor, axis: int, keepdims: bool) -> ValuesAndIndices:
        """Gather the elements that `indices` names along an axis; gradients go back to exactly these."""
        values = apply(shape.GATHER, self._row(), indices, axis=axis)
        if self._data.ndim == 0:
            return ValuesAndIndices(
                apply(shape.RESHAPE, values, shape=()), apply(shape.RESHAPE, indices, shape=())
            )
        if keepdims:
            return ValuesAndIndices(values, indices)
        kept = self._data.shape[:axis] + self._data.shape[axis + 1 :]
        return ValuesAndIndices(
            apply(shape.RESHAPE, values, shape=kept), apply(shape.RESHAPE, indices, shape=kept)
        )

    def _arg(self, op: reduce.Op, axis: int | None, keepdims: bool) -> Tensor:
        self._not_empty(axis, op.name)
        where = None if axis is None else self._one(axis, op.name)
        return apply(op, self, axis=where if self._data.ndim else None, keepdims=keepdims)

    def _spread_of(
        self, op: reduce.Op, axis: Any, unbiased: bool, keepdims: bool, correction: float | None, dim: Axis
    ) -> Tensor:
        if isinstance(axis, bool):  # x.var(False) means unbiased=False
            axis, unbiased = None, axis
        if self._data.dtype.kind in "biu":
            raise RuntimeError(f"{op.name}: of {self._data.dtype} there is none; write x.float().{op.name}()")
        by = float(int(unbiased)) if correction is None else correction
        return apply(op, self, correction=by, **self._over(axis, dim, keepdims, False, op.name))


def nuclear_norm(x: Any, axes: Sequence[int], keepdims: bool) -> Tensor:
    """The sum of the singular values of the matrices in two axes."""
    if x.ndim < 2:
        raise RuntimeError(f"norm: 'nuc' expects matrices, got shape {x.shape}")
    rows, columns = (one_axis(a, x.ndim, "norm") for a in axes)
    total = apply(SVDVALS, x.movedim((rows, columns), (-2, -1))).sum(axis=-1)
    kept = tuple(1 if a in (rows, columns) else n for a, n in enumerate(x.shape))
    return total.reshape(kept) if keepdims else total
