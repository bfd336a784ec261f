"""Copies that read along one axis and write along another. Enters: a `Loop`. Leaves: a `Kernel`, or None.

Neighbouring threads should read neighbours in memory, and write them: a block reads a square tile along one axis,
leaves it in shared memory, and writes it along the other.
"""

from __future__ import annotations

from collections.abc import Callable

from minitorch.compiler.backends.cuda.exact import supplied
from minitorch.compiler.backends.cuda.words import BlockWriter, Kernel
from minitorch.compiler.backends.llvm.body import Expression
from minitorch.compiler.backends.llvm.control import add, multiply, take_apart, when_all
from minitorch.compiler.backends.llvm.loops.loop import Loop
from minitorch.compiler.backends.llvm.space import Space
from minitorch.compiler.backends.llvm.text import memory_type
from minitorch.compiler.backends.llvm.writer import Writer
from minitorch.compiler.ir.index import Dim, total
from minitorch.compiler.ir.sizes import typical

TILE, LANES = 32, 8  # a tile's sides; and how many of its lines are read side by side
APART = TILE + 1  # lines in shared memory, so that neither way threads meet in a bank
LEAST_ELEMENTS = 1 << 14


def write_transposed(loop: Loop, guard: int | None) -> Kernel | None:
    """Write a loop as one over tiles, if it reads and writes large arrays along different axes."""
    if loop.folds or loop.serial or len(loop.stores) != 1 or guard is not None:
        return None
    (store,) = loop.stores
    dims = [*loop.outer, *loop.inner]
    if (
        store.places
        or store.function != "set"
        or typical(total(dims)) < LEAST_ELEMENTS
        or store.node.dtype.kind == "b"
    ):
        return None
    nodes = loop.nodes()
    space = Space(loop.addresses(nodes), dims)
    space.join_all(dims)
    written = [d for d in dims if space.factor(store.where, d) == 1]
    read = _read_along(nodes, space, dims)
    if read is None or len(written) != 1 or read is written[0]:
        return None
    if min(typical(read.size), typical(written[0].size)) < LANES:
        return None
    block = BlockWriter()
    _Tiles(loop, space, dims, read, written[0], block).write()
    others = total([d for d in dims if d not in (read, written[0])])
    blocks = -(-read.size // TILE) * -(-written[0].size // TILE) * others
    shared = TILE * APART * store.node.dtype.itemsize
    note = f"{typical(blocks)} tiles of {TILE} by {TILE}"
    externs = supplied(block.e.externs)
    return Kernel(
        block.items, loop.body.operands, blocks, TILE * LANES, shared, externs, 0.0, note, total(dims)
    )


def _read_along(nodes: list[Expression], space: Space, dims: list[Dim]) -> Dim | None:
    """Return the loop along which most is read; None if there is none."""
    weights: dict[Dim, int] = {}
    for node in nodes:
        if node.kind == "load" and not node.args:
            for d in dims:
                if abs(space.factor(node.data.where, d)) == 1:
                    size = typical(total([e for e in dims if space.factor(node.data.where, e)]))
                    weights[d] = weights.get(d, 0) + size * node.dtype.itemsize
    return max(weights, key=lambda d: weights[d]) if weights else None


class _Tiles:
    def __init__(
        self, loop: Loop, space: Space, dims: list[Dim], read: Dim, written: Dim, block: BlockWriter
    ) -> None:
        self.loop, self.space, self.dims, self.read, self.written = loop, space, dims, read, written
        self.block, self.e = block, block.e
        self.element = memory_type(loop.stores[0].node.dtype)

    def write(self) -> None:
        """Write the two halves."""
        (store,) = self.loop.stores
        align = store.node.dtype.itemsize
        with self.block.phase():

            def load(w: Writer, place: str) -> None:
                for node in self.loop.nodes():
                    w.write(node)
                self.e.line(f"store {self.element} {w.single(store.node)}, ptr {place}, align {align}")

            self.lines(self.read, self.written, 1, APART, load)
        with self.block.phase():

            def save(w: Writer, place: str) -> None:
                name = self.e.op(f"load {self.element}, ptr {place}, align {align}")
                w.store_name(name, store.node.dtype, store.operand, store.where)

            self.lines(self.written, self.read, APART, 1, save)

    def lines(
        self, along: Dim, across: Dim, step: int, line: int, body: Callable[[Writer, str], None]
    ) -> None:
        """Write what is done at the places of a tile, whose neighbours lie in `along`. step, line: of the tile."""
        e = self.e
        others = [d for d in self.dims if d not in (self.read, self.written)]
        tiles = [-(-d.size // TILE) for d in (self.read, self.written)]
        *outer, first, second = take_apart(e, "%block", [*(d.size for d in others), *tiles])
        begins = {self.read: multiply(e, first, TILE), self.written: multiply(e, second, TILE)}
        lane, thread = e.op(f"udiv i64 %thread, {TILE}"), e.op(f"urem i64 %thread, {TILE}")
        at = add(e, begins[along], thread)
        for turn in range(TILE // LANES):
            row = add(e, lane, str(turn * LANES))
            beside = add(e, begins[across], row)

            def here(row: str = row, beside: str = beside) -> None:
                pointers = [f"%operand{place}" for place in range(len(self.loop.body.operands))]
                w = Writer(e, 1, None, self.space, {}, {}, pointers)
                w.scopes.append({})
                w.counters.update(zip(others, outer, strict=True))
                w.counters.update({along: at, across: beside})
                place = e.op(f"add i64 {multiply(e, thread, step)}, {multiply(e, row, line)}")
                body(w, e.op(f"getelementptr {self.element}, ptr %shared, i64 {place}", "p"))

            conditions = [
                e.op(f"icmp ult i64 {name}, {d.size}")
                for name, d in ((at, along), (beside, across))
                if d.size % TILE
            ]
            when_all(e, conditions, here)
