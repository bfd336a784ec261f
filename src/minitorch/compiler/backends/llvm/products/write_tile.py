"""The microkernel. Enters: a tile of the result. Leaves: the loop along k that computes it in registers, as LLVM text.

A step along k loads one vector of B per column vector and one element of A per row, and multiplies each with each.
Elements of A are broadcast, so A may have any strides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from minitorch.compiler.backends.llvm.control import add, divide, known, loop, multiply, smaller, when
from minitorch.compiler.backends.llvm.products import costs
from minitorch.compiler.backends.llvm.products.write_base import Context, Position, Tile, prefetch
from minitorch.compiler.backends.llvm.shuffles import sum_each, zero
from minitorch.compiler.ir.sizes import surely_at_most, typical


def multiply_tile(context: Context, tile: Tile, sums: list[str]) -> list[str]:
    """Run k over a tile; sums in, sums out, row by row. Meanwhile what its epilogue will touch is fetched."""
    depth = context.problem.depth
    if (
        context.fetch is not None
        and not tile.work.partial
        and len(sums) >= costs.ROUND
        and surely_at_most(tile.rows, depth)
    ):
        return _multiply_fetching(context, tile, sums)
    return _Multiplication(context, tile).write(sums)


def _kinds(context: Context, tile: Tile) -> list[str]:
    """The types of a tile's sums."""
    return [context.kind(vector.lanes) for vector in tile.work.panel.vectors] * tile.rows


def _rows(context: Context, tile: Tile) -> Iterator[str]:
    """Yield the numbers of a tile's rows; of those that may not exist, that of the last one instead."""
    for r in range(tile.rows):
        row = add(context.e, tile.row, str(r))
        yield row if tile.existing is None else smaller(context.e, row, f"{context.problem.rows - 1}")


def _multiply_fetching(context: Context, tile: Tile, sums: list[str]) -> list[str]:
    """Run k over a tile in a piece for each of its rows, and fetch the lines of one row at a time.

    A processor waits for so many lines of memory at a time, and no more.
    """
    e, depth, rows, work = context.e, context.problem.depth, tile.rows, tile.work

    def one_piece(r: str, sums: list[str]) -> list[str]:
        assert context.fetch is not None
        context.fetch(e, context.position(work, add(e, tile.row, r), 0, 0), work.panel.width)
        begin, _ = divide(e, multiply(e, r, depth), rows)  # as even as can be: none is empty
        end, _ = divide(e, multiply(e, add(e, r, "1"), depth), rows)
        count = f"{depth // rows}" if depth % rows == 0 else e.op(f"sub i64 {end}, {begin}")
        part = tile._replace(work=dataclasses.replace(work, depth=begin, count=count))
        return _Multiplication(context, part).write(sums)

    return loop(e, "0", str(rows), one_piece, list(zip(_kinds(context, tile), sums, strict=True)))


class _Side:
    """How one operand is walked along k: by steps of one length, or as a table says."""

    def __init__(self, context: Context, table: str, stride: int | None) -> None:
        self.context, self.table = context, table
        self.from_table = stride is None
        self.stride = stride or 0

    def start(self, depth: str) -> str:
        """Return the offset of the first k."""
        return "0" if self.from_table else multiply(self.context.e, depth, self.stride)

    def following(self, offset: str, steps: int) -> str:
        """Return the offset some steps on."""
        return "0" if self.from_table else add(self.context.e, offset, f"{steps * self.stride}")

    def step(self, k: str, ahead: int, offset: str) -> tuple[str, int]:
        """Return the offset of a k that is `ahead` steps behind the one given, as a number and a known rest."""
        if self.from_table:
            return self.context.table_entry(self.table, add(self.context.e, k, str(ahead))), 0
        return offset, ahead * self.stride


