"""Tensors from nothing and from other people's data: values, dtypes, refusals, who shares memory with whom."""

import numpy as np
import pytest

import minitorch
from pytorch import torch
from same_as_torch import agree, line


def table(text):
    return [entry for row in text.strip().splitlines() for entry in row.split("; ") if entry]


MADE = table("""
m.arange(5); m.arange(5.0); m.arange(2, 5); m.arange(2, 5, 2); m.arange(0, 1, 0.1); m.arange(0, 1, 0.3); m.arange(5, 0, -1)
m.arange(5, 0); m.arange(0, 5, -1); m.arange(0, 5, 0); m.arange(0); m.arange(-3); m.arange(3, 3); m.arange('a'); m.arange(None)
m.arange(1, 2, 0.5, dtype=m.float64); m.arange(5, dtype=m.float32); m.arange(5, dtype=m.float16); m.arange(5.7, dtype=m.int64)
m.arange(0.5, 5, dtype=m.int64); m.arange(0.5, 5.5, 1.5, dtype=m.int32); m.arange(start=0, end=5); m.arange(0, end=5, step=2)
m.arange(end=5); m.arange(start=1, end=5, step=2); m.arange(m.tensor(3)); m.arange(m.tensor(3.0)); m.arange(0, m.tensor(3))
m.arange(inf); m.arange(nan); m.arange(0, 2**40, 2**39); m.arange(3, requires_grad=True); m.arange(3.0, requires_grad=True)
m.arange(5, dtype=m.uint8); m.arange(-5, 5, dtype=m.uint8); m.arange(1e-3, 1.0, 0.1); m.arange(0, 300, 100, dtype=m.uint8)
m.arange(10**12, 10**12 + 3); m.arange(-2.5, 2.5); m.arange(-1.5, 2.5, dtype=m.int64)
m.linspace(0, 1, 5); m.linspace(0, 1, 1); m.linspace(0, 1, 0); m.linspace(0, 1, -1); m.linspace(1, 0, 3); m.linspace(0, 10, 4)
m.linspace(0, 10, 5, dtype=m.int64); m.linspace(0, 9, 5, dtype=m.int64); m.linspace(-3, 3, 4, dtype=m.int32); m.linspace(0, 1)
m.linspace(0, 1, 5, dtype=m.float64); m.linspace(start=0, end=1, steps=3); m.linspace(0, 1, 2.5); m.linspace('a', 1, 3)
m.linspace(m.tensor(0.0), m.tensor(1.0), 3); m.linspace(0, 1, 3, requires_grad=True); m.linspace(0.1, 0.7, 7); m.linspace(3, 3, 3)
m.logspace(0, 2, 3); m.logspace(0, 2, 3, base=2); m.logspace(0, 2, 3, 2.0); m.logspace(0, 2, 3, dtype=m.float64); m.logspace(0, 2, -1)
m.logspace(start=0, end=1, steps=2, base=10); m.logspace(0, 1, 1); m.logspace(0, 2, 3, dtype=m.int64)
m.full((2,), 1); m.full((2,), 1.0); m.full((2,), True); m.full([2], 1); m.full((), 3); m.full((2,), 1, dtype=m.float64)
m.full((2,), 1.7, dtype=m.int64); m.full(size=(2,), fill_value=3); m.full((2,), m.tensor(3)); m.full((2,), m.tensor(3.5))
m.full((2,), 'a'); m.full((2,), None); m.full((2,), 1 + 2j); m.full((-1,), 1); m.full((0, 3), 1); m.full((2,), 300, dtype=m.uint8)
m.full((2,), -1, dtype=m.uint8); m.full((2,), nan); m.full((2,), inf, dtype=m.int64); m.full((2,), 1, requires_grad=True)
m.full((2,), 1.0, requires_grad=True); m.full((2.5,), 1); m.full((2,), 0, dtype=m.bool)
m.zeros(2); m.zeros(2, 3); m.zeros((2, 3)); m.zeros([2, 3]); m.zeros(()); m.zeros(size=(2,)); m.zeros(2, dtype=m.int64); m.zeros(-1)
m.zeros(2.0); m.zeros('a'); m.zeros(0); m.zeros(m.tensor(2)); m.zeros(2, dtype=m.bool); m.zeros(2, requires_grad=True); m.zeros()
m.zeros(2, dtype=m.int64, requires_grad=True); m.zeros(m.zeros(2, 3).shape); m.zeros(2, device='cpu'); m.zeros(2, device='bad')
m.zeros(2, dtype=float); m.zeros(2, dtype=int); m.zeros(2, dtype=bool); m.zeros(None); m.zeros((2,), (3,)); m.ones(2, 3)
m.ones((2,), dtype=m.int32); m.ones(size=(1,)); m.ones(-2); m.empty(2, 3).zero_(); m.empty(size=(2,)).zero_(); m.empty(-1)
m.eye(3); m.eye(2, 3); m.eye(3, 2); m.eye(n=2, m=4); m.eye(0); m.eye(2, dtype=m.int64); m.eye(2, 0); m.eye(-1); m.eye(2.0)
m.eye(2, requires_grad=True); m.eye(2, dtype=m.bool); m.eye(2, -1); m.eye('a')
m.one_hot(m.tensor([0, 2, 1])); m.one_hot(m.tensor([0, 2]), 4); m.one_hot(m.tensor([[0], [1]]), num_classes=3); m.one_hot(m.tensor(1))
m.one_hot(m.tensor(1), 3); m.one_hot(m.tensor([0, 5]), 3); m.one_hot(m.tensor([-1])); m.one_hot(m.tensor([0.0])); m.one_hot(m.tensor([0]), 0)
m.one_hot(m.tensor([0], dtype=m.int32)); m.one_hot(m.tensor([], dtype=m.int64)); m.one_hot(m.tensor([], dtype=m.int64), 3)
m.one_hot(m.tensor([0]), -2); m.one_hot(m.tensor([0, 1]), -1); m.one_hot(m.zeros(2, 0, dtype=m.int64), 3)
m.tensor(1); m.tensor(1.0); m.tensor(True); m.tensor(1 + 2j); m.tensor([]); m.tensor([[]]); m.tensor([[], []]); m.tensor([1, 2])
m.tensor([1, 2.0]); m.tensor([True, 2]); m.tensor([True, 2.5]); m.tensor([True, False]); m.tensor((1, 2)); m.tensor([(1, 2), [3, 4]])
m.tensor([[1], [2, 3]]); m.tensor('a'); m.tensor(range(3)); m.tensor([m.tensor(1), m.tensor(2)]); m.tensor([m.tensor(1.5), 2])
m.tensor(m.tensor([1.0, 2.0])); m.tensor([1, 2], dtype=m.float64); m.tensor([1.7, -1.7], dtype=m.int64); m.tensor([1, 0], dtype=m.bool)
m.tensor([1.5], requires_grad=True); m.tensor([1], requires_grad=True); m.tensor([1], dtype=m.float32, requires_grad=True)
m.tensor(2**40); m.tensor(300, dtype=m.uint8); m.tensor(-1, dtype=m.uint8); m.tensor([300], dtype=m.int8); m.tensor(nan, dtype=m.int64)
m.tensor(1e300); m.tensor(data=[1]); m.tensor([1], dtype=float); m.tensor([1.5], dtype=int); m.tensor(); m.tensor([1], device='cpu')
m.tensor([1j, 2]); m.tensor([[True], [1.5]]); m.tensor([True, False], requires_grad=True)
m.as_tensor(1); m.as_tensor([1.0, 2.0]); m.as_tensor([1], dtype=m.float64); m.as_tensor(data=[1], dtype=m.float64); m.as_tensor('a')
m.as_tensor([1], device='cpu'); m.as_tensor([1, 2], dtype=m.int32, device='cpu'); m.asarray([1, 2]); m.asarray([1.0], dtype=m.float64)
m.asarray([1.0], requires_grad=True); m.asarray(5); m.from_numpy([1])
""")


