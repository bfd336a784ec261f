"""DenseNet (Huang and others, 2016). Enters: images (N, 3, H, W). Leaves: logits (N, classes)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from minitorch.functions import cat
from minitorch.nn import (
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    Linear,
    MaxPool2d,
    Module,
    ModuleDict,
    ReLU,
    Sequential,
    init,
)
from minitorch.nn.functional import adaptive_avg_pool2d, dropout, relu
from minitorch.tensor import Tensor
from minitorch.vision.models.registry import register_model


class _DenseLayer(Module):
    def __init__(self, width: int, growth_rate: int, bn_size: int, drop_rate: float) -> None:
        super().__init__()
        self.norm1 = BatchNorm2d(width)
        self.relu1 = ReLU(inplace=True)
        self.conv1 = Conv2d(width, bn_size * growth_rate, kernel_size=1, stride=1, bias=False)
        self.norm2 = BatchNorm2d(bn_size * growth_rate)
        self.relu2 = ReLU(inplace=True)
        self.conv2 = Conv2d(
            bn_size * growth_rate, growth_rate, kernel_size=3, stride=1, padding=1, bias=False
        )
        self.drop_rate = float(drop_rate)

    def forward(self, input: Any) -> Tensor:
        before = [input] if isinstance(input, Tensor) else input
        few = self.conv1(self.relu1(self.norm1(cat(before, 1))))
        new = self.conv2(self.relu2(self.norm2(few)))
        return dropout(new, p=self.drop_rate, training=self.training) if self.drop_rate > 0 else new


class _DenseBlock(ModuleDict):
    def __init__(self, count: int, width: int, bn_size: int, growth_rate: int, drop_rate: float) -> None:
        super().__init__()
        for i in range(count):
            layer = _DenseLayer(width + i * growth_rate, growth_rate, bn_size, drop_rate)
            self.add_module(f"denselayer{i + 1}", layer)

    def forward(self, first: Tensor) -> Tensor:
        features = [first]
        for layer in self.values():
            features.append(layer(features))
        return cat(features, 1)


class _Transition(Sequential):
    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.norm = BatchNorm2d(width)
        self.relu = ReLU(inplace=True)
        self.conv = Conv2d(width, out, kernel_size=1, stride=1, bias=False)
        self.pool = AvgPool2d(kernel_size=2, stride=2)


class DenseNet(Module):
    """Blocks in which every layer sees the results of all before it."""

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: tuple[int, ...] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        self.features = Sequential(
            OrderedDict(
                [
                    ("conv0", Conv2d(3, num_init_features, kernel_size=7, stride=2, padding=3, bias=False)),
                    ("norm0", BatchNorm2d(num_init_features)),
                    ("relu0", ReLU(inplace=True)),
                    ("pool0", MaxPool2d(kernel_size=3, stride=2, padding=1)),
                ]
            )
        )
        width = num_init_features
        for i, count in enumerate(block_config):
            self.features.add_module(
                f"denseblock{i + 1}", _DenseBlock(count, width, bn_size, growth_rate, drop_rate)
            )
            width += count * growth_rate
            if i != len(block_config) - 1:
                self.features.add_module(f"transition{i + 1}", _Transition(width, width // 2))
                width //= 2
        self.features.add_module("norm5", BatchNorm2d(width))
        self.classifier = Linear(width, num_classes)
        for module in self.modules():
            if isinstance(module, Conv2d):
                init.kaiming_normal_(module.weight)
            elif isinstance(module, BatchNorm2d):
                init.constant_(module.weight, 1)
                init.constant_(module.bias, 0)
            elif isinstance(module, Linear):
                init.constant_(module.bias, 0)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) → (N, classes)."""
        out = relu(self.features(x), inplace=True)
        return self.classifier(adaptive_avg_pool2d(out, (1, 1)).flatten(1))


def _register(name: str, growth: int, blocks: tuple[int, ...], start: int) -> Any:
    def build(**options: Any) -> DenseNet:
        return DenseNet(growth, blocks, start, **options)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Make a {name}."
    return register_model(build)


densenet121 = _register("densenet121", 32, (6, 12, 24, 16), 64)
densenet161 = _register("densenet161", 48, (6, 12, 36, 24), 96)
densenet169 = _register("densenet169", 32, (6, 12, 32, 32), 64)
densenet201 = _register("densenet201", 32, (6, 12, 48, 32), 64)
