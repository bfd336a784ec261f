"""Arrays through MPI. Enters: arrays, and what to do with them. Leaves: a request, and where the result will be.

What is only moved travels as numbers of the same width; what is added up needs MPI's own type, and float16, which MPI
does not know, goes as float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.distributed.errors import DistBackendError
from minitorch.distributed.reduce_op import ReduceOp

_OF_WIDTH = {1: "UINT8_T", 2: "UINT16_T", 4: "UINT32_T", 8: "UINT64_T", 16: "C_DOUBLE_COMPLEX"}
_TYPES = {
    "bool": "C_BOOL", "uint8": "UINT8_T", "int8": "INT8_T", "int16": "INT16_T", "int32": "INT32_T", "int64": "INT64_T",
    "uint16": "UINT16_T", "uint32": "UINT32_T", "uint64": "UINT64_T", "float32": "FLOAT", "float64": "DOUBLE",
    "complex64": "C_FLOAT_COMPLEX", "complex128": "C_DOUBLE_COMPLEX",
}  # fmt: skip
_OPERATIONS = {
    ReduceOp.SUM: "SUM", ReduceOp.AVG: "SUM", ReduceOp.PRODUCT: "PROD", ReduceOp.MAX: "MAX", ReduceOp.MIN: "MIN",
    ReduceOp.BAND: "BAND", ReduceOp.BOR: "BOR", ReduceOp.BXOR: "BXOR",
}  # fmt: skip
# Truths have no sum: one of them (or), all of them (and).
_OF_TRUTHS = {
    ReduceOp.SUM: "LOR", ReduceOp.MAX: "LOR", ReduceOp.BOR: "LOR", ReduceOp.PRODUCT: "LAND", ReduceOp.MIN: "LAND",
    ReduceOp.BAND: "LAND", ReduceOp.BXOR: "LXOR",
}  # fmt: skip
_ORDERED = (ReduceOp.MAX, ReduceOp.MIN)
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def on_host(array: Any) -> np.ndarray:
    """Return an array, of whichever device, as one of NumPy's whose elements lie side by side."""
    if not isinstance(array, np.ndarray):
        array = array.get()
    return np.asarray(array, order="C")


def moved(mpi: Any, array: np.ndarray) -> list[Any]:
    """Return how MPI is told of memory that is only moved."""
    return [array, getattr(mpi, _OF_WIDTH[array.dtype.itemsize])]


def added_up(mpi: Any, array: np.ndarray) -> list[Any]:
    """Return how MPI is told of memory whose numbers it computes with."""
    return [array, getattr(mpi, _TYPES[array.dtype.name])]


def operation(mpi: Any, op: ReduceOp, dtype: np.dtype, what: str) -> Any:
    """Return MPI's name for what is done to two numbers; refuse what has no meaning for a dtype."""
    refused = (
        (op is ReduceOp.AVG and dtype.kind == "b")
        or (op in _ORDERED and dtype.kind == "c")
        or (op in _BITWISE and dtype.kind in "fc")
    )
    if refused or (op not in _OPERATIONS):
        raise DistBackendError(f"{what}: ReduceOp.{op.name} is not offered for {dtype}")
    return getattr(mpi, _OF_TRUTHS[op] if dtype.kind == "b" else _OPERATIONS[op])


def reducible(array: np.ndarray) -> np.ndarray:
    """Return a copy that MPI can compute in: the same numbers, wider where it does not know the dtype."""
    return array.astype(np.float32) if array.dtype == np.float16 else np.array(array, order="C")


def reduced(result: np.ndarray, op: ReduceOp, dtype: np.dtype, size: int) -> np.ndarray:
    """Return what MPI computed as the result: divided where the mean is asked for, in the dtype it came in."""
    if op is ReduceOp.AVG:
        if dtype.kind in "fc":
            result /= size
        else:
            result = (result / size).astype(dtype)  # towards 0, as NCCL does
    return result.astype(dtype, copy=False)
