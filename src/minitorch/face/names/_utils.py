"""torch._utils: helpers that packages reach for. Enters: Tensors. Leaves: one flat Tensor, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

import minitorch
from minitorch.tensor.devices import layout
from minitorch.tensor.storage import TypedStorage, tensor_over


def _flatten_dense_tensors(tensors: Any) -> Any:
    return minitorch.cat([each.reshape(-1) for each in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Any) -> tuple[Any, ...]:
    parts = flat.split([each.numel() for each in tensors])
    return tuple(part.view(each.shape) for part, each in zip(parts, tensors, strict=True))


def _rebuild_tensor_v2(
    storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool, backward_hooks: Any,
    metadata: Any = None,
) -> Any:  # fmt: skip
    """Make a tensor over a storage: what PyTorch's files call."""
    kind = storage.dtype if isinstance(storage, TypedStorage) else np.uint8
    made = tensor_over(storage, kind, storage_offset, size, stride)
    return made.requires_grad_() if requires_grad else made


def _rebuild_parameter(data: Any, requires_grad: bool, backward_hooks: Any) -> Any:
    """Make a Parameter: what PyTorch's files call."""
    return minitorch.nn.Parameter(data, requires_grad)


def _rebuild_sparse_tensor(kind: Any, data: Any) -> Any:
    """Make a sparse tensor: what PyTorch's files call."""
    if repr(kind) == "torch.sparse_csr":
        return minitorch.sparse_csr_tensor(*data)
    indices, values, size, *coalesced = data
    return minitorch.sparse_coo_tensor(indices, values, size, is_coalesced=bool(coalesced and coalesced[0]))


def _get_layout(name: str) -> Any:
    """Return a layout by its name: what PyTorch's files call."""
    return layout(name.removeprefix("torch."))


_get_layout.__module__ = "torch.serialization"
# Files name them by this address, whoever writes them.
for _made in (_rebuild_tensor_v2, _rebuild_parameter, _rebuild_sparse_tensor):
    _made.__module__ = "torch._utils"


def _get_all_device_indices() -> list[int]:
    return list(range(minitorch.cuda.device_count()))


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    index = device if isinstance(device, int) else minitorch.device(device).index
    return -1 if index is None else index
