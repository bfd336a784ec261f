"""torch._utils: helpers that packages reach for. Enters: Tensors. Leaves: one flat Tensor, and back."""

from __future__ import annotations

from typing import Any

import minitorch


def _flatten_dense_tensors(tensors: Any) -> Any:
    return minitorch.cat([each.reshape(-1) for each in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Any) -> tuple[Any, ...]:
    parts = flat.split([each.numel() for each in tensors])
    return tuple(part.view(each.shape) for part, each in zip(parts, tensors, strict=True))


def _get_all_device_indices() -> list[int]:
    return list(range(minitorch.cuda.device_count()))


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    index = device if isinstance(device, int) else minitorch.device(device).index
    return -1 if index is None else index
