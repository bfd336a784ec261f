"""Losses that ask for a margin, and for distances between vectors: enough is enough.

Enters: predictions and targets, or vectors and how they belong together. Leaves: a scalar Tensor (reduction 'mean' or
'sum'), or a loss per element ('none').
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.engine.node import new_tensor
from minitorch.functions import where
from minitorch.nn.functional.loss import class_labels, class_weights, reduced, reduction_of
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor
from minitorch.tensor.precision import in_float32

# --- margins: enough is enough ------------------------------------------------------------------


@in_float32
def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """x where y = 1, max(0, margin - x) where y = -1: x is a distance, small for what belongs together.

    >>> hinge_embedding_loss(minitorch.tensor([0.2, 0.2]), minitorch.tensor([1, -1]), reduction="none")
    tensor([0.2000, 0.8000])
    """
    reduction = reduction_of("hinge_embedding_loss", size_average, reduce, reduction)
    x, y = as_tensor(input), as_tensor(target)
    losses = where(y != 1, (margin - x).relu(), 0.0) + where(y != -1, x, 0.0)
    return reduced(losses, reduction)


@in_float32
def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - y·(x₁ - x₂)): x₁ shall be larger than x₂ where y = 1, smaller where y = -1.

    >>> margin_ranking_loss(minitorch.tensor([2.0]), minitorch.tensor([3.0]), minitorch.tensor([1.0]))
    tensor(1.)
    """
    reduction = reduction_of("margin_ranking_loss", size_average, reduce, reduction)
    a, b, y = as_tensor(input1), as_tensor(input2), as_tensor(target)
    if not a.ndim == b.ndim == y.ndim:
        raise RuntimeError(
            "margin_ranking_loss: both inputs and the target must have the same number of axes, got shapes "
            f"{a.shape}, {b.shape} and {y.shape}"
        )
    return reduced((margin - y * (a - b)).relu(), reduction)


@in_float32
def soft_margin_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + e^{-y·x}) for y = 1 or -1, without overflow.   dx = -g·y·σ(-y·x)

    >>> soft_margin_loss(minitorch.tensor([0.0]), minitorch.tensor([1.0]))
    tensor(0.6931)
    """
    reduction = reduction_of("soft_margin_loss", size_average, reduce, reduction)
    x, y = as_tensor(input), as_tensor(target)
    return reduced((-y * x).softplus(threshold=math.inf), reduction)


@in_float32
def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of -(y·log σ(x) + (1-y)·log(1-σ(x))): several classes may be right at once.

    >>> multilabel_soft_margin_loss(minitorch.zeros(2, 3), minitorch.ones(2, 3), reduction="none")
    tensor([0.6931, 0.6931])
    """
    name = "multilabel_soft_margin_loss"
    reduction = reduction_of(name, size_average, reduce, reduction)
    x, y = as_tensor(input), as_tensor(target)
    surprise = (-x).softplus(threshold=math.inf)
    losses = (1 - y) * x + surprise
    if weight is not None:
        losses = losses * as_tensor(weight)
    return reduced(losses.mean(axis=-1), reduction)


