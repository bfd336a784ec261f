"""Sums, products, quotients, powers, remainders, signs. Enters: tensors that broadcast. Leaves: a tensor of their
common shape.

In the formulas g is the gradient of the result; gradients are summed over broadcast axes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.dtypes import common_dtype, kind_of
from minitorch.engine.fast import apply_unary
from minitorch.engine.node import Node
from minitorch.engine.record import apply
from minitorch.ops import arithmetic as ops
from minitorch.ops.op import Op, certain, violated
from minitorch.tensor.convert import as_tensor, binary, cast, operand, promoted, refuse_bools, tensor_for
from minitorch.tensor.methods.arguments import apply_to_integers, together, whole
from minitorch.tensor.methods.comparison import where
from minitorch.tensor.methods.public import function, in_place

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Arithmetic(Node):
    """Arithmetic, element by element."""

    __slots__ = ()

    # --- sums, products, quotients ---------------------------------------------------------------

    @in_place
    def add(self, other: Any, *old: Any, alpha: float = 1) -> Tensor:
        """x + α·y.   dx = g, dy = α·g

        >>> logits = minitorch.zeros(3, 5)           # person × tense
        >>> logits.add(minitorch.arange(5)).shape
        (3, 5)
        """
        if old:
            alpha, other = in_old_order("add", other, *old)
        return binary(ops.ADD, self, other if alpha == 1 else times_alpha("add", self, other, alpha))

    @in_place
    def sub(self, other: Any, *old: Any, alpha: float = 1) -> Tensor:
        """x - α·y.   dx = g, dy = -α·g

        >>> minitorch.tensor([3.0, 5.0]).sub(1)
        tensor([2., 4.])
        """
        if old:
            alpha, other = in_old_order("sub", other, *old)
        if alpha != 1:
            refuse_bools(self, operand(other, "sub"))
            other = times_alpha("sub", self, other, alpha)
        return binary(ops.SUB, self, other)

    @in_place
    def mul(self, other: Any) -> Tensor:
        """x·y.   dx = g·y, dy = g·x

        >>> minitorch.tensor([3.0, 5.0]).mul(2)
        tensor([ 6., 10.])
        """
        return binary(ops.MUL, self, other)

    @in_place
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

    @in_place
    def neg(self) -> Tensor:
        """-x.   dx = -g

        >>> minitorch.tensor([1.0, -2.0]).neg()
        tensor([-1.,  2.])
        """
        if self._array.dtype.kind == "b":
            raise RuntimeError("neg: a bool tensor has no negative; write ~x or x.logical_not()")
        return apply_unary(ops.NEG, self)

    def positive(self: Any) -> Tensor:
        """+x: x itself.

        >>> positive(minitorch.tensor([-1.0]))
        tensor([-1.])
        """
        if self._array.dtype.kind == "b":
            raise RuntimeError("positive: a bool tensor has no sign; write x.int()")
        return self

    @in_place
    def reciprocal(self) -> Tensor:
        """1 / x.   dx = -g / x²

        >>> minitorch.tensor([2.0, 4.0]).reciprocal()
        tensor([0.5000, 0.2500])
        """
        return apply_unary(ops.RECIPROCAL, self)

    @in_place
    def square(self) -> Tensor:
        """x².   dx = 2·g·x

        >>> minitorch.tensor([1.0, -3.0]).square()
        tensor([1., 9.])
        """
        return apply(ops.SQUARE, cast(self, np.int64) if self._array.dtype.kind == "b" else self)

    @in_place
    def lerp(self, end: Any, weight: Any) -> Tensor:
        """x + w·(y - x).   dx = g·(1 - w), dy = g·w, dw = g·(y - x)

        >>> minitorch.tensor([0.0, 10.0]).lerp(minitorch.tensor([10.0, 20.0]), 0.5)
        tensor([ 5., 15.])
        """
        return apply(ops.LERP, *promoted(*together(self, tensor_for(end, "lerp"), operand(weight, "lerp"))))

    @in_place
    def addcmul(self: Any, tensor1: Any, tensor2: Any, *old: Any, value: float = 1) -> Tensor:
        """x + v·a·b.   dx = g, da = v·g·b, db = v·g·a

        >>> addcmul(minitorch.tensor([1.0, 1.0]), minitorch.tensor([2.0, 3.0]), minitorch.tensor([4.0, 5.0]), value=0.5)
        tensor([5.0000, 8.5000])
        """
        if old:
            value, tensor1, tensor2 = in_old_order("addcmul", tensor1, tensor2, *old)
        product = binary(ops.MUL, tensor1, tensor2)
        if value == 1:
            return self + product
        if whole(self, product) and not isinstance(value, int):
            raise RuntimeError(f"addcmul: value must be an int between integer tensors, got {value!r}")
        return self + product * value

    @in_place
    def addcdiv(self: Any, tensor1: Any, tensor2: Any, *old: Any, value: float = 1) -> Tensor:
        """x + v·a / b.   dx = g, da = v·g / b, db = -v·g·a / b²

        >>> addcdiv(minitorch.tensor([1.0]), minitorch.tensor([1.0]), minitorch.tensor([4.0]), value=2)
        tensor([1.5000])
        """
        if old:
            value, tensor1, tensor2 = in_old_order("addcdiv", tensor1, tensor2, *old)
        a, b = as_tensor(tensor1), as_tensor(tensor2)
        if whole(a, b):
            raise RuntimeError(
                "addcdiv: of integers there is none; write x + v * (a / b).trunc() or x.float()"
            )
        quotient = a / b
        return self + (quotient if value == 1 else quotient * value)

    # --- powers ----------------------------------------------------------------------------------

    @in_place
    def pow(self, exponent: Any) -> Tensor:
        """xʸ.   dx = g·y·xʸ⁻¹ (0 where y = 0), dy = g·xʸ·log x (0 where x = 0 and y ≥ 0)

        >>> minitorch.tensor([1.0, 2.0, 3.0]).pow(2)
        tensor([1., 4., 9.])
        """
        return power(self, exponent)

    @in_place
    def float_power(self, exponent: Any) -> Tensor:
        """xʸ, computed in float64.   dx = g·y·xʸ⁻¹, dy = g·xʸ·log x

        >>> float_power(minitorch.tensor([2, 3]), 2)
        tensor([4., 9.], dtype=float64)
        """
        given = operand(self, "float_power"), operand(exponent, "float_power")
        kinds = [o._array.dtype.kind if isinstance(o, Node) else np.result_type(o).kind for o in given]
        double: Any = np.complex128 if "c" in kinds else np.float64
        base, by = (
            cast(o, double) if isinstance(o, Node) else o if isinstance(o, complex) else float(o)
            for o in given
        )
        return power(base, by)

    # --- signs -----------------------------------------------------------------------------------

    @in_place
    def abs(self) -> Tensor:
        """|x|.   dx = g·sign x, 0 at 0

        >>> minitorch.tensor([-1.0, 2.0]).abs()
        tensor([1., 2.])
        """
        return apply_unary(ops.ABS, self)

    @in_place
    def sign(self) -> Tensor:
        """-1, 0 or 1.   Derivative 0.

        >>> minitorch.tensor([-3.0, 0.0, 2.0]).sign()
        tensor([-1.,  0.,  1.])
        """
        return apply_unary(ops.SIGN, self) if self._array.dtype.kind != "b" else self.clone()  # type: ignore[attr-defined]

    @in_place
    def sgn(self: Any) -> Tensor:
        """-1, 0 or 1; of a complex number x / |x|.   Derivative 0, for real numbers

        >>> sgn(minitorch.tensor([-3.0, 0.0]))
        tensor([-1.,  0.])
        """
        return _sign_of_complex(self) if self._array.dtype.kind == "c" else self.sign()

    @in_place
    def copysign(self, other: Any) -> Tensor:
        """|x| with the sign of y.   dx = ±g, 0 at 0; dy = 0

        >>> copysign(minitorch.tensor([1.0, -2.0]), -1)
        tensor([-1., -2.])
        """
        return binary(ops.COPYSIGN, self, other)

    # --- whole numbers ---------------------------------------------------------------------------

    @in_place
    def floor_divide(self, other: Any) -> Tensor:
        """⌊x / y⌋.   Derivative 0.

        >>> minitorch.tensor([7, -7]).floor_divide(2)
        tensor([ 3, -4])
        """
        return divide_whole(ops.FLOOR_QUOTIENT, self, other)

    @in_place
    def remainder(self, other: Any) -> Tensor:
        """x - y·⌊x / y⌋: has the sign of y.   dx = g, dy = -g·⌊x / y⌋

        >>> minitorch.tensor([-7.0, 7.0]).remainder(3)
        tensor([2., 1.])
        """
        return divide_whole(ops.REMAINDER, self, other)

    @in_place
    def fmod(self, other: Any) -> Tensor:
        """x - y·trunc(x / y): has the sign of x.   dx = g, dy = -g·trunc(x / y)

        >>> minitorch.tensor([-7.0, 7.0]).fmod(3)
        tensor([-1.,  1.])
        """
        return divide_whole(ops.FMOD, self, other)

    @in_place
    def gcd(self, other: Any) -> Tensor:
        """The greatest common divisor of integers.

        >>> gcd(minitorch.tensor([12, 18]), minitorch.tensor([8, 27]))
        tensor([4, 9])
        """
        return apply_to_integers(ops.GCD, self, other)

    @in_place
    def lcm(self, other: Any) -> Tensor:
        """The least common multiple of integers.

        >>> lcm(minitorch.tensor([4, 6]), minitorch.tensor([6, 9]))
        tensor([12, 18])
        """
        return apply_to_integers(ops.LCM, self, other)

    # --- other names -----------------------------------------------------------------------------

    absolute = abs
    negative = neg
    subtract, multiply = sub, mul
    divide = true_divide = div


def rsub(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """y - α·x: sub with its operands exchanged.   dx = -α·g, dy = g

    >>> rsub(minitorch.tensor([1.0, 2.0]), 10, alpha=2)
    tensor([8., 6.])
    """
    left = operand(other, "rsub")
    if not isinstance(left, Node):
        left = as_tensor(left, common_dtype(as_tensor(input)._data, left))
    return left.sub(input, alpha=alpha)


def power(base: Any, exponent: Any) -> Tensor:
    """Return base to the power of exponent; integers stay integers, in negative powers too."""
    if isinstance(base, Node) and kind_of(base._array.dtype) == "f":
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
    if base._array.dtype.kind == "b" and exponent.__class__ is bool:
        return base.logical_or(not exponent)
    if base._array.dtype.kind != "b" and exponent > np.iinfo(base._array.dtype).max:
        raise RuntimeError(
            f"pow: the exponent {exponent} does not fit {base._array.dtype}; write x.long() first"
        )
    return binary(ops.POW, base, exponent)


def _whole_power(base: Any, exponent: Any, like: Any) -> Tensor:
    dtype = common_dtype(*(o._data if isinstance(o, Node) else o for o in (like, exponent)))
    if dtype.kind == "b":
        raise RuntimeError("pow: bools have no powers; write x.int() ** y")
    x, y = together(cast(base, dtype), cast(exponent, dtype))
    negative = y < 0
    if certain(~negative._data.any()):
        return apply(ops.POW, x, y)
    # 1 / x^|y| is whole for x = ±1 alone; for all others it is cut to 0.
    units = where(x == 1, 1, where(x == -1, 1 - 2 * (y % 2), 0))
    return where(negative, cast(units, dtype), apply(ops.POW, x, y.masked_fill(negative, 0)))


def in_old_order(name: str, *given: Any) -> tuple[Any, ...]:
    """Return the arguments of PyTorch's old signatures: x.add_(α, y), x.addcmul_(v, a, b): a number, then tensors."""
    if not isinstance(given[0], (int, float, complex)) or not all(
        isinstance(each, Node) for each in given[1:]
    ):
        raise TypeError(
            f"{name}: got {len(given)} arguments by position; factors go by keyword (alpha=, value=)"
        )
    return given


