"""Pooling in any number of dimensions: the largest of each window, or its mean.

Enters: images (N, C, d1, …). Leaves: one number per window; backward gives each gradient back to the
element that was chosen, or to all of them.

Windows are gone through tap by tap: all first elements of all windows, then all second ones. That is a
handful of NumPy calls on large arrays, whatever the stride and dilation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.ops.conv import Pairs, Sizes, padded, places, taps, unpadded, window_count
from minitorch.ops.native import BATCH
from minitorch.ops.op import Array, Op, certain, possible

# --- max ------------------------------------------------------------------------------------------


def _lowest(dtype: Any) -> float:
    """Return what never is the largest: the border's value in max-pooling."""
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _max_pool(x: Array, *, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes) -> Array:
    count = window_count(x.shape[2:], kernel, stride, padding, dilation)
    images = padded(x, padding, _lowest(x.dtype))
    out = None
    for _, tap in taps(kernel):
        here = images[places(tap, count, stride, dilation)]
        out = here.copy() if out is None else np.maximum(out, here, out=out)
    return out


def _max_pool_tap(
    x: Array, largest: Array, *, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes
) -> Array:
    """Return the number of the tap at which each window has its largest element; of equals the first."""

    def at_each_tap(border: float) -> list[Array]:
        images = padded(x, padding, border)
        return [images[places(tap, largest.shape[2:], stride, dilation)] for _, tap in taps(kernel)]

    # nan in the border equals nothing, so that a window of -inf still chooses an element of the image.
    found = at_each_tap(np.nan if x.dtype.kind == "f" else _lowest(x.dtype))
    chosen, missing = _first(found, lambda here: here != largest)
    if possible(missing.any()):  # nothing equals nan, which counts as the largest of all: look for it by that
        of_nan, _ = _first(at_each_tap(0), lambda here: here == here)
        chosen = np.where(missing, of_nan, chosen)
    return chosen


def _first(found: list[Array], missed: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Return how many taps missed before the first that did not, and where all of them missed.

    Counting is a few cheap passes; writing the number of a tap where it hits takes ten times as long.
    """
    missing = missed(found[0])
    count = missing.astype(np.min_scalar_type(len(found)))
    for here in found[1:]:
        missing = missing & missed(here)
        count += missing
    return count, missing


def _pool_pick(
    x: Array, chosen: Array, *, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes
) -> Array:
    """Return from each window the element at the chosen tap."""
    images = padded(x, padding)
    out = np.zeros(chosen.shape, dtype=x.dtype, like=x)
    for number, tap in taps(kernel):
        here = images[places(tap, chosen.shape[2:], stride, dilation)]
        np.copyto(out, here, where=chosen == number)
    return out


def _pool_put(
    y: Array, chosen: Array, *, size: Sizes, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes
) -> Array:
    """Add each window's number at its chosen tap into zeros: the transpose of `_pool_pick`."""
    grown = tuple(n + a + b for n, (a, b) in zip(size, padding, strict=True))
    out = np.zeros((*y.shape[:2], *grown), dtype=y.dtype, like=y)
    apart = all(s >= d * (k - 1) + 1 for s, d, k in zip(stride, dilation, kernel, strict=True))
    finite = certain(np.isfinite(y).all())
    for number, tap in taps(kernel):
        here = places(tap, y.shape[2:], stride, dilation)
        hit = chosen == number
        if apart and finite:  # windows that do not overlap write each place once
            np.multiply(y, hit, out=out[here])
        else:  # (0·inf would be nan)
            out[here] += y * hit if finite else np.where(hit, y, 0)
    return unpadded(out, size, padding)


def _max_pool_rule(g: Array, out: Array, x: Array, **how: Any) -> Array:
    # The largest are found again, not read from `out`: layers behind a pooling like to write into it.
    return POOL_PUT(g, MAX_POOL_TAP(x, MAX_POOL(x, **how), **how), size=x.shape[2:], **how)


MAX_POOL: Op = Op("max_pool", _max_pool, _max_pool_rule, native=BATCH, whole=True)
MAX_POOL_TAP = Op("max_pool_tap", _max_pool_tap, native=BATCH, whole=True)
POOL_PUT: Op = Op(
    "pool_put",
    _pool_put,
    lambda g, out, y, chosen, *, size, **how: POOL_PICK(g, chosen, **how),
    None,
    native=BATCH,
    whole=True,
)
POOL_PICK: Op = Op(
    "pool_pick",
    _pool_pick,
    lambda g, out, x, chosen, **how: POOL_PUT(g, chosen, size=x.shape[2:], **how),
    None,
    native=BATCH,
    whole=True,
)

# --- mean -----------------------------------------------------------------------------------------

# What a window's sum is divided by: one number, or (windows at a border have fewer elements) for each
# axis the extent of each window along it, whose product is the number of elements.
Divisor = float | tuple[tuple[int, ...], ...]


def _divided(sums: Array, divisor: Divisor) -> Array:
    if not isinstance(divisor, tuple):
        return sums if divisor == 1 else sums / divisor
    for axis, extents in enumerate(divisor):
        shape = (-1,) + (1,) * (len(divisor) - axis - 1)
        sums = sums / np.asarray(extents, dtype=sums.dtype, like=sums).reshape(shape)
    return sums


def _met(axis: int, tap: int, count: int, stride: int) -> tuple[Any, ...]:
    """Return the index of what a tap meets along one axis, window by window."""
    return (*(slice(None),) * axis, slice(tap, tap + stride * (count - 1) + 1, stride))


def _avg_pool(x: Array, *, kernel: Sizes, stride: Sizes, padding: Pairs, divisor: Divisor) -> Array:
    # Axis by axis: a window's sum is one of sums along the other axes. 2·k additions then, and not k².
    count = window_count(x.shape[2:], kernel, stride, padding, (1,) * len(kernel))
    sums = padded(x, padding)
    for axis, (k, n, s) in enumerate(zip(kernel, count, stride, strict=True), start=2):
        images, sums = sums, sums[_met(axis, 0, n, s)].copy()
        for tap in range(1, k):
            sums = np.add(sums, images[_met(axis, tap, n, s)], out=sums)
    return _divided(sums, divisor)


def _avg_unpool(
    y: Array, *, size: Sizes, kernel: Sizes, stride: Sizes, padding: Pairs, divisor: Divisor
) -> Array:
    """Give each element of a window an equal share of the window's number: the transpose of `_avg_pool`."""
    share = _divided(y, divisor)
    for i in reversed(range(len(kernel))):
        axis, k, s = i + 2, kernel[i], stride[i]
        count, length = share.shape[axis], size[i] + sum(padding[i])
        shape = (*share.shape[:axis], length, *share.shape[axis + 1 :])
        everywhere = k == s and length == count * k
        out = (np.empty if everywhere else np.zeros)(shape, dtype=y.dtype, like=y)
        for tap in range(k):
            here = _met(axis, tap, count, s)
            if k <= s:  # windows that do not overlap write each place once
                out[here] = share
            else:
                out[here] += share
        share = out
    return unpadded(share, size, padding)


AVG_POOL: Op = Op(
    "avg_pool",
    _avg_pool,
    lambda g, out, x, **how: AVG_UNPOOL(g, size=x.shape[2:], **how),
    native=BATCH,
    whole=True,
)
AVG_UNPOOL: Op = Op(
    "avg_unpool",
    _avg_unpool,
    lambda g, out, y, *, size, **how: AVG_POOL(g, **how),
    native=BATCH,
    whole=True,
)
