"""Factorisations and solutions beyond the common ones: LU, Householder, exponentials, conditions, tensor equations.

Enters: matrices or batches of them. Leaves: tensors; compositions of ops/linalg.py and ops/factors.py. linalg.py
offers those of torch.linalg, and minitorch itself the older spellings.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.ops import factors
from minitorch.ops import linalg as ops
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
from minitorch.tensor.methods.contract import matmul
from minitorch.tensor.methods.elementwise import select
from minitorch.tensor.methods.products import multiply_chain, powers_of
from minitorch.tensor.methods.shape import cat

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class LU(NamedTuple):
    """P L U = A."""

    P: Tensor
    L: Tensor
    U: Tensor


class LUFactor(NamedTuple):
    """L and U in one matrix, and the exchanges of rows, counted from 1."""

    LU: Tensor
    pivots: Tensor


class LUFactorEx(NamedTuple):
    """L and U in one matrix, the exchanges of rows, and which pivot is 0 (0: none)."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class CholeskyEx(NamedTuple):
    """The factor, and the order of the first leading block that is not positive definite (0: none)."""

    L: Tensor
    info: Tensor


class InvEx(NamedTuple):
    """The inverse, and which pivot is 0 (0: none)."""

    inverse: Tensor
    info: Tensor


class SolveEx(NamedTuple):
    """The solution, and which pivot is 0 (0: none)."""

    result: Tensor
    info: Tensor


class TriangularSolve(NamedTuple):
    """The solution, and a copy of the triangle."""

    solution: Tensor
    cloned_coefficient: Tensor


def _matrix(A: Any, name: str) -> Tensor:
    x = to_floating(tensor_for(A, name))
    if x.ndim < 2:
        raise RuntimeError(f"{name}: expected a matrix, or a batch of matrices, but got shape {x.shape}")
    return x


def _square(A: Any, name: str) -> Tensor:
    x = _matrix(A, name)
    if x.shape[-1] != x.shape[-2]:
        raise RuntimeError(f"{name}: expected square matrices, but got shape {x.shape}")
    return x


def _identity(rows: int, columns: int, like: Any) -> Tensor:
    places = np.arange(rows, like=like._data)[:, None] == np.arange(columns, like=like._data)
    return new_tensor(places.astype(like._data.dtype))


def _triangular(A: Tensor, B: Tensor, upper: bool, left: bool = True, unit: bool = False) -> Tensor:
    return apply(ops.TRIANGULAR_SOLVE, A, B, upper=upper, left=left, unitriangular=unit)


# --- LU -----------------------------------------------------------------------------------------


def _lu_in_one(x: Tensor, pivot: bool, name: str) -> tuple[Tensor, Tensor]:
    rows, columns = x.shape[-2:]
    count = min(rows, columns)
    if pivot:
        swaps = apply(factors.LU_SWAPS, x)
        order = apply(factors.LU_ORDER, swaps, rows=rows)
        x = x.gather(-2, order.unsqueeze(-1).broadcast_to(x.shape)) if x._data.size else x
    else:
        numbers = np.arange(1, count + 1, like=x._data).astype(np.int32)
        swaps = new_tensor(np.broadcast_to(numbers, (*x.shape[:-2], count)))
    square = apply(factors.LU_PLAIN, x[..., :count, :count])
    if columns > count:  # beside the square block U goes on: L⁻¹ times the rest
        return cat([square, _triangular(square, x[..., count:], upper=False, unit=True)], -1), swaps
    if rows > count:  # below it L does
        return cat([square, _triangular(square, x[..., count:, :], upper=True, left=False)], -2), swaps
    return square, swaps


def lu_factor(A: Any, *, pivot: bool = True) -> LUFactor:
    """L and U in one matrix (L's diagonal of ones left out), and which rows were exchanged.

    >>> lu_factor(minitorch.tensor([[4.0, 3.0], [2.0, 1.0]])).LU
    tensor([[ 4.0000,  3.0000],
            [ 0.5000, -0.5000]])
    """
    return LUFactor(*_lu_in_one(_matrix(A, "lu_factor"), pivot, "lu_factor"))


def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:
    """LU and pivots as lu_factor gives them, and which pivot is 0 (0: none).

    >>> lu_factor_ex(minitorch.tensor([[4.0, 3.0], [2.0, 1.0]])).info
    tensor(0, dtype=int32)
    """
    both, pivots = lu_factor(A, pivot=pivot)
    return LUFactorEx(both, pivots, _first_zero(both, check_errors, "lu_factor_ex"))


