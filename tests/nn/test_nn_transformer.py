"""Attention and Transformer layers against PyTorch in float64."""

import inspect
import warnings

import numpy as np
import pytest

import minitorch
import minitorch.nn.functional as F
from minitorch import nn
from pytorch import torch
from same_as_torch import agree
from same_module import same_draws, same_module, same_on_device, twins

RNG = np.random.default_rng(11)
L, S, N, E, HEADS = 4, 5, 3, 8, 2
Q, K, V = RNG.normal(size=(L, N, E)), RNG.normal(size=(S, N, E)), RNG.normal(size=(S, N, E))
INF = np.inf


def normal(*shape):
    return RNG.normal(size=shape)


def some(*shape, share=0.3):
    """Bools, mostly False, the first of each row always: nobody is left without a key."""
    mask = RNG.uniform(size=shape) < share
    mask[..., 0] = False
    return mask


def tensor(m, array):
    return (minitorch if m is minitorch else torch).tensor(array)


# --- scaled dot-product attention ---------------------------------------------------------------

SHAPES = [
    ((4, 3), (5, 3), (5, 2)),
    ((2, 4, 3), (2, 5, 3), (2, 5, 3)),
    ((2, 3, 4, 2), (2, 3, 5, 2), (2, 3, 5, 6)),
    ((2, 1, 2), (2, 1, 2), (2, 1, 2)),
    ((2, 0, 2), (2, 3, 2), (2, 3, 2)),
]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.7}])
def test_attention_is_pytorchs(shapes, options):
    agree(
        lambda m, q, k, v: m.nn.functional.scaled_dot_product_attention(q, k, v, **options),
        *(normal(*shape) for shape in shapes),
    )


@pytest.mark.parametrize("shapes", SHAPES[:4])
def test_attention_with_masks(shapes):
    arrays = [normal(*shape) for shape in shapes]
    places = (shapes[0][-2], shapes[1][-2])

    def call(m, q, k, v, mask):
        return m.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    agree(call, *arrays, ~some(*places))
    agree(call, *arrays, np.where(some(*places), -INF, 0.0))
    agree(call, *arrays, normal(*places))  # a mask that is learned
    agree(call, *arrays, normal(*shapes[0][:-2], *places))


def test_a_query_that_may_look_nowhere_gets_zero():
    mask = ~some(4, 5)
    mask[1] = False
    arrays = normal(2, 4, 3), normal(2, 5, 3), normal(2, 5, 3)

    def call(m, q, k, v, mask):
        return m.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    agree(call, *arrays, mask)
    agree(call, *arrays, np.where(mask, 0.0, -INF))
    q, k, v = (minitorch.tensor(a, requires_grad=True) for a in arrays)
    out = F.scaled_dot_product_attention(q, k, v, minitorch.tensor(mask))
    assert not out[:, 1].detach().numpy().any()
    agree(call, normal(4, 3), np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((4, 0), dtype=bool))


def test_attention_with_a_mask_that_is_causal_too():
    def call(m, q, k, v, mask):
        return m.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=True)

    arrays = [normal(2, 2, 4, 3) for _ in range(3)]
    agree(lambda m, q, k, v: call(m, q, k, v, m.tensor(np.tril(np.ones((4, 4))) - 0.5)), *arrays)
    agree(call, *arrays, np.arange(16).reshape(4, 4) % 5 < 3)
    agree(call, *(normal(2, 4, 3) for _ in range(3)), normal(4, 4))


def test_grouped_queries_share_keys():
    def call(m, q, k, v):
        return m.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    agree(call, normal(2, 6, 4, 3), normal(2, 2, 4, 3), normal(2, 2, 4, 3))
    agree(call, normal(2, 6, 4, 3), normal(2, 6, 4, 3), normal(2, 1, 4, 3))
    agree(call, normal(2, 6, 4, 3), normal(2, 4, 4, 3), normal(2, 4, 4, 3))


@pytest.mark.parametrize(
    "call",
    [
        "f(z(3), z(3), z(3))",
        "f(z(2, 3), z(2, 4), z(2, 4))",
        "f(z(2, 3), z(2, 3).double(), z(2, 3))",
        "f(z(2, 3), z(4, 3), z(5, 3))",
        "f(z(2, 3), z(4, 3), z(4, 3), attn_mask=z(2, 5))",
        "f(z(2, 3), z(4, 3), z(4, 3), attn_mask=z(2, 4).int())",
        "f(z(2, 3), z(4, 3), z(4, 3), attn_mask=z(2, 4), is_causal=True)",
        "f(z(2, 3), z(4, 3), z(4, 3), dropout_p=2.0)",
    ],
)
def test_refused_by_attention(call):
    agree(lambda m: eval(call, {"f": m.nn.functional.scaled_dot_product_attention, "z": m.zeros}))


