"""Arrays on a GPU, which are CuPy's. Enters: arrays and a GPU's number. Leaves: arrays there, or what is missing.

This is where the library meets CuPy: it is imported when a GPU is first asked for, and nothing else needs it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from minitorch.engine import capturing, watch
from minitorch.ops import native
from minitorch.ops.error_function import erf
from minitorch.ops.native import is_on_gpu as is_on_gpu
from minitorch.ops.op import OPS


class OutOfMemoryError(RuntimeError):
    """A GPU's memory is used up."""


def library() -> Any:
    """Return CuPy, if it is installed and finds a GPU; else say what is missing."""
    try:
        cupy = import_module("cupy")
    except ImportError:
        raise RuntimeError(
            "cuda: no GPU can be used: CuPy is not installed. In minitorch's folder, on a machine with an NVIDIA "
            "GPU: pip install '.[gpu]'; or stay on 'cpu'"
        ) from None
    try:
        _count(cupy)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(f"cuda: CuPy is installed but finds no GPU ({error}); stay on 'cpu'") from None
    if native.meet(cupy.ndarray):
        for op in OPS.values():
            op.open_to_devices()
    return cupy


@functools.lru_cache(maxsize=1)
def _count(cupy: Any) -> int:
    """Return how many GPUs CuPy finds, or raise its error: they do not become more or fewer while a program runs."""
    return int(cupy.cuda.runtime.getDeviceCount())


def gpu_count() -> int:
    """Return how many GPUs can be used."""
    try:
        return _count(import_module("cupy"))
    except Exception:  # not installed, or installed without a driver: CuPy raises its own kinds
        return 0


def name_of_place(array: Any) -> str:
    """Return where an array lies: 'cpu', 'cuda:0'."""
    there = device_of(array)
    return "cpu" if there is None else f"cuda:{there.number_of(array)}"


# --- arrays wherever they lie, for the compiler -------------------------------------------------------------


