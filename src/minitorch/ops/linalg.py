"""Linear algebra: inverses and solutions, determinants, factorisations, the matrix exponential.

Enters: matrices, or batches of them, in the last two axes. Leaves: the same, batched alike.

Derivations start from the differential of the defining equation. For an inverse X of A, A·X = I gives
dA·X + A·dX = 0, so dX = -X·dA·X; the gradient with respect to A is the matrix `gA` for which
⟨g, dX⟩ = ⟨gA, dA⟩, where ⟨P, Q⟩ is the sum of the products of corresponding elements. Two identities
do the rest: ⟨P, Q·R⟩ = ⟨Qᵀ·P, R⟩ and ⟨P, Q·R⟩ = ⟨P·Rᵀ, Q⟩. Matrices are real.

Identities and masks are made `like` an array at hand, so that they live on the same device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from minitorch.ops.native import answered
from minitorch.ops.op import Array, Op, certain, violated

Mode = Literal["reduced", "complete", "r"]
Triangle = Literal["L", "U"]


class LinAlgError(RuntimeError):
    """A matrix for which there is no answer: singular, not positive definite, or not finite."""


# --- small parts ----------------------------------------------------------------------------------


def _transpose(x: Array) -> Array:
    return x.swapaxes(-1, -2)


def _diagonal_mask(shape: tuple[int, ...], like: Array) -> Array:
    """Return the identity's pattern for matrices of `shape`: True on the diagonal, on `like`'s device."""
    rows, columns = shape[-2:]
    return np.arange(rows, like=like)[:, None] == np.arange(columns, like=like)


def _mirror_lower(x: Array) -> Array:
    """Return the symmetric matrix with the lower triangle of `x`."""
    return np.tril(x) + _transpose(np.tril(x, k=-1))


def _quotient(x: Array, y: Array) -> Array:
    """Return x / y, and 0 where both are 0.

    The derivative of an eigenvector has the gaps between eigenvalues as denominators, and equal
    eigenvalues leave it undefined. A loss of the eigenvalues alone sends 0 there, and must not get
    nan back. A numerator other than 0 does give inf: that loss has no derivative.
    """
    return x / np.where((x == 0) & (y == 0), 1, y)


def _check_matrix(name: str, x: Array) -> None:
    if x.ndim < 2:
        raise RuntimeError(
            f"{name}: expected a matrix, or a batch of matrices, but got shape {tuple(x.shape)}; "
            "add axes with unsqueeze or reshape"
        )
    if x.dtype.kind not in "fc" or x.dtype == np.float16:
        raise RuntimeError(
            f"{name}: expected float32 or float64, but got {x.dtype}; write x.float() or x.double()"
        )


def _check_square(name: str, x: Array, instead: str) -> None:
    _check_matrix(name, x)
    if x.shape[-1] != x.shape[-2]:
        raise RuntimeError(f"{name}: expected square matrices, but got shape {tuple(x.shape)}; {instead}")


def _converging(name: str, function: Callable[..., Any], a: Array, **options: Any) -> Any:
    """Run an iterative factorisation; NumPy's complaint gets its likely reason."""
    try:
        return function(a, **options)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{name}: {error}: a matrix of shape {tuple(a.shape)} holds nan or inf?") from error


def _solve_systems(name: str, a: Array, b: Array) -> Array:
    """Solve a·x = b for matrices `b`, broadcasting the batches against each other."""
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"{name}: {a.shape[-1]} equations need right-hand sides of {a.shape[-1]} rows, but they have "
            f"{b.shape[-2]}; transpose B, or choose the other side with left="
        )
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, batch + a.shape[-2:])
    b = np.broadcast_to(b, batch + b.shape[-2:])
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(
            f"{name}: a matrix in A (shape {tuple(a.shape)}) is singular and the system has no unique "
            "solution; use linalg.lstsq or linalg.pinv, or add a small multiple of the identity"
        ) from error


# --- inverses and solutions -----------------------------------------------------------------------


def _inv(a: Array) -> Array:
    _check_square("inv", a, "for other shapes use linalg.pinv")
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(
            f"inv: a matrix of shape {tuple(a.shape)} is singular and has no inverse; use linalg.pinv, or "
            "add a small multiple of the identity"
        ) from error


