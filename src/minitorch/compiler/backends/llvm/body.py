"""What is computed at one place of a loop: a graph of loads, constants and functions.

Enters: Values and the index at which they are wanted. Leaves: `Expression`s, in which views are gone: a load knows
where it reads, as a sum of loop counters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.text import literal
from minitorch.compiler.ir import program
from minitorch.compiler.ir.index import Affine, Condition, Dim, Index, offset, through
from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import Size, surely_less

INT64 = np.dtype(np.int64)
GATHER_COST = 8.0  # of elements from here and there, in instructions on a vector
PAD_COST = 2.0
VIEWS = {"reshape", "permute", "expand", "slice", "window"}


class Load(NamedTuple):
    """Where a load reads: a place in an operand, and where conditions hold only."""

    operand: int
    where: Affine
    strides: tuple[int, ...]  # of the expression's arguments, which are indices read from memory
    conditions: tuple[Condition, ...]


class Pad(NamedTuple):
    """A number, as a literal, wherever conditions do not hold."""

    conditions: tuple[Condition, ...]
    number: str


class Expression:
    """One thing computed at a place.

    kind: 'constant' (data: the number), 'load' (data: a Load), 'index' (data: an affine sum), 'map' (data: function),
    'pad' (data: a Pad), 'result' (data: the Value of a reduction that an earlier pass has finished).
    dims: the loops it depends on.
    """

    __slots__ = ("args", "data", "dims", "dtype", "kind")

    def __init__(
        self, kind: str, args: tuple[Expression, ...], data: Any, dtype: np.dtype, dims: frozenset[Dim]
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
    operands: the Values read or written, in the order of the kernel's slots. rows: Values whose rows lie further
    apart than they are long: what stands for each among the operands, and how far that is.
    """

    def __init__(
        self, stored: Callable[[Value], bool], rows: Mapping[Any, tuple[Any, int]] = MappingProxyType({})
    ) -> None:
        self.stored = stored
        self.rows = rows
        self.operands: list[Any] = []
        self.given: dict[Value, Expression] = {}
        self._given_at: dict[Value, Index] = {}
        self._places: dict[Any, int] = {}
        self._nodes: dict[Any, Expression] = {}
        self._known: dict[Any, Expression] = {}

    def operand(self, key: Any) -> int:
        """Return the slot of a buffer."""
        if self.rows:
            value, *distance = key if isinstance(key, tuple) else (key,)
            if value in self.rows:
                key = (self.rows[value][0], *distance) if distance else self.rows[value][0]
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self.operands)
            self.operands.append(key)
        return place

    def place(self, value: Value, index: Index, shape: tuple[int, ...] | None = None) -> Affine:
        """Return where a value's element lies. shape: under which it is looked at, if not under its own."""
        shape = value.shape if shape is None else shape
        if value in self.rows:
            assert shape[-1] == value.shape[-1], "rows that lie apart are not cut"
            shape = (*shape[:-1], self.rows[value][1])
        return offset(index, shape)

    def _make(
        self,
        kind: str,
        args: tuple[Expression, ...],
        data: Any,
        dtype: np.dtype,
        own: frozenset[Dim] = frozenset(),
    ) -> Expression:
        key = (kind, args, data, dtype)
        node = self._nodes.get(key)
        if node is None:
            dims = own
            for arg in args:
                dims |= arg.dims
            node = self._nodes[key] = Expression(kind, args, data, dtype, dims)
        return node

    def constant(self, number: Any, dtype: np.dtype) -> Expression:
        """Return a number; told apart by its bits, so that -0.0 is not 0.0."""
        if isinstance(number, Size):
            return self._make("index", (), (number, ()), INT64)
        return self._make("constant", (), literal(number, dtype), dtype)

    def apply(self, function: str, dtype: np.dtype, *args: Expression) -> Expression:
        """Return a function of nodes."""
        return self._make("map", args, function, dtype)

    def result(self, value: Value, dims: frozenset[Dim]) -> Expression:
        """Return what a reduction of this kernel gives."""
        return self._make("result", (), value, value.dtype, dims)

    def at(self, value: Value, index: Index, conditions: tuple[Condition, ...] = ()) -> Expression:
        """Return the value's element at an index; memory is only touched where the conditions hold."""
        key = (value, index, conditions)
        node = self._known.get(key)
        if node is None:
            node = self._at(value, index, conditions)
            if value not in self.given:
                self._known[key] = node
        return node

    def _at(self, value: Value, index: Index, conditions: tuple[Condition, ...]) -> Expression:
        if value in self.given and self._given_at[value] == index and not conditions:
            return self.given[value]
        is_shorter_computed = value.primitive == "iota" or (value.primitive == "constant" and value.size == 1)
        if self.stored(value) and not is_shorter_computed:
            return self._load(value, self.place(value, index), conditions)
        return self.compute(value, index, conditions)

    def give(self, value: Value, index: Index, node: Expression) -> None:
        """Note the node that computes a value of this kernel at its place."""
        self.given[value] = node
        self._given_at[value] = index

    def compute(self, value: Value, index: Index, conditions: tuple[Condition, ...] = ()) -> Expression:
        """Return a value's element as something to be computed here, even if it also lies in memory."""
        primitive = value.primitive
        if primitive == "constant" and value.size == 1:
            return self.constant(value.attributes["array"].reshape(-1)[0], value.dtype)
        if primitive in ("copy", "place"):
            return self.at(value.inputs[0], index, conditions)
        if primitive == "size":
            return self.constant(value.attributes["size"], INT64)
        if primitive == "iota":
            return self._make("index", (), index[0], INT64, dims_in([index[0]]))
        if primitive in VIEWS:
            below = value.inputs[0]
            if primitive == "reshape":
                while below.primitive == "reshape":
                    below = below.inputs[0]
                if self.stored(below) and below.size != 1 and below not in self.given:
                    return self._load(below, self.place(below, index, value.shape), conditions)
            before, _ = through(value, index)
            return self.at(value.inputs[0], before, conditions)
        if primitive == "pad":
            before, more = through(value, index)
            inner = self.at(value.inputs[0], before, tuple(dict.fromkeys(conditions + more)))
            if not more:
                return inner
            number = literal(value.attributes["value"], value.dtype)
            return self._make("pad", (inner,), Pad(more, number), value.dtype, dims_in([c[0] for c in more]))
        if primitive == "gather":
            return self._gather(value, index, conditions)
        assert primitive == "map", f"{primitive} cannot be computed inside another kernel"
        args = tuple(self.at(i, index, conditions) for i in value.inputs)
        function = value.attributes["function"]
        if function == "cast" and args[0].dtype == value.dtype:
            return args[0]
        return self._make("map", args, function, value.dtype)

    def _load(self, value: Value, where: Affine, conditions: tuple[Condition, ...]) -> Expression:
        own = dims_in([where, *(c[0] for c in conditions)])
        operand, where = self.buffer(value, where) if not conditions else (self.operand(value), where)
        return self._make("load", (), Load(operand, where, (), conditions), value.dtype, own)

    def read(self, key: Any, where: Affine, dtype: np.dtype) -> Expression:
        """Return what lies in memory that is no value's."""
        return self._make("load", (), Load(self.operand(key), where, (), ()), dtype, dims_in([where]))

    def buffer(self, value: Value, where: Affine) -> tuple[int, Affine]:
        """Return an operand and the place in it. A fixed distance becomes part of the operand, not of the text.

        So kernels that do the same with different pieces of an array are one function.
        """
        if not surely_less(0, where[0]):
            return self.operand(value), where
        return self.operand((value, where[0] * value.dtype.itemsize)), (0, where[1])

    def _gather(self, value: Value, index: Index, conditions: tuple[Condition, ...]) -> Expression:
        x, places = value.inputs
        axis = value.attributes["axis"]
        if x.primitive == "iota":  # what is found there is the index itself
            return self.at(places, index, conditions)
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
        data = Load(self.operand(source), where, (stride,), conditions)
        return self._make("load", (place,), data, value.dtype, own)


def in_order(roots: Sequence[Expression]) -> list[Expression]:
    """Return the roots and all below them, arguments first."""
    return program.in_order(roots, attrgetter("args"))


def cost(node: Expression) -> float:
    """Return roughly how many instructions on a vector one node takes."""
    if node.kind == "map":
        dtype = node.args[-1].dtype
        return float(functions.cost(node.data, dtype))
    if node.kind == "load":
        return GATHER_COST if node.args else 1.0
    return PAD_COST if node.kind == "pad" else 0.0


def addresses_in(expressions: Sequence[Expression]) -> set[Affine]:
    """Return every sum of counters that some expressions compute."""
    found: set[Affine] = set()
    for expression in expressions:
        if expression.kind == "load":
            found.add(expression.data.where)
        elif expression.kind == "index":
            found.add(expression.data)
        if expression.kind in ("load", "pad"):
            found.update(where for where, _, _ in expression.data.conditions)
    return found
