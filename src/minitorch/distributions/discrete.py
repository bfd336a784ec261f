"""Distributions of counts and choices. Enters: probs or logits. Leaves: samples, log-probabilities."""

from __future__ import annotations

import math
from typing import Any

from minitorch import creation
from minitorch.distributions import constraints
from minitorch.distributions.distribution import Distribution, broadcast_all, shape_of
from minitorch.engine.dtypes import finfo
from minitorch.engine.modes import enable_grad, no_grad
from minitorch.nn.functional import binary_cross_entropy_with_logits
from minitorch.ops.op import violated
from minitorch.random import bernoulli, multinomial, poisson
from minitorch.special import lgamma, xlogy
from minitorch.tensor import Tensor
from minitorch.tensor.convert import common_shape


def _clamped(probs: Tensor) -> Tensor:
    """Keep probabilities off 0 and 1, whose logarithms are infinite."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


class _ProbsOrLogits(Distribution):
    """One that is given by probabilities or by logits; the other is computed when asked for."""

    probs: Tensor
    logits: Tensor

    def _one_of(self, probs: Any, logits: Any) -> str:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        return "logits" if probs is None else "probs"

    def __getattr__(self, name: str) -> Any:
        with enable_grad():  # it is kept, so it must not depend on who asks first
            if name == "probs" and "logits" in self.__dict__:
                self.__dict__["probs"] = self._to_probs(self.__dict__["logits"])
            elif name == "logits" and "probs" in self.__dict__:
                self.__dict__["logits"] = self._to_logits(self.__dict__["probs"])
            else:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.__dict__[name]

    def _to_probs(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def _to_logits(self, probs: Tensor) -> Tensor:
        safe = _clamped(probs)
        return safe.log() - (-safe).log1p()

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return next(self.__dict__[name] for name in ("probs", "logits") if name in self.__dict__).size()


class _Trial(_ProbsOrLogits):
    """One of trials that succeed with a probability, or whose odds have a logarithm."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name = self._one_of(probs, logits)
        (given,) = broadcast_all(probs if logits is None else logits)
        self.__dict__[name] = given
        super().__init__(given.shape, validate_args=validate_args)


class Bernoulli(_Trial):
    """1 with probability p, else 0.

    >>> Bernoulli(0.25).variance
    tensor(0.1875)
    """

    has_enumerate_support = True
    support = constraints.boolean

    @property
    def mean(self) -> Tensor:
        """The probability."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """1 where it is likelier, nan where both are equally likely."""
        return (self.probs >= 0.5).to(self.probs.dtype).masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Tensor:
        """p (1 - p)."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw zeros and ones."""
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        """x log p + (1 - x) log(1 - p)."""
        x = self._validate_sample(value)
        logits, x = broadcast_all(self.logits, x)
        return -binary_cross_entropy_with_logits(logits, x, reduction="none")

    def entropy(self) -> Tensor:
        """-p log p - (1 - p) log(1 - p)."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1."""
        values = creation.arange(2, dtype=self.probs.dtype, device=self.probs.device).view(
            -1, *(1,) * len(self._batch_shape)
        )
        return values.expand((-1, *self._batch_shape)) if expand else values


class Geometric(_Trial):
    """How many failures before the first success of probability p.

    >>> Geometric(0.25).mean
    tensor(3.)
    """

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        if self._validate_args and probs is not None and violated(~(self.probs > 0).all()):
            raise ValueError(f"Expected parameter probs of distribution {self!r} to be positive")

    @property
    def mean(self) -> Tensor:
        """1 / p - 1."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return creation.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        """(1 / p - 1) / p."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw counts."""
        with no_grad():
            u = creation.empty(
                self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device
            )
            u.uniform_(finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Tensor:
        """k log(1 - p) + log p."""
        x = self._validate_sample(value)
        x, probs = broadcast_all(x, self.probs)
        safe = probs.masked_fill((probs == 1) & (x == 0), 0)
        return x * (-safe).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        """The entropy."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class Categorical(_ProbsOrLogits):
    """One of several, by their probabilities (need not sum to 1) or logits, along the last axis.

    >>> from minitorch import tensor
    >>> tenses = Categorical(probs=tensor([1.0, 1.0, 2.0]))
    >>> tenses.probs, tenses.log_prob(tensor(2))
    (tensor([0.2500, 0.2500, 0.5000]), tensor(-0.6931))
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._one_of(probs, logits)
        given = probs if logits is None else logits
        if given.dim() < 1:
            raise ValueError("`probs` or `logits` parameter must be at least one-dimensional.")
        if logits is None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def _to_probs(self, logits: Tensor) -> Tensor:
        return logits.softmax(dim=-1)

    def _to_logits(self, probs: Tensor) -> Tensor:
        return _clamped(probs).log()

    @property
    def support(self) -> constraints.Constraint:
        """0 to the number of choices - 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """Nan: choices have no average."""
        return creation.full(
            self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device
        )

    @property
    def mode(self) -> Tensor:
        """The likeliest."""
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        """Nan: choices have no average."""
        return creation.full(
            self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device
        )

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw choices, as integers."""
        sizes = shape_of(sample_shape)
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = multinomial(rows, sizes.numel(), True).T
            return drawn.reshape(self._extended_shape(sizes))

    def log_prob(self, value: Any) -> Tensor:
        """The logit of the choice."""
        x = self._validate_sample(value).long().unsqueeze(-1)
        shape = common_shape("log_prob", x.shape, (*self.logits.shape[:-1], 1))
        logits = self.logits.expand((*shape[:-1], self._num_events))
        return logits.gather(-1, x.expand(shape)[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """-Σ p log p."""
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 to the number of choices - 1."""
        values = creation.arange(self._num_events, device=self.probs.device).view(
            -1, *(1,) * len(self._batch_shape)
        )
        return values.expand((-1, *self._batch_shape)) if expand else values


class OneHotCategorical(Distribution):
    """One of several, as a vector with a 1 at the choice.

    >>> from minitorch import tensor
    >>> OneHotCategorical(probs=tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012
    has_enumerate_support = True
    support = constraints.one_hot

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def mean(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest choice."""
        return creation.one_hot(self._categorical.mode, self.event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        """p (1 - p)."""
        return self.probs * (1 - self.probs)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for a larger batch."""
        return self._with_part_expanded("_categorical", batch_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw choices."""
        drawn = self._categorical.sample(sample_shape)
        return creation.one_hot(drawn, self.event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Any) -> Tensor:
        """The logit of the choice."""
        x = self._validate_sample(value)
        return self._categorical.log_prob(x.argmax(dim=-1))

    def entropy(self) -> Tensor:
        """-Σ p log p."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Every choice once."""
        count = self.event_shape[0]
        values = creation.eye(count, dtype=self.probs.dtype, device=self.probs.device)
        values = values.view(count, *(1,) * len(self._batch_shape), count)
        return values.expand((count, *self._batch_shape, count)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, whose samples hand gradients straight through to the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw choices; on the way back they count as the probabilities."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Poisson(Distribution):
    """How often something of a rate happens.

    >>> Poisson(3.0).variance
    tensor(3.)
    """

    arg_constraints = {"rate": constraints.nonnegative}  # noqa: RUF012
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The rate."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """The rate, rounded down."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """The rate."""
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw counts."""
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        """k log λ - λ - log k!."""
        x = self._validate_sample(value)
        rate, x = broadcast_all(self.rate, x)
        return xlogy(x, rate) - rate - lgamma(x + 1)
