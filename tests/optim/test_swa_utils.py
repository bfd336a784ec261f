"""minitorch.optim.swa_utils against torch.optim.swa_utils: averages, schedules, batch statistics, state dicts."""

import numpy as np
import pytest

import minitorch
from minitorch.optim import swa_utils
from pytorch import torch

AVERAGES = {
    "equal": lambda s: {},
    "equal, one by one": lambda s: {"avg_fn": s.get_swa_avg_fn()},
    "fading": lambda s: {"multi_avg_fn": s.get_ema_multi_avg_fn(0.8)},
    "fading, one by one": lambda s: {"avg_fn": s.get_ema_avg_fn(0.8)},
    "with buffers": lambda s: {"multi_avg_fn": s.get_ema_multi_avg_fn(0.8), "use_buffers": True},
    "equal with buffers": lambda s: {"use_buffers": True},
    "by hand": lambda s: {"avg_fn": lambda averaged, current, count: 0.3 * averaged + 0.7 * current},
}


def train(m, how):
    s = m.optim.swa_utils
    m.manual_seed(0)
    x, y = m.randn(24, 5), m.randn(24, 1)
    model = m.nn.Sequential(m.nn.Linear(5, 8), m.nn.BatchNorm1d(8), m.nn.ReLU(), m.nn.Linear(8, 1))
    averaged = s.AveragedModel(model, **how(s))
    optimizer = m.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for i in range(4):
        optimizer.zero_grad()
        m.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        if i:
            averaged.update_parameters(model)
    before = {k: np.array(v.tolist()) for k, v in averaged.state_dict().items()}
    s.update_bn([(x[:12], y), (x[12:], y)], averaged)
    averaged.eval()
    return before, {k: np.array(v.tolist()) for k, v in averaged.state_dict().items()}, averaged(x).tolist()


@pytest.mark.parametrize("how", AVERAGES.values(), ids=AVERAGES)
def test_an_average_equals_pytorch(how):
    for ours, theirs in zip(train(minitorch, how), train(torch, how), strict=True):
        if isinstance(ours, dict):
            assert list(ours) == list(theirs)
            ours, theirs = list(ours.values()), list(theirs.values())
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 4])
def test_the_schedule_equals_pytorch(strategy, epochs):
    rates = []
    for m in (minitorch, torch):
        groups = [{"params": [m.zeros(1, requires_grad=True)], "lr": lr} for lr in (0.5, 0.1)]
        optimizer = m.optim.SGD(groups, lr=0.5)
        first = m.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        schedule = m.optim.swa_utils.SWALR(optimizer, [0.05, 0.2], epochs, strategy)
        seen = []
        for i in range(9):
            optimizer.step()
            (first if i < 3 else schedule).step()
            seen.append([group["lr"] for group in optimizer.param_groups])
        rates.append(seen)
    np.testing.assert_allclose(rates[0], rates[1], rtol=1e-6)


def test_what_is_refused():
    model = minitorch.nn.Linear(1, 1)
    with pytest.raises(ValueError, match="only one"):
        swa_utils.AveragedModel(
            model, avg_fn=swa_utils.get_swa_avg_fn(), multi_avg_fn=swa_utils.get_swa_multi_avg_fn()
        )
    with pytest.raises(ValueError, match="decay"):
        swa_utils.get_ema_avg_fn(1.5)
    optimizer = minitorch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="anneal_strategy"):
        swa_utils.SWALR(optimizer, 0.1, anneal_strategy="exp")
    with pytest.raises(ValueError, match="anneal_epochs"):
        swa_utils.SWALR(optimizer, 0.1, anneal_epochs=-1)
    with pytest.raises(ValueError, match="groups"):
        swa_utils.SWALR(optimizer, [0.1, 0.2])


def test_a_model_without_batch_norm_is_left_alone():
    model = minitorch.nn.Linear(1, 1)
    swa_utils.update_bn([minitorch.ones(2, 1)], model)
    assert model.training
