"""What public programs call around the operators: arrays that speak PyTorch, devices, in-place forms, settings."""

import copy
import importlib
import pickle
import sys
import warnings

import numpy as np
import pytest

import minitorch
from minitorch.tensor.plain import PlainArray
from pytorch import REASON, torch

# --- .data and .grad -------------------------------------------------------------------------------


def backward_of(library):
    x = library.tensor([[1.0, -2.0, 3.0], [4.0, 0.5, -1.0]], requires_grad=True)
    (x**3).sum().backward()
    return x


LINES = [
    "x.grad.norm()", "x.grad.norm(2).item()", "x.grad.std()", "x.grad.var()", "x.grad.std(0)", "x.grad.std(dim=1)",
    "x.grad.std(unbiased=False)", "x.grad.mean()", "x.grad.mean(dim=0, keepdim=True)", "x.grad.sum(0)", "x.grad.abs().max()",
    "x.grad.max(1)[1]", "x.grad.max(dim=1).values", "x.grad.min(0)[0]", "x.grad.max()", "x.data.max(1, keepdim=True)[1]",
    "x.grad.clone()", "x.grad.detach()", "x.grad.data", "x.data.view(-1)", "x.data.view(3, 2)", "x.data.t()", "x.grad.numel()",
    "x.data.dim()", "tuple(x.data.size())", "x.data.size(1)", "tuple(x.grad.shape)", "x.grad.flatten()", "x.grad.flatten(0, 1)",
    "x.data.transpose(0, 1)", "x.data[None].transpose(0, 2)", "x.grad.unsqueeze(0)", "x.grad.gt(3.0)", "x.grad.item() if x.grad.numel() == 1 else 0",
    "(0.1 * x.grad).std().log10().item()", "(x.grad.std() / x.data.std()).log10()", "x.data.cpu().numpy()", "x.grad.tolist()",
    "x.data.argmax(dim=1)", "x.data.pow(2).sum().sqrt()", "x.data.softmax(dim=1)", "x.data @ x.grad.t()", "x.grad.eq(x.grad).all()",
    "x.data.type_as(x)", "x.data.double()", "x.grad.is_sparse", "x.grad.requires_grad", "x.data.new_zeros(2)", "m.norm(x.grad)",
    "m.stack([x.grad.norm(), x.data.norm()])", "m.cat([x.grad, x.data])", "m.max(x.data, 1)[1]", "m.allclose(x.grad, x.grad)",
    "x.grad.data.clamp(-1, 1)", "x.grad.sort(dim=1)[0]", "x.grad.sort(descending=True)[1]", "x.data.squeeze(dim=0)",
    "x.data.repeat_interleave(2)", "x.grad.topk(2)[0]", "x.grad.cumsum(dim=1)", "x.grad.all(dim=1)", "x.data.masked_fill(x.data > 0, 0.0)",
    "x.data.expand(2, 2, 3)", "x.data.permute(1, 0)", "x.grad.ndimension()", "x.grad.element_size()", "len(x.grad)", "x.grad[0].norm()",
    "x.data.sort()[0]", "x.data.sort(0)[1]", "x.data.sort().values", "x.data.repeat(2, 1)", "x.data.transpose(1, 0)",
]  # fmt: skip


def plain(value):
    return value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)


@pytest.mark.parametrize("line", LINES)
def test_arrays_understand_pytorchs_spelling(line):
    ours, theirs = (
        plain(eval(line, {"x": backward_of(library), "m": library})) for library in (minitorch, torch)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


DTYPES = [
    "x.data / 2", "2 / x.data", "x.data * 0.5", "1.5 - x.data", "x.data ** 0.5", "x.data // 2.0", "x.data % 1.5", "x.data / x.data",
    "x.data + y.data", "y.data * x.data", "x.data + 1", "x.data * x.data", "x.data // 2", "x.data + z.data",
]  # fmt: skip


@pytest.mark.parametrize("line", DTYPES)
@pytest.mark.parametrize("kind", ["int64", "int32", "int8"])
def test_arithmetic_of_integers_has_pytorchs_dtypes(line, kind):
    ours, theirs = (
        eval(
            line,
            {
                "x": m.tensor([[3, 1], [2, 5]], dtype=getattr(m, kind)),
                "y": m.ones(2),
                "z": m.ones(2, dtype=m.float64),
            },
        )
        for m in (minitorch, torch)
    )
    assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-6)


def test_sort_leaves_the_tensor_as_it_was_unless_numpys_words_ask():
    x = minitorch.tensor([3.0, 1.0, 2.0])
    values, indices = x.data.sort()
    assert (values.tolist(), indices.tolist(), x.tolist()) == ([1, 2, 3], [1, 2, 0], [3, 1, 2])
    assert x.data.sort(axis=0) is None
    assert x.tolist() == [1, 2, 3]


def test_numpys_functions_mean_numpys():
    x = minitorch.tensor([3, 1, 2, 1]).data
    assert np.unique(x).tolist() == [1, 2, 3]
    assert np.sort(x).tolist() == [1, 1, 2, 3]
    assert np.repeat(x, 2).tolist() == [3, 3, 1, 1, 2, 2, 1, 1]
    assert np.nonzero(x)[0].tolist() == [0, 1, 2, 3]
    assert np.median(x) == 1.5
    assert (x.tolist(), np.divide(x, 2).dtype, np.std(x)) == ([3, 1, 2, 1], np.float64, np.std([3, 1, 2, 1]))
    assert np.union1d(x, x).tolist() == [1, 2, 3]


