"""Dropout layers: they drop while training, and do nothing after eval(). Enters: activations. Leaves: activations."""

from __future__ import annotations

from minitorch.engine.recording import changeable
from minitorch.nn import functional as F
from minitorch.nn.layer import FunctionLayer
from minitorch.tensor import Tensor

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(FunctionLayer):
    _shown = ("p", "inplace")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: the probability p must be between 0 and 1, got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Drop elements, or channels."""
        return self._function(input, changeable(self, "p"), self.training, self.inplace)


class Dropout(_Dropout):
    """Set elements to 0 with probability p while training, and divide the others by 1 - p.

    >>> layer = Dropout(0.5); layer.eval()(minitorch.ones(2))
    tensor([1., 1.])
    """

    _function = staticmethod(F.dropout)


class Dropout1d(_Dropout):
    """Drop whole channels of (N, C, L) or (C, L).

    >>> Dropout1d(1.0)(minitorch.ones(2, 3)).sum()
    tensor(0.)
    """

    _function = staticmethod(F.dropout1d)


class Dropout2d(_Dropout):
    """Drop whole channels of (N, C, H, W).

    >>> Dropout2d(1.0)(minitorch.ones(1, 2, 2, 2)).sum()
    tensor(0.)
    """

    _function = staticmethod(F.dropout2d)


class Dropout3d(_Dropout):
    """Drop whole channels of (N, C, D, H, W) or (C, D, H, W).

    >>> Dropout3d(1.0)(minitorch.ones(2, 1, 1, 1)).sum()
    tensor(0.)
    """

    _function = staticmethod(F.dropout3d)


class AlphaDropout(_Dropout):
    """Drop for selu: mean 0 and variance 1 are kept.

    >>> layer = AlphaDropout(0.1); layer.eval()(minitorch.ones(2))
    tensor([1., 1.])
    """

    _function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """Drop for selu, whole channels (axis 1) at once.

    >>> layer = FeatureAlphaDropout(0.1); layer.eval()(minitorch.ones(1, 2))
    tensor([[1., 1.]])
    """

    _function = staticmethod(F.feature_alpha_dropout)
