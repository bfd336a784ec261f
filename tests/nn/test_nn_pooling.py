"""Pooling, against PyTorch in float64: values, indices, gradients, ties, borders; and the layers made of it."""

import itertools

import numpy as np
import pytest

import minitorch
import minitorch.nn as nn
import minitorch.nn.functional as F
from minitorch.autograd import gradgradcheck
from pytorch import torch
from same_as_torch import same_function, same_refusal
from same_module import same_module, twins
from tensors import numbers

SIZES = {1: (9,), 2: (6, 7), 3: (4, 5, 6)}


def with_ties(*shape):
    return np.round(2 * numbers(*shape))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_max_pool_equals_pytorch(rank, ceil_mode, kernel):
    x = with_ties(2, 2, *SIZES[rank])
    for stride, padding, dilation in itertools.product((None, 1, 2, 3), (0, 1), (1, 2)):
        if 2 * padding > dilation * (kernel - 1) + 1 or 2 * padding > kernel:
            continue
        if dilation * (kernel - 1) + 1 > min(SIZES[rank]) + 2 * padding:
            continue
        for indices in (False, True):
            how = {"ceil_mode": ceil_mode, "return_indices": indices}
            same_function(f"max_pool{rank}d", x, kernel, stride, padding, dilation, **how)


def test_of_equals_the_first_gets_the_gradient():
    x = minitorch.ones(1, 1, 4, 4, requires_grad=True)
    F.max_pool2d(x, 2).sum().backward()
    np.testing.assert_array_equal(x.grad[0, 0], [[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]])


def test_a_window_of_minus_infinity_chooses_an_element_and_not_the_border():
    x = np.full((1, 1, 4), -np.inf)
    same_function("max_pool1d", x, 3, 2, 1, return_indices=True)
    same_function("max_pool1d", x, 3, 2, 1)


def test_nan_is_the_largest():
    x = np.array([[[1.0, np.nan, 3.0, 4.0, 5.0, np.nan]]])
    out = F.max_pool1d(minitorch.tensor(x), 2)
    np.testing.assert_array_equal(out.numpy(), torch.nn.functional.max_pool1d(torch.tensor(x), 2).numpy())


def test_nan_gets_the_gradient_also_beside_a_border():
    x = minitorch.tensor([[[1.0, np.nan, 3.0, np.nan]]], requires_grad=True)
    F.max_pool1d(x, 3, 2, 1).backward(np.array([[[1.0, 10.0]]], dtype=np.float32))
    np.testing.assert_array_equal(x.grad, [[[0, 11, 0, 0]]])


@pytest.mark.parametrize("stride", [2, 1])
def test_an_infinite_gradient_goes_to_the_chosen_element_alone(stride):
    x = minitorch.tensor([[[1.0, 2.0, 3.0, 4.0]]], requires_grad=True)
    out = F.max_pool1d(x, 2, stride)
    out.backward(np.full(out.shape, np.inf, dtype=np.float32))
    np.testing.assert_array_equal(x.grad[0, 0], [0, np.inf, 0 if stride == 2 else np.inf, np.inf])


@pytest.mark.parametrize("strange", [np.inf, np.nan])
@pytest.mark.parametrize("goal", [(2, 3), (3, 4)])
def test_what_is_not_finite_spoils_only_its_own_regions(strange, goal):
    x = numbers(1, 2, 5, 7)
    x[0, 0, 0, 1] = strange
    same_function("adaptive_avg_pool2d", x, goal)


