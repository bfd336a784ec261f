"""What every distribution is: shapes, validation, and the words they all know. Enters: parameters. Leaves: samples."""

from __future__ import annotations

from typing import Any, ClassVar

from minitorch.autograd import grad
from minitorch.creation import tensor
from minitorch.distributions.constraints import Constraint, independent, is_dependent
from minitorch.engine.modes import enable_grad, no_grad
from minitorch.ops.op import violated
from minitorch.tensor import Tensor
from minitorch.tensor.convert import common_shape
from minitorch.tensor.devices import Size


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Return numbers and Tensors as Tensors of one shape; numbers take the dtype and device of the Tensors."""
    first = next((v for v in values if isinstance(v, Tensor)), None)
    for value in values:
        if not isinstance(value, (Tensor, int, float)):
            raise ValueError(
                f"a distribution's parameters must be Tensors or numbers, got {type(value).__name__}"
            )
    alike: dict[str, Any] = {} if first is None else {"dtype": first.dtype, "device": first.device}
    parts = [v if isinstance(v, Tensor) else tensor(float(v), **alike) for v in values]
    shape = common_shape("distribution", *(p.shape for p in parts))
    return tuple(p.expand(shape) if p.shape != shape else p for p in parts)


def sum_rightmost(value: Tensor, axes: int) -> Tensor:
    """Sum the last axes, that many."""
    return value.sum(dim=tuple(range(-axes, 0))) if axes else value


def shape_of(sample_shape: Any) -> Size:
    """Return a sample shape as a Size."""
    return Size((sample_shape,)) if isinstance(sample_shape, int) else Size(int(n) for n in sample_shape)


class Distribution:
    """The base class. batch_shape: how many independent ones; event_shape: the shape of one value.

    Subclasses name their parameters in `arg_constraints`, in the order __init__ takes them.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    _validate_args = True

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name, constraint in self.arg_constraints.items():
                value = self.__dict__.get(name)  # a parameter computed on demand is valid by itself
                if is_dependent(constraint):
                    continue
                if isinstance(value, Tensor) and violated(~constraint.check(value).all()):
                    raise ValueError(
                        f"Expected parameter {name} (Tensor of shape {tuple(value.shape)}) of distribution {self!r} to "
                        f"satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                    )

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Switch the checking of parameters and values on or off, for all."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected a bool, got {value!r}")
        Distribution._validate_args = value

    @property
    def batch_shape(self) -> Size:
        """The shape of the parameters: that many independent distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value."""
        return self._event_shape

    @property
    def support(self) -> Constraint:
        """What values there are."""
        raise NotImplementedError(f"{type(self).__name__} names no support")

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise NotImplementedError(f"{type(self).__name__} has no mean here")

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        raise NotImplementedError(f"{type(self).__name__} has no mode here")

    @property
    def variance(self) -> Tensor:
        """The expected squared distance from the mean."""
        raise NotImplementedError(f"{type(self).__name__} has no variance here")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values, shape sample_shape + batch_shape + event_shape, without a graph."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values through which gradients flow to the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample: write sample() and log_prob()")

    def sample_n(self, n: int) -> Tensor:
        """Draw n values."""
        return self.sample((n,))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density, or of the probability, at a value."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob here")

    def cdf(self, value: Any) -> Tensor:
        """The probability of this value or less."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf here")

    def icdf(self, value: Any) -> Tensor:
        """The value that has this probability or less below it."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf here")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values there are, along a new first axis."""
        raise NotImplementedError(f"{type(self).__name__} has no finite support")

    def entropy(self) -> Tensor:
        """The expected -log_prob."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy here")

    def perplexity(self) -> Tensor:
        """e to the entropy: how many equally likely values would surprise as much."""
        return self.entropy().exp()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for a larger batch."""
        shape = Size(batch_shape)
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        for name, constraint in self.arg_constraints.items():
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                own = value.shape[value.ndim - constraint.event_dim :] if constraint.event_dim else ()
                new.__dict__[name] = value.expand(shape + tuple(own))
        new._batch_shape = shape
        return new

    def _with_part_expanded(self, part: str, batch_shape: Any) -> Any:
        """The same distribution for a larger batch, where a distribution it is made of carries the batch."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        expanded = getattr(self, part).expand(batch_shape)
        setattr(new, part, expanded)
        new._batch_shape = expanded.batch_shape
        return new

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size(tuple(shape_of(sample_shape)) + self._batch_shape + self._event_shape)

    def _validate_sample(self, value: Any) -> Tensor:
        """Return the value as a Tensor, checked where checking is on."""
        if not isinstance(value, Tensor):
            raise ValueError(f"The value argument to log_prob must be a Tensor, got {type(value).__name__}")
        if not self._validate_args:
            return value
        start = value.ndim - len(self._event_shape)
        if tuple(value.shape[start:]) != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {tuple(value.shape)} vs {self._event_shape}."
            )
        common = tuple(
            zip(reversed(value.shape), reversed(self._batch_shape + self._event_shape), strict=False)
        )
        if any(a != 1 and b != 1 and a != b for a, b in common):
            raise ValueError(
                f"Value is not broadcastable with batch_shape+event_shape: {tuple(value.shape)} vs "
                f"{self._batch_shape + self._event_shape}."
            )
        if violated(~self.support.check(value).all()):
            raise ValueError(
                f"Expected value argument (Tensor of shape {tuple(value.shape)}) to be within the support "
                f"({self.support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )
        return value

    def __repr__(self) -> str:
        named = [(n, self.__dict__[n]) for n in self.arg_constraints if n in self.__dict__]
        shown = (f"{n}: {v.item() if v.numel() == 1 else tuple(v.shape)}" for n, v in named)
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """One whose density is h(x)·exp(θ·t(x) - A(θ)); the entropy follows from A and its slope.

    A subclass gives the natural parameters θ (`_natural_params`), A (`_log_normalizer`), and the expected
    log h(x) (`_mean_carrier_measure`).
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__} names no natural parameters")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no log-normaliser")

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError(f"{type(self).__name__} names no mean of its carrier measure")

    def entropy(self) -> Tensor:
        """A(θ) - θ·A'(θ) - E log h."""
        theta = [p.detach().requires_grad_() for p in self._natural_params]
        with enable_grad():
            normalizer = self._log_normalizer(*theta)
            slopes = grad(normalizer.sum(), theta, create_graph=True)
        entropy: Any = normalizer - self._mean_carrier_measure
        for parameter, slope in zip(theta, slopes, strict=True):
            weighted = (parameter * slope).reshape(*self._batch_shape, -1)
            entropy = entropy - weighted.sum(-1)
        return entropy


class Independent(Distribution):
    """Let the last batch axes belong to one value: their log-probabilities are summed.

    >>> from minitorch import zeros, ones
    >>> from minitorch.distributions import Normal
    >>> d = Independent(Normal(zeros(4, 3), ones(4, 3)), 1)
    >>> d.batch_shape, d.event_shape, d.log_prob(zeros(4, 3)).shape
    ((4,), (3,), (4,))
    """

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                f"Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        event = tuple(batch[cut:]) + base_distribution.event_shape
        super().__init__(batch[:cut], event, validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether gradients flow through samples."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> Constraint:
        """What values there are."""
        base, axes = self.base_dist.support, self.reinterpreted_batch_ndims
        return independent(base, axes) if axes else base

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """The expected squared distance from the mean."""
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values through which gradients flow to the parameters."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density, summed over the axes of one value."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """The entropy, summed over the axes of one value."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Independent:
        """The same distribution for a larger batch."""
        own = self.event_shape[: self.reinterpreted_batch_ndims]
        return Independent(self.base_dist.expand(Size(tuple(batch_shape) + own)), len(own))

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
