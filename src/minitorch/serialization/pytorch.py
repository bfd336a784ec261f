"""PyTorch's own checkpoints (.pt, .pth, torch.save), read without PyTorch and without running pickle.

Enters: the zip file torch.save wrote. Leaves: the containers, numbers and Tensors in it. Inside is a
pickle, a program for a small stack machine whose instructions can call any Python function: that is
why unpickling a stranger's file is dangerous. Here is another machine for the same programs. It knows
the instructions that build containers, and five things it may call, all below. It has no way to
import anything.
"""

from __future__ import annotations

import math
import pickletools
import zipfile
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any, Literal

import numpy as np

from minitorch.engine.node import new_tensor
from minitorch.functions import sparse_coo_tensor, sparse_csr_tensor
from minitorch.nn.parameter import Parameter
from minitorch.serialization.nest import of_bfloat16
from minitorch.tensor import Tensor
from minitorch.tensor.storage import UntypedStorage, tensor_over

STORAGES = {
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
    "ComplexFloatStorage": "c8",
    "ComplexDoubleStorage": "c16",
}
Order = Literal["<", ">"]

# Newer dtypes come as bytes without a type, and the tensor names its dtype itself.
UNTYPED = {"uint16": "u2", "uint32": "u4", "uint64": "u8"}

# A view may repeat its storage (expand does); one that claims more than this is no honest tensor.
MOST_REPEATED = 2**28


class _Mark:
    """The bottom of a group of values on the stack."""


