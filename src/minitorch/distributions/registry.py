"""From any real numbers to what a constraint allows. Enters: a constraint. Leaves: a transform whose codomain it is.

`biject_to` gives transforms that can be undone, with the logarithm of their slope; `transform_to` those that suit an
optimiser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitorch.distributions import constraints, transforms
from minitorch.distributions.constraints import Constraint
from minitorch.distributions.transforms import Transform

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """Transforms by the kind of a constraint.

    >>> import minitorch
    >>> transform_to(constraints.positive)(minitorch.tensor(0.0))
    tensor(1.)
    """

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Say which transform a kind of constraint has; a constraint stands for its kind. Also a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError(
                f"Expected constraint to be a Constraint subclass or instance, but got {constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """Return the transform onto what a constraint allows."""
        if type(constraint) not in self._registry:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints; register a transform for the kind"
            )
        return self._registry[type(constraint)](constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if all(isinstance(bound, (int, float)) for bound in (low, high)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    )


def _above(constraint: Any) -> Transform:
    low = constraint.lower_bound
    if isinstance(low, (int, float)) and low == 0:
        return transforms.ExpTransform()
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(low, 1)])


def _below(constraint: Any) -> Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


def _fill(to: ConstraintRegistry) -> None:
    """Register what both have in common."""

    def each(constraint: Any) -> list[Transform]:
        return [to(c) for c in constraint.cseq]

    to.register(constraints.real, lambda constraint: transforms.identity_transform)
    to.register(
        constraints.independent,
        lambda constraint: transforms.IndependentTransform(
            to(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        ),
    )
    to.register(constraints.greater_than, _above)
    to.register(constraints.greater_than_eq, _above)
    to.register(constraints.less_than, _below)
    to.register(constraints.interval, _between)
    to.register(constraints.half_open_interval, _between)
    to.register(constraints.corr_cholesky, lambda constraint: transforms.CorrCholeskyTransform())
    to.register(constraints.cat, lambda c: transforms.CatTransform(each(c), c.dim, c.lengths))
    to.register(constraints.stack, lambda c: transforms.StackTransform(each(c), c.dim))


_fill(biject_to)
_fill(transform_to)
biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
for _matrices in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_matrices, lambda constraint: transforms.PositiveDefiniteTransform())
