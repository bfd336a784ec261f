"""Blocks that models share. Enters: features (N, C, H, W), or anything where said. Leaves: features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitorch import creation
from minitorch.nn import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    BatchNorm3d,
    Conv2d,
    Conv3d,
    Dropout,
    Linear,
    Module,
    ReLU,
    Sequential,
    Sigmoid,
)
from minitorch.tensor import Tensor


def _with_inplace(kind: Callable[..., Module], inplace: bool | None) -> Module:
    return kind() if inplace is None else kind(inplace=inplace)


class ConvNormActivation(Sequential):
    """A convolution, a normalisation, an activation; padded so that a stride of 1 keeps the size."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: Any = 1,
        padding: Any = None,
        groups: int = 1,
        norm_layer: Callable[..., Module] | None = BatchNorm2d,
        activation_layer: Callable[..., Module] | None = ReLU,
        dilation: Any = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
        conv_layer: Callable[..., Module] = Conv2d,
    ) -> None:
        if padding is None:
            if isinstance(kernel_size, int) and isinstance(dilation, int):
                padding = (kernel_size - 1) // 2 * dilation
            else:
                rank = len(kernel_size) if isinstance(kernel_size, Sequence) else len(dilation)
                kernels = kernel_size if isinstance(kernel_size, Sequence) else [kernel_size] * rank
                apart = dilation if isinstance(dilation, Sequence) else [dilation] * rank
                padding = tuple((k - 1) // 2 * d for k, d in zip(kernels, apart, strict=True))
        if bias is None:
            bias = norm_layer is None
        layers = [
            conv_layer(
                in_channels,
                out_channels,
                kernel_size,
                stride,
                padding,
                dilation=dilation,
                groups=groups,
                bias=bias,
            )
        ]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(_with_inplace(activation_layer, inplace))
        super().__init__(*layers)
        self.out_channels = out_channels


class Conv2dNormActivation(ConvNormActivation):
    """The block for images."""


class Conv3dNormActivation(ConvNormActivation):
    """The block for volumes."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any = 3, **options: Any) -> None:
        options = {"norm_layer": BatchNorm3d, **options, "conv_layer": Conv3d}
        super().__init__(in_channels, out_channels, kernel_size, **options)


class SqueezeExcitation(Module):
    """Channels weighed by what all of the image says of them (Hu and others, 2018)."""

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: Callable[..., Module] = ReLU,
        scale_activation: Callable[..., Module] = Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool = AdaptiveAvgPool2d(1)
        self.fc1 = Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C, H, W)."""
        scale = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input)))))
        return scale * input


class MLP(Sequential):
    """Linear layers with activations and dropout between them."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: Sequence[int],
        norm_layer: Callable[..., Module] | None = None,
        activation_layer: Callable[..., Module] = ReLU,
        inplace: bool | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        options = {} if inplace is None else {"inplace": inplace}
        layers: list[Module] = []
        width = in_channels
        for hidden in hidden_channels[:-1]:
            layers.append(Linear(width, hidden, bias=bias))
            if norm_layer is not None:
                layers.append(norm_layer(hidden))
            layers += [activation_layer(**options), Dropout(dropout, **options)]
            width = hidden
        layers += [Linear(width, hidden_channels[-1], bias=bias), Dropout(dropout, **options)]
        super().__init__(*layers)


class Permute(Module):
    """The axes in another order."""

    def __init__(self, dims: Sequence[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        """Return the view."""
        return x.permute(*self.dims)


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Drop a branch with probability p: of the whole batch, or (mode "row") of each example; divided by 1 - p else."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}")
    if mode not in ("batch", "row"):
        raise ValueError(f"mode has to be either 'batch' or 'row', but got {mode}")
    if not training or p == 0.0:
        return input
    kept = 1.0 - p
    size = (input.shape[0],) if mode == "row" else (1,)
    noise = creation.empty(
        *size, *(1,) * (input.ndim - 1), dtype=input.dtype, device=input.device
    ).bernoulli_(kept)
    return input * (noise.div_(kept) if kept > 0.0 else noise)


class StochasticDepth(Module):
    """A branch that is dropped by chance while training (Huang and others, 2016)."""

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, input: Tensor) -> Tensor:
        """Drop, or not."""
        return stochastic_depth(input, self.p, self.mode, self.training)

    def __repr__(self) -> str:
        return f"StochasticDepth(p={self.p}, mode={self.mode})"


class FrozenBatchNorm2d(Module):
    """Batch normalisation whose numbers are buffers and never change."""

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", creation.ones(num_features))
        self.register_buffer("bias", creation.zeros(num_features))
        self.register_buffer("running_mean", creation.zeros(num_features))
        self.register_buffer("running_var", creation.ones(num_features))

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C, H, W)."""
        weight, bias, mean, variance = (
            getattr(self, name).reshape(1, -1, 1, 1)
            for name in ("weight", "bias", "running_mean", "running_var")
        )
        scale = weight * (variance + self.eps).rsqrt()
        return x * scale + (bias - mean * scale)

    def __repr__(self) -> str:
        return f"FrozenBatchNorm2d({self.weight.shape[0]}, eps={self.eps})"
