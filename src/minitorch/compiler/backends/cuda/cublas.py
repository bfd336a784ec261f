"""NVIDIA's libraries for products, through ctypes. Enters: a `LibraryProduct` and addresses. Leaves: its launch.

cuBLAS multiplies; cuBLASLt adds arrays on the way; machine code can ask them too (steps.py). With a handle and a
workspace of our own, so that what they launch can be captured in a CUDA graph.
"""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler.backends.cuda.products import LibraryProduct, Matrix
from minitorch.compiler.backends.cuda.steps import Step, address_of, library_step, python_step
from minitorch.engine.precision import may_round

WORKSPACE = 32 << 20  # bytes; what the library asks for on the newest GPUs
# The library's numbers for dtypes, by their names, and for how it computes.
_DTYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
_COMPUTE_FLOAT32, _COMPUTE_TF32, _COMPUTE_FLOAT64 = 68, 77, 70
_ANY_ALGORITHM = -1
_SUMS_IN_FLOAT32 = 16  # parts of a sum are not rounded to halves before they are added up
# cuBLASLt's numbers for what is set of a product, of a matrix, and of what may be chosen.
_FIRST_TURNED, _SECOND_TURNED, _EPILOGUE, _ROW = 3, 4, 7, 8
_BATCHES, _BATCH_STEP = 5, 6
_MOST_WORKSPACE, _SUMMED_AS, _ALIGNMENTS = 1, 3, (5, 6, 7, 8)
_PLAIN, _ADDS_ROW = 1, 4
_IN_COMPUTED_DTYPE = 2
_FOUND_BYTES = 96  # of an algorithm with what is known of it
MOST_ALIGNED = 256
MOST_IN_32_BITS = (1 << 31) - 1  # the library's numbers, but where it says otherwise


# Which arguments of the libraries' functions are addresses: of the factors, the result and the addend; and the stream.
_PLAIN_PLACES, _FINISHED_PLACES, _STREAM_PLACE = (7, 11, 16), (3, 5, 10, 8), 15

Launch = Callable[[Sequence[int], int], None]  # of addresses, on a stream
Arguments = tuple[str, tuple[Any, ...]]  # a function of a library's, and what it is told


def _loaded(name: str) -> list[str]:
    """Return where libraries of a name lie that this process has loaded."""
    return re.findall(rf"(/\S*lib{name}\.so\S*)", Path("/proc/self/maps").read_text())


