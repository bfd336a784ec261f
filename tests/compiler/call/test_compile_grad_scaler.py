"""GradScaler in compiled steps: steps that are left out, scales that grow and shrink, are those of the eager ones."""

import copy

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn, optim
from scenarios import both, mlp, parameters

# What the loss is multiplied by: by what is not finite, and the step is left out.
INF, NAN = float("inf"), float("nan")
FACTORS = (1.0, 2.0, INF, 1.0, 0.5, NAN, INF, 1.0, 1.0, 1.0, 3.0)
OPTIMISERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "dampened": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    "adamw": lambda p: optim.AdamW(p, lr=0.01, amsgrad=True),
    "nadam": lambda p: optim.NAdam(p, lr=0.01),
    "radam": lambda p: optim.RAdam(p, lr=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1),
    "adafactor": lambda p: optim.Adafactor(p, lr=0.1),
}


class Training:
    """A model, its optimisers and a scaler; `seen` holds what a person can see after each step."""

    def __init__(self, *make):
        self.models = [mlp() for _ in make]
        pairs = zip(make, self.models, strict=True)
        self.optimizers = [optimizer(model.parameters()) for optimizer, model in pairs]
        self.scaler = mt.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
        self.seen = []

    def step(self, x, y, factor):
        for optimizer, model in zip(self.optimizers, self.models, strict=True):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            self.scaler.scale(loss * factor).backward()
            if model is self.models[0]:
                self.scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()
        return loss

    def run(self, step, factors=FACTORS):
        rng = np.random.default_rng(0)
        for factor in factors:
            x, y = (mt.tensor(rng.normal(size=(5, n)).astype(np.float32)) for n in (3, 2))
            loss = step(x, y, mt.tensor(factor, dtype=mt.float32))
            self.look(loss.item())
        return self.seen

    def look(self, *more):
        self.seen += [*more, self.scaler.state_dict(), self.scaler.get_scale()]
        self.seen += [parameters(model) for model in self.models]
        gradients = [p.grad for model in self.models for p in model.parameters()]
        self.seen += [None if g is None else mt.as_tensor(g).numpy().copy() for g in gradients]
        self.seen += [copy.deepcopy(optimizer.state_dict()) for optimizer in self.optimizers]


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_step_is_left_out_as_eagerly(name):
    def scenario(compile):
        training = Training(OPTIMISERS[name])
        return training.run(compile(training.step, fullgraph=True))

    both(scenario, mt.compile)


def test_on_every_backend(compile):
    def scenario(compile):
        training = Training(OPTIMISERS["adamw"], OPTIMISERS["momentum"])
        return training.run(compile(training.step, fullgraph=True))

    both(scenario, compile)


def test_it_is_one_program():
    training = Training(OPTIMISERS["adamw"])
    run = mt.compile(training.step, fullgraph=True)
    training.run(run)
    assert run.compilations == 1


@pytest.mark.parametrize("name", ["dampened", "adamw"])
def test_the_first_steps_are_left_out(name):
    """Then an optimiser has no state yet, and gets it at the first step that counts."""

    def scenario(compile):
        training = Training(OPTIMISERS[name])
        return training.run(compile(training.step, fullgraph=True), (INF, NAN, 1.0, 1.0, INF, 2.0))

    both(scenario, mt.compile)


def test_gradients_are_accumulated_in_one_function_and_used_in_another():
    def scenario(compile):
        training = Training(OPTIMISERS["adamw"])
        model, optimizer, scaler = training.models[0], training.optimizers[0], training.scaler

        @compile
        def accumulate(x, y, factor):
            loss = ((model(x) - y) ** 2).mean() / 2
            scaler.scale(loss * factor).backward()
            return loss

        @compile
        def update():
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

        def step(x, y, factor):
            loss = accumulate(x, y, factor) + accumulate(y @ y.T @ x, y, factor)
            gradients = [p.grad.copy() for p in model.parameters()]
            update()
            for p, g in zip(model.parameters(), gradients, strict=True):
                p.grad = g
            training.look()
            optimizer.zero_grad()
            return loss

        for factor in FACTORS:
            step(mt.ones(5, 3), mt.ones(5, 2), mt.tensor(factor))
        return training.seen

    both(scenario, mt.compile)


