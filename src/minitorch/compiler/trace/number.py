"""Numbers that may differ at the next call: a learning rate, a step count, a dropout rate.

Enters: a Python number, and how to read it again. Leaves: a `Number`, which computes like a float and writes down
what it computes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.ir import builder as make
from minitorch.compiler.ir.program import FUNCTIONS, Value
from minitorch.compiler.ir.sizes import Size


class Number:
    """A Python number that may be another one at the next call: a learning rate, a step count, a dropout rate.

    It computes like a Python float. A decision on it (`if momentum:`) is taken on its value in this run and
    remembered: a later call on which it would go the other way records anew.

    read: gives the number as it is at a call, or None where it comes out of the program's own arrays.
    """

    __slots__ = ("concrete", "decide", "read", "value")

    decides = True  # whether a decision may be taken on it

    def __init__(
        self,
        value: Value,
        concrete: float,
        read: Callable[[], float],
        decide: Callable[[Callable[[], Any], Any], None],
    ) -> None:
        self.value = value
        self.concrete = concrete
        self.read = read
        self.decide = decide  # tell the recording: this, read again at a call, must give the same

    def _with(self, ufunc: Any, *operands: Any) -> Any:
        operands = tuple([o.number if type(o) is Size else o for o in operands])
        if any(not o.decides for o in operands if isinstance(o, Number)):
            return NotImplemented  # a number that only the program can tell has arithmetic of its own
        numbers = [o.concrete if isinstance(o, Number) else o for o in operands]
        if not all(isinstance(n, (int, float, np.number)) for n in numbers):
            return NotImplemented
        values = [o.value if isinstance(o, Number) else make.constant(np.float64(o)) for o in operands]
        readers = [o.read if isinstance(o, Number) else (lambda o=o: o) for o in operands]
        with np.errstate(all="ignore"):
            concrete = float(ufunc(*numbers))
        value = make.map_values(ufunc.__name__, *values)
        return Number(value, concrete, lambda: float(ufunc(*(r() for r in readers))), self.decide)

    def _decided(self, question: Callable[[float], Any]) -> Any:
        answer = question(self.concrete)
        read = self.read
        self.decide(lambda: question(read()), answer)
        return answer

    def __neg__(self) -> Any:
        return self._with(np.negative, self)

    def __abs__(self) -> Any:
        return self._with(np.absolute, self)

    def __pos__(self) -> Number:
        return self

    def __bool__(self) -> bool:
        return bool(self._decided(bool))

    def __float__(self) -> float:
        return float(self._decided(float))

    def __int__(self) -> int:
        return int(self._decided(int))

    def __index__(self) -> int:
        raise TypeError("a number with a fraction is no index")

    def __repr__(self) -> str:
        return f"Number({self.concrete})"

    def __hash__(self) -> int:
        return hash(float(self))

    def __round__(self, digits: Any = None) -> Any:
        return round(float(self), digits)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        for each in inputs:
            if hasattr(each, "__minitorch_op__"):  # an array that records: a number beside it is an operand
                return each.__array_ufunc__(ufunc, method, *inputs, **options)
        if method == "__call__" and not options and ufunc.__name__ in FUNCTIONS:
            found = self._with(ufunc, *inputs)
            if found is not NotImplemented:
                return found
        return getattr(ufunc, method)(*(float(i) if isinstance(i, Number) else i for i in inputs), **options)


for _name, _ufunc in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "pow": np.power,
    "floordiv": np.floor_divide, "mod": np.remainder,
}.items():  # fmt: skip
    setattr(Number, f"__{_name}__", lambda self, other, _u=_ufunc: self._with(_u, self, other))
    setattr(Number, f"__r{_name}__", lambda self, other, _u=_ufunc: self._with(_u, other, self))


def _comparison(compare: Callable[[Any, Any], bool]) -> Any:
    def method(self: Number, other: Any) -> Any:
        other = other.number if type(other) is Size else other
        if isinstance(other, Number):
            if not other.decides:
                return NotImplemented
            mine, theirs = self.read, other.read
            answer = compare(self.concrete, other.concrete)
            self.decide(lambda: compare(mine(), theirs()), answer)
            return answer
        if not isinstance(other, (int, float, np.number)):
            return NotImplemented
        return self._decided(lambda number: bool(compare(number, other)))

    return method


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Number, f"__{_name}__", _comparison(getattr(operator, _name)))


_OF_MATH: dict[Any, Any] = {
    math.cos: np.cos, math.sin: np.sin, math.tan: np.tan, math.exp: np.exp, math.log: np.log, math.sqrt: np.sqrt,
    math.tanh: np.tanh, math.pow: np.power, math.log10: np.log10, math.log2: np.log2, math.log1p: np.log1p,
    math.expm1: np.expm1, math.fabs: np.absolute, math.hypot: np.hypot, math.atan: np.arctan, math.cosh: np.cosh,
    math.sinh: np.sinh, math.acos: np.arccos, math.asin: np.arcsin,
}  # fmt: skip


def of_math(function: Any, *operands: Any) -> Any:
    """Return what a function of Python's math gives of numbers that may change; NotImplemented if it is another one."""
    numbers = [o for o in operands if isinstance(o, Number)]
    ufunc: Any = _OF_MATH.get(function)
    if ufunc is None or len(operands) != ufunc.nin or not numbers or not all(n.decides for n in numbers):
        return NotImplemented
    concrete = _concretely(function, operands)
    values = [o.value if isinstance(o, Number) else make.constant(np.float64(o)) for o in operands]
    readers = [o.read if isinstance(o, Number) else (lambda o=o: o) for o in operands]
    value = make.map_values(ufunc.__name__, *values)
    numbers[0].decide(lambda: _gives_float(function, readers), True)
    return as_float(Number(value, concrete, lambda: function(*(r() for r in readers)), numbers[0].decide))


