"""Many elements into one: sums, products, extremes, spreads, norms, questions; and running totals.

Enters: a tensor and an axis. Leaves: a tensor with fewer elements. `axis` is None (everything), an int or a tuple,
negative counted from the end; `dim` and `keepdim` are other names of `axis` and `keepdims`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from minitorch.engine.dtypes import int64, kind_of, uint8
from minitorch.engine.fast import apply_unary
from minitorch.engine.node import Node
from minitorch.engine.record import apply
from minitorch.ops import reductions as ops
from minitorch.ops.comparison import MAXIMUM, MINIMUM
from minitorch.ops.indexing import GATHER
from minitorch.ops.linalg import SVDVALS
from minitorch.ops.op import Op, count_of
from minitorch.ops.shape import RESHAPE
from minitorch.tensor.convert import (
    binary,
    cast,
    choose,
    one_axis,
    plain_number,
    reduction_axis,
    tensor_for,
    to_floating,
)
from minitorch.tensor.methods.arguments import as_row, required_axis
from minitorch.tensor.methods.comparison import where
from minitorch.tensor.methods.public import function, in_place
from minitorch.tensor.precision import in_float32
from minitorch.tensor.return_types import return_type, shown_as

if TYPE_CHECKING:
    from minitorch.tensor import Tensor

Axis = int | Sequence[int] | None


class ValuesAndIndices(NamedTuple):
    """What max, min, median, sort and topk along an axis return."""

    values: Tensor
    indices: Tensor


_CHOICES = ("cummax", "cummin", "kthvalue", "max", "median", "min", "mode", "nanmedian", "sort", "topk")
_RETURNED = {name: return_type(ValuesAndIndices, name) for name in _CHOICES}


@shown_as("aminmax")
class MinMax(NamedTuple):
    """The smallest and the largest element."""

    min: Tensor
    max: Tensor


class Reductions(Node):
    """Sums, extremes, products, spreads, norms, running totals."""

    __slots__ = ()

    # --- sums and products -----------------------------------------------------------------------

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
        if x._array.dtype.kind in "biu" and dtype is None:
            x = cast(x, int64)
        out = apply_unary(ops.SUM, x, _over(self, axis, dim, keepdims, keepdim, "sum"))
        return out if dtype is None else cast(out, dtype)  # NumPy's sum of small integers is int64

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
        if x._array.dtype.kind in "biu":
            raise RuntimeError(
                f"mean: of {x._array.dtype} there is none; write x.float().mean() or x.mean(dtype=…)"
            )
        return apply_unary(ops.MEAN, x, _over(self, axis, dim, keepdims, keepdim, "mean"))

    @in_float32
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
        x = _summable(self, dtype)
        out = apply(ops.PROD, x, **_over(self, axis, dim, keepdims, keepdim, "prod"))
        return (
            out if kind_of(x._array.dtype) == "f" else cast(out, x._array.dtype)
        )  # NumPy counts bools as integers

    def nansum(
        self: Any,
        dim: Any = None,
        keepdim: bool = False,
        *,
        dtype: Any = None,
        axis: Any = None,
        keepdims: bool = False,
    ) -> Tensor:
        """The sum of what is not nan.   dx = g where it is not

        >>> nansum(minitorch.tensor([1.0, float("nan"), 2.0]))
        tensor(3.)
        """
        return _without_nans(self).sum(choose(axis, dim), keepdim or keepdims, dtype=dtype)

    def nanmean(
        self: Any,
        dim: Any = None,
        keepdim: bool = False,
        *,
        dtype: Any = None,
        axis: Any = None,
        keepdims: bool = False,
    ) -> Tensor:
        """The mean of what is not nan.   dx = g / count where it is not

        >>> nanmean(minitorch.tensor([1.0, float("nan"), 2.0]))
        tensor(1.5000)
        """
        if kind_of(self._array.dtype) != "f":
            raise RuntimeError(f"nanmean: expects floats, got {self._array.dtype}; write x.float()")
        dim, keepdim = choose(axis, dim), keepdim or keepdims
        return nansum(self, dim, keepdim, dtype=dtype) / (~self.isnan()).sum(dim, keepdim)

    # --- extremes --------------------------------------------------------------------------------

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
        return _extreme(self, choose(axis, dim), keepdims or keepdim, "max")

    def min(self, axis: Any = None, keepdims: bool = False, *, dim: Any = None, keepdim: bool = False) -> Any:
        """The smallest element; along one axis also where it stands; of two tensors the smaller, each.

        >>> minitorch.tensor([[3.0, 1.0], [2.0, 4.0]]).min(axis=0).values
        tensor([2., 1.])
        """
        return _extreme(self, choose(axis, dim), keepdims or keepdim, "min")

    def amax(
        self, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        """The largest element over `axis`.   g split evenly among ties

        >>> minitorch.arange(15.0).reshape(3, 5).amax(axis=(0, 1))
        tensor(14.)
        """
        refuse_empty(self, choose(axis, dim), "amax")
        return apply(ops.AMAX, self, **_over(self, axis, dim, keepdims, keepdim, "amax"))

    def amin(
        self, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        """The smallest element over `axis`.   g split evenly among ties

        >>> minitorch.arange(15.0).reshape(3, 5).amin(axis=1)
        tensor([ 0.,  5., 10.])
        """
        refuse_empty(self, choose(axis, dim), "amin")
        return apply(ops.AMIN, self, **_over(self, axis, dim, keepdims, keepdim, "amin"))

    def aminmax(self: Any, *, dim: Any = None, keepdim: bool = False) -> MinMax:
        """The smallest and the largest element, over everything or along an axis.   g split evenly among ties

        >>> aminmax(minitorch.tensor([3.0, 1.0, 2.0]))
        MinMax(min=tensor(1.), max=tensor(3.))
        """
        return MinMax(self.amin(dim, keepdim), self.amax(dim, keepdim))

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
        return _arg(self, ops.ARGMAX, choose(axis, dim), keepdims or keepdim)

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
        return _arg(self, ops.ARGMIN, choose(axis, dim), keepdims or keepdim)

    # --- spreads and norms -----------------------------------------------------------------------

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
        return _spread_of(self, ops.VAR, axis, unbiased, keepdims or keepdim, correction, dim)

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
        return _spread_of(self, ops.STD, axis, unbiased, keepdims or keepdim, correction, dim)

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
        p = plain_number(p)
        if p == "nuc":
            return nuclear_norm(x, choose(axis, dim) or (-2, -1), keepdims or keepdim)
        x = x.abs() if x._array.dtype.kind == "c" else x
        if p in ("fro", None):
            p = 2
        if isinstance(p, str):
            raise RuntimeError(f"norm: p must be a number, 'fro' or 'nuc', got {p!r}")
        if not isinstance(p, (int, float)):
            raise TypeError(f"norm: p must be a number, 'fro' or 'nuc', got {p!r}")
        p = float(p)
        attributes = _over(self, axis, dim, keepdims, keepdim, "norm")
        if (
            (math.isinf(p) or p < 0)
            and 0 in self._data.shape
            and count_of(self._data.shape, attributes["axis"]) == 0
        ):
            raise RuntimeError(
                f"norm: of order {p} there is none over an axis of length 0: the tensor has shape {self._data.shape}"
            )
        return apply(ops.NORM, x, p=p, **attributes)

    def logsumexp(
        self, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        """log Σ eˣ over `axis`, without overflow.   dx = g·softmax(x)

        >>> minitorch.tensor([100.0, 100.0]).logsumexp(0)
        tensor(100.6931)
        """
        return apply(ops.LOGSUMEXP, self, **_over(self, axis, dim, keepdims, keepdim, "logsumexp"))

    # --- running totals --------------------------------------------------------------------------

    @in_place
    def cumsum(self, axis: int | None = None, *, dim: int | None = None, dtype: Any = None) -> Tensor:
        """Running sums along `axis`.   dx: running sums of g, from the end

        >>> minitorch.tensor([1.0, 2.0, 3.0]).cumsum(0)
        tensor([1., 3., 6.])
        """
        return _along_one(ops.CUMSUM, self, choose(axis, dim), dtype)

    @in_place
    def cumprod(self, axis: int | None = None, *, dim: int | None = None, dtype: Any = None) -> Tensor:
        """Running products along `axis`.   dxᵢ = Σ_{k≥i} gₖ·Π_{j≤k, j≠i} xⱼ

        >>> minitorch.tensor([1.0, 2.0, 3.0]).cumprod(0)
        tensor([1., 2., 6.])
        """
        return _along_one(ops.CUMPROD, self, choose(axis, dim), dtype)

    def cummax(self, dim: Any = None, *, axis: Any = None) -> ValuesAndIndices:
        """The largest so far along an axis, and where it stands: the last of equals.   g to those elements

        >>> cummax(minitorch.tensor([1.0, 3.0, 2.0]), 0).values
        tensor([1., 3., 3.])
        """
        return _running_extreme(ops.CUMMAX_PLACES, self, choose(axis, dim), "cummax")

    def cummin(self, dim: Any = None, *, axis: Any = None) -> ValuesAndIndices:
        """The smallest so far along an axis, and where it stands: the last of equals.   g to those elements

        >>> cummin(minitorch.tensor([3.0, 1.0, 2.0]), 0).indices
        tensor([0, 1, 1])
        """
        return _running_extreme(ops.CUMMIN_PLACES, self, choose(axis, dim), "cummin")

    def logcumsumexp(self: Any, dim: Any = None, *, axis: Any = None) -> Tensor:
        """log Σ_{j≤i} e^{xⱼ} along an axis, without overflow.   dxᵢ = Σ_{k≥i} gₖ·e^{xᵢ - outₖ}

        >>> logcumsumexp(minitorch.tensor([0.0, 0.0]), 0)
        tensor([0.0000, 0.6931])
        """
        at = required_axis(self, choose(axis, dim), "logcumsumexp")
        return apply(ops.LOGCUMSUMEXP, as_row(self), axis=at).reshape(self.shape)

    # --- questions -------------------------------------------------------------------------------

    def all(
        self, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        """Whether every element is true (not 0).

        >>> minitorch.tensor([True, False]).all()
        tensor(False)
        """
        return _question(self, ops.ALL, choose(axis, dim), keepdims or keepdim)

    def any(
        self, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        """Whether some element is true (not 0).

        >>> minitorch.tensor([True, False]).any()
        tensor(True)
        """
        return _question(self, ops.ANY, choose(axis, dim), keepdims or keepdim)

    def count_nonzero(self, axis: Axis = None, *, dim: Axis = None) -> Tensor:
        """How many elements are not 0.

        >>> minitorch.tensor([[1, 0], [2, 3]]).count_nonzero(axis=0)
        tensor([2, 1])
        """
        return apply(
            ops.COUNT_NONZERO, self, axis=_over(self, axis, dim, False, False, "count_nonzero")["axis"]
        )


def std_mean(
    input: Any,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean.

    >>> std_mean(minitorch.tensor([1.0, 3.0]), unbiased=False)
    (tensor(1.), tensor(2.))
    """
    x = tensor_for(input, "std_mean")
    axes = None if isinstance(dim, bool) else dim
    return x.std(dim, unbiased, keepdim, correction=correction), x.mean(axes, keepdim)


