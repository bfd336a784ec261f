"""How a warp multiplies matrices. Enters: rows in shared memory. Leaves: results, of which a thread has some elements.

Matrices are multiplied 16 × 8 elements at a time, each thread having some of them (`Together` in words.py): in terms of
place = lane / 4 and part = lane % 4, elements (place, part) and (place, part + 4) of a factor, those eight rows further
on, and (place, 2·part) and its neighbour of a result. What is summed, and columns, may come in any order that is the
same everywhere, and this one lets a thread read two neighbours at once, and threads side by side find all banks:
- along a head, (part, part + 4) are elements 2·part and 2·part + 1;
- the rows of a tile come as 0, 1, 2, 3, 5, 4, 7, 6: so a result has columns `first` and `second` of 2·part and its
  neighbour, and can be a factor without moving if rows of the other are taken in this order;
- two results side by side have the even and the odd columns of 16: four neighbours for a thread.

Of halves it is 16 × 16 × 8 elements at a time, two of them in a slot. There are instructions that bring matrices of
8 × 8 of them, transposed or not, to where they are wanted, and everything comes in its own order. Where four warps
multiply together (`GroupProduct` in words.py), they find factors in shared memory by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.words import BlockWriter, GroupProduct
from minitorch.compiler.backends.llvm.control import add, multiply
from minitorch.compiler.backends.llvm.text import TYPES, literal

STRIP = 16  # rows
APART = 8  # elements between two rows in shared memory: so threads that read side by side find all banks
PANEL = 64  # elements of a row that lie side by side where four warps multiply
ZERO, INFINITE = (literal(number, np.dtype(np.float32)) for number in (0.0, np.inf))

Slots = list[list[int]]  # of a fragment: of its elements, and of what is left of them when they are rounded
Results = list[list[list[int]]]  # by strips of rows and by groups of eight columns, four slots each


class Fragments:
    """Writes products. size: of a head. strips: of rows, for a warp. in_registers: whether a warp keeps its own rows.

    depth: how many are summed at once.
    """

    depth: int

    def __init__(self, block: BlockWriter, dtype: Any, size: int, strips: int, in_registers: bool) -> None:
        self.block, self.e = block, block.e
        self.dtype, self.element = dtype, TYPES[dtype]
        self.size, self.strips, self.in_registers = size, strips, in_registers
        self.stride = size + APART

    @property
    def row_bytes(self) -> int:
        """How far apart rows lie in shared memory."""
        return self.stride * self.dtype.itemsize

    def lanes(self) -> tuple[str, str, str]:
        """Return the first row of a thread's warp in the block, and the thread's place and part in the warp."""
        e = self.e
        warp = e.op("lshr i64 %thread, 5")
        lane = e.op("and i64 %thread, 31")
        first = multiply(e, warp, STRIP * self.strips)
        return first, e.op(f"lshr i64 {lane}, 2"), e.op(f"and i64 {lane}, 3")

    def near(self, buffer: str, row: str, column: str, rows: int) -> str:
        """Return where an element lies in shared memory, in a buffer of so many rows."""
        e = self.e
        place = add(e, multiply(e, row, self.stride), column)
        begin = e.op(f"getelementptr i8, ptr %shared, i64 {buffer}")
        return e.op(f"getelementptr {self.element}, ptr {begin}, i64 {place}")

    def results(self, count: int) -> Results:
        """Return results, for each strip some side by side."""
        return [[[self.block.variable() for _ in range(4)] for _ in range(count)] for _ in range(self.strips)]

    def slots(self, count: int) -> Slots:
        """Return a fragment that each thread has some elements of."""
        raise NotImplementedError

    def held(self) -> list[list[Slots]]:
        """Return the fragments of a block's rows: of each strip as many as are kept."""
        steps = self.size // self.depth if self.in_registers else 1
        return [[self.slots(4) for _ in range(steps)] for _ in range(self.strips)]

    def pair(self, part: str) -> list[str]:
        """Return which two columns of eight a thread has in a result."""
        raise NotImplementedError

    def hold(self, slots: list[list[Slots]], buffer: str) -> None:
        """Write phases that read the rows of each warp from shared memory; slots: by strips and steps along a head."""
        raise NotImplementedError

    def multiply_along(
        self,
        made: Results,
        held: list[list[Slots]],
        mine: str,
        second: list[Slots],
        buffer: Callable[[], str],
    ) -> None:
        """Add to the results a block's rows times those in a buffer: summed along a head.

        mine: where the block's rows lie in shared memory.
        """
        raise NotImplementedError

    def multiply_across(
        self,
        made: Results,
        first: Results,
        factors: list[Slots],
        second: list[Slots],
        buffer: Callable[[], str],
    ) -> None:
        """Add to the results earlier ones times what is in a buffer: summed along a row."""
        raise NotImplementedError

    def multiplied(self) -> None:
        """See to it that products are there."""

    def write_row(self, base: str, results: list[list[int]], half: int, factor: str, dtype: Any) -> None:
        """Write what a thread has of a row, times a factor, to memory."""
        raise NotImplementedError

    def scaled(self, slot: int, factor: str) -> str:
        """Return what is kept, times a factor."""
        return self.e.op(f"fmul float {self.block.kept(slot)}, {factor}")


