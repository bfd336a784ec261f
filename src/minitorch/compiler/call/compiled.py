"""The front door: `minitorch.compile`.

Enters: a function over Tensors, Modules and optimisers. Leaves: a function that does the same, recorded once for each
key and run as native code from then on (function.py); of a Module, a Module (module.py).
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from minitorch.compiler import backends
from minitorch.compiler.call.function import EAGER, CompiledFunction, CompileWarning, Disagreement
from minitorch.compiler.call.module import CompiledModule
from minitorch.compiler.call.names import describe
from minitorch.compiler.trace.observe.instrument import require_bytecode
from minitorch.compiler.trace.refusal import CompileError
from minitorch.nn.module import Module

# Other spellings of backends, for code written for PyTorch.
_SYNONYMS = {"inductor": "native", "aot_eager": "numpy"}


def compile(
    function: Any = None,
    *,
    backend: str = "native",
    verify: bool = True,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Any:
    """Compile a function over Tensors, Modules and optimisers, or a Module: a forward pass or a whole training step.

    The first call with a new key (shapes, dtypes and Python values of the arguments) runs the function once, observes
    it, and writes down what it computes; later calls run that. Whatever the function has looked at is guarded: when
    some of it changes, the function is recorded anew; learning rates, counters, and numbers that turn out to change are
    inputs instead.

    What the function does to Python's objects (a counter, a list it appends to, print) is done at each call. What
    cannot be written down ahead of its numbers (an if on a Tensor's values, NumPy's random generators) gives one
    warning, and is run as it is. Results are always new arrays, also where the function itself would return a view
    of an argument; and only leaves and arguments get a .grad.

    backend: 'native' (the default); 'unfused' (native, one kernel per operation), 'numpy' (the recorded program run by
        NumPy) and 'eager' (the function itself) are for finding out where something goes wrong. Tensors on a GPU are
        computed there, whatever it is; 'cuda' also takes tensors on the CPU there and back.
    verify: compare each new program with the function itself before it is used, and now and then afterwards.
    fullgraph: raise a CompileError where something cannot be compiled.
    dynamic: whether sizes may vary. None (the default): an axis that has another length at a later call varies from
        then on, and one program serves all its lengths (but 0 and 1). True: all axes, from the first call on. False:
        none; each size has a program of its own.
    disable: return the function as it is. mode and options are accepted for PyTorch's sake.

    >>> import minitorch
    >>> @minitorch.compile(backend="numpy")
    ... def area(radius):
    ...     return minitorch.pi * radius**2
    >>> area(minitorch.tensor([1.0, 2.0]))
    tensor([ 3.1416, 12.5664])
    >>> area(minitorch.tensor([3.0, 4.0])), area.compilations
    (tensor([28.2743, 50.2655]), 1)
    """
    backend = _SYNONYMS.get(backend, backend)
    known = [*backends.names(), EAGER]
    if backend not in known:
        raise ValueError(f"compile: backend must be one of {', '.join(known)}, got {backend!r}")
    if function is None:
        return functools.partial(
            compile, backend=backend, verify=verify, fullgraph=fullgraph, dynamic=dynamic, disable=disable
        )
    if disable:
        return function
    if backend != EAGER:
        made_by = backends.named(backend)
        made_by.require()
        require_bytecode()
        dynamic = dynamic if made_by.sizes_may_vary else False
    if isinstance(function, (staticmethod, classmethod)):
        inside = functools.partial(
            compile, backend=backend, verify=verify, fullgraph=fullgraph, dynamic=dynamic
        )
        return type(function)(inside(function.__func__))
    if isinstance(function, type):
        raise TypeError(
            f"compile: expects a function or a Module, got the class {function.__name__}; compile an instance, or "
            "one of its methods"
        )
    if isinstance(function, Module):
        return CompiledModule(function, backend, verify, fullgraph, dynamic)
    if isinstance(function, CompiledFunction):
        return function
    if not callable(function):
        raise TypeError(f"compile: expects a function or a Module, got {type(function).__name__}")
    inner = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    for is_one, what in (
        (inspect.isgeneratorfunction, "a generator function"),
        (inspect.iscoroutinefunction, "a coroutine function"),
        (inspect.isasyncgenfunction, "an asynchronous generator function"),
    ):
        if is_one(inner) or is_one(type(inner).__call__):
            raise TypeError(
                f"compile: {describe(function)} is {what}, which stops in the middle; compile the function that does "
                "one step, and call it from there"
            )
    return CompiledFunction(function, backend, verify, None, fullgraph, dynamic)


__all__ = ["CompileError", "CompileWarning", "CompiledFunction", "CompiledModule", "Disagreement", "compile"]
