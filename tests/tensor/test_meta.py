"""The device 'meta': shapes and dtypes as PyTorch's, no numbers, and no memory."""

import copy

import numpy as np
import pytest

import minitorch
from minitorch import nn
from minitorch.engine.meta import Meta
from minitorch.proof.table import CASES
from minitorch.tensor.torch_types import use_pytorchs_types
from pytorch import torch

CREATED = {
    "zeros": lambda m: m.zeros(2, 3, device="meta"),
    "ones": lambda m: m.ones((2, 3), dtype=m.int64, device="meta"),
    "empty": lambda m: m.empty(1 << 20, 1 << 14, device="meta"),
    "full": lambda m: m.full((2,), 7.0, device="meta"),
    "arange": lambda m: m.arange(7, device="meta"),
    "eye": lambda m: m.eye(3, device="meta"),
    "tensor": lambda m: m.tensor([1, 2], device="meta"),
    "rand": lambda m: m.rand(2, 3, device="meta"),
    "randn": lambda m: m.randn(4, device="meta", dtype=m.float64),
    "randint": lambda m: m.randint(0, 9, (5,), device="meta"),
    "randperm": lambda m: m.randperm(5, device="meta"),
    "to": lambda m: m.ones(2, 3).t().to("meta"),
    "zeros_like": lambda m: m.zeros_like(m.ones(2), device="meta"),
    "empty_like": lambda m: m.empty_like(m.ones(2, device="meta")),
    "here again": lambda m: m.zeros_like(m.ones(2, 3, device="meta"), device="cpu"),
    "new_zeros": lambda m: m.ones(2, device="meta").new_zeros(3),
    "fills": lambda m: m.empty(3, device="meta").normal_().uniform_().fill_(2).zero_(),
    "half": lambda m: m.empty(3, device="meta").half(),
    "large product": lambda m: (
        m.empty(1 << 17, 1 << 10, device="meta") @ m.empty(1 << 10, 1 << 17, device="meta")
    ),
}


@pytest.mark.parametrize("name", CREATED)
def test_made_as_in_pytorch(name):
    mine, theirs = CREATED[name](minitorch), CREATED[name](torch)
    assert (tuple(mine.shape), mine.stride()) == (tuple(theirs.shape), theirs.stride())
    assert mine.dtype.name == str(theirs.dtype).removeprefix("torch.")
    assert str(mine.device) == str(theirs.device)
    assert mine.is_meta == theirs.is_meta


def results_of(found):
    return found if isinstance(found, (tuple, list)) else (found,)


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{each.op}" for i, each in enumerate(CASES)])
def test_every_op_gives_its_shape_or_says_that_numbers_are_missing(case):
    arrays = case.arrays()
    expected = results_of(case.call(minitorch, *map(minitorch.tensor, arrays)))
    try:
        found = results_of(case.call(minitorch, *(minitorch.tensor(a).to("meta") for a in arrays)))
    except RuntimeError as error:  # (among them NotImplementedError)
        assert "meta" in str(error)  # noqa: PT017
        return
    for mine, other in zip(found, expected, strict=True):
        if isinstance(other, minitorch.Tensor):
            assert isinstance(mine._data, Meta)
            assert (tuple(mine.shape), mine.dtype) == (tuple(other.shape), other.dtype)


def test_how_many_ops_give_their_shape():
    refused = set()
    for case in CASES:
        try:
            case.call(minitorch, *(minitorch.tensor(a).to("meta") for a in case.arrays()))
        except RuntimeError:
            refused.add(case.op)
    assert len(refused) < 0.15 * len({case.op for case in CASES}), sorted(refused)


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.item(), lambda x: x.tolist(), lambda x: x.numpy(), lambda x: x.cpu(), lambda x: x.to("cpu"),
        bool, float, int, np.asarray, lambda x: x.nonzero(), lambda x: x[x > 0], lambda x: minitorch.zeros(1).copy_(x),
        lambda x: x.unique(), lambda x: minitorch.save(x, "never"), lambda x: x.__dlpack__(),
    ],
)  # fmt: skip
def test_numbers_are_not_there(ask):
    with pytest.raises((NotImplementedError, RuntimeError, TypeError), match="meta"):
        ask(minitorch.zeros(1, device="meta"))


def test_printing():
    assert repr(minitorch.zeros(2, 3, device="meta")) == "tensor(..., device='meta', size=(2, 3))"
    assert "requires_grad=True" in repr(minitorch.zeros(2, device="meta", requires_grad=True))


def layers():
    return nn.Sequential(
        nn.Linear(10, 20), nn.LayerNorm(20), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Embedding(5, 6), nn.LSTM(3, 4),
        nn.TransformerEncoderLayer(8, 2), nn.GRU(2, 2), nn.Bilinear(2, 3, 4),
    )  # fmt: skip


def test_modules_are_made_without_memory_and_filled_later():
    state = minitorch.random.get_rng_state()
    with minitorch.device("meta"):
        model = layers()
    assert str(minitorch.random.get_rng_state()) == str(state)  # nothing was drawn
    assert all(each.is_meta for each in model.state_dict().values())
    trained = layers()
    with pytest.raises(NotImplementedError, match=r"meta.*to_empty"):
        model.to("cpu")
    assert copy.deepcopy(model)[0].weight.is_meta
    model = model.to_empty(device="cpu")
    model.load_state_dict(trained.state_dict())
    x = minitorch.randn(2, 10)
    assert model[0](x).tolist() == trained[0](x).tolist()
    with minitorch.device("meta"):
        other = layers()
    other.load_state_dict(trained.state_dict(), assign=True)
    assert other[0](x).tolist() == trained[0](x).tolist()


def test_a_step_has_shapes():
    use_pytorchs_types()
    try:
        model = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Dropout(0.5), nn.Linear(4, 2)).to("meta")
        optimizer = minitorch.optim.AdamW(model.parameters())
        out = model(minitorch.zeros(5, 3, device="meta"))
        nn.functional.cross_entropy(out, minitorch.zeros(5, dtype=minitorch.int64, device="meta")).backward()
        assert [(p.grad.is_meta, tuple(p.grad.shape)) for p in model.parameters()] == [
            (True, (4, 3)), (True, (4,)), (True, (2, 4)), (True, (2,)),
        ]  # fmt: skip
        optimizer.step()
        assert optimizer.state[model[0].weight]["exp_avg"].is_meta
    finally:
        use_pytorchs_types(False)


@pytest.mark.filterwarnings("ignore:compile")
def test_a_compiled_function_runs_eagerly():
    function = minitorch.compile(lambda x: (x * 2).sum())
    for _ in range(3):
        assert function(minitorch.zeros(4, device="meta")).is_meta


INITIALISERS = [
    "uniform_",
    "normal_",
    "ones_",
    "zeros_",
    "eye_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "trunc_normal_",
    "orthogonal_",
]


@pytest.mark.parametrize("name", INITIALISERS)
def test_initialisers_fill_nothing(name):
    x = minitorch.empty(6, 5, device="meta")
    state = str(minitorch.random.get_rng_state())
    assert getattr(nn.init, name)(x) is x
    assert x.is_meta
    assert str(minitorch.random.get_rng_state()) == state
    assert x.get_device() == -1
