"""Loop kernels for threads and blocks. Enters: a `Loop` of expressions. Leaves: a `Kernel` of phases.

A row is a team's: one thread's, or that of some threads that go along it side by side, in as many phases as folds
depend on each other. What a thread has folded of its part of the row lies in shared memory, where the next phase finds
that of the whole team. Folds over rows are a block's: it goes through its share of the rows in turns, and leaves one
sum of each, which another kernel adds up. So the order of additions depends on shapes alone; but where rows are added
to places that indices name, memory adds them up as they come.

arrangement.py decides who has what; rows.py and columns.py write what is folded, loop_writer.py what both need; here
are loops without rows, and the order of all phases.
"""

from __future__ import annotations

from minitorch.compiler.backends.cuda.arrangement import WARP, arrange, arrange_to_keep
from minitorch.compiler.backends.cuda.columns import ColumnWriter
from minitorch.compiler.backends.cuda.exact import supplied
from minitorch.compiler.backends.cuda.folds import in_one_pass, nothing
from minitorch.compiler.backends.cuda.loop_writer import counters_of
from minitorch.compiler.backends.cuda.rows import RowWriter
from minitorch.compiler.backends.cuda.scans import write_scan
from minitorch.compiler.backends.cuda.small_products import write_small_product
from minitorch.compiler.backends.cuda.transposed import write_transposed
from minitorch.compiler.backends.cuda.words import Kernel
from minitorch.compiler.backends.llvm.body import cost, in_order
from minitorch.compiler.backends.llvm.control import add, multiply, when
from minitorch.compiler.backends.llvm.loops.loop import Loop
from minitorch.compiler.ir.index import total
from minitorch.compiler.ir.sizes import typical


def write_loop(loop: Loop, guard: int | None = None) -> Kernel:
    """Decide how a loop is shared out among threads, and write it.

    guard: the operand that is not 0 where an index was found out of range; then nothing may be written any more.
    """
    for special in (write_transposed, write_small_product, write_scan):
        kernel = special(loop, guard)
        if kernel is not None:
            return kernel
    nodes = loop.nodes()
    arrangement = arrange_to_keep(loop, nodes) if guard is None else None
    if arrangement is None:
        loop = in_one_pass(loop)
        nodes = loop.nodes()
        arrangement = arrange(loop, nodes, guard is not None)
    writer = _LoopWriter(loop, nodes, arrangement, guard)
    writer.write()
    a = arrangement
    elements = total(a.outer) * total(a.inner)
    flops = sum(cost(n) for n in nodes if n.kind == "map") * typical(elements)
    shape = f"{typical(a.blocks)} blocks of {a.threads} threads"
    note = shape if a.team == 1 else f"{shape}, {a.team} to a row"
    return Kernel(
        writer.block.items,
        loop.body.operands,
        a.blocks,
        a.threads,
        writer.shared,
        supplied(writer.e.externs),
        flops,
        note,
        elements,
        kept=writer.kept_count,
    )


class _LoopWriter(RowWriter, ColumnWriter):
    """All that a loop may be made of."""

    def write(self) -> None:
        """Write all phases."""
        if self.a.each > 1:
            with self.block.phase():
                self.elements()
            return
        columns = [f for f in self.loop.folds if f.scope == "column"]
        if self.a.columns:
            self.go_down(columns)
            return
        if columns or self.totals:
            with self.block.phase():
                for fold in columns:
                    if fold in self.slots:
                        self.slots[fold].put("%thread", nothing(fold))
                    else:
                        self.clear(fold)
                for fold in self.totals:
                    self.slots[fold].put("%thread", nothing(fold))
        last = max(
            [self.stage(s) for s in self.loop.stores] + [self.stages[f.source] for f in self.loop.folds]
        )
        with self.block.turns(self.a.turns) as turn:
            in_warps = 1 < self.a.team <= WARP and not columns  # teams that are in one warp wait for no other
            if self.a.team == 1:  # nobody to wait for
                with self.block.phase():
                    self.row(turn, range(last + 1))
            else:
                for number in range(last + 1):
                    folded = [f for f in self.rows if self.stages[f.source] == number]
                    with self.block.phase(in_warps or bool(folded)):  # (which are folded in warps first)
                        self.row(turn, [number])
                    self.narrow(folded, self.a.team, in_warps)
            if in_warps and self.totals:  # which are everybody's
                with self.block.phase():
                    pass
        if self.totals:
            self.finish()
        self.finish_columns([fold for fold in columns if fold in self.slots])

    def elements(self) -> None:
        """Write what a thread computes of a loop without rows: some elements, a block's threads apart."""
        e, a = self.e, self.a
        rows, span = total(a.outer), a.threads * a.each
        first = add(e, multiply(e, "%block", span), multiply(e, "%thread", a.vectors))
        firsts = [add(e, first, str(a.threads * k)) for k in range(0, a.each, a.vectors)]
        numbers = [add(e, each, str(k)) for each in firsts for k in range(a.vectors)]
        if rows % span == 0:
            self.side_by_side(numbers)
            return

        def one_by_one() -> None:
            for number in numbers:
                when(
                    e,
                    e.op(f"icmp ult i64 {number}, {rows}"),
                    lambda number=number: self.side_by_side([number]),  # type: ignore[misc]
                )

        beyond = multiply(e, add(e, "%block", "1"), span)
        when(e, e.op(f"icmp ule i64 {beyond}, {rows}"), lambda: self.side_by_side(numbers), one_by_one)

    def side_by_side(self, numbers: list[str]) -> None:
        """Write some elements; all stores come last, so that no load waits for one."""
        writers, vectors = [], self.a.vectors if len(numbers) > 1 else 1
        sources = [self.unrounded(store) for store in self.loop.stores]
        order = in_order(sources)
        for place, number in enumerate(numbers):
            self.w = self.writer()
            counters = counters_of(self.e, number, self.a.outer)
            self.w.counters.update(zip(self.a.outer, counters, strict=True))
            writers.append(self.w)
            if vectors > 1 and place % vectors == 0:
                read = self.read_vectors(order, self.a.outer, vectors)
            if vectors > 1:
                self.w.scopes[-1].update(read[place % vectors])
            for node in order:
                self.w.write(node)
        for place in range(0, len(writers), vectors):
            self.w = writers[place]
            for store, source in zip(self.loop.stores, sources, strict=True):
                self.store_vector(store, [w.single(source) for w in writers[place : place + vectors]])
