"""Arithmetic: sums, products, quotients, powers, remainders, signs.

Enters: arrays that broadcast against each other. Leaves: an array of their common shape.
At kinks the rules follow the published conventions (docs/conventions.md).
"""

from __future__ import annotations

import math

import numpy as np

from minitorch.ops import fast
from minitorch.ops.op import Array, Op, unchanged

# --- sums, products, quotients -------------------------------------------------------------------

ADD = Op("add", np.add, unchanged, unchanged)
SUB = Op("sub", np.subtract, unchanged, lambda g, out, x, y: -g)
MUL = Op("mul", np.multiply, lambda g, out, x, y: g * y, lambda g, out, x, y: g * x)
DIV = Op(
    "div",
    np.true_divide,
    lambda g, out, x, y: g / y,
    lambda g, out, x, y: -g * (x / y) / y,  # not from `out`, which may be written into as in PyTorch
    floating=True,
)
NEG = Op("neg", np.negative, lambda g, out, x: -g)
RECIPROCAL = Op(
    "reciprocal",
    lambda x: 1 / x,
    lambda g, out, x: -g * out * out,
    floating=True,
    elementwise=True,
    there=True,
)
SQUARE = Op("square", np.square, lambda g, out, x: g * (x + x))
LERP = Op(
    "lerp",
    lambda start, end, weight: start + weight * (end - start),
    lambda g, out, start, end, weight: g * (1 - weight),
    lambda g, out, start, end, weight: g * weight,
    lambda g, out, start, end, weight: g * (end - start),
    elementwise=True,
    there=True,
)

# --- powers --------------------------------------------------------------------------------------


def _pow_base(g: Array, out: Array, x: Array, y: Array) -> Array:
    if isinstance(y, (int, float)):
        if y == 0:
            return g * 0  # not zeros_like: a gradient of this gradient may be asked for
        if y == 2 and x.__class__ is np.ndarray:
            return g * (x + x)  # on Tensors x stays inside a power, which has derivatives of every order
        return g * (y * x ** (y - 1))
    # y·x^(y-1) is 0 for y = 0, also at x = 0, where the formula alone would give 0·inf = nan.
    flat = y == 0
    return np.where(flat, 0, g * y * x ** np.where(flat, 1, y - 1))


def _pow_exponent(g: Array, out: Array, x: Array, y: Array) -> Array:
    if isinstance(x, (int, float)) and g.dtype.kind != "c":
        if x == 0:
            return np.where(y >= 0, 0, g * out * -math.inf)
        return g * out * (math.log(x) if x > 0 else math.nan)
    # 0^y stays 0 (or 1) when y ≥ 0 moves, although log 0 is -inf.
    if g.dtype.kind == "c":
        x = complex(x) if isinstance(x, (int, float)) else x
        y = y.real if hasattr(y, "dtype") and y.dtype.kind == "c" else y
    flat = (x == 0) & (y >= 0)
    return np.where(flat, 0, g * out * np.log(np.where(flat, 1, x)))


POW = Op("pow", fast.power, _pow_base, _pow_exponent, elementwise=True, there=True)

# --- signs ---------------------------------------------------------------------------------------

ABS = Op("abs", np.absolute, lambda g, out, x: g * np.sign(x))
# Of nan it is 0, as in PyTorch.
SIGN = Op(
    "sign",
    lambda x: np.where(x != x, 0, np.sign(x)),
    lambda g, out, x: np.zeros_like(g),
    elementwise=True,
    there=True,
)
COPYSIGN = Op(
    "copysign",
    np.copysign,
    # ±g as the sign was changed or kept; at 0, where |x| has its kink, 0.
    lambda g, out, x, y: g * np.sign(x) * np.sign(out),
    lambda g, out, x, y: np.zeros_like(g),
    floating=True,
)

# --- whole numbers -------------------------------------------------------------------------------

FLOOR_DIVIDE = Op("floor_divide", np.floor_divide)


def _truncated_quotient(x: Array, y: Array) -> Array:
    if any(n.dtype.kind == "f" if hasattr(n, "dtype") else isinstance(n, float) for n in (x, y)):
        return np.trunc(x / y)
    # Integers stay integers, since a float64 would round beyond 2⁵³: ⌊x / y⌋, and 1 more where that went
    # below a quotient that is negative and not whole.
    return x // y + ((x % y != 0) & ((x < 0) != (y < 0)))


# Division of floats to a whole number: flat almost everywhere, and recorded so that backward() runs through.
_flat_of_two = lambda g, out, x, y: np.zeros_like(g)
FLOOR_QUOTIENT = Op("floor_divide", np.floor_divide, _flat_of_two, _flat_of_two, register=False)
TRUNC_QUOTIENT = Op("div_trunc", _truncated_quotient, _flat_of_two, _flat_of_two, register=False)
REMAINDER = Op(
    "remainder",
    np.remainder,
    lambda g, out, x, y: g,
    # How often y was taken off: not ⌊x / y⌋, which for 1.0 and 0.1 is 10, where 9 were taken.
    lambda g, out, x, y: -g * np.floor_divide(x, y),
)
FMOD = Op(
    "fmod", np.fmod, lambda g, out, x, y: g, lambda g, out, x, y: -g * np.round((x - np.fmod(x, y)) / y)
)
GCD = Op("gcd", lambda x, y: np.gcd(x, y))
LCM = Op("lcm", lambda x, y: np.absolute(np.lcm(x, y)))

# --- random numbers ------------------------------------------------------------------------------

# A normal number that was drawn stays what it is when mean and std move, as in PyTorch.
_flat_of_three = lambda g, out, x, y, z: np.zeros_like(g)
NORMAL = Op(
    "normal",
    lambda noise, std, mean: noise * std + mean,
    None,
    _flat_of_three,
    _flat_of_three,
    register=False,
)
