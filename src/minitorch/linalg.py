"""minitorch.linalg: solving, inverting, decomposing. Enters: matrices or batches of them. Leaves: Tensors.

A batch is any number of leading axes. Derivatives are for real matrices; a decomposition's derivative
needs distinct eigenvalues or singular values where its vectors are used.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from minitorch.engine.complex import meet_complex
from minitorch.engine.gpu import on_host
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply, apply_many
from minitorch.ops import linalg as ops
from minitorch.ops.linalg import LinAlgError as LinAlgError
from minitorch.tensor import Tensor
from minitorch.tensor.convert import (
    as_tensor,
    cast,
    choose,
    one_axis,
    one_int,
    promoted,
    tensor_for,
    to_floating,
)
from minitorch.tensor.methods.arguments import as_row
from minitorch.tensor.methods.comparison import where
from minitorch.tensor.methods.linalg import (
    LU,
    QR,
    Slogdet,
    as_matrices,
    as_squares,
    first_zero,
    identity,
    lu_in_one,
    lu_solution,
    lu_unpack,
)
from minitorch.tensor.methods.products import matmul, multiply_chain, powers_of
from minitorch.tensor.methods.public import with_out
from minitorch.tensor.methods.reductions import nuclear_norm
from minitorch.tensor.precision import in_lower_precision
from minitorch.tensor.protocols import implements
from minitorch.tensor.return_types import shown_as


@shown_as("linalg_eig")
class Eig(NamedTuple):
    """Eigenvalues in no order, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@shown_as("linalg_eigh")
