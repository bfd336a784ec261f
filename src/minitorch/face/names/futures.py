"""torch.futures: results that come later. Enters: a result. Leaves: it, to whoever waits, and to callbacks."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any


class Future:
    """A result that someone sets and others wait for.

    >>> future = Future()
    >>> after = future.then(lambda done: done.value() + 1)
    >>> future.set_result(1); after.wait()
    2
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def done(self) -> bool:
        """Tell whether it is there."""
        return self._future.done()

    def wait(self) -> Any:
        """Wait for it and return it."""
        return self._future.result()

    def value(self) -> Any:
        """Return it; it must be there."""
        if not self.done():
            raise RuntimeError("Future.value: there is no result yet; write wait()")
        return self._future.result()

    def set_result(self, result: Any) -> None:
        """Set it."""
        self._future.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Let those who wait get an error."""
        self._future.set_exception(result)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call a function with this future when it is there."""
        self._future.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Return the future of what a function makes of this one."""
        after = Future()

        def go_on(done: Future) -> None:
            try:
                after.set_result(callback(done))
            except Exception as error:
                after.set_exception(error)

        self.add_done_callback(go_on)
        return after


def wait_all(futures: list[Future]) -> list[Any]:
    """Wait for all and return their results."""
    return [each.wait() for each in futures]


def collect_all(futures: list[Future]) -> Future:
    """Return a future of all, when all are there."""
    together = Future()
    missing = [len(futures)]

    def count(done: Future) -> None:
        missing[0] -= 1
        if not missing[0]:
            together.set_result(futures)

    if not futures:
        together.set_result([])
    for each in futures:
        each.add_done_callback(count)
    return together
