"""Losses: how far predictions are from targets, in one number to be minimised.

Enters: predictions and targets. Leaves: a scalar Tensor (reduction 'mean' or 'sum'), or a loss per element
('none'). Each docstring gives the loss of one element.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from minitorch.engine.dtypes import kind_of
from minitorch.engine.fast import apply_ternary
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.engine.recording import recorder
from minitorch.functions import pad, stack, where
from minitorch.ops.loss import BINARY_CROSS_ENTROPY, CROSS_ENTROPY, IMPOSSIBLE, refuse_targets
from minitorch.ops.native import is_of_device
from minitorch.ops.op import certain, possible, violated
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor, cast, one_int, operand, to_floating
from minitorch.tensor.precision import in_float32, refused_there

REDUCTIONS = ("mean", "sum", "none")


def reduction_of(
    name: str,
    size_average: bool | None,
    reduce: bool | None,
    reduction: str,
    allowed: Any = REDUCTIONS,
    stacklevel: int = 3,
) -> str:
    """Return the reduction asked for, also where it is asked in the words used before 2018."""
    if size_average is not None or reduce is not None:
        averaged = size_average is None or size_average
        reduction = "none" if reduce is False else "mean" if averaged else "sum"
        warnings.warn(
            f"{name}: size_average and reduce are deprecated; write reduction={reduction!r} instead",
            stacklevel=stacklevel,
        )
    if reduction not in allowed:
        wanted = ", ".join(repr(word) for word in allowed)
        raise ValueError(f"{name}: reduction must be one of {wanted}, got {reduction!r}")
    return reduction


def reduced(losses: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def _pair(name: str, input: Any, target: Any) -> tuple[Tensor, Tensor]:
    """Return both as tensors; warn if one will be stretched, which is seldom what was meant."""
    x, y = as_tensor(input), as_tensor(target)
    if x.shape != y.shape:
        warnings.warn(
            f"{name}: Using a target size {y.shape} that is different to the input size {x.shape}. "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same "
            "size: write target.reshape(input.shape) or input.squeeze()",
            stacklevel=3,
        )
    return x, y


def _element_weights(name: str, weight: Any, x: Tensor) -> Tensor:
    """Return the weights of the elements of x, checked."""
    weight = as_tensor(weight)
    if weight.shape != x.shape:
        raise ValueError(
            f"{name}: weight has shape {weight.shape}, but must have the input's shape {x.shape}"
        )
    return weight


def class_weights(name: str, weight: Any, classes: int, dtype: Any) -> Tensor:
    """Return the weights of the classes, checked: one number for each."""
    weight = cast(as_tensor(weight), dtype)
    if weight.shape != (classes,):
        raise RuntimeError(
            f"{name}: weight must have one number per class, shape ({classes},), got {weight.shape}"
        )
    return weight


def _weighted(name: str, losses: Tensor, x: Tensor, weight: Any, reduction: str) -> Tensor:
    """Reduce losses with a weight for each element; the mean is the weighted one."""
    if weight is None:
        return reduced(losses, reduction)
    weight = _element_weights(name, weight, x)
    if reduction == "mean":
        return (losses * weight).sum() / weight.sum()
    return reduced(losses * weight, reduction)


# --- distances between numbers ------------------------------------------------------------------


@in_float32
def mse_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Tensor:
    """(x - y)², the squared error.   dx = 2·g·(x - y)

    >>> mse_loss(minitorch.tensor([1.0, 3.0]), minitorch.tensor([1.0, 1.0]))
    tensor(2.)
    """
    reduction = reduction_of("mse_loss", size_average, reduce, reduction)
    x, y = _pair("mse_loss", input, target)
    return _weighted("mse_loss", (x - y).square(), x, weight, reduction)


@in_float32
def l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Tensor:
    """|x - y|, the absolute error.   dx = g·sign(x - y)

    >>> l1_loss(minitorch.tensor([1.0, 3.0]), minitorch.tensor([1.0, 1.0]))
    tensor(1.)
    """
    reduction = reduction_of("l1_loss", size_average, reduce, reduction)
    x, y = _pair("l1_loss", input, target)
    return _weighted("l1_loss", (x - y).abs(), x, weight, reduction)


@in_float32
def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """(x - y)² / 2β where |x - y| < β, else |x - y| - β/2: round near 0, straight far away.

    >>> smooth_l1_loss(minitorch.tensor([0.5, 3.0]), minitorch.zeros(2), reduction="none")
    tensor([0.1250, 2.5000])
    """
    reduction = reduction_of("smooth_l1_loss", size_average, reduce, reduction)
    x, y = _pair("smooth_l1_loss", input, target)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    distance = (x - y).abs()
    if beta == 0:
        return reduced(distance, reduction)
    losses = where(distance < beta, distance.square() * (0.5 / beta), distance - 0.5 * beta)
    return reduced(losses, reduction)


@in_float32
def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Tensor:
    """(x - y)² / 2 where |x - y| ≤ δ, else δ·(|x - y| - δ/2).   dx = g·clip(x - y, -δ, δ)

    >>> huber_loss(minitorch.tensor([0.5, 3.0]), minitorch.zeros(2), reduction="none", delta=2.0)
    tensor([0.1250, 4.0000])
    """
    reduction = reduction_of("huber_loss", None, None, reduction)
    x, y = _pair("huber_loss", input, target)
    if delta <= 0:
        raise RuntimeError(f"huber_loss: delta must be greater than 0, got {delta}")
    distance = (x - y).abs()
    losses = where(distance <= delta, 0.5 * distance.square(), delta * (distance - 0.5 * delta))
    return reduced(
        losses if weight is None else losses * _element_weights("huber_loss", weight, x), reduction
    )


# --- likelihoods --------------------------------------------------------------------------------


@in_float32
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: None = None,
    ignore_index: int = -100,
    reduce: None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input)[target]: logits (N, C), (C,) or (N, C, d1, …) against class indices or probabilities.

    mean divides by the total weight of what is not ignored (for probabilities by the number of
    predictions, N·d1·…); 'none' gives 0 at ignored targets.   dlogits = (softmax - target) per row

    >>> logits = minitorch.zeros(4, 5)                       # B × tense
    >>> minitorch.cross_entropy(logits, minitorch.tensor([0, 4, 2, 2]))
    tensor(1.6094)
    """
    if size_average is not None or reduce is not None:
        raise TypeError(
            "cross_entropy: size_average and reduce are long gone; write reduction='mean' or 'sum'"
        )
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"cross_entropy: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    if not isinstance(label_smoothing, (int, float)):
        raise TypeError(f"cross_entropy: label_smoothing must be a number, got {label_smoothing!r}")
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"cross_entropy: label_smoothing must be between 0 and 1, got {label_smoothing}")
    if ignore_index.__class__ is not int:
        ignore_index = one_int(ignore_index, "cross_entropy", "ignore_index")
    if not (isinstance(input, Node) and isinstance(target, Node)):
        input, target = (
            as_tensor(operand(input, "cross_entropy")),
            as_tensor(operand(target, "cross_entropy")),
        )
    logits, goal = to_floating(input), target
    shape, of_goal = logits._data.shape, goal._data.shape
    if not shape:
        raise RuntimeError("cross_entropy: logits need a class axis: shape (C,), (N, C) or (N, C, d1, …)")
    classes = shape[0 if len(shape) == 1 else 1]
    if weight is not None:
        weight = class_weights("cross_entropy", weight, classes, logits._data.dtype)
    if of_goal == shape:
        if ignore_index >= 0:
            raise RuntimeError(
                "cross_entropy: ignore_index is for class indices; probabilities have none to ignore"
            )
        return _with_probabilities(logits, goal, weight, reduction, label_smoothing)
    return _with_indices(logits, goal, weight, ignore_index, reduction, label_smoothing, shape, of_goal)


