"""Initialisers: fill a tensor in place and return it. Enters: a Tensor. Leaves: the same Tensor, filled.

They draw as PyTorch's do: the same seed gives the same weights.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch import random
from minitorch.engine import gpu, watch
from minitorch.tensor import Tensor
from minitorch.tensor.devices import place_of
from minitorch.tensor.generator import source_for
from minitorch.tensor.memory_order import laid_out_like

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_",
    "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_",
    "zeros_",
]  # fmt: skip

Generator = random.Generator


def _write(tensor: Tensor, values: Any) -> Tensor:
    """Write into a tensor's own array, whatever it requires: an initialiser is not part of a computation."""
    data = _array(tensor)
    if isinstance(values, np.ndarray) and not isinstance(data, np.ndarray):
        values = np.asarray(values, like=data)  # drawn on the host, needed on the device
    data[...] = values
    watch.touch(data)
    return tensor


def _array(tensor: Any) -> Any:
    if isinstance(tensor, Tensor):
        return tensor._data
    return tensor if gpu.is_on_gpu(tensor) else np.asarray(tensor)  # of `normal_(layer.weight.data)`


def _uniforms(tensor: Tensor, a: float, b: float, generator: Generator | None) -> np.ndarray:
    kind = tensor.dtype.type
    drawn = source_for(generator, place_of(_array(tensor)), "init").uniforms(tensor.numel(), tensor.dtype)
    # Multiplied and added with one rounding at the end, as the processor does it for PyTorch.
    spread, low = float(kind(b) - kind(a)), float(kind(a))
    return laid_out_like((drawn.astype(np.float64) * spread + low).astype(tensor.dtype), _array(tensor))


