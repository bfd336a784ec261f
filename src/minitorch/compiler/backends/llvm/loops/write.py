"""The function of a loop kernel. Enters: a `Loop`, a target. Leaves: a `Kernel`: units, their rows, and passes."""

from __future__ import annotations

from minitorch.compiler.backends.llvm.body import cost, in_order
from minitorch.compiler.backends.llvm.control import counted_loop, take_apart
from minitorch.compiler.backends.llvm.kernel import SCRATCH, Kernel, begin_kernel, end_kernel
from minitorch.compiler.backends.llvm.loops import costs
from minitorch.compiler.backends.llvm.loops.arrange import Arrangement, arrange
from minitorch.compiler.backends.llvm.loops.folds import FoldWriter, beginning
from minitorch.compiler.backends.llvm.loops.loop import Loop, LoopFold, Store
from minitorch.compiler.backends.llvm.loops.passes import ONCE, Pass, Passes, find_stages, plan_passes
from minitorch.compiler.backends.llvm.loops.write_pass import LoopState, plus, times, write_pass
from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.backends.llvm.text import Emitter, memory_type, multiples, splat, vector
from minitorch.compiler.backends.llvm.writer import Writer
from minitorch.compiler.ir.index import total
from minitorch.compiler.ir.sizes import is_fixed, typical


def write_loop(loop: Loop, target: Target) -> Kernel:
    """Decide how a loop runs, and write it."""
    nodes = loop.nodes()
    stages = find_stages(loop, nodes)
    arrangement = arrange(loop, nodes, stages, target)
    passes = plan_passes(loop, nodes, stages, arrangement)
    scratch = loop.body.operand(SCRATCH) if passes.kept else None
    e = Emitter()
    pointers = begin_kernel(e, target, loop.body.operands)
    if scratch is not None:
        offset = e.op(f"mul i64 %thread, {passes.scratch_bytes}")
        e.line(f"%mine = getelementptr i8, ptr {pointers[scratch]}, i64 {offset}")
    varies = {n: arrangement.space.depends(n, arrangement.dim) for n in nodes}
    w = Writer(e, arrangement.lanes, arrangement.dim, arrangement.space, varies, passes.depths, pointers)
    for node in nodes:
        if passes.depth[node] == ONCE != passes.innermost and node.kind != "result":
            w.write(node)
    state = LoopState(loop, arrangement, passes, e, w, FoldWriter(loop, arrangement, w))
    _LoopWriter(state, target).write()
    instructions = sum(cost(n) for n in nodes if n.kind == "map")
    accesses = sum(1 for n in nodes if n.kind == "load") + len(loop.stores)
    return Kernel(
        end_kernel(e),
        loop.body.operands,
        arrangement.units,
        e.externs,
        passes.scratch_bytes,
        _seconds(arrangement, accesses),
        instructions * typical(arrangement.elements),
        _note(arrangement, passes),
        arrangement.elements,
    )


def _seconds(arrangement: Arrangement, accesses: int) -> float:
    """Estimate the time on one thread."""
    a, elements = arrangement, typical(arrangement.elements)
    moved = elements * accesses * costs.ELEMENT_BYTES
    return elements * a.work * costs.INSTRUCTION_SECONDS / max(1, a.lanes) + moved / costs.BYTES_PER_SECOND


def _note(arrangement: Arrangement, passes: Passes) -> str:
    a, count = arrangement, len(passes.passes)
    rows = f"{a.inner[0].size!s} in a row" if a.flat else f"{a.rows!s} rows of {total(a.inner)!s}"
    return f"{rows}, {count} pass{'es' if count > 1 else ''}, {a.lanes} lanes"


