"""What datasets of images share. Enters: a folder and transforms. Leaves: (image, target) by index."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from minitorch.utils.data import Dataset

Transform = Callable[[Any], Any] | None


class StandardTransform:
    """A transform of images and one of targets, as one of both."""

    def __init__(self, transform: Transform = None, target_transform: Transform = None) -> None:
        self.transform, self.target_transform = transform, target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        """Apply each to its own."""
        input = input if self.transform is None else self.transform(input)
        return input, target if self.target_transform is None else self.target_transform(target)

    def __repr__(self) -> str:
        lines = ["StandardTransform"]
        for name, transform in (
            ("Transform: ", self.transform),
            ("Target transform: ", self.target_transform),
        ):
            if transform is not None:
                first, *others = repr(transform).splitlines()
                lines += [name + first, *(" " * len(name) + line for line in others)]
        return "\n".join(lines)


class VisionDataset(Dataset):
    """The base class: `root`, `transform`, `target_transform`, or `transforms` of both at once."""

    _repr_indent = 4

    def __init__(
        self,
        root: Any = None,
        transforms: Callable[[Any, Any], Any] | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
    ) -> None:
        self.root = os.path.expanduser(root) if isinstance(root, str) else root
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError("Only transforms or transform/target_transform can be passed as argument")
        self.transform, self.target_transform = transform, target_transform
        if transform is not None or target_transform is not None:
            transforms = StandardTransform(transform, target_transform)
        self.transforms = transforms

    def __getitem__(self, index: int) -> Any:
        """Return one example."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def _transformed(self, image: Any, target: Any) -> tuple[Any, Any]:
        image = image if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)

    def extra_repr(self) -> str:
        """Return a line to print."""
        return ""

    def __repr__(self) -> str:
        body = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            body.append(f"Root location: {self.root}")
        body += self.extra_repr().splitlines()
        if self.transforms is not None:
            body += repr(self.transforms).splitlines()
        return "\n".join(
            [f"Dataset {type(self).__name__}", *(" " * self._repr_indent + line for line in body)]
        )
