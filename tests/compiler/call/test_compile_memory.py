"""How much memory a compiled step holds: the parameters, their gradients, one arena, and nothing twice."""

import gc
import sys
import tracemalloc
import types
import weakref

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import minitorch as mt
from minitorch import nn, optim
from minitorch.compiler.backends.llvm.machine import LINKED_TOGETHER, compile_module
from minitorch.compiler.backends.llvm.target import host

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


def test_a_dropped_module_and_its_functions_go():
    """What observing them needs (rewritten code, tables by code) holds nothing that holds them."""

    def run():
        module = types.ModuleType("a_module")
        exec("scale = 2\ndef double(x): return x * scale\ndef f(x): return double(x) + 1", module.__dict__)
        compiled = mt.compile(module.f, backend="numpy")
        assert compiled(mt.ones(2)).tolist() == compiled(mt.ones(2)).tolist() == [3, 3]
        assert compiled.compilations == 1
        return weakref.ref(module.f.__code__), weakref.ref(module.double)

    references = run()
    gc.collect()  # a module's functions and its globals hold each other
    assert [reference() for reference in references] == [None, None]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux how much memory the process has")
def test_dropped_machine_code_gives_its_memory_back():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def load(count):
        for _ in range(count):
            compile_module("define i64 @one() {\n  ret i64 1\n}\n", host(), ["one"])

    load(3 * LINKED_TOGETHER)
    before = resident()
    load(6 * LINKED_TOGETHER)
    assert resident() - before < 3 * LINKED_TOGETHER * 8192  # it kept 8 kB of each
