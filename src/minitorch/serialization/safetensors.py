"""The .safetensors format, written and read here: 8 bytes of length, a JSON header, the bytes of the arrays.

Enters: arrays by name and a skeleton. Leaves: the file; and back. The header gives each array's dtype,
shape and place. The skeleton, where there is one, rides in the header's `__metadata__`.
"""

from __future__ import annotations

import json
import math
import sys
from typing import IO, Any

import numpy as np

from minitorch.engine.dtypes import is_bfloat16
from minitorch.serialization.nest import Arrays, of_bfloat16
from minitorch.serialization.npz import fill

DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "C64": np.dtype("<c8"),
}
NAMES = {dtype.newbyteorder("="): name for name, dtype in DTYPES.items()}
MOST_HEADER = 100_000_000  # the format's own limit
WHERE = "__metadata__"


def write(file: IO[bytes], arrays: Arrays, skeleton: Any) -> None:
    """Write arrays and skeleton; every safetensors reader can read the arrays."""
    header: dict[str, Any] = {}
    if skeleton is not None:
        header[WHERE] = {"minitorch": json.dumps(skeleton)}
    start = 0
    for name, array in arrays.items():
        if name == WHERE:
            raise ValueError(f"save: the name {WHERE!r} is taken by the safetensors format; choose another")
        dtype = "BF16" if is_bfloat16(array.dtype) else NAMES.get(array.dtype.newbyteorder("="))
        if dtype is None:
            raise TypeError(
                f"save: {name!r} holds {array.dtype}, which safetensors cannot; save as .npz instead"
            )
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [start, start + array.nbytes],
        }
        start += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at a multiple of 8, for readers that map the file
    file.write(len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        array = array.view(np.uint16) if is_bfloat16(array.dtype) else array
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        file.write(np.asarray(little, order="C").data)


def looks_like(start: bytes) -> bool:
    """Tell a safetensors file by its first 9 bytes: a credible length, then a JSON object."""
    return len(start) >= 9 and 2 <= int.from_bytes(start[:8], "little") <= MOST_HEADER and start[8:9] == b"{"


def read(file: IO[bytes], size: int) -> tuple[Arrays, Any, list[str]]:
    """Read arrays, skeleton, and the names of those that were bfloat16 and are float32 now."""
    length = int.from_bytes(file.read(8), "little")
    if length > size - 8:
        raise RuntimeError(f"its header claims {length:,} bytes, but the file has {size:,} (truncated?)")
    header = json.loads(file.read(length), object_pairs_hook=_no_name_twice)
    metadata = header.pop(WHERE, None)
    skeleton = None
    if isinstance(metadata, dict) and "minitorch" in metadata:
        skeleton = json.loads(metadata["minitorch"])
    _check_places(header, size - 8 - length)
    arrays: Arrays = {}
    widened = []
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        code = entry["dtype"]
        stored = np.dtype("<u2") if code == "BF16" else DTYPES[code]
        array = np.empty(math.prod(entry["shape"]), stored)
        fill(file, array)
        if code == "BF16":
            array = of_bfloat16(array.astype(np.uint16, copy=False))
            widened += [name] if array.dtype == np.float32 else []
        elif sys.byteorder == "big":
            array = array.astype(stored.newbyteorder("="))
        arrays[name] = array.reshape(entry["shape"])
    return {name: arrays[name] for name in header}, skeleton, widened


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise RuntimeError("its header has the same name twice")
    return made


def _check_places(header: Any, available: int) -> None:
    """Check that the arrays lie one after another, without gap or overlap, up to the end of the file."""
    end = 0
    for name, entry in sorted(header.items(), key=_offsets):
        begin, after = _offsets((name, entry))
        dtype, shape = entry.get("dtype"), entry.get("shape")
        if dtype != "BF16" and dtype not in DTYPES:
            raise RuntimeError(f"its array {name!r} is of dtype {dtype!r}, which NumPy does not have")
        if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**62 for n in shape):
            raise RuntimeError(f"its array {name!r} claims the shape {shape!r}")
        claimed = math.prod(shape) * (2 if dtype == "BF16" else DTYPES[dtype].itemsize)
        if begin != end or after - begin != claimed:
            raise RuntimeError(
                f"its array {name!r} claims shape {shape} of {dtype}, {claimed:,} bytes, at {begin:,} to {after:,}, "
                f"where {end:,} was the next free place"
            )
        end = after
    if end != available:
        raise RuntimeError(f"its arrays claim {end:,} bytes, but it has {available:,} of them (truncated?)")


def _offsets(item: tuple[str, Any]) -> tuple[int, int]:
    name, entry = item
    places = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(places, list) or len(places) != 2 or not all(type(n) is int for n in places):
        raise RuntimeError(f"its header does not say where the array {name!r} lies")
    return places[0], places[1]
