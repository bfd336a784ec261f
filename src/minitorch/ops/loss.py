"""Losses whose derivative is more than the sum of their parts. Enters: predictions and targets. Leaves: a
loss per element.
"""

from __future__ import annotations

import numpy as np

from minitorch.ops.op import Array, Op

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
)
