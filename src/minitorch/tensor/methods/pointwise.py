"""Rarer functions of each element, as functions and as Tensor methods. Enters: tensors that broadcast.

Leaves: a tensor of their common shape. Each is a function whose first argument is a tensor; methods/families.py
makes methods of those that PyTorch offers as methods too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minitorch.engine.dtypes import common_dtype
from minitorch.engine.node import Node
from minitorch.engine.record import apply
from minitorch.ops import special as ops
from minitorch.ops.elementwise import MUL
from minitorch.tensor.convert import (
    as_tensor,
    binary,
    cast,
    common_shape,
    one_int,
    operand,
    promoted,
    tensor_for,
    to_floating,
)
from minitorch.tensor.methods.complex import sign_of
from minitorch.tensor.methods.elementwise import power, select, whole

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Frexp(NamedTuple):
    """x = mantissa · 2^exponent."""

    mantissa: Tensor
    exponent: Tensor


def _unary(op: ops.Op, x: Any) -> Tensor:
    return apply(op, tensor_for(x, op.name))


# --- arithmetic ---------------------------------------------------------------------------------


def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Tensor:
    """x + v·a·b.   dx = g, da = v·g·b, db = v·g·a

    >>> addcmul(minitorch.tensor([1.0, 1.0]), minitorch.tensor([2.0, 3.0]), minitorch.tensor([4.0, 5.0]), value=0.5)
    tensor([5.0000, 8.5000])
    """
    product = binary(MUL, tensor1, tensor2)
    return as_tensor(input) + (product if value == 1 else product * _whole_value(value, input, product))


def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Tensor:
    """x + v·a / b.   dx = g, da = v·g / b, db = -v·g·a / b²

    >>> addcdiv(minitorch.tensor([1.0]), minitorch.tensor([1.0]), minitorch.tensor([4.0]), value=2)
    tensor([1.5000])
    """
    a, b = as_tensor(tensor1), as_tensor(tensor2)
    if whole(a, b):
        raise RuntimeError("addcdiv: of integers there is none; write x + v * (a / b).trunc() or x.float()")
    quotient = a / b
    return as_tensor(input) + (quotient if value == 1 else quotient * value)


def _whole_value(value: float, *beside: Any) -> float:
    if whole(*beside) and not isinstance(value, int):
        raise RuntimeError(f"addcmul: value must be an int between integer tensors, got {value!r}")
    return value


def rsub(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """y - α·x: sub with its operands exchanged.   dx = -α·g, dy = g

    >>> rsub(minitorch.tensor([1.0, 2.0]), 10, alpha=2)
    tensor([8., 6.])
    """
    left = operand(other, "rsub")
    if not isinstance(left, Node):
        left = as_tensor(left, common_dtype(as_tensor(input)._data, left))
    return left.sub(input, alpha=alpha)


def positive(input: Any) -> Tensor:
    """+x: x itself.

    >>> positive(minitorch.tensor([-1.0]))
    tensor([-1.])
    """
    x = tensor_for(input, "positive")
    if x._data.dtype.kind == "b":
        raise RuntimeError("positive: a bool tensor has no sign; write x.int()")
    return x


def float_power(input: Any, exponent: Any) -> Tensor:
    """xʸ, computed in float64.   dx = g·y·xʸ⁻¹, dy = g·xʸ·log x

    >>> float_power(minitorch.tensor([2, 3]), 2)
    tensor([4., 9.], dtype=float64)
    """
    given = operand(input, "float_power"), operand(exponent, "float_power")
    kinds = [o._data.dtype.kind if isinstance(o, Node) else np.result_type(o).kind for o in given]
    double: Any = np.complex128 if "c" in kinds else np.float64
    base, by = (
        cast(o, double) if isinstance(o, Node) else o if isinstance(o, complex) else float(o) for o in given
    )
    return power(base, by)


def ldexp(input: Any, other: Any) -> Tensor:
    """x·2ʸ.   dx = g·2ʸ, dy = g·out·log 2

    >>> ldexp(minitorch.tensor([1.0, 3.0]), minitorch.tensor([1, 2]))
    tensor([ 2., 12.])
    """
    return as_tensor(input) * power(2.0, to_floating(as_tensor(other)))


def frexp(input: Any) -> Frexp:
    """x = mantissa·2^exponent with ½ ≤ |mantissa| < 1.   dx = g·2^-exponent, of the mantissa

    >>> frexp(minitorch.tensor([6.0])).mantissa, frexp(minitorch.tensor([6.0])).exponent
    (tensor([0.7500]), tensor([3], dtype=int32))
    """
    x = tensor_for(input, "frexp")
    if x._data.dtype.kind != "f":
        raise RuntimeError(f"frexp: expects floats, got {x._data.dtype}; write x.float()")
    return Frexp(apply(ops.FREXP_MANTISSA, x), apply(ops.FREXP_EXPONENT, x))


def frac(input: Any) -> Tensor:
    """x - trunc(x), what stands behind the point.   dx = g

    >>> frac(minitorch.tensor([1.5, -2.25]))
    tensor([ 0.5000, -0.2500])
    """
    x = tensor_for(input, "frac")
    if x._data.dtype.kind != "f":
        raise RuntimeError(f"frac: integers have none, got {x._data.dtype}; write x.float()")
    return x - x.trunc()


def deg2rad(input: Any) -> Tensor:
    """Degrees as radians: x·π/180.   dx = g·π/180

    >>> deg2rad(minitorch.tensor([180.0]))
    tensor([3.1416])
    """
    return to_floating(tensor_for(input, "deg2rad")) * (math.pi / 180)


def rad2deg(input: Any) -> Tensor:
    """Radians as degrees: x·180/π.   dx = g·180/π

    >>> rad2deg(minitorch.tensor([3.1415927]))
    tensor([180.])
    """
    return to_floating(tensor_for(input, "rad2deg")) * (180 / math.pi)


def gcd(input: Any, other: Any) -> Tensor:
    """The greatest common divisor of integers.

    >>> gcd(minitorch.tensor([12, 18]), minitorch.tensor([8, 27]))
    tensor([4, 9])
    """
    return _integers(ops.GCD, input, other)


def lcm(input: Any, other: Any) -> Tensor:
    """The least common multiple of integers.

    >>> lcm(minitorch.tensor([4, 6]), minitorch.tensor([6, 9]))
    tensor([12, 18])
    """
    return _integers(ops.LCM, input, other)


def bitwise_left_shift(input: Any, other: Any) -> Tensor:
    """x·2ʸ of integers, bits moved to the left.

    >>> bitwise_left_shift(minitorch.tensor([1, 3]), 2)
    tensor([ 4, 12])
    """
    return _integers(ops.LEFT_SHIFT, input, other)


def bitwise_right_shift(input: Any, other: Any) -> Tensor:
    """⌊x / 2ʸ⌋ of integers, bits moved to the right.

    >>> bitwise_right_shift(minitorch.tensor([4, 13]), 2)
    tensor([1, 3])
    """
    return _integers(ops.RIGHT_SHIFT, input, other)


def _integers(op: ops.Op, x: Any, y: Any) -> Tensor:
    x, y = operand(x, op.name), operand(y, op.name)
    dtype = common_dtype(*(o._data if isinstance(o, Node) else o for o in (x, y)))
    if dtype.kind not in "iu":
        raise RuntimeError(f"{op.name}: expects integers, got {dtype}")
    return apply(op, *(as_tensor(o, dtype) for o in (x, y)))


# --- bounds and repairs -------------------------------------------------------------------------


def clamp_min(input: Any, min: Any) -> Tensor:
    """x, but not below min.   dx = g above it, else 0

    >>> clamp_min(minitorch.tensor([-1.0, 2.0]), 0)
    tensor([0., 2.])
    """
    return tensor_for(input, "clamp_min").clamp(min=min)


def clamp_max(input: Any, max: Any) -> Tensor:
    """x, but not above max.   dx = g below it, else 0

    >>> clamp_max(minitorch.tensor([-1.0, 2.0]), 0)
    tensor([-1.,  0.])
    """
    return tensor_for(input, "clamp_max").clamp(max=max)


def nan_to_num(
    input: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """x with nan as 0 and infinities as the largest numbers, or as given.   dx = g where x is finite

    >>> nan_to_num(minitorch.tensor([1.0, float("nan")]), nan=7.0)
    tensor([1., 7.])
    """
    x = tensor_for(input, "nan_to_num")
    if x._data.dtype.kind != "f":
        return x.clone()
    limits = np.finfo(x._data.dtype)
    top = float(limits.max) if posinf is None else posinf
    bottom = float(limits.min) if neginf is None else neginf
    x = select(x.isnan(), 0.0 if nan is None else nan, x)
    x = select(x == math.inf, top, x)
    return select(x == -math.inf, bottom, x)


def fmax(input: Any, other: Any) -> Tensor:
    """The larger of two, where one is nan the other.   g to it; at a tie to the first

    >>> fmax(minitorch.tensor([1.0, float("nan")]), minitorch.tensor([2.0, 3.0]))
    tensor([2., 3.])
    """
    return binary(ops.FMAX, input, other)


def fmin(input: Any, other: Any) -> Tensor:
    """The smaller of two, where one is nan the other.   g to it; at a tie to the first

    >>> fmin(minitorch.tensor([1.0, float("nan")]), minitorch.tensor([2.0, 3.0]))
    tensor([1., 3.])
    """
    return binary(ops.FMIN, input, other)


# --- signs and steps ----------------------------------------------------------------------------


def copysign(input: Any, other: Any) -> Tensor:
    """|x| with the sign of y.   dx = ±g, 0 at 0; dy = 0

    >>> copysign(minitorch.tensor([1.0, -2.0]), -1)
    tensor([-1., -2.])
    """
    return binary(ops.COPYSIGN, as_tensor(input), other)


def sgn(input: Any) -> Tensor:
    """-1, 0 or 1; of a complex number x / |x|.   Derivative 0, for real numbers

    >>> sgn(minitorch.tensor([-3.0, 0.0]))
    tensor([-1.,  0.])
    """
    x = tensor_for(input, "sgn")
    return sign_of(x) if x._data.dtype.kind == "c" else x.sign()


def signbit(input: Any) -> Tensor:
    """Whether x is negative, -0.0 included.

    >>> signbit(minitorch.tensor([-0.0, 1.0]))
    tensor([ True, False])
    """
    return _unary(ops.SIGNBIT, input)


def heaviside(input: Any, values: Any) -> Tensor:
    """0 below 0, 1 above it, and `values` at 0.

    >>> heaviside(minitorch.tensor([-1.0, 0.0, 1.0]), minitorch.tensor(0.5))
    tensor([0.0000, 0.5000, 1.0000])
    """
    x, y = tensor_for(input, "heaviside"), tensor_for(values, "heaviside")
    if x._data.dtype != y._data.dtype:
        raise RuntimeError(f"heaviside: expects one dtype, got {x._data.dtype} and {y._data.dtype}")
    return apply(ops.HEAVISIDE, x, y)


def nextafter(input: Any, other: Any) -> Tensor:
    """The next floating-point number after x, towards y.

    >>> nextafter(minitorch.tensor([1.0]), minitorch.tensor([2.0])) > 1
    tensor([True])
    """
    x, y = promoted(tensor_for(input, "nextafter"), tensor_for(other, "nextafter"))
    return apply(ops.NEXTAFTER, x, y)


def isposinf(input: Any) -> Tensor:
    """Where x is +inf.

    >>> isposinf(minitorch.tensor([float("inf"), -float("inf")]))
    tensor([ True, False])
    """
    return tensor_for(input, "isposinf") == math.inf


def isneginf(input: Any) -> Tensor:
    """Where x is -inf.

    >>> isneginf(minitorch.tensor([float("inf"), -float("inf")]))
    tensor([False,  True])
    """
    return tensor_for(input, "isneginf") == -math.inf


def isreal(input: Any) -> Tensor:
    """Where x has no imaginary part: everywhere, for real numbers.

    >>> isreal(minitorch.tensor([1.0]))
    tensor([True])
    """
    x = tensor_for(input, "isreal")
    if x._data.dtype.kind == "c":
        return x.imag == 0
    return (x == x) | (x != x)


# --- logarithms and waves -----------------------------------------------------------------------


def logaddexp2(input: Any, other: Any) -> Tensor:
    """log₂(2ˣ + 2ʸ) without overflow.   dx = g·2ˣ / (2ˣ + 2ʸ)

    >>> logaddexp2(minitorch.tensor([3.0]), minitorch.tensor([3.0]))
    tensor([4.])
    """
    return binary(ops.LOGADDEXP2, input, other)


def xlogy(input: Any, other: Any) -> Tensor:
    """x·log y, and 0 where x is 0.   dx = g·log y (0 at x = 0, y ≤ 0), dy = g·x / y

    >>> xlogy(minitorch.tensor([0.0, 2.0]), minitorch.tensor([0.0, 1.0]))
    tensor([0., 0.])
    """
    return binary(ops.XLOGY, input, other)


def logit(input: Any, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), the inverse of sigmoid; with eps x is first kept that far from 0 and 1.

    dx = g / (x·(1 - x))

    >>> logit(minitorch.tensor([0.5, 0.8808]))
    tensor([0.0000, 2.0000])
    """
    x = to_floating(tensor_for(input, "logit"))
    return apply(ops.LOGIT, x if eps is None else x.clamp(eps, 1 - eps))


