"""Invertible maps of samples, with the logarithm of their slope. Enters: a Tensor. Leaves: a Tensor, and back."""

from __future__ import annotations

import math
from typing import Any

from minitorch.distributions import constraints
from minitorch.nn.functional import softplus
from minitorch.tensor import Tensor


class Transform:
    """y = f(x), elementwise and invertible. cache_size=1 remembers the last pair: inv(f(x)) is then x itself."""

    bijective = True
    domain = codomain = constraints.real
    sign = 1

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._last: tuple[Any, Any] = (None, None)

    def __call__(self, x: Tensor) -> Tensor:
        """Return f(x)."""
        if self._cache_size == 0:
            return self._call(x)
        if x is self._last[0]:
            return self._last[1]
        y = self._call(x)
        self._last = (x, y)
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        if y is self._last[1]:
            return self._last[0]
        x = self._inverse(y)
        self._last = (x, y)
        return x

    @property
    def inv(self) -> Transform:
        """The inverse, as a transform."""
        return _Inverse(self)

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy/dx|, element by element."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, of: Transform) -> None:
        super().__init__()
        self._of = of
        self.domain, self.codomain, self.sign = of.codomain, of.domain, of.sign

    def __call__(self, x: Tensor) -> Tensor:
        return self._of._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._of(y)

    @property
    def inv(self) -> Transform:
        return self._of

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._of.log_abs_det_jacobian(y, x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Inverse) and self._of == other._of

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Inverse({self._of!r})"


class ComposeTransform(Transform):
    """Several transforms, one after the other.

    >>> from minitorch import tensor
    >>> ComposeTransform([AffineTransform(1.0, 2.0), ExpTransform()])(tensor(0.0))
    tensor(2.7183)
    """

    def __init__(self, parts: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        if self.parts:
            self.domain, self.codomain = self.parts[0].domain, self.parts[-1].codomain
            self.sign = math.prod(p.sign for p in self.parts)

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum of the parts'."""
        total: Any = 0.0
        for part in self.parts:
            following = part(x)
            total = total + part.log_abs_det_jacobian(x, following)
            x = following
        return x * 0 if not self.parts else total

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts!r})"


class AffineTransform(Transform):
    """loc + scale·x.

    >>> from minitorch import tensor
    >>> AffineTransform(1.0, 2.0)(tensor(3.0)), AffineTransform(1.0, 2.0).inv(tensor(7.0))
    (tensor(7.), tensor(3.))
    """

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        if event_dim:
            raise NotImplementedError("AffineTransform: event_dim must be 0; wrap the result in Independent")
        self.loc, self.scale = loc, scale

    @property
    def sign(self) -> Any:  # type: ignore[override]
        """Whether it rises or falls."""
        return self.scale.sign() if isinstance(self.scale, Tensor) else math.copysign(1, self.scale)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |scale|."""
        if isinstance(self.scale, Tensor):
            return self.scale.abs().log().expand(x.shape)
        return x.new_full(x.shape, math.log(abs(self.scale)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineTransform)
            and bool(self.loc == other.loc)
            and bool(self.scale == other.scale)
        )

    __hash__ = object.__hash__


class ExpTransform(Transform):
    """eˣ."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """x."""
        return x


class SigmoidTransform(Transform):
    """1 / (1 + e⁻ˣ)."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return x.sigmoid()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-softplus(-x) - softplus(x)."""
        return -softplus(-x) - softplus(x)


class TanhTransform(Transform):
    """tanh x: samples between -1 and 1, as policies for bounded actions need."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log(1 - tanh² x), written so that it does not become log 0 far out."""
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class SoftplusTransform(Transform):
    """log(1 + eˣ)."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-softplus(-x)."""
        return -softplus(-x)


identity_transform = ComposeTransform([])