def times_alpha(name: str, x: Any, y: Any, alpha: float) -> Any:
    """Return α·y in the dtype in which x and y meet, which α does not widen."""
    y = operand(y, name)
    if whole(x, y) and not isinstance(alpha, int):
        raise RuntimeError(f"{name}: alpha must be an int between integer tensors, got {alpha!r}")
    if not isinstance(y, Node):
        return y * alpha
    dtype = common_dtype(*(o._data if isinstance(o, Node) else o for o in (x, y)))
    return cast(binary(ops.MUL, cast(y, dtype), alpha), dtype)


def divide_whole(op: Op, x: Any, y: Any) -> Tensor:
    """Run a division to whole numbers, or its remainder; integers have no quotient by 0."""
    x, y = operand(x, op.name), operand(y, op.name)
    if whole(x, y):
        if not any(isinstance(o, Node) and o._array.dtype.kind in "iu" for o in (x, y)) and not any(
            o.__class__ is int for o in (x, y)
        ):
            raise RuntimeError(f"{op.name}: bools cannot be divided; write x.int() first")
        if violated((y._data == 0).any()) if isinstance(y, Node) else y == 0:
            raise RuntimeError(
                f"{op.name}: integers cannot be divided by zero; write x.float() for inf and nan"
            )
    return binary(op, x, y)


