"""What a CUDA graph captured by hand is told before each replay. Enters: numbers. Leaves: cells for them.

A captured kernel runs again with the arguments it had. What the host computes anew for each run (where a generator of
random numbers is, how many steps an optimiser has made) must therefore lie in the GPU's memory, in cells that kernels
read; whoever owns such numbers says here how they are found, and `tell` writes all of them before a replay.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

CELLS = 4096  # of 8 bytes, in a piece of memory: what is told in one copy


class Capture:
    """A graph that is being captured, or was: what it keeps, and what it is told."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._owners: dict[int, tuple[Any, Any]] = {}
        self._tells: list[Callable[[], None]] = []
        self._pieces: list[tuple[Any, np.ndarray]] = []  # on the device, and what is to be written there
        self._used = 0

    def cells(self, count: int, dtype: Any) -> tuple[Any, np.ndarray]:
        """Return `count` cells of a dtype of 8 bytes: on the device, and where the host writes what they shall hold."""
        if not self._pieces or self._used + count > len(self._pieces[-1][1]):
            host = np.zeros(max(count, CELLS), np.uint64)
            # (Not zeros(): that would be captured too, and run at each replay after the cells were told.)
            self._pieces.append((self._cupy.empty(host.shape, host.dtype), host))
            self._used = 0
        there, host = self._pieces[-1]
        part = slice(self._used, self._used + count)
        self._used += count
        return there[part].view(dtype), host[part].view(dtype)

    def before_replay(self, tell: Callable[[], None]) -> None:
        """Have a function called before each replay: it writes what the host computes anew."""
        self._tells.append(tell)

    def of(self, owner: Any, begin: Callable[[], Any]) -> Any:
        """Return what an owner has begun with `begin` in this graph, the first time it was asked."""
        if id(owner) not in self._owners:
            self._owners[id(owner)] = owner, begin()  # (the owner is kept: its id stays its own)
        return self._owners[id(owner)][1]

    def tell(self) -> None:
        """Find out all numbers, and write them to the device, in the order of the current stream."""
        for tell in self._tells:
            tell()
        runtime, stream = self._cupy.cuda.runtime, self._cupy.cuda.get_current_stream().ptr
        for place, (there, host) in enumerate(self._pieces, 1):
            # (The driver has a copy of so few bytes when this returns.)
            size = host.nbytes if place < len(self._pieces) else host.itemsize * self._used
            runtime.memcpyAsync(there.data.ptr, host.ctypes.data, size, runtime.memcpyHostToDevice, stream)


_current: ContextVar[Capture | None] = ContextVar("minitorch_capture", default=None)
_captures: list[Capture] = []  # in any thread; nearly always none


def begin(capture: Capture) -> None:
    """Note that what this thread launches is captured from now on."""
    _captures.append(capture)
    _current.set(capture)


def end(capture: Capture) -> None:
    """Note that nothing is captured any more."""
    _captures.remove(capture)
    _current.set(None)


def current() -> Capture | None:
    """Return the graph that this thread's kernels are captured for; None: they run.

    >>> current() is None
    True
    """
    return _current.get() if _captures else None
