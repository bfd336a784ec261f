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
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitorch.engine import modes
from minitorch.engine.node import Node
from minitorch.engine.record import Bundle
from minitorch.ops.op import Op
from minitorch.ops.sparse import Coo

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclass(slots=True)
class _Origin:
    """Where a node was recorded, and by which op; `readers`: what was then computed from it."""

    node: weakref.ref[Node]
    op: str
    line: str
    readers: list[_Origin] = field(default_factory=list)


_origins: dict[int, _Origin] = {}  # by id; a WeakKeyDictionary would compare tensors with ==


def _remember(made: Node, op: str, line: str, inputs: tuple[Any, ...]) -> None:
    key = id(made)
    made_here = _Origin(weakref.ref(made, lambda _: _origins.pop(key, None)), op, line)
    _origins[key] = made_here
    for each in inputs:
        if (known := _origins.get(id(each))) is not None:
            known.readers.append(made_here)


def _reaches_where(start: _Origin) -> bool:
    """Whether a `where` (masked_fill is one too) chose among values computed from this one."""
    seen, stack = {id(start)}, [start]
    while stack:
        for reader in stack.pop().readers:
            if reader.op == "where":
                return True
            if id(reader) not in seen:
                seen.add(id(reader))
                stack.append(reader)
    return False


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
    data = data.values if isinstance(data, Coo) else data
    if isinstance(data, (tuple, list)):
        return all(_finite(d) for d in data)
    if isinstance(data, (int, float)) or getattr(getattr(data, "dtype", None), "kind", "") in ("f", "c"):
        return bool(np.isfinite(data).all())
    return True


def _bad_part(data: Any) -> str:
    data = data.values if isinstance(data, Coo) else data
    nans, infinities = int(np.isnan(data).sum()), int(np.isinf(data).sum())
    parts = [f"{count} {name}" for count, name in ((nans, "nan"), (infinities, "inf")) if count]
    return f"{' and '.join(parts)} among {data.size} elements"


# Where an op of one argument leaves the finite numbers, and what to write instead.
_DOMAINS = {
    "acos": "acos needs −1 ≤ x ≤ 1, and its slope is infinite at both ends: acos(x.clamp(-1 + eps, 1 - eps))",
    "acosh": "acosh needs x ≥ 1, and its slope is infinite at 1: acosh(x.clamp(min=1 + eps))",
    "asin": "asin needs −1 ≤ x ≤ 1, and its slope is infinite at both ends: asin(x.clamp(-1 + eps, 1 - eps))",
    "atanh": "atanh needs −1 < x < 1: atanh(x.clamp(-1 + eps, 1 - eps))",
    "exp": "exp overflows above 88 in float32 and above 709 in float64: subtract the largest value first, which "
    "softmax, log_softmax and logsumexp do for you",
    "expm1": "expm1 overflows above 88 in float32 and above 709 in float64: subtract the largest value first",
    "log": "log needs x > 0: log(x + eps) or log(x.clamp(min=eps)); of a softmax, log_softmax",
    "log10": "log10 needs x > 0: log10(x + eps) or log10(x.clamp(min=eps))",
    "log1p": "log1p needs x > −1: log1p(x.clamp(min=-1 + eps))",
    "log2": "log2 needs x > 0: log2(x + eps) or log2(x.clamp(min=eps))",
    "reciprocal": "1/x needs x ≠ 0: 1/(x + eps), or 1/x.clamp(min=eps) where x is not negative",
    "rsqrt": "rsqrt needs x > 0: rsqrt(x + eps), as layer norm does",
    "sqrt": "sqrt needs x ≥ 0, and its slope is infinite at 0: sqrt(x + eps) or sqrt(x.clamp(min=eps))",
}

# The same for ops of several arguments: a function of one could not be put around the repaired argument.
_DIVISOR = """Where a divisor is 0, keep it away from 0: a / (b + eps), or a / b.clamp(min=eps) where b is not negative.
Where the quotient is thrown away later by where(condition, …), repair the divisor before it divides:
    safe = minitorch.where(b != 0, b, 1.0)        # 1.0: any divisor but 0
    y = minitorch.where(b != 0, a / safe, other)"""
