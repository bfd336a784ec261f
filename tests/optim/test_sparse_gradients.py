"""Embeddings with sparse gradients, and the optimisers that take them, step by step beside PyTorch's."""

import numpy as np
import pytest

import minitorch
from minitorch.compiler.call.compiled import CompileWarning
from pytorch import torch

# (PyTorch's own, about its sparse tensors.)
pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")

TABLE = np.random.default_rng(0).normal(size=(6, 3))
WORDS = [[[0, 2], [2, 5]], [[1, 1], [0, 4]], [[5, 5], [5, 5]], [[3, 0], [2, 1]]]


def embedded(m, weight, words, **options):
    return m.nn.functional.embedding(m.tensor(words), weight, sparse=True, **options)


def bagged(m, weight, words, mode="mean", **options):
    return m.nn.functional.embedding_bag(m.tensor(words), weight, mode=mode, sparse=True, **options)


def gradient(m, x):
    g = x.grad
    assert g.is_sparse
    return [g._indices().numpy(), g._values().numpy(), g.to_dense().numpy()]


@pytest.mark.parametrize(
    "look_up",
    [
        embedded,
        lambda *a: embedded(*a, padding_idx=2),
        lambda *a: embedded(*a, max_norm=1.0),
        bagged,
        lambda *a: bagged(*a, mode="sum"),
        lambda m, w, x: bagged(
            m, w, x, mode="sum", per_sample_weights=m.tensor([[1.0, 2.0], [3.0, 4.0]]).double()
        ),
    ],
)
def test_the_gradient_names_the_rows(look_up):
    found = []
    for m in (minitorch, torch):
        weight = m.tensor(TABLE, requires_grad=True)
        (look_up(m, weight, WORDS[0]) ** 2).sum().backward()
        once = gradient(m, weight)
        (look_up(m, weight, WORDS[0]) ** 3).sum().backward()
        (look_up(m, weight, WORDS[1]) ** 2).sum().backward()
        found.append([*once, gradient(m, weight)[-1]])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_it_meets_dense_gradients():
    """Of a tied table: the rows by look-up, all of it by the product."""
    found = []
    for m in (minitorch, torch):
        weight = m.tensor(TABLE, requires_grad=True)
        hidden = embedded(m, weight, WORDS[0]).tanh()
        (hidden @ weight.t()).logsumexp(-1).sum().backward()
        assert not getattr(weight.grad, "is_sparse", False)
        first = m.as_tensor(weight.grad).numpy().copy()
        embedded(m, weight, WORDS[1]).sum().backward()  # and on top of what is there
        found.append([first, m.as_tensor(weight.grad).to_dense().numpy()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.3, "maximize": True}),
    ("SparseAdam", {}),
    ("SparseAdam", {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3, "maximize": True}),
]


def train(m, name, options, steps=8):
    weight = m.tensor(TABLE, requires_grad=True)
    optimizer = getattr(m.optim, name)([weight], **options)
    for i in range(steps):
        optimizer.zero_grad()
        (embedded(m, weight, WORDS[i % 4]) - 1).tanh().sum().backward()
        optimizer.step()
    return weight, optimizer


@pytest.mark.parametrize(("name", "options"), CASES)
def test_eight_steps_equal_pytorch(name, options):
    ours, theirs = (train(m, name, options) for m in (minitorch, torch))
    np.testing.assert_allclose(ours[0].detach().numpy(), theirs[0].detach().numpy(), rtol=1e-12)
    mine, expected = (optimizer.state_dict() for _, optimizer in (ours, theirs))
    assert mine["param_groups"] == expected["param_groups"]
    assert mine["state"].keys() == expected["state"].keys()
    for key, value in expected["state"].get(0, {}).items():
        held = mine["state"][0][key]
        assert type(held) is type(value) or getattr(held, "is_sparse", None) == value.is_sparse
        if hasattr(value, "to_dense"):
            np.testing.assert_allclose(held.to_dense().numpy(), value.to_dense().numpy(), rtol=1e-6)
        else:
            assert held == value


