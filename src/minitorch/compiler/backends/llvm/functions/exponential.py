"""exp, log and what is made of them. Enters: Lanes of float32 or float64. Leaves: Lanes of the same.

Every function is right over its whole range: ±0, denormal numbers (in and out), ±inf, nan. None needs
multiply-add to be fused. Coefficients are minimax polynomials, fitted for these ranges and rounded one
after another; `benchmarks/functions_accuracy.py` measures what they give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from minitorch.compiler.backends.llvm.functions.lanes import (
    FLOAT32,
    FLOAT64,
    Lanes,
    at_least,
    at_most,
    multiply_add,
    polynomial,
    through_float64,
    where,
)

INF, NAN = float("inf"), float("nan")
LN_2 = 0.6931471805599453
LOG2_E = 1.4426950408889634
LOG2_E_REST = LOG2_E - float(np.float32(LOG2_E))  # what a float32 does not hold of it


@dataclass(frozen=True)
class Format:
    """What the formulas need to know of a float dtype.

    mantissa: bits behind the leading one. bias: what the exponent's bits say for 2⁰. ln_2: in two pieces, the
    first with so few bits that its product with an exponent is exact. exponential: (eʳ - 1 - r) / r² for
    |r| ≤ ln 2 / 2. binary: (2ʳ - 1) / r for |r| ≤ ½. Beyond the ranges results no longer change.
    """

    mantissa: int
    bias: int
    ln_2: tuple[float, float]
    exponential: tuple[float, ...]
    binary: tuple[float, ...]
    exp_range: tuple[float, float]
    exp2_range: tuple[float, float]
    expm1_range: tuple[float, float]

    @property
    def shifter(self) -> float:
        """Adding this rounds to the nearest integer, which then stands in the lowest bits of the sum."""
        return 1.5 * 2.0**self.mantissa


FORMATS = {
    FLOAT32: Format(
        mantissa=23,
        bias=127,
        ln_2=(0.693359375, -0.00021219444),
        exponential=(0.5, 0.16666488, 0.04166555, 0.008372284, 0.0014036059),
        binary=(0.6931472, 0.24022594, 0.055503663, 0.009625447, 0.0013387921, 0.00013331325),
        exp_range=(-104.0, 89.0),
        exp2_range=(-151.0, 129.0),
        expm1_range=(-18.0, 89.0),
    ),
    FLOAT64: Format(
        mantissa=52,
        bias=1023,
        ln_2=(0.6931471805598903, 5.497923018708371e-14),
        exponential=(
            0.5, 0.16666666666666688, 0.041666666666666845, 0.008333333333312985, 0.0013888888888757213,
            0.00019841269906185202, 2.4801587629684955e-05, 2.7557225313261977e-06, 2.755697898265099e-07,
            2.5115277274960397e-08, 2.101424125583028e-09,
        ),
        binary=(
            0.6931471805599453, 0.24022650695910172, 0.055504108664824574, 0.009618129107577077,
            0.0013333558145568337, 0.00015403530478849664, 1.5252734737179174e-05, 1.3215424483266604e-06,
            1.0177656396869854e-07, 7.0756171075107225e-09, 4.519272053708103e-10,
        ),
        exp_range=(-746.0, 710.0),
        exp2_range=(-1076.0, 1025.0),
        expm1_range=(-38.0, 710.0),
    ),
}  # fmt: skip


# --- exponentials -----------------------------------------------------------------------------------


def _reduced(x: Lanes) -> tuple[Lanes, Lanes]:
    """Write x = n·ln 2 + r with |r| ≤ ln 2 / 2. Return r, and bits whose lowest are the integer n."""
    form = FORMATS[x.dtype]
    shifted = multiply_add(x, LOG2_E, form.shifter)
    n = shifted - form.shifter
    high, low = form.ln_2
    r = multiply_add(n, -low, multiply_add(n, -high, x))
    return r, shifted.bits()


def _expm1_reduced(r: Lanes) -> Lanes:
    """eʳ - 1 for |r| ≤ ln 2 / 2."""
    return multiply_add(r * r, polynomial(r, FORMATS[r.dtype].exponential), r)


def times_power(x: Lanes, n: Lanes) -> Lanes:
    """x·2ⁿ where 2ⁿ is a normal number; of n only the lowest bits count.

    A multiplication, though adding to the exponent's bits would do for numbers: nan must stay nan.
    """
    form = FORMATS[x.dtype]
    return x * ((n << form.mantissa) + (form.bias << form.mantissa)).float_of_bits()


def _times_any_power(x: Lanes, n: Lanes, less: int = 0) -> Lanes:
    """x·2ⁿ⁻ˡᵉˢˢ for x near 1 and any result: denormal and infinite ones come out right.

    The power is applied in two halves. The first cannot leave the normal range, the second rounds.
    n: the bits of n + shifter.
    """
    form = FORMATS[x.dtype]
    lift = 4 * (form.bias + 1)  # makes n positive, so that a shift without sign halves it
    positive = n - (int(np.array(form.shifter, x.dtype).view(n.dtype)) - lift)
    half = positive >> 1
    first = ((half << form.mantissa) + ((form.bias - lift // 2) << form.mantissa)).float_of_bits()
    rest = positive - half
    second = ((rest << form.mantissa) + ((form.bias - lift // 2 - less) << form.mantissa)).float_of_bits()
    return x * first * second


def _is_instruction(x: Lanes) -> bool:
    return x.dtype == FLOAT32 and x.lanes == 1 and "fast.exp2" in x.emitter.fast


def _exp_by_instruction(x: Lanes) -> Lanes:
    """eˣ where the machine has an instruction for 2ˣ: what rounding has taken off its exponent is made up for."""
    exponent = x * LOG2_E
    rest = multiply_add(x, LOG2_E_REST, multiply_add(x, LOG2_E, -exponent))
    power = x.made(x.emitter.call("fast.exp2", "float", [("float", exponent.name)]))
    return power * multiply_add(rest, LN_2, 1.0)


def exp(x: Lanes, less: int = 0) -> Lanes:
    """eˣ (divided by 2 to the power `less`)."""
    low, high = FORMATS[x.dtype].exp_range
    if _is_instruction(x) and not less:
        return _exp_by_instruction(at_most(at_least(x, low), high))
    r, n = _reduced(at_most(at_least(x, low), high + less))
    return _times_any_power(_expm1_reduced(r) + 1, n, less)


def small_exp(x: Lanes) -> Lanes:
    """eˣ for x that is known to give a normal number: nothing is checked."""
    if _is_instruction(x):
        return _exp_by_instruction(x)
    r, n = _reduced(x)
    return times_power(_expm1_reduced(r) + 1, n)


def rough_exp(x: Lanes, factor: float = 1.0) -> Lanes:
    """e to the power of factor · x, for what is much smaller than what it is added to; nothing is checked."""
    if _is_instruction(x):
        exponent = x * (factor * LOG2_E)
        return x.made(x.emitter.call("fast.exp2", "float", [("float", exponent.name)]))
    return small_exp(x * factor if factor != 1.0 else x)


def exp_of_sum(x: Lanes, more: Lanes) -> Lanes:
    """e to the power of x + more, where more is much smaller than x; what r loses is added to more."""
    form = FORMATS[x.dtype]
    total = x + more
    bounded = at_most(at_least(total, form.exp_range[0]), form.exp_range[1])
    more = where(bounded.equals(total), (x - total) + more, 0.0)
    shifted = multiply_add(bounded, LOG2_E, form.shifter)
    n = shifted - form.shifter
    high, low = form.ln_2
    rough, small = multiply_add(n, -high, bounded), n * low
    r = rough - small
    more = more + ((rough - r) - small)
    rest = r * r * polynomial(r, form.exponential)
    rest = multiply_add(more, (r + rest) + 1, rest)
    return _times_any_power((r + rest) + 1, shifted.bits())


def exp2(x: Lanes) -> Lanes:
    """2ˣ."""
    form = FORMATS[x.dtype]
    low, high = form.exp2_range
    x = at_most(at_least(x, low), high)
    shifted = x + form.shifter
    r = x - (shifted - form.shifter)
    return _times_any_power(multiply_add(r, polynomial(r, form.binary), 1.0), shifted.bits())


def expm1(x: Lanes) -> Lanes:
    """eˣ - 1, as exact near 0 as elsewhere: 2·(2ⁿ⁻¹·(eʳ - 1) + (2ⁿ⁻¹ - ½))."""
    form = FORMATS[x.dtype]
    low, high = form.expm1_range
    r, n = _reduced(at_most(at_least(x, low), high))
    power = ((n << form.mantissa) + ((form.bias - 1) << form.mantissa)).float_of_bits()
    result = multiply_add(power, _expm1_reduced(r), power - 0.5) * 2
    return where(x.absolute() < 2.0 ** (-form.mantissa - 2), x, result)


# --- logarithms -------------------------------------------------------------------------------------

SQRT_HALF = 0.7071067811865476
# Factors of k and of log(1 + f) in logarithms to other bases: log_b 2 and 1 / log b, each as a piece so
# short that products with it are exact, and the rest.
BASE_2 = {
    FLOAT32: ((1.0, 0.0), (1.4423828125, 0.0003122284)),
    FLOAT64: ((1.0, 0.0), (1.4426950216293335, 1.9259629911266175e-08)),
}
BASE_10 = {
    FLOAT32: ((0.301025390625, 4.605039e-06), (0.4342041015625, 9.038034e-05)),
    FLOAT64: ((0.30102999566395283, 2.8363394551044964e-14), (0.4342944622039795, 1.9699272335463627e-08)),
}
SHORT = {FLOAT32: -(1 << 12), FLOAT64: -(1 << 32)}  # the bits that are left of such a piece
# (log(1 + f) - f + f²/2) / f³ for √½ ≤ 1 + f ≤ √2
LOG_FLOAT32 = (
    0.3333333, -0.2500082, 0.20001227, -0.16623358, 0.1420176, -0.13160181, 0.12761565, -0.07634486,
)  # fmt: skip
# (2·artanh s - 2s) / s³ as a function of s²; for log(1 + f), s is f / (2 + f)
ARTANH_FLOAT64 = (
    0.6666666666666734, 0.39999999999416647, 0.28571428742026056, 0.22222198605350135, 0.18183562832275213,
    0.15314085412637182, 0.147956268738632,
)  # fmt: skip


def exponent_and_fraction(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Write a normal x = 2ᵏ·(1 + f) with √½ ≤ 1 + f < √2. Return f, k, and k shifted to the exponent's bits."""
    form = FORMATS[x.dtype]
    bits = x.bits()
    root = int(np.array(SQRT_HALF, x.dtype).view(bits.dtype))
    # The exponent grows by one at √½ instead of ½; adding the bias first keeps the number positive.
    biased = (bits + ((form.bias << form.mantissa) - root)) >> form.mantissa
    exponent = (biased - form.bias) << form.mantissa
    f = (bits - exponent).float_of_bits() - 1
    # An integer becomes a float as the lowest bits of 2^mantissa: every processor can do that.
    whole = 2.0**form.mantissa
    k = (biased | int(np.array(whole, x.dtype).view(bits.dtype))).float_of_bits() - (whole + form.bias)
    return f, k, exponent


