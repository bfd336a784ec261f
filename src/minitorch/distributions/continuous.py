"""Distributions of real numbers and vectors. Enters: parameters. Leaves: samples, densities, moments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special as reference

from minitorch import creation
from minitorch.autograd import Function
from minitorch.distributions import constraints
from minitorch.distributions.distribution import Distribution, broadcast_all
from minitorch.engine.dtypes import finfo
from minitorch.engine.node import new_tensor
from minitorch.linalg import cholesky, inv, solve_triangular
from minitorch.ops.op import violated
from minitorch.random import normal, rand
from minitorch.special import digamma, erf, erfinv, lgamma, xlogy
from minitorch.tensor import Tensor
from minitorch.tensor.generator import generator_of
from minitorch.tensor.methods.joining import stack

_REAL = {"loc": constraints.real, "scale": constraints.positive}


class _LocationScale(Distribution):
    """One of `loc` and `scale`."""

    arg_constraints = _REAL
    has_rsample = True
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return self.loc


class Normal(_LocationScale):
    """The normal distribution.

    >>> from minitorch import tensor
    >>> Normal(0.0, 1.0).log_prob(tensor(0.0)).item() == -0.5 * math.log(2 * math.pi)
    False
    >>> round(Normal(0.0, 1.0).log_prob(tensor(0.0)).item(), 4)
    -0.9189
    """

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale.pow(2)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values, without a graph."""
        shape = self._extended_shape(sample_shape)
        return normal(self.loc.detach().expand(shape), self.scale.detach().expand(shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw loc + scale·ε: gradients flow to both."""
        noise = creation.empty(
            self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device
        ).normal_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Tensor:
        """-(x - μ)² / 2σ² - log σ - log √2π."""
        x = self._validate_sample(value)
        var = self.scale**2
        return -((x - self.loc) ** 2) / (2 * var) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Any) -> Tensor:
        """The probability of this value or less."""
        x = self._validate_sample(value)
        return 0.5 * (1 + erf((x - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Any) -> Tensor:
        """The quantile."""
        return self.loc + self.scale * erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """½ + ½ log 2π + log σ."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Laplace(_LocationScale):
    """The Laplace distribution: two exponentials, back to back.

    >>> from minitorch import tensor
    >>> Laplace(0.0, 1.0).log_prob(tensor(0.0))
    tensor(-0.6931)
    """

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values through which gradients flow to the parameters."""
        u = creation.empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        u.uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Any) -> Tensor:
        """-|x - μ| / b - log 2b."""
        x = self._validate_sample(value)
        return -(2 * self.scale).log() - (x - self.loc).abs() / self.scale

    def cdf(self, value: Any) -> Tensor:
        """The probability of this value or less."""
        x = self._validate_sample(value)
        off = x - self.loc
        return 0.5 - 0.5 * off.sign() * (-off.abs() / self.scale).expm1()

    def icdf(self, value: Any) -> Tensor:
        """The quantile."""
        off = value - 0.5
        return self.loc - self.scale * off.sign() * (-2 * off.abs()).log1p()

    def entropy(self) -> Tensor:
        """1 + log 2b."""
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """The Cauchy distribution, which has no mean.

    >>> Cauchy(0.0, 1.0).mean
    tensor(nan)
    """

    @property
    def mean(self) -> Tensor:
        """Nan: there is none."""
        return creation.full(self._extended_shape(), math.nan, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def variance(self) -> Tensor:
        """Infinity."""
        return creation.full(self._extended_shape(), math.inf, dtype=self.loc.dtype, device=self.loc.device)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values through which gradients flow to the parameters."""
        noise = creation.empty(
            self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device
        ).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Tensor:
        """-log π - log γ - log(1 + ((x - μ) / γ)²)."""
        x = self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((x - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Any) -> Tensor:
        """The probability of this value or less."""
        x = self._validate_sample(value)
        return ((x - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Any) -> Tensor:
        """The quantile."""
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        """log 4π + log γ."""
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The Gumbel distribution: the largest of many.

    >>> Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    @property
    def mean(self) -> Tensor:
        """Loc + γ·scale, with Euler's γ."""
        return self.loc + self.scale * 0.57721566490153286060

    @property
    def variance(self) -> Tensor:
        """π²/6 · scale²."""
        return (math.pi / math.sqrt(6) * self.scale).pow(2)

    @property
    def stddev(self) -> Tensor:
        """π/√6 · scale."""
        return math.pi / math.sqrt(6) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw loc - scale·log(-log u)."""
        limits = finfo(self.loc.dtype)
        u = rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        u = limits.tiny + u * ((1 - limits.eps) - limits.tiny)
        return self.loc - self.scale * (-u.log()).log()

    def log_prob(self, value: Any) -> Tensor:
        """y - eʸ - log β, with y = (μ - x) / β."""
        x = self._validate_sample(value)
        y = (self.loc - x) / self.scale
        return (y - y.exp()) - self.scale.log()

    def entropy(self) -> Tensor:
        """log β + 1 + γ."""
        return self.scale.log() + (1 + 0.57721566490153286060)


class HalfNormal(Distribution):
    """The absolute value of a normal number around 0.

    >>> HalfNormal(2.0).mean
    tensor(1.5958)
    """

    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    has_rsample = True
    support = constraints.nonnegative

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def _normal(self) -> Normal:
        return Normal(creation.zeros_like(self.scale), self.scale, validate_args=False)

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return creation.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values through which gradients flow to the scale."""
        return self._normal.rsample(sample_shape).abs()

    def log_prob(self, value: Any) -> Tensor:
        """Twice the normal density, from 0 on."""
        x = self._validate_sample(value)
        return (self._normal.log_prob(x) + math.log(2)).masked_fill(~(x >= 0), -math.inf)

    def cdf(self, value: Any) -> Tensor:
        """The probability of this value or less."""
        x = self._validate_sample(value)
        return 2 * self._normal.cdf(x) - 1

    def icdf(self, value: Any) -> Tensor:
        """The quantile."""
        return self._normal.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """The normal entropy less log 2."""
        return self._normal.entropy() - math.log(2)


class Uniform(Distribution):
    """Equally likely everywhere from low to high.

    >>> Uniform(0.0, 4.0).entropy()
    tensor(1.3863)
    """

    arg_constraints = {"low": constraints.real, "high": constraints.real}  # noqa: RUF012
    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and violated(~(self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low>= high")

    @property
    def support(self) -> constraints.Constraint:
        """From low to high."""
        return constraints.interval(self.low.detach(), self.high.detach())

    @property
    def mean(self) -> Tensor:
        """The middle."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """Nan: no value is likelier than others."""
        return math.nan * self.high

    @property
    def variance(self) -> Tensor:
        """(high - low)² / 12."""
        return (self.high - self.low).pow(2) / 12

    @property
    def stddev(self) -> Tensor:
        """(high - low) / √12."""
        return (self.high - self.low) / 12**0.5

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw low + u·(high - low)."""
        drawn = rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Any) -> Tensor:
        """-log(high - low) inside, -∞ outside."""
        x = self._validate_sample(value)
        inside = ((self.low <= x) & (self.high > x)).to(self.low.dtype)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Any) -> Tensor:
        """The probability of this value or less."""
        x = self._validate_sample(value)
        return ((x - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Tensor:
        """The quantile."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """log(high - low)."""
        return (self.high - self.low).log()


class Exponential(Distribution):
    """Waiting times at a rate.

    >>> Exponential(2.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"rate": constraints.positive}  # noqa: RUF012
    has_rsample = True
    support = constraints.nonnegative

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return creation.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """1 / rate²."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values through which gradients flow to the rate."""
        noise = creation.empty(
            self._extended_shape(sample_shape), dtype=self.rate.dtype, device=self.rate.device
        ).exponential_()
        return noise / self.rate

    def log_prob(self, value: Any) -> Tensor:
        """log λ - λx."""
        x = self._validate_sample(value)
        return self.rate.log() - self.rate * x

    def cdf(self, value: Any) -> Tensor:
        """The probability of this value or less."""
        x = self._validate_sample(value)
        return 1 - (-self.rate * x).exp()

    def icdf(self, value: Any) -> Tensor:
        """The quantile."""
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        """1 - log λ."""
        return 1.0 - self.rate.log()


def _slope_at_fixed_probability(quantile: Any, share: Any, a: np.ndarray) -> np.ndarray:
    """d(quantile(a, share))/da: how a sample moves with its parameter while its rank stays."""
    step = 1e-4 * np.maximum(a, 1e-3)
    return (quantile(a + step, share) - quantile(a - step, share)) / (2 * step)


class _StandardGamma(Function):
    """Draws gamma numbers; on the way back each moves with its shape parameter while its rank stays."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        flat = concentration._data.reshape(-1)
        drawn = (
            generator_of(concentration.device).gammas(flat).astype(flat.dtype).reshape(concentration.shape)
        )
        drawn = np.maximum(drawn, float(np.finfo(flat.dtype).tiny))
        out = new_tensor(drawn)
        ctx.save_for_backward(concentration, out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        concentration, drawn = ctx.saved_tensors
        a, x = concentration._data.astype(np.float64), drawn._data.astype(np.float64)
        # From the nearer end: close to 1 a probability keeps no digits.
        below = reference.gammainc(a, x)
        lower = _slope_at_fixed_probability(reference.gammaincinv, below, a)
        upper = _slope_at_fixed_probability(reference.gammainccinv, reference.gammaincc(a, x), a)
        return gradient * new_tensor(np.where(below < 0.5, lower, upper).astype(drawn.dtype))


class Gamma(Distribution):
    """The gamma distribution: the waiting time for `concentration` events at a rate.

    >>> Gamma(2.0, 4.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}  # noqa: RUF012
    has_rsample = True
    support = constraints.nonnegative

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """α / β."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """(α - 1) / β, at least 0."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """α / β²."""
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values through which gradients flow to the parameters."""
        shape = self._extended_shape(sample_shape)
        drawn = _StandardGamma.apply(self.concentration.expand(shape).contiguous())
        return drawn / self.rate.expand(shape)

    def log_prob(self, value: Any) -> Tensor:
        """α log β + (α - 1) log x - βx - log Γ(α)."""
        x = self._validate_sample(value)
        return (
            xlogy(self.concentration, self.rate)
            + xlogy(self.concentration - 1, x)
            - self.rate * x
            - lgamma(self.concentration)
        )

    def entropy(self) -> Tensor:
        """α - log β + log Γ(α) + (1 - α) ψ(α)."""
        a = self.concentration
        return a - self.rate.log() + lgamma(a) + (1.0 - a) * digamma(a)


class Chi2(Gamma):
    """The sum of `df` squared standard normal numbers.

    >>> Chi2(3.0).mean
    tensor(3.)
    """

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """How many."""
        return self.concentration * 2


class _SampleDirichlet(Function):
    """Draws shares of 1; on the way back through each share's own beta distribution."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        a = concentration._data
        drawn = generator_of(concentration.device).gammas(a.reshape(-1)).reshape(a.shape)
        shares = (drawn / drawn.sum(axis=-1, keepdims=True)).astype(a.dtype)
        limits = np.finfo(a.dtype)
        below_one = np.nextafter(a.dtype.type(1), a.dtype.type(0))
        out = new_tensor(np.clip(shares, float(limits.tiny), float(below_one)))
        ctx.save_for_backward(concentration, out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        concentration, out = ctx.saved_tensors
        a, x = concentration._data.astype(np.float64), out._data.astype(np.float64)
        rest = a.sum(axis=-1, keepdims=True) - a
        below = reference.betainc(a, rest, x)
        lower = _slope_at_fixed_probability(lambda s, p: reference.betaincinv(s, rest, p), below, a)
        above = reference.betaincc(a, rest, x)
        upper = _slope_at_fixed_probability(lambda s, p: reference.betainccinv(s, rest, p), above, a)
        slope = np.where(below < 0.5, lower, upper) / (1 - x)
        g = gradient._data.astype(np.float64)
        return new_tensor((slope * (g - (x * g).sum(axis=-1, keepdims=True))).astype(out.dtype))


class Dirichlet(Distribution):
    """Shares that sum to 1.

    >>> from minitorch import tensor
    >>> Dirichlet(tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.positive_vector}  # noqa: RUF012
    has_rsample = True
    support = constraints.simplex

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """α / Σα."""
        return self.concentration / self.concentration.sum(dim=-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        """(α - 1) / Σ(α - 1), at the largest share alone where no α is above 1."""
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(dim=-1, keepdim=True)
        none = (self.concentration < 1).all(dim=-1, keepdim=True)
        peak = creation.one_hot(less.argmax(dim=-1), less.shape[-1]).to(less.dtype)
        return creation.zeros_like(mode) + mode.where(~none, peak) if bool(none.any()) else mode

    @property
    def variance(self) -> Tensor:
        """α (Σα - α) / (Σα² (Σα + 1))."""
        total = self.concentration.sum(dim=-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw shares through which gradients flow to the concentration."""
        shape = self._extended_shape(sample_shape)
        return _SampleDirichlet.apply(self.concentration.expand(shape).contiguous())

    def log_prob(self, value: Any) -> Tensor:
        """Σ (α - 1) log x + log Γ(Σα) - Σ log Γ(α)."""
        x = self._validate_sample(value)
        a = self.concentration
        return xlogy(a - 1.0, x).sum(dim=-1) + lgamma(a.sum(dim=-1)) - lgamma(a).sum(dim=-1)

    def entropy(self) -> Tensor:
        """The entropy."""
        a = self.concentration
        count, total = a.size(-1), a.sum(dim=-1)
        spread = (count - total) * digamma(total)
        return lgamma(a).sum(dim=-1) - lgamma(total) - spread - ((a - 1.0) * digamma(a)).sum(dim=-1)


class Beta(Distribution):
    """A share between 0 and 1.

    >>> Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}  # noqa: RUF012
    has_rsample = True
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    @property
    def _pair(self) -> Dirichlet:
        return Dirichlet(stack([self.concentration1, self.concentration0], -1), validate_args=False)

    @property
    def mean(self) -> Tensor:
        """α / (α + β)."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """The likeliest share."""
        return self._pair.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        """αβ / ((α + β)² (α + β + 1))."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw shares through which gradients flow to the parameters."""
        return self._pair.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Any) -> Tensor:
        """(α - 1) log x + (β - 1) log(1 - x) - log B(α, β)."""
        x = self._validate_sample(value)
        return self._pair.log_prob(stack([x, 1.0 - x], -1))

    def entropy(self) -> Tensor:
        """The entropy."""
        return self._pair.entropy()


def batch_mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """Multiply matrices with vectors, over any batch axes."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def batch_mahalanobis(lower: Tensor, difference: Tensor) -> Tensor:
    """dᵀ (L Lᵀ)⁻¹ d, over any batch axes."""
    solved = solve_triangular(lower, difference.unsqueeze(-1), upper=False).squeeze(-1)
    return solved.pow(2).sum(dim=-1)


class MultivariateNormal(Distribution):
    """Normal vectors, by their covariance, its inverse (precision), or its Cholesky factor.

    >>> from minitorch import eye, zeros
    >>> MultivariateNormal(zeros(2), eye(2)).log_prob(zeros(2))
    tensor(-1.8379)
    """

    has_rsample = True
    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        named = [(name, matrix) for name, matrix in given.items() if matrix is not None]
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if len(named) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, matrix),) = named
        if matrix.dim() < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = np.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch, -1))
        self.__dict__[name] = matrix.expand((*batch, -1, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            lower = matrix
        elif name == "covariance_matrix":
            lower = cholesky(matrix)
        else:
            lower = cholesky(inv(matrix))
        self._unbroadcasted_scale_tril = lower

    def __getattr__(self, name: str) -> Any:
        # Of the three matrices the two that were not given are computed when asked for.
        if name.startswith("_") or "_unbroadcasted_scale_tril" not in self.__dict__:
            raise AttributeError(name)
        lower = self._unbroadcasted_scale_tril
        shape = (*self._batch_shape, *self._event_shape, *self._event_shape)
        if name == "scale_tril":
            return lower.expand(shape)
        if name == "covariance_matrix":
            return (lower @ lower.transpose(dim0=-2, dim1=-1)).expand(shape)
        if name == "precision_matrix":
            return inv(lower @ lower.transpose(dim0=-2, dim1=-1)).expand(shape)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The covariance's diagonal."""
        squares = self._unbroadcasted_scale_tril.pow(2).sum(dim=-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def expand(self, batch_shape: Any, _instance: Any = None) -> MultivariateNormal:
        """The same distribution for a larger batch."""
        size = self._event_shape[0]
        lower = self._unbroadcasted_scale_tril.expand((*batch_shape, size, size))
        return MultivariateNormal(
            self.loc.expand((*batch_shape, size)), scale_tril=lower, validate_args=False
        )

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw μ + Lε."""
        noise = creation.empty(
            self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device
        ).normal_()
        return self.loc + batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Any) -> Tensor:
        """-½ (k log 2π + log |Σ| + Mahalanobis distance²)."""
        x = self._validate_sample(value)
        lower = self._unbroadcasted_scale_tril
        distance = batch_mahalanobis(lower, x - self.loc)
        half_log_det = lower.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - half_log_det

    def entropy(self) -> Tensor:
        """½ k (1 + log 2π) + ½ log |Σ|."""
        half_log_det = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half_log_det
        return entropy.expand(self._batch_shape)
