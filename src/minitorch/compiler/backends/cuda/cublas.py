"""NVIDIA's libraries for products, through ctypes. Enters: a `LibraryProduct` and addresses. Leaves: its launch.

cuBLAS multiplies; cuBLASLt adds arrays on the way. With a handle and a workspace of our own, so that what they launch
can be captured in a CUDA graph.
"""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler.backends.cuda.products import LibraryProduct, Matrix
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


def _loaded(name: str) -> list[str]:
    """Return where libraries of a name lie that this process has loaded."""
    return re.findall(rf"(/\S*lib{name}\.so\S*)", Path("/proc/self/maps").read_text())


class Cublas:
    """The library with a handle of its own."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._plans: dict[Any, _Plan] = {}
        self._told: dict[Any, _Told] = {}
        self._stream: int | None = None  # which the handle was told of last, with the workspace
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
            raise RuntimeError(f"{name} of cuBLAS failed with status {status}")

    def launch(self, product: LibraryProduct, addresses: list[int], stream: int) -> None:
        """Launch a product on a stream."""
        with self._lock:
            if product.is_finished:
                self._launch_finished(product, addresses, stream)
            else:
                self._launch_plain(product, addresses, stream)

    def _launch_plain(self, product: LibraryProduct, addresses: list[int], stream: int) -> None:
        """Launch a product to which nothing is added."""
        if stream != self._stream:
            self._stream = None  # (until both calls are done)
            self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream))
            self.prepare()  # (another stream takes the workspace away)
            self._stream = stream
        told = self._told.get(product.key)
        if told is None:
            told = self._told[product.key] = _as_told(product)
        at = ctypes.c_void_p
        self._call(
            told.name,
            self._handle,
            *told.sizes,
            at(addresses[told.operands[0]]),
            *told.first,
            at(addresses[told.operands[1]]),
            *told.second,
            at(addresses[2]),
            *told.result,
            _computed(product),
            _ANY_ALGORITHM,
        )

    def _launch_finished(self, product: LibraryProduct, addresses: list[int], stream: int) -> None:
        """Launch a product to which something is added."""
        p = product
        first, second, _ = _in_columns(p)
        result = addresses[2]
        addend = addresses[3] if p.addend is not None else result
        given = [addresses[first.operand], addresses[second.operand], addend, result]
        # (The library takes the row's alignment from where it lies when it is asked.)
        alignments = tuple(min(address & -address, MOST_ALIGNED) for address in (*given, addresses[-1]))
        key = (p.key, alignments, _computed(p))
        if key not in self._plans:
            self._plans[key] = self._planned(p, alignments[:4], addresses[-1])
        plan = self._plans[key]
        if p.has_row:
            self._set("MatmulDesc", plan.product, _ROW, ctypes.c_void_p(addresses[-1]))
        matrices = [ctypes.c_void_p(address) for address in given]
        beta = float(p.addend is not None)
        self._call(
            "cublasLtMatmul",
            self._handle,
            plan.product,
            ctypes.byref(ctypes.c_float(1.0)),
            *(each for pair in zip(matrices[:2], plan.layouts[:2], strict=True) for each in pair),
            ctypes.byref(ctypes.c_float(beta)),
            *(each for pair in zip(matrices[2:], plan.layouts[2:], strict=True) for each in pair),
            plan.algorithm,
            ctypes.c_void_p(self._workspace.data.ptr),
            ctypes.c_size_t(WORKSPACE),
            ctypes.c_void_p(stream),
        )

    def _set(self, thing: str, made: ctypes.c_void_p, which: int, number: Any) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(number))
        self._call(f"cublasLt{thing}SetAttribute", made, which, ctypes.byref(number), size)

    def _planned(self, p: LibraryProduct, alignments: tuple[int, ...], row: int) -> _Plan:
        """Describe a product to the library, and let it choose how to compute it."""
        first, second, (down, across) = _in_columns(p)
        kind, made = _DTYPES[p.dtype.name], _DTYPES[p.made.name]
        product = ctypes.c_void_p()
        self._call("cublasLtMatmulDescCreate", ctypes.byref(product), _computed(p), _DTYPES["float32"])
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
        return _Plan(product, layouts, found)


class _Plan(NamedTuple):
    """A product as cuBLASLt knows it: descriptions of it and of a, b, the addend and c, and how it is computed."""

    product: ctypes.c_void_p
    layouts: list[ctypes.c_void_p]
    algorithm: Any


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


def _computed(p: LibraryProduct) -> int:
    """Return how a product is computed."""
    if p.dtype == np.float64:
        return _COMPUTE_FLOAT64
    return _COMPUTE_TF32 if p.dtype == np.float32 and may_round() else _COMPUTE_FLOAT32