def settled(thing: Any, keeping_sizes: bool = False) -> Any:
    """Return a number that may change as the plain one it is, which is decided on; anything else as it is.

    keeping_sizes: except a size that varies, which arrays understand as an index.
    """
    if keeping_sizes:
        thing = as_size(thing)
    if type(thing) is Size:
        return thing if keeping_sizes else int(thing)
    if not isinstance(thing, Number):
        return thing
    kind: Any = thing.__class__
    return int(thing) if kind is int else float(thing)


def _concretely(function: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """Return what a function gives in this run. An error is one of these very numbers, whoever catches it."""
    try:
        return function(*(o.concrete if isinstance(o, Number) else o for o in operands))
    except (ArithmeticError, ValueError):
        for each in operands:
            settled(each)
        raise


def _gives_float(function: Callable[..., Any], readers: list[Callable[[], Any]]) -> bool:
    try:
        return isinstance(function(*(read() for read in readers)), float)
    except (ArithmeticError, ValueError):
        return False


def _as_in_python(found: Any, ufunc: Any, operands: tuple[Any, ...]) -> Any:
    """Decide that an operation does not fail, and gives a float: where Python raises an error, a program goes on."""
    function = _MAY_FAIL.get(ufunc)
    if function is None or not isinstance(found, Number):
        return found
    concrete = _concretely(function, operands)
    if isinstance(concrete, complex):
        return function(*map(settled, operands))
    if function is operator.pow:
        readers = [o.read if isinstance(o, Number) else (lambda o=o: o) for o in operands]
        found.decide(lambda: _gives_float(function, readers), True)
    elif isinstance(operands[1], Number):
        divisor = operands[1].read
        found.decide(lambda: divisor() != 0, True)
    return found


_MAY_FAIL: dict[Any, Any] = {
    np.true_divide: operator.truediv, np.floor_divide: operator.floordiv, np.remainder: operator.mod,
    np.power: operator.pow,
}  # fmt: skip


class _Float(Number):
    """A number that passes for a Python float, wherever one is asked for."""

    __slots__ = ()

    __class__ = property(lambda self: float)

    def _with(self, ufunc: Any, *operands: Any) -> Any:
        return _as_in_python(as_float(Number._with(self, ufunc, *operands)), ufunc, operands)


class _Int(Number):
    """A whole number that passes for a Python int: a count.

    size: gives the same as a Size (ir/sizes.py), for indices and lengths, or None if it has to be decided on there.
    """

    __slots__ = ("size",)

    __class__ = property(lambda self: int)

    def __init__(
        self, value: Value, concrete: int, read: Any, decide: Any, size: Callable[[], Any] = lambda: None
    ) -> None:
        super().__init__(value, concrete, read, decide)
        self.size = size

    def _with(self, ufunc: Any, *operands: Any) -> Any:
        operands = tuple([o.number if type(o) is Size else o for o in operands])
        whole = all(type(o) in (int, bool) or type(o) is _Int for o in operands)
        if whole and ufunc is np.power:
            base, exponent = operands
            if type(exponent) is int and 1 <= exponent <= 4:
                return base if exponent == 1 else base * base ** (exponent - 1)
            return settled(base) ** settled(exponent)
        if not whole or ufunc not in _WHOLE:
            return _as_in_python(as_float(Number._with(self, ufunc, *operands)), ufunc, operands)
        function = _WHOLE[ufunc]
        concrete = _concretely(function, operands)
        if type(concrete) is not int or abs(concrete) > 1 << 53:
            return function(*(int(o) for o in operands))
        found = Number._with(self, ufunc, *operands)
        readers = [o.read if isinstance(o, Number) else (lambda o=o: o) for o in operands]
        new = _Int(
            found.value,
            concrete,
            lambda: function(*(r() for r in readers)),
            self.decide,
            lambda: _size_of(function, operands),
        )
        return _as_in_python(new, ufunc, operands)

    def __index__(self) -> int:
        return int(self)

    def __round__(self, digits: Any = None) -> Any:
        return round(int(self), digits)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(*(int(i) if type(i) is _Int else i for i in inputs), **options)


for _name in ("and", "or", "xor", "lshift", "rshift"):
    _bits = getattr(operator, f"__{_name}__")
    setattr(_Int, f"__{_name}__", lambda self, other, _f=_bits: _f(int(self), settled(other)))
    setattr(_Int, f"__r{_name}__", lambda self, other, _f=_bits: _f(settled(other), int(self)))

_WHOLE: dict[Any, Any] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.floor_divide: operator.floordiv,
    np.remainder: operator.mod, np.negative: operator.neg, np.absolute: operator.abs,
}  # fmt: skip


def _size_of(function: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """Return what a function gives of whole numbers, as a size; None if one of them has none."""
    sizes = [o.size() if type(o) is _Int else o for o in operands]
    return None if any(n is None for n in sizes) else function(*sizes)


def as_int(number: Number, size: Callable[[], Any] = lambda: None) -> Any:
    """Return a Number that is a whole one as one that passes for an int. size: gives it as a Size, or None."""
    return _Int(number.value, int(number.concrete), number.read, number.decide, size)


def as_size(thing: Any) -> Any:
    """Return a whole number that may change as a size, where it can be one; anything else as it is."""
    size = thing.size() if type(thing) is _Int else None
    return thing if size is None else size


def as_float(number: Any) -> Any:
    """Return a Number as one that passes for a float: an argument that is a float is asked for as one."""
    if type(number) is not Number:
        return number
    return _Float(number.value, number.concrete, number.read, number.decide)
