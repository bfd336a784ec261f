"""A layer that is a function of nn.functional. Enters: settings once, then Tensors. Leaves: what the function gives."""

from __future__ import annotations

from typing import Any

from minitorch.nn.module import Module


class FunctionLayer(Module):
    """What layers share that only keep the settings of a function: a subclass names the function and them."""

    _function: Any  # of nn.functional
    _settings: tuple[str, ...] = ()  # the attributes it is given by keyword
    _shown: tuple[str, ...] = ()  # those in the printed form

    def _run(self, *inputs: Any) -> Any:
        """Call the function with the layer's settings."""
        return self._function(*inputs, **{name: getattr(self, name) for name in self._settings})

    def extra_repr(self) -> str:
        """Return the settings."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)


class RankedLayer(FunctionLayer):
    """One that works on the last `rank` axes, with a function for 1, 2 and 3 of them."""

    rank: int
    _functions: tuple[Any, Any, Any]

    @property
    def _function(self) -> Any:
        return self._functions[self.rank - 1]
