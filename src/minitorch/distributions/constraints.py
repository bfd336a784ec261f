"""What a parameter or a value may be. Enters: a Tensor. Leaves: for each value, whether it is allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.creation import full
from minitorch.tensor.convert import as_tensor
from minitorch.tensor.methods.joining import cat as joined
from minitorch.tensor.methods.joining import stack as stacked


class Constraint:
    """A condition on the values of a Tensor; `event_dim` last axes belong to one value.

    >>> import minitorch
    >>> positive.check(minitorch.tensor([1.0, -1.0]))
    tensor([ True, False])
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Return a bool Tensor: whether each value is allowed."""
        return self._allowed(value.detach())

    def _allowed(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} says not what it allows")

    def _bounds(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={value}" for name, value in self._bounds().items())
        return f"{type(self).__name__.lstrip('_')}({bounds})"


class _Dependent(Constraint):
    """What is allowed depends on other parameters, or on the distribution: not to be asked by itself."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def _known(self, value: Any, name: str) -> Any:
        if value is NotImplemented:
            raise NotImplementedError(f"constraints.dependent: its {name} was not said")
        return value

    @property
    def is_discrete(self) -> bool:
        """Whether values are apart from each other."""
        return self._known(self._is_discrete, "is_discrete")

    @property
    def event_dim(self) -> int:
        """How many last axes belong to one value."""
        return self._known(self._event_dim, "event_dim")

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Any) -> Any:
        """Refuse to answer."""
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Tell whether a constraint depends on other parameters."""
    return isinstance(constraint, _Dependent)


class dependent_property(property, _Dependent):
    """Decorate a property that gives the constraint; asked of the class it is a dependent constraint."""

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Callable[..., Any]) -> dependent_property:  # type: ignore[override]
        """Decorate, after what is known of the constraint was said."""
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class independent(Constraint):
    """Of several values in one: each must be allowed.

    >>> import minitorch
    >>> independent(positive, 1).check(minitorch.tensor([[1.0, -1.0], [1.0, 1.0]]))
    tensor([False,  True])
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        """Whether values are apart from each other."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        """How many last axes belong to one value."""
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        """Return a bool Tensor: whether each value is allowed."""
        each = self.base_constraint.check(value)
        axes = self.reinterpreted_batch_ndims
        if each.ndim < axes:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.ndim}")
        return each.all(dim=tuple(range(-axes, 0))) if axes else each

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Real(Constraint):
    def _allowed(self, x: Any) -> Any:
        return x == x  # False for nan alone


class _Boolean(Constraint):
    is_discrete = True

    def _allowed(self, x: Any) -> Any:
        return (x == 0) | (x == 1)


class _Bounded(Constraint):
    """Between bounds, which may be numbers or Tensors."""

    def __init__(self, **bounds: Any) -> None:
        self.__dict__.update(bounds)

    lower_bound: Any
    upper_bound: Any

    def _bounds(self) -> dict[str, Any]:
        return dict(self.__dict__)


class greater_than(_Bounded):
    """Above a bound."""

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound=lower_bound)

    def _allowed(self, x: Any) -> Any:
        return x > self.lower_bound

    def __repr__(self) -> str:
        return f"GreaterThan(lower_bound={self.lower_bound})"


class greater_than_eq(_Bounded):
    """A bound or above."""

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound=lower_bound)

    def _allowed(self, x: Any) -> Any:
        return x >= self.lower_bound

    def __repr__(self) -> str:
        return f"GreaterThanEq(lower_bound={self.lower_bound})"


class less_than(_Bounded):
    """Below a bound."""

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(upper_bound=upper_bound)

    def _allowed(self, x: Any) -> Any:
        return x < self.upper_bound

    def __repr__(self) -> str:
        return f"LessThan(upper_bound={self.upper_bound})"


class interval(_Bounded):
    """From a bound to a bound, both included."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound=lower_bound, upper_bound=upper_bound)

    def _allowed(self, x: Any) -> Any:
        return (x >= self.lower_bound) & (x <= self.upper_bound)

    def __repr__(self) -> str:
        return f"Interval(lower_bound={self.lower_bound}, upper_bound={self.upper_bound})"


