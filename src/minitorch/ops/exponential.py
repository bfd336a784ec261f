"""Exponentials, logarithms, roots. Enters: arrays that broadcast against each other. Leaves: an array."""

from __future__ import annotations

import math

import numpy as np

from minitorch.ops.activation import SIGMOID
from minitorch.ops.op import Array, Op

EXP = Op("exp", np.exp, lambda g, out, x: g * out, floating=True)
EXP2 = Op("exp2", np.exp2, lambda g, out, x: g * (out * math.log(2)), floating=True)
EXPM1 = Op("expm1", np.expm1, lambda g, out, x: g * (out + 1), floating=True)
LOG = Op("log", np.log, lambda g, out, x: g / x, floating=True)
LOG2 = Op("log2", np.log2, lambda g, out, x: g / (x * math.log(2)), floating=True)
LOG10 = Op("log10", np.log10, lambda g, out, x: g / (x * math.log(10)), floating=True)
LOG1P = Op("log1p", np.log1p, lambda g, out, x: g / (1 + x), floating=True)
SQRT = Op("sqrt", np.sqrt, lambda g, out, x: g / (2 * out), floating=True)
RSQRT = Op(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    lambda g, out, x: -0.5 * g * out * out * out,
    floating=True,
    elementwise=True,
    there=True,
)

# --- sums of exponentials ------------------------------------------------------------------------

LOGADDEXP = Op(
    "logaddexp",
    np.logaddexp,
    lambda g, out, x, y: g * SIGMOID(x - y),
    lambda g, out, x, y: g * SIGMOID(y - x),
    floating=True,
)


def _two_share(x: Array, y: Array) -> Array:
    """Return 2ˣ / (2ˣ + 2ʸ), without overflow."""
    return 1 / (1 + np.exp2(y - x))


LOGADDEXP2 = Op(
    "logaddexp2",
    np.logaddexp2,
    lambda g, out, x, y: g * _two_share(x, y),
    lambda g, out, x, y: g * _two_share(y, x),
    floating=True,
)

# --- floats taken apart: mantissa · 2^exponent ---------------------------------------------------

FREXP_MANTISSA = Op(
    "frexp_mantissa",
    lambda x: np.frexp(x)[0],
    lambda g, out, x: g * np.exp2(-FREXP_EXPONENT(x).astype(g.dtype)),
)
FREXP_EXPONENT: Op = Op("frexp_exponent", lambda x: np.frexp(x)[1].astype(np.int32))
