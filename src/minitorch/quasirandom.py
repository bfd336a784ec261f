"""Sobol's sequences: points that fill a cube more evenly than random ones. Enters: a dimension. Leaves: points.

The numbers are PyTorch's, those of scrambled sequences too: 30 bits, the direction numbers of Joe and Kuo, which SciPy
brings, and the scrambling by a random lower triangular matrix of bits and a random shift.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.engine import dtypes
from minitorch.engine.node import new_tensor
from minitorch.random import Generator, randint
from minitorch.tensor import Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """Draws the points of a Sobol sequence of [0, 1)ᵈ, one after the other.

    scramble: shift and mix the bits at random, from the seed or the global generator.

    >>> engine = SobolEngine(2)
    >>> engine.draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], got {dimension}"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.sobolstate = new_tensor(_directions(dimension, self.MAXBIT))
        self.shift = new_tensor(np.zeros(dimension, np.int64))
        if scramble:
            self._scramble()
        self.reset()

    def reset(self) -> SobolEngine:
        """Begin again."""
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """Return the next n points, (n, dimension)."""
        if n < 0:
            raise RuntimeError(f"SobolEngine.draw: cannot draw {n} points")
        wanted = np.dtype(dtypes.get_default_dtype() if dtype is None else dtype)
        points = np.empty((n, self.dimension), np.int64)
        for i in range(n):
            points[i] = self._next()
        made = new_tensor((points * 2.0**-self.MAXBIT).astype(wanted))
        return made if out is None else out.resize_(*made.shape).copy_(made)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """Return the next 2ᵐ points, with which there are a power of 2 in all."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"SobolEngine.draw_base2: after {self.num_generated} points, 2**{m} more make {total}, which is no "
                "power of 2: they would not be spread evenly; write draw(n) for any number of points"
            )
        return self.draw(n, out, dtype)

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next n points."""
        for _ in range(n):
            self._next()
        return self

    def _next(self) -> np.ndarray:
        """Move to the next point, in integers: one bit of the count's Gray code changes, and its direction with it."""
        current = self.quasi._data
        if self.num_generated:
            before = self.num_generated - 1
            current ^= self.sobolstate._data[:, (~before & (before + 1)).bit_length() - 1]
        self.num_generated += 1
        return current

    def _scramble(self) -> None:
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        bits, d = self.MAXBIT, self.dimension
        shifts = randint(0, 2, (d, bits), generator=generator)._data
        self.shift = new_tensor(shifts @ (1 << np.arange(bits)))
        mixing = np.tril(randint(0, 2, (d, bits, bits), generator=generator)._data)
        mixing[:, np.arange(bits), np.arange(bits)] = 1
        # Each direction is a column of bits, the highest first; it is multiplied by the matrix, modulo 2.
        places = np.arange(bits - 1, -1, -1)
        directions = self.sobolstate._data[:, :, None] >> places & 1  # (d, numbers, bits)
        mixed = np.einsum("dpk,djk->djp", mixing, directions) & 1
        self.sobolstate = new_tensor((mixed << places).sum(-1))

    def __repr__(self) -> str:
        options = [f"dimension={self.dimension}"]
        options += ["scramble=True"] if self.scramble else []
        options += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(options)})"


def _directions(dimension: int, bits: int) -> np.ndarray:
    """Return the direction numbers, (dimension, bits), which SciPy has in a table of two megabytes."""
    from scipy.stats import qmc  # at first use: it takes half a second to import

    return np.array(qmc.Sobol(dimension, scramble=False, bits=bits)._sv, np.int64)
