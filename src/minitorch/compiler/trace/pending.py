"""Pending: an array whose numbers will be computed when somebody asks for them.

Enters: NumPy calls, as for any Traced. Leaves: Traced arrays whose own array is a promise (promised.py): shape, dtype
and layout are known, the numbers are not. Nothing is refused here: what cannot be written down without numbers (a shape
that depends on them, a function of somebody else's) has everything that is pending computed first, and is then done by
NumPy at once.

The memory of one that is computed is its own from then on: writing into it is pending again, and ends up there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import ref

import numpy as np

from minitorch.compiler.ir import builder as make
from minitorch.compiler.ir.program import COMPARISONS, LOGIC, TESTS, Value
from minitorch.compiler.trace.kinds import kind_of
from minitorch.compiler.trace.promised import NumbersMissing, Promised
from minitorch.compiler.trace.refusal import CompileError
from minitorch.compiler.trace.traced import (
    BINARY_UFUNCS,
    COMPARISON_UFUNCS,
    METHODS,
    OPERATORS,
    UNARY_UFUNCS,
    Traced,
    writable,
)
from minitorch.compiler.trace.ufuncs import program_function
from minitorch.engine.modes import current
from minitorch.engine.node import Node
from minitorch.engine.recording import recorder
from minitorch.ops.shape import offset_in_memory

# What a recording may raise where numbers are needed, or where something does not fit: NumPy says then what it is, or
# gives the answer.
UNRECORDED = (
    NumbersMissing, CompileError, TypeError, ValueError, LookupError, AttributeError, AssertionError, ArithmeticError,
)  # fmt: skip


def input_of(array: np.ndarray) -> Value:
    """Return a value whose numbers are there."""
    return Value("input", (), {"index": 0, "array": array}, array.shape, array.dtype)


class Pending(Traced):
    """A handle on a value that is yet to be computed, or on memory that was.

    memory: where its numbers are, or, if it was written into since, will be. It is None before they are first computed,
    and of a view. settled: the value that stands for what the memory holds.
    """

    __slots__ = ("_is_to_be_copied", "_memory", "_recording", "_settled")

    notes_lines = False  # (programs are found by their structure, whichever lines it comes from)

    def __init__(self, value: Value, array: Any, known: bool = False) -> None:
        super().__init__(value, array, known)
        if not known and self._array.__class__ is not Promised:
            self._array = self._array.view(Promised)
        self._memory: np.ndarray | None = None
        self._settled: Value | None = None
        self._is_to_be_copied = False
        active: Any = recorder()
        self._recording = active
        active.pending.append(ref(self))

    base = property(lambda self: self._memory if self._source is None else self._source)
    # The array that holds its numbers (watch.py), None if they are pending.
    __minitorch_there__ = property(lambda self: self._memory if self.is_settled() else None)

    # --- computing ------------------------------------------------------------------------------------------------

    def is_settled(self) -> bool:
        """Tell whether its numbers are in its memory."""
        root = self.root()
        return root._value is root._settled

    @property
    def offset_in_memory(self) -> int:
        """How many elements lie before its first in the memory of what this is a view of."""
        return offset_in_memory(self.numbers())

    def settle(self, memory: np.ndarray) -> None:
        """Let this be where its numbers are."""
        self._memory = memory
        self._value = self._settled = input_of(memory)
        self._is_to_be_copied = self._recording.may_change(memory)
        self._array, self._known = memory.view(Promised), False
        self._has_changed()

    def let_go(self) -> None:
        """Hold no longer, as a view, what its value was made from: it is taken anew when it is looked at."""
        self._value, self._seen, self._looked = None, -1, -1  # type: ignore[assignment]

    @property
    def value(self) -> Value:
        """The value this handle stands for now; of memory that others may write into, as it is now."""
        self._update()
        if self._is_to_be_copied and self._value is self._settled and self._memory is not None:
            self._value = self._settled = input_of(self._memory.copy())
            self._is_to_be_copied = False
        return self._value

    def numbers(self) -> np.ndarray:
        """Compute what is pending, and return the array."""
        return self._recording.computed(self)

    def assign(self, new: Traced) -> None:
        """Write: stand for another value from now on; what holds numbers already will hold the new ones."""
        super().assign(new)
        if self._source is not None:
            self.let_go()  # what it looks at may be computed by now: it is taken anew
        if self._memory is not None:
            self._array, self._known = self._memory.view(Promised), False  # where it will be
            self._recording.written(self)

    def stand_for(self, value: Value) -> bool:
        """Stand for a value of the same shape and dtype, as `assign` does, and tell if that could be."""
        array = self._array
        fits = self._source is None and array.__class__ is Promised and not self._known
        if not fits or value.shape != array.shape or value.dtype is not array.dtype:
            return False
        self._value = value
        self._has_changed()
        if self._memory is not None:
            self._recording.written(self)
        return True

    def _counts(self) -> bool:
        """Tell whether it is a single number that is there and may be changed at once: whoever reads it has a copy."""
        is_there = self._source is None and self._memory is not None and self._value is self._settled
        return is_there and self._memory.flags.writeable and current().recorder is self._recording  # type: ignore[union-attr]

    # --- asking for numbers ---------------------------------------------------------------------------------------

    def _look(self, what: str) -> np.ndarray:
        return self.array if self.known else self.numbers()

    def item(self, *place: Any) -> Any:
        """Return one number."""
        return self._look("item").item(*place)

    def tolist(self) -> Any:
        """Return nested lists of numbers."""
        return self._look("tolist").tolist()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        found = self._look("array")
        return np.asarray(found, dtype) if copy is False else np.array(found, dtype)

    def __decide__(self, unknown: bool | None) -> bool:
        """Answer an op's question about a condition: what is to be refused is looked at now."""
        if self.known or self.is_settled():
            return bool(self._look("a condition"))
        return bool(self._recording.evaluated(self)) if unknown is None else unknown

    def __minitorch_memory__(self) -> np.ndarray:
        self._recording.flush()  # whoever gets the memory may write into it: what is pending may not read it then
        return self.numbers()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._look("pickle").__reduce_ex__(protocol)

    def __dlpack__(self, **options: Any) -> Any:
        return self.numbers().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.numbers().__dlpack_device__()

    def __getattr__(self, name: str) -> Any:
        if hasattr(np.ndarray, name) and not name.startswith("__"):
            return getattr(self.numbers(), name)  # what nobody records
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return repr(self._look("repr"))

    def __str__(self) -> str:
        return str(self._look("str"))

    def __format__(self, form: str) -> str:
        return format(self._look("format"), form)

    def settled(self) -> np.ndarray:
        """Return a copy for whoever keeps it."""
        return np.array(self._look("settled"))

    # --- NumPy's protocols ------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and len(options) == 1 and "out" in options:
            (target, *more) = options["out"]
            if not more and target.__class__ is Pending and self._recording.map_into(target, ufunc, inputs):
                return target
        if method == "__call__" and not options and (found := self._recording.map(ufunc, inputs)) is not None:
            return found
        if any(isinstance(each, Node) for each in inputs):
            return NotImplemented
        writes = options.get("out") is not None or method == "at"
        if method == "__call__" and not options and not self._array.shape and _are_numbers(inputs):
            return self._recording.at_once(ufunc, inputs)
        record = lambda *given, **more: Traced.__array_ufunc__(self, ufunc, method, *given, **more)
        return self._recording.do(record, getattr(ufunc, method), inputs, options, writes)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if any(issubclass(each, Node) for each in types):
            return NotImplemented
        if function in (np.may_share_memory, np.shares_memory):
            return function(
                *(each.array.view(np.ndarray) if isinstance(each, Pending) else each for each in args)
            )
        if function is np.empty_like and not options and len(args) == 1 and self._array.flags.c_contiguous:
            shape, dtype = self._array.shape, self._array.dtype
            if shape and current().recorder is self._recording and dtype.kind == "f":
                return Pending(make.full(shape, 0, dtype), Promised(shape, dtype))
        record = lambda *given, **more: Traced.__array_function__(self, function, types, given, more)
        writes = function in _WRITERS or options.get("out") is not None
        return self._recording.do(record, function, args, options, writes)

    def __minitorch_op__(self, op: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        record = lambda *given, **more: Traced.__minitorch_op__(self, op, given, more)
        return self._recording.do(record, op.forward, inputs, attributes)

    def __getitem__(self, key: Any) -> Any:
        return self._recording.do(_read, operator.getitem, (self, key), {})

    def __setitem__(self, key: Any, new: Any) -> None:
        self._recording.do(_write, operator.setitem, (self, key, new), {}, True)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    __hash__ = object.__hash__


# --- the commonest: a function of arrays of one shape, and of Python's numbers --------------------------------------

UFUNCS: dict[str, Any] = {
    **{
        f"__{name}__": ufunc for name, ufunc in {**BINARY_UFUNCS, **COMPARISON_UFUNCS, **UNARY_UFUNCS}.items()
    },
    **{f"__r{name}__": ufunc for name, ufunc in BINARY_UFUNCS.items()},
}
# How a ufunc is written down, by its operands' shape and kinds: their dtypes in the program, the function and its
# dtype, the result's; None where it is not so simple.
_plans: dict[Any, Any] = {}
MOST_PLANS = 4096  # then all are forgotten


def pending(value: Value) -> Pending:
    """Return a handle on a value, as Pending(value, …) does, for one that is known to lie in order."""
    found: Any = object.__new__(Pending)
    found._value = value
    found._array = Promised(value.shape, value.dtype)
    found._known = found._is_to_be_copied = False
    found._source = found._refresh = found._write_back = found._place = found._memory = found._settled = None
    found._version = found._seen = 0
    found._looked = -1
    found._recording = active = current().recorder
    active.pending.append(ref(found))
    return found


def elementwise(ufunc: Any, operands: Sequence[Any]) -> Value | None:
    """Write a ufunc down the short way; None where that does not do."""
    kinds: list[Any] = [ufunc]
    shape = None
    for each in operands:
        kind = each.__class__
        if kind is Pending:
            array = each._array
            if shape is None:
                shape = array.shape
            elif array.shape != shape:
                return None
            if not array.flags.c_contiguous:
                return None
            kinds.append(array.dtype)
        elif kind is float or kind is int:
            kinds.append(kind)
        else:
            return None
    if not shape and (shape is None or _are_numbers(operands)):
        return None
    kinds.append(shape)
    key = tuple(kinds)
    plan = _plans.get(key, _plans)
    if plan is _plans:
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        plan = _plans[key] = _plan(*key)
    if plan is None:
        return None
    dtypes, mapped, dtype, result, one, expanded = plan
    values = []
    for each, wanted, shaped in zip(operands, dtypes, expanded, strict=True):
        if each.__class__ is Pending:
            value = each.value
            values.append(value if value.dtype is wanted else make.cast(value, wanted))
            continue
        try:
            # (Not shared with the same number elsewhere: of two rates, one may change in the next round.)
            number = Value("constant", (), {"array": np.array(each, wanted).reshape(one)}, one, wanted)
        except OverflowError:
            return None
        number.kind = shaped[2]
        shaped[2] = shaped[2] or kind_of(number)
        values.append(number if one == shape else _alike("expand", (number,), shaped, shape, wanted))
    value = _alike("map", tuple(values), mapped, shape, dtype)
    return value if result is dtype else make.cast(value, result)


def _alike(primitive: str, inputs: tuple[Value, ...], made: list[Any], shape: Any, dtype: Any) -> Value:
    """Return a value; made: its attributes and, once one was made, its kind."""
    value = Value(primitive, inputs, made[0], shape, dtype)
    value.kind = made[1]
    made[1] = made[1] or kind_of(value)
    return value


def _plan(ufunc: Any, *kinds_and_shape: Any) -> Any:
    *kinds, shape = kinds_and_shape
    name = program_function(ufunc)
    if name is None or name == "erf" or any(kind.kind == "c" for kind in kinds if isinstance(kind, np.dtype)):
        return None
    try:
        *dtypes, result = ufunc.resolve_dtypes((*kinds, None))
    except TypeError:
        return None
    is_truth = name in COMPARISONS | TESTS | LOGIC
    dtype = np.dtype(np.bool_) if is_truth else dtypes[-1]
    # (The kinds of what is made, and of a number, are added to the attributes as soon as they are known.)
    expanded = [[{"shape": shape}, 0, 0] for _ in dtypes]
    return dtypes, [{"function": name}, 0], dtype, result, (1,) * len(shape), expanded


_WRITERS = {np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask}


def _are_numbers(inputs: Sequence[Any]) -> bool:
    """Tell whether operands are single numbers that are there."""
    return all(
        (isinstance(each, Pending) and not each._array.shape and (each.known or each.is_settled()))
        or (not isinstance(each, (Traced, Node)) and not np.ndim(each))
        for each in inputs
    )


def _key(key: Any, masks: bool) -> Any:
    """Return an index with single integers as Python's; refuse masks, by which the shape would depend on numbers."""
    parts = key if isinstance(key, tuple) else (key,)
    found = tuple(
        each._look("index")[()] if isinstance(each, Pending) and not each._array.shape else each
        for each in parts
    )
    if not masks and any(
        getattr(each, "dtype", None) == np.bool_ or each.__class__ is bool for each in found
    ):
        raise NumbersMissing("a mask")
    return found if isinstance(key, tuple) else found[0]


def _read(x: Traced, key: Any) -> Any:
    return Traced.__getitem__(x, _key(key, masks=False))


def _write(x: Traced, key: Any, new: Any) -> None:
    Traced.__setitem__(writable(x), _key(key, masks=np.ndim(new) == 0), new)


def _either(name: str, writes: bool = False) -> Any:
    """Return a method that is recorded, or, where that cannot be, computed by NumPy's array of that name."""
    record, compute = getattr(Traced, name), getattr(np.ndarray, name)

    def method(self: Pending, *args: Any, **options: Any) -> Any:
        return self._recording.do(record, compute, (self, *args), options, writes)

    return method


def _operator(name: str) -> Any:
    record, compute = getattr(Traced, name), getattr(np.ndarray, name)
    ufunc, is_reflected = UFUNCS.get(name), name.startswith("__r") and name != "__rshift__"

    def method(self: Pending, *others: Any) -> Any:
        operands = (self, *others) if not is_reflected else (*others, self)
        if ufunc is not None and (found := self._recording.map(ufunc, operands)) is not None:
            return found
        if any(isinstance(each, Node) for each in others):
            return NotImplemented
        if not self._array.shape and _are_numbers((self, *others)):
            return self._recording.at_once(compute, (self, *others))
        return self._recording.do(record, compute, (self, *others), {})

    return method


def _in_place(name: str) -> Any:
    record, compute = getattr(Traced, name), getattr(np.ndarray, name)
    out_of_place: Callable[..., Any] = getattr(np.ndarray, name.replace("__i", "__", 1))
    ufunc = UFUNCS[name.replace("__i", "__", 1)]

    def method(self: Pending, other: Any) -> Any:
        if isinstance(other, Node):
            other = other._data
        if not self._array.shape and other.__class__ in (int, float) and self._counts():
            compute(self._memory, other)
            self.settle(self._memory)  # type: ignore[arg-type]
            return self
        if self._recording.map_into(self, ufunc, (self, other)):
            return self
        if not self._array.shape and _are_numbers((self, other)):
            result = self._recording.at_once(out_of_place, (self, other))
            self[...] = result
        else:
            self._recording.do(record, compute, (self, other), {}, True)
        return self

    return method


for _name in (*METHODS, "fill"):
    if _name != "__getitem__":
        setattr(Pending, _name, _either(_name, writes=_name == "fill"))
for _name in OPERATORS:
    setattr(Pending, _name, _operator(_name))
for _name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift",
):  # fmt: skip
    setattr(Pending, f"__i{_name}__", _in_place(f"__i{_name}__"))
