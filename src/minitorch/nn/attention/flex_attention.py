"""Attention whose scores a function changes, and a function masks. Enters: (N, H, L, E). Leaves: (N, H, L, Ev).

A function is called once, with all places at once: (score, n, h, query, key) → score, and (n, h, query, key) → bool.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minitorch.creation import arange
from minitorch.functions import where
from minitorch.tensor import Tensor

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention",
    "noop_mask", "or_masks",
]  # fmt: skip

_DEFAULT_SPARSE_BLOCK_SIZE = 128  # PyTorch's, which programs round lengths up to


class AuxRequest(NamedTuple):
    """What else to return: the logarithm of the sum of the scores' exponentials, the largest score."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What else was asked for, (N, H, L) each."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _places(*sizes: int, device: Any) -> list[Tensor]:
    """Return the places along each axis, shaped so that they broadcast."""
    shapes = [[-1 if i == axis else 1 for i in range(len(sizes))] for axis in range(len(sizes))]
    return [arange(n, device=device).reshape(*shape) for n, shape in zip(sizes, shapes, strict=True)]


def create_mask(
    mod_fn: Callable[..., Tensor], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """Return where a query may look, (B, H, Q, K), by a function of the places.

    >>> create_mask(lambda n, h, query, key: query >= key, 1, 1, 2, 2)[0, 0]
    tensor([[ True, False],
            [ True,  True]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    return mod_fn(*_places(*sizes, device=device)).expand(*sizes)


class BlockMask:
    """Where queries may look; in PyTorch by blocks, here element by element."""

    def __init__(self, mask: Tensor, mask_mod: Callable[..., Tensor] | None = None) -> None:
        self.mask, self.mask_mod = mask, mask_mod

    @property
    def shape(self) -> Any:
        """(B, H, Q, K)."""
        return self.mask.shape

    def to_dense(self) -> Tensor:
        """Return it as a Tensor of bools."""
        return self.mask

    def to(self, device: Any) -> BlockMask:
        """Return it on a device."""
        return BlockMask(self.mask.to(device), self.mask_mod)


def create_block_mask(
    mask_mod: Callable[..., Tensor],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    **options: Any,
) -> BlockMask:
    """Return where a query may look, by a function of the places."""
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), mask_mod)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(Q Kᵀ·scale)) V, with -∞ where the mask says no; a query that may look nowhere gets 0."""
    if enable_gqa:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    scores = query @ key.mT * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if score_mod is not None:
        scores = score_mod(scores, *_places(*scores.shape, device=scores.device))
    if block_mask is not None:
        scores = where(block_mask.mask, scores, -math.inf)
    total = scores.logsumexp(-1, keepdim=True)
    weights = where(total == -math.inf, 0.0, (scores - where(total == -math.inf, 0.0, total)).exp())
    out = weights @ value
    if return_aux is not None:
        lse = total.squeeze(-1) if return_aux.lse else None
        return out, AuxOutput(lse, scores.amax(-1) if return_aux.max_scores else None)
    return (out, total.squeeze(-1)) if return_lse else out


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Tensor:
    """A mask that keeps every pair."""
    return batch.new_ones((), dtype=np.bool_)


def and_masks(*mask_mods: Any) -> Any:
    """Return the mask that keeps what all masks keep."""
    return _together(mask_mods, "and_masks", lambda a, b: a & b, True)


def or_masks(*mask_mods: Any) -> Any:
    """Return the mask that keeps what one of the masks keeps."""
    return _together(mask_mods, "or_masks", lambda a, b: a | b, False)


def _together(masks: tuple[Any, ...], name: str, join: Any, start: bool) -> Any:
    if not all(callable(mask) for mask in masks):
        raise RuntimeError(f"{name}: all inputs should be callable mask_mods: {masks}")

    def mask_mod(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_full((), start, dtype=np.bool_)
        for mask in masks:
            result = join(result, mask(b, h, q_idx, kv_idx))
        return result

    return mask_mod