def test_attention_drops_weights():
    minitorch.manual_seed(0)
    ones = minitorch.ones(50, 40)
    out = F.scaled_dot_product_attention(ones, ones, ones, dropout_p=0.5)[:, 0].numpy()
    assert 0.8 < out.mean() < 1.2
    assert out.std() > 0.05
    assert not F.scaled_dot_product_attention(ones, ones, ones, dropout_p=1.0).numpy().any()


# --- MultiheadAttention -------------------------------------------------------------------------


def attention(**options):
    def build(m):
        module = m.nn.MultiheadAttention(E, HEADS, **options)
        if m is torch:  # biases start at 0, which would hide a mistake
            for name, parameter in module.named_parameters():
                if "bias" in name:
                    torch.nn.init.normal_(parameter)
        return module

    return build


def both(out):
    """Output and weights, without a None."""
    return [part for part in out if part is not None]


MHA = [
    {},
    {"bias": False},
    {"batch_first": True},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
]
CALLS = [
    {},
    {"need_weights": False},
    {"average_attn_weights": False},
    {"attn_mask": some(L, S)},
    {"attn_mask": np.where(some(L, S), -INF, 0.0)},
    {"attn_mask": some(N * HEADS, L, S), "need_weights": False},
    {"attn_mask": normal(N * HEADS, L, S), "average_attn_weights": False},
    {"key_padding_mask": some(N, S)},
    {"key_padding_mask": normal(N, S), "need_weights": False},
    {"key_padding_mask": some(N, S), "attn_mask": some(L, S), "need_weights": False},
]


@pytest.mark.parametrize("options", MHA)
@pytest.mark.parametrize("given", CALLS)
def test_multihead_attention_is_pytorchs(options, given):
    arrays = [a.swapaxes(0, 1).copy() for a in (Q, K, V)] if options.get("batch_first") else [Q, K, V]

    def call(m, module, q, k, v):
        made = {n: tensor(m, a) if isinstance(a, np.ndarray) else a for n, a in given.items()}
        return both(module(q, k, v, **made))

    same_module(twins(attention(**options)), *arrays, call=call)

    def call_encoder_decoder(m, module, q, k):
        made = {n: tensor(m, a) if isinstance(a, np.ndarray) else a for n, a in given.items()}
        return both(module(q, k, k, **made))

    same_module(twins(attention(**options)), *arrays[:2], call=call_encoder_decoder)


@pytest.mark.parametrize("options", MHA)
@pytest.mark.parametrize("need_weights", [True, False])
def test_self_attention(options, need_weights):
    causal = np.triu(np.ones((L, L), dtype=bool), 1)
    # With added keys and without weights, PyTorch's is_causal hides the added keys too, against the mask; here
    # the hint never changes the answer.
    hint = need_weights or not any(name.startswith("add") for name in options)

    def call(m, module, x):
        length = x.shape[1 if options.get("batch_first") else 0]
        mask = tensor(m, causal[:length, :length])
        return both(
            module(x, x, x, need_weights=need_weights, attn_mask=mask, is_causal=hint or m is minitorch)
        )

    same_module(twins(attention(**options)), Q, call=call)
    same_module(twins(attention(**options)), normal(N, E), call=lambda m, module, x: both(module(x, x, x)))


def test_attention_without_a_batch():
    def call(m, module, q, k, v):
        padding, mask = (
            tensor(m, np.array([False, True, False, False, True])),
            tensor(m, CALLS[3]["attn_mask"]),
        )
        return both(module(q, k, v, key_padding_mask=padding, attn_mask=mask))

    same_module(twins(attention()), Q[:, 0], K[:, 0], V[:, 0], call=call)
    same_module(twins(attention(batch_first=True)), Q[:, 0], K[:, 0], V[:, 0], call=call)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("add_bias_kv", [True, False])
def test_keys_and_values_of_other_widths(bias, add_bias_kv):
    build = attention(kdim=3, vdim=5, bias=bias, add_bias_kv=add_bias_kv)
    same_module(
        twins(build), Q, normal(S, N, 3), normal(S, N, 5), call=lambda m, module, *t: both(module(*t))
    )
    same_draws(
        lambda m: m.nn.MultiheadAttention(E, HEADS, kdim=3, vdim=5, bias=bias, add_bias_kv=add_bias_kv)
    )


