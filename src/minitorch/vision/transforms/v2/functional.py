"""The functions under the second version's names. Enters: an image and what to do. Leaves: a new image."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.creation import tensor
from minitorch.engine.dtypes import float32
from minitorch.tensor import Tensor
from minitorch.vision.images import is_pillow
from minitorch.vision.images import is_tensor_image as is_pure_tensor
from minitorch.vision.transforms.functional import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    adjust_sharpness,
    affine,
    autocontrast,
    center_crop,
    convert_image_dtype,
    crop,
    elastic_transform,
    equalize,
    erase,
    five_crop,
    gaussian_blur,
    get_dimensions,
    get_image_num_channels,
    get_image_size,
    hflip,
    invert,
    normalize,
    pad,
    perspective,
    pil_to_tensor,
    posterize,
    resize,
    resized_crop,
    rgb_to_grayscale,
    rotate,
    solarize,
    ten_crop,
    to_pil_image,
    to_tensor,
    vflip,
)

horizontal_flip, vertical_flip = hflip, vflip
elastic = elastic_transform
to_grayscale = rgb_to_grayscale
get_num_channels, get_size = get_image_num_channels, get_image_size


def is_image(inpt: Any) -> bool:
    """Tell whether something can become an image: Pillow's, a Tensor, an array."""
    return is_pillow(inpt) or is_pure_tensor(inpt) or isinstance(inpt, np.ndarray)


def to_image(inpt: Any) -> Tensor:
    """Return a Pillow image or an array (H, W, C) as a Tensor (C, H, W) of its own numbers."""
    if isinstance(inpt, Tensor):
        return inpt
    if isinstance(inpt, np.ndarray):
        array = np.atleast_3d(inpt)
        return tensor(np.ascontiguousarray(array.transpose(2, 0, 1)))
    return pil_to_tensor(inpt)


def to_dtype(inpt: Tensor, dtype: Any = float32, scale: bool = False) -> Tensor:
    """Return it in another dtype; with `scale`, values stretched to its range."""
    return convert_image_dtype(inpt, dtype) if scale else inpt.to(dtype)


__all__ = [
    "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation", "adjust_sharpness",
    "affine", "autocontrast", "center_crop", "convert_image_dtype", "crop", "equalize", "erase", "five_crop",
    "gaussian_blur", "get_dimensions", "get_image_num_channels", "get_image_size", "get_num_channels", "get_size",
    "hflip", "horizontal_flip", "invert", "is_image", "is_pure_tensor", "normalize", "pad", "perspective",
    "pil_to_tensor", "posterize", "resize", "resized_crop", "rgb_to_grayscale", "rotate", "solarize", "ten_crop",
    "to_dtype", "to_grayscale", "to_image", "to_pil_image", "to_tensor", "vertical_flip", "vflip",
]  # fmt: skip
