"""torch.types: names for annotations."""

from __future__ import annotations

import builtins
from typing import Any, TypeAlias

from minitorch.tensor import Tensor
from minitorch.tensor.devices import Size
from minitorch.tensor.devices import device as _device
from minitorch.tensor.torch_types import dtype as _dtype

Number: TypeAlias = int | float | bool
Device: TypeAlias = _device | str | int | None
FileLike: TypeAlias = Any
Storage: TypeAlias = Any
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | tuple[Tensor, ...]
__all__ = ["Device", "FileLike", "Number", "Storage", "_device", "_dtype"]