class _Allowed:
    """Something the pickle named and may use. It has no attributes that a program could change."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class _Storage:
    """A flat run of elements that several tensors may look at."""

    __slots__ = ("array", "location", "there")

    def __init__(self, array: np.ndarray, location: str) -> None:
        self.array = array
        self.location = location  # the device it was saved from
        self.there: dict[Any, UntypedStorage] = {}  # its copies on devices

    def sent(self, device: Any) -> UntypedStorage:
        """Return its copy on a GPU: one, at which several tensors look."""
        if device not in self.there:
            self.there[device] = UntypedStorage(array=self.array).to(device=device)
        return self.there[device]


MARK = _Mark()
CALLABLE = {
    "collections.OrderedDict",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_sparse_tensor",
    "torch.serialization._get_layout",
    "torch.Size",
}
NAMEABLE = {
    *CALLABLE,
    *(f"torch.{name}" for name in STORAGES),
    *(f"torch.{name}" for name in UNTYPED),
    "torch.storage.UntypedStorage",
}


def is_checkpoint(archive: zipfile.ZipFile) -> bool:
    """Tell a file that torch.save wrote by the pickle inside."""
    return any(name.split("/")[-1] == "data.pkl" for name in archive.namelist())


def read(archive: zipfile.ZipFile, place: Callable[[str], Any] = lambda location: "cpu") -> tuple[Any, int]:
    """Read a checkpoint; return it and how many storages were bfloat16 and are float32 now.

    place: the device for Tensors, by the name of the one they were saved from.
    """
    names = [name for name in archive.namelist() if name.split("/")[-1] == "data.pkl"]
    if len(names) != 1:
        raise RuntimeError(f"it has {len(names)} pickles where a checkpoint has one")
    folder = names[0].removesuffix("data.pkl")
    for entry in archive.infolist():
        if entry.compress_type != zipfile.ZIP_STORED:
            raise RuntimeError(f"its entry {entry.filename!r} is compressed, which torch.save never does")
    order: Order = "<"
    if f"{folder}byteorder" in archive.namelist():
        order = ">" if archive.read(f"{folder}byteorder") == b"big" else "<"
    machine = _Machine(archive, folder, order, place)
    return machine.run(archive.read(names[0])), machine.widened


class _Machine:
    """The stack machine: instructions in, one value out."""

    def __init__(
        self, archive: zipfile.ZipFile, folder: str, order: Order, place: Callable[[str], Any]
    ) -> None:
        self.archive = archive
        self.folder = folder
        self.order = order
        self.place = place
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.storages: dict[str, _Storage] = {}
        self.widened = 0

    def run(self, program: bytes) -> Any:
        """Follow a pickle to its end and return what it built."""
        # genops only cuts bytes into instructions; it carries out none.
        for instruction, argument, _ in pickletools.genops(program):
            if instruction.name == "STOP":
                if len(self.stack) != 1:
                    raise RuntimeError("its pickle ends with other than one value")
                return _only_plain(self.pop())
            self.step(instruction.name, argument)
        raise RuntimeError("its pickle does not end")

    def step(self, name: str, argument: Any) -> None:
        """Carry out one instruction."""
        push = self.stack.append
        match name:
            case "PROTO" | "FRAME":
                pass
            case "NONE":
                push(None)
            case "NEWTRUE":
                push(True)
            case "NEWFALSE":
                push(False)
            case "INT" | "BININT" | "BININT1" | "BININT2" | "LONG" | "LONG1" | "LONG4" | "FLOAT" | "BINFLOAT":
                push(argument)
            case "UNICODE" | "BINUNICODE" | "SHORT_BINUNICODE" | "BINUNICODE8":
                push(argument)
            case "EMPTY_DICT":
                push({})
            case "EMPTY_LIST":
                push([])
            case "EMPTY_TUPLE":
                push(())
            case "MARK":
                push(MARK)
            case "TUPLE":
                push(tuple(self.group()))
            case "LIST":
                push(self.group())
            case "DICT":
                push(_pairs(self.group()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(name[-1])
                push(tuple(reversed([self.pop() for _ in range(count)])))
            case "APPEND":
                value = self.pop()
                self.top(list).append(value)
            case "APPENDS":
                values = self.group()
                self.top(list).extend(values)
            case "SETITEM":
                value, key = self.pop(), self.pop()
                self.top(dict)[key] = value
            case "SETITEMS":
                values = self.group()
                self.top(dict).update(_pairs(values))
            case "BINPUT" | "LONG_BINPUT" | "PUT":
                self.memo[argument] = self.top(object)
            case "MEMOIZE":
                self.memo[len(self.memo)] = self.top(object)
            case "BINGET" | "LONG_BINGET" | "GET":
                push(self.memo[argument])
            case "GLOBAL":
                push(self.named(".".join(argument.split(" "))))
            case "STACK_GLOBAL":
                attribute, module = self.pop(), self.pop()
                push(self.named(f"{module}.{attribute}"))
            case "BINPERSID":
                push(self.storage(self.pop()))
            case "REDUCE":
                arguments, called = self.pop(), self.pop()
                push(self.call(called, arguments))
            case "BUILD":
                # torch gives a state dict's OrderedDict the attribute _metadata: module versions. Dropped.
                self.pop()
                if type(self.top(object)) is not dict:
                    raise UnpicklingError("load: the file wants to set attributes of an object; refused")
            case _:
                raise UnpicklingError(
                    f"load: the file's pickle uses {name}, which a state dict does not; refused"
                )

    def pop(self) -> Any:
        """Take the topmost value."""
        if not self.stack or self.stack[-1] is MARK:
            raise RuntimeError("its pickle takes a value that is not there")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        """Look at the topmost value, which must be of this kind."""
        if not self.stack or self.stack[-1] is MARK or not isinstance(self.stack[-1], kind):
            raise RuntimeError(f"its pickle has no {kind.__name__} where it fills one")
        return self.stack[-1]

    def group(self) -> list[Any]:
        """Take all values down to the last mark."""
        values = []
        while self.stack and self.stack[-1] is not MARK:
            values.append(self.stack.pop())
        if not self.stack:
            raise RuntimeError("its pickle closes a group that was not opened")
        self.stack.pop()
        return values[::-1]

    def named(self, name: str) -> _Allowed:
        """Stand in for a Python object that the pickle names, if it is on the list."""
        if name not in NAMEABLE:
            raise UnpicklingError(
                f"load: the file wants {name}, which a checkpoint of Tensors, numbers and containers does not need; "
                "refused, and nothing was run. If you trust the file, load it with PyTorch and save its state_dict()"
            )
        return _Allowed(name)

    def storage(self, description: Any) -> _Storage:
        """Read the elements that a persistent id describes: ('storage', kind, key, device, count)."""
        if not isinstance(description, tuple) or len(description) != 5 or description[0] != "storage":
            raise RuntimeError("its pickle describes a storage in an unknown way")
        _, kind, key, location, count = description
        if not isinstance(kind, _Allowed) or not isinstance(key, str) or type(count) is not int:
            raise RuntimeError("its pickle describes a storage in an unknown way")
        if key in self.storages:
            return self.storages[key]
        code = STORAGES.get(kind.name.removeprefix("torch."), "u1")
        bfloat16 = code == "bfloat16"
        dtype = np.dtype("u2" if bfloat16 else code).newbyteorder(self.order)
        raw = self.archive.read(f"{self.folder}data/{key}")
        if len(raw) != count * dtype.itemsize:
            raise RuntimeError(
                f"its storage {key!r} claims {count:,} elements of {dtype}, but has {len(raw):,} bytes"
            )
        array = np.frombuffer(raw, dtype).astype(dtype.newbyteorder("="))
        if bfloat16:
            array = of_bfloat16(array)
            self.widened += array.dtype == np.float32
        self.storages[key] = _Storage(array, str(location))
        return self.storages[key]

    def placed(self, tensor: Tensor, storage: _Storage, offset: int | None = None) -> Tensor:
        """Return a Tensor where it shall be. offset: where in its storage it begins, if its dtype is the storage's."""
        device = self.place(storage.location)
        if device == "cpu":
            return tensor
        if offset is None or not str(device).startswith("cuda") or not tensor.numel():
            made = tensor.detach().to(device)
        else:
            made = tensor_over(
                storage.sent(device), tensor._array.dtype, offset, tensor.shape, tensor.stride()
            )
        return made.requires_grad_(tensor.requires_grad)

    def call(self, called: Any, arguments: Any) -> Any:
        """Carry out one of the few calls a checkpoint needs."""
        if (
            not isinstance(called, _Allowed)
            or called.name not in CALLABLE
            or not isinstance(arguments, tuple)
        ):
            what = called.name if isinstance(called, _Allowed) else f"a {type(called).__name__}"
            raise UnpicklingError(f"load: the file wants to call {what}; refused, and nothing was run")
        match called.name.split(".")[-1], arguments:
            case "OrderedDict", ():
                return {}
            case "OrderedDict", ([*pairs],):
                return dict(pairs)
            case "Size", ([*sizes] | (*sizes,),):
                return tuple(sizes)
            case "_rebuild_parameter", (Tensor() as data, bool() as requires_grad, _):
                return Parameter(data, requires_grad=requires_grad)
            case "_rebuild_tensor_v2", (_Storage() as storage, offset, size, stride, bool() as flag, *_):
                return self.placed(_tensor(storage.array, offset, size, stride, flag), storage, offset)
            case "_get_layout", ("torch.sparse_coo" | "torch.sparse_csr" as name,):
                return name
            case "_rebuild_sparse_tensor", (
                "torch.sparse_coo",
                (Tensor() as indices, Tensor() as values, size, *rest),
            ):
                return sparse_coo_tensor(indices, values, size, is_coalesced=bool(rest and rest[0]))
            case "_rebuild_sparse_tensor", (
                "torch.sparse_csr",
                (Tensor() as crow, Tensor() as columns, Tensor() as values, size),
            ):
                return sparse_csr_tensor(crow, columns, values, size)
            case "_rebuild_tensor_v3", (
                _Storage() as storage,
                offset,
                size,
                stride,
                flag,
                _,
                _Allowed() as dtype,
                *_,
            ):
                code = UNTYPED.get(dtype.name.removeprefix("torch."))
                if code is None or storage.array.dtype != np.uint8:
                    raise RuntimeError(f"its pickle has a tensor of {dtype.name}, which NumPy does not have")
                kind = np.dtype(code).newbyteorder(self.order)
                array = storage.array.view(kind).astype(kind.newbyteorder("="))
                return self.placed(_tensor(array, offset, size, stride, bool(flag)), storage)
        raise RuntimeError(f"its pickle calls {called.name} with arguments it does not take")


