"""The engine in one file: the proof table's rows, the big library's gradients, random programs, and training."""

import gc
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch
from minitorch.app import data as grammar
from minitorch.autograd.gradcheck import GradcheckError
from minitorch.course import tensor as course
from minitorch.course.tensor import Tensor
from minitorch.proof.table import CASES
from minitorch.testing import gradcheck
from pytorch import torch
from strategies import arrays, axes_of, broadcast_pair, shapes, values
from tensors import weights

SOURCE = Path(course.__file__)


# --- the proof table ------------------------------------------------------------------------------------------------


class NotOffered(Exception):
    """The engine in one file has no such function, or not with these arguments."""


class Library:
    """The engine under the names that the table's rows use: `m.softmax(x, dim=-1)` is `x.softmax(axis=-1)`."""

    OPERATORS: ClassVar = {
        "add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__", "neg": "__neg__", "pow": "__pow__",
        "matmul": "__matmul__", "mm": "__matmul__", "mv": "__matmul__", "bmm": "__matmul__", "dot": "__matmul__",
        "amax": "max",
    }  # fmt: skip
    FUNCTIONS = ("cat", "stack", "cross_entropy")

    def __getattr__(self, name):
        def call(*arguments, **options):
            axis = {"dim": "axis", "keepdim": "keepdims"}
            options = {axis.get(key, key): value for key, value in options.items()}
            if name in self.FUNCTIONS:
                return self.run(getattr(course, name), arguments, options)
            if name == "permute":
                return arguments[0].transpose(*arguments[1])
            method = getattr(Tensor, self.OPERATORS.get(name, name), None)
            if method is None or (name == "transpose" and len(arguments) != 1 + arguments[0].data.ndim):
                raise NotOffered(name)
            return self.run(method, arguments, options)

        return call

    @staticmethod
    def run(function, arguments, options):
        if options.get("reduction") == "mean":
            del options["reduction"]
        try:
            return function(*arguments, **options)
        except TypeError as error:
            if "unexpected keyword" in str(error) or "positional argument" in str(error):
                raise NotOffered from error
            raise


OPS = [
    "add", "sub", "mul", "div", "neg", "pow", "exp", "log", "relu", "gelu", "tanh", "sum", "mean", "amax", "reshape",
    "permute", "broadcast_to", "getitem", "cat", "stack", "matmul", "softmax", "cross_entropy",
]  # fmt: skip


