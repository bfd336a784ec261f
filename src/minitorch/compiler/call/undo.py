"""Leaving everything as it was when a call fails. Enters: what a function can reach. Leaves: a way back."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.compiler.call.guards import Environment
from minitorch.compiler.call.names import describe
from minitorch.compiler.trace.refusal import CompileError
from minitorch.engine import recording
from minitorch.tensor.generator import StreamState


class Before:
    """What a call that fails leaves as it was, beside the Tensors: optimisers' state, schedules, generators.

    A recording keeps what is written to Tensors aside, and a program is refused before it writes.
    """

    def __init__(self, streams: Sequence[Any], environment: Environment | None = None) -> None:
        self._streams = [StreamState(stream) for stream in streams]
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        if environment is None:
            return
        groups = {id(g): g for o in environment.optimizers for g in o.param_groups}
        dicts = [*groups.values(), *map(vars, environment.schedulers)]
        dicts += [o.state for o in environment.optimizers]
        dicts += [values for o in environment.optimizers for values in o.state.values()]
        self._dicts = [(each, dict(each)) for each in dicts]

    def restore(self) -> None:
        """Put everything back."""
        for state in self._streams:
            state.restore()
        for each, content in self._dicts:
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
        if isinstance(array, np.ndarray) and array.flags.writeable and array.tobytes() != content.tobytes():
            array[...] = content
        return array


def foreign_draws(function: Any, environment: Environment) -> Callable[[], None]:
    """Return what refuses draws from Python's and NumPy's generators since now, and undoes them."""

    def states() -> list[Any]:
        own = [
            g.getstate() if isinstance(g, random.Random) else _numpy_state(g) for g in environment.generators
        ]
        return [random.getstate(), _numpy_state(None), *own]

    before = states()

    def check() -> None:
        if _text(states()) != _text(before):
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002
            for generator, state in zip(environment.generators, before[2:], strict=True):
                if isinstance(generator, random.Random):
                    generator.setstate(state)
                elif isinstance(generator, np.random.Generator):
                    generator.bit_generator.state = state
                else:
                    generator.set_state(state)
            raise CompileError(
                f"compile: {describe(function)} draws from Python's or NumPy's own random generator, whose numbers "
                "would be the same at every call; draw by minitorch.rand, randn, randint, or outside the function"
            )

    return check


def _numpy_state(generator: Any) -> Any:
    if generator is None:
        return np.random.get_state()  # noqa: NPY002
    return (
        generator.bit_generator.state if isinstance(generator, np.random.Generator) else generator.get_state()
    )


def _text(state: Any) -> Any:
    if isinstance(state, np.ndarray):
        return state.tobytes()
    if isinstance(state, (list, tuple)):
        return [_text(i) for i in state]
    return {k: _text(v) for k, v in state.items()} if isinstance(state, dict) else state
