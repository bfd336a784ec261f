"""Pooling: one number for each window of an image, or for each of a fixed number of regions.

Enters: Tensors (N, C, d1, …), or (C, d1, …) without a batch. Leaves: Tensors with smaller d1, ….
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch.creation import arange
from minitorch.engine.dtypes import kind_of
from minitorch.engine.record import apply
from minitorch.functions import cat, sign, where
from minitorch.nn.functional.conv import constant, sizes, with_batch
from minitorch.ops import conv as windows
from minitorch.ops import pool as ops
from minitorch.ops.op import certain, violated
from minitorch.random import rand
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor
from minitorch.tensor.methods.public import takes_what
from minitorch.tensor.precision import in_float32

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d", "max_pool1d_with_indices", "max_pool2d",
    "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d",
    "max_unpool3d",
]  # fmt: skip


def _geometry(
    name: str,
    size: tuple[int, ...],
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> dict[str, Any]:
    """Return where the windows lie; in ceil mode they may hang over the end by a wider padding there."""
    rank = len(size)
    kernel = sizes(kernel_size, rank, f"{name}: kernel_size")
    steps = kernel if stride is None or stride == [] else sizes(stride, rank, f"{name}: stride")
    pads = sizes(padding, rank, f"{name}: padding")
    apart = sizes(dilation, rank, f"{name}: dilation")
    for what, values in (("kernel_size", kernel), ("stride", steps), ("dilation", apart)):
        if min(values) < 1:
            raise RuntimeError(f"{name}: {what} must be positive, got {values}")
    pairs = []
    for n, k, s, p, d in zip(size, kernel, steps, pads, apart, strict=True):
        span = d * (k - 1) + 1
        if not 0 <= p <= span // 2:
            raise RuntimeError(
                f"{name}: padding must be at least 0 and at most half the window's extent, got padding {p} for "
                f"kernel_size {k} with dilation {d}"
            )
        behind = p
        if ceil_mode:
            count = -(-(n + 2 * p - span) // s) + 1
            if (count - 1) * s >= n + p:  # the last window must start inside the image
                count -= 1
            behind = max(p, (count - 1) * s + span - n - p)
        if (n + p + behind - span) // s + 1 < 1:
            raise RuntimeError(
                f"{name}: a window of extent {span} does not fit an input of size {tuple(size)} with padding {pads}"
            )
        pairs.append((p, behind))
    return {"kernel": kernel, "stride": steps, "padding": tuple(pairs), "dilation": apart}


# --- max ------------------------------------------------------------------------------------------


def _max_pool(
    rank: int,
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    _name: str = "max_pool",
) -> Any:
    name = f"{_name}{rank}d"
    x, unbatched = with_batch(as_tensor(input), rank, name)
    how = _geometry(name, x.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    if not return_indices:
        out = apply(ops.MAX_POOL, x, **how)
        return out.squeeze(0) if unbatched else out
    # First where the largest are, then what is there: backward need not look for them again.
    fixed = x.detach()
    chosen = apply(ops.MAX_POOL_TAP, fixed, apply(ops.MAX_POOL, fixed, **how), **how)
    out = apply(ops.POOL_PICK, x, chosen, **how)
    found = _places(chosen, x.shape[2:], how)
    return (out.squeeze(0), found.squeeze(0)) if unbatched else (out, found)


def _places(chosen: Tensor, size: tuple[int, ...], how: dict[str, Any]) -> Tensor:
    """Turn the number of a tap in each window into the number of an element in the flattened image."""
    rest = chosen.to(np.int64)
    place: Any = 0
    for i in range(len(size)):
        below = math.prod(how["kernel"][i + 1 :])
        tap, rest = rest // below, rest % below
        starts = np.arange(chosen.shape[2 + i], like=chosen) * how["stride"][i] - how["padding"][i][0]
        along = starts.reshape((-1,) + (1,) * (len(size) - i - 1)) + tap * how["dilation"][i]
        place = place * size[i] + along.clamp(0, size[i] - 1)
    return place


@takes_what(_max_pool)
def max_pool1d(*args: Any, **kwargs: Any) -> Any:
    """Return the largest element of each window of (N, C, L); windows follow each other unless stride is given.

    dx = g at the largest element, of equals the first; 0 elsewhere
    return_indices: return also where they are, for max_unpool1d.

    >>> max_pool1d(minitorch.tensor([[1.0, 3.0, 2.0, 2.0]]), 2)
    tensor([[3., 2.]])
    """
    return _max_pool(1, *args, **kwargs)


@takes_what(_max_pool)
def max_pool2d(*args: Any, **kwargs: Any) -> Any:
    """Return the largest element of each window of (N, C, H, W). See max_pool1d.

    >>> max_pool2d(minitorch.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    return _max_pool(2, *args, **kwargs)


@takes_what(_max_pool)
def max_pool3d(*args: Any, **kwargs: Any) -> Any:
    """Return the largest element of each window of (N, C, D, H, W). See max_pool1d.

    >>> max_pool3d(minitorch.arange(8.0).reshape(1, 1, 2, 2, 2), 2).item()
    7.0
    """
    return _max_pool(3, *args, **kwargs)


def max_pool1d_with_indices(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Return max_pool1d and where each largest element is.

    >>> max_pool1d_with_indices(minitorch.tensor([[1.0, 3.0, 2.0, 2.0]]), 2)[1]
    tensor([[1, 2]])
    """
    return max_pool1d(*args, **{**kwargs, "return_indices": True})


def max_pool2d_with_indices(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Return max_pool2d and where each largest element is, numbered row by row.

    >>> max_pool2d_with_indices(minitorch.arange(16.0).reshape(1, 4, 4), 2)[1]
    tensor([[[ 5,  7],
             [13, 15]]])
    """
    return max_pool2d(*args, **{**kwargs, "return_indices": True})


def max_pool3d_with_indices(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Return max_pool3d and where each largest element is.

    >>> max_pool3d_with_indices(minitorch.arange(8.0).reshape(1, 1, 2, 2, 2), 2)[1].item()
    7
    """
    return max_pool3d(*args, **{**kwargs, "return_indices": True})


def _max_unpool(
    name: str,
    rank: int,
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    output_size: Any,
) -> Tensor:
    x, unbatched = with_batch(as_tensor(input), rank, name)
    places, _ = with_batch(as_tensor(indices), rank, name)
    if x.shape != places.shape:
        raise RuntimeError(
            f"{name}: input and indices must have one shape, got {tuple(x.shape)} and {tuple(places.shape)}"
        )
    kernel = sizes(kernel_size, rank, f"{name}: kernel_size")
    steps = kernel if stride is None or stride == [] else sizes(stride, rank, f"{name}: stride")
    pads = sizes(padding, rank, f"{name}: padding")
    default = tuple(
        (n - 1) * s + k - 2 * p for n, s, k, p in zip(x.shape[2:], steps, kernel, pads, strict=True)
    )
    size = default if output_size is None else tuple(int(n) for n in output_size)[-rank:]
    if any(abs(n - usual) >= s for n, usual, s in zip(size, default, steps, strict=True)):
        raise ValueError(
            f"{name}: output_size {size} must differ from {default} by less than the stride {steps}"
        )
    lead = tuple(x.shape[:2])
    flat = (*lead, math.prod(x.shape[2:]))
    area = math.prod(size)
    positions = places.reshape(flat)
    named = positions._data
    if named.size and violated((named.min() < 0) | (named.max() >= area)):
        raise RuntimeError(f"{name}: an index is outside of the output of size {size}")
    empty = as_tensor(np.zeros((*lead, area), dtype=x.dtype, like=x._data))
    out = empty.scatter(-1, positions, x.reshape(flat)).reshape((*lead, *size))
    return out.squeeze(0) if unbatched else out


def max_unpool1d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Put what max_pool1d took back to where it was (its indices say where), zeros elsewhere.

    dx = g at the indices

    >>> max_unpool1d(minitorch.tensor([[3.0, 2.0]]), minitorch.tensor([[1, 2]]), 2)
    tensor([[0., 3., 2., 0.]])
    """
    return _max_unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Put what max_pool2d took back to where it was, zeros elsewhere. See max_unpool1d.

    >>> max_unpool2d(minitorch.ones(1, 1, 1), minitorch.tensor([[[2]]]), 2)
    tensor([[[0., 0.],
             [1., 0.]]])
    """
    return _max_unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Put what max_pool3d took back to where it was, zeros elsewhere. See max_unpool1d.

    >>> max_unpool3d(minitorch.ones(1, 1, 1, 1), minitorch.tensor([[[[2]]]]), 2).shape
    (1, 2, 2, 2)
    """
    return _max_unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


# --- mean -----------------------------------------------------------------------------------------


def _avg_pool(
    rank: int,
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    _name: str = "avg_pool",
) -> Tensor:
    name = f"{_name}{rank}d"
    x, unbatched = with_batch(as_tensor(input), rank, name)
    if kind_of(x.dtype) != "f":
        raise RuntimeError(f"{name}: a mean needs floating-point input, got {x.dtype}; write x.float()")
    if divisor_override == 0:
        raise RuntimeError(f"{name}: divisor_override must not be zero")
    size = tuple(x.shape[2:])
    how = _geometry(name, size, kernel_size, stride, padding, 1, ceil_mode)
    count = windows.window_count(size, **how)
    del how["dilation"]
    how["divisor"] = divisor_override or _extents(size, count, how, count_include_pad)
    out = apply(ops.AVG_POOL, x, **how)
    return out.squeeze(0) if unbatched else out


def _extents(size: tuple[int, ...], count: tuple[int, ...], how: dict[str, Any], with_pad: bool) -> Any:
    """Return by what each window's sum is divided: the elements in it; padding counts if asked for.

    What hangs over the padded end (ceil mode) never counts.
    """
    per_axis = []
    for n, o, k, s, (p, _) in zip(size, count, how["kernel"], how["stride"], how["padding"], strict=True):
        if (with_pad or not p) and (o - 1) * s + k <= n + 2 * p:
            per_axis.append((k,))  # each window is full
            continue
        starts = [i * s - p for i in range(o)]
        ends = [min(start + k, n + p) for start in starts]
        if not with_pad:
            starts = [max(start, 0) for start in starts]
            ends = [min(end, n) for end in ends]
        per_axis.append(tuple(end - start for start, end in zip(starts, ends, strict=True)))
    if all(len(set(extents)) == 1 for extents in per_axis):
        return math.prod(extents[0] for extents in per_axis)
    return tuple(per_axis)


def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window of (N, C, L); windows follow each other unless stride is given.

    dx: each element of a window gets an equal share of its g
    count_include_pad: whether the zeros of the padding count among a window's elements.

    >>> avg_pool1d(minitorch.tensor([[1.0, 3.0, 2.0, 2.0]]), 2)
    tensor([[2., 2.]])
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


@takes_what(_avg_pool)
def avg_pool2d(*args: Any, **kwargs: Any) -> Tensor:
    """Return the mean of each window of (N, C, H, W). See avg_pool1d.

    divisor_override: divide each window's sum by this number instead.

    >>> avg_pool2d(minitorch.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """
    return _avg_pool(2, *args, **kwargs)


@takes_what(_avg_pool)
@in_float32
def avg_pool3d(*args: Any, **kwargs: Any) -> Tensor:
    """Return the mean of each window of (N, C, D, H, W). See avg_pool2d.

    >>> avg_pool3d(minitorch.arange(8.0).reshape(1, 1, 2, 2, 2), 2).item()
    3.5
    """
    return _avg_pool(3, *args, **kwargs)


# --- adaptive -------------------------------------------------------------------------------------


def _goal(output_size: Any, size: tuple[int, ...], name: str) -> tuple[int, ...]:
    """Return the size asked for; None along an axis keeps it."""
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * len(size)
    if len(given) != len(size):
        raise RuntimeError(f"{name}: output_size must be one integer or {len(size)}, got {output_size!r}")
    goal = tuple(n if wanted is None else int(wanted) for wanted, n in zip(given, size, strict=True))
    if min(goal) < 0:
        raise RuntimeError(f"{name}: output_size must not be negative, got {output_size!r}")
    if any(n < 1 for n in size):
        raise RuntimeError(f"{name}: cannot pool an input of size {tuple(size)}")
    return goal


def _region_bounds(n: int, o: int) -> list[tuple[int, int]]:
    """Cut n places into o regions of nearly equal length, which may share a place with their neighbours.

    >>> _region_bounds(5, 3)
    [(0, 2), (1, 4), (3, 5)]
    """
    return [(i * n // o, -(-(i + 1) * n // o)) for i in range(o)]


def _adaptive_avg_pool(name: str, rank: int, input: Any, output_size: Any) -> Tensor:
    x, unbatched = with_batch(as_tensor(input), rank, name)
    if kind_of(x.dtype) != "f":
        raise RuntimeError(f"{name}: a mean needs floating-point input, got {x.dtype}; write x.float()")
    size = tuple(x.shape[2:])
    goal = _goal(output_size, size, name)
    axes = tuple(range(2, 2 + rank))
    if all(o == 1 for o in goal):
        out = x.mean(axis=axes, keepdims=True)
    elif 0 in goal:
        out = x[(slice(None), slice(None), *(slice(0, min(o, n)) for o, n in zip(goal, size, strict=True)))]
        out = out.sum(axis=axes, keepdims=True).broadcast_to((*x.shape[:2], *goal))
    elif all(n % o == 0 for n, o in zip(size, goal, strict=True)):
        kernel = tuple(n // o for n, o in zip(size, goal, strict=True))
        how = {"kernel": kernel, "stride": kernel, "padding": ((0, 0),) * rank}
        out = apply(ops.AVG_POOL, x, **how, divisor=math.prod(kernel))
    else:
        out = x
        for axis, n, o in zip(axes, size, goal, strict=True):
            out = _mean_of_regions(out, axis, n, o)
    return out.squeeze(0) if unbatched else out


def mixable(x: Tensor, n: int) -> bool:
    """Tell whether a matrix may mix along an axis of length n: it multiplies also what it leaves out, by 0.

    That is fast for axes that are not too long, and right unless 0·inf or 0·nan is among it.
    """
    return n <= 2048 and certain(np.isfinite(x._data).all())


def mixed(x: Tensor, axis: int, weights: np.ndarray) -> Tensor:
    """Mix the elements along one axis by a matrix of weights (before, after)."""
    matrix = constant(weights.tolist(), x)
    if axis == x.ndim - 2:
        return matrix.swapaxes(0, 1) @ x
    return (x.swapaxes(axis, -1) @ matrix).swapaxes(axis, -1)


def _mean_of_regions(x: Tensor, axis: int, n: int, o: int) -> Tensor:
    if n == o:
        return x
    bounds = _region_bounds(n, o)
    if mixable(x, n):
        shares = np.zeros((n, o))
        for i, (a, b) in enumerate(bounds):
            shares[a:b, i] = 1 / (b - a)
        return mixed(x, axis, shares)
    # Regions differ in length by at most one or so: add up their first places, their second ones, ….
    rows = x.swapaxes(0, axis)  # an index on the first axis is the fast one
    longest = max(b - a for a, b in bounds)
    total: Any = 0
    for step in range(longest):
        taken = rows[constant([min(a + step, b - 1) for a, b in bounds], x, np.int64)]
        inside = constant([a + step < b for a, b in bounds], x, np.bool_)
        total = total + where(inside.reshape((-1,) + (1,) * (x.ndim - 1)), taken, 0.0)
    lengths = constant([b - a for a, b in bounds], x)
    return (total / lengths.reshape((-1,) + (1,) * (x.ndim - 1))).swapaxes(0, axis)


def adaptive_avg_pool1d(input: Any, output_size: Any) -> Tensor:
    """Return the means of `output_size` regions of (N, C, L), whatever L is.

    Region i goes from ⌊i·L/O⌋ to ⌈(i+1)·L/O⌉.

    >>> adaptive_avg_pool1d(minitorch.arange(6.0).reshape(1, 6), 2)
    tensor([[1., 4.]])
    """
    return _adaptive_avg_pool("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Tensor:
    """Return the means of O1 × O2 regions of (N, C, H, W); None keeps an axis. See adaptive_avg_pool1d.

    >>> adaptive_avg_pool2d(minitorch.arange(16.0).reshape(1, 4, 4), 1)
    tensor([[[7.5000]]])
    """
    return _adaptive_avg_pool("adaptive_avg_pool2d", 2, input, output_size)


def adaptive_avg_pool3d(input: Any, output_size: Any) -> Tensor:
    """Return the means of O1 × O2 × O3 regions of (N, C, D, H, W). See adaptive_avg_pool1d.

    >>> adaptive_avg_pool3d(minitorch.ones(1, 2, 5, 4, 3), (2, None, 1)).shape
    (1, 2, 2, 4, 1)
    """
    return _adaptive_avg_pool("adaptive_avg_pool3d", 3, input, output_size)


def _adaptive_max_pool(name: str, rank: int, input: Any, output_size: Any, return_indices: bool) -> Any:
    x, unbatched = with_batch(as_tensor(input), rank, name)
    size = tuple(x.shape[2:])
    goal = _goal(output_size, size, name)
    if all(o and n % o == 0 for n, o in zip(size, goal, strict=True)):
        kernel = tuple(n // o for n, o in zip(size, goal, strict=True))
        out = _max_pool(rank, x, kernel, return_indices=return_indices, _name="adaptive_max_pool")
    else:
        out = _max_of_regions(x, size, goal)
        out = out if return_indices else out[0]
    if not unbatched:
        return out
    return tuple(part.squeeze(0) for part in out) if return_indices else out.squeeze(0)


def _max_of_regions(x: Tensor, size: tuple[int, ...], goal: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    # Lay the regions out, each as long as the longest: a shorter one repeats its last place, which changes
    # neither the largest nor, since the first of equals is taken, where it is.
    rank = len(size)
    places: list[Any] = []
    for axis, (n, o) in enumerate(zip(size, goal, strict=True)):
        bounds = _region_bounds(n, o)
        longest = max((b - a for a, b in bounds), default=1)
        listed = [[min(a + i, b - 1) for i in range(longest)] for a, b in bounds]
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = o, longest
        places.append(constant(listed, x, np.int64).reshape(tuple(shape)))
    flat: Any = 0
    for n, along in zip(size, places, strict=True):
        flat = flat * n + along
    flat = flat.reshape((*goal, -1))  # (*goal, places of a region)
    regions = x.reshape((*x.shape[:2], -1))[:, :, flat]
    best = regions.max(axis=-1)
    spread = flat.broadcast_to((*x.shape[:2], *flat.shape))
    found = spread.gather(-1, best.indices.unsqueeze(-1)).squeeze(-1)
    return best.values, found


def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Return the largest of each of `output_size` regions of (N, C, L). See adaptive_avg_pool1d.

    >>> adaptive_max_pool1d(minitorch.arange(6.0).reshape(1, 6), 2)
    tensor([[2., 5.]])
    """
    return _adaptive_max_pool("adaptive_max_pool1d", 1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Return the largest of each of O1 × O2 regions of (N, C, H, W); None keeps an axis.

    >>> adaptive_max_pool2d(minitorch.arange(12.0).reshape(1, 3, 4), (1, None))
    tensor([[[ 8.,  9., 10., 11.]]])
    """
    return _adaptive_max_pool("adaptive_max_pool2d", 2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Return the largest of each of O1 × O2 × O3 regions of (N, C, D, H, W).

    >>> adaptive_max_pool3d(minitorch.ones(1, 2, 5, 4, 3), (2, None, 1)).shape
    (1, 2, 2, 4, 1)
    """
    return _adaptive_max_pool("adaptive_max_pool3d", 3, input, output_size, return_indices)


def adaptive_max_pool1d_with_indices(input: Any, output_size: Any) -> tuple[Tensor, Tensor]:
    """Return adaptive_max_pool1d and where each largest element is."""
    return _adaptive_max_pool("adaptive_max_pool1d", 1, input, output_size, True)


def adaptive_max_pool2d_with_indices(input: Any, output_size: Any) -> tuple[Tensor, Tensor]:
    """Return adaptive_max_pool2d and where each largest element is."""
    return _adaptive_max_pool("adaptive_max_pool2d", 2, input, output_size, True)


def adaptive_max_pool3d_with_indices(input: Any, output_size: Any) -> tuple[Tensor, Tensor]:
    """Return adaptive_max_pool3d and where each largest element is."""
    return _adaptive_max_pool("adaptive_max_pool3d", 3, input, output_size, True)


# --- max of windows at random distances -----------------------------------------------------------


def _fractional_max_pool(
    rank: int,
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    name = f"fractional_max_pool{rank}d"
    x, unbatched = with_batch(as_tensor(input), rank, name)
    size = tuple(x.shape[2:])
    kernel = sizes(kernel_size, rank, f"{name}: kernel_size")
    if output_size is None:
        if output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        ratios = tuple(output_ratio) if isinstance(output_ratio, (list, tuple)) else (output_ratio,) * rank
        output_size = tuple(int(n * ratio) for n, ratio in zip(size, ratios, strict=True))
    goal = sizes(output_size, rank, f"{name}: output_size")
    for n, o, k in zip(size, goal, kernel, strict=True):
        if o < 1 or o + k - 1 > n:
            raise RuntimeError(
                f"{name}: {o} windows of {k} do not fit an axis of {n}; output_size + kernel_size - 1 is at most that"
            )
    if _random_samples is None:
        samples = rand(*x.shape[:2], rank, dtype=x.dtype, device=x.device)
    else:
        samples = as_tensor(_random_samples).detach()
        if tuple(samples.shape) != (*x.shape[:2], rank):
            raise RuntimeError(
                f"{name}: _random_samples must have shape {(*x.shape[:2], rank)}, got {tuple(samples.shape)}"
            )
    flat: Any = 0  # the place of each element of each window in the flattened image: (N, C, *goal, *kernel)
    for axis, (n, o, k) in enumerate(zip(size, goal, kernel, strict=True)):
        drawn = samples[:, :, rank - 1 - axis if rank == 2 else axis].unsqueeze(-1)  # PyTorch's order
        along = [1] * (2 * rank)
        along[axis] = o
        starts = _starts(drawn, n, o, k).reshape(*x.shape[:2], *along)
        along[axis], along[rank + axis] = 1, k
        flat = flat * n + (starts + arange(k, device=x.device).reshape(along))
    flat = flat.reshape(*x.shape[:2], *goal, -1)
    windows = x.flatten(2).gather(2, flat.flatten(2)).reshape(flat.shape)
    best = windows.max(axis=-1)
    if not return_indices:
        return best.values.squeeze(0) if unbatched else best.values
    places = flat.gather(-1, best.indices.unsqueeze(-1)).squeeze(-1)
    return (best.values.squeeze(0), places.squeeze(0)) if unbatched else (best.values, places)


def _starts(drawn: Tensor, n: int, o: int, k: int) -> Tensor:
    """Return where o windows of k begin on an axis of n: steps of (n - k)/(o - 1), rounded from a random start."""
    last = drawn.new_full(drawn.shape, n - k).to(np.int64)
    if o == 1:
        return last
    numbers = arange(o - 1, device=drawn.device).to(drawn.dtype)
    step = (n - k) / (o - 1)
    begun = ((numbers + drawn) * step).to(np.int64) - (drawn * step).to(np.int64)
    return cat([begun, last], -1)


def fractional_max_pool2d(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """Return the largest of each window of (N, C, H, W); the windows begin at random, near-even distances.

    output_size: how many windows along each axis; or output_ratio: their number as a share of the axis.
    dx = g at the largest element, of equals the first; 0 elsewhere

    >>> fractional_max_pool2d(minitorch.ones(1, 2, 8, 8), 2, output_ratio=0.5).shape
    (1, 2, 4, 4)
    """
    return _fractional_max_pool(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


def fractional_max_pool3d(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """Return the largest of each window of (N, C, D, H, W); see fractional_max_pool2d.

    >>> fractional_max_pool3d(minitorch.ones(1, 2, 8, 8, 6), 2, output_size=(4, 3, 2)).shape
    (1, 2, 4, 3, 2)
    """
    return _fractional_max_pool(
        3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


def fractional_max_pool2d_with_indices(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return fractional_max_pool2d and where each largest element is."""
    return _fractional_max_pool(2, input, kernel_size, output_size, output_ratio, True, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return fractional_max_pool3d and where each largest element is."""
    return _fractional_max_pool(3, input, kernel_size, output_size, output_ratio, True, _random_samples)


# --- p-norm ---------------------------------------------------------------------------------------


def _lp_pool(
    rank: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Tensor:
    kernel = sizes(kernel_size, rank, f"lp_pool{rank}d: kernel_size")
    powers = as_tensor(input) ** norm_type
    means = _avg_pool(rank, powers, kernel, stride, ceil_mode=ceil_mode, _name="lp_pool")
    # A sum below 0 (an odd power of negative numbers) counts as 0, whose root has no slope: so is its gradient.
    return (sign(means) * abs(means).relu() * math.prod(kernel)) ** (1.0 / norm_type)


def lp_pool1d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """Return (Σ xᵖ)^(1/p) over each window of (N, C, L): p = 1 is the sum, p → ∞ the largest.

    >>> lp_pool1d(minitorch.tensor([[3.0, 4.0]]), 2, 2)
    tensor([[5.]])
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """Return (Σ xᵖ)^(1/p) over each window of (N, C, H, W). See lp_pool1d.

    >>> lp_pool2d(minitorch.ones(1, 2, 2), 2, 2)
    tensor([[[2.]]])
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """Return (Σ xᵖ)^(1/p) over each window of (N, C, D, H, W). See lp_pool1d.

    >>> lp_pool3d(minitorch.ones(1, 2, 2, 2), 1, 2)
    tensor([[[[8.]]]])
    """
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
