"""What kernels of loops have in common, rows or columns. Enters: a `Loop` and its `Arrangement`. Leaves: phases."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from minitorch.compiler.backends.cuda.arrangement import WARP, Arrangement, is_atomic, is_vector, keeping
from minitorch.compiler.backends.cuda.folds import (
    FLOAT32,
    ExponentialSum,
    Slots,
    ended,
    ended_exponentials,
    exponentials,
    kinds,
    together,
)
from minitorch.compiler.backends.cuda.operands import nothing_failed
from minitorch.compiler.backends.cuda.small_products import VECTOR_BYTES
from minitorch.compiler.backends.cuda.words import BlockWriter
from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.body import Expression, in_order
from minitorch.compiler.backends.llvm.control import known, take_apart, when, when_all
from minitorch.compiler.backends.llvm.loops.loop import Loop, LoopFold, Store
from minitorch.compiler.backends.llvm.loops.passes import find_stages
from minitorch.compiler.backends.llvm.text import TYPES, Emitter, memory_type
from minitorch.compiler.backends.llvm.writer import Shift, Writer
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.index import Dim, total
from minitorch.compiler.ir.sizes import Size, is_fixed

FOLDED_AT_ONCE = FOLDED_BY_ALL = 8  # what so many threads know, one folds; and in the end everybody
MOST_COUNTED = (1 << 31) - 1  # elements whose numbers 32 bits hold
PER_ROW, PER_ELEMENT = 2, 3  # how many scopes deep: what is known of a row, and of an element of it


class LoopWriter:
    """What is written of a loop whatever it folds: places, what is read and stored there, what a team has found."""

    def __init__(
        self, loop: Loop, nodes: list[Expression], arrangement: Arrangement, guard: int | None
    ) -> None:
        self.loop, self.nodes, self.a, self.guard = loop, nodes, arrangement, guard
        self.block = BlockWriter()
        self.e = self.block.e
        largest = [
            LoopFold(f.largest, "maximum", f.source, "row")
            for f in loop.folds
            if isinstance(f, ExponentialSum)
        ]
        self.stages = find_stages(dataclasses.replace(loop, folds=[*loop.folds, *largest]), nodes)
        fixed, along = arrangement.outer, arrangement.inner
        if arrangement.columns:
            fixed, along = along, fixed
        inner = set(along)
        self.inside = {n: any(arrangement.space.now[d] in inner for d in n.dims) for n in nodes}
        self.depths = dict.fromkeys(fixed, PER_ROW) | dict.fromkeys(along, PER_ELEMENT)
        self.shared = 0
        self.slots: dict[LoopFold, Slots] = {}
        for fold in loop.folds:
            in_slots = fold.scope == "column" and arrangement.teams > 1
            if in_slots or fold.scope in ("total", "rows") or (fold.scope == "row" and arrangement.team > 1):
                self.slots[fold] = Slots(self.e, fold, self.shared)
                self.shared += self.slots[fold].size * arrangement.threads
        self.keeping = keeping(loop, self.stages, self.inside) if arrangement.keeps else None
        # Elements of a row for a thread.
        self.each = (
            -(-total(arrangement.inner) // (arrangement.vectors * arrangement.team)) * arrangement.vectors
        )
        self.kept_count = len(self.keeping.nodes) * self.each if self.keeping is not None else 0
        sinks = [self.unrounded(store) for store in loop.stores] + [fold.source for fold in loop.folds]
        self.needed = set(in_order(sinks))
        self.rows = [f for f in loop.folds if f.scope == "row"]
        self.totals = [f for f in loop.folds if f.scope in ("total", "rows")]
        self.has_row: str | None = None  # whether this thread's team has one, where that is not sure
        self.w = self.writer()

    def writer(self) -> Writer:
        """Return a writer that knows nothing yet."""
        pointers = [f"%operand{place}" for place in range(len(self.loop.body.operands))]
        w = Writer(self.e, 1, None, self.a.space, {}, self.depths, pointers)
        w.scopes.append({})
        return w

    def read_vectors(self, order: list[Expression], dims: list[Dim], count: int) -> list[dict[Any, str]]:
        """Read neighbours at once where they lie side by side; of each what is known then."""
        e, a = self.e, self.a
        known: list[dict[Any, str]] = [{} for _ in range(count)]
        for node in order:
            if node.kind == "load" and is_vector(self.loop, a.space, dims, node, count):
                kind = memory_type(node.dtype)
                place = self.w.pointer(node.data.operand, node.data.where, kind)
                align = min(node.dtype.itemsize * count, VECTOR_BYTES)
                if kind == "i16":
                    found = self.read_halves(place, count, align)
                else:
                    whole = e.op(f"load <{count} x {kind}>, ptr {place}, align {align}")
                    lanes = range(count)
                    found = [e.op(f"extractelement <{count} x {kind}> {whole}, i32 {n}") for n in lanes]
                for name, names in zip(found, known, strict=True):
                    names[node] = e.op(f"trunc i8 {name} to i1") if node.dtype.kind == "b" else name
        return known

    def read_halves(self, place: str, count: int, align: int) -> list[str]:
        """Read neighbours of 16 bits, two of them as one word: a bfloat16 is widened by one instruction on that."""
        e, names = self.e, []
        whole = e.op(f"load <{count // 2} x i32>, ptr {place}, align {align}")
        for n in range(count // 2):
            word = e.op(f"extractelement <{count // 2} x i32> {whole}, i32 {n}")
            names += [e.op(f"trunc i32 {half} to i16") for half in (word, e.op(f"lshr i32 {word}, 16"))]
        return names

    def unrounded(self, store: Store) -> Expression:
        """Return what `store_vector` is given: a float32 that it rounds to a half itself, or what is stored."""
        node = store.node
        rounds = (node.kind, node.data) == ("map", "cast") and node.dtype in HALVES
        return node.args[0] if rounds and node.args[0].dtype == FLOAT32 and self.a.vectors > 1 else node

    def store_vector(self, store: Store, names: list[str]) -> None:
        """Write a store of neighbours, the first of which is where the writer is."""
        e, dtype = self.e, store.node.dtype
        if self.unrounded(store) is store.node:
            self.store_neighbours(store, names)
            return

        def exactly() -> None:
            cast = functions.emit_function
            self.store_neighbours(store, [cast(e, "cast", [x], FLOAT32, 1, to=dtype) for x in names])

        if len(names) == 1:
            exactly()
            return
        # The instruction that rounds has one nan, without a sign: where there is one, all are rounded once more. (To
        # look at each by itself would take as many instructions as to compute a cheap function.)
        nearest = [e.call(f"fast.to_{dtype.name}", "i16", [("float", x)]) for x in names]
        self.store_neighbours(store, nearest)
        pairs = zip(names[::2], names[1::2], strict=True)
        nans = [e.op(f"fcmp uno float {x}, {y}") for x, y in pairs]
        when(e, functools.reduce(lambda some, one: e.op(f"or i1 {some}, {one}"), nans), exactly)

    def store_neighbours(self, store: Store, names: list[str]) -> None:
        """Write a store of neighbours as they are."""
        e, count = self.e, len(names)
        dtype, kind = store.node.dtype, memory_type(store.node.dtype)
        if count == 1:
            self.w.store_name(names[0], dtype, store.operand, store.where)
            return
        whole = "poison"
        for lane, name in enumerate(names):
            name = e.op(f"zext i1 {name} to i8") if dtype.kind == "b" else name
            whole = e.op(f"insertelement <{count} x {kind}> {whole}, {kind} {name}, i32 {lane}")
        place = self.w.pointer(store.operand, store.where, kind)
        align = min(dtype.itemsize * count, VECTOR_BYTES)
        e.line(f"store <{count} x {kind}> {whole}, ptr {place}, align {align}")

    def stage(self, store: Store) -> int:
        """Return in which pass a store can be made."""
        return max(self.stages[n] for n in (store.node, *(place for place, _ in store.places)))

    def where_all_hold(self, conditions: list[str], there: Callable[[], None]) -> None:
        """Write something under conditions, one of which is that no index was found out of range."""
        when_all(self.e, conditions + nothing_failed(self.e, self.guard), there)

    def team_and_lane(self) -> tuple[str, str]:
        """Return which of its block's teams this thread belongs to, and as which of that team's threads."""
        e, a = self.e, self.a
        if a.team == 1 or a.teams == 1:
            return ("%thread", "0") if a.team == 1 else ("0", "%thread")
        return e.op(f"udiv i64 %thread, {a.team}"), e.op(f"urem i64 %thread, {a.team}")

    def know(self, fold: LoopFold, names: list[str]) -> None:
        """Note what a fold over a row has come to."""
        assert fold.value is not None
        given, known = self.loop.body.given, self.w.scopes[-1]
        if isinstance(fold, ExponentialSum):
            assert fold.largest is not None
            known[given[fold.largest]] = names[0]
            known[given[fold.value]] = ended_exponentials(self.e, names)
        else:
            known[given[fold.value]] = ended(self.e, fold, names)

    def divides_a_row(self, node: Expression) -> bool:
        """Whether the elements of a row are divided by a number of it: a multiplication for each will do."""
        return (
            (node.kind, node.data) == ("map", "divide")
            and node.dtype == FLOAT32
            and self.inside[node]
            and not self.inside[node.args[1]]
            and node.args[1].kind != "constant"
        )

    def write_inside(self, node: Expression) -> None:
        """Write an expression that differs in a row."""
        w = self.w
        if self.divides_a_row(node) and w.find(node) is None:
            reciprocal = w.find(("reciprocal", node.args[1]))
            if reciprocal is not None:
                w.scopes[-1][node] = self.e.op(f"fmul float {w.single(node.args[0])}, {reciprocal}")
                return
        w.write(node)

    def is_inside(self, store: Store) -> bool:
        """Whether a store is made at every element of a row."""
        nodes = (store.node, *(place for place, _ in store.places))
        inner = set(self.a.inner)
        return any(self.inside[n] for n in nodes) or any(d in inner for d, _ in self.a.space(store.where)[1])

    def at_places(
        self,
        places: list[str],
        dims: list[Dim],
        order: list[Expression],
        stores: list[Store],
        folds: list[LoopFold],
        names: list[str],
        neighbours: int = 1,
    ) -> list[str]:
        """Write what is done at some places of the loops `dims`; all loads come before the stores.

        names: what the folds know, and what they know then is returned. (Those of columns that lie in memory know
        nothing.) neighbours: so many places follow each other, and are read at once.
        """
        w, scopes = self.w, []
        for number, place in enumerate(places):
            w.scopes.append({})
            self.go_to(place, dims)
            if neighbours > 1:
                if number % neighbours == 0:
                    read = self.read_vectors(order, dims, neighbours)
                w.scopes[-1].update(read[number % neighbours])
            for node in order:
                if self.inside[node]:
                    self.write_inside(node)
            scopes.append(w.scopes.pop())
        left = iter(names)
        known = {f: [next(left) for _ in kinds(f)] for f in folds if not self.is_in_memory(f)}
        for fold in folds:
            if isinstance(fold, ExponentialSum):
                found = []
                for scope in scopes:
                    w.scopes.append(scope)
                    found.append([w.single(fold.source)])
                    w.scopes.pop()
                known[fold] = exponentials(self.e, [known[fold], *found])
        for place, scope in zip(places, scopes, strict=True):
            w.scopes.append(scope)
            self.go_to(place, dims)
            self.at_place(stores, folds, known)
            w.scopes.pop()
        return [name for names in known.values() for name in names]

    def at_place(self, stores: list[Store], folds: list[LoopFold], known: dict[LoopFold, list[str]]) -> None:
        """Take the current place into what folds know, and store what is stored there."""
        e, w = self.e, self.w
        for fold in folds:
            if fold not in known or isinstance(fold, ExponentialSum):
                continue
            new = [w.single(fold.source)]
            if fold.is_arg:
                new.append(w.integer(w.space(self.loop.position)))
            known[fold] = together(e, fold, known[fold], new)
            if fold.scope == "scan":
                assert fold.value is not None
                w.store_name(known[fold][0], fold.value.dtype, fold.operand, fold.where)
        for fold in folds:
            if self.is_in_memory(fold):
                self.into_column(fold)
        for store in stores:
            self.store(store)

    def is_in_memory(self, fold: LoopFold) -> bool:
        """Whether what a fold knows lies in memory, or in shared memory, and not in names."""
        return fold.scope == "column" and not self.a.columns

    def go_to(self, place: str, dims: list[Dim]) -> None:
        """Go to a place of some loops."""
        counters = counters_of(self.e, place, dims)
        self.w.counters.update(zip(dims, counters, strict=True))

    def store(self, store: Store) -> None:
        """Write a store; one that adds, so that others may add to the same place."""
        w, e, dtype = self.w, self.e, store.node.dtype
        shifts = [Shift(w.single(node), stride) for node, stride in store.places]
        if store.function == "set":
            w.store(store.node, store.operand, store.where, shifts)
        elif is_atomic(self.loop):
            kind = TYPES[dtype]
            place = w.pointer(store.operand, store.where, kind, shifts)
            word = "fadd" if dtype.kind == "f" else "add"
            e.op(f"atomicrmw {word} ptr {place}, {kind} {w.single(store.node)} monotonic")
        else:
            before = w.read(store.operand, store.where, dtype, shifts, 1)
            after = functions.emit_function(e, "add", [before, w.single(store.node)], dtype, 1)
            w.store_name(after, dtype, store.operand, store.where, shifts)

    def take(self, fold: LoopFold, names: list[str]) -> None:
        """Take something into what this thread knows of a fold over all rows."""
        slots = self.slots[fold]
        slots.put("%thread", together(self.e, fold, slots.get("%thread"), names))

    def check(self, fold: LoopFold) -> None:
        """Say so in memory, if an index is out of range."""

        def say() -> None:
            for place in (fold.operand, fold.operand + 1):  # which check it was, and that there was one
                self.e.line(f"store i64 1, ptr %operand{place}, align 8")

        when(self.e, self.w.single(fold.source), say)

    def result_of(self, fold: LoopFold, lane: str) -> list[str]:
        """Fold what the threads of this thread's team have left."""
        first = "0" if self.a.teams == 1 else self.e.op(f"sub i64 %thread, {lane}")
        return self.slots[fold].fold_of(first, *left_of_team(self.a.team))

    def narrow(self, folds: list[LoopFold], team: int, in_warps: bool = False) -> None:
        """Fold what many threads of a team know into some of them: in warps first, which need not wait for others."""
        e, rounds = self.e, _rounds(team) if folds else []
        for number, (width, among, step) in enumerate(rounds):
            kept = _folded(among)

            def fold_mine(among: int = among, kept: int = kept, step: int = step) -> None:
                for fold in folds:
                    names = self.slots[fold].fold_of("%thread", among // kept, kept * step)
                    self.slots[fold].put("%thread", names)

            goes_on = number + 1 < len(rounds) and rounds[number + 1][0] <= WARP
            with self.block.phase(in_warps or goes_on):
                lane = "%thread" if width == self.a.threads else e.op(f"urem i64 %thread, {width}")
                mine = e.op(f"icmp ult i64 {lane}, {kept * step}")
                if step > 1:
                    first = e.op(f"icmp eq i64 {e.op(f'urem i64 {lane}, {step}')}, 0")
                    mine = e.op(f"and i1 {mine}, {first}")
                when(e, mine, fold_mine)

    def into_column(self, fold: LoopFold) -> None:
        """Take the current place into a sum that lies in memory; no other thread has this column."""
        w = self.w
        if fold in self.slots:
            self.take(fold, [w.single(fold.source)])
            return
        assert fold.value is not None
        dtype = fold.value.dtype
        shifts = [Shift("%block", fold.size)] if self.a.several else []
        before = w.read(fold.operand, fold.where, dtype, shifts, 1)
        after = together(self.e, fold, [before], [w.single(fold.source)])
        w.store_name(after[0], dtype, fold.operand, fold.where, shifts)


def counters_of(e: Emitter, number: str, dims: list[Dim]) -> list[str]:
    """Return the counters of nested loops, outermost first, out of the number of their turn.

    Dividing numbers of 64 bits takes a GPU many instructions: if 32 are enough, it is done with those. (Of sizes that
    vary they are: a program is not run where a kernel has more `elements` than `MOST_COUNTED`.)
    """
    sizes = [d.size for d in dims]
    if len(dims) < 2 or known(number) is not None or (is_fixed(*sizes) and total(dims) > MOST_COUNTED):
        return take_apart(e, number, sizes)
    narrow = e.op(f"trunc i64 {number} to i32")
    inner = []
    for each in reversed(sizes[1:]):
        size = e.op(f"trunc i64 {each} to i32") if isinstance(each, Size) else each
        quotient = e.op(f"udiv i32 {narrow}, {size}")
        inner.append(e.op(f"sub i32 {narrow}, {e.op(f'mul i32 {quotient}, {size}')}"))
        narrow = quotient
    return [e.op(f"zext i32 {each} to i64") for each in (narrow, *reversed(inner))]


def _folded(among: int) -> int:
    """Return how many threads fold what so many know."""
    return max(1, among // FOLDED_AT_ONCE)


def _rounds(team: int) -> list[tuple[int, int, int]]:
    """Return how what a team's threads know is folded. By round: in which width, how many know, and how far apart."""
    rounds, width, among, step = [], min(team, WARP), min(team, WARP), 1
    while among > (FOLDED_BY_ALL if team <= WARP else 1):
        rounds.append((width, among, step))
        among = _folded(among)
    if team > WARP:
        among, step = team // WARP, WARP
        while among > FOLDED_BY_ALL:
            rounds.append((team, among, step))
            among = _folded(among)
    return rounds


def left_of_team(team: int) -> tuple[int, int]:
    """Return how many of a team's threads know something in the end, for everybody to fold, and how far apart."""
    if team > WARP:
        among = team // WARP
        return (among if among <= FOLDED_BY_ALL else _folded(among)), WARP
    return (team if team <= FOLDED_BY_ALL else _folded(team)), 1
