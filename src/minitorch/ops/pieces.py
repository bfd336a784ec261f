"""A large array in pieces, by several threads. Enters: a function of arrays. Leaves: what it gives, piece by piece.

A function of several steps writes an array at each of them. Of a piece these stay in the processor's cache; and since
NumPy computes without Python's lock, threads can share the pieces. OMP_NUM_THREADS says how many there are.
"""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import Any

import numpy as np

# Elements of a piece: a few arrays of so many fit a core's cache. Fewer, and threads wait for Python's lock.
PIECE = 1 << 17
LARGE = 2 * PIECE  # from so many on an array is cut


@functools.cache
def threads() -> int:
    """Return how many threads share the pieces, the caller's included."""
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if given.isdigit() and int(given) > 0:
        return min(int(given), 64)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, cores))


@functools.cache
def _workers() -> Any:
    from concurrent.futures import ThreadPoolExecutor  # at first use: it takes 7 ms to import

    return ThreadPoolExecutor(threads() - 1, thread_name_prefix="minitorch-pieces")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_workers.cache_clear)  # a child process has none of the threads


def share(function: Callable[[Any], object], pieces: Iterable[Any]) -> None:
    """Call a function for each piece, by several threads.

    >>> found = []
    >>> share(found.append, range(3)); sorted(found)
    [0, 1, 2]
    """
    waiting = deque(pieces)

    def work() -> None:
        while waiting:
            try:
                piece = waiting.popleft()
            except IndexError:  # another was quicker
                return
            function(piece)

    helpers = min(threads(), len(waiting)) - 1
    # (In the caller's context: how NumPy warns is a part of it.)
    running = [_workers().submit(copy_context().run, work) for _ in range(helpers)]
    try:
        work()
    finally:
        waiting.clear()  # (after an error nobody begins another)
        for each in running:
            if not each.cancel():  # (one that has not begun has nothing left to do)
                each.result()


def rows(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """Return what a function gives that computes each row (along the last axis) by itself, of at least one."""
    if x.size < LARGE or x.ndim < 2 or threads() == 1:
        return function(x)
    flat = x.reshape(-1, x.shape[-1])
    step = max(1, PIECE // flat.shape[1])
    found: dict[int, np.ndarray] = {}

    def find(start: int) -> None:
        found[start] = function(flat[start : start + step])

    share(find, range(0, len(flat), step))
    joined = np.concatenate([found[start] for start in sorted(found)])
    return joined.reshape(*x.shape[:-1], *joined.shape[1:])


def elementwise(function: Callable[..., Any], inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Return what a function gives that computes each element from those at its place."""
    first = inputs[0]
    shape, size = first.shape, first.size
    if (
        size < LARGE
        or threads() == 1
        or not all(
            each.__class__ is np.ndarray and each.shape == shape and each.flags.c_contiguous
            for each in inputs
        )
    ):
        return function(*inputs, **attributes)
    flat = [each.reshape(-1) for each in inputs]

    def piece(start: int) -> Any:
        return function(*(each[start : start + PIECE] for each in flat), **attributes)

    head = piece(0)
    out = np.empty(shape, head.dtype)
    row = out.reshape(-1)
    row[:PIECE] = head

    def fill(start: int) -> None:
        row[start : start + PIECE] = piece(start)

    share(fill, range(PIECE, size, PIECE))
    return out
