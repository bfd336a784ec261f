"""Dropout on a device, as one op. Enters: an array, and which of its elements are kept. Leaves: what is kept of it.

A mask could be multiplied by other ops, and is, everywhere else.
"""

from __future__ import annotations

from minitorch.ops.native import takes_looks
from minitorch.ops.op import Array, Op


def _dropped(x: Array, kept: Array, *, keep: float) -> Array:
    """Return what is left of an array: of elements that are kept, so many times more."""
    return x * kept * (1 / keep)


DROPOUT = Op(
    "dropout",
    takes_looks(_dropped),
    takes_looks(lambda g, out, x, kept, *, keep: _dropped(g, kept, keep=keep)),
    None,
    native=True,
    elementwise=True,
    register=False,
)
