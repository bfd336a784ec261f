"""Exponentials, logarithms, roots. Enters: tensors that broadcast. Leaves: a tensor of their common shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from minitorch.engine.dtypes import kind_of
from minitorch.engine.fast import apply_unary
from minitorch.engine.node import Node
from minitorch.engine.record import apply
from minitorch.ops import exponential as ops
from minitorch.tensor.convert import as_tensor, binary, to_floating
from minitorch.tensor.methods.arithmetic import power
from minitorch.tensor.methods.public import function, in_place

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Frexp(NamedTuple):
    """x = mantissa · 2^exponent."""

    mantissa: Tensor
    exponent: Tensor


class Exponentials(Node):
    """Exponentials, logarithms, roots, element by element."""

    __slots__ = ()

    @in_place
    def exp(self) -> Tensor:
        """eˣ.   dx = g·eˣ

        >>> minitorch.tensor([0.0, 1.0]).exp()
        tensor([1.0000, 2.7183])
        """
        return apply_unary(ops.EXP, self)

    @in_place
    def exp2(self) -> Tensor:
        """2ˣ.   dx = g·2ˣ·log 2

        >>> minitorch.tensor([0.0, 3.0]).exp2()
        tensor([1., 8.])
        """
        return apply_unary(ops.EXP2, self)

    @in_place
    def expm1(self) -> Tensor:
        """eˣ - 1, exact near 0.   dx = g·eˣ

        >>> minitorch.tensor([0.0, 1e-8]).expm1()
        tensor([0.0000e+00, 1.0000e-08])
        """
        return apply_unary(ops.EXPM1, self)

    @in_place
    def log(self) -> Tensor:
        """The natural logarithm.   dx = g / x, infinite at 0

        >>> minitorch.tensor([1.0, 0.0]).log()
        tensor([0., -inf])
        """
        return apply_unary(ops.LOG, self)

    @in_place
    def log2(self) -> Tensor:
        """The logarithm to base 2.   dx = g / (x·log 2)

        >>> minitorch.tensor([1.0, 8.0]).log2()
        tensor([0., 3.])
        """
        return apply_unary(ops.LOG2, self)

    @in_place
    def log10(self) -> Tensor:
        """The logarithm to base 10.   dx = g / (x·log 10)

        >>> minitorch.tensor([1.0, 50.0]).log10()
        tensor([0.0000, 1.6990])
        """
        return apply_unary(ops.LOG10, self)

    @in_place
    def log1p(self) -> Tensor:
        """log(1 + x), exact near 0.   dx = g / (1 + x)

        >>> minitorch.tensor([0.0, 1.0]).log1p()
        tensor([0.0000, 0.6931])
        """
        return apply_unary(ops.LOG1P, self)

    @in_place
    def sqrt(self) -> Tensor:
        """√x.   dx = g / (2·√x), infinite at 0

        >>> minitorch.tensor([4.0, 9.0]).sqrt()
        tensor([2., 3.])
        """
        return apply_unary(ops.SQRT, self)

    @in_place
    def rsqrt(self) -> Tensor:
        """1 / √x.   dx = -g / (2·x^{3/2})

        >>> minitorch.tensor([4.0, 16.0]).rsqrt()
        tensor([0.5000, 0.2500])
        """
        return apply_unary(ops.RSQRT, self)

    # --- sums of exponentials --------------------------------------------------------------------

    def logaddexp(self, other: Any) -> Tensor:
        """log(eˣ + eʸ) without overflow.   dx = g·σ(x - y), dy = g·σ(y - x)

        >>> minitorch.tensor([100.0]).logaddexp(minitorch.tensor([100.0]))
        tensor([100.6931])
        """
        return binary(ops.LOGADDEXP, self, other)

    def logaddexp2(self, other: Any) -> Tensor:
        """log₂(2ˣ + 2ʸ) without overflow.   dx = g·2ˣ / (2ˣ + 2ʸ)

        >>> logaddexp2(minitorch.tensor([3.0]), minitorch.tensor([3.0]))
        tensor([4.])
        """
        return binary(ops.LOGADDEXP2, self, other)

    # --- floats and their exponents --------------------------------------------------------------

    @in_place
    def ldexp(self: Any, other: Any) -> Tensor:
        """x·2ʸ.   dx = g·2ʸ, dy = g·out·log 2

        >>> ldexp(minitorch.tensor([1.0, 3.0]), minitorch.tensor([1, 2]))
        tensor([ 2., 12.])
        """
        return self * power(2.0, to_floating(as_tensor(other)))

    def frexp(self) -> Frexp:
        """x = mantissa·2^exponent with ½ ≤ |mantissa| < 1.   dx = g·2^-exponent, of the mantissa

        >>> frexp(minitorch.tensor([6.0])).mantissa, frexp(minitorch.tensor([6.0])).exponent
        (tensor([0.7500]), tensor([3], dtype=int32))
        """
        if kind_of(self._array.dtype) != "f":
            raise RuntimeError(f"frexp: expects floats, got {self._array.dtype}; write x.float()")
        return Frexp(apply(ops.FREXP_MANTISSA, self), apply(ops.FREXP_EXPONENT, self))


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

exp = function(Exponentials.exp)
exp2 = function(Exponentials.exp2)
expm1 = function(Exponentials.expm1)
log = function(Exponentials.log)
log2 = function(Exponentials.log2)
log10 = function(Exponentials.log10)
log1p = function(Exponentials.log1p)
sqrt = function(Exponentials.sqrt)
rsqrt = function(Exponentials.rsqrt)
logaddexp = function(Exponentials.logaddexp, numbers=True)
logaddexp2 = function(Exponentials.logaddexp2, numbers=True)
ldexp = function(Exponentials.ldexp)
frexp = function(Exponentials.frexp)

__all__ = [
    "exp", "exp2", "expm1", "frexp", "ldexp", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2",
    "rsqrt", "sqrt",
]  # fmt: skip