def _with_probabilities(logits: Any, goal: Any, weight: Any, reduction: str, smoothing: float) -> Tensor:
    if kind_of(goal._data.dtype) != "f":
        raise RuntimeError(
            f"cross_entropy: a target of the logits' shape {logits._data.shape} is read as class "
            f"probabilities, which must be floats, got {goal._data.dtype}"
        )
    axis = 0 if logits._data.ndim == 1 else 1
    classes = logits._data.shape[axis]
    if smoothing:
        goal = goal * (1 - smoothing) + smoothing / classes
    if weight is not None:
        goal = goal * weight.reshape([-1 if i == axis else 1 for i in range(logits._data.ndim)])
    losses = -(logits.log_softmax(axis=axis) * goal).sum(axis=axis)
    return reduced(losses, reduction)


def _with_indices(
    logits: Any,
    goal: Any,
    weight: Any,
    ignore: int,
    reduction: str,
    smoothing: float,
    shape: tuple[int, ...],
    of_goal: tuple[int, ...],
) -> Tensor:
    target = goal._data
    classes = shape[0 if len(shape) == 1 else 1]
    expected = shape[:1] + shape[2:] if len(shape) > 1 else ()
    if of_goal != expected:
        raise ValueError(
            f"cross_entropy: logits of shape {shape} need class indices of shape {expected} (or "
            f"probabilities of shape {shape}), got {of_goal}"
        )
    if target.dtype.kind not in "iu":
        raise RuntimeError(
            f"cross_entropy: class indices must be integers, got {target.dtype}; write y.long()"
        )
    if weight is not None and weight.requires_grad:
        raise RuntimeError("cross_entropy: class weights have no derivative here; write weight.detach()")
    if not is_of_device(target):  # (there the op does it, without waiting)
        refuse_targets(target, classes, ignore)
    # (N, C, d1, …) → (N·d1·…, C): one row per prediction.
    rows = logits.reshape(1, -1) if len(shape) == 1 else logits
    if len(shape) > 2:
        rows = rows.movedim(1, -1).reshape(-1, classes)
    flat = goal if len(expected) == 1 else goal.reshape(-1)
    if reduction == "mean" and is_of_device(rows._data):
        attributes = {"smoothing": float(smoothing), "ignore": ignore, "mean": True}
        return apply_ternary(CROSS_ENTROPY, rows, flat, weight, attributes)
    losses = apply(CROSS_ENTROPY, rows, flat, weight, smoothing=float(smoothing), ignore=ignore)
    if reduction == "none":
        return losses.reshape(expected)
    total = losses.sum()
    if reduction == "sum":
        return total
    if weight is None and flat._data.__class__ is np.ndarray and recorder() is None:
        return total / float(np.count_nonzero(flat._data != ignore))
    kept = flat != ignore
    share = kept.sum() if weight is None else (weight.detach()[flat * kept] * kept).sum()
    return total / cast(share, logits._data.dtype)


