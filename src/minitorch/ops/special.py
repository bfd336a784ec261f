"""Special functions, most of them SciPy's: gamma functions, error functions, Bessel functions, logarithms of products.

Enters: arrays that broadcast against each other. Leaves: an array of their common shape. SciPy is loaded at
first use. A rule names another op where a special function is another's derivative, so that derivatives of every
order exist.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.ops import error_function
from minitorch.ops.native import answered
from minitorch.ops.op import Array, Op


@functools.cache
def special(name: str) -> Callable[..., Any]:
    """Return a function of scipy.special, which takes a tenth of a second to import, at first use."""
    import scipy.special

    return functools.partial(answered, getattr(scipy.special, name))


_SQRT_PI = math.sqrt(math.pi)


def _scipy(name: str) -> Callable[..., Array]:
    """Return a forward that calls SciPy's function, in the array's own dtype (it has none in half precision)."""
    return lambda x: special(name)(x).astype(x.dtype, copy=False)


# --- gamma functions -----------------------------------------------------------------------------


def _polygamma(x: Array, *, n: int) -> Array:
    # ψ⁽ⁿ⁾(x) = (-1)ⁿ⁺¹·n!·ζ(n + 1, x), with Hurwitz' zeta function.
    if n == 0:
        return _scipy("digamma")(x)
    size = math.factorial(n) * special("zeta")(float(n + 1), x)
    return (size if n % 2 else -size).astype(x.dtype, copy=False)


LGAMMA = Op("lgamma", _scipy("gammaln"), lambda g, out, x: g * DIGAMMA(x), floating=True)


def _digamma(x: Array) -> Array:
    # At the poles 0, -1, -2, … the sign depends on the side: none at the negative ones, -inf at +0.
    value = _scipy("digamma")(x)
    pole = (x < 0) & (x == np.floor(x))
    at_zero = np.copysign(np.inf, -x)
    return np.where(pole, np.nan, np.where(x == 0, at_zero, value)).astype(x.dtype, copy=False)


DIGAMMA: Op = Op("digamma", _digamma, lambda g, out, x: g * POLYGAMMA(x, n=1), floating=True)
POLYGAMMA: Op = Op("polygamma", _polygamma, lambda g, out, x, *, n: g * POLYGAMMA(x, n=n + 1), floating=True)


def _igamma(name: str) -> Callable[..., Array]:
    return lambda a, x: special(name)(a, x).astype(np.result_type(a, x), copy=False)


def _igamma_rule(g: Array, out: Array, a: Array, x: Array) -> Array:
    # The density of the gamma distribution: x^(a-1)·e^(-x) / Γ(a).
    return g * np.exp((a - 1) * np.log(x) - x - LGAMMA(a))


# No derivative with respect to the shape a, as in PyTorch.
IGAMMA = Op("igamma", _igamma("gammainc"), None, _igamma_rule, floating=True)
IGAMMAC = Op(
    "igammac", _igamma("gammaincc"), None, lambda g, out, a, x: -_igamma_rule(g, out, a, x), floating=True
)


def _zeta(x: Array, q: Array) -> Array:
    dtype = np.result_type(*(each for each in (x, q) if hasattr(each, "dtype")))
    return special("zeta")(x, q).astype(dtype, copy=False)


ZETA: Op = Op("zeta", _zeta, None, lambda g, out, x, q: -g * x * ZETA(x + 1, q), floating=True)

# --- error functions and the normal distribution -------------------------------------------------

ERF = Op(
    "erf",
    error_function.erf,
    lambda g, out, x: g * (2 / _SQRT_PI * np.exp(-x * x)),
    floating=True,
    native=True,
    elementwise=True,
    costly=True,
    whole=True,
)


def _erfc(x: Array) -> Array:
    if x.__class__ is np.ndarray or isinstance(x, np.generic) or x.dtype not in error_function.ERF:
        return error_function.erfc(x)
    return np.where(x > 0.5, error_function.erfc_tail(np.maximum(x, 0.5)), 1 - ERF(x))


ERFC = Op(
    "erfc",
    _erfc,
    lambda g, out, x: g * (-2 / _SQRT_PI * np.exp(-x * x)),
    floating=True,
    native=True,
    elementwise=True,
    costly=True,
)
ERFINV: Op = Op(
    "erfinv",
    _scipy("erfinv"),
    lambda g, out, x: g * (0.5 * _SQRT_PI * np.exp(np.square(ERFINV(x)))),
    floating=True,
)
# erfcx(x) = e^{x²}·erfc(x), where erfc alone would underflow.
ERFCX = Op("erfcx", _scipy("erfcx"), lambda g, out, x: g * (2 * x * out - 2 / _SQRT_PI), floating=True)
NDTRI = Op(
    "ndtri",
    _scipy("ndtri"),
    lambda g, out, x: g * (math.sqrt(2 * math.pi) * np.exp(0.5 * out * out)),
    floating=True,
)
LOG_NDTR = Op(
    "log_ndtr",
    _scipy("log_ndtr"),
    # φ(x) / Φ(x), the density over its integral, without underflow.
    lambda g, out, x: g * (math.sqrt(2 / math.pi) / ERFCX(x * -math.sqrt(0.5))),
    floating=True,
)

# --- Bessel functions ----------------------------------------------------------------------------


def _i1_slope(x: Array, upper: Array, out: Array) -> Array:
    """Return I₀(x) - I₁(x) / x, whose limit at 0 is ½."""
    tiny = np.absolute(x) < 1e-12
    return np.where(tiny, 0.5, upper - out / np.where(tiny, 1, x))


I0 = Op("i0", _scipy("i0"), lambda g, out, x: g * I1(x), floating=True)
I1: Op = Op("i1", _scipy("i1"), lambda g, out, x: g * _i1_slope(x, I0(x), out), floating=True)
# The same times e^{-|x|}.
I0E = Op("i0e", _scipy("i0e"), lambda g, out, x: g * (I1E(x) - np.sign(x) * out), floating=True)
I1E: Op = Op(
    "i1e",
    _scipy("i1e"),
    lambda g, out, x: g * (_i1_slope(x, I0E(x), out) - np.sign(x) * out),
    floating=True,
)
# Without a derivative, as in PyTorch.
BESSEL_J0 = Op("bessel_j0", _scipy("j0"), floating=True)
BESSEL_J1 = Op("bessel_j1", _scipy("j1"), floating=True)
BESSEL_Y0 = Op("bessel_y0", _scipy("y0"), floating=True)
BESSEL_Y1 = Op("bessel_y1", _scipy("y1"), floating=True)
BESSEL_K0 = Op("modified_bessel_k0", _scipy("k0"), floating=True)
BESSEL_K1 = Op("modified_bessel_k1", _scipy("k1"), floating=True)
BESSEL_K0E = Op("scaled_modified_bessel_k0", _scipy("k0e"), floating=True)
BESSEL_K1E = Op("scaled_modified_bessel_k1", _scipy("k1e"), floating=True)

AIRY_AI = Op("airy_ai", lambda x: special("airy")(x)[0].astype(x.dtype, copy=False), floating=True)
SPHERICAL_BESSEL_J0 = Op(
    "spherical_bessel_j0", lambda x: np.where(x == 0, 1, np.sin(x) / np.where(x == 0, 1, x)), floating=True
)

# --- polynomials, of x and a degree n: without a derivative, as in PyTorch -------------------------


def _polynomial(name: str, value: Callable[[Array, Array], Array]) -> Op:
    """Return the op of a family of polynomials: 0 where the degree is negative."""

    def forward(x: Array, n: Array) -> Array:
        degree = n.astype(np.int64) if hasattr(n, "astype") else int(n)
        dtype = np.result_type(*(each for each in (x, n) if hasattr(each, "dtype")))
        return np.where(degree < 0, 0, value(x, np.maximum(degree, 0))).astype(dtype, copy=False)

    return Op(name, forward, floating=True)


def _third(x: Array, n: Array) -> Array:
    return special("eval_chebyu")(n, x) - np.where(n > 0, special("eval_chebyu")(np.maximum(n - 1, 0), x), 0)


def _fourth(x: Array, n: Array) -> Array:
    return special("eval_chebyu")(n, x) + np.where(n > 0, special("eval_chebyu")(np.maximum(n - 1, 0), x), 0)


CHEBYSHEV_T = _polynomial("chebyshev_polynomial_t", lambda x, n: special("eval_chebyt")(n, x))
CHEBYSHEV_U = _polynomial("chebyshev_polynomial_u", lambda x, n: special("eval_chebyu")(n, x))
CHEBYSHEV_V = _polynomial("chebyshev_polynomial_v", _third)
CHEBYSHEV_W = _polynomial("chebyshev_polynomial_w", _fourth)
SHIFTED_T = _polynomial("shifted_chebyshev_polynomial_t", lambda x, n: special("eval_sh_chebyt")(n, x))
SHIFTED_U = _polynomial("shifted_chebyshev_polynomial_u", lambda x, n: special("eval_sh_chebyu")(n, x))
SHIFTED_V = _polynomial("shifted_chebyshev_polynomial_v", lambda x, n: _third(2 * x - 1, n))
SHIFTED_W = _polynomial("shifted_chebyshev_polynomial_w", lambda x, n: _fourth(2 * x - 1, n))
HERMITE_H = _polynomial("hermite_polynomial_h", lambda x, n: special("eval_hermite")(n, x))
HERMITE_HE = _polynomial("hermite_polynomial_he", lambda x, n: special("eval_hermitenorm")(n, x))
LAGUERRE_L = _polynomial("laguerre_polynomial_l", lambda x, n: special("eval_laguerre")(n, x))
LEGENDRE_P = _polynomial("legendre_polynomial_p", lambda x, n: special("eval_legendre")(n, x))

# --- logarithms of products ----------------------------------------------------------------------


def _in_dtype_of(x: Array, number: Array) -> Array:
    """Return a Python number in an array's dtype: np.where takes it for float64."""
    return number if hasattr(number, "dtype") else x.dtype.type(number)


