"""The loops around the tiles of a product. Enters: a plan, operands, an epilogue. Leaves: a kernel's body as LLVM text.

A call does a range of units; a unit is some tiles of one panel of one batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

from minitorch.compiler.backends.llvm.control import (
    add,
    at,
    divide,
    known,
    larger,
    loop,
    multiply,
    repeat,
    smaller,
    when,
)
from minitorch.compiler.backends.llvm.products.plan import ContractionPlan, Panel
from minitorch.compiler.backends.llvm.products.write_base import (
    Context,
    Epilogue,
    Fetch,
    Partial,
    Tile,
    Work,
)
from minitorch.compiler.backends.llvm.products.write_end import finish_tile
from minitorch.compiler.backends.llvm.products.write_pack import PanelLines, copy_neighbours, pack, place_in_a
from minitorch.compiler.backends.llvm.products.write_tile import multiply_tile, write_dot_tile
from minitorch.compiler.backends.llvm.shuffles import zero
from minitorch.compiler.backends.llvm.text import Emitter, multiples, vector
from minitorch.compiler.ir.sizes import is_fixed


def emit_contraction(
    e: Emitter,
    plan: ContractionPlan,
    *,
    a: str,
    b: str,
    tables: list[str],
    scratch: str | None = None,
    start: str,
    stop: str,
    fetch: Fetch | None = None,
    epilogue: Epilogue,
) -> None:
    """Write the loops over the units [start, stop) of a plan.

    a, b, tables and scratch are names of pointers (scratch: this thread's, at a multiple of 64 bytes). It must be
    written where control passes once, as in the block of the function's entry: tiles may need room on the stack.

    epilogue(e, value, position) uses a finished value, and stores it. It must depend on its arguments alone and may
    write blocks of its own; it is called several times, and what it writes may be thrown away or stand in a loop.

    fetch(e, position, columns) asks for the memory that the epilogue will touch in some columns from `position` on,
    well before it does.
    """
    if plan.units:
        _Kernel(Context(e, plan, a, b, tables, scratch, fetch, epilogue)).write(start, stop)


class _Unit(NamedTuple):
    """Which piece of work: numbers of the batch, the panel and the block of rows.

    key: what tells the units apart that scratch memory was filled for, with a panel of B or with rows of A.
    """

    batch: str
    panel: str
    block: str
    key: str


class _Tiles(NamedTuple):
    """Tiles of one height, from the first up to the end."""

    rows: int
    first: str
    end: str
    partial: bool = False


class _Kernel:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.e, self.plan, self.problem = context.e, context.plan, context.problem

    def write(self, start: str, stop: str) -> None:
        """Write the loop over units, and before it make room on the stack for what they need."""
        e, plan = self.e, self.plan
        place = len(e.lines)
        # From unit to unit it is remembered what scratch memory holds.
        keys = [("i64", "-1")] if plan.units != 1 and (plan.packing or plan.packs_a) else []

        def unit(number: str, last: list[str]) -> list[str]:
            # (Of a single unit the only question is whether it is asked for.)
            key = self._unit("0" if plan.units == 1 else number, last[0] if last else "-1")
            return [key] if last else []

        loop(e, start, stop, unit, keys)
        if self.context.stack_elements:
            room = f"alloca {self.context.element}, i64 {self.context.stack_elements}, align 64"
            e.lines.insert(place, f"  {self.context.stack} = {room}")

    # Units.

    def _unit(self, number: str, last_key: str) -> str:
        """Write one unit; return its key."""
        e, plan, context = self.e, self.plan, self.context
        unit = self._numbers(number)
        a = context.at(context.a, context.batch_offset(self.problem.a_batch, unit.batch))
        b = context.at(context.b, context.batch_offset(self.problem.b_batch, unit.batch))
        if plan.packs_a:
            first, last = self._tiles_of(plan.panels[0], unit.block)
            new = e.op(f"icmp ne i64 {unit.key}, {last_key}")
            when(e, new, lambda: self._pack_a(plan.panels[0], a, first, last))

        def write(kind: int) -> None:
            self._panel(kind, unit, a, b, last_key)

        if len(plan.panels) == 1:
            write(0)
        elif (panel := known(unit.panel)) is not None and is_fixed(plan.panels[0].count):
            write(0 if panel < plan.panels[0].count else 1)
        else:
            full = e.op(f"icmp slt i64 {unit.panel}, {plan.panels[0].count}")
            when(e, full, lambda: write(0), lambda: write(1))
        return unit.key

    def _numbers(self, unit: str) -> _Unit:
        """Take the number of a unit apart."""
        e, plan = self.e, self.plan
        panel_and_batch, block = divide(e, unit, plan.row_blocks)
        if plan.rows_first:  # all panels for some rows, before the next rows
            rows, panel = divide(e, unit, plan.panel_count)
            batch, block = divide(e, rows, plan.row_blocks)
            return _Unit(batch, panel, block, rows)
        if self.problem.shares_b:  # one panel for all batches, before the next
            panel, batch = divide(e, panel_and_batch, self.problem.batches)
            return _Unit(batch, panel, block, panel)
        batch, panel = divide(e, panel_and_batch, plan.panel_count)
        return _Unit(batch, panel, block, panel_and_batch)

    def _panel(self, kind: int, unit: _Unit, a: str, b: str, last_key: str) -> None:
        """Write one block of rows of one panel: of the many equal ones, or (kind 1) the last."""
        panel = self.plan.panels[kind]
        column = self._column(kind, unit.panel)
        first, last = self._tiles_of(panel, unit.block)
        work = Work(panel, unit.batch, column, a, b, "0", f"{self.problem.depth}")
        if panel.varies:
            work = self._with_existing_columns(work)
        if self.context.blocked:
            self._in_blocks(work, first, last)
            return
        lines = PanelLines(work, work.depth, work.count)
        if self.plan.packing and self.plan.packs_each_panel_once:
            pack(self.context, lines)
        elif self.plan.packing:
            new = self.e.op(f"icmp ne i64 {unit.key}, {last_key}")
            when(self.e, new, lambda: pack(self.context, lines))
        self._tiles(work, first, last)

    def _column(self, kind: int, panel: str) -> str:
        """The column a panel begins at."""
        e, full, last = self.e, self.plan.panels[0], self.plan.panels[-1]
        width = full.valid if self.plan.form == "dot" else full.width
        if not kind:
            return multiply(e, panel, width)
        if last.count == 1:
            return f"{full.count * width}"
        number = e.op(f"sub i64 {panel}, {full.count}")
        return add(e, f"{full.count * width}", multiply(e, number, last.width))

    def _with_existing_columns(self, work: Work) -> Work:
        """Find out which columns of a panel exist."""
        e, lanes = self.e, self.context.lanes
        rest = e.op(f"sub i64 {self.problem.columns}, {work.column}")
        ramp, kind = multiples(1, lanes), vector("i64", lanes)
        there = []
        for v in range(len(work.panel.vectors)):
            here = e.spread(add(e, rest, str(-v * lanes)), "i64", lanes)
            there.append(e.op(f"icmp slt {kind} {ramp}, {here}") if lanes > 1 else "true")
        left = smaller(e, rest, str(work.panel.width))
        return dataclasses.replace(work, there=tuple(there), left=left)

    # Tiles.

    def _tiles_of(self, panel: Panel, block: str) -> tuple[str, str]:
        """The first tile of a block of rows, and that of the next."""
        e, blocks = self.e, self.plan.row_blocks
        first, _ = divide(e, multiply(e, block, panel.tiles), blocks)
        last, _ = divide(e, multiply(e, add(e, block, "1"), panel.tiles), blocks)
        return first, last

    def _each_tile(
        self, panel: Panel, first: str, last: str, write: Callable[[str, str, int, str | None], None]
    ) -> None:
        """Write what is to be done for the tiles [first, last): the tall ones, then those of one row less.

        write: takes the tile's number, its first row, how many rows it has, and how many of them exist (None: all).
        """
        for rows, begin, end, partial in self._heights(panel, first, last):

            def tile(number: str, rows: int = rows, partial: bool = partial) -> None:
                row = multiply(self.e, number, rows)
                if rows < panel.rows:
                    row = add(self.e, row, str(panel.tall))
                existing = self.e.op(f"sub i64 {self.problem.rows}, {row}") if partial else None
                write(number, row, rows, existing)

            repeat(self.e, begin, end, tile)

    def _heights(self, panel: Panel, first: str, last: str) -> list[_Tiles]:
        """The tiles [first, last) of either height."""
        e, tall = self.e, f"{panel.tall}"
        heights = [_Tiles(panel.rows, first, smaller(e, last, tall))]
        if panel.partial:
            heights.append(_Tiles(panel.rows, larger(e, first, tall), last, True))
        elif panel.tall < panel.tiles and panel.rows > 1:
            heights.append(_Tiles(panel.rows - 1, larger(e, first, tall), last))
        return heights

    def _tiles(self, work: Work, first: str, last: str) -> None:
        """Write the tiles [first, last) of a panel."""

        def tile(number: str, row: str, rows: int, existing: str | None) -> None:
            if self.plan.form == "dot":
                write_dot_tile(self.context, Tile(work, row, rows, existing=existing))
                return
            copy = place_in_a(self.context, work.panel, number, first) if self.plan.packs_a else None
            self._tile(Tile(work, row, rows, copy, existing))

        self._each_tile(work.panel, first, last, tile)

    def _tile(self, tile: Tile) -> None:
        """Write one tile: all its sums stay in registers while k runs."""
        context, partial = self.context, tile.work.partial
        if partial is None:
            sums = [zero(tile.work.panel.vectors[v].lanes) for _, v in tile.places()]
            finish_tile(context, tile, multiply_tile(context, tile, sums))
            return
        home = self._waiting_row(tile.work.panel, partial, tile.row)
        sums = [context.load(*self._waiting(tile.work.panel, home, r, v)) for r, v in tile.places()]
        sums = multiply_tile(context, tile, sums)
        for (r, v), value in zip(tile.places(), sums, strict=True):
            lanes, pointer, align = self._waiting(tile.work.panel, home, r, v)
            context.store(lanes, value, pointer, align)

    def _pack_a(self, panel: Panel, a: str, first: str, last: str) -> None:
        """Copy the rows of A that belong to the tiles [first, last)."""

        e, context = self.e, self.context

        def one_line(k: str) -> None:
            # Of all rows at once: a line of memory is read once and not again for each tile that has a part in it.
            line = context.at(a, context.offset(self.problem.a_depth, "a_depth", k))
            further = multiply(e, k, panel.rows)

            def tile(number: str, row: str, rows: int, _: str | None) -> None:
                home = place_in_a(context, panel, number, first)
                copy_neighbours(context, rows, context.at(line, row), context.at(home, further))

            self._each_tile(panel, first, last, tile)

        repeat(e, "0", f"{self.problem.depth}", one_line)

    # k in blocks: sums wait in scratch memory from one block to the next.

    def _in_blocks(self, work: Work, first: str, last: str) -> None:
        """Write some tiles, k being walked in blocks."""
        e, plan = self.e, self.plan
        pointer = at(e, self.context.scratch, f"{plan.partial_offset}", "i8")
        top, bottom = self._row_of(work.panel, first), self._row_of(work.panel, last)
        work = dataclasses.replace(work, partial=Partial(pointer, top))
        self._clear_sums(work, top, bottom)

        def one_block(number: str) -> None:
            depth = multiply(e, number, plan.depth_block)
            rest = e.op(f"sub i64 {self.problem.depth}, {depth}")
            count = smaller(e, rest, f"{plan.depth_block}")
            if plan.packing:
                pack(self.context, PanelLines(work, depth, count))
            self._tiles(dataclasses.replace(work, depth=depth, count=count), first, last)

        repeat(e, "0", f"{plan.depth_blocks}", one_block)
        self._finish_sums(work, top, bottom)

    def _row_of(self, panel: Panel, tile: str) -> str:
        """The row a tile begins at, be it tall or not."""
        e = self.e
        if panel.partial:
            return smaller(e, multiply(e, tile, panel.rows), f"{self.problem.rows}")
        return add(e, multiply(e, tile, panel.rows - 1), smaller(e, tile, str(panel.tall)))

    def _waiting_row(self, panel: Panel, partial: Partial, row: str) -> str:
        """Where a row's unfinished sums lie."""
        below = row if partial.top == "0" else self.e.op(f"sub i64 {row}, {partial.top}")
        return self.context.at(partial.pointer, multiply(self.e, below, panel.width))

    def _waiting(self, panel: Panel, home: str, r: int, v: int) -> tuple[int, str, int]:
        """A vector of unfinished sums: its lanes, its place, its alignment."""
        lanes = panel.vectors[v].lanes
        pointer = self.context.at(home, r * panel.width + v * self.context.lanes)
        return lanes, pointer, self.context.line_alignment(panel, lanes)

    def _clear_sums(self, work: Work, top: str, bottom: str) -> None:
        """Let every sum begin at zero."""

        def one_row(row: str) -> None:
            assert work.partial is not None
            home = self._waiting_row(work.panel, work.partial, row)
            for v in range(len(work.panel.vectors)):
                lanes, pointer, align = self._waiting(work.panel, home, 0, v)
                self.context.store(lanes, zero(lanes), pointer, align)

        repeat(self.e, top, bottom, one_row)

    def _finish_sums(self, work: Work, top: str, bottom: str) -> None:
        """Hand the sums, now complete, to the epilogue: a row at a time, or all together if they must turn."""
        swapped = self.plan.form == "swapped"
        rows = work.panel.rows if swapped else 1

        def some_rows(row: str) -> None:
            assert work.partial is not None
            tile = Tile(work, row, rows)
            home = self._waiting_row(work.panel, work.partial, row)
            places = tile.places()
            sums = [self.context.load(*self._waiting(work.panel, home, r, v)) for r, v in places]
            finish_tile(self.context, tile, sums)

        if swapped:
            some_rows("0")
        else:
            repeat(self.e, top, bottom, some_rows)
