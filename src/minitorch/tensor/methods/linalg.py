"""Linear algebra in the spelling of torch.det, torch.qr, torch.lu; minitorch/linalg.py has torch.linalg's.

Enters: matrices or batches of them. Leaves: tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minitorch.engine.dtypes import int64
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply, apply_many
from minitorch.ops import linalg as ops
from minitorch.tensor.convert import as_tensor, cast, one_int, promoted, tensor_for, to_floating
from minitorch.tensor.methods.comparison import where
from minitorch.tensor.methods.joining import cat
from minitorch.tensor.methods.products import matmul
from minitorch.tensor.methods.public import function
from minitorch.tensor.precision import in_float32
from minitorch.tensor.return_types import shown_as

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


@shown_as("linalg_slogdet")
class Slogdet(NamedTuple):
    """The sign and the logarithm of a determinant."""

    sign: Tensor
    logabsdet: Tensor


@shown_as("linalg_qr")
class QR(NamedTuple):
    """Orthonormal columns and an upper triangle."""

    Q: Tensor
    R: Tensor


@shown_as("svd")
class SVD(NamedTuple):
    """A = U diag(S) Vᵀ."""

    U: Tensor
    S: Tensor
    V: Tensor


@shown_as("linalg_lu")
class LU(NamedTuple):
    """P L U = A."""

    P: Tensor
    L: Tensor
    U: Tensor


@shown_as("triangular_solve")
class TriangularSolve(NamedTuple):
    """The solution, and a copy of the triangle."""

    solution: Tensor
    cloned_coefficient: Tensor


class LinearAlgebra(Node):
    """Inverses, determinants, factorisations, solutions."""

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
        return where(sign < 0, np.nan, size)

    @in_float32
    def trace(self) -> Tensor:
        """The sum of a matrix's diagonal.   dA = g on the diagonal, 0 elsewhere

        >>> minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]).trace()
        tensor(5.)
        """
        if self._array.ndim != 2:
            raise RuntimeError(
                f"trace: expects a matrix, got shape {self._data.shape}; write x.diagonal(0, -2, -1).sum(-1)"
            )
        return apply(ops.TRACE, cast(self, int64) if self._array.dtype.kind in "biu" else self)

    # --- factorisations --------------------------------------------------------------------------

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

    def lu(self, pivot: bool = True, get_infos: bool = False) -> Any:
        """L and U in one matrix, and the exchanges of rows; linalg.lu gives P, L and U.

        >>> minitorch.tensor([[4.0, 3.0], [2.0, 1.0]]).lu()[1]
        tensor([1, 2], dtype=int32)
        """
        both, pivots = lu_in_one(as_matrices(self, "lu"), pivot)
        return (both, pivots, first_zero(both, False, "lu")) if get_infos else (both, pivots)

    def orgqr(self, tau: Any) -> Tensor:
        """The first columns of a product of reflections I - τᵢ·vᵢ·vᵢᴴ, with vᵢ below A's diagonal.

        >>> orgqr(minitorch.tensor([[1.0], [0.0]]), minitorch.tensor([2.0]))
        tensor([[-1.],
                [ 0.]])
        """
        x, scale = promoted(as_matrices(self, "orgqr"), to_floating(tensor_for(tau, "orgqr")))
        rows, columns = x.shape[-2:]
        if rows < columns or scale.shape[:-1] != x.shape[:-2] or scale.shape[-1] > columns:
            raise RuntimeError(f"orgqr: A of shape {x.shape} and tau of shape {scale.shape} do not fit")
        result = identity(rows, columns, x).broadcast_to(x.shape)
        if not scale.shape[-1]:
            return (
                where(True, result, x) + scale.sum(-1)[..., None, None]
            )  # both take part, with gradients of 0
        vectors = x.tril(-1) + identity(rows, columns, x)
        for i in range(scale.shape[-1] - 1, -1, -1):
            v = vectors[..., i : i + 1]
            result = result - scale[..., i, None, None] * matmul(v, matmul(v.mH, result))
        return result

    # --- solutions, given factors ----------------------------------------------------------------

    def lu_solve(self, LU_data: Any, LU_pivots: Any) -> Tensor:
        """X with A X = b, given A's factors; linalg.lu_solve takes the factors first.

        >>> minitorch.tensor([[2.0]]).lu_solve(*minitorch.tensor([[4.0]]).lu())
        tensor([[0.5000]])
        """
        return lu_solution(LU_data, LU_pivots, self)

    def cholesky_solve(self, L: Any, upper: bool = False) -> Tensor:
        """X with A X = B, given A's Cholesky factor.

        >>> cholesky_solve(minitorch.tensor([[8.0]]), minitorch.tensor([[2.0]]))
        tensor([[2.]])
        """
        b, factor = promoted(as_matrices(self, "cholesky_solve"), as_squares(L, "cholesky_solve"))
        lower = factor.mH if upper else factor
        return solve_triangle(lower.mH, solve_triangle(lower, b, upper=False), upper=True)

    def cholesky_inverse(self, upper: bool = False) -> Tensor:
        """A⁻¹, given A's Cholesky factor.

        >>> cholesky_inverse(minitorch.tensor([[2.0]]))
        tensor([[0.2500]])
        """
        factor = as_squares(self, "cholesky_inverse")
        return cholesky_solve(identity(factor.shape[-1], factor.shape[-1], factor), factor, upper)

    def triangular_solve(
        self, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
    ) -> TriangularSolve:
        """X with A X = b for a triangular A, in the older spelling.

        >>> triangular_solve(minitorch.tensor([[2.0]]), minitorch.tensor([[4.0]])).solution
        tensor([[0.5000]])
        """
        right, a = promoted(as_matrices(self, "triangular_solve"), as_squares(A, "triangular_solve"))
        turned = a.mT if transpose else a
        return TriangularSolve(
            solve_triangle(turned, right, upper != transpose, unit=unitriangular), a.clone()
        )

    # --- powers ----------------------------------------------------------------------------------

    def matrix_exp(self) -> Tensor:
        """e^A = I + A + A²/2 + A³/6 + …   dA: the corner of the exponential of [[Aᵀ, g], [0, Aᵀ]]

        >>> matrix_exp(minitorch.tensor([[0.0, 1.0], [0.0, 0.0]]))
        tensor([[1., 1.],
                [0., 1.]])
        """
        return apply(ops.MATRIX_EXP, as_squares(self, "matrix_exp"))

    def matrix_power(self: Any, n: int) -> Tensor:
        """A multiplied by itself n times; the inverse's power for negative n.

        >>> matrix_power(minitorch.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
        tensor([[1., 3.],
                [0., 1.]])
        """
        base = self
        n = one_int(n, "matrix_power", "n")
        if base.ndim < 2 or base.shape[-1] != base.shape[-2]:
            raise RuntimeError(f"matrix_power: expects square matrices, got shape {base.shape}")
        if n < 0:
            base, n = apply(ops.INV, to_floating(base)), -n
        result = None
        while n:
            if n & 1:
                result = base if result is None else matmul(result, base)
            n >>= 1
            base = matmul(base, base) if n else base
        if result is None:
            result = identity(base.shape[-1], base.shape[-1], base).broadcast_to(base.shape)
            everywhere = base.new_ones((1, 1), dtype=np.bool_)
            return where(everywhere, result, base)  # A takes part, with a gradient of 0
        return result


def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> LU:
    """P, L and U out of what lu_factor gives.

    >>> P, L, U = lu_unpack(*minitorch.linalg.lu_factor(minitorch.tensor([[4.0, 3.0], [2.0, 1.0]])))
    >>> P @ L @ U
    tensor([[4., 3.],
            [2., 1.]])
    """
    both, pivots = tensor_for(LU_data, "lu_unpack"), as_tensor(LU_pivots)
    rows, columns = both.shape[-2:]
    count = min(rows, columns)
    nothing = new_tensor(np.zeros((0,), both._array.dtype))
    lower, upper = nothing, nothing
    if unpack_data:
        lower = both.tril(-1)[..., :, :count] + identity(rows, count, both)
        upper = both.triu()[..., :count, :]
    return LU(_permutation(pivots, rows, both) if unpack_pivots else nothing, lower, upper)


# --- what minitorch/linalg.py builds on too ------------------------------------------------------


def as_matrices(A: Any, name: str) -> Tensor:
    """Return an argument as floating-point matrices."""
    x = to_floating(tensor_for(A, name))
    if x.ndim < 2:
        raise RuntimeError(f"{name}: expected a matrix, or a batch of matrices, but got shape {x.shape}")
    return x


def as_squares(A: Any, name: str) -> Tensor:
    """Return an argument as floating-point square matrices."""
    x = as_matrices(A, name)
    if x.shape[-1] != x.shape[-2]:
        raise RuntimeError(f"{name}: expected square matrices, but got shape {x.shape}")
    return x


def identity(rows: int, columns: int, like: Any) -> Tensor:
    """Return the identity, or its first rows or columns, of the kind and dtype of a tensor."""
    places = np.arange(rows, like=like._data)[:, None] == np.arange(columns, like=like._data)
    return new_tensor(places.astype(like._array.dtype))


def solve_triangle(A: Tensor, B: Tensor, upper: bool, left: bool = True, unit: bool = False) -> Tensor:
    """Return X with A X = B, or X A = B with left=False, for a triangular A."""
    return apply(ops.TRIANGULAR_SOLVE, A, B, upper=upper, left=left, unitriangular=unit)


def lu_in_one(x: Tensor, pivot: bool) -> tuple[Tensor, Tensor]:
    """Return L and U in one matrix, and which rows were exchanged, counted from 1."""
    rows, columns = x.shape[-2:]
    count = min(rows, columns)
    if pivot:
        swaps = apply(ops.LU_SWAPS, x)
        order = apply(ops.LU_ORDER, swaps, rows=rows)
        x = x.gather(-2, order.unsqueeze(-1).broadcast_to(x.shape)) if x._data.size else x
    else:
        numbers = np.arange(1, count + 1, like=x._data).astype(np.int32)
        swaps = new_tensor(np.broadcast_to(numbers, (*x.shape[:-2], count)))
    square = apply(ops.LU_PLAIN, x[..., :count, :count])
    if columns > count:  # beside the square block U goes on: L⁻¹ times the rest
        return cat([square, solve_triangle(square, x[..., count:], upper=False, unit=True)], -1), swaps
    if rows > count:  # below it L does
        return cat([square, solve_triangle(square, x[..., count:, :], upper=True, left=False)], -2), swaps
    return square, swaps


def first_zero(both: Tensor, check_errors: bool, name: str) -> Tensor:
    """Return which pivot is 0, counted from 1; 0 if none is."""
    zero = both.detach().diagonal(0, -2, -1) == 0
    if not zero.shape[-1]:
        return zero.new_zeros(zero.shape[:-1], dtype=np.int32)
    info = cast(where(zero.any(-1), zero.long().argmax(-1) + 1, 0), np.int32)
    if check_errors and bool((info != 0).any()):
        raise ops.LinAlgError(f"{name}: a matrix is singular: a pivot is 0")
    return info


def _permutation(pivots: Tensor, rows: int, like: Tensor) -> Tensor:
    order = apply(ops.LU_ORDER, pivots, rows=rows)
    numbers = new_tensor(np.arange(rows, like=pivots._data)[:, None])
    return cast(order.unsqueeze(-2) == numbers, like._array.dtype)


def lu_solution(LU: Any, pivots: Any, B: Any, left: bool = True, adjoint: bool = False) -> Tensor:
    """Return X with A X = B (X A = B with left=False, Aᴴ in A's place with adjoint), given A's factors."""
    both, b = promoted(as_squares(LU, "lu_solve"), as_matrices(B, "lu_solve"))
    if not left:  # X A = B is Aᵀ Xᵀ = Bᵀ
        return lu_solution(both, pivots, b.mH, adjoint=not adjoint).mH
    permutation = _permutation(as_tensor(pivots), both.shape[-1], both)
    if adjoint:
        half_way = solve_triangle(both.mH, b, upper=False)
        return matmul(permutation, solve_triangle(both.mH, half_way, upper=True, unit=True))
    half_way = solve_triangle(both, matmul(permutation.mT, b), upper=False, unit=True)
    return solve_triangle(both, half_way, upper=True)


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

inverse = function(LinearAlgebra.inverse)
pinverse = function(LinearAlgebra.pinverse)
det = function(LinearAlgebra.det)
slogdet = function(LinearAlgebra.slogdet)
logdet = function(LinearAlgebra.logdet)
trace = function(LinearAlgebra.trace)
cholesky = function(LinearAlgebra.cholesky)
qr = function(LinearAlgebra.qr)
svd = function(LinearAlgebra.svd)
lu = function(LinearAlgebra.lu)
orgqr = function(LinearAlgebra.orgqr)
lu_solve = function(LinearAlgebra.lu_solve)
cholesky_solve = function(LinearAlgebra.cholesky_solve)
cholesky_inverse = function(LinearAlgebra.cholesky_inverse)
triangular_solve = function(LinearAlgebra.triangular_solve)
matrix_exp = function(LinearAlgebra.matrix_exp)
matrix_power = function(LinearAlgebra.matrix_power)

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "det", "inverse", "logdet", "lu", "lu_solve",
    "lu_unpack", "matrix_exp", "matrix_power", "orgqr", "pinverse", "qr", "slogdet", "svd", "trace",
    "triangular_solve",
]  # fmt: skip
