"""Loop kernels: rows, and passes over each row while it stays in cache.

Enters: a `Loop`: what is stored where and folded how, over a space of loops divided into outer ones (rows) and
inner ones (along a row). Leaves: a `Kernel`: the text of one function, and how much work it is.

One form serves all. An elementwise kernel has no folds. A softmax has two folds over the inner loops, and so
three passes: the first finds the largest, the second sums the exponentials, the third divides. A fold over the
outer loops (a bias' gradient) adds into memory row by row, one sum per block of rows, and another kernel adds
the blocks up: the order of summation depends on shapes alone, never on how many threads there were.
Vectors lie along one loop, inner or outer: a fold over the inner loops with vectors along an outer one is a
fold in every lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.body import (
    Body,
    Node,
    Writer,
    cost,
    dims_in,
    in_order,
    memory_type,
    suffix,
)
from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.backends.llvm.text import TYPES, Emitter, literal, splat, vector
from minitorch.compiler.ir.index import Affine, Dim, affine, substituted, total
from minitorch.compiler.ir.program import Value

SCRATCH = "scratch"  # the operand that is a thread's own memory
UNIT_WORK = 16384  # a unit of work is about so many elements times instructions / 8
TILED_BYTES = 1 << 17  # arrays larger than this are read in squares if they are read against the grain
EXPENSIVE = 10.0  # what costs more than so many instructions is kept for the next pass, not computed again


@dataclass
class Store:
    """A node written to memory; `places` are (node, stride) pairs that say where besides the loops' counters."""

    node: Node
    operand: int
    where: Affine
    places: tuple[tuple[Node, int], ...] = ()
    function: str = "set"  # or 'add': to what is there
    last: bool = False  # nobody reads it for long, and it is larger than any cache


@dataclass
class Fold:
    """A reduction. scope: over which loops.

    'row': the inner ones; its result is known to later passes. 'column': the outer ones, into memory.
    'total': all of them, into memory. 'rows': the outer ones, of something known per row, into memory.
    'check': all of them; a nonzero result stops the program. 'scan': running results along the inner loop.
    """

    value: Value | None
    function: str  # add multiply maximum minimum logical_and logical_or argmax argmin
    source: Node
    scope: str
    operand: int = -1
    where: Affine = (0, ())
    size: int = 1  # elements of its result, per block

    @property
    def is_arg(self) -> bool:
        """Whether a place is wanted, and not the element there."""
        return self.function in ("argmax", "argmin")


@dataclass
class Loop:
    """What a kernel computes, before it is decided how."""

    body: Body
    outer: list[Dim]
    inner: list[Dim]
    divided: bool  # whether outer and inner differ in meaning; if not they may be chosen
    stores: list[Store] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)
    blocks: int = 1  # of rows, for folds over the outer loops
    position: Affine = (0, ())  # what a fold for places counts
    serial: bool = False  # the rows have to come one after the other


@dataclass
class Kernel:
    """A function of LLVM's, named @KERNEL, and what it takes to call it."""

    text: str
    operands: list[Any]
    units: int
    externs: dict[str, str]
    scratch: int = 0  # bytes per thread, in the operand SCRATCH
    seconds: float = 0.0  # a rough estimate, on one thread
    flops: float = 0.0
    note: str = ""


ATTRIBUTES = "%table, ptr %slots, i64 %start, i64 %stop, i64 %thread"


def write_loop(loop: Loop, target: Target) -> Kernel:
    """Decide how a loop runs, and write it."""
    return _LoopWriter(loop, target).kernel()


