"""The table's rows for the rarer families: special functions, writing by index, LU, complex numbers, …

Enters: nothing. Leaves: rows in table.CASES, which imports this file at its end.
"""

from __future__ import annotations

from typing import Any

from minitorch.proof.table import (
    case,
    distinct,
    fixed,
    fixed_index,
    integers,
    matrix,
    normal,
    positive,
    unit,
)

# --- special functions --------------------------------------------------------------------------

for _name in ("lgamma", "digamma", "erfc", "i0", "sinc"):
    case(_name, lambda m, x, n=_name: getattr(m, n)(x), positive(3, 5))
case("erfinv", lambda m, x: m.erfinv(x), unit(3, 5))
case("polygamma", lambda m, x: m.polygamma(1, x), positive(3, 5))
case("polygamma", lambda m, x: m.polygamma(2, x), positive(4))
# No derivative with respect to the first argument: integers, made floats.
for _name in ("igamma", "igammac"):
    case(
        _name,
        lambda m, a, x, n=_name: getattr(m, n)(a.to(x.dtype) + 0.3, x),
        integers(4, 3, 5),
        positive(5),
    )
case("zeta", lambda m, a, x: m.special.zeta(a.to(x.dtype) + 1.5, x), integers(4, 3, 5), positive(5))
for _name in ("erfcx", "log_ndtr", "i0e", "i1", "i1e"):
    case(_name, lambda m, x, n=_name: getattr(m.special, n)(x), normal(3, 5))
case("entr", lambda m, x: m.special.entr(x), positive(3, 5))
case("ndtri", lambda m, x: m.special.ndtri(x), lambda rng: rng.uniform(0.1, 0.9, size=(3, 5)))
case("logit", lambda m, x: m.logit(x), lambda rng: rng.uniform(0.1, 0.9, size=(3, 5)))
for _name in (
    "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
):  # fmt: skip
    # PyTorch's own are exact to about 1e-7.
    case(
        _name,
        lambda m, x, n=_name: m.round(getattr(m.special, n)(x), decimals=5),
        positive(3, 5),
        differentiable=False,
    )
case("xlogy", lambda m, x, y: m.xlogy(x, y), normal(3, 5), positive(5))
case("xlogy", lambda m, y: m.xlogy(m.where(y > 1, y, 0.0), y), positive(5))
case("xlog1py", lambda m, x, y: m.special.xlog1py(x, y), normal(3, 5), positive(5))
case("logaddexp2", lambda m, x, y: m.logaddexp2(x, y), normal(3, 5), normal(3, 1))

# --- signs, extremes, bits ----------------------------------------------------------------------

case("copysign", lambda m, x, y: m.copysign(x, y), normal(3, 5), normal(5))
for _name in ("fmax", "fmin"):
    case(_name, lambda m, x, y, n=_name: getattr(m, n)(x, y), normal(3, 5), normal(3, 1))
case("nextafter", lambda m, x, y: m.nextafter(x, y), normal(3, 5), normal(5))
case("heaviside", lambda m, x, y: m.heaviside(x, y), fixed(-1.0, 0.0, 2.0), positive(3), differentiable=False)
case("signbit", lambda m, x: m.signbit(x), normal(3, 5), differentiable=False)
case("frexp_mantissa", lambda m, x: m.frexp(x).mantissa, fixed(0.7, -1.3, 5.1, 0.03))
case("frexp_exponent", lambda m, x: m.frexp(x).exponent, normal(3, 5), differentiable=False)
for _name in ("gcd", "lcm", "bitwise_left_shift", "bitwise_right_shift"):
    case(
        _name,
        lambda m, x, y, n=_name: getattr(m, n)(x, y),
        integers(50, 3, 5),
        integers(6, 5),
        differentiable=False,
    )

# --- running extremes and log-sums, places ------------------------------------------------------

for _name in ("cummax", "cummin"):
    case(f"{_name}_places", lambda m, x, n=_name: getattr(m, n)(x, 1), distinct(3, 5))
case("mode_places", lambda m, x: m.mode(x, 1).values, integers(3, 4, 7), differentiable=False)
case("logcumsumexp", lambda m, x: m.logcumsumexp(x, 0), normal(4, 3))
case("logcumsumexp", lambda m, x: m.logcumsumexp(x, -1), normal(2, 5))
case(
    "searchsorted",
    lambda m, x, y: m.searchsorted(m.sort(x).values, y, right=True),
    distinct(7),
    normal(3, 5),
    differentiable=False,
)

