"""Invertible maps of samples, with the logarithm of their slope. Enters: a Tensor. Leaves: a Tensor, and back.

A map's domain and codomain are constraints; their event_dim says how many last axes it takes and gives as one value,
and log_abs_det_jacobian leaves these out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch import creation
from minitorch.distributions import constraints
from minitorch.distributions.constraints import Constraint
from minitorch.distributions.distribution import Distribution, sum_rightmost
from minitorch.engine.dtypes import finfo
from minitorch.functions import pad
from minitorch.nn.functional import logsigmoid, softplus
from minitorch.tensor import Tensor
from minitorch.tensor.convert import common_shape
from minitorch.tensor.methods.joining import cat, stack


class Transform:
    """y = f(x), invertible. cache_size=1 remembers the last pair: inv(f(x)) is then x itself."""

    bijective: Any = False
    domain: Any = constraints.real
    codomain: Any = constraints.real

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._last: tuple[Any, Any] = (None, None)

    @property
    def event_dim(self) -> int:
        """How many last axes are one value, where it takes as many as it gives."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def sign(self) -> Any:
        """Whether it rises (1) or falls (-1)."""
        raise NotImplementedError(f"{type(self).__name__} does not only rise or only fall")

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

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same transform, that remembers its last pair."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        Transform.__init__(new, cache_size)
        return new

    @property
    def inv(self) -> Transform:
        """The inverse, as a transform."""
        return _Inverse(self)

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy/dx|, of one value."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def forward_shape(self, shape: Any) -> Any:
        """The shape of f(x), given x's."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of x, given f(x)'s."""
        return shape

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Rising(Transform):
    """Element by element, ever rising; all of a kind are equal."""

    bijective = True
    sign = 1

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__


class _Inverse(Transform):
    def __init__(self, of: Transform) -> None:
        super().__init__()
        self._of = of

    @property
    def bijective(self) -> bool:
        return self._of.bijective

    @property
    def domain(self) -> Constraint:
        return self._of.codomain

    @property
    def codomain(self) -> Constraint:
        return self._of.domain

    @property
    def sign(self) -> Any:
        return self._of.sign

    def __call__(self, x: Tensor) -> Tensor:
        return self._of._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._of(y)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return _Inverse(self._of.with_cache(cache_size))

    @property
    def inv(self) -> Transform:
        return self._of

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._of.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._of.forward_shape(shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Inverse) and self._of == other._of

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"_InverseTransform({self._of!r})"


def _with_event_dim(constraint: Constraint, event_dim: int) -> Constraint:
    more = event_dim - constraint.event_dim
    return constraints.independent(constraint, more) if more else constraint


class ComposeTransform(Transform):
    """Several transforms, one after the other.

    >>> from minitorch import tensor
    >>> ComposeTransform([AffineTransform(1.0, 2.0), ExpTransform()])(tensor(0.0))
    tensor(2.7183)
    """

    def __init__(self, parts: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    @property
    def bijective(self) -> bool:
        """Whether every part is."""
        return all(p.bijective for p in self.parts)

    @property
    def domain(self) -> Constraint:
        """What the first takes, with as many axes as any needs."""
        if not self.parts:
            return constraints.real
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim = max(
                event_dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim
            )
        return _with_event_dim(self.parts[0].domain, event_dim)

    @property
    def codomain(self) -> Constraint:
        """What the last gives, with as many axes as any gives."""
        if not self.parts:
            return constraints.real
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim = max(
                event_dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim
            )
        return _with_event_dim(self.parts[-1].codomain, event_dim)

    @property
    def sign(self) -> Any:
        """Whether it rises (1) or falls (-1)."""
        return math.prod(p.sign for p in self.parts)

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def with_cache(self, cache_size: int = 1) -> ComposeTransform:
        """The same, whose parts remember."""
        return ComposeTransform(self.parts, cache_size)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum of the parts'."""
        if not self.parts:
            return creation.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        total: Any = 0.0
        event_dim = self.domain.event_dim
        for part, before, after in zip(self.parts, values, values[1:], strict=False):
            slope = part.log_abs_det_jacobian(before, after)
            total = total + sum_rightmost(slope, event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Any) -> Any:
        """The shape of f(x), given x's."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of x, given f(x)'s."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        inside = ",\n    ".join(repr(p) for p in self.parts)
        return f"ComposeTransform(\n    {inside}\n)"


class IndependentTransform(Transform):
    """A transform of which more last axes are one value.

    >>> from minitorch import zeros
    >>> IndependentTransform(ExpTransform(), 1).log_abs_det_jacobian(zeros(2, 3), zeros(2, 3)).shape
    (2,)
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def bijective(self) -> bool:
        """Whether it can be undone."""
        return self.base_transform.bijective

    @property
    def domain(self) -> Constraint:
        """What it takes."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Constraint:
        """What it gives."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def sign(self) -> Any:
        """Whether it rises (1) or falls (-1)."""
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The base's, summed over the axes of one value."""
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        """The shape of f(x), given x's."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of x, given f(x)'s."""
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """The same elements in another shape.

    >>> from minitorch import zeros
    >>> ReshapeTransform((6,), (2, 3))(zeros(4, 6)).shape
    (4, 2, 3)
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)

    @property
    def domain(self) -> Constraint:
        """Arrays of the first shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Constraint:
        """Arrays of the second shape."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Zero."""
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        """The shape of f(x), given x's."""
        return _tail_replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of x, given f(x)'s."""
        return _tail_replaced(shape, self.out_shape, self.in_shape)


def _tail_replaced(shape: Any, tail: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    cut = len(shape) - len(tail)
    if cut < 0:
        raise ValueError("Too few dimensions on input")
    if tuple(shape[cut:]) != tail:
        raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {tail}")
    return (*shape[:cut], *other)


class AffineTransform(Transform):
    """loc + scale·x.

    >>> from minitorch import tensor
    >>> AffineTransform(1.0, 2.0)(tensor(3.0)), AffineTransform(1.0, 2.0).inv(tensor(7.0))
    (tensor(7.), tensor(3.))
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def domain(self) -> Constraint:
        """Real numbers."""
        return _with_event_dim(constraints.real, self._event_dim)

    codomain = domain

    @property
    def sign(self) -> Any:
        """Whether it rises (1) or falls (-1)."""
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return int(self.scale > 0) - int(self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |scale|."""
        if isinstance(self.scale, Tensor):
            slope = self.scale.abs().log()
        else:
            slope = x.new_full(x.shape, math.log(abs(self.scale)))
        # A scale of one value may itself have the value's axes.
        shape = x.shape
        if self._event_dim:
            slope = slope.expand(common_shape("AffineTransform", slope.shape, x.shape))
        return sum_rightmost(slope.expand(shape), self._event_dim)

    def forward_shape(self, shape: Any) -> Any:
        """The shape of f(x), given x's."""
        return common_shape("AffineTransform", shape, _shape(self.loc), _shape(self.scale))

    inverse_shape = forward_shape

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineTransform)
            and _equal(self.loc, other.loc)
            and _equal(self.scale, other.scale)
        )

    __hash__ = object.__hash__


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(getattr(value, "shape", ()))


