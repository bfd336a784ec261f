"""Tensor's linear algebra, in the spelling of torch.det, torch.qr, torch.svd; see linalg.py for torch.linalg's.

Enters: matrices or batches of them. Leaves: tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from minitorch.engine.record import apply, apply_many
from minitorch.ops import linalg as ops
from minitorch.tensor.convert import to_floating
from minitorch.tensor.methods.elementwise import select
from minitorch.tensor.methods.families import Families

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Slogdet(NamedTuple):
    """The sign and the logarithm of a determinant."""

    sign: Tensor
    logabsdet: Tensor


class QR(NamedTuple):
    """Orthonormal columns and an upper triangle."""

    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    """A = U diag(S) Vᵀ."""

    U: Tensor
    S: Tensor
    V: Tensor


class LinearAlgebra(Families):
    """Inverses, determinants, factorisations."""

    __slots__ = ()

    def inverse(self) -> Tensor:
        """A⁻¹.   dA = -A⁻ᵀ g A⁻ᵀ

        >>> minitorch.tensor([[2.0, 0.0], [0.0, 4.0]]).inverse()
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
        """
        return apply(ops.INV, to_floating(self))

    def pinverse(self) -> Tensor:
        """The pseudo-inverse; its derivative assumes that the rank does not change.

        >>> minitorch.ones(3, 2).pinverse().shape
        (2, 3)
        """
        return apply(ops.PINV, to_floating(self), rtol=None, atol=None, hermitian=False)

    def det(self) -> Tensor:
        """The determinant.   dA = g·det(A)·A⁻ᵀ, the cofactors, right for singular A too

        >>> minitorch.tensor([[2.0, 0.0], [0.0, 4.0]]).det()
        tensor(8.)
        """
        return apply(ops.DET, to_floating(self))

    def slogdet(self) -> Slogdet:
        """The determinant's sign and log|det|, which neither overflows nor underflows.   dA = g·A⁻ᵀ

        >>> minitorch.tensor([[2.0, 0.0], [0.0, 4.0]]).slogdet().logabsdet
        tensor(2.0794)
        """
        x = to_floating(self)
        return Slogdet(apply(ops.DET_SIGN, x), apply(ops.LOGABSDET, x))

    def logdet(self) -> Tensor:
        """The determinant's logarithm; nan where it is negative.   dA = g·A⁻ᵀ

        >>> minitorch.tensor([[2.0, 0.0], [0.0, 4.0]]).logdet()
        tensor(2.0794)
        """
        sign, size = self.slogdet()
        return select(sign < 0, np.nan, size)

    def cholesky(self, upper: bool = False) -> Tensor:
        """The lower triangle L with L Lᵀ = A, for a symmetric positive definite A.

        >>> minitorch.tensor([[4.0, 2.0], [2.0, 5.0]]).cholesky()
        tensor([[2., 0.],
                [1., 2.]])
        """
        return apply(ops.CHOLESKY, to_floating(self), upper=upper)

    def qr(self, some: bool = True) -> QR:
        """Q with orthonormal columns and R upper triangular, Q R = A; with some=False Q is square.

        >>> minitorch.tensor([[3.0, 1.0], [4.0, 2.0]]).qr().R.abs()
        tensor([[5.0000, 2.2000],
                [0.0000, 0.4000]])
        """
        return QR(*apply_many(ops.QR, to_floating(self), mode="reduced" if some else "complete"))

    def svd(self, some: bool = True, compute_uv: bool = True) -> SVD:
        """U, S, V with A = U diag(S) Vᵀ, singular values descending; linalg.svd gives Vᵀ instead.

        >>> minitorch.tensor([[3.0, 0.0], [0.0, 4.0]]).svd().S
        tensor([4., 3.])
        """
        if not compute_uv:
            raise RuntimeError("svd: for the singular values alone write linalg.svdvals(x)")
        u, s, vh = apply_many(ops.SVD, to_floating(self), full_matrices=not some)
        return SVD(u, s, vh.swapaxes(-1, -2))

    def trace(self) -> Tensor:
        """The sum of a matrix's diagonal.   dA = g on the diagonal, 0 elsewhere

        >>> minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]).trace()
        tensor(5.)
        """
        if self._data.ndim != 2:
            raise RuntimeError(
                f"trace: expects a matrix, got shape {self._data.shape}; write x.diagonal(0, -2, -1).sum(-1)"
            )
        return apply(ops.TRACE, self)