def _log_rest(f: Lanes, square: Lanes, half_square: Lanes) -> Lanes:
    """The rest in log(1 + f) = f - (f²/2 - rest)."""
    if f.dtype == FLOAT32:
        return f * square * polynomial(f, LOG_FLOAT32)
    s = f / (f + 2)
    z = s * s
    return s * multiply_add(z, polynomial(z, ARTANH_FLOAT64), half_square)


def _log(f: Lanes, k: Lanes) -> Lanes:
    """log(2ᵏ·(1 + f)), smallest terms first."""
    high, low = FORMATS[f.dtype].ln_2
    square = f * f
    half_square = square * 0.5
    rest = multiply_add(k, low, _log_rest(f, square, half_square))
    return multiply_add(k, high, f - (half_square - rest))


def normal(x: Lanes) -> tuple[Lanes, Lanes]:
    """Scale denormal numbers up. Return normal numbers, and what to add to the power of two."""
    form = FORMATS[x.dtype]
    tiny = x < 2.0 ** (1 - form.bias)
    power = form.mantissa + 1
    return where(tiny, x * 2.0**power, x), where(tiny, x.constant(-power), 0.0)


def _checked(x: Lanes, result: Lanes) -> Lanes:
    """The result of a logarithm, or what it is for zeros (-inf), negative numbers (nan), inf and nan (themselves)."""
    result = where(x < INF, result, x)
    result = where(x < 0, NAN, result)
    return where(x.equals(0), -INF, result)


