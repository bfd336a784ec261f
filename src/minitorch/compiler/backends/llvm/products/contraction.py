"""A contraction as strides. Enters: nested loops of a product. Leaves: the `Problem` that plans are made for.

C[b, m, n] = Σₖ A[b, m, k] · B[b, k, n], where each of b, m, n and k is a list of nested loops. A matrix product in
any layout, a batch of them, an einsum and a convolution differ in strides only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.ir.sizes import Binding, evaluated, is_fixed, typical


class StridedLoop(NamedTuple):
    """One of several nested loops: how often, and how many elements a step moves in A and in B."""

    extent: int
    a: int
    b: int


@dataclass(frozen=True)
class Contraction:
    """C[batch, m, n] = Σₖ A[batch, m, k] · B[batch, k, n]; outer loops first. `m` has b = 0, and `n` has a = 0."""

    dtype: np.dtype
    batch: tuple[StridedLoop, ...]
    m: tuple[StridedLoop, ...]
    n: tuple[StridedLoop, ...]
    k: tuple[StridedLoop, ...]

    def exchanged(self) -> Contraction:
        """Return the same with A and B, and with them m and n, in each other's places."""
        batch, m, n, k = (
            tuple(StridedLoop(loop.extent, loop.b, loop.a) for loop in loops)
            for loops in (self.batch, self.m, self.n, self.k)
        )
        return Contraction(self.dtype, batch, n, m, k)


class StridedRun(NamedTuple):
    """So many steps of one length."""

    extent: int
    stride: int


@dataclass(frozen=True)
class StridedWalk:
    """How an address moves along a flattened index: as few runs as possible."""

    runs: tuple[StridedRun, ...]

    @staticmethod
    def along(pairs: Iterable[tuple[int, int]]) -> StridedWalk:
        """Drop (extent, stride) pairs of one step, and join neighbours that are one longer run in memory.

        >>> StridedWalk.along([(2, 12), (1, 7), (3, 4)]).runs
        (StridedRun(extent=6, stride=4),)
        """
        joined: list[StridedRun] = []
        for extent, stride in pairs:
            if extent == 1:
                continue
            if joined and joined[-1].stride == extent * stride:
                joined[-1] = StridedRun(joined[-1].extent * extent, stride)
            else:
                joined.append(StridedRun(extent, stride))
        return StridedWalk(tuple(joined))

    @property
    def stride(self) -> int | None:
        """The step between neighbours, if it is always the same; where there are none, any number will do."""
        if not self.runs:
            return 1
        return self.runs[0].stride if len(self.runs) == 1 else None

    @property
    def neighbours(self) -> int:
        """How many elements lie side by side in memory."""
        return self.runs[-1].extent if self.runs and self.runs[-1].stride == 1 else 1

    @property
    def longest_step(self) -> int:
        """The longest way from one element to the next, in elements."""
        return max((abs(typical(run.stride)) for run in self.runs), default=0)

    @property
    def varies(self) -> bool:
        """Whether it depends on the sizes of a call."""
        return not is_fixed(*(number for run in self.runs for number in run))

    def at(self, binding: Binding) -> StridedWalk:
        """Return the walk for the sizes of a call."""
        runs = evaluated([tuple(run) for run in self.runs], binding)
        return StridedWalk(tuple(StridedRun(*run) for run in runs))

    def offsets(self) -> np.ndarray:
        """Return the offset of every index."""
        total = np.zeros(1, np.int64)
        for extent, stride in self.runs:
            total = (total[:, None] + np.arange(extent, dtype=np.int64) * stride).reshape(-1)
        return total


class SizedTable(Protocol):
    """An array that is known as soon as sizes are."""

    def at(self, binding: Binding) -> np.ndarray:
        """Return it."""


@dataclass(frozen=True)
class OffsetTable:
    """The offsets of a walk, known as soon as the sizes of a call are."""

    walk: StridedWalk

    def at(self, binding: Binding) -> np.ndarray:
        """Return the offset of every index."""
        return self.walk.at(binding).offsets()


@dataclass(frozen=True)
class Problem:
    """A contraction with its loops flattened, and what its plans must know of the machine.

    lanes: elements in a vector register, of which there are `registers`.
    """

    dtype: np.dtype
    lanes: int
    registers: int
    batches: int
    rows: int
    columns: int
    depth: int
    a_batch: StridedWalk
    b_batch: StridedWalk
    a_row: StridedWalk
    a_depth: StridedWalk
    b_depth: StridedWalk
    b_column: StridedWalk

    @staticmethod
    def of(contraction: Contraction, target: Target) -> Problem:
        """Flatten the loops of a contraction."""
        c = contraction
        depth = _depth_order(c.k)
        return Problem(
            dtype=np.dtype(c.dtype),
            lanes=target.lanes(c.dtype),
            registers=target.registers,
            batches=_extent(c.batch),
            rows=_extent(c.m),
            columns=_extent(c.n),
            depth=_extent(c.k),
            a_batch=_along_a(c.batch),
            b_batch=_along_b(c.batch),
            a_row=_along_a(c.m),
            a_depth=_along_a(depth),
            b_depth=_along_b(depth),
            b_column=_along_b(c.n),
        )

    @property
    def varies(self) -> bool:
        """Whether it depends on the sizes of a call."""
        walks = (self.a_batch, self.b_batch, self.a_row, self.a_depth, self.b_depth, self.b_column)
        extents = (self.batches, self.rows, self.columns, self.depth)
        return not is_fixed(*extents) or any(walk.varies for walk in walks)

    def usually(self) -> Problem:
        """Return the same with typical numbers of batches, rows, columns and products, to plan by."""
        return replace(
            self,
            batches=typical(self.batches),
            rows=typical(self.rows),
            columns=typical(self.columns),
            depth=typical(self.depth),
        )

    @property
    def itemsize(self) -> int:
        """Bytes in an element."""
        return self.dtype.itemsize

    @property
    def is_empty(self) -> bool:
        """Whether the result has no elements."""
        return not self.batches * self.rows * self.columns

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batches * self.rows * self.columns * self.depth

    @property
    def shares_b(self) -> bool:
        """Whether all batches multiply with the same B."""
        return not any(run.stride for run in self.b_batch.runs)


def _extent(loops: Iterable[StridedLoop]) -> int:
    return math.prod(loop.extent for loop in loops)


def _along_a(loops: Iterable[StridedLoop]) -> StridedWalk:
    return StridedWalk.along((loop.extent, loop.a) for loop in loops)


def _along_b(loops: Iterable[StridedLoop]) -> StridedWalk:
    return StridedWalk.along((loop.extent, loop.b) for loop in loops)


def _depth_order(loops: Sequence[StridedLoop]) -> Sequence[StridedLoop]:
    """Sums may run in any order: take the one in which most loops join."""

    def pieces(order: Sequence[StridedLoop]) -> int:
        return len(_along_a(order).runs) + len(_along_b(order).runs)

    by_a = sorted(loops, key=lambda loop: -abs(typical(loop.a)))
    by_b = sorted(loops, key=lambda loop: -abs(typical(loop.b)))
    return min((loops, by_b, by_a), key=pieces)
