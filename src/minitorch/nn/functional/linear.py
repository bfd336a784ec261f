"""Affine maps, look-ups and distances as functions. Enters: Tensors and weights. Leaves: Tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.creation import one_hot
from minitorch.engine import watch
from minitorch.engine.fast import apply_ternary
from minitorch.engine.gpu import on_host
from minitorch.engine.modes import autocasting, is_grad_enabled, no_grad
from minitorch.engine.record import apply
from minitorch.functions import broadcast_tensors, einsum, stack
from minitorch.ops.indexing import check_there
from minitorch.ops.layers import LINEAR
from minitorch.ops.native import is_of_device
from minitorch.ops.op import violated
from minitorch.ops.sparse import LOOK_UP
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor, promoted
from minitorch.tensor.methods.arguments import beside
from minitorch.tensor.methods.sparse import refuse_to_record
from minitorch.tensor.precision import in_float32_there, in_given_precision, lowered_by_autocast

__all__ = [
    "bilinear", "cosine_similarity", "embedding", "embedding_bag", "linear", "one_hot", "pairwise_distance",
    "pdist",
]  # fmt: skip


def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """x Wᵀ + b.   dx = g W,  dW = gᵀ x,  db = sum of g

    input: (…, in), weight: (out, in) or (in,), bias: (out,) or None.

    >>> linear(minitorch.tensor([1.0, 2.0]), minitorch.tensor([[1.0, 1.0]]), minitorch.tensor([10.0]))
    tensor([13.])
    """
    if autocasting and (lowered := lowered_by_autocast(linear, input, weight, bias)) is not None:
        return lowered
    x, w = as_tensor(input), as_tensor(weight)
    b = None if bias is None else as_tensor(bias)
    if w.ndim == 1:
        out = x @ w
        return out if b is None else out + b
    if w.ndim != 2 or x.ndim == 0 or x.shape[-1] != w.shape[1]:
        raise RuntimeError(
            f"linear: an input of shape {x.shape} does not fit a weight of shape {w.shape} = (out, in): the "
            "last axis of the input must have `in` features"
        )
    if b is not None and (b.ndim > 1 or b.numel() not in (1, w.shape[0])):
        raise RuntimeError(
            f"linear: a bias of shape {b.shape} does not fit a weight of shape {w.shape} = (out, in): it must "
            "have `out` elements"
        )
    if x.dtype != w.dtype or (b is not None and b.dtype != w.dtype):
        x, w, *rest = promoted(x, w) if b is None else promoted(x, w, b)
        b = rest[0] if rest else None
    return apply(LINEAR, x, w) if b is None else apply_ternary(LINEAR, x, w, b)


@in_given_precision
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Tensor:
    """y_o = Σ_ij a_i·W_oij·b_j + bias_o.

    input1: (…, in1), input2: (…, in2), weight: (out, in1, in2).

    >>> bilinear(minitorch.ones(4, 2), minitorch.ones(4, 3), minitorch.ones(5, 2, 3)).shape
    (4, 5)
    """
    a, b, w = as_tensor(input1), as_tensor(input2), as_tensor(weight)
    if w.ndim != 3 or a.shape[:-1] != b.shape[:-1] or (a.shape[-1], b.shape[-1]) != w.shape[1:]:
        raise RuntimeError(
            f"bilinear: inputs of shapes {a.shape} and {b.shape} do not fit a weight of shape {w.shape}; "
            "expected (…, in1), (…, in2) and (out, in1, in2)"
        )
    out = einsum("...i,oij,...j->...o", a, w, b)
    return out if bias is None else out + as_tensor(bias)


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` that `input` (integers of any shape) names.   dW: g added to each named row

    padding_idx: a row that gets no gradient. max_norm: longer rows are first shortened, in place.
    scale_grad_by_freq: divide a row's gradient by how often it was named. sparse: the gradient is a
    sparse tensor of the named rows; SGD, Adagrad and SparseAdam then touch these alone.

    >>> embedding(minitorch.tensor([1, 1, 0]), minitorch.tensor([[0.0, 1.0], [2.0, 3.0]]))
    tensor([[2., 3.],
            [2., 3.],
            [0., 1.]])
    """
    index, table = as_tensor(input), as_tensor(weight)
    if index.dtype.kind not in "iu":
        raise RuntimeError(f"embedding: indices must be integers, got {index.dtype}; write x.long()")
    if table.ndim != 2:
        raise RuntimeError(f"embedding: weight must be (rows, features), got shape {table.shape}")
    rows = table.shape[0]
    named = index._data
    if is_of_device(named):  # by a kernel, for whose answer nobody waits
        check_there(named, rows)
    elif named.size:
        low, high = named.min(), named.max()
        if violated((low < 0) | (high >= rows)):
            wrong = int(low) if low < 0 else int(high)
            raise IndexError(
                f"embedding: index {wrong} is out of range: weight has {rows} rows, 0 to {rows - 1}"
            )
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError(
                f"embedding: padding_idx {padding_idx} must be within the {rows} rows of weight"
            )
        padding_idx %= rows
    if max_norm is not None:
        _shorten(table, named, max_norm, norm_type)
    if sparse and table.requires_grad and is_grad_enabled():
        if scale_grad_by_freq:
            raise RuntimeError(
                "embedding: scale_grad_by_freq is not there for sparse gradients; leave one of them away"
            )
        refuse_to_record("embedding(sparse=True)")
        return apply(LOOK_UP, table, index=named.copy(), padding_idx=padding_idx)
    out = table[index]
    if not out.requires_grad or (padding_idx is None and not scale_grad_by_freq):
        return out
    share = np.ones_like(named, dtype=out.dtype)
    if scale_grad_by_freq:
        share = share / np.bincount(named.reshape(-1), minlength=rows)[named]
    if padding_idx is not None:
        share = np.where(named == padding_idx, 0, share)
    weights = as_tensor(share.astype(out.dtype)[..., None])
    out.register_hook(lambda g: g * weights)
    return out


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or largest of the rows that each bag names: a bag is a row of `input`, or starts at an offset.

    per_sample_weights: a factor for each named row (mode 'sum'). padding_idx: a row that counts in no bag.

    >>> table = minitorch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    >>> embedding_bag(minitorch.tensor([0, 1, 2]), table, minitorch.tensor([0, 2]), mode="sum")
    tensor([[2., 4.],
            [4., 5.]])
    """
    index, table = as_tensor(input), as_tensor(weight)
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', got {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights are for mode 'sum', not {mode!r}")
    if index.ndim == 2:
        if offsets is not None:
            raise ValueError("embedding_bag: the rows of a 2-d input are the bags; leave offsets away")
        bags = index.shape[0]
        starts = np.arange(bags) * index.shape[1]
    elif index.ndim == 1:
        if offsets is None:
            raise ValueError("embedding_bag: a 1-d input needs offsets: where each bag starts")
        starts = on_host(as_tensor(offsets)._data)
        if starts.ndim != 1 or (starts.size and int(starts[0]) != 0):
            raise ValueError("embedding_bag: offsets must have one axis and start with 0")
        starts = starts[:-1] if include_last_offset else starts
        bags = len(starts)
    else:
        raise ValueError(f"embedding_bag: input must have 1 or 2 axes, got shape {index.shape}")
    if sparse and mode == "max":
        raise NotImplementedError(
            "embedding_bag: sparse gradients are for the modes 'sum' and 'mean', not 'max'"
        )
    flat = index.reshape(-1)
    rows = embedding(flat, table, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    # (Which row belongs to which bag is found out on the host; what is computed with stays beside the table.)
    places = np.searchsorted(starts, np.arange(flat.numel()), side="right") - 1
    named = on_host(flat._data)
    counted = np.ones(len(named), bool)
    if padding_idx is not None:
        counted = named != padding_idx % table.shape[0]
    if mode == "max":
        found = [rows[beside(np.flatnonzero((places == bag) & counted), table)] for bag in range(bags)]
        return stack([f.amax(dim=0) if len(f) else table[0] * 0 for f in found])
    if per_sample_weights is not None:
        rows = rows * as_tensor(per_sample_weights).reshape(-1, 1)
    if not counted.all():
        rows = rows * beside(counted[:, None].astype(table.dtype), table)
    nothing = beside(np.zeros((bags, table.shape[1]), table.dtype), table)
    summed = nothing.index_add(0, beside(places, table), rows)
    if mode == "sum":
        return summed
    sizes = np.maximum(np.bincount(places[counted], minlength=bags), 1)
    return summed / beside(sizes[:, None].astype(table.dtype), table)


def _shorten(table: Tensor, named: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are longer than `max_norm` down to it, in place."""
    with no_grad():
        # Which rows are unique may not be known yet; a row that is named twice is written twice, with the same numbers.
        rows = np.unique(named) if type(named) is np.ndarray else named.reshape(-1)
        values = table._data[rows]
        lengths = as_tensor(values).norm(norm_type, dim=1)._data
        # The small number is PyTorch's, so that the result does not exceed max_norm by rounding.
        scale = np.where(lengths > max_norm, max_norm / (lengths + 1e-7), 1.0)
        table._data[rows] = values * scale[:, None].astype(values.dtype)
        watch.touch(table._data)


