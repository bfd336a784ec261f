"""How a loop runs. Enters: a `Loop`. Leaves: the loop that vectors lie along, rows, and units of work for threads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from minitorch.compiler.backends.llvm.body import Expression, cost
from minitorch.compiler.backends.llvm.loops import costs
from minitorch.compiler.backends.llvm.loops.loop import Loop
from minitorch.compiler.backends.llvm.space import Space
from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.ir.index import Dim, total
from minitorch.compiler.ir.sizes import Size, is_fixed, surely_less, surely_multiple, typical


class Piece(NamedTuple):
    """Of a loop whose length varies: the loop over its pieces, the one inside them, and the length."""

    outer: Dim
    inner: Dim
    length: int


@dataclass(frozen=True)
class Arrangement:
    """The loops as they run. dim: the one that vectors lie along, if any, and `lanes` its neighbours in a vector.

    work: instructions per element. rows: turns of all outer loops together. flat: one single loop, cut into pieces.
    units: pieces of work; of `rows_per_unit` rows each, unless flat. by_blocks: units are blocks of rows, each with
    sums of its own. piece: a loop that was cut, and whose last piece may be shorter.
    """

    space: Space
    outer: list[Dim]
    inner: list[Dim]
    dim: Dim | None
    lanes: int
    work: float
    flat: bool
    by_blocks: bool
    units: int
    rows_per_unit: int
    piece: Piece | None = None

    @property
    def along_outer(self) -> bool:
        """Whether every lane is a row of its own."""
        return self.dim is not None and self.dim in self.outer

    @property
    def row_sizes(self) -> list[int]:
        """How often each outer loop turns; the one along which vectors lie, once for each vector."""
        return _row_sizes(self.outer, self.dim, self.lanes)

    @property
    def rows(self) -> int:
        """How many rows there are; with vectors along an outer loop, vectors of rows."""
        return math.prod(self.row_sizes)

    @property
    def elements(self) -> int:
        """How many turns all loops make together."""
        return total(self.outer) * total(self.inner)


def _row_sizes(outer: list[Dim], dim: Dim | None, lanes: int) -> list[int]:
    return [-(-d.size // lanes) if d is dim else d.size for d in outer]


def arrange(
    loop: Loop, nodes: list[Expression], stages: dict[Expression, int], target: Target
) -> Arrangement:
    """Choose the loop that vectors lie along, join loops that go through memory as one, divide the work."""
    space = Space(loop.addresses(nodes), loop.outer + loop.inner)
    full_lanes = _full_lanes(loop, nodes, target)
    choice = _Choice(loop, nodes, space, full_lanes, 1 + max(stages.values(), default=0))
    outer, inner, dim = choice.divided() if loop.divided else choice.undivided()
    lanes = 1 if dim is None else _lanes_along(dim, full_lanes)
    work = sum(cost(n) for n in nodes) + 1
    # A kernel along one single loop is cut into pieces of it.
    flat = (
        not outer
        and len(inner) == 1
        and dim is inner[0]
        and not loop.has("row", "scan", "column")
        and not loop.serial
    )
    by_blocks = loop.has("column", "total", "rows")
    rows = math.prod(_row_sizes(outer, dim, lanes))
    weight = 1 + work / costs.WORK_PER_ELEMENT
    if loop.serial:
        units, rows_per_unit = 1, rows
    elif flat:
        units, rows_per_unit = loop.blocks if by_blocks else _pieces(inner[0].size, weight), 1
    elif by_blocks:
        units, rows_per_unit = loop.blocks, -(-rows // loop.blocks)
    else:
        rows_per_unit = _rows_per_unit(rows, outer, inner, lanes if dim in outer else 1, weight)
        units = -(-rows // rows_per_unit)
    return Arrangement(
        space, outer, inner, dim, lanes, work, flat, by_blocks, units, rows_per_unit, choice.piece
    )


def _lanes_along(dim: Dim, most: int) -> int:
    """How many lanes vectors along a loop have: no more than a short one has turns."""
    return most if isinstance(dim.size, Size) else min(most, 1 << (dim.size - 1).bit_length())


def _pieces(length: int, weight: float) -> int:
    """Into how many pieces a long loop is cut."""
    if isinstance(length, Size):
        return length // max(1, int(costs.UNIT_WORK / weight)) + 1
    return max(1, int(length * weight / costs.UNIT_WORK))


def _rows_per_unit(rows: int, outer: list[Dim], inner: list[Dim], across: int, weight: float) -> int:
    """How many rows make a unit of work; across: in how many lanes there is one."""
    if not is_fixed(total(inner)):
        return int(costs.UNIT_WORK / weight) // (total(inner) * across) + 1
    row_work = typical(total(outer) * total(inner)) / typical(rows) * weight
    most = max(1, int(costs.UNIT_WORK / max(row_work, 1)))
    return min(rows, most) if is_fixed(rows) else most


def _full_lanes(loop: Loop, nodes: list[Expression], target: Target) -> int:
    """How many lanes vectors have, if a loop is long enough: as many as there are of the narrower float."""
    sizes = {n.dtype.itemsize for n in nodes if n.kind != "constant"}
    sizes |= {f.value.dtype.itemsize for f in loop.folds if f.value is not None and not f.is_arg}
    sizes |= {s.node.dtype.itemsize for s in loop.stores}
    return target.lanes(np.float64 if 8 in sizes and 4 not in sizes else np.float32)


class _Choice:
    """Chooses the loop that vectors lie along; each answer is (outer loops, inner loops, the chosen one)."""

    def __init__(self, loop: Loop, nodes: list[Expression], space: Space, lanes: int, passes: int) -> None:
        self.loop, self.nodes, self.space, self.lanes, self.passes = loop, nodes, space, lanes, passes
        self.piece: Piece | None = None

    def undivided(self) -> tuple[list[Dim], list[Dim], Dim | None]:
        """Any loop will do; it becomes the inner one."""
        dims = self.loop.outer + self.loop.inner
        self.space.join_all(dims)
        best = min(dims, key=lambda d: self.cost(d, True), default=None)
        if best is None:
            return [], [], None
        outer = [d for d in dims if d is not best]
        tile = self._tile(best, outer)
        return ([*outer, best], [tile], best) if tile is not None else (outer, [best], best)

    def divided(self) -> tuple[list[Dim], list[Dim], Dim | None]:
        """A loop along the rows or across them, but not where that would change the meaning."""
        loop, outer, inner = self.loop, list(self.loop.outer), list(self.loop.inner)
        self.space.join_all(outer)
        self.space.join_all(inner)
        scan = loop.has("scan")
        choices = [] if scan else [(self.cost(d, True), d) for d in inner]
        if not loop.has("check") and not loop.serial:
            choices += [(self.cost(d, False), d) for d in outer]
        if not choices:
            return outer, inner, None
        best_cost, best = min(choices, key=lambda choice: choice[0])
        if scan and self._cost_of_single_elements() < best_cost:
            return outer, inner, None
        if best in inner:
            return outer, [*(d for d in inner if d is not best), best], best
        return [*(d for d in outer if d is not best), best], inner, best

    def _tile(self, along: Dim, others: list[Dim]) -> Dim | None:
        """Cut a loop into short pieces if something is read against the grain (in place: `others`).

        A transposed array is read one element per cache line; going over small squares, all of a line is used
        while it is still near. Returns the loop within a square.
        """
        if typical(total([along, *others])) * costs.ELEMENT_BYTES < costs.TILED_BYTES:
            return None
        loads = [n.data.where for n in self.nodes if n.kind == "load"]
        against = [self.space(where) for where in loads if abs(self.space.factor(where, along)) > 1]
        with_grain = [dim for _, terms in against for dim, factor in terms if abs(factor) == 1]
        for dim in with_grain:
            if dim not in others:
                continue
            fitting = (
                s for s in costs.TILE_SIZES if surely_multiple(dim.size, s) and surely_less(s, dim.size)
            )
            size = next(fitting, None if is_fixed(dim.size) else costs.TILE_SIZES[0])
            if size is not None:
                outer, inner = self.space.cut(dim, size)
                others[others.index(dim)] = outer
                if not surely_multiple(dim.size, size):
                    self.piece = Piece(outer, inner, dim.size)
                return inner
        return None

    # Costs.

    def _cost_of_single_elements(self) -> float:
        """Estimate instructions per element without vectors."""
        return sum(cost(n) + 1 for n in self.nodes) + len(self.loop.stores)

    def cost(self, dim: Dim, along_inner: bool) -> float:
        """Estimate instructions per element when vectors lie along a loop."""
        lanes, loop = self.lanes, self.loop
        if any(self.space.depends(node, dim) for store in loop.stores for node, _ in store.places):
            return math.inf
        estimate = 0.0
        for node in self.nodes:
            estimate += self._load_cost(node, dim) if node.kind == "load" else cost(node)
        for store in loop.stores:
            neighbours = self.space.factor(store.where, dim) in (0, 1)
            estimate += costs.STORE if neighbours else lanes * costs.STORE_EACH_LANE
        length = typical(dim.size)
        estimate *= math.ceil(length / lanes) * lanes / length / lanes
        if not along_inner:
            columns = sum(f.scope == "column" for f in loop.folds)
            return estimate + (costs.COLUMN_TURN + costs.COLUMN_FOLD / lanes * columns)
        rows = [f for f in loop.folds if f.scope == "row"]
        per_row = costs.ROW_FOLD * len(rows) + costs.ROW_ARG * sum(f.is_arg for f in rows)
        per_row += costs.ROW_PASS * self.passes
        return estimate + per_row / max(typical(total(loop.inner)), 1)

    def _load_cost(self, node: Expression, dim: Dim) -> float:
        """Estimate the instructions of one load."""
        if any(self.space.depends(arg, dim) for arg in node.args):
            return self.lanes * costs.LOAD_EACH_LANE
        factor = self.space.factor(node.data.where, dim)
        if factor in (0, 1):
            return costs.LOAD
        return costs.LOAD_REVERSED if factor == -1 else self.lanes * costs.LOAD_EACH_LANE
