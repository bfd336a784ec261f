"""Values by the library of a device's arrays. Enters: a value and its inputs' arrays, some there. Leaves: its array.

CuPy's arrays speak NumPy's protocols, so what a primitive means in NumPy (program.py) is computed on a GPU by CuPy.
What has arrays of the host's alone is computed by NumPy; what CuPy refuses too, from copies of what lies there.

CuPy makes a kernel for each function, dtype and number of axes when it first meets it, in a tenth of a second, and for
most reductions in seconds. So elements are computed on one axis, and folds are those that its library has ready.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from minitorch.compiler.ir.program import (
    COMPARISONS,
    LOGIC,
    PRIMITIVES,
    TESTS,
    Value,
    evaluate,
    numpy_function,
)
from minitorch.compiler.ir.sizes import Binding, evaluated, hint, typical

FEW_INDICES = 1 << 24  # bytes of them that the host looks at
MOST_NUMBERS = 256  # that are kept there
FEW = 4096  # bytes that the host may write out for a device to fetch
_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "min", "logical_or": "max",
}  # fmt: skip
_HALF = np.dtype(np.float16)


def lies_here(array: Any) -> bool:
    """Tell whether an array is NumPy's, or a number."""
    return isinstance(array, (np.ndarray, np.generic, int, float, tuple))


class Kernels(Protocol):
    """What computes some values there, by kernels that take less time to make than the library's.

    Each gives None (or False) where there is no kernel.
    """

    def prepare(self, values: Iterable[Value]) -> None:
        """Make the kernels that values need."""

    def map(self, function: str, arrays: Sequence[Any], dtype: np.dtype) -> Any:
        """Return an elementwise function of arrays of one shape."""

    def copied(self, array: Any) -> Any:
        """Return an array with its elements in the order of its axes: itself, if they are."""

    def copy(self, source: Any, target: Any) -> bool:
        """Copy an array to another of its shape and dtype."""

    def gathered(self, x: Any, index: Any, axis: int) -> Any:
        """Return x at some places along an axis."""

    def added(self, base: Any, index: Any, updates: Any, axis: int) -> Any:
        """Return base with updates added at some places along an axis."""

    def shaken(self, array: Any, sized: Any, noise: Any, first: int, error: float, least: float) -> Any:
        """Return an array moved by noise: each number by twice an error times one of the noise's times the size of one
        of another array's.
        """