def _first_zero(both: Tensor, check_errors: bool, name: str) -> Tensor:
    zero = both.detach().diagonal(0, -2, -1) == 0
    if not zero.shape[-1]:
        return new_tensor(np.zeros(zero.shape[:-1], np.int32))
    info = cast(select(zero.any(-1), zero.long().argmax(-1) + 1, 0), np.int32)
    if check_errors and bool((info != 0).any()):
        raise ops.LinAlgError(f"{name}: a matrix is singular: a pivot is 0")
    return info


def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> LU:
    """P, L and U out of what lu_factor gives.

    >>> P, L, U = lu_unpack(*lu_factor(minitorch.tensor([[4.0, 3.0], [2.0, 1.0]])))
    >>> P @ L @ U
    tensor([[4., 3.],
            [2., 1.]])
    """
    both, pivots = tensor_for(LU_data, "lu_unpack"), as_tensor(LU_pivots)
    rows, columns = both.shape[-2:]
    count = min(rows, columns)
    nothing = new_tensor(np.zeros((0,), both._data.dtype))
    lower, upper = nothing, nothing
    if unpack_data:
        lower = both.tril(-1)[..., :, :count] + _identity(rows, count, both)
        upper = both.triu()[..., :count, :]
    return LU(_permutation(pivots, rows, both) if unpack_pivots else nothing, lower, upper)


def _permutation(pivots: Tensor, rows: int, like: Tensor) -> Tensor:
    order = apply(factors.LU_ORDER, pivots, rows=rows)
    numbers = new_tensor(np.arange(rows, like=pivots._data)[:, None])
    return cast(order.unsqueeze(-2) == numbers, like._data.dtype)


def lu(A: Any, *, pivot: bool = True) -> LU:
    """P L U = A: a permutation, a lower triangle with ones on its diagonal, an upper triangle.

    >>> lu(minitorch.tensor([[2.0, 1.0], [4.0, 3.0]])).U
    tensor([[ 4.0000,  3.0000],
            [ 0.0000, -0.5000]])
    """
    return lu_unpack(*_lu_in_one(_matrix(A, "lu"), pivot, "lu"))


