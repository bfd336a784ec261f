"""Rows in order. Enters: the `Rows` to be sorted. Leaves: kernels that sort them, in shared memory as far as they fit.

Elements become whole numbers that lie in the same order (nan last, -0 and 0 the same), each with its place in the row,
so that no two are equal and equal elements stay in their order. They are sorted by merging: runs of 2, 4, 8 … elements,
every other one downwards, become runs of twice the length by comparing elements that lie half a run apart, then a
quarter, and so on. A thread takes 8 elements, and so three such steps at once. A block has a piece of a row in shared
memory; elements that lie further apart are compared where they lie in memory, between the kernels that merge pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from minitorch.compiler.backends.cuda.exact import supplied
from minitorch.compiler.backends.cuda.words import SHARED_BYTES, BlockWriter, Kernel, with_sizes
from minitorch.compiler.backends.llvm.body import Body, Expression, in_order
from minitorch.compiler.backends.llvm.control import add, divide, multiply, smaller, take_apart, when
from minitorch.compiler.backends.llvm.space import Space
from minitorch.compiler.backends.llvm.text import TYPES, literal
from minitorch.compiler.backends.llvm.writer import Writer
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.index import Affine, Dim, total
from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import is_fixed, typical

BITS = 3  # steps at once
EACH = 1 << BITS  # elements of a thread
BLOCK_THREADS = 128  # of short rows, so many threads are a block
MERGING_THREADS = 256
PLACE_BITS = 32
MOST_SCRATCH = 1 << 28  # bytes, for rows that do not fit into shared memory


def is_sorted_here(value: Value) -> bool:
    """Whether a sort is kernels of our own: how many rows there are may vary, and how long they are not."""
    (x,) = value.inputs
    length = x.shape[value.attributes["axis"]]
    if not is_fixed(length) or 0 in x.shape or x.dtype in HALVES or x.dtype not in TYPES:
        return False
    return typical(scratch_bytes(x.dtype, x.size, length)) <= MOST_SCRATCH


def scratch_bytes(dtype: np.dtype, size: int, length: int) -> int:
    """Return how much memory it takes to sort rows of a length: none, if they fit into shared memory."""
    bits = _bits(length)
    return 0 if bits <= _piece_bits(dtype) else size // length * _bytes(dtype) << bits


def _bits(length: int) -> int:
    """Return how long a row is with what fills it up: to a power of two."""
    return max(BITS, (length - 1).bit_length())


def _piece_bits(dtype: np.dtype) -> int:
    """Return how much of a row a block sorts in shared memory."""
    bits = BITS
    while _padded(2 << bits) * _bytes(dtype) <= SHARED_BYTES:
        bits += 1
    return bits


def _padded(count: int) -> int:
    """Return how much room elements take: after each thread's there is a gap, so that threads meet in no bank."""
    return count + count // EACH


def _bytes(dtype: np.dtype) -> int:
    """Return what an element takes: a number with the place in its lower half, or both apart."""
    return 8 if dtype.itemsize < 8 else 16


@dataclass(frozen=True)
class Rows:
    """Rows to be sorted.

    node: an element; along: the loop of a row; where: of the operand that has the result. places: the result is where
    elements came from, and not they themselves. scratch: an operand for rows that are too long.
    """

    body: Body
    outer: list[Dim]
    along: Dim
    node: Expression
    operand: int
    where: Affine
    places: bool
    scratch: int | None


def write_sort(rows: Rows) -> list[Kernel]:
    """Write the kernels that sort rows."""
    bits, piece = _bits(rows.along.size), _piece_bits(rows.node.dtype)
    if bits <= piece:
        return [with_sizes(_Piece(rows, bits, bits, _turns(range(1, bits + 1), bits), True, True).kernel)]
    first_piece = _Piece(rows, bits, piece, _turns(range(1, piece + 1), piece), True, False)
    kernels = [with_sizes(first_piece.kernel)]
    for run in range(piece + 1, bits + 1):
        step = run - 1
        while step >= piece:
            first = min(max(piece, step + 1 - BITS), bits - BITS)
            kernels.append(with_sizes(_Far(rows, bits, run, first).kernel))
            step = first - 1
        merging = _Piece(rows, bits, piece, _turns([run], piece), False, run == bits)
        kernels.append(with_sizes(merging.kernel))
    return kernels


