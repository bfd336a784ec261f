"""PyTorch's .pt files, written; and read with their code, if asked. Enters: anything. Leaves: a file PyTorch reads.

A file is a zip: `data.pkl` is a pickle in which tensors are calls of torch._utils._rebuild_tensor_v2 on storages, and
the storages are files of bytes beside it. What needs no code is read by serialization/pytorch.py, which runs none;
`load(…, weights_only=False)` lets Python's own pickle run what the file says, as PyTorch does: for files one trusts.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import zipfile
from collections import OrderedDict
from pickle import UnpicklingError
from typing import IO, Any

import numpy as np

import minitorch
from minitorch import serialization
from minitorch.engine.gpu import on_host
from minitorch.face.names import _utils
from minitorch.nn.parameter import Parameter
from minitorch.ops.shape import flattened
from minitorch.serialization import atomically
from minitorch.serialization.files import place_for
from minitorch.tensor.devices import layout
from minitorch.tensor.storage import STORAGES, TypedStorage, UntypedStorage
from minitorch.tensor.torch_types import dtype

Place = str | os.PathLike[str] | IO[bytes]


class _Memory:
    """A storage to be written once: its number in the file, its bytes, what kind of numbers they are, and where they
    were.
    """

    def __init__(self, key: int, flat: np.ndarray, location: str = "cpu") -> None:
        self.key, self.flat, self.location = str(key), flat, location


class _Pickler(pickle.Pickler):
    """Writes Tensors as PyTorch does; everything else as Python does."""

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol)
        self.memories: dict[
            Any, _Memory
        ] = {}  # by the address of the first byte; on a device by the array that owns them
        self.kept: list[Any] = []

    def persistent_id(self, obj: Any) -> Any:
        """Name a storage by the file its bytes are in."""
        if isinstance(obj, (UntypedStorage, TypedStorage)):
            raw = obj.untyped()._bytes
            obj = self._memory(raw.view(obj.dtype) if isinstance(obj, TypedStorage) else raw)[0]
        if isinstance(obj, _Memory):
            return ("storage", STORAGES[obj.flat.dtype.name], obj.key, obj.location, int(obj.flat.size))
        return None

    def reducer_override(self, obj: Any) -> Any:
        """Say how a Tensor is made anew."""
        if isinstance(obj, Parameter) and type(obj) is Parameter:
            return (_utils._rebuild_parameter, (obj.detach(), obj.requires_grad, OrderedDict()))
        if type(obj) is minitorch.Tensor:
            made: Any
            if not obj.is_leaf:
                obj = obj.detach().requires_grad_(obj.requires_grad)  # PyTorch, too, saves no graph
            if obj.is_sparse:
                made = (obj._indices(), obj._values(), tuple(obj.shape), obj.is_coalesced())
                return (_utils._rebuild_sparse_tensor, (obj.layout, made))
            if obj.is_sparse_csr:
                made = (obj.crow_indices(), obj.col_indices(), obj._values(), tuple(obj.shape))
                return (_utils._rebuild_sparse_tensor, (obj.layout, made))
            memory, offset, array = self._seen(obj)
            steps = tuple(step // array.itemsize for step in array.strides)
            made = (memory, offset, tuple(array.shape), steps, obj.requires_grad, OrderedDict())
            return (_utils._rebuild_tensor_v2, made)
        if isinstance(obj, layout):
            return (_utils._get_layout, (repr(obj),))
        if isinstance(obj, dtype):
            return obj.name  # by its name in torch
        return NotImplemented

    def _seen(self, tensor: Any) -> tuple[_Memory, int, np.ndarray]:
        """Return the memory a Tensor lies in, where it begins there, and its array: a copy, if it lies too oddly."""
        if tensor.is_cuda:
            return self._seen_there(tensor)
        root = array = tensor._data
        while isinstance(root.base, np.ndarray):
            root = root.base
        odd = root.dtype != array.dtype or not (root.flags.c_contiguous or root.flags.f_contiguous)
        if odd or any(step < 0 or step % array.itemsize for step in array.strides):
            root = array = np.ascontiguousarray(array)
        memory, start = self._memory(root.ravel(order="K"))
        return memory, (array.ctypes.data - start) // array.itemsize, array

    def _seen_there(self, tensor: Any) -> tuple[_Memory, int, Any]:
        """Return the same of a Tensor on a GPU: the memory is fetched once for all that look at it."""
        array = root = tensor._data
        while root.base is not None:
            root = root.base
        flat = flattened(root) if root.dtype == array.dtype else None
        if flat is None or any(step < 0 for step in array.strides):
            array = np.asarray(tensor.cpu()._data, order="C")
            root, flat = array, array.reshape(-1)
        key = (str(tensor.device), id(root))
        if key not in self.memories:
            self.memories[key] = _Memory(len(self.memories), on_host(flat), str(tensor.device))
            self.kept.append(root)  # (so that no other gets its id)
        offset = 0 if root is array else int(array.data.ptr - root.data.ptr) // array.itemsize
        return self.memories[key], offset, array

    def _memory(self, flat: np.ndarray) -> tuple[_Memory, int]:
        start = int(flat.ctypes.data)
        if start not in self.memories or not flat.size:
            self.memories[start if flat.size else -len(self.memories) - 1] = made = _Memory(
                len(self.memories), flat
            )
            return made, start
        return self.memories[start], start


def save(
    obj: Any, f: Place, pickle_module: Any = None, pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True, **options: Any,
) -> None:  # fmt: skip
    """Write anything that can be pickled to a file that torch.load reads, PyTorch's own too: whole, or not at all."""
    if not isinstance(f, (str, os.PathLike)):
        _write(obj, f, "archive", pickle_protocol)
        return
    with atomically(f) as file:
        _write(obj, file, os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive", pickle_protocol)


def _write(obj: Any, file: IO[bytes], name: str, protocol: int) -> None:
    program = io.BytesIO()
    pickler = _Pickler(program, protocol)
    pickler.dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{name}/data.pkl", program.getvalue())
        archive.writestr(f"{name}/byteorder", sys.byteorder)
        for memory in pickler.memories.values():
            archive.writestr(f"{name}/data/{memory.key}", memory.flat.view(np.uint8).tobytes())
        archive.writestr(f"{name}/version", "3\n")


class PyTorchFileReader:
    """The records of a .pt file, by name: "data.pkl", "data/0", "version"."""

    def __init__(self, file: Any) -> None:
        self._archive = zipfile.ZipFile(file)
        (program,) = [name for name in self._archive.namelist() if name.split("/")[-1] == "data.pkl"]
        self._folder = program.removesuffix("data.pkl")

    def get_all_records(self) -> list[str]:
        """Return their names."""
        return [name.removeprefix(self._folder) for name in self._archive.namelist()]

    def has_record(self, name: str) -> bool:
        """Tell whether there is one of a name."""
        return f"{self._folder}{name}" in self._archive.namelist()

    def get_record(self, name: str) -> bytes:
        """Return its bytes."""
        return self._archive.read(f"{self._folder}{name}")


class _Unpickler(pickle.Unpickler):
    """Runs a checkpoint's pickle, with storages from the files beside it."""

    def __init__(self, reader: PyTorchFileReader, map_location: Any) -> None:
        super().__init__(io.BytesIO(reader.get_record("data.pkl")))
        self.reader, self.map_location = reader, map_location
        self.storages: dict[str, Any] = {}

    def persistent_load(self, pid: Any) -> Any:
        """Return a storage by its name."""
        _, kind, key, location, _ = pid
        if key not in self.storages:
            raw = np.frombuffer(self.reader.get_record(f"data/{key}"), np.uint8).copy()
            place = str(place_for(self.map_location, location))
            untyped = UntypedStorage(array=raw).to(device=place if place.startswith("cuda") else "cpu")
            typed = isinstance(kind, type) and issubclass(kind, TypedStorage)
            self.storages[key] = kind(wrap_storage=untyped) if typed else untyped
        return self.storages[key]


def load(
    f: Place, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None,
    mmap: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """Read what save wrote, here or in PyTorch, or a .safetensors or .npz file.

    weights_only: without a word, or True, no code of the file is run. False: Python's pickle makes whatever it names.
    """
    try:
        return serialization.load(f, map_location)
    except UnpicklingError:
        if weights_only is not False:
            raise
    if not isinstance(f, (str, os.PathLike)):
        f.seek(0)
    return _Unpickler(PyTorchFileReader(f), map_location).load()
