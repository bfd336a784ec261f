"""How B comes to lie along the vectors. Enters: a problem. Leaves: the way to copy a panel of it, and what that costs.

B must be contiguous along n. Where it is not, a panel of B (all of k, a few vectors of columns) is first copied into
scratch memory in that order, and used by all rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from minitorch.compiler.backends.llvm.products import costs
from minitorch.compiler.backends.llvm.products.contraction import Problem, StridedWalk
from minitorch.compiler.backends.llvm.products.plan import ContractionPlan, Packing
from minitorch.compiler.ir.sizes import Binding, limits, typical


class Packs(NamedTuple):
    """A way to pack, and of how many contiguous pieces a vector consists at most."""

    how: Packing
    runs: int = 0


def choose_packing(problem: Problem, width: int) -> Packs:
    """Choose how B comes to be contiguous along n."""
    p = problem
    if not p.depth:
        return Packs(None)
    if p.b_column.stride == 1:
        pays = p.rows >= costs.PACK_ROWS and p.depth >= costs.PACK_DEPTH and _is_far(p, width)
        return Packs("copy" if pays or _is_in_its_own_way(p, width) else None)
    if not p.b_column.varies and p.b_column.neighbours % width == 0:
        return Packs(None)  # laid out in such panels already
    runs = most_runs(p.b_column, p.lanes)
    if 0 < runs <= (p.lanes // 2 + 1 if p.b_column.varies else costs.MOST_RUNS):
        return Packs("runs", runs)
    if typical(p.b_depth.neighbours) >= min(p.depth, 2 * p.lanes) and p.lanes > 1:
        return Packs("transpose", runs)
    return Packs("scalar", runs)


def most_runs(columns: StridedWalk, lanes: int) -> int:
    """Of how many contiguous pieces a vector of columns consists at most; 0: of single elements."""
    if columns.neighbours == 1:
        return 0
    if not columns.varies:
        return len(run_table(columns, lanes))
    least, _ = limits(columns.neighbours)
    return 1 + math.ceil((lanes - 1) / max(1, least))


@dataclass(frozen=True)
class RunTable:
    """The pieces of all vectors, known as soon as the sizes of a call are; with room for vectors that do not exist."""

    columns: StridedWalk
    lanes: int
    runs: int

    def at(self, binding: Binding) -> np.ndarray:
        """Return it: of each vector all pieces, three numbers each."""
        found = run_table(self.columns.at(binding), self.lanes)
        pieces, vectors, _ = found.shape
        table = np.zeros((vectors + costs.MOST_VECTORS, self.runs, 3), np.int64)
        table[:vectors, :pieces] = found.transpose(1, 0, 2)
        return table.reshape(-1)


def _is_far(problem: Problem, width: int) -> bool:
    """Whether neighbouring lines of a panel are far apart in memory."""
    step = problem.b_depth.longest_step * problem.itemsize
    same_places = step >= costs.FAR_BYTES and step % costs.FAR_MULTIPLE == 0
    return same_places or step > costs.FAR_WIDTHS * width * problem.itemsize


def _is_in_its_own_way(problem: Problem, width: int) -> bool:
    """Whether the lines of a panel are so far apart that they do not stay in the cache from one tile to the next."""
    step, across = problem.b_depth.longest_step * problem.itemsize, width * problem.itemsize
    pays = problem.rows >= costs.PACK_FEW_ROWS and step > costs.NEAR_WIDTHS * across
    return pays and drives_itself_out(problem.depth, step, across)


def drives_itself_out(lines: int, step: int, across: int) -> bool:
    """Whether lines at equal distances are more than find a place in the nearest cache; all numbers are bytes.

    Where a line may be kept is told by its address within one of the cache's ways: a step that has a large divisor in
    common with that leads to few places.

    >>> drives_itself_out(400, 3136, 64), drives_itself_out(400, 3072, 64)
    (False, True)
    """
    apart = max(across, math.gcd(step, costs.NEAREST_BYTES // costs.NEAREST_WAYS))
    return step != 0 and lines > costs.NEAREST_BYTES // apart


def packing_cycles(plan: ContractionPlan) -> float:
    """Estimate the time to pack B once for every block of rows that packs."""
    problem = plan.problem
    per_vector = {
        None: 0.0,
        "copy": costs.PACK_COPY,
        "runs": costs.PACK_RUNS + plan.runs,
        "transpose": costs.PACK_TRANSPOSE,
        "scalar": costs.PACK_SCALAR * problem.lanes,
    }[plan.packing]
    again = plan.row_blocks if plan.depth_blocks > 1 else 1
    return per_vector * problem.depth * -(-problem.columns // problem.lanes) * again


def run_table(columns: StridedWalk, lanes: int) -> np.ndarray:
    """Cut each vector of columns into contiguous pieces: (piece, vector, [offset of lane 0, first lane, end lane]).

    Vectors with fewer pieces than others end with empty ones.

    >>> run_table(StridedWalk.along([(2, 8), (3, 1)]), 4)[:, 0].tolist()
    [[0, 0, 3], [5, 3, 4]]
    """
    offsets = columns.offsets()
    count = len(offsets)
    starts = np.flatnonzero(np.diff(offsets, prepend=offsets[0] - 2) != 1)
    starts = np.union1d(starts, np.arange(0, count, lanes))
    ends = np.append(starts[1:], count)
    owner = starts // lanes
    order = np.arange(len(starts)) - np.searchsorted(owner, owner)  # which piece of its vector
    table = np.zeros((order.max() + 1, -(-count // lanes), 3), np.int64)
    first = starts - owner * lanes
    table[order, owner] = np.stack([offsets[starts] - first, first, ends - owner * lanes], axis=1)
    return table