# --- writing and folding by index ---------------------------------------------------------------

case(
    "index_put",
    lambda m, x, y: m.index_put(x, (m.tensor([0, 2]), m.tensor([1, 1])), y),
    normal(3, 5),
    normal(2),
)
case("index_put", lambda m, x, y: m.slice_scatter(x, y, 1, 1, 5, 2), normal(3, 5), normal(3, 2))
case("index_put", lambda m, x, y: m.diagonal_scatter(x, y, 1), normal(3, 5), normal(3))
case("index_put", lambda m, x, y: m.index_copy(x, 1, m.tensor([3, 0]), y), normal(3, 5), normal(3, 2))
for _reduce in ("amax", "amin", "prod"):
    for _include in (True, False):
        case(
            "scatter_reduce",
            lambda m, x, i, y, r=_reduce, s=_include: m.scatter_reduce(x, 0, i, y, r, include_self=s),
            distinct(3, 5),
            integers(3, 4, 5),
            lambda rng: distinct(4, 5)(rng) + 0.11,
        )
case(
    "scatter_reduce",
    lambda m, x, y: m.scatter_reduce(x, 0, fixed_index(m), y, "prod"),
    normal(3, 5),
    lambda rng: rng.normal(size=(2, 5)) * (rng.uniform(size=(2, 5)) < 0.7),
)

# --- LU and the exponential ---------------------------------------------------------------------


def _swapped(m: Any, a: Any) -> Any:
    """Matrices whose largest elements are not on the diagonal: rows must be exchanged."""
    return m.flip(a, (-2,))


case("lu_plain", lambda m, a: m.linalg.lu_factor(_swapped(m, a)).LU, matrix(2, 3, 3))
case("lu_plain", lambda m, a: m.linalg.lu(_swapped(m, a))[1:], matrix(4, 3))
case("lu_plain", lambda m, a: m.linalg.lu(_swapped(m, a))[1:], matrix(3, 4))
case(
    "lu_swaps", lambda m, a: m.linalg.lu_factor(_swapped(m, a)).pivots, matrix(2, 3, 3), differentiable=False
)
case("lu_order", lambda m, a: m.linalg.lu(_swapped(m, a)).P, matrix(2, 3, 3), differentiable=False)
case("matrix_exp", lambda m, a: m.linalg.matrix_exp(a), normal(2, 3, 3))
case("matrix_exp", lambda m, a: m.matrix_exp(a), lambda rng: rng.normal(size=(2, 2)) * 4)

# --- complex numbers ----------------------------------------------------------------------------
#
# Inputs are real here: made complex, computed with, and taken apart again, so that every reading of the table
# (gradcheck, second order, compiled) serves.


def _parts(m: Any, z: Any) -> Any:
    return m.view_as_real(m.resolve_conj(z))


case("complex", lambda m, x, y: _parts(m, m.complex(x, y)), normal(3, 5), normal(3, 5))
case("real", lambda m, x, y: (m.complex(x, y) ** 2).real, normal(3, 5), normal(3, 5))
case("imag", lambda m, x, y: (m.complex(x, y) * (2 + 1j)).imag, normal(3, 5), normal(3, 5))
case("conj", lambda m, x, y: _parts(m, m.conj(m.complex(x, y)) * m.complex(y, x)), normal(3, 5), normal(3, 5))
case("abs", lambda m, x, y: m.abs(m.complex(x, y)), normal(3, 5), normal(3, 5))
case("angle", lambda m, x, y: m.angle(m.complex(x, y)), positive(3, 5), positive(3, 5))
case("polar", lambda m, x, y: _parts(m, m.polar(x, y)), positive(3, 5), normal(3, 5))
case("view_as_real", lambda m, x: m.view_as_real(m.exp(m.view_as_complex(x))), normal(3, 2))
case("fft", lambda m, x: _parts(m, m.fft.fft(x)), normal(3, 5))
case("fft", lambda m, x, y: _parts(m, m.fft.ifftn(m.complex(x, y), norm="ortho")), normal(3, 4), normal(3, 4))
case("fft", lambda m, x: _parts(m, m.fft.rfft(x, n=6, dim=0)), normal(4, 3))
case("fft", lambda m, x, y: m.fft.irfft2(m.complex(x, y)), normal(2, 3, 4), normal(2, 3, 4))
case("fft", lambda m, x, y: m.fft.hfft(m.complex(x, y), norm="forward"), normal(5), normal(5))
case("fft", lambda m, x: _parts(m, m.fft.ihfft(x)), normal(2, 5))
