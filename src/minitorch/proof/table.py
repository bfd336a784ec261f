"""The table: every op once or more, with the inputs it is tried on, by the families of ops/ and tensor/methods/.

Enters: nothing. Leaves: the rows, in `CASES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.proof.cases import CASES as CASES
from minitorch.proof.cases import (
    FUNCTIONAL,
    SAME,
    Maker,
    above_one,
    bools,
    case,
    distinct,
    eighths,
    fixed,
    integers,
    matrix,
    normal,
    plain_cases,
    positive,
    unit,
)

# --- arithmetic ----------------------------------------------------------------------------------

for _name in ("add", "sub", "mul"):
    case(_name, lambda m, x, y, n=_name: getattr(m, n)(x, y), normal(3, 5), normal(3, 5))
    case(_name, lambda m, x, y, n=_name: getattr(m, n)(x, y), normal(20, 3, 5), normal(3, 1))
    case(_name, lambda m, x, n=_name: getattr(m, n)(x, 2.5), normal(3, 5))
case("add", lambda m, x, y: m.add(x, y, alpha=0.5) + 1, normal(5), normal(3, 5))
case("sub", lambda m, x, y: 1 - m.sub(x, y, alpha=2), normal(5), normal(3, 5))
plain_cases("div", normal(3, 5), normal(5))
case("div", lambda m, x: 2.0 / x, normal(3, 5))
case("div", lambda m, x: m.div(x, 0.7, rounding_mode="floor"), distinct(3, 5))
case("div", lambda m, x: m.div(x, 0.7, rounding_mode="trunc"), distinct(3, 5))
case("floor_divide", lambda m, x, y: x // y, integers(50, 3, 5), fixed(3, 4, 5, 6, 7), differentiable=False)
case(
    "floor_divide",
    lambda m, x: m.floor_divide(x, 0.7),
    distinct(3, 5),
    torch=lambda t, x: t.div(x, 0.7, rounding_mode="floor"),
)
plain_cases("remainder", distinct(3, 5), fixed(0.61, 0.83, 1.13, -0.71, -1.3))
case("remainder", lambda m, x: x % -0.73, distinct(3, 5))
plain_cases("fmod", distinct(3, 5), fixed(0.61, 0.83, 1.13, -0.71, -1.3))
case("neg", lambda m, x: m.neg(-x) * -x, normal(3, 5))
plain_cases("pow", positive(3, 5), normal(5))
case("pow", lambda m, x: x**3, normal(3, 5))
case("pow", lambda m, x: m.pow(x, 2), normal(3, 5))
case("pow", lambda m, x: x**-1.5, positive(3, 5))
case("pow", lambda m, x: 2.0**x, normal(3, 5))
plain_cases("square reciprocal", normal(3, 5))
plain_cases("lerp", normal(3, 5), normal(5), normal(3, 1))
case("lerp", lambda m, x, y: m.lerp(x, y, 0.3), normal(3, 5), normal(3, 5))
plain_cases("abs sign", normal(3, 5))
plain_cases("copysign", normal(3, 5), normal(5))
plain_cases("gcd lcm", integers(50, 3, 5), integers(6, 5), differentiable=False)
case("abs", lambda m, x, y: m.abs(m.complex(x, y)), normal(3, 5), normal(3, 5))

# --- exponential ---------------------------------------------------------------------------------

plain_cases("exp exp2 expm1", normal(3, 5))
plain_cases("log log2 log10 sqrt rsqrt log1p", positive(3, 5))
plain_cases("logaddexp logaddexp2", normal(3, 5), normal(3, 1))
case("frexp_mantissa", lambda m, x: m.frexp(x).mantissa, fixed(0.7, -1.3, 5.1, 0.03))
case("frexp_exponent", lambda m, x: m.frexp(x).exponent, normal(3, 5), differentiable=False)

# --- trigonometric -------------------------------------------------------------------------------

plain_cases("sin cos sinh cosh asinh atan", normal(3, 5))
plain_cases("asin acos atanh tan", unit(3, 5))
plain_cases("acosh", above_one(3, 5))
plain_cases("atan2 hypot", normal(3, 5), normal(3, 1))

# --- activation ----------------------------------------------------------------------------------

plain_cases("tanh sigmoid relu", normal(3, 5))
for _name in ("silu", "gelu", "softplus", "leaky_relu", "elu"):
    case(_name, lambda m, x, n=_name: getattr(m, n)(x), normal(3, 5), torch=FUNCTIONAL)
case("hardswish", lambda m, x: m.nn.functional.hardswish(x), lambda r: r.uniform(-5, 5, (3, 5)))
case("gelu_tanh", lambda m, x: m.gelu(x, approximate="tanh"), normal(3, 5), torch=FUNCTIONAL)
case("softplus", lambda m, x: m.softplus(x, 2.0, 1.0), normal(3, 5), torch=FUNCTIONAL)
case("leaky_relu", lambda m, x: m.leaky_relu(x, 0.3), normal(3, 5), torch=FUNCTIONAL)
case("elu", lambda m, x: m.elu(x, 0.7), normal(3, 5), torch=FUNCTIONAL)
for _name in ("softmax", "log_softmax"):
    case(_name, lambda m, x, n=_name: getattr(m, n)(x, dim=-1), normal(3, 5))
    case(_name, lambda m, x, n=_name: getattr(m, n)(x, dim=0), normal(2, 3, 2))

# --- comparison ----------------------------------------------------------------------------------

plain_cases("maximum minimum", normal(3, 5), normal(3, 1))
case("clip", lambda m, x: m.clamp(x, -0.5, 0.8), distinct(3, 5))
case("clip", lambda m, x: m.clip(x, min=0.1), distinct(3, 5))
case("clip", lambda m, x: m.clamp(x, max=0.1), distinct(3, 5))
plain_cases("clamp", distinct(3, 5), lambda r: -r.uniform(0.4, 0.5, 5), positive(3, 1))
plain_cases("where", bools(3, 5), normal(3, 5), normal(5))
case("where", lambda m, c, x: m.where(c, x, 0.5), bools(3, 5), normal(5))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    case(
        _name,
        lambda m, x, y, n=_name: getattr(m, n)(x, y),
        integers(3, 3, 5),
        integers(3, 5),
        differentiable=False,
    )
    case(_name, lambda m, x, n=_name: getattr(m, n)(x, 0.1), normal(3, 5), differentiable=False)
plain_cases("logical_and logical_or logical_xor", bools(3, 5), integers(2, 5), differentiable=False)
plain_cases("bitwise_and bitwise_or bitwise_xor", integers(9, 3, 5), integers(9, 5), differentiable=False)
plain_cases("logical_not", integers(2, 3, 5), differentiable=False)
case("bitwise_not", lambda m, x: m.bitwise_not(~x), integers(9, 3, 5), differentiable=False)
plain_cases("isnan isinf isfinite", fixed(1.0, math.nan, math.inf, -math.inf), differentiable=False)
case("isclose", lambda m, x, y: m.isclose(x, y, rtol=0.1), positive(3, 5), positive(5), differentiable=False)
plain_cases("fmax fmin", normal(3, 5), normal(3, 1))
plain_cases("heaviside", fixed(-1.0, 0.0, 2.0), positive(3), differentiable=False)
plain_cases("signbit", normal(3, 5), differentiable=False)
plain_cases(
    "bitwise_left_shift bitwise_right_shift", integers(50, 3, 5), integers(6, 5), differentiable=False
)

# --- rounding ------------------------------------------------------------------------------------

plain_cases("floor ceil trunc round", distinct(3, 5))
case("round", lambda m, x: m.round(x, decimals=1), distinct(3, 5))
case("to_int", lambda m, x: x.to(m.int64), normal(3, 5), differentiable=False)
case("cast", lambda m, x: x.to(m.float32).to(m.float64), eighths(3, 5))
plain_cases("nextafter", normal(3, 5), normal(5))

# --- special -------------------------------------------------------------------------------------

plain_cases("erf", normal(3, 5))
plain_cases("lgamma digamma erfc i0 sinc", positive(3, 5))
plain_cases("erfinv", unit(3, 5))
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
plain_cases("logit", lambda rng: rng.uniform(0.1, 0.9, size=(3, 5)))
for _name in (
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
):
    # PyTorch's own are exact to about 1e-7.
    case(
        _name,
        lambda m, x, n=_name: m.round(getattr(m.special, n)(x), decimals=5),
        positive(3, 5),
        differentiable=False,
    )
for _name in ("airy_ai", "spherical_bessel_j0"):
    case(
        _name,
        lambda m, x, n=_name: m.round(getattr(m.special, n)(x), decimals=5),
        positive(3, 5),
        differentiable=False,
    )
for _name in (
    *(f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
    *("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"),
):
    case(
        _name,
        lambda m, x, k, n=_name: getattr(m.special, n)(x, k),
        normal(3, 5),
        integers(6, 5),
        differentiable=False,
    )
plain_cases("xlogy", normal(3, 5), positive(5))
case("xlogy", lambda m, y: m.xlogy(m.where(y > 1, y, 0.0), y), positive(5))
case("xlog1py", lambda m, x, y: m.special.xlog1py(x, y), normal(3, 5), positive(5))

# --- complex -------------------------------------------------------------------------------------
#
# Inputs are real here: made complex, computed with, and taken apart again, so that every reading of the table
# (gradcheck, second order, compiled) serves.


def _parts(m: Any, z: Any) -> Any:
    return m.view_as_real(m.resolve_conj(z))


case("complex", lambda m, x, y: _parts(m, m.complex(x, y)), normal(3, 5), normal(3, 5))
case("real", lambda m, x, y: (m.complex(x, y) ** 2).real, normal(3, 5), normal(3, 5))
case("imag", lambda m, x, y: (m.complex(x, y) * (2 + 1j)).imag, normal(3, 5), normal(3, 5))
case("conj", lambda m, x, y: _parts(m, m.conj(m.complex(x, y)) * m.complex(y, x)), normal(3, 5), normal(3, 5))
case("angle", lambda m, x, y: m.angle(m.complex(x, y)), positive(3, 5), positive(3, 5))
case("polar", lambda m, x, y: _parts(m, m.polar(x, y)), positive(3, 5), normal(3, 5))
case("view_as_real", lambda m, x: m.view_as_real(m.exp(m.view_as_complex(x))), normal(3, 2))
case("fft", lambda m, x: _parts(m, m.fft.fft(x)), normal(3, 5))
case("fft", lambda m, x, y: _parts(m, m.fft.ifftn(m.complex(x, y), norm="ortho")), normal(3, 4), normal(3, 4))
case("fft", lambda m, x: _parts(m, m.fft.rfft(x, n=6, dim=0)), normal(4, 3))
case("fft", lambda m, x, y: m.fft.irfft2(m.complex(x, y)), normal(2, 3, 4), normal(2, 3, 4))
case("fft", lambda m, x, y: m.fft.hfft(m.complex(x, y), norm="forward"), normal(5), normal(5))
case("fft", lambda m, x: _parts(m, m.fft.ihfft(x)), normal(2, 5))

# --- reductions ----------------------------------------------------------------------------------

for _name in ("sum", "mean", "prod", "amax", "amin", "logsumexp", "var", "std", "norm"):
    _torch_all: Any = SAME
    if _name == "logsumexp":
        _torch_all = lambda t, x: t.logsumexp(x, dim=tuple(range(x.ndim)))
    case(_name, lambda m, x, n=_name: getattr(m, n)(x), distinct(3, 5), torch=_torch_all)
    case(_name, lambda m, x, n=_name: getattr(m, n)(x, dim=1), distinct(3, 5))
    case(_name, lambda m, x, n=_name: getattr(m, n)(x, dim=-2, keepdim=True), distinct(2, 3, 5))
    if _name != "prod":
        case(_name, lambda m, x, n=_name: getattr(m, n)(x, dim=(0, -1)), distinct(2, 3, 5))
case(
    "prod",
    lambda m, x: m.prod(x, axis=(0, -1)),
    distinct(2, 3, 2),
    torch=lambda t, x: t.prod(t.prod(x, 2), 0),
)
case("var", lambda m, x: m.var(x, dim=1, correction=0), normal(3, 5))
case("std", lambda m, x: m.std(x, dim=1, unbiased=False), normal(3, 5))
for _p in (1, 2, 3, 1.5, 0.7, math.inf, -math.inf, 0):
    case("norm", lambda m, x, p=_p: m.norm(x, p, dim=1), distinct(3, 5))
case("norm", lambda m, x: m.norm(x, "fro"), normal(3, 5))
case("norm", lambda m, x: m.norm(x, "nuc"), normal(3, 5))
for _name in ("max", "min"):
    case(_name, lambda m, x, n=_name: getattr(m, n)(x), distinct(3, 5))
    case(_name, lambda m, x, n=_name: getattr(m, n)(x, dim=1), distinct(3, 5))
    case(_name, lambda m, x, n=_name: getattr(m, n)(x, dim=0, keepdim=True), distinct(4, 3))
plain_cases("max min", normal(3, 5), normal(5))
for _name in ("cumsum", "cumprod"):
    case(_name, lambda m, x, n=_name: getattr(m, n)(x, dim=0), normal(4, 3))
    case(_name, lambda m, x, n=_name: getattr(m, n)(x, dim=-1), normal(3, 5))
case("cumprod", lambda m, x: m.cumprod(x, dim=0), fixed(1.5, 0.0, 2.0, -1.0))
case(
    "cumprod",
    lambda m, x: m.vander(x, 4),
    normal(3),
    torch=lambda t, x: t.stack([x**3, x**2, x, x**0], -1),  # of its own vander it has no gradient
)
plain_cases("prod", fixed(0.0, 2.0, 3.0))
for _name in ("all", "any"):
    case(_name, lambda m, x, n=_name: getattr(m, n)(x), bools(3, 5), differentiable=False)
    case(
        _name, lambda m, x, n=_name: getattr(m, n)(x, dim=1, keepdim=True), bools(3, 5), differentiable=False
    )
for _name in ("argmax", "argmin"):
    case(_name, lambda m, x, n=_name: getattr(m, n)(x), distinct(3, 5), differentiable=False)
    case(
        _name,
        lambda m, x, n=_name: getattr(m, n)(x, dim=-1, keepdim=True),
        distinct(3, 5),
        differentiable=False,
    )
case("count_nonzero", lambda m, x: m.count_nonzero(x, dim=1), integers(3, 3, 5), differentiable=False)
case("norm", lambda m, a: m.linalg.norm(a) + m.linalg.norm(a, 1), distinct(3, 4))
for _name in ("cummax", "cummin"):
    case(f"{_name}_places", lambda m, x, n=_name: getattr(m, n)(x, 1), distinct(3, 5))
case("logcumsumexp", lambda m, x: m.logcumsumexp(x, 0), normal(4, 3))
case("logcumsumexp", lambda m, x: m.logcumsumexp(x, -1), normal(2, 5))

# --- sorting -------------------------------------------------------------------------------------

plain_cases("median", distinct(3, 5))
case("median", lambda m, x: m.median(x, dim=1), distinct(3, 5))
case("median", lambda m, x: m.median(x, dim=0, keepdim=True), distinct(4, 3))
case("argsort", lambda m, x: m.argsort(x, dim=0), distinct(4, 3), differentiable=False)
case("argsort", lambda m, x: m.argsort(x, descending=True), distinct(3, 5), differentiable=False)
case("sort", lambda m, x: m.sort(x, dim=0), distinct(4, 3))
case("sort", lambda m, x: m.sort(x, descending=True), distinct(3, 5))
case("topk", lambda m, x: m.topk(x, 2), distinct(3, 5))
case("topk", lambda m, x: m.topk(x, 2, dim=0, largest=False), distinct(4, 3))
case("mode_places", lambda m, x: m.mode(x, 1).values, integers(3, 4, 7), differentiable=False)
case(
    "searchsorted",
    lambda m, x, y: m.searchsorted(m.sort(x).values, y, right=True),
    distinct(7),
    normal(3, 5),
    differentiable=False,
)

# --- shape ---------------------------------------------------------------------------------------

case("reshape", lambda m, x: m.reshape(x, (5, -1)), normal(3, 5))
case("reshape", lambda m, x: x.view(15).reshape_as(x).view_as(x), normal(3, 5))
case("reshape", lambda m, x: m.flatten(x, 1), normal(2, 3, 5))
case("reshape", lambda m, x: m.ravel(m.unflatten(x, 1, (3, -1))), normal(2, 15))
case("reshape", lambda m, x: m.unsqueeze(m.squeeze(x, 1), 0), normal(3, 1, 5))
case("permute", lambda m, x: m.permute(x, (2, 0, 1)), normal(2, 3, 5))
case("permute", lambda m, x: m.transpose(x, 0, 2), normal(2, 3, 5))
case("permute", lambda m, x: m.t(x).T.mT, normal(3, 5))
case("permute", lambda m, x: m.swapdims(m.swapaxes(x, 0, 1), 1, 2), normal(2, 3, 5))
case("permute", lambda m, x: m.moveaxis(m.movedim(x, 0, -1), (0, 1), (1, 0)), normal(2, 3, 5))
case("broadcast_to", lambda m, x: m.broadcast_to(x, (2, 3, 5)), normal(3, 1))
case("broadcast_to", lambda m, x: x.expand(4, -1, 5).expand_as(x.expand(4, 3, 5)), normal(3, 1))
case("broadcast_to", lambda m, x, y: m.broadcast_tensors(x, y), normal(3, 1), normal(5))
case("clone", lambda m, x: m.clone(x).mT.contiguous(), normal(3, 5))
case("flip", lambda m, x: m.flip(x, (0, 1)), normal(3, 5))
case("roll", lambda m, x: m.roll(x, 2), normal(3, 5))
case("roll", lambda m, x: m.roll(x, (1, -2), (0, 1)), normal(3, 5))
case("tile", lambda m, x: m.tile(x, (2, 3)), normal(3, 2))
case("tile", lambda m, x: x.repeat(2, 1, 3), normal(3, 2))
case("repeat_interleave", lambda m, x: m.repeat_interleave(x, 2, dim=1), normal(3, 2))
case("repeat_interleave", lambda m, x, n: m.repeat_interleave(x, n, dim=0), normal(3, 2), integers(4, 3))
case("pad", lambda m, x: m.pad(x, (1, 2), value=0.5), normal(3, 5), torch=FUNCTIONAL)
case("pad", lambda m, x: m.pad(x, (-1, 2, 1, 0)), normal(3, 5), torch=FUNCTIONAL)
for _mode in ("reflect", "replicate", "circular"):
    case("pad", lambda m, x, mode=_mode: m.pad(x, (1, 2), mode=mode), normal(2, 3, 5), torch=FUNCTIONAL)
case("tril", lambda m, x: m.tril(x, -1), normal(4, 4))
plain_cases("triu", normal(2, 3, 5))
case("diagonal", lambda m, x: m.diagonal(x, 1, 0, 2), normal(3, 2, 4))
case("diagonal", lambda m, x: m.diag(x, -1), normal(4, 3))
case("put_diagonal", lambda m, x: m.diag(x), normal(4))
case("put_diagonal", lambda m, x: m.diag_embed(x, 1), normal(2, 3))
case("unfold", lambda m, x: x.unfold(1, 3, 2), normal(2, 7))
case("as_strided", lambda m, x: m.as_strided(x, (3, 2, 2), (2, 1, 3)), normal(3, 5))
case("as_strided", lambda m, x: x.as_strided((3, 2), (3, 5), 1), normal(3, 5))
case("sum_by_place", lambda m, x: x.as_strided((3, 2, 2), (2, 1, 3)) ** 2, normal(3, 5))
case("fold_windows", lambda m, x: x.unfold(0, 2, 1) ** 2, normal(5, 2))

# --- joining -------------------------------------------------------------------------------------

case("cat", lambda m, x, y: m.cat([x, y, x], dim=1), normal(3, 2), normal(3, 4))
case("cat", lambda m, x, y: m.concat([m.concatenate([x, y]), x]), normal(3, 2), normal(1, 2))
case("stack", lambda m, x, y: m.stack([x, y, x], dim=1), normal(3, 2), normal(3, 2))
case("split", lambda m, x: m.split(x, 2, dim=1), normal(3, 5))
case("split", lambda m, x: m.split(x, [1, 3, 1], dim=1)[1], normal(3, 5))
case("split", lambda m, x: m.chunk(x, 3), normal(5, 2))
case("unbind", lambda m, x: m.unbind(x, dim=1), normal(3, 4))

# --- indexing ------------------------------------------------------------------------------------

case("getitem", lambda m, x: x[1], normal(3, 5))
case("getitem", lambda m, x: x[..., 1:4:2, None], normal(3, 5))
case("getitem", lambda m, x, i: x[i], normal(4, 3), integers(4, 6))
case("getitem", lambda m, x, i, j: x[i, :, j], normal(4, 3, 5), integers(4, 2, 1), integers(5, 3))
case("getitem", lambda m, x, b: x[b], normal(3, 5), bools(3))
case("getitem", lambda m, x, i: x[1:, i], normal(3, 5), integers(5, 4))
case("getitem", lambda m, x: m.select(m.narrow(x, 1, 1, 3), 0, -1), normal(3, 5))
case("put_add", lambda m, x, i: x[i] ** 2, normal(4, 3), integers(4, 6))
case("gather", lambda m, x, i: m.gather(x, 1, i), normal(3, 5), integers(5, 2, 4))
case("gather", lambda m, x, i: m.take_along_dim(x, i, dim=0), normal(3, 5), integers(3, 2, 1))


def fixed_index(m: Any) -> Any:
    """An index without repetition: where two values meet, which one stays is anybody's guess."""
    return m.tensor([[0, 1, 2, 0, 1], [1, 2, 0, 2, 0]])


