"""Activations: what stands between the layers of a network. Enters: a tensor. Leaves: a tensor of its shape.

Those that PyTorch offers in nn.functional alone are in nn/functional/activation.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minitorch.engine.fast import apply_along, apply_unary
from minitorch.engine.node import Node
from minitorch.engine.record import apply
from minitorch.ops import activation as ops
from minitorch.ops.op import Op
from minitorch.tensor.convert import cast, choose, one_axis, plain_number
from minitorch.tensor.methods.public import function, in_place

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Activations(Node):
    """Activations, element by element, and softmax along an axis."""

    __slots__ = ()

    @in_place
    def tanh(self) -> Tensor:
        """The hyperbolic tangent.   dx = g·(1 - tanh² x)

        >>> minitorch.tensor([0.0, 1.0]).tanh()
        tensor([0.0000, 0.7616])
        """
        return apply_unary(ops.TANH, self)

    @in_place
    def sigmoid(self) -> Tensor:
        """σ(x) = 1 / (1 + e⁻ˣ).   dx = g·σ·(1 - σ)

        >>> minitorch.tensor([0.0, 2.0]).sigmoid()
        tensor([0.5000, 0.8808])
        """
        return apply_unary(ops.SIGMOID, self)

    @in_place
    def relu(self) -> Tensor:
        """max(x, 0).   dx = g where x > 0, else 0

        >>> minitorch.tensor([-1.0, 0.0, 2.0]).relu()
        tensor([0., 0., 2.])
        """
        if self._array.dtype.kind == "b":
            raise RuntimeError("relu: a bool tensor has no negative side; write x.float().relu()")
        return apply_unary(ops.RELU, self)

    @in_place
    def leaky_relu(self, negative_slope: float = 0.01) -> Tensor:
        """x where x > 0, else s·x.   dx = g where x > 0, else s·g

        >>> minitorch.tensor([-1.0, 2.0]).leaky_relu(0.1)
        tensor([-0.1000,  2.0000])
        """
        return apply_unary(ops.LEAKY_RELU, self, {"slope": plain_number(negative_slope)})

    @in_place
    def elu(self, alpha: float = 1.0) -> Tensor:
        """x where x > 0, else α·(eˣ - 1).   dx = g where x > 0, else g·α·eˣ

        >>> minitorch.tensor([-1.0, 2.0]).elu()
        tensor([-0.6321,  2.0000])
        """
        return apply_unary(ops.ELU, self, {"alpha": plain_number(alpha)})

    @in_place
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
        return apply_unary(ops.GELU if approximate == "none" else ops.GELU_TANH, self)

    def softplus(self, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
        """log(1 + e^{βx}) / β; x itself where βx is above the threshold.   dx = g·σ(βx)

        >>> minitorch.tensor([0.0, 30.0]).softplus()
        tensor([ 0.6931, 30.0000])
        """
        return apply(ops.SOFTPLUS, self, beta=plain_number(beta), threshold=plain_number(threshold))

    # --- softmax ---------------------------------------------------------------------------------

    def softmax(self, axis: int | None = None, dtype: Any = None, *, dim: int | None = None) -> Tensor:
        """e^{xᵢ} / Σ e^{xⱼ} along `axis`.   dx = s·(g - ⟨g, s⟩)

        >>> minitorch.zeros(3, 5).softmax(axis=1)[0]          # five tenses, equally likely
        tensor([0.2000, 0.2000, 0.2000, 0.2000, 0.2000])
        """
        return _normalised(self, ops.SOFTMAX, axis, dim, dtype)

    def log_softmax(self, axis: int | None = None, dtype: Any = None, *, dim: int | None = None) -> Tensor:
        """log softmax(x), without overflow.   dx = g - softmax(x)·Σ g

        >>> minitorch.zeros(3, 5).log_softmax(axis=1)[0, 0]
        tensor(-1.6094)
        """
        return _normalised(self, ops.LOG_SOFTMAX, axis, dim, dtype)


def _normalised(x: Any, op: Op, axis: int | None, dim: int | None, dtype: Any) -> Tensor:
    if dim is not None:
        axis = choose(axis, dim)
    ndim = x._array.ndim
    if axis.__class__ is int and dtype is None and -ndim <= axis < ndim:  # as nearly always
        return apply_along(op, x, axis % ndim)
    if axis is None:
        raise TypeError(f"{op.name}: missing argument: axis (or dim), the axis that shall sum to 1")
    x = x if dtype is None else cast(x, dtype)
    at = one_axis(axis, ndim, op.name)
    if ndim == 0:
        return apply(op, x.reshape(1), axis=0).reshape(())
    return apply_along(op, x, at)


# --- as functions: minitorch.f(x) is x.f() -------------------------------------------------------

tanh = function(Activations.tanh)
sigmoid = function(Activations.sigmoid)
relu = function(Activations.relu)
leaky_relu = function(Activations.leaky_relu)
elu = function(Activations.elu)
silu = function(Activations.silu)
gelu = function(Activations.gelu)
softplus = function(Activations.softplus)
softmax = function(Activations.softmax)
log_softmax = function(Activations.log_softmax)

__all__ = [
    "elu", "gelu", "leaky_relu", "log_softmax", "relu", "sigmoid", "silu", "softmax", "softplus", "tanh",
]  # fmt: skip
