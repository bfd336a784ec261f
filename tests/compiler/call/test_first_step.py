"""What an optimiser remembers is made at its first step; the program of that very call finds it there already."""

from __future__ import annotations

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn, optim

OPTIMISERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda p: optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: optim.AdamW(p, lr=0.01, amsgrad=True),
    "NAdam": lambda p: optim.NAdam(p, lr=0.01),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "Rprop": lambda p: optim.Rprop(p, lr=0.01),
    "Adadelta": lambda p: optim.Adadelta(p),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.01),
}


def made(name):
    mt.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    return model, OPTIMISERS[name](model.parameters())


def step_of(model, optimizer, look=lambda optimizer: None):
    def step(x):
        seen = look(optimizer)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss if seen is None else loss * (1.0 + seen)

    return step


def same_state(one, other):
    assert list(one) == list(other)
    for key, value in one.items():
        if isinstance(value, dict):
            same_state(value, other[key])
        else:
            np.testing.assert_allclose(np.asarray(value), np.asarray(other[key]), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_first_call_is_the_program_of_all_calls(name):
    (model, optimizer), (twin, other) = made(name), made(name)
    compiled = mt.compile(step_of(model, optimizer), backend="numpy", fullgraph=True)
    plain = step_of(twin, other)
    for i in range(5):
        x = mt.randn(4, 3)
        np.testing.assert_allclose(compiled(x).data, plain(x).data, rtol=1e-5)
        same_state(optimizer.state_dict()["state"], other.state_dict()["state"])
        assert compiled.compilations == 1, i
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(a.data, b.data, rtol=1e-4, atol=1e-6)


LOOKS = {
    "its length": lambda optimizer: len(optimizer.state),
    "its state_dict": lambda optimizer: len(optimizer.state_dict()["state"]),
    "a parameter in it": lambda optimizer: float(optimizer.param_groups[0]["params"][0] in optimizer.state),
    "one entry": lambda optimizer: len(optimizer.state.get(optimizer.param_groups[0]["params"][0], {})),
}


@pytest.mark.filterwarnings("ignore:.*compile")
@pytest.mark.parametrize("look", LOOKS)
def test_a_function_that_has_seen_no_state_has_seen_none(look):
    (model, optimizer), (twin, other) = made("Adam"), made("Adam")
    compiled = mt.compile(step_of(model, optimizer, LOOKS[look]), backend="numpy")
    plain = step_of(twin, other, LOOKS[look])
    for _ in range(4):
        x = mt.randn(4, 3)
        np.testing.assert_allclose(compiled(x).data, plain(x).data, rtol=1e-5)


@pytest.mark.parametrize("beside", [False, True])
def test_dampening_holds_from_the_second_step_on(beside):
    def run(wrap):
        mt.manual_seed(0)
        p, q = (mt.randn(4).requires_grad_() for _ in range(2))
        groups = [{"params": [p], "dampening": 0.5}, {"params": [q]}]
        optimizer = optim.SGD(groups[: 1 + beside], lr=0.1, momentum=0.9)

        def step(x):
            optimizer.zero_grad()
            (p * q * x).sum().backward()
            optimizer.step()

        step = wrap(step)
        for i in range(4):
            step(mt.full((4,), float(i + 1)))
        return p.data

    np.testing.assert_allclose(run(lambda f: mt.compile(f, backend="numpy")), run(lambda f: f), rtol=1e-6)


def test_a_first_call_that_fails_leaves_what_eager_leaves():
    def run(compile):
        mt.manual_seed(0)
        model, optimizer = made("Adam")
        step = step_of(model, optimizer)

        def fails(x):
            step(x)
            if x.shape[0] == 4:
                raise ValueError("four")

        with pytest.raises(ValueError, match="four"):
            compile(fails)(mt.ones(4, 3))
        assert len(optimizer.state) == len(list(model.parameters()))
        return [p.data for p in model.parameters()]

    for a, b in zip(run(lambda f: mt.compile(f, backend="numpy")), run(lambda f: f), strict=True):
        np.testing.assert_array_equal(a, b)
