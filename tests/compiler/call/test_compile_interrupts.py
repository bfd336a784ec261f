"""Ctrl-C at any moment of a call: everything the function does is done, or nothing of it."""

import contextlib
import pickle
import signal
import sys
import threading

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import minitorch as mt
from minitorch import nn, optim
from minitorch.compiler.trace.interrupts import Uninterrupted


class Trainer:
    """A step that changes parameters, gradients, an optimiser's state, and what else is asked for."""

    def __init__(self, backend, delicate):
        mt.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5 if delicate else 0.0), nn.Linear(4, 2))
        self.steps = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.count = 0
        self.losses = []

        def step(x):
            self.steps.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            self.steps.step()
            if delicate:
                self.count += 1
                self.losses.append(loss.detach())
            return loss.detach()

        self.step = step if backend == "eager" else mt.compile(step, backend=backend)

    def state(self):
        """Return everything that a step changes, as one list of arrays."""
        parameters = list(self.model.parameters())
        arrays = [p.detach().numpy().copy() for p in parameters]
        arrays += [np.zeros(0) if p.grad is None else np.array(p.grad) for p in parameters]
        momenta = [self.steps.state[p].get("momentum_buffer") for p in parameters if p in self.steps.state]
        arrays += [np.zeros(0) if m is None else np.array(m) for m in momenta]
        arrays += [np.array(self.count), np.array([loss.item() for loss in self.losses])]
        return [*arrays, np.frombuffer(pickle.dumps(mt.get_rng_state()), np.uint8)]


def same(a, b):
    return len(a) == len(b) and all(
        x.shape == y.shape and np.allclose(x, y, rtol=1e-5, atol=1e-6) for x, y in zip(a, b, strict=True)
    )


def interrupted(trainer, at):
    """Make a step, with Ctrl-C at a line of this library's compiler, by number.

    Return how many lines there were, and which of them store what was computed.
    """
    lines = 0
    storing = []

    def look(frame, event, argument):
        nonlocal lines
        name = frame.f_code.co_filename
        if "compiler/call/" not in name and "compiler/trace/" not in name and "the entry of" not in name:
            return None
        if event == "line":
            lines += 1
            if frame.f_code.co_name in STORES:
                storing.append(lines)
            if lines == at:
                signal.raise_signal(signal.SIGINT)
        return look

    sys.settrace(look)
    try:
        trainer.step(mt.tensor(X))
    finally:
        sys.settrace(None)
    return lines, storing


# Where what was computed is stored for good.
STORES = ("commit", "release", "_settle_changes", "redo", "entry", "_run")


@pytest.fixture(autouse=True)
def usual_handler(monkeypatch):
    # What is raised in a weak reference's callback Python only tells of.
    monkeypatch.setattr(sys, "unraisablehook", lambda told: None)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with (
        np.errstate()
    ):  # (Ctrl-C between a block's last line and its `__exit__` leaves NumPy's as they were inside)
        yield
    signal.signal(signal.SIGINT, before)


X = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
MOMENTS = 12


def moments(lines):
    """Return some of many lines."""
    return [lines[i] for i in np.linspace(0, len(lines) - 1, MOMENTS, dtype=int)]


@pytest.mark.parametrize("delicate", [False, True])
@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("earlier", [0, 1, 4])
def test_all_or_nothing(backend, delicate, earlier):
    """earlier: how many calls were made before the one that is interrupted."""

    def prepared(backend):
        trainer = Trainer(backend, delicate)
        for _ in range(earlier):
            trainer.step(mt.tensor(X))
        return trainer

    eager = prepared("eager")
    before = eager.state()
    eager.step(mt.tensor(X))
    after = eager.state()
    for _ in range(2):  # the second time nothing is done for the first time
        trainer = prepared(backend)
        lines, storing = interrupted(trainer, at=0)
        assert same(trainer.state(), after)
    outcomes = set()
    for at in sorted({*moments(range(1, lines + 1)), *moments(storing)}):
        trainer = prepared(backend)
        with contextlib.suppress(KeyboardInterrupt):
            interrupted(trainer, at)
        state = trainer.state()
        done, undone = same(state, after), same(state, before)
        assert done or undone, f"half done at line {at} of {lines}"
        outcomes.add(done)
        # And what is left can go on.
        trainer.step(mt.tensor(X))
        if undone:
            assert same(trainer.state(), after)
    assert outcomes == {True, False}


def test_ctrl_c_waits_for_the_end_of_a_block():
    done = []
    with pytest.raises(KeyboardInterrupt), Uninterrupted():
        signal.raise_signal(signal.SIGINT)
        done.append(1)
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_and_other_handlers():
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    with Uninterrupted():
        signal.raise_signal(signal.SIGINT)
        assert heard == []
    assert heard == [1]

    def enter():
        with Uninterrupted():
            heard.append(2)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Uninterrupted():
        heard.append(3)
    assert heard == [1, 2, 3]
