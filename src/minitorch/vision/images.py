"""What an image is: a Pillow image or a Tensor (…, C, H, W). Enters: either. Leaves: facts about it; Pillow itself."""

from __future__ import annotations

import enum
from typing import Any

from minitorch.tensor import Tensor


def pillow(name: str) -> Any:
    """Return a part of Pillow, such as "Image", or explain its absence.

    >>> pillow("Image").new("L", (2, 1)).size
    (2, 1)
    """
    try:
        import PIL.Image
        import PIL.ImageColor
        import PIL.ImageEnhance
        import PIL.ImageOps
    except ImportError as error:
        raise ImportError("images need Pillow: pip install pillow") from error
    return getattr(PIL, name)


def is_pillow(image: Any) -> bool:
    """Tell whether something is a Pillow image, without importing Pillow for the question."""
    return hasattr(image, "getbands") and hasattr(image, "convert")


def is_tensor_image(image: Any) -> bool:
    """Tell whether something is a Tensor with at least two axes."""
    return isinstance(image, Tensor) and image.ndim >= 2


def expect_image(image: Any, name: str) -> None:
    """Refuse what is no image."""
    if not is_pillow(image) and not is_tensor_image(image):
        kind = (
            f"a Tensor of shape {tuple(image.shape)}" if isinstance(image, Tensor) else type(image).__name__
        )
        raise TypeError(f"{name}: expects a Pillow image or a Tensor (…, C, H, W), got {kind}")


def dimensions(image: Any) -> tuple[int, int, int]:
    """Return channels, height and width.

    >>> import minitorch
    >>> dimensions(minitorch.zeros(3, 4, 5))
    (3, 4, 5)
    """
    expect_image(image, "get_dimensions")
    if is_pillow(image):
        width, height = image.size
        return len(image.getbands()), height, width
    channels = 1 if image.ndim == 2 else image.shape[-3]
    return channels, image.shape[-2], image.shape[-1]


class InterpolationMode(enum.Enum):
    """How pixels between pixels are found."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


# Pillow's numbers, which may be given in place of a mode.
_NUMBERED = {
    0: InterpolationMode.NEAREST,
    2: InterpolationMode.BILINEAR,
    3: InterpolationMode.BICUBIC,
    4: InterpolationMode.BOX,
    5: InterpolationMode.HAMMING,
    1: InterpolationMode.LANCZOS,
}
TO_PILLOW = {mode: number for number, mode in _NUMBERED.items()} | {InterpolationMode.NEAREST_EXACT: 0}


def mode_of(interpolation: Any) -> InterpolationMode:
    """Return an interpolation mode, given itself or Pillow's number."""
    if isinstance(interpolation, InterpolationMode):
        return interpolation
    if isinstance(interpolation, int) and int(interpolation) in _NUMBERED:
        return _NUMBERED[int(interpolation)]
    raise TypeError(
        f"interpolation: expects an InterpolationMode or Pillow's number of one, got {interpolation!r}"
    )


def as_pair(size: Any) -> tuple[int, int]:
    """Return a size (height, width); one number is both."""
    if isinstance(size, int):
        return size, size
    size = tuple(int(n) for n in size)
    if len(size) not in (1, 2):
        raise ValueError(f"a size is one number or (height, width), got {size}")
    return (size[0], size[-1])
