"""Folds as LLVM text. Enters: what was folded so far, and a new element. Leaves: what is folded now.

What a fold knows so far is a list of names: one, or two where a place is wanted: the best element and its place.
"""

from __future__ import annotations

import numpy as np

from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.loops.arrange import Arrangement
from minitorch.compiler.backends.llvm.loops.loop import Loop, LoopFold
from minitorch.compiler.backends.llvm.text import TYPES, literal, splat, suffix, vector
from minitorch.compiler.backends.llvm.writer import Writer

# For each fold, what it knows: for each of the vectors that a turn of the innermost loop handles, its names.
Folded = dict[LoopFold, list[list[str]]]


class FoldWriter:
    """Writes what folds need."""

    def __init__(self, loop: Loop, arrangement: Arrangement, writer: Writer) -> None:
        self.loop, self.w, self.e = loop, writer, writer.e
        self.lanes, self.along_outer = arrangement.lanes, arrangement.along_outer

    def kinds(self, fold: LoopFold, lanes: int) -> list[str]:
        """Return the types of what a fold knows."""
        kind = vector(TYPES[fold.dtype], lanes)
        return [kind, vector("i64", lanes)] if fold.is_arg else [kind]

    def start(self, fold: LoopFold, lanes: int) -> list[str]:
        """Return what a fold knows before its first element."""
        element = TYPES[fold.dtype]
        if fold.is_arg:  # no place yet
            return [splat(literal(0, fold.dtype), element, lanes), splat("-1", "i64", lanes)]
        first = identity if fold.scope == "scan" else beginning
        return [splat(first(fold.function, fold.dtype), element, lanes)]

    def apply(self, fold: LoopFold, a: str, b: str, lanes: int) -> str:
        """Write a fold's function."""
        return functions.emit_function(self.e, fold.function, [a, b], fold.dtype, lanes)

    def accumulate(self, fold: LoopFold, so_far: list[str], lanes: int) -> list[str]:
        """Take the source at the current place into a fold."""
        e, w = self.e, self.w
        name = w.wide(fold.source) if lanes > 1 else w.single(fold.source)
        bits = vector("i1", lanes)
        # Lanes that do not exist keep what they had; with vectors along an outer loop they are rows that nobody reads.
        mask = None if self.along_outer else w.mask
        if not fold.is_arg:
            new = self.apply(fold, so_far[0], name, lanes)
            if mask is not None:
                kind = self.kinds(fold, lanes)[0]
                new = e.op(f"select {bits} {mask}, {kind} {new}, {kind} {so_far[0]}")
            return [new]
        position = self.loop.position
        place = w.integers(position) if lanes > 1 else w.integer(w.space(position))
        takes = self._better(fold, name, so_far[0], so_far[1], lanes)
        if mask is not None:
            takes = e.op(f"and {bits} {takes}, {mask}")
        return [
            e.op(f"select {bits} {takes}, {kind} {new}, {kind} {old}")
            for kind, new, old in zip(self.kinds(fold, lanes), (name, place), so_far, strict=True)
        ]

    def _better(self, fold: LoopFold, new: str, old: str, old_place: str, lanes: int) -> str:
        """Whether a later element displaces the best so far: nan beats all numbers, the first of equals stays."""
        e, dtype = self.e, fold.source.dtype
        kind, bits = vector(TYPES[dtype], lanes), vector("i1", lanes)
        nothing = e.op(f"icmp slt {vector('i64', lanes)} {old_place}, {splat('0', 'i64', lanes)}")
        greater = fold.function == "argmax"
        if dtype.kind == "f":
            beats = e.op(f"fcmp {'ugt' if greater else 'ult'} {kind} {new}, {old}")
            number = e.op(f"fcmp ord {kind} {old}, {old}")
            beats = e.op(f"and {bits} {beats}, {number}")
        else:
            sign = "u" if dtype.kind in "bu" else "s"
            beats = e.op(f"icmp {sign}{'gt' if greater else 'lt'} {kind} {new}, {old}")
        return e.op(f"or {bits} {nothing}, {beats}")

    def existing(self, fold: LoopFold, name: str) -> str:
        """Keep lanes that are no rows out of a fold over rows."""
        lanes, mask = self.lanes, self.w.mask
        if not self.along_outer or mask is None or lanes == 1:
            return name
        kind = self.kinds(fold, lanes)[0]
        nothing = self.start(fold, lanes)[0]
        return self.e.op(f"select {vector('i1', lanes)} {mask}, {kind} {name}, {kind} {nothing}")

    # The end of a fold.

    def across(self, fold: LoopFold, parts: list[list[str]]) -> str:
        """Fold the vectors of a turn, and their lanes, into one element; in every lane, if lanes are rows."""
        lanes = self.lanes if not self.along_outer else 1
        whole = self.together(fold, parts)
        if fold.is_arg:
            return self._place_across(fold, whole, lanes)
        return whole[0] if lanes == 1 else self.horizontal(fold, whole[0], lanes)

    def together(self, fold: LoopFold, parts: list[list[str]]) -> list[str]:
        """Fold the vectors of a turn into one, pair by pair."""
        if fold.is_arg:
            return parts[0]
        names = [part[0] for part in parts]
        while len(names) > 1:
            names = [
                self.apply(fold, names[i], names[i + 1], self.lanes) if i + 1 < len(names) else names[i]
                for i in range(0, len(names), 2)
            ]
        return names

    def horizontal(self, fold: LoopFold, name: str, lanes: int) -> str:
        """Fold the lanes of a vector into one element."""
        e, dtype = self.e, fold.dtype
        element = TYPES[dtype]
        kind = vector(element, lanes)
        word = _REDUCTIONS[dtype.kind][fold.function]
        intrinsic = f"llvm.vector.reduce.{word}.{suffix(element, lanes)}"
        if word in ("fadd", "fmul"):  # in any order
            start = identity(fold.function, dtype)
            e.externs[intrinsic] = f"declare {element} @{intrinsic}({element}, {kind})"
            return e.op(f"call reassoc {element} @{intrinsic}({element} {start}, {kind} {name})")
        return e.call(intrinsic, element, [(kind, name)])

    def _place_across(self, fold: LoopFold, whole: list[str], lanes: int) -> str:
        """Choose among lanes: the best element, and of equals the one that comes first."""
        if lanes == 1:
            return whole[1]
        e = self.e
        element = TYPES[fold.source.dtype]
        kinds = self.kinds(fold, lanes)
        best, best_place = (
            e.op(f"extractelement {kind} {name}, i64 0") for kind, name in zip(kinds, whole, strict=True)
        )
        for lane in range(1, lanes):
            new, place = (
                e.op(f"extractelement {kind} {name}, i64 {lane}")
                for kind, name in zip(kinds, whole, strict=True)
            )
            beats = self._better(fold, new, best, best_place, 1)
            same = self._same(fold, new, best)
            earlier = e.op(f"icmp ult i64 {place}, {best_place}")
            beats = e.op(f"or i1 {beats}, {e.op(f'and i1 {same}, {earlier}')}")
            there = e.op(f"icmp sge i64 {place}, 0")
            beats = e.op(f"and i1 {beats}, {there}")
            best = e.op(f"select i1 {beats}, {element} {new}, {element} {best}")
            best_place = e.op(f"select i1 {beats}, i64 {place}, i64 {best_place}")
        return best_place

    def _same(self, fold: LoopFold, new: str, best: str) -> str:
        """Whether two elements are equal, or both nan."""
        e, element = self.e, TYPES[fold.source.dtype]
        if fold.source.dtype.kind != "f":
            return e.op(f"icmp eq {element} {new}, {best}")
        same = e.op(f"fcmp oeq {element} {new}, {best}")
        nan = e.op(f"fcmp uno {element} {new}, {new}")
        nan_too = e.op(f"fcmp uno {element} {best}, {best}")
        return e.op(f"or i1 {same}, {e.op(f'and i1 {nan}, {nan_too}')}")


