"""NumPy on Tensors: ufuncs and functions are differentiable; conversions both ways; Python's protocols."""

import copy
import math
import operator
import pickle

import numpy as np
import pytest
import scipy.special

import minitorch
from minitorch import Tensor
from pytorch import torch
from tensors import leaf

A = np.array([[0.3, 0.8, 0.53], [0.9, 0.2, 0.6]])
B = np.array([[0.4, 0.7, 0.13], [0.2, 0.5, 0.35]])
SQUARE = np.array([[0.9, 0.2, 0.1], [0.3, 0.8, 0.2], [0.1, 0.4, 0.7]])


# --- functions ----------------------------------------------------------------------------------

UNARY = [
    np.exp, np.log, np.sqrt, np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.sinh, np.cosh, np.tanh,
    np.arcsinh, np.arctanh, np.log1p, np.expm1, np.log2, np.log10, np.exp2, np.square, np.absolute, np.fabs,
    np.negative, np.positive, np.reciprocal, np.sign, np.floor, np.ceil, np.trunc, np.rint, scipy.special.erf,
    scipy.special.expit,
]  # fmt: skip
BINARY = [
    np.add, np.subtract, np.multiply, np.divide, np.true_divide, np.power, np.maximum, np.minimum, np.arctan2,
    np.hypot, np.logaddexp, np.fmod, np.remainder, np.float_power,
]  # fmt: skip
FUNCTIONS = {
    "sum": lambda x: np.sum(x),
    "sum axis": lambda x: np.sum(x, axis=0),
    "sum keepdims": lambda x: np.sum(x, 1, keepdims=True),
    "mean": lambda x: np.mean(x, axis=1),
    "prod": lambda x: np.prod(x, axis=0),
    "max": lambda x: np.max(x, axis=1),
    "min": lambda x: np.min(x),
    "amax": lambda x: np.amax(x, axis=0),
    "amin": lambda x: np.amin(x, axis=0),
    "var": lambda x: np.var(x, axis=0),
    "var ddof": lambda x: np.var(x, axis=1, ddof=1),
    "std": lambda x: np.std(x),
    "cumsum": lambda x: np.cumsum(x, axis=1),
    "cumsum flat": lambda x: np.cumsum(x),
    "cumprod": lambda x: np.cumprod(x, 0),
    "reshape": lambda x: np.reshape(x, (3, 2)),
    "ravel": lambda x: np.ravel(x),
    "transpose": lambda x: np.transpose(x),
    "transpose axes": lambda x: np.transpose(x, (1, 0)),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "expand_dims": lambda x: np.expand_dims(x, 1),
    "expand_dims two": lambda x: np.expand_dims(x, (-2, -1)),
    "expand_dims mixed": lambda x: np.expand_dims(x, (0, -1)),
    "squeeze": lambda x: np.squeeze(np.expand_dims(x, 0)),
    "squeeze axis": lambda x: np.squeeze(np.expand_dims(x, 0), axis=0),
    "broadcast_to": lambda x: np.broadcast_to(x, (4, 2, 3)),
    "flip": lambda x: np.flip(x),
    "flip axis": lambda x: np.flip(x, 1),
    "roll": lambda x: np.roll(x, 1),
    "roll axis": lambda x: np.roll(x, 1, axis=1),
    "tile": lambda x: np.tile(x, (2, 1)),
    "repeat": lambda x: np.repeat(x, 2, axis=0),
    "repeat flat": lambda x: np.repeat(x, 2),
    "tril": lambda x: np.tril(x),
    "triu": lambda x: np.triu(x, 1),
    "diagonal": lambda x: np.diagonal(x),
    "diag": lambda x: np.diag(x[0]),
    "trace": lambda x: np.trace(x),
    "concatenate": lambda x: np.concatenate([x, x], axis=1),
    "concatenate with an array": lambda x: np.concatenate([x, A]),
    "stack": lambda x: np.stack([x, A], axis=1),
    "split": lambda x: np.split(x, 3, axis=1)[1],
    "split at": lambda x: np.split(x, [1], axis=1)[1],
    "take": lambda x: np.take(x, [0, 2], axis=1),
    "take flat": lambda x: np.take(x, np.array([1, 5])),
    "take_along_axis": lambda x: np.take_along_axis(x, np.array([[0], [2]]), axis=1),
    "sort": lambda x: np.sort(x, axis=1),
    "where": lambda x: np.where(A > 0.5, x, 0.0),
    "clip": lambda x: np.clip(x, 0.25, 0.7),
    "clip names": lambda x: np.clip(x, min=0.25, max=0.7),
    "round": lambda x: np.round(x, 1),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, B),
    "tensordot": lambda x: np.tensordot(x, B, ([1], [1])),
    "outer": lambda x: np.outer(x[0], B[1]),
    "dot": lambda x: np.dot(x, B.T),
    "dot vectors": lambda x: np.dot(x[0], B[0]),
    "dot 3d": lambda x: np.dot(x, np.ones((2, 3, 4))),
    "matmul": lambda x: np.matmul(x, B.T),
    "pad": lambda x: np.pad(x, 1),
    "pad widths": lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=3.0),
    "add.reduce": lambda x: np.add.reduce(x),
    "add.reduce axis": lambda x: np.add.reduce(x, axis=1, keepdims=True),
    "add.reduce all": lambda x: np.add.reduce(x, axis=None),
    "multiply.reduce": lambda x: np.multiply.reduce(x, axis=0),
    "maximum.reduce": lambda x: np.maximum.reduce(x, axis=1),
    "minimum.reduce": lambda x: np.minimum.reduce(x),
    "zeros_like": lambda x: np.zeros_like(x) + x,
    "full_like": lambda x: np.full_like(x, 2.0) * x,
    "linalg.inv": lambda x: np.linalg.inv(x @ B.T + 2 * np.eye(2)),
    "linalg.det": lambda x: np.linalg.det(x @ B.T + 2 * np.eye(2)),
    "linalg.solve": lambda x: np.linalg.solve(x @ B.T + 2 * np.eye(2), np.ones((2, 1))),
    "linalg.cholesky": lambda x: np.linalg.cholesky(x @ x.T + 2 * np.eye(2)),
    "linalg.norm": lambda x: np.linalg.norm(x),
}


