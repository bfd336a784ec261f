"""Images in torchvision's words, on NumPy and Pillow: transforms, datasets, models, ops, utils, io.

Enters: images, files, seeds. Leaves: Tensors, and models whose parameters have torchvision's names. Under the torch
face it is what `import torchvision` gives where the real one is absent.
"""

from typing import Any as _Any

from minitorch.vision import datasets, io, models, ops, transforms, utils

__version__ = "0.29.0+minitorch"
__all__ = ["datasets", "io", "models", "ops", "transforms", "utils"]


def set_image_backend(backend: str) -> None:
    """Choose what reads images: there is Pillow alone."""
    if backend != "PIL":
        raise ValueError(f"Invalid backend '{backend}'. Options are 'PIL'")


def get_image_backend() -> str:
    """Return what reads images."""
    return "PIL"


def disable_beta_transforms_warning(*_: _Any) -> None:
    """Do nothing: there is no such warning."""
