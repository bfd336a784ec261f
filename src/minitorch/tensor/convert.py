"""Anything a person may pass in place of a Tensor, made one; and operands brought to one dtype.

Enters: numbers, lists, arrays, Tensors. Leaves: arrays and Tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine import gpu, watch
from minitorch.engine.bfloat16 import meet_bfloat16
from minitorch.engine.complex import meet_complex
from minitorch.engine.dtypes import (
    DType,
    common_dtype,
    dtype_of_number,
    get_default_dtype,
    kind_of,
    promote_types,
)
from minitorch.engine.errors import MixedDevices
from minitorch.engine.fast import apply_binary, apply_to_number_and_tensor, apply_to_tensor_and_number
from minitorch.engine.meta import Meta
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import apply
from minitorch.ops.arithmetic import SUB
from minitorch.ops.op import Op, like_of
from minitorch.ops.rounding import CAST, TO_INT
from minitorch.tensor.plain import taken_back

if TYPE_CHECKING:
    from minitorch.tensor import Tensor

Number = (int, float, complex, np.number, np.bool_)
_REAL = (float, int)


def is_array(value: Any) -> bool:
    """Tell whether `value` is an array of some kind (NumPy's, a GPU's), not a Tensor or a number."""
    return hasattr(value, "__array_function__") and not isinstance(value, (Node, np.generic))


def _leaves(data: Any) -> Iterator[Any]:
    if isinstance(data, (list, tuple)):
        for item in data:
            yield from _leaves(item)
    else:
        yield data


def _kinds(data: Any) -> set[type]:
    """Return the types of the leaves; a list of numbers is looked through at C's speed."""
    if not isinstance(data, (list, tuple)):
        return {type(data)}
    kinds = set(map(type, data))
    if any(issubclass(kind, (list, tuple)) for kind in kinds):
        kinds = set().union(*map(_kinds, data))
    return kinds