def compare(f, array, atol=1e-12):
    """f on a Tensor: NumPy's values; and its gradient, by finite differences where f is smooth there."""
    x = leaf(array)
    ours, expected = f(x), f(array)
    assert isinstance(ours, Tensor)
    assert ours.shape == np.shape(expected)
    np.testing.assert_allclose(ours.detach().numpy(), expected, atol=atol)
    return x, ours


@pytest.mark.parametrize("ufunc", UNARY, ids=lambda u: u.__name__)
def test_unary_ufuncs(ufunc):
    _, y = compare(ufunc, A)
    assert y.requires_grad
    assert minitorch.gradcheck(ufunc, leaf(A))


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda u: u.__name__)
def test_binary_ufuncs(ufunc):
    expected = ufunc(A, B)
    for a, b in ((leaf(A), leaf(B)), (leaf(A), B), (A, leaf(B))):
        out = ufunc(a, b)
        assert isinstance(out, Tensor)
        np.testing.assert_allclose(out.detach().numpy(), expected)
    assert minitorch.gradcheck(ufunc, (leaf(A), leaf(B)))
    assert minitorch.gradcheck(lambda t: ufunc(A, t), leaf(B))
    np.testing.assert_allclose(ufunc(2.0, leaf(B)).detach().numpy(), ufunc(2.0, B))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    f = FUNCTIONS[name]
    _, y = compare(f, A)
    assert y.requires_grad
    assert minitorch.gradcheck(f, leaf(A))
    if name not in ("round",):
        assert minitorch.gradgradcheck(f, leaf(A))


@pytest.mark.parametrize(
    "ufunc",
    [
        np.equal,
        np.not_equal,
        np.less,
        np.less_equal,
        np.greater,
        np.greater_equal,
        np.logical_and,
        np.logical_or,
    ],
)
def test_comparisons_give_bool_tensors(ufunc):
    out = ufunc(leaf(A), B)
    assert out.dtype == np.bool_
    assert out.requires_grad is False
    np.testing.assert_array_equal(out.numpy(), ufunc(A, B))


