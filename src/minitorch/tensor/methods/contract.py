"""Tensor's products and distributions: matmul, dot, outer, softmax. Enters and leaves: tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.node import Node, apply, apply_binary
from minitorch.ops import contract as ops
from minitorch.ops.op import violated
from minitorch.tensor.convert import (
    as_tensor,
    cast,
    choose,
    one_axis,
    one_int,
    operand,
    promoted,
    tensor_for,
    to_floating,
)

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Contractions(Node):
    """Matrix products and softmax."""

    __slots__ = ()

    def matmul(self, other: Any) -> Tensor:
        """The matrix product: vectors, matrices, batches of matrices, broadcast.   dA = g Bᵀ, dB = Aᵀ g

        >>> grid = minitorch.zeros(20, 3, 5)         # verb × person × tense
        >>> (grid @ minitorch.zeros(5, 64)).shape    # projected to 64 hidden units
        (20, 3, 64)
        """
        return matmul(self, other)

    def dot(self, other: Any) -> Tensor:
        """Σ xᵢ·yᵢ of two vectors.   dx = g·y, dy = g·x

        >>> minitorch.tensor([1.0, 2.0]).dot(minitorch.tensor([3.0, 4.0]))
        tensor(11.)
        """
        _expect("dot", (self, 1), (other, 1))
        return matmul(self, other)

    def mm(self, mat2: Any) -> Tensor:
        """The product of two matrices, nothing broadcast.   dA = g Bᵀ, dB = Aᵀ g

        >>> minitorch.zeros(3, 5).mm(minitorch.zeros(5, 2)).shape
        (3, 2)
        """
        _expect("mm", (self, 2), (mat2, 2))
        return matmul(self, mat2)

    def mv(self, vec: Any) -> Tensor:
        """A matrix times a vector.   dA = g ⊗ v, dv = Aᵀ g

        >>> minitorch.zeros(3, 5).mv(minitorch.zeros(5)).shape
        (3,)
        """
        _expect("mv", (self, 2), (vec, 1))
        return matmul(self, vec)

    def bmm(self, mat2: Any) -> Tensor:
        """Products of two batches of matrices, nothing broadcast.   dA = g Bᵀ, dB = Aᵀ g

        >>> minitorch.zeros(20, 3, 5).bmm(minitorch.zeros(20, 5, 2)).shape
        (20, 3, 2)
        """
        _expect("bmm", (self, 3), (mat2, 3))
        if self._data.shape[0] != as_tensor(mat2)._data.shape[0]:
            raise RuntimeError(
                f"bmm: batches of {self._data.shape[0]} and {as_tensor(mat2)._data.shape[0]} matrices do not "
                "match; write matmul to broadcast"
            )
        return matmul(self, mat2)

    def outer(self, vec2: Any) -> Tensor:
        """xᵢ·yⱼ of two vectors.   dx = g y, dy = gᵀ x

        >>> minitorch.tensor([1.0, 2.0]).outer(minitorch.tensor([3.0, 4.0]))
        tensor([[3., 4.],
                [6., 8.]])
        """
        _expect("outer", (self, 1), (vec2, 1))
        column: Tensor = as_tensor(self)[:, None]
        return column * as_tensor(vec2)[None, :]

    def softmax(self, axis: int | None = None, dtype: Any = None, *, dim: int | None = None) -> Tensor:
        """e^{xᵢ} / Σ e^{xⱼ} along `axis`.   dx = s·(g - ⟨g, s⟩)

        >>> minitorch.zeros(3, 5).softmax(axis=1)[0]          # five tenses, equally likely
        tensor([0.2000, 0.2000, 0.2000, 0.2000, 0.2000])
        """
        return self._normalised(ops.SOFTMAX, axis, dim, dtype)

    def log_softmax(self, axis: int | None = None, dtype: Any = None, *, dim: int | None = None) -> Tensor:
        """log softmax(x), without overflow.   dx = g - softmax(x)·Σ g

        >>> minitorch.zeros(3, 5).log_softmax(axis=1)[0, 0]
        tensor(-1.6094)
        """
        return self._normalised(ops.LOG_SOFTMAX, axis, dim, dtype)

    def _normalised(self, op: ops.Op, axis: int | None, dim: int | None, dtype: Any) -> Tensor:
        axis = choose(axis, dim)
        if axis is None:
            raise TypeError(f"{op.name}: missing argument: axis (or dim), the axis that shall sum to 1")
        x = self if dtype is None else cast(self, dtype)
        at = one_axis(axis, self._data.ndim, op.name)
        if self._data.ndim == 0:
            return apply(op, x.reshape(1), axis=0).reshape(())  # type: ignore[attr-defined]
        return apply(op, x, axis=at)


def _expect(name: str, *operands: tuple[Any, int]) -> None:
    shapes = [tensor_for(x, name)._data.shape for x, _ in operands]
    if any(len(s) != n for s, (_, n) in zip(shapes, operands, strict=True)):
        wanted = " and ".join(f"{n} axes" if n > 1 else "1 axis" for _, n in operands)
        raise RuntimeError(f"{name}: expects tensors with {wanted}, got shapes {shapes[0]} and {shapes[1]}")


def _product_misfit(x: tuple[int, ...], y: tuple[int, ...]) -> str:
    """Say which axes of two shapes a matrix product brings together, and what would make them fit."""
    if len(x) == len(y) == 1:
        return (
            f"matmul: vectors of shapes {x} and {y} do not fit: a product of two vectors is the sum of x[i]·y[i], and "
            "needs equal lengths. For the matrix of all x[i]·y[j] write minitorch.outer(x, y)"
        )
    met = y[0 if len(y) == 1 else -2]
    message = (
        f"matmul: shapes {x} and {y} do not fit: the last axis of the first ({x[-1]}) meets the "
        f"{'only' if len(y) == 1 else 'second to last'} axis of the second ({met}), and they must be equal"
    )
    fitting = []
    if len(x) > 1 and x[-2] == met:
        fitting.append("x.mT @ y")
    if len(y) > 1 and y[-1] == x[-1]:
        fitting.append("x @ y.mT")
    return message + (f". Transposed they fit: {' or '.join(fitting)}" if fitting else "")


def matmul(a: Any, b: Any) -> Tensor:
    """The matrix product of two tensors, after dtype promotion."""
    if not (isinstance(a, Node) and isinstance(b, Node) and a._data.dtype is b._data.dtype):
        a, b = promoted(tensor_for(a, "matmul"), tensor_for(b, "matmul"))
    x, y = a._data.shape, b._data.shape
    if not x or not y:
        raise RuntimeError(f"matmul: both operands need an axis, got shapes {x} and {y}; write x * y")
    if x[-1] != y[0 if len(y) == 1 else -2]:
        raise RuntimeError(_product_misfit(x, y))
    if a._data.dtype.kind == "b":
        return cast(apply(ops.MATMUL, a, b), np.bool_)
    return apply_binary(ops.MATMUL, a, b)


def einsum(equation: str, *operands: Any) -> Tensor:
    """Einstein's summation: `einsum("bi,ij->bj", x, w)`.   Each operand's gradient is an einsum too

    >>> grid, projection = minitorch.ones(20, 3, 5), minitorch.ones(5, 2)
    >>> minitorch.einsum("vpt,th->vph", grid, projection).shape
    (20, 3, 2)
    """
    if not isinstance(equation, str):
        raise TypeError(
            f"einsum: the equation comes first, as text, got {equation!r}; write einsum('ij,jk->ik', x, y)"
        )
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    tensors = promoted(*(tensor_for(o, "einsum") for o in operands))
    try:
        explicit = ops.explicit_subscripts(equation, tuple(t._data.ndim for t in tensors))
    except ValueError as error:
        raise RuntimeError(f"einsum: {error}") from None
    sizes: dict[str, int] = {}
    for term, t in zip(explicit.partition("->")[0].split(","), tensors, strict=True):
        for letter, n in zip(term, t._data.shape, strict=True):
            if sizes.setdefault(letter, n) != n and 1 not in (n, sizes[letter]):
                raise RuntimeError(
                    f"einsum: in {equation!r} the index {letter!r} has length {sizes[letter]} in one operand "
                    f"and {n} in another"
                )
            sizes[letter] = max(n, sizes[letter]) if 0 not in (n, sizes[letter]) else 0
    stretched = []
    for term, t in zip(explicit.partition("->")[0].split(","), tensors, strict=True):
        wanted = tuple(sizes[c] for c in term)
        stretched.append(t if t._data.shape == wanted else t.broadcast_to(wanted))
    return apply(ops.EINSUM, *stretched, subscripts=explicit)


def tensordot(a: Any, b: Any, dims: Any = 2) -> Tensor:
    """Sum over `dims` axes: the last of a against the first of b, or the pairs listed.

    >>> minitorch.tensordot(minitorch.ones(20, 3, 5), minitorch.ones(3, 5, 2)).shape
    (20, 2)
    """
    x, y = tensor_for(a, "tensordot"), tensor_for(b, "tensordot")
    if isinstance(dims, int):
        mine, theirs = list(range(x._data.ndim - dims, x._data.ndim)), list(range(dims))
        if dims < 0 or dims > min(x._data.ndim, y._data.ndim):
            raise RuntimeError(
                f"tensordot: dims = {dims} does not fit shapes {x._data.shape} and {y._data.shape}"
            )
    else:
        if not isinstance(dims, (tuple, list)) or len(dims) != 2:
            raise TypeError(f"tensordot: dims must be an int, or two lists of axes, got {dims!r}")
        first, second = dims
        mine = [
            one_axis(i, x._data.ndim, "tensordot") for i in ([first] if isinstance(first, int) else first)
        ]
        theirs = [
            one_axis(i, y._data.ndim, "tensordot") for i in ([second] if isinstance(second, int) else second)
        ]
    for i, j in zip(mine, theirs, strict=False):  # an axis of length 1 is stretched: the other is summed
        if x._data.shape[i] == 1 != y._data.shape[j]:
            y = cast(y.sum(j, keepdim=True), y._data.dtype)
        elif y._data.shape[j] == 1 != x._data.shape[i]:
            x = cast(x.sum(i, keepdim=True), x._data.dtype)
    if len(mine) != len(theirs) or any(
        x._data.shape[i] != y._data.shape[j] for i, j in zip(mine, theirs, strict=True)
    ):
        raise RuntimeError(
            f"tensordot: axes {mine} of shape {x._data.shape} do not match axes {theirs} of shape {y._data.shape}"
        )
    kept = [i for i in range(x._data.ndim) if i not in mine]
    rest = [j for j in range(y._data.ndim) if j not in theirs]
    rows = tuple(x._data.shape[i] for i in kept)
    columns = tuple(y._data.shape[j] for j in rest)
    inner = 1
    for i in mine:
        inner *= x._data.shape[i]
    left = x.permute((*kept, *mine)).reshape(_product(rows), inner)
    right = y.permute((*theirs, *rest)).reshape(inner, _product(columns))
    return matmul(left, right).reshape(rows + columns)


def _product(sizes: tuple[int, ...]) -> int:
    total = 1
    for n in sizes:
        total *= n
    return total


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
    ignore_index = one_int(ignore_index, "cross_entropy", "ignore_index")
    logits, goal = (as_tensor(operand(each, "cross_entropy")) for each in (input, target))
    logits = to_floating(logits)
    if logits._data.ndim == 0:
        raise RuntimeError("cross_entropy: logits need a class axis: shape (C,), (N, C) or (N, C, d1, …)")
    classes = logits._data.shape[0 if logits._data.ndim == 1 else 1]
    if weight is not None:
        weight = cast(as_tensor(weight), logits._data.dtype)
        if weight._data.shape != (classes,):
            raise RuntimeError(
                f"cross_entropy: weight must have one number per class, shape ({classes},), got {weight._data.shape}"
            )
    if goal._data.shape == logits._data.shape:
        if ignore_index >= 0:
            raise RuntimeError(
                "cross_entropy: ignore_index is for class indices; probabilities have none to ignore"
            )
        return _with_probabilities(logits, goal, weight, reduction, label_smoothing)
    return _with_indices(logits, goal, weight, ignore_index, reduction, label_smoothing, classes)


def _with_probabilities(logits: Any, goal: Any, weight: Any, reduction: str, smoothing: float) -> Tensor:
    if goal._data.dtype.kind != "f":
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
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def _with_indices(
    logits: Any, goal: Any, weight: Any, ignore: int, reduction: str, smoothing: float, classes: int
) -> Tensor:
    shape = logits._data.shape
    expected = shape[:1] + shape[2:] if len(shape) > 1 else ()
    if goal._data.shape != expected:
        raise ValueError(
            f"cross_entropy: logits of shape {shape} need class indices of shape {expected} (or "
            f"probabilities of shape {shape}), got {goal._data.shape}"
        )
    if goal._data.dtype.kind not in "iu":
        raise RuntimeError(
            f"cross_entropy: class indices must be integers, got {goal._data.dtype}; write y.long()"
        )
    if weight is not None and weight.requires_grad:
        raise RuntimeError("cross_entropy: class weights have no derivative here; write weight.detach()")
    data = goal._data
    wrong = (data != ignore) & ((data < 0) | (data >= classes))
    if violated(wrong.any()):
        raise IndexError(
            f"cross_entropy: target {int(data[wrong][0])} is out of range: with {classes} classes targets "
            f"are 0 to {classes - 1} (or ignore_index {ignore})"
        )
    # (N, C, d1, …) → (N·d1·…, C): one row per prediction.
    rows = logits.reshape(1, -1) if len(shape) == 1 else logits
    if len(shape) > 2:
        rows = rows.movedim(1, -1).reshape(-1, classes)
    flat = goal.reshape(-1)
    losses = apply(ops.CROSS_ENTROPY, rows, flat, weight, smoothing=float(smoothing), ignore=ignore)
    if reduction == "none":
        return losses.reshape(expected)
    total = losses.sum()
    if reduction == "sum":
        return total
    kept = flat != ignore
    share = kept.sum() if weight is None else (weight.detach()[flat * kept] * kept).sum()
    return total / cast(share, logits._data.dtype)
