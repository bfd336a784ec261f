"""minitorch.linalg: solving, inverting, decomposing. Enters: matrices or batches of them. Leaves: Tensors.

A batch is any number of leading axes. Derivatives are for real matrices; a decomposition's derivative
needs distinct eigenvalues or singular values where its vectors are used.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from minitorch.engine.record import apply, apply_many
from minitorch.ops import linalg as ops
from minitorch.ops.linalg import LinAlgError as LinAlgError
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor, one_axis, promoted, to_floating
from minitorch.tensor.methods.contract import matmul
from minitorch.tensor.methods.linalg import QR, Slogdet
from minitorch.tensor.methods.matrices import (
    cholesky_ex,
    cross,
    diagonal,
    householder_product,
    inv_ex,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    matrix_exp,
    matrix_power,
    matrix_rank,
    multi_dot,
    solve_ex,
    tensorinv,
    tensorsolve,
    vander,
    vecdot,
)
from minitorch.tensor.methods.reduce import nuclear_norm
from minitorch.tensor.protocols import implements


class Eigh(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVD(NamedTuple):
    """A = U diag(S) Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class Lstsq(NamedTuple):
    """The least-squares solution, and what is known of the fit (empty where the driver does not compute it)."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def inv(A: Any) -> Tensor:
    """The inverse A⁻¹.   dA = -A⁻ᵀ g A⁻ᵀ

    >>> inv(as_tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return as_tensor(A).inverse()


def solve(A: Any, B: Any, *, left: bool = True) -> Tensor:
    """X with A X = B (or X A = B with left=False).   dB = A⁻ᵀ g, dA = -dB Xᵀ

    >>> solve(as_tensor([[2.0, 0.0], [0.0, 4.0]]), as_tensor([2.0, 4.0]))
    tensor([1., 1.])
    """
    a, b = promoted(to_floating(as_tensor(A)), to_floating(as_tensor(B)))
    return apply(ops.SOLVE, a, b, left=left)


def solve_triangular(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X with A X = B for a triangular A, of which only that triangle is read.

    >>> solve_triangular(as_tensor([[2.0, 9.0], [1.0, 4.0]]), as_tensor([[2.0], [5.0]]), upper=False)
    tensor([[1.],
            [1.]])
    """
    a, b = promoted(to_floating(as_tensor(A)), to_floating(as_tensor(B)))
    return apply(ops.TRIANGULAR_SOLVE, a, b, upper=upper, left=left, unitriangular=unitriangular)


def det(A: Any) -> Tensor:
    """The determinant.   dA = g·det(A)·A⁻ᵀ, the cofactors, right for singular A too

    >>> det(as_tensor([[1.0, 2.0], [3.0, 4.0]])).round(decimals=4)
    tensor(-2.)
    """
    return as_tensor(A).det()


def slogdet(A: Any) -> Slogdet:
    """The determinant's sign and log|det|, which neither overflows nor underflows.   dA = g·A⁻ᵀ

    >>> slogdet(as_tensor([[2.0, 0.0], [0.0, 4.0]])).logabsdet
    tensor(2.0794)
    """
    return as_tensor(A).slogdet()


def cholesky(A: Any, *, upper: bool = False) -> Tensor:
    """The lower triangle L with L Lᵀ = A, for a symmetric positive definite A.

    >>> cholesky(as_tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return as_tensor(A).cholesky(upper)


def qr(A: Any, mode: str = "reduced") -> QR:
    """Q with orthonormal columns and R upper triangular, Q R = A; mode 'reduced', 'complete' or 'r'.

    >>> qr(as_tensor([[3.0, 1.0], [4.0, 2.0]])).R.abs()
    tensor([[5.0000, 2.2000],
            [0.0000, 0.4000]])
    """
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr: mode must be 'reduced', 'complete' or 'r', got {mode!r}")
    return QR(*apply_many(ops.QR, to_floating(as_tensor(A)), mode=mode))


def eigh(A: Any, UPLO: str = "L") -> Eigh:
    """Eigenvalues and eigenvectors of a symmetric matrix, of which one triangle is read.

    >>> eigh(as_tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    return Eigh(*apply_many(ops.EIGH, to_floating(as_tensor(A)), uplo=str(UPLO).upper()))


def eigvalsh(A: Any, UPLO: str = "L") -> Tensor:
    """Eigenvalues of a symmetric matrix, ascending.   dA = V diag(g) Vᵀ

    >>> eigvalsh(as_tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([1., 2.])
    """
    return apply(ops.EIGVALSH, to_floating(as_tensor(A)), uplo=str(UPLO).upper())


def svd(A: Any, full_matrices: bool = True) -> SVD:
    """U, S, Vh with A = U diag(S) Vh, singular values descending.

    >>> svd(as_tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """
    return SVD(*apply_many(ops.SVD, to_floating(as_tensor(A)), full_matrices=full_matrices))


def svdvals(A: Any) -> Tensor:
    """Singular values, descending.   dA = U diag(g) Vᵀ

    >>> svdvals(as_tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor([4., 3.])
    """
    return apply(ops.SVDVALS, to_floating(as_tensor(A)))


def pinv(A: Any, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> Tensor:
    """The pseudo-inverse; its derivative assumes that the rank does not change.

    >>> pinv(as_tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])).shape
    (2, 3)
    """
    return apply(ops.PINV, to_floating(as_tensor(A)), rtol=rtol, atol=atol, hermitian=hermitian)


def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> Lstsq:
    """The X that makes ‖A X - B‖ smallest.

    driver: 'gels', 'gelsy' (the default), 'gelsd' or 'gelss': all but gelsy report residuals, of tall matrices of
    full rank; the last two singular values. All are computed here by the pseudo-inverse.

    >>> lstsq(as_tensor([[1.0], [1.0]]), as_tensor([[1.0], [4.0]])).solution
    tensor([[2.5000]])
    """
    a, b = promoted(to_floating(as_tensor(A)), to_floating(as_tensor(B)))
    vectors = b.ndim == 1 or b.shape == a.shape[:-1]  # one right-hand side each, as in solve
    if a.ndim < 2 or a.shape[-2] != (b.shape[-1] if vectors else b.shape[-2]):
        raise RuntimeError(
            f"lstsq: equations of shape {a.shape} need as many right-hand sides, got {b.shape}"
        )
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"lstsq: driver must be 'gels', 'gelsy', 'gelsd' or 'gelss', got {driver!r}")
    right = b.unsqueeze(-1) if vectors else b
    solution = matmul(pinv(a, rtol=rcond), right)
    rank = matrix_rank(a, rtol=rcond)
    rows, columns = a.shape[-2:]
    nothing = as_tensor(np.zeros(0, a.dtype))
    residuals = nothing
    if (
        driver not in (None, "gelsy")
        and rows > columns
        and (driver == "gels" or bool((rank == columns).all()))
    ):
        residuals = (matmul(a, solution) - right).square().sum(-2)
    return Lstsq(
        solution.squeeze(-1) if vectors else solution,
        residuals,
        as_tensor(np.zeros(0, np.int64)) if driver == "gels" else rank,
        svdvals(a.detach()) if driver in ("gelsd", "gelss") else nothing,
    )


def cond(A: Any, p: Any = None) -> Tensor:
    """The condition number ‖A‖·‖A⁻¹‖ in a matrix norm, for 2 (and None) the ratio of singular values.

    >>> cond(as_tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(2.)
    """
    x = to_floating(as_tensor(A))
    if p in (None, 2, -2):
        values = svdvals(x)
        if not values.shape[-1]:
            return values.sum(-1)
        largest, smallest = values.amax(-1), values.amin(-1)
        return smallest / largest if p == -2 else largest / smallest
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise RuntimeError(f"cond: p = {p!r} needs square matrices, got shape {x.shape}")
    inverse, info = inv_ex(x)
    product = matrix_norm(x, p) * matrix_norm(inverse, p)
    return product.masked_fill(info != 0, math.inf) if x.numel() else product


def vector_norm(
    x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """(Σ |x|ᵖ)^{1/p} over `dim`, or of all elements.

    >>> vector_norm(as_tensor([3.0, 4.0]))
    tensor(5.)
    """
    if not isinstance(ord, (int, float)):
        raise TypeError(f"vector_norm: ord must be a number, got {ord!r}; a matrix has 'fro' and 'nuc'")
    return as_tensor(x).norm(ord, dim, keepdim, dtype=dtype)


def matrix_norm(
    A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """A matrix's norm: 'fro', 'nuc', or 1, -1, 2, -2, inf, -inf.

    >>> matrix_norm(as_tensor([[3.0, 0.0], [0.0, 4.0]]), 2)
    tensor(4.)
    """
    x = to_floating(as_tensor(A, dtype))
    if x.ndim < 2:
        raise RuntimeError(f"matrix_norm: expects matrices, got shape {x.shape}")
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise TypeError(f"matrix_norm: dim must be two axes, got {dim!r}")
    rows, columns = (one_axis(a, x.ndim, "matrix_norm") for a in dim)
    if rows == columns:
        raise RuntimeError(f"matrix_norm: dim must be two different axes, got {dim}")
    if ord == "fro" or (ord in (1, 2, math.inf) and 0 in (x.shape[rows], x.shape[columns])):
        return x.norm(2, (rows, columns), keepdim)  # an empty matrix has norm 0
    if ord in (1, -1, math.inf, -math.inf):
        # The largest (or smallest) sum of sizes over columns (1) or rows (inf).
        summed, over = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = x.abs().sum(axis=summed, keepdims=True)
        found = sums.amax(axis=over, keepdims=True) if ord > 0 else sums.amin(axis=over, keepdims=True)
    elif ord == "nuc":
        return nuclear_norm(x, (rows, columns), keepdim)
    elif ord in (2, -2):
        values = svdvals(x.movedim((rows, columns), (-2, -1)))
        found = values.amax(axis=-1) if ord > 0 else values.amin(axis=-1)
        for axis in sorted((rows, columns)):
            found = found.unsqueeze(axis)
    else:
        raise RuntimeError(f"matrix_norm: ord must be 'fro', 'nuc', ±1, ±2 or ±inf, got {ord!r}")
    return found if keepdim else found.squeeze((rows, columns))


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """A vector's norm, or a matrix's when two axes (or a matrix and an `ord`) are given.

    >>> norm(as_tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    x = as_tensor(A)
    pair = isinstance(dim, (tuple, list)) and len(dim) == 2
    if ord is not None and (pair or (dim is None and x.ndim == 2)):
        return matrix_norm(x, ord, dim if dim is not None else (-2, -1), keepdim, dtype=dtype)
    if ord is not None and dim is None and x.ndim != 1:
        raise RuntimeError(f"norm: with ord and no dim x must be a vector or a matrix, got shape {x.shape}")
    if isinstance(ord, str):
        raise RuntimeError(f"norm: ord {ord!r} is for matrices; give two axes by dim, got {dim!r}")
    return vector_norm(x, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def trace(A: Any) -> Tensor:
    """Sum each matrix's diagonal.   dA = g on the diagonal

    >>> trace(as_tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    return apply(ops.TRACE, as_tensor(A))


for _function in (inv, solve, det, slogdet, cholesky, qr, eigh, eigvalsh, svd, pinv, matrix_power):
    implements(getattr(np.linalg, _function.__name__))(_function)
implements(np.linalg.norm)(lambda x, ord=None, axis=None, keepdims=False: norm(x, ord, axis, keepdims))

__all__ = [
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vander",
    "vecdot",
    "vector_norm",
]  # fmt: skip
