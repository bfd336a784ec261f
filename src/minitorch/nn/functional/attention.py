"""Attention: each query looks at all keys and takes a weighted mean of their values.

Enters: queries (…, L, E), keys (…, S, E), values (…, S, Ev). Leaves: (…, L, Ev), and the weights where asked for.
Shapes in comments: N batch, L queries, S keys, E embedding, H heads, D = E / H.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch.engine.dtypes import kind_of
from minitorch.engine.modes import current
from minitorch.engine.node import new_tensor
from minitorch.engine.record import apply, apply_many
from minitorch.engine.recording import recordings
from minitorch.functions import cat, pad, where
from minitorch.nn.functional.dropout import dropout, kept_elements
from minitorch.nn.functional.linear import linear
from minitorch.ops.attention import ATTENDED, ATTENTION, without_blind_rows
from minitorch.ops.native import is_of_device
from minitorch.ops.op import certain, zeros
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor, cast
from minitorch.tensor.precision import in_lower_precision, rounded_once


@in_lower_precision
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(Q Kᵀ·scale + mask) V, with scale 1/√E if left out.

    attn_mask: bools, True where a query may look, or floats that are added; broadcast to (…, L, S). A query that
    may look nowhere gets 0. is_causal: query i may look at keys 0 to i, of those that a mask leaves. enable_gqa: keys
    and values have fewer heads (axis -3), each serving several of the query's. dropout_p applies whenever it is not 0.

    >>> q = k = v = minitorch.eye(3)
    >>> scaled_dot_product_attention(q, k, v, is_causal=True)[0]      # the first may look at itself alone
    tensor([1., 0., 0.])
    """
    q, k, v = as_tensor(query), as_tensor(key), as_tensor(value)
    if enable_gqa and min(q.ndim, k.ndim, v.ndim) > 2:
        k, v = (_shared_heads("scaled_dot_product_attention", q, part) for part in (k, v))
    if 0 <= dropout_p < 1 and _is_one_op(q, k, v, 3 if enable_gqa else 2):
        scale = 1 / math.sqrt(q._array.shape[-1] or 1) if scale is None else float(scale)
        mask = None if attn_mask is None else as_tensor(attn_mask)
        if mask is None or (not is_causal and _is_one_op_with(mask, q, k)):
            return _as_one_op(q, k, v, mask, dropout_p, scale=scale, causal=bool(is_causal))
    return _composed(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa)


@rounded_once
def _composed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Any,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    name = "scaled_dot_product_attention"
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise RuntimeError(
            f"{name}: query, key and value need at least two axes, (L, E), (S, E) and (S, Ev), got {q.shape}, "
            f"{k.shape} and {v.shape}"
        )
    if not q.dtype == k.dtype == v.dtype:
        raise RuntimeError(
            f"{name}: query, key and value must have one dtype, got {q.dtype}, {k.dtype} and {v.dtype}"
        )
    if attn_mask is not None and is_causal and (q.ndim != 4 or dropout_p):
        raise RuntimeError(
            f"{name}: attn_mask must not be set when is_causal=True, but for a query of 4 axes without dropout, got "
            f"{q.shape} and dropout_p={dropout_p}; put the mask's -inf there too"
        )
    if enable_gqa:
        k, v = (_shared_heads(name, q, part) for part in (k, v))
    mask = None
    if is_causal:
        mask = _causal(q, k.shape[-2])
    if attn_mask is not None:
        given = _added(name, attn_mask, q)
        mask = given if mask is None else given + mask
    weights = _attention_weights(q, k, mask, scale, careful=attn_mask is not None)
    if dropout_p:
        if not 0 <= dropout_p <= 1:
            raise RuntimeError(f"{name}: dropout_p must be between 0 and 1, got {dropout_p}")
        weights = dropout(weights, dropout_p, training=True)
    return weights @ v


