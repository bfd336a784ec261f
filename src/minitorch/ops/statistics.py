"""Running extremes and log-sums, the commonest element, and indices into sorted things.

Enters: an array and an axis. Leaves: an array. Where a result is some of the input's elements, the op here only
finds their places, and gather (ops/shape.py) takes them, so that gradients go back to exactly these.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch.ops.op import Array, Op

# --- places -------------------------------------------------------------------------------------


def _running(extreme: Any) -> Any:
    """Return a forward that gives, at each place, where the extreme so far stands: the last one of equals."""

    def forward(x: Array, *, axis: int) -> Array:
        if not x.shape[axis]:
            return x.astype(np.int64)
        total = extreme.accumulate(x, axis=axis)
        # A new extreme (or an equal one) stands where x meets the running total; nan counts as one.
        meets = (x == total) | (x != x)
        lead = (-1,) + (1,) * (x.ndim - axis - 1)
        places = np.arange(x.shape[axis], like=x).astype(np.int64).reshape(lead)
        return np.maximum.accumulate(np.where(meets, places, 0), axis=axis)

    return forward


CUMMAX_PLACES = Op("cummax_places", _running(np.maximum))
CUMMIN_PLACES = Op("cummin_places", _running(np.minimum))


def _mode_places(x: Array, *, axis: int) -> Array:
    """Return where, along an axis, the commonest element stands: of equally common ones the smallest, its last."""
    order = np.argsort(x, axis=axis, kind="stable")
    ordered = np.take_along_axis(x, order, axis)
    lead = (slice(None),) * axis
    length = x.shape[axis]
    places = np.arange(length, like=x).astype(np.int64).reshape((-1,) + (1,) * (x.ndim - axis - 1))
    # A run starts where an element differs from the one before; a place's rank in its run is its count so far.
    differs = ordered[(*lead, slice(1, None))] != ordered[(*lead, slice(0, -1))]
    first = np.ones_like(ordered[(*lead, slice(0, 1))], dtype=bool)
    starts = np.where(np.concatenate([first, differs], axis=axis), places, 0)
    rank = places - np.maximum.accumulate(starts, axis=axis)
    best = np.expand_dims(np.argmax(rank, axis=axis), axis)
    return np.take_along_axis(order, best, axis)


MODE_PLACES = Op("mode_places", _mode_places)

# --- running log-sum-exp ------------------------------------------------------------------------


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
    lambda x, *, axis: np.logaddexp.accumulate(x, axis=axis) if x.shape[axis] else x.copy(),
    _logcumsumexp_rule,
    floating=True,
)

# --- places in sorted sequences -----------------------------------------------------------------


def _searchsorted(sequence: Array, values: Array, *, right: bool) -> Array:
    # How many of the sequence stand before each value: all smaller ones, with `right` the equal ones too.
    # NumPy searches one sequence; several are searched row by row.
    side: Any = "right" if right else "left"
    if sequence.ndim == 1:
        return np.searchsorted(sequence, values, side=side)
    if 0 in values.shape:
        return values.astype(np.int64)
    rows = sequence.reshape(math.prod(sequence.shape[:-1]), sequence.shape[-1])
    wanted = values.reshape(rows.shape[0], -1)
    found = [np.searchsorted(row, each, side=side) for row, each in zip(rows, wanted, strict=True)]
    return np.stack(found).reshape(values.shape)


SEARCHSORTED = Op("searchsorted", _searchsorted)