def _xlogy(x: Array, y: Array) -> Array:
    # 0·log y is 0, also at y = 0; a nan stays one.
    zero = (x == 0) & ~np.isnan(y)
    return np.where(zero, 0, x * np.log(np.where(zero, 1, _in_dtype_of(x, y))))


def _xlogy_x(g: Array, out: Array, x: Array, y: Array) -> Array:
    flat = (x == 0) & (y <= 0)
    return np.where(flat, 0, g * np.log(np.where(flat, 1, _in_dtype_of(x, y))))


XLOGY = Op(
    "xlogy", _xlogy, _xlogy_x, lambda g, out, x, y: g * x / y, floating=True, elementwise=True, there=True
)


def _xlog1py(x: Array, y: Array) -> Array:
    zero = (x == 0) & ~np.isnan(y)
    return np.where(zero, 0, x * np.log1p(np.where(zero, 0, _in_dtype_of(x, y))))


def _xlog1py_x(g: Array, out: Array, x: Array, y: Array) -> Array:
    flat = (x == 0) & (y <= -1)
    return np.where(flat, 0, g * np.log1p(np.where(flat, 0, _in_dtype_of(x, y))))


XLOG1PY = Op(
    "xlog1py",
    _xlog1py,
    _xlog1py_x,
    lambda g, out, x, y: g * x / (y + 1),
    floating=True,
    elementwise=True,
    there=True,
)
ENTR = Op("entr", _scipy("entr"), lambda g, out, x: -g * (1 + np.log(x)), floating=True)


def _logit_rule(g: Array, out: Array, x: Array) -> Array:
    return np.where((x < 0) | (x > 1), np.nan, g / (x * (1 - x)))


LOGIT = Op("logit", lambda x: np.log(x / (1 - x)), _logit_rule, floating=True, elementwise=True, there=True)

# --- the wave sin(πx) / (πx) ---------------------------------------------------------------------


def _sinc_rule(g: Array, out: Array, x: Array) -> Array:
    flat = x == 0
    return np.where(flat, 0, g * (np.cos(math.pi * x) - out) / np.where(flat, 1, x))


def _sinc(x: Array) -> Array:
    flat = x == 0
    angle = math.pi * np.where(flat, 1, x)
    return np.where(flat, 1, np.sin(angle) / angle)


# sin(πx) / (πx).
SINC = Op("sinc", _sinc, _sinc_rule, floating=True, elementwise=True, there=True)
