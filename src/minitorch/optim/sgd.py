"""Stochastic gradient descent. Enters: gradients. Leaves: parameters a step further downhill."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.engine.node import new_tensor
from minitorch.ops.sparse import Coo
from minitorch.optim.optimizer import (
    Array,
    ElementwiseOptimizer,
    ParameterGroup,
    State,
    number,
    option,
)
from minitorch.tensor import Tensor


class SGD(ElementwiseOptimizer):
    """Gradient descent, with momentum if asked for.

        g ← g + weight_decay·x
        b ← momentum·b + (1 - dampening)·g          (the first step: b ← g)
        x ← x - lr·b                                (nesterov: x - lr·(g + momentum·b))

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = SGD([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); x
    tensor([ 2.4000, -1.6000], requires_grad=True)
    """

    _takes_sparse = True
    _options = "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, self._given(locals()))

    def _begin(self, p: Tensor, group: ParameterGroup) -> State:
        # Without momentum nothing is remembered. With it, the first gradient, all of it: later ones may be dampened.
        if group["dampening"] or not number(group["momentum"]):
            return {}
        return {"momentum_buffer": new_tensor(np.zeros_like(p._data))}

    def _prepare(self, p: Tensor, state: State, group: ParameterGroup) -> tuple[list[Array], Any]:
        lr, momentum = option(group, "lr"), option(group, "momentum")
        if not momentum:
            return [], (lr, 0.0, 0.0, False)
        kept = 1 - float(group["dampening"])
        buffer = state.get("momentum_buffer")
        if buffer is None:
            # Momentum 0 and weight 1 on whatever is in memory would keep a nan: hence zeros.
            buffer = state["momentum_buffer"] = new_tensor(np.zeros_like(p._data))
            kept = 1.0
        return [buffer._data], (lr, momentum, kept, group["nesterov"])

    def _sparse_step(self, p: Tensor, g: Coo, group: ParameterGroup, decays: bool) -> None:
        lr, momentum = option(group, "lr"), option(group, "momentum")
        if not momentum or decays:
            super()._sparse_step(p, g, group, decays)
            return
        # What is remembered is sparse too: rows that were never named have no momentum.
        state = self.state[p]
        buffer: Any = state.get("momentum_buffer")
        b = g.copy() if buffer is None else buffer._data * momentum + g * (1 - float(group["dampening"]))
        state["momentum_buffer"] = new_tensor(b)
        np.subtract(p._data, (g + b * momentum if group["nesterov"] else b) * lr, out=p._data)

    def _rule(self, x: Array, g: Array, memory: list[Array], numbers: Any, *scratch: Array) -> None:
        lr, momentum, kept, nesterov = numbers
        (s,) = scratch
        if not memory:
            x -= np.multiply(g, lr, out=s)
            return
        (b,) = memory
        b *= momentum
        b += g if kept == 1.0 else np.multiply(g, kept, out=s)
        if nesterov:
            np.multiply(b, momentum, out=s)
            s += g
            s *= lr
        else:
            np.multiply(b, lr, out=s)
        x -= s