_SEVERAL = {
    "div": _DIVISOR,
    "mean": "the mean of no elements is nan: check that there are any (x.numel() > 0)",
    "pow": "0 to a negative power is infinite, and a negative number to a fraction is no real number; the slope of "
    "x**p with p < 1 is infinite at 0: (x + eps)**p or x.clamp(min=eps)**p",
}


def _advice(op: str) -> str:
    """Say what to write instead of an op that left the finite numbers."""
    text = _DOMAINS.get(op) or _SEVERAL.get(op)
    if text is None:
        return ""
    return f"\n{text}" + "\n(eps: a small number, such as 1e-6)" * ("eps" in text)


def _where_advice(op: str) -> str:
    """Explain that choosing the other branch of a where does not undo a nan in this one."""
    call = f"{op}(safe)" if op in _DOMAINS else "…(safe)…"
    return (
        "Choosing the other branch of a where(condition, …) is not enough: the gradient of the branch not taken is "
        "multiplied by 0, and 0·nan = 0·inf = nan. Make that branch safe before the function sees it, with a "
        "second where:\n"
        "    safe = minitorch.where(condition, x, 1.0)        # 1.0: any value the function can take\n"
        f"    y = minitorch.where(condition, {call}, other)"
    )


def observe(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], out: Node) -> None:
    """Look at each op's result as it is computed (called by the engine)."""
    line = user_line()
    _remember(out, op.name, line, inputs)
    for made_together in out._inputs[:1]:
        if isinstance(made_together, Bundle):  # one of several results: its rule belongs to them all
            _remember(made_together, op.name, line, inputs)
    # What was infinite before, or asked for by name (a padding of -inf), is no accident.
    if not _finite(out) and all(_finite(i) for i in (*inputs, *attributes.values())):
        message = f"{op.name} made {_bad_part(out._data)} out of finite inputs, first here:\n    {line}"
        message += _advice(op.name)
        if op.name in _DOMAINS:  # what becomes of the result is not known yet
            message += "\nIf these elements are thrown away later by a where:\n" + _where_advice(op.name)
        raise AnomalyError(message)


def check_gradient(made_by: Node, g: Any, parent: Node, contribution: Any) -> None:
    """Look at each gradient as it is computed (called by the engine)."""
    if _finite(contribution) or not _finite(g):
        return
    operation = made_by._operation
    assert operation is not None
    origin = _origins.get(id(made_by))
    line = "recorded outside detect_anomaly: unknown line" if origin is None else origin.line
    data = contribution._data if isinstance(contribution, Node) else contribution
    message = (
        f"the derivative of {operation.name} made {_bad_part(data)} out of a finite gradient; the op was "
        f"recorded here:\n    {line}"
    )
    upstream = g._data if isinstance(g, Node) else g
    same = getattr(upstream, "shape", None) == data.shape
    if same and bool((np.isnan(data) & (upstream == 0)).any()):
        message += "\nThe incoming gradient is 0 there and the slope infinite: 0·inf = nan."
        if origin is not None and _reaches_where(origin):
            raise AnomalyError(
                f"{message} A where was computed from it, and did not choose it there. {_where_advice(operation.name)}"
            )
        message += (
            " If what was computed from it has a slope there as a whole, as a product with 0 may have, write that as "
            "one function: x.sqrt() * x is x**1.5."
        )
    raise AnomalyError(message + _advice(operation.name))


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
            return modes.with_observers(mode, *others)._replace(gradient_check=None)
        return modes.with_observers(mode, *others, observe)._replace(gradient_check=check_gradient)

    return change


def is_anomaly_enabled() -> bool:
    """Tell whether nan and inf are looked for."""
    return observe in modes.current().observers


is_anomaly_check_nan_enabled = is_anomaly_enabled


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Look for nan and inf from now on, or stop it."""
    set_detect_anomaly(enabled, check_nan)
