"""Recurrent layers, cells and packed sequences against PyTorch in float64."""

import inspect

import numpy as np
import pytest

import minitorch
from minitorch import nn
from minitorch.nn.utils import rnn as packing
from pytorch import torch
from same_as_torch import agree
from same_module import same_draws, same_module, same_on_device, twins

RNG = np.random.default_rng(5)
T, N, WIDTH, H = 4, 3, 5, 6
X = RNG.normal(size=(T, N, WIDTH))
LENGTHS = [4, 2, 1]
UNSORTED = [2, 4, 1]

KINDS = ["RNN", "LSTM", "GRU"]
OPTIONS = [
    {},
    {"bias": False},
    {"num_layers": 3},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True},
    {"batch_first": True},
    {"batch_first": True, "num_layers": 2, "bidirectional": True, "bias": False},
]
LAYERS = [(kind, options) for kind in KINDS for options in OPTIONS] + [
    ("RNN", {"nonlinearity": "relu", "num_layers": 2}),
    ("LSTM", {"proj_size": 2}),
    ("LSTM", {"proj_size": 2, "num_layers": 2, "bidirectional": True, "bias": False}),
]


def layer(kind, options):
    return lambda m: getattr(m.nn, kind)(WIDTH, H, **options)


def states(kind, options, batch=N):
    """What a layer may begin with: h, and for an LSTM c."""
    count = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    axes = () if batch is None else (batch,)
    found = [RNG.normal(size=(count, *axes, options.get("proj_size", H)))]
    if kind == "LSTM":
        found.append(RNG.normal(size=(count, *axes, H)))
    return found


def flat(answer):
    """Output and last state as a flat list of tensors."""
    output, last = answer
    return [output, *(last if isinstance(last, tuple) else [last])]


def with_state(m, module, x, *state):
    return flat(module(x, state if len(state) > 1 else state[0]))


@pytest.mark.parametrize(("kind", "options"), LAYERS)
@pytest.mark.parametrize("shape", [(T, N, WIDTH), (1, N, WIDTH), (T, T, WIDTH), (N, 1, WIDTH), (2, 0, WIDTH)])
def test_a_layer_is_pytorchs(kind, options, shape):
    batch = shape[1]
    x = RNG.normal(size=shape)
    if options.get("batch_first"):
        x = x.swapaxes(0, 1)
    same_module(twins(layer(kind, options)), x, call=lambda m, module, x: flat(module(x)))
    same_module(twins(layer(kind, options)), x, *states(kind, options, batch), call=with_state)


@pytest.mark.parametrize(("kind", "options"), LAYERS)
def test_one_sequence_without_a_batch(kind, options):
    x = RNG.normal(size=(T, WIDTH))
    same_module(twins(layer(kind, options)), x, call=lambda m, module, x: flat(module(x)))
    same_module(twins(layer(kind, options)), x, *states(kind, options, None), call=with_state)


@pytest.mark.parametrize(("kind", "options"), LAYERS)
@pytest.mark.parametrize("lengths", [LENGTHS, UNSORTED, [4, 4, 4]])
def test_packed_sequences(kind, options, lengths):
    def call(m, module, x, *state):
        tools = packing if m is minitorch else torch.nn.utils.rnn
        packed = tools.pack_padded_sequence(x, lengths, enforce_sorted=False)
        hx = None if not state else state if len(state) > 1 else state[0]
        output, last = module(packed, hx)
        padded, counts = tools.pad_packed_sequence(output)
        return [padded, counts, *flat((padded, last))[1:]]

    same_module(twins(layer(kind, options)), X, call=call)
    same_module(twins(layer(kind, options)), X, *states(kind, options), call=call)


