"""Work: a collective that was begun with async_op=True. Enters: what is under way. Leaves: its results in Tensors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from minitorch.distributed.exchange import Arrays


class Work:
    """A handle: `wait()` returns when the results are in the Tensors that were given."""

    def __init__(self, pending: Any, place: Callable[[Arrays], Any]) -> None:
        self._pending = pending
        self._place: Callable[[Arrays], Any] | None = place
        self._result: Any = None
        self._error: BaseException | None = None

    def is_completed(self) -> bool:
        """Tell whether it is done; if so, the results are in their places."""
        if self._place is not None and self._pending.is_done():
            self.wait()
        return self._place is None

    def is_success(self) -> bool:
        """Tell whether it is done, and went well."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """Return what went wrong."""
        return self._error

    def wait(self, timeout: Any = None) -> bool:
        """Wait until it is done; timeout: a timedelta."""
        if self._place is not None:
            seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
            place, self._place = self._place, None
            try:
                self._result = place(self._pending.wait(seconds or None))
            except BaseException as error:
                self._error = error
                raise
        return True

    def synchronize(self) -> None:
        """Wait until it is done."""
        self.wait()

    def result(self) -> Any:
        """Return the Tensors it has written into."""
        self.wait()
        return self._result

    def source_rank(self) -> int:
        """Return from which rank a message came."""
        return int(self.result())

    def get_future(self) -> Future:
        """Return it as a future."""
        return Future(self)


class Future:
    """A Work as PyTorch's futures: wait() and value() give its result, then() what a function makes of it."""

    def __init__(self, work: Any, after: Callable[[Any], Any] | None = None) -> None:
        self._work = work
        self._after = after
        self._known: list[Any] = []

    def done(self) -> bool:
        """Tell whether it is done."""
        return bool(self._work.done() if isinstance(self._work, Future) else self._work.is_completed())

    def wait(self) -> Any:
        """Wait, and return the value."""
        if not self._known:
            if self._after is None:
                self._known.append(self._work.result())
            else:
                self._work.wait()
                self._known.append(self._after(self._work))
        return self._known[0]

    def value(self) -> Any:
        """Return the value."""
        return self.wait()

    def then(self, callback: Callable[[Any], Any]) -> Future:
        """Return the future of what a function makes of this one."""
        return Future(self, callback)
