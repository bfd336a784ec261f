"""Attention on a device, as one op. Enters: queries, keys and values. Leaves: what the queries see.

Softmax(Q Kᵀ·scale) V could be composed of other ops, and is, everywhere else. Of float16 and bfloat16 the scores are
float32's, and a kernel that is made of the whole never writes them down (compiler/backends/cuda/attention.py);
neither in float32, where products may round to TF32.
"""

from __future__ import annotations

import math

import numpy as np

from minitorch.ops.activation import SOFTMAX
from minitorch.ops.narrow import in_float32
from minitorch.ops.native import as_a_whole
from minitorch.ops.op import Array, Op


def _weights(q: Array, k: Array, scale: float, causal: bool) -> Array:
    """Return how much of each value a query takes: of those until its own place, if causal."""
    scores = (q * scale) @ k.swapaxes(-1, -2)
    if causal:
        like: Array = getattr(q, "_data", q)  # (of a Tensor, where a derivative is differentiated)
        later = np.arange(k.shape[-2], like=like) > np.arange(q.shape[-2], like=like)[:, None]
        scores = scores + np.where(later, -math.inf, 0.0).astype(like.dtype)
    return SOFTMAX(scores, axis=-1)


@as_a_whole(0)
@in_float32
def _attention(q: Array, k: Array, v: Array, *, scale: float, causal: bool) -> Array:
    return _weights(q, k, scale, causal) @ v


@as_a_whole(2, 3, 4)
@in_float32
def _attention_rules(
    g: Array, out: Array, q: Array, k: Array, v: Array, *, scale: float, causal: bool
) -> tuple[Array, Array, Array]:
    weights = _weights(q, k, scale, causal)  # again: cheaper than to keep them
    weighted = (g @ v.swapaxes(-1, -2)) * weights
    of_scores = weighted - weights * weighted.sum(axis=-1, keepdims=True)
    dq = (of_scores @ k) * scale
    return dq, of_scores.swapaxes(-1, -2) @ (q * scale), weights.swapaxes(-1, -2) @ g


ATTENTION = Op("attention", _attention, joint=_attention_rules, native=True, register=False, own=True)
