"""Which is larger, what lies between, what holds; and logic, by element and by bit.

Enters: tensors that broadcast. Leaves: a tensor of their common shape; of bools for questions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.dtypes import finfo, kind_of
from minitorch.engine.fast import apply_unary
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.ops import comparison as ops
from minitorch.tensor.convert import (
    as_tensor,
    binary,
    cast,
    common_shape,
    operand,
    promoted,
    tensor_for,
    to_floating,
)
from minitorch.tensor.methods.arguments import apply_to_integers, as_row, beside, check_mask, together
from minitorch.tensor.methods.public import function, in_place

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Comparisons(Node):
    """Comparisons, choices, logic."""

    __slots__ = ()

    # --- the larger, the smaller, the chosen -----------------------------------------------------

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

    def fmax(self, other: Any) -> Tensor:
        """The larger of two, where one is nan the other.   g to it; at a tie to the first

        >>> fmax(minitorch.tensor([1.0, float("nan")]), minitorch.tensor([2.0, 3.0]))
        tensor([2., 3.])
        """
        return binary(ops.FMAX, self, other)

    def fmin(self, other: Any) -> Tensor:
        """The smaller of two, where one is nan the other.   g to it; at a tie to the first

        >>> fmin(minitorch.tensor([1.0, float("nan")]), minitorch.tensor([2.0, 3.0]))
        tensor([1., 3.])
        """
        return binary(ops.FMIN, self, other)

    @in_place
    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """x, but not below min nor above max.   dx = g strictly between them, else 0

        >>> minitorch.tensor([-2.0, 0.5, 2.0]).clamp(-1, 1)
        tensor([-1.0000,  0.5000,  1.0000])
        """
        if min is None and max is None:
            raise RuntimeError("clamp: at least one of min and max must be given")
        low, high = (None if bound is None else operand(bound, "clamp") for bound in (min, max))
        if isinstance(low, Node) or isinstance(high, Node):
            return _clamp_by_tensors(self, low, high)
        x = self
        if self._array.dtype.kind in "biu" and any(isinstance(b, float) for b in (low, high)):
            x = to_floating(self)
        return apply(ops.CLIP, x, low=low, high=high)

    @in_place
    def clamp_min(self: Any, min: Any) -> Tensor:
        """x, but not below min.   dx = g above it, else 0

        >>> clamp_min(minitorch.tensor([-1.0, 2.0]), 0)
        tensor([0., 2.])
        """
        return self.clamp(min=min)

    @in_place
    def clamp_max(self: Any, max: Any) -> Tensor:
        """x, but not above max.   dx = g below it, else 0

        >>> clamp_max(minitorch.tensor([-1.0, 2.0]), 0)
        tensor([-1.,  0.])
        """
        return self.clamp(max=max)

    def where(self, condition: Any, other: Any) -> Tensor:
        """x where the condition holds, else y.   dx = g where it holds, dy = g where not

        >>> minitorch.tensor([1.0, 2.0]).where(minitorch.tensor([True, False]), 0.0)
        tensor([1., 0.])
        """
        return where(condition, self, other)

    @in_place
    def heaviside(self, values: Any) -> Tensor:
        """0 below 0, 1 above it, and `values` at 0.

        >>> heaviside(minitorch.tensor([-1.0, 0.0, 1.0]), minitorch.tensor(0.5))
        tensor([0.0000, 0.5000, 1.0000])
        """
        y = tensor_for(values, "heaviside")
        if self._array.dtype != y._array.dtype:
            raise RuntimeError(f"heaviside: expects one dtype, got {self._array.dtype} and {y._array.dtype}")
        return apply(ops.HEAVISIDE, *together(self, y))

    @in_place
    def nan_to_num(
        self: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
    ) -> Tensor:
        """x with nan as 0 and infinities as the largest numbers, or as given.   dx = g where x is finite

        >>> nan_to_num(minitorch.tensor([1.0, float("nan")]), nan=7.0)
        tensor([1., 7.])
        """
        x = self
        if kind_of(x._array.dtype) != "f":
            return x.clone()
        limits = finfo(x._array.dtype)
        top = limits.max if posinf is None else posinf
        bottom = limits.min if neginf is None else neginf
        x = where(x.isnan(), 0.0 if nan is None else nan, x)
        x = where(x == math.inf, top, x)
        return where(x == -math.inf, bottom, x)

    # --- questions -------------------------------------------------------------------------------

    @in_place
    def eq(self, other: Any) -> Tensor:
        """Where x = y, as bools.

        >>> minitorch.tensor([1, 2]).eq(2)
        tensor([False,  True])
        """
        return binary(ops.EQUAL, self, other)

    @in_place
    def ne(self, other: Any) -> Tensor:
        """Where x ≠ y, as bools.

        >>> minitorch.tensor([1, 2]).ne(2)
        tensor([ True, False])
        """
        return binary(ops.NOT_EQUAL, self, other)

    @in_place
    def lt(self, other: Any) -> Tensor:
        """Where x < y, as bools.

        >>> minitorch.tensor([1, 2]).lt(2)
        tensor([ True, False])
        """
        return binary(ops.LESS, self, other)

    @in_place
    def le(self, other: Any) -> Tensor:
        """Where x ≤ y, as bools.

        >>> minitorch.tensor([1, 2, 3]).le(2)
        tensor([ True,  True, False])
        """
        return binary(ops.LESS_EQUAL, self, other)

    @in_place
    def gt(self, other: Any) -> Tensor:
        """Where x > y, as bools.

        >>> minitorch.tensor([1, 2, 3]).gt(2)
        tensor([False, False,  True])
        """
        return binary(ops.GREATER, self, other)

    @in_place
    def ge(self, other: Any) -> Tensor:
        """Where x ≥ y, as bools.

        >>> minitorch.tensor([1, 2, 3]).ge(2)
        tensor([False,  True,  True])
        """
        return binary(ops.GREATER_EQUAL, self, other)

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

    def isposinf(self: Any) -> Tensor:
        """Where x is +inf.

        >>> isposinf(minitorch.tensor([float("inf"), -float("inf")]))
        tensor([ True, False])
        """
        return self == math.inf

    def isneginf(self: Any) -> Tensor:
        """Where x is -inf.

        >>> isneginf(minitorch.tensor([float("inf"), -float("inf")]))
        tensor([False,  True])
        """
        return self == -math.inf

    def isreal(self: Any) -> Tensor:
        """Where x has no imaginary part: everywhere, for real numbers.

        >>> isreal(minitorch.tensor([1.0]))
        tensor([True])
        """
        if self._array.dtype.kind == "c":
            return self.imag == 0
        return (self == self) | (self != self)

    def signbit(self) -> Tensor:
        """Whether x is negative, -0.0 included.

        >>> signbit(minitorch.tensor([-0.0, 1.0]))
        tensor([ True, False])
        """
        return apply_unary(ops.SIGNBIT, self)

    def isclose(
        self, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> Tensor:
        """Where |x - y| ≤ atol + rtol·|y|, as bools.

        >>> minitorch.tensor([1.0, 2.0]).isclose(minitorch.tensor([1.0, 2.1]))
        tensor([ True, False])
        """
        x, y = promoted(*together(self, tensor_for(other, "isclose")))
        common_shape("isclose", x._data.shape, y._data.shape)
        return new_tensor(np.isclose(x._data, y._data, rtol=rtol, atol=atol, equal_nan=equal_nan))

    def allclose(self, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
        """Whether all elements are close.

        >>> minitorch.tensor([1.0]).allclose(minitorch.tensor([1.0 + 1e-9]))
        True
        """
        return bool(self.isclose(other, rtol, atol, equal_nan)._data.all())

    # --- logic and bits --------------------------------------------------------------------------

    @in_place
    def logical_and(self, other: Any) -> Tensor:
        """Where both are true (not 0), as bools.

        >>> minitorch.tensor([True, True]).logical_and(minitorch.tensor([True, False]))
        tensor([ True, False])
        """
        return binary(ops.LOGICAL_AND, self, other)

    @in_place
    def logical_or(self, other: Any) -> Tensor:
        """Where either is true (not 0), as bools.

        >>> minitorch.tensor([True, False]).logical_or(minitorch.tensor([False, False]))
        tensor([ True, False])
        """
        return binary(ops.LOGICAL_OR, self, other)

    @in_place
    def logical_xor(self, other: Any) -> Tensor:
        """Where exactly one is true (not 0), as bools.

        >>> minitorch.tensor([True, True]).logical_xor(minitorch.tensor([True, False]))
        tensor([False,  True])
        """
        return binary(ops.LOGICAL_XOR, self, other)

    @in_place
    def logical_not(self) -> Tensor:
        """Where x is false (0), as bools.

        >>> minitorch.tensor([True, False]).logical_not()
        tensor([False,  True])
        """
        return apply_unary(ops.LOGICAL_NOT, self)

    @in_place
    def bitwise_and(self, other: Any) -> Tensor:
        """x & y, bit by bit, for ints and bools.

        >>> minitorch.tensor([6, 3]).bitwise_and(2)
        tensor([2, 2])
        """
        return binary(ops.BITWISE_AND, self, other)

    @in_place
    def bitwise_or(self, other: Any) -> Tensor:
        """x | y, bit by bit, for ints and bools.

        >>> minitorch.tensor([4, 3]).bitwise_or(2)
        tensor([6, 3])
        """
        return binary(ops.BITWISE_OR, self, other)

    @in_place
    def bitwise_xor(self, other: Any) -> Tensor:
        """x ^ y, bit by bit, for ints and bools.

        >>> minitorch.tensor([6, 3]).bitwise_xor(2)
        tensor([4, 1])
        """
        return binary(ops.BITWISE_XOR, self, other)

    @in_place
    def bitwise_not(self) -> Tensor:
        """~x, bit by bit, for ints and bools.

        >>> minitorch.tensor([True, False]).bitwise_not()
        tensor([False,  True])
        """
        return apply_unary(ops.BITWISE_NOT, self)

    @in_place
    def bitwise_left_shift(self, other: Any) -> Tensor:
        """x·2ʸ of integers, bits moved to the left.

        >>> bitwise_left_shift(minitorch.tensor([1, 3]), 2)
        tensor([ 4, 12])
        """
        return apply_to_integers(ops.LEFT_SHIFT, self, other)

    @in_place
    def bitwise_right_shift(self, other: Any) -> Tensor:
        """⌊x / 2ʸ⌋ of integers, bits moved to the right.

        >>> bitwise_right_shift(minitorch.tensor([4, 13]), 2)
        tensor([1, 3])
        """
        return apply_to_integers(ops.RIGHT_SHIFT, self, other)

    # --- other names -----------------------------------------------------------------------------

    __lshift__, __rshift__ = bitwise_left_shift, bitwise_right_shift
    clip = clamp
    not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """x where the condition holds, else y; with the condition alone, the indices where it holds.

    dx = g where it holds, dy = g where not. A nan or an infinite slope in the branch not taken still
    spoils the gradient (0·nan = nan): make that branch safe with a second where inside it.

    >>> where(minitorch.tensor([True, False]), minitorch.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if input is None and other is None:
        places = np.nonzero(as_row(as_tensor(condition))._data)
        return tuple(as_tensor(i) for i in places)
    x, y = operand(input, "where"), operand(other, "where")
    mask = check_mask(beside(condition, x if isinstance(x, Node) else y), "where")
    if mask._array.dtype.kind != "b":
        mask = cast(mask, np.bool_)
    if not isinstance(x, Node) and not isinstance(y, Node):
        x = as_tensor(x)
    mask, x, y = together(mask, x, y)
    return apply(ops.WHERE, mask, *promoted(x, y))


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Where an element is among the test elements.

    >>> isin(minitorch.tensor([1, 2, 3]), minitorch.tensor([2, 5]))
    tensor([False,  True, False])
    """
    among = beside(test_elements, elements)
    x, among = together(beside(elements, among), among)
    found = (x.unsqueeze(-1) == among.reshape(-1)).any(-1)
    return ~found if invert else found


def _clamp_by_tensors(x: Any, low: Any, high: Any) -> Tensor:
    """Return x between bounds of which at least one is a tensor; at a bound the gradient is the bound's."""
    if low is not None:
        below = (x <= low) | (low != low)  # a nan bound spoils what it bounds, as a nan x does
        x = where(below, low, x)
    if high is not None:
        above = (x >= high) | (high != high)
        x = where(above, high, x)
    return x


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

maximum = function(Comparisons.maximum, numbers=True)
minimum = function(Comparisons.minimum, numbers=True)
fmax = function(Comparisons.fmax, numbers=True)
fmin = function(Comparisons.fmin, numbers=True)
clamp = clip = function(Comparisons.clamp)
clamp_min = function(Comparisons.clamp_min)
clamp_max = function(Comparisons.clamp_max)
heaviside = function(Comparisons.heaviside)
nan_to_num = function(Comparisons.nan_to_num)
eq = function(Comparisons.eq, numbers=True)
ne = not_equal = function(Comparisons.ne, numbers=True)
lt = less = function(Comparisons.lt, numbers=True)
le = less_equal = function(Comparisons.le, numbers=True)
gt = greater = function(Comparisons.gt, numbers=True)
ge = greater_equal = function(Comparisons.ge, numbers=True)
isnan = function(Comparisons.isnan)
isinf = function(Comparisons.isinf)
isfinite = function(Comparisons.isfinite)
isposinf = function(Comparisons.isposinf)
isneginf = function(Comparisons.isneginf)
isreal = function(Comparisons.isreal)
signbit = function(Comparisons.signbit)
isclose = function(Comparisons.isclose)
allclose = function(Comparisons.allclose)
logical_and = function(Comparisons.logical_and, numbers=True)
logical_or = function(Comparisons.logical_or, numbers=True)
logical_xor = function(Comparisons.logical_xor, numbers=True)
logical_not = function(Comparisons.logical_not)
bitwise_and = function(Comparisons.bitwise_and, numbers=True)
bitwise_or = function(Comparisons.bitwise_or, numbers=True)
bitwise_xor = function(Comparisons.bitwise_xor, numbers=True)
bitwise_not = function(Comparisons.bitwise_not)
bitwise_left_shift = function(Comparisons.bitwise_left_shift, numbers=True)
bitwise_right_shift = function(Comparisons.bitwise_right_shift, numbers=True)

__all__ = [
    "allclose", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "clamp", "clamp_max", "clamp_min", "clip", "eq", "fmax", "fmin", "ge", "greater",
    "greater_equal", "gt", "heaviside", "isclose", "isfinite", "isin", "isinf", "isnan", "isneginf",
    "isposinf", "isreal", "le", "less", "less_equal", "logical_and", "logical_not", "logical_or",
    "logical_xor", "lt", "maximum", "minimum", "nan_to_num", "ne", "not_equal", "signbit", "where",
]  # fmt: skip