def test_max_pool_of_integers():
    x = np.random.default_rng(0).integers(-9, 9, size=(1, 2, 5, 5))
    ours, places = F.max_pool2d(minitorch.tensor(x), 3, 2, 1, return_indices=True)
    other, theirs = torch.nn.functional.max_pool2d(torch.tensor(x), 3, 2, 1, return_indices=True)
    np.testing.assert_array_equal(ours.numpy(), other.numpy())
    np.testing.assert_array_equal(places.numpy(), theirs.numpy())


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_avg_pool_equals_pytorch(rank, ceil_mode, kernel):
    x = numbers(2, 2, *SIZES[rank])
    for stride, padding, include in itertools.product((None, 1, 2, 3), (0, 1), (False, True)):
        if 2 * padding > kernel:
            continue
        same_function(f"avg_pool{rank}d", x, kernel, stride, padding, ceil_mode, include)
        if rank > 1:
            same_function(
                f"avg_pool{rank}d", x, kernel, stride, padding, ceil_mode, include, divisor_override=5
            )


def test_every_axis_has_its_own_settings():
    x = numbers(2, 2, 7, 8)
    same_function("max_pool2d", x, (2, 3), (1, 2), (1, 0), (2, 1), return_indices=True)
    same_function("avg_pool2d", x, (2, 3), (1, 2), (1, 0), count_include_pad=False)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("goal", [1, 2, 3, 4, 7, 11])
def test_adaptive_pools_equal_pytorch(rank, goal):
    x = with_ties(2, 3, *SIZES[rank])
    for size in (goal, (goal,) * rank):
        same_function(f"adaptive_avg_pool{rank}d", x, size)
        same_function(f"adaptive_max_pool{rank}d", x, size)
        same_function(f"adaptive_max_pool{rank}d", x, size, return_indices=True)
        same_function(f"adaptive_max_pool{rank}d", x[1], size, return_indices=True)
        same_function(f"adaptive_avg_pool{rank}d", x[1], size)


def test_adaptive_pools_keep_an_axis():
    x = numbers(2, 3, 5, 6)
    for size in ((None, 2), (4, None), (None, None)):
        same_function("adaptive_avg_pool2d", x, size)
        same_function("adaptive_max_pool2d", x, size, return_indices=True)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_lp_pools_equal_pytorch(rank):
    for power, kernel, stride, ceil_mode in itertools.product(
        (1, 2, 3, 2.5), (2, 3), (None, 1), (False, True)
    ):
        x = numbers(2, 2, *SIZES[rank])
        x = np.abs(x) + 0.1 if power == 2.5 else x
        same_function(f"lp_pool{rank}d", x, power, kernel, stride, ceil_mode)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_without_a_batch(rank):
    x = numbers(2, *SIZES[rank])
    same_function(f"max_pool{rank}d", x, 2, return_indices=True)
    same_function(f"max_pool{rank}d", x, 2)
    same_function(f"avg_pool{rank}d", x, 2)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, None, 0), (3, 2, 1), (3, 3, 0)])
def test_max_unpool_equals_pytorch(rank, kernel, stride, padding):
    x = numbers(2, 2, *SIZES[rank])
    pool = getattr(torch.nn.functional, f"max_pool{rank}d")
    values, places = pool(torch.tensor(x), kernel, stride, padding, return_indices=True)
    for size in (None, SIZES[rank], x.shape):
        if size is None and any((n + 2 * padding - kernel) % (stride or kernel) for n in SIZES[rank]):
            continue  # the size cannot be told from the pooled one: indices may lie outside
        for pick in (slice(None), 0):
            if size == x.shape and pick == 0:
                continue
            pooled = values[pick].numpy(), places[pick].numpy()
            same_function(f"max_unpool{rank}d", *pooled, kernel, stride, padding, output_size=size)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.max_pool2d(x, 2, 1),
        lambda x: F.max_pool2d(x, 2, 1, return_indices=True)[0],
        lambda x: F.adaptive_max_pool2d(x, (3, 2)),
        lambda x: F.adaptive_avg_pool2d(x, (3, 2)) ** 2,
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False) ** 3,
    ],
)
def test_second_order(call):
    x = np.random.default_rng(0).permutation(20).reshape(1, 1, 4, 5) / 5.0
    assert gradgradcheck(call, (minitorch.tensor(x, requires_grad=True),))


# --- layers ---------------------------------------------------------------------------------------

