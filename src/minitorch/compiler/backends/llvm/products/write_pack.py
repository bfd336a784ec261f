"""Copies of operands, in the order in which tiles read them. Enters: lines of a panel. Leaves: loops, as LLVM text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from minitorch.compiler.backends.llvm.control import add, at, divide, known, multiply, repeat, smaller, when
from minitorch.compiler.backends.llvm.products import costs
from minitorch.compiler.backends.llvm.products.plan import ColumnVector, Panel
from minitorch.compiler.backends.llvm.products.write_base import Context, Work, prefetch
from minitorch.compiler.backends.llvm.shuffles import join, segment, transpose, zero
from minitorch.compiler.backends.llvm.text import multiples


@dataclass(frozen=True)
class PanelLines:
    """Which part of B is packed: `count` lines of a panel from k = depth on."""

    work: Work
    depth: str
    count: str

    @property
    def panel(self) -> Panel:
        """The panel."""
        return self.work.panel

    @property
    def column(self) -> str:
        """The column that it begins with."""
        return self.work.column

    @property
    def b(self) -> str:
        """Where this batch of B begins."""
        return self.work.b


class Columns(NamedTuple):
    """One vector of a panel: how far across it lies in the panel, and the column of B it begins with."""

    across: str
    column: str
    vector: ColumnVector

    def numbers(self, context: Context) -> Iterator[str]:
        """Yield the number of each column that exists; of those that may not, that of the last one instead."""
        lanes, valid = self.vector
        for n in range(lanes if valid is None else valid):
            column = add(context.e, self.column, str(n))
            yield (
                column if valid is not None else smaller(context.e, column, f"{context.problem.columns - 1}")
            )


def pack(context: Context, lines: PanelLines) -> None:
    """Copy lines of a panel into scratch memory, so that their columns lie side by side."""
    packing = context.plan.packing
    if packing == "copy":
        _pack_whole_lines(context, lines)
    elif packing == "runs":
        number, _ = divide(context.e, lines.column, context.lanes)
        for v in range(len(lines.panel.vectors)):
            _pack_runs(context, lines, v, _pieces(context, lines, v, number))
    elif packing == "transpose":
        _pack_transposed(context, lines)
    else:
        for v, vector in enumerate(lines.panel.vectors):
            across = v * context.lanes
            columns = Columns(str(across), add(context.e, lines.column, str(across)), vector)
            _pack_scalars(context, lines, columns, "0", lines.count)


def _depth_offset(context: Context, lines: PanelLines, k: str) -> str:
    """How far the line of a k lies behind the panel's beginning."""
    return context.offset(context.problem.b_depth, "b_depth", add(context.e, lines.depth, k))


def _line(context: Context, lines: PanelLines, k: str) -> str:
    """Where the packed line of a k begins."""
    return context.at(context.scratch, multiply(context.e, k, lines.panel.width))


def _store(context: Context, lines: PanelLines, lanes: int, value: str, pointer: str) -> None:
    """Store one vector of a packed line."""
    context.store(lanes, value, pointer, context.line_alignment(lines.panel, lanes))


# --- lines that are contiguous, but far apart ------------------------------------------------------------------


def _pack_whole_lines(context: Context, lines: PanelLines) -> None:
    """Copy vectors."""
    panel, stride = lines.panel, context.problem.b_depth.stride
    start = context.at(lines.b, lines.column)

    def one_line(k: str) -> None:
        source = context.at(start, _depth_offset(context, lines, k))
        if stride is not None:
            prefetch(context.e, context.at(source, costs.AHEAD * stride), panel.width * context.size)
        home = _line(context, lines, k)
        values = [
            context.load_valid(
                lanes, valid, context.at(source, v * context.lanes), *lines.work.there[v : v + 1]
            )
            for v, (lanes, valid) in enumerate(panel.vectors)
        ]
        for v, (lanes, _) in enumerate(panel.vectors):
            _store(context, lines, lanes, values[v], context.at(home, v * context.lanes))

    repeat(context.e, "0", lines.count, one_line)


