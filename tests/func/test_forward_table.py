"""Every case of the table in forward mode: finite differences, one tangent or several at once, and differentiated."""

import numpy as np
import pytest

import minitorch
from cases import floats
from minitorch.proof.certificate import STEP
from minitorch.proof.table import CASES
from tensors import weights

func = minitorch.func
differentiable = [pytest.param(c, id=f"{i}-{c.op}") for i, c in enumerate(CASES) if c.differentiable]


def setting(case):
    """A function of the float inputs alone, these inputs, and tangents for them."""
    arrays = case.arrays(7)
    chosen = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
    fixed = [minitorch.tensor(a) for a in arrays]

    def function(*values):
        given = list(fixed)
        for i, value in zip(chosen, values, strict=True):
            given[i] = value
        return tuple(o for o in floats(case.call(minitorch, *given)) if o.dtype.kind in "fc")

    rng = np.random.default_rng(3)
    inputs = [minitorch.tensor(arrays[i]) for i in chosen]
    tangents = [minitorch.tensor(rng.integers(-4, 5, size=arrays[i].shape) / 4) for i in chosen]
    return function, inputs, tangents


@pytest.mark.parametrize("case", differentiable)
def test_tangents(case):
    function, inputs, tangents = setting(case)
    values, moved = func.jvp(function, tuple(inputs), tuple(tangents))
    there, back = (
        function(*(x + sign * STEP * t for x, t in zip(inputs, tangents, strict=True))) for sign in (1, -1)
    )
    for value, mine, after, before in zip(values, moved, there, back, strict=True):
        assert mine.shape == value.shape
        assert mine.dtype == value.dtype
        slope = (after.numpy() - before.numpy()) / (2 * STEP)
        np.testing.assert_allclose(mine.numpy(), slope, rtol=1e-5, atol=1e-6)
    # Several tangents at once, and as the same walk gives them from a graph that is kept.
    several = minitorch.vmap(lambda *ts: func.jvp(function, tuple(inputs), ts)[1])(
        *(minitorch.stack([t * 2, t]) for t in tangents)
    )
    for mine, other in zip(several, moved, strict=True):
        np.testing.assert_allclose(mine.numpy()[0], 2 * other.numpy(), rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(mine.numpy()[1], other.numpy(), rtol=1e-9, atol=1e-10)


# A tangent of eigenvectors depends on their phase, and what depends on that has no derivative.
twice = [p for p in differentiable if p.values[0].op != "eig"]


@pytest.mark.parametrize("case", twice)
def test_the_derivative_of_a_tangent(case):
    """Backwards through forwards, and forwards through backwards: the same second derivatives."""
    function, inputs, tangents = setting(case)
    if any(o.dtype.kind == "c" for o in function(*inputs)):
        inner = function
        function = lambda *xs: tuple(abs(o) if o.dtype.kind == "c" else o for o in inner(*xs))
    every = tuple(range(len(inputs)))
    weighted = lambda outputs: sum((o * minitorch.tensor(weights(o.shape))).sum() for o in outputs)
    backwards = func.grad(lambda *xs: weighted(func.jvp(function, xs, tuple(tangents))[1]), every)(*inputs)
    forwards = func.jvp(
        func.grad(lambda *xs: weighted(function(*xs)), every), tuple(inputs), tuple(tangents)
    )[1]
    for mine, other in zip(backwards, forwards, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-6, atol=1e-7)
