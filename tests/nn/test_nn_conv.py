"""Convolutions, their transposes, fold and unfold, against PyTorch in float64; and the layers made of them."""

import itertools

import numpy as np
import pytest

import minitorch
import minitorch.nn as nn
import minitorch.nn.functional as F
from minitorch.autograd import gradcheck, gradgradcheck
from pytorch import torch
from same_as_torch import same_function, same_refusal
from same_module import same_draws, same_module, twins
from tensors import numbers, weights

SIZES = {1: (9,), 2: (7, 8), 3: (4, 5, 6)}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "groups"), [*itertools.product((1, 2, 3), (1, 2, 4))])
def test_conv_equals_pytorch(rank, kernel, groups):
    x, w, b = numbers(2, 4, *SIZES[rank]), numbers(8, 4 // groups, *(kernel,) * rank), numbers(8)
    for stride, padding, dilation in itertools.product((1, 3), (0, 1, 2), (1, 2)):
        if min(SIZES[rank]) + 2 * padding < dilation * (kernel - 1) + 1:
            continue
        same_function(
            f"conv{rank}d", x, w, b, stride=stride, padding=padding, dilation=dilation, groups=groups
        )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "groups"), [*itertools.product((1, 2, 3), (1, 2, 4))])
def test_conv_transpose_equals_pytorch(rank, kernel, groups):
    x, w, b = numbers(2, 4, *SIZES[rank]), numbers(4, 2, *(kernel,) * rank), numbers(2 * groups)
    for stride, padding, dilation in itertools.product((1, 3), (0, 1), (1, 2)):
        for extra in {0, max(stride, dilation) - 1}:
            how = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": extra}
            same_function(f"conv_transpose{rank}d", x, w, b, groups=groups, **how)


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_padding_by_name(rank, padding):
    for kernel, dilation in ((3, 1), (2, 2), (1, 1)):
        x, w = numbers(2, 2, *SIZES[rank]), numbers(3, 2, *(kernel,) * rank)
        same_function(f"conv{rank}d", x, w, padding=padding, dilation=dilation)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_same_padding_of_an_even_kernel_adds_the_odd_zero_behind():
    same_function("conv2d", numbers(2, 2, 5, 6), numbers(3, 2, 2, 4), padding="same")