case("scatter", lambda m, x, y: m.scatter(x, 0, fixed_index(m), y), normal(3, 5), normal(2, 5))
case("scatter", lambda m, x: m.scatter(x, 0, fixed_index(m), 0.5), normal(3, 5))
case(
    "scatter_add", lambda m, x, i, y: m.scatter_add(x, 0, i, y), normal(3, 5), integers(3, 4, 5), normal(4, 5)
)
case("index_select", lambda m, x, i: m.index_select(x, 1, i), normal(3, 5), integers(5, 7))
case(
    "index_add",
    lambda m, x, i, y: m.index_add(x, 1, i, y, alpha=0.5),
    normal(3, 5),
    integers(5, 4),
    normal(3, 4),
)
case("masked_fill", lambda m, x, b: m.masked_fill(x, b, 0.5), normal(3, 5), bools(5))
plain_cases("masked_select", normal(3, 5), bools(3, 5))
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

# --- products ------------------------------------------------------------------------------------

plain_cases("matmul", normal(3, 5), normal(5, 2))
case("matmul", lambda m, x, y: x @ y, normal(4), normal(4))
case("matmul", lambda m, x, y: x @ y, normal(3, 4), normal(4))
case("matmul", lambda m, x, y: x @ y, normal(4), normal(2, 4, 3))
case("matmul", lambda m, x, y: x @ y, normal(2, 3, 4), normal(4))
case("matmul", lambda m, x, y: x @ y, normal(2, 3, 4), normal(4, 2))
case("matmul", lambda m, x, y: x @ y, normal(2, 1, 3, 4), normal(3, 4, 2))
case("matmul", lambda m, x, y: m.mm(x, y), normal(3, 4), normal(4, 2))
case(
    "matmul",
    lambda m, x, y, z: m.chain_matmul(x, y, z),
    normal(3, 4),
    normal(4, 2),
    normal(2, 5),
    torch=lambda t, x, y, z: t.linalg.multi_dot([x, y, z]),
)
case("matmul", lambda m, x, y: m.mv(x, y), normal(3, 4), normal(4))
case("matmul", lambda m, x, y: m.bmm(x, y), normal(2, 3, 4), normal(2, 4, 2))
case("matmul", lambda m, x, y: m.dot(x, y), normal(4), normal(4))
plain_cases("outer", normal(3), normal(4))
case("einsum", lambda m, x, y: m.einsum("vpt,th->vph", x, y), normal(2, 3, 5), normal(5, 2))
case("einsum", lambda m, x: m.einsum("ii->i", x), normal(4, 4))
case("einsum", lambda m, x, y: m.einsum("ij,kj", x, y), normal(3, 4), normal(2, 4))
case("einsum", lambda m, x, y: m.einsum("...ij,...jk->...ik", x, y), normal(2, 3, 4), normal(4, 2))
case("einsum", lambda m, x, y, z: m.einsum("i,ij,jk->k", x, y, z), normal(3), normal(3, 4), normal(4, 2))
case("einsum", lambda m, x: m.einsum("iij->j", x), normal(3, 3, 2))
case("einsum", lambda m, x: m.einsum("ij->", x), normal(3, 4))
case("tensordot", lambda m, x, y: m.tensordot(x, y, 2), normal(2, 3, 4), normal(3, 4, 2))
case("tensordot", lambda m, x, y: m.tensordot(x, y, ([0, 2], [1, 0])), normal(2, 3, 4), normal(4, 2, 3))