class Cublas:
    """The library with a handle of its own."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._ready: dict[Any, Launch] = {}
        # What was described of each product, by how addresses are aligned (0: as well as matters) and it is computed.
        # It is never forgotten: who launches it in machine code knows where it lies.
        self._plans: dict[Any, dict[Any, _Plan]] = {}
        # The stream that the handle was told of last, with the workspace.
        self._told = np.full(1, -1, np.int64)
        self._lock = threading.Lock()  # (a stream is chosen by one call, and used by the next)

    @functools.cached_property
    def _library(self) -> Any:
        """The library that CuPy has loaded: its version is the one that goes with the driver."""
        cublas = self._cupy.cuda.cublas
        cublas.destroy(cublas.create())
        return ctypes.CDLL(_loaded("cublas")[0])

    @functools.cached_property
    def _finishing(self) -> Any:
        """The library that this one has loaded, from the folder that it lies in."""
        folder = Path(_loaded("cublas")[0]).parent
        found = _loaded("cublasLt")
        return ctypes.CDLL(next((each for each in found if Path(each).parent == folder), found[0]))

    @functools.cached_property
    def _workspace(self) -> Any:
        return self._cupy.empty(WORKSPACE, np.uint8)

    @functools.cached_property
    def _handle(self) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(handle))
        self._call("cublasSetMathMode", handle, _SUMS_IN_FLOAT32)
        return handle

    def prepare(self) -> None:
        """Take the memory and the handle that products need."""
        pointer = ctypes.c_void_p(self._workspace.data.ptr)
        self._call("cublasSetWorkspace_v2", self._handle, pointer, ctypes.c_size_t(WORKSPACE))

    def _call(self, name: str, *arguments: Any) -> None:
        library = self._finishing if name.startswith("cublasLt") else self._library
        status = getattr(library, name)(*arguments)
        if status:
            raise _failure(name, status)

    def launch(self, product: LibraryProduct, addresses: Sequence[int], stream: int) -> None:
        """Launch a product on a stream."""
        self.ready(product)(addresses, stream)

    def ready(self, product: LibraryProduct) -> Launch:
        """Return what launches a product, of addresses and a stream: all else is found out once."""
        key = product.key
        if key not in self._ready:
            self._ready[key] = self._finished(product) if product.is_finished else self._plain(product)
        return self._ready[key]

    def step(
        self,
        product: LibraryProduct,
        operands: Sequence[tuple[int, int]],
        count: int,
        rounds: bool,
        take_turn: Callable[[], None],
        turn: np.ndarray,
    ) -> Step:
        """Return a product as a step in memory.

        operands: which of so many addresses each lies at, and how many bytes from there. rounds: whether factors of
        float32 are rounded. take_turn: called before where the current stream is not the one whose number `turn` is.
        """
        launch = self.ready(product)

        def in_python(stream: int, *given: int) -> None:
            take_turn()
            launch([offset if at < 0 else given[at] + offset for at, offset in operands], stream)

        def prepare(stream: int) -> None:
            take_turn()
            if stream != self._told[0]:
                self._follow(stream)

        computed = _computed(product, rounds)
        plan: _Plan | None = None
        with self._lock:  # (others may be using the handle)
            if product.is_finished:
                plan = self._plan(product, computed, 0, self._workspace.data.ptr)
                name, given = self._finished_arguments(product, plan, (0, 0, 0, 0), 0)
            else:
                name, given = self._plain_arguments(_as_told(product), computed, (0, 0, 0))
        library = self._finishing if name.startswith("cublasLt") else self._library

        def fail(status: int) -> None:
            raise _failure(name, status)

        of_arguments = _FINISHED_PLACES if plan else _PLAIN_PLACES
        first, second, _ = _in_columns(product)
        chosen = [operands[first.operand], operands[second.operand], operands[2]]
        if plan is not None:
            chosen.append(operands[3 if product.addend is not None else 2])
        places = [(which, 1 + at, offset) for which, (at, offset) in zip(of_arguments, chosen, strict=False)]
        words: dict[str, int] = {}
        kept: list[Any] = [given, plan, fail, prepare, self]
        if plan is not None:
            places.append((_STREAM_PLACE, -1, 0))
            words["misaligned"] = MOST_ALIGNED - 1
            if product.has_row:
                at, offset = operands[-1]
                words |= {
                    "tell_row": address_of(self._finishing.cublasLtMatmulDescSetAttribute),
                    "description": _word(plan.product),
                    "attribute": _ROW,
                    "row": 1 + at,
                    "row_offset": offset,
                    "row_told": plan.row.ctypes.data,
                }
        acquire, release = self._lock.acquire, self._lock.release
        return library_step(
            python_step(in_python, count),
            places,
            [*kept, acquire, release, turn],
            acquire=id(acquire),
            release=id(release),
            turn=turn.ctypes.data,
            told=self._told.ctypes.data,
            prepare=id(prepare),
            function=address_of(getattr(library, name)),
            fail=id(fail),
            **words,
            **{f"argument{number}": _word(each) for number, each in enumerate(given)},
        )

    def _plain(self, product: LibraryProduct) -> Launch:
        """Return what launches a product to which nothing is added."""
        told = _as_told(product)
        first, second = told.operands

        def launch(addresses: Sequence[int], stream: int) -> None:
            with self._lock:
                if stream != self._told[0]:
                    self._follow(stream)
                given = addresses[first], addresses[second], addresses[2]
                name, arguments = self._plain_arguments(told, _computed(product, may_round()), given)
                self._call(name, *arguments)

        return launch

    def _plain_arguments(self, told: _Told, computed: int, addresses: Sequence[int]) -> Arguments:
        """Return what multiplies, and what it is told: the factors and the result lie at addresses."""
        a, b, c = map(ctypes.c_void_p, addresses)
        given = (self._handle, *told.sizes, a, *told.first, b, *told.second, c, *told.result)
        return told.name, (*given, computed, _ANY_ALGORITHM)

    def _follow(self, stream: int) -> None:
        """Let what is launched from now on go to a stream."""
        self._told[0] = -1  # (until both calls are done)
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream))
        self.prepare()  # (another stream takes the workspace away)
        self._told[0] = stream

    def _finished(self, p: LibraryProduct) -> Launch:
        """Return what launches a product to which something is added."""
        first, second, _ = _in_columns(p)
        addend = 3 if p.addend is not None else 2
        plans = self._plans.setdefault(p.key, {})

        def launch(addresses: Sequence[int], stream: int) -> None:
            a, b, result = addresses[first.operand], addresses[second.operand], addresses[2]
            added, row = addresses[addend], addresses[-1]
            # (The library takes the row's alignment from where it lies when it is asked.)
            low = (a | b | added | result | row) % MOST_ALIGNED
            aligned = low and tuple([min(each & -each, MOST_ALIGNED) for each in (a, b, added, result, row)])
            computed = _computed(p, may_round())
            with self._lock:
                plan = plans.get((aligned, computed)) or self._plan(p, computed, aligned, row)
                if p.has_row and plan.row[0] != row:
                    plan.row[0] = -1  # (until the library was told)
                    self._set("MatmulDesc", plan.product, _ROW, ctypes.c_void_p(row))
                    plan.row[0] = row
                name, arguments = self._finished_arguments(p, plan, (a, b, result, added), stream)
                self._call(name, *arguments)

        return launch

    def _finished_arguments(
        self, p: LibraryProduct, plan: _Plan, addresses: Sequence[int], stream: int
    ) -> Arguments:
        """Return what multiplies and adds, and what it is told: factors, result and addend lie at addresses."""
        a, b, result, added = map(ctypes.c_void_p, addresses)
        of_a, of_b, of_added, of_result = plan.layouts
        one, beta = ctypes.byref(ctypes.c_float(1.0)), ctypes.byref(ctypes.c_float(p.addend is not None))
        where = ctypes.c_void_p(self._workspace.data.ptr), ctypes.c_size_t(WORKSPACE), ctypes.c_void_p(stream)
        given = (self._handle, plan.product, one, a, of_a, b, of_b, beta, added, of_added, result, of_result)
        return "cublasLtMatmul", (*given, plan.algorithm, *where)

    def _set(self, thing: str, made: ctypes.c_void_p, which: int, number: Any) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(number))
        self._call(f"cublasLt{thing}SetAttribute", made, which, ctypes.byref(number), size)

    def _plan(self, p: LibraryProduct, computed: int, aligned: Any, row: int) -> _Plan:
        """Return a product as the library knows it: it is described once, and the lock is held.

        aligned: what a, b, the addend, the result and the row lie at multiples of; 0: of all that matters.
        """
        plans = self._plans.setdefault(p.key, {})
        if (aligned, computed) not in plans:
            known = aligned[:4] if aligned else (MOST_ALIGNED,) * 4
            plans[aligned, computed] = self._planned(p, computed, known, row)
        return plans[aligned, computed]

    def _planned(self, p: LibraryProduct, computed: int, alignments: tuple[int, ...], row: int) -> _Plan:
        """Describe a product to the library, and let it choose how to compute it."""
        first, second, (down, across) = _in_columns(p)
        kind, made = _DTYPES[p.dtype.name], _DTYPES[p.made.name]
        product = ctypes.c_void_p()
        self._call("cublasLtMatmulDescCreate", ctypes.byref(product), computed, _DTYPES["float32"])
        self._set("MatmulDesc", product, _FIRST_TURNED, ctypes.c_int32(first.turned))
        self._set("MatmulDesc", product, _SECOND_TURNED, ctypes.c_int32(second.turned))
        self._set("MatmulDesc", product, _EPILOGUE, ctypes.c_uint32(_ADDS_ROW if p.has_row else _PLAIN))
        if p.has_row:
            self._set("MatmulDesc", product, _ROW, ctypes.c_void_p(row))
        layouts = []
        for matrix, dtype, shape in [
            (first.matrix, kind, (p.summed, down) if first.turned else (down, p.summed)),
            (second.matrix, kind, (across, p.summed) if second.turned else (p.summed, across)),
            (p.addend or p.c, made, (down, across)),
            (p.c, made, (down, across)),
        ]:
            layout = ctypes.c_void_p()
            numbers = [ctypes.c_uint64(shape[0]), ctypes.c_uint64(shape[1]), ctypes.c_int64(matrix.apart)]
            self._call("cublasLtMatrixLayoutCreate", ctypes.byref(layout), dtype, *numbers)
            self._set("MatrixLayout", layout, _BATCHES, ctypes.c_int32(p.batches))
            self._set("MatrixLayout", layout, _BATCH_STEP, ctypes.c_int64(matrix.batch))
            layouts.append(layout)
        wanted = ctypes.c_void_p()
        self._call("cublasLtMatmulPreferenceCreate", ctypes.byref(wanted))
        self._set("MatmulPreference", wanted, _MOST_WORKSPACE, ctypes.c_uint64(WORKSPACE))
        if p.made.itemsize == 2:
            self._set("MatmulPreference", wanted, _SUMMED_AS, ctypes.c_uint32(_IN_COMPUTED_DTYPE))
        for which, alignment in zip(_ALIGNMENTS, alignments, strict=True):
            self._set("MatmulPreference", wanted, which, ctypes.c_uint32(alignment))
        found, count = ctypes.create_string_buffer(_FOUND_BYTES), ctypes.c_int()
        self._call(
            "cublasLtMatmulAlgoGetHeuristic",
            self._handle,
            product,
            *layouts,
            wanted,
            1,
            found,
            ctypes.byref(count),
        )
        self._call("cublasLtMatmulPreferenceDestroy", wanted)
        if not count.value:
            raise RuntimeError("cuBLASLt has no algorithm for a product")
        return _Plan(product, layouts, found, np.array([row], np.int64))


@dataclass
class _Plan:
    """A product as cuBLASLt knows it: descriptions of it and of a, b, the addend and c, and how it is computed.

    row: where the row lies that it was told of last, in memory.
    """

    product: ctypes.c_void_p
    layouts: list[ctypes.c_void_p]
    algorithm: Any
    row: np.ndarray


class _Told(NamedTuple):
    """What cuBLAS is told of a product, but for addresses: before the first and after each. operands: of factors."""

    name: str
    operands: tuple[int, int]
    sizes: tuple[Any, ...]
    first: tuple[Any, ...]
    second: tuple[Any, ...]
    result: tuple[Any, ...]


def _as_told(p: LibraryProduct) -> _Told:
    """Return what cuBLAS is told of a product to which nothing is added."""
    kind, made = _DTYPES[p.dtype.name], _DTYPES[p.made.name]
    number = ctypes.c_double if p.dtype == np.float64 else ctypes.c_float
    first, second, sizes = _in_columns(p)
    numbers = (*sizes, p.summed, first.matrix.apart, second.matrix.apart, p.c.apart, p.batches)
    wide = max(numbers) > MOST_IN_32_BITS
    down, across, summed, *apart, batches = map(ctypes.c_int64, numbers) if wide else numbers
    steps = [ctypes.c_longlong(each.batch) for each in (first.matrix, second.matrix, p.c)]
    return _Told(
        "cublasGemmStridedBatchedEx_64" if wide else "cublasGemmStridedBatchedEx",
        (first.operand, second.operand),
        (first.turned, second.turned, down, across, summed, ctypes.byref(number(1.0))),
        (kind, apart[0], steps[0]),
        (kind, apart[1], steps[1], ctypes.byref(number(float(p.adds)))),
        (made, apart[2], steps[2], batches),
    )


class _Factor(NamedTuple):
    """A factor: where it lies, which operand it is, and whether it is turned (1) or not, for the library."""

    matrix: Matrix
    operand: int
    turned: int


def _in_columns(p: LibraryProduct) -> tuple[_Factor, _Factor, tuple[int, int]]:
    """Return the factors in the library's order, and the result's rows and columns.

    The library's matrices lie column by column: what it calls c is, where ours lies row by row, c's transpose: b's
    times a's.
    """
    if p.c.is_transposed:
        a, b = (_Factor(m, i, int(not m.is_transposed)) for i, m in enumerate((p.a, p.b)))
        return a, b, (p.rows, p.columns)
    a, b = (_Factor(m, i, int(m.is_transposed)) for i, m in enumerate((p.a, p.b)))
    return b, a, (p.columns, p.rows)


def _computed(p: LibraryProduct, rounds: bool) -> int:
    """Return how a product is computed. rounds: whether factors of float32 are rounded."""
    if p.dtype == np.float64:
        return _COMPUTE_FLOAT64
    return _COMPUTE_TF32 if p.dtype == np.float32 and rounds else _COMPUTE_FLOAT32


def _word(argument: Any) -> int:
    """Return an argument of a library's function as a number of 64 bits."""
    if isinstance(argument, int):
        return argument
    if isinstance(argument, ctypes.Array):
        return ctypes.addressof(argument)
    if hasattr(argument, "_obj"):  # what byref() returns
        return ctypes.addressof(argument._obj)
    return argument.value or 0


def _failure(name: str, status: int) -> RuntimeError:
    return RuntimeError(f"{name} of cuBLAS failed with status {status}")
