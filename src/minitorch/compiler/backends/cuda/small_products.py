"""Products too small for a library. Enters: a `Loop` that sums products. Leaves: a `Kernel`, or None.

A block has a square tile of the result, a thread one element of it. Some summed elements at a time, of all the rows and
all the columns of the tile, are brought to shared memory, where all threads find what they multiply. What follows the
product, its thread computes and stores.
"""

from __future__ import annotations

from minitorch.compiler.backends.cuda.exact import supplied
from minitorch.compiler.backends.cuda.operands import nothing_failed
from minitorch.compiler.backends.cuda.products import DTYPES, LEAST_SIDE
from minitorch.compiler.backends.cuda.words import BlockWriter, Kernel
from minitorch.compiler.backends.llvm.body import Expression, cost, in_order
from minitorch.compiler.backends.llvm.control import add, multiply, smaller, take_apart, when_all
from minitorch.compiler.backends.llvm.loops.loop import Loop
from minitorch.compiler.backends.llvm.space import Space
from minitorch.compiler.backends.llvm.text import TYPES, literal
from minitorch.compiler.backends.llvm.writer import Writer
from minitorch.compiler.ir.index import Dim, total
from minitorch.compiler.ir.sizes import is_fixed

TILE = 16
THREADS = TILE * TILE
MOST_SUMMED_AT_ONCE, LEAST_SUMMED_AT_ONCE = 128, 16
VECTOR_BYTES = 16  # what a thread reads of shared memory at once
LEAST_COUNT = 1 << 17  # multiplications


def write_small_product(loop: Loop, guard: int | None) -> Kernel | None:
    """Write a loop as a product by tiles, if it is one. guard: as of `write_loop`."""
    if len(loop.folds) != 1 or loop.serial or not loop.divided:
        return None
    (fold,) = loop.folds
    source = fold.source
    if (
        (fold.scope, fold.function) != ("row", "add")
        or (source.kind, source.data) != ("map", "multiply")
        or source.dtype not in DTYPES
        or any(store.function != "set" or store.places for store in loop.stores)
    ):
        return None
    if not is_fixed(*(d.size for d in (*loop.outer, *loop.inner))):
        return None
    nodes = loop.nodes()
    kept, summed = list(loop.outer), list(loop.inner)
    space = Space(loop.addresses(nodes), [*kept, *summed])
    space.join_all(kept)
    space.join_all(summed)
    left, right = ([d for d in kept if space.depends(side, d)] for side in source.args)
    rows, columns = [d for d in left if d not in right], [d for d in right if d not in left]
    batches = [d for d in kept if d in left and d in right]
    if len(rows) + len(columns) + len(batches) != len(kept) or not summed:
        return None
    # (Both sides are read along all sums, or one of them more often than there are elements.)
    if any(not space.depends(side, d) for side in source.args for d in summed):
        return None
    count = total(kept) * total(summed)
    if min(total(rows), total(columns)) < LEAST_SIDE or count < LEAST_COUNT:
        return None
    tiles = _Tiles(loop, space, batches, rows, columns, summed, guard)
    tiles.write()
    blocks = total(batches) * tiles.across * tiles.down
    flops = sum(cost(n) for n in nodes if n.kind == "map") * count
    note = f"{blocks} tiles of {TILE} by {TILE}"
    externs = supplied(tiles.e.externs)
    # (What counts as elements is read from memory: each thread's share of it, by tiles.)
    return Kernel(
        tiles.block.items,
        loop.body.operands,
        blocks,
        THREADS,
        tiles.shared,
        externs,
        flops,
        note,
        count // TILE,
    )