# dX = -X·dA·X.
INV = Op("inv", _inv, lambda g, out, a: -(_transpose(out) @ g @ _transpose(out)))


def _holds_vectors(a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> bool:
    """Tell whether solve's B is one vector, or a batch with one vector for each matrix in A."""
    return len(b_shape) == 1 or b_shape == a_shape[:-1]


def _solve(a: Array, b: Array, *, left: bool) -> Array:
    _check_square("solve", a, "for other shapes use linalg.lstsq")
    if _holds_vectors(a.shape, b.shape):
        if not left:
            raise RuntimeError(
                f"solve: X·A = B needs matrices in B, but got vectors of shape {tuple(b.shape)}; "
                "write B.unsqueeze(-2) for one row each"
            )
        return _solve_systems("solve", a, b[..., None])[..., 0]
    _check_matrix("solve", b)
    if left:
        return _solve_systems("solve", a, b)
    return _transpose(_solve_systems("solve", _transpose(a), _transpose(b)))


def _solve_rule(g: Array, out: Array, a: Array, b: Array, *, left: bool) -> Sequence[Array]:
    # A·dX = dB - dA·X, so gB = A⁻ᵀ·g and gA = -gB·Xᵀ; both at once, since gA contains gB.
    if _holds_vectors(a.shape, b.shape):
        gb = SOLVE(_transpose(a), g[..., None], left=True)
        return -(gb @ out[..., None, :]), gb[..., 0]
    gb = SOLVE(_transpose(a), g, left=left)
    ga = gb @ _transpose(out) if left else _transpose(out) @ gb
    return -ga, gb


SOLVE = Op("solve", _solve, joint=_solve_rule)


def _solve_triangular(a: Array, b: Array, *, upper: bool, left: bool, unitriangular: bool) -> Array:
    name = "solve_triangular"
    _check_square(name, a, "cut out a square block of it")
    _check_matrix(name, b)
    if not left:  # X·A = B is Aᵀ·Xᵀ = Bᵀ
        flipped = _solve_triangular(
            _transpose(a), _transpose(b), upper=not upper, left=True, unitriangular=unitriangular
        )
        return _transpose(flipped)
    a = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        a = np.where(_diagonal_mask(a.shape, like=a), 1, a)
    if upper:
        return _solve_systems(name, a, b)
    # NumPy has the general solver alone. On an upper triangle it exchanges no rows and amounts to back
    # substitution; numbering rows and columns from the other end makes an upper triangle of a lower one.
    return _solve_systems(name, a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :]


def _solve_triangular_rule(
    g: Array, out: Array, a: Array, b: Array, *, upper: bool, left: bool, unitriangular: bool
) -> Sequence[Array]:
    # As for solve, but only the entries that were read have a gradient.
    gb = TRIANGULAR_SOLVE(_transpose(a), g, upper=not upper, left=left, unitriangular=unitriangular)
    ga = -(gb @ _transpose(out)) if left else -(_transpose(out) @ gb)
    outermost = 1 if unitriangular else 0
    return np.triu(ga, k=outermost) if upper else np.tril(ga, k=-outermost), gb


TRIANGULAR_SOLVE = Op("solve_triangular", _solve_triangular, joint=_solve_triangular_rule)


def _pinv(a: Array, *, rtol: float | None, atol: float | None, hermitian: bool) -> Array:
    _check_matrix("pinv", a)
    if rtol is None:
        absolute = atol is not None and (hasattr(atol, "dtype") or atol)
        rtol = 0.0 if absolute else max(a.shape[-2:]) * float(np.finfo(a.dtype).eps)
    if hermitian:
        _check_square("pinv", a, "leave out hermitian=True")
        values, v = _converging("pinv", np.linalg.eigh, a)
        ut = _transpose(v)
        largest = np.maximum(np.abs(values[..., :1]), np.abs(values[..., -1:]))  # they ascend
    else:
        u, values, vh = _converging("pinv", np.linalg.svd, a, full_matrices=False)
        ut, v = _transpose(u), _transpose(vh)
        largest = values[..., :1]  # they descend
    kept = np.abs(values) > np.maximum(rtol * largest, 0.0 if atol is None else atol)
    inverse = np.where(kept, 1 / np.where(kept, values, 1), 0)
    return (v * inverse[..., None, :]) @ ut


def _pinv_rule(
    g: Array, out: Array, a: Array, *, rtol: float | None, atol: float | None, hermitian: bool
) -> Array:
    # With P = pinv(A), and as long as the rank stays what it is,
    # dP = -P·dA·P + P·Pᵀ·dAᵀ·(I - A·P) + (I - P·A)·dAᵀ·Pᵀ·P: the inverse's differential, and two terms for
    # the directions that A does not reach and does not see.
    pt = _transpose(out)
    unreached = _transpose(g) @ out @ pt
    unseen = pt @ out @ _transpose(g)
    return -(pt @ g @ pt) + (unreached - a @ (out @ unreached)) + (unseen - (unseen @ out) @ a)


PINV = Op("pinv", _pinv, _pinv_rule)

# --- determinants ---------------------------------------------------------------------------------


def _det(a: Array) -> Array:
    _check_square("det", a, "cut out a square block of it")
    return np.linalg.det(a)


def _logs(s: Array) -> Array:
    """Return logarithms of singular values, in which a product that leaves some out is a difference.

    They do not overflow half-way, and 0, for which the smallest number stands in, can be left out too.
    """
    return np.log(np.maximum(s.astype(np.float64), float(np.finfo(np.float64).tiny)))


def _cofactor(a: Array) -> Array:
    # From A = U·diag(s)·Vᵀ: C = det U · det V · U·diag(p)·Vᵀ, where pᵢ is the product of all s but sᵢ.
    try:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
    except np.linalg.LinAlgError:  # nan or inf in it, and so in its determinant
        return np.full_like(a, np.nan)
    logs = _logs(s)
    products = np.exp(logs.sum(axis=-1, keepdims=True) - logs).astype(s.dtype)
    orientation = np.linalg.det(u) * np.linalg.det(vh)
    return orientation[..., None, None] * ((u * products[..., None, :]) @ vh)


def _cofactor_rule(g: Array, out: Array, a: Array) -> Array:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    if certain(np.all(s[..., -1:] > 1e-3 * s[..., :1])):
        # Every A has an inverse, far from singular: C = det·A⁻ᵀ gives dC = ⟨A⁻ᵀ, dA⟩·C - A⁻ᵀ·dAᵀ·C.
        inverse = out / DET(a)[..., None, None]
        product = (g * inverse).sum(axis=(-2, -1), keepdims=True)
        return product * out - inverse @ _transpose(g) @ out
    # Else the same in the bases of the SVD, with h = Uᵀ·g·V, where the division cancels: pᵢ·pⱼ / det is pᵢⱼ,
    # the product of all s but sᵢ and sⱼ, and the result is Σⱼ pᵢⱼ·hⱼⱼ on the diagonal (j ≠ i) and -pᵢⱼ·hⱼᵢ
    # beside it. Right for every A, but a third derivative asks that no two singular values coincide.
    h = _transpose(u) @ g @ _transpose(vh)
    on_diagonal = _diagonal_mask(a.shape, like=a)
    logs = _logs(s)
    log_pairs = logs.sum(axis=-1)[..., None, None] - logs[..., :, None] - logs[..., None, :]
    pairs = np.where(on_diagonal, 0, np.exp(np.where(on_diagonal, 0, log_pairs))).astype(s.dtype)
    diagonal = pairs @ np.diagonal(h, axis1=-2, axis2=-1)[..., :, None]
    inner = np.where(on_diagonal, diagonal, 0) - pairs * _transpose(h)
    orientation = DET(u) * DET(vh)
    return orientation[..., None, None] * (u @ inner @ vh)


COFACTOR = Op("cofactor", _cofactor, _cofactor_rule)

# d det = ⟨C, dA⟩ with C the matrix of cofactors. C is det·A⁻ᵀ where A has an inverse, and exists also
# where it has none: det is a polynomial.
DET = Op("det", _det, lambda g, out, a: g[..., None, None] * COFACTOR(a))


def _det_sign(a: Array) -> Array:
    _check_square("slogdet", a, "cut out a square block of it")
    return np.linalg.slogdet(a)[0]


def _logabsdet(a: Array) -> Array:
    _check_square("slogdet", a, "cut out a square block of it")
    return np.linalg.slogdet(a)[1]


# A sign is flat wherever it is defined; recorded so that backward() runs through.
DET_SIGN = Op("det_sign", _det_sign, lambda g, out, a: g[..., None, None] * np.zeros_like(a))
# d log|det| = d det / det = ⟨A⁻ᵀ, dA⟩.
LOGABSDET = Op("logabsdet", _logabsdet, lambda g, out, a: g[..., None, None] * _transpose(INV(a)))


def slogdet(a: Array) -> tuple[Array, Array]:
    """Return the sign of the determinant and the logarithm of its size, which does not overflow.

    >>> sign, logabsdet = slogdet(np.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> float(sign), float(np.exp(logabsdet).round(6))
    (-1.0, 6.0)
    """
    return DET_SIGN(a), LOGABSDET(a)


def _trace(a: Array) -> Array:
    if a.ndim < 2:
        raise RuntimeError(f"trace: expected a matrix, but got shape {tuple(a.shape)}; a vector has sum()")
    return np.trace(a, axis1=-2, axis2=-1)


def _trace_rule(g: Array, out: Array, a: Array) -> Array:
    g = g[..., None, None]
    return np.where(_diagonal_mask(a.shape, like=g), g, 0)


TRACE = Op("trace", _trace, _trace_rule)

# --- factorisations -------------------------------------------------------------------------------


def _cholesky(a: Array, *, upper: bool) -> Array:
    _check_square("cholesky", a, "cut out a square block of it, or write A @ A.mT")
    try:
        # One triangle is read: the lower, or the upper, which is the lower one of the transpose.
        return _transpose(np.linalg.cholesky(_transpose(a))) if upper else np.linalg.cholesky(a)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(
            f"cholesky: a matrix of shape {tuple(a.shape)} is not positive definite; add a small multiple "
            "of the identity, or use linalg.eigh"
        ) from error


def _cholesky_rule(g: Array, out: Array, a: Array, *, upper: bool) -> Array:
    # A = L·Lᵀ gives L⁻¹·dA·L⁻ᵀ = L⁻¹·dL + (L⁻¹·dL)ᵀ, a lower triangle and its mirror image, so L⁻¹·dL is the
    # left side's lower triangle with the diagonal halved. Turned around, and symmetric as A is:
    # gA = L⁻ᵀ·S·L⁻¹ with S half the mirrored lower triangle of Lᵀ·g.
    lower = _transpose(out) if upper else out
    g = _transpose(g) if upper else g
    s = 0.5 * _mirror_lower(_transpose(lower) @ g)
    half_way = TRIANGULAR_SOLVE(_transpose(lower), s, upper=True, left=True, unitriangular=False)
    return TRIANGULAR_SOLVE(lower, half_way, upper=False, left=False, unitriangular=False)


CHOLESKY = Op("cholesky", _cholesky, _cholesky_rule)


def _qr(a: Array, *, mode: Mode) -> tuple[Array, Array]:
    _check_matrix("qr", a)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr: mode is 'reduced', 'complete' or 'r', but got {mode!r}")
    if mode == "r":
        return a.reshape(-1)[:0], np.linalg.qr(a, mode="r")
    q, r = np.linalg.qr(a, mode=mode)
    return q, r


def _qr_rule(g: Sequence[Array], out: Sequence[Array], a: Array, *, mode: Mode) -> Array:
    rows, columns = a.shape[-2:]
    if mode == "r":
        raise RuntimeError("qr: the derivative needs Q, which mode='r' leaves out; write mode='reduced'")
    if mode == "complete" and rows > columns:
        raise RuntimeError(
            f"qr: with mode='complete' and shape {tuple(a.shape)} the last {rows - columns} columns of Q are "
            "arbitrary, so there is no derivative; write mode='reduced'"
        )
    (gq, gr), (q, r) = g, out
    if rows < columns:
        # A = [A₁ A₂] with A₁ square: A₁ = Q·R₁ is the square case, and R₂ = Qᵀ·A₂ a product.
        gr2, r2 = gr[..., rows:], r[..., rows:]
        gq = gq + q @ (r2 @ _transpose(gr2))
        ga1 = _tall_qr_rule(gq, gr[..., :rows], q, r[..., :rows])
        return np.concatenate([ga1, q @ gr2], axis=-1)
    return _tall_qr_rule(gq, gr, q, r)


def _tall_qr_rule(gq: Array, gr: Array, q: Array, r: Array) -> Array:
    # dA = dQ·R + Q·dR with Qᵀ·dQ antisymmetric and dR·R⁻¹ an upper triangle. The lower triangle of
    # Qᵀ·dA·R⁻¹ therefore is that of Qᵀ·dQ and determines both; turned around:
    # gA = (gQ + Q·M)·R⁻ᵀ with M the mirrored lower triangle of R·gRᵀ - gQᵀ·Q.
    m = _mirror_lower(r @ _transpose(gr) - _transpose(gq) @ q)
    return TRIANGULAR_SOLVE(_transpose(r), gq + q @ m, upper=False, left=False, unitriangular=False)


QR = Op("qr", _qr, _qr_rule)


def _check_symmetric(name: str, a: Array, uplo: Triangle) -> None:
    _check_square(name, a, "for other shapes use linalg.svd")
    if uplo not in ("L", "U"):
        raise RuntimeError(f"{name}: UPLO is 'L' or 'U', the triangle to read, but got {uplo!r}")


def _eigh(a: Array, *, uplo: Triangle) -> tuple[Array, Array]:
    _check_symmetric("eigh", a, uplo)
    values, vectors = _converging("eigh", np.linalg.eigh, a, UPLO=uplo)
    return values, vectors


def _eigh_rule(g: Sequence[Array], out: Sequence[Array], a: Array, *, uplo: Triangle) -> Array:
    # From A·V = V·diag(λ), with B = Vᵀ·dA·V: dλ is the diagonal of B, and Vᵀ·dV is Bᵢⱼ / (λⱼ - λᵢ) beside it.
    # B is symmetric, so of Vᵀ·gV the antisymmetric half alone matters, and gA comes out symmetric as A is.
    (g_values, g_vectors), (values, vectors) = g, out
    on_diagonal = _diagonal_mask(a.shape, like=values)
    gaps = values[..., None, :] - values[..., :, None]
    turn = _transpose(vectors) @ g_vectors
    turn = 0.5 * _quotient(turn - _transpose(turn), gaps)
    inner = np.where(on_diagonal, g_values[..., None, :], turn)
    return vectors @ inner @ _transpose(vectors)


EIGH = Op("eigh", _eigh, _eigh_rule)


def _eigvalsh(a: Array, *, uplo: Triangle) -> Array:
    _check_symmetric("eigvalsh", a, uplo)
    return _converging("eigvalsh", np.linalg.eigvalsh, a, UPLO=uplo)


def _eigvalsh_rule(g: Array, out: Array, a: Array, *, uplo: Triangle) -> Array:
    # The eigenvectors are computed here, not in the forward: who wants no gradient does not pay for them.
    _, vectors = np.linalg.eigh(a, UPLO=uplo)
    return (vectors * g[..., None, :]) @ _transpose(vectors)


EIGVALSH = Op("eigvalsh", _eigvalsh, _eigvalsh_rule)


def _eig(a: Array) -> tuple[Array, Array]:
    _check_square("eig", a, "for other shapes use linalg.svd")
    values, vectors = _converging("eig", partial(answered, np.linalg.eig), a)
    kind = np.result_type(a.dtype, np.complex64)
    return values.astype(kind, copy=False), vectors.astype(kind, copy=False)


def _eig_rule(g: Sequence[Array], out: Sequence[Array], a: Array) -> Array:
    # From A·V = V·diag(λ), with B = V⁻¹·dA·V: dλ is the diagonal of B, and V⁻¹·dV is Bᵢⱼ / (λⱼ - λᵢ) beside it. On
    # the diagonal it is what keeps the columns of V at length 1, and leaves each one's phase as it is.
    (g_values, g_vectors), (values, vectors) = g, out
    on_diagonal = _diagonal_mask(a.shape, like=values)
    adjoint = np.conjugate(_transpose(vectors))
    turn = adjoint @ g_vectors
    size = np.diagonal(turn, axis1=-2, axis2=-1)
    if violated(np.any(np.abs(size.imag) > 1e-4 + 1e-2 * np.abs(size.real))):
        raise RuntimeError(
            "eig: the loss depends on the phase of the eigenvectors, which is arbitrary, so there is no derivative; "
            "write a loss of their absolute values, or of products in which the phase cancels"
        )
    turn = turn - (adjoint @ vectors) * size.real[..., None, :]
    gaps = np.conjugate(values[..., None, :] - values[..., :, None])
    inner = np.where(on_diagonal, g_values[..., None, :], _quotient(turn, np.where(on_diagonal, 1, gaps)))
    return SOLVE(adjoint, inner @ adjoint, left=True)


EIG = Op("eig", _eig, _eig_rule)


def _eigvals(a: Array) -> Array:
    _check_square("eigvals", a, "for other shapes use linalg.svdvals")
    values = _converging("eigvals", partial(answered, np.linalg.eigvals), a)
    return values.astype(np.result_type(a.dtype, np.complex64), copy=False)


def _eigvals_rule(g: Array, out: Array, a: Array) -> Array:
    # The eigenvectors are computed here, not in the forward: who wants no gradient does not pay for them.
    _, vectors = answered(np.linalg.eig, a)
    adjoint = np.conjugate(_transpose(vectors))
    return SOLVE(adjoint, g[..., :, None] * adjoint, left=True)


EIGVALS = Op("eigvals", _eigvals, _eigvals_rule)


def _svd(a: Array, *, full_matrices: bool) -> tuple[Array, Array, Array]:
    _check_matrix("svd", a)
    u, s, vh = _converging("svd", np.linalg.svd, a, full_matrices=full_matrices)
    return u, s, vh


def _svd_rule(g: Sequence[Array], out: Sequence[Array], a: Array, *, full_matrices: bool) -> Array:
    (gu, gs, gvh), (u, s, vh) = g, out
    rows, columns = a.shape[-2:]
    if not rows or not columns:
        return np.zeros_like(a)  # nothing to differentiate
    count = min(rows, columns)
    if full_matrices and rows != columns:
        if violated(np.any(gu[..., count:] != 0)) or violated(np.any(gvh[..., count:, :] != 0)):
            raise RuntimeError(
                f"svd: with full_matrices=True and shape {tuple(a.shape)} the singular vectors after the "
                f"first {count} are arbitrary and have no derivative; write full_matrices=False, and "
                "I - U @ U.mT for the projection onto what the first ones leave out"
            )
        gu, u = gu[..., :count], u[..., :count]
        gvh, vh = gvh[..., :count, :], vh[..., :count, :]
    # With B = Uᵀ·dA·V: ds is the diagonal of B. Beside it, P = Uᵀ·dU and Q = Vᵀ·dV are antisymmetric and
    # B = P·diag(s) - diag(s)·Q, which together with its transpose solves to
    # P = (B·diag(s) + diag(s)·Bᵀ) / gaps and Q = (diag(s)·B + Bᵀ·diag(s)) / gaps, gapsᵢⱼ = sⱼ² - sᵢ².
    ut, v = _transpose(u), _transpose(vh)
    row, column = s[..., None, :], s[..., :, None]  # multiply from the right and from the left by diag(s)
    gaps = (row - column) * (row + column)
    on_diagonal = _diagonal_mask(gaps.shape, like=s)
    turn_u = ut @ gu
    turn_v = gvh @ v
    turn_u = _quotient(turn_u - _transpose(turn_u), gaps)
    turn_v = _quotient(_transpose(turn_v) - turn_v, gaps)
    inner = np.where(on_diagonal, gs[..., None, :], turn_u * row + column * turn_v)
    ga = u @ inner @ vh
    # A tall A moves U out of its own column space, (I - U·Uᵀ)·dU = (I - U·Uᵀ)·dA·V·diag(1/s); a wide A does
    # the same to V.
    if rows > count:
        ga = ga + _quotient(gu - u @ (ut @ gu), row) @ vh
    if columns > count:
        ga = ga + u @ _quotient(gvh - (gvh @ v) @ vh, column)
    return ga


SVD = Op("svd", _svd, _svd_rule)


def _svdvals(a: Array) -> Array:
    _check_matrix("svdvals", a)
    return _converging("svdvals", np.linalg.svd, a, compute_uv=False)


def _svdvals_rule(g: Array, out: Array, a: Array) -> Array:
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    return (u * g[..., None, :]) @ vh


SVDVALS = Op("svdvals", _svdvals, _svdvals_rule)

# --- LU, which NumPy has not: one column at a time, for a whole batch -----------------------------


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

# --- the matrix exponential, which NumPy has not --------------------------------------------------

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
