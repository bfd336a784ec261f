"""AlexNet (Krizhevsky, 2014). Enters: images (N, 3, H, W). Leaves: logits (N, classes)."""

from __future__ import annotations

from typing import Any

from minitorch.nn import AdaptiveAvgPool2d, Conv2d, Dropout, Linear, MaxPool2d, Module, ReLU, Sequential
from minitorch.tensor import Tensor
from minitorch.vision.models.registry import register_model


class AlexNet(Module):
    """Five convolutions and three linear layers."""

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = Sequential(
            Conv2d(3, 64, kernel_size=11, stride=4, padding=2),
            ReLU(inplace=True),
            MaxPool2d(kernel_size=3, stride=2),
            Conv2d(64, 192, kernel_size=5, padding=2),
            ReLU(inplace=True),
            MaxPool2d(kernel_size=3, stride=2),
            Conv2d(192, 384, kernel_size=3, padding=1),
            ReLU(inplace=True),
            Conv2d(384, 256, kernel_size=3, padding=1),
            ReLU(inplace=True),
            Conv2d(256, 256, kernel_size=3, padding=1),
            ReLU(inplace=True),
            MaxPool2d(kernel_size=3, stride=2),
        )
        self.avgpool = AdaptiveAvgPool2d((6, 6))
        self.classifier = Sequential(
            Dropout(p=dropout),
            Linear(256 * 6 * 6, 4096),
            ReLU(inplace=True),
            Dropout(p=dropout),
            Linear(4096, 4096),
            ReLU(inplace=True),
            Linear(4096, num_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) → (N, classes)."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


@register_model
def alexnet(**options: Any) -> AlexNet:
    """Make an AlexNet."""
    return AlexNet(**options)
