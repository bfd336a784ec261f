"""Counts, histograms, covariances; differences, slopes and areas of curves; distances.

Enters: tensors. Leaves: tensors.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minitorch.engine.dtypes import kind_of
from minitorch.engine.node import Node, new_tensor
from minitorch.tensor.convert import as_tensor, cast, one_axis, one_int, operand, promoted, tensor_for
from minitorch.tensor.methods.comparison import where
from minitorch.tensor.methods.joining import cat
from minitorch.tensor.methods.products import matmul
from minitorch.tensor.methods.public import function, in_place
from minitorch.tensor.precision import in_float32

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Histogram(NamedTuple):
    """How many elements lie in each bin, and the bins' edges."""

    hist: Tensor
    bin_edges: Tensor


_TOO_MANY = 1 << 24


class Statistics(Node):
    """Counts, covariances, differences, distances."""

    __slots__ = ()

    # --- counts ----------------------------------------------------------------------------------

    def bincount(self: Any, weights: Any = None, minlength: int = 0) -> Tensor:
        """How often each integer from 0 on occurs; with weights, their sum.

        >>> bincount(minitorch.tensor([0, 2, 2]))
        tensor([1, 0, 2])
        """
        if self._array.dtype.kind not in "iu" or self.ndim != 1:
            raise RuntimeError(
                f"bincount: expects a vector of integers, got {self._array.dtype} of shape {self.shape}"
            )
        if self.numel() and int(self.min()) < 0:
            raise RuntimeError(f"bincount: expects no negative numbers, got {int(self.min())}")
        by = None if weights is None else as_tensor(weights)._data
        counts = np.bincount(self._data, by, one_int(minlength, "bincount", "minlength"))
        return new_tensor(counts if by is None or by.dtype != np.float32 else counts.astype(np.float32))

    def histc(self: Any, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
        """How many elements lie in each of equal bins from min to max (the data's own where both are 0).

        >>> histc(minitorch.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
        tensor([0., 2., 1., 0.])
        """
        low, high = _bounds(self, float(operand(min)), float(operand(max)), 1.0, "histc")
        if one_int(bins, "histc", "bins") < 1:
            raise RuntimeError(f"histc: bins must be at least 1, got {bins}")
        counts = np.histogram(self._data.reshape(-1), bins=bins, range=(low, high))[0]
        return new_tensor(counts.astype(self._array.dtype))

    def histogram(
        self: Any, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False
    ) -> Histogram:
        """How many elements (or how much weight) lie in each bin, and the bins' edges; with density, per length.

        bins: their number, with `range` from where to where; or the edges themselves.

        >>> histogram(minitorch.tensor([1.0, 2.0, 1.0]), 2, range=(0.0, 2.0)).hist
        tensor([0., 3.])
        """
        if kind_of(self._array.dtype) != "f":
            raise RuntimeError(f"histogram: expects floats, got {self._array.dtype}; write x.float()")
        weights = None if weight is None else tensor_for(weight, "histogram")._data.reshape(-1)
        if isinstance(bins, Node):
            edges = bins._data
        else:
            first, last = (0.0, 0.0 if self.numel() else 1.0) if range is None else range
            low, high = _bounds(self, float(first), float(last), 0.5, "histogram")
            edges = np.linspace(low, high, one_int(bins, "histogram", "bins") + 1).astype(self._array.dtype)
            edges = np.asarray(edges, like=self._data)
        counts, _ = np.histogram(self._data.reshape(-1), bins=edges, weights=weights, density=density)
        return Histogram(new_tensor(counts.astype(self._array.dtype)), new_tensor(edges))

    # --- covariances -----------------------------------------------------------------------------

    def cov(self: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
        """The covariances of the rows, each a variable, over the columns, each an observation.

        fweights: how often each observation counts; aweights: how much.

        >>> cov(minitorch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
        """
        x = self
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

    def corrcoef(self) -> Tensor:
        """The correlations of the rows: covariances over the product of standard deviations.

        >>> corrcoef(minitorch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
        """
        covariance = cov(self)
        if covariance.ndim == 0:
            return covariance / covariance
        spread = covariance.diagonal().sqrt()
        return (covariance / spread.unsqueeze(1) / spread.unsqueeze(0)).clamp(-1, 1)

    # --- differences and distances ---------------------------------------------------------------

    def diff(self: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
        """Differences of neighbours along an axis, n times over.   dx = g before minus g after

        >>> diff(minitorch.tensor([1.0, 4.0, 9.0]))
        tensor([3., 5.])
        """
        x = self
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
            x = after.logical_xor(before) if x._array.dtype.kind == "b" else after - before
        return x

    def dist(self: Any, other: Any, p: float = 2) -> Tensor:
        """‖x - y‖ₚ.

        >>> dist(minitorch.tensor([3.0, 0.0]), minitorch.tensor([0.0, 4.0]))
        tensor(5.)
        """
        return (self - as_tensor(other)).norm(p)

    @in_place
    def renorm(self: Any, p: float, dim: int, maxnorm: float) -> Tensor:
        """Each slice of an axis scaled down to p-norm `maxnorm` where its norm is larger.

        >>> renorm(minitorch.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
        tensor([[0.6000, 0.8000],
                [0.3000, 0.4000]])
        """
        at = one_axis(dim, self.ndim, "renorm")
        if self.ndim < 2:
            raise RuntimeError(f"renorm: expects at least 2 axes, got shape {self.shape}")
        size = self.norm(p, tuple(a for a in range(self.ndim) if a != at), keepdim=True)
        return self * where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)


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
    if isinstance(spacing, Node) and spacing._array.ndim:
        steps = diff(spacing)
    else:
        value = float(spacing)
        kind = x._array.dtype if kind_of(x._array.dtype) == "f" else np.float32
        steps = x.new_full((length - 1,), value, dtype=kind)
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
    if kind_of(curve._array.dtype) not in "fc":
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


@in_float32
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The p-norm distance of each row of x1 from each row of x2: (…, P, M) and (…, R, M) give (…, P, R).

    The derivative is 0 where two rows coincide.

    >>> cdist(minitorch.tensor([[0.0, 0.0]]), minitorch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    a, b = promoted(tensor_for(x1, "cdist"), tensor_for(x2, "cdist"))
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise RuntimeError(f"cdist: expects rows of one length, got shapes {a.shape} and {b.shape}")
    if kind_of(a._array.dtype) != "f":
        raise RuntimeError(f"cdist: expects floats, got {a._array.dtype}; write x.float()")
    if p < 0:
        raise RuntimeError(f"cdist: p must not be negative, got {p}")
    if a.shape[-1] == 0:  # rows of no length lie nowhere apart
        return (a.sum(-1).unsqueeze(-1) + b.sum(-1).unsqueeze(-2)) * 0.0
    if p == 2 and math.prod(a.shape) * b.shape[-2] > _TOO_MANY:
        # ‖a - b‖² = ‖a‖² + ‖b‖² - 2·a·b, without every difference in memory at once; a little less exact.
        squared = (a * a).sum(-1).unsqueeze(-1) + (b * b).sum(-1).unsqueeze(-2) - 2 * matmul(a, b.mT)
        same = squared <= 0
        return where(same, 0.0, where(same, 1.0, squared).sqrt())
    difference = a.unsqueeze(-2) - b.unsqueeze(-3)
    return difference.norm(p, -1) if difference._data.size else difference.sum(-1)


def _bounds(x: Tensor, low: float, high: float, margin: float, name: str) -> tuple[float, float]:
    if low == high and x._data.size:
        low, high = float(x.min()), float(x.max())
    if low == high:
        low, high = low - margin, high + margin
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise RuntimeError(f"{name}: bins need finite ends, the first below the second, got {low} and {high}")
    return low, high


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

bincount = function(Statistics.bincount)
histc = function(Statistics.histc)
histogram = function(Statistics.histogram)
cov = function(Statistics.cov)
corrcoef = function(Statistics.corrcoef)
diff = function(Statistics.diff)
dist = function(Statistics.dist)
renorm = function(Statistics.renorm)

trapz = trapezoid
__all__ = [
    "bincount", "cdist", "corrcoef", "cov", "cumulative_trapezoid", "diff", "dist", "gradient", "histc",
    "histogram", "renorm", "trapezoid", "trapz",
]  # fmt: skip
