"""How many places a mask holds: a number that only the program can tell, and the length of an axis.

Enters: a mask. Leaves: its `Length`, the same one wherever the same mask is used. It stands in the shape of x[mask]
(masked.py), and counts as x.item() does (deferred.py).
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from minitorch.compiler.ir.program import Value
from minitorch.compiler.trace.deferred import Deferred
from minitorch.compiler.trace.traced import Traced, as_traced
from minitorch.engine.recording import recorder


class Length(Deferred):
    """How many places a mask holds, or how many elements so many rows have.

    It is said to be larger than any number, whatever it is in this run; the program checks that it is so.
    base, times: of the elements of rows, how many rows there are, and how many elements each has.
    """

    __slots__ = ("base", "count", "mask", "places", "times")

    def __init__(self, mask: Traced, base: Length | None = None, times: int = 1) -> None:
        self.mask = mask.reshape(-1)
        self.places = self.mask.size
        self.count: Any = np.sum(self.mask)
        self.base, self.times = self if base is None else base, times
        super().__init__(None, (self.count, ()), self.count.array.item())

    def repeated(self, times: int) -> Length:
        """Return the length of all elements of so many rows."""
        known = self.recording.masks
        key = (self.base.mask.value, self.times * times)
        if key[1] == 1:
            return self.base
        if key not in known:
            rows = np.broadcast_to(self.base.mask.reshape(-1, 1), (self.base.places, key[1]))
            known[key] = Length(as_traced(rows), self.base, key[1])
        return known[key]

    def __mul__(self, other: Any) -> Any:
        return (
            self.repeated(other)
            if type(other) is int and other > 0
            else self._apply(operator.mul, self, other)
        )

    __rmul__ = __mul__

    def __mod__(self, other: Any) -> Any:
        divides = type(other) is int and other > 0 and self.times % other == 0
        return 0 if divides else self._apply(operator.mod, self, other)

    def __floordiv__(self, other: Any) -> Any:
        if type(other) is int and other > 0 and self.times % other == 0:
            return self.base.repeated(self.times // other)
        return self._apply(operator.floordiv, self, other)

    def __eq__(self, other: object) -> Any:
        if other is self:
            return True
        if self._is_over():
            return self.concrete == other
        if type(other) is not int:
            raise self._refusal("comparing the number of places that a mask holds")
        if other >= 0:
            self.recording.check(np.equal(self.count, other))
        return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0

    __hash__ = Deferred.__hash__


def _comparison(name: str, ufunc: Any) -> Any:
    deferred = getattr(Deferred, name)

    def method(self: Length, other: Any) -> bool:
        if other is self:
            return bool(ufunc(0, 0))
        if self._is_over() or type(other) is not int:
            return deferred(self, other)
        larger = bool(ufunc(1, 0))
        if other > 0 or bool(ufunc(0, other)) != larger:  # else it is so for any count
            compared = ufunc(self.count, other)
            self.recording.check(np.logical_not(compared) if larger else compared)
        return larger

    return method


for _name, _ufunc in {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}.items():
    setattr(Length, f"__{_name}__", _comparison(f"__{_name}__", _ufunc))


def length_of(mask: Traced) -> Length:
    """Return the length of a mask: the same one wherever the same mask is used."""
    active: Any = recorder()
    for (known, times), length in active.masks.items():
        if times == 1 and _is_same(known, mask.value):
            return length
    return active.masks.setdefault((mask.value, 1), Length(mask))


def _is_same(a: Value, b: Value) -> bool:
    """Tell whether two values are computed alike: `x > 0`, written twice."""
    if a is b:
        return True
    if (
        a.primitive != b.primitive
        or a.shape != b.shape
        or a.dtype != b.dtype
        or len(a.inputs) != len(b.inputs)
    ):
        return False
    if a.primitive == "constant":
        return bool(np.array_equal(a.attributes["array"], b.attributes["array"]))
    same_attributes = a.primitive != "input" and a.attributes == b.attributes
    return same_attributes and all(map(_is_same, a.inputs, b.inputs))
