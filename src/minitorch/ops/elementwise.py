"""Element by element: arithmetic, powers, exponentials, trigonometry, activations, comparisons.

Enters: arrays that broadcast against each other. Leaves: an array of their common shape.
At kinks the rules follow the published conventions (docs/conventions.md).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.ops.op import SMALL, Array, Op, possible


@functools.cache
def special(name: str) -> Callable[..., Any]:
    """Return a function of scipy.special, which takes a tenth of a second to import, at first use."""
    import scipy.special

    return getattr(scipy.special, name)


_ZEROS = {np.dtype(kind): np.zeros((), kind) for kind in (np.float32, np.float64)}
_ONES = {np.dtype(kind): np.ones((), kind) for kind in (np.float32, np.float64)}


def zero(x: Array) -> Array:
    """Return 0 to compute with beside `x`: for NumPy's arrays of its dtype, which saves a conversion a call."""
    return _ZEROS.get(x.dtype, 0) if x.__class__ is np.ndarray else 0


def one(x: Array) -> Array:
    """Return 1 to compute with beside `x`."""
    return _ONES.get(x.dtype, 1) if x.__class__ is np.ndarray else 1


def kept(g: Array, mask: Array) -> Array:
    """Return `g` where the mask holds (is not 0), else 0, also where g is inf or nan: np.where(mask, g, 0).

    On a large array np.where takes four times as long as a product: it decides element by element, and a mask
    without a pattern makes the processor guess wrong half of the time. But 0·inf and 0·nan are nan, so it is
    the bits of `g`, read as integers, that are multiplied by 0 or 1.

    >>> kept(np.array([1.0, np.inf]), np.array([True, False]))
    array([1., 0.])
    """
    if g.__class__ is np.ndarray and g.size >= SMALL and g.itemsize <= 8 and g.shape == mask.shape:
        holds = mask if mask.dtype.kind == "b" else mask != 0
        out, bits = np.empty(g.shape, g.dtype), f"i{g.itemsize}"
        np.multiply(g.view(bits), holds, out=out.view(bits))
        return out
    return np.where(mask, g, zero(g))


# --- arithmetic ---------------------------------------------------------------------------------

ADD = Op("add", np.add, lambda g, out, x, y: g, lambda g, out, x, y: g)
SUB = Op("sub", np.subtract, lambda g, out, x, y: g, lambda g, out, x, y: -g)
MUL = Op("mul", np.multiply, lambda g, out, x, y: g * y, lambda g, out, x, y: g * x)
DIV = Op(
    "div",
    np.true_divide,
    lambda g, out, x, y: g / y,
    lambda g, out, x, y: -g * out / y,
    floating=True,
)
NEG = Op("neg", np.negative, lambda g, out, x: -g)
RECIPROCAL = Op("reciprocal", lambda x: 1 / x, lambda g, out, x: -g * out * out, floating=True)
SQUARE = Op("square", np.square, lambda g, out, x: g * (x + x))
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


def _pow(x: Array, y: Array) -> Array:
    # Cubes and fourth powers by multiplication: the general power takes a hundred times as long.
    if isinstance(y, (int, float)):
        if y == 3:
            return x * x * x
        if y == 4:
            return np.square(np.square(x))
    return x**y


POW = Op("pow", _pow, _pow_base, _pow_exponent)

REMAINDER = Op(
    "remainder",
    np.remainder,
    lambda g, out, x, y: g,
    # How often y was taken off: not ⌊x / y⌋, which for 1.0 and 0.1 is 10, where 9 were taken.
    lambda g, out, x, y: -g * np.floor_divide(x, y),
)
FMOD = Op("fmod", np.fmod, lambda g, out, x, y: g, lambda g, out, x, y: -g * np.round((x - out) / y))
LERP = Op(
    "lerp",
    lambda start, end, weight: start + weight * (end - start),
    lambda g, out, start, end, weight: g * (1 - weight),
    lambda g, out, start, end, weight: g * weight,
    lambda g, out, start, end, weight: g * (end - start),
)

# --- exponentials and roots ---------------------------------------------------------------------

EXP = Op("exp", np.exp, lambda g, out, x: g * out, floating=True)
EXP2 = Op("exp2", np.exp2, lambda g, out, x: g * (out * math.log(2)), floating=True)
EXPM1 = Op("expm1", np.expm1, lambda g, out, x: g * (out + 1), floating=True)
LOG = Op("log", np.log, lambda g, out, x: g / x, floating=True)
LOG2 = Op("log2", np.log2, lambda g, out, x: g / (x * math.log(2)), floating=True)
LOG10 = Op("log10", np.log10, lambda g, out, x: g / (x * math.log(10)), floating=True)
LOG1P = Op("log1p", np.log1p, lambda g, out, x: g / (1 + x), floating=True)
SQRT = Op("sqrt", np.sqrt, lambda g, out, x: g / (2 * out), floating=True)
RSQRT = Op("rsqrt", lambda x: 1 / np.sqrt(x), lambda g, out, x: -0.5 * g * out * out * out, floating=True)
LOGADDEXP = Op(
    "logaddexp",
    np.logaddexp,
    lambda g, out, x, y: g * SIGMOID(x - y),
    lambda g, out, x, y: g * SIGMOID(y - x),
    floating=True,
)


