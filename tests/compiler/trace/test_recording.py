"""A recording is seen by its own thread alone, and leaves nothing behind."""

import threading

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn, optim
from minitorch.compiler.trace.recorder import Recording
from minitorch.compiler.trace.traced import Traced
from minitorch.engine import recording
from minitorch.engine.modes import current


def test_other_threads_see_plain_arrays_while_a_function_is_recorded():
    p = mt.ones(2, requires_grad=True)
    seen = {}

    def look():
        seen["data"], seen["recorder"] = type(p._data), recording.recorder()
        seen["product"] = (p * 3).tolist()
        (p * 2).sum().backward()

    def f(x):
        seen["here"] = type(p._data)
        other = threading.Thread(target=look)
        other.start()
        other.join()
        return x * p.detach()

    x = mt.ones(2)
    results, *_ = Recording([x], {}, set()).run(lambda: f(x), lambda r: [r], lambda recorded, found: None)
    assert results.tolist() == [1, 1]
    assert seen == {"here": Traced, "data": np.ndarray, "recorder": None, "product": [3, 3]}
    assert p.grad.tolist() == [2, 2]


def test_nobody_records_after_an_error():
    def f(x):
        raise KeyError("mine")

    mode = current()
    with pytest.raises(KeyError, match="mine"):
        mt.compile(f, backend="numpy")(mt.ones(2))
    assert recording.recorder() is None
    assert not recording.recordings
    assert current() is mode


def test_draws_and_steps_of_schedules_happen_in_a_pause():
    paused = []

    class Pause:
        def __enter__(self):
            paused.append(recording.recorder())

        def __exit__(self, *error):
            paused.append(recording.recorder())

    active = Recording([], {}, set(), Pause)
    results, recorded, more = active.run(
        lambda: mt.rand(3) * 2, lambda r: [r], lambda recorded, found: len(found)
    )
    assert results.shape == (3,)
    assert more == 1
    assert paused == [active, active]
    assert [type(step).__name__ for step in recorded.script] == ["Draw"]


def test_nothing_is_written_if_what_follows_fails():
    p = mt.ones(2)

    def write():
        p.add_(1)
        return p

    def fail(recorded, found):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Recording([], {}, set()).run(write, lambda r: [r], fail)
    assert p.tolist() == [1, 1]


@pytest.mark.parametrize("make", [optim.SGD, optim.AdamW, optim.Adagrad])
def test_optimisers_keep_no_recorded_memory(make):
    p = nn.Parameter(mt.ones(3))
    optimizer = make([p], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()

    compiled = mt.compile(step, backend="numpy")
    for _ in range(3):
        compiled(mt.ones(3))
    assert not any(isinstance(room, Traced) for room in optimizer._scratch.values())
