"""What to say when something is wrong: the operation, the shapes or dtypes, what to write instead.

Enters: an op, its arrays and the exception NumPy raised. Leaves: the exception a person sees.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from minitorch.engine import gpu, versions, watch
from minitorch.engine.modes import current
from minitorch.engine.node import Node
from minitorch.engine.reads import RESULT, reads_values
from minitorch.engine.recording import recordings


class AnotherWay(BaseException):
    """A kind of array cannot compute a forward, or a rule, as it is written, and knows another way (func/batched).

    No Exception: nobody else is to catch it.
    """

    def run(
        self, function: Callable[..., Any], args: Sequence[Any], attributes: dict[str, Any], name: str
    ) -> Any:
        """Return function(*args, **attributes), computed in that way; name: whose it is."""
        raise NotImplementedError


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
    places = {gpu.name_of_place(a) for a in arrays if hasattr(a, "shape")}
    if len(places) > 1:
        return mixed_devices(where, sorted(places))
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


class MixedDevices(RuntimeError):
    """An op was given arrays on different devices."""


def mixed_devices(where: str, places: Sequence[str]) -> MixedDevices:
    """Return what to say of arrays that lie on different devices."""
    found, target = " and ".join(map(repr, places)), places[-1]
    return MixedDevices(
        f"{where}: Expected all tensors to be on the same device, but found {found}. Write x.to({target!r}), or make "
        f"it there: device={target!r}; of a model: model.to({target!r})"
    )


def gradient_check() -> Callable[..., None] | None:
    """Return what looks at every gradient as it is computed: detect_anomaly, the contract; nearly always nothing."""
    check = current().gradient_check
    if not _debugging:
        return check

    def both(node: Any, g: Any, parent: Any, contribution: Any) -> None:
        check_contract(node._operation, parent, contribution)
        if check is not None:
            check(node, g, parent, contribution)

    return both


_debugging: list[bool] = []


def set_debug(enabled: bool) -> None:
    """Assert the shape and dtype contract after every rule, or no longer."""
    _debugging[:] = [True] if enabled else []


def is_debug() -> bool:
    """Tell whether the contract is asserted after every rule."""
    return bool(_debugging)


def check_contract(op: Any, parent: Any, contribution: Any) -> None:
    """Assert that a gradient has its tensor's shape and dtype."""
    data = parent._data
    if contribution.shape != data.shape or contribution.dtype != data.dtype:
        raise AssertionError(
            f"the rule of {op.name!r} gave a gradient of shape {contribution.shape} and dtype "
            f"{contribution.dtype} for an input of shape {data.shape} and dtype {data.dtype}"
        )


# --- values that were overwritten --------------------------------------------------------------------------


def check_unchanged(order: Sequence[Any], boundary: Collection[Any]) -> None:
    """Raise if values that a recorded op's rules read were changed after it was recorded."""
    oldest = next((node._time for node in order if node._operation is not None), None)
    if oldest is None:
        return
    if watch.exposed:
        watch.look_again(oldest)
    if oldest >= watch.last_change():
        return
    suspects = watch.changed_after(oldest)
    if not suspects or _surely_unchanged(order, suspects):
        return
    for node in order:
        op = node._operation
        if op is None or node in boundary:
            continue
        made_of = [each for each in node._inputs if isinstance(each, Node) and each._requires_grad]
        if _surely_unchanged([node, *made_of], suspects):
            continue
        for position, tensor in enumerate((node, *node._inputs), start=RESULT):
            if not hasattr(tensor, "_data"):
                continue
            if isinstance(tensor._data, list):  # of an op with several results: those that were changed
                parts = [i for i, a in enumerate(tensor._data) if _array_changed(a, node._time, suspects)]
                read = bool(parts) and tensor is node and reads_values(node, RESULT, parts)
            else:
                read = _changed(tensor, node, suspects) and reads_values(node, position)
            if read:
                raise RuntimeError(_overwritten(node, position, tensor))
        for name, value in node._attributes.items():
            pieces = value if isinstance(value, tuple) else (value,)
            if any(isinstance(p, np.ndarray) and _array_changed(p, node._time, suspects) for p in pieces):
                raise RuntimeError(
                    f"the {name} of {op.name!r} was changed after the forward pass, and its derivative "
                    "needs the values of then. Change it after backward(), or pass a copy"
                )


def _surely_unchanged(order: Sequence[Any], suspects: set[int]) -> bool:
    """Tell at first sight whether nothing that rules of these nodes may read has changed; False: look more closely."""
    if versions.renewed or recordings:
        return False
    for node in order:
        if _is_suspect(node, suspects):
            return False
        for each in node._inputs:  # (what requires a gradient is one of the nodes itself)
            if isinstance(each, Node) and not each._requires_grad and _is_suspect(each, suspects):
                return False
        for value in node._attributes.values():
            if isinstance(value, np.ndarray):
                return False
            if isinstance(value, tuple):
                for piece in value:
                    if isinstance(piece, np.ndarray):
                        return False
    return True


def _is_suspect(tensor: Any, suspects: set[int]) -> bool:
    """Tell whether a tensor, or memory that it looks at, is among those that were changed."""
    array = tensor._array
    if id(tensor) in suspects:
        return True
    for each in array if isinstance(array, list) else (array,):
        if each is not None:
            owner = each if getattr(each, "base", None) is None else watch.owner_of(each)
            if id(owner) in suspects:
                return True
    return False


def _overwritten(node: Any, position: int, tensor: Any) -> str:
    role = "result" if position == RESULT else f"input {position}"
    shape = "" if tensor._data.shape is None else f" (shape {tuple(tensor._data.shape)})"
    data = tensor._data
    by = next(filter(None, map(watch.written_by, data if isinstance(data, list) else [data])), "")
    return (
        f"the {role} of {node._operation.name!r}{shape} was changed after the forward pass{f' by {by}' if by else ''}, "
        "and its derivative needs the values of then. Change it after backward(), or work on a copy: x.clone(), "
        "x.detach().clone()"
    )


def _changed(tensor: Any, node: Any, suspects: set[int]) -> bool:
    if versions.is_old(tensor) and tensor._past.overwritten and tensor is not node:
        return True  # this version's values are gone, whoever asks for them
    if id(tensor) in suspects and watch.changed_since(tensor, node._time):
        return True
    return _array_changed(tensor._data, node._time, suspects)


def _array_changed(array: Any, time: int, suspects: set[int]) -> bool:
    return id(watch.owner_of(array)) in suspects and watch.changed_since(array, time)
