"""Probability distributions in PyTorch's spelling: sample, rsample, log_prob, entropy, kl_divergence.

Enters: parameters, as Tensors or numbers. Leaves: samples and densities, differentiable in the parameters. The same
seed gives the same samples as PyTorch.
"""

import sys as _sys

from minitorch.distributions import (
    constraints,
    continuous,
    discrete,
    mixture,
    relaxed,
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
from minitorch.distributions.discrete import (
    Bernoulli,
    Categorical,
    Geometric,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from minitorch.distributions.distribution import Distribution, Independent
from minitorch.distributions.kl import kl_divergence, register_kl
from minitorch.distributions.mixture import MixtureSameFamily
from minitorch.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from minitorch.distributions.transformed import LogNormal, TransformedDistribution
from minitorch.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "AffineTransform", "Bernoulli", "Beta", "Categorical", "Cauchy", "Chi2", "ComposeTransform", "Dirichlet",
    "Distribution", "ExpTransform", "Exponential", "Gamma", "Geometric", "Gumbel", "HalfNormal",
    "Independent", "Laplace", "LogNormal", "MixtureSameFamily", "MultivariateNormal", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Poisson", "RelaxedBernoulli",
    "RelaxedOneHotCategorical", "SigmoidTransform", "SoftplusTransform", "TanhTransform", "Transform",
    "TransformedDistribution", "Uniform", "constraints", "identity_transform", "kl_divergence", "register_kl",
    "transforms", "utils",
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
    "independent": _distribution,
    "mixture_same_family": mixture,
}.items():
    globals()[_name] = _sys.modules[f"{__name__}.{_name}"] = _room
