"""Functions of integers and bools. Enters: Lanes. Leaves: Lanes, wrapped around as NumPy's are."""

from __future__ import annotations

import operator
from collections.abc import Callable

from minitorch.compiler.backends.llvm.functions.lanes import Lanes, bit_count, where
from minitorch.compiler.backends.llvm.functions.plain import COMPARISONS


def _divisor(x: Lanes, y: Lanes) -> Lanes:
    """y, or 1 where the processor would stop the program: at 0, and where the result has no place."""
    trap = y.equals(0)
    if x.dtype.kind == "i":
        trap = trap | (x.equals(-(1 << (bit_count(x.dtype) - 1))) & y.equals(-1))
    return where(trap, 1, y)


def fmod(x: Lanes, y: Lanes) -> Lanes:
    """What x leaves over when divided by y towards zero; 0 when y is 0."""
    return where(y.equals(0), 0, x.rest(_divisor(x, y)))


def remainder(x: Lanes, y: Lanes) -> Lanes:
    """What x leaves over when divided by y downwards; 0 when y is 0."""
    rest = fmod(x, y)
    if x.dtype.kind == "u":
        return rest
    return where(rest.differs(0) & ((rest ^ y) < 0), rest + y, rest)


def floor_divide(x: Lanes, y: Lanes) -> Lanes:
    """x / y rounded downwards; 0 when y is 0."""
    divisor = _divisor(x, y)
    quotient = x.quotient(divisor)
    if x.dtype.kind == "i":
        rest = x - quotient * divisor
        quotient = where(rest.differs(0) & ((rest ^ divisor) < 0), quotient - 1, quotient)
    return where(y.equals(0), 0, quotient)


def left_shift(x: Lanes, y: Lanes) -> Lanes:
    """x·2ʸ; 0 when all bits are shifted out."""
    return where(_in_range(y), x << (y & (bit_count(x.dtype) - 1)), 0)


def right_shift(x: Lanes, y: Lanes) -> Lanes:
    """x / 2ʸ downwards; 0 or -1 when all bits are shifted out."""
    most = bit_count(x.dtype) - 1
    shifted = x >> where(_in_range(y), y, most)  # leaves nothing but the sign, where there is one
    return shifted if x.dtype.kind == "i" else where(_in_range(y), shifted, 0)


def _in_range(y: Lanes) -> Lanes:
    """Where y is a number of bits to shift by: not negative, and less than there are."""
    return y.made(y.name, f"u{y.dtype.itemsize}") < bit_count(y.dtype)


def power(x: Lanes, y: Lanes) -> Lanes:
    """x to the power y by repeated squaring, one bit of y after another."""
    result, square = x.constant(1), x
    bits = bit_count(x.dtype)
    for bit in range(bits):
        result = where((y & (1 << bit)).differs(0), result * square, result)
        if bit + 1 < bits:
            square = square * square
    return result


def absolute(x: Lanes) -> Lanes:
    """x without its sign; the most negative number has no such and stays."""
    return where(x < 0, -x, x) if x.dtype.kind == "i" else x


def sign(x: Lanes) -> Lanes:
    """-1, 0 or 1."""
    positive = where(x > 0, x.constant(1), 0)
    return where(x < 0, -1, positive) if x.dtype.kind == "i" else positive


def never(x: Lanes) -> Lanes:
    """False: no integer is nan or infinite."""
    return x.differs(x)


def always(x: Lanes) -> Lanes:
    """True: every integer is finite."""
    return x.equals(x)


def itself(x: Lanes) -> Lanes:
    """x: an integer is round already."""
    return x


_BITS: dict[str, Callable[..., Lanes]] = {
    **COMPARISONS,
    "isnan": never,
    "isinf": never,
    "isfinite": always,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "invert": operator.invert,
    "absolute": absolute,
    "floor": itself,
    "ceil": itself,
    "trunc": itself,
}
INTEGERS: dict[str, Callable[..., Lanes]] = {
    **_BITS,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negative": operator.neg,
    "square": lambda x: x * x,
    "sign": sign,
    "maximum": lambda x, y: where(x > y, x, y),
    "minimum": lambda x, y: where(x < y, x, y),
    "fmod": fmod,
    "remainder": remainder,
    "floor_divide": floor_divide,
    "left_shift": left_shift,
    "right_shift": right_shift,
    "power": power,
}
# Arithmetic on bools is logic: a sum is "or", a product is "and".
BOOLS: dict[str, Callable[..., Lanes]] = {
    **_BITS,
    "add": operator.or_,
    "maximum": operator.or_,
    "multiply": operator.and_,
    "minimum": operator.and_,
}
