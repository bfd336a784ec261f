"""To whole numbers, to the next float. Enters: a tensor. Leaves: a tensor of its shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minitorch.engine.dtypes import kind_of
from minitorch.engine.node import Node
from minitorch.engine.record import apply
from minitorch.ops import rounding as ops
from minitorch.ops.op import Op
from minitorch.tensor.convert import promoted, tensor_for
from minitorch.tensor.methods.arguments import together
from minitorch.tensor.methods.public import function, in_place

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Rounding(Node):
    """Rounding, element by element."""

    __slots__ = ()

    @in_place
    def floor(self) -> Tensor:
        """The largest integer not above x.   Derivative 0.

        >>> minitorch.tensor([1.5, -1.5]).floor()
        tensor([ 1., -2.])
        """
        return _stepped(ops.FLOOR, self)

    @in_place
    def ceil(self) -> Tensor:
        """The smallest integer not below x.   Derivative 0.

        >>> minitorch.tensor([1.5, -1.5]).ceil()
        tensor([ 2., -1.])
        """
        return _stepped(ops.CEIL, self)

    @in_place
    def trunc(self) -> Tensor:
        """The integer part, towards 0.   Derivative 0.

        >>> minitorch.tensor([1.5, -1.5]).trunc()
        tensor([ 1., -1.])
        """
        return _stepped(ops.TRUNC, self)

    @in_place
    def round(self, *, decimals: int = 0) -> Tensor:
        """To the nearest integer, halves to even.   Derivative 0.

        >>> minitorch.tensor([0.5, 1.5, 2.4]).round()
        tensor([0., 2., 2.])
        """
        return _stepped(ops.ROUND, self, decimals=decimals)

    @in_place
    def frac(self: Any) -> Tensor:
        """x - trunc(x), what stands behind the point.   dx = g

        >>> frac(minitorch.tensor([1.5, -2.25]))
        tensor([ 0.5000, -0.2500])
        """
        if kind_of(self._array.dtype) != "f":
            raise RuntimeError(f"frac: integers have none, got {self._array.dtype}; write x.float()")
        return self - self.trunc()

    @in_place
    def nextafter(self, other: Any) -> Tensor:
        """The next floating-point number after x, towards y.

        >>> nextafter(minitorch.tensor([1.0]), minitorch.tensor([2.0])) > 1
        tensor([True])
        """
        x, y = promoted(*together(self, tensor_for(other, "nextafter")))
        return apply(ops.NEXTAFTER, x, y)

    fix = trunc


def _stepped(op: Op, x: Any, **attributes: Any) -> Tensor:
    """Run a rounding op; integers are whole already."""
    return x.clone() if x._array.dtype.kind in "biu" else apply(op, x, **attributes)


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

floor = function(Rounding.floor)
ceil = function(Rounding.ceil)
trunc = fix = function(Rounding.trunc)
round = function(Rounding.round)
frac = function(Rounding.frac)
nextafter = function(Rounding.nextafter)

__all__ = ["ceil", "fix", "floor", "frac", "nextafter", "round", "trunc"]
