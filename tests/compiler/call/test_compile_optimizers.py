"""Optimisers and schedules under compile: accumulation, step counts, options and learning rates that change."""

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn, optim
from scenarios import batches, both, mlp, parameters, plain, trainer


def test_accumulating_gradients(compile):
    """Without zero_grad inside: whether there is a gradient already makes a difference."""

    def scenario(compile):
        model = mlp()
        f = compile(lambda x: model(x).sum().backward())
        results = []
        for i, (x, _) in enumerate(batches(6)):
            if i in (3, 5):
                model.zero_grad()
            f(x)
            results.append([p.grad.copy() for p in model.parameters()])
        return results

    both(scenario, compile)


def test_an_optimiser_step_alone(compile):
    """A parameter without a gradient is left out, until it has one."""

    def scenario(compile):
        model = mlp()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        f = compile(lambda: optimizer.step())
        results = []
        for i in range(6):
            for j, p in enumerate(model.parameters()):
                p.grad = np.ones(p.shape, np.float32) if (i + j) % 3 else None
            f()
            results.append(parameters(model))
        return results

    both(scenario, compile)


def test_a_new_parameter_group(compile):
    def scenario(compile):
        extra = nn.Linear(2, 2)
        model = mlp()
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        @compile
        def step(x, y):
            optimizer.zero_grad()
            loss = ((extra(model(x)) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        data = batches(6)
        results = [step(*b) for b in data[:3]]
        optimizer.add_param_group({"params": list(extra.parameters()), "lr": 0.5})
        results += [step(*b) for b in data[3:]]
        return [r.detach() for r in results], parameters(model), parameters(extra)

    both(scenario, compile)


OPTIMIZERS = {
    "sgd": lambda m: optim.SGD(m.parameters(), lr=0.1),
    "momentum": lambda m: optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "adam": lambda m: optim.Adam(m.parameters(), lr=0.1),
    "adamw": lambda m: optim.AdamW(m.parameters(), lr=0.1),
    "rmsprop": lambda m: optim.RMSprop(m.parameters(), lr=0.01),
    "adagrad": lambda m: optim.Adagrad(m.parameters(), lr=0.1, lr_decay=0.1),
    "radam": lambda m: optim.RAdam(m.parameters(), lr=0.1),
    "nadam": lambda m: optim.NAdam(m.parameters(), lr=0.1),
    "asgd": lambda m: optim.ASGD(m.parameters(), lr=0.1, lambd=0.1, t0=3, weight_decay=0.1),
    "adafactor": lambda m: optim.Adafactor(m.parameters(), lr=0.5, weight_decay=0.01),
    "muon": lambda m: optim.Muon([p for p in m.parameters() if p.ndim == 2], lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimisers_count_their_steps(compile, name):
    def scenario(compile):
        step, model, optimizer = trainer(compile, optimizer=OPTIMIZERS[name])
        losses = [step(x, y).detach() for x, y in batches(12)]
        return losses, parameters(model), [list(s.values()) for s in optimizer.state.values()]

    both(scenario, compile)


def test_a_learning_rate_changed_by_hand_does_not_compile_anew(compile):
    def scenario(compile):
        step, model, optimizer = trainer(compile, optimizer=lambda m: optim.Adam(m.parameters(), lr=0.1))
        for i, (x, y) in enumerate(batches(10)):
            optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)
            step(x, y)
        if compile is not plain:
            assert step.compilations == 1
        return parameters(model)

    both(scenario, compile)


def test_an_option_that_changes_becomes_an_input(compile):
    def scenario(compile):
        step, model, optimizer = trainer(
            compile, optimizer=lambda m: optim.SGD(m.parameters(), lr=0.1, momentum=0.5, weight_decay=0.1)
        )
        for i, (x, y) in enumerate(batches(12)):
            optimizer.param_groups[0]["momentum"] = 0.5 + i / 100
            optimizer.param_groups[0]["weight_decay"] = 0.1 + i / 100
            step(x, y)
        if compile is not plain:
            assert step.compilations <= 3
        return parameters(model)

    both(scenario, compile)


def test_a_users_own_optimiser_and_its_learning_rate(compile):
    def scenario(compile):
        class Descent(optim.Optimizer):
            def __init__(self, params, lr):
                super().__init__(params, {"lr": lr})
                self.factor = 1.0

            def step(self, closure=None):
                with mt.no_grad():
                    for group in self.param_groups:
                        for p in group["params"]:
                            p.sub_(group["lr"] * self.factor * mt.tensor(p.grad))

        step, model, optimizer = trainer(compile, optimizer=lambda m: Descent(m.parameters(), 0.1))
        data = batches(6)
        for x, y in data[:2]:
            step(x, y)
        optimizer.param_groups[0]["lr"] = 0.5
        for x, y in data[2:4]:
            step(x, y)
        optimizer.factor = 3.0
        for x, y in data[4:]:
            step(x, y)
        return parameters(model)

    both(scenario, compile)


def test_a_learning_rate_looked_at_inside(compile):
    def scenario(compile):
        model = mlp()
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        @compile
        def step(x):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            return optimizer.param_groups[0]["lr"]

        results = []
        for rate in (0.1, 0.1, 0.2, 0.3, 0.3):
            optimizer.param_groups[0]["lr"] = rate
            results.append(step(mt.ones(2, 3)))
        return results

    both(scenario, compile)


def test_a_learning_rate_set_inside(compile):
    def scenario(compile):
        model = mlp()
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        @compile
        def step(x):
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * 0.5
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        for _ in range(6):
            step(mt.ones(2, 3))
        return parameters(model), optimizer.param_groups[0]["lr"]

    both(scenario, compile)


SCHEDULES = {
    "step": lambda o: optim.lr_scheduler.StepLR(o, 2),
    "multistep": lambda o: optim.lr_scheduler.MultiStepLR(o, [2, 4]),
    "exponential": lambda o: optim.lr_scheduler.ExponentialLR(o, 0.9),
    "cosine": lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 5),
    "linear": lambda o: optim.lr_scheduler.LinearLR(o),
    "lambda": lambda o: optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "onecycle": lambda o: optim.lr_scheduler.OneCycleLR(o, 0.5, total_steps=20),
    "cyclic": lambda o: optim.lr_scheduler.CyclicLR(o, 0.1, 0.5, step_size_up=3, cycle_momentum=False),
    "warm": lambda o: optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "polynomial": lambda o: optim.lr_scheduler.PolynomialLR(o, 8),
    "constant": lambda o: optim.lr_scheduler.ConstantLR(o, 0.5, 3),
    "multiplicative": lambda o: optim.lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.95),
    "sequential": lambda o: optim.lr_scheduler.SequentialLR(
        o, [optim.lr_scheduler.ConstantLR(o, 0.5, 2), optim.lr_scheduler.ExponentialLR(o, 0.9)], [3]
    ),
    "chained": lambda o: optim.lr_scheduler.ChainedScheduler(
        [optim.lr_scheduler.ConstantLR(o, 0.5, 2), optim.lr_scheduler.ExponentialLR(o, 0.9)]
    ),
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(compile, name, inside):
    def scenario(compile):
        model = mlp()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        schedule = SCHEDULES[name](optimizer)

        @compile
        def step(x, y):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            if inside:
                schedule.step()
            return loss

        results = []
        for x, y in batches(9):
            step(x, y)
            if not inside:
                schedule.step()
            results.append(schedule.get_last_lr())
        if compile is not plain:
            # One cycle changes the momentum too, which becomes an input at its first change.
            assert step.compilations == (2 if name == "onecycle" and not inside else 1), step.cache.reasons
        return results, parameters(model)

    both(scenario, compile)


def test_plateau_outside(compile):
    def scenario(compile):
        step, model, optimizer = trainer(compile)
        schedule = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
        for x, y in batches(8):
            schedule.step(float(step(x, y)))
        if compile is not plain:
            assert step.compilations == 1
        return parameters(model), optimizer.param_groups[0]["lr"]

    both(scenario, compile)
