"""Where an element lies: indices that are sums of loop counters, carried backwards through views.

Enters: a view (reshape, permute, expand, slice, pad, window) and the index of an element of its result.
Leaves: the index of the same element in the view's input. So a view never needs a copy: whoever reads its
result reads its input at another place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

from minitorch.compiler.ir.program import Shape, Value
from minitorch.compiler.ir.sizes import hint, surely_at_most, surely_less, surely_multiple

_number = itertools.count().__next__


class Dim:
    """One loop: its counter runs from 0 to size - 1."""

    __slots__ = ("number", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.number = _number()

    def __repr__(self) -> str:
        return f"d{self.number}<{self.size}>"


# A whole number and (loop, factor) pairs, in the order of the loops' numbers; no factor is 0.
Affine = tuple[int, tuple[tuple[Dim, int], ...]]
Index = tuple[Affine, ...]
# low ≤ affine < high
Condition = tuple[Affine, int, int]

ZERO: Affine = (0, ())


class Split(Exception):
    """The loop has to become two, the inner one of `inner` steps, before an index can be written down."""

    def __init__(self, dim: Dim, inner: int) -> None:
        super().__init__(dim, inner)
        self.dim = dim
        self.inner = inner


class Inexpressible(Exception):
    """No sum of loop counters says where this element lies."""


def affine(const: int, terms: dict[Dim, int]) -> Affine:
    """Return a sum in its one written form."""
    kept = [(d, c) for d, c in terms.items() if c]
    if len(kept) > 1:
        kept.sort(key=_by_number)
    return const, tuple(kept)


def _by_number(term: tuple[Dim, int]) -> int:
    return term[0].number


def weighted(parts: Iterable[tuple[Affine, int]], const: int = 0) -> Affine:
    """Return Σ part·factor + const."""
    terms: dict[Dim, int] = {}
    for (c, inner), factor in parts:
        const += c * factor
        for dim, coefficient in inner:
            terms[dim] = terms.get(dim, 0) + coefficient * factor
    return affine(const, terms)


def shifted(a: Affine, by: int, scale: int = 1) -> Affine:
    """Return a·scale + by."""
    if scale == 1:
        return (a[0] + by, a[1])
    if scale == 0:
        return (by, ())
    return a[0] * scale + by, tuple((d, c * scale) for d, c in a[1])


def bounds(a: Affine) -> tuple[int, int]:
    """Return the least and the greatest value it takes."""
    low = high = a[0]
    for dim, coefficient in a[1]:
        low, high = low + _least(coefficient, dim), high - _least(-coefficient, dim)
    return low, high


def _least(coefficient: int, dim: Dim) -> int:
    """Return the least value of a term, if that is 0 or its value in the last turn."""
    if surely_at_most(0, coefficient):
        return 0
    if surely_at_most(coefficient, 0):
        return coefficient * (dim.size - 1)
    raise Inexpressible


def substituted(a: Affine, dim: Dim, by: Affine) -> Affine:
    """Replace a loop's counter by a sum."""
    for d, c in a[1]:
        if d is dim:
            rest = (a[0], tuple(t for t in a[1] if t[0] is not dim))
            return weighted([(rest, 1), (by, c)])
    return a


def new_index(shape: Shape) -> Index:
    """Return one fresh loop per axis; an axis of length 1 needs none."""
    return tuple(ZERO if n == 1 else (0, ((Dim(n), 1),)) for n in shape)


