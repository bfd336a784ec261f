"""Loop kernels for threads and blocks. Enters: a `Loop` of expressions. Leaves: a `Kernel` of phases.

A row is a team's: one thread's, or that of some threads that go along it side by side, in as many phases as folds
depend on each other. What a thread has folded of its part of the row lies in shared memory, where the next phase finds
that of the whole team. Folds over rows are a block's: it goes through its share of the rows in turns, and leaves one
sum of each, which another kernel adds up. So the order of additions depends on shapes alone; but where rows are added
to places that indices name, memory adds them up as they come.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minitorch.compiler.backends.cuda.capabilities import ATOMIC
from minitorch.compiler.backends.cuda.exact import supplied
from minitorch.compiler.backends.cuda.folds import (
    FLOAT32,
    SLOT_BYTES,
    ExponentialSum,
    Slots,
    ended,
    ended_exponentials,
    exponentials,
    in_one_pass,
    kinds,
    nothing,
    together,
)
from minitorch.compiler.backends.cuda.scans import write_scan
from minitorch.compiler.backends.cuda.small_products import VECTOR_BYTES, write_small_product
from minitorch.compiler.backends.cuda.transposed import write_transposed
from minitorch.compiler.backends.cuda.words import SHARED_BYTES, BlockWriter, Kernel
from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.body import Expression, cost, in_order
from minitorch.compiler.backends.llvm.control import (
    add,
    counted_loop,
    known,
    multiply,
    smaller,
    take_apart,
    when,
    when_all,
)
from minitorch.compiler.backends.llvm.loops.folds import beginning
from minitorch.compiler.backends.llvm.loops.loop import Loop, LoopFold, Store
from minitorch.compiler.backends.llvm.loops.passes import find_stages
from minitorch.compiler.backends.llvm.space import Space
from minitorch.compiler.backends.llvm.text import TYPES, Emitter, literal, memory_type
from minitorch.compiler.backends.llvm.writer import Shift, Writer
from minitorch.compiler.ir.index import Affine, Dim, total
from minitorch.compiler.ir.sizes import Size, is_fixed, typical

BLOCK_THREADS = 256
MOST_THREADS = 1024
BUSY_THREADS = 1 << 16  # so many keep a GPU busy
FEW_COLUMNS = 64  # a thread has one of them, and its sum in shared memory
WARP = 32  # threads that run together
WIDE_TEAM = 128  # threads for a row, where rows are enough
LEAST_KEPT, MOST_KEPT = 8, 16  # of a row, by one thread
MOST_TEAM_THAT_KEEPS, LEAST_THREADS_THAT_KEEP = 512, 1 << 13
LEAST_KEPT_ROW = 16
# Threads of a block, and elements of its rows, at most, where there are several: blocks that begin and end at different
# times keep memory busy.
KEEPING_THREADS, KEPT_BY_A_BLOCK = 128, 1 << 10
FOLDED_AT_ONCE = FOLDED_BY_ALL = 8  # what so many threads know, one folds; and in the end everybody
SIDE_BY_SIDE = 4  # elements of a thread: it waits for memory once for all of them
# What an element costs from where on a thread takes twice as many, and a block has fewer threads: some compute while
# others wait.
DEAR, DEAR_THREADS = 32.0, 128
LONG_ROW, LONG_SIDE_BY_SIDE = 32, 8  # elements of a thread's row, from which on it takes more of them
MOST_COUNTED = (1 << 31) - 1  # elements whose numbers 32 bits hold
PER_ROW, PER_ELEMENT = 2, 3  # how many scopes deep: what is known of a row, and of an element of it


@dataclass(frozen=True)
class Arrangement:
    """How the work is shared out.

    outer, inner: the loops over rows and along a row, joined. team: threads for a row. threads: of a block. blocks: of
    threads. rows: of a block, whose teams take turns until all are done. by_blocks: whether it leaves sums of its rows.
    piece: of a single row, what each block has (0: the row is not shared out). each: elements that a thread computes
    side by side, where there are no rows; vectors: of which so many are neighbours. columns: whether a thread has a
    column, and goes down it. keeps: whether threads keep what they have read of their row.
    """

    space: Space
    outer: list[Dim]
    inner: list[Dim]
    team: int
    threads: int
    blocks: int
    rows: int
    by_blocks: bool
    piece: int
    each: int = 1
    vectors: int = 1
    columns: bool = False
    keeps: bool = False

    @property
    def teams(self) -> int:
        """How many rows a block goes through at the same time."""
        return self.threads // self.team

    @property
    def several(self) -> bool:
        """Whether there may be more than one block."""
        return not is_fixed(self.blocks) or self.blocks > 1

    @property
    def is_ragged(self) -> bool:
        """Whether some of those who keep what they have read may have no row."""
        rows = total(self.outer)
        return (
            self.keeps
            and not self.by_blocks
            and self.teams > 1
            and not (is_fixed(rows) and rows % self.teams == 0)
        )

    @property
    def turns(self) -> int:
        """How many rows a team goes through one after the other."""
        return -(-self.rows // self.teams)


def write_loop(loop: Loop, guard: int | None = None) -> Kernel:
    """Decide how a loop is shared out among threads, and write it.

    guard: the operand that is not 0 where an index was found out of range; then nothing may be written any more.
    """
    for special in (write_transposed, write_small_product, write_scan):
        kernel = special(loop, guard)
        if kernel is not None:
            return kernel
    nodes = loop.nodes()
    arrangement = _arrange_to_keep(loop, nodes) if guard is None else None
    if arrangement is None:
        loop = in_one_pass(loop)
        nodes = loop.nodes()
        arrangement = _arrange(loop, nodes, guard is not None)
    writer = _LoopWriter(loop, nodes, arrangement, guard)
    writer.write()
    a = arrangement
    elements = total(a.outer) * total(a.inner)
    flops = sum(cost(n) for n in nodes if n.kind == "map") * typical(elements)
    shape = f"{typical(a.blocks)} blocks of {a.threads} threads"
    note = shape if a.team == 1 else f"{shape}, {a.team} to a row"
    return Kernel(
        writer.block.items,
        loop.body.operands,
        a.blocks,
        a.threads,
        writer.shared,
        supplied(writer.e.externs),
        flops,
        note,
        elements,
        kept=writer.kept_count,
    )


# --- sharing out ----------------------------------------------------------------------------------------------


def _arrange(loop: Loop, nodes: list[Expression], guarded: bool) -> Arrangement:
    outer, inner = list(loop.outer), list(loop.inner)
    if not loop.divided or all(f.scope == "check" for f in loop.folds):
        outer, inner = outer + inner, []
    if loop.serial and not _is_atomic(loop):  # every place by itself, and its rows in their order
        outer, inner = inner, outer
    if loop.has("check"):
        outer, inner = list(loop.outer) + list(loop.inner), []
    space = Space(loop.addresses(nodes), [*outer, *inner])
    space.join_all(outer)
    space.join_all(inner)
    rows, length = total(outer), total(inner)
    usual_rows, usual_length = typical(rows), typical(length)
    by_blocks = loop.has("column", "total", "rows")
    in_order_along = loop.serial or loop.has("scan")
    slots = sum(SLOT_BYTES * len(kinds(f)) for f in loop.folds if f.scope != "check")
    most = MOST_THREADS
    while most * slots > SHARED_BYTES:
        most //= 2
    if _goes_down_columns(loop):
        mine = -(-rows // loop.blocks)
        team = min(BLOCK_THREADS, _power(usual_length))
        threads = max(32, team, min(most, _power(team * -(-typical(mine) // SIDE_BY_SIDE))))
        return Arrangement(space, outer, inner, team, threads, loop.blocks, mine, True, 0, columns=True)
    if by_blocks:
        team = threads = min(most, max(32, _power(usual_length)))
        piece = -(-length // loop.blocks) if rows == 1 and loop.blocks > 1 else 0
        mine = 1 if piece else -(-rows // loop.blocks)  # rows of a block
        few = is_fixed(length) and length <= FEW_COLUMNS  # (else one team alone adds to a column, in memory)
        if typical(mine) > 1 and (few or not loop.has("column")):
            team = _power(length) if few else min(team, max(WARP, _power(usual_length // 32 + 1)))
            threads = max(team, min(most, max(32, _power(team * typical(mine)))))
        return Arrangement(space, outer, inner, team, threads, loop.blocks, mine, True, piece)
    plain = not inner and not loop.folds and all(s.function == "set" and not s.places for s in loop.stores)
    if plain and not guarded and usual_rows >= BUSY_THREADS * SIDE_BY_SIDE:
        vectors = SIDE_BY_SIDE if is_fixed(rows) and _in_vectors(loop, nodes, space, outer) else 1
        dear = vectors > 1 and sum(cost(n) for n in nodes if n.kind == "map") >= DEAR
        each, threads = (2 * SIDE_BY_SIDE, DEAR_THREADS) if dear else (SIDE_BY_SIDE, BLOCK_THREADS)
        blocks = -(-rows // (threads * each))
        return Arrangement(space, outer, inner, 1, threads, blocks, threads, False, 0, each, vectors)
    team = 1 if in_order_along or not inner else _team(loop, nodes, space, inner, usual_rows, usual_length)
    team = min(team, most)
    needed = _power(usual_rows * team) if is_fixed(rows) else BLOCK_THREADS
    threads = max(team, min(BLOCK_THREADS, most, max(32, needed)))
    teams = threads // team
    return Arrangement(space, outer, inner, team, threads, -(-rows // teams), teams, False, 0)


def _arrange_to_keep(loop: Loop, nodes: list[Expression]) -> Arrangement | None:
    """Return how rows are shared out so that threads keep what they have read of them; None if they are too long."""
    scopes = {fold.scope for fold in loop.folds}
    by_blocks = bool(scopes & {"rows", "total"})
    if (
        not loop.divided
        or not loop.inner
        or loop.serial
        or "row" not in scopes
        or not scopes <= {"row", "rows", "total"}
        or any(fold.is_arg for fold in loop.folds)
        or any(store.function != "set" or store.places for store in loop.stores)
    ):
        return None
    outer, inner = list(loop.outer), list(loop.inner)
    space = Space(loop.addresses(nodes), [*outer, *inner])
    space.join_all(outer)
    space.join_all(inner)
    rows, length = total(outer), total(inner)
    blocks = loop.blocks if by_blocks else 0
    if not is_fixed(length) or length < LEAST_KEPT_ROW or (blocks and (rows % blocks or rows == 1)):
        return None
    along = set(inner)
    inside = {n: any(space.now[d] in along for d in n.dims) for n in nodes}
    kept = keeping(loop, find_stages(loop, nodes), inside)
    if not kept.most:
        return None
    mine = rows // blocks if blocks else rows
    team = min(WARP, _power(length // LEAST_KEPT))
    if by_blocks and mine % (WARP // team):
        team = WARP
    while -(-length // team) * kept.most > MOST_KEPT:
        team *= 2
    busy = typical(rows) * team >= LEAST_THREADS_THAT_KEEP
    if team > MOST_TEAM_THAT_KEEPS or not busy or len(kept.nodes) > MOST_KEPT:
        return None
    most = BLOCK_THREADS if blocks else min(KEEPING_THREADS, KEPT_BY_A_BLOCK // length * team)
    teams = max(1, _power(most // team + 1) // 2)
    while by_blocks and mine % teams:
        teams //= 2
    if not by_blocks:
        blocks, mine = -(-rows // teams), teams
    whole = length >= SIDE_BY_SIDE * team and length % SIDE_BY_SIDE == 0
    vectors = SIDE_BY_SIDE if whole and _in_vectors(loop, nodes, space, inner) else 1
    return Arrangement(
        space, outer, inner, team, team * teams, blocks, mine, by_blocks, 0, vectors=vectors, keeps=True
    )


def _in_vectors(loop: Loop, nodes: list[Expression], space: Space, dims: list[Dim]) -> bool:
    """Whether neighbours in all that is stored, and in something that is read, are neighbours in memory."""
    reads = [n for n in nodes if n.kind == "load" and _is_vector(loop, space, dims, n)]
    along = [s for s in loop.stores if any(space.factor(s.where, d) for d in dims)]
    stores = all(_is_along(loop, space, dims, s.operand, s.where) for s in along)
    return bool(reads) and stores and (len(dims) == 1 or dims[-1].size % SIDE_BY_SIDE == 0)


def _is_vector(loop: Loop, space: Space, dims: list[Dim], node: Expression) -> bool:
    """Whether a load finds neighbours side by side."""
    data = node.data
    return not node.args and not data.conditions and _is_along(loop, space, dims, data.operand, data.where)


def _is_along(loop: Loop, space: Space, dims: list[Dim], operand: int, where: Affine) -> bool:
    """Whether some neighbours lie side by side, and begin where some can be read at once."""
    first, terms = space(where)
    steps = [first, *(factor for d, factor in terms if d is not dims[-1])]
    return (
        space.factor(where, dims[-1]) == 1
        and not any(step % SIDE_BY_SIDE for step in steps)
        and is_aligned(loop.body.operands[operand])
    )


def _goes_down_columns(loop: Loop) -> bool:
    """Whether there is nothing to know of a row: then sums of columns stay in registers."""
    scopes = {fold.scope for fold in loop.folds}
    return "column" in scopes and scopes <= {"column", "total"}


def _team(loop: Loop, nodes: list[Expression], space: Space, inner: list[Dim], rows: int, length: int) -> int:
    """Return how many threads go along a row: neighbours of a warp should read neighbours in memory."""
    # (What all threads of a row read alike costs nothing.)
    loads = [n for n in nodes if n.kind == "load" and space.factor(n.data.where, inner[-1])]
    along = sum(abs(space.factor(n.data.where, inner[-1])) == 1 for n in loads)
    wanted = _power(BUSY_THREADS // max(1, rows))  # to keep everybody busy
    if along * 2 >= len(loads):
        wanted = max(wanted, min(WIDE_TEAM, _power(length // 4)))
    return max(1, min(wanted, _power(length), BLOCK_THREADS if rows > 132 else MOST_THREADS))


def _power(number: int) -> int:
    """Return the least power of two that is not below a number."""
    return 1 << max(0, number - 1).bit_length()


def is_aligned(operand: Any) -> bool:
    """Whether an operand begins where several elements can be read at once: not some bytes into a value."""
    return not isinstance(operand, tuple) or (is_fixed(operand[1]) and operand[1] % VECTOR_BYTES == 0)


def _is_atomic(loop: Loop) -> bool:
    """Whether all stores add to what is there, in a way that memory does by itself."""
    return all(s.function == "add" and s.node.dtype in ATOMIC for s in loop.stores)


# --- writing --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Keeping:
    """What threads keep of a row. By pass: what is computed in it, and what is used of what earlier ones have kept.

    most: how many are kept at the same time.
    """

    nodes: list[Expression]
    computed: list[list[Expression]]
    used: list[list[Expression]]
    most: int


def keeping(loop: Loop, stages: dict[Expression, int], inside: dict[Expression, bool]) -> Keeping:
    """Find out what a pass over a row needs that an earlier one has had. inside: whether something differs in a row."""
    count = 1 + max([stages[s.node] for s in loop.stores] + [stages[f.source] for f in loop.folds])
    first: dict[Expression, int] = {}
    last: dict[Expression, int] = {}
    computed: list[list[Expression]] = [[] for _ in range(count)]
    used: list[list[Expression]] = [[] for _ in range(count)]
    for number in range(count):
        sinks = [s.node for s in loop.stores if stages[s.node] == number]
        sinks += [f.source for f in loop.folds if stages[f.source] == number and f.scope != "rows"]
        seen: set[Expression] = set()

        def visit(node: Expression, number: int = number, seen: set[Expression] = seen) -> None:
            if not inside[node] or node in seen:
                return
            seen.add(node)
            if first.get(node, number) < number and node.kind in ("load", "map", "pad"):
                last[node] = number
                used[number].append(node)
                return
            for argument in node.args:
                visit(argument)
            first.setdefault(node, number)
            computed[number].append(node)

        for sink in sinks:
            visit(sink)
    alive = [sum(first[n] < number <= end for n, end in last.items()) for number in range(count)]
    return Keeping(list(last), computed, used, max(alive))


class _LoopWriter:
    def __init__(
        self, loop: Loop, nodes: list[Expression], arrangement: Arrangement, guard: int | None
    ) -> None:
        self.loop, self.nodes, self.a, self.guard = loop, nodes, arrangement, guard
        self.block = BlockWriter()
        self.e = self.block.e
        largest = [
            LoopFold(f.largest, "maximum", f.source, "row")
            for f in loop.folds
            if isinstance(f, ExponentialSum)
        ]
        self.stages = find_stages(dataclasses.replace(loop, folds=[*loop.folds, *largest]), nodes)
        fixed, along = arrangement.outer, arrangement.inner
        if arrangement.columns:
            fixed, along = along, fixed
        inner = set(along)
        self.inside = {n: any(arrangement.space.now[d] in inner for d in n.dims) for n in nodes}
        self.depths = dict.fromkeys(fixed, PER_ROW) | dict.fromkeys(along, PER_ELEMENT)
        self.shared = 0
        self.slots: dict[LoopFold, Slots] = {}
        for fold in loop.folds:
            in_slots = fold.scope == "column" and arrangement.teams > 1
            if in_slots or fold.scope in ("total", "rows") or (fold.scope == "row" and arrangement.team > 1):
                self.slots[fold] = Slots(self.e, fold, self.shared)
                self.shared += self.slots[fold].size * arrangement.threads
        self.keeping = keeping(loop, self.stages, self.inside) if arrangement.keeps else None
        # Elements of a row for a thread.
        self.each = (
            -(-total(arrangement.inner) // (arrangement.vectors * arrangement.team)) * arrangement.vectors
        )
        self.kept_count = len(self.keeping.nodes) * self.each if self.keeping is not None else 0
        self.rows = [f for f in loop.folds if f.scope == "row"]
        self.totals = [f for f in loop.folds if f.scope in ("total", "rows")]
        self.has_row: str | None = None  # whether this thread's team has one, where that is not sure
        self.w = self.writer()

    def writer(self) -> Writer:
        """Return a writer that knows nothing yet."""
        pointers = [f"%operand{place}" for place in range(len(self.loop.body.operands))]
        w = Writer(self.e, 1, None, self.a.space, {}, self.depths, pointers)
        w.scopes.append({})
        return w

    def write(self) -> None:
        """Write all phases."""
        if self.a.each > 1:
            with self.block.phase():
                self.elements()
            return
        columns = [f for f in self.loop.folds if f.scope == "column"]
        if self.a.columns:
            self.go_down(columns)
            return
        if columns or self.totals:
            with self.block.phase():
                for fold in columns:
                    if fold in self.slots:
                        self.slots[fold].put("%thread", nothing(fold))
                    else:
                        self.clear(fold)
                for fold in self.totals:
                    self.slots[fold].put("%thread", nothing(fold))
        last = max(
            [self.stage(s) for s in self.loop.stores] + [self.stages[f.source] for f in self.loop.folds]
        )
        with self.block.turns(self.a.turns) as turn:
            in_warps = 1 < self.a.team <= WARP and not columns  # teams that are in one warp wait for no other
            if self.a.team == 1:  # nobody to wait for
                with self.block.phase():
                    self.row(turn, range(last + 1))
            else:
                for number in range(last + 1):
                    folded = [f for f in self.rows if self.stages[f.source] == number]
                    with self.block.phase(in_warps or bool(folded)):  # (which are folded in warps first)
                        self.row(turn, [number])
                    self.narrow(folded, self.a.team, in_warps)
            if in_warps and self.totals:  # which are everybody's
                with self.block.phase():
                    pass
        if self.totals:
            self.finish()
        self.finish_columns([fold for fold in columns if fold in self.slots])

    def elements(self) -> None:
        """Write what a thread computes of a loop without rows: some elements, a block's threads apart."""
        e, a = self.e, self.a
        rows, span = total(a.outer), a.threads * a.each
        first = add(e, multiply(e, "%block", span), multiply(e, "%thread", a.vectors))
        firsts = [add(e, first, str(a.threads * k)) for k in range(0, a.each, a.vectors)]
        numbers = [add(e, each, str(k)) for each in firsts for k in range(a.vectors)]
        if rows % span == 0:
            self.side_by_side(numbers)
            return

        def one_by_one() -> None:
            for number in numbers:
                when(
                    e,
                    e.op(f"icmp ult i64 {number}, {rows}"),
                    lambda number=number: self.side_by_side([number]),  # type: ignore[misc]
                )

        beyond = multiply(e, add(e, "%block", "1"), span)
        when(e, e.op(f"icmp ule i64 {beyond}, {rows}"), lambda: self.side_by_side(numbers), one_by_one)

    def side_by_side(self, numbers: list[str]) -> None:
        """Write some elements; all stores come last, so that no load waits for one."""
        writers, vectors = [], self.a.vectors if len(numbers) > 1 else 1
        order = in_order([store.node for store in self.loop.stores])
        for place, number in enumerate(numbers):
            self.w = self.writer()
            counters = _counters(self.e, number, self.a.outer)
            self.w.counters.update(zip(self.a.outer, counters, strict=True))
            writers.append(self.w)
            if vectors > 1 and place % vectors == 0:
                read = self.read_vectors(order, self.a.outer, vectors)
            if vectors > 1:
                self.w.scopes[-1].update(read[place % vectors])
            for node in order:
                self.w.write(node)
        for place in range(0, len(writers), vectors):
            self.w = writers[place]
            for store in self.loop.stores:
                self.store_vector(store, [w.single(store.node) for w in writers[place : place + vectors]])

    def read_vectors(self, order: list[Expression], dims: list[Dim], count: int) -> list[dict[Any, str]]:
        """Read neighbours at once where they lie side by side; of each what is known then."""
        e, a = self.e, self.a
        known: list[dict[Any, str]] = [{} for _ in range(count)]
        for node in order:
            if node.kind == "load" and _is_vector(self.loop, a.space, dims, node):
                kind = memory_type(node.dtype)
                place = self.w.pointer(node.data.operand, node.data.where, kind)
                align = min(node.dtype.itemsize * count, VECTOR_BYTES)
                whole = e.op(f"load <{count} x {kind}>, ptr {place}, align {align}")
                for lane, names in enumerate(known):
                    name = e.op(f"extractelement <{count} x {kind}> {whole}, i32 {lane}")
                    names[node] = e.op(f"trunc i8 {name} to i1") if node.dtype.kind == "b" else name
        return known

    def store_vector(self, store: Store, names: list[str]) -> None:
        """Write a store of neighbours, the first of which is where the writer is."""
        e, count = self.e, len(names)
        dtype, kind = store.node.dtype, memory_type(store.node.dtype)
        if count == 1:
            self.w.store_name(names[0], dtype, store.operand, store.where)
            return
        whole = "poison"
        for lane, name in enumerate(names):
            name = e.op(f"zext i1 {name} to i8") if dtype.kind == "b" else name
            whole = e.op(f"insertelement <{count} x {kind}> {whole}, {kind} {name}, i32 {lane}")
        place = self.w.pointer(store.operand, store.where, kind)
        align = min(dtype.itemsize * count, VECTOR_BYTES)
        e.line(f"store <{count} x {kind}> {whole}, ptr {place}, align {align}")

    def stage(self, store: Store) -> int:
        """Return in which pass a store can be made."""
        return max(self.stages[n] for n in (store.node, *(place for place, _ in store.places)))

    # Rows.

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
            number = smaller(e, number, f"{total(a.outer) - 1}")
        elif number != "0" and total(a.outer) != a.blocks * a.turns * a.teams:
            conditions.append(e.op(f"icmp ult i64 {number}, {total(a.outer)}"))
            if a.several and a.rows % a.teams:
                conditions.append(e.op(f"icmp ult i64 {mine}, {a.rows}"))

        def there() -> None:
            counters = _counters(e, number, a.outer)
            self.w.counters.update(zip(a.outer, counters, strict=True))
            for fold in self.rows:
                if self.stages[fold.source] < passes[0]:
                    self.know(fold, self.result_of(fold, lane))
            for each in passes:
                self.one_pass(each, lane)

        self.where_all_hold(conditions, there)

    def where_all_hold(self, conditions: list[str], there: Callable[[], None]) -> None:
        """Write something under conditions, one of which is that no index was found out of range."""
        e = self.e
        if self.guard is not None:
            found = e.op(f"load i64, ptr %operand{self.guard}, align 8")
            conditions.append(e.op(f"icmp eq i64 {found}, 0"))
        when_all(e, conditions, there)

    def team_and_lane(self) -> tuple[str, str]:
        """Return which of its block's teams this thread belongs to, and as which of that team's threads."""
        e, a = self.e, self.a
        if a.team == 1 or a.teams == 1:
            return ("%thread", "0") if a.team == 1 else ("0", "%thread")
        return e.op(f"udiv i64 %thread, {a.team}"), e.op(f"urem i64 %thread, {a.team}")

    def know(self, fold: LoopFold, names: list[str]) -> None:
        """Note what a fold over a row has come to."""
        assert fold.value is not None
        given, known = self.loop.body.given, self.w.scopes[-1]
        if isinstance(fold, ExponentialSum):
            assert fold.largest is not None
            known[given[fold.largest]] = names[0]
            known[given[fold.value]] = ended_exponentials(self.e, names)
        else:
            known[given[fold.value]] = ended(self.e, fold, names)

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

    def divides_a_row(self, node: Expression) -> bool:
        """Whether the elements of a row are divided by a number of it: a multiplication for each will do."""
        return (
            (node.kind, node.data) == ("map", "divide")
            and node.dtype == FLOAT32
            and self.inside[node]
            and not self.inside[node.args[1]]
            and node.args[1].kind != "constant"
        )

    def write_inside(self, node: Expression) -> None:
        """Write an expression that differs in a row."""
        w = self.w
        if self.divides_a_row(node) and w.find(node) is None:
            reciprocal = w.find(("reciprocal", node.args[1]))
            if reciprocal is not None:
                w.scopes[-1][node] = self.e.op(f"fmul float {w.single(node.args[0])}, {reciprocal}")
                return
        w.write(node)

    def is_inside(self, store: Store) -> bool:
        """Whether a store is made at every element of a row."""
        nodes = (store.node, *(place for place, _ in store.places))
        inner = set(self.a.inner)
        return any(self.inside[n] for n in nodes) or any(d in inner for d, _ in self.a.space(store.where)[1])

    def sweep(self, order: list[Expression], stores: list[Store], folds: list[LoopFold], lane: str) -> None:
        """Write the loop along a row: each thread of the team takes every so manieth element."""
        e, a = self.e, self.a
        carrying = [f for f in folds if not self.is_in_memory(f)]
        carried = [pair for f in carrying for pair in zip(kinds(f), nothing(f), strict=True)]
        length = total(a.inner)

        def turn(places: list[str], names: list[str]) -> list[str]:
            return self.at_places(places, a.inner, order, stores, folds, names)

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
        if a.piece:
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

    def leave(self, folds: list[LoopFold], names: list[str]) -> None:
        """Leave what this thread has folded where others find it."""
        known = iter(names)
        for fold in folds:
            mine = [next(known) for _ in kinds(fold)]
            if fold.scope == "total":
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
                    found.append(w.single(store.node))
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
            self.write_inside(node)
            if node in keeping.nodes:
                slot = keeping.nodes.index(node) * self.each + k
                e.line(f"keep {slot} {TYPES[node.dtype]} {w.single(node)}")

    def at_places(
        self,
        places: list[str],
        dims: list[Dim],
        order: list[Expression],
        stores: list[Store],
        folds: list[LoopFold],
        names: list[str],
    ) -> list[str]:
        """Write what is done at some places of the loops `dims`; all loads come before the stores.

        names: what the folds know, and what they know then is returned. (Those of columns that lie in memory know
        nothing.)
        """
        w, scopes = self.w, []
        for place in places:
            w.scopes.append({})
            self.go_to(place, dims)
            for node in order:
                if self.inside[node]:
                    self.write_inside(node)
            scopes.append(w.scopes.pop())
        left = iter(names)
        known = {f: [next(left) for _ in kinds(f)] for f in folds if not self.is_in_memory(f)}
        for fold in folds:
            if isinstance(fold, ExponentialSum):
                found = []
                for scope in scopes:
                    w.scopes.append(scope)
                    found.append([w.single(fold.source)])
                    w.scopes.pop()
                known[fold] = exponentials(self.e, [known[fold], *found])
        for place, scope in zip(places, scopes, strict=True):
            w.scopes.append(scope)
            self.go_to(place, dims)
            self.at_place(stores, folds, known)
            w.scopes.pop()
        return [name for names in known.values() for name in names]

    def at_place(self, stores: list[Store], folds: list[LoopFold], known: dict[LoopFold, list[str]]) -> None:
        """Take the current place into what folds know, and store what is stored there."""
        e, w = self.e, self.w
        for fold in folds:
            if fold not in known or isinstance(fold, ExponentialSum):
                continue
            new = [w.single(fold.source)]
            if fold.is_arg:
                new.append(w.integer(w.space(self.loop.position)))
            known[fold] = together(e, fold, known[fold], new)
            if fold.scope == "scan":
                assert fold.value is not None
                w.store_name(known[fold][0], fold.value.dtype, fold.operand, fold.where)
        for fold in folds:
            if self.is_in_memory(fold):
                self.into_column(fold)
        for store in stores:
            self.store(store)

    def is_in_memory(self, fold: LoopFold) -> bool:
        """Whether what a fold knows lies in memory, or in shared memory, and not in names."""
        return fold.scope == "column" and not self.a.columns

    def go_to(self, place: str, dims: list[Dim]) -> None:
        """Go to a place of some loops."""
        counters = _counters(self.e, place, dims)
        self.w.counters.update(zip(dims, counters, strict=True))

    def store(self, store: Store) -> None:
        """Write a store; one that adds, so that others may add to the same place."""
        w, e, dtype = self.w, self.e, store.node.dtype
        shifts = [Shift(w.single(node), stride) for node, stride in store.places]
        if store.function == "set":
            w.store(store.node, store.operand, store.where, shifts)
        elif _is_atomic(self.loop):
            kind = TYPES[dtype]
            place = w.pointer(store.operand, store.where, kind, shifts)
            word = "fadd" if dtype.kind == "f" else "add"
            e.op(f"atomicrmw {word} ptr {place}, {kind} {w.single(store.node)} monotonic")
        else:
            before = w.read(store.operand, store.where, dtype, shifts, 1)
            after = functions.emit_function(e, "add", [before, w.single(store.node)], dtype, 1)
            w.store_name(after, dtype, store.operand, store.where, shifts)

    # Columns.

    def go_down(self, folds: list[LoopFold]) -> None:
        """Write columns: each thread goes down some of them, along its block's rows or every so manieth of those."""
        e, a = self.e, self.a
        length = total(a.inner)
        if self.totals:
            with self.block.phase():
                for fold in self.totals:
                    self.slots[fold].put("%thread", nothing(fold))
        with self.block.turns(-(-length // a.team)) as turn:

            def column(write: Callable[[str], None], only_first: bool) -> None:
                self.w = self.writer()
                number, lane = self.team_and_lane()
                place = add(e, multiply(e, turn, a.team), lane)
                conditions = [e.op(f"icmp ult i64 {place}, {length}")] if length % a.team else []
                if only_first:
                    conditions.append(e.op(f"icmp eq i64 {number}, 0"))

                def there() -> None:
                    self.go_to(place, a.inner)
                    write(number)

                self.where_all_hold(conditions, there)

            with self.block.phase():
                column(lambda number: self.down(number, folds), False)
            if a.teams > 1:
                with self.block.phase():
                    column(lambda number: self.end_columns(folds), True)
        if self.totals:
            self.finish()

    def down(self, number: str, folds: list[LoopFold]) -> None:
        """Write the way down a column, of which this thread's team is the `number`-th."""
        e, a, w = self.e, self.a, self.w
        order = in_order([s.node for s in self.loop.stores] + [f.source for f in self.loop.folds])
        for node in order:
            if not self.inside[node]:
                w.write(node)

        def rows(count: int) -> Callable[[str, list[str]], list[str]]:
            def turn(row: str, names: list[str]) -> list[str]:
                places = [add(e, row, str(k * a.teams)) for k in range(count)]
                after = self.at_places(
                    places, a.outer, order, self.loop.stores, self.loop.folds, names[: len(carried)]
                )
                return after if count == 1 else [*after, e.op(f"add i64 {row}, {count * a.teams}")]

            return turn

        carried = [pair for f in self.loop.folds for pair in zip(kinds(f), nothing(f), strict=True)]
        begin = multiply(e, "%block", a.rows) if a.several else "0"
        start = add(e, begin, number)
        stop = smaller(e, add(e, begin, f"{a.rows}"), f"{total(a.outer)}")
        names = [name for _, name in carried]
        if not is_fixed(a.rows) or a.rows >= SIDE_BY_SIDE * a.teams:
            whole = add(e, stop, str((1 - SIDE_BY_SIDE) * a.teams))
            given = [*carried, ("i64", start)]
            step = SIDE_BY_SIDE * a.teams
            *names, start = counted_loop(e, start, whole, step, given, rows(SIDE_BY_SIDE), certain=False)
        left = [(kind, name) for (kind, _), name in zip(carried, names, strict=True)]
        known = iter(counted_loop(e, start, stop, a.teams, left, rows(1), certain=False))
        for fold in self.loop.folds:
            mine = [next(known) for _ in kinds(fold)]
            if fold.scope == "total":
                self.take(fold, mine)
            elif fold in self.slots:
                self.slots[fold].put("%thread", mine)
            else:
                self.end_column(fold, mine)

    def end_columns(self, folds: list[LoopFold]) -> None:
        """Fold what the threads of a column know, and store it."""
        for fold in folds:
            self.end_column(fold, self.slots[fold].fold_of("%thread", self.a.teams, self.a.team))

    def end_column(self, fold: LoopFold, names: list[str]) -> None:
        """Store what a fold has come to in this block."""
        assert fold.value is not None
        shifts = [Shift("%block", fold.size)] if self.a.several else []
        dtype = fold.value.dtype
        self.w.store_name(ended(self.e, fold, names), dtype, fold.operand, fold.where, shifts)

    # Folds.

    def take(self, fold: LoopFold, names: list[str]) -> None:
        """Take something into what this thread knows of a fold over all rows."""
        slots = self.slots[fold]
        slots.put("%thread", together(self.e, fold, slots.get("%thread"), names))

    def check(self, fold: LoopFold) -> None:
        """Say so in memory, if an index is out of range."""

        def say() -> None:
            for place in (fold.operand, fold.operand + 1):  # which check it was, and that there was one
                self.e.line(f"store i64 1, ptr %operand{place}, align 8")

        when(self.e, self.w.single(fold.source), say)

    def result_of(self, fold: LoopFold, lane: str) -> list[str]:
        """Fold what the threads of this thread's team have left."""
        first = "0" if self.a.teams == 1 else self.e.op(f"sub i64 %thread, {lane}")
        return self.slots[fold].fold_of(first, *_left(self.a.team))

    def narrow(self, folds: list[LoopFold], team: int, in_warps: bool = False) -> None:
        """Fold what many threads of a team know into some of them: in warps first, which need not wait for others."""
        e, rounds = self.e, _rounds(team) if folds else []
        for number, (width, among, step) in enumerate(rounds):
            kept = _folded(among)

            def fold_mine(among: int = among, kept: int = kept, step: int = step) -> None:
                for fold in folds:
                    names = self.slots[fold].fold_of("%thread", among // kept, kept * step)
                    self.slots[fold].put("%thread", names)

            goes_on = number + 1 < len(rounds) and rounds[number + 1][0] <= WARP
            with self.block.phase(in_warps or goes_on):
                lane = "%thread" if width == self.a.threads else e.op(f"urem i64 %thread, {width}")
                mine = e.op(f"icmp ult i64 {lane}, {kept * step}")
                if step > 1:
                    first = e.op(f"icmp eq i64 {e.op(f'urem i64 {lane}, {step}')}, 0")
                    mine = e.op(f"and i1 {mine}, {first}")
                when(e, mine, fold_mine)

    def into_column(self, fold: LoopFold) -> None:
        """Take the current place into a sum that lies in memory; no other thread has this column."""
        w = self.w
        if fold in self.slots:
            self.take(fold, [w.single(fold.source)])
            return
        assert fold.value is not None
        dtype = fold.value.dtype
        shifts = [Shift("%block", fold.size)] if self.a.several else []
        before = w.read(fold.operand, fold.where, dtype, shifts, 1)
        after = together(self.e, fold, [before], [w.single(fold.source)])
        w.store_name(after[0], dtype, fold.operand, fold.where, shifts)

    def clear(self, fold: LoopFold) -> None:
        """Begin the sums of this block in memory."""
        e = self.e
        assert fold.value is not None
        dtype = fold.value.dtype
        element = memory_type(dtype)
        start = beginning(fold.function, dtype)
        if dtype.kind == "b":
            start = {"true": "1", "false": "0"}[start]
        first = multiply(e, "%block", fold.size) if self.a.several else "0"

        def one(counter: str, _: list[str]) -> list[str]:
            place = add(e, first, counter)
            pointer = e.op(f"getelementptr {element}, ptr %operand{fold.operand}, i64 {place}")
            e.line(f"store {element} {start}, ptr {pointer}, align {dtype.itemsize}")
            return []

        counted_loop(e, "%thread", f"{fold.size}", self.a.threads, [], one, certain=False)

    def finish_columns(self, folds: list[LoopFold]) -> None:
        """Fold what the teams of a block know of their columns, and store it: a thread for each column."""
        e, a = self.e, self.a
        if not folds:
            return

        def store(fold: LoopFold) -> None:
            assert fold.value is not None

            def team(number: str, names: list[str]) -> list[str]:
                thread = e.op(f"add i64 {multiply(e, number, a.team)}, %thread")
                return together(e, fold, names, self.slots[fold].get(thread))

            carried = list(zip(kinds(fold), nothing(fold), strict=True))
            names = counted_loop(e, "0", str(a.teams), 1, carried, team)
            shifts = [Shift("%block", fold.size)] if a.several else []
            self.w.store_name(ended(e, fold, names), fold.value.dtype, fold.operand, fold.where, shifts)

        def store_all() -> None:
            self.w = self.writer()
            self.w.scopes.append({})
            self.go_to("%thread", a.inner)
            for fold in folds:
                store(fold)

        with self.block.phase():
            when(e, e.op(f"icmp ult i64 %thread, {total(a.inner)}"), store_all)

    def finish(self) -> None:
        """Fold what all threads of a block know, and store it."""
        e, threads = self.e, self.a.threads
        self.narrow(self.totals, threads)
        with self.block.phase():

            def store_all() -> None:
                for fold in self.totals:
                    assert fold.value is not None
                    dtype = fold.value.dtype
                    element = memory_type(dtype)
                    name = ended(e, fold, self.slots[fold].fold_of("0", *_left(threads)))
                    if dtype.kind == "b":
                        name = e.op(f"zext i1 {name} to i8")
                    place = f"%operand{fold.operand}"
                    if self.a.several:
                        place = e.op(f"getelementptr {element}, ptr {place}, i64 %block")
                    e.line(f"store {element} {name}, ptr {place}, align {dtype.itemsize}")

            when(e, e.op("icmp eq i64 %thread, 0"), store_all)


def _counters(e: Emitter, number: str, dims: list[Dim]) -> list[str]:
    """Return the counters of nested loops, outermost first, out of the number of their turn.

    Dividing numbers of 64 bits takes a GPU many instructions: if 32 are enough, it is done with those. (Of sizes that
    vary they are: a program is not run where a kernel has more `elements` than `MOST_COUNTED`.)
    """
    sizes = [d.size for d in dims]
    if len(dims) < 2 or known(number) is not None or (is_fixed(*sizes) and total(dims) > MOST_COUNTED):
        return take_apart(e, number, sizes)
    narrow = e.op(f"trunc i64 {number} to i32")
    inner = []
    for each in reversed(sizes[1:]):
        size = e.op(f"trunc i64 {each} to i32") if isinstance(each, Size) else each
        quotient = e.op(f"udiv i32 {narrow}, {size}")
        inner.append(e.op(f"sub i32 {narrow}, {e.op(f'mul i32 {quotient}, {size}')}"))
        narrow = quotient
    return [e.op(f"zext i32 {each} to i64") for each in (narrow, *reversed(inner))]


def _folded(among: int) -> int:
    """Return how many threads fold what so many know."""
    return max(1, among // FOLDED_AT_ONCE)


def _rounds(team: int) -> list[tuple[int, int, int]]:
    """Return how what a team's threads know is folded. By round: in which width, how many know, and how far apart."""
    rounds, width, among, step = [], min(team, WARP), min(team, WARP), 1
    while among > (FOLDED_BY_ALL if team <= WARP else 1):
        rounds.append((width, among, step))
        among = _folded(among)
    if team > WARP:
        among, step = team // WARP, WARP
        while among > FOLDED_BY_ALL:
            rounds.append((team, among, step))
            among = _folded(among)
    return rounds


def _left(team: int) -> tuple[int, int]:
    """Return how many of a team's threads know something in the end, for everybody to fold, and how far apart."""
    if team > WARP:
        among = team // WARP
        return (among if among <= FOLDED_BY_ALL else _folded(among)), WARP
    return (team if team <= FOLDED_BY_ALL else _folded(team)), 1
