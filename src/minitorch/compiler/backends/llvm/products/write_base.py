"""What all parts of a product's text share. Enters: a plan, names of operands. Leaves: loads, stores, addresses.

In these files `rows` belong to A and `columns` to B, also where the two have changed places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from minitorch.compiler.backends.llvm.control import add, at, divide, multiply
from minitorch.compiler.backends.llvm.products import costs
from minitorch.compiler.backends.llvm.products.contraction import StridedWalk
from minitorch.compiler.backends.llvm.products.plan import ContractionPlan, Panel
from minitorch.compiler.backends.llvm.text import TYPES, Emitter, first_lanes, suffix, vector


class Position(NamedTuple):
    """Where a finished value belongs: names (or literals) of i64 numbers, and which lanes count.

    Lanes are consecutive columns from `column` on, of which the first `valid` exist (None: those of `there`). One lane
    means a scalar.
    """

    batch: str
    row: str
    column: str
    lanes: int
    valid: int | None
    there: str | None = None

    @property
    def mask(self) -> str | None:
        """The lanes that exist, of type <lanes x i1>; None if all do."""
        if self.valid is None:
            return self.there
        return None if self.valid == self.lanes else first_lanes(self.valid, self.lanes)


# Called as fetch(e, position, columns) and epilogue(e, value, position).
Fetch = Callable[[Emitter, Position, int], None]
Epilogue = Callable[[Emitter, str, Position], None]


class Partial(NamedTuple):
    """Where sums wait from one block of k to the next, and the row they begin with."""

    pointer: str
    top: str


@dataclass(frozen=True)
class Work:
    """What the tiles of a unit have in common: where their panel lies, and which part of k is at hand.

    a, b: pointers to this batch. depth, count: the first k, and how many. partial: None if k is walked at once.
    there: for each vector the mask of the columns that exist, where their number varies; left: how many those are.
    """

    panel: Panel
    batch: str
    column: str
    a: str
    b: str
    depth: str
    count: str
    partial: Partial | None = None
    there: tuple[str, ...] = ()
    left: str = ""


class Tile(NamedTuple):
    """Some rows of a panel. copy: where a copy of these rows of A lies, k after k; None if they were not copied.

    existing: the number of rows that exist, where not all may: the others are computed, and go nowhere.
    """

    work: Work
    row: str
    rows: int
    copy: str | None = None
    existing: str | None = None

    def places(self) -> list[tuple[int, int]]:
        """Return (row, vector) of each of its sums, in the order in which they are kept."""
        return [(r, v) for r in range(self.rows) for v in range(len(self.work.panel.vectors))]


class Context:
    """One contraction while it is written: the emitter, the plan, names of its operands."""

    def __init__(
        self,
        e: Emitter,
        plan: ContractionPlan,
        a: str,
        b: str,
        tables: list[str],
        scratch: str | None,
        fetch: Fetch | None,
        epilogue: Epilogue,
    ) -> None:
        if plan.scratch and scratch is None:
            raise ValueError(f"this contraction needs {plan.scratch} bytes of scratch memory")
        self.e, self.plan, self.problem = e, plan, plan.problem
        self.a, self.b = (b, a) if plan.form == "swapped" else (a, b)
        self.tables = dict(zip(plan.tables, tables, strict=True))
        self.scratch = scratch or "null"
        self.fetch, self.epilogue = fetch, epilogue
        self.element = TYPES[plan.problem.dtype]
        self.size = plan.problem.itemsize
        self.lanes = plan.problem.lanes
        self.blocked = plan.depth_blocks != 1
        self.stack = "%" + e.fresh("tile")
        self.stack_elements = 0

    def kind(self, lanes: int) -> str:
        """Return the type of some elements."""
        return vector(self.element, lanes)

    # Memory.

    def at(self, pointer: str, offset: str | int) -> str:
        """Return the address some elements further on."""
        return at(self.e, pointer, f"{offset}", self.element)

    def load(self, lanes: int, pointer: str, align: int = 0) -> str:
        """Load neighbours."""
        return self.e.op(f"load {self.kind(lanes)}, ptr {pointer}, align {align or self.size}")

    def load_valid(self, lanes: int, valid: int | None, pointer: str, there: str = "") -> str:
        """Load the first lanes of a vector; others are zero and never touched in memory. there: which, if it varies."""
        if valid is None:
            return self.e.masked_load(self.element, lanes, pointer, self.size, there)
        if valid == lanes:
            return self.load(lanes, pointer)
        return self.e.masked_load(self.element, lanes, pointer, self.size, first_lanes(valid, lanes))

    def store(self, lanes: int, value: str, pointer: str, align: int = 0) -> None:
        """Store neighbours."""
        self.e.line(f"store {self.kind(lanes)} {value}, ptr {pointer}, align {align or self.size}")

    def line_alignment(self, panel: Panel, lanes: int) -> int:
        """Return the alignment of a vector in a packed panel, whose lines follow each other without gaps."""
        whole = all(vector.lanes == self.lanes for vector in panel.vectors)
        return self.size * (lanes if whole or len(panel.vectors) == 1 else 1)

    def on_stack(self, elements: int) -> str:
        """Return room for some elements on the stack; all who ask get the same."""
        self.stack_elements = max(self.stack_elements, elements)
        return self.stack

    # Numbers.

    def table_entry(self, table: str, index: str) -> str:
        """Load a number from a table."""
        return self.e.op(f"load i64, ptr {at(self.e, self.tables[table], index, 'i64')}, align 8")

    def offset(self, walk: StridedWalk, table: str, index: str) -> str:
        """Return the offset of an index, by multiplication or from the table."""
        if walk.stride is None:
            return self.table_entry(table, index)
        return multiply(self.e, index, walk.stride)

    def batch_offset(self, walk: StridedWalk, batch: str) -> str:
        """Return the offset of a batch, whose number is taken apart into its loops."""
        rest, total = batch, "0"
        for position in range(len(walk.runs) - 1, -1, -1):
            extent, stride = walk.runs[position]
            here = rest
            if position:
                rest, here = divide(self.e, rest, extent)
            total = add(self.e, total, multiply(self.e, here, stride))
        return total

    def position(self, work: Work, row: str, r: int, v: int) -> Position:
        """Return where a vector of a tile belongs, r rows below one."""
        lanes, valid = work.panel.vectors[v]
        across = add(self.e, work.column, str(v * self.lanes))
        there = work.there[v] if valid is None else None
        return Position(work.batch, add(self.e, row, str(r)), across, lanes, valid, there)

    # Arithmetic.

    def multiply_add(self, lanes: int, x: str, y: str, total: str) -> str:
        """Return x·y + total."""
        kind = self.kind(lanes)
        name = f"llvm.fmuladd.{suffix(self.element, lanes)}"
        return self.e.call(name, kind, [(kind, x), (kind, y), (kind, total)])

    def spread(self, lanes: int, scalar: str) -> str:
        """Put a scalar into all lanes."""
        return self.e.spread(scalar, self.element, lanes)


def prefetch(e: Emitter, pointer: str, count: int = 1, write: bool = False) -> None:
    """Ask for some bytes of memory, to be read or written soon. Any address will do: none is refused."""
    hints = [("i32", str(int(write))), ("i32", "3"), ("i32", "1")]  # to stay in all caches; data, not code
    for begin in range(0, count, costs.LINE_BYTES):
        e.call("llvm.prefetch.p0", "void", [("ptr", at(e, pointer, str(begin), "i8")), *hints])