def test_packing_gives_what_each_sequence_gives_alone():
    module = nn.GRU(WIDTH, H, num_layers=2, bidirectional=True).double()
    x = minitorch.tensor(X)
    output, _ = module(packing.pack_padded_sequence(x, UNSORTED, enforce_sorted=False))
    for i, sequence in enumerate(packing.unpack_sequence(output)):
        alone, _ = module(x[: UNSORTED[i], i])
        np.testing.assert_allclose(sequence.detach().numpy(), alone.detach().numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kind", "options"), LAYERS)
def test_parameters_are_drawn_as_pytorchs(kind, options):
    same_draws(layer(kind, options))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_dropout_between_layers_drops_what_pytorch_drops(kind, batch_first):
    def build(m):
        return getattr(m.nn, kind)(WIDTH, H, num_layers=3, dropout=0.4, batch_first=batch_first)

    def call(m, module, x):
        (minitorch if m is minitorch else torch).manual_seed(7)
        return flat(module(x))

    same_module(twins(build), X, call=call)
    ours, _ = twins(build)
    x = minitorch.tensor(X)
    assert not ours(x)[0].equal(ours(x)[0])
    ours.eval()
    assert ours(x)[0].equal(ours(x)[0])


def test_second_derivatives_through_time():
    for kind in KINDS:
        module = getattr(nn, kind)(2, 2).double()
        x = minitorch.tensor(RNG.normal(size=(3, 1, 2)), requires_grad=True)
        assert minitorch.gradgradcheck(lambda x, module=module: module(x)[0], (x,))


def test_a_long_sequence():
    same_module(
        twins(lambda m: m.nn.LSTM(2, 3)),
        RNG.normal(size=(200, 2, 2)),
        call=lambda m, module, x: flat(module(x)),
    )


@pytest.mark.parametrize("options", [{}, {"bias": False}])
@pytest.mark.parametrize("shape", [(N, WIDTH), (WIDTH,), (0, WIDTH)])
@pytest.mark.parametrize("kind", ["RNNCell", "GRUCell", "LSTMCell"])
def test_a_cell_is_pytorchs(kind, options, shape):
    def build(m):
        return getattr(m.nn, kind)(WIDTH, H, **options)

    x, h, c = RNG.normal(size=shape), RNG.normal(size=(*shape[:-1], H)), RNG.normal(size=(*shape[:-1], H))
    same_module(twins(build), x)
    if kind == "LSTMCell":
        same_module(twins(build), x, h, c, call=lambda m, module, x, h, c: module(x, (h, c)))
    else:
        same_module(twins(build), x, h)
    same_draws(build)


def test_a_cell_with_relu():
    same_module(twins(lambda m: m.nn.RNNCell(WIDTH, H, nonlinearity="relu")), X[0], RNG.normal(size=(N, H)))


REFUSED = [
    ("m.nn.GRU(3, 4)", "f(z(0, 2, 3))"),
    ("m.nn.LSTM(3, 4)", "f(z(2, 3, 4, 3))"),
    ("m.nn.LSTM(3, 4)", "f(z(3))"),
    ("m.nn.LSTM(3, 4)", "f(z(5, 2, 4))"),
    ("m.nn.LSTM(3, 4)", "f(z(0, 2, 3))"),
    ("m.nn.LSTM(3, 4)", "f(z(5, 2, 3), (z(1, 4), z(1, 4)))"),
    ("m.nn.LSTM(3, 4)", "f(z(5, 2, 3), (z(1, 3, 4), z(1, 2, 4)))"),
    ("m.nn.LSTM(3, 4)", "f(z(5, 2, 3), (z(1, 2, 4), z(1, 3, 4)))"),
    ("m.nn.LSTM(3, 4)", "f(z(5, 3), (z(1, 1, 4), z(1, 1, 4)))"),
    ("m.nn.LSTM(3, 4)", "f(z(5, 2, 3).double())"),
    ("m.nn.GRU(3, 4)", "f(z(5, 2, 3), z(1, 4))"),
    ("m.nn.GRU(3, 4)", "f(z(5, 3), z(1, 1, 4))"),
    ("m.nn.GRU(3, 4)", "f(z(5, 2, 3), z(2, 2, 4))"),
    ("m.nn.LSTM(3, 0)", ""),
    ("m.nn.LSTM(0, 4)", ""),
    ("m.nn.LSTM(3, 4, num_layers=0)", ""),
    ("m.nn.LSTM(3, 4, num_layers=2, dropout=2.0)", ""),
    ("m.nn.LSTM(3, 4, num_layers=2, dropout=True)", ""),
    ("m.nn.LSTM(3, 4.5)", ""),
    ("m.nn.LSTM(3, 4, 0.5)", ""),
    ("m.nn.LSTM(3, 4, bias=1)", ""),
    ("m.nn.LSTM(3, 4, proj_size=4)", ""),
    ("m.nn.LSTM(3, 4, proj_size=-1)", ""),
    ("m.nn.RNN(3, 4, nonlinearity='gelu')", ""),
    ("m.nn.RNNCell(3, 4)", "f(z(2, 2, 3))"),
    ("m.nn.RNNCell(3, 4)", "f(z(2, 5))"),
    ("m.nn.RNNCell(3, 4)", "f(z(2, 3), z(3, 4))"),
    ("m.nn.RNNCell(3, 4)", "f(z(2, 3), z(2, 5))"),
    ("m.nn.RNNCell(3, 4, nonlinearity='gelu')", "f(z(2, 3))"),
    ("m.nn.GRUCell(3, 4)", "f(z(3), z(1, 4))"),
    ("m.nn.GRUCell(3, 4)", "f(z(2, 3), z(1, 2, 4))"),
    ("m.nn.LSTMCell(3, 4)", "f(z(3), (z(1, 4), z(1, 4)))"),
    ("m.nn.LSTMCell(3, 4)", "f(z(2, 3), z(2, 4))"),
]


@pytest.mark.parametrize(("build", "call"), REFUSED)
def test_refusals_are_pytorchs(build, call):
    def run(m):
        f = eval(build, {"m": m})
        return eval(call, {"f": f, "z": m.zeros})

    refused = None
    try:
        run(torch)
    except Exception as error:
        refused = type(error)
    assert refused in (RuntimeError, ValueError, TypeError)
    with pytest.raises(refused, match=build.split("(")[0].removeprefix("m.nn.")):
        run(minitorch)


def test_a_state_that_is_no_pair():
    with pytest.raises(TypeError, match="pair"):
        nn.LSTM(3, 4)(minitorch.zeros(5, 2, 3), minitorch.zeros(1, 2, 4))


def test_dropout_with_one_layer_is_warned_of():
    with pytest.warns(UserWarning, match="num_layers=1"):
        nn.GRU(3, 4, dropout=0.5)


@pytest.mark.parametrize(
    "build",
    [
        "RNN(3, 4, 2, dropout=0.5, bidirectional=True)",
        "LSTM(3, 4, proj_size=2, batch_first=True, bias=False)",
        "RNN(3, 4, nonlinearity='relu')",
        "GRUCell(3, 4)",
        "RNNCell(3, 4, False, 'relu')",
    ],
)
def test_printed_as_pytorchs(build):
    ours, theirs = (eval(f"nn.{build}", {"nn": library.nn}) for library in (minitorch, torch))
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("name", ["RNNBase", "RNNCell", "LSTMCell", "GRUCell"])
def test_signatures_are_pytorchs(name):
    def arguments(function):
        return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]

    assert arguments(getattr(nn, name)) == arguments(getattr(torch.nn, name))


