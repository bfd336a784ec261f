"""Products with what follows them. Enters: a group around a contraction. Leaves: its kernel.

Tiles of the result are computed in registers; before they are stored, everything elementwise that the group holds is
done on them there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler.backends.llvm.body import Body, Expression, addresses_in, cost, in_order
from minitorch.compiler.backends.llvm.control import take_apart
from minitorch.compiler.backends.llvm.kernel import SCRATCH, TABLE, Kernel, begin_kernel, end_kernel
from minitorch.compiler.backends.llvm.loops.loop import Store
from minitorch.compiler.backends.llvm.products import costs
from minitorch.compiler.backends.llvm.products.contraction import Contraction, StridedLoop
from minitorch.compiler.backends.llvm.products.plan import ContractionPlan
from minitorch.compiler.backends.llvm.products.planning import plan_contraction
from minitorch.compiler.backends.llvm.products.write_base import Position, prefetch
from minitorch.compiler.backends.llvm.products.write_kernel import emit_contraction
from minitorch.compiler.backends.llvm.space import Space
from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.backends.llvm.text import Emitter, memory_type
from minitorch.compiler.backends.llvm.writer import Writer
from minitorch.compiler.ir.index import Affine, Dim, offset, total
from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import typical


@dataclass
class Operand:
    """One side of a product: where it begins, and how far each of its loops moves."""

    place: int  # among the kernel's operands
    strides: dict[Dim, int]  # 0 where the operand is the same all along a loop


@dataclass
class Product:
    """What a product's kernel computes: result[out] = Σ a·b, and stores of what is made of it."""

    value: Value
    a: Operand
    b: Operand
    index: tuple[Affine, ...]  # of the result
    summed: list[Dim]
    body: Body
    node: Expression  # stands for the result in the stores' graphs
    stores: list[Store]


class _Roles(NamedTuple):
    """Which loops of the result are rows, columns and batches, and which operand is A: the one that has the rows."""

    a: Operand
    b: Operand
    batch: list[Dim]
    rows: list[Dim]
    columns: list[Dim]

    def contraction(self, product: Product) -> Contraction:
        """Return the product as strides."""

        def strided(dims: list[Dim]) -> tuple[StridedLoop, ...]:
            return tuple(
                StridedLoop(d.size, self.a.strides.get(d, 0), self.b.strides.get(d, 0)) for d in dims
            )

        loops = (self.batch, self.rows, self.columns, product.summed)
        return Contraction(product.value.dtype, *map(strided, loops))


class _Touched(NamedTuple):
    """Memory that an epilogue reads or writes."""

    operand: int
    where: Affine
    dtype: np.dtype
    written: bool


def write_product(product: Product, target: Target) -> Kernel:
    """Choose which operand lies along the vectors, plan, and write the kernel."""
    where = offset(product.index, product.value.shape)
    dims = [d for d, _ in sorted(where[1], key=lambda t: -abs(typical(t[1])))]  # as the result lies in memory
    nodes = in_order([s.node for s in product.stores])
    space = Space(addresses_in(nodes) | {s.where for s in product.stores}, dims)
    roles = _roles(product, dims, space)
    plan = plan_contraction(roles.contraction(product), target)
    return _ProductWriter(product, target, plan, space, roles, nodes).kernel()


def _roles(product: Product, dims: list[Dim], space: Space) -> _Roles:
    """Give the loops of a result their roles; `space` joins the columns."""
    a, b = product.a, product.b
    rows = [d for d in dims if d not in b.strides]
    columns = [d for d in dims if d not in a.strides]
    batch = [d for d in dims if d in a.strides and d in b.strides]
    neighbours_are_rows = bool(dims) and dims[-1] in rows
    if neighbours_are_rows or not columns:  # let A and B change places
        a, b, rows, columns = b, a, columns, rows
    joined = list(columns)
    space.join_inner(joined)
    if len(joined) > 1:  # vectors lie along what is one in memory; the rest counts as batches
        inner = [d for d in columns if space.now[d] is joined[-1]]
        batch = batch + [d for d in columns if d not in inner]
        columns = inner
    return _Roles(a, b, batch, rows, columns)