@pytest.mark.parametrize("text", MADE)
def test_creation(text):
    agree(lambda m: line(text, "_")(m, None), tol=1e-6)


LIKE = table("""
m.zeros_like(x); m.zeros_like(x, dtype=m.int64); m.ones_like(x); m.ones_like(x, dtype=m.bool); m.empty_like(x).zero_(); m.full_like(x, 7)
m.full_like(x, 7.5); m.full_like(x, 7, dtype=m.float64); m.full_like(x, m.tensor(3)); m.full_like(x, 300); m.full_like(x, 'a')
m.full_like(x, fill_value=True); m.full_like(x, nan); m.zeros_like(x, requires_grad=True); m.zeros_like(input=x); m.zeros_like(None)
m.ones_like(x, dtype=m.int64, requires_grad=True); m.full_like(x, 2, requires_grad=True); m.full_like(x, -1); m.as_tensor(x) is x
m.as_tensor(x, dtype=x.dtype) is x; m.as_tensor(x, dtype=m.float64); m.asarray(x) is x; m.asarray(x, copy=True) is x; m.tensor(x) is x
m.is_tensor(x); m.numel(x)
""")


@pytest.mark.parametrize("text", LIKE)
def test_creation_after_another_tensor(text):
    for array in (
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.arange(3, dtype=np.uint8),
        np.array(True),
        np.zeros((0, 2)),
    ):
        agree(line(text), array, gradients=False, where=f"{text} on {array.dtype}{array.shape}:")


