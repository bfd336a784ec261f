"""Comparisons: which is larger, what lies between, what holds; and logic, by element and by bit.

Enters: arrays that broadcast against each other. Leaves: an array of their common shape; of bools for questions.
"""

from __future__ import annotations

import numpy as np

from minitorch.ops.fast import kept
from minitorch.ops.op import Array, Op, possible

# --- the larger, the smaller, the chosen ---------------------------------------------------------


def _winner(g: Array, x: Array, y: Array, loses: Array) -> Array:
    """Return x's share of the gradient: nothing where it loses, half of it at a tie."""
    share = kept(g, ~loses)  # nan on either side leaves all comparisons false
    tie = x == y
    return np.where(tie, 0.5 * share, share) if possible(tie.any()) else share


MAXIMUM = Op(
    "maximum",
    np.maximum,
    lambda g, out, x, y: _winner(g, x, y, x < y),
    lambda g, out, x, y: _winner(g, y, x, y < x),
)
MINIMUM = Op(
    "minimum",
    np.minimum,
    lambda g, out, x, y: _winner(g, x, y, x > y),
    lambda g, out, x, y: _winner(g, y, x, y > x),
)
FMAX = Op(
    "fmax",
    np.fmax,
    lambda g, out, x, y: kept(g, (x >= y) | np.isnan(y)),
    lambda g, out, x, y: kept(g, ~((x >= y) | np.isnan(y))),
)
FMIN = Op(
    "fmin",
    np.fmin,
    lambda g, out, x, y: kept(g, (x <= y) | np.isnan(y)),
    lambda g, out, x, y: kept(g, ~((x <= y) | np.isnan(y))),
)


def _clip_rule(g: Array, out: Array, x: Array, *, low: float | None, high: float | None) -> Array:
    if low is None:
        return kept(g, x < high)
    if high is None:
        return kept(g, x > low)
    return kept(g, (x > low) & (x < high))


def _clip(x: Array, *, low: float | None, high: float | None) -> Array:
    if x.dtype.kind != "f":
        return np.clip(x, low, high)  # knows bounds that the dtype cannot hold
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


CLIP = Op("clip", _clip, _clip_rule, elementwise=True, there=True)
WHERE = Op(
    "where",
    np.where,
    None,
    lambda g, out, condition, x, y: kept(g, condition),
    lambda g, out, condition, x, y: kept(g, ~condition),
    elementwise=True,
    there=True,
)
HEAVISIDE = Op(
    "heaviside",
    lambda x, y: np.where(x == 0, y, np.where(np.isnan(x), x, x > 0)).astype(x.dtype),
    elementwise=True,
    there=True,
)

# --- questions: no derivative, never recorded ----------------------------------------------------

EQUAL = Op("eq", np.equal)
NOT_EQUAL = Op("ne", np.not_equal)
LESS = Op("lt", np.less)
LESS_EQUAL = Op("le", np.less_equal)
GREATER = Op("gt", np.greater)
GREATER_EQUAL = Op("ge", np.greater_equal)
ISNAN = Op("isnan", np.isnan)
ISINF = Op("isinf", np.isinf)
ISFINITE = Op("isfinite", np.isfinite)
SIGNBIT = Op("signbit", lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0)

# --- logic and bits ------------------------------------------------------------------------------

LOGICAL_AND = Op("logical_and", np.logical_and)
LOGICAL_OR = Op("logical_or", np.logical_or)
LOGICAL_XOR = Op("logical_xor", np.logical_xor)
LOGICAL_NOT = Op("logical_not", np.logical_not)
BITWISE_AND = Op("bitwise_and", np.bitwise_and)
BITWISE_OR = Op("bitwise_or", np.bitwise_or)
BITWISE_XOR = Op("bitwise_xor", np.bitwise_xor)
BITWISE_NOT = Op("bitwise_not", np.bitwise_not)
LEFT_SHIFT = Op("bitwise_left_shift", np.left_shift)
RIGHT_SHIFT = Op("bitwise_right_shift", np.right_shift)