@pytest.mark.parametrize(
    "f", [np.isnan, np.isinf, np.isfinite, np.argmax, np.argmin, lambda x: np.all(x > 0), lambda x: np.any(x > 2),
          np.count_nonzero, lambda x: np.argsort(x, axis=1), lambda x: np.argmax(x, axis=0)],
)  # fmt: skip
def test_questions_give_tensors_without_a_graph(f):
    out = f(leaf(A))
    assert isinstance(out, Tensor)
    assert out.requires_grad is False
    np.testing.assert_array_equal(out.numpy(), f(A))


def test_questions_about_the_array_itself():
    x = leaf(A)
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((2, 3), 2, 6, 3)
    assert np.array_equal(x, A) is True
    assert np.array_equal(x, B) is False
    assert np.allclose(x, A + 1e-12) is True
    assert np.isclose(x, A).numpy().all()
    nan = Tensor(np.array([np.nan]))
    assert np.array_equal(nan, nan) is False
    assert np.array_equal(nan, nan, equal_nan=True) is True
    places = np.where(x > 0.5)
    for mine, expected in zip(places, np.where(A > 0.5), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), expected)


def test_creation_like_a_tensor():
    x = leaf(A, np.float32)
    for made, expected in (
        (np.zeros_like(x), np.zeros((2, 3))),
        (np.ones_like(x), np.ones((2, 3))),
        (np.full_like(x, 7.0), np.full((2, 3), 7.0)),
        (np.zeros((2, 3), like=x), np.zeros((2, 3))),
        (np.ones(4, like=x), np.ones(4)),
    ):
        assert isinstance(made, Tensor)
        assert made.requires_grad is False
        np.testing.assert_array_equal(made.numpy(), expected)
    assert np.zeros_like(x).dtype == np.float32
    assert np.ones_like(x, dtype=np.int64).dtype == np.int64
    assert np.arange(3, like=x).tolist() == [0, 1, 2]


# --- operators with arrays ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.pow,
        operator.mod,
        operator.floordiv,
    ],
)
def test_an_array_on_either_side(op):
    t = Tensor(B)
    for out, expected in ((op(A, t), op(A, B)), (op(t, A), op(B, A))):
        assert isinstance(out, Tensor)
        np.testing.assert_allclose(out.numpy(), expected)
    x = leaf(B)
    op(A, x).sum()
    assert op(A, x).requires_grad is (op is not operator.floordiv)


def test_matmul_with_an_array_on_either_side():
    x = leaf(A)
    assert (B.T @ x).shape == (3, 3)
    assert (x @ B.T).shape == (2, 2)
    assert minitorch.gradcheck(lambda t: B.T @ t, x)