FROM_NUMPY = [
    np.float64(1.5), np.float32(1.5), np.float16(1), np.int32(3), np.int8(3), np.bool_(True), [np.float64(1.5), 2.0],
    [np.float32(1.5), np.float32(2)], [np.int32(1), np.int32(2)], [np.int8(1), 2.0], [np.int8(1), 2], [np.float64(1), 2],
    np.arange(3), np.arange(3.0), np.array(1.5), np.arange(6).reshape(2, 3).T, np.arange(6)[::2], np.zeros((0, 2)),
    [np.array([1, 2]), np.array([3, 4])], [np.arange(2.0), np.arange(2.0)], np.array(["a"]), np.array([None]),
    np.array([1, 2], dtype=object), np.datetime64("2020"), np.array([1 + 2j]),
]  # fmt: skip


@pytest.mark.parametrize("data", FROM_NUMPY, ids=repr)
def test_tensor_of_numpys_things(data):
    agree(lambda m: m.tensor(data), gradients=False)
    agree(lambda m: m.as_tensor(data), gradients=False)


@pytest.mark.parametrize("number", [np.int32(3), np.int64(3), np.float64(3), np.float32(3)])
def test_numpy_numbers_as_arguments_are_python_numbers(number):
    agree(lambda m: m.arange(number))
    agree(lambda m: m.full((2,), number))
    agree(lambda m: m.zeros(2).fill_(number))
    agree(lambda m: m.ones(2) * number)
    if isinstance(number, np.integer):
        agree(lambda m: m.zeros(number))


@pytest.mark.parametrize("value", [None, {1}, {"a": 1}, object(), ["a"], [None], b"ab", lambda: 1])
def test_what_is_no_number_is_a_type_error(value):
    for make in (minitorch.tensor, minitorch.as_tensor, minitorch.Tensor, minitorch.asarray):
        with pytest.raises(TypeError, match="tensor"):
            make(value)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, [2**70]])
def test_an_int_too_large_for_int64_is_refused(value):
    with pytest.raises(RuntimeError, match="int64"):
        minitorch.tensor(value)


def test_ragged_lists_are_refused_with_the_reason():
    for data in ([1, [2]], [[1], [2, 3]], [[1, 2], 3]):
        with pytest.raises(ValueError, match="same length"):
            minitorch.tensor(data)


