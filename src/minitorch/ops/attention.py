"""Attention on a device, as one op. Enters: queries, keys and values. Leaves: what the queries see.

Softmax(Q Kᵀ·scale) V could be composed of other ops, and is, everywhere else. Of float16 and bfloat16 the scores are
float32's, and a kernel that is made of the whole never writes them down (compiler/backends/cuda/attention.py);
nor in float32, where products are of three in TF32 if they may not round to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.ops.narrow import in_float32, takes_narrow
from minitorch.ops.native import as_a_whole, natively_there
from minitorch.ops.op import Array, Op


@natively_there
def without_blind_rows(mask: Array) -> tuple[Array, Array]:
    """Return a mask without the rows that leave a query no key, and which those are. It is bools, or is added."""
    if mask.dtype == np.bool_:
        blind = ~mask.any(axis=-1, keepdims=True)
        return mask | blind, blind
    blind = (mask == -math.inf).all(axis=-1, keepdims=True)
    return np.where(blind, 0.0, mask).astype(mask.dtype), blind


def _scores(q: Array, k: Array, mask: Array | None, scale: float, causal: bool) -> Array:
    """Return how well each key fits each query: -∞ where a later one does not count, if causal.

    mask: is added; bools: -∞ is where they are False.
    """
    scores = (q * scale) @ k.swapaxes(-1, -2)
    if mask is not None:
        scores = np.where(mask, scores, -math.inf) if mask.dtype == np.bool_ else scores + mask
    if causal:
        like: Array = getattr(q, "_data", q)  # (of a Tensor, where a derivative is differentiated)
        later = np.arange(k.shape[-2], like=like) > np.arange(q.shape[-2], like=like)[:, None]
        scores = scores + np.where(later, -math.inf, 0.0).astype(like.dtype)
    return scores


def _seen(weights: Array, blind: Array | None) -> Array:
    """Return how much of each key a query sees: nothing of any, if it is blind."""
    return weights if blind is None else np.where(blind, 0.0, weights)


def _dropped(weights: Array, kept: Array | None, keep: float) -> Array:
    """Return weights, or what else there is one of for each, of which some are kept, so many times more."""
    return weights if kept is None else weights * (kept.astype(weights.dtype) * (1 / keep))


def _attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    blind: Array | None = None,
    kept: Array | None = None,
    *,
    scale: float,
    causal: bool,
    keep: float = 1.0,
) -> tuple[Array, Array, Array]:
    """Return what the queries see. For the rules, too, each query's largest score, which is subtracted before exp so
    that nothing overflows, and the logarithm (to base 2) of the sum of e to its scores less that.
    """
    scores = _scores(q, k, mask, scale, causal)
    largest = scores.max(axis=-1)
    powers = np.exp(scores - largest[..., None])
    total = powers.sum(axis=-1)
    weights = _dropped(_seen(powers / total[..., None], blind), kept, keep)
    return weights @ v, largest, np.log2(total)


@as_a_whole(0, None, None)
@takes_narrow
def _attention_with_rows(
    q: Array, k: Array, v: Array, mask: Array | None = None, *others: Array | None, **how: Any
) -> tuple[Array, Array, Array]:
    """Compute halves in float32: the numbers of each query, which the rules read, stay so."""
    if q.dtype.itemsize != 2:
        return _attention(q, k, v, mask, *others, **how)
    if mask is not None and mask.dtype == q.dtype:
        mask = mask.astype(np.float32)
    wide_q, wide_k, wide_v = (each.astype(np.float32) for each in (q, k, v))
    out, *rows = _attention(wide_q, wide_k, wide_v, mask, *others, **how)
    return out.astype(q.dtype), *rows


@natively_there
@as_a_whole(4, 5, 6)
@in_float32
def _gradients(
    g: Array,
    out: Array,
    largest: Array,
    logarithm: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    blind: Array | None = None,
    kept: Array | None = None,
    g_logarithm: Array | None = None,
    *,
    scale: float,
    causal: bool,
    keep: float = 1.0,
) -> tuple[Array, Array, Array]:
    """Pull back through P V, the softmax P, and Q Kᵀ·scale.

    Σ P·(g Vᵀ) along the keys is the sum of g·out along a head, which is shorter.
    """
    scores = _scores(q, k, mask, scale, causal)
    # Again: cheaper than to keep them.
    weights = _seen(np.exp(scores - largest[..., None]) / np.exp2(logarithm)[..., None], blind)
    weighted = weights * _dropped(g @ v.swapaxes(-1, -2), kept, keep)
    of_scores = weighted - weights * (g * out).sum(axis=-1, keepdims=True)
    if g_logarithm is not None:
        of_scores = of_scores + weights * (g_logarithm / math.log(2))[..., None]
    dq, dk = of_scores @ (k * scale), of_scores.swapaxes(-1, -2) @ (q * scale)
    return dq, dk, _dropped(weights, kept, keep).swapaxes(-1, -2) @ g


@takes_narrow
def _attention_rules(
    g: Sequence[Array | None],
    out: Sequence[Array],
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    blind: Array | None = None,
    kept: Array | None = None,
    **how: Any,
) -> tuple[Array, Array, Array]:
    # In derivatives of the rules, which read them, each query's numbers have gradients too. That of the largest score
    # leads nowhere: if another number were subtracted, the logarithm would make up for it.
    g_out, _, g_logarithm = g
    if g_out is None:
        g_out = np.zeros_like(out[0])
    return _gradients(g_out, *out, q, k, v, mask, blind, kept, g_logarithm, **how)


ATTENTION = Op(
    "attention",
    natively_there(_attention_with_rows),
    joint=_attention_rules,
    takes_none=True,
    register=False,
    own=True,
)

# What the queries see alone, where nobody asks for a gradient.
ATTENDED = Op(
    "attention",
    as_a_whole(0)(in_float32(lambda *inputs, **how: _attention(*inputs, **how)[0])),
    native=True,
    register=False,
)