# --- linalg --------------------------------------------------------------------------------------

case("inv", lambda m, a: m.linalg.inv(a), matrix(2, 3, 3))
case("inv", lambda m, a: m.inverse(a), matrix(3, 3))
case("solve", lambda m, a, b: m.linalg.solve(a, b), matrix(3, 3), normal(3, 2))
case("solve", lambda m, a, b: m.linalg.solve(a, b), matrix(2, 3, 3), normal(2, 3))
case(
    "solve_triangular",
    lambda m, a, b: m.linalg.solve_triangular(a, b, upper=True),
    matrix(3, 3),
    normal(3, 2),
)
case("det", lambda m, a: m.linalg.det(a), matrix(2, 3, 3))
plain_cases("det", matrix(3, 3))
case("cofactor", lambda m, a: m.linalg.det(a) ** 2, matrix(3, 3))
case("logabsdet", lambda m, a: m.linalg.slogdet(a).logabsdet, matrix(2, 3, 3))
case("det_sign", lambda m, a: m.slogdet(a).sign * 1.0, matrix(2, 3, 3))
case("cholesky", lambda m, a: m.linalg.cholesky(a @ a.mT), matrix(2, 3, 3))
case("cholesky", lambda m, a: m.linalg.cholesky(a @ a.mT, upper=True), matrix(3, 3))
case(
    "cholesky",
    lambda m, a: m.cholesky(a @ a.mT),
    matrix(3, 3),
    torch=lambda t, a: t.linalg.cholesky(a @ a.mT),
)
case("qr", lambda m, a: m.linalg.qr(a), matrix(4, 3))
case("qr", lambda m, a: m.qr(a).R, matrix(3, 3), torch=lambda t, a: t.linalg.qr(a).R)
case("logdet", lambda m, a: m.logdet(a @ a.mT), matrix(2, 3, 3))
case("pinv", lambda m, a: m.pinverse(a), matrix(3, 2))


