"""The kernels of attention. Enters: an `Attention`. Leaves: kernels that go through its scores tile by tile.

A block of threads has some rows, of queries or of keys, 16 for each of its warps, and goes along the others tile by
tile: a tile of the scores is multiplied out, f of it is taken and what a row needs is added up, and so it is never
written. Tiles that a mask leaves out are not gone to.

Matrices are multiplied 16 × 8 elements at a time, each thread having some of them (`Together` in words.py): in terms of
place = lane / 4 and part = lane % 4, elements (place, part) and (place, part + 4) of a factor, those eight rows further
on, and (place, 2·part) and its neighbour of a result. A result can be a factor without moving if the rows of the other
factor come in this order, too; so they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.attention import CHUNK, Attention, Rows, expressions
from minitorch.compiler.backends.cuda.exact import supplied
from minitorch.compiler.backends.cuda.words import SHARED_BYTES, WARP, BlockWriter, Kernel
from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.body import Expression, addresses_in, in_order
from minitorch.compiler.backends.llvm.control import add, larger, multiply, smaller, when
from minitorch.compiler.backends.llvm.space import Space
from minitorch.compiler.backends.llvm.text import literal
from minitorch.compiler.backends.llvm.writer import Writer

WARPS = 4
THREADS = WARP * WARPS
OF_WARP = 16  # rows
OWN = OF_WARP * WARPS  # rows of a block
FORWARD_TILE, BACKWARD_TILE = 64, 32  # of what is gone along
APART = 4  # elements between two rows in shared memory: so threads that read side by side find all banks
BYTES = 4
FLOAT32 = np.dtype(np.float32)
LOG2_E = literal(math.log2(math.e), FLOAT32)
NOTHING, ZERO, ONE = literal(-math.inf, FLOAT32), literal(0.0, FLOAT32), literal(1.0, FLOAT32)
RESULT, ROW = "result", "row"  # operands that are no values of the program when a kernel is written

Slots = list[list[int]]  # of a fragment: of its elements, and of what is left of them when they are rounded


def kernels_of(attention: Attention) -> list[Kernel]:
    """Return the kernels that compute attention, or its gradients."""
    if attention.g is None:
        return [kernel_of(attention, lambda a, exact: _Forward(a, exact))]
    return [
        kernel_of(attention, lambda a, exact: _Backward(a, exact, of_keys=True)),
        kernel_of(attention, lambda a, exact: _Backward(a, exact, of_keys=False)),
    ]


def kernel_of(attention: Attention, writer: Callable[[Attention, bool], _Tiles]) -> Kernel:
    """Return a kernel, with the one that runs where nothing may be rounded."""
    kernel = writer(attention, False).kernel()
    kernel.exact = writer(attention, True).kernel()
    return kernel


class _Tiles:
    """Writes one kernel. exact: products are as exact as those of float32, of three in TF32.

    tile: how many of the others are gone along at once. own, along: how many rows there are in all, and of the others.
    low, high: how far the first and the last of the others lie before and behind a row.
    """

    tile: int
    own: int
    along: int
    low: int
    high: int
    heavy_last: bool
    products: int
    name: str

    def __init__(self, attention: Attention, exact: bool) -> None:
        self.a, self.exact = attention, exact
        self.block = BlockWriter()
        self.e = self.block.e
        self.body, self.named = expressions(attention)
        self.stride = attention.size + APART
        self.shared = 0

    # --- a kernel ---

    @property
    def own_tiles(self) -> int:
        """How many blocks there are for a head."""
        return -(-self.own // OWN)

    @property
    def tiles(self) -> int:
        """How many tiles the others are."""
        return -(-self.along // self.tile)

    def write(self) -> None:
        """Write the phases."""
        raise NotImplementedError

    def kernel(self) -> Kernel:
        """Return the kernel."""
        self.write()
        assert self.shared <= SHARED_BYTES
        blocks = self.a.count * self.own_tiles
        visited = 0
        for number in range(self.own_tiles):
            first = max(0, number * OWN - self.low) // self.tile
            visited += max(0, min(self.tiles, (number * OWN + OWN - 1 + self.high) // self.tile + 1) - first)
        elements = visited * self.a.count * OWN * self.tile
        left_out = self.own_tiles * self.tiles - visited
        part = f", {left_out} of {self.own_tiles * self.tiles} left out" if left_out else ""
        return Kernel(
            self.block.items,
            self.body.operands,
            blocks,
            THREADS,
            self.shared,
            supplied(self.e.externs),
            2.0 * self.products * elements * self.a.size,
            f"{self.name}, tiles of {OWN} by {self.tile}{part}",
            elements,
            kept=len(self.block.variables),
            variables=self.block.variables,
        )

    def buffer(self, rows: int) -> int:
        """Return where some rows have a place in shared memory."""
        place = self.shared
        self.shared += rows * self.stride * BYTES
        return place

    # --- who and where a thread is; all this is asked in each phase ---

    def at(self) -> tuple[str, list[str]]:
        """Return the number of the block's rows among those of a head, and the head's counters in the batches."""
        e = self.e
        block = e.op("trunc i64 %block to i32")
        head = e.op(f"udiv i32 {block}, {self.own_tiles}")
        number = e.op(f"sub i32 {block}, {e.op(f'mul i32 {head}, {self.own_tiles}')}")
        if self.heavy_last:  # those with most to do begin first
            number = e.op(f"sub i32 {self.own_tiles - 1}, {number}")
        counters, rest = [], head
        for d in reversed(self.a.batches[1:]):
            before = e.op(f"udiv i32 {rest}, {d.size}")
            counters.append(e.op(f"sub i32 {rest}, {e.op(f'mul i32 {before}, {d.size}')}"))
            rest = before
        counters = [rest, *reversed(counters)][: len(self.a.batches)]
        wide = [e.op(f"zext i32 {each} to i64") for each in (number, *counters)]
        return wide[0], wide[1:]

    def lanes(self) -> tuple[str, str, str]:
        """Return the first row of a thread's warp, and the thread's place and part in the warp."""
        e = self.e
        warp = e.op("lshr i64 %thread, 5")
        lane = e.op("and i64 %thread, 31")
        return multiply(e, warp, OF_WARP), e.op(f"lshr i64 {lane}, 2"), e.op(f"and i64 {lane}, 3")

    def bounds(self, number: str = "") -> tuple[str, str]:
        """Return from which tile to which one a block goes."""
        e = self.e
        first = multiply(e, number or self.at()[0], OWN)
        start = e.op(f"udiv i64 {larger(e, add(e, first, str(-self.low)), '0')}, {self.tile}")
        last = larger(e, add(e, first, str(OWN - 1 + self.high + self.tile)), "0")
        return start, smaller(e, e.op(f"udiv i64 {last}, {self.tile}"), str(self.tiles))

    # --- memory ---

    def matrix(self, rows: Rows, key: Any, counters: list[str]) -> str:
        """Return where a head's matrix begins."""
        e = self.e
        pointer = f"%operand{self.body.operand(key)}"
        where = "0"
        for counter, step in zip(counters, rows.batches, strict=True):
            where = add(e, where, multiply(e, counter, step))
        return e.op(f"getelementptr float, ptr {pointer}, i64 {where}")

    def given(self, rows: Rows, counters: list[str]) -> str:
        """Return where a head's matrix of a factor begins."""
        key = rows.source if not rows.start else (rows.source, rows.start * BYTES)
        return self.matrix(rows, key, counters)

    def copy(self, rows: Rows, first: str, count: int, limit: str, buffer: str) -> None:
        """Begin to copy some rows to a place in shared memory; those beyond a limit are 0 there."""
        e, chunks = self.e, self.a.size // CHUNK
        base = self.given(rows, self.at()[1])
        mine = e.op(f"lshr i64 %thread, {chunks.bit_length() - 1}")
        column = multiply(e, e.op(f"and i64 %thread, {chunks - 1}"), CHUNK)
        near = self.near(buffer, mine, column)
        for turn in range(count * chunks // THREADS):
            below = turn * (THREADS // chunks)
            row = add(e, add(e, first, mine), str(below))
            inside = e.op(f"icmp slt i64 {row}, {limit}")
            place = add(e, multiply(e, row, rows.row), column)
            there = e.op(f"getelementptr float, ptr {base}, i64 {place}")
            source = e.op(f"select i1 {inside}, ptr {there}, ptr {base}")
            target = e.op(f"getelementptr float, ptr {near}, i64 {below * self.stride}")
            e.line(f"copy {target} {source} {e.op(f'select i1 {inside}, i32 16, i32 0')}")

    def near(self, buffer: str, row: str, column: str) -> str:
        """Return where an element lies in shared memory."""
        e = self.e
        place = add(e, add(e, multiply(e, row, self.stride), column), "0")
        begin = e.op(f"getelementptr i8, ptr %shared, i64 {buffer}")
        return e.op(f"getelementptr float, ptr {begin}, i64 {place}")

    def read(self, near: str, further: int) -> str:
        """Read from shared memory, some elements further on."""
        place = self.e.op(f"getelementptr float, ptr {near}, i64 {further}")
        return self.e.op(f"load float, ptr {place}, align 4")

    # --- fragments ---

    def slots(self, count: int) -> Slots:
        """Return a fragment that each thread has some elements of."""
        return [[self.block.variable() for _ in range(count)] for _ in range(2 if self.exact else 1)]

    def accumulators(self, count: int) -> list[list[int]]:
        """Return results, side by side."""
        return [[self.block.variable() for _ in range(4)] for _ in range(count)]

    def put(self, slots: Slots, number: int, name: str) -> None:
        """Keep an element of a fragment, as products want it."""
        e = self.e
        if not self.exact:
            self.block.keep(slots[0][number], e.call("fast.tf32", "float", [("float", name)]))
            return
        bits = e.op(f"and i32 {e.op(f'bitcast float {name} to i32')}, -8192")
        most = e.op(f"bitcast i32 {bits} to float")
        rest = e.op(f"fsub float {name}, {most}")
        is_number = e.op(f"fcmp ord float {rest}, {rest}")
        self.block.keep(slots[0][number], most)
        self.block.keep(slots[1][number], e.op(f"select i1 {is_number}, float {rest}, float {ZERO}"))

    def add_product(self, c: list[int], a: Slots, b: Slots) -> None:
        """Add the product of two fragments to a third."""
        for x, y in ((1, 0), (0, 1), (0, 0)) if self.exact else ((0, 0),):
            self.block.together("multiply", [*c, *a[x], *b[y]])

    def hold(self, slots: list[Slots], buffer: str) -> None:
        """Read the rows of each warp from shared memory, as the first factor of products."""
        first, place, part = self.lanes()
        near = self.near(buffer, add(self.e, first, place), part)
        for step, fragment in enumerate(slots):
            for k in range(4):
                further = 8 * step + 4 * (k // 2) + 8 * (k % 2) * self.stride
                self.put(fragment, k, self.read(near, further))

    def multiply_along(
        self, made: list[list[int]], held: list[Slots], second: list[Slots], buffer: Callable[[], str]
    ) -> None:
        """Add to each of the results what is held, times rows of shared memory: summed along a head."""
        for step, fragment in enumerate(held):
            with self.block.phase(waits=False):
                _, place, part = self.lanes()
                near = self.near(buffer(), place, part)
                for number in range(len(made)):
                    for k in range(2):
                        further = 8 * number * self.stride + 8 * step + 4 * k
                        self.put(second[number], k, self.read(near, further))
            for number, result in enumerate(made):
                self.add_product(result, fragment, second[number])

    def multiply_across(
        self,
        made: list[list[int]],
        first: list[list[int]],
        factor: Slots,
        second: list[Slots],
        buffer: Callable[[], str],
    ) -> None:
        """Add to each of the results what results of before come to, times columns of shared memory."""
        e = self.e
        for step, scores in enumerate(first):
            with self.block.phase(waits=False):
                for k, slot in enumerate((scores[0], scores[2], scores[1], scores[3])):
                    self.put(factor, k, self.block.kept(slot))
                _, place, part = self.lanes()
                near = self.near(buffer(), multiply(e, part, 2), place)
                for number in range(len(made)):
                    for k in range(2):
                        self.put(
                            second[number], k, self.read(near, (8 * step + k) * self.stride + 8 * number)
                        )
            for number, result in enumerate(made):
                self.add_product(result, factor, second[number])

    # --- scores ---

    def scaled(self, name: str, factor: float) -> str:
        """Return something times a number."""
        return (
            name if factor == 1.0 else self.e.op(f"fmul float {name}, {literal(np.float32(factor), FLOAT32)}")
        )

    def expression(self, what: str, counters: list[str], i: str, j: str, known: dict[str, str]) -> str:
        """Write one of the functions of the scores, of query i and key j."""
        root: Any = self.named[what]
        nodes: list[Expression] = in_order([root])
        dims = [*self.a.batches, self.a.query, self.a.key]
        pointers = [f"%operand{place}" for place in range(len(self.body.operands))]
        w = Writer(self.e, 1, None, Space(addresses_in(nodes), dims), {}, {}, pointers)
        w.counters = dict(zip(dims, [*counters, i, j], strict=True))
        w.scopes.append({self.named[each]: name for each, name in known.items()})
        for node in nodes:
            w.write(node)
        return w.single(root)

    def conditions(self, apart: str, column: str, further: int) -> list[str]:
        """Return what has to hold of a score: there are so many columns, and it is not masked.

        apart: how far its column is behind its row, but for `further`.
        """
        e, found = self.e, []
        narrow = e.op(f"trunc i64 {apart} to i32")
        if self.along % self.tile:
            there = e.op(f"trunc i64 {column} to i32")
            found.append(e.op(f"icmp slt i32 {there}, {self.along - further}"))
        if self.a.band.masks and self.high < self.along:
            found.append(e.op(f"icmp sle i32 {narrow}, {self.high - further}"))
        if self.a.band.masks and self.low < self.own:
            found.append(e.op(f"icmp sge i32 {narrow}, {-self.low - further}"))
        return found

    def power(self, score: str, most: str) -> str:
        """Return e to the score, less what is given times log2(e)."""
        e = self.e
        less = e.op(f"fneg float {most}")
        exponent = e.call("llvm.fma.f32", "float", [("float", score), ("float", LOG2_E), ("float", less)])
        return e.call("fast.exp2", "float", [("float", exponent)])

    def larger_of(self, x: str, y: str) -> str:
        """Return the larger of two numbers."""
        return self.e.call("llvm.maxnum.f32", "float", [("float", x), ("float", y)])

    def clear(self, *fragments: list[list[int]]) -> None:
        """Set results to 0."""
        for fragment in fragments:
            for result in fragment:
                for slot in result:
                    self.block.keep(slot, ZERO)

    def store(self, name: str, made: list[list[int]], factors: list[str], first: str) -> None:
        """Write results to memory. factors: of the two rows that a thread has; first: the block's first row."""
        e, rows = self.e, self.a.written[name]
        _, counters = self.at()
        base = self.matrix(rows, (RESULT, name), counters)
        start, place, part = self.lanes()
        for half in range(2):
            row = add(e, add(e, first, add(e, start, place)), str(8 * half))

            def write(half: int = half, row: str = row) -> None:
                column = multiply(e, part, 2)
                there = e.op(
                    f"getelementptr float, ptr {base}, i64 {add(e, multiply(e, row, rows.row), column)}"
                )
                for number, result in enumerate(made):
                    pair = "poison"
                    for k in range(2):
                        kept = self.block.kept(result[2 * half + k])
                        scaled = e.op(f"fmul float {kept}, {factors[half]}")
                        pair = e.op(f"insertelement <2 x float> {pair}, float {scaled}, i32 {k}")
                    target = e.op(f"getelementptr float, ptr {there}, i64 {8 * number}")
                    e.line(f"store <2 x float> {pair}, ptr {target}, align 8")

            when(e, e.op(f"icmp slt i64 {row}, {self.own}"), write)

    def row_of(self, key: Any, rows: Rows, counters: list[str], query: str) -> str:
        """Return where the number lies that there is of each query."""
        base = self.matrix(rows, key, counters)
        return self.e.op(f"getelementptr float, ptr {base}, i64 {multiply(self.e, query, rows.row)}")


class _Forward(_Tiles):
    """A block has queries, and goes along the keys.

    Of each row the largest score so far is known, and the sum of e to the scores less that; where a larger one comes
    up, what was added up so far is made smaller.
    """

    tile = FORWARD_TILE
    heavy_last = True
    products = 2
    name = "attention"

    def __init__(self, attention: Attention, exact: bool) -> None:
        super().__init__(attention, exact)
        self.own, self.along = attention.query.size, attention.key.size
        self.low, self.high = attention.band.below, attention.band.above

    def write(self) -> None:
        """Write the phases."""
        a, block, e = self.a, self.block, self.e
        keys, values = self.buffer(self.tile), self.buffer(max(self.tile, OWN))
        held = [self.slots(4) for _ in range(a.size // 8)]
        second = [self.slots(2) for _ in range(max(a.size, self.tile) // 8)]
        scores, result = self.accumulators(self.tile // 8), self.accumulators(a.size // 8)
        factor = self.slots(4)
        most, total, mine, theirs = ([block.variable() for _ in range(2)] for _ in range(4))

        def all_exchanged(combine: Callable[[str, str], str]) -> None:
            """Combine what the threads of a row have."""
            for distance in (1, 2):
                for half in range(2):
                    block.together("exchange", [mine[half], theirs[half]], distance)
                with block.phase(waits=False):
                    for half in range(2):
                        block.keep(mine[half], combine(block.kept(mine[half]), block.kept(theirs[half])))

        with block.phase():
            number = self.at()[0]
            self.copy(a.q, multiply(e, number, OWN), OWN, str(self.own), str(values))
            start, _ = self.bounds(number)
            self.copy(a.k, multiply(e, start, self.tile), self.tile, str(self.along), str(keys))
            e.line("commit")
            self.clear(result)
            for half in range(2):
                block.keep(most[half], NOTHING)
                block.keep(total[half], ZERO)
            e.line("wait 0")
        with block.phase():
            self.hold(held, str(values))
        with block.turns_between(self.bounds) as turn:
            with block.phase():
                e.line("wait 0")
            with block.phase(waits=False):
                self.copy(a.v, multiply(e, turn, self.tile), self.tile, str(self.along), str(values))
                e.line("commit")
                self.clear(scores)
            self.multiply_along(scores, held, second, lambda: str(keys))
            with block.phase(waits=False):
                self.take_scores(scores, turn, mine)
            all_exchanged(self.larger_of)
            with block.phase(waits=False):
                self.take_powers(scores, result, most, total, mine)
            with block.phase():
                e.line("wait 0")
            with block.phase(waits=False):
                _, stop = self.bounds()
                following = multiply(e, add(e, turn, "1"), self.tile)
                limit = smaller(e, multiply(e, stop, self.tile), str(self.along))
                self.copy(a.k, following, self.tile, limit, str(keys))
                e.line("commit")
            self.multiply_across(result, scores, factor, second, lambda: str(values))
        with block.phase(waits=False):
            for half in range(2):
                block.keep(mine[half], block.kept(total[half]))
        all_exchanged(lambda x, y: e.op(f"fadd float {x}, {y}"))
        with block.phase(waits=False):
            sums = [block.kept(mine[half]) for half in range(2)]
            whole = literal(np.float32(a.v.factor), FLOAT32)
            factors = [e.op(f"fdiv float {whole}, {each}") for each in sums]
            number, counters = self.at()
            first = multiply(e, number, OWN)
            self.store("o", result, factors, first)
            if "l" in a.written:
                self.store_sums(sums, most, counters, first)

    def take_scores(self, scores: list[list[int]], turn: str, largest: list[int]) -> None:
        """Take f of the products of a tile, and each row's largest."""
        a, e, block = self.a, self.e, self.block
        number, counters = self.at()
        start, place, part = self.lanes()
        found = [NOTHING, NOTHING]
        row = add(e, add(e, multiply(e, number, OWN), start), place)
        rows = [row, add(e, row, "8")]
        column = add(e, multiply(e, turn, self.tile), multiply(e, part, 2))
        apart = [e.op(f"sub i64 {column}, {each}") for each in rows]
        for n, result in enumerate(scores):
            for k, slot in enumerate(result):
                j = add(e, column, str(8 * n + k % 2))
                product = self.scaled(block.kept(slot), a.q.factor * a.k.factor)
                score = self.expression("scores", counters, rows[k // 2], j, {"product": product})
                for holds in self.conditions(apart[k // 2], column, 8 * n + k % 2):
                    score = e.op(f"select i1 {holds}, float {score}, float {NOTHING}")
                block.keep(slot, score)
                found[k // 2] = self.larger_of(found[k // 2], score)
        for half in range(2):
            block.keep(largest[half], found[half])

    def take_powers(
        self,
        scores: list[list[int]],
        result: list[list[int]],
        most: list[int],
        total: list[int],
        largest: list[int],
    ) -> None:
        """Take e to the scores, less each row's largest so far, and add them up."""
        e, block = self.e, self.block
        for half in range(2):
            before = block.kept(most[half])
            after = self.larger_of(before, block.kept(largest[half]))
            block.keep(most[half], after)
            is_none = e.op(f"fcmp oeq float {after}, {NOTHING}")
            least = e.op(f"select i1 {is_none}, float {ZERO}, float {after}")
            least = e.op(f"fmul float {least}, {LOG2_E}")
            smaller_by = self.power(before, least)
            so_far = e.op(f"fmul float {block.kept(total[half])}, {smaller_by}")
            for tile in scores:
                for slot in tile[2 * half : 2 * half + 2]:
                    power = self.power(block.kept(slot), least)
                    block.keep(slot, power)
                    so_far = e.op(f"fadd float {so_far}, {power}")
            block.keep(total[half], so_far)
            for tile in result:
                for slot in tile[2 * half : 2 * half + 2]:
                    block.keep(slot, e.op(f"fmul float {block.kept(slot)}, {smaller_by}"))

    def store_sums(self, sums: list[str], most: list[int], counters: list[str], first: str) -> None:
        """Write the logarithm of each row's sum, which the gradients are computed from."""
        e = self.e
        start, place, part = self.lanes()
        for half in range(2):
            row = add(e, add(e, first, add(e, start, place)), str(8 * half))
            log = functions.emit_function(e, "log", [sums[half]], FLOAT32, 1)
            whole = e.op(f"fadd float {self.block.kept(most[half])}, {log}")
            is_mine = e.op(f"icmp eq i64 {part}, 0")
            exists = e.op(f"icmp slt i64 {row}, {self.own}")
            target = self.row_of((RESULT, "l"), self.a.written["l"], counters, row)
            when(
                e,
                e.op(f"and i1 {is_mine}, {exists}"),
                lambda whole=whole, target=target: e.line(f"store float {whole}, ptr {target}, align 4"),  # type: ignore[misc]
            )


class _Backward(_Tiles):
    """A block has keys, for the gradients of keys and values, and goes along the queries; or the other way round.

    What it has is multiplied with what it meets, once for the scores and once for the gradients of the probabilities.
    """

    tile = BACKWARD_TILE

    def __init__(self, attention: Attention, exact: bool, of_keys: bool) -> None:
        super().__init__(attention, exact)
        self.of_keys = of_keys
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

    def write(self) -> None:
        """Write the phases."""
        a, block, e = self.a, self.block, self.e
        size = self.tile * self.stride * BYTES
        buffers = self.buffer(4 * self.tile)  # two to read from, and two to copy to meanwhile
        assert 4 * self.tile >= 2 * OWN
        held = [[self.slots(4) for _ in range(a.size // 8)] for _ in range(2)]
        second = [self.slots(2) for _ in range(max(a.size, self.tile) // 8)]
        scores, slopes = (self.accumulators(self.tile // 8) for _ in range(2))
        results = [self.accumulators(a.size // 8) for _ in range(2 if self.of_keys else 1)]
        factor = self.slots(4)
        of_rows = [block.variable() for _ in range(4)]

        def near(turn: str, which: int) -> str:
            side = e.op(f"and i64 {turn}, 1")
            return add(e, multiply(e, side, 2 * size), str(buffers + which * size))

        def copy_both(number: str, limit: str) -> None:
            first = multiply(e, number, self.tile)
            for which, rows in enumerate(self.met):
                self.copy(rows, first, self.tile, limit, near(number, which))
            e.line("commit")

        with block.phase():
            number, counters = self.at()
            for which, rows in enumerate(self.mine):
                place = str(buffers + which * OWN * self.stride * BYTES)
                self.copy(rows, multiply(e, number, OWN), OWN, str(self.own), place)
            e.line("commit")
            self.clear(*results)
            if not self.of_keys:
                self.keep_rows(of_rows, number, counters)
            e.line("wait 0")
        with block.phase():
            for which in range(2):
                self.hold(held[which], str(buffers + which * OWN * self.stride * BYTES))
        with block.phase(waits=False):
            start, _ = self.bounds()
            copy_both(start, str(self.along))
        with block.turns_between(self.bounds) as turn:
            with block.phase():
                e.line("wait 0")
            with block.phase(waits=False):
                _, stop = self.bounds()
                limit = smaller(e, multiply(e, stop, self.tile), str(self.along))
                copy_both(add(e, turn, "1"), limit)
                self.clear(scores, slopes)
            for which, made in enumerate((scores, slopes)):
                self.multiply_along(made, held[which], second, lambda which=which: near(turn, which))  # type: ignore[misc]
            with block.phase(waits=False):
                self.take_slopes(scores, slopes, turn, of_rows)
            for which, first in enumerate((slopes, scores)[: len(results)]):
                self.multiply_across(
                    results[which],
                    first,
                    factor,
                    second,
                    lambda which=which: near(turn, which),  # type: ignore[misc]
                )
        with block.phase(waits=False):
            first_row = multiply(e, self.at()[0], OWN)
            for name, made, rows in zip("kv" if self.of_keys else "q", results, self.met, strict=False):
                self.store(name, made, [literal(np.float32(rows.factor), FLOAT32)] * 2, first_row)
            e.line("wait 0")

    def keep_rows(self, slots: list[int], number: str, counters: list[str]) -> None:
        """Keep what there is one of for each query: of the two queries of each thread."""
        e = self.e
        start, place, _ = self.lanes()
        for half in range(2):
            row = add(e, add(e, multiply(e, number, OWN), add(e, start, place)), str(8 * half))
            for which, name in enumerate(self.of_query(counters, smaller(e, row, str(self.own - 1)))):
                self.block.keep(slots[2 * which + half], name)

    def of_query(self, counters: list[str], query: str) -> list[str]:
        """Return what there is one of for each query: its sum's logarithm (to base 2) and Σ p·g."""
        e = self.e
        places = [
            self.row_of((ROW, which), rows, counters, query) for which, rows in enumerate(self.a.of_queries)
        ]
        log, total = (e.op(f"load float, ptr {place}, align 4") for place in places)
        return [e.op(f"fmul float {log}, {LOG2_E}"), total]

    def take_slopes(
        self, scores: list[list[int]], slopes: list[list[int]], turn: str, of_rows: list[int]
    ) -> None:
        """Make probabilities of the scores, and of their gradients those of the products."""
        a, e, block = self.a, self.e, self.block
        assert a.g is not None
        number, counters = self.at()
        start, place, part = self.lanes()
        row = add(e, add(e, multiply(e, number, OWN), start), place)
        rows = [row, add(e, row, "8")]
        column = add(e, multiply(e, turn, self.tile), multiply(e, part, 2))
        apart = [e.op(f"sub i64 {column}, {each}") for each in rows]
        for n, (tile, gained) in enumerate(zip(scores, slopes, strict=True)):
            columns = [add(e, column, str(8 * n + k)) for k in range(2)]
            if self.of_keys:
                known = [self.of_query(counters, smaller(e, each, str(self.along - 1))) for each in columns]
            else:
                known = [[block.kept(of_rows[2 * which + half]) for which in range(2)] for half in range(2)]
            for k, (slot, other) in enumerate(zip(tile, gained, strict=True)):
                across, down = columns[k % 2], rows[k // 2]
                i, j = (across, down) if self.of_keys else (down, across)
                log, sum_ = known[k % 2 if self.of_keys else k // 2]
                product = self.scaled(block.kept(slot), a.q.factor * a.k.factor)
                score = self.expression("scores", counters, i, j, {"product": product})
                power = self.power(score, log)
                slope = self.scaled(block.kept(other), a.v.factor * a.g.factor)
                inner = e.op(f"fmul float {power}, {e.op(f'fsub float {slope}, {sum_}')}")
                outer = self.expression("slope", counters, i, j, {"product": product, "inner": inner})
                for holds in self.conditions(apart[k // 2], column, 8 * n + k % 2):
                    power, outer = (
                        e.op(f"select i1 {holds}, float {each}, float {ZERO}") for each in (power, outer)
                    )
                block.keep(slot, power)
                block.keep(other, outer)