class Elsewhere:
    """Computes values where their inputs lie: in place of `evaluate`.

    to_device, to_host: bring arrays there and back. few_here: what touches no more bytes is computed by NumPy.
    erf: the error function of arrays there. kernels: what computes in the library's place, where it can.
    refused: what neither did.
    """

    def __init__(
        self,
        to_device: Callable[[Any], Any],
        to_host: Callable[[Any], np.ndarray],
        few_here: int = 0,
        erf: Callable[[Any], Any] | None = None,
        kernels: Kernels | None = None,
    ) -> None:
        self._to_device, self._to_host, self._few_here, self._erf = to_device, to_host, few_here, erf
        self._kernels = kernels
        self._numbers: dict[Any, Any] = {}  # sent lately
        self.refused: set[Value] = set()

    def __call__(self, value: Value, inputs: Sequence[Any], binding: Binding | None = None) -> Any:
        """Compute one value from its inputs' arrays."""
        nbytes = hint(value.nbytes)
        if all(map(lies_here, inputs)) and (value.primitive != "expand" or nbytes <= FEW):
            return evaluate(value, inputs, binding)
        if self._is_small(nbytes, inputs):
            return evaluate(value, self._here(inputs), binding)
        there = [self.to_device(np.asarray(x)) if lies_here(x) else x for x in inputs]
        attributes = evaluated(value.attributes, binding) if binding else value.attributes
        self._check_indices(value, there, attributes)
        if value not in self.refused:
            try:
                return self._computed(value, there, attributes)
            except MemoryError:
                raise
            except Exception:  # if it is no fault of the library's, NumPy says so
                self.refused.add(value)
        return evaluate(value, self._here(inputs), binding)

    def to_device(self, array: Any) -> Any:
        """Return an array there, its elements in the order of its axes, as kernels leave them and expect them."""
        return self._to_device(np.asarray(array, order="C"))

    def prepare(self, values: Iterable[Value]) -> None:
        """Make ready what these values take."""
        if self._kernels is not None:
            self._kernels.prepare(v for v in values if not self._is_small(typical(v.nbytes), v.inputs))

    def map(self, function: str, *arrays: Any, to: Any = None) -> Any:
        """Return an elementwise function of arrays there, of one shape."""
        dtype = np.dtype(to or (bool if function in COMPARISONS | TESTS | LOGIC else arrays[-1].dtype))
        if self._kernels is not None and (found := self._kernels.map(function, arrays, dtype)) is not None:
            return found
        flat = [np.ravel(array) for array in arrays]
        if function == "cast":
            result = flat[0].astype(to)
        elif function == "erf" and self._erf is not None:
            result = self._erf(*flat)
        else:
            result = numpy_function(function)(*flat)
        return result.reshape(arrays[0].shape)

    def number(self, value: float, like: Any) -> Any:
        """Return a number there, as often as an array has elements. (To send one takes as long as a small kernel.)"""
        key = value, like.dtype
        if key not in self._numbers:
            if len(self._numbers) >= MOST_NUMBERS:
                self._numbers.clear()
            self._numbers[key] = self.to_device(np.asarray(value, like.dtype))
        return np.broadcast_to(self._numbers[key], like.shape)

    def shaken(self, array: Any, sized: Any, noise: Any, first: int, error: float, least: float) -> Any:
        """Return an array moved by noise, by a kernel (see there); None if there is none."""
        if self._kernels is None:
            return None
        return self._kernels.shaken(array, sized, noise, first, error, least)

    def laid_out(self, array: Any) -> Any:
        """Return an array there with its elements in the order of its axes: itself, if they are."""
        if self._kernels is not None and (found := self._kernels.copied(array)) is not None:
            return found
        return array if array.flags.c_contiguous else array.copy()

    def _is_small(self, nbytes: int, inputs: Sequence[Any]) -> bool:
        touched = nbytes + sum(8 * typical(np.size(x)) for x in inputs)
        return bool(self._few_here) and touched <= self._few_here

    def _here(self, inputs: Sequence[Any]) -> list[Any]:
        return [x if lies_here(x) else self._to_host(x) for x in inputs]

    def _computed(self, value: Value, inputs: list[Any], attributes: dict[str, Any]) -> Any:
        own = _OWN.get(value.primitive)
        result = None if own is None else own(self, value, *inputs, **attributes)
        if result is None:
            compute: Callable[..., Any] | None = PRIMITIVES[value.primitive]
            assert compute is not None, f"{value.primitive} is given, not computed"
            result = compute(*inputs, **attributes)
        if value.primitive != "call" and result.dtype != value.dtype:
            result = result.astype(value.dtype)
        return result

    # What is computed in another way than the primitives say; None: in theirs.

    def _map(self, value: Value, *inputs: Any, function: str, to: Any = None) -> Any:
        return self.map(function, *inputs, to=to)

    def _reduce(self, value: Value, x: Any, *, function: str, axes: tuple[int, ...]) -> Any:
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        shape = [x.shape[axis] for axis in kept]
        count = math.prod(x.shape[axis] for axis in axes)
        rows = self.laid_out(np.transpose(x, (*kept, *axes))).reshape(math.prod(shape), count)
        wanted = value.dtype
        if wanted == _HALF or function.startswith("logical"):
            wanted = np.dtype(np.float32 if wanted == _HALF else np.uint8)
            rows = self.map("cast", rows, to=wanted)
        elif function in ("add", "multiply") and rows.dtype != wanted:
            rows = self.map("cast", rows, to=wanted)
        return getattr(rows, _REDUCTIONS[function])(axis=1 if kept else None).reshape(shape)

    def _contract(self, value: Value, a: Any, b: Any, *, spec: str) -> Any:
        """As one product of matrices, or of a batch of them: what a library has ready."""
        (first, second), out = (part.split(",") for part in spec.split("->"))
        batch = [i for i in first if i in second and i in out[0]]
        summed = [i for i in first if i in second and i not in out[0]]
        rows, columns = ([i for i in own if i not in (*batch, *summed)] for own in (first, second))
        halves = value.dtype == a.dtype == b.dtype == _HALF  # summed in float32, and rounded once
        if (value.dtype.char not in "fd" and not halves) or {*batch, *rows, *columns} != {*out[0]}:
            return None
        size = dict(zip(first + second, a.shape + b.shape, strict=True))
        count = [math.prod(size[i] for i in part) for part in (batch, rows, summed, columns)]
        left = np.transpose(a, [first.index(i) for i in (*batch, *rows, *summed)])
        right = np.transpose(b, [second.index(i) for i in (*batch, *summed, *columns)])
        left = self.laid_out(left).reshape(count[0], count[1], count[2])
        right = self.laid_out(right).reshape(count[0], count[2], count[3])
        if halves:
            left, right = (self.map("cast", each, to=np.dtype(np.float32)) for each in (left, right))
        found = left[0] @ right[0] if count[0] == 1 else left @ right
        found = self.map("cast", found, to=_HALF) if halves else found
        order = [*batch, *rows, *columns]
        found = np.transpose(found.reshape([size[i] for i in order]), [order.index(i) for i in out[0]])
        return self.laid_out(found)

    def _reshape(self, value: Value, x: Any, *, shape: tuple[int, ...]) -> Any:
        return self.laid_out(x).reshape(shape)

    def _concatenate(self, value: Value, *parts: Any, axis: int) -> Any:
        if self._kernels is None or any(part.dtype != value.dtype for part in parts):
            return None
        length = sum(part.shape[axis] for part in parts)
        shape = (*parts[0].shape[:axis], length, *parts[0].shape[axis + 1 :])
        out, begin = np.empty_like(parts[0], shape=shape), 0
        for part in parts:
            end = begin + part.shape[axis]
            if not self._kernels.copy(part, out[(slice(None),) * axis + (slice(begin, end),)]):
                return None
            begin = end
        return out

    def _gather(self, value: Value, x: Any, index: Any, *, axis: int) -> Any:
        return None if self._kernels is None else self._kernels.gathered(x, index, axis)

    def _scatter(self, value: Value, base: Any, index: Any, updates: Any, *, axis: int, function: str) -> Any:
        if function != "add":
            return None
        if self._kernels is not None:
            found = self._kernels.added(base, index, updates, axis)
            if found is not None:
                return found
        out = base.copy()
        out.scatter_add(
            (slice(None),) * axis + (index,), updates
        )  # (CuPy's arrays do not take over np.add.at)
        return out

    def _check_indices(self, value: Value, inputs: list[Any], attributes: dict[str, Any]) -> None:
        """Raise IndexError for an index out of range, which CuPy would not mind."""
        if value.primitive not in ("gather", "scatter") or not inputs[1].size:
            return
        length = inputs[0].shape[attributes["axis"]]
        index = inputs[1] if inputs[1].nbytes > FEW_INDICES else self._to_host(inputs[1])
        if int(index.min()) < 0 or int(index.max()) >= length:
            raise IndexError(f"an index is outside of an axis of length {length}")


_OWN: dict[str, Callable[..., Any]] = {
    "map": Elsewhere._map,
    "reduce": Elsewhere._reduce,
    "contract": Elsewhere._contract,
    "reshape": Elsewhere._reshape,
    "concatenate": Elsewhere._concatenate,
    "gather": Elsewhere._gather,
    "scatter": Elsewhere._scatter,
}
