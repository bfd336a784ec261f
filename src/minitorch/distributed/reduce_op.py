"""ReduceOp: what becomes of the numbers of all ranks. Enters: nothing. Leaves: the names."""

from __future__ import annotations

import enum


class ReduceOp(enum.Enum):
    """Sum, mean, product, largest, smallest; and, or, exclusive or of bits.

    >>> ReduceOp.SUM.name
    'SUM'
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


class reduce_op:
    """ReduceOp by its old address."""

    SUM, PRODUCT, MAX, MIN = ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MAX, ReduceOp.MIN