def strides_of(shape: Shape) -> Shape:
    """Return how many elements apart neighbours along each axis lie, the last axis innermost.

    >>> strides_of((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def offset(index: Index, shape: Shape) -> Affine:
    """Return where an element lies in memory, counted in elements."""
    if len(index) == 1:
        return index[0]
    return weighted(zip(index, strides_of(shape), strict=True))


def divided(a: Affine, n: int) -> tuple[Affine, Affine]:
    """Return quotient and remainder by n, as sums; ask for a split, or give up, where they are none."""
    quotient, remainder = {}, {}
    for dim, c in a[1]:
        if surely_multiple(c, n):
            quotient[dim] = c // n
        else:
            remainder[dim] = c
    low = sum(_least(c, d) for d, c in remainder.items())
    high = -sum(_least(-c, d) for d, c in remainder.items())
    whole = (a[0] + low) // n
    rest = a[0] - whole * n
    if surely_less(rest + high, n):
        return affine(whole, quotient), affine(rest, remainder)
    for dim, c in remainder.items():
        step = c if surely_less(0, c) else -c
        inner = n // step if surely_multiple(n, step) else 0
        if surely_less(1, inner) and surely_less(inner, dim.size) and surely_multiple(dim.size, inner):
            raise Split(dim, inner)
    raise Inexpressible


def reshaped(index: Index, shape: Shape, before: Shape) -> Index:
    """Return the index under the shape `before` of what lies at `index` under `shape`."""
    out: list[Affine] = []
    i = j = 0
    while j < len(before):
        if before[j] == 1:
            out.append(ZERO)
            j += 1
            continue
        while i < len(shape) and shape[i] == 1:
            i += 1
        if i < len(shape) and shape[i] == before[j]:  # an axis that stays
            out.append(index[i])
            i, j = i + 1, j + 1
            continue
        first_i, first_j, here, there = i, j, 1, 1  # the fewest axes on both sides with equal products
        while here != there or here == 1:
            if j == len(before) or (i < len(shape) and hint(here) <= hint(there)):
                if i == len(shape):
                    raise Inexpressible  # the two are equal only for the sizes of a call
                here *= shape[i]
                i += 1
            else:
                there *= before[j]
                j += 1
        rest = offset(index[first_i:i], shape[first_i:i])
        part: list[Affine] = []
        for n in reversed(before[first_j + 1 : j]):
            rest, inner = divided(rest, n)
            part.append(inner)
        out.extend([rest, *reversed(part)])
    return tuple(out)


def through(view: Value, index: Index) -> tuple[Index, tuple[Condition, ...]]:
    """Carry an index of a view's result back to its input; a pad's input exists only under conditions."""
    primitive, attributes = view.primitive, view.attributes
    before = view.inputs[0].shape
    if primitive == "reshape":
        return reshaped(index, view.shape, before), ()
    if primitive == "permute":
        out = [ZERO] * len(index)
        for place, axis in enumerate(attributes["axes"]):
            out[axis] = index[place]
        return tuple(out), ()
    if primitive == "expand":
        return tuple(ZERO if n == 1 else i for n, i in zip(before, index, strict=True)), ()
    if primitive == "slice":
        moves = zip(index, attributes["starts"], attributes["steps"], strict=True)
        return tuple(shifted(i, start, step) for i, start, step in moves), ()
    if primitive == "window":
        out = list(index[: len(before)])
        inner = index[len(before) :]
        for axis, stride, dilation, k in zip(
            attributes["axes"], attributes["strides"], attributes["dilations"], inner, strict=True
        ):
            out[axis] = weighted([(out[axis], stride), (k, dilation)])
        return tuple(out), ()
    assert primitive == "pad", primitive
    moved = tuple(shifted(i, -low) for i, low in zip(index, attributes["low"], strict=True))
    conditions = []
    for a, n in zip(moved, before, strict=True):
        if not _lies_inside(a, n):
            conditions.append((a, 0, n))
    return moved, tuple(conditions)


def _lies_inside(a: Affine, n: int) -> bool:
    """Whether an index is surely one of an axis of some length."""
    try:
        low, high = bounds(a)
    except Inexpressible:
        return False
    return surely_at_most(0, low) and surely_less(high, n)


def forward(view: Value, index: Index) -> Index:
    """Carry an index of the input of a permute or a reshape to its result, where each element has exactly one place."""
    if view.primitive == "permute":
        return tuple(index[axis] for axis in view.attributes["axes"])
    return reshaped(index, view.inputs[0].shape, view.shape)


def dims_of(index: Iterable[Affine]) -> list[Dim]:
    """Return the loops that an index uses, in the order it names them."""
    seen: dict[Dim, None] = {}
    for a in index:
        for dim, _ in a[1]:
            seen[dim] = None
    return list(seen)


def split_map(request: Split) -> Callable[[Affine], Affine]:
    """Return the rewriting of indices that makes one loop two."""
    dim, inner = request.dim, request.inner
    outer_dim, inner_dim = Dim(dim.size // inner), Dim(inner)
    by = affine(0, {outer_dim: inner, inner_dim: 1})
    return lambda a: substituted(a, dim, by)


def total(dims: Sequence[Dim]) -> int:
    """Return how many turns nested loops take."""
    return math.prod(d.size for d in dims)
