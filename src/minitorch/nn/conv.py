"""Convolution layers and their transposes; Fold and Unfold.

Enters: Tensors (N, C, d1, …), or (C, d1, …) without a batch. Leaves: Tensors with other channels and sizes.
"""

from __future__ import annotations

import math
from typing import Any

from minitorch import creation
from minitorch.functions import pad
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.functional.conv import sizes
from minitorch.nn.layer import NEEDED, FunctionLayer, takes
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Fold", "Unfold",
]  # fmt: skip

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What the six layers share: their settings, their parameters, and how these start."""

    rank: int
    transposed = False
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        name, rank = type(self).__name__, self.rank
        if groups <= 0:
            raise ValueError(f"{name}: groups must be a positive integer, got {groups}")
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{name}: in_channels ({in_channels}) and out_channels ({out_channels}) must be divisible by "
                f"groups ({groups})"
            )
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"{name}: padding_mode must be one of {_PADDING_MODES}, got {padding_mode!r}")
        if self.transposed and padding_mode != "zeros":
            raise ValueError(f'{name}: only "zeros" padding mode is supported, got {padding_mode!r}')
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = sizes(kernel_size, rank, f"{name}: kernel_size")
        self.stride = sizes(stride, rank, f"{name}: stride")
        self.padding: Any = padding
        if isinstance(padding, str):
            if padding not in ("same", "valid") or self.transposed:
                raise ValueError(f"{name}: padding must be numbers, 'same' or 'valid', got {padding!r}")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError(f"{name}: padding='same' is not supported for strided convolutions")
        else:
            self.padding = sizes(padding, rank, f"{name}: padding")
        self.dilation = sizes(dilation, rank, f"{name}: dilation")
        self.output_padding = (0,) * rank
        self.groups = groups
        self.padding_mode = padding_mode
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first, second // groups, *self.kernel_size)
        self.weight = Parameter(creation.empty(shape, device=device, dtype=dtype))
        shift = Parameter(creation.empty(out_channels, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start anew: weight and bias uniform within ±1/√fan_in, fan_in the inputs of one output."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.shape[1] * math.prod(self.kernel_size)
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def _border(self) -> tuple[int, ...]:
        """Return the padding as F.pad wants it: the last axis first, (before, after) for each."""
        if self.padding == "valid":
            return (0, 0) * self.rank
        pairs = [(p, p) for p in self.padding] if self.padding != "same" else []
        if not pairs:
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            pairs = [(n // 2, n - n // 2) for n in totals]
        return tuple(n for pair in reversed(pairs) for n in pair)

    def forward(self, input: Any) -> Tensor:
        """Convolve: (N, C, d1, …) gives (N, O, d1′, …)."""
        convolve = getattr(F, f"conv{self.rank}d")
        if self.padding_mode == "zeros":
            return convolve(
                input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
            )
        bordered = pad(as_tensor(input), self._border(), mode=self.padding_mode)
        return convolve(bordered, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)

    def extra_repr(self) -> str:
        """Return the settings that are not the default."""
        ones, zeros = (1,) * self.rank, (0,) * self.rank
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != ones:
            text += f", dilation={self.dilation}"
        if self.output_padding != zeros:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class Conv1d(_ConvNd):
    """Slide learned kernels along a signal: (N, C, L) gives (N, O, L′).   See functional.conv1d

    padding: a number, 'same' or 'valid'. padding_mode: what the border is made of, 'zeros', 'reflect',
    'replicate' or 'circular'. groups: channels are cut into so many groups, each with kernels of its own.

    >>> minitorch.nn.Conv1d(3, 8, 5, padding="same")(minitorch.zeros(2, 3, 10)).shape
    (2, 8, 10)
    """

    rank = 1


class Conv2d(_ConvNd):
    """Slide learned kernels over images: (N, C, H, W) gives (N, O, H′, W′).   See functional.conv2d

    >>> layer = minitorch.nn.Conv2d(1, 32, 3, padding=1)
    >>> layer
    Conv2d(1, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
    >>> layer(minitorch.zeros(4, 1, 28, 28)).shape
    (4, 32, 28, 28)
    """

    rank = 2


class Conv3d(_ConvNd):
    """Slide learned kernels through volumes: (N, C, D, H, W).   See functional.conv3d

    >>> minitorch.nn.Conv3d(1, 4, 3, stride=2)(minitorch.zeros(2, 1, 7, 7, 7)).shape
    (2, 4, 3, 3, 3)
    """

    rank = 3


class _ConvTranspose(_ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        self.output_padding = sizes(output_padding, self.rank, f"{type(self).__name__}: output_padding")

    def forward(self, input: Any, output_size: Any = None) -> Tensor:
        """Convolve transposed; output_size chooses among the sizes that a stride leaves possible."""
        x = as_tensor(input)
        extra = self.output_padding if output_size is None else self._extra(x, output_size)
        convolve = getattr(F, f"conv_transpose{self.rank}d")
        return convolve(
            x, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def _extra(self, x: Tensor, output_size: Any) -> tuple[int, ...]:
        """Return the output_padding with which the result has the size asked for."""
        rank = self.rank
        wanted = tuple(int(n) for n in output_size)
        if len(wanted) == x.ndim:
            wanted = wanted[-rank:]
        if len(wanted) != rank:
            raise ValueError(
                f"{type(self).__name__}: output_size must have {rank} or {x.ndim} elements, got {output_size}"
            )
        least = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                x.shape[-rank:], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        )
        extra = tuple(n - low for n, low in zip(wanted, least, strict=True))
        if any(not 0 <= e < s for e, s in zip(extra, self.stride, strict=True)):
            most = tuple(low + s - 1 for low, s in zip(least, self.stride, strict=True))
            raise ValueError(
                f"{type(self).__name__}: requested an output size of {wanted}, but valid sizes range from {least} "
                f"to {most} for an input of size {tuple(x.shape[-rank:])}"
            )
        return extra


class ConvTranspose1d(_ConvTranspose):
    """Lay learned kernels down along a signal: (N, C, L) gives (N, O, L′).   See functional.conv_transpose1d

    >>> minitorch.nn.ConvTranspose1d(8, 3, 4, stride=2)(minitorch.zeros(2, 8, 5)).shape
    (2, 3, 12)
    """

    rank = 1


class ConvTranspose2d(_ConvTranspose):
    """Lay learned kernels down over images, to make them larger.   See functional.conv_transpose2d

    >>> up = minitorch.nn.ConvTranspose2d(8, 3, 3, stride=2, padding=1)
    >>> up(minitorch.zeros(2, 8, 14, 14), output_size=(28, 28)).shape
    (2, 3, 28, 28)
    """

    rank = 2


class ConvTranspose3d(_ConvTranspose):
    """Lay learned kernels down through volumes.   See functional.conv_transpose3d

    >>> minitorch.nn.ConvTranspose3d(2, 3, 2, stride=2)(minitorch.zeros(1, 2, 3, 3, 3)).shape
    (1, 3, 6, 6, 6)
    """

    rank = 3


class Unfold(FunctionLayer):
    """Cut images into windows, one column each.   See functional.unfold

    >>> minitorch.nn.Unfold(3)(minitorch.zeros(2, 4, 5, 5)).shape
    (2, 36, 9)
    """

    _function = staticmethod(F.unfold)
    _arguments = takes(kernel_size=NEEDED, dilation=1, padding=0, stride=1)
    _shown = ("kernel_size", "dilation", "padding", "stride")

    def forward(self, input: Any) -> Tensor:
        """Return the windows: (N, C·K1·K2, windows)."""
        return self._run(input)


class Fold(FunctionLayer):
    """Add windows back into images of a given size.   See functional.fold

    >>> minitorch.nn.Fold((5, 5), 3)(minitorch.zeros(2, 36, 9)).shape
    (2, 4, 5, 5)
    """

    _function = staticmethod(F.fold)
    _arguments = takes(output_size=NEEDED, kernel_size=NEEDED, dilation=1, padding=0, stride=1)
    _shown = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def forward(self, input: Any) -> Tensor:
        """Return the images: (N, C, *output_size)."""
        return self._run(input)
