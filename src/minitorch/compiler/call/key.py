"""The cache key: what a program depends on of a call's arguments.

Enters: the arguments of a call. Leaves: its Tensors and arrays, its floats, and a `CacheKey`, by which programs are
found; and, from a key, the conditions that spell it out.

Tuples, lists, dicts, namedtuples and dataclasses are taken apart. Plain things (numbers, strings) are known by their
value, everything else by identity. A float is part of the key until it is seen to change; then it is an input. So is an
int: then it has a name in the key, as a size that varies has (shapes.py).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler.call.conditions import PLAIN, Condition, Let, Local, Remembered, Requirement, compiled
from minitorch.compiler.ir.polynomial import GREATEST, LEAST
from minitorch.engine.gpu import device_of, is_writeable
from minitorch.engine.modes import Mode
from minitorch.engine.node import Node
from minitorch.engine.recording import ARRAY, GRADIENT
from minitorch.engine.watch import owner_of
from minitorch.optim.optimizer import ParameterGroup
from minitorch.tensor.devices import defaults_of_creation

# --- one Tensor or array --------------------------------------------------------------------------------------


class Fact(NamedTuple):
    """Something a program depends on: an expression of {0}, the Tensor or array, and how two of them are compared."""

    words: str
    look: str
    test: str = "is"


# Of an array, a Tensor's or one by itself. Where it is not contiguous its steps in memory count: random numbers are
# drawn into results like it in their order.
OF_ARRAY = {
    "array": Fact("the array of {}", "{0}.__class__"),
    "shape": Fact("the shape of {}", "{0}.shape", "=="),
    "dtype": Fact("the dtype of {}", "{0}.dtype", "=="),
    "contiguous": Fact(
        "whether {} is contiguous", "({0}.flags.carray or ({0}.strides, {0}.flags.writeable))", "=="
    ),
}
# On a device any may be written into.
OF_DEVICE_ARRAY = OF_ARRAY | {
    "contiguous": Fact("whether {} is contiguous", "({0}.flags.c_contiguous or ({0}.strides, True))", "==")
}
OF_TENSOR = {
    "tensor": Fact("the type of {}", "{0}.__class__"),
    "requires_grad": Fact("requires_grad of {}", "{0}._requires_grad"),
    "no_gradient": Fact("whether {} has no gradient", f"({GRADIENT} is None)"),
}
# Of one that requires grad: nothing else has these.
OF_TRACKED = {
    "is_leaf": Fact("whether {} is a leaf", "({0}._operation is None)"),
    "hooked": Fact("whether {} has hooks", "bool({0}._hooks)"),
}


class Signature(NamedTuple):
    """What a program depends on of one Tensor or array among the arguments: a field for each of the facts above."""

    array: type
    shape: tuple[Any, ...]  # names in place of sizes that vary (shapes.py)
    dtype: Any
    contiguous: (
        Any  # True, or its strides and whether it may be written into; or a Layout, where strides vary
    )
    tensor: Any  # from here on None for an array by itself
    requires_grad: bool | None
    no_gradient: bool | None
    is_leaf: bool | None
    hooked: bool | None


class Layout(NamedTuple):
    """How an array lies in memory whose strides vary: in the order of its axes, without overlaps, perhaps with gaps."""

    contiguous: bool
    writeable: bool


def layout_of(array: np.ndarray) -> Layout | None:
    """Return the layout of an array; None if it lies there in another order."""
    step = array.itemsize
    for n, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if n != 1:
            if stride < step:
                return None
            step = stride * n
    return Layout(array.flags.c_contiguous, is_writeable(array))


def _finder(facts: dict[str, Fact], of_array: dict[str, Fact] = OF_ARRAY) -> Callable[[Any, Any], Signature]:
    """Return the function that finds these facts: of an array, and of the Tensor around it."""
    of = {name: fact.look.format("array") for name, fact in of_array.items()}
    of |= {name: fact.look.format("leaf") for name, fact in facts.items()}
    parts = ", ".join(of.get(name, "None") for name in Signature._fields)
    return eval(
        f"lambda leaf, array: new(Signature, ({parts}))",
        {"new": tuple.__new__, "Signature": Signature, "__name__": __name__},
    )


_of_array, _of_tensor, _of_tracked = _finder({}), _finder(OF_TENSOR), _finder({**OF_TENSOR, **OF_TRACKED})
_there, _tracked_there = (
    _finder(facts, OF_DEVICE_ARRAY) for facts in (OF_TENSOR, {**OF_TENSOR, **OF_TRACKED})
)


def signature(leaf: Any) -> Signature:
    """Return what a program depends on of a Tensor or array."""
    if not isinstance(leaf, Node):
        return _of_array(leaf, leaf)
    array = leaf._data
    if array.__class__ is np.ndarray:
        return (_of_tracked if leaf._requires_grad else _of_tensor)(leaf, array)
    return (_tracked_there if leaf._requires_grad else _there)(leaf, array)


def _conditions(facts: dict[str, Fact], expected: Signature, words: str, name: Local) -> list[Condition]:
    return [
        Condition(fact.words.format(words), fact.look, (name,), getattr(expected, field), fact.test)
        for field, fact in facts.items()
    ]


# --- nested containers ----------------------------------------------------------------------------------------
# A structure is (how, type, inside), nested: hashable, and all that is known of arguments beside arrays and floats.

LEAF = ("leaf", None, ())
FLOAT = ("float", float, ())
INT = ("int", int, ())
_COMMON = frozenset((bool, str, type(None)))


def take_apart(
    thing: Any, leaves: list[Any], numbers: list[float], whole: list[int], objects: list[Any] | None = None
) -> tuple[str, Any, Any]:
    """Return a container's structure, with Tensors and arrays moved to `leaves`, floats to `numbers`, ints to `whole`.

    objects: gets what the structure knows by identity only, to be looked into by guards.
    """
    kind = type(thing)
    if kind in _COMMON:  # what most arguments are, quickly
        return ("value", kind, thing)
    if isinstance(thing, (Node, np.ndarray)):
        leaves.append(thing)
        return LEAF
    if kind is int:
        whole.append(thing)
        return INT
    if kind is float:
        numbers.append(thing)
        return FLOAT
    if isinstance(thing, (tuple, list)):
        if kind not in (tuple, list) and objects is not None:
            objects.append(kind)
        return ("items", kind, tuple([take_apart(i, leaves, numbers, whole, objects) for i in thing]))
    if isinstance(thing, dict) and not isinstance(thing, ParameterGroup):
        inside = tuple([take_apart(v, leaves, numbers, whole, objects) for v in thing.values()])
        return ("dict", kind, (tuple(thing), inside))
    if isinstance(thing, PLAIN):
        by_text = kind.__hash__ is None or thing != thing
        return ("text", kind, repr(thing)) if by_text else ("value", kind, thing)
    if is_record(thing):
        if objects is not None:
            objects.append(kind)
        parts = [getattr(thing, f.name) for f in dataclasses.fields(thing)]
        return ("fields", kind, tuple([take_apart(part, leaves, numbers, whole, objects) for part in parts]))
    if objects is not None:
        objects.append(thing)
    return ("object", kind, id(thing))


def is_record(thing: Any) -> bool:
    """Tell whether something is a dataclass's instance and nothing beyond its fields."""
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return False
    return set(getattr(thing, "__dict__", ())) <= {f.name for f in dataclasses.fields(thing)}


