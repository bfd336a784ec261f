"""Samplers: in which order samples are visited. Enters: a data set's length. Leaves: indices.

The same seed gives the same order as in PyTorch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from minitorch.engine.dtypes import float64
from minitorch.random import Generator, default_generator, multinomial, randint, randperm
from minitorch.tensor.convert import as_tensor

Index = TypeVar("Index", covariant=True)


def random_seed(generator: Generator | None = None) -> int:
    """Draw a seed for another generator: 63 random bits, as PyTorch's `random_()` on an int64 draws them.

    >>> random_seed(minitorch.Generator().manual_seed(0))
    900450186894289455
    """
    return int((generator or default_generator).words64(1)[0]) % 2**63


class Sampler(Generic[Index]):
    """The base of all samplers; a subclass defines `__iter__`, and `__len__` where it is known."""

    def __iter__(self) -> Iterator[Index]:
        raise NotImplementedError(f"{type(self).__name__}: define __iter__(self)")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, … in order.

    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """In random order: every index once, or with `replacement` each drawn anew.

    num_samples: how many to draw; as many as there are by default.

    >>> seeded = minitorch.manual_seed(0)
    >>> list(RandomSampler("abcde"))
    [1, 3, 4, 2, 0]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement should be a boolean value, got {replacement!r}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                f"RandomSampler: num_samples should be a positive integer value, got {self.num_samples!r}"
                + ("; the data set is empty" if num_samples is None else "")
            )

    @property
    def num_samples(self) -> int:
        """How many indices an epoch has; asked anew each time, since a data set may grow."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, left = len(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:
            generator = Generator().manual_seed(random_seed())
        if self.replacement:
            while left > 0:  # in portions: an epoch may be very long
                yield from randint(n, (min(left, 32),), generator=generator).tolist()
                left -= 32
            return
        for _ in range(left // n):
            yield from randperm(n, generator=generator).tolist()
        # Drawn even when nothing of it is needed, as PyTorch does: it moves a given generator on.
        yield from randperm(n, generator=generator).tolist()[: left % n]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    >>> sorted(SubsetRandomSampler([3, 5, 8]))
    [3, 5, 8]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices 0 … len(weights) - 1, each drawn with its weight; the weights need not sum to 1.

    >>> list(WeightedRandomSampler([0.0, 1.0], num_samples=3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Any,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(
                f"WeightedRandomSampler: num_samples should be a positive integer value, got {num_samples!r}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(
                f"WeightedRandomSampler: replacement should be a boolean value, got {replacement!r}"
            )
        self.weights = as_tensor(weights, float64)
        if self.weights.ndim != 1:
            raise ValueError(
                f"WeightedRandomSampler: weights should be a 1d sequence, these have shape {self.weights.shape}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Another sampler's indices, `batch_size` at a time; `drop_last` leaves an incomplete batch out.

    >>> list(BatchSampler(SequentialSampler("abcde"), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"BatchSampler: batch_size should be a positive integer value, got {batch_size!r}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last should be a boolean value, got {drop_last!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        length = len(self.sampler)  # type: ignore[arg-type]
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)