# atan2 and hypot share x² + y². atan2(0, 0) has no slope; 1 in place of 0 below makes it 0.
def _squared_radius(y: Array, x: Array) -> Array:
    r2 = x * x + y * y
    return np.where(r2 == 0, 1, r2)


HYPOT = Op(
    "hypot",
    np.hypot,
    lambda g, out, x, y: g * (x / out),
    lambda g, out, x, y: g * (y / out),
    floating=True,
)

# --- trigonometry -------------------------------------------------------------------------------

SIN = Op("sin", np.sin, lambda g, out, x: g * np.cos(x), floating=True)
COS = Op("cos", np.cos, lambda g, out, x: -g * np.sin(x), floating=True)
TAN = Op("tan", np.tan, lambda g, out, x: g * (1 + out * out), floating=True)
ASIN = Op("asin", np.arcsin, lambda g, out, x: g / np.sqrt(1 - x * x), floating=True)
ACOS = Op("acos", np.arccos, lambda g, out, x: -g / np.sqrt(1 - x * x), floating=True)
ATAN = Op("atan", np.arctan, lambda g, out, x: g / (1 + x * x), floating=True)
SINH = Op("sinh", np.sinh, lambda g, out, x: g * np.cosh(x), floating=True)
COSH = Op("cosh", np.cosh, lambda g, out, x: g * np.sinh(x), floating=True)
ASINH = Op("asinh", np.arcsinh, lambda g, out, x: g / np.sqrt(x * x + 1), floating=True)
ACOSH = Op("acosh", np.arccosh, lambda g, out, x: g / (np.sqrt(x - 1) * np.sqrt(x + 1)), floating=True)
ATANH = Op("atanh", np.arctanh, lambda g, out, x: g / (1 - x * x), floating=True)
ATAN2 = Op(
    "atan2",
    np.arctan2,
    lambda g, out, y, x: g * (x / _squared_radius(y, x)),
    lambda g, out, y, x: -g * (y / _squared_radius(y, x)),
    floating=True,
)

# --- activations --------------------------------------------------------------------------------

TANH = Op("tanh", np.tanh, lambda g, out, x: g * (one(out) - out * out), floating=True)
SIGMOID: Op = Op(
    "sigmoid",
    lambda x: 1 / (1 + np.exp(-x)),
    lambda g, out, x: g * (out * (one(out) - out)),
    floating=True,
)
# The result is 0 just where x <= 0: where x is nan the gradient passes, and does not look like a dead unit's.
RELU = Op("relu", lambda x: np.maximum(x, zero(x)), lambda g, out, x: kept(g, out))
LEAKY_RELU = Op(
    "leaky_relu",
    lambda x, *, slope: np.maximum(x, slope * x) if 0 < slope <= 1 else np.where(x > 0, x, slope * x),
    lambda g, out, x, *, slope: kept(g, x > 0) + slope * kept(g, ~(x > 0)),
)
ELU = Op(
    "elu",
    # One of the two terms is 0 everywhere.
    lambda x, *, alpha: np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0)),
    # Left of 0 the slope is α·eˣ, right of it 1, which is e^0.
    lambda g, out, x, *, alpha: (
        g * np.exp(np.minimum(x, 0))
        if alpha == 1
        else np.where(x > 0, g, g * alpha * np.exp(np.minimum(x, 0)))
    ),
    floating=True,
)


def _silu_rule(g: Array, out: Array, x: Array) -> Array:
    s = SIGMOID(x)
    return g * (s * (1 + x * (1 - s)))


SILU = Op("silu", lambda x: x / (1 + np.exp(-x)), _silu_rule, floating=True)


def _softplus(x: Array, *, beta: float, threshold: float) -> Array:
    z = beta * x
    # log(1 + e^z) as max(z, 0) + log(1 + e^-|z|), where nothing overflows.
    return np.where(z > threshold, x, (np.maximum(z, 0) + np.log1p(np.exp(-np.absolute(z)))) / beta)


SOFTPLUS = Op(
    "softplus",
    _softplus,
    lambda g, out, x, *, beta, threshold: np.where(beta * x > threshold, g, g * SIGMOID(beta * x)),
    floating=True,
)


def _erf(x: Array) -> Array:
    return special("erf")(x).astype(x.dtype, copy=False)  # SciPy has none in half precision


ERF = Op(
    "erf",
    _erf,
    lambda g, out, x: g * (2 / math.sqrt(math.pi) * np.exp(-x * x)),
    floating=True,
)