def run_engine(case, arrays):
    tensors = [Tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    given = [t if t.requires_grad else t.data for t in tensors]
    out = case.call(Library(), *given)
    (out * Tensor(weights(out.shape, out.data.dtype))).sum().backward()
    return out, tensors


def offered(case):
    """Whether the engine can run a row: it has what the row calls, with numbers where it takes only numbers."""
    try:
        run_engine(case, case.arrays())
    except (NotOffered, AttributeError, TypeError, IndexError):
        return False
    return True


ROWS = [pytest.param(c, id=f"{i}-{c.op}") for i, c in enumerate(CASES) if c.op in OPS and offered(c)]


def test_every_op_has_rows():
    assert {row.values[0].op for row in ROWS} == set(OPS)
    assert len(ROWS) >= 55


@pytest.mark.parametrize("case", ROWS)
def test_values_and_gradients_equal_pytorchs(case):
    for trial in range(2):
        arrays = case.arrays(trial)
        out, tensors = run_engine(case, arrays)
        references = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
        expected = case.torch(torch, *references)
        (expected * torch.tensor(weights(tuple(expected.shape)))).sum().backward()
        np.testing.assert_allclose(out.data, expected.detach().numpy(), rtol=1e-9, atol=1e-9)
        for mine, other in zip(tensors, references, strict=True):
            if other.grad is not None:
                np.testing.assert_allclose(mine.grad, other.grad.numpy(), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("case", ROWS)
def test_finite_differences_agree(case):
    arrays = case.arrays(2)
    tensors = [Tensor(a, requires_grad=True) if a.dtype.kind == "f" else a for a in arrays]
    assert gradcheck(lambda *xs: case.call(Library(), *xs), tensors)


@pytest.mark.parametrize("case", ROWS)
def test_float32_stays_float32(case):
    out, tensors = run_engine(
        case, [a.astype(np.float32) if a.dtype.kind == "f" else a for a in case.arrays(3)]
    )
    assert out.data.dtype == np.float32
    for tensor in tensors:
        if tensor.requires_grad:
            assert type(tensor.grad) is np.ndarray
            assert tensor.grad.dtype == np.float32
            assert tensor.grad.shape == tensor.shape


# --- the contract ---------------------------------------------------------------------------------------------------


def test_it_needs_numpy_alone_and_no_other_file(tmp_path):
    lone = tmp_path / "tensor.py"
    lone.write_text(SOURCE.read_text())
    program = (
        "import sys, tensor; x = tensor.Tensor([2.0], requires_grad=True); (x * x).sum().backward(); "
        "assert x.grad == 4 and not any(m.startswith(('minitorch', 'scipy')) for m in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PATH": ""}, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()


def test_it_can_be_read_in_an_evening():
    assert 300 <= len(SOURCE.read_text().splitlines()) <= 400


def test_a_node_has_the_fields_of_the_contract():
    x, c = Tensor([1.0], requires_grad=True), Tensor([2.0])
    y = x * c
    assert (y._op, y._prev, y.requires_grad, y.grad) == ("mul", (x, c), True, None)
    assert (c * c)._prev == ()
    assert not (c * c).requires_grad
    assert len({x, c, y}) == 3
    assert "made by mul" in repr(y)


def test_refusals():
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="single number"):
        x.backward()
    with pytest.raises(RuntimeError, match="requires_grad"):
        Tensor([1.0]).backward()


def test_no_grad_and_detach():
    x = Tensor([3.0], requires_grad=True)
    with pytest.raises(KeyError), course.no_grad(), course.no_grad():
        assert not (x * x).requires_grad
        raise KeyError
    with course.no_grad():
        with course.no_grad():
            pass
        assert (x * x)._prev == ()
    (x * x.detach()).sum().backward()
    assert x.grad == 3


def test_two_backwards_give_leaves_twice_the_gradient():
    x = Tensor(np.array([2.0]), requires_grad=True)
    loss = ((x * x).exp() * x).sum()
    loss.backward()
    once = x.grad
    loss.backward()
    np.testing.assert_allclose(x.grad, 2 * once)


def test_ten_thousand_nodes_in_a_row():
    x = Tensor(1.0, requires_grad=True)
    y = x
    for _ in range(10_000):
        y = y + 0.5
    y.backward()
    assert x.grad == 1
    del y
    gc.collect()


def test_ties_share_the_gradient():
    x = Tensor([2.0, 2.0, 1.0, 2.0], requires_grad=True)
    x.max().backward()
    np.testing.assert_allclose(x.grad, np.array([1, 1, 0, 1]) / 3, rtol=1e-6)


def test_large_logits_do_not_overflow():
    logits = Tensor(np.array([[1000.0, 0.0], [0.0, -1000.0]]), requires_grad=True)
    course.cross_entropy(logits, [1, 0]).backward()
    assert np.isfinite(logits.grad).all()
    assert logits.softmax().data.tolist() == [[1, 0], [1, 0]]


def test_the_librarys_gradcheck_accepts_other_classes():
    x = Tensor(np.array([0.5, 2.0]), requires_grad=True)
    assert minitorch.autograd.gradcheck(lambda t: (t * t).log(), x)
    wrong = lambda t: t * t.detach()
    assert not minitorch.autograd.gradcheck(wrong, (x,), raise_exception=False)
    with pytest.raises(GradcheckError, match="element"):
        minitorch.autograd.gradcheck(wrong, (x,))
    with pytest.raises(ValueError, match="requires_grad=True"):
        minitorch.autograd.gradcheck(wrong, (Tensor([1.0]),))


# --- random shapes --------------------------------------------------------------------------------------------------


@given(broadcast_pair(), st.sampled_from(["add", "sub", "mul", "div"]))
def test_broadcast_partners(pair, name):
    a, b = (Tensor(array, requires_grad=True) for array in pair)
    assert gradcheck(lambda x, y: getattr(Library(), name)(x, y), (a, b))


@given(arrays(min_side=1), st.data())
def test_reductions(array, data):
    axis, keepdims = data.draw(axes_of(array.ndim)), data.draw(st.booleans())
    name = data.draw(st.sampled_from(["sum", "mean", "max"]))
    assert gradcheck(lambda x: getattr(x, name)(axis, keepdims), Tensor(array, requires_grad=True))


@given(arrays(min_rank=1, min_side=1), st.data())
def test_indices_that_repeat_and_permutations(array, data):
    index = data.draw(st.lists(st.integers(-len(array), len(array) - 1), max_size=6))
    axes = data.draw(st.permutations(range(array.ndim)))
    x = Tensor(array, requires_grad=True)
    assert gradcheck(lambda t: t[np.array(index, dtype=int)], x)
    assert gradcheck(lambda t: t.transpose(*axes).reshape(-1), x)


@given(shapes(max_rank=2, max_side=3), st.integers(0, 3), st.integers(1, 4), st.integers(0, 3), st.data())
def test_matmul_of_every_rank(batch, n, k, m, data):
    left = data.draw(st.sampled_from([(k,), (n, k), (*batch, n, k)]))
    right = data.draw(st.sampled_from([(k,), (k, m), (*batch, k, m)]))
    a, b = (Tensor(values(shape, seed), requires_grad=True) for seed, shape in enumerate((left, right)))
    assert gradcheck(lambda x, y: x @ y, (a, b))


# --- the same gradients as the big library --------------------------------------------------------------------------

PROGRAMS = {
    "a diamond": lambda m, x, y: ((x * y) + (x * y).exp() * x).sum(),
    "a network": lambda m, x, y: (((x @ y.T).relu() + 1.0).log() * 2.0).mean(),
    "attention": lambda m, x, y: ((x @ y.T / 2.0).softmax(-1) @ y).tanh().sum(),
    "normalised": lambda m, x, y: (
        (x - x.mean(1, True)) / ((x - x.mean(1, True)) ** 2).mean(1, True) ** 0.5 * y[0]
    ).gelu().sum(),
    "joined": lambda m, x, y: (m.cat([x, y, x], 1)[:, [0, 0, 5]] * m.stack([x, y], 1).max()).sum(),
    "stretched": lambda m, x, y: (1.0 - x[0].broadcast_to((3, 4)) * y - 2.0 / (y * y + 1.0)).sum(),
    "a loss": lambda m, x, y: m.cross_entropy(x * y, m.Tensor(np.array([0, 3, 1]))) + (-x).sum(),
    "reshaped": lambda m, x, y: ((2.0 * x).reshape(2, 6) @ y.reshape((6, 2))).transpose(1, 0)[0].sum(),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_big_library_gives_the_same(name, dtype):
    found = []
    for library in (course, minitorch):
        rng = np.random.default_rng(7)
        x, y = (library.Tensor(rng.normal(size=(3, 4)).astype(dtype), requires_grad=True) for _ in range(2))
        loss = PROGRAMS[name](library, x, y)
        loss.backward()
        found.append([np.asarray(loss.data), x.grad, y.grad])
    tolerance = 1e-10 if dtype == np.float64 else 2e-4
    for ours, theirs in zip(*found, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance / 100)


# --- training -------------------------------------------------------------------------------------------------------


def parameters(*sizes, seed=0):
    """Weights and biases of a network with these layer sizes, scaled to keep the activations' size."""
    rng = np.random.default_rng(seed)
    for n, m in pairwise(sizes):
        yield Tensor((rng.normal(size=(n, m)) * (2 / n) ** 0.5).astype(np.float32), requires_grad=True)
        yield Tensor(np.zeros(m, np.float32), requires_grad=True)


def descend(tensors, rate):
    for p in tensors:
        p.data = p.data - rate * p.grad
        p.grad = None


def network(x, w1, b1, w2, b2):
    return (x @ w1 + b1).relu() @ w2 + b2


def test_it_learns_xor():
    x, y = Tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]]), Tensor([[0.0], [1], [1], [0]])
    ps = list(parameters(2, 8, 1))
    for _ in range(500):
        loss = ((network(x, *ps) - y) ** 2).mean()
        loss.backward()
        descend(ps, 0.1)
    assert loss.item() < 1e-3
    assert (network(x, *ps).data.round() == y.data).all()


