"""Products with what follows them. Enters: a group around a contraction. Leaves: its kernel.

Tiles of the result are computed in registers; before they are stored, everything elementwise that the group holds is
done on them there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm.body import Body, Node, Writer, cost, in_order, memory_type
from minitorch.compiler.backends.llvm.loops import ATTRIBUTES, SCRATCH, Kernel, Store, operand_pointer
from minitorch.compiler.backends.llvm.products import costs
from minitorch.compiler.backends.llvm.products.contraction import Contraction, StridedLoop
from minitorch.compiler.backends.llvm.products.plan import ContractionPlan
from minitorch.compiler.backends.llvm.products.planning import plan_contraction
from minitorch.compiler.backends.llvm.products.write_base import Position, prefetch
from minitorch.compiler.backends.llvm.products.write_kernel import emit_contraction
from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.backends.llvm.text import Emitter
from minitorch.compiler.ir.index import Affine, Dim, offset, total
from minitorch.compiler.ir.program import Value


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
    node: Node  # stands for the result in the stores' graphs
    stores: list[Store]


class Merged:
    """Loops that go through memory as one, seen through the addresses of a kernel."""

    def __init__(self, affines: set[Affine], dims: list[Dim]) -> None:
        self.table = {a: a for a in affines}
        self.now: dict[Dim, Dim] = {d: d for d in dims}

    def __call__(self, a: Affine) -> Affine:
        return self.table.get(a, a)

    def merge(self, dims: list[Dim]) -> list[Dim]:
        """Make neighbours one where every address allows it, from the innermost outwards; return what is left."""
        dims = list(dims)
        while len(dims) > 1:
            first, second = dims[-2], dims[-1]
            if not all(_factor(a, first) == _factor(a, second) * second.size for a in self.table.values()):
                break
            merged = Dim(first.size * second.size)
            for key, a in self.table.items():
                terms = tuple((merged if d is second else d, c) for d, c in a[1] if d is not first)
                self.table[key] = (a[0], terms)
            for original, now in self.now.items():
                if now is first or now is second:
                    self.now[original] = merged
            dims[-2:] = [merged]
        return dims


def _factor(a: Affine, dim: Dim) -> int:
    for d, c in a[1]:
        if d is dim:
            return c
    return 0


def write_product(product: Product, target: Target) -> Kernel:
    """Choose which operand lies along the vectors, plan, and write the kernel."""
    value = product.value
    where = offset(product.index, value.shape)
    a, b = product.a, product.b
    dims = [d for d, _ in sorted(where[1], key=lambda t: -abs(t[1]))]  # as the result lies in memory
    rows = [d for d in dims if d not in b.strides]
    columns = [d for d in dims if d not in a.strides]
    batch = [d for d in dims if d in a.strides and d in b.strides]
    if (
        dims and dims[-1] in rows
    ) or not columns:  # the result's neighbours belong to A: let them change places
        a, b, rows, columns = b, a, columns, rows
    nodes = in_order([s.node for s in product.stores])
    affines = _affines(nodes, product.stores)
    merged = Merged(affines, dims)
    inner = columns
    left = merged.merge(columns)
    if len(left) > 1:  # vectors lie along what is one in memory; the rest counts as batches
        one = left[-1]
        inner = [d for d in columns if merged.now[d] is one]
        batch = batch + [d for d in columns if d not in inner]
    dim = merged.now[inner[-1]] if inner else None

    def strides(along: list[Dim]) -> tuple[StridedLoop, ...]:
        return tuple(StridedLoop(d.size, a.strides.get(d, 0), b.strides.get(d, 0)) for d in along)

    plan = plan_contraction(
        Contraction(value.dtype, strides(batch), strides(rows), strides(inner), strides(product.summed)),
        target,
    )
    return _Writer(product, target, plan, merged, a, b, batch, rows, dim, nodes).kernel()


def _affines(nodes: list[Node], stores: list[Store]) -> set[Affine]:
    found: set[Affine] = {s.where for s in stores}
    for node in nodes:
        if node.kind == "load":
            found.add(node.data[1])
            found.update(c[0] for c in node.data[3])
        elif node.kind == "index":
            found.add(node.data)
        elif node.kind == "pad":
            found.update(c[0] for c in node.data[0])
    return found


class _Writer:
    def __init__(
        self,
        product: Product,
        target: Target,
        plan: ContractionPlan,
        merged: Merged,
        a: Operand,
        b: Operand,
        batch: list[Dim],
        rows: list[Dim],
        dim: Dim | None,
        nodes: list[Node],
    ) -> None:
        self.product, self.target, self.plan, self.merged = product, target, plan, merged
        self.a, self.b, self.batch, self.rows, self.dim, self.nodes = a, b, batch, rows, dim, nodes
        self.e = Emitter()
        self.wide = {n: dim is not None and any(merged.now[d] is dim for d in n.dims) for n in nodes}
        self.depths: dict[Dim, int] = {merged.now[d]: 2 for d in merged.now}
        self.once: dict[Any, str] = {}
        self.pointers: list[str] = []

    def kernel(self) -> Kernel:
        e, plan, body = self.e, self.plan, self.product.body
        tables = [body.operand(("table", _Array(t))) for t in plan.tables.values()]
        scratch = body.operand(SCRATCH) if plan.scratch else None
        e.lines.append(f"define i64 @KERNEL(ptr {ATTRIBUTES}) {self.target.attributes} {{")
        e.label("entry")
        self.pointers = [operand_pointer(e, k) for k in range(len(body.operands))]
        mine = None
        if scratch is not None:
            by = e.op(f"mul i64 %thread, {-(-plan.scratch // 64) * 64}")
            mine = e.op(f"getelementptr i8, ptr {self.pointers[scratch]}, i64 {by}")
        writer = self._writer(e, plan.problem.lanes)
        writer.scopes = [self.once]
        for node in self.nodes:
            if not node.dims and node is not self.product.node:
                writer.write(node)
        emit_contraction(
            e,
            plan,
            a=self.pointers[self.a.place],
            b=self.pointers[self.b.place],
            tables=[self.pointers[t] for t in tables],
            scratch=mine,
            start="%start",
            stop="%stop",
            fetch=self._fetch if self._touched() else None,
            epilogue=self._epilogue,
        )
        e.line("ret i64 0")
        e.lines.append("}")
        extra = sum(cost(n) for n in self.nodes) * total(list(self.merged.now))
        seconds = plan.cycles / costs.CLOCK_HZ + extra * costs.EPILOGUE_SECONDS
        return Kernel(
            "\n".join(e.lines) + "\n",
            body.operands,
            max(plan.units, 1),
            e.externs,
            -(-plan.scratch // 64) * 64,
            seconds,
            plan.flops,
            f"{plan.form}, {plan.problem.rows}×{plan.problem.columns}×{plan.problem.depth}",
        )

    def _writer(self, e: Emitter, lanes: int) -> Writer:
        writer = Writer(e, self.target, lanes, self.dim)
        writer.affine = self.merged
        writer.pointers = self.pointers
        writer.depths = self.depths
        wide = self.wide
        writer.is_vector = lambda node: lanes > 1 and wide[node]
        return writer

    def _touched(self) -> list[tuple[int, Affine, np.dtype, bool]]:
        """Return what the epilogue touches tile by tile: operand, place, dtype, whether it is written.

        That is what lies along the vectors and differs from row to row. Small results stay near by themselves.
        """
        if self.plan.form != "columns" or self.product.value.nbytes < costs.FETCHED_BYTES:
            return []
        found: dict[tuple[int, Affine], tuple[np.dtype, bool]] = {}
        for node in self.nodes:
            if node.kind == "load" and not node.args and not node.data[3]:
                found[node.data[0], node.data[1]] = node.dtype, False
        for store in self.product.stores:
            found[store.operand, store.where] = store.node.dtype, True
        rows = {self.merged.now[d] for d in self.rows}

        def counts(where: Affine) -> bool:
            terms = dict(self.merged(where)[1])
            return self.dim is not None and terms.get(self.dim) == 1 and not rows.isdisjoint(terms)

        return [(operand, where, *how) for (operand, where), how in found.items() if counts(where)]

    def _fetch(self, e: Emitter, index: Position, columns: int) -> None:
        """Ask for the memory that the epilogue will touch in some columns of a row."""
        writer = self._at(e, index)
        for operand, where, dtype, written in self._touched():
            place = writer.pointer(operand, where, memory_type(dtype))
            prefetch(e, place, columns * dtype.itemsize, written)

    def _at(self, e: Emitter, index: Position) -> Writer:
        """Return a writer for one vector of the result."""
        writer = self._writer(e, index.lanes)
        writer.scopes = [self.once, {}]
        if self.dim is not None:
            writer.counters[self.dim] = index.column
        self._count(e, writer, self.batch, index.batch)
        self._count(e, writer, self.rows, index.row)
        return writer

    def _epilogue(self, e: Emitter, value: str, index: Position) -> None:
        """Write what follows the product, for one vector of it."""
        writer = self._at(e, index)
        writer.mask = index.mask
        writer.scopes[-1][self.product.node] = value
        for node in self.nodes:
            if node is not self.product.node and node.dims:
                writer.write(node)
        for store in self.product.stores:
            writer.store(store.node, store.operand, store.where)

    def _count(self, e: Emitter, writer: Writer, dims: list[Dim], number: str) -> None:
        """Take the counters of nested loops out of the number of their turn."""
        now = [self.merged.now[d] for d in dims]
        for place in range(len(now) - 1, -1, -1):
            n = now[place].size
            if place == 0:
                writer.counters[now[0]] = number
            elif number.isdigit():
                writer.counters[now[place]] = str(int(number) % n)
                number = str(int(number) // n)
            else:
                quotient = e.op(f"udiv i64 {number}, {n}")
                writer.counters[now[place]] = e.op(f"sub i64 {number}, {e.op(f'mul i64 {quotient}, {n}')}")
                number = quotient


class _Array:
    """An array as part of an operand's name: equal if the numbers are."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self._key = (array.dtype.str, array.shape, array.tobytes())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Array) and self._key == other._key


__all__ = ["Operand", "Product", "write_product"]
