"""A batch divided among ranks. Enters: a batch, and which of how many ranks this is. Leaves: this rank's rows.

Rows stay in order, and parts differ by one row at most; with fewer rows than ranks the last ranks have none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from minitorch.random import default_generator
from minitorch.tensor import Tensor


class Shard(NamedTuple):
    """Some rows of a batch: the first, how many, and how many the batch has."""

    first: int
    mine: int
    total: int


def shard_of(total: int, rank: int, size: int) -> Shard:
    """Return a rank's part of so many rows.

    >>> [shard_of(7, rank, 3) for rank in range(3)]
    [Shard(first=0, mine=3, total=7), Shard(first=3, mine=2, total=7), Shard(first=5, mine=2, total=7)]
    """
    each, more = divmod(total, size)
    return Shard(rank * each + min(rank, more), each + (rank < more), total)


def rows_of(batch: Any) -> int:
    """Return how many rows a batch has: the length of its first Tensor.

    >>> rows_of({"x": minitorch.ones(3, 2), "y": minitorch.ones(3)})
    3
    """
    if isinstance(batch, Tensor):
        return int(batch.shape[0])
    for part in (
        batch.values() if isinstance(batch, dict) else batch if isinstance(batch, (list, tuple)) else ()
    ):
        if isinstance(part, (Tensor, dict, list, tuple)):
            return rows_of(part)
    raise TypeError(f"a batch without Tensors cannot be divided among ranks: {type(batch).__name__}")


def cut(batch: Any, start: int, stop: int) -> Any:
    """Return some rows of every Tensor in a batch.

    >>> cut((minitorch.arange(5), "names"), 1, 3)
    (tensor([1, 2]), 'names')
    """
    if isinstance(batch, Tensor):
        return batch[start:stop]
    if isinstance(batch, dict):
        return {name: cut(part, start, stop) for name, part in batch.items()}
    if isinstance(batch, (list, tuple)):
        parts = [cut(part, start, stop) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch


@contextlib.contextmanager
def drawn_together(shard: Shard) -> Iterator[None]:
    """Inside, dropout draws for the whole batch from one stream, which is the same on all ranks, and uses its own rows.

    Then N ranks drop what one rank drops, and their generators stay where one rank's would be.
    """
    before, default_generator.rows = default_generator.rows, (shard.first, shard.mine, shard.total)
    try:
        yield
    finally:
        default_generator.rows = before
