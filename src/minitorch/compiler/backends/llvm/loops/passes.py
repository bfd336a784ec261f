"""What each pass over a row computes. Enters: a `Loop` and its arrangement. Leaves: passes, in order.

A fold over a row needs the whole row before its result is known; what depends on the result is computed in a later
pass. What was dear to compute is kept in scratch memory for the next pass, and not computed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from minitorch.compiler.backends.llvm.body import Expression, cost, in_order
from minitorch.compiler.backends.llvm.loops import costs
from minitorch.compiler.backends.llvm.loops.arrange import Arrangement
from minitorch.compiler.backends.llvm.loops.loop import Loop, LoopFold, Store
from minitorch.compiler.ir.index import Dim, total

ONCE, PER_ROW = 1, 2  # how many scopes deep: outside all loops, inside the loop over rows


def find_stages(loop: Loop, nodes: list[Expression]) -> dict[Expression, int]:
    """Return, for each expression, the number of passes over the row that have to be over before it is known."""
    stages: dict[Expression, int] = {}
    sources = {f.value: f.source for f in loop.folds if f.scope == "row"}

    def note(node: Expression) -> None:
        if node.kind == "result":
            # It has no arguments, so its fold's source may come later in the order: look it up.
            source = sources[node.data]
            for below in in_order([source] if source not in stages else []):
                if below not in stages:
                    note(below)
            stages[node] = stages[source] + 1
        else:
            stages[node] = max((stages[a] for a in node.args), default=0)

    for node in nodes:
        if node not in stages:
            note(node)
    return stages


@dataclass
class Pass:
    """One pass over a row. Stores and folds of what is known per row come before it.

    order: what it computes, arguments first; of that, `loaded` is read from where an earlier pass kept it, and `keeps`
    is kept for later ones.
    """

    row_stores: list[Store] = field(default_factory=list)
    row_folds: list[LoopFold] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    folds: list[LoopFold] = field(default_factory=list)
    order: list[Expression] = field(default_factory=list)
    loaded: set[Expression] = field(default_factory=set)
    keeps: list[Expression] = field(default_factory=list)

    def sinks(self) -> list[Expression]:
        """Return what it computes for its own sake."""
        places = [node for store in self.stores for node, _ in store.places]
        return [s.node for s in self.stores] + places + [f.source for f in self.folds]


@dataclass(frozen=True)
class Passes:
    """All passes, and how deep in the loops everything is computed.

    depths: of loops, in scopes. depth: of expressions. innermost: the depth of what every element needs. kept: what is
    kept from pass to pass, with its offset in scratch memory, of which there are scratch_bytes.
    """

    passes: list[Pass]
    depths: dict[Dim, int]
    depth: dict[Expression, int]
    innermost: int
    kept: dict[Expression, int]
    scratch_bytes: int


def plan_passes(
    loop: Loop, nodes: list[Expression], stages: dict[Expression, int], arrangement: Arrangement
) -> Passes:
    """Say what each pass computes, and what it leaves in memory for the next."""
    inner, flat = arrangement.inner, arrangement.flat
    if flat:
        depths = {inner[0]: PER_ROW}
    else:
        depths = dict.fromkeys(arrangement.outer, PER_ROW)
        depths |= {dim: PER_ROW + 1 + place for place, dim in enumerate(inner)}
    innermost = PER_ROW if flat else PER_ROW + len(inner)
    now = arrangement.space.now
    depth = {n: max((depths[now[d]] for d in n.dims), default=ONCE) for n in nodes}
    depth = {n: max(d, PER_ROW) if stages[n] else d for n, d in depth.items()}
    passes = _sorted_into_passes(loop, stages, arrangement, depths, depth)
    keeping = _Keeping(arrangement, depth, innermost, nodes)
    for number, each in enumerate(passes):
        keeping.plan(number, each)
    for node in keeping.kept:
        passes[keeping.first_use[node]].keeps.append(node)
    return Passes(passes, depths, depth, innermost, keeping.kept, keeping.scratch_bytes)


def _sorted_into_passes(
    loop: Loop,
    stages: dict[Expression, int],
    arrangement: Arrangement,
    depths: dict[Dim, int],
    depth: dict[Expression, int],
) -> list[Pass]:
    """Give stores and folds to the first pass in which they can be done."""
    per_row = PER_ROW if arrangement.inner and not arrangement.flat else ONCE
    passes: dict[int, Pass] = {}
    for store in loop.stores:
        involved = [store.node, *(node for node, _ in store.places)]
        deepest = [depths[d] for d, _ in arrangement.space(store.where)[1]] + [depth[n] for n in involved]
        each = passes.setdefault(max(stages[n] for n in involved), Pass())
        inside = max(deepest) > per_row or not arrangement.inner
        (each.stores if inside else each.row_stores).append(store)
    for fold in loop.folds:
        each = passes.setdefault(stages[fold.source], Pass())
        (each.row_folds if fold.scope == "rows" else each.folds).append(fold)
    return [passes.get(number, Pass()) for number in range(max(passes, default=0) + 1)]


class _Keeping:
    """Chooses what a pass keeps for later ones: what is dear to compute and was computed anyway."""

    def __init__(
        self,
        arrangement: Arrangement,
        depth: dict[Expression, int],
        innermost: int,
        nodes: list[Expression],
    ) -> None:
        self.depth, self.innermost = depth, innermost
        self.costs: dict[
            Expression, float
        ] = {}  # of an expression with all below it that every element needs
        for node in nodes:
            below = sum(self.costs[a] for a in node.args if depth[a] == innermost)
            self.costs[node] = cost(node) + below
        # (The last vector of a row is stored whole, and so reaches beyond the row's end.)
        row = total(arrangement.inner) * (arrangement.lanes if arrangement.along_outer else 1)
        self.row_elements = row + arrangement.lanes - 1
        self.first_use: dict[Expression, int] = {}
        self.kept: dict[Expression, int] = {}
        self.scratch_bytes = 0

    def plan(self, number: int, each: Pass) -> None:
        """Order what a pass computes; what an earlier one has computed and is dear is loaded."""
        seen: set[Expression] = set()
        stack = [(n, False) for n in reversed(each.sinks())]
        while stack:
            node, ready = stack.pop()
            if ready:
                each.order.append(node)
            elif node not in seen:
                seen.add(node)
                if self._is_worth_keeping(node):
                    each.loaded.add(node)
                    each.order.append(node)
                    self._keep(node)
                else:
                    stack.append((node, True))
                    stack.extend((a, False) for a in reversed(node.args) if a not in seen)
        for node in each.order:
            self.first_use.setdefault(node, number)

    def _is_worth_keeping(self, node: Expression) -> bool:
        every_element = self.depth[node] == self.innermost > PER_ROW
        return node in self.first_use and every_element and self.costs[node] >= costs.EXPENSIVE

    def _keep(self, node: Expression) -> None:
        if node not in self.kept:
            self.kept[node] = self.scratch_bytes
            self.scratch_bytes += -(-self.row_elements * node.dtype.itemsize // 64) * 64