WRITING = [
    "x.grad.zero_()", "x.data.add_(1.0)", "x.data.add_(x.grad, alpha=-0.1)", "x.data.sub_(0.1 * x.grad)", "x.grad.data.clamp_(-1, 1)",
    "x.data.copy_(m.ones(2, 3))", "x.data.fill_(2.5)", "x.data.normal_(0, 0.1)", "x.data.uniform_(-1, 1)", "x.data.mul_(0.5)",
    "x.data.div_(2)", "x.data[0].zero_()", "x.data[:, 1].fill_(9)", "x.grad.add_(x.data, alpha=0.01)", "x.data.masked_fill_(x.data > 0, 7.0)",
    "x.data.exp_()", "x.data.neg_().abs_().sqrt_()", "x.grad.data.zero_()", "x.data.bernoulli_(0.5)", "x.data.tanh_()",
    "x.data.clamp_(min=0)", "x.data.lerp_(m.zeros(2, 3), 0.1)", "x.data.addcmul_(x.grad, x.grad, value=0.1)", "x.data.t().mul_(2)",
    "x.data.index_fill_(1, m.tensor([0]), 3.0)", "x.data.exponential_()", "x.data.random_(0, 5)", "x.data.zero_().add_(3)",
    "m.nn.init.normal_(x.data, 0.0, 0.02)", "m.nn.init.constant_(x.data, 3)", "m.nn.init.xavier_uniform_(x.data)",
]  # fmt: skip


@pytest.mark.parametrize("line", WRITING)
def test_arrays_are_written_into_in_pytorchs_spelling(line):
    results = []
    for library in (minitorch, torch):
        x = backward_of(library)
        library.manual_seed(3)
        eval(line, {"x": x, "m": library})
        results.append((plain(x), plain(x.grad)))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_what_is_handed_out_is_a_numpy_array():
    x = backward_of(minitorch)
    for array in (x.data, x.grad):
        assert isinstance(array, np.ndarray)
        assert repr(array) == repr(np.asarray(array))
        assert str(array) == str(np.asarray(array))
    assert x.grad is x.grad
    assert x.data is x.data
    assert type(x._data) is np.ndarray
    assert type(x._grad) is np.ndarray
    assert np.shares_memory(x.data, x._data)
    assert type(x.detach().numpy()) is np.ndarray
    assert type(np.asarray(x.grad)) is np.ndarray
    assert type(pickle.loads(pickle.dumps(x.grad))) is np.ndarray
    assert copy.deepcopy(x.grad).tolist() == x.grad.tolist()
    assert memoryview(x.data).shape == (2, 3)


def test_numpys_words_mean_numpys():
    g = backward_of(minitorch).grad
    a = np.asarray(g)
    for call in (
        lambda v: np.std(v), lambda v: np.var(v, axis=0), lambda v: v.std(axis=0), lambda v: v.var(ddof=0), lambda v: np.max(v, axis=1),
        lambda v: v.max(axis=1), lambda v: v.max(axis=1, keepdims=True), lambda v: np.mean(v), lambda v: v.mean(0), lambda v: v.repeat(2),
        lambda v: v.transpose(1, 0), lambda v: v.T, lambda v: v.sum(axis=(0, 1)), lambda v: v.argsort(), lambda v: v.round(1),
        lambda v: v.clip(0, 1), lambda v: v.reshape(-1), lambda v: v.astype(np.float64), lambda v: v.view(np.int32), lambda v: np.sort(v),
        lambda v: v.size + 1, lambda v: v.nonzero()[0], lambda v: np.linalg.norm(v), lambda v: v.dot(v.T), lambda v: v.copy(),
        lambda v: v.any(), lambda v: v.flatten(), lambda v: v.squeeze(), lambda v: np.concatenate([v, v]), lambda v: v @ v.T,
    ):  # fmt: skip
        np.testing.assert_array_equal(call(g), call(a))
    b = g.copy()
    assert b.sort(axis=-1) is None  # in place, as NumPy's
    assert f"{g.sum():.3f}" == f"{a.sum():.3f}"
    assert round(g.sum(), 1) == round(float(a.sum()), 1)
    assert g.size == 6
    with pytest.raises(AttributeError, match="nonsense"):
        g.nonsense


def test_writing_through_an_array_is_noticed_by_backward():
    x = minitorch.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    x.data.add_(1.0)
    with pytest.raises(RuntimeError, match="changed after the forward"):
        y.backward()


def test_arrays_go_back_as_they_came():
    x = backward_of(minitorch)
    array = x._data
    x.data -= 0.1 * x.grad
    assert x._data is array
    x.data = x.data - 0.1 * x.grad
    assert type(x._data) is np.ndarray
    x.grad = x.grad * 2
    assert type(x._grad) is np.ndarray
    x.grad += 1
    (x * x).sum().backward()
    assert type(x._grad) is np.ndarray
    y = minitorch.tensor(x.grad)
    assert type(y._data) is np.ndarray
    assert type((x * x.grad)._data) is np.ndarray
    z = minitorch.tensor([1.0, 1.0], requires_grad=True)
    (z * 2).backward(gradient=z.data)
    assert type(z._grad) is np.ndarray
    assert isinstance(z.grad, PlainArray)


# --- in place on a graph -----------------------------------------------------------------------------


def same(program, values=(1.0, 2.0, -3.0)):
    results = []
    for library in (minitorch, torch):
        x = library.tensor(values, requires_grad=True)
        out = program(library, x)
        weights = library.tensor(np.cos(np.arange(out.numel())), dtype=out.dtype).reshape(out.shape)
        (out * weights).sum().backward()
        results.append((plain(out), plain(x.grad)))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_result_nobody_else_holds_is_changed_in_place():
    def added(m, x):
        out = x * 2
        out += x
        out *= 3
        out -= 1
        out /= 2
        return out

    def by_method(m, x):
        held = [x + 1]
        held[0].mul_(2)
        held[0].add_(2 * x)
        held[0].relu_()
        return held[0]

    def views(m, x):
        out = (x * 2).view(3, 1).expand(3, 2).clone().view(2, 3)
        out += x
        out.clamp_(min=-1)
        return out

    def masked(m, x):
        out = x * 2
        out.masked_fill_(m.tensor([True, False, False]), 0.5)
        return out

    for program in (added, by_method, views, masked):
        same(program)