@in_float32
def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[target]: log-probabilities (N, C), (C,) or (N, C, d1, …) against class indices.

    mean divides by the total weight of what is not ignored. nll_loss(log_softmax(x, 1), y) is
    cross_entropy(x, y).

    >>> logp = minitorch.tensor([[0.5, 0.5], [0.25, 0.75]]).log()
    >>> nll_loss(logp, minitorch.tensor([0, 1]), reduction="none")
    tensor([0.6931, 0.2877])
    """
    reduction = reduction_of("nll_loss", size_average, reduce, reduction)
    x, y = as_tensor(input), as_tensor(target)
    if x.ndim == 0:
        raise ValueError("nll_loss: input needs a class axis: shape (C,), (N, C) or (N, C, d1, …), got ()")
    axis = 0 if x.ndim == 1 else 1
    expected = x.shape[:axis] + x.shape[axis + 1 :]
    if y.shape != expected and not (x.ndim == 1 and y.shape == (1,)):
        # PyTorch tells a batch that does not match from other axes that do not.
        kind = ValueError if x.ndim == 1 or y.ndim == 0 or y.shape[0] != x.shape[0] else RuntimeError
        raise kind(
            f"nll_loss: input of shape {x.shape} needs class indices of shape {expected}, got {y.shape}"
        )
    y = class_labels("nll_loss", y, x.shape[axis], ignore_index)
    kept = y != ignore_index
    safe = where(kept, y, 0)
    picked = x.gather(axis, safe.reshape(1) if x.ndim == 1 else safe.unsqueeze(axis))
    losses = where(kept, -picked.reshape(y.shape), 0.0)
    if weight is None:
        shares = cast(kept, x.dtype)
    else:
        shares = class_weights("nll_loss", weight, x.shape[axis], x.dtype)[safe] * kept
        losses = losses * shares
    if reduction == "mean":
        return losses.sum() / shares.sum()
    return reduced(losses, reduction)


def class_labels(name: str, y: Tensor, classes: int, ignore: int | None = None) -> Tensor:
    """Return class indices, checked: integers from 0 to classes - 1 (or the one to ignore)."""
    if y.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: class indices must be integers, got {y.dtype}; write target.long()")
    labels = y._data
    wrong = (labels < 0) | (labels >= classes)
    if ignore is not None:
        wrong &= labels != ignore
    if violated(wrong.any()):
        raise IndexError(
            f"{name}: target {int(labels[wrong][0])} is out of range: with {classes} classes targets are 0 to "
            f"{classes - 1}" + ("" if ignore is None else f" (or ignore_index {ignore})")
        )
    return y


@refused_there(
    "binary_cross_entropy and BCELoss are unsafe to autocast: a float16 near 1 is 1; write "
    "binary_cross_entropy_with_logits or BCEWithLogitsLoss, which take what a sigmoid would be given"
)
@in_float32
def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(y·log p + (1-y)·log(1-p)) of probabilities p; the logarithms stop at -100.   dp = g·(p - y) / p(1-p)

    From logits, binary_cross_entropy_with_logits is more accurate.

    >>> binary_cross_entropy(minitorch.tensor([0.5, 0.9]), minitorch.tensor([1.0, 1.0]), reduction="none")
    tensor([0.6931, 0.1054])
    """
    name = "binary_cross_entropy"
    reduction = reduction_of(name, size_average, reduce, reduction)
    p, y = _floats_of_one_size(name, input, target)
    if violated(((p._data < 0) | (p._data > 1)).any()):
        raise RuntimeError(
            f"{name}: all elements of input should be between 0 and 1; for logits write {name}_with_logits"
        )
    losses = apply(BINARY_CROSS_ENTROPY, p, cast(y, p.dtype))
    return reduced(losses if weight is None else losses * as_tensor(weight), reduction)