class _Multiplication:
    """The loop along k over one tile."""

    def __init__(self, context: Context, tile: Tile) -> None:
        plan, problem, work = context.plan, context.problem, tile.work
        self.context, self.tile = context, tile
        self.row_stride = problem.a_row.stride if tile.existing is None else None
        self.starts = self._starts_of_rows()
        self.a = _Side(context, "a_depth", problem.a_depth.stride if tile.copy is None else work.panel.rows)
        self.b_start = context.scratch
        if not plan.packing:
            column = context.offset(problem.b_column, "b_column", work.column)
            self.b_start = context.at(work.b, column)
        self.b = _Side(context, "b_depth", work.panel.width if plan.packing else problem.b_depth.stride)
        far = typical(self.a.stride) * context.size >= costs.STRIDE_BYTES
        self.fetches_a = tile.copy is None and self.row_stride == 1 and far
        self.unroll = self._unroll()

    def _starts_of_rows(self) -> list[str]:
        """Where the rows of A begin; one address, if they follow each other at equal distances."""
        context, tile, e = self.context, self.tile, self.context.e
        if tile.copy is not None:
            return [tile.copy]
        if self.row_stride is not None:
            return [context.at(tile.work.a, multiply(e, tile.row, self.row_stride))]
        walk = context.problem.a_row
        return [context.at(tile.work.a, context.offset(walk, "a_row", row)) for row in _rows(context, tile)]

    def _unroll(self) -> int:
        """How many k a round of the loop does."""
        count = known(self.tile.work.count)
        sums = len(self.tile.places())
        if count is None:
            return 1
        if count * sums <= costs.WHOLE:
            return max(1, count)
        return max(1, min(count, costs.ROUND // sums))

    def write(self, sums: list[str]) -> list[str]:
        """Write the loop, and the steps that are left over."""
        context, e, unroll, work = self.context, self.context.e, self.unroll, self.tile.work
        needs_k = self.a.from_table or self.b.from_table

        def one_round(number: str, carried: list[str]) -> list[str]:
            a, b, sums = carried[0], carried[1], carried[2:]
            k = add(e, work.depth, multiply(e, number, unroll)) if needs_k else "0"
            for ahead in range(unroll):
                sums = self._step(k, ahead, a, b, sums)
            return [self.a.following(a, unroll), self.b.following(b, unroll), *sums]

        a = self.a.start(work.depth)
        # A packed panel begins at k = 0, or with the block of k that is at hand.
        b = "0" if context.plan.packing and context.blocked else self.b.start(work.depth)
        kinds = ["i64", "i64", *_kinds(context, self.tile)]
        count = known(work.count)
        rounds = work.count if count is None else str(count // unroll)
        carried = list(zip(kinds, [a, b, *sums], strict=True))
        a, b, *sums = loop(e, "0", rounds, one_round, carried, certain=True)
        if count is not None:
            k = add(e, work.depth, str(count // unroll * unroll))
            for ahead in range(count % unroll):
                sums = self._step(k, ahead, a, b, sums)
        return sums

    def _step(self, k: str, ahead: int, a: str, b: str, sums: list[str]) -> list[str]:
        """Multiply at one k: `ahead` steps behind the offsets given."""
        context, e = self.context, self.context.e
        a_offset, a_more = self.a.step(k, ahead, a)
        b_offset, b_more = self.b.step(k, ahead, b)
        line = self._line_of_b(context.at(self.b_start, b_offset), b_more)
        starts = [context.at(start, a_offset) for start in self.starts]
        if self.fetches_a:  # a tile's rows may begin on one line and end on the next
            for r in sorted({0, self.tile.rows - 1}):
                prefetch(e, context.at(starts[0], a_more + costs.AHEAD * self.a.stride + r))
        vectors = self.tile.work.panel.vectors
        results: list[str] = []
        for r in range(self.tile.rows):
            if self.row_stride is None:
                pointer = context.at(starts[r], a_more)
            else:
                pointer = context.at(starts[0], a_more + r * self.row_stride)
            scalar = context.load(1, pointer)
            wide: dict[int, str] = {}
            for v, (lanes, _) in enumerate(vectors):
                if lanes not in wide:
                    wide[lanes] = context.spread(lanes, scalar)
                results.append(context.multiply_add(lanes, wide[lanes], line[v], sums[len(results)]))
        return results

    def _line_of_b(self, pointer: str, more: int) -> list[str]:
        """Load one vector of B for each column vector."""
        context, panel = self.context, self.tile.work.panel
        line = []
        for v, (lanes, valid) in enumerate(panel.vectors):
            here = context.at(pointer, more + v * context.lanes)
            if context.plan.packing:
                line.append(context.load(lanes, here, context.line_alignment(panel, lanes)))
            else:
                there = self.tile.work.there[v : v + 1]
                line.append(context.load_valid(lanes, valid, here, *there))
        return line


# --- dot products ----------------------------------------------------------------------------------------------


def write_dot_tile(context: Context, tile: Tile) -> None:
    """Write a tile of dot products: vectors along k, summed across at the end."""
    work, e, lanes = tile.work, context.e, context.lanes
    width, valid = work.panel.vectors[0]
    assert valid is not None
    sums = _dot_sums(context, tile, valid)
    values, positions = [], []
    for r in range(tile.rows):
        line = sums[r * valid : (r + 1) * valid] + [zero(lanes)] * (width - valid)
        values.append(sum_each(e, line, context.element, lanes))
        positions.append(Position(work.batch, add(e, tile.row, str(r)), work.column, width, valid))
    for r, (value, position) in enumerate(zip(values, positions, strict=True)):

        def end(value: str = value, position: Position = position) -> None:
            context.epilogue(e, value, position)

        if tile.existing is None:
            end()
        else:
            when(e, e.op(f"icmp slt i64 {r}, {tile.existing}"), end)


def _dot_sums(context: Context, tile: Tile, columns: int) -> list[str]:
    """The products of all rows with all columns, each still a vector to be summed across."""
    e, problem, lanes, work = context.e, context.problem, context.lanes, tile.work
    a_lines = [
        context.at(work.a, context.offset(problem.a_row, "a_row", row)) for row in _rows(context, tile)
    ]
    b_lines = [
        context.at(work.b, context.offset(problem.b_column, "b_column", add(e, work.column, str(n))))
        for n in range(columns)
    ]
    # One sum after another would wait for the one before: several at once, along k if there are few others.
    places = tile.rows * columns
    unroll = max(1, min(costs.DOT_SUMS // places, problem.depth // lanes))
    whole = problem.depth // (lanes * unroll)

    def step(offset: str, ahead: int, count: int, sums: list[str]) -> list[str]:
        def load(line: str) -> str:
            return context.load_valid(lanes, count, context.at(context.at(line, offset), ahead))

        left = [load(line) for line in a_lines]
        right = [load(line) for line in b_lines]
        pairs = [(x, y) for x in left for y in right]
        return [context.multiply_add(lanes, x, y, s) for (x, y), s in zip(pairs, sums, strict=True)]

    def one_round(number: str, carried: list[str]) -> list[str]:
        offset, sums = carried[0], carried[1:]
        results = []
        for u in range(unroll):
            results += step(offset, u * lanes, lanes, sums[u * places : (u + 1) * places])
        return [add(e, offset, str(unroll * lanes)), *results]

    zeros = [(context.kind(lanes), zero(lanes))] * (places * unroll)
    offset, *sums = loop(e, "0", str(whole), one_round, [("i64", "0"), *zeros])
    rest = problem.depth - whole * lanes * unroll
    for u in range(-(-rest // lanes)):
        group = slice(u * places, (u + 1) * places)
        sums[group] = step(offset, u * lanes, min(lanes, rest - u * lanes), sums[group])
    for u in range(1, unroll):
        for place in range(places):
            sums[place] = e.op(f"fadd {context.kind(lanes)} {sums[place]}, {sums[u * places + place]}")
    return sums
