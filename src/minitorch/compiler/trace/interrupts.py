"""Ctrl-C waits while something must be done whole, or not at all. Enters: a block of code. Leaves: it, as a whole."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import threading
from typing import Any


class Uninterrupted:
    """A `with` block during which Ctrl-C waits: who handles it hears of it when the block has ended.

    Only the main thread is ever interrupted. It uses the functions in C beneath `signal`: those in Python, which make
    enums of what they give, take 12 µs.
    """

    __slots__ = ("_handler", "_waiting")

    def __enter__(self) -> None:
        self._handler: Any = None
        self._waiting: tuple[Any, ...] | None = None
        if threading.get_ident() == threading.main_thread().ident:
            handler = _signal.getsignal(_signal.SIGINT)
            if callable(handler):  # not one of the system's own
                self._handler = handler  # first: from the next line on it may be needed
                _signal.signal(_signal.SIGINT, self._wait)

    def __exit__(self, *_: Any) -> None:
        if self._handler is not None:
            _signal.signal(_signal.SIGINT, self._handler)
            if self._waiting is not None:
                self._handler(*self._waiting)

    def _wait(self, *signal_and_frame: Any) -> None:
        self._waiting = signal_and_frame
