"""What a parameter or a value may be. Enters: a Tensor. Leaves: for each value, whether it is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Constraint:
    """A named condition on the values of a Tensor; `event_dim` last axes belong to one value.

    >>> import minitorch
    >>> positive.check(minitorch.tensor([1.0, -1.0]))
    tensor([ True, False])
    """

    def __init__(
        self, name: str, allowed: Callable[[Any], Any], event_dim: int = 0, is_discrete: bool = False
    ) -> None:
        self.name, self._allowed = name, allowed
        self.event_dim, self.is_discrete = event_dim, is_discrete

    def check(self, value: Any) -> Any:
        """Return a bool Tensor: whether each value is allowed."""
        return self._allowed(value.detach())

    def __repr__(self) -> str:
        return self.name


def _whole(x: Any) -> Any:
    return x % 1 == 0


real = Constraint("Real()", lambda x: x == x)  # False for nan alone
boolean = Constraint("Boolean()", lambda x: (x == 0) | (x == 1), is_discrete=True)
positive = Constraint("GreaterThan(lower_bound=0.0)", lambda x: x > 0)
nonnegative = Constraint("GreaterThanEq(lower_bound=0.0)", lambda x: x >= 0)
nonnegative_integer = Constraint(
    "IntegerGreaterThan(lower_bound=0)", lambda x: _whole(x) & (x >= 0), is_discrete=True
)
unit_interval = Constraint("Interval(lower_bound=0.0, upper_bound=1.0)", lambda x: (x >= 0) & (x <= 1))
real_vector = Constraint("IndependentConstraint(Real(), 1)", lambda x: (x == x).all(dim=-1), 1)
simplex = Constraint("Simplex()", lambda x: (x >= 0).all(dim=-1) & ((x.sum(dim=-1) - 1).abs() < 1e-6), 1)
one_hot = Constraint(
    "OneHot()", lambda x: ((x == 0) | (x == 1)).all(dim=-1) & (x.sum(dim=-1) == 1), 1, is_discrete=True
)
positive_vector = Constraint(
    "IndependentConstraint(GreaterThan(lower_bound=0.0), 1)", lambda x: (x > 0).all(dim=-1), 1
)


def interval(low: Any, high: Any) -> Constraint:
    """Return: from low to high, both included."""
    return Constraint(f"Interval(lower_bound={low}, upper_bound={high})", lambda x: (x >= low) & (x <= high))


def greater_than(low: Any) -> Constraint:
    """Return: above low."""
    return Constraint(f"GreaterThan(lower_bound={low})", lambda x: x > low)


def integer_interval(low: int, high: int) -> Constraint:
    """Return: whole numbers from low to high, both included."""
    name = f"IntegerInterval(lower_bound={low}, upper_bound={high})"
    return Constraint(name, lambda x: _whole(x) & (x >= low) & (x <= high), is_discrete=True)


def _is_lower_cholesky(x: Any) -> Any:
    lower = (x.tril() == x).flatten(start_dim=-2).all(dim=-1)
    return lower & (x.diagonal(dim1=-2, dim2=-1) > 0).all(dim=-1)


def _is_positive_definite(x: Any) -> Any:
    symmetric = ((x - x.transpose(dim0=-2, dim1=-1)).abs() < 1e-6).flatten(start_dim=-2).all(dim=-1)
    smallest = np.linalg.eigvalsh(np.where(np.isfinite(x._data), x._data, 0))[..., 0]
    return symmetric & type(x)(smallest > 0)


lower_cholesky = Constraint("LowerCholesky()", _is_lower_cholesky, 2)
positive_definite = Constraint("PositiveDefinite()", _is_positive_definite, 2)
