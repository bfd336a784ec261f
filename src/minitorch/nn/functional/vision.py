"""Images at other sizes and places: interpolate, pixel_shuffle, pad, grid_sample.

Enters: Tensors (N, C, d1, …). Leaves: Tensors whose elements are weighted sums of a few of theirs.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from minitorch.engine.dtypes import kind_of
from minitorch.engine.record import apply
from minitorch.functions import pad, where
from minitorch.nn.functional.conv import constant
from minitorch.nn.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    mixable,
    mixed,
)
from minitorch.ops.pool import AVG_UNPOOL
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor
from minitorch.tensor.precision import in_float32

__all__ = [
    "affine_grid", "channel_shuffle", "grid_sample", "interpolate", "pad", "pixel_shuffle", "pixel_unshuffle",
    "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip

# Along one axis: for each place of the result the places it is made of, and their weights. A list of
# (places, weights) pairs, one pair per neighbour.
Neighbours = list[tuple[np.ndarray, np.ndarray]]

_RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
_ANY_RANK = ("nearest", "nearest-exact", "area")
_CUBIC = -0.75  # the slope parameter of the cubic kernel


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Make images larger or smaller: (N, C, d1, …) to `size`, or by `scale_factor`.

    mode: 'nearest' and 'nearest-exact' copy; 'linear' (one axis), 'bilinear' (two), 'trilinear' (three) and
    'bicubic' mix neighbours; 'area' takes means. align_corners: whether the outermost elements' centres, rather
    than their outer edges, stay in place.
    antialias: when shrinking, let each result see all that it stands for ('bilinear' and 'bicubic').
    dx: each g goes to the elements it was mixed from, by the same weights

    >>> x = minitorch.tensor([[[1.0, 2.0]]])
    >>> interpolate(x, scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    >>> interpolate(x, size=4, mode="linear")
    tensor([[[1.0000, 1.2500, 1.7500, 2.0000]]])
    """
    x = as_tensor(input)
    rank = x.ndim - 2
    _check_mode(x, mode, align_corners, antialias)
    goal, factors = _goal(x, size, scale_factor, mode, recompute_scale_factor)
    if mode != "area" and any(n < 1 for n in (*x.shape[2:], *goal)):
        raise RuntimeError(
            f"interpolate: input and output sizes must be positive, got {tuple(x.shape[2:])} and {goal}"
        )
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[rank - 1](x, goal)
    copies = _copies(x, goal, factors, mode)
    if copies is not None:
        # Each element becomes a block of itself: what average pooling's backward does, without dividing.
        border = ((0, 0),) * rank
        return apply(AVG_UNPOOL, x, size=goal, kernel=copies, stride=copies, padding=border, divisor=1)
    out = x
    for i, (n, o) in enumerate(zip(x.shape[2:], goal, strict=True)):
        factor = None if factors is None else factors[i]
        out = _along(out, i + 2, n, o, factor, mode, bool(align_corners), antialias)
    return out