def var_mean(
    input: Any,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The variance and the mean.

    >>> var_mean(minitorch.tensor([1.0, 3.0]), unbiased=False)
    (tensor(1.), tensor(2.))
    """
    x = tensor_for(input, "var_mean")
    axes = None if isinstance(dim, bool) else dim
    return x.var(dim, unbiased, keepdim, correction=correction), x.mean(axes, keepdim)


# --- parts ---------------------------------------------------------------------------------------


def _over(x: Node, axis: Axis, dim: Axis, keepdims: bool, keepdim: bool, name: str) -> dict[str, Any]:
    """Return the attributes of a reduction."""
    axis = axis if dim is None else choose(axis, dim)
    if axis is None:
        return {"axis": None, "keepdims": keepdims or keepdim}
    ndim = x._array.ndim
    if axis.__class__ is int and -ndim <= axis < ndim:
        return {"axis": axis % ndim, "keepdims": keepdims or keepdim}
    axes = reduction_axis(axis, ndim, name)
    if axes == () and ndim:
        axes = None  # PyTorch reads an empty list of axes as all of them
    return {"axis": axes, "keepdims": keepdims or keepdim}


def _summable(x: Any, dtype: Any) -> Tensor:
    """Return what is summed or multiplied: in the dtype asked for, integers and bools as int64."""
    x = cast(x, dtype) if dtype is not None else x
    return cast(x, int64) if x._array.dtype.kind in "biu" and dtype is None else x


def _along_one(op: Op, x: Any, axis: Any, dtype: Any) -> Tensor:
    at = required_axis(x, axis, op.name)
    x = _summable(x, dtype)
    out = apply(op, x, axis=at) if x._array.ndim else x.clone()
    # NumPy's sums of small integers are int64.
    return cast(out, x._array.dtype) if x._array.dtype.kind in "iub" else out


def _question(x: Any, op: Op, axis: Any, keepdims: bool) -> Tensor:
    axes = reduction_axis(axis, x._array.ndim, op.name)  # an empty tuple reduces nothing, as in PyTorch
    out = apply(op, x, axis=axes, keepdims=keepdims)
    return cast(out, uint8) if x._array.dtype == uint8 else out  # PyTorch's bools of old


def _extreme(x: Any, axis: Any, keepdims: bool, name: str) -> Any:
    if isinstance(axis, Node) or hasattr(axis, "__array_function__"):
        return binary(MAXIMUM if name == "max" else MINIMUM, x, axis)
    refuse_empty(x, axis, name)
    if axis is None or isinstance(axis, (tuple, list)):
        return apply(
            ops.AMAX if name == "max" else ops.AMIN, x, **_over(x, axis, None, keepdims, False, name)
        )
    axis = required_axis(x, axis, name)
    op = ops.ARGMAX if name == "max" else ops.ARGMIN
    return pick(x, apply(op, as_row(x), axis=axis, keepdims=True), axis, keepdims, name)


def _arg(x: Any, op: Op, axis: int | None, keepdims: bool) -> Tensor:
    refuse_empty(x, axis, op.name)
    axes = None if axis is None else required_axis(x, axis, op.name)
    return apply(op, x, axis=axes if x._array.ndim else None, keepdims=keepdims)


def _running_extreme(op: Op, x: Any, axis: Any, name: str) -> ValuesAndIndices:
    at = required_axis(x, axis, name)
    return pick(x, apply(op, as_row(x), axis=at), at, True, name)


def _spread_of(
    x: Any, op: Op, axis: Any, unbiased: bool, keepdims: bool, correction: float | None, dim: Axis
) -> Tensor:
    if isinstance(axis, bool):  # x.var(False) means unbiased=False
        axis, unbiased = None, axis
    if x._array.dtype.kind in "biu":
        raise RuntimeError(f"{op.name}: of {x._array.dtype} there is none; write x.float().{op.name}()")
    by = float(int(unbiased)) if correction is None else correction
    over = _over(x, axis, dim, keepdims, False, op.name)
    if count_of(x._data.shape, over["axis"]) <= by:
        warnings.warn(
            f"{op.name}: {count_of(x._data.shape, over['axis'])} elements leave no degrees of freedom with a "
            f"correction of {by:g}: the result is nan or inf; write correction=0 for the mean square deviation",
            stacklevel=3,
        )
    return apply(op, x, correction=by, **over)


def _without_nans(x: Tensor) -> Tensor:
    return where(x.isnan(), 0.0, x) if kind_of(x._array.dtype) == "f" else x


def refuse_empty(x: Any, axis: Any, name: str) -> None:
    """Refuse to choose an element along an axis that has none."""
    sizes = x._data.shape
    axes = reduction_axis(axis, len(sizes), name)
    over = range(len(sizes)) if axes in (None, ()) else axes if isinstance(axes, tuple) else (axes,)
    if 0 in [sizes[a] for a in over]:
        # IndexError for an axis that was named, RuntimeError for the whole tensor, as in PyTorch.
        kind = RuntimeError if axis in (None, ()) and name not in ("argmax", "argmin") else IndexError
        raise kind(
            f"{name}: nothing to choose from: the tensor has shape {sizes}, and an axis of length 0 "
            "has no largest or smallest element"
        )


def pick(x: Any, indices: Tensor, axis: int, keepdims: bool, name: str) -> ValuesAndIndices:
    """Gather the elements that `indices` names along an axis; gradients go back to exactly these."""
    made = _RETURNED[name]
    values = apply(GATHER, as_row(x), indices, axis=axis)
    if x._array.ndim == 0:
        return made(apply(RESHAPE, values, shape=()), apply(RESHAPE, indices, shape=()))
    if keepdims:
        return made(values, indices)
    kept = x._data.shape[:axis] + x._data.shape[axis + 1 :]
    return made(apply(RESHAPE, values, shape=kept), apply(RESHAPE, indices, shape=kept))


def nuclear_norm(x: Any, axes: Sequence[int], keepdims: bool) -> Tensor:
    """The sum of the singular values of the matrices in two axes."""
    if x.ndim < 2:
        raise RuntimeError(f"norm: 'nuc' expects matrices, got shape {x.shape}")
    rows, columns = (one_axis(a, x.ndim, "norm") for a in axes)
    total = apply(SVDVALS, x.movedim((rows, columns), (-2, -1))).sum(axis=-1)
    kept = tuple(1 if a in (rows, columns) else n for a, n in enumerate(x.shape))
    return total.reshape(kept) if keepdims else total


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

sum = function(Reductions.sum)
mean = function(Reductions.mean)
prod = function(Reductions.prod)
nansum = function(Reductions.nansum)
nanmean = function(Reductions.nanmean)
max = function(Reductions.max)
min = function(Reductions.min)
amax = function(Reductions.amax)
amin = function(Reductions.amin)
aminmax = function(Reductions.aminmax)
argmax = function(Reductions.argmax)
argmin = function(Reductions.argmin)
var = function(Reductions.var)
std = function(Reductions.std)
norm = function(Reductions.norm)
logsumexp = function(Reductions.logsumexp)
cumsum = function(Reductions.cumsum)
cumprod = function(Reductions.cumprod)
cummax = function(Reductions.cummax)
cummin = function(Reductions.cummin)
logcumsumexp = function(Reductions.logcumsumexp)
all = function(Reductions.all)
any = function(Reductions.any)
count_nonzero = function(Reductions.count_nonzero)

__all__ = [
    "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "cummax", "cummin",
    "cumprod", "cumsum", "logcumsumexp", "logsumexp", "max", "mean", "min", "nanmean", "nansum", "norm",
    "prod", "std", "std_mean", "sum", "var", "var_mean",
]  # fmt: skip