def sinc(input: Any) -> Tensor:
    """sin(πx) / (πx), 1 at 0.   dx = g·(cos(πx) - sinc x) / x

    >>> sinc(minitorch.tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """
    return _unary(ops.SINC, input)


# --- special functions --------------------------------------------------------------------------


def lgamma(input: Any) -> Tensor:
    """log |Γ(x)|.   dx = g·ψ(x)

    >>> lgamma(minitorch.tensor([1.0, 5.0]))
    tensor([0.0000, 3.1781])
    """
    return _unary(ops.LGAMMA, input)


def digamma(input: Any) -> Tensor:
    """ψ(x), the derivative of log Γ(x).   dx = g·ψ′(x)

    >>> digamma(minitorch.tensor([1.0]))
    tensor([-0.5772])
    """
    return _unary(ops.DIGAMMA, input)


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


def mvlgamma(input: Any, p: int) -> Tensor:
    """log of the multivariate gamma function: p(p-1)/4·log π + Σⱼ log Γ(x - j/2), j < p.

    >>> mvlgamma(minitorch.tensor([2.0]), 2)
    tensor([0.4516])
    """
    x = to_floating(tensor_for(input, "mvlgamma"))
    p = one_int(p, "mvlgamma", "p")
    if p < 1:
        raise RuntimeError(f"mvlgamma: p must be at least 1, got {p}")
    total = lgamma(x)
    for j in range(1, p):
        total = total + lgamma(x - j / 2)
    return total + p * (p - 1) / 4 * math.log(math.pi)


