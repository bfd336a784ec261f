"""Adam and its kin: steps scaled by running averages of the gradient and of its square.

Enters: gradients. Leaves: parameters a step further downhill. In the formulas m and v are
`exp_avg` and `exp_avg_sq`, t counts the steps, and β₁, β₂ are `betas`. Since m and v start at zero
they are too small at first; dividing by 1 - βᵗ corrects that.
"""

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
    average_square,
    descend,
    number,
    option,
    scalar_dtype,
    zero_step,
)
from minitorch.tensor import Tensor


class Adam(ElementwiseOptimizer):
    """Adam.

        m ← β₁·m + (1 - β₁)·g        v ← β₂·v + (1 - β₂)·g²
        x ← x - lr · m/(1 - β₁ᵗ) / (√(v/(1 - β₂ᵗ)) + eps)

    `weight_decay` is added to the gradient (L2), or with `decoupled_weight_decay` shrinks the
    parameter itself (AdamW). With `amsgrad` the largest v so far takes v's place.

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = Adam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); x
    tensor([ 2.9000, -1.9000], requires_grad=True)
    """

    _options = (
        "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused "
        "decoupled_weight_decay"
    )
    _remembers = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(params, self._given(locals()))

    def _remembered(self, group: ParameterGroup) -> tuple[str, ...]:
        return (*self._remembers, "max_exp_avg_sq") if group["amsgrad"] else self._remembers

    def _numbers(self, t: float, state: State, group: ParameterGroup) -> tuple[float, ...]:
        beta1, beta2 = (number(b) for b in group["betas"])
        # With c = √(1 - β₂ᵗ) the denominator is (√v + eps·c)/c: one division less per element.
        c = (1 - beta2**t) ** 0.5
        rate = option(group, "lr") / (1 - beta1**t) * c
        return rate, beta1, beta2, float(group["eps"]) * c

    def _rule(self, x: Array, g: Array, memory: list[Array], numbers: Any, *scratch: Array) -> None:
        rate, beta1, beta2, eps = numbers
        (s,) = scratch
        m, v, *largest = memory
        average(m, g, 1 - beta1, s)
        average_square(v, g, beta2, s)
        if largest:
            v = np.maximum(largest[0], v, out=largest[0])
        descend(x, rate, m, v, eps, s)


class AdamW(Adam):
    """Adam with decoupled weight decay: first x ← x·(1 - lr·weight_decay), then Adam's step.

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = AdamW([x], lr=0.1, weight_decay=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); x
    tensor([ 2.8700, -1.8800], requires_grad=True)
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, decoupled_weight_decay=True, **self._given(locals()))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that state_dict returned, here or in PyTorch; everything is copied."""
        super().load_state_dict(state_dict)
        # Checkpoints from before the option existed do not say what AdamW always does.
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


class Adamax(ElementwiseOptimizer):
    """Adam with the largest recent gradient instead of the mean square.

        m ← β₁·m + (1 - β₁)·g        u ← max(β₂·u, |g| + eps)
        x ← x - lr/(1 - β₁ᵗ) · m/u

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = Adamax([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); x
    tensor([ 2.9000, -1.9000], requires_grad=True)
    """

    _options = "lr betas eps weight_decay foreach maximize differentiable capturable"
    _remembers = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, self._given(locals()))

    def _numbers(self, t: float, state: State, group: ParameterGroup) -> tuple[float, ...]:
        beta1, beta2 = (number(b) for b in group["betas"])
        rate = option(group, "lr") / (1 - beta1**t)
        return rate, beta1, beta2, float(group["eps"])

    def _rule(self, x: Array, g: Array, memory: list[Array], numbers: Any, *scratch: Array) -> None:
        rate, beta1, beta2, eps = numbers
        (s,) = scratch
        m, u = memory
        average(m, g, 1 - beta1, s)
        np.abs(g, out=s)
        s += eps
        u *= beta2
        np.maximum(u, s, out=u)
        np.divide(m, u, out=s)
        s *= rate
        x -= s


