"""Resizing, rearranging, framing and sampling images, against PyTorch in float64; and the layers made of it."""

import itertools

import numpy as np
import pytest

import minitorch
import minitorch.nn as nn
import minitorch.nn.functional as F
from minitorch.autograd import gradcheck, gradgradcheck
from minitorch.engine.node import new_tensor
from pytorch import torch
from same_as_torch import agree, same_function, same_refusal
from same_module import same_module, twins
from standin import DeviceArray
from tensors import numbers

SIZES = {1: [(5,), (1,)], 2: [(5, 7), (1, 3)], 3: [(3, 4, 5)]}
MODES = [
    *itertools.product((1, 2, 3), ("nearest", "nearest-exact", "area")),
    (1, "linear"),
    (2, "bilinear"),
    (2, "bicubic"),
    (3, "trilinear"),
]


# --- interpolate ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("rank", "mode"), MODES)
def test_interpolate_to_a_size(rank, mode):
    corners = (None,) if mode in ("nearest", "nearest-exact", "area") else (None, True)
    for size, goal, corner in itertools.product(SIZES[rank], (1, 3, 5, 10, 13), corners):
        same_function("interpolate", numbers(2, 2, *size), size=goal, mode=mode, align_corners=corner)


@pytest.mark.parametrize(("rank", "mode"), MODES)
def test_interpolate_by_a_factor(rank, mode):
    corners = (None,) if mode in ("nearest", "nearest-exact", "area") else (False, True)
    for size, factor, corner in itertools.product(SIZES[rank], (1, 1.5, 2, 2.6, 3), corners):
        for recompute in (None, True):
            how = {"mode": mode, "align_corners": corner, "recompute_scale_factor": recompute}
            same_function("interpolate", numbers(2, 2, *size), scale_factor=factor, **how)


@pytest.mark.parametrize(("rank", "mode"), MODES)
def test_interpolate_to_less(rank, mode):
    x = numbers(2, 2, *(9, 8, 7)[:rank])
    for factor in (0.5, 0.7, 1 / 3):
        same_function("interpolate", x, scale_factor=factor, mode=mode)


def test_each_axis_by_its_own_factor():
    x = numbers(2, 2, 5, 6)
    same_function("interpolate", x, scale_factor=(2, 0.5), mode="bilinear")
    same_function("interpolate", x, size=(3, 8), mode="bicubic", align_corners=True)
    same_function("interpolate", x, scale_factor=(3, 1), mode="nearest")


def test_nearest_at_a_factor_that_is_not_quite_the_ratio_of_sizes():
    # For images PyTorch copies each element twice wherever that gives the size; otherwise it divides by 2.2.
    # (For signals its own backward does not agree with its forward there: values only.)
    same_function("interpolate", numbers(1, 1, 4, 4), scale_factor=2.2)
    x = numbers(1, 1, 4)
    ours = F.interpolate(minitorch.tensor(x), scale_factor=2.2).numpy()
    np.testing.assert_array_equal(ours, torch.nn.functional.interpolate(torch.tensor(x), scale_factor=2.2))
    assert gradcheck(lambda t: F.interpolate(t, scale_factor=2.2), (minitorch.tensor(x, requires_grad=True),))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("corners", [False, True])
def test_antialias(mode, corners):
    for goal in ((3, 4), (2, 15), (9, 8), 1):
        same_function(
            "interpolate", numbers(2, 2, 9, 8), size=goal, mode=mode, align_corners=corners, antialias=True
        )
    same_function("interpolate", numbers(1, 1, 9, 8), scale_factor=0.4, mode=mode, antialias=True)


@pytest.mark.filterwarnings("ignore:invalid value")  # 0 · inf, where a weight is 0
def test_an_infinity_stays_where_it_is():
    x = np.array([[[1.0, 2.0, 3.0, 4.0, np.inf]]])
    for how in ({"size": 9, "mode": "linear", "align_corners": True}, {"size": 3}, {"size": 10}):
        ours = F.interpolate(minitorch.tensor(x), **how).numpy()
        np.testing.assert_array_equal(ours, torch.nn.functional.interpolate(torch.tensor(x), **how).numpy())


@pytest.mark.parametrize("how", [{"mode": "bicubic"}, {"mode": "bilinear", "align_corners": True}, {}])
def test_interpolate_to_second_order(how):
    x = minitorch.tensor(numbers(1, 1, 3, 4), requires_grad=True)
    assert gradgradcheck(lambda t: F.interpolate(t, size=(4, 5), **how) ** 2, (x,))


def test_older_names():
    x = minitorch.tensor(numbers(1, 2, 3, 4))
    assert F.upsample(x, scale_factor=2).equal(F.interpolate(x, scale_factor=2))
    assert F.upsample_nearest(x, scale_factor=2).equal(F.interpolate(x, scale_factor=2))
    same = F.interpolate(x, size=5, mode="bilinear", align_corners=True)
    assert F.upsample_bilinear(x, size=5).equal(same)


