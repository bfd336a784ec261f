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
    below: in the order of their offsets, everything with what lies below it while it lives.
    """

    size: int = 0
    unshared: int = 0
    offsets: dict[Placed, int] = field(default_factory=dict)
    below: list[tuple[Placed, list[Placed]]] = field(default_factory=list)
    alignment: int = 1

    def at(self, binding: Binding) -> MemoryPlan:
        """Return the plan for some sizes: everything as low as it fits above what it lies above of."""
        if not self.below:  # nothing varies
            return self
        ends: dict[Placed, int] = {}
        plan = MemoryPlan(alignment=self.alignment)
        for thing, below in self.below:
            offset = max([ends[other] for other in below], default=0)
            size = _rounded(evaluated(thing.nbytes, binding), self.alignment)
            plan.offsets[thing] = offset
            ends[thing] = offset + size
            plan.unshared += size
        plan.size = max(ends.values(), default=0)
        return plan


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


def _stacked(lives: list[Lifetime], offsets: dict[Placed, int]) -> list[tuple[Placed, list[Placed]]]:
    """Return everything from the bottom up, with what lies below it and lives at the same time."""
    lives = sorted(lives, key=lambda life: offsets[life.thing])
    return [
        (
            life.thing,
            [low.thing for low in lives[:place] if low.first <= life.last and life.first <= low.last],
        )
        for place, life in enumerate(lives)
    ]


def _narrowest_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Return where the narrowest gap begins that has room for so many bytes; behind everything, if there is none."""
    best, best_room, here = None, None, 0
    for begin, end in taken:
        room = begin - here
        if room >= size and (best_room is None or room < best_room):
            best, best_room = here, room
        here = max(here, end)
    return here if best is None else best
