"""Between which integers a value lies. Enters: a value. Leaves: the least and the largest that it may hold, if known.

Places that sorting or an argmax has found are places: nobody has to look whether they are negative or too large.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.ir.program import VIEWS, Value
from minitorch.compiler.ir.sizes import is_fixed

Bounds = tuple[int, int]
MOST_STEPS = 256  # that are looked back
MOST_ELEMENTS = 1 << 16  # of a constant that is looked at


def bounds(value: Value) -> Bounds | None:
    """Return the least and the largest integer that a value may hold; None if that is not known.

    >>> from minitorch.compiler.ir import builder
    >>> bounds(builder.map_values("add", builder.iota(5), builder.full((5,), 3, "i8")))
    (3, 7)
    """
    known: dict[Value, Bounds | None] = {}
    waiting = [value]
    while waiting and len(known) < MOST_STEPS:
        latest = waiting[-1]
        before = [] if not _is_known(latest) else [each for each in latest.inputs if each not in known]
        if before:
            waiting += before
            continue
        waiting.pop()
        known[latest] = _limited(latest, known) if _is_known(latest) else None
    return known.get(value)


def _is_known(value: Value) -> bool:
    return value.dtype.kind in "iu" and is_fixed(*value.shape) and value.size > 0


def _limited(value: Value, known: dict[Value, Bounds | None]) -> Bounds | None:
    """Return the bounds of a value by those of its inputs, unless some do not fit into its dtype."""
    found = _found(value, known)
    limits = np.iinfo(value.dtype)
    return found if found is not None and limits.min <= found[0] and found[1] <= limits.max else None


def order(function: str, x: Value, y: Value) -> bool | None:
    """Return what a comparison gives wherever one looks; None if it may be either.

    >>> from minitorch.compiler.ir import builder
    >>> order("less", builder.iota(5), builder.full((5,), 5, "i8"))
    True
    """
    if function not in _COMPARED or x.dtype.kind not in "iu" or y.dtype.kind not in "iu":
        return None
    a, b = bounds(x), bounds(y)
    return None if a is None or b is None else _COMPARED[function](a, b)


def _less(a: Bounds, b: Bounds) -> bool | None:
    return True if a[1] < b[0] else False if a[0] >= b[1] else None


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


_COMPARED: dict[str, Callable[[Bounds, Bounds], bool | None]] = {
    "less": _less,
    "greater": lambda a, b: _less(b, a),
    "less_equal": lambda a, b: _not(_less(b, a)),
    "greater_equal": lambda a, b: _not(_less(a, b)),
}


def _found(value: Value, known: dict[Value, Bounds | None]) -> Bounds | None:
    primitive, attributes, inputs = value.primitive, value.attributes, value.inputs
    if primitive == "constant":
        array = attributes["array"]
        return (int(array.min()), int(array.max())) if array.size <= MOST_ELEMENTS else None
    if primitive == "iota":
        return 0, value.size - 1
    if primitive in ("argsort", "arg_reduce"):
        length = inputs[0].shape[attributes["axis"]]
        return (0, length - 1) if is_fixed(length) else None
    one_of_them = primitive == "reduce" and attributes["function"] in ("minimum", "maximum")
    if primitive in VIEWS or primitive == "gather" or one_of_them:
        return known[inputs[0]]
    if primitive == "map" and attributes["function"] in _MAPPED:
        return _of(_MAPPED[attributes["function"]], inputs, known)
    return _of(_widest, inputs, known) if primitive == "concatenate" else None


def _of(function: Callable[..., Bounds], inputs: Any, known: dict[Value, Bounds | None]) -> Bounds | None:
    found = [known[each] for each in inputs if each.dtype.kind != "b"]  # (`where` chooses by those)
    return function(*found) if found and None not in found else None


def _widest(*known: Bounds) -> Bounds:
    return min(low for low, _ in known), max(high for _, high in known)


def _product(a: Bounds, b: Bounds) -> Bounds:
    ends = [x * y for x, y in itertools.product(a, b)]
    return min(ends), max(ends)


_MAPPED: dict[str, Callable[..., Bounds]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "multiply": _product,
    "negative": lambda a: (-a[1], -a[0]),
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "where": _widest,
    "cast": lambda a: a,
}