@pytest.mark.parametrize("op", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_comparing_with_an_array_on_either_side(op):
    t = Tensor(B)
    np.testing.assert_array_equal(op(A, t).numpy(), op(A, B))
    np.testing.assert_array_equal(op(t, A).numpy(), op(B, A))


def test_numpy_scalars_are_as_weak_as_python_numbers():
    x = Tensor([1.0, 2.0])
    for out in (
        x * np.float64(2.0),
        np.float64(2.0) * x,
        x + np.int64(1),
        np.float32(1.0) / x,
        x ** np.float64(2),
    ):
        assert out.dtype == np.float32
    assert (Tensor([1, 2]) * np.float64(0.5)).dtype == np.float32


# --- what is refused ----------------------------------------------------------------------------


def test_out_is_refused_where_a_graph_would_be_lost():
    x, target = leaf(A), np.zeros((2, 3))
    for call in (
        lambda: np.exp(x, out=target),
        lambda: np.add(A, x, out=target),
        lambda: operator.iadd(target, x),
        lambda: np.exp(A, out=Tensor(target)),
        lambda: np.exp(Tensor(A), out=Tensor(target)),
    ):
        with pytest.raises(RuntimeError, match="out="):
            call()
    for call in (
        lambda: np.sum(x, out=target),
        lambda: np.concatenate([x, x], out=target),
        lambda: np.clip(x, 0, 1, out=target),
        lambda: np.cumsum(x, out=target),
        lambda: np.einsum("ij->i", x, out=target),
        lambda: np.stack([x], out=target),
        lambda: np.round(x, out=target),
        lambda: np.max(x, out=target),
    ):
        with pytest.raises(TypeError, match="out"):
            call()
    assert not target.any()


def test_an_array_takes_a_constant_tensor_in_place():
    target = np.ones(3)
    target += Tensor(np.array([1.0, 2.0, 3.0]))
    assert target.tolist() == [2.0, 3.0, 4.0]
    assert type(target) is np.ndarray
    np.multiply(Tensor(np.array([2.0, 2.0, 2.0])), 3.0, out=target)
    assert target.tolist() == [6.0, 6.0, 6.0]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: np.fft.fft(x), "fft"),
        (lambda x: np.interp(x, [0, 1], [0, 1]), "interp"),
        (lambda x: np.histogram(x), "histogram"),
        (lambda x: np.median(x), "median"),
        (lambda x: np.add.accumulate(x), r"add\.accumulate"),
        (lambda x: np.multiply.outer(x, x), r"multiply\.outer"),
        (lambda x: np.add.at(x, 0, 1), r"add\.at"),
        (lambda x: np.subtract.reduce(x), r"subtract\.reduce"),
        (lambda x: np.exp(x, where=A > 0), "exp.*where"),
        (lambda x: np.exp(x, dtype=np.float32), "exp.*dtype"),
        (lambda x: np.add.reduce(x, initial=5.0), r"add\.reduce.*initial"),
        (lambda x: np.add.reduce(x, where=A > 0.5), r"add\.reduce.*where"),
        (lambda x: np.sum(x, where=A > 0.5), "sum.*where"),
        (lambda x: np.sum(x, initial=1.0), "sum.*initial"),
        (lambda x: np.max(x, initial=9.0), "max.*initial"),
        (lambda x: np.reshape(x, (3, 2), order="F"), "reshape.*order"),
        (lambda x: np.ravel(x, order="F"), "ravel.*order"),
        (lambda x: np.gcd(x, x), "gcd"),
        (lambda x: np.pad(x, 1, mode="linear_ramp"), "pad.*linear_ramp"),
        (lambda x: scipy.special.gammaln(x), "gammaln"),
    ],
)
def test_what_has_no_derivative_here_says_so(call, name):
    with pytest.raises(TypeError, match=name) as error:
        call(leaf(A))
    assert "detach().numpy()" in str(error.value) or "write" in str(error.value)


def test_a_tensor_that_needs_no_graph_converts_by_itself_where_asked():
    assert np.fft.fft(Tensor(A).numpy()).shape == (2, 3)


# --- conversions --------------------------------------------------------------------------------


def test_array():
    x = Tensor(A)
    shared = np.asarray(x)
    assert np.shares_memory(shared, x.data)
    assert not np.shares_memory(np.array(x), x.data)
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    assert np.shares_memory(np.asarray(x, copy=False), x.data)
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.float32, copy=False)
    with pytest.raises(RuntimeError, match=r"x\.detach\(\)\.numpy\(\)"):
        np.asarray(leaf(A))
    assert leaf(A).numpy(force=True).tolist() == A.tolist()
    with pytest.raises(RuntimeError, match="requires grad"):
        leaf(A).numpy()


def test_dlpack_to_and_from_others():
    x = Tensor(A)
    theirs, ours = torch.from_dlpack(x), np.from_dlpack(x)
    assert theirs.tolist() == A.tolist()
    theirs[0, 0] = 9.0
    assert x[0, 0].item() == 9.0
    assert np.shares_memory(ours, x.data)
    assert x.__dlpack_device__() == (1, 0)
    back = minitorch.from_dlpack(torch.arange(3))
    assert back.tolist() == [0, 1, 2]
    assert back.dtype == np.int64
    with pytest.raises(RuntimeError, match="detach"):
        torch.from_dlpack(leaf(A))


def test_from_numpy_shares_and_tensor_copies():
    a = A.copy()
    shared, copied = minitorch.from_numpy(a), minitorch.tensor(a)
    a[0, 0] = 5.0
    assert (shared[0, 0].item(), copied[0, 0].item()) == (5.0, 0.3)
    with pytest.raises(TypeError, match="from_numpy"):
        minitorch.from_numpy([1.0])


def test_asarray_of_a_tensor_does_not_change_it():
    x = Tensor([1.0, 2.0])
    y = minitorch.asarray(x, requires_grad=True)
    assert y.requires_grad
    assert x.requires_grad is False
    assert minitorch.asarray(x) is x


