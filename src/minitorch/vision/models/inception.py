"""Inception v3 (Szegedy and others, 2015). Enters: images (N, 3, 299, 299). Leaves: logits; training, two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minitorch.functions import cat
from minitorch.nn import AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Dropout, Linear, MaxPool2d, Module, init
from minitorch.nn.functional import adaptive_avg_pool2d, avg_pool2d, max_pool2d
from minitorch.tensor import Tensor
from minitorch.vision.models.googlenet import BasicConv2d
from minitorch.vision.models.registry import register_model

# A convolution: its name, how many channels leave it, its kernel. Several at one place of a chain stand side by side.
Conv = tuple[str, int, Any]
Chain = Sequence[Conv | list[Conv]]


class InceptionOutputs(NamedTuple):
    """The logits, and those of the head inside."""

    logits: Tensor
    aux_logits: Tensor | None


class Mixed(Module):
    """Chains of convolutions side by side, and a pool. halves: the last of each chain, and the pool, step by 2."""

    def __init__(self, in_channels: int, chains: Sequence[Chain], halves: bool = False) -> None:
        super().__init__()
        self.halves = halves
        self.chains: list[list[list[str]]] = []
        for chain in chains:
            channels, names = in_channels, []
            for place, step in enumerate(chain):
                beside = step if isinstance(step, list) else [step]
                last = halves and place == len(chain) - 1
                for name, out, kernel in beside:
                    self.add_module(name, _conv(channels, out, kernel, last))
                channels = sum(out for _, out, _ in beside)
                names.append([name for name, _, _ in beside])
            self.chains.append(names)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C′, H′, W′)."""
        branches = []
        for chain in self.chains:
            pooled = chain[0] == ["branch_pool"]
            y = avg_pool2d(x, kernel_size=3, stride=1, padding=1) if pooled else x
            for names in chain:
                parts = [getattr(self, name)(y) for name in names]
                y = cat(parts, 1) if len(parts) > 1 else parts[0]
            branches.append(y)
        return cat([*branches, max_pool2d(x, kernel_size=3, stride=2)] if self.halves else branches, 1)