def test_all_weights_are_listed_by_layer_and_direction():
    ours = nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2)
    theirs = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2)
    assert [[w.shape for w in ws] for ws in ours.all_weights] == [
        [tuple(w.shape) for w in ws] for ws in theirs.all_weights
    ]
    assert ours.flatten_parameters() is None


@pytest.mark.parametrize("kind", KINDS)
def test_layers_stay_on_the_device(kind):
    def build(m):
        return getattr(m.nn, kind)(WIDTH, H, num_layers=2, bidirectional=True)

    same_on_device(build, X, call=lambda module, x: module(x)[0])
    same_on_device(lambda m: m.nn.GRUCell(WIDTH, H), X[0])


# --- padding and packing ------------------------------------------------------------------------

SEQUENCES = [RNG.normal(size=(n, 2)) for n in (4, 2, 1)]


def tools_of(m):
    return packing if m is minitorch else torch.nn.utils.rnn


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["right", "left", "top"])
def test_pad_sequence(batch_first, side):
    def call(m, *parts):
        return tools_of(m).pad_sequence(list(parts), batch_first, 1.5, padding_side=side)

    agree(call, *SEQUENCES)
    agree(call, *[RNG.integers(0, 9, size=n) for n in (2, 3)])
    agree(call, *[s[:, 0] for s in SEQUENCES])
    agree(call)
    agree(call, np.zeros((2, 3)), np.zeros((2, 4)))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(
    ("lengths", "sort"),
    [
        ([4, 3, 1], True),
        ([4, 3, 1], False),
        ([2, 4, 1], False),
        ([3, 3, 3], False),
        ([2, 4, 1], True),
        ([2, 0, 1], False),
        ([2, 1], True),
    ],
)
def test_packing_and_padding_again(lengths, sort, batch_first):
    x = X.swapaxes(0, 1) if batch_first else X

    def packed(m, x):
        found = tools_of(m).pack_padded_sequence(x, lengths, batch_first, enforce_sorted=sort)
        return [part for part in found if part is not None]

    def around(m, x):
        found = tools_of(m).pack_padded_sequence(x, lengths, batch_first, enforce_sorted=sort)
        return tools_of(m).pad_packed_sequence(found, not batch_first, -1.5, total_length=6)

    def apart(m, x):
        found = tools_of(m).pack_padded_sequence(x, lengths, batch_first, enforce_sorted=sort)
        return tools_of(m).unpack_sequence(found)

    for call in (packed, around, apart):
        agree(call, x.copy())
    agree(packed, x[..., 0].copy())


