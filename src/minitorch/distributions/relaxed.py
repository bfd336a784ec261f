"""Relaxed choices: numbers near 0 and 1 through which gradients flow. Enters: a temperature, probabilities or logits.

Leaves: distributions. The lower the temperature, the nearer their samples are to choices (the Concrete distribution).
"""

from __future__ import annotations

import math
from typing import Any

from minitorch.distributions import constraints
from minitorch.distributions.discrete import Bernoulli, Categorical
from minitorch.distributions.distribution import Distribution, shape_of
from minitorch.distributions.transformed import TransformedDistribution
from minitorch.distributions.transforms import ExpTransform, SigmoidTransform
from minitorch.engine.dtypes import finfo
from minitorch.random import rand
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor


class _Relaxed(Distribution):
    """What both share: a temperature, and a distribution of choices that is relaxed."""

    has_rsample = True
    _choice: Any

    def __init__(self, temperature: Any, choice: Any, event: Any, validate_args: bool | None) -> None:
        self.temperature, self._choice = as_tensor(temperature), choice
        super().__init__(choice.batch_shape, event, validate_args=validate_args)

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._choice.probs

    @property
    def logits(self) -> Tensor:
        """Their logits."""
        return self._choice.logits

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for a larger batch."""
        return self._with_part_expanded("_choice", batch_shape)

    def _uniform(self, shape: Any) -> Tensor:
        eps = finfo(self.logits.dtype).eps
        return rand(*shape, dtype=self.logits.dtype, device=self.logits.device).clamp(min=eps, max=1 - eps)


class LogitRelaxedBernoulli(_Relaxed):
    """The logits of a RelaxedBernoulli: (logit p + logit u) / temperature, u uniform."""

    support = constraints.real

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(temperature, Bernoulli(probs, logits, validate_args), (), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw logits through which gradients flow."""
        shape = self._extended_shape(shape_of(sample_shape))
        probs = self.probs
        eps = finfo(probs.dtype).eps
        chance, u = probs.expand(shape).clamp(min=eps, max=1 - eps), self._uniform(shape)
        return (u.log() - (-u).log1p() + chance.log() - (-chance).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Tensor:
        """log t + d - 2 log(1 + exp d), with d = logit p - t·x."""
        x = self._validate_sample(value)
        d = self.logits - x * self.temperature
        return self.temperature.log() + d - 2 * d.exp().log1p()


class _OfRelaxed(TransformedDistribution):
    """The values of a relaxed choice, mapped to where choices lie."""

    base_dist: _Relaxed

    @property
    def temperature(self) -> Tensor:
        """How far from a choice."""
        return self.base_dist.temperature

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self.base_dist.probs

    @property
    def logits(self) -> Tensor:
        """Their logits."""
        return self.base_dist.logits


class RelaxedBernoulli(_OfRelaxed):
    """Numbers between 0 and 1, near one of them: a Bernoulli through which gradients flow.

    >>> from minitorch import tensor
    >>> RelaxedBernoulli(tensor(0.5), probs=tensor([0.5])).log_prob(tensor([0.5]))
    tensor([-0.6931])
    """

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(_Relaxed):
    """The logarithms of a RelaxedOneHotCategorical."""

    support = constraints.real_vector

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        choice = Categorical(probs, logits, validate_args)
        super().__init__(temperature, choice, choice.param_shape[-1:], validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw log-weights through which gradients flow: log_softmax((logits + Gumbel) / temperature)."""
        gumbel = -((-self._uniform(self._extended_shape(shape_of(sample_shape))).log()).log())
        scores = (self.logits + gumbel) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Any) -> Tensor:
        """log (n-1)! + (n-1) log t + Σ s - n log Σ exp s, with s = logits - t·x."""
        x = self._validate_sample(value)
        n = self.event_shape[-1]
        scores = self.logits - x * self.temperature
        scores = (scores - scores.logsumexp(dim=-1, keepdim=True)).sum(-1)
        return scores + (self.temperature.log() * (n - 1) + math.lgamma(n))


class RelaxedOneHotCategorical(_OfRelaxed):
    """Weights that sum to 1, most of it on one: a OneHotCategorical through which gradients flow.

    >>> from minitorch import tensor, ones
    >>> RelaxedOneHotCategorical(tensor(1.0), probs=ones(3)).log_prob(ones(3) / 3).exp()
    tensor(2.)
    """

    support = constraints.simplex

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
