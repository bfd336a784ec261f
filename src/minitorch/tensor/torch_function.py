"""Classes and modes that answer torch's functions themselves. Enters: a call. Leaves: what `__torch_function__` gives.

Under PyTorch's types a class that derives from Tensor gets results of its own kind, and may see every call of a method
or function: `__torch_function__(cls, func, types, args, kwargs)`. Such a class is noted when it is made. A mode is
asked about every call inside a `with` block, whatever the arguments are. As long as there is neither, nobody pays: the
functions of `nn.functional` and those that make tensors are as they are written, and get the question at the first
class or mode; Tensor's own methods have it as long as a mode is entered.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Iterable, Iterator
from types import FunctionType, MethodType
from typing import Any

from minitorch.engine.modes import USUAL, current, switch, with_observers
from minitorch.engine.node import Node

# The classes that are asked; and, once for each that is entered, Mode.
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
    if entered := getattr(_state, "modes", ()):
        return [entered[-1]]
    found: dict[type, Any] = {}
    for each in (*args, *(kwargs or {}).values()):
        for part in each if isinstance(each, (list, tuple)) else (each,):
            if isinstance(part, Node) and type(part) in asked:
                found.setdefault(type(part), part)
    return sorted(found.values(), key=lambda part: -len(type(part).__mro__))


def ask(func: Any, those: list[Any], args: Any, kwargs: Any) -> Any:
    """Return what the mode, or the first class that has an answer, gives."""
    if isinstance(those[0], Mode):
        return those[0].answer(func, args, kwargs)
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
_NAMED = ("add", "sub", "mul", "matmul", "pow", "neg", "abs", "ne", "lt", "le", "gt", "ge")
_OPERATORS = {f"__{way}{name}__" for name in _TWO_SIDED for way in ("", "r", "i")}
_OPERATORS |= {f"__{name}__" for name in (*_NAMED, "eq", "pos", "invert", "getitem", "setitem")}
# By which name an operator is asked about, where that is a method's.
_ASKED_AS = {f"__{name}__": name for name in _NAMED} | {"__truediv__": "div", "__mod__": "remainder"}
_ASKED_AS |= {"__radd__": "add", "__rmul__": "mul", "__pos__": "positive", "__ifloordiv__": "floor_divide_"}
_ASKED_AS |= {f"__i{name}__": f"{name}_" for name in ("add", "sub", "mul", "pow")}
_ASKED_AS |= {"__itruediv__": "div_", "__imod__": "remainder_"}


def note_class(cls: Any, base: Any) -> None:
    """Have a class asked, for its methods and by functions, unless it says that it has no say."""
    if getattr(cls.__torch_function__, "__func__", cls.__torch_function__) is not_for_me:
        return
    asked.append(cls)
    _let_functions_ask()
    for name, method in _methods(base):
        if getattr(cls, name, None) is method:
            setattr(cls, name, Asking(method, getattr(base, _ASKED_AS.get(name, name))))


def _methods(base: Any) -> Iterator[tuple[str, Any]]:
    """Give the methods and operators that are asked about."""
    for name in dir(base):
        method = getattr(base, name)
        public = not name.startswith("_") and name not in _ALWAYS_PLAIN
        if (public or name in _OPERATORS) and callable(method):
            yield name, method


class Asking:
    """A function or method that asks first. It equals the one it stands for: it is found in tables made before.

    named: what is asked about, if it is another than this one.
    """

    asks = True

    def __init__(self, plain: Any, named: Any = None) -> None:
        functools.update_wrapper(self, plain)
        self.plain = plain
        self.named = self if named is None else named

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Ask, and if nobody is to be asked, compute."""
        if asked and (those := givers(args, kwargs)):
            return ask(self.named, those, args, kwargs)
        return self.plain(*args, **kwargs)

    def __get__(self, tensor: Any, kind: Any = None) -> Any:
        return self if tensor is None else MethodType(self, tensor)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.plain

    def __hash__(self) -> int:
        return hash(self.plain)

    def __reduce__(self) -> str:
        return str(self.plain.__qualname__)

    def __repr__(self) -> str:
        return repr(self.plain)


# --- functions that are no methods ---------------------------------------------------------------------------

_offered: list[tuple[dict[str, Any], tuple[str, ...]]] = []


def offer(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Have a module's functions ask, as soon as there is somebody to ask."""
    _offered.append((namespace, tuple(names)))
    if asked:
        _let_functions_ask()


def _let_functions_ask() -> None:
    """Put a function that asks in the place of each that was offered, in every module that has it by its name."""
    instead = {}
    for namespace, names in _offered:
        found = {name: namespace.get(name) for name in names}
        plain = {name: f for name, f in found.items() if type(f) is FunctionType and not hasattr(f, "asks")}
        instead.update({id(f): (f, Asking(f)) for f in plain.values()})
    _offered.clear()
    if not instead:
        return
    for title, module in tuple(sys.modules.items()):
        for name, value in tuple(getattr(module, "__dict__", {}).items()):
            if type(value) is FunctionType and id(value) in instead:
                setattr(module, name, instead[id(value)][1])
            elif title.startswith("minitorch.nn.") and isinstance(value, type):
                for key, member in tuple(vars(value).items()):  # a layer that is a function (nn.ReLU)
                    if isinstance(member, staticmethod) and id(member.__func__) in instead:
                        setattr(value, key, staticmethod(instead[id(member.__func__)][1]))


# --- modes -----------------------------------------------------------------------------------------------------


class Mode:
    """A `with` block in which every call is shown to `__torch_function__(self, func, types, args, kwargs)`."""

    watched: Any = None  # the class whose methods are shown: Tensor

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__}: define __torch_function__(self, func, types, args, kwargs)"
        )

    def answer(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what the mode gives; meanwhile it is not asked, but those around it are, and classes."""
        entered = _state.modes
        _state.modes = entered[: entered.index(self)]
        try:
            kinds = () if _state.modes else tuple(type(each) for each in givers(args, kwargs))
            return self.__torch_function__(func, kinds, args, kwargs or {})
        finally:
            _state.modes = entered

    def __enter__(self) -> Any:
        if Mode not in asked:
            _show_methods(self.watched)
        asked.append(Mode)
        _let_functions_ask()
        _state.modes = (*getattr(_state, "modes", ()), self)
        # Somebody observes: compiled functions run as they are.
        switch(with_observers(current(), *current().observers, self.see))
        return self

    def __exit__(self, *exception: object) -> None:
        place = len(_state.modes) - 1 - _state.modes[::-1].index(self)
        _state.modes = _state.modes[:place] + _state.modes[place + 1 :]
        asked.remove(Mode)
        if Mode not in asked:
            _hide_methods(self.watched)
        left = current()._replace(observers=tuple(o for o in current().observers if o != self.see))
        switch(USUAL if left == USUAL else left)  # which short paths know by `is`

    def see(self, *what: Any) -> None:
        """See an op, and do nothing: it was shown by the function that computes it."""


# What Tensor itself has in the place of the methods that are shown; those that it inherits have no entry.
_own: dict[str, Any] = {}


def _show_methods(base: Any) -> None:
    shown = {name: Asking(method) for name, method in _methods(base)}
    _own.update({name: vars(base)[name] for name in shown if name in vars(base)})
    for name, each in shown.items():
        each.named = shown.get(_ASKED_AS.get(name, name), each)
        setattr(base, name, each)


def _hide_methods(base: Any) -> None:
    for name in [name for name, value in vars(base).items() if isinstance(value, Asking)]:
        if name in _own:
            setattr(base, name, _own[name])
        else:
            delattr(base, name)
    _own.clear()
