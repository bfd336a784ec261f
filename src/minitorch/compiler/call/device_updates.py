"""Functions that change a GPU's arrays, an optimiser's rule, as kernels. Enters: one, arrays, numbers. Leaves: them.

The arrays come in sets, a parameter with its gradient and state; small sets are changed side by side, by one kernel.
The first calls are computed value by value; what kernels give the first time is compared with that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.words import ALIGNMENT
from minitorch.compiler.call.agreement import close, largest_of
from minitorch.compiler.call.eager_backend import MOST_SHAPES, Lately, in_use, is_due, kept, making
from minitorch.compiler.call.kernels import warn
from minitorch.compiler.call.launches import Launches
from minitorch.compiler.call.update_kernels import FLOATS, Changes, NoKernel, changes, fixed_numbers
from minitorch.compiler.ir.elsewhere import Elsewhere, lies_here
from minitorch.compiler.ir.program import Value, interpret
from minitorch.compiler.trace.promised import NumbersMissing, promise
from minitorch.compiler.trace.refusal import CompileError

DTYPES = (*FLOATS, np.dtype(np.int64))
MOST_NUMBERS = 8  # sets of numbers that are kept on the device

_met: dict[Any, int] = kept(Lately())
_shapes: dict[Any, int] = kept()  # how many kernels a function has
_updates: dict[Any, Update | None] = kept()
_changes: dict[Any, Changes] = kept()  # what has no kernels yet
_numbers: dict[Any, Any] = kept()  # sent lately: the parameters of a group are told the same
_UNKNOWN: Any = object()


def update(function: Callable[..., None], sets: list[list[Any]], numbers: tuple[Any, ...]) -> bool:
    """Do function(arrays, numbers), which changes some arrays, for each of some sets; return whether it was done.

    The arrays of one set are of one shape and dtype, or single numbers that are only read.
    """
    kind, dtype = sets[0][0].__class__, sets[0][0].dtype
    addresses, pattern, apart = [], [], []
    for arrays in sets:
        size = arrays[0].size
        for array in arrays:
            own = array.size
            if array.__class__ is not kind or own not in (size, 1) or array.dtype != dtype:
                return False
            address = array.data.ptr
            if address % ALIGNMENT or not array._c_contiguous:
                return False
            addresses.append(address)
            pattern.append(own)
            if own == size:
                apart.append((address, address + array.nbytes))
        pattern.append(None)
    apart.sort()
    if any(begin < end for (_, end), (begin, _) in itertools.pairwise(apart)):
        return False  # what is changed in one of them is read, or changed, in another
    fixed = fixed_numbers(numbers)
    key = (function, dtype, tuple(pattern), fixed)
    try:
        kernel = _updates.get(key, _UNKNOWN)
    except TypeError:
        return False
    if kernel is None:
        return False
    if kernel is _UNKNOWN:
        return _update_later(key, function, sets, numbers, fixed)
    kernel(addresses, numbers)
    return True


class Update:
    """Kernels that change arrays. changed: which. tells: how each number that they are told is computed."""

    def __init__(self, run: Launches, changed: list[int], tells: list[Callable[..., float]]) -> None:
        self.run, self.changed, self.tells = run, changed, tells

    def __call__(self, addresses: list[int], numbers: tuple[Any, ...]) -> None:
        """Run it, on arrays that begin at these addresses."""
        if self.tells:
            held = self._sent(tuple([tell(numbers) for tell in self.tells]))
            address = self.run.launcher.address(held)
            addresses = addresses + [address] * len(self.tells)  # (they are all in one array)
        self.run((), None, addresses)

    def _sent(self, numbers: tuple[float, ...]) -> Any:
        """Return numbers on the device, in one array."""
        launcher = self.run.launcher
        key = (launcher.stream().ptr, numbers)
        found = _numbers.get(key)
        if found is None:
            if len(_numbers) >= MOST_NUMBERS:
                _numbers.clear()
            pairs = np.zeros(len(numbers), [("wide", "f8"), ("narrow", "f4"), ("", "f4")])
            pairs["wide"] = pairs["narrow"] = numbers
            found = _numbers[key] = launcher.sent(pairs.view(np.int64))
        return found


def _update_later(
    key: Any,
    function: Callable[..., None],
    sets: list[list[Any]],
    numbers: tuple[Any, ...],
    fixed: tuple[Any, ...],
) -> bool:
    """Do it value by value, there being no kernel yet; make one at the last of some calls."""
    arrays = [array for some in sets for array in some]
    met = _met[key] = _met.get(key, 0) + 1
    with making:
        backend, _updates[key] = in_use(), None
        if backend is None or _shapes.get(function, 0) >= MOST_SHAPES or arrays[0].dtype not in DTYPES:
            return False
        kernel = copies = None
        try:
            found = _recorded_change(key, function, sets, numbers, fixed)
            if is_due(met):
                _shapes[function] = _shapes.get(function, 0) + 1
                kernel = Update(
                    backend.build(found.program, found.updates, found.numbers), found.changed, found.tells
                )
        except (NoKernel, NumbersMissing, CompileError):
            return False
        compute = backend.by_values
        if kernel is not None:
            copies = [a.copy() for a in arrays]
            sizes = _sizes_of(sets, compute)
            kernel([each.data.ptr for each in copies], numbers)
        told = [np.asarray(tell(numbers), arrays[0].dtype) for tell in found.tells]
        rows = [array.reshape(-1) for array in arrays]
        try:
            compute.prepare(found.program.values())
            outputs = interpret(found.program, [*rows, *told], compute=compute)
        except MemoryError:  # CuPy takes less
            return False
        for i, made in zip(found.changed, outputs, strict=True):
            np.copyto(rows[i], compute.to_device(made) if lies_here(made) else made)
        if copies is None:
            del _updates[key]
        elif all(close(copies[i], arrays[i], sizes[i], compute) for i in found.changed):
            _updates[key] = kernel
            del _changes[key]
        else:
            warn(function, "does not give what its steps give", "CuPy")
        return True


def _recorded_change(
    key: Any, function: Callable[..., None], sets: list[list[Any]], numbers: Any, fixed: Any
) -> Changes:
    """Return a function that changes arrays as a program."""
    if key not in _changes:
        arrays = [array for some in sets for array in some]
        inputs = [Value("input", (), {"index": i}, (a.size,), a.dtype) for i, a in enumerate(arrays)]
        promised = [promise((a.size,), a.dtype) for a in arrays]
        _changes[key] = changes(function, inputs, promised, numbers, fixed, [len(some) for some in sets])
    return _changes[key]


def _sizes_of(sets: list[list[Any]], compute: Elsewhere) -> list[list[tuple[float, int]]]:
    """Return, for each array, how large the numbers of its set are, and how many there are (see `close`)."""
    found = []
    for some in sets:
        found += [[(largest_of(a, compute), a.size) for a in some]] * len(some)
    return found
