"""One pass over a row. Enters: a pass, the names of counters. Leaves: its loops and what they compute, as LLVM text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.body import Expression, cost
from minitorch.compiler.backends.llvm.control import counted_loop, larger, smaller
from minitorch.compiler.backends.llvm.loops import costs
from minitorch.compiler.backends.llvm.loops.arrange import Arrangement
from minitorch.compiler.backends.llvm.loops.folds import Folded, FoldWriter
from minitorch.compiler.backends.llvm.loops.loop import Loop, LoopFold, Store
from minitorch.compiler.backends.llvm.loops.passes import PER_ROW, Pass, Passes
from minitorch.compiler.backends.llvm.text import Emitter, first_lanes, memory_type, multiples, vector
from minitorch.compiler.backends.llvm.writer import Shift, Writer
from minitorch.compiler.ir.index import Dim
from minitorch.compiler.ir.sizes import Size, typical


class Turn(NamedTuple):
    """A turn of the innermost loop: its counter, and the lanes that exist where not all do.

    existing: the number of each lane, where it varies how many there are (see `Writer`).
    """

    counter: str
    mask: str | None = None
    existing: str | None = None


@dataclass
class LoopState:
    """A loop kernel while it is written.

    unit, start, stop: names of the unit at hand, and of the range of units it belongs to. running: what folds over all
    rows know so far. streaming: whether results go past the caches.
    """

    loop: Loop
    arrangement: Arrangement
    passes: Passes
    e: Emitter
    w: Writer
    folds: FoldWriter
    unit: str = "0"
    start: str = "0"
    stop: str = "1"
    running: dict[LoopFold, str] = field(default_factory=dict)
    streaming: bool = False

    def store(self, store: Store) -> None:
        """Write a store."""
        w = self.w
        shifts = [Shift(w.single(node), stride) for node, stride in store.places]
        if store.function == "set":
            streams = self.streaming and self.may_stream(store)
            w.store(store.node, store.operand, store.where, shifts, streams)
            return
        lanes = self.arrangement.lanes if w.step(store.where) else 1
        dtype = store.node.dtype
        before = w.read(store.operand, store.where, dtype, shifts, lanes)
        added = w.wide(store.node) if lanes > 1 else w.single(store.node)
        after = functions.emit_function(self.e, "add", [before, added], dtype, lanes)
        w.store_name(after, dtype, store.operand, store.where, shifts)

    def may_stream(self, store: Store) -> bool:
        """Whether a result may go past the caches: whole lines of it, if it begins on one."""
        size, a = store.node.dtype.itemsize, self.arrangement
        _, terms = a.space(store.where)
        return (
            store.last
            and store.function == "set"
            and not store.places
            and not a.along_outer
            and a.lanes * size == 64
            and store.where[0] * size % 64 == 0
            and self.w.step(store.where) == 1
            and all(factor * size % 64 == 0 for dim, factor in terms if dim is not a.dim)
        )


def write_pass(state: LoopState, this: Pass) -> None:
    """Write one pass over a row, and what becomes known by it."""
    if this.folds or this.stores:
        _PassWriter(state, this).write()


class _PassWriter:
    def __init__(self, state: LoopState, this: Pass) -> None:
        self.state, self.this = state, this
        self.e, self.w, self.folds = state.e, state.w, state.folds
        self.a, self.p = state.arrangement, state.passes
        self.lanes = self.a.lanes
        self.unroll = self._unroll()

    def _unroll(self) -> int:
        """How many vectors one turn of the innermost loop handles."""
        this, a = self.this, self.a
        in_order = any(f.scope == "scan" or f.is_arg for f in this.folds) or self.state.loop.serial
        if not a.inner or in_order:
            return 1
        inside = [n for n in this.order if self.p.depth[n] == self.p.innermost]
        work = sum(costs.LOAD if n in this.loaded else cost(n) for n in inside)
        size = a.inner[-1].size
        turns = typical(size if a.along_outer or self.lanes == 1 else -(-size // self.lanes))
        most = next((vectors for limit, vectors in costs.UNROLL if work <= limit), 1)
        if isinstance(size, Size):  # whole turns of a loop that is usually short should be more than one
            turns //= 2
        return max(1, min(most, turns))

    def write(self) -> None:
        """Write the loops along the row, and take what they folded to where it belongs."""
        state, folds = self.state, self.folds
        self._write_at(PER_ROW)
        folded: Folded = {
            f: [folds.start(f, self.lanes) for _ in range(self.unroll)]
            for f in self.this.folds
            if f.scope != "column"
        }
        folded = self._nest(list(self.a.inner), folded)
        for fold in self.this.folds:
            if fold.scope == "row":
                assert fold.value is not None
                name = folds.across(fold, folded[fold])
                self.w.scopes[-1][state.loop.body.given[fold.value]] = name
            elif fold.scope in ("total", "check"):
                whole = folds.existing(fold, folds.together(fold, folded[fold])[0])
                state.running[fold] = folds.apply(fold, state.running[fold], whole, self.lanes)

    def _write_at(self, depth: int) -> None:
        """Write what belongs to the scope just opened; of loads further in, the part of the address known here."""
        for node in self.this.order:
            its_depth = self.p.depth[node]
            if its_depth == depth and depth != self.p.innermost:
                self.w.write(node)
            elif its_depth > depth and node.kind == "load" and node not in self.this.loaded:
                self.w.prepare(node)

    # Loops.

    def _carried(self, folded: Folded) -> list[tuple[str, str]]:
        """What folds know, as the (type, name) pairs that a loop carries."""
        return [
            pair
            for fold, parts in folded.items()
            for names in parts
            for pair in zip(self.folds.kinds(fold, self.lanes), names, strict=True)
        ]

    def _nest(self, dims: list[Dim], folded: Folded) -> Folded:
        """Write the loops along the row, from the outermost inwards."""
        if not dims:
            return self._places([Turn("")], folded)
        if len(dims) == 1:
            return self._sweep(dims[0], folded)
        w = self.w

        def turn(counter: str, names: list[str]) -> list[str]:
            w.scopes.append({})
            w.counters[dims[0]] = counter
            self._write_at(len(w.scopes))
            after = self._nest(dims[1:], _grouped(names, folded))
            w.scopes.pop()
            return _names(after)

        after = counted_loop(self.e, "0", f"{dims[0].size}", 1, self._carried(folded), turn)
        return _grouped(after, folded)

    def _sweep(self, dim: Dim, folded: Folded) -> Folded:
        """Write the innermost loop: turns of some vectors, then what is left over."""
        width = self.lanes if dim is self.a.dim else 1
        step = width * self.unroll
        whole = dim.size // step * step
        piece = self.a.piece
        if isinstance(dim.size, Size) or (piece is not None and dim is piece.inner):
            return self._sweep_varying(dim, folded, width, step)
        rest = _rest(whole, dim.size, width)
        if self.a.flat and self.a.units != 1:
            return self._piece(dim, folded, width, rest)
        if whole:
            folded = self._turns("0", str(whole), width, folded)
        return self._places(rest, folded) if rest else folded

    def _sweep_varying(self, dim: Dim, folded: Folded, width: int, step: int) -> Folded:
        """Write the innermost loop where its length varies: whole turns, then a vector at a time, the last in part."""
        e, cut = self.e, self.a.piece
        first, last = "0", f"{dim.size}"
        whole = f"{dim.size // step * step}"
        if cut is not None and dim is cut.inner:
            before = times(e, self.w.counters[cut.outer], dim.size)
            last = smaller(e, e.op(f"sub i64 {cut.length}, {before}"), last)
            whole = times(e, e.op(f"udiv i64 {last}, {step}"), step)
        elif self.a.flat and self.a.units != 1:
            piece = -(-dim.size // (self.a.units * step)) * step
            first = times(e, self.state.start, piece)
            last = smaller(e, times(e, self.state.stop, piece), last)
            whole = smaller(e, last, whole)
        folded = self._turns(first, whole, width, folded, certain=False)
        if step == 1:
            return folded
        begin = larger(e, first, whole)

        def turn(counter: str, names: list[str]) -> list[str]:
            place = Turn(counter)
            if width > 1:
                count = e.op(f"sub i64 {last}, {counter}")
                left = self.w.spread(count, "i64")
                mask = e.op(f"icmp slt {vector('i64', width)} {multiples(1, width)}, {left}")
                place = Turn(counter, mask, self.w.existing_lanes(count))
            return _names(self._places([place], _grouped(names, folded)))

        after = counted_loop(e, begin, last, width, self._carried(folded), turn, certain=False)
        return _grouped(after, folded)

    def _turns(self, start: str, stop: str, width: int, folded: Folded, certain: bool = True) -> Folded:
        """Write a loop whose turns handle some vectors each."""

        def turn(counter: str, names: list[str]) -> list[str]:
            places = [Turn(plus(self.e, counter, u * width)) for u in range(self.unroll)]
            return _names(self._places(places, _grouped(names, folded)))

        carried = self._carried(folded)
        after = counted_loop(self.e, start, stop, width * self.unroll, carried, turn, certain)
        return _grouped(after, folded)

    def _piece(self, dim: Dim, folded: Folded, width: int, rest: list[Turn]) -> Folded:
        """Write a loop over the part of a long axis that this call is to do."""
        e, step = self.e, width * self.unroll
        whole = dim.size // step * step
        piece = -(-dim.size // (self.a.units * step)) * step  # whole turns
        first = times(e, self.state.start, piece)
        beyond = times(e, self.state.stop, piece)
        last = e.call("llvm.smin.i64", "i64", [("i64", beyond), ("i64", str(whole))])
        folded = self._turns(first, last, width, folded, certain=False)
        if not rest:
            return folded
        # Whoever comes to the end does what is left over.
        starts = e.op(f"icmp sle i64 {first}, {whole}")
        ends = e.op(f"icmp sgt i64 {beyond}, {whole}")
        mine = e.op(f"and i1 {starts}, {ends}")
        then, join = e.fresh("rest"), e.fresh("join")
        before = e.block
        e.line(f"br i1 {mine}, label %{then}, label %{join}")
        e.label(then)
        new = self._places(rest, folded)
        e.line(f"br label %{join}")
        inside = e.block
        e.label(join)
        names = [
            e.op(f"phi {kind} [ {a}, %{before} ], [ {b}, %{inside} ]")
            for (kind, a), b in zip(self._carried(folded), _names(new), strict=True)
        ]
        return _grouped(names, folded)

    # What is done at a place.

    def _places(self, places: Sequence[Turn], folded: Folded) -> Folded:
        """Write what is computed at some places side by side; all stores come last, so that no load waits for one."""
        w = self.w
        folded = {fold: [list(names) for names in parts] for fold, parts in folded.items()}
        row = Turn("", w.mask, w.existing)
        scopes: list[dict[Any, str]] = []
        for u, place in enumerate(places):
            self._enter(place, {})
            self._compute()
            for fold, parts in folded.items():
                parts[u] = self.folds.accumulate(fold, parts[u], self.lanes)
            scopes.append(self._leave(row))
        for u, place in enumerate(places):
            self._enter(place, scopes[u])
            self._store(folded, u)
            self._leave(row)
        return folded

    def _enter(self, place: Turn, scope: dict[Any, str]) -> None:
        """Go to a turn of the innermost loop, where this much is known; without loops there is only the row."""
        if self.a.inner:
            self.w.scopes.append(scope)
            self.w.counters[self.a.inner[-1]] = place.counter
        if place.mask is not None:
            self.w.mask, self.w.existing = place.mask, place.existing

    def _leave(self, row: Turn) -> dict[Any, str]:
        """Return to the row; return what was known."""
        self.w.mask, self.w.existing = row.mask, row.existing
        return self.w.scopes.pop() if self.a.inner else {}

    def _compute(self) -> None:
        for node in self.this.order:
            if self.p.depth[node] == self.p.innermost or not self.a.inner:
                if node in self.this.loaded:
                    self.w.scopes[-1][node] = self._load_kept(node)
                else:
                    self.w.write(node)

    def _store(self, folded: Folded, copy: int) -> None:
        w = self.w
        for node in self.this.keeps:
            self._keep(node)
        for fold in self.this.folds:
            if fold.scope == "column":
                self._into_column(fold)
            elif fold.scope == "scan":
                assert fold.value is not None
                w.store_name(folded[fold][copy][0], fold.value.dtype, fold.operand, fold.where)
        for store in self.this.stores:
            self.state.store(store)

    def _into_column(self, fold: LoopFold) -> None:
        """Take the current place into a sum that lies in memory, one per block of rows."""
        w, folds = self.w, self.folds
        assert fold.value is not None
        dtype = fold.value.dtype
        shifts = [Shift(self.state.unit, fold.size)] if self.a.units != 1 else []
        lanes = self.lanes if w.step(fold.where) else 1
        before = w.read(fold.operand, fold.where, dtype, shifts, lanes)
        if self.a.along_outer and self.lanes > 1:  # every lane is a row of its own
            whole = folds.existing(fold, w.wide(fold.source))
            name = folds.horizontal(fold, whole, self.lanes)
        else:
            name = w.wide(fold.source) if lanes > 1 else w.single(fold.source)
        after = folds.apply(fold, before, name, lanes)
        w.store_name(after, dtype, fold.operand, fold.where, shifts)

    # What passes keep for one another, in scratch memory.

    def _kept_place(self, node: Expression) -> str:
        terms, step = [], self.lanes if self.a.along_outer else 1
        for dim in reversed(self.a.inner):
            terms.append((dim, step * node.dtype.itemsize))
            step *= dim.size
        terms.sort(key=lambda term: term[0].number)
        where = self.w.integer((self.p.kept[node], tuple(terms)))
        return self.e.op(f"getelementptr i8, ptr %mine, i64 {where}", "p")

    def _kept_lanes(self, node: Expression) -> int:
        return self.lanes if self.w.is_vector(node) else 1

    def _keep(self, node: Expression) -> None:
        lanes = self._kept_lanes(node)
        kind = vector(memory_type(node.dtype), lanes)
        name = self.w.single(node)
        if node.dtype.kind == "b":
            name = self.e.op(f"zext {vector('i1', lanes)} {name} to {kind}")
        # Lanes beyond a row's end are written too: there is room for them.
        self.e.line(f"store {kind} {name}, ptr {self._kept_place(node)}, align {node.dtype.itemsize}")

    def _load_kept(self, node: Expression) -> str:
        lanes = self._kept_lanes(node)
        kind = vector(memory_type(node.dtype), lanes)
        name = self.e.op(f"load {kind}, ptr {self._kept_place(node)}, align {node.dtype.itemsize}")
        if node.dtype.kind == "b":
            name = self.e.op(f"trunc {kind} {name} to {vector('i1', lanes)}")
        return name


def _names(folded: Folded) -> list[str]:
    """All that folds know, one name after the other."""
    return [name for parts in folded.values() for names in parts for name in names]


def _grouped(names: Sequence[str], like: Folded) -> Folded:
    """Names one after the other, given back to the folds they belong to."""
    following = iter(names)
    return {fold: [[next(following) for _ in known] for known in parts] for fold, parts in like.items()}


def _rest(start: int, stop: int, width: int) -> list[Turn]:
    """The vectors that cover what is left over; the last may be filled in part only."""
    return [
        Turn(str(first), None if stop - first >= width else first_lanes(stop - first, width))
        for first in range(start, stop, width)
    ]


def plus(e: Emitter, counter: str, by: int) -> str:
    """Return a counter some steps on; it never overflows."""
    if counter.isdigit():
        return str(int(counter) + by)
    return e.op(f"add nuw nsw i64 {counter}, {by}") if by else counter


def times(e: Emitter, counter: str, by: int) -> str:
    """Return a counter times a number."""
    if counter.isdigit():
        return f"{int(counter) * by}"
    return e.op(f"mul i64 {counter}, {by}")
