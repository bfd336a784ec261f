"""The collectives on Tensors, in PyTorch's spelling. Enters: Tensors of this rank. Leaves: Tensors, written into.

Each is an exchange of arrays (exchange.py) whose results are written into Tensors: at once, or, with async_op=True,
when the Work that is returned is waited for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from minitorch.distributed import exchange
from minitorch.distributed.exchange import Arrays, Exchange
from minitorch.distributed.groups import ProcessGroup, chosen, get_group_rank
from minitorch.distributed.reduce_op import ReduceOp
from minitorch.distributed.work import Work
from minitorch.engine.modes import no_grad
from minitorch.engine.node import new_tensor
from minitorch.tensor import Tensor


def _check(name: str, tensor: Any) -> Any:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}: expected a Tensor, got {type(tensor).__name__}")
    return tensor


def _check_all(name: str, tensors: Any, group: ProcessGroup) -> list[Any]:
    if not isinstance(tensors, (list, tuple)) or len(tensors) != group.size():
        count = len(tensors) if isinstance(tensors, (list, tuple)) else type(tensors).__name__
        raise ValueError(f"{name}: expected a list of {group.size()} tensors, one for each rank; got {count}")
    return [_check(name, tensor) for tensor in tensors]


def write(tensor: Any, array: Any) -> Any:
    """Write an array of the host into a Tensor, wherever that is, and whatever its shape."""
    with no_grad():
        tensor.copy_(new_tensor(array.reshape(tensor.shape)).to(tensor.device))
    return tensor


def _run(exchange: Exchange, arrays: Sequence[Any], place: Callable[[Arrays], Any], async_op: bool) -> Any:
    work = Work(exchange.start(arrays), place)
    if async_op:
        return work
    work.wait()
    return None


def _root(group: ProcessGroup, rank: int | None, group_rank: int | None, name: str) -> int:
    """Return the number in the group of the rank that is meant: of the world, or of the group."""
    if (rank is None) == (group_rank is None):
        raise ValueError(f"{name}: give either a global rank or a group rank")
    if group_rank is not None:
        if not 0 <= group_rank < group.size():
            raise ValueError(f"{name}: the group has {group.size()} ranks, and no rank {group_rank}")
        return group_rank
    return get_group_rank(group, rank)  # type: ignore[arg-type]


def all_reduce(tensor: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Add a tensor up (or mean, max, min, product) over all ranks; every rank gets the result, in place."""
    found = chosen(group)
    if found is None:
        return None
    _check("all_reduce", tensor)
    work = exchange.all_reduce(found, tensor, op)
    return _run(work, [tensor._data], lambda arrays: [write(tensor, arrays[0])], async_op)


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Add a tensor up (or op) over all ranks; rank `dst` gets the result, in place."""
    found = chosen(group)
    if found is None:
        return None
    root = _root(found, dst, group_dst, "reduce")
    work = exchange.reduce(found, _check("reduce", tensor), root, op)
    place = (lambda arrays: [write(tensor, arrays[0])]) if found.rank() == root else (lambda arrays: [tensor])
    return _run(work, [tensor._data], place, async_op)


def broadcast(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Give rank src's tensor to all ranks, in place."""
    found = chosen(group)
    if found is None:
        return None
    root = _root(found, src, group_src, "broadcast")
    work = exchange.broadcast(found, _check("broadcast", tensor), root)
    return _run(work, [tensor._data], lambda arrays: [write(tensor, arrays[0])], async_op)


def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """Gather every rank's tensor, of one shape, into a list on every rank."""
    found = chosen(group)
    if found is None:
        return None
    outs = _check_all("all_gather", tensor_list, found)
    _check_same("all_gather", outs, _check("all_gather", tensor))
    work = exchange.all_gather(found, tensor)
    return _run(work, [tensor._data], lambda arrays: _write_rows(outs, arrays[0]), async_op)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """Gather every rank's tensor into one: (n, …) → (ranks·n, …), or (ranks, n, …)."""
    found = chosen(group)
    if found is None:
        return None
    name = "all_gather_into_tensor"
    _check(name, output_tensor)
    _check(name, input_tensor)
    if output_tensor.numel() != input_tensor.numel() * found.size():
        raise ValueError(
            f"{name}: the output, of shape {output_tensor.shape}, should have {found.size()} times the elements of "
            f"the input, of shape {input_tensor.shape}"
        )
    _check_dtypes(name, output_tensor, input_tensor)
    work = exchange.all_gather(found, input_tensor)
    return _run(work, [input_tensor._data], lambda arrays: [write(output_tensor, arrays[0])], async_op)