def _conv(channels: int, out: int, kernel: Any, halves: bool) -> BasicConv2d:
    high, wide = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    if halves:
        return BasicConv2d(channels, out, kernel_size=kernel, stride=2)
    return BasicConv2d(channels, out, kernel_size=kernel, padding=(high // 2, wide // 2))


def _block_a(channels: int, pooled: int) -> Mixed:
    double = [("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3)]
    five = [("branch5x5_1", 48, 1), ("branch5x5_2", 64, 5)]
    return Mixed(channels, [[("branch1x1", 64, 1)], five, double, [("branch_pool", pooled, 1)]])


def _block_b(channels: int) -> Mixed:
    double = [("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3)]
    return Mixed(channels, [[("branch3x3", 384, 3)], double], halves=True)


def _block_c(channels: int, inner: int) -> Mixed:
    across, down = (1, 7), (7, 1)
    seven = [("branch7x7_1", inner, 1), ("branch7x7_2", inner, across), ("branch7x7_3", 192, down)]
    kernels = [1, down, across, down, across]
    double = [(f"branch7x7dbl_{i + 1}", 192 if i == 4 else inner, k) for i, k in enumerate(kernels)]
    return Mixed(channels, [[("branch1x1", 192, 1)], seven, double, [("branch_pool", 192, 1)]])


def _block_d(channels: int) -> Mixed:
    seven = [("branch7x7x3_1", 192, 1), ("branch7x7x3_2", 192, (1, 7)), ("branch7x7x3_3", 192, (7, 1))]
    three = [("branch3x3_1", 192, 1), ("branch3x3_2", 320, 3)]
    return Mixed(channels, [three, [*seven, ("branch7x7x3_4", 192, 3)]], halves=True)


def _block_e(channels: int) -> Mixed:
    across, down = (1, 3), (3, 1)
    three: Chain = [("branch3x3_1", 384, 1), [("branch3x3_2a", 384, across), ("branch3x3_2b", 384, down)]]
    spread: list[Conv] = [("branch3x3dbl_3a", 384, across), ("branch3x3dbl_3b", 384, down)]
    double: Chain = [("branch3x3dbl_1", 448, 1), ("branch3x3dbl_2", 384, 3), spread]
    return Mixed(channels, [[("branch1x1", 320, 1)], three, double, [("branch_pool", 192, 1)]])


class InceptionAux(Module):
    """A head inside the network, for training."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.conv0 = BasicConv2d(in_channels, 128, kernel_size=1)
        self.conv1 = BasicConv2d(128, 768, kernel_size=5)
        self.fc = Linear(768, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, 17, 17) → (N, classes)."""
        x = self.conv1(self.conv0(avg_pool2d(x, kernel_size=5, stride=3)))
        return self.fc(adaptive_avg_pool2d(x, (1, 1)).flatten(1))


class Inception3(Module):
    """Inception v3: eleven blocks of branches, with one more head while training."""

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = True,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.Conv2d_1a_3x3 = BasicConv2d(3, 32, kernel_size=3, stride=2)
        self.Conv2d_2a_3x3 = BasicConv2d(32, 32, kernel_size=3)
        self.Conv2d_2b_3x3 = BasicConv2d(32, 64, kernel_size=3, padding=1)
        self.maxpool1 = MaxPool2d(kernel_size=3, stride=2)
        self.Conv2d_3b_1x1 = BasicConv2d(64, 80, kernel_size=1)
        self.Conv2d_4a_3x3 = BasicConv2d(80, 192, kernel_size=3)
        self.maxpool2 = MaxPool2d(kernel_size=3, stride=2)
        for name, channels, pooled in (("5b", 192, 32), ("5c", 256, 64), ("5d", 288, 64)):
            self.add_module(f"Mixed_{name}", _block_a(channels, pooled))
        self.Mixed_6a = _block_b(288)
        for name, inner in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
            self.add_module(f"Mixed_{name}", _block_c(768, inner))
        self.AuxLogits = InceptionAux(768, num_classes) if aux_logits else None
        self.Mixed_7a = _block_d(768)
        self.Mixed_7b, self.Mixed_7c = _block_e(1280), _block_e(2048)
        self.avgpool = AdaptiveAvgPool2d((1, 1))
        self.dropout = Dropout(p=dropout)
        self.fc = Linear(2048, num_classes)
        if init_weights or init_weights is None:
            self._draw()

    def _draw(self) -> None:
        for name, module in self.named_modules():
            if isinstance(module, (Conv2d, Linear)):
                std = 0.001 if name == "AuxLogits.fc" else 0.1
                init.trunc_normal_(module.weight, mean=0.0, std=std, a=-2, b=2)
            elif isinstance(module, BatchNorm2d):
                init.constant_(module.weight, 1)
                init.constant_(module.bias, 0)

    def forward(self, x: Tensor) -> Any:
        """(N, 3, 299, 299) → (N, classes); while training with the other head's logits."""
        if self.transform_input:
            shift = x.new_tensor([(0.485 - 0.5) / 0.5, (0.456 - 0.5) / 0.5, (0.406 - 0.5) / 0.5])
            scale = x.new_tensor([0.229 / 0.5, 0.224 / 0.5, 0.225 / 0.5])
            x = x * scale.reshape(1, 3, 1, 1) + shift.reshape(1, 3, 1, 1)
        x = self.maxpool1(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))))
        x = self.maxpool2(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)))
        for name in ("5b", "5c", "5d", "6a", "6b", "6c", "6d", "6e"):
            x = getattr(self, f"Mixed_{name}")(x)
        heads = self.training and self.aux_logits
        aux = self.AuxLogits(x) if heads and self.AuxLogits is not None else None
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        x = self.fc(self.dropout(self.avgpool(x)).flatten(1))
        return InceptionOutputs(x, aux) if heads else x


@register_model
def inception_v3(**options: Any) -> Inception3:
    """Make an Inception v3."""
    return Inception3(**options)
