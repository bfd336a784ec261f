"""A stand-in for a GPU array: speaks NumPy's protocols, and refuses to mix with host arrays.

CI has no GPU. An op that mixes a host array into a device computation fails here, on any laptop.
"""

import math
from types import SimpleNamespace

import numpy as np

from minitorch.func.batched import Batched
from minitorch.ops.sparse import Coo

UNKNOWN = (Batched, Coo)  # arrays of others' kinds, that they themselves compute with


def aligned_empty(shape, dtype):
    """Memory that begins where a GPU's does: at a multiple of 16."""
    dtype = np.dtype(dtype)
    room = np.empty(math.prod(shape) * dtype.itemsize + 16, np.uint8)
    start = -room.ctypes.data % 16
    return room[start : room.size - 16 + start].view(dtype).reshape(shape)


class DeviceArray:
    """An array on a device that does not exist."""

    made_on = None  # the device that is in use, where there are several (standin_cupy.py)

    def __init__(self, host):
        self.host = host if isinstance(host, np.ndarray) else np.asarray(host)
        self.device = type(self).made_on
        self.base = None  # the array on the device that this one is a view of

    def _init(self, shape, dtype):  # what CuPy calls it, too
        self.__init__(aligned_empty(shape, dtype))

    def get(self):
        return self.host.copy()

    @property
    def data(self):
        return SimpleNamespace(ptr=self.host.ctypes.data)

    @property
    def _c_contiguous(self):  # what CuPy calls it
        return self.host.flags.c_contiguous

    def __dlpack__(self, **options):
        return self.host.__dlpack__(max_version=(1, 0))

    def __dlpack_device__(self):
        return (2, 0 if self.device is None else self.device.id)  # CUDA's number

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if any(isinstance(each, UNKNOWN) for each in inputs):
            return NotImplemented  # as CuPy leaves what it does not know to itself
        options = {k: to_host(v) for k, v in kwargs.items()}  # out= among them, where there is one
        return to_device(getattr(ufunc, method)(*map(to_host, inputs), **options))

    def __array_function__(self, function, types, args, kwargs):
        if any(issubclass(each, UNKNOWN) for each in types):
            return NotImplemented
        if function is np.asarray:  # (like=: which is how a host array is brought there)
            given, *others = args
            given = given.host if isinstance(given, DeviceArray) else given
            return to_device(function(given, *others, **kwargs).copy())
        if (
            function is np.lib.stride_tricks.sliding_window_view
        ):  # CuPy's does not tell whose memory it looks at
            return DeviceArray(function(*map(to_host, args), **kwargs, writeable=True))
        found = to_device(function(*map(to_host, args), **{k: to_host(v) for k, v in kwargs.items()}))
        of = next((each for each in args if isinstance(each, DeviceArray)), None)
        return found if of is None or not isinstance(found, DeviceArray) else of.seeing(found)

    def __array__(self, *args, **kwargs):
        raise TypeError("implicit conversion to a host array")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.host, name)
        if callable(found):
            return lambda *a, **k: self.beside(
                found(*map(to_host, a), **{n: to_host(v) for n, v in k.items()})
            )
        return self.beside(found) if name in ("T", "mT", "real", "imag") else found

    def __getitem__(self, key):
        found = self.host[to_host(key)]
        if isinstance(found, np.ndarray) and not np.may_share_memory(found, self.host):
            found = np.asarray(
                found, order="C"
            )  # (NumPy leaves what it gathers in orders of its own, CuPy does not)
        return self.beside(found)

    def beside(self, value):
        """On the device; a view where what it views is, anything new on the one in use."""
        made = to_device(value)
        if isinstance(made, DeviceArray):
            return self.seeing(made)
        return [self.seeing(each) for each in made] if isinstance(made, list) else made

    def seeing(self, other):
        """The other one, as a view if it is one."""
        if (
            other is not self
            and isinstance(other, DeviceArray)
            and np.may_share_memory(other.host, self.host)
        ):
            other.device, other.base = self.device, self if self.base is None else self.base
        return other

    def __setitem__(self, key, value):
        self.host[to_host(key)] = to_host(value)

    def scatter_add(self, key, updates):
        np.add.at(self.host, to_host(key), to_host(updates))

    def __len__(self):
        return len(self.host)

    def __bool__(self):
        return bool(self.host)

    def __index__(self):
        return self.host.__index__()

    def __float__(self):
        return float(self.host)


def _operator(name):
    def method(self, *others):
        if any(isinstance(each, UNKNOWN) for each in others):
            return NotImplemented
        return to_device(getattr(self.host, name)(*map(to_host, others)))

    return method


for _name in [
    "add",
    "radd",
    "sub",
    "rsub",
    "mul",
    "rmul",
    "truediv",
    "rtruediv",
    "floordiv",
    "rfloordiv",
    "mod",
    "rmod",
    "pow",
    "rpow",
    "matmul",
    "rmatmul",
    "and",
    "or",
    "xor",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "neg",
    "invert",
    "abs",
    "iadd",
    "isub",
    "imul",
]:
    setattr(DeviceArray, f"__{_name}__", _operator(f"__{_name}__"))
DeviceArray.__hash__ = object.__hash__


def to_host(value):
    """What the device computes with; a host array among it is a mistake."""
    if isinstance(value, DeviceArray):
        return value.host
    if isinstance(value, np.ndarray | np.generic):
        raise TypeError(f"a host array of shape {value.shape} was mixed with device arrays")
    if isinstance(value, tuple | list):
        return type(value)(to_host(v) for v in value)
    return value


def to_device(value):
    """Results stay on the device; NumPy scalars are 0-d arrays there."""
    if isinstance(value, np.ndarray | np.generic):
        return DeviceArray(np.asarray(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(to_device, value))
    if isinstance(value, tuple | list):
        return type(value)(to_device(v) for v in value)
    return value
