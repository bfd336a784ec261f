"""Functions that change arrays, an optimiser's rule above all, as kernels. Enters: one, arrays, numbers. Leaves: them.

The function runs once on arrays that record. What it leaves in them is computed by one kernel, in their own memory; the
numbers, a learning rate and the like, are told to it at each call. `update` does so for large arrays here, of any
length; device_updates.py for those of a GPU.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler import backends
from minitorch.compiler.call import verify
from minitorch.compiler.call.kernels import SHARE, in_a_row, warn
from minitorch.compiler.ir.program import Program, Value
from minitorch.compiler.ir.sizes import Symbol, collecting
from minitorch.compiler.trace.number import Number
from minitorch.compiler.trace.refusal import CompileError
from minitorch.compiler.trace.traced import Traced
from minitorch.ops import native

Function = Callable[..., None]
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class NoKernel(Exception):
    """A part of a program cannot be a kernel."""


class Changes(NamedTuple):
    """A function that changes arrays as a program: which it changes, and how each number that it is told is found."""

    program: Program
    changed: list[int]
    tells: list[Callable[..., float]]

    @property
    def updates(self) -> dict[int, int]:
        """Where each output belongs."""
        return dict(enumerate(self.changed))

    @property
    def numbers(self) -> range:
        """Which inputs are numbers."""
        return range(len(self.program.inputs) - len(self.tells), len(self.program.inputs))


def fixed_numbers(numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the numbers that a rule may decide on, which have kernels of their own; None: any other at each call."""
    return tuple([None if n.__class__ is float and n not in (0.0, 1.0) else n for n in numbers])


def changes(
    function: Function,
    inputs: list[Value],
    arrays: list[Any],
    numbers: tuple[Any, ...],
    fixed: tuple[Any, ...],
    lengths: Sequence[int] = (),
) -> Changes:
    """Record a function. arrays: what it runs on, one for each input, which it may write into.

    lengths: of the sets of arrays that it is called for, one after the other; none: of all at once.
    """
    traced = [Traced(value, array) for value, array in zip(inputs, arrays, strict=True)]
    before, made = list(inputs), dict[Any, Told]()
    given = [
        known if known is not None else Told(inputs, made, number, operator.itemgetter(i), i)
        for i, (number, known) in enumerate(zip(numbers, fixed, strict=True))
    ]
    rest = iter(traced)
    with np.errstate(all="ignore"):
        for length in lengths or [len(traced)]:
            function([next(rest) for _ in range(length)], tuple(given))
    changed = [i for i, handle in enumerate(traced) if handle.value is not before[i]]
    tells = [each.tell for each in made.values()]
    return Changes(Program(inputs, [traced[i].value for i in changed]), changed, tells)


class Told(Number):
    """A number of a rule's, or what Python computes of some: told to the kernel at each call.

    tell: computes it of a call's numbers. name: what it is, by which it is found again in `made`.
    """

    __slots__ = ("inputs", "made", "name", "tell")

    def __init__(
        self,
        inputs: list[Value],
        made: dict[Any, Told],
        concrete: float,
        tell: Callable[..., float],
        name: Any,
    ) -> None:
        # (Rounded to the arrays' dtype once, as a Python number beside them is.)
        value = Value("input", (), {"index": len(inputs)}, (), inputs[0].dtype)
        super().__init__(value, concrete, lambda: concrete, _decide)
        self.inputs, self.made, self.tell, self.name = inputs, made, tell, name
        inputs.append(value)
        made[name] = self

    def _with(self, ufunc: Any, *operands: Any) -> Any:
        if not all(isinstance(each, (Told, int, float)) for each in operands):
            return NotImplemented
        name = (
            ufunc,
            *[each.name if isinstance(each, Told) else (type(each), str(each)) for each in operands],
        )
        if name in self.made:  # (of another set of arrays)
            return self.made[name]
        tells = [each.tell if isinstance(each, Told) else (lambda numbers, n=each: n) for each in operands]
        concrete = float(ufunc(*(each.concrete if isinstance(each, Told) else each for each in operands)))
        tell = lambda numbers: float(ufunc(*(tell(numbers) for tell in tells)))
        return Told(self.inputs, self.made, concrete, tell, name)

    def _is_given(self) -> bool:
        """Tell whether it is one of a call's numbers: then it is neither 0 nor 1 (see `fixed_numbers`)."""
        return isinstance(self.tell, operator.itemgetter)

    def __bool__(self) -> bool:
        return True if self._is_given() else super().__bool__()

    def __eq__(self, other: Any) -> Any:
        return False if other in (0, 1) and self._is_given() else super().__eq__(other)

    def __ne__(self, other: Any) -> Any:
        return True if other in (0, 1) and self._is_given() else super().__ne__(other)

    __hash__ = Number.__hash__


