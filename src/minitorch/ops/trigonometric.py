"""Sines, cosines, tangents, their inverses, and the hyperbolic ones; angles and lengths of points in the plane.

Enters: arrays that broadcast against each other. Leaves: an array of their common shape.
"""

from __future__ import annotations

import numpy as np

from minitorch.ops.op import Array, Op

SIN = Op("sin", np.sin, lambda g, out, x: g * np.cos(x), floating=True)
COS = Op("cos", np.cos, lambda g, out, x: -g * np.sin(x), floating=True)
TAN = Op("tan", np.tan, lambda g, out, x: g * (1 + out * out), floating=True)
ASIN = Op("asin", np.arcsin, lambda g, out, x: g / np.sqrt(1 - x * x), floating=True)
ACOS = Op("acos", np.arccos, lambda g, out, x: -g / np.sqrt(1 - x * x), floating=True)
ATAN = Op("atan", np.arctan, lambda g, out, x: g / (1 + x * x), floating=True)

# --- hyperbolic ----------------------------------------------------------------------------------

SINH = Op("sinh", np.sinh, lambda g, out, x: g * np.cosh(x), floating=True)
COSH = Op("cosh", np.cosh, lambda g, out, x: g * np.sinh(x), floating=True)
ASINH = Op("asinh", np.arcsinh, lambda g, out, x: g / np.sqrt(x * x + 1), floating=True)
ACOSH = Op("acosh", np.arccosh, lambda g, out, x: g / (np.sqrt(x - 1) * np.sqrt(x + 1)), floating=True)
ATANH = Op("atanh", np.arctanh, lambda g, out, x: g / (1 - x * x), floating=True)

# --- points in the plane -------------------------------------------------------------------------


# atan2 and hypot share x² + y². atan2(0, 0) has no slope; 1 in place of 0 below makes it 0.
def _squared_radius(y: Array, x: Array) -> Array:
    r2 = x * x + y * y
    return np.where(r2 == 0, 1, r2)


ATAN2 = Op(
    "atan2",
    np.arctan2,
    lambda g, out, y, x: g * (x / _squared_radius(y, x)),
    lambda g, out, y, x: -g * (y / _squared_radius(y, x)),
    floating=True,
)
HYPOT = Op(
    "hypot",
    np.hypot,
    lambda g, out, x, y: g * (x / out),
    lambda g, out, x, y: g * (y / out),
    floating=True,
)