_all_gather_base = all_gather_into_tensor


def gather(
    tensor: Any,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Gather every rank's tensor, of one shape, into a list on rank `dst`."""
    found = chosen(group)
    if found is None:
        return None
    root = _root(found, 0 if dst is None and group_dst is None else dst, group_dst, "gather")
    _check("gather", tensor)
    here = found.rank() == root
    if not here and gather_list:
        raise ValueError("gather: gather_list is for the destination rank; leave it away on the others")
    outs = _check_all("gather", gather_list, found) if here else []
    _check_same("gather", outs, tensor)
    work = exchange.gather(found, tensor, root)
    place = (lambda arrays: _write_rows(outs, arrays[0])) if here else (lambda arrays: [])
    return _run(work, [tensor._data], place, async_op)


def scatter(
    tensor: Any,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Give each rank one of the tensors that rank src has a list of."""
    found = chosen(group)
    if found is None:
        return None
    root = _root(found, 0 if src is None and group_src is None else src, group_src, "scatter")
    _check("scatter", tensor)
    given = tensor._data
    if found.rank() == root:
        ins = _check_all("scatter", scatter_list, found)
        _check_same("scatter", ins, tensor)
        given = np.stack([each._data for each in ins])
    elif scatter_list:
        raise ValueError("scatter: scatter_list is for the source rank; leave it away on the others")
    work = exchange.scatter(found, tensor, root)
    return _run(work, [given], lambda arrays: [write(tensor, arrays[0])], async_op)


def reduce_scatter(
    output: Any, input_list: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Add lists of tensors, one for each rank, up (or op) over all ranks; each rank gets its own."""
    found = chosen(group)
    if found is None:
        return None
    ins = _check_all("reduce_scatter", input_list, found)
    _check_same("reduce_scatter", ins, _check("reduce_scatter", output))
    work = exchange.reduce_scatter(found, output, op)
    given = np.stack([each._data for each in ins])
    return _run(work, [given], lambda arrays: [write(output, arrays[0])], async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Add a tensor up (or op) over all ranks; each rank gets its part of it: (ranks·n, …) → (n, …)."""
    found = chosen(group)
    if found is None:
        return None
    name = "reduce_scatter_tensor"
    _check(name, output)
    if _check(name, input).numel() != output.numel() * found.size():
        raise ValueError(
            f"{name}: the input, of shape {input.shape}, should have {found.size()} times the elements of the output, "
            f"of shape {output.shape}"
        )
    _check_dtypes(name, output, input)
    work = exchange.reduce_scatter(found, output, op)
    given = input._data.reshape((found.size(), *output.shape))
    return _run(work, [given], lambda arrays: [write(output, arrays[0])], async_op)


_reduce_scatter_base = reduce_scatter_tensor


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """Send each rank one of a list of tensors, and receive one from each; shapes may differ."""
    found = chosen(group)
    if found is None:
        return None
    outs = _check_all("all_to_all", output_tensor_list, found)
    ins = _check_all("all_to_all", input_tensor_list, found)
    _check_dtypes("all_to_all", *outs, *ins)
    sent, received = [i.numel() for i in ins], [o.numel() for o in outs]
    given = np.concatenate([i._data.reshape(-1) for i in ins])
    work = exchange.all_to_all(found, given.dtype, sent, received)

    def place(arrays: Arrays) -> Any:
        ends = np.cumsum(received).tolist()
        return [write(o, arrays[0][e - n : e]) for o, e, n in zip(outs, ends, received, strict=True)]

    return _run(work, [given], place, async_op)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Send each rank some rows of a tensor, and receive some from each; evenly, unless sizes are given."""
    found = chosen(group)
    if found is None:
        return None
    name = "all_to_all_single"
    _check(name, output)
    _check(name, input)
    _check_dtypes(name, output, input)
    sizes = []
    for tensor, splits in ((input, input_split_sizes), (output, output_split_sizes)):
        rows = tensor.shape[0]
        if not splits:
            if rows % found.size():
                raise ValueError(f"{name}: {rows} rows cannot be divided evenly among {found.size()} ranks")
            splits = [rows // found.size()] * found.size()
        if len(splits) != found.size() or sum(splits) != rows:
            raise ValueError(f"{name}: split sizes {list(splits)} do not make up {rows} rows")
        width = math.prod(tensor.shape[1:])
        sizes.append([n * width for n in splits])
    work = exchange.all_to_all(found, input.dtype, *sizes)
    return _run(work, [input._data.reshape(-1)], lambda arrays: [write(output, arrays[0])], async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
    """Wait until all ranks have come here."""
    found = chosen(group)
    return None if found is None else _run(exchange.barrier(found), [], lambda arrays: None, async_op)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all ranks have come here; one that does not come in time is named."""
    found = chosen(group)
    if found is not None:
        exchange.barrier(found).start([]).wait(None if timeout is None else timeout.total_seconds())


# --- messages from one rank to another --------------------------------------------------------------------------------


def isend(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Any:
    """Begin to send a tensor to a rank; return a Work."""
    found = chosen(group)
    if found is None:
        return None
    to = _root(found, dst, group_dst, "isend")
    if to == found.rank():
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of the current process."
        )
    work = exchange.send(found, to, tag)
    return _run(work, [_check("isend", tensor)._data], lambda arrays: [tensor], True)


def irecv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Any:
    """Begin to receive a tensor from a rank, or from any; return a Work."""
    found = chosen(group)
    if found is None:
        return None
    source = None if src is None and group_src is None else _root(found, src, group_src, "irecv")
    came: list[int] = []
    work = exchange.receive(found, source, tag, came)
    _check("irecv", tensor)

    def place(arrays: Arrays) -> int:
        write(tensor, arrays[0])
        return came[-1]

    return _run(work, [tensor._data], place, True)


def send(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send a tensor to a rank."""
    if (work := isend(tensor, dst, group, tag, group_dst)) is not None:
        work.wait()


def recv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receive a tensor from a rank, or from any, in place; return from which."""
    work = irecv(tensor, src, group, tag, group_src)
    return -1 if work is None else work.source_rank()


@dataclass
class P2POp:
    """One of the messages of batch_isend_irecv. op: isend or irecv."""

    op: Any
    tensor: Any
    peer: int | None = None
    group: Any = None
    tag: int = 0
    group_peer: int | None = None


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin several messages; return their Works."""
    if not p2p_op_list or any(each.op not in (isend, irecv) for each in p2p_op_list):
        raise ValueError("batch_isend_irecv: give a list of P2POp, each with isend or irecv")
    return [each.op(each.tensor, each.peer, each.group, each.tag, each.group_peer) for each in p2p_op_list]


# --- helpers ----------------------------------------------------------------------------------------------------------


def _check_dtypes(name: str, *tensors: Any) -> None:
    if len({tensor.dtype for tensor in tensors}) > 1:
        raise ValueError(f"{name}: tensors of one dtype are needed, got {[str(t.dtype) for t in tensors]}")


def _check_same(name: str, tensors: Sequence[Any], like: Any) -> None:
    for i, tensor in enumerate(tensors):
        if tensor.numel() != like.numel() or tensor.dtype != like.dtype:
            raise ValueError(
                f"{name}: tensor {i} of the list is {tensor.dtype}{list(tensor.shape)}, but {like.dtype}"
                f"{list(like.shape)} is expected"
            )


def _write_rows(tensors: Sequence[Any], array: Any) -> list[Any]:
    return [write(tensor, array[i]) for i, tensor in enumerate(tensors)]


__all__ = [
    "P2POp", "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all",
    "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "gather", "irecv", "isend", "monitored_barrier",
    "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "send",
]  # fmt: skip