def _equal(a: Any, b: Any) -> bool:
    same = a == b
    return bool(same.all()) if isinstance(same, Tensor) else bool(same)


class ExpTransform(_Rising):
    """eˣ."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """x."""
        return x


class PowerTransform(Transform):
    """x to a power, of positive numbers.

    >>> from minitorch import tensor
    >>> PowerTransform(2.0)(tensor(3.0))
    tensor(9.)
    """

    domain = codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else creation.tensor(float(exponent))

    @property
    def sign(self) -> Any:
        """Whether it rises (1) or falls (-1)."""
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |exponent·y / x|."""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        """The shape of f(x), given x's."""
        return common_shape("PowerTransform", shape, self.exponent.shape)

    inverse_shape = forward_shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _equal(self.exponent, other.exponent)

    __hash__ = object.__hash__


class SigmoidTransform(_Rising):
    """1 / (1 + e⁻ˣ), kept off 0 and 1."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        limits = finfo(x.dtype)
        return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-softplus(-x) - softplus(x)."""
        return -softplus(-x) - softplus(x)


class TanhTransform(_Rising):
    """tanh x: samples between -1 and 1, as policies for bounded actions need."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log(1 - tanh² x), written so that it does not become log 0 far out."""
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class SoftplusTransform(_Rising):
    """log(1 + eˣ)."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-softplus(-x)."""
        return -softplus(-x)


class AbsTransform(Transform):
    """|x|, whose inverse is taken for x itself."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__


class CumulativeDistributionTransform(Transform):
    """The probability of x or less, of a distribution of numbers.

    >>> from minitorch import tensor
    >>> from minitorch.distributions import Normal
    >>> CumulativeDistributionTransform(Normal(0.0, 1.0))(tensor(0.0))
    tensor(0.5000)
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Constraint:
        """The distribution's values."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The log-density."""
        return self.distribution.log_prob(x)


