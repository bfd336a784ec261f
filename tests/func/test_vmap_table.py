"""Every case of the table inside vmap, on all examples at once: the numbers and gradients of one example at a time."""

import numpy as np
import pytest

import minitorch
from cases import floats, is_shared
from minitorch.proof.table import CASES
from tensors import weights

numbered = [pytest.param(case, id=f"{i}-{case.op}") for i, case in enumerate(CASES)]
EXAMPLES = 7  # as long as no other axis in the table
COMPARED = (0, 6)


def batch(case):
    """The inputs of all examples, and for each the axis that counts them, or None."""
    stacked = list(zip(*(case.arrays(trial) for trial in range(20, 20 + EXAMPLES)), strict=True))
    dims = [None if is_shared(case, each[0]) else 0 for each in stacked]
    return [each[0] if d is None else np.stack(each) for each, d in zip(stacked, dims, strict=True)], dims


def tensors_of(arrays, differentiate):
    return [minitorch.tensor(a, requires_grad=differentiate and a.dtype.kind == "f") for a in arrays]


def one(arrays, dims, e):
    return [a if d is None else a[e] for a, d in zip(arrays, dims, strict=True)]


def differentiated(case, inputs):
    """The outputs of a case, and the weighted gradients of its float inputs."""
    outputs = floats(case.call(minitorch, *inputs))
    roots = [o for o in outputs if o.requires_grad]
    wanted = [i for i in inputs if i.requires_grad]
    seeds = [minitorch.tensor(weights(o.shape)).to(o.dtype) for o in roots]
    return outputs, minitorch.autograd.grad(roots, wanted, seeds, materialize_grads=True)


def inside(case):
    def gradients(*xs):
        own = [x.clone().requires_grad_() if x.dtype.kind == "f" else x for x in xs]
        return differentiated(case, own)[1]

    return gradients


def from_outside(case, arrays, dims):
    """Outputs through vmap, and the inputs after backward from the compared examples' outputs."""
    inputs = tensors_of(arrays, case.differentiable)
    outputs = minitorch.vmap(lambda *xs: tuple(floats(case.call(minitorch, *xs))), tuple(dims))(*inputs)
    roots = [o for o in outputs if o.requires_grad]
    seeds = [np.zeros(o.shape, o.dtype) for o in roots]
    for seed in seeds:
        seed[COMPARED, ...] = weights(seed.shape[1:])
    if roots:
        minitorch.autograd.backward(roots, seeds)
    return outputs, inputs


def equal(mine, other):
    assert mine.dtype == other.dtype
    np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("case", numbered)
def test_all_examples_at_once(case):
    arrays, dims = batch(case)
    outputs, inputs = from_outside(case, arrays, dims)
    slopes = (
        minitorch.vmap(inside(case), tuple(dims))(*tensors_of(arrays, False)) if case.differentiable else ()
    )
    for e in COMPARED:
        own = tensors_of(one(arrays, dims, e), case.differentiable)
        alone, gradients = (
            differentiated(case, own) if case.differentiable else (floats(case.call(minitorch, *own)), ())
        )
        for mine, other in zip(outputs, alone, strict=True):
            equal(mine.detach().numpy()[e], other.detach().numpy())
        for mine, other in zip(slopes, gradients, strict=True):
            equal(mine.numpy()[e], other.numpy())
        for mine, other in zip([i for i in inputs if i.requires_grad], gradients, strict=True):
            equal(np.zeros_like(other) if mine.grad is None else np.asarray(mine.grad)[e], other.numpy())


several = [p for p in numbered if p.values[0].differentiable and len(p.values[0].inputs) > 1]


@pytest.mark.parametrize("case", several)
def test_what_all_share_gets_the_sum(case):
    arrays, dims = batch(case)
    for shared in range(len(arrays)):
        if dims[shared] is None:
            continue
        given = [a[0] if i == shared else a for i, a in enumerate(arrays)]
        axes = [None if i == shared else d for i, d in enumerate(dims)]
        if all(d is None for d in axes):
            continue
        outputs, inputs = from_outside(case, given, axes)
        sums = 0
        for e in COMPARED:
            own = tensors_of(one(given, axes, e), True)
            alone, gradients = differentiated(case, own)
            for mine, other in zip(outputs, alone, strict=True):
                equal(mine.detach().numpy()[e], other.detach().numpy())
            found = iter(gradients)
            gradient = [next(found).numpy() if t.requires_grad else 0 for t in own][shared]
            sums = sums + gradient
        if inputs[shared].grad is not None:
            equal(np.asarray(inputs[shared].grad), sums)
