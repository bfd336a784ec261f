"""Image operations by name: Pillow images are changed by Pillow, Tensors (…, C, H, W) by Tensors.

Enters: an image and what to do. Leaves: a new image of the same kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch import creation
from minitorch.engine.dtypes import float32, get_default_dtype
from minitorch.tensor import Tensor
from minitorch.vision.images import (
    InterpolationMode,
    as_pair,
    dimensions,
    expect_image,
    is_pillow,
    is_tensor_image,
    mode_of,
    pillow,
)
from minitorch.vision.transforms import on_pillow, on_tensors

NEAREST, BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR


def get_dimensions(img: Any) -> list[int]:
    """Return channels, height and width."""
    return list(dimensions(img))


def get_image_size(img: Any) -> list[int]:
    """Return width and height."""
    _, height, width = dimensions(img)
    return [width, height]


def get_image_num_channels(img: Any) -> int:
    """Return the number of channels."""
    return dimensions(img)[0]


# --- from one kind to the other --------------------------------------------------------------------


def to_tensor(pic: Any) -> Tensor:
    """Return an image, or an array (H, W, C), as a Tensor (C, H, W); bytes become floats in [0, 1].

    >>> to_tensor(pillow("Image").new("L", (2, 1), 255))
    tensor([[[1., 1.]]])
    """
    if isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"to_tensor: expects (H, W) or (H, W, C), got {pic.ndim} axes")
        array = pic[:, :, None] if pic.ndim == 2 else pic
        image = creation.tensor(np.ascontiguousarray(array.transpose(2, 0, 1)))
        return image.to(get_default_dtype()).div(255) if array.dtype == np.uint8 else image
    if not is_pillow(pic):
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    array = _pixels(pic)
    image = creation.tensor(np.ascontiguousarray(array.transpose(2, 0, 1)))
    return image.to(get_default_dtype()).div(255) if array.dtype == np.uint8 else image


def _pixels(image: Any) -> np.ndarray:
    kind = {"I": np.int32, "I;16": np.int16, "I;16B": np.int16, "F": np.float32}.get(image.mode, np.uint8)
    array = np.array(image, dtype=kind, copy=True)
    array = array.reshape(image.size[1], image.size[0], len(image.getbands()))
    return 255 * array if image.mode == "1" else array


def pil_to_tensor(pic: Any) -> Tensor:
    """Return a Pillow image as a Tensor (C, H, W) of its own numbers."""
    if not is_pillow(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    array = np.array(pic, copy=True)
    array = array.reshape(pic.size[1], pic.size[0], len(pic.getbands()))
    return creation.tensor(np.ascontiguousarray(array.transpose(2, 0, 1)))


def convert_image_dtype(image: Tensor, dtype: Any = float32) -> Tensor:
    """Return a Tensor image in another dtype, its values stretched to that one's range."""
    if not isinstance(image, Tensor):
        raise TypeError("Input img should be Tensor Image")
    return on_tensors.convert_image_dtype(image, dtype)


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """Return a Tensor (C, H, W) or an array (H, W, C) as a Pillow image; floats are taken as in [0, 1].

    >>> to_pil_image(creation.zeros(3, 4, 5)).size
    (5, 4)
    """
    if isinstance(pic, Tensor):
        if pic.ndim == 2:
            pic = pic.unsqueeze(0)
        if pic.ndim != 3 or pic.shape[-3] > 4:
            raise ValueError(f"pic should be (C, H, W) with C ≤ 4 or (H, W), got shape {tuple(pic.shape)}")
        array = pic.detach().cpu().numpy()
        if array.dtype.kind == "f" and mode != "F":
            array = (array * 255).astype(np.uint8)
        array = array.transpose(1, 2, 0)
    elif isinstance(pic, np.ndarray):
        array = pic[:, :, None] if pic.ndim == 2 else pic
        if array.ndim != 3 or array.shape[-1] > 4:
            raise ValueError(f"pic should be (H, W) or (H, W, C) with C ≤ 4, got shape {pic.shape}")
    else:
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    channels = array.shape[2]
    if channels == 1:
        kinds = {np.dtype(np.uint8): "L", np.dtype(np.int16): "I;16", np.dtype(np.int32): "I"}
        own = kinds.get(array.dtype, "F" if array.dtype == np.float32 else None)
        if mode is not None and mode != own:
            raise ValueError(
                f"Incorrect mode ({mode}) supplied for input type {array.dtype}. Should be {own}"
            )
        allowed: tuple[Any, ...] = (own,)
        array = array[:, :, 0]
    else:
        allowed = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}[channels]
        own = allowed[0]
        if mode is not None and mode not in allowed:
            raise ValueError(f"Only modes {list(allowed)} are supported for {channels} channels, got {mode}")
    if own is None or (channels > 1 and array.dtype != np.uint8):
        raise TypeError(f"Input type {array.dtype} is not supported")
    image = pillow("Image").fromarray(np.ascontiguousarray(array))
    wanted = mode or own
    if image.mode == wanted:
        return image
    # The bytes are these channels already: they are read so, not converted.
    return pillow("Image").frombytes(wanted, image.size, np.ascontiguousarray(array).tobytes())


