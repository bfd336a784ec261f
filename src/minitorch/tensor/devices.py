"""Where a tensor lives, how large it is, how it lies in memory. Enters: 'cpu', 'cuda:0'; lengths. Leaves: these, named.

All are Python's own kinds with a few more words: a device, a layout and a memory_format are strs, a Size is a tuple.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from minitorch.engine import gpu, meta
from minitorch.engine.dtypes import get_default_dtype
from minitorch.engine.recording import changed, refuse_inside_recording
from minitorch.tensor.torch_types import pytorchs


class device(str):
    """A device by name: device("cuda:0"), device("cuda", 0), device("cpu"). As a context: where new tensors are made.

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
            raise RuntimeError(f"device: there are 'cpu', 'cuda' and 'meta', not {type!r}")
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
        check_device(self)
        _choose((*_chosen.get(), self), list(_usual))
        return self

    def __exit__(self, *exception: object) -> None:
        _choose(_chosen.get()[:-1], list(_usual))


CPU, META = device("cpu"), device("meta")


def check_device(name: Any) -> None:
    """Refuse a device this build does not have."""
    if isinstance(name, int) and not isinstance(name, bool):
        return  # a GPU's number
    if name is not None and str(name).partition(":")[0] not in ("cpu", "cuda", "meta"):
        raise RuntimeError(f"device: there are 'cpu', 'cuda' and 'meta', not {name!r}")


# --- where new tensors are made ------------------------------------------------------------------------------

# The devices of the `with` blocks around, outermost first. Before them: what set_default_device was given.
_chosen: ContextVar[tuple[device, ...]] = ContextVar("minitorch_devices", default=())
_usual: list[device] = []
_is_asked = False  # whether a device was ever chosen: until then nobody looks


def _choose(around: tuple[device, ...], usual: list[device]) -> None:
    global _is_asked
    before = default_device()
    if (around or usual or [CPU])[-1] != (before or CPU):
        refuse_inside_recording("the device of new tensors")
        changed()
    _is_asked = True
    _chosen.set(around)
    _usual[:] = usual


def set_default_device(wanted: Any) -> None:
    """Choose where new tensors are made if nothing is said: "cuda", "cuda:1", "cpu" (also by None).

    >>> set_default_device("cpu"); get_default_device()
    device(type='cpu')
    """
    check_device(wanted)
    _choose(_chosen.get(), [] if wanted is None else [device(wanted)])


def default_device() -> device | None:
    """Return the GPU on which new tensors are made if nothing is said, or 'meta'; None: the CPU."""
    if not _is_asked:
        return None
    found = (_chosen.get() or _usual or [CPU])[-1]
    return None if found.type == "cpu" else found


def get_default_device() -> device:
    """Return where new tensors are made if nothing is said.

    >>> with device("cuda:0"):
    ...     get_default_device()
    device(type='cuda', index=0)
    """
    found = default_device()
    return CPU if found is None else numbered(found)


def gpu_of(where: Any) -> device | None:
    """Return the GPU, or 'meta', that a `device=` argument names; None for the CPU. Without one, the default."""
    if where is None:
        return default_device()
    check_device(where)
    named = where if isinstance(where, device) else device(where)
    return None if named.type == "cpu" else named


def numbered(name: device) -> device:
    """Return a device with its number: 'cuda' is the GPU in use.

    >>> numbered(device("cpu")), numbered(device("cuda:1"))
    (device(type='cpu'), device(type='cuda', index=1))
    """
    if name.type == "meta":
        return META  # of which there is one
    if name.type == "cpu" or name.index is not None:
        return name
    return device("cuda", int(gpu.library().cuda.Device().id))


def defaults_of_creation() -> Any:
    """Return on what new tensors depend beside their arguments: the default dtype and, if one is chosen, the device."""
    place = default_device()
    return get_default_dtype() if place is None else _pair(get_default_dtype(), place)


@functools.cache  # compiled functions compare it by `is`
def _pair(dtype: Any, place: device) -> tuple[Any, device]:
    return dtype, place


@contextlib.contextmanager
def making_on(where: device, what: str) -> Iterator[Any]:
    """Inside, arrays are made on a GPU or on 'meta'; yields who makes them. what: whose memory it is, for errors."""
    if where.type == "meta":
        yield meta
        return
    with gpu.working_on(where.index, what) as cupy:
        yield cupy


_named = functools.lru_cache(maxsize=64)(device)  # (to read a name takes longer than many an op)


def place_of(array: Any) -> device:
    """Return where an array lies."""
    if array.__class__ is meta.Meta:
        return META
    return CPU if gpu.device_of(array) is None else _named(gpu.name_of_place(array))


class layout(str):
    """How elements are kept: all of them (strided), few (sparse_coo, sparse_csr). Others can only be named.

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


sparse_csc, sparse_bsr, sparse_bsc = layout("sparse_csc"), layout("sparse_bsr"), layout("sparse_bsc")
jagged = layout("jagged")
strided, sparse_coo, sparse_csr = layout("strided"), layout("sparse_coo"), layout("sparse_csr")
preserve_format, contiguous_format = memory_format("preserve_format"), memory_format("contiguous_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")


def has_gpu() -> bool:
    """Tell whether a GPU can be used."""
    return gpu.gpu_count() > 0


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
