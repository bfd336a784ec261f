"""Activations as functions. Enters: a Tensor. Leaves: one of the same shape (half of one axis for glu).

`inplace=True`, where PyTorch has it, writes the result into the input and returns it, as the forms with a trailing
underscore do. If a recorded op needs what was overwritten, backward says so.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from minitorch import random
from minitorch.engine.record import apply
from minitorch.functions import where
from minitorch.ops.activation import HARDSWISH
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor
from minitorch.tensor.writing import rewrite

__all__ = [
    "celu", "celu_", "elu", "elu_", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_", "log_softmax", "logsigmoid", "mish", "prelu",
    "relu", "relu6", "relu_", "rrelu", "rrelu_", "selu", "selu_", "sigmoid", "silu", "softmax", "softmin",
    "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold", "threshold_",
]  # fmt: skip

# Chosen so that activations with mean 0 and variance 1 keep them (Klambauer et al., 2017).
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def relu(input: Any, inplace: bool = False) -> Tensor:
    """max(x, 0).   dx = g where x > 0, else 0

    >>> relu(minitorch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if inplace:
        return rewrite(input, lambda x: relu(x), "relu(x, inplace=True)")
    return as_tensor(input).relu()


def relu6(input: Any, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6).   dx = g where 0 < x < 6, else 0

    >>> relu6(minitorch.tensor([-1.0, 2.0, 7.0]))
    tensor([0., 2., 6.])
    """
    if inplace:
        return rewrite(input, lambda x: relu6(x), "relu6(x, inplace=True)")
    return hardtanh(input, 0.0, 6.0)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x, but not below min_val nor above max_val.   dx = g strictly between them, else 0

    >>> hardtanh(minitorch.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    if inplace:
        return rewrite(input, lambda x: hardtanh(x, min_val, max_val), "hardtanh(x, inplace=True)")
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} must not be larger than max_val {max_val}")
    x = as_tensor(input)
    if x.dtype.kind == "b" or (x.dtype.kind == "u" and min_val < 0):
        raise RuntimeError(f"hardtanh: {x.dtype} cannot hold bounds {min_val} and {max_val}; write x.float()")
    if x.dtype.kind in "iu":  # integers stay integers
        min_val, max_val = int(min_val), int(max_val)
    return x.clamp(min_val, max_val)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, else s·x.   dx = g where x > 0, else s·g

    >>> leaky_relu(minitorch.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    if inplace:
        return rewrite(input, lambda x: leaky_relu(x, negative_slope), "leaky_relu(x, inplace=True)")
    return as_tensor(input).leaky_relu(negative_slope)


def prelu(input: Any, weight: Any) -> Tensor:
    """x where x > 0, else w·x with a learned w, one for all or one per channel (axis 1).

    dx = g where x > 0, else w·g;   dw = sum of g·x where x ≤ 0

    >>> prelu(minitorch.tensor([-1.0, 2.0]), minitorch.tensor([0.25]))
    tensor([-0.2500,  2.0000])
    """
    x, slope = as_tensor(input), as_tensor(weight)
    if slope.ndim > 1:
        raise RuntimeError(f"prelu: weight must be a number or a vector, got shape {slope.shape}")
    if slope.numel() != 1:
        channels = x.shape[1] if x.ndim > 1 else 1
        if slope.numel() != channels:
            raise RuntimeError(
                f"prelu: weight has {slope.numel()} elements, but an input of shape {x.shape} has {channels} "
                "channels (axis 1); give 1 or as many"
            )
        slope = slope.reshape((1, channels) + (1,) * (x.ndim - 2))
    elif x.ndim == 0:
        slope = slope.reshape(())
    return where(x > 0, x, slope * x)


def rrelu(
    input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """x where x > 0, else r·x: r drawn from [lower, upper] for each element while training, else their mean.

    >>> rrelu(minitorch.tensor([-24.0, 2.0]))
    tensor([-5.5000,  2.0000])
    """
    if inplace:
        return rewrite(input, lambda x: rrelu(x, lower, upper, training), "rrelu(x, inplace=True)")
    x = as_tensor(input)
    if not lower <= upper:
        raise ValueError(f"rrelu: lower {lower} must not be larger than upper {upper}")
    if not training:
        return x.leaky_relu((lower + upper) / 2)
    negative = x.detach().cpu()._data <= 0  # the generator is the host's
    drawn = random.default_generator.uniforms(int(negative.sum()), np.dtype(np.float64))
    slopes = np.ones_like(negative, dtype=np.float64)
    slopes[negative] = drawn * (upper - lower) + lower
    return x * as_tensor(slopes.astype(x.dtype)).to(device=x.device)


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else α·(eˣ - 1).   dx = g where x > 0, else g·α·eˣ

    >>> elu(minitorch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    if inplace:
        return rewrite(input, lambda x: elu(x, alpha), "elu(x, inplace=True)")
    return as_tensor(input).elu(alpha)


def selu(input: Any, inplace: bool = False) -> Tensor:
    """λ·elu(x, α), with λ and α such that mean 0 and variance 1 are kept from layer to layer.

    >>> selu(minitorch.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """
    if inplace:
        return rewrite(input, lambda x: selu(x), "selu(x, inplace=True)")
    return as_tensor(input).elu(_SELU_ALPHA) * _SELU_SCALE


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else α·(e^{x/α} - 1): elu with a slope of 1 at 0 for every α.

    >>> celu(minitorch.tensor([-1.0, 2.0]), alpha=2.0)
    tensor([-0.7869,  2.0000])
    """
    if inplace:
        return rewrite(input, lambda x: celu(x, alpha), "celu(x, inplace=True)")
    if alpha == 0:
        raise RuntimeError("celu: alpha must not be 0")
    x = as_tensor(input)
    return x.elu() if alpha == 1 else (x / alpha).elu() * alpha


def gelu(input: Any, approximate: str = "none") -> Tensor:
    """x·Φ(x), with Φ the normal distribution; approximate="tanh" gives GPT-2's form.

    >>> gelu(minitorch.tensor([-1.0, 1.0]))
    tensor([-0.1587,  0.8413])
    """
    return as_tensor(input).gelu(approximate)


def silu(input: Any, inplace: bool = False) -> Tensor:
    """x·σ(x).   dx = g·σ·(1 + x·(1 - σ))

    >>> silu(minitorch.tensor([1.0]))
    tensor([0.7311])
    """
    if inplace:
        return rewrite(input, lambda x: silu(x), "silu(x, inplace=True)")
    return as_tensor(input).silu()


def mish(input: Any, inplace: bool = False) -> Tensor:
    """x·tanh(log(1 + eˣ)).

    >>> mish(minitorch.tensor([1.0]))
    tensor([0.8651])
    """
    if inplace:
        return rewrite(input, lambda x: mish(x), "mish(x, inplace=True)")
    x = as_tensor(input)
    return x * x.softplus(threshold=math.inf).tanh()


def sigmoid(input: Any) -> Tensor:
    """σ(x) = 1 / (1 + e⁻ˣ).   dx = g·σ·(1 - σ)

    >>> sigmoid(minitorch.tensor([0.0]))
    tensor([0.5000])
    """
    return as_tensor(input).sigmoid()


def logsigmoid(input: Any) -> Tensor:
    """log σ(x) = -log(1 + e⁻ˣ), without overflow.   dx = g·σ(-x)

    >>> logsigmoid(minitorch.tensor([0.0, -1000.0]))
    tensor([-6.9315e-01, -1.0000e+03])
    """
    return -((-as_tensor(input)).softplus(threshold=math.inf))


def tanh(input: Any) -> Tensor:
    """The hyperbolic tangent.   dx = g·(1 - tanh² x)

    >>> tanh(minitorch.tensor([1.0]))
    tensor([0.7616])
    """
    return as_tensor(input).tanh()


def tanhshrink(input: Any) -> Tensor:
    """x - tanh x.   dx = g·tanh² x

    >>> tanhshrink(minitorch.tensor([1.0]))
    tensor([0.2384])
    """
    x = as_tensor(input)
    return x - x.tanh()


def hardsigmoid(input: Any, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6.   dx = g/6 where -3 < x < 3, else 0

    >>> hardsigmoid(minitorch.tensor([-4.0, 0.0, 3.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if inplace:
        return rewrite(input, lambda x: hardsigmoid(x), "hardsigmoid(x, inplace=True)")
    return (as_tensor(input) + 3.0).clamp(0.0, 6.0) / 6.0


def hardswish(input: Any, inplace: bool = False) -> Tensor:
    """x·hardsigmoid(x).   dx = g·(x/3 + ½) where -3 < x < 3, 0 below, g above

    >>> hardswish(minitorch.tensor([-4.0, 1.0, 4.0]))
    tensor([-0.0000,  0.6667,  4.0000])
    """
    if inplace:
        return rewrite(input, lambda x: hardswish(x), "hardswish(x, inplace=True)")
    return apply(HARDSWISH, as_tensor(input))


def hardshrink(input: Any, lambd: float = 0.5) -> Tensor:
    """x where |x| > λ, else 0.   dx = g there, else 0

    >>> hardshrink(minitorch.tensor([-1.0, 0.2]))
    tensor([-1.,  0.])
    """
    x = as_tensor(input)
    return where(x.detach().abs() <= lambd, 0.0, x)  # so that nan stays nan


def softshrink(input: Any, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by λ, and 0 where |x| ≤ λ.   dx = g where |x| > λ, else 0

    >>> softshrink(minitorch.tensor([-1.0, 0.2, 2.0]))
    tensor([-0.5000,  0.0000,  1.5000])
    """
    if lambd < 0:
        raise RuntimeError(f"softshrink: lambd must not be negative, got {lambd}")
    x = as_tensor(input)
    fixed = x.detach()
    return where(fixed.abs() <= lambd, 0.0, x - fixed.sign() * lambd)  # so that nan stays nan


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + e^{βx}) / β; x itself where βx is above the threshold.   dx = g·σ(βx)

    >>> softplus(minitorch.tensor([0.0, 30.0]))
    tensor([ 0.6931, 30.0000])
    """
    return as_tensor(input).softplus(beta, threshold)


def softsign(input: Any) -> Tensor:
    """x / (1 + |x|).   dx = g / (1 + |x|)²

    >>> softsign(minitorch.tensor([1.0, -3.0]))
    tensor([ 0.5000, -0.7500])
    """
    x = as_tensor(input)
    return x / (1.0 + x.abs())


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x is above the threshold, else the value.   dx = g there, else 0

    >>> from minitorch.nn.functional import threshold
    >>> threshold(minitorch.tensor([0.5, 2.0]), 1.0, 20.0)
    tensor([20.,  2.])
    """
    replaced = lambda x: where(x <= threshold, value, x)  # nan passes through: it is not at most anything
    return rewrite(input, replaced, "threshold(x, inplace=True)") if inplace else replaced(as_tensor(input))


def glu(input: Any, dim: int = -1) -> Tensor:
    """a·σ(b), where a and b are the two halves of an axis.

    >>> glu(minitorch.tensor([3.0, 0.0]))
    tensor([1.5000])
    """
    x = as_tensor(input)
    if x.ndim == 0:
        raise RuntimeError("glu: a 0-d tensor has no axis to halve")
    if x.shape[dim] % 2:
        raise RuntimeError(
            f"glu: axis {dim} must have an even length to be halved, got shape {x.shape} with {x.shape[dim]}"
        )
    a, b = x.chunk(2, dim)
    return a * b.sigmoid()


def _implicit_dim(x: Tensor, dim: int | None, name: str) -> int:
    if dim is not None:
        return dim
    chosen = 0 if x.ndim in (0, 1, 3) else 1
    warnings.warn(
        f"{name}: an implicit dim is deprecated: dim={chosen} was chosen for {x.ndim} axes; write dim={chosen}",
        stacklevel=3,
    )
    return chosen


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """eˣ / Σ eˣ along an axis.   dx = s·(g - Σ g·s)

    >>> softmax(minitorch.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    x = as_tensor(input) if dtype is None else as_tensor(input).to(dtype)
    return x.softmax(_implicit_dim(x, dim, "softmax"))


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """softmax of -x: the smallest element gets the largest share.

    >>> softmin(minitorch.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    x = as_tensor(input) if dtype is None else as_tensor(input).to(dtype)
    return (-x).softmax(_implicit_dim(x, dim, "softmin"))


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """x - log Σ eˣ along an axis, without overflow.   dx = g - softmax(x)·Σ g

    >>> log_softmax(minitorch.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    x = as_tensor(input) if dtype is None else as_tensor(input).to(dtype)
    return x.log_softmax(_implicit_dim(x, dim, "log_softmax"))


def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Draw from a categorical distribution, softened so that it can be differentiated.

    tau: the temperature; towards 0 the result approaches one-hot. hard: one-hot values, soft gradients.

    >>> gumbel_softmax(minitorch.zeros(2, 3), hard=True).sum(dim=-1)
    tensor([1., 1.])
    """
    x = as_tensor(logits)
    uniforms = random.default_generator.uniforms(x.numel(), np.dtype(np.float64)).reshape(x.shape)
    # u is in [0, 1), so 1 - u is not 0; the largest u would give -log(0) all the same, hence the floor.
    waiting = np.maximum((-np.log1p(-uniforms)).astype(x.dtype), np.finfo(x.dtype).tiny)
    gumbels = as_tensor(-np.log(waiting)).to(device=x.device)
    soft = ((x + gumbels) / tau).softmax(dim)
    if not hard:
        return soft
    largest = soft.detach().argmax(dim, keepdim=True)
    one_hot = (soft.detach() * 0).scatter(dim, largest, 1.0)
    return one_hot - soft.detach() + soft


def _written(name: str, function: Any) -> Any:
    def spelled(input: Any, *args: Any, **kwargs: Any) -> Tensor:
        return function(input, *args, **kwargs, inplace=True)

    spelled.__name__ = spelled.__qualname__ = name
    spelled.__doc__ = f"Do what {function.__name__} does, in place: the input is written into and returned."
    return spelled


relu_ = _written("relu_", relu)
elu_ = _written("elu_", elu)
selu_ = _written("selu_", selu)
celu_ = _written("celu_", celu)
leaky_relu_ = _written("leaky_relu_", leaky_relu)
rrelu_ = _written("rrelu_", rrelu)
hardtanh_ = _written("hardtanh_", hardtanh)
threshold_ = _written("threshold_", threshold)
