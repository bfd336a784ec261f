"""VGG (Simonyan and Zisserman, 2014). Enters: images (N, 3, H, W). Leaves: logits (N, classes)."""

from __future__ import annotations

from typing import Any

from minitorch.nn import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Conv2d,
    Dropout,
    Linear,
    MaxPool2d,
    Module,
    ReLU,
    Sequential,
    init,
)
from minitorch.tensor import Tensor
from minitorch.vision.models.registry import register_model

# How many convolutions of 64, 128, 256, 512 and 512 channels stand before each pooling.
DEPTHS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def make_layers(depth: int, batch_norm: bool) -> Sequential:
    """Return the convolutions of a VGG."""
    layers: list[Module] = []
    width = 3
    for count, channels in zip(DEPTHS[depth], (64, 128, 256, 512, 512), strict=True):
        for _ in range(count):
            layers.append(Conv2d(width, channels, kernel_size=3, padding=1))
            if batch_norm:
                layers.append(BatchNorm2d(channels))
            layers.append(ReLU(inplace=True))
            width = channels
        layers.append(MaxPool2d(kernel_size=2, stride=2))
    return Sequential(*layers)


class VGG(Module):
    """Convolutions of 3 × 3, and three linear layers."""

    def __init__(
        self, features: Module, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.features = features
        self.avgpool = AdaptiveAvgPool2d((7, 7))
        self.classifier = Sequential(
            Linear(512 * 7 * 7, 4096),
            ReLU(True),
            Dropout(p=dropout),
            Linear(4096, 4096),
            ReLU(True),
            Dropout(p=dropout),
            Linear(4096, num_classes),
        )
        if init_weights:
            for module in self.modules():
                if isinstance(module, Conv2d):
                    init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                    if module.bias is not None:
                        init.constant_(module.bias, 0)
                elif isinstance(module, BatchNorm2d):
                    init.constant_(module.weight, 1)
                    init.constant_(module.bias, 0)
                elif isinstance(module, Linear):
                    init.normal_(module.weight, 0, 0.01)
                    init.constant_(module.bias, 0)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) → (N, classes)."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def _register(depth: int, batch_norm: bool) -> Any:
    def build(**options: Any) -> VGG:
        return VGG(make_layers(depth, batch_norm), **options)

    build.__name__ = build.__qualname__ = f"vgg{depth}{'_bn' if batch_norm else ''}"
    build.__doc__ = f"Make a VGG of {depth} layers{', with batch normalisation' if batch_norm else ''}."
    return register_model(build)


vgg11, vgg13, vgg16, vgg19 = (_register(depth, False) for depth in DEPTHS)
vgg11_bn, vgg13_bn, vgg16_bn, vgg19_bn = (_register(depth, True) for depth in DEPTHS)