def _pairs(values: list[Any]) -> dict[Any, Any]:
    if len(values) % 2:
        raise RuntimeError("its pickle fills a dict with a key that has no value")
    return dict(zip(values[::2], values[1::2], strict=True))


def _only_plain(nest: Any) -> Any:
    """Let through a finished nest; a storage or a name may not be left inside."""
    waiting, seen = [nest], set()
    while waiting:  # a loop, and each container once: a nest may be deep, and share its parts
        value = waiting.pop()
        if isinstance(value, (_Allowed, _Storage, _Mark)):
            what = value.name if isinstance(value, _Allowed) else "a bare storage"
            raise UnpicklingError(
                f"load: the file has {what} as a value, not only Tensors and numbers; refused"
            )
        if id(value) in seen:
            continue
        if isinstance(value, dict):
            seen.add(id(value))
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, (list, tuple)):
            seen.add(id(value))
            waiting += value
    return nest


def _tensor(storage: np.ndarray, offset: Any, size: Any, stride: Any, requires_grad: bool) -> Tensor:
    """Look at a storage with a shape and strides, never past its end."""
    numbers = (offset, *size, *stride)
    if len(size) != len(stride) or not all(type(n) is int and 0 <= n < 2**62 for n in numbers):
        raise RuntimeError(f"its pickle has a tensor of size {size}, stride {stride}, offset {offset}")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    empty = 0 in size
    if not empty and last >= len(storage):
        raise RuntimeError(
            f"its pickle has a tensor of size {size} and stride {stride} at {offset}, but its storage has only "
            f"{len(storage):,} elements"
        )
    if not empty and math.prod(size) > max(len(storage), MOST_REPEATED):
        raise RuntimeError(
            f"its pickle has a tensor of size {size} that repeats a storage of {len(storage):,} elements; not read"
        )
    if empty:
        array = np.empty(size, storage.dtype)
    else:
        steps = tuple(step * storage.itemsize for step in stride)
        array = np.lib.stride_tricks.as_strided(storage[offset:], size, steps)
    # Not copied: tensors that shared memory when saved share it again.
    tensor = new_tensor(array)
    return tensor.requires_grad_() if requires_grad else tensor