# gelu(x) = x·Φ(x) with Φ and φ the normal distribution's cumulative and density.
_SQRT_HALF = math.sqrt(0.5)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


def _gelu_rule(g: Array, out: Array, x: Array) -> Array:
    cdf = 0.5 * (1 + ERF(x * _SQRT_HALF))
    pdf = _INV_SQRT_2PI * np.exp(-0.5 * x * x)
    return g * (cdf + x * pdf)


GELU = Op(
    "gelu",
    lambda x: 0.5 * x * (1 + _erf(x * _SQRT_HALF)),
    _gelu_rule,
    floating=True,
)

# The tanh form that GPT-2 was trained with: 0.5·x·(1 + tanh(u)), u = √(2/π)·(x + 0.044715·x³).
_GELU_SCALE = math.sqrt(2 / math.pi)
_GELU_CUBIC = 0.044715


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(_GELU_SCALE * (x + _GELU_CUBIC * x * x * x)))


def _gelu_tanh_rule(g: Array, out: Array, x: Array) -> Array:
    t = np.tanh(_GELU_SCALE * (x + _GELU_CUBIC * x * x * x))
    slope_of_u = _GELU_SCALE * (1 + 3 * _GELU_CUBIC * x * x)
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope_of_u)


GELU_TANH = Op("gelu_tanh", _gelu_tanh, _gelu_tanh_rule, floating=True)

# --- kinks, choices and steps -------------------------------------------------------------------

ABS = Op("abs", np.absolute, lambda g, out, x: g * np.sign(x))


def _winner(g: Array, x: Array, y: Array, loses: Array) -> Array:
    """Return x's share of the gradient: nothing where it loses, half of it at a tie."""
    share = kept(g, ~loses)  # nan on either side leaves all comparisons false
    tie = x == y
    return np.where(tie, 0.5 * share, share) if possible(tie.any()) else share


MAXIMUM = Op(
    "maximum",
    np.maximum,
    lambda g, out, x, y: _winner(g, x, y, x < y),
    lambda g, out, x, y: _winner(g, y, x, y < x),
)
MINIMUM = Op(
    "minimum",
    np.minimum,
    lambda g, out, x, y: _winner(g, x, y, x > y),
    lambda g, out, x, y: _winner(g, y, x, y > x),
)


def _clip_rule(g: Array, out: Array, x: Array, *, low: float | None, high: float | None) -> Array:
    if low is None:
        return kept(g, x < high)
    if high is None:
        return kept(g, x > low)
    return kept(g, (x > low) & (x < high))


def _clip(x: Array, *, low: float | None, high: float | None) -> Array:
    if x.dtype.kind != "f":
        return np.clip(x, low, high)  # knows bounds that the dtype cannot hold
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


CLIP = Op("clip", _clip, _clip_rule)
WHERE = Op(
    "where",
    np.where,
    None,
    lambda g, out, condition, x, y: kept(g, condition),
    lambda g, out, condition, x, y: kept(g, ~condition),
)

# Flat almost everywhere: the derivative is 0, and it is recorded so that backward() runs through.
_flat = lambda g, out, x: np.zeros_like(g)
SIGN = Op("sign", np.sign, _flat)
FLOOR = Op("floor", np.floor, _flat)
CEIL = Op("ceil", np.ceil, _flat)
TRUNC = Op("trunc", np.trunc, _flat)
ROUND = Op(
    "round", lambda x, *, decimals: np.round(x, decimals), lambda g, out, x, *, decimals: np.zeros_like(g)
)

# A cast's rule gives g back as it is: the engine returns every gradient in its tensor's dtype.
CAST = Op("cast", lambda x, *, dtype: x.astype(dtype), lambda g, out, x, *, dtype: g)
TO_INT = Op("to_int", lambda x, *, dtype: x.astype(dtype))  # integers and bools carry no gradient

# --- questions: no derivative, never recorded ---------------------------------------------------

EQUAL = Op("eq", np.equal)
NOT_EQUAL = Op("ne", np.not_equal)
LESS = Op("lt", np.less)
LESS_EQUAL = Op("le", np.less_equal)
GREATER = Op("gt", np.greater)
GREATER_EQUAL = Op("ge", np.greater_equal)
LOGICAL_AND = Op("logical_and", np.logical_and)
LOGICAL_OR = Op("logical_or", np.logical_or)
LOGICAL_XOR = Op("logical_xor", np.logical_xor)
LOGICAL_NOT = Op("logical_not", np.logical_not)
BITWISE_AND = Op("bitwise_and", np.bitwise_and)
BITWISE_OR = Op("bitwise_or", np.bitwise_or)
BITWISE_XOR = Op("bitwise_xor", np.bitwise_xor)
BITWISE_NOT = Op("bitwise_not", np.bitwise_not)
ISNAN = Op("isnan", np.isnan)
ISINF = Op("isinf", np.isinf)
ISFINITE = Op("isfinite", np.isfinite)
