"""Data sets: samples by index, or one after another. Enters: tensors, other data sets. Leaves: samples."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from minitorch.random import Generator, default_generator, randperm
from minitorch.tensor import Tensor

Sample = TypeVar("Sample", covariant=True)


class Dataset(Generic[Sample]):
    """Samples by index; a subclass defines `__getitem__`, and `__len__` where it is known.

    A subclass may also define `__getitems__(indices)`, which returns a whole batch's samples at once.

    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 5
    ...     def __getitem__(self, index):
    ...         return index, index**2
    >>> [batch for batch in minitorch.utils.data.DataLoader(Squares(), batch_size=3)]
    [[tensor([0, 1, 2]), tensor([0, 1, 4])], [tensor([3, 4]), tensor([ 9, 16])]]
    """

    def __getitem__(self, index: Any) -> Sample:
        raise NotImplementedError(f"{type(self).__name__}: define __getitem__(self, index)")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Sample], Iterable[Sample]):
    """Samples one after another, of a stream, say; a subclass defines `__iter__`.

    With several workers each one iterates over all of it: use get_worker_info() to give each its share.

    >>> class Countdown(IterableDataset):
    ...     def __iter__(self):
    ...         return iter([3, 2, 1])
    >>> list(minitorch.utils.data.DataLoader(Countdown(), batch_size=2))
    [tensor([3, 2]), tensor([1])]
    """

    def __iter__(self) -> Iterator[Sample]:
        raise NotImplementedError(f"{type(self).__name__}: define __iter__(self)")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors side by side: sample i is the tuple of their i-th rows.

    >>> data = TensorDataset(minitorch.tensor([[1.0], [2.0]]), minitorch.tensor([0, 1]))
    >>> data[1]
    (tensor([2.]), tensor(1))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors:
            raise ValueError("TensorDataset: give at least one tensor")
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"TensorDataset: expects Tensors, got {type(tensor).__name__}; write minitorch.as_tensor(x)"
                )
            if not tensor.ndim:
                raise ValueError("TensorDataset: a 0-d tensor has no rows")
        if len({len(tensor) for tensor in tensors}) > 1:
            raise ValueError(
                "TensorDataset: size mismatch between tensors: all need the same number of rows, got shapes "
                f"{[tensor.shape for tensor in tensors]}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class ConcatDataset(Dataset[Sample]):
    """Data sets one after another.

    >>> both = ConcatDataset([["a", "b"], ["c"]])
    >>> len(both), both[2], both[-1]
    (3, 'c', 'c')
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset: datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise TypeError("ConcatDataset: an IterableDataset has no indices; write ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Sample:
        if not -len(self) <= index < len(self):
            raise IndexError(f"ConcatDataset: index {index} is out of range for {len(self)} samples")
        index %= len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]


class ChainDataset(IterableDataset[Sample]):
    """Iterable data sets one after another.

    >>> class Letters(IterableDataset):
    ...     def __iter__(self):
    ...         return iter("ab")
    >>> list(Letters() + Letters())
    ['a', 'b', 'a', 'b']
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not all(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise TypeError(
                "ChainDataset: only supports IterableDatasets; write ConcatDataset for the others"
            )

    def __iter__(self) -> Iterator[Sample]:
        for dataset in self.datasets:
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class Subset(Dataset[Sample]):
    """Some samples of a data set, by their indices.

    >>> evens = Subset(["a", "b", "c", "d"], [0, 2])
    >>> len(evens), evens[1]
    (2, 'c')
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Sample:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Sample]:
        if type(self).__getitem__ is not Subset.__getitem__:  # a subclass's own samples, not ours
            return [self[i] for i in indices]
        return samples(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


class StackDataset(Dataset[Any]):
    """Data sets side by side: a sample is the tuple, or by keywords the dict, of their samples.

    >>> StackDataset(image=["i0", "i1"], label=[7, 8])[1]
    {'image': 'i1', 'label': 8}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "StackDataset: give data sets either by position (tuples) or by keyword (dicts), not both"
            )
        self.datasets: tuple[Any, ...] | dict[str, Any] = args or kwargs
        sizes = [len(dataset) for dataset in args or kwargs.values()]
        if not sizes:
            raise ValueError("StackDataset: at least one data set should be passed")
        if len(set(sizes)) > 1:
            raise ValueError(f"StackDataset: size mismatch between data sets: {sizes}")
        self._length = sizes[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {key: dataset[index] for key, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        if isinstance(self.datasets, dict):
            columns = [samples(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, row, strict=True)) for row in zip(*columns, strict=True)]
        return list(zip(*(samples(dataset, indices) for dataset in self.datasets), strict=True))

    def __len__(self) -> int:
        return self._length


def samples(dataset: Any, indices: list[Any]) -> list[Any]:
    """Return a batch's samples, all at once where the data set can."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[i] for i in indices]
    found = dataset.__getitems__(indices)
    if len(found) != len(indices):
        raise ValueError(
            f"{type(dataset).__name__}.__getitems__ returned {len(found)} samples for {len(indices)} indices"
        )
    return found


def rows(dataset: Any, indices: list[Any]) -> list[Tensor] | None:
    """Return a batch of a TensorDataset, or a Subset of one, collated; None for other data sets.

    Taking all rows at once gives what taking them one by one and stacking them would, many times faster.
    """
    while type(dataset) is Subset:
        indices = [dataset.indices[i] for i in indices]
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset:
        return None
    return [tensor[indices] for tensor in dataset.tensors]


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | None = default_generator
) -> list[Subset[Any]]:
    """Split a data set at random into parts of these lengths, or of these shares of the whole.

    The same seed gives the same parts as in PyTorch.

    >>> train, validation = random_split(range(90), [60, 30])
    >>> len(train), len(validation)
    (60, 30)
    >>> [len(part) for part in random_split(range(10), [0.5, 0.25, 0.25])]
    [6, 2, 2]
    """
    total = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, share in enumerate(lengths):
            if not 0 <= share <= 1:
                raise ValueError(f"random_split: the fraction at index {i} is not between 0 and 1: {share}")
        sizes = [math.floor(total * share) for share in lengths]
        for i in range(total - sum(sizes)):  # what rounding left over goes to the first parts
            sizes[i % len(sizes)] += 1
        for i, size in enumerate(sizes):
            if not size:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2
                )
    else:
        sizes = list(lengths)  # type: ignore[arg-type]
    if sum(sizes) != total or not all(isinstance(size, int) for size in sizes):
        raise ValueError(
            f"random_split: the lengths {list(lengths)} do not sum to the data set's {total} samples; give whole "
            "numbers that do, or fractions that sum to 1"
        )
    order = randperm(total, generator=generator).tolist()
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
