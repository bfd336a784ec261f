"""Schedules of programs whose sizes vary, carried out to the letter at many sizes by the device of the tests."""

import itertools

import numpy as np
import pytest

from device_backend import Device
from minitorch.compiler.ir.program import interpret
from minitorch.compiler.ir.sizes import Symbol, evaluated
from minitorch.compiler.schedule.memory import Scratch, plan_memory
from random_ir import close
from varying import CASES, arrays_for, fixed, varying

SIZES = ((6, 5), (2, 2), (3, 17), (33, 3))


@pytest.mark.parametrize("name", CASES)
def test_each_primitive_at_many_sizes(name):
    program = varying(CASES[name])
    made = Device().build(program, {})
    assert "failed" not in str(made.report.unfused)
    for n, m in SIZES:
        one = fixed(CASES[name], n, m)
        arrays = arrays_for(one)
        for got, want in zip(made(arrays), interpret(one, arrays), strict=True):
            close(np.asarray(got), np.asarray(want), f"{name} at {n}, {m}", 50)


@pytest.mark.parametrize("seed", range(20))
def test_what_lives_at_the_same_time_lies_apart_at_every_size(seed):
    rng = np.random.default_rng(seed)
    symbols = [Symbol("s0", int(rng.integers(2, 50))), Symbol("s1", int(rng.integers(2, 50)))]
    n, m = (symbol.size for symbol in symbols)
    choices = [n, m, n * m, n * 3 + 1, (n + 7) // 8 * 64, 100, 4000, m * m]
    things = [Scratch(choices[rng.integers(len(choices))]) for _ in range(30)]
    lives = {thing: sorted(rng.integers(0, 12, 2).tolist()) for thing in things}
    steps = [[t for t in things if lives[t][0] <= step <= lives[t][1]] for step in range(12)]
    plan = plan_memory(steps, 64)
    for sizes in ((2, 2), (50, 3), (3, 700), (64, 64)):
        binding = dict(zip(symbols, sizes, strict=True))
        now = plan.at(binding)
        places = {t: (now.offsets[t], now.offsets[t] + evaluated(t.nbytes, binding)) for t in lives}
        for (a, (begin, end)), (c, (start, stop)) in itertools.combinations(places.items(), 2):
            together = lives[a][0] <= lives[c][1] and lives[c][0] <= lives[a][1]
            assert not together or end <= start or stop <= begin
        assert max(end for _, end in places.values()) <= now.size <= now.unshared
