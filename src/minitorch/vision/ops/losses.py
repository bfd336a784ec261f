"""Losses of detectors. Enters: logits and targets. Leaves: a number, or one for each."""

from __future__ import annotations

from minitorch.nn.functional import binary_cross_entropy_with_logits
from minitorch.tensor import Tensor


def sigmoid_focal_loss(
    inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2, reduction: str = "none"
) -> Tensor:
    """Cross entropy of yes or no, less of it where the answer is sure already (Lin and others, 2017)."""
    p = inputs.sigmoid()
    entropy = binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    hit = p * targets + (1 - p) * (1 - targets)
    loss = entropy * (1 - hit) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"Invalid Value for arg 'reduction': '{reduction}': 'none', 'mean' or 'sum'")
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()