def _as_one_op(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float, **how: Any) -> Tensor:
    """Compute it as one op; of a mask without the rows that leave nothing: such queries are blind, and get 0."""
    inputs: list[Any] = [q, k, v]
    if mask is not None:
        if mask._array.dtype.kind != "b" and mask._array.dtype != q.dtype:
            mask = cast(mask, np.dtype(np.float32))  # (scores of halves are in float32)
        inputs += map(new_tensor, without_blind_rows(mask._data))
    if dropout_p:
        kept = kept_elements(q, dropout_p, (*q.shape[:-1], k.shape[-2]))
        inputs += [None] * (5 - len(inputs)) + [new_tensor(kept)]
        how["keep"] = 1 - dropout_p
    wanted = q._requires_grad or k._requires_grad or v._requires_grad
    if recordings or (wanted and current().enabled):
        return apply_many(ATTENTION, *inputs, **how)[0]
    return apply(ATTENDED, *inputs, **how)


def _is_one_op(q: Tensor, k: Tensor, v: Tensor, least: int) -> bool:
    """Tell whether these are floats on a device that there is one op of: as many queries' batches as keys'.

    least: how many axes there must be.
    """
    a, b, c = q._array, k._array, v._array
    if not is_of_device(a) or a.ndim < least:
        return False
    queries, keys, values = a.shape, b.shape, c.shape
    alike = keys[:-2] == queries[:-2] and keys[-1:] == queries[-1:] and values[:-1] == keys[:-1]
    dtype = a.dtype
    are_floats = dtype.itemsize <= 4 and kind_of(dtype) == "f" and b.dtype == dtype and c.dtype == dtype
    return alike and are_floats and len(keys) == len(values) == len(queries) and keys[-2] > 0


def _is_one_op_with(mask: Tensor, q: Tensor, k: Tensor) -> bool:
    """Tell whether there is one op with a mask: on the device, of bools or floats, and without a gradient."""
    array, scores = mask._array, (*q.shape[:-1], k.shape[-2])
    if not is_of_device(array) or (mask._requires_grad and current().enabled):
        return False
    fits = array.ndim <= len(scores) and all(
        n in (1, length) for n, length in zip(reversed(array.shape), reversed(scores), strict=False)
    )
    return fits and array.ndim > 0 and (array.dtype.kind == "b" or kind_of(array.dtype) == "f")


def _scale_of(q: Tensor) -> float:
    return 1 / math.sqrt(q.shape[-1]) if q.shape[-1] else 1.0


def _shared_heads(name: str, q: Tensor, part: Tensor) -> Tensor:
    if min(q.ndim, part.ndim) < 3 or q.shape[-3] % part.shape[-3]:
        raise RuntimeError(
            f"{name}: with enable_gqa the heads (axis -3) of key and value must divide the query's, got query "
            f"{q.shape} and {part.shape}"
        )
    times = q.shape[-3] // part.shape[-3]
    return part if times == 1 else part.repeat_interleave(times, -3)


def _causal(q: Tensor, keys: int) -> Tensor:
    """0 where a query may look, -inf at later keys: (L, S)."""
    queries = np.arange(q.shape[-2], like=q._data)[:, None]
    later = np.arange(keys, like=q._data) > queries
    return new_tensor(np.where(later, -math.inf, 0.0).astype(q.dtype))


def _added(name: str, mask: Any, q: Tensor, looks: bool = True) -> Tensor:
    """Return a mask as numbers to add: bools become 0 where equal to `looks`, -inf elsewhere."""
    mask = as_tensor(mask)
    if mask.dtype.kind == "b":
        blocked = ~mask._data if looks else mask._data
        return new_tensor(np.where(blocked, -math.inf, 0.0).astype(q.dtype))
    if kind_of(mask.dtype) != "f":
        raise RuntimeError(f"{name}: a mask must hold bools or floats, got {mask.dtype}; write mask.bool()")
    return cast(mask, q.dtype)


