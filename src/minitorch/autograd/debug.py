"""A switch that asserts, after every rule, that a gradient has its tensor's shape and dtype."""

from __future__ import annotations

from types import TracebackType

from minitorch.engine import errors


def set_debug(mode: bool) -> None:
    """Switch the assertions after every derivative rule on or off; off costs nothing.

    >>> set_debug(True); is_debug()
    True
    >>> set_debug(False)
    """
    errors.set_debug(mode)


def is_debug() -> bool:
    """Tell whether the assertions are on."""
    return errors.is_debug()


class debug:
    """Assert the contract inside a `with` block.

    >>> import minitorch
    >>> x = minitorch.ones(3, requires_grad=True)
    >>> with debug():
    ...     (x * 2).sum().backward()
    """

    def __enter__(self) -> None:
        self._before = errors.is_debug()
        errors.set_debug(True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        errors.set_debug(self._before)
