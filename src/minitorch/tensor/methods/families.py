"""The rarer families as Tensor methods: each is the function of the same name, its first argument the tensor.

Enters: functions of pointwise.py, statistics.py, arrange.py, indexing.py, products.py. Leaves: one class, which
Tensor inherits through LinearAlgebra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minitorch.engine.node import Node
from minitorch.tensor.methods import arrange, complex, indexing, matrices, pointwise, products, statistics

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Families(Node):
    """What is met less often than sums and products."""

    __slots__ = ()

    # --- element by element ---------------------------------------------------------------------

    addcmul, addcdiv = pointwise.addcmul, pointwise.addcdiv
    bitwise_left_shift, bitwise_right_shift = pointwise.bitwise_left_shift, pointwise.bitwise_right_shift
    __lshift__, __rshift__ = pointwise.bitwise_left_shift, pointwise.bitwise_right_shift
    clamp_min, clamp_max = pointwise.clamp_min, pointwise.clamp_max
    copysign, heaviside, nextafter = pointwise.copysign, pointwise.heaviside, pointwise.nextafter
    deg2rad, rad2deg = pointwise.deg2rad, pointwise.rad2deg
    digamma, lgamma, mvlgamma = pointwise.digamma, pointwise.lgamma, pointwise.mvlgamma
    igamma, igammac = pointwise.igamma, pointwise.igammac
    erfc, erfinv, i0 = pointwise.erfc, pointwise.erfinv, pointwise.i0
    float_power, fmax, fmin = pointwise.float_power, pointwise.fmax, pointwise.fmin
    frac, frexp, ldexp = pointwise.frac, pointwise.frexp, pointwise.ldexp
    gcd, lcm = pointwise.gcd, pointwise.lcm
    isneginf, isposinf, isreal = pointwise.isneginf, pointwise.isposinf, pointwise.isreal
    logaddexp2, logit, xlogy = pointwise.logaddexp2, pointwise.logit, pointwise.xlogy
    nan_to_num, positive, sgn, signbit, sinc = (
        pointwise.nan_to_num, pointwise.positive, pointwise.sgn, pointwise.signbit, pointwise.sinc,
    )  # fmt: skip

    def polygamma(self, n: int) -> Tensor:
        """ψ⁽ⁿ⁾(x), the n-th derivative of digamma.   dx = g·ψ⁽ⁿ⁺¹⁾(x)

        >>> minitorch.tensor([1.0]).polygamma(1)
        tensor([1.6449])
        """
        return pointwise.polygamma(n, self)

    # --- complex numbers ------------------------------------------------------------------------

    angle, conj, conj_physical = complex.angle, complex.conj, complex.conj_physical
    resolve_conj, resolve_neg = complex.resolve_conj, complex.resolve_neg

    @property
    def real(self) -> Tensor:
        """The real part; of a real tensor, the tensor itself.   dx = g"""
        return complex.real(self)

    @property
    def imag(self) -> Tensor:
        """The imaginary part of complex numbers.   dx = i·g"""
        return complex.imag(self)

    def is_conj(self) -> bool:
        """Whether a conjugation is still to be done: never, here.

        >>> minitorch.tensor([1j]).conj().is_conj()
        False
        """
        return False

    # --- statistics -----------------------------------------------------------------------------

    aminmax, bincount = statistics.aminmax, statistics.bincount
    histc, histogram = statistics.histc, statistics.histogram
    corrcoef, cov, diff, dist = statistics.corrcoef, statistics.cov, statistics.diff, statistics.dist
    cummax, cummin, logcumsumexp = statistics.cummax, statistics.cummin, statistics.logcumsumexp
    kthvalue, mode, msort = statistics.kthvalue, statistics.mode, statistics.msort
    nanmean, nanmedian, nansum = statistics.nanmean, statistics.nanmedian, statistics.nansum
    quantile, nanquantile, renorm = statistics.quantile, statistics.nanquantile, statistics.renorm
    unique, unique_consecutive = statistics.unique, statistics.unique_consecutive

    # --- arrangement ----------------------------------------------------------------------------

    adjoint, argwhere, nonzero = arrange.adjoint, arrange.argwhere, arrange.nonzero
    diagflat, fliplr, flipud, rot90 = arrange.diagflat, arrange.fliplr, arrange.flipud, arrange.rot90
    dsplit, hsplit, vsplit = arrange.dsplit, arrange.hsplit, arrange.vsplit
    split_with_sizes, tensor_split = arrange.split_with_sizes, arrange.tensor_split
    sum_to_size = arrange.sum_to_size

    @property
    def H(self) -> Tensor:
        """A matrix transposed (and conjugated)."""
        if self._data.ndim not in (0, 2):
            raise RuntimeError(f"H: expects a matrix, got shape {self._data.shape}; write x.mH")
        return self.conj().T

    @property
    def mH(self) -> Tensor:
        """Every matrix of a batch transposed (and conjugated)."""
        return self.conj().mT

    # --- indexing -------------------------------------------------------------------------------

    diagonal_scatter, select_scatter = indexing.diagonal_scatter, indexing.select_scatter
    slice_scatter, masked_scatter = indexing.slice_scatter, indexing.masked_scatter
    index_copy, index_fill, index_put = indexing.index_copy, indexing.index_fill, indexing.index_put
    index_reduce, scatter_reduce = indexing.index_reduce, indexing.scatter_reduce
    put, take = indexing.put, indexing.take

    # --- products -------------------------------------------------------------------------------

    addbmm, addmm, addmv, addr = products.addbmm, products.addmm, products.addmv, products.addr
    ger = products.ger
    baddbmm, cross, inner, kron, vdot = (
        products.baddbmm, products.cross, products.inner, products.kron, products.vdot,
    )  # fmt: skip

    # --- matrices -------------------------------------------------------------------------------

    cholesky_inverse, cholesky_solve = matrices.cholesky_inverse, matrices.cholesky_solve
    lu, lu_solve = matrices.lu_compact, matrices.lu_solve_of
    matrix_exp, matrix_power = matrices.matrix_exp, matrices.matrix_power
    orgqr, triangular_solve = matrices.householder_product, matrices.triangular_solve
