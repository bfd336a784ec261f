"""Tensor's elementwise methods. Enters: tensors that broadcast. Leaves: a tensor of their common shape.

In the formulas g is the gradient of the result; gradients are summed over broadcast axes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.dtypes import common_dtype
from minitorch.engine.fast import apply_unary
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.ops import elementwise as ops
from minitorch.ops.op import certain, violated
from minitorch.tensor.convert import (
    as_tensor,
    binary,
    cast,
    common_shape,
    operand,
    promoted,
    refuse_bools,
    tensor_for,
    to_floating,
)

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Elementwise(Node):
    """Arithmetic, powers, exponentials, trigonometry, activations, comparisons."""

    __slots__ = ()

    # --- arithmetic -----------------------------------------------------------------------------

    def add(self, other: Any, *, alpha: float = 1) -> Tensor:
        """x + α·y.   dx = g, dy = α·g

        >>> logits = minitorch.zeros(3, 5)           # person × tense
        >>> logits.add(minitorch.arange(5)).shape
        (3, 5)
        """
        return binary(ops.ADD, self, other if alpha == 1 else times_alpha("add", self, other, alpha))

    def sub(self, other: Any, *, alpha: float = 1) -> Tensor:
        """x - α·y.   dx = g, dy = -α·g

        >>> minitorch.tensor([3.0, 5.0]).sub(1)
        tensor([2., 4.])
        """
        if alpha != 1:
            refuse_bools(self, operand(other, "sub"))
            other = times_alpha("sub", self, other, alpha)
        return binary(ops.SUB, self, other)

    def mul(self, other: Any) -> Tensor:
        """x·y.   dx = g·y, dy = g·x

        >>> minitorch.tensor([3.0, 5.0]).mul(2)
        tensor([ 6., 10.])
        """
        return binary(ops.MUL, self, other)

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """x / y, rounded down with rounding_mode="floor", towards zero with "trunc".

        dx = g / y, dy = -g·x / y²; 0 when rounded.

        >>> minitorch.tensor([7.0, -7.0]).div(2, rounding_mode="floor")
        tensor([ 3., -4.])
        """
        if rounding_mode is None:
            return binary(ops.DIV, self, other)
        if rounding_mode not in ("floor", "trunc"):
            raise RuntimeError(f"div: rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}")
        return divide_whole(
            ops.FLOOR_QUOTIENT if rounding_mode == "floor" else ops.TRUNC_QUOTIENT, self, other
        )

    def floor_divide(self, other: Any) -> Tensor:
        """⌊x / y⌋.   Derivative 0.

        >>> minitorch.tensor([7, -7]).floor_divide(2)
        tensor([ 3, -4])
        """
        return divide_whole(ops.FLOOR_QUOTIENT, self, other)

    def remainder(self, other: Any) -> Tensor:
        """x - y·⌊x / y⌋: has the sign of y.   dx = g, dy = -g·⌊x / y⌋

        >>> minitorch.tensor([-7.0, 7.0]).remainder(3)
        tensor([2., 1.])
        """
        return divide_whole(ops.REMAINDER, self, other)

    def fmod(self, other: Any) -> Tensor:
        """x - y·trunc(x / y): has the sign of x.   dx = g, dy = -g·trunc(x / y)

        >>> minitorch.tensor([-7.0, 7.0]).fmod(3)
        tensor([-1.,  1.])
        """
        return divide_whole(ops.FMOD, self, other)

    def neg(self) -> Tensor:
        """-x.   dx = -g

        >>> minitorch.tensor([1.0, -2.0]).neg()
        tensor([-1.,  2.])
        """
        if self._data.dtype.kind == "b":
            raise RuntimeError("neg: a bool tensor has no negative; write ~x or x.logical_not()")
        return apply_unary(ops.NEG, self)

    def pow(self, exponent: Any) -> Tensor:
        """xʸ.   dx = g·y·xʸ⁻¹ (0 where y = 0), dy = g·xʸ·log x (0 where x = 0 and y ≥ 0)

        >>> minitorch.tensor([1.0, 2.0, 3.0]).pow(2)
        tensor([1., 4., 9.])
        """
        return power(self, exponent)

    def square(self) -> Tensor:
        """x².   dx = 2·g·x

        >>> minitorch.tensor([1.0, -3.0]).square()
        tensor([1., 9.])
        """
        return apply(ops.SQUARE, cast(self, np.int64) if self._data.dtype.kind == "b" else self)

    def reciprocal(self) -> Tensor:
        """1 / x.   dx = -g / x²

        >>> minitorch.tensor([2.0, 4.0]).reciprocal()
        tensor([0.5000, 0.2500])
        """
        return apply_unary(ops.RECIPROCAL, self)

    def lerp(self, end: Any, weight: Any) -> Tensor:
        """x + w·(y - x).   dx = g·(1 - w), dy = g·w, dw = g·(y - x)

        >>> minitorch.tensor([0.0, 10.0]).lerp(minitorch.tensor([10.0, 20.0]), 0.5)
        tensor([ 5., 15.])
        """
        return apply(ops.LERP, *promoted(self, tensor_for(end, "lerp"), operand(weight, "lerp")))

    # --- exponentials and roots -----------------------------------------------------------------

    def exp(self) -> Tensor:
        """eˣ.   dx = g·eˣ

        >>> minitorch.tensor([0.0, 1.0]).exp()
        tensor([1.0000, 2.7183])
        """
        return apply_unary(ops.EXP, self)

    def exp2(self) -> Tensor:
        """2ˣ.   dx = g·2ˣ·log 2

        >>> minitorch.tensor([0.0, 3.0]).exp2()
        tensor([1., 8.])
        """
        return apply_unary(ops.EXP2, self)

    def expm1(self) -> Tensor:
        """eˣ - 1, exact near 0.   dx = g·eˣ

        >>> minitorch.tensor([0.0, 1e-8]).expm1()
        tensor([0.0000e+00, 1.0000e-08])
        """
        return apply_unary(ops.EXPM1, self)

    def log(self) -> Tensor:
        """The natural logarithm.   dx = g / x, infinite at 0

        >>> minitorch.tensor([1.0, 0.0]).log()
        tensor([0., -inf])
        """
        return apply_unary(ops.LOG, self)

    def log2(self) -> Tensor:
        """The logarithm to base 2.   dx = g / (x·log 2)

        >>> minitorch.tensor([1.0, 8.0]).log2()
        tensor([0., 3.])
        """
        return apply_unary(ops.LOG2, self)

    def log10(self) -> Tensor:
        """The logarithm to base 10.   dx = g / (x·log 10)

        >>> minitorch.tensor([1.0, 50.0]).log10()
        tensor([0.0000, 1.6990])
        """
        return apply_unary(ops.LOG10, self)

    def log1p(self) -> Tensor:
        """log(1 + x), exact near 0.   dx = g / (1 + x)

        >>> minitorch.tensor([0.0, 1.0]).log1p()
        tensor([0.0000, 0.6931])
        """
        return apply_unary(ops.LOG1P, self)

    def logaddexp(self, other: Any) -> Tensor:
        """log(eˣ + eʸ) without overflow.   dx = g·σ(x - y), dy = g·σ(y - x)

        >>> minitorch.tensor([100.0]).logaddexp(minitorch.tensor([100.0]))
        tensor([100.6931])
        """
        return binary(ops.LOGADDEXP, self, other)

    def sqrt(self) -> Tensor:
        """√x.   dx = g / (2·√x), infinite at 0

        >>> minitorch.tensor([4.0, 9.0]).sqrt()
        tensor([2., 3.])
        """
        return apply_unary(ops.SQRT, self)

    def rsqrt(self) -> Tensor:
        """1 / √x.   dx = -g / (2·x^{3/2})

        >>> minitorch.tensor([4.0, 16.0]).rsqrt()
        tensor([0.5000, 0.2500])
        """
        return apply_unary(ops.RSQRT, self)

    def hypot(self, other: Any) -> Tensor:
        """√(x² + y²).   dx = g·x / hypot, dy = g·y / hypot

        >>> minitorch.tensor([3.0]).hypot(minitorch.tensor([4.0]))
        tensor([5.])
        """
        return binary(ops.HYPOT, self, other)

    # --- trigonometry ---------------------------------------------------------------------------

    def sin(self) -> Tensor:
        """The sine.   dx = g·cos x

        >>> minitorch.tensor([0.0, 1.5707964]).sin()
        tensor([0., 1.])
        """
        return apply_unary(ops.SIN, self)

    def cos(self) -> Tensor:
        """The cosine.   dx = -g·sin x

        >>> minitorch.tensor([0.0]).cos()
        tensor([1.])
        """
        return apply_unary(ops.COS, self)

    def tan(self) -> Tensor:
        """The tangent.   dx = g·(1 + tan² x)

        >>> minitorch.tensor([0.7853982]).tan()
        tensor([1.])
        """
        return apply_unary(ops.TAN, self)

    def asin(self) -> Tensor:
        """The inverse of sin.   dx = g / √(1 - x²)

        >>> minitorch.tensor([1.0]).asin()
        tensor([1.5708])
        """
        return apply_unary(ops.ASIN, self)

    def acos(self) -> Tensor:
        """The inverse of cos.   dx = -g / √(1 - x²)

        >>> minitorch.tensor([1.0]).acos()
        tensor([0.])
        """
        return apply_unary(ops.ACOS, self)

    def atan(self) -> Tensor:
        """The inverse of tan.   dx = g / (1 + x²)

        >>> minitorch.tensor([1.0]).atan()
        tensor([0.7854])
        """
        return apply_unary(ops.ATAN, self)

    def atan2(self, other: Any) -> Tensor:
        """The angle of the point (x, y), called as y.atan2(x).

        dy = g·x / (x² + y²), dx = -g·y / (x² + y²); 0 at (0, 0)

        >>> minitorch.tensor([1.0]).atan2(minitorch.tensor([-1.0]))
        tensor([2.3562])
        """
        return binary(ops.ATAN2, self, other)

    def sinh(self) -> Tensor:
        """The hyperbolic sine.   dx = g·cosh x

        >>> minitorch.tensor([1.0]).sinh()
        tensor([1.1752])
        """
        return apply_unary(ops.SINH, self)

    def cosh(self) -> Tensor:
        """The hyperbolic cosine.   dx = g·sinh x

        >>> minitorch.tensor([0.0]).cosh()
        tensor([1.])
        """
        return apply_unary(ops.COSH, self)

    def asinh(self) -> Tensor:
        """The inverse of sinh.   dx = g / √(x² + 1)

        >>> minitorch.tensor([0.0]).asinh()
        tensor([0.])
        """
        return apply_unary(ops.ASINH, self)

    def acosh(self) -> Tensor:
        """The inverse of cosh.   dx = g / √(x² - 1)

        >>> minitorch.tensor([1.0]).acosh()
        tensor([0.])
        """
        return apply_unary(ops.ACOSH, self)

    def atanh(self) -> Tensor:
        """The inverse of tanh.   dx = g / (1 - x²)

        >>> minitorch.tensor([0.0]).atanh()
        tensor([0.])
        """
        return apply_unary(ops.ATANH, self)

    # --- activations ----------------------------------------------------------------------------

    def tanh(self) -> Tensor:
        """The hyperbolic tangent.   dx = g·(1 - tanh² x)

        >>> minitorch.tensor([0.0, 1.0]).tanh()
        tensor([0.0000, 0.7616])
        """
        return apply_unary(ops.TANH, self)

    def sigmoid(self) -> Tensor:
        """σ(x) = 1 / (1 + e⁻ˣ).   dx = g·σ·(1 - σ)

        >>> minitorch.tensor([0.0, 2.0]).sigmoid()
        tensor([0.5000, 0.8808])
        """
        return apply_unary(ops.SIGMOID, self)

    def relu(self) -> Tensor:
        """max(x, 0).   dx = g where x > 0, else 0

        >>> minitorch.tensor([-1.0, 0.0, 2.0]).relu()
        tensor([0., 0., 2.])
        """
        if self._data.dtype.kind == "b":
            raise RuntimeError("relu: a bool tensor has no negative side; write x.float().relu()")
        return apply_unary(ops.RELU, self)

    def leaky_relu(self, negative_slope: float = 0.01) -> Tensor:
        """x where x > 0, else s·x.   dx = g where x > 0, else s·g

        >>> minitorch.tensor([-1.0, 2.0]).leaky_relu(0.1)
        tensor([-0.1000,  2.0000])
        """
        return apply(ops.LEAKY_RELU, self, slope=negative_slope)

    def elu(self, alpha: float = 1.0) -> Tensor:
        """x where x > 0, else α·(eˣ - 1).   dx = g where x > 0, else g·α·eˣ

        >>> minitorch.tensor([-1.0, 2.0]).elu()
        tensor([-0.6321,  2.0000])
        """
        return apply(ops.ELU, self, alpha=alpha)

    def silu(self) -> Tensor:
        """x·σ(x).   dx = g·σ·(1 + x·(1 - σ))

        >>> minitorch.tensor([0.0, 1.0]).silu()
        tensor([0.0000, 0.7311])
        """
        return apply_unary(ops.SILU, self)

    def gelu(self, approximate: str = "none") -> Tensor:
        """x·Φ(x), with Φ the normal distribution; approximate="tanh" gives GPT-2's form.

        dx = g·(Φ(x) + x·φ(x)); the tanh form has its own derivative.

        >>> minitorch.tensor([-1.0, 0.0, 1.0]).gelu()
        tensor([-0.1587,  0.0000,  0.8413])
        """
        if approximate not in ("none", "tanh"):
            raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
        return apply(ops.GELU if approximate == "none" else ops.GELU_TANH, self)

    def softplus(self, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
        """log(1 + e^{βx}) / β; x itself where βx is above the threshold.   dx = g·σ(βx)

        >>> minitorch.tensor([0.0, 30.0]).softplus()
        tensor([ 0.6931, 30.0000])
        """
        return apply(ops.SOFTPLUS, self, beta=beta, threshold=threshold)

    def erf(self) -> Tensor:
        """The error function.   dx = g·2/√π·e^{-x²}

        >>> minitorch.tensor([0.0, 1.0]).erf()
        tensor([0.0000, 0.8427])
        """
        return apply_unary(ops.ERF, self)

    # --- kinks, choices and steps ---------------------------------------------------------------

    def abs(self) -> Tensor:
        """|x|.   dx = g·sign x, 0 at 0

        >>> minitorch.tensor([-1.0, 2.0]).abs()
        tensor([1., 2.])
        """
        return apply_unary(ops.ABS, self)

    def sign(self) -> Tensor:
        """-1, 0 or 1.   Derivative 0.

        >>> minitorch.tensor([-3.0, 0.0, 2.0]).sign()
        tensor([-1.,  0.,  1.])
        """
        return apply_unary(ops.SIGN, self) if self._data.dtype.kind != "b" else self.clone()  # type: ignore[attr-defined]

    def maximum(self, other: Any) -> Tensor:
        """The larger of two, element by element.   g to the larger; at a tie ½·g to each

        >>> minitorch.tensor([1.0, 5.0]).maximum(minitorch.tensor([2.0, 3.0]))
        tensor([2., 5.])
        """
        return binary(ops.MAXIMUM, self, other)

    def minimum(self, other: Any) -> Tensor:
        """The smaller of two, element by element.   g to the smaller; at a tie ½·g to each

        >>> minitorch.tensor([1.0, 5.0]).minimum(minitorch.tensor([2.0, 3.0]))
        tensor([1., 3.])
        """
        return binary(ops.MINIMUM, self, other)

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """x, but not below min nor above max.   dx = g strictly between them, else 0

        >>> minitorch.tensor([-2.0, 0.5, 2.0]).clamp(-1, 1)
        tensor([-1.0000,  0.5000,  1.0000])
        """
        if min is None and max is None:
            raise RuntimeError("clamp: at least one of min and max must be given")
        low, high = (None if bound is None else operand(bound, "clamp") for bound in (min, max))
        if isinstance(low, Node) or isinstance(high, Node):
            return clamp_by_tensors(self, low, high)
        x = self
        if self._data.dtype.kind in "biu" and any(isinstance(b, float) for b in (low, high)):
            x = to_floating(self)
        return apply(ops.CLIP, x, low=low, high=high)

    def clip(self, min: Any = None, max: Any = None) -> Tensor:
        """Another name of clamp.

        >>> minitorch.tensor([-2.0, 2.0]).clip(min=0)
        tensor([0., 2.])
        """
        return self.clamp(min, max)

    def where(self, condition: Any, other: Any) -> Tensor:
        """x where the condition holds, else y.   dx = g where it holds, dy = g where not

        >>> minitorch.tensor([1.0, 2.0]).where(minitorch.tensor([True, False]), 0.0)
        tensor([1., 0.])
        """
        return select(check_mask(condition, "where"), self, other)

    def floor(self) -> Tensor:
        """The largest integer not above x.   Derivative 0.

        >>> minitorch.tensor([1.5, -1.5]).floor()
        tensor([ 1., -2.])
        """
        return stepped(ops.FLOOR, self)

    def ceil(self) -> Tensor:
        """The smallest integer not below x.   Derivative 0.

        >>> minitorch.tensor([1.5, -1.5]).ceil()
        tensor([ 2., -1.])
        """
        return stepped(ops.CEIL, self)

    def trunc(self) -> Tensor:
        """The integer part, towards 0.   Derivative 0.

        >>> minitorch.tensor([1.5, -1.5]).trunc()
        tensor([ 1., -1.])
        """
        return stepped(ops.TRUNC, self)

    def round(self, *, decimals: int = 0) -> Tensor:
        """To the nearest integer, halves to even.   Derivative 0.

        >>> minitorch.tensor([0.5, 1.5, 2.4]).round()
        tensor([0., 2., 2.])
        """
        return stepped(ops.ROUND, self, decimals=decimals)

    # --- questions ------------------------------------------------------------------------------

    def eq(self, other: Any) -> Tensor:
        """Where x = y, as bools.

        >>> minitorch.tensor([1, 2]).eq(2)
        tensor([False,  True])
        """
        return binary(ops.EQUAL, self, other)

    def ne(self, other: Any) -> Tensor:
        """Where x ≠ y, as bools.

        >>> minitorch.tensor([1, 2]).ne(2)
        tensor([ True, False])
        """
        return binary(ops.NOT_EQUAL, self, other)

    def lt(self, other: Any) -> Tensor:
        """Where x < y, as bools.

        >>> minitorch.tensor([1, 2]).lt(2)
        tensor([ True, False])
        """
        return binary(ops.LESS, self, other)

    def le(self, other: Any) -> Tensor:
        """Where x ≤ y, as bools.

        >>> minitorch.tensor([1, 2, 3]).le(2)
        tensor([ True,  True, False])
        """
        return binary(ops.LESS_EQUAL, self, other)

    def gt(self, other: Any) -> Tensor:
        """Where x > y, as bools.

        >>> minitorch.tensor([1, 2, 3]).gt(2)
        tensor([False, False,  True])
        """
        return binary(ops.GREATER, self, other)

    def ge(self, other: Any) -> Tensor:
        """Where x ≥ y, as bools.

        >>> minitorch.tensor([1, 2, 3]).ge(2)
        tensor([False,  True,  True])
        """
        return binary(ops.GREATER_EQUAL, self, other)

    def logical_and(self, other: Any) -> Tensor:
        """Where both are true (not 0), as bools.

        >>> minitorch.tensor([True, True]).logical_and(minitorch.tensor([True, False]))
        tensor([ True, False])
        """
        return binary(ops.LOGICAL_AND, self, other)

    def logical_or(self, other: Any) -> Tensor:
        """Where either is true (not 0), as bools.

        >>> minitorch.tensor([True, False]).logical_or(minitorch.tensor([False, False]))
        tensor([ True, False])
        """
        return binary(ops.LOGICAL_OR, self, other)

    def logical_xor(self, other: Any) -> Tensor:
        """Where exactly one is true (not 0), as bools.

        >>> minitorch.tensor([True, True]).logical_xor(minitorch.tensor([True, False]))
        tensor([False,  True])
        """
        return binary(ops.LOGICAL_XOR, self, other)

    def logical_not(self) -> Tensor:
        """Where x is false (0), as bools.

        >>> minitorch.tensor([True, False]).logical_not()
        tensor([False,  True])
        """
        return apply_unary(ops.LOGICAL_NOT, self)

    def bitwise_and(self, other: Any) -> Tensor:
        """x & y, bit by bit, for ints and bools.

        >>> minitorch.tensor([6, 3]).bitwise_and(2)
        tensor([2, 2])
        """
        return binary(ops.BITWISE_AND, self, other)

    def bitwise_or(self, other: Any) -> Tensor:
        """x | y, bit by bit, for ints and bools.

        >>> minitorch.tensor([4, 3]).bitwise_or(2)
        tensor([6, 3])
        """
        return binary(ops.BITWISE_OR, self, other)

    def bitwise_xor(self, other: Any) -> Tensor:
        """x ^ y, bit by bit, for ints and bools.

        >>> minitorch.tensor([6, 3]).bitwise_xor(2)
        tensor([4, 1])
        """
        return binary(ops.BITWISE_XOR, self, other)

    def bitwise_not(self) -> Tensor:
        """~x, bit by bit, for ints and bools.

        >>> minitorch.tensor([True, False]).bitwise_not()
        tensor([False,  True])
        """
        return apply_unary(ops.BITWISE_NOT, self)

    def isnan(self) -> Tensor:
        """Where x is nan, as bools.

        >>> minitorch.tensor([1.0, float("nan")]).isnan()
        tensor([False,  True])
        """
        return apply_unary(ops.ISNAN, self)

    def isinf(self) -> Tensor:
        """Where x is infinite, as bools.

        >>> minitorch.tensor([1.0, -float("inf")]).isinf()
        tensor([False,  True])
        """
        return apply_unary(ops.ISINF, self)

    def isfinite(self) -> Tensor:
        """Where x is neither nan nor infinite, as bools.

        >>> minitorch.tensor([1.0, float("nan")]).isfinite()
        tensor([ True, False])
        """
        return apply_unary(ops.ISFINITE, self)

    def isclose(
        self, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> Tensor:
        """Where |x - y| ≤ atol + rtol·|y|, as bools.

        >>> minitorch.tensor([1.0, 2.0]).isclose(minitorch.tensor([1.0, 2.1]))
        tensor([ True, False])
        """
        x, y = promoted(self, tensor_for(other, "isclose"))
        common_shape("isclose", x._data.shape, y._data.shape)
        return new_tensor(np.isclose(x._data, y._data, rtol=rtol, atol=atol, equal_nan=equal_nan))

    def allclose(self, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
        """Whether all elements are close.

        >>> minitorch.tensor([1.0]).allclose(minitorch.tensor([1.0 + 1e-9]))
        True
        """
        return bool(self.isclose(other, rtol, atol, equal_nan)._data.all())

    # --- other names ----------------------------------------------------------------------------

    absolute, negative, fix = abs, neg, trunc
    subtract, multiply, divide, true_divide = sub, mul, div, div
    arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
    arcsinh, arccosh, arctanh = asinh, acosh, atanh
    not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge


def whole(*operands: Any) -> bool:
    """Tell whether the operands are computed in integers or bools."""
    if any(isinstance(o, Node) and o._data.dtype.kind in "fc" for o in operands):
        return False  # the common case, quickly
    return common_dtype(*(o._data if isinstance(o, Node) else o for o in operands)).kind in "biu"


def times_alpha(name: str, x: Any, y: Any, alpha: float) -> Any:
    """Return α·y in the dtype in which x and y meet, which α does not widen."""
    y = operand(y, name)
    if whole(x, y) and not isinstance(alpha, int):
        raise RuntimeError(f"{name}: alpha must be an int between integer tensors, got {alpha!r}")
    if not isinstance(y, Node):
        return y * alpha
    dtype = common_dtype(*(o._data if isinstance(o, Node) else o for o in (x, y)))
    return cast(binary(ops.MUL, cast(y, dtype), alpha), dtype)


def divide_whole(op: ops.Op, x: Any, y: Any) -> Tensor:
    """Run a division to whole numbers, or its remainder; integers have no quotient by 0."""
    x, y = operand(x, op.name), operand(y, op.name)
    if whole(x, y):
        if not any(isinstance(o, Node) and o._data.dtype.kind in "iu" for o in (x, y)) and not any(
            o.__class__ is int for o in (x, y)
        ):
            raise RuntimeError(f"{op.name}: bools cannot be divided; write x.int() first")
        if violated((y._data == 0).any()) if isinstance(y, Node) else y == 0:
            raise RuntimeError(
                f"{op.name}: integers cannot be divided by zero; write x.float() for inf and nan"
            )
    return binary(op, x, y)


def power(base: Any, exponent: Any) -> Tensor:
    """Return base to the power of exponent; integers stay integers, in negative powers too."""
    if isinstance(base, Node) and base._data.dtype.kind == "f":
        return binary(ops.POW, base, exponent)  # the common case, quickly
    base, exponent = operand(base, "pow"), operand(exponent, "pow")
    if not whole(base, exponent):
        return binary(ops.POW, base, exponent)
    if isinstance(exponent, Node):
        return _whole_power(as_tensor(base), exponent, like=base)
    if exponent < 0:
        raise RuntimeError(
            "pow: integers to negative integer powers are not allowed; write x.float() ** exponent"
        )
    if base._data.dtype.kind == "b" and exponent.__class__ is bool:
        return base.logical_or(not exponent)
    if base._data.dtype.kind != "b" and exponent > np.iinfo(base._data.dtype).max:
        raise RuntimeError(
            f"pow: the exponent {exponent} does not fit {base._data.dtype}; write x.long() first"
        )
    return binary(ops.POW, base, exponent)


def _whole_power(base: Any, exponent: Any, like: Any) -> Tensor:
    dtype = common_dtype(*(o._data if isinstance(o, Node) else o for o in (like, exponent)))
    if dtype.kind == "b":
        raise RuntimeError("pow: bools have no powers; write x.int() ** y")
    x, y = cast(base, dtype), cast(exponent, dtype)
    negative = y < 0
    if certain(~negative._data.any()):
        return apply(ops.POW, x, y)
    # 1 / x^|y| is whole for x = ±1 alone; for all others it is cut to 0.
    units = select(x == 1, 1, select(x == -1, 1 - 2 * (y % 2), 0))
    return select(negative, cast(units, dtype), apply(ops.POW, x, y.masked_fill(negative, 0)))


def clamp_by_tensors(x: Any, low: Any, high: Any) -> Tensor:
    """Return x between bounds of which at least one is a tensor; at a bound the gradient is the bound's."""
    if low is not None:
        below = (x <= low) | (low != low)  # a nan bound spoils what it bounds, as a nan x does
        x = select(below, low, x)
    if high is not None:
        above = (x >= high) | (high != high)
        x = select(above, high, x)
    return x