def _sign_of_complex(x: Any) -> Tensor:
    """Return x / |x|, 0 at 0, of complex numbers."""
    size = x.abs()
    origin = size == 0
    return where(origin, 0.0, x / where(origin, 1.0, size))


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

add = function(Arithmetic.add, numbers=True)
sub = subtract = function(Arithmetic.sub, numbers=True)
mul = multiply = function(Arithmetic.mul, numbers=True)
div = divide = true_divide = function(Arithmetic.div, numbers=True)
neg = negative = function(Arithmetic.neg)
positive = function(Arithmetic.positive)
reciprocal = function(Arithmetic.reciprocal)
square = function(Arithmetic.square)
lerp = function(Arithmetic.lerp)
addcmul = function(Arithmetic.addcmul)
addcdiv = function(Arithmetic.addcdiv)
pow = function(Arithmetic.pow, numbers=True)
float_power = function(Arithmetic.float_power, numbers=True)
abs = absolute = function(Arithmetic.abs)
sign = function(Arithmetic.sign)
sgn = function(Arithmetic.sgn)
copysign = function(Arithmetic.copysign)
floor_divide = function(Arithmetic.floor_divide, numbers=True)
remainder = function(Arithmetic.remainder, numbers=True)
fmod = function(Arithmetic.fmod, numbers=True)
gcd = function(Arithmetic.gcd, numbers=True)
lcm = function(Arithmetic.lcm, numbers=True)

__all__ = [
    "abs", "absolute", "add", "addcdiv", "addcmul", "copysign", "div", "divide", "float_power",
    "floor_divide", "fmod", "gcd", "lcm", "lerp", "mul", "multiply", "neg", "negative", "positive", "pow",
    "reciprocal", "remainder", "rsub", "sgn", "sign", "square", "sub", "subtract", "true_divide",
]  # fmt: skip
