"""Running sums by many threads. Enters: a `Loop` with a scan. Leaves: a `Kernel`, or None.

A team of threads goes along a row in turns, each thread with some neighbours. It folds them, finds what the threads
before it in its warp have come to (that of its neighbour, of the two before that, of the four before that …), then what
the warps before, and the turns before; and from there on goes through its neighbours once more. Where there are few
rows, and long ones, blocks have pieces of them: one kernel folds the pieces, another finds what comes before each.
"""

from __future__ import annotations

from collections.abc import Callable

from minitorch.compiler.backends.cuda.exact import supplied
from minitorch.compiler.backends.cuda.folds import Slots, nothing, together
from minitorch.compiler.backends.cuda.words import BlockWriter, Kernel
from minitorch.compiler.backends.llvm.body import cost, in_order
from minitorch.compiler.backends.llvm.control import add, divide, multiply, smaller, take_apart, when
from minitorch.compiler.backends.llvm.loops.loop import Loop, LoopFold
from minitorch.compiler.backends.llvm.space import Space
from minitorch.compiler.backends.llvm.text import TYPES
from minitorch.compiler.backends.llvm.writer import Writer
from minitorch.compiler.ir.index import Dim, total
from minitorch.compiler.ir.sizes import is_fixed, surely_equal, typical

WARP = 32
EACH = 8  # neighbours of a thread
MOST_THREADS = 256  # of a team, and of a block
LEAST_LENGTH = 64  # of a row that is shared out
FEW_ROWS, LEAST_PIECES = 264, 4  # so few are cut into pieces, if there are so many of them
MANY_ROWS = 1 << 14  # so many threads are busy with a row each, where rows are neighbours in memory


