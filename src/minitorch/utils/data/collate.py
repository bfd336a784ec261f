"""From samples to a batch: numbers, arrays and Tensors are stacked, inside tuples and dicts too.

Enters: a list of samples of one structure. Leaves: that structure, of Tensors with a new first axis.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from minitorch.creation import tensor
from minitorch.engine.dtypes import float64
from minitorch.functions import stack
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """Put samples together to a batch.

    Tensors and arrays are stacked; floats become float64, ints int64; strings stay a list; tuples,
    lists and dicts are collated entry by entry (a tuple becomes a list).

    >>> default_collate([(1, "to go"), (2, "to be")])
    [tensor([1, 2]), ('to go', 'to be')]
    >>> default_collate([{"x": minitorch.zeros(2), "y": 0.5}, {"x": minitorch.ones(2), "y": 1.5}])
    {'x': tensor([[0., 0.],
            [1., 1.]]), 'y': tensor([0.5000, 1.5000], dtype=float64)}
    """
    first = batch[0]
    if isinstance(first, Tensor):
        _check_shapes([sample.shape for sample in batch])
        return stack(list(batch))
    if isinstance(first, np.ndarray):
        _check_kind(first)
        _check_shapes([np.shape(sample) for sample in batch])
        return as_tensor(np.stack(batch))
    if isinstance(first, np.generic) and not isinstance(first, (str, bytes)):
        return as_tensor(np.array(batch))
    if isinstance(first, float):
        return tensor(batch, dtype=float64)
    if isinstance(first, int):
        return tensor(np.array(batch, dtype=np.bool_ if isinstance(first, bool) else np.int64))
    if isinstance(first, (str, bytes)):
        return batch
    # As in PyTorch, what has no batch (strings) comes as a list in a dict, and as a tuple in a sequence.
    kind = list if isinstance(first, Mapping) else tuple
    return _by_entries(first, lambda entry: default_collate(kind(entry(sample) for sample in batch)), batch)


def default_convert(data: Any) -> Any:
    """Turn the arrays within a sample into Tensors, and leave the rest: without batches.

    >>> default_convert((np.ones(2), "to go"))
    [tensor([1., 1.], dtype=float64), 'to go']
    """
    if isinstance(data, np.generic) and not isinstance(data, (str, bytes)):
        return as_tensor(np.asarray(data))
    if isinstance(data, np.ndarray):
        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, (Mapping, Sequence)) and not isinstance(data, (str, bytes)):
        return _by_entries(data, lambda entry: default_convert(entry(data)), [data])
    return data


def pinned(batch: Any) -> Any:
    """Return a batch with its Tensors, and whatever has a method pin_memory, in pinned memory."""
    if hasattr(batch, "pin_memory"):
        return batch.pin_memory()
    if isinstance(batch, (Mapping, Sequence)) and not isinstance(batch, (str, bytes)):
        return _by_entries(batch, lambda entry: pinned(entry(batch)), [batch])
    return batch


def _by_entries(first: Any, make: Callable[[Callable[[Any], Any]], Any], batch: Sequence[Any]) -> Any:
    """Rebuild a container with, in each place, what `make` gives for that place."""
    if isinstance(first, Mapping):
        for sample in batch:
            if sample.keys() != first.keys():
                raise KeyError(
                    f"default_collate: the samples' keys differ: {sorted(map(str, first))}, {sorted(map(str, sample))}"
                )
        entries = {key: make(lambda sample, key=key: sample[key]) for key in first}  # type: ignore[misc]
        if type(first) is dict:
            return entries
        try:
            if isinstance(first, MutableMapping):
                made = copy.copy(first)
                made.update(entries)
                return made
            return type(first)(entries)  # type: ignore[call-arg]
        except TypeError:  # a mapping that cannot be made from a dict
            return entries
    if not isinstance(first, Sequence):
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
            f"{type(first).__name__}; give the DataLoader a collate_fn of your own"
        )
    if any(len(sample) != len(first) for sample in batch):
        raise RuntimeError(
            "default_collate: each element in list of batch should be of equal size, got lengths "
            f"{sorted({len(sample) for sample in batch})}; pad them, or give the DataLoader a collate_fn"
        )
    values = [make(lambda sample, i=i: sample[i]) for i in range(len(first))]  # type: ignore[misc]
    if isinstance(first, tuple):
        return type(first)(*values) if hasattr(first, "_fields") else values
    try:
        if isinstance(first, MutableSequence):
            copied = copy.copy(first)
            for i, value in enumerate(values):
                copied[i] = value
            return copied
        return type(first)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def _check_kind(array: np.ndarray) -> None:
    if array.dtype.kind in "SUO":
        raise TypeError(
            f"default_collate: arrays of {array.dtype} cannot be a Tensor; give the DataLoader a collate_fn of your own"
        )


def _check_shapes(shapes: list[tuple[int, ...]]) -> None:
    if len(set(shapes)) > 1:
        raise RuntimeError(
            f"default_collate: stack expects each tensor to be equal size, got shapes {sorted(set(shapes))}; pad them, "
            "or give the DataLoader a collate_fn"
        )
