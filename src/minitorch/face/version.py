"""A version that compares. Enters: "2.13.0+minitorch". Leaves: a str that is greater than "2.9" and than (2, 9)."""

from __future__ import annotations

import re
from typing import Any


class TorchVersion(str):
    """A version as text, compared by its numbers with other versions, texts and tuples.

    >>> TorchVersion("2.13.0+minitorch") > "2.9", TorchVersion("2.13.0") >= (2, 13), TorchVersion("2.13.0") < (3,)
    (True, True, True)
    """

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return _numbers(self) < _numbers(other)

    def __le__(self, other: Any) -> bool:
        return _numbers(self) <= _numbers(other)

    def __gt__(self, other: Any) -> bool:
        return _numbers(self) > _numbers(other)

    def __ge__(self, other: Any) -> bool:
        return _numbers(self) >= _numbers(other)

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) if isinstance(other, str) else _numbers(self) == _numbers(other)

    __hash__ = str.__hash__


def _numbers(version: Any) -> tuple[int, ...]:
    """Return the numbers of a version, without zeros at its end: 2.13.0 is 2.13."""
    parts = re.findall(r"\d+", str(version).partition("+")[0]) if isinstance(version, str) else version
    numbers = [int(part) for part in parts]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