@pytest.mark.parametrize("options", MHA)
def test_attention_is_drawn_as_pytorchs(options):
    same_draws(lambda m: m.nn.MultiheadAttention(E, HEADS, **options))


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_drops_what_pytorch_drops(need_weights):
    def call(m, module, q, k, v):
        (minitorch if m is minitorch else torch).manual_seed(3)
        return both(module(q, k, v, need_weights=need_weights))

    same_module(twins(attention(dropout=0.4)), Q, K, V, call=call)
    ours, _ = twins(attention(dropout=0.4))
    x = minitorch.tensor(Q)
    ours.eval()
    assert ours(x, x, x)[0].equal(ours(x, x, x)[0])


def test_nobody_to_look_at():
    nowhere = np.ones((N, S), dtype=bool)

    def call(m, module, q, k, v):
        return module(q, k, v, key_padding_mask=tensor(m, nowhere), need_weights=False)[0]

    same_module(twins(attention()), Q, K, V, call=call)


def test_the_function_is_pytorchs():
    def call(m, q, k, v, w, b, out_w, bias_k, mask):
        return m.nn.functional.multi_head_attention_forward(
            q, k, v, E, HEADS, w, b, bias_k, bias_k * 2, True, 0.5, out_w, None, training=False,
            key_padding_mask=mask, average_attn_weights=False,
        )  # fmt: skip

    weights = normal(3 * E, E), normal(3 * E), normal(E, E), normal(1, 1, E)
    agree(call, Q, K, V, *weights, some(N, S))
    agree(call, Q[:, 0], K[:, 0], V[:, 0], *weights, some(N, S)[0])

    def with_static(m, q, k, v, w, b, out_w, static_k, static_v):
        return m.nn.functional.multi_head_attention_forward(
            q, k, v, E, HEADS, w, b, None, None, False, 0.0, out_w, None, static_k=static_k, static_v=static_v
        )

    static = normal(N * HEADS, S, E // HEADS), normal(N * HEADS, S, E // HEADS)
    agree(with_static, Q, K, V, *weights[:3], *static)

    def apart(m, q, k, v, w, b, out_w):
        w_q, w_k, w_v = w[:E], w[E : 2 * E], w[2 * E :]
        return m.nn.functional.multi_head_attention_forward(
            q, k, v, E, HEADS, None, b, None, None, False, 0.0, out_w, None,
            use_separate_proj_weight=True, q_proj_weight=w_q, k_proj_weight=w_k, v_proj_weight=w_v,
        )  # fmt: skip

    agree(apart, Q, K, V, *weights[:3])


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("features", lambda f, z: f(z(2, 3, 5), z(2, 3, 5), z(2, 3, 5))),
        ("three axes", lambda f, z: f(z(2, 3, 4), z(2, 3), z(2, 3, 4))),
        ("three axes", lambda f, z: f(z(1, 2, 3, 4), z(1, 2, 3, 4), z(1, 2, 3, 4))),
        ("one length", lambda f, z: f(z(2, 3, 4), z(5, 3, 4), z(6, 3, 4))),
        ("one batch", lambda f, z: f(z(2, 3, 4), z(5, 2, 4), z(5, 2, 4))),
        ("attn_mask must", lambda f, z: f(z(2, 3, 4), z(5, 3, 4), z(5, 3, 4), attn_mask=z(3, 3))),
        ("attn_mask must", lambda f, z: f(z(2, 3, 4), z(5, 3, 4), z(5, 3, 4), attn_mask=z(3, 2, 5))),
        (
            "key_padding_mask must",
            lambda f, z: f(z(2, 3, 4), z(5, 3, 4), z(5, 3, 4), key_padding_mask=z(3, 3)),
        ),
        ("is_causal", lambda f, z: f(z(2, 3, 4), z(5, 3, 4), z(5, 3, 4), is_causal=True)),
        ("bools or floats", lambda f, z: f(z(2, 3, 4), z(5, 3, 4), z(5, 3, 4), attn_mask=z(2, 5).int())),
    ],
)
def test_what_attention_refuses(message, call):
    with pytest.raises(RuntimeError, match=message):
        call(nn.MultiheadAttention(4, 2), minitorch.zeros)
    with pytest.raises((RuntimeError, AssertionError)):  # PyTorch refuses too, some of it by assert
        call(torch.nn.MultiheadAttention(4, 2), torch.zeros)


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="divisible"):
        nn.MultiheadAttention(5, 2)
    with pytest.raises(ValueError, match="greater than 0"):
        nn.MultiheadAttention(0, 2)


