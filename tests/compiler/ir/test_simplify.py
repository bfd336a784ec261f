"""simplify: what is left of a program computes what the program did."""

import numpy as np
import pytest

import minitorch
from compiled import BACKENDS
from minitorch.compiler.ir import builder
from minitorch.compiler.ir.bounds import bounds, order
from minitorch.compiler.ir.program import Program, interpret
from minitorch.compiler.ir.simplify import simplify
from random_ir import RandomProgram, close


def test_simplifying_keeps_the_meaning():
    for seed in range(40):
        made = RandomProgram(seed)
        program = Program(made.inputs, made.outputs)
        want = interpret(program, made.arrays)
        got = interpret(simplify(program), made.arrays)
        for w, g in zip(want, got, strict=True):
            close(np.asarray(g), np.asarray(w), f"seed {seed}", 5, True)


@pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")
def test_places_that_were_found_are_not_looked_at_again():
    x = minitorch.tensor(np.random.default_rng(0).normal(size=(6, 9)).astype(np.float32))
    found = {
        "sort": lambda x: x.sort(1)[0],
        "topk": lambda x: x.topk(3, 1)[0],
        "max": lambda x: x.max(1)[0],
        "argmax": lambda x: x.gather(1, x.argmax(1, keepdim=True)),
        "arange": lambda x: x[minitorch.arange(5), minitorch.arange(5) + 4],
        "turned": lambda x: x.gather(1, 8 - x.argsort(1)),
    }
    for name, function in found.items():
        run = minitorch.compile(function, backend="native")
        run(x)
        np.testing.assert_array_equal(run(x * 2).numpy(), function(x * 2).numpy(), name)
        assert "indices below" not in str(run.explain()), name
    run = minitorch.compile(lambda x: x.gather(1, x.argsort(1) // 2 + 1), backend="native")
    run(x)
    assert "indices below" in str(run.explain())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("places", [lambda x: x.argsort(1) + 1, lambda x: x.argmax(1, keepdim=True) * 9 - 1])
def test_places_that_were_changed_are_looked_at(places, backend):
    x = minitorch.tensor(np.arange(18, dtype=np.float32).reshape(2, 9) % 9)
    run = minitorch.compile(lambda x: x.gather(1, places(x)), backend=backend, verify=False)
    with pytest.raises(IndexError):
        run(x)
    with pytest.raises(IndexError):
        run(x)


def test_bounds_are_those_of_what_a_value_may_hold():
    places = builder.iota(7)
    three = builder.full((7,), 3, "i8")
    known = {
        "add": (3, 9),
        "subtract": (-3, 3),
        "multiply": (0, 18),
        "minimum": (0, 3),
        "maximum": (3, 6),
    }
    for function, expected in known.items():
        assert bounds(builder.map_values(function, places, three)) == expected
    assert bounds(builder.map_values("negative", places)) == (-6, 0)
    assert bounds(builder.cast(places, "u1")) == (0, 6)
    assert (
        bounds(builder.cast(builder.map_values("multiply", places, builder.full((7,), 100, "i8")), "u1"))
        is None
    )
    assert bounds(builder.constant(np.array([4.0]))) is None
    answers = {"less": None, "less_equal": None, "greater": None, "greater_equal": None}
    assert {f: order(f, places, three) for f in answers} == answers
    seven = builder.full((7,), 7, "i8")
    assert [order(f, places, seven) for f in answers] == [True, True, False, False]
    assert [order(f, seven, places) for f in answers] == [False, False, True, True]
