"""Muon: matrices step along their orthogonalised momentum. Enters: gradients. Leaves: parameters a step further."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch.creation import zeros_like
from minitorch.optim.optimizer import Array, ElementwiseOptimizer, ParameterGroup, State, check, option
from minitorch.tensor import Tensor


class Muon(ElementwiseOptimizer):
    """Momentum whose singular values are made nearly equal: every direction of a matrix steps about as far.

        b ← μ·b + (1 - μ)·g        u = (1 - μ)·g + μ·b        (without nesterov: u = b)
        x ← (1 - lr·weight_decay)·x - lr·√max(1, rows/columns) · orthogonalised(u)

    For matrices alone; other parameters take AdamW. adjust_lr_fn: "match_rms_adamw" takes lr·0.2·√max(rows, columns).

    >>> x = minitorch.tensor([[3.0, 0.0], [0.0, -2.0]], requires_grad=True)
    >>> optimizer = Muon([x], lr=0.1, weight_decay=0)
    >>> (x * x).sum().backward()
    >>> optimizer.step(); (x.detach() * 100).round() / 100
    tensor([[ 2.8900,  0.0000],
            [ 0.0000, -1.9300]])
    """

    _options = "lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn"
    _whole = True

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        known = (None, "original", "match_rms_adamw")
        check("Muon", adjust_lr_fn in known, "adjust_lr_fn", adjust_lr_fn, f"one of {known}")
        check("Muon", ns_steps < 100, "ns_steps", ns_steps, "fewer than 100")
        check("Muon", len(ns_coefficients) == 3, "ns_coefficients", ns_coefficients, "three numbers")
        super().__init__(params, self._given(locals()))
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon: only matrices, got a parameter of shape {p.shape}; give it to AdamW"
                    )

    def _begin(self, p: Tensor, group: ParameterGroup) -> State:
        if p._array.dtype.kind == "c":
            raise RuntimeError("Muon does not support complex parameters; keep their parts as real ones")
        return {"momentum_buffer": zeros_like(p)}

    def _decay(self, group: ParameterGroup) -> tuple[float, float]:
        return 0.0, 1 - option(group, "lr") * option(group, "weight_decay")

    def _prepare(self, p: Tensor, state: State, group: ParameterGroup) -> tuple[list[Array], Any]:
        rows, columns = p._array.shape
        matched = group["adjust_lr_fn"] == "match_rms_adamw"
        ratio = 0.2 * math.sqrt(max(rows, columns)) if matched else math.sqrt(max(1, rows / columns))
        chosen = (tuple(group["ns_coefficients"]), group["ns_steps"], float(group["eps"]))
        numbers = (option(group, "lr") * ratio, option(group, "momentum"), group["nesterov"], chosen)
        return [state["momentum_buffer"]._data], numbers

    def _rule(self, x: Array, g: Array, memory: list[Array], numbers: Any, *scratch: Array) -> None:
        rate, momentum, nesterov, chosen = numbers
        (b,) = memory
        b += (1 - momentum) * (g - b)
        u = g + momentum * (b - g) if nesterov else b
        x -= rate * orthogonalised(u, *chosen).astype(x.dtype)


def orthogonalised(x: Array, coefficients: tuple[float, float, float], steps: int, eps: float) -> Array:
    """Return UVᵀ, roughly, of a matrix UΣVᵀ: a few steps of Newton and Schulz's, in the precision of bfloat16.

    The polynomial a·s + b·s³ + c·s⁵ drives every singular value s in (0, 1] to somewhere near 1, quickly but not
    exactly, which is all that a step needs; nor does it need more than bfloat16's eight bits.
    """
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    m = rounded(x.astype(np.float32))
    m = m.T if tall else m
    m = rounded(m / np.maximum(rounded(np.sqrt((m * m).sum())), eps))  # the largest is at most 1
    for _ in range(steps):
        gram = rounded(m @ m.T)
        m = rounded(a * m + rounded(b * gram + c * (gram @ gram)) @ m)
    return m.T if tall else m


def rounded(x: Array) -> Array:
    """Return float32 numbers rounded to eight bits, as bfloat16 keeps them: what is added and taken away is the rest.

    >>> rounded(np.array([1.0, 1.003, 0.3], np.float32))
    array([1.       , 1.       , 0.30078125], dtype=float32)
    """
    large = x * 65537.0
    return large - (large - x)
