"""Compiled functions among eager graphs: gradients from outside, modes, checkpoint, compiled inside compiled."""

from importlib.util import find_spec

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn
from scenarios import batches, both, mlp, trainer


def test_eager_graphs_from_before_notice_the_step(compile):
    step, model, _ = trainer(compile)
    x, y = batches(1)[0]
    for _ in range(3):
        old = (model[2].weight * model[2].weight).sum()
        step(x, y)
        with pytest.raises(RuntimeError, match="changed|modified"):
            old.backward()


def test_gradients_through_a_compiled_module(compile):
    def scenario(compile):
        model = compile(mlp())
        x = mt.randn(5, 3, requires_grad=True)
        results = []
        for _ in range(3):
            loss = (model(x * 2) ** 2).sum()
            loss.backward()
            results.append([x.grad.copy(), *[p.grad.copy() for p in model.parameters()]])
        return results

    both(scenario, compile)


def test_gradients_with_unused_and_integer_outputs(compile):
    def scenario(compile):
        weight = nn.Parameter(mt.arange(6).float().reshape(2, 3))

        @compile
        def f(x):
            y = x * weight
            return y, y.argmax(1), y.sum(), (y * y).detach(), x

        x = mt.ones(2, 3, requires_grad=True)
        results = []
        for _ in range(3):
            y, place, total, square, same = f(x)
            assert same is x
            assert not place.requires_grad
            total.backward(retain_graph=True)
            total.backward(retain_graph=True)
            (y * 3).sum().backward()
            results.append([x.grad.copy(), weight.grad.copy(), place, square])
        return results

    both(scenario, compile)


def test_backward_twice_without_retain_graph_is_refused(compile):
    model = compile(mlp())
    for _ in range(3):
        loss = model(mt.ones(2, 3)).sum()
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


def test_create_graph_inside(compile):
    def scenario(compile):
        @compile
        def f(x):
            (g,) = mt.autograd.grad((x**3).sum(), [x], create_graph=True)
            (h,) = mt.autograd.grad(g.sum(), [x])
            return g.detach(), h

        return [f(mt.ones(3, requires_grad=True) * i) for i in range(3)]

    both(scenario, compile)


def test_a_weight_changed_between_forward_and_backward_is_noticed(compile):
    model = compile(mlp())
    for _ in range(3):
        loss = (model(mt.ones(2, 3)) ** 2).sum()
        with mt.no_grad():
            model[2].weight.mul_(2)
        with pytest.raises(RuntimeError, match="changed|written"):
            loss.backward()


def test_modes(compile):
    def scenario(compile):
        model = mlp()
        f = compile(lambda x: model(x))
        x = mt.ones(2, 3)
        results = []
        for _ in range(2):
            results.append(f(x).requires_grad)
            with mt.no_grad():
                results.append(f(x).requires_grad)
            with mt.inference_mode():
                results.append(f(x).requires_grad)
            with mt.autograd.detect_anomaly():
                results.append(f(x).requires_grad)
        return results

    both(scenario, compile)


def test_inside_checkpoint(compile):
    from minitorch.autograd.checkpoint import checkpoint

    def scenario(compile):
        model = compile(mlp())
        x = mt.ones(2, 3, requires_grad=True)
        results = []
        for _ in range(3):
            checkpoint(model, x, use_reentrant=False).sum().backward()
            results.append(x.grad.copy())
        return results

    both(scenario, compile)


def test_compiled_inside_compiled(compile):
    def scenario(compile):
        model = compile(mlp())
        double = compile(lambda x: x * 2)
        f = compile(lambda x: double(model(double(x))).detach())
        results = [double(mt.ones(2)), f(mt.ones(2, 3)), f(mt.ones(2, 3)), double(mt.ones(2))]
        with mt.no_grad():
            model[0].weight.mul_(2)
        return [*results, f(mt.ones(2, 3)), model(mt.ones(2, 3))]

    both(scenario, compile)


def test_recursion(compile):
    def scenario(compile):
        @compile
        def power(x, n):
            return x if n == 1 else x * power(x, n - 1)

        return [power(mt.ones(2) * 2, n) for n in (3, 3, 5, 1, 3)]

    both(scenario, compile)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_of_halves_from_outside(compile, dtype):
    if dtype == "bfloat16" and find_spec("ml_dtypes") is None:
        pytest.skip("ml_dtypes is not installed")
    x, y, weights = (
        mt.tensor(each).to(getattr(mt, dtype)).requires_grad_()
        for each in np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    )

    def function(x, y):
        return (x * y).exp()

    def gradients(run):
        return mt.autograd.grad((run(x, y) * weights).float().sum(), [x, y])

    compiled = compile(function)
    for _ in range(3):
        for found, expected in zip(gradients(compiled), gradients(function), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found.float().numpy(), expected.float().numpy(), rtol=0.01, atol=0.01)
