"""Scenarios for compiled functions: a scenario is written once, with `compile` as its argument, and run twice.

What enters: a function of `compile`. It is called with functions left as they are, and with `minitorch.compile`; results
and the state of the random generator must be the same.
"""

from contextlib import nullcontext

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn, optim
from minitorch.compiler.call.compiled import CompileWarning


def plain(function=None, **options):
    """Take the place of `compile` in the eager run."""
    return plain if function is None else function


def arrays(thing):
    """Return results as plain arrays, in nested lists."""
    if isinstance(thing, (mt.Tensor, np.ndarray)):
        return np.array(thing.data)
    if isinstance(thing, dict):
        return [[k, arrays(v)] for k, v in thing.items()]
    if isinstance(thing, (list, tuple)):
        return [arrays(i) for i in thing]
    return thing


def assert_same(a, b):
    if isinstance(b, np.ndarray):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    elif isinstance(b, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(b, float):
        assert type(a) is type(b)
        assert a == pytest.approx(b, rel=1e-5, nan_ok=True)
    else:
        assert a == b


def run(scenario, compile):
    mt.manual_seed(0)
    results = arrays(scenario(compile))
    state = mt.get_rng_state()
    return (
        results,
        state["bits"]["state"]["key"].tobytes(),
        state["bits"]["state"]["pos"],
        state["next_normal"],
    )


def both(scenario, compile, refused=None):
    """Run a scenario eagerly and compiled: results and the state of the generator must be the same.

    refused: what the warning says with which some of it is run as it is; without, nothing may be.
    """
    expected, *drawn = run(scenario, plain)
    with pytest.warns(CompileWarning, match=refused) if refused else nullcontext():
        found, *drawn_too = run(scenario, compile)
    assert_same(found, expected)
    assert drawn == drawn_too


def mlp():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def trainer(compile, model=None, optimizer=None, **options):
    model = mlp() if model is None else model
    optimizer = optim.SGD(model.parameters(), lr=0.1) if optimizer is None else optimizer(model)

    @compile(**options)
    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, model, optimizer


def batches(count, rows=5):
    return [(mt.randn(rows, 3), mt.randn(rows, 2)) for _ in range(count)]


def parameters(model):
    return [p.data.copy() for p in model.parameters()]


class Holder:
    kind = 1.0

    def __init__(self):
        self.number = 2.0
        self.nested = None
        self.unused = 0
