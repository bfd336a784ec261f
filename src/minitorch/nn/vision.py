"""Layers that resize, rearrange or frame images: Upsample, PixelShuffle, the padding layers. Nothing to learn.

Enters: Tensors (N, C, d1, …). Leaves: Tensors of the same elements, copied, mixed or framed.
"""

from __future__ import annotations

from typing import Any

from minitorch.functions import pad
from minitorch.nn import functional as F
from minitorch.nn.functional.conv import sizes
from minitorch.nn.layer import NEEDED, FunctionLayer, takes
from minitorch.nn.module import Module
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor

__all__ = [
    "ChannelShuffle", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "PixelShuffle", "PixelUnshuffle", "ReflectionPad1d", "ReflectionPad2d",
    "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "Upsample",
    "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class Upsample(FunctionLayer):
    """Make images larger (or smaller) by a factor or to a size.   See functional.interpolate

    >>> Upsample(scale_factor=2)(minitorch.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    """

    _function = staticmethod(F.interpolate)
    _arguments = takes(
        size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None
    )

    def _keep(self, **settings: Any) -> None:
        factor = settings.pop("scale_factor")
        if isinstance(factor, (tuple, list)):
            factor = tuple(float(each) for each in factor)
        else:
            factor = float(factor) if factor else None
        super()._keep(name=type(self).__name__, scale_factor=factor, **settings)

    def forward(self, input: Any) -> Tensor:
        """Return the images at their new size."""
        return self._run(input)

    def extra_repr(self) -> str:
        """Return the size or factor, and the mode."""
        goal = (
            f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        )
        return f"{goal}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Make images larger by copying.   See functional.interpolate, mode 'nearest'

    >>> UpsamplingNearest2d(scale_factor=2)(minitorch.zeros(1, 1, 2, 3)).shape
    (1, 1, 4, 6)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Make images larger by mixing neighbours, corners kept.   See functional.interpolate, mode 'bilinear'

    >>> UpsamplingBilinear2d(size=(1, 3))(minitorch.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(FunctionLayer):
    """Make r² channels one at r times the resolution.   See functional.pixel_shuffle

    >>> PixelShuffle(2)(minitorch.zeros(1, 8, 3, 4)).shape
    (1, 2, 6, 8)
    """

    _function = staticmethod(F.pixel_shuffle)
    _arguments = takes(upscale_factor=NEEDED)
    _shown = ("upscale_factor",)

    def forward(self, input: Any) -> Tensor:
        """(…, C·r², H, W) → (…, C, H·r, W·r)."""
        return self._run(input)


class PixelUnshuffle(FunctionLayer):
    """Make r × r pixels r² channels.   See functional.pixel_unshuffle

    >>> PixelUnshuffle(2)(minitorch.zeros(1, 2, 6, 8)).shape
    (1, 8, 3, 4)
    """

    _function = staticmethod(F.pixel_unshuffle)
    _arguments = takes(downscale_factor=NEEDED)
    _shown = ("downscale_factor",)

    def forward(self, input: Any) -> Tensor:
        """(…, C, H·r, W·r) → (…, C·r², H, W)."""
        return self._run(input)


class ChannelShuffle(FunctionLayer):
    """Deal the channels out again, one of each group in turn.   See functional.channel_shuffle

    >>> ChannelShuffle(2)(minitorch.arange(4.0).reshape(1, 4, 1)).reshape(-1)
    tensor([0., 2., 1., 3.])
    """

    _function = staticmethod(F.channel_shuffle)
    _arguments = takes(groups=NEEDED)
    _shown = ("groups",)

    def forward(self, input: Any) -> Tensor:
        """Return the same channels in another order."""
        return self._run(input)


# --- padding --------------------------------------------------------------------------------------


class _Pad(Module):
    """A border around the last `rank` axes; padding is one number, or (left, right, top, bottom, …)."""

    rank: int
    mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = sizes(padding, 2 * self.rank, f"{type(self).__name__}: padding")

    def forward(self, input: Any) -> Tensor:
        """Return the framed images."""
        x = as_tensor(input)
        if x.ndim not in (self.rank + 1, self.rank + 2):
            raise RuntimeError(
                f"{type(self).__name__}: expected input with {self.rank + 1} or {self.rank + 2} axes, got shape "
                f"{tuple(x.shape)}"
            )
        return pad(x, self.padding, mode=self.mode)

    def extra_repr(self) -> str:
        """Return the widths."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Tensor:
        """Return the framed images."""
        return pad(input, self.padding, mode="constant", value=self.value)

    def extra_repr(self) -> str:
        """Return the widths and the value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Add a border of one value to the last axis; negative widths cut off.

    >>> ConstantPad1d((1, 2), 9.0)(minitorch.zeros(1, 1))
    tensor([[9., 0., 9., 9.]])
    """

    rank = 1


class ConstantPad2d(_ConstantPad):
    """Add a border of one value to the last two axes: (left, right, top, bottom).

    >>> ConstantPad2d(1, 9.0)(minitorch.zeros(1, 1))
    tensor([[9., 9., 9.],
            [9., 0., 9.],
            [9., 9., 9.]])
    """

    rank = 2


class ConstantPad3d(_ConstantPad):
    """Add a border of one value to the last three axes.

    >>> ConstantPad3d(1, 9.0)(minitorch.zeros(1, 2, 3)).shape
    (3, 4, 5)
    """

    rank = 3


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Return the widths."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad):
    """Add zeros to the last axis.

    >>> ZeroPad1d(1)(minitorch.ones(1, 1))
    tensor([[0., 1., 0.]])
    """

    rank = 1


class ZeroPad2d(_ZeroPad):
    """Add zeros around the last two axes: (left, right, top, bottom).

    >>> ZeroPad2d((1, 0, 0, 0))(minitorch.ones(1, 1))
    tensor([[0., 1.]])
    """

    rank = 2


class ZeroPad3d(_ZeroPad):
    """Add zeros around the last three axes.

    >>> ZeroPad3d(1)(minitorch.ones(1, 2, 3)).shape
    (3, 4, 5)
    """

    rank = 3


class _ReflectionPad(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """Continue (N, C, L) as in a mirror at its first and last element.

    >>> ReflectionPad1d(2)(minitorch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """

    rank = 1


class ReflectionPad2d(_ReflectionPad):
    """Continue (N, C, H, W) as in mirrors at its edges.

    >>> ReflectionPad2d(1)(minitorch.zeros(1, 3, 3)).shape
    (1, 5, 5)
    """

    rank = 2


class ReflectionPad3d(_ReflectionPad):
    """Continue (N, C, D, H, W) as in mirrors at its faces.

    >>> ReflectionPad3d(1)(minitorch.zeros(1, 3, 3, 3)).shape
    (1, 5, 5, 5)
    """

    rank = 3


class _ReplicationPad(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPad):
    """Continue (N, C, L) with its first and last element.

    >>> ReplicationPad1d(2)(minitorch.tensor([[1.0, 2.0]]))
    tensor([[1., 1., 1., 2., 2., 2.]])
    """

    rank = 1


class ReplicationPad2d(_ReplicationPad):
    """Continue (N, C, H, W) with its edges.

    >>> ReplicationPad2d(1)(minitorch.zeros(1, 3, 3)).shape
    (1, 5, 5)
    """

    rank = 2


class ReplicationPad3d(_ReplicationPad):
    """Continue (N, C, D, H, W) with its faces.

    >>> ReplicationPad3d(1)(minitorch.zeros(1, 3, 3, 3)).shape
    (1, 5, 5, 5)
    """

    rank = 3


class _CircularPad(_Pad):
    mode = "circular"


class CircularPad1d(_CircularPad):
    """Continue (N, C, L) with itself, as on a ring.

    >>> CircularPad1d(1)(minitorch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1.]])
    """

    rank = 1


class CircularPad2d(_CircularPad):
    """Continue (N, C, H, W) with itself, as on a torus.

    >>> CircularPad2d(1)(minitorch.zeros(1, 3, 3)).shape
    (1, 5, 5)
    """

    rank = 2


class CircularPad3d(_CircularPad):
    """Continue (N, C, D, H, W) with itself.

    >>> CircularPad3d(1)(minitorch.zeros(1, 3, 3, 3)).shape
    (1, 5, 5, 5)
    """

    rank = 3
