"""minitorch.special: functions of mathematics, by PyTorch's names. Enters: tensors. Leaves: tensors."""

from __future__ import annotations

import math
from typing import Any

from minitorch.engine.record import apply
from minitorch.ops import special as ops
from minitorch.tensor import Tensor
from minitorch.tensor.convert import binary, tensor_for
from minitorch.tensor.methods.activation import log_softmax, sigmoid, softmax
from minitorch.tensor.methods.exponential import exp2, expm1, log1p
from minitorch.tensor.methods.reductions import logsumexp
from minitorch.tensor.methods.rounding import round
from minitorch.tensor.methods.special import (
    digamma,
    erf,
    erfc,
    erfinv,
    i0,
    igamma,
    igammac,
    lgamma,
    logit,
    mvlgamma,
    polygamma,
    sinc,
    xlogy,
)

psi, gammaln, gammainc, gammaincc, multigammaln, expit = digamma, lgamma, igamma, igammac, mvlgamma, sigmoid


def _unary(op: ops.Op, x: Any) -> Tensor:
    return apply(op, tensor_for(x, op.name))


# --- the normal distribution --------------------------------------------------------------------


def ndtr(input: Any) -> Tensor:
    """Φ(x), the share of the normal distribution below x.   dx = g·φ(x)

    >>> ndtr(minitorch.tensor([0.0, 1.0]))
    tensor([0.5000, 0.8413])
    """
    return 0.5 * erfc(tensor_for(input, "ndtr") * -math.sqrt(0.5))


def ndtri(input: Any) -> Tensor:
    """The x below which a share of the normal distribution lies: Φ's inverse.   dx = g / φ(out)

    >>> ndtri(minitorch.tensor([0.5, 0.8413]))
    tensor([0.0000, 0.9998])
    """
    return _unary(ops.NDTRI, input)


def log_ndtr(input: Any) -> Tensor:
    """log Φ(x), without underflow.   dx = g·φ(x) / Φ(x)

    >>> log_ndtr(minitorch.tensor([0.0, -20.0]))
    tensor([  -0.6931, -203.9172])
    """
    return _unary(ops.LOG_NDTR, input)


def erfcx(input: Any) -> Tensor:
    """e^{x²}·erfc(x), where erfc alone would underflow.   dx = g·(2·x·out - 2/√π)

    >>> erfcx(minitorch.tensor([0.0, 10.0]))
    tensor([1.0000, 0.0561])
    """
    return _unary(ops.ERFCX, input)


# --- logarithms ---------------------------------------------------------------------------------


def entr(input: Any) -> Tensor:
    """-x·log x, 0 at 0, -inf below: entropy's summand.   dx = -g·(1 + log x)

    >>> entr(minitorch.tensor([0.0, 0.5]))
    tensor([0.0000, 0.3466])
    """
    return _unary(ops.ENTR, input)


def xlog1py(input: Any, other: Any) -> Tensor:
    """x·log(1 + y), and 0 where x is 0.   dx = g·log(1 + y), dy = g·x / (1 + y)

    >>> xlog1py(minitorch.tensor([0.0, 2.0]), minitorch.tensor([-1.0, 1.0]))
    tensor([0.0000, 1.3863])
    """
    return binary(ops.XLOG1PY, input, other)


def zeta(input: Any, other: Any) -> Tensor:
    """Hurwitz' zeta function, Σ 1 / (k + q)ˣ from k = 0 on.   dq = -g·x·ζ(x + 1, q); none to x

    >>> zeta(minitorch.tensor([2.0]), minitorch.tensor([1.0]))
    tensor([1.6449])
    """
    return binary(ops.ZETA, input, other)


# --- Bessel functions ---------------------------------------------------------------------------


def i0e(input: Any) -> Tensor:
    """e^{-|x|}·I₀(x).   dx = g·(I₁ₑ(x) - sign(x)·out)

    >>> i0e(minitorch.tensor([0.0, 1.0]))
    tensor([1.0000, 0.4658])
    """
    return _unary(ops.I0E, input)


def i1(input: Any) -> Tensor:
    """The modified Bessel function of order 1.   dx = g·(I₀(x) - out / x)

    >>> i1(minitorch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """
    return _unary(ops.I1, input)


def i1e(input: Any) -> Tensor:
    """e^{-|x|}·I₁(x).   dx = g·(I₀ₑ(x) - out·(sign(x) + 1/x))

    >>> i1e(minitorch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2079])
    """
    return _unary(ops.I1E, input)


