"""Products that a library computes. Enters: a product's operands as sums of loops. Leaves: a `LibraryProduct`, or None.

A library multiplies matrices, some of them side by side, whose rows or columns lie one element apart. Loops that go
through memory as one count as one; there has to be one each for batches, rows, columns and sums. A factor that does not
lie so (the windows of a convolution) is written out by a kernel before.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler.ir.index import Affine, Dim, total
from minitorch.compiler.ir.program import VIEWS, Value
from minitorch.compiler.ir.sizes import is_fixed, surely_at_most, typical

LEAST_MULTIPLICATIONS = 1 << 19  # below, a kernel of our own is as fast
# And by tiles up to more of them, unless sums are long or a tile has few rows or columns.
LEAST_FOR_A_LIBRARY, MOST_SUMMED, LEAST_SIDE = 1 << 23, 512, 16
LEAST_WORTH_PACKING = 1 << 21  # from here on a factor is written out for a library
LEAST_READ_AGAIN = 8  # and read so many times then
LEAST_WORTH_DIVIDING = 1 << 30  # operations; then a product of odd sizes is computed in two parts
ROUND, NEIGHBOURS = 64, 4
# What decides about copies of factors, measured on an H200.
PRODUCTS_A_SECOND, COPIED_A_SECOND, LAUNCH_SECONDS = 230e12, 3e12, 2e-6
GAINED_BY_ONE_OF_TWO, GAINED_BY_ONE = 0.35, 0.08
DTYPES = (np.dtype(np.float32), np.dtype(np.float64))  # of sums; factors may be halves as well


@dataclass(frozen=True)
class Matrix:
    """Where a factor lies: steps from row to row, from column to column and from batch to batch, in elements."""

    row: int
    column: int
    batch: int

    @property
    def is_transposed(self) -> bool:
        """Whether neighbours in memory are of one column, not of one row."""
        return self.column != 1

    @property
    def apart(self) -> int:
        """How far apart rows are (or columns, where it is transposed)."""
        return self.row if self.column == 1 else self.column

    def fits(self, rows: int, columns: int) -> bool:
        """Whether a library takes it: one step is 1, the other leads beyond that, and none leads back."""
        if not surely_at_most(0, self.batch):
            return False
        if self.column == 1:
            return surely_at_most(columns, self.row)
        return self.row == 1 and surely_at_most(rows, self.column)


@dataclass(frozen=True)
class LibraryProduct:
    """c = a @ b, `batches` times: a has `rows` × `summed` elements, b `summed` × `columns`. adds: c += a @ b.

    dtype: of a and b. made: of c, and of what is added: addend, an array that lies like c, and has_row, a row of
    numbers, one for each element of what is a row of c in memory. Halves are summed in float32, and rounded at the end.
    """

    operands: list[Any]  # a, b, c; the addend, the row
    dtype: np.dtype
    made: np.dtype
    rows: int
    columns: int
    summed: int
    batches: int
    a: Matrix
    b: Matrix
    c: Matrix
    adds: bool = False
    addend: Matrix | None = None
    has_row: bool = False

    @property
    def key(self) -> Any:
        """What makes two products the same but for their operands."""
        sizes = (self.rows, self.columns, self.summed, self.batches)
        return (*sizes, self.dtype, self.made, self.a, self.b, self.c, self.adds, self.addend, self.has_row)

    @property
    def is_finished(self) -> bool:
        """Whether more is done than to multiply."""
        return self.has_row or self.addend is not None

    @property
    def flops(self) -> float:
        """How many additions and multiplications it takes."""
        return 2.0 * typical(self.rows * self.columns * self.summed * self.batches)

    def in_parts(self) -> list[LibraryProduct]:
        """Return it as some products that a library is faster at: most of it in round numbers, and the rest.

        (Where neighbours in memory are not whole groups of four, a library may not use tensor cores as it could.)
        """
        a, b, c = self.a, self.b, self.c
        even = not any(typical(matrix.apart) % NEIGHBOURS for matrix in (a, b, c))
        if self.flops < LEAST_WORTH_DIVIDING or self.dtype != np.float32 or not even or self.is_finished:
            return [self]
        sizes = {"rows": self.rows, "columns": self.columns, "summed": self.summed}
        near = {
            "rows": a.is_transposed or c.is_transposed,
            "columns": not b.is_transposed or not c.is_transposed,
            "summed": not a.is_transposed or b.is_transposed,
        }
        steps = {
            "rows": (a.row, 0, c.row),
            "columns": (0, b.column, c.column),
            "summed": (a.column, b.row, 0),
        }
        for name, size in sizes.items():
            if not is_fixed(size):
                continue
            main = size // ROUND * ROUND
            if near[name] and size % NEIGHBOURS and main:
                sized: dict[str, Any] = {name: main}
                first = dataclasses.replace(self, **sized)
                moved = [
                    _further(operand, main * step * self.dtype.itemsize)
                    for operand, step in zip(self.operands, steps[name], strict=True)
                ]
                sized = {name: size - main, "operands": moved, "adds": self.adds or name == "summed"}
                rest = dataclasses.replace(self, **sized)
                return [*first.in_parts(), rest]
        return [self]


def is_small(product: Value) -> bool:
    """Whether tiles take no longer for a product than it takes to begin a library's."""
    spec = product.attributes["spec"]
    (left, right), out = spec.partition("->")[0].split(","), spec.partition("->")[2]
    sizes = dict(zip(left + right, [n for each in product.inputs for n in each.shape], strict=True))
    rows, columns = (
        math.prod(sizes[c] for c in out if c in one and c not in other)
        for one, other in ((left, right), (right, left))
    )
    count, summed = math.prod(sizes.values()), math.prod(sizes[c] for c in sizes if c not in out)
    return (
        is_fixed(count)
        and count < LEAST_FOR_A_LIBRARY
        and summed <= MOST_SUMMED
        and min(rows, columns) >= LEAST_SIDE
        and product.dtype in DTYPES
        and all(each.dtype == product.dtype and not _is_windows(each) for each in product.inputs)
    )