class half_open_interval(_Bounded):
    """From a bound on to below a bound."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound=lower_bound, upper_bound=upper_bound)

    def _allowed(self, x: Any) -> Any:
        return (x >= self.lower_bound) & (x < self.upper_bound)

    def __repr__(self) -> str:
        return f"HalfOpenInterval(lower_bound={self.lower_bound}, upper_bound={self.upper_bound})"


def _whole(x: Any) -> Any:
    return x % 1 == 0


class integer_interval(_Bounded):
    """Whole numbers from a bound to a bound, both included."""

    is_discrete = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound=lower_bound, upper_bound=upper_bound)

    def _allowed(self, x: Any) -> Any:
        return _whole(x) & (x >= self.lower_bound) & (x <= self.upper_bound)

    def __repr__(self) -> str:
        return f"IntegerInterval(lower_bound={self.lower_bound}, upper_bound={self.upper_bound})"


class _IntegerGreaterThan(_Bounded):
    """Whole numbers from a bound on."""

    is_discrete = True

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound=lower_bound)

    def _allowed(self, x: Any) -> Any:
        return _whole(x) & (x >= self.lower_bound)


class _Simplex(Constraint):
    event_dim = 1

    def _allowed(self, x: Any) -> Any:
        return (x >= 0).all(dim=-1) & ((x.sum(dim=-1) - 1).abs() < 1e-6)


class multinomial(Constraint):
    """Counts that sum to at most a bound."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def _allowed(self, x: Any) -> Any:
        return (x >= 0).all(dim=-1) & (x.sum(dim=-1) <= self.upper_bound)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def _allowed(self, x: Any) -> Any:
        return ((x == 0) | (x == 1)).all(dim=-1) & (x.sum(dim=-1) == 1)


class _LowerTriangular(Constraint):
    event_dim = 2

    def _allowed(self, x: Any) -> Any:
        return (x.tril() == x).flatten(start_dim=-2).all(dim=-1)


class _LowerCholesky(_LowerTriangular):
    def _allowed(self, x: Any) -> Any:
        return super()._allowed(x) & (x.diagonal(dim1=-2, dim2=-1) > 0).all(dim=-1)


class _CorrCholesky(_LowerCholesky):
    """Lower triangles whose rows have length 1."""

    def _allowed(self, x: Any) -> Any:
        tolerance = np.finfo(x.dtype).eps * x.shape[-1] * 10
        lengths = x.square().sum(dim=-1).sqrt()
        return super()._allowed(x) & ((lengths - 1).abs() < tolerance).all(dim=-1)


class _Square(Constraint):
    event_dim = 2

    def _allowed(self, x: Any) -> Any:
        return full(x.shape[:-2], x.shape[-1] == x.shape[-2], device=x.device)


class _Symmetric(_Square):
    def _allowed(self, x: Any) -> Any:
        apart = (x - x.transpose(dim0=-2, dim1=-1)).abs()
        return (apart < 1e-6).flatten(start_dim=-2).all(dim=-1)


class _PositiveSemidefinite(_Symmetric):
    def _allowed(self, x: Any) -> Any:
        return super()._allowed(x) & as_tensor(self._smallest(x) >= 0)

    def _smallest(self, x: Any) -> np.ndarray:
        return np.linalg.eigvalsh(np.where(np.isfinite(x._data), x._data, 0))[..., 0]


class _PositiveDefinite(_PositiveSemidefinite):
    def _allowed(self, x: Any) -> Any:
        return _Symmetric._allowed(self, x) & as_tensor(self._smallest(x) > 0)


class cat(Constraint):
    """Parts along an axis, each with a constraint of its own."""

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    @property
    def is_discrete(self) -> bool:
        """Whether values are apart from each other."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:
        """How many last axes belong to one value."""
        return max(c.event_dim for c in self.cseq)

    def _allowed(self, x: Any) -> Any:
        start, parts = 0, []
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            parts.append(constraint.check(x.narrow(self.dim, start, length)))
            start += length
        return joined(parts, self.dim)


class stack(Constraint):
    """Parts along a new axis, each with a constraint of its own."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> bool:
        """Whether values are apart from each other."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:
        """How many last axes belong to one value."""
        deepest = max(c.event_dim for c in self.cseq)
        return deepest + 1 if self.dim + deepest < 0 else deepest

    def _allowed(self, x: Any) -> Any:
        parts = [c.check(x.select(self.dim, i)) for i, c in enumerate(self.cseq)]
        return stacked(parts, self.dim)


class MixtureSameFamilyConstraint(Constraint):
    """What the components of a mixture allow, each of them."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        """Whether values are apart from each other."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        """How many last axes belong to one value."""
        return self.base_constraint.event_dim

    def _allowed(self, x: Any) -> Any:
        return self.base_constraint.check(x.unsqueeze(-1 - self.event_dim)).all(dim=-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


dependent = _Dependent()
real = _Real()
boolean = _Boolean()
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
unit_interval = interval(0.0, 1.0)
real_vector = independent(real, 1)
simplex = _Simplex()
one_hot = _OneHot()
positive_vector = independent(positive, 1)
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular",
    "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
    "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack",
    "symmetric", "unit_interval",
]  # fmt: skip
