"""Values computed together. Enters: values and where each lies in a space of loops. Leaves: a `Group` of them.

A group is a space of loops and the values computed at each place of it. A backend may run the places in any
order and at the same time, but for this: a group whose `inner` is not None is divided into rows (a place of the
`outer` loops) and what lies along a row. What a fold over a row gives is known to everything later in the same
row, so a row is gone through in as many passes as folds depend on each other; a value that was read from memory
may be read again by every pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from minitorch.compiler.ir.index import Affine, Dim, Index, Split, dims_of, offset, split_map, total
from minitorch.compiler.ir.program import VIEWS, Value

# Never computed for their own sake: whoever reads one reads what lies below it, at another index.
VIRTUAL = VIEWS | {"pad", "iota", "size"}
# What a reduction or a running result may do with two elements.
FOLDS = {"add", "multiply", "maximum", "minimum", "logaddexp", "logical_and", "logical_or"}
# Values that only scheduling makes: a value written out once more; a piece of a concatenation, written to its
# place in the whole (attributes: into, axis, begin); a reduction in blocks of rows, whose last step is another
# reduction.
COPY, PLACE, PARTIAL = "copy", "place", "partial"
_ALWAYS_EXPRESSIBLE = VIRTUAL | {"map", "input", "constant", "concatenate", COPY, PLACE, PARTIAL}

Kind = Literal["loop", "contract", "scan", "scatter", "concatenate", "check", "call", "composite"]
# Kinds that can stop a run: an index is out of range, NumPy raises an error.
MAY_FAIL = ("check", "call")
SORTS = ("sort", "argsort")
EXCHANGES = ("start", "wait")  # the two halves of a collective


class Contradiction(Exception):
    """Groups were made that cannot be carried out: a mistake in fusing, which says here what it was."""


class Read(NamedTuple):
    """Something that has to be known to compute one element.

    where: the index of the element, None for any: it is read from memory. conditional: not wanted everywhere.
    """

    value: Value
    where: Index | None
    conditional: bool = False


class Obstacle(NamedTuple):
    """A view through which an index cannot be carried.

    split: the loop that has to become two for it. None: no loops help, and what the view looks at has to lie in
    memory.
    """

    view: Value
    split: Split | None


class Check(NamedTuple):
    """Indices that have to lie between 0 and a bound."""

    indices: Value
    bound: int


@dataclass(eq=False)
class Group:
    """Values computed together.

    kind: 'loop'; 'contract': a product and what is done with its result; 'scan': running results along an axis, or its
        order; 'scatter'; 'concatenate': nothing, its parts are written where they are computed; 'check': of indices;
        'call': NumPy computes it; 'composite': kernels that the backend has for it, as a whole.
    members: in an order of computation. index: where each lies, in terms of the group's loops. source: the same
        for what a fold folds. scope: over which loops each fold goes:
        'row': the inner ones; its result is known to later passes. 'column': the outer ones, into memory.
        'total': all of them, into memory. 'rows': the outer ones, of something known per row, into memory.
        'scan': running results along the inner loop.
    dims: the loops. outer, inner: rows, and along a row; inner is None while nothing tells them apart.
    blocks: of rows, for folds over the outer loops. ancestors: a bit for every group that has to come before.
    letters: of a product's spec, in the order of its `source`.
    """

    number: int
    kind: Kind
    members: list[Value] = field(default_factory=list)
    index: dict[Value, Index] = field(default_factory=dict)
    source: dict[Value, Index] = field(default_factory=dict)
    scope: dict[Value, str] = field(default_factory=dict)
    dims: list[Dim] = field(default_factory=list)
    outer: list[Dim] = field(default_factory=list)
    inner: list[Dim] | None = None
    blocks: int = 1
    ancestors: int = 0
    check: Check | None = None
    letters: list[str] = field(default_factory=list)
    indices: dict[tuple[int, ...], list[Index]] = field(
        default_factory=dict
    )  # under which values lie, by shape
    needs: dict[Value, None] = field(default_factory=dict)  # what it reads
    is_followed: bool = False  # whether a group may have to come after it
    bit: int = field(init=False)  # this group among others' ancestors

    def __post_init__(self) -> None:
        self.bit = 1 << self.number

    @property
    def product(self) -> Value:
        """Of a product and what is done with its result, the product."""
        return next(member for member in self.members if member.primitive == "contract")

    @property
    def elements(self) -> int:
        """How many places its space has."""
        return total(self.dims)

    def comes_after(self, other: Group) -> bool:
        """Whether another group has to come before this one."""
        return bool(self.ancestors & other.bit)

    def is_known_in_row(self, value: Value) -> bool:
        """Whether a member can be used by others: all but folds that are finished only with the last row."""
        return self.scope.get(value, "row") == "row"

    @property
    def has_folds_over_rows(self) -> bool:
        """Whether something is finished only with the last row."""
        return any(scope != "row" for scope in self.scope.values())

    def level(self, index: Index) -> Literal["full", "row"] | None:
        """Return whether an index runs over the whole space, or over the rows; None if neither."""
        dims = set(dims_of(index))
        if len(dims) == len(self.dims):
            return "full"
        if self.inner is not None and dims == set(self.outer):
            return "row"
        return None

    @property
    def grain(self) -> Dim | None:
        """The loop along which most of its values have their neighbours."""
        first = self.members[0]
        if self.kind == "contract":
            first = next(m for m in self.members if m.primitive == "contract")
        elif first in self.source:
            return grain(self.source[first], first.inputs[0])
        return grain(self.index[first], first)

    def remember(self, shape: tuple[int, ...], index: Index) -> None:
        """Note an index under which values of a shape lie here."""
        known = self.indices.setdefault(shape, [])
        if index not in known:
            known.append(index)

    def split(self, request: Split) -> Callable[[Affine], Affine]:
        """Make one loop two, and return how indices are rewritten."""
        rewrite = split_map(request)
        _, terms = rewrite((0, ((request.dim, 1),)))
        parts = [dim for dim, _ in sorted(terms, key=lambda term: -term[1])]

        def new(index: Index) -> Index:
            return tuple(rewrite(a) for a in index)

        def replaced(dims: list[Dim]) -> list[Dim]:
            return [p for d in dims for p in (parts if d is request.dim else [d])]

        self.index = {v: new(i) for v, i in self.index.items()}
        self.source = {v: new(i) for v, i in self.source.items()}
        self.indices = {s: [new(i) for i in found] for s, found in self.indices.items()}
        self.dims = replaced(self.dims)
        self.outer = replaced(self.outer)
        self.inner = None if self.inner is None else replaced(self.inner)
        return rewrite


def grain(index: Index, value: Value) -> Dim | None:
    """Return the loop along which a value's neighbours lie."""
    _, terms = offset(index, value.shape)
    return next((dim for dim, factor in terms if factor == 1), None)