def _of_symmetric(m: Any, a: Any) -> Any:
    values, vectors = m.linalg.eigh(a + a.mT)
    return (vectors * m.sin(values)[..., None, :]) @ vectors.mT, values


case("eigh", _of_symmetric, distinct(2, 3, 3))
case("eigvalsh", lambda m, a: m.linalg.eigvalsh(a + a.mT), distinct(3, 3))


def _of_any_square(m: Any, a: Any) -> Any:
    values, vectors = m.linalg.eig(a)
    return values.abs(), values.imag.square(), vectors.abs()


case("eig", _of_any_square, matrix(2, 3, 3))
case("eigvals", lambda m, a: m.linalg.eigvals(a).abs(), matrix(3, 3))


def _of_singular(m: Any, a: Any) -> Any:
    u, s, vh = m.linalg.svd(a, full_matrices=False)
    return (u * m.sin(s)[..., None, :]) @ vh, s


case("svd", _of_singular, distinct(4, 3))
case("svd", _of_singular, distinct(2, 2, 3))
case("svd", lambda m, a: m.svd(a).S, distinct(3, 3), torch=lambda t, a: t.linalg.svd(a).S)
case("svdvals", lambda m, a: m.linalg.svdvals(a), distinct(3, 4))
case("pinv", lambda m, a: m.linalg.pinv(a), matrix(4, 3))
case("lstsq", lambda m, a, b: m.linalg.lstsq(a, b).solution, matrix(4, 3), normal(4, 2))
plain_cases("trace", normal(3, 3))
case("trace", lambda m, a: m.linalg.trace(a), normal(2, 3, 3), torch=lambda t, a: t.einsum("bii->b", a))
case("matrix_power", lambda m, a: m.linalg.matrix_power(a, 3), matrix(3, 3))
case("matrix_power", lambda m, a: m.linalg.matrix_power(a, -2), matrix(2, 3, 3))
for _ord in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
    case("matrix_norm", lambda m, a, o=_ord: m.linalg.matrix_norm(a, o), distinct(3, 4))