# LLVM's words for folding the lanes of a vector, by the kind of dtype.
_REDUCTIONS = {
    "b": {
        "add": "or",
        "maximum": "or",
        "logical_or": "or",
        "multiply": "and",
        "minimum": "and",
        "logical_and": "and",
    },
    "f": {"add": "fadd", "multiply": "fmul", "maximum": "fmaximum", "minimum": "fminimum"},
    "u": {"add": "add", "multiply": "mul", "maximum": "umax", "minimum": "umin"},
    "i": {"add": "add", "multiply": "mul", "maximum": "smax", "minimum": "smin"},
}


def beginning(function: str, dtype: np.dtype) -> str:
    """Return what a fold begins with: NumPy's sums begin at +0, so that a sum of nothing but -0 is +0."""
    return literal(0, dtype) if function == "add" else identity(function, dtype)


def identity(function: str, dtype: np.dtype) -> str:
    """Return what changes nothing, as a literal: -0.0 for a sum, since 0.0 + -0.0 would lose a sign."""
    if function == "add":
        return literal(-0.0 if dtype.kind == "f" else 0, dtype)
    if function == "multiply":
        return literal(1, dtype)
    if function in ("logical_and", "logical_or"):
        return "true" if function == "logical_and" else "false"
    greatest = function in ("maximum", "logaddexp")
    if dtype.kind == "f":
        return literal(-np.inf if greatest else np.inf, dtype)
    if dtype.kind == "b":
        return "false" if greatest else "true"
    info = np.iinfo(dtype)
    return str(info.min if greatest else info.max)
