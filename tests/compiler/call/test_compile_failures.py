"""A compiled call that fails leaves what the function itself leaves, in parameters, buffers, gradients, optimisers,
generators; one that is stopped from outside, by Ctrl-C say, leaves everything as it was.

Each function fails for one argument only, and at different places: before it writes, after, or because of what it
wrote. It is called twice on good arguments (the second call runs the program), then on a bad one; and then goes on.
"""

import functools

import numpy as np
import pytest

import minitorch as mt
from compiled import BACKENDS
from minitorch import nn, optim
from minitorch.compiler.ir.program import PRIMITIVES

GOOD, BAD = np.eye(3, dtype=np.float32), np.zeros((3, 3), np.float32)


class Everything:
    """What a call may change, as it is now."""

    def __init__(self, tensors, optimizer=None):
        self.tensors, self.optimizer = tensors, optimizer

    def now(self):
        found = [(np.array(t.data), None if t.grad is None else np.array(t.grad)) for t in self.tensors]
        held = []
        for state in () if self.optimizer is None else self.optimizer.state.values():
            held += [np.array(v.data) if isinstance(v, mt.Tensor) else v for v in state.values()]
        numbers = mt.get_rng_state()
        bits = numbers["bits"]["state"]
        return found, held, bits["key"].tolist(), bits["pos"], numbers["next_normal"]


def same(a, b):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


def nearly_the_same(a, b):
    """But for rounding: a program sums in another order."""
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(nearly_the_same, a, b))
    return np.allclose(a, b, rtol=1e-5, atol=1e-6) if isinstance(a, np.ndarray) else a == b


# --- functions that fail ------------------------------------------------------------------------------------------


def written_before_a_call():
    p = mt.ones(3, 3)

    def f(x):
        p.add_(x)
        return mt.linalg.inv(x)

    return f, Everything([p])


def a_call_reads_what_was_written():
    p = mt.zeros(3, 3)

    def f(x):
        p.mul_(0.0)
        p.add_(x)
        return mt.linalg.inv(p)

    return f, Everything([p])


def two_written_by_calls():
    p, q = mt.ones(3, 3), mt.ones(3, 3)

    def f(x):
        p.copy_(mt.linalg.inv(x + mt.eye(3)))
        q.copy_(mt.linalg.inv(x))
        return p.sum() + q.sum()

    return f, Everything([p, q])


def an_index_that_was_written():
    place, counts = mt.zeros(2, dtype=mt.int64), mt.zeros(4)

    def f(x):
        counts.add_(1.0)
        place.copy_(mt.where(x.sum() > 0, 1, 7) + mt.zeros(2, dtype=mt.int64))
        return counts[place] * x[0, 0]

    return f, Everything([place, counts])


def a_whole_step(optimizer, after):
    def make():
        # (No bias before the norm: its gradient would be 0 but for rounding, which Adam makes a step of ±lr.)
        model = nn.Sequential(
            nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3)
        )
        steps = optimizer(model.parameters())

        def f(x):
            if not after:
                steps.zero_grad()
            out = model(x + mt.eye(3))
            loss = (out**2).mean()
            loss.backward()
            steps.step()
            if after:
                found = mt.linalg.inv(x + 0.0 * model[0].weight[0, 0])
                steps.zero_grad(set_to_none=False)
                return loss + found.sum()
            return loss + mt.linalg.inv(x).sum()

        return f, Everything([*model.parameters(), *model.buffers()], steps)

    return make


def a_gradient_before_a_call():
    w = mt.ones(3, 3, requires_grad=True)

    def f(x):
        w.grad = None
        (w * x).sum().backward()
        return mt.linalg.inv(w.grad)

    return f, Everything([w])


def a_gradient_changed_in_place():
    w = mt.ones(3, 3, requires_grad=True)

    def f(x):
        if w.grad is not None:
            w.grad *= 0.5
        (w * x).sum().backward()
        return mt.linalg.inv(x)

    return f, Everything([w])


MAKERS = [
    written_before_a_call,
    a_call_reads_what_was_written,
    two_written_by_calls,
    an_index_that_was_written,
    a_gradient_before_a_call,
    a_gradient_changed_in_place,
    a_whole_step(functools.partial(optim.SGD, lr=0.1, momentum=0.9), after=False),
    a_whole_step(functools.partial(optim.AdamW, lr=0.1), after=False),
    a_whole_step(functools.partial(optim.AdamW, lr=0.1), after=True),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", MAKERS)
def test_what_the_function_itself_leaves_is_left(make, backend):
    mt.manual_seed(0)
    function, everything = make()
    compiled = mt.compile(function, backend=backend)

    def state_after(call, given):
        mt.manual_seed(1)
        try:
            call(mt.tensor(given))
        except (np.linalg.LinAlgError, IndexError, RuntimeError) as error:
            return everything.now(), str(error)
        return everything.now(), ""

    calls = (GOOD, GOOD, GOOD, GOOD, BAD, GOOD, BAD, GOOD)
    kept = [state_after(compiled, given) for given in calls]
    assert compiled.compilations >= 1, compiled.cache.reasons
    mt.manual_seed(0)
    function, everything = make()
    for (state, error), given in zip(kept, calls, strict=True):
        expected, raised = state_after(function, given)
        assert bool(raised) == (given is BAD)
        assert error == raised
        assert nearly_the_same(state, expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", MAKERS)
def test_the_eager_run_after_it_starts_from_what_was_there(make, backend, monkeypatch):
    """A program may be given up where the function itself goes on: its results must not count a step twice."""
    mt.manual_seed(0)
    function, everything = make()
    compiled = mt.compile(function, backend=backend)
    for _ in range(4):
        compiled(mt.tensor(GOOD))
    mt.manual_seed(1)
    before = everything.now()
    with monkeypatch.context() as patched:
        # The eager run meets no error: it is stopped before it begins.
        patched.setattr(type(compiled), "_refused", lambda *given: "refused")
        assert isinstance(compiled(mt.tensor(BAD)), str)
    assert same(before, everything.now())


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ZeroDivisionError])
@pytest.mark.parametrize("backend", BACKENDS)
def test_any_exception_of_a_call_back(backend, error, monkeypatch):
    mt.manual_seed(0)
    function, everything = a_whole_step(functools.partial(optim.AdamW, lr=0.1), after=False)()
    compiled = mt.compile(function, backend=backend)
    call, fails = PRIMITIVES["call"], []

    def sometimes(*given, **options):
        if fails:
            raise error("stopped")
        return call(*given, **options)

    monkeypatch.setitem(PRIMITIVES, "call", sometimes)
    for _ in range(4):
        compiled(mt.tensor(GOOD))
    before = everything.now()
    fails.append(True)
    with pytest.raises(error):
        compiled(mt.tensor(GOOD))
    assert same(before, everything.now())
    fails.clear()
    compiled(mt.tensor(GOOD))
    assert compiled.compilations == 1
