"""Gradients of gradients through compiled functions and modules, from outside."""

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn
from scenarios import both, plain

grad = mt.autograd.grad


def test_of_a_function(compile):
    def scenario(compile):
        f = compile(lambda x, w: ((x * w).exp().sum(), (x @ w).tanh()))
        results = []
        for _ in range(4):
            x, w = mt.randn(3, requires_grad=True), mt.randn(3, requires_grad=True)
            total, product = f(x, w)
            first = grad(total * product, [x, w], create_graph=True)
            second = grad((first[0] * first[1]).sum(), [x, w], create_graph=True)
            (second[0] ** 2 + second[1]).sum().backward()
            results.append([total, product, first, second, x.grad, w.grad])
        if compile is not plain:
            assert f.compilations == 1
        return results

    both(scenario, compile)


@pytest.mark.parametrize(
    "layers",
    [
        lambda: [nn.Tanh()],
        lambda: [nn.Dropout(0.5), nn.Tanh()],
        lambda: [nn.BatchNorm1d(4), nn.Softplus()],
        lambda: [nn.LayerNorm(4), nn.GELU()],
    ],
    ids=["plain", "dropout", "batch norm", "layer norm"],
)
def test_a_gradient_penalty_on_a_module(compile, layers):
    def scenario(compile):
        model = nn.Sequential(nn.Linear(3, 4), *layers(), nn.Linear(4, 1))
        critic = compile(model)
        results = []
        for _ in range(4):
            x = mt.randn(5, 3, requires_grad=True)
            slope = grad(critic(x).sum(), x, create_graph=True)[0]
            penalty = ((slope.norm(dim=1) - 1) ** 2).mean()
            penalty.backward()
            results.append([penalty, x.grad, *(p.grad for p in model.parameters() if p.grad is not None)])
            results[-1] += [b.clone() for b in model.buffers()]
            results.append(mt.rand(1))
            model.zero_grad()
        return results

    both(scenario, compile)


def test_with_an_outer_graph_before_and_after(compile):
    def scenario(compile):
        f = compile(lambda x: (x**3).sum(dim=1))
        results = []
        for _ in range(4):
            w = mt.randn(2, 3, requires_grad=True)
            inner = w.sin()
            slope = grad(f(inner).exp().sum(), w, create_graph=True)[0]
            slope.pow(2).sum().backward()
            results.append([slope, w.grad])
        return results

    both(scenario, compile)


def test_hessians(compile):
    def scenario(compile):
        f = compile(lambda x: (x.exp() * x).sum())
        return [mt.func.hessian(f)(mt.randn(3)) for _ in range(3)]

    both(scenario, compile)


def _second(y, x):
    slope = grad(y, x, create_graph=True)[0]
    slope.sum().backward()


@pytest.mark.parametrize("change", ["a write", "behind its back", "a mode", "replaced"])
def test_what_was_changed_since_is_noticed(compile, change):
    layer, shift = nn.Linear(3, 1), mt.ones(1)
    shift_array = shift.numpy()
    layer.flag = True
    f = compile(lambda x: ((layer(x) + shift if layer.flag else x) ** 3).sum())
    for _ in range(3):
        x = mt.randn(2, 3, requires_grad=True)
        y = f(x)
    if change == "a write":
        shift += 1
    elif change == "behind its back":
        shift_array[0] = 7
    elif change == "a mode":
        layer.flag = False
    else:
        shift.data = np.zeros(1, np.float32)
    with pytest.raises(RuntimeError, match="once more as it ran then|changed after the forward"):
        _second(y, x)


def test_what_a_call_changes_and_reads_is_not_repeated(compile):
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2))
    f = compile(layer)
    for _ in range(3):
        x = mt.randn(2, 3, requires_grad=True)
        y = f(x)
    with pytest.raises(RuntimeError, match="spectral_norm"):
        _second((y**2).sum(), x)