case("vector_norm", lambda m, a: m.linalg.vector_norm(a, 3, dim=1), normal(3, 4))


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
plain_cases("matrix_exp", lambda rng: rng.normal(size=(2, 2)) * 4)

# --- loss ----------------------------------------------------------------------------------------


def _cross_entropy(**options: Any) -> dict[str, Callable[..., Any]]:
    return {
        "call": lambda m, *a: m.cross_entropy(*a[:2], *a[2:], **options),
        "torch": lambda t, *a: t.nn.functional.cross_entropy(*a[:2], *a[2:], **options),
    }


def _ce(*inputs: Maker, **options: Any) -> None:
    both = _cross_entropy(**options)
    case("cross_entropy", both["call"], *inputs, torch=both["torch"])


for _reduction in ("mean", "sum", "none"):
    _ce(normal(4, 5), integers(5, 4), reduction=_reduction)
    _ce(normal(4, 5), fixed(0, -100, 4, -100), reduction=_reduction, label_smoothing=0.1)
_ce(normal(5), lambda rng: np.array(rng.integers(0, 5)), label_smoothing=0.2)
_ce(normal(2, 5, 3), integers(5, 2, 3))
_ce(normal(4, 5), fixed(1, 2, 0, 3), ignore_index=3)
_ce(normal(4, 5), lambda rng: rng.dirichlet(np.ones(5), 4), label_smoothing=0.1)
case(
    "cross_entropy",
    lambda m, x, y: m.cross_entropy(
        x, y, m.tensor([0.5, 1.0, 2.0, 1.5, 0.7], dtype=m.float64), label_smoothing=0.1
    ),
    normal(4, 5),
    integers(5, 4),
    torch=lambda t, x, y: t.nn.functional.cross_entropy(
        x, y, t.tensor([0.5, 1.0, 2.0, 1.5, 0.7], dtype=t.float64), label_smoothing=0.1
    ),
)
case(
    "binary_cross_entropy",
    lambda m, p, y: m.nn.functional.binary_cross_entropy(p, y, reduction="none"),
    lambda rng: rng.uniform(0.1, 0.9, size=(3, 4)),
    lambda rng: rng.uniform(0.1, 0.9, size=(3, 4)),
)

