"""Batched: an array per example, all in one array, that looks like one of them.

Enters: an array whose first axis counts the examples. Leaves: an object with the shape of one example, on which NumPy's
functions compute all examples at once: it speaks NumPy's protocols, so an op's forward and its rules, written for the
arrays of one example, run on it as they stand.

Each vmap is a `Level`. An inner vmap's arrays hold an outer one's: a function is unfolded level by level, the
latest first, and what does not belong to the level at hand is shared by all of its examples, as a number is.

What an array alone cannot say (one truth value for many examples, as many results as a mask holds) raises `EachAlone`:
the op, or if no op is at hand the whole function, is then computed one example after the other.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from minitorch.engine.errors import AnotherWay
from minitorch.engine.modes import current, switch
from minitorch.engine.node import Node
from minitorch.engine.recording import Around
from minitorch.engine.watch import tick
from minitorch.ops.op import Op
from minitorch.ops.sums import total
from minitorch.ops.tangents import linear
from minitorch.tensor.convert import is_array

Array = Any


class Level:
    """One vmap: how many examples there are, when it began and ended, and inside which other one; `with` runs it.

    randomness: "error", "different" or "same": what becomes of random numbers that are drawn inside.
    """

    __slots__ = ("end", "outer", "randomness", "size", "start")

    def __init__(self, size: int, randomness: str = "error") -> None:
        self.size = size
        self.randomness = randomness
        self.start = tick()  # what is made before, or after the end, belongs to no example alone
        self.end: int | None = None
        self.outer: Level | None = current().level

    def draw(self, generator: Any, method: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Draw random numbers for all examples at once, or one set for all; `args` begins with how many."""
        if self.randomness == "error":
            raise RuntimeError(
                "vmap: the function drew random numbers; say with randomness='different' or randomness='same' "
                "whether each example shall have its own"
            )
        draw = _drawn if self.outer is None else self.outer.draw
        if self.randomness == "same":
            return draw(generator, method, args)
        first, *others = args
        if method.__name__ == "permutation":
            return Batched(np.stack([draw(generator, method, args) for _ in range(self.size)]), self)
        whole, count = (
            (first * self.size, first)
            if isinstance(first, int)
            else (spread(first, self).reshape(-1), first.size)
        )
        return Batched(draw(generator, method, (whole, *others)).reshape(self.size, count), self)

    def make_room(self, node: Any, written: Sequence[Any]) -> None:
        """Let a tensor that was made inside hold an array for each example, if their values are written into it."""
        for level in {each for array in _batched_in(written) for each in levels_of(array)}:
            if level in levels_of(node._data):
                continue
            # (If others hold its array too, as after detach(), they are to see the write.)
            if node._time < level.start or node._view is not None or sys.getrefcount(node._array) > 2:
                raise EachAlone(level, "values of examples are written into a tensor that all of them share")
            node._data = _for_each(node._data, level).copy()

    def __enter__(self) -> Level:
        mode = current()
        switch(mode._replace(level=self, outer=mode))
        return self

    def __exit__(self, *exception: object) -> None:
        self.end = tick()
        switch(current().outer)


def _drawn(generator: Any, method: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Draw random numbers, of which the method's own draws are a part: for no level."""
    mode = current()
    switch(mode._replace(level=None))
    try:
        return getattr(generator, method.__name__)(*args)
    finally:
        switch(mode)


class EachAlone(AnotherWay):
    """Something that cannot be done to all examples at once."""

    def __init__(self, level: Level, why: str) -> None:
        super().__init__(why)
        self.level, self.why = level, why

    def run(
        self, function: Callable[..., Any], args: Sequence[Any], attributes: dict[str, Any], name: str
    ) -> Any:
        """Run a forward, or a rule, in another way: with an array of its own for each example, or one by one."""
        level = self.level
        try:
            # What all share cannot be written into; copies for each example can.
            own = [_for_each(arg, level) for arg in args]
            return function(*own, **{key: _for_each(value, level) for key, value in attributes.items()})
        except EachAlone as error:
            if error.level is not level:
                raise
            return self._one_by_one(function, tuple(args), attributes, f"{name}: {error.why}")

    def _one_by_one(
        self, function: Callable[..., Any], args: tuple[Any, ...], attributes: dict[str, Any], why: str
    ) -> Any:
        try:
            return each_alone(self.level, function, args, attributes, why)
        except EachAlone as error:
            if error.level is not self.level or self.level.end is None:
                raise  # the whole function can still be computed so
            raise RuntimeError(
                f"vmap: {why}, and of what it has kept (an autograd.Function's saved tensors) it can be asked inside "
                "vmap alone; take the gradient there: vmap(grad(f))"
            ) from None


def _for_each(thing: Any, level: Level) -> Any:
    """Return an array, or those in a list, with the examples' axis; anything else as it is."""
    if is_array(thing):
        if level in levels_of(thing):
            return thing
        if _is_later(thing, level):
            return Batched(_for_each(thing.array, level), thing.level)
        return Batched(spread(thing, level), level)
    if isinstance(thing, (list, tuple)):
        return type(thing)([_for_each(each, level) for each in thing])
    return thing


def each_alone(
    level: Level, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any], why: str
) -> Any:
    """Call a function once for each example, and put the results together; `why` is told, since it is slow."""
    warn_of_the_loop(why)
    results = [
        function(
            *(example(a, level, i) for a in args), **{k: example(v, level, i) for k, v in options.items()}
        )
        for i in range(level.size)
    ]
    return _together(results, level)