def test_every_axis_has_its_own_settings():
    x, w = numbers(2, 2, 9, 7), numbers(4, 2, 3, 2)
    same_function("conv2d", x, w, stride=(2, 1), padding=(0, 1), dilation=(1, 3))
    same_function(
        "conv_transpose2d", x, numbers(2, 4, 3, 2), stride=(3, 2), padding=(1, 0), output_padding=(2, 0)
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_without_a_batch(rank):
    x, b = numbers(2, *SIZES[rank]), numbers(3)
    same_function(f"conv{rank}d", x, numbers(3, 2, *(2,) * rank), b)
    same_function(f"conv_transpose{rank}d", x, numbers(2, 3, *(2,) * rank), b, stride=2)


def test_a_batch_larger_than_one_step(monkeypatch):
    # The batch is cut into parts that fit the cache: here into parts of 2, 2 and 1.
    from minitorch.ops import conv

    monkeypatch.setattr(conv, "_COLUMNS", 2 * 18 * 42)
    x, w, b = numbers(5, 2, 6, 7), numbers(4, 2, 3, 3), numbers(4)
    same_function("conv2d", x, w, b, padding=1)
    same_function("conv2d", x, w, b, stride=2)
    same_function("conv_transpose2d", x, numbers(2, 4, 3, 3), b, padding=1)


def test_a_wide_kernel_on_a_narrow_image():
    # Few windows per row: numbering every place of the padded image would waste most columns.
    same_function("conv2d", numbers(2, 2, 12, 6), numbers(3, 2, 3, 6), padding=0)
    same_function("conv2d", numbers(2, 2, 4, 4), numbers(3, 2, 4, 4))


def test_arrays_that_are_views_of_others():
    x, w = numbers(2, 6, 5, 3), numbers(4, 3, 3, 2)
    mine, theirs = minitorch.tensor(x).transpose(0, 3, 2, 1), torch.tensor(x).permute(0, 3, 2, 1)
    ours = F.conv2d(mine, minitorch.tensor(w), padding=1)
    other = torch.nn.functional.conv2d(theirs, torch.tensor(w), padding=1)
    np.testing.assert_allclose(ours.numpy(), other.numpy(), atol=1e-12)
    one = F.conv2d(mine, minitorch.tensor(w[:, :, :1, :1]))
    two = torch.nn.functional.conv2d(theirs, torch.tensor(w[:, :, :1, :1].copy()))
    np.testing.assert_allclose(one.numpy(), two.numpy(), atol=1e-12)


def test_an_empty_batch():
    same_function("conv2d", numbers(0, 2, 5, 5), numbers(3, 2, 3, 3), numbers(3))
    same_function("conv2d", numbers(0, 2, 5, 5), numbers(3, 2, 1, 1), numbers(3))


def test_float32_stays_float32():
    x = minitorch.rand(2, 3, 6, 6, requires_grad=True)
    w = minitorch.rand(4, 3, 3, 3, requires_grad=True)
    out = F.conv2d(x, w, padding=1)
    out.sum().backward()
    assert out.dtype == x.grad.dtype == w.grad.dtype == np.float32


def test_the_inputs_are_left_as_they_were():
    x, w = numbers(2, 2, 5, 5), numbers(3, 2, 3, 3)
    kept = x.copy(), w.copy()
    out = F.conv2d(
        minitorch.tensor(x, requires_grad=True), minitorch.tensor(w, requires_grad=True), padding=1
    )
    out.backward(weights(out.shape))
    np.testing.assert_array_equal(x, kept[0])
    np.testing.assert_array_equal(w, kept[1])


@pytest.mark.parametrize("how", [{"padding": 1}, {"stride": 2}, {"dilation": 2, "padding": 2}])
def test_derivatives_to_second_order(how):
    x = minitorch.tensor(numbers(1, 2, 4, 5), requires_grad=True)
    w = minitorch.tensor(numbers(2, 2, 2, 3), requires_grad=True)
    assert gradcheck(lambda x, w: F.conv2d(x, w, **how), (x, w))
    assert gradgradcheck(lambda x, w: F.conv2d(x, w, **how), (x, w))
    assert gradgradcheck(lambda x, w: F.conv_transpose2d(x, w, **how), (x, w))


def test_third_order():
    # ⟨x ⋆ w, x ⋆ w⟩ twice differentiated for x does not depend on x; once more it is zero, for w it is not.
    x = minitorch.tensor(numbers(1, 1, 5), requires_grad=True)
    w = minitorch.tensor(numbers(1, 1, 3), requires_grad=True)
    t, u = (torch.tensor(a.detach().numpy(), requires_grad=True) for a in (x, w))
    answers = []
    for m, f, a, b in ((minitorch, F, x, w), (torch, torch.nn.functional, t, u)):
        (first,) = m.autograd.grad((f.conv1d(a, b, stride=2, padding=1) ** 2).sum(), a, create_graph=True)
        (second,) = m.autograd.grad((first**2).sum(), a, create_graph=True)
        (third,) = m.autograd.grad((second**2).sum(), b)
        answers.append(third.detach().numpy())
    np.testing.assert_allclose(*answers, rtol=1e-9)


# --- fold and unfold ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "dilation", "padding", "stride"),
    [(2, 1, 0, 1), (3, 1, 1, 2), ((2, 3), (2, 1), (1, 0), (1, 2)), (1, 1, 0, 3), (3, 2, 2, 1)],
)
def test_unfold_and_fold_equal_pytorch(kernel, dilation, padding, stride):
    how = {"kernel_size": kernel, "dilation": dilation, "padding": padding, "stride": stride}
    x = numbers(2, 3, 6, 7)
    same_function("unfold", x, **how)
    same_function("unfold", x[0], **how)
    columns = torch.nn.functional.unfold(torch.tensor(x), **how).numpy()
    same_function("fold", columns, output_size=(6, 7), **how)
    same_function("fold", columns[1], output_size=(6, 7), **how)
    assert str(nn.Unfold(**how)) == str(torch.nn.Unfold(**how))
    np.testing.assert_array_equal(nn.Unfold(**how)(minitorch.tensor(x)).numpy(), columns)
    folded = nn.Fold((6, 7), **how)(minitorch.tensor(columns)).numpy()
    np.testing.assert_allclose(folded, torch.nn.Fold((6, 7), **how)(torch.tensor(columns)).numpy())
    assert str(nn.Fold((6, 7), **how)) == str(torch.nn.Fold((6, 7), **how))


