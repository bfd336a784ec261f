"""Images from and to files, by Pillow. Enters: a path or bytes. Leaves: a Tensor (C, H, W) of uint8; or a file."""

from __future__ import annotations

import enum
import io
from typing import Any

import numpy as np

from minitorch import creation
from minitorch.tensor import Tensor
from minitorch.vision.images import pillow
from minitorch.vision.transforms.functional import pil_to_tensor, to_pil_image


class ImageReadMode(enum.Enum):
    """Which channels an image is read into."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def read_file(path: Any) -> Tensor:
    """Return the bytes of a file."""
    return creation.tensor(np.fromfile(path, dtype=np.uint8))


def decode_image(input: Any, mode: Any = ImageReadMode.UNCHANGED, **options: Any) -> Tensor:
    """Return an image, given the bytes of its file or its path."""
    source = io.BytesIO(input.numpy().tobytes()) if isinstance(input, Tensor) else input
    wanted = ImageReadMode[mode.upper()] if isinstance(mode, str) else mode
    with pillow("Image").open(source) as image:
        return pil_to_tensor(image.convert(_MODES[wanted.value]) if wanted.value else image)


def read_image(path: Any, mode: Any = ImageReadMode.UNCHANGED, **options: Any) -> Tensor:
    """Return an image from a file."""
    return decode_image(str(path), mode)


def write_png(input: Tensor, filename: Any, compression_level: int = 6) -> None:
    """Write an image (C, H, W) of uint8 as PNG."""
    to_pil_image(input).save(filename, format="PNG", compress_level=compression_level)


def write_jpeg(input: Tensor, filename: Any, quality: int = 75) -> None:
    """Write an image (C, H, W) of uint8 as JPEG."""
    to_pil_image(input).save(filename, format="JPEG", quality=quality)
