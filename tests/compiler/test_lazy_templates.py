"""What ops write down lazily is remembered; what they do besides (look, draw, refuse, write) is done every time."""

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn
from minitorch.autograd import Function
from minitorch.compiler.call.lazy import _programs_of

F = nn.functional


@pytest.fixture(autouse=True)
def templates():
    """Forget what other tests have met."""
    found = _programs_of("numpy", True).templates
    found.clear()
    return found


def lazily(f, *rounds):
    """Return what a function gives of each round's arguments, lazily, and eagerly."""
    given = []
    for args in rounds:
        with mt.lazy(backend="numpy"):
            given.append(f(*args).numpy())
    return given, [f(*args).numpy() for args in rounds]


def assert_same(f, *rounds):
    for found, expected in zip(*lazily(f, *rounds), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_an_op_runs_once_for_each_shape(templates, monkeypatch):
    ran = []
    forward = mt.ops.loss.CROSS_ENTROPY.forward
    monkeypatch.setattr(
        mt.ops.loss.CROSS_ENTROPY,
        "forward",
        lambda *args, **options: (ran.append(1), forward(*args, **options))[1],
    )
    rounds = [(mt.randn(n, 3), mt.randint(0, 3, (n,))) for n in (4, 4, 5, 4, 5)]
    with mt.lazy(backend="numpy") as session:
        found = [F.cross_entropy(x, y).item() for x, y in rounds]
    assert len(ran) == 2
    assert session.compilations == 2
    assert found == pytest.approx([F.cross_entropy(x, y).item() for x, y in rounds], rel=1e-5)
    assert any(template is not None for template in templates.values())


def test_one_array_twice_is_not_two_arrays():
    x, y = mt.randn(3, 4), mt.randn(3, 4)
    assert_same(lambda a, b: (a * b).sum(), (x, x), (x, y), (y, y), (y, x))


def test_numbers_and_attributes_are_told_apart():
    x = mt.randn(3, 4)
    assert_same(lambda a, p: a.softmax(p), (x, 0), (x, 1), (x, 0))
    assert_same(lambda a, p: F.leaky_relu(a, p), (x, 0.1), (x, 0.2), (x, 0.1))
    assert_same(lambda a, p: a.clamp(p, 1.0), (x, 0), (x, 0.0), (x, -0.5))


def test_layouts_are_told_apart():
    x = mt.randn(4, 4)
    rounds = [(x, x), (x, x.t()), (x.t(), x), (x[::2, ::2], x[::2, ::2]), (x, x)]
    assert_same(lambda a, b: F.gelu(a) @ b + a.mean(0), *rounds)


def test_an_index_out_of_range_is_refused_whatever_came_before():
    table = mt.randn(5, 3)

    def rows(index):
        return F.embedding(index, table)

    with mt.lazy(backend="numpy"):
        assert rows(mt.arange(4)).shape == (4, 3)
        assert rows(mt.tensor([0, 1, 2, 4])).numpy().shape == (4, 3)
        with pytest.raises(IndexError):
            rows(mt.tensor([0, 1, 2, 9])).numpy()


def test_targets_are_looked_at_every_time():
    x = mt.randn(2, 3)
    with mt.lazy(backend="numpy"):
        F.cross_entropy(x, mt.tensor([0, 2])).item()
        with pytest.raises(IndexError, match="target 3 is out of range"):
            F.cross_entropy(x, mt.tensor([0, 3]))
        with pytest.raises(IndexError, match="target 7 is out of range"):
            F.cross_entropy(x, mt.tensor([0, 3]) * 2 + 1)


def test_shapes_that_do_not_fit_are_told_at_their_line():
    with mt.lazy(backend="numpy"):
        for _ in range(2):
            assert (mt.ones(2, 3) @ mt.ones(3, 2)).shape == (2, 2)
            with pytest.raises((ValueError, RuntimeError)):
                mt.ones(2, 3) @ mt.ones(2, 3)


def test_random_numbers_are_drawn_every_time_in_their_order():
    def draw():
        x = mt.ones(40)
        return mt.stack(
            [F.dropout(x, 0.5), F.dropout(x, 0.5), mt.rand(40), F.rrelu(mt.randn(40), training=True)]
        )

    mt.manual_seed(5)
    expected = [draw().numpy() for _ in range(3)]
    mt.manual_seed(5)
    with mt.lazy(backend="numpy"):
        found = [draw().numpy() for _ in range(3)]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_function_of_somebodys_own_runs_every_time():
    ran = []

    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            ran.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ran.append("backward")
            return g * 2

    with mt.lazy(backend="numpy"):
        for _ in range(3):
            x = mt.ones(3, requires_grad=True)
            Twice.apply(x).sum().backward()
            assert x.grad.tolist() == [2, 2, 2]
    assert ran == ["forward", "backward"] * 3


def test_writing_into_what_an_op_gave_changes_nothing_else():
    def run(x):
        y = F.linear(x, x)
        z = F.linear(x, x + 1)
        y += 1
        y[0] = 0
        return mt.stack([y, z])

    assert_same(run, (mt.randn(3, 3),), (mt.randn(3, 3),), (mt.randn(3, 3),))


def test_training_compiles_once_and_gives_eagers_numbers():
    def train(rounds):
        mt.manual_seed(2)
        model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 3))
        optimizer = mt.optim.AdamW(model.parameters(), lr=0.01)
        x, y = mt.randn(6, 4), mt.randint(0, 3, (6,))
        for _ in range(rounds):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return [p.detach().numpy().copy() for p in model.parameters()]

    expected = train(6)
    with mt.lazy() as session:
        found = train(6)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)
    assert session.compilations <= 3