# --- vectors of a few contiguous pieces ------------------------------------------------------------------------


class _Piece(NamedTuple):
    """A contiguous piece of a vector: where lane 0 would be, and which lanes it has (None: the only one)."""

    pointer: str
    mask: str | None


def _pack_runs(context: Context, lines: PanelLines, v: int, pieces: list[_Piece]) -> None:
    """Compose the vectors of some columns of contiguous pieces, as where the rows of a picture meet.

    Each piece is loaded with the other lanes masked, from where lane 0 would be; nothing outside is touched.
    """
    e, lanes = context.e, lines.panel.vectors[v].lanes

    def one_line(k: str) -> None:
        offset = _depth_offset(context, lines, k)
        value = zero(lanes)
        for pointer, mask in pieces:
            source = context.at(pointer, offset)
            if mask is None:
                value = context.load(1, source)
            else:
                value = e.masked_load(context.element, lanes, source, context.size, mask, value)
        _store(context, lines, lanes, value, context.at(_line(context, lines, k), v * context.lanes))

    repeat(e, "0", lines.count, one_line)


def _pieces(context: Context, lines: PanelLines, v: int, number: str) -> list[_Piece]:
    """The pieces of a panel's vector: from the table, which has three numbers for each. number: of its first one."""
    e, runs, lanes = context.e, context.plan.runs, lines.panel.vectors[v].lanes
    entry = multiply(e, add(e, number, str(v)), 3 * runs)
    pieces = []
    for piece in range(1 if lanes == 1 else runs):
        offset, first, end = (
            context.table_entry("runs", add(e, entry, str(3 * piece + part))) for part in range(3)
        )
        mask = None if lanes == 1 else _between(context, lanes, first, end)
        pieces.append(_Piece(context.at(lines.b, offset), mask))
    return pieces


def _between(context: Context, lanes: int, first: str, end: str) -> str:
    """The mask of the lanes from the first up to the end."""
    e, ramp, many = context.e, multiples(1, lanes), f"<{lanes} x i64>"
    low, high = (e.spread(edge, "i64", lanes) for edge in (first, end))
    after = e.op(f"icmp sge {many} {ramp}, {low}")
    before = e.op(f"icmp slt {many} {ramp}, {high}")
    return e.op(f"and <{lanes} x i1> {after}, {before}")


# --- vectors along k, turned round -----------------------------------------------------------------------------


def _pack_transposed(context: Context, lines: PanelLines) -> None:
    """Read vectors along k and turn blocks of them round."""
    e, vectors = context.e, lines.panel.vectors
    full = len(vectors) if lines.panel.varies else sum(v.valid == context.lanes for v in vectors)
    groups = [(0, full)] if full else []
    groups += [(v, v + 1) for v in range(full, len(vectors))]
    for begin, end in groups:

        def one_vector(v: str, vector: ColumnVector = vectors[begin]) -> None:
            across = multiply(e, v, context.lanes)
            columns = Columns(across, add(e, lines.column, across), vector)
            _Transposition(context, lines, columns).write()

        repeat(e, str(begin), str(end), one_vector)


