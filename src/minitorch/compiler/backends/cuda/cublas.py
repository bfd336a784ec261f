"""NVIDIA's library for products, through ctypes. Enters: a `LibraryProduct` and addresses. Leaves: its launch.

With a handle and a workspace of our own, so that what it launches can be captured in a CUDA graph.
"""

from __future__ import annotations

import ctypes
import functools
import re
from pathlib import Path
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.products import LibraryProduct, Matrix
from minitorch.engine.precision import may_round

WORKSPACE = 32 << 20  # bytes; what the library asks for on the newest GPUs
# The library's numbers for dtypes, by their names, and for how it computes.
_DTYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
_COMPUTE_FLOAT32, _COMPUTE_TF32, _COMPUTE_FLOAT64 = 68, 77, 70
_ANY_ALGORITHM = -1


class Cublas:
    """The library with a handle of its own."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    @functools.cached_property
    def _library(self) -> Any:
        """The library that CuPy has loaded: its version is the one that goes with the driver."""
        cublas = self._cupy.cuda.cublas
        cublas.destroy(cublas.create())
        found = re.findall(r"(/\S*libcublas\.so\S*)", Path("/proc/self/maps").read_text())
        return ctypes.CDLL(found[0])

    @functools.cached_property
    def _workspace(self) -> Any:
        return self._cupy.empty(WORKSPACE, np.uint8)

    @functools.cached_property
    def _handle(self) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(handle))
        return handle

    def prepare(self) -> None:
        """Take the memory and the handle that products need."""
        pointer = ctypes.c_void_p(self._workspace.data.ptr)
        self._call("cublasSetWorkspace_v2", self._handle, pointer, ctypes.c_size_t(WORKSPACE))

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} of cuBLAS failed with status {status}")

    def launch(self, product: LibraryProduct, addresses: list[int], stream: int) -> None:
        """Launch a product on a stream."""
        p = product
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream))
        self.prepare()  # (another stream takes the workspace away)
        kind, made = _DTYPES[p.dtype.name], _DTYPES[p.made.name]
        compute = _COMPUTE_FLOAT64 if p.dtype == np.float64 else _COMPUTE_FLOAT32
        if p.dtype == np.float32 and may_round():
            compute = _COMPUTE_TF32
        number = ctypes.c_double if p.dtype == np.float64 else ctypes.c_float
        factors, sizes = [(p.a, addresses[0]), (p.b, addresses[1])], [p.rows, p.columns]
        # The library's matrices lie column by column: what it calls c is c's transpose, b's times a's.
        flipped = not p.c.is_transposed
        if flipped:
            factors.reverse()
            sizes.reverse()
        (first, first_at), (second, second_at) = factors

        def operation(matrix: Matrix) -> int:
            return int(matrix.is_transposed if flipped else not matrix.is_transposed)

        self._call(
            "cublasGemmStridedBatchedEx",
            self._handle,
            operation(first),
            operation(second),
            *sizes,
            p.summed,
            ctypes.byref(number(1.0)),
            ctypes.c_void_p(first_at),
            kind,
            first.apart,
            ctypes.c_longlong(first.batch),
            ctypes.c_void_p(second_at),
            kind,
            second.apart,
            ctypes.c_longlong(second.batch),
            ctypes.byref(number(float(p.adds))),
            ctypes.c_void_p(addresses[2]),
            made,
            p.c.apart,
            ctypes.c_longlong(p.c.batch),
            p.batches,
            compute,
            _ANY_ALGORITHM,
        )
