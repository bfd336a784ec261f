"""Quantiles, running extremes, counts and distances, as functions and as Tensor methods.

Enters: a tensor and an axis, called `dim` or `axis`. Leaves: tensors; where elements are chosen, also where they
stand. methods/families.py makes methods of those that PyTorch offers as methods too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.ops import reduce
from minitorch.ops import statistics as ops
from minitorch.tensor.convert import as_tensor, cast, choose, one_axis, one_int, operand, promoted, tensor_for
from minitorch.tensor.methods.contract import matmul
from minitorch.tensor.methods.elementwise import select
from minitorch.tensor.methods.reduce import ValuesAndIndices
from minitorch.tensor.methods.shape import cat

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class MinMax(NamedTuple):
    """The smallest and the largest element."""

    min: Tensor
    max: Tensor


class Histogram(NamedTuple):
    """How many elements lie in each bin, and the bins' edges."""

    hist: Tensor
    bin_edges: Tensor


# --- chosen elements ----------------------------------------------------------------------------


def cummax(input: Any, dim: Any = None, *, axis: Any = None) -> ValuesAndIndices:
    """The largest so far along an axis, and where it stands: the last of equals.   g to those elements

    >>> cummax(minitorch.tensor([1.0, 3.0, 2.0]), 0).values
    tensor([1., 3., 3.])
    """
    return _running(ops.CUMMAX_PLACES, input, choose(axis, dim), "cummax")


def cummin(input: Any, dim: Any = None, *, axis: Any = None) -> ValuesAndIndices:
    """The smallest so far along an axis, and where it stands: the last of equals.   g to those elements

    >>> cummin(minitorch.tensor([3.0, 1.0, 2.0]), 0).indices
    tensor([0, 1, 1])
    """
    return _running(ops.CUMMIN_PLACES, input, choose(axis, dim), "cummin")


def _running(op: ops.Op, input: Any, dim: Any, name: str) -> ValuesAndIndices:
    x = tensor_for(input, name)
    at = x._one(dim, name)
    return x._pick(apply(op, x._row(), axis=at), at, True)


def kthvalue(
    input: Any, k: int, dim: Any = None, keepdim: bool = False, *, axis: Any = None, keepdims: bool = False
) -> ValuesAndIndices:
    """The k-th smallest along an axis (the last), k = 1 the smallest, and where it stands.   g to it

    >>> kthvalue(minitorch.tensor([3.0, 1.0, 2.0]), 2).values
    tensor(2.)
    """
    x = tensor_for(input, "kthvalue")
    at = x._last(axis, dim, "kthvalue")
    length = x._row()._data.shape[at]
    if not 1 <= one_int(k, "kthvalue", "k") <= length:
        raise RuntimeError(f"kthvalue: k = {k} is out of range for an axis of length {length}")
    order = apply(reduce.ARGSORT, x._row(), axis=at, descending=False)
    return x._pick(order[(slice(None),) * at + (slice(k - 1, k),)], at, keepdim or keepdims)


def mode(
    input: Any, dim: Any = None, keepdim: bool = False, *, axis: Any = None, keepdims: bool = False
) -> ValuesAndIndices:
    """The commonest element along an axis (the last), the smallest of equally common ones.   g to it

    >>> mode(minitorch.tensor([1, 2, 2, 3])).values
    tensor(2)
    """
    x = tensor_for(input, "mode")
    at = x._last(axis, dim, "mode")
    x._not_empty(at, "mode")
    return x._pick(apply(ops.MODE_PLACES, x._row(), axis=at), at, keepdim or keepdims)