def warn_of_the_loop(why: str, stacklevel: int = 2) -> None:
    """Tell that examples are computed one after the other."""
    warnings.warn(
        f"vmap: {why}; the examples are computed one after the other, which is slower",
        UserWarning,
        stacklevel=stacklevel + 1,
    )


def example(thing: Any, level: Level, i: int) -> Any:
    """Return one example of what is batched, in tuples and lists too; anything else as it is."""
    if isinstance(thing, Batched):
        if thing.level is level:
            return thing.array[i, ...]
        return (
            Batched(example(thing.array, level, i), thing.level) if thing.level.start > level.start else thing
        )
    if isinstance(thing, (tuple, list)) and not hasattr(thing, "_fields"):
        return type(thing)([example(each, level, i) for each in thing])
    return thing


def _together(results: list[Any], level: Level) -> Any:
    first = results[0]
    if first is None:
        return None
    if isinstance(first, (tuple, list)):
        parts = [_together(list(each), level) for each in zip(*results, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    if is_array(first) or isinstance(first, (np.generic, bool, int, float, complex)):
        return _to_batch(
            np.stack([np.asarray(r) if np.isscalar(r) else r for r in results]), level=level, axis=0
        )
    return first  # a dtype, a shape: the same for all


# --- levels ---------------------------------------------------------------------------------------


def _batched_in(things: Iterable[Any]) -> Iterable[Batched]:
    for each in things:
        if isinstance(each, Batched):
            yield each
        elif isinstance(each, (tuple, list)):
            yield from _batched_in(each)


def top_level(*things: Any) -> Level | None:
    """Return the latest level among arguments, in tuples and lists too; None if nothing is batched."""
    return max((b.level for b in _batched_in(things)), key=lambda level: level.start, default=None)


def levels_of(x: Any) -> list[Level]:
    """Return the levels at which an array is batched, the latest first."""
    found = []
    while isinstance(x, Batched):
        found.append(x.level)
        x = x.array
    return found


def raw(x: Any, level: Level) -> Any:
    """Return the array of all examples, if x is batched at this level; else x, which they share."""
    return x.array if isinstance(x, Batched) and x.level is level else x


def is_at(x: Any, level: Level) -> bool:
    """Tell whether x is batched at a level."""
    return isinstance(x, Batched) and x.level is level


def spread(x: Any, level: Level) -> Any:
    """Return an array with the examples' axis in front, of something that may be shared by all: then it is a view."""
    if is_at(x, level):
        return x.array
    x = x if hasattr(x, "__array_function__") else np.asarray(x)
    return np.broadcast_to(x[None], (level.size, *x.shape))


def aligned(x: Any, level: Level, ndim: int) -> Any:
    """Return an operand as it stands beside others of at most `ndim` axes an example."""
    if not is_at(x, level):
        return x
    missing = ndim - x.ndim
    return x.array[(slice(None), *(None,) * missing)] if missing > 0 else x.array


def wrapped(result: Any, level: Level) -> Any:
    """Return a result, or each of several, as batched arrays."""
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(Batched(each, level) for each in result))
    if isinstance(result, (tuple, list)):
        return type(result)(Batched(each, level) for each in result)
    return Batched(result, level)


def physical_axis(axis: Any, ndim: int) -> Any:
    """Return an axis of one example (a tuple of them, None for all) as an axis of the array of all examples."""
    if axis is None:
        return tuple(range(1, ndim + 1))
    if isinstance(axis, (tuple, list)):
        return tuple(physical_axis(a, ndim) for a in axis)
    axis = int(axis)
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis + 1 if axis >= 0 else axis


def ndim_of(x: Any) -> int:
    """Return how many axes an operand has; a number has none."""
    return x.ndim if hasattr(x, "ndim") else np.ndim(x)


# What NumPy's functions are here, and how keys are read: filled by functions.py and keys.py.
HANDLERS: dict[Any, Callable[..., Any]] = {}


class _Flags:
    """How an example lies in memory, as far as that is asked."""

    __slots__ = ("c_contiguous", "f_contiguous", "writeable")

    def __init__(self, array: Any) -> None:
        flags = array.flags
        self.c_contiguous, self.f_contiguous = bool(flags.c_contiguous), bool(flags.f_contiguous)
        self.writeable = getattr(flags, "writeable", True)  # CuPy has no such flag


class Batched(Around, np.lib.mixins.NDArrayOperatorsMixin):
    """An array per example; `array` holds them all, their number is its first axis.

    >>> x = Batched(np.arange(6.0).reshape(2, 3), Level(2))
    >>> x.shape, (x * x).sum().array
    ((3,), array([ 5., 50.]))
    """

    __slots__ = ("__weakref__", "array", "level")
    __hash__ = object.__hash__

    def __init__(self, array: Any, level: Level) -> None:
        self.array = array
        self.level = level

    # --- what an array is ---------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self.array.shape[1:]

    @property
    def ndim(self) -> int:
        """How many axes an example has."""
        return self.array.ndim - 1

    @property
    def size(self) -> int:
        """How many elements an example has."""
        return self.array.size // self.level.size

    dtype = property(lambda self: self.array.dtype)
    itemsize = property(lambda self: self.array.itemsize)
    nbytes = property(lambda self: self.size * self.array.itemsize)
    strides = property(lambda self: self.array.strides[1:])
    flags = property(lambda self: _Flags(self.array[0, ...]))
    # Its memory is that of the array of all: so the engine sees which tensors share it.
    base = property(lambda self: self.array)
    # It lies where that does.
    __minitorch_place__ = property(lambda self: self.array)
    T = property(lambda self: self.transpose())
    mT = property(lambda self: self.swapaxes(-1, -2))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Batched({self.level.size} examples of shape {self.shape}, {self.dtype})"

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __copy__(self) -> Batched:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Batched:
        return self.copy()

    # --- NumPy's protocols --------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if any(isinstance(each, Node) for each in inputs):
            return NotImplemented
        return HANDLERS["ufunc"](ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if any(issubclass(each, Node) for each in types):
            return NotImplemented
        level = top_level(*args, *options.values())
        if level is None:  # `like=`, which NumPy has taken away
            level, options = self.level, {**options, "like": self}
        handler = HANDLERS.get(function)
        if handler is None:
            name = f"np.{function.__module__.removeprefix('numpy').strip('.')}.{function.__name__}"
            return each_alone(
                level, function, args, options, f"{name.replace('..', '.')} has no form for batches"
            )
        return handler(level, *args, **options)

    def _needs_one_value(self, what: str) -> Any:
        raise EachAlone(
            self.level,
            f"{what} of a value that differs between the examples is asked for (a branch, .item())",
        )

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise EachAlone(
            self.level, "a plain NumPy array, which all examples share, is asked for or written into"
        )

    def __bool__(self) -> bool:
        return self._needs_one_value("the truth")

    def __float__(self) -> float:
        return self._needs_one_value("the number")

    def __int__(self) -> int:
        return self._needs_one_value("the number")

    def __complex__(self) -> complex:
        return self._needs_one_value("the number")

    def __index__(self) -> int:
        return self._needs_one_value("the number")

    def item(self, *args: Any) -> Any:
        """Return an element as a number: there is none for all examples."""
        return self._needs_one_value("the number")

    def tolist(self) -> Any:
        """Return the elements as numbers: there are none for all examples."""
        return self._needs_one_value("the list")

    def __decide__(self, otherwise: bool | None) -> bool:
        # For certain: for every example. Possibly, or to be refused: for any of them (see ops/op.py).
        found = self.array.all() if otherwise is False else self.array.any()
        decide = getattr(found, "__decide__", None)
        return bool(found) if decide is None else decide(otherwise)

    def __minitorch_moved__(self, move: Callable[[Any], Any]) -> Batched:
        """Return it on another device, to which `move` brings an array."""
        return Batched(move(self.array), self.level)

    # --- gradients ----------------------------------------------------------------------------------

    def __minitorch_gradient__(self, gradient: Any, parent: Any, returned: bool) -> Any:
        """Return a gradient (this, or a Tensor of it) as `parent` gets it; returned: not to be kept in its `.grad`.

        What was made outside of vmap is shared by all examples, and gets the sum of their gradients; but what a
        function inside asks for (autograd.grad) is its own example's.
        """
        for level in levels_of(self):
            inside = level.start <= parent._time and (level.end is None or parent._time < level.end)
            if not inside and not (returned and level.end is None) and level not in levels_of(parent._array):
                gradient = SUM_EXAMPLES(gradient, level=level)
        return gradient

    def __minitorch_seed__(self, gradient: Any) -> Any:
        """Return a gradient of this array, with which a walk begins, one for each example."""
        data = gradient._data if isinstance(gradient, Node) else gradient
        inner = getattr(self.array, "__minitorch_seed__", None)
        if is_at(data, self.level) and inner is None:
            return gradient
        return gradient + np.zeros_like(self)

    # --- methods ------------------------------------------------------------------------------------

    def astype(
        self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True
    ) -> Batched:
        """Return it in another dtype."""
        if not copy and self.dtype == dtype:
            return self
        return Batched(self.array.astype(dtype, order=order, copy=copy), self.level)

    def copy(self, order: Any = "C") -> Batched:
        """Return an array of its own."""
        return Batched(self.array.copy(order), self.level)

    def view(self, dtype: Any) -> Batched:
        """Return the same bytes as another dtype."""
        return Batched(self.array.view(dtype), self.level)

    def fill(self, value: Any) -> None:
        """Write one value everywhere."""
        self[...] = value

    def reshape(self, *shape: Any, **options: Any) -> Batched:
        """Return the elements under another shape."""
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = tuple(shape[0])
        return Batched(self.array.reshape((self.level.size, *shape)), self.level)

    def transpose(self, *axes: Any) -> Batched:
        """Return it with its axes in another order, backwards by default."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            axes = () if axes[0] is None else tuple(axes[0])
        order = axes or tuple(range(self.ndim))[::-1]
        return Batched(self.array.transpose((0, *(a % self.ndim + 1 for a in order))), self.level)

    def ravel(self, order: str = "C") -> Batched:
        """Return all elements on one axis."""
        return self.reshape(-1)

    def flatten(self, order: str = "C") -> Batched:
        """Return all elements on one axis, as a copy."""
        return self.reshape(-1).copy()

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Return the sum of elements, added up as accurately as those of one example are."""
        if dtype is None and out is None:
            where = physical_axis(axis, self.ndim)
            return Batched(total(self.array, axis=where, keepdims=keepdims), self.level)
        return np.add.reduce(self, axis=axis, dtype=dtype, out=out, keepdims=keepdims)

    def conj(self) -> Batched:
        """Return the complex conjugate."""
        return Batched(self.array.conj(), self.level)

    conjugate = conj

    @property
    def real(self) -> Batched:
        """The real part."""
        return Batched(self.array.real, self.level)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Batched:
        """The imaginary part."""
        return Batched(self.array.imag, self.level)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    def __getitem__(self, key: Any) -> Any:
        return HANDLERS["read"](self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        HANDLERS["write"](self, key, value)


def _method(function: Any) -> Any:
    def method(self: Batched, *args: Any, **options: Any) -> Any:
        level = top_level(self, *args, *options.values())
        return HANDLERS[function](level, self, *args, **options)

    return method


for _name in (
    "all", "any", "argmax", "argmin", "argsort", "clip", "cumprod", "cumsum", "diagonal", "dot", "max", "mean", "min",
    "prod", "repeat", "round", "squeeze", "std", "swapaxes", "take", "trace", "var",
):  # fmt: skip
    setattr(Batched, _name, _method(getattr(np, _name)))


# --- into vmap and out of it ------------------------------------------------------------------------


def _is_later(x: Any, level: Level) -> bool:
    return isinstance(x, Batched) and x.level.start > level.start


def _to_batch(x: Any, *, level: Level, axis: int) -> Any:
    if _is_later(x, level):  # the later level stays outside
        return Batched(_to_batch(x.array, level=level, axis=axis + 1), x.level)
    return Batched(np.moveaxis(x, axis, 0) if axis else x, level)


def _from_batch(x: Any, *, level: Level, axis: int) -> Any:
    if _is_later(x, level):
        return Batched(_from_batch(x.array, level=level, axis=axis + 1), x.level)
    return np.moveaxis(spread(x, level), 0, axis) if axis else spread(x, level)


def _sum_examples(x: Any, *, level: Level) -> Any:
    if _is_later(x, level):
        return Batched(_sum_examples(x.array, level=level), x.level)
    return total(spread(x, level), axis=0, keepdims=False)


TO_BATCH: Op = Op("to_batch", _to_batch, lambda g, out, x, **where: FROM_BATCH(g, **where), register=False)
FROM_BATCH: Op = Op(
    "from_batch", _from_batch, lambda g, out, x, **where: TO_BATCH(g, **where), register=False
)
SUM_EXAMPLES = Op(
    "sum_examples", _sum_examples, lambda g, out, x, *, level: g + np.zeros_like(x), register=False
)
for _op in (TO_BATCH, FROM_BATCH, SUM_EXAMPLES):
    _op.tangent = linear(_op)