class _Transposition:
    """Packs the columns of one vector, as many lines at a time as a segment has lanes."""

    def __init__(self, context: Context, lines: PanelLines, columns: Columns) -> None:
        self.context, self.lines, self.columns = context, lines, columns
        self.size = segment(context.element, columns.vector.lanes)  # lines at a time
        walk = context.problem.b_column
        self.sources = [
            context.at(lines.b, context.offset(walk, "b_column", column))
            for column in columns.numbers(context)
        ]

    def write(self) -> None:
        """Write the blocks, and what is left over."""
        e, size, lines = self.context.e, self.size, self.lines
        count = known(lines.count)
        if count is None:
            blocks, _ = divide(e, lines.count, size)
            done = multiply(e, blocks, size)
        else:
            blocks, done = str(count // size), str(count // size * size)
        repeat(e, "0", blocks, self._block)
        if count is None or self.context.problem.b_depth.stride is None:
            _pack_scalars(self.context, lines, self.columns, done, lines.count)
        elif rest := count % size:
            self._turn(done, add(e, lines.depth, done), rest)

    def _block(self, number: str) -> None:
        """Pack one block of lines."""
        context, e, size = self.context, self.context.e, self.size
        k = multiply(e, number, size)
        here = add(e, self.lines.depth, k)
        offset = context.offset(context.problem.b_depth, "b_depth", here)
        if context.problem.b_depth.stride is not None:
            self._turn(k, offset, size)
            return
        # A block may reach over the end of a contiguous piece; then it is copied element by element.
        end = context.table_entry("b_depth", add(e, here, str(size - 1)))
        length = e.op(f"sub i64 {end}, {offset}")
        straight = e.op(f"icmp eq i64 {length}, {size - 1}")
        when(
            e,
            straight,
            lambda: self._turn(k, offset, size),
            lambda: _pack_scalars(context, self.lines, self.columns, k, add(e, k, str(size))),
        )

    def _turn(self, k: str, offset: str, height: int) -> None:
        """Load a piece of each column; join those whose segments turn round together."""
        context, e, size, panel = self.context, self.context.e, self.size, self.lines.panel
        lanes = self.columns.vector.lanes
        pieces = [context.load_valid(size, height, context.at(source, offset)) for source in self.sources]
        pieces += [zero(size)] * (lanes - len(pieces))
        joined = [join(e, pieces[n::size], context.element, size) for n in range(size)]
        home = context.at(context.scratch, add(e, multiply(e, k, panel.width), self.columns.across))
        for line, value in enumerate(transpose(e, joined, context.element, lanes)[:height]):
            _store(context, self.lines, lanes, value, context.at(home, line * panel.width))


# --- vectors of elements, whatever their strides ---------------------------------------------------------------


def _pack_scalars(context: Context, lines: PanelLines, columns: Columns, first: str, last: str) -> None:
    """Compose the vectors of the lines [first, last) element by element."""
    if first == last:
        return
    e, stride = context.e, context.problem.b_column.stride
    lanes, valid = columns.vector
    apart = stride is None or valid is None  # each column by itself
    if apart:
        walk = context.problem.b_column
        numbers = columns.numbers(context)
        starts = [context.at(lines.b, context.offset(walk, "b_column", n)) for n in numbers]
    else:
        starts = [context.at(lines.b, multiply(e, columns.column, stride or 0))]

    def one_line(k: str) -> None:
        offset = _depth_offset(context, lines, k)
        here = [context.at(start, offset) for start in starts]
        value = zero(lanes)
        for n in range(lanes if valid is None else valid):
            scalar = context.load(1, here[n] if apart else context.at(here[0], n * (stride or 0)))
            if lanes == 1:
                value = scalar
            else:
                kind = context.kind(lanes)
                value = e.op(f"insertelement {kind} {value}, {context.element} {scalar}, i64 {n}")
        there = add(e, multiply(e, k, lines.panel.width), columns.across)
        _store(context, lines, lanes, value, context.at(context.scratch, there))

    repeat(e, first, last, one_line)


# --- rows of A -------------------------------------------------------------------------------------------------


def place_in_a(context: Context, panel: Panel, tile: str, first: str) -> str:
    """Return where the copy of a tile's rows begins; there they lie as the tile needs them, k after k."""
    e = context.e
    home = at(e, context.scratch, f"{context.plan.a_offset}", "i8")
    number = tile if first == "0" else e.op(f"sub i64 {tile}, {first}")
    return context.at(home, multiply(e, number, context.plan.copied_tile))


def copy_neighbours(context: Context, count: int, source: str, there: str) -> None:
    """Copy a few neighbours, in vectors as wide as can be."""
    done = 0
    while done < count:
        lanes = min(context.lanes, 1 << (count - done).bit_length() - 1)
        value = context.load(lanes, context.at(source, done))
        context.store(lanes, value, context.at(there, done))
        done += lanes
