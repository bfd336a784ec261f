"""EfficientNet (Tan and Le, 2019), B0 to B7. Enters: images (N, 3, H, W). Leaves: logits (N, classes)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from minitorch.nn import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Conv2d,
    Dropout,
    GroupNorm,
    Linear,
    Module,
    Sequential,
    SiLU,
    init,
)
from minitorch.tensor import Tensor
from minitorch.vision.models.mobilenetv2 import make_divisible
from minitorch.vision.models.registry import register_model
from minitorch.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation, StochasticDepth


class MBConv(Module):
    """Widened, filtered channel by channel, weighed, narrowed; and the way around, sometimes alone."""

    def __init__(
        self,
        width: int,
        out: int,
        expand_ratio: float,
        kernel: int,
        stride: int,
        drop: float,
        norm_layer: Callable[..., Module],
    ) -> None:
        super().__init__()
        self.use_res_connect = stride == 1 and width == out
        layers: list[Module] = []
        expanded = make_divisible(width * expand_ratio, 8)
        if expanded != width:
            layers.append(
                Conv2dNormActivation(
                    width, expanded, kernel_size=1, norm_layer=norm_layer, activation_layer=SiLU
                )
            )
        layers += [
            Conv2dNormActivation(
                expanded,
                expanded,
                kernel_size=kernel,
                stride=stride,
                groups=expanded,
                norm_layer=norm_layer,
                activation_layer=SiLU,
            ),
            SqueezeExcitation(expanded, max(1, width // 4), activation=partial(SiLU, inplace=True)),
            Conv2dNormActivation(expanded, out, kernel_size=1, norm_layer=norm_layer, activation_layer=None),
        ]
        self.block = Sequential(*layers)
        self.stochastic_depth = StochasticDepth(drop, "row")
        self.out_channels = out

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C′, H′, W′)."""
        result = self.block(input)
        return self.stochastic_depth(result) + input if self.use_res_connect else result


# Widening, kernel, stride, channels before and after, how many.
STAGES = (
    (1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3), (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1),
)  # fmt: skip


class EfficientNet(Module):
    """Seven stages of blocks between two convolutions."""

    def __init__(
        self,
        width_mult: float,
        depth_mult: float,
        dropout: float,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: Callable[..., Module] | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or BatchNorm2d
        counts = [math.ceil(row[5] * depth_mult) for row in STAGES]
        first = make_divisible(STAGES[0][3] * width_mult, 8)
        layers: list[Module] = [
            Conv2dNormActivation(3, first, kernel_size=3, stride=2, norm_layer=norm, activation_layer=SiLU)
        ]
        done, total = 0, sum(counts)
        for (ratio, kernel, stride, before, after, _), count in zip(STAGES, counts, strict=True):
            width, out = make_divisible(before * width_mult, 8), make_divisible(after * width_mult, 8)
            blocks: list[Module] = []
            for i in range(count):
                drop = stochastic_depth_prob * float(done) / total
                start = (width, stride) if i == 0 else (out, 1)
                blocks.append(MBConv(start[0], out, ratio, kernel, start[1], drop, norm))
                done += 1
            layers.append(Sequential(*blocks))
        width = make_divisible(STAGES[-1][4] * width_mult, 8)
        layers.append(
            Conv2dNormActivation(width, 4 * width, kernel_size=1, norm_layer=norm, activation_layer=SiLU)
        )
        self.features = Sequential(*layers)
        self.avgpool = AdaptiveAvgPool2d(1)
        self.classifier = Sequential(Dropout(p=dropout, inplace=True), Linear(4 * width, num_classes))
        for module in self.modules():
            if isinstance(module, Conv2d):
                init.kaiming_normal_(module.weight, mode="fan_out")
                if module.bias is not None:
                    init.zeros_(module.bias)
            elif isinstance(module, (BatchNorm2d, GroupNorm)):
                init.ones_(module.weight)
                init.zeros_(module.bias)
            elif isinstance(module, Linear):
                reach = 1.0 / math.sqrt(module.out_features)
                init.uniform_(module.weight, -reach, reach)
                init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) → (N, classes)."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def _register(name: str, width: float, depth: float, dropout: float, **fixed: Any) -> Any:
    def build(**options: Any) -> EfficientNet:
        return EfficientNet(width, depth, options.pop("dropout", dropout), **{**fixed, **options})

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Make an {name}."
    return register_model(build)


_FINE = {"norm_layer": partial(BatchNorm2d, eps=0.001, momentum=0.01)}
efficientnet_b0 = _register("efficientnet_b0", 1.0, 1.0, 0.2)
efficientnet_b1 = _register("efficientnet_b1", 1.0, 1.1, 0.2)
efficientnet_b2 = _register("efficientnet_b2", 1.1, 1.2, 0.3)
efficientnet_b3 = _register("efficientnet_b3", 1.2, 1.4, 0.3)
efficientnet_b4 = _register("efficientnet_b4", 1.4, 1.8, 0.4)
efficientnet_b5 = _register("efficientnet_b5", 1.6, 2.2, 0.4, **_FINE)
efficientnet_b6 = _register("efficientnet_b6", 1.8, 2.6, 0.5, **_FINE)
efficientnet_b7 = _register("efficientnet_b7", 2.0, 3.1, 0.5, **_FINE)
