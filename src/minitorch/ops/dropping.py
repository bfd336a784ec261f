"""Dropout on a device, as one op. Enters: an array, and a random number for each element. Leaves: what is kept of it.

A mask could be multiplied by other ops, and is, everywhere else; here a kernel makes it of the numbers as it goes.
"""

from __future__ import annotations

from typing import Any

from minitorch.ops.native import ELEMENTWISE, natively_there, takes_looks
from minitorch.ops.op import Array, Op


def _dropped(x: Array, drawn: Array, *, keep: float) -> Array:
    """Return what is left of an array: of elements that are kept, so many times more. drawn: from (0, 1]."""
    return x * (drawn < keep) * (1 / keep)


DROPOUT = Op(
    "dropout",
    takes_looks(_dropped),
    takes_looks(lambda g, out, x, drawn, *, keep: _dropped(g, drawn, keep=keep)),
    None,
    native=True,
    elementwise=True,
    register=False,
)

# Which of a matrix's elements are kept: a byte for each, where attention reads them twice.
are_kept: Any = natively_there(lambda drawn, *, keep: drawn < keep, ELEMENTWISE)
