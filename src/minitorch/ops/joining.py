"""Joining and cutting along an axis. Enters: arrays, or one to cut. Leaves: one array, or its pieces, as views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minitorch.ops.op import Array, Op, in_axis_order


def _cat_rule(i: int, g: Array, out: Array, *inputs: Array, axis: int, starts: tuple[int, ...]) -> Array:
    return g[(slice(None),) * axis + (slice(starts[i], starts[i + 1]),)]


CAT = Op("cat", lambda *xs, axis, starts: in_axis_order(np.concatenate(xs, axis=axis)), each=_cat_rule)
STACK = Op(
    "stack",
    lambda *xs, axis: in_axis_order(np.stack(xs, axis=axis)),
    each=lambda i, g, out, *xs, axis: g[(slice(None),) * axis + (i,)],
)


def _split(x: Array, *, axis: int, cuts: Sequence[int]) -> list[Array]:
    lead = (slice(None),) * axis
    bounds = zip((0, *cuts), (*cuts, x.shape[axis]), strict=True)
    return [x[(*lead, slice(a, b))] for a, b in bounds]


# Several results: the rule receives all their gradients at once, and one concatenation puts them
# back. (A getitem per piece would make a full-size array of zeros for each.)
SPLIT = Op(
    "split",
    _split,
    lambda g, out, x, *, axis, cuts: np.concatenate(g, axis=axis),
)
UNBIND = Op(
    "unbind",
    lambda x, *, axis: [x[(slice(None),) * axis + (i, ...)] for i in range(x.shape[axis])],
    lambda g, out, x, *, axis: np.stack(g, axis=axis),
)