@pytest.mark.parametrize(
    ("options", "kind", "reason"),
    [
        ({}, ValueError, "either size or scale_factor"),
        ({"size": 2, "scale_factor": 2}, ValueError, "either size or scale_factor"),
        ({"size": (2, 2, 2)}, ValueError, "2 axes"),
        ({"scale_factor": (2, 2, 2)}, ValueError, "2 axes"),
        ({"size": 2, "mode": "nearest", "align_corners": True}, ValueError, "align_corners"),
        ({"size": 2, "mode": "linear"}, NotImplementedError, "3D input"),
        ({"size": 2, "mode": "cubic"}, NotImplementedError, "mode must be"),
        ({"size": 2, "recompute_scale_factor": True}, ValueError, "recompute_scale_factor"),
        ({"size": 2, "antialias": True}, ValueError, "antialias"),
        ({"size": 0}, RuntimeError, "positive"),
    ],
)
def test_interpolate_refuses_as_pytorch_does_and_says_why(options, kind, reason):
    same_refusal(lambda f, zeros: f.interpolate(zeros(1, 1, 4, 4), **options), kind, reason)


# --- pixels and channels --------------------------------------------------------------------------


def test_shuffles_equal_pytorch():
    for x, factor in ((numbers(2, 8, 3, 4), 2), (numbers(9, 2, 2), 3), (numbers(2, 1, 4, 2, 2), 1)):
        same_function("pixel_shuffle", x, factor)
    for x, factor in ((numbers(2, 2, 6, 4), 2), (numbers(1, 6, 3), 3)):
        same_function("pixel_unshuffle", x, factor)
    for x, groups in ((numbers(2, 6, 3, 2), 3), (numbers(2, 6, 4), 2)):
        same_function("channel_shuffle", x, groups)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda f, t: f.pixel_shuffle(t(1, 3, 2, 2), 2), "divisible"),
        (lambda f, t: f.pixel_shuffle(t(2, 2), 2), "expected"),
        (lambda f, t: f.pixel_unshuffle(t(1, 3, 3, 2), 2), "divisible"),
    ],
)
def test_shuffles_refuse(call, reason):
    same_refusal(call, RuntimeError, reason)


# --- sampling -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid")
@pytest.mark.parametrize("corners", [False, True])
def test_affine_grid_equals_pytorch(corners):
    same_function("affine_grid", numbers(2, 2, 3), (2, 3, 4, 5), corners)
    same_function("affine_grid", numbers(2, 3, 4), (2, 3, 4, 5, 1), corners)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("mode", "rank"), [("bilinear", 2), ("bicubic", 2), ("bilinear", 3)])
def test_grid_sample_equals_pytorch(mode, rank, padding_mode, corners):
    x = numbers(2, 2, *(5, 4, 3)[:rank])
    places = np.random.default_rng(1).uniform(-2.5, 2.5, size=(2, *(4, 3, 2)[:rank], rank))
    same_function("grid_sample", x, places, mode=mode, padding_mode=padding_mode, align_corners=corners)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("rank", [2, 3])
def test_grid_sample_of_the_nearest(rank, padding_mode, corners):
    x = numbers(2, 2, *(5, 4, 3)[:rank])
    places = np.random.default_rng(1).uniform(-1.5, 1.5, size=(2, *(4, 3, 2)[:rank], rank))
    how = {"mode": "nearest", "padding_mode": padding_mode, "align_corners": corners}
    agree(lambda m, x: m.nn.functional.grid_sample(x, m.tensor(places), **how), x)


def test_grid_sample_says_what_it_assumes():
    x, grid = minitorch.zeros(1, 1, 2, 2), minitorch.zeros(1, 1, 1, 2)
    with pytest.warns(UserWarning, match="align_corners"):
        F.grid_sample(x, grid)
    with pytest.raises(RuntimeError, match="expected input"):
        F.grid_sample(x, minitorch.zeros(1, 1, 1, 3), align_corners=True)
    with pytest.raises(ValueError, match="mode"):
        F.grid_sample(x, grid, mode="cubic", align_corners=True)
    with pytest.raises(ValueError, match="theta"):
        F.affine_grid(minitorch.zeros(1, 2, 2), (1, 1, 2, 2), align_corners=True)


# --- layers ---------------------------------------------------------------------------------------