def _decide(read: Any, answer: Any) -> None:
    raise NoKernel("it decides on a number")


# --- large arrays here --------------------------------------------------------------------------------------------

_met: dict[Any, int] = {}  # how many elements, where there is no kernel yet
_kernels: dict[Any, _Kernel | None] = {}
_making = threading.Lock()
_UNKNOWN: Any = object()


class _Kernel:
    """A function that changes arrays as native code, for all lengths."""

    def __init__(self, found: Changes) -> None:
        self.changed, self.tells = found.changed, found.tells
        self.program = found.program
        compiled: Any = backends.named("native").compile(found.program, found.updates, found.numbers)
        self.executable = compiled

    def __call__(self, rows: list[np.ndarray], numbers: tuple[Any, ...]) -> None:
        """Run it on arrays in a row."""
        if self.executable.entry(*rows, *[tell(numbers) for tell in self.tells]) is not None:
            self.executable.fail()


def update(function: Function, arrays: list[Any], numbers: tuple[Any, ...]) -> bool:
    """Do function(arrays, numbers), which changes some of the arrays, by a kernel; return whether it was done."""
    dtype = arrays[0].dtype
    for array in arrays:
        if array.__class__ is not np.ndarray or array.dtype is not dtype:
            return False
    fixed = fixed_numbers(numbers)
    key = (function, dtype, len(arrays), fixed)
    try:
        kernel = _kernels.get(key, _UNKNOWN)
    except TypeError:  # a number that cannot be a part of a key
        return False
    if kernel is None:
        return False
    if kernel is _UNKNOWN:
        met = _met[key] = _met.get(key, 0) + arrays[0].size
        if met < native.MANY // SHARE:
            return False
    rows = in_a_row(arrays)
    if rows is None:
        return False
    if kernel is _UNKNOWN:
        return _made(key, function, rows, numbers, fixed)
    kernel(rows, numbers)
    return True


def _made(
    key: Any, function: Function, rows: list[np.ndarray], numbers: tuple[Any, ...], fixed: tuple[Any, ...]
) -> bool:
    """Make a kernel of a function, and keep it if it leaves what the function does; return whether that was done."""
    with _making:
        _kernels[key] = None
        if rows[0].dtype not in FLOATS:
            return False
        try:
            backends.named("native").require()
        except ImportError:
            return False
        length = Symbol("s0", rows[0].size).size
        inputs = [Value("input", (), {"index": i}, (length,), row.dtype) for i, row in enumerate(rows)]
        guards: list[Any] = []
        try:
            with collecting(guards):
                found = changes(function, inputs, [row.copy() for row in rows], numbers, fixed)
            if guards or not found.changed:
                return False
            kernel = _Kernel(found)
        except (NoKernel, CompileError):
            return False
        except Exception as problem:  # NumPy does it all the same
            warn(function, f"could not be compiled ({type(problem).__name__}: {problem})")
            return False
        told = [np.asarray(tell(numbers), rows[0].dtype) for tell in found.tells]
        before, copies = [row.copy() for row in rows], [row.copy() for row in rows]
        kernel(copies, numbers)
        function(rows, numbers)
        results, expected = ([each[i] for i in found.changed] for each in (copies, rows))
        if verify.differing(found.program, kernel.executable, [*before, *told], results, expected):
            warn(function, "does not leave what NumPy does")
        else:
            _kernels[key] = kernel
        return True
