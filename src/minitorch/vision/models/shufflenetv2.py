"""ShuffleNetV2 (Ma and others, 2018). Enters: images (N, 3, H, W). Leaves: logits (N, classes)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitorch.functions import cat
from minitorch.nn import BatchNorm2d, Conv2d, Linear, MaxPool2d, Module, ReLU, Sequential
from minitorch.nn.functional import channel_shuffle
from minitorch.tensor import Tensor
from minitorch.vision.models.registry import register_model


def _depthwise(width: int, stride: int) -> Conv2d:
    return Conv2d(width, width, 3, stride, 1, bias=False, groups=width)


def _pointwise(width: int, out: int) -> list[Module]:
    return [Conv2d(width, out, kernel_size=1, stride=1, padding=0, bias=False), BatchNorm2d(out)]


class InvertedResidual(Module):
    """Two branches, whose channels are shuffled together."""

    def __init__(self, inp: int, oup: int, stride: int) -> None:
        super().__init__()
        if not 1 <= stride <= 3:
            raise ValueError("illegal stride value")
        self.stride = stride
        half = oup // 2
        if stride == 1 and inp != half * 2:
            raise ValueError(f"with stride 1 as many channels must leave as enter, got {inp} and {oup}")
        self.branch1 = Sequential()
        if stride > 1:
            self.branch1 = Sequential(
                _depthwise(inp, stride), BatchNorm2d(inp), *_pointwise(inp, half), ReLU(inplace=True)
            )
        self.branch2 = Sequential(
            *_pointwise(inp if stride > 1 else half, half),
            ReLU(inplace=True),
            _depthwise(half, stride),
            BatchNorm2d(half),
            *_pointwise(half, half),
            ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C′, H′, W′)."""
        if self.stride == 1:
            kept, changed = x.chunk(2, dim=1)
            out = cat((kept, self.branch2(changed)), dim=1)
        else:
            out = cat((self.branch1(x), self.branch2(x)), dim=1)
        return channel_shuffle(out, 2)


class ShuffleNetV2(Module):
    """Three stages of two-branched blocks between two convolutions."""

    def __init__(
        self,
        stages_repeats: list[int],
        stages_out_channels: list[int],
        num_classes: int = 1000,
        inverted_residual: Callable[..., Module] = InvertedResidual,
    ) -> None:
        super().__init__()
        if len(stages_repeats) != 3 or len(stages_out_channels) != 5:
            raise ValueError(
                "expected stages_repeats as list of 3 and stages_out_channels as list of 5 positive ints"
            )
        width = stages_out_channels[0]
        self.conv1 = Sequential(Conv2d(3, width, 3, 2, 1, bias=False), BatchNorm2d(width), ReLU(inplace=True))
        self.maxpool = MaxPool2d(kernel_size=3, stride=2, padding=1)
        for stage, repeats, out in zip((2, 3, 4), stages_repeats, stages_out_channels[1:], strict=False):
            blocks = [inverted_residual(width, out, 2)]
            blocks += [inverted_residual(out, out, 1) for _ in range(repeats - 1)]
            setattr(self, f"stage{stage}", Sequential(*blocks))
            width = out
        out = stages_out_channels[-1]
        self.conv5 = Sequential(Conv2d(width, out, 1, 1, 0, bias=False), BatchNorm2d(out), ReLU(inplace=True))
        self.fc = Linear(out, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) → (N, classes)."""
        x = self.maxpool(self.conv1(x))
        x = self.conv5(self.stage4(self.stage3(self.stage2(x))))
        return self.fc(x.mean((2, 3)))


def _register(name: str, channels: tuple[int, ...]) -> Any:
    def build(**options: Any) -> ShuffleNetV2:
        return ShuffleNetV2([4, 8, 4], list(channels), **options)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Make a {name}."
    return register_model(build)


shufflenet_v2_x0_5 = _register("shufflenet_v2_x0_5", (24, 48, 96, 192, 1024))
shufflenet_v2_x1_0 = _register("shufflenet_v2_x1_0", (24, 116, 232, 464, 1024))
shufflenet_v2_x1_5 = _register("shufflenet_v2_x1_5", (24, 176, 352, 704, 1024))
shufflenet_v2_x2_0 = _register("shufflenet_v2_x2_0", (24, 244, 488, 976, 2048))
