"""Many elements into one: sums, extremes, products, spreads, norms; and running totals.

Enters: an array, `axis` (None, an int or a tuple) and `keepdims`. Leaves: the reduced array.
Backward spreads the gradient over what was folded: first give the reduced axes back as 1s
(`_restore`), then broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.ops.fast import stretch
from minitorch.ops.native import is_of_device
from minitorch.ops.op import Array, Op, axes_of, certain, count_of, in_axis_order, keep_axes
from minitorch.ops.sums import rounded_once, total

Axis = int | Sequence[int] | None


def _restore(g: Array, shape: tuple[int, ...], axis: Axis) -> Array:
    """Give a reduced array its reduced axes back, as axes of length 1."""
    if axis is None or len(g.shape) == len(shape):
        return g  # one number broadcasts as it is; keepdims has kept them
    return g.reshape(keep_axes(shape, axis))


def _spread(g: Array, shape: tuple[int, ...], axis: Axis) -> Array:
    return stretch(_restore(g, shape, axis), shape)


# --- sums ----------------------------------------------------------------------------------------

SUM = Op(
    "sum",
    total,
    lambda g, out, x, *, axis, keepdims: _spread(g, x.shape, axis),
    there=True,
)
MEAN = Op(
    "mean",
    rounded_once(
        lambda x, *, axis, keepdims: total(x, axis=axis, keepdims=keepdims) / count_of(x.shape, axis)
    ),
    lambda g, out, x, *, axis, keepdims: _spread(g / count_of(x.shape, axis), x.shape, axis),
    there=True,
)
CUMSUM = Op(
    "cumsum",
    rounded_once(lambda x, *, axis: in_axis_order(np.cumsum(x, axis=axis))),
    lambda g, out, x, *, axis: np.flip(np.cumsum(np.flip(g, axis), axis=axis), axis),
    there=True,
)

# --- spreads -------------------------------------------------------------------------------------


def _var(x: Array, *, axis: Axis, correction: float, keepdims: bool) -> Array:
    count = count_of(x.shape, axis)
    difference = x - total(x, axis=axis, keepdims=True) / count if count else x
    # max: with no degrees of freedom left the variance is 0/0 = nan or inf, not negative; of nothing it is nan.
    degrees = max(count - correction, 0) if count else 0
    return total(difference * difference, axis=axis, keepdims=keepdims) / degrees


def _centred(x: Array, axis: Axis) -> Array:
    return x - total(x, axis=axis, keepdims=True) / max(count_of(x.shape, axis), 1)


def _var_rule(g: Array, out: Array, x: Array, *, axis: Axis, correction: float, keepdims: bool) -> Array:
    degrees = count_of(x.shape, axis) - correction
    centred = _centred(x, axis)
    if (
        axis is None and degrees <= 0
    ):  # what PyTorch gives: of nowhere defined, nan at the mean and inf elsewhere
        return g * np.where(centred == 0, math.nan, math.inf)
    scale = 2 / degrees if degrees else math.inf
    return _restore(g, x.shape, axis) * (scale * centred)


VAR = Op("var", rounded_once(_var), _var_rule, there=True)


def _std_rule(g: Array, out: Array, x: Array, **attributes: Any) -> Array:
    # A constant has std 0, a kink like |x|'s: its slope is 0 there.
    flat = out == 0
    slope = np.where(flat, 0, g / np.where(flat, 1, 2 * out))
    return _var_rule(slope, out, x, **attributes)


STD = Op("std", rounded_once(lambda x, **attributes: np.sqrt(_var(x, **attributes))), _std_rule, there=True)

# --- extremes ------------------------------------------------------------------------------------


def share_among_equals(g: Array, out: Array, x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """Split the gradient evenly among all elements that equal the extreme."""
    winners = x == _restore(out, x.shape, axis)
    shares = winners.sum(axis=axis, keepdims=True).astype(g.dtype)
    return _restore(g, x.shape, axis) * winners / shares


AMAX = Op(
    "amax", lambda x, *, axis, keepdims: x.max(axis=axis, keepdims=keepdims), share_among_equals, there=True
)
AMIN = Op(
    "amin", lambda x, *, axis, keepdims: x.min(axis=axis, keepdims=keepdims), share_among_equals, there=True
)


def _arg(which: str) -> Any:
    def forward(x: Array, *, axis: int | None, keepdims: bool) -> Array:
        if axis is None:
            found = getattr(x.reshape(-1), which)()
            return found.reshape((1,) * x.ndim) if keepdims else found
        return getattr(x, which)(axis=axis, keepdims=keepdims)

    return forward


ARGMAX = Op("argmax", _arg("argmax"), there=True)
ARGMIN = Op("argmin", _arg("argmin"), there=True)


def accumulated(ufunc: Any, x: Array, axis: int) -> Array:
    """Return running results of a ufunc along an axis, which CuPy does not have: there by steps twice as far each."""
    if not is_of_device(x):
        return ufunc.accumulate(x, axis=axis)
    lead, total, distance = (slice(None),) * axis, x, 1
    while distance < x.shape[axis]:
        first = total[(*lead, slice(0, distance))]
        later, earlier = total[(*lead, slice(distance, None))], total[(*lead, slice(0, -distance))]
        total = np.concatenate([first, ufunc(later, earlier)], axis=axis)
        distance *= 2
    return total


def _running(extreme: Any) -> Any:
    """Return a forward that gives, at each place, where the extreme so far stands: the last one of equals."""

    def forward(x: Array, *, axis: int) -> Array:
        if not x.shape[axis]:
            return x.astype(np.int64)
        total = accumulated(extreme, x, axis)
        # A new extreme (or an equal one) stands where x meets the running total; nan counts as one.
        meets = (x == total) | (x != x)
        lead = (-1,) + (1,) * (x.ndim - axis - 1)
        places = np.arange(x.shape[axis], like=x).astype(np.int64).reshape(lead)
        return accumulated(np.maximum, np.where(meets, places, 0), axis)

    return forward


CUMMAX_PLACES = Op("cummax_places", _running(np.maximum), there=True)
CUMMIN_PLACES = Op("cummin_places", _running(np.minimum), there=True)

# --- products ------------------------------------------------------------------------------------


def _exclusive_cumprod(x: Array, axis: int) -> Array:
    """At each place, the product of everything before it (1 at the first)."""
    first = (slice(None),) * axis + (slice(0, 1),)
    before = (slice(None),) * axis + (slice(0, -1),)
    return np.cumprod(np.concatenate([np.ones_like(x[first]), x[before]], axis=axis), axis=axis)


def _prod_rule(g: Array, out: Array, x: Array, *, axis: Axis, keepdims: bool) -> Array:
    # Each element's slope is the product of all the others: what stands before it times what
    # stands after it. Dividing out by x would fail at a zero.
    axes = axes_of(axis, x.ndim)
    kept = tuple(a for a in range(x.ndim) if a not in axes)
    order = kept + axes
    last = len(kept)
    if 0 in x.shape:
        return np.zeros_like(x)
    rows = np.transpose(x, order).reshape((*tuple(x.shape[a] for a in kept), -1 if x.ndim else 1))
    before = _exclusive_cumprod(rows, last)
    after = np.flip(_exclusive_cumprod(np.flip(rows, last), last), last)
    others = (before * after).reshape(tuple(x.shape[a] for a in order))
    back = tuple(order.index(a) for a in range(x.ndim))
    return _restore(g, x.shape, axis) * np.transpose(others, back)


PROD = Op(
    "prod",
    rounded_once(lambda x, *, axis, keepdims: x.prod(axis=axis, keepdims=keepdims)),
    _prod_rule,
    there=True,
)


def _cumprod_rule(g: Array, out: Array, x: Array, *, axis: int) -> Array:
    if 0 in x.shape:
        return np.zeros_like(x)
    if certain((x != 0).all()):
        return np.flip(np.cumsum(np.flip(g * out, axis), axis=axis), axis) / x
    # With a zero among the factors we cannot divide. The slope at i is (product before i) · S_i with
    # S_i = g_i + x_{i+1}·S_{i+1}, everything that follows, from the end backwards.
    axis = axis % x.ndim
    lead = (slice(None),) * axis
    length = x.shape[axis]
    total = g[(*lead, length - 1)]
    following = [total]
    for i in range(length - 2, -1, -1):
        total = g[(*lead, i)] + x[(*lead, i + 1)] * total
        following.append(total)
    return _exclusive_cumprod(x, axis) * np.stack(following[::-1], axis=axis)


CUMPROD = Op(
    "cumprod",
    rounded_once(lambda x, *, axis: in_axis_order(np.cumprod(x, axis=axis))),
    _cumprod_rule,
    there=True,
)

# --- norms and log-sum-exp -----------------------------------------------------------------------


def _norm(x: Array, *, p: float, axis: Axis, keepdims: bool) -> Array:
    size = np.absolute(x)
    if p == math.inf:
        return size.max(axis=axis, keepdims=keepdims)
    if p == -math.inf:
        return size.min(axis=axis, keepdims=keepdims)
    if p == 0:
        return (size != 0).astype(size.dtype).sum(axis=axis, keepdims=keepdims)
    if p == 1:
        return size.sum(axis=axis, keepdims=keepdims)
    if p == 2:
        return np.sqrt((x * x).sum(axis=axis, keepdims=keepdims))
    return (size**p).sum(axis=axis, keepdims=keepdims) ** (1 / p)


def _norm_rule(g: Array, out: Array, x: Array, *, p: float, axis: Axis, keepdims: bool) -> Array:
    g, out = _restore(g, x.shape, axis), _restore(out, x.shape, axis)
    if p == 0:
        return g * np.zeros_like(x)
    if p == 1:
        return g * np.sign(x)
    if math.isinf(p):
        winners = np.absolute(x) == out
        return g * np.sign(x) * winners / winners.sum(axis=axis, keepdims=True).astype(g.dtype)
    # d‖x‖/dx = sign(x)·(|x| / ‖x‖)^(p-1). At the origin, a kink, the slope is 0.
    origin = out == 0
    safe = np.where(origin, 1, out)
    if p == 2:
        return np.where(origin, 0, g) * (x / safe)
    size = np.absolute(x)
    # Below p = 1 the power of a zero element is infinite; its sign is 0 and so is its slope.
    ratio = np.where(size == 0, 1, size) / safe if p < 2 else size / safe
    return np.where(origin, 0, g) * (np.sign(x) * ratio ** (p - 1))


NORM = Op("norm", rounded_once(_norm), _norm_rule, there=True)


def _logsumexp(x: Array, *, axis: Axis, keepdims: bool) -> Array:
    if count_of(x.shape, axis) == 0:
        return np.log(x.sum(axis=axis, keepdims=keepdims))  # log of an empty sum: -inf
    # The largest is subtracted before exp, so that nothing overflows; an infinite one is not.
    largest = x.max(axis=axis, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0)
    total = np.log(np.exp(x - largest).sum(axis=axis, keepdims=True)) + largest
    if keepdims:
        return total
    axes = axes_of(axis, x.ndim)
    return total.reshape(tuple(n for i, n in enumerate(x.shape) if i not in axes))


LOGSUMEXP = Op(
    "logsumexp",
    rounded_once(_logsumexp),
    lambda g, out, x, *, axis, keepdims: (
        _restore(g, x.shape, axis) * np.exp(x - _restore(out, x.shape, axis))
    ),
    floating=True,
    there=True,
)


def _logcumsumexp_rule(g: Array, out: Array, x: Array, *, axis: int) -> Array:
    # dxᵢ = Σ_{k≥i} gₖ·e^{xᵢ - outₖ}, from the end backwards: S_i = gᵢ + e^{outᵢ - outᵢ₊₁}·S_{i+1}, and
    # dxᵢ = e^{xᵢ - outᵢ}·Sᵢ. No exponent is positive, so nothing overflows.
    lead = (slice(None),) * axis
    length = x.shape[axis]
    if not length:
        return np.zeros_like(x)
    total = g[(*lead, length - 1)]
    sums = [total]
    for i in range(length - 2, -1, -1):
        here, after = out[(*lead, i)], out[(*lead, i + 1)]
        total = g[(*lead, i)] + np.exp(np.where(here == after, 0, here - after)) * total
        sums.append(total)
    same = x == out  # also where both are -inf
    return np.exp(np.where(same, 0, x - out)) * np.stack(sums[::-1], axis=axis)


LOGCUMSUMEXP = Op(
    "logcumsumexp",
    lambda x, *, axis: in_axis_order(accumulated(np.logaddexp, x, axis)) if x.shape[axis] else x.copy(),
    _logcumsumexp_rule,
    floating=True,
    there=True,
)

# --- questions -----------------------------------------------------------------------------------

ALL = Op("all", lambda x, *, axis, keepdims: x.all(axis=axis, keepdims=keepdims), there=True)
ANY = Op("any", lambda x, *, axis, keepdims: x.any(axis=axis, keepdims=keepdims), there=True)
COUNT_NONZERO = Op("count_nonzero", lambda x, *, axis: (x != 0).sum(axis=axis), there=True)
