"""Traced: an array that writes down what is done to it.

Enters: NumPy calls on Traced arrays. Leaves: the same results, and beside each the Value that says how
it is computed. It speaks NumPy's protocols, so every op and every derivative rule records itself; an
array is carried along, so a recording is also an ordinary run, and its results are known.

NumPy writes in place (`out=`, `+=`, `x[i] = …`); values never change. So a Traced is a handle: writing
moves it to another value, and through a view on to what it is a view of.

Here is the handle itself. What it does when NumPy calls stands in ufuncs.py, indexing.py and
numpy_functions.py, which enter themselves in the tables below.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch.compiler.ir import builder as make
from minitorch.compiler.ir.polynomial import LEAST
from minitorch.compiler.ir.program import Value, in_order
from minitorch.compiler.ir.sizes import Size, hint, hints, symbols_of
from minitorch.compiler.trace.number import Number
from minitorch.compiler.trace.promised import Promised
from minitorch.compiler.trace.refusal import CompileError, line_of_user, refuse, where_in_user_code
from minitorch.engine.node import Node
from minitorch.engine.recording import Around, recorder

# Kinds of arrays that stand around recorded ones: an operation with one of them is theirs.
_AROUND = (Node, Around)
# What NumPy's functions do on Traced arrays (numpy_functions.py, ufuncs.py).
FUNCTIONS_OF_NUMPY: dict[Any, Callable[..., Any]] = {}
# What an op of ours becomes, where its own lines would not make a good program (lowerings.py).
LOWERINGS: dict[str, Callable[..., Any]] = {}
# The rest of NumPy: 'ufunc' and 'call back' (ufuncs.py), 'read' and 'write' by an index (indexing.py); 'plain', what a
# person gets as `.data` or `.grad` (plain.py); 'item' and 'tolist' (deferred.py);
# 'select by a mask', 'put by a mask' and 'take by rows' (masked.py).
HANDLERS: dict[str, Callable[..., Any]] = {}


_writes = [0]  # into any of them, so far


def _note_promised(value: Value) -> None:
    """Note that the numbers of a value are missing, though it may be made from none that are: y[:] = 2."""
    active: Any = recorder()
    if active is not None and active.repeats and active.numbers_there:
        active.note_promised(value)


def is_promised(value: Value) -> bool:
    """Tell whether a value's numbers are not here: whoever records computes them elsewhere, and later."""
    active: Any = recorder()
    return active is not None and active.repeats and active.numbers_there and active.is_promised(value)


