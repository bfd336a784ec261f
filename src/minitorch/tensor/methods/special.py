"""Gamma functions, error functions, Bessel's I₀, logarithms of products. Enters: tensors. Leaves: tensors.

Those that PyTorch offers in torch.special alone are in minitorch/special.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from minitorch.engine.fast import apply_unary
from minitorch.engine.node import Node
from minitorch.engine.record import apply
from minitorch.ops import special as ops
from minitorch.ops.op import Op
from minitorch.tensor.convert import binary, common_shape, one_int, promoted, tensor_for, to_floating
from minitorch.tensor.methods.public import function, in_place

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class SpecialFunctions(Node):
    """Special functions, element by element."""

    __slots__ = ()

    # --- gamma functions -------------------------------------------------------------------------

    @in_place
    def lgamma(self) -> Tensor:
        """log |Γ(x)|.   dx = g·ψ(x)

        >>> lgamma(minitorch.tensor([1.0, 5.0]))
        tensor([0.0000, 3.1781])
        """
        return apply_unary(ops.LGAMMA, self)

    @in_place
    def digamma(self) -> Tensor:
        """ψ(x), the derivative of log Γ(x).   dx = g·ψ′(x)

        >>> digamma(minitorch.tensor([1.0]))
        tensor([-0.5772])
        """
        return apply_unary(ops.DIGAMMA, self)

    @in_place
    def polygamma(self, n: int) -> Tensor:
        """ψ⁽ⁿ⁾(x), the n-th derivative of digamma.   dx = g·ψ⁽ⁿ⁺¹⁾(x)

        >>> minitorch.tensor([1.0]).polygamma(1)
        tensor([1.6449])
        """
        return polygamma(n, self)

    @in_place
    def mvlgamma(self, p: int) -> Tensor:
        """log of the multivariate gamma function: p(p-1)/4·log π + Σⱼ log Γ(x - j/2), j < p.

        >>> mvlgamma(minitorch.tensor([2.0]), 2)
        tensor([0.4516])
        """
        x = to_floating(self)
        p = one_int(p, "mvlgamma", "p")
        if p < 1:
            raise RuntimeError(f"mvlgamma: p must be at least 1, got {p}")
        total = lgamma(x)
        for j in range(1, p):
            total = total + lgamma(x - j / 2)
        return total + p * (p - 1) / 4 * math.log(math.pi)

    @in_place
    def igamma(self, other: Any) -> Tensor:
        """The lower incomplete gamma function, regularised: P(a, x).   dx = g·x^{a-1}·e^{-x} / Γ(a); none to a

        >>> igamma(minitorch.tensor([1.0]), minitorch.tensor([1.0]))
        tensor([0.6321])
        """
        return _incomplete(ops.IGAMMA, self, other)

    @in_place
    def igammac(self, other: Any) -> Tensor:
        """The upper incomplete gamma function, regularised: 1 - P(a, x).   dx = -g·x^{a-1}·e^{-x} / Γ(a); none to a

        >>> igammac(minitorch.tensor([1.0]), minitorch.tensor([1.0]))
        tensor([0.3679])
        """
        return _incomplete(ops.IGAMMAC, self, other)

    # --- error functions, Bessel functions -------------------------------------------------------

    @in_place
    def erf(self) -> Tensor:
        """The error function.   dx = g·2/√π·e^{-x²}

        >>> minitorch.tensor([0.0, 1.0]).erf()
        tensor([0.0000, 0.8427])
        """
        return apply_unary(ops.ERF, self)

    @in_place
    def erfc(self) -> Tensor:
        """1 - erf(x), exact where that is tiny.   dx = -g·2/√π·e^{-x²}

        >>> erfc(minitorch.tensor([0.0, 1.0]))
        tensor([1.0000, 0.1573])
        """
        return apply_unary(ops.ERFC, self)

    @in_place
    def erfinv(self) -> Tensor:
        """The inverse of erf.   dx = g·√π/2·e^{out²}

        >>> erfinv(minitorch.tensor([0.0, 0.8427]))
        tensor([0.0000, 1.0000])
        """
        return apply_unary(ops.ERFINV, self)

    @in_place
    def i0(self) -> Tensor:
        """The modified Bessel function of order 0.   dx = g·I₁(x)

        >>> i0(minitorch.tensor([0.0, 1.0]))
        tensor([1.0000, 1.2661])
        """
        return apply_unary(ops.I0, self)

    # --- logarithms and waves --------------------------------------------------------------------

    @in_place
    def logit(self, eps: float | None = None) -> Tensor:
        """log(x / (1 - x)), the inverse of sigmoid; with eps x is first kept that far from 0 and 1.

        dx = g / (x·(1 - x))

        >>> logit(minitorch.tensor([0.5, 0.8808]))
        tensor([0.0000, 2.0000])
        """
        x = to_floating(self)
        return apply(ops.LOGIT, x if eps is None else x.clamp(eps, 1 - eps))

    @in_place
    def xlogy(self, other: Any) -> Tensor:
        """x·log y, and 0 where x is 0.   dx = g·log y (0 at x = 0, y ≤ 0), dy = g·x / y

        >>> xlogy(minitorch.tensor([0.0, 2.0]), minitorch.tensor([0.0, 1.0]))
        tensor([0., 0.])
        """
        return binary(ops.XLOGY, self, other)

    @in_place
    def sinc(self) -> Tensor:
        """sin(πx) / (πx), 1 at 0.   dx = g·(cos(πx) - sinc x) / x

        >>> sinc(minitorch.tensor([0.0, 0.5]))
        tensor([1.0000, 0.6366])
        """
        return apply_unary(ops.SINC, self)


def polygamma(n: int, input: Any) -> Tensor:
    """ψ⁽ⁿ⁾(x), the n-th derivative of digamma.   dx = g·ψ⁽ⁿ⁺¹⁾(x)

    >>> polygamma(1, minitorch.tensor([1.0]))
    tensor([1.6449])
    """
    n = one_int(n, "polygamma", "n")
    if n < 0:
        raise RuntimeError(f"polygamma: n must not be negative, got {n}")
    x = tensor_for(input, "polygamma")
    return apply(ops.POLYGAMMA, x, n=n) if n else digamma(x)


def _incomplete(op: Op, a: Any, x: Any) -> Tensor:
    shape, place = promoted(tensor_for(a, op.name), tensor_for(x, op.name))
    common_shape(op.name, shape._data.shape, place._data.shape)
    if shape.requires_grad:
        raise NotImplementedError(f"{op.name}: no derivative with respect to the first argument; detach() it")
    return apply(op, shape, place)


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

lgamma = function(SpecialFunctions.lgamma)
digamma = function(SpecialFunctions.digamma)
mvlgamma = function(SpecialFunctions.mvlgamma)
igamma = function(SpecialFunctions.igamma)
igammac = function(SpecialFunctions.igammac)
erf = function(SpecialFunctions.erf)
erfc = function(SpecialFunctions.erfc)
erfinv = function(SpecialFunctions.erfinv)
i0 = function(SpecialFunctions.i0)
logit = function(SpecialFunctions.logit)
xlogy = function(SpecialFunctions.xlogy, numbers=True)
sinc = function(SpecialFunctions.sinc)

__all__ = [
    "digamma", "erf", "erfc", "erfinv", "i0", "igamma", "igammac", "lgamma", "logit", "mvlgamma",
    "polygamma", "sinc", "xlogy",
]  # fmt: skip
