"""The Kullback-Leibler divergence KL(p ‖ q) = E_p[log p - log q], a formula for each pair of kinds.

Enters: two distributions. Leaves: a Tensor of the batch's shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from minitorch.distributions.continuous import (
    Beta,
    Cauchy,
    Dirichlet,
    Exponential,
    Gamma,
    Gumbel,
    HalfNormal,
    Laplace,
    MultivariateNormal,
    Normal,
    Uniform,
)
from minitorch.distributions.counts import Binomial
from minitorch.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical, Poisson
from minitorch.distributions.distribution import Distribution, Independent, sum_rightmost
from minitorch.distributions.matrices import LowRankMultivariateNormal, log_diagonal
from minitorch.distributions.tails import EULER, ContinuousBernoulli, Pareto
from minitorch.distributions.transformed import LogNormal, TransformedDistribution
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
    return (
        -q.concentration * ratio.log()
        + ratio
        + lgamma(q.concentration)
        + q.concentration * EULER
        - (1 + EULER)
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


# --- more of one kind ----------------------------------------------------------------------------


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("kl_divergence: a Binomial of fewer trials than the other's")
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return (p.total_count * each).masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    own = p._cont_bern_log_norm() + (-p.probs).log1p()
    return p.mean * (p.logits - q.logits) + own - q._cont_bern_log_norm() - (-q.probs).log1p()


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, off = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return -ratio.log() - off + ratio * EULER + (off + lgamma(1 + ratio)).exp() - (1 + EULER)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio, tail = p.scale / q.scale, q.alpha / p.alpha
    kl = q.alpha * ratio.log() - tail.log() + tail - 1
    return kl.masked_fill(p.scale < q.scale, math.inf)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence: two TransformedDistributions of different transforms")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank(p: Any, q: Any) -> Tensor:
    both = solve_triangular(q.scale_tril, p.scale_tril, upper=False)
    off = solve_triangular(q.scale_tril, (q.loc - p.loc).unsqueeze(-1), upper=False)
    spread = both.pow(2).sum((-2, -1)) + off.pow(2).sum((-2, -1)) - p.event_shape[0]
    return log_diagonal(q.scale_tril) - log_diagonal(p.scale_tril) + 0.5 * spread


# --- of two kinds --------------------------------------------------------------------------------


def _infinite(like: Callable[[Any], Tensor]) -> Callable[[Any, Any], Tensor]:
    return lambda p, q: like(p).detach() * 0 + math.inf


# Where p has values that q never has.
for _p, _like, _qs in (
    (Beta, lambda p: p.concentration1, (Pareto,)),
    (ContinuousBernoulli, lambda p: p.probs, (Pareto,)),
    (Exponential, lambda p: p.rate, (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gamma, lambda p: p.concentration, (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gumbel, lambda p: p.loc, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, lambda p: p.loc, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Normal, lambda p: p.loc, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, lambda p: p.scale, (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, lambda p: p.rate, (Bernoulli, Binomial)),
):
    for _q in _qs:
        register_kl(_p, _q)(_infinite(_like))


def _to_normal(p: Any, q: Normal) -> Tensor:
    """Of any p with an entropy: log σ√2π - H(p) + E (x - μ)² / 2σ²."""
    square = p.variance + (p.mean - q.loc).pow(2)
    return -p.entropy() + (q.scale * math.sqrt(2 * math.pi)).log() + square / (2 * q.scale.pow(2))


def _to_exponential(p: Any, q: Exponential) -> Tensor:
    """Of any p from 0 on with an entropy: rate·E x - log rate - H(p)."""
    return -p.entropy() - q.rate.log() + q.rate * p.mean


for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace):
    register_kl(_p, Normal)(_to_normal)
for _p in (Beta, ContinuousBernoulli, Gamma):
    register_kl(_p, Exponential)(_to_exponential)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Pareto, q: Normal) -> Tensor:
    return _to_normal(p, q).masked_fill(p.alpha <= 2, math.inf)


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    return _to_exponential(p, q).masked_fill(p.alpha <= 1, math.inf)


def _to_gamma(p: Any, q: Gamma, mean_log: Tensor) -> Tensor:
    """Of any positive p with an entropy and a known E log x."""
    area = lgamma(q.concentration) - q.concentration * q.rate.log()
    return -p.entropy() + area - (q.concentration - 1) * mean_log + q.rate * p.mean


@register_kl(Beta, Gamma)
def _beta_gamma(p: Beta, q: Gamma) -> Tensor:
    return _to_gamma(p, q, digamma(p.concentration1) - digamma(p.concentration1 + p.concentration0))


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    kl = _to_gamma(p, q, p.scale.log() + p.alpha.reciprocal())
    return kl.masked_fill(p.alpha <= 1, math.inf)


def _x_log_x(x: Tensor) -> Tensor:
    return x * x.log()


def _mean_log(low: Tensor, high: Tensor) -> Tensor:
    """E log x of x uniform between them."""
    return (_x_log_x(high) - _x_log_x(low)) / (high - low) - 1


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    return _to_gamma(p, q, _mean_log(p.low, p.high)).masked_fill(p.low < 0, math.inf)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    return _to_exponential(p, q).masked_fill(p.low < 0, math.inf)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    logs = (a - 1) * _mean_log(p.low, p.high) + (b - 1) * _mean_log(1 - p.high, 1 - p.low)
    kl = lgamma(a) + lgamma(b) - lgamma(a + b) - (p.high - p.low).log() - logs
    return kl.masked_fill((p.high > 1) | (p.low < 0), math.inf)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    area = (q.alpha * q.scale.pow(q.alpha) * (p.high - p.low)).log()
    kl = _mean_log(p.low, p.high) * (q.alpha + 1) - area
    return kl.masked_fill(p.low < q.scale, math.inf)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    kl = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()
    return kl.masked_fill((p.high >= 1) | (p.low <= 0), math.inf)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Beta, q: ContinuousBernoulli) -> Tensor:
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


@register_kl(Beta, Uniform)
def _beta_uniform(p: Beta, q: Uniform) -> Tensor:
    return (-p.entropy() + (q.high - q.low).log()).masked_fill((q.low > 0) | (q.high < 1), math.inf)


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: ContinuousBernoulli, q: Uniform) -> Tensor:
    # PyTorch calls it infinite wherever one bound of q is inside of [0, 1]'s, or on it.
    return (-p.entropy() + (q.high - q.low).log()).masked_fill((q.low >= 0) | (q.high <= 1), math.inf)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


def _to_gumbel(p: Any, q: Gumbel, mean_exp: Tensor) -> Tensor:
    """Of any p with an entropy and a known E exp(-x / scale)."""
    return -p.entropy() + q.scale.log() + (p.mean - q.loc) / q.scale + (q.loc / q.scale).exp() * mean_exp


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    product = p.rate * q.scale
    return _to_gumbel(p, q, product / (product + 1))


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    return _to_gumbel(p, q, (1 + (p.rate * q.scale).reciprocal()).pow(-p.concentration))


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    return _to_gumbel(p, q, (-p.loc / q.scale + 0.5 * (p.scale / q.scale).pow(2)).exp())


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    ends = (-p.low / q.scale).exp() - (-p.high / q.scale).exp()
    return _to_gumbel(p, q, q.scale * ends / (p.high - p.low))