def lu_compact(input: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """LU and pivots, in the older spelling of torch.lu.

    >>> lu_compact(minitorch.tensor([[4.0, 3.0], [2.0, 1.0]]))[1]
    tensor([1, 2], dtype=int32)
    """
    found = lu_factor_ex(input, pivot=pivot)
    return tuple(found) if get_infos else tuple(found)[:2]


def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with A X = B (X A = B with left=False, Aᴴ in A's place with adjoint), given A's factors.

    >>> factored = lu_factor(minitorch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> lu_solve(*factored, minitorch.tensor([[2.0], [4.0]]))
    tensor([[1.],
            [1.]])
    """
    both, b = promoted(_square(LU, "lu_solve"), _matrix(B, "lu_solve"))
    if not left:  # X A = B is Aᵀ Xᵀ = Bᵀ
        return lu_solve(both, pivots, b.mH, adjoint=not adjoint).mH
    permutation = _permutation(as_tensor(pivots), both.shape[-1], both)
    if adjoint:
        half_way = _triangular(both.mH, b, upper=False)
        return matmul(permutation, _triangular(both.mH, half_way, upper=True, unit=True))
    half_way = _triangular(both, matmul(permutation.mT, b), upper=False, unit=True)
    return _triangular(both, half_way, upper=True)


def lu_solve_of(b: Any, LU_data: Any, LU_pivots: Any) -> Tensor:
    """X with A X = b, given A's factors, in the older spelling of torch.lu_solve.

    >>> lu_solve_of(minitorch.tensor([[2.0]]), *lu_factor(minitorch.tensor([[4.0]])))
    tensor([[0.5000]])
    """
    return lu_solve(LU_data, LU_pivots, b)


# --- with a report instead of an error ----------------------------------------------------------


def inv_ex(A: Any, *, check_errors: bool = False) -> InvEx:
    """The inverse, and instead of an error which pivot is 0 (0: none); such a matrix gets nan.

    >>> inv_ex(minitorch.tensor([[0.0]])).info
    tensor(1, dtype=int32)
    """
    x = _square(A, "inv_ex")
    info = _singular(x, check_errors, "inv_ex")
    safe, wrong = _made_regular(x, info)
    return InvEx(select(wrong, math.nan, apply(ops.INV, safe)), info)


def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> SolveEx:
    """X with A X = B, and instead of an error which pivot is 0 (0: none); such a system gets nan.

    >>> solve_ex(minitorch.tensor([[2.0]]), minitorch.tensor([[4.0]])).result
    tensor([[2.]])
    """
    a, b = promoted(_square(A, "solve_ex"), to_floating(tensor_for(B, "solve_ex")))
    info = _singular(a, check_errors, "solve_ex")
    safe, wrong = _made_regular(a, info)
    result = apply(ops.SOLVE, safe, b, left=left)
    if result.ndim < a.ndim:
        wrong = wrong.squeeze(-1)
    return SolveEx(select(wrong, math.nan, result), info)


def _singular(x: Tensor, check_errors: bool, name: str) -> Tensor:
    both, _ = _lu_in_one(x.detach(), True, name)
    return _first_zero(both, check_errors, name)


def _made_regular(x: Tensor, info: Tensor) -> tuple[Tensor, Tensor]:
    wrong = (info != 0).unsqueeze(-1).unsqueeze(-1)
    return select(wrong, _identity(x.shape[-1], x.shape[-1], x), x), wrong


def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """The Cholesky factor, and instead of an error which leading block is not positive definite (0: none).

    >>> cholesky_ex(minitorch.tensor([[4.0]]))
    CholeskyEx(L=tensor([[2.]]), info=tensor(0, dtype=int32))
    """
    x = _square(A, "cholesky_ex")
    values = new_tensor(np.zeros(x.shape[:-2], np.int32))
    for order in range(x.shape[-1], 0, -1):  # the first block whose eigenvalues are not all positive
        block = x.detach()[..., :order, :order]
        bad = apply(ops.EIGVALSH, block, uplo="U" if upper else "L").amin(-1) <= 0
        values = cast(select(bad, order, values), np.int32)
    if check_errors and bool((values != 0).any()):
        raise ops.LinAlgError("cholesky_ex: a matrix is not positive definite")
    safe, wrong = _made_regular(x, values)
    return CholeskyEx(select(wrong, math.nan, apply(ops.CHOLESKY, safe, upper=upper)), values)


# --- given Cholesky's factor --------------------------------------------------------------------


def cholesky_solve(B: Any, L: Any, upper: bool = False) -> Tensor:
    """X with A X = B, given A's Cholesky factor.

    >>> cholesky_solve(minitorch.tensor([[8.0]]), minitorch.tensor([[2.0]]))
    tensor([[2.]])
    """
    b, factor = promoted(_matrix(B, "cholesky_solve"), _square(L, "cholesky_solve"))
    lower = factor.mH if upper else factor
    return _triangular(lower.mH, _triangular(lower, b, upper=False), upper=True)


def cholesky_inverse(L: Any, upper: bool = False) -> Tensor:
    """A⁻¹, given A's Cholesky factor.

    >>> cholesky_inverse(minitorch.tensor([[2.0]]))
    tensor([[0.2500]])
    """
    factor = _square(L, "cholesky_inverse")
    return cholesky_solve(_identity(factor.shape[-1], factor.shape[-1], factor), factor, upper)


def triangular_solve(
    b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolve:
    """X with A X = b for a triangular A, in the older spelling.

    >>> triangular_solve(minitorch.tensor([[2.0]]), minitorch.tensor([[4.0]])).solution
    tensor([[0.5000]])
    """
    right, a = promoted(_matrix(b, "triangular_solve"), _square(A, "triangular_solve"))
    turned = a.mT if transpose else a
    return TriangularSolve(_triangular(turned, right, upper != transpose, unit=unitriangular), a.clone())


# --- products of reflections, exponentials ------------------------------------------------------


def householder_product(A: Any, tau: Any) -> Tensor:
    """The first columns of a product of reflections I - τᵢ·vᵢ·vᵢᴴ, with vᵢ below A's diagonal.

    >>> householder_product(minitorch.tensor([[1.0], [0.0]]), minitorch.tensor([2.0]))
    tensor([[-1.],
            [ 0.]])
    """
    x, scale = promoted(
        _matrix(A, "householder_product"), to_floating(tensor_for(tau, "householder_product"))
    )
    rows, columns = x.shape[-2:]
    if rows < columns or scale.shape[:-1] != x.shape[:-2] or scale.shape[-1] > columns:
        raise RuntimeError(
            f"householder_product: A of shape {x.shape} and tau of shape {scale.shape} do not fit"
        )
    result = _identity(rows, columns, x).broadcast_to(x.shape)
    vectors = x.tril(-1) + _identity(rows, columns, x)
    for i in range(scale.shape[-1] - 1, -1, -1):
        v = vectors[..., i : i + 1]
        result = result - scale[..., i, None, None] * matmul(v, matmul(v.mH, result))
    return result


def matrix_exp(A: Any) -> Tensor:
    """e^A = I + A + A²/2 + A³/6 + …   dA: the corner of the exponential of [[Aᵀ, g], [0, Aᵀ]]

    >>> matrix_exp(minitorch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return apply(factors.MATRIX_EXP, _square(A, "matrix_exp"))


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


def matrix_power(A: Any, n: int) -> Tensor:
    """A multiplied by itself n times; the inverse's power for negative n.

    >>> matrix_power(minitorch.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    base = as_tensor(A)
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
        return _identity(base.shape[-1], base.shape[-1], base).broadcast_to(base.shape).clone()
    return result


# --- conditions ---------------------------------------------------------------------------------


def matrix_rank(
    A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """How many singular values lie above max(atol, rtol·the largest).

    >>> matrix_rank(minitorch.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    x = _matrix(A, "matrix_rank").detach()
    values = apply(ops.EIGVALSH, x, uplo="L").abs() if hermitian else apply(ops.SVDVALS, x)
    if not values.shape[-1]:
        return new_tensor(np.zeros(values.shape[:-1], np.int64))
    floor = choose(atol, tol, "atol and tol")
    if rtol is None:
        given = floor is not None and bool(as_tensor(floor > 0).all())
        rtol = 0.0 if given else max(x.shape[-2:]) * float(np.finfo(x._data.dtype).eps)
    limit = values.amax(-1) * rtol
    above = values > limit.unsqueeze(-1)
    if floor is not None:
        above = above & (values > (as_tensor(floor).unsqueeze(-1) if isinstance(floor, Node) else floor))
    return above.sum(-1)


# --- equations between tensors ------------------------------------------------------------------


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


# --- small ones ---------------------------------------------------------------------------------


def vecdot(x: Any, y: Any, *, dim: int = -1) -> Tensor:
    """Σ xᵢ·yᵢ along an axis, x conjugated.   dx = g·y, dy = g·x

    >>> vecdot(minitorch.tensor([1.0, 2.0]), minitorch.tensor([3.0, 4.0]))
    tensor(11.)
    """
    product = tensor_for(x, "vecdot").conj() * as_tensor(y)
    return cast(product.sum(dim), product._data.dtype)


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of each matrix, as a view.

    >>> diagonal(minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 4.])
    """
    return tensor_for(A, "diagonal").diagonal(offset, dim1, dim2)


def vander(x: Any, *, N: int | None = None) -> Tensor:
    """x⁰ … xᴺ⁻¹ of each element, as rows.

    >>> vander(minitorch.tensor([2.0]), N=3)
    tensor([[1., 2., 4.]])
    """
    base = tensor_for(x, "vander")
    base = base._row()
    return powers_of(base, base.shape[-1] if N is None else N, "vander")


def cross(input: Any, other: Any, *, dim: int = -1) -> Tensor:
    """x × y along an axis of length 3, the other axes broadcast.

    >>> cross(minitorch.tensor([1.0, 0.0, 0.0]), minitorch.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    x, y = tensor_for(input, "cross"), tensor_for(other, "cross")
    return x.cross(y, dim=dim)


# What minitorch itself offers, in PyTorch's older spelling.
OLDER = {
    "cholesky_inverse": cholesky_inverse,
    "cholesky_solve": cholesky_solve,
    "lu": lu_compact,
    "lu_solve": lu_solve_of,
    "lu_unpack": lu_unpack,
    "matrix_exp": matrix_exp,
    "matrix_power": matrix_power,
    "orgqr": householder_product,
    "triangular_solve": triangular_solve,
}

__all__ = [
    "cholesky_ex", "cross", "diagonal", "householder_product", "inv_ex", "lu", "lu_factor", "lu_factor_ex",
    "lu_solve", "matrix_exp", "matrix_power", "matrix_rank", "multi_dot", "solve_ex", "tensorinv", "tensorsolve",
    "vander", "vecdot",
]  # fmt: skip
