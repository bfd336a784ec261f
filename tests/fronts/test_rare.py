"""minitorch.rare beside PyTorch: values, dtypes, gradients, random draws."""

import numpy as np
import pytest

import minitorch
from pytorch import torch
from same_as_torch import agree, line

numbers = np.random.default_rng(0)
MATRIX, IMAGES, WEIGHTS = (
    numbers.normal(size=(3, 4)),
    numbers.normal(size=(2, 4, 5, 5)),
    numbers.normal(size=(4, 2, 3, 3)),
)
SEQUENCE = numbers.normal(size=(5, 2, 4))

LINES = [
    "m.alias_copy(x)", "m.view_as_real_copy(x.cdouble())", "m.view_as_complex_copy(x.detach().reshape(6, 2)).abs()", "m.detach_copy(x) + x", "m.diagonal_copy(x, 1)", "m.expand_copy(x, (2, 3, 4))",
    "m.narrow_copy(x, 1, 1, 2)", "x.narrow_copy(0, 1, 2)", "m.permute_copy(x, (1, 0))", "m.select_copy(x, 1, 2)",
    "m.slice_copy(x, 1, 0, 4, 2)", "m.split_copy(x, 2, 1)", "m.split_with_sizes_copy(x, [1, 3], 1)",
    "m.squeeze_copy(x[None])", "m.t_copy(x)", "m.transpose_copy(x, 0, 1)", "m.unbind_copy(x, 1)",
    "m.unfold_copy(x, 1, 2, 1)", "m.unsqueeze_copy(x, 0)", "m.view_copy(x, (4, 3))", "m.as_strided_copy(x, (2, 2), (1, 2))",
    "m.unsafe_chunk(x, 2, 1)", "x.unsafe_split(3, 1)", "x.unsafe_split_with_sizes([1, 3], 1)", "m.empty_permuted((2, 3, 5), (2, 0, 1)).stride()",
    "x.new_empty_strided((2, 3), (1, 2)).stride()",
    "(x * 2).as_strided_((2, 2), (1, 2)) * 3", "m.ones(5).resize_as_(x[:1]).shape",
    "m.nonzero_static(x > 0, size=20)", "(x > 0).nonzero_static(size=3)", "m.nonzero_static(x > 9, size=2, fill_value=7)",
    "x.detach().clone().map_(x.detach() * 2, lambda a, b: a + b)", "x.detach().clone().map2_(x.detach(), x.detach(), lambda a, b, c: a + b * c)",
    "(x.is_set_to(x), x.is_set_to(x[0]))", "x.cfloat().real", "x.cdouble().imag", "(m.is_neg(x), x.is_neg(), m.is_conj(x), m.is_signed(x), m.get_device(x))",
    "(m.is_same_size(x, x), m.is_storage(x), m.is_inference(x), m.is_distributed(x))",
    "m.cond(m.tensor(True), lambda v: v + 1, lambda v: v - 1, (x,)) if m.__class__.__name__ != 'Functional' else x + 1",
    "m.constant_pad_nd(x, (1, 2), 3.0)", "m.frobenius_norm(x, (0,), True)", "m.nuclear_norm(x)", "m.norm_except_dim(x, 2, 0)",
    "m.norm_except_dim(x, 2, 1)", "m.norm_except_dim(x, 2, -1)", "m.native_layer_norm(x, (4,), None, None, 1e-5)",
    "m.native_layer_norm(x, (4,), x[0], x[1], 1e-5)[0]", "m.dropout_(x * 1, 0.5, True)", "m.alpha_dropout_(x * 1, 0.5, True)",
    "m.feature_dropout(x, 0.5, True)", "m.feature_dropout_(x * 1, 0.5, True)", "m.celu_(x * 1)", "m.selu_(x * 1)", "m.threshold_(x * 1, 0.1, 2.0)",
    "m.hardshrink(x, 0.3)", "x.hardshrink(0.3)", "x.prelu(x[0, :1])", "x[0].stft(4, 2, window=m.ones(4, dtype=m.float64), return_complex=True).abs()",
    "x[0].stft(4, 2, window=m.ones(4, dtype=m.float64), return_complex=True).istft(4, 2, window=m.ones(4, dtype=m.float64))",
    "m.geqrf(x.detach())", "m.geqrf(x.detach().T)[1]", "m.svd_lowrank(x, 2)[1]", "m.pca_lowrank(x.T)[1]", "m.pca_lowrank(x, 2, center=False, niter=1)[1]",
    "(lambda u: u[0] @ u[1].diag() @ u[2].T)(m.svd_lowrank(x, 3))",
    "m.ormqr(m.geqrf(x.detach().T)[0], m.geqrf(x.detach().T)[1], x.T)", "m.ormqr(*m.geqrf(x.detach().T), x, left=False, transpose=True)",
    "m.histogramdd(x.detach()[:, :2], bins=[3, 2])", "m.histogramdd(x.detach()[:, :2], bins=[3, 2], range=[-1., 1., -2., 2.], density=True)[0]",
    "m.while_loop(lambda v: True, lambda v: v, x) if False else x", "(x.dim_order(), x.T.dim_order())",
]  # fmt: skip


@pytest.mark.parametrize("text", LINES)
def test_rare_functions(text):
    call = line(text)

    def seeded(m, x):
        (minitorch if m is minitorch else torch).manual_seed(3)
        return call(m, x)

    assert agree(seeded, MATRIX, where=text) is not None, "both refuse"


