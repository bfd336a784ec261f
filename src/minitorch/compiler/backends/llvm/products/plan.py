"""The decisions about one product. Enters: what planning chose. Leaves: a `ContractionPlan`, which says what follows.

A result is cut into panels of columns and each panel into tiles of rows; a unit of work is some tiles of one panel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from minitorch.compiler.backends.llvm.products import costs
from minitorch.compiler.backends.llvm.products.contraction import Problem, SizedTable
from minitorch.compiler.ir.sizes import is_fixed, typical

# columns: vectors lie along n. swapped: A and B have changed places, and tiles are turned round at their end.
# dot: vectors lie along k, and are summed across at the end.
Form = Literal["columns", "swapped", "dot"]
# How B comes to be contiguous along n: whole vectors are copied, put together of a few contiguous pieces, read along k
# and turned round, or put together of elements. None: it is contiguous, and stays in its place.
Packing = Literal["copy", "runs", "transpose", "scalar"] | None


class ColumnVector(NamedTuple):
    """Columns side by side in a register, of which the first `valid` exist; None: as many as there are in a call."""

    lanes: int
    valid: int | None


@dataclass(frozen=True)
class Panel:
    """A few vectors of columns, and how the rows are cut into tiles for them.

    count: how many such panels follow each other. The first `tall` of `tiles` tiles have `rows` rows, the others one
    row less; or, where the number of rows varies (`partial`), one other has what is left.
    """

    vectors: tuple[ColumnVector, ...]
    count: int
    tiles: int
    rows: int
    tall: int
    partial: bool = False

    @property
    def width(self) -> int:
        """Columns, with those that only fill the last vector."""
        return sum(vector.lanes for vector in self.vectors)

    @property
    def valid(self) -> int:
        """Columns that exist."""
        return sum(vector.valid or 0 for vector in self.vectors)

    @property
    def varies(self) -> bool:
        """Whether the number of columns that exist does."""
        return any(vector.valid is None for vector in self.vectors)


@dataclass(frozen=True)
class ContractionPlan:
    """All decisions about one contraction.

    row_blocks: units per batch and panel. depth_block: how much of k at a time. packs_a: whether the rows of a unit are
    copied, too. runs: contiguous pieces in a vector of B, at most. tables: constant arrays of offsets, to be passed as
    operands behind A and B. cycles: an estimate of the time on one thread.
    """

    problem: Problem
    form: Form
    panels: tuple[Panel, ...] = ()
    row_blocks: int = 1
    depth_block: int = 0
    packing: Packing = None
    packs_a: bool = False
    runs: int = 0
    tables: dict[str, np.ndarray | SizedTable] = field(default_factory=dict)
    cycles: float = 0.0

    # The size of things.

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return self.problem.flops

    @property
    def units(self) -> int:
        """Independent pieces of work, about equal, neighbours sharing data: give each thread a contiguous range."""
        return self.problem.batches * self.panel_count * self.row_blocks

    @property
    def panel_count(self) -> int:
        """How many panels there are."""
        return sum(panel.count for panel in self.panels)

    @property
    def width(self) -> int:
        """The columns of the widest panel."""
        return max(panel.width for panel in self.panels)

    @property
    def depth_blocks(self) -> int:
        """In how many pieces k is walked."""
        return -(-self.problem.depth // self.depth_block) if self.problem.depth else 1

    @property
    def block_rows(self) -> int:
        """How many rows one unit has at most."""
        heights = [-(-panel.tiles // self.row_blocks) * panel.rows for panel in self.panels]
        if is_fixed(*heights):
            return max(heights)
        return sum(heights)  # (as much as the largest of them, whatever the sizes)

    # The order of units.

    @property
    def rows_first(self) -> bool:
        """Whether all panels are done for some rows before the next rows, and not all rows for a panel.

        Threads then share B and not A: good where B is the smaller one, near, and need not be packed, or where many
        rows pay for doing so.
        """
        p = self.problem.usually()
        small = p.columns <= p.rows and p.columns * p.depth * p.itemsize <= costs.NEAR_BYTES
        many = self.packing == "copy" and p.rows >= costs.REPACKING_ROWS * typical(self.row_blocks)
        return self.packs_a or (small and (self.packing is None or many) and self.form == "columns")

    @property
    def packs_each_panel_once(self) -> bool:
        """Whether no two units that follow each other use the same packed panel."""
        alone = self.row_blocks == 1 and (self.problem.batches == 1 or not self.problem.shares_b)
        return self.rows_first or alone

    # Scratch memory: the packed panel, the copied rows of A, unfinished sums.

    @property
    def a_offset(self) -> int:
        """Where in scratch memory copied rows of A begin: behind the packed panel."""
        return self._bytes(self.depth_block * self.width if self.packing else 0)

    @property
    def copied_tile(self) -> int:
        """How many elements the copy of a tile's rows takes, with a gap: copies of all tiles are written side by side,
        and a cache has few places for lines that are a power of two apart.
        """
        return self.panels[0].rows * self.problem.depth + costs.LINE_BYTES // self.problem.itemsize

    @property
    def partial_offset(self) -> int:
        """Where in scratch memory unfinished sums begin: behind the rows of A."""
        tiles = max(-(-panel.tiles // self.row_blocks) for panel in self.panels) if self.packs_a else 0
        return self.a_offset + self._bytes(self.copied_tile * tiles)

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory per thread; it begins on a line of the cache."""
        if not self.panels:
            return 0
        partial = self.block_rows * self.width if self.depth_blocks != 1 else 0
        return self.partial_offset + partial * self.problem.itemsize

    def _bytes(self, elements: int) -> int:
        """The size of some elements, up to a whole line."""
        return -(-elements * self.problem.itemsize // costs.LINE_BYTES) * costs.LINE_BYTES


def power_of_two(number: int) -> int:
    """Return the least power of two that is not below a number.

    >>> power_of_two(5), power_of_two(8), power_of_two(0)
    (8, 8, 1)
    """
    return 1 << max(0, number - 1).bit_length()
