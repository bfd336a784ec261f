"""Distributions of counts of several trials. Enters: how many, and probs or logits. Leaves: samples, densities."""

from __future__ import annotations

import math
from typing import Any

from minitorch import creation
from minitorch.distributions import constraints
from minitorch.distributions.continuous import Gamma
from minitorch.distributions.discrete import Categorical, _ProbsOrLogits
from minitorch.distributions.distribution import Distribution, broadcast_all, shape_of
from minitorch.engine.modes import no_grad
from minitorch.nn.functional import logsigmoid
from minitorch.random import binomial, poisson
from minitorch.special import lgamma
from minitorch.tensor import Tensor


class _Trials(_ProbsOrLogits):
    """One of a count and a probability for each."""

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        name = self._one_of(probs, logits)
        given = probs if logits is None else logits
        self.total_count, self.__dict__[name] = broadcast_all(total_count, given)
        self.total_count = self.total_count.to(self.__dict__[name].dtype)
        super().__init__(self.total_count.shape, validate_args=validate_args)


class Binomial(_Trials):
    """How many of `total_count` trials succeed.

    >>> Binomial(10, 0.25).variance
    tensor(1.8750)
    """

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(total_count, probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        """0 to the count."""
        return constraints.integer_interval(0, self.total_count.detach())

    @property
    def mean(self) -> Tensor:
        """n p."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """⌊(n + 1) p⌋, at most n."""
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        """n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw counts."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Tensor:
        """log (n over k) + k log p + (n - k) log(1 - p)."""
        k = self._validate_sample(value)
        n, logits = self.total_count, self.logits
        # n·log(1 + e^logits), with half a slope each at 0 where |x| and max(x, 0) have kinks.
        positive = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        all_of = n * positive + n * (-logits.abs()).exp().log1p() - lgamma(n + 1)
        return k * logits - lgamma(k + 1) - lgamma(n - k + 1) - all_of

    def entropy(self) -> Tensor:
        """-Σ p log p, over all counts."""
        if not bool((self.total_count == self.total_count.max()).all()):
            raise NotImplementedError("Binomial.entropy: the counts of a batch must be equal")
        log_probs = self.log_prob(self.enumerate_support(False))
        return -(log_probs.exp() * log_probs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 to the count."""
        count = int(self.total_count.max())
        if int(self.total_count.min()) != count:
            raise NotImplementedError("Binomial.enumerate_support: the counts of a batch must be equal")
        values = creation.arange(1 + count, dtype=self.total_count.dtype, device=self.total_count.device)
        values = values.view(-1, *(1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class NegativeBinomial(_Trials):
    """How many succeed before `total_count` failed.

    >>> NegativeBinomial(3, 0.5).mean
    tensor(3.)
    """

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        """n·e^logits."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        """⌊(n - 1)·e^logits⌋, at least 0."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        """The mean / (1 - p)."""
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw counts, Poisson at rates that are drawn first."""
        with no_grad():
            rates = Gamma(self.total_count, (-self.logits).exp(), validate_args=False)
            return poisson(rates.sample(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        """log (n + k - 1 over k) + n log(1 - p) + k log p."""
        k = self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = lgamma(n + k) - lgamma(1.0 + k) - lgamma(n)
        ways = ways.masked_fill(n + k == 0, 0.0)
        return n * logsigmoid(-logits) + k * logsigmoid(logits) + ways


class Multinomial(Distribution):
    """How often each choice was made, of `total_count` in all.

    >>> from minitorch import tensor
    >>> Multinomial(4, tensor([0.25, 0.75])).mean
    tensor([1., 3.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("Multinomial: one total_count for the whole batch, as an int")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        """Counts that sum to the total at most."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """n p."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for a larger batch."""
        return self._with_part_expanded("_categorical", batch_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw counts."""
        sizes = shape_of(sample_shape)
        chosen = self._categorical.sample((self.total_count, *sizes))
        counts = creation.one_hot(chosen, self.event_shape[0]).sum(0)
        return counts.reshape(self._extended_shape(sizes)).to(self.probs.dtype)

    def log_prob(self, value: Any) -> Tensor:
        """log n! - Σ log k! + Σ k log p."""
        x = self._validate_sample(value)
        logits, x = broadcast_all(self.logits, x)
        logits = logits.masked_fill((x == 0) & (logits == -math.inf), 0.0)
        return lgamma(x.sum(-1) + 1) - lgamma(x + 1).sum(-1) + (logits * x).sum(-1)

    def entropy(self) -> Tensor:
        """The entropy: each choice's count by itself is binomial."""
        n = float(self.total_count)
        counts = Binomial(self.total_count, probs=self.probs)
        values = counts.enumerate_support(expand=False)[1:]
        weighted = counts.log_prob(values).exp() * lgamma(values + 1)
        return n * self._categorical.entropy() - math.lgamma(n + 1) + weighted.sum((0, -1))
