"""torch.fx: graphs of Python functions. Enters: a function. Leaves: the same function; symbolic graphs are absent.

`wrap` marks a function for a tracer, and there is none: returning it is all there is to do. The classes exist so that
`isinstance(model, torch.fx.GraphModule)` can be asked; nothing is one.
"""

from __future__ import annotations

from typing import Any

import minitorch

_ABSENT = (
    "torch.fx: functions are not made into symbolic graphs here; torch.compile(function) records and compiles one, and "
    "a layer's output can be had with register_forward_hook"
)


def wrap(fn_or_name: Any) -> Any:
    """Return a function, or its name, as it is.

    >>> wrap(len) is len
    True
    """
    return fn_or_name


class _Absent:
    """A class of which nothing can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__}: {_ABSENT}")


class Graph(_Absent):
    """A symbolic graph."""


class Node(_Absent):
    """A node of a symbolic graph."""


class Proxy(_Absent):
    """What stands for a value while a function is traced."""


class Tracer(_Absent):
    """What makes a symbolic graph."""


class Interpreter(_Absent):
    """What runs a symbolic graph."""


class Transformer(_Absent):
    """What rewrites a symbolic graph."""


class GraphModule(minitorch.nn.Module):
    """A Module made of a symbolic graph."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"GraphModule: {_ABSENT}")


def symbolic_trace(*args: Any, **kwargs: Any) -> Any:
    """Refuse: there are no symbolic graphs."""
    raise NotImplementedError(f"symbolic_trace: {_ABSENT}")
