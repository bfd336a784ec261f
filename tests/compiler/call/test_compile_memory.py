"""How much memory a compiled step holds: the parameters, their gradients, one arena, and nothing twice."""

import tracemalloc

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import minitorch as mt
from minitorch import nn, optim

WIDTH, DEPTH = 256, 6
MATRIX = 4 * WIDTH * WIDTH  # bytes: a layer's weights, and a layer's activations too


def a_step():
    mt.manual_seed(0)
    layers = [layer for _ in range(DEPTH) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model = nn.Sequential(*layers)
    steps = optim.SGD(model.parameters(), lr=0.01)
    x = mt.randn(WIDTH, WIDTH)

    def step(x):
        steps.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        steps.step()
        return loss

    return mt.compile(step), x


def held_by_arrays():
    arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([arrays]).traces)


def test_what_a_step_holds():
    tracemalloc.start()
    try:
        step, x = a_step()
        held = []
        for _ in range(5):
            step(x)
            held.append(held_by_arrays())
    finally:
        tracemalloc.stop()
    (program,) = step.cache.all()
    # One batch, weights, and gradients; biases and what else is small.
    assert held[-1] <= program.runner.report.arena + (1 + 2 * DEPTH) * MATRIX + MATRIX // 2
    assert held[2:] == [held[2]] * 3


def test_a_layers_arrays_go_before_the_next_layers_come():
    """What is kept for the way back, and on it two layers at a time: not the gradients of all layers."""
    step, x = a_step()
    step(x)
    (program,) = step.cache.all()
    assert program.runner.report.arena <= (DEPTH + 3) * MATRIX


def test_the_arena_may_be_discarded_between_runs():
    step, x = a_step()
    other, _ = a_step()
    for _ in range(4):
        step.cache.all()[0].runner.settle() if step.compilations else None
        assert step(x).item() == pytest.approx(other(x).item(), rel=1e-6)