def _is_windows(factor: Value) -> bool:
    """Whether a factor looks at windows of an array: those of a convolution, for which there may be a library."""
    while factor.primitive in VIEWS or factor.primitive == "pad":
        if factor.primitive == "window":
            return True
        (factor,) = factor.inputs
    return False


def _further(operand: Any, distance: int) -> Any:
    """Return an operand some bytes further on."""
    if not distance:
        return operand
    value, before = operand if isinstance(operand, tuple) else (operand, 0)
    return (value, before + distance)


def worth_transposing(rows: int, columns: int, summed: int, a: Matrix, b: Matrix) -> int | None:
    """Return which factor is better copied first, so that neighbours in memory are those that are summed; or None.

    Tensor cores multiply float32 fastest then: with neither factor lying so, at little more than half the speed.
    """
    apart = [number for number, far in enumerate((a.is_transposed, not b.is_transposed)) if far]
    rows, columns, summed = typical(rows), typical(columns), typical(summed)
    if not apart or summed % NEIGHBOURS:
        return None
    sizes = (rows * summed, summed * columns)
    chosen = min(apart, key=lambda number: sizes[number])
    seconds = 2.0 * rows * columns * summed / PRODUCTS_A_SECOND
    gained = seconds * (GAINED_BY_ONE_OF_TWO if len(apart) == 2 else GAINED_BY_ONE)
    return chosen if gained > LAUNCH_SECONDS + sizes[chosen] * 8 / COPIED_A_SECOND else None


@dataclass(frozen=True)
class Side:
    """A factor as it lies: where (None: it has to be written out first), and the loops it changes along."""

    where: Affine | None
    dims: frozenset[Dim]

    def matrix(self, down: Sequence[Dim], across: Sequence[Dim], batches: Sequence[Dim]) -> Matrix | None:
        """Return it as a library takes it, if it does: along each of the three kinds of loops in even steps."""
        if self.where is None or self.where[0]:
            return None
        return matrix_of(dict(self.where[1]), down, across, [d for d in batches if d in self.dims])

    def packed(
        self,
        down: Sequence[Dim],
        across: Sequence[Dim],
        batches: Sequence[Dim],
        first: Affine | None,
        last: Sequence[Dim] = (),
    ) -> tuple[list[Dim], Matrix]:
        """Return its loops in the order in which it is written out, and how it lies then.

        first: where it is read from; neighbours there are written as neighbours, unless those of `last` are.
        """
        terms = first[1] if first is not None else ()
        nearest = set(last) or {d for d, factor in terms if abs(factor) == 1}
        inner, outer = (down, across) if nearest & set(down) else (across, down)
        order = [*(d for d in batches if d in self.dims), *outer, *inner]
        steps: dict[Dim, int] = {}
        step = 1
        for d in reversed(order):
            steps[d] = step
            step *= d.size
        found = matrix_of(steps, down, across, [d for d in batches if d in self.dims])
        assert found is not None
        return order, found