def is_expressible(value: Value) -> bool:
    """Whether a group can hold a value: what loops and products are made of, in its plain forms."""
    primitive, attributes = value.primitive, value.attributes
    if any(0 in i.shape for i in value.inputs):
        return False
    if primitive in ("reduce", "scan"):
        function = attributes["function"]
        counts = value.dtype.kind == "b" and function in ("add", "multiply")
        return function in FOLDS and value.dtype == value.inputs[0].dtype and not counts
    if primitive == "arg_reduce":
        return value.dtype == np.int64
    if primitive == "contract":
        return value.dtype.kind == "f" and _is_plain_spec(attributes["spec"])
    if primitive == "gather":
        return value.inputs[1].dtype == np.int64
    if primitive == "scatter":
        return value.inputs[1].dtype == np.int64 and value.inputs[1].ndim == 1
    return primitive in _ALWAYS_EXPRESSIBLE


def _is_plain_spec(spec: str) -> bool:
    """Whether no operand has a letter twice, and every letter is in the result or in both operands."""
    left, _, out = spec.partition("->")
    first, second = left.split(",")
    letters_ok = all(len(set(part)) == len(part) for part in (first, second, out))
    alone = [c for c in first + second if c not in out and not (c in first and c in second)]
    return letters_ok and not alone and all(c in first + second for c in out)


class Composite:
    """A function in a 'call' that a backend has kernels for, as a whole. It cannot fail, and nobody calls it."""

    def __call__(self, *arrays: object) -> object:
        """Only kernels compute it."""
        raise NotImplementedError


def is_composite(value: Value) -> bool:
    """Whether a value is computed by a backend's own kernels as a whole, or is one of the results of such a call."""
    call = value.inputs[0] if value.primitive == "item" else value
    return call.primitive == "call" and isinstance(call.attributes["function"], Composite)


def is_exchange(group: Group) -> bool:
    """Whether a group is one half of a collective."""
    return group.kind == "call" and group.members[0].primitive in EXCHANGES