def test_writing_something_with_a_graph_at_an_index():
    x = np.array([0.5, -1.5, 2.0])

    def steps(m, x):  # what a decoder does with its outputs
        outs, state = m.zeros(4, 3, dtype=m.float64), x
        for t in range(1, 4):
            state = (state * 1.5).tanh()
            outs[t] = state
        return outs

    def over_a_result(m, x):  # exp needs its own result again
        y = x.exp()
        y[0] = x[1] * 3
        return y

    def numbers_and_broadcasting(m, x):
        y = x.view(3, 1).expand(3, 2) * 2
        y[0] = 0
        y[:, 1] = x[:1]
        y[m.tensor([2, 1]), m.tensor([0, 0])] = (x * x)[1:].view(1, 2)
        y[y > 100] = x[0]
        return y

    def dtypes(m, x):
        y = m.zeros(3)
        y[:] = x
        return y.double()

    def whole(m, x):
        y = m.ones(3, dtype=m.float64)
        y.copy_(x * 2)
        z = x * 3
        z.zero_()
        w = x.sin()
        w.fill_(2.0)
        return y + z + w

    for program in (steps, numbers_and_broadcasting, dtypes, whole):
        mine, other = minitorch.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        a, b = program(minitorch, mine), program(torch, other)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)
        weights = np.cos(np.arange(a.numel())).reshape(a.shape)
        (a * minitorch.tensor(weights)).sum().backward()
        (b * torch.tensor(weights)).sum().backward()
        np.testing.assert_allclose(mine.grad, other.grad.numpy(), rtol=1e-6)
    for m in (minitorch, torch):  # what needs the old values is refused at backward
        over = over_a_result(m, m.tensor(x, requires_grad=True)).sum()
        with pytest.raises(RuntimeError, match="changed after|modified by an inplace"):
            over.backward()
    assert minitorch.gradgradcheck(lambda x: steps(minitorch, x), minitorch.tensor(x, requires_grad=True))


def test_adding_something_with_a_graph_to_a_buffer():
    x = np.array([0.5, -1.5, 2.0])

    def total(m, x):
        loss = m.zeros((), dtype=m.float64)
        for i in range(3):
            loss += (x * i).exp().sum()
        loss -= x[0]
        return loss

    def by_method(m, x):
        loss = m.ones(3, dtype=m.float64)
        loss.add_(x * x, alpha=3)
        out = x * 2
        out.sub_(x.exp(), alpha=0.5)
        loss.lerp_(out, 0.25).masked_fill_(m.tensor([True, False, False]), 2.0)
        return loss

    def folded(m, x):  # what a graph network does with its messages
        out = m.zeros(4, 3, dtype=m.float64).index_add_(0, m.tensor([0, 0, 2]), x * m.ones(3, 3))
        out.scatter_add_(0, m.tensor([[0, 1, 2]]), x[None] * 2)
        return out

    def experts(m, x):  # what a mixture of experts does with its tokens
        out = m.zeros(4, 3, dtype=m.float64)
        chosen = m.tensor([True, False, True, False])
        for _ in range(2):
            out[chosen] += x * 2
            out[~chosen] -= x.exp()
            out[~chosen] *= x[0]
            out[0] += x
            out[1:3] *= x * x
            out[:, 1] = out[:, 1] + x[1]
        return out

    def of_itself(m, x):  # weights that are made to sum to 1
        weights, out = x * x, m.zeros(2, 3, dtype=m.float64)
        weights /= weights.sum()
        out[0] = weights
        out[1] = out[0].sum() * x
        out[:, 1:] += out[:, :1].sum()
        out[0] = out[0] + out[1]
        return out

    for program in (total, by_method, folded, experts, of_itself):
        same(program, x)


def test_what_pytorch_lays_out_in_order_can_be_viewed():
    x = np.arange(24.0).reshape(2, 3, 4)

    def joined(m, x):
        return m.cat([x.transpose(1, 2), x.transpose(1, 2)], 1).view(2, -1)

    def normed(m, x):
        return m.nn.functional.layer_norm(x.permute(0, 2, 1), (3,)).view(-1, 3)

    def spread(m, x):
        return x.transpose(1, 2).softmax(-1).view(-1) + x.transpose(0, 2).cumsum(0).view(-1)

    def turned(m, x):
        return x.flip(1).view(-1)

    def picked(m, x):
        return x[:, [0, 2]].view(-1) + x.index_select(1, m.tensor([1, 1])).view(-1)

    for program in (joined, normed, spread, turned, picked):
        same(program, x)
    out = minitorch.tensor(x).transpose(1, 2).softmax(-1)
    flat = out.view(-1)
    flat[0] = 7
    assert out[0, 0, 0] == 7
    seen = minitorch.tensor(x).transpose(1, 2).exp()
    row = seen[0]
    with pytest.raises(RuntimeError, match="too scattered"):
        seen.view(-1)
    assert row.shape == (4, 3)
    with pytest.raises(RuntimeError, match="too scattered"):
        minitorch.tensor(x, requires_grad=True).transpose(1, 2).view(-1)


def test_flip_and_diag_copy_and_a_diagonal_is_written_into():
    x = minitorch.arange(9.0).reshape(3, 3)
    x.flip(0)[0] = 7
    x.diag()[0] = 7
    assert x.tolist() == minitorch.arange(9.0).reshape(3, 3).tolist()
    x.diagonal().add_(1)
    assert x.diag().tolist() == [1, 5, 9]


def test_axes_in_place():
    for m in (minitorch, torch):
        x = m.arange(6.0).view(2, 3)
        x.unsqueeze_(0).squeeze_().t_().transpose_(0, 1)
        assert tuple(x.shape) == (2, 3)
        y = m.ones(2, requires_grad=True) * 2
        assert not y.detach_().requires_grad
        assert y.is_leaf


