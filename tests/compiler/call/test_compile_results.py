"""What a user holds of a compiled call (results, gradients, arrays, parameters) is not overwritten by the next call."""

import numpy as np
import pytest

import minitorch as mt
from scenarios import batches, both, parameters, trainer


def test_results_held_are_not_overwritten(compile):
    f = compile(lambda x: {"twice": x * 2, "both": [x + 1, x - 1]})
    big = 40_000  # large results' memory is used again, when nobody holds it
    kept = [f(mt.full((big,), float(i))) for i in range(6)]
    views = [k["twice"][3:5] for k in kept]
    for i in range(6):
        f(mt.full((big,), -1.0))
        assert (kept[i]["twice"].data == 2 * i).all()
        assert (kept[i]["both"][0].data == i + 1).all()
        assert (kept[i]["both"][1].data == i - 1).all()
        assert (views[i].data == 2 * i).all()


def test_arrays_of_results_held_are_not_overwritten(compile):
    f = compile(lambda x: x * 2)
    kept = []
    for i in range(6):
        kept.append(f(mt.full((40_000,), float(i))).data)
        view = kept[-1][10:20]
        del kept[-1]
        kept.append(view)
    assert [float(k[0]) for k in kept] == [2.0 * i for i in range(6)]


def test_gradients_held_are_not_overwritten(compile):
    def scenario(compile):
        step, model, _ = trainer(compile)
        held = []
        for x, y in batches(5):
            step(x, y)
            held.append([p.grad for p in model.parameters()])
        return held

    both(scenario, compile)


def test_parameters_copied_out_stay(compile):
    step, model, _ = trainer(compile)
    first = parameters(model)
    saved = [a.copy() for a in first]
    for x, y in batches(4):
        step(x, y)
    assert all((a == b).all() for a, b in zip(first, saved, strict=True))
    assert not all((a == b).all() for a, b in zip(first, parameters(model), strict=True))


@pytest.mark.parametrize("function", [lambda z: z.real, mt.imag, lambda z: (z.real, z.imag, z * 2)])
def test_parts_of_complex_arguments(compile, function):
    run = compile(lambda z: function(z), fullgraph=True)
    for i in range(3):
        given = [mt.tensor(np.arange(4) * (i + 2 - 3j)).to(mt.complex64).requires_grad_() for _ in range(2)]
        found, wanted = (
            each if isinstance(each, tuple) else (each,) for each in (run(given[0]), function(given[1]))
        )
        for mine, other in zip(found, wanted, strict=True):
            assert mine.dtype == other.dtype
            np.testing.assert_array_equal(mine.detach().numpy(), other.detach().numpy())
            for each in (mine, other):
                each.abs().sum().backward()
        np.testing.assert_allclose(*[each.grad for each in given])
