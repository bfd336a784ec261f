"""LLVM text that is the same for every program. Enters: a template's name, what to fill in. Leaves: LLVM text.

The files beside this one are LLVM's language, to be read as a whole; `$name` is a place to fill in. The thread pool
(`pool.ll`), what runs a program (`program.ll`), and what both need of the system: waiting for a word of memory to
change (`wait_futex.ll`, `wait_polling.ll`), the clock and giving way (`system_posix.ll`, `system_windows.ll`). And what
launches a GPU's kernels (`launch.ll`).
"""

from __future__ import annotations

import importlib.resources
import string


def fill(name: str, **places: object) -> str:
    """Return a template with its places filled in; one that is not given is an error.

    >>> print(fill("wait_futex.ll", attributes="nounwind", system_call=202).splitlines()[0])
    ; Waiting on Linux: the system keeps a list of those who sleep on a word of memory.
    """
    text = importlib.resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
    return string.Template(text).substitute(places)
