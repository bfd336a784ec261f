"""PyTorch's types, switched on: what Tensors then show is what PyTorch's show."""

import copy
import gc
import pickle
import warnings

import numpy as np
import pytest

import minitorch
from minitorch.tensor.torch_types import DTYPES, dtype, use_pytorchs_types
from pytorch import torch


@pytest.fixture(autouse=True)
def pytorchs_types():
    use_pytorchs_types()
    yield
    use_pytorchs_types(False)


def backward_of(m):
    x = m.tensor([[1.0, -2.0, 3.0], [4.0, 0.5, -1.0]], requires_grad=True)
    y = x**3
    y.retain_grad()
    (y * 2).sum().backward()
    return x, y


LINES = [
    "x.grad", "x.data", "y.grad", "(x * 2).grad", "x.grad.repeat(2, 2)", "x.data.transpose(0, 1)", "x.grad.sort().values",
    "x.grad.sort(0).indices", "x.data.nonzero()", "x.grad.max(1).indices", "x.grad.max(0)[0]", "x.data.std()", "x.data.std(0)",
    "x.grad.data", "x.grad.dtype", "x.dtype", "x.shape", "x.grad.size()", "x.long().dtype", "x.data.requires_grad", "x.grad.grad",
    "x.grad is x.grad", "isinstance(x.data, m.Tensor)", "isinstance(x.grad, m.Tensor)", "x.data.view(-1)[2:]", "x.data.numpy()",
    "m.Tensor([1, 2])", "m.Tensor(n)", "m.Tensor(n.astype('int64')).dtype", "m.Tensor(2, 3).shape", "m.Tensor(4).shape", "m.Tensor().shape",
    "m.Tensor(x.shape).shape", "m.Tensor([[1, 2], [3, 4]]).dtype", "m.tensor([1, 2], dtype=x.dtype)", "m.zeros(2, dtype=m.tensor([1.5]).double().dtype)",
    "x.to(y.long().dtype)", "x.type(x.double().dtype)", "m.tensor([1], dtype=m.int32)", "x.dtype.is_floating_point", "x.dtype.itemsize",
    "x.dtype.is_complex", "x.long().dtype.is_signed", "x.bool().dtype.is_signed", "x.dtype.to_complex()", "m.zeros(1, dtype=m.complex128).dtype.to_real()",
    "x.retains_grad", "y.retains_grad", "(x + 1).retains_grad", "m.zeros(0, 3).shape[1:]", "x[0].shape.numel()", "x.data.sum(0).shape",
    "m.finfo(x.dtype).eps", "m.iinfo(x.int().dtype).max", "m.is_floating_point(x.data)", "repr(m.zeros(2, dtype=m.float64))",
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_a_line_means_what_it_means_in_pytorch(line):
    answers = []
    for m in (minitorch, torch):
        x, y = backward_of(m)
        n = np.array([1.0, 2.5])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's, on a non-leaf's .grad
            answers.append(eval(line, {"m": m, "x": x, "y": y, "n": n}))
    ours, theirs = answers
    if isinstance(theirs, torch.Tensor):
        assert type(ours) is minitorch.Tensor
        assert (str(ours.dtype), tuple(ours.shape)) == (str(theirs.dtype), tuple(theirs.shape))
        np.testing.assert_allclose(ours.numpy(force=True), theirs.numpy(force=True), rtol=1e-6)
    else:
        assert str(ours) == str(theirs)


@pytest.mark.parametrize("shown", DTYPES.values(), ids=str)
def test_a_dtype_is_numpys_and_prints_as_pytorchs(shown):
    theirs = getattr(torch, shown.name)
    assert repr(shown) == repr(theirs)
    for name in ("is_floating_point", "is_complex", "is_signed", "itemsize"):
        assert getattr(shown, name) == getattr(theirs, name), name
    numpys = np.dtype(shown)
    assert shown == numpys
    assert numpys == shown
    assert hash(shown) == hash(numpys)
    assert shown == numpys.type
    assert shown == numpys
    assert shown != "nonsense"
    assert shown is not None
    assert shown is not None
    x = minitorch.zeros(2, dtype=shown)
    assert x.dtype is shown
    assert isinstance(x.dtype, dtype)
    assert pickle.loads(pickle.dumps(shown)) is shown is copy.deepcopy(shown)
    assert {numpys: 1}[shown] == 1 == {shown: 1}[numpys]


def test_writing_into_data_and_grad_is_seen_by_the_tensor():
    for m in (minitorch, torch):
        x = m.ones(3, requires_grad=True)
        (x * 2).sum().backward()
        held = x.grad
        x.grad.mul_(3)
        x.data.add_(x.grad)
        x.data[0] = -1.0
        assert x.tolist() == [-1.0, 7.0, 7.0]
        (x * 2).sum().backward()
        assert held.tolist() == [8.0] * 3
        assert x.grad is held
        given = m.zeros(3)
        x.grad = given
        assert x.grad is given
        del given, held
        gc.collect()
        x.sum().backward()
        assert x.grad.tolist() == [1.0] * 3
        x.data = m.zeros(2)
        assert x.shape == (2,)


def test_tensor_shares_where_pytorch_shares():
    for m in (minitorch, torch):
        floats, integers = np.ones(2, np.float32), np.ones(2, np.int64)
        shared, own = m.Tensor(floats), m.Tensor(integers)
        shared[0], own[0] = 5.0, 5.0
        assert floats.tolist() == [5.0, 1.0]
        assert integers.tolist() == [1, 1]
        again = m.Tensor(shared)
        again[1] = 7.0
        assert floats.tolist() == [5.0, 7.0]


def test_modules_optimisers_copies_and_pickles_do_not_mind():
    x = minitorch.ones(4, 3)
    model = minitorch.nn.Sequential(minitorch.nn.Linear(3, 2), minitorch.nn.BatchNorm1d(2))
    optimizer = minitorch.optim.AdamW(model.parameters())
    (model(x) ** 2).sum().backward()
    minitorch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    twin = pickle.loads(pickle.dumps(copy.deepcopy(model).double()))
    assert twin[0].weight.dtype == np.float64
    assert twin[1].num_batches_tracked.dtype == np.int64
    assert copy.deepcopy(model[0].weight).grad.equal(model[0].weight.grad)
    twin.load_state_dict(model.state_dict())
    np.testing.assert_allclose(twin[0].weight.numpy(force=True), model[0].weight.numpy(force=True))
    optimizer.zero_grad(set_to_none=False)
    assert model[0].weight.grad.abs().sum() == 0


def test_compiled_steps_write_through_data_and_grad_as_eager_ones():
    def step(w, x, rate):
        loss = ((x @ w) ** 2).mean()
        loss.backward()
        with minitorch.no_grad():
            w.data.add_(w.grad, alpha=-rate)
            w.data.clamp_(-1, 1)
            w.grad.zero_()
        return loss, w.data.norm(), loss.grad is None, loss.dtype == minitorch.float32, w.grad.data.sum()

    compiled = minitorch.compile(step, fullgraph=True)
    x = minitorch.arange(6.0).reshape(3, 2)
    one, two = (minitorch.tensor([0.5, -0.25], requires_grad=True) for _ in range(2))
    for _ in range(4):
        eager, fast = step(one, x, 0.01), compiled(two, x, 0.01)
        assert fast[2:4] == (True, True)
        for a, b in zip(eager, fast, strict=True):
            np.testing.assert_allclose(float(b), float(a), rtol=1e-5)
        np.testing.assert_allclose(two.numpy(force=True), one.numpy(force=True), rtol=1e-5)
        assert isinstance(two.grad, minitorch.Tensor)


def test_the_switch_goes_back():
    x, _ = backward_of(minitorch)
    use_pytorchs_types(False)
    assert isinstance(x.grad, np.ndarray)
    assert isinstance(x.data, np.ndarray)
    assert isinstance(x.dtype, np.dtype)
    assert minitorch.Tensor([1, 2]).dtype == np.int64
    assert repr(x.shape) == "(2, 3)"


def test_what_is_written_through_data_is_not_noticed():
    for m in (minitorch, torch):
        w, x = m.ones(2, requires_grad=True), m.tensor([2.0, 3.0], requires_grad=True)
        out = (w * x).sum()
        w.data.mul_(10)
        w.data[0] = 5.0
        w.data.view(1, 2)[0].add_(1)
        out.backward()  # with what is there now, silently: so it is in PyTorch
        assert x.grad.tolist() == [6.0, 11.0]
        out = (w * x).sum()
        with m.no_grad():
            w.mul_(2)
        with pytest.raises(RuntimeError, match="changed|modified"):
            out.backward()


class Tagged(minitorch.Tensor):
    """A class of tensors whose __new__ takes more than data."""

    @staticmethod
    def __new__(cls, data, tag, *args):
        return super().__new__(cls, data, *args)

    def __init__(self, data, tag):
        self.tag = tag


class Learned(minitorch.nn.Parameter):
    def __new__(cls, data=None, kind=None, requires_grad=True):
        made = minitorch.Tensor._make_subclass(cls, data, requires_grad)
        made.kind = kind
        return made


def test_subclasses_with_a_new_of_their_own():
    tagged, learned = Tagged([1, 2], "a"), Learned(minitorch.ones(2), kind="ball")
    assert (tagged.tolist(), tagged.tag, type(tagged)) == ([1.0, 2.0], "a", Tagged)
    assert (learned.requires_grad, learned.kind, learned.is_leaf) == (True, "ball", True)
    module = minitorch.nn.Module()
    module.weight = learned
    assert [name for name, _ in module.named_parameters()] == ["weight"]
    assert copy.deepcopy(learned).kind == "ball"
    x = minitorch.ones(2, requires_grad=True)
    seen = (x * 2).as_subclass(Tagged)
    seen.sum().backward()
    assert type(seen) is Tagged
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(TypeError, match="kind"):
        minitorch.nn.Parameter(minitorch.ones(1), kind="ball")


def test_a_persons_own_attributes():
    x = minitorch.ones(2)
    x.note = "mine"
    assert copy.copy(x).note == copy.deepcopy(x).note == pickle.loads(pickle.dumps(x)).note == "mine"

    @minitorch.compile
    def scaled(t):
        return t * (3.0 if getattr(t, "note", None) == "mine" else 1.0)

    plain = minitorch.ones(2)
    with pytest.warns(UserWarning, match=r"reads \.note of a tensor among its arguments"):
        assert scaled(plain).tolist() == [1.0, 1.0]
    assert scaled(x).tolist() == [3.0, 3.0]
    plain.note = "mine"
    assert scaled(plain).tolist() == [3.0, 3.0]


DRAWS = [
    lambda m: m.rand(3),
    lambda m: m.rand(624),
    lambda m: m.rand(700),
    lambda m: m.randn(3),
    lambda m: m.randn(20),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_a_state_of_the_random_generator_is_pytorchs(draw, tmp_path):
    """Byte for byte, so that either goes on where the other one stopped; checkpoints keep it."""
    states = []
    for m in (minitorch, torch):
        m.manual_seed(5)
        draw(m)
        states.append(m.get_rng_state())
    mine, theirs = (np.array(each.numpy()) for each in states)
    np.testing.assert_array_equal(mine, theirs)
    torch.set_rng_state(torch.tensor(mine))
    minitorch.set_rng_state(minitorch.tensor(theirs))
    np.testing.assert_allclose(minitorch.randn(3).numpy(), torch.randn(3).numpy(), rtol=1e-6)
    np.testing.assert_array_equal(minitorch.rand(9).numpy(), torch.rand(9).numpy())
    minitorch.save({"rng": states[0]}, tmp_path / "c.pt")
    generator = minitorch.Generator()
    generator.set_state(minitorch.load(tmp_path / "c.pt")["rng"])
    torch.set_rng_state(states[1])
    np.testing.assert_array_equal(minitorch.rand(5, generator=generator).numpy(), torch.rand(5).numpy())
    with pytest.raises(TypeError, match="5056 bytes"):
        generator.set_state(states[0][:7])
