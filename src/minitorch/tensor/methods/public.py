"""How the public names of an op are made, all in its family's file. Enters: a method. Leaves: its other forms.

A family's file has one class, which Tensor inherits. An op is a method of it, with a docstring; marked `@in_place` it
also has the form with a trailing underscore, which writes its result into the tensor; and a line below the class gives
it a function:

    class Exponentials(Node):
        @in_place
        def exp(self) -> Tensor: …

    exp = function(Exponentials.exp)

minitorch/functions.py offers what each family lists in `__all__`. What is no method of one tensor (cat, where) is
written as a function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from minitorch.engine.node import Node
from minitorch.tensor.convert import tensor_for

P = ParamSpec("P")
R = TypeVar("R")


def function(
    method: Callable[Concatenate[Any, P], R], *, numbers: bool = False
) -> Callable[Concatenate[Any, P], R]:
    """Return the function of a method: it takes numbers, lists and arrays too, and makes them tensors.

    numbers: those of Python are left as they are, for a method of two operands, where they widen no dtype.

    >>> minitorch.exp([0.0, 0.0])
    tensor([1., 1.])
    >>> minitorch.sub(1, minitorch.tensor([2.0]))
    tensor([-1.])
    """
    left_alone = (Node, int, float) if numbers else Node

    @functools.wraps(method)
    def run(input: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        if not isinstance(input, left_alone):
            input = tensor_for(input, method.__name__)
        return method(input, *args, **kwargs)

    run.__qualname__ = method.__name__
    return run


def takes_what(
    helper: Callable[Concatenate[Any, P], Any],
) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Mark a function that hands all it is given on to a helper, behind a first argument: it shows the same signature.

    What begins with an underscore is between the helper and its other callers.
    """
    signature = inspect.signature(helper)
    taken = [p for p in signature.parameters.values() if not p.name.startswith("_")][1:]

    def mark(function: Any) -> Any:
        function.__signature__ = signature.replace(parameters=taken)
        return function

    return mark


_Method = TypeVar("_Method", bound=Callable[..., Any])


def in_place(method: _Method) -> _Method:
    """Mark a method that also has an in-place form: `x.exp_()` beside `x.exp()`."""
    method.has_in_place_form = True  # type: ignore[attr-defined]
    return method


def in_place_names(cls: type) -> list[str]:
    """Return the names, aliases among them, of a class's methods that are marked `@in_place`.

    >>> "exp" in in_place_names(minitorch.Tensor), "sum" in in_place_names(minitorch.Tensor)
    (True, False)
    """
    marked = (name for name in dir(cls) if not name.startswith("_"))
    return [name for name in marked if getattr(getattr(cls, name), "has_in_place_form", False)]
