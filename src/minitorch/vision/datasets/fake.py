"""Images of noise, to try things with. Enters: how many. Leaves: (image, class) by index, the same each time."""

from __future__ import annotations

from typing import Any

from minitorch.random import get_rng_state, manual_seed, randint, randn, set_rng_state
from minitorch.vision.datasets.base import Transform, VisionDataset
from minitorch.vision.transforms.functional import to_pil_image


class FakeData(VisionDataset):
    """Random images, drawn from a seed for each index.

    >>> image, target = FakeData(size=3, image_size=(3, 4, 5))[0]
    >>> image.size
    (5, 4)
    """

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Transform = None,
        target_transform: Transform = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(None, transform=transform, target_transform=target_transform)
        self.size, self.num_classes = size, num_classes
        self.image_size, self.random_offset = image_size, random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return an image and its class."""
        if index >= len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        state = get_rng_state()
        manual_seed(index + self.random_offset)
        image = randn(*self.image_size)
        target = randint(0, self.num_classes, size=(1,), dtype=int)[0]
        set_rng_state(state)
        return self._transformed(to_pil_image(image), int(target.item()))

    def __len__(self) -> int:
        return self.size
