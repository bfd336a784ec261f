"""Probability distributions in PyTorch's spelling: sample, rsample, log_prob, entropy, kl_divergence.

Enters: parameters, as Tensors or numbers. Leaves: samples and densities, differentiable in the parameters. The same
seed gives the same samples as PyTorch.
"""

import sys as _sys

from minitorch.distributions import (
    constraints,
    continuous,
    counts,
    discrete,
    matrices,
    mixture,
    registry,
    relaxed,
    tails,
    transformed,
    transforms,
    utils,
)
from minitorch.distributions import distribution as _distribution
from minitorch.distributions.continuous import (
    Beta,
    Cauchy,
    Chi2,
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
from minitorch.distributions.counts import Binomial, Multinomial, NegativeBinomial
from minitorch.distributions.discrete import (
    Bernoulli,
    Categorical,
    Geometric,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from minitorch.distributions.distribution import Distribution, ExponentialFamily, Independent
from minitorch.distributions.kl import kl_divergence, register_kl
from minitorch.distributions.matrices import LKJCholesky, LowRankMultivariateNormal, Wishart
from minitorch.distributions.mixture import MixtureSameFamily
from minitorch.distributions.registry import biject_to, transform_to
from minitorch.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from minitorch.distributions.tails import (
    ContinuousBernoulli,
    FisherSnedecor,
    GeneralizedPareto,
    HalfCauchy,
    InverseGamma,
    Kumaraswamy,
    LogisticNormal,
    Pareto,
    StudentT,
    VonMises,
    Weibull,
)
from minitorch.distributions.transformed import LogNormal, TransformedDistribution
from minitorch.distributions.transforms import *  # noqa: F403
from minitorch.distributions.transforms import __all__ as _of_transforms

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli", "Dirichlet",
    "Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto",
    "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy",
    "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal", "LowRankMultivariateNormal", "MixtureSameFamily",
    "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical",
    "StudentT", "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart", "biject_to",
    "constraints", "kl_divergence", "register_kl", "transform_to", "transforms", "utils", *_of_transforms,
]  # fmt: skip

# PyTorch has a file for each: `from torch.distributions.normal import Normal`.
for _name, _room in {
    **dict.fromkeys(
        """beta cauchy chi2 dirichlet exponential gamma gumbel half_normal laplace multivariate_normal normal
        uniform""".split(),  # noqa: SIM905
        continuous,
    ),
    **dict.fromkeys("bernoulli categorical geometric one_hot_categorical poisson".split(), discrete),  # noqa: SIM905
    **dict.fromkeys(("relaxed_bernoulli", "relaxed_categorical"), relaxed),
    **dict.fromkeys(("log_normal", "transformed_distribution"), transformed),
    **dict.fromkeys("binomial multinomial negative_binomial".split(), counts),  # noqa: SIM905
    **dict.fromkeys("lkj_cholesky lowrank_multivariate_normal wishart".split(), matrices),  # noqa: SIM905
    **dict.fromkeys(
        """continuous_bernoulli fishersnedecor generalized_pareto half_cauchy inverse_gamma kumaraswamy
        logistic_normal pareto studentT von_mises weibull""".split(),  # noqa: SIM905
        tails,
    ),
    "constraint_registry": registry,
    "exp_family": _distribution,
    "independent": _distribution,
    "mixture_same_family": mixture,
}.items():
    globals()[_name] = _sys.modules[f"{__name__}.{_name}"] = _room
