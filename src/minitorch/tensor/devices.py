"""Where a tensor lives, how large it is, how it lies in memory. Enters: 'cpu', 'cuda:0'; lengths. Leaves: these, named.

All are Python's own kinds with a few more words: a device, a layout and a memory_format are strs, a Size is a tuple.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

from minitorch.tensor.torch_types import pytorchs


class device(str):
    """A device by name: device("cuda:0"), device("cuda", 0), device("cpu"). Also a context that does nothing.

    >>> device("cuda:1").type, device("cuda", 1).index, device("cpu") == "cpu"
    ('cuda', 1, True)
    """

    type: str
    index: int | None  # type: ignore[assignment]

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> device:
        """Name a device by its kind and number."""
        if isinstance(type, int):
            type, index = "cuda", type
        kind, _, number = str(type).partition(":")
        if kind not in ("cpu", "cuda", "mps", "meta", "xpu"):
            raise RuntimeError(f"device: there are 'cpu' and 'cuda', not {type!r}")
        if number and (index is not None or not number.isdigit()):
            raise RuntimeError(f"device: {type!r} with index {index}: write it as 'cuda:0' or as ('cuda', 0)")
        index = int(number) if number else index
        made = super().__new__(cls, kind if index is None else f"{kind}:{index}")
        made.type, made.index = kind, index
        return made

    def __repr__(self) -> str:
        number = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{number})"

    def __reduce__(self) -> Any:
        return (device, (str(self),))

    def __enter__(self) -> device:
        if self.type != "cpu":
            raise RuntimeError(f"device: tensors are made on the CPU and moved: write x.to({str(self)!r})")
        return self

    def __exit__(self, *exception: object) -> None:
        pass


CPU, CUDA = device("cpu"), device("cuda")


class layout(str):
    """How elements are kept: all of them (strided). Others, of sparse tensors, can only be named.

    >>> strided == "strided", minitorch.ones(1).layout
    (True, torch.strided)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "torch." + self[:]

    __str__ = __repr__


class memory_format(str):
    """In which order elements lie: of the axes (contiguous_format), channels last, or as they do (preserve_format)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "torch." + self[:]

    __str__ = __repr__


strided, sparse_coo, sparse_csr = layout("strided"), layout("sparse_coo"), layout("sparse_csr")
preserve_format, contiguous_format = memory_format("preserve_format"), memory_format("contiguous_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")


def gpu_count() -> int:
    """Return how many GPUs can be used."""
    try:
        return int(import_module("cupy").cuda.runtime.getDeviceCount())
    except Exception:  # not installed, or installed without a driver: CuPy raises its own kinds
        return 0


def has_gpu() -> bool:
    """Tell whether a GPU can be used."""
    return gpu_count() > 0


class Size(tuple[int, ...]):
    """A shape: a tuple that can count.

    >>> Size((2, 3)).numel(), Size((2, 3, 4))[1:].numel()
    (6, 12)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])" if pytorchs.on else tuple.__repr__(self)

    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self)

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return Size(found) if found.__class__ is tuple else found