def exactly(number: float) -> Any:
    """Return what tells a float from others: 0.0 from -0.0, and nan from nothing."""
    return (math.copysign(1, number), number) if number == number else "nan"


# --- the key --------------------------------------------------------------------------------------------------


class CacheKey(NamedTuple):
    """What programs are found by. Two calls with the same key can use the same program, if its guards hold."""

    positional: Any  # structures
    named: Any
    leaves: tuple[Signature, ...]
    identical: tuple[int, ...]  # which leaf each one is identical with; () if all are different objects
    grad_enabled: bool
    defaults: Any  # the default dtype, and the default device if there is one
    precision: Any  # the dtype that autocast chose
    inputs: tuple[int, ...] = ()  # which floats are inputs of the program
    numbers: tuple[Any, ...] = ()  # the others, exactly
    whole: tuple[int | str, ...] = ()  # the ints; names in place of those that vary

    @property
    def varies(self) -> bool:
        """Whether it is one of calls with several shapes, ints or layouts."""
        return any(isinstance(leaf.contiguous, Layout) for leaf in self.leaves) or any(
            n.__class__ is str for shape in self.shapes for n in shape
        )

    def is_of(self, arguments: Arguments) -> bool:
        """Tell whether it is the key of a call, whatever its floats, and the sizes and ints that vary, are."""
        key = arguments.key
        if len(key.leaves) != len(self.leaves):
            return False
        shapes = [
            tuple(name if name.__class__ is str else n for name, n in zip(mine, shape, strict=True))
            if len(mine) == len(shape)
            else shape
            for mine, shape in zip(self.shapes, key.shapes, strict=True)
        ]
        mine = [leaf.contiguous for leaf in self.leaves]
        layouts = [
            there if isinstance(known, Layout) else leaf.contiguous
            for known, there, leaf in zip(mine, arguments.layouts(), key.leaves, strict=True)
        ]
        return key.with_shapes(shapes, layouts)._replace(inputs=(), numbers=()) == self._replace(
            inputs=(), numbers=()
        )

    @property
    def shapes(self) -> tuple[tuple[Any, ...], ...]:
        """The shapes of the arrays among the arguments; behind them, as if they were one more, the ints."""
        return (*[leaf.shape for leaf in self.leaves], self.whole)

    def with_shapes(self, shapes: Sequence[tuple[Any, ...]], layouts: Sequence[Any]) -> CacheKey:
        """Return the key of arguments with other shapes, ints and layouts."""
        *shapes, whole = shapes
        leaves = [
            leaf._replace(shape=shape, contiguous=layout)
            for leaf, shape, layout in zip(self.leaves, shapes, layouts, strict=True)
        ]
        return self._replace(leaves=tuple(leaves), whole=whole)


