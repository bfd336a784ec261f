"""Tiles that live in registers. Enters: a problem. Leaves: panels of columns, cut into tiles of rows.

A tile is some rows, and across each row some vectors of columns. A step along k loads one vector of B per column
vector and one element of A per row, and multiplies each with each: the more of both, the less is loaded for each
multiplication, as long as all sums stay in registers.
"""

from __future__ import annotations

from typing import NamedTuple

from minitorch.compiler.backends.llvm.products import costs
from minitorch.compiler.backends.llvm.products.contraction import Problem
from minitorch.compiler.backends.llvm.products.plan import ColumnVector, Form, Panel, power_of_two
from minitorch.compiler.backends.llvm.shuffles import segment
from minitorch.compiler.backends.llvm.text import TYPES


class Tiling(NamedTuple):
    """Panels, and the cycles that all their tiles take."""

    panels: tuple[Panel, ...]
    cycles: float


def choose_panels(problem: Problem, form: Form) -> Tiling:
    """Choose how many vectors wide a panel is, and how many rows high its tiles are."""
    vectors = _column_vectors(problem, form)
    tilings = [_tiling_of_width(problem, form, vectors, width) for width in _widths(problem, form)]
    return min(tilings, key=lambda tiling: tiling.cycles)


def _column_vectors(problem: Problem, form: Form) -> list[ColumnVector]:
    """The vectors that cover all columns; the last is as narrow as can be."""
    lanes = problem.lanes
    vectors = [ColumnVector(lanes, lanes)] * (problem.columns // lanes)
    if rest := problem.columns % lanes:
        least = segment(TYPES[problem.dtype], lanes) if form == "swapped" else 1  # whole segments turn round
        vectors.append(ColumnVector(max(power_of_two(rest), least), rest))
    return vectors


def _widths(problem: Problem, form: Form) -> list[int]:
    """How many vectors wide a panel may be."""
    registers = problem.registers
    if form == "swapped":
        most = (registers - 1 - costs.OTHER_REGISTERS) // (problem.rows + 1)
        return [max(1, min(costs.MOST_SWAPPED_VECTORS, most))]
    # Few rows leave registers for more columns, which hides the time a multiply-add takes.
    most = (registers - costs.OTHER_REGISTERS) // (problem.rows + 1)
    widest = max(registers // 8, min(costs.MOST_VECTORS, most))
    return list(range(widest, max(0, registers // 16 - 1), -1))


def _tiling_of_width(problem: Problem, form: Form, vectors: list[ColumnVector], width: int) -> Tiling:
    """Cut the columns into panels of some vectors, and a narrower last one."""
    full = sum(vector.valid == problem.lanes for vector in vectors) // width
    groups = [(tuple(vectors[:width]), full)] if full else []
    if rest := vectors[full * width :]:
        groups.append((tuple(rest), 1))
    panels, cycles, kernels = [], 0.0, 0
    for group, count in groups:
        panel = _cut_into_tiles(problem, form, group, count)
        panels.append(panel)
        cycles += _tile_cycles(problem, form, panel)
        kernels += 1 + (panel.tall < panel.tiles)
    return Tiling(tuple(panels), cycles * (1 + costs.EACH_KERNEL * kernels))


def _cut_into_tiles(problem: Problem, form: Form, vectors: tuple[ColumnVector, ...], count: int) -> Panel:
    """Choose how many rows the tiles of some equal panels have."""

    def cost(panel: Panel) -> float:
        # Rows that divide evenly need one tile's text and not two.
        uneven = 1 if panel.tall == panel.tiles else costs.UNEVEN_ROWS
        return _tile_cycles(problem, form, panel) * uneven

    heights = [problem.rows] if form == "swapped" else _heights(problem, len(vectors))
    return min((_panel(problem, vectors, count, height) for height in heights), key=cost)


def _heights(problem: Problem, across: int) -> list[int]:
    """How many rows a tile may have: as many as registers allow, and as few as keep the multiplier busy."""
    registers = problem.registers
    most = costs.MOST_TABLE_ROWS if problem.a_row.stride is None else costs.MOST_ROWS
    most = min(most, (registers - costs.OTHER_REGISTERS) // across - 1)
    least = -(-max(costs.LEAST_SUMS, registers // 2) // across)
    return list(range(most, min(most, least) - 1, -1))


def _panel(problem: Problem, vectors: tuple[ColumnVector, ...], count: int, most_rows: int) -> Panel:
    """Cut the rows into as few tiles as can be, about equally high."""
    tiles = -(-problem.rows // most_rows)
    rows = -(-problem.rows // tiles)
    return Panel(vectors, count, tiles, rows, problem.rows - tiles * (rows - 1))


def _tile_cycles(problem: Problem, form: Form, panel: Panel) -> float:
    """Estimate the time of all tiles of some equal panels."""
    across = len(panel.vectors)
    multiply = sum(
        costs.MULTIPLY_FIXED + costs.MULTIPLY_BY_WIDTH * vector.lanes / problem.lanes
        for vector in panel.vectors
    )
    multiply = multiply * problem.rows / panel.tiles
    loads = costs.LOAD_A * panel.rows + costs.LOAD_B * across
    ends = costs.TILE_START + costs.TILE_STORE * across * panel.rows
    if form == "swapped":
        ends += costs.TURN_ROUND * across * problem.lanes
    step = max(multiply, loads, costs.LATENCY) + costs.LOADS_BESIDE * loads
    return panel.count * panel.tiles * (problem.depth * step + ends)
