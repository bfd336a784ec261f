"""Layers that learn the number of their inputs from the first input. Enters: a Tensor. Leaves: what the layer gives.

Until then they have no parameters; at the first call they become the ordinary layer, drawn then as PyTorch does.
"""

from __future__ import annotations

from typing import Any

from minitorch.nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from minitorch.nn.linear import Linear
from minitorch.nn.module import Module
from minitorch.nn.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)

__all__ = [
    "DataParallel", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip


class _Lazy(Module):
    """A layer that waits for its first input."""

    cls_to_become: type[Module]
    axis = -1  # of the input, which says how many there are; for images the channels

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self._given = (args, kwargs)

    def forward(self, input: Any, *args: Any, **kwargs: Any) -> Any:
        """Become the ordinary layer, and run it."""
        given, options = self._given
        mode = self.training
        axis = self.axis if self.axis < 0 else input.ndim - self.axis
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        type(self).__init__(self, input.shape[axis], *given, **options)
        self.train(mode)
        return self.forward(input, *args, **kwargs)

    def has_uninitialized_params(self) -> bool:
        """Whether it still waits."""
        return True


def _lazy(name: str, become: type[Module], axis: int, example: str) -> type[_Lazy]:
    """Make the lazy twin of a layer; `axis` counts from the end where it is positive."""
    text = f"{become.__name__} that finds its number of inputs at the first call.\n\n    {example}\n    "
    return type(
        name, (_Lazy,), {"cls_to_become": become, "axis": axis, "__doc__": text, "__module__": __name__}
    )


class LazyLinear(_Lazy):
    """Linear that finds in_features at the first call.

    >>> layer = LazyLinear(5)
    >>> layer(minitorch.ones(2, 3)).shape, layer
    ((2, 5), Linear(in_features=3, out_features=5, bias=True))
    """

    cls_to_become = Linear


LazyConv1d = _lazy(
    "LazyConv1d", Conv1d, 2, ">>> LazyConv1d(4, 3)(minitorch.ones(2, 3, 5)).shape\n    (2, 4, 3)"
)
LazyConv2d = _lazy(
    "LazyConv2d", Conv2d, 3, ">>> LazyConv2d(4, 3)(minitorch.ones(2, 3, 5, 5)).shape\n    (2, 4, 3, 3)"
)
LazyConv3d = _lazy("LazyConv3d", Conv3d, 4, "")
LazyConvTranspose1d = _lazy("LazyConvTranspose1d", ConvTranspose1d, 2, "")
LazyConvTranspose2d = _lazy("LazyConvTranspose2d", ConvTranspose2d, 3, "")
LazyConvTranspose3d = _lazy("LazyConvTranspose3d", ConvTranspose3d, 4, "")


class _LazyChannels(_Lazy):
    """One whose inputs are counted by axis 1."""

    axis = 1

    def forward(self, input: Any, *args: Any, **kwargs: Any) -> Any:
        """Become the ordinary layer, and run it."""
        self.axis = input.ndim - 1
        return super().forward(input, *args, **kwargs)


class _LazyInstance(_LazyChannels):
    """One that learns a scale and keeps running statistics, unlike the ordinary layer, unless told otherwise."""

    def __init__(self, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True, **options: Any) -> None:
        super().__init__(eps, momentum, affine, **{"track_running_stats": True, **options})


def _lazy_channels(name: str, become: type[Module], base: type[_Lazy] = _LazyChannels) -> type[_Lazy]:
    text = f"{become.__name__} that finds num_features at the first call."
    return type(name, (base,), {"cls_to_become": become, "__doc__": text, "__module__": __name__})


LazyBatchNorm1d = _lazy_channels("LazyBatchNorm1d", BatchNorm1d)
LazyBatchNorm2d = _lazy_channels("LazyBatchNorm2d", BatchNorm2d)
LazyBatchNorm3d = _lazy_channels("LazyBatchNorm3d", BatchNorm3d)
LazyInstanceNorm1d = _lazy_channels("LazyInstanceNorm1d", InstanceNorm1d, _LazyInstance)
LazyInstanceNorm2d = _lazy_channels("LazyInstanceNorm2d", InstanceNorm2d, _LazyInstance)
LazyInstanceNorm3d = _lazy_channels("LazyInstanceNorm3d", InstanceNorm3d, _LazyInstance)


class DataParallel(Module):
    """PyTorch's wrapper for several GPUs; with one device it runs the module as it is.

    >>> net = DataParallel(minitorch.nn.Sequential(Linear(2, 3)))
    >>> list(net.state_dict()), net(minitorch.ones(1, 2)).shape
    (['module.0.weight', 'module.0.bias'], (1, 3))
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the module."""
        return self.module(*inputs, **kwargs)
