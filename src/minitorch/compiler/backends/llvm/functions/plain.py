"""Functions of floats that are one or a few exact instructions. Enters: Lanes. Leaves: Lanes.

Sums, comparisons, roundings, remainders, casts. Each gives NumPy's result to the bit.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from minitorch.compiler.backends.llvm.functions.lanes import (
    BOOL,
    FLOAT32,
    FLOAT64,
    Lanes,
    bit_count,
    through_float64,
    where,
)
from minitorch.compiler.ir.halves import HALVES

INF = float("inf")
FLOAT16, INT16, INT32 = np.dtype(np.float16), np.dtype(np.int16), np.dtype(np.int32)
UINT16, UINT32 = np.dtype(np.uint16), np.dtype(np.uint32)


# What processors do in their own ways, and NumPy with them: asked here, so that nobody has to know the processor.
_ZEROS = np.tile(np.array([[0.0, -0.0], [-0.0, 0.0]], np.float32), 32)
ZEROS_ARE_ORDERED = not np.signbit(np.maximum(*_ZEROS)).any()  # else the second of two is taken
NEGATIVES_ARE_ZERO = not np.full(64, -1.5, np.float32).astype(np.uint32).any()  # as unsigned integers


def maximum(x: Lanes, y: Lanes) -> Lanes:
    """The larger one; nan if either is nan (a comparison with nan is false, so y's nan is chosen already)."""
    if ZEROS_ARE_ORDERED or "maximum" in x.emitter.fast:
        return x.intrinsic("maximum", y)  # one instruction there
    return where(x.is_nan(), x, where(x > y, x, y))


def minimum(x: Lanes, y: Lanes) -> Lanes:
    """The smaller one; nan if either is nan."""
    if ZEROS_ARE_ORDERED or "maximum" in x.emitter.fast:
        return x.intrinsic("minimum", y)
    return where(x.is_nan(), x, where(x < y, x, y))


def sign(x: Lanes) -> Lanes:
    """-1, 0, 1 or nan. Adding 0 makes -0 to 0 and keeps nan."""
    return where(x > 0, 1.0, where(x < 0, -1.0, x + 0.0))


def fmod(x: Lanes, y: Lanes) -> Lanes:
    """What x leaves over when divided by y towards zero; exact, hence libm's loop."""
    return x.each("fmod", y)


def remainder(x: Lanes, y: Lanes) -> Lanes:
    """What x leaves over when divided by y downwards: the sign is y's, that of zeros included."""
    rest = fmod(x, y)
    other_side = rest.differs(0) & (y < 0).differs(rest < 0)
    moved = where(other_side, rest + y, rest)
    return where(rest.equals(0), rest.constant(0.0).with_sign_of(y), moved)


def floor_divide(x: Lanes, y: Lanes) -> Lanes:
    """x / y rounded downwards; from the exact remainder, since x / y itself may have been rounded up."""
    rest = fmod(x, y)
    other_side = rest.differs(0) & (y < 0).differs(rest < 0)
    quotient = (x - rest) / y
    quotient = where(other_side, quotient - 1.0, quotient)
    whole = quotient.intrinsic("floor")
    whole = where(quotient - whole > 0.5, whole + 1.0, whole)
    plain = x / y
    whole = where(quotient.equals(0), plain.constant(0.0).with_sign_of(plain), whole)
    return where(y.equals(0), plain, whole)


@through_float64
def hypot(x: Lanes, y: Lanes) -> Lanes:
    """√(x² + y²), scaled by a power of two so that squares neither overflow nor vanish."""
    x, y = x.absolute(), y.absolute()
    larger = where(x > y, x, y)
    huge, tiny = larger > 2.0**500, larger < 2.0**-500
    scale = where(huge, 2.0**-600, where(tiny, larger.constant(2.0**600), 1.0))
    back = where(huge, 2.0**600, where(tiny, larger.constant(2.0**-600), 1.0))
    x_scaled, y_scaled = x * scale, y * scale
    root = (x_scaled * x_scaled + y_scaled * y_scaled).intrinsic("sqrt") * back
    return where(x.equals(INF) | y.equals(INF), INF, root)


def is_infinite(x: Lanes) -> Lanes:
    """Whether it is inf or -inf."""
    return x.absolute().equals(INF)


def is_finite(x: Lanes) -> Lanes:
    """Whether it is neither inf nor nan."""
    return x.absolute() < INF


def sign_bit(x: Lanes) -> Lanes:
    """Whether the sign is minus; -0 has one too."""
    bits = x.bits()
    return (bits >> (bit_count(x.dtype) - 1)).differs(0)


def truth(x: Lanes) -> Lanes:
    """Whether it is not zero; nan is true."""
    return x if x.dtype == BOOL else x.differs(0)


def _intrinsic(name: str) -> Callable[[Lanes], Lanes]:
    return lambda x: x.intrinsic(name)


# What every dtype has: the result is a bool.
COMPARISONS: dict[str, Callable[..., Lanes]] = {
    "equal": lambda x, y: x.equals(y),
    "not_equal": lambda x, y: x.differs(y),
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "logical_and": lambda x, y: truth(x) & truth(y),
    "logical_or": lambda x, y: truth(x) | truth(y),
    "logical_xor": lambda x, y: truth(x) ^ truth(y),
    "logical_not": lambda x: ~truth(x),
}
FLOATS: dict[str, Callable[..., Lanes]] = {
    **COMPARISONS,
    "isnan": Lanes.is_nan,
    "isinf": is_infinite,
    "isfinite": is_finite,
    "signbit": sign_bit,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negative": operator.neg,
    "absolute": Lanes.absolute,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1.0 / x,
    "sqrt": _intrinsic("sqrt"),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "rint": _intrinsic("rint"),
    "copysign": Lanes.with_sign_of,
    "sign": sign,
    "maximum": maximum,
    "minimum": minimum,
    "fmod": fmod,
    "remainder": remainder,
    "floor_divide": floor_divide,
    "hypot": hypot,
}


def power_of_known(x: Lanes, exponent: float | int | None) -> Lanes | None:
    """x to a power known beforehand, where a few instructions give it; None where they do not."""
    if x.dtype.kind == "f":
        if exponent in (0.5, -0.5, 1.5):  # √x, but √-0 is -0 and √-inf is nan where powers are 0 and inf
            root = where(x.equals(-INF), INF, (x + 0.0).intrinsic("sqrt"))
            return root if exponent == 0.5 else 1.0 / root if exponent == -0.5 else x.absolute() * root
        if exponent in (-1, -2):
            inverse = 1.0 / x
            return inverse if exponent == -1 else inverse * inverse
        if exponent not in (0, 1, 2, 3, 4):
            return None
    if exponent is None or exponent < 0:
        return None
    result, square, left = None, x, int(exponent)
    while left:
        if left & 1:
            result = square if result is None else result * square
        left >>= 1
        if left:
            square = square * square
    return x.constant(1) if result is None else result


# --- casts ------------------------------------------------------------------------------------------


def cast(x: Lanes, to: np.dtype) -> Lanes:
    """The same numbers in another dtype, as NumPy's `astype` gives them.

    Integers wrap. Floats lose what is behind the point; those beyond the integer's range give whatever
    the conversion to 32 or 64 bits leaves in the lower bits, as C's casts do on this processor.
    """
    source = x.dtype
    if source == to:
        return x
    if source in HALVES:
        return cast(_from_half(x) if source == FLOAT16 else _from_bfloat16(x), to)
    if to == FLOAT16:
        return _to_half(_rounded_to_odd(x) if source == FLOAT64 else cast(x, FLOAT32))
    if to in HALVES:
        return _to_bfloat16(cast(x, FLOAT32), to)
    if to == BOOL:
        return x.differs(0)
    if source.kind == "f":
        return _float_to_float(x, to) if to.kind == "f" else _float_to_integer(x, to)
    if to.kind == "f":
        return x.convert("sitofp" if source.kind == "i" else "uitofp", to)
    if bit_count(to) < bit_count(source):
        return x.convert("trunc", to)
    if bit_count(to) == bit_count(source):
        return x.made(x.name, to)
    return x.convert("sext" if source.kind == "i" else "zext", to)


def _from_half(x: Lanes) -> Lanes:
    """A float16's bits as a float32: moved to where a float32 has them, and multiplied by what the exponents differ."""
    if x.lanes == 1 and "fast.from_float16" in x.emitter.fast:
        number = x.made(x.emitter.call("fast.from_float16", "float", [("i16", x.name)]), FLOAT32)
        moved = x.made(x.name, INT16).convert("sext", INT32) << 13
        nan = x.made(((moved & ~0x70000000) | 0x7F800000).name, UINT32).float_of_bits()  # with x's own bits
        return where(number.is_nan(), nan, number)
    bits = x.made(x.name, UINT16).convert("zext", UINT32)
    moved = (bits & 0x7FFF) << 13
    number = moved.float_of_bits() * 2.0**112
    endless = (moved | 0x7F800000).float_of_bits()  # infinities and nans have the largest exponent
    size = where(moved < 0x0F800000, number, endless)
    return (size.bits() | ((bits & 0x8000) << 16)).float_of_bits()


def _to_half(x: Lanes) -> Lanes:
    """A float32 as the bits of the nearest float16, of two equally near ones the even one."""
    if x.lanes == 1 and "fast.to_float16" in x.emitter.fast:
        return _narrowed(x, "fast.to_float16", FLOAT16, 0x7E00)
    bits = x.bits()
    size = bits & 0x7FFFFFFF
    # Below the smallest normal number an addition rounds: beside 0.5 a float32 has steps of the smallest float16.
    tiny = (size.float_of_bits() + 0.5).bits() - 0x3F000000
    odd = (size >> 13) & 1
    number = (size - 0x38000000 + 0xFFF + odd) >> 13
    endless = where(size > 0x7F800000, size.constant(0x7E00), size.constant(0x7C00))
    rounded = where(size < 0x38800000, tiny, where(size < 0x47800000, number, endless))
    half = (rounded | ((bits >> 16) & 0x8000)).convert("trunc", UINT16)
    return half.made(half.name, FLOAT16)


def _from_bfloat16(x: Lanes) -> Lanes:
    """A bfloat16's bits as a float32, of which they are the upper half."""
    return (x.made(x.name, UINT16).convert("zext", UINT32) << 16).float_of_bits()


def _to_bfloat16(x: Lanes, to: np.dtype) -> Lanes:
    """A float32 as the bits of the nearest bfloat16, of two equally near ones the even one."""
    if x.lanes == 1 and "fast.to_bfloat16" in x.emitter.fast:
        return _narrowed(x, "fast.to_bfloat16", to, 0x7FC0)
    bits = x.bits()
    number = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    nan = ((bits >> 16) & 0x8000) | 0x7FC0
    half = where((bits & 0x7FFFFFFF) > 0x7F800000, nan, number).convert("trunc", UINT16)
    return half.made(half.name, to)


def _narrowed(x: Lanes, instruction: str, to: np.dtype, nan: int) -> Lanes:
    """A float32 as the bits of the nearest half by a GPU's instruction, whose nans have no sign."""
    nearest = x.made(x.emitter.call(instruction, "i16", [("float", x.name)]), UINT16)
    signed = ((x.bits() >> 16) & 0x8000 | nan).convert("trunc", UINT16)
    half = where(x.is_nan(), signed, nearest)
    return half.made(half.name, to)


def _rounded_to_odd(x: Lanes) -> Lanes:
    """A float64 as a float32 that is odd unless it is exact: rounded once more it becomes what x itself would."""
    near = x.convert("fptrunc", FLOAT32)
    back = near.convert("fpext", FLOAT64)
    bits = near.bits()
    shorter = where(back.absolute() > x.absolute(), bits - 1, bits)
    return where(back.differs(x), shorter | 1, shorter).float_of_bits()


def _float_to_float(x: Lanes, to: np.dtype) -> Lanes:
    return x.convert("fpext" if to == FLOAT64 else "fptrunc", to)


def _float_to_integer(x: Lanes, to: np.dtype) -> Lanes:
    if to.kind == "u" and NEGATIVES_ARE_ZERO:
        x = where(x > 0, x, 0.0)
    if to in (
        UINT32,
        np.uint64,
    ):  # numbers from the middle on (2³¹, 2⁶³) are moved down by it, and back as bits
        middle = 1 << (bit_count(to) - 1)
        large = x >= float(middle)
        moved = where(large, x - float(middle), x).convert("fptosi", to)
        return where(large, moved ^ middle, moved)
    wide = np.dtype(np.int32 if bit_count(to) < 32 or to == np.int32 else np.int64)
    return cast(x.convert("fptosi", wide), to)
