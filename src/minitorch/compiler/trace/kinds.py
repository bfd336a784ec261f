"""What a value is, as one number. Enters: a Value. Leaves: a number for all of it but its inputs and an array it holds.

Two rounds of a loop write down hundreds of values, which are compared by these numbers (call/pending_programs.py).
"""

from __future__ import annotations

import itertools
from typing import Any

from minitorch.compiler.ir.program import Value

SMALL = 64  # bytes; constants that are larger are inputs
MADE, NUMBER, CONSTANT, INPUT = range(4)  # from others, one number, some numbers, an array
MOST_KINDS = 1 << 16  # then all are forgotten

_kinds: dict[Any, int] = {}  # none is ever given twice
_count = itertools.count(1)


def kind_of(value: Value) -> int:
    """Return the number of what a value is, which tells what it is made by, too: kind % 4 is one of the above."""
    if value.kind:
        return value.kind
    primitive = value.primitive
    described: tuple[Any, ...]
    if primitive == "input" or (primitive == "constant" and value.nbytes > SMALL):
        sort, described = INPUT, (INPUT, value.shape, value.dtype)
    elif primitive == "constant":
        sort = NUMBER if value.size == 1 else CONSTANT
        described = (sort, value.shape, value.dtype)
    else:
        sort = MADE
        described = (primitive, len(value.inputs), *value.attributes.items(), value.shape, value.dtype)
    if len(_kinds) > MOST_KINDS:
        _kinds.clear()
    value.kind = kind = _kinds.setdefault(described, 4 * next(_count) + sort)
    return kind