def test_nested_tensors_and_arrays_make_one_tensor():
    # PyTorch takes nested tensors of one element alone.
    x = minitorch.tensor([minitorch.tensor([1, 2]), minitorch.tensor([3, 4])])
    assert (x.dtype, x.tolist()) == (np.int64, [[1, 2], [3, 4]])
    assert minitorch.tensor([minitorch.ones(2), [1, 2]]).dtype == np.float32


@pytest.mark.parametrize("dtype", [">i4", ">f8", ">f4", "<i2"])
def test_foreign_byte_order_is_translated(dtype):
    # PyTorch refuses it.
    array = np.arange(3).astype(dtype)
    for make in (minitorch.tensor, minitorch.as_tensor, minitorch.from_numpy):
        x = make(array)
        assert x.dtype.isnative
        assert x.tolist() == [0, 1, 2]
    assert (minitorch.tensor(array) + 1).tolist() == [1, 2, 3]


# --- who shares memory with whom ----------------------------------------------------------------


def test_tensor_copies_and_the_others_share():
    array = np.arange(3.0)
    for make in (minitorch.as_tensor, minitorch.from_numpy, minitorch.asarray, minitorch.from_dlpack):
        shared = make(array)
        assert np.shares_memory(shared.numpy(), array)
        array[0] += 1
        assert shared[0].item() == array[0]
    for make in (minitorch.tensor, minitorch.Tensor, lambda a: minitorch.asarray(a, copy=True)):
        assert not np.shares_memory(make(array).numpy(), array)


def test_a_tensor_of_a_tensor_is_a_new_leaf():
    x = minitorch.ones(2, requires_grad=True)
    y = minitorch.tensor(x * 2)
    assert y.is_leaf
    assert not y.requires_grad
    assert minitorch.as_tensor(x) is x
    assert minitorch.as_tensor(x, dtype=np.float64).requires_grad
    assert minitorch.asarray(x, requires_grad=True) is x


def test_sharing_keeps_strides():
    array = np.arange(6.0).reshape(2, 3).T
    assert minitorch.from_numpy(array).numpy() is array or np.shares_memory(
        minitorch.from_numpy(array).numpy(), array
    )
    assert minitorch.tensor(array).tolist() == array.tolist()


def test_asarray_that_must_not_copy():
    array = np.arange(3.0)
    assert np.shares_memory(minitorch.asarray(array, copy=False).numpy(), array)
    for refused in (
        lambda: minitorch.asarray([1.0], copy=False),
        lambda: minitorch.asarray(array, dtype=np.int64, copy=False),
    ):
        with pytest.raises(ValueError, match="copy"):
            refused()


def test_like_functions_keep_the_order_of_memory_and_not_the_memory():
    x = minitorch.ones(2, 3).T
    for make in (minitorch.zeros_like, minitorch.ones_like, minitorch.empty_like):
        assert make(x).stride() == x.stride()
        assert not np.shares_memory(make(x).data, x.data)


@pytest.mark.parametrize("make", ["zeros", "ones", "empty", "rand", "randn", "eye"])
def test_requires_grad_at_birth(make):
    x = getattr(minitorch, make)(2, requires_grad=True)
    assert x.requires_grad
    assert x.is_leaf


def test_default_dtype_reaches_every_maker():
    minitorch.set_default_dtype(np.float64)
    try:
        for x in (
            minitorch.tensor(1.0), minitorch.zeros(1), minitorch.ones(1), minitorch.full((1,), 1.0), minitorch.arange(1.0),
            minitorch.linspace(0, 1, 2), minitorch.eye(1), minitorch.tensor([1]) / 2, minitorch.tensor([1]).exp(),
            minitorch.tensor([1]) * 0.5, minitorch.logspace(0, 1, 2), minitorch.empty(1), minitorch.tensor([]),
        ):  # fmt: skip
            assert x.dtype == np.float64
    finally:
        minitorch.set_default_dtype(np.float32)
    with pytest.raises(TypeError, match="set_default_dtype"):
        minitorch.set_default_dtype(np.int64)
    assert str(torch.get_default_dtype()) == f"torch.{minitorch.get_default_dtype()}"