def test_what_is_changed_outside_counts():
    def scenario(compile):
        training = Training(OPTIMISERS["adamw"])
        scaler, run = training.scaler, compile(training.step, fullgraph=True)
        training.run(run, (1.0, 1.0, INF, 1.0))
        scaler.update(64.0)
        training.run(run, (1.0, INF))
        scaler.set_growth_interval(2)
        scaler.set_growth_factor(4.0)
        scaler.set_backoff_factor(0.25)
        training.run(run, (1.0, 1.0, INF))
        saved = copy.deepcopy(scaler.state_dict())
        training.run(run, (1.0, 1.0))
        scaler.load_state_dict(saved)
        training.run(run, (1.0, 1.0, INF))
        optimizer, model = training.optimizers[0], training.models[0]
        for factor in (1.0, INF):  # unscaled outside
            optimizer.zero_grad()
            scaler.scale(model(mt.ones(2, 3)).sum() * factor).backward()
            scaler.unscale_(optimizer)
            compile(lambda: (scaler.step(optimizer), scaler.update()))()
            training.look()
        return training.seen

    both(scenario, mt.compile)


def test_what_a_scale_is_read_as():
    def scenario(compile):
        scaler = mt.amp.GradScaler("cpu", init_scale=4.0)
        f = compile(lambda x: (scaler.scale(x), scaler.get_scale()))
        seen = [f(mt.ones(2)) for _ in range(3)]
        scaler.update(32.0)
        return [*seen, *(f(mt.ones(2)) for _ in range(3))]

    both(scenario, mt.compile)


class Counting(optim.Optimizer):
    """Descends, and counts its steps in Python."""

    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})
        self.count = 0

    def step(self, closure=None):
        self.count += 1
        for group in self.param_groups:
            for p in group["params"]:
                p.data.sub_(group["lr"] * mt.as_tensor(p.grad))


class Rebinding(Counting):
    """Descends, and gives its parameters other memory."""

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = p.data - 0.1 * p.grad


class Clearing(Counting):
    """Descends, and takes the gradients away."""

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.sub_(group["lr"] * mt.as_tensor(p.grad))
                p.grad = None


class Exchanging(Counting):
    """Descends, and leaves other gradients behind."""

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.sub_(group["lr"] * mt.as_tensor(p.grad))
                p.grad = mt.zeros_like(p)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Counting, "does more than to write"),
        (Rebinding, "other memory"),
        (Clearing, "another gradient or none"),
        (Exchanging, "another gradient or none"),
    ],
)
def test_a_step_that_does_more_than_to_write_is_not_compiled(make, said):
    def scenario(compile):
        training = Training(make)
        seen = training.run(compile(training.step), (1.0, INF, 1.0, 1.0))
        return [*seen, training.optimizers[0].count]

    both(scenario, mt.compile, refused=said)


def test_a_hook_on_the_step_is_called_when_there_is_one():
    def scenario(compile):
        training, calls = Training(OPTIMISERS["sgd"]), []
        training.optimizers[0].register_step_post_hook(lambda *_: calls.append(1))
        return [*training.run(compile(training.step), (1.0, INF, 1.0, INF, INF)), len(calls)]

    both(scenario, mt.compile, refused="in a hook")


def test_an_error_after_unscaling_leaves_the_scaler_as_it_was():
    training = Training(OPTIMISERS["sgd"])
    table = mt.ones(3)

    @mt.compile
    def step(x, places):
        training.scaler.scale(training.models[0](x).sum()).backward()
        training.scaler.unscale_(training.optimizers[0])
        return table[places]

    with pytest.raises(IndexError):
        step(mt.ones(5, 3), mt.tensor([7]))
    assert len(training.scaler._unscaled) == 1  # the function itself has come that far
    training.scaler.step(training.optimizers[0])
    training.scaler.update()
    assert training.scaler.get_scale() == 8.0
