"""Pictures of pictures. Enters: images (N, C, H, W). Leaves: one image, or a file of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch.engine.modes import no_grad
from minitorch.functions import cat, stack
from minitorch.tensor import Tensor
from minitorch.vision.images import pillow


def make_grid(
    tensor: Any,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
    **options: Any,
) -> Tensor:
    """Images side by side, `nrow` in a row, in one image (C, H, W).

    normalize: stretch values to [0, 1], from value_range or from the smallest and largest there are; scale_each:
    of each image by itself.

    >>> make_grid(minitorch.zeros(5, 1, 4, 6), nrow=3, padding=1).shape
    (3, 11, 22)
    """
    if not isinstance(tensor, Tensor) and not (
        isinstance(tensor, list) and all(isinstance(t, Tensor) for t in tensor)
    ):
        raise TypeError(f"tensor or list of tensors expected, got {type(tensor)}")
    with no_grad():
        images = stack(tensor, dim=0) if isinstance(tensor, list) else tensor
        if images.dim() == 2:
            images = images.unsqueeze(0)
        if images.dim() == 3:
            images = cat((images, images, images), 0) if images.size(0) == 1 else images
            images = images.unsqueeze(0)
        if images.dim() == 4 and images.size(1) == 1:
            images = cat((images, images, images), 1)
        if normalize:
            if value_range is not None and not isinstance(value_range, tuple):
                raise TypeError(
                    "value_range has to be a tuple (min, max) if specified. min and max are numbers"
                )
            images = (
                stack([_stretched(i, value_range) for i in images])
                if scale_each
                else _stretched(images, value_range)
            )
        if images.size(0) == 1:
            return images.squeeze(0)
        count, channels = images.size(0), images.size(1)
        across = min(nrow, count)
        down = math.ceil(count / across)
        height, width = images.size(2) + padding, images.size(3) + padding
        grid = images.new_full((channels, height * down + padding, width * across + padding), pad_value)
        for i in range(count):
            top, left = i // across * height + padding, i % across * width + padding
            grid[:, top : top + height - padding, left : left + width - padding] = images[i]
        return grid


def _stretched(image: Tensor, value_range: tuple[float, float] | None) -> Tensor:
    low, high = value_range or (float(image.min()), float(image.max()))
    return image.clone().clamp(min=low, max=high).sub(low).div(max(high - low, 1e-5))


def save_image(tensor: Any, fp: Any, format: str | None = None, **options: Any) -> None:
    """Write images, side by side as by make_grid, to a file; values lie in [0, 1]."""
    with no_grad():
        grid = make_grid(tensor, **options)
        pixels = grid.mul(255).add(0.5).clamp(min=0, max=255).permute(1, 2, 0).to(np.uint8)
    pillow("Image").fromarray(np.ascontiguousarray(pixels.numpy())).save(fp, format=format)
