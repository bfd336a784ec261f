"""Arrays on a GPU, which are CuPy's. Enters: arrays and a GPU's number. Leaves: arrays there, or what is missing.

This is where the library meets CuPy: it is imported when a GPU is first asked for, and nothing else needs it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np


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
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(f"cuda: CuPy is installed but finds no GPU ({error}); stay on 'cpu'") from None
    return cupy


def gpu_count() -> int:
    """Return how many GPUs can be used."""
    try:
        return int(import_module("cupy").cuda.runtime.getDeviceCount())
    except Exception:  # not installed, or installed without a driver: CuPy raises its own kinds
        return 0


def is_on_gpu(array: Any) -> bool:
    """Tell whether an array lies on a GPU."""
    return type(array).__module__.partition(".")[0] == "cupy"


def name_of_place(array: Any) -> str:
    """Return where an array lies: 'cpu', 'cuda:0'."""
    return f"cuda:{array.device.id}" if is_on_gpu(array) else "cpu"


@contextlib.contextmanager
def working_on(number: int | None, what: str) -> Iterator[Any]:
    """Inside, arrays are made on a GPU (None: the one in use); yields CuPy. what: whose memory it is, for errors."""
    cupy = library()
    if number is not None and number >= (count := gpu_count()):
        raise RuntimeError(
            f"{what}: there is no 'cuda:{number}': the last of {count} GPUs is 'cuda:{count - 1}'"
        )
    try:
        with contextlib.nullcontext() if number is None else cupy.cuda.Device(number):
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


def sent(array: Any, number: int | None = None, non_blocking: bool = False) -> Any:
    """Return an array's copy on a GPU (None: the one in use).

    non_blocking: do not wait for a copy out of pinned memory, into which nobody may write until it is done.
    """
    with working_on(number, "to") as cupy:
        if isinstance(array, np.ndarray):
            return cupy.asarray(array, blocking=not non_blocking)
        return cupy.asarray(array)  # from GPU to GPU


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