def _normals(tensor: Any, mean: float, std: float, generator: Generator | None) -> np.ndarray:
    array = _array(tensor)
    drawn = source_for(generator, place_of(array), "init").normals_into(array, mean, std)
    return laid_out_like(drawn.astype(tensor.dtype, copy=False), array)


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """By how much an activation shrinks its input's spread; weights are scaled up by it.

    >>> calculate_gain("relu"), round(calculate_gain("leaky_relu", 0.2), 4)
    (1.4142135623730951, 1.3868)
    """
    fixed = {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4, "sigmoid": 1.0, "linear": 1.0}
    if nonlinearity in fixed:
        return fixed[nonlinearity]
    if nonlinearity in [f"conv{'_transpose' * t}{n}d" for t in (0, 1) for n in (1, 2, 3)]:
        return 1.0
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"calculate_gain: negative_slope {param} is not a number")
        return math.sqrt(2 / (1 + slope**2))
    raise ValueError(
        f"calculate_gain: Unsupported nonlinearity {nonlinearity!r}; there are {', '.join(sorted(fixed))}, "
        "leaky_relu and the convolutions"
    )


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with uniform numbers from [a, b).

    >>> generator = minitorch.manual_seed(0); uniform_(minitorch.empty(2))
    tensor([0.4963, 0.7682])
    """
    return _write(tensor, _uniforms(tensor, a, b, generator))


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill with normal numbers.

    >>> generator = minitorch.manual_seed(0); normal_(minitorch.empty(2))
    tensor([ 1.5410, -0.2934])
    """
    if std < 0:
        raise RuntimeError(f"normal_: std must not be negative, got {std}")
    return _write(tensor, _normals(tensor, mean, std, generator))


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with normal numbers between a and b: those outside are drawn again.

    >>> bool((trunc_normal_(minitorch.empty(1000)).abs() <= 2).all())
    True
    """
    if std <= 0 or a >= b:
        raise ValueError(f"trunc_normal_: expects std > 0 and a < b, got std={std}, a={a}, b={b}")
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "trunc_normal_: mean is more than 2 std from [a, b]; the distribution may be far from normal",
            stacklevel=2,
        )
    if tensor.is_meta:
        return tensor
    inside = (math.erf((b - mean) / std / math.sqrt(2)) - math.erf((a - mean) / std / math.sqrt(2))) / 2
    if inside > 0.3:
        # Most numbers fall inside: draw, and draw again for those that do not.
        low, high = float(tensor.dtype.type(a)), float(tensor.dtype.type(b))
        values = _normals(tensor, mean, std, generator)
        while (outside := (values < low) | (values > high)).any():
            again = _normals(np.empty_like(values), mean, std, generator)  # into memory of its own
            values = np.where(outside, again, values)
        return _write(tensor, values)
    # Few do: draw from [a, b] and keep each number with a chance that follows the density, 1 at its peak.
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    values = np.zeros_like(_array(tensor))
    waiting = np.ones_like(values, dtype=bool)
    while waiting.any():
        candidates = _uniforms(tensor, a, b, generator)
        values = np.where(waiting, candidates, values)
        density = -0.5 * ((candidates - mean) / std) ** 2 - peak
        chance = _uniforms(tensor, 0.0, 1.0, generator)
        with np.errstate(divide="ignore"):
            waiting &= np.log(chance) > density
    return _write(tensor, values)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value.

    >>> constant_(minitorch.empty(2), 0.3)
    tensor([0.3000, 0.3000])
    """
    return _write(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones.

    >>> ones_(minitorch.empty(2))
    tensor([1., 1.])
    """
    return _write(tensor, 1)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    >>> zeros_(minitorch.empty(2))
    tensor([0., 0.])
    """
    return _write(tensor, 0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity.

    >>> eye_(minitorch.empty(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if tensor.ndim != 2:
        raise ValueError(f"eye_: only a matrix can be the identity, got shape {tensor.shape}")
    return _write(tensor, np.eye(*tensor.shape, dtype=tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution's weight (out, in / groups, …) so that each channel is passed on as it is.

    >>> dirac_(minitorch.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError(f"dirac_: only tensors with 3, 4 or 5 axes are supported, got shape {tensor.shape}")
    out, inputs, *lengths = tensor.shape
    if out % groups:
        raise ValueError(f"dirac_: axis 0 (length {out}) must be divisible by groups={groups}")
    values = np.zeros(tensor.shape, tensor.dtype)
    middle = tuple(n // 2 for n in lengths)
    per_group = out // groups
    for group in range(groups):
        for channel in range(min(per_group, inputs)):
            values[(group * per_group + channel, channel, *middle)] = 1
    return _write(tensor, values)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Return how many inputs one output has, and how many outputs one input."""
    if tensor.ndim < 2:
        raise ValueError(
            f"Fan in and fan out can not be computed for a tensor of shape {tensor.shape}: 2 axes or more"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _fan(tensor: Tensor, mode: str) -> int:
    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise ValueError(f"kaiming: Mode {mode} not supported, please use one of {list(modes)}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill uniformly from ±gain·√(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010).

    >>> bool((xavier_uniform_(minitorch.empty(3, 3)).abs() <= 1).all())
    True
    """
    bound = gain * math.sqrt(6 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return _write(tensor, _uniforms(tensor, -bound, bound, generator))


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers of spread gain·√(2 / (fan_in + fan_out)).

    >>> xavier_normal_(minitorch.empty(3, 5)).shape
    (3, 5)
    """
    std = gain * math.sqrt(2 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return _write(tensor, _normals(tensor, 0.0, std, generator))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill uniformly from ±gain·√(3 / fan) (He et al., 2015). a: the slope of leaky_relu.

    >>> kaiming_uniform_(minitorch.empty(3, 5), nonlinearity="relu").shape
    (3, 5)
    """
    if 0 in tensor.shape:
        warnings.warn("kaiming_uniform_: initialising a tensor without elements does nothing", stacklevel=2)
        return tensor
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    return _write(tensor, _uniforms(tensor, -bound, bound, generator))


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill with normal numbers of spread gain / √fan.

    >>> kaiming_normal_(minitorch.empty(3, 5), mode="fan_out").shape
    (3, 5)
    """
    if 0 in tensor.shape:
        warnings.warn("kaiming_normal_: initialising a tensor without elements does nothing", stacklevel=2)
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    return _write(tensor, _normals(tensor, 0.0, std, generator))


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill with rows (or columns, if fewer) of length `gain` at right angles; axes after the first are one.

    >>> w = orthogonal_(minitorch.empty(3, 3))
    >>> bool(((w @ w.T - minitorch.eye(3)).abs() < 1e-5).all())
    True
    """
    if tensor.ndim < 2:
        raise ValueError(
            f"orthogonal_: only tensors with 2 or more axes are supported, got shape {tensor.shape}"
        )
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    source = source_for(generator, place_of(_array(tensor)), "orthogonal_")
    drawn = source.normals(rows * columns, tensor.dtype).reshape(rows, columns)
    if rows < columns:
        drawn = drawn.T
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diag(r))  # QR is unique up to signs; this choice makes q uniformly distributed
    q = q.T if rows < columns else q
    return _write(tensor, (gain * q).reshape(tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix with normal numbers, and in each column a share of `sparsity` (rounded up) with zeros.

    >>> (sparse_(minitorch.empty(10, 2), 0.25) == 0).sum(dim=0)
    tensor([3, 3])
    """
    if tensor.ndim != 2:
        raise ValueError(f"sparse_: only a matrix is supported, got shape {tensor.shape}")
    rows, columns = tensor.shape
    values = _normals(tensor, 0.0, std, generator)
    for column in range(columns):
        order = random.randperm(rows, generator=generator, device=place_of(values))._data
        values[order[: math.ceil(sparsity * rows)], column] = 0
    return _write(tensor, values)


# --- the names of before the underscore: they fill in place all the same, and warn ------------------------------


def _renamed(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    new = function.__name__
    old = new.removesuffix("_")

    def deprecated(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(f"nn.init.{old} is deprecated; write nn.init.{new}", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    deprecated.__name__ = deprecated.__qualname__ = old
    deprecated.__doc__ = f"{old}(...): the old name of {new}, which warns."
    return deprecated


uniform, normal, constant = _renamed(uniform_), _renamed(normal_), _renamed(constant_)
eye, dirac, orthogonal, sparse = _renamed(eye_), _renamed(dirac_), _renamed(orthogonal_), _renamed(sparse_)
xavier_uniform, xavier_normal = _renamed(xavier_uniform_), _renamed(xavier_normal_)
kaiming_uniform, kaiming_normal = _renamed(kaiming_uniform_), _renamed(kaiming_normal_)
