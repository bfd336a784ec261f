"""Circular functions and their inverses. Enters: Lanes of float32 or float64. Leaves: the same.

sin and cos have formulas for each dtype, all others are formulas of float64. Of arguments beyond a million
sin, cos and tan are libm's, lane by lane. That takes a branch, and a kernel's text goes on in the block it is
in; so these three are functions of their own, which kernels call and which stand beside the declarations.
"""

from __future__ import annotations

from collections.abc import Callable

from minitorch.compiler.backends.llvm.functions.exponential import FORMATS
from minitorch.compiler.backends.llvm.functions.lanes import (
    BITS,
    FLOAT32,
    FLOAT64,
    Lanes,
    bit_count,
    multiply_add,
    polynomial,
    through_float64,
    where,
)
from minitorch.compiler.backends.llvm.text import Emitter

PI = (3.141592653589793, 1.2246467991473532e-16)  # with what the first is short of
HALF_PI = (PI[0] / 2, PI[1] / 2)
QUARTER_PI = (PI[0] / 4, PI[1] / 4)
# π/2 in three pieces, the first two of 33 bits: their products with integers up to 2²⁰ are exact
HALF_PI_PIECES = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
LIMIT = 2.0**20
TINY = 2.0**-27  # sin x and tan x are x

# For |r| ≤ π/4, as functions of r²: (sin r - r) / r³ and (cos r - 1 + r²/2) / r⁴
SIN = (
    -0.16666666666666632, 0.008333333333322486, -0.00019841269829853325, 2.7557313705026008e-06,
    -2.5050759879377396e-08, 1.589688568642271e-10,
)  # fmt: skip
COS = (
    0.0416666666666666, -0.001388888888887447, 2.4801587289666932e-05, -2.7557314399282123e-07,
    2.087572899753285e-09, -1.1359917544344063e-11,
)  # fmt: skip
SIN_FLOAT32 = (-0.16666667, 0.00833338, -0.00019853511, 2.8375132e-06)
COS_FLOAT32 = (0.041666646, -0.0013887301, 2.443067e-05)
# (arctan t - t) / t³ as a function of t², for |t| ≤ √2 - 1
ARCTAN = (
    -0.333333333333332, 0.19999999999953827, -0.14285714280224046, 0.11111110784985113, -0.09090897805078928,
    0.07692061105306615, -0.06663114581999623, 0.05847968142382468, -0.05039667096673155,
    0.03807389834517264, -0.01791753524394027,
)  # fmt: skip
# (arcsin s - s) / s³ as a function of s², for |s| ≤ ½
ARCSIN = (
    0.16666666666666763, 0.0749999999997013, 0.04464285717525319, 0.030381942676930507, 0.022372215857815774,
    0.017351596388208712, 0.013981007620510225, 0.011397384445130736, 0.010788797569066002,
    0.0036742044419661034, 0.02178563425016786, -0.021109485994336614, 0.03269755215704824,
)  # fmt: skip