class Eigh(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@shown_as("linalg_svd")
class SVD(NamedTuple):
    """A = U diag(S) Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@shown_as("linalg_lstsq")
class Lstsq(NamedTuple):
    """The least-squares solution, and what is known of the fit (empty where the driver does not compute it)."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@shown_as("linalg_lu_factor")
class LUFactor(NamedTuple):
    """L and U in one matrix, and the exchanges of rows, counted from 1."""

    LU: Tensor
    pivots: Tensor


@shown_as("linalg_lu_factor_ex")
class LUFactorEx(NamedTuple):
    """L and U in one matrix, the exchanges of rows, and which pivot is 0 (0: none)."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


@shown_as("linalg_cholesky_ex")
class CholeskyEx(NamedTuple):
    """The factor, and the order of the first leading block that is not positive definite (0: none)."""

    L: Tensor
    info: Tensor


@shown_as("linalg_inv_ex")
class InvEx(NamedTuple):
    """The inverse, and which pivot is 0 (0: none)."""

    inverse: Tensor
    info: Tensor


@shown_as("linalg_solve_ex")
class SolveEx(NamedTuple):
    """The solution, and which pivot is 0 (0: none)."""

    result: Tensor
    info: Tensor


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


def eig(A: Any) -> Eig:
    """Eigenvalues, in no order, and eigenvectors of length 1 as columns, of any square matrix: complex numbers.

    >>> eig(as_tensor([[2.0, 1.0], [0.0, 1.0]])).eigenvalues
    tensor([2.+0.j, 1.+0.j])
    """
    meet_complex()
    return Eig(*apply_many(ops.EIG, to_floating(as_tensor(A))))


def eigvals(A: Any) -> Tensor:
    """Eigenvalues of any square matrix, in no order: complex numbers.   dA = V⁻ᴴ diag(g) Vᴴ

    >>> eigvals(as_tensor([[0.0, -1.0], [1.0, 0.0]]))
    tensor([0.+1.j, 0.-1.j])
    """
    meet_complex()
    return apply(ops.EIGVALS, to_floating(as_tensor(A)))


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


def pinv(A: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Tensor:
    """The pseudo-inverse; its derivative assumes that the rank does not change.

    >>> pinv(as_tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])).shape
    (2, 3)
    """
    # A tolerance may be a tensor, with a number for each matrix; beside the singular values it stands in a row.
    relative, absolute = (t._data[..., None] if isinstance(t, Tensor) else t for t in (rtol, atol))
    return apply(ops.PINV, to_floating(as_tensor(A)), rtol=relative, atol=absolute, hermitian=hermitian)


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
    nothing = a.new_zeros(0)
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
        a.new_zeros(0, dtype=np.int64) if driver == "gels" else rank,
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


# --- LU ------------------------------------------------------------------------------------------


def lu_factor(A: Any, *, pivot: bool = True) -> LUFactor:
    """L and U in one matrix (L's diagonal of ones left out), and which rows were exchanged.

    >>> lu_factor(minitorch.tensor([[4.0, 3.0], [2.0, 1.0]])).LU
    tensor([[ 4.0000,  3.0000],
            [ 0.5000, -0.5000]])
    """
    return LUFactor(*lu_in_one(as_matrices(A, "lu_factor"), pivot))


def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:
    """LU and pivots as lu_factor gives them, and which pivot is 0 (0: none).

    >>> lu_factor_ex(minitorch.tensor([[4.0, 3.0], [2.0, 1.0]])).info
    tensor(0, dtype=int32)
    """
    both, pivots = lu_factor(A, pivot=pivot)
    return LUFactorEx(both, pivots, first_zero(both, check_errors, "lu_factor_ex"))


def lu(A: Any, *, pivot: bool = True) -> LU:
    """P L U = A: a permutation, a lower triangle with ones on its diagonal, an upper triangle.

    >>> lu(minitorch.tensor([[2.0, 1.0], [4.0, 3.0]])).U
    tensor([[ 4.0000,  3.0000],
            [ 0.0000, -0.5000]])
    """
    return lu_unpack(*lu_in_one(as_matrices(A, "lu"), pivot))


def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with A X = B (X A = B with left=False, Aᴴ in A's place with adjoint), given A's factors.

    >>> factored = lu_factor(minitorch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> lu_solve(*factored, minitorch.tensor([[2.0], [4.0]]))
    tensor([[1.],
            [1.]])
    """
    return lu_solution(LU, pivots, B, left, adjoint)


# --- with a report instead of an error -----------------------------------------------------------


def inv_ex(A: Any, *, check_errors: bool = False) -> InvEx:
    """The inverse, and instead of an error which pivot is 0 (0: none); such a matrix gets nan.

    >>> inv_ex(minitorch.tensor([[0.0]])).info
    tensor(1, dtype=int32)
    """
    x = as_squares(A, "inv_ex")
    info = _singular(x, check_errors, "inv_ex")
    safe, wrong = _made_regular(x, info)
    return InvEx(where(wrong, math.nan, apply(ops.INV, safe)), info)


def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> SolveEx:
    """X with A X = B, and instead of an error which pivot is 0 (0: none); such a system gets nan.

    >>> solve_ex(minitorch.tensor([[2.0]]), minitorch.tensor([[4.0]])).result
    tensor([[2.]])
    """
    a, b = promoted(as_squares(A, "solve_ex"), to_floating(tensor_for(B, "solve_ex")))
    info = _singular(a, check_errors, "solve_ex")
    safe, wrong = _made_regular(a, info)
    result = apply(ops.SOLVE, safe, b, left=left)
    if result.ndim < a.ndim:
        wrong = wrong.squeeze(-1)
    return SolveEx(where(wrong, math.nan, result), info)


def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """The Cholesky factor, and instead of an error which leading block is not positive definite (0: none).

    >>> cholesky_ex(minitorch.tensor([[4.0]]))
    CholeskyEx(L=tensor([[2.]]), info=tensor(0, dtype=int32))
    """
    x = as_squares(A, "cholesky_ex")
    values = x.new_zeros(x.shape[:-2], dtype=np.int32)
    for order in range(x.shape[-1], 0, -1):  # the first block whose eigenvalues are not all positive
        block = x.detach()[..., :order, :order]
        bad = apply(ops.EIGVALSH, block, uplo="U" if upper else "L").amin(-1) <= 0
        values = cast(where(bad, order, values), np.int32)
    if check_errors and bool((values != 0).any()):
        raise ops.LinAlgError("cholesky_ex: a matrix is not positive definite")
    safe, wrong = _made_regular(x, values)
    return CholeskyEx(where(wrong, math.nan, apply(ops.CHOLESKY, safe, upper=upper)), values)


def _singular(x: Tensor, check_errors: bool, name: str) -> Tensor:
    both, _ = lu_in_one(x.detach(), True)
    return first_zero(both, check_errors, name)


def _made_regular(x: Tensor, info: Tensor) -> tuple[Tensor, Tensor]:
    wrong = (info != 0).unsqueeze(-1).unsqueeze(-1)
    return where(wrong, identity(x.shape[-1], x.shape[-1], x), x), wrong


# --- products and powers -------------------------------------------------------------------------


def matrix_exp(A: Any) -> Tensor:
    """e^A = I + A + A²/2 + A³/6 + …   See Tensor.matrix_exp

    >>> matrix_exp(minitorch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return tensor_for(A, "matrix_exp").matrix_exp()


def matrix_power(A: Any, n: int) -> Tensor:
    """A multiplied by itself n times; the inverse's power for negative n.

    >>> matrix_power(minitorch.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    return tensor_for(A, "matrix_power").matrix_power(n)


def householder_product(A: Any, tau: Any) -> Tensor:
    """The first columns of a product of reflections I - τᵢ·vᵢ·vᵢᴴ, with vᵢ below A's diagonal: Tensor.orgqr.

    >>> householder_product(minitorch.tensor([[1.0], [0.0]]), minitorch.tensor([2.0]))
    tensor([[-1.],
            [ 0.]])
    """
    return tensor_for(A, "householder_product").orgqr(tau)


class _Ldl(NamedTuple):
    """L and D in one matrix, and LAPACK's list of exchanged rows."""

    LD: Tensor
    pivots: Tensor


class _LdlEx(NamedTuple):
    LD: Tensor
    pivots: Tensor
    info: Tensor


def ldl_factor_ex(A: Any, *, hermitian: bool = False, check_errors: bool = False) -> _LdlEx:
    """ldl_factor, which tells a failure by a number instead of an error."""
    x = tensor_for(A, "ldl_factor")
    if x.requires_grad:
        raise RuntimeError(
            "derivative for aten::linalg_ldl_factor_ex is not implemented; linalg.solve has one"
        )
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise RuntimeError(f"ldl_factor: expects square matrices, got shape {tuple(x.shape)}")
    array = on_host(x._data)
    factor = _lapack("hetrf" if hermitian and array.dtype.kind == "c" else "sytrf", array.dtype)
    flat = array.reshape(math.prod(array.shape[:-2]), *array.shape[-2:])
    found = [factor(each, lower=1) for each in flat] if array.size else []
    ld = np.stack([np.tril(f[0]) for f in found]) if found else np.zeros_like(flat)
    pivots = np.array([f[1] for f in found], np.int32).reshape(array.shape[:-1])
    info = np.array([f[2] for f in found] if found else [0] * len(flat), np.int32).reshape(array.shape[:-2])
    if check_errors and info.any():
        raise LinAlgError("ldl_factor: the matrix is singular")
    return _LdlEx(*(new_tensor(each).to(x.device) for each in (ld.reshape(array.shape), pivots, info)))


def ldl_factor(A: Any, *, hermitian: bool = False) -> _Ldl:
    """A symmetric matrix as P·L·D·Lᵀ·Pᵀ, in LAPACK's form, for ldl_solve. It has no derivative.

    >>> ldl_solve(*ldl_factor(minitorch.tensor([[2.0, 1.0], [1.0, 3.0]])), minitorch.tensor([[4.0], [7.0]]))
    tensor([[1.],
            [2.]])
    """
    return _Ldl(*ldl_factor_ex(A, hermitian=hermitian, check_errors=True)[:2])


def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Tensor:
    """X of A X = B, by ldl_factor's form of A. It has no derivative."""
    factors, right = tensor_for(LD, "ldl_solve"), tensor_for(B, "ldl_solve")
    if factors.requires_grad or right.requires_grad:
        raise RuntimeError("ldl_solve: has no derivative here; linalg.solve(A, B) has one")
    a, b = on_host(factors._data), on_host(right._data)
    solve_one = _lapack("hetrs" if hermitian and a.dtype.kind == "c" else "sytrs", a.dtype)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    where = np.broadcast_to(on_host(tensor_for(pivots, "ldl_solve")._data), a.shape[:-1])
    b = np.broadcast_to(b, (*batch, *b.shape[-2:]))
    out = np.empty(b.shape, b.dtype)
    for at in np.ndindex(*batch):
        out[at] = solve_one(a[at], where[at], b[at], lower=1)[0]
    return new_tensor(out).to(right.device)


def _lapack(name: str, dtype: Any) -> Any:
    import scipy.linalg  # at first use

    return scipy.linalg.get_lapack_funcs((name,), dtype=dtype)[0]


def multi_dot(tensors: Any) -> Tensor:
    """The product of several matrices in the cheapest order; the first and the last may be vectors.

    >>> multi_dot([minitorch.tensor([1.0, 2.0]), minitorch.tensor([[3.0], [4.0]])])
    tensor([11.])
    """
    parts = promoted(*(tensor_for(t, "multi_dot") for t in tensors))
    if len(parts) < 2:
        raise RuntimeError(f"multi_dot: expects at least two tensors, got {len(parts)}")
    first, last = parts[0].ndim == 1, parts[-1].ndim == 1
    parts[0] = parts[0].unsqueeze(0) if first else parts[0]
    parts[-1] = parts[-1].unsqueeze(1) if last else parts[-1]
    product = multiply_chain(parts, "multi_dot")
    product = product.squeeze(-1) if last else product
    return product.squeeze(0) if first else product


@in_lower_precision
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Tensor:
    """Σ xᵢ·yᵢ along an axis, x conjugated.   dx = g·y, dy = g·x

    >>> vecdot(minitorch.tensor([1.0, 2.0]), minitorch.tensor([3.0, 4.0]))
    tensor(11.)
    """
    product = tensor_for(x, "vecdot").conj() * as_tensor(y)
    return cast(product.sum(dim), product._data.dtype)


def cross(input: Any, other: Any, *, dim: int = -1) -> Tensor:
    """x × y along an axis of length 3, the other axes broadcast.

    >>> cross(minitorch.tensor([1.0, 0.0, 0.0]), minitorch.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    x, y = tensor_for(input, "cross"), tensor_for(other, "cross")
    return x.cross(y, dim=dim)


def vander(x: Any, *, N: int | None = None) -> Tensor:
    """x⁰ … xᴺ⁻¹ of each element, as rows.

    >>> vander(minitorch.tensor([2.0]), N=3)
    tensor([[1., 2., 4.]])
    """
    base = tensor_for(x, "vander")
    base = as_row(base)
    return powers_of(base, base.shape[-1] if N is None else N, "vander")


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of each matrix, as a view.

    >>> diagonal(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 4.])
    """
    return tensor_for(A, "diagonal").diagonal(offset, dim1, dim2)


# --- ranks, and equations between tensors --------------------------------------------------------


def matrix_rank(
    A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """How many singular values lie above max(atol, rtol·the largest).

    >>> matrix_rank(minitorch.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    x = as_matrices(A, "matrix_rank").detach()
    values = apply(ops.EIGVALSH, x, uplo="L").abs() if hermitian else apply(ops.SVDVALS, x)
    if not values.shape[-1]:
        return values.new_zeros(values.shape[:-1], dtype=np.int64)
    floor = choose(atol, tol, "atol and tol")
    if rtol is None:
        given = floor is not None and bool(as_tensor(floor > 0).all())
        rtol = 0.0 if given else max(x.shape[-2:]) * float(np.finfo(x._data.dtype).eps)
    limit = values.amax(-1) * rtol
    above = values > limit.unsqueeze(-1)
    if floor is not None:
        above = above & (values > (as_tensor(floor).unsqueeze(-1) if isinstance(floor, Node) else floor))
    return above.sum(-1)


def tensorinv(A: Any, ind: int = 2) -> Tensor:
    """The inverse of tensordot with A over its last axes: axes before and after `ind` exchanged.

    >>> tensorinv(minitorch.eye(4).reshape(2, 2, 4), ind=2).shape
    (4, 2, 2)
    """
    x = tensor_for(A, "tensorinv")
    ind = one_int(ind, "tensorinv", "ind")
    before, after = x.shape[:ind], x.shape[ind:]
    if ind < 1 or math.prod(before) != math.prod(after):
        raise RuntimeError(f"tensorinv: shape {x.shape} at ind {ind} makes no square matrix")
    return apply(ops.INV, to_floating(x).reshape(math.prod(before), -1)).reshape(after + before)


def tensorsolve(A: Any, B: Any, dims: Any = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B; `dims` of A are moved to its end first.

    >>> tensorsolve(minitorch.eye(4).reshape(2, 2, 4), minitorch.ones(2, 2))
    tensor([1., 1., 1., 1.])
    """
    a, b = promoted(to_floating(tensor_for(A, "tensorsolve")), to_floating(tensor_for(B, "tensorsolve")))
    if dims is not None:
        axes = tuple(one_axis(d, a.ndim, "tensorsolve") for d in dims)
        a = a.movedim(axes, tuple(range(a.ndim - len(axes), a.ndim)))
    shape = a.shape[b.ndim :]
    if b.numel() != math.prod(shape):
        raise RuntimeError(
            f"tensorsolve: A of shape {a.shape} and B of shape {b.shape} make no square system"
        )
    matrix = a.reshape(b.numel(), math.prod(shape))
    return apply(ops.SOLVE, matrix, b.reshape(-1), left=True).reshape(shape)


for _function in (
    inv,
    solve,
    det,
    slogdet,
    cholesky,
    qr,
    eig,
    eigvals,
    eigh,
    eigvalsh,
    svd,
    pinv,
    matrix_power,
):
    implements(getattr(np.linalg, _function.__name__))(_function)
implements(np.linalg.norm)(lambda x, ord=None, axis=None, keepdims=False: norm(x, ord, axis, keepdims))

__all__ = [
    "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh",
    "householder_product", "inv", "inv_ex",
    "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve",
    "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr",
    "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve",
    "trace", "vander", "vecdot", "vector_norm",
]  # fmt: skip
# Last, so that nothing above is written for it: `out=`, as PyTorch's have.
globals().update({name: with_out(globals()[name]) for name in __all__})
