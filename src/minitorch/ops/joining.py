"""Joining and cutting along an axis. Enters: arrays, or one to cut. Leaves: one array, or its pieces, as views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minitorch.ops.narrow import takes_narrow, widely
from minitorch.ops.native import natively_there
from minitorch.ops.op import Array, Op, in_axis_order

MOST_AT_ONCE = 8  # arrays that a kernel joins on a device: it is made for their number


@natively_there
def _joined_at_once(parts: Sequence[Array], *, axis: int) -> Array:
    return np.concatenate(parts, axis=axis)


_joined_one_by_one = widely(lambda parts, *, axis: np.concatenate(parts, axis=axis))


def _joined(parts: Sequence[Array], axis: int) -> Array:
    """Return arrays as one, behind each other along an axis."""
    if parts[0].__class__ is np.ndarray:
        return np.concatenate(parts, axis=axis)
    join = _joined_at_once if len(parts) <= MOST_AT_ONCE else _joined_one_by_one
    return join(parts if isinstance(parts, list) else list(parts), axis=axis)


@takes_narrow
def _cat(*xs: Array, axis: int, starts: tuple[int, ...]) -> Array:
    return in_axis_order(_joined(xs, axis))


@takes_narrow
def _cat_rule(i: int, g: Array, out: Array, *inputs: Array, axis: int, starts: tuple[int, ...]) -> Array:
    return g[(slice(None),) * axis + (slice(starts[i], starts[i + 1]),)]


CAT = Op("cat", _cat, each=_cat_rule)
STACK = Op(
    "stack",
    lambda *xs, axis: in_axis_order(np.stack(xs, axis=axis)),
    each=takes_narrow(lambda i, g, out, *xs, axis: g[(slice(None),) * axis + (i,)]),
)


def _split(x: Array, *, axis: int, cuts: Sequence[int]) -> list[Array]:
    lead = (slice(None),) * axis
    bounds = zip((0, *cuts), (*cuts, x.shape[axis]), strict=True)
    return [x[(*lead, slice(a, b))] for a, b in bounds]


# Several results: the rule receives all their gradients at once, and one concatenation puts them
# back. (A getitem per piece would make a full-size array of zeros for each.)
SPLIT = Op("split", _split, takes_narrow(lambda g, out, x, *, axis, cuts: _joined(g, axis)))
UNBIND = Op(
    "unbind",
    lambda x, *, axis: [x[(slice(None),) * axis + (i, ...)] for i in range(x.shape[axis])],
    lambda g, out, x, *, axis: np.stack(g, axis=axis),
)
