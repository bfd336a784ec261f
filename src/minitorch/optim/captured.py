"""An optimiser's numbers inside a CUDA graph. Enters: how they are found for a step. Leaves: numbers, or cells.

A rule's numbers are computed on the host, and some are others at each step: Adam's rate knows how many steps there
were, and a scheduler changes the learning rate. These become cells (engine/capturing.py), which are told before each
replay; the others are a part of the graph, and a replay for which they have changed is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch.engine.capturing import Capture
from minitorch.tensor import Tensor

# The arrays that a rule changes, and its numbers in the next step, by a group's options.
Found = Callable[[dict[str, Any]], tuple[list[Any], tuple[Any, ...]]]
OTHER_RATE = 1.5  # times the learning rate: to see which numbers depend on it


def told_numbers(
    capture: Capture, name: str, state: dict[str, Any], group: dict[str, Any], found: Found
) -> tuple[list[Any], tuple[Any, ...]]:
    """Return what `found` gives, with cells in place of the numbers that may be others at a replay."""
    refusal = RuntimeError(
        f"{name}.step: it has made no step yet, and a graph would begin its state anew at each replay; make a few "
        "steps before the capture, as PyTorch asks for too"
    )
    names = set(state)
    with _tried(state):
        try:
            memory, numbers = found(group)
            others = [found(group)[1], found({**group, "lr": group["lr"] * OTHER_RATE})[1]]
        except KeyError:  # there is none
            raise refusal from None
        if set(state) != names:
            raise refusal
    changing = [i for i, each in enumerate(numbers) if any(other[i] != each for other in others)]
    there, host = capture.cells(len(changing), np.float64)

    def tell() -> None:
        arrays, now = found(group)
        kept = all(now[i] == each for i, each in enumerate(numbers) if i not in changing)
        if not kept or [id(a) for a in arrays] != [id(a) for a in memory]:
            raise RuntimeError(
                f"{name}: its options, its rule or its state are others than when the CUDA graph was captured (a "
                "state that was loaded, say); capture it again"
            )
        host[:] = [now[i] for i in changing]

    capture.before_replay(tell)
    cells = {i: there[place : place + 1].reshape(()) for place, i in enumerate(changing)}
    return memory, tuple(cells.get(i, each) for i, each in enumerate(numbers))


@contextlib.contextmanager
def _tried(state: dict[str, Any]) -> Iterator[None]:
    """Inside, steps are only tried: what they count on the host is put back."""
    before = dict(state)
    counts = {
        name: each._data.copy()
        for name, each in state.items()
        if isinstance(each, Tensor) and each.is_cpu and not each.ndim
    }
    try:
        yield
    finally:
        state.clear()
        state.update(before)
        for name, count in counts.items():
            state[name]._data[...] = count
