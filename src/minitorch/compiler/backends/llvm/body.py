"""What is computed at one place of a loop: a graph of loads, constants and functions, and its writing as LLVM.

Enters: Values and the index at which they are wanted. Leaves: `Node`s, in which views are gone (a load knows
where it reads, as a sum of loop counters), and instructions on vectors for them. Loop kernels and the epilogues
of contractions are written by the same `Writer`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.backends.llvm.text import TYPES, Emitter, literal, splat, vector
from minitorch.compiler.ir.index import Affine, Condition, Dim, Index, offset, through
from minitorch.compiler.ir.program import Value

INT64 = np.dtype(np.int64)
VIEWS = {"reshape", "permute", "expand", "slice", "window"}


class Node:
    """One thing computed at a place.

    kind: 'constant' (data: the number), 'load' (data: operand, offset, strides of args, conditions; args:
    indices read from memory), 'index' (data: an affine sum), 'map' (data: function), 'pad' (data: conditions,
    number), 'result' (data: the Value of a reduction that an earlier pass has finished).
    dims: the loops it depends on.
    """

    __slots__ = ("args", "data", "dims", "dtype", "kind")

    def __init__(
        self, kind: str, args: tuple[Node, ...], data: Any, dtype: np.dtype, dims: frozenset[Dim]
    ) -> None:
        self.kind = kind
        self.args = args
        self.data = data
        self.dtype = dtype
        self.dims = dims


def dims_in(affines: Sequence[Affine]) -> frozenset[Dim]:
    """Return the loops that some sums depend on."""
    return frozenset(d for a in affines for d, _ in a[1])


class Body:
    """The graph of one kernel while it is being built; equal nodes are one node.

    stored: tells which Values lie in memory. results: reductions of this kernel, as nodes.
    operands: the Values read or written, in the order of the kernel's slots.
    """

    def __init__(self, stored: Callable[[Value], bool]) -> None:
        self.stored = stored
        self.operands: list[Any] = []
        self.given: dict[Value, Node] = {}
        self._given_at: dict[Value, Index] = {}
        self._places: dict[Any, int] = {}
        self._nodes: dict[Any, Node] = {}
        self._known: dict[Any, Node] = {}

    def operand(self, key: Any) -> int:
        """Return the slot of a buffer."""
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self.operands)
            self.operands.append(key)
        return place

    def _make(
        self, kind: str, args: tuple[Node, ...], data: Any, dtype: np.dtype, own: frozenset[Dim] = frozenset()
    ) -> Node:
        key = (kind, args, data, dtype)
        node = self._nodes.get(key)
        if node is None:
            dims = own
            for arg in args:
                dims |= arg.dims
            node = self._nodes[key] = Node(kind, args, data, dtype, dims)
        return node

    def constant(self, number: Any, dtype: np.dtype) -> Node:
        """Return a number; told apart by its bits, so that -0.0 is not 0.0."""
        return self._make("constant", (), literal(number, dtype), dtype)

    def apply(self, function: str, dtype: np.dtype, *args: Node) -> Node:
        """Return a function of nodes."""
        return self._make("map", args, function, dtype)

    def result(self, value: Value, dims: frozenset[Dim]) -> Node:
        """Return what a reduction of this kernel gives."""
        return self._make("result", (), value, value.dtype, dims)

    def at(self, value: Value, index: Index, conditions: tuple[Condition, ...] = ()) -> Node:
        """Return the value's element at an index; memory is only touched where the conditions hold."""
        key = (value, index, conditions)
        node = self._known.get(key)
        if node is None:
            node = self._at(value, index, conditions)
            if value not in self.given:
                self._known[key] = node
        return node

    def _at(self, value: Value, index: Index, conditions: tuple[Condition, ...]) -> Node:
        if value in self.given and self._given_at[value] == index and not conditions:
            return self.given[value]
        if self.stored(value) and not (value.primitive == "constant" and value.size == 1):
            return self._load(value, offset(index, value.shape), conditions)
        return self.compute(value, index, conditions)

    def give(self, value: Value, index: Index, node: Node) -> None:
        """Note the node that computes a value of this kernel at its place."""
        self.given[value] = node
        self._given_at[value] = index

    def compute(self, value: Value, index: Index, conditions: tuple[Condition, ...] = ()) -> Node:
        """Return a value's element as something to be computed here, even if it also lies in memory."""
        primitive = value.primitive
        if primitive == "constant" and value.size == 1:
            return self.constant(value.attributes["array"].reshape(-1)[0], value.dtype)
        if primitive in ("copy", "place"):
            return self.at(value.inputs[0], index, conditions)
        if primitive == "iota":
            return self._make("index", (), index[0], INT64, dims_in([index[0]]))
        if primitive in VIEWS:
            below = value.inputs[0]
            if primitive == "reshape":
                while below.primitive == "reshape":
                    below = below.inputs[0]
                if self.stored(below) and below.size > 1 and below not in self.given:
                    return self._load(below, offset(index, value.shape), conditions)
            before, _ = through(value, index)
            return self.at(value.inputs[0], before, conditions)
        if primitive == "pad":
            before, more = through(value, index)
            inner = self.at(value.inputs[0], before, tuple(dict.fromkeys(conditions + more)))
            if not more:
                return inner
            number = literal(value.attributes["value"], value.dtype)
            return self._make("pad", (inner,), (more, number), value.dtype, dims_in([c[0] for c in more]))
        if primitive == "gather":
            return self._gather(value, index, conditions)
        assert primitive == "map", f"{primitive} cannot be computed inside another kernel"
        args = tuple(self.at(i, index, conditions) for i in value.inputs)
        function = value.attributes["function"]
        if function == "cast" and args[0].dtype == value.dtype:
            return args[0]
        return self._make("map", args, function, value.dtype)

    def _load(self, value: Value, where: Affine, conditions: tuple[Condition, ...]) -> Node:
        own = dims_in([where, *(c[0] for c in conditions)])
        operand, where = self.buffer(value, where) if not conditions else (self.operand(value), where)
        return self._make("load", (), (operand, where, (), conditions), value.dtype, own)

    def buffer(self, value: Value, where: Affine) -> tuple[int, Affine]:
        """Return an operand and the place in it. A fixed distance becomes part of the operand, not of the text.

        So kernels that do the same with different pieces of an array are one function.
        """
        if where[0] <= 0:
            return self.operand(value), where
        return self.operand((value, where[0] * value.dtype.itemsize)), (0, where[1])

    def _gather(self, value: Value, index: Index, conditions: tuple[Condition, ...]) -> Node:
        x, places = value.inputs
        axis = value.attributes["axis"]
        source, shape = x, x.shape
        while source.primitive == "reshape" and not self.stored(source):
            source = source.inputs[0]
        assert self.stored(source), "what is gathered from lies in memory"
        place = self.at(places, index[axis : axis + places.ndim], conditions)
        around = (*index[:axis], (0, ()), *index[axis + places.ndim :])
        where = offset(around, shape)
        stride = 1
        for n in shape[axis + 1 :]:
            stride *= n
        own = dims_in([where, *(c[0] for c in conditions)])
        data = (self.operand(source), where, (stride,), conditions)
        return self._make("load", (place,), data, value.dtype, own)