LAYERS = [
    ("MaxPool1d", (2,), {}, 1),
    ("MaxPool2d", (3, 2, 1), {"return_indices": True}, 2),
    ("MaxPool2d", (2,), {"ceil_mode": True, "dilation": 2}, 2),
    ("MaxPool3d", ((1, 2, 2),), {"stride": 1}, 3),
    ("AvgPool1d", (3,), {"stride": 2, "padding": 1}, 1),
    ("AvgPool2d", (3, 2), {"padding": 1, "count_include_pad": False}, 2),
    ("AvgPool2d", (2,), {"divisor_override": 3, "ceil_mode": True}, 2),
    ("AvgPool3d", (2,), {}, 3),
    ("AdaptiveAvgPool1d", (4,), {}, 1),
    ("AdaptiveAvgPool2d", ((1, 1),), {}, 2),
    ("AdaptiveAvgPool2d", ((4, None),), {}, 2),
    ("AdaptiveAvgPool3d", (2,), {}, 3),
    ("AdaptiveMaxPool1d", (4,), {"return_indices": True}, 1),
    ("AdaptiveMaxPool2d", ((3, None),), {}, 2),
    ("AdaptiveMaxPool3d", (3,), {}, 3),
    ("LPPool1d", (2, 3), {"stride": 2}, 1),
    ("LPPool2d", (2, 2), {"ceil_mode": True}, 2),
    ("LPPool3d", (2, 2), {}, 3),
]


@pytest.mark.parametrize(("name", "args", "options", "rank"), LAYERS)
def test_layers_equal_pytorchs(name, args, options, rank):
    pair = twins(lambda m: getattr(m.nn, name)(*args, **options))
    same_module(pair, numbers(2, 3, *SIZES[rank]))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling_layers_undo_pooling_layers(rank):
    x = numbers(2, 2, *(6,) * rank)
    results = []
    for m, made in ((nn, minitorch.tensor(x)), (torch.nn, torch.tensor(x))):
        pool = getattr(m, f"MaxPool{rank}d")(2, stride=2, return_indices=True)
        unpool = getattr(m, f"MaxUnpool{rank}d")(2, stride=2)
        results.append((unpool(*pool(made)).numpy(), str(unpool)))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


REFUSALS = [
    (lambda f, t: f.max_pool2d(t(2, 3), 2), RuntimeError, "expected 3D"),
    (lambda f, t: f.max_pool2d(t(1, 1, 4, 4), 2, padding=2), RuntimeError, "half"),
    (lambda f, t: f.max_pool2d(t(1, 1, 4, 4), 2, stride=0), RuntimeError, "stride"),
    (lambda f, t: f.max_pool2d(t(1, 1, 4, 4), 5), RuntimeError, "fit|small"),
    (lambda f, t: f.avg_pool2d(t(1, 1, 4, 4), 5), RuntimeError, "fit|small"),
    (lambda f, t: f.avg_pool2d(t(1, 1, 4, 4), 2, divisor_override=0), RuntimeError, "zero"),
    (lambda f, t: f.avg_pool2d(t(1, 1, 4, 4), (2, 2, 2)), RuntimeError, "kernel_size"),
    (lambda f, t: f.adaptive_avg_pool2d(t(1, 1, 4, 4), -1), RuntimeError, "negative|greater"),
]


@pytest.mark.parametrize(("call", "kind", "reason"), REFUSALS)
def test_refuses_as_pytorch_does_and_says_why(call, kind, reason):
    same_refusal(call, kind, reason)


def test_unpooling_refuses_wrong_places():
    values = minitorch.ones(1, 1, 2)
    with pytest.raises(RuntimeError, match="outside"):
        F.max_unpool1d(values, minitorch.tensor([[[0, 9]]]), 2)
    with pytest.raises(RuntimeError, match="one shape"):
        F.max_unpool1d(values, minitorch.tensor([[[0]]]), 2)
    with pytest.raises(ValueError, match="output_size"):
        F.max_unpool1d(values, minitorch.tensor([[[0, 2]]]), 2, output_size=(9,))
