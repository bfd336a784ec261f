"""What a row of the table is, and the inputs it is tried on. Enters: an op's name and a call. Leaves: a `Case`.

A case's `call` takes the library first, so that the same line runs on minitorch and on PyTorch:
`lambda m, x: m.softmax(x, dim=-1)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Maker = Callable[[np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Case:
    """One op at one kind of input.

    op: the name in ops.OPS that it proves, or the public function's where that is a composite.
    call: computes it, given the library and the inputs.
    inputs: how to make each input; floats are differentiated.
    torch: PyTorch's spelling where it differs; None where PyTorch has no such function.
    differentiable: False for questions (comparisons, argmax).
    """

    op: str
    call: Callable[..., Any]
    inputs: tuple[Maker, ...]
    torch: Callable[..., Any] | None
    differentiable: bool = True

    def arrays(self, trial: int = 0) -> list[np.ndarray]:
        """Make the inputs; another trial gives other numbers."""
        rng = np.random.default_rng([trial, len(self.op), sum(map(ord, self.op))])
        return [make(rng) for make in self.inputs]


CASES: list[Case] = []
SAME: Any = object()
FUNCTIONAL: Any = object()  # PyTorch has it by the same name in torch.nn.functional


def case(
    op: str, call: Callable[..., Any], *inputs: Maker, torch: Any = SAME, differentiable: bool = True
) -> None:
    """Add a row to the table."""
    if torch is FUNCTIONAL:
        torch = lambda t, *inputs: call(t.nn.functional, *inputs)
    CASES.append(Case(op, call, inputs, call if torch is SAME else torch, differentiable))


def plain_cases(ops: str, *inputs: Maker, differentiable: bool = True) -> None:
    """Add a row for each of several ops that are functions of these names, called with the inputs alone.

    ops: their names, with spaces between.
    """
    for op in ops.split():
        case(op, lambda m, *xs, name=op: getattr(m, name)(*xs), *inputs, differentiable=differentiable)


# --- inputs: away from kinks and poles, where a derivative exists --------------------------------


def normal(*shape: int) -> Maker:
    """Normal numbers, none within 0.1 of 0."""
    return lambda rng: (lambda x: x + 0.1 * np.where(x < 0, -1, 1))(rng.normal(size=shape))


def positive(*shape: int) -> Maker:
    """Numbers from 0.3 to 3."""
    return lambda rng: rng.uniform(0.3, 3.0, size=shape)


def unit(*shape: int) -> Maker:
    """Numbers from -0.9 to 0.9."""
    return lambda rng: rng.uniform(-0.9, 0.9, size=shape)


def above_one(*shape: int) -> Maker:
    """Numbers from 1.2 to 3."""
    return lambda rng: rng.uniform(1.2, 3.0, size=shape)


def distinct(*shape: int) -> Maker:
    """Numbers that keep a distance from each other, from 0 and from integers: no ties."""

    def make(rng: np.random.Generator) -> np.ndarray:
        size = math.prod(shape)
        steps = rng.permutation(size) - size // 2
        return (0.37 * steps + 0.23 + rng.uniform(0, 0.02, size=size)).reshape(shape)

    return make


def integers(high: int, *shape: int) -> Maker:
    """Integers from 0 to high - 1."""
    return lambda rng: rng.integers(0, high, size=shape)


def bools(*shape: int) -> Maker:
    """A mask; at least one element of each kind where there are two."""

    def make(rng: np.random.Generator) -> np.ndarray:
        mask = rng.uniform(size=shape) < 0.5
        if mask.size > 1:
            mask.reshape(-1)[:2] = [True, False]
        return mask

    return make


def matrix(*shape: int) -> Maker:
    """Well-conditioned matrices: random ones with a strong diagonal."""
    return lambda rng: rng.normal(size=shape) + 3 * np.eye(shape[-2], shape[-1])


def eighths(*shape: int) -> Maker:
    """Multiples of 1/8 from -2 to 2: with a step of 2⁻¹⁷ still exact in float32."""
    return lambda rng: rng.integers(-16, 17, size=shape) / 8


def fixed(*values: Any) -> Maker:
    """Exactly these values."""
    return lambda rng: np.array(values)
