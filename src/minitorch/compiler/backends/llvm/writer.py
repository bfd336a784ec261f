"""Expressions as LLVM text. Enters: expressions, the names of the loops' counters. Leaves: instructions on vectors.

Loop kernels and the epilogues of products are written by the same `Writer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.body import Expression, Load
from minitorch.compiler.backends.llvm.space import Space
from minitorch.compiler.backends.llvm.text import (
    TYPES,
    Emitter,
    memory_type,
    multiples,
    splat,
    suffix,
    vector,
)
from minitorch.compiler.ir.index import Affine, Condition, Dim
from minitorch.compiler.ir.sizes import Size


class Shift(NamedTuple):
    """A number read from memory that moves an address, by so many elements for each one."""

    name: str
    stride: int


class Writer:
    """Writes expressions as instructions, at a place given by the loops' counters.

    dim: the loop whose neighbours lie side by side in a vector (None: single elements); an expression that does not
    depend on it is computed once, as a single element, and spread where vectors need it.
    varies: whether each expression depends on it. scopes: what is known in the loops around the current place, the
    innermost last. depths: how many scopes deep each loop is.
    """

    def __init__(
        self,
        emitter: Emitter,
        lanes: int,
        dim: Dim | None,
        space: Space,
        varies: Mapping[Expression, bool],
        depths: Mapping[Dim, int],
        pointers: list[str],
    ) -> None:
        self.e = emitter
        self.lanes, self.dim, self.space, self.varies, self.depths = lanes, dim, space, varies, depths
        self.pointers = pointers  # of the operands
        self.counters: dict[Dim, str] = {}
        self.mask: str | None = None  # lanes that exist, where not all do
        self.existing: str | None = (
            None  # and where that varies: the number of each, the last one's for those that do not
        )
        self.scopes: list[dict[Any, str]] = [{}]

    def is_vector(self, node: Expression) -> bool:
        """Whether an expression differs between the lanes."""
        return self.lanes > 1 and self.varies[node]

    # --- what is known here ---

    def find(self, key: Any) -> str | None:
        """Return the name something has, if it has been computed in a loop around this place."""
        for scope in reversed(self.scopes):
            name = scope.get(key)
            if name is not None:
                return name
        return None

    def single(self, node: Expression) -> str:
        """Return what is the same in all lanes, as one element."""
        if node.kind == "constant":
            return node.data
        name = self.find(node)
        assert name is not None, node.kind
        return name

    def wide(self, node: Expression) -> str:
        """Return an expression in all lanes."""
        if self.lanes == 1 or self.is_vector(node):
            return self.single(node)
        if node.kind == "constant":
            return splat(node.data, TYPES[node.dtype], self.lanes)
        name = self.find(("wide", node))
        if name is None:
            name = self.spread(self.single(node), TYPES[node.dtype])
            self.scopes[-1]["wide", node] = name
        return name

    def spread(self, name: str, element: str) -> str:
        """Put one element into all lanes."""
        return self.e.spread(name, element, self.lanes)

    # --- sums of counters ---

    def integer(self, a: Affine) -> str:
        """Return a sum of counters as one i64 (of the first lane)."""
        const, terms = a
        name: str | None = None
        for dim, factor in terms:
            counter = self.counters[dim]
            if counter.lstrip("-").isdigit():
                const += int(counter) * factor
                continue
            part = counter
            if factor != 1:
                key = ("times", counter, factor)
                part = self.find(key) or self._note(key, f"mul i64 {counter}, {factor}")
            name = part if name is None else self._sum(name, part)
        if name is None:
            return f"{const}"
        if const:
            name = self._sum(name, f"{const}")
        return name

    def _sum(self, a: str, b: str) -> str:
        key = ("plus", a, b)
        return self.find(key) or self._note(key, f"add i64 {a}, {b}")

    def _note(self, key: Any, text: str) -> str:
        name = self.e.op(text)
        self.scopes[-1][key] = name
        return name

    def number(self, n: int, lanes: int) -> str:
        """Return a number in some lanes; one that varies is spread."""
        if isinstance(n, Size) and lanes > 1:
            return self.find(("number", n, lanes)) or self._spread_number(n, lanes)
        return splat(f"{n}", "i64", lanes)

    def _spread_number(self, n: int, lanes: int) -> str:
        name = self.scopes[-1]["number", n, lanes] = self.e.spread(f"{n}", "i64", lanes)
        return name

    def multiples(self, factor: int) -> str:
        """Return 0, factor, 2·factor … in the lanes."""
        if not isinstance(factor, Size):
            return multiples(factor, self.lanes)
        wide = self.number(factor, self.lanes)
        key = ("multiples", factor)
        return self.find(key) or self._note(
            key, f"mul {vector('i64', self.lanes)} {wide}, {multiples(1, self.lanes)}"
        )

    def existing_lanes(self, count: str) -> str:
        """Return the number of each lane, but for lanes beyond so many, that of the last one."""
        e, kind = self.e, vector("i64", self.lanes)
        last = self.spread(e.op(f"sub i64 {count}, 1"), "i64")
        name = f"llvm.smin.{suffix('i64', self.lanes)}"
        return e.call(name, kind, [(kind, multiples(1, self.lanes)), (kind, last)])

    def integers(self, a: Affine) -> str:
        """Return a sum of counters in all lanes."""
        factor = self.step(a)
        start = self.integer(self.space(a))
        if self.lanes == 1:
            return start
        kind = vector("i64", self.lanes)
        wide = splat(start, "i64", self.lanes) if start.lstrip("-").isdigit() else self.spread(start, "i64")
        if not factor:
            return wide
        return self.e.op(f"add {kind} {wide}, {self.multiples(factor)}")

    def condition(self, conditions: Sequence[Condition]) -> tuple[str, bool]:
        """Return whether conditions hold, and whether that differs between lanes."""
        single: str | None = None
        wide: str | None = None
        bits = vector("i1", self.lanes)
        for condition in conditions:
            differs = self.lanes > 1 and self.step(condition[0]) != 0
            name = self.find(("condition", *condition)) or self._condition(condition, differs)
            if differs:
                wide = name if wide is None else self.e.op(f"and {bits} {wide}, {name}")
            else:
                single = name if single is None else self.e.op(f"and i1 {single}, {name}")
        if wide is None:
            assert single is not None
            return single, False
        if single is not None:
            wide = self.e.op(f"and {bits} {wide}, {self.spread(single, 'i1')}")
        return wide, True

    def _condition(self, condition: Condition, differs: bool) -> str:
        """Write one comparison: moved to begin at 0, a number without sign is below the range's length."""
        where, low, high = condition
        lanes = self.lanes if differs else 1
        kind = vector("i64", lanes)
        place = self.integers(where) if lanes > 1 else self.integer(self.space(where))
        if low:
            place = self.e.op(f"sub {kind} {place}, {self.number(low, lanes)}")
        key = ("condition", *condition)
        return self._note(key, f"icmp ult {kind} {place}, {self.number(high - low, lanes)}")

    # --- memory ---

    def pointer(self, operand: int, a: Affine, element: str, shifts: Sequence[Shift] = ()) -> str:
        """Return the address of the first lane. Parts that inner loops do not change are found outside them."""
        a = self.space(a)
        return self._pointer(operand, a[0], a[1], element, shifts)

    def _pointer(
        self,
        operand: int,
        const: int,
        terms: Sequence[tuple[Dim, int]],
        element: str,
        shifts: Sequence[Shift],
    ) -> str:
        e = self.e
        base = self.pointers[operand]
        inner = [t for t in terms if self.depth(t[0]) == len(self.scopes)]
        outer = [t for t in terms if self.depth(t[0]) < len(self.scopes)]
        if outer or (const and not inner):
            key = ("pointer", operand, const, tuple(outer))
            known = self.find(key)
            if known is None:
                where = self.integer((const, tuple(outer)))
                known = e.op(f"getelementptr {element}, ptr {base}, i64 {where}", "p")
                self.scopes[-1][key] = known
            base, const = known, 0
        for place, stride in shifts:
            scaled = place if stride == 1 else e.op(f"mul i64 {place}, {stride}")
            base = e.op(f"getelementptr {element}, ptr {base}, i64 {scaled}", "p")
        if inner or const:
            where = self.integer((const, tuple(inner)))
            if where != "0":
                base = e.op(f"getelementptr {element}, ptr {base}, i64 {where}", "p")
        return base

    def depth(self, dim: Dim) -> int:
        """Return how many scopes deep a loop is."""
        return self.depths.get(dim, len(self.scopes))

    def prepare(self, node: Expression) -> None:
        """Find the part of a load's address that the loops inside this one do not change."""
        operand = node.data.operand
        const, terms = self.space(node.data.where)
        here = len(self.scopes)
        outer = tuple(t for t in terms if self.depth(t[0]) <= here)
        if outer and len(outer) < len(terms):
            key = ("pointer", operand, const, outer)
            if self.find(key) is None:
                element = memory_type(node.dtype)
                place = self.integer((const, outer))
                self.scopes[-1][key] = self.e.op(
                    f"getelementptr {element}, ptr {self.pointers[operand]}, i64 {place}", "p"
                )

    def load(self, node: Expression) -> str:
        """Write a load: of one element, of neighbours, or of elements from here and there."""
        name = self._load_lanes(node) if self.is_vector(node) else self._load_single(node)
        if node.dtype.kind != "b":
            return name
        lanes = self.lanes if self.is_vector(node) else 1
        return self.e.op(f"trunc {vector('i8', lanes)} {name} to {vector('i1', lanes)}")

    def _shifts(self, node: Expression) -> list[Shift]:
        """The arguments of a load that are the same in all lanes."""
        pairs = zip(node.args, node.data.strides, strict=True)
        return [Shift(self.single(arg), stride) for arg, stride in pairs if not self.is_vector(arg)]

    def _load_single(self, node: Expression) -> str:
        """Load one element; where conditions do not hold, any that is there."""
        e, data, element = self.e, node.data, memory_type(node.dtype)
        shifts = self._shifts(node)
        if data.conditions:
            holds, _ = self.condition(data.conditions)
            shifts = [Shift(e.op(f"select i1 {holds}, i64 {name}, i64 0"), by) for name, by in shifts]
        place = self.pointer(data.operand, data.where, element, shifts)
        if data.conditions:
            place = e.op(f"select i1 {holds}, ptr {place}, ptr {self.pointers[data.operand]}")
        return e.op(f"load {element}, ptr {place}, align {node.dtype.itemsize}")

    def _load_lanes(self, node: Expression) -> str:
        """Load an element for each lane."""
        e, lanes, data, align = self.e, self.lanes, node.data, node.dtype.itemsize
        element = memory_type(node.dtype)
        kind = vector(element, lanes)
        mask = self._load_mask(data)
        factor = self.step(data.where)
        if abs(factor) != 1 or any(self.is_vector(arg) for arg in node.args) or (factor < 0 and mask):
            return self._collect(node, factor, mask)
        place = self.pointer(data.operand, data.where, element, self._shifts(node))
        if factor == -1:
            first = e.op(f"getelementptr {element}, ptr {place}, i64 {1 - lanes}")
            name = e.op(f"load {kind}, ptr {first}, align {align}")
            order = ", ".join(f"i32 {lanes - 1 - lane}" for lane in range(lanes))
            return e.op(f"shufflevector {kind} {name}, {kind} poison, <{lanes} x i32> <{order}>")
        if mask is not None:
            return e.masked_load(element, lanes, place, align, mask)
        return e.op(f"load {kind}, ptr {place}, align {align}")

    def _load_mask(self, data: Load) -> str | None:
        """The lanes that are to be loaded, where not all are."""
        if not data.conditions:
            return self.mask
        holds, differs = self.condition(data.conditions)
        holds = holds if differs else self.spread(holds, "i1")
        if self.mask is None:
            return holds
        return self.e.op(f"and {vector('i1', self.lanes)} {holds}, {self.mask}")

    def _collect(self, node: Expression, factor: int, mask: str | None) -> str:
        """Load elements that are not neighbours."""
        e, lanes, data, element = self.e, self.lanes, node.data, memory_type(node.dtype)
        integers = vector("i64", lanes)
        shifts: list[Shift] = []
        apart = self.multiples(factor) if factor else None
        if mask is not None and mask is self.mask and self.existing and factor and not node.args:
            # (Loads of lanes one by one, each only if it exists, would take a branch each.)
            mask, apart = None, e.op(f"mul {integers} {self.existing}, {self.number(factor, lanes)}")
        for arg, stride in zip(node.args, data.strides, strict=True):
            part = self.single(arg)
            if not self.is_vector(arg):
                shifts.append(Shift(part, stride))
                continue
            if stride != 1:
                part = e.op(f"mul {integers} {part}, {self.number(stride, lanes)}")
            apart = part if apart is None else e.op(f"add {integers} {apart}, {part}")
        place = self.pointer(data.operand, data.where, element, shifts)
        apart = apart or "zeroinitializer"  # one and the same element, but not in all lanes
        pointers = e.op(f"getelementptr {element}, ptr {place}, {integers} {apart}")
        return e.gather(element, lanes, pointers, node.dtype.itemsize, mask)

    def step(self, where: Affine) -> int:
        """Return how far apart neighbouring lanes are in memory."""
        return self.space.factor(where, self.dim)

    def read(self, operand: int, where: Affine, dtype: np.dtype, shifts: Sequence[Shift], lanes: int) -> str:
        """Load what a place in memory holds now; with several lanes, as far as they exist."""
        e, element = self.e, memory_type(dtype)
        place = self.pointer(operand, where, element, shifts)
        kind = vector(element, lanes)
        factor = self.step(where) if lanes > 1 else 1
        if factor != 1:
            apart = self.multiples(factor)
            pointers = e.op(f"getelementptr {element}, ptr {place}, {vector('i64', lanes)} {apart}")
            name = e.gather(element, lanes, pointers, dtype.itemsize, self.mask)
        elif lanes > 1 and self.mask is not None:
            name = e.masked_load(element, lanes, place, dtype.itemsize, self.mask)
        else:
            name = e.op(f"load {kind}, ptr {place}, align {dtype.itemsize}")
        if dtype.kind == "b":
            name = e.op(f"trunc {kind} {name} to {vector('i1', lanes)}")
        return name

    def store(
        self,
        node: Expression,
        operand: int,
        where: Affine,
        shifts: Sequence[Shift] = (),
        streaming: bool = False,
    ) -> None:
        """Write an expression to memory at a place."""
        in_lanes = self.lanes > 1 and self.step(where)
        name = self.wide(node) if in_lanes else self.single(node)
        self.store_name(name, node.dtype, operand, where, shifts, streaming)

    def store_name(
        self,
        name: str,
        dtype: np.dtype,
        operand: int,
        where: Affine,
        shifts: Sequence[Shift] = (),
        streaming: bool = False,
    ) -> None:
        """Write what has a name already. streaming: past the caches; it must begin on a line of them."""
        e, element, align = self.e, memory_type(dtype), dtype.itemsize
        factor = self.step(where) if self.lanes > 1 else 0
        lanes = self.lanes if factor else 1
        kind = vector(element, lanes)
        if dtype.kind == "b":
            name = e.op(f"zext {vector('i1', lanes)} {name} to {kind}")
        place = self.pointer(operand, where, element, shifts)
        if lanes > 1 and factor != 1:
            apart = self.multiples(factor)
            pointers = e.op(f"getelementptr {element}, ptr {place}, {vector('i64', lanes)} {apart}")
            e.scatter(element, lanes, name, pointers, align, self.mask)
        elif lanes > 1 and self.mask is not None:
            e.masked_store(element, lanes, name, place, align, self.mask)
        elif lanes > 1 and streaming:
            e.externs["!0"] = "!0 = !{i32 1}"
            e.line(f"store {kind} {name}, ptr {place}, align 64, !nontemporal !0")
        else:
            e.line(f"store {kind} {name}, ptr {place}, align {align}")

    # --- expressions ---

    def write(self, node: Expression) -> None:
        """Write one expression whose arguments are known; its name is kept in the innermost scope."""
        if node.kind == "constant" or self.find(node) is not None:
            return
        self.scopes[-1][node] = self._write(node)

    def _write(self, node: Expression) -> str:
        e = self.e
        if node.kind == "load":
            return self.load(node)
        lanes = self.lanes if self.is_vector(node) else 1
        if node.kind == "index":
            return self.integers(node.data) if lanes > 1 else self.integer(self.space(node.data))
        if node.kind == "pad":
            return self._write_pad(node, lanes)
        assert node.kind == "map", node.kind
        names = [self.wide(arg) if lanes > 1 else self.single(arg) for arg in node.args]
        if node.data == "cast":
            return functions.emit_function(e, "cast", names, node.args[0].dtype, lanes, to=node.dtype)
        return functions.emit_function(e, node.data, names, node.args[-1].dtype, lanes)

    def _write_pad(self, node: Expression, lanes: int) -> str:
        holds, differs = self.condition(node.data.conditions)
        element = TYPES[node.dtype]
        kind = vector(element, lanes)
        inner = self.wide(node.args[0]) if lanes > 1 else self.single(node.args[0])
        otherwise = splat(node.data.number, element, lanes)
        test = vector("i1", lanes) if differs else "i1"
        return self.e.op(f"select {test} {holds}, {kind} {inner}, {kind} {otherwise}")
