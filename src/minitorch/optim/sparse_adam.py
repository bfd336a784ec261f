"""Adam for sparse gradients. Enters: gradients that name some rows. Leaves: these rows a step further."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch.creation import zeros_like
from minitorch.optim.optimizer import (
    Array,
    ElementwiseOptimizer,
    ParameterGroup,
    State,
    average,
    descend,
    number,
    option,
)
from minitorch.tensor import Tensor


class SparseAdam(ElementwiseOptimizer):
    """Adam that looks only at the rows a sparse gradient names: the averages of the others stay as they are.

        m ← β₁·m + (1 - β₁)·g        v ← β₂·v + (1 - β₂)·g²        x ← x - lr·√(1 - β₂ᵗ)/(1 - β₁ᵗ) · m/(√v + eps)

    >>> table = minitorch.nn.Embedding(4, 2, sparse=True)
    >>> optimizer = SparseAdam(table.parameters(), lr=0.1)
    >>> before = table.weight.detach().clone()
    >>> table(minitorch.tensor([1, 1])).sum().backward()
    >>> optimizer.step(); (table.weight.detach() - before).round(decimals=4)
    tensor([[ 0.0000,  0.0000],
            [-0.1000, -0.1000],
            [ 0.0000,  0.0000],
            [ 0.0000,  0.0000]])
    """

    _options = "lr betas eps maximize"
    _remembers = ("exp_avg", "exp_avg_sq")
    _takes_sparse = True

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, self._given(locals()))

    def _begin(self, p: Tensor, group: ParameterGroup) -> State:
        return {"step": 0, **{name: zeros_like(p) for name in self._remembers}}

    def _prepare(self, p: Tensor, state: State, group: ParameterGroup) -> tuple[list[Array], Any]:
        if p._grad is None or not hasattr(p._grad, "indices"):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        state["step"] += 1
        beta1, beta2 = (number(b) for b in group["betas"])
        t = state["step"]
        rate = option(group, "lr") * math.sqrt(1 - beta2**t) / (1 - beta1**t)
        return [state[name]._data for name in self._remembers], (rate, beta1, beta2, float(group["eps"]))

    def _rule(self, x: Array, g: Array, memory: list[Array], numbers: Any, *scratch: Array) -> None:
        rate, beta1, beta2, eps = numbers
        (s,) = scratch
        m, v = memory
        average(m, g, 1 - beta1, s)
        average(v, np.multiply(g, g), 1 - beta2, s)
        descend(x, rate, m, v, eps, s)