@pytest.mark.parametrize("sort", [True, False])
def test_pack_sequence(sort):
    def call(m, *parts):
        return [p for p in tools_of(m).pack_sequence(list(parts), enforce_sorted=sort) if p is not None]

    agree(call, *SEQUENCES)
    agree(call, *SEQUENCES[::-1])
    agree(call)


def test_padding_to_less_than_there_is():
    def call(m, x):
        found = tools_of(m).pack_padded_sequence(x, LENGTHS)
        return tools_of(m).pad_packed_sequence(found, total_length=3)

    agree(call, X)
    with pytest.raises(TypeError, match="PackedSequence"):
        packing.pad_packed_sequence(minitorch.zeros(3))
    with pytest.raises(RuntimeError, match="length of 5 is more than the 4 time steps"):
        packing.pack_padded_sequence(minitorch.tensor(X), [5, 1, 1])


def test_a_packed_sequence_changes_dtype():
    packed = packing.pack_padded_sequence(minitorch.tensor(X), UNSORTED, enforce_sorted=False)
    small = packed.float()
    assert isinstance(small, packing.PackedSequence)
    assert small.data.dtype == np.float32
    assert packed.to(minitorch.float16).data.dtype == np.float16
    assert small.unsorted_indices.equal(packed.unsorted_indices)
    assert not packed.is_cuda


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("options", [{}, {"batch_first": True, "bidirectional": True, "num_layers": 2}])
def test_one_op_and_step_by_step_agree(kind, options):
    """A sequence is one op; the same sequence packed goes step by step."""
    minitorch.manual_seed(0)
    module = getattr(nn, kind)(3, 4, **options, dtype=minitorch.float64)
    x = minitorch.randn(5, 2, 3, dtype=minitorch.float64)
    if options:
        x = x.swapaxes(0, 1)
    lengths = [5, 5]
    found = []
    for packed in (False, True):
        leaf = x.detach().clone().requires_grad_()
        for parameter in module.parameters():
            parameter.grad = None
        if packed:
            given = nn.utils.rnn.pack_padded_sequence(leaf, lengths, batch_first=bool(options))
            output, last = module(given)
            output, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=bool(options))
        else:
            output, last = module(leaf)
        output.mul_(2)  # what is handed out may be written into
        ends = last if isinstance(last, tuple) else (last,)
        (output.sin().sum() + sum((end * end).sum() for end in ends)).backward()
        found.append([output.detach().numpy(), leaf.grad, *(p.grad.copy() for p in module.parameters())])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
