"""Rounding: to whole numbers, to the next float, to another dtype. Enters: an array. Leaves: an array of its shape."""

from __future__ import annotations

import numpy as np

from minitorch.ops.fast import kept
from minitorch.ops.narrow import takes_narrow
from minitorch.ops.op import Op, order_of

# Flat almost everywhere: the derivative is 0, and it is recorded so that backward() runs through.
_flat = lambda g, out, x: np.zeros_like(g)

FLOOR = Op("floor", np.floor, _flat)
CEIL = Op("ceil", np.ceil, _flat)
TRUNC = Op("trunc", np.trunc, _flat)
ROUND = Op(
    "round", lambda x, *, decimals: np.round(x, decimals), lambda g, out, x, *, decimals: np.zeros_like(g)
)
# One step away from x, and so as steep as x itself.
NEXTAFTER = Op(
    "nextafter",
    np.nextafter,
    lambda g, out, x, y: kept(g, x != y),
    lambda g, out, x, y: np.zeros_like(g),
)

# --- other dtypes --------------------------------------------------------------------------------

# A cast's rule gives g back as it is: the engine returns every gradient in its tensor's dtype.
CAST = Op(
    "cast",
    takes_narrow(lambda x, *, dtype: x.astype(dtype, order_of(x))),
    takes_narrow(lambda g, out, x, *, dtype: g),
    elementwise=True,
    there="forward",
)
TO_INT = Op("to_int", lambda x, *, dtype: x.astype(dtype))  # integers and bools carry no gradient
