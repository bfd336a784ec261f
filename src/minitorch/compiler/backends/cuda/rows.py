"""Rows of a loop kernel. Enters: a loop that folds along its inner dimensions. Leaves: the phases of its passes."""

from __future__ import annotations

import functools
from collections.abc import Callable

from minitorch.compiler.backends.cuda.arrangement import READ_TOGETHER, SIDE_BY_SIDE, Keeping
from minitorch.compiler.backends.cuda.folds import FLOAT32, kinds, nothing, together
from minitorch.compiler.backends.cuda.loop_writer import LoopWriter, counters_of
from minitorch.compiler.backends.llvm.body import Expression, in_order
from minitorch.compiler.backends.llvm.control import add, counted_loop, multiply, smaller, when
from minitorch.compiler.backends.llvm.loops.loop import LoopFold, Store
from minitorch.compiler.backends.llvm.text import TYPES, literal
from minitorch.compiler.ir.index import total
from minitorch.compiler.ir.sizes import is_fixed, typical

LONG_ROW, LONG_SIDE_BY_SIDE = 32, 8  # elements of a thread's row, from which on it takes more of them


class RowWriter(LoopWriter):
    """A row, in as many passes as its folds depend on each other."""

    def row(self, turn: str, passes: range | list[int]) -> None:
        """Write some passes over the row of this thread's team."""
        e, a = self.e, self.a
        self.w = self.writer()
        mine, lane = self.team_and_lane()
        mine = add(e, multiply(e, turn, a.teams), mine)  # among the rows of this block
        number = mine if a.piece or a.blocks == 1 else add(e, multiply(e, "%block", a.rows), mine)
        conditions = []
        self.has_row = None
        if (
            a.is_ragged
        ):  # what is kept is kept by all: teams without a row look at the last one, and store nothing
            self.has_row = e.op(f"icmp ult i64 {number}, {total(a.outer)}")
            if a.by_blocks and a.teams > 1:
                own = e.op(f"icmp ult i64 {mine}, {a.rows}")
                self.has_row = e.op(f"and i1 {self.has_row}, {own}")
            number = smaller(e, number, f"{total(a.outer) - 1}")
        elif number != "0" and total(a.outer) != a.blocks * a.turns * a.teams:
            conditions.append(e.op(f"icmp ult i64 {number}, {total(a.outer)}"))
            if a.several and a.rows % a.teams:
                conditions.append(e.op(f"icmp ult i64 {mine}, {a.rows}"))

        def there() -> None:
            counters = counters_of(e, number, a.outer)
            self.w.counters.update(zip(a.outer, counters, strict=True))
            for fold in self.rows:
                if self.stages[fold.source] < passes[0]:
                    self.know(fold, self.result_of(fold, lane))
            for each in passes:
                self.one_pass(each, lane)

        self.where_all_hold(conditions, there)

    def one_pass(self, number: int, lane: str) -> None:
        """Write what is known per row, and what is done along it."""
        e, w = self.e, self.w
        stores = [s for s in self.loop.stores if self.stage(s) == number]
        folds = [f for f in self.loop.folds if self.stages[f.source] == number]
        along = [s for s in stores if self.is_inside(s)]
        sinks = [n for s in stores for n in (s.node, *(place for place, _ in s.places))]
        order = in_order(sinks + [f.source for f in folds])
        for node in order:
            if not self.inside[node] and node.kind != "result":
                w.write(node)
        for node in order:
            if self.divides_a_row(node):
                key = ("reciprocal", node.args[1])
                if w.find(key) is None:
                    given = [("float", literal(1.0, FLOAT32)), ("float", w.single(node.args[1]))]
                    w.scopes[-1][key] = e.call("fast.divide", "float", given)
        row_stores = [s for s in stores if s not in along]
        row_folds = [f for f in folds if f.scope == "rows"]
        if row_stores or row_folds:

            def once() -> None:
                w.scopes.append({})
                for store in row_stores:
                    self.store(store)
                for fold in row_folds:
                    self.take(fold, [w.single(fold.source)])
                w.scopes.pop()

            if self.a.team == 1:
                once()
            else:
                first = e.op(f"icmp eq i64 {lane}, 0")
                when(e, first if self.has_row is None else e.op(f"and i1 {first}, {self.has_row}"), once)
        along_folds = [f for f in folds if f.scope != "rows"]
        for fold in along_folds:
            if fold.scope == "check":
                self.check(fold)
        along_folds = [f for f in along_folds if f.scope != "check"]
        if not along and not along_folds:
            return
        if self.keeping is not None:
            self.sweep_and_keep(self.keeping, number, along, along_folds, lane)
        else:
            self.sweep(order, along, along_folds, lane)

    def sweep(self, order: list[Expression], stores: list[Store], folds: list[LoopFold], lane: str) -> None:
        """Write the loop along a row: each thread of the team takes every so manieth element."""
        e, a = self.e, self.a
        carrying = [f for f in folds if not self.is_in_memory(f)]
        carried = [pair for f in carrying for pair in zip(kinds(f), nothing(f), strict=True)]
        length = total(a.inner)

        def turn(places: list[str], names: list[str], neighbours: int = 1) -> list[str]:
            return self.at_places(places, a.inner, order, stores, folds, names, neighbours)

        def one(counter: str, names: list[str]) -> list[str]:
            return turn([counter], names)

        def several(number: str, names: list[str]) -> list[str]:
            first = add(e, multiply(e, number, span), lane)
            return turn([add(e, first, str(k * a.team)) for k in range(together_at)], names)

        # Of a long row there is much to wait for, if little is read at each place.
        read = sum(node.kind == "load" and self.inside[node] for node in order)
        long = read <= 2 and typical(length) >= LONG_ROW * a.team
        together_at = LONG_SIDE_BY_SIDE if long else SIDE_BY_SIDE
        span = a.team * together_at
        if a.vectors > 1:
            names = self.sweep_neighbours(turn, carried, lane)
        elif a.piece:
            start = add(e, multiply(e, "%block", a.piece), lane)
            stop = smaller(e, multiply(e, add(e, "%block", "1"), a.piece), f"{length}")
            names = counted_loop(e, start, stop, a.team, carried, one, certain=False)
        else:
            names = [first for _, first in carried]
            whole = length // span
            fixed = is_fixed(length)
            if whole:
                names = counted_loop(e, "0", f"{whole}", 1, carried, several, certain=fixed)
            if not fixed or whole * span < length:
                left = [(kind, name) for (kind, _), name in zip(carried, names, strict=True)]
                start = add(e, lane, f"{whole * span}")
                certain = fixed and a.team == 1
                names = counted_loop(e, start, f"{length}", a.team, left, one, certain=certain)
        self.leave(carrying, names)

    def sweep_neighbours(
        self, turn: Callable[..., list[str]], carried: list[tuple[str, str]], lane: str
    ) -> list[str]:
        """Write the loop along a row, of which each thread takes neighbours: some several times, then once, then those
        that are left one by one.
        """
        e, a = self.e, self.a
        length, start, stop = total(a.inner), multiply(e, lane, a.vectors), f"{total(a.inner)}"
        if a.piece:
            start = add(e, start, multiply(e, "%block", a.piece))
            stop = smaller(e, multiply(e, add(e, "%block", "1"), a.piece), stop)

        def several(times: int) -> Callable[[str, list[str]], list[str]]:
            def one(first: str, names: list[str]) -> list[str]:
                firsts = [add(e, first, str(k * a.vectors * a.team)) for k in range(times)]
                places = [add(e, each, str(k)) for each in firsts for k in range(a.vectors)]
                step = times * a.vectors * a.team
                return [*turn(places, names[:-1], a.vectors), e.op(f"add i64 {first}, {step}")]

            return one

        known, kinds_known = [name for _, name in carried], [kind for kind, _ in carried]
        left = length if is_fixed(length) and not a.piece else None  # of the row, where that is known
        for times in (READ_TOGETHER, 1):
            step = times * a.vectors * a.team
            if left is not None and left < (step if times > 1 else 1):
                continue
            left = None if left is None else left % step
            given = [*zip(kinds_known, known, strict=True), ("i64", start)]
            mine = step - (a.team - 1) * a.vectors  # from a thread's first element to beyond its last
            before = add(e, stop, str(1 - mine))
            *known, start = counted_loop(e, start, before, step, given, several(times), certain=False)
        if not is_fixed(length) or length % a.vectors:
            given = list(zip(kinds_known, known, strict=True))
            single = lambda place, names: turn([place], names)
            known = counted_loop(e, start, stop, 1, given, single, certain=False)
        return known

    def leave(self, folds: list[LoopFold], names: list[str]) -> None:
        """Leave what this thread has folded where others find it."""
        known = iter(names)
        for fold in folds:
            mine = [next(known) for _ in kinds(fold)]
            if fold.scope == "total" and self.has_row is not None:
                when(self.e, self.has_row, functools.partial(self.take, fold, mine))
            elif fold.scope == "total":
                self.take(fold, mine)
            elif fold.scope == "row" and self.a.team == 1:
                self.know(fold, mine)
            elif fold.scope == "row":
                self.slots[fold].put("%thread", mine)

    def sweep_and_keep(
        self, keeping: Keeping, number: int, stores: list[Store], folds: list[LoopFold], lane: str
    ) -> None:
        """Write the way along a row without a loop; what a later pass needs again is kept."""
        e, a, w = self.e, self.a, self.w
        length, count = total(a.inner), a.vectors
        names = [name for fold in folds for name in nothing(fold)]
        first = multiply(e, lane, count)
        for k in range(0, self.each, count):
            place = add(e, first, str(k * a.team))
            exists = None
            if (k + count) * a.team > length:  # some have no element any more, and look at the last ones
                exists = e.op(f"icmp ult i64 {place}, {length}")
                place = e.op(f"select i1 {exists}, i64 {place}, i64 {length - count}")
            stored: list[list[str]] = [[] for _ in stores]
            for neighbour in range(count):
                w.scopes.append({})
                self.go_to(add(e, place, str(neighbour)), a.inner)
                if count > 1:
                    if neighbour == 0:
                        read = self.read_vectors(keeping.computed[number], a.inner, count)
                    w.scopes[-1].update(read[neighbour])
                self.at_kept_place(keeping, number, k + neighbour)
                after, known = [], iter(names)
                for fold in folds:
                    so_far = [next(known) for _ in kinds(fold)]
                    new = together(e, fold, so_far, [w.single(fold.source)])
                    if exists is not None:
                        kind = TYPES[fold.dtype]
                        new = [e.op(f"select i1 {exists}, {kind} {new[0]}, {kind} {so_far[0]}")]
                    after += new
                names = after
                for found, store in zip(stored, stores, strict=True):
                    found.append(w.single(self.unrounded(store)))
                w.scopes.pop()

            def store_all(place: str = place, stored: list[list[str]] = stored) -> None:
                w.scopes.append({})
                self.go_to(place, a.inner)
                for store, found in zip(stores, stored, strict=True):
                    self.store_vector(store, found)
                w.scopes.pop()

            if exists is not None and self.has_row is not None:
                exists = e.op(f"and i1 {exists}, {self.has_row}")
            exists = exists or self.has_row
            if exists is None:
                store_all()
            elif stores:
                when(e, exists, store_all)
        self.leave(folds, names)

    def at_kept_place(self, keeping: Keeping, number: int, k: int) -> None:
        """Write what is computed in a pass at a thread's k-th place; what was kept of it is known."""
        e, w = self.e, self.w
        for node in keeping.used[number]:
            slot = keeping.nodes.index(node) * self.each + k
            w.scopes[-1][node] = e.op(f"kept {slot} {TYPES[node.dtype]}")
        for node in keeping.computed[number]:
            if node not in self.needed:
                continue
            self.write_inside(node)
            if node in keeping.nodes:
                slot = keeping.nodes.index(node) * self.each + k
                e.line(f"keep {slot} {TYPES[node.dtype]} {w.single(node)}")
