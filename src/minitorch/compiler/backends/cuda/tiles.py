"""The kernels of attention. Enters: an `Attention`. Leaves: kernels that go through its scores tile by tile.

A block of threads has some rows, of queries or of keys, one or two strips of 16 for each of its warps, and goes along
the others tile by tile: a tile of the scores is multiplied out, f of it is taken and what a row needs is added up, and
so it is never written. Tiles that a mask leaves out are not gone to.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.attention import (
    COPIED,
    ROW_NUMBERS,
    SUM,
    Attention,
    Rows,
    expressions,
)
from minitorch.compiler.backends.cuda.exact import supplied
from minitorch.compiler.backends.cuda.fragments import STRIP, Fragments, Groups, Halves, Results, Tf32
from minitorch.compiler.backends.cuda.words import WARP, BlockWriter, Kernel, with_sizes
from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.body import Expression, addresses_in, in_order
from minitorch.compiler.backends.llvm.control import add, larger, multiply, smaller, when
from minitorch.compiler.backends.llvm.space import Space
from minitorch.compiler.backends.llvm.text import TYPES, literal
from minitorch.compiler.backends.llvm.writer import Writer
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.sizes import Size, is_fixed, surely_at_most, typical

WARPS = 4
FLOAT32 = np.dtype(np.float32)
LOG2_E = literal(math.log2(math.e), FLOAT32)
NOTHING, ZERO, ONE = literal(-math.inf, FLOAT32), literal(0.0, FLOAT32), literal(1.0, FLOAT32)
# By the size of a head: strips of rows for a warp, how many of the others are gone along at once, and whether a block's
# own rows are kept in registers. Measured on an H200.
FORWARD = {32: (1, 64, True), 64: (1, 64, True), 128: (1, 32, False)}
OF_KEYS = {32: (1, 32, True), 64: (1, 32, True), 128: (1, 16, False)}
OF_QUERIES = {32: (1, 32, True), 64: (1, 32, True), 128: (1, 16, False)}
HALF_FORWARD = {32: (1, 64, True), 64: (1, 64, True), 128: (1, 64, True)}
HALF_OF_KEYS = {32: (1, 64, True), 64: (1, 64, True), 128: (1, 32, False)}
HALF_OF_QUERIES = {32: (1, 64, True), 64: (1, 64, True), 128: (1, 32, True)}
# Where four warps multiply together: how many warps a block has, how many of the others are gone along at once, and how
# many blocks a multiprocessor has at once.
GROUPS_FORWARD = {64: (4, 64, 4), 128: (8, 64, 2)}
GROUPS_OF_KEYS = {64: (4, 64, 3), 128: (4, 64, 2)}
GROUPS_OF_QUERIES = {64: (4, 64, 4), 128: (4, 64, 2)}
RESULT, ROW = "result", "row"  # operands that are no values of the program when a kernel is written


def kernels_of(attention: Attention) -> list[Kernel]:
    """Return the kernels that compute attention, or its gradients."""
    if attention.g is None:
        return [kernel_of(attention, lambda a, exact: _Forward(a, exact))]
    return [
        kernel_of(attention, lambda a, exact: _Backward(a, exact, of_keys=False)),
        kernel_of(attention, lambda a, exact: _Backward(a, exact, of_keys=True)),
    ]


def kernel_of(attention: Attention, writer: Callable[[Attention, bool], _Tiles]) -> Kernel:
    """Return a kernel, with the one that runs where nothing may be rounded."""
    kernel = with_sizes(lambda: writer(attention, False).kernel())
    if attention.dtype not in HALVES:
        kernel.exact = with_sizes(lambda: writer(attention, True).kernel())
        assert kernel.exact.operands == kernel.operands  # (a launch has one list for both)
    return kernel


class _Tiles:
    """Writes one kernel. exact: products are as exact as those of float32, of three in TF32.

    tile: how many of the others are gone along at once. strips: of rows, for a warp. own, along: how many rows there
    are in all, and of the others. low, high: how far the first and the last of the others lie before and behind a row.
    """

    tile: int
    strips: int
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
        self.shared = 0
        size, dtype = attention.size, attention.dtype
        self.f: Fragments
        if attention.in_groups and dtype in HALVES and size in GROUPS_FORWARD:
            self.strips, (self.warps, self.tile, self.at_once) = 1, self.group_shape()
            self.f = Groups(self.block, dtype, size, self.rows, self.tile)
        else:
            self.warps, self.at_once = WARPS, 1
            self.strips, self.tile, in_registers = self.shape()
            kind = Halves if dtype in HALVES else Tf32
            self.f = kind(self.block, dtype, size, self.strips, in_registers)
        if isinstance(self.f, Tf32):
            self.f.exact = exact

    def shape(self) -> tuple[int, int, bool]:
        """Return strips of rows for a warp, how many of the others are gone along at once, and where own rows are."""
        raise NotImplementedError

    def group_shape(self) -> tuple[int, int, int]:
        """Return warps of a block, how many of the others are gone along at once, and blocks of a multiprocessor."""
        raise NotImplementedError

    # --- a kernel ---

    @property
    def rows(self) -> int:
        """How many rows a block has."""
        return STRIP * self.strips * self.warps

    @property
    def threads(self) -> int:
        """How many threads a block has."""
        return WARP * self.warps

    @property
    def own_tiles(self) -> int:
        """How many blocks there are for a head."""
        return -(-self.own // self.rows)

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
        blocks = self.a.count * self.own_tiles
        visited, left_out = self.visited()
        part = f", {left_out} of {visited + left_out} left out" if left_out else ""
        if not is_fixed(self.own, self.along):
            whole = surely_at_most(self.along - 1, self.high) and surely_at_most(self.own - 1, self.low)
            part = "" if whole else ", those outside of a band left out"
        scores = visited * typical(self.a.count) * self.rows * self.tile
        return Kernel(
            self.block.items,
            self.body.operands,
            blocks,
            self.threads,
            self.shared,
            supplied(self.e.externs),
            2.0 * self.products * scores * self.a.size,
            f"{self.name}, tiles of {self.rows} by {self.tile}{part}",
            blocks * self.rows,
            kept=len(self.block.variables),
            variables=self.block.variables,
            at_once=self.at_once,
        )

    def visited(self) -> tuple[int, int]:
        """Return how many tiles of a head are gone to, and how many are left out; where sizes vary, of typical ones."""
        own_tiles, tiles = typical(self.own_tiles), typical(self.tiles)
        low, high = typical(self.low), typical(self.high)
        visited = 0
        for number in range(own_tiles):
            first = max(0, number * self.rows - low) // self.tile
            last = (number * self.rows + self.rows - 1 + high) // self.tile
            visited += max(0, min(tiles, last + 1) - first)
        return visited, own_tiles * tiles - visited

    def buffer(self, rows: int) -> int:
        """Return where some rows have a place in shared memory."""
        place = self.shared
        self.shared += rows * self.f.row_bytes
        return place

    # --- who and where a thread is; all this is asked in each phase ---

    def narrow(self, n: int) -> str:
        """Return a size in 32 bits, in which dividing takes a GPU fewer instructions."""
        return self.e.op(f"trunc i64 {n} to i32") if isinstance(n, Size) else f"{n}"

    def at(self) -> tuple[str, list[str]]:
        """Return the number of the block's rows among those of a head, and the head's counters in the batches."""
        e = self.e
        block = e.op("trunc i64 %block to i32")
        tiles = self.narrow(self.own_tiles)
        head = e.op(f"udiv i32 {block}, {tiles}")
        number = e.op(f"sub i32 {block}, {e.op(f'mul i32 {head}, {tiles}')}")
        if self.heavy_last:  # those with most to do begin first
            number = e.op(f"sub i32 {self.narrow(self.own_tiles - 1)}, {number}")
        counters, rest = [], head
        for d in reversed(self.a.batches[1:]):
            size = self.narrow(d.size)
            before = e.op(f"udiv i32 {rest}, {size}")
            counters.append(e.op(f"sub i32 {rest}, {e.op(f'mul i32 {before}, {size}')}"))
            rest = before
        counters = [rest, *reversed(counters)][: len(self.a.batches)]
        wide = [e.op(f"zext i32 {each} to i64") for each in (number, *counters)]
        return wide[0], wide[1:]

    def bounds(self, number: str = "") -> tuple[str, str]:
        """Return from which tile to which one a block goes."""
        e = self.e
        first = multiply(e, number or self.at()[0], self.rows)
        before = larger(e, add(e, first, f"{-self.low}"), "0")
        start = e.op(f"udiv i64 {before}, {self.tile}")
        last = larger(e, add(e, first, f"{self.rows - 1 + self.high + self.tile}"), "0")
        return start, smaller(e, e.op(f"udiv i64 {last}, {self.tile}"), f"{self.tiles}")

    # --- memory ---

    def matrix(self, rows: Rows, key: Any, counters: list[str]) -> str:
        """Return where a head's matrix begins."""
        e = self.e
        pointer = f"%operand{self.body.operand(key)}"
        where = f"{rows.start if rows.source is None else 0}"  # (of what is read, the operand begins there)
        for counter, step in zip(counters, rows.batches, strict=True):
            where = add(e, where, multiply(e, counter, step))
        return e.op(f"getelementptr {TYPES[rows.dtype]}, ptr {pointer}, i64 {where}")

    def given(self, rows: Rows, counters: list[str]) -> str:
        """Return where a head's matrix of a factor begins."""
        key = rows.source if not rows.start else (rows.source, rows.start * rows.dtype.itemsize)
        return self.matrix(rows, key, counters)

    def copy(self, rows: Rows, first: str, count: int, limit: str | None, buffer: str) -> None:
        """Begin to copy some rows to a place in shared memory; those beyond a limit, if there is one, are 0 there."""
        e, chunk, element = self.e, COPIED // rows.dtype.itemsize, TYPES[rows.dtype]
        chunks = self.a.size // chunk
        base = self.given(rows, self.at()[1])
        mine = e.op(f"lshr i64 %thread, {chunks.bit_length() - 1}")
        column = multiply(e, e.op(f"and i64 %thread, {chunks - 1}"), chunk)
        near = self.f.near(buffer, mine, column, count)
        place = add(e, multiply(e, add(e, first, mine), rows.row), column)
        begin = e.op(f"getelementptr {element}, ptr {base}, i64 {place}")
        for turn in range(count * chunks // self.threads):
            below = turn * (self.threads // chunks)
            target = e.op(f"getelementptr {element}, ptr {near}, i64 {below * self.f.stride}")
            if limit is None:
                further = below * rows.row
                e.line(f"copy {target} {e.op(f'getelementptr {element}, ptr {begin}, i64 {further}')} 16")
                continue
            row = add(e, add(e, first, mine), str(below))
            inside = e.op(f"icmp slt i64 {row}, {limit}")
            place = add(e, multiply(e, row, rows.row), column)
            there = e.op(f"getelementptr {element}, ptr {base}, i64 {place}")
            source = e.op(f"select i1 {inside}, ptr {there}, ptr {base}")
            e.line(f"copy {target} {source} {e.op(f'select i1 {inside}, i32 16, i32 0')}")

    def limit(self, total: int, count: int) -> str | None:
        """Return up to where there are rows, of which so many at a time are copied; None if each time all exist."""
        return f"{total}" if total % count else None

    def near(self, buffers: int, turn: str, which: int) -> str:
        """Return where the rows lie that are met in a turn, of two kinds: there are two buffers for each."""
        size = self.tile * self.f.row_bytes
        side = self.e.op(f"and i64 {turn}, 1")
        return add(self.e, multiply(self.e, side, 2 * size), str(buffers + which * size))

    def copy_met(self, met: tuple[Rows, Rows], buffers: int, turn: str) -> None:
        """Begin to copy what is met in a turn, if there is such a turn."""
        e, (_, stop) = self.e, self.bounds()

        def copy() -> None:
            first = multiply(e, turn, self.tile)
            for which, rows in enumerate(met):
                limit = self.limit(self.along, self.tile)
                self.copy(rows, first, self.tile, limit, self.near(buffers, turn, which))
            e.line("commit")

        when(e, e.op(f"icmp slt i64 {turn}, {stop}"), copy)

    def arrived(self) -> None:
        """Wait for what was copied."""
        self.e.line("wait 0")
        if isinstance(self.f, Groups):
            self.e.line("shown")

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
        if addresses_in(nodes):  # nothing is read from beyond the last row or column
            i, j = (
                smaller(self.e, n, f"{d.size - 1}") if d.size % max(self.rows, self.tile) else n
                for n, d in zip((i, j), dims[-2:], strict=True)
            )
        pointers = [f"%operand{place}" for place in range(len(self.body.operands))]
        w = Writer(self.e, 1, None, Space(addresses_in(nodes), dims), {}, {}, pointers)
        w.counters = dict(zip(dims, [*counters, i, j], strict=True))
        w.scopes.append({self.named[each]: name for each, name in known.items()})
        for node in nodes:
            w.write(node)
        return w.single(root)

    @property
    def is_plain(self) -> bool:
        """Whether scores are products times a factor, and halves: then e to them takes two instructions."""
        scaled = self.named["scores"] is self.named["product"] and self.factor > 0
        return self.a.dtype in HALVES and scaled

    @property
    def factor(self) -> float:
        """What products are to be multiplied with."""
        return self.a.q.factor * self.a.k.factor

    def plain_power(self, product: str, less: str) -> str:
        """Return 2 to what a plain score is to the base 2, less what is given."""
        e, factor = self.e, literal(np.float32(self.factor * math.log2(math.e)), FLOAT32)
        given = [("float", product), ("float", factor), ("float", e.op(f"fneg float {less}"))]
        return e.call("fast.exp2", "float", [("float", e.call("llvm.fma.f32", "float", given))])

    def within(self, number: str, turn: str, write: Callable[[bool], None]) -> None:
        """Write what is done with a tile twice: where some of it may be masked, or beyond the last column; and not."""
        e, found = self.e, []
        first, column = multiply(e, number, self.rows), multiply(e, turn, self.tile)
        apart = e.op(f"sub i64 {column}, {first}")
        if self.along % self.tile:
            found.append(e.op(f"icmp sle i64 {column}, {self.along - self.tile}"))
        if self.is_masked_above:
            found.append(e.op(f"icmp sle i64 {apart}, {self.high - self.tile + 1}"))
        if self.is_masked_below:
            found.append(e.op(f"icmp sge i64 {apart}, {self.rows - 1 - self.low}"))
        if found:
            whole = functools.reduce(lambda x, y: e.op(f"and i1 {x}, {y}"), found)
            when(e, whole, lambda: write(False), lambda: write(True))
        else:
            write(False)

    @property
    def is_masked_above(self) -> bool:
        """Whether kernels mask what lies too far behind a row."""
        return self.a.band.masks and not surely_at_most(self.along - 1, self.high)

    @property
    def is_masked_below(self) -> bool:
        """Whether kernels mask what lies too far before a row."""
        return self.a.band.masks and not surely_at_most(self.own - 1, self.low)

    def conditions(self, apart: str, column: str, further: int) -> list[str]:
        """Return what has to hold of a score: there are so many columns, and it is not masked.

        apart: how far its column is behind its row, but for `further`.
        """
        e, found = self.e, []
        narrow = e.op(f"trunc i64 {apart} to i32")
        if self.along % self.tile:
            there = e.op(f"trunc i64 {column} to i32")
            found.append(e.op(f"icmp slt i32 {there}, {self.less(self.along, further)}"))
        if self.is_masked_above:
            found.append(e.op(f"icmp sle i32 {narrow}, {self.less(self.high, further)}"))
        if self.is_masked_below:
            found.append(e.op(f"icmp sge i32 {narrow}, {self.less(-self.low, further)}"))
        return found

    def less(self, n: int, number: int) -> str:
        """Return a size less a number, in 32 bits. (A kernel is given the size alone, and not each of these.)"""
        return self.e.op(f"sub i32 {self.narrow(n)}, {number}") if isinstance(n, Size) else f"{n - number}"

    def power(self, score: str, most: str, log: str | None = None) -> str:
        """Return e to the score less what is given, divided by what has the given logarithm to base 2.

        Subtracted first: a score of -1e9 that a mask leaves, less itself, is 0, and not some rounding error.
        """
        e = self.e
        apart = e.op(f"fsub float {score}, {most}")
        if log is None:
            exponent = e.op(f"fmul float {apart}, {LOG2_E}")
        else:
            less = e.op(f"fneg float {log}")
            exponent = e.call("llvm.fma.f32", "float", [("float", apart), ("float", LOG2_E), ("float", less)])
        return e.call("fast.exp2", "float", [("float", exponent)])

    def larger_of(self, x: str, y: str) -> str:
        """Return the larger of two numbers."""
        return self.e.call("llvm.maxnum.f32", "float", [("float", x), ("float", y)])

    def sum_of(self, x: str, y: str) -> str:
        """Return the sum of two numbers."""
        return self.e.op(f"fadd float {x}, {y}")

    def exchange(self, mine: list[int], theirs: list[int], combine: Callable[[str, str], str]) -> None:
        """Write phases that combine what the four threads of a row have."""
        block = self.block
        for distance in (1, 2):
            for one, other in zip(mine, theirs, strict=True):
                block.together("exchange", [one, other], distance)
            with block.phase(waits=False):
                for one, other in zip(mine, theirs, strict=True):
                    block.keep(one, combine(block.kept(one), block.kept(other)))

    def clear(self, *made: Results) -> None:
        """Set results to 0."""
        for slot in [slot for results in made for strip in results for result in strip for slot in result]:
            self.block.keep(slot, ZERO)

    def places(self, number: str, turn: str) -> tuple[list[list[str]], list[str], list[list[list[str]]]]:
        """Return the rows that a thread has, by strips, its first two columns in a tile, and these less those."""
        e = self.e
        start, place, part = self.f.lanes()
        first = add(e, add(e, multiply(e, number, self.rows), start), place)
        rows = [
            [add(e, first, str(STRIP * strip + 8 * half)) for half in range(2)]
            for strip in range(self.strips)
        ]
        column = multiply(e, turn, self.tile)
        columns = [add(e, column, each) for each in self.f.pair(part)]
        apart = [
            [[e.op(f"sub i64 {column}, {row}") for column in columns] for row in strip] for strip in rows
        ]
        return rows, columns, apart

    def store(self, name: str, made: Results, factors: list[list[str]], number: str) -> None:
        """Write results to memory. factors: of the rows that a thread has, by strips; number: of the block's rows."""
        e, rows = self.e, self.a.written[name]
        base = self.matrix(rows, (RESULT, name), self.at()[1])
        all_rows, _, _ = self.places(number, "0")

        def write(row: str, results: list[list[int]], half: int, factor: str) -> None:
            there = e.op(f"getelementptr {TYPES[rows.dtype]}, ptr {base}, i64 {multiply(e, row, rows.row)}")
            self.f.write_row(there, results, half, factor, rows.dtype)

        for strip, results in enumerate(made):
            for half, row in enumerate(all_rows[strip]):
                todo = functools.partial(write, row, results, half, factors[strip][half])
                when(e, e.op(f"icmp slt i64 {row}, {self.own}"), todo)

    def row_of(self, key: Any, rows: Rows, counters: list[str], query: str) -> str:
        """Return where the number lies that there is of each query."""
        base = self.matrix(rows, key, counters)
        return self.e.op(f"getelementptr float, ptr {base}, i64 {multiply(self.e, query, rows.row)}")


class _Forward(_Tiles):
    """A block has queries, and goes along the keys.

    Of each row the largest score so far is known, and the sum of e to the scores less that; where a larger one comes
    up, what was added up so far is made smaller.
    """

    heavy_last = True
    products = 2
    name = "attention"

    def __init__(self, attention: Attention, exact: bool) -> None:
        super().__init__(attention, exact)
        self.own, self.along = attention.query.size, attention.key.size
        self.low, self.high = attention.band.below, attention.band.above

    def shape(self) -> tuple[int, int, bool]:
        """Return strips of rows for a warp, how many of the others are gone along at once, and where own rows are."""
        return (HALF_FORWARD if self.a.dtype in HALVES else FORWARD)[self.a.size]

    def group_shape(self) -> tuple[int, int, int]:
        """Return warps of a block, how many of the others are gone along at once, and blocks of a multiprocessor."""
        return GROUPS_FORWARD[self.a.size]

    def write(self) -> None:
        """Write the phases."""
        a, block, e = self.a, self.block, self.e
        # Whether keys and values are copied while those before them are met.
        ahead = isinstance(self.f, Groups)
        keys = self.buffer(4 * self.tile if ahead else self.tile)
        values = keys if ahead else self.buffer(max(self.tile, self.rows if self.f.in_registers else 0))
        queries = values if self.f.in_registers else self.buffer(self.rows)
        held = self.f.held()
        second = [self.f.slots(2) for _ in range(max(a.size, self.tile) // 8)]
        scores, result = self.f.results(self.tile // 8), self.f.results(a.size // 8)
        factors = [self.f.slots(4) for _ in range(self.strips)]
        # For each row of a thread:
        most, total, mine, theirs = ([block.variable() for _ in range(2 * self.strips)] for _ in range(4))

        with block.phase():
            number = self.at()[0]
            limit = self.limit(self.own, self.rows)
            self.copy(a.q, multiply(e, number, self.rows), self.rows, limit, str(queries))
            start, _ = self.bounds(number)
            if ahead:
                self.copy_met((a.k, a.v), keys, start)
            else:
                self.copy(a.k, multiply(e, start, self.tile), self.tile, f"{self.along}", str(keys))
                e.line("commit")
            self.clear(result)
            for one, other in zip(most, total, strict=True):
                block.keep(one, NOTHING)
                block.keep(other, ZERO)
            self.arrived()
        if self.f.in_registers:
            self.f.hold(held, str(queries))
        with block.turns_between(self.bounds) as turn:
            with block.phase():
                self.arrived()
            with block.phase(waits=False):
                if ahead:
                    self.copy_met((a.k, a.v), keys, add(e, turn, "1"))
                else:
                    self.copy(a.v, multiply(e, turn, self.tile), self.tile, f"{self.along}", str(values))
                    e.line("commit")
                self.clear(scores)
            places: list[Callable[[], str]] = [lambda: str(keys), lambda: str(values)]
            if ahead:
                places = [functools.partial(self.near, keys, turn, which) for which in range(2)]
            self.f.multiply_along(scores, held, str(queries), second, places[0])
            self.f.multiplied()
            with block.phase(waits=False):
                number = self.at()[0]
                self.within(number, turn, functools.partial(self.take_scores, scores, number, turn, mine))
            self.exchange(mine, theirs, self.larger_of)
            with block.phase(waits=False):
                for strip in range(self.strips):
                    for half in range(2):
                        self.take_powers(
                            scores[strip],
                            result[strip],
                            half,
                            *(x[2 * strip + half] for x in (most, total, mine)),
                        )
            if a.kept is not None:
                with block.phase(waits=False):
                    self.drop(scores, self.at()[0], turn)
            if not ahead:
                with block.phase():
                    self.arrived()
                with block.phase(waits=False):
                    _, stop = self.bounds()
                    following = multiply(e, add(e, turn, "1"), self.tile)
                    limit = smaller(e, multiply(e, stop, self.tile), f"{self.along}")
                    self.copy(a.k, following, self.tile, limit, str(keys))
                    e.line("commit")
            self.f.multiply_across(result, scores, factors, second, places[1])
            self.f.multiplied()
        with block.phase(waits=False):
            for one, other in zip(mine, total, strict=True):
                block.keep(one, block.kept(other))
        self.exchange(mine, theirs, self.sum_of)
        with block.phase(waits=False):
            whole = literal(np.float32(a.v.factor * a.kept_factor), FLOAT32)
            sums = [block.kept(each) for each in mine]
            shares = [e.op(f"fdiv float {whole}, {each}") for each in sums]
            number = self.at()[0]
            self.store("o", result, [shares[2 * strip :] for strip in range(self.strips)], number)
            if "l" in a.written:
                self.store_sums(sums, most, number)
            e.line("wait 0")

    def take_scores(self, scores: Results, number: str, turn: str, largest: list[int], masked: bool) -> None:
        """Take f of the products of a tile, and each row's largest."""
        e, block = self.e, self.block
        _, counters = self.at()
        rows, columns, apart = self.places(number, turn)
        for strip, results in enumerate(scores):
            found = [NOTHING, NOTHING]
            for n, result in enumerate(results):
                for k, slot in enumerate(result):
                    half, column = k // 2, columns[k % 2]
                    score = block.kept(slot)
                    if not self.is_plain:
                        known = {"product": self.scaled(score, self.factor)}
                        j = add(e, column, str(8 * n))
                        score = self.expression("scores", counters, rows[strip][half], j, known)
                    distance = apart[strip][half][k % 2]
                    for holds in self.conditions(distance, column, 8 * n) if masked else ():
                        score = e.op(f"select i1 {holds}, float {score}, float {NOTHING}")
                    block.keep(slot, score)
                    found[half] = self.larger_of(found[half], score)
            for half in range(2):
                block.keep(largest[2 * strip + half], found[half])

    def drop(self, powers: Results, number: str, turn: str) -> None:
        """Leave only those powers that are kept."""
        e, block = self.e, self.block
        _, counters = self.at()
        rows, columns, _ = self.places(number, turn)
        for strip, results in enumerate(powers):
            for n, result in enumerate(results):
                for k, slot in enumerate(result):
                    j = add(e, columns[k % 2], str(8 * n))
                    is_kept = self.expression("kept", counters, rows[strip][k // 2], j, {})
                    block.keep(slot, e.op(f"select i1 {is_kept}, float {block.kept(slot)}, float {ZERO}"))

    def take_powers(
        self, scores: list[list[int]], result: list[list[int]], half: int, most: int, total: int, largest: int
    ) -> None:
        """Take e to a row's scores, less the largest so far, and add them up."""
        e, block = self.e, self.block
        before = block.kept(most)
        after = self.larger_of(before, block.kept(largest))
        block.keep(most, after)
        is_none = e.op(f"fcmp oeq float {after}, {NOTHING}")
        least = e.op(f"select i1 {is_none}, float {ZERO}, float {after}")
        if self.is_plain:
            factor = literal(np.float32(self.factor * math.log2(math.e)), FLOAT32)
            less = e.op(f"fmul float {least}, {factor}")
        power_of = (
            (lambda x: self.plain_power(x, less)) if self.is_plain else (lambda x: self.power(x, least))
        )
        smaller_by = power_of(before)
        so_far = e.op(f"fmul float {block.kept(total)}, {smaller_by}")
        for tile in scores:
            for slot in tile[2 * half : 2 * half + 2]:
                power = power_of(block.kept(slot))
                block.keep(slot, power)
                so_far = e.op(f"fadd float {so_far}, {power}")
        block.keep(total, so_far)
        for tile in result:
            for slot in tile[2 * half : 2 * half + 2]:
                block.keep(slot, e.op(f"fmul float {block.kept(slot)}, {smaller_by}"))

    def store_sums(self, sums: list[str], most: list[int], number: str) -> None:
        """Write each row's largest score and the logarithm of its sum, which the gradients are computed from.

        Apart from each other: where all scores are some -1e9 of a mask's, their sum would be lost in it.
        """
        e, counters = self.e, self.at()[1]
        is_mine = e.op(f"icmp eq i64 {self.f.lanes()[2]}, 0")
        rows, _, _ = self.places(number, "0")
        for row, total, largest in zip([each for strip in rows for each in strip], sums, most, strict=True):
            log = functions.emit_function(e, "log", [total], FLOAT32, 1)
            most_scaled = self.scaled(self.block.kept(largest), self.factor if self.is_plain else 1.0)
            numbers = {"m": most_scaled, "l": e.op(f"fmul float {log}, {LOG2_E}")}
            exists = e.op(f"icmp slt i64 {row}, {self.own}")
            targets = {n: self.row_of((RESULT, n), self.a.written[n], counters, row) for n in ROW_NUMBERS}

            def todo(numbers: dict[str, str] = numbers, targets: dict[str, str] = targets) -> None:
                for name in ROW_NUMBERS:
                    e.line(f"store float {numbers[name]}, ptr {targets[name]}, align 4")

            when(e, e.op(f"and i1 {is_mine}, {exists}"), todo)


class _Backward(_Tiles):
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