@in_float32_there
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """⟨a, b⟩ / (‖a‖·‖b‖) along an axis, each length at least eps (and then a constant to the derivative).

    >>> cosine_similarity(minitorch.tensor([1.0, 0.0]), minitorch.tensor([1.0, 1.0]), dim=0)
    tensor(0.7071)
    """
    a, b = broadcast_tensors(as_tensor(x1), as_tensor(x2))
    lengths = [t.norm(2, dim=dim, keepdim=True).clamp(min=eps) for t in (a, b)]
    return ((a / lengths[0]) * (b / lengths[1])).sum(dim=dim)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """‖a - b + eps‖_p along the last axis.

    >>> pairwise_distance(minitorch.tensor([3.0, 4.0]), minitorch.tensor([0.0, 0.0]))
    tensor(5.0000)
    """
    return (as_tensor(x1) - as_tensor(x2) + eps).norm(p, dim=-1, keepdim=keepdim)


def pdist(input: Any, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows, (0, 1), (0, 2), …, as one vector.

    >>> pdist(minitorch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    x = as_tensor(input)
    if x.ndim != 2:
        raise RuntimeError(f"pdist: expected (rows, features), got shape {x.shape}")
    first, second = np.triu_indices(x.shape[0], 1)
    left, right = (x[as_tensor(rows).to(device=x.device)] for rows in (first, second))
    return (left - right).norm(p, dim=-1)
