"""Elementwise functions of a device's arrays, one by one. Enters: a function and arrays there. Leaves: its array.

A recording whose numbers lie on a GPU is computed value by value. CuPy would make a kernel for each function and dtype
when it first meets it, in a tenth of a second; these are written by the formulas for a CPU, without a GPU's quick
instructions, are made side by side, and know no lengths.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler.backends.cuda.devices import Device
from minitorch.compiler.backends.cuda.exact import supplied
from minitorch.compiler.backends.cuda.words import BlockWriter, Kernel
from minitorch.compiler.backends.llvm.control import repeat, when
from minitorch.compiler.backends.llvm.functions import emit_function, supported
from minitorch.compiler.backends.llvm.text import TYPES, memory_type
from minitorch.compiler.ir.program import Value

BLOCKS, THREADS = 1056, 256  # of every kernel: eight blocks for each multiprocessor of the largest GPUs


class Kind(NamedTuple):
    """A function's name, its operands' dtypes and its result's."""

    function: str
    operands: tuple[np.dtype, ...]
    result: np.dtype


class Maps:
    """Kernels of elementwise functions on a device, made when they are first asked for."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._kernels: dict[Kind, tuple[Kernel, Any] | None] = {}  # None: there is none
        self._making = threading.Lock()

    def prepare(self, values: Iterable[Value]) -> None:
        """Make the kernels that values need, side by side."""
        self._make(
            Kind(v.attributes["function"], tuple(i.dtype for i in v.inputs), v.dtype)
            for v in values
            if v.primitive == "map"
        )

    def __call__(self, function: str, arrays: Sequence[Any], dtype: np.dtype) -> Any:
        """Return a function of arrays of one shape; None if there is no kernel for it."""
        kind = Kind(function, tuple(a.dtype for a in arrays), dtype)
        if kind not in self._kernels:
            self._make([kind])
        found = self._kernels[kind]
        if found is None:
            return None
        kernel, loaded = found
        out = self._device.empty(arrays[0].shape, dtype)
        flat, given = [], []
        for array in arrays:
            stretched = not any(step for step, n in zip(array.strides, array.shape, strict=True) if n > 1)
            flat.append(array if stretched else np.ravel(array))
            given += [self._device.address(flat[-1]), int(not stretched)]
        if out.size:
            self._device.run(loaded, kernel, [*given, self._device.address(out), out.size])
        return out

    def _make(self, kinds: Iterable[Kind]) -> None:
        with self._making:
            new = [kind for kind in dict.fromkeys(kinds) if kind not in self._kernels]
            known = [kind for kind in new if _is_known(kind)]
            kernels = [written(kind) for kind in known]
            loaded = self._device.load(kernels) if kernels else []
            self._kernels.update(dict.fromkeys(new))
            self._kernels.update(zip(known, zip(kernels, loaded, strict=True), strict=True))


def _is_known(kind: Kind) -> bool:
    return all(dtype in TYPES for dtype in (*kind.operands, kind.result)) and supported(
        kind.function, kind.operands[-1]
    )


def written(kind: Kind) -> Kernel:
    """Write a kernel. Its operands: of each array its address and the step to the next element, 0 or 1; the result's
    address, and how many elements there are.
    """
    block = BlockWriter()
    e, count = block.e, len(kind.operands)
    e.fast = ()
    with block.phase():
        first = e.op(f"add i64 {e.op(f'mul i64 %block, {THREADS}')}, %thread")
        length = f"%given{2 * count + 1}"
        turns = e.op(f"udiv i64 {e.op(f'add i64 {length}, {BLOCKS * THREADS - 1}')}, {BLOCKS * THREADS}")

        def element(place: str) -> None:
            names = []
            for number, dtype in enumerate(kind.operands):
                at = e.op(f"mul i64 {place}, %given{2 * number + 1}")
                memory = memory_type(dtype)
                pointer = e.op(f"getelementptr {memory}, ptr %operand{2 * number}, i64 {at}", "p")
                name = e.op(f"load {memory}, ptr {pointer}, align {dtype.itemsize}")
                names.append(e.op(f"trunc i8 {name} to i1") if dtype.kind == "b" else name)
            found = emit_function(e, kind.function, names, kind.operands[-1], 1, to=kind.result)
            memory = memory_type(kind.result)
            found = e.op(f"zext i1 {found} to i8") if kind.result.kind == "b" else found
            pointer = e.op(f"getelementptr {memory}, ptr %operand{2 * count}, i64 {place}", "p")
            e.line(f"store {memory} {found}, ptr {pointer}, align {kind.result.itemsize}")

        def turn(number: str) -> None:
            place = e.op(f"add i64 {e.op(f'mul i64 {number}, {BLOCKS * THREADS}')}, {first}")
            when(e, e.op(f"icmp ult i64 {place}, {length}"), lambda: element(place))

        repeat(e, "0", turns, turn)
    operands = [None] * (2 * count + 2)
    return Kernel(block.items, operands, BLOCKS, THREADS, 0, supplied(e.externs))