def bessel_j0(input: Any) -> Tensor:
    """The Bessel function of the first kind, order 0. No derivative, as in PyTorch.

    >>> bessel_j0(minitorch.tensor([0.0]))
    tensor([1.])
    """
    return _unary(ops.BESSEL_J0, input)


def bessel_j1(input: Any) -> Tensor:
    """The Bessel function of the first kind, order 1. No derivative, as in PyTorch.

    >>> bessel_j1(minitorch.tensor([1.0]))
    tensor([0.4401])
    """
    return _unary(ops.BESSEL_J1, input)


def bessel_y0(input: Any) -> Tensor:
    """The Bessel function of the second kind, order 0. No derivative, as in PyTorch.

    >>> bessel_y0(minitorch.tensor([1.0]))
    tensor([0.0883])
    """
    return _unary(ops.BESSEL_Y0, input)


def bessel_y1(input: Any) -> Tensor:
    """The Bessel function of the second kind, order 1. No derivative, as in PyTorch.

    >>> bessel_y1(minitorch.tensor([1.0]))
    tensor([-0.7812])
    """
    return _unary(ops.BESSEL_Y1, input)


def modified_bessel_i0(input: Any) -> Tensor:
    """I₀(x), without a derivative as in PyTorch; i0 has one.

    >>> modified_bessel_i0(minitorch.tensor([0.0]))
    tensor([1.])
    """
    return i0(tensor_for(input, "modified_bessel_i0").detach())


def modified_bessel_i1(input: Any) -> Tensor:
    """I₁(x), without a derivative as in PyTorch; i1 has one.

    >>> modified_bessel_i1(minitorch.tensor([0.0]))
    tensor([0.])
    """
    return i1(tensor_for(input, "modified_bessel_i1").detach())


def modified_bessel_k0(input: Any) -> Tensor:
    """The modified Bessel function of the second kind, order 0. No derivative, as in PyTorch.

    >>> modified_bessel_k0(minitorch.tensor([1.0]))
    tensor([0.4210])
    """
    return _unary(ops.BESSEL_K0, input)


def modified_bessel_k1(input: Any) -> Tensor:
    """The modified Bessel function of the second kind, order 1. No derivative, as in PyTorch.

    >>> modified_bessel_k1(minitorch.tensor([1.0]))
    tensor([0.6019])
    """
    return _unary(ops.BESSEL_K1, input)


def scaled_modified_bessel_k0(input: Any) -> Tensor:
    """eˣ·K₀(x). No derivative, as in PyTorch.

    >>> scaled_modified_bessel_k0(minitorch.tensor([1.0]))
    tensor([1.1445])
    """
    return _unary(ops.BESSEL_K0E, input)


def scaled_modified_bessel_k1(input: Any) -> Tensor:
    """eˣ·K₁(x). No derivative, as in PyTorch.

    >>> scaled_modified_bessel_k1(minitorch.tensor([1.0]))
    tensor([1.6362])
    """
    return _unary(ops.BESSEL_K1E, input)


# --- polynomials, and more without a derivative, as in PyTorch --------------------------------------


def airy_ai(input: Any) -> Tensor:
    """Ai(x), Airy's function. No derivative, as in PyTorch.

    >>> airy_ai(minitorch.tensor([0.0]))
    tensor([0.3550])
    """
    return _unary(ops.AIRY_AI, input)


def spherical_bessel_j0(input: Any) -> Tensor:
    """j₀(x) = sin(x) / x. No derivative, as in PyTorch; sinc(x / π) has one.

    >>> spherical_bessel_j0(minitorch.tensor([0.0, 1.0]))
    tensor([1.0000, 0.8415])
    """
    return _unary(ops.SPHERICAL_BESSEL_J0, input)


def chebyshev_polynomial_t(input: Any, n: Any) -> Tensor:
    """Tₙ(x), Chebyshev's polynomial of the first kind: Tₙ(cos θ) = cos nθ. No derivative, as in PyTorch.

    >>> chebyshev_polynomial_t(minitorch.tensor([0.5]), 2)
    tensor([-0.5000])
    """
    return binary(ops.CHEBYSHEV_T, input, n)