def _attention_weights(
    q: Tensor, k: Tensor, mask: Tensor | None, scale: float | None = None, careful: bool = False
) -> Tensor:
    """softmax(Q Kᵀ·scale + mask) (…, L, S); careful: a row that is masked everywhere gives 0, not nan."""
    scores = (q * (_scale_of(q) if scale is None else scale)) @ k.mT
    if mask is None:
        return scores.softmax(-1)
    blind = (mask._data == -math.inf).all(axis=-1, keepdims=True) if careful else np.False_
    if certain(~blind.any()):
        return (scores + mask).softmax(-1)
    nowhere = new_tensor(blind)
    return (scores + where(nowhere, 0.0, mask)).softmax(-1).masked_fill(nowhere, 0.0)


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Project to heads, attend in each, join and project back: what nn.MultiheadAttention computes.

    query (L, N, E), key (S, N, Ek), value (S, N, Ev), or the same without N. Return (L, N, E) and, with
    need_weights, the weights (N, L, S), or (N, H, L, S) without average_attn_weights. See MultiheadAttention.

    >>> x, w = minitorch.ones(7, 2, 4), minitorch.ones(12, 4)
    >>> args = dict(in_proj_bias=None, bias_k=None, bias_v=None, add_zero_attn=False, dropout_p=0.0)
    >>> out, weights = multi_head_attention_forward(
    ...     x, x, x, 4, 2, w, out_proj_weight=minitorch.ones(4, 4), out_proj_bias=None, **args
    ... )
    >>> out.shape, weights.shape
    ((7, 2, 4), (2, 7, 7))
    """
    name = "multi_head_attention_forward"
    q, k, v = as_tensor(query), as_tensor(key), as_tensor(value)
    if q.ndim not in (2, 3) or not q.ndim == k.ndim == v.ndim:
        raise RuntimeError(
            f"{name}: query, key and value are (L, N, E), (S, N, E) and (S, N, E), or all without N, got "
            f"{q.shape}, {k.shape} and {v.shape}"
        )
    alone = q.ndim == 2
    # Batch first from here on: heads then come apart without moving memory.
    move = (lambda x: x.unsqueeze(0)) if alone else (lambda x: x.swapaxes(0, 1))
    self_attention, same_source = q is k and k is v, k is v
    q = move(q)
    k = q if self_attention else move(k)
    v = k if same_source else move(v)
    if alone and key_padding_mask is not None:
        key_padding_mask = as_tensor(key_padding_mask)
        if key_padding_mask.ndim != 1:
            raise RuntimeError(
                f"{name}: key_padding_mask for a query without a batch axis is (S,), got {key_padding_mask.shape}"
            )
        key_padding_mask = key_padding_mask.unsqueeze(0)
    out, weights = attend(
        q, k, v, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn,
        dropout_p if training else 0.0, out_proj_weight, out_proj_bias, key_padding_mask, need_weights, attn_mask,
        (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None,
        static_k, static_v, average_attn_weights, is_causal,
    )  # fmt: skip
    out = out.squeeze(0) if alone else out.swapaxes(0, 1)
    return out, (weights.squeeze(0) if alone and weights is not None else weights)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    embed_dim: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    key_padding_mask: Any,
    need_weights: bool,
    attn_mask: Any,
    separate: tuple[Any, Any, Any] | None = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Multi-head attention batch first, q (N, L, E): what multi_head_attention_forward and the module share."""
    name = "multi-head attention"
    batch, length, width = q.shape
    if width != embed_dim or k.shape[:2] != v.shape[:2] or k.shape[0] != batch:
        raise RuntimeError(
            f"{name}: query, key and value need one batch size, key and value one length, and the query {embed_dim} "
            f"features; batch first they have shapes {q.shape}, {k.shape} and {v.shape}"
        )
    if width % num_heads:
        raise RuntimeError(f"{name}: embed_dim {width} is not divisible by num_heads {num_heads}")
    if is_causal and attn_mask is None:
        raise RuntimeError(
            f"{name}: is_causal only says what attn_mask holds; pass the mask too "
            "(nn.Transformer.generate_square_subsequent_mask(L))"
        )
    if separate is None:
        q, k, v = _project_together(q, k, v, in_proj_weight, in_proj_bias)
    else:
        biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
        q, k, v = (linear(x, w, b) for x, w, b in zip((q, k, v), separate, biases, strict=True))
    if bias_k is not None and bias_v is not None:  # one more key and value, learned
        k, v = (cat([x, b.expand(batch, 1, width)], 1) for x, b in ((k, bias_k), (v, bias_v)))
    # (N, L, E) → (N, H, L, D)
    q, k, v = (x.reshape(batch, x.shape[1], num_heads, width // num_heads).swapaxes(1, 2) for x in (q, k, v))
    if static_k is not None:
        k = as_tensor(static_k).reshape(batch, num_heads, -1, width // num_heads)
    if static_v is not None:
        v = as_tensor(static_v).reshape(batch, num_heads, -1, width // num_heads)
    if add_zero_attn:  # one more key and value of zeros: somewhere to look when nothing fits
        zero = new_tensor(zeros((batch, num_heads, 1, width // num_heads), k._data))
        k, v = cat([k, zero], 2), cat([v, zero], 2)
    extra = (bias_k is not None) + bool(add_zero_attn)
    causal = is_causal and key_padding_mask is None and not need_weights and not extra
    mask = None if causal else _joined_mask(name, q, k.shape[2], extra, attn_mask, key_padding_mask)
    weights = None
    if need_weights:
        weights = _attention_weights(q, k, mask)
        if dropout_p:
            weights = dropout(weights, dropout_p)
        mixed = weights @ v
        if average_attn_weights:
            weights = weights.mean(1)
    else:
        mixed = scaled_dot_product_attention(q, k, v, mask, dropout_p, causal)
    # (N, H, L, D) → (N, L, E)
    out = linear(mixed.swapaxes(1, 2).reshape(batch, length, width), out_proj_weight, out_proj_bias)
    # PyTorch's attention works time first: so does its result lie in memory, and numbers are drawn into it.
    return out.swapaxes(0, 1).contiguous().swapaxes(0, 1), weights


def _project_together(q: Tensor, k: Tensor, v: Tensor, weight: Tensor, bias: Any) -> Any:
    """Project by one weight (3E, E); equal inputs are projected in one product."""
    if q is k and k is v:
        return linear(q, weight, bias).chunk(3, -1)
    width = weight.shape[1]
    if k is v:
        w_q, w_kv = weight.split([width, 2 * width])
        b_q, b_kv = (None, None) if bias is None else bias.split([width, 2 * width])
        return (linear(q, w_q, b_q), *linear(k, w_kv, b_kv).chunk(2, -1))
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return tuple(linear(x, w, b) for x, w, b in zip((q, k, v), weight.chunk(3), biases, strict=True))


def _joined_mask(name: str, q: Tensor, keys: int, extra: int, attn_mask: Any, key_padding_mask: Any) -> Any:
    """Return both masks as one to add, (…, L, S): bools are True where a query may *not* look."""
    batch, heads, length = q.shape[:3]
    given = keys - extra
    joined = None
    if attn_mask is not None:
        joined = _added(name, attn_mask, q, looks=False)
        if joined.shape == (batch * heads, length, given):
            joined = joined.reshape(batch, heads, length, given)
        elif joined.shape != (length, given):
            raise RuntimeError(
                f"{name}: attn_mask must have shape {(length, given)} or {(batch * heads, length, given)}, got "
                f"{joined.shape}"
            )
    if key_padding_mask is not None:
        padding = _added(name, key_padding_mask, q, looks=False)
        if padding.shape != (batch, given):
            raise RuntimeError(
                f"{name}: key_padding_mask must have shape {(batch, given)}, got {padding.shape}"
            )
        padding = padding[:, None, None, :]
        joined = padding if joined is None else joined + padding
    if joined is not None and extra:
        joined = pad(joined, (0, extra))  # nobody is kept from looking at the added keys
    return joined


__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]