def in_order(roots: Sequence[Node]) -> list[Node]:
    """Return the roots and all below them, arguments first."""
    order: list[Node] = []
    seen: set[Node] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args) if a not in seen)
    return order


def cost(node: Node) -> float:
    """Return roughly how many instructions on a vector one node takes."""
    if node.kind == "map":
        dtype = node.args[-1].dtype
        return float(functions.cost(node.data, dtype))
    if node.kind == "load":
        return 8.0 if node.args else 1.0
    return 2.0 if node.kind == "pad" else 0.0


class Writer:
    """Writes nodes as instructions, at a place given by the loops' counters.

    dim: the loop whose neighbours lie side by side in a vector (None: single elements); a node that does not
    depend on it is computed once, as a single element, and spread where vectors need it.
    scopes: what is known in the loops around the current place, the innermost last.
    """

    def __init__(self, emitter: Emitter, target: Target, lanes: int, dim: Dim | None) -> None:
        self.e = emitter
        self.target = target
        self.lanes = lanes
        self.dim = dim
        self.pointers: list[str] = []  # of the operands
        self.counters: dict[Dim, str] = {}
        self.mask: str | None = None  # lanes that exist, where not all do
        self.scopes: list[dict[Any, str]] = [{}]
        self.affine: Callable[[Affine], Affine] = lambda a: a  # loops may have been merged since
        # Whether a node differs between the lanes.
        self.is_vector: Callable[[Node], bool] = lambda node: self.lanes > 1 and self.dim in node.dims
        self.depths: dict[Dim, int] = {}  # how many scopes deep the loop of a dim is

    # --- what is known here ---

    def find(self, key: Any) -> str | None:
        """Return the name something has, if it has been computed in a loop around this place."""
        for scope in reversed(self.scopes):
            name = scope.get(key)
            if name is not None:
                return name
        return None

    def single(self, node: Node) -> str:
        """Return a node that is the same in all lanes, as one element."""
        if node.kind == "constant":
            return node.data
        name = self.find(node)
        assert name is not None, node.kind
        return name

    def wide(self, node: Node) -> str:
        """Return a node in all lanes."""
        if self.lanes == 1 or self.is_vector(node):
            return self.single(node)
        if node.kind == "constant":
            return splat(node.data, TYPES[node.dtype], self.lanes)
        name = self.find(("wide", node))
        if name is None:
            name = self.spread(self.single(node), TYPES[node.dtype])
            scope = next(s for s in reversed(self.scopes) if node in s)
            if scope is self.scopes[-1]:
                scope["wide", node] = name
            else:
                self.scopes[-1]["wide", node] = name
        return name

    def spread(self, name: str, element: str) -> str:
        """Put one element into all lanes."""
        kind = vector(element, self.lanes)
        first = self.e.op(f"insertelement {kind} poison, {element} {name}, i64 0")
        return self.e.op(f"shufflevector {kind} {first}, {kind} poison, <{self.lanes} x i32> zeroinitializer")

    # --- sums of counters ---

    def integer(self, a: Affine, with_dim: bool = True) -> str:
        """Return a sum of counters as one i64 (of the first lane)."""
        const, terms = a
        name: str | None = None
        for dim, factor in terms:
            if dim is self.dim and not with_dim:
                continue
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
            return str(const)
        if const:
            name = self._sum(name, str(const))
        return name

    def _sum(self, a: str, b: str) -> str:
        key = ("plus", a, b)
        return self.find(key) or self._note(key, f"add i64 {a}, {b}")

    def _note(self, key: Any, text: str) -> str:
        name = self.e.op(text)
        self.scopes[-1][key] = name
        return name

    def integers(self, a: Affine) -> str:
        """Return a sum of counters in all lanes."""
        a = self.affine(a)
        factor = next((c for d, c in a[1] if d is self.dim), 0)
        start = self.integer(a)
        if self.lanes == 1:
            return start
        kind = vector("i64", self.lanes)
        wide = splat(start, "i64", self.lanes) if start.lstrip("-").isdigit() else self.spread(start, "i64")
        if not factor:
            return wide
        steps = "<" + ", ".join(f"i64 {lane * factor}" for lane in range(self.lanes)) + ">"
        return self.e.op(f"add {kind} {wide}, {steps}")

    def condition(self, conditions: Sequence[Condition]) -> tuple[str, bool]:
        """Return whether conditions hold, and whether that differs between lanes."""
        single: str | None = None
        wide: str | None = None
        for where, low, high in conditions:
            a = self.affine(where)
            differs = self.lanes > 1 and any(d is self.dim for d, _ in a[1])
            key = ("condition", where, low, high)
            name = self.find(key)
            if name is None:
                kind = vector("i64", self.lanes) if differs else "i64"
                place = self.integers(where) if differs else self.integer(a)
                spread = (lambda text: splat(text, "i64", self.lanes)) if differs else (lambda text: text)
                moved = place if low == 0 else self.e.op(f"sub {kind} {place}, {spread(str(low))}")
                name = self.e.op(f"icmp ult {kind} {moved}, {spread(str(high - low))}")
                self.scopes[-1][key] = name
            if differs:
                bits = vector("i1", self.lanes)
                wide = name if wide is None else self.e.op(f"and {bits} {wide}, {name}")
            else:
                single = name if single is None else self.e.op(f"and i1 {single}, {name}")
        if wide is None:
            assert single is not None
            return single, False
        if single is not None:
            bits = vector("i1", self.lanes)
            wide = self.e.op(f"and {bits} {wide}, {self.spread(single, 'i1')}")
        return wide, True

    # --- memory ---

    def pointer(self, operand: int, a: Affine, element: str, extra: Sequence[tuple[str, int]] = ()) -> str:
        """Return the address of the first lane. Parts that inner loops do not change are found outside them."""
        a = self.affine(a)
        return self._pointer(operand, a[0], a[1], element, extra)

    def _pointer(
        self,
        operand: int,
        const: int,
        terms: Sequence[tuple[Dim, int]],
        element: str,
        extra: Sequence[tuple[str, int]],
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
        for place, stride in extra:
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

    def prepare(self, node: Node) -> None:
        """Find the part of a load's address that the loops inside this one do not change."""
        operand, where, _, _ = node.data
        const, terms = self.affine(where)
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

    def load(self, node: Node) -> str:
        """Write a load: of one element, of neighbours, or of elements from here and there."""
        e = self.e
        operand, where, strides, conditions = node.data
        element = memory_type(node.dtype)
        a = self.affine(where)
        if not self.is_vector(node):
            extra = [(self.single(arg), s) for arg, s in zip(node.args, strides, strict=True)]
            if conditions:
                holds, _ = self.condition(conditions)
                extra = [(e.op(f"select i1 {holds}, i64 {p}, i64 0"), s) for p, s in extra]
                where_to = self.pointer(operand, where, element, extra)
                where_to = e.op(f"select i1 {holds}, ptr {where_to}, ptr {self.pointers[operand]}")
            else:
                where_to = self.pointer(operand, where, element, extra)
            name = e.op(f"load {element}, ptr {where_to}, align {node.dtype.itemsize}")
            return self._from_memory(name, node.dtype, 1)
        lanes = self.lanes
        kind = vector(element, lanes)
        mask = self.mask
        if conditions:
            holds, differs = self.condition(conditions)
            holds = holds if differs else self.spread(holds, "i1")
            bits = vector("i1", lanes)
            mask = holds if mask is None else e.op(f"and {bits} {holds}, {mask}")
        factor = next((c for d, c in a[1] if d is self.dim), 0)
        wide_args = any(self.is_vector(arg) for arg in node.args)
        align = node.dtype.itemsize
        if factor == 1 and not wide_args:
            extra = [(self.single(arg), s) for arg, s in zip(node.args, strides, strict=True)]
            place = self.pointer(operand, where, element, extra)
            if mask is None:
                name = e.op(f"load {kind}, ptr {place}, align {align}")
            else:
                name = e.call(
                    f"llvm.masked.load.{suffix(element, lanes)}.p0",
                    kind,
                    [
                        ("ptr", place),
                        *_alignment(align),
                        (vector("i1", lanes), mask),
                        (kind, "zeroinitializer"),
                    ],
                )
        elif factor == -1 and not wide_args and mask is None:
            extra = [(self.single(arg), s) for arg, s in zip(node.args, strides, strict=True)]
            place = self.pointer(operand, where, element, extra)
            first = e.op(f"getelementptr {element}, ptr {place}, i64 {1 - lanes}")
            name = e.op(f"load {kind}, ptr {first}, align {align}")
            order = ", ".join(f"i32 {lanes - 1 - lane}" for lane in range(lanes))
            name = e.op(f"shufflevector {kind} {name}, {kind} poison, <{lanes} x i32> <{order}>")
        else:
            name = self._collect(node, operand, where, a, strides, factor, mask, element)
        return self._from_memory(name, node.dtype, lanes)

    def _collect(
        self,
        node: Node,
        operand: int,
        where: Affine,
        a: Affine,
        strides: Sequence[int],
        factor: int,
        mask: str | None,
        element: str,
    ) -> str:
        """Write a load of elements that are not neighbours."""
        e, lanes = self.e, self.lanes
        integers = vector("i64", lanes)
        extra = []
        apart: str | None = None
        if factor:
            apart = "<" + ", ".join(f"i64 {lane * factor}" for lane in range(lanes)) + ">"
        for arg, stride in zip(node.args, strides, strict=True):
            if not self.is_vector(arg):
                extra.append((self.single(arg), stride))
                continue
            part = self.single(arg)
            if stride != 1:
                part = e.op(f"mul {integers} {part}, {splat(str(stride), 'i64', lanes)}")
            apart = part if apart is None else e.op(f"add {integers} {apart}, {part}")
        place = self.pointer(operand, where, element, extra)
        if apart is None:  # one and the same element, but not in all lanes
            apart = "zeroinitializer"
        pointers = e.op(f"getelementptr {element}, ptr {place}, {integers} {apart}")
        kind = vector(element, lanes)
        bits = vector("i1", lanes)
        return e.call(
            f"llvm.masked.gather.{suffix(element, lanes)}.v{lanes}p0",
            kind,
            [
                (vector("ptr", lanes), pointers),
                *_alignment(node.dtype.itemsize),
                (bits, mask or splat("true", "i1", lanes)),
                (kind, "zeroinitializer"),
            ],
        )

    def _from_memory(self, name: str, dtype: np.dtype, lanes: int) -> str:
        if dtype.kind != "b":
            return name
        return self.e.op(f"trunc {vector('i8', lanes)} {name} to {vector('i1', lanes)}")

    def store(
        self,
        node: Node,
        operand: int,
        where: Affine,
        extra: Sequence[tuple[str, int]] = (),
        streaming: bool = False,
    ) -> None:
        """Write a node to memory at a place."""
        in_lanes = self.lanes > 1 and any(d is self.dim for d, _ in self.affine(where)[1])
        name = self.wide(node) if in_lanes else self.single(node)
        self.store_name(name, node.dtype, operand, where, extra, streaming)

    def store_name(
        self,
        name: str,
        dtype: np.dtype,
        operand: int,
        where: Affine,
        extra: Sequence[tuple[str, int]] = (),
        streaming: bool = False,
    ) -> None:
        """Write what has a name already."""
        e = self.e
        element = memory_type(dtype)
        a = self.affine(where)
        factor = next((c for d, c in a[1] if d is self.dim), 0) if self.lanes > 1 else 0
        lanes = self.lanes if factor else 1
        kind = vector(element, lanes)
        if dtype.kind == "b":
            name = e.op(f"zext {vector('i1', lanes)} {name} to {kind}")
        place = self.pointer(operand, where, element, extra)
        align = dtype.itemsize
        if lanes == 1:
            e.line(f"store {element} {name}, ptr {place}, align {align}")
        elif factor == 1:
            if self.mask is None and streaming:
                e.externs["!0"] = "!0 = !{i32 1}"
                e.line(f"store {kind} {name}, ptr {place}, align 64, !nontemporal !0")
            elif self.mask is None:
                e.line(f"store {kind} {name}, ptr {place}, align {align}")
            else:
                e.call(
                    f"llvm.masked.store.{suffix(element, lanes)}.p0",
                    "void",
                    [
                        (kind, name),
                        ("ptr", place),
                        *_alignment(align),
                        (vector("i1", lanes), self.mask),
                    ],
                )
        else:
            apart = "<" + ", ".join(f"i64 {lane * factor}" for lane in range(lanes)) + ">"
            pointers = e.op(f"getelementptr {element}, ptr {place}, {vector('i64', lanes)} {apart}")
            e.call(
                f"llvm.masked.scatter.{suffix(element, lanes)}.v{lanes}p0",
                "void",
                [
                    (kind, name),
                    (vector("ptr", lanes), pointers),
                    *_alignment(align),
                    (vector("i1", lanes), self.mask or splat("true", "i1", lanes)),
                ],
            )

    # --- nodes ---

    def write(self, node: Node) -> None:
        """Write one node whose arguments are known; its name is kept in the innermost scope."""
        if node.kind == "constant" or self.find(node) is not None:
            return
        self.scopes[-1][node] = self._write(node)

    def _write(self, node: Node) -> str:
        e = self.e
        if node.kind == "load":
            return self.load(node)
        lanes = self.lanes if self.is_vector(node) else 1
        if node.kind == "index":
            return self.integers(node.data) if lanes > 1 else self.integer(self.affine(node.data))
        if node.kind == "pad":
            conditions, number = node.data
            holds, differs = self.condition(conditions)
            element = TYPES[node.dtype]
            kind = vector(element, lanes)
            inner = self.wide(node.args[0]) if lanes > 1 else self.single(node.args[0])
            otherwise = splat(number, element, lanes)
            test = vector("i1", lanes) if differs else "i1"
            return e.op(f"select {test} {holds}, {kind} {inner}, {kind} {otherwise}")
        assert node.kind == "map", node.kind
        names = [self.wide(arg) if lanes > 1 else self.single(arg) for arg in node.args]
        if node.data == "cast":
            return functions.emit_function(e, "cast", names, node.args[0].dtype, lanes, to=node.dtype)
        return functions.emit_function(e, node.data, names, node.args[-1].dtype, lanes)


def memory_type(dtype: np.dtype) -> str:
    """Return the type of an element in memory."""
    return "i8" if dtype.kind == "b" else TYPES[dtype]


def suffix(element: str, lanes: int) -> str:
    """Return how intrinsics spell a vector type.

    >>> suffix("float", 16), suffix("i8", 4)
    ('v16f32', 'v4i8')
    """
    short = {"float": "f32", "double": "f64"}.get(element, element)
    return f"v{lanes}{short}" if lanes > 1 else short


def _alignment(align: int) -> list[tuple[str, str]]:
    """Return the alignment as masked loads and stores of this LLVM take it."""
    return [("i32", str(align))]
