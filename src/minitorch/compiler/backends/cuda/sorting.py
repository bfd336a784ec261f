"""Rows in order. Enters: a `Rows` to be sorted. Leaves: a `Kernel` that sorts each in shared memory.

Elements become whole numbers that lie in the same order (nan last, -0 and 0 the same), each with its place in the row,
so that no two are equal and equal elements stay in their order. They are sorted by merging: runs of 2, 4, 8 … elements,
every other one downwards, become runs of twice the length by comparing elements that lie half a run apart, then a
quarter, and so on. A thread takes 8 elements, and so three such steps at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minitorch.compiler.backends.cuda.exact import supplied
from minitorch.compiler.backends.cuda.words import SHARED_BYTES, BlockWriter, Kernel
from minitorch.compiler.backends.llvm.body import Body, Expression, in_order
from minitorch.compiler.backends.llvm.control import add, multiply, smaller, take_apart, when
from minitorch.compiler.backends.llvm.space import Space
from minitorch.compiler.backends.llvm.text import TYPES, literal
from minitorch.compiler.backends.llvm.writer import Writer
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.index import Affine, Dim, total
from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import Size

BITS = 3  # steps at once
EACH = 1 << BITS  # elements of a thread
BLOCK_THREADS = 128  # of short rows, so many threads are a block
PLACE_BITS = 32


def is_sorted_here(value: Value) -> bool:
    """Whether a sort is a kernel of our own: its rows fit into shared memory."""
    (x,) = value.inputs
    length = x.shape[value.attributes["axis"]]
    if any(isinstance(n, Size) for n in x.shape) or 0 in x.shape or x.dtype in HALVES or x.dtype not in TYPES:
        return False
    return _padded(_run(length)) * _bytes(x.dtype) <= SHARED_BYTES


def _run(length: int) -> int:
    """Return the length of a row with what fills it up: a power of two."""
    return max(EACH, 1 << (length - 1).bit_length())


def _padded(count: int) -> int:
    """Return how much room elements take: after each thread's there is a gap, so that threads meet in no bank."""
    return count + count // EACH


def _bytes(dtype: np.dtype) -> int:
    """Return what an element takes: a number with the place in its lower half, or both apart."""
    return 8 if dtype.itemsize < 8 else 16


@dataclass(frozen=True)
class Rows:
    """Rows to be sorted. node: an element; along: the loop of a row; where: of the operand that has the result."""

    body: Body
    outer: list[Dim]
    along: Dim
    node: Expression
    operand: int
    where: Affine
    places: bool  # the result is where elements came from, and not they themselves


