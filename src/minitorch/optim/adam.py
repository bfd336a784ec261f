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
    ElementwiseOptimizer,
    ParameterGroup,
    State,
    advance,
    check,
    check_betas,
    check_lr,
    number,
    option,
    refuse_differentiable,
    scalar_dtype,
    zero_step,
    zeros_for,
)
from minitorch.tensor import Tensor


def _average(mean: np.ndarray, new: np.ndarray, weight: float, s: np.ndarray) -> None:
    """Mix a new value into a running average:  mean ← mean + weight·(new - mean)."""
    np.subtract(new, mean, out=s)
    s *= weight
    mean += s


def _average_square(mean: np.ndarray, new: np.ndarray, beta: float, s: np.ndarray) -> None:
    """Mix a new square into a running average:  mean ← β·mean + (1 - β)·new²."""
    np.multiply(new, new, out=s)
    s *= 1 - beta
    mean *= beta
    mean += s


class _AdamLike(ElementwiseOptimizer):
    """What the family shares: the options' checks, and the two running averages."""

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        name = type(self).__name__
        check_lr(name, defaults["lr"])
        check(name, defaults["eps"] >= 0, "epsilon value", defaults["eps"], "a number ≥ 0")
        check_betas(name, defaults["betas"])
        check(
            name,
            number(defaults["weight_decay"]) >= 0,
            "weight_decay",
            defaults["weight_decay"],
            "a number ≥ 0",
        )
        refuse_differentiable(name, defaults["differentiable"])
        super().__init__(params, defaults)

    def _begin(self, p: Tensor, state: State, group: ParameterGroup) -> None:
        state["step"] = zero_step()
        state["exp_avg"] = zeros_for(p)
        state["exp_avg_sq"] = zeros_for(p)


