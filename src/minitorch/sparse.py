"""Sparse tensors: products, sums and softmax over the values there are. Enters: sparse tensors. Leaves: tensors.

What a sparse tensor is, and its methods: tensor/methods/sparse.py. Each function below reads as if the places that
are not named did not exist.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.engine.dtypes import float16, float32, float64, int8, int16, int32, int64, uint8
from minitorch.engine.gpu import on_host
from minitorch.engine.node import new_tensor
from minitorch.engine.record import apply
from minitorch.functions import addmm as dense_addmm
from minitorch.functions import matmul, sparse_coo_tensor
from minitorch.ops.sparse import VALUES
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor, cast, one_axis
from minitorch.tensor.methods.arguments import expect_axes

__all__ = ["addmm", "log_softmax", "mm", "softmax", "spdiags", "sum"]


def mm(sparse: Tensor, dense: Tensor) -> Tensor:
    """A sparse matrix times a dense or a sparse one.   dS = g Dᵀ at the places of S, dD = Sᵀ g

    >>> adjacency = minitorch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2))
    >>> mm(adjacency, minitorch.tensor([[1.0], [10.0]]))
    tensor([[10.],
            [ 2.]])
    """
    expect_axes("mm", (sparse, 2), (dense, 2))
    return matmul(sparse, dense)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """β·mat + α·(mat1 @ mat2) with a sparse mat1.   As mm, and dmat = β·g

    >>> addmm(minitorch.ones(2, 1), minitorch.eye(2).to_sparse(), minitorch.ones(2, 1), beta=3)
    tensor([[4.],
            [4.]])
    """
    return dense_addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of all values, or along some axes: sparse as long as sparse axes are left.   dx = g at its places

    >>> x = minitorch.tensor([[0.0, 2.0], [0.0, 3.0]]).to_sparse()
    >>> sum(x), sum(x, dim=0).to_dense()
    (tensor(5.), tensor([0., 5.]))
    """
    x = (input if dtype is None else cast(input, dtype)).coalesce()
    indices, values, shape = x._coo("sparse.sum").indices, apply(VALUES, x), tuple(x.shape)
    if dim is None:
        return values.sum()
    axes = [
        one_axis(a, len(shape), "sparse.sum") for a in (dim if isinstance(dim, (tuple, list)) else (dim,))
    ]
    count = len(indices)
    kept = [a for a in range(count) if a not in axes]
    folded = [a - count + 1 for a in axes if a >= count]
    values = values.sum(dim=folded) if folded else values
    if not kept:
        return values.sum(dim=0)
    left = tuple(n for a, n in enumerate(shape) if a not in axes)
    return sparse_coo_tensor(new_tensor(indices[kept]), values, left).coalesce()


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The softmax along an axis of the values there are, those absent being -inf.   Derivative as softmax's

    >>> softmax(minitorch.tensor([[0.0, 1.0], [1.0, 1.0]]).to_sparse(), dim=1).to_dense()
    tensor([[0.0000, 1.0000],
            [0.5000, 0.5000]])
    """
    shifted, groups, once = _shifted(input, dim, dtype, "sparse.softmax")
    if groups is None:
        return _like(once, shifted.softmax(dim=shifted.ndim - (once.ndim - dim % once.ndim)))
    e = shifted.exp()
    return _like(once, e / _totals(e, groups)[groups])


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of softmax.   Derivative as log_softmax's

    >>> log_softmax(minitorch.tensor([[0.0, 1.0], [1.0, 1.0]]).to_sparse(), dim=1).to_dense()
    tensor([[ 0.0000,  0.0000],
            [-0.6931, -0.6931]])
    """
    shifted, groups, once = _shifted(input, dim, dtype, "sparse.log_softmax")
    if groups is None:
        return _like(once, shifted.log_softmax(dim=shifted.ndim - (once.ndim - dim % once.ndim)))
    return _like(once, shifted - _totals(shifted.exp(), groups).log()[groups])


def _shifted(input: Tensor, dim: int, dtype: Any, name: str) -> tuple[Tensor, Any, Tensor]:
    """Return the values, less the largest of their row; to which row each belongs (None: a dense axis); the tensor."""
    once = (input if dtype is None else cast(input, dtype)).coalesce()
    values, indices = once.values(), once._coo(name).indices
    axis = one_axis(dim, once.ndim, name)
    if axis >= len(indices):
        return values, None, once
    others = np.delete(on_host(indices), axis, axis=0)
    _, groups = np.unique(others, axis=1, return_inverse=True)
    groups = groups.reshape(-1)
    # Subtracting the largest changes no ratio, and exp then stays finite.
    largest = np.full((int(groups.max(initial=-1)) + 1, *values.shape[1:]), -np.inf, values._array.dtype)
    np.maximum.at(largest, groups, on_host(values._data))
    there = once.device
    return values - new_tensor(largest[groups]).to(there), as_tensor(groups).to(there), once


def _totals(e: Tensor, groups: Tensor) -> Tensor:
    count = int(groups.max()) + 1 if groups.numel() else 0
    return e.detach().new_zeros((count, *e.shape[1:])).index_add(0, groups, e)


def _like(once: Tensor, values: Tensor) -> Tensor:
    return sparse_coo_tensor(once._indices(), values, once.shape, is_coalesced=True)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """A sparse matrix with the rows of `diagonals` on its diagonals, each `offsets` above the main one.

    >>> spdiags(minitorch.tensor([[1.0, 2.0]]), minitorch.tensor([0]), (2, 2)).to_dense()
    tensor([[1., 0.],
            [0., 2.]])
    """
    rows, places = (t.reshape(-1, t.shape[-1]) if t.ndim else t.reshape(1, 1) for t in (diagonals, offsets))
    height, width = (int(n) for n in shape)
    found: list[Any] = []
    for k, offset in enumerate(places._data.reshape(-1).tolist()):
        columns = np.arange(max(0, offset), min(width, height + offset, rows.shape[1]))
        found.append(np.stack([np.full_like(columns, k), columns, columns - offset]))
    k, column, row = np.concatenate(found, axis=1)
    return sparse_coo_tensor(
        new_tensor(np.stack([row, column])), rows[as_tensor(k), as_tensor(column)], (height, width)
    )


# --- PyTorch's old names: FloatTensor(indices, values, size) ------------------------------------------------


def _old_name(name: str, dtype: Any) -> Any:
    def make(*args: Any, device: Any = None) -> Tensor:
        if args and all(isinstance(a, int) for a in args):
            return sparse_coo_tensor(tuple(args), dtype=dtype, device=device)
        return sparse_coo_tensor(*(args or ((0,),)), dtype=dtype, device=device)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = (
        f"Make a sparse tensor of {np.dtype(dtype)} from indices, values and a size, or of a size alone."
    )
    return make


FloatTensor, DoubleTensor, HalfTensor = (
    _old_name(f"{name}Tensor", dtype)
    for name, dtype in (("Float", float32), ("Double", float64), ("Half", float16))
)
LongTensor, IntTensor, ShortTensor = (
    _old_name(f"{name}Tensor", dtype) for name, dtype in (("Long", int64), ("Int", int32), ("Short", int16))
)
CharTensor, ByteTensor = _old_name("CharTensor", int8), _old_name("ByteTensor", uint8)
