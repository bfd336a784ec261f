"""Sines, cosines, tangents and their inverses; angles. Enters: tensors. Leaves: tensors of their common shape."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from minitorch.engine.fast import apply_unary
from minitorch.engine.node import Node
from minitorch.ops import trigonometric as ops
from minitorch.tensor.convert import binary, to_floating
from minitorch.tensor.methods.public import function, in_place

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Trigonometry(Node):
    """Trigonometry, element by element."""

    __slots__ = ()

    @in_place
    def sin(self) -> Tensor:
        """The sine.   dx = g·cos x

        >>> minitorch.tensor([0.0, 1.5707964]).sin()
        tensor([0., 1.])
        """
        return apply_unary(ops.SIN, self)

    @in_place
    def cos(self) -> Tensor:
        """The cosine.   dx = -g·sin x

        >>> minitorch.tensor([0.0]).cos()
        tensor([1.])
        """
        return apply_unary(ops.COS, self)

    @in_place
    def tan(self) -> Tensor:
        """The tangent.   dx = g·(1 + tan² x)

        >>> minitorch.tensor([0.7853982]).tan()
        tensor([1.])
        """
        return apply_unary(ops.TAN, self)

    @in_place
    def asin(self) -> Tensor:
        """The inverse of sin.   dx = g / √(1 - x²)

        >>> minitorch.tensor([1.0]).asin()
        tensor([1.5708])
        """
        return apply_unary(ops.ASIN, self)

    @in_place
    def acos(self) -> Tensor:
        """The inverse of cos.   dx = -g / √(1 - x²)

        >>> minitorch.tensor([1.0]).acos()
        tensor([0.])
        """
        return apply_unary(ops.ACOS, self)

    @in_place
    def atan(self) -> Tensor:
        """The inverse of tan.   dx = g / (1 + x²)

        >>> minitorch.tensor([1.0]).atan()
        tensor([0.7854])
        """
        return apply_unary(ops.ATAN, self)

    # --- hyperbolic ------------------------------------------------------------------------------

    @in_place
    def sinh(self) -> Tensor:
        """The hyperbolic sine.   dx = g·cosh x

        >>> minitorch.tensor([1.0]).sinh()
        tensor([1.1752])
        """
        return apply_unary(ops.SINH, self)

    @in_place
    def cosh(self) -> Tensor:
        """The hyperbolic cosine.   dx = g·sinh x

        >>> minitorch.tensor([0.0]).cosh()
        tensor([1.])
        """
        return apply_unary(ops.COSH, self)

    @in_place
    def asinh(self) -> Tensor:
        """The inverse of sinh.   dx = g / √(x² + 1)

        >>> minitorch.tensor([0.0]).asinh()
        tensor([0.])
        """
        return apply_unary(ops.ASINH, self)

    @in_place
    def acosh(self) -> Tensor:
        """The inverse of cosh.   dx = g / √(x² - 1)

        >>> minitorch.tensor([1.0]).acosh()
        tensor([0.])
        """
        return apply_unary(ops.ACOSH, self)

    @in_place
    def atanh(self) -> Tensor:
        """The inverse of tanh.   dx = g / (1 - x²)

        >>> minitorch.tensor([0.0]).atanh()
        tensor([0.])
        """
        return apply_unary(ops.ATANH, self)

    # --- angles and points in the plane ----------------------------------------------------------

    @in_place
    def atan2(self, other: Any) -> Tensor:
        """The angle of the point (x, y), called as y.atan2(x).

        dy = g·x / (x² + y²), dx = -g·y / (x² + y²); 0 at (0, 0)

        >>> minitorch.tensor([1.0]).atan2(minitorch.tensor([-1.0]))
        tensor([2.3562])
        """
        return binary(ops.ATAN2, self, other)

    @in_place
    def hypot(self, other: Any) -> Tensor:
        """√(x² + y²).   dx = g·x / hypot, dy = g·y / hypot

        >>> minitorch.tensor([3.0]).hypot(minitorch.tensor([4.0]))
        tensor([5.])
        """
        return binary(ops.HYPOT, self, other)

    @in_place
    def deg2rad(self) -> Tensor:
        """Degrees as radians: x·π/180.   dx = g·π/180

        >>> deg2rad(minitorch.tensor([180.0]))
        tensor([3.1416])
        """
        return to_floating(self) * (math.pi / 180)

    @in_place
    def rad2deg(self) -> Tensor:
        """Radians as degrees: x·180/π.   dx = g·180/π

        >>> rad2deg(minitorch.tensor([3.1415927]))
        tensor([180.])
        """
        return to_floating(self) * (180 / math.pi)

    # --- other names -----------------------------------------------------------------------------

    arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
    arcsinh, arccosh, arctanh = asinh, acosh, atanh


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

sin = function(Trigonometry.sin)
cos = function(Trigonometry.cos)
tan = function(Trigonometry.tan)
asin = arcsin = function(Trigonometry.asin)
acos = arccos = function(Trigonometry.acos)
atan = arctan = function(Trigonometry.atan)
sinh = function(Trigonometry.sinh)
cosh = function(Trigonometry.cosh)
asinh = arcsinh = function(Trigonometry.asinh)
acosh = arccosh = function(Trigonometry.acosh)
atanh = arctanh = function(Trigonometry.atanh)
atan2 = arctan2 = function(Trigonometry.atan2, numbers=True)
hypot = function(Trigonometry.hypot, numbers=True)
deg2rad = function(Trigonometry.deg2rad)
rad2deg = function(Trigonometry.rad2deg)

__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin",
    "asinh", "atan", "atan2", "atanh", "cos", "cosh", "deg2rad", "hypot", "rad2deg", "sin", "sinh", "tan",
]  # fmt: skip
