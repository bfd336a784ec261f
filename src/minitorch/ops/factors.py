"""LU factors and the matrix exponential, in NumPy alone. Enters and leaves: square matrices, batched.

NumPy's linalg has neither. Steps of the elimination are written out, one column at a time for a whole batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.ops.linalg import TRIANGULAR_SOLVE, _check_matrix, _check_square, _diagonal_mask, _transpose
from minitorch.ops.op import Array, Op, certain

# --- LU -----------------------------------------------------------------------------------------


def _eliminated(a: Array, step: int) -> Array:
    """Take one step: divide column `step` by its pivot, and subtract its multiples from the columns behind it."""
    rows, columns = a.shape[-2:]
    below = np.arange(rows, like=a)[:, None] > step
    behind = np.arange(columns, like=a) > step
    pivot = a[..., step : step + 1, step : step + 1]
    column = a[..., :, step : step + 1] / np.where(pivot == 0, 1, pivot)
    a = np.where(below & (np.arange(columns, like=a) == step), column, a)
    return np.where(below & behind, a - column * a[..., step : step + 1, :], a)


def _lu_swaps(a: Array) -> Array:
    """Return LAPACK's record of exchanges: at step i row i changed places with row swaps[i], counted from 1."""
    _check_matrix("lu", a)
    rows = np.arange(a.shape[-2], like=a)
    swaps = []
    for step in range(min(a.shape[-2:])):
        size = np.where(rows >= step, np.absolute(a[..., :, step]), -1)
        chosen = np.argmax(size, axis=-1)  # the largest, the first of equals
        swaps.append(chosen + 1)
        order = np.broadcast_to(_exchanged(rows, step, chosen)[..., None], a.shape)
        a = _eliminated(np.take_along_axis(a, order, axis=-2), step)
    batch = a.shape[:-2]
    if not swaps:
        return np.zeros((*batch, 0), dtype=np.int32, like=a)
    return np.stack(swaps, axis=-1).astype(np.int32)


def _exchanged(rows: Array, step: int, chosen: Array) -> Array:
    """Return the row numbers with `step` and `chosen` exchanged."""
    chosen = chosen[..., None]
    return np.where(rows == step, chosen, np.where(rows == chosen, step, rows)).astype(np.int64)


LU_SWAPS = Op("lu_swaps", _lu_swaps)


def _lu_order(swaps: Array, *, rows: int) -> Array:
    """Return which row of A comes where, once all exchanges are made."""
    numbers = np.arange(rows, like=swaps)
    order = np.broadcast_to(numbers, (*swaps.shape[:-1], rows)).astype(np.int64)
    for step in range(swaps.shape[-1]):
        order = np.take_along_axis(order, _exchanged(numbers, step, swaps[..., step] - 1), axis=-1)
    return order


LU_ORDER = Op("lu_order", _lu_order)


def _lu_plain(a: Array) -> Array:
    _check_square("lu", a, "the other shapes are composed of this one")
    for step in range(a.shape[-1] - 1):
        a = _eliminated(a, step)
    return a


def _lu_plain_rule(g: Array, out: Array, a: Array) -> Array:
    # With L and U in one matrix, L's unit diagonal left out: from dA = dL·U + L·dU follows that
    # L⁻¹·dA·U⁻¹ = L⁻¹·dL + dU·U⁻¹, a strictly lower and an upper triangle. Turned around:
    # gA = L⁻ᵀ·(tril(Lᵀ·gL, -1) + triu(gU·Uᵀ))·U⁻ᵀ.
    upper = np.triu(out)
    lower = np.tril(out, -1) + np.where(_diagonal_mask(out.shape, like=out), 1, 0).astype(out.dtype)
    middle = np.tril(_transpose(lower) @ np.tril(g, -1), -1) + np.triu(np.triu(g) @ _transpose(upper))
    half_way = TRIANGULAR_SOLVE(_transpose(lower), middle, upper=True, left=True, unitriangular=True)
    return TRIANGULAR_SOLVE(_transpose(upper), half_way, upper=False, left=False, unitriangular=False)


# L and U in one matrix, without exchanging rows.
LU_PLAIN = Op("lu_plain", _lu_plain, _lu_plain_rule)

# --- the matrix exponential ---------------------------------------------------------------------

# Padé's quotient of degree 13, exact to double precision for matrices of 1-norm below 5.37 (Higham 2005).
_PADE = [
    math.factorial(26 - k)
    * math.factorial(13)
    / (math.factorial(26) * math.factorial(k) * math.factorial(13 - k))
    for k in range(14)
]
_LARGEST = 5.37


def _matrix_exp(a: Array) -> Array:
    _check_square("matrix_exp", a, "cut out a square block of it")
    if 0 in a.shape:
        return a.copy()
    # e^A = (e^{A / 2ˢ})^(2ˢ): each matrix is halved until its norm is small enough, and squared back.
    norm = np.absolute(a).sum(axis=-2).max(axis=-1)
    halvings = np.ceil(np.maximum(np.log2(np.maximum(norm, 1e-30) / _LARGEST), 0))[..., None, None]
    x = a / np.exp2(halvings)
    identity = np.where(_diagonal_mask(a.shape, like=a), 1, 0).astype(a.dtype)
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    c = _PADE
    odd = x @ (
        x6 @ (c[13] * x6 + c[11] * x4 + c[9] * x2) + c[7] * x6 + c[5] * x4 + c[3] * x2 + c[1] * identity
    )
    even = x6 @ (c[12] * x6 + c[10] * x4 + c[8] * x2) + c[6] * x6 + c[4] * x4 + c[2] * x2 + c[0] * identity
    out = np.linalg.solve(even - odd, even + odd)
    for step in range(_MOST_HALVINGS):
        if certain((halvings <= step).all()):
            return out
        out = np.where(halvings > step, out @ out, out)
    return np.where(halvings > _MOST_HALVINGS, np.nan, out)


_MOST_HALVINGS = 32


def _matrix_exp_rule(g: Array, out: Array, a: Array) -> Array:
    # The exponential of [[Aᵀ, g], [0, Aᵀ]] has the gradient in its upper right corner.
    n = a.shape[-1]
    if 0 in a.shape:
        return np.zeros_like(a)
    at = _transpose(a)
    above = np.concatenate([at, g], axis=-1)
    below = np.concatenate([np.zeros_like(g), at], axis=-1)
    return MATRIX_EXP(np.concatenate([above, below], axis=-2))[..., :n, n:]


MATRIX_EXP: Op = Op("matrix_exp", _matrix_exp, _matrix_exp_rule)

__all__: Sequence[Any] = ["LU_ORDER", "LU_PLAIN", "LU_SWAPS", "MATRIX_EXP"]
