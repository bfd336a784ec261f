"""Collectives as functions of Tensors, with their derivatives. Enters: a Tensor of this rank. Leaves: new Tensors.

The loss that is differentiated is the sum of all ranks' losses, as in PyTorch: what a rank's input gets is the sum of
what it did to every rank. So the derivative of a sum over ranks is a sum over ranks, that of gathering is a sum of
which each rank takes its part, and the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.autograd.function import Function
from minitorch.distributed import exchange
from minitorch.distributed.collectives import _root
from minitorch.distributed.groups import ProcessGroup, chosen
from minitorch.distributed.reduce_op import ReduceOp
from minitorch.engine.node import new_tensor

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter",
    "scatter",
]  # fmt: skip


def _member(group: Any, name: str) -> ProcessGroup:
    found = chosen(group)
    if found is None:
        raise ValueError(f"{name}: this process is not a member of the group")
    return found


def _now(work: exchange.Exchange, array: Any) -> Any:
    """Return the result of an exchange of one array."""
    return work.start([array]).wait()[0]


def _reduced(x: Any, group: ProcessGroup, op: ReduceOp) -> Any:
    return _now(exchange.all_reduce(group, x, op), x)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, group: ProcessGroup, op: ReduceOp) -> Any:
        ctx.group, ctx.op = group, op
        out = new_tensor(_reduced(x._data, group, op))
        if op not in (ReduceOp.SUM, ReduceOp.AVG):
            ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if ctx.op in (ReduceOp.SUM, ReduceOp.AVG):
            return all_reduce(g, ctx.op, ctx.group), None, None
        x, out = ctx.saved_tensors
        total = all_reduce(g, ReduceOp.SUM, ctx.group)
        if ctx.op is ReduceOp.PRODUCT:
            return total * out / x, None, None
        if ctx.op not in (ReduceOp.MAX, ReduceOp.MIN):
            raise RuntimeError(f"all_reduce: ReduceOp.{ctx.op.name} has no derivative")
        chosen = (x == out).to(g.dtype)  # ranks that share the extreme share its gradient
        return total * chosen / all_reduce(chosen, ReduceOp.SUM, ctx.group), None, None


def all_reduce(tensor: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Any:
    """Add up over ranks (or mean, max, min, product), as a new tensor.   dx = Σ over ranks of g"""
    return _AllReduce.apply(tensor, _member(group, "all_reduce"), op)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, group: ProcessGroup) -> Any:
        ctx.group = group
        return new_tensor(_now(exchange.all_gather(group, x), x._data))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return _ReduceScatter.apply(g, ctx.group, ReduceOp.SUM), None


def all_gather(tensor: Any, group: Any = None) -> Any:
    """Return every rank's tensor, as a tuple.   dx = Σ over ranks of g[this rank]"""
    return _AllGather.apply(tensor, _member(group, "all_gather")).unbind(0)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, group: ProcessGroup, op: ReduceOp) -> Any:
        ctx.group, ctx.op = group, op
        return new_tensor(_now(exchange.reduce_scatter(group, x[0], op), x._data))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if ctx.op not in (ReduceOp.SUM, ReduceOp.AVG):
            raise RuntimeError(f"reduce_scatter: ReduceOp.{ctx.op.name} has no derivative here")
        gathered = _AllGather.apply(g, ctx.group)
        return gathered if ctx.op is ReduceOp.SUM else gathered / ctx.group.size(), None, None


def reduce_scatter(
    output: Any, input_list: Sequence[Any], op: ReduceOp = ReduceOp.SUM, group: Any = None
) -> Any:
    """Add lists of tensors up over ranks, and return this rank's.   d(input_list)[r] = g of rank r"""
    found = _member(group, "reduce_scatter")
    return _ReduceScatter.apply(stack(input_list), found, op).reshape(output.shape)


