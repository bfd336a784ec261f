"""Tensors from nothing: zeros, ones, ranges; and from arrays. Enters: shapes, numbers. Leaves: leaves."""

from __future__ import annotations

import contextlib
import ctypes
import math
from typing import Any

import numpy as np

from minitorch.engine import gpu, watch
from minitorch.engine.bfloat16 import meet_bfloat16
from minitorch.engine.complex import meet_complex
from minitorch.engine.dtypes import common_dtype, dtype_of_number, get_default_dtype, int64
from minitorch.engine.meta import Meta
from minitorch.engine.node import Node, new_tensor
from minitorch.ops.op import like_of, order_of, violated
from minitorch.tensor import Tensor, move
from minitorch.tensor.convert import as_array, one_int, shape_of
from minitorch.tensor.convert import as_tensor as shared
from minitorch.tensor.devices import Size, gpu_of, making_on, place_of, preserve_format, strided
from minitorch.tensor.methods.arguments import fill_of
from minitorch.tensor.methods.public import write_out


def _leaf(data: Any, requires_grad: bool, device: Any = None, options: Any = None) -> Tensor:
    """Return a leaf over an array, on a device (None: on the default one)."""
    if data.dtype.kind == "c":
        meet_complex()
    meet_bfloat16(data.dtype)
    out = new_tensor(data)
    where = gpu_of(device)
    if where is not None or (device is not None and not is_host(data)):
        out = move(out, device if where is None else where)
    if options:
        out = laid_out(out, **options)
    return out.requires_grad_() if requires_grad else out


def is_host(data: Any) -> bool:
    """Tell whether an array is NumPy's."""
    return data.__class__ is np.ndarray


def _made_there(where: Any, name: str, shape: Any, *args: Any) -> Any:
    """Return an array that a device makes itself: a GPU by CuPy's function of this name."""
    with making_on(where, f"{name}{tuple(shape)}") as maker:
        return getattr(maker, name)(shape, *args)


def laid_out(
    tensor: Tensor,
    *,
    out: Any = None,
    layout: Any = strided,
    memory_format: Any = None,
    pin_memory: bool = False,
    names: Any = None,
) -> Tensor:
    """Return a new tensor as PyTorch's further words of creation ask for it: in another's place, channels last.

    >>> laid_out(zeros(1, 2, 3, 3), memory_format=minitorch.channels_last).stride()
    (18, 1, 6, 2)
    """
    if layout not in (None, strided):
        raise RuntimeError(f"layout: only {strided!r} can be made here, not {layout!r}")
    if names is not None:
        raise RuntimeError("names: axes have numbers here, no names")
    if memory_format not in (None, preserve_format):
        tensor = tensor.contiguous(memory_format)
    if pin_memory:
        tensor = tensor.pin_memory()
    return tensor if out is None else write_out(tensor, out)


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """Return a leaf with a copy of `data`: numbers, nested lists, arrays, Tensors.

    >>> tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    options = {"pin_memory": True} if pin_memory else None
    return _leaf(as_array(data, dtype, copy=True), requires_grad, device, options)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return `data` as a tensor, itself if it is one, sharing memory with an array where possible.

    >>> as_tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    return move(shared(data, dtype), device if device is not None else gpu_of(None))


def from_numpy(array: Any) -> Tensor:
    """Return a tensor that shares memory with the array.

    >>> a = np.zeros(2); t = from_numpy(a); a[0] = 7.0; t
    tensor([7., 0.], dtype=float64)
    """
    if not isinstance(array, np.ndarray) and not hasattr(array, "__minitorch_op__"):
        raise TypeError(f"from_numpy: expects a NumPy array, got {type(array).__name__}; write tensor(data)")
    return shared(array)


def asarray(
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `data` as a tensor, sharing memory where possible; or never (copy=True), or else not at all (False).

    >>> asarray(np.ones(2))
    tensor([1., 1.], dtype=float64)
    """
    if copy:
        return tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)
    out = move(shared(data, dtype), device if device is not None else gpu_of(None))
    if (
        copy is False
        and out is not data
        and not (hasattr(data, "dtype") and np.shares_memory(out._data, data))
    ):
        raise ValueError(f"asarray: {type(data).__name__} cannot be shared as {out.dtype} without a copy")
    if requires_grad and not out.requires_grad:
        out = (out.detach() if out is data else out).requires_grad_()  # what was passed in stays as it is
    return out