def write_sort(rows: Rows) -> Kernel:
    """Write the kernel that sorts rows."""
    sort = _Sort(rows)
    sort.write()
    count = total(rows.outer)
    blocks, threads = -(-count // sort.teams), sort.team * sort.teams
    return Kernel(
        sort.block.items,
        rows.body.operands,
        blocks,
        threads,
        sort.shared,
        supplied(sort.e.externs),
        0.0,
        f"{blocks} blocks of {threads} threads, {sort.team} to a row",
        count * sort.run * sort.bits // EACH,
    )


class _Sort:
    def __init__(self, rows: Rows) -> None:
        self.rows, self.length = rows, rows.along.size
        self.block = BlockWriter()
        self.e = self.block.e
        self.run = _run(self.length)
        self.bits = self.run.bit_length() - 1
        self.team = self.run // EACH
        room = _padded(self.run) * _bytes(rows.node.dtype)
        self.teams = max(1, min(BLOCK_THREADS // self.team, SHARED_BYTES // room))
        while self.team * self.teams % 32:  # (whole warps)
            self.teams += 1
        self.room, self.shared = room, room * self.teams
        self.apart = _bytes(rows.node.dtype) == 16
        nodes = in_order([rows.node])
        addresses = [n.data.where for n in nodes if n.kind == "load"] + [rows.where]
        addresses += [n.data for n in nodes if n.kind == "index"]
        self.space = Space(addresses, [*rows.outer, rows.along])

    def write(self) -> None:
        """Write all phases."""
        with self.block.phase():
            self.for_row(self.bring)
        # By turn: how long the runs are that are merged (their bits), and the first of the steps of this turn.
        # (One that is taken twice changes nothing.)
        turns = [
            (run, min(first, self.bits - BITS))
            for run in range(1, self.bits + 1)
            for first in range((run - 1) // BITS * BITS, -1, -BITS)
        ]
        name = f"sort.steps.{self.bits}"
        numbers = ", ".join(f"i64 {run * 64 + first}" for run, first in turns)
        self.e.externs[name] = f"@{name} = internal constant [{len(turns)} x i64] [{numbers}], align 8"
        with self.block.turns(len(turns)) as turn, self.block.phase(in_warps=self.team <= 32):
            place = self.e.op(f"getelementptr i64, ptr @{name}, i64 {turn}", "p")
            self.steps(self.e.op(f"load i64, ptr {place}, align 8"))
        with self.block.phase():
            self.for_row(self.leave)

    # A thread's row, and its elements.

    def team_and_lane(self) -> tuple[str, str]:
        """Return which of its block's rows this thread is at, and as which of that row's threads."""
        if self.teams == 1:
            return "0", "%thread"
        return self.e.op(f"udiv i64 %thread, {self.team}"), self.e.op(f"urem i64 %thread, {self.team}")

    def for_row(self, body: object) -> None:
        """Write something for this thread's row, if there is one."""
        e, count = self.e, total(self.rows.outer)
        team, lane = self.team_and_lane()
        row = add(e, multiply(e, "%block", self.teams), team)
        assert callable(body)
        if count % self.teams:
            when(e, e.op(f"icmp ult i64 {row}, {count}"), lambda: body(row, lane))
        else:
            body(row, lane)

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
        gap = e.op(f"lshr i64 {place}, {BITS}")
        begin = multiply(e, team, self.room // 8)
        number = e.op(f"add i64 {begin}, {e.op(f'add i64 {place}, {gap}')}")
        parts = [number, add(e, number, str(_padded(self.run)))] if self.apart else [number]
        return [e.op(f"getelementptr i64, ptr %shared, i64 {part}", "p") for part in parts]

    def put(self, place: str, names: list[str]) -> None:
        """Write an element to shared memory."""
        for name, where in zip(names, self.at(place), strict=True):
            self.e.line(f"store i64 {name}, ptr {where}, align 8")

    def get(self, place: str) -> list[str]:
        """Read an element from shared memory."""
        return [self.e.op(f"load i64, ptr {where}, align 8") for where in self.at(place)]

    # The phases.

    def bring(self, row: str, lane: str) -> None:
        """Bring a row to shared memory; what fills it up comes last."""
        e = self.e
        for k in range(EACH):
            place = add(e, lane, str(k * self.team))
            key = self.key(self.element(row, smaller(e, place, str(self.length - 1))))
            if self.run != self.length:
                exists = e.op(f"icmp ult i64 {place}, {self.length}")
                key = e.op(f"select i1 {exists}, i64 {key}, i64 {-1 if self.apart else -1 << PLACE_BITS}")
            self.put(place, [key, place] if self.apart else [e.op(f"or i64 {key}, {place}")])

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
        """Compare and exchange a thread's elements, as far as runs are long."""
        e = self.e
        run, first = e.op(f"lshr i64 {turn}, 6"), e.op(f"and i64 {turn}, 63")
        _, lane = self.team_and_lane()
        # The thread's number without, and with, three bits at the place of the steps.
        above = e.op(f"lshr i64 {lane}, {first}")
        below = e.op(f"sub i64 {lane}, {e.op(f'shl i64 {above}, {first}')}")
        upper = e.op(f"shl i64 {above}, {add(e, first, str(BITS))}")
        start = e.op(f"add i64 {upper}, {below}")
        places = [add(e, start, e.op(f"shl i64 {k}, {first}") if k else "0") for k in range(EACH)]
        held = [self.get(place) for place in places]
        for step in reversed(range(BITS)):
            is_step = e.op(f"icmp ult i64 {add(e, first, str(step))}, {run}")
            for k in range(EACH):
                if k >> step & 1:
                    continue
                other = k | 1 << step
                direction = e.op(f"and i64 {e.op(f'lshr i64 {places[k]}, {run}')}, 1")
                downwards = e.op(f"icmp ne i64 {direction}, 0")
                wrong = e.op(f"xor i1 {self.is_greater(held[k], held[other])}, {downwards}")
                swap = e.op(f"and i1 {wrong}, {is_step}")
                for part in range(len(held[k])):
                    a, b = held[k][part], held[other][part]
                    held[k][part] = e.op(f"select i1 {swap}, i64 {b}, i64 {a}")
                    held[other][part] = e.op(f"select i1 {swap}, i64 {a}, i64 {b}")
        for place, names in zip(places, held, strict=True):
            self.put(place, names)

    def is_greater(self, a: list[str], b: list[str]) -> str:
        """Return whether one comes after another."""
        e = self.e
        greater = e.op(f"icmp ugt i64 {a[0]}, {b[0]}")
        if not self.apart:
            return greater
        same, later = e.op(f"icmp eq i64 {a[0]}, {b[0]}"), e.op(f"icmp ugt i64 {a[1]}, {b[1]}")
        return e.op(f"or i1 {greater}, {e.op(f'and i1 {same}, {later}')}")

    def leave(self, row: str, lane: str) -> None:
        """Store a row's elements in their order, or where they came from."""
        e = self.e
        for k in range(EACH):
            place = add(e, lane, str(k * self.team))

            def store(place: str = place) -> None:
                *_, came_from = self.get(place)
                if not self.apart:
                    came_from = e.op(f"and i64 {came_from}, {(1 << PLACE_BITS) - 1}")
                dtype = self.rows.node.dtype
                if self.rows.places:
                    name, dtype = came_from, np.dtype(np.int64)
                else:
                    name = self.element(row, came_from)
                self.writer(row, place).store_name(name, dtype, self.rows.operand, self.rows.where)

            if self.run == self.length:
                store()
            else:
                when(e, e.op(f"icmp ult i64 {place}, {self.length}"), store)
