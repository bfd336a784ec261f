"""ConvNeXt (Liu and others, 2022). Enters: images (N, 3, H, W). Leaves: logits (N, classes)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from minitorch import creation
from minitorch.nn import (
    GELU,
    AdaptiveAvgPool2d,
    Conv2d,
    Flatten,
    LayerNorm,
    Linear,
    Module,
    Parameter,
    Sequential,
    init,
)
from minitorch.nn.functional import layer_norm
from minitorch.tensor import Tensor
from minitorch.vision.models.registry import register_model
from minitorch.vision.ops.misc import Conv2dNormActivation, Permute, StochasticDepth


class LayerNorm2d(LayerNorm):
    """LayerNorm over the channels of images."""

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C, H, W)."""
        x = layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class CNBlock(Module):
    """A wide filter channel by channel, two linear layers, and the way around."""

    def __init__(
        self,
        dim: int,
        layer_scale: float,
        stochastic_depth_prob: float,
        norm_layer: Callable[..., Module] | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or partial(LayerNorm, eps=1e-6)
        self.block = Sequential(
            Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim, bias=True),
            Permute([0, 2, 3, 1]),
            norm(dim),
            Linear(dim, 4 * dim, bias=True),
            GELU(),
            Linear(4 * dim, dim, bias=True),
            Permute([0, 3, 1, 2]),
        )
        self.layer_scale = Parameter(creation.ones(dim, 1, 1) * layer_scale)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C, H, W)."""
        return self.stochastic_depth(self.layer_scale * self.block(input)) + input


class ConvNeXt(Module):
    """Four stages of blocks, with a halving convolution before each but the first."""

    def __init__(
        self,
        widths: Sequence[int],
        depths: Sequence[int],
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        norm = partial(LayerNorm2d, eps=1e-6)
        layers: list[Module] = [
            Conv2dNormActivation(
                3,
                widths[0],
                kernel_size=4,
                stride=4,
                padding=0,
                norm_layer=norm,
                activation_layer=None,
                bias=True,
            )
        ]
        total, done = sum(depths), 0
        for i, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            blocks: list[Module] = []
            for _ in range(depth):
                blocks.append(CNBlock(width, layer_scale, stochastic_depth_prob * done / (total - 1.0)))
                done += 1
            layers.append(Sequential(*blocks))
            if i + 1 < len(widths):
                layers.append(Sequential(norm(width), Conv2d(width, widths[i + 1], kernel_size=2, stride=2)))
        self.features = Sequential(*layers)
        self.avgpool = AdaptiveAvgPool2d(1)
        self.classifier = Sequential(norm(widths[-1]), Flatten(1), Linear(widths[-1], num_classes))
        for module in self.modules():
            if isinstance(module, (Conv2d, Linear)):
                init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) → (N, classes)."""
        return self.classifier(self.avgpool(self.features(x)))


def _register(name: str, widths: tuple[int, ...], depths: tuple[int, ...], drop: float) -> Any:
    def build(**options: Any) -> ConvNeXt:
        return ConvNeXt(widths, depths, options.pop("stochastic_depth_prob", drop), **options)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Make a {name}."
    return register_model(build)


convnext_tiny = _register("convnext_tiny", (96, 192, 384, 768), (3, 3, 9, 3), 0.1)
convnext_small = _register("convnext_small", (96, 192, 384, 768), (3, 3, 27, 3), 0.4)
convnext_base = _register("convnext_base", (128, 256, 512, 1024), (3, 3, 27, 3), 0.5)
convnext_large = _register("convnext_large", (192, 384, 768, 1536), (3, 3, 27, 3), 0.5)
