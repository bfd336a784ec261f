"""Masks where lengths vary. Enters: a value of rows and columns, made of places alone. Leaves: where it is a number.

There is no array to look at; but masks that are the same along diagonals (a query looks at the keys up to its own, or
at some around it) are known by how far a column is behind its row.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.compiler.ir.index import Affine, Dim, Index, through, weighted
from minitorch.compiler.ir.program import COMPARISONS, Value, evaluate
from minitorch.compiler.ir.sizes import Undecided, surely_at_most, surely_less

INT64 = np.dtype(np.int64)
MOST_PIECES = 16  # that a value has, and values that are looked at
MOST_VALUES = 64


class Diagonals:
    """Some diagonals of a matrix: spans of how far a column is behind its row, from the first to the last, in order.

    An end is a whole number, which may vary, or infinite.
    """

    def __init__(self, spans: Sequence[tuple[Any, Any]]) -> None:
        self.spans = tuple(spans)

    def __and__(self, other: Diagonals) -> Diagonals:
        found = []
        for one, two in itertools.product(self.spans, other.spans):
            first = two[0] if _at_most(one[0], two[0]) else one[0]
            last = one[1] if _at_most(one[1], two[1]) else two[1]
            if _at_most(first, last):
                found.append((first, last))
        return Diagonals(found)

    def __or__(self, other: Diagonals) -> Diagonals:
        return ~(~self & ~other)

    def __invert__(self) -> Diagonals:
        found = []
        begin: Any = -math.inf
        for first, last in self.spans:
            if not _is_infinite(first):
                found.append((begin, first - 1))
            begin = last + 1
        if not (_is_infinite(begin) and begin > 0):
            found.append((begin, math.inf))
        return Diagonals(found)

    def any(self) -> bool:
        """Whether there are some."""
        return bool(self.spans)


NOWHERE = Diagonals([])
EVERYWHERE = Diagonals([(-math.inf, math.inf)])


def _is_infinite(end: Any) -> bool:
    return isinstance(end, float)


def _at_most(a: Any, b: Any) -> bool:
    """Whether one end comes no later than another, which has to be the same for all sizes."""
    if _is_infinite(a) or _is_infinite(b):
        return (_is_infinite(a) and a < 0) or (_is_infinite(b) and b > 0)
    if surely_at_most(a, b):
        return True
    if surely_less(b, a):
        return False
    raise Undecided(f"whether {a} is at most {b} depends on the size")


def diagonals_of(value: Value, number: Any) -> Diagonals | None:
    """Return the diagonals of a value's last two axes on which, and only there, it is a number; None: unknown."""
    dims = [Dim(n) for n in value.shape]
    try:
        found = _Reader(dims[-2], dims[-1]).at(value, tuple((0, ((d, 1),)) for d in dims))
        places = [diagonals for diagonals, part in found if not _is_sum(part) and part == number]
        return functools.reduce(operator.or_, places, NOWHERE)
    except Undecided:
        return None


# What a value is on some diagonals: int64 as a sum of counters, and all else as a number.
Piece = tuple[Diagonals, Any]


def _is_sum(part: Any) -> bool:
    return isinstance(part, tuple)


class _Reader:
    """Finds out what values are that depend on a row's place and a column's."""

    def __init__(self, row: Dim, column: Dim) -> None:
        self.row, self.column = row, column
        self.known: dict[tuple[Value, Index], list[Piece]] = {}

    def at(self, value: Value, index: Index) -> list[Piece]:
        """Return what a value is at an index."""
        key = value, index
        if key not in self.known:
            if len(self.known) == MOST_VALUES:
                raise Undecided("there are too many values")
            self.known[key] = self.found(value, index)
        return self.known[key]

    def found(self, value: Value, index: Index) -> list[Piece]:
        """Find out what a value is at an index."""
        primitive = value.primitive
        if primitive == "iota":
            return [(EVERYWHERE, index[0])]
        if primitive == "size":
            return [(EVERYWHERE, (value.attributes["size"], ()))]
        if primitive == "constant" and value.size == 1:
            number = value.attributes["array"].reshape(-1)[0]
            return [(EVERYWHERE, (int(number), ()) if value.dtype == INT64 else number)]
        if primitive in ("reshape", "permute", "expand", "slice"):
            return self.at(value.inputs[0], through(value, index)[0])
        if primitive != "map":
            raise Undecided(f"{primitive} depends on more than places")
        made: list[Piece] = []
        for pieces in itertools.product(*(self.at(each, index) for each in value.inputs)):
            there = functools.reduce(operator.and_, (diagonals for diagonals, _ in pieces))
            if there.any():
                made += self.mapped(value, there, [part for _, part in pieces])
        if len(made) > MOST_PIECES:
            raise Undecided("there are too many pieces")
        return made

    def mapped(self, value: Value, there: Diagonals, parts: list[Any]) -> list[Piece]:
        """Return what an elementwise function gives, on diagonals on which each of its operands is one thing."""
        function = value.attributes["function"]
        if function == "where" and not _is_sum(parts[0]):
            return [(there, parts[1] if parts[0] else parts[2])]
        if not any(map(_is_sum, parts)):
            with np.errstate(all="ignore"):
                return [(there, evaluate(value, [np.asarray(part) for part in parts])[()])]
        if not all(map(_is_sum, parts)):
            raise Undecided(f"{function} of whole numbers and others")
        if function in COMPARISONS:
            holds = self.compared(function, weighted([(parts[0], 1), (parts[1], -1)]))
            return [
                (found, each)
                for found, each in ((there & holds, True), (there & ~holds, False))
                if found.any()
            ]
        if value.dtype != INT64:
            raise Undecided(f"{function} gives {value.dtype}")
        if function == "absolute":
            (part,) = parts
            positive = self.compared("greater_equal", part)
            signs = ((there & positive, 1), (there & ~positive, -1))
            return [(found, weighted([(part, sign)])) for found, sign in signs if found.any()]
        return [(there, _computed(function, parts))]

    def compared(self, function: str, difference: Affine) -> Diagonals:
        """Return where a sum is less than 0, or the like."""
        if function in ("less", "not_equal", "less_equal"):
            opposite = {"less": "greater_equal", "not_equal": "equal", "less_equal": "greater"}
            return ~self.compared(opposite[function], difference)
        if function == "equal":
            return self.compared("greater_equal", difference) & ~self.compared("greater", difference)
        least = 1 if function == "greater" else 0
        const, terms = difference[0] - least, dict(difference[1])
        if not terms:
            return EVERYWHERE if _at_most(0, const) else NOWHERE
        if terms == {self.column: 1, self.row: -1}:
            return Diagonals([(-const, math.inf)])
        if terms == {self.column: -1, self.row: 1}:
            return Diagonals([(-math.inf, const)])
        raise Undecided("what is compared differs along diagonals")


def _computed(function: str, parts: list[Affine]) -> Affine:
    """Return a function of sums as a sum."""
    if function == "cast":
        return parts[0]
    if function == "negative":
        return weighted([(parts[0], -1)])
    if function in ("add", "subtract"):
        return weighted([(parts[0], 1), (parts[1], 1 if function == "add" else -1)])
    if function == "multiply":
        for one, other in (parts, parts[::-1]):
            if not other[1]:
                return weighted([(one, other[0])])
    raise Undecided(f"{function} is no sum")