def nanmedian(
    input: Any, dim: Any = None, keepdim: bool = False, *, axis: Any = None, keepdims: bool = False
) -> Any:
    """The median of what is not nan; along an axis also where it stands.   g to it

    >>> nanmedian(minitorch.tensor([1.0, float("nan"), 3.0, 2.0]))
    tensor(2.)
    """
    x = tensor_for(input, "nanmedian")
    dim = choose(axis, dim)
    if x._data.dtype.kind != "f":
        return x.median(dim, keepdim or keepdims)
    if dim is None:
        flat = x.reshape(-1)
        if not flat._data.size:
            return x.median()
        middle = nanmedian(flat.detach(), 0).values
        equal = (x == middle) | (x.isnan() & middle.isnan())
        return select(equal, x, 0.0).sum() / equal.sum()  # all that equal it share the gradient
    at = x._one(dim, "nanmedian")
    x._not_empty(at, "nanmedian")
    row = x._row()
    order = apply(reduce.ARGSORT, row, axis=at, descending=False)  # nan last
    count = (~row.isnan()).sum(at, keepdim=True)
    return x._pick(order.gather(at, ((count - 1) // 2).clamp(min=0)), at, keepdim or keepdims)


def msort(input: Any) -> Tensor:
    """The elements in order along the first axis.   g follows the permutation

    >>> msort(minitorch.tensor([3.0, 1.0, 2.0]))
    tensor([1., 2., 3.])
    """
    x = tensor_for(input, "msort")
    return x.sort(0).values


def aminmax(input: Any, *, dim: Any = None, keepdim: bool = False) -> MinMax:
    """The smallest and the largest element, over everything or along an axis.   g split evenly among ties

    >>> aminmax(minitorch.tensor([3.0, 1.0, 2.0]))
    MinMax(min=tensor(1.), max=tensor(3.))
    """
    x = tensor_for(input, "aminmax")
    return MinMax(x.amin(dim, keepdim), x.amax(dim, keepdim))


# --- quantiles ----------------------------------------------------------------------------------


def quantile(
    input: Any,
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
    return _quantile(input, q, choose(axis, dim), keepdim or keepdims, interpolation, "quantile")


def nanquantile(
    input: Any,
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
    return _quantile(input, q, choose(axis, dim), keepdim or keepdims, interpolation, "nanquantile")


def _quantile(input: Any, q: Any, dim: Any, keepdim: bool, interpolation: str, name: str) -> Tensor:
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"{name}: interpolation must be linear, lower, higher, midpoint or nearest, got {interpolation!r}"
        )
    x = tensor_for(input, name)
    if x._data.dtype.kind != "f":
        raise RuntimeError(f"{name}: expects floats, got {x._data.dtype}; write x.float()")
    if not x._data.size:
        raise RuntimeError(f"{name}: of no elements there is none: the tensor has shape {x.shape}")
    shares = as_tensor(q, None if isinstance(q, Node) else x._data.dtype)
    if shares._data.dtype != x._data.dtype:
        raise RuntimeError(
            f"{name}: q is {shares._data.dtype}, but x is {x._data.dtype}; write q.to(x.dtype)"
        )
    if shares.ndim > 1:
        raise RuntimeError(f"{name}: q must be a number or a vector, got shape {shares.shape}")
    row = x._row() if dim is not None else x.reshape(-1)
    at = 0 if dim is None else one_axis(dim, x.ndim, name)
    ordered = row.movedim(at, -1).sort(-1).values  # nan last
    last = ordered.shape[-1] - 1
    wanted = shares.reshape(-1)
    nans = ordered.isnan()
    if name == "nanquantile":
        count = (~nans).sum(-1, keepdim=True).to(x._data.dtype)
        ranks = (wanted * (count - 1)).clamp(min=0)
    else:  # one nan makes all of them nan: the last rank is one
        ranks = select(nans.any(-1, keepdim=True), float(last), wanted * last)
    if interpolation == "lower":
        ranks = ranks.floor()
    elif interpolation == "higher":
        ranks = ranks.ceil()
    elif interpolation == "nearest":
        ranks = ranks.round()
    below = ranks.floor().long()
    found = ordered.gather(-1, below)
    if interpolation in ("linear", "midpoint"):
        weight = ranks - below.to(x._data.dtype) if interpolation == "linear" else 0.5
        found = found.lerp(ordered.gather(-1, ranks.ceil().long()), weight)
    # (…, q): the axis that was reduced comes back as 1, the shares go to the front.
    if keepdim and x.ndim:
        found = found.reshape((1,) * x.ndim + (-1,)) if dim is None else found.unsqueeze(-2).movedim(-2, at)
    if dim is not None and not x.ndim:
        found = found.reshape(-1)
    return found.movedim(-1, 0) if shares.ndim else found.squeeze(-1)


# --- sums and means -----------------------------------------------------------------------------


def nansum(
    input: Any,
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
    x = tensor_for(input, "nansum")
    return _without_nans(x).sum(choose(axis, dim), keepdim or keepdims, dtype=dtype)


def nanmean(
    input: Any,
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
    x = tensor_for(input, "nanmean")
    if x._data.dtype.kind != "f":
        raise RuntimeError(f"nanmean: expects floats, got {x._data.dtype}; write x.float()")
    dim, keepdim = choose(axis, dim), keepdim or keepdims
    return nansum(x, dim, keepdim, dtype=dtype) / (~x.isnan()).sum(dim, keepdim)


def _without_nans(x: Tensor) -> Tensor:
    return select(x.isnan(), 0.0, x) if x._data.dtype.kind == "f" else x


def logcumsumexp(input: Any, dim: Any = None, *, axis: Any = None) -> Tensor:
    """log Σ_{j≤i} e^{xⱼ} along an axis, without overflow.   dxᵢ = Σ_{k≥i} gₖ·e^{xᵢ - outₖ}

    >>> logcumsumexp(minitorch.tensor([0.0, 0.0]), 0)
    tensor([0.0000, 0.6931])
    """
    x = tensor_for(input, "logcumsumexp")
    at = x._one(choose(axis, dim), "logcumsumexp")
    return apply(ops.LOGCUMSUMEXP, x._row(), axis=at).reshape(x.shape)


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


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """The covariances of the rows, each a variable, over the columns, each an observation.

    fweights: how often each observation counts; aweights: how much.

    >>> cov(minitorch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    x = tensor_for(input, "cov")
    if x.ndim > 2:
        raise RuntimeError(f"cov: expects at most 2 axes, got shape {x.shape}")
    x = x.reshape(1, -1) if x.ndim < 2 else x
    count = x.shape[1]
    weights = None
    if fweights is not None:
        weights = as_tensor(fweights)
    if aweights is not None:
        by = as_tensor(aweights)
        weights = by if weights is None else weights * by
    if weights is None:
        centred = x - (x.sum(1, keepdim=True) / max(count, 1))
        total: Any = count
        scaled = centred
    else:
        total = weights.sum()
        centred = x - (x * weights).sum(1, keepdim=True) / total
        scaled = centred * weights
    if aweights is None or correction == 0:
        degrees = total - correction
    else:
        degrees = total - correction * (weights * as_tensor(aweights)).sum() / total
    degrees = degrees.clamp(min=0) if isinstance(degrees, Node) else max(degrees, 0)  # type: ignore[attr-defined]
    product = matmul(centred, scaled.mH) / (degrees if isinstance(degrees, Node) else float(degrees))
    return product.reshape(()) if product.shape == (1, 1) else product


def corrcoef(input: Any) -> Tensor:
    """The correlations of the rows: covariances over the product of standard deviations.

    >>> corrcoef(minitorch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    covariance = cov(input)
    if covariance.ndim == 0:
        return covariance / covariance
    spread = covariance.diagonal().sqrt()
    return (covariance / spread.unsqueeze(1) / spread.unsqueeze(0)).clamp(-1, 1)


# --- differences and areas ----------------------------------------------------------------------


def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """Differences of neighbours along an axis, n times over.   dx = g before minus g after

    >>> diff(minitorch.tensor([1.0, 4.0, 9.0]))
    tensor([3., 5.])
    """
    x = tensor_for(input, "diff")
    if not x.ndim:
        raise RuntimeError("diff: a 0-d tensor has no neighbours; write x.reshape(1)")
    at = one_axis(dim, x.ndim, "diff")
    n = one_int(n, "diff", "n")
    if n < 0:
        raise RuntimeError(f"diff: n must not be negative, got {n}")
    if n == 0:
        return x
    parts = [as_tensor(part) for part in (prepend, x, append) if part is not None]
    x = cat(parts, at) if len(parts) > 1 else x
    for _ in range(min(n, x.shape[at])):
        after, before = x.narrow(at, 1, x.shape[at] - 1), x.narrow(at, 0, x.shape[at] - 1)
        x = after.logical_xor(before) if x._data.dtype.kind == "b" else after - before
    return x


def gradient(input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Slopes along each axis by central differences, one-sided at the ends.

    spacing: the step, one per axis, or the coordinates themselves. edge_order: 1 or 2, of the ends' formula.

    >>> gradient(minitorch.tensor([1.0, 4.0, 9.0]))
    (tensor([3., 4., 5.]),)
    """
    x = tensor_for(input, "gradient")
    single = isinstance(dim, int)
    axes = list(range(x.ndim)) if dim is None else [dim] if single else list(dim)
    axes = [one_axis(a, x.ndim, "gradient") for a in axes]
    spacing = 1 if spacing is None else spacing
    steps = list(spacing) if isinstance(spacing, (tuple, list)) else [spacing] * len(axes)
    if len(steps) != len(axes):
        raise RuntimeError(f"gradient: {len(steps)} spacings for {len(axes)} axes")
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    return tuple(_slopes(x, axis, step, edge_order) for axis, step in zip(axes, steps, strict=True))


def _slopes(x: Tensor, axis: int, spacing: Any, edge_order: int) -> Tensor:
    length = x.shape[axis]
    if length < edge_order + 1:
        raise RuntimeError(f"gradient: an axis of length {length} is too short for edge_order {edge_order}")
    along = [1] * x.ndim
    along[axis] = -1
    if isinstance(spacing, Node) and spacing._data.ndim:
        steps = diff(spacing)
    else:
        value = float(spacing)
        steps = new_tensor(
            np.full(length - 1, value, dtype=x._data.dtype if x._data.dtype.kind == "f" else None)
        )
        steps = cast(steps, x._data.dtype if x._data.dtype.kind == "f" else np.float32)
    steps = steps.reshape(along)
    part = lambda t, a, n: t.narrow(axis, a, n)
    slope = (part(x, 1, length - 1) - part(x, 0, length - 1)) / steps
    h, k = part(steps, 0, length - 2), part(steps, 1, length - 2)  # before and after each inner point
    before, after = part(slope, 0, length - 2), part(slope, 1, length - 2)
    inner = (k * before + h * after) / (h + k)
    if edge_order == 1:
        return cat([part(slope, 0, 1), inner, part(slope, length - 2, 1)], axis)
    first, last = part(slope, 0, 1), part(slope, length - 2, 1)
    h0, h1 = part(steps, 0, 1), part(steps, 1, 1)
    hn, hm = part(steps, length - 2, 1), part(steps, length - 3, 1)
    left = first + (first - part(slope, 1, 1)) * h0 / (h0 + h1)
    right = last + (last - part(slope, length - 3, 1)) * hn / (hn + hm)
    return cat([left, inner, right], axis)


def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The area under a curve, by trapezoids: Σ (yᵢ + yᵢ₊₁)/2·(xᵢ₊₁ - xᵢ).

    >>> trapezoid(minitorch.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    return _trapezoids(y, x, dx, dim, "trapezoid").sum(one_axis(dim, as_tensor(y).ndim, "trapezoid"))


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The running area under a curve, by trapezoids.

    >>> cumulative_trapezoid(minitorch.tensor([1.0, 2.0, 3.0]))
    tensor([1.5000, 4.0000])
    """
    return _trapezoids(y, x, dx, dim, "cumulative_trapezoid").cumsum(
        one_axis(dim, as_tensor(y).ndim, "cumulative_trapezoid")
    )


def _trapezoids(y: Any, x: Any, dx: Any, dim: int, name: str) -> Tensor:
    curve = tensor_for(y, name)
    if not curve.ndim:
        raise RuntimeError(f"{name}: expects a curve, got a 0-d tensor")
    if x is not None and dx is not None:
        raise TypeError(f"{name}: x and dx are two ways to give the steps; pass one of them")
    at = one_axis(dim, curve.ndim, name)
    length = curve.shape[at]
    if curve._data.dtype.kind not in "fc":
        curve = cast(curve, np.float32)
    if not length:
        return curve
    sums = curve.narrow(at, 0, length - 1) + curve.narrow(at, 1, length - 1)
    if x is None:
        return sums * ((1 if dx is None else dx) / 2)
    places = as_tensor(x)
    if places.ndim == 1 and curve.ndim > 1:
        along = [1] * curve.ndim
        along[at] = -1
        places = places.reshape(along)
    at_x = at - curve.ndim + places.ndim
    steps = places.narrow(at_x, 1, places.shape[at_x] - 1) - places.narrow(at_x, 0, places.shape[at_x] - 1)
    return sums * steps / 2


# --- distances ----------------------------------------------------------------------------------


def dist(input: Any, other: Any, p: float = 2) -> Tensor:
    """‖x - y‖ₚ.

    >>> dist(minitorch.tensor([3.0, 0.0]), minitorch.tensor([0.0, 4.0]))
    tensor(5.)
    """
    return (tensor_for(input, "dist") - as_tensor(other)).norm(p)


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The p-norm distance of each row of x1 from each row of x2: (…, P, M) and (…, R, M) give (…, P, R).

    The derivative is 0 where two rows coincide.

    >>> cdist(minitorch.tensor([[0.0, 0.0]]), minitorch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    a, b = promoted(tensor_for(x1, "cdist"), tensor_for(x2, "cdist"))
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise RuntimeError(f"cdist: expects rows of one length, got shapes {a.shape} and {b.shape}")
    if a._data.dtype.kind != "f":
        raise RuntimeError(f"cdist: expects floats, got {a._data.dtype}; write x.float()")
    if p < 0:
        raise RuntimeError(f"cdist: p must not be negative, got {p}")
    if a.shape[-1] == 0:  # rows of no length lie nowhere apart
        return (a.sum(-1).unsqueeze(-1) + b.sum(-1).unsqueeze(-2)) * 0.0
    if p == 2 and math.prod(a.shape) * b.shape[-2] > _TOO_MANY:
        # ‖a - b‖² = ‖a‖² + ‖b‖² - 2·a·b, without every difference in memory at once; a little less exact.
        squared = (a * a).sum(-1).unsqueeze(-1) + (b * b).sum(-1).unsqueeze(-2) - 2 * matmul(a, b.mT)
        same = squared <= 0
        return select(same, 0.0, select(same, 1.0, squared).sqrt())
    difference = a.unsqueeze(-2) - b.unsqueeze(-3)
    return difference.norm(p, -1) if difference._data.size else difference.sum(-1)


_TOO_MANY = 1 << 24


def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Tensor:
    """Each slice of an axis scaled down to p-norm `maxnorm` where its norm is larger.

    >>> renorm(minitorch.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    x = tensor_for(input, "renorm")
    at = one_axis(dim, x.ndim, "renorm")
    if x.ndim < 2:
        raise RuntimeError(f"renorm: expects at least 2 axes, got shape {x.shape}")
    size = x.norm(p, tuple(a for a in range(x.ndim) if a != at), keepdim=True)
    return x * select(size > maxnorm, maxnorm / (size + 1e-7), 1.0)


# --- counts and places --------------------------------------------------------------------------


def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of equal bins from min to max (the data's own where both are 0).

    >>> histc(minitorch.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    x = tensor_for(input, "histc")
    low, high = _bounds(x, float(operand(min)), float(operand(max)), 1.0, "histc")
    if one_int(bins, "histc", "bins") < 1:
        raise RuntimeError(f"histc: bins must be at least 1, got {bins}")
    counts = np.histogram(x._data.reshape(-1), bins=bins, range=(low, high))[0]
    return new_tensor(counts.astype(x._data.dtype))


def _bounds(x: Tensor, low: float, high: float, margin: float, name: str) -> tuple[float, float]:
    if low == high and x._data.size:
        low, high = float(x.min()), float(x.max())
    if low == high:
        low, high = low - margin, high + margin
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise RuntimeError(f"{name}: bins need finite ends, the first below the second, got {low} and {high}")
    return low, high


def histogram(
    input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> Histogram:
    """How many elements (or how much weight) lie in each bin, and the bins' edges; with density, per length.

    bins: their number, with `range` from where to where; or the edges themselves.

    >>> histogram(minitorch.tensor([1.0, 2.0, 1.0]), 2, range=(0.0, 2.0)).hist
    tensor([0., 3.])
    """
    x = tensor_for(input, "histogram")
    if x._data.dtype.kind != "f":
        raise RuntimeError(f"histogram: expects floats, got {x._data.dtype}; write x.float()")
    weights = None if weight is None else tensor_for(weight, "histogram")._data.reshape(-1)
    if isinstance(bins, Node):
        edges = bins._data
    else:
        first, last = (0.0, 0.0 if x.numel() else 1.0) if range is None else range
        low, high = _bounds(x, float(first), float(last), 0.5, "histogram")
        edges = np.linspace(low, high, one_int(bins, "histogram", "bins") + 1).astype(x._data.dtype)
    counts, _ = np.histogram(x._data.reshape(-1), bins=edges, weights=weights, density=density)
    return Histogram(new_tensor(counts.astype(x._data.dtype)), new_tensor(edges))


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each integer from 0 on occurs; with weights, their sum.

    >>> bincount(minitorch.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    x = tensor_for(input, "bincount")
    if x._data.dtype.kind not in "iu" or x.ndim != 1:
        raise RuntimeError(f"bincount: expects a vector of integers, got {x._data.dtype} of shape {x.shape}")
    if x.numel() and int(x.min()) < 0:
        raise RuntimeError(f"bincount: expects no negative numbers, got {int(x.min())}")
    by = None if weights is None else as_tensor(weights)._data
    counts = np.bincount(x._data, by, one_int(minlength, "bincount", "minlength"))
    return new_tensor(counts if by is None or by.dtype != np.float32 else counts.astype(np.float32))


def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Each distinct element (or slice of an axis) once, in order; also where each came from, and how often.

    >>> unique(minitorch.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    x = tensor_for(input, "unique")
    at = None if dim is None else one_axis(dim, x.ndim, "unique")
    if at is None:
        values, inverse, counts = np.unique(x._data, return_inverse=True, return_counts=True, equal_nan=False)
        places = inverse.reshape(x.shape)
    elif 0 in x.shape:
        if x.shape[at]:
            raise RuntimeError(f"unique: slices of shape {x.shape} along axis {at} are empty")
        values, places, counts = x._data, np.zeros(0, np.int64), np.zeros(0, np.int64)
    else:
        values, inverse, counts = np.unique(
            x._data, return_inverse=True, return_counts=True, axis=at, equal_nan=False
        )
        places = inverse.reshape(-1)
    return _answers(values, places, counts, return_inverse, return_counts)


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Each run of equal neighbours as one element; also which run each belongs to, and how long they are.

    >>> unique_consecutive(minitorch.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    x = tensor_for(input, "unique_consecutive")
    shape = x.shape if dim is None else (x.shape[one_axis(dim, x.ndim, "unique_consecutive")],)
    data = x._data.reshape(-1) if dim is None else np.moveaxis(x._data, dim, 0)
    if not len(data):
        values = x._data.reshape(-1) if dim is None else x._data
        none = np.zeros(0, np.int64)
        return _answers(values, none.reshape(shape), none, return_inverse, return_counts)
    differs = (data[1:] != data[:-1]).any(axis=tuple(range(1, data.ndim)))
    starts = np.concatenate([[0], 1 + np.flatnonzero(differs)])
    values = data[starts] if dim is None else np.moveaxis(data[starts], 0, dim)
    places = np.concatenate([[0], np.cumsum(differs)]).astype(np.int64).reshape(shape)
    return _answers(values, places, np.diff([*starts, len(data)]), return_inverse, return_counts)


def _answers(values: Any, places: Any, counts: Any, inverse: bool, count: bool) -> Any:
    answers = [new_tensor(values)]
    answers += [new_tensor(np.asarray(places, np.int64))] if inverse else []
    answers += [new_tensor(np.asarray(counts, np.int64))] if count else []
    return answers[0] if len(answers) == 1 else tuple(answers)


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
    values = as_tensor(operand(input, "searchsorted"))
    if side not in (None, "left", "right"):
        raise RuntimeError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    if sequence.ndim != 1 and sequence.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            f"searchsorted: sequences of shape {sequence.shape} and values of shape {values.shape} must agree "
            "on all axes but the last"
        )
    found = apply(ops.SEARCHSORTED, sequence, values, right=right or side == "right")
    return cast(found, np.int32 if out_int32 else np.int64)


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the bucket each value falls in, between sorted boundaries.

    >>> bucketize(minitorch.tensor([0.5, 3.0]), minitorch.tensor([1.0, 3.0, 5.0]))
    tensor([0, 1])
    """
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


trapz = trapezoid

__all__ = [
    "aminmax", "bincount", "bucketize", "cdist", "corrcoef", "cov", "cummax", "cummin", "cumulative_trapezoid",
    "diff", "dist", "gradient", "histc", "histogram", "kthvalue", "logcumsumexp", "mode", "msort", "nanmean",
    "nanmedian", "nanquantile", "nansum", "quantile", "renorm", "searchsorted", "std_mean", "trapezoid", "trapz",
    "unique", "unique_consecutive", "var_mean",
]  # fmt: skip
