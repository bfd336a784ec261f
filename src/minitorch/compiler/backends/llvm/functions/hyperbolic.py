"""Hyperbolic functions, their inverses, and erf. Enters: Lanes of float32 or float64. Leaves: the same.

Near 0 each has a polynomial of its own, since differences of exponentials cancel there; the rest is exp or
log1p. Both are computed in every lane and one is chosen: vectors have no branches.
"""

from __future__ import annotations

from collections.abc import Callable

from minitorch.compiler.backends.llvm.functions.exponential import LN_2, NAN, exp, log1p, rough_exp
from minitorch.compiler.backends.llvm.functions.lanes import (
    FLOAT32,
    FLOAT64,
    Lanes,
    at_most,
    multiply_add,
    polynomial,
    through_float64,
    twice_reciprocal,
    where,
)
from minitorch.ops.error_function import ERF, ERF_BOUND, ERF_TAIL

# (tanh x - x) / x³ as a function of x², below a bound; above the last bound tanh is 1.
TANH = {
    FLOAT32: (-0.333333, 0.13332243, -0.05385363, 0.021306163, -0.0074128155, 0.0015858269),
    FLOAT64: (
        -0.333333333333333, 0.1333333333332656, -0.05396825396371524, 0.02186948838427739,
        -0.008863232571279495, 0.003592091684761056, -0.0014555403692371762, 0.0005884333131571715,
        -0.00023335073897367645, 8.326896209968585e-05, -1.946340858831874e-05,
    ),
}  # fmt: skip
TANH_BOUNDS = {FLOAT32: (0.8, 9.5), FLOAT64: (0.55, 20.0)}

# (sinh x - x) / x³ as a function of x², for |x| ≤ 1
SINH = (
    0.16666666666666669, 0.008333333333332915, 0.00019841269841589245, 2.75573191084853e-06,
    2.5052130675566585e-08, 1.6056687095115377e-10, 7.775692284703308e-13,
)  # fmt: skip


def tanh(x: Lanes) -> Lanes:
    """tanh x = 1 - 2 / (e²ˣ + 1); near 0 an odd polynomial."""
    near, far = TANH_BOUNDS[x.dtype]
    square, size = x * x, x.absolute()
    small = multiply_add(x * square, polynomial(square, TANH[x.dtype]), x)
    large = 1 - twice_reciprocal(rough_exp(at_most(size, far), 2.0) + 1)
    return where(size < near, small, large).with_sign_of(x)


def erf(x: Lanes) -> Lanes:
    """erf x = 1 - exp(polynomial); near 0 an odd polynomial."""
    square, size = x * x, x.absolute()
    small = multiply_add(x, polynomial(square, ERF[x.dtype]), x)
    large = 1 - rough_exp(polynomial(at_most(size, ERF_BOUND[x.dtype]), ERF_TAIL[x.dtype]))
    return where(size < 1, small, large.with_sign_of(x))


@through_float64
def sinh(x: Lanes) -> Lanes:
    """sinh x = (eˣ - e⁻ˣ) / 2; near 0 an odd polynomial."""
    square, size = x * x, x.absolute()
    small = multiply_add(x * square, polynomial(square, SINH), x)
    half = exp(size, less=1)
    return where(size < 1, small, (half - 0.25 / half).with_sign_of(x))


@through_float64
def cosh(x: Lanes) -> Lanes:
    """cosh x = (eˣ + e⁻ˣ) / 2."""
    half = exp(x.absolute(), less=1)
    return half + 0.25 / half


BIG = 2.0**60  # one more or less is the same number, and its square is no overflow yet


@through_float64
def arcsinh(x: Lanes) -> Lanes:
    """arsinh x = log(x + √(x² + 1)), written for log1p: x + x² / (1 + √(x² + 1))."""
    size = x.absolute()
    square = x * x
    more = size + square / ((square + 1).intrinsic("sqrt") + 1)
    return _log_of(where(size > BIG, size, more), size > BIG).with_sign_of(x)


@through_float64
def arccosh(x: Lanes) -> Lanes:
    """arcosh x = log(x + √(x² - 1)), written for log1p with t = x - 1: t + √(2t + t²)."""
    t = x - 1
    more = t + multiply_add(t, t, t * 2).intrinsic("sqrt")
    return where(x < 1, NAN, _log_of(where(x > BIG, x, more), x > BIG))


def _log_of(less_one: Lanes, doubled: Lanes) -> Lanes:
    """log1p of a number, plus log 2 where the number stands for its double."""
    return log1p(less_one) + where(doubled, less_one.constant(LN_2), 0.0)


@through_float64
def arctanh(x: Lanes) -> Lanes:
    """artanh x = ½·log((1 + x) / (1 - x))."""
    size = x.absolute()
    return (log1p(size * 2 / (1 - size)) * 0.5).with_sign_of(x)


FLOATS: dict[str, Callable[..., Lanes]] = {
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "arcsinh": arcsinh,
    "arccosh": arccosh,
    "arctanh": arctanh,
    "erf": erf,
}