def stack(tensors: Sequence[Any]) -> Any:
    """Put tensors of one shape on top of each other."""
    return np.stack(list(tensors))


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, group: ProcessGroup, root: int) -> Any:
        ctx.group, ctx.root = group, root
        return new_tensor(_now(exchange.broadcast(group, x, root), x._data))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        total = _Reduce.apply(g, ctx.group, ctx.root, ReduceOp.SUM)
        return (total if ctx.group.rank() == ctx.root else total * 0), None, None


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """Return rank src's tensor.   dx = Σ over ranks of g, on rank src; 0 elsewhere"""
    found = _member(group, "broadcast")
    return _Broadcast.apply(tensor, found, _root(found, src, None, "broadcast"))


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, group: ProcessGroup, root: int, op: ReduceOp) -> Any:
        ctx.group, ctx.root, ctx.op = group, root, op
        return new_tensor(_now(exchange.reduce(group, x, root, op), x._data))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if ctx.op not in (ReduceOp.SUM, ReduceOp.AVG):
            raise RuntimeError(f"reduce: ReduceOp.{ctx.op.name} has no derivative here")
        given = _Broadcast.apply(g, ctx.group, ctx.root)
        return (given if ctx.op is ReduceOp.SUM else given / ctx.group.size()), None, None, None


def reduce(tensor: Any, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Any:
    """Add up over ranks; rank dst gets the result, the others their own tensor.   dx = g of rank dst"""
    found = _member(group, "reduce")
    return _Reduce.apply(tensor, found, _root(found, dst, None, "reduce"), op)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, group: ProcessGroup, root: int) -> Any:
        ctx.group, ctx.root = group, root
        found = _now(exchange.gather(group, x, root), x._data)
        if group.rank() != root:
            found = np.zeros((group.size(), *x.shape), x.dtype)
        return new_tensor(found)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return _Scatter.apply(g, ctx.group, ctx.root), None, None


def gather(tensor: Any, dst: int = 0, group: Any = None) -> Any:
    """Return every rank's tensor on rank dst, as a tuple; zeros elsewhere.   dx = g[this rank] of rank dst"""
    found = _member(group, "gather")
    return _Gather.apply(tensor, found, _root(found, dst, None, "gather")).unbind(0)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, group: ProcessGroup, root: int) -> Any:
        ctx.group, ctx.root = group, root
        return new_tensor(_now(exchange.scatter(group, x[0], root), x._data))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return _Gather.apply(g, ctx.group, ctx.root), None, None


def scatter(tensors: Sequence[Any], src: int = 0, group: Any = None) -> Any:
    """Return this rank's of the tensors that rank src has a list of.   d(tensors)[r] = g of rank r, on rank src"""
    found = _member(group, "scatter")
    return _Scatter.apply(stack(tensors), found, _root(found, src, None, "scatter"))


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, group: ProcessGroup, sent: list[int], received: list[int]) -> Any:
        ctx.group, ctx.sent, ctx.received = group, sent, received
        return new_tensor(_now(exchange.all_to_all(group, x.dtype, sent, received), x._data))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return _AllToAll.apply(g, ctx.group, ctx.received, ctx.sent), None, None, None


def all_to_all(output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Any = None) -> Any:
    """Send each rank one of a list of tensors, and return one from each, as a tuple.   dx: the same, backwards"""
    found = _member(group, "all_to_all")
    sent = [t.numel() for t in input_tensor_list]
    received = [t.numel() for t in output_tensor_list]
    given = np.concatenate([t.reshape(-1) for t in input_tensor_list])
    flat: Any = _AllToAll.apply(given, found, sent, received)
    ends = np.cumsum(received).tolist()
    places = zip(output_tensor_list, ends, received, strict=True)
    return tuple(flat[end - n : end].reshape(out.shape) for out, end, n in places)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Any:
    """Send each rank some rows, and return those that came.   dx: the same, backwards"""
    found = _member(group, "all_to_all_single")
    sizes = []
    for tensor, splits in ((input, input_split_sizes), (output, output_split_sizes)):
        rows = tensor.shape[0]
        width = tensor.numel() // max(rows, 1)
        sizes.append([n * width for n in splits or [rows // found.size()] * found.size()])
    return _AllToAll.apply(input.reshape(-1), found, *sizes).reshape(output.shape)
