"""How a loop is shared out among blocks, teams and threads. Enters: a `Loop`. Leaves: an `Arrangement`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minitorch.compiler.backends.cuda.capabilities import ATOMIC
from minitorch.compiler.backends.cuda.folds import SLOT_BYTES, kinds
from minitorch.compiler.backends.cuda.small_products import VECTOR_BYTES
from minitorch.compiler.backends.cuda.words import SHARED_BYTES
from minitorch.compiler.backends.llvm.body import Expression, cost
from minitorch.compiler.backends.llvm.loops.loop import Loop
from minitorch.compiler.backends.llvm.loops.passes import find_stages
from minitorch.compiler.backends.llvm.space import Space
from minitorch.compiler.ir.index import Affine, Dim, total
from minitorch.compiler.ir.sizes import is_fixed, typical

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
SIDE_BY_SIDE = 4  # elements of a thread: it waits for memory once for all of them
MOST_NEIGHBOURS = 8  # of halves: as many as are read at once
READ_TOGETHER = 2  # times that a thread reads so many of a long row: it waits for memory once for all of them
ALL_THREADS = 1 << 18  # so many run at the same time, at most
# What an element costs from where on a thread takes twice as many, and a block has fewer threads: some compute while
# others wait.
DEAR, DEAR_THREADS = 32.0, 128


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
        if not self.keeps or is_fixed(rows):
            return self.keeps and not self.by_blocks and rows % self.teams != 0
        return self.by_blocks or self.teams > 1

    @property
    def turns(self) -> int:
        """How many rows a team goes through one after the other."""
        return -(-self.rows // self.teams)


def arrange(loop: Loop, nodes: list[Expression], guarded: bool) -> Arrangement:
    """Return how a loop is shared out. guarded: nothing may be done once an index was found out of range."""
    outer, inner = list(loop.outer), list(loop.inner)
    if not loop.divided or all(f.scope == "check" for f in loop.folds):
        outer, inner = outer + inner, []
    if loop.serial and not is_atomic(loop):  # every place by itself, and its rows in their order
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
    if goes_down_columns(loop):
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
        vectors = MOST_NEIGHBOURS if _folds_neighbours(loop, nodes, space, inner) else 1
        if typical(piece or length) < vectors * team:
            vectors = 1
        piece = -(-piece // vectors) * vectors
        return Arrangement(
            space, outer, inner, team, threads, loop.blocks, mine, True, piece, vectors=vectors
        )
    plain = not inner and not loop.folds and all(s.function == "set" and not s.places for s in loop.stores)
    if plain and not guarded and usual_rows >= BUSY_THREADS * SIDE_BY_SIDE:
        vectors = _neighbours(loop, nodes, space, outer)
        dear = vectors > 1 and sum(cost(n) for n in nodes if n.kind == "map") >= DEAR
        if not dear and usual_rows < ALL_THREADS * MOST_NEIGHBOURS:
            vectors = min(vectors, SIDE_BY_SIDE)  # (else some threads would have nothing to do)
        each, threads = (2 * SIDE_BY_SIDE, DEAR_THREADS) if dear else (SIDE_BY_SIDE, BLOCK_THREADS)
        each = max(each, vectors)
        blocks = -(-rows // (threads * each))
        return Arrangement(space, outer, inner, 1, threads, blocks, threads, False, 0, each, vectors)
    vectors = MOST_NEIGHBOURS if _folds_neighbours(loop, nodes, space, inner) else 1
    team = 1 if in_order_along or not inner else _team(loop, nodes, space, inner, usual_rows, usual_length)
    if vectors > 1 and usual_rows * usual_length >= ALL_THREADS * READ_TOGETHER * vectors:
        team = min(team, _power(usual_length // (READ_TOGETHER * vectors)))
    team = min(team, most)
    if usual_length < vectors * team:
        vectors = 1
    needed = _power(usual_rows * team) if is_fixed(rows) else BLOCK_THREADS
    threads = max(team, min(BLOCK_THREADS, most, max(32, needed)))
    teams = threads // team
    return Arrangement(
        space, outer, inner, team, threads, -(-rows // teams), teams, False, 0, vectors=vectors
    )


def arrange_to_keep(loop: Loop, nodes: list[Expression]) -> Arrangement | None:
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
    fixed = is_fixed(rows)
    if not is_fixed(length) or length < LEAST_KEPT_ROW:
        return None
    if blocks and (rows == 1 or (fixed and rows % blocks)):
        return None
    along = set(inner)
    inside = {n: any(space.now[d] in along for d in n.dims) for n in nodes}
    kept = keeping(loop, find_stages(loop, nodes), inside)
    if not kept.most:
        return None
    mine = -(-rows // blocks) if blocks else rows
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
    while by_blocks and (mine % teams if fixed else typical(mine) <= teams // 2):
        teams //= 2
    if not by_blocks:
        blocks, mine = -(-rows // teams), teams
    vectors = _neighbours(loop, nodes, space, inner)
    of_a_thread = {count: -(-length // (count * team)) * count for count in (MOST_NEIGHBOURS, SIDE_BY_SIDE)}
    if length < MOST_NEIGHBOURS * team or of_a_thread[MOST_NEIGHBOURS] > of_a_thread[SIDE_BY_SIDE]:
        vectors = min(vectors, SIDE_BY_SIDE)  # (else some threads would have fewer elements than now)
    if length < vectors * team or length % vectors:
        vectors = 1
    return Arrangement(
        space, outer, inner, team, team * teams, blocks, mine, by_blocks, 0, vectors=vectors, keeps=True
    )


def _neighbours(loop: Loop, nodes: list[Expression], space: Space, dims: list[Dim]) -> int:
    """Return how many neighbours a thread has: of all that is stored, and of something that is read, they are
    neighbours in memory (1: they are not). Where the same is read everywhere, that matters to halves alone.
    """
    along = [s for s in loop.stores if any(space.factor(s.where, d) for d in dims)]
    fills = bool(along) and not any(n.kind == "load" and n.dims for n in nodes)
    for count in (MOST_NEIGHBOURS, SIDE_BY_SIDE):
        reads = [n for n in nodes if n.kind == "load" and is_vector(loop, space, dims, n, count)]
        stores = all(_is_along(loop, space, dims, s.operand, s.where, count) for s in along)
        widest = max([n.dtype.itemsize for n in (*reads, *(s.node for s in along))], default=0)
        are_halves = widest * MOST_NEIGHBOURS <= VECTOR_BYTES
        if count > SIDE_BY_SIDE and not are_halves:
            continue
        if (reads or (fills and are_halves)) and stores and (len(dims) == 1 or dims[-1].size % count == 0):
            return count
    return 1


def _folds_neighbours(loop: Loop, nodes: list[Expression], space: Space, dims: list[Dim]) -> bool:
    """Whether threads may fold neighbours in a row of halves, some of which are read at once."""
    if not dims or loop.serial or not {fold.scope for fold in loop.folds} <= {"row", "rows", "total"}:
        return False
    along = set(dims)
    if any(d in along for store in loop.stores for d, _ in space(store.where)[1]):
        return False
    return _neighbours(loop, nodes, space, dims) == MOST_NEIGHBOURS


def is_vector(loop: Loop, space: Space, dims: list[Dim], node: Expression, count: int) -> bool:
    """Whether a load finds so many neighbours side by side."""
    data = node.data
    return (
        not node.args
        and not data.conditions
        and _is_along(loop, space, dims, data.operand, data.where, count)
    )


def _is_along(loop: Loop, space: Space, dims: list[Dim], operand: int, where: Affine, count: int) -> bool:
    """Whether so many neighbours lie side by side, and begin where they can be read at once."""
    first, terms = space(where)
    steps = [first, *(factor for d, factor in terms if d is not dims[-1])]
    return (
        space.factor(where, dims[-1]) == 1
        and not any(step % count for step in steps)
        and is_aligned(loop.body.operands[operand])
    )


def goes_down_columns(loop: Loop) -> bool:
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


def is_atomic(loop: Loop) -> bool:
    """Whether all stores add to what is there, in a way that memory does by itself."""
    return all(s.function == "add" and s.node.dtype in ATOMIC for s in loop.stores)


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
