"""SummaryWriter: curves and pictures of a training run, for TensorBoard to show.

Enters: numbers, Tensors, a folder. Leaves: event files, written by tensorboardX (pip install tensorboardX).
"""

from __future__ import annotations

import functools
from typing import Any

from minitorch.tensor import Tensor


def _plain(value: Any) -> Any:
    """Return Tensors as arrays, in lists, tuples and dicts too."""
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return type(value)(_plain(each) for each in value) if type(value) in (list, tuple) else value


def _writes_arrays(method: Any) -> Any:
    """Return a method of tensorboardX that is given arrays for Tensors."""

    @functools.wraps(method)
    def write(self: Any, *args: Any, **options: Any) -> Any:
        return method(self, *_plain(args), **_plain(options))

    return write


@functools.cache
def _writer() -> type:
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise ImportError("SummaryWriter is written by tensorboardX: pip install tensorboardX") from error
    methods = {
        name: _writes_arrays(getattr(SummaryWriter, name))
        for name in dir(SummaryWriter)
        if name.startswith("add_") and name != "add_graph"
    }

    def add_graph(self: Any, *args: Any, **options: Any) -> None:
        """Refuse: there is no traced graph to write."""
        raise RuntimeError("add_graph: a graph is not written; x.explore() shows one")

    return type(
        "SummaryWriter", (SummaryWriter,), {**methods, "add_graph": add_graph, "__module__": __name__}
    )


def __getattr__(name: str) -> Any:
    if name == "SummaryWriter":
        return _writer()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
