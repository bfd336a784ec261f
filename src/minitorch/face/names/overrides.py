"""torch.overrides: classes that answer torch's functions themselves. Enters: arguments. Leaves: whether one does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from minitorch.tensor import Tensor, torch_function


def _overrides(thing: Any) -> bool:
    kind = type(thing)
    return kind in torch_function.asked if isinstance(thing, Tensor) else hasattr(kind, "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Tell whether an argument's class has a __torch_function__ of its own.

    >>> has_torch_function([minitorch.ones(1), 2])
    False
    """
    return any(_overrides(each) for each in relevant_args)


def has_torch_function_unary(t: Any) -> bool:
    """Tell whether one argument's class has a __torch_function__ of its own."""
    return _overrides(t)


def has_torch_function_variadic(*args: Any) -> bool:
    """Tell whether an argument's class has a __torch_function__ of its own."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Ask the arguments' classes for the answer, subclasses first."""
    givers = [each for each in relevant_args if _overrides(each)]
    givers.sort(key=lambda each: -len(type(each).__mro__))
    kinds = tuple(dict.fromkeys(type(each) for each in givers))
    for each in givers:
        answer = type(each).__torch_function__(public_api, kinds, args, kwargs)
        if answer is not NotImplemented:
            return answer
    raise TypeError(f"no implementation found for {public_api} on types {[kind.__name__ for kind in kinds]}")


def is_tensor_like(inp: Any) -> bool:
    """Tell whether a thing is a Tensor, or its class has a __torch_function__."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def is_tensor_method_or_property(func: Any) -> bool:
    """Tell whether a function is one of Tensor's methods."""
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func


def resolve_name(f: Any) -> str:
    """Return a function's name."""
    return f"torch.{getattr(f, '__name__', f)}"


class TorchFunctionMode(torch_function.Mode):
    """A context in which every function of torch, and every method of Tensor, is shown to `__torch_function__`.

    >>> class Names(TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():                                                            # doctest: +SKIP
    ...     total = minitorch.nn.functional.relu(minitorch.ones(2)).sum()
    ones
    relu
    sum
    """

    watched = Tensor


BaseTorchFunctionMode = TorchFunctionMode


def get_default_nowrap_functions() -> set[Any]:
    """Return an empty set."""
    return set()


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[[Any], Any]:
    """Decorate a function of one's own, so that its arguments' classes are asked first."""

    def decorate(func: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(call, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return call

    return decorate