LAYERS = [
    ("Upsample", (), {"scale_factor": 2}, 2),
    ("Upsample", (), {"scale_factor": (2, 1.5), "mode": "bilinear"}, 2),
    ("Upsample", ((3, 4),), {"mode": "bicubic", "align_corners": True}, 2),
    ("Upsample", (7,), {"mode": "linear"}, 1),
    ("Upsample", (), {"scale_factor": 2, "mode": "trilinear", "recompute_scale_factor": True}, 3),
    ("UpsamplingNearest2d", (), {"scale_factor": 3}, 2),
    ("UpsamplingBilinear2d", (), {"size": (7, 8)}, 2),
    ("PixelShuffle", (2,), {}, 2),
    ("PixelUnshuffle", (2,), {}, 2),
    ("ChannelShuffle", (2,), {}, 2),
    *((f"ConstantPad{rank}d", (1, 3.5), {}, rank) for rank in (1, 2, 3)),
    ("ConstantPad2d", ((1, -1, 2, 0), -1.0), {}, 2),
    *((f"ZeroPad{rank}d", (tuple(range(2 * rank)),), {}, rank) for rank in (1, 2, 3)),
    *(
        (f"{kind}Pad{rank}d", (padding,), {}, rank)
        for kind in ("Reflection", "Replication", "Circular")
        for rank in (1, 2, 3)
        for padding in (1, (2, 1, 0, 2, 1, 1)[: 2 * rank])
    ),
]


@pytest.mark.parametrize(("name", "args", "options", "rank"), LAYERS)
def test_layers_equal_pytorchs(name, args, options, rank):
    pair = twins(lambda m: getattr(m.nn, name)(*args, **options))
    same_module(pair, numbers(2, 4, *(4, 6, 4)[:rank]))


@pytest.mark.parametrize("kind", ["Reflection", "Replication", "Circular"])
def test_padding_without_a_batch(kind):
    x = numbers(2, 4, 5)
    mine, theirs = getattr(nn, f"{kind}Pad2d")(2), getattr(torch.nn, f"{kind}Pad2d")(2)
    np.testing.assert_array_equal(mine(minitorch.tensor(x)).numpy(), theirs(torch.tensor(x)).numpy())


def test_padding_layers_refuse():
    with pytest.raises(RuntimeError, match="ReflectionPad2d: expected input with 3 or 4 axes"):
        nn.ReflectionPad2d(1)(minitorch.zeros(3, 3))
    with pytest.raises(RuntimeError, match="too wide"):
        nn.ReflectionPad1d(3)(minitorch.zeros(1, 1, 3))
    with pytest.raises(RuntimeError, match="padding must be"):
        nn.ZeroPad2d((1, 2, 3))


def test_pad_is_in_functional_too():
    assert F.pad is minitorch.pad


# --- on a device ----------------------------------------------------------------------------------


def unpooled(x):
    values, places = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(values, places, 2)


ON_DEVICE = {
    "conv": (lambda x, w: F.conv2d(x, w, padding=1, stride=2), (2, 2, 6, 6), (3, 2, 3, 3)),
    "adaptive_avg": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), (2, 2, 5, 5)),
    "adaptive_max": (lambda x: F.adaptive_max_pool2d(x, (3, 2)), (2, 2, 5, 5)),
    "avg": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (2, 2, 5, 5)),
    "unpool": (unpooled, (2, 2, 4, 4)),
    **{
        mode: (lambda x, mode=mode: F.interpolate(x, size=(7, 4), mode=mode), (2, 2, 5, 5))
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")
    },
    "antialias": (lambda x: F.interpolate(x, size=3, mode="bilinear", antialias=True), (1, 2, 5, 5)),
    "grid": (lambda x, g: F.grid_sample(x, g, align_corners=True), (2, 2, 5, 5), (2, 3, 3, 2)),
    "reflected": (
        lambda x, g: F.grid_sample(x, 2 * g, "bicubic", "reflection", False), (2, 2, 5, 5), (2, 3, 3, 2)
    ),
    "affine": (lambda t: F.affine_grid(t, (2, 1, 3, 3), align_corners=False), (2, 2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", ON_DEVICE)
def test_to_second_order_on_a_device_that_refuses_host_arrays(name):
    call, *shapes = ON_DEVICE[name]
    arrays = [np.random.default_rng(i).uniform(-1, 1, size=shape) for i, shape in enumerate(shapes)]
    found = []
    for place in (lambda a: a.copy(), lambda a: DeviceArray(a.copy())):
        inputs = [new_tensor(place(a)).requires_grad_() for a in arrays]
        out = call(*inputs)
        first = minitorch.autograd.grad((out**2).sum(), inputs, create_graph=True)
        second = minitorch.autograd.grad(sum((g**2).sum() for g in first), inputs)
        found.append([t._data for t in (out, *first, *second)])
    for host, device in zip(*found, strict=True):
        assert isinstance(device, DeviceArray)
        np.testing.assert_allclose(device.host, host, rtol=1e-9, atol=1e-12)