def _floats_of_one_size(name: str, input: Any, target: Any) -> tuple[Tensor, Tensor]:
    x, y = as_tensor(input), as_tensor(target)
    if x.shape != y.shape:
        raise ValueError(
            f"{name}: target size {y.shape} must be the same as input size {x.shape}; write "
            "target.reshape(input.shape)?"
        )
    if kind_of(x.dtype) != "f" or kind_of(y.dtype) != "f":
        raise RuntimeError(f"{name}: input and target must be floats, got {x.dtype} and {y.dtype}")
    return x, y


@in_float32
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Tensor:
    """-(w·y·log σ(x) + (1-y)·log(1-σ(x))) of logits x, accurate however large.   dx = g·(σ(x) - y) for w = 1

    pos_weight w: how much more a positive target counts, broadcast against the input.

    >>> binary_cross_entropy_with_logits(minitorch.tensor([0.0, 200.0]), minitorch.tensor([1.0, 1.0]))
    tensor(0.3466)
    """
    name = "binary_cross_entropy_with_logits"
    reduction = reduction_of(name, size_average, reduce, reduction)
    x, y = _floats_of_one_size(name, input, target)
    # With -log σ(x) = softplus(-x) and -log(1-σ(x)) = x + softplus(-x), nothing overflows.
    surprise = (-x).softplus(threshold=math.inf)
    if pos_weight is not None:
        surprise = surprise * (1 + (as_tensor(pos_weight) - 1) * y)
    losses = (1 - y) * x + surprise
    return reduced(losses if weight is None else losses * as_tensor(weight), reduction)


