"""Does a derivative rule read an array's values, or merely its shape?

Enters: a recorded node, and one of the arrays its rules are given. Leaves: yes or no, asked of the rule itself: it is
run on something that has a shape and a dtype, and no values. (`x + y` may be followed by a write into x, since no
rule of `add` looks at x; after `x * y` the derivative needs it.)
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from minitorch.engine import watch
from minitorch.engine.modes import current, switch
from minitorch.engine.node import Node
from minitorch.engine.quiet import hush, restore
from minitorch.ops.narrow import widened
from minitorch.ops.native import by_its_lines
from minitorch.ops.op import Op

RESULT = -1  # the position of the result; inputs count from 0


class _ValuesRead(Exception):
    """A rule asked for values."""


class _Valueless(np.lib.mixins.NDArrayOperatorsMixin):
    """An array's shape and dtype: whatever needs its values ends here."""

    def __init__(self, array: Any) -> None:
        self.shape, self.ndim, self.dtype, self.size = array.shape, array.ndim, array.dtype, array.size

    def __len__(self) -> int:
        return self.shape[0]

    def _refuse(self, *args: Any, **options: Any) -> Any:
        raise _ValuesRead

    def astype(self, dtype: Any, *args: Any, **options: Any) -> _Valueless:
        """Return the same in another dtype: what bfloat16 is widened to before a rule's lines, whatever they read."""
        made = _Valueless(self)
        made.dtype = np.dtype(dtype)
        return made

    __array__ = __array_ufunc__ = __array_function__ = __getitem__ = __iter__ = __bool__ = __float__ = _refuse

    def __getattr__(self, name: str) -> Any:
        raise _ValuesRead


def reads_values(node: Any, position: int, parts: Collection[int] | None = None) -> bool:
    """Tell whether backward through `node` reads the values of its result or of an input.

    parts: of several results, only these.

    >>> from minitorch import tensor
    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> reads_values(x + x, 0), reads_values(x * x, 0), reads_values(x.exp(), RESULT)
    (False, True, True)
    """
    op: Op = node._operation
    if op.reads is not None:
        return _said(op.reads, position, parts)
    inputs = node._inputs
    wanted = [isinstance(i, Node) and i._requires_grad for i in inputs]
    arrays: list[Any] = [i._data if isinstance(i, Node) else i for i in inputs]
    out: Any = node._data
    if position != RESULT:
        arrays[position] = _Valueless(arrays[position])
    elif isinstance(out, list):
        out = [_Valueless(o) if parts is None or i in parts else o for i, o in enumerate(out)]
    else:
        out = _Valueless(out)
    data = node._data
    g: Any = [np.zeros_like(o) for o in data] if isinstance(data, list) else np.zeros_like(data)
    g, out, arrays = widened(g), widened(out), widened(arrays)  # as backward widens what rules are given
    token, mode = hush(), current()
    switch(mode._replace(enabled=False))
    try:
        # (Kernels would look at all that they are given.)
        if op.joint is not None:
            by_its_lines(op.joint, g, out, *arrays, **node._attributes)
        else:
            for rule, want in zip(op.rules_for(len(inputs)), wanted, strict=False):
                if want and rule is not None:
                    by_its_lines(rule, g, out, *arrays, **node._attributes)
    except _ValuesRead:
        return True
    finally:
        switch(mode)
        restore(token)
    return False


def _said(reads: bool | frozenset[int], position: int, parts: Collection[int] | None) -> bool:
    """Return what an op says itself."""
    if isinstance(reads, bool):
        return reads
    if position != RESULT:
        return True
    return bool(reads) if parts is None else not reads.isdisjoint(parts)


_found: dict[Any, bool] = {}


def may_read(node: Any, position: int) -> bool:
    """Answer the same from memory, if an op was asked about before with gradients wanted for the same inputs."""
    said = node._operation.reads
    if said is not None:  # by the op, which may be one of a single call: not to be remembered
        return _said(said, position, None)
    wanted = tuple(isinstance(i, Node) and i._requires_grad for i in node._inputs)
    options = tuple(
        (name, v if isinstance(v, (str, int)) else type(v)) for name, v in node._attributes.items()
    )
    key = (node._operation, position, wanted, options)
    if key not in _found:
        _found[key] = reads_values(node, position)
    return _found[key]


def remember_what_is_read(node: Any) -> None:
    """Remember the content of what backward through a new node will read again, where others may write."""
    for position, tensor in enumerate((node, *node._inputs), start=RESULT):
        if isinstance(tensor, Node) and watch.is_exposed(tensor) and may_read(node, position):
            watch.read(tensor._data, node._time)
    for value in node._attributes.values():
        for part in value if isinstance(value, tuple) else (value,):
            watch.read(part, node._time)
