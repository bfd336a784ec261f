"""Adafactor: Adam's scaling from sums over rows and columns. Enters: gradients. Leaves: parameters a step further."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch.creation import zeros_like
from minitorch.engine.node import new_tensor
from minitorch.optim.optimizer import (
    Array,
    ElementwiseOptimizer,
    ParameterGroup,
    State,
    advance,
    check,
    option,
    zero_step,
)
from minitorch.tensor import Tensor


class Adafactor(ElementwiseOptimizer):
    """Steps scaled by averages of squared gradients, of which a matrix keeps one per row and one per column.

        r ← r + t^β·(mean of g² over columns - r)        c ← c + t^β·(mean of g² over rows - c)
        u = g / √(r·c / mean r)
        x ← x - max(eps₂, rms x)·min(lr, 1/√t) · u/max(1, rms(u)/d)

    Vectors keep an average for each element. beta2_decay: β, at most 0. eps: (eps₁, None for the dtype's own; eps₂).

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = Adafactor([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); x
    tensor([ 2.7450, -1.7450], requires_grad=True)
    """

    _options = "lr beta2_decay eps d weight_decay foreach maximize"
    _whole = True
    _scratches = 0

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check("Adafactor", beta2_decay <= 0, "beta2_decay", beta2_decay, "a number ≤ 0")
        check("Adafactor", all(e is None or e >= 0 for e in eps), "epsilon values", eps, "numbers ≥ 0")
        check("Adafactor", d >= 1, "clipping threshold d", d, "a number ≥ 1")
        super().__init__(params, self._given(locals()))

    def _begin(self, p: Tensor, group: ParameterGroup) -> State:
        if p._array.dtype.kind == "c":
            raise RuntimeError("Adafactor does not support complex parameters; keep their parts as real ones")
        shape = p._array.shape
        if len(shape) < 2:
            return {"step": zero_step(), "variance": zeros_like(p)}
        rows, columns = (*shape[:-1], 1), (*shape[:-2], 1, shape[-1])
        empty = [new_tensor(np.zeros_like(p._data, shape=s, order="C")) for s in (rows, columns)]
        return {"step": zero_step(), "row_var": empty[0], "col_var": empty[1]}

    def _check_state(self, p: Tensor, entry: str, value: Any) -> None:
        """Let everything pass: the averages of a matrix are smaller than it."""

    def _decay(self, group: ParameterGroup) -> tuple[float, float]:
        return 0.0, 1.0  # by the rule: after it has looked how large x is

    def _prepare(self, p: Tensor, state: State, group: ParameterGroup) -> tuple[list[Array], Any]:
        t, lr = advance(state), option(group, "lr")
        names = ("row_var", "col_var") if "row_var" in state else ("variance",)
        eps1, eps2 = group["eps"]
        eps1 = float(np.finfo(p._array.dtype).eps) if eps1 is None else eps1
        shrink = 1 - lr * option(group, "weight_decay")
        numbers = (
            t ** float(group["beta2_decay"]),
            min(lr, 1 / t**0.5),
            shrink,
            eps1,
            eps2,
            float(group["d"]),
        )
        return [state[name]._data for name in names], numbers

    def _rule(self, x: Array, g: Array, memory: list[Array], numbers: Any, *scratch: Array) -> None:
        weight, rate, shrink, eps1, eps2, d = numbers
        size = np.maximum(_root_mean_square(x), eps2)
        x *= shrink
        squares = g * g
        if len(memory) == 1:
            (estimate,) = memory
            estimate += weight * (squares - estimate)
        else:
            rows, columns = memory
            rows += weight * (squares.mean(axis=-1, keepdims=True) - rows)
            columns += weight * (squares.mean(axis=-2, keepdims=True) - columns)
            estimate = rows * columns / np.maximum(rows.mean(axis=-2, keepdims=True), eps1)
        update = g / np.sqrt(np.maximum(estimate, eps1 * eps1))
        x -= update * (size * rate / np.maximum(_root_mean_square(update) / d, 1.0))


def _root_mean_square(x: Array) -> Array:
    return np.sqrt((x * x).sum()) / math.sqrt(x.size)