class _Capsule:
    """A bare capsule, as `__dlpack__` gives it, for those who ask an array for it."""

    def __init__(self, capsule: Any) -> None:
        api = ctypes.pythonapi
        api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        name = api.PyCapsule_GetName(capsule)
        if name not in (b"dltensor", b"dltensor_versioned"):
            raise RuntimeError(
                f"from_dlpack: expects a capsule that nobody has used yet, got one named {name!r}"
            )
        # The tensor begins with its address, of 8 bytes, and its device; before it a version, two pointers and flags.
        start = api.PyCapsule_GetPointer(capsule, name) + (32 if name == b"dltensor_versioned" else 0)
        self._device = tuple((ctypes.c_int32 * 2).from_address(start + 8))
        self._capsule, self.says_what_may_be_written = capsule, name == b"dltensor_versioned"

    def __dlpack_device__(self) -> tuple[int, ...]:
        return self._device

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule


class _Writable:
    """An array's memory as memory that may be written to: a capsule of the first version cannot say, NumPy thinks not.

    As PyTorch does: who hands over a capsule shares what is in it.
    """

    def __init__(self, array: np.ndarray) -> None:
        told = array.__array_interface__
        self.__array_interface__ = {**told, "data": (told["data"][0], False)}
        self._held = array


def from_dlpack(source: Any) -> Tensor:
    """Return a tensor over another library's array, without a copy; on a GPU it is ready on the current stream.

    source: an array, or the capsule that its `__dlpack__` gives.

    >>> from_dlpack(np.ones(2))
    tensor([1., 1.], dtype=float64)
    """
    if not hasattr(source, "__dlpack_device__"):
        source = _Capsule(source)
    on_host = source.__dlpack_device__()[0] == 1  # as DLPack numbers the kinds of devices: the CPU
    array = np.from_dlpack(source) if on_host else gpu.library().from_dlpack(source)
    if on_host and isinstance(source, _Capsule) and not source.says_what_may_be_written:
        array = np.asarray(_Writable(array))
    watch.share(array)
    return new_tensor(array)


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """Return a tensor of one value everywhere.

    >>> full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])
    """
    value = _number(fill_value, "full")
    chosen = dtype_of_number(value) if dtype is None else np.dtype(dtype)
    shape = _lengths((size,), None, "full")
    filled = fill_of(value, chosen, "full")
    if (where := gpu_of(device)) is not None:
        return _leaf(_made_there(where, "full", shape, filled, chosen), requires_grad, where, options)
    if (like := like_of((*shape, value))) is not None:
        return _leaf(np.full_like(like, filled, dtype=chosen, shape=shape), requires_grad, device, options)
    return _leaf(np.full(shape, filled, dtype=chosen), requires_grad, device, options)


def _number(value: Any, name: str) -> Any:
    """Return a Python number, also of a tensor or a NumPy scalar that holds one."""
    number = value.item() if isinstance(value, (Node, np.generic)) else value  # type: ignore[union-attr]
    if not isinstance(number, (int, float, complex)):
        raise TypeError(f"{name}: expected a number, got {value!r}")
    return number


def _lengths(given: tuple[Any, ...], keyword: Any, name: str) -> tuple[int, ...]:
    shape = shape_of(given, keyword, name)
    if any(n < 0 for n in shape):
        raise RuntimeError(f"{name}: a length must not be negative, got {shape}")
    return shape


def _made(
    make: Any, sizes: tuple[Any, ...], size: Any, dtype: Any, device: Any, requires_grad: bool, options: Any
) -> Tensor:
    chosen = get_default_dtype() if dtype is None else np.dtype(dtype)
    shape = _lengths(sizes, size, make.__name__)
    if (where := gpu_of(device)) is not None:
        return _leaf(_made_there(where, make.__name__, shape, chosen), requires_grad, where, options)
    if (like := like_of(shape)) is not None:
        return _leaf(_LIKE[make](like, dtype=chosen, shape=shape), requires_grad, device, options)
    return _leaf(make(shape, chosen), requires_grad, device, options)


_LIKE: dict[Any, Any] = {np.zeros: np.zeros_like, np.ones: np.ones_like, np.empty: np.empty_like}


