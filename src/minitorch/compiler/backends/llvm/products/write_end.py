"""The end of a tile. Enters: its sums. Leaves: calls of the epilogue for each vector of them, as LLVM text."""

from __future__ import annotations

from minitorch.compiler.backends.llvm.control import add, multiply, repeat
from minitorch.compiler.backends.llvm.products import costs
from minitorch.compiler.backends.llvm.products.plan import power_of_two
from minitorch.compiler.backends.llvm.products.write_base import Context, Position, Tile
from minitorch.compiler.backends.llvm.shuffles import lanes_of, segment, transpose, zero
from minitorch.compiler.backends.llvm.text import Emitter


def finish_tile(context: Context, tile: Tile, sums: list[str]) -> None:
    """Hand the sums of a tile to the epilogue."""
    if context.plan.form == "swapped":
        _finish_swapped(context, tile, sums)
        return
    positions = [context.position(tile.work, tile.row, r, v) for r, v in tile.places()]
    if tile.existing is not None or (tile.rows > 1 and _is_long(context, positions[0])):
        _finish_by_rows(context, tile, sums)
        return
    for value, position in zip(sums, positions, strict=True):
        context.epilogue(context.e, value, position)


def _is_long(context: Context, position: Position) -> bool:
    """Whether the epilogue writes many lines: tried on an emitter that is thrown away."""
    trial = Emitter()
    context.epilogue(trial, "%value", position)
    return len(trial.lines) > costs.LONG_EPILOGUE


def _finish_by_rows(context: Context, tile: Tile, sums: list[str]) -> None:
    """Write an epilogue that is too long to be written for every vector: once per row, the tile lying on the stack."""
    e, panel, work = context.e, tile.work.panel, tile.work
    stack = context.on_stack(tile.rows * panel.width)
    for (r, v), value in zip(tile.places(), sums, strict=True):
        there = context.at(stack, r * panel.width + v * context.lanes)
        context.store(panel.vectors[v].lanes, value, there)

    def one_row(r: str) -> None:
        line = context.at(stack, multiply(e, r, panel.width))
        for v, (lanes, _) in enumerate(panel.vectors):
            value = context.load(lanes, context.at(line, v * context.lanes))
            context.epilogue(e, value, context.position(work, add(e, tile.row, r), 0, v))

    repeat(e, "0", tile.existing or str(tile.rows), one_row)


def _finish_swapped(context: Context, tile: Tile, sums: list[str]) -> None:
    """Turn a tile whose lanes lie along m round: onto the stack, line by line of the result."""
    e, work, rows = context.e, tile.work, tile.rows
    panel = work.panel
    size = segment(context.element, context.lanes)
    width = max(size, power_of_two(rows))  # of a line of the result
    stack = context.on_stack(panel.width * width)
    for v, (lanes, _) in enumerate(panel.vectors):
        for down in range(0, rows, size):
            square = [
                sums[r * len(panel.vectors) + v] if r < rows else zero(lanes)
                for r in range(down, down + size)
            ]
            for line, value in enumerate(transpose(e, square, context.element, lanes)):
                for across in range(0, lanes, size):
                    part = lanes_of(e, value, context.element, lanes, across, size)
                    place = (v * context.lanes + across + line) * width + down
                    context.store(size, part, context.at(stack, place))

    def one_row(m: str) -> None:
        value = context.load(width, context.at(stack, multiply(e, m, width)))
        context.epilogue(e, value, Position(work.batch, add(e, work.column, m), tile.row, width, rows))

    repeat(e, "0", work.left or str(panel.valid), one_row)
