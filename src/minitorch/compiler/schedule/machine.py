"""What scheduling asks of a machine. Enters: a value. Leaves: whether there is code for it, what it costs.

Scheduling itself knows no machine: a backend hands it a `Machine`, and all numbers that depend on caches, vectors
and threads are `Figures` of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import typical


@dataclass(frozen=True)
class Figures:
    """The numbers by which fusing, ordering and planning decide.

    Of reductions: one over at most `serial_elements` is done in one go; larger ones in at most `most_blocks`
    blocks of rows, each with partial sums of its own; so is one of more than `rows_of_a_block` rows that have sums of
    their own, and `most_long_rows` of more than `serial_elements` may each be a block. One over the first axes of more
    than `column_bytes` goes through memory row by row, unless there are `columns_of_a_block` columns or more for each
    block: those are summed one by one.
    Sums over columns are not made in a kernel that folds along rows, where they are `columns_apart`.
    Of groups: at most `largest_group` values, and at most `longest_epilogue` functions on a product's result (0
    leaves every product alone, for a library to compute; so is one of `alone_from` multiplications or more, unless
    it `is_small` all the same, and but for additions to it and its rounding to halves, where a library `finishes` it
    so). A value of `grained_elements` or more is stored only along the grain of what is computed with it.
    Of computing again: what costs at most `cheap` is computed again rather than stored. From `far_bytes` on a
    value leaves the nearest caches before it is read, and may cost as much as `far_cost`. (An addition costs 1.)
    An input of `far_inputs` bytes or more is not read tile by tile, after a product.
    Of memory: a value of at most `few_bytes` may lie around; every value begins at a multiple of `alignment`.
    Of launches: where `joins_readers`, what reads the same as another loop, over as many elements, is computed there,
    though neither is made of the other.
    Of products: where many have a factor in common, that is laid out once in pieces of `panel_bytes` of columns;
    `reads_padded`: what is padded for a product is not written out before, pad and all.
    Of updates: `keeps_rows`: what is known of a row is computed once, and kept for the passes that follow.
    """

    serial_elements: int
    most_blocks: int
    column_bytes: int
    largest_group: int
    longest_epilogue: int
    grained_elements: int
    cheap: float
    far_bytes: int
    far_cost: float
    few_bytes: int
    alignment: int
    alone_from: int = 1 << 62
    is_small: Callable[[Value], bool] = lambda product: False
    far_inputs: int = 1 << 20
    rows_of_a_block: int = 1 << 62
    most_long_rows: int = 0
    columns_of_a_block: int = 1 << 62
    finishes: bool = False
    columns_apart: bool = False
    panel_bytes: int = 0
    reads_padded: bool = False
    keeps_rows: bool = True
    joins_readers: bool = False

    def most_after(self, product: Value) -> int:
        """Return how many functions on a product's result may be computed with it."""
        if self.alone_from == 1 << 62:
            return self.longest_epilogue
        lengths = [n for operand in product.inputs for n in operand.shape]
        letters = product.attributes["spec"].partition("->")[0].replace(",", "")
        count = math.prod(dict(zip(letters, lengths, strict=True)).values())
        small = typical(count) < self.alone_from or self.is_small(product)
        return self.longest_epilogue if small else 0


class Machine(Protocol):
    """A machine as far as scheduling is concerned."""

    @property
    def figures(self) -> Figures:
        """The numbers to decide by."""

    def computes(self, value: Value) -> bool:
        """Whether there is code for a value; NumPy computes all others. (`groups.is_expressible` is a condition.)"""

    def cost(self, function: str, dtype: np.dtype) -> float:
        """Return what an elementwise function costs per element, where an addition costs 1."""
