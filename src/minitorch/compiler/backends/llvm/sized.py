"""A program for the sizes of a call. Enters: places and steps in which sizes vary. Leaves: an `Image` for each.

A size that is met for the first time must cost little: all numbers that depend on sizes are found by one function of
them, and what the native function walks is copied and filled in by a few operations on whole arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from minitorch.compiler.backends.llvm.driver import Constant, External, Image, Step, fixed, listed
from minitorch.compiler.backends.llvm.products.contraction import SizedTable
from minitorch.compiler.ir.sizes import Size, Symbol, formulas, typical
from minitorch.compiler.schedule.memory import MemoryPlan, Placed


@dataclass(frozen=True)
class Within:
    """A place in the program's own memory: so many bytes into something."""

    thing: Placed
    offset: int


@dataclass(frozen=True)
class Numbers:
    """The place at which a kernel reads what sizes are."""

    sizes: tuple[Size, ...]


@dataclass(frozen=True)
class Computed:
    """The place of an array that depends on sizes."""

    table: SizedTable


Place = Within | External | Constant | Numbers | Computed


class Weight:
    """How long a step takes on one thread at typical sizes, and what that is proportional to."""

    def __init__(self, seconds: float, work: int, grains: int) -> None:
        self.per_work = seconds / max(1, typical(work))
        self.work = work
        self.grains = grains  # in how many pieces its units are handed out; 0: one at a time


class Sizing:
    """Makes images of a program, each for some sizes. slots: of all steps, one after the other."""

    def __init__(
        self,
        places: Sequence[Place],
        steps: Sequence[Step],
        weights: Sequence[Weight],
        plan: MemoryPlan,
        symbols: Sequence[Symbol],
        threads: int,
        parallel_seconds: float,
    ) -> None:
        self._symbols, self._plan = list(symbols), plan
        self._threads, self._parallel_seconds = threads, parallel_seconds
        self._wanted: dict[int, int] = {}  # numbers that depend on sizes, with their places among all of them
        things = list(plan.offsets)
        self._bytes = [self._number(thing.nbytes) for thing, _ in plan.below]
        number_of = {thing: i for i, thing in enumerate(things)}
        self._stacked = np.array([number_of[thing] for thing, _ in plan.below], np.int64)
        self._fixed_offsets = np.array([plan.offsets[thing] for thing in things] or [0], np.int64)
        # The table: constants are known, all else is added to it.
        table = np.zeros(max(1, len(places)), np.int64)
        arena: list[tuple[int, int]] = []  # entry, thing
        numbers: list[tuple[int, int]] = []  # entry, place among the sizes that kernels read
        extra: list[tuple[int, int]] = []  # entry, how many bytes further on
        fills: list[tuple[int, int]] = []  # entry, argument
        fill_offsets: list[int] = []
        self._tables: list[tuple[int, SizedTable]] = []
        sizes: list[int] = []
        self._kept: list[np.ndarray] = []
        for entry, place in enumerate(places):
            if isinstance(place, Within):
                arena.append((entry, number_of[place.thing]))
                extra.append((entry, self._number(place.offset)))
            elif isinstance(place, Constant):
                self._kept.append(fixed(place.array))
                table[entry] = self._kept[-1].ctypes.data
                extra.append((entry, self._number(place.offset)))
            elif isinstance(place, Numbers):
                numbers.append((entry, len(sizes)))
                sizes += [self._number(size) for size in place.sizes]
            elif isinstance(place, Computed):
                self._tables.append((entry, place.table))
            else:
                fills.append((entry, place.number))
                fill_offsets.append(self._number(place.offset))
        self._table = table
        self._arena, self._numbers, self._extra = _pairs(arena), _pairs(numbers), _pairs(extra)
        self._sizes = np.array(sizes, np.int64)
        self._fills = np.zeros((len(fills), 3), np.int64)
        self._fills[:, :2] = _pairs(fills).T
        self._fill_offsets = np.array(fill_offsets, np.int64)
        # Steps.
        self._steps, slots = listed([replace(step, units=1) for step in steps], threads)
        self._kept.append(slots)
        self._units = np.array([self._number(step.units) for step in steps], np.int64)
        self._work = np.array([self._number(weight.work) for weight in weights], np.int64)
        self._per_work = np.array([weight.per_work for weight in weights])
        self._grains = np.array([max(1, weight.grains) for weight in weights], np.int64)
        self._one_at_a_time = np.array([not weight.grains for weight in weights], bool)
        self._formulas = formulas(list(self._wanted), self._symbols)

    def _number(self, n: int) -> int:
        return self._wanted.setdefault(n, len(self._wanted))

    def arena_bytes(self, numbers: np.ndarray) -> tuple[np.ndarray, int]:
        """Return where everything lies in memory, and how much that is."""
        if not self._plan.below:
            return self._fixed_offsets, self._plan.size
        placed, size = self._plan.placed(numbers[self._bytes].tolist())
        offsets = np.empty(len(placed), np.int64)
        offsets[self._stacked] = placed
        return offsets, size

    def numbers(self, sizes: Sequence[int]) -> np.ndarray:
        """Return all numbers that depend on sizes."""
        return np.array(self._formulas(*sizes), np.int64)

    def image(
        self, sizes: Sequence[int], numbers: np.ndarray, offsets: np.ndarray, arena: np.ndarray
    ) -> Image:
        """Return the program for some sizes, in some memory."""
        table = self._table.copy()
        table[self._arena[0]] += arena.ctypes.data + offsets[self._arena[1]]
        read = numbers[self._sizes]
        table[self._numbers[0]] = read.ctypes.data + 8 * self._numbers[1]
        table[self._extra[0]] += numbers[self._extra[1]]
        own = [read]
        if self._tables:
            binding = dict(zip(self._symbols, sizes, strict=True))
            for entry, made in self._tables:
                own.append(made.at(binding))
                table[entry] = own[-1].ctypes.data
        fills = self._fills.copy()
        fills[:, 2] = numbers[self._fill_offsets]
        steps = self._steps.copy()
        units = numbers[self._units]
        count = len(units)
        steps[:count, 2] = units
        steps[:count, 3] = np.where(self._one_at_a_time, 1, np.maximum(1, -(-units // self._grains)))
        seconds = self._per_work * numbers[self._work]
        steps[:count, 4] = (units > 1) & (seconds > self._parallel_seconds) & (self._threads > 1)
        return Image(table, fills, steps, own, [arena, self._kept])


def _pairs(pairs: list[tuple[int, int]]) -> np.ndarray:
    """Two rows of numbers out of pairs."""
    return np.array(pairs, np.int64).reshape(-1, 2).T
