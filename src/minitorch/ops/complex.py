"""Complex numbers: their parts, and which ops take them.

Enters: arrays, complex or real. Leaves: arrays.

The gradient of a real loss with respect to z = x + iy is, by PyTorch's convention, ∂L/∂x + i·∂L/∂y: then
z - lr·grad goes downhill. For an analytic function that is g·conj(f'(z)), so a rule written for real numbers,
g·f'(x), serves as it is, between two conjugations: conj(rule(conj(g))). The engine does these (node.py), and takes
the real part where an input is real. What is not analytic (parts, absolute values) has rules of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.ops import (  # noqa: F401
    activation,
    arithmetic,
    comparison,
    conv,
    exponential,
    indexing,
    joining,
    layers,
    linalg,
    products,
    reductions,
    rounding,
    shape,
    trigonometric,
)
from minitorch.ops.op import ANALYTIC, OPS, OWN, Array, Op

REAL = Op("real", lambda x: x.real, lambda g, out, x: g)
IMAG = Op("imag", lambda x: x.imag, lambda g, out, x: g * 1j)
CONJ = Op("conj", np.conjugate, lambda g, out, x: np.conjugate(g))


def _complex(real: Array, imag: Array) -> Array:
    # Not real + 1j·imag: 1j·inf has a real part, nan. A complex number is its two parts, side by side.
    common = np.broadcast_shapes(real.shape, imag.shape)
    parts = np.stack([np.broadcast_to(real, common), np.broadcast_to(imag, common)], axis=-1)
    return parts.view(np.result_type(real.dtype, np.complex64)).reshape(common)


COMPLEX = Op(
    "complex", _complex, lambda g, out, real, imag: g.real, lambda g, out, real, imag: g.imag, floating=True
)

# The discrete Fourier transform, over several axes. Its matrix is symmetric: the rule is the transform itself.


def _fft(x: Array, *, axes: tuple[int, ...], norm: Any, inverse: bool) -> Array:
    return (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=axes, norm=norm)


FFT: Op = Op(
    "fft",
    _fft,
    lambda g, out, x, *, axes, norm, inverse: FFT(g, axes=axes, norm=norm, inverse=inverse),
    floating=True,
)

for _op in (REAL, IMAG, CONJ, COMPLEX, OPS["abs"], OPS["eig"], OPS["eigvals"]):
    _op.complex = OWN

# The others that take complex numbers: analytic functions, linear maps, and questions.
_ANALYTIC = """
fft reshape permute broadcast_to flip clone getitem put_add gather scatter_add scatter index_add index_put cat stack
split unbind tile roll pad tril triu diagonal put_diagonal as_strided sum_by_place unfold fold_windows where cast
add sub mul div neg reciprocal square pow lerp exp expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan
sinh cosh asinh acosh atanh tanh sigmoid silu sum mean cumsum prod cumprod matmul einsum linear inv solve
solve_triangular trace matrix_exp convolution convolution_transpose convolution_weight im2col col2im
eq ne isnan isinf isfinite logical_and logical_or logical_xor logical_not all any count_nonzero to_int
"""
for _name in _ANALYTIC.split():
    OPS[_name].complex = ANALYTIC