def _turns(runs: Sequence[int], bits: int) -> list[tuple[int, int]]:
    """Return by turn how long the runs are that are merged (their bits), and the first of its steps.

    (A step that is taken twice changes nothing.)
    """
    return [
        (run, min(first, bits - BITS))
        for run in runs
        for first in range((min(run, bits) - 1) // BITS * BITS, -1, -BITS)
    ]


class _Steps:
    """What kernels that compare and exchange elements have in common. bits: of a row."""

    def __init__(self, rows: Rows, bits: int) -> None:
        self.rows, self.bits, self.length = rows, bits, rows.along.size
        self.block = BlockWriter()
        self.e = self.block.e
        self.apart = _bytes(rows.node.dtype) == 16
        nodes = in_order([rows.node])
        addresses = [n.data.where for n in nodes if n.kind == "load"] + [rows.where]
        addresses += [n.data for n in nodes if n.kind == "index"]
        addresses += [c[0] for n in nodes if n.kind in ("load", "pad") for c in n.data.conditions]
        self.space = Space(addresses, [*rows.outer, rows.along])

    def made(self, blocks: int, threads: int, shared: int, note: str) -> Kernel:
        """Return the kernel, when all is written."""
        externs, elements = supplied(self.e.externs), total(self.rows.outer) * self.bits << self.bits - BITS
        operands = list(self.rows.body.operands)  # (each kernel has its own sizes after them)
        return Kernel(self.block.items, operands, blocks, threads, shared, externs, 0.0, note, elements)

    def in_scratch(self, row: str, place: str) -> list[str]:
        """Return the addresses of an element's parts in memory."""
        e = self.e
        number = e.op(f"add i64 {e.op(f'shl i64 {row}, {self.bits}')}, {place}")
        parts = [number]
        if self.apart:
            parts.append(e.op(f"add i64 {number}, {total(self.rows.outer) << self.bits}"))
        return [
            e.op(f"getelementptr i64, ptr %operand{self.rows.scratch}, i64 {part}", "p") for part in parts
        ]

    def read(self, addresses: list[str]) -> list[str]:
        """Read an element's parts."""
        return [self.e.op(f"load i64, ptr {each}, align 8") for each in addresses]

    def write_to(self, addresses: list[str], names: list[str]) -> None:
        """Write an element's parts."""
        for name, each in zip(names, addresses, strict=True):
            self.e.line(f"store i64 {name}, ptr {each}, align 8")

    def places(self, lane: str, first: str) -> list[str]:
        """Return which elements a thread takes: its number with three more bits at the place of the steps."""
        e = self.e
        above = e.op(f"lshr i64 {lane}, {first}")
        below = e.op(f"sub i64 {lane}, {e.op(f'shl i64 {above}, {first}')}")
        start = e.op(f"add i64 {e.op(f'shl i64 {above}, {add(e, first, str(BITS))}')}, {below}")
        return [add(e, start, e.op(f"shl i64 {k}, {first}")) if k else start for k in range(EACH)]

    def exchange(self, held: list[list[str]], places: list[str], run: str, first: str) -> None:
        """Compare and exchange a thread's elements, as far as runs are long. places: in the row."""
        e = self.e
        turned = [e.op(f"lshr i64 {place}, {run}") for place in places]
        downwards = [e.op(f"trunc i64 {each} to i1") for each in turned]
        for step in reversed(range(BITS)):
            is_step = e.op(f"icmp ult i64 {add(e, first, str(step))}, {run}")
            for k in range(EACH):
                if k >> step & 1:
                    continue
                other = k | 1 << step
                wrong = e.op(f"xor i1 {self.is_greater(held[k], held[other])}, {downwards[k]}")
                swap = e.op(f"and i1 {wrong}, {is_step}")
                for part in range(len(held[k])):
                    a, b = held[k][part], held[other][part]
                    held[k][part] = e.op(f"select i1 {swap}, i64 {b}, i64 {a}")
                    held[other][part] = e.op(f"select i1 {swap}, i64 {a}, i64 {b}")

    def is_greater(self, a: list[str], b: list[str]) -> str:
        """Return whether one comes after another."""
        e = self.e
        greater = e.op(f"icmp ugt i64 {a[0]}, {b[0]}")
        if not self.apart:
            return greater
        same, later = e.op(f"icmp eq i64 {a[0]}, {b[0]}"), e.op(f"icmp ugt i64 {a[1]}, {b[1]}")
        return e.op(f"or i1 {greater}, {e.op(f'and i1 {same}, {later}')}")


class _Far(_Steps):
    """Steps between elements that lie in memory."""

    def __init__(self, rows: Rows, bits: int, run: int, first: int) -> None:
        super().__init__(rows, bits)
        self.run, self.first = str(run), str(first)

    def kernel(self) -> Kernel:
        """Write it."""
        e, threads = self.e, 1 << self.bits - BITS
        with self.block.phase():
            number = e.op(f"add i64 {multiply(e, '%block', MERGING_THREADS)}, %thread")
            row, lane = divide(e, number, threads)
            places = self.places(lane, self.first)
            where = [self.in_scratch(row, place) for place in places]
            held = [self.read(each) for each in where]
            self.exchange(held, places, self.run, self.first)
            for each, names in zip(where, held, strict=True):
                self.write_to(each, names)
        blocks = total(self.rows.outer) * threads // MERGING_THREADS
        note = f"{typical(blocks)} blocks of {MERGING_THREADS} threads"
        return self.made(blocks, MERGING_THREADS, 0, note)


class _Piece(_Steps):
    """A kernel that sorts or merges pieces of rows in shared memory. begins, ends: with, or in, the rows themselves."""

    def __init__(
        self, rows: Rows, bits: int, piece: int, turns: list[tuple[int, int]], begins: bool, ends: bool
    ) -> None:
        super().__init__(rows, bits)
        self.piece, self.turns, self.begins, self.ends = piece, turns, begins, ends
        self.team = 1 << piece - BITS
        self.room = _padded(1 << piece) * _bytes(rows.node.dtype)
        self.teams = max(1, min(BLOCK_THREADS // self.team, SHARED_BYTES // self.room))

    def kernel(self) -> Kernel:
        """Write it."""
        with self.block.phase():
            self.for_piece(self.bring)
        name = "sort.turns." + "_".join(f"{run}.{first}" for run, first in (self.turns[0], self.turns[-1]))
        numbers = ", ".join(f"i64 {run * 64 + first}" for run, first in self.turns)
        self.e.externs[name] = f"@{name} = internal constant [{len(self.turns)} x i64] [{numbers}], align 8"
        with self.block.turns(len(self.turns)) as turn, self.block.phase(in_warps=self.team <= 32):
            place = self.e.op(f"getelementptr i64, ptr @{name}, i64 {turn}", "p")
            self.steps(self.e.op(f"load i64, ptr {place}, align 8"))
        with self.block.phase():
            self.for_piece(self.leave)
        pieces = total(self.rows.outer) << self.bits - self.piece
        blocks, threads = -(-pieces // self.teams), self.team * self.teams
        note = f"{typical(blocks)} blocks of {threads} threads, {self.team} to a row"
        return self.made(blocks, threads, self.room * self.teams, note)

    # A thread's piece, and its elements.

    def team_and_lane(self) -> tuple[str, str]:
        """Return which of its block's pieces this thread is at, and as which of that one's threads."""
        if self.teams == 1:
            return "0", "%thread"
        return self.e.op(f"udiv i64 %thread, {self.team}"), self.e.op(f"urem i64 %thread, {self.team}")

    def row_and_begin(self) -> tuple[str, str]:
        """Return the row of this thread's piece, and where that begins."""
        e = self.e
        team, _ = self.team_and_lane()
        number = add(e, multiply(e, "%block", self.teams), team)
        row, piece = divide(e, number, 1 << self.bits - self.piece)
        return row, multiply(e, piece, 1 << self.piece)

    def for_piece(self, body: Callable[[str, str, str], None]) -> None:
        """Write something for this thread's piece, if there is one."""
        e, count = self.e, total(self.rows.outer)
        row, begin = self.row_and_begin()
        _, lane = self.team_and_lane()
        if (count << self.bits - self.piece) % self.teams:
            when(e, e.op(f"icmp ult i64 {row}, {count}"), lambda: body(row, begin, lane))
        else:
            body(row, begin, lane)

    def writer(self, row: str, place: str) -> Writer:
        """Return a writer at a place of a row."""
        pointers = [f"%operand{n}" for n in range(len(self.rows.body.operands))]
        w = Writer(self.e, 1, None, self.space, {}, {}, pointers)
        w.scopes.append({})
        counters = take_apart(self.e, row, [d.size for d in self.rows.outer])
        w.counters.update(zip(self.rows.outer, counters, strict=True))
        w.counters[self.rows.along] = place
        return w

    def element(self, row: str, place: str) -> str:
        """Return the element at a place of a row."""
        w = self.writer(row, place)
        for node in in_order([self.rows.node]):
            w.write(node)
        return w.single(self.rows.node)

    def at(self, place: str) -> list[str]:
        """Return the addresses of an element's parts in shared memory."""
        e = self.e
        team, _ = self.team_and_lane()
        begin, gap = multiply(e, team, self.room // 8), e.op(f"lshr i64 {place}, {BITS}")
        number = e.op(f"add i64 {begin}, {e.op(f'add i64 {place}, {gap}')}")
        parts = [number, add(e, number, str(_padded(1 << self.piece)))] if self.apart else [number]
        return [e.op(f"getelementptr i64, ptr %shared, i64 {part}", "p") for part in parts]

    # The phases.

    def bring(self, row: str, begin: str, lane: str) -> None:
        """Bring a piece to shared memory; what fills its row up comes last."""
        e = self.e
        for k in range(EACH):
            local = add(e, lane, str(k * self.team))
            place = add(e, begin, local)
            if not self.begins:
                self.write_to(self.at(local), self.read(self.in_scratch(row, place)))
                continue
            key = self.key(self.element(row, smaller(e, place, str(self.length - 1))))
            if 1 << self.bits != self.length:
                exists = e.op(f"icmp ult i64 {place}, {self.length}")
                key = e.op(f"select i1 {exists}, i64 {key}, i64 {-1 if self.apart else -1 << PLACE_BITS}")
            names = [key, place] if self.apart else [e.op(f"or i64 {key}, {place}")]
            self.write_to(self.at(local), names)

    def key(self, name: str) -> str:
        """Return an element as a number without sign that lies in the same order; in its upper half, if it has one."""
        e, dtype = self.e, self.rows.node.dtype
        kind, bits = TYPES[dtype], dtype.itemsize * 8
        if dtype.kind == "f":
            is_number = e.op(f"fcmp ord {kind} {name}, {name}")
            name = e.op(f"fadd {kind} {name}, {literal(0.0, dtype)}")  # (-0 becomes 0, its equal)
            pattern = e.op(f"bitcast {kind} {name} to i{bits}")
            sign = e.op(f"ashr i{bits} {pattern}, {bits - 1}")
            flipped = e.op(f"or i{bits} {sign}, {-(1 << (bits - 1))}")
            pattern = e.op(f"xor i{bits} {pattern}, {flipped}")
            key = e.op(f"select i1 {is_number}, i{bits} {pattern}, i{bits} -1")
        elif dtype.kind == "i":
            key = e.op(f"xor i{bits} {name}, {-(1 << (bits - 1))}")
        else:
            bits, key = (1, name) if dtype.kind == "b" else (bits, name)
        if bits == 64:
            return key
        return e.op(f"shl i64 {e.op(f'zext i{bits} {key} to i64')}, {PLACE_BITS}")

    def steps(self, turn: str) -> None:
        """Take the steps of a turn."""
        e = self.e
        run, first = e.op(f"lshr i64 {turn}, 6"), e.op(f"and i64 {turn}, 63")
        _, lane = self.team_and_lane()
        _, begin = self.row_and_begin()
        places = self.places(lane, first)
        where = [self.at(place) for place in places]
        held = [self.read(each) for each in where]
        self.exchange(held, [add(e, begin, place) for place in places], run, first)
        for each, names in zip(where, held, strict=True):
            self.write_to(each, names)

    def leave(self, row: str, begin: str, lane: str) -> None:
        """Store elements in their order, or where they came from."""
        e = self.e
        for k in range(EACH):
            local = add(e, lane, str(k * self.team))
            place, names = add(e, begin, local), self.read(self.at(local))
            if not self.ends:
                self.write_to(self.in_scratch(row, place), names)
            elif 1 << self.bits == self.length:
                self.store(row, place, names)
            else:
                exists = e.op(f"icmp ult i64 {place}, {self.length}")
                when(e, exists, lambda place=place, names=names: self.store(row, place, names))  # type: ignore[misc]

    def store(self, row: str, place: str, names: list[str]) -> None:
        """Store what has come to a place."""
        came_from, dtype = names[-1], self.rows.node.dtype
        if not self.apart:
            came_from = self.e.op(f"and i64 {came_from}, {(1 << PLACE_BITS) - 1}")
        if self.rows.places:
            name, dtype = came_from, np.dtype(np.int64)
        else:
            name = self.element(row, came_from)
        self.writer(row, place).store_name(name, dtype, self.rows.operand, self.rows.where)
