"""RMSprop and Rprop: steps that do not depend on the gradient's size.

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
    average,
    average_square,
    check,
    full_for,
    number,
    option,
)
from minitorch.tensor import Tensor


class RMSprop(ElementwiseOptimizer):
    """Gradient descent with each element's gradient divided by its recent root mean square.

        v ← α·v + (1 - α)·g²
        x ← x - lr·g/(√v + eps)               (momentum: b ← momentum·b + g/(√v + eps); x ← x - lr·b)

    `centered` subtracts the square of the mean gradient, so that v is a variance.

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = RMSprop([x], lr=0.1, alpha=0.75)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); x
    tensor([ 2.8000, -1.8000], requires_grad=True)
    """

    _options = "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, self._given(locals()))

    def _remembered(self, group: ParameterGroup) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if group["momentum"] > 0 else ()
        return ("square_avg", *momentum, "grad_avg") if group["centered"] else ("square_avg", *momentum)

    def _numbers(self, t: float, state: State, group: ParameterGroup) -> tuple[float, ...]:
        momentum, centered = float(group["momentum"]), bool(group["centered"])
        return option(group, "lr"), float(group["alpha"]), float(group["eps"]), momentum, centered

    def _rule(self, x: Array, g: Array, memory: list[Array], numbers: Any, *scratch: Array) -> None:
        lr, alpha, eps, momentum, centered = numbers
        (s,) = scratch
        v = memory[0]
        average_square(v, g, alpha, s)
        if centered:
            mean = memory[-1]
            average(mean, g, 1 - alpha, s)
            np.multiply(mean, mean, out=s)
            np.subtract(v, s, out=s)
            np.sqrt(s, out=s)
        else:
            np.sqrt(v, out=s)
        s += eps
        np.divide(g, s, out=s)
        if momentum:
            b = memory[1]
            b *= momentum
            b += s
            np.multiply(b, lr, out=s)
        else:
            s *= lr
        x -= s


class Rprop(ElementwiseOptimizer):
    """Steps by the gradient's sign: each element's step grows while the sign stays, shrinks when it turns.

        g·g₋₁ > 0: d ← min(η₊·d, dmax)         g·g₋₁ < 0: d ← max(η₋·d, dmin), and g ← 0
        x ← x - sign(g)·d                      d starts at lr, `step_sizes` = (dmin, dmax)

    For gradients of the whole data set: on small batches the sign turns too often.

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = Rprop([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); x
    tensor([ 2.9000, -1.9000], requires_grad=True)
    """

    _remembers = ("prev", "step_size")
    _scratches = 2
    _options = "lr etas step_sizes foreach maximize differentiable capturable"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check("Rprop", 0 < etas[0] < 1 < etas[1], "eta values", etas, "0 < etas[0] < 1 < etas[1]")
        super().__init__(params, self._given(locals()))

    def _begin(self, p: Tensor, group: ParameterGroup) -> State:
        return {**super()._begin(p, group), "step_size": full_for(p, number(group["lr"]))}

    def _numbers(self, t: float, state: State, group: ParameterGroup) -> tuple[float, ...]:
        return tuple(float(n) for n in (*group["etas"], *group["step_sizes"]))

    def _rule(self, x: Array, g: Array, memory: list[Array], numbers: Any, *scratch: Array) -> None:
        shrink, grow, smallest, largest = numbers
        s, t = scratch
        previous, size = memory
        np.multiply(g, previous, out=s)
        turned = s < 0
        # The factor by cases, written as a number per element: grow, shrink or 1.
        np.copyto(t, 1.0)
        np.copyto(t, grow, where=s > 0)
        np.copyto(t, shrink, where=turned)
        size *= t
        np.clip(size, smallest, largest, out=size)
        np.copyto(previous, g)
        np.copyto(previous, 0.0, where=turned)
        np.sign(previous, out=s)
        s *= size
        x -= s
