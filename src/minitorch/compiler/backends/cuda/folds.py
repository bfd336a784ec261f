"""Folds of threads as LLVM text. Enters: what two places know. Leaves: what they know together.

What a fold knows is a list of names: one, or two where a place is wanted: the best element and its place (-1: none);
or, of a sum of exponentials, the largest exponent and the sum.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.loops.folds import beginning, identity
from minitorch.compiler.backends.llvm.loops.loop import Loop, LoopFold
from minitorch.compiler.backends.llvm.text import TYPES, Emitter, literal
from minitorch.compiler.ir.program import Value

SLOT_BYTES = 8  # of one name, in shared memory
FLOAT32 = np.dtype(np.float32)


@dataclass(eq=False)
class ExponentialSum(LoopFold):
    """The sum of exp(x - largest x), for which a row is read once: with a larger x the sum so far is scaled down.

    source: x. largest: the value that is the largest x.
    """

    largest: Value | None = None


def in_one_pass(loop: Loop) -> Loop:
    """Return a loop in which sums of exponentials are folded together with what is taken off the exponents."""
    largest = {f.value: f for f in loop.folds if f.scope == "row" and f.function == "maximum"}
    taken: dict[LoopFold, ExponentialSum] = {}
    for fold in loop.folds:
        exponent = fold.source.args[0] if fold.source.kind == "map" and fold.source.data == "exp" else None
        if (
            exponent is None
            or fold.scope != "row"
            or fold.function != "add"
            or fold.dtype != FLOAT32
            or (exponent.kind, exponent.data) != ("map", "subtract")
            or exponent.args[1].kind != "result"
        ):
            continue
        first = largest.get(exponent.args[1].data)
        if first is not None and first.source is exponent.args[0] and first not in taken:
            taken[first] = ExponentialSum(fold.value, "add", first.source, "row", largest=first.value)
            taken[fold] = taken[first]
    if not taken:
        return loop
    return dataclasses.replace(loop, folds=list(dict.fromkeys(taken.get(f, f) for f in loop.folds)))


def kinds(fold: LoopFold) -> list[str]:
    """Return the types of what a fold knows."""
    if isinstance(fold, ExponentialSum):
        return [TYPES[fold.dtype]] * 2
    return [TYPES[fold.dtype], "i64"] if fold.is_arg else [TYPES[fold.dtype]]


def nothing(fold: LoopFold) -> list[str]:
    """Return what changes nothing."""
    if isinstance(fold, ExponentialSum):
        return [literal(-np.inf, fold.dtype), literal(0.0, fold.dtype)]
    if fold.is_arg:
        return [literal(0, fold.dtype), "-1"]
    return [identity(fold.function, fold.dtype)]


def ended(e: Emitter, fold: LoopFold, names: list[str]) -> str:
    """Return a fold's result: NumPy's sums begin at +0, so that a sum of nothing but -0 is +0."""
    if fold.is_arg:
        return names[1]
    if fold.function != "add" or fold.dtype.kind != "f":
        return names[0]
    zero = beginning("add", fold.dtype)
    return functions.emit_function(e, "add", [names[0], zero], fold.dtype, 1)


def together(e: Emitter, fold: LoopFold, a: list[str], b: list[str]) -> list[str]:
    """Fold what two places know."""
    if isinstance(fold, ExponentialSum):
        return exponentials(e, [a, b])
    if not fold.is_arg:
        return [functions.emit_function(e, fold.function, [a[0], b[0]], fold.dtype, 1)]
    kind, dtype = TYPES[fold.dtype], fold.dtype
    greater = fold.function == "argmax"
    if dtype.kind == "f":  # nan beats all numbers
        beats = e.op(f"fcmp {'ugt' if greater else 'ult'} {kind} {b[0]}, {a[0]}")
        number = e.op(f"fcmp ord {kind} {a[0]}, {a[0]}")
        beats = e.op(f"and i1 {beats}, {number}")
        nans = [e.op(f"fcmp uno {kind} {x[0]}, {x[0]}") for x in (a, b)]
        same = e.op(f"fcmp oeq {kind} {a[0]}, {b[0]}")
        same = e.op(f"or i1 {same}, {e.op(f'and i1 {nans[0]}, {nans[1]}')}")
    else:
        sign = "u" if dtype.kind in "bu" else "s"
        beats = e.op(f"icmp {sign}{'gt' if greater else 'lt'} {kind} {b[0]}, {a[0]}")
        same = e.op(f"icmp eq {kind} {a[0]}, {b[0]}")
    earlier = e.op(f"icmp slt i64 {b[1]}, {a[1]}")  # the first of equals stays
    beats = e.op(f"or i1 {beats}, {e.op(f'and i1 {same}, {earlier}')}")
    empty = e.op(f"icmp slt i64 {a[1]}, 0")
    there = e.op(f"icmp sge i64 {b[1]}, 0")
    takes = e.op(f"and i1 {there}, {e.op(f'or i1 {empty}, {beats}')}")
    return [
        e.op(f"select i1 {takes}, {k} {new}, {k} {old}")
        for k, new, old in zip(kinds(fold), b, a, strict=True)
    ]


def exponentials(e: Emitter, found: Sequence[list[str]]) -> list[str]:
    """Fold what several places know of a sum of exponentials; of a single element that is itself and nothing else."""

    def apply(function: str, *names: str) -> str:
        return functions.emit_function(e, function, list(names), FLOAT32, 1)

    largest = found[0][0]
    for each, *_ in found[1:]:
        largest = apply("maximum", largest, each)
    # (Where all are -inf there is nothing yet, and not nan.)
    none = e.op(f"fcmp oeq float {largest}, {literal(-np.inf, FLOAT32)}")
    base = e.op(f"select i1 {none}, float {literal(0.0, FLOAT32)}, float {largest}")
    total = literal(0.0, FLOAT32)
    for each, *so_far in found:
        part = apply("exp", apply("subtract", each, base))
        total = apply("add", total, apply("multiply", part, so_far[0]) if so_far else part)
    return [largest, total]


def ended_exponentials(e: Emitter, names: list[str]) -> str:
    """Return such a sum: nan where the largest is infinite, as inf - inf is."""
    none = functions.emit_function(e, "subtract", [names[0], names[0]], FLOAT32, 1)
    return functions.emit_function(e, "add", [names[1], none], FLOAT32, 1)


class Slots:
    """A place in shared memory for what every thread of a block knows of one fold."""

    def __init__(self, e: Emitter, fold: LoopFold, start: int) -> None:
        self.e, self.fold, self.start = e, fold, start
        self.size = SLOT_BYTES * len(kinds(fold))

    def _places(self, thread: str) -> list[str]:
        first = self.e.op(f"mul i64 {thread}, {self.size}")
        return [
            self.e.op(
                f"getelementptr i8, ptr %shared, i64 {self.e.op(f'add i64 {first}, {self.start + SLOT_BYTES * i}')}",
                "p",
            )
            for i in range(len(kinds(self.fold)))
        ]

    def put(self, thread: str, names: list[str]) -> None:
        """Write what a thread knows."""
        for kind, name, place in zip(kinds(self.fold), names, self._places(thread), strict=True):
            if kind == "i1":
                kind, name = "i8", self.e.op(f"zext i1 {name} to i8")
            self.e.line(f"store {kind} {name}, ptr {place}, align 8")

    def get(self, thread: str) -> list[str]:
        """Read what a thread knows."""
        names = []
        for kind, place in zip(kinds(self.fold), self._places(thread), strict=True):
            if kind == "i1":
                byte = self.e.op(f"load i8, ptr {place}, align 8")
                names.append(self.e.op(f"trunc i8 {byte} to i1"))
            else:
                names.append(self.e.op(f"load {kind}, ptr {place}, align 8"))
        return names

    def fold_of(self, first: str, count: int, step: int = 1) -> list[str]:
        """Fold what `count` threads know, `step` apart."""
        if isinstance(self.fold, ExponentialSum):
            threads = [first, *(self.e.op(f"add i64 {first}, {k * step}") for k in range(1, count))]
            return exponentials(self.e, [self.get(thread) for thread in threads])
        names = self.get(first)
        for k in range(1, count):
            names = together(self.e, self.fold, names, self.get(self.e.op(f"add i64 {first}, {k * step}")))
        return names
