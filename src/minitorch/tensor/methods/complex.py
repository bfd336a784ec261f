"""Complex numbers: made from parts, taken apart, conjugated.

Enters: tensors. Leaves: tensors. A gradient of a complex tensor is ∂L/∂(real part) + i·∂L/∂(imaginary part), as in
PyTorch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.complex import meet_complex
from minitorch.engine.dtypes import kind_of
from minitorch.engine.node import Node
from minitorch.engine.record import apply
from minitorch.ops import complex as ops
from minitorch.tensor.convert import cast, tensor_for
from minitorch.tensor.methods.comparison import where
from minitorch.tensor.methods.joining import stack
from minitorch.tensor.methods.public import function

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class ComplexNumbers(Node):
    """Parts, angles, conjugates."""

    __slots__ = ()

    @property
    def real(self) -> Tensor:
        """The real part; of a real tensor, the tensor itself.   dx = g"""
        return real(self)

    @property
    def imag(self) -> Tensor:
        """The imaginary part of complex numbers.   dx = i·g"""
        return imag(self)

    def angle(self: Any) -> Tensor:
        """atan2(y, x) of x + iy; of a real number 0, or π if it is negative.   dx = i·g·x / |x|², 0 at 0

        >>> angle(minitorch.tensor([1j, -1 + 0j]))
        tensor([1.5708, 3.1416])
        """
        x = self
        if x._array.dtype.kind == "c":
            return imag(x).atan2(real(x))
        if kind_of(x._array.dtype) != "f":
            x = cast(x, np.float32)
        return where(x < 0, math.pi, where(x != x, x, 0.0))

    def conj(self: Any) -> Tensor:
        """x - iy for x + iy; real numbers as they are.   dx = conj g

        >>> conj(minitorch.tensor([1 + 2j]))
        tensor([1.-2.j])
        """
        return apply(ops.CONJ, self) if self._array.dtype.kind == "c" else self

    def resolve_conj(self: Any) -> Tensor:
        """The tensor itself: a conjugate is computed at once here.   dx = g

        >>> resolve_conj(minitorch.tensor([1 + 2j]))
        tensor([1.+2.j])
        """
        return self

    def is_conj(self) -> bool:
        """Whether a conjugation is still to be done: never, here.

        >>> minitorch.tensor([1j]).conj().is_conj()
        False
        """
        return False

    def adjoint(self: Any) -> Tensor:
        """Each matrix transposed, and conjugated.   dx = g, likewise

        >>> adjoint(minitorch.tensor([[1.0, 2.0]])).shape
        (2, 1)
        """
        return self.mH

    @property
    def H(self) -> Tensor:
        """A matrix transposed (and conjugated)."""
        if self._array.ndim not in (0, 2):
            raise RuntimeError(f"H: expects a matrix, got shape {self._data.shape}; write x.mH")
        return self.conj().T

    @property
    def mH(self) -> Tensor:
        """Every matrix of a batch transposed (and conjugated)."""
        return self.conj().mT

    conj_physical, resolve_neg = conj, resolve_conj


def real(input: Any) -> Tensor:
    """The real part; of a real tensor, the tensor itself.   dx = g

    >>> real(minitorch.tensor([1 + 2j]))
    tensor([1.])
    """
    x = tensor_for(input, "real")
    return apply(ops.REAL, x) if x._array.dtype.kind == "c" else x


def imag(input: Any) -> Tensor:
    """The imaginary part.   dx = i·g

    >>> imag(minitorch.tensor([1 + 2j]))
    tensor([2.])
    """
    x = tensor_for(input, "imag")
    if x._array.dtype.kind != "c":
        raise RuntimeError(f"imag: expects complex numbers, got {x._array.dtype}, whose imaginary part is 0")
    return apply(ops.IMAG, x)


def complex(real: Any, imag: Any) -> Tensor:
    """real + i·imag, of two tensors of one dtype.   dreal = Re g, dimag = Im g

    >>> complex(minitorch.tensor([1.0]), minitorch.tensor([2.0]))
    tensor([1.+2.j])
    """
    x, y = tensor_for(real, "complex"), tensor_for(imag, "complex")
    if x._array.dtype != y._array.dtype or x._array.dtype not in (np.float32, np.float64):
        raise RuntimeError(
            f"complex: expects two float32 or two float64 tensors, got {x._array.dtype} and {y._array.dtype}"
        )
    meet_complex()
    return apply(ops.COMPLEX, x, y)


def polar(abs: Any, angle: Any) -> Tensor:
    """abs·e^(i·angle).   dabs = Re(g·e^(-i·angle)), dangle = abs·Im(g·e^(-i·angle))

    >>> polar(minitorch.tensor([2.0]), minitorch.tensor([0.0]))
    tensor([2.+0.j])
    """
    r, phi = tensor_for(abs, "polar"), tensor_for(angle, "polar")
    return complex(r * phi.cos(), r * phi.sin())


def view_as_real(input: Any) -> Tensor:
    """The two parts along a new last axis (a copy, where PyTorch gives a view).   dx = g₀ + i·g₁

    >>> view_as_real(minitorch.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    x = tensor_for(input, "view_as_real")
    return stack([real(x), imag(x)], -1)


def view_as_complex(input: Any) -> Tensor:
    """x₀ + i·x₁ along a last axis of length 2 (a copy, where PyTorch gives a view).   dx = (Re g, Im g)

    >>> view_as_complex(minitorch.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    x = tensor_for(input, "view_as_complex")
    if x.ndim == 0 or x.shape[-1] != 2:
        raise RuntimeError(f"view_as_complex: expects a last axis of length 2, got shape {x.shape}")
    return complex(x[..., 0], x[..., 1])


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

angle = function(ComplexNumbers.angle)
conj = conj_physical = function(ComplexNumbers.conj)
resolve_conj = resolve_neg = function(ComplexNumbers.resolve_conj)
adjoint = function(ComplexNumbers.adjoint)

__all__ = [
    "adjoint", "angle", "complex", "conj", "conj_physical", "imag", "polar", "real", "resolve_conj",
    "resolve_neg", "view_as_complex", "view_as_real",
]  # fmt: skip
