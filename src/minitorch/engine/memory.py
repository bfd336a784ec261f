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
import os

LARGEST = 32 << 20  # glibc takes no more
KEPT = 1 << 30

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # the numbers of <malloc.h>
_OWN_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed() -> bool:
    """Ask the C library to keep freed memory; return whether it does."""
    if os.environ.get("MINITORCH_MALLOC") == "system" or any(map(os.environ.get, _OWN_SETTINGS)):
        return False
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # other C libraries have a mallopt that means something else  # noqa: B018
        mallopt = library.mallopt
    except (AttributeError, OSError, TypeError):  # TypeError: Windows has no "this process" to open
        return False
    return mallopt(_MMAP_THRESHOLD, LARGEST) == 1 and mallopt(_TRIM_THRESHOLD, KEPT) == 1


KEEPS_FREED = keep_freed()
