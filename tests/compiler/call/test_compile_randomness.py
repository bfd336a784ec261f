"""Random numbers in compiled functions: the eager ones, seeded alike; foreign generators are refused."""

import random

import numpy as np
import pytest

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.compiler.call.compiled import CompileError, CompileWarning
from scenarios import both, plain


def test_random_numbers_are_eagers(compile):
    def scenario(compile):
        drop = nn.Dropout(0.3)
        own = mt.Generator().manual_seed(7)

        @compile
        def f(x):
            return [
                drop(x), mt.rand(3), mt.randn(20), mt.randn(3), mt.randint(0, 10, (4,)), mt.bernoulli(mt.full((5,), 0.5)),
                mt.normal(0.0, 1.0, (5,)), mt.rand(2, generator=own), mt.rand_like(x), F.dropout(x, 0.5), x + mt.randn_like(x),
            ]  # fmt: skip

        results = []
        for _ in range(4):
            results.append(f(mt.ones(4, 4)))
            results.append(mt.rand(3))
            results.append(mt.randn(1))
        return results, mt.rand(2, generator=own)

    both(scenario, compile)


def test_seeding_inside(compile):
    def scenario(compile):
        own = mt.Generator()

        @compile
        def f(x):
            mt.manual_seed(3)
            own.manual_seed(4)
            return x + mt.rand(3) + mt.rand(3, generator=own)

        @compile
        def g(x):
            state = mt.get_rng_state()
            y = mt.rand(3)
            mt.set_rng_state(state)
            return x + y

        results = [f(mt.zeros(3)) for _ in range(5)], [g(mt.zeros(3)) for _ in range(5)]
        if compile is not plain:
            assert (f.compilations, g.compilations) == (1, 0)
        return results

    both(scenario, compile, refused="the state of a random generator")


def test_seeding_between_calls(compile):
    f = compile(lambda x: x + mt.rand(3))
    outs = []
    for _ in range(3):
        mt.manual_seed(3)
        outs.append(f(mt.zeros(3)).tolist())
    assert outs[0] == outs[1] == outs[2]
    assert f(mt.zeros(3)).tolist() != outs[0]


@pytest.mark.parametrize(
    "draw",
    [lambda: np.random.rand(), lambda: random.random(), lambda: RNG.normal(), lambda: OWN.random()],
    ids=["numpy", "python", "generator", "Random"],
)
def test_foreign_random_numbers_are_refused(compile, draw):
    weight = mt.ones(2)

    def f(x):
        weight.add_(1)
        return x * draw()

    def state():
        return np.random.get_state()[1].tobytes(), random.getstate(), RNG.bit_generator.state, OWN.getstate()

    before = state()
    with pytest.raises(CompileError, match="random generator"):
        compile(f, fullgraph=True)(mt.ones(2))
    assert before == state()
    assert weight.tolist() == [1, 1]
    compiled = compile(f)
    with pytest.warns(CompileWarning, match="random generator") as told:
        results = [compiled(mt.ones(2)).tolist() for _ in range(3)]
    assert len(told) == 1
    assert results[0] != results[1] != results[2]
    assert weight.tolist() == [4, 4]


RNG = np.random.default_rng(0)
OWN = random.Random(0)


def test_numbers_are_drawn_in_the_order_of_memory(compile):
    def scenario(compile):
        @compile
        def f(x):
            y = x.transpose(0, 1)
            filled = mt.empty(5, 4).t()
            filled.normal_()
            return [
                F.dropout(y, 0.4),
                mt.randn_like(y * 2),
                filled,
                mt.rand_like(y.clone()),
                F.dropout(y.softmax(-1), 0.5),
            ]

        mt.manual_seed(4)
        layouts = (
            mt.ones(4, 5, 3),
            mt.ones(3, 5, 4).permute(2, 1, 0),
            mt.ones(5, 3, 4).permute(2, 0, 1),
            mt.ones(4, 5, 6)[..., ::2],
        )
        return [f(x) for x in layouts for _ in range(2)]

    both(scenario, compile)
