"""The .npz format. Enters: arrays by name and a skeleton. Leaves: a zip file of .npy files; and back."""

from __future__ import annotations

import json
import math
import zipfile
from typing import IO, Any

import numpy as np

from minitorch.engine.dtypes import is_bfloat16
from minitorch.serialization.nest import KINDS, Arrays, of_bfloat16

# The skeleton's place in the file. A flat dict of Tensors has none: any program that reads .npz can use it.
SKELETON = "minitorch.json"
# Behind the name of an array of 16 bits each that are bfloat16's numbers.
BFLOAT16 = ".bfloat16"


def write(file: IO[bytes], arrays: Arrays, skeleton: Any) -> None:
    """Write arrays and skeleton; np.load can read the arrays."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        if skeleton is not None:
            archive.writestr(_entry(SKELETON), json.dumps(skeleton))
        for name, array in arrays.items():
            if name.endswith(BFLOAT16):
                raise ValueError(
                    f"save: a name that ends in {BFLOAT16!r} says how an array is kept; choose another"
                )
            narrow = is_bfloat16(array.dtype)  # which .npy files have not
            with archive.open(_entry(f"{name}{BFLOAT16 * narrow}.npy"), "w", force_zip64=True) as entry:
                kept = array.view(np.uint16) if narrow else array
                np.lib.format.write_array(entry, np.asarray(kept, order="C"), allow_pickle=False)


def _entry(name: str) -> zipfile.ZipInfo:
    # Without the clock, the same nest gives the same bytes.
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def read(archive: zipfile.ZipFile) -> tuple[Arrays, Any]:
    """Read arrays and skeleton from an archive that open_archive checked."""
    arrays, skeleton = {}, None
    for entry in archive.infolist():
        if entry.filename == SKELETON:
            skeleton = json.loads(archive.read(entry))
        elif entry.filename.endswith(".npy"):
            with archive.open(entry) as file:
                name, array = entry.filename.removesuffix(".npy"), _read_array(file, entry)
            if name.endswith(BFLOAT16) and array.dtype == np.uint16:
                name, array = name.removesuffix(BFLOAT16), of_bfloat16(array)
            arrays[name] = array
        else:
            raise RuntimeError(f"its entry {entry.filename!r} is no array")
    return arrays, skeleton


def _read_array(file: IO[bytes], entry: zipfile.ZipInfo) -> np.ndarray:
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise RuntimeError(f"its array {entry.filename!r} is of the unknown version {version}")
    shape, by_columns, dtype = readers[version](file)
    if dtype.hasobject or dtype.kind not in KINDS:
        raise RuntimeError(
            f"its array {entry.filename!r} holds {dtype}, not numbers; objects would need pickle, which "
            "can run any code, and are not read"
        )
    # Compared before any memory is taken: a few bytes may claim a shape of 10**15.
    claimed, there = math.prod(shape) * dtype.itemsize, entry.file_size - file.tell()
    if claimed != there or min(shape, default=0) < 0:
        raise RuntimeError(
            f"its array {entry.filename!r} claims shape {shape} of {dtype}, {claimed:,} bytes, but has {there:,}"
        )
    array = np.empty(math.prod(shape), dtype)
    fill(file, array)
    file.read(1)  # at the end of an entry zipfile compares its checksum
    array = array.reshape(shape, order="F" if by_columns else "C")
    return array.astype(dtype.newbyteorder("="), order="C", copy=False)


def fill(file: IO[bytes], array: np.ndarray) -> None:
    """Read exactly as many bytes as a flat array has, into it."""
    rest = array.view(np.uint8).data
    while len(rest):
        got = file.readinto(rest[: 1 << 24])  # type: ignore[attr-defined]
        if not got:
            raise RuntimeError(f"it ends {len(rest):,} bytes too early (truncated?)")
        rest = rest[got:]
