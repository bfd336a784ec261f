"""ResNet, ResNeXt and wide ResNet (He and others, 2015). Enters: images (N, 3, H, W). Leaves: logits (N, classes)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitorch.nn import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Conv2d,
    GroupNorm,
    Linear,
    MaxPool2d,
    Module,
    ReLU,
    Sequential,
    init,
)
from minitorch.tensor import Tensor
from minitorch.vision.models.registry import register_model


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> Conv2d:
    """Return a convolution of 3 × 3 that keeps the size."""
    return Conv2d(
        in_planes,
        out_planes,
        3,
        stride=stride,
        padding=dilation,
        groups=groups,
        bias=False,
        dilation=dilation,
    )


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> Conv2d:
    """Return a convolution of single pixels."""
    return Conv2d(in_planes, out_planes, kernel_size=1, stride=stride, bias=False)


class BasicBlock(Module):
    """Two convolutions, and the way around them."""

    expansion: int = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., Module] | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or BatchNorm2d
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm(planes)
        self.relu = ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C′, H′, W′)."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(Module):
    """A convolution between two of single pixels, and the way around them."""

    expansion: int = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., Module] | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm(planes * self.expansion)
        self.relu = ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C′, H′, W′)."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(Module):
    """A stem, four stages of blocks, a linear layer."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None,
        norm_layer: Callable[..., Module] | None = None,
    ) -> None:
        super().__init__()
        self._norm_layer = norm_layer or BatchNorm2d
        self.inplanes, self.dilation = 64, 1
        dilated = (
            (False, False, False) if replace_stride_with_dilation is None else replace_stride_with_dilation
        )
        if len(dilated) != 3:
            raise ValueError(
                f"replace_stride_with_dilation should be None or a 3-element tuple, got {dilated}"
            )
        self.groups, self.base_width = groups, width_per_group
        self.conv1 = Conv2d(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = ReLU(inplace=True)
        self.maxpool = MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], stride=2, dilate=dilated[0])
        self.layer3 = self._make_layer(block, 256, layers[2], stride=2, dilate=dilated[1])
        self.layer4 = self._make_layer(block, 512, layers[3], stride=2, dilate=dilated[2])
        self.avgpool = AdaptiveAvgPool2d((1, 1))
        self.fc = Linear(512 * block.expansion, num_classes)
        for module in self.modules():
            if isinstance(module, Conv2d):
                init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, (BatchNorm2d, GroupNorm)):
                init.constant_(module.weight, 1)
                init.constant_(module.bias, 0)
        if zero_init_residual:  # each block begins as the way around it
            for module in self.modules():
                if isinstance(module, Bottleneck):
                    init.constant_(module.bn3.weight, 0)
                elif isinstance(module, BasicBlock):
                    init.constant_(module.bn2.weight, 0)

    def _make_layer(
        self, block: Any, planes: int, blocks: int, stride: int = 1, dilate: bool = False
    ) -> Sequential:
        norm = self._norm_layer
        downsample = None
        before = self.dilation
        if dilate:
            self.dilation *= stride
            stride = 1
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = Sequential(
                conv1x1(self.inplanes, planes * block.expansion, stride), norm(planes * block.expansion)
            )
        layers = [
            block(self.inplanes, planes, stride, downsample, self.groups, self.base_width, before, norm)
        ]
        self.inplanes = planes * block.expansion
        same = {
            "groups": self.groups,
            "base_width": self.base_width,
            "dilation": self.dilation,
            "norm_layer": norm,
        }
        layers += [block(self.inplanes, planes, **same) for _ in range(1, blocks)]
        return Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) → (N, classes)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def _register(name: str, block: Any, layers: tuple[int, ...], **fixed: Any) -> Any:
    def build(**options: Any) -> ResNet:
        return ResNet(block, layers, **{**fixed, **options})

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Make a {name}."
    return register_model(build)


resnet18 = _register("resnet18", BasicBlock, (2, 2, 2, 2))
resnet34 = _register("resnet34", BasicBlock, (3, 4, 6, 3))
resnet50 = _register("resnet50", Bottleneck, (3, 4, 6, 3))
resnet101 = _register("resnet101", Bottleneck, (3, 4, 23, 3))
resnet152 = _register("resnet152", Bottleneck, (3, 8, 36, 3))
resnext50_32x4d = _register("resnext50_32x4d", Bottleneck, (3, 4, 6, 3), groups=32, width_per_group=4)
resnext101_32x8d = _register("resnext101_32x8d", Bottleneck, (3, 4, 23, 3), groups=32, width_per_group=8)
resnext101_64x4d = _register("resnext101_64x4d", Bottleneck, (3, 4, 23, 3), groups=64, width_per_group=4)
wide_resnet50_2 = _register("wide_resnet50_2", Bottleneck, (3, 4, 6, 3), width_per_group=128)
wide_resnet101_2 = _register("wide_resnet101_2", Bottleneck, (3, 4, 23, 3), width_per_group=128)