LAYERS = [
    "m.convolution(x, w, None, [2, 1], [1, 0], [1, 1], False, [0, 0], 2)",
    "m.convolution(x, w, None, [2, 2], [1, 1], [1, 1], True, [1, 0], 1)",
    "m.native_group_norm(x, None, None, 2, 4, 25, 2, 1e-5)",
    "m.native_channel_shuffle(x, 2)",
    "m.grid_sampler(x, m.tanh(w[:2, :, :, :2].transpose(1, 3)), 0, 1, True)",
    "m.affine_grid_generator(m.tanh(x[:, :2, :3, 0]), [2, 1, 3, 4], False)",
    "m.native_dropout(x, 0.3, True)",
    "m.max_pool1d_with_indices(x[0], 2)",
]


@pytest.mark.parametrize("text", LAYERS)
def test_layers_under_inner_names(text):
    call = line(text, "x w")

    def seeded(m, x, w):
        (minitorch if m is minitorch else torch).manual_seed(3)
        return call(m, x, w)

    assert agree(seeded, IMAGES, WEIGHTS, where=text) is not None, "both refuse"


def test_convolution_over_time_first():
    weights, bias = numbers.normal(size=(3, 4, 6)), numbers.normal(size=6)
    agree(lambda m, x, w, b: m.conv_tbc(x, w, b, 1), SEQUENCE, weights, bias)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_recurrent_layers_as_functions(kind):
    layers = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(kind, torch.nn.RNN)(
        4, 3, 2, bidirectional=True
    ).double()
    weights = [p.detach().numpy() for p in layers.parameters()]
    state = numbers.normal(size=(4, 2, 3))

    def call(m, x, h, *params):
        hx = (h, h * 0.5) if kind == "lstm" else h
        return getattr(m, kind)(x, hx, list(params), True, 2, 0.0, True, True, False)

    assert agree(call, SEQUENCE, state, *weights) is not None


@pytest.mark.parametrize("kind", ["gru_cell", "rnn_tanh_cell", "rnn_relu_cell", "lstm_cell"])
def test_cells_as_functions(kind):
    gates = {"gru_cell": 3, "lstm_cell": 4}.get(kind, 1)
    arrays = [
        numbers.normal(size=s)
        for s in ((2, 4), (2, 3), (3 * gates, 4), (3 * gates, 3), (3 * gates,), (3 * gates,))
    ]
    agree(lambda m, x, h, *w: getattr(m, kind)(x, (h, h * 0.5) if kind == "lstm_cell" else h, *w), *arrays)


def test_as_strided_scatter():
    x, src = numbers.normal(size=(3, 4)), numbers.normal(size=(2, 2))
    call = lambda m, a, b: m.as_strided_scatter(a, b, (2, 2), (1, 3), 2)
    ours, theirs = (call(m, m.tensor(x), m.tensor(src)) for m in (minitorch, torch))
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    inputs = [minitorch.tensor(each, requires_grad=True) for each in (x, src)]
    assert minitorch.gradcheck(
        lambda a, b: call(minitorch, a, b), inputs
    )  # PyTorch's to x is 0 beside the slice
    with pytest.raises(RuntimeError, match="contiguous"):
        call(minitorch, minitorch.ones(4, 3).T, inputs[1])


def test_branches_and_loops():
    x = minitorch.tensor([1.0, 2.0], requires_grad=True)
    minitorch.cond(x.sum() > 2, lambda v: v * 3, lambda v: v, (x,)).sum().backward()
    assert x.grad.tolist() == [3, 3]
    left = minitorch.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s * 2), (minitorch.tensor(0), x))
    assert [each.tolist() for each in left] == [4, [16, 32]]


def test_range_includes_its_end_and_warns():
    for args in ((3,), (1, 4), (0, 1, 0.25), (5, 1, -2)):
        if len(args) > 1:
            with pytest.warns(UserWarning, match="torch.range is deprecated"):
                theirs = torch.range(*args)
            with pytest.warns(UserWarning, match="torch.range is deprecated"):
                ours = minitorch.range(*args)
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
            assert ours.dtype == np.float32


def test_what_pytorch_removed_says_what_to_write():
    a = minitorch.eye(2)
    for name in ("symeig", "solve", "lstsq", "eig"):
        for call in (getattr(minitorch, name), getattr(a, name)):
            with pytest.raises(RuntimeError, match=rf"{name} is removed.*; write torch\.linalg\."):
                call() if call is not getattr(minitorch, name) else call(a)
    with pytest.raises(RuntimeError, match=r"torch\.linalg\.matrix_rank"):
        minitorch.matrix_rank(a)
    with pytest.raises(NotImplementedError, match="geqrf"):
        minitorch.geqrf(minitorch.eye(2).requires_grad_())


def test_in_place_forms_write_into_what_they_are_given():
    x = minitorch.ones(1000)
    minitorch.manual_seed(0)
    assert minitorch.dropout_(x, 0.5, True) is x
    assert set(x.tolist()) == {0.0, 2.0}
    with pytest.raises(RuntimeError, match="in-place"):
        minitorch.dropout_(minitorch.ones(2, requires_grad=True), 0.5, True)
    z = minitorch.tensor([1 + 2j])
    assert z.conj_physical_() is z
    assert z.item() == 1 - 2j
