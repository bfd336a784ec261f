"""Products that a library computes. Enters: a product's operands as sums of loops. Leaves: a `LibraryProduct`, or None.

A library multiplies matrices, some of them side by side, whose rows or columns lie one element apart. Loops that go
through memory as one are joined; what is left has to be one loop each for batches, rows, columns and sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm.space import Space
from minitorch.compiler.ir.index import Affine, Dim, total

LEAST_MULTIPLICATIONS = 1 << 17  # below, a kernel of our own is as fast
DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


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
        """Whether a library takes it: one step is 1, and the other leads beyond that."""
        if self.column == 1:
            return self.row >= columns
        return self.row == 1 and self.column >= rows


@dataclass(frozen=True)
class LibraryProduct:
    """c = a @ b, `batches` times: a has `rows` × `summed` elements, b `summed` × `columns`."""

    operands: list[Any]  # a, b, c
    dtype: np.dtype
    rows: int
    columns: int
    summed: int
    batches: int
    a: Matrix
    b: Matrix
    c: Matrix

    @property
    def flops(self) -> float:
        """How many additions and multiplications it takes."""
        return 2.0 * self.rows * self.columns * self.summed * self.batches


def library_product(
    operands: list[Any],
    dtype: np.dtype,
    places: tuple[Affine, Affine, Affine],
    kept: Sequence[Dim],
    summed: Sequence[Dim],
) -> LibraryProduct | None:
    """Return a product as a library's. places: where a, b and c lie; kept: the loops of c, outermost first."""
    if dtype not in DTYPES or total(kept) * total(summed) < LEAST_MULTIPLICATIONS:
        return None
    if any(start for start, _ in places):
        return None
    space = Space(places, [*kept, *summed])
    of_a, of_b = ({d for d, _ in place[1]} for place in places[:2])
    classes = [
        [d for d in kept if d in of_a and d in of_b],
        [d for d in kept if d in of_a and d not in of_b],
        [d for d in kept if d in of_b and d not in of_a],
        sorted(summed, key=lambda d: -space.factor(places[0], d)),
    ]
    if sum(map(len, classes)) != len(kept) + len(summed):
        return None
    for each in classes:
        space.join_all(each)
    if any(len(each) > 1 for each in classes) or not all(classes[1:]):
        return None
    batch, row, column, along = (each[0] if each else None for each in classes)

    def matrix(place: Affine, down: Dim | None, across: Dim | None) -> Matrix:
        return Matrix(*(space.factor(place, dim) for dim in (down, across, batch)))

    a, b, c = (
        matrix(place, *dims)
        for place, dims in zip(places, [(row, along), (along, column), (row, column)], strict=True)
    )
    rows, columns, length = (total([d] if d else []) for d in (row, column, along))
    if not (a.fits(rows, length) and b.fits(length, columns) and c.fits(rows, columns)):
        return None
    return LibraryProduct(operands, dtype, rows, columns, length, total([batch] if batch else []), a, b, c)
