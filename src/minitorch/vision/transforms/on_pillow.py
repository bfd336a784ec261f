"""Image operations on Pillow images. Enters: a Pillow image. Leaves: a new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.vision.images import TO_PILLOW, InterpolationMode, pillow


def resize(image: Any, size: tuple[int, int], mode: InterpolationMode) -> Any:
    """Return it with this height and width."""
    return image.resize((size[1], size[0]), TO_PILLOW[mode])


def crop(image: Any, top: int, left: int, height: int, width: int) -> Any:
    """Return a part of it; what lies outside is black."""
    return image.crop((left, top, left + width, top + height))


def hflip(image: Any) -> Any:
    """Exchange left and right."""
    return image.transpose(pillow("Image").Transpose.FLIP_LEFT_RIGHT)


def vflip(image: Any) -> Any:
    """Exchange top and bottom."""
    return image.transpose(pillow("Image").Transpose.FLIP_TOP_BOTTOM)


def fill_of(image: Any, fill: Any) -> Any:
    """Return a fill colour with a number for each band."""
    bands = len(image.getbands())
    if fill is None:
        fill = 0
    if isinstance(fill, (int, float)) and bands > 1:
        return tuple([fill] * bands)
    if isinstance(fill, (list, tuple)):
        if len(fill) == 1:
            return tuple(list(fill) * bands) if bands > 1 else fill[0]
        if len(fill) != bands:
            raise ValueError(f"fill has {len(fill)} numbers, but the image {bands} bands")
        return tuple(int(f) for f in fill) if image.mode != "F" else tuple(fill)
    return int(fill) if image.mode not in ("F", "RGB", "RGBA") and not isinstance(fill, str) else fill


def pad(image: Any, sides: tuple[int, int, int, int], fill: Any, mode: str) -> Any:
    """Add pixels at left, top, right and bottom."""
    if mode == "constant":
        colour = fill_of(image, fill)
        if image.mode == "P":
            palette = image.getpalette()
            padded = pillow("ImageOps").expand(image, border=sides, fill=colour)
            padded.putpalette(palette)
            return padded
        return pillow("ImageOps").expand(image, border=sides, fill=colour)
    left, top, right, bottom = sides
    if min(sides) < 0:  # crop first
        image = image.crop(
            (
                -min(left, 0),
                -min(top, 0),
                image.width + min(right, 0),
                image.height + min(bottom, 0),
            )
        )
        left, top, right, bottom = (max(side, 0) for side in sides)
    array = np.asarray(image)
    around = ((top, bottom), (left, right), (0, 0))[: array.ndim]
    padded = pillow("Image").fromarray(np.pad(array, around, mode=mode))  # type: ignore[call-overload]
    if image.mode == "P":
        padded.putpalette(image.getpalette())
    return padded


def enhance(kind: str, image: Any, factor: float) -> Any:
    """Brightness, Contrast, Color or Sharpness, by a factor."""
    return getattr(pillow("ImageEnhance"), kind)(image).enhance(factor)


def adjust_hue(image: Any, factor: float) -> Any:
    """Turn the colours around their circle, 0.5 being half of it."""
    if image.mode in {"L", "1", "I", "F"}:
        return image
    h, s, v = image.convert("HSV").split()
    turned = np.array(h, dtype=np.uint8) + np.int32(factor * 255).astype(np.uint8)
    merged = pillow("Image").merge("HSV", (pillow("Image").fromarray(turned), s, v))
    return merged.convert(image.mode)


def adjust_gamma(image: Any, gamma: float, gain: float) -> Any:
    """255·gain·(x / 255)^gamma."""
    table = [int((255 + 1 - 1e-3) * gain * pow(x / 255.0, gamma)) for x in range(256)] * 3
    changed = image.convert("RGB").point(table)
    return changed.convert(image.mode)


def affine(image: Any, matrix: Sequence[float], mode: InterpolationMode, fill: Any) -> Any:
    """Move each pixel by the inverse of an affine map."""
    kind = pillow("Image").Transform.AFFINE
    return image.transform(image.size, kind, matrix, TO_PILLOW[mode], fillcolor=fill_of(image, fill))


def rotate(image: Any, angle: float, mode: InterpolationMode, expand: bool, center: Any, fill: Any) -> Any:
    """Turn it counter-clockwise, by degrees."""
    return image.rotate(angle, TO_PILLOW[mode], expand, center, fillcolor=fill_of(image, fill))


def perspective(image: Any, coefficients: Sequence[float], mode: InterpolationMode, fill: Any) -> Any:
    """Look at it from another place."""
    kind = pillow("Image").Transform.PERSPECTIVE
    return image.transform(image.size, kind, coefficients, TO_PILLOW[mode], fillcolor=fill_of(image, fill))


def to_grayscale(image: Any, channels: int) -> Any:
    """Return it without colour, in 1 or 3 channels."""
    gray = image.convert("L")
    if channels == 1:
        return gray
    if channels == 3:
        return pillow("Image").merge("RGB", (gray, gray, gray))
    raise ValueError(f"num_output_channels should be either 1 or 3, got {channels}")


def operate(kind: str, image: Any, *numbers: Any) -> Any:
    """invert, posterize, solarize, autocontrast, equalize: Pillow's own."""
    return getattr(pillow("ImageOps"), kind)(image, *numbers)