def pieces_of(loop: Loop) -> int:
    """Return into how many pieces rows are cut; 1 if they are not."""
    rows, length = total(loop.outer), total(loop.inner)
    if not is_fixed(rows, length) or rows >= FEW_ROWS or length < LEAST_PIECES * MOST_THREADS * EACH:
        return 1
    return -(-length // (MOST_THREADS * EACH))


def write_scan(
    loop: Loop, guard: int | None, *, pieces: int = 1, sums: int | None = None, before: int | None = None
) -> Kernel | None:
    """Write a running fold by teams of threads, if its rows are long or few.

    pieces: of a row. sums: the operand to which what each piece comes to is written, and nothing else; before: the one
    in which what all up to a piece come to is found.
    """
    if len(loop.folds) != 1 or loop.stores or loop.serial or guard is not None:
        return None
    (fold,) = loop.folds
    rows, length = total(loop.outer), total(loop.inner)
    # (A length that varies may be any, whatever it was first.)
    if fold.scope != "scan" or (is_fixed(length) and length < LEAST_LENGTH):
        return None
    nodes = loop.nodes()
    outer, inner = list(loop.outer), list(loop.inner)
    space = Space(loop.addresses(nodes), [*outer, *inner])
    space.join_all(outer)
    space.join_all(inner)
    apart = len(inner) == 1 and not surely_equal(abs(space.factor(fold.where, inner[0])), 1)
    if len(inner) != 1 or (typical(rows) >= MANY_ROWS and apart):
        return None
    scan = _Scan(loop, fold, space, outer, inner[0], pieces, sums, before)
    scan.write()
    blocks, threads = -(-rows // scan.teams) * pieces, scan.team * scan.teams
    flops = sum(cost(n) for n in nodes if n.kind == "map") * typical(rows * length)
    return Kernel(
        scan.block.items,
        loop.body.operands,
        blocks,
        threads,
        scan.shared,
        supplied(scan.e.externs),
        flops,
        f"{typical(blocks)} blocks of {threads} threads, {scan.team} to a row",
        rows * length,
    )


class _Scan:
    def __init__(
        self,
        loop: Loop,
        fold: LoopFold,
        space: Space,
        outer: list[Dim],
        along: Dim,
        pieces: int,
        sums: int | None,
        before: int | None,
    ) -> None:
        self.loop, self.fold, self.space, self.outer, self.along = loop, fold, space, outer, along
        self.pieces, self.sums, self.before = pieces, sums, before
        self.kind = TYPES[fold.dtype]
        self.block = BlockWriter()
        self.e = self.block.e
        self.rows, self.length = total(outer), along.size
        self.team = WARP
        while self.team < MOST_THREADS and self.team * EACH < typical(self.length):
            self.team *= 2
        self.teams = 1
        while pieces == 1 and self.teams < typical(self.rows) and self.teams * self.team < MOST_THREADS:
            self.teams *= 2
        self.tile = self.team * EACH
        self.turns = -(-self.length // self.tile) if pieces == 1 else 1
        self.several = not is_fixed(self.turns) or self.turns > 1
        threads = self.team * self.teams
        first = Slots(self.e, fold, 0)
        # What threads have come to, before a step and after it.
        self.known = [first, Slots(self.e, fold, first.size * threads)]
        self.carried = Slots(self.e, fold, 2 * first.size * threads)  # what the turns before have, by team
        self.shared = first.size * 2 * (threads + self.teams)

    def write(self) -> None:
        """Write all phases."""
        in_warps = self.team == WARP
        with self.block.turns(self.turns) as turn:
            with self.block.phase(in_warps=True):
                self.for_row(lambda row: self.fold_mine(row, turn))
            distance = 1
            while distance < WARP:
                with self.block.phase(in_warps=in_warps or 2 * distance < WARP):
                    self.step(distance)
                self.known.reverse()
                distance *= 2
            with self.block.phase(in_warps):
                if self.sums is None:
                    self.for_row(lambda row: self.go_through(row, turn))
                else:
                    self.tell_sum()

    def for_row(self, body: Callable[[str], None]) -> None:
        """Write something for this thread's row, if there is one."""
        e = self.e
        if self.pieces > 1:
            body(divide(e, "%block", self.pieces)[0])
            return
        row = add(e, multiply(e, "%block", self.teams), self.number())
        if self.rows % self.teams:
            when(e, e.op(f"icmp ult i64 {row}, {self.rows}"), lambda: body(row))
        else:
            body(row)

    def number(self) -> str:
        """Return which of its block's teams this thread belongs to."""
        return "0" if self.teams == 1 else self.e.op(f"udiv i64 %thread, {self.team}")

    def lane(self) -> str:
        """Return as which of its team's threads this one goes along."""
        return "%thread" if self.teams == 1 else self.e.op(f"urem i64 %thread, {self.team}")

    def place(self, turn: str) -> str:
        """Return where this thread's neighbours begin."""
        if self.pieces > 1:
            turn = divide(self.e, "%block", self.pieces)[1]
        return add(self.e, multiply(self.e, turn, self.tile), multiply(self.e, self.lane(), EACH))

    def elements(self, row: str, first: str) -> list[tuple[Writer, str]]:
        """Return this thread's neighbours, each with a writer there: all are read before any is used."""
        found = []
        pointers = [f"%operand{n}" for n in range(len(self.loop.body.operands))]
        counters = take_apart(self.e, row, [d.size for d in self.outer])
        for k in range(EACH):
            place = add(self.e, first, str(k))
            if self.length % self.tile:
                place = smaller(self.e, place, f"{self.length - 1}")
            w = Writer(self.e, 1, None, self.space, {}, {}, pointers)
            w.scopes.append({})
            w.counters.update(zip(self.outer, counters, strict=True))
            w.counters[self.along] = place
            for node in in_order([self.fold.source]):
                w.write(node)
            found.append((w, w.single(self.fold.source)))
        return found

    def exists(self, first: str, k: int) -> str:
        """Return whether there is a k-th neighbour."""
        return self.e.op(f"icmp ult i64 {add(self.e, first, str(k))}, {self.length}")

    def chosen(self, condition: str, one: list[str], other: list[str]) -> list[str]:
        """Return one or the other."""
        return [self.e.op(f"select i1 {condition}, {self.kind} {one[0]}, {self.kind} {other[0]}")]

    def fold_mine(self, row: str, turn: str) -> None:
        """Fold this thread's neighbours."""
        first, names = self.place(turn), nothing(self.fold)
        for k, (_, element) in enumerate(self.elements(row, first)):
            after = together(self.e, self.fold, names, [element])
            names = self.chosen(self.exists(first, k), after, names) if self.length % self.tile else after
        self.known[0].put("%thread", names)

    def step(self, distance: int) -> None:
        """Take in what the thread so far before has come to, in this warp."""
        e, (before, after) = self.e, self.known
        is_there = e.op(f"icmp uge i64 {e.op(f'urem i64 %thread, {WARP}')}, {distance}")
        back = e.op(f"select i1 {is_there}, i64 {distance}, i64 0")
        mine, other = before.get("%thread"), before.get(e.op(f"sub i64 %thread, {back}"))
        after.put("%thread", self.chosen(is_there, together(e, self.fold, other, mine), mine))

    def go_through(self, row: str, turn: str) -> None:
        """Go through this thread's neighbours from what comes before them."""
        e, fold, known = self.e, self.fold, self.known[0]
        names, lane, number = nothing(fold), self.lane(), self.number()
        if self.several:
            odd = e.op(f"and i64 {turn}, 1")
            begun = e.op(f"icmp ne i64 {turn}, 0")
            slot = add(e, multiply(e, odd, self.teams), number)
            names = self.chosen(begun, self.carried.get(slot), names)
        elif self.before is not None:
            begun = e.op(f"icmp ne i64 {divide(e, '%block', self.pieces)[1]}, 0")
            back = e.op(f"select i1 {begun}, i64 -1, i64 0")
            place = self.of_piece(self.before, add(e, "%block", back))
            found = e.op(f"load {self.kind}, ptr {place}, align {fold.dtype.itemsize}")
            names = self.chosen(begun, [found], names)
        warp = e.op(f"udiv i64 {lane}, {WARP}")
        for before in range(self.team // WARP - 1):
            last = add(e, multiply(e, number, self.team), str(WARP * before + WARP - 1))
            is_before = e.op(f"icmp ult i64 {before}, {warp}")
            names = self.chosen(is_before, together(e, fold, names, known.get(last)), names)
        is_there = e.op(f"icmp ne i64 {e.op(f'urem i64 %thread, {WARP}')}, 0")
        back = e.op(f"select i1 {is_there}, i64 1, i64 0")
        neighbour = known.get(e.op(f"sub i64 %thread, {back}"))
        names = self.chosen(is_there, together(e, fold, names, neighbour), names)
        first = self.place(turn)
        assert fold.value is not None
        for k, (w, element) in enumerate(self.elements(row, first)):
            names = together(e, fold, names, [element])

            def store(w: Writer = w, name: str = names[0]) -> None:
                assert fold.value is not None
                w.store_name(name, fold.value.dtype, fold.operand, fold.where)

            if self.length % self.tile:
                when(e, self.exists(first, k), store)
            else:
                store()
        if self.several:
            other = e.op(f"xor i64 {odd}, 1")
            next_slot = add(e, multiply(e, other, self.teams), number)
            is_last = e.op(f"icmp eq i64 {lane}, {self.team - 1}")
            when(e, is_last, lambda: self.carried.put(next_slot, names))

    def of_piece(self, operand: int, number: str) -> str:
        """Return where something known of a piece lies."""
        return self.e.op(f"getelementptr {self.kind}, ptr %operand{operand}, i64 {number}", "p")

    def tell_sum(self) -> None:
        """Write what this block's piece comes to."""
        e, fold = self.e, self.fold
        assert self.sums is not None

        def tell() -> None:
            names = nothing(fold)
            for warp in range(self.team // WARP):
                names = together(e, fold, names, self.known[0].get(str(WARP * warp + WARP - 1)))
            place = self.of_piece(self.sums, "%block")  # type: ignore[arg-type]
            e.line(f"store {self.kind} {names[0]}, ptr {place}, align {fold.dtype.itemsize}")

        when(e, e.op("icmp eq i64 %thread, 0"), tell)
