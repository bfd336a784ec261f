"""What layers are made of: the affine map, and normalisation. Enters: activations. Leaves: activations.

Both could be composed of other ops; as one op each they write a fraction of the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from minitorch.ops.contract import MATMUL
from minitorch.ops.op import Array, Op, count_of

# --- y = x Wᵀ + b -------------------------------------------------------------------------------


def _rows(x: Array) -> Array:
    """Return (…, K) as (N, K): every row of every batch axis under the other."""
    return x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))


def _linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    out = _rows(x) @ weight.swapaxes(0, 1)
    if bias is not None:
        out += bias  # into the product: nobody else has seen it yet
    return out.reshape((*x.shape[:-1], weight.shape[0]))


# dx = g W and dW = gᵀ x, summed over all rows; the engine sums g over the rows for db.
LINEAR = Op(
    "linear",
    _linear,
    lambda g, out, x, weight, bias=None: MATMUL(g, weight),
    lambda g, out, x, weight, bias=None: _rows(g).swapaxes(0, 1) @ _rows(x),
    lambda g, out, x, weight, bias=None: g,
    noisy=True,
)

# --- (x - mean) / √(variance + ε) ---------------------------------------------------------------


def _normalize(x: Array, *, axes: Sequence[int], eps: float, centre: bool) -> tuple[Array, Array, Array]:
    """Return x normalised over `axes`, and the mean and the (biased) variance it was normalised with.

    Without `centre` the mean is taken to be 0: what is left is RMS normalisation.
    """
    count = max(count_of(x.shape, axes), 1)
    mean = x.sum(axis=axes, keepdims=True) / count if centre else 0.0
    out = x - mean if centre else x
    variance = (out * out).sum(axis=axes, keepdims=True) / count
    return out * (1 / np.sqrt(variance + eps)), mean if centre else np.zeros_like(variance), variance


def _normalize_rule(
    g: Sequence[Array],
    out: Sequence[Array],
    x: Array,
    *,
    axes: Sequence[int],
    eps: float,
    centre: bool,
) -> Array:
    """Pull back through y = (x - μ)·s with s = (v + ε)^-½, and through μ and v, which depend on x too.

    dx = s·(g - mean(g) - y·mean(g·y)): what moves all of x alike, or stretches it, does not change y.
    A gradient of μ adds 1/n everywhere, one of v adds 2(x - μ)/n = 2y/(s·n).
    """
    gy, g_mean, g_variance = g
    y, _, variance = out
    count = max(count_of(x.shape, axes), 1)
    s = 1 / np.sqrt(variance + eps)
    along_y = (2 * g_variance / s - s * (gy * y).sum(axis=axes, keepdims=True)) / count
    if not centre:
        return gy * s + y * along_y
    alike = (g_mean - s * gy.sum(axis=axes, keepdims=True)) / count
    return gy * s + y * along_y + alike


NORMALIZE = Op("normalize", _normalize, _normalize_rule, noisy=True)