# --- the Transformer ----------------------------------------------------------------------------

LAYER = [
    {},
    {"norm_first": True},
    {"activation": "gelu", "batch_first": True},
    {"bias": False, "norm_first": True, "layer_norm_eps": 1e-3},
]


@pytest.mark.parametrize("options", LAYER)
def test_an_encoder_layer_is_pytorchs(options):
    def build(m):
        return m.nn.TransformerEncoderLayer(E, HEADS, 6, dropout=0.0, **options)

    shape = (N, L, E) if options.get("batch_first") else (L, N, E)
    causal, padding = np.triu(np.full((L, L), -INF), 1), np.where(some(N, L), -INF, 0.0)
    same_module(twins(build), normal(*shape))
    same_module(twins(build), normal(L, E))
    same_module(
        twins(build),
        normal(*shape),
        call=lambda m, module, x: module(x, tensor(m, causal), tensor(m, padding)),
    )
    same_module(
        twins(build), normal(*shape), call=lambda m, module, x: module(x, tensor(m, causal), is_causal=True)
    )
    same_draws(build)


@pytest.mark.parametrize("options", LAYER)
def test_a_decoder_layer_is_pytorchs(options):
    def build(m):
        return m.nn.TransformerDecoderLayer(E, HEADS, 6, dropout=0.0, **options)

    turn = (lambda a: a.swapaxes(0, 1).copy()) if options.get("batch_first") else (lambda a: a)
    masks = np.triu(np.full((L, L), -INF), 1), normal(L, S), np.where(some(N, L), -INF, 0.0), normal(N, S)
    same_module(twins(build), turn(Q), turn(K))
    same_module(
        twins(build),
        turn(Q),
        turn(K),
        call=lambda m, module, x, memory: module(x, memory, *(tensor(m, mask) for mask in masks)),
    )
    same_draws(build)


def test_an_activation_of_ones_own():
    same_module(
        twins(lambda m: m.nn.TransformerEncoderLayer(E, HEADS, 6, dropout=0.0, activation=lambda x: x * x)), Q
    )
    for kind in ("TransformerEncoderLayer", "TransformerDecoderLayer"):
        with pytest.raises(RuntimeError, match="activation"):
            getattr(nn, kind)(4, 2, activation="swish")


def test_layers_drop_what_pytorch_drops():
    def call(m, module, *tensors):
        (minitorch if m is minitorch else torch).manual_seed(5)
        return module(*tensors)

    same_module(twins(lambda m: m.nn.TransformerEncoderLayer(E, HEADS, 6, dropout=0.3)), Q, call=call)
    same_module(twins(lambda m: m.nn.TransformerDecoderLayer(E, HEADS, 6, dropout=0.3)), Q, K, call=call)


def quiet(build):
    """PyTorch warns that its fast path is not taken."""

    def built(m):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return build(m)

    return built


@pytest.mark.parametrize("norm", [True, False])
def test_stacks_are_pytorchs(norm):
    def encoder(m):
        layer = m.nn.TransformerEncoderLayer(E, HEADS, 6, dropout=0.0)
        return m.nn.TransformerEncoder(layer, 2, m.nn.LayerNorm(E) if norm else None)

    def decoder(m):
        layer = m.nn.TransformerDecoderLayer(E, HEADS, 6, dropout=0.0)
        return m.nn.TransformerDecoder(layer, 2, m.nn.LayerNorm(E) if norm else None)

    causal = np.triu(np.full((L, L), -INF), 1)
    ours = same_module(
        twins(quiet(encoder)), Q, call=lambda m, module, x: module(x, mask=tensor(m, causal), is_causal=None)
    )
    same_module(
        twins(quiet(decoder)),
        Q,
        K,
        call=lambda m, module, x, memory: module(x, memory, tgt_mask=tensor(m, causal)),
    )
    same_draws(quiet(encoder))
    same_draws(quiet(decoder))
    weights = [layer.linear1.weight for layer in nn.TransformerEncoder(ours.layers[0], 2).layers]
    assert weights[0] is not weights[1]


