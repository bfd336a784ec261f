"""A folder for each class. Enters: a folder. Leaves: (image, class) by index."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from minitorch.vision.datasets.base import Transform, VisionDataset
from minitorch.vision.images import pillow

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """Tell whether a name ends in one of some ways, in any case."""
    return filename.lower().endswith(extensions)


def is_image_file(filename: str) -> bool:
    """Tell whether a name is an image's."""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory: Any) -> tuple[list[str], dict[str, int]]:
    """Return the names of the folders in a folder, sorted, and their numbers."""
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: i for i, name in enumerate(classes)}


def make_dataset(
    directory: Any,
    class_to_idx: dict[str, int] | None = None,
    extensions: Any = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """Return every file below the classes' folders, with its class's number, in the order of names."""
    directory = os.path.expanduser(directory)
    if class_to_idx is None:
        _, class_to_idx = find_classes(directory)
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")
    if is_valid_file is None:
        endings = extensions if isinstance(extensions, str) else tuple(extensions)

        def is_valid_file(name: str) -> bool:
            return has_file_allowed_extension(name, endings)

    found, empty = [], set(class_to_idx)
    for name in sorted(class_to_idx):
        for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True)):
            for file in sorted(files):
                path = os.path.join(folder, file)
                if is_valid_file(path):
                    found.append((path, class_to_idx[name]))
                    empty.discard(name)
    if empty and not allow_empty:
        expected = f" Supported extensions are: {extensions}" if extensions is not None else ""
        raise FileNotFoundError(f"Found no valid file for the classes {', '.join(sorted(empty))}.{expected}")
    return found


class DatasetFolder(VisionDataset):
    """Files below root/class/, read by a loader."""

    def __init__(
        self,
        root: Any,
        loader: Callable[[str], Any],
        extensions: Any = None,
        transform: Transform = None,
        target_transform: Transform = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.loader, self.extensions = loader, extensions
        self.samples = self.make_dataset(self.root, self.class_to_idx, extensions, is_valid_file, allow_empty)
        self.targets = [target for _, target in self.samples]

    @staticmethod
    def make_dataset(
        directory: Any,
        class_to_idx: dict[str, int],
        extensions: Any = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> list[tuple[str, int]]:
        """Return the files and their classes' numbers."""
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: Any) -> tuple[list[str], dict[str, int]]:
        """Return the classes and their numbers."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return an example and its class."""
        path, target = self.samples[index]
        return self._transformed(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


def pil_loader(path: str) -> Any:
    """Read an image in colour."""
    with open(path, "rb") as file, pillow("Image").open(file) as image:
        return image.convert("RGB")


default_loader = pil_loader


class ImageFolder(DatasetFolder):
    """Images below root/class/."""

    def __init__(
        self,
        root: Any,
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Callable[[str], Any] = pil_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(
            root,
            loader,
            IMG_EXTENSIONS if is_valid_file is None else None,
            transform,
            target_transform,
            is_valid_file,
            allow_empty,
        )
        self.imgs = self.samples