class DeviceMemory:
    """GPUs' memory, whose arrays are CuPy's. name: what a Tensor there calls its device.

    backend: which of the compiler's backends computes there.
    """

    name = backend = "cuda"

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def number_of(self, array: Any) -> int:
        """Return the number of the GPU that an array lies on; of one that is recorded, of the GPU in use."""
        array = beneath(array)
        return int(array.device.id if is_on_gpu(array) else self._cupy.cuda.Device().id)

    def to_host(self, array: Any) -> np.ndarray:
        """Return a copy as NumPy's array, when everything that was begun is done."""
        return array.get()

    def to_device(self, array: np.ndarray) -> Any:
        """Return a copy of NumPy's array there."""
        return copied(self._cupy, array)

    def erf(self, array: Any) -> Any:
        """Return the error function of each element, which CuPy has elsewhere than NumPy's functions."""
        if not is_on_gpu(array):
            return erf(array)
        return import_module("cupyx.scipy.special").erf(array).astype(array.dtype, copy=False)

    def strided(self, array: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
        """Return a view of an array's memory, from where it begins."""
        view = self._cupy.lib.stride_tricks.as_strided(array, shape, strides)
        watch.note_owner(view, array)
        return view

    def bounds(self, array: Any) -> tuple[int, int]:
        """Return the addresses between which an array lies."""
        return self._cupy.byte_bounds(array)


ALIGNMENT = 16  # bytes, of what kernels read some elements of at once
_memory = functools.lru_cache(maxsize=1)(DeviceMemory)


def memory() -> DeviceMemory:
    """Return the memory of GPUs, or say what is missing."""
    return _memory(library())


def device_of(array: Any) -> DeviceMemory | None:
    """Return the memory that an array lies in, or would lie in if it were not only recorded; None for the host's.

    >>> device_of(np.zeros(3)) is None
    True
    """
    kind = array.__class__
    if kind is np.ndarray:
        return None
    if hasattr(kind, "__minitorch_device__"):
        return array.__minitorch_device__
    if hasattr(kind, "__minitorch_place__"):
        return device_of(array.__minitorch_place__)
    return _memory(sys.modules["cupy"]) if is_on_gpu(array) else None


def beneath(array: Any) -> Any:
    """Return the array itself; of one that holds others (a batch, a sparse one), that which tells where they lie."""
    while hasattr(array, "__minitorch_place__"):
        array = array.__minitorch_place__
    return array


def differ(array: Any, other: Any) -> bool:
    """Tell whether two arrays lie on different devices, where that is known: of recorded ones it is not.

    >>> differ(np.zeros(3), np.ones(3))
    False
    """
    if array.__class__ is other.__class__:  # (the common cases, quickly)
        if array.__class__ is np.ndarray:
            return False
        if is_on_gpu(array):
            return bool(array.device.id != other.device.id)
    array, other = beneath(array), beneath(other)
    known = [each.__class__ is np.ndarray or is_on_gpu(each) for each in (array, other)]
    return all(known) and name_of_place(array) != name_of_place(other)


def has_code_in(file: str, beside: bool = False) -> bool:
    """Tell whether a file of Python's is CuPy's; beside: or of a package that is installed beside it."""
    cupy: Any = sys.modules.get("cupy")
    return cupy is not None and file.startswith(str(Path(cupy.__file__).parents[beside]))


@contextlib.contextmanager
def working_on(number: int | None, what: str) -> Iterator[Any]:
    """Inside, arrays are made on a GPU (None: the one in use); yields CuPy. what: whose memory it is, for errors."""
    cupy = library()
    if number is not None and number >= (count := gpu_count()):
        raise RuntimeError(
            f"{what}: there is no 'cuda:{number}': the last of {count} GPUs is 'cuda:{count - 1}'"
        )
    try:
        is_in_use = number is None or number == cupy.cuda.Device().id
        with contextlib.nullcontext() if is_in_use else cupy.cuda.Device(number):
            yield cupy
    except MemoryError as error:
        raise out_of_memory(what, error) from None


def out_of_memory(what: str, error: BaseException) -> BaseException:
    """Return what to say when memory ran out: of a GPU in its own words, anything else as it is."""
    if not is_on_gpu(error):  # (errors of CuPy's come from the same module as its arrays)
        return error
    cupy = library()
    free, total = cupy.cuda.runtime.memGetInfo()
    kept = cupy.get_default_memory_pool().free_bytes()
    return OutOfMemoryError(
        f"{what}: CUDA out of memory: {error} Free are {free + kept:,} of {total:,} bytes, in pieces that may be "
        "smaller. Nothing was changed: every tensor has the values it had. Take smaller batches, del what is not "
        "needed, compute under no_grad() where no gradient is asked for, or split a step with utils.checkpoint"
    )


def copied(cupy: Any, array: Any, **options: Any) -> Any:
    """Return NumPy's array as CuPy's; one of CuPy's as it is.

    (CuPy fills an array without dimensions by a kernel, which it first has to make, in tenths of a second. But while a
    graph is captured nothing may be copied from here.)
    """
    if array.ndim or not isinstance(array, np.ndarray) or capturing.current() is not None:
        return cupy.asarray(array, **options)
    return cupy.asarray(array.reshape(1), **options).reshape(())


def sent(array: Any, number: int | None = None, non_blocking: bool = False) -> Any:
    """Return an array's copy on a GPU (None: the one in use).

    non_blocking: do not wait for a copy out of pinned memory, into which nobody may write until it is done.
    """
    if hasattr(array, "__minitorch_moved__"):
        return array.__minitorch_moved__(lambda each: sent(each, number, non_blocking))
    with working_on(number, "to") as cupy:
        if isinstance(array, np.ndarray):
            return copied(cupy, array, blocking=not non_blocking)
        return cupy.asarray(array)  # from GPU to GPU


_used_elsewhere: list[
    tuple[Any, Any]
] = []  # events in other streams, and arrays whose memory is kept until then


def keep_for(array: Any, stream: Any) -> None:
    """Keep an array's memory until what was asked for in a stream is done, though nobody may hold it any more."""
    _used_elsewhere[:] = [(event, kept) for event, kept in _used_elsewhere if not event.done]
    event = library().cuda.Event(disable_timing=True)
    event.record(stream)
    _used_elsewhere.append((event, array))


def pinned(array: np.ndarray) -> np.ndarray:
    """Return a copy of an array in memory that stays where it is, from which a GPU fetches by itself."""
    cupy = library()
    memory = cupy.cuda.alloc_pinned_memory(max(array.nbytes, 1))
    copy = np.frombuffer(memory, array.dtype, array.size).reshape(array.shape)
    copy[...] = array
    return copy


def is_pinned(array: Any) -> bool:
    """Tell whether an array lies in pinned memory."""
    if not isinstance(array, np.ndarray) or not array.size or not gpu_count():
        return False
    return int(library().cuda.runtime.pointerGetAttributes(array.ctypes.data).type) == 1


def on_host(array: Any) -> Any:
    """Return an array as the host can read it: itself, if it lies there."""
    if hasattr(array, "__minitorch_moved__"):
        return array.__minitorch_moved__(on_host)
    there = device_of(array)
    if there is None:
        return array
    found = there.to_host(array)
    tell()
    return found


# Kernels that look at indices. The host does not wait for them: it is told when it waits for something else.
_looking: weakref.WeakSet[Any] = weakref.WeakSet()


def let_tell(kernels: Any) -> None:
    """Have kernels asked what they have found, when the host has waited for the GPU: by their method `tell`."""
    _looking.add(kernels)


def tell() -> None:
    """Raise what kernels have found; of several, one."""
    found = None
    for each in list(_looking) if _looking else ():
        try:
            each.tell()
        except (IndexError, RuntimeError) as error:
            found = error
    if found is not None:
        raise found


def is_writeable(array: Any) -> bool:
    """Tell whether an array may be written into: on a device any may be.

    >>> is_writeable(np.zeros(3)), is_writeable(np.broadcast_to(0.0, (3,)))
    (True, False)
    """
    return device_of(array) is not None or (isinstance(array, np.ndarray) and array.flags.writeable)


def is_laid_out(array: Any) -> bool:
    """Tell whether programs may write right into an array: in the order of its axes, without gaps.

    >>> is_laid_out(np.zeros((2, 3))), is_laid_out(np.zeros((2, 3)).T)
    (True, False)
    """
    if device_of(array) is not None:
        return array.flags.c_contiguous and bounds_of(array)[0] % ALIGNMENT == 0
    return type(array) is np.ndarray and array.flags.carray


def bounds_of(array: Any) -> tuple[int, int]:
    """Return the addresses between which an array lies."""
    there = device_of(array)
    if not array.size:
        return 0, 0
    return byte_bounds(array) if there is None else there.bounds(array)


def may_share_memory(a: Any, b: Any) -> bool:
    """Tell whether two arrays may lie in the same memory.

    >>> a = np.zeros(4)
    >>> may_share_memory(a, a[1:]), may_share_memory(a, np.zeros(4))
    (True, False)
    """
    (a0, a1), (b0, b1) = bounds_of(a), bounds_of(b)
    return a0 < b1 and b0 < a1


def shares_memory(a: Any, b: Any) -> bool:
    """Tell whether two arrays have an element in common; on a device, whether they lie between each other's bounds.

    >>> a = np.zeros(4)
    >>> shares_memory(a[::2], a[1::2]), shares_memory(a, a[3:])
    (False, True)
    """
    on_host = device_of(a) is None and device_of(b) is None
    return bool(np.shares_memory(a, b)) if on_host else may_share_memory(a, b)
