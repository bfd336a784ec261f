"""What goes wrong, and what a person is told: the exception's type, the operation's name, what met, what to write."""

import math
import re

import numpy as np
import pytest

import minitorch

m = minitorch


def freed():
    loss = (m.ones(2, requires_grad=True) * 2).sum()
    loss.backward()
    return loss


@m.no_grad()
def unrecorded():
    return (m.ones(2, requires_grad=True) * 2).sum()


# call, exception, what the message must name: the operation, what met, and what to write instead.
CONVENTIONS = [
    # shapes that do not fit
    (lambda: m.ones(2, 3) + m.ones(2, 4), RuntimeError, ["add", "(2, 3)", "(2, 4)", "broadcast", "unsqueeze"]),
    (lambda: m.maximum(m.ones(3), m.ones(2)), RuntimeError, ["maximum", "(3,)", "(2,)", "broadcast"]),
    (lambda: m.where(m.ones(3) > 0, m.ones(2), 0.0), RuntimeError, ["where", "(3,)", "(2,)", "broadcast"]),
    (lambda: m.ones(2, 3) @ m.ones(2, 3), RuntimeError, ["matmul", "(2, 3)", "x.mT @ y or x @ y.mT"]),
    (lambda: m.ones(3) @ m.ones(4), RuntimeError, ["matmul", "(3,)", "(4,)", "equal lengths", "outer(x, y)"]),
    (lambda: m.ones(3, 4) @ m.ones(3), RuntimeError, ["matmul", "(3, 4)", "(3,)", "fit: x.mT @ y"]),
    (lambda: m.ones(3) @ m.ones(4, 3), RuntimeError, ["matmul", "(3,)", "(4, 3)", "fit: x @ y.mT"]),
    (lambda: m.ones(2).relu(4), TypeError, ["Tensor.relu()"]),
    (lambda: m.ones(2).sum(axes=0), TypeError, ["Tensor.sum()", "'axes'"]),
    (lambda: m.ones(3) @ m.tensor(1.0), RuntimeError, ["matmul", "()", "x * y"]),
    (lambda: m.ones(2, 2, 3) @ m.ones(3, 3, 2), RuntimeError, ["matmul", "(2, 2, 3)", "(3, 3, 2)"]),
    (lambda: m.ones(2, 3).bmm(m.ones(2, 3)), RuntimeError, ["bmm", "3 axes", "(2, 3)"]),
    (lambda: m.ones(2, 2, 3).bmm(m.ones(3, 3, 2)), RuntimeError, ["bmm", "2", "3", "matmul"]),
    (lambda: m.ones(2, 3).dot(m.ones(3)), RuntimeError, ["dot", "1 axis", "(2, 3)"]),
    (lambda: m.ones(2, 3).reshape(4), RuntimeError, ["reshape", "(2, 3)", "(4,)"]),
    (lambda: m.ones(2, 3).view(-1, -1), RuntimeError, ["view", "only one length may be -1"]),
    (lambda: m.ones(2, 3).expand(3, 3), RuntimeError, ["broadcast_to", "(2, 3)", "(3, 3)"]),
    (lambda: m.ones(2, 3).expand(3), RuntimeError, ["expand", "(2, 3)", "(3,)"]),
    (lambda: m.cat([m.ones(2, 3), m.ones(2, 4)]), RuntimeError, ["cat", "(2, 3)", "(2, 4)", "stack"]),
    (lambda: m.cat([m.tensor(1.0), m.tensor(2.0)]), RuntimeError, ["cat", "0-d", "stack"]),
    (lambda: m.stack([m.ones(2), m.ones(3)]), RuntimeError, ["stack", "(2,)", "(3,)"]),
    (lambda: m.einsum("ij,jk->ik", m.ones(2, 3), m.ones(4, 5)), RuntimeError, ["einsum", "'j'", "3", "4"]),
    (lambda: m.einsum("ij->k", m.ones(2, 3)), RuntimeError, ["einsum", "ij->k"]),
    (lambda: m.einsum("ij,jk", m.ones(2, 3)), RuntimeError, ["einsum", "2 operands", "1"]),
    (lambda: m.tensordot(m.ones(2, 3), m.ones(2, 3), 1), RuntimeError, ["tensordot", "(2, 3)"]),
    (lambda: m.broadcast_tensors(m.ones(2), m.ones(3)), RuntimeError, ["broadcast_tensors", "(2,)", "(3,)"]),
    (lambda: m.ones(2).masked_select(m.ones(3) > 0), RuntimeError, ["masked_select", "(2,)", "(3,)"]),
    (lambda: m.ones(2, 3).permute(0, 0), RuntimeError, ["permute", "(0, 0)", "twice"]),
    (lambda: m.ones(2, 3).split([1, 3]), RuntimeError, ["split", "[1, 3]", "2"]),
    (lambda: m.ones(2, 3).unfold(1, 4, 1), RuntimeError, ["unfold", "4", "3"]),
    (lambda: m.ones(2, 3).topk(4), RuntimeError, ["topk", "4", "3"]),
    (lambda: m.ones(2, 3).gather(0, m.tensor([0])), RuntimeError, ["gather", "(1,)", "(2, 3)"]),
    (lambda: m.ones(2, 3).scatter_add(0, m.tensor([[0, 0]]), m.ones(1, 1)), RuntimeError, ["scatter_add", "(1, 2)", "(1, 1)"]),
    (lambda: m.ones(2, 3).index_add(0, m.tensor([0]), m.ones(2, 3)), RuntimeError, ["index_add", "(1, 3)", "(2, 3)"]),
    (lambda: m.pad(m.ones(2), (1, 1, 1)), RuntimeError, ["pad", "(1, 1, 1)", "pairs"]),
    (lambda: m.ones(3).squeeze((0, 0)), RuntimeError, ["squeeze", "twice"]),
    (lambda: m.linalg.inv(m.ones(2, 3)), RuntimeError, ["inv", "(2, 3)", "pinv"]),
    (lambda: m.linalg.inv(m.ones(2, 2)), RuntimeError, ["inv", "singular", "pinv"]),
    (lambda: m.linalg.cholesky(-m.eye(2)), RuntimeError, ["cholesky", "positive definite", "identity"]),
    (lambda: m.linalg.solve(m.eye(2), m.ones(3, 1)), RuntimeError, ["solve", "2", "3"]),
    (lambda: m.linalg.inv(m.ones(2, 2, dtype=np.float16)), RuntimeError, ["inv", "float16", "x.float()"]),
    # backward
    (lambda: (m.ones(2, requires_grad=True) * 2).backward(), RuntimeError, ["backward", "(2,)", "sum", "gradient="]),
    (lambda: freed().backward(), RuntimeError, ["backward", "retain_graph=True"]),
    (lambda: m.ones(()).backward(), RuntimeError, ["backward", "requires_grad=True"]),
    (lambda: unrecorded().backward(), RuntimeError, ["backward", "computed under no_grad()", "outside no_grad()"]),
    (lambda: m.autograd.grad(unrecorded(), m.ones(1)), RuntimeError, ["grad: output 0", "under no_grad()"]),
    (lambda: m.autograd.backward([unrecorded()]), RuntimeError, ["backward: tensor 0", "under no_grad()"]),
    (lambda: (m.ones(2, requires_grad=True) * 2).backward(m.ones(3)), RuntimeError, ["backward", "(3,)", "(2,)"]),
    (lambda: m.linalg.qr(m.ones(3, 2, requires_grad=True), "complete").R.sum().backward(), RuntimeError, ["qr", "complete", "reduced"]),
    # requires_grad on integers
    (lambda: m.tensor([1], requires_grad=True), RuntimeError, ["requires_grad", "int64", "x.float()"]),
    (lambda: m.tensor([True]).requires_grad_(), RuntimeError, ["requires_grad", "bool", "x.float()"]),
    (lambda: m.zeros(2, dtype=np.int32, requires_grad=True), RuntimeError, ["requires_grad", "int32"]),
    # writing into a graph
    (lambda: m.ones(2, requires_grad=True).add_(1), RuntimeError, ["x.add_(y)", "x = x + y", "no_grad"]),
    (lambda: m.ones(2, requires_grad=True).__setitem__(0, 1.0), RuntimeError, ["x[key] = value", "where", "no_grad"]),
    (lambda: m.ones(2, requires_grad=True).__iadd__(1), RuntimeError, ["x += y", "x = x + y"]),
    (lambda: m.tensor([1, 2]).__iadd__(0.5), RuntimeError, ["x += y", "int64", "float32"]),
    (lambda: m.ones(2).__imul__(m.ones(3, 2)), RuntimeError, ["x *= y", "(3, 2)", "(2,)"]),
    (lambda: m.ones(1).expand(3).zero_(), RuntimeError, ["x.clone()"]),
    # truth of many, dtypes
    (lambda: bool(m.ones(2) > 0), RuntimeError, ["truth value", "(2,)", "x.any() or x.all()"]),
    (lambda: m.tensor([1, 2]).mean(), RuntimeError, ["mean", "int64", "x.float()"]),
    (lambda: m.tensor([True]).std(), RuntimeError, ["std", "bool", "x.float()"]),
    (lambda: -m.tensor([True]), RuntimeError, ["neg", "bool", "~x"]),
    (lambda: m.tensor([True]) - m.tensor([False]), RuntimeError, ["sub", "bool"]),
    (lambda: 1 - m.tensor([True]), RuntimeError, ["sub", "bool", "~x"]),
    (lambda: ~m.ones(2), RuntimeError, ["bitwise_not", "float32"]),
    (lambda: m.ones(2) & 1, RuntimeError, ["bitwise_and", "float32"]),
    (lambda: m.tensor([2]) ** -1, RuntimeError, ["pow", "negative", "x.float()"]),
    (lambda: m.tensor([2]) // 0, RuntimeError, ["zero", "x.float()"]),
    (lambda: m.ones(2).gather(0, m.ones(1)), RuntimeError, ["gather", "float32", "index.long()"]),
    (lambda: m.ones(2).scatter(0, m.tensor([0]), m.ones(1, dtype=np.float64)), RuntimeError, ["scatter", "float64", "float32"]),
    (lambda: m.ones(2).masked_fill(m.tensor([1, 0]), 0), RuntimeError, ["masked_fill", "int64", "mask.bool()"]),
    (lambda: m.tensor([1, 2]).masked_fill(m.tensor([True, False]), math.inf), RuntimeError, ["masked_fill", "inf", "int64"]),
    (lambda: m.add(m.tensor([1]), m.tensor([1]), alpha=0.5), RuntimeError, ["add", "alpha", "0.5"]),
    (lambda: m.max(m.zeros(0)), RuntimeError, ["max", "(0,)"]),
    (lambda: m.div(m.ones(2), 2, rounding_mode="up"), RuntimeError, ["div", "'up'", "'trunc' or 'floor'"]),
    (lambda: m.gelu(m.ones(2), approximate="x"), RuntimeError, ["gelu", "'x'", "'none' or 'tanh'"]),
    (lambda: m.clamp(m.ones(2)), RuntimeError, ["clamp", "min and max"]),
    # out of range
    (lambda: m.ones(2)[2], IndexError, ["getitem", "(2,)", "2"]),
    (lambda: m.ones(2, 3)[0, 0, 0], IndexError, ["getitem", "(2, 3)"]),
    (lambda: m.ones(2)[m.tensor([5])], IndexError, ["getitem", "5"]),
    (lambda: m.ones(2)[m.ones(1)], IndexError, ["getitem", "float32"]),
    (lambda: m.ones(2, 3).sum(2), IndexError, ["sum", "axis 2", "-2 to 1"]),
    (lambda: m.ones(2, 3).transpose(0, 2), IndexError, ["axis 2", "-2 to 1"]),
    (lambda: m.ones(2, 3).unsqueeze(4), IndexError, ["unsqueeze", "axis 4", "-3 to 2"]),
    (lambda: m.softmax(m.ones(2), 1), IndexError, ["softmax", "axis 1"]),
    (lambda: m.ones(2).gather(0, m.tensor([2])), IndexError, ["gather", "index 2", "length 2"]),
    (lambda: m.ones(2).index_select(0, m.tensor([-3])), IndexError, ["index_select", "-3", "length 2"]),
    (lambda: m.zeros(2, 0).argmax(1), IndexError, ["argmax", "(2, 0)"]),
    (lambda: m.cross_entropy(m.ones(2, 3), m.tensor([0, 3])), IndexError, ["cross_entropy", "3", "0 to 2"]),
    # ValueErrors
    (lambda: m.ones(2).item(), ValueError, ["item", "(2,)", "tolist"]),
    (lambda: float(m.ones(2)), ValueError, ["float(x)", "(2,)"]),
    (lambda: m.cross_entropy(m.ones(2, 3), m.tensor([0]), reduction="all"), ValueError, ["cross_entropy", "'all'", "'mean'"]),
    (lambda: m.cross_entropy(m.ones(2, 3), m.tensor([0])), ValueError, ["cross_entropy", "(2, 3)", "(2,)", "(1,)"]),
    (lambda: m.cat([]), ValueError, ["cat", "non-empty"]),
    # wrong types
    (lambda: m.ones(2) + "a", TypeError, ["add", "str"]),
    (lambda: m.ones(2) * None, TypeError, ["mul", "NoneType"]),
    (lambda: m.ones(2) ** object(), TypeError, ["pow", "object"]),
    (lambda: m.ones(2) < "a", TypeError, ["lt", "str"]),
    (lambda: m.ones(2) @ "a", TypeError, ["matmul", "str"]),
    (lambda: m.ones(2) // "a", TypeError, ["str"]),
    (lambda: m.ones(2)["a"], TypeError, ["getitem", "'a'"]),
    (lambda: m.ones(2).sum("a"), TypeError, ["sum", "axis", "'a'"]),
    (lambda: m.ones(2).sum(axis=0, dim=0), TypeError, ["axis and dim"]),
    (lambda: m.softmax(m.ones(2)), TypeError, ["softmax", "axis"]),
    (lambda: m.ones(2).reshape(1.5), TypeError, ["reshape", "1.5"]),
    (lambda: m.cat(m.ones(2)), TypeError, ["cat", "list", "cat([x, y])"]),
    (lambda: len(m.tensor(1.0)), TypeError, ["0-d"]),
    (lambda: m.exp("a"), TypeError, ["exp", "str"]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "says"), CONVENTIONS)
def test_the_type_and_the_words_of_an_error(call, error, says):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, error)
    if error is RuntimeError:
        assert not isinstance(caught.value, RecursionError)
    message = str(caught.value)
    for words in says:
        assert words in message, f"{words!r} is not in: {message}"


@pytest.mark.parametrize("name", ["eq", "ne"])
def test_equality_with_none_and_text_is_pythons_own(name):
    x = m.ones(2)
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True
    with pytest.raises(TypeError, match=name):
        getattr(x, name)("a")


# --- wrong types, everywhere --------------------------------------------------------------------

X, SQUARE, INDEX = m.ones(2, 3), m.eye(3), m.tensor([[0]])
VALID = {
    "add": (X, 1.0), "div": (X, 2.0), "pow": (X, 2.0), "maximum": (X, X), "lerp": (X, X, 0.5), "clamp": (X, 0.0, 1.0),
    "where": (X > 0, X, X), "isclose": (X, X), "allclose": (X, X), "equal": (X, X), "sum": (X, 0), "mean": (X, 0), "prod": (X, 0),
    "max": (X, 0), "amax": (X, 0), "argmax": (X, 0), "median": (X, 0), "var": (X, 0), "norm": (X, 2, 0), "logsumexp": (X, 0),
    "all": (X, 0), "count_nonzero": (X, 0), "cumsum": (X, 0), "sort": (X, 0), "argsort": (X, 0), "topk": (X, 1, 0),
    "softmax": (X, 0), "reshape": (X, (6,)), "flatten": (X, 0, 1), "unflatten": (X, 0, (1, 2)), "transpose": (X, 0, 1),
    "permute": (X, (1, 0)), "movedim": (X, 0, 1), "squeeze": (X, 0), "unsqueeze": (X, 0), "broadcast_to": (X, (2, 2, 3)),
    "diagonal": (X, 0, 0, 1), "diag": (X, 0), "diag_embed": (X, 0, -2, -1), "split": (X, 1, 0), "chunk": (X, 2, 0),
    "unbind": (X, 0), "narrow": (X, 0, 0, 1), "select": (X, 0, 0), "tile": (X, (2,)), "repeat_interleave": (X, 2, 0),
    "flip": (X, (0,)), "roll": (X, 1, 0), "tril": (X, 0), "triu": (X, 0), "pad": (X, (1, 1), "constant", 0.0),
    "gather": (X, 0, INDEX), "take_along_dim": (X, INDEX, 0), "scatter": (X, 0, INDEX, 1.0), "index_select": (X, 0, INDEX[0]),
    "scatter_add": (X, 0, INDEX, m.ones(1, 1)), "index_add": (X, 0, INDEX[0], m.ones(1, 3)), "masked_fill": (X, X > 0, 1.0),
    "masked_select": (X, X > 0), "matmul": (X, SQUARE), "dot": (X[0], X[0]), "mm": (X, SQUARE), "mv": (X, X[0]),
    "bmm": (X[None], SQUARE[None]), "outer": (X[0], X[0]), "einsum": ("ij,jk->ik", X, SQUARE), "tensordot": (X, SQUARE, 1),
    "cat": ([X, X], 0), "stack": ([X, X], 0), "broadcast_tensors": (X, X), "cross_entropy": (X, m.tensor([0, 1])),
    "trace": (SQUARE,), "det": (SQUARE,), "exp": (X,), "relu": (X,), "floor": (X,), "logical_not": (X,), "eq": (X, X),
    "bitwise_and": (m.tensor([1]), 1), "atan2": (X, X), "hypot": (X, X), "fmod": (X, X), "remainder": (X, X),
    "floor_divide": (X, X), "logaddexp": (X, X), "leaky_relu": (X, 0.1), "elu": (X, 1.0), "softplus": (X, 1.0, 20.0),
    "zeros": (2,), "full": ((2,), 1.0), "eye": (2, 2), "arange": (0, 3, 1), "linspace": (0, 1, 3), "one_hot": (INDEX, 2),
    "zeros_like": (X,), "full_like": (X, 1.0), "tensor": ([1.0],), "as_tensor": ([1.0],), "from_numpy": (np.ones(2),),
    "linalg.inv": (SQUARE,), "linalg.solve": (SQUARE, SQUARE), "linalg.cholesky": (SQUARE,), "linalg.eigh": (SQUARE, "L"),
    "linalg.svd": (SQUARE,), "linalg.matrix_power": (SQUARE, 2), "linalg.norm": (SQUARE, 2, 0), "linalg.lstsq": (SQUARE, SQUARE),
    "linalg.vector_norm": (SQUARE, 2, 0), "linalg.matrix_norm": (SQUARE, 2, (0, 1)),
}  # fmt: skip
WRONG = {"text": "a", "an object": object(), "a dict": {}, "a set": {1}, "a function": len, "bytes": b"a"}


@pytest.mark.parametrize("name", VALID)
def test_an_argument_of_a_wrong_type(name):
    function = m
    for part in name.split("."):
        function = getattr(function, part)
    function(*VALID[name])
    for position, (kind, value) in ((p, w) for p in range(len(VALID[name])) for w in WRONG.items()):
        arguments = [value if i == position else a for i, a in enumerate(VALID[name])]
        # An unknown word among known ones is a wrong value, not a wrong type.
        expected = (
            (TypeError, RuntimeError)
            if isinstance(VALID[name][position], str) or "norm" in name
            else TypeError
        )
        with pytest.raises(expected) as caught:
            function(*arguments)
        message = str(caught.value)
        word = "norm" if "norm" in name else rf"\b{name.split('.')[-1]}\b"
        assert re.search(rf"{word}|tensor", message), f"{kind} as argument {position}: {message}"


def test_a_refused_operation_leaves_nothing_half_done():
    x = m.arange(6.0).reshape(2, 3)
    before = x.numpy().copy()
    grown = m.ones(2, requires_grad=True)
    for call in (
        lambda: x.add_(m.ones(5)), lambda: x.mul_("a"), lambda: x.copy_(m.ones(4)), lambda: x.fill_("a"), lambda: x.fill_(None),
        lambda: x.index_add(0, m.tensor([0, 9]), m.ones(2, 3)), lambda: x.scatter(0, m.tensor([[0], [9]]), 5.0),
    ):  # fmt: skip
        with pytest.raises((RuntimeError, TypeError, IndexError)):
            call()
        np.testing.assert_array_equal(x.numpy(), before)
    loss = (grown * 3).sum()
    with pytest.raises(RuntimeError):
        loss.backward(m.ones(3))
    assert grown.grad is None
    loss.backward()
    assert grown.grad.tolist() == [3, 3]