def _sin_and_cos(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Write x = n·π/2 + r with |r| ≤ π/4. Return sin r, cos r, and bits whose lowest are n."""
    return _sin_and_cos_float32(x) if x.dtype == FLOAT32 else _sin_and_cos_float64(x)


def _turns(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Of a float64: n, its bits, and x less n times the first piece of π/2 (which is exact)."""
    shifter = FORMATS[x.dtype].shifter
    shifted = multiply_add(x, 2 / PI[0], shifter)
    n = shifted - shifter
    return n, shifted.bits(), multiply_add(n, -HALF_PI_PIECES[0], x)


def _sin_and_cos_float32(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """The reduction in float64, which leaves enough bits however near x is to a multiple of π/2."""
    n, bits, first = _turns(x.convert("fpext", FLOAT64))
    r = multiply_add(n, -HALF_PI_PIECES[1], first).convert("fptrunc", FLOAT32)
    square = r * r
    sine = multiply_add(square * r, polynomial(square, SIN_FLOAT32), r)
    cosine = multiply_add(square, multiply_add(square, polynomial(square, COS_FLOAT32), -0.5), 1.0)
    return sine, cosine, bits.convert("trunc", BITS[FLOAT32])


def _sin_and_cos_float64(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """r is kept as two numbers, since x near a multiple of π/2 leaves few bits of itself."""
    n, bits, first = _turns(x)
    second = n * HALF_PI_PIECES[1]
    difference = first - second
    back = difference - first
    error = (first - (difference - back)) - (second + back)
    low = multiply_add(n, -HALF_PI_PIECES[2], error)
    r = difference + low
    low = (difference - r) + low

    square = r * r
    half = square * 0.5
    sine = r + multiply_add(square * r, polynomial(square, SIN), low - low * half)
    rough = 1 - half
    cosine = rough + (((1 - rough) - half) + ((square * square) * polynomial(square, COS) - r * low))
    return sine, cosine, bits


def _sin(x: Lanes) -> Lanes:
    sine, cosine, n = _sin_and_cos(x)
    return where(x.absolute() < TINY, x, _turned(n, sine, cosine))


def _cos(x: Lanes) -> Lanes:
    sine, cosine, n = _sin_and_cos(x)
    return _turned(n + 1, sine, cosine)


def _turned(n: Lanes, sine: Lanes, cosine: Lanes) -> Lanes:
    """sin(n·π/2 + r) from r's sine and cosine."""
    chosen = where((n & 1).differs(0), cosine, sine)
    return (chosen.bits() ^ ((n & 2) << (bit_count(n.dtype) - 2))).float_of_bits()


def _tan(x: Lanes) -> Lanes:
    sine, cosine, n = _sin_and_cos(x)
    odd = (n & 1).differs(0)
    result = where(odd, -cosine, sine) / where(odd, sine, cosine)
    return where(x.absolute() < TINY, x, result)


def _any_size(name: str, formula: Callable[[Lanes], Lanes]) -> Callable[[Lanes], Lanes]:
    """A formula for moderate arguments, made into a function that asks libm about the others."""

    def called(x: Lanes) -> Lanes:
        symbol = f"minitorch.{name}.{x.overloaded}"
        if symbol not in x.emitter.externs:
            inside = Lanes(Emitter(), "%x", x.dtype, x.lanes)
            x.emitter.externs[symbol] = _definition(symbol, inside, name, formula)
            x.emitter.externs.update(inside.emitter.externs)
        return x.made(x.emitter.op(f"call {x.type} @{symbol}({x.type} {x.name})"))

    return called


def _definition(symbol: str, x: Lanes, name: str, formula: Callable[[Lanes], Lanes]) -> str:
    """The text of a function with the formula, and with libm's results where an argument is huge."""
    e = x.emitter
    huge = x.absolute() > LIMIT
    result = formula(x)
    if x.lanes == 1:
        some = huge.name
    else:
        mask = e.op(f"bitcast {huge.type} {huge.name} to i{x.lanes}")
        some = e.op(f"icmp ne i{x.lanes} {mask}, 0")
    e.line(f"br i1 {some}, label %exact, label %done")
    e.label("done")
    e.line(f"ret {x.type} {result.name}")
    e.label("exact")
    exact = where(huge, x.each(name), result)
    e.line(f"ret {x.type} {exact.name}")
    body = "\n".join(e.lines)
    return f"define private {x.type} @{symbol}({x.type} %x) nounwind {{\n{body}\n}}"


sin, cos, tan = _any_size("sin", _sin), _any_size("cos", _cos), through_float64(_any_size("tan", _tan))


def _arctan_reduced(t: Lanes, base: Lanes, base_low: Lanes) -> Lanes:
    """base + arctan t for |t| ≤ √2 - 1."""
    square = t * t
    return base + (t + multiply_add(t * square, polynomial(square, ARCTAN), base_low))


@through_float64
def arctan(x: Lanes) -> Lanes:
    """arctan x: π/4 + arctan((x - 1) / (x + 1)) around 1 and π/2 - arctan(1 / x) beyond."""
    size = x.absolute()
    middle, far = size > 2**0.5 - 1, size > 2**0.5 + 1
    above = where(far, -1.0, where(middle, size - 1, size))
    below = where(far, size, where(middle, size + 1, 1.0))
    base, low = (
        where(far, x.constant(half), where(middle, x.constant(quarter), 0.0))
        for half, quarter in zip(HALF_PI, QUARTER_PI, strict=True)
    )
    return _arctan_reduced(above / below, base, low).with_sign_of(x)


@through_float64
def arctan2(y: Lanes, x: Lanes) -> Lanes:
    """The angle of the point (x, y): arctan of the smaller over the larger, mirrored to where the point is."""
    width, height = x.absolute(), y.absolute()
    steep = height > width
    smaller, larger = where(steep, width, height), where(steep, height, width)
    # Equal ones also when both are infinite; both 0 is no angle at all, and has the axis' angle.
    same = where(larger.equals(0), larger.constant(0.0), 1.0)
    t = where(smaller.equals(larger), same, smaller / larger)
    middle = t > 2**0.5 - 1
    base, low = (where(middle, t.constant(part), 0.0) for part in QUARTER_PI)
    angle = _arctan_reduced(where(middle, (t - 1) / (t + 1), t), base, low)
    angle = where(steep, _from(HALF_PI, angle), angle)
    angle = where((x.bits() >> 63).differs(0), _from(PI, angle), angle)
    return angle.with_sign_of(y)


def _from(total: tuple[float, float], angle: Lanes) -> Lanes:
    """A multiple of π, less an angle."""
    return total[0] - (angle - total[1])


def _arcsin_parts(x: Lanes) -> tuple[Lanes, Lanes]:
    """Where |x| ≥ ½; and arcsin of |x| below, of √((1 - |x|) / 2) above."""
    size = x.absolute()
    large = size >= 0.5
    square = where(large, (1 - size) * 0.5, x * x)
    s = where(large, square.intrinsic("sqrt"), size)
    return large, multiply_add(s * square, polynomial(square, ARCSIN), s)


@through_float64
def arcsin(x: Lanes) -> Lanes:
    """arcsin x; near 1 it is π/2 - 2·arcsin √((1 - x) / 2)."""
    large, angle = _arcsin_parts(x)
    return where(large, _from(HALF_PI, angle * 2), angle).with_sign_of(x)


@through_float64
def arccos(x: Lanes) -> Lanes:
    """arccos x = π/2 - arcsin x; near 1 it is 2·arcsin √((1 - x) / 2), and π less that near -1."""
    large, angle = _arcsin_parts(x)
    double = angle * 2
    near_ends = where(x < 0, _from(PI, double), double)
    return where(large, near_ends, _from(HALF_PI, angle.with_sign_of(x)))


FLOATS: dict[str, Callable[..., Lanes]] = {
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "arcsin": arcsin,
    "arccos": arccos,
    "arctan": arctan,
    "arctan2": arctan2,
}
