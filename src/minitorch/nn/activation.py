"""Activation layers: the functions of nn.functional as Modules. Enters: a Tensor. Leaves: one of the same shape.

`inplace=True` writes the result into the input, where PyTorch has it.
"""

from __future__ import annotations

from typing import Any

from minitorch import creation
from minitorch.nn import functional as F
from minitorch.nn import init as initialise
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.tensor import Tensor

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


def _options(module: Module, *names: str) -> str:
    """Return 'name=value, …' for a printed form; inplace only where it is True."""
    shown = [f"{name}={getattr(module, name)}" for name in names]
    if getattr(module, "inplace", False):
        shown.append("inplace=True")
    return ", ".join(shown)


class _Plain(Module):
    """A layer without options."""


class _InPlace(Module):
    """A layer whose only option is `inplace`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the option."""
        return _options(self)


class ReLU(_InPlace):
    """max(x, 0).

    >>> ReLU()(minitorch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.relu(input, inplace=self.inplace)


class SELU(_InPlace):
    """λ·elu(x, α), with λ and α such that mean 0 and variance 1 are kept.

    >>> SELU()(minitorch.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.selu(input, inplace=self.inplace)


class SiLU(_InPlace):
    """x·σ(x), also called swish.

    >>> SiLU()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.silu(input, inplace=self.inplace)


class Mish(_InPlace):
    """x·tanh(log(1 + eˣ)).

    >>> Mish()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.mish(input, inplace=self.inplace)


class Hardsigmoid(_InPlace):
    """min(max(x + 3, 0), 6) / 6.

    >>> Hardsigmoid()(minitorch.tensor([-1.0, 2.0]))
    tensor([0.3333, 0.8333])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.hardsigmoid(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return ""


class Hardswish(_InPlace):
    """x·hardsigmoid(x).

    >>> Hardswish()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.3333,  1.6667])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.hardswish(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return ""


class Sigmoid(_Plain):
    """1 / (1 + e⁻ˣ).

    >>> Sigmoid()(minitorch.tensor([-1.0, 2.0]))
    tensor([0.2689, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.sigmoid(input)


class LogSigmoid(_Plain):
    """log σ(x), without overflow.

    >>> LogSigmoid()(minitorch.tensor([-1.0, 2.0]))
    tensor([-1.3133, -0.1269])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.logsigmoid(input)


class Tanh(_Plain):
    """The hyperbolic tangent.

    >>> Tanh()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.7616,  0.9640])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.tanh(input)


class Tanhshrink(_Plain):
    """x - tanh x.

    >>> Tanhshrink()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.2384,  1.0360])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.tanhshrink(input)


class Softsign(_Plain):
    """x / (1 + |x|).

    >>> Softsign()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.5000,  0.6667])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.softsign(input)


class LeakyReLU(Module):
    """x where x > 0, else negative_slope·x.

    >>> LeakyReLU(0.1)(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.leaky_relu(input, self.negative_slope, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return _options(self, "negative_slope")


class ELU(Module):
    """x where x > 0, else α·(eˣ - 1).

    >>> ELU()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.elu(input, self.alpha, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return _options(self, "alpha")


class CELU(Module):
    """x where x > 0, else α·(e^{x/α} - 1).

    >>> CELU(2.0)(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.7869,  2.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.celu(input, self.alpha, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return _options(self, "alpha")


class GELU(Module):
    """x·Φ(x), with Φ the normal distribution; approximate="tanh" gives GPT-2's form.

    >>> GELU()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"approximate={self.approximate!r}"


class RReLU(Module):
    """x where x > 0, else r·x, r drawn from [lower, upper] while training, else their mean.

    >>> RReLU(0.25, 0.25)(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.2500,  2.0000])
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.rrelu(input, self.lower, self.upper, self.training, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return _options(self, "lower", "upper")


class Hardshrink(Module):
    """x where |x| > λ, else 0.

    >>> Hardshrink(1.5)(minitorch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the options."""
        return str(self.lambd)


class Softshrink(Module):
    """x moved towards 0 by λ, and 0 where |x| ≤ λ.

    >>> Softshrink()(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.5000,  1.5000])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the options."""
        return str(self.lambd)


class Softplus(Module):
    """log(1 + e^{βx}) / β, a smooth relu.

    >>> Softplus()(minitorch.tensor([-1.0, 2.0]))
    tensor([0.3133, 2.1269])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the options."""
        return _options(self, "beta", "threshold")


class Threshold(Module):
    """x where x is above the threshold, else the value.

    >>> Threshold(0.5, 9.0)(minitorch.tensor([-1.0, 2.0]))
    tensor([9., 2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.threshold(input, self.threshold, self.value, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return _options(self, "threshold", "value")


class GLU(Module):
    """a·σ(b), where a and b are the two halves of an axis.

    >>> GLU()(minitorch.tensor([3.0, 0.0]))
    tensor([1.5000])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the options."""
        return _options(self, "dim")


class Softmax(Module):
    """eˣ / Σ eˣ along an axis.

    >>> Softmax(dim=0)(minitorch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the options."""
        return _options(self, "dim")


class Softmin(Module):
    """softmax of -x.

    >>> Softmin(dim=0)(minitorch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.softmin(input, self.dim)

    def extra_repr(self) -> str:
        """Return the options."""
        return _options(self, "dim")


class LogSoftmax(Module):
    """log softmax along an axis, without overflow.

    >>> LogSoftmax(dim=0)(minitorch.tensor([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the options."""
        return _options(self, "dim")


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


class Hardtanh(Module):
    """x, but not below min_val nor above max_val.

    >>> Hardtanh()(minitorch.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if min_val >= max_val:
            raise ValueError(
                f"{type(self).__name__}: max_val {max_val} must be larger than min_val {min_val}"
            )
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.hardtanh(input, self.min_val, self.max_val, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return _options(self, "min_val", "max_val")


class ReLU6(Hardtanh):
    """min(max(x, 0), 6).

    >>> ReLU6()(minitorch.tensor([-1.0, 7.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Return the option."""
        return _options(self)


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
        return _options(self, "num_parameters")
