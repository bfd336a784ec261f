"""GoogLeNet (Szegedy and others, 2014). Enters: images (N, 3, H, W). Leaves: logits, and while training two more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from minitorch.functions import cat
from minitorch.nn import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Conv2d,
    Dropout,
    Linear,
    MaxPool2d,
    Module,
    Sequential,
    init,
)
from minitorch.nn.functional import adaptive_avg_pool2d, relu
from minitorch.tensor import Tensor
from minitorch.vision.models.registry import register_model


class GoogLeNetOutputs(NamedTuple):
    """The logits, and those of the two heads inside."""

    logits: Tensor
    aux_logits2: Tensor | None
    aux_logits1: Tensor | None


class BasicConv2d(Module):
    """A convolution, batch normalisation, relu."""

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__()
        self.conv = Conv2d(in_channels, out_channels, bias=False, **options)
        self.bn = BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C′, H′, W′)."""
        return relu(self.bn(self.conv(x)), inplace=True)


class Inception(Module):
    """Four branches side by side."""

    def __init__(
        self,
        in_channels: int,
        ch1x1: int,
        ch3x3red: int,
        ch3x3: int,
        ch5x5red: int,
        ch5x5: int,
        pool_proj: int,
        conv_block: Callable[..., Module] = BasicConv2d,
    ) -> None:
        super().__init__()
        self.branch1 = conv_block(in_channels, ch1x1, kernel_size=1)
        self.branch2 = Sequential(
            conv_block(in_channels, ch3x3red, kernel_size=1),
            conv_block(ch3x3red, ch3x3, kernel_size=3, padding=1),
        )
        # (3 × 3 where the paper has 5 × 5: so are the known weights.)
        self.branch3 = Sequential(
            conv_block(in_channels, ch5x5red, kernel_size=1),
            conv_block(ch5x5red, ch5x5, kernel_size=3, padding=1),
        )
        self.branch4 = Sequential(
            MaxPool2d(kernel_size=3, stride=1, padding=1, ceil_mode=True),
            conv_block(in_channels, pool_proj, kernel_size=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C′, H, W)."""
        return cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class InceptionAux(Module):
    """A head inside the network, for training."""

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        conv_block: Callable[..., Module] = BasicConv2d,
        dropout: float = 0.7,
    ) -> None:
        super().__init__()
        self.conv = conv_block(in_channels, 128, kernel_size=1)
        self.fc1 = Linear(2048, 1024)
        self.fc2 = Linear(1024, num_classes)
        self.dropout = Dropout(p=dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, classes)."""
        x = self.conv(adaptive_avg_pool2d(x, (4, 4))).flatten(1)
        return self.fc2(self.dropout(relu(self.fc1(x), inplace=True)))


class GoogLeNet(Module):
    """Nine inception blocks, with two more heads while training."""

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = True,
        dropout: float = 0.2,
        dropout_aux: float = 0.7,
    ) -> None:
        super().__init__()
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.conv1 = BasicConv2d(3, 64, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = MaxPool2d(3, stride=2, ceil_mode=True)
        self.conv2 = BasicConv2d(64, 64, kernel_size=1)
        self.conv3 = BasicConv2d(64, 192, kernel_size=3, padding=1)
        self.maxpool2 = MaxPool2d(3, stride=2, ceil_mode=True)
        self.inception3a = Inception(192, 64, 96, 128, 16, 32, 32)
        self.inception3b = Inception(256, 128, 128, 192, 32, 96, 64)
        self.maxpool3 = MaxPool2d(3, stride=2, ceil_mode=True)
        self.inception4a = Inception(480, 192, 96, 208, 16, 48, 64)
        self.inception4b = Inception(512, 160, 112, 224, 24, 64, 64)
        self.inception4c = Inception(512, 128, 128, 256, 24, 64, 64)
        self.inception4d = Inception(512, 112, 144, 288, 32, 64, 64)
        self.inception4e = Inception(528, 256, 160, 320, 32, 128, 128)
        self.maxpool4 = MaxPool2d(2, stride=2, ceil_mode=True)
        self.inception5a = Inception(832, 256, 160, 320, 32, 128, 128)
        self.inception5b = Inception(832, 384, 192, 384, 48, 128, 128)
        self.aux1 = InceptionAux(512, num_classes, dropout=dropout_aux) if aux_logits else None
        self.aux2 = InceptionAux(528, num_classes, dropout=dropout_aux) if aux_logits else None
        self.avgpool = AdaptiveAvgPool2d((1, 1))
        self.dropout = Dropout(p=dropout)
        self.fc = Linear(1024, num_classes)
        if init_weights:
            for module in self.modules():
                if isinstance(module, (Conv2d, Linear)):
                    init.trunc_normal_(module.weight, mean=0.0, std=0.01, a=-2, b=2)
                elif isinstance(module, BatchNorm2d):
                    init.constant_(module.weight, 1)
                    init.constant_(module.bias, 0)

    def forward(self, x: Tensor) -> Any:
        """(N, 3, H, W) → (N, classes); while training with the two other heads' logits."""
        if self.transform_input:
            shift = x.new_tensor([(0.485 - 0.5) / 0.5, (0.456 - 0.5) / 0.5, (0.406 - 0.5) / 0.5])
            scale = x.new_tensor([0.229 / 0.5, 0.224 / 0.5, 0.225 / 0.5])
            x = x * scale.reshape(1, 3, 1, 1) + shift.reshape(1, 3, 1, 1)
        x = self.maxpool1(self.conv1(x))
        x = self.maxpool2(self.conv3(self.conv2(x)))
        x = self.maxpool3(self.inception3b(self.inception3a(x)))
        x = self.inception4a(x)
        heads = self.training and self.aux1 is not None
        first = self.aux1(x) if heads and self.aux1 is not None else None
        x = self.inception4d(self.inception4c(self.inception4b(x)))
        second = self.aux2(x) if heads and self.aux2 is not None else None
        x = self.maxpool4(self.inception4e(x))
        x = self.avgpool(self.inception5b(self.inception5a(x))).flatten(1)
        x = self.fc(self.dropout(x))
        return GoogLeNetOutputs(x, second, first) if self.training and self.aux_logits else x


@register_model
def googlenet(**options: Any) -> GoogLeNet:
    """Make a GoogLeNet."""
    return GoogLeNet(**options)