def check_mask(mask: Any, name: str) -> Tensor:
    """Return a mask as a tensor of bools, which it must be (uint8 passes, as in PyTorch)."""
    tensor = as_tensor(operand(mask, name))
    if tensor._data.dtype.kind != "b" and tensor._data.dtype != np.uint8:
        raise RuntimeError(f"{name}: the mask must hold bools, got {tensor._data.dtype}; write mask.bool()")
    return tensor


def fill_of(value: Any, dtype: Any, name: str) -> Any:
    """Return a Python number that a dtype can hold, for filling; one that it cannot is refused."""
    value = operand(value, name)
    if isinstance(value, Node):
        raise TypeError(f"{name}: expected a number, got a tensor of shape {value._data.shape}")
    if dtype.kind == "b":
        return bool(value)
    if isinstance(value, complex) and dtype.kind != "c":
        raise RuntimeError(f"{name}: {value!r} does not fit {dtype}; write its real part")
    if dtype.kind in "fc":
        return value
    limits = np.iinfo(dtype)
    # -1 among unsigned numbers counts from their end, as in C and in PyTorch.
    lowest = limits.min or -limits.max
    if not math.isfinite(value) or not lowest <= int(value) <= limits.max:
        raise RuntimeError(f"{name}: {value!r} does not fit {dtype}; write x.float() first")
    return int(value) % (limits.max + 1) if limits.min == 0 else int(value)


def stepped(op: ops.Op, x: Any, **attributes: Any) -> Tensor:
    """Run a rounding op; integers are whole already."""
    return x.clone() if x._data.dtype.kind in "biu" else apply(op, x, **attributes)


def select(condition: Any, x: Any, y: Any) -> Tensor:
    """Return x where the condition holds, else y, after dtype promotion of the two."""
    condition = as_tensor(condition)
    if condition._data.dtype.kind != "b":
        condition = cast(condition, np.bool_)
    x, y = operand(x, "where"), operand(y, "where")
    if not isinstance(x, Node) and not isinstance(y, Node):
        x, y = as_tensor(x), as_tensor(y)
    return apply(ops.WHERE, condition, *promoted(x, y))
