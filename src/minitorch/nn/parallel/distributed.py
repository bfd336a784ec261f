"""DistributedDataParallel: every rank trains its copy of a Module on its part of the data, and all copies stay equal.

Enters: a Module, the same on all ranks. Leaves: a Module whose gradients are the mean over ranks after backward.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minitorch.autograd.function import Function
from minitorch.distributed import exchange
from minitorch.distributed.buckets import MEBIBYTE, Reducer
from minitorch.distributed.errors import DistBackendError
from minitorch.distributed.groups import ProcessGroup, chosen
from minitorch.distributed.objects import all_gather_object
from minitorch.distributed.reduce_op import ReduceOp
from minitorch.engine import watch
from minitorch.engine.modes import is_grad_enabled
from minitorch.engine.node import new_tensor
from minitorch.engine.recording import recorder
from minitorch.nn.module import Module
from minitorch.tensor import Tensor

FIRST_BUCKET = MEBIBYTE  # bytes: small, so that the first sum begins early


class DistributedDataParallel(Module):
    """A Module of which every rank has a copy; `backward()` averages the gradients over ranks while it runs.

    All ranks begin with rank 0's parameters and buffers. As the mean of equal shards' mean losses is the whole batch's
    mean loss, N ranks on N shards of a batch take the step that one rank takes on the batch.

    bucket_cap_mb: gradients travel in arrays of about so many MiB (the first: 1).
    broadcast_buffers: before each forward all ranks get rank 0's buffers (running statistics).
    find_unused_parameters: parameters may be without gradient on some ranks, or on all.
    static_graph: the same ones at every step.
    weigh_by_samples: shards may differ in size, and be empty: each rank's gradients count by the length of the first
        axis of its first input, so that means over uneven shards, too, give the whole batch's gradient. (PyTorch has
        no such option; it is off by default.)
    device_ids, output_device, dim, check_reduction, gradient_as_bucket_view: accepted for PyTorch's sake.

    With one rank nothing is sent, and it is the Module itself.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        weigh_by_samples: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        group = chosen(process_group)
        if group is None:
            raise ValueError("DistributedDataParallel: this process is not a member of the group")
        trained = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
        if not trained:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters that require a "
                "gradient."
            )
        self.module = module
        self.process_group = group
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.static_graph = static_graph
        self.weigh_by_samples = weigh_by_samples
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * MEBIBYTE)
        self.reducer: Reducer | None = None
        if group.size() > 1:
            if init_sync:
                _refuse_different(group, module)
                broadcast_coalesced(group, [t for t in _state(module) if t.numel()])
            self.reducer = Reducer(
                [p for _, p in trained],
                group,
                min(FIRST_BUCKET, cap) if bucket_cap_mb is None else cap,
                cap,
                find_unused_parameters,
                static_graph,
                [n for n, _ in trained],
            )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the module on this rank's part of the data."""
        reducer = self.reducer
        if reducer is None:
            return self.module(*inputs, **kwargs)
        if missing := reducer.missing():
            reducer.reset()
            raise RuntimeError(
                "Expected to have finished reduction in the prior iteration before starting a new one. These "
                f"parameters got no gradient in it: {', '.join(missing)}; all outputs of forward must take part in "
                "the loss, or pass find_unused_parameters=True to DistributedDataParallel"
            )
        if self.find_unused_parameters and not self.static_graph and (active := recorder()) is not None:
            raise active.refusal(
                "which parameters are used may be another matter at each call; pass static_graph=True to "
                "DistributedDataParallel in place of find_unused_parameters"
            )
        sync = is_grad_enabled() and self.require_backward_grad_sync
        reducer.prepare(sync)
        if self.require_forward_param_sync and self.broadcast_buffers:
            broadcast_coalesced(self.process_group, [b for b in self.module.buffers() if b.numel()])
        self.require_forward_param_sync = sync
        if not (sync and self.weigh_by_samples):
            return self.module(*inputs, **kwargs)
        weight = sample_weight(self.process_group, _sample_count(inputs, kwargs))
        return _weighed(self.module(*inputs, **kwargs), weight)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Leave gradients as this rank's own inside; the next backward pass outside averages their sum."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, **options: Any
    ) -> Iterator[None]:
        """PyTorch's context for ranks with less data than others. Here: make shards even, or weigh them."""
        if enable and self.process_group.size() > 1:
            raise NotImplementedError(
                "DistributedDataParallel.join: ranks that run out of data early are not waited for; "
                "DistributedSampler makes the shards even, and weigh_by_samples=True takes empty batches"
            )
        yield

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """PyTorch's way to replace the mean by something else: not offered."""
        raise NotImplementedError(
            "DistributedDataParallel: the mean over ranks cannot be replaced by a comm hook"
        )

    def __getstate__(self) -> Any:
        raise TypeError("DistributedDataParallel belongs to its process; save .module, or its state_dict()")


