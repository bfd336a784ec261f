"""Zip files from strangers. Enters: a file. Leaves: its entries, after their claims were checked.

A zip file may lie: entries that overlap or that inflate to a thousand times their size fill the memory.
What an entry claims is therefore compared with what the file can hold before any of it is read.
"""

from __future__ import annotations

import zipfile
from typing import IO

# Arrays full of zeros do shrink a thousandfold, so a high ratio alone is no crime; with this size it is.
MOST_RATIO = 100
MOST_INFLATED = 1 << 30


def open_archive(file: IO[bytes], size: int) -> zipfile.ZipFile:
    """Open a zip file of `size` bytes and check what its entries claim."""
    archive = zipfile.ZipFile(file)
    entries = archive.infolist()
    if len({entry.filename for entry in entries}) != len(entries):
        raise RuntimeError("two of its entries have the same name")
    for entry in entries:
        if entry.flag_bits & 1:
            raise RuntimeError(f"its entry {entry.filename!r} is encrypted")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise RuntimeError(f"its entry {entry.filename!r} is compressed in a way NumPy does not write")
        if entry.compress_type == zipfile.ZIP_STORED and entry.compress_size != entry.file_size:
            raise RuntimeError(f"its entry {entry.filename!r} claims two different sizes")
    if sum(entry.compress_size for entry in entries) > size:
        raise RuntimeError("its entries claim more bytes than the file has (truncated, or they overlap)")
    inflated = sum(entry.file_size for entry in entries)
    if inflated > MOST_INFLATED and inflated > MOST_RATIO * size:
        raise RuntimeError(
            f"its {size:,} bytes would unpack to {inflated:,}: this looks like a zip bomb and is not read"
        )
    return archive
