"""Values of a recording, one by one, on a device. Enters: a function and arrays there. Leaves: its array.

A recording whose numbers lie on a GPU is computed value by value. CuPy would make a kernel for each function, dtype and
number of axes when it first meets it, in a tenth of a second. These are made side by side and know no lengths: one
element after the other, elementwise functions by the formulas for a CPU and without a GPU's quick instructions.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.capabilities import ATOMIC
from minitorch.compiler.backends.cuda.devices import Device
from minitorch.compiler.backends.cuda.exact import supplied
from minitorch.compiler.backends.cuda.words import BlockWriter, Kernel
from minitorch.compiler.backends.llvm.control import repeat, when
from minitorch.compiler.backends.llvm.functions import emit_function, supported
from minitorch.compiler.backends.llvm.functions.lanes import Lanes, where
from minitorch.compiler.backends.llvm.functions.plain import INF
from minitorch.compiler.backends.llvm.text import TYPES, Emitter, memory_type
from minitorch.compiler.ir.halves import FLOAT32, HALVES
from minitorch.compiler.ir.program import Value

BLOCKS, THREADS = 1056, 256  # of every kernel: eight blocks for each multiprocessor of the largest GPUs
MOST_AXES = 6  # of a copy
_BACK = 1 << 40  # added to steps, which may be negative: a kernel takes negative numbers for something else
_COPIED = (1, 2, 4, 8)  # bytes of an element
INDEX = np.dtype(np.int64)

# What writes a kernel, and what that is given: an elementwise function's name and dtypes, say.
Kind = tuple[Callable[..., Kernel], Any]


class ValueKernels:
    """Kernels for values of any length on a device, made when they are first asked for."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._kernels: dict[Kind, tuple[Kernel, Any]] = {}
        self._making = threading.Lock()

    def prepare(self, values: Iterable[Value]) -> None:
        """Make the kernels that values need, side by side."""
        wanted: list[Kind | None] = []
        for value in values:
            if value.primitive == "map":
                operands = tuple(i.dtype for i in value.inputs)
                wanted.append(_mapping(value.attributes["function"], operands, value.dtype))
            elif value.primitive == "gather":
                wanted.append(_gathering(value.dtype))
            elif value.primitive == "scatter":
                wanted.append(_adding(value.dtype))
            wanted.append(_copying(value.dtype))
        self._make([kind for kind in wanted if kind is not None])

    def map(self, function: str, arrays: Sequence[Any], dtype: np.dtype) -> Any:
        """Return an elementwise function of arrays of one shape; None if there is no kernel for it."""
        kind = _mapping(function, tuple(a.dtype for a in arrays), dtype)
        if kind is None:
            return None
        out = self._device.empty(arrays[0].shape, dtype)
        flat, given = [], []
        for array in arrays:
            stretched = not any(step for step, n in zip(array.strides, array.shape, strict=True) if n > 1)
            flat.append(array if stretched else self.copied(array))
            if flat[-1] is None:
                return None
            given += [self._device.address(flat[-1]), int(not stretched)]
        self._run(kind, [*given, self._device.address(out), out.size])
        return out

    def copied(self, array: Any) -> Any:
        """Return an array with its elements in the order of its axes: itself, if they are. None: there is no kernel."""
        if array.flags.c_contiguous:
            return array
        out = self._device.empty(array.shape, array.dtype)
        return out if self.copy(array, out) else None

    def copy(self, source: Any, target: Any) -> bool:
        """Copy an array to another of its shape and dtype; return whether there is a kernel for it."""
        size = source.dtype.itemsize
        axes = _joined(source.shape, [[s // size for s in a.strides] for a in (source, target)])
        kind = _copying(source.dtype)
        if kind is None or len(axes) > MOST_AXES:
            return False
        axes = [(1, 0, 0)] * (MOST_AXES - len(axes)) + axes
        numbers = [number for n, *steps in axes for number in (n, *(step + _BACK for step in steps))]
        addresses = [self._device.address(a) for a in (source, target)]
        self._run(kind, [*addresses, *numbers, source.size])
        return True

    def gathered(self, x: Any, index: Any, axis: int) -> Any:
        """Return x at some places along an axis; None if there is no kernel for it."""
        kind, x, index = _gathering(x.dtype), self.copied(x), self.copied(index)
        if kind is None or x is None or index.dtype != INDEX:
            return None
        out = self._device.empty(x.shape[:axis] + index.shape + x.shape[axis + 1 :], x.dtype)
        addresses = [self._device.address(a) for a in (x, index, out)]
        inner = math.prod(x.shape[axis + 1 :])
        self._run(kind, [*addresses, x.shape[axis], index.size, inner, out.size])
        return out

    def added(self, base: Any, index: Any, updates: Any, axis: int) -> Any:
        """Return base with updates added at some places along an axis; None if there is no kernel for it."""
        kind, index, updates = _adding(base.dtype), self.copied(index), self.copied(updates)
        out = self._device.empty(base.shape, base.dtype)
        if kind is None or updates is None or index.dtype != INDEX or not self.copy(base, out):
            return None
        addresses = [self._device.address(a) for a in (out, index, updates)]
        inner = math.prod(base.shape[axis + 1 :])
        self._run(kind, [*addresses, base.shape[axis], index.size, inner, updates.size])
        return out

    def shaken(self, array: Any, sized: Any, noise: Any, first: int, error: float, least: float) -> Any:
        """Return an array moved by twice an error times noise times the size of another, or at least of a number where
        it is not 0; as it is, where that is no number. None if there is no kernel for it.

        noise: begun at the `first` of its numbers, and again after its last; of the dtype that is computed in.
        """
        kind, array, sized = _shaking(array.dtype), self.copied(array), self.copied(sized)
        if kind is None or array is None or sized is None:
            return None
        out = self._device.empty(array.shape, array.dtype)
        addresses = [self._device.address(a) for a in (array, sized, noise, out)]
        self._run(kind, [*addresses, first, noise.size, _bits(2 * error), _bits(least), out.size])
        return out

    def _run(self, kind: Kind, operands: list[int]) -> None:
        """Run a kernel. The last of its operands: how many elements there are."""
        if kind not in self._kernels:
            self._make([kind])
        kernel, loaded = self._kernels[kind]
        if operands[-1]:
            self._device.run(loaded, kernel, operands)

    def _make(self, kinds: Iterable[Kind]) -> None:
        with self._making:
            new = [kind for kind in dict.fromkeys(kinds) if kind not in self._kernels]
            kernels = [write(given) for write, given in new]
            loaded = self._device.load(kernels) if kernels else []
            self._kernels.update(zip(new, zip(kernels, loaded, strict=True), strict=True))


def _joined(shape: Sequence[int], steps: list[list[int]]) -> list[tuple[int, ...]]:
    """Return axes as their length and steps, without those of length 1; those that follow on each other as one."""
    axes: list[tuple[int, ...]] = []
    for n, *ours in zip(shape, *steps, strict=True):
        if n == 1:
            continue
        if axes and all(before == n * step for before, step in zip(axes[-1][1:], ours, strict=True)):
            axes[-1] = (axes[-1][0] * n, *ours)
        else:
            axes.append((n, *ours))
    return axes


# --- which kernels there are ---


def _mapping(function: str, operands: tuple[np.dtype, ...], result: np.dtype) -> Kind | None:
    known = all(dtype in TYPES for dtype in (*operands, result)) and supported(
        function, _computed_in(function, operands[-1])
    )
    return (write_map, (function, operands, result)) if known else None


def _computed_in(function: str, dtype: np.dtype) -> np.dtype:
    """Return the dtype that a function computes in: halves are widened on the way, and the result is rounded once."""
    return FLOAT32 if dtype in HALVES and function != "cast" else dtype


def _copying(dtype: np.dtype) -> Kind | None:
    return (write_copy, dtype.itemsize) if dtype.itemsize in _COPIED else None


def _gathering(dtype: np.dtype) -> Kind | None:
    return (write_gather, dtype.itemsize) if dtype.itemsize in _COPIED else None


def _adding(dtype: np.dtype) -> Kind | None:
    return (write_add, dtype) if dtype in ATOMIC else None


def _shaking(dtype: np.dtype) -> Kind | None:
    return (write_shaken, dtype) if dtype.kind == "f" or dtype in HALVES else None


def _bits(number: float) -> int:
    """Return a positive number as a kernel takes it: the bits of a float64."""
    return int(np.float64(number).view(np.int64))


# --- how they are written ---


def _kernel(operands: int, element: Callable[[Emitter, str], None]) -> Kernel:
    """Write a kernel that does something with each element; its last operand says how many there are."""
    block = BlockWriter()
    e, length, all_threads = block.e, f"%given{operands - 1}", BLOCKS * THREADS
    e.fast = ()
    with block.phase():
        first = e.op(f"add i64 {e.op(f'mul i64 %block, {THREADS}')}, %thread")
        turns = e.op(f"udiv i64 {e.op(f'add i64 {length}, {all_threads - 1}')}, {all_threads}")

        def turn(number: str) -> None:
            place = e.op(f"add i64 {e.op(f'mul i64 {number}, {all_threads}')}, {first}")
            when(e, e.op(f"icmp ult i64 {place}, {length}"), lambda: element(e, place))

        repeat(e, "0", turns, turn)
    return Kernel(block.items, [None] * operands, BLOCKS, THREADS, 0, supplied(e.externs))


def _read(e: Emitter, kind: str, operand: int, place: str) -> str:
    pointer = e.op(f"getelementptr {kind}, ptr %operand{operand}, i64 {place}", "p")
    return e.op(f"load {kind}, ptr {pointer}")


def _write(e: Emitter, kind: str, operand: int, place: str, name: str) -> None:
    pointer = e.op(f"getelementptr {kind}, ptr %operand{operand}, i64 {place}", "p")
    e.line(f"store {kind} {name}, ptr {pointer}")


def _taken_apart(e: Emitter, place: str, size: str) -> tuple[str, str]:
    quotient = e.op(f"udiv i64 {place}, {size}")
    return quotient, e.op(f"sub i64 {place}, {e.op(f'mul i64 {quotient}, {size}')}")


def write_map(kind: tuple[str, tuple[np.dtype, ...], np.dtype]) -> Kernel:
    """Write an elementwise function. Operands: of each array its address and the step to the next element, 0 or 1;
    the result's address.
    """
    function, operands, result = kind

    def element(e: Emitter, place: str) -> None:
        names = []
        for number, dtype in enumerate(operands):
            at = e.op(f"mul i64 {place}, %given{2 * number + 1}")
            name = _read(e, memory_type(dtype), 2 * number, at)
            name = e.op(f"trunc i8 {name} to i1") if dtype.kind == "b" else name
            wide = _computed_in(function, dtype)
            names.append(name if wide == dtype else emit_function(e, "cast", [name], dtype, 1, to=wide))
        wide = _computed_in(function, result)
        found = emit_function(e, function, names, _computed_in(function, operands[-1]), 1, to=wide)
        if wide != result:
            found = emit_function(e, "cast", [found], wide, 1, to=result)
        found = e.op(f"zext i1 {found} to i8") if result.kind == "b" else found
        _write(e, memory_type(result), 2 * len(operands), place, found)

    return _kernel(2 * len(operands) + 2, element)


def write_copy(size: int) -> Kernel:
    """Write a copy of elements of some bytes. Operands: both addresses; of each axis its length, and the step along it
    in both.
    """

    def element(e: Emitter, place: str) -> None:
        source = target = "0"
        for axis in reversed(range(MOST_AXES)):
            number = 2 + 3 * axis
            place, counter = _taken_apart(e, place, f"%given{number}")
            steps = [e.op(f"sub i64 %given{number + i}, {_BACK}") for i in (1, 2)]
            source = e.op(f"add i64 {source}, {e.op(f'mul i64 {counter}, {steps[0]}')}")
            target = e.op(f"add i64 {target}, {e.op(f'mul i64 {counter}, {steps[1]}')}")
        _write(e, f"i{8 * size}", 1, target, _read(e, f"i{8 * size}", 0, source))

    return _kernel(2 + 3 * MOST_AXES + 1, element)


def _named_place(e: Emitter, place: str) -> str:
    """Return where an element of a part is in the whole. Operands: an address, the indices', another address; how many
    places the axis has, how many indices there are, how many elements lie at each.
    """
    rest, inside = _taken_apart(e, place, "%given5")
    outer, number = _taken_apart(e, rest, "%given4")
    row = e.op(f"add i64 {e.op(f'mul i64 {outer}, %given3')}, {_read(e, 'i64', 1, number)}")
    return e.op(f"add i64 {e.op(f'mul i64 {row}, %given5')}, {inside}")


def write_gather(size: int) -> Kernel:
    """Write a gather of elements of some bytes. Operands: the array's address, the indices', the result's; sizes."""

    def element(e: Emitter, place: str) -> None:
        _write(e, f"i{8 * size}", 2, place, _read(e, f"i{8 * size}", 0, _named_place(e, place)))

    return _kernel(7, element)


def write_add(dtype: np.dtype) -> Kernel:
    """Write an addition at places. Operands: the result's address, the indices', that of what is added; and sizes."""
    kind, word = memory_type(dtype), "fadd" if dtype.kind == "f" else "add"

    def element(e: Emitter, place: str) -> None:
        pointer = e.op(f"getelementptr {kind}, ptr %operand0, i64 {_named_place(e, place)}", "p")
        e.op(f"atomicrmw {word} ptr {pointer}, {kind} {_read(e, kind, 2, place)} monotonic")

    return _kernel(7, element)


def write_shaken(dtype: np.dtype) -> Kernel:
    """Write what moves numbers by noise. Operands: the addresses of what is moved, of whose sizes count, of the noise
    and of the result; where the noise begins, how many numbers it has; what it is multiplied by, and the least size.
    """
    wide = _computed_in("add", dtype)

    def element(e: Emitter, place: str) -> None:
        def number(operand: int) -> Lanes:
            double = Lanes(e, e.op(f"bitcast i64 %given{operand} to double"), np.float64, 1)
            return (
                double
                if wide == np.float64
                else double.made(e.op(f"fptrunc double {double.name} to float"), wide)
            )

        def read(operand: int) -> Lanes:
            name = _read(e, memory_type(dtype), operand, place)
            return Lanes(
                e, name if wide == dtype else emit_function(e, "cast", [name], dtype, 1, to=wide), wide, 1
            )

        at = e.op(f"urem i64 {e.op(f'add i64 {place}, %given4')}, %given5")
        noise = Lanes(e, _read(e, memory_type(wide), 2, at), wide, 1)
        x, size, least = read(0), read(1).absolute(), number(7)
        size = where(x.differs(0.0) & (size < least), least, size)
        moved = noise * number(6) * size + x
        found = where(moved.absolute() < INF, moved, x).name
        if wide != dtype:
            found = emit_function(e, "cast", [found], wide, 1, to=dtype)
        _write(e, memory_type(dtype), 3, place, found)

    return _kernel(9, element)
