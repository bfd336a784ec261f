"""What to say when something is wrong: the operation, the shapes or dtypes, what to write instead.

Enters: an op, its arrays and the exception NumPy raised. Leaves: the exception a person sees.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from minitorch.engine import watch


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return repr(value) if shape is None else f"{tuple(shape)} {value.dtype}"


# What NumPy raises for arguments that do not fit; anything else passes as it is. (An axis out of range
# and a singular matrix are ValueErrors too.)
EXPLAINED = (IndexError, TypeError, ValueError)


def explain(op: Any, arrays: Sequence[Any], attributes: dict[str, Any], error: Exception) -> Exception:
    """Turn one of NumPy's EXPLAINED exceptions into one that names the op and what met."""
    met = " and ".join(_describe(a) for a in arrays)
    shown = ", ".join(f"{k}={v!r}" for k, v in attributes.items() if not hasattr(v, "shape"))
    where = f"{op.name}({met}{', ' if shown else ''}{shown})"
    reason = str(error)
    if isinstance(error, IndexError):
        return IndexError(f"{where}: {reason}")
    if isinstance(error, TypeError):
        # NumPy says TypeError also of a dtype that an operation is not defined for (~1.5).
        dtype = any(words in reason for words in ("the input types", "contain a loop", "boolean subtract"))
        text = any(isinstance(value, (str, bytes)) for value in attributes.values())
        return (RuntimeError if dtype and not text else TypeError)(f"{where}: {reason}")
    if "broadcast" in reason:
        reason = (
            "these shapes do not broadcast: aligned from the right, each pair of axes must be equal "
            "or one of them 1. Insert axes with unsqueeze or reshape"
        )
    return RuntimeError(f"{where}: {reason}")


def unexpected_complex(op: Any) -> Exception:
    """Say that a rule gave a real tensor a complex gradient, where nothing complex was asked for."""
    return RuntimeError(
        f"the gradient of {op.name!r} is complex, but its input is real and its rules are for real numbers; compute "
        "with the real and imaginary part"
    )


def check_contract(op: Any, parent: Any, contribution: Any) -> None:
    """Assert that a gradient has its tensor's shape and dtype."""
    data = parent._data
    if contribution.shape != data.shape or contribution.dtype != data.dtype:
        raise AssertionError(
            f"the rule of {op.name!r} gave a gradient of shape {contribution.shape} and dtype "
            f"{contribution.dtype} for an input of shape {data.shape} and dtype {data.dtype}"
        )


def check_unchanged(order: Iterable[Any], oldest: int, boundary: Collection[Any]) -> None:
    """Raise if an array that a recorded op needs was changed after it was recorded."""
    suspects = watch.changed_after(oldest)
    for node in order if suspects else ():
        op = node._operation
        if op is None or node in boundary:
            continue
        # Positions as a rule receives them: g, out, then the inputs.
        for position, tensor in enumerate((node, *node._inputs), start=1):
            if not hasattr(tensor, "_data") or not _changed(tensor, node._time, suspects):
                continue
            if watch.is_read(node, position):
                role = "result" if position == 1 else f"input {position - 2}"
                shape = "" if tensor._data.shape is None else f" (shape {tuple(tensor._data.shape)})"
                raise RuntimeError(
                    f"the {role} of {op.name!r}{shape} was changed after the forward pass, and its derivative "
                    "needs the values of then. Change it after backward(), or work on a copy: x.clone(), "
                    "x.detach().clone()"
                )
        for name, value in node._attributes.items():
            parts = value if isinstance(value, tuple) else (value,)
            if any(isinstance(p, np.ndarray) and _array_changed(p, node._time, suspects) for p in parts):
                raise RuntimeError(
                    f"the {name} of {op.name!r} was changed after the forward pass, and its derivative "
                    "needs the values of then. Change it after backward(), or pass a copy"
                )


def _changed(tensor: Any, time: int, suspects: set[int]) -> bool:
    if id(tensor) in suspects and watch.changed_since(tensor, time):
        return True
    data = tensor._data
    if isinstance(data, list):
        return any(_array_changed(array, time, suspects) for array in data)
    return _array_changed(data, time, suspects)


def _array_changed(array: Any, time: int, suspects: set[int]) -> bool:
    if id(array) not in suspects and (
        not isinstance(array, np.ndarray) or id(watch.owner_of(array)) not in suspects
    ):
        return False
    return watch.changed_since(array, time)