def zeros(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """Return zeros.

    >>> zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return _made(np.zeros, sizes, size, dtype, device, requires_grad, options)


def ones(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """Return ones.

    >>> ones(2)
    tensor([1., 1.])
    """
    return _made(np.ones, sizes, size, dtype, device, requires_grad, options)


def empty(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """Return a tensor whose values are whatever was in memory.

    >>> empty(2, 3).shape
    (2, 3)
    """
    return _made(np.empty, sizes, size, dtype, device, requires_grad, options)


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """Return ones on the diagonal, zeros elsewhere.

    >>> eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    chosen = get_default_dtype() if dtype is None else np.dtype(dtype)
    rows, columns = _lengths((n, n if m is None else m), None, "eye")
    if (like := like_of((rows, columns))) is not None:
        is_on_it = np.arange(rows, like=like)[:, None] == np.arange(columns, like=like)
        return _leaf(is_on_it.astype(chosen), requires_grad, device, options)
    return _leaf(np.eye(rows, columns, dtype=chosen), requires_grad, device, options)


def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """Return start, start + step, … below end; from 0 if only one number is given.

    >>> arange(5)
    tensor([0, 1, 2, 3, 4])
    >>> arange(1, 2, 0.5)
    tensor([1.0000, 1.5000])
    """
    if end is None:
        start, end = None, start
    first, last, by = (_number(n, "arange") for n in (0 if start is None else start, end, step))
    whole = first.__class__ is last.__class__ is by.__class__ is int
    if not whole and not all(math.isfinite(n) for n in (first, last, by)):
        raise RuntimeError(f"arange: from {first} to {last} in steps of {by} never ends")
    chosen = common_dtype(first, last, by) if dtype is None else np.dtype(dtype)
    if chosen == int64 and not whole:  # counted in whole numbers; the other dtypes count first and cut then
        first, last, by = int(first), int(last), int(by)
    if by == 0 or (last - first) * by < 0:
        raise RuntimeError(f"arange: {first} to {last} cannot be reached in steps of {by}")
    count = -((first - last) // by) if chosen == int64 or whole else math.ceil((last - first) / by)
    if chosen.kind in "iu" and not whole:
        first, by = int(first), int(by)
    like = like_of((count, first, by))
    steps = np.arange(count, dtype=int64 if chosen.kind in "iu" else np.float64, like=like)
    return _leaf((first + by * steps).astype(chosen), requires_grad, device, options)


def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """Return evenly spaced numbers, both ends included.

    >>> linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    chosen = get_default_dtype() if dtype is None else np.dtype(dtype)
    return _leaf(
        _spaced(start, end, steps, chosen, "linspace").astype(chosen), requires_grad, device, options
    )


def _spaced(start: Any, end: Any, steps: Any, dtype: np.dtype, name: str) -> np.ndarray:
    if one_int(steps, name, "steps") < 0:
        raise RuntimeError(f"{name}: the number of steps must not be negative, got {steps}")
    first, last = _number(start, name), _number(end, name)
    if dtype.kind in "iu":  # whole ends, as in PyTorch; what lies between is cut
        first, last = int(first), int(last)
    return np.linspace(float(first), float(last), int(steps))


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """Return base**start … base**end, evenly spaced exponents.

    >>> logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    chosen = get_default_dtype() if dtype is None else np.dtype(dtype)
    return _leaf(
        (base ** _spaced(start, end, steps, chosen, "logspace")).astype(chosen),
        requires_grad,
        device,
        options,
    )


def _alike(
    make: Any, like: Any, value: tuple[Any, ...], dtype: Any, device: Any, requires_grad: bool, options: Any
) -> Tensor:
    """Return a new tensor like an array: where it lies, if no other device is given."""
    if like.__class__ is Meta and device is not None:  # whose shape alone is meant
        like = np.broadcast_to(np.zeros((), like.dtype), like.shape)
        data = make(like, *value, dtype=dtype, order="C")
        return _leaf(data, requires_grad, device, options)
    on_gpu = gpu.is_on_gpu(like)
    with gpu.working_on(like.device.id, make.__name__) if on_gpu else contextlib.nullcontext():
        data = make(like, *value, dtype=dtype, order=order_of(like))
    return _leaf(data, requires_grad, place_of(like) if device is None else device, options)


def zeros_like(
    input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **options: Any
) -> Tensor:
    """Return zeros of a tensor's shape, dtype and device.

    >>> zeros_like(tensor([1.0, 2.0]))
    tensor([0., 0.])
    """
    return _alike(np.zeros_like, shared(input)._data, (), dtype, device, requires_grad, options)


def ones_like(
    input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **options: Any
) -> Tensor:
    """Return ones of a tensor's shape, dtype and device.

    >>> ones_like(tensor([1.0, 2.0]))
    tensor([1., 1.])
    """
    return _alike(np.ones_like, shared(input)._data, (), dtype, device, requires_grad, options)


def empty_like(
    input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **options: Any
) -> Tensor:
    """Return an uninitialised tensor of a tensor's shape, dtype and device.

    >>> empty_like(tensor([1.0, 2.0])).shape
    (2,)
    """
    return _alike(np.empty_like, shared(input)._data, (), dtype, device, requires_grad, options)


def full_like(
    input: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """Return one value everywhere, in a tensor's shape, dtype and device.

    >>> full_like(tensor([1.0, 2.0]), 7)
    tensor([7., 7.])
    """
    like = shared(input)._data
    chosen = like.dtype if dtype is None else np.dtype(dtype)
    value = fill_of(_number(fill_value, "full_like"), chosen, "full_like")
    return _alike(np.full_like, like, (value,), chosen, device, requires_grad, options)


def one_hot(labels: Any, num_classes: int = -1) -> Tensor:
    """Return a new last axis with a 1 at each label and 0 elsewhere.

    >>> one_hot(tensor([0, 4, 2]), num_classes=5)           # tenses
    tensor([[1, 0, 0, 0, 0],
            [0, 0, 0, 0, 1],
            [0, 0, 1, 0, 0]])
    """
    values = shared(labels)._data
    if values.dtype != int64:
        raise RuntimeError(f"one_hot: labels must be int64, got {values.dtype}; write labels.long()")
    num_classes = one_int(num_classes, "one_hot", "num_classes")
    if values.size == 0 and num_classes <= 0:
        raise RuntimeError("one_hot: give num_classes: it cannot be inferred from no labels")
    count = int(values.max()) + 1 if num_classes == -1 else num_classes
    if values.size and violated((values.min() < 0) | (values.max() >= count)):
        raise RuntimeError(f"one_hot: labels must be from 0 to num_classes - 1 = {count - 1}")
    return new_tensor((values[..., None] == np.arange(count, like=values)).astype(np.int64))


class _Legacy(type):
    """The kind of FloatTensor and its like: called they make tensors, asked they tell dtypes."""

    legacy_dtype: Any

    def __call__(cls, *args: Any) -> Tensor:
        """Make a tensor from data, or of a shape: FloatTensor([1, 2]), FloatTensor(2, 3)."""
        if not args or all(isinstance(n, int) for n in args):
            return zeros(*args or (0,), dtype=cls.legacy_dtype)
        (data,) = args
        if isinstance(data, Size):
            return zeros(data, dtype=cls.legacy_dtype)
        return tensor(data, dtype=cls.legacy_dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype == cls.legacy_dtype


def _legacy(name: str, dtype: Any) -> Any:
    return _Legacy(
        name, (), {"legacy_dtype": np.dtype(dtype), "__doc__": f"PyTorch's old way to make {dtype}."}
    )


FloatTensor = _legacy("FloatTensor", "float32")
DoubleTensor = _legacy("DoubleTensor", "float64")
HalfTensor = _legacy("HalfTensor", "float16")
LongTensor = _legacy("LongTensor", "int64")
IntTensor = _legacy("IntTensor", "int32")
ShortTensor = _legacy("ShortTensor", "int16")
ByteTensor = _legacy("ByteTensor", "uint8")
CharTensor = _legacy("CharTensor", "int8")
BoolTensor = _legacy("BoolTensor", "bool")


def scalar_tensor(
    value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a number as a tensor of no axes, of the default dtype.

    >>> scalar_tensor(3)
    tensor(3.)
    """
    chosen = get_default_dtype() if dtype is None else dtype
    return tensor(_number(value, "scalar_tensor"), dtype=chosen, device=device, requires_grad=requires_grad)


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Return a tensor over the bytes of an object, without a copy.

    >>> frombuffer(bytearray(b"abc"), dtype=np.uint8)
    tensor([97, 98, 99], dtype=uint8)
    """
    out = from_numpy(np.frombuffer(buffer, np.dtype(dtype), count, offset))
    return out.requires_grad_() if requires_grad else out


__all__ = [
    "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor",
    "LongTensor", "ShortTensor", "arange", "as_tensor", "asarray", "empty", "empty_like", "eye",
    "from_dlpack", "from_numpy", "frombuffer", "full", "full_like", "linspace", "logspace", "one_hot",
    "ones", "ones_like", "scalar_tensor", "tensor", "zeros", "zeros_like",
]  # fmt: skip
