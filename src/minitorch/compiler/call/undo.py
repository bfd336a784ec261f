"""Leaving everything as it was when a call fails. Enters: what a function can reach. Leaves: a way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitorch.compiler.call.guards import Environment
from minitorch.engine import recording
from minitorch.engine.gpu import device_of, is_writeable
from minitorch.tensor.generator import StreamState


class Before:
    """What a call that fails leaves as it was, beside the Tensors: optimisers' state, schedules, generators, and other
    objects of this library's (a GradScaler).

    A recording keeps what is written to Tensors aside, and a program is refused before it writes.
    """

    def __init__(self, streams: Sequence[Any], environment: Environment | None = None) -> None:
        self._streams = {id(stream): StreamState(stream) for stream in streams}
        self._dicts: dict[int, tuple[dict[Any, Any], dict[Any, Any]]] = {}
        if environment is not None:
            self.look(environment)

    def look(self, environment: Environment) -> None:
        """Remember what an environment has that is not remembered yet."""
        for stream in environment.streams:
            if id(stream) not in self._streams:
                self._streams[id(stream)] = StreamState(stream)
        groups = {id(g): g for o in environment.optimizers for g in o.param_groups}
        dicts = [*groups.values(), *map(vars, (*environment.schedulers, *environment.objects))]
        dicts += [o.state for o in environment.optimizers]
        dicts += [values for o in environment.optimizers for values in o.state.values()]
        for each in dicts:
            self._dicts.setdefault(id(each), (each, dict(each)))

    def restore(self) -> None:
        """Put everything back."""
        for state in self._streams.values():
            state.restore()
        for each, content in self._dicts.values():
            dict.clear(each)
            dict.update(each, content)
        recording.changed()


class Aside:
    """Copies of Tensors' arrays and gradients, for running a function that is about to fail."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._kept = [
            (t, _Content(t._data), _Content(t._grad), getattr(t, "_grad_is_shared", False)) for t in tensors
        ]

    def restore(self) -> None:
        """Put them back."""
        for tensor, data, gradient, shared in self._kept:
            tensor._data, tensor._grad = data.restored(), gradient.restored()
            tensor._grad_is_shared = shared


class _Content:
    """An array, and a copy of what is in it."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.content: Any = None if array is None else array.copy()

    def restored(self) -> Any:
        """Return the array with its content put back."""
        array, content = self.array, self.content
        if array is None or not is_writeable(array):
            return array
        if device_of(array) is not None or array.tobytes() != content.tobytes():
            array[...] = content
        return array
