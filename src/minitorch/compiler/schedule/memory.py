"""Where values lie. Enters: what each step touches, in order. Leaves: one arena's plan.

Two values may have the same place if one is no longer needed when the other comes into being. Large ones are
placed first, each as low as it fits between those that live at the same time.
"""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from minitorch.compiler.ir.sizes import Binding, evaluated, symbols_of, typical


class Placed(Hashable, Protocol):
    """What needs a place: a value, or a step's `Scratch`."""

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""


@dataclass(frozen=True, eq=False)
class Scratch:
    """Memory that one step needs for itself."""

    nbytes: int


@dataclass
class MemoryPlan:
    """The arena: its size, what it would be if nothing shared a place, and where everything lies, in bytes.

    Where sizes vary, this is so for typical ones, and `at` tells it for others.
    below: in the order of their offsets, everything with what it has to lie above of, by their places in this list.
    """

    size: int = 0
    unshared: int = 0
    offsets: dict[Placed, int] = field(default_factory=dict)
    below: list[tuple[Placed, list[int]]] = field(default_factory=list)
    alignment: int = 1

    def at(self, binding: Binding) -> MemoryPlan:
        """Return the plan for some sizes: everything as low as it fits above what it lies above of."""
        if not self.below:  # nothing varies
            return self
        sizes = [evaluated(thing.nbytes, binding) for thing, _ in self.below]
        offsets, size = self.placed(sizes)
        things = [thing for thing, _ in self.below]
        unshared = sum(_rounded(n, self.alignment) for n in sizes)
        return MemoryPlan(size, unshared, dict(zip(things, offsets, strict=True)), [], self.alignment)

    def placed(self, sizes: list[int]) -> tuple[list[int], int]:
        """Return where everything in `below` lies if it takes so many bytes, and how many that are in all."""
        offsets: list[int] = []
        ends: list[int] = []
        most = 0
        rest = self.alignment - 1
        for (_, below), size in zip(self.below, sizes, strict=True):
            offset = 0
            for other in below:
                if ends[other] > offset:
                    offset = ends[other]
            end = offset + (size + rest) // self.alignment * self.alignment
            offsets.append(offset)
            ends.append(end)
            if end > most:
                most = end
        return offsets, most


def _rounded(count: int, alignment: int) -> int:
    return -(-count // alignment) * alignment


@dataclass
class Lifetime:
    """From which step to which something needs its place, both included."""

    thing: Placed
    size: int
    first: int
    last: int


def plan_memory(steps: Sequence[Sequence[Placed]], alignment: int) -> MemoryPlan:
    """Give everything that steps touch a place.

    >>> a, b, c = Scratch(100), Scratch(100), Scratch(60)
    >>> plan = plan_memory([[a], [a, b], [b, c], [c]], alignment=64)
    >>> [plan.offsets[x] for x in (a, b, c)], plan.size, plan.unshared
    ([0, 128, 0], 256, 320)
    """
    lives: dict[Placed, Lifetime] = {}
    for step, touched in enumerate(steps):
        for thing in touched:
            size = _rounded(typical(thing.nbytes), alignment)
            lives.setdefault(thing, Lifetime(thing, size, step, step)).last = step
    plan = MemoryPlan(unshared=sum(life.size for life in lives.values()), alignment=alignment)
    placed: list[
        tuple[int, int, int, int]
    ] = []  # begin, end, first and last step; by begin (tuples: there are many)
    for life in sorted(lives.values(), key=lambda life: (-typical(life.thing.nbytes), life.first)):
        begins, ends = life.first, life.last
        taken = [(begin, end) for begin, end, first, last in placed if first <= ends and begins <= last]
        offset = _narrowest_gap(taken, life.size)
        bisect.insort(placed, (offset, offset + life.size, begins, ends))
        plan.offsets[life.thing] = offset
        plan.size = max(plan.size, offset + life.size)
    if any(symbols_of(thing.nbytes) for thing in lives):
        plan.below = _stacked(list(lives.values()), plan.offsets)
    return plan


def _stacked(lives: list[Lifetime], offsets: dict[Placed, int]) -> list[tuple[Placed, list[int]]]:
    """Return everything from the bottom up, with what it has to lie above of: what lives at the same time, below it."""
    lives = sorted(lives, key=lambda life: offsets[life.thing])
    all_below: list[int] = []  # a bit for each
    found: list[tuple[Placed, list[int]]] = []
    for place, life in enumerate(lives):
        near: list[int] = []
        bits = 0
        for other in range(place - 1, -1, -1):
            low = lives[other]
            together = low.first <= life.last and life.first <= low.last
            if together and not bits & (1 << other):  # (else something between the two lies above it already)
                near.append(other)
                bits |= all_below[other] | 1 << other
        all_below.append(bits)
        found.append((life.thing, near))
    return found


def _narrowest_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Return where the narrowest gap begins that has room for so many bytes; behind everything, if there is none."""
    best, best_room, here = None, None, 0
    for begin, end in taken:
        room = begin - here
        if room >= size and (best_room is None or room < best_room):
            best, best_room = here, room
        here = max(here, end)
    return here if best is None else best
