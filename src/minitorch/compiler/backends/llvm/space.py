"""Loops as a kernel runs them. Enters: the loops and addresses of what it computes. Leaves: the same, joined and cut.

Loops that go through memory as one become one loop, so that there are fewer, and longer ones. What a kernel computes
still names the loops it was made with; a `Space` says what became of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from minitorch.compiler.backends.llvm.body import Expression
from minitorch.compiler.ir.index import Affine, Dim, affine, substituted


class Space:
    """The loops of a kernel, seen through its addresses."""

    def __init__(self, addresses: Iterable[Affine], dims: Iterable[Dim]) -> None:
        self._addresses = {a: a for a in addresses}
        self.now: dict[Dim, Dim] = {d: d for d in dims}  # what became of each loop

    def __call__(self, address: Affine) -> Affine:
        """Return an address as a sum of the loops of now."""
        return self._addresses.get(address, address)

    def factor(self, address: Affine, dim: Dim | None) -> int:
        """Return how many elements further on a step of a loop leads."""
        return _factor(self(address), dim)

    def depends(self, expression: Expression, dim: Dim | None) -> bool:
        """Whether an expression changes along a loop."""
        return any(self.now[d] is dim for d in expression.dims)

    def join(self, dims: list[Dim], place: int) -> bool:
        """Make the loop at a place and the one inside it one, if every address allows it; say whether it was done."""
        first, second = dims[place], dims[place + 1]
        addresses = self._addresses.values()
        if not all(_factor(a, first) == _factor(a, second) * second.size for a in addresses):
            return False
        joined = Dim(first.size * second.size)
        for key, (const, terms) in self._addresses.items():
            self._addresses[key] = (
                const,
                tuple((joined if d is second else d, c) for d, c in terms if d is not first),
            )
        for original, now in self.now.items():
            if now is first or now is second:
                self.now[original] = joined
        dims[place : place + 2] = [joined]
        return True

    def join_all(self, dims: list[Dim]) -> None:
        """Join neighbours wherever that is possible, from the innermost outwards."""
        for place in range(len(dims) - 2, -1, -1):
            self.join(dims, place)

    def join_inner(self, dims: list[Dim]) -> None:
        """Join the innermost loop with those around it, as far as that goes."""
        while len(dims) > 1 and self.join(dims, len(dims) - 2):
            pass

    def cut(self, dim: Dim, size: int) -> tuple[Dim, Dim]:
        """Cut a loop into pieces of one size; return the loop over pieces and the one inside them.

        If they do not come out even, the last one is to be gone through in part.
        """
        outer, inner = Dim(-(-dim.size // size)), Dim(size)
        by = affine(0, {outer: size, inner: 1})
        for key, now in self._addresses.items():
            self._addresses[key] = substituted(now, dim, by)
        for original, now_dim in self.now.items():
            if now_dim is dim:
                self.now[original] = inner
        return outer, inner


def _factor(address: Affine, dim: Dim | None) -> int:
    for d, c in address[1]:
        if d is dim:
            return c
    return 0
