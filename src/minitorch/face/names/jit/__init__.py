"""torch.jit: PyTorch's other compiler. Enters: a function or Module. Leaves: the same: Python runs it.

`script` and `trace` promise to compute what the function computes, and the function itself does. Decorators that tell
the script compiler what to leave alone return what they decorate. `save` and `load` of scripted programs are absent.
"""

from __future__ import annotations

import builtins
import contextlib
import typing
from collections.abc import Iterator
from typing import Any, Final

import minitorch

__all__ = ["Final", "annotate", "export", "ignore", "is_scripting", "is_tracing", "script", "trace", "unused"]


class ScriptModule(minitorch.nn.Module):
    """The class of scripted Modules; here a Module stays what it is, so only those that programs derive from it."""


class ScriptFunction:
    """The class of scripted functions, of which there are none."""


RecursiveScriptModule = TopLevelTracedModule = TracedModule = ScriptModule
Attribute = tuple


class TracerWarning(Warning):
    """What tracing would warn by."""


class Error(RuntimeError):
    """What a scripted program would raise."""


def script(obj: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return a function, Module or class as it is.

    >>> script(len) is len
    True
    """
    return obj


def script_if_tracing(fn: Any) -> Any:
    """Return a function as it is: nothing is traced."""
    return fn


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return a function or Module as it is, after one run on the example, so that what fails does so here.

    >>> trace(lambda x: x + 1, minitorch.ones(1))(minitorch.ones(1))
    tensor([2.])
    """
    if example_inputs is not None:
        with minitorch.no_grad():
            given = example_inputs if type(example_inputs) in (tuple, list) else (example_inputs,)
            func(*given)
    return func


def trace_module(mod: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    """Return a Module as it is, after one run of each named method on its example."""
    for name, given in inputs.items():
        trace(getattr(mod, name), given)
    return mod


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Decorate a function that the script compiler shall leave to Python: it stays as it is."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn: Any) -> Any:
    """Return a function as it is."""
    return fn


def export(fn: Any) -> Any:
    """Return a function as it is."""
    return fn


def interface(obj: Any) -> Any:
    """Return a class as it is."""
    return obj


def is_scripting() -> bool:
    """Return False: Python runs everything."""
    return False


def is_tracing() -> bool:
    """Return False: Python runs everything."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return a value, whose type is said for the script compiler."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Tell whether a thing is of a type, as Python says."""
    return builtins.isinstance(obj, typing.get_origin(target_type) or target_type)


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """Return a Module as it is."""
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """Return a Module as it is."""
    return mod


def fork(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function at once; `wait` gives its result."""
    return func(*args, **kwargs)


def wait(future: Any) -> Any:
    """Return what a forked function gave."""
    return future


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Do nothing."""
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """Do nothing."""
    yield


def enable_onednn_fusion(enabled: bool) -> None:
    """Do nothing: there is no such library."""


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Refuse: a scripted program cannot be written."""
    raise NotImplementedError(
        "torch.jit.save: a program cannot be written without Python; write torch.save(model.state_dict(), path), and "
        "make the model again before loading it"
    )


def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Refuse: a scripted program cannot be read."""
    raise NotImplementedError(
        "torch.jit.load: a scripted program cannot be run here; save its state_dict with PyTorch and load that "
        "into the model's own class"
    )
