"""Sparse tensors, by coordinates: made, asked, made dense. Enters: tensors. Leaves: tensors.

A sparse tensor is a Tensor around another kind of array (ops/sparse.py). Compiled functions refuse it and run eagerly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.gpu import on_host
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.engine.recording import recorder
from minitorch.ops import sparse as ops
from minitorch.ops.sparse import Coo
from minitorch.tensor.conversions import move
from minitorch.tensor.convert import as_tensor, cast
from minitorch.tensor.devices import default_device, sparse_coo, sparse_csr, strided

if TYPE_CHECKING:
    from minitorch.tensor import Tensor

__all__ = ["sparse_coo_tensor", "sparse_csr_tensor"]


def refuse_to_record(what: str) -> None:
    """Refuse to make or use a sparse tensor in a function that is compiled."""
    active = recorder()
    if active is not None and active.repeats:
        raise active.refusal(
            f"{what}: sparse tensors are not compiled, as how many values there are is known only when it runs; "
            "it runs eagerly"
        )


class Sparse(Node):
    """What is asked of tensors that keep few values."""

    __slots__ = ()

    @property
    def is_sparse(self) -> bool:
        """Whether it keeps indices and values instead of every element."""
        return self._array.__class__ is Coo and not self._array.by_rows

    @property
    def is_sparse_csr(self) -> bool:
        """Whether it is a matrix that keeps columns, values, and where each row begins."""
        return self._array.__class__ is Coo and self._array.by_rows

    @property
    def layout(self) -> Any:
        """How elements are kept: torch.strided, torch.sparse_coo or torch.sparse_csr."""
        if self._array.__class__ is not Coo:
            return strided
        return sparse_csr if self._array.by_rows else sparse_coo

    def to_sparse(self, sparse_dim: int | None = None, *, layout: Any = None, **options: Any) -> Tensor:
        """What is not 0, by indices and values; sparse_dim: how many axes the indices name.   dx = g, dense

        >>> minitorch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
        tensor(indices=tensor([[0],
                               [1]]),
               values=tensor([2.]),
               size=(2, 2), nnz=1, layout=torch.sparse_coo)
        """
        if layout == sparse_csr:
            return self.to_sparse_csr(**options)
        if layout not in (None, sparse_coo) or any(value is not None for value in options.values()):
            raise RuntimeError(
                "to_sparse: tensors are sparse by coordinates (torch.sparse_coo) or by rows (torch.sparse_csr) here, "
                f"not {layout!r}"
            )
        refuse_to_record("to_sparse")
        if self._array.__class__ is Coo:
            return apply(ops.KEEP, self, by_rows=False) if self._array.by_rows else self  # type: ignore[return-value]
        axes = self._array.ndim if sparse_dim is None else sparse_dim
        if not 0 <= axes <= self._array.ndim:
            raise IndexError(f"to_sparse: sparse_dim must be from 0 to {self._array.ndim}, got {axes}")
        return apply(ops.TO_SPARSE, self, sparse_axes=axes)

    def to_sparse_coo(self) -> Tensor:
        """What is not 0, by indices and values; see to_sparse."""
        return self.to_sparse()

    def to_sparse_csr(self, dense_dim: int | None = None) -> Tensor:
        """What is not 0 of a matrix, by columns and values, and where each row begins.   dx = g, dense

        >>> x = minitorch.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse_csr()
        >>> x.crow_indices(), x.col_indices(), x.values()
        (tensor([0, 1, 3]), tensor([1, 0, 1]), tensor([2., 3., 4.]))
        """
        if self._array.ndim != 2 or dense_dim:
            raise RuntimeError(
                f"to_sparse_csr: a matrix is kept by rows, not shape {tuple(self._array.shape)}; there is to_sparse()"
            )
        return apply(ops.KEEP, self.to_sparse(), by_rows=True)

    def _refused_layout(self, *args: Any, **options: Any) -> Any:
        """Refuse: by coordinates and by rows are the layouts there are."""
        raise NotImplementedError(
            "sparse columns and blocks (CSC, BSR, BSC) are absent; there are to_sparse() and to_sparse_csr()"
        )

    to_sparse_csc = to_sparse_bsr = to_sparse_bsc = ccol_indices = row_indices = _refused_layout

    def crow_indices(self) -> Tensor:
        """How many values of a matrix kept by rows lie before each row, and in all; see to_sparse_csr."""
        return new_tensor(self._rows("crow_indices").row_starts())

    def col_indices(self) -> Tensor:
        """The column of each value of a matrix kept by rows; see to_sparse_csr."""
        return new_tensor(self._rows("col_indices").indices[1])

    def _rows(self, name: str) -> Coo:
        if not self.is_sparse_csr:
            raise RuntimeError(f"{name}: expected a matrix kept by rows; write x.to_sparse_csr()")
        return self._coo(name)

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        """Every element of a sparse tensor, zeros included; a dense one as it is.   dx = g at its places

        >>> minitorch.tensor([[0.0, 2.0]]).to_sparse().to_dense()
        tensor([[0., 2.]])
        """
        x = self if dtype is None else cast(self, dtype)
        return apply(ops.TO_DENSE, x) if x._array.__class__ is Coo else x  # type: ignore[return-value]

    def coalesce(self) -> Tensor:
        """The same with every place once, in order: values of a place that was named twice are added.   dx = g

        >>> minitorch.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (3,)).coalesce().values()
        tensor([5.])
        """
        if self._coo("coalesce").coalesced:
            return self  # type: ignore[return-value]
        return apply(ops.COALESCE, self)

    def is_coalesced(self) -> bool:
        """Whether no place is named twice, and all are in order.

        >>> minitorch.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (3,)).is_coalesced()
        False
        """
        return bool(self._coo("is_coalesced").coalesced)

    def indices(self) -> Tensor:
        """The places of a coalesced sparse tensor: (sparse axes, n).

        >>> minitorch.tensor([0.0, 2.0]).to_sparse().indices()
        tensor([[1]])
        """
        if self.is_sparse_csr:
            raise RuntimeError("indices: kept by rows here; there are crow_indices() and col_indices()")
        self._expect_coalesced("indices")
        return self._indices()

    def values(self) -> Tensor:
        """The values of a coalesced sparse tensor: (n, …).   dx = g at its places

        >>> minitorch.tensor([0.0, 2.0]).to_sparse().values()
        tensor([2.])
        """
        self._expect_coalesced("values")
        return apply(ops.VALUES, self)

    def _indices(self) -> Tensor:
        return new_tensor(self._coo("_indices").indices)

    def _values(self) -> Tensor:
        return new_tensor(self._coo("_values").values)

    def _nnz(self) -> int:
        return int(self._coo("_nnz").indices.shape[1])

    def _coalesced_(self, coalesced: bool) -> Tensor:
        self._coo("_coalesced_").coalesced = bool(coalesced)
        return self  # type: ignore[return-value]

    def sparse_dim(self) -> int:
        """How many axes the indices name.

        >>> minitorch.eye(2).to_sparse().sparse_dim(), minitorch.eye(2).to_sparse(1).sparse_dim()
        (2, 1)
        """
        return int(self._array.sparse_axes) if self._array.__class__ is Coo else 0

    def dense_dim(self) -> int:
        """How many axes the values have.

        >>> minitorch.eye(2).to_sparse().dense_dim(), minitorch.eye(2).to_sparse(1).dense_dim()
        (0, 1)
        """
        axes = self._array.sparse_axes if self._array.__class__ is Coo else 0
        return int(self._array.ndim - axes)

    def sparse_mask(self, mask: Any) -> Tensor:
        """The elements at the places of a sparse tensor.   dx = g, dense

        >>> minitorch.tensor([1.0, 2.0]).sparse_mask(minitorch.tensor([0.0, 7.0]).to_sparse()).to_dense()
        tensor([0., 2.])
        """
        pattern = mask._coo("sparse_mask: mask")
        if pattern.shape != self._array.shape:
            raise RuntimeError(
                f"sparse_mask: shapes {self._array.shape} and {pattern.shape} must be the same"
            )
        return apply(ops.MASK, self, mask.detach())

    def _coo(self, name: str) -> Coo:
        """Return the sparse array inside."""
        refuse_to_record(name)
        if self._array.__class__ is not Coo:
            raise RuntimeError(f"{name}: expected a sparse tensor, this one is dense; write x.to_sparse()")
        return self._array

    def _expect_coalesced(self, name: str) -> None:
        if not self._coo(name).coalesced:
            raise RuntimeError(f"{name}: places may be named twice here; write x.coalesce().{name}()")


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A sparse tensor: values (n, …) at the places that the columns of indices (axes, n) name.   dvalues = g there

    >>> minitorch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    refuse_to_record("sparse_coo_tensor")
    if values is None:  # sparse_coo_tensor(size): zeros
        size, indices = tuple(indices), np.zeros((len(indices), 0), np.int64)
        values = np.zeros(0, np.dtype(dtype) if dtype is not None else np.float32)
    places = np.asarray(on_host(as_tensor(indices)._data)).astype(np.int64)
    if device is None and not isinstance(values, Node):
        device = default_device()
    held = as_tensor(values, dtype)
    if device is not None:
        held = held.to(device)
    places = places[None] if places.ndim == 1 else places
    if places.ndim != 2 or held.ndim < 1 or places.shape[1] != held._array.shape[0]:
        raise RuntimeError(
            f"sparse_coo_tensor: indices (axes, n) and values (n, …) do not fit: {places.shape} and "
            f"{tuple(held._array.shape)}"
        )
    dense = tuple(held._array.shape[1:])
    if size is None:
        shape = (*(int(n) for n in places.max(axis=1, initial=-1) + 1), *dense)
    else:
        shape = tuple(int(n) for n in size)
    if len(shape) != len(places) + len(dense) or shape[len(places) :] != dense:
        raise RuntimeError(
            f"sparse_coo_tensor: size {shape} needs {len(places)} sparse axes and dense ones {dense}"
        )
    if places.size and ((places < 0) | (places >= np.array(shape[: len(places)])[:, None])).any():
        raise RuntimeError(f"sparse_coo_tensor: an index is out of range for size {shape}")
    if requires_grad:  # a leaf
        held = held.detach()
    places = move(new_tensor(places), held.device)._data
    out = apply(ops.SPARSE, held, indices=places, shape=shape, coalesced=bool(is_coalesced))
    return out.requires_grad_() if requires_grad else out


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A matrix kept by rows: values in the order of rows, the column of each, and where each row begins.

    >>> sparse_csr_tensor([0, 1, 3], [1, 0, 1], [2.0, 3.0, 4.0]).to_dense()
    tensor([[0., 2.],
            [3., 4.]])
    """
    starts, columns = (
        np.asarray(on_host(as_tensor(each)._data)).astype(np.int64) for each in (crow_indices, col_indices)
    )
    if starts.ndim != 1 or not starts.size or starts[0] != 0 or starts[-1] != columns.size:
        raise RuntimeError("sparse_csr_tensor: crow_indices must lead from 0 to the number of values")
    if size is None:
        size = (len(starts) - 1, int(columns.max(initial=-1)) + 1)
    held = as_tensor(values, dtype).detach() if requires_grad else as_tensor(values, dtype)
    places = np.stack([np.repeat(np.arange(len(starts) - 1), np.diff(starts)), columns])
    made = sparse_coo_tensor(places, held, size, device=device)
    out = apply(ops.KEEP, made, by_rows=True)
    return out.requires_grad_() if requires_grad else out


def product(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product of two tensors of which one is sparse.   See Tensor.matmul"""
    refuse_to_record("matmul of sparse tensors")
    return apply(ops.PRODUCT, a, b)
