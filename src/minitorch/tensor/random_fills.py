"""Filling a Tensor with random numbers, in place, as PyTorch draws them: in the order of its memory.

Enters: a tensor and a distribution's parameters. Leaves: the same tensor, filled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.dtypes import kind_of
from minitorch.engine.node import Node, new_tensor
from minitorch.tensor.devices import place_of
from minitorch.tensor.generator import DeviceGenerator, Generator, source_for
from minitorch.tensor.memory_order import laid_out_like

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class RandomFills(Node):
    """What of a Tensor fills it with random numbers."""

    __slots__ = ()

    def _write(self, key: Any, value: Any, spelling: str) -> Tensor:
        raise NotImplementedError  # writing.py has it

    def _filled(self, name: str, values: Any) -> Tensor:
        data = self._data
        if data.dtype.kind == "c":
            raise RuntimeError(
                f"{name}_: not offered for complex numbers; fill the real and the imaginary part"
            )
        drawn = np.asarray(laid_out_like(values, data).astype(data.dtype), like=data)
        return self._write(..., new_tensor(drawn), f"x.{name}_()")

    def _source(self, generator: Generator | None, name: str) -> Generator:
        return source_for(generator, place_of(self._data), name)

    def _fractions(self, generator: Generator | None, name: str) -> Any:
        """Draw from [0, 1) in float64; on a GPU from (0, 1], in the dtype that PyTorch draws it in there."""
        source = self._source(generator, name)
        if isinstance(source, DeviceGenerator):
            return source.fractions(self._data.size, self._array.dtype)
        return source.uniforms(self._data.size, np.dtype(np.float64))

    def _waits(self, generator: Generator | None, name: str) -> Any:
        """Draw waiting times at a rate of 1."""
        drawn = self._fractions(generator, name)
        return -np.log(drawn) if place_of(drawn).type == "cuda" else -np.log1p(-drawn)

    def uniform_(
        self, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None, **names: float
    ) -> Tensor:
        """Fill with uniform numbers from [low, high), in place (PyTorch's names: from, to).

        >>> seeded = minitorch.manual_seed(0); minitorch.tensor([0.0, 0.0]).uniform_(-1, 1)
        tensor([-0.0075,  0.5364])
        """
        low, high = names.get("from", low), names.get("to", high)
        kind = self._array.dtype.type
        drawn = self._source(generator, "uniform_").uniforms(self._data.size, self._array.dtype)
        # Multiplied and added with one rounding at the end, as the processor does it for PyTorch.
        spread, start = float(kind(high) - kind(low)), float(kind(low))
        return self._filled("uniform", drawn.astype(np.float64) * spread + start)

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill with normal numbers, in place.

        >>> seeded = minitorch.manual_seed(0); minitorch.tensor([0.0, 0.0]).normal_()
        tensor([ 1.5410, -0.2934])
        """
        return self._filled("normal", self._source(generator, "normal_").normals_into(self._data, mean, std))

    def bernoulli_(self, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Fill with 1 at probability p (a number, or a tensor of them), else 0, in place.

        >>> minitorch.tensor([0.0, 0.0]).bernoulli_(1.0)
        tensor([1., 1.])
        """
        if isinstance(p, Node):
            there: Any = p
            chance = np.broadcast_to(there.to(place_of(self._data))._data, self._data.shape)
            kind = chance.dtype if kind_of(chance.dtype) == "f" else np.dtype(np.float32)
            drawn = self._source(generator, "bernoulli_").uniforms(chance.size, kind)
            return self._write(..., laid_out_like(drawn, self._data) < chance, "x.bernoulli_()")
        if not 0 <= p <= 1:
            raise RuntimeError(f"bernoulli_: a probability is between 0 and 1, got {p}")
        return self._filled("bernoulli", self._fractions(generator, "bernoulli_") < p)

    def random_(self, *bounds: int, generator: Generator | None = None, **names: int) -> Tensor:
        """Fill with whole numbers, in place: random_(), random_(high), random_(low, high).

        Without bounds: all that the dtype can hold exactly.

        >>> seeded = minitorch.manual_seed(0); minitorch.zeros(4).random_(5)
        tensor([4., 4., 3., 0.])
        """
        given = [*bounds, *(names[k] for k in ("from", "to") if k in names)]
        low, high = (0, *given) if len(given) == 1 else given or (0, None)
        source, dtype = self._source(generator, "random_"), self._array.dtype
        if high is None:
            exact = {"f": lambda: 2 ** (np.finfo(dtype).nmant + 1) + 1, "b": lambda: 2}
            high = exact.get(dtype.kind, lambda: int(np.iinfo(dtype).max) + 1)()
        span = int(high) - int(low)
        if span <= 0:
            raise RuntimeError(f"random_: expects low < high, got {low} and {high}")
        wide = span >= 2**32 if len(given) == 0 else span >= 2**28
        count = self._data.size
        words = source.words64(count) if wide else source.words(count).astype(np.uint64)
        return self._filled("random", (words % span).astype(np.int64) + int(low))

    def exponential_(self, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill with waiting times at a rate, in place.

        >>> seeded = minitorch.manual_seed(0); minitorch.zeros(2).exponential_()
        tensor([3.5083, 1.2304])
        """
        return self._filled("exponential", self._waits(generator, "exponential_") / lambd)

    def cauchy_(
        self, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
    ) -> Tensor:
        """Fill from the Cauchy distribution, in place.

        >>> seeded = minitorch.manual_seed(0); minitorch.zeros(2).cauchy_()
        tensor([10.5977,  0.7648])
        """
        drawn = self._fractions(generator, "cauchy_")
        return self._filled("cauchy", median + sigma * np.tan(np.pi * (drawn - 0.5)))

    def geometric_(self, p: float, *, generator: Generator | None = None) -> Tensor:
        """Fill with how many tries it takes until one of probability p succeeds, in place.

        >>> seeded = minitorch.manual_seed(0); minitorch.zeros(3).geometric_(0.3)
        tensor([1., 1., 3.])
        """
        if not 0 < p < 1:
            raise RuntimeError(f"geometric_: a probability is between 0 and 1, got {p}")
        drawn = self._fractions(generator, "geometric_")
        return self._filled("geometric", np.ceil(np.log(drawn) / float(np.log1p(-p))))

    def log_normal_(
        self, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
    ) -> Tensor:
        """Fill with exponentials of normal numbers, in place.

        >>> seeded = minitorch.manual_seed(0); minitorch.zeros(2).log_normal_()
        tensor([59.2634,  1.5116])
        """
        source = self._source(generator, "log_normal_")
        if isinstance(source, DeviceGenerator):
            return self._filled("log_normal", np.exp(source.normals_into(self._data, mean, std)))
        drawn = np.array([source.one_normal() for _ in range(self._data.size)])
        return self._filled("log_normal", np.exp(drawn * std + mean))
