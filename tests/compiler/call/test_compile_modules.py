"""Modules that change between calls: train and eval, frozen layers, hooks, replaced parts, dtypes, dropout."""

import copy

import numpy as np

import minitorch as mt
from minitorch import nn, optim
from scenarios import batches, both, mlp, parameters, plain, trainer


def test_train_and_eval(compile):
    def scenario(compile):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
        f = compile(lambda x: model(x))
        x, results = mt.randn(6, 3), []
        for mode in (True, True, False, False, True, False):
            model.train(mode)
            results.append(f(x).detach())
        model[2].train()
        return [*results, f(x).detach(), dict(model.state_dict())]

    both(scenario, compile)


def test_compiled_module_train_and_eval(compile):
    def scenario(compile):
        model = compile(nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)))
        x, results = mt.randn(6, 3), []
        for mode in (True, True, False, False, True):
            model.train(mode)
            results.append(model(x).detach())
        return results

    both(scenario, compile)


def test_freezing_a_layer(compile):
    def scenario(compile):
        step, model, _ = trainer(compile)
        data = batches(6)
        for x, y in data[:2]:
            step(x, y)
        model[0].requires_grad_(False)
        model.zero_grad()
        for x, y in data[2:4]:
            step(x, y)
        model[0].weight.requires_grad = True
        for x, y in data[4:]:
            step(x, y)
        return parameters(model)

    both(scenario, compile)


def test_hooks(compile):
    def scenario(compile):
        step, model, optimizer = trainer(compile)
        data = iter(batches(20))
        results = []

        def go():
            step(*next(data))
            step(*next(data))
            results.append(parameters(model))

        go()
        handle = model[0].register_forward_hook(lambda module, args, out: out * 2)
        go()
        handle.remove()
        go()
        handle = model[2].weight.register_hook(lambda g: g * 0.5)
        go()
        handle.remove()
        handle = model[2].weight.register_hook(lambda g: g * 3)
        go()
        handle.remove()
        go()
        handle = optimizer.register_step_pre_hook(lambda o, args, kwargs: None)
        go()
        handle.remove()
        go()
        return results

    both(scenario, compile)


def test_a_part_replaced(compile):
    def scenario(compile):
        model = mlp()
        f = compile(lambda x: model(x))
        x = mt.ones(2, 3)
        results = [f(x)]
        model[1] = nn.Tanh()
        results.append(f(x))
        model[0].weight = nn.Parameter(mt.ones(4, 3))
        results.append(f(x))
        model.add_module("more", nn.Sigmoid())
        results.append(f(x))
        model[0].bias = None
        results.append(f(x))
        return results

    both(scenario, compile)


def test_between_the_calls_parameters_are_used_eagerly(compile):
    def scenario(compile):
        step, model, optimizer = trainer(
            compile, optimizer=lambda m: optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
        )
        data = iter(batches(40))
        results = []

        def go():
            results.extend(step(*next(data)).detach() for _ in range(2))
            results.append(parameters(model))

        go()
        model[0].weight.data += 1
        go()
        model[0].weight.data = np.full((4, 3), 0.5, np.float32)
        go()
        model[0].weight.data = np.asfortranarray(np.full((4, 3), 0.25, np.float32))
        go()
        saved = {k: v.data.copy() * 2 for k, v in model.state_dict().items()}
        model.load_state_dict(saved)
        go()
        state = copy.deepcopy(optimizer.state_dict())
        go()
        optimizer.load_state_dict(state)
        go()
        model[0].weight.grad = None
        go()
        optimizer.zero_grad()
        go()
        with mt.no_grad():
            model[2].bias.mul_(2)
        go()
        ((model(mt.ones(1, 3))) ** 2).sum().backward()  # gradients left over: zero_grad inside forgets them
        go()
        return results

    both(scenario, compile)


def test_to_another_dtype(compile):
    def scenario(compile):
        model = mlp()
        f = compile(lambda x: model(x))
        results = [f(mt.ones(2, 3)), f(mt.ones(2, 3))]
        model.to(mt.float64)
        x = mt.ones(2, 3).double()
        return [*results, f(x), f(x)]

    both(scenario, compile)


def test_dropout_rate_changed_does_not_compile_anew(compile):
    def scenario(compile):
        model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.1))
        f = compile(lambda x: model(x).detach())
        results = []
        for p in (0.1, 0.2, 0.5, 0.7, 0.7):
            model[1].p = p
            results.append(f(mt.ones(4, 3)))
        if compile is not plain:
            assert f.compilations == 1
        model[1].p = 0.0
        results.append(f(mt.ones(4, 3)))
        model[1].p = 1.0
        return [*results, f(mt.ones(4, 3))]

    both(scenario, compile)
