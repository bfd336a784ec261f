"""MobileNetV2 (Sandler and others, 2018). Enters: images (N, 3, H, W). Leaves: logits (N, classes)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitorch.nn import BatchNorm2d, Conv2d, Dropout, GroupNorm, Linear, Module, ReLU6, Sequential, init
from minitorch.nn.functional import adaptive_avg_pool2d
from minitorch.tensor import Tensor
from minitorch.vision.models.registry import register_model
from minitorch.vision.ops.misc import Conv2dNormActivation


def make_divisible(v: float, divisor: int, min_value: int | None = None) -> int:
    """Return the nearest multiple of the divisor, not more than a tenth below.

    >>> make_divisible(30, 8), make_divisible(9, 8)
    (32, 16)
    """
    lowest = divisor if min_value is None else min_value
    new = max(lowest, int(v + divisor / 2) // divisor * divisor)
    return new + divisor if new < 0.9 * v else new


class InvertedResidual(Module):
    """Many channels between few: widened, filtered one by one, narrowed; and the way around."""

    def __init__(
        self,
        inp: int,
        oup: int,
        stride: int,
        expand_ratio: int,
        norm_layer: Callable[..., Module] | None = None,
    ) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        norm = norm_layer or BatchNorm2d
        self.stride = stride
        hidden = round(inp * expand_ratio)
        self.use_res_connect = stride == 1 and inp == oup
        layers: list[Module] = []
        if expand_ratio != 1:
            layers.append(
                Conv2dNormActivation(inp, hidden, kernel_size=1, norm_layer=norm, activation_layer=ReLU6)
            )
        layers += [
            Conv2dNormActivation(
                hidden, hidden, stride=stride, groups=hidden, norm_layer=norm, activation_layer=ReLU6
            ),
            Conv2d(hidden, oup, 1, 1, 0, bias=False),
            norm(oup),
        ]
        self.conv = Sequential(*layers)
        self.out_channels = oup
        self._is_cn = stride > 1

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C′, H′, W′)."""
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


# Widening, channels, how many, stride of the first.
SETTINGS = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


class MobileNetV2(Module):
    """Inverted residuals between two convolutions."""

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        inverted_residual_setting: Any = None,
        round_nearest: int = 8,
        block: Callable[..., Module] | None = None,
        norm_layer: Callable[..., Module] | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        block, norm = block or InvertedResidual, norm_layer or BatchNorm2d
        settings = SETTINGS if inverted_residual_setting is None else inverted_residual_setting
        if len(settings) == 0 or len(settings[0]) != 4:
            raise ValueError(
                f"inverted_residual_setting should be non-empty or a 4-element list, got {settings}"
            )
        width = make_divisible(32 * width_mult, round_nearest)
        self.last_channel = make_divisible(1280 * max(1.0, width_mult), round_nearest)
        features: list[Module] = [
            Conv2dNormActivation(3, width, stride=2, norm_layer=norm, activation_layer=ReLU6)
        ]
        for t, c, n, s in settings:
            out = make_divisible(c * width_mult, round_nearest)
            for i in range(n):
                features.append(block(width, out, s if i == 0 else 1, expand_ratio=t, norm_layer=norm))
                width = out
        features.append(
            Conv2dNormActivation(
                width, self.last_channel, kernel_size=1, norm_layer=norm, activation_layer=ReLU6
            )
        )
        self.features = Sequential(*features)
        self.classifier = Sequential(Dropout(p=dropout), Linear(self.last_channel, num_classes))
        for module in self.modules():
            if isinstance(module, Conv2d):
                init.kaiming_normal_(module.weight, mode="fan_out")
                if module.bias is not None:
                    init.zeros_(module.bias)
            elif isinstance(module, (BatchNorm2d, GroupNorm)):
                init.ones_(module.weight)
                init.zeros_(module.bias)
            elif isinstance(module, Linear):
                init.normal_(module.weight, 0, 0.01)
                init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) → (N, classes)."""
        return self.classifier(adaptive_avg_pool2d(self.features(x), (1, 1)).flatten(1))


@register_model
def mobilenet_v2(**options: Any) -> MobileNetV2:
    """Make a MobileNetV2."""
    return MobileNetV2(**options)