class SoftmaxTransform(Transform):
    """Softmax along the last axis; as its inverse, log."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(dim=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__


class StickBreakingTransform(Transform):
    """n numbers to n + 1 shares: each the sigmoid of a number, of what the ones before left.

    >>> from minitorch import zeros
    >>> StickBreakingTransform()(zeros(2))
    tensor([0.3333, 0.3333, 0.3333])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _log_left(self, like: Tensor) -> Tensor:
        """log n, …, log 1: then zeros give equal shares."""
        n = like.shape[-1]
        return creation.arange(n, 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x: Tensor) -> Tensor:
        limits = finfo(x.dtype)
        z = (x - self._log_left(x)).sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)
        left = (1 - z).cumprod(-1)
        return pad(z, (0, 1), value=1.0) * pad(left, (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        shares = y[..., :-1]
        left = (1 - shares.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return shares.log() - left.log() + self._log_left(shares)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Σ log of each share, and of the slope of its sigmoid."""
        x = x - self._log_left(x)
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        """One more."""
        if not len(shape):
            raise ValueError("Too few dimensions on input")
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> Any:
        """One less."""
        if not len(shape):
            raise ValueError("Too few dimensions on input")
        return (*shape[:-1], shape[-1] - 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = object.__hash__


class LowerCholeskyTransform(Transform):
    """Any matrix to a lower triangle with a positive diagonal: below it as it is, on it eˣ."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = object.__hash__


class PositiveDefiniteTransform(Transform):
    """Any matrix to a positive definite one: L Lᵀ with L of LowerCholeskyTransform."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(y.cholesky())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    __hash__ = object.__hash__


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers to the Cholesky factor of a correlation matrix of n variables: rows of length 1.

    >>> from minitorch import zeros
    >>> CorrCholeskyTransform()(zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        r = _lower_triangle_of(x.tanh().clamp(min=-1 + eps, max=1 - eps))
        left = (1 - r**2).sqrt().cumprod(-1)  # what of a row's length the elements before leave
        r = r + creation.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * pad(left[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        left = pad(left[..., :-1], (1, 0), value=1.0)
        return (_elements_below(y) / _elements_below(left).sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Half the logarithms of what each element left, and tanh's slope."""
        left = 1 - (y * y).cumsum(-1)
        sticks = 0.5 * _elements_below(left, -2).log().sum(-1)
        return sticks - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(dim=-1)

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the triangle."""
        if not len(shape):
            raise ValueError("Too few dimensions on input")
        n = _side_of(shape[-1])
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Any) -> Any:
        """How many elements lie below the diagonal."""
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CorrCholeskyTransform)

    __hash__ = object.__hash__


def _side_of(count: int) -> int:
    n = round((0.25 + 2 * count) ** 0.5 + 0.5)
    if n * (n - 1) // 2 != count:
        raise ValueError("Input is not a flattened lower-diagonal number")
    return n


def _lower_triangle_of(x: Tensor) -> Tensor:
    """Numbers as the elements below the diagonal of a matrix, row by row."""
    n = _side_of(x.shape[-1])
    matrix = x.new_zeros((*x.shape[:-1], n, n))
    rows, columns = np.tril_indices(n, -1)
    matrix[..., rows, columns] = x
    return matrix


def _elements_below(x: Tensor, diagonal: int = -1) -> Tensor:
    n = x.shape[-1]
    rows, columns = np.tril_indices(n, diagonal)
    return x[..., rows, columns]


class CatTransform(Transform):
    """Transforms of parts along an axis, each `lengths` long.

    >>> from minitorch import zeros
    >>> CatTransform([ExpTransform(), AffineTransform(0.0, 1.0)], lengths=[1, 2])(zeros(3))
    tensor([1., 0., 0.])
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq]
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim

    @property
    def event_dim(self) -> int:
        """As many as any part needs."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """All parts together."""
        return sum(self.lengths)

    @property
    def bijective(self) -> bool:
        """Whether every part is."""
        return all(t.bijective for t in self.transforms)

    @property
    def domain(self) -> Constraint:
        """What the parts take."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Constraint:
        """What the parts give."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def _parts(self, x: Tensor) -> list[Tensor]:
        return list(x.split(self.lengths, self.dim))

    def _call(self, x: Tensor) -> Tensor:
        return cat([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return cat(
            [t._inv_call(part) for t, part in zip(self.transforms, self._parts(y), strict=True)], self.dim
        )

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The parts', joined, or summed where the axis belongs to one value."""
        slopes = []
        for t, a, b in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            slopes.append(sum_rightmost(t.log_abs_det_jacobian(a, b), self.event_dim - t.event_dim))
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        if dim < 0:
            return cat(slopes, dim)
        total = slopes[0]
        for slope in slopes[1:]:
            total = total + slope
        return total


class StackTransform(Transform):
    """Transforms of the slices along an axis.

    >>> from minitorch import zeros
    >>> StackTransform([ExpTransform(), AffineTransform(2.0, 1.0)])(zeros(2))
    tensor([1., 2.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = [t.with_cache(cache_size) for t in tseq], dim

    @property
    def bijective(self) -> bool:
        """Whether every part is."""
        return all(t.bijective for t in self.transforms)

    @property
    def domain(self) -> Constraint:
        """What the parts take."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Constraint:
        """What the parts give."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return stack([t(x.select(self.dim, i)) for i, t in enumerate(self.transforms)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return stack([t._inv_call(y.select(self.dim, i)) for i, t in enumerate(self.transforms)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The slices', stacked."""
        slopes = [
            t.log_abs_det_jacobian(x.select(self.dim, i), y.select(self.dim, i))
            for i, t in enumerate(self.transforms)
        ]
        return stack(slopes, self.dim)


identity_transform = ComposeTransform([])

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
    "identity_transform",
]  # fmt: skip