# --- layers --------------------------------------------------------------------------------------

case("linear", lambda m, x, w: m.nn.functional.linear(x, w), normal(4, 3), normal(2, 3))
case("linear", lambda m, x, w, b: m.nn.functional.linear(x, w, b), normal(2, 3, 4), normal(5, 4), normal(5))
case("linear", lambda m, x, w, b: m.nn.functional.linear(x, w, b), normal(4), normal(3, 4), normal(3))
case(
    "affine",
    lambda m, x, w, b: m.nn.functional.batch_norm(
        x, m.tensor([0.1, -0.2, 0.3], dtype=x.dtype), m.tensor([0.5, 1.0, 2.0], dtype=x.dtype), w, b, eps=0.1
    ),
    normal(2, 3, 4),
    normal(3),
    normal(3),
)
case(
    "normalize",
    lambda m, x, w, b: m.nn.functional.layer_norm(x, (3, 4), w, b),
    normal(2, 3, 4),
    normal(3, 4),
    normal(3, 4),
)
case(
    "normalize",
    lambda m, x, w, b: m.nn.functional.batch_norm(x, None, None, w, b, training=True),
    normal(4, 3, 5),
    normal(3),
    normal(3),
)


def _steps(t: Any, cell: str, x: Any, w: Any, b: Any, *state: Any) -> Any:
    """Return the states h of a recurrence, step by step."""
    found = []
    for each in x:
        s = state[0] @ w.T + b
        if cell == "lstm":
            i, f, g, o = (each + s).chunk(4, -1)
            c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
            state = (o.sigmoid() * c.tanh(), c)
        elif cell == "gru":
            (r, z, n), (sr, sz, sn) = each.chunk(3, -1), s.chunk(3, -1)
            n, z = (n + (r + sr).sigmoid() * sn).tanh(), (z + sz).sigmoid()
            state = (n + z * (state[0] - n),)
        else:
            state = (getattr(each + s, cell)(),)
        found.append(state[0])
    return t.stack([*found, state[-1]])