def igamma(input: Any, other: Any) -> Tensor:
    """The lower incomplete gamma function, regularised: P(a, x).   dx = g·x^{a-1}·e^{-x} / Γ(a); none to a

    >>> igamma(minitorch.tensor([1.0]), minitorch.tensor([1.0]))
    tensor([0.6321])
    """
    return _incomplete(ops.IGAMMA, input, other)


def igammac(input: Any, other: Any) -> Tensor:
    """The upper incomplete gamma function, regularised: 1 - P(a, x).   dx = -g·x^{a-1}·e^{-x} / Γ(a); none to a

    >>> igammac(minitorch.tensor([1.0]), minitorch.tensor([1.0]))
    tensor([0.3679])
    """
    return _incomplete(ops.IGAMMAC, input, other)


def _incomplete(op: ops.Op, a: Any, x: Any) -> Tensor:
    shape, place = promoted(tensor_for(a, op.name), tensor_for(x, op.name))
    common_shape(op.name, shape._data.shape, place._data.shape)
    if shape.requires_grad:
        raise NotImplementedError(f"{op.name}: no derivative with respect to the first argument; detach() it")
    return apply(op, shape, place)


def erfc(input: Any) -> Tensor:
    """1 - erf(x), exact where that is tiny.   dx = -g·2/√π·e^{-x²}

    >>> erfc(minitorch.tensor([0.0, 1.0]))
    tensor([1.0000, 0.1573])
    """
    return _unary(ops.ERFC, input)