class Arguments:
    """The arguments of one call, taken apart.

    key: theirs, without the floats.
    """

    __slots__ = ("args", "key", "leaves", "numbers", "options")

    def __init__(self, args: tuple[Any, ...], options: dict[str, Any], mode: Mode) -> None:
        self.args = args
        self.options = options
        self.leaves: list[Any] = []
        self.numbers: list[float] = []
        whole: list[int] = []
        positional = take_apart(args, self.leaves, self.numbers, whole)
        named = take_apart(options, self.leaves, self.numbers, whole) if options else None
        signatures = tuple(map(signature, self.leaves))
        identical = _identical(self.leaves)
        set_before = (mode.enabled, defaults_of_creation(), mode.precision)
        found = (positional, named, signatures, identical, *set_before, (), (), tuple(whole))
        self.key = tuple.__new__(CacheKey, found)  # by its own constructor it takes three times as long

    def key_with(
        self, inputs: tuple[int, ...], numbers: Sequence[float] | None = None, key: CacheKey | None = None
    ) -> CacheKey:
        """Return the key if some of the floats are inputs. numbers: others in place of this call's.

        key: without floats, if it is another one than the call's own.
        """
        key = self.key if key is None else key
        if not self.numbers:
            return key
        given = self.numbers if numbers is None else numbers
        fixed = tuple(exactly(n) for i, n in enumerate(given) if i not in inputs)
        return key._replace(inputs=inputs, numbers=fixed)

    @property
    def on_device(self) -> bool:
        """Whether some of the arrays lie on a device."""
        return any(
            leaf.array is not np.ndarray and isinstance(given, Node) and device_of(given._data) is not None
            for leaf, given in zip(self.key.leaves, self.leaves, strict=True)
        )

    def layouts(self) -> list[Any]:
        """Return how the arrays lie in memory, as far as that matters where sizes and strides vary; None: it does."""
        arrays = [leaf._data if isinstance(leaf, Node) else leaf for leaf in self.leaves]
        known = [leaf.contiguous for leaf in self.key.leaves]
        return [True if c is True else layout_of(a) for c, a in zip(known, arrays, strict=True)]

    def sharing(self) -> tuple[int, ...]:
        """Return which of the arrays lie in the memory of an earlier one."""
        arrays = [leaf._data if isinstance(leaf, Node) else leaf for leaf in self.leaves]
        return _identical([owner_of(array) for array in arrays])

    def objects(self) -> list[Any]:
        """Return what the key knows by identity only."""
        found: list[Any] = []
        take_apart((self.args, self.options), [], [], [], found)
        return found


def _identical(leaves: list[Any]) -> tuple[int, ...]:
    if len({id(leaf) for leaf in leaves}) == len(leaves):
        return ()
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(leaf), i) for i, leaf in enumerate(leaves))


# Whoever wants to see each op, or each gradient, gets to see none of a program; a recording must see them too.
UNOBSERVED = [
    Condition("who records", "{0}.recorder", (Local("mode"),), None),
    Condition("who observes ops", "{0}.observers", (Local("mode"),), (), "=="),
    Condition("who checks gradients", "{0}.gradient_check", (Local("mode"),), None),
]
is_unobserved = compiled(UNOBSERVED, "mode")


