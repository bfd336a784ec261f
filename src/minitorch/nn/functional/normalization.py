"""Normalisation as functions. Enters: activations. Leaves: activations with mean 0 and variance 1, scaled and shifted.

All but one differ only in which axes are normalised together:

    batch norm      (N, C, …): everything but the channels
    instance norm   (N, C, …): each sample's channel by itself
    group norm      (N, C, …): each sample's group of channels
    layer norm      the last axes
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from minitorch.engine import watch
from minitorch.engine.dtypes import finfo, float32, kind_of
from minitorch.engine.fast import apply_ternary
from minitorch.engine.modes import current
from minitorch.engine.record import apply, apply_many
from minitorch.engine.recording import recordings
from minitorch.functions import pad
from minitorch.ops import native
from minitorch.ops.layers import AFFINE, NORMALIZE, NORMALIZED
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor, promoted, to_floating
from minitorch.tensor.precision import by_one_op_there, in_float32_there, is_half_there, rounded_once

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize", "rms_norm",
]  # fmt: skip


def _normalized(x: Tensor, axes: tuple[int, ...], eps: float, weight: Any, bias: Any) -> tuple[Tensor, ...]:
    """Normalise, and scale and shift each channel, in one op. Also the mean and variance."""
    inputs = _of_one_dtype(x, weight, bias)
    return apply_many(NORMALIZE, *inputs, axes=axes, eps=float(eps), centre=True, along=1)


def _normalized_alone(
    x: Tensor, axes: tuple[int, ...], eps: float, weight: Any = None, bias: Any = None, centre: bool = True
) -> Tensor:
    """Normalise, scale and shift in one op; weight and bias broadcast against x."""
    x, weight, bias = inputs = _of_one_dtype(x, weight, bias)
    attributes = {"axes": axes, "eps": float(eps), "centre": centre}
    wanted = (
        x._requires_grad
        or (weight is not None and weight._requires_grad)
        or (bias is not None and bias._requires_grad)
    )
    if recordings or (wanted and current().enabled):
        return apply_many(NORMALIZE, *inputs, **attributes)[0]
    return apply_ternary(NORMALIZED, x, weight, bias, attributes)


def _of_one_dtype(x: Tensor, weight: Any, bias: Any) -> tuple[Any, Any, Any]:
    """Return tensors, or None, in the dtype they are computed in together."""
    weight = None if weight is None else as_tensor(weight)
    bias = None if bias is None else as_tensor(bias)
    dtype = x._array.dtype
    if is_half_there(x):  # the op takes float32 beside halves
        return x, weight, bias
    if (weight is None or weight._array.dtype is dtype) and (bias is None or bias._array.dtype is dtype):
        return x, weight, bias
    x, *given = promoted(*(each for each in (x, weight, bias) if each is not None))
    return x, given.pop(0) if weight is not None else None, given.pop(0) if bias is not None else None


def _shaped(member: Any, shape: Sequence[int]) -> Any:
    """Reshape a weight or bias so that it meets its axis."""
    return None if member is None else as_tensor(member).reshape(shape)


def _over_channels(x: Tensor) -> tuple[int, ...]:
    return (1, x.shape[1]) + (1,) * (x.ndim - 2)


def _check_lengths(name: str, length: int, **members: Any) -> None:
    for what, given in members.items():
        if given is not None and tuple(given.shape) != (length,):
            raise RuntimeError(
                f"{name}: {what} should contain {length} elements, got shape {tuple(given.shape)}"
            )


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel (axis 1) over the batch and all positions.

    training: use the batch's own mean and variance, and move the running ones towards them (in place):
    running = (1 - momentum)·running + momentum·batch. Otherwise use the running ones.

    >>> batch_norm(minitorch.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if training and is_half_there(input):
        return _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    # (Averages of halves are moved in float32, too.)
    averages = running_mean, running_var
    mean, var = (a.float() if training and a is not None and a.dtype.itemsize == 2 else a for a in averages)
    out = _batch_norm_in_float32(input, mean, var, weight, bias, training, momentum, eps)
    for average, moved in zip(averages, (mean, var), strict=True):
        if moved is not average:
            average._data[...] = moved._data.astype(average.dtype)
            watch.touch(average._data)
    return out


def _batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    x = to_floating(as_tensor(input))
    if x.ndim < 2:
        raise RuntimeError(
            f"batch_norm: expected an input (N, C, …) with at least 2 axes, got shape {x.shape}"
        )
    channels = x.shape[1]
    running = {"running_mean": running_mean, "running_var": running_var}
    _check_lengths("batch_norm", channels, **running, weight=weight, bias=bias)
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "batch_norm: without training the running mean and variance are needed; pass them, or training=True"
            )
        # Everything is known: one multiplication and one addition per element.
        scale = 1 / (as_tensor(running_var) + eps).sqrt()
        scale = scale if weight is None else scale * as_tensor(weight)
        shift = -as_tensor(running_mean) * scale
        shift = shift if bias is None else shift + as_tensor(bias)
        shape = _over_channels(x)
        return apply(AFFINE, *promoted(x, scale.reshape(shape), shift.reshape(shape)))
    count = x.numel() // channels if channels else 0
    if count == 1:
        raise ValueError(
            f"batch_norm: Expected more than 1 value per channel when training, got input size {x.shape}: one "
            "value has no variance. Use a larger batch, or model.eval()"
        )
    axes = (0, *range(2, x.ndim))
    out, mean, variance = _normalized(x, axes, eps, weight, bias)
    found = [each._data.reshape(channels) for each in (mean, variance)]
    _move([running_mean, running_var], found, [1.0, count / max(count - 1, 1)], momentum)
    return out


_batch_norm_in_float32 = rounded_once(_batch_norm)


def _move(averages: Sequence[Any], found: Sequence[Any], factors: Sequence[float], momentum: float) -> None:
    """Move running averages (None: there is none) towards what was found, times a factor, in place."""
    together: list[list[Any]] = []
    for average, new, factor in zip(averages, found, factors, strict=True):
        if average is None:
            continue
        data = average._data
        if current().level is not None and type(new) is not type(data):
            raise RuntimeError(
                "batch_norm: inside vmap a running mean or variance that all examples share cannot be moved; call "
                "model.eval(), let it keep none (func.replace_all_batch_norm_modules_), or give each example its own"
            )
        if native.is_of_device(data):
            together.append([data, new, factor])
        else:
            data[...] = _between(data, new, momentum, factor)
        watch.touch(data)
    if together:
        data, new, factors = zip(*together, strict=True)
        native.update_there(_move_there, [[*data, *new]], (momentum, *factors))


def _move_there(arrays: list[Any], numbers: Sequence[float]) -> None:
    """Move the first half of a device's arrays towards the second. numbers: how far, and a factor for each of those."""
    momentum, *factors = numbers
    for average, new, factor in zip(arrays, arrays[len(factors) :], factors, strict=False):
        average[...] = _between(average, new, momentum, factor)


def _between(average: Any, new: Any, momentum: float, factor: float) -> Any:
    return (1 - momentum) * average + momentum * (new if factor == 1 else new * factor)


@rounded_once
def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample over its positions.

    use_input_stats: the sample's own mean and variance; otherwise the running ones.

    >>> instance_norm(minitorch.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    x = to_floating(as_tensor(input))
    if x.ndim < 3:
        raise RuntimeError(
            f"instance_norm: expected an input (N, C, …) with at least 3 axes, got shape {x.shape}"
        )
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    channels = x.shape[1]
    running = {"running_mean": running_mean, "running_var": running_var}
    _check_lengths("instance_norm", channels, **running, weight=weight, bias=bias)
    count = math.prod(x.shape[2:])
    if count == 1:
        raise ValueError(
            f"instance_norm: Expected more than 1 spatial element when training, got input size {x.shape}"
        )
    axes = tuple(range(2, x.ndim))
    out, mean, variance = _normalized(x, axes, eps, weight, bias)
    if running_mean is not None or running_var is not None:
        found = [each._data.reshape(x.shape[:2]).mean(axis=0) for each in (mean, variance)]
        _move([running_mean, running_var], found, [1.0, count / max(count - 1, 1)], momentum)
    return out


def _last_axes(x: Tensor, normalized_shape: Any, name: str, **members: Any) -> tuple[int, ...]:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    lengths = x._data.shape
    if not shape or lengths[len(lengths) - len(shape) :] != shape:
        raise RuntimeError(
            f"{name}: given normalized_shape={list(shape)}, expected an input whose last axes have these lengths, "
            f"got shape {x.shape}"
        )
    for what, given in members.items():
        if given is not None and (given._data if isinstance(given, Tensor) else given).shape != shape:
            raise RuntimeError(
                f"{name}: {what} must have the shape normalized_shape={list(shape)}, got {tuple(given.shape)}"
            )
    return tuple(range(len(lengths) - len(shape), len(lengths)))


@in_float32_there
@rounded_once
@by_one_op_there
def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Normalise each sample over its last axes, which have the lengths `normalized_shape`.

    >>> layer_norm(minitorch.tensor([[1.0, 3.0], [10.0, 30.0]]), [2])
    tensor([[-1.0000,  1.0000],
            [-1.0000,  1.0000]])
    """
    x = to_floating(as_tensor(input))
    axes = _last_axes(x, normalized_shape, "layer_norm", weight=weight, bias=bias)
    return _normalized_alone(x, axes, eps, weight, bias)


@in_float32_there
@rounded_once
@by_one_op_there
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Tensor:
    """Divide each sample by the root of its mean square over the last axes.

    eps: the smallest step of the input's dtype if None.

    >>> rms_norm(minitorch.tensor([3.0, 3.0]), [2])
    tensor([1., 1.])
    """
    x = to_floating(as_tensor(input))
    axes = _last_axes(x, normalized_shape, "rms_norm", weight=weight)
    smallest = finfo(float32 if x._array.dtype.itemsize == 2 else x._array.dtype).eps if eps is None else eps
    return _normalized_alone(x, axes, smallest, weight, centre=False)


@in_float32_there
@rounded_once
def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Normalise each sample's channels (axis 1) in groups.

    >>> group_norm(minitorch.tensor([[1.0, 3.0, 10.0, 30.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    x = to_floating(as_tensor(input))
    if x.ndim < 2:
        raise RuntimeError(
            f"group_norm: expected an input (N, C, …) with at least 2 axes, got shape {x.shape}"
        )
    samples, channels = x.shape[:2]
    if num_groups <= 0 or channels % num_groups:
        raise RuntimeError(
            f"group_norm: the number of channels must be divisible by num_groups, got input of shape {x.shape} "
            f"and num_groups={num_groups}"
        )
    _check_lengths("group_norm", channels, weight=weight, bias=bias)
    if x.numel() == num_groups:
        raise ValueError(
            f"group_norm: Expected more than 1 value per channel when training, got input size {x.shape} in "
            f"{num_groups} groups: of one value nothing is left"
        )
    # (N, C, …) → (N, G, C/G, positions): a group's channels and positions are the last two axes.
    grouped = (samples, num_groups, channels // num_groups, math.prod(x.shape[2:]))
    per_channel = (1, num_groups, channels // num_groups, 1)
    out = _normalized_alone(
        x.reshape(grouped), (2, 3), eps, _shaped(weight, per_channel), _shaped(bias, per_channel)
    )
    return out.reshape(x.shape)


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + α·mean of x² over `size` neighbouring channels)^β.

    >>> local_response_norm(minitorch.ones(1, 2, 1), size=1, alpha=1.0, beta=1.0)
    tensor([[[0.5000],
             [0.5000]]])
    """
    x = as_tensor(input)
    if x.ndim < 3:
        raise ValueError(
            f"local_response_norm: expected an input (N, C, …) with at least 3 axes, got shape {x.shape}"
        )
    if x.numel() == 0:
        return x
    squares = (x * x).movedim(1, -1)
    windows = pad(squares, (size // 2, (size - 1) // 2)).unfold(-1, size, 1)
    # PyTorch keeps a mean of integers an integer, cut.
    share = windows.mean(dim=-1) if kind_of(x.dtype) == "f" else windows.sum(dim=-1) // size
    share = share.movedim(-1, 1)
    return x / (share * alpha + k) ** beta


def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Tensor:
    """x / max(‖x‖_p, eps) along an axis: vectors of length 1.

    >>> normalize(minitorch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    x = as_tensor(input)
    return x / x.norm(p, dim=dim, keepdim=True).clamp(min=eps)
