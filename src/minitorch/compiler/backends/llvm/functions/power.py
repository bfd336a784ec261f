"""Powers of floats. Enters: Lanes of float32 or float64. Leaves: Lanes of the same.

x to the power y is e^(y·log x), and an error of log x grows with y, up to a thousandfold. float32 computes in
float64, which has bits enough to spare; float64 carries log x and its product with y as the sum of two numbers.
"""

from __future__ import annotations

from collections.abc import Callable

from minitorch.compiler.backends.llvm.functions.exponential import (
    FORMATS,
    INF,
    NAN,
    exp_of_sum,
    exponent_and_fraction,
    normal,
    times_power,
)
from minitorch.compiler.backends.llvm.functions.lanes import (
    FLOAT32,
    FLOAT64,
    Lanes,
    at_least,
    at_most,
    multiply_add,
    polynomial,
    where,
)

# For float32 by way of float64: log₂(1 + f) / f for √½ ≤ 1 + f ≤ √2, and 2ʳ for |r| ≤ ½
LOG2_FOR_FLOAT32 = (
    1.4426950408667778, -0.7213475207458492, 0.48089836251053153, -0.36067369950765166, 0.2885372016053421,
    -0.2404517286190105, 0.2061775144305706, -0.18033584777181902, 0.15876415003415797, -0.14276845263159305,
    0.14446033115061974, -0.14442228479794528, 0.0795461414234314,
)  # fmt: skip
EXP2_FOR_FLOAT32 = (
    1.0000000005542222, 0.6931472057371089, 0.24022646890405355, 0.05550328777509786, 0.009618488985280236,
    0.0013399931049639334, 0.00015345804192248,
)  # fmt: skip
# For float64: 2·artanh s = 2s + s³·(⅔ + z·polynomial(z)) with z = s² and s = f / (2 + f)
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
ARTANH_REST = (
    0.3999999999999998, 0.2857142857144384, 0.22222222217789578, 0.181818188440345, 0.15384558424346803,
    0.1333626470562291, 0.11675775724874132, 0.11981800651972237,
)  # fmt: skip

Two = tuple[Lanes, Lanes]  # one number as the sum of a large and a small one


def power(x: Lanes, y: Lanes) -> Lanes:
    """x to the power y; odd powers keep the sign, powers not whole have no value below 0."""
    magnitude = (
        _magnitude_float32(x.absolute(), y) if x.dtype == FLOAT32 else _magnitude_float64(x.absolute(), y)
    )
    whole = y.intrinsic("trunc").equals(y)
    half = y * 0.5
    odd = whole & half.intrinsic("trunc").differs(half)
    signed = where(odd, magnitude.with_sign_of(x), magnitude)
    signed = where((x < 0) & (x > -INF) & ~whole, NAN, signed)
    return where(x.equals(1) | y.equals(0), 1.0, signed)


def _magnitude_float32(x: Lanes, y: Lanes) -> Lanes:
    """2^(y·log₂ x) for x that is not negative."""
    base = x.convert("fpext", FLOAT64)  # every float32 but 0 is a normal float64
    f, k, _ = exponent_and_fraction(base)
    logarithm = multiply_add(f, polynomial(f, LOG2_FOR_FLOAT32), k)
    logarithm = where(x < INF, logarithm, base)
    logarithm = where(x.equals(0), -INF, logarithm)
    limit = 200.0  # beyond float32's range: rounding gives 0 or inf
    product = at_most(at_least(logarithm * y.convert("fpext", FLOAT64), -limit), limit)
    shifter = FORMATS[FLOAT64].shifter
    shifted = product + shifter
    fraction = polynomial(product - (shifted - shifter), EXP2_FOR_FLOAT32)
    magnitude = times_power(fraction, shifted.bits()).convert("fptrunc", FLOAT32)
    return where(x.equals(1), 1.0, magnitude)  # also to the power of inf


def _magnitude_float64(x: Lanes, y: Lanes) -> Lanes:
    """e^(y·log x) for x that is not negative."""
    # Beyond this, powers of all numbers but 1 are 0 or inf; and products of it do not overflow.
    limit = 2.0**64
    bounded = at_most(at_least(y, -limit), limit)
    magnitude = exp_of_sum(*_product(_split(bounded), _log(x)))
    to_the_ends = where(x.equals(0), (y < 0), (y > 0))
    at_ends = where(to_the_ends, y.constant(INF), 0.0)
    magnitude = where(x.equals(0) | x.equals(INF), at_ends, magnitude)
    magnitude = where(x.equals(1), 1.0, magnitude)
    return where(x.is_nan() | y.is_nan(), x + y, magnitude)


def _short(x: Lanes) -> Lanes:
    """The first 26 bits of x: a product of two such numbers is exact."""
    return (x.bits() & -(1 << 27)).float_of_bits()


def _split(x: Lanes, more: Lanes | None = None) -> Two:
    """x (plus something much smaller) as a short number and the rest."""
    short = _short(x)
    rest = x - short
    return short, rest if more is None else rest + more


def _product(x: Two, y: Two) -> Two:
    """The product of numbers with short first parts: exact first part, and the rest."""
    return x[0] * y[0], multiply_add(x[1], y[0] + y[1], x[0] * y[1])


def _log(x: Lanes) -> Two:
    """log x to about 70 bits, the first part short."""
    scaled, shift = normal(x)
    f, k, _ = exponent_and_fraction(scaled)
    k = k + shift
    # s = f / (2 + f): a short quotient, and what it leaves over divided again
    below = f + 2
    below_rest = f - (below - 2)
    inverse = 1 / below
    s = _short(f * inverse)
    below_short, below_low = _split(below)
    left = ((f - s * below_short) - s * below_low) - s * below_rest
    s_rest = left * inverse
    # z = s², then ⅔ + z·polynomial(z)
    z, z_rest = s * s, s_rest * (s * 2 + s_rest)
    rounded = z + z_rest
    small = rounded * polynomial(rounded, ARTANH_REST)
    factor = small + TWO_THIRDS[0]
    factor_rest = (TWO_THIRDS[0] - factor) + small + TWO_THIRDS[1]
    cubic = _product(_split(z, z_rest), _split(factor, factor_rest))
    cubic = _split(*cubic)
    # 2s + s·cubic, and k·log 2
    first, rest = _product((s, s_rest), cubic)
    double = s * 2
    total = double + first
    rest = ((double - total) + first) + (rest + s_rest * 2)
    high, low = FORMATS[x.dtype].ln_2
    whole = k * high
    result = whole + total
    rest = where(k.equals(0), rest, ((whole - result) + total) + multiply_add(k, low, rest))
    result_first = result + rest
    return _split(result_first, (result - result_first) + rest)


FLOATS: dict[str, Callable[..., Lanes]] = {
    "power": power,
}
