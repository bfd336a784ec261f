"""What layers need of numbers and names. Enters: a number, or one an axis; a state dict. Leaves: tuples; the dict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Return the function that makes a tuple of n of a number, and leaves what has several as a tuple.

    >>> _ntuple(3)(5), _ntuple(2)([1, 2])
    ((5, 5, 5), (1, 2))
    """

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (
    _ntuple(n, name) for n, name in enumerate(("_single", "_pair", "_triple", "_quadruple"), start=1)
)


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix ("module.") off the keys of a state dict, in place, where they have it.

    >>> state = {"module.weight": 1}
    >>> consume_prefix_in_state_dict_if_present(state, "module."); state
    {'weight': 1}
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for key in list(metadata):
            if key.startswith(prefix) or key == prefix.rstrip("."):
                metadata[key[len(prefix) :]] = metadata.pop(key)