def erfinv(input: Any) -> Tensor:
    """The inverse of erf.   dx = g·√π/2·e^{out²}

    >>> erfinv(minitorch.tensor([0.0, 0.8427]))
    tensor([0.0000, 1.0000])
    """
    return _unary(ops.ERFINV, input)


def i0(input: Any) -> Tensor:
    """The modified Bessel function of order 0.   dx = g·I₁(x)

    >>> i0(minitorch.tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """
    return _unary(ops.I0, input)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Where an element is among the test elements.

    >>> isin(minitorch.tensor([1, 2, 3]), minitorch.tensor([2, 5]))
    tensor([False,  True, False])
    """
    x, among = as_tensor(elements), as_tensor(test_elements)
    found = (x.unsqueeze(-1) == among.reshape(-1)).any(-1)
    return ~found if invert else found


__all__ = [
    "addcdiv", "addcmul", "bitwise_left_shift", "bitwise_right_shift", "clamp_max", "clamp_min", "copysign",
    "deg2rad", "digamma", "erfc", "erfinv", "float_power", "fmax", "fmin", "frac", "frexp", "gcd", "heaviside", "i0",
    "igamma", "igammac", "isin", "isneginf", "isposinf", "isreal", "lcm", "ldexp", "lgamma", "logaddexp2", "logit",
    "mvlgamma", "nan_to_num", "nextafter", "polygamma", "positive", "rad2deg", "rsub", "sgn", "signbit", "sinc",
    "xlogy",
]  # fmt: skip