FLOATS = np.array([[0.2, -0.5, 0.7], [0.9, 0.1, -0.3]])
INTS = np.array([[1, 2, 3], [4, 5, 6]])
PLACES = np.array([[1, 0, 1], [0, 1, 0]])
# What an in-place form is tried on: the first of these that PyTorch takes …
ATTEMPTS = [
    (FLOATS,), (FLOATS, FLOATS.T.copy().T), (FLOATS, 0.3), (FLOATS, 1), (FLOATS, 0, np.array([0, 1]), 2.0),
    (FLOATS, FLOATS > 0, 2.0), (FLOATS, FLOATS, FLOATS), (FLOATS, 0, 1), (INTS,), (INTS, INTS),
]  # fmt: skip
# … or what it alone takes.
ARGUMENTS = {
    "addbmm_": (FLOATS, np.ones((4, 2, 5)), np.ones((4, 5, 3))),
    "addmm_": (FLOATS, np.ones((2, 4)), np.ones((4, 3))),
    "addmv_": (FLOATS[0], np.ones((3, 2)), FLOATS[:, 0].copy()),
    "addr_": (FLOATS, FLOATS[:, 0].copy(), FLOATS[0]),
    "apply_": (FLOATS, lambda number: number + 1),
    "baddbmm_": (FLOATS[None], np.ones((1, 2, 4)), np.ones((1, 4, 3))),
    "index_add_": (FLOATS, 0, np.array([1, 0]), FLOATS),
    "index_copy_": (FLOATS, 0, np.array([1, 0]), FLOATS),
    "index_put_": (FLOATS, (np.array([0, 1]), np.array([2, 0])), np.array([5.0, 6.0])),
    "index_reduce_": (FLOATS, 0, np.array([1, 0]), FLOATS, "prod"),
    "masked_scatter_": (FLOATS, FLOATS > 0, FLOATS),
    "put_": (FLOATS, np.array([0, 5]), np.array([5.0, 6.0])),
    "as_strided_": (FLOATS, (2, 2), (1, 2)),
    "map_": (FLOATS, FLOATS, lambda a, b: a + 2 * b),
    "map2_": (FLOATS, FLOATS, FLOATS, lambda a, b, c: a + 2 * b * c),
    "renorm_": (FLOATS, 2, 0, 0.5),
    "scatter_": (FLOATS, 0, PLACES, FLOATS),
    "scatter_add_": (FLOATS, 0, PLACES, FLOATS),
    "scatter_reduce_": (FLOATS, 0, PLACES, FLOATS, "sum"),
}


@pytest.mark.parametrize(
    "name", [n for n in dir(minitorch.Tensor) if n.endswith("_") and not n.startswith("_")]
)
def test_in_place_forms_equal_pytorchs(name):
    """Every trailing underscore we offer, on one argument list PyTorch takes."""
    if not hasattr(torch.Tensor, name):
        pytest.skip("minitorch's own")

    def run(library, x, *given):
        def made(a):
            if isinstance(a, tuple):
                return tuple(map(made, a))
            return library.tensor(a) if isinstance(a, np.ndarray) else a

        library.manual_seed(0)
        tensor = library.tensor(x)
        return tensor, getattr(tensor, name)(*map(made, given))

    for attempt in [ARGUMENTS[name]] if name in ARGUMENTS else ATTEMPTS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                written, expected = run(torch, *attempt)
        except (RuntimeError, TypeError, IndexError, ValueError):
            continue
        mine, found = run(minitorch, *attempt)
        if isinstance(expected, torch.Tensor):
            assert found is mine
            np.testing.assert_allclose(plain(found), plain(expected), rtol=1e-6, atol=1e-9, err_msg=name)
        else:
            assert found == expected
        np.testing.assert_allclose(plain(mine), plain(written), rtol=1e-6, atol=1e-9, err_msg=name)
        return
    pytest.fail("PyTorch takes none of the argument lists")


# --- devices, dtypes, settings -------------------------------------------------------------------------


def test_devices():
    device = minitorch.device("cuda:1")
    assert (device.type, device.index, str(device)) == ("cuda", 1, "cuda:1")
    assert repr(minitorch.device("cpu")) == repr(torch.device("cpu"))
    assert repr(minitorch.device("cuda", 0)) == repr(torch.device("cuda", 0))
    assert minitorch.zeros(1).device.type == "cpu"
    assert minitorch.zeros(1).device == minitorch.device("cpu") == "cpu"
    assert not minitorch.zeros(1).is_cuda
    with pytest.raises(RuntimeError):
        minitorch.device("nonsense")
    x = minitorch.zeros(2)
    assert x.to("cpu", minitorch.float64, non_blocking=True).dtype == minitorch.float64
    assert x.to(minitorch.device("cpu")) is x
    assert x.cpu() is x
    with minitorch.device("cpu"):
        assert minitorch.rand(2, device="cpu").device.type == "cpu"
    with pytest.raises(TypeError, match="to:"):
        x.to([1])


