"""Traced: an array that writes down what is done to it.

Enters: NumPy calls on Traced arrays. Leaves: the same results, and beside each the Value that says how
it is computed. It speaks NumPy's protocols, so every op and every derivative rule records itself; an
array is carried along, so a recording is also an ordinary run, and its results are known.

NumPy writes in place (`out=`, `+=`, `x[i] = …`); values never change. So a Traced is a handle: writing
moves it to another value, and through a view on to what it is a view of.
"""

from __future__ import annotations

import math
import operator
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minitorch.compiler import builder as make
from minitorch.compiler.program import FUNCTIONS, Value
from minitorch.recording import recorder

PACKAGE = Path(__file__).parent.parent


class CompileError(RuntimeError):
    """A function does something that cannot be written down ahead of its numbers."""


def where_in_user_code() -> str:
    """Return the line outside this library that is being run: 'file.py:12: the line'."""
    for frame in reversed(traceback.extract_stack()):
        path = Path(frame.filename)
        if PACKAGE not in path.parents and "numpy" not in path.parts:
            return f"{path.name}:{frame.lineno}: {frame.line}"
    return "an unknown line"


def refuse(what: str, instead: str) -> CompileError:
    """Return the error for something that needs numbers which are only known when the program runs."""
    return CompileError(
        f"compile: {what} needs a number that is only known when the program runs\n  {where_in_user_code()}\n{instead}"
    )