def _unwrap(data: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return [_unwrap(item) for item in data]
    array = data._data if isinstance(data, Node) else data
    return gpu.on_host(array) if gpu.is_on_gpu(array) else array


_PYTHONS_NUMBERS = {bool, int, float, complex}


def _common_dtype(data: Any, kinds: set[type]) -> DType | None:
    """Return the dtype of nested numbers, by PyTorch's rules; None where there are none."""
    if kinds <= _PYTHONS_NUMBERS:
        # The common case. Python floats become the default dtype, not NumPy's float64.
        example = 0j if complex in kinds else 0.0 if float in kinds or not kinds else 0
        return np.dtype(bool) if kinds == {bool} else dtype_of_number(example)
    found = None
    for leaf in _leaves(data):
        dtype = getattr(leaf._data if isinstance(leaf, Node) else leaf, "dtype", None)
        if dtype is None and isinstance(leaf, (int, float, complex)):
            dtype = dtype_of_number(leaf)
        if dtype is None or kind_of(dtype) not in "biufc":
            return None
        found = dtype if found is None else promote_types(found, dtype)
    return found


def _wrapped(data: Any, dtype: DType) -> np.ndarray:
    """Return integers that are too large for their dtype's C type: -1 among unsigned ones is the last."""
    array = np.array(_unwrap(data), dtype=object)
    limits = np.iinfo(dtype)
    if dtype.kind != "u" or any(not -limits.max <= n <= limits.max for n in array.flat):
        raise RuntimeError(f"tensor: a number in {data!r} does not fit {dtype}; choose a larger dtype")
    return np.array([int(n) % (limits.max + 1) for n in array.flat], dtype).reshape(array.shape)


def as_array(data: Any, dtype: Any = None, copy: bool = False) -> Any:
    """Return `data` as an array: NumPy arrays keep their dtype, Python floats take the default one."""
    array = _as_array(data, dtype, copy)
    if array.dtype.kind == "c":
        meet_complex()
    meet_bfloat16(array.dtype)
    return array


def _as_array(data: Any, dtype: Any, copy: bool) -> Any:
    if isinstance(data, Node):
        data = data._data
    if is_array(data):
        # A matrix's `*` is no elementwise product: no subclasses inside, but arrays on 'meta'.
        if data.__class__ is not Meta:
            data = np.asarray(data) if isinstance(data, np.ndarray) else taken_back(data)
        wanted = data.dtype if dtype is None else np.dtype(dtype)
        if kind_of(wanted) not in "biufc":
            raise TypeError(
                f"tensor: a {data.dtype} array holds no numbers; convert it to a numeric dtype first"
            )
        if wanted.byteorder not in "=|":
            wanted = wanted.newbyteorder("=")
        if wanted == data.dtype:
            return data.astype(wanted, copy=copy)
        with np.errstate(all="ignore"):  # nan has no integer, 1e300 no float32: quietly, as in PyTorch
            return data.astype(wanted)
    kinds = _kinds(data)
    if not kinds <= _PYTHONS_NUMBERS and (like := like_of(_leaves(data))) is not None:
        wanted = _common_dtype(data, kinds) if dtype is None else dtype
        return np.array(data, dtype=wanted, like=like)
    if dtype is None and not hasattr(data, "__array__"):
        dtype = _common_dtype(data, kinds)
    try:
        with np.errstate(all="ignore"):
            array = np.array(data if kinds <= _PYTHONS_NUMBERS else _unwrap(data), dtype=dtype)
    except OverflowError:
        return _wrapped(data, np.dtype(dtype))
    except ValueError as error:
        if "NaN" in str(error):
            raise RuntimeError(f"tensor: {data!r} has no value in {np.dtype(dtype)}") from None
        raise ValueError(f"tensor: {error}; every nested list must have the same length") from None
    if kind_of(array.dtype) not in "biufc":
        raise TypeError(f"tensor: cannot make one from {type(data).__name__} (NumPy makes it {array.dtype})")
    return array


def as_tensor(data: Any, dtype: Any = None) -> Tensor:
    """Return `data` as a Tensor, sharing memory with an array where possible.

    >>> as_tensor(2.5)
    tensor(2.5000)
    """
    if isinstance(data, Node) and (dtype is None or data._array.dtype == np.dtype(dtype)):
        return data  # type: ignore[return-value]
    if isinstance(data, Node):
        return cast(data, dtype)
    array = as_array(data, dtype)
    if array is data or getattr(array, "base", None) is not None:
        watch.share(array)  # it is someone else's too, who may write into it
    return new_tensor(array)


def tensor_for(value: Any, name: str) -> Tensor:
    """Return an argument of the op `name` as a Tensor."""
    try:
        return as_tensor(value)
    except TypeError as error:
        raise TypeError(f"{name}: expected a Tensor: {error}") from None


def cast(tensor: Node, dtype: Any) -> Tensor:
    """Return the tensor in another dtype; itself if it has that dtype already."""
    wanted = np.dtype(dtype)
    if tensor._array.dtype == wanted:
        return tensor  # type: ignore[return-value]
    if kind_of(wanted) not in "fc":
        return apply(TO_INT, tensor, dtype=wanted)
    if wanted.kind == "c":
        meet_complex()
    meet_bfloat16(wanted)
    return apply(CAST, tensor, dtype=wanted)


def to_floating(tensor: Node) -> Tensor:
    """Return integers and bools as the default float, floats as they are."""
    return cast(tensor, get_default_dtype()) if tensor._array.dtype.kind in "biu" else tensor  # type: ignore[return-value]


def promoted(*operands: Any) -> list[Any]:
    """Bring Tensors (and Python numbers, left as they are) to the dtype they are computed in together."""
    met = {o._array.dtype if isinstance(o, Node) else o.__class__ for o in operands}
    if len(met - {int, float, bool}) == 1 and (
        len(met) == 1 or any(getattr(d, "kind", "") == "f" for d in met)
    ):
        return list(operands)  # one dtype, and numbers that do not widen it
    dtype = common_dtype(*(o._data if isinstance(o, Node) else o for o in operands))
    return [cast(o, dtype) if isinstance(o, Node) else o for o in operands]


def plain_number(value: Any) -> Any:
    """Return a number of NumPy's as Python's, and all else as it is: an op's attribute must not widen its tensor."""
    return value.item() if isinstance(value, np.generic) else value


def operand(value: Any, name: str = "operand") -> Any:
    """Return a Tensor or a Python number from whatever stands beside a Tensor, in the op `name`."""
    if isinstance(value, Node) or value.__class__ in (float, int, bool, complex):
        return value
    if isinstance(value, np.generic):
        return value.item()  # as weak as a Python number: it does not widen a float32 tensor
    if is_array(value) or isinstance(value, (list, tuple, Number)):
        return as_tensor(value)
    raise TypeError(f"{name}: expected a Tensor, an array or a number, got {type(value).__name__}")


def binary(op: Op, a: Any, b: Any) -> Tensor:
    """Run an elementwise op on two operands, at least one of them a Tensor, after dtype promotion."""
    if isinstance(a, Node):
        if a.__class__ is b.__class__ or isinstance(b, Node):
            try:
                if a._array.dtype is b._array.dtype:
                    return apply_binary(op, a, b)
                return apply(op, *_prepared(op, a, b))
            except MixedDevices as error:
                return _beside(op, a, b, error)
        if b.__class__ in _REAL and a._array.dtype.kind == "f":
            return apply_to_tensor_and_number(op, a, b)  # the common case: it does not widen the floats
    elif isinstance(b, Node) and a.__class__ in _REAL and b._array.dtype.kind == "f":
        return apply_to_number_and_tensor(op, a, b)
    a, b = operand(a, op.name), operand(b, op.name)
    if isinstance(a, Node) and isinstance(b, Node):
        return binary(op, a, b)
    tensor, number = (a, b) if isinstance(a, Node) else (b, a)
    if not isinstance(tensor, Node):
        return binary(op, as_tensor(a), b)
    kind = tensor._array.dtype.kind
    if number.__class__ is complex:
        meet_complex()
    if kind == "b" or number.__class__ is bool or (kind in "iu" and isinstance(number, (float, complex))):
        a, b = _prepared(op, a, b)
    try:
        return apply(op, a, b)
    except OverflowError:
        # A number the integer dtype cannot hold wraps around, as in PyTorch; NumPy alone refuses it.
        wrapped: Any = new_tensor(np.asarray(number).astype(tensor._array.dtype))
        wrapped = wrapped.to(tensor.device)  # type: ignore[attr-defined]
        return apply(op, tensor, wrapped) if a is tensor else apply(op, wrapped, tensor)


def _beside(op: Op, a: Any, b: Any, error: Exception) -> Tensor:
    """Run an op on a tensor on a GPU and one on the CPU that holds a single number, as PyTorch does; else refuse."""
    number, other = (a, b) if a.is_cpu else (b, a)
    if number.ndim or not number.is_cpu:
        raise error
    moved = number.to(other.device)
    return binary(op, moved, b) if number is a else binary(op, a, moved)


def _prepared(op: Op, a: Any, b: Any) -> list[Any]:
    """Bring two operands to the dtype an op computes them in; numbers stay as they are."""
    if op is SUB:
        refuse_bools(a, b)
    dtype = common_dtype(*(o._data if isinstance(o, Node) else o for o in (a, b)))
    if op.floating and dtype.kind in "biu":
        dtype = get_default_dtype()  # at once: -2 must not become 254 on the way to a quotient
    return [cast(o, dtype) if isinstance(o, Node) else o for o in (a, b)]


def refuse_bools(*operands: Any) -> None:
    """Refuse to subtract bools: 0 - 1 is none."""
    if any(o._array.dtype.kind == "b" if isinstance(o, Node) else o.__class__ is bool for o in operands):
        raise RuntimeError(
            "sub: bools cannot be subtracted; to invert a mask write ~x, else x ^ y or x.int() - y"
        )


def shape_of(given: Sequence[Any], keyword: Any = None, name: str = "shape") -> tuple[int, ...]:
    """Return ints given as `(2, 3)`, `([2, 3],)` or `((2, 3),)`, or by keyword, as a tuple."""
    if keyword is None and given:
        for n in given:
            if n.__class__ is not int:
                break
        else:
            return tuple(given)  # the common case, quickly
    if keyword is not None:
        if given:
            raise TypeError(f"{name}: got {given} and by keyword {keyword}; pass one of them")
        given = keyword
    elif not given:
        raise TypeError(f"{name}: missing argument: ints, or a tuple of ints")
    elif len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = given[0]
    try:
        return tuple(n if n.__class__ is int else index(n) for n in given)
    except TypeError:
        raise TypeError(f"{name}: expects ints, or a tuple of ints, got {given!r}") from None


def common_shape(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that several broadcast to, in the op `name`."""
    try:
        if like_of(n for shape in shapes for n in shape) is not None:
            return _broadcast_shapes(*shapes)
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise RuntimeError(f"{name}: shapes {' and '.join(map(str, shapes))} do not broadcast") from None


def _broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Do what NumPy's function does, by Python's comparisons alone: sizes that vary take note of them."""
    out: list[int] = []
    for place in range(-max(map(len, shapes)), 0):
        lengths = [shape[place] for shape in shapes if len(shape) >= -place]
        length = next((n for n in lengths if n != 1), 1)
        if any(n not in (1, length) for n in lengths):
            raise ValueError
        out.append(length)
    return tuple(out)


def one_int(value: Any, name: str, what: str) -> int:
    """Return an argument as an int; a float is refused, even a whole one."""
    if like_of((value,)) is not None:
        return value
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name}: {what} must be an int, got {value!r}") from None


def choose(first: Any, second: Any, names: str = "axis and dim") -> Any:
    """Return the one that was given, of two spellings of one argument."""
    if first is not None and second is not None:
        raise TypeError(f"{names} are two names of one argument: pass only one of them")
    return first if second is None else second


def one_axis(axis: Any, ndim: int, name: str) -> int:
    """Return an axis as a number from 0 to ndim - 1; a 0-d tensor has an axis 0 and -1 too."""
    number = one_int(axis, name, "axis")
    limit = max(ndim, 1)
    if not -limit <= number < limit:
        raise IndexError(
            f"{name}: axis {number} is out of range for a tensor with {ndim} axes "
            f"(expected {-limit} to {limit - 1})"
        )
    return number % limit


def reduction_axis(axis: Any, ndim: int, name: str) -> int | tuple[int, ...] | None:
    """Return the axis of a reduction: None, an int, or a tuple; checked, and counted from 0."""
    if axis is None:
        return None
    if isinstance(axis, (tuple, list)):
        axes = tuple(one_axis(a, ndim, name) for a in axis)
        if len(set(axes)) != len(axes):
            raise RuntimeError(f"{name}: axis {axis!r} names an axis twice")
        return axes if ndim else ()
    single = one_axis(axis, ndim, name)
    return single if ndim else ()


__all__ = [
    "DType",
    "as_array",
    "as_tensor",
    "binary",
    "cast",
    "choose",
    "common_shape",
    "is_array",
    "one_axis",
    "one_int",
    "operand",
    "promoted",
    "reduction_axis",
    "refuse_bools",
    "shape_of",
    "tensor_for",
    "to_floating",
]
