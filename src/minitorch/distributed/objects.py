"""Collectives on any Python objects. Enters: objects that can be pickled. Leaves: the same on other ranks.

They travel as bytes, their length first. As everywhere, unpickling runs code: the ranks of one job trust each other.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.distributed import exchange
from minitorch.distributed.collectives import _root, recv, send
from minitorch.distributed.groups import ProcessGroup, chosen
from minitorch.engine.node import new_tensor
from minitorch.engine.recording import refuse_inside_recording


def _bytes(thing: Any) -> np.ndarray:
    return np.frombuffer(pickle.dumps(thing), np.uint8)


def _object(content: np.ndarray) -> Any:
    return pickle.loads(content.tobytes())


def _now(work: exchange.Exchange, array: Any) -> Any:
    refuse_inside_recording("a collective of Python objects")
    return work.start([array]).wait()[0]


def _lengths(group: ProcessGroup, length: int) -> np.ndarray:
    mine = np.array(length, np.int64)
    return _now(exchange.all_gather(group, mine), mine)


def _padded(content: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([content, np.zeros(length - len(content), np.uint8)])


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Gather every rank's object into a list on every rank."""
    found = chosen(group)
    if found is None:
        return
    content = _bytes(obj)
    lengths = _lengths(found, len(content))
    padded = _padded(content, lengths.max())
    rows = _now(exchange.all_gather(found, padded), padded)
    for i, length in enumerate(lengths):
        object_list[i] = _object(rows[i, :length])


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Gather every rank's object into a list on rank `dst`."""
    found = chosen(group)
    if found is None:
        return
    root = _root(found, 0 if dst is None and group_dst is None else dst, group_dst, "gather_object")
    content = _bytes(obj)
    lengths = _lengths(found, len(content))
    padded = _padded(content, lengths.max())
    rows = _now(exchange.gather(found, padded, root), padded)
    if found.rank() == root:
        if object_gather_list is None:
            raise ValueError("gather_object: the destination rank needs object_gather_list")
        for i, length in enumerate(lengths):
            object_gather_list[i] = _object(rows[i, :length])


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Give rank src's list of objects to all ranks, in place."""
    found = chosen(group)
    if found is None:
        return
    root = _root(found, 0 if src is None and group_src is None else src, group_src, "broadcast_object_list")
    here = found.rank() == root
    content = _bytes(object_list) if here else np.zeros(0, np.uint8)
    length = np.array(len(content), np.int64)
    length = _now(exchange.broadcast(found, length, root), length)
    padded = content if here else np.zeros(int(length), np.uint8)
    content = _now(exchange.broadcast(found, padded, root), padded)
    if not here:
        object_list[:] = _object(content)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Give each rank one of the objects that rank src has a list of; it becomes the output list's first."""
    found = chosen(group)
    if found is None:
        return
    root = _root(found, 0 if src is None and group_src is None else src, group_src, "scatter_object_list")
    contents = [np.zeros(0, np.uint8)] * found.size()
    if found.rank() == root:
        if scatter_object_input_list is None or len(scatter_object_input_list) != found.size():
            raise ValueError(f"scatter_object_list: rank {found.ranks[root]} needs {found.size()} objects")
        contents = [_bytes(each) for each in scatter_object_input_list]
    lengths = np.array([len(c) for c in contents], np.int64)
    lengths = _now(exchange.broadcast(found, lengths, root), lengths)
    most = int(lengths.max())
    part = np.zeros(most, np.uint8)
    given = np.stack([_padded(c, most) for c in contents]) if found.rank() == root else part
    got = _now(exchange.scatter(found, part, root), given)
    scatter_object_output_list[0] = _object(got[: lengths[found.rank()]])


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None, **to: Any
) -> None:
    """Send a list of objects to a rank."""
    if chosen(group) is not None:
        content = _bytes(object_list)
        send(new_tensor(np.array([len(content)], np.int64)), dst, group, **to)
        send(new_tensor(content), dst, group, **to)


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, **of: Any
) -> int:
    """Receive a list of objects from a rank, in place; return from which."""
    found = chosen(group)
    if found is None:
        return -1
    length = new_tensor(np.zeros(1, np.int64))
    source = recv(length, src, group, **of)
    content = new_tensor(np.zeros(int(length._data[0]), np.uint8))
    recv(content, source, group)
    object_list[:] = _object(content._data)
    return source
