"""Adagrad and Adadelta: steps scaled by all, or by the recent, squared gradients.

Enters: gradients. Leaves: parameters a step further downhill.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.creation import full_like
from minitorch.optim.optimizer import (
    ElementwiseOptimizer,
    ParameterGroup,
    State,
    advance,
    check,
    check_lr,
    option,
    refuse_differentiable,
    zero_step,
    zeros_for,
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
        check_lr("Adagrad", lr)
        check("Adagrad", lr_decay >= 0, "lr_decay", lr_decay, "a number ≥ 0")
        check("Adagrad", weight_decay >= 0, "weight_decay", weight_decay, "a number ≥ 0")
        check(
            "Adagrad",
            initial_accumulator_value >= 0,
            "initial_accumulator_value",
            initial_accumulator_value,
            "a number ≥ 0",
        )
        check("Adagrad", eps >= 0, "epsilon value", eps, "a number ≥ 0")
        refuse_differentiable("Adagrad", differentiable)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        # Unlike the others, Adagrad has a state from the start, as in PyTorch's checkpoints.
        for group in self.param_groups:
            for p in group["params"]:
                self._begin(p, self.state[p], group)

    def _begin(self, p: Tensor, state: State, group: ParameterGroup) -> None:
        state["step"] = zero_step()
        state["sum"] = full_like(p, group["initial_accumulator_value"])

    def _prepare(
        self, p: Tensor, state: State, group: ParameterGroup
    ) -> tuple[list[np.ndarray], tuple[float, ...]]:
        t = advance(state)
        rate = option(group, "lr") / (1 + (t - 1) * float(group["lr_decay"]))
        return [state["sum"]._data], (rate, float(group["eps"]))

    def _rule(
        self, x: np.ndarray, g: np.ndarray, memory: list[np.ndarray], numbers: Any, *scratch: np.ndarray
    ) -> None:
        rate, eps = numbers
        (s,) = scratch
        (v,) = memory
        v += np.multiply(g, g, out=s)
        np.sqrt(v, out=s)
        s += eps
        np.divide(g, s, out=s)
        s *= rate
        x -= s


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

    _scratches = 2

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
        check_lr("Adadelta", lr)
        check("Adadelta", 0 <= rho <= 1, "rho value", rho, "0 ≤ rho ≤ 1")
        check("Adadelta", eps >= 0, "epsilon value", eps, "a number ≥ 0")
        check("Adadelta", weight_decay >= 0, "weight_decay", weight_decay, "a number ≥ 0")
        refuse_differentiable("Adadelta", differentiable)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _begin(self, p: Tensor, state: State, group: ParameterGroup) -> None:
        state["step"] = zero_step()
        state["square_avg"] = zeros_for(p)
        state["acc_delta"] = zeros_for(p)

    def _prepare(
        self, p: Tensor, state: State, group: ParameterGroup
    ) -> tuple[list[np.ndarray], tuple[float, ...]]:
        advance(state)
        numbers = (option(group, "lr"), float(group["rho"]), float(group["eps"]))
        return [state["square_avg"]._data, state["acc_delta"]._data], numbers

    def _rule(
        self, x: np.ndarray, g: np.ndarray, memory: list[np.ndarray], numbers: Any, *scratch: np.ndarray
    ) -> None:
        lr, rho, eps = numbers
        s, step = scratch
        v, u = memory
        np.multiply(g, g, out=s)
        s *= 1 - rho
        v *= rho
        v += s
        np.add(u, eps, out=step)
        step /= np.add(v, eps, out=s)
        np.sqrt(step, out=step)
        step *= g
        np.multiply(step, step, out=s)
        s *= 1 - rho
        u *= rho
        u += s
        step *= lr
        x -= step
