"""Values by the library of a device's arrays. Enters: a value and its inputs' arrays, some there. Leaves: its array.

CuPy's arrays speak NumPy's protocols, so what a primitive means in NumPy (program.py) is computed on a GPU by CuPy.
What has arrays of the host's alone is computed by NumPy; what CuPy refuses too, from copies of what lies there.

CuPy makes a kernel for each function, dtype and number of axes when it first meets it, in a tenth of a second, and for
most reductions in seconds. So elements are computed on one axis, and folds are those that its library has ready.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.ir.program import PRIMITIVES, Value, evaluate
from minitorch.compiler.ir.sizes import Binding, evaluated, hint

FEW_NUMBERS = 1 << 18  # bytes that a recording's small values touch, at most
FEW_INDICES = 1 << 24  # bytes of them that the host looks at
FEW = 4096  # bytes that the host may write out for a device to fetch
_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "min", "logical_or": "max",
}  # fmt: skip
_HALF = np.dtype(np.float16)


def lies_here(array: Any) -> bool:
    """Tell whether an array is NumPy's, or a number."""
    return isinstance(array, (np.ndarray, np.generic, int, float, tuple))


class Elsewhere:
    """Computes values where their inputs lie: in place of `evaluate`.

    to_device, to_host: bring arrays there and back. few_here: what touches no more bytes is computed by NumPy.
    erf: the error function of arrays there. refused: what the library there did not compute.
    """

    def __init__(
        self,
        to_device: Callable[[Any], Any],
        to_host: Callable[[Any], np.ndarray],
        few_here: int = 0,
        erf: Callable[[Any], Any] | None = None,
    ) -> None:
        self.to_device, self._to_host, self._few_here, self._erf = to_device, to_host, few_here, erf
        self.refused: set[Value] = set()

    def __call__(self, value: Value, inputs: Sequence[Any], binding: Binding | None = None) -> Any:
        """Compute one value from its inputs' arrays."""
        nbytes = hint(value.nbytes)
        if all(map(lies_here, inputs)) and (value.primitive != "expand" or nbytes <= FEW):
            return evaluate(value, inputs, binding)
        if self._few_here and nbytes + sum(np.size(x) * 8 for x in inputs) <= self._few_here:
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

    def _here(self, inputs: Sequence[Any]) -> list[Any]:
        return [x if lies_here(x) else self._to_host(x) for x in inputs]

    def _computed(self, value: Value, inputs: list[Any], attributes: dict[str, Any]) -> Any:
        if value.primitive == "reduce":
            result = _reduced(value, *inputs, **attributes)
        elif self._erf is not None and attributes.get("function") == "erf":
            result = self._erf(np.ravel(inputs[0])).reshape(inputs[0].shape)
        elif value.primitive == "map":
            result = PRIMITIVES["map"](*map(np.ravel, inputs), **attributes).reshape(inputs[0].shape)  # type: ignore[misc]
        else:
            compute: Callable[..., Any] | None = PRIMITIVES[value.primitive]
            assert compute is not None, f"{value.primitive} is given, not computed"
            result = compute(*inputs, **attributes)
        if value.primitive != "call" and result.dtype != value.dtype:
            result = result.astype(value.dtype)
        return result

    def _check_indices(self, value: Value, inputs: list[Any], attributes: dict[str, Any]) -> None:
        """Raise IndexError for an index out of range, which CuPy would not mind."""
        if value.primitive not in ("gather", "scatter") or not inputs[1].size:
            return
        length = inputs[0].shape[attributes["axis"]]
        index = inputs[1] if inputs[1].nbytes > FEW_INDICES else self._to_host(inputs[1])
        if int(index.min()) < 0 or int(index.max()) >= length:
            raise IndexError(f"an index is outside of an axis of length {length}")


def _reduced(value: Value, x: Any, *, function: str, axes: tuple[int, ...]) -> Any:
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape = [x.shape[axis] for axis in kept]
    count = math.prod(x.shape[axis] for axis in axes)
    rows = np.ascontiguousarray(np.transpose(x, (*kept, *axes)).reshape(math.prod(shape), count))
    wanted = value.dtype
    if wanted == _HALF or function.startswith("logical"):
        wanted = np.dtype(np.float32 if wanted == _HALF else np.uint8)
        rows = np.ravel(rows).astype(wanted).reshape(rows.shape)
    elif function in ("add", "multiply") and rows.dtype != wanted:
        rows = np.ravel(rows).astype(wanted).reshape(rows.shape)
    return getattr(rows, _REDUCTIONS[function])(axis=1).reshape(shape)