class _Tiles:
    def __init__(
        self,
        loop: Loop,
        space: Space,
        batches: list[Dim],
        rows: list[Dim],
        columns: list[Dim],
        summed: list[Dim],
        guard: int | None,
    ) -> None:
        self.loop, self.space, self.guard = loop, space, guard
        self.batches, self.rows, self.columns, self.summed = batches, rows, columns, summed
        self.block = BlockWriter()
        self.e = self.block.e
        (self.fold,) = loop.folds
        self.dtype = self.fold.source.dtype
        self.kind, self.size = TYPES[self.dtype], self.dtype.itemsize
        self.down, self.across = -(-total(rows) // TILE), -(-total(columns) // TILE)
        self.length = total(summed)
        self.chunk = LEAST_SUMMED_AT_ONCE
        while self.chunk < min(self.length, MOST_SUMMED_AT_ONCE):
            self.chunk *= 2
        self.turns = -(-self.length // self.chunk)
        # Lines in shared memory lie so far apart that threads that read different ones do not meet in a bank.
        self.vector = VECTOR_BYTES // self.size
        self.apart = self.chunk + self.vector
        self.second = TILE * self.apart  # where the columns begin
        self.sums = 2 * self.second  # and what the threads have summed so far
        self.shared = self.size * (self.sums + (THREADS if self.turns > 1 else 0))

    def write(self) -> None:
        """Write all phases."""
        with self.block.turns(self.turns) as turn:
            with self.block.phase():
                begin = multiply(self.e, turn, self.chunk)
                batch, row, column = self.tile()
                self.bring(self.fold.source.args[0], self.rows, row, batch, begin, 0)
                self.bring(self.fold.source.args[1], self.columns, column, batch, begin, self.second)
            with self.block.phase():
                found = self.multiplied(turn)
                if self.turns == 1:
                    self.end(found)
                else:
                    self.e.line(f"store {self.kind} {found}, ptr {self.mine()}, align {self.size}")
        if self.turns > 1:
            with self.block.phase():
                self.end(self.e.op(f"load {self.kind}, ptr {self.mine()}, align {self.size}"))

    def tile(self) -> tuple[list[str], str, str]:
        """Return a block's batch, and its tile's first row and column."""
        sizes = [*(d.size for d in self.batches), self.down, self.across]
        *batch, row, column = take_apart(self.e, "%block", sizes)
        return batch, multiply(self.e, row, TILE), multiply(self.e, column, TILE)

    def at(self, place: str) -> str:
        """Return the address of an element in shared memory."""
        return self.e.op(f"getelementptr {self.kind}, ptr %shared, i64 {place}", "p")

    def mine(self) -> str:
        """Return where this thread's sum is."""
        return self.at(add(self.e, "%thread", str(self.sums)))

    def writer(self, batch: list[str], counters: dict[Dim, str]) -> Writer:
        """Return a writer at a place."""
        pointers = [f"%operand{place}" for place in range(len(self.loop.body.operands))]
        w = Writer(self.e, 1, None, self.space, {}, {}, pointers)
        w.scopes.append({})
        w.counters.update(zip(self.batches, batch, strict=True))
        w.counters.update(counters)
        return w

    def counters(self, dims: list[Dim], number: str) -> dict[Dim, str]:
        """Return the counters of loops out of the number of their turn."""
        return dict(zip(dims, take_apart(self.e, number, [d.size for d in dims]), strict=True))

    def bring(
        self, node: Expression, lines: list[Dim], first: str, batch: list[str], begin: str, to: int
    ) -> None:
        """Bring a tile of a factor to shared memory: neighbouring threads read neighbours."""
        e, zero = self.e, literal(0.0, self.dtype)
        order = in_order([node])
        loads = [each for each in order if each.kind == "load"]
        along = sum(abs(self.space.factor(n.data.where, self.summed[-1])) == 1 for n in loads)
        names, places = [], []
        for turn in range(TILE * self.chunk // THREADS):
            number = add(e, "%thread", str(turn * THREADS))
            if along * 2 >= len(loads):
                line, k = e.op(f"udiv i64 {number}, {self.chunk}"), e.op(f"urem i64 {number}, {self.chunk}")
            else:
                k, line = e.op(f"udiv i64 {number}, {TILE}"), e.op(f"urem i64 {number}, {TILE}")
            places.append(self.at(add(e, e.op(f"add i64 {multiply(e, line, self.apart)}, {k}"), str(to))))
            # Who has no element any more looks at the last one; beyond the last sum that counts nothing.
            whole = add(e, first, line)
            if total(lines) % TILE:
                whole = smaller(e, whole, str(total(lines) - 1))
            place = add(e, begin, k)
            exists = None
            if self.length % self.chunk:
                exists = e.op(f"icmp ult i64 {place}, {self.length}")
                place = e.op(f"select i1 {exists}, i64 {place}, i64 {self.length - 1}")
            w = self.writer(batch, self.counters(lines, whole) | self.counters(self.summed, place))
            for each in order:
                w.write(each)
            found = w.single(node)
            if exists is not None:
                found = e.op(f"select i1 {exists}, {self.kind} {found}, {self.kind} {zero}")
            names.append(found)
        for name, where in zip(names, places, strict=True):
            e.line(f"store {self.kind} {name}, ptr {where}, align {self.size}")

    def multiplied(self, turn: str) -> str:
        """Return this thread's sum, with what is in shared memory now."""
        e, wide = self.e, f"<{self.vector} x {self.kind}>"
        row, column = e.op(f"udiv i64 %thread, {TILE}"), e.op(f"urem i64 %thread, {TILE}")
        found = literal(0.0, self.dtype)
        if self.turns > 1:
            before = e.op(f"load {self.kind}, ptr {self.mine()}, align {self.size}")
            is_first = e.op(f"icmp eq i64 {turn}, 0")
            found = e.op(f"select i1 {is_first}, {self.kind} {found}, {self.kind} {before}")
        lines = [multiply(e, row, self.apart), add(e, multiply(e, column, self.apart), str(self.second))]
        for k in range(0, self.chunk, self.vector):
            a, b = (
                e.op(f"load {wide}, ptr {self.at(add(e, line, str(k)))}, align {VECTOR_BYTES}")
                for line in lines
            )
            for lane in range(self.vector):
                x, y = (e.op(f"extractelement {wide} {v}, i32 {lane}") for v in (a, b))
                given = [(self.kind, x), (self.kind, y), (self.kind, found)]
                found = e.call(f"llvm.fma.f{8 * self.size}", self.kind, given)
        return found

    def end(self, found: str) -> None:
        """Write what follows the product, and what is stored."""
        e = self.e
        batch, row, column = self.tile()
        row = add(e, row, e.op(f"udiv i64 %thread, {TILE}"))
        column = add(e, column, e.op(f"urem i64 %thread, {TILE}"))
        conditions = [
            e.op(f"icmp ult i64 {name}, {total(dims)}")
            for name, dims in ((row, self.rows), (column, self.columns))
            if total(dims) % TILE
        ]
        conditions += nothing_failed(e, self.guard)

        def here() -> None:
            w = self.writer(batch, self.counters(self.rows, row) | self.counters(self.columns, column))
            assert self.fold.value is not None
            # (A sum of nothing but -0 is +0, as it begins there.)
            w.scopes[-1][self.loop.body.given[self.fold.value]] = found
            for node in in_order([store.node for store in self.loop.stores]):
                if node.kind != "result":
                    w.write(node)
            for store in self.loop.stores:
                w.store(store.node, store.operand, store.where, [])

        when_all(e, conditions, here)