@in_float32
def kl_div(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """y·(log y - x) for log-probabilities x: how far they are from the distribution y.

    log_target: y is given as log y. The divergence of the mathematicians is reduction 'batchmean', the
    sum over the first axis' length; 'mean' divides by the number of all elements.

    >>> y = minitorch.tensor([[0.5, 0.5]])
    >>> kl_div(minitorch.tensor([[0.25, 0.75]]).log(), y, reduction="batchmean")
    tensor(0.1438)
    """
    reduction = reduction_of("kl_div", size_average, reduce, reduction, (*REDUCTIONS, "batchmean"))
    if reduction == "mean":
        warnings.warn(
            "kl_div: reduction 'mean' divides the sum by the number of all elements, not by the batch size; the "
            "Kullback-Leibler divergence as mathematics defines it is reduction='batchmean'",
            stacklevel=2,
        )
    x, y = as_tensor(input), as_tensor(target)
    if log_target:
        losses = y.exp() * (y - x)
    else:
        # 0·log 0 counts as 0.
        certain = where(y == 0, 1.0, y)
        losses = y * (certain.log() - x)
    if reduction == "batchmean":
        return losses.sum() / (x.shape[0] if x.ndim else 1)
    return reduced(losses, reduction)


@in_float32
def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """eˣ - y·x for counts y of rate eˣ; without log_input, x - y·log(x + eps).

    full adds Stirling's approximation of log y!: y·log y - y + log(2πy)/2 where y > 1.

    >>> poisson_nll_loss(minitorch.tensor([0.0]), minitorch.tensor([2.0]))
    tensor(1.)
    """
    reduction = reduction_of("poisson_nll_loss", size_average, reduce, reduction)
    x, y = as_tensor(input), as_tensor(target)
    losses = x.exp() - y * x if log_input else x - y * (x + eps).log()
    if full:
        many = where(y > 1, y, 2.0)
        losses = losses + where(y > 1, many * many.log() - many + 0.5 * (2 * math.pi * many).log(), 0.0)
    return reduced(losses, reduction)


@in_float32
def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log v + (x - y)² / v) / 2 for a normal y of mean x and variance v, not below eps.

    var: a number, or a tensor of the input's shape, or without its last axis, or with a 1 in one place.
    full adds log(2π) / 2.

    >>> gaussian_nll_loss(minitorch.tensor([0.0]), minitorch.tensor([2.0]), minitorch.tensor([4.0]))
    tensor(1.1931)
    """
    name = "gaussian_nll_loss"
    reduction = reduction_of(name, None, None, reduction)
    x, y = as_tensor(input), as_tensor(target)
    v = (
        as_tensor(var, x.dtype).to(x.device).broadcast_to(x.shape)
        if isinstance(var, float)
        else as_tensor(var)
    )
    if violated((v._data < 0).any()):
        raise ValueError(f"{name}: var has negative entries; a variance is at least 0 (v.exp() or softplus?)")
    if v.shape != x.shape:
        if v.shape == x.shape[:-1]:
            v = v.unsqueeze(-1)
        elif v.ndim != x.ndim or [a for a, b in zip(v.shape, x.shape, strict=True) if a != b] != [1]:
            raise ValueError(
                f"{name}: var has shape {v.shape}, but the input's shape {x.shape} needs the same, or "
                f"{x.shape[:-1]}, or a 1 in one place"
            )
    # Held above eps, but with the slope of v itself: a variance at the bound can still grow.
    v = v + (v.detach().clamp(min=eps) - v.detach())
    losses = 0.5 * (v.log() + (x - y).square() / v)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced(losses, reduction)


# --- alignments ---------------------------------------------------------------------------------

# The logarithm of "impossible": finite, so that sums and slopes stay finite too, and so low that nothing real
# added to it is seen.
_IMPOSSIBLE = -1e30


@in_float32
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability that the steps spell the target, in any alignment.

    Its full name is connectionist temporal classification.

    log_probs (T, N, C), or (T, C): at each time the log-probabilities of C labels, one of them the blank. An
    alignment spells what is left after repeated labels are merged and then blanks removed. targets (N, S), or all
    targets one after the other. mean divides each loss by its target's length first. A target too long for its
    input has an infinite loss and a gradient of nan, or with zero_infinity a loss of 0 and no gradient.

    The gradient is that of log_probs themselves; PyTorch gives the one of the logits before log_softmax, which is
    the same once it went through log_softmax.

    >>> even = minitorch.zeros(2, 1, 3).log_softmax(-1)               # two steps, three labels
    >>> ctc_loss(even, minitorch.tensor([[1]]), [2], [1]).exp()        # 11, 1- and -1 of nine
    tensor(3.)
    """
    name = "ctc_loss"
    reduction = reduction_of(name, None, None, reduction)
    logp = as_tensor(log_probs)
    if logp.ndim not in (2, 3):
        raise RuntimeError(f"{name}: log_probs must be (T, N, C) or (T, C), got {logp.shape}")
    alone = logp.ndim == 2
    if alone:
        logp = logp.unsqueeze(1)
    steps, batch, labels = logp.shape
    if not 0 <= blank < labels:
        raise RuntimeError(f"{name}: blank must be one of the {labels} labels, got {blank}")
    times, lengths = (as_tensor(given).cpu()._data.reshape(-1) for given in (input_lengths, target_lengths))
    if times.shape != (batch,) or lengths.shape != (batch,):
        raise RuntimeError(
            f"{name}: input_lengths and target_lengths need one number for each of the {batch} sequences, got "
            f"{times.tolist()} and {lengths.tolist()}"
        )
    if violated(((times < 0) | (times > steps) | (lengths < 0)).any()):
        raise RuntimeError(
            f"{name}: input lengths are 0 to {steps}, target lengths at least 0; got {times.tolist()} and "
            f"{lengths.tolist()}"
        )
    goal = _ctc_targets(name, as_tensor(targets), lengths, labels)
    # Between, before and after all labels there may be blanks: - a - b -.
    blanks = np.full((batch, goal.shape[1] + 1, 1), blank)
    between = np.concatenate([blanks[:, :-1], goal[:, :, None]], axis=2).reshape(batch, 2 * goal.shape[1])
    places = np.concatenate([between, blanks[:, 0]], axis=1)
    # A step may stay, go on by one, or leave out a blank between two labels that differ.
    differ = (places[:, 2:] != blank) & (places[:, 2:] != places[:, :-2])
    never = np.full((batch, min(2, places.shape[1])), _IMPOSSIBLE)
    skip = np.concatenate([never, np.where(differ, 0.0, _IMPOSSIBLE)], axis=1)
    start = np.full(places.shape, _IMPOSSIBLE)
    start[:, 0] = 0.0

    def beside(array: Any) -> Tensor:
        return new_tensor(np.asarray(array, like=logp._data))

    wanted = beside(np.broadcast_to(places, (steps, *places.shape)))
    emitted = logp.gather(2, wanted).clamp(min=_IMPOSSIBLE).unbind(0)
    may_skip, score = beside(skip.astype(logp.dtype)), beside(start.astype(logp.dtype))
    for t, emission in enumerate(emitted):
        by_one = pad(score, (1, -1), value=_IMPOSSIBLE)
        by_two = pad(score, (2, -2), value=_IMPOSSIBLE) + may_skip if goal.shape[1] else by_one
        arrived = stack([score, by_one, by_two]).logsumexp(0) if goal.shape[1] else score
        arrived = arrived + emission
        running = times > t
        score = arrived if certain(running.all()) else where(beside(running[:, None]), arrived, score)
    # The end is the last label or the blank after it.
    ends = np.stack([2 * lengths, np.maximum(2 * lengths - 1, 0)], axis=1)
    allowed = np.stack([np.zeros(batch), np.where(lengths > 0, 0.0, _IMPOSSIBLE)], axis=1)
    found = score.gather(1, beside(ends)) + beside(allowed.astype(logp.dtype))
    losses = -found.logsumexp(1)
    impossible = losses.detach() > -_IMPOSSIBLE / 2
    if zero_infinity:
        losses = where(impossible, 0.0, losses)
    elif possible(impossible.any()._data):
        running = beside(np.arange(steps)[:, None] < times)
        losses = apply(IMPOSSIBLE, losses, logp, impossible, running)
    if reduction == "mean":
        return (losses / beside(np.maximum(lengths, 1).astype(logp.dtype))).mean()
    losses = losses.reshape(()) if alone else losses
    return reduced(losses, reduction)


