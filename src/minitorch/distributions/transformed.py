"""TransformedDistribution: samples of a distribution, mapped. Enters: a base and transforms. Leaves: a distribution."""

from __future__ import annotations

from typing import Any

from minitorch.distributions import constraints
from minitorch.distributions.continuous import Normal
from minitorch.distributions.distribution import Distribution, Independent, sum_rightmost
from minitorch.distributions.transforms import ComposeTransform, ExpTransform, Transform
from minitorch.engine.modes import no_grad
from minitorch.tensor import Tensor
from minitorch.tensor.devices import Size


class TransformedDistribution(Distribution):
    """What becomes of a distribution's values under elementwise transforms.

    log p(y) = log p(x) - Σ log |dy/dx|

    >>> from minitorch import tensor
    >>> from minitorch.distributions import Normal, TanhTransform
    >>> squashed = TransformedDistribution(Normal(0.0, 1.0), [TanhTransform(cache_size=1)])
    >>> squashed.log_prob(tensor(0.0))
    tensor(-0.9189)
    """

    def __init__(
        self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        shape = base_distribution.batch_shape + base_distribution.event_shape
        axes = len(base_distribution.event_shape)
        whole = ComposeTransform(self.transforms)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got {shape}."
            )
        # Where a transform broadcasts, or takes several values of the base for one, so does the base.
        given = tuple(whole.forward_shape(tuple(shape)))
        taken = tuple(whole.inverse_shape(given))
        if taken != tuple(shape):
            base_distribution = base_distribution.expand(taken[: len(taken) - axes])
        more = whole.domain.event_dim - axes
        self.base_dist = Independent(base_distribution, more) if more > 0 else base_distribution
        event_dim = whole.codomain.event_dim + max(axes - whole.domain.event_dim, 0)
        cut = len(given) - event_dim
        super().__init__(given[:cut], given[cut:], validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether gradients flow through samples."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> constraints.Constraint:
        """Where the last transform leads."""
        if not self.transforms:
            return self.base_dist.support
        last, more = (
            self.transforms[-1].codomain,
            len(self.event_shape) - self.transforms[-1].codomain.event_dim,
        )
        return constraints.independent(last, more) if more > 0 else last

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for a larger batch."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        shape = tuple(batch_shape) + self.event_shape
        below = tuple(ComposeTransform(self.transforms).inverse_shape(shape))
        new.base_dist = self.base_dist.expand(below[: len(below) - len(self.base_dist.event_shape)])
        new._batch_shape = Size(batch_shape)
        return new

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values, without a graph."""
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values through which gradients flow to the parameters."""
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Any) -> Tensor:
        """log p(x) - Σ log |dy/dx|."""
        y = self._validate_sample(value)
        axes = len(self.event_shape)
        total: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform._inv_call(y)
            axes += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(slope, axes - transform.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), axes - len(self.base_dist.event_shape))

    def _monotone(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform.sign * (value - 0.5) + 0.5
        return value

    def cdf(self, value: Any) -> Tensor:
        """The probability of this value or less."""
        y = self._validate_sample(value)
        for transform in reversed(self.transforms):
            y = transform._inv_call(y)
        return self._monotone(self.base_dist.cdf(y))

    def icdf(self, value: Any) -> Tensor:
        """The quantile."""
        return self._forward(self.base_dist.icdf(self._monotone(value)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class LogNormal(TransformedDistribution):
    """Numbers whose logarithm is normal.

    >>> LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale  # type: ignore[attr-defined]

    @property
    def mean(self) -> Tensor:
        """exp(μ + σ²/2)."""
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        """exp(μ - σ²)."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        """(exp(σ²) - 1)·exp(2μ + σ²)."""
        squared = self.scale.pow(2)
        return squared.expm1() * (2 * self.loc + squared).exp()

    def entropy(self) -> Tensor:
        """The normal entropy plus μ."""
        return self.base_dist.entropy() + self.loc
