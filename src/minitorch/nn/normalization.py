"""Normalisation layers. Enters: activations. Leaves: activations of mean 0 and variance 1, scaled and shifted.

Which axes are normalised together is what tells them apart; see nn/functional/normalization.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitorch import creation
from minitorch.engine.recording import number
from minitorch.engine.watch import touch
from minitorch.functions import stack
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.layer import NEEDED, FunctionLayer, takes
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.ops.native import is_of_device, update_there
from minitorch.tensor import Tensor

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "CrossMapLRN2d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "LocalResponseNorm", "RMSNorm",
]  # fmt: skip


class _Norm(Module):
    """What the layers share: a scale and a shift."""

    def _scale_and_shift(self, shape: Any, weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        """Make the learned weight (ones) and bias (zeros), or put None in their places."""
        for name, wanted, make in (("weight", weight, creation.ones), ("bias", bias, creation.zeros)):
            made = Parameter(make(shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)

    def reset_parameters(self) -> None:
        """Set weight to 1 and bias to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _ChannelNorm(_Norm):
    """What batch and instance norm share: a scale and shift per channel, and running statistics."""

    _version = 2
    _ranks: tuple[int, ...] = ()  # how many axes an input may have
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._scale_and_shift(num_features, affine, affine and bias, device, dtype)
        if track_running_stats:
            self.register_buffer("running_mean", creation.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", creation.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", creation.tensor(0, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)

    def reset_running_stats(self) -> None:
        """Forget the running mean and variance."""
        if self.running_mean is not None and self.running_var is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]

    def reset_parameters(self) -> None:
        """Forget the running statistics, and set weight to 1 and bias to 0."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self._ranks:
            expected = " or ".join(f"{n}D" for n in self._ranks)
            raise ValueError(f"{type(self).__name__}: expected {expected} input (got {input.ndim}D input)")

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        # State dicts from before there was a counter have none, and plain dictionaries need none.
        key = f"{prefix}num_batches_tracked"
        version = local_metadata.get("version")
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            state_dict[key] = self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        """Return the sizes and options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


def _count(batches: Tensor) -> None:
    """Make a number of batches one more, in place."""
    if is_of_device(batches._data):  # one launch, instead of a sum's and of a copy's
        update_there(_one_more, [[batches._data]], ())
        touch(batches._data, "x.add_(y)")
    else:
        batches.add_(1)


def _one_more(arrays: list[Any], _: tuple[Any, ...]) -> None:
    (count,) = arrays
    count += 1


class _BatchNorm(_ChannelNorm):
    def forward(self, input: Tensor) -> Tensor:
        """Normalise each channel over the batch while training, by the running statistics after eval()."""
        self._check_input_dim(input)
        if input.shape[1] != self.num_features:
            raise RuntimeError(
                f"{type(self).__name__}: an input of shape {input.shape} has {input.shape[1]} channels (axis 1), "
                f"but num_features is {self.num_features}"
            )
        share = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            _count(self.num_batches_tracked)
            if self.momentum is None:  # the plain average of all batches so far
                share = 1.0 / number(self.num_batches_tracked._data)
        own = self.training or (self.running_mean is None and self.running_var is None)
        remember = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if remember else None,
            self.running_var if remember else None,
            self.weight,
            self.bias,
            own,
            share,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalise each channel of (N, C) or (N, C, L) over the batch and all positions.

    y = (x - mean) / √(var + eps) · weight + bias. After eval() the running mean and variance are used.
    momentum: how far the running ones move towards each batch's; None keeps the plain average.

    >>> layer = BatchNorm1d(5)
    >>> layer(minitorch.randn(8, 5)).shape
    (8, 5)
    """

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalise each channel of (N, C, H, W) over the batch and all positions. See BatchNorm1d.

    >>> BatchNorm2d(3)(minitorch.randn(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalise each channel of (N, C, D, H, W) over the batch and all positions. See BatchNorm1d.

    >>> BatchNorm3d(3)(minitorch.randn(2, 3, 2, 2, 2)).shape
    (2, 3, 2, 2, 2)
    """

    _ranks = (5,)


