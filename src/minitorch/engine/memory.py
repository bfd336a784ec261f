"""Keep the memory of freed arrays for the next ones. Enters: the import. Leaves: a setting of the C library.

Eager code makes a new array for every result and drops it soon after. Left alone, glibc hands the pages of larger
arrays back to the system, and the system clears fresh ones for the next op: on arrays of 100,000 numbers that costs
ten times the arithmetic (docs/benchmarks.md says how to see it). So the process keeps what it has freed, up to
KEPT bytes; its peak is what it was. Arrays above LARGEST still come from the system and go back to it.

MINITORCH_MALLOC=system in the environment leaves everything alone, and so do glibc's own variables for these
settings. Elsewhere than on glibc nothing is done.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

LARGEST = 32 << 20  # glibc takes no more
KEPT = 1 << 30

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # the numbers of <malloc.h>
_OWN_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@functools.cache  # (each time anew it would leave a class behind, for the collector)
def _glibc() -> Any:
    """The C library of this process if it is glibc; else None."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # TypeError: Windows has no "this process" to open
        return None
    # Other C libraries have a mallopt that means something else.
    return library if hasattr(library, "gnu_get_libc_version") else None


def keep_freed() -> bool:
    """Ask the C library to keep freed memory; return whether it does."""
    if os.environ.get("MINITORCH_MALLOC") == "system" or any(map(os.environ.get, _OWN_SETTINGS)):
        return False
    library = _glibc()
    if library is None:
        return False
    return library.mallopt(_MMAP_THRESHOLD, LARGEST) == 1 and library.mallopt(_TRIM_THRESHOLD, KEPT) == 1


def release_freed() -> None:
    """Give the system back what the C library keeps: after much was freed that nothing soon needs again."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(ctypes.c_size_t(0))


KEEPS_FREED = keep_freed()
