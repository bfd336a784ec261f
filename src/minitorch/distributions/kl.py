"""The Kullback-Leibler divergence KL(p ‖ q) = E_p[log p - log q], a formula for each pair of kinds.

Enters: two distributions. Leaves: a Tensor of the batch's shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from minitorch.distributions.continuous import (
    Beta,
    Dirichlet,
    Exponential,
    Gamma,
    HalfNormal,
    Laplace,
    MultivariateNormal,
    Normal,
    Uniform,
)
from minitorch.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical, Poisson
from minitorch.distributions.distribution import Distribution, Independent, sum_rightmost
from minitorch.distributions.transformed import LogNormal
from minitorch.functions import where
from minitorch.linalg import solve_triangular
from minitorch.nn.functional import softplus
from minitorch.special import digamma, lgamma
from minitorch.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

_formulas: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[F], F]:
    """Decorate the formula of a pair of kinds; subclasses use it too.

    >>> @register_kl(Uniform, Laplace)
    ... def _kl_uniform_laplace(p, q): ...
    """

    def register(formula: F) -> F:
        _formulas[type_p, type_q] = formula
        return formula

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return KL(p ‖ q), how much is lost when q is used for p.

    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    for a in type(p).__mro__:
        for b in type(q).__mro__:
            if (a, b) in _formulas:
                return _formulas[a, b](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}; estimate it from "
        "samples: (p.log_prob(x) - q.log_prob(x)).mean()"
    )


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    off = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + off - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _log_normal(p: LogNormal, q: LogNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio - 1 - ratio.log())


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio = p.scale / q.scale
    off = (p.loc - q.loc).abs()
    return -ratio.log() + off / q.scale + ratio * (-off / p.scale).exp() - 1


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return result.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Tensor:
    width = p.high - p.low
    first = (math.sqrt(math.pi * 2) * q.scale / width).log()
    second = width.pow(2) / 12
    third = ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return first + 0.5 * (second + third) / q.scale.pow(2)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    off = p.loc - q.loc
    ratio = p.scale / q.scale
    first = ratio.log()
    second = math.sqrt(2 / math.pi) * p.scale * (-0.5 * (off / p.scale).pow(2)).exp()
    third = off * (math.sqrt(0.5) * off / p.scale).erf()
    return -first + (second + third) / q.scale - (0.5 + 0.5 * math.log(0.5 * math.pi))


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    ratio = q.rate / p.rate
    euler = 0.57721566490153286060
    return (
        -q.concentration * ratio.log()
        + ratio
        + lgamma(q.concentration)
        + q.concentration * euler
        - (1 + euler)
    )


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    first = q.concentration * (p.rate / q.rate).log()
    second = lgamma(q.concentration) - lgamma(p.concentration)
    third = (p.concentration - q.concentration) * digamma(p.concentration)
    return first + second + third + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    total_p = p.concentration1 + p.concentration0
    total_q = q.concentration1 + q.concentration0
    first = lgamma(q.concentration1) + lgamma(q.concentration0) + lgamma(total_p)
    second = lgamma(p.concentration1) + lgamma(p.concentration0) + lgamma(total_q)
    third = (p.concentration1 - q.concentration1) * digamma(p.concentration1)
    fourth = (p.concentration0 - q.concentration0) * digamma(p.concentration0)
    return first - second + third + fourth + (total_q - total_p) * digamma(total_p)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    first = lgamma(total_p) - lgamma(total_q)
    second = (lgamma(p.concentration) - lgamma(q.concentration)).sum(-1)
    mean_log = digamma(p.concentration) - digamma(total_p).unsqueeze(-1)
    return first - second + ((p.concentration - q.concentration) * mean_log).sum(-1)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    lower_p, lower_q = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril

    def log_det(lower: Tensor) -> Tensor:
        return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    both = solve_triangular(lower_q, lower_p, upper=False)
    off = solve_triangular(lower_q, (q.loc - p.loc).unsqueeze(-1), upper=False)
    distance = off.squeeze(-1).pow(2).sum(-1)
    trace = both.pow(2).sum((-2, -1))
    return log_det(lower_q) - log_det(lower_p) + 0.5 * (trace + distance - p.event_shape[0])


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    first = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    first = where(q.probs == 0, math.inf, first)
    first = where(p.probs == 0, 0.0, first)
    second = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    second = where(q.probs == 1, math.inf, second)
    second = where(p.probs == 1, 0.0, second)
    return first + second


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    each = p.probs * (p.logits - q.logits)
    each = where((q.probs == 0).expand(each.shape), math.inf, each)
    each = where((p.probs == 0).expand(each.shape), 0.0, each)
    return each.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence: two Independents of different reinterpreted_batch_ndims")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
