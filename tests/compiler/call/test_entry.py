"""The generated entry of a program looks at everything that the slower check looks at."""

import functools
import gc
import weakref

import numpy as np
import pytest

import minitorch as mt
from compiled import BACKENDS
from minitorch import nn, optim
from minitorch.compiler.call.compiled import CompileWarning


@pytest.fixture(params=BACKENDS)
def compile(request):
    return functools.partial(mt.compile, backend=request.param)


def test_the_gradient_of_an_argument_that_wants_none(compile):
    f = compile(lambda x: x * 2 if x.grad is None else x * 3)
    x = mt.ones(2)
    assert [f(x).tolist() for _ in range(4)] == [[2, 2]] * 4
    x.grad = np.ones(2, np.float32)
    assert f(x).tolist() == [3, 3]


def test_a_schedule_inside_may_turn_a_decision(compile):
    """Momentum cycles through 0, where SGD leaves its buffer alone: the schedule steps before the optimiser."""

    def train(compile):
        p = nn.Parameter(mt.ones(2))
        optimizer = optim.SGD([p], lr=0.1, momentum=0.5)
        schedule = optim.lr_scheduler.CyclicLR(
            optimizer, 0.1, 0.2, step_size_up=3, base_momentum=0.0, max_momentum=0.9
        )
        optimizer.step()

        def step(x):
            optimizer.zero_grad()
            (p * p * x).sum().backward()
            schedule.step()
            optimizer.step()
            return p * 1

        step = compile(step)
        return [step(mt.ones(2)).tolist() for _ in range(20)]

    np.testing.assert_allclose(train(compile), train(lambda f: f), rtol=1e-5)


def test_a_float_that_is_an_input(compile):
    f = compile(lambda x, n: x * n if n > 1 else x)
    for n in (2.0, 3.0, 4.0, 5.0, 0.5, 6.0, 0.25, 7.0):
        assert f(mt.ones(2), n).tolist() == [n, n] if n > 1 else [1, 1]
    assert f.compilations <= 4, f.cache.reasons


def test_the_same_tensor_twice(compile):
    f = compile(lambda x, y: (x * y, x is y))
    x, y = mt.ones(2), mt.full((2,), 3.0)
    for _ in range(3):
        assert f(x, x)[1]
        assert not f(x, y)[1]
        assert f(y, y)[0].tolist() == [9, 9]


def test_a_function_may_leave_another_mode_than_it_found(compile):
    def f(x):
        mt.set_grad_enabled(False)
        return x * 2

    compiled = compile(f)

    def calls():
        for _ in range(4):
            with mt.enable_grad():
                assert compiled(mt.ones(2)).tolist() == [2, 2]
                assert not mt.is_grad_enabled()

    with pytest.warns(CompileWarning, match="whether gradients are recorded") as told:
        calls()
    assert len(told) == 1
    assert compiled.compilations == 0


def test_the_default_dtype(compile):
    f = compile(lambda x: x + mt.tensor(0.5).to(x.dtype) * mt.tensor([0.1]).numpy().itemsize)
    results = []
    try:
        for dtype in (mt.float32, mt.float32, mt.float32, mt.float64, mt.float32):
            mt.set_default_dtype(dtype)
            results.append(f(mt.zeros(1, dtype=mt.float32)).item())
    finally:
        mt.set_default_dtype(mt.float32)
    assert results == [2, 2, 2, 4, 2]


def a_forward(compile):
    module = nn.Linear(2, 2)
    return module, compile(lambda x: module(x))


def a_step(compile):
    module = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    optimizer = optim.AdamW(module.parameters())

    def step(x):
        optimizer.zero_grad()
        loss = module(x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return module, compile(step)


@pytest.mark.parametrize("make", [a_forward, a_step])
def test_a_dropped_function_is_freed_without_the_garbage_collector(compile, make):
    def run():
        module, function = make(compile)
        for _ in range(4):
            function(mt.ones(1, 2))
        assert function.compilations == 1
        return weakref.ref(module), weakref.ref(function.cache.all()[0])

    gc.collect()
    gc.disable()
    try:
        assert [reference() for reference in run()] == [None, None]
    finally:
        gc.enable()
