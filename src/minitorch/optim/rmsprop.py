"""RMSprop and Rprop: steps that do not depend on the gradient's size.

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
    number,
    option,
    refuse_differentiable,
    zero_step,
    zeros_for,
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
        check_lr("RMSprop", lr)
        check("RMSprop", eps >= 0, "epsilon value", eps, "a number ≥ 0")
        check("RMSprop", momentum >= 0, "momentum", momentum, "a number ≥ 0")
        check("RMSprop", weight_decay >= 0, "weight_decay", weight_decay, "a number ≥ 0")
        check("RMSprop", alpha >= 0, "alpha", alpha, "a number ≥ 0")
        refuse_differentiable("RMSprop", differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _begin(self, p: Tensor, state: State, group: ParameterGroup) -> None:
        state["step"] = zero_step()
        state["square_avg"] = zeros_for(p)
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_for(p)
        if group["centered"]:
            state["grad_avg"] = zeros_for(p)

    def _prepare(
        self, p: Tensor, state: State, group: ParameterGroup
    ) -> tuple[list[np.ndarray], tuple[float, ...]]:
        advance(state)
        momentum, centered = float(group["momentum"]), bool(group["centered"])
        memory = [state["square_avg"]._data]
        if momentum:
            memory.append(state["momentum_buffer"]._data)
        if centered:
            memory.append(state["grad_avg"]._data)
        numbers = (option(group, "lr"), float(group["alpha"]), float(group["eps"]), momentum, centered)
        return memory, numbers

    def _rule(
        self, x: np.ndarray, g: np.ndarray, memory: list[np.ndarray], numbers: Any, *scratch: np.ndarray
    ) -> None:
        lr, alpha, eps, momentum, centered = numbers
        (s,) = scratch
        v = memory[0]
        np.multiply(g, g, out=s)
        s *= 1 - alpha
        v *= alpha
        v += s
        if centered:
            mean = memory[-1]
            np.subtract(g, mean, out=s)
            s *= 1 - alpha
            mean += s
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

    _scratches = 2

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
        check_lr("Rprop", lr)
        check("Rprop", 0 < etas[0] < 1 < etas[1], "eta values", etas, "0 < etas[0] < 1 < etas[1]")
        refuse_differentiable("Rprop", differentiable)
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _begin(self, p: Tensor, state: State, group: ParameterGroup) -> None:
        state["step"] = zero_step()
        state["prev"] = zeros_for(p)
        state["step_size"] = full_like(p, number(group["lr"]))

    def _prepare(
        self, p: Tensor, state: State, group: ParameterGroup
    ) -> tuple[list[np.ndarray], tuple[float, ...]]:
        advance(state)
        numbers = tuple(float(n) for n in (*group["etas"], *group["step_sizes"]))
        return [state["prev"]._data, state["step_size"]._data], numbers

    def _rule(
        self, x: np.ndarray, g: np.ndarray, memory: list[np.ndarray], numbers: Any, *scratch: np.ndarray
    ) -> None:
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