def chebyshev_polynomial_u(input: Any, n: Any) -> Tensor:
    """Uₙ(x), Chebyshev's polynomial of the second kind: Uₙ₊₁ = 2x·Uₙ - Uₙ₋₁. No derivative, as in PyTorch.

    >>> chebyshev_polynomial_u(minitorch.tensor([0.5]), 2)
    tensor([0.])
    """
    return binary(ops.CHEBYSHEV_U, input, n)


def chebyshev_polynomial_v(input: Any, n: Any) -> Tensor:
    """Vₙ(x) = Uₙ - Uₙ₋₁, Chebyshev's polynomial of the third kind. No derivative, as in PyTorch.

    >>> chebyshev_polynomial_v(minitorch.tensor([0.5]), 2)
    tensor([-1.])
    """
    return binary(ops.CHEBYSHEV_V, input, n)


def chebyshev_polynomial_w(input: Any, n: Any) -> Tensor:
    """Wₙ(x) = Uₙ + Uₙ₋₁, Chebyshev's polynomial of the fourth kind. No derivative, as in PyTorch.

    >>> chebyshev_polynomial_w(minitorch.tensor([0.5]), 2)
    tensor([1.])
    """
    return binary(ops.CHEBYSHEV_W, input, n)


def shifted_chebyshev_polynomial_t(input: Any, n: Any) -> Tensor:
    """Tₙ(2x - 1). No derivative, as in PyTorch.

    >>> shifted_chebyshev_polynomial_t(minitorch.tensor([0.5]), 2)
    tensor([-1.])
    """
    return binary(ops.SHIFTED_T, input, n)


def shifted_chebyshev_polynomial_u(input: Any, n: Any) -> Tensor:
    """Uₙ(2x - 1). No derivative, as in PyTorch.

    >>> shifted_chebyshev_polynomial_u(minitorch.tensor([0.5]), 2)
    tensor([-1.])
    """
    return binary(ops.SHIFTED_U, input, n)


def shifted_chebyshev_polynomial_v(input: Any, n: Any) -> Tensor:
    """Vₙ(2x - 1). No derivative, as in PyTorch.

    >>> shifted_chebyshev_polynomial_v(minitorch.tensor([0.5]), 2)
    tensor([-1.])
    """
    return binary(ops.SHIFTED_V, input, n)


def shifted_chebyshev_polynomial_w(input: Any, n: Any) -> Tensor:
    """Wₙ(2x - 1). No derivative, as in PyTorch.

    >>> shifted_chebyshev_polynomial_w(minitorch.tensor([0.5]), 2)
    tensor([-1.])
    """
    return binary(ops.SHIFTED_W, input, n)


def hermite_polynomial_h(input: Any, n: Any) -> Tensor:
    """Hₙ(x), Hermite's polynomial of the physicists: Hₙ₊₁ = 2x·Hₙ - 2n·Hₙ₋₁. No derivative, as in PyTorch.

    >>> hermite_polynomial_h(minitorch.tensor([0.5]), 2)
    tensor([-1.])
    """
    return binary(ops.HERMITE_H, input, n)


def hermite_polynomial_he(input: Any, n: Any) -> Tensor:
    """Heₙ(x), Hermite's polynomial of probability: Heₙ₊₁ = x·Heₙ - n·Heₙ₋₁. No derivative, as in PyTorch.

    >>> hermite_polynomial_he(minitorch.tensor([0.5]), 2)
    tensor([-0.7500])
    """
    return binary(ops.HERMITE_HE, input, n)


def laguerre_polynomial_l(input: Any, n: Any) -> Tensor:
    """Lₙ(x), Laguerre's polynomial. No derivative, as in PyTorch.

    >>> laguerre_polynomial_l(minitorch.tensor([0.5]), 2)
    tensor([0.1250])
    """
    return binary(ops.LAGUERRE_L, input, n)


def legendre_polynomial_p(input: Any, n: Any) -> Tensor:
    """Pₙ(x), Legendre's polynomial. No derivative, as in PyTorch.

    >>> legendre_polynomial_p(minitorch.tensor([0.5]), 2)
    tensor([-0.1250])
    """
    return binary(ops.LEGENDRE_P, input, n)


__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t",
    "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w", "digamma", "entr", "erf",
    "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln",
    "hermite_polynomial_h", "hermite_polynomial_he", "i0", "i0e", "i1", "i1e", "laguerre_polynomial_l",
    "legendre_polynomial_p", "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp", "modified_bessel_i0",
    "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "multigammaln", "ndtr", "ndtri",
    "polygamma", "psi", "round", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w", "sinc", "softmax", "spherical_bessel_j0", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