class _ProductWriter:
    """Writes the kernel of a product: its tiles, and at the end of each what follows the product."""

    def __init__(
        self,
        product: Product,
        target: Target,
        plan: ContractionPlan,
        space: Space,
        roles: _Roles,
        nodes: list[Expression],
    ) -> None:
        self.product, self.target, self.plan, self.space = product, target, plan, space
        self.roles, self.nodes = roles, nodes
        self.e = Emitter()
        # The loop that vectors lie along.
        self.dim = space.now[roles.columns[-1]] if roles.columns else None
        self.varies = {n: self.dim is not None and space.depends(n, self.dim) for n in nodes}
        self.depths = dict.fromkeys(space.now.values(), 2)
        self.once: dict[Any, str] = {}  # what is the same for the whole result
        self.pointers: list[str] = []
        self.touched = self._touched()

    def kernel(self) -> Kernel:
        """Write the function."""
        e, plan, body = self.e, self.plan, self.product.body
        tables = [
            body.operand((TABLE, KnownTable(t) if isinstance(t, np.ndarray) else t))
            for t in plan.tables.values()
        ]
        scratch = body.operand(SCRATCH) if plan.scratch else None
        scratch_bytes = -(-plan.scratch // costs.LINE_BYTES) * costs.LINE_BYTES
        self.pointers = begin_kernel(e, self.target, body.operands)
        mine = None
        if scratch is not None:
            by = e.op(f"mul i64 %thread, {scratch_bytes}")
            mine = e.op(f"getelementptr i8, ptr {self.pointers[scratch]}, i64 {by}")
        writer = self._writer(e, plan.problem.lanes)
        writer.scopes = [self.once]
        for node in self.nodes:
            if not node.dims and node is not self.product.node:
                writer.write(node)
        emit_contraction(
            e,
            plan,
            a=self.pointers[self.roles.a.place],
            b=self.pointers[self.roles.b.place],
            tables=[self.pointers[t] for t in tables],
            scratch=mine,
            start="%start",
            stop="%stop",
            fetch=self._fetch if self.touched else None,
            epilogue=self._epilogue,
        )
        e.line("ret i64 0")
        extra = sum(cost(n) for n in self.nodes) * typical(total(list(self.space.now)))
        return Kernel(
            end_kernel(e),
            body.operands,
            plan.units or 1,
            e.externs,
            scratch_bytes,
            plan.cycles / costs.CLOCK_HZ + extra * costs.EPILOGUE_SECONDS,
            plan.flops,
            f"{plan.form}, {plan.problem.rows!s}×{plan.problem.columns!s}×{plan.problem.depth!s}",
            plan.flops,
        )

    def _writer(self, e: Emitter, lanes: int) -> Writer:
        return Writer(e, lanes, self.dim, self.space, self.varies, self.depths, self.pointers)

    def _touched(self) -> list[_Touched]:
        """Return what the epilogue touches tile by tile.

        That is what lies along the vectors and differs from row to row. Small results stay near by themselves.
        """
        if self.plan.form != "columns" or typical(self.product.value.nbytes) < costs.FETCHED_BYTES:
            return []
        found: dict[tuple[int, Affine], _Touched] = {}
        for node in self.nodes:
            if node.kind == "load" and not node.args and not node.data.conditions:
                operand, where = node.data.operand, node.data.where
                found[operand, where] = _Touched(operand, where, node.dtype, False)
        for store in self.product.stores:
            found[store.operand, store.where] = _Touched(store.operand, store.where, store.node.dtype, True)
        rows = {self.space.now[d] for d in self.roles.rows}

        def counts(where: Affine) -> bool:
            terms = dict(self.space(where)[1])
            return self.dim is not None and terms.get(self.dim) == 1 and not rows.isdisjoint(terms)

        return [touched for touched in found.values() if counts(touched.where)]

    def _fetch(self, e: Emitter, position: Position, columns: int) -> None:
        """Ask for the memory that the epilogue will touch in some columns of a row."""
        writer = self._at(e, position)
        for operand, where, dtype, written in self.touched:
            place = writer.pointer(operand, where, memory_type(dtype))
            prefetch(e, place, columns * dtype.itemsize, written)

    def _at(self, e: Emitter, position: Position) -> Writer:
        """Return a writer for one vector of the result."""
        writer = self._writer(e, position.lanes)
        writer.scopes = [self.once, {}]
        if self.dim is not None:
            writer.counters[self.dim] = position.column
        for dims, number in ((self.roles.batch, position.batch), (self.roles.rows, position.row)):
            now = [self.space.now[d] for d in dims]
            counters = take_apart(e, number, [d.size for d in now])
            writer.counters.update(zip(now, counters, strict=True))
        return writer

    def _epilogue(self, e: Emitter, value: str, position: Position) -> None:
        """Write what follows the product, for one vector of it."""
        writer = self._at(e, position)
        writer.mask = position.mask
        writer.scopes[-1][self.product.node] = value
        for node in self.nodes:
            if node is not self.product.node and node.dims:
                writer.write(node)
        for store in self.product.stores:
            writer.store(store.node, store.operand, store.where)


class KnownTable:
    """An array as part of an operand's name: equal if the numbers are."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self._key = (array.dtype.str, array.shape, array.tobytes())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KnownTable) and self._key == other._key
