"""Over which loops a reduction goes. Enters: a group and a reduction's index in it. Leaves: its scope (see `Group`).

The first reduction of a group divides its space into rows and what lies along a row; later ones have to fit that.
"""

from __future__ import annotations

import math

from minitorch.compiler.ir.index import Dim, Index, dims_of, total
from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import is_fixed, typical
from minitorch.compiler.schedule.groups import PARTIAL, Group
from minitorch.compiler.schedule.machine import Figures

FEW_ROWS = 8  # of a block that sums columns
LEAST_COLUMNS = 16  # side by side, so that memory is read in pieces of some length


def fold_axes(value: Value) -> tuple[int, ...]:
    """Return the axes that a reduction drops."""
    if value.primitive == "arg_reduce":
        return (value.attributes["axis"],)
    return value.attributes["axes"]


def fold_scope(group: Group, value: Value, index: Index, figures: Figures) -> str | None:
    """Decide over what a reduction goes, dividing the group if nothing has yet; None if it does not fit."""
    axes = set(fold_axes(value))
    reduced = set(dims_of(a for i, a in enumerate(index) if i in axes))
    kept = set(dims_of(a for i, a in enumerate(index) if i not in axes))
    if reduced & kept:
        return None
    is_arg = value.primitive == "arg_reduce"
    if group.inner and group.level(index) == "row":
        return _over_rows(group, "rows", figures) if not kept and not is_arg else None
    if group.inner is None:
        at_once = is_arg or value.inputs[0].primitive == PARTIAL
        return _divide(group, reduced, kept, at_once, figures)
    if not kept and group.outer and not is_arg:
        return _over_rows(group, "total", figures)
    if reduced == set(group.inner):
        if figures.columns_apart and "column" in group.scope.values():
            return None
        return "row" if group.outer or group.blocks == 1 else "total" if not is_arg else None
    if kept == set(group.inner) and not is_arg:
        if figures.columns_apart and "row" in group.scope.values():
            return None
        return _over_rows(group, "column", figures)
    if kept and figures.columns_apart and set(group.scope.values()) == {"total"} and not is_arg:
        last = group.dims[len(group.dims) - len(kept) :]
        if kept == set(last) and group.outer and typical(total(last)) >= LEAST_COLUMNS:
            # What is summed over everything does not mind where rows begin.
            group.outer, group.inner = group.dims[: len(group.dims) - len(kept)], last
            return "column"
    return None


def _over_rows(group: Group, scope: str, figures: Figures) -> str:
    """Decide on blocks of rows, now that something is summed over rows."""
    if not group.has_folds_over_rows:
        group.blocks = _block_count(group, total(group.outer), figures)
    return scope


def _block_count(group: Group, rows: int, figures: Figures) -> int:
    """Return into how many blocks rows are divided: where their number varies, some may be empty."""
    usual, elements = typical(rows), typical(group.elements)
    wanted, most, of_rows = elements // figures.serial_elements, figures.most_blocks, False
    if "row" in group.scope.values():
        wanted = max(wanted, usual // figures.rows_of_a_block)
        if elements > usual * figures.serial_elements:
            most = max(most, figures.most_long_rows)
        of_rows = figures.rows_of_a_block < usual and not is_fixed(rows)
    wanted = min(most, wanted, usual)
    if wanted <= 1:
        return 1
    if of_rows:  # (There may be many more of them another time, and a block without any costs little.)
        return max(wanted, figures.most_blocks)
    return math.ceil(usual / math.ceil(usual / wanted))


def _divide(group: Group, reduced: set[Dim], kept: set[Dim], at_once: bool, figures: Figures) -> str:
    """Divide a group into rows and what lies along them, for its first fold; `at_once`: not in blocks."""
    order, elements = group.dims, typical(group.elements)
    # (One block alone knows the sum at once, and others may use it there.)
    if not kept and not at_once and elements // figures.serial_elements > 1:
        inner: list[Dim] = []
        for dim in reversed(order):  # rows of a few thousand elements
            if inner and typical(total(inner) * dim.size) > figures.serial_elements // 2:
                break
            inner.insert(0, dim)
        group.inner = inner
        group.outer = order[: len(order) - len(inner)]
        if group.outer:
            group.blocks = _block_count(group, total(group.outer), figures)
        else:
            group.blocks = max(1, min(figures.most_blocks, elements // figures.serial_elements))
        return "total"
    last_is_kept = bool(order) and order[-1] in kept
    if last_is_kept and not at_once and reduced:
        first_kept = min(i for i, d in enumerate(order) if d in kept)
        last_reduced = max(i for i, d in enumerate(order) if d in reduced)
        if last_reduced < first_kept and elements * 4 > figures.column_bytes:
            rows, columns = ([d for d in order if d in dims] for dims in (reduced, kept))
            blocks = _block_count(group, total(rows), figures)
            # (Where a block has few rows, its sums are nearly as much to write as those are to read.)
            worthwhile = min(blocks, 1 + typical(total(rows)) // FEW_ROWS)
            if typical(total(columns)) < worthwhile * figures.columns_of_a_block:
                group.outer, group.inner, group.blocks = rows, columns, blocks
                return "column"
    group.outer = [d for d in order if d in kept]
    group.inner = [d for d in order if d in reduced]
    return "row"