# --- Python's protocols -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda v: Tensor(v), lambda v: Tensor([[v]]), lambda v: leaf(float(v))])
def test_numbers(make):
    assert float(make(2)) == 2.0
    assert int(make(2.0)) == 2
    assert complex(make(2.0)) == 2.0 + 0j
    assert bool(make(1.0)) is True
    assert bool(make(0.0)) is False
    assert make(2.5).item() == 2.5


def test_only_one_element_is_a_number():
    x = Tensor([1.0, 2.0])
    for convert in (float, int, complex, Tensor.item):
        with pytest.raises(ValueError, match=r"one element.*\(2,\)"):
            convert(x)
    for many in (x, Tensor([])):
        with pytest.raises(RuntimeError, match="ambiguous"):
            bool(many)
    with pytest.raises(RuntimeError, match=r"any\(\) or x\.all\(\)"):
        bool(x == x)


def test_index():
    assert [10, 20, 30][Tensor(1)] == 20
    assert range(5)[Tensor(1) : Tensor(3)] == range(1, 3)
    assert operator.index(Tensor([3])) == 3
    with pytest.raises(TypeError, match="integer"):
        operator.index(Tensor(1.0))
    with pytest.raises(TypeError):
        [1, 2][Tensor(1.0)]


def test_math_functions_take_scalars():
    assert math.sqrt(Tensor(4.0)) == 2.0
    assert round(float(Tensor(2.7))) == 3
    assert f"{Tensor(2.5):.2f}" == "2.50"
    assert f"{Tensor(3):03d}" == "003"
    assert format(Tensor([1.0]), "") == "tensor([1.])"


def test_length_and_iteration():
    x = leaf(A)
    assert len(x) == 2
    rows = list(x)
    assert [r.shape for r in rows] == [(3,), (3,)]
    assert all(r.requires_grad for r in rows)
    (rows[0] * 2 + rows[1]).sum().backward()
    assert x.grad.tolist() == [[2.0] * 3, [1.0] * 3]
    _, second = x
    assert second.tolist() == A[1].tolist()
    assert [t.item() for t in Tensor([1, 2, 3])] == [1, 2, 3]
    assert list(Tensor(np.zeros((0, 2)))) == []
    with pytest.raises(TypeError, match="0-d"):
        len(Tensor(1.0))
    with pytest.raises(TypeError, match="0-d"):
        iter(Tensor(1.0))


def test_unpacking_zipping_and_reversing():
    x = Tensor([[1, 2], [3, 4]])
    assert [row.tolist() for row in reversed(x)] == [[3, 4], [1, 2]]
    assert [(a.item(), b) for (a, _), b in zip(x, "xy", strict=True)] == [(1, "x"), (3, "y")]


def test_contains():
    assert 2.0 in Tensor([1.0, 2.0])
    assert 3.0 not in Tensor([1.0, 2.0])


def test_copy_shares_and_deepcopy_does_not():
    x = leaf([1.0, 2.0])
    (x * 2).sum().backward()
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    assert np.shares_memory(shallow.data, x.data)
    assert not np.shares_memory(deep.data, x.data)
    assert deep.requires_grad
    assert deep.grad.tolist() == [2.0, 2.0]
    deep.grad[0] = 9.0
    assert x.grad.tolist() == [2.0, 2.0]
    (deep * 3).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="only leaves"):
        copy.deepcopy(x * 2)


def test_deepcopy_keeps_shared_things_shared():
    x = leaf([1.0])
    a, b = copy.deepcopy([x, x])
    assert a is b
    assert a is not x


def test_a_shallow_copy_of_a_result_keeps_its_graph():
    x = leaf([2.0])
    y = copy.copy(x * x)
    y.sum().backward()
    assert x.grad.tolist() == [4.0]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol):
    x = leaf(A, np.float32)
    y = pickle.loads(pickle.dumps(x, protocol))
    assert isinstance(y, Tensor)
    assert (y.dtype, y.requires_grad, y.tolist()) == (x.dtype, True, x.tolist())
    z = pickle.loads(pickle.dumps(Tensor([1, 2]), protocol))
    assert (z.dtype, z.requires_grad) == (np.int64, False)
    with pytest.raises(RuntimeError, match="only leaves"):
        pickle.dumps(x * 2, protocol)