def test_a_row_that_is_not_named_stays():
    weight, _ = train(minitorch, "SparseAdam", {"lr": 0.1}, steps=1)
    changed = (weight.detach().numpy() != TABLE).any(axis=1)
    assert changed.tolist() == [True, False, True, False, False, True]


@pytest.mark.parametrize(
    "name", ["Adam", "AdamW", "RMSprop", "Adamax", "NAdam", "RAdam", "Rprop", "Adadelta", "ASGD"]
)
def test_the_others_refuse(name):
    for m in (minitorch, torch):
        with pytest.raises(RuntimeError, match="sparse"):
            train(m, name, {}, steps=1)


def test_what_does_not_go_together():
    for m in (minitorch, torch):
        for name in ("SGD", "Adagrad"):
            with pytest.raises(RuntimeError):
                train(m, name, {"lr": 0.1, "weight_decay": 0.1}, steps=1)
        weight = m.tensor(TABLE, requires_grad=True)
        weight.sum().backward()
        with pytest.raises(RuntimeError, match="dense gradients"):
            m.optim.SparseAdam([weight]).step()
        with pytest.raises(RuntimeError, match="scale_grad_by_freq"):
            embedded(m, weight, WORDS[0], scale_grad_by_freq=True).sum().backward()
        with pytest.raises((RuntimeError, NotImplementedError, ValueError)):
            bagged(m, weight, WORDS[0], mode="max").sum().backward()


def test_layers_clipping_and_zeroing():
    found = []
    for m in (minitorch, torch):
        m.manual_seed(0)
        table, bag = m.nn.Embedding(6, 3, sparse=True, padding_idx=0), m.nn.EmbeddingBag(6, 3, sparse=True)
        words = m.tensor(WORDS[0])
        loss = table(words).sum(dim=1).mul(bag(words)).sum()
        loss.backward()
        found.append([t.weight.grad.to_dense().numpy() for t in (table, bag)])
        assert "sparse=True" in repr(table)
        table.zero_grad(set_to_none=False)
        assert table.weight.grad.to_dense().abs().sum().item() == 0
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_state_moves_from_pytorch():
    """A momentum of sparse gradients is sparse itself."""
    weight, optimizer = train(torch, "SGD", {"lr": 0.1, "momentum": 0.9}, steps=3)
    mine = minitorch.tensor(weight.detach().numpy(), requires_grad=True)
    ours = minitorch.optim.SGD([mine], lr=0.1, momentum=0.9)
    ours.load_state_dict(optimizer.state_dict())
    for m, w, o in ((torch, weight, optimizer), (minitorch, mine, ours)):
        o.zero_grad()
        embedded(m, w, WORDS[3]).sum().backward()
        o.step()
    np.testing.assert_allclose(mine.detach().numpy(), weight.detach().numpy(), rtol=1e-12)


def test_scaled_and_looked_at():
    found = []
    for m in (minitorch, torch):
        weight = m.tensor(TABLE.astype(np.float32), requires_grad=True)
        scaler = m.amp.GradScaler("cpu", init_scale=4.0)
        optimizer = m.optim.SGD([weight], lr=0.1)
        scaler.scale(embedded(m, weight, WORDS[1]).sum()).backward()
        scaler.unscale_(optimizer)
        found.append(weight.grad.to_dense().numpy())
        scaler.step(optimizer)
    np.testing.assert_array_equal(found[0], found[1])
    with minitorch.autograd.detect_anomaly():
        embedded(minitorch, weight := minitorch.tensor(TABLE, requires_grad=True), WORDS[0]).sum().backward()
    assert weight.grad.is_sparse


def test_a_compiled_step_runs_eagerly():
    eager, _ = train(minitorch, "SparseAdam", {"lr": 0.1})
    weight = minitorch.tensor(TABLE, requires_grad=True)
    optimizer = minitorch.optim.SparseAdam([weight], lr=0.1)

    @minitorch.compile
    def step(words):
        optimizer.zero_grad()
        (embedded(minitorch, weight, words) - 1).tanh().sum().backward()
        optimizer.step()

    with pytest.warns(CompileWarning, match="sparse"):
        list(map(step, WORDS * 2))
    np.testing.assert_array_equal(weight.detach().numpy(), eager.detach().numpy())
