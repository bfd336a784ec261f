"""Arrays that lie on a device. Enters: an array, or a device's name. Leaves: its `DeviceMemory`; None for the host's.

Everything else here speaks NumPy's protocols and does not ask where an array lies. Who has to know (the compiler, which
writes programs for the device, and whoever moves arrays) finds the few words for it here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.lib.array_utils import byte_bounds


class DeviceMemory(Protocol):
    """The memory of a device, with arrays of its own kind."""

    name: str  # what a Tensor there calls its device
    backend: str  # which of the compiler's backends computes there
    kind: Any  # the class of its arrays

    def require(self) -> None:
        """Raise RuntimeError if there is no such device."""

    def to_host(self, array: Any) -> np.ndarray:
        """Return a copy as NumPy's array, when everything that was begun is done."""

    def to_device(self, array: np.ndarray) -> Any:
        """Return a copy of NumPy's array there."""

    def bounds(self, array: Any) -> tuple[int, int]:
        """Return the addresses between which an array lies."""


class _Cupy:
    """NVIDIA's GPUs, whose arrays are CuPy's."""

    name = backend = "cuda"

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self.kind = cupy.ndarray

    def require(self) -> None:
        """Raise RuntimeError if there is no GPU."""
        try:
            self._cupy.cuda.runtime.getDeviceCount()
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            raise RuntimeError(f"cuda: CuPy is installed but finds no GPU ({error}); stay on 'cpu'") from None

    def to_host(self, array: Any) -> np.ndarray:
        """Return a copy as NumPy's array."""
        return self._cupy.asnumpy(array)

    def to_device(self, array: np.ndarray) -> Any:
        """Return a copy of NumPy's array there."""
        return self._cupy.array(array)

    def bounds(self, array: Any) -> tuple[int, int]:
        """Return the addresses between which an array lies."""
        return self._cupy.byte_bounds(array)


_memories: dict[Any, DeviceMemory] = {}  # by the class of their arrays


def register(memory: DeviceMemory) -> None:
    """Let arrays of a class be known as a device's."""
    _memories[memory.kind] = memory


def device_of(array: Any) -> DeviceMemory | None:
    """Return the memory that an array lies in; None for the host's.

    >>> device_of(np.zeros(3)) is None
    True
    """
    kind = array.__class__
    if kind is np.ndarray:
        return None
    found = _memories.get(kind)
    if found is None:
        if hasattr(kind, "__minitorch_device__"):  # an array that is recorded says where it would lie
            return array.__minitorch_device__
        if kind.__module__.partition(".")[0] != "cupy":
            return None
        found = named("cuda")
    return found


def has_code_in(file: str) -> bool:
    """Tell whether a file of Python's belongs to a device's memory, or to its kind of arrays."""
    homes: list[Any] = [
        sys.modules[each.__module__.partition(".")[0]]
        for kind, memory in _memories.items()
        for each in (kind, type(memory))
        if not each.__module__.startswith("minitorch.")
    ]
    return any(
        file.startswith(str(Path(home.__file__).parent))
        if hasattr(home, "__path__")
        else file == home.__file__
        for home in homes
    )


def named(name: str) -> DeviceMemory:
    """Return the memory of a device by its name; ImportError where it cannot be used."""
    for memory in _memories.values():
        if memory.name == name:
            return memory
    import cupy

    register(_Cupy(cupy))
    return named(name)


def on_host(array: Any) -> Any:
    """Return an array as the host can read it: itself, if it lies there."""
    memory = device_of(array)
    return array if memory is None else memory.to_host(array)


def is_writeable(array: Any) -> bool:
    """Tell whether an array may be written into: on a device any may be.

    >>> is_writeable(np.zeros(3)), is_writeable(np.broadcast_to(0.0, (3,)))
    (True, False)
    """
    return device_of(array) is not None or (isinstance(array, np.ndarray) and array.flags.writeable)


def bounds_of(array: Any) -> tuple[int, int]:
    """Return the addresses between which an array lies."""
    memory = device_of(array)
    if not array.size:
        return 0, 0
    return byte_bounds(array) if memory is None else memory.bounds(array)


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