for _name, _gate_count, _states in (("tanh", 1, 1), ("relu", 1, 1), ("lstm", 4, 2), ("gru", 3, 1)):
    case(
        "recurrence",
        lambda m, x, w, b, *state, n=_name: (lambda output, last: m.cat([output, last[-1][None]]))(
            *m.nn.functional.recurrent.recurrence(n, x, w, b, state)
        ),
        *(normal(2, 1, 2 * _gate_count), normal(2 * _gate_count, 2), normal(2 * _gate_count)),
        *[normal(1, 2)] * _states,
        torch=lambda t, *inputs, n=_name: _steps(t, n, *inputs),
    )
case("normalize", lambda m, x: m.nn.functional.instance_norm(x, eps=0.1), normal(2, 3, 5))
case("normalize", lambda m, x, w: m.nn.functional.group_norm(x, 2, w), normal(2, 4, 3), normal(4))
case("normalize", lambda m, x, w: m.nn.functional.rms_norm(x, (5,), w, 1e-3), normal(3, 5), normal(5))

# --- conv ----------------------------------------------------------------------------------------


def _f(name: str, op: str, *inputs: Maker, **options: Any) -> None:
    case(op, lambda m, *xs: getattr(m.nn.functional, name)(*xs, **options), *inputs)


_f("conv1d", "convolution", normal(2, 2, 7), normal(4, 1, 3), normal(4), stride=2, padding=1, groups=2)
_f("conv2d", "convolution", normal(2, 2, 4, 5), normal(3, 2, 3, 2), normal(3), padding=1)
_f("conv2d", "convolution", normal(1, 2, 6, 5), normal(2, 2, 2, 3), stride=(2, 1), dilation=(2, 1))
_f("conv2d", "convolution", normal(2, 3, 2, 3), normal(2, 3, 1, 1), normal(2))
_f("conv2d", "convolution", normal(2, 4, 3), normal(2, 2, 3, 2), padding="same", dilation=(1, 2))
_f("conv3d", "convolution", normal(1, 2, 3, 3, 3), normal(2, 1, 2, 2, 2), groups=2, padding=(1, 0, 0))
_f(
    "conv_transpose1d",
    "convolution_transpose",
    normal(2, 2, 3),
    normal(2, 2, 3),
    normal(2),
    stride=2,
    padding=1,
)
_f(
    "conv_transpose2d",
    "convolution_transpose",
    normal(1, 2, 2, 3),
    normal(2, 1, 2, 3),
    stride=2,
    output_padding=1,
    groups=2,
    dilation=2,
)
_f("conv_transpose2d", "convolution_transpose", normal(2, 2, 3, 3), normal(2, 3, 2, 2))
_f("conv_transpose2d", "convolution_transpose", normal(2, 2, 3, 2), normal(2, 3, 1, 1))
_f("conv2d", "convolution_weight", normal(2, 2, 3, 4), normal(2, 1, 2, 2), stride=2, padding=1, groups=2)
_f("unfold", "im2col", normal(2, 2, 4, 5), kernel_size=(2, 3), padding=1, stride=2)
_f("unfold", "im2col", normal(1, 4, 4), kernel_size=2, dilation=2)
_f("fold", "col2im", normal(2, 4, 12), output_size=(4, 5), kernel_size=2)
_f("fold", "col2im", normal(4, 4), output_size=(3, 3), kernel_size=2, padding=1, stride=2)