def _ctc_targets(name: str, targets: Tensor, lengths: Any, labels: int) -> Any:
    """Return the targets as (N, S), filled up with 0, checked."""
    given = targets.cpu()._data
    if given.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: targets must be integers, got {given.dtype}; write targets.long()")
    # Lengths that are not known yet (a program is being recorded) may be up to what the targets have room for.
    room = given.shape[1] if given.ndim == 2 else 0
    longest = (
        room if given.ndim == 2 and not certain((lengths == lengths).all()) else int(lengths.max(initial=0))
    )
    there = np.arange(longest) < lengths[:, None]
    if given.ndim == 1:
        if given.shape[0] != lengths.sum():
            raise RuntimeError(
                f"{name}: targets one after the other must have {lengths.sum()} elements, the sum of "
                f"target_lengths, got {given.shape[0]}"
            )
        # The k-th element that is there is the k-th target.
        goal = (
            given[np.cumsum(there).reshape(there.shape) - 1]
            if given.shape[0]
            else np.zeros(there.shape, np.int64)
        )
    elif given.ndim == 2 and given.shape[0] == len(lengths) and not violated((lengths > room).any()):
        goal = given[:, :longest]
    else:
        raise RuntimeError(
            f"{name}: targets must be (N, S) with N = {len(lengths)} and S at least {lengths.max(initial=0)}, or one "
            f"after the other, got {given.shape}"
        )
    goal = np.where(there, goal, 0).astype(np.int64)
    wrong = (goal < 0) | (goal >= labels)
    if violated(wrong.any()):
        raise IndexError(
            f"{name}: target {goal[wrong][0]} is out of range: with {labels} labels they are 0 to {labels - 1}"
        )
    return goal


__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "ctc_loss",
    "gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss", "nll_loss", "poisson_nll_loss",
    "smooth_l1_loss",
]  # fmt: skip