@pytest.mark.skipif(minitorch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu():
    assert minitorch.cuda.device_count() == 0
    minitorch.cuda.manual_seed_all(0)
    minitorch.cuda.empty_cache()
    minitorch.cuda.synchronize()
    assert minitorch.cuda.memory_allocated() == 0
    for call in (
        lambda: minitorch.zeros(1).cuda(),
        lambda: minitorch.zeros(1).to("cuda:0"),
        lambda: minitorch.zeros(1, device="cuda"),
        lambda: minitorch.nn.Linear(1, 1).cuda(),
        lambda: minitorch.cuda.current_device(),
        lambda: minitorch.cuda.set_device(0),
    ):
        with pytest.raises(RuntimeError, match="GPU"):
            call()


def test_settings_are_kept_and_change_nothing():
    m = minitorch
    m.backends.cudnn.benchmark = True
    assert m.backends.cudnn.benchmark is True
    m.backends.cudnn.benchmark = False
    assert m.backends.cudnn.allow_tf32
    with m.backends.cudnn.flags(allow_tf32=False):
        assert not m.backends.cudnn.allow_tf32
    assert m.backends.cudnn.allow_tf32
    m.backends.cuda.matmul.allow_tf32 = True
    assert not m.backends.mps.is_available()
    m.set_num_threads(2)
    assert m.get_num_threads() == 2
    m.set_num_threads(1)
    m.use_deterministic_algorithms(True)
    m.set_float32_matmul_precision("high")
    with pytest.raises(ValueError, match="highest"):
        m.set_float32_matmul_precision("low")
    m.set_float32_matmul_precision("highest")
    m.set_default_device("cpu")


def test_limits():
    for kind in ("float16", "float32", "float64"):
        ours, theirs = minitorch.finfo(getattr(minitorch, kind)), torch.finfo(getattr(torch, kind))
        for name in ("eps", "max", "min", "tiny", "bits", "smallest_normal"):
            assert getattr(ours, name) == getattr(theirs, name)
            assert type(getattr(ours, name)) in (int, float)
    for kind in ("uint8", "int8", "int32", "int64"):
        ours, theirs = minitorch.iinfo(getattr(minitorch, kind)), torch.iinfo(getattr(torch, kind))
        assert (ours.min, ours.max, ours.bits) == (theirs.min, theirs.max, theirs.bits)


def test_old_constructors():
    for m in (minitorch, torch):
        assert m.FloatTensor([1, 2]).dtype == m.float32
        assert tuple(m.FloatTensor(2, 3).shape) == (2, 3)
        assert m.LongTensor([1, 2]).tolist() == [1, 2]
        assert m.ByteTensor([1, 0]).dtype == m.uint8
        assert isinstance(m.zeros(1), m.FloatTensor)
        assert not isinstance(m.zeros(1), m.LongTensor)
        assert m.zeros(1).type() == "torch.FloatTensor"
        assert m.zeros(1).type(m.LongTensor).dtype == m.int64
        assert m.zeros(1).type("torch.DoubleTensor").dtype == m.float64
        assert tuple(m.zeros(1).new(2, 2).shape) == (2, 2)
        assert m.zeros(1).new([1.5]).tolist() == [1.5]
    with pytest.raises(TypeError, match="empty"):
        minitorch.Tensor(2, 3)


def test_shapes_count():
    for m in (minitorch, torch):
        shape = m.zeros(2, 3, 4).shape
        assert shape.numel() == 24
        assert shape[1:].numel() == 12
        assert shape == (2, 3, 4)
        assert isinstance(shape, tuple)
        assert m.Size([2, 3]).numel() == 6
        assert m.zeros(shape).numel() == m.zeros(2, 3, 4).nelement() == 24


@pytest.mark.parametrize(
    "line",
    [
        "m.zeros(2, 3).new_zeros(4)", "m.zeros(2).new_ones((2, 2), dtype=m.int64)", "m.zeros(2).new_full((2,), 3)",
        "m.zeros(2, dtype=m.int64).new_full((2,), 3)", "m.zeros(2).new_tensor([1, 2])", "m.zeros(2).double().new_tensor([1, 2])",
        "m.zeros(2, 3).stride()", "m.zeros(2, 3).t().stride(0)", "m.zeros(2).element_size()", "m.zeros(2).is_signed()",
        "m.is_floating_point(m.zeros(1))", "m.is_complex(m.zeros(1))", "m.scalar_tensor(3)", "m.zeros(2, 3).view_as(m.zeros(3, 2))",
        "m.zeros(1, 3).expand_as(m.zeros(2, 3))", "m.zeros(2, 3).reshape_as(m.zeros(6))", "m.ones(2).view(m.int32)", "m.ones(2).short()",
        "m.can_cast(m.float32, m.int64)", "m.can_cast(m.int64, m.float32)", "m.can_cast(m.float64, m.float32)", "m.can_cast(m.int32, m.bool)",
        "m.tensor([m.tensor(1.0), m.tensor(2.0)])", "m.ones(2).apply_(lambda v: v + 1)", "m.ones(2).is_same_size(m.zeros(2))",
        "m.relu_(m.tensor([-1.0, 2.0]))", "m.frombuffer(bytearray(8), dtype=m.float32)", "m.ones(2).get_device()", "m.ones(3).nbytes",
        "m.arange(3).resize_(2)", "m.zeros(2).is_nonzero() if False else 1", "m.zeros(2).index_put_((m.tensor([1]),), m.tensor([3.0]))",
    ],
)  # fmt: skip
def test_small_things(line):
    ours, theirs = (eval(line, {"m": library}) for library in (minitorch, torch))
    np.testing.assert_array_equal(plain(ours), plain(theirs))
    if isinstance(theirs, torch.Tensor):
        assert str(ours.dtype) == str(theirs.dtype)[6:]


def test_assert_close():
    t = minitorch.testing.assert_close
    for a, b in [
        ([1.0, 2.0], [1.0, 2.0 + 1e-6]), ([1.0, 2.0], [1.0, 2.1]), ([1], [1]), ([1], [2]), ([float("nan")], [float("nan")]),
        ([[1.0]], [1.0]), ([1.0], [1]),
    ]:  # fmt: skip
        outcomes = []
        for m in (minitorch, torch):
            try:
                m.testing.assert_close(m.tensor(a), m.tensor(b))
                outcomes.append(None)
            except AssertionError:
                outcomes.append(AssertionError)
        assert outcomes[0] == outcomes[1], (a, b)
    t({"a": [minitorch.ones(2), 1.0]}, {"a": [minitorch.ones(2), 1.0 + 1e-9]})
    t(minitorch.tensor([float("nan")]), minitorch.tensor([float("nan")]), equal_nan=True)
    t(np.ones(2), np.ones(2))
    with pytest.raises(AssertionError, match="mine"):
        t(1.0, 2.0, msg="mine")
    with pytest.raises(ValueError, match="both"):
        t(1.0, 1.0, rtol=0.1)
    with pytest.raises(AssertionError, match="length"):
        t([1.0], [1.0, 2.0])
    with pytest.raises(AssertionError, match="keys"):
        t({"a": 1.0}, {"b": 1.0})


# --- modules ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_embedding_bag(mode, padding, rows, weighted):
    if weighted and mode != "sum":
        return
    results = []
    for m in (minitorch, torch):
        m.manual_seed(1)
        bag = m.nn.EmbeddingBag(10, 4, mode=mode, padding_idx=padding)
        x = m.tensor([1, 2, 3, 3, 9, 0, 2, 5])
        weights = m.linspace(0.5, 2, 8).requires_grad_() if weighted else None
        if rows:
            out = bag(x.view(2, 4), per_sample_weights=weights.view(2, 4) if weighted else None)
        else:
            out = bag(x, m.tensor([0, 3, 3, 6]), weights)
        (out * out.detach().cos()).sum().backward()
        results.append(
            [plain(out), plain(bag.weight.grad), plain(weights.grad) if weighted else 0, repr(bag)]
        )
    for ours, theirs in zip(*results, strict=True):
        if isinstance(ours, str):
            assert ours == theirs
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
@pytest.mark.parametrize("how", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal_parametrization(shape, how, trivial):
    results = []
    for m in (minitorch, torch):
        m.manual_seed(2)
        layer = m.nn.utils.parametrizations.orthogonal(
            m.nn.Linear(*shape), orthogonal_map=how, use_trivialization=trivial
        )
        first = plain(layer.weight).copy()
        optimizer = m.optim.SGD(layer.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            ((layer(m.ones(2, shape[0])) ** 2) * m.arange(1, shape[1] + 1)).sum().backward()
            optimizer.step()
        results.append((first, plain(layer.weight)))
        assert sorted(layer.state_dict()) == sorted(layer.state_dict())
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_lazy_modules():
    results = []
    for m in (minitorch, torch):
        m.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nn = m.nn
            net = nn.Sequential(
                nn.LazyConv2d(4, 3, padding=1), nn.LazyBatchNorm2d(), nn.LazyConvTranspose2d(3, 2), nn.LazyInstanceNorm2d(),
                nn.ReLU(), nn.Flatten(), nn.LazyLinear(5),
            )  # fmt: skip
            net.eval()
            out = net(m.randn(2, 3, 4, 4))
        results.append((plain(out), repr(net), list(net.state_dict())))
        assert not net[0].training
    np.testing.assert_allclose(results[0][0], results[1][0], atol=1e-5)
    assert results[0][1:] == results[1][1:]


def test_the_rare_rooms_are_not_opened_at_import():
    code = "import sys, minitorch; print([m for m in sys.modules if m.startswith('minitorch.')])"
    import subprocess

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for room in ("nn", "optim", "distributions", "cuda", "amp", "testing"):
        assert f"'minitorch.{room}'" not in loaded


IN_THE_WILD = [
    'm.utils.checkpoint.checkpoint(lambda v: v*2, m.ones(2), use_reentrant=False)',
    'm.utils.data.Subset([1,2,3],[0,2])[1]',
    'm.utils.data.default_collate([(m.ones(2),1),(m.zeros(2),2)])[1]',
    'list(m.utils.data.BatchSampler(m.utils.data.SequentialSampler(range(5)),2,False))[0][1]',
    '(m.manual_seed(0), list(m.utils.data.WeightedRandomSampler([.1,.9,.3],5,replacement=True)))[1]',
    'len(m.utils.data.ConcatDataset([[1,2],[3]]))',
    'm.nn.functional.gumbel_softmax(m.zeros(3), tau=1, hard=False) if m.manual_seed(0) else 0',
    'm.nn.functional.scaled_dot_product_attention(m.ones(1,2,3),m.ones(1,2,3),m.ones(1,2,3),is_causal=True)',
    'm.nn.functional.one_hot(m.tensor([0,2]),3)',
    'm.nn.functional.pad(m.ones(1,2),(1,1),value=3)',
    'm.nn.functional.unfold(m.arange(16.).view(1,1,4,4),2)',
    'm.nn.functional.fold(m.ones(1,4,9),(4,4),2)',
    'm.nn.functional.grid_sample(m.ones(1,1,2,2), m.zeros(1,2,2,2), align_corners=False)',
    'm.nn.functional.affine_grid(m.eye(2,3)[None],(1,1,2,2),align_corners=False)',
    'm.nn.functional.normalize(m.ones(2,3),dim=1)',
    'm.nn.functional.mish(m.ones(2))',
    'm.nn.functional.glu(m.ones(2,4))',
    'm.nn.functional.softmin(m.arange(3.),dim=0)',
    "m.nn.functional.kl_div(m.zeros(2).log_softmax(0), m.ones(2)/2, reduction='batchmean')",
    'm.nn.functional.huber_loss(m.ones(2),m.zeros(2))',
    'm.nn.functional.triplet_margin_loss(m.ones(2,3),m.zeros(2,3),m.ones(2,3)*2)',
    'm.nn.functional.ctc_loss(m.zeros(5,1,3).log_softmax(2), m.tensor([[1,2]]), m.tensor([5]), m.tensor([2]))',
    'm.nn.functional.local_response_norm(m.ones(1,4,2,2),2)',
    'm.tensor(3.).item()',
    'm.ones(2,3).mean((0,1))',
    'm.ones(2,3).sum(-1).size()[0]',
    'm.arange(10)[m.tensor([1,3])]',
    'm.arange(10)[[1,3]]',
    'm.arange(12).view(3,4)[:,m.tensor([0,2])]',
    'm.arange(12).view(3,4)[m.arange(3), m.tensor([0,1,2])]',
    'm.arange(12).view(3,4)[..., None].shape[2]',
    'm.tensor([1,2,3]).float().softmax(0)',
    'm.tensor([[1,2],[3,4]]).tolist()',
    'm.ones(3).long().dtype == m.long',
    'm.zeros(3,dtype=m.bool).any()',
    'm.tensor([1.,2.]).equal(m.tensor([1.,2.]))',
    'm.tensor([1.5]).ceil().int().item()',
    'm.clamp(m.arange(4.),1,2)',
    'm.where(m.tensor([True,False]),1.,0.)',
    'm.linalg.norm(m.ones(2,2))',
    'm.linalg.svd(m.eye(2))[1]',
    'm.linalg.eigh(m.eye(2))[0]',
    'm.linalg.inv(m.eye(2)*2)',
    'm.linalg.lstsq(m.eye(2),m.ones(2,1))[0]',
    'm.special.expit(m.zeros(1))',
    'm.stack([m.ones(2)]*3).shape[0]',
    'm.vstack([m.ones(2),m.zeros(2)])',
    'm.atleast_2d(m.ones(2))',
    'm.triu_indices(3,3,1)',
    'm.cartesian_prod(m.arange(2),m.arange(2))',
    'm.combinations(m.arange(3))',
    'm.tensor_split(m.arange(5),2)[0]',
    'm.swapaxes(m.ones(2,3),0,1).shape[0]',
    'm.isin(m.arange(3),m.tensor([1]))',
    'm.logical_and(m.tensor([True]),m.tensor([False]))',
    "m.nan_to_num(m.tensor([float('nan')]))",
    'm.addmm(m.ones(2,2),m.eye(2),m.eye(2))',
    'm.baddbmm(m.ones(1,2,2),m.eye(2)[None],m.eye(2)[None])',
    'm.cumprod(m.arange(1.,4),0)',
    'm.diff(m.tensor([1,3,6]))',
    'm.flip(m.arange(3),[0])',
    'm.rot90(m.arange(4).view(2,2))',
    'm.masked_select(m.arange(4),m.arange(4)>1)',
    'm.take(m.arange(4),m.tensor([1]))',
    'm.nn.Flatten()(m.ones(2,3,4)).shape[1]',
    'm.nn.Unflatten(1,(3,4))(m.ones(2,12)).shape[2]',
    'm.nn.Bilinear(2,3,4)(m.ones(1,2),m.ones(1,3)).shape[1]',
    'm.nn.Identity()(m.ones(2))',
    'm.nn.CosineSimilarity()(m.ones(2,3),m.ones(2,3))',
    'm.nn.PairwiseDistance()(m.ones(2,3),m.zeros(2,3))',
    'm.nn.Softmax2d()(m.ones(1,2,2,2))',
    'm.nn.ZeroPad2d(1)(m.ones(1,1,2,2)).shape[3]',
    'm.nn.ReflectionPad2d(1)(m.arange(9.).view(1,1,3,3))',
    'm.nn.ReplicationPad2d(1)(m.arange(9.).view(1,1,3,3))',
    'm.nn.UpsamplingBilinear2d(scale_factor=2)(m.arange(4.).view(1,1,2,2))',
    'm.nn.RMSNorm(4)(m.arange(4.))',
    'm.nn.ParameterList([m.nn.Parameter(m.ones(2))])[0]',
    'm.nn.PReLU()(m.tensor([-1.]))',
    'm.nn.Hardtanh()(m.tensor([-2.]))',
    'm.nn.Threshold(0.1,20)(m.tensor([0.]))',
    'm.nn.MultiLabelSoftMarginLoss()(m.zeros(2,3),m.ones(2,3))',
    'm.nn.GaussianNLLLoss()(m.zeros(2),m.ones(2),m.ones(2))',
    'm.nn.PoissonNLLLoss()(m.zeros(2),m.ones(2))',
    'm.nn.utils.parameters_to_vector([m.ones(2),m.zeros(3)])',
    'm.optim.lr_scheduler.CosineAnnealingWarmRestarts(m.optim.SGD([m.nn.Parameter(m.ones(1))],lr=1.),3).get_last_lr()[0]',
    'm.optim.lr_scheduler.CyclicLR(m.optim.SGD([m.nn.Parameter(m.ones(1))],lr=1.,momentum=.9),.1,1.).get_last_lr()[0]',
    "m.optim.NAdam([m.nn.Parameter(m.ones(1))]).defaults['lr']",
    "m.optim.RAdam([m.nn.Parameter(m.ones(1))]).defaults['lr']",
    "m.optim.Rprop([m.nn.Parameter(m.ones(1))]).defaults['lr']",
    "m.optim.Adamax([m.nn.Parameter(m.ones(1))]).defaults['lr']",
    "m.optim.Adadelta([m.nn.Parameter(m.ones(1))]).defaults['lr']",
    'm.autograd.functional.vjp(lambda v: v**2, m.ones(3), m.ones(3))[1]',
    'm.detach(m.ones(2))',
    'm.is_inference_mode_enabled()',
    'm.random.manual_seed(0).initial_seed()',
    'm.nn.parameter.Parameter(m.ones(1))',
    'm.utils.data.get_worker_info() is None',
    'm.hann_window(4)',
    'm.nn.Linear(2,2).weight.data.shape[0]',
    'm.tensor([1,2,3],dtype=m.float).std().item()',
    'm.tensor(np.array([1,2])).dtype==m.int64',
    'm.ones(2,2).fill_diagonal_(5)',
    'm.ones(2).unsqueeze(-1).expand(-1,3).shape[1]',
    'm.ones(2).logical_not_()',
    'm.arange(3).float().uniform_(0,1).gt(2).sum()',
    'm.dropout(m.ones(3),0.5,False)',
    'm.nn.functional.dropout2d(m.ones(1,2,2,2),0.5,False)',
    'm.ones(3).numpy().sum()',
    'm.eye(3).trace()',
    'm.zeros(2).to(m.ones(1,dtype=m.float64)).dtype==m.float64',
    'm.empty(0).numel()',
    'm.tensor([]).shape[0]',
    'm.ones(2,3).__len__()',
    'm.numel(m.ones(2,3))',
    'm.tensor(True).item()',
    'm.sum(m.ones(2,3),dim=1)',
    'm.mean(m.ones(2,3),1,True)',
    'm.argsort(m.tensor([3,1,2]),descending=True)',
    'm.topk(m.tensor([3.,1.,2.]),2).indices',
    'm.kthvalue(m.tensor([3.,1.,2.]),2).values',
    'm.mode(m.tensor([1,1,2])).values',
    'm.unique(m.tensor([1,1,2]),return_counts=True)[1]',
    'm.nonzero(m.tensor([1,0,2]),as_tuple=True)[0]',
    'm.scatter(m.zeros(3),0,m.tensor([1]),2.)',
    'm.gather(m.arange(4.).view(2,2),1,m.tensor([[0],[1]]))',
    'm.histc(m.arange(4.),bins=2)',
    'm.bucketize(m.tensor([1.5]),m.tensor([1.,2.]))',
    'm.trapz(m.arange(3.))',
    'm.std_mean(m.arange(4.))[0]',
    'm.ger(m.ones(2),m.ones(2))',
]  # fmt: skip


@pytest.mark.parametrize("line", IN_THE_WILD)
def test_calls_seen_in_public_programs(line):
    results = []
    for library in (minitorch, torch):
        library.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if library is torch else "error")
            answer = eval(line, {"m": library, "np": np})
        results.append(plain(answer[0] if isinstance(answer, tuple) else answer))
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)


ADDRESSES = """
autograd.variable:Variable autograd.function:once_differentiable backends.cudnn:benchmark
cuda.amp:autocast,GradScaler,custom_fwd,custom_bwd distributions.categorical:Categorical
distributions.distribution:Distribution distributions.independent:Independent distributions.kl:kl_divergence
distributions.mixture_same_family:MixtureSameFamily distributions.multivariate_normal:MultivariateNormal
distributions.normal:Normal distributions.one_hot_categorical:OneHotCategorical
distributions.transformed_distribution:TransformedDistribution distributions.utils:broadcast_all,lazy_property
func:grad,vmap nn.modules:Linear,Module nn.modules.activation:MultiheadAttention,ReLU
nn.modules.batchnorm:BatchNorm2d,_BatchNorm nn.modules.container:ModuleList nn.modules.conv:Conv2d,_ConvNd
nn.modules.dropout:Dropout nn.modules.linear:Identity nn.modules.loss:_Loss,_WeightedLoss nn.modules.module:Module
nn.modules.normalization:LayerNorm nn.modules.pooling:MaxPool2d nn.modules.rnn:LSTM,RNNBase
nn.modules.sparse:Embedding nn.modules.transformer:Transformer nn.modules.utils:_pair,_triple
nn.parallel:DataParallel nn.utils.stateless:functional_call optim.lr_scheduler:LRScheduler,_LRScheduler
optim.optimizer:Optimizer,required optim.swa_utils:AveragedModel,SWALR utils.data.dataloader:DataLoader,default_collate
"""


@pytest.mark.parametrize("address", ADDRESSES.split())
def test_pytorch_s_addresses_of_things(address):
    module, _, names = address.partition(":")
    ours = importlib.import_module(f"minitorch.{module}")
    assert all(hasattr(ours, name) for name in names.split(","))
    theirs = pytest.importorskip(f"torch.{module}", reason=REASON)
    assert all(hasattr(theirs, name) for name in names.split(","))


def test_tuples_of_one_number():
    from minitorch.nn.modules import utils

    assert (utils._single(3), utils._pair(3), utils._triple([1, 2, 3])) == ((3,), (3, 3), (1, 2, 3))


def test_an_option_that_every_group_must_set():
    required = minitorch.optim.optimizer.required

    class Plain(minitorch.optim.Optimizer):
        def __init__(self, params, lr=required):
            super().__init__(params, {"lr": lr})

    weight = minitorch.zeros(1, requires_grad=True)
    assert Plain([{"params": [weight], "lr": 0.1}]).param_groups[0]["lr"] == 0.1
    with pytest.raises(ValueError, match="required optimization parameter lr"):
        Plain([weight])


def test_complex_random_numbers_and_draws_by_method():
    for name in ("rand", "randn"):
        for kind, count in (("complex64", 3), ("complex128", 20)):
            drawn = []
            for m in (minitorch, torch):
                m.manual_seed(0)
                drawn.append(np.array(getattr(m, name)(count, dtype=getattr(m, kind)).tolist()))
            np.testing.assert_allclose(*drawn, rtol=1e-5)
    drawn = []
    for m in (minitorch, torch):
        m.manual_seed(0)
        p = m.tensor([[0.2, 0.8], [0.5, 0.5]])
        drawn.append([p.multinomial(1).tolist(), p.bernoulli().tolist(), p.multinomial(3, True).tolist()])
    assert drawn[0] == drawn[1]


def test_gradients_for_several_seeds_at_once():
    for m in (minitorch, torch):
        x = m.tensor([1.0, 2.0], requires_grad=True)
        (rows,) = m.autograd.grad(x**2, x, m.eye(2), is_grads_batched=True)
        assert rows.tolist() == [[2, 0], [0, 4]]
        (slope,) = m.autograd.grad((x**2).sum(), x, only_inputs=True)
        assert slope.tolist() == [2, 4]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hop_length": 8, "win_length": 24, "window": True},
        {"center": False, "normalized": True},
        {"pad_mode": "constant", "onesided": False, "hop_length": 5, "window": True},
    ],
)
@pytest.mark.filterwarnings("ignore")  # PyTorch warns of windows that are left out
def test_short_time_fourier_transforms(options):
    signal = np.sin(np.arange(200) * 0.3).reshape(2, 100)
    results = []
    for m in (minitorch, torch):
        x = m.tensor(signal, requires_grad=True)
        given = dict(options)
        if given.pop("window", False):
            given["window"] = m.hann_window(given.get("win_length", 32), dtype=m.float64)
        spectrum = m.stft(x, 32, return_complex=True, **given)
        spectrum.abs().pow(2).sum().backward()
        back = [k for k in given if k != "pad_mode"]
        if given.get("center", True):
            again = m.istft(spectrum.detach(), 32, length=100, **{k: given[k] for k in back})
        else:
            again = m.istft(spectrum.detach(), 32, **{k: given[k] for k in back})
        parts = m.stft(x.detach()[0], 32, return_complex=False, **given)
        results.append([np.array(t.tolist()) for t in (spectrum.detach(), m.as_tensor(x.grad), again, parts)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


def test_what_short_time_fourier_transforms_refuse():
    x = minitorch.ones(64)
    with pytest.raises(RuntimeError, match="return_complex"):
        minitorch.stft(x, 16)
    with pytest.raises(RuntimeError, match="win_length"):
        minitorch.stft(x, 16, win_length=32, return_complex=True)
    with pytest.raises(RuntimeError, match="window"):
        minitorch.stft(x, 16, window=minitorch.ones(8), return_complex=True)
    with pytest.raises(RuntimeError, match="n_fft"):
        minitorch.stft(x, 128, center=False, return_complex=True)
    spectrum = minitorch.stft(x, 16, window=minitorch.hann_window(16), return_complex=True)
    with pytest.raises(RuntimeError, match="bins"):
        minitorch.istft(spectrum, 20)
    with pytest.raises(RuntimeError, match="uncovered"):
        minitorch.istft(spectrum, 16, window=minitorch.zeros(16))


def test_an_optimiser_of_two_groups_prints_as_pytorch_s():
    shown = []
    for m in (minitorch, torch):
        groups = [{"params": [m.zeros(1, requires_grad=True)], "lr": lr} for lr in (0.1, 0.2)]
        shown.append(repr(m.optim.SGD(groups, lr=0.1)))
    assert shown[0] == shown[1]


def test_flattening_one_axis_gives_the_tensor_itself():
    for library in (torch, minitorch):
        x = library.ones(3, requires_grad=True)
        assert x.flatten() is x
        assert library.ones(2, 3).flatten(1, 1).shape == (2, 3)
        assert library.tensor(2.0).flatten().shape == (1,)
