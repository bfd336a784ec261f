"""Activation layers: the functions of nn.functional as Modules. Enters: a Tensor. Leaves: one of the same shape.

`inplace=True` writes the result into the input, where PyTorch has it.
"""

from __future__ import annotations

from typing import Any

from minitorch import creation
from minitorch.nn import functional as F
from minitorch.nn import init as initialise
from minitorch.nn.layer import NEEDED, FunctionLayer, takes
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.tensor import Tensor

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax",
    "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class _Activation(FunctionLayer):
    """A layer of one function, with the settings that a subclass keeps."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return self._run(input)

    def extra_repr(self) -> str:
        """Return the settings; inplace only where it is True."""
        shown = super().extra_repr()
        if not getattr(self, "inplace", False):
            return shown
        return f"{shown}, inplace=True" if shown else "inplace=True"


class _Plain(_Activation):
    """A layer without settings."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return self._function(input)


class _InPlace(_Activation):
    """A layer whose only option is `inplace`."""

    _arguments = takes(inplace=False)

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return self._function(input, inplace=self.inplace)


class _WithAlpha(_Activation):
    """A layer with a factor alpha on the negative side."""

    _shown = ("alpha",)

    _arguments = takes(alpha=1.0, inplace=False)

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return self._function(input, self.alpha, inplace=self.inplace)


class _Shrink(_Activation):
    """A layer that sets to 0 what is no further than lambd from it."""

    _arguments = takes(lambd=0.5)

    def extra_repr(self) -> str:
        """Return the options."""
        return str(self.lambd)


class _AlongAxis(_Activation):
    """A layer that works along one axis."""

    _shown = ("dim",)

    _arguments = takes(dim=None)

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return self._function(input, self.dim)