class _LoopWriter:
    def __init__(self, loop: Loop, target: Target) -> None:
        self.loop = loop
        self.target = target
        self.e = Emitter()
        self.block = "entry"
        self.nodes = in_order([s.node for s in loop.stores] + [f.source for f in loop.folds] + self._places())
        self._stages()
        self._arrange()
        self.w = Writer(self.e, target, self.lanes, self.dim)
        self.w.affine = self._now
        self.scratch_bytes = 0
        self._plan_passes()

    def _places(self) -> list[Node]:
        return [node for s in self.loop.stores for node, _ in s.places]

    # --- decisions ---------------------------------------------------------------------------------

    def _stages(self) -> None:
        """A node's stage is the number of passes over the row that have to be over before it is known."""
        stages: dict[Node, int] = {}
        fold_of = {f.value: f for f in self.loop.folds if f.scope == "row"}

        # A result's node has no arguments, so its fold's source may come later in the order: look it up.
        def stage(node: Node) -> int:
            known = stages.get(node)
            if known is None:
                for inner in in_order([node]):
                    if inner in stages:
                        continue
                    if inner.kind == "result":
                        stages[inner] = stage(fold_of[inner.data].source) + 1
                    else:
                        stages[inner] = max((stages[a] for a in inner.args), default=0)
                known = stages[node]
            return known

        for node in self.nodes:
            stage(node)
        self.stage = stages

    def _affines(self) -> set[Affine]:
        found: set[Affine] = set()
        for node in self.nodes:
            if node.kind == "load":
                found.add(node.data[1])
                found.update(c[0] for c in node.data[3])
            elif node.kind == "index":
                found.add(node.data)
            elif node.kind == "pad":
                found.update(c[0] for c in node.data[0])
        found.update(s.where for s in self.loop.stores)
        found.update(f.where for f in self.loop.folds)
        if any(f.is_arg for f in self.loop.folds):
            found.add(self.loop.position)
        return found

    def _arrange(self) -> None:
        """Choose the loop that vectors lie along, merge loops that go through memory as one, count lanes."""
        loop = self.loop
        outer, inner = list(loop.outer), list(loop.inner)
        checking = any(f.scope == "check" for f in loop.folds)
        scan = any(f.scope == "scan" for f in loop.folds)
        self._now_table = {a: a for a in self._affines()}
        self._dim_now: dict[Dim, Dim] = {d: d for d in outer + inner}
        self.full_lanes = self._full_lanes()
        if not loop.divided:
            self._merge(outer_all := outer + inner)
            choices = [(d, self._vector_cost(d, True)) for d in outer_all]
            best = min(choices, key=lambda c: c[1])[0] if choices else None
            inner = [best] if best is not None else []
            outer = [d for d in outer_all if d is not best]
            tile = self._tile(best, outer)
            if tile is not None:
                outer, inner = [*outer, best], [tile]  # type: ignore[list-item]
        else:
            self._merge(outer)
            self._merge(inner)
            choices = []
            if not scan:
                choices += [(d, self._vector_cost(d, True)) for d in inner]
            if not checking and not loop.serial:
                choices += [(d, self._vector_cost(d, False)) for d in outer]
            best = min(choices, key=lambda c: c[1])[0] if choices else None
            if scan and best is not None and self._vector_cost(None, False) < self._vector_cost(best, False):
                best = None
            if best in inner:
                inner = [d for d in inner if d is not best] + [best]
            elif best is not None:
                outer = [d for d in outer if d is not best] + [best]
        self.dim = best
        self.outer, self.inner = outer, inner
        self.along_outer = best is not None and best in outer
        self.lanes = 1
        if best is not None:
            self.lanes = min(self.full_lanes, 1 << (best.size - 1).bit_length())
        self._count_rows()

    def _tile(self, along: Dim | None, others: list[Dim]) -> Dim | None:
        """Cut a loop into short pieces if something is read against the grain (in place: `others`).

        A transposed array is read one element per cache line; going over small squares, all of a line is used
        while it is still near. Returns the loop within a square.
        """
        if along is None or total([along, *others]) * 4 < TILED_BYTES:
            return None
        against = [
            self._now(n.data[1])
            for n in self.nodes
            if n.kind == "load" and abs(self._factor(n.data[1], along)) > 1
        ]
        for a in against:
            for dim, factor in a[1]:
                if abs(factor) == 1 and dim in others:
                    for size in (16, 8, 32, 12, 10, 14, 7, 4):
                        if dim.size % size == 0 and dim.size > size:
                            outer, inner = Dim(dim.size // size), Dim(size)
                            others[others.index(dim)] = outer
                            by = affine(0, {outer: size, inner: 1})
                            for key, now in self._now_table.items():
                                self._now_table[key] = substituted(now, dim, by)
                            for original, now_dim in self._dim_now.items():
                                if now_dim is dim:
                                    self._dim_now[original] = inner
                            return inner
        return None

    def _full_lanes(self) -> int:
        sizes = {n.dtype.itemsize for n in self.nodes if n.kind != "constant"}
        sizes |= {f.value.dtype.itemsize for f in self.loop.folds if f.value is not None and not f.is_arg}
        sizes |= {s.node.dtype.itemsize for s in self.loop.stores}
        if 4 in sizes or 8 not in sizes:
            return self.target.lanes(np.float32)
        return self.target.lanes(np.float64)

    def _vector_cost(self, dim: Dim | None, along_inner: bool) -> float:
        """Estimate instructions per element when vectors lie along a loop."""
        lanes = self.full_lanes
        if dim is None:
            return sum(cost(n) + 1 for n in self.nodes) + len(self.loop.stores)
        cost_sum = 0.0
        for node in self.nodes:
            if node.kind == "load":
                factor = self._factor(node.data[1], dim)
                wide_places = any(self._depends(a, dim) for a in node.args)
                if factor in (0, 1) and not wide_places:
                    cost_sum += 1
                elif factor == -1 and not wide_places:
                    cost_sum += 2
                else:
                    cost_sum += lanes * 1.5
            else:
                cost_sum += cost(node)
        for store in self.loop.stores:
            factor = self._factor(store.where, dim)
            if factor in (0, 1):
                cost_sum += 1.5
            else:
                cost_sum += lanes * 2.5
            if any(self._depends(node, dim) for node, _ in store.places):
                return math.inf
        turns = math.ceil(dim.size / lanes)
        cost_sum *= turns * lanes / dim.size / lanes
        folds = self.loop.folds
        if (
            along_inner
        ):  # what each row costs besides its elements: waiting for one pass, and summing across lanes
            rows = [f for f in folds if f.scope == "row"]
            passes = 1 + max(self.stage.values(), default=0)
            per_row = 14.0 * len(rows) + 20.0 * sum(f.is_arg for f in rows) + 25.0 * passes
            cost_sum += per_row / max(total(self.loop.inner), 1)
        else:
            # Down the columns: each turn is far from the last one.
            cost_sum += 0.02 + 14.0 / lanes * sum(f.scope == "column" for f in folds)
        return cost_sum

    def _depends(self, node: Node, dim: Dim) -> bool:
        return any(self._dim_now[d] is dim for d in node.dims)

    def _factor(self, a: Affine, dim: Dim | None) -> int:
        for d, c in self._now(a)[1]:
            if d is dim:
                return c
        return 0

    def _now(self, a: Affine) -> Affine:
        return self._now_table.get(a, a)

    def _merge(self, dims: list[Dim]) -> None:
        """Make two neighbouring loops one wherever all that is read and written allows it (in place)."""
        place = len(dims) - 2
        while place >= 0:
            first, second = dims[place], dims[place + 1]
            ratio = second.size
            if all(
                self._coefficient(a, first) == self._coefficient(a, second) * ratio
                for a in self._now_table.values()
            ):
                merged = Dim(first.size * ratio)
                for key, a in self._now_table.items():
                    terms = tuple((merged if d is second else d, c) for d, c in a[1] if d is not first)
                    self._now_table[key] = (a[0], terms)
                for original, now in self._dim_now.items():
                    if now is first or now is second:
                        self._dim_now[original] = merged
                dims[place : place + 2] = [merged]
            place -= 1

    @staticmethod
    def _coefficient(a: Affine, dim: Dim) -> int:
        for d, c in a[1]:
            if d is dim:
                return c
        return 0

    def _count_rows(self) -> None:
        loop = self.loop
        self.chunks = (
            math.ceil(self.dim.size / self.lanes) if self.dim is not None and self.along_outer else 0
        )
        self.rows = math.prod(
            self.chunks if d is self.dim and self.along_outer else d.size for d in self.outer
        )
        self.elements = total(self.outer) * total(self.inner)
        work = sum(cost(n) for n in self.nodes) + 1
        self.work = work
        row_fold = any(f.scope == "row" for f in loop.folds)
        self.by_blocks = any(f.scope in ("column", "total", "rows") for f in loop.folds)
        # A kernel along one single loop is cut into pieces of it.
        self.flat = (
            not self.outer
            and len(self.inner) == 1
            and self.dim is self.inner[0]
            and not row_fold
            and not any(f.scope in ("scan", "column") for f in loop.folds)
            and not loop.serial
        )
        if loop.serial:
            self.units, self.rows_per_unit = 1, self.rows
        elif self.flat:
            n = self.inner[0].size
            pieces = loop.blocks if self.by_blocks else max(1, int(n * (1 + work / 8) / UNIT_WORK))
            self.units = pieces
        elif self.by_blocks:
            self.units = loop.blocks
            self.rows_per_unit = math.ceil(self.rows / loop.blocks)
        else:
            row_work = self.elements / self.rows * (1 + work / 8)
            self.rows_per_unit = max(1, min(self.rows, int(UNIT_WORK / max(row_work, 1))))
            self.units = math.ceil(self.rows / self.rows_per_unit)

    def _depth(self, node: Node) -> int:
        """How many scopes deep a node is computed: 1 once, 2 per row, deeper per loop along the row."""
        depths = self.w.depths
        depth = max((depths[self._dim_now[d]] for d in node.dims), default=1)
        return max(depth, 2) if self.stage[node] else depth

    def _plan_passes(self) -> None:
        """Say what each pass computes, and what it leaves in memory for the next."""
        loop, w = self.loop, self.w
        w.depths = {}
        if self.flat:
            w.depths[self.inner[0]] = 2
        else:
            for dim in self.outer:
                w.depths[dim] = 2
            for place, dim in enumerate(self.inner):
                w.depths[dim] = 3 + place
        self.copy_depth = 2 if self.flat else 2 + len(self.inner)
        self.is_wide = {
            n: self.lanes > 1 and any(self._dim_now[d] is self.dim for d in n.dims) for n in self.nodes
        }
        w.is_vector = self.is_wide.__getitem__
        depth = {n: self._depth(n) for n in self.nodes}
        self.depth = depth
        per_row = 2 if self.inner and not self.flat else 1
        # Results per row, written once the pass before has ended; all else during a pass.
        self.row_stores: dict[int, list[Store]] = {}
        self.pass_stores: dict[int, list[Store]] = {}
        self.pass_folds: dict[int, list[Fold]] = {}
        self.row_folds: dict[int, list[Fold]] = {}
        for store in loop.stores:
            stage = max([self.stage[store.node], *(self.stage[n] for n, _ in store.places)])
            inside = max((w.depths[d] for d, _ in self._now(store.where)[1]), default=1)
            inside = max([inside, depth[store.node], *(depth[n] for n, _ in store.places)])
            stores = self.pass_stores if inside > per_row or not self.inner else self.row_stores
            stores.setdefault(stage, []).append(store)
        for fold in loop.folds:
            folds = self.row_folds if fold.scope == "rows" else self.pass_folds
            folds.setdefault(self.stage[fold.source], []).append(fold)
        last = max([*self.row_stores, *self.pass_stores, *self.pass_folds, *self.row_folds, 0])
        self.passes = last + 1
        self._plan_keeping()

    def _sinks(self, number: int) -> list[Node]:
        found = [s.node for s in self.pass_stores.get(number, ())]
        found += [n for s in self.pass_stores.get(number, ()) for n, _ in s.places]
        return found + [f.source for f in self.pass_folds.get(number, ())]

    def _plan_keeping(self) -> None:
        """Choose what a pass keeps for later ones: what is dear to compute and was computed anyway."""
        total_cost: dict[Node, float] = {}
        for node in self.nodes:
            total_cost[node] = cost(node) + sum(
                total_cost[a] for a in node.args if self.depth[a] == self.copy_depth
            )
        self.order: list[list[Node]] = []
        self.loaded: list[set[Node]] = []
        first_use: dict[Node, int] = {}
        self.kept: dict[Node, int] = {}  # to its offset in the scratch memory, in bytes
        row = total(self.inner) * (self.lanes if self.along_outer else 1)
        for number in range(self.passes):
            loaded: set[Node] = set()
            order: list[Node] = []
            seen: set[Node] = set()
            stack = [(n, False) for n in reversed(self._sinks(number))]
            while stack:
                node, ready = stack.pop()
                if ready:
                    order.append(node)
                    continue
                if node in seen:
                    continue
                seen.add(node)
                if (
                    node in first_use
                    and self.depth[node] == self.copy_depth
                    and self.copy_depth > 2
                    and total_cost[node] >= EXPENSIVE
                ):
                    loaded.add(node)
                    order.append(node)
                    if node not in self.kept:
                        self.kept[node] = self.scratch_bytes
                        width = node.dtype.itemsize
                        # (The last vector of a row is stored whole, and so reaches beyond the row's end.)
                        self.scratch_bytes += -(-(row + self.lanes - 1) * width // 64) * 64
                    continue
                stack.append((node, True))
                stack.extend((a, False) for a in reversed(node.args) if a not in seen)
            for node in order:
                first_use.setdefault(node, number)
            self.order.append(order)
            self.loaded.append(loaded)
        self.keep_in = {node: first_use[node] for node in self.kept}
        if self.kept:
            self.scratch = self.loop.body.operand(SCRATCH)

    # --- writing: blocks and loops --------------------------------------------------------------------

    def _begin(self, name: str) -> None:
        self.e.label(name)
        self.block = name

    def _loop(
        self,
        start: str,
        stop: str,
        step: int,
        carried: list[tuple[str, str]],
        body: Callable[[str, list[str]], list[str]],
        certain: bool = True,
    ) -> list[str]:
        """Write a loop with values carried from turn to turn, and return them as they leave it.

        certain: there is at least one turn.
        """
        e = self.e
        if start.isdigit() and stop.isdigit() and int(start) + step >= int(stop) and int(start) < int(stop):
            return body(start, [init for _, init in carried])
        head, done = e.fresh("loop"), e.fresh("done")
        before = self.block
        if certain:
            e.line(f"br label %{head}")
        else:
            some = e.op(f"icmp slt i64 {start}, {stop}")
            e.line(f"br i1 {some}, label %{head}, label %{done}")
        self._begin(head)
        counter = "%" + e.fresh("i")
        names = ["%" + e.fresh("c") for _ in carried]
        at = len(e.lines)
        e.lines.extend([""] * (1 + len(carried)))
        after = body(counter, names)
        following = e.op(f"add nuw nsw i64 {counter}, {step}")
        more = e.op(f"icmp slt i64 {following}, {stop}")
        e.line(f"br i1 {more}, label %{head}, label %{done}")
        e.lines[at] = f"  {counter} = phi i64 [ {start}, %{before} ], [ {following}, %{self.block} ]"
        for k, ((kind, init), name, new) in enumerate(zip(carried, names, after, strict=True)):
            e.lines[at + 1 + k] = f"  {name} = phi {kind} [ {init}, %{before} ], [ {new}, %{self.block} ]"
        latch = self.block
        self._begin(done)
        if certain:
            return after
        return [
            e.op(f"phi {kind} [ {init}, %{before} ], [ {new}, %{latch} ]")
            for (kind, init), new in zip(carried, after, strict=True)
        ]

    # --- writing: folds ----------------------------------------------------------------------------------

    def _fold_dtype(self, fold: Fold) -> np.dtype:
        if fold.is_arg or fold.value is None:
            return fold.source.dtype
        return fold.value.dtype

    def _fold_kinds(self, fold: Fold, lanes: int) -> list[str]:
        kind = vector(TYPES[self._fold_dtype(fold)], lanes)
        return [kind, vector("i64", lanes)] if fold.is_arg else [kind]

    def _fold_start(self, fold: Fold, lanes: int) -> list[str]:
        dtype = self._fold_dtype(fold)
        if fold.is_arg:
            zero = splat(literal(0, dtype), TYPES[dtype], lanes)
            return [zero, splat("-1", "i64", lanes)]
        start = identity(fold.function, dtype) if fold.scope == "scan" else beginning(fold.function, dtype)
        return [splat(start, TYPES[dtype], lanes)]

    def _apply(self, fold: Fold, a: str, b: str, lanes: int) -> str:
        return functions.emit_function(self.e, fold.function, [a, b], self._fold_dtype(fold), lanes)

    def _accumulate(self, fold: Fold, so_far: list[str], lanes: int) -> list[str]:
        """Take the source at the current place into a fold."""
        e, w = self.e, self.w
        name = w.wide(fold.source) if lanes > 1 else w.single(fold.source)
        kinds = self._fold_kinds(fold, lanes)
        if fold.is_arg:
            counted = (
                w.integers(self.loop.position) if lanes > 1 else w.integer(self._now(self.loop.position))
            )
            takes = self._better(fold, name, so_far[0], so_far[1], lanes)
            new = [name, counted]
            if w.mask is not None and not self.along_outer:
                takes = e.op(f"and {vector('i1', lanes)} {takes}, {w.mask}")
            bits = vector("i1", lanes)
            return [
                e.op(f"select {bits} {takes}, {kind} {n}, {kind} {old}")
                for kind, n, old in zip(kinds, new, so_far, strict=True)
            ]
        new_name = self._apply(fold, so_far[0], name, lanes)
        if w.mask is not None and not self.along_outer:
            new_name = e.op(
                f"select {vector('i1', lanes)} {w.mask}, {kinds[0]} {new_name}, {kinds[0]} {so_far[0]}"
            )
        return [new_name]

    def _better(self, fold: Fold, new: str, old: str, old_place: str, lanes: int) -> str:
        """Whether a later element displaces the best so far: nan beats all numbers, the first of equals stays."""
        e = self.e
        dtype = fold.source.dtype
        kind, bits = vector(TYPES[dtype], lanes), vector("i1", lanes)
        nothing = e.op(f"icmp slt {vector('i64', lanes)} {old_place}, {splat('0', 'i64', lanes)}")
        greater = fold.function == "argmax"
        if dtype.kind == "f":
            beats = e.op(f"fcmp {'ugt' if greater else 'ult'} {kind} {new}, {old}")
            number = e.op(f"fcmp ord {kind} {old}, {old}")
            beats = e.op(f"and {bits} {beats}, {number}")
        else:
            sign = "u" if dtype.kind in "bu" else "s"
            beats = e.op(f"icmp {sign}{'gt' if greater else 'lt'} {kind} {new}, {old}")
        return e.op(f"or {bits} {nothing}, {beats}")

    def _across(self, fold: Fold, parts: list[list[str]]) -> str:
        """Fold copies and lanes into one element."""
        lanes = self.lanes if not self.along_outer else 1
        whole = self._together(fold, parts)
        if fold.is_arg:
            return self._arg_across(fold, whole, lanes)
        return whole[0] if lanes == 1 else self._horizontal(fold, whole[0], lanes)

    def _together(self, fold: Fold, parts: list[list[str]]) -> list[str]:
        """Fold the copies of an unrolled loop into one, pair by pair."""
        lanes = self.lanes
        if fold.is_arg:
            return parts[0]
        names = [p[0] for p in parts]
        while len(names) > 1:
            pairs = [
                self._apply(fold, names[i], names[i + 1], lanes) if i + 1 < len(names) else names[i]
                for i in range(0, len(names), 2)
            ]
            names = pairs
        return names

    def _horizontal(self, fold: Fold, name: str, lanes: int) -> str:
        e = self.e
        dtype = self._fold_dtype(fold)
        element = TYPES[dtype]
        kind = vector(element, lanes)
        function = fold.function
        is_float = dtype.kind == "f"
        if function in ("add", "multiply") and is_float:
            word = "fadd" if function == "add" else "fmul"
            start = identity(function, dtype)
            intrinsic = f"llvm.vector.reduce.{word}.{suffix(element, lanes)}"
            e.externs[intrinsic] = f"declare {element} @{intrinsic}({element}, {kind})"
            return e.op(f"call reassoc {element} @{intrinsic}({element} {start}, {kind} {name})")
        if dtype.kind == "b":
            word = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}.get(function, "")
            word = word or {"logical_or": "or", "logical_and": "and"}[function]
        elif is_float:
            word = {"maximum": "fmaximum", "minimum": "fminimum"}[function]
        else:
            sign = "u" if dtype.kind == "u" else "s"
            word = {"add": "add", "multiply": "mul", "maximum": sign + "max", "minimum": sign + "min"}[
                function
            ]
        return e.call(f"llvm.vector.reduce.{word}.{suffix(element, lanes)}", element, [(kind, name)])

    def _arg_across(self, fold: Fold, whole: list[str], lanes: int) -> str:
        """Choose among lanes: the best element, and of equals the one that comes first."""
        e = self.e
        if lanes == 1:
            return whole[1]
        dtype = fold.source.dtype
        element = TYPES[dtype]
        kind, places = vector(element, lanes), vector("i64", lanes)
        best = e.op(f"extractelement {kind} {whole[0]}, i64 0")
        best_place = e.op(f"extractelement {places} {whole[1]}, i64 0")
        for lane in range(1, lanes):
            new = e.op(f"extractelement {kind} {whole[0]}, i64 {lane}")
            place = e.op(f"extractelement {places} {whole[1]}, i64 {lane}")
            beats = self._better(fold, new, best, best_place, 1)
            if dtype.kind == "f":
                same = e.op(f"fcmp oeq {element} {new}, {best}")
                nan = e.op(f"fcmp uno {element} {new}, {new}")
                nan_too = e.op(f"fcmp uno {element} {best}, {best}")
                same = e.op(f"or i1 {same}, {e.op(f'and i1 {nan}, {nan_too}')}")
            else:
                same = e.op(f"icmp eq {element} {new}, {best}")
            earlier = e.op(f"icmp ult i64 {place}, {best_place}")
            beats = e.op(f"or i1 {beats}, {e.op(f'and i1 {same}, {earlier}')}")
            there = e.op(f"icmp sge i64 {place}, 0")
            beats = e.op(f"and i1 {beats}, {there}")
            best = e.op(f"select i1 {beats}, {element} {new}, {element} {best}")
            best_place = e.op(f"select i1 {beats}, i64 {place}, i64 {best_place}")
        return best_place

    # --- writing: a pass ---------------------------------------------------------------------------------

    def _unroll(self, number: int) -> int:
        """How many vectors one turn of the innermost loop handles."""
        folds = self.pass_folds.get(number, ())
        if not self.inner or any(f.scope == "scan" or f.is_arg for f in folds) or self.loop.serial:
            return 1
        work = sum(
            (1.0 if n in self.loaded[number] else cost(n))
            for n in self.order[number]
            if self.depth[n] == self.copy_depth
        )
        dim = self.inner[-1]
        turns = dim.size if self.along_outer or self.lanes == 1 else math.ceil(dim.size / self.lanes)
        most = 4 if work <= 10 else 2 if work <= 30 else 1
        return max(1, min(most, turns))

    def _pass(self, number: int) -> None:
        """Write one pass over a row, and what becomes known by it."""
        w = self.w
        folds = self.pass_folds.get(number, [])
        if folds or number in self.pass_stores:
            self._at_depth(number, 2)
            unroll = self._unroll(number)
            accumulated = {
                id(f): [self._fold_start(f, self.lanes) for _ in range(unroll)]
                for f in folds
                if f.scope not in ("column",)
            }
            accumulated = self._nest(number, list(self.inner), accumulated, unroll)
            for fold in folds:
                if fold.scope == "row":
                    assert fold.value is not None
                    name = self._across(fold, accumulated[id(fold)])
                    node = self.loop.body.given[fold.value]
                    w.scopes[-1][node] = name
                elif fold.scope in ("total", "check"):
                    whole = self._existing(fold, self._together(fold, accumulated[id(fold)])[0])
                    self.running[id(fold)] = self._apply(fold, self.running[id(fold)], whole, self.lanes)

    def _existing(self, fold: Fold, name: str) -> str:
        """Keep lanes that are no rows out of a fold over rows."""
        if not self.along_outer or self.w.mask is None or self.lanes == 1:
            return name
        kind = self._fold_kinds(fold, self.lanes)[0]
        nothing = self._fold_start(fold, self.lanes)[0]
        return self.e.op(f"select {vector('i1', self.lanes)} {self.w.mask}, {kind} {name}, {kind} {nothing}")

    def _at_depth(self, number: int, depth: int) -> None:
        """Write the nodes of a pass that belong to the scope just opened."""
        w = self.w
        for node in self.order[number]:
            if self.depth[node] == depth and depth != self.copy_depth:
                w.write(node)
            elif self.depth[node] > depth and node.kind == "load" and node not in self.loaded[number]:
                w.prepare(node)

    def _nest(
        self, number: int, dims: list[Dim], accumulated: dict[int, list[list[str]]], unroll: int
    ) -> dict[int, list[list[str]]]:
        w = self.w
        if not dims:
            return self._copies(number, [("", None)], accumulated)
        dim = dims[0]
        if len(dims) == 1:
            return self._sweep(number, dim, accumulated, unroll)

        def turn(counter: str, names: list[str]) -> list[str]:
            w.scopes.append({})
            w.counters[dim] = counter
            self._at_depth(number, len(w.scopes))
            after = self._nest(number, dims[1:], self._unflat(names, accumulated), unroll)
            w.scopes.pop()
            return self._flat_names(after)

        return self._unflat(
            self._loop("0", str(dim.size), 1, self._flat_carried(number, accumulated), turn), accumulated
        )

    def _flat_carried(self, number: int, accumulated: dict[int, list[list[str]]]) -> list[tuple[str, str]]:
        kinds = {id(f): self._fold_kinds(f, self.lanes) for f in self.pass_folds.get(number, ())}
        return [
            (kind, name)
            for key, copies in accumulated.items()
            for copy in copies
            for kind, name in zip(kinds[key], copy, strict=True)
        ]

    @staticmethod
    def _flat_names(accumulated: dict[int, list[list[str]]]) -> list[str]:
        return [name for copies in accumulated.values() for copy in copies for name in copy]

    @staticmethod
    def _unflat(names: Sequence[str], like: dict[int, list[list[str]]]) -> dict[int, list[list[str]]]:
        names = list(names)
        out: dict[int, list[list[str]]] = {}
        for key, copies in like.items():
            out[key] = []
            for copy in copies:
                out[key].append(names[: len(copy)])
                del names[: len(copy)]
        return out

    def _sweep(
        self, number: int, dim: Dim, accumulated: dict[int, list[list[str]]], unroll: int
    ) -> dict[int, list[list[str]]]:
        """Write the innermost loop: turns of `unroll` vectors, then what is left over."""
        width = self.lanes if dim is self.dim else 1
        step = width * unroll
        whole = dim.size // step * step

        def turn(counter: str, names: list[str]) -> list[str]:
            places = [(self._plus(counter, u * width), None) for u in range(unroll)]
            return self._flat_names(self._copies(number, places, self._unflat(names, accumulated)))

        if self.flat and self.units > 1:
            return self._piece(number, dim, accumulated, step, width, turn)
        if whole:
            after = self._loop("0", str(whole), step, self._flat_carried(number, accumulated), turn)
            accumulated = self._unflat(after, accumulated)
        rest = self._rest(whole, dim.size, width)
        return self._copies(number, rest, accumulated) if rest else accumulated

    def _rest(self, start: int, stop: int, width: int) -> list[tuple[str, str | None]]:
        places: list[tuple[str, str | None]] = []
        while start < stop:
            there = stop - start
            places.append((str(start), None if there >= width else lanes_mask(there, width)))
            start += width
        return places

    def _piece(
        self,
        number: int,
        dim: Dim,
        accumulated: dict[int, list[list[str]]],
        step: int,
        width: int,
        turn: Callable[[str, list[str]], list[str]],
    ) -> dict[int, list[list[str]]]:
        """Write a loop over the part of a long axis that this call is to do."""
        e = self.e
        whole = dim.size // step * step
        piece = -(-dim.size // (self.units * step)) * step  # whole turns
        first = self._times(self.unit_start, piece)
        beyond = self._times(self.unit_stop, piece)
        last = e.op(f"call i64 @llvm.smin.i64(i64 {beyond}, i64 {whole})")
        e.externs["llvm.smin.i64"] = "declare i64 @llvm.smin.i64(i64, i64)"
        after = self._loop(first, last, step, self._flat_carried(number, accumulated), turn, certain=False)
        accumulated = self._unflat(after, accumulated)
        rest = self._rest(whole, dim.size, width)
        if not rest:
            return accumulated
        # Whoever comes to the end does what is left over.
        starts = e.op(f"icmp sle i64 {first}, {whole}")
        ends = e.op(f"icmp sgt i64 {beyond}, {whole}")
        mine = e.op(f"and i1 {starts}, {ends}")
        then, join = e.fresh("rest"), e.fresh("join")
        before = self.block
        e.line(f"br i1 {mine}, label %{then}, label %{join}")
        self._begin(then)
        new = self._copies(number, rest, accumulated)
        e.line(f"br label %{join}")
        inside = self.block
        self._begin(join)
        kinds = [kind for kind, _ in self._flat_carried(number, accumulated)]
        names = [
            e.op(f"phi {kind} [ {a}, %{before} ], [ {b}, %{inside} ]")
            for kind, a, b in zip(kinds, self._flat_names(accumulated), self._flat_names(new), strict=True)
        ]
        return self._unflat(names, accumulated)

    def _plus(self, counter: str, by: int) -> str:
        if counter.isdigit():
            return str(int(counter) + by)
        return self.e.op(f"add nuw nsw i64 {counter}, {by}") if by else counter

    def _times(self, counter: str, by: int) -> str:
        if counter.isdigit():
            return str(int(counter) * by)
        return self.e.op(f"mul i64 {counter}, {by}")

    def _copies(
        self,
        number: int,
        places: Sequence[tuple[str, str | None]],
        accumulated: dict[int, list[list[str]]],
    ) -> dict[int, list[list[str]]]:
        """Write the body at some places side by side; all stores come last, so that no load waits for one."""
        w = self.w
        folds = self.pass_folds.get(number, [])
        accumulated = {key: [list(c) for c in copies] for key, copies in accumulated.items()}
        row_mask = w.mask
        pushed = bool(self.inner)
        scopes: list[dict[Any, str]] = []
        for u, (counter, mask) in enumerate(places):
            if pushed:
                w.scopes.append({})
                w.counters[self.inner[-1]] = counter
            if mask is not None:
                w.mask = mask
            for node in self.order[number]:
                if self.depth[node] == self.copy_depth or not self.inner:
                    if node in self.loaded[number]:
                        w.scopes[-1][node] = self._kept(node)
                    else:
                        w.write(node)
            for fold in folds:
                if fold.scope != "column":
                    accumulated[id(fold)][u] = self._accumulate(fold, accumulated[id(fold)][u], self.lanes)
            if pushed:
                scopes.append(w.scopes.pop())
            w.mask = row_mask
        for u, (counter, mask) in enumerate(places):
            if pushed:
                w.scopes.append(scopes[u])
                w.counters[self.inner[-1]] = counter
            if mask is not None:
                w.mask = mask
            self._write_stores(number, accumulated, u)
            if pushed:
                w.scopes.pop()
            w.mask = row_mask
        return accumulated

    def _write_stores(self, number: int, accumulated: dict[int, list[list[str]]], copy: int) -> None:
        w = self.w
        for node, stage in self.keep_in.items():
            if stage == number:
                self._keep(node)
        for fold in self.pass_folds.get(number, ()):
            if fold.scope == "column":
                self._into_column(fold)
            elif fold.scope == "scan":
                assert fold.value is not None
                w.store_name(accumulated[id(fold)][copy][0], fold.value.dtype, fold.operand, fold.where)
        for store in self.pass_stores.get(number, ()):
            self._write_store(store)

    def _write_store(self, store: Store) -> None:
        w = self.w
        extra = [(w.single(node), stride) for node, stride in store.places]
        if store.function == "set":
            w.store(store.node, store.operand, store.where, extra, self.streaming and self._may_stream(store))
            return
        lanes = self.lanes if self._factor(store.where, self.dim) else 1
        dtype = store.node.dtype
        before = self._read(store.operand, store.where, dtype, extra, lanes)
        added = w.wide(store.node) if lanes > 1 else w.single(store.node)
        after = functions.emit_function(self.e, "add", [before, added], dtype, lanes)
        w.store_name(after, dtype, store.operand, store.where, extra)

    def _read(
        self, operand: int, where: Affine, dtype: np.dtype, extra: Sequence[tuple[str, int]], lanes: int
    ) -> str:
        """Read what a place in memory holds now."""
        w, e = self.w, self.e
        element = memory_type(dtype)
        place = w.pointer(operand, where, element, extra)
        kind = vector(element, lanes)
        factor = self._factor(where, self.dim) if lanes > 1 else 1
        if lanes > 1 and factor != 1:
            apart = "<" + ", ".join(f"i64 {lane * factor}" for lane in range(lanes)) + ">"
            pointers = e.op(f"getelementptr {element}, ptr {place}, {vector('i64', lanes)} {apart}")
            name = e.call(
                f"llvm.masked.gather.{suffix(element, lanes)}.v{lanes}p0",
                kind,
                [
                    (vector("ptr", lanes), pointers),
                    ("i32", str(dtype.itemsize)),
                    (vector("i1", lanes), w.mask or splat("true", "i1", lanes)),
                    (kind, "zeroinitializer"),
                ],
            )
        elif lanes > 1 and w.mask is not None:
            name = e.call(
                f"llvm.masked.load.{suffix(element, lanes)}.p0",
                kind,
                [
                    ("ptr", place),
                    ("i32", str(dtype.itemsize)),
                    (vector("i1", lanes), w.mask),
                    (kind, "zeroinitializer"),
                ],
            )
        else:
            name = e.op(f"load {kind}, ptr {place}, align {dtype.itemsize}")
        if dtype.kind == "b":
            name = e.op(f"trunc {kind} {name} to {vector('i1', lanes)}")
        return name

    def _into_column(self, fold: Fold) -> None:
        """Take the current place into a sum that lies in memory, one per block of rows."""
        w = self.w
        assert fold.value is not None
        dtype = fold.value.dtype
        extra = [(self.unit, fold.size)] if self.units > 1 else []
        lanes = self.lanes if self._factor(fold.where, self.dim) else 1
        before = self._read(fold.operand, fold.where, dtype, extra, lanes)
        if self.along_outer and self.lanes > 1:  # every lane is a row of its own
            whole = self._existing(fold, w.wide(fold.source))
            name = self._horizontal(fold, whole, self.lanes)
        else:
            name = w.wide(fold.source) if lanes > 1 else w.single(fold.source)
        after = self._apply(fold, before, name, lanes)
        w.store_name(after, dtype, fold.operand, fold.where, extra)

    # --- what passes keep for one another ---------------------------------------------------------------

    def _kept_place(self, node: Node) -> str:
        w = self.w
        width = node.dtype.itemsize
        terms, step = [], self.lanes if self.along_outer else 1
        for dim in reversed(self.inner):
            terms.append((dim, step * width))
            step *= dim.size
        where = w.integer((self.kept[node], tuple(sorted(terms, key=lambda t: t[0].number))))
        return self.e.op(f"getelementptr i8, ptr %mine, i64 {where}", "p")

    def _kept_kind(self, node: Node) -> tuple[str, int]:
        lanes = self.lanes if self.is_wide[node] else 1
        return vector(memory_type(node.dtype), lanes), lanes

    def _keep(self, node: Node) -> None:
        kind, lanes = self._kept_kind(node)
        name = self.w.single(node)
        if node.dtype.kind == "b":
            name = self.e.op(f"zext {vector('i1', lanes)} {name} to {kind}")
        # Lanes beyond a row's end are written too: see `_plan_keeping`.
        self.e.line(f"store {kind} {name}, ptr {self._kept_place(node)}, align {node.dtype.itemsize}")

    def _kept(self, node: Node) -> str:
        kind, lanes = self._kept_kind(node)
        name = self.e.op(f"load {kind}, ptr {self._kept_place(node)}, align {node.dtype.itemsize}")
        if node.dtype.kind == "b":
            name = self.e.op(f"trunc {kind} {name} to {vector('i1', lanes)}")
        return name

    # --- the whole function ---------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        """Write the function."""
        e, w, loop = self.e, self.w, self.loop
        e.lines.append(f"define i64 @KERNEL(ptr {ATTRIBUTES}) {self.target.attributes} {{")
        e.label("entry")
        for k, _ in enumerate(loop.body.operands):
            w.pointers.append(operand_pointer(e, k))
        if self.kept:
            offset = e.op(f"mul i64 %thread, {self.scratch_bytes}")
            e.lines.append(f"  %mine = getelementptr i8, ptr {w.pointers[self.scratch]}, i64 {offset}")
        for node in self.nodes:
            if self.depth[node] == 1 and node.kind != "result" and self.copy_depth != 1:
                w.write(node)
        self.streaming = False
        streamed = [s for s in loop.stores if self._may_stream(s)]
        if streamed:
            self._if_aligned(streamed)
        else:
            self._units()
        e.lines.append("}")
        flops = sum(cost(n) for n in self.nodes if n.kind == "map") * self.elements
        loads = sum(1 for n in self.nodes if n.kind == "load")
        bytes_moved = self.elements * (loads + len(loop.stores)) * 4
        seconds = self.elements * self.work * 0.3e-9 / max(1, self.lanes) + bytes_moved / 40e9
        return Kernel(
            "\n".join(e.lines) + "\n",
            loop.body.operands,
            self.units,
            e.externs,
            self.scratch_bytes,
            seconds,
            flops,
            self._note_text(),
        )

    def _may_stream(self, store: Store) -> bool:
        """Whether a result may go past the caches: whole lines of it, if it begins on one."""
        size = store.node.dtype.itemsize
        terms = self._now(store.where)[1]
        return (
            store.last
            and store.function == "set"
            and not store.places
            and not self.along_outer
            and self.lanes * size == 64
            and store.where[0] * size % 64 == 0
            and self._factor(store.where, self.dim) == 1
            and all(factor * size % 64 == 0 for dim, factor in terms if dim is not self.dim)
        )

    def _if_aligned(self, streamed: list[Store]) -> None:
        """Write the function's body twice: past the caches where results begin on a line, and as usual."""
        e, w = self.e, self.w
        together = "0"
        for store in streamed:
            address = e.op(f"ptrtoint ptr {w.pointers[store.operand]} to i64")
            together = e.op(f"or i64 {together}, {address}")
        rest = e.op(f"and i64 {together}, 63")
        aligned = e.op(f"icmp eq i64 {rest}, 0")
        e.line(f"br i1 {aligned}, label %past, label %usual")
        known = w.scopes[0]
        for name in ("past", "usual"):
            self._begin(name)
            w.scopes[0] = dict(known)
            self.streaming = name == "past"
            self._units()

    def _units(self) -> None:
        """Write the work on all units of a call, and the return from it."""
        e, loop = self.e, self.loop
        self.running: dict[int, str] = {}
        self.unit = "0"
        totals = [f for f in loop.folds if f.scope in ("total", "check", "rows")]
        answer = "0"
        if self.units == 1:
            self.unit_start, self.unit_stop = "0", "1"
        else:
            self.unit_start, self.unit_stop = "%start", "%stop"
        if self.by_blocks and self.units > 1:

            def unit(counter: str, _: list[str]) -> list[str]:
                self.unit = counter
                self.unit_start = counter
                self.unit_stop = self._plus(counter, 1)
                self._unit(totals)
                return []

            self._loop("%start", "%stop", 1, [], unit, certain=False)
        else:
            self._unit(totals)
            for fold in loop.folds:
                if fold.scope == "check":
                    name = self.running[id(fold)]
                    found = self._horizontal(fold, name, self.lanes) if self.lanes > 1 else name
                    answer = e.op(f"zext i1 {found} to i64")
        if self.streaming:  # what went past the caches is there before anybody else runs
            e.line("fence seq_cst")
        e.line(f"ret i64 {answer}")

    def _note_text(self) -> str:
        rows = (
            f"{self.rows} rows of {total(self.inner)}" if not self.flat else f"{self.inner[0].size} in a row"
        )
        return f"{rows}, {self.passes} pass{'es' if self.passes > 1 else ''}, {self.lanes} lanes"

    def _unit(self, totals: list[Fold]) -> None:
        """Write the rows of one unit (or of all units of this call, where they need not be told apart)."""
        e, w = self.e, self.w
        loop = self.loop
        for fold in loop.folds:
            if fold.scope == "column":
                self._clear(fold)
        single = 1 if not self.along_outer else self.lanes
        lanes = {id(f): single if f.scope == "rows" else self.lanes for f in totals}
        start = {id(f): self._fold_start(f, lanes[id(f)])[0] for f in totals}
        if self.flat:
            self.running = dict(start)
            self._pass(0)
        elif self.rows == 1:
            self.running = dict(start)
            for dim in self.outer:
                w.counters[dim] = "0"
            self._row("0")
        else:
            carried = [(self._fold_kinds(f, lanes[id(f)])[0], start[id(f)]) for f in totals]
            if self.units == 1:
                first, last = "0", str(self.rows)
            else:
                first = self._times(self.unit_start, self.rows_per_unit)
                beyond = self._times(self.unit_stop, self.rows_per_unit)
                e.externs["llvm.smin.i64"] = "declare i64 @llvm.smin.i64(i64, i64)"
                last = e.op(f"call i64 @llvm.smin.i64(i64 {beyond}, i64 {self.rows})")

            def row(counter: str, names: list[str]) -> list[str]:
                self.running = {id(f): name for f, name in zip(totals, names, strict=True)}
                self._row(counter)
                return [self.running[id(f)] for f in totals]

            after = self._loop(first, last, 1, carried, row, certain=self.units == 1)
            self.running = {id(f): name for f, name in zip(totals, after, strict=True)}
        for fold in totals:
            if fold.scope == "check":
                continue
            name = self.running[id(fold)]
            if lanes[id(fold)] > 1:
                name = self._horizontal(fold, name, self.lanes)
            assert fold.value is not None
            element = memory_type(fold.value.dtype)
            place = w.pointers[fold.operand]
            if self.unit != "0":
                place = e.op(f"getelementptr {element}, ptr {place}, i64 {self.unit}")
            if fold.value.dtype.kind == "b":
                name = e.op(f"zext i1 {name} to i8")
            e.line(f"store {element} {name}, ptr {place}, align {fold.value.dtype.itemsize}")

    def _clear(self, fold: Fold) -> None:
        """Begin a sum in memory."""
        e, w = self.e, self.w
        assert fold.value is not None
        dtype = fold.value.dtype
        element = memory_type(dtype)
        n = fold.size
        start = beginning(fold.function, dtype)
        if dtype.kind == "b":
            start = {"true": "1", "false": "0"}[start]
        place = w.pointers[fold.operand]
        if self.units > 1:
            by = self._times(self.unit, n)
            place = e.op(f"getelementptr {element}, ptr {place}, i64 {by}")
        lanes = min(self.target.lanes(dtype), 1 << (n.bit_length() - 1))
        kind = vector(element, lanes)

        def turn(counter: str, _: list[str]) -> list[str]:
            there = e.op(f"getelementptr {element}, ptr {place}, i64 {counter}")
            e.line(f"store {kind} {splat(start, element, lanes)}, ptr {there}, align {dtype.itemsize}")
            return []

        self._loop("0", str(n // lanes * lanes), lanes, [], turn)
        for k in range(n // lanes * lanes, n):
            there = e.op(f"getelementptr {element}, ptr {place}, i64 {k}")
            e.line(f"store {element} {start}, ptr {there}, align {dtype.itemsize}")

    def _row(self, counter: str) -> None:
        """Write one row: its passes, and between them what is known per row."""
        e, w = self.e, self.w
        w.scopes.append({})
        rest = counter
        for dim in reversed(self.outer):
            n = self.chunks if dim is self.dim else dim.size
            if dim is self.outer[0]:
                here = rest
            elif rest.isdigit():
                rest, here = str(int(rest) // n), str(int(rest) % n)
            else:
                quotient = e.op(f"udiv i64 {rest}, {n}")
                here = e.op(f"sub i64 {rest}, {e.op(f'mul i64 {quotient}, {n}')}")
                rest = quotient
            if dim is self.dim and self.along_outer:
                here = self._times(here, self.lanes)
            w.counters[dim] = here
        if self.along_outer and self.dim is not None and self.dim.size % self.lanes:
            here = w.counters[self.dim]
            there = e.op(f"sub i64 {self.dim.size}, {here}")
            wide = w.spread(there, "i64")
            steps = "<" + ", ".join(f"i64 {lane}" for lane in range(self.lanes)) + ">"
            w.mask = e.op(f"icmp slt {vector('i64', self.lanes)} {steps}, {wide}")
        for number in range(self.passes):
            self._per_row(number)
            self._pass(number)
        w.mask = None
        w.scopes.pop()

    def _per_row(self, number: int) -> None:
        """Write what is known per row before a pass, and store what is wanted of it."""
        w = self.w
        stores = self.row_stores.get(number, [])
        folds = self.row_folds.get(number, [])
        if not stores and not folds:
            return
        sinks = [s.node for s in stores] + [f.source for f in folds]
        for node in in_order(sinks):
            w.write(node)
        for store in stores:
            self._write_store(store)
        for fold in folds:
            name = self.running[id(fold)]
            if self.along_outer:
                source = self._existing(fold, w.wide(fold.source))
                self.running[id(fold)] = self._apply(fold, name, source, self.lanes)
            else:
                self.running[id(fold)] = self._apply(fold, name, w.single(fold.source), 1)


def operand_pointer(e: Emitter, place: int) -> str:
    """Write the lookup of an operand's address."""
    slot = e.op(f"getelementptr i64, ptr %slots, i64 {place}")
    number = e.op(f"load i64, ptr {slot}, align 8")
    entry = e.op(f"getelementptr ptr, ptr %table, i64 {number}")
    return e.op(f"load ptr, ptr {entry}, align 8", "operand")


def lanes_mask(count: int, lanes: int) -> str:
    """Return the mask of the first `count` lanes.

    >>> lanes_mask(1, 2)
    '<i1 true, i1 false>'
    """
    return "<" + ", ".join(f"i1 {'true' if k < count else 'false'}" for k in range(lanes)) + ">"


def beginning(function: str, dtype: np.dtype) -> str:
    """Return what a fold begins with: NumPy's sums begin at +0, so that a sum of nothing but -0 is +0."""
    return literal(0, dtype) if function == "add" else identity(function, dtype)


def identity(function: str, dtype: np.dtype) -> str:
    """Return what changes nothing, as a literal: -0.0 for a sum, since 0.0 + -0.0 would lose a sign."""
    if function == "add":
        return literal(-0.0 if dtype.kind == "f" else 0, dtype)
    if function == "multiply":
        return literal(1, dtype)
    if function in ("logical_and", "logical_or"):
        return "true" if function == "logical_and" else "false"
    greatest = function == "maximum"
    if dtype.kind == "f":
        return literal(-np.inf if greatest else np.inf, dtype)
    if dtype.kind == "b":
        return "false" if greatest else "true"
    info = np.iinfo(dtype)
    return str(info.min if greatest else info.max)


__all__ = ["SCRATCH", "Fold", "Kernel", "Loop", "Store", "dims_in", "operand_pointer", "write_loop"]
