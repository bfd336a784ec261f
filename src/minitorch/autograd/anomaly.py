"""detect_anomaly: where did the nan come from?

Enters: code run inside `with detect_anomaly():`. Leaves: an error at the first op, forward or
backward, that makes nan or inf out of finite numbers, naming the line of the user's code.
"""

from __future__ import annotations

import linecache
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.engine import modes
from minitorch.engine.node import Node
from minitorch.engine.record import Bundle
from minitorch.ops.op import Op

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Where each node was recorded, by id; a WeakKeyDictionary would compare tensors with ==.
_origins: dict[int, tuple[weakref.ref[Node], str]] = {}


def _remember(made: Node, line: str) -> None:
    key = id(made)
    _origins[key] = (weakref.ref(made, lambda _: _origins.pop(key, None)), line)


class AnomalyError(RuntimeError):
    """An op made nan or inf out of finite numbers."""


def user_line() -> str:
    """Return the innermost line of code outside the library: 'file:number: text'."""
    frame: Any = sys._getframe(1)
    while frame is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE + os.sep):
        frame = frame.f_back
    if frame is None:
        return "unknown line"
    name, number = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(name, number, frame.f_globals).strip()
    return f"{name}:{number}" + (f": {source}" if source else "")


def _finite(value: Any) -> bool:
    data = value._data if isinstance(value, Node) else value
    if isinstance(data, (tuple, list)):
        return all(_finite(d) for d in data)
    if isinstance(data, (int, float)) or getattr(getattr(data, "dtype", None), "kind", "") in ("f", "c"):
        return bool(np.isfinite(data).all())
    return True


def _bad_part(data: Any) -> str:
    nans, infinities = int(np.isnan(data).sum()), int(np.isinf(data).sum())
    parts = [f"{count} {name}" for count, name in ((nans, "nan"), (infinities, "inf")) if count]
    return f"{' and '.join(parts)} among {data.size} elements"


_WHERE_HELP = (
    "If these elements are thrown away later by where(condition, …): choosing the other branch is not enough. The "
    "gradient of the branch not taken is multiplied by 0, and 0·nan = 0·inf = nan. Make that branch safe before the "
    "function sees it, with a second where:\n"
    "    safe = minitorch.where(condition, x, 1.0)        # 1.0: any value the function can take\n"
    "    y = minitorch.where(condition, {op}(safe), other)"
)


def observe(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], out: Node) -> None:
    """Look at each op's result as it is computed (called by the engine)."""
    line = user_line()
    _remember(out, line)
    for made_together in out._inputs[:1]:
        if isinstance(made_together, Bundle):  # one of several results: its rule belongs to them all
            _remember(made_together, line)
    # What was infinite before, or asked for by name (a padding of -inf), is no accident.
    if not _finite(out) and all(_finite(i) for i in (*inputs, *attributes.values())):
        raise AnomalyError(
            f"{op.name} made {_bad_part(out._data)} out of finite inputs, first here:\n    {line}\n"
            + _WHERE_HELP.format(op=op.name)
        )


def check_gradient(made_by: Node, g: Any, parent: Node, contribution: Any) -> None:
    """Look at each gradient as it is computed (called by the engine)."""
    if _finite(contribution) or not _finite(g):
        return
    operation = made_by._operation
    assert operation is not None
    origin = _origins.get(id(made_by))
    line = "recorded outside detect_anomaly: unknown line" if origin is None else origin[1]
    data = contribution._data if isinstance(contribution, Node) else contribution
    message = (
        f"the derivative of {operation.name} made {_bad_part(data)} out of a finite gradient; the op was "
        f"recorded here:\n    {line}"
    )
    upstream = g._data if isinstance(g, Node) else g
    same = getattr(upstream, "shape", None) == data.shape
    if same and bool((np.isnan(data) & (upstream == 0)).any()):
        message += (
            "\nThe incoming gradient is 0 there and the slope infinite: 0·inf = nan. This is the branch that a where "
            "did not take.\n" + _WHERE_HELP.format(op=operation.name)
        )
    raise AnomalyError(message)


class detect_anomaly(modes.ModeSwitch):
    """Find the first op, forward or backward, that makes nan or inf, and name the line that called it.

    It looks at every number of every result, so it is slow: for debugging.

    >>> import minitorch
    >>> x = minitorch.tensor([1.0, 0.0], requires_grad=True)
    >>> with detect_anomaly():
    ...     y = x.log()
    Traceback (most recent call last):
    ...
    minitorch.autograd.anomaly.AnomalyError: log made 1 inf among 2 elements out of finite inputs...
    """

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(_looking(check_nan))


class set_detect_anomaly(modes.ModeSwitch):
    """Switch the search on or off: from now on as a function, inside it as a context manager."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(_looking(mode and check_nan))
        self._before = modes.current()
        modes.switch(self._change(self._before))

    def __enter__(self) -> None:
        modes.switch(self._change(modes.current())._replace(outer=self._before))


def _looking(wanted: bool) -> Callable[[modes.Mode], modes.Mode]:
    def change(mode: modes.Mode) -> modes.Mode:
        others = tuple(o for o in mode.observers if o is not observe)
        if not wanted:
            return mode._replace(observers=others, gradient_check=None)
        return mode._replace(observers=(*others, observe), gradient_check=check_gradient)

    return change
