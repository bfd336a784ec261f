"""What a loop kernel computes, before it is decided how. Enters: a body's expressions. Leaves: a `Loop` of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from minitorch.compiler.backends.llvm.body import Body, Expression, addresses_in, in_order
from minitorch.compiler.ir.index import Affine, Dim
from minitorch.compiler.ir.program import Value


@dataclass(eq=False)
class Store:
    """An expression written to memory; `places` are (expression, stride) pairs that say where besides the counters."""

    node: Expression
    operand: int
    where: Affine
    places: tuple[tuple[Expression, int], ...] = ()
    function: str = "set"  # or 'add': to what is there
    last: bool = False  # nobody reads it for long, and it is larger than any cache


@dataclass(eq=False)
class LoopFold:
    """A reduction. scope: over which loops.

    'row': the inner ones; its result is known to later passes. 'column': the outer ones, into memory.
    'total': all of them, into memory. 'rows': the outer ones, of something known per row, into memory.
    'check': all of them; a nonzero result stops the program. 'scan': running results along the inner loop.
    """

    value: Value | None
    function: str  # add multiply maximum minimum logical_and logical_or argmax argmin
    source: Expression
    scope: str
    operand: int = -1
    where: Affine = (0, ())
    size: int = 1  # elements of its result, per block

    @property
    def is_arg(self) -> bool:
        """Whether a place is wanted, and not the element there."""
        return self.function in ("argmax", "argmin")

    @property
    def dtype(self) -> np.dtype:
        """The dtype that is folded in."""
        return self.source.dtype if self.is_arg or self.value is None else self.value.dtype


@dataclass
class Loop:
    """What a kernel computes, before it is decided how."""

    body: Body
    outer: list[Dim]
    inner: list[Dim]
    divided: bool  # whether outer and inner differ in meaning; if not they may be chosen
    stores: list[Store] = field(default_factory=list)
    folds: list[LoopFold] = field(default_factory=list)
    blocks: int = 1  # of rows, for folds over the outer loops
    position: Affine = (0, ())  # what a fold for places counts
    serial: bool = False  # the rows have to come one after the other

    def nodes(self) -> list[Expression]:
        """Return all that is computed, arguments first."""
        stored = [s.node for s in self.stores]
        places = [node for s in self.stores for node, _ in s.places]
        return in_order(stored + [f.source for f in self.folds] + places)

    def addresses(self, nodes: list[Expression]) -> set[Affine]:
        """Return every sum of counters that the kernel computes."""
        found = addresses_in(nodes)
        found.update(s.where for s in self.stores)
        found.update(f.where for f in self.folds)
        if any(f.is_arg for f in self.folds):
            found.add(self.position)
        return found

    def has(self, *scopes: str) -> bool:
        """Whether there is a fold of one of these scopes."""
        return any(f.scope in scopes for f in self.folds)
