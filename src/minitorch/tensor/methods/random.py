"""Draws that a tensor of probabilities asks for. Enters: probabilities. Leaves: what was drawn, a constant.

Tensors of random numbers are made in minitorch/random.py, which offers these too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.dtypes import kind_of
from minitorch.engine.node import Node, new_tensor
from minitorch.ops.op import violated
from minitorch.tensor.devices import place_of
from minitorch.tensor.generator import Generator, source_for
from minitorch.tensor.memory_order import laid_out_like
from minitorch.tensor.methods.public import function

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class RandomDraws(Node):
    """Draws by probability."""

    __slots__ = ()

    def bernoulli(self: Any, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
        """1 with each element's probability (or all with p), else 0.

        >>> minitorch.tensor([0.0, 1.0]).bernoulli()
        tensor([0., 1.])
        """
        if p is not None:
            return new_tensor(np.zeros_like(self._data, order="C")).bernoulli_(p, generator=generator)
        chance = self._data
        if kind_of(chance.dtype) != "f" or violated(((chance < 0) | (chance > 1)).any()):
            raise RuntimeError("bernoulli: probabilities must be floats between 0 and 1")
        drawn = source_for(generator, place_of(chance), "bernoulli").uniforms(chance.size, chance.dtype)
        return new_tensor((drawn.reshape(chance.shape) < chance).astype(chance.dtype))

    def multinomial(
        self, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
    ) -> Tensor:
        """Indices drawn with these probabilities, which need not sum to 1; a matrix gives a draw per row.

        >>> minitorch.tensor([0.0, 3.0, 0.0]).multinomial(4, replacement=True)
        tensor([1, 1, 1, 1])
        """
        weights = self._data
        if kind_of(weights.dtype) != "f":
            raise RuntimeError(f"multinomial: the weights must be floating-point, got {weights.dtype}")
        if weights.ndim not in (1, 2):
            raise RuntimeError(f"multinomial: the weights must have 1 or 2 axes, got shape {weights.shape}")
        if num_samples <= 0:
            raise RuntimeError(f"multinomial: cannot draw {num_samples} samples")
        if not replacement and num_samples > weights.shape[-1]:
            raise RuntimeError(
                f"multinomial: cannot draw {num_samples} of {weights.shape[-1]} without replacement; "
                "write replacement=True"
            )
        if violated(~(np.isfinite(weights) & (weights >= 0)).all()):
            raise RuntimeError("multinomial: a weight is negative, inf or nan")
        if violated(~(weights.sum(axis=-1) > 0).all()):
            raise RuntimeError("multinomial: the weights sum to 0, so there is nothing to draw")
        source = source_for(generator, place_of(weights), "multinomial")
        rows = weights.reshape(-1, weights.shape[-1])
        if replacement and num_samples > 1:
            drawn = source.uniforms(len(rows) * num_samples, np.dtype(np.float64))
            heights = rows.cumsum(axis=-1)
            heights /= heights[:, -1:]
            draws = zip(heights, drawn.reshape(len(rows), num_samples), strict=True)
            chosen = np.stack([np.searchsorted(height, each) for height, each in draws])
        else:
            # Waiting times: each index rings after an exponential time at its rate, the first ones win.
            drawn = source.uniforms(rows.size, np.dtype(np.float64))
            waits = -np.log1p(-laid_out_like(drawn, weights).reshape(rows.shape)).astype(rows.dtype)
            with np.errstate(divide="ignore", invalid="ignore"):
                order = np.argsort(-(rows / waits), axis=-1, kind="stable")
            chosen = order[:, :num_samples]
        return new_tensor(chosen.astype(np.int64).reshape(*weights.shape[:-1], num_samples))


bernoulli = function(RandomDraws.bernoulli)
multinomial = function(RandomDraws.multinomial)

__all__ = ["bernoulli", "multinomial"]