@pytest.mark.parametrize("options", LAYER)
def test_the_transformer_is_pytorchs(options):
    def build(m):
        return m.nn.Transformer(E, HEADS, 2, 1, 6, dropout=0.0, **options)

    turn = (lambda a: a.swapaxes(0, 1).copy()) if options.get("batch_first") else (lambda a: a)
    source, padding = turn(K), np.where(some(N, S), -INF, 0.0)

    def call(m, module, src, tgt):
        mask = module.generate_square_subsequent_mask(L, dtype=m.float64)
        return module(
            src, tgt, tgt_mask=mask, src_key_padding_mask=tensor(m, padding),
            memory_key_padding_mask=tensor(m, padding),
        )  # fmt: skip

    same_module(twins(quiet(build)), source, turn(Q))
    same_module(twins(quiet(build)), source, turn(Q), call=call)
    same_draws(quiet(build))


def test_what_the_transformer_refuses():
    model = nn.Transformer(4, 2, 1, 1, 8)
    with pytest.raises(RuntimeError, match="batch number"):
        model(minitorch.zeros(2, 3, 4), minitorch.zeros(2, 4, 4))
    with pytest.raises(RuntimeError, match="feature number"):
        model(minitorch.zeros(2, 3, 5), minitorch.zeros(2, 3, 5))
    with pytest.raises(RuntimeError, match="is_causal"):
        nn.TransformerEncoderLayer(4, 2, 8)(minitorch.zeros(2, 3, 4), is_causal=True)


def test_the_causal_mask():
    agree(lambda m: m.nn.Transformer.generate_square_subsequent_mask(4))
    agree(lambda m: m.nn.Transformer.generate_square_subsequent_mask(3, dtype=m.float64))


def test_parts_of_ones_own():
    class Twice(nn.Module):
        def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
            return src * 2

    model = nn.Transformer(4, 2, 1, 1, 8, custom_encoder=Twice())
    assert isinstance(model.encoder, Twice)
    assert model(minitorch.zeros(2, 3, 4), minitorch.zeros(2, 3, 4)).shape == (2, 3, 4)


@pytest.mark.parametrize(
    "name",
    [
        "MultiheadAttention", "Transformer", "TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer",
        "TransformerDecoderLayer",
    ],
)  # fmt: skip
def test_signatures_are_pytorchs(name):
    def arguments(function):
        found = inspect.signature(function).parameters.values()
        return [(p.name, getattr(p.default, "__name__", p.default)) for p in found]

    ours, theirs = getattr(nn, name), getattr(torch.nn, name)
    assert arguments(ours) == arguments(theirs)
    assert arguments(ours.forward) == arguments(theirs.forward)
    function = "multi_head_attention_forward"
    assert arguments(getattr(F, function)) == arguments(getattr(torch.nn.functional, function))


def test_second_derivatives_through_attention():
    module = nn.TransformerEncoderLayer(2, 1, 3, dropout=0.0, activation="gelu").double()
    x = minitorch.tensor(normal(3, 1, 2), requires_grad=True)
    assert minitorch.gradgradcheck(module, (x,))


def test_attention_stays_on_the_device():
    def call(module, q, k, v, mask, padding):
        weighted = module(q, k, v, attn_mask=mask, key_padding_mask=padding)[0]
        return weighted + module(q, k, v, attn_mask=mask, need_weights=False)[0] + module(q, q, q)[0]

    def build(m):
        return m.nn.MultiheadAttention(E, HEADS, add_bias_kv=True, add_zero_attn=True)

    same_on_device(build, Q, K, V, some(L, S), some(N, S), call=call)
    same_on_device(build, Q, K, V, normal(L, S), normal(N, S), call=call)


def test_the_transformer_stays_on_the_device():
    def build(m):
        return m.nn.Transformer(E, HEADS, 1, 1, 6, dropout=0.0)

    causal = np.triu(np.ones((L, L), dtype=bool), 1)
    same_on_device(
        build, K, Q, causal, call=lambda f, src, tgt, mask: f(src, tgt, tgt_mask=mask, tgt_is_causal=True)
    )


def test_attention_with_functions_of_the_places():
    def call(m, q, k, v):
        if m is minitorch:
            from minitorch.nn.attention.flex_attention import create_block_mask, flex_attention
        else:
            flex = __import__("importlib").import_module("torch.nn.attention.flex_attention")
            create_block_mask, flex_attention = flex.create_block_mask, flex.flex_attention
        mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < 3), 1, 1, 5, 5, device="cpu")
        return flex_attention(q, k, v, lambda s, b, h, i, j: s + 0.1 * (j - i) * (h + 1), mask)

    arrays = [normal(2, 2, 5, 4) for _ in range(3)]
    ours = call(minitorch, *(minitorch.tensor(a) for a in arrays))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = call(torch, *(torch.tensor(a) for a in arrays))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9)
