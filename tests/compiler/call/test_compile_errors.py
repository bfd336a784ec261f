"""A call that fails gives the error of the eager one, and leaves what that leaves."""

import pytest

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from scenarios import arrays, assert_same, batches, parameters, plain


class OwnError(Exception):
    pass


@pytest.mark.parametrize("error", [OwnError, KeyboardInterrupt, "shape", "index"])
@pytest.mark.parametrize("when", [0, 1, 3])
def test_a_failure_leaves_what_eager_leaves(compile, error, when):
    """What was done before an error is done, also to Python's objects; Ctrl-C leaves everything as it was."""

    def make(compile):
        mt.manual_seed(1)
        model = nn.Sequential(
            nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2, bias=False), nn.BatchNorm1d(2)
        )
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        fail, log = [False], []

        @compile
        def step(x, y):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            if error is not KeyboardInterrupt:
                log.append(loss.item())
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
                    list(log),
                ]
            )  # fmt: skip

        return step, state, fail

    data = batches(6)

    def run(compile):
        step, state, fail = make(compile)
        for x, y in data[:when]:
            step(x, y)
        before = state()
        fail[0] = True
        kind = {"shape": RuntimeError, "index": IndexError}.get(error, error)
        with pytest.raises(kind):
            step(*data[3])
        if error is KeyboardInterrupt and compile is not plain:
            assert_same(state(), before)
            return []
        fail[0] = False
        found = [state()]
        return [*found, *[float(step(x, y)) for x, y in data[3:]], state()]

    expected = run(plain)
    found = run(compile)
    if error is not KeyboardInterrupt:
        assert_same(found, expected)


@pytest.mark.parametrize("first", [True, False])
def test_an_index_out_of_range(compile, first):
    """The same error as eager gives, and what eager leaves: the draws, and no gradients."""

    def run(compile):
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

        for _ in range(0 if first else 3):
            step(mt.tensor([1, 2]))
        with pytest.raises(Exception) as found:  # noqa: PT011
            step(mt.tensor([1, 7]))
        left = [table.weight.data.copy(), table.weight.grad, mt.get_rng_state()["bits"]["state"]["pos"]]
        return [type(found.value), str(found.value), arrays(left), step(mt.tensor([3, 4])).item()]

    expected = run(plain)
    assert_same(run(compile), expected)


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
    # (Nothing is drawn before.)
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
