"""A layer that is a function of nn.functional. Enters: settings once, then Tensors. Leaves: what the function gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from minitorch.nn.module import Module

NEEDED: Any = inspect.Parameter.empty  # in place of a default: an argument that must be given


class FunctionLayer(Module):
    """What layers share that only keep the settings of a function: a subclass names the function and them.

        class Softplus(FunctionLayer):
            _function = staticmethod(F.softplus)
            _arguments = takes(beta=1.0, threshold=20.0)

    From `_arguments`, each with its default, its constructor is made, which keeps them as attributes.
    """

    _function: Any  # of nn.functional
    _arguments: inspect.Signature  # of the constructor
    _not_kept: tuple[str, ...] = ()  # arguments that only say how others are meant
    _settings: tuple[
        str, ...
    ] = ()  # the attributes the function is given by keyword: all arguments, unless named
    _shown: tuple[str, ...] = ()  # those in the printed form

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "_arguments" in cls.__dict__:
            if "_settings" not in cls.__dict__:
                cls._settings = tuple(
                    n for n in cls._arguments.parameters if n not in ("self", *cls._not_kept)
                )
            cls.__init__ = _constructor(cls._arguments)  # type: ignore[method-assign]

    def _keep(self, **settings: Any) -> None:
        """Keep what the constructor was given; a subclass checks it first."""
        for name, value in settings.items():
            setattr(self, name, value)

    def _run(self, *inputs: Any) -> Any:
        """Call the function with the layer's settings."""
        return self._function(*inputs, **{name: getattr(self, name) for name in self._settings})

    def extra_repr(self) -> str:
        """Return the settings."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)


def takes(_kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD, **defaults: Any) -> inspect.Signature:
    """Return the signature of a constructor with these arguments."""
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Signature([own, *(inspect.Parameter(n, _kind, default=d) for n, d in defaults.items())])


def takes_by_name(**defaults: Any) -> inspect.Signature:
    """Return the signature of a constructor whose arguments are given by keyword alone."""
    return takes(inspect.Parameter.KEYWORD_ONLY, **defaults)


def _constructor(signature: inspect.Signature) -> Callable[..., None]:
    """Make a constructor that keeps what it is given."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            given = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        Module.__init__(self)
        given.apply_defaults()
        self._keep(**{name: given.arguments[name] for name in given.arguments if name != "self"})

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


class RankedLayer(FunctionLayer):
    """One that works on the last `rank` axes, with a function for 1, 2 and 3 of them."""

    rank: int
    _functions: tuple[Any, Any, Any]

    @property
    def _function(self) -> Any:
        return self._functions[self.rank - 1]
