"""For all shapes, axes and partners that hypothesis draws: PyTorch's values, finite differences' slopes."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import minitorch
from minitorch.autograd import gradcheck
from minitorch.ops import unbroadcast
from pytorch import torch
from strategies import arrays, axes_of, broadcast_pair, shapes, values
from tensors import weights

# Moved into each function's domain by `prepare`.
UNARY = {
    "exp": None, "sin": None, "cos": None, "tanh": None, "sigmoid": None, "relu": None, "abs": None,
    "neg": None, "square": None, "erf": None, "expm1": None, "atan": None, "sinh": None, "floor": None, "sign": None,
    "log": "positive", "sqrt": "positive", "rsqrt": "positive", "reciprocal": None, "log1p": "positive",
}  # fmt: skip
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "atan2", "hypot", "logaddexp"]
REDUCTIONS = ["sum", "mean", "amax", "amin", "logsumexp", "var", "std", "norm"]


def prepare(array, domain):
    return np.absolute(array) + 0.1 if domain == "positive" else array


def compare(function, *inputs, torch_function=None, rtol=1e-9):
    """The same function on both libraries: values and gradients."""
    ours = [minitorch.tensor(a, requires_grad=True) for a in inputs]
    theirs = [torch.tensor(a, requires_grad=True) for a in inputs]
    mine = function(minitorch, *ours)
    other = (torch_function or function)(torch, *theirs)
    assert mine.shape == tuple(other.shape)
    np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=rtol, atol=1e-10)
    start = weights(mine.shape)
    mine.backward(start)
    other.backward(torch.tensor(start))
    for a, b in zip(ours, theirs, strict=True):
        if b.grad is None:
            assert a.grad is None
            continue
        assert a.grad.shape == a.shape
        np.testing.assert_allclose(a.grad, b.grad.numpy(), rtol=1e-7, atol=1e-9)


@given(arrays(), st.sampled_from(sorted(UNARY)))
def test_unary(array, name):
    compare(lambda m, x: getattr(m, name)(x), prepare(array, UNARY[name]))


@given(broadcast_pair(), st.sampled_from(BINARY))
def test_binary_with_broadcasting(pair, name):
    compare(lambda m, x, y: getattr(m, name)(x, y), *pair)


@given(broadcast_pair())
def test_where_with_broadcasting(pair):
    condition = pair[0] > 0
    library_condition = {minitorch: minitorch.tensor(condition), torch: torch.tensor(condition)}
    compare(lambda m, x, y: m.where(library_condition[m], x, y), *pair)


@given(arrays(), st.data(), st.sampled_from(REDUCTIONS), st.booleans())
@pytest.mark.filterwarnings("ignore:.*degrees of freedom:UserWarning")
def test_reductions(array, data, name, keepdims):
    axis = data.draw(axes_of(array.ndim))
    if 0 in array.shape and name in ("amax", "amin", "logsumexp", "var", "std"):
        assume(False)
    twin = "vector_norm" if name == "norm" else name
    every = tuple(range(array.ndim)) if axis is None else axis
    compare(
        lambda m, x: getattr(m, name)(x, axis=axis, keepdims=keepdims),
        array,
        torch_function=lambda t, x: getattr(t.linalg if name == "norm" else t, twin)(
            x, dim=every, keepdim=keepdims
        ),
    )


@given(arrays(min_rank=1), st.data(), st.sampled_from(["softmax", "log_softmax", "cumsum", "cumprod"]))
def test_along_an_axis(array, data, name):
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    compare(lambda m, x: getattr(m, name)(x, dim=axis), array, rtol=1e-8)


@given(arrays(min_rank=1), st.data(), st.sampled_from(["max", "min", "sort", "median"]))
def test_values_along_an_axis(array, data, name):
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    assume(array.shape[axis] > 0)
    compare(lambda m, x: getattr(m, name)(x, dim=axis)[0], array)


@given(arrays(), st.data())
def test_permute_reshape_expand(array, data):
    order = data.draw(st.permutations(range(array.ndim)))
    front = data.draw(st.integers(1, 3))
    flat = array.size

    def function(m, x):
        moved = x.permute(*order) if array.ndim else x
        return moved.reshape(1, flat).expand(front, flat).T

    compare(function, array)


@given(arrays(min_rank=1, max_rank=3), st.data())
def test_flip_roll_and_pieces(array, data):
    axis = data.draw(st.integers(0, array.ndim - 1))
    shift = data.draw(st.integers(-5, 5))
    assume(array.shape[axis] > 0)
    pieces = data.draw(st.integers(1, 4))

    def function(m, x):
        parts = m.chunk(m.roll(m.flip(x, (axis,)), shift, axis), pieces, dim=axis)
        return m.cat([parts[-1], *parts], dim=axis)

    compare(function, array)


@st.composite
def matmul_operands(draw):
    batch = draw(shapes(max_rank=2, max_side=3))
    m, k, n = (draw(st.integers(0, 5)) for _ in range(3))
    left = draw(st.sampled_from([(k,), (m, k), (*batch, m, k)]))
    right = draw(st.sampled_from([(k,), (k, n), (*batch, k, n), (*((1,) * len(batch)), k, n)]))
    return values(left, draw(st.integers(0, 999))), values(right, draw(st.integers(0, 999)))


@given(matmul_operands())
def test_matmul_of_all_ranks(pair):
    compare(lambda m, x, y: m.matmul(x, y), *pair)


@given(arrays(max_rank=3, max_side=3, max_size=12), st.sampled_from(sorted(UNARY)))
def test_gradcheck_of_unary_ops(array, name):
    x = minitorch.tensor(prepare(array, UNARY[name]), requires_grad=True)
    assert gradcheck(getattr(minitorch, name), x)


@given(broadcast_pair(), st.sampled_from(BINARY))
def test_gradcheck_of_binary_ops(pair, name):
    assume(max(a.size for a in pair) <= 12 and np.prod(np.broadcast_shapes(*(a.shape for a in pair))) <= 36)
    x, y = (minitorch.tensor(a, requires_grad=True) for a in pair)
    if name in ("maximum", "minimum"):
        assume(np.absolute(np.subtract(*pair)).min(initial=1) > 1e-3)
    assert gradcheck(getattr(minitorch, name), (x, y))


@given(broadcast_pair())
def test_unbroadcast_undoes_broadcasting(pair):
    small, other = pair
    stretched = np.broadcast_to(small, np.broadcast_shapes(small.shape, other.shape))
    g = weights(stretched.shape)
    # ⟨g, broadcast(x)⟩ = ⟨unbroadcast(g), x⟩: it is the adjoint of broadcasting.
    back = unbroadcast(g, small.shape)
    assert back.shape == small.shape
    np.testing.assert_allclose((g * stretched).sum(), (back * small).sum(), atol=1e-9)


# --- whole programs -----------------------------------------------------------------------------


@st.composite
def programs(draw):
    """A random program: a list of steps, each on results of earlier ones."""
    sides = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    steps = []
    for _ in range(draw(st.integers(2, 14))):
        kind = draw(
            st.sampled_from(["unary", "binary", "reduce", "matmul", "transpose", "index", "broadcast"])
        )
        steps.append((kind, draw(st.integers(0, 99)), draw(st.integers(0, 99)), draw(st.integers(0, 99))))
    return sides, steps


def run_program(m, steps, *inputs):
    results = list(inputs)
    for kind, a, b, c in steps:
        x, y = results[a % len(results)], results[b % len(results)]
        if kind == "unary":
            out = getattr(m, ["tanh", "sin", "sigmoid", "relu", "abs", "exp"][c % 6])(x)
            out = m.clamp(out, -3.1234, 3.1234)
        elif kind == "binary":
            out = [x + y, x * y, x - y, m.maximum(x, y)][c % 4] if x.shape == y.shape else x * 0.5
        elif kind == "reduce":
            out = [x.sum(dim=0, keepdim=True), x.mean(dim=1, keepdim=True), m.softmax(x, dim=c % 2)][c % 3]
        elif kind == "matmul":
            out = m.tanh(x @ y) if x.shape[1] == y.shape[0] else m.tanh(x @ x.T)
        elif kind == "transpose":
            out = x.T
        elif kind == "index":
            out = m.cat([x[: c % x.shape[0] + 1], x[-1:]], dim=0)
        else:
            out = x[:1].expand(c % 3 + 1, x.shape[1])
        results.append(out)
    total = results[-1].sum()
    for r in results[len(inputs) :]:
        total = total + (r * r).mean()
    return total


@given(programs(), st.integers(0, 999))
def test_random_programs(program, seed):
    (rows, columns), steps = program
    compare(
        lambda m, x, y: run_program(m, steps, x, y),
        values((rows, columns), seed),
        values((columns, rows), seed + 1),
    )
