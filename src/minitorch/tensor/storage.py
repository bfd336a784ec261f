"""Storages: a tensor's memory without its shape. Enters: a tensor. Leaves: the bytes or numbers that lie beneath it.

A storage is a view: what is written through it is seen by every tensor over the same memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch.engine import dtypes, gpu, watch
from minitorch.engine.node import new_tensor
from minitorch.ops.shape import flattened, places_in_memory, view_by_steps
from minitorch.tensor.devices import device, numbered, place_of

Device = device  # (a storage has a property of this name)


class UntypedStorage:
    """Bytes. size: how many, zeros; or array: whose memory.

    >>> storage = minitorch.ones(2, 3)[0].untyped_storage()
    >>> storage.nbytes(), len(storage)
    (24, 24)
    """

    is_sparse = False
    is_cuda = property(lambda self: gpu.is_on_gpu(self._bytes))

    def __init__(self, size: int = 0, *, array: Any = None) -> None:
        self._whole = np.zeros(size, np.uint8) if array is None else array
        self._bytes = self._whole.view(np.uint8)

    @staticmethod
    def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Return the bytes of a file; shared: what is written into them is written into the file."""
        array = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,) if nbytes else None)
        return UntypedStorage(array=np.asarray(array))

    @property
    def device(self) -> device:
        """Where it lies."""
        return place_of(self._bytes)

    def get_device(self) -> int:
        """Return the number of the GPU that it lies on; -1: on none."""
        index = self.device.index
        return -1 if index is None else index

    def nbytes(self) -> int:
        """The number of bytes."""
        return int(self._bytes.size)

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        """The address of its first byte."""
        return int(self._bytes.ctypes.data if isinstance(self._bytes, np.ndarray) else self._bytes.data.ptr)

    _cdata = property(data_ptr)

    def __getitem__(self, key: Any) -> Any:
        return int(self._bytes[key]) if isinstance(key, int) else UntypedStorage(array=self._bytes[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._bytes[key] = value
        watch.touch(self._whole)

    def __iter__(self) -> Iterator[int]:
        return iter(self._bytes.tolist())

    def tolist(self) -> list[int]:
        """Return the bytes as ints."""
        return self._bytes.tolist()

    def copy_(self, source: Any, non_blocking: bool = False) -> UntypedStorage:
        """Write another storage's bytes here."""
        self[:] = source._bytes
        return self

    def clone(self) -> UntypedStorage:
        """Return a copy."""
        return UntypedStorage(array=self._bytes.copy())

    def fill_(self, value: int) -> UntypedStorage:
        """Write one value everywhere."""
        self[:] = value
        return self

    def cpu(self) -> UntypedStorage:
        """Return the bytes in the computer's own memory: itself, or a copy."""
        memory: Any = self._bytes
        return UntypedStorage(array=memory.get()) if gpu.is_on_gpu(memory) else self

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """Return a copy of the bytes on a GPU; itself if it is there."""
        where = numbered(Device("cuda" if device is None else device))
        return self if where == self.device else UntypedStorage(array=gpu.sent(self._bytes, where.index))

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """Return the bytes on a device: itself, or a copy."""
        return self.cpu() if Device(device).type == "cpu" else self.cuda(device, non_blocking)

    def pin_memory(self, device: Any = None) -> UntypedStorage:
        """Return a copy in pinned memory; itself if it is."""
        return self if self.is_pinned() else UntypedStorage(array=gpu.pinned(self._bytes))

    def is_pinned(self, device: Any = None) -> bool:
        """Tell whether it is pinned: kept where it is, so that a GPU fetches from it by itself."""
        return gpu.is_pinned(self._bytes)

    def is_shared(self) -> bool:
        """Return False: other processes get copies."""
        return False

    def resize_(self, size: int) -> UntypedStorage:
        """Refuse: memory that tensors look at keeps its size."""
        if size == self.nbytes():
            return self
        raise RuntimeError(
            "storage.resize_: memory keeps its size here; make a new tensor, or write x.resize_(…)"
        )

    def untyped(self) -> UntypedStorage:
        """Return itself."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self.data_ptr() == other.data_ptr()

    __hash__ = object.__hash__


class TypedStorage:
    """Numbers: a storage's memory read as one dtype.

    >>> minitorch.tensor([1.0, 2.0]).storage().tolist()
    [1.0, 2.0]
    """

    def __init__(
        self,
        *args: Any,
        wrap_storage: Any = None,
        dtype: Any = None,
        device: Any = None,
        _internal: bool = False,
    ) -> None:
        self.dtype = np.dtype(np.float32 if dtype is None else dtype)
        if wrap_storage is None:
            wrap_storage = UntypedStorage(array=_numbers(args, self.dtype))
        self._storage = wrap_storage

    @property
    def _array(self) -> np.ndarray:
        return self._storage._bytes.view(self.dtype)

    @property
    def device(self) -> device:
        """Where it lies."""
        return self._storage.device

    def untyped(self) -> UntypedStorage:
        """Return the bytes."""
        return self._storage

    _untyped_storage = property(untyped)

    def size(self) -> int:
        """The number of elements."""
        return int(self._array.size)

    __len__ = size

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._storage.nbytes()

    def element_size(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of its first byte."""
        return self._storage.data_ptr()

    def tolist(self) -> list[Any]:
        """Return the elements as numbers."""
        return self._array.tolist()

    def __getitem__(self, key: Any) -> Any:
        found = self._array[key]
        return found.item() if isinstance(found, np.generic) else found.tolist()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._array[key] = value
        watch.touch(self._storage._whole)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())


def _typed(name: str, dtype: str) -> Any:
    def make(self: Any, *args: Any, wrap_storage: Any = None, **options: Any) -> None:
        TypedStorage.__init__(self, *args, wrap_storage=wrap_storage, dtype=_dtype(dtype))

    # PyTorch's files name these classes.
    return type(
        name, (TypedStorage,), {"__init__": make, "__module__": "torch", "__doc__": f"A storage of {dtype}."}
    )


def _dtype(name: str) -> np.dtype:
    return dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


# By NumPy's names of their numbers.
STORAGES: dict[str, Any] = {
    dtype: _typed(legacy.replace("Tensor", "Storage"), dtype) for dtype, legacy in dtypes.LEGACY_NAMES.items()
}


def _numbers(args: tuple[Any, ...], dtype: Any) -> np.ndarray:
    if args and not isinstance(args[0], int):
        return np.array(args[0], dtype)
    return np.zeros(args[0] if args else 0, dtype)


def storage_of(array: Any) -> UntypedStorage:
    """Return the memory beneath an array: that of the array it is a view of."""
    array = watch.memory_of(array)
    while array.base is not None and type(array.base) is type(array):
        array = array.base
    flat = flattened(array)
    return UntypedStorage(array=array.reshape(-1) if flat is None else flat)  # (of what has gaps a copy)


def tensor_over(storage: Any, dtype: Any, offset: int = 0, size: Any = None, stride: Any = None) -> Any:
    """Return a tensor that looks at a storage: from an element on, of a shape, by steps.

    (On a GPU what is expanded, or windows that overlap, is copied.)
    """
    whole = storage.untyped()._bytes.view(np.dtype(dtype))
    flat = whole[offset:]
    if size is None:
        return new_tensor(flat)
    size = tuple(size)
    steps = (
        tuple(math.prod(size[axis + 1 :]) for axis in range(len(size))) if stride is None else tuple(stride)
    )
    if gpu.device_of(flat) is None:
        return new_tensor(
            np.lib.stride_tricks.as_strided(flat, size, [n * flat.dtype.itemsize for n in steps])
        )
    view = view_by_steps(whole, offset, size, steps)
    if view is None:
        view = whole[places_in_memory(size, steps, offset, like=whole)]
    return new_tensor(view)