class NAdam(ElementwiseOptimizer):
    """Adam with Nesterov's look ahead, its momentum growing from β₁/2 towards β₁.

        μₜ = β₁·(1 - ½·0.96^(t·momentum_decay))          πₜ = μ₁·μ₂·…·μₜ
        x ← x - lr·[ (1 - μₜ)/(1 - πₜ)·g + μₜ₊₁/(1 - πₜ₊₁)·m ] / (√(v/(1 - β₂ᵗ)) + eps)

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = NAdam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); x
    tensor([ 2.8944, -1.8944], requires_grad=True)
    """

    _options = (
        "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach "
        "capturable differentiable"
    )
    _remembers = ("exp_avg", "exp_avg_sq")
    _scratches = 2

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, self._given(locals()))

    def _begin(self, p: Tensor, group: ParameterGroup) -> State:
        # In the order of PyTorch's checkpoints.
        product = new_tensor(np.ones((), dtype=scalar_dtype()))
        return {"step": zero_step(), "mu_product": product, **super()._begin(p, group)}

    def _numbers(self, t: float, state: State, group: ParameterGroup) -> tuple[float, ...]:
        lr = option(group, "lr")
        beta1, beta2 = (number(b) for b in group["betas"])
        decay = float(group["momentum_decay"])
        now = beta1 * (1 - 0.5 * 0.96 ** (t * decay))
        following = beta1 * (1 - 0.5 * 0.96 ** ((t + 1) * decay))
        state["mu_product"]._data *= now
        product = only_number(state["mu_product"]._data)
        of_gradient = lr * (1 - now) / (1 - product)
        of_average = lr * following / (1 - product * following)
        return of_gradient, of_average, beta1, beta2, float(group["eps"]), (1 - beta2**t) ** 0.5

    def _rule(self, x: Array, g: Array, memory: list[Array], numbers: Any, *scratch: Array) -> None:
        of_gradient, of_average, beta1, beta2, eps, c = numbers
        s, step = scratch
        m, v = memory
        average(m, g, 1 - beta1, s)
        average_square(v, g, beta2, s)
        np.multiply(g, of_gradient, out=step)
        step += np.multiply(m, of_average, out=s)
        np.sqrt(v, out=s)
        s /= c
        s += eps
        step /= s
        x -= step


class RAdam(ElementwiseOptimizer):
    """Adam that does without v until enough steps have been seen to trust it.

        ρ∞ = 2/(1 - β₂) - 1          ρₜ = ρ∞ - 2t·β₂ᵗ/(1 - β₂ᵗ)
        x ← x - lr · m/(1 - β₁ᵗ) · r          (ρₜ ≤ 5: r = 1; otherwise
        r = √( (ρₜ-4)(ρₜ-2)ρ∞ / ((ρ∞-4)(ρ∞-2)ρₜ) ) · √(1 - β₂ᵗ)/(√v + eps) )

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = RAdam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); x
    tensor([ 2.4000, -1.6000], requires_grad=True)
    """

    _options = "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable"
    _remembers = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, self._given(locals()))

    def _numbers(self, t: float, state: State, group: ParameterGroup) -> tuple[float, ...]:
        beta1, beta2 = (number(b) for b in group["betas"])
        rate = option(group, "lr") / (1 - beta1**t)
        correction = 1 - beta2**t
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * t * beta2**t / correction
        trusted = length > 5
        if trusted:
            above, below = (length - 4) * (length - 2) * limit, (limit - 4) * (limit - 2) * length
            rate *= (above / below * correction) ** 0.5
        return rate, beta1, beta2, float(group["eps"]), trusted

    def _rule(self, x: Array, g: Array, memory: list[Array], numbers: Any, *scratch: Array) -> None:
        rate, beta1, beta2, eps, trusted = numbers
        (s,) = scratch
        m, v = memory
        average(m, g, 1 - beta1, s)
        average_square(v, g, beta2, s)
        if trusted:
            descend(x, rate, m, v, eps, s)
        else:
            x -= np.multiply(m, rate, out=s)
