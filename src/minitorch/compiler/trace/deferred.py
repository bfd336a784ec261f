"""Python numbers that only the program can tell: `loss.item()`, the elements of `x.tolist()`.

Enters: a Traced, and which of its elements. Leaves: a `Deferred`, which passes for the number. It may leave the
function; Python's arithmetic on it is done at the end of each call, on what the program gave. Beside an array it is
computed in the program. What needs the number at once (a condition, a text, an index) is refused.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.ir import builder as make
from minitorch.compiler.ir.program import FUNCTIONS, Value
from minitorch.compiler.ir.sizes import Size, is_fixed
from minitorch.compiler.trace.number import Number
from minitorch.compiler.trace.refusal import refuse
from minitorch.compiler.trace.traced import HANDLERS, Traced
from minitorch.engine.recording import recorder

_DTYPES = {float: np.dtype(np.float64), int: np.dtype(np.int64), bool: np.dtype(np.bool_)}


class Deferred(Number):
    """A Python number that is known when the program has run.

    function: Python's, of the operands; None for an element of an array, whose operands are a Traced and a place in it.
    When the recording is over, it is the number of that run: whoever kept one gets no riddle.
    """

    __slots__ = ("function", "operands", "recording")

    decides = False

    def __init__(self, function: Callable[..., Any] | None, operands: tuple[Any, ...], concrete: Any) -> None:
        self.function = function
        self.operands = operands
        self.concrete = concrete
        self.recording: Any = recorder()

    # It passes for a Python number, wherever one is asked for.
    __class__ = property(lambda self: type(self.concrete))

    @property
    def value(self) -> Value:  # type: ignore[override]
        """What it is in the program."""
        dtype = _DTYPES.get(type(self.concrete))
        if self.function is None and dtype is not None:
            array, place = self.operands
            return make.reshape(make.cast(array[place].value, dtype), ())
        if self.function is float and isinstance(self.operands[0], Number):
            return make.cast(self.operands[0].value, np.float64)
        ufunc: Any = _UFUNCS.get(self.function, self.function)
        if dtype not in (np.float64, np.int64) or getattr(ufunc, "__name__", "") not in FUNCTIONS:
            raise self._refusal("arithmetic on a tensor's value beside a tensor")
        values = [o.value if isinstance(o, Number) else make.constant(np.asarray(o)) for o in self.operands]
        return make.map_values(ufunc.__name__, *(make.cast(v, dtype) for v in values))

    def leaves(self) -> list[Traced]:
        """Return the arrays it is computed from."""
        if self.function is None:
            return [self.operands[0]]
        return [leaf for o in self.operands if isinstance(o, Deferred) for leaf in o.leaves()]

    def computing(self, numbers: dict[int, int]) -> Callable[[list[Any]], Any]:
        """Return a function that computes it from a call's arrays. numbers: which of them each leaf is, by its id."""
        function = self.function
        if function is None:
            traced, place = self.operands
            number = numbers[id(traced)]
            return lambda arrays: arrays[number][place].item()
        parts = [_computing(o, numbers) for o in self.operands]
        return lambda arrays: function(*(part(arrays) for part in parts))

    def _refusal(self, what: str) -> Exception:
        return refuse(
            what,
            "return the number and do this outside, or write it on Tensors: minitorch.where(condition, a, b)",
        )

    def _is_over(self) -> bool:
        return self.recording is None or self.recording.is_over

    def _apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        if self._is_over():
            return function(*(o.concrete if isinstance(o, Number) else o for o in operands))
        operands = tuple(o.number if type(o) is Size else o for o in operands)
        operands = tuple(given_by_program(o) if isinstance(o, Number) else o for o in operands)
        if not all(isinstance(o, (int, float, complex, str)) for o in operands):
            return NotImplemented
        concrete = function(*(o.concrete if isinstance(o, Deferred) else o for o in operands))
        return Deferred(function, operands, concrete)

    def _now(self, function: Callable[..., Any], *others: Any) -> Any:
        if not self._is_over():
            raise self._refusal(f"{function.__name__} of a tensor's value")
        return function(self.concrete, *(o.concrete if isinstance(o, Number) else o for o in others))

    def __neg__(self) -> Any:
        return self._apply(operator.neg, self)

    def __pos__(self) -> Any:
        return self._apply(operator.pos, self)

    def __abs__(self) -> Any:
        return self._apply(operator.abs, self)

    def __invert__(self) -> Any:
        return self._apply(operator.invert, self)

    def __round__(self, digits: Any = None) -> Any:
        return self._apply(round, self) if digits is None else self._apply(round, self, digits)

    def __floor__(self) -> Any:
        return self._apply(math.floor, self)

    def __ceil__(self) -> Any:
        return self._apply(math.ceil, self)

    def __trunc__(self) -> Any:
        return self._apply(math.trunc, self)

    def __bool__(self) -> bool:
        return self._now(bool)

    def __float__(self) -> float:
        return self._now(float)

    def __int__(self) -> int:
        return self._now(int)

    def __index__(self) -> int:
        return self._now(operator.index)

    def __complex__(self) -> complex:
        return self._now(complex)

    def __hash__(self) -> int:
        return self._now(hash)

    def __repr__(self) -> str:
        return self._now(repr)

    def __str__(self) -> str:
        return self._now(str)

    def __format__(self, form: str) -> str:
        return self._now(format, form)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __reduce__(self) -> Any:
        return type(self.concrete), (self._now(type(self.concrete)),)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        for each in inputs:
            if hasattr(each, "__minitorch_op__"):  # an array that records: a number beside it is an operand
                return each.__array_ufunc__(ufunc, method, *inputs, **options)
        if method == "__call__" and not options:
            found = self._apply(ufunc, *inputs)
            if found is not NotImplemented:
                return found
        return getattr(ufunc, method)(*(self._now(float) if i is self else i for i in inputs), **options)