def matrix_of(
    steps: Mapping[Dim, int], down: Sequence[Dim], across: Sequence[Dim], batches: Sequence[Dim]
) -> Matrix | None:
    """Return a matrix with these steps from element to element; None if a library does not take it."""
    found = []
    for dims in (down, across, batches):
        even = all(
            steps.get(one, 0) == steps.get(next_, 0) * next_.size for one, next_ in itertools.pairwise(dims)
        )
        if not even:
            return None
        found.append(steps.get(dims[-1], 0) if dims else 0)
    matrix = Matrix(*found)
    # A single row, or column, is as far from the next as one likes.
    rows, columns = total(down), total(across)
    if rows == 1:
        matrix = Matrix(max(columns, 1), matrix.column, matrix.batch)
    elif columns == 1:
        matrix = Matrix(matrix.row, max(rows, 1), matrix.batch)
    return matrix if matrix.fits(rows, columns) else None


class Arranged(NamedTuple):
    """The loops of a product as a library knows them."""

    batches: list[Dim]
    rows: list[Dim]
    columns: list[Dim]
    summed: list[Dim]
    c: Matrix


def arrangements(sides: Sequence[Side], c: Affine, kept: list[Dim], summed: list[Dim]) -> Iterator[Arranged]:
    """Yield the ways in which a product's loops are those of a library's. kept: the loops of c, outermost first."""
    of_a, of_b = (side.dims for side in sides)
    both = [d for d in kept if d in of_a and d in of_b]
    rows = [d for d in kept if d in of_a and d not in of_b]
    columns = [d for d in kept if d in of_b and d not in of_a]
    if c[0] or len(both) + len(rows) + len(columns) != len(kept) or not rows or not columns or not summed:
        return
    steps = dict(c[1])
    orders = [summed]
    for side in sides:
        if side.where is not None:
            factors = dict(side.where[1])
            by_step = sorted(summed, key=lambda d, factors=factors: -abs(factors.get(d, 0)))  # type: ignore[misc]
            if by_step not in orders:
                orders.append(by_step)
    # The outermost loops of one factor may be batches, in which the other is the same matrix.
    of_rows = [(n, 0) for n in range(1, len(rows))]
    of_columns = [(0, n) for n in range(1, len(columns))]
    for first, second in [(0, 0), *of_rows, *of_columns]:
        moved = [*rows[:first], *columns[:second]]
        batches = [d for d in kept if d in both or d in moved]
        if moved and both:  # (from one batch to the next a factor would have to go back)
            continue
        left, right = rows[first:], columns[second:]
        matrix = matrix_of(steps, left, right, batches)
        if matrix is not None:
            for order in orders:
                yield Arranged(batches, left, right, order, matrix)


class Finish(NamedTuple):
    """What a library adds to a product, see `LibraryProduct`."""

    operands: list[Any]
    addend: Matrix | None
    has_row: bool


def finished(
    way: Arranged, added: Sequence[tuple[Any, Affine, np.dtype] | None], made: np.dtype
) -> Finish | None:
    """Return what is added to a product as a library takes it; None if it does not. made: the result's dtype."""
    addend: Matrix | None = None
    operands: dict[str, Any] = {}
    along = way.rows if way.c.is_transposed else way.columns  # neighbours in memory are along these
    for each in added:
        if each is None or each[2] != made or each[1][0]:
            return None
        operand, (_, terms), _ = each
        steps = dict(terms)
        row = matrix_of(steps, [], along, [])
        is_row = set(steps) <= set(along) and row is not None and row.column == 1
        matrix = matrix_of(steps, way.rows, way.columns, way.batches)
        if is_row and "row" not in operands:
            operands["row"] = operand
        elif matrix is not None and matrix.is_transposed == way.c.is_transposed and addend is None:
            operands["addend"], addend = operand, matrix
        else:
            return None
    ordered = [operands[name] for name in ("addend", "row") if name in operands]
    return Finish(ordered, addend, "row" in operands)
