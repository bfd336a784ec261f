"""How to compute a contraction. Enters: a `Contraction`, a target. Leaves: the plan that should be fastest.

Sizes are static, so all of this is decided before a line is written, by an estimate of the time of each form.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from minitorch.compiler.backends.llvm.products import costs
from minitorch.compiler.backends.llvm.products.contraction import (
    Contraction,
    OffsetTable,
    Problem,
    SizedTable,
)
from minitorch.compiler.backends.llvm.products.packing import (
    Packs,
    RunTable,
    choose_packing,
    drives_itself_out,
    packing_cycles,
    run_table,
)
from minitorch.compiler.backends.llvm.products.plan import (
    ColumnVector,
    ContractionPlan,
    Form,
    Panel,
    power_of_two,
)
from minitorch.compiler.backends.llvm.products.tiling import choose_panels
from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.ir.sizes import is_fixed


def plan_contraction(contraction: Contraction, target: Target) -> ContractionPlan:
    """Decide how to compute a contraction on a target."""
    problem = Problem.of(contraction, target)
    if problem.varies:
        return _plan_varying(contraction, target)
    straight = plan_columns(problem)
    if not straight.units or not problem.depth:
        return straight
    plans = [straight]
    if 1 < problem.columns <= min(problem.lanes, problem.registers - 4):
        plans.append(plan_columns(Problem.of(contraction.exchanged(), target), "swapped"))
    if problem.a_depth.stride == 1 and problem.b_depth.stride == 1:
        plans.append(plan_dot(problem))
    return min(plans, key=lambda plan: plan.cycles * (costs.OTHER_FORMS if plan is straight else 1.0))


def _plan_varying(contraction: Contraction, target: Target) -> ContractionPlan:
    """Decide how to compute a contraction whose sizes vary: by what is typical, and so that all sizes will do."""
    problem = Problem.of(contraction, target)
    straight = plan_columns(problem.usually())
    plans = [(straight, problem)]
    if is_fixed(problem.columns) and 1 < problem.columns <= min(problem.lanes, problem.registers - 4):
        exchanged = Problem.of(contraction.exchanged(), target)
        plans.append((plan_columns(exchanged.usually(), "swapped"), exchanged))
    along_k = problem.a_depth.stride == 1 and problem.b_depth.stride == 1
    if along_k and is_fixed(problem.columns, problem.depth):
        plans.append((plan_dot(problem.usually()), problem))
    plan, problem = min(
        plans, key=lambda each: each[0].cycles * (costs.OTHER_FORMS if each[0] is straight else 1.0)
    )
    panels = plan.panels
    if not is_fixed(problem.columns):
        panels = _varying_columns(problem, panels)
    row_blocks = plan.row_blocks
    if not is_fixed(problem.rows):
        panels = tuple(_varying_rows(problem.rows, panel) for panel in panels)
        tiles = -(-problem.rows // panels[0].rows)
        if plan.row_blocks > 1:
            row_blocks = -(-tiles // max(1, plan.panels[0].tiles // plan.row_blocks))
    return dataclasses.replace(
        plan,
        problem=problem,
        panels=panels,
        row_blocks=row_blocks,
        depth_block=problem.depth if plan.depth_blocks == 1 else plan.depth_block,
        packs_a=plan.packs_a and is_fixed(problem.rows),
        tables=_tables(problem, Packs(plan.packing, plan.runs)),
    )


def _varying_columns(problem: Problem, panels: tuple[Panel, ...]) -> tuple[Panel, ...]:
    """Cut columns whose number varies into whole panels, and the rest into some of which not all columns exist."""
    lanes, first, last = problem.lanes, panels[0], panels[-1]
    across = len(first.vectors)
    whole = problem.columns // (across * lanes)
    rest = len(last.vectors) if len(panels) > 1 else 1
    left = problem.columns - whole * (across * lanes)
    return (
        dataclasses.replace(first, vectors=(ColumnVector(lanes, lanes),) * across, count=whole),
        dataclasses.replace(
            last, vectors=(ColumnVector(lanes, None),) * rest, count=-(-left // (rest * lanes))
        ),
    )


def _varying_rows(rows: int, panel: Panel) -> Panel:
    """Cut rows whose number varies into tiles of one height, and one of what is left."""
    return dataclasses.replace(panel, tiles=-(-rows // panel.rows), tall=rows // panel.rows, partial=True)


def plan_columns(problem: Problem, form: Form = "columns") -> ContractionPlan:
    """Plan with vectors along n."""
    if problem.is_empty:
        return ContractionPlan(problem, form, depth_block=problem.depth)
    panels, tile_cycles = choose_panels(problem, form)
    width = max(panel.width for panel in panels)
    packs = choose_packing(problem, width)
    plan = ContractionPlan(
        problem,
        form,
        panels,
        depth_block=_depth_block(problem, width, panels[0].tiles, packs),
        packing=packs.how,
        packs_a=_packs_a(problem, sum(panel.count for panel in panels)),
        runs=packs.runs,
        tables=_tables(problem, packs),
    )
    if plan.packs_a:  # all panels must cut the rows alike
        one = panels[0]
        alike = tuple(dataclasses.replace(p, tiles=one.tiles, rows=one.rows, tall=one.tall) for p in panels)
        plan = dataclasses.replace(plan, panels=alike)
    plan = dataclasses.replace(plan, row_blocks=_row_blocks(plan))
    return dataclasses.replace(plan, cycles=problem.batches * (tile_cycles + packing_cycles(plan)))


def _depth_block(problem: Problem, width: int, tiles: int, packs: Packs) -> int:
    """How much of k at a time: all of it, unless a panel would be too large to stay in the cache."""
    block = max(problem.lanes, costs.PANEL_BYTES // (width * problem.itemsize))
    pays = tiles >= costs.MANY_TILES or packs.how
    if problem.depth <= costs.MOST_PANELS * block or not pays:
        return problem.depth
    pieces = -(-problem.depth // block)
    return -(-problem.depth // (pieces * problem.lanes)) * problem.lanes


def _packs_a(problem: Problem, panels: int) -> bool:
    """Whether the rows of A are copied: they are far apart, and would not stay in the cache for all panels."""
    if problem.a_row.stride != 1 or panels < costs.PACK_A_PANELS or problem.depth > costs.PACK_A_DEPTH:
        return False
    step = problem.a_depth.longest_step * problem.itemsize
    most = costs.VERY_LARGE_BYTES if step % costs.SAME_LINES_BYTES else costs.LARGE_BYTES
    large = problem.rows * problem.depth * problem.itemsize > most
    return (step >= costs.FAR_BYTES and large) or drives_itself_out(problem.depth, step, costs.LINE_BYTES)


def _row_blocks(plan: ContractionPlan) -> int:
    """In how many pieces the rows of a panel are handed out, so that there is enough for every thread."""
    problem = plan.problem
    panels = problem.batches * plan.panel_count
    wanted = _wanted_units(problem)
    blocks = -(-wanted // panels) if wanted else 1
    if plan.depth_blocks > 1:  # every block of rows packs anew
        blocks = min(blocks, problem.rows // costs.REPACKING_ROWS)
        blocks = max(blocks, -(-problem.rows // costs.PARTIAL_ROWS))
    if plan.packs_a:
        rows = max(costs.PACK_A_ROWS, costs.PACK_A_BYTES // (problem.depth * problem.itemsize))
        blocks = max(blocks, -(-problem.rows // rows))
    blocks = max(1, min(blocks, min(panel.tiles for panel in plan.panels)))
    # Few units: an even number of them, for two threads or four.
    if blocks > 1 and panels % 2 and panels * blocks < costs.MOST_UNITS:
        blocks -= blocks % 2
    return blocks


def _wanted_units(problem: Problem) -> int:
    return min(costs.MOST_UNITS, problem.flops // costs.UNIT_FLOPS)


def plan_dot(problem: Problem) -> ContractionPlan:
    """Plan with vectors along k: both operands are contiguous there."""
    width = min(costs.DOT_TILE, problem.columns, max(1, problem.registers // 8))
    most_rows = costs.DOT_SUMS // width if width < costs.DOT_TILE else costs.DOT_TILE
    tiles = -(-problem.rows // most_rows)
    rows = -(-problem.rows // tiles)
    tall = problem.rows - tiles * (rows - 1)
    groups = [(width, problem.columns // width), (problem.columns % width, 1)]
    panels = tuple(
        Panel((ColumnVector(power_of_two(across), across),), count, tiles, rows, tall)
        for across, count in groups
        if across
    )
    units = problem.batches * sum(panel.count for panel in panels)
    return ContractionPlan(
        problem,
        "dot",
        panels,
        row_blocks=max(1, min(tiles, -(-_wanted_units(problem) // units))),
        depth_block=problem.depth,
        tables=_tables(problem, Packs(None)),
        cycles=sum(_dot_cycles(problem, panel) for panel in panels),
    )


def _dot_cycles(problem: Problem, panel: Panel) -> float:
    """Estimate the time of all tiles of some equal panels."""
    across, rows = panel.valid, panel.rows
    steps = -(-problem.depth // problem.lanes)
    per_step = max(rows * across, rows + across) + costs.DOT_STEP
    ends = rows * (costs.DOT_ROW + costs.DOT_SUM_ACROSS * across) + costs.TILE_START
    return problem.batches * panel.count * panel.tiles * (steps * per_step + ends)


def _tables(problem: Problem, packs: Packs) -> dict[str, np.ndarray | SizedTable]:
    """Collect the offsets that no stride describes."""
    walks = {"a_row": problem.a_row, "a_depth": problem.a_depth, "b_depth": problem.b_depth}
    if packs.how != "runs":
        walks["b_column"] = problem.b_column
    tables: dict[str, np.ndarray | SizedTable] = {
        name: OffsetTable(walk) if walk.varies else walk.offsets()
        for name, walk in walks.items()
        if walk.stride is None
    }
    if packs.how == "runs" and problem.b_column.varies:
        tables["runs"] = RunTable(problem.b_column, problem.lanes, packs.runs)
    elif packs.how == "runs":
        tables["runs"] = run_table(problem.b_column, problem.lanes).transpose(1, 0, 2).reshape(-1)
    return tables