class _LoopWriter:
    """Writes the loops over units and rows."""

    def __init__(self, state: LoopState, target: Target) -> None:
        self.state, self.target = state, target
        self.loop, self.a, self.e, self.w = state.loop, state.arrangement, state.e, state.w
        self.folds = state.folds
        # Folds over all rows: what they know is carried from row to row.
        self.totals = [f for f in self.loop.folds if f.scope in ("total", "check", "rows")]

    def write(self) -> None:
        """Write the function's body: twice, if some results may go past the caches."""
        streamed = [s for s in self.loop.stores if self.state.may_stream(s)]
        if streamed:
            self._if_aligned(streamed)
        else:
            self._units()

    def _if_aligned(self, streamed: list[Store]) -> None:
        """Write the body past the caches, for where results begin on a line of them, and as usual."""
        e, w = self.e, self.w
        together = "0"
        for store in streamed:
            address = e.op(f"ptrtoint ptr {w.pointers[store.operand]} to i64")
            together = e.op(f"or i64 {together}, {address}")
        rest = e.op(f"and i64 {together}, 63")
        aligned = e.op(f"icmp eq i64 {rest}, 0")
        e.line(f"br i1 {aligned}, label %past, label %usual")
        known = w.scopes[0]
        for name in ("past", "usual"):
            e.label(name)
            w.scopes[0] = dict(known)
            self.state.streaming = name == "past"
            self._units()

    # Units.

    def _units(self) -> None:
        """Write the work on all units of a call, and the return from it."""
        e, state = self.e, self.state
        state.running, state.unit = {}, "0"
        state.start, state.stop = ("0", "1") if self.a.units == 1 else ("%start", "%stop")
        answer = "0"
        if self.a.by_blocks and self.a.units != 1:
            counted_loop(e, "%start", "%stop", 1, [], self._block, certain=False)
        else:
            self._unit()
            for fold in self.loop.folds:
                if fold.scope == "check":
                    found = self._total(fold, self.a.lanes)
                    answer = e.op(f"zext i1 {found} to i64")
        if state.streaming:  # what went past the caches is there before anybody else runs
            e.line("fence seq_cst")
        e.line(f"ret i64 {answer}")

    def _block(self, unit: str, _: list[str]) -> list[str]:
        """Write one block of rows, with sums of its own."""
        state = self.state
        state.unit = state.start = unit
        state.stop = plus(self.e, unit, 1)
        self._unit()
        return []

    def _lanes(self, fold: LoopFold) -> int:
        """In how many lanes a fold over all rows is carried."""
        return 1 if fold.scope == "rows" and not self.a.along_outer else self.a.lanes

    def _unit(self) -> None:
        """Write the rows of one unit (or of all units of this call, where they need not be told apart)."""
        state, w = self.state, self.w
        for fold in self.loop.folds:
            if fold.scope == "column":
                self._clear(fold)
        state.running = {f: self.folds.start(f, self._lanes(f))[0] for f in self.totals}
        if self.a.flat:
            write_pass(state, state.passes.passes[0])
        elif self.a.rows == 1:
            w.counters.update(dict.fromkeys(self.a.outer, "0"))
            self._row("0")
        else:
            self._rows()
        for fold in self.totals:
            if fold.scope != "check":
                self._store_total(fold)

    def _rows(self) -> None:
        """Write the loop over the rows of a unit."""
        state, e, a = self.state, self.e, self.a
        carried = [(self.folds.kinds(f, self._lanes(f))[0], state.running[f]) for f in self.totals]
        first, last = "0", f"{a.rows}"
        if a.units != 1:
            first = times(e, state.start, a.rows_per_unit)
            beyond = times(e, state.stop, a.rows_per_unit)
            last = e.call("llvm.smin.i64", "i64", [("i64", beyond), ("i64", f"{a.rows}")])

        def row(counter: str, names: list[str]) -> list[str]:
            state.running = dict(zip(self.totals, names, strict=True))
            self._row(counter)
            return [state.running[f] for f in self.totals]

        after = counted_loop(e, first, last, 1, carried, row, certain=a.units == 1)
        state.running = dict(zip(self.totals, after, strict=True))

    def _total(self, fold: LoopFold, lanes: int) -> str:
        """What a fold over all rows knows in the end, as one element."""
        name = self.state.running[fold]
        return self.folds.horizontal(fold, name, self.a.lanes) if lanes > 1 else name

    def _store_total(self, fold: LoopFold) -> None:
        """Store the result of a fold over all rows of this unit."""
        e = self.e
        assert fold.value is not None
        name = self._total(fold, self._lanes(fold))
        dtype = fold.value.dtype
        element = memory_type(dtype)
        place = self.w.pointers[fold.operand]
        if self.state.unit != "0":
            place = e.op(f"getelementptr {element}, ptr {place}, i64 {self.state.unit}")
        if dtype.kind == "b":
            name = e.op(f"zext i1 {name} to i8")
        e.line(f"store {element} {name}, ptr {place}, align {dtype.itemsize}")

    def _clear(self, fold: LoopFold) -> None:
        """Begin sums in memory."""
        e = self.e
        assert fold.value is not None
        dtype, n = fold.value.dtype, fold.size
        element = memory_type(dtype)
        start = beginning(fold.function, dtype)
        if dtype.kind == "b":
            start = {"true": "1", "false": "0"}[start]
        place = self.w.pointers[fold.operand]
        if self.a.units != 1:
            place = e.op(f"getelementptr {element}, ptr {place}, i64 {times(e, self.state.unit, n)}")
        lanes = self.target.lanes(dtype)
        if is_fixed(n):
            lanes = min(lanes, 1 << (n.bit_length() - 1))

        def clear(counter: str, lanes: int) -> None:
            there = e.op(f"getelementptr {element}, ptr {place}, i64 {counter}")
            value = splat(start, element, lanes)
            e.line(f"store {vector(element, lanes)} {value}, ptr {there}, align {dtype.itemsize}")

        def turn(counter: str, _: list[str]) -> list[str]:
            clear(counter, lanes)
            return []

        def one(counter: str, _: list[str]) -> list[str]:
            clear(counter, 1)
            return []

        whole = n // lanes * lanes
        counted_loop(e, "0", f"{whole}", lanes, [], turn, certain=is_fixed(n))
        if is_fixed(n):
            for k in range(whole, n):
                clear(str(k), 1)
        else:
            counted_loop(e, f"{whole}", f"{n}", 1, [], one, certain=False)

    # Rows.

    def _row(self, number: str) -> None:
        """Write one row: its passes, and between them what is known per row."""
        a, e, w = self.a, self.e, self.w
        w.scopes.append({})
        counters = take_apart(e, number, a.row_sizes)
        for dim, counter in zip(a.outer, counters, strict=True):
            w.counters[dim] = times(e, counter, a.lanes) if dim is a.dim else counter
        if a.dim is not None and a.along_outer and a.dim.size % a.lanes:
            there = e.op(f"sub i64 {a.dim.size}, {w.counters[a.dim]}")
            wide = w.spread(there, "i64")
            w.mask = e.op(f"icmp slt {vector('i64', a.lanes)} {multiples(1, a.lanes)}, {wide}")
            if not is_fixed(a.dim.size):
                w.existing = w.existing_lanes(there)
        for each in self.state.passes.passes:
            self._per_row(each)
            write_pass(self.state, each)
        w.mask = w.existing = None
        w.scopes.pop()

    def _per_row(self, before: Pass) -> None:
        """Write what is known per row before a pass, and store what is wanted of it."""
        w, folds, lanes = self.w, self.folds, self.a.lanes
        sinks = [s.node for s in before.row_stores] + [f.source for f in before.row_folds]
        for node in in_order(sinks):
            w.write(node)
        for store in before.row_stores:
            self.state.store(store)
        for fold in before.row_folds:
            name = self.state.running[fold]
            if self.a.along_outer:
                source = folds.existing(fold, w.wide(fold.source))
                self.state.running[fold] = folds.apply(fold, name, source, lanes)
            else:
                self.state.running[fold] = folds.apply(fold, name, w.single(fold.source), 1)
