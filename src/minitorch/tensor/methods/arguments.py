"""What the methods of several families ask of their arguments. Enters: what a person passed. Leaves: it, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine.dtypes import common_dtype, kind_of
from minitorch.engine.gpu import device_of
from minitorch.engine.node import Node
from minitorch.engine.record import apply
from minitorch.ops.indexing import check_there
from minitorch.ops.native import is_of_device
from minitorch.ops.op import Op, violated
from minitorch.ops.shape import RESHAPE
from minitorch.tensor.convert import as_tensor, choose, is_array, one_axis, operand, tensor_for
from minitorch.tensor.devices import place_of

if TYPE_CHECKING:
    from minitorch.tensor import Tensor

# --- numbers ------------------------------------------------------------------------------------


def whole(*operands: Any) -> bool:
    """Tell whether the operands are computed in integers or bools."""
    if any(isinstance(o, Node) and kind_of(o._array.dtype) in "fc" for o in operands):
        return False  # the common case, quickly
    return common_dtype(*(o._data if isinstance(o, Node) else o for o in operands)).kind in "biu"


def apply_to_integers(op: Op, x: Any, y: Any) -> Tensor:
    """Run an op that only integers have."""
    x, y = operand(x, op.name), operand(y, op.name)
    dtype = common_dtype(*(o._data if isinstance(o, Node) else o for o in (x, y)))
    if dtype.kind not in "iu":
        raise RuntimeError(f"{op.name}: expects integers, got {dtype}")
    return apply(op, *together(*(beside(o, x if isinstance(x, Node) else y, dtype) for o in (x, y))))


def beside(value: Any, tensor: Any, dtype: Any = None) -> Tensor:
    """Return a Tensor as it is, and a number as one that lies where another Tensor does."""
    made = as_tensor(value, dtype)
    return (
        made if isinstance(value, Node) or not isinstance(tensor, Node) else made.to(place_of(tensor._array))
    )


def together(*operands: Any) -> Sequence[Any]:
    """Return operands of which those that are on the CPU and hold a single number lie where the others do."""
    there: Any = next((o for o in operands if isinstance(o, Node) and device_of(o._array) is not None), None)
    if there is None:
        return operands
    place = place_of(there._array)
    return [
        o.to(place) if isinstance(o, Node) and not o._array.ndim and device_of(o._array) is None else o  # type: ignore[attr-defined]
        for o in operands
    ]


def fill_of(value: Any, dtype: Any, name: str) -> Any:
    """Return a Python number that a dtype can hold, for filling; one that it cannot is refused."""
    value = operand(value, name)
    if isinstance(value, Node):
        raise TypeError(f"{name}: expected a number, got a tensor of shape {value._data.shape}")
    if dtype.kind == "b":
        return bool(value)
    if isinstance(value, complex) and dtype.kind != "c":
        raise RuntimeError(f"{name}: {value!r} does not fit {dtype}; write its real part")
    if kind_of(dtype) in "fc":
        return value
    limits = np.iinfo(dtype)
    # -1 among unsigned numbers counts from their end, as in C and in PyTorch.
    lowest = limits.min or -limits.max
    whole = value if isinstance(value, int) else int(value) if math.isfinite(value) else math.inf
    if not lowest <= whole <= limits.max:
        raise RuntimeError(f"{name}: {value!r} does not fit {dtype}; write x.float() first")
    return whole % (limits.max + 1) if limits.min == 0 else whole


# --- axes ---------------------------------------------------------------------------------------


def required_axis(x: Node, axis: Any, name: str) -> int:
    """Return an axis that must be given, counted from 0."""
    if axis is None:
        raise TypeError(f"{name}: missing argument: axis (or dim)")
    return one_axis(axis, x._array.ndim, name)


def last_axis(x: Node, axis: Any, dim: Any, name: str) -> int:
    """Return the axis to work along, the last unless named."""
    return required_axis(x, -1 if axis is None and dim is None else choose(axis, dim), name)


def as_row(x: Any) -> Tensor:
    """Return the tensor with at least one axis."""
    return x if x._array.ndim else apply(RESHAPE, x, shape=(1,))


def expect_axes(name: str, *operands: tuple[Any, int]) -> None:
    """Refuse operands that have not as many axes as stands beside each."""
    shapes = [tensor_for(x, name)._data.shape for x, _ in operands]
    if any(len(s) != n for s, (_, n) in zip(shapes, operands, strict=True)):
        wanted = " and ".join(f"{n} axes" if n > 1 else "1 axis" for _, n in operands)
        raise RuntimeError(f"{name}: expects tensors with {wanted}, got shapes {shapes[0]} and {shapes[1]}")


# --- tensors ------------------------------------------------------------------------------------


def tensor_list(tensors: Any, name: str, empty: type[Exception]) -> list[Any]:
    """Return a list or tuple of tensors as Tensors; an empty one is refused by the error given."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}: expects a list or tuple of tensors, got one {type(tensors).__name__}; write {name}([x, y])"
        )
    parts = list(tensors)
    for i, part in enumerate(parts):
        if not isinstance(part, (Node, list, tuple)) and not is_array(part):
            raise TypeError(f"{name}: expects tensors, but element {i} is a {type(part).__name__}: {part!r}")
    if not parts:
        raise empty(f"{name}: expects a non-empty list of tensors")
    return [as_tensor(part) for part in parts]


def check_mask(mask: Any, name: str) -> Tensor:
    """Return a mask as a tensor of bools, which it must be (uint8 passes, as in PyTorch)."""
    tensor = as_tensor(operand(mask, name))
    if tensor._array.dtype.kind != "b" and tensor._array.dtype != np.uint8:
        raise RuntimeError(f"{name}: the mask must hold bools, got {tensor._array.dtype}; write mask.bool()")
    return tensor


def index_tensor(index: Any, name: str) -> Tensor:
    """Return an index as a tensor of integers."""
    if not isinstance(index, (Node, int, list, tuple)) and not is_array(index):
        raise TypeError(f"{name}: index must be a tensor of integers, got {type(index).__name__}")
    places = as_tensor(index)
    if places._array.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: index must hold integers, got {places._array.dtype}; write index.long()")
    return places


def check_range(places: Any, length: int, axis: int, name: str) -> None:
    """Refuse an array of indices that point outside an axis."""
    if is_of_device(places):
        check_there(places, length)
    elif places.size:
        low, high = places.min(), places.max()
        if violated((low < 0) | (high >= length)):
            raise IndexError(
                f"{name}: index {low if low < 0 else high} is out of range for axis {axis} of length {length}"
            )