class _InstanceNorm(_ChannelNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise each channel of each sample."""
        self._check_input_dim(input)
        single = input.ndim == min(self._ranks)  # one sample, without a batch axis
        x = input.unsqueeze(0) if single else input
        if x.shape[1] != self.num_features and self.affine:
            raise ValueError(
                f"expected input's size at dim={0 if single else 1} to match num_features ({self.num_features}), "
                f"but got: {x.shape[1]}."
            )
        out = F.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out.squeeze(0) if single else out


class InstanceNorm1d(_InstanceNorm):
    """Normalise each channel of each sample of (N, C, L) or (C, L) over its positions.

    >>> InstanceNorm1d(3)(minitorch.randn(2, 3, 5)).shape
    (2, 3, 5)
    """

    _ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalise each channel of each sample of (N, C, H, W) or (C, H, W) over its positions.

    >>> InstanceNorm2d(3)(minitorch.randn(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    _ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalise each channel of each sample of (N, C, D, H, W) or (C, D, H, W) over its positions.

    >>> InstanceNorm3d(3)(minitorch.randn(2, 3, 2, 2, 2)).shape
    (2, 3, 2, 2, 2)
    """

    _ranks = (4, 5)


def _as_shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(_Norm):
    """Normalise each sample over its last axes: y = (x - mean) / √(var + eps) · weight + bias.

    normalized_shape: the lengths of these axes; weight and bias have this shape.

    >>> LayerNorm(8)(minitorch.randn(2, 5, 8)).shape
    (2, 5, 8)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._scale_and_shift(
            self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype
        )

    def forward(self, input: Tensor) -> Tensor:
        """Normalise over the last axes."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the shape and options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide each sample by the root of its mean square over the last axes, and scale it.

    eps: the smallest step of the dtype if None.

    >>> RMSNorm(8)(minitorch.randn(2, 5, 8)).shape
    (2, 5, 8)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        made = creation.ones(self.normalized_shape, device=device, dtype=dtype)
        self.register_parameter("weight", Parameter(made) if elementwise_affine else None)

    def reset_parameters(self) -> None:
        """Set weight to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Divide by the root of the mean square."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the shape and options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Norm):
    """Normalise each sample's channels (axis 1) in num_groups groups; scale and shift each channel.

    >>> GroupNorm(2, 6)(minitorch.randn(4, 6, 5)).shape
    (4, 6, 5)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"GroupNorm: num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._scale_and_shift(num_channels, affine, affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise each group of channels."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the sizes and options."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class CrossMapLRN2d(Module):
    """LocalResponseNorm as Torch 7 had it, of images (N, C, H, W): the first channel counts for all far from it.

    (So does PyTorch's; the derivative here is the one of that function, where PyTorch's is of another.)

    >>> CrossMapLRN2d(3)(minitorch.ones(1, 4, 2, 2)).shape
    (1, 4, 2, 2)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """Divide by what the neighbours amount to."""
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        reach = int((self.size - 1) / 2)
        sums = []
        for channel in range(input.shape[1]):
            first = max(channel - reach, 0)
            near = (input[:, first : channel + reach + 1] ** 2).sum(dim=1)
            sums.append(near if channel <= reach else near + input[:, 0] ** 2)
        scale = stack(sums, 1) * (self.alpha / self.size) + self.k
        return input * scale**-self.beta

    def extra_repr(self) -> str:
        """Return the options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(FunctionLayer):
    """x / (k + α·mean of x² over `size` neighbouring channels)^β.

    >>> LocalResponseNorm(2)(minitorch.randn(1, 4, 3, 3)).shape
    (1, 4, 3, 3)
    """

    _function = staticmethod(F.local_response_norm)
    _arguments = takes(size=NEEDED, alpha=1e-4, beta=0.75, k=1.0)

    def forward(self, input: Tensor) -> Tensor:
        """Divide by what the neighbours amount to."""
        return self._run(input)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