class Tf32(Fragments):
    """Products of float32 in TF32. exact: of three of them, as exact as those of float32."""

    depth = 8
    exact = False

    def slots(self, count: int) -> Slots:
        """Return a fragment that each thread has some elements of."""
        return [[self.block.variable() for _ in range(count)] for _ in range(2 if self.exact else 1)]

    def pair(self, part: str) -> list[str]:
        """Return which two columns of eight a thread has in a result, and so which rows of a factor."""
        e = self.e
        swapped, even = e.op(f"lshr i64 {part}, 1"), multiply(e, part, 2)
        return [e.op(f"or i64 {even}, {swapped}"), add(e, even, e.op(f"xor i64 {swapped}, 1"))]

    def read(self, near: str, further: int) -> list[str]:
        """Read two neighbours from shared memory, some elements further on."""
        e = self.e
        place = e.op(f"getelementptr float, ptr {near}, i64 {further}")
        both = e.op(f"load <2 x float>, ptr {place}, align 8")
        return [e.op(f"extractelement <2 x float> {both}, i32 {k}") for k in range(2)]

    def put(self, slots: Slots, number: int, name: str) -> None:
        """Keep an element of a fragment, as products want it."""
        e = self.e
        if not self.exact:
            self.block.keep(slots[0][number], e.call("fast.tf32", "float", [("float", name)]))
            return
        # To the nearest, so that what is left is small and of either sign: the product of two such is left out.
        bits = e.op(f"add i32 {e.op(f'bitcast float {name} to i32')}, 4096")
        most = e.op(f"bitcast i32 {e.op(f'and i32 {bits}, -8192')} to float")
        rest = e.op(f"fsub float {name}, {most}")
        size = e.call("llvm.fabs.f32", "float", [("float", rest)])
        # What is no number, or infinite, or would be so, is not cut, and is all that is left: it is multiplied with
        # most of the other factor alone, which has its sign, and is 0 only if that is.
        is_cut = e.op(f"fcmp olt float {size}, {INFINITE}")
        self.block.keep(slots[0][number], e.op(f"select i1 {is_cut}, float {most}, float {ZERO}"))
        self.block.keep(slots[1][number], e.op(f"select i1 {is_cut}, float {rest}, float {name}"))

    def add_product(self, c: list[int], a: Slots, b: Slots) -> None:
        """Add the product of two fragments to a third."""
        for x, y in ((1, 0), (0, 1), (0, 0)) if self.exact else ((0, 0),):
            self.block.together("multiply", [*c, *a[x], *b[y]])

    def first_factor(self, slots: Slots, near: str, strip: int, step: int) -> None:
        """Read a strip of rows, eight elements of each, as the first factor of products."""
        for half in range(2):
            rows = (STRIP * strip + 8 * half) * self.stride
            for k, name in enumerate(self.read(near, rows + 8 * step)):
                self.put(slots, half + 2 * k, name)

    def of_warp(self, buffer: str) -> str:
        """Return where the first of a warp's rows lie in shared memory."""
        first, place, part = self.lanes()
        return self.near(buffer, add(self.e, first, place), multiply(self.e, part, 2), 0)

    def hold(self, slots: list[list[Slots]], buffer: str) -> None:
        """Write phases that read the rows of each warp from shared memory; slots: by strips and steps along a head."""
        with self.block.phase():
            near = self.of_warp(buffer)
            for strip, fragments in enumerate(slots):
                for step, fragment in enumerate(fragments):
                    self.first_factor(fragment, near, strip, step)

    def multiply_along(
        self,
        made: Results,
        held: list[list[Slots]],
        mine: str,
        second: list[Slots],
        buffer: Callable[[], str],
    ) -> None:
        """Add to the results, by strips and columns, a block's rows times those in a buffer: summed along a head.

        mine: where the block's rows lie in shared memory.
        """
        e, count = self.e, len(made[0])
        for step in range(self.size // 8):
            now = [fragments[step if self.in_registers else 0] for fragments in held]
            with self.block.phase(waits=False):
                if not self.in_registers:
                    near = self.of_warp(mine)
                    for strip, fragment in enumerate(now):
                        self.first_factor(fragment, near, strip, step)
                _, place, part = self.lanes()
                row = e.op(f"xor i64 {place}, {e.op(f'lshr i64 {place}, 2')}")
                near = self.near(buffer(), row, multiply(e, part, 2), 0)
                for number in range(count):
                    for k, name in enumerate(self.read(near, 8 * number * self.stride + 8 * step)):
                        self.put(second[number], k, name)
            for number in range(count):
                for strip, fragment in enumerate(now):
                    self.add_product(made[strip][number], fragment, second[number])

    def multiply_across(
        self,
        made: Results,
        first: Results,
        factors: list[Slots],
        second: list[Slots],
        buffer: Callable[[], str],
    ) -> None:
        """Add to the results, by strips and columns, earlier results times what is in a buffer: summed along a row."""
        e, count = self.e, len(made[0])
        for step in range(len(first[0])):
            with self.block.phase(waits=False):
                for strip, factor in enumerate(factors):
                    scores = first[strip][step]
                    for k, slot in enumerate((scores[0], scores[2], scores[1], scores[3])):
                        self.put(factor, k, self.block.kept(slot))
                _, place, part = self.lanes()
                column, base = multiply(e, place, 2), buffer()
                for k, row in enumerate(self.pair(part)):
                    near = self.near(base, row, column, 0)
                    for number in range(0, count, 2):
                        for odd, name in enumerate(self.read(near, 8 * step * self.stride + 8 * number)):
                            self.put(second[number + odd], k, name)
            for number in range(count):
                for strip, factor in enumerate(factors):
                    self.add_product(made[strip][number], factor, second[number])

    def write_row(self, base: str, results: list[list[int]], half: int, factor: str, dtype: Any) -> None:
        """Write what a thread has of a row, times a factor, to memory."""
        e = self.e
        there = e.op(f"getelementptr float, ptr {base}, i64 {multiply(e, self.lanes()[2], 4)}")
        for pair in range(0, len(results), 2):
            four = "poison"
            for k in range(4):
                scaled = self.scaled(results[pair + k % 2][2 * half + k // 2], factor)
                four = e.op(f"insertelement <4 x float> {four}, float {scaled}, i32 {k}")
            target = e.op(f"getelementptr float, ptr {there}, i64 {8 * pair}")
            e.line(f"store <4 x float> {four}, ptr {target}, align 16")


class Halves(Fragments):
    """Products of float16 or bfloat16, summed in float32."""

    depth = 16

    def __init__(self, block: BlockWriter, dtype: Any, size: int, strips: int, in_registers: bool) -> None:
        super().__init__(block, dtype, size, strips, in_registers)
        self.mine, self.met = block.variable("i32"), block.variable("i32")  # where a thread's row begins

    def slots(self, count: int) -> Slots:
        """Return a fragment that each thread has some elements of."""
        return [[self.block.variable("i32") for _ in range(count)]]

    def pair(self, part: str) -> list[str]:
        """Return which two columns of eight a thread has in a result."""
        even = multiply(self.e, part, 2)
        return [even, add(self.e, even, "1")]

    def pack(self, x: str, y: str) -> str:
        """Return two numbers in one register."""
        return self.e.call(f"fast.pack_{self.dtype.name}", "i32", [("float", x), ("float", y)])

    def point(self, slot: int, buffer: str, first: str, rows_first: bool) -> None:
        """Keep where the row begins that a thread says of four matrices of 8 × 8: two by two, down or across first."""
        e = self.e
        lane = e.op("and i64 %thread, 31")
        row = e.op(f"and i64 {lane}, 7")
        eights = [e.op(f"and i64 {e.op(f'lshr i64 {lane}, {shift}')}, 8") for shift in (0, 1)]
        down, across = eights if rows_first else eights[::-1]
        place = add(e, multiply(e, add(e, add(e, first, row), down), self.stride), across)
        whole = add(e, multiply(e, place, self.dtype.itemsize), buffer)
        self.block.keep(slot, e.op(f"trunc i64 {whole} to i32"))

    def matrices(self, slots: list[int], where: int, row: int, column: int, transposed: bool = False) -> None:
        """Read four matrices, some rows and columns further on."""
        kind = "matrices_transposed" if transposed else "matrices"
        further = (row * self.stride + column) * self.dtype.itemsize
        self.block.together(kind, [*slots, where], further)

    def hold(self, slots: list[list[Slots]], buffer: str) -> None:
        """Write phases that read the rows of each warp from shared memory; slots: by strips and steps along a head."""
        with self.block.phase(waits=False):
            self.point(self.mine, buffer, self.lanes()[0], True)
        for strip, fragments in enumerate(slots):
            for step, fragment in enumerate(fragments):
                self.matrices(fragment[0], self.mine, STRIP * strip, self.depth * step)
        with self.block.phase():
            pass

    def multiply_along(
        self,
        made: Results,
        held: list[list[Slots]],
        mine: str,
        second: list[Slots],
        buffer: Callable[[], str],
    ) -> None:
        """Add to the results a block's rows times those in a buffer: summed along a head."""
        with self.block.phase(waits=False):
            self.point(self.met, buffer(), "0", False)
            if not self.in_registers:
                self.point(self.mine, mine, self.lanes()[0], True)
        for step in range(self.size // self.depth):
            now = [fragments[step if self.in_registers else 0][0] for fragments in held]
            for strip, fragment in enumerate(now if not self.in_registers else ()):
                self.matrices(fragment, self.mine, STRIP * strip, self.depth * step)
            for number in range(0, len(made[0]), 2):
                both = [*second[number][0], *second[number + 1][0]]
                self.matrices(both, self.met, 8 * number, self.depth * step)
            self.multiply(made, now, second)

    def multiply_across(
        self,
        made: Results,
        first: Results,
        factors: list[Slots],
        second: list[Slots],
        buffer: Callable[[], str],
    ) -> None:
        """Add to the results earlier ones times what is in a buffer: summed along a row."""
        with self.block.phase(waits=False):
            self.point(self.met, buffer(), "0", True)
        for step in range(len(first[0]) // 2):
            with self.block.phase(waits=False):
                for strip, factor in enumerate(factors):
                    for k, slot in enumerate(factor[0]):
                        two = first[strip][2 * step + k // 2][2 * (k % 2) :][:2]
                        self.block.keep(slot, self.pack(*(self.block.kept(each) for each in two)))
            for number in range(0, len(made[0]), 2):
                both = [*second[number][0], *second[number + 1][0]]
                self.matrices(both, self.met, self.depth * step, 8 * number, transposed=True)
            self.multiply(made, [factor[0] for factor in factors], second)

    def multiply(self, made: Results, first: list[list[int]], second: list[Slots]) -> None:
        """Add products of fragments to all results."""
        for number in range(len(made[0])):
            for strip, fragment in enumerate(first):
                slots = [*made[strip][number], *fragment, *second[number][0]]
                self.block.together(f"multiply_{self.dtype.name}", slots)

    def write_row(self, base: str, results: list[list[int]], half: int, factor: str, dtype: Any) -> None:
        """Write what a thread has of a row, times a factor, to memory."""
        e, element = self.e, TYPES[dtype]
        there = e.op(f"getelementptr {element}, ptr {base}, i64 {multiply(e, self.lanes()[2], 2)}")
        for number, result in enumerate(results):
            pair = [self.scaled(slot, factor) for slot in result[2 * half : 2 * half + 2]]
            target = e.op(f"getelementptr {element}, ptr {there}, i64 {8 * number}")
            if dtype == self.dtype:
                e.line(f"store i32 {self.pack(*pair)}, ptr {target}, align 4")
                continue
            first = e.op(f"insertelement <2 x float> poison, float {pair[0]}, i32 0")
            both = e.op(f"insertelement <2 x float> {first}, float {pair[1]}, i32 1")
            e.line(f"store <2 x float> {both}, ptr {target}, align 8")


class Groups(Halves):
    """Products of halves by four warps together, of a block's rows in shared memory. rows: how many it has."""

    def __init__(self, block: BlockWriter, dtype: Any, size: int, rows: int, tile: int) -> None:
        super().__init__(block, dtype, size, 1, False)
        self.stride, self.rows, self.tile = PANEL, rows, tile
        self.waiting: list[GroupProduct] = []

    @property
    def row_bytes(self) -> int:
        """How many bytes of shared memory a row takes."""
        return self.size * self.dtype.itemsize

    @property
    def panels(self) -> tuple[int, int]:
        """How far apart in shared memory a row's 64 elements are from the next 64: of a block's rows, of a tile's."""
        return self.rows * 2 * PANEL, self.tile * 2 * PANEL

    def near(self, buffer: str, row: str, column: str, rows: int) -> str:
        """Return where an element lies in shared memory, in a buffer of so many rows."""
        e = self.e
        panel, inside = e.op(f"lshr i64 {column}, 6"), e.op(f"and i64 {column}, {PANEL - 1}")
        moved = e.op(f"xor i64 {inside}, {multiply(e, e.op(f'and i64 {row}, 7'), 8)}")
        place = add(e, add(e, multiply(e, panel, rows * PANEL), multiply(e, row, PANEL)), moved)
        begin = e.op(f"getelementptr i8, ptr %shared, i64 {buffer}")
        return e.op(f"getelementptr {self.element}, ptr {begin}, i64 {place}")

    def keep_place(self, buffer: str) -> int:
        """Keep where rows begin in shared memory."""
        slot = self.block.variable("i32")
        self.block.keep(slot, self.e.op(f"trunc i64 {add(self.e, buffer, '0')} to i32"))
        return slot

    def multiply_along(
        self,
        made: Results,
        held: list[list[Slots]],
        mine: str,
        second: list[Slots],
        buffer: Callable[[], str],
    ) -> None:
        """Have the results be a block's rows times those in a buffer: summed along a head."""
        e = self.e
        with self.block.phase(waits=False):
            group = multiply(e, e.op("lshr i64 %thread, 7"), 64 * 2 * PANEL)
            a, b = self.keep_place(add(e, group, mine)), self.keep_place(buffer())
        (sums,) = made
        c = tuple(slot for four in sums for slot in four)
        self.waiting.append(GroupProduct(self.dtype, c, (a,), b, self.size, False, self.panels))

    def multiply_across(
        self,
        made: Results,
        first: Results,
        factors: list[Slots],
        second: list[Slots],
        buffer: Callable[[], str],
    ) -> None:
        """Add to the results earlier ones times what is in a buffer: summed along a row."""
        (sums,), (scores,) = made, first
        fragments = []
        with self.block.phase(waits=False):
            b = self.keep_place(buffer())
            for step in range(len(scores) // 2):
                (slots,) = self.slots(4)
                for k, slot in enumerate(slots):
                    two = scores[2 * step + k // 2][2 * (k % 2) :][:2]
                    self.block.keep(slot, self.pack(*(self.block.kept(each) for each in two)))
                fragments += slots
        c = tuple(slot for four in sums for slot in four)
        self.waiting.append(
            GroupProduct(self.dtype, c, tuple(fragments), b, 8 * len(scores), True, self.panels)
        )

    def multiplied(self) -> None:
        """See to it that products are there."""
        self.block.group_products(self.waiting)
        self.waiting = []