_UFUNCS: dict[Any, Any] = {operator.neg: np.negative, operator.abs: np.absolute}
for _name, _function, _ufunc in (
    ("add", operator.add, np.add), ("sub", operator.sub, np.subtract), ("mul", operator.mul, np.multiply),
    ("truediv", operator.truediv, np.divide), ("pow", operator.pow, np.power),
    ("floordiv", operator.floordiv, None), ("mod", operator.mod, None), ("and", operator.and_, None),
    ("or", operator.or_, None), ("xor", operator.xor, None),
):  # fmt: skip
    setattr(Deferred, f"__{_name}__", lambda self, other, _f=_function: self._apply(_f, self, other))
    setattr(Deferred, f"__r{_name}__", lambda self, other, _f=_function: self._apply(_f, other, self))
    if _ufunc is not None:
        _UFUNCS[_function] = _ufunc
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _compare = getattr(operator, _name)
    setattr(Deferred, f"__{_name}__", lambda self, other, _f=_compare: self._now(_f, other))


def _computing(operand: Any, numbers: dict[int, int]) -> Callable[[list[Any]], Any]:
    if isinstance(operand, Deferred):
        return operand.computing(numbers)
    if isinstance(operand, Number):  # read where it stands
        read = operand.read
        return lambda arrays: read()
    return lambda arrays: operand


def deferred(function: Callable[..., Any], *operands: Any) -> Any:
    """Return what a function gives of numbers and texts of which some are not known yet: at once, if all are."""
    if not any(isinstance(o, Number) for o in operands):
        return function(*operands)
    concrete = function(*(o.concrete if isinstance(o, Number) else o for o in operands))
    return Deferred(function, operands, concrete)


def given_by_program(number: Number) -> Deferred:
    """Return a number that may be another one at the next call as one that the program gives."""
    if isinstance(number, Deferred):
        return number
    concrete = np.asarray(number.concrete)
    return Deferred(None, (Traced(make.cast(number.value, concrete.dtype), concrete), ()), number.concrete)


def element(array: Traced, place: tuple[int, ...]) -> Deferred:
    """Return one element as a Python number."""
    active: Any = recorder()
    numbers = active.numbers_of(array) if active is not None and active.repeats else array.array
    return Deferred(None, (array, place), numbers[place].item())


def item(x: Traced, *place: Any) -> Deferred:
    """Return what x.item() is."""
    np.broadcast_to(np.zeros((), x.dtype), x.array.shape).item(*place)  # NumPy says what is wrong with it
    if not is_fixed(*x.shape):
        found = x[tuple(place)] if len(place) == x.ndim else x.reshape(-1)[place[0] if place else 0]
        return element(found, ())
    flat = x.array.size - 1 if not place else np.arange(x.array.size).reshape(x.shape).item(*place)
    array = Traced(x.value, x.array)  # as it is now: x may be written into
    return element(array, tuple(int(i) for i in np.unravel_index(flat, x.shape)))


def tolist(x: Traced) -> Any:
    """Return what x.tolist() is."""
    array = Traced(x.value, x.array)

    def nested(place: tuple[int, ...]) -> Any:
        if len(place) == x.ndim:
            return element(array, place)
        return [nested((*place, i)) for i in range(x.shape[len(place)])]

    return nested(())


HANDLERS["item"] = item
HANDLERS["tolist"] = tolist
