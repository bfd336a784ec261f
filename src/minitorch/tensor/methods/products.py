"""Products with something added, inner, outer and cross products, as functions and as Tensor methods.

Enters: tensors. Leaves: tensors; compositions of matmul, einsum and elementwise ops. methods/families.py makes
methods of those that PyTorch offers as methods too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.node import new_tensor
from minitorch.tensor.convert import cast, one_axis, promoted, tensor_for
from minitorch.tensor.methods.contract import _expect, matmul, tensordot
from minitorch.tensor.methods.shape import cat

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


def _plus(input: Any, product: Tensor, beta: float, alpha: float, name: str) -> Tensor:
    """Return β·x + α·product; x is left out where β is 0, nan and all."""
    if product._data.dtype.kind in "iu" and not (isinstance(beta, int) and isinstance(alpha, int)):
        raise RuntimeError(f"{name}: beta and alpha must be ints between integer tensors")
    x = tensor_for(input, name)
    if product._data.dtype.kind == "b":
        kept = cast(x, product._data.dtype).logical_and(bool(beta))
        return kept.logical_or(product.logical_and(bool(alpha)))
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled.broadcast_to(product.shape)
    summed = (x if beta == 1 else x * beta) + scaled
    if summed.shape != product.shape:
        raise RuntimeError(f"{name}: an input of shape {x.shape} does not stretch to {product.shape}")
    return summed


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """β·x + α·(A @ B).   dx = β·g, dA = α·g Bᵀ, dB = α·Aᵀ g

    >>> addmm(minitorch.tensor([[1.0]]), minitorch.tensor([[2.0, 3.0]]), minitorch.tensor([[4.0], [5.0]]))
    tensor([[24.]])
    """
    _expect("addmm", (mat1, 2), (mat2, 2))
    return _plus(input, matmul(mat1, mat2), beta, alpha, "addmm")


def addmv(input: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """β·x + α·(A @ v).

    >>> addmv(minitorch.tensor([1.0]), minitorch.tensor([[2.0, 3.0]]), minitorch.tensor([4.0, 5.0]))
    tensor([24.])
    """
    _expect("addmv", (mat, 2), (vec, 1))
    return _plus(input, matmul(mat, vec), beta, alpha, "addmv")


def addr(input: Any, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """β·x + α·(v ⊗ w).

    >>> addr(minitorch.tensor([[1.0, 1.0]]), minitorch.tensor([2.0]), minitorch.tensor([3.0, 4.0]))
    tensor([[7., 9.]])
    """
    return _plus(input, tensor_for(vec1, "addr").outer(vec2), beta, alpha, "addr")


def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """β·x + α·(A @ B), for batches of matrices.

    >>> baddbmm(minitorch.tensor([1.0]), minitorch.tensor([[[2.0]]]), minitorch.tensor([[[3.0]]]))
    tensor([[[7.]]])
    """
    return _plus(input, tensor_for(batch1, "baddbmm").bmm(batch2), beta, alpha, "baddbmm")


def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """β·x + α·Σ (A @ B), summed over the batch.

    >>> addbmm(minitorch.tensor([1.0]), minitorch.tensor([[[2.0]], [[1.0]]]), minitorch.tensor([[[3.0]], [[1.0]]]))
    tensor([[8.]])
    """
    product = tensor_for(batch1, "addbmm").bmm(batch2)
    return _plus(input, cast(product.sum(0), product._data.dtype), beta, alpha, "addbmm")


def inner(input: Any, other: Any) -> Tensor:
    """Sums over the last axes of both; a plain product where one has no axis.

    >>> inner(minitorch.tensor([1.0, 2.0]), minitorch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    tensor([11., 17.])
    """
    x, y = tensor_for(input, "inner"), tensor_for(other, "inner")
    if not x.ndim or not y.ndim:
        return x * y
    if x.shape[-1] != y.shape[-1]:
        raise RuntimeError(f"inner: the last axes of {x.shape} and {y.shape} must be equally long")
    return tensordot(x, y, ([-1], [-1]))


def vdot(input: Any, other: Any) -> Tensor:
    """Σ xᵢ·yᵢ of two vectors (the first conjugated).   dx = g·y, dy = g·x

    >>> vdot(minitorch.tensor([1.0, 2.0]), minitorch.tensor([3.0, 4.0]))
    tensor(11.)
    """
    return tensor_for(input, "vdot").conj().dot(other)


def ger(input: Any, vec2: Any) -> Tensor:
    """xᵢ·yⱼ of two vectors: outer, by its older name.

    >>> ger(minitorch.tensor([1.0]), minitorch.tensor([3.0, 4.0]))
    tensor([[3., 4.]])
    """
    return tensor_for(input, "ger").outer(vec2)


def kron(input: Any, other: Any) -> Tensor:
    """Kronecker's product: each element of x times all of y, as blocks.

    >>> kron(minitorch.tensor([1.0, 10.0]), minitorch.tensor([1.0, 2.0]))
    tensor([ 1.,  2., 10., 20.])
    """
    x, y = tensor_for(input, "kron"), tensor_for(other, "kron")
    ndim = max(x.ndim, y.ndim)
    a = (1,) * (ndim - x.ndim) + x.shape
    b = (1,) * (ndim - y.ndim) + y.shape
    left = x.reshape([n for pair in zip(a, [1] * ndim, strict=True) for n in pair])
    right = y.reshape([n for pair in zip([1] * ndim, b, strict=True) for n in pair])
    return (left * right).reshape([m * n for m, n in zip(a, b, strict=True)])


def cross(input: Any, other: Any, dim: int | None = None) -> Tensor:
    """The vector perpendicular to two in space, x × y, along an axis of length 3 (the first such).

    >>> cross(minitorch.tensor([1.0, 0.0, 0.0]), minitorch.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    x, y = promoted(tensor_for(input, "cross"), tensor_for(other, "cross"))
    if dim is None:
        dim = next((i for i, n in enumerate(x.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError(f"cross: no axis of shape {x.shape} has length 3")
    at = one_axis(dim, max(x.ndim, y.ndim), "cross") - max(x.ndim, y.ndim)
    if x.ndim != y.ndim or x.shape[at] != 3 or y.shape[at] != 3:
        raise RuntimeError(
            f"cross: axis {dim} of both must have length 3, got shapes {x.shape} and {y.shape}"
        )
    # xᵢ₊₁·yᵢ₊₂ - xᵢ₊₂·yᵢ₊₁, the axes counted in a circle.
    return x.roll(-1, at) * y.roll(-2, at) - x.roll(-2, at) * y.roll(-1, at)


def chain_matmul(*matrices: Any) -> Tensor:
    """The product of several matrices, multiplied in the order that takes the fewest operations.

    >>> chain_matmul(minitorch.tensor([[1.0, 2.0]]), minitorch.tensor([[3.0], [4.0]]), minitorch.tensor([[5.0]]))
    tensor([[55.]])
    """
    return multiply_chain([tensor_for(m, "chain_matmul") for m in matrices], "chain_matmul")


def multiply_chain(matrices: list[Any], name: str) -> Tensor:
    """Multiply matrices in the cheapest order, found by dynamic programming."""
    if not matrices:
        raise RuntimeError(f"{name}: expects at least one matrix")
    if any(m.ndim != 2 for m in matrices):
        raise RuntimeError(f"{name}: expects matrices, got shapes {[m.shape for m in matrices]}")
    count = len(matrices)
    sizes = [m.shape[0] for m in matrices] + [matrices[-1].shape[1]]
    cost = [[0] * count for _ in range(count)]
    cut = [[0] * count for _ in range(count)]
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            j = i + length - 1
            choices = [
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            ]
            cost[i][j], cut[i][j] = min(choices)

    def product(i: int, j: int) -> Any:
        return matrices[i] if i == j else matmul(product(i, cut[i][j]), product(cut[i][j] + 1, j))

    return product(0, count - 1)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of each element as a row: xᴺ⁻¹ … x⁰, or x⁰ … xᴺ⁻¹ with increasing=True.

    >>> vander(minitorch.tensor([1.0, 2.0, 3.0]), 3, increasing=True)
    tensor([[1., 1., 1.],
            [1., 2., 4.],
            [1., 3., 9.]])
    """
    base = tensor_for(x, "vander")
    if base.ndim != 1:
        raise RuntimeError(f"vander: expects a vector, got shape {base.shape}; linalg.vander takes batches")
    powers = powers_of(base, len(base) if N is None else N, "vander")
    return powers if increasing else powers.flip(-1)


def powers_of(x: Any, count: int, name: str) -> Tensor:
    """Return x⁰ … x^{count - 1} on a new last axis; integers stay integers."""
    if count < 0:
        raise RuntimeError(f"{name}: N must not be negative, got {count}")
    column = cast(x, "int64") if x._data.dtype.kind in "biu" else x
    column = column.unsqueeze(-1)
    if count == 0:
        return column[..., :0]
    ones = new_tensor(np.ones_like(column._data))
    if count == 1:
        return ones
    return cat([ones, column.broadcast_to((*column.shape[:-1], count - 1)).cumprod(-1)], -1)


__all__ = [
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "chain_matmul", "cross", "ger", "inner", "kron", "vander", "vdot",
]  # fmt: skip
