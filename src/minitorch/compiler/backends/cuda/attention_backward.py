"""The kernels of attention's gradients. Enters: an `Attention`. Leaves: what writes those of queries, or of keys."""

from __future__ import annotations

import functools

import numpy as np

from minitorch.compiler.backends.cuda.attention import COPIED, SUM, Attention
from minitorch.compiler.backends.cuda.fragments import Results
from minitorch.compiler.backends.cuda.tiles import (
    FLOAT32,
    GROUPS_OF_KEYS,
    GROUPS_OF_QUERIES,
    HALF_OF_KEYS,
    HALF_OF_QUERIES,
    LOG2_E,
    OF_KEYS,
    OF_QUERIES,
    RESULT,
    ROW,
    ZERO,
    Tiles,
)
from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.control import add, multiply, smaller, when
from minitorch.compiler.backends.llvm.text import TYPES, literal
from minitorch.compiler.ir.halves import HALVES


class Backward(Tiles):
    """A block has keys, for the gradients of keys and values, and goes along the queries; or the other way round.

    What it has is multiplied with what it meets, once for the scores and once for the gradients of the probabilities.
    """

    def __init__(self, attention: Attention, exact: bool, of_keys: bool) -> None:
        self.of_keys = of_keys
        super().__init__(attention, exact)
        a = attention
        assert a.g is not None
        sizes = (a.query.size, a.key.size)
        self.own, self.along = sizes[::-1] if of_keys else sizes
        reach = (a.band.below, a.band.above)
        self.low, self.high = reach[::-1] if of_keys else reach
        self.heavy_last = not of_keys
        self.products = 4 if of_keys else 3
        self.name = f"gradients of {'keys and values' if of_keys else 'queries'} of attention"
        self.mine, self.met = [(a.q, a.g), (a.k, a.v)][:: -1 if of_keys else 1]

    def shape(self) -> tuple[int, int, bool]:
        """Return strips of rows for a warp, how many of the others are gone along at once, and where own rows are."""
        if self.a.dtype in HALVES:
            return (HALF_OF_KEYS if self.of_keys else HALF_OF_QUERIES)[self.a.size]
        return (OF_KEYS if self.of_keys else OF_QUERIES)[self.a.size]

    def group_shape(self) -> tuple[int, int, int]:
        """Return warps of a block, how many of the others are gone along at once, and blocks of a multiprocessor."""
        return (GROUPS_OF_KEYS if self.of_keys else GROUPS_OF_QUERIES)[self.a.size]

    def write(self) -> None:
        """Write the phases."""
        a, block, e = self.a, self.block, self.e
        buffers = self.buffer(4 * self.tile)  # two to read from, and two to copy to meanwhile
        if self.f.in_registers:
            assert 4 * self.tile >= 2 * self.rows
            places = [buffers + which * self.rows * self.f.row_bytes for which in range(2)]
        else:
            places = [self.buffer(self.rows) for _ in range(2)]
        held = [self.f.held() for _ in range(2)]
        second = [self.f.slots(2) for _ in range(max(a.size, self.tile) // 8)]
        scores, slopes = (self.f.results(self.tile // 8) for _ in range(2))
        results = [self.f.results(a.size // 8) for _ in range(2 if self.of_keys else 1)]
        factors = [self.f.slots(4) for _ in range(self.strips)]
        of_rows = [[block.variable() for _ in range(2 * self.numbers)] for _ in range(self.strips)]
        coming = [block.variable() for _ in range(self.numbers)]
        listed = self.shared  # what there is one of for each query that is met, and will be in the next turn
        self.shared += 2 * self.tile * self.listed_bytes if self.of_keys else 0

        def load_listed(number: str) -> None:
            """Read the numbers of one query in each thread: of a tile to come."""
            mine = add(e, multiply(e, number, self.tile), e.op(f"and i64 %thread, {self.tile - 1}"))
            counters, query = self.at()[1], smaller(e, mine, f"{self.along - 1}")
            found = [*self.of_query(counters, query), self.sum_of_query(counters, query)]
            for slot, name in zip(coming, found, strict=True):
                block.keep(slot, name)

        def store_listed(number: str) -> None:
            def todo() -> None:
                near = self.listed(listed, number, "%thread")
                for which, slot in enumerate(coming):
                    place = e.op(f"getelementptr float, ptr {near}, i64 {which}")
                    e.line(f"store float {block.kept(slot)}, ptr {place}, align 4")

            when(e, e.op(f"icmp ult i64 %thread, {self.tile}"), todo)

        with block.phase():
            number, counters = self.at()
            for which, rows in enumerate(self.mine):
                first = multiply(e, number, self.rows)
                self.copy(rows, first, self.rows, self.limit(self.own, self.rows), str(places[which]))
            e.line("commit")
            self.clear(*results)
            if not self.of_keys:
                self.keep_rows(of_rows, number, counters)
            self.arrived()
        if not self.of_keys:
            totals = [slot for slots in of_rows for slot in slots[-2:]]
            self.exchange(totals, [block.variable() for _ in totals], self.sum_of)
            with block.phase(waits=False):
                self.store_sums(of_rows)
        if self.f.in_registers:
            for which in range(2):
                self.f.hold(held[which], str(places[which]))
        with block.phase(waits=False):
            start, _ = self.bounds()
            self.copy_met(self.met, buffers, start)
            if self.of_keys:
                load_listed(start)
                store_listed(start)
        with block.turns_between(self.bounds) as turn:
            with block.phase():
                self.arrived()
            with block.phase(waits=False):
                self.copy_met(self.met, buffers, add(e, turn, "1"))
                self.clear(scores, slopes)
                if self.of_keys:
                    load_listed(add(e, turn, "1"))
            buffer = [functools.partial(self.near, buffers, turn, which) for which in range(2)]
            for which, made in enumerate((scores, slopes)):
                self.f.multiply_along(made, held[which], str(places[which]), second, buffer[which])
            self.f.multiplied()
            with block.phase(waits=False):
                number = self.at()[0]
                todo = functools.partial(self.take_slopes, scores, slopes, number, turn, of_rows, listed)
                self.within(number, turn, todo)
            for which, made in enumerate((slopes, scores)[: len(results)]):
                self.f.multiply_across(results[which], made, factors, second, buffer[which])
            self.f.multiplied()
            if self.of_keys:
                with block.phase(waits=False):
                    store_listed(add(e, turn, "1"))
        with block.phase(waits=False):
            number = self.at()[0]
            for name, made, rows in zip("kv" if self.of_keys else "q", results, self.met, strict=False):
                dropped = a.kept_factor if name == "v" else 1.0
                factor = literal(np.float32(rows.factor * a.written[name].factor * dropped), FLOAT32)
                self.store(name, made, [[factor] * 2] * self.strips, number)
            e.line("wait 0")

    def keep_rows(self, slots: list[list[int]], number: str, counters: list[str]) -> None:
        """Keep what there is one of for each query, of the queries of each thread; of sums what this thread adds."""
        rows, _, _ = self.places(number, "0")
        for strip, halves in enumerate(rows):
            for half, row in enumerate(halves):
                existing = smaller(self.e, row, f"{self.own - 1}")
                numbers = [*self.of_query(counters, existing), self.part_of_sum(counters, existing)]
                for which, name in enumerate(numbers):
                    self.block.keep(slots[strip][2 * which + half], name)

    def part_of_sum(self, counters: list[str], query: str) -> str:
        """Return a thread's part of the sum of "g" times "o" along a head: some 16 bytes of a row at a time."""
        a, e = self.a, self.e
        assert a.g is not None
        chunk = COPIED // a.g.dtype.itemsize
        column = multiply(e, self.f.lanes()[2], chunk)
        total = ZERO
        bases = [self.given(a.g, counters), self.matrix(a.of_queries[2], (ROW, 2), counters)]
        for step in range(0, a.size, 4 * chunk):
            both = []
            for rows, base in zip((a.g, a.of_queries[2]), bases, strict=True):
                place = add(e, add(e, multiply(e, query, rows.row), column), str(step))
                both.append(self.read_chunk(rows.dtype, base, place, chunk))
            for x, y in zip(*both, strict=True):
                total = e.call("llvm.fma.f32", "float", [("float", x), ("float", y), ("float", total)])
        return self.scaled(total, a.g.factor)

    def read_chunk(self, dtype: np.dtype, base: str, place: str, count: int) -> list[str]:
        """Return some neighbours in memory as float32."""
        e = self.e
        there = e.op(f"getelementptr {TYPES[dtype]}, ptr {base}, i64 {place}")
        kind = f"<{count} x {TYPES[dtype]}>"
        found = e.op(f"load {kind}, ptr {there}, align {min(COPIED, count * dtype.itemsize)}")
        each = [e.op(f"extractelement {kind} {found}, i32 {k}") for k in range(count)]
        return [functions.emit_function(e, "cast", [one], dtype, 1, to=FLOAT32) for one in each]

    def store_sums(self, slots: list[list[int]]) -> None:
        """Write the sums of the queries of each thread, for the gradients of keys."""
        e, block = self.e, self.block
        number, counters = self.at()
        rows, _, _ = self.places(number, "0")
        is_mine = e.op(f"icmp eq i64 {self.f.lanes()[2]}, 0")
        for strip, halves in enumerate(rows):
            for half, row in enumerate(halves):
                total = block.kept(slots[strip][2 * (self.numbers - 1) + half])
                target = self.row_of((RESULT, SUM), self.a.of_queries[0], counters, row)
                exists = e.op(f"icmp slt i64 {row}, {self.own}")

                def todo(total: str = total, target: str = target) -> None:
                    e.line(f"store float {total}, ptr {target}, align 4")

                when(e, e.op(f"and i1 {is_mine}, {exists}"), todo)

    @property
    def numbers(self) -> int:
        """How many numbers there are of each query."""
        return 2 if self.is_plain else 3

    @property
    def listed_bytes(self) -> int:
        """How many bytes they take in shared memory."""
        return 8 if self.is_plain else 16

    def of_query(self, counters: list[str], query: str) -> list[str]:
        """Return what is subtracted from a query's scores: the largest, and to the base 2 the logarithm of their sum.

        Of plain scores the two as one, to the base 2.
        """
        e = self.e
        places = [self.row_of((ROW, n), self.a.of_queries[n], counters, query) for n in range(2)]
        most, log = (e.op(f"load float, ptr {place}, align 4") for place in places)
        if not self.is_plain:
            return [most, log]
        return [e.call("llvm.fma.f32", "float", [("float", most), ("float", LOG2_E), ("float", log)])]

    def sum_of_query(self, counters: list[str], query: str) -> str:
        """Return Σ p·g along the keys, of the probabilities and their gradient: that of "g" times "o" along a head."""
        place = self.row_of((RESULT, SUM), self.a.of_queries[0], counters, query)
        return self.e.op(f"load float, ptr {place}, align 4")

    def listed(self, first: int, turn: str, number: str) -> str:
        """Return where the numbers of a tile's query lie in shared memory."""
        e = self.e
        place = add(e, multiply(e, e.op(f"and i64 {turn}, 1"), self.tile), number)
        where = add(e, multiply(e, place, self.listed_bytes), str(first))
        return e.op(f"getelementptr i8, ptr %shared, i64 {where}")

    def read_listed(self, near: str) -> list[str]:
        """Return the numbers of a query from shared memory."""
        e, count = self.e, self.listed_bytes // 4
        all_ = e.op(f"load <{count} x float>, ptr {near}, align {self.listed_bytes}")
        return [e.op(f"extractelement <{count} x float> {all_}, i32 {k}") for k in range(self.numbers)]

    def take_slopes(
        self,
        scores: Results,
        slopes: Results,
        number: str,
        turn: str,
        of_rows: list[list[int]],
        listed: int,
        masked: bool,
    ) -> None:
        """Make probabilities of the scores, and of their gradients those of the products.

        of_rows, listed: where the numbers are that there are of each query, of a thread's rows or its columns.
        """
        a, e, block = self.a, self.e, self.block
        assert a.g is not None
        _, counters = self.at()
        rows, columns, apart = self.places(number, turn)
        near = [self.listed(listed, turn, each) for each in self.f.pair(self.f.lanes()[2])]
        for n in range(len(scores[0])):
            known: list[list[str]] = []
            moved = [add(e, column, str(8 * n)) for column in columns]
            if self.of_keys:
                further = 8 * n * self.listed_bytes
                places = [e.op(f"getelementptr i8, ptr {each}, i64 {further}") for each in near]
                known = [self.read_listed(each) for each in places]
            for strip in range(self.strips):
                for k, (slot, other) in enumerate(zip(scores[strip][n], slopes[strip][n], strict=True)):
                    half, across, down = k // 2, moved[k % 2], rows[strip][k // 2]
                    i, j = (across, down) if self.of_keys else (down, across)
                    if self.of_keys:
                        *less, total = known[k % 2]
                    else:
                        *less, total = (
                            block.kept(of_rows[strip][2 * which + half]) for which in range(self.numbers)
                        )
                    product = self.scaled(block.kept(slot), self.factor)
                    if self.is_plain:
                        power = self.plain_power(block.kept(slot), less[0])
                    else:
                        score = self.expression("scores", counters, i, j, {"product": product})
                        power = self.power(score, *less)
                    slope = self.scaled(block.kept(other), a.v.factor * a.g.factor * a.kept_factor)
                    is_kept = "true"
                    if a.kept is not None:
                        is_kept = self.expression("kept", counters, i, j, {})
                        slope = e.op(f"select i1 {is_kept}, float {slope}, float {ZERO}")
                    inner = e.op(f"fmul float {power}, {e.op(f'fsub float {slope}, {total}')}")
                    outer = self.expression("slope", counters, i, j, {"product": product, "inner": inner})
                    distance = apart[strip][half][k % 2]
                    for holds in self.conditions(distance, columns[k % 2], 8 * n) if masked else ():
                        power, outer = (
                            e.op(f"select i1 {holds}, float {each}, float {ZERO}") for each in (power, outer)
                        )
                    if a.kept is not None:
                        power = e.op(f"select i1 {is_kept}, float {power}, float {ZERO}")
                    block.keep(slot, power)
                    block.keep(other, outer)