# --- pool ----------------------------------------------------------------------------------------

for _op in ("max_pool", "pool_put"):
    _f("max_pool2d", _op, distinct(2, 2, 5, 4), kernel_size=3, stride=1, padding=1)
    _f("max_pool2d", _op, distinct(1, 4, 5), kernel_size=2, ceil_mode=True)
_f("max_pool1d", "max_pool", distinct(2, 1, 7), kernel_size=2, dilation=3, stride=2)
_f("max_pool3d", "max_pool", distinct(1, 1, 3, 4, 2), kernel_size=2, stride=(1, 2, 1))
case(
    "pool_pick",
    lambda m, x: m.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)[0],
    distinct(2, 2, 5, 4),
)
case(
    "max_pool_tap",
    lambda m, x: m.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
    distinct(2, 2, 5, 4),
    differentiable=False,
)
for _op in ("avg_pool", "avg_unpool"):
    _f("avg_pool2d", _op, normal(2, 2, 5, 4), kernel_size=3, stride=2, padding=1, count_include_pad=False)
    _f("avg_pool2d", _op, normal(1, 2, 4, 4), kernel_size=2)
_f("avg_pool1d", "avg_pool", normal(2, 2, 6), kernel_size=4, stride=3, padding=1, ceil_mode=True)
_f("avg_pool3d", "avg_pool", normal(1, 1, 3, 2, 4), kernel_size=2, stride=1, divisor_override=3)
