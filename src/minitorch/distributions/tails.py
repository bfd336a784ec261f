"""More distributions of numbers: heavy tails, shares, waiting times, angles. Enters: parameters. Leaves: samples."""

from __future__ import annotations

import math
from typing import Any

from minitorch import creation
from minitorch.distributions import constraints
from minitorch.distributions.continuous import Cauchy, Chi2, Exponential, Gamma, Normal, Uniform
from minitorch.distributions.discrete import _clamped, _ProbsOrLogits
from minitorch.distributions.distribution import Distribution, broadcast_all
from minitorch.distributions.transformed import TransformedDistribution
from minitorch.distributions.transforms import (
    AffineTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
)
from minitorch.engine.dtypes import finfo, float64
from minitorch.engine.modes import no_grad
from minitorch.functions import isclose, where
from minitorch.nn.functional import binary_cross_entropy_with_logits
from minitorch.random import rand
from minitorch.special import digamma, i0e, i1e, lgamma
from minitorch.tensor import Tensor

EULER = 0.57721566490153286060


class StudentT(Distribution):
    """Student's t: a normal number over the square root of a Chi2 / df.

    >>> from minitorch import tensor
    >>> StudentT(3.0).log_prob(tensor(0.0))
    tensor(-1.0009)
    """

    arg_constraints = {  # noqa: RUF012
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Loc, nan where df ≤ 1."""
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Tensor:
        """Loc."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """scale²·df / (df - 2); ∞ where df ≤ 2, nan where df ≤ 1."""
        variance = self.scale.pow(2) * self.df / (self.df - 2)
        return variance.masked_fill(self.df <= 2, math.inf).masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values through which gradients flow to the parameters."""
        shape = self._extended_shape(sample_shape)
        noise = creation.empty(shape, dtype=self.df.dtype, device=self.df.device).normal_()
        squares = Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * noise * (squares / self.df).rsqrt()

    def log_prob(self, value: Any) -> Tensor:
        """-½ (df + 1) log(1 + y²/df) - log of the area, y = (x - loc) / scale."""
        y = (self._validate_sample(value) - self.loc) / self.scale
        df = self.df
        area = (
            self.scale.log()
            + 0.5 * df.log()
            + 0.5 * math.log(math.pi)
            + lgamma(0.5 * df)
            - lgamma(0.5 * (df + 1))
        )
        return -0.5 * (df + 1.0) * (y**2.0 / df).log1p() - area

    def entropy(self) -> Tensor:
        """The entropy."""
        df = self.df
        log_beta = lgamma(0.5 * df) + math.lgamma(0.5) - lgamma(0.5 * (df + 1))
        rest = 0.5 * (df + 1) * (digamma(0.5 * (df + 1)) - digamma(0.5 * df))
        return self.scale.log() + rest + 0.5 * df.log() + log_beta


class FisherSnedecor(Distribution):
    """F: the ratio of two Chi2 numbers, each over its df.

    >>> FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}  # noqa: RUF012
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """df2 / (df2 - 2), nan where df2 ≤ 2."""
        df2 = self.df2.masked_fill(self.df2 <= 2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        """(df1 - 2) / df1 · df2 / (df2 + 2), nan where df1 ≤ 2."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> Tensor:
        """2 df2² (df1 + df2 - 2) / (df1 (df2 - 2)² (df2 - 4)), nan where df2 ≤ 4."""
        df2 = self.df2.masked_fill(self.df2 <= 4, math.nan)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values through which gradients flow to the parameters."""
        above = Gamma(self.df1 * 0.5, self.df1, validate_args=False).rsample(sample_shape)
        below = Gamma(self.df2 * 0.5, self.df2, validate_args=False).rsample(sample_shape)
        tiny = finfo(above.dtype).tiny
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density."""
        x = self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        powers = a * ratio.log() + (a - 1) * x.log() - (a + b) * (ratio * x).log1p()
        return lgamma(a + b) - lgamma(a) - lgamma(b) + powers


class HalfCauchy(Distribution):
    """The absolute value of a Cauchy number around 0.

    >>> from minitorch import tensor
    >>> HalfCauchy(1.0).cdf(tensor(1.0))
    tensor(0.5000)
    """

    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    has_rsample = True
    support = constraints.nonnegative

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def _cauchy(self) -> Cauchy:
        return Cauchy(creation.zeros_like(self.scale), self.scale, validate_args=False)

    @property
    def mean(self) -> Tensor:
        """Infinity."""
        return creation.full(
            self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device
        )

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return creation.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        """Infinity."""
        return self.mean

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values through which gradients flow to the scale."""
        return self._cauchy.rsample(sample_shape).abs()

    def log_prob(self, value: Any) -> Tensor:
        """Twice the Cauchy density, from 0 on."""
        x = self._validate_sample(value)
        return (self._cauchy.log_prob(x) + math.log(2)).masked_fill(~(x >= 0), -math.inf)

    def cdf(self, value: Any) -> Tensor:
        """The probability of this value or less."""
        return 2 * self._cauchy.cdf(self._validate_sample(value)) - 1

    def icdf(self, value: Any) -> Tensor:
        """The quantile."""
        return self._cauchy.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """The Cauchy entropy less log 2."""
        return self._cauchy.entropy() - math.log(2)


class _OfBase(TransformedDistribution):
    """One made of a simpler one by transforms; a larger batch is made of larger parameters."""

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for a larger batch."""
        given = {name: getattr(self, name).expand(tuple(batch_shape)) for name in self.arg_constraints}
        new = type(self)(**given, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def __repr__(self) -> str:
        return Distribution.__repr__(self)


class InverseGamma(_OfBase):
    """1 over a gamma number.

    >>> InverseGamma(3.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}  # noqa: RUF012
    support = constraints.positive

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        invert = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, invert, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The gamma number's shape."""
        return self.base_dist.concentration  # type: ignore[attr-defined]

    @property
    def rate(self) -> Tensor:
        """The gamma number's rate."""
        return self.base_dist.rate  # type: ignore[attr-defined]

    @property
    def mean(self) -> Tensor:
        """rate / (α - 1), ∞ where α ≤ 1."""
        mean = self.rate / (self.concentration - 1)
        return where(self.concentration > 1, mean, math.inf)

    @property
    def mode(self) -> Tensor:
        """rate / (α + 1)."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """rate² / ((α - 1)² (α - 2)), ∞ where α ≤ 2."""
        a = self.concentration
        return where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        """The entropy."""
        a = self.concentration
        return a + self.rate.log() + lgamma(a) - (1 + a) * digamma(a)


class Kumaraswamy(_OfBase):
    """A share between 0 and 1, as Beta's but with a simple cdf: 1 - (1 - xᵃ)ᵇ.

    >>> from minitorch import tensor
    >>> Kumaraswamy(2.0, 1.0).cdf(tensor(0.5))
    tensor(0.2500)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}  # noqa: RUF012
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zeros = creation.zeros_like(self.concentration0)
        base = Uniform(zeros, zeros + 1, validate_args=validate_args)
        steps = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * (lgamma(a) + lgamma(b) - lgamma(a + b)).exp()

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """The likeliest value, nan where a parameter is below 1."""
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return log_mode.masked_fill((b < 1) | (a < 1), math.nan).exp()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Tensor:
        """The entropy."""
        a, b = self.concentration1, self.concentration0
        return 1 - 1 / b + (1 - 1 / a) * (digamma(b + 1) + EULER) - a.log() - b.log()


class Pareto(_OfBase):
    """From `scale` on, with a tail like x^-(alpha + 1).

    >>> Pareto(1.0, 3.0).mean
    tensor(1.5000)
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}  # noqa: RUF012

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        """From the scale on."""
        return constraints.greater_than_eq(self.scale.detach())

    @property
    def mean(self) -> Tensor:
        """α·scale / (α - 1), ∞ where α ≤ 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        """The scale."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """scale²·α / ((α - 1)² (α - 2)), ∞ where α ≤ 2."""
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Tensor:
        """log(scale / α) + 1 + 1/α."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(_OfBase):
    """Waiting times whose rate changes with time: scale·E^(1/concentration), E exponential.

    >>> Weibull(1.0, 1.0).mean
    tensor(1.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}  # noqa: RUF012
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(creation.ones_like(self.scale), validate_args=validate_args)
        steps = [PowerTransform(self.concentration.reciprocal()), AffineTransform(0, self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """scale·Γ(1 + 1/k)."""
        return self.scale * lgamma(1 + self.concentration.reciprocal()).exp()

    @property
    def mode(self) -> Tensor:
        """scale·((k - 1) / k)^(1/k)."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        """scale²·(Γ(1 + 2/k) - Γ(1 + 1/k)²)."""
        k = self.concentration.reciprocal()
        return self.scale.pow(2) * (lgamma(1 + 2 * k).exp() - (2 * lgamma(1 + k)).exp())

    def entropy(self) -> Tensor:
        """γ (1 - 1/k) + log(scale / k) + 1."""
        k = self.concentration.reciprocal()
        return EULER * (1 - k) + (self.scale * k).log() + 1


class LogisticNormal(TransformedDistribution):
    """Shares that sum to 1, from normal numbers by breaking a stick.

    >>> from minitorch import zeros, ones
    >>> LogisticNormal(zeros(2), ones(2)).sample().shape
    (3,)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        base = base if base.batch_shape else base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The normal numbers' mean."""
        return self.base_dist.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Tensor:
        """The normal numbers' standard deviation."""
        return self.base_dist.base_dist.scale  # type: ignore[attr-defined]


class GeneralizedPareto(Distribution):
    """The tails of other distributions: from `loc` on, like a power, e⁻ᶻ, or up to an end.

    >>> GeneralizedPareto(0.0, 1.0, 0.5).mean
    tensor(2.)
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        """From loc on; where the concentration is negative, up to an end."""
        loc, scale, c = self.loc.detach(), self.scale.detach(), self.concentration.detach()
        return constraints.interval(loc, where(c < 0, loc - scale / c, math.inf))

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is 0, and the concentration with 1 there."""
        zero = isclose(self.concentration, creation.zeros_like(self.concentration))
        return zero, where(zero, 1.0, self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values through which gradients flow to the parameters."""
        return self.icdf(
            rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        )

    def log_prob(self, value: Any) -> Tensor:
        """-log scale - (1 + 1/c) log(1 + c z), z = (x - loc) / scale."""
        z = (self._validate_sample(value) - self.loc) / self.scale
        zero, c = self._shape()
        power = 1 / c + 1
        return -self.scale.log() - where(zero, z, where(power == 0, power, power * (c * z).log1p()))

    def log_survival_function(self, value: Any) -> Tensor:
        """The logarithm of the probability of more than this value."""
        z = (self._validate_sample(value) - self.loc) / self.scale
        zero, c = self._shape()
        return where(zero, -z, -(c * z).log1p() / c)

    def log_cdf(self, value: Any) -> Tensor:
        """The logarithm of the probability of this value or less."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Any) -> Tensor:
        """The probability of this value or less."""
        return self.log_cdf(value).exp()

    def icdf(self, value: Any) -> Tensor:
        """The quantile."""
        zero, c = self._shape()
        log_left = (-value).log1p()
        return where(
            zero, self.loc - self.scale * log_left, self.loc + self.scale * (-c * log_left).expm1() / c
        )

    @property
    def mean(self) -> Tensor:
        """loc + scale / (1 - c), nan where c ≥ 1."""
        c = self.concentration
        return where(c < 1, self.loc + self.scale / (1 - where(c < 1, c, 0.5)), math.nan)

    @property
    def mode(self) -> Tensor:
        """Loc."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """scale² / ((1 - c)² (1 - 2c)), nan where c ≥ ½."""
        valid = self.concentration < 0.5
        c = where(valid, self.concentration, 0.25)
        return where(valid, self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), math.nan)

    def entropy(self) -> Tensor:
        """log scale + c + 1."""
        return self.scale.log() + self.concentration + 1


class ContinuousBernoulli(_ProbsOrLogits):
    """A number between 0 and 1 with a density like pˣ (1 - p)¹⁻ˣ.

    Near p = ½ formulas divide by 0: inside of `lims` a series takes their place.

    >>> ContinuousBernoulli(0.5).mean
    tensor(0.5000)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        name = self._one_of(probs, logits)
        (given,) = broadcast_all(probs if logits is None else logits)
        if name == "probs" and validate_args and not bool(constraints.unit_interval.check(given).all()):
            raise ValueError("The parameter probs has invalid values")
        self.__dict__[name] = _clamped(given) if name == "probs" else given
        self._lims = lims
        super().__init__(given.shape, validate_args=validate_args)

    def _to_probs(self, logits: Tensor) -> Tensor:
        return _clamped(logits.sigmoid())

    def _far(self) -> tuple[Tensor, Tensor]:
        """Where p is far from ½, and p with a number far from it elsewhere."""
        far = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return far, where(far, self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Tensor:
        """The logarithm of what makes the density's area 1."""
        far, p = self._far()
        below = p <= 0.5
        width = where(
            below, (-2.0 * where(below, p, 0.0)).log1p(), (2.0 * where(p >= 0.5, p, 1.0) - 1.0).log()
        )
        x = (self.probs - 0.5).pow(2)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return where(far, ((-p).log1p() - p.log()).abs().log() - width, series)

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        far, p = self._far()
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x
        return where(far, p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log()), series)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        far, p = self._far()
        x = (self.probs - 0.5).pow(2)
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        exact = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / ((-p).log1p() - p.log()).pow(2)
        return where(far, exact, series)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values through which gradients flow to the parameter."""
        return self.icdf(
            rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        )

    def log_prob(self, value: Any) -> Tensor:
        """x log p + (1 - x) log(1 - p) + the constant."""
        logits, x = broadcast_all(self.logits, self._validate_sample(value))
        return -binary_cross_entropy_with_logits(logits, x, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value: Any) -> Tensor:
        """The probability of this value or less."""
        x = self._validate_sample(value)
        far, p = self._far()
        inside = where(far, (p.pow(x) * (1.0 - p).pow(1.0 - x) + p - 1.0) / (2.0 * p - 1.0), x)
        return where(x <= 0.0, 0.0, where(x >= 1.0, 1.0, inside))

    def icdf(self, value: Any) -> Tensor:
        """The quantile."""
        far, p = self._far()
        exact = ((-p + value * (2.0 * p - 1.0)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p())
        return where(far, exact, value)

    def entropy(self) -> Tensor:
        """The entropy."""
        no, yes = (-self.probs).log1p(), self.probs.log()
        return self.mean * (no - yes) - self._cont_bern_log_norm() - no


class VonMises(Distribution):
    """Angles around `loc`, the nearer the larger the concentration.

    >>> from minitorch import tensor
    >>> VonMises(tensor(0.0), tensor(1.0)).log_prob(tensor(0.0))
    tensor(-1.0738)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}  # noqa: RUF012
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Loc."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """Loc."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """1 - I₁(κ) / I₀(κ), the circular variance."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw angles by rejection (Best and Fisher, 1979), in double precision."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            loc, k = self.loc.to(float64), self.concentration.to(float64)
            tau = 1 + (1 + 4 * k**2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))
            x = creation.zeros(shape, dtype=float64, device=loc.device)
            done = creation.zeros(shape, dtype=bool, device=loc.device)
            while not bool(done.all()):
                u1, u2, u3 = rand(3, *shape, dtype=float64, device=loc.device)
                z = (math.pi * u1).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accepted = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                x = where(accepted, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accepted
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    def log_prob(self, value: Any) -> Tensor:
        """κ cos(x - loc) - log 2π I₀(κ)."""
        x = self._validate_sample(value)
        k = self.concentration
        return k * (x - self.loc).cos() - math.log(2 * math.pi) - (i0e(k).log() + k)
