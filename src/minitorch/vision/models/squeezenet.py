"""SqueezeNet (Iandola and others, 2016). Enters: images (N, 3, H, W). Leaves: logits (N, classes)."""

from __future__ import annotations

from typing import Any

from minitorch.functions import cat
from minitorch.nn import AdaptiveAvgPool2d, Conv2d, Dropout, MaxPool2d, Module, ReLU, Sequential, init
from minitorch.tensor import Tensor
from minitorch.vision.models.registry import register_model


class Fire(Module):
    """Few channels, then many again: by single pixels and by 3 × 3, side by side."""

    def __init__(
        self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int
    ) -> None:
        super().__init__()
        self.inplanes = inplanes
        self.squeeze = Conv2d(inplanes, squeeze_planes, kernel_size=1)
        self.squeeze_activation = ReLU(inplace=True)
        self.expand1x1 = Conv2d(squeeze_planes, expand1x1_planes, kernel_size=1)
        self.expand1x1_activation = ReLU(inplace=True)
        self.expand3x3 = Conv2d(squeeze_planes, expand3x3_planes, kernel_size=3, padding=1)
        self.expand3x3_activation = ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C′, H, W)."""
        x = self.squeeze_activation(self.squeeze(x))
        one, three = (
            self.expand1x1_activation(self.expand1x1(x)),
            self.expand3x3_activation(self.expand3x3(x)),
        )
        return cat([one, three], 1)


def _fires(*sizes: tuple[int, int, int]) -> list[Module]:
    return [Fire(inside, few, many, many) for inside, few, many in sizes]


def _pool() -> MaxPool2d:
    return MaxPool2d(kernel_size=3, stride=2, ceil_mode=True)


class SqueezeNet(Module):
    """Fire modules, and a convolution in place of linear layers."""

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.num_classes = num_classes
        if version == "1_0":
            self.features = Sequential(
                Conv2d(3, 96, kernel_size=7, stride=2),
                ReLU(inplace=True),
                _pool(),
                *_fires((96, 16, 64), (128, 16, 64), (128, 32, 128)),
                _pool(),
                *_fires((256, 32, 128), (256, 48, 192), (384, 48, 192), (384, 64, 256)),
                _pool(),
                *_fires((512, 64, 256)),
            )
        elif version == "1_1":
            self.features = Sequential(
                Conv2d(3, 64, kernel_size=3, stride=2),
                ReLU(inplace=True),
                _pool(),
                *_fires((64, 16, 64), (128, 16, 64)),
                _pool(),
                *_fires((128, 32, 128), (256, 32, 128)),
                _pool(),
                *_fires((256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256)),
            )
        else:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        final = Conv2d(512, num_classes, kernel_size=1)
        self.classifier = Sequential(Dropout(p=dropout), final, ReLU(inplace=True), AdaptiveAvgPool2d((1, 1)))
        for module in self.modules():
            if isinstance(module, Conv2d):
                if module is final:
                    init.normal_(module.weight, mean=0.0, std=0.01)
                else:
                    init.kaiming_uniform_(module.weight)
                if module.bias is not None:
                    init.constant_(module.bias, 0)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) → (N, classes)."""
        return self.classifier(self.features(x)).flatten(1)


@register_model
def squeezenet1_0(**options: Any) -> SqueezeNet:
    """Make a SqueezeNet 1.0."""
    return SqueezeNet("1_0", **options)


@register_model
def squeezenet1_1(**options: Any) -> SqueezeNet:
    """Make a SqueezeNet 1.1."""
    return SqueezeNet("1_1", **options)