class Traced:
    """A handle on a value of the program being recorded, with the array it has in this run.

    known: it depends on nothing that can change between calls, so its numbers may be looked at.
    """

    __slots__ = (
        "__weakref__",
        "_array",
        "_known",
        "_looked",
        "_place",
        "_refresh",
        "_seen",
        "_source",
        "_value",
        "_version",
        "_write_back",
    )

    __array_priority__ = 2000
    is_masked = False  # whether it is rows that a mask has chosen (masked.py)
    notes_lines = True  # whether values know which line they come from

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """Make one of the kind that whoever records writes things down by (lazily: pending.py)."""
        kind = cls
        if cls is Traced and (active := recorder()) is not None:
            kind = active.kind
        return object.__new__(kind)

    def __init__(self, value: Value, array: Any, known: bool = False) -> None:
        if array.__class__ is not np.ndarray and array.__class__ is not Promised:
            array = np.asarray(array)
        if array.__class__ is Promised:
            _note_promised(value)
        elif is_promised(value):
            array = array.view(Promised)
        if hints(value.shape) != array.shape or value.dtype != array.dtype:
            raise AssertionError(f"recorded {value}, but NumPy gives {array.dtype}[{array.shape}]")
        for n in value.shape:
            if type(n) is Size:
                _require_length(n)
                known = False  # another call has more of it, or less
        if value.line is None and value.inputs and self.notes_lines:
            value.line = line_of_user()
        self._value = value
        self._array = array
        self._known = known
        self._version = 0
        self._source: Traced | None = None  # what this is a view of
        self._seen = 0  # the source's version this view was taken at
        self._looked = -1  # how many writes there had been, anywhere, when it was last compared with it
        self._refresh: Callable[[Traced], Traced] | None = None  # take the view again
        self._write_back: Callable[[Traced, Traced], Traced] | None = (
            None  # the source with the view replaced
        )
        self._place: Any = None  # which slice of the source this is

    # --- handle and view ------------------------------------------------------------------------

    def _update(self) -> None:
        """A view whose source was written into shows the new content."""
        if self._source is None or self._looked == _writes[0]:
            return
        views: list[Any] = [self]
        while views[-1]._source._source is not None:
            views.append(views[-1]._source)
        while views:  # what they look at first
            view = views.pop()
            if view._source._version != view._seen:
                again = view._refresh(view._source)
                view._value, view._array, view._known = again._value, again._array, again._known
                again._source = None
                view._seen = view._source._version
                view._version += 1
            view._looked = _writes[0]

    def _has_changed(self) -> None:
        """Note that it stands for another value now: views of it will look again."""
        self._version += 1
        _writes[0] += 1

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

    def settled(self) -> np.ndarray:
        """Return the array of this run, for whoever keeps it."""
        return np.array(self.array)

    def assign(self, new: Traced) -> None:
        """Write: stand for another value of the same shape from now on, through views as well."""
        self._update()
        active: Any = recorder()
        if active is not None and active.repeats and active.memory is not None:
            new = active.staying(new, self)
        value, array = new.value, new.array
        if value.dtype != self.dtype:
            value, array = make.cast(value, self.dtype), array.astype(self.dtype)
        if value.shape != self.shape:
            value, array = make.expand(value, self.shape), np.broadcast_to(array, self._array.shape)
        if array.strides != self._array.strides:
            # The memory stays what it is: whether a later reshape is a view depends on its layout.
            laid_out: Any = np.empty_like(self._array.view(np.ndarray))  # (which may be a promise)
            if array.__class__ is Promised:
                laid_out = laid_out.view(Promised)
            laid_out[...] = array
            array = laid_out
        if array.__class__ is Promised:
            _note_promised(value)
        self._value, self._array, self._known = value, array, new.known
        self._has_changed()
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
            self.look_at(source, refresh, write_back)
        return self

    def look_at(
        self,
        source: Traced,
        refresh: Callable[[Traced], Traced],
        write_back: Callable[[Traced, Traced], Traced],
    ) -> None:
        """Become a view."""
        self._source, self._refresh, self._write_back = source, refresh, write_back
        self._seen = source._version

    def refreshed(self, source: Traced) -> Traced:
        """Return what this is a view of, `source` in its place, looked at in the same way."""
        assert self._refresh is not None
        return self._refresh(source)

    @property
    def offset_in_memory(self) -> int:
        """How many elements lie before its first in the memory of what this is a view of."""
        active: Any = recorder()
        if active is None or not active.repeats or active.looks_outside(self):
            raise refuse("a place in the memory of a tensor from before the call", "clone() it before")
        return (self.taken_again().array.ctypes.data - self.root().array.ctypes.data) // self.itemsize

    def root(self) -> Any:
        """Return what this is a view of, in the end."""
        root: Any = self
        while root._source is not None:
            root = root._source
        return root

    def taken_again(self) -> Traced:
        """Return a view as NumPy makes it of the array that is there now: it lies in that one's memory."""
        return self if self._source is None else self.refreshed(self._source.taken_again())

    # --- what it is -----------------------------------------------------------------------------

    shape = property(lambda self: self._value.shape)
    dtype = property(lambda self: self._array.dtype)
    ndim = property(lambda self: self._array.ndim)
    size = property(lambda self: math.prod(self._value.shape))
    itemsize = property(lambda self: self._array.itemsize)
    nbytes = property(lambda self: self.size * self._array.itemsize)
    flags = property(lambda self: self._array.flags)
    strides = property(lambda self: _strides(self._value.shape, self._array))
    expanded = property(
        lambda self: _is_expanded(self._array)
    )  # whether an axis has all its elements in one place
    base = property(lambda self: self._source)  # NumPy's word for what a view looks at
    place = property(lambda self: self._place)  # which slice of that it is, if it is one

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Traced]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Traced({self.value!r})"

    # --- looking at numbers ---------------------------------------------------------------------

    def _look(self, what: str) -> np.ndarray:
        if self.known:
            return self.array
        made_from = in_order([self.value])
        if not any(each.primitive == "input" for each in made_from):
            # It depends on nothing but sizes: on those it is decided.
            for symbol in symbols_of([(each.shape, each.attributes) for each in made_from]):
                int(symbol.size)
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
        """Return one number: as it is, if it is the same at every call."""
        return self.array.item(*place) if self.known else HANDLERS["item"](self, *place)

    def tolist(self) -> Any:
        """Return nested lists of numbers: as they are, if they are the same at every call."""
        return self.array.tolist() if self.known else HANDLERS["tolist"](self)

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

    @property
    def __minitorch_device__(self) -> Any:
        """The memory of the device it would lie on; None for the host's."""
        active: Any = recorder()
        return None if active is None or not active.repeats else active.lies_on(self.value)

    # --- NumPy's protocols ----------------------------------------------------------------------

    def __minitorch_plain__(self) -> Any:
        """Return what a person gets as `.data` or `.grad`."""
        return HANDLERS["plain"](self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if any(isinstance(each, _AROUND) for each in inputs):
            return NotImplemented  # Tensors know what becomes of their graph, and batches of their examples
        result = HANDLERS["ufunc"](ufunc, method, inputs, options)
        if out is None:
            return result
        if method == "at":
            return None
        targets = out if isinstance(out, tuple) else (out,)
        results = result if isinstance(result, tuple) else (result,)
        for target, each in zip(targets, results, strict=True):
            if target is not None:
                _may_be_written(target, each, options.get("casting", "same_kind"))
                writable(target).assign(each)
        return targets[0] if len(targets) == 1 else targets

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if any(issubclass(each, _AROUND) for each in types):
            return NotImplemented
        implementation = FUNCTIONS_OF_NUMPY.get(function)
        if implementation is not None:
            found = implementation(*args, **options)
            beside = getattr(recorder(), "beside", None)
            # (Where it is not what is asked for as an array, it is what that is to be like.)
            is_like = function is np.asarray and type(found) is Traced and args[0] is not self
            return beside(found, self) if is_like and beside is not None else found
        out = options.get("out")
        if out is None:
            return HANDLERS["call back"](function, args, options)
        return into(out, HANDLERS["call back"](function, args, {**options, "out": None}))

    def __minitorch_op__(self, op: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        lowering = LOWERINGS.get(op.name)
        if lowering is None or any(isinstance(each, Around) for each in inputs):
            lowering = getattr(op.forward, "__wrapped__", op.forward)
        return lowering(*inputs, **attributes)

    # --- methods --------------------------------------------------------------------------------

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Traced:
        """Return it in another dtype."""
        if not copy and self.dtype == dtype:
            return self
        with np.errstate(all="ignore"):
            array = self.array.astype(dtype, order, casting)  # type: ignore[call-overload]
        return Traced(make.cast(self.value, dtype), array, self.known)

    def copy(self, order: str = "C") -> Traced:
        """Return a handle of its own on the same value."""
        return Traced(self.value, self.array.copy(order), self.known)  # type: ignore[arg-type]

    def __copy__(self) -> Traced:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Traced:
        return self.copy()

    def reshape(self, *shape: Any, **options: Any) -> Traced:
        """Return the elements under another shape."""
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = tuple(shape[0])
        shape = reshaped(self, shape)
        array = self.array.reshape(hints(shape))
        out = Traced(make.reshape(self.value, shape), array, self.known)
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
    mT = property(lambda self: np.swapaxes(self, -1, -2))

    def ravel(self, order: str = "C") -> Traced:
        """Return all elements on one axis."""
        return self.reshape(-1)

    def flatten(self, order: str = "C") -> Traced:
        """Return all elements on one axis, as a copy."""
        return self.reshape(-1).copy()

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        """Repeat each element."""
        return np.repeat(self, repeats, axis)

    def take(self, indices: Any, axis: Any = None, **options: Any) -> Any:
        """Return the elements at some places along an axis."""
        return np.take(self, indices, axis)

    def fill(self, number: Any) -> None:
        """Write one number everywhere."""
        self[...] = number

    def conj(self) -> Traced:
        """Return the complex conjugate; of real numbers themselves."""
        return self if self.dtype.kind != "c" else HANDLERS["call back"](np.conj, (self,), {}, self.shape)

    conjugate = conj

    def _part(self, take: Any, parts: Callable[[Any, Any], tuple[Any, Any]]) -> Traced:
        """Return the real or imaginary part: a view, which writes itself back into the complex number."""

        def put(z: np.ndarray, part: np.ndarray) -> np.ndarray:
            whole = np.empty_like(z)
            whole.real, whole.imag = parts(z, part)
            return whole

        call_back = HANDLERS["call back"]
        taken = lambda z: call_back(take, (z,), {}, z.shape)
        return taken(self).view_of(self, taken, lambda z, part: call_back(put, (z, part), {}, z.shape))

    @property
    def real(self) -> Traced:
        """The real part."""
        return self if self.dtype.kind != "c" else self._part(np.real, lambda z, part: (part, np.imag(z)))

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return self._part(np.imag, lambda z, part: (np.real(z), part))

    def view(self, kind: Any = None) -> Any:
        """Return the same bytes as another dtype, or as they are."""
        if kind is None:
            return self[...]
        called = HANDLERS["call back"](lambda x: x.view(kind).copy(), (self,), {})
        out = Traced(called.value, self.array.view(kind), called.known)
        dtype = self.dtype
        return out.view_of(self, lambda source: source.view(kind), lambda source, view: view.view(dtype))

    # --- indexing -------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if hasattr(np.ndarray, name) and not name.startswith("__"):
            raise CompileError(f"compile: .{name} of an array cannot be recorded\n  {where_in_user_code()}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getitem__(self, key: Any) -> Traced:
        return HANDLERS["read"](self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        HANDLERS["write"](self, key, value)

    # --- operators ------------------------------------------------------------------------------

    def __pos__(self) -> Traced:
        return self

    def __eq__(self, other: object) -> Any:
        if isinstance(other, _AROUND):
            return NotImplemented
        return HANDLERS["ufunc"](np.equal, "__call__", (self, other), {})

    def __ne__(self, other: object) -> Any:
        if isinstance(other, _AROUND):
            return NotImplemented
        return HANDLERS["ufunc"](np.not_equal, "__call__", (self, other), {})

    def __matmul__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, _AROUND) else np.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return np.matmul(other, self)

    __hash__ = object.__hash__


def _operator(ufunc: Any, reflected: bool = False) -> Any:
    def method(self: Traced, other: Any) -> Any:
        if isinstance(other, _AROUND):
            return NotImplemented
        return HANDLERS["ufunc"](ufunc, "__call__", (other, self) if reflected else (self, other), {})

    return method


def _in_place(ufunc: Any) -> Any:
    def method(self: Traced, other: Any) -> Traced:
        other = np.asarray(other) if isinstance(other, Node) else other
        result = HANDLERS["ufunc"](ufunc, "__call__", (self, other), {})
        _may_be_written(self, result, "same_kind")
        self.assign(result)
        return self

    return method


def _may_be_written(target: Any, result: Any, casting: str) -> None:
    """Refuse what NumPy refuses: `x += y` where the sum's dtype or shape does not fit x."""
    name = "an operation in place"
    if not np.can_cast(result.dtype, target.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(f"{name}: cannot write {result.dtype} into an array of {target.dtype}")
    if result.shape != target.shape and make.broadcast_shapes(result.shape, target.shape) != target.shape:
        raise ValueError(
            f"{name}: a result of shape {result.shape} does not fit an array of shape {target.shape}"
        )


def _method(function: Any) -> Any:
    def method(self: Traced, *args: Any, **options: Any) -> Any:
        return FUNCTIONS_OF_NUMPY[function](self, *args, **options)

    return method


_FUNCTIONS = (
    "all", "any", "argmax", "argmin", "clip", "cumprod", "cumsum", "diagonal", "dot", "max", "mean", "min", "prod",
    "round", "squeeze", "sum", "swapaxes",
)  # fmt: skip
BINARY_UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "lshift": np.left_shift, "rshift": np.right_shift,
}  # fmt: skip
COMPARISON_UFUNCS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
UNARY_UFUNCS = {"neg": np.negative, "abs": np.absolute, "invert": np.invert}
for _name in _FUNCTIONS:
    setattr(Traced, _name, _method(getattr(np, _name)))
for _name, _ufunc in BINARY_UFUNCS.items():
    setattr(Traced, f"__{_name}__", _operator(_ufunc))
    setattr(Traced, f"__r{_name}__", _operator(_ufunc, reflected=True))
    setattr(Traced, f"__i{_name}__", _in_place(_ufunc))
for _name, _ufunc in COMPARISON_UFUNCS.items():
    setattr(Traced, f"__{_name}__", _operator(_ufunc))
for _name, _unary in UNARY_UFUNCS.items():
    setattr(
        Traced, f"__{_name}__", lambda self, _unary=_unary: HANDLERS["ufunc"](_unary, "__call__", (self,), {})
    )
# The methods and operators that give another Traced.
METHODS = (
    *_FUNCTIONS, "astype", "conj", "conjugate", "copy", "flatten", "ravel", "repeat", "reshape", "take", "transpose",
    "view", "__getitem__",
)  # fmt: skip
OPERATORS = tuple(
    f"__{prefix}{name}__"
    for prefix, names in (
        ("", [*BINARY_UFUNCS, *COMPARISON_UFUNCS, *UNARY_UFUNCS, "eq", "ne", "matmul"]),
        ("r", [*BINARY_UFUNCS, "matmul"]),
    )
    for name in names
)


# --- shapes in which sizes vary (ir/sizes.py) -------------------------------------------------------


def plainly(thing: Any) -> Any:
    """Return a size as the number it is in this run, in a tuple, a list or a slice too; anything else as it is."""
    if type(thing) is Size:
        return hint(thing)
    if type(thing) in (tuple, list):
        return type(thing)([plainly(each) for each in thing])
    if type(thing) is slice:
        return slice(plainly(thing.start), plainly(thing.stop), plainly(thing.step))
    return thing


def _require_length(n: Size) -> None:
    """See to it that no axis whose length varies is ever empty, or stretches."""
    if hint(n) < LEAST:
        n == hint(n)  # noqa: B015 (what is compared is noted)
    else:
        n >= LEAST  # noqa: B015


def reshaped(x: Any, shape: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape that an array gets if it is given another one, with the length that is left open (-1)."""
    if not any(type(n) is Size for n in (*x.shape, *shape)):
        return x._array.reshape(shape).shape
    x._array.reshape(hints(shape))  # NumPy says what is wrong with it
    total, known = x.size, math.prod(n for n in shape if type(n) is Size or n != -1)
    found = tuple(n if type(n) is Size or n != -1 else total // known for n in shape)
    if math.prod(found) != total:
        raise ValueError(f"cannot reshape an array of shape {x.shape} into shape {shape}")
    return found


def _strides(shape: tuple[int, ...], array: np.ndarray) -> tuple[int, ...]:
    """Return how many bytes apart neighbours lie, where that varies with the shape too."""
    if not any(type(n) is Size for n in shape):
        return array.strides
    step, found = array.itemsize, list(array.strides)
    for axis in sorted(range(array.ndim), key=lambda a: (array.strides[a], -a)):
        if not array.strides[axis]:
            continue  # expanded
        if array.strides[axis] != hint(step):
            # A part of something larger: the steps are those of what it is a part of.
            for n in shape:
                int(n)
            return array.strides
        found[axis] = step
        step = step * shape[axis]
    return tuple(found)


def _is_expanded(array: np.ndarray) -> bool:
    return any(not step and n > 1 for step, n in zip(array.strides, array.shape, strict=True))


# --- operands -------------------------------------------------------------------------------------


def as_traced(x: Any) -> Traced:
    """Return an operand of any kind as a Traced; what is not one is a constant."""
    if isinstance(x, Traced):
        return x
    if isinstance(x, Number):
        return Traced(x.value, np.asarray(x.concrete))
    if type(x) is Size:
        return Traced(make.size(x), np.asarray(hint(x)))
    active: Any = recorder()
    if active is not None and isinstance(x, np.ndarray):
        return active.foreign(x)  # an array from outside: the recording knows whether it may change
    return Traced(make.constant(np.array(x)), np.array(x), known=True)


def concrete(x: Any) -> Any:
    """Return what an operand is in this run."""
    if isinstance(x, Traced):
        return x.array
    return x.concrete if isinstance(x, Number) else plainly(x)


def is_known(*operands: Any) -> bool:
    """Tell whether operands are the same at every call."""
    return all(o.known if isinstance(o, Traced) else not isinstance(o, (Number, Size)) for o in operands)


def writable(target: Any) -> Traced:
    """Return an array that is written into, if it is one that notes it."""
    if not isinstance(target, Traced):
        raise CompileError(
            "compile: a NumPy array made outside the compiled function is written into with a recorded result\n"
            f"  {where_in_user_code()}\nuse a Tensor, or return the result"
        )
    return target


def into(out: Any, result: Any) -> Any:
    """Return a result, written into `out` where that is given."""
    if out is None:
        return result
    target = out[0] if isinstance(out, tuple) else out
    writable(target).assign(result)
    return target


def scalar_kind(x: Any) -> Any:
    """Return what NumPy's promotion sees: Python numbers are weak, arrays have a dtype."""
    if isinstance(x, Number):
        return type(x.concrete) if type(x.concrete) in (bool, int) else float
    if type(x) is Size:
        return int
    if isinstance(x, (bool, np.bool_)):
        return np.dtype(np.bool_)
    for kind in (int, float, complex):
        if isinstance(x, kind) and not isinstance(x, np.generic):
            return kind
    return np.asarray(concrete(x)).dtype


def operand_value(x: Any, dtype: Any) -> Value:
    """Return an operand as a value of a dtype."""
    if isinstance(x, (Traced, Number)):
        return make.cast(x.value, dtype)
    if isinstance(x, (np.ndarray, Size)):
        return make.cast(as_traced(x).value, dtype)
    return make.constant(np.asarray(x, dtype=dtype))
