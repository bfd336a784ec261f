"""Activations: what stands between the layers of a network. Enters: an array. Leaves: an array of its shape."""

from __future__ import annotations

import math

import numpy as np

from minitorch.ops.fast import kept, one_minus, positive_part
from minitorch.ops.op import Array, Op, in_axis_order
from minitorch.ops.special import ERF
from minitorch.ops.sums import rounded_once

# --- curves --------------------------------------------------------------------------------------

TANH = Op(
    "tanh",
    np.tanh,
    lambda g, out, x: g * one_minus(out * out),
    floating=True,
    native=True,
    elementwise=True,
)
SIGMOID: Op = Op(
    "sigmoid",
    lambda x: 1 / (1 + np.exp(-x)),
    lambda g, out, x: g * (out * one_minus(out)),
    floating=True,
    native=True,
    elementwise=True,
)


def _silu_rule(g: Array, out: Array, x: Array) -> Array:
    s = SIGMOID(x)
    return g * (s * (1 + x * (1 - s)))


SILU = Op("silu", lambda x: x / (1 + np.exp(-x)), _silu_rule, floating=True, native=True, elementwise=True)


def _softplus(x: Array, *, beta: float, threshold: float) -> Array:
    z = beta * x
    # log(1 + e^z) as max(z, 0) + log(1 + e^-|z|), where nothing overflows.
    return np.where(z > threshold, x, (np.maximum(z, 0) + np.log1p(np.exp(-np.absolute(z)))) / beta)


SOFTPLUS = Op(
    "softplus",
    _softplus,
    lambda g, out, x, *, beta, threshold: np.where(beta * x > threshold, g, g * SIGMOID(beta * x)),
    floating=True,
    native=True,
    elementwise=True,
)

# --- kinks ---------------------------------------------------------------------------------------

# The result is 0 just where x <= 0: where x is nan the gradient passes, and does not look like a dead unit's.
RELU = Op("relu", positive_part, lambda g, out, x: kept(g, out), native=True, elementwise=True)
LEAKY_RELU = Op(
    "leaky_relu",
    lambda x, *, slope: np.maximum(x, slope * x) if 0 < slope <= 1 else np.where(x > 0, x, slope * x),
    lambda g, out, x, *, slope: kept(g, x > 0) + slope * kept(g, ~(x > 0)),
    native=True,
    elementwise=True,
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
    native=True,
    elementwise=True,
)

# x·min(max(x + 3, 0), 6)/6: 0 below -3, x above 3, and a parabola between.
HARDSWISH = Op(
    "hardswish",
    lambda x: x * (np.minimum(np.maximum(x + 3, 0), 6) / 6),
    lambda g, out, x: np.where(x <= -3, 0, np.where(x < 3, g * (x / 3 + 0.5), g)),
    floating=True,
    native=True,
    elementwise=True,
)

# --- gelu ----------------------------------------------------------------------------------------

# gelu(x) = x·Φ(x) with Φ and φ the normal distribution's cumulative and density.
_SQRT_HALF = math.sqrt(0.5)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


def _gelu_rule(g: Array, out: Array, x: Array) -> Array:
    cdf = 0.5 * (1 + ERF(x * _SQRT_HALF))
    pdf = _INV_SQRT_2PI * np.exp(-0.5 * x * x)
    return g * (cdf + x * pdf)


GELU = Op(
    "gelu",
    lambda x: 0.5 * x * (1 + ERF.forward(x * _SQRT_HALF)),
    _gelu_rule,
    floating=True,
    native=True,
    elementwise=True,
    costly=True,
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


GELU_TANH = Op("gelu_tanh", _gelu_tanh, _gelu_tanh_rule, floating=True, native=True, elementwise=True)

# --- softmax -------------------------------------------------------------------------------------


def _shifted(x: Array, axis: int) -> Array:
    # softmax does not change when a row is shifted; with its largest at 0, exp cannot overflow.
    return x - x.max(axis=axis, keepdims=True) if x.shape[axis] else x.copy()


def _softmax(x: Array, *, axis: int) -> Array:
    out = _shifted(x, axis)  # an array of our own: what follows may write into it
    np.exp(out, out=out)
    return in_axis_order(np.divide(out, out.sum(axis=axis, keepdims=True), out=out))


def _softmax_rule(g: Array, out: Array, x: Array, *, axis: int) -> Array:
    # The Jacobian diag(s) - s sᵀ, applied without being built: s·(g - ⟨g, s⟩).
    weighted = g * out
    return weighted - out * weighted.sum(axis=axis, keepdims=True)


SOFTMAX = Op("softmax", rounded_once(_softmax), _softmax_rule, floating=True, native=True)


def _log_softmax(x: Array, *, axis: int) -> Array:
    shifted = _shifted(x, axis)
    total = np.exp(shifted).sum(axis=axis, keepdims=True)
    return in_axis_order(np.subtract(shifted, np.log(total), out=shifted))


LOG_SOFTMAX = Op(
    "log_softmax",
    rounded_once(_log_softmax),
    lambda g, out, x, *, axis: g - np.exp(out) * g.sum(axis=axis, keepdims=True),
    floating=True,
    native=True,
)
