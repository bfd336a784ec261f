"""A call that fails gives the error of the eager one, and leaves everything as it was."""

import numpy as np
import pytest

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from scenarios import arrays, assert_same, batches, parameters, plain


class OwnError(Exception):
    pass


@pytest.mark.parametrize("error", [OwnError, KeyboardInterrupt, "shape", "index"])
@pytest.mark.parametrize("when", [0, 1, 3])
def test_a_failure_leaves_everything_as_it_was(compile, error, when):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    fail = [False]

    @compile
    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        if fail[0]:
            if error == "shape":
                mt.ones(2) + mt.ones(3)
            elif error == "index":
                mt.ones(2)[5]
            else:
                raise error("on purpose")
        return loss

    def state():
        return arrays(
            [
                parameters(model), [b.data.copy() for b in model.buffers()], [p.grad for p in model.parameters()],
                [[k, [v.data.copy() for v in s.values()]] for k, s in enumerate(optimizer.state.values())],
                {k: v for k, v in vars(schedule).items() if k != "optimizer"}, optimizer.param_groups[0]["lr"],
                list(mt.get_rng_state()["bits"]["state"]["key"]), mt.get_rng_state()["bits"]["state"]["pos"],
            ]
        )  # fmt: skip

    data = batches(6)
    for x, y in data[:when]:
        step(x, y)
    before = state()
    fail[0] = True
    kind = {"shape": RuntimeError, "index": IndexError}.get(error, error)
    with pytest.raises(kind):
        step(*data[3])
    assert_same(state(), before)
    fail[0] = False
    for x, y in data[3:]:
        assert np.isfinite(float(step(x, y)))


@pytest.mark.parametrize("first", [True, False])
def test_an_index_out_of_range(compile, first):
    """The same error as eager gives, and nothing changed: not even the draws."""

    def make(compile):
        mt.manual_seed(1)
        table = nn.Embedding(5, 3)
        optimizer = optim.SGD(table.parameters(), lr=0.1)

        @compile
        def step(rows):
            noise = mt.rand(3)
            optimizer.zero_grad()
            loss = (table(rows) * noise).sum()
            loss.backward()
            optimizer.step()
            return loss

        return step, table

    eager, _ = make(plain)
    with pytest.raises(Exception) as expected:  # noqa: PT011
        eager(mt.tensor([1, 7]))
    step, table = make(compile)
    if not first:
        for _ in range(3):
            step(mt.tensor([1, 2]))
    before, drawn = table.weight.data.copy(), mt.get_rng_state()["bits"]["state"]
    gradient = None if table.weight.grad is None else table.weight.grad.copy()
    with pytest.raises(type(expected.value)) as found:
        step(mt.tensor([1, 7]))
    assert str(found.value) == str(expected.value)
    assert (table.weight.data == before).all()
    assert (table.weight.grad is None) == (gradient is None)
    if gradient is not None:
        assert (table.weight.grad == gradient).all()
    now = mt.get_rng_state()["bits"]["state"]
    assert now["pos"] == drawn["pos"]
    assert (now["key"] == drawn["key"]).all()
    step(mt.tensor([3, 4]))


def test_a_refused_value(compile):
    f = compile(lambda logits, target: F.cross_entropy(logits, target))
    f(mt.randn(2, 3), mt.tensor([0, 1]))
    f(mt.randn(2, 3), mt.tensor([0, 1]))
    with pytest.raises(Exception) as expected:  # noqa: PT011
        F.cross_entropy(mt.randn(2, 3), mt.tensor([0, 3]))
    with pytest.raises(type(expected.value)) as found:
        f(mt.randn(2, 3), mt.tensor([0, 3]))
    assert str(found.value) == str(expected.value)


def test_probabilities_refused(compile):
    f = compile(lambda p: mt.bernoulli(p))
    f(mt.tensor([0.5]))
    f(mt.tensor([0.5]))
    state = mt.get_rng_state()["bits"]["state"]["pos"]
    with pytest.raises(RuntimeError, match="bernoulli"):
        f(mt.tensor([1.5]))
    assert mt.get_rng_state()["bits"]["state"]["pos"] == state


def test_a_singular_matrix(compile):
    f = compile(lambda a: mt.linalg.inv(a))
    f(mt.eye(3))
    f(mt.eye(3) * 2)
    with pytest.raises(Exception) as expected:  # noqa: PT011
        mt.linalg.inv(mt.zeros(3, 3))
    with pytest.raises(type(expected.value)) as found:
        f(mt.zeros(3, 3))
    assert str(found.value) == str(expected.value)
