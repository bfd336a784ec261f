"""Losses whose derivative is more than the sum of their parts. Enters: predictions and targets. Leaves: a
loss per element.
"""

from __future__ import annotations

import numpy as np

from minitorch.ops.activation import LOG_SOFTMAX, SOFTMAX
from minitorch.ops.indexing import GATHER, SCATTER_ADD
from minitorch.ops.native import is_of_device
from minitorch.ops.op import Array, Op, certain, violated

# --- what cannot be spelled ----------------------------------------------------------------------

# Losses where no alignment exists: infinite, with a gradient of nan at every step that was to be read.
IMPOSSIBLE = Op(
    "ctc_impossible",
    lambda losses, logp, impossible, running: np.where(impossible, np.inf, losses),
    lambda g, out, losses, logp, impossible, running: np.where(impossible, 0, g),
    lambda g, out, losses, logp, impossible, running: (
        np.where(running & impossible, np.nan, 0)[..., None] + np.zeros_like(logp)
    ),
    None,
    None,
    register=False,
)

# --- cross-entropy -------------------------------------------------------------------------------


def _kept_targets(target: Array, weight: Array | None, ignore: int) -> tuple[Array, Array, Array | int]:
    """Return which rows count, each one's class (0 where ignored), and its class's weight."""
    kept = target != ignore
    safe = target if _all(kept) else np.where(kept, target, 0)
    return kept, safe, 1 if weight is None else weight[safe]


def _all(kept: Array) -> bool:
    """Tell whether all rows are known to count: of plain arrays, where looking costs less than to do without."""
    return type(kept) is np.ndarray and np.count_nonzero(kept) == kept.size


def _at(rows: Array, index: Array) -> Array:
    """Return from each row the element at its index."""
    if type(rows) is np.ndarray:
        return rows[np.arange(len(index)), index]
    return GATHER(rows, index[:, None], axis=1)[:, 0]


def refuse_targets(target: Array, classes: int, ignore: int) -> None:
    """Refuse targets that are no classes."""
    there = getattr(target, "__minitorch_there__", None)  # (lazily, where they were computed before)
    target = target if there is None else there
    # As numbers without a sign, negative ones are large: one comparison finds all that might be wrong.
    if type(target) is np.ndarray and not (target.view(f"u{target.itemsize}") >= classes).any():
        return
    wrong = (target != ignore) & ((target < 0) | (target >= classes))
    if violated(wrong.any()):
        raise IndexError(
            f"cross_entropy: target {int(target[wrong][0])} is out of range: with {classes} classes targets "
            f"are 0 to {classes - 1} (or ignore_index {ignore})"
        )


def _share(logits: Array, kept: Array, row_weight: Array | int) -> Array:
    """Return the weight of all rows that count."""
    return np.where(kept, np.ones_like(logits[:, 0]) * row_weight, 0).sum()


def _cross_entropy(
    logits: Array,
    target: Array,
    weight: Array | None = None,
    *,
    smoothing: float,
    ignore: int,
    mean: bool = False,
) -> Array:
    if is_of_device(target):  # (a kernel there looks for itself, and nobody waits for it)
        refuse_targets(target, logits.shape[1], ignore)
    kept, safe, row_weight = _kept_targets(target, weight, ignore)
    logp = LOG_SOFTMAX.forward(logits, axis=1)
    loss = -_at(logp, safe)
    if weight is not None:
        loss = loss * row_weight
    if smoothing:
        spread = -(logp if weight is None else logp * weight).sum(axis=1) / logits.shape[1]
        loss = (1 - smoothing) * loss + smoothing * spread
    loss = loss if safe is target else np.where(kept, loss, 0)
    return loss.sum() / _share(logits, kept, row_weight) if mean else loss


def _cross_entropy_rule(
    g: Array,
    out: Array,
    logits: Array,
    target: Array,
    weight: Array | None = None,
    *,
    smoothing: float,
    ignore: int,
    mean: bool = False,
) -> Array:
    # A row's loss is Σ_c a_c·(-log p_c), so its gradient is (Σ a)·softmax - a. The dense softmax Jacobian is
    # never built; nor is a, which is a number per class (smoothing) and one more at the target.
    kept, safe, row_weight = _kept_targets(target, weight, ignore)
    if mean:
        g = g / _share(logits, kept, row_weight)
    g = g if safe is target and not mean else np.where(kept, g, 0)
    classes = logits.shape[1]
    at_target = (1 - smoothing) * g * row_weight if smoothing or weight is not None else g
    if smoothing:
        per_class = (smoothing / classes) * g[:, None] * (1 if weight is None else weight[None, :])
        total = at_target + (smoothing * g if weight is None else per_class.sum(axis=1))
        slope = SOFTMAX(logits, axis=1) * total[:, None] - per_class
    else:
        slope = SOFTMAX(logits, axis=1) * at_target[:, None]
    if type(slope) is np.ndarray:
        slope[np.arange(len(safe)), safe] -= at_target  # an array of our own, a row's target once in each row
    else:
        slope = SCATTER_ADD(slope, safe[:, None], -at_target[:, None], axis=1)
    # An ignored row's gradient is 0 whatever its logits are, nan included.
    return slope if safe is target or certain(kept.all()) else np.where(kept[:, None], slope, 0)


# mean: all rows' together, over their weight: on a GPU, where each further op would be launched by itself.
CROSS_ENTROPY = Op(
    "cross_entropy", _cross_entropy, _cross_entropy_rule, None, None, floating=False, there=True
)

# --- binary cross-entropy ------------------------------------------------------------------------

# log(0) would make the loss infinite and its slope useless; PyTorch stops at -100, and so do we.
_LOWEST_LOG = -100.0


def _log_chances(p: Array) -> tuple[Array, Array]:
    """Return log p and log(1 - p), neither below -100."""
    return np.maximum(np.log(p), _LOWEST_LOG), np.maximum(np.log1p(-p), _LOWEST_LOG)


def _binary_cross_entropy(p: Array, y: Array) -> Array:
    log_yes, log_no = _log_chances(p)
    return -(y * log_yes + (1 - y) * log_no)


def _binary_cross_entropy_target(g: Array, out: Array, p: Array, y: Array) -> Array:
    log_yes, log_no = _log_chances(p)
    return g * (log_no - log_yes)


# -(y·log p + (1-y)·log(1-p)) has the slope (p - y) / (p·(1-p)). At p = 0 or 1 the denominator is held
# above 0, so that a prediction that is surely right gets 0, not nan, and one surely wrong a strong push.
BINARY_CROSS_ENTROPY = Op(
    "binary_cross_entropy",
    _binary_cross_entropy,
    lambda g, out, p, y: g * (p - y) / np.maximum(p * (1 - p), 1e-12),
    _binary_cross_entropy_target,
    floating=True,
    elementwise=True,
    there=True,
)
