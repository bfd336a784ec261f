"""Values by the library of a device's arrays. Enters: a value and its inputs' arrays, some there. Leaves: its array.

CuPy's arrays speak NumPy's protocols, so what a primitive means in NumPy (program.py) is computed on a GPU by CuPy.
What has arrays of the host's alone is computed by NumPy; what CuPy refuses too, from copies of what lies there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.ir.program import PRIMITIVES, Value, evaluate
from minitorch.compiler.ir.sizes import Binding, evaluated

FEW = 4096  # bytes that the host may write out for a device to fetch
_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
_HALF = np.dtype(np.float16)


def lies_here(array: Any) -> bool:
    """Tell whether an array is NumPy's, or a number."""
    return isinstance(array, (np.ndarray, np.generic, int, float, tuple))


class Elsewhere:
    """Computes values where their inputs lie: in place of `evaluate`.

    to_device, to_host: bring arrays there and back. refused: what the library there did not compute.
    """

    def __init__(self, to_device: Callable[[Any], Any], to_host: Callable[[Any], np.ndarray]) -> None:
        self.to_device, self._to_host = to_device, to_host
        self.refused: set[Value] = set()

    def __call__(self, value: Value, inputs: Sequence[Any], binding: Binding | None = None) -> Any:
        """Compute one value from its inputs' arrays."""
        if all(map(lies_here, inputs)) and (value.primitive != "expand" or value.nbytes <= FEW):
            return evaluate(value, inputs, binding)
        there = [self.to_device(np.asarray(x)) if lies_here(x) else x for x in inputs]
        attributes = evaluated(value.attributes, binding) if binding else value.attributes
        _check_indices(value, there, attributes)
        if value not in self.refused:
            try:
                return self._computed(value, there, attributes)
            except MemoryError:
                raise
            except Exception:  # if it is no fault of the library's, NumPy says so
                self.refused.add(value)
        return evaluate(value, [x if lies_here(x) else self._to_host(x) for x in inputs], binding)

    def _computed(self, value: Value, inputs: list[Any], attributes: dict[str, Any]) -> Any:
        if value.primitive == "reduce":
            result = _reduced(value, *inputs, **attributes)
        else:
            compute: Callable[..., Any] | None = PRIMITIVES[value.primitive]
            assert compute is not None, f"{value.primitive} is given, not computed"
            result = compute(*inputs, **attributes)
        if value.primitive != "call" and result.dtype != value.dtype:
            result = result.astype(value.dtype)
        return result


def _reduced(value: Value, x: Any, *, function: str, axes: tuple[int, ...]) -> Any:
    reduce = getattr(x, _REDUCTIONS[function])
    if function in ("add", "multiply"):
        return reduce(axis=axes, dtype=np.float32 if x.dtype == _HALF else value.dtype)
    return reduce(axis=axes)


def _check_indices(value: Value, inputs: list[Any], attributes: dict[str, Any]) -> None:
    """Raise IndexError for an index out of range, which CuPy would not mind."""
    if value.primitive in ("gather", "scatter"):
        length = inputs[0].shape[attributes["axis"]]
        if bool(((inputs[1] < 0) | (inputs[1] >= length)).any()):
            raise IndexError(f"an index is outside of an axis of length {length}")
