"""Trees: tuples, lists and dicts, nested, with Tensors (or anything else) at the ends.

Enters: a tree. Leaves: its ends in order, and a function that builds the like of it around others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Build = Callable[[list[Any]], Any]


def flatten(tree: Any) -> tuple[list[Any], Build]:
    """Return the ends of a tree, and what puts as many others in their places.

    >>> ends, build = flatten({"a": 1, "b": (2, [3])})
    >>> ends, build([10, 20, 30])
    ([1, 2, 3], {'a': 10, 'b': (20, [30])})
    """
    if isinstance(tree, (tuple, list)):
        branches = list(tree)
    elif isinstance(tree, dict):
        branches = list(tree.values())
    else:
        return [tree], lambda ends: ends[0]
    parts = [flatten(branch) for branch in branches]

    def build(ends: list[Any]) -> Any:
        built, start = [], 0
        for inner, make in parts:
            built.append(make(ends[start : start + len(inner)]))
            start += len(inner)
        if isinstance(tree, dict):
            return type(tree)(zip(tree, built, strict=True))
        return type(tree)(*built) if hasattr(tree, "_fields") else type(tree)(built)  # a named tuple

    return [end for inner, _ in parts for end in inner], build


def ends_of(tree: Any) -> list[Any]:
    """Return the ends of a tree.

    >>> ends_of([1, (2, 3)])
    [1, 2, 3]
    """
    return flatten(tree)[0]


def spread(prefix: Any, tree: Any, name: str) -> list[Any]:
    """Return one value for each end of `tree`, from a value for all or a tree of them that it begins with.

    >>> spread((0, None), (1, {"a": 2, "b": 3}), "in_dims")
    [0, None, None]
    """
    if isinstance(prefix, (tuple, list, dict)):
        alike = isinstance(tree, dict) if isinstance(prefix, dict) else isinstance(tree, (tuple, list))
        if not alike or len(prefix) != len(tree) or (isinstance(prefix, dict) and set(prefix) != set(tree)):
            raise ValueError(f"{name}: {prefix!r} does not fit the structure it is given for")
        pairs = (
            [(prefix[key], tree[key]) for key in tree]
            if isinstance(prefix, dict)
            else list(zip(prefix, tree, strict=True))
        )
        return [value for each, branch in pairs for value in spread(each, branch, name)]
    return [prefix] * len(ends_of(tree))
