"""Pooling layers: they have settings, but nothing to learn. See nn/functional/pooling.py.

Enters: Tensors (N, C, d1, …), or (C, d1, …) without a batch. Leaves: Tensors with smaller d1, ….
"""

from __future__ import annotations

from typing import Any

from minitorch.nn import functional as F
from minitorch.nn.functional.conv import sizes
from minitorch.nn.layer import NEEDED, RankedLayer, takes
from minitorch.nn.module import Module
from minitorch.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d",
    "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d",
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


class _Pool(RankedLayer):
    def _keep(self, **settings: Any) -> None:
        if "stride" in settings and settings["stride"] is None:
            settings["stride"] = settings["kernel_size"]
        super()._keep(**settings)

    def forward(self, input: Any) -> Any:
        """Pool; see the function of nn.functional."""
        function = self._functions[self.rank - 1]
        return function(input, **{name: getattr(self, name) for name in self._settings})


class _MaxPool(_Pool):
    _functions = (F.max_pool1d, F.max_pool2d, F.max_pool3d)
    _arguments = takes(
        kernel_size=NEEDED, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False
    )
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPool):
    """The largest element of each window of (N, C, L).   See functional.max_pool1d

    >>> MaxPool1d(2)(minitorch.tensor([[1.0, 3.0, 2.0, 2.0]]))
    tensor([[3., 2.]])
    """

    rank = 1


class MaxPool2d(_MaxPool):
    """The largest element of each window of (N, C, H, W).   See functional.max_pool2d

    >>> MaxPool2d(2)(minitorch.zeros(4, 32, 28, 28)).shape
    (4, 32, 14, 14)
    """

    rank = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window of (N, C, D, H, W).   See functional.max_pool3d

    >>> MaxPool3d(2)(minitorch.zeros(1, 2, 4, 4, 4)).shape
    (1, 2, 2, 2, 2)
    """

    rank = 3


class _MaxUnpool(RankedLayer):
    _functions = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)
    _shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        name = type(self).__name__
        self.kernel_size = sizes(kernel_size, self.rank, f"{name}: kernel_size")
        self.stride = sizes(kernel_size if stride is None else stride, self.rank, f"{name}: stride")
        self.padding = sizes(padding, self.rank, f"{name}: padding")

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Tensor:
        """Put each element at its index into zeros."""
        return self._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpool):
    """Put what MaxPool1d took back to where it was.   See functional.max_unpool1d

    >>> MaxUnpool1d(2)(minitorch.tensor([[3.0, 2.0]]), minitorch.tensor([[1, 2]]))
    tensor([[0., 3., 2., 0.]])
    """

    rank = 1


class MaxUnpool2d(_MaxUnpool):
    """Put what MaxPool2d took back to where it was.   See functional.max_unpool2d

    >>> pooled, places = MaxPool2d(2, return_indices=True)(minitorch.rand(1, 4, 4))
    >>> MaxUnpool2d(2)(pooled, places).shape
    (1, 4, 4)
    """

    rank = 2


class MaxUnpool3d(_MaxUnpool):
    """Put what MaxPool3d took back to where it was.   See functional.max_unpool3d

    >>> pooled, places = MaxPool3d(2, return_indices=True)(minitorch.rand(1, 4, 4, 4))
    >>> MaxUnpool3d(2)(pooled, places).shape
    (1, 4, 4, 4)
    """

    rank = 3


_AVERAGES: dict[str, Any] = {
    "kernel_size": NEEDED,
    "stride": None,
    "padding": 0,
    "ceil_mode": False,
    "count_include_pad": True,
}


class _AvgPool(_Pool):
    _functions = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
    _arguments = takes(**_AVERAGES)
    _shown = ("kernel_size", "stride", "padding")


class AvgPool1d(_AvgPool):
    """The mean of each window of (N, C, L).   See functional.avg_pool1d

    >>> AvgPool1d(2)(minitorch.tensor([[1.0, 3.0, 2.0, 2.0]]))
    tensor([[2., 2.]])
    """

    rank = 1

    def _keep(self, **settings: Any) -> None:
        super()._keep(**settings)
        for name in self._shown:
            setattr(self, name, sizes(getattr(self, name), 1, f"AvgPool1d: {name}"))


class _AvgPoolNd(_AvgPool):
    _arguments = takes(**_AVERAGES, divisor_override=None)


class AvgPool2d(_AvgPoolNd):
    """The mean of each window of (N, C, H, W).   See functional.avg_pool2d

    >>> AvgPool2d(3, stride=2)(minitorch.zeros(4, 32, 7, 7)).shape
    (4, 32, 3, 3)
    """

    rank = 2


class AvgPool3d(_AvgPoolNd):
    """The mean of each window of (N, C, D, H, W).   See functional.avg_pool3d

    >>> AvgPool3d(2)(minitorch.zeros(1, 2, 4, 4, 4)).shape
    (1, 2, 2, 2, 2)
    """

    rank = 3


class _AdaptiveAvgPool(_Pool):
    _functions = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
    _arguments = takes(output_size=NEEDED)
    _shown = ("output_size",)


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The means of a fixed number of regions of (N, C, L).   See functional.adaptive_avg_pool1d

    >>> AdaptiveAvgPool1d(5)(minitorch.zeros(1, 64, 8)).shape
    (1, 64, 5)
    """

    rank = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The means of a fixed number of regions of (N, C, H, W); 1 is the mean of the image.

    >>> AdaptiveAvgPool2d((1, 1))(minitorch.zeros(4, 64, 7, 7)).shape
    (4, 64, 1, 1)
    """

    rank = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The means of a fixed number of regions of (N, C, D, H, W).

    >>> AdaptiveAvgPool3d((2, None, 1))(minitorch.zeros(1, 3, 5, 4, 3)).shape
    (1, 3, 2, 4, 1)
    """

    rank = 3


