"""repr is PyTorch's, character by character; HTML for notebooks."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minitorch
from minitorch import Tensor
from minitorch.tensor import printing
from pytorch import torch

DTYPES = [np.float32, np.float64, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_]
SHAPES = [
    (), (0,), (0, 3), (2, 0), (1,), (3,), (7,), (30,), (2, 3), (3, 1), (1, 3), (2, 3, 4), (2, 2, 2, 2), (1, 1, 1, 1),
    (1000,), (1001,), (40, 40), (1000, 2), (2, 1000), (7, 8, 30), (8, 7, 40),
]  # fmt: skip
VALUES = {
    "normal": lambda rng, s: rng.standard_normal(s),
    "whole": lambda rng, s: np.arange(int(np.prod(s))).reshape(s) - int(np.prod(s)) // 2,
    "many magnitudes": lambda rng, s: 10.0 ** rng.uniform(-6, 6, s),
    "few magnitudes": lambda rng, s: 10.0 ** rng.uniform(-1, 1, s),
    "large": lambda rng, s: rng.standard_normal(s) * 1e9,
    "zeros": lambda rng, s: np.zeros(s),
    "bits": lambda rng, s: rng.integers(0, 2, s),
}


def theirs(tensor):
    return repr(tensor).replace("dtype=torch.", "dtype=")


def same(mine, other):
    """Equal; where a dtype is printed its shorter name may let a suffix stay on the line."""
    joined = lambda text: re.sub(r",\s+(dtype|requires_grad|grad_fn|size)=", r", \1=", text)
    if "dtype" in other:
        return joined(mine) == joined(other)
    return mine == other


def check(array, requires_grad=False):
    array = np.asarray(array)
    mine = repr(Tensor(array, requires_grad=requires_grad))
    other = theirs(torch.tensor(array, requires_grad=requires_grad))
    assert same(mine, other), f"\n{mine}\n{other}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_as_pytorch(dtype, shape):
    for make in VALUES.values():
        with np.errstate(all="ignore"):
            array = np.asarray(make(np.random.default_rng(0), shape)).astype(dtype)
        check(array)


SPECIAL = [
    [np.nan],
    [np.inf],
    [-np.inf],
    [np.inf, 1],
    [1.5, np.nan, -np.inf],
    [np.nan, 1e10],
    [-np.inf, np.nan],
    [0.0, 1e-5],
    [1, 1e-8],
    [1e8],
    [99999999.0, 1.0],
    [1e8 + 8, 1],
    [0.1, 1000],
    [0.1, 100],
    [0.1, 101],
    [0.001, 1.0001],
    [-0.0, 0.0],
    [1e-4],
    [9.9e-5],
    [3e38],
    [1e-45],
    [1.0, 1000.0],
    [1.0, 1001.0],
    [2.0, -3.0],
    [123456.789],
    [0.5, 12345678.0],
    [np.nan, 1.0],
    [np.inf, 0.5],
    [1e-3, 1.0],
    [1e-3, 0.9999],
    [-1.5],
]


@pytest.mark.parametrize("values", SPECIAL, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_numbers_as_pytorch(values, dtype):
    check(np.array(values, dtype=dtype))
    check(np.array(values[0], dtype=dtype))
    check(np.array([values, values[::-1]], dtype=dtype), requires_grad=True)


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.int64, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=12),
    )
)
def test_any_array_as_pytorch(array):
    if array.dtype.kind == "f":
        # PyTorch compares magnitudes by division in float64; the largest overflow there.
        array = np.where(np.abs(array) > 1e30, np.asarray(1, array.dtype), array)
    check(array)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_suffixes_as_pytorch(shape, dtype):
    array = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    check(array, requires_grad=True)
    ours, other = Tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    assert same(repr(ours * 1), theirs(other * 1))
    assert same(repr(ours.exp()), theirs(other.exp()))


@pytest.mark.parametrize("n", range(1, 40))
def test_a_suffix_breaks_the_line_where_pytorch_breaks_it(n):
    array = np.ones(n, np.float32)
    ours, other = Tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    assert repr(ours) == theirs(other)
    assert repr(ours * 1) == theirs(other * 1)


@pytest.mark.parametrize(
    "values", [1 + 2j, [1 + 2j, 3.5 - 1e-3j], [np.nan + 1j, 1 - np.inf * 1j], [[1j, 2], [3, -4j]]]
)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_as_pytorch(values, dtype):
    check(np.array(values, dtype=dtype))


def test_views_and_transposes_print_as_they_are():
    a = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    for view in (
        lambda t: t.T,
        lambda t: t[:, 1],
        lambda t: t[1:, ::2],
        lambda t: t[0].expand(2, 4) if hasattr(t, "expand") else t,
    ):
        assert repr(view(Tensor(a))) == theirs(view(torch.tensor(a)))


def test_the_default_dtype_is_not_printed():
    try:
        minitorch.set_default_dtype(np.float64)
        torch.set_default_dtype(torch.float64)
        for dtype in (np.float32, np.float64, np.complex64, np.complex128):
            check(np.array([1.5, 2.5], dtype=dtype))
    finally:
        minitorch.set_default_dtype(np.float32)
        torch.set_default_dtype(torch.float32)


# --- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"precision": 2}, {"precision": 8}, {"threshold": 5}, {"threshold": 5, "edgeitems": 1},
        {"edgeitems": 2, "threshold": 10},
        {"linewidth": 40}, {"linewidth": 200}, {"sci_mode": True}, {"sci_mode": False}, {"profile": "short"},
        {"profile": "full"}, {"profile": "default"}, {"profile": "short", "precision": 6},
    ],
)  # fmt: skip
def test_options_as_pytorch(options):
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(40),
        rng.standard_normal((8, 9)),
        10.0 ** rng.uniform(-5, 5, 12),
        np.arange(30),
        np.ones(3),
    ]
    try:
        minitorch.set_printoptions(**options)
        torch.set_printoptions(**options)
        for array in arrays:
            check(array.astype(np.float32) if array.dtype.kind == "f" else array)
    finally:
        minitorch.set_printoptions(profile="default")
        torch.set_printoptions(profile="default")


def test_an_unknown_profile_is_refused():
    with pytest.raises(ValueError, match="profile"):
        minitorch.set_printoptions(profile="colourful")


def test_options_go_back_to_the_default():
    minitorch.set_printoptions(precision=1, sci_mode=True)
    minitorch.set_printoptions(profile="default")
    assert printing._options == printing.Options()


# --- what printing must not do ------------------------------------------------------------------


def test_printing_looks_only_at_what_it_shows():
    big = Tensor(np.zeros((3000, 3000), np.float32))
    assert repr(big).count("\n") == 6
    endless = minitorch.from_numpy(
        np.broadcast_to(np.float32(1.0), (10**6, 10**6))
    )  # 4 TB, if it were written out
    assert repr(endless).startswith("tensor([[1., 1., 1.,  ..., 1., 1., 1.],")


def test_printing_hands_nothing_out():
    from minitorch.engine import watch

    x = Tensor([1.0, 2.0])
    repr(x), str(x), x._repr_html_(), f"{x}"
    assert id(x._data) not in watch.exposed


def test_str_and_format():
    x = Tensor([1.0, 2.0])
    assert str(x) == repr(x) == f"{x}" == "tensor([1., 2.])"
    assert f"{Tensor(0.125):.1e}" == "1.2e-01"


# --- HTML ---------------------------------------------------------------------------------------


def test_html_of_a_matrix_is_a_table():
    html = Tensor([[1.0, -2.5], [3.0, 4.0]], requires_grad=True)._repr_html_()
    assert re.findall(r"<td>(.*?)</td>", html) == ["1.0000", "-2.5000", "3.0000", "4.0000"]
    assert html.count("<tr>") == 2
    assert "(2, 2) float32" in html
    assert "requires grad" in html


def test_html_of_other_ranks():
    vector = Tensor([1, 2, 3])._repr_html_()
    assert re.findall(r"<td>(.*?)</td>", vector) == ["1", "2", "3"]
    for x in (
        Tensor(1.5),
        Tensor(np.zeros((2, 2, 2))),
        Tensor(np.zeros((100, 100))),
        Tensor([]),
        Tensor(np.zeros((0, 2))),
    ):
        assert "<pre>tensor(" in x._repr_html_()


def test_html_names_the_op_and_escapes_it():
    html = (Tensor([1.0], requires_grad=True) * 2)._repr_html_()
    assert "&lt;MulBackward0&gt;" in html
    assert "<MulBackward0>" not in html