# --- the key, spelled out -------------------------------------------------------------------------------------


class Spelled:
    """The conditions on a call that has a key: `requirements`, of its `args`, its `options` and the mode it is made in.

    leaves, arrays, numbers: the names that Tensors (and arrays), their arrays, and the floats have there.
    on_array: gives further conditions on an array among the arguments. usual: a mode under which the key was found.
    """

    def __init__(
        self,
        key: CacheKey,
        on_array: Callable[[str, Local], list[Condition]] = lambda words, name: [],
        usual: Mode | None = None,
    ) -> None:
        self.key = key
        self.leaves: list[Local] = []
        self.arrays: list[Local] = []
        self.numbers: list[Local] = []
        self.sizes: dict[str, Local] = {}  # those that vary
        self._on_array = on_array
        self._fixed = iter(key.numbers)
        self._whole = iter(key.whole)
        self._ints: list[tuple[str, Local, str]] = []  # those that vary: words, local name, name in the key
        enabled = Condition(
            "whether gradients are recorded", "{0}.enabled", (Local("mode"),), key.grad_enabled
        )
        precision = Condition("what autocast chose", "{0}.precision", (Local("mode"),), key.precision, "==")
        self.requirements: list[Requirement] = [
            Let(("mode",), "current()", ()),
            Remembered(Local("mode"), [enabled, precision, *UNOBSERVED], usual),
            Condition("the default dtype and device", "defaults()", (), key.defaults, reported=True),
        ]
        self._spell("args", Local("args"), key.positional, "a")
        if key.named is None:
            self._require("the number of keyword arguments", "len({0})", Local("options"), 0)
        else:
            self._spell("options", Local("options"), key.named, "b")
        self._spell_ints()
        self._tell_apart()

    def _require(self, words: str, look: str, name: Local, expected: Any, test: str = "==") -> None:
        self.requirements.append(Condition(words, look, (name,), expected, test))

    def _spell(self, words: str, name: Local, structure: Any, prefix: str) -> None:
        """Require that `name` is of a structure; names for what is in it begin with `prefix`."""
        how, kind, inside = structure
        if how == "leaf":
            self._spell_leaf(words, name)
            return
        self._require(f"the type of {words}", "{0}.__class__", name, kind, "is")
        if how == "float":
            if len(self.numbers) not in self.key.inputs:
                expected = next(self._fixed)
                self._require(words, "{0}", name, math.nan if expected == "nan" else expected[1], "same")
            self.numbers.append(name)
        elif how == "int":
            expected = next(self._whole)
            if expected.__class__ is str:
                self._ints.append((words, name, expected))
            else:
                self._require(words, "{0}", name, expected)
        elif how == "value":
            self._require(words, "{0}", name, inside)
        elif how == "text":
            self._require(words, "repr({0})", name, inside)
        elif how == "object":
            self._require(f"which object {words} is", "id({0})", name, inside)
        else:
            self._spell_inside(words, name, structure, prefix)

    def _spell_inside(self, words: str, name: Local, structure: Any, prefix: str) -> None:
        how, kind, inside = structure
        if how == "items":
            self._require(f"the length of {words}", "len({0})", name, len(inside))
            look, places = "{0}", [f"[{i}]" for i in range(len(inside))]
        elif how == "dict":
            keys, inside = inside
            self._require(f"the keys of {words}", "tuple({0})", name, keys)
            look, places = "{0}.values()", [f"[{key!r}]" for key in keys]
        else:
            alone = Condition(f"whether {words} has its fields alone", "{1}({0})", (name, is_record), True)
            self.requirements.append(alone)
            places = [f".{field.name}" for field in dataclasses.fields(kind)]
            look = "(" + "".join(f"{{0}}{place}, " for place in places) + ")"
        names = tuple(Local(f"{prefix}{i}") for i in range(len(inside)))
        if names:
            self.requirements.append(Let(names, look, (name,), unpack=True))
        for one, place, part in zip(names, places, inside, strict=True):
            self._spell(words + place, one, part, f"{one}_")

    def _spell_leaf(self, words: str, name: Local) -> None:
        expected = self.key.leaves[len(self.leaves)]
        array = Local(f"d{len(self.leaves)}")
        if expected.tensor is None:
            self.requirements.append(Let((array,), "{0}", (name,)))
        else:
            facts = {**OF_TENSOR, **(OF_TRACKED if expected.requires_grad else {})}
            self.requirements += _conditions(facts, expected, words, name)
            self.requirements.append(Let((array,), ARRAY, (name,)))
        varies = any(n.__class__ is str for n in expected.shape)
        laid_out = isinstance(expected.contiguous, Layout)
        without = [*(["shape"] if varies else []), *(["contiguous"] if laid_out else [])]
        of_array = OF_ARRAY if issubclass(expected.array, np.ndarray) else OF_DEVICE_ARRAY
        conditions = _conditions(
            {name: fact for name, fact in of_array.items() if name not in without}, expected, words, array
        )
        if laid_out:
            layout = f"how {words} lies in memory"
            conditions.append(Condition(layout, "{1}({0})", (array, layout_of), expected.contiguous, "=="))
        self.requirements.append(Remembered(array, conditions + self._on_array(words, array)))
        if varies:
            self._spell_shape(words, array, expected.shape)
        self.leaves.append(name)
        self.arrays.append(array)

    def _spell_shape(self, words: str, array: Local, shape: tuple[Any, ...]) -> None:
        """Require a shape in which sizes vary, and give each of these its name."""
        self._require(f"the number of axes of {words}", "{0}.ndim", array, len(shape))
        lengths = [Local(f"{array}_{axis}") for axis in range(len(shape))]
        first = {name: axis for axis, name in reversed(list(enumerate(shape))) if name.__class__ is str}
        for name, axis in first.items():
            if name not in self.sizes:
                lengths[axis] = self.sizes[name] = Local(name)
        self.requirements.append(Let(tuple(lengths), "{0}.shape", (array,), unpack=True))
        for axis, (length, n) in enumerate(zip(lengths, shape, strict=True)):
            of_axis = f"the length of axis {axis} of {words}"
            if n.__class__ is not str:
                self._require(of_axis, "{0}", length, n)
            elif length != n:
                self._require(of_axis, "{0}", length, self.sizes[n])
            else:
                told = f"{of_axis} is 0 or 1, for which there are programs of their own"
                enough = Condition(of_axis, f"({{0}} >= {LEAST})", (length,), True, told=told)
                self.requirements.append(enough)

    def _spell_ints(self) -> None:
        """Require of ints that vary that they may, and give each its name; those that are also sizes are these."""
        for words, local, name in self._ints:
            if name in self.sizes:
                self._require(words, "{0}", local, self.sizes[name])
                continue
            self.sizes[name] = Local(name)
            self.requirements.append(Let((self.sizes[name],), "{0}", (local,)))
            told = f"{words} is a number for which there are programs of their own"
            self.requirements.append(
                Condition(words, f"({LEAST} <= {{0}} <= {GREATEST})", (local,), True, told=told)
            )

    def _tell_apart(self) -> None:
        """Which of the leaves are one and the same object must not change."""
        first = self.key.identical or tuple(range(len(self.leaves)))
        for i, one in enumerate(self.leaves):
            # One that is an earlier one has to be just that; any other, none of the earlier ones.
            earlier = [j for j in range(i) if first[j] == j] if first[i] == i else [first[i]]
            for j in earlier:
                words = f"whether arrays {j} and {i} among the arguments are one object"
                self.requirements.append(
                    Condition(words, "({0} is {1})", (one, self.leaves[j]), first[i] == j)
                )


def in_words(key: CacheKey) -> list[str]:
    """Say what arguments a program takes."""
    signatures, whole = iter(key.leaves), iter(key.whole)

    def words(part: Any) -> str:
        how, kind, inside = part
        if how == "leaf":
            of = next(signatures)
            text = f"{(of.tensor or of.array).__name__} {of.dtype}[{'×'.join(map(str, of.shape))}]"
            text += "" if of.contiguous is True else " strided" if of.contiguous[1] else " read-only"
            return text + (" requires grad" if of.requires_grad else "")
        if how == "float":
            return "a float"
        if how == "int":
            return f"int {next(whole)}"
        if how == "dict":
            return "{" + ", ".join(f"{k!r}: {words(v)}" for k, v in zip(*inside, strict=True)) + "}"
        if how in ("items", "fields"):
            return f"{kind.__name__}({', '.join(map(words, inside))})"
        return f"{kind.__name__} {inside!r}" if how == "value" and kind in (bool, str) else kind.__name__

    found = [words(part) for part in key.positional[2]]
    if key.named is not None:
        names, parts = key.named[2]
        found += [f"{name}={words(part)}" for name, part in zip(names, parts, strict=True)]
    return found