def test_unfold_refuses_with_reasons():
    with pytest.raises(RuntimeError, match="do not fit"):
        F.unfold(minitorch.zeros(1, 1, 2, 2), 3)
    with pytest.raises(RuntimeError, match="multiple of 4"):
        F.fold(minitorch.zeros(1, 5, 4), (3, 3), 2)
    with pytest.raises(RuntimeError, match="holds 5"):
        F.fold(minitorch.zeros(1, 4, 5), (3, 3), 2)


# --- layers ---------------------------------------------------------------------------------------

LAYERS = [
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1}, (2, 4, 9)),
    ("Conv1d", (4, 6, 3), {"padding": "same", "dilation": 2, "groups": 2}, (4, 9)),
    ("Conv2d", (3, 8, 3), {"padding": 1}, (2, 3, 6, 7)),
    ("Conv2d", (3, 8, 1), {"bias": False}, (2, 3, 6, 7)),
    ("Conv2d", (4, 4, (3, 2)), {"groups": 4, "stride": (2, 1), "padding": (1, 0)}, (2, 4, 6, 7)),
    ("Conv2d", (2, 3, 3), {"padding": 2, "padding_mode": "reflect"}, (2, 2, 6, 7)),
    ("Conv2d", (2, 3, 3), {"padding": (1, 2), "padding_mode": "replicate"}, (2, 2, 6, 7)),
    ("Conv2d", (2, 3, 3), {"padding": 1, "padding_mode": "circular", "stride": 2}, (2, 6, 7)),
    ("Conv2d", (2, 3, 3), {"padding": "same", "padding_mode": "circular", "dilation": 2}, (2, 2, 6, 7)),
    ("Conv3d", (2, 3, 2), {"padding": 1, "padding_mode": "replicate"}, (2, 2, 3, 4, 5)),
    ("Conv3d", (2, 4, (1, 2, 3)), {"groups": 2, "dilation": (1, 2, 1)}, (1, 2, 3, 4, 5)),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1}, (2, 4, 5)),
    ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, (2, 4, 5, 4)),
    ("ConvTranspose2d", (4, 2, 2), {"bias": False, "dilation": 2}, (4, 5, 4)),
    ("ConvTranspose3d", (2, 3, 2), {"stride": (1, 2, 2)}, (1, 2, 3, 2, 3)),
]


@pytest.mark.parametrize(("name", "args", "options", "shape"), LAYERS)
def test_layers_equal_pytorchs(name, args, options, shape):
    def build(m):
        return getattr(m.nn, name)(*args, **options)

    same_draws(build)
    same_module(twins(build), numbers(*shape))


def test_output_size_chooses_among_the_possible_sizes():
    x = numbers(2, 4, 5, 5)
    mine, theirs = nn.ConvTranspose2d(4, 2, 3, stride=2).double(), torch.nn.ConvTranspose2d(4, 2, 3, stride=2)
    theirs = theirs.double()
    mine.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    for size in ((11, 12), (2, 2, 12, 11)):
        ours = mine(minitorch.tensor(x), output_size=size)
        other = theirs(torch.tensor(x), output_size=size)
        assert ours.shape == tuple(other.shape)
        np.testing.assert_allclose(ours.detach().numpy(), other.detach().numpy(), atol=1e-12)
    with pytest.raises(ValueError, match="valid sizes range"):
        mine(minitorch.tensor(x), output_size=(13, 11))


def test_layers_take_a_dtype():
    layer = nn.Conv2d(1, 2, 3, dtype=minitorch.float64)
    assert layer.weight.dtype == layer.bias.dtype == np.float64