def log(x: Lanes) -> Lanes:
    """The natural logarithm."""
    scaled, shift = normal(x)
    f, k, _ = exponent_and_fraction(scaled)
    return _checked(x, _log(f, k + shift))


def log1p(x: Lanes) -> Lanes:
    """log(1 + x), as exact near 0 as elsewhere.

    1 + x rounds; what it lost is added to f, scaled as f is. Near 0, f is x itself.
    """
    form = FORMATS[x.dtype]
    one_more = x + 1
    lost = x - (one_more - 1)
    f, k, exponent = exponent_and_fraction(one_more)
    scale = ((form.bias << form.mantissa) - exponent).float_of_bits()
    f = where(x < 2.0 ** (form.mantissa + 2), multiply_add(lost, scale, f), f)
    f = where(k.equals(0), x, f)
    return _checked(one_more, _log(f, k)).with_sign_of(x)


def log2(x: Lanes) -> Lanes:
    """The logarithm to base 2; exact for powers of 2."""
    return _log_to_base(x, *BASE_2[x.dtype])


def log10(x: Lanes) -> Lanes:
    """The logarithm to base 10."""
    return _log_to_base(x, *BASE_10[x.dtype])


def _log_to_base(x: Lanes, two: tuple[float, float], inverse: tuple[float, float]) -> Lanes:
    """k·log_b(2) + log(1 + f) / log(b), with log(1 + f) in two pieces as the constants are."""
    scaled, shift = normal(x)
    f, k, _ = exponent_and_fraction(scaled)
    k = k + shift
    square = f * f
    half_square = square * 0.5
    high = ((f - half_square).bits() & SHORT[x.dtype]).float_of_bits()
    low = ((f - high) - half_square) + _log_rest(f, square, half_square)
    whole, part = k * two[0], high * inverse[0]
    total = whole + part
    rounded_off = (whole - total) + part  # exact: the whole is 0 or the larger of the two
    small = multiply_add(k, two[1], multiply_add(low + high, inverse[1], low * inverse[0]))
    return _checked(x, total + (rounded_off + small))


@through_float64
def logaddexp(x: Lanes, y: Lanes) -> Lanes:
    """log(eˣ + eʸ): the larger one and log(1 + e^-|x - y|). Equal ones apart: inf - inf is nan.

    Near 0 the two cancel and digits are lost, in NumPy too.
    """
    larger = where(x > y, x, y)
    distance = (x - y).absolute()
    return where(x.equals(y), x + LN_2, larger + log1p(exp(-distance)))


FLOATS: dict[str, Callable[..., Lanes]] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log2": log2,
    "log10": log10,
    "log1p": log1p,
    "logaddexp": logaddexp,
}
