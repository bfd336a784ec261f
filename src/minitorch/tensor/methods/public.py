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

import numpy as np

from minitorch.engine.node import Node
from minitorch.tensor.convert import tensor_for
from minitorch.tensor.torch_function import ask, asked, givers

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
        if not (asked or kwargs) and isinstance(input, left_alone):
            # As nearly always, and as quick as can be: to hand on a tuple takes longer than its only element.
            if len(args) == 1:
                return method(input, args[0])  # type: ignore[call-arg, arg-type]
            return method(input, *args)  # type: ignore[call-arg]
        if asked and (those := givers((input, *args), kwargs)):
            return ask(run, those, (input, *args), kwargs)
        if not isinstance(input, left_alone):
            input = tensor_for(input, method.__name__)
        if "out" in kwargs:
            out = kwargs.pop("out")
            result = method(input, *args, **kwargs)
            return result if out is None else write_out(result, out)
        return method(input, *args, **kwargs)

    run.__qualname__ = method.__name__
    run.asks = True  # type: ignore[attr-defined]
    return run


def with_out(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function that is no method take `out=` too, as those that are do.

    >>> into = minitorch.zeros(2)
    >>> minitorch.cat([minitorch.ones(1), minitorch.ones(1)], out=into) is into, into
    (True, tensor([1., 1.]))
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if asked and (those := givers(args, kwargs)):
            return ask(run, those, args, kwargs)
        if "out" in kwargs:
            out = kwargs.pop("out")
            result = function(*args, **kwargs)
            return result if out is None else write_out(result, out)
        return function(*args, **kwargs)

    run.asks = True  # type: ignore[attr-defined]
    return run


def write_out(result: Any, out: Any) -> Any:
    """Write a result into a tensor, or several into several, as `out=` asks; return those."""
    if isinstance(out, (tuple, list)):
        written = [write_out(each, into) for each, into in zip(result, out, strict=True)]
        return type(result)(*written) if hasattr(result, "_fields") else type(result)(written)
    if result._requires_grad or out._requires_grad:
        raise RuntimeError(
            "out=: what is written there has no graph, and an argument requires grad; leave out= away, or write it "
            "under no_grad()"
        )
    if out._data.shape != result._data.shape:
        out.resize_(result._data.shape)
    if not np.can_cast(result._array.dtype, out._array.dtype, "same_kind"):
        raise RuntimeError(f"out=: a result of {result._array.dtype} cannot be kept in {out._array.dtype}")
    return out.copy_(result)


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
