"""What the kernels of attention have in common. Enters: an `Attention`. Leaves: phases that go through it by tiles.

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

from minitorch.compiler.backends.cuda.attention import COPIED, Attention, Rows, expressions
from minitorch.compiler.backends.cuda.exact import supplied
from minitorch.compiler.backends.cuda.fragments import STRIP, Fragments, Groups, Halves, Results, Tf32
from minitorch.compiler.backends.cuda.words import WARP, BlockWriter, Kernel
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


class Tiles:
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