class ReLU(_InPlace):
    """max(x, 0).

    >>> ReLU()(minitorch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    _function = staticmethod(F.relu)


class SELU(_InPlace):
    """λ·elu(x, α), with λ and α such that mean 0 and variance 1 are kept.

    >>> SELU()(minitorch.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    _function = staticmethod(F.selu)


class SiLU(_InPlace):
    """x·σ(x), also called swish.

    >>> SiLU()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """

    _function = staticmethod(F.silu)


class Mish(_InPlace):
    """x·tanh(log(1 + eˣ)).

    >>> Mish()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """

    _function = staticmethod(F.mish)


class Hardsigmoid(_InPlace):
    """min(max(x + 3, 0), 6) / 6.

    >>> Hardsigmoid()(minitorch.tensor([-1.0, 2.0]))
    tensor([0.3333, 0.8333])
    """

    _function = staticmethod(F.hardsigmoid)

    def extra_repr(self) -> str:
        """Return the options."""
        return ""


class Hardswish(_InPlace):
    """x·hardsigmoid(x).

    >>> Hardswish()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.3333,  1.6667])
    """

    _function = staticmethod(F.hardswish)

    def extra_repr(self) -> str:
        """Return the options."""
        return ""


class Sigmoid(_Plain):
    """1 / (1 + e⁻ˣ).

    >>> Sigmoid()(minitorch.tensor([-1.0, 2.0]))
    tensor([0.2689, 0.8808])
    """

    _function = staticmethod(F.sigmoid)


class LogSigmoid(_Plain):
    """log σ(x), without overflow.

    >>> LogSigmoid()(minitorch.tensor([-1.0, 2.0]))
    tensor([-1.3133, -0.1269])
    """

    _function = staticmethod(F.logsigmoid)


class Tanh(_Plain):
    """The hyperbolic tangent.

    >>> Tanh()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.7616,  0.9640])
    """

    _function = staticmethod(F.tanh)


class Tanhshrink(_Plain):
    """x - tanh x.

    >>> Tanhshrink()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.2384,  1.0360])
    """

    _function = staticmethod(F.tanhshrink)


class Softsign(_Plain):
    """x / (1 + |x|).

    >>> Softsign()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.5000,  0.6667])
    """

    _function = staticmethod(F.softsign)


class LeakyReLU(_Activation):
    """x where x > 0, else negative_slope·x.

    >>> LeakyReLU(0.1)(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    _shown = ("negative_slope",)

    _arguments = takes(negative_slope=0.01, inplace=False)

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.leaky_relu(input, self.negative_slope, inplace=self.inplace)


class ELU(_WithAlpha):
    """x where x > 0, else α·(eˣ - 1).

    >>> ELU()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    _function = staticmethod(F.elu)


class CELU(_WithAlpha):
    """x where x > 0, else α·(e^{x/α} - 1).

    >>> CELU(2.0)(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.7869,  2.0000])
    """

    _function = staticmethod(F.celu)


class GELU(_Activation):
    """x·Φ(x), with Φ the normal distribution; approximate="tanh" gives GPT-2's form.

    >>> GELU()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """

    _arguments = takes(approximate="none")

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"approximate={self.approximate!r}"


class RReLU(_Activation):
    """x where x > 0, else r·x, r drawn from [lower, upper] while training, else their mean.

    >>> RReLU(0.25, 0.25)(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.2500,  2.0000])
    """

    _function = staticmethod(F.rrelu)
    _settings = ("lower", "upper", "training", "inplace")
    _shown = ("lower", "upper")

    _arguments = takes(lower=1 / 8, upper=1 / 3, inplace=False)


class Hardshrink(_Shrink):
    """x where |x| > λ, else 0.

    >>> Hardshrink(1.5)(minitorch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    _function = staticmethod(F.hardshrink)


class Softshrink(_Shrink):
    """x moved towards 0 by λ, and 0 where |x| ≤ λ.

    >>> Softshrink()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.5000,  1.5000])
    """

    _function = staticmethod(F.softshrink)


class Softplus(_Activation):
    """log(1 + e^{βx}) / β, a smooth relu.

    >>> Softplus()(minitorch.tensor([-1.0, 2.0]))
    tensor([0.3133, 2.1269])
    """

    _function = staticmethod(F.softplus)
    _arguments = takes(beta=1.0, threshold=20.0)
    _shown = ("beta", "threshold")


class Threshold(_Activation):
    """x where x is above the threshold, else the value.

    >>> Threshold(0.5, 9.0)(minitorch.tensor([-1.0, 2.0]))
    tensor([9., 2.])
    """

    _function = staticmethod(F.threshold)
    _arguments = takes(threshold=NEEDED, value=NEEDED, inplace=False)
    _shown = ("threshold", "value")


class GLU(_AlongAxis):
    """a·σ(b), where a and b are the two halves of an axis.

    >>> GLU()(minitorch.tensor([3.0, 0.0]))
    tensor([1.5000])
    """

    _function = staticmethod(F.glu)

    _arguments = takes(dim=-1)


class Softmax(_AlongAxis):
    """eˣ / Σ eˣ along an axis.

    >>> Softmax(dim=0)(minitorch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    _function = staticmethod(F.softmax)


class Softmin(_AlongAxis):
    """softmax of -x.

    >>> Softmin(dim=0)(minitorch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    _function = staticmethod(F.softmin)


class LogSoftmax(_AlongAxis):
    """log softmax along an axis, without overflow.

    >>> LogSoftmax(dim=0)(minitorch.tensor([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """

    _function = staticmethod(F.log_softmax)


class Softmax2d(Module):
    """softmax over the channels at each position of (N, C, H, W) or (C, H, W).

    >>> Softmax2d()(minitorch.zeros(2, 1, 1))
    tensor([[[0.5000]],
    <BLANKLINE>
            [[0.5000]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D (got {input.ndim}D instead)")
        return F.softmax(input, -3)


class Hardtanh(_Activation):
    """x, but not below min_val nor above max_val.

    >>> Hardtanh()(minitorch.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """

    _function = staticmethod(F.hardtanh)
    _settings = ("min_val", "max_val", "inplace")
    _shown: tuple[str, ...] = ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if min_val >= max_val:
            raise ValueError(
                f"{type(self).__name__}: max_val {max_val} must be larger than min_val {min_val}"
            )
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace


class ReLU6(Hardtanh):
    """min(max(x, 0), 6).

    >>> ReLU6()(minitorch.tensor([-1.0, 7.0]))
    tensor([0., 6.])
    """

    _shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class PReLU(Module):
    """x where x > 0, else w·x with a learned w: one for all, or one per channel.

    >>> PReLU()(minitorch.tensor([-1.0, 2.0])).detach()
    tensor([-0.2500,  2.0000])
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(creation.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes to their first value."""
        initialise.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return the option."""
        return f"num_parameters={self.num_parameters}"
