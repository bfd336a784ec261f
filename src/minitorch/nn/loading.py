"""Loading a state dict into a model. Enters: a model and entries by dotted names. Leaves: all of them written, or none.

Every module checks its own entries and plans their writing; the writes wait until the whole tree was checked.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from minitorch.engine import watch
from minitorch.tensor import Tensor

EXTRA_STATE = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """What did not match: the answer of load_state_dict."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class _Loading(OrderedDict[str, Any]):
    """A state dict being loaded. Writes wait here until every key was checked: all are done, or none."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        super().__init__(entries)
        self.writes: list[Callable[[], None]] = []
        self._metadata = getattr(entries, "_metadata", None)


def load_all(model: Any, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Load a tree of modules: what Module.load_state_dict does."""
    loading = _Loading(state_dict)
    missing: list[str] = []
    unexpected: list[str] = []
    errors: list[str] = []
    walked: list[Any] = []

    def load(module: Any, prefix: str) -> None:
        metadata = dict((loading._metadata or {}).get(prefix[:-1], {}))
        metadata["assign_to_params_buffers"] = assign
        module._load_from_state_dict(loading, prefix, metadata, True, missing, unexpected, errors)
        for name, child in module._modules.items():
            if child is not None:
                load(child, f"{prefix}{name}.")
        walked.append(module)

    load(model, "")
    result = IncompatibleKeys(missing, unexpected)
    # Post-hooks run once the values are there; but one may also pardon missing keys, so where strict
    # loading would fail they run first.
    doubtful = bool(strict and (missing or unexpected))
    if doubtful and not errors:
        _run_post_hooks(walked, result)
    if strict and unexpected:
        errors.insert(0, "Unexpected key(s) in state_dict: " + _quoted(unexpected))
    if strict and missing:
        errors.insert(0, "Missing key(s) in state_dict: " + _quoted(missing))
    if errors:
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(model).__name__}:\n\t" + "\n\t".join(errors)
        )
    for write in loading.writes:
        write()
    if not doubtful:
        _run_post_hooks(walked, result)
    return result


def plan_own(
    module: Any,
    state_dict: dict[str, Any],
    prefix: str,
    local_metadata: dict[str, Any],
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """Plan the writing of one module's own entries, or do it where nobody collects the writes."""
    own = module._own_state()
    assign = local_metadata.get("assign_to_params_buffers", False)
    writes: list[Callable[[], None]] = []
    for name, member in own.items():
        key = prefix + name
        if member is None:
            continue
        if key not in state_dict:
            if strict:
                missing_keys.append(key)
            continue
        try:
            value = _value(state_dict[key])
        except Exception as error:
            error_msgs.append(f"{key}: {type(error).__name__}: {error}")
            continue
        if tuple(value.shape) != member.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {tuple(value.shape)} from checkpoint, "
                f"the shape in current model is {member.shape}."
            )
        elif assign:
            writes.append(partial(module._assign, name, state_dict[key], value))
        else:
            writes.append(partial(_write, member, value))
    extra = prefix + EXTRA_STATE
    if module._defines("set_extra_state"):
        if extra in state_dict:
            writes.append(partial(module.set_extra_state, state_dict[extra]))
        elif strict:
            missing_keys.append(extra)
    elif extra in state_dict and strict:
        unexpected_keys.append(extra)
    if strict:
        for key in state_dict:
            if key.startswith(prefix) and key != extra:
                name = key[len(prefix) :]
                head = name.partition(".")[0]
                known = own.get(name) is not None if head == name else head in module._modules
                if not known:
                    unexpected_keys.append(key)
    waiting = getattr(state_dict, "writes", None)
    if waiting is not None:
        waiting.extend(writes)
    else:
        for write in writes:
            write()


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names) + ". "


def _run_post_hooks(modules: list[Any], result: IncompatibleKeys) -> None:
    for module in modules:
        for hook in tuple(module._load_state_dict_post_hooks.values()):
            if hook(module, result) is not None:
                raise RuntimeError(
                    "a hook of register_load_state_dict_post_hook changes the lists of keys in place and returns None"
                )


def _value(given: Any) -> Any:
    """Return a loaded value as an array: a Tensor's, a NumPy array, or what any other library converts to one."""
    if isinstance(given, Tensor):
        return given._data
    if hasattr(given, "__array_function__"):
        return given
    if hasattr(given, "detach"):  # PyTorch's
        given = given.detach().cpu()
    elif not hasattr(given, "__array__") and not isinstance(given, (int, float, bool, list, tuple)):
        raise TypeError(f"expected a Tensor or an array, got {type(given).__name__}")
    return np.asarray(given)


def _write(member: Tensor, value: Any) -> None:
    """Copy values into a parameter or buffer, keeping its dtype and device."""
    if isinstance(member._data, np.ndarray) and hasattr(value, "get"):
        value = value.get()  # from a GPU's memory
    elif not isinstance(member._data, np.ndarray) and isinstance(value, np.ndarray):
        value = np.asarray(value, like=member._data)
    if value is not member._data:
        member._data[...] = value
        watch.touch(member._data)
