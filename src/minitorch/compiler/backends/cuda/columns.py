"""Columns of a loop kernel. Enters: a loop that folds over its rows. Leaves: the phases that fold, and that finish."""

from __future__ import annotations

from collections.abc import Callable

from minitorch.compiler.backends.cuda.arrangement import SIDE_BY_SIDE
from minitorch.compiler.backends.cuda.folds import ended, kinds, nothing, together
from minitorch.compiler.backends.cuda.loop_writer import LoopWriter, left_of_team
from minitorch.compiler.backends.llvm.body import in_order
from minitorch.compiler.backends.llvm.control import add, counted_loop, multiply, smaller, when
from minitorch.compiler.backends.llvm.loops.folds import beginning
from minitorch.compiler.backends.llvm.loops.loop import LoopFold
from minitorch.compiler.backends.llvm.text import memory_type
from minitorch.compiler.backends.llvm.writer import Shift
from minitorch.compiler.ir.index import total
from minitorch.compiler.ir.sizes import is_fixed


class ColumnWriter(LoopWriter):
    """Folds over rows: by a thread for each column, or by a block in shared memory and another kernel."""

    def go_down(self, folds: list[LoopFold]) -> None:
        """Write columns: each thread goes down some of them, along its block's rows or every so manieth of those."""
        e, a = self.e, self.a
        length = total(a.inner)
        if self.totals:
            with self.block.phase():
                for fold in self.totals:
                    self.slots[fold].put("%thread", nothing(fold))
        with self.block.turns(-(-length // a.team)) as turn:

            def column(write: Callable[[str], None], only_first: bool) -> None:
                self.w = self.writer()
                number, lane = self.team_and_lane()
                place = add(e, multiply(e, turn, a.team), lane)
                conditions = [e.op(f"icmp ult i64 {place}, {length}")] if length % a.team else []
                if only_first:
                    conditions.append(e.op(f"icmp eq i64 {number}, 0"))

                def there() -> None:
                    self.go_to(place, a.inner)
                    write(number)

                self.where_all_hold(conditions, there)

            with self.block.phase():
                column(lambda number: self.down(number, folds), False)
            if a.teams > 1:
                with self.block.phase():
                    column(lambda number: self.end_columns(folds), True)
        if self.totals:
            self.finish()

    def down(self, number: str, folds: list[LoopFold]) -> None:
        """Write the way down a column, of which this thread's team is the `number`-th."""
        e, a, w = self.e, self.a, self.w
        order = in_order([s.node for s in self.loop.stores] + [f.source for f in self.loop.folds])
        for node in order:
            if not self.inside[node]:
                w.write(node)

        def rows(count: int) -> Callable[[str, list[str]], list[str]]:
            def turn(row: str, names: list[str]) -> list[str]:
                places = [add(e, row, str(k * a.teams)) for k in range(count)]
                after = self.at_places(
                    places, a.outer, order, self.loop.stores, self.loop.folds, names[: len(carried)]
                )
                return after if count == 1 else [*after, e.op(f"add i64 {row}, {count * a.teams}")]

            return turn

        carried = [pair for f in self.loop.folds for pair in zip(kinds(f), nothing(f), strict=True)]
        begin = multiply(e, "%block", a.rows) if a.several else "0"
        start = add(e, begin, number)
        stop = smaller(e, add(e, begin, f"{a.rows}"), f"{total(a.outer)}")
        names = [name for _, name in carried]
        if not is_fixed(a.rows) or a.rows >= SIDE_BY_SIDE * a.teams:
            whole = add(e, stop, str((1 - SIDE_BY_SIDE) * a.teams))
            given = [*carried, ("i64", start)]
            step = SIDE_BY_SIDE * a.teams
            *names, start = counted_loop(e, start, whole, step, given, rows(SIDE_BY_SIDE), certain=False)
        left = [(kind, name) for (kind, _), name in zip(carried, names, strict=True)]
        known = iter(counted_loop(e, start, stop, a.teams, left, rows(1), certain=False))
        for fold in self.loop.folds:
            mine = [next(known) for _ in kinds(fold)]
            if fold.scope == "total":
                self.take(fold, mine)
            elif fold in self.slots:
                self.slots[fold].put("%thread", mine)
            else:
                self.end_column(fold, mine)

    def end_columns(self, folds: list[LoopFold]) -> None:
        """Fold what the threads of a column know, and store it."""
        for fold in folds:
            self.end_column(fold, self.slots[fold].fold_of("%thread", self.a.teams, self.a.team))

    def end_column(self, fold: LoopFold, names: list[str]) -> None:
        """Store what a fold has come to in this block."""
        assert fold.value is not None
        shifts = [Shift("%block", fold.size)] if self.a.several else []
        dtype = fold.value.dtype
        self.w.store_name(ended(self.e, fold, names), dtype, fold.operand, fold.where, shifts)

    def clear(self, fold: LoopFold) -> None:
        """Begin the sums of this block in memory."""
        e = self.e
        assert fold.value is not None
        dtype = fold.value.dtype
        element = memory_type(dtype)
        start = beginning(fold.function, dtype)
        if dtype.kind == "b":
            start = {"true": "1", "false": "0"}[start]
        first = multiply(e, "%block", fold.size) if self.a.several else "0"

        def one(counter: str, _: list[str]) -> list[str]:
            place = add(e, first, counter)
            pointer = e.op(f"getelementptr {element}, ptr %operand{fold.operand}, i64 {place}")
            e.line(f"store {element} {start}, ptr {pointer}, align {dtype.itemsize}")
            return []

        counted_loop(e, "%thread", f"{fold.size}", self.a.threads, [], one, certain=False)

    def finish_columns(self, folds: list[LoopFold]) -> None:
        """Fold what the teams of a block know of their columns, and store it: a thread for each column."""
        e, a = self.e, self.a
        if not folds:
            return

        def store(fold: LoopFold) -> None:
            assert fold.value is not None

            def team(number: str, names: list[str]) -> list[str]:
                thread = e.op(f"add i64 {multiply(e, number, a.team)}, %thread")
                return together(e, fold, names, self.slots[fold].get(thread))

            carried = list(zip(kinds(fold), nothing(fold), strict=True))
            names = counted_loop(e, "0", str(a.teams), 1, carried, team)
            shifts = [Shift("%block", fold.size)] if a.several else []
            self.w.store_name(ended(e, fold, names), fold.value.dtype, fold.operand, fold.where, shifts)

        def store_all() -> None:
            self.w = self.writer()
            self.w.scopes.append({})
            self.go_to("%thread", a.inner)
            for fold in folds:
                store(fold)

        with self.block.phase():
            when(e, e.op(f"icmp ult i64 %thread, {total(a.inner)}"), store_all)

    def finish(self) -> None:
        """Fold what all threads of a block know, and store it."""
        e, threads = self.e, self.a.threads
        self.narrow(self.totals, threads)
        with self.block.phase():

            def store_all() -> None:
                for fold in self.totals:
                    assert fold.value is not None
                    dtype = fold.value.dtype
                    element = memory_type(dtype)
                    name = ended(e, fold, self.slots[fold].fold_of("0", *left_of_team(threads)))
                    if dtype.kind == "b":
                        name = e.op(f"zext i1 {name} to i8")
                    place = f"%operand{fold.operand}"
                    if self.a.several:
                        place = e.op(f"getelementptr {element}, ptr {place}, i64 %block")
                    e.line(f"store {element} {name}, ptr {place}, align {dtype.itemsize}")

            when(e, e.op("icmp eq i64 %thread, 0"), store_all)