REFUSALS = [
    (lambda f, t: f.conv2d(t(2, 3), t(3, 2, 1, 1)), RuntimeError, "expected 3D"),
    (lambda f, t: f.conv2d(t(1, 3, 5, 5), t(4, 2, 3, 3)), RuntimeError, "input channels|expected input"),
    (lambda f, t: f.conv2d(t(1, 3, 5, 5), t(4, 3, 3)), RuntimeError, "weight"),
    (lambda f, t: f.conv2d(t(1, 4, 5, 5), t(3, 2, 3, 3), groups=2), RuntimeError, "divisible"),
    (lambda f, t: f.conv2d(t(1, 3, 2, 2), t(4, 3, 3, 3)), RuntimeError, "fit|greater"),
    (lambda f, t: f.conv2d(t(1, 3, 5, 5), t(4, 3, 3, 3), t(3)), RuntimeError, "bias"),
    (lambda f, t: f.conv2d(t(1, 3, 5, 5), t(4, 3, 3, 3), stride=0), RuntimeError, "stride"),
    (lambda f, t: f.conv2d(t(1, 3, 5, 5), t(4, 3, 3, 3), padding=-1), RuntimeError, "negative padding"),
    (lambda f, t: f.conv2d(t(1, 3, 5, 5), t(4, 3, 3, 3), padding="full"), RuntimeError, "same"),
    (lambda f, t: f.conv2d(t(1, 3, 5, 5), t(4, 3, 3, 3), stride=2, padding="same"), RuntimeError, "strided"),
    (lambda f, t: f.conv2d(t(1, 3, 5, 5), t(4, 3, 3, 3), stride=(1, 2, 3)), RuntimeError, "stride"),
    (lambda f, t: f.conv_transpose2d(t(1, 3, 5, 5), t(4, 3, 3, 3)), RuntimeError, "channels|expected"),
    (
        lambda f, t: f.conv_transpose2d(t(1, 3, 5, 5), t(3, 3, 3, 3), output_padding=1),
        RuntimeError,
        "smaller than either stride or dilation",
    ),
]


@pytest.mark.parametrize(("call", "kind", "reason"), REFUSALS)
def test_refuses_as_pytorch_does_and_says_why(call, kind, reason):
    same_refusal(call, kind, reason)


def test_what_has_passed_the_checks_once_does_not_pass_for_another():
    x, w, b = minitorch.ones(2, 4, 5, 5), minitorch.ones(4, 4, 3, 3), minitorch.ones(4)
    for _ in range(2):
        assert F.conv2d(x, w, b, [1, 2], padding=(1, 1)).shape == (2, 4, 5, 3)
        assert F.conv2d(x, w, padding=1).shape == (2, 4, 5, 5)
        assert F.conv2d(x[0], w, padding="same").shape == (4, 5, 5)
    for wrong in ({"groups": True + 1}, {"groups": 1.0}, {"padding": -1}, {"bias": b.double()}):
        with pytest.raises(RuntimeError, match="conv2d"):
            F.conv2d(x, w, **{"padding": 1} | wrong)


def test_dtypes_must_agree():
    with pytest.raises(RuntimeError, match="float64 but weight is float32"):
        F.conv1d(minitorch.zeros(1, 1, 3, dtype=minitorch.float64), minitorch.zeros(1, 1, 1))


@pytest.mark.parametrize(
    ("args", "options", "reason"),
    [
        ((3, 4, 3), {"groups": 2}, "divisible by groups"),
        ((4, 4, 3), {"groups": 0}, "positive"),
        ((4, 4, 3), {"padding_mode": "mirror"}, "padding_mode"),
        ((4, 4, 3), {"padding": "full"}, "'same' or 'valid'"),
        ((4, 4, 3), {"padding": "same", "stride": 2}, "strided"),
    ],
)
def test_layers_refuse_wrong_settings(args, options, reason):
    with pytest.raises(ValueError, match=reason):
        nn.Conv2d(*args, **options)
    with pytest.raises(ValueError):  # noqa: PT011
        torch.nn.Conv2d(*args, **options)


def test_a_transposed_layer_pads_with_zeros_only():
    with pytest.raises(ValueError, match="zeros"):
        nn.ConvTranspose2d(4, 4, 3, padding_mode="circular")
