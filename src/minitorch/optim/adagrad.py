"""Adagrad and Adadelta: steps scaled by all, or by the recent, squared gradients.

Enters: gradients. Leaves: parameters a step further downhill.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.optim.optimizer import (
    Array,
    ElementwiseOptimizer,
    ParameterGroup,
    State,
    average_square,
    check,
    descend,
    full_for,
    option,
)
from minitorch.tensor import Tensor


class Adagrad(ElementwiseOptimizer):
    """Gradient descent with each element's gradient divided by the root of all its squares so far.

        v ← v + g²        x ← x - lr/(1 + (t - 1)·lr_decay) · g/(√v + eps)

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = Adagrad([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); x
    tensor([ 2.9000, -1.9000], requires_grad=True)
    """

    _takes_sparse = True
    _options = "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable fused"
    _remembers = ("sum",)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, self._given(locals()))
        # Unlike the others, Adagrad has a state from the start, as in PyTorch's checkpoints.
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = self._begin(p, group)

    def _begin(self, p: Tensor, group: ParameterGroup) -> State:
        return {**super()._begin(p, group), "sum": full_for(p, group["initial_accumulator_value"])}

    def _numbers(self, t: float, state: State, group: ParameterGroup) -> tuple[float, ...]:
        return option(group, "lr") / (1 + (t - 1) * float(group["lr_decay"])), float(group["eps"])

    def _rule(self, x: Array, g: Array, memory: list[Array], numbers: Any, *scratch: Array) -> None:
        rate, eps = numbers
        (s,) = scratch
        (v,) = memory
        v += np.multiply(g, g, out=s)
        descend(x, rate, g, v, eps, s)


class Adadelta(ElementwiseOptimizer):
    """Steps as large as the recent steps were, in proportion to the gradient.

        v ← ρ·v + (1 - ρ)·g²        δ = √(u + eps)/√(v + eps)·g        u ← ρ·u + (1 - ρ)·δ²
        x ← x - lr·δ

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = Adadelta([x], rho=0.75, eps=0.01)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); x
    tensor([ 2.8001, -1.8002], requires_grad=True)
    """

    _remembers = ("square_avg", "acc_delta")
    _scratches = 2
    _options = "lr rho eps weight_decay maximize capturable foreach differentiable"

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check("Adadelta", 0 <= rho <= 1, "rho value", rho, "0 ≤ rho ≤ 1")
        super().__init__(params, self._given(locals()))

    def _numbers(self, t: float, state: State, group: ParameterGroup) -> tuple[float, ...]:
        return option(group, "lr"), float(group["rho"]), float(group["eps"])

    def _rule(self, x: Array, g: Array, memory: list[Array], numbers: Any, *scratch: Array) -> None:
        lr, rho, eps = numbers
        s, step = scratch
        v, u = memory
        average_square(v, g, rho, s)
        np.add(u, eps, out=step)
        step /= np.add(v, eps, out=s)
        np.sqrt(step, out=step)
        step *= g
        average_square(u, step, rho, s)
        step *= lr
        x -= step
