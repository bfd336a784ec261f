"""MobileNetV3 (Howard and others, 2019). Enters: images (N, 3, H, W). Leaves: logits (N, classes)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from minitorch.nn import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Conv2d,
    Dropout,
    GroupNorm,
    Hardsigmoid,
    Hardswish,
    Linear,
    Module,
    ReLU,
    Sequential,
    init,
)
from minitorch.tensor import Tensor
from minitorch.vision.models.mobilenetv2 import make_divisible
from minitorch.vision.models.registry import register_model
from minitorch.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation


class InvertedResidualConfig:
    """Channels, kernel, squeeze and activation of one block."""

    def __init__(
        self,
        input_channels: int,
        kernel: int,
        expanded_channels: int,
        out_channels: int,
        use_se: bool,
        activation: str,
        stride: int,
        dilation: int,
        width_mult: float,
    ) -> None:
        self.input_channels = self.adjust_channels(input_channels, width_mult)
        self.kernel = kernel
        self.expanded_channels = self.adjust_channels(expanded_channels, width_mult)
        self.out_channels = self.adjust_channels(out_channels, width_mult)
        self.use_se, self.use_hs = use_se, activation == "HS"
        self.stride, self.dilation = stride, dilation

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        """Return a number of channels for a width."""
        return make_divisible(channels * width_mult, 8)


class InvertedResidual(Module):
    """Widened, filtered channel by channel, weighed, narrowed; and the way around."""

    def __init__(self, cnf: InvertedResidualConfig, norm_layer: Callable[..., Module]) -> None:
        super().__init__()
        if not 1 <= cnf.stride <= 2:
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        activation = Hardswish if cnf.use_hs else ReLU
        layers: list[Module] = []
        if cnf.expanded_channels != cnf.input_channels:
            layers.append(
                Conv2dNormActivation(
                    cnf.input_channels,
                    cnf.expanded_channels,
                    kernel_size=1,
                    norm_layer=norm_layer,
                    activation_layer=activation,
                )
            )
        layers.append(
            Conv2dNormActivation(
                cnf.expanded_channels,
                cnf.expanded_channels,
                kernel_size=cnf.kernel,
                stride=1 if cnf.dilation > 1 else cnf.stride,
                dilation=cnf.dilation,
                groups=cnf.expanded_channels,
                norm_layer=norm_layer,
                activation_layer=activation,
            )
        )
        if cnf.use_se:
            squeezed = make_divisible(cnf.expanded_channels // 4, 8)
            layers.append(SqueezeExcitation(cnf.expanded_channels, squeezed, scale_activation=Hardsigmoid))
        layers.append(
            Conv2dNormActivation(
                cnf.expanded_channels,
                cnf.out_channels,
                kernel_size=1,
                norm_layer=norm_layer,
                activation_layer=None,
            )
        )
        self.block = Sequential(*layers)
        self.out_channels = cnf.out_channels
        self._is_cn = cnf.stride > 1

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C′, H′, W′)."""
        result = self.block(input)
        if self.use_res_connect:
            result += input
        return result


class MobileNetV3(Module):
    """Inverted residuals between two convolutions, and two linear layers."""

    def __init__(
        self,
        inverted_residual_setting: Sequence[InvertedResidualConfig],
        last_channel: int,
        num_classes: int = 1000,
        norm_layer: Callable[..., Module] | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        norm = norm_layer or partial(BatchNorm2d, eps=0.001, momentum=0.01)
        first = inverted_residual_setting[0].input_channels
        layers: list[Module] = [
            Conv2dNormActivation(
                3, first, kernel_size=3, stride=2, norm_layer=norm, activation_layer=Hardswish
            )
        ]
        layers += [InvertedResidual(cnf, norm) for cnf in inverted_residual_setting]
        width = inverted_residual_setting[-1].out_channels
        layers.append(
            Conv2dNormActivation(width, 6 * width, kernel_size=1, norm_layer=norm, activation_layer=Hardswish)
        )
        self.features = Sequential(*layers)
        self.avgpool = AdaptiveAvgPool2d(1)
        self.classifier = Sequential(
            Linear(6 * width, last_channel),
            Hardswish(inplace=True),
            Dropout(p=dropout, inplace=True),
            Linear(last_channel, num_classes),
        )
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
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


# Channels before, kernel, widened, channels after, squeeze, activation, stride; the last three may be dilated.
LARGE = (
    (16, 3, 16, 16, False, "RE", 1), (16, 3, 64, 24, False, "RE", 2), (24, 3, 72, 24, False, "RE", 1),
    (24, 5, 72, 40, True, "RE", 2), (40, 5, 120, 40, True, "RE", 1), (40, 5, 120, 40, True, "RE", 1),
    (40, 3, 240, 80, False, "HS", 2), (80, 3, 200, 80, False, "HS", 1), (80, 3, 184, 80, False, "HS", 1),
    (80, 3, 184, 80, False, "HS", 1), (80, 3, 480, 112, True, "HS", 1), (112, 3, 672, 112, True, "HS", 1),
    (112, 5, 672, 160, True, "HS", 2), (160, 5, 960, 160, True, "HS", 1), (160, 5, 960, 160, True, "HS", 1),
)  # fmt: skip
SMALL = (
    (16, 3, 16, 16, True, "RE", 2), (16, 3, 72, 24, False, "RE", 2), (24, 3, 88, 24, False, "RE", 1),
    (24, 5, 96, 40, True, "HS", 2), (40, 5, 240, 40, True, "HS", 1), (40, 5, 240, 40, True, "HS", 1),
    (40, 5, 120, 48, True, "HS", 1), (48, 5, 144, 48, True, "HS", 1), (48, 5, 288, 96, True, "HS", 2),
    (96, 5, 576, 96, True, "HS", 1), (96, 5, 576, 96, True, "HS", 1),
)  # fmt: skip


def _build(
    rows: Any,
    last: int,
    width_mult: float = 1.0,
    reduced_tail: bool = False,
    dilated: bool = False,
    **options: Any,
) -> MobileNetV3:
    divide, apart = (2 if reduced_tail else 1), (2 if dilated else 1)
    settings = []
    for i, (before, kernel, wide, after, squeeze, activation, stride) in enumerate(rows):
        tail = i - (len(rows) - 3)  # the last three are the tail
        if tail >= 0:
            after //= divide
        if tail > 0:
            before, wide = before // divide, wide // divide
        settings.append(
            InvertedResidualConfig(
                before,
                kernel,
                wide,
                after,
                squeeze,
                activation,
                stride,
                apart if tail >= 0 else 1,
                width_mult,
            )
        )
    last_channel = InvertedResidualConfig.adjust_channels(last // divide, width_mult)
    return MobileNetV3(settings, last_channel, **options)


@register_model
def mobilenet_v3_large(**options: Any) -> MobileNetV3:
    """Make a large MobileNetV3."""
    return _build(LARGE, 1280, **options)


@register_model
def mobilenet_v3_small(**options: Any) -> MobileNetV3:
    """Make a small MobileNetV3."""
    return _build(SMALL, 1024, **options)