def _check_mode(x: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if mode not in _ANY_RANK and mode not in _RANKS:
        raise NotImplementedError(f"interpolate: mode must be one of {(*_ANY_RANK, *_RANKS)}, got {mode!r}")
    if not 3 <= x.ndim <= 5:
        raise NotImplementedError(
            f"interpolate: expected (N, C, L), (N, C, H, W) or (N, C, D, H, W), got shape {tuple(x.shape)}"
        )
    if mode in _RANKS and _RANKS[mode] != x.ndim - 2:
        fitting = [m for m, rank in _RANKS.items() if rank == x.ndim - 2]
        raise NotImplementedError(
            f"interpolate: mode {mode!r} works on {_RANKS[mode] + 2}D input, got shape {tuple(x.shape)}; "
            f"for it write one of {(*_ANY_RANK, *fitting)}"
        )
    if mode in _ANY_RANK and align_corners is not None:
        raise ValueError(f"interpolate: align_corners has no meaning with mode {mode!r}; leave it away")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError("interpolate: antialias is offered with mode 'bilinear' and 'bicubic' only")
    if mode in _RANKS and kind_of(x.dtype) != "f":
        raise NotImplementedError(f"interpolate: mode {mode!r} needs floating-point input, got {x.dtype}")


def _goal(
    x: Tensor, size: Any, scale_factor: Any, mode: str, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    """Return the size to make, and the factors that place the results where they differ from its ratio."""
    rank = x.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give either size or scale_factor, and not both")
    if size is not None:
        if recompute:
            raise ValueError("interpolate: recompute_scale_factor has no meaning with an explicit size")
        goal = tuple(int(n) for n in size) if isinstance(size, (tuple, list)) else (int(size),) * rank
        if len(goal) != rank:
            raise ValueError(
                f"interpolate: input of shape {tuple(x.shape)} has {rank} axes to resize, got size {size}"
            )
        return goal, None
    many = isinstance(scale_factor, (tuple, list))
    factors = tuple(float(f) for f in scale_factor) if many else (float(scale_factor),) * rank
    if len(factors) != rank:
        raise ValueError(
            f"interpolate: input of shape {tuple(x.shape)} has {rank} axes to resize, got scale_factor "
            f"{scale_factor}"
        )
    # (A whole factor as an int: then a compiled function's sizes may vary.)
    goal = tuple(
        n * int(f) if f.is_integer() else math.floor(float(n) * f)
        for n, f in zip(x.shape[2:], factors, strict=True)
    )
    return goal, None if recompute or mode == "area" else factors


def _along(
    x: Tensor, axis: int, n: int, o: int, factor: float | None, mode: str, corners: bool, antialias: bool
) -> Tensor:
    """Resize one axis from n to o."""
    step = n / o if factor is None or factor <= 0 else 1 / factor  # how far apart are the results, in x?
    if mode in ("nearest", "nearest-exact"):
        if mode == "nearest" and x.ndim == 4 and o in (n, 2 * n):
            # As PyTorch: once or twice each wherever that gives the size, also when the factor is not quite that.
            return _take(x, axis, np.arange(o) // (o // n))
        return _take(x, axis, _nearest(n, o, step, 0.5 if mode == "nearest-exact" else 0.0, x.dtype))
    if antialias:
        return mixed(x, axis, _antialiased(n, o, step, mode, corners).T)
    if n == o and (step == 1.0 or corners):
        return x
    ends = (n - 1) / (o - 1) if o > 1 else 0.0
    centres = np.arange(o) * ends if corners else (np.arange(o) + 0.5) * step - 0.5
    neighbours = _cubic(n, centres) if mode == "bicubic" else _linear(n, centres)
    if mixable(x, n):
        matrix = np.zeros((n, o))
        for places, weights in neighbours:
            np.add.at(matrix, (places, np.arange(o)), weights)
        return mixed(x, axis, matrix)
    shape = (-1,) + (1,) * (x.ndim - 1)
    rows = x.swapaxes(0, axis)  # an index on the first axis is the fast one
    out: Any = 0
    for places, weights in neighbours:
        out = out + rows[constant(places.tolist(), x, np.int64)] * constant(weights.tolist(), x).reshape(
            shape
        )
    return out.swapaxes(0, axis)


def _copies(
    x: Tensor, goal: tuple[int, ...], factors: tuple[float, ...] | None, mode: str
) -> tuple[int, ...] | None:
    """Return how often each element is copied along each axis, where that is a whole number of times."""
    if mode not in ("nearest", "nearest-exact"):
        return None
    if factors is not None:
        return tuple(map(int, factors)) if all(f.is_integer() for f in factors) else None
    sizes = list(zip(x.shape[2:], goal, strict=True))
    return None if any(o % n for n, o in sizes) else tuple(o // n for n, o in sizes)


def _take(x: Tensor, axis: int, places: np.ndarray) -> Tensor:
    return x.swapaxes(0, axis)[constant(places.tolist(), x, np.int64)].swapaxes(0, axis)


def _nearest(n: int, o: int, step: float, offset: float, dtype: Any) -> np.ndarray:
    # In float32 unless the data is float64, as PyTorch does: rounding decides at whole numbers.
    kind = np.float64 if dtype == np.float64 else np.float32
    places = np.floor(((np.arange(o) + kind(offset)) * kind(step)).astype(np.float32))
    return np.minimum(places.astype(np.int64), n - 1)


def _linear(n: int, centres: np.ndarray) -> Neighbours:
    inside = np.maximum(centres, 0.0)
    left = np.minimum(np.floor(inside).astype(np.int64), n - 1)
    right = np.minimum(left + 1, n - 1)
    share = np.clip(inside - left, 0.0, 1.0)
    return [(left, 1 - share), (right, share)]


def _cubic(n: int, centres: np.ndarray) -> Neighbours:
    first = np.floor(centres)
    share = centres - first
    return [
        (np.clip(first + k, 0, n - 1).astype(np.int64), _cubic_weight(np.abs(share - k)))
        for k in (-1, 0, 1, 2)
    ]


def _cubic_weight(distance: Any, a: float = _CUBIC) -> Any:
    """The cubic convolution kernel: 1 at 0, 0 at 1 and 2, smooth between, with slope `a` at 1."""
    return np.where(distance <= 1, _cubic_near(distance, a), _cubic_far(distance, a))


def _cubic_near(distance: Any, a: float = _CUBIC) -> Any:
    return ((a + 2) * distance - (a + 3)) * distance * distance + 1


def _cubic_far(distance: Any, a: float = _CUBIC) -> Any:
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a


def _antialiased(n: int, o: int, step: float, mode: str, corners: bool) -> np.ndarray:
    """Return the weights (o, n) of a kernel widened to what each result stands for."""
    if corners:
        step = (n - 1) / (o - 1) if o > 1 else 0.0
    wide = max(step, 1.0)
    reach = (2.0 if mode == "bicubic" else 1.0) * wide
    weights = np.zeros((o, n))
    for i in range(o):
        centre = step * (i + 0.5)
        start, end = max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), n)
        distance = np.abs((np.arange(start, end) - centre + 0.5) / wide)
        if mode == "bicubic":
            found = np.where(distance < 2, _cubic_weight(distance, -0.5), 0.0)
        else:
            found = np.maximum(1 - distance, 0.0)
        weights[i, start:end] = found / found.sum()
    return weights


def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None
) -> Tensor:
    """Do what interpolate does, by its older name.

    >>> upsample(minitorch.ones(1, 1, 2), scale_factor=2).shape
    (1, 1, 4)
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Return interpolate with mode 'nearest'.

    >>> upsample_nearest(minitorch.ones(1, 1, 2, 2), 3).shape
    (1, 1, 3, 3)
    """
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Return interpolate with mode 'bilinear' and align_corners=True.

    >>> upsample_bilinear(minitorch.ones(1, 1, 2, 2), 3).shape
    (1, 1, 3, 3)
    """
    return interpolate(input, size, scale_factor, "bilinear", True)


# --- channels and pixels --------------------------------------------------------------------------


def _images(input: Any, name: str) -> Tensor:
    x = as_tensor(input)
    if x.ndim < 3:
        raise RuntimeError(f"{name}: expected (…, C, H, W), got shape {tuple(x.shape)}")
    return x


def _positive(factor: Any, name: str) -> int:
    if int(factor) < 1:
        raise RuntimeError(f"{name} must be positive, got {factor}")
    return int(factor)


def pixel_shuffle(input: Any, upscale_factor: int) -> Tensor:
    """Make r² channels one channel at r times the resolution: (…, C·r², H, W) gives (…, C, H·r, W·r).

    >>> pixel_shuffle(minitorch.arange(4.0).reshape(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    x, r = _images(input, "pixel_shuffle"), _positive(upscale_factor, "pixel_shuffle: upscale_factor")
    *lead, c, h, w = x.shape
    if c % (r * r):
        raise RuntimeError(
            f"pixel_shuffle: {c} channels of shape {tuple(x.shape)} are not divisible by upscale_factor² = {r * r}"
        )
    k = len(lead)
    parts = x.reshape((*lead, c // (r * r), r, r, h, w))
    order = (*range(k), k, k + 3, k + 1, k + 4, k + 2)  # (…, C, H, r, W, r)
    return parts.permute(order).reshape((*lead, c // (r * r), h * r, w * r))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Tensor:
    """Make r × r pixels r² channels: (…, C, H·r, W·r) gives (…, C·r², H, W). Undoes pixel_shuffle.

    >>> pixel_unshuffle(minitorch.arange(4.0).reshape(1, 2, 2), 2).reshape(-1)
    tensor([0., 1., 2., 3.])
    """
    x, r = _images(input, "pixel_unshuffle"), _positive(downscale_factor, "pixel_unshuffle: downscale_factor")
    *lead, c, h, w = x.shape
    if h % r or w % r:
        raise RuntimeError(
            f"pixel_unshuffle: height and width of shape {tuple(x.shape)} are not divisible by downscale_factor = {r}"
        )
    k = len(lead)
    parts = x.reshape((*lead, c, h // r, r, w // r, r))
    order = (*range(k), k, k + 2, k + 4, k + 1, k + 3)  # (…, C, r, r, H, W)
    return parts.permute(order).reshape((*lead, c * r * r, h // r, w // r))


def channel_shuffle(input: Any, groups: int) -> Tensor:
    """Deal the channels of (N, C, …) out again: one of each group in turn.

    >>> channel_shuffle(minitorch.arange(4.0).reshape(1, 4, 1), 2).reshape(-1)
    tensor([0., 2., 1., 3.])
    """
    x = as_tensor(input)
    if x.ndim < 3:
        raise RuntimeError(
            f"channel_shuffle: expected (N, C, …) with 3 axes or more, got shape {tuple(x.shape)}"
        )
    if groups < 1 or x.shape[1] % groups:
        raise RuntimeError(
            f"channel_shuffle: {x.shape[1]} channels of shape {tuple(x.shape)} are not divisible by groups = {groups}"
        )
    n, c, *rest = x.shape
    return x.reshape((n, groups, c // groups, *rest)).swapaxes(1, 2).reshape(tuple(x.shape))


# --- sampling at any place ------------------------------------------------------------------------


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Tensor:
    """Return where each output pixel looks, under affine maps theta (N, 2, 3): (N, H, W, 2), for grid_sample.

    Places are (x, y) from -1 to 1 across the image; for volumes theta is (N, 3, 4) and places are (x, y, z).

    >>> affine_grid(minitorch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2), align_corners=True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    maps = as_tensor(theta)
    corners = _said(align_corners, "affine_grid")
    spatial = tuple(int(n) for n in size)[2:]
    rank = len(spatial)
    if kind_of(maps.dtype) != "f":
        raise ValueError(f"affine_grid: theta must be floating-point, got {maps.dtype}")
    if rank not in (2, 3) or maps.ndim != 3 or tuple(maps.shape[1:]) != (rank, rank + 1):
        raise ValueError(
            "affine_grid: expected theta (N, 2, 3) with size (N, C, H, W), or (N, 3, 4) with (N, C, D, H, W); got "
            f"theta of shape {tuple(maps.shape)} and size {tuple(size)}"
        )
    if min(tuple(size)) < 1:
        raise ValueError(f"affine_grid: expected positive sizes, got {tuple(size)}")
    axes = []
    for n in spatial:
        places = np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
        axes.append(places if corners else places * (n - 1) / n)
    mesh = np.meshgrid(*axes, indexing="ij")[::-1]  # x first, then y
    base = np.stack([*mesh, np.ones_like(mesh[0])], axis=-1).reshape(-1, rank + 1)
    placed = constant(base.tolist(), maps) @ maps.swapaxes(1, 2)  # (N, places, rank)
    return placed.reshape((maps.shape[0], *spatial, rank))


def _said(align_corners: bool | None, name: str) -> bool:
    if align_corners is None:
        warnings.warn(
            f"{name}: align_corners defaults to False; write align_corners=True or False to say which is meant",
            stacklevel=3,
        )
        return False
    return align_corners


@in_float32
def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Sample images (N, C, H, W) at the places of a grid (N, H′, W′, 2): (N, C, H′, W′).

    Places are (x, y) from -1 to 1 across the image; volumes (N, C, D, H, W) take (x, y, z).
    mode: 'bilinear', 'nearest', or 'bicubic' (images only). padding_mode: what is outside, 'zeros', 'border'
    (the nearest edge) or 'reflection'. Differentiable in the images and, but for 'nearest', in the places.

    >>> image = minitorch.tensor([[[[0.0, 10.0]]]])
    >>> grid_sample(image, minitorch.tensor([[[[0.5, 0.0]]]]), align_corners=True)
    tensor([[[[7.5000]]]])
    """
    x, at = as_tensor(input), as_tensor(grid)
    corners = _said(align_corners, "grid_sample")
    rank = x.ndim - 2
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(f"grid_sample: mode must be 'bilinear', 'nearest' or 'bicubic', got {mode!r}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            f"grid_sample: padding_mode must be 'zeros', 'border' or 'reflection', got {padding_mode!r}"
        )
    if rank not in (2, 3) or at.ndim != x.ndim or at.shape[0] != x.shape[0] or at.shape[-1] != rank:
        raise RuntimeError(
            "grid_sample: expected input (N, C, H, W) with grid (N, H′, W′, 2), or (N, C, D, H, W) with "
            f"(N, D′, H′, W′, 3); got {tuple(x.shape)} and {tuple(at.shape)}"
        )
    if mode == "bicubic" and rank == 3:
        raise RuntimeError("grid_sample: mode 'bicubic' works on images (N, C, H, W) only")
    if x.dtype != at.dtype:
        raise RuntimeError(f"grid_sample: input and grid must have one dtype, got {x.dtype} and {at.dtype}")
    if min(x.shape[2:]) < 1:
        raise RuntimeError(f"grid_sample: cannot sample from an image of shape {tuple(x.shape)}")
    sampler = _Sampler(x, padding_mode, corners)
    # Grid columns are x, y, z: the last axis first.
    centres = [_unnormalised(at[..., rank - 1 - i], n, corners) for i, n in enumerate(x.shape[2:])]
    if mode == "nearest":
        return sampler.pick([sampler.bring_in(c, i).round() for i, c in enumerate(centres)])
    if mode == "bilinear":
        return sampler.mix([_two(sampler.bring_in(c, i)) for i, c in enumerate(centres)])
    return sampler.mix([_four(c) for c in centres], bring_in=True)


def _unnormalised(places: Tensor, n: int, corners: bool) -> Tensor:
    return (places + 1) * ((n - 1) / 2) if corners else ((places + 1) * n - 1) / 2


def _two(centre: Tensor) -> list[tuple[Tensor, Tensor]]:
    first = centre.detach().floor()
    share = centre - first
    return [(first, 1 - share), (first + 1, share)]


def _four(centre: Tensor) -> list[tuple[Tensor, Tensor]]:
    first = centre.detach().floor()
    share = centre - first
    weights = (_cubic_far(share + 1), _cubic_near(share), _cubic_near(1 - share), _cubic_far(2 - share))
    return [(first + k, weight) for k, weight in zip((-1, 0, 1, 2), weights, strict=True)]


class _Sampler:
    """Takes elements of images at whole-numbered places, which may lie outside."""

    def __init__(self, x: Tensor, padding_mode: str, corners: bool) -> None:
        self.size = tuple(x.shape[2:])
        self.lead = tuple(x.shape[:2])
        self.flat = x.reshape((*self.lead, math.prod(self.size)))
        self.padding_mode, self.corners = padding_mode, corners

    def bring_in(self, places: Tensor, axis: int) -> Tensor:
        """Move places outside to where the padding mode finds them; zeros are dealt with in `pick`."""
        n = self.size[axis]
        if self.padding_mode == "border":
            return places.clamp(0, n - 1)
        if self.padding_mode == "reflection":
            low, high = (0.0, n - 1.0) if self.corners else (-0.5, n - 0.5)
            span = high - low
            if span == 0:
                return places * 0
            distance = (places - low).abs()
            turns = (distance.detach() / span).floor()
            rest = distance - turns * span
            even = turns % 2 == 0
            return where(even, rest + low, high - rest).clamp(0, n - 1)
        return places

    def pick(self, places: list[Tensor], bring_in: bool = False) -> Tensor:
        """Return the elements (N, C, …) at one place per output element, zero outside."""
        index: Any = 0
        inside: Any = True
        for axis, (along, n) in enumerate(zip(places, self.size, strict=True)):
            found = self.bring_in(along, axis) if bring_in else along
            found = found.detach()
            inside = (found >= 0) & (found <= n - 1) & inside
            # nan is nowhere: not inside, and any index will do.
            index = index * n + where(found == found, found.clamp(0, n - 1), 0.0).to(np.int64)
        shape = tuple(index.shape)  # (N, …)
        index = index.reshape((shape[0], 1, -1)).broadcast_to((*self.lead, math.prod(shape[1:])))
        taken = self.flat.gather(-1, index).reshape((*self.lead, *shape[1:]))
        if self.padding_mode != "zeros":
            return taken
        return where(inside.unsqueeze(1), taken, 0.0)

    def mix(self, neighbours: list[list[tuple[Tensor, Tensor]]], bring_in: bool = False) -> Tensor:
        """Add up the elements at all combinations of neighbours, weighted."""
        total: Any = 0
        for choice in np.ndindex(*(len(each) for each in neighbours)):
            chosen = [each[k] for each, k in zip(neighbours, choice, strict=True)]
            weight: Any = 1
            for _, share in chosen:
                weight = weight * share
            total = total + self.pick([place for place, _ in chosen], bring_in) * weight.unsqueeze(1)
        return total