class Adam(_AdamLike):
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
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _begin(self, p: Tensor, state: State, group: ParameterGroup) -> None:
        super()._begin(p, state, group)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_for(p)

    def _prepare(
        self, p: Tensor, state: State, group: ParameterGroup
    ) -> tuple[list[np.ndarray], tuple[float, ...]]:
        t = advance(state)
        beta1, beta2 = (number(b) for b in group["betas"])
        # With c = √(1 - β₂ᵗ) the denominator is (√v + eps·c)/c: one division less per element.
        c = (1 - beta2**t) ** 0.5
        rate = option(group, "lr") / (1 - beta1**t) * c
        memory = [state["exp_avg"]._data, state["exp_avg_sq"]._data]
        if group["amsgrad"]:
            memory.append(state["max_exp_avg_sq"]._data)
        return memory, (rate, beta1, beta2, float(group["eps"]) * c)

    def _rule(
        self, x: np.ndarray, g: np.ndarray, memory: list[np.ndarray], numbers: Any, *scratch: np.ndarray
    ) -> None:
        rate, beta1, beta2, eps = numbers
        (s,) = scratch
        m, v, *largest = memory
        _average(m, g, 1 - beta1, s)
        _average_square(v, g, beta2, s)
        if largest:
            v = np.maximum(largest[0], v, out=largest[0])
        np.sqrt(v, out=s)
        s += eps
        np.divide(m, s, out=s)
        s *= rate
        x -= s


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
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that state_dict returned, here or in PyTorch; everything is copied."""
        super().load_state_dict(state_dict)
        # Checkpoints from before the option existed do not say what AdamW always does.
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


class Adamax(_AdamLike):
    """Adam with the largest recent gradient instead of the mean square.

        m ← β₁·m + (1 - β₁)·g        u ← max(β₂·u, |g| + eps)
        x ← x - lr/(1 - β₁ᵗ) · m/u

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = Adamax([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); x
    tensor([ 2.9000, -1.9000], requires_grad=True)
    """

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
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _begin(self, p: Tensor, state: State, group: ParameterGroup) -> None:
        state["step"] = zero_step()
        state["exp_avg"] = zeros_for(p)
        state["exp_inf"] = zeros_for(p)

    def _prepare(
        self, p: Tensor, state: State, group: ParameterGroup
    ) -> tuple[list[np.ndarray], tuple[float, ...]]:
        t = advance(state)
        beta1, beta2 = (number(b) for b in group["betas"])
        rate = option(group, "lr") / (1 - beta1**t)
        return [state["exp_avg"]._data, state["exp_inf"]._data], (rate, beta1, beta2, float(group["eps"]))

    def _rule(
        self, x: np.ndarray, g: np.ndarray, memory: list[np.ndarray], numbers: Any, *scratch: np.ndarray
    ) -> None:
        rate, beta1, beta2, eps = numbers
        (s,) = scratch
        m, u = memory
        _average(m, g, 1 - beta1, s)
        np.abs(g, out=s)
        s += eps
        u *= beta2
        np.maximum(u, s, out=u)
        np.divide(m, u, out=s)
        s *= rate
        x -= s


class NAdam(_AdamLike):
    """Adam with Nesterov's look ahead, its momentum growing from β₁/2 towards β₁.

        μₜ = β₁·(1 - ½·0.96^(t·momentum_decay))          πₜ = μ₁·μ₂·…·μₜ
        x ← x - lr·[ (1 - μₜ)/(1 - πₜ)·g + μₜ₊₁/(1 - πₜ₊₁)·m ] / (√(v/(1 - β₂ᵗ)) + eps)

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = NAdam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); x
    tensor([ 2.8944, -1.8944], requires_grad=True)
    """

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
        check("NAdam", momentum_decay >= 0, "momentum_decay", momentum_decay, "a number ≥ 0")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _begin(self, p: Tensor, state: State, group: ParameterGroup) -> None:
        state["step"] = zero_step()
        state["mu_product"] = new_tensor(np.ones((), dtype=scalar_dtype()))
        state["exp_avg"] = zeros_for(p)
        state["exp_avg_sq"] = zeros_for(p)

    def _prepare(
        self, p: Tensor, state: State, group: ParameterGroup
    ) -> tuple[list[np.ndarray], tuple[float, ...]]:
        t = advance(state)
        lr = option(group, "lr")
        beta1, beta2 = (number(b) for b in group["betas"])
        decay = float(group["momentum_decay"])
        now = beta1 * (1 - 0.5 * 0.96 ** (t * decay))
        following = beta1 * (1 - 0.5 * 0.96 ** ((t + 1) * decay))
        state["mu_product"]._data *= now
        product = only_number(state["mu_product"]._data)
        of_gradient = lr * (1 - now) / (1 - product)
        of_average = lr * following / (1 - product * following)
        numbers = (of_gradient, of_average, beta1, beta2, float(group["eps"]), (1 - beta2**t) ** 0.5)
        return [state["exp_avg"]._data, state["exp_avg_sq"]._data], numbers

    _scratches = 2

    def _rule(
        self, x: np.ndarray, g: np.ndarray, memory: list[np.ndarray], numbers: Any, *scratch: np.ndarray
    ) -> None:
        of_gradient, of_average, beta1, beta2, eps, c = numbers
        s, step = scratch
        m, v = memory
        _average(m, g, 1 - beta1, s)
        _average_square(v, g, beta2, s)
        np.multiply(g, of_gradient, out=step)
        step += np.multiply(m, of_average, out=s)
        np.sqrt(v, out=s)
        s /= c
        s += eps
        step /= s
        x -= step


class RAdam(_AdamLike):
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
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _prepare(
        self, p: Tensor, state: State, group: ParameterGroup
    ) -> tuple[list[np.ndarray], tuple[float, ...]]:
        t = advance(state)
        beta1, beta2 = (number(b) for b in group["betas"])
        rate = option(group, "lr") / (1 - beta1**t)
        correction = 1 - beta2**t
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * t * beta2**t / correction
        trusted = length > 5
        if trusted:
            above, below = (length - 4) * (length - 2) * limit, (limit - 4) * (limit - 2) * length
            rate *= (above / below * correction) ** 0.5
        memory = [state["exp_avg"]._data, state["exp_avg_sq"]._data]
        return memory, (rate, beta1, beta2, float(group["eps"]), trusted)

    def _rule(
        self, x: np.ndarray, g: np.ndarray, memory: list[np.ndarray], numbers: Any, *scratch: np.ndarray
    ) -> None:
        rate, beta1, beta2, eps, trusted = numbers
        (s,) = scratch
        m, v = memory
        _average(m, g, 1 - beta1, s)
        _average_square(v, g, beta2, s)
        if trusted:
            np.sqrt(v, out=s)
            s += eps
            np.divide(m, s, out=s)
            s *= rate
        else:
            np.multiply(m, rate, out=s)
        x -= s