class Traced:
    """A handle on a value of the program being recorded, with the array it has in this run.

    known: it depends on nothing that can change between calls, so its numbers may be looked at.
    """

    __slots__ = (
        "__weakref__",
        "_array",
        "_known",
        "_refresh",
        "_seen",
        "_source",
        "_value",
        "_version",
        "_write_back",
    )

    __array_priority__ = 2000

    def __init__(self, value: Value, array: Any, known: bool = False) -> None:
        if array.__class__ is not np.ndarray:
            array = np.asarray(array)
        if value.shape != array.shape or value.dtype != array.dtype:
            raise AssertionError(f"recorded {value}, but NumPy gives {array.dtype}[{array.shape}]")
        self._value = value
        self._array = array
        self._known = known
        self._version = 0
        self._source: Traced | None = None  # what this is a view of
        self._seen = 0  # the source's version this view was taken at
        self._refresh: Callable[[Traced], Traced] | None = None  # take the view again
        self._write_back: Callable[[Traced, Traced], Traced] | None = (
            None  # the source with the view replaced
        )

    # --- handle and view ------------------------------------------------------------------------

    def _update(self) -> None:
        """A view whose source was written into shows the new content."""
        source = self._source
        if source is None:
            return
        source._update()
        if source._version != self._seen:
            assert self._refresh is not None
            again = self._refresh(source)
            self._value, self._array, self._known = again._value, again._array, again._known
            self._seen = source._version
            self._version += 1

    @property
    def value(self) -> Value:
        """The value this handle stands for now."""
        self._update()
        return self._value

    @property
    def array(self) -> np.ndarray:
        """The array it is in this run."""
        self._update()
        return self._array

    @property
    def known(self) -> bool:
        """Whether its numbers are the same at every call."""
        self._update()
        return self._known

    def assign(self, new: Traced) -> None:
        """Write: stand for another value of the same shape from now on, through views as well."""
        self._update()
        if new.shape != self.shape or new.dtype != self.dtype:
            new = broadcast_to(new.astype(self.dtype), self.shape)
        self._value, self._array, self._known = new.value, new.array, new.known
        self._version += 1
        if self._source is not None:
            assert self._write_back is not None
            self._source.assign(self._write_back(self._source, self))
            self._seen = self._source._version

    def view_of(
        self,
        source: Traced,
        refresh: Callable[[Traced], Traced],
        write_back: Callable[[Traced, Traced], Traced],
    ) -> Traced:
        """Declare this a view, if NumPy made it one, and return it."""
        if np.may_share_memory(self._array, source._array):
            self._source, self._refresh, self._write_back = source, refresh, write_back
            self._seen = source._version
        return self

    # --- what it is -----------------------------------------------------------------------------

    shape = property(lambda self: self._array.shape)
    dtype = property(lambda self: self._array.dtype)
    ndim = property(lambda self: self._array.ndim)
    size = property(lambda self: self._array.size)
    itemsize = property(lambda self: self._array.itemsize)
    nbytes = property(lambda self: self._array.nbytes)
    flags = property(lambda self: self._array.flags)
    strides = property(lambda self: self._array.strides)
    base = None

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Traced]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Traced({self.value!r})"

    # --- looking at numbers ---------------------------------------------------------------------

    def _look(self, what: str) -> np.ndarray:
        if self.known:
            return self.array
        raise refuse(
            what,
            "write the choice as minitorch.where(condition, a, b), or move this line out of the compiled function",
        )

    def __bool__(self) -> bool:
        return bool(self._look("a condition on a tensor's values (if, while, and, or, not)"))

    def __decide__(self, unknown: bool | None) -> bool:
        """Answer an op's question about a condition; None: it is a refusal, to be checked when the program runs."""
        if self.known:
            return bool(self.array)
        if unknown is None:
            active: Any = recorder()
            active.check(self)
            return False
        return unknown

    def __float__(self) -> float:
        return float(self._look("float(tensor)"))

    def __int__(self) -> int:
        return int(self._look("int(tensor)"))

    def __index__(self) -> int:
        return operator.index(self._look("a tensor as an index or a size"))

    def __complex__(self) -> complex:
        return complex(self._look("complex(tensor)"))

    def item(self, *place: Any) -> Any:
        """Return one number, if it is the same at every call."""
        return self._look("tensor.item()").item(*place)

    def tolist(self) -> Any:
        """Return nested lists, if the numbers are the same at every call."""
        return self._look("tensor.tolist()").tolist()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        found = self._look("a NumPy function on a tensor's own array (numpy(), np.asarray)")
        return np.array(found, dtype=dtype)

    def tobytes(self) -> bytes:
        """Return the bytes, if they are the same at every call."""
        return self._look("tensor.tobytes()").tobytes()

    @property
    def data(self) -> Any:
        """The raw memory, if it is the same at every call."""
        return self._look("the memory of a tensor").data

    # --- NumPy's protocols ----------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        result = apply_ufunc(ufunc, method, inputs, options)
        if out is None:
            return result
        if method == "at":
            return None
        targets = out if isinstance(out, tuple) else (out,)
        results = result if isinstance(result, tuple) else (result,)
        for target, each in zip(targets, results, strict=True):
            if target is not None:
                _writable(target).assign(each)
        return targets[0] if len(targets) == 1 else targets

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        implementation = FUNCTIONS_OF_NUMPY.get(function)
        if implementation is not None:
            return implementation(*args, **options)
        return call_back(function, args, options)

    def __minitorch_op__(self, op: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        lowering = LOWERINGS.get(op.name)
        if lowering is None:
            lowering = getattr(op.forward, "__wrapped__", op.forward)
        return lowering(*inputs, **attributes)

    # --- methods --------------------------------------------------------------------------------

    def astype(self, dtype: Any, copy: bool = True, **options: Any) -> Traced:
        """Return it in another dtype."""
        return Traced(make.cast(self.value, dtype), self.array.astype(dtype), self.known)

    def copy(self, order: str = "C") -> Traced:
        """Return a handle of its own on the same value."""
        return Traced(self.value, self.array.copy(), self.known)

    def __copy__(self) -> Traced:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Traced:
        return self.copy()

    def reshape(self, *shape: Any, **options: Any) -> Traced:
        """Return the elements under another shape."""
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = tuple(shape[0])
        array = self.array.reshape(shape)
        out = Traced(make.reshape(self.value, array.shape), array, self.known)
        return out.view_of(self, lambda s: s.reshape(shape), lambda s, v: v.copy().reshape(s.shape))

    def transpose(self, *axes: Any) -> Traced:
        """Return it with its axes in another order, backwards by default."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            axes = () if axes[0] is None else tuple(axes[0])
        order = tuple(a % self.ndim for a in axes) if axes else tuple(range(self.ndim))[::-1]
        back = tuple(int(i) for i in np.argsort(order))
        out = Traced(make.permute(self.value, order), self.array.transpose(order), self.known)
        return out.view_of(self, lambda s: s.transpose(order), lambda s, v: v.copy().transpose(back))

    T = property(lambda self: self.transpose())
    mT = property(lambda self: self.swapaxes(-1, -2))

    def swapaxes(self, a: int, b: int) -> Traced:
        """Return it with two axes exchanged."""
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.transpose(order)

    def ravel(self, order: str = "C") -> Traced:
        """Return all elements on one axis."""
        return self.reshape(-1)

    def flatten(self, order: str = "C") -> Traced:
        """Return all elements on one axis, as a copy."""
        return self.reshape(-1).copy()

    def squeeze(self, axis: Any = None) -> Traced:
        """Return it without its axes of length 1."""
        return self.reshape(self._array.squeeze(axis).shape)

    def sum(
        self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, **more: Any
    ) -> Any:
        """Add up."""
        return _into(out, _reduce(np.add, self, axis, keepdims, dtype))

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Multiply up."""
        return _into(out, _reduce(np.multiply, self, axis, keepdims, dtype))

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False, **more: Any) -> Any:
        """Return the largest."""
        return _into(out, _reduce(np.maximum, self, axis, keepdims))

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False, **more: Any) -> Any:
        """Return the smallest."""
        return _into(out, _reduce(np.minimum, self, axis, keepdims))

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Tell whether all are true."""
        return _into(out, _reduce(np.logical_and, self, axis, keepdims))

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Tell whether one is true."""
        return _into(out, _reduce(np.logical_or, self, axis, keepdims))

    def mean(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """Return the average."""
        count = self.size // max(math.prod(_reduce(np.add, self, axis, False).shape), 1)
        return self.sum(axis=axis, keepdims=keepdims) / count

    def argmax(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Return the place of the largest."""
        return _arg_reduce("argmax", self, axis, keepdims)

    def argmin(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Return the place of the smallest."""
        return _arg_reduce("argmin", self, axis, keepdims)

    def cumsum(self, axis: Any = None) -> Traced:
        """Return running totals."""
        return _scan("add", np.cumsum, self, axis)

    def cumprod(self, axis: Any = None) -> Traced:
        """Return running products."""
        return _scan("multiply", np.cumprod, self, axis)

    def dot(self, other: Any) -> Any:
        """Multiply matrices."""
        return np.matmul(self, other) if self.ndim and np.ndim(other) else self * other

    def take(self, indices: Any, axis: Any = None, **options: Any) -> Traced:
        """Return the elements at some places along an axis."""
        source = self.reshape(-1) if axis is None else self
        return source[
            (slice(None),) * ((axis or 0) % source.ndim)
            + (np.asarray(indices) if isinstance(indices, list) else indices,)
        ]

    def repeat(self, repeats: Any, axis: Any = None) -> Traced:
        """Repeat each element."""
        source = self.reshape(-1) if axis is None else self
        places = np.repeat(np.arange(source.shape[axis or 0]), repeats)
        return source.take(places, axis or 0)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Traced:
        """Return a diagonal of two axes."""
        return _diagonal(self, offset, axis1, axis2)

    def fill(self, number: Any) -> None:
        """Write one number everywhere."""
        self[...] = number

    def conj(self) -> Traced:
        """Return the complex conjugate; of real numbers themselves."""
        return self if self.dtype.kind != "c" else call_back(np.conj, (self,), {})

    conjugate = conj

    @property
    def real(self) -> Traced:
        """The real part."""
        return self if self.dtype.kind != "c" else call_back(np.real, (self,), {})

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return call_back(np.imag, (self,), {})

    def view(self, kind: Any) -> Any:
        """Return the same bytes as another dtype."""
        return call_back(lambda x: x.view(kind).copy(), (self,), {})

    # --- indexing -------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Traced:
        plan = Key(self, key)
        out = plan.read(self)
        if plan.basic:
            return out.view_of(self, lambda s: s[key], lambda s, v: plan.write(s, v, "set"))
        return out

    def __setitem__(self, key: Any, value: Any) -> None:
        self.assign(Key(self, key).write(self, value, "set"))

    # --- operators ------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        return np.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return np.matmul(other, self)

    __hash__ = object.__hash__


def _operator(ufunc: Any, reflected: bool = False) -> Any:
    def method(self: Traced, other: Any) -> Any:
        return apply_ufunc(ufunc, "__call__", (other, self) if reflected else (self, other), {})

    return method


def _in_place(ufunc: Any) -> Any:
    def method(self: Traced, other: Any) -> Traced:
        self.assign(apply_ufunc(ufunc, "__call__", (self, other), {}))
        return self

    return method


for _name, _ufunc in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "lshift": np.left_shift, "rshift": np.right_shift,
}.items():  # fmt: skip
    setattr(Traced, f"__{_name}__", _operator(_ufunc))
    setattr(Traced, f"__r{_name}__", _operator(_ufunc, reflected=True))
    setattr(Traced, f"__i{_name}__", _in_place(_ufunc))
for _name, _ufunc in {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal
}.items():  # fmt: skip
    setattr(Traced, f"__{_name}__", _operator(_ufunc))
for _name, _ufunc in {"neg": np.negative, "abs": np.absolute, "invert": np.invert}.items():
    setattr(Traced, f"__{_name}__", lambda self, _ufunc=_ufunc: apply_ufunc(_ufunc, "__call__", (self,), {}))
Traced.__pos__ = lambda self: self  # type: ignore[attr-defined]


# --- numbers that may differ at the next call -----------------------------------------------------


class Number:
    """A Python number that may be another one at the next call: a learning rate, a step count, a dropout rate.

    It computes like a Python float. A decision on it (`if momentum:`) is taken on its value in this run and
    remembered: a later call on which it would go the other way records anew.

    read: gives the number as it is at a call, or None where it comes out of the program's own arrays.
    """

    __slots__ = ("concrete", "decide", "read", "value")

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

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if any(isinstance(i, Traced) for i in inputs):
            return next(i for i in inputs if isinstance(i, Traced)).__array_ufunc__(
                ufunc, method, *inputs, **options
            )
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
Number.__neg__ = lambda self: self._with(np.negative, self)  # type: ignore[attr-defined]
Number.__abs__ = lambda self: self._with(np.absolute, self)  # type: ignore[attr-defined]
Number.__pos__ = lambda self: self  # type: ignore[attr-defined]


def _comparison(compare: Callable[[Any, Any], bool]) -> Any:
    def method(self: Number, other: Any) -> Any:
        if isinstance(other, Number):
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


# --- operands -------------------------------------------------------------------------------------


def as_traced(x: Any) -> Traced:
    """Return an operand of any kind as a Traced; what is not one is a constant."""
    if isinstance(x, Traced):
        return x
    if isinstance(x, Number):
        return Traced(x.value, np.asarray(x.concrete, dtype=np.float64))
    active: Any = recorder()
    if active is not None and isinstance(x, np.ndarray):
        return active.foreign(x)  # an array from outside: the recording knows whether it may change
    return Traced(make.constant(np.array(x)), np.array(x), known=True)


def _concrete(x: Any) -> Any:
    if isinstance(x, Traced):
        return x.array
    return x.concrete if isinstance(x, Number) else x


def _known(*operands: Any) -> bool:
    return all(o.known if isinstance(o, Traced) else not isinstance(o, Number) for o in operands)


def _writable(target: Any) -> Traced:
    if not isinstance(target, Traced):
        raise CompileError(
            "compile: a NumPy array made outside the compiled function is written into with a recorded result\n"
            f"  {where_in_user_code()}\nuse a Tensor, or return the result"
        )
    return target


def _into(out: Any, result: Any) -> Any:
    if out is None:
        return result
    target = out[0] if isinstance(out, tuple) else out
    _writable(target).assign(result)
    return target


def _scalar_kind(x: Any) -> Any:
    """Return what NumPy's promotion sees: Python numbers are weak, arrays have a dtype."""
    if isinstance(x, Number):
        return float
    if isinstance(x, (bool, np.bool_)):
        return np.dtype(np.bool_)
    for kind in (int, float, complex):
        if isinstance(x, kind) and not isinstance(x, np.generic):
            return kind
    return np.asarray(_concrete(x)).dtype


def _operand_value(x: Any, dtype: Any) -> Value:
    """Return an operand as a value of a dtype."""
    if isinstance(x, (Traced, Number)):
        return make.cast(x.value, dtype)
    if isinstance(x, np.ndarray):
        return make.cast(as_traced(x).value, dtype)
    return make.constant(np.asarray(x, dtype=dtype))


# --- ufuncs ---------------------------------------------------------------------------------------


def apply_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Record a ufunc, in any of its methods."""
    if method == "reduce":
        return _ufunc_reduce(ufunc, *inputs, **options)
    if method == "accumulate":
        return _scan(ufunc.__name__, ufunc.accumulate, *inputs, **options)
    if method == "at":
        target, key, *values = inputs
        if ufunc is np.add:
            target.assign(Key(target, key).write(target, values[0], "add"))
            return None
        raise CompileError(f"compile: np.{ufunc.__name__}.at cannot be recorded; np.add.at can")
    if method != "__call__":
        return call_back(getattr(ufunc, method), inputs, options)
    inputs = tuple(np.asarray(i) if isinstance(i, (list, tuple)) else i for i in inputs)
    if ufunc is np.matmul:
        return _matmul(*inputs)
    if options.get("where", True) is not True or set(options) - {
        "where",
        "casting",
        "order",
        "subok",
        "dtype",
    }:
        return call_back(ufunc, inputs, options)
    name = {"fabs": "absolute", "positive": "positive", "conjugate": "positive"}.get(
        ufunc.__name__, ufunc.__name__
    )
    if name not in FUNCTIONS and name != "positive":
        return call_back(ufunc, inputs, options)
    with np.errstate(all="ignore"):
        array = ufunc(*(_concrete(i) for i in inputs), **options)
    if array.dtype.kind == "c" or any(np.asarray(_concrete(i)).dtype.kind == "c" for i in inputs):
        return call_back(ufunc, inputs, options)
    *kinds, result = _loop(ufunc, inputs, options, array)
    values = [_operand_value(i, kind) for i, kind in zip(inputs, kinds, strict=True)]
    value = values[0] if name == "positive" else make.map_values(name, *values)
    return Traced(make.cast(value, result), array, _known(*inputs))


def _loop(ufunc: Any, inputs: Sequence[Any], options: dict[str, Any], array: Any) -> tuple[Any, ...]:
    """Return the dtypes a ufunc computes in: one per input, and the result's."""
    dtype = options.get("dtype")
    signature = {} if dtype is None else {"signature": (None,) * len(inputs) + (np.dtype(dtype),)}
    if not hasattr(ufunc, "resolve_dtypes") or ufunc.__name__ == "erf":
        return (array.dtype,) * (len(inputs) + 1)
    return ufunc.resolve_dtypes((*(_scalar_kind(i) for i in inputs), None), **signature)


def _matmul(a: Any, b: Any) -> Any:
    array = np.matmul(_concrete(a), _concrete(b))
    x, y = (make.cast(as_traced(o).value, np.asarray(array).dtype) for o in (a, b))
    return Traced(make.matmul(x, y), array, _known(a, b))


# --- reductions -----------------------------------------------------------------------------------


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return (
        tuple(a % ndim for a in axis) if isinstance(axis, (tuple, list)) else ((axis % ndim,) if ndim else ())
    )


def _reduce(ufunc: Any, x: Any, axis: Any, keepdims: bool, dtype: Any = None) -> Traced:
    x = as_traced(x)
    with np.errstate(all="ignore"):
        array = np.asarray(ufunc.reduce(x.array, axis=axis, keepdims=keepdims, dtype=dtype))
    value = x.value
    if ufunc in (np.logical_and, np.logical_or):
        value = make.cast(value, np.bool_)
    elif dtype is not None:
        value = make.cast(value, dtype)
    value = make.reduce(ufunc.__name__, value, _axes(axis, x.ndim), keepdims)
    return Traced(make.cast(value, array.dtype), array, x.known)


def _ufunc_reduce(
    ufunc: Any, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, **more: Any
) -> Any:
    names = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or")
    if ufunc.__name__ not in names or any(
        v is not None and v is not True and v is not np._NoValue for v in more.values()
    ):
        return call_back(ufunc.reduce, (x,), {"axis": axis, "keepdims": keepdims, "dtype": dtype, **more})
    return _reduce(ufunc, x, axis, keepdims, dtype)


def _arg_reduce(function: str, x: Traced, axis: Any, keepdims: bool) -> Traced:
    array = np.asarray(getattr(np, function)(x.array, axis=axis, keepdims=keepdims))
    source = make.reshape(x.value, (x.size,)) if axis is None else x.value
    value = make.arg_reduce(function, source, 0 if axis is None else axis)
    return Traced(make.reshape(value, array.shape), array, x.known)


def _scan(function: str, concrete: Any, x: Any, axis: Any = None, **options: Any) -> Traced:
    x = as_traced(x)
    if axis is None:
        x, axis = x.reshape(-1), 0
    if function not in ("add", "multiply") or any(v is not None for v in options.values()):
        return call_back(concrete, (x,), {"axis": axis, **options})
    array = concrete(x.array, axis=axis)
    return Traced(make.cast(make.scan(function, x.value, axis), array.dtype), array, x.known)


# --- calling back ---------------------------------------------------------------------------------


def call_back(function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> Any:
    """Record a function that has no primitive: the program calls it, by NumPy, on the arrays of the run."""
    found: list[Traced] = []

    def mark(x: Any) -> Any:
        if isinstance(x, (Traced, Number)) or (isinstance(x, np.ndarray) and x.ndim):
            found.append(as_traced(x))
            return _Place(len(found) - 1)
        if isinstance(x, (tuple, list)):
            return type(x)(mark(i) for i in x) if not hasattr(x, "_fields") else type(x)(*map(mark, x))
        return {k: mark(v) for k, v in x.items()} if isinstance(x, dict) else x

    marked_args, marked_options = mark(tuple(args)), mark(dict(options))

    def run(*arrays: Any) -> Any:
        def fill(x: Any) -> Any:
            if isinstance(x, _Place):
                return arrays[x.number]
            if isinstance(x, (tuple, list)):
                return type(x)(fill(i) for i in x) if not hasattr(x, "_fields") else type(x)(*map(fill, x))
            return {k: fill(v) for k, v in x.items()} if isinstance(x, dict) else x

        with np.errstate(all="ignore"):
            result = function(*fill(marked_args), **fill(marked_options))
        if isinstance(result, (tuple, list)):
            return (
                type(result)(*map(np.asarray, result))
                if hasattr(result, "_fields")
                else tuple(map(np.asarray, result))
            )
        return np.asarray(result)

    run.__name__ = getattr(function, "__name__", "function")
    result = run(*(t.array for t in found))
    single = isinstance(result, np.ndarray)
    results = [result] if single else list(result)
    known = all(t.known for t in found)
    made = make.call(run, [t.value for t in found], results, single)
    outs = [Traced(v, r, known) for v, r in zip(made, results, strict=True)]
    if single:
        return outs[0]
    return type(result)(*outs) if hasattr(result, "_fields") else tuple(outs)


class _Place:
    """Where an array goes when a recorded function is called back."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


# --- indexing -------------------------------------------------------------------------------------


class Key:
    """An index, taken apart: first slices, integers and new axes, then arrays of integers."""

    def __init__(self, x: Traced, key: Any) -> None:
        parts = list(key) if isinstance(key, tuple) else [key]
        parts = [np.asarray(p) if isinstance(p, list) else p for p in parts]
        parts = [p.array if isinstance(p, Traced) and p.known else p for p in parts]
        parts = [
            int(p)
            if isinstance(p, (np.integer, np.ndarray)) and np.ndim(p) == 0 and p.dtype.kind in "iu"
            else p
            for p in parts
        ]
        self.mask: Any = None
        if len(parts) == 1 and _is_mask(parts[0]) and isinstance(parts[0], Traced):
            self.mask = parts[0]  # only to be written through
            self.basic = False
            return
        for part in parts:
            if isinstance(part, Traced) and _is_mask(part):
                raise refuse(
                    "indexing with a mask (the shape of the result)",
                    "write minitorch.where(mask, x, 0) or masked_fill",
                )
        parts = [i for p in parts for i in (np.nonzero(p) if _is_mask(p) else (p,))]
        used = sum(p is not None and p is not Ellipsis for p in parts)
        missing = x.ndim - used
        if not any(p is Ellipsis for p in parts):
            parts.append(Ellipsis)
        place = next(i for i, p in enumerate(parts) if p is Ellipsis)
        parts[place : place + 1] = [slice(None)] * missing
        self.arrays: list[tuple[int, Any]] = []  # axis after slicing, index
        starts, counts, steps = [], [], []
        shape: list[int] = []  # after slicing: integers drop their axis, None adds one
        axis = 0
        touched = False
        positions: list[int] = []
        for part in parts:
            if part is None:
                shape.append(1)
                continue
            n = x.shape[axis]
            if isinstance(part, slice):
                start, stop, step = part.indices(n)
                count = len(range(start, stop, step))
                starts.append(start if count else 0), counts.append(count), steps.append(step if count else 1)
                shape.append(count)
            elif isinstance(part, int):
                if not -n <= part < n:
                    raise IndexError(f"index {part} is out of bounds for axis {axis} with size {n}")
                starts.append(part % n), counts.append(1), steps.append(1)
            else:
                starts.append(0), counts.append(n), steps.append(1)
                self.arrays.append((len(shape), part))
                shape.append(n)
                touched = True
            if isinstance(part, int):
                positions.append(-1)
            axis += 1
        self.slices = (tuple(starts), tuple(counts), tuple(steps))
        self.shape = tuple(shape)
        self.basic = not touched
        self.key = key
        # NumPy counts integers beside arrays as arrays when it asks whether the arrays stand together.
        advanced = [i for i, p in enumerate(p for p in parts) if not (p is None or isinstance(p, slice))]
        self.together = not touched or advanced == list(range(advanced[0], advanced[-1] + 1))

    def _sliced(self, value: Value) -> Value:
        return make.reshape(make.slice_axes(value, *self.slices), self.shape)

    def _linear(self) -> tuple[Value, tuple[int, ...], tuple[int, ...]]:
        """Return one index into all indexed axes together, the index arrays' common shape, and those axes."""
        axes = tuple(axis for axis, _ in self.arrays)
        values = [_index_value(index) for _, index in self.arrays]
        shape = np.broadcast_shapes(*(v.shape for v in values))
        total: Value | None = None
        inside: Value | None = None
        for axis, value in zip(axes, values, strict=True):
            n = self.shape[axis]
            length = make.constant(np.int64(n))
            zero = make.constant(np.int64(0))
            checked = make.where(
                make.map_values("less", value, zero), make.map_values("add", value, length), value
            )
            if _within(value, n):
                checked = value
            if len(axes) > 1 and not _within(value, n):
                ok = make.map_values(
                    "logical_and",
                    make.map_values("greater_equal", checked, zero),
                    make.map_values("less", checked, length),
                )
                inside = ok if inside is None else make.map_values("logical_and", inside, ok)
            total = (
                checked
                if total is None
                else make.map_values("add", make.map_values("multiply", total, length), checked)
            )
        assert total is not None
        if inside is not None:  # an index outside its own axis must not land inside another's
            total = make.where(inside, total, make.constant(np.int64(-1)))
        return make.expand(total, shape), shape, axes

    def _front(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        return axes + tuple(i for i in range(len(self.shape)) if i not in axes)

    def _result_order(self, index_ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Return how the result (index axes first, then the rest) is permuted to where NumPy puts the index axes."""
        rest = [i for i in range(len(self.shape)) if i not in axes]
        before = sum(i < axes[0] for i in rest) if self.together else 0
        order = [index_ndim + i for i in range(before)] + list(range(index_ndim))
        return (*order, *(index_ndim + i for i in range(before, len(rest))))

    def read(self, x: Traced) -> Traced:
        """Return x[key]."""
        if self.mask is not None:
            raise refuse(
                "indexing with a mask (the shape of the result)", "write minitorch.where(mask, x, 0)"
            )
        array = np.asarray(x.array[_concrete_key(self.key)])
        value = self._sliced(x.value)
        if self.basic:
            return Traced(value, array, x.known)
        index, shape, axes = self._linear()
        front = make.permute(value, self._front(axes))
        rest = front.shape[len(axes) :]
        rows = make.reshape(front, (math.prod(front.shape[: len(axes)]), *rest))
        taken = make.gather(rows, index, 0)
        known = x.known and all(_known(i) for _, i in self.arrays)
        return Traced(make.permute(taken, self._result_order(len(shape), axes)), array, known)

    def write(self, x: Traced, new: Any, function: str) -> Traced:
        """Return x with x[key] set to `new`, or `new` added to it, as a handle of its own."""
        array = x.array.copy()
        given = as_traced(new) if not isinstance(new, (int, float, bool)) else None
        value_of = (
            (lambda dtype: _operand_value(new, dtype))
            if given is None
            else (lambda dtype: make.cast(given.value, dtype))
        )
        concrete = _concrete(new)
        known = x.known and _known(new)
        if self.mask is not None:
            if np.ndim(concrete) != 0 or function != "set":
                raise refuse("writing an array through a mask", "write minitorch.where(mask, new, x)")
            array[self.mask.array] = concrete
            mask = self.mask.value
            mask = make.reshape(mask, mask.shape + (1,) * (x.ndim - mask.ndim))
            return Traced(make.where(mask, value_of(x.dtype), x.value), array, known and self.mask.known)
        key = _concrete_key(self.key)
        if function == "add":
            np.add.at(array, key, concrete)
        else:
            array[key] = concrete
        if self.basic:
            updates = make.expand(_fitting(value_of(x.dtype), self.shape), self.shape)
            if function == "add":
                updates = make.map_values("add", self._sliced(x.value), updates)
            return Traced(self._replaced(x.value, updates), array, known)
        known = known and all(_known(i) for _, i in self.arrays)
        index, shape, axes = self._linear()
        order = self._result_order(len(shape), axes)
        inner = self._sliced(x.value)
        front = self._front(axes)
        rows = make.permute(inner, front)
        rest = rows.shape[len(axes) :]
        flat = make.reshape(rows, (math.prod(rows.shape[: len(axes)]), *rest))
        back = [int(i) for i in np.argsort(order)]
        result_shape = tuple((*shape, *rest)[i] for i in order)
        updates = make.permute(make.expand(value_of(x.dtype), result_shape), back)
        updates = make.reshape(updates, (math.prod(shape), *rest))
        done = make.scatter(function, flat, make.reshape(index, (math.prod(shape),)), updates, 0)
        done = make.permute(make.reshape(done, rows.shape), [int(i) for i in np.argsort(front)])
        return Traced(self._replaced(x.value, done), array, known)

    def _replaced(self, x: Value, updates: Value) -> Value:
        """Return x with its slice replaced."""
        starts, counts, steps = self.slices
        updates = make.reshape(updates, counts)
        backwards = [i for i, s in enumerate(steps) if s < 0]
        if backwards:
            updates = make.flip(updates, backwards)
            starts = tuple(
                a + (n - 1) * s if s < 0 else a for a, n, s in zip(starts, counts, steps, strict=True)
            )
            steps = tuple(map(abs, steps))
        if counts == x.shape:
            return updates
        if 0 in counts:
            return x
        axes = [i for i in range(x.ndim) if counts[i] != x.shape[i]]
        spans = [(counts[i] - 1) * steps[i] + 1 for i in range(x.ndim)]
        uniform = x.primitive == "expand" and x.inputs[0].primitive == "constant" and x.inputs[0].size == 1
        zero = uniform and not x.inputs[0].attributes["array"].any()
        if zero or (uniform and all(s == 1 for s in steps)):
            for i in axes:
                updates = make.spread(updates, i, steps[i])
            high = tuple(n - a - s for n, a, s in zip(x.shape, starts, spans, strict=True))
            return make.pad(updates, starts, high, x.inputs[0].attributes["array"].reshape(-1)[0])
        if all(s == 1 for s in steps):
            return _between(x, updates, starts, counts, axes)
        # Strided places of something that is not zero: where a place is met, the update; else what was there.
        met = make.constant(np.asarray(True))
        for i in axes:
            row = np.zeros(x.shape[i], dtype=bool)
            row[starts[i] : starts[i] + spans[i] : steps[i]] = True
            met = make.map_values(
                "logical_and", met, make.reshape(make.constant(row), (x.shape[i],) + (1,) * (x.ndim - i - 1))
            )
            updates = make.spread(updates, i, steps[i])
        high = tuple(n - a - s for n, a, s in zip(x.shape, starts, spans, strict=True))
        return make.where(met, make.pad(updates, starts, high), x)


def _between(x: Value, updates: Value, starts: Any, counts: Any, axes: list[int]) -> Value:
    """Return x with a block replaced, as the block between what lies around it, axis by axis."""
    axis = axes[0]
    start, count, n = starts[axis], counts[axis], x.shape[axis]
    middle = make.crop(x, axis, start, count)
    inner = updates if len(axes) == 1 else _between(middle, updates, starts, counts, axes[1:])
    pieces = [make.crop(x, axis, 0, start), inner, make.crop(x, axis, start + count, n - start - count)]
    return make.concatenate([p for p in pieces if p.shape[axis]], axis)


def _fitting(value: Value, shape: tuple[int, ...]) -> Value:
    """Drop leading axes of length 1 that an assignment ignores."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = make.reshape(value, value.shape[1:])
    return value


def _is_mask(part: Any) -> bool:
    return getattr(part, "dtype", None) == np.bool_ and getattr(part, "ndim", 0) > 0


def _index_value(index: Any) -> Value:
    return make.cast(as_traced(index).value, np.int64)


def _within(value: Value, n: int) -> bool:
    """Tell whether an index is known to lie inside an axis."""
    while value.primitive in ("reshape", "expand", "permute"):
        value = value.inputs[0]
    if value.primitive == "iota":
        return value.size <= n
    if value.primitive == "constant":
        array = value.attributes["array"]
        return not array.size or bool(array.min() >= 0 and array.max() < n)
    return value.primitive == "arg_reduce" and value.inputs[0].shape[value.attributes["axis"]] <= n


def _concrete_key(key: Any) -> Any:
    return tuple(_concrete(p) for p in key) if isinstance(key, tuple) else _concrete(key)


# --- NumPy's other functions -----------------------------------------------------------------------

FUNCTIONS_OF_NUMPY: dict[Any, Callable[..., Any]] = {}
# What an op of ours becomes, where its own lines would not make a good program (see lowerings.py).
LOWERINGS: dict[str, Callable[..., Any]] = {}


def _implements(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def note(implementation: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            FUNCTIONS_OF_NUMPY[function] = implementation
        return implementation

    return note


@_implements(np.where)
def _where(condition: Any, *branches: Any) -> Any:
    if not branches:
        raise refuse("np.where(condition) alone, or nonzero", "write minitorch.where(condition, a, b)")
    concretes = [_concrete(b) for b in branches]
    array = np.where(_concrete(condition), *concretes)
    test = as_traced(condition).value
    x, y = (_operand_value(b, array.dtype) for b in branches)
    return Traced(make.where(make.cast(test, np.bool_), x, y), array, _known(condition, *branches))


@_implements(np.broadcast_to)
def broadcast_to(x: Any, shape: Any, subok: bool = False) -> Traced:
    """Stretch to a shape."""
    x = as_traced(x)
    array = np.broadcast_to(x.array, shape)
    return Traced(make.expand(x.value, array.shape), array, x.known)


@_implements(np.concatenate)
def _concatenate(arrays: Any, axis: Any = 0, **options: Any) -> Traced:
    parts = [as_traced(a) for a in arrays]
    array = np.concatenate([p.array for p in parts], axis=axis)
    if axis is None:
        parts, axis = [p.reshape(-1) for p in parts], 0
    values = [make.cast(p.value, array.dtype) for p in parts if p.shape[axis]] or [
        make.cast(parts[0].value, array.dtype)
    ]
    return Traced(make.concatenate(values, axis), array, _known(*parts))


@_implements(np.stack)
def _stack(arrays: Any, axis: int = 0, **options: Any) -> Any:
    parts = [as_traced(a) for a in arrays]
    axis = axis % (parts[0].ndim + 1)
    return _concatenate([p.reshape((*p.shape[:axis], 1, *p.shape[axis:])) for p in parts], axis)


def _filled(like: Any, number: Any, dtype: Any, shape: Any) -> Traced:
    shape = like.shape if shape is None else tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    dtype = like.dtype if dtype is None else np.dtype(dtype)
    number = np.asarray(number).astype(dtype)
    return Traced(make.full(shape, number, dtype), np.full(shape, number, dtype), known=True)


@_implements(np.zeros_like, np.empty_like)
def _zeros_like(
    x: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **more: Any
) -> Traced:
    return _filled(x, 0, dtype, shape)


@_implements(np.ones_like)
def _ones_like(
    x: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **more: Any
) -> Traced:
    return _filled(x, 1, dtype, shape)


@_implements(np.full_like)
def _full_like(
    x: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    **more: Any,
) -> Any:
    if isinstance(fill_value, (Traced, Number)):
        return broadcast_to(
            as_traced(fill_value).astype(dtype or x.dtype), x.shape if shape is None else shape
        )
    return _filled(x, fill_value, dtype, shape)


@_implements(np.zeros, np.empty)
def _zeros(shape: Any, dtype: Any = float, order: str = "C", **more: Any) -> Traced:
    return _filled(None, 0, dtype, shape)


@_implements(np.ones)
def _ones(shape: Any, dtype: Any = None, order: str = "C", **more: Any) -> Traced:
    return _filled(None, 1, float if dtype is None else dtype, shape)


@_implements(np.full)
def _full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **more: Any) -> Any:
    dtype = np.asarray(_concrete(fill_value)).dtype if dtype is None else dtype
    return (
        _filled(None, _concrete(fill_value), dtype, shape)
        if _known(fill_value)
        else broadcast_to(as_traced(fill_value).astype(dtype), shape)
    )


@_implements(np.asarray, np.array, np.ascontiguousarray, np.copy)
def _asarray(x: Any, dtype: Any = None, *args: Any, **more: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return _stack([_asarray(i) for i in x]).astype(dtype) if dtype else _stack([_asarray(i) for i in x])
    x = as_traced(x)
    return x if dtype is None or x.dtype == np.dtype(dtype) else x.astype(dtype)


@_implements(np.arange)
def _arange(*bounds: Any, dtype: Any = None, **more: Any) -> Traced:
    array = np.arange(*(int(b) if isinstance(b, Traced) else b for b in bounds), dtype=dtype)
    if len(bounds) == 1 and array.dtype == np.int64:
        return Traced(make.iota(len(array)), array, known=True)
    return Traced(make.constant(array), array, known=True)


@_implements(np.reshape)
def _reshape(x: Any, *shape: Any, **options: Any) -> Any:
    return x.reshape(*shape, *(v for k, v in options.items() if k in ("shape", "newshape")))


@_implements(np.transpose)
def _transpose(x: Any, axes: Any = None) -> Any:
    return as_traced(x).transpose(axes)


@_implements(np.swapaxes)
def _swapaxes(x: Any, a: int, b: int) -> Any:
    return x.swapaxes(a, b)


@_implements(np.moveaxis)
def _moveaxis(x: Any, source: Any, destination: Any) -> Any:
    source, destination = (
        [a % x.ndim for a in ((p,) if isinstance(p, int) else p)] for p in (source, destination)
    )
    order = [i for i in range(x.ndim) if i not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    return x.transpose(order)


@_implements(np.expand_dims)
def _expand_dims(x: Any, axis: Any) -> Any:
    return x.reshape(np.expand_dims(x._array, axis).shape)


@_implements(np.squeeze)
def _squeeze(x: Any, axis: Any = None) -> Any:
    return x.squeeze(axis)


@_implements(np.ravel)
def _ravel(x: Any, order: str = "C") -> Any:
    return x.ravel()


@_implements(np.flip)
def _flip(x: Any, axis: Any = None) -> Any:
    axes = _axes(axis, x.ndim)
    return x[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim))]


@_implements(np.roll)
def _roll(x: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        return _roll(x.reshape(-1), shift, 0).reshape(x.shape)
    shifts, axes = ((p,) if isinstance(p, int) else tuple(p) for p in (shift, axis))
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    for by, a in zip(shifts, axes * len(shifts) if len(axes) == 1 else axes, strict=False):
        n = x.shape[a]
        by = by % n if n else 0
        if by:
            lead = (slice(None),) * (a % x.ndim)
            x = _concatenate([x[(*lead, slice(n - by, n))], x[(*lead, slice(0, n - by))]], a)
    return x.copy() if isinstance(x, Traced) else x


@_implements(np.tile)
def _tile(x: Any, reps: Any) -> Any:
    reps = (reps,) if isinstance(reps, int) else tuple(reps)
    ndim = max(len(reps), x.ndim)
    reps, shape = (1,) * (ndim - len(reps)) + reps, (1,) * (ndim - x.ndim) + x.shape
    apart = x.reshape(tuple(n for s in shape for n in (1, s)))
    full = broadcast_to(apart, tuple(n for r, s in zip(reps, shape, strict=True) for n in (r, s)))
    return full.reshape(tuple(r * s for r, s in zip(reps, shape, strict=True)))


@_implements(np.repeat)
def _repeat(x: Any, repeats: Any, axis: Any = None) -> Any:
    return x.repeat(repeats, axis)


@_implements(np.pad)
def _pad(x: Any, widths: Any, mode: str = "constant", **options: Any) -> Any:
    if mode != "constant" or not isinstance(options.get("constant_values", 0), (int, float)):
        return call_back(np.pad, (x, widths), {"mode": mode, **options})
    array = np.pad(x.array, widths, mode=mode, **options)
    pairs = np.broadcast_to(np.asarray(widths), (x.ndim, 2))
    low, high = pairs[:, 0].tolist(), pairs[:, 1].tolist()
    return Traced(make.pad(x.value, low, high, options.get("constant_values", 0)), array, x.known)


@_implements(np.tril)
def _tril(x: Any, k: int = 0) -> Any:
    return _where(_triangle(x.shape, k), x, x.dtype.type(0))


@_implements(np.triu)
def _triu(x: Any, k: int = 0) -> Any:
    return _where(_triangle(x.shape, k - 1), x.dtype.type(0), x)


def _triangle(shape: tuple[int, ...], k: int) -> Traced:
    """Return where column - row ≤ k, over the last two axes, computed in place of being stored."""
    rows, columns = shape[-2:]
    r = make.map_values("add", make.reshape(make.iota(rows), (rows, 1)), make.constant(np.int64(k)))
    return Traced(
        make.map_values("less_equal", make.iota(columns), r), np.tri(rows, columns, k, dtype=bool), known=True
    )


@_implements(np.diagonal)
def _diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    axis1, axis2 = axis1 % x.ndim, axis2 % x.ndim
    count = np.diagonal(x._array, offset, axis1, axis2).shape[-1]
    moved = _moveaxis(x, (axis1, axis2), (-2, -1))
    places = np.arange(count)
    return moved[(..., places + max(-offset, 0), places + max(offset, 0))]


@_implements(np.cumsum)
def _cumsum(x: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return as_traced(x).cumsum(axis)


@_implements(np.cumprod)
def _cumprod(x: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return as_traced(x).cumprod(axis)


def _method(name: str) -> Callable[..., Any]:
    return lambda x, *args, **options: getattr(as_traced(x), name)(*args, **options)


for _function, _name in {
    np.sum: "sum", np.prod: "prod", np.max: "max", np.min: "min", np.all: "all", np.any: "any", np.mean: "mean",
    np.argmax: "argmax", np.argmin: "argmin", np.take: "take", np.dot: "dot",
}.items():  # fmt: skip
    FUNCTIONS_OF_NUMPY[_function] = _method(_name)


@_implements(np.sort)
def _sort(x: Any, axis: int = -1, **options: Any) -> Traced:
    if axis is None:
        return call_back(np.sort, (x,), {"axis": None})
    return Traced(
        Value("sort", (x.value,), {"axis": axis % x.ndim}, x.shape, x.dtype),
        np.sort(x.array, axis=axis),
        x.known,
    )


@_implements(np.argsort)
def _argsort(x: Any, axis: int = -1, kind: Any = None, **options: Any) -> Traced:
    if kind != "stable" or axis is None:
        return call_back(np.argsort, (x,), {"axis": axis, "kind": kind, **options})
    array = np.argsort(x.array, axis=axis, kind="stable")
    return Traced(Value("argsort", (x.value,), {"axis": axis % x.ndim}, x.shape, array.dtype), array, x.known)


@_implements(np.take_along_axis)
def _take_along_axis(x: Any, indices: Any, axis: Any = -1) -> Any:
    x, indices = as_traced(x), as_traced(indices)
    if axis is None:
        return x.reshape(-1)[indices]
    key = []
    for i, n in enumerate(indices.shape):
        places = np.arange(n).reshape((-1,) + (1,) * (indices.ndim - i - 1))
        key.append(indices if i == axis % indices.ndim else places)
    return x[tuple(key)]


@_implements(np.copyto)
def _copyto(target: Any, source: Any, casting: str = "same_kind", where: Any = True) -> None:
    target = _writable(target)
    target.assign(
        as_traced(source).astype(target.dtype)
        if where is True
        else _where(where, source, target).astype(target.dtype)
    )


@_implements(np.clip)
def _clip(x: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **options: Any) -> Any:
    if not all(
        b is None
        or np.ndim(_concrete(b))
        or np.can_cast(np.min_scalar_type(_concrete(b)), x.dtype)
        or x.dtype.kind == "f"
        for b in (a_min, a_max)
    ):
        return call_back(np.clip, (x, a_min, a_max), {})
    x = x if a_min is None else np.maximum(x, a_min)
    return _into(out, x if a_max is None else np.minimum(x, a_max))


@_implements(np.round)
def _round(x: Any, decimals: int = 0, out: Any = None) -> Any:
    if x.dtype.kind != "f" or decimals:
        return call_back(np.round, (x, decimals), {})
    return np.rint(x)


@_implements(np.nan_to_num)
def _nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    info = np.finfo(x.dtype)
    x = _where(np.isnan(x), nan, x)
    x = _where(_both(np.isinf(x), x > 0), info.max if posinf is None else posinf, x)
    return _where(_both(np.isinf(x), x < 0), info.min if neginf is None else neginf, x).astype(x.dtype)


def _both(a: Any, b: Any) -> Any:
    return np.logical_and(a, b)


@_implements(np.einsum)
def einsum(subscripts: str, *operands: Any, **options: Any) -> Any:
    """Multiply and sum by einsum's notation, two operands at a time."""
    left, arrow, out = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    parts = [as_traced(o) for o in operands]
    array = np.asarray(np.einsum(subscripts, *(p.array for p in parts), optimize=len(parts) > 1))
    diagonal = any(len(set(term)) != len(term) for term in terms)
    if not arrow or "..." in subscripts or diagonal or array.dtype.kind not in "f":
        return call_back(np.einsum, (subscripts, *operands), {})
    values = [make.cast(p.value, array.dtype) for p in parts]
    if len(values) == 1:
        value = _einsum_of_one(values[0], terms[0], out)
        return Traced(value, array, _known(*parts))
    path = np.einsum_path(subscripts, *(p.array for p in parts), optimize="greedy")[0][1:]
    steps = [pair for step in path for pair in _pairs(step)]
    for number, (i, j) in enumerate(steps):
        i, j = sorted((i, j))
        a, b = values[i], values[j]
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        needed = set(out).union(*rest) if rest else set(out)
        kept = (
            out
            if number == len(steps) - 1 and not rest
            else "".join(dict.fromkeys(c for c in terms[i] + terms[j] if c in needed))
        )
        result = make.contract(f"{terms[i]},{terms[j]}->{kept}", a, b)
        values = [v for k, v in enumerate(values) if k not in (i, j)] + [result]
        terms = [*rest, kept]
    return Traced(values[0], array, _known(*parts))


def _pairs(step: Sequence[int]) -> list[tuple[int, int]]:
    """Split a step of einsum's plan that takes more than two operands at once; results go to the end."""
    if len(step) == 2:
        return [(step[0], step[1])]
    raise NotImplementedError(f"einsum_path gave a step of {len(step)} operands")


def _einsum_of_one(x: Value, term: str, out: str) -> Value:
    kept = "".join(c for c in term if c in out)
    x = make.reduce("add", x, [i for i, c in enumerate(term) if c not in out])
    return make.permute(x, [kept.index(c) for c in out])


@_implements(np.linalg.norm)
def _norm(x: Any, *args: Any, **options: Any) -> Any:
    return call_back(np.linalg.norm, (x, *args), options)


@_implements(np.lib.stride_tricks.sliding_window_view)
def _sliding_window_view(x: Any, window_shape: Any, axis: Any = None, **options: Any) -> Traced:
    sizes = (window_shape,) if isinstance(window_shape, int) else tuple(window_shape)
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(a % x.ndim for a in axes)
    array = np.lib.stride_tricks.sliding_window_view(x.array, sizes, axes)
    ones = (1,) * len(axes)
    return Traced(make.window(x.value, axes, sizes, ones, ones), array, x.known)


@_implements(np.shape)
def _shape(x: Any) -> Any:
    return x.shape


@_implements(np.ndim)
def _ndim(x: Any) -> Any:
    return x.ndim


@_implements(np.size)
def _size(x: Any, axis: Any = None) -> Any:
    return x.size if axis is None else x.shape[axis]


@_implements(np.may_share_memory, np.shares_memory)
def _shares_memory(a: Any, b: Any, **options: Any) -> bool:
    return False


@_implements(np.result_type)
def _result_type(*kinds: Any) -> Any:
    return np.result_type(*(_concrete(k) if isinstance(k, (Traced, Number)) else k for k in kinds))


@_implements(np.iscomplexobj)
def _iscomplexobj(x: Any) -> bool:
    return x.dtype.kind == "c"
