"""Averaged stochastic gradient descent. Enters: gradients. Leaves: parameters a step further, and their average."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.engine.node import new_tensor
from minitorch.engine.recording import number as only_number
from minitorch.optim.optimizer import (
    Array,
    ElementwiseOptimizer,
    ParameterGroup,
    State,
    average,
    number,
    option,
    scalar_dtype,
)
from minitorch.tensor import Tensor


class ASGD(ElementwiseOptimizer):
    """Gradient descent with a rate that falls, and the average of the places from step t0 on, in the state as `ax`.

        x ← (1 - λ·η)·x - η·g        ax ← ax + μ·(x - ax)
        η ← lr/(1 + λ·lr·t)^α        μ ← 1/max(1, t - t0)

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = ASGD([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); x
    tensor([ 2.4000, -1.6000], requires_grad=True)
    """

    _options = "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"
    _remembers = ("ax",)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, self._given(locals()))

    def _begin(self, p: Tensor, group: ParameterGroup) -> State:
        begun = super()._begin(p, group)
        rates = {"eta": number(group["lr"]), "mu": 1.0}
        scalars = {name: new_tensor(np.asarray(value, scalar_dtype())) for name, value in rates.items()}
        return {"step": begun["step"], **scalars, "ax": begun["ax"]}

    def _numbers(self, t: float, state: State, group: ParameterGroup) -> tuple[float, ...]:
        eta, mu = (only_number(state[name]._data) for name in ("eta", "mu"))
        lr, lambd = option(group, "lr"), float(group["lambd"])
        # For the next step: this one still goes by what the last one left.
        state["eta"]._data[...] = lr / (1 + lambd * lr * t) ** float(group["alpha"])
        state["mu"]._data[...] = 1 / max(1, t - float(group["t0"]))
        return eta, mu, 1 - lambd * eta

    def _rule(self, x: Array, g: Array, memory: list[Array], numbers: Any, *scratch: Array) -> None:
        eta, mu, shrink = numbers
        (s,) = scratch
        (ax,) = memory
        np.multiply(g, eta, out=s)
        x *= shrink
        x -= s
        average(ax, x, mu, s)