def test_it_learns_the_cards_of_the_grammar_grid():
    """Verb and person → tense; 60 cards, each verb and person once, so that they can be known by heart."""
    questions = np.zeros((60, 23), np.float32)
    answers = np.random.default_rng(0).integers(0, 5, 60)
    for card in range(60):
        questions[card, card // 3] = questions[card, 20 + card % 3] = 1
    assert len(grammar.verbs()) == 20
    ps = list(parameters(23, 64, 5))
    for _ in range(300):
        loss = course.cross_entropy(network(Tensor(questions), *ps), answers)
        loss.backward()
        descend(ps, 0.5)
    assert (network(Tensor(questions), *ps).data.argmax(1) == answers).mean() > 0.95


def test_it_learns_digits():
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    images, labels = (digits.data / 16).astype(np.float32), digits.target
    ps = list(parameters(64, 64, 10))
    rng = np.random.default_rng(0)
    for _ in range(600):
        batch = rng.integers(0, 1400, 64)
        loss = course.cross_entropy(network(Tensor(images[batch]), *ps), labels[batch])
        loss.backward()
        descend(ps, 0.3)
    with course.no_grad():
        read = network(Tensor(images[1400:]), *ps).data.argmax(1)
    assert (read == labels[1400:]).mean() > 0.9