@in_float32
def multilabel_margin_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Σᵢⱼ max(0, 1 - (x[yⱼ] - xᵢ)) / C over the classes yⱼ that are right and those i that are not.

    target: the right classes of each row, in the input's shape, filled up with -1.

    >>> scores, right = minitorch.tensor([0.1, 0.2, 0.4, 0.8]), minitorch.tensor([3, 0, -1, 1])
    >>> multilabel_margin_loss(scores, right)          # classes 3 and 0; what follows -1 does not count
    tensor(0.8500)
    """
    name = "multilabel_margin_loss"
    reduction = reduction_of(name, size_average, reduce, reduction)
    x, y = as_tensor(input), as_tensor(target)
    if x.ndim not in (1, 2) or y.shape != x.shape:
        raise RuntimeError(
            f"{name}: expects input and target of one shape, (C,) or (N, C), got {x.shape} and {y.shape}"
        )
    classes = x.shape[-1]
    labels = class_labels(name, y, classes, -1)._data
    counts = np.cumprod(labels != -1, axis=-1).astype(bool)  # up to the first -1
    # (…, j, i): whether the j-th target is class i.
    named = (labels[..., None] == np.arange(classes, like=labels)) & counts[..., None]
    wrong = ~named.any(axis=-2)
    pairs = new_tensor(counts[..., None] & wrong[..., None, :])
    scores = x.gather(-1, new_tensor(np.where(counts, labels, 0)))
    margins = (1 - scores.unsqueeze(-1) + x.unsqueeze(-2)).relu()
    return reduced((margins * pairs).sum(axis=(-1, -2)) / classes, reduction)


@in_float32
def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Σᵢ w[y]·max(0, margin - x[y] + xᵢ)ᵖ / C over the classes i ≠ y: the right one shall lead by a margin.

    >>> multi_margin_loss(minitorch.tensor([[0.1, 0.2, 0.4, 0.8]]), minitorch.tensor([3]))
    tensor(0.3250)
    """
    name = "multi_margin_loss"
    reduction = reduction_of(name, size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError(f"{name}: p must be 1 or 2, got {p}")
    x, y = as_tensor(input), as_tensor(target)
    if x.ndim not in (1, 2):
        raise RuntimeError(f"{name}: expects input of shape (C,) or (N, C), got {x.shape}")
    if y.shape != x.shape[:-1] and not (x.ndim == 1 and y.shape == (1,)):
        raise RuntimeError(
            f"{name}: input of shape {x.shape} needs a target of shape {x.shape[:-1]}, got {y.shape}"
        )
    classes = x.shape[-1]
    labels = class_labels(name, y, classes).reshape(x.shape[:-1])
    column = labels.unsqueeze(-1)
    margins = (margin - x.gather(-1, column) + x).relu()
    if p == 2:
        margins = margins.square()
    if weight is not None:
        margins = margins * class_weights(name, weight, classes, x.dtype)[column]
    others = column._data != np.arange(classes, like=column._data)
    return reduced((margins * new_tensor(others)).sum(axis=-1) / classes, reduction)


# --- distances between vectors ------------------------------------------------------------------


@in_float32
def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(x₁, x₂) where y = 1, max(0, cos(x₁, x₂) - margin) where y = -1; (N, D) or (D,).

    >>> a, b = minitorch.tensor([[1.0, 0.0]]), minitorch.tensor([[1.0, 1.0]])
    >>> cosine_embedding_loss(a, b, minitorch.tensor([1]))
    tensor(0.2929)
    """
    name = "cosine_embedding_loss"
    reduction = reduction_of(name, size_average, reduce, reduction)
    a, b, y = as_tensor(input1), as_tensor(input2), as_tensor(target)
    if y.ndim > 1 or a.ndim != y.ndim + 1 or b.ndim != y.ndim + 1:
        raise RuntimeError(
            f"{name}: expects inputs (N, D) with a target (N,), or inputs (D,) with a target (), got "
            f"{a.shape}, {b.shape} and {y.shape}"
        )
    tiny = 1e-12  # keeps the angle of a zero vector from being 0/0
    lengths = ((a * a).sum(axis=-1) + tiny) * ((b * b).sum(axis=-1) + tiny)
    cosine = (a * b).sum(axis=-1) / lengths.sqrt()
    losses = where(y == 1, 1 - cosine, 0.0) + where(y == -1, (cosine - margin).relu(), 0.0)
    return reduced(losses, reduction)


def _distance(a: Tensor, b: Tensor, p: float, eps: float) -> Tensor:
    """‖a - b + eps‖ₚ along the last axis; eps keeps two equal vectors off the kink."""
    return (a - b + eps).norm(p, axis=-1)


@in_float32
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + ‖a - p‖ - ‖a - n‖): an anchor shall be closer to its positive than to its negative.

    swap: the negative's distance is the smaller one of those to anchor and to positive.

    >>> a, near, far = minitorch.zeros(1, 2), minitorch.tensor([[1.0, 0.0]]), minitorch.tensor([[0.0, 1.5]])
    >>> triplet_margin_loss(a, near, far)
    tensor(0.5000)
    """
    name = "triplet_margin_loss"
    reduction = reduction_of(name, size_average, reduce, reduction)
    return _triplet(
        name, anchor, positive, negative, lambda a, b: _distance(a, b, p, eps), margin, swap, reduction
    )


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + d(a, p) - d(a, n)) with your own distance d; without one, the Euclidean.

    >>> a, near, far = minitorch.zeros(1, 2), minitorch.tensor([[1.0, 0.0]]), minitorch.tensor([[0.0, 1.5]])
    >>> taxi = lambda x, y: (x - y).abs().sum(axis=-1)
    >>> triplet_margin_with_distance_loss(a, near, far, distance_function=taxi)
    tensor(0.5000)
    """
    name = "triplet_margin_with_distance_loss"
    reduction = reduction_of(name, None, None, reduction)
    measure = distance_function or (lambda a, b: _distance(a, b, 2.0, 1e-6))
    return _triplet(name, anchor, positive, negative, measure, margin, swap, reduction)


def _triplet(
    name: str,
    anchor: Any,
    positive: Any,
    negative: Any,
    measure: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    if margin <= 0:
        raise ValueError(f"{name}: margin must be greater than 0, got {margin}")
    a, b, c = as_tensor(anchor), as_tensor(positive), as_tensor(negative)
    if not a.ndim == b.ndim == c.ndim:
        raise RuntimeError(
            f"{name}: anchor, positive and negative must have the same number of axes, got shapes {a.shape}, "
            f"{b.shape} and {c.shape}"
        )
    near, far = measure(a, b), measure(a, c)
    if swap:
        far = far.minimum(measure(b, c))
    return reduced((margin + near - far).relu(), reduction)


__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "soft_margin_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip
