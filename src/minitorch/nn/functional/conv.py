"""Convolutions and their transposes in 1, 2 and 3 dimensions; fold and unfold.

Enters: Tensors (N, C, d1, …), or (C, d1, …) for one example without a batch. Leaves: Tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.engine.node import Node
from minitorch.engine.record import apply
from minitorch.engine.recording import recordings
from minitorch.ops import conv as ops
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor
from minitorch.tensor.methods.public import takes_what
from minitorch.tensor.precision import in_lower_precision

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "fold",
    "unfold",
]  # fmt: skip


def sizes(value: Any, rank: int, what: str) -> tuple[int, ...]:
    """Return a number, or one per axis, as a tuple of `rank` integers.

    >>> sizes(3, 2, "kernel_size"), sizes((3, 5), 2, "kernel_size")
    ((3, 3), (3, 5))
    """
    try:
        each = tuple(int(v) for v in value) if isinstance(value, (Sequence, Tensor)) else (int(value),) * rank
    except (TypeError, ValueError):
        raise TypeError(f"{what} must be an integer or a tuple of {rank} integers, got {value!r}") from None
    if len(each) == 1:
        each *= rank
    if len(each) != rank:
        raise RuntimeError(f"{what} must be one integer or one per axis ({rank}), got {value!r}")
    return each


def constant(values: Any, like: Tensor, dtype: Any = None) -> Tensor:
    """Return nested lists of numbers as a Tensor beside another: on its device, in its dtype.

    >>> constant([1, 2], minitorch.zeros(3))
    tensor([1., 2.])
    """
    return as_tensor(np.asarray(values, dtype=like.dtype if dtype is None else dtype, like=like._data))


def with_batch(x: Tensor, rank: int, name: str) -> tuple[Tensor, bool]:
    """Return (N, C, …) for (C, …), and whether the batch axis was put there."""
    if x.ndim == rank + 2:
        return x, False
    if x.ndim == rank + 1:
        return x.unsqueeze(0), True
    raise RuntimeError(
        f"{name}: expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input, but got input of shape "
        f"{tuple(x.shape)}; write x.unsqueeze(…) or x.reshape(…) to add the missing axes (N, C, "
        + ", ".join(("D", "H", "W")[-rank:] if rank > 1 else ("L",))
        + ")"
    )


def _checked(
    name: str, rank: int, input: Any, weight: Any, bias: Any, stride: Any, dilation: Any, groups: int
) -> tuple[Tensor, bool, Tensor, Tensor | None, dict[str, Any]]:
    """Check what every convolution asks of its arguments."""
    x, unbatched = with_batch(as_tensor(input), rank, name)
    w = as_tensor(weight)
    b = None if bias is None else as_tensor(bias)
    if w.ndim != rank + 2:
        raise RuntimeError(
            f"{name}: weight must have {rank + 2} axes (channels, channels, kernel …), got shape {tuple(w.shape)}"
        )
    for part, what in ((w, "weight"), (b, "bias")):
        if part is not None and part.dtype != x.dtype:
            raise RuntimeError(
                f"{name}: input is {x.dtype} but {what} is {part.dtype}; convert one of them, as in "
                f"x.to({what}.dtype)"
            )
    how: dict[str, Any] = {
        "stride": sizes(stride, rank, f"{name}: stride"),
        "dilation": sizes(dilation, rank, f"{name}: dilation"),
        "groups": groups,
    }
    for what in ("stride", "dilation"):
        if min(how[what]) < 1:
            raise RuntimeError(f"{name}: {what} must be positive, got {how[what]}")
    if not isinstance(groups, int) or groups < 1:
        raise RuntimeError(f"{name}: groups must be a positive integer, got {groups!r}")
    if w.shape[0] % groups:
        raise RuntimeError(
            f"{name}: the first axis of weight, {w.shape[0]}, must be divisible by groups = {groups}"
        )
    return x, unbatched, w, b, how


def _pairs(padding: Any, rank: int, name: str) -> tuple[tuple[int, int], ...]:
    each = sizes(padding, rank, f"{name}: padding")
    if min(each) < 0:
        raise RuntimeError(f"{name}: negative padding is not supported, got {each}")
    return tuple((n, n) for n in each)


# How convolutions were called that have passed the checks, by all that those look at: small ones take longer to check
# than to compute.
_passed: dict[Any, dict[str, Any]] = {}
MOST_PASSED = 1024


def _key(input: Any, weight: Any, bias: Any, *how: Any) -> Any:
    """Return what the checks of a convolution look at; None if that is more than shapes, dtypes and numbers."""
    if recordings or not (isinstance(input, Node) and isinstance(weight, Node)):
        return None
    x, w = input._array, weight._array
    key = (x.shape, x.dtype, w.shape, w.dtype, *how, how[-1].__class__)
    if bias is None:
        return key
    return (*key, bias._array.shape, bias._array.dtype) if isinstance(bias, Node) else None


@in_lower_precision
def _conv(
    rank: int,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    key = _key(input, weight, bias, rank, stride, padding, dilation, groups)
    try:
        passed = _passed.get(key)
    except TypeError:  # a list of numbers
        key = passed = None
    if passed is not None:
        inputs = (input, weight) if bias is None else (input, weight, bias)
        return apply(ops.CONVOLUTION, *inputs, **passed)
    name = f"conv{rank}d"
    x, unbatched, w, b, how = _checked(name, rank, input, weight, bias, stride, dilation, groups)
    kernel = w.shape[2:]
    if x.shape[1] != w.shape[1] * groups:
        raise RuntimeError(
            f"{name}: weight of shape {tuple(w.shape)} with groups = {groups} expects {w.shape[1] * groups} input "
            f"channels, but got input of shape {tuple(x.shape)} with {x.shape[1]}"
        )
    if b is not None and b.shape != (w.shape[0],):
        raise RuntimeError(f"{name}: bias must have shape ({w.shape[0]},), got {tuple(b.shape)}")
    if isinstance(padding, str):
        how["padding"] = _named_padding(name, padding, kernel, how["stride"], how["dilation"])
    else:
        how["padding"] = _pairs(padding, rank, name)
    count = ops.window_count(x.shape[2:], kernel, **_but_groups(how))
    if any(n < 1 for n in count):
        raise RuntimeError(
            f"{name}: a kernel of size {tuple(kernel)} with dilation {how['dilation']} does not fit an input of "
            f"size {tuple(x.shape[2:])} with padding {padding}"
        )
    if key is not None and not unbatched and len(_passed) < MOST_PASSED:
        _passed[key] = how
    out = apply(ops.CONVOLUTION, x, w, **how) if b is None else apply(ops.CONVOLUTION, x, w, b, **how)
    return out.squeeze(0) if unbatched else out


def _but_groups(how: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in how.items() if key != "groups"}


def _named_padding(
    name: str, padding: str, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding != "same":
        raise RuntimeError(f"{name}: padding must be numbers, 'same' or 'valid', got {padding!r}")
    if max(stride) > 1:
        raise RuntimeError(
            f"{name}: padding='same' is not supported for strided convolutions (stride {stride})"
        )
    totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    return tuple((n // 2, n - n // 2) for n in totals)


@takes_what(_conv)
def conv1d(*args: Any, **kwargs: Any) -> Tensor:
    """Slide kernels (O, C/groups, K) along a signal (N, C, L): (N, O, L′).

    out[o, p] = bias[o] + Σ_{c,t} input[c, stride·p + dilation·t - padding] · weight[o, c, t]
    padding: zeros on both sides, or 'valid' (none) or 'same' (L′ = L).

    >>> x = minitorch.tensor([[1.0, 2.0, 4.0, 8.0]])
    >>> conv1d(x, minitorch.tensor([[[-1.0, 1.0]]]))            # differences of neighbours
    tensor([[1., 2., 4.]])
    """
    return _conv(1, *args, **kwargs)


@takes_what(_conv)
def conv2d(*args: Any, **kwargs: Any) -> Tensor:
    """Slide kernels (O, C/groups, K1, K2) over images (N, C, H, W): (N, O, H′, W′).

    Each window is a column, all kernels are the rows of a matrix: im2col, then one matmul. The gradient
    for the input is the transposed convolution of the result's, the one for the weight is a matmul of the
    result's gradient with the same columns.
    padding: zeros on all sides, or 'valid' (none) or 'same' (the image keeps its size).

    >>> x = minitorch.ones(1, 1, 3, 3)
    >>> conv2d(x, minitorch.ones(1, 1, 3, 3), padding=1)         # how many neighbours are there?
    tensor([[[[4., 6., 4.],
              [6., 9., 6.],
              [4., 6., 4.]]]])
    """
    return _conv(2, *args, **kwargs)


@takes_what(_conv)
def conv3d(*args: Any, **kwargs: Any) -> Tensor:
    """Slide kernels (O, C/groups, K1, K2, K3) through volumes (N, C, D, H, W). See conv2d.

    >>> conv3d(minitorch.ones(1, 1, 2, 2, 2), minitorch.ones(1, 1, 2, 2, 2)).item()
    8.0
    """
    return _conv(3, *args, **kwargs)


@in_lower_precision
def _conv_transpose(
    rank: int,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    name = f"conv_transpose{rank}d"
    x, unbatched, w, b, how = _checked(name, rank, input, weight, bias, stride, dilation, groups)
    if x.shape[1] != w.shape[0]:
        raise RuntimeError(
            f"{name}: weight of shape {tuple(w.shape)} expects {w.shape[0]} input channels, but got input of shape "
            f"{tuple(x.shape)} with {x.shape[1]}"
        )
    channels = w.shape[1] * groups
    if b is not None and b.shape != (channels,):
        raise RuntimeError(f"{name}: bias must have shape ({channels},), got {tuple(b.shape)}")
    extra = sizes(output_padding, rank, f"{name}: output_padding")
    for e, s, d in zip(extra, how["stride"], how["dilation"], strict=True):
        if not 0 <= e < max(s, d):
            raise RuntimeError(
                f"{name}: output_padding must be at least 0 and smaller than either stride or dilation, got "
                f"output_padding {extra}, stride {how['stride']}, dilation {how['dilation']}"
            )
    # What is asked for behind is simply taken away less.
    pairs = _pairs(padding, rank, name)
    how["padding"] = tuple((a, b - e) for (a, b), e in zip(pairs, extra, strict=True))
    size = ops.covered_size(x.shape[2:], w.shape[2:], **_but_groups(how))
    if any(n < 1 for n in size):
        raise RuntimeError(
            f"{name}: padding {padding} leaves a result of size {size} from an input of size {tuple(x.shape[2:])}"
        )
    out = apply(ops.CONVOLUTION_TRANSPOSE, x, w, **how)
    if b is not None:
        out = out + b.reshape((-1,) + (1,) * rank)
    return out.squeeze(0) if unbatched else out


@takes_what(_conv_transpose)
def conv_transpose1d(*args: Any, **kwargs: Any) -> Tensor:
    """Lay kernels (C, O/groups, K) down along (N, C, L), each weighted by the input, and add them up.

    This is the gradient of conv1d for its input, as an operation of its own.
    L′ = (L - 1)·stride - 2·padding + dilation·(K - 1) + output_padding + 1

    >>> x = minitorch.tensor([[1.0, 10.0]])
    >>> conv_transpose1d(x, minitorch.tensor([[[1.0, 2.0, 3.0]]]), stride=2)
    tensor([[ 1.,  2., 13., 20., 30.]])
    """
    return _conv_transpose(1, *args, **kwargs)


@takes_what(_conv_transpose)
def conv_transpose2d(*args: Any, **kwargs: Any) -> Tensor:
    """Lay kernels (C, O/groups, K1, K2) down over (N, C, H, W), weighted by the input. See conv_transpose1d.

    >>> conv_transpose2d(minitorch.ones(1, 1, 1, 2), minitorch.ones(1, 1, 2, 2))
    tensor([[[[1., 2., 1.],
              [1., 2., 1.]]]])
    """
    return _conv_transpose(2, *args, **kwargs)


@takes_what(_conv_transpose)
def conv_transpose3d(*args: Any, **kwargs: Any) -> Tensor:
    """Lay kernels (C, O/groups, K1, K2, K3) down through (N, C, D, H, W). See conv_transpose1d.

    >>> conv_transpose3d(minitorch.ones(1, 2, 2, 2, 2), minitorch.ones(2, 3, 2, 2, 2), stride=2).shape
    (1, 3, 4, 4, 4)
    """
    return _conv_transpose(3, *args, **kwargs)


# --- fold and unfold ------------------------------------------------------------------------------


def _windows(name: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> dict[str, Any]:
    how: dict[str, Any] = {
        "kernel": sizes(kernel_size, 2, f"{name}: kernel_size"),
        "stride": sizes(stride, 2, f"{name}: stride"),
        "padding": _pairs(padding, 2, name),
        "dilation": sizes(dilation, 2, f"{name}: dilation"),
    }
    for what in ("kernel", "stride", "dilation"):
        if min(how[what]) < 1:
            raise RuntimeError(f"{name}: {what} must be positive, got {how[what]}")
    return how


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Cut images (N, C, H, W) into windows, one column each: (N, C·K1·K2, windows). Also called im2col.

    dx: each window's gradient added back to where it was cut from (fold)

    >>> unfold(minitorch.arange(9.0).reshape(1, 1, 3, 3), 2)
    tensor([[[0., 1., 3., 4.],
             [1., 2., 4., 5.],
             [3., 4., 6., 7.],
             [4., 5., 7., 8.]]])
    """
    x, unbatched = with_batch(as_tensor(input), 2, "unfold")
    how = _windows("unfold", kernel_size, dilation, padding, stride)
    count = ops.window_count(x.shape[2:], **how)
    if any(n < 1 for n in count):
        raise RuntimeError(
            f"unfold: windows of size {how['kernel']} with dilation {how['dilation']} do not fit an input of shape "
            f"{tuple(x.shape)} with padding {padding}"
        )
    out = apply(ops.IM2COL, x, **how)
    return out.squeeze(0) if unbatched else out


def fold(
    input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Add windows (N, C·K1·K2, windows) back into images (N, C, H, W), overlaps summed. Also called col2im.

    dx: the result's gradient, cut into windows (unfold)

    >>> fold(minitorch.ones(1, 4, 4), (3, 3), 2)                 # in how many windows is each pixel?
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """
    columns = as_tensor(input)
    if columns.ndim not in (2, 3):
        raise RuntimeError(
            f"fold: expected (C·K1·K2, windows) or (N, C·K1·K2, windows), got shape {tuple(columns.shape)}"
        )
    unbatched = columns.ndim == 2
    if unbatched:
        columns = columns.unsqueeze(0)
    how = _windows("fold", kernel_size, dilation, padding, stride)
    size = sizes(output_size, 2, "fold: output_size")
    taps = how["kernel"][0] * how["kernel"][1]
    if columns.shape[1] % taps:
        raise RuntimeError(
            f"fold: an input of shape {tuple(columns.shape)} must have a multiple of {taps} (kernel_size "
            f"{how['kernel']}) on its second axis"
        )
    count = ops.window_count(size, **how)
    if min(count) < 1 or columns.shape[2] != count[0] * count[1]:
        raise RuntimeError(
            f"fold: an image of size {size} has {count[0]} × {count[1]} windows of size {how['kernel']}, but the "
            f"input of shape {tuple(columns.shape)} holds {columns.shape[2]}"
        )
    out = apply(ops.COL2IM, columns, size=size, **how)
    return out.squeeze(0) if unbatched else out