# --- equal at the start -----------------------------------------------------------------------------------------------


def _state(module: Module) -> list[Any]:
    return [*module.parameters(), *module.buffers()]


def _refuse_different(group: ProcessGroup, module: Module) -> None:
    """Compare names, shapes and dtypes of all parameters over ranks."""
    mine = [f"{n} {p.dtype}{list(p.shape)}" for n, p in module.named_parameters()]
    heard: list[Any] = [None] * group.size()
    all_gather_object(heard, mine, group)
    for rank, other in zip(group.ranks, heard, strict=True):
        if other != heard[0]:
            pairs = zip([*heard[0], "nothing more"], [*other, "nothing more"], strict=False)
            first, second = next((a, b) for a, b in pairs if a != b)
            raise DistBackendError(
                f"DistributedDataParallel: the models of ranks {group.ranks[0]} and {rank} differ: {first} there, "
                f"{second} here"
            )


def broadcast_coalesced(group: ProcessGroup, tensors: Sequence[Any]) -> None:
    """Give the first rank's tensors to all ranks, those of one dtype as one array."""
    by_dtype: dict[Any, list[Any]] = {}
    for tensor in tensors:
        by_dtype.setdefault(tensor.dtype, []).append(tensor)
    under_way = []
    for alike in by_dtype.values():
        flat = np.concatenate([tensor._data.reshape(-1) for tensor in alike])
        under_way.append((alike, exchange.broadcast(group, flat, 0).start([flat])))
    for alike, pending in under_way:
        (flat,) = pending.wait()
        start = 0
        for tensor in alike:
            data = tensor._data
            data[...] = flat[start : start + tensor.numel()].reshape(tensor.shape)
            watch.touch(data)
            start += tensor.numel()


# --- uneven shards ----------------------------------------------------------------------------------------------------


def _sample_count(inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    for each in (*inputs, *kwargs.values()):
        if isinstance(each, Tensor) and each.ndim:
            return int(each.shape[0])
    raise ValueError("DistributedDataParallel: weigh_by_samples needs a tensor among forward's arguments")


def sample_weight(group: ProcessGroup, count: Any) -> Any:
    """Return by how much a rank's mean loss counts beside the others': ranks · count / all counts, as an array.

    The mean over ranks of losses that are weighed so is the mean over all samples.
    """
    mine = np.asarray(count, np.float64) if isinstance(count, int) else count.astype(np.float64)
    (total,) = exchange.all_reduce(group, mine, ReduceOp.SUM).start([mine]).wait()
    return mine * group.size() / total


class _Weigh(Function):
    """The same tensor; its gradient counts more, or less."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        ctx.weight = weight
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * new_tensor(ctx.weight.astype(g.dtype)), None


def _weighed(outputs: Any, weight: Any) -> Any:
    if isinstance(outputs, Tensor):
        return _Weigh.apply(outputs, weight) if outputs.requires_grad else outputs
    if isinstance(outputs, Mapping):
        return {name: _weighed(each, weight) for name, each in outputs.items()}
    if isinstance(outputs, (list, tuple)):
        parts = [_weighed(each, weight) for each in outputs]
        return type(outputs)(*parts) if hasattr(outputs, "_fields") else type(outputs)(parts)
    return outputs
