"""MixtureSameFamily: one of several distributions of a kind, drawn first. Enters: weights and components.

Leaves: a distribution.
"""

from __future__ import annotations

from typing import Any

from minitorch.distributions import constraints
from minitorch.distributions.discrete import Categorical
from minitorch.distributions.distribution import Distribution, shape_of
from minitorch.engine.modes import no_grad
from minitorch.tensor import Tensor


class MixtureSameFamily(Distribution):
    """A mixture: the components lie along the last batch axis, and a Categorical weighs them.

    log p(x) = log Σₖ wₖ pₖ(x)

    >>> from minitorch import tensor, ones
    >>> from minitorch.distributions import Categorical, Normal
    >>> mixture = MixtureSameFamily(Categorical(ones(2)), Normal(tensor([-1.0, 1.0]), ones(2)))
    >>> mixture.mean, mixture.variance
    (tensor(0.), tensor(2.))
    """

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("MixtureSameFamily: the weights must be a distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("MixtureSameFamily: the components must be a distributions.Distribution")
        weights, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for one, other in zip(reversed(weights), reversed(batch), strict=False):
            if one != 1 and other != 1 and one != other:
                raise ValueError(
                    f"MixtureSameFamily: weights of batch shape {tuple(weights)} do not fit components of batch shape "
                    f"{tuple(batch)}, their last axis left out"
                )
        count = mixture_distribution.logits.shape[-1]
        if count != component_distribution.batch_shape[-1]:
            raise ValueError(
                f"MixtureSameFamily: {count} weights, but {component_distribution.batch_shape[-1]} components"
            )
        self._mixture_distribution, self._component_distribution = (
            mixture_distribution,
            component_distribution,
        )
        self._num_component = count
        event = component_distribution.event_shape
        self._event_ndims = len(event)
        super().__init__(batch, event, validate_args=validate_args)

    @property
    def mixture_distribution(self) -> Categorical:
        """The weights."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    @property
    def support(self) -> constraints.Constraint:
        """What values the components have."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1,) * self._event_ndims)

    @property
    def mean(self) -> Tensor:
        """Σ wₖ μₖ."""
        return (self._weights() * self._component_distribution.mean).sum(dim=-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        """Σ wₖ σₖ² + Σ wₖ (μₖ - μ)²: within the components, and between them."""
        axis, weights, parts = -1 - self._event_ndims, self._weights(), self._component_distribution
        within = (weights * parts.variance).sum(dim=axis)
        return within + (weights * (parts.mean - self.mean.unsqueeze(axis)).pow(2.0)).sum(dim=axis)

    def cdf(self, value: Any) -> Tensor:
        """Σ wₖ cdfₖ."""
        parts = self._component_distribution.cdf(value.unsqueeze(-1 - self._event_ndims))
        return (parts * self._mixture_distribution.probs).sum(dim=-1)

    def log_prob(self, value: Any) -> Tensor:
        """log Σ wₖ pₖ."""
        x = self._validate_sample(value).unsqueeze(-1 - self._event_ndims)
        parts = self._component_distribution.log_prob(x)
        return (parts + self._mixture_distribution.logits.log_softmax(dim=-1)).logsumexp(dim=-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw a component, and a value of each: the one that was chosen is kept."""
        sizes = shape_of(sample_shape)
        axis = len(sizes) + len(self.batch_shape)
        with no_grad():
            chosen = self._mixture_distribution.sample(sizes)
            drawn = self._component_distribution.sample(sizes)
            ones = (1,) * (self._event_ndims + 1)
            chosen = chosen.reshape(*chosen.shape, *ones).repeat(*(1,) * (chosen.ndim + 1), *self.event_shape)
            return drawn.gather(axis, chosen).squeeze(axis)

    def expand(self, batch_shape: Any, _instance: Any = None) -> MixtureSameFamily:
        """The same distribution for a larger batch."""
        shape = tuple(batch_shape)
        return MixtureSameFamily(
            self._mixture_distribution.expand(shape),
            self._component_distribution.expand((*shape, self._num_component)),
        )

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