# --- shapes ----------------------------------------------------------------------------------------


def normalize(tensor: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """(x - mean) / std, channel by channel.

    >>> normalize(creation.ones(1, 1, 1), [0.5], [0.25])
    tensor([[[2.]]])
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    return on_tensors.normalize(tensor, mean, std, inplace)


def resized_size(height: int, width: int, size: Any, max_size: int | None = None) -> tuple[int, int]:
    """Return the height and width for `size`: one number is the shorter side's.

    >>> resized_size(100, 200, 50)
    (50, 100)
    """
    if not isinstance(size, int) and size is not None and len(size) == 2:
        if max_size is not None:
            raise ValueError(
                "max_size should only be passed if size specifies the length of the smaller edge"
            )
        return int(size[0]), int(size[1])
    short, long = sorted((width, height))
    if size is None:
        if not isinstance(max_size, int):
            raise ValueError(f"max_size must be an integer when size is None, but got {max_size} instead.")
        new_short, new_long = int(max_size * short / long), max_size
        return (new_long, new_short) if width <= height else (new_short, new_long)
    short_wanted = size if isinstance(size, int) else size[0]
    new_short, new_long = short_wanted, int(short_wanted * long / short)
    if max_size is not None:
        if max_size <= short_wanted:
            raise ValueError(
                f"max_size = {max_size} must be strictly greater than the requested size of the smaller edge, {size}"
            )
        if new_long > max_size:
            new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_long, new_short) if width <= height else (new_short, new_long)


def resize(
    img: Any,
    size: Any,
    interpolation: Any = BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """Return it larger or smaller: `size` is (height, width), or the shorter side's."""
    expect_image(img, "resize")
    _, height, width = dimensions(img)
    mode = mode_of(interpolation)
    wanted = resized_size(height, width, size, max_size)
    if wanted == (height, width):
        return img
    if is_pillow(img):
        return on_pillow.resize(img, wanted, mode)
    return on_tensors.resize(img, wanted, mode, bool(antialias))


def _sides(padding: Any) -> tuple[int, int, int, int]:
    if isinstance(padding, (int, float)):
        padding = [padding]
    padding = [int(p) for p in padding]
    if len(padding) not in (1, 2, 4):
        raise ValueError(
            f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple"
        )
    if len(padding) == 4:
        return tuple(padding)
    left, top = padding[0], padding[-1]
    return left, top, left, top


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """Add pixels around it: `padding` for all sides, for left and top as right and bottom, or for each of the four."""
    expect_image(img, "pad")
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    to = on_pillow if is_pillow(img) else on_tensors
    return to.pad(img, _sides(padding), fill, padding_mode)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """Return a part of it; what lies outside is black."""
    expect_image(img, "crop")
    to = on_pillow if is_pillow(img) else on_tensors
    return to.crop(img, top, left, height, width)


def center_crop(img: Any, output_size: Any) -> Any:
    """Return its middle; a smaller image is padded with 0 first."""
    wanted_h, wanted_w = as_pair(output_size)
    _, height, width = dimensions(img)
    if wanted_w > width or wanted_h > height:
        more_w, more_h = max(wanted_w - width, 0), max(wanted_h - height, 0)
        sides = [more_w // 2, more_h // 2, (more_w + 1) // 2, (more_h + 1) // 2]
        img = pad(img, sides, fill=0)
        _, height, width = dimensions(img)
        if (wanted_w, wanted_h) == (width, height):
            return img
    top, left = round((height - wanted_h) / 2.0), round((width - wanted_w) / 2.0)
    return crop(img, top, left, wanted_h, wanted_w)


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """Return a part of it, resized."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img: Any) -> Any:
    """Exchange left and right."""
    expect_image(img, "hflip")
    return on_pillow.hflip(img) if is_pillow(img) else img.flip(-1)


def vflip(img: Any) -> Any:
    """Exchange top and bottom."""
    expect_image(img, "vflip")
    return on_pillow.vflip(img) if is_pillow(img) else img.flip(-2)


def five_crop(img: Any, size: Any) -> tuple[Any, ...]:
    """Return the four corners and the middle."""
    h, w = as_pair(size)
    _, height, width = dimensions(img)
    if w > width or h > height:
        raise ValueError(f"Requested crop size {(h, w)} is bigger than input size {(height, width)}")
    corners = [(0, 0), (0, width - w), (height - h, 0), (height - h, width - w)]
    return (*(crop(img, top, left, h, w) for top, left in corners), center_crop(img, [h, w]))


def ten_crop(img: Any, size: Any, vertical_flip: bool = False) -> tuple[Any, ...]:
    """Return the five crops, and those of the flipped image."""
    return five_crop(img, size) + five_crop(vflip(img) if vertical_flip else hflip(img), size)


# --- colours ---------------------------------------------------------------------------------------


def _not_negative(factor: float, name: str) -> None:
    if factor < 0:
        raise ValueError(f"{name} ({factor}) is not non-negative.")


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Mix it with black: 0 gives black, 1 the image, 2 twice as bright."""
    _not_negative(brightness_factor, "brightness_factor")
    if is_pillow(img):
        return on_pillow.enhance("Brightness", img, brightness_factor)
    return on_tensors.adjust_brightness(img, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """Mix it with its mean gray."""
    _not_negative(contrast_factor, "contrast_factor")
    if is_pillow(img):
        return on_pillow.enhance("Contrast", img, contrast_factor)
    return on_tensors.adjust_contrast(img, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Mix it with its grays."""
    _not_negative(saturation_factor, "saturation_factor")
    if is_pillow(img):
        return on_pillow.enhance("Color", img, saturation_factor)
    return on_tensors.adjust_saturation(img, saturation_factor)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """Mix it with a blurred one."""
    _not_negative(sharpness_factor, "sharpness_factor")
    if is_pillow(img):
        return on_pillow.enhance("Sharpness", img, sharpness_factor)
    return on_tensors.adjust_sharpness(img, sharpness_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Turn the colours around their circle; 0.5 and -0.5 are half of it."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    return (on_pillow if is_pillow(img) else on_tensors).adjust_hue(img, hue_factor)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """gain·x^gamma, of values in [0, 1]."""
    _not_negative(gamma, "gamma")
    return (on_pillow if is_pillow(img) else on_tensors).adjust_gamma(img, gamma, gain)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Return a Pillow image without colour."""
    if not is_pillow(img):
        raise TypeError("Input should be PIL Image")
    return on_pillow.to_grayscale(img, num_output_channels)


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Return an image without colour, in 1 or 3 channels."""
    if is_pillow(img):
        return on_pillow.to_grayscale(img, num_output_channels)
    return on_tensors.rgb_to_grayscale(img, num_output_channels)


def invert(img: Any) -> Any:
    """Exchange black and white."""
    return on_pillow.operate("invert", img) if is_pillow(img) else on_tensors.invert(img)


def posterize(img: Any, bits: int) -> Any:
    """Keep the first bits of each byte."""
    if not 0 <= bits <= 8:
        raise ValueError(f"The number if bits should be between 0 and 8. Got {bits}")
    return on_pillow.operate("posterize", img, bits) if is_pillow(img) else on_tensors.posterize(img, bits)


def solarize(img: Any, threshold: float) -> Any:
    """Invert what is at least the threshold."""
    return (
        on_pillow.operate("solarize", img, threshold)
        if is_pillow(img)
        else on_tensors.solarize(img, threshold)
    )


def autocontrast(img: Any) -> Any:
    """Stretch each channel from black to white."""
    return on_pillow.operate("autocontrast", img) if is_pillow(img) else on_tensors.autocontrast(img)


def equalize(img: Any) -> Any:
    """Spread each channel's values so that all are about as frequent."""
    return on_pillow.operate("equalize", img) if is_pillow(img) else on_tensors.equalize(img)


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """Take means over neighbourhoods, weighted by a bell; without sigma its width follows from the kernel's size."""
    size = (
        [kernel_size] * 2
        if isinstance(kernel_size, int)
        else [int(k) for k in kernel_size] * (3 - len(kernel_size))
    )
    if any(k % 2 == 0 or k < 0 for k in size):
        raise ValueError(f"kernel_size should have odd and positive integers. Got {size}")
    if sigma is None:
        sigma = [k * 0.15 + 0.35 for k in size]
    sigma = (
        [float(sigma)] * 2
        if isinstance(sigma, (int, float))
        else [float(s) for s in sigma] * (3 - len(sigma))
    )
    if any(s <= 0 for s in sigma):
        raise ValueError(f"sigma should have positive values. Got {sigma}")
    if is_pillow(img):
        blurred = on_tensors.gaussian_blur(pil_to_tensor(img), size, sigma)
        return to_pil_image(blurred, mode=img.mode)
    expect_image(img, "gaussian_blur")
    return on_tensors.gaussian_blur(img, size, sigma)


# --- turned and moved --------------------------------------------------------------------------------


def _inverse_affine(
    center: Sequence[float], angle: float, translate: Sequence[float], scale: float, shear: Sequence[float]
) -> list[float]:
    """Return the inverse of: to the centre and back, turned, sheared, scaled and moved between."""
    turn = math.radians(angle)
    sx, sy = (math.radians(s) for s in shear)
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    matrix = [v / scale for v in (d, -b, 0.0, -c, a, 0.0)]
    x, y = -center[0] - translate[0], -center[1] - translate[1]
    matrix[2] += matrix[0] * x + matrix[1] * y + center[0]
    matrix[5] += matrix[3] * x + matrix[4] * y + center[1]
    return matrix


def rotate(
    img: Any,
    angle: float,
    interpolation: Any = NEAREST,
    expand: bool = False,
    center: Any = None,
    fill: Any = None,
) -> Any:
    """Turn it counter-clockwise, by degrees, around its middle or `center` (x, y)."""
    expect_image(img, "rotate")
    mode = mode_of(interpolation)
    if is_pillow(img):
        return on_pillow.rotate(img, angle, mode, expand, center, fill)
    _, height, width = dimensions(img)
    around = [0.0, 0.0] if center is None else [center[0] - width * 0.5, center[1] - height * 0.5]
    matrix = _inverse_affine(around, -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    return on_tensors.rotate(img, matrix, mode, expand, fill)


def affine(
    img: Any,
    angle: float,
    translate: Any,
    scale: float,
    shear: Any,
    interpolation: Any = NEAREST,
    fill: Any = None,
    center: Any = None,
) -> Any:
    """Turn (clockwise, by degrees), move, scale and shear it around its middle or `center`."""
    expect_image(img, "affine")
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    shear = [float(shear), 0.0] if isinstance(shear, (int, float)) else [float(s) for s in shear]
    shear = [shear[0], shear[0]] if len(shear) == 1 else shear
    mode = mode_of(interpolation)
    _, height, width = dimensions(img)
    if is_pillow(img):
        around = [width * 0.5, height * 0.5] if center is None else list(center)
        matrix = _inverse_affine(around, angle, list(translate), scale, shear)
        return on_pillow.affine(img, matrix, mode, fill)
    around = [0.0, 0.0] if center is None else [center[0] - width * 0.5, center[1] - height * 0.5]
    moved = [1.0 * t for t in translate]
    return on_tensors.affine(img, _inverse_affine(around, angle, moved, scale, shear), mode, fill)


def perspective(
    img: Any, startpoints: Any, endpoints: Any, interpolation: Any = BILINEAR, fill: Any = None
) -> Any:
    """Look at it so that the four startpoints come to lie at the endpoints."""
    expect_image(img, "perspective")
    rows = []
    for (x, y), (u, v) in zip(endpoints, startpoints, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    wanted = np.array(startpoints, dtype=np.float64).reshape(8)
    solved = np.linalg.lstsq(np.array(rows, dtype=np.float64), wanted, rcond=None)[0]
    coefficients = [float(c) for c in solved.astype(np.float32)]
    mode = mode_of(interpolation)
    to = on_pillow if is_pillow(img) else on_tensors
    return to.perspective(img, coefficients, mode, fill)


def elastic_transform(img: Any, displacement: Tensor, interpolation: Any = BILINEAR, fill: Any = None) -> Any:
    """Move each pixel by a displacement (1, H, W, 2), given in parts of the half image."""
    expect_image(img, "elastic_transform")
    image = pil_to_tensor(img) if is_pillow(img) else img
    wanted = (1, *image.shape[-2:], 2)
    if tuple(displacement.shape) != wanted:
        raise ValueError(
            f"Argument displacement shape should be {wanted}, but given {tuple(displacement.shape)}"
        )
    out = on_tensors.elastic(image, displacement, mode_of(interpolation), fill)
    return to_pil_image(out, mode=img.mode) if is_pillow(img) else out


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Tensor:
    """Write a value over a part of a Tensor image."""
    if not is_tensor_image(img):
        raise TypeError(f"img should be Tensor Image. Got {type(img)}")
    return on_tensors.erase(img, i, j, h, w, v, inplace)
