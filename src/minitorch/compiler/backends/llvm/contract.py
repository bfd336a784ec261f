"""Matrix products and convolutions. Enters: extents and strides. Leaves: loops around multiply-adds, as LLVM text.

One template computes C[b, m, n] = Σₖ A[b, m, k] · B[b, k, n], where each of b, m, n and k is a list of nested
dimensions. A matrix product in any layout, a batch of them, an einsum and a convolution differ in strides only.

The heart is a tile of C that lives in registers: some rows, and across each row some vectors of columns. A step
along k loads one vector of B per column vector and one element of A per row, and multiplies each with each.
Elements of A are broadcast, so A may have any strides; B must be contiguous along n. Where it is not, a panel of
B (all of k, a few vectors of columns) is first copied into scratch memory in that order, and used by all rows.

Two other forms serve narrow results. `swapped` exchanges the roles of A and B, so that vectors lie along m, and
turns each tile round at its end. `dot` lays vectors along k, where both operands are contiguous, and sums across
the vector at the end. An estimate of the time of each chooses between the forms; sizes are static, so all of this
is decided before a line is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from minitorch.compiler.backends.llvm.text import TYPES, Emitter, vector


class Target(Protocol):
    """What a contraction must know of the machine."""

    @property
    def registers(self) -> int:
        """How many vector registers there are."""

    def lanes(self, dtype: np.dtype) -> int:
        """How many elements of a dtype fit into one."""


@dataclass(frozen=True)
class Dim:
    """One of several nested dimensions: how often, and how many elements a step moves in A and in B."""

    extent: int
    a: int
    b: int


@dataclass(frozen=True)
class Contraction:
    """C[batch, m, n] = Σₖ A[batch, m, k] · B[batch, k, n]; outer dimensions first. `m` has b = 0, and `n` has a = 0."""

    dtype: np.dtype
    batch: tuple[Dim, ...]
    m: tuple[Dim, ...]
    n: tuple[Dim, ...]
    k: tuple[Dim, ...]


@dataclass(frozen=True)
class Index:
    """Where a finished value belongs: names (or literals) of i64 numbers, and which lanes count.

    Lanes are consecutive columns from `column` on, of which the first `valid` exist. One lane means a scalar.
    """

    batch: str
    row: str
    column: str
    lanes: int
    valid: int

    @property
    def mask(self) -> str | None:
        """The lanes that exist, as a constant of type <lanes x i1>; None if all do."""
        if self.valid == self.lanes:
            return None
        return _mask(self.lanes, self.valid)


# Called as begin(e, index), fetch(e, index, columns) and epilogue(e, value, index).
Begin = Callable[[Emitter, Index], str]
Fetch = Callable[[Emitter, Index, int], None]
Epilogue = Callable[[Emitter, str, Index], None]


# --- planning ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Walk:
    """How an address moves along a flattened index: (extent, stride) pairs, as few as possible."""

    dims: tuple[tuple[int, int], ...]

    @staticmethod
    def along(pairs: Iterable[tuple[int, int]]) -> Walk:
        """Drop dimensions of one step, and join neighbours that are one longer dimension in memory.

        >>> Walk.along([(2, 12), (1, 7), (3, 4)]).dims
        ((6, 4),)
        """
        joined: list[tuple[int, int]] = []
        for extent, stride in pairs:
            if extent == 1:
                continue
            if joined and joined[-1][1] == extent * stride:
                joined[-1] = (joined[-1][0] * extent, stride)
            else:
                joined.append((extent, stride))
        return Walk(tuple(joined))

    @property
    def stride(self) -> int | None:
        """The step between neighbours, if it is always the same; where there are none, any number will do."""
        if not self.dims:
            return 1
        return self.dims[0][1] if len(self.dims) == 1 else None

    @property
    def run(self) -> int:
        """How many neighbours lie side by side in memory."""
        return self.dims[-1][0] if self.dims and self.dims[-1][1] == 1 else 1

    def offsets(self) -> np.ndarray:
        """Return the offset of every index."""
        total = np.zeros(1, np.int64)
        for extent, stride in self.dims:
            total = (total[:, None] + np.arange(extent, dtype=np.int64) * stride).reshape(-1)
        return total


@dataclass(frozen=True)
class Panel:
    """A few vectors of columns, and how the rows are cut into tiles for them.

    vectors: (lanes, valid lanes) of each. count: how many such panels follow each other.
    The first `tall` of `tiles` tiles have `rows` rows, the others one row less.
    """

    vectors: tuple[tuple[int, int], ...]
    count: int
    tiles: int
    rows: int
    tall: int

    @property
    def width(self) -> int:
        """Columns, with those that only fill the last vector."""
        return sum(lanes for lanes, _ in self.vectors)


@dataclass
class Plan:
    """All decisions about one contraction. The caller needs the first five; the rest is for `emit_contraction`.

    units: independent pieces of work, about equal, neighbours sharing data: give each thread a contiguous range.
    tables: constant arrays to pass as operands behind A and B. scratch: bytes per thread, at a multiple of 64.
    cycles: an estimate of the time on one thread.
    """

    units: int
    tables: list[np.ndarray]
    scratch: int
    flops: int
    cycles: float = 0.0
    form: str = "columns"  # or swapped, or dot
    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float32))
    lanes: int = 1
    rows: int = 0
    columns: int = 0
    depth: int = 0
    panels: tuple[Panel, ...] = ()
    row_blocks: int = 1  # units per batch and panel
    depth_block: int = 0  # how much of k at a time
    packing: str | None = None  # copy, runs, transpose or scalar
    packs_a: bool = False  # whether the rows of a unit are copied, too
    a_batch: Walk = Walk(())
    b_batch: Walk = Walk(())
    a_row: Walk = Walk(())
    a_depth: Walk = Walk(())
    b_depth: Walk = Walk(())
    b_column: Walk = Walk(())
    table_names: tuple[str, ...] = ()
    runs: int = 0  # contiguous pieces in a vector of B, at most

    @property
    def panel_count(self) -> int:
        """How many panels there are."""
        return sum(p.count for p in self.panels)

    @property
    def batches(self) -> int:
        """How many products there are side by side."""
        return self.units // (self.panel_count * self.row_blocks)

    @property
    def shares_b(self) -> bool:
        """Whether all batches multiply with the same B."""
        return not any(stride for _, stride in self.b_batch.dims)

    @property
    def rows_first(self) -> bool:
        """Whether all panels are done for some rows before the next rows, and not all rows for a panel.

        Threads then share B and not A: good where B is the smaller one, near, and need not be packed.
        """
        b_bytes = self.columns * self.depth * self.dtype.itemsize
        small = self.columns <= self.rows and b_bytes <= NEAR_BYTES
        return self.packs_a or (small and self.packing is None and self.form == "columns")

    @property
    def depth_blocks(self) -> int:
        """In how many pieces k is walked."""
        return -(-self.depth // self.depth_block) if self.depth else 1

    @property
    def a_offset(self) -> int:
        """Where in scratch memory copied rows of A begin: behind the packed panel."""
        packed = self.depth_block * max(p.width for p in self.panels) if self.packing else 0
        return -(-packed * self.dtype.itemsize // 64) * 64

    @property
    def partial_offset(self) -> int:
        """Where in scratch memory unfinished sums begin: behind the rows of A."""
        rows = self.depth * self.block_rows if self.packs_a else 0
        return self.a_offset + -(-rows * self.dtype.itemsize // 64) * 64

    @property
    def block_rows(self) -> int:
        """How many rows one unit has at most."""
        return max(-(-p.tiles // self.row_blocks) * p.rows for p in self.panels)


# Copying a panel pays when many rows use it. Copies of contiguous rows are needed only where a panel's rows are far
# apart in memory: far rows fall into the same few lines of the cache and drive each other out.
PANEL_BYTES = 128 << 10
MOST_PANELS = 3  # k is cut into blocks where a panel would be larger than this many
PACK_ROWS = 48
PACK_DEPTH = 192
FAR_BYTES = 2048
LARGE_BYTES = 3 << 20
VERY_LARGE_BYTES = 8 << 20
SAME_LINES_BYTES = 16 << 10  # steps of a multiple of this meet few lines even of a large cache
NEAR_BYTES = 512 << 10
PACK_A_ROWS = 192
PACK_A_DEPTH = 8192
PARTIAL_ROWS = 1024
UNIT_FLOPS = 500_000
MOST_UNITS = 16
MOST_RUNS = 4


def plan_contraction(contraction: Contraction, target: Target) -> Plan:
    """Decide how to compute a contraction on a target."""
    straight = _plan_columns(contraction, target, "columns")
    plans = [straight]
    columns = _extent(contraction.n)
    lanes = target.lanes(contraction.dtype)
    if straight.units and straight.depth:
        if 1 < columns <= min(lanes, target.registers - 4):
            plans.append(_plan_columns(_exchange(contraction), target, "swapped"))
        if straight.a_depth.stride == 1 and straight.b_depth.stride == 1:
            plans.append(_plan_dot(contraction, target))
    # The plain form is the shortest text, and the fastest to compile: others must be better by more than a little.
    return min(plans, key=lambda plan: plan.cycles * (0.9 if plan is straight else 1.0))


def _exchange(contraction: Contraction) -> Contraction:
    """Let A and B, and with them m and n, change places."""
    batch, m, n, k = (
        tuple(Dim(d.extent, d.b, d.a) for d in dims)
        for dims in (contraction.batch, contraction.m, contraction.n, contraction.k)
    )
    return Contraction(contraction.dtype, batch, n, m, k)


def _extent(dims: Iterable[Dim]) -> int:
    return int(np.prod([d.extent for d in dims], dtype=np.int64))


def _depth_order(dims: Sequence[Dim]) -> Sequence[Dim]:
    """Sums may run in any order: take the one in which most dimensions join."""

    def pieces(order: Sequence[Dim]) -> int:
        along_a = Walk.along((d.extent, d.a) for d in order)
        along_b = Walk.along((d.extent, d.b) for d in order)
        return len(along_a.dims) + len(along_b.dims)

    by_a = sorted(dims, key=lambda d: -abs(d.a))
    by_b = sorted(dims, key=lambda d: -abs(d.b))
    return min((dims, by_b, by_a), key=pieces)


def _base_plan(contraction: Contraction, target: Target, form: str) -> Plan:
    """What does not depend on tiles: extents and walks."""
    c = contraction
    depth = _depth_order(c.k)
    rows, columns, inner, batch = (_extent(dims) for dims in (c.m, c.n, c.k, c.batch))
    return Plan(
        units=batch,
        tables=[],
        scratch=0,
        flops=2 * batch * rows * columns * inner,
        form=form,
        dtype=np.dtype(c.dtype),
        lanes=target.lanes(c.dtype),
        rows=rows,
        columns=columns,
        depth=inner,
        depth_block=inner,
        a_batch=Walk.along((d.extent, d.a) for d in c.batch),
        b_batch=Walk.along((d.extent, d.b) for d in c.batch),
        a_row=Walk.along((d.extent, d.a) for d in c.m),
        a_depth=Walk.along((d.extent, d.a) for d in depth),
        b_depth=Walk.along((d.extent, d.b) for d in depth),
        b_column=Walk.along((d.extent, d.b) for d in c.n),
    )


def _plan_columns(contraction: Contraction, target: Target, form: str) -> Plan:
    """Plan with vectors along n."""
    plan = _base_plan(contraction, target, form)
    if not plan.units * plan.rows * plan.columns:
        plan.units = 0
        return plan
    batch, itemsize = plan.units, plan.dtype.itemsize
    plan.panels, tile_cycles = _choose_panels(plan, target)
    width = max(p.width for p in plan.panels)
    plan.packing = _choose_packing(plan, width)

    many_tiles = plan.panels[0].tiles >= 4
    block = max(plan.lanes, PANEL_BYTES // (width * itemsize))
    if plan.depth > MOST_PANELS * block and (many_tiles or plan.packing):
        pieces = -(-plan.depth // block)
        plan.depth_block = -(-plan.depth // (pieces * plan.lanes)) * plan.lanes

    # Lines of A that are far apart, and of which a tile uses a few elements only, are fetched again for each tile
    # that shares them, and for each panel. That goes well as long as A is small, and they are asked for in time.
    step = (plan.a_depth.stride or 0) * itemsize
    far = step >= FAR_BYTES and plan.a_row.stride == 1
    most = VERY_LARGE_BYTES if step % SAME_LINES_BYTES else LARGE_BYTES
    large = plan.rows * plan.depth * itemsize > most and plan.panel_count >= 4
    plan.packs_a = far and large and plan.depth <= PACK_A_DEPTH
    if plan.packs_a:  # all panels must cut the rows alike
        one = plan.panels[0]
        plan.panels = tuple(Panel(p.vectors, p.count, one.tiles, one.rows, one.tall) for p in plan.panels)

    panels = plan.panel_count
    wanted = min(MOST_UNITS, plan.flops // UNIT_FLOPS)
    blocks = -(-wanted // (batch * panels)) if wanted else 1
    if plan.depth_blocks > 1:  # every block of rows packs anew
        blocks = max(min(blocks, plan.rows // 96), -(-plan.rows // PARTIAL_ROWS))
    if plan.packs_a:
        blocks = max(blocks, -(-plan.rows // PACK_A_ROWS))
    blocks = max(1, min(blocks, min(p.tiles for p in plan.panels)))
    # Few units: an even number of them, for two threads or four.
    if blocks > 1 and batch * panels % 2 and batch * panels * blocks < MOST_UNITS:
        blocks -= blocks % 2
    plan.row_blocks = blocks
    plan.units = batch * panels * plan.row_blocks

    _add_tables(plan)
    plan.scratch = plan.partial_offset
    if plan.depth_blocks > 1:
        plan.scratch += plan.block_rows * width * itemsize
    plan.cycles = batch * (tile_cycles + _packing_cycles(plan))
    return plan


def _multiply_cycles(lanes: int, most: int) -> float:
    """What a multiply-add costs: half-filled registers are faster on some machines, never slower."""
    return 0.4 + 0.6 * lanes / most


def _column_vectors(columns: int, lanes: int) -> list[tuple[int, int]]:
    """(lanes, valid lanes) of the vectors that cover some columns; the last is as narrow as can be."""
    vectors = [(lanes, lanes)] * (columns // lanes)
    if rest := columns % lanes:
        vectors.append((_power_of_two(rest), rest))
    return vectors


def _swapped_width(columns: int, segment: int) -> int:
    """How many lanes a line of the result has when it was turned round from a swapped tile."""
    return max(segment, _power_of_two(columns))


def _power_of_two(number: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << max(0, number - 1).bit_length()


def _choose_panels(plan: Plan, target: Target) -> tuple[tuple[Panel, ...], float]:
    """Choose how many vectors wide a panel is; return the panels and the cycles of all their tiles."""
    registers = target.registers
    swapped = plan.form == "swapped"
    vectors = _column_vectors(plan.columns, plan.lanes)
    if swapped:  # what turns round consists of whole segments
        least = _segment(TYPES[plan.dtype], plan.lanes)
        vectors = [(max(lanes, least), valid) for lanes, valid in vectors]
    if swapped:
        widths = [max(1, min(4, (registers - 3) // (plan.rows + 1)))]
    else:
        # Few rows leave registers for more columns, which hides the time a multiply-add takes.
        widest = max(registers // 8, min(8, (registers - 2) // (plan.rows + 1)))
        widths = list(range(widest, max(0, registers // 16 - 1), -1))
    best: tuple[tuple[Panel, ...], float] | None = None
    for width in widths:
        full = len([v for v in vectors if v[0] == v[1] == plan.lanes]) // width
        groups = [(tuple(vectors[:width]), full)] if full else []
        if rest := vectors[full * width :]:
            groups.append((tuple(rest), 1))
        panels, cycles, kernels = [], 0.0, 0
        for group, count in groups:
            if swapped:
                choices = [plan.rows]
            else:
                # Rows whose addresses come from a table need a register each for them, and there are few.
                most = min(8 if plan.a_row.stride is None else 12, (registers - 2) // len(group) - 1)
                least = -(-max(10, registers // 2) // len(group))
                choices = list(range(most, min(most, least) - 1, -1))
            options = [_tiling(plan, group, count, rows) for rows in choices]
            # Rows that divide evenly need one tile's text and not two: worth a little time.
            cost, panel = min(options, key=lambda o: o[0] * (1 if o[1].tall == o[1].tiles else 1.02))
            panels.append(panel)
            cycles += cost
            kernels += 1 + (panel.tall < panel.tiles)
        cycles *= 1 + 0.01 * kernels
        if best is None or cycles < best[1]:
            best = tuple(panels), cycles
    assert best is not None
    return best


def _tiling(
    plan: Plan, vectors: tuple[tuple[int, int], ...], count: int, most_rows: int
) -> tuple[float, Panel]:
    """Cut the rows of some equal panels into tiles; return the cycles of all tiles, and the panel."""
    tiles = -(-plan.rows // most_rows)
    rows = -(-plan.rows // tiles)
    multiply = sum(_multiply_cycles(lanes, plan.lanes) for lanes, _ in vectors) * plan.rows / tiles
    loads = 0.5 * rows + len(vectors)
    ends = 6 + 2 * len(vectors) * rows
    if plan.form == "swapped":
        ends += 4 * len(vectors) * plan.lanes
    cycles = count * tiles * (plan.depth * (max(multiply, loads, 4.0) + 0.1 * loads) + ends)
    return cycles, Panel(vectors, count, tiles, rows, plan.rows - tiles * (rows - 1))


def _choose_packing(plan: Plan, width: int) -> str | None:
    """Choose how B comes to be contiguous along n; None if it is and stays in its place."""
    if not plan.depth:
        return None
    if plan.b_column.stride == 1:
        step = max((abs(stride) for _, stride in plan.b_depth.dims), default=0) * plan.dtype.itemsize
        far = step > 8 * width * plan.dtype.itemsize or (step >= FAR_BYTES and step % 1024 == 0)
        return "copy" if far and plan.rows >= PACK_ROWS and plan.depth >= PACK_DEPTH else None
    if plan.b_column.run > 1:
        plan.runs = len(_runs(plan.b_column.offsets(), plan.lanes))
        if plan.runs <= MOST_RUNS:
            return "runs"
    if plan.b_depth.run >= min(plan.depth, 2 * plan.lanes) and plan.lanes > 1:
        return "transpose"
    return "scalar"


def _packing_cycles(plan: Plan) -> float:
    """Estimate the time to pack B once for every block of rows that packs."""
    lanes = plan.lanes
    per_vector = {None: 0.0, "copy": 2.0, "runs": plan.runs + 1.5, "transpose": 5.0, "scalar": 2.0 * lanes}
    again = plan.row_blocks if plan.depth_blocks > 1 else 1
    return per_vector[plan.packing] * plan.depth * -(-plan.columns // lanes) * again


def _add_tables(plan: Plan) -> None:
    """Collect the offsets that no stride describes."""
    tables: dict[str, np.ndarray] = {}
    if plan.a_row.stride is None:
        tables["a_row"] = plan.a_row.offsets()
    if plan.a_depth.stride is None:
        tables["a_depth"] = plan.a_depth.offsets()
    if plan.b_depth.stride is None:
        tables["b_depth"] = plan.b_depth.offsets()
    if plan.packing == "runs":
        tables["runs"] = _runs(plan.b_column.offsets(), plan.lanes).transpose(1, 0, 2).reshape(-1)
    elif plan.b_column.stride is None:
        tables["b_column"] = plan.b_column.offsets()
    plan.table_names = tuple(tables)
    plan.tables = [np.ascontiguousarray(table) for table in tables.values()]


def _runs(offsets: np.ndarray, lanes: int) -> np.ndarray:
    """Cut each vector of columns into contiguous pieces: (piece, vector, [offset of lane 0, first lane, end lane]).

    Vectors with fewer pieces than others end with empty ones.

    >>> _runs(np.array([0, 1, 2, 8, 9, 10]), 4)[:, 0].tolist()
    [[0, 0, 3], [5, 3, 4]]
    """
    columns = len(offsets)
    starts = np.flatnonzero(np.diff(offsets, prepend=offsets[0] - 2) != 1)
    starts = np.union1d(starts, np.arange(0, columns, lanes))
    ends = np.append(starts[1:], columns)
    owner = starts // lanes
    order = np.arange(len(starts)) - np.searchsorted(owner, owner)  # which piece of its vector
    table = np.zeros((order.max() + 1, -(-columns // lanes), 3), np.int64)
    first = starts - owner * lanes
    table[order, owner] = np.stack([offsets[starts] - first, first, ends - owner * lanes], axis=1)
    return table


DOT_TILE = 4


def _plan_dot(contraction: Contraction, target: Target) -> Plan:
    """Plan with vectors along k: both operands are contiguous there."""
    plan = _base_plan(contraction, target, "dot")
    batch = plan.units
    width = min(DOT_TILE, plan.columns, max(1, target.registers // 8))
    most_rows = 8 // width if width < DOT_TILE else DOT_TILE
    tiles = -(-plan.rows // most_rows)
    rows = -(-plan.rows // tiles)
    tall = plan.rows - tiles * (rows - 1)
    panels = [Panel(((_power_of_two(width), width),), plan.columns // width, tiles, rows, tall)]
    if rest := plan.columns % width:
        panels.append(Panel(((_power_of_two(rest), rest),), 1, tiles, rows, tall))
    plan.panels = tuple(panels)
    count = sum(p.count for p in panels)
    wanted = min(MOST_UNITS, plan.flops // UNIT_FLOPS)
    plan.row_blocks = max(1, min(tiles, -(-wanted // (batch * count))))
    plan.units = batch * count * plan.row_blocks
    steps = -(-plan.depth // plan.lanes)
    for panel in panels:
        across = panel.vectors[0][1]
        per_step = max(rows * across, rows + across) + 1
        per_tile = steps * per_step + rows * (1 + 1.5 * across) + 6
        plan.cycles += batch * panel.count * tiles * per_tile
    _add_tables(plan)
    return plan


# --- small pieces of text ---------------------------------------------------------------------------------


def _mask(lanes: int, valid: int) -> str:
    return "<" + ", ".join(f"i1 {'true' if lane < valid else 'false'}" for lane in range(lanes)) + ">"


def _ramp(start: int, lanes: int) -> str:
    return "<" + ", ".join(f"i64 {start + lane}" for lane in range(lanes)) + ">"


def _known(value: str) -> int | None:
    """The number a literal stands for; None for a name."""
    return None if value.startswith("%") else int(value)


def _add(e: Emitter, x: str, y: str) -> str:
    if _known(x) is not None and _known(y) is not None:
        return str(int(x) + int(y))
    if x == "0" or y == "0":
        return y if x == "0" else x
    return e.op(f"add i64 {x}, {y}")


def _multiply(e: Emitter, x: str, factor: int) -> str:
    if _known(x) is not None:
        return str(int(x) * factor)
    if factor in (0, 1):
        return x if factor else "0"
    return e.op(f"mul i64 {x}, {factor}")


def _divide(e: Emitter, x: str, divisor: int) -> tuple[str, str]:
    """Quotient and remainder of a number that is not negative."""
    if _known(x) is not None:
        return str(int(x) // divisor), str(int(x) % divisor)
    if divisor == 1:
        return x, "0"
    quotient = e.op(f"udiv i64 {x}, {divisor}")
    return quotient, e.op(f"sub i64 {x}, {_multiply(e, quotient, divisor)}")


def _smaller(e: Emitter, x: str, y: str) -> str:
    if _known(x) is not None and _known(y) is not None:
        return str(min(int(x), int(y)))
    return e.call("llvm.smin.i64", "i64", [("i64", x), ("i64", y)])


def _larger(e: Emitter, x: str, y: str) -> str:
    if _known(x) is not None and _known(y) is not None:
        return str(max(int(x), int(y)))
    return e.call("llvm.smax.i64", "i64", [("i64", x), ("i64", y)])


def _at(e: Emitter, pointer: str, offset: str, element: str) -> str:
    """The address some elements further on."""
    return pointer if offset == "0" else e.op(f"getelementptr {element}, ptr {pointer}, i64 {offset}", "p")


def _loop(
    e: Emitter,
    start: str,
    stop: str,
    body: Callable[[str, list[str]], list[str]],
    carried: Sequence[tuple[str, str]] = (),
    certain: bool = False,
) -> list[str]:
    """Write `for i in range(start, stop)` around a body that takes i and the carried values and returns new ones.

    carried: (type, first value) of each. Returned are the values after the last round. The test stands at the
    end of a round, and before the first only where it is not known to pass, or `certain` to.
    """
    first, last = _known(start), _known(stop)
    if first is not None and last is not None and last - first <= 1:
        values = [value for _, value in carried]
        return body(start, values) if last > first else values
    before, head, latch, done = (e.fresh(name) for name in ("before", "head", "latch", "done"))
    certain = certain or (first is not None and last is not None)
    e.line(f"br label %{before}")
    e.label(before)
    if certain:
        e.line(f"br label %{head}")
    else:
        enters = e.op(f"icmp slt i64 {start}, {stop}")
        e.line(f"br i1 {enters}, label %{head}, label %{done}")
    e.label(head)
    index, following = e.op("phi", "i"), "%" + e.fresh("i")
    places = [len(e.lines) - 1]
    values = []
    for _ in carried:
        values.append(e.op("phi"))
        places.append(len(e.lines) - 1)
    results = body(index, values)
    e.line(f"br label %{latch}")
    e.label(latch)
    e.line(f"{following} = add i64 {index}, 1")
    again = e.op(f"icmp slt i64 {following}, {stop}")
    e.line(f"br i1 {again}, label %{head}, label %{done}")
    e.label(done)
    kinds = ["i64", *(kind for kind, _ in carried)]
    firsts = [start, *(value for _, value in carried)]
    for place, kind, one, other in zip(places, kinds, firsts, [following, *results], strict=True):
        e.lines[place] += f" {kind} [ {one}, %{before} ], [ {other}, %{latch} ]"
    if certain:
        return results
    return [
        e.op(f"phi {kind} [ {one}, %{before} ], [ {result}, %{latch} ]")
        for (kind, one), result in zip(carried, results, strict=True)
    ]


def _when(e: Emitter, condition: str, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
    """Write `if condition: then() else: otherwise()`."""
    yes, no, end = (e.fresh(name) for name in ("yes", "no", "end"))
    e.line(f"br i1 {condition}, label %{yes}, label %{no}")
    for label, write in ((yes, then), (no, otherwise)):
        e.label(label)
        write()
        e.line(f"br label %{end}")
    e.label(end)


def _shuffle(e: Emitter, x: str, y: str, element: str, lanes: int, picks: Iterable[int]) -> str:
    """Lanes of two vectors in a new order; those of y count on from those of x."""
    picks = list(picks)
    kind = vector(element, lanes)
    text = ", ".join(f"i32 {pick}" for pick in picks)
    return e.op(f"shufflevector {kind} {x}, {kind} {y}, <{len(picks)} x i32> <{text}>")


def _segment(element: str, lanes: int) -> int:
    """How many lanes the 128-bit segments have that vectors on x86 are made of: within them shuffles are cheap."""
    return min(lanes, 4 if element == "float" else 2)


def _interleave(e: Emitter, x: str, y: str, element: str, lanes: int) -> tuple[str, str]:
    """x₀ y₀ x₁ y₁ … in each 128-bit segment: first halves of the segments, second halves."""
    size = _segment(element, lanes)
    halves = []
    for begin in (0, size // 2):
        picks = [lane // size * size + begin + lane % size // 2 + lanes * (lane % 2) for lane in range(lanes)]
        halves.append(_shuffle(e, x, y, element, lanes, picks))
    return halves[0], halves[1]


def _transpose(e: Emitter, values: list[str], element: str, lanes: int) -> list[str]:
    """Turn the square that each 128-bit segment of some vectors makes round; as many vectors as it has lanes.

    Write the place of an element as bits: the vector's number, then the lane. Interleaving two vectors whose
    numbers differ in one bit brings this bit into the lane's bits, from below, and the top bit of the lane into
    its place in the vector's number. After a round for each bit, all have changed places.
    """
    values = list(values)
    half = len(values) // 2
    while half:
        for i in range(len(values)):
            if not i & half:
                pair = values[i], values[i + half]
                values[i], values[i + half] = _interleave(e, *pair, element, lanes)
        half //= 2
    return values


def _join(e: Emitter, values: list[str], element: str, lanes: int) -> str:
    """Put vectors side by side into one."""
    while len(values) > 1:
        values = [
            _shuffle(e, x, y, element, lanes, range(2 * lanes))
            for x, y in zip(values[::2], values[1::2], strict=True)
        ]
        lanes *= 2
    return values[0]


def _sum_each(e: Emitter, values: list[str], element: str, lanes: int) -> str:
    """Sum the lanes of each of P vectors: one vector of P sums (P a power of two).

    The rounds of `_transpose`, with the two results of each added at once, as far as they stay in segments.
    """
    count = len(values)
    if count > _segment(element, lanes):
        halves = [_sum_each(e, part, element, lanes) for part in (values[: count // 2], values[count // 2 :])]
        if count == 2:
            pair = vector(element, 2)
            one = e.op(f"insertelement {pair} poison, {element} {halves[0]}, i64 0")
            return e.op(f"insertelement {pair} {one}, {element} {halves[1]}, i64 1")
        return _join(e, halves, element, count // 2)
    kind = vector(element, lanes)
    while len(values) > 1:
        half = len(values) // 2
        pairs = [_interleave(e, values[i], values[i + half], element, lanes) for i in range(half)]
        values = [e.op(f"fadd {kind} {low}, {high}") for low, high in pairs]
    total = values[0]
    while lanes > count:
        lanes //= 2
        low, high = (_lanes_of(e, total, element, 2 * lanes, begin, lanes) for begin in (0, lanes))
        total = e.op(f"fadd {vector(element, lanes)} {low}, {high}")
    return total


def _lanes_of(e: Emitter, value: str, element: str, lanes: int, begin: int, count: int) -> str:
    """Some consecutive lanes of a vector; one lane is a scalar."""
    if count == lanes:
        return value
    if count == 1:
        return e.op(f"extractelement {vector(element, lanes)} {value}, i64 {begin}")
    return _shuffle(e, value, "poison", element, lanes, range(begin, begin + count))


def _zero(lanes: int) -> str:
    return "zeroinitializer" if lanes > 1 else "0.0"


def prefetch(e: Emitter, pointer: str, count: int = 1, write: bool = False) -> None:
    """Ask for some bytes of memory, to be read or written soon. Any address will do: none is refused."""
    hints = [("i32", str(int(write))), ("i32", "3"), ("i32", "1")]  # to stay in all caches; data, not code
    for begin in range(0, count, LINE):
        e.call("llvm.prefetch.p0", "void", [("ptr", _at(e, pointer, str(begin), "i8")), *hints])


# --- the kernel -------------------------------------------------------------------------------------------

# Unroll k until a round has about this many multiply-adds; unroll all of it up to a few more.
ROUND = 16
WHOLE = 96
# Lines of memory that lie as far apart as this follow no pattern that a processor sees by itself: it is told this many
# steps before they are needed.
STRIDE_BYTES = 256
AHEAD = 24
LINE = 64  # bytes that come from memory together
# An epilogue of more lines than this is written once for a row of vectors, in a loop over the tile's rows.
LONG_EPILOGUE = 12


def emit_contraction(
    e: Emitter,
    plan: Plan,
    *,
    a: str,
    b: str,
    tables: list[str],
    scratch: str | None = None,
    start: str,
    stop: str,
    begin: Begin | None = None,
    fetch: Fetch | None = None,
    epilogue: Epilogue,
) -> None:
    """Write the loops over the units [start, stop) of a plan.

    a, b, tables and scratch are names of pointers (scratch: this thread's, at a multiple of 64 bytes). It must be
    written where control passes once, as in the block of the function's entry: tiles may need room on the stack.

    begin(e, index) returns what a sum starts from, instead of zero. epilogue(e, value, index) uses a finished
    value, and stores it. Both must depend on their arguments alone and may write blocks of their own; they are
    called several times, and what they write may be thrown away or stand in a loop.

    fetch(e, index, columns) asks for the memory that the epilogue will touch in some columns from `index` on, well
    before it does.
    """
    if plan.units:
        _Kernel(e, plan, a, b, tables, scratch, begin, fetch, epilogue).write(start, stop)


@dataclass(frozen=True)
class _Work:
    """What the tiles of a unit have in common: where their panel lies, and which part of k is at hand.

    a, b: pointers to this batch. depth, count: the first k, and how many. partial: where sums wait from one
    block of k to the next, and the row they begin with; None if k is walked at once.
    """

    panel: Panel
    column: str
    a: str
    b: str
    depth: str
    count: str
    partial: tuple[str, str] | None = None


class _Kernel:
    """The text of one contraction while it is written. Here `rows` belong to A and `columns` to B, also if swapped."""

    def __init__(
        self,
        e: Emitter,
        plan: Plan,
        a: str,
        b: str,
        tables: list[str],
        scratch: str | None,
        begin: Begin | None,
        fetch: Fetch | None,
        epilogue: Epilogue,
    ) -> None:
        self.e, self.plan = e, plan
        self.a, self.b = (b, a) if plan.form == "swapped" else (a, b)
        self.tables = dict(zip(plan.table_names, tables, strict=True))
        if plan.scratch and scratch is None:
            raise ValueError(f"this contraction needs {plan.scratch} bytes of scratch memory")
        self.scratch = scratch or "null"
        self.begin, self.fetch, self.epilogue = begin, fetch, epilogue
        self.element = TYPES[plan.dtype]
        self.size = plan.dtype.itemsize
        self.intrinsic = "f32" if self.size == 4 else "f64"
        self.stack_elements = 0
        self.stack = "%" + e.fresh("tile")
        self.blocked = plan.depth_blocks > 1
        self.batch = "0"

    # Small tools.

    def kind(self, lanes: int) -> str:
        return vector(self.element, lanes)

    def load(self, lanes: int, pointer: str, align: int = 0) -> str:
        return self.e.op(f"load {self.kind(lanes)}, ptr {pointer}, align {align or self.size}")

    def store(self, lanes: int, value: str, pointer: str, align: int = 0) -> None:
        self.e.line(f"store {self.kind(lanes)} {value}, ptr {pointer}, align {align or self.size}")

    def masked_load(self, lanes: int, pointer: str, mask: str, otherwise: str = "zeroinitializer") -> str:
        kind = self.kind(lanes)
        return self.e.call(
            f"llvm.masked.load.v{lanes}{self.intrinsic}.p0",
            kind,
            [("ptr", pointer), ("i32", str(self.size)), (f"<{lanes} x i1>", mask), (kind, otherwise)],
        )

    def load_valid(self, lanes: int, valid: int, pointer: str) -> str:
        """The first lanes of a vector; others are zero and never touched in memory."""
        if valid == lanes:
            return self.load(lanes, pointer)
        return self.masked_load(lanes, pointer, _mask(lanes, valid))

    def number(self, table: str, index: str) -> str:
        """An entry of a table."""
        return self.e.op(f"load i64, ptr {_at(self.e, self.tables[table], index, 'i64')}, align 8")

    def offset(self, walk: Walk, table: str, index: str) -> str:
        """The offset of an index, by multiplication or from the table."""
        if walk.stride is None:
            return self.number(table, index)
        return _multiply(self.e, index, walk.stride)

    def batch_offset(self, walk: Walk) -> str:
        """The offset of the current batch: taken apart into its dimensions."""
        rest, total = self.batch, "0"
        for position in range(len(walk.dims) - 1, -1, -1):
            extent, stride = walk.dims[position]
            here = rest
            if position:
                rest, here = _divide(self.e, rest, extent)
            total = _add(self.e, total, _multiply(self.e, here, stride))
        return total

    def multiply_add(self, lanes: int, x: str, y: str, total: str) -> str:
        kind = self.kind(lanes)
        suffix = f"v{lanes}{self.intrinsic}" if lanes > 1 else self.intrinsic
        return self.e.call(f"llvm.fmuladd.{suffix}", kind, [(kind, x), (kind, y), (kind, total)])

    def spread(self, element: str, lanes: int, scalar: str) -> str:
        """A scalar in all lanes."""
        if lanes == 1:
            return scalar
        kind = vector(element, lanes)
        one = self.e.op(f"insertelement {kind} poison, {element} {scalar}, i64 0")
        return self.e.op(f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer")

    # Units.

    def write(self, start: str, stop: str) -> None:
        e, plan = self.e, self.plan
        place = len(e.lines)
        if plan.units == 1:  # the only question is whether it is asked for
            _loop(e, start, stop, lambda unit, _: self.unit("0", ["-1"])[:0])
        else:
            remembered = [("i64", "-1")] if plan.packing or plan.packs_a else []
            _loop(e, start, stop, self.unit, remembered)
        if self.stack_elements:
            e.lines.insert(
                place, f"  {self.stack} = alloca {self.element}, i64 {self.stack_elements}, align 64"
            )

    def unit(self, unit: str, remembered: list[str]) -> list[str]:
        """One unit: some rows of one panel of one batch. Remembers what scratch memory holds: a panel, or rows of A."""
        e, plan = self.e, self.plan
        panel_and_batch, block = _divide(e, unit, plan.row_blocks)
        if plan.rows_first:  # all panels for some rows, before the next rows
            key, panel = _divide(e, unit, plan.panel_count)
            self.batch, block = _divide(e, key, plan.row_blocks)
        elif plan.shares_b:  # one panel for all batches, before the next
            panel, self.batch = _divide(e, panel_and_batch, plan.batches)
        else:
            self.batch, panel = _divide(e, panel_and_batch, plan.panel_count)
        a = _at(e, self.a, self.batch_offset(plan.a_batch), self.element)
        b = _at(e, self.b, self.batch_offset(plan.b_batch), self.element)
        if plan.packs_a:
            first, last = self.tiles_of(plan.panels[0], block)
            new = e.op(f"icmp ne i64 {key}, {remembered[0]}")
            _when(e, new, lambda: self.pack_a(plan.panels[0], a, first, last), lambda: None)
        elif not plan.rows_first:
            key = panel if plan.shares_b else panel_and_batch

        def write(number: int) -> None:
            self.panel(number, panel, block, a, b, key, remembered)

        if len(plan.panels) == 1:
            write(0)
        elif (known := _known(panel)) is not None:
            write(0 if known < plan.panels[0].count else 1)
        else:
            full = e.op(f"icmp slt i64 {panel}, {plan.panels[0].count}")
            _when(e, full, lambda: write(0), lambda: write(1))
        return [key] if remembered else []

    def panel(
        self, number: int, place: str, block: str, a: str, b: str, key: str, remembered: list[str]
    ) -> None:
        """One block of rows of one panel."""
        e, plan, panel = self.e, self.plan, self.plan.panels[number]
        column = str(plan.panels[0].count * plan.panels[0].width) if number else ""
        if plan.form == "dot":
            column = str(plan.panels[0].count * plan.panels[0].vectors[0][1]) if number else ""
            column = column or _multiply(e, place, panel.vectors[0][1])
        column = column or _multiply(e, place, panel.width)
        first, last = self.tiles_of(panel, block)
        if not self.blocked:
            if plan.packing:
                self.pack_unless_there(panel, column, b, key, remembered)
            self.tiles(_Work(panel, column, a, b, "0", str(plan.depth)), first, last)
            return
        # k in blocks: sums wait in scratch memory from one block to the next.
        partial = _at(e, self.scratch, str(plan.partial_offset), "i8")
        top, bottom = self.row_of(panel, first), self.row_of(panel, last)
        self.fill_partial(panel, column, partial, top, bottom)

        def depth_block(number: str, _: list[str]) -> list[str]:
            depth = _multiply(e, number, plan.depth_block)
            rest = e.op(f"sub i64 {plan.depth}, {depth}")
            count = _smaller(e, rest, str(plan.depth_block))
            if plan.packing:
                self.pack(panel, column, b, depth, count)
            self.tiles(_Work(panel, column, a, b, depth, count, (partial, top)), first, last)
            return []

        _loop(e, "0", str(plan.depth_blocks), depth_block)
        self.drain_partial(panel, column, partial, top, bottom)

    def tiles_of(self, panel: Panel, block: str) -> tuple[str, str]:
        """The first tile of a block of rows, and that of the next."""
        e, blocks = self.e, self.plan.row_blocks
        first, _ = _divide(e, _multiply(e, block, panel.tiles), blocks)
        last, _ = _divide(e, _multiply(e, _add(e, block, "1"), panel.tiles), blocks)
        return first, last

    def row_of(self, panel: Panel, tile: str) -> str:
        """The row a tile begins at."""
        e = self.e
        return _add(e, _multiply(e, tile, panel.rows - 1), _smaller(e, tile, str(panel.tall)))

    # Tiles.

    def tiles(self, work: _Work, first: str, last: str) -> None:
        """The tiles [first, last) of a panel: the tall ones, then those of one row less."""
        panel = work.panel
        for rows, begin, end in self.tall_and_short(panel, first, last):

            def tile(number: str, _: list[str], rows: int = rows) -> list[str]:
                row = self.row_of_tile(panel, number, rows)
                if self.plan.form == "dot":
                    self.dot_tile(work, row, rows)
                else:
                    copy = self.place_in_a(panel, number, first) if self.plan.packs_a else None
                    self.tile(work, row, rows, copy)
                return []

            _loop(self.e, begin, end, tile)

    def tall_and_short(self, panel: Panel, first: str, last: str) -> list[tuple[int, str, str]]:
        """(rows, first tile, end) of the tiles [first, last) of either height."""
        e, tall = self.e, str(panel.tall)
        heights = [(panel.rows, first, _smaller(e, last, tall))]
        if panel.tall < panel.tiles and panel.rows > 1:
            heights.append((panel.rows - 1, _larger(e, first, tall), last))
        return heights

    def row_of_tile(self, panel: Panel, tile: str, rows: int) -> str:
        """The row a tile begins at, if it is known to be tall or not."""
        start = _multiply(self.e, tile, rows)
        return start if rows == panel.rows else _add(self.e, start, str(panel.tall))

    def tile(self, work: _Work, row: str, rows: int, copy: str | None) -> None:
        """One tile: all its sums stay in registers while k runs. A is read from its copy, if there is one."""
        panel, column, partial = work.panel, work.column, work.partial
        places = [(r, v) for r in range(rows) for v in range(len(panel.vectors))]
        kinds = [self.kind(panel.vectors[v][0]) for _, v in places]
        if partial:
            home = self.partial_place(panel, partial, row)
            sums = [self.load(*self.partial_vector(panel, home, r, v)) for r, v in places]
        else:
            sums = [self.start_of_sum(panel, column, row, r, v) for r, v in places]
        if self.fetch is not None and not partial and len(places) >= ROUND and self.plan.depth >= rows:
            sums = self.multiply_fetching(work, row, rows, copy, sums, kinds)
        else:
            sums = self.multiply(work, row, rows, copy, sums, kinds)
        if not partial:
            self.finish(panel, column, row, rows, sums)
            return
        for (r, v), value in zip(places, sums, strict=True):
            lanes, pointer, align = self.partial_vector(panel, home, r, v)
            self.store(lanes, value, pointer, align)

    def start_of_sum(self, panel: Panel, column: str, row: str, r: int, v: int) -> str:
        if self.begin is None or self.plan.form == "swapped":
            return _zero(panel.vectors[v][0])
        return self.begin(self.e, self.index(panel, column, row, r, v))

    def index(self, panel: Panel, column: str, row: str, r: int, v: int) -> Index:
        lanes, valid = panel.vectors[v]
        e = self.e
        across = _add(e, column, str(v * self.plan.lanes))
        return Index(self.batch, _add(e, row, str(r)), across, lanes, valid)

    def multiply_fetching(
        self, work: _Work, row: str, rows: int, copy: str | None, sums: list[str], kinds: list[str]
    ) -> list[str]:
        """Run k over a tile, and meanwhile fetch what its epilogue will touch.

        A processor waits for so many lines of memory at a time, and no more: a piece of k for each row of the tile,
        and the lines of one row are asked for at a time.
        """
        e, depth, fetch = self.e, self.plan.depth, self.fetch
        assert fetch is not None

        def one_piece(r: str, sums: list[str]) -> list[str]:
            fetch(e, self.index(work.panel, work.column, _add(e, row, r), 0, 0), work.panel.width)
            begin, _ = _divide(e, _multiply(e, r, depth), rows)  # as even as can be: none is empty
            end, _ = _divide(e, _multiply(e, _add(e, r, "1"), depth), rows)
            count = str(depth // rows) if depth % rows == 0 else e.op(f"sub i64 {end}, {begin}")
            part = dataclasses.replace(work, depth=begin, count=count)
            return self.multiply(part, row, rows, copy, sums, kinds)

        return _loop(e, "0", str(rows), one_piece, list(zip(kinds, sums, strict=True)))

    def multiply(
        self, work: _Work, row: str, rows: int, copy: str | None, sums: list[str], kinds: list[str]
    ) -> list[str]:
        """Run k over a tile; sums in, sums out, row by row."""
        e, plan, element = self.e, self.plan, self.element
        panel, depth, count = work.panel, work.depth, work.count
        a_row, a_stride = plan.a_row.stride, plan.a_depth.stride
        if copy is not None:
            starts, a_stride = [copy], panel.rows
        elif a_row is None:
            starts = [
                _at(e, work.a, self.number("a_row", _add(e, row, str(r))), element) for r in range(rows)
            ]
        else:
            starts = [_at(e, work.a, _multiply(e, row, a_row), element)]
        b_stride: int | None
        if plan.packing:
            b_start, b_stride = self.scratch, panel.width
        else:
            b_start, b_stride = _at(e, work.b, work.column, element), plan.b_depth.stride
        b_table = b_stride is None
        strides_far = copy is None and a_row == 1 and (a_stride or 0) * self.size >= STRIDE_BYTES

        steps = len(sums)
        known = _known(count)
        unroll = 1
        if known is not None:
            unroll = known if known * steps <= WHOLE else min(known, max(1, ROUND // steps))
        unroll = max(1, unroll)

        def step(k: str, ahead: int, a_at: str, b_at: str, sums: list[str]) -> list[str]:
            """One k: `ahead` steps behind the offsets given."""
            if a_stride is None:
                a_offset, a_more = self.number("a_depth", _add(e, k, str(ahead))), 0
            else:
                a_offset, a_more = a_at, ahead * a_stride
            if b_table:
                b_offset, b_more = self.number("b_depth", _add(e, k, str(ahead))), 0
            else:
                b_offset, b_more = b_at, ahead * (b_stride or 0)
            b_line = _at(e, b_start, b_offset, element)
            lines = []
            for v, (lanes, valid) in enumerate(panel.vectors):
                pointer = _at(e, b_line, str(b_more + v * plan.lanes), element)
                if plan.packing:
                    lines.append(self.load(lanes, pointer, self.aligned_line(panel, lanes)))
                else:
                    lines.append(self.load_valid(lanes, valid, pointer))
            a_lines = [_at(e, start, a_offset, element) for start in starts]
            if strides_far:  # a tile's rows may begin on one line and end on the next
                for r in sorted({0, rows - 1}):
                    prefetch(e, _at(e, a_lines[0], str(a_more + AHEAD * (a_stride or 0) + r), element))
            results = []
            for r in range(rows):
                if a_row is None:
                    pointer = _at(e, a_lines[r], str(a_more), element)
                else:
                    pointer = _at(e, a_lines[0], str(a_more + r * a_row), element)
                scalar = self.load(1, pointer)
                wide: dict[int, str] = {}
                for v, (lanes, _) in enumerate(panel.vectors):
                    if lanes not in wide:
                        wide[lanes] = self.spread(element, lanes, scalar)
                    place = r * len(panel.vectors) + v
                    results.append(self.multiply_add(lanes, wide[lanes], lines[v], sums[place]))
            return results

        def body(number: str, carried: list[str]) -> list[str]:
            a_at, b_at, sums = carried[0], carried[1], carried[2:]
            k = _add(e, depth, _multiply(e, number, unroll)) if a_stride is None or b_table else "0"
            for ahead in range(unroll):
                sums = step(k, ahead, a_at, b_at, sums)
            a_next = "0" if a_stride is None else _add(e, a_at, str(unroll * a_stride))
            b_next = "0" if b_table else _add(e, b_at, str(unroll * (b_stride or 0)))
            return [a_next, b_next, *sums]

        a_at = "0" if a_stride is None else _multiply(e, depth, a_stride)
        # A packed panel begins at k = 0, or with the block of k that is at hand.
        b_at = "0" if (plan.packing and self.blocked) or b_table else _multiply(e, depth, b_stride or 0)
        carried = [("i64", a_at), ("i64", b_at), *zip(kinds, sums, strict=True)]
        rounds = count if known is None else str(known // unroll)
        a_at, b_at, *sums = _loop(e, "0", rounds, body, carried, certain=True)
        if known is not None:
            k = _add(e, depth, str(known // unroll * unroll))
            for ahead in range(known % unroll):
                sums = step(k, ahead, a_at, b_at, sums)
        return sums

    def aligned_line(self, panel: Panel, lanes: int) -> int:
        """The alignment of a vector in a packed panel, whose lines follow each other without gaps."""
        whole = all(lanes == self.plan.lanes for lanes, _ in panel.vectors)
        return self.size * (lanes if whole or len(panel.vectors) == 1 else 1)

    def finish(self, panel: Panel, column: str, row: str, rows: int, sums: list[str]) -> None:
        """Hand the sums of a tile to the epilogue."""
        e, plan = self.e, self.plan
        if plan.form == "swapped":
            self.finish_swapped(panel, column, row, rows, sums)
            return
        across = len(panel.vectors)
        indices = [[self.index(panel, column, row, r, v) for v in range(across)] for r in range(rows)]
        if rows == 1 or not self.epilogue_is_long(indices[0][0]):
            for place, value in enumerate(sums):
                self.epilogue(e, value, indices[place // across][place % across])
            return
        # Too long to be written for every vector: once per row, the tile lying on the stack.
        self.stack_elements = max(self.stack_elements, rows * panel.width)
        for place, value in enumerate(sums):
            r, v = divmod(place, across)
            lanes = panel.vectors[v][0]
            there = _at(e, self.stack, str(r * panel.width + v * plan.lanes), self.element)
            self.store(lanes, value, there)

        def one_row(r: str, _: list[str]) -> list[str]:
            line = _at(e, self.stack, _multiply(e, r, panel.width), self.element)
            for v, (lanes, _valid) in enumerate(panel.vectors):
                value = self.load(lanes, _at(e, line, str(v * plan.lanes), self.element))
                self.epilogue(e, value, self.index(panel, column, _add(e, row, r), 0, v))
            return []

        _loop(e, "0", str(rows), one_row)

    def epilogue_is_long(self, index: Index) -> bool:
        """Whether the epilogue writes many lines: tried on an emitter that is thrown away."""
        trial = Emitter()
        self.epilogue(trial, "%value", index)
        return len(trial.lines) > LONG_EPILOGUE

    def finish_swapped(self, panel: Panel, column: str, row: str, rows: int, sums: list[str]) -> None:
        """Turn a tile whose lanes lie along m round: onto the stack, line by line of the result."""
        e, plan, element = self.e, self.plan, self.element
        size = _segment(element, plan.lanes)
        width = _swapped_width(rows, size)
        self.stack_elements = max(self.stack_elements, panel.width * width)
        for v, (lanes, _) in enumerate(panel.vectors):
            for down in range(0, rows, size):
                square = [
                    sums[r * len(panel.vectors) + v] if r < rows else _zero(lanes)
                    for r in range(down, down + size)
                ]
                for line, value in enumerate(_transpose(e, square, element, lanes)):
                    for across in range(0, lanes, size):
                        part = _lanes_of(e, value, element, lanes, across, size)
                        place = (v * plan.lanes + across + line) * width + down
                        self.store(size, part, _at(e, self.stack, str(place), element))

        def one_row(m: str, _: list[str]) -> list[str]:
            value = self.load(width, _at(e, self.stack, _multiply(e, m, width), element))
            index = Index(self.batch, _add(e, column, m), row, width, rows)
            if self.begin is not None:
                first = self.begin(e, index)
                value = e.op(f"fadd {self.kind(width)} {first}, {value}")
            self.epilogue(e, value, index)
            return []

        _loop(e, "0", str(sum(valid for _, valid in panel.vectors)), one_row)

    # Dot products.

    def dot_tile(self, work: _Work, row: str, rows: int) -> None:
        """A tile of dot products: vectors along k, summed across at the end."""
        e, plan, element, lanes = self.e, self.plan, self.element, self.plan.lanes
        a, b, column = work.a, work.b, work.column
        width, valid = work.panel.vectors[0]
        a_lines = [
            _at(e, a, self.offset(plan.a_row, "a_row", _add(e, row, str(r))), element) for r in range(rows)
        ]
        b_lines = [
            _at(e, b, self.offset(plan.b_column, "b_column", _add(e, column, str(n))), element)
            for n in range(valid)
        ]
        # One sum after another would wait for the one before: several at once, along k if there are few others.
        places = rows * valid
        unroll = max(1, min(8 // places, plan.depth // lanes))
        whole = plan.depth // (lanes * unroll)

        def step(at: str, ahead: int, count: int, sums: list[str]) -> list[str]:
            def load(line: str) -> str:
                pointer = _at(e, _at(e, line, at, element), str(ahead), element)
                return self.load_valid(lanes, count, pointer)

            left = [load(line) for line in a_lines]
            right = [load(line) for line in b_lines]
            pairs = [(x, y) for x in left for y in right]
            return [self.multiply_add(lanes, x, y, s) for (x, y), s in zip(pairs, sums, strict=True)]

        def body(number: str, carried: list[str]) -> list[str]:
            at, groups = carried[0], carried[1:]
            results = []
            for u in range(unroll):
                results += step(at, u * lanes, lanes, groups[u * places : (u + 1) * places])
            return [_add(e, at, str(unroll * lanes)), *results]

        zeros = [(self.kind(lanes), _zero(lanes))] * (places * unroll)
        at, *sums = _loop(e, "0", str(whole), body, [("i64", "0"), *zeros])
        rest = plan.depth - whole * lanes * unroll
        for u in range(-(-rest // lanes)):
            group = slice(u * places, (u + 1) * places)
            sums[group] = step(at, u * lanes, min(lanes, rest - u * lanes), sums[group])
        kind = self.kind(lanes)
        for u in range(1, unroll):
            for place in range(places):
                sums[place] = e.op(f"fadd {kind} {sums[place]}, {sums[u * places + place]}")

        values, indices = [], []
        for r in range(rows):
            line = sums[r * valid : (r + 1) * valid] + [_zero(lanes)] * (width - valid)
            value = _sum_each(e, line, element, lanes)
            index = Index(self.batch, _add(e, row, str(r)), column, width, valid)
            if self.begin is not None:
                value = e.op(f"fadd {self.kind(width)} {self.begin(e, index)}, {value}")
            values.append(value)
            indices.append(index)
        for value, index in zip(values, indices, strict=True):
            self.epilogue(e, value, index)

    # Sums that wait between blocks of k.

    def partial_place(self, panel: Panel, partial: tuple[str, str], row: str) -> str:
        """Where a row's unfinished sums lie."""
        e = self.e
        pointer, top = partial
        below = row if top == "0" else e.op(f"sub i64 {row}, {top}")
        return _at(e, pointer, _multiply(e, below, panel.width), self.element)

    def partial_vector(self, panel: Panel, home: str, r: int, v: int) -> tuple[int, str, int]:
        lanes = panel.vectors[v][0]
        pointer = _at(self.e, home, str(r * panel.width + v * self.plan.lanes), self.element)
        return lanes, pointer, self.aligned_line(panel, lanes)

    def fill_partial(self, panel: Panel, column: str, partial: str, top: str, bottom: str) -> None:
        """Write what each sum starts from."""

        def one_row(row: str, _: list[str]) -> list[str]:
            home = self.partial_place(panel, (partial, top), row)
            for v in range(len(panel.vectors)):
                value = self.start_of_sum(panel, column, row, 0, v)
                lanes, pointer, align = self.partial_vector(panel, home, 0, v)
                self.store(lanes, value, pointer, align)
            return []

        _loop(self.e, top, bottom, one_row)

    def drain_partial(self, panel: Panel, column: str, partial: str, top: str, bottom: str) -> None:
        """Hand the sums, now complete, to the epilogue: a row at a time, or all together if they must turn."""
        rows = panel.rows if self.plan.form == "swapped" else 1

        def some_rows(row: str, _: list[str]) -> list[str]:
            home = self.partial_place(panel, (partial, top), row)
            sums = [
                self.load(*self.partial_vector(panel, home, r, v))
                for r in range(rows)
                for v in range(len(panel.vectors))
            ]
            self.finish(panel, column, row, rows, sums)
            return []

        if self.plan.form == "swapped":
            some_rows("0", [])
        else:
            _loop(self.e, top, bottom, some_rows)

    # Packing: a panel of B, copied so that its columns lie side by side.

    def pack_unless_there(self, panel: Panel, column: str, b: str, key: str, remembered: list[str]) -> None:
        plan = self.plan
        if plan.packs_a or (plan.row_blocks == 1 and (plan.batches == 1 or not plan.shares_b)):  # never there
            self.pack(panel, column, b, "0", str(plan.depth))
            return
        new = self.e.op(f"icmp ne i64 {key}, {remembered[0]}")
        _when(self.e, new, lambda: self.pack(panel, column, b, "0", str(plan.depth)), lambda: None)

    def pack(self, panel: Panel, column: str, b: str, depth: str, count: str) -> None:
        """Copy `count` lines of a panel, from k = depth on."""
        packing = self.plan.packing
        if packing == "copy":
            self.pack_lines(panel, column, b, depth, count)
        elif packing == "runs":
            self.pack_runs(panel, column, b, depth, count)
        elif packing == "transpose":
            self.pack_transposed(panel, column, b, depth, count)
        else:
            for v, (lanes, valid) in enumerate(panel.vectors):
                there = _add(self.e, column, str(v * self.plan.lanes))
                self.pack_scalars(panel, v * self.plan.lanes, lanes, valid, there, b, depth, "0", count)

    def place_in_a(self, panel: Panel, tile: str, first: str) -> str:
        """Where the copy of a tile's rows begins; there they lie as the tile needs them, k after k."""
        e = self.e
        home = _at(e, self.scratch, str(self.plan.a_offset), "i8")
        number = tile if first == "0" else e.op(f"sub i64 {tile}, {first}")
        return _at(e, home, _multiply(e, number, panel.rows * self.plan.depth), self.element)

    def pack_a(self, panel: Panel, a: str, first: str, last: str) -> None:
        """Copy the rows of A that belong to the tiles [first, last); they are contiguous along m."""
        e, plan = self.e, self.plan
        for rows, begin, end in self.tall_and_short(panel, first, last):

            def tile(number: str, _: list[str], rows: int = rows) -> list[str]:
                source = _at(e, a, self.row_of_tile(panel, number, rows), self.element)
                home = self.place_in_a(panel, number, first)

                def line(k: str, _: list[str]) -> list[str]:
                    here = _at(e, source, _multiply(e, k, plan.a_depth.stride or 0), self.element)
                    prefetch(e, _at(e, here, str(AHEAD * (plan.a_depth.stride or 0)), self.element))
                    there = _at(e, home, _multiply(e, k, panel.rows), self.element)
                    self.copy(rows, here, there)
                    return []

                _loop(e, "0", str(plan.depth), line)
                return []

            _loop(e, begin, end, tile)

    def copy(self, count: int, source: str, there: str) -> None:
        """Copy a few neighbours, in vectors as wide as can be."""
        done = 0
        while done < count:
            lanes = min(self.plan.lanes, 1 << (count - done).bit_length() - 1)
            value = self.load(lanes, _at(self.e, source, str(done), self.element))
            self.store(lanes, value, _at(self.e, there, str(done), self.element))
            done += lanes

    def pack_lines(self, panel: Panel, column: str, b: str, depth: str, count: str) -> None:
        """Copy vectors."""
        e, plan = self.e, self.plan
        start = _at(e, b, column, self.element)

        def line(k: str, _: list[str]) -> list[str]:
            source = _at(e, start, self.offset(plan.b_depth, "b_depth", _add(e, depth, k)), self.element)
            if plan.b_depth.stride is not None:
                later = _at(e, source, str(AHEAD * plan.b_depth.stride), self.element)
                prefetch(e, later, panel.width * self.size)
            home = _at(e, self.scratch, _multiply(e, k, panel.width), self.element)
            values = [
                self.load_valid(lanes, valid, _at(e, source, str(v * plan.lanes), self.element))
                for v, (lanes, valid) in enumerate(panel.vectors)
            ]
            for v, (lanes, _valid) in enumerate(panel.vectors):
                there = _at(e, home, str(v * plan.lanes), self.element)
                self.store(lanes, values[v], there, self.aligned_line(panel, lanes))
            return []

        _loop(e, "0", count, line)

    def pack_runs(self, panel: Panel, column: str, b: str, depth: str, count: str) -> None:
        """Compose each vector of contiguous pieces, as where the rows of a picture meet.

        Each piece is loaded with the other lanes masked, from where lane 0 would be; nothing outside is touched.
        """
        e, plan = self.e, self.plan
        number, _ = _divide(e, column, plan.lanes)
        for v, (lanes, _valid) in enumerate(panel.vectors):
            ramp = _ramp(0, lanes)
            entry = _multiply(e, _add(e, number, str(v)), 3 * plan.runs)
            pieces = []
            for piece in range(plan.runs):
                offset, first, end = (
                    self.number("runs", _add(e, entry, str(3 * piece + part))) for part in range(3)
                )
                if lanes == 1:
                    pieces.append((_at(e, b, offset, self.element), ""))
                    break
                many = f"<{lanes} x i64>"
                edges = [self.spread("i64", lanes, edge) for edge in (first, end)]
                after = e.op(f"icmp sge {many} {ramp}, {edges[0]}")
                before = e.op(f"icmp slt {many} {ramp}, {edges[1]}")
                mask = e.op(f"and <{lanes} x i1> {after}, {before}")
                pieces.append((_at(e, b, offset, self.element), mask))

            def line(
                k: str,
                _: list[str],
                v: int = v,
                lanes: int = lanes,
                pieces: list[tuple[str, str]] = pieces,
            ) -> list[str]:
                offset = self.offset(plan.b_depth, "b_depth", _add(e, depth, k))
                value = _zero(lanes)
                for pointer, mask in pieces:
                    source = _at(e, pointer, offset, self.element)
                    value = self.masked_load(lanes, source, mask, value) if mask else self.load(1, source)
                home = _at(e, self.scratch, _multiply(e, k, panel.width), self.element)
                there = _at(e, home, str(v * plan.lanes), self.element)
                self.store(lanes, value, there, self.aligned_line(panel, lanes))
                return []

            _loop(e, "0", count, line)

    def pack_transposed(self, panel: Panel, column: str, b: str, depth: str, count: str) -> None:
        """Read vectors along k and turn blocks of them round."""
        e, plan = self.e, self.plan
        full = len([1 for lanes, valid in panel.vectors if lanes == valid == plan.lanes])
        groups = [(0, full, plan.lanes, plan.lanes)] if full else []
        groups += [(v, v + 1, *panel.vectors[v]) for v in range(full, len(panel.vectors))]
        for begin, end, lanes, valid in groups:

            def one_vector(v: str, _: list[str], lanes: int = lanes, valid: int = valid) -> list[str]:
                across = _multiply(e, v, plan.lanes)
                self.transpose_vector(panel, across, lanes, valid, _add(e, column, across), b, depth, count)
                return []

            _loop(e, str(begin), str(end), one_vector)

    def transpose_vector(
        self, panel: Panel, across: str, lanes: int, valid: int, column: str, b: str, depth: str, count: str
    ) -> None:
        """Pack the columns of one vector, as many lines at a time as a segment has lanes."""
        e, plan = self.e, self.plan
        size = _segment(self.element, lanes)  # lines at a time
        known = _known(count)
        sources = [
            _at(e, b, self.offset(plan.b_column, "b_column", _add(e, column, str(n))), self.element)
            for n in range(valid)
        ]

        def turn(k: str, offset: str, height: int) -> None:
            """Load a piece of each column; join those whose segments turn round together."""
            pieces = [
                self.load_valid(size, height, _at(e, source, offset, self.element)) for source in sources
            ]
            pieces += [_zero(size)] * (lanes - valid)
            joined = [_join(e, pieces[n::size], self.element, size) for n in range(size)]
            home = _at(e, self.scratch, _add(e, _multiply(e, k, panel.width), across), self.element)
            for line, value in enumerate(_transpose(e, joined, self.element, lanes)[:height]):
                there = _at(e, home, str(line * panel.width), self.element)
                self.store(lanes, value, there, self.aligned_line(panel, lanes))

        def block(number: str, _: list[str]) -> list[str]:
            k = _multiply(e, number, size)
            here = _add(e, depth, k)
            offset = self.offset(plan.b_depth, "b_depth", here)
            if plan.b_depth.stride is not None:
                turn(k, offset, size)
                return []
            # A block may reach over the end of a contiguous piece; then it is copied element by element.
            end = self.number("b_depth", _add(e, here, str(size - 1)))
            length = e.op(f"sub i64 {end}, {offset}")
            straight = e.op(f"icmp eq i64 {length}, {size - 1}")
            _when(
                e,
                straight,
                lambda: turn(k, offset, size),
                lambda: self.pack_scalars(
                    panel, across, lanes, valid, column, b, depth, k, _add(e, k, str(size))
                ),
            )
            return []

        if known is None:
            blocks, _ = _divide(e, count, size)
            done = _multiply(e, blocks, size)
        else:
            blocks, done = str(known // size), str(known // size * size)
        _loop(e, "0", blocks, block)
        if known is not None and plan.b_depth.stride is not None:
            if rest := known % size:
                turn(done, _add(e, depth, done), rest)
        else:
            self.pack_scalars(panel, across, lanes, valid, column, b, depth, done, count)

    def pack_scalars(
        self,
        panel: Panel,
        across: int | str,
        lanes: int,
        valid: int,
        column: str,
        b: str,
        depth: str,
        first: str,
        last: str,
    ) -> None:
        """Compose the vectors of lines [first, last) of elements, whatever their strides."""
        e, plan = self.e, self.plan
        if first == last:
            return
        stride = plan.b_column.stride
        if stride is None:
            starts = [
                _at(e, b, self.number("b_column", _add(e, column, str(n))), self.element)
                for n in range(valid)
            ]
        else:
            starts = [_at(e, b, _multiply(e, column, stride), self.element)]

        def line(k: str, _: list[str]) -> list[str]:
            offset = self.offset(plan.b_depth, "b_depth", _add(e, depth, k))
            lines = [_at(e, start, offset, self.element) for start in starts]
            value = _zero(lanes)
            for n in range(valid):
                source = lines[n] if stride is None else _at(e, lines[0], str(n * stride), self.element)
                scalar = self.load(1, source)
                if lanes == 1:
                    value = scalar
                else:
                    value = e.op(
                        f"insertelement {self.kind(lanes)} {value}, {self.element} {scalar}, i64 {n}"
                    )
            home = _add(e, _multiply(e, k, panel.width), str(across))
            there = _at(e, self.scratch, home, self.element)
            self.store(lanes, value, there, self.aligned_line(panel, lanes))
            return []

        _loop(e, first, last, line)


# --- a plain epilogue -------------------------------------------------------------------------------------


def store_plain(
    e: Emitter,
    value: str,
    index: Index,
    c: str,
    *,
    dtype: np.dtype,
    batch: int,
    row: int | str,
    column: int | str,
) -> None:
    """Store a value into an array: at batch · stride + row · stride + column · stride elements behind `c`.

    For rows and columns, instead of a stride the name of a pointer to a table of i64 offsets may be given.
    """
    element = TYPES[np.dtype(dtype)]
    size = np.dtype(dtype).itemsize

    def offset(where: int | str, number: str) -> str:
        if isinstance(where, int):
            return _multiply(e, number, where)
        return e.op(f"load i64, ptr {_at(e, where, number, 'i64')}, align 8")

    line = _at(e, c, _add(e, _multiply(e, index.batch, batch), offset(row, index.row)), element)
    if column == 1 or index.lanes == 1:
        there = _at(e, line, offset(column, index.column), element)
        kind = vector(element, index.lanes)
        if index.mask is None:
            e.line(f"store {kind} {value}, ptr {there}, align {size}")
        else:
            name = f"llvm.masked.store.v{index.lanes}f{8 * size}.p0"
            mask = (f"<{index.lanes} x i1>", index.mask)
            e.call(name, "void", [(kind, value), ("ptr", there), ("i32", str(size)), mask])
        return
    for lane in range(index.valid):
        scalar = _lanes_of(e, value, element, index.lanes, lane, 1)
        there = _at(e, line, offset(column, _add(e, index.column, str(lane))), element)
        e.line(f"store {element} {scalar}, ptr {there}, align {size}")
