"""Classes of tensors that answer torch's functions themselves. Enters: a call. Leaves: what `__torch_function__` gives.

Under PyTorch's types a class that derives from Tensor gets results of its own kind, and may see every call of a method
or function: `__torch_function__(cls, func, types, args, kwargs)`. Such a class is noted when it is made; as long as
there is none, a call pays for one question.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

from minitorch.engine.node import Node

# The classes that are asked.
asked: list[type] = []
_state = threading.local()


@contextlib.contextmanager
def not_asked() -> Iterator[None]:
    """Inside, nobody is asked: PyTorch's DisableTorchFunctionSubclass."""
    depth = getattr(_state, "depth", 0)
    _state.depth = depth + 1
    try:
        yield
    finally:
        _state.depth = depth


def not_for_me(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Answer as if the class had no say: what Parameter has as its `__torch_function__`."""
    return NotImplemented


def givers(args: Any, kwargs: Any = None) -> list[Any]:
    """Return the arguments whose classes are asked, one of each class, subclasses first; lists are looked into."""
    if getattr(_state, "depth", 0):
        return []
    found: dict[type, Any] = {}
    for each in (*args, *(kwargs or {}).values()):
        for part in each if isinstance(each, (list, tuple)) else (each,):
            if isinstance(part, Node) and type(part) in asked:
                found.setdefault(type(part), part)
    return sorted(found.values(), key=lambda part: -len(type(part).__mro__))


def ask(func: Any, those: list[Any], args: Any, kwargs: Any) -> Any:
    """Return what the first class that has an answer gives."""
    kinds = tuple(type(each) for each in those)
    for each in those:
        answer = type(each).__torch_function__(func, kinds, args, kwargs)
        if answer is not NotImplemented:
            return answer
    raise TypeError(f"no implementation found for {func} on types {[kind.__name__ for kind in kinds]}")


def as_kind(result: Any, cls: type) -> Any:
    """Return a result, or the Tensors in it, as one of a class."""
    if isinstance(result, Node):
        return result if isinstance(result, cls) else result.as_subclass(cls)  # type: ignore[attr-defined]
    if isinstance(result, (tuple, list)) and any(isinstance(each, Node) for each in result):
        parts = [as_kind(each, cls) for each in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


# What tells of a tensor, or makes it another thing, is not asked about.
_ALWAYS_PLAIN = {
    "apply_", "as_subclass", "backward", "data_ptr", "detach_", "dim", "element_size", "explore", "get_device",
    "is_complex", "is_contiguous", "is_floating_point", "is_nonzero", "is_pinned", "is_same_size", "is_signed",
    "item", "ndimension", "nelement", "numel", "numpy", "register_hook", "register_post_accumulate_grad_hook",
    "requires_grad_", "retain_grad", "set_", "size", "storage", "storage_offset", "stride", "tolist",
    "untyped_storage",
}  # fmt: skip
_TWO_SIDED = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"),
    *("lshift", "rshift"),
)
_NAMED = ("add", "sub", "mul", "matmul", "neg", "abs", "eq", "ne", "lt", "le", "gt", "ge")
_OPERATORS = {f"__{way}{name}__" for name in _TWO_SIDED for way in ("", "r", "i")}
_OPERATORS |= {f"__{name}__" for name in (*_NAMED, "pos", "invert", "getitem", "setitem")}
# By which name an operator is asked about, where that is a method's.
_ASKED_AS = {f"__{name}__": name for name in _NAMED} | {"__truediv__": "div"}


def note_class(cls: Any, base: Any) -> None:
    """Have a class asked, for its methods and by functions, unless it says that it has no say."""
    if getattr(cls.__torch_function__, "__func__", cls.__torch_function__) is not_for_me:
        return
    asked.append(cls)
    for name in dir(base):
        method = getattr(base, name)
        public = not name.startswith("_") and name not in _ALWAYS_PLAIN
        if (public or name in _OPERATORS) and callable(method) and getattr(cls, name, None) is method:
            setattr(cls, name, _asking(method, getattr(base, _ASKED_AS.get(name, name))))


def _asking(method: Any, named: Any) -> Any:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        those = givers(args, kwargs)
        return ask(named, those, args, kwargs) if those else method(*args, **kwargs)

    return call
