"""Every schedule, rate by rate, beside PyTorch's."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest

import minitorch
from minitorch.optim import lr_scheduler
from pytorch import torch

EPOCHS = 40


def optimizer_of(library, name="SGD", **options):
    options = {"lr": 0.8} | options
    groups = [
        {"params": [library.zeros(1, requires_grad=True)]},
        {"params": [library.zeros(2, requires_grad=True)], "lr": options["lr"] * 0.5},
    ]
    if name == "SGD":
        options = {"momentum": 0.7} | options
    return getattr(library.optim, name)(groups, **options)


class Wave:
    """A function of the epoch that has a state."""

    def __init__(self):
        self.scale = 0.3

    def __call__(self, epoch):
        return 1 + self.scale * math.sin(epoch)


CASES = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 0.95**epoch),
    "lambda per group": lambda s, o: s.LambdaLR(o, [lambda epoch: 1 / (1 + epoch), Wave()]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9 + 0.01 * (epoch % 3)),
    "step": lambda s, o: s.StepLR(o, 7),
    "step gamma": lambda s, o: s.StepLR(o, step_size=1, gamma=0.7),
    "multistep": lambda s, o: s.MultiStepLR(o, [3, 4, 4, 20], gamma=0.5),
    "multistep from 0": lambda s, o: s.MultiStepLR(o, [0, 9]),
    "constant": lambda s, o: s.ConstantLR(o),
    "constant long": lambda s, o: s.ConstantLR(o, factor=0.25, total_iters=17),
    "linear": lambda s, o: s.LinearLR(o),
    "linear down": lambda s, o: s.LinearLR(o, start_factor=1.0, end_factor=0.0, total_iters=25),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9),
    "polynomial": lambda s, o: s.PolynomialLR(o),
    "polynomial power": lambda s, o: s.PolynomialLR(o, total_iters=30, power=2.5),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 10),
    "cosine minimum": lambda s, o: s.CosineAnnealingLR(o, T_max=33, eta_min=0.05),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 6),
    "restarts longer": lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=3, T_mult=2, eta_min=0.01),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.1, 0.9, step_size_up=5),
    "cyclic uneven": lambda s, o: s.CyclicLR(
        o, [0.1, 0.2], [0.9, 0.5], step_size_up=5, step_size_down=2, base_momentum=0.5, max_momentum=0.95
    ),
    "cyclic triangular2": lambda s, o: s.CyclicLR(o, 0.1, 0.9, step_size_up=4, mode="triangular2"),
    "cyclic exp_range": lambda s, o: s.CyclicLR(o, 0.1, 0.9, step_size_up=4, mode="exp_range", gamma=0.95),
    "cyclic own scale": lambda s, o: s.CyclicLR(
        o, 0.1, 0.9, step_size_up=4, scale_fn=lambda x: 1 / x, cycle_momentum=False
    ),
    "cyclic own scale by iteration": lambda s, o: s.CyclicLR(
        o, 0.1, 0.9, step_size_up=4, scale_fn=Wave(), scale_mode="iterations"
    ),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.9, total_steps=EPOCHS),
    "one cycle three phases": lambda s, o: s.OneCycleLR(
        o, [0.9, 0.4], epochs=8, steps_per_epoch=5, three_phase=True, div_factor=10, final_div_factor=100
    ),
    "one cycle linear": lambda s, o: s.OneCycleLR(
        o, 0.9, total_steps=EPOCHS, anneal_strategy="linear", pct_start=0.45, base_momentum=[0.6, 0.7]
    ),
    "one cycle without momentum": lambda s, o: s.OneCycleLR(
        o, 0.9, total_steps=EPOCHS + 3, cycle_momentum=False
    ),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, total_iters=4), s.ExponentialLR(o, 0.9)], [4]
    ),
    "sequential warmup cosine step": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=5), s.CosineAnnealingLR(o, 12), s.StepLR(o, 4, gamma=0.5)], [5, 17]
    ),
    "sequential restarts": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.2, total_iters=6), s.CosineAnnealingWarmRestarts(o, 5, 2)], [6]
    ),
    "sequential multistep": lambda s, o: s.SequentialLR(
        o, [s.LambdaLR(o, lambda e: 0.1 * (e + 1)), s.MultiStepLR(o, [3, 8], gamma=0.3)], [7]
    ),
    "chained": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, total_iters=4), s.ExponentialLR(o, 0.9)]
    ),
    "chained three": lambda s, o: s.ChainedScheduler(
        [s.LinearLR(o, 0.3), s.StepLR(o, 6, 0.5), s.CosineAnnealingLR(o, 50)], optimizer=o
    ),
}
every_schedule = pytest.mark.parametrize("make", CASES.values(), ids=CASES)


def step(optimizer, scheduler):
    optimizer.step()
    scheduler.step()


def record(optimizer, scheduler, epochs):
    seen = []
    for epoch in range(epochs):
        if epoch:
            step(optimizer, scheduler)
        groups = optimizer.param_groups
        momentum = [float(g["betas"][0]) if "betas" in g else float(g["momentum"]) for g in groups]
        rates = [float(g["lr"]) for g in groups]
        assert [float(rate) for rate in scheduler.get_last_lr()] == rates
        seen.append(rates + momentum)
    return np.array(seen)


@every_schedule
@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_rates_equal_pytorchs(make, name):
    ours, theirs = optimizer_of(minitorch, name), optimizer_of(torch, name)
    mine = record(ours, make(lr_scheduler, ours), EPOCHS)
    other = record(theirs, make(torch.optim.lr_scheduler, theirs), EPOCHS)
    np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-14)
    assert len(np.unique(mine[:, 0])) > 1


@every_schedule
def test_resuming_from_state_dicts_changes_nothing(make):
    whole = optimizer_of(minitorch)
    expected = record(whole, make(lr_scheduler, whole), EPOCHS)
    first = optimizer_of(minitorch)
    scheduler = make(lr_scheduler, first)
    record(first, scheduler, 12)
    saved = pickle.loads(pickle.dumps((first.state_dict(), scheduler.state_dict())))
    second = optimizer_of(minitorch)
    resumed = make(lr_scheduler, second)
    kept = copy.deepcopy(saved)
    resumed.load_state_dict(saved[1])
    second.load_state_dict(saved[0])
    assert saved[1].keys() == kept[1].keys()  # loading leaves what it loads from as it was
    second.step()
    np.testing.assert_allclose(record(second, resumed, EPOCHS - 11), expected[11:], rtol=1e-14)


@every_schedule
def test_state_dicts_have_pytorchs_keys(make):
    ours, theirs = optimizer_of(minitorch), optimizer_of(torch)
    mine, other = make(lr_scheduler, ours), make(torch.optim.lr_scheduler, theirs)
    for _ in range(3):
        step(ours, mine)
        step(theirs, other)
    mine, other = mine.state_dict(), other.state_dict()
    pairs = [(mine, other)]
    while pairs:
        a, b = pairs.pop()
        assert a.keys() == b.keys()
        pairs += zip(a.get("_schedulers", []), b.get("_schedulers", []), strict=True)
        for key in a.keys() - {"_schedulers", "lr_lambdas"}:
            if isinstance(a[key], float):
                assert a[key] == pytest.approx(b[key])
            elif key not in ("_last_lr", "_schedule_phases"):
                assert a[key] == b[key]


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
@pytest.mark.parametrize("options", [{}, {"patience": 0, "factor": 0.5}, {"cooldown": 3, "patience": 2}])
@pytest.mark.parametrize("min_lr", [0.05, [0.2, 0.001]])
def test_plateau(mode, threshold_mode, options, min_lr):
    metrics = np.random.default_rng(0).normal(size=60).cumsum() * 0.3 + 5
    options = {"patience": 3, "threshold": 0.01, "min_lr": min_lr} | options
    seen = []
    for library in (minitorch, torch):
        optimizer = optimizer_of(library)
        scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, mode, threshold_mode=threshold_mode, **options
        )
        rates = []
        for i, metric in enumerate(metrics):
            scheduler.step(library.tensor(metric))
            rates.append(scheduler.get_last_lr())
            if i == 30:  # and through a state_dict
                saved = pickle.loads(pickle.dumps(scheduler.state_dict()))
                scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
                scheduler.load_state_dict(saved)
        seen.append((rates, scheduler.state_dict()))
    np.testing.assert_allclose(seen[0][0], seen[1][0], rtol=1e-14)
    assert seen[0][1] == seen[1][1]
    assert len(np.unique(np.array(seen[0][0])[:, 1])) > 1


def test_plateau_notices_new_groups():
    for min_lr in (0.01, [0.01, 0.02]):
        optimizer = optimizer_of(minitorch)
        scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=min_lr)
        optimizer.add_param_group({"params": [minitorch.zeros(1)], "lr": 0.3})
        scheduler.step(1.0)
        if isinstance(min_lr, list):
            with pytest.raises(RuntimeError, match="3 parameter groups"):
                scheduler.step(2.0)
        else:
            scheduler.step(2.0)
            assert scheduler.get_last_lr() == pytest.approx([0.08, 0.04, 0.03])


def test_restarts_at_given_and_fractional_epochs():
    epochs = [0, 0.5, 1.0, 2.9, 3.0, 3.25, 8.9, 9.0, 20.5, 21.0, 2.0, 6.5]
    for multiple in (1, 2, 3):
        seen = []
        for library in (minitorch, torch):
            optimizer = optimizer_of(library)
            scheduler = library.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, multiple, 0.01)
            rates = []
            for epoch in epochs:
                optimizer.step()
                # PyTorch finds the cosine by a logarithm, and at its first epoch rounds into the one before.
                scheduler.step(epoch if multiple == 1 or library is minitorch else epoch + 1e-13)
                rates.append(scheduler.get_last_lr())
            seen.append(rates)
        np.testing.assert_allclose(seen[0], seen[1], rtol=1e-6)
    with pytest.raises(ValueError, match="non-negative"):
        scheduler_of("CosineAnnealingWarmRestarts", T_0=3).step(-1)


def scheduler_of(name, *args, **options):
    return getattr(lr_scheduler, name)(optimizer_of(minitorch), *args, **options)


@pytest.mark.parametrize("key", ["step gamma", "linear", "cosine", "one cycle", "sequential", "chained"])
def test_a_learning_rate_that_is_a_tensor_stays_the_same_tensor(key):
    rate = minitorch.tensor(0.8, dtype=minitorch.float64)
    optimizer = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=rate, momentum=0.7)
    seen = record(optimizer, CASES[key](lr_scheduler, optimizer), 20)
    assert optimizer.param_groups[0]["lr"] is rate
    plain = minitorch.optim.SGD([minitorch.zeros(1, requires_grad=True)], lr=0.8, momentum=0.7)
    np.testing.assert_allclose(seen, record(plain, CASES[key](lr_scheduler, plain), 20), rtol=1e-12)


def test_the_wrong_order_is_noticed_once():
    optimizer = optimizer_of(minitorch)
    optimizer.step()
    scheduler = lr_scheduler.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()
    scheduler.step()
    right = optimizer_of(minitorch)
    scheduler = lr_scheduler.StepLR(right, 2)
    step(right, scheduler)
    scheduler.step()


def test_get_lr_outside_of_step_points_to_get_last_lr():
    for key, make in CASES.items():
        optimizer = optimizer_of(minitorch)
        scheduler = make(lr_scheduler, optimizer)
        if key.startswith(("sequential", "chained")):
            continue
        with pytest.warns(UserWarning, match="get_last_lr"):
            scheduler.get_lr()


def test_step_with_an_epoch_uses_the_closed_form():
    for key in ("step", "multistep", "constant long", "linear", "exponential", "polynomial power", "cosine"):
        seen = []
        for library in (minitorch, torch):
            optimizer = optimizer_of(library)
            scheduler = CASES[key](library.optim.lr_scheduler, optimizer)
            optimizer.step()
            rates = []
            for epoch in (3, 11, 5, 0, 28):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    scheduler.step(epoch)
                assert any("epoch" in str(w.message) and "deprecated" in str(w.message) for w in caught)
                rates.append(scheduler.get_last_lr())
            seen.append(rates)
        np.testing.assert_allclose(seen[0], seen[1], rtol=1e-12, atol=1e-15)


def test_resuming_by_last_epoch():
    for key, make in {
        "step": lambda s, o: s.StepLR(o, 3, last_epoch=6),
        "exponential": lambda s, o: s.ExponentialLR(o, 0.9, last_epoch=6),
        "cosine": lambda s, o: s.CosineAnnealingLR(o, 10, last_epoch=6),
        "linear": lambda s, o: s.LinearLR(o, total_iters=20, last_epoch=6),
        "polynomial": lambda s, o: s.PolynomialLR(o, 30, last_epoch=6),
        "lambda": lambda s, o: s.LambdaLR(o, lambda e: 0.9**e, last_epoch=6),
        "cyclic": lambda s, o: s.CyclicLR(o, 0.1, 0.9, 5, last_epoch=6),
        "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.9, last_epoch=6),
    }.items():
        seen = []
        for library in (minitorch, torch):
            optimizer = optimizer_of(library)
            with pytest.raises(KeyError, match="initial_lr"):
                make(library.optim.lr_scheduler, optimizer)
            for group in optimizer.param_groups:
                group["initial_lr"] = 2.0
            seen.append(record(optimizer, make(library.optim.lr_scheduler, optimizer), 10))
        np.testing.assert_allclose(seen[0], seen[1], rtol=1e-10, err_msg=key)


@pytest.mark.parametrize(
    ("name", "args", "options", "error"),
    [
        ("LambdaLR", ([abs],), {}, ValueError),
        ("LambdaLR", (3,), {}, TypeError),
        ("MultiplicativeLR", (3,), {}, TypeError),
        ("ConstantLR", (1.5,), {}, ValueError),
        ("LinearLR", (0.0,), {}, ValueError),
        ("LinearLR", (0.5, 1.5), {}, ValueError),
        ("CosineAnnealingWarmRestarts", (0,), {}, ValueError),
        ("CosineAnnealingWarmRestarts", (2.5,), {}, ValueError),
        ("CosineAnnealingWarmRestarts", (2, 0), {}, ValueError),
        ("CosineAnnealingWarmRestarts", (2, 1, "0"), {}, ValueError),
        ("CyclicLR", (0.1, 0.9), {"mode": "square"}, ValueError),
        ("CyclicLR", ([0.1], 0.9), {}, ValueError),
        ("OneCycleLR", (0.1,), {}, ValueError),
        ("OneCycleLR", (0.1,), {"epochs": 3}, ValueError),
        ("OneCycleLR", (0.1,), {"epochs": 3, "steps_per_epoch": 0}, ValueError),
        ("OneCycleLR", (0.1, -3), {}, ValueError),
        ("OneCycleLR", (0.1, 10), {"pct_start": 2.0}, ValueError),
        ("OneCycleLR", (0.1, 10), {"anneal_strategy": "square"}, ValueError),
        ("OneCycleLR", ([0.1], 10), {}, ValueError),
        ("ReduceLROnPlateau", ("middle",), {}, ValueError),
        ("ReduceLROnPlateau", (), {"factor": 1.0}, ValueError),
        ("ReduceLROnPlateau", (), {"threshold_mode": "both"}, ValueError),
        ("ReduceLROnPlateau", (), {"min_lr": [0.1]}, ValueError),
        ("SequentialLR", ([], []), {}, ValueError),
    ],
)
def test_bad_arguments(name, args, options, error):
    with pytest.raises(error, match=f"{name}|must have the same length"):
        scheduler_of(name, *args, **options)


def test_what_is_no_optimizer():
    for name, args in [("StepLR", (3,)), ("LambdaLR", (abs,)), ("CyclicLR", (1, 2)), ("OneCycleLR", (1, 2))]:
        with pytest.raises(TypeError, match="not an Optimizer"):
            getattr(lr_scheduler, name)([minitorch.zeros(1)], *args)
    with pytest.raises(TypeError, match="not an Optimizer"):
        lr_scheduler.ReduceLROnPlateau(None)


def test_schedules_of_schedules_refuse_what_does_not_fit():
    optimizer, other = optimizer_of(minitorch), optimizer_of(minitorch)
    fine = lr_scheduler.StepLR(optimizer, 2)
    with pytest.raises(ValueError, match="milestones"):
        lr_scheduler.SequentialLR(optimizer, [fine], [3])
    for wrong, error in [
        (lr_scheduler.StepLR(other, 2), ValueError),
        (lr_scheduler.ReduceLROnPlateau(optimizer), ValueError),
        ("StepLR", TypeError),
    ]:
        with pytest.raises(error, match="index 1"):
            lr_scheduler.SequentialLR(optimizer, [fine, wrong], [3])
        with pytest.raises(error, match="index 1"):
            lr_scheduler.ChainedScheduler([fine, wrong])
    with pytest.raises(ValueError, match="at least one"):
        lr_scheduler.ChainedScheduler([])


def test_a_sequence_within_a_sequence_is_one_long_sequence():
    def flat(o):
        parts = [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.LinearLR(o, 0.5, total_iters=3)]
        return lr_scheduler.SequentialLR(o, [*parts, lr_scheduler.PolynomialLR(o, total_iters=20)], [2, 10])

    def nested_first(o):
        parts = [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.LinearLR(o, 0.5, total_iters=3)]
        inner = lr_scheduler.SequentialLR(o, parts, [2])
        return lr_scheduler.SequentialLR(o, [inner, lr_scheduler.PolynomialLR(o, total_iters=20)], [10])

    def nested_last(o):
        parts = [lr_scheduler.LinearLR(o, 0.5, total_iters=3), lr_scheduler.PolynomialLR(o, total_iters=20)]
        inner = lr_scheduler.SequentialLR(o, parts, [8])
        return lr_scheduler.SequentialLR(o, [lr_scheduler.ConstantLR(o, 0.1, 2), inner], [2])

    seen = []
    for make in (flat, nested_first, nested_last):
        optimizer = optimizer_of(minitorch)
        seen.append(record(optimizer, make(optimizer), EPOCHS))
    np.testing.assert_allclose(seen[0], seen[1], rtol=1e-14)
    np.testing.assert_allclose(seen[0], seen[2], rtol=1e-14)


def test_a_chain_within_a_sequence():
    optimizer = optimizer_of(minitorch)
    chain = lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(optimizer, 0.5, 2), lr_scheduler.ExponentialLR(optimizer, 0.5)]
    )
    whole = lr_scheduler.SequentialLR(optimizer, [lr_scheduler.ConstantLR(optimizer, 0.25, 9), chain], [2])
    rates = record(optimizer, whole, 6)[:, 0]
    np.testing.assert_allclose(rates, [0.2, 0.2, 0.4, 0.2, 0.2, 0.1], rtol=1e-14)


def test_momentum_cannot_be_cycled_where_there_is_none():
    optimizer = optimizer_of(minitorch, "Adagrad")
    for name, args in [("CyclicLR", (0.1, 0.9)), ("OneCycleLR", (0.1, 10))]:
        with pytest.raises(ValueError, match="cycle_momentum=False"):
            getattr(lr_scheduler, name)(optimizer, *args)
        getattr(lr_scheduler, name)(optimizer, *args, cycle_momentum=False)


def test_one_cycle_ends():
    optimizer = optimizer_of(minitorch)
    scheduler = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=3)
    for _ in range(3):
        step(optimizer, scheduler)
    with pytest.raises(ValueError, match="total_steps is 3"):
        step(optimizer, scheduler)


def test_a_scheduler_of_ones_own():
    class Halving(lr_scheduler.LRScheduler):
        def get_lr(self):
            return [base / 2**self.last_epoch for base in self.base_lrs]

    optimizer = optimizer_of(minitorch)
    scheduler = Halving(optimizer)
    step(optimizer, scheduler)
    assert scheduler.get_last_lr() == [0.4, 0.2]
    with pytest.raises(NotImplementedError, match="get_lr"):
        lr_scheduler.LRScheduler(optimizer)
