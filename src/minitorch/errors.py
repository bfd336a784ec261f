"""What to say when something is wrong: the operation, the shapes or dtypes, what to write instead.

Enters: an op, its arrays and the exception NumPy raised. Leaves: the exception a person sees.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from minitorch import watch


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return repr(value) if shape is None else f"{tuple(shape)} {value.dtype}"


def explain(op: Any, arrays: Sequence[Any], attributes: dict[str, Any], error: Exception) -> Exception:
    """Turn NumPy's exception into one that names the op and what met."""
    met = " and ".join(_describe(a) for a in arrays)
    shown = ", ".join(f"{k}={v!r}" for k, v in attributes.items() if not hasattr(v, "shape"))
    where = f"{op.name}({met}{', ' if shown else ''}{shown})"
    reason = str(error)
    if isinstance(error, np.exceptions.AxisError | IndexError):
        return IndexError(f"{where}: {reason}")
    if isinstance(error, TypeError):
        return TypeError(f"{where}: {reason}")
    if isinstance(error, MemoryError | RecursionError | RuntimeError | NotImplementedError):
        return error
    if isinstance(error, ValueError):
        if "broadcast" in reason:
            reason = (
                "these shapes do not broadcast: aligned from the right, each pair of axes must be equal "
                "or one of them 1. Insert axes with unsqueeze or reshape"
            )
        return RuntimeError(f"{where}: {reason}")
    if isinstance(error, np.linalg.LinAlgError):
        return RuntimeError(f"{where}: {reason}")
    return error


def check_contract(op: Any, parent: Any, contribution: Any) -> None:
    """Assert that a gradient has its tensor's shape and dtype."""
    data = parent._data
    if contribution.shape != data.shape or contribution.dtype != data.dtype:
        raise AssertionError(
            f"the rule of {op.name!r} gave a gradient of shape {contribution.shape} and dtype "
            f"{contribution.dtype} for an input of shape {data.shape} and dtype {data.dtype}"
        )


def check_unchanged(order: Iterable[Any], latest: int, boundary: Collection[Any]) -> None:
    """Raise if an array that a recorded op needs was changed after it was recorded."""
    for node in order:
        op = node._operation
        if op is None or node._time >= latest or node in boundary:
            continue
        rules = [
            rule
            for rule, i in zip(
                op.rules or [op.each or op.joint] * len(node._inputs), node._inputs, strict=False
            )
            if getattr(i, "requires_grad", False)
        ]
        # Positions as a rule receives them: g, out, then the inputs.
        values = [(node, 1), *((i, k + 2) for k, i in enumerate(node._inputs) if hasattr(i, "_data"))]
        for tensor, position in values:
            if not _changed(tensor, node._time):
                continue
            if any(_reads(rule, position) for rule in rules if rule is not None):
                role = "result" if position == 1 else f"input {position - 2}"
                raise RuntimeError(
                    f"the {role} of {op.name!r} (shape {tuple(tensor._data.shape)}) was changed after the "
                    "forward pass, and its derivative needs the values of then. Change it after "
                    "backward(), or work on a copy: x.clone(), x.detach().clone()"
                )
        for name, value in node._attributes.items():
            parts = value if isinstance(value, tuple) else (value,)
            if any(isinstance(p, np.ndarray) and watch.changed_since(p, node._time) for p in parts):
                raise RuntimeError(
                    f"the {name} of {op.name!r} was changed after the forward pass, and its derivative "
                    "needs the values of then. Change it after backward(), or pass a copy"
                )


def _changed(tensor: Any, time: int) -> bool:
    if watch.changed_since(tensor, time):
        return True
    data = tensor._data
    arrays = data if isinstance(data, tuple) else (data,)
    return any(watch.changed_since(array, time) for array in arrays)


@functools.cache
def _reads(rule: Callable[..., Any], position: int) -> bool:
    """Tell whether a rule reads the values of its argument at `position`, not merely its shape."""
    code = getattr(rule, "__code__", None)
    if code is None or position >= code.co_argcount:
        return True  # a rule we cannot look into, or a *args one: assume it does
    name = code.co_varnames[position]
    instructions = list(dis.get_instructions(code))
    for instruction, following in zip(instructions, [*instructions[1:], None], strict=True):
        if instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")):
            loaded = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
            metadata = (
                following is not None
                and following.opname == "LOAD_ATTR"
                and following.argval in ("shape", "ndim", "dtype")
                and loaded[-1] == name
                and name not in loaded[:-1]
            )
            if name in loaded and not metadata:
                return True
    return False