class _AdaptiveMaxPool(_Pool):
    _functions = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)
    _arguments = takes(output_size=NEEDED, return_indices=False)
    _shown = ("output_size",)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest of each of a fixed number of regions of (N, C, L).

    >>> AdaptiveMaxPool1d(5)(minitorch.zeros(1, 64, 8)).shape
    (1, 64, 5)
    """

    rank = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest of each of a fixed number of regions of (N, C, H, W).

    >>> AdaptiveMaxPool2d((5, None))(minitorch.zeros(1, 64, 8, 9)).shape
    (1, 64, 5, 9)
    """

    rank = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest of each of a fixed number of regions of (N, C, D, H, W).

    >>> AdaptiveMaxPool3d(2)(minitorch.zeros(1, 3, 5, 4, 3)).shape
    (1, 3, 2, 2, 2)
    """

    rank = 3


class _LPPool(_Pool):
    _functions = (F.lp_pool1d, F.lp_pool2d, F.lp_pool3d)
    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Any) -> Tensor:
        """Return the p-norm of each window."""
        norm = float(self.norm_type)
        return self._function(input, norm, self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPool):
    """The p-norm of each window of (N, C, L).   See functional.lp_pool1d

    >>> LPPool1d(2, 2)(minitorch.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """

    rank = 1


class LPPool2d(_LPPool):
    """The p-norm of each window of (N, C, H, W).   See functional.lp_pool2d

    >>> LPPool2d(2, 2)(minitorch.ones(1, 2, 2))
    tensor([[[2.]]])
    """

    rank = 2


class LPPool3d(_LPPool):
    """The p-norm of each window of (N, C, D, H, W).   See functional.lp_pool3d

    >>> LPPool3d(1, 2)(minitorch.ones(1, 2, 2, 2))
    tensor([[[[8.]]]])
    """

    rank = 3


class _FractionalMaxPool(Module):
    rank: int
    _function: Any

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name, several = type(self).__name__, (list, tuple)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        self.kernel_size = sizes(kernel_size, self.rank, f"{name}: kernel_size")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = (
            None if output_size is None else sizes(output_size, self.rank, f"{name}: output_size")
        )
        self.output_ratio = output_ratio
        if output_ratio is not None:
            if not isinstance(output_ratio, several):
                self.output_ratio = (output_ratio,) * self.rank
            if not all(0 < ratio < 1 for ratio in self.output_ratio):
                raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """Pool; see the function of nn.functional."""
        return self._function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest element of windows at random distances.   See functional.fractional_max_pool2d

    >>> FractionalMaxPool2d(2, output_ratio=0.5)(minitorch.ones(1, 2, 8, 8)).shape
    (1, 2, 4, 4)
    """

    rank = 2
    _function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest element of windows at random distances.   See functional.fractional_max_pool3d

    >>> FractionalMaxPool3d(2, output_size=3)(minitorch.ones(1, 2, 8, 8, 6)).shape
    (1, 2, 3, 3, 3)
    """

    rank = 3
    _function = staticmethod(F.fractional_max_pool3d)
