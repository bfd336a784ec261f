"""Whether ops are recorded: no_grad, enable_grad, set_grad_enabled, inference_mode.

The mode lives in a context variable, so threads and async tasks each have their own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Precision(NamedTuple):
    """The dtypes that autocast lets products be computed in, on a CPU and on GPUs; None: as they are."""

    cpu: Any = None
    cuda: Any = None

    def of(self, there: bool) -> Any:
        """Return the dtype for tensors on a GPU, or for those that are not."""
        return self.cuda if there else self.cpu


class Mode(NamedTuple):
    """Whether to record ops, and who else wants to see what is computed."""

    enabled: bool
    observers: tuple[Callable[..., None], ...] = ()  # called with each op: op, inputs, attributes, result
    gradient_check: Callable[..., None] | None = None  # called with each gradient in backward
    precision: Precision | None = None  # what autocast lets products be computed in
    casts: Any = None  # parameters that were cast to it
    recorder: Any = None  # a recording (compiler/trace) that writes down what this thread computes
    level: Any = None  # the innermost vmap (func/batched) that is being computed
    outer: Any = None  # the mode that comes back at the end of a `with` block


USUAL = Mode(True)  # outside every `with` block; short paths know it by `is`, which is quicker than asking it
_mode: ContextVar[Mode] = ContextVar("minitorch_mode", default=USUAL)
current = _mode.get

# What short paths must look out for, as long as there is any of it: a recording (compiler/trace), views whose base was
# written into (versions.py), complex numbers (complex.py), autocast on a GPU, somebody who observes. Nearly always
# nothing.
attention: list[Any] = []
# Filled at the first autocast of this process: from then on, functions that it concerns ask for the mode's precision.
autocasting: list[bool] = []
switch = _mode.set


def with_observers(mode: Mode, *observers: Callable[..., None]) -> Mode:
    """Return a mode in which these, and nobody else, are shown each op."""
    if observers and "observers" not in attention:
        attention.append("observers")
    return mode._replace(observers=observers)


def is_grad_enabled() -> bool:
    """Tell whether ops on tensors that require grad are being recorded."""
    return current().enabled


class ModeSwitch:
    """A context manager and decorator that runs code under another mode.

    The mode to return to is kept in the mode itself, not here: one switch may be used by many threads
    at once, and inside itself.
    """

    def __init__(self, change: Callable[[Mode], Mode]) -> None:
        self._change = change

    def __enter__(self) -> None:
        mode = current()
        switch(self._change(mode)._replace(outer=mode))

    def __exit__(self, *exception: object) -> None:
        switch(current().outer or USUAL)  # none: entered in another context, as an abandoned generator may be

    def _another(self) -> ModeSwitch:
        """Return a switch that does the same."""
        return ModeSwitch(self._change)

    def __call__(self, function: F) -> F:
        """Make a function that always runs under this mode: plain, generator, coroutine or both."""
        # Each call gets its own switch: set_grad_enabled acts where it is made.
        another = self._another
        wrapper: Any
        if inspect.isgeneratorfunction(function):
            # Between two `next` the caller's code runs, and must see the caller's mode.
            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Iterator[Any]:
                generator = observed(function)(*args, **kwargs)
                step, value = generator.send, None
                while True:
                    try:
                        with another():
                            result = step(value)
                    except StopIteration as stop:
                        return stop.value
                    try:
                        step, value = generator.send, (yield result)
                    except GeneratorExit:
                        with another():
                            generator.close()
                        raise
                    except BaseException as error:
                        step, value = generator.throw, error

        elif inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
                generator = function(*args, **kwargs)
                step, value = generator.asend, None
                while True:
                    try:
                        with another():
                            result = await step(value)
                    except StopAsyncIteration:
                        return
                    try:
                        step, value = generator.asend, (yield result)
                    except GeneratorExit:
                        with another():
                            await generator.aclose()
                        raise
                    except BaseException as error:
                        step, value = generator.athrow, error

        elif inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with another():
                    return await function(*args, **kwargs)

        else:

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with another():
                    return observed(function)(*args, **kwargs)

        return wrapper


def observed(function: F) -> F:
    """Return what this library calls in place of a function that a program has given it: in a recording, the same
    function, but observed.

    >>> observed(len) is len
    True
    """
    recorder = current().recorder if attention else None
    return function if recorder is None else recorder.observed(function)


def _recording(enabled: bool) -> Callable[[Mode], Mode]:
    return lambda mode: mode._replace(enabled=enabled)


class no_grad(ModeSwitch):
    """Do not record: results do not require grad.

    >>> import minitorch
    >>> w = minitorch.ones(3, requires_grad=True)
    >>> with minitorch.no_grad():
    ...     (w * 2).requires_grad
    False
    >>> @minitorch.no_grad()
    ... def predict(x):
    ...     return x * w
    >>> predict(2.0).requires_grad
    False
    """

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """Serve as `no_grad()` and, bare, as `@no_grad`."""
        return super().__new__(cls) if function is None else cls()(function)

    def __init__(self, function: None = None) -> None:
        super().__init__(_recording(False))


class enable_grad(ModeSwitch):
    """Record again inside a no_grad block.

    >>> import minitorch
    >>> w = minitorch.ones(3, requires_grad=True)
    >>> with minitorch.no_grad(), minitorch.enable_grad():
    ...     (w * 2).requires_grad
    True
    """

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """Serve as `enable_grad()` and, bare, as `@enable_grad`."""
        return super().__new__(cls) if function is None else cls()(function)

    def __init__(self, function: None = None) -> None:
        super().__init__(_recording(True))


class inference_mode(ModeSwitch):
    """The same as no_grad; `inference_mode(False)` records."""

    def __new__(cls, mode: Any = True) -> Any:
        """Serve as `inference_mode()` and, bare, as `@inference_mode`."""
        return super().__new__(cls) if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__(_recording(not mode))


class set_grad_enabled(ModeSwitch):
    """Switch recording on or off: as a function from now on, as a context manager inside it.

    >>> import minitorch
    >>> with minitorch.set_grad_enabled(False):
    ...     minitorch.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__(_recording(bool(mode)))
        # It acts at once; used as a context manager it goes back to what was before this call.
        self._before = current()
        switch(self._change(self._before))

    def __enter__(self) -> None:
        switch(self._change(current())._replace(outer=self._before))

    def __call__(self, function: F) -> F:
        """Make a function that always runs under this mode, and leave the mode here as it was."""
        switch(self._before)
        return super().__call__(function)
