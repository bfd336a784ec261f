"""Numbers that only the program can tell, and that leave the function: x.item(), x.tolist(), and arithmetic on them."""

import math
import pickle

import numpy as np
import pytest

import minitorch as mt
from minitorch import optim
from scenarios import both, mlp, plain


def _training(x, y, model, optimizer):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss.item()


FUNCTIONS = {
    "alone": lambda x: x.sum().item(),
    "int": lambda x: x.argmax().item(),
    "bool": lambda x: (x > 0).all().item(),
    "double": lambda x: x.double().sum().item(),
    "beside a tensor": lambda x: (x * 2, x.sum().item()),
    "in a dict": lambda x: {"loss": x.sum().item(), "mean": [x.mean().item()], "x": x + 1},
    "twice": lambda x: (x.sum().item(), x.sum().item()),
    "tolist": lambda x: x.tolist(),
    "tolist of 0 axes": lambda x: x.sum().tolist(),
    "nested tolist": lambda x: x.reshape(2, 2).tolist(),
    "an element": lambda x: x.data.item(2),
    "sum": lambda x: sum(x.tolist()),
    "arithmetic": lambda x: (x.sum().item() * 2 + 1) / 3 - 2 ** x[0].item(),
    "of two": lambda x: x[0].item() - x[1].item(),
    "accuracy": lambda x: (x > 0).sum().item() / len(x),
    "whole": lambda x: ((x > 0).sum().item() + 7) // 2 % 3,
    "round": lambda x: (
        round(x[0].item(), 2),
        round(x[0].item()),
        math.floor(x[0].item()),
        math.ceil(x[1].item()),
    ),
    "abs": lambda x: abs(-x[0].item()),
    "numpy": lambda x: np.exp(x[0].item()),
    "before a write": lambda x: (x.clone(), x[0].item(), x.add_(1), x[0].item()),
    "float": lambda x: (float(x.sum()), float(x[0]) * 2 + 1, int(x.argmax()), float(x.data.max())),
    "float beside an array": lambda x: x * float(x[0]) + (float(x.sum()) + 1),
    "beside an array": lambda x: x * x[0].item(),
    "arithmetic beside an array": lambda x: x / (x[0].item() * 2 + 1) + x.argmax().item(),
    "a whole number beside an array": lambda x: x.long() * x.argmax().item(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_that_leave(compile, name):
    def scenario(compile):
        f = compile(FUNCTIONS[name])
        results = [f(mt.randn(4) + i) for i in range(4)]
        if compile is not plain:
            assert f.compilations == 1
        return [[str(type(r)), r] for r in results]

    both(scenario, compile)


def test_a_training_step_that_returns_its_loss(compile):
    def scenario(compile):
        model = mlp()
        optimizer = optim.Adam(model.parameters())
        step = compile(_training)
        return [step(mt.randn(5, 3), mt.randn(5, 2), model, optimizer) for _ in range(5)], list(
            model.parameters()
        )

    both(scenario, compile)


def test_a_total_that_is_an_argument(compile):
    def scenario(compile):
        add = compile(lambda total, x: total + x.sum().item())
        total = 0.0
        for _ in range(6):
            total = add(total, mt.randn(3))
        if compile is not plain:
            assert add.compilations <= 2
        return total

    both(scenario, compile)


def test_a_number_that_was_kept_is_a_number_afterwards(compile):
    kept = []

    @compile
    def f(x):
        kept.append(x.sum().item())
        return x

    f(mt.ones(3))
    number = kept[0]
    assert number == 3
    assert number + 1 == 4
    assert f"{number:.1f}" == "3.0"
    assert pickle.loads(pickle.dumps(number)) == 3
    assert {3.0: "three"}[number] == "three"
