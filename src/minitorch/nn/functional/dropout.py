"""Dropout as functions. Enters: activations. Leaves: activations with some set to 0, the others scaled up.

While training each element stays with probability 1 - p and is divided by it, so that its expected value does
not change; otherwise nothing happens. The draws are PyTorch's: the same seed drops the same elements.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch.engine.dtypes import kind_of
from minitorch.engine.node import new_tensor
from minitorch.engine.record import apply
from minitorch.engine.recording import recorder
from minitorch.ops.dropping import DROPOUT
from minitorch.ops.native import is_of_device
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor
from minitorch.tensor.generator import DeviceGenerator, generator_of
from minitorch.tensor.memory_order import laid_out_like
from minitorch.tensor.writing import rewrite

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]


def _check(p: float, name: str) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name}: the probability p must be between 0 and 1, got {p}")


def kept_elements(x: Tensor, p: float, shape: tuple[int, ...] | None = None) -> Any:
    """Draw which elements of x (or of a shape) stay, each with probability 1 - p, in the order of memory."""
    count = x.numel() if shape is None else math.prod(shape)
    length = (*(x.shape if shape is None else shape), 1)[0]
    generator = generator_of(x.device)
    if isinstance(generator, DeviceGenerator) and is_of_device(x._array) and recorder() is None:
        kept = generator.kept(count, 1 - p)
    else:
        kept = generator.uniforms_of_rows(count, length, np.dtype(np.float64)) < 1 - p
    return laid_out_like(kept, x._data) if shape is None else kept.reshape(shape)


def _beside(mask: Any, x: Tensor) -> Tensor:
    """Make a mask a Tensor of x's dtype."""
    return new_tensor(mask.astype(x.dtype))


def _drop(x: Tensor, p: float, shape: tuple[int, ...] | None = None) -> Tensor:
    if p == 0:
        return x * 1.0  # nothing is drawn
    if p == 1:
        return x * 0.0
    if shape is None and is_of_device(x._array) and kind_of(x.dtype) == "f":
        return apply(DROPOUT, x, new_tensor(kept_elements(x, p)), keep=1 - p)
    return x * _beside(kept_elements(x, p, shape) * (1 / (1 - p)), x)


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set elements to 0 with probability p and divide the others by 1 - p.   dx = g·mask / (1 - p)

    >>> dropout(minitorch.ones(2), p=0.5, training=False)
    tensor([1., 1.])
    >>> sorted(set(dropout(minitorch.ones(100), p=0.5).tolist()))
    [0.0, 2.0]
    """
    if inplace:
        return rewrite(input, lambda x: dropout(x, p, training), "dropout(x, inplace=True)")
    _check(p, "dropout")
    x = as_tensor(input)
    return _drop(x, p) if training else x


def _channels(x: Tensor, p: float, training: bool, name: str, ranks: tuple[int, int]) -> Tensor:
    """Drop whole channels: one draw for each (N, C), the same for everything in it."""
    _check(p, name)
    if x.ndim not in ranks:
        raise RuntimeError(
            f"{name}: expected an input with {ranks[0]} or {ranks[1]} axes, got shape {x.shape}"
        )
    if not training:
        return x
    batched = x.ndim == ranks[1]
    shape = x.shape[: 2 if batched else 1] + (1,) * (ranks[0] - 1)
    return _drop(x, p, shape)


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop whole channels of (N, C, L) or (C, L).

    >>> dropout1d(minitorch.ones(3, 4), p=1.0).sum()
    tensor(0.)
    """
    if inplace:
        return rewrite(input, lambda x: dropout1d(x, p, training), "dropout1d(x, inplace=True)")
    return _channels(as_tensor(input), p, training, "dropout1d", (2, 3))


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop whole channels: of (N, C, H, W), one draw for each of N·C.

    An input of 3 axes is read as PyTorch reads it: as (N, C, L), with a draw for each of N·C.

    >>> dropout2d(minitorch.ones(2, 3, 4, 4), p=1.0).sum()
    tensor(0.)
    """
    if inplace:
        return rewrite(input, lambda x: dropout2d(x, p, training), "dropout2d(x, inplace=True)")
    x = as_tensor(input)
    _check(p, "dropout2d")
    if x.ndim not in (3, 4):
        raise RuntimeError(f"dropout2d: expected an input with 3 or 4 axes, got shape {x.shape}")
    return _drop(x, p, x.shape[:2] + (1,) * (x.ndim - 2)) if training else x


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop whole channels of (N, C, D, H, W) or (C, D, H, W).

    >>> dropout3d(minitorch.ones(2, 3, 1, 1, 1), p=1.0).sum()
    tensor(0.)
    """
    if inplace:
        return rewrite(input, lambda x: dropout3d(x, p, training), "dropout3d(x, inplace=True)")
    return _channels(as_tensor(input), p, training, "dropout3d", (4, 5))


# What selu approaches for very negative x: the value "off" that dropping sets.
_SELU_FLOOR = -1.7580993408473766


def _alpha_drop(x: Tensor, p: float, shape: tuple[int, ...] | None = None) -> Tensor:
    if p == 0:
        return x * 1.0
    if p == 1:
        return x * 0.0
    # y = a·(x·mask + floor·(1 - mask)) + b; a and b bring mean 0 and variance 1 back.
    a = 1 / ((_SELU_FLOOR**2 * p + 1) * (1 - p)) ** 0.5
    kept = kept_elements(x, p, shape)
    shift = np.where(kept, 0.0, a * _SELU_FLOOR) - a * _SELU_FLOOR * p
    return x * _beside(kept * a, x) + _beside(shift, x)


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Drop for selu: elements become selu's lower limit, and mean 0 and variance 1 are kept.

    >>> alpha_dropout(minitorch.ones(2), p=0.5)
    tensor([1., 1.])
    """
    if inplace:
        return rewrite(input, lambda x: alpha_dropout(x, p, training), "alpha_dropout(x, inplace=True)")
    _check(p, "alpha_dropout")
    x = as_tensor(input)
    return _alpha_drop(x, p) if training else x


def feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Drop for selu, whole channels (axis 1) at once.

    >>> feature_alpha_dropout(minitorch.ones(2, 3), p=0.5)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    if inplace:
        return rewrite(
            input, lambda x: feature_alpha_dropout(x, p, training), "feature_alpha_dropout(x, inplace=True)"
        )
    _check(p, "feature_alpha_dropout")
    x = as_tensor(input)
    if not training:
        return x
    if x.ndim < 2:
        raise RuntimeError(
            f"feature_alpha_dropout: expected an input with at least 2 axes, got shape {x.shape}"
        )
    return _alpha_drop(x, p, x.shape[:2] + (1,) * (x.ndim - 2))
