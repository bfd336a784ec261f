"""Sizes that vary: one program for all of them, guards where Python compared, numbers where it needs one; never wrong."""

import copy
import fractions
import functools
import itertools
import json
import linecache
import math
import operator

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn, optim
from minitorch.compiler.call import cache, entry, specialisation
from minitorch.compiler.call.compiled import Disagreement
from minitorch.compiler.call.shapes import VaryingShapes
from minitorch.compiler.trace.traced import Traced
from random_shapes import difference

F = nn.functional
SIZES = (5, 7, 6, 9, 4, 1, 8, 3, 2, 7, 20, 33)


def rows(n):
    return (mt.randn(n, 3),)


CASES = {}


def case(arguments=rows, symbolic=True, least=1):
    """Note a function of arguments for a size. symbolic: whether one program serves many sizes. least: its least size."""

    def note(function):
        CASES[function.__name__] = (function, arguments, symbolic, least)
        return function

    return note


# --- what Python makes of a size -----------------------------------------------------------------------------------

table = list(range(100))
floats = {i: float(i) for i in range(100)}


@case(symbolic=False)
def loop(x):
    out = 0
    for i in range(x.shape[0]):
        out = out + x[i] * i
    return out


@case(symbolic=False)
def item_of_a_list(x):
    return x * table[x.shape[0]], len(table[: len(x)])


@case(symbolic=False)
def key_of_a_dict(x):
    return x * floats[x.shape[0]], floats.get(len(x), 3.0), {len(x): 1}


@case(symbolic=False)
def list_times_size(x):
    return x * len([0] * x.size(0))


@case()
def a_mask_of_what_comes_later(x):
    return nn.Transformer.generate_square_subsequent_mask(x.shape[0]) + x[:, :1]


@case(lambda n: (mt.randn(n, 6),))
def parts_of_an_array_copied(x):
    first, second = x.split(3, dim=1)
    return (
        first.to(mt.float64),
        second.half(),
        first.clone(),
        second.flip(0),
        second[:, :1].expand(-1, 4).double(),
    )


@case(symbolic=False)
def texts(x):
    return x * 2, str(x.shape), f"{x.shape}", repr(x.shape)


@case()
def texts_of_one_size(x):
    return x * 2, f"{x.shape[0]} rows of {x.shape[1]}", str(len(x)), " ".join([str(len(x)), "rows"])


@case()
def whole_numbers(x):
    n = x.shape[0]
    quotient, remainder = divmod(n, 4)
    return (
        x * int(n),
        x * (n // 2),
        x * (n % 3),
        x * quotient + remainder,
        x * n**2,
        x * -n,
        x * abs(n - 5),
        x * (n + 1),
    )


@case()
def numbers_with_fractions(x):
    n = len(x)
    return (
        x / n,
        x * (1 / n),
        x * (0.5 * n),
        x / math.sqrt(n),
        x * n**-0.5,
        x * float(n),
        x * math.log(n),
        x + n / 3,
    )


@case(symbolic=False)
def rounded(x):
    return x * math.ceil(x.shape[0] / 2), x * round(x.shape[0] / 3), x * int(x.shape[0] / 2)


@case()
def compared(x):
    return x * 2 if x.shape[0] > 6 else x * 3


@case()
def compared_with_a_fraction(x):
    return x * 2 if x.shape[0] > 6.5 else x * 3


@case()
def asked_for(x):
    return x * 2 if x.shape[0] == 7 or x.shape == (9, 3) else x * 3


@case()
def least_and_greatest(x):
    return x[: min(x.shape[0], 6)] * max(x.shape[0], 5)


@case()
def returned(x):
    return (
        x.shape[0],
        x.numel(),
        len(x),
        x.size(),
        x.shape.numel(),
        x.nbytes,
        x.stride(),
        x.T.stride(),
        [len(x)] * 2,
    )


@case()
def truth(x):
    return x * 2 if x.shape[0] and x.numel() else x


@case()
def caught(x):
    try:
        if x.shape[0] > 6:
            raise ValueError
    except Exception:
        return x * 2
    return x


@case(symbolic=False)
def caught_by_all_means(x):
    try:
        return x * table[x.shape[0]]
    except BaseException:
        return x


# --- arrays made of sizes -------------------------------------------------------------------------------------------


@case()
def made(x):
    n = x.shape[0]
    return (
        x + mt.zeros(n, 3), mt.ones(n), mt.full((n, 2), 3.0), mt.zeros_like(x), x.new_ones(n, 4), mt.empty(n).fill_(1.0),
        mt.arange(n), mt.arange(2, n + 2), mt.arange(n, dtype=mt.float32), mt.eye(n), mt.tensor(n), mt.tensor([n, 3]),
    )  # fmt: skip


@case(symbolic=False)
def made_by_numpy(x):
    return x + mt.from_numpy(np.arange(x.shape[0], dtype=np.float32))[:, None], mt.tensor(
        np.zeros((len(x), 3))
    )


@case(lambda n: (mt.randn(n, 4),))
def drawn(x):
    n = x.shape[0]
    return (
        x + mt.randn(n, 4), mt.rand(n), F.dropout(x, 0.5), mt.rand_like(x), mt.randperm(n), mt.randint(0, 9, (n,)),
        mt.bernoulli(mt.full_like(x, 0.4)), mt.empty(n, 2).normal_(),
    )  # fmt: skip


# --- shapes -----------------------------------------------------------------------------------------------------------


@case(lambda n: (mt.randn(n, 4, 6),))
def reshaped(x):
    b, t, c = x.shape
    heads = x.view(b, t, 2, c // 2).transpose(1, 2)
    return (
        heads.reshape(b * 2, t, -1),
        x.reshape(b * t, c).sum(0),
        (x * 2).flatten(),
        x.reshape(-1, 3) + 1,
        heads + 1,
    )


@case()
def reshaped_by_two(x):
    return x[: x.shape[0] // 2 * 2].reshape(-1, 2, 3).sum(1)


@case(least=2)
def sliced(x):
    parts = x[1:], x[:-1], x[::2], x[-2:], x[1:-1], x[:, 1:], x[-5:], x[: x.shape[0] // 2], x[5:]
    return [part + 1 for part in parts], x[-1] + 1, x[0] + 1, x.flip(0)


@case(least=2)
def written(x):
    y = x.clone()
    y[0] = 1.0
    y[1:] = y[1:] * 2
    y[::2, 0] = 0.0
    y[-1, 1] += 3
    return y


@case()
def joined(x):
    return (
        mt.cat([x, x * 2]), mt.stack([x, x]), mt.cat([x, mt.zeros(2, 3)]), x.repeat(2, 1), x.tile(2), mt.roll(x, 1, 0),
        x.repeat_interleave(2, 0), x.expand(2, *x.shape) + 1,
    )  # fmt: skip


@case(lambda n: (mt.randn(n, 3), mt.randn(1, 3), mt.randn(3)))
def broadcast(x, y, z):
    return x + y, x * z, y.expand(x.shape[0], 3) - x, y.expand_as(x) + 1, mt.broadcast_to(z, x.shape) + 1


@case(lambda n: (mt.randn(n, 3), mt.randn(n, 3), mt.randn(n + 2, 3)))
def together_and_apart(x, y, z):
    return x + y, x @ z.T, mt.cat([x, z]), mt.where(x > y, x, y)


@case(lambda n: (mt.randn(n, n + 1),))
def two_axes(x):
    return (
        x.T @ x,
        x[:, : x.shape[0]].tril(),
        x.triu(1),
        x[:, :-1].diagonal() + 1,
        mt.ones(len(x), len(x)).tril(),
    )


# --- numbers ------------------------------------------------------------------------------------------------------------


@case(least=2)
def statistics(x):
    return (
        x.mean(),
        x.std(0),
        x.var(),
        x.max(0).values,
        x.argmax(0),
        x.prod(0),
        x.cumsum(0),
        x.logsumexp(0),
        x.norm(),
    )


@case(least=2)
def sorting(x):
    return x.sort(0).values, x.argsort(0), x.topk(2, 0).values, x.median()


@case(lambda n: (mt.randn(n, 4), mt.randint(0, 3, (n,))))
def looked_up(x, i):
    return (
        mt.zeros(3, 4).index_add(0, i, x), x.gather(1, i[:, None]), x[mt.arange(x.shape[0]), i], F.one_hot(i, 3),
        mt.zeros(x.shape[0], 3).scatter(1, i[:, None], 1.0), x.take_along_dim(i[:, None], 1),
    )  # fmt: skip


@case(lambda n: (mt.randn(n, 3), mt.randn(n, 3) > 0, mt.randn(n) > 0))
def masks(x, m, r):
    return x.masked_fill(m, 0.0), mt.where(m, x, -x), (x * m).sum(), m.any(), x[r].sum(), x[m].mean()


@case(lambda n: (mt.randn(n, 4),))
def products(x):
    return (
        mt.einsum("bi,ci->bc", x, x),
        mt.einsum("bi->i", x),
        mt.outer(x[:, 0], x[:, 1]),
        mt.bmm(x[:, :, None], x[:, None]),
    )


@case(lambda n: (mt.randn(n, 5), mt.randint(0, 5, (n,))))
def cross_entropy(x, y):
    return F.cross_entropy(x, y), F.cross_entropy(x, y, reduction="sum"), (x.argmax(1) == y).float().mean()


@case(lambda n: (mt.randn(n, 5, requires_grad=True),))
def gradients(x):
    loss = (x.softmax(1) * x).sum() / x.shape[0]
    loss.backward()
    return loss, x.grad


@case(lambda n: (mt.randn(n, 4),))
def items(x):
    return x.sum().item(), x.mean().item() * x.shape[0], x[0, 1].item()


# --- layers -----------------------------------------------------------------------------------------------------------

embedding, places, positions = nn.Embedding(10, 4), nn.Embedding(64, 4), mt.randn(64, 4)
linear, mask = nn.Linear(8, 24), mt.tril(mt.ones(64, 64)).view(1, 1, 64, 64)
attention = nn.MultiheadAttention(8, 2, batch_first=True)
lstm, gru = nn.LSTM(6, 5, batch_first=True), nn.GRU(6, 5, batch_first=True)
images = nn.Sequential(
    nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 5, 3, stride=2)
)
kernel = mt.randn(4, 3, 3)


@case(lambda n: (mt.randint(0, 10, (2, n)),))
def embedded(i):
    return embedding(i) + places(mt.arange(i.shape[1])), embedding(i) + positions[: i.shape[1]]


@case(lambda n: (mt.randn(2, n, 8),))
def attended(x):
    return attention(x, x, x, need_weights=False)[0]


@case(lambda n: (mt.randn(2, n, 8),))
def causal(x):
    B, T, C = x.size()
    q, k, v = (t.view(B, T, 2, C // 2).transpose(1, 2) for t in linear(x).split(8, dim=2))
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    scores = scores.masked_fill(mask[:, :, :T, :T] == 0, float("-inf")).softmax(-1)
    return (scores @ v).transpose(1, 2).contiguous().view(B, T, C), F.scaled_dot_product_attention(
        q, k, v, is_causal=True
    )


@case(lambda n: (mt.randn(n, 3, 6),))
def recurrent_over_a_batch(x):
    return lstm(x)[0], gru(x)[0]


@case(lambda n: (mt.randn(2, n, 6),), symbolic=False)
def recurrent_over_time(x):
    return lstm(x)[0]


@case(lambda n: (mt.randn(n, 3, 8, 8),))
def images_in_a_batch(x):
    return images(x)


@case(lambda n: (mt.randn(2, 3, n + 9, n + 8),))
def images_of_any_size(x):
    return images(x), F.avg_pool2d(x, 2), F.conv2d(x, images[0].weight, stride=2)


@case(lambda n: (mt.randn(2, 3, n + 4),))
def one_dimension(x):
    return F.conv1d(x, kernel), F.conv_transpose1d(x, kernel.transpose(0, 1), stride=2), F.pad(x, (1, 2))


@case(lambda n: (np.ones((n, 4), np.float32) * n,))
def arrays(a):
    return mt.from_numpy(a) * 2, a.sum(0), a.shape[0], np.tanh(a), a[1:] + 1


@case(lambda n: ({"x": mt.randn(n, 4), "l": [mt.randn(n), mt.randn(3)]},))
def nested(d):
    return d["x"].sum(1) + d["l"][0], d["l"][1] * 2


def same(a, b):
    if isinstance(b, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(b, (mt.Tensor, np.ndarray)):
        a, b = (t.detach().numpy() if isinstance(t, mt.Tensor) else t for t in (a, b))
        return (
            a.dtype == b.dtype
            and a.shape == b.shape
            and np.allclose(a, b, rtol=2e-4, atol=2e-5, equal_nan=True)
        )
    return type(a) is type(b) and (
        a == b or (isinstance(b, float) and math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-5))
    )


def run(name, backend, dynamic=None):
    function, arguments, _, least = CASES[name]
    compiled = mt.compile(function, backend=backend, dynamic=dynamic)
    for call, n in enumerate(n for n in SIZES if n >= least):
        mt.manual_seed(call)
        given = arguments(n)
        results = []
        for each in (function, compiled):
            mt.manual_seed(100 + call)
            results.append((each(*copy.deepcopy(given)), mt.rand(1).item()))
        assert same(*(result for result, _ in reversed(results))), (name, n, results)
        assert results[0][1] == results[1][1], "the random stream"
    return compiled


@pytest.mark.filterwarnings("ignore:.*come rarely run as they are")
@pytest.mark.parametrize("name", CASES)
def test_what_is_done_with_a_size_is_right_at_every_size(name):
    compiled = run(name, "numpy")
    symbolic = [program for program in compiled.cache.all() if program.places]
    assert bool(symbolic) == CASES[name][2]
    if symbolic:
        assert compiled.compilations <= 7
        assert compiled.cache.eager_calls <= 1  # (the fifth kind of arguments has to come more often)
        assert any(program.audited_elsewhere for program in symbolic)


@pytest.mark.parametrize("name", [name for name, (_, _, symbolic, _) in CASES.items() if symbolic])
def test_native_programs_are_right_at_every_size(name):
    assert run(name, "native").cache.audits


@pytest.mark.filterwarnings("ignore:.*come rarely run as they are")
@pytest.mark.parametrize(
    "name", ["whole_numbers", "reshaped", "causal", "drawn", "together_and_apart", "gradients"]
)
@pytest.mark.parametrize("dynamic", [True, False])
def test_with_symbols_from_the_first_call_on_or_never(name, dynamic):
    compiled = run(name, "numpy", dynamic)
    assert any(program.places for program in compiled.cache.all()) == (dynamic and CASES[name][2])


# --- how often is compiled ---------------------------------------------------------------------------------------------


def a_step(features=6):
    model = nn.Sequential(nn.Linear(features, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = optim.Adam(model.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_four_hundred_batch_sizes_in_any_order(compile):
    rng = np.random.default_rng(0)
    step = compile(a_step())
    # (How often is compiled is decided before any backend is asked: one of them sees them all.)
    some = 400 if compile.keywords["backend"] == "numpy" else 40
    for n in rng.permutation(np.arange(2, 402)).tolist()[:some]:
        step(mt.randn(n, 6), mt.randint(0, 3, (n,)))
    assert step.compilations <= 3
    assert step.cache.eager_calls == 0


def test_a_smaller_last_batch_over_many_epochs(compile):
    step = compile(a_step())
    x, y = mt.randn(70, 6), mt.randint(0, 3, (70,))
    for _ in range(12):
        for i in range(0, 70, 16):
            step(x[i : i + 16], y[i : i + 16])
    assert step.compilations == 2
    assert sum(bool(program.places) for program in step.cache.all()) == 1


def test_generation_over_growing_lengths(compile):
    block = 24
    tokens, place, head = nn.Embedding(11, 8), nn.Embedding(block, 8), nn.Linear(8, 11)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)

    @compile
    def logits(i):
        x = tokens(i) + place(mt.arange(i.shape[1]))
        later = mt.ones(i.shape[1], i.shape[1]).triu(1) > 0
        return head(layer(x, x, x, attn_mask=later, need_weights=False)[0])[:, -1]

    text, expected = (mt.zeros(1, 1, dtype=mt.int64) for _ in range(2))
    with mt.no_grad():
        for _ in range(40):
            text = mt.cat([text, logits(text[:, -block:]).argmax(-1, keepdim=True)], dim=1)
            expected = mt.cat(
                [expected, logits.function(expected[:, -block:]).argmax(-1, keepdim=True)], dim=1
            )
    assert text.tolist() == expected.tolist()
    assert logits.compilations <= 4
    assert logits.cache.eager_calls == 0


def test_a_cache_that_grows(compile):
    @compile
    def attend(q, keys, values, new):
        keys, values = mt.cat([keys, new]), mt.cat([values, new * 2])
        return (q @ keys.T).softmax(-1) @ values, keys, values

    keys = values = mt.zeros(0, 4)
    for step in range(30):
        mt.manual_seed(step)
        q, new = mt.randn(1, 4), mt.randn(1, 4)
        expected = attend.function(q, keys, values, new)
        out, keys, values = attend(q, keys, values, new)
        assert same(out, expected[0])
        assert keys.shape == (step + 1, 4)
    assert attend.compilations <= 4


# --- the parts ------------------------------------------------------------------------------------------------------------


def test_axes_that_were_never_seen_to_differ_have_one_name():
    shapes = VaryingShapes([(4, 3), (4,), (4, 4)])
    shapes.see([(4, 3), (4,), (4, 4)])
    assert shapes.named([(4, 3), (4,), (4, 4)]) is None
    shapes.see([(5, 3), (5,), (4, 6)])
    assert shapes.named([(5, 3), (5,), (4, 6)]) == (("s0", 3), ("s0",), (4, "s1"))
    assert shapes.named([(5, 3), (6,), (4, 6)]) is None  # told apart when it is seen
    shapes.see([(5, 3), (6,), (4, 6)])
    assert shapes.named([(5, 3), (6,), (4, 6)]) == (("s0", 3), ("s1",), (4, "s2"))


def test_sizes_0_and_1_have_no_names():
    shapes = VaryingShapes([(1, 3)])
    for n in (1, 5, 0, 7):
        shapes.see([(n, 3)])
    assert [shapes.named([(n, 3)]) for n in (0, 1, 2)] == [None, None, (("s0", 3),)]


def test_what_cannot_vary_and_what_is_special():
    shapes = VaryingShapes([(4, 3)], all_of_them=True)
    shapes.fix([(0, 1)], "a loop")
    shapes.except_for([(0, 0)], [(6, 3)], "6 is asked for")
    assert shapes.named([(4, 3)]) == (("s0", 3),)
    assert shapes.named([(6, 3)]) is None
    for n in range(10, 20):
        shapes.except_for([(0, 0)], [(n, 3)], "all are")
    assert shapes.fixed == {(0, 1): "a loop", (0, 0): "all are"}


def test_a_size_that_leaks_is_found_by_the_first_call_with_another_one(monkeypatch):
    """A negative control: were there a way to the numbers of the recorded run, the audit would find it."""
    monkeypatch.setattr(Traced, "shape", property(operator.attrgetter("_array.shape")))
    leaking = mt.compile(lambda x: x * x.shape[0], backend="numpy")
    leaking(mt.ones(4, 3))
    leaking(mt.ones(5, 3))
    with pytest.warns(Disagreement, match="did not do what its program did"):
        assert leaking(mt.ones(6, 3)).tolist() == [[6.0] * 3] * 6


def test_explain_tells_of_sizes_their_ranges_and_guards():
    f = mt.compile(lambda x: x * 2 if x.shape[0] > 6 else x, backend="numpy")
    for n in (7, 9, 3):
        f(mt.ones(n, 2))
    words = str(f.explain())
    assert "sizes that vary: s0 ≥ 2 (axis 0 of array 0; 9 when recorded)" in words
    assert "taken for granted of them: s0 >= 7" in words
    assert "taken for granted of them: 6 >= s0" in words
    assert "s0 >= 7 does not hold any more" in words


def test_explain_tells_what_cannot_vary_and_which_line_is_why():
    f = mt.compile(loop, backend="numpy")
    for n in (3, 4):
        f(mt.ones(n, 3))
    assert "axis 0 of array 0 cannot vary: test_shapes_that_vary.py" in str(f.explain())
    assert "for i in range(x.shape[0])" in str(f.explain())


def test_random_programs_at_random_sizes_are_right_in_every_way():
    found = [difference(seed, "numpy")[0] for seed in range(25)]
    assert not any(found), found


def test_results_that_are_views_are_views_at_every_size(compile):
    @compile
    def looked_at(x):
        y = x * 2
        return (
            x[1:],
            x.view(-1),
            x.T,
            y,
            y[:-1],
            y.reshape(x.shape[0] * 3),
            y[: x.shape[0] // 2],
            y[x.shape[0] // 2 :],
        )

    for n in (4, 6, 9, 5):
        x = mt.randn(n, 3)
        tail, flat, turned, y, but_last, all_of_it, first, rest = looked_at(x)
        expected = looked_at.function(x)
        assert all(map(same, (tail, flat, turned, y, but_last, all_of_it, first, rest), expected))
        x[1, 0] = 7.0
        assert (tail[0, 0].item(), flat[3].item(), turned[0, 1].item()) == (7.0, 7.0, 7.0)
        y[0, 0] = 5.0
        assert (but_last[0, 0].item(), all_of_it[0].item(), first[0, 0].item()) == (5.0, 5.0, 5.0)
        y[n - 1, 2] = 3.0
        assert rest[-1, 2].item() == all_of_it[-1].item() == 3.0
    assert looked_at.compilations == 2


def test_arguments_whose_strides_vary(compile):
    f = compile(lambda i: (i * 2).sum(0) + i[0])
    longer = mt.arange(60.0).reshape(2, 30)
    for n in range(6, 30):
        part = longer[:, n - 6 : n]
        assert same(f(part), f.function(part))
        part = longer[:, :n].contiguous()[:, -6:]  # as a text's last words are, while it grows
        assert same(f(part), f.function(part))
    assert f.compilations <= 3
    assert f.cache.eager_calls == 0


def test_sizes_and_strides_that_vary(compile):
    f = compile(lambda x: x.cumsum(1) * x.shape[1])
    for n in range(4, 20):
        x = mt.randn(3, n + n % 3)[:, :n]
        assert same(f(x), f.function(x))
    assert f.compilations <= 6  # with and without gaps
    assert f.cache.eager_calls == 0


@pytest.mark.filterwarnings("ignore:.*come rarely run as they are")
def test_strides_do_not_vary_where_an_argument_is_written_into_or_looked_at(compile):
    for function in (lambda x: x.add_(1), lambda x: x[:, 1:], lambda x: x.mul_(x.shape[1])):
        f = compile(function)
        for n in range(4, 12):
            base, other = (mt.arange(40.0).reshape(2, 20) for _ in range(2))
            got, expected = f(base[:, :n]), function(other[:, :n])
            assert same(got, expected)
            assert same(base, other)
            got[0, 0] = 100.0
            expected[0, 0] = 100.0
            assert same(base, other)


def test_gradients_through_results_at_every_size(compile):
    """The recorded call's results have an eager graph, those of later calls one of the program's; twice differentiable."""

    def function(x):
        n = x.shape[0]
        y = x.reshape(n * 3)[1 : n * 3 - 1].view(-1)
        return (y * y * y).sum() / n + x[: n // 2].expand(2, n // 2, 3).tanh().sum()

    f = compile(function)
    for n in (4, 6, 9, 5, 8):
        x = mt.randn(n, 3, requires_grad=True)
        found = []
        for each in (f, function):
            (first,) = mt.autograd.grad(each(x), x, create_graph=True)
            (second,) = mt.autograd.grad((first * first).sum(), x)
            each(x).backward()
            found.append((first.detach(), second, x.grad.copy()))
            x.grad = None
        assert same(*found)
    assert f.compilations == 2


# --- every way Python, and this library, can turn a size into something --------------------------------------------------

EXPRESSIONS = """
n.bit_length() | n & 1 | n | 6 if n else 0 | n ^ 3 | n >> 1 | n << 1 | ~n | n.real | n.numerator | n.__index__() | hash(n)
isinstance(n, int) | isinstance(n, bool) | type(n) is int | type(n) == int | n in {5: 1, 6: 2} | n in {5, 7} | n == n
n <= 5.0 | n != 6.5 | sorted([n, 5, 3, 8]) | max([n, 4], key=lambda v: -v) | range(n)[2] | list(range(n)) | list(enumerate(range(n)))
x.shape[0:1] | x.shape + (1,) | x.shape == (5, 3) | x.shape < (6,) | (n,) * 2 | "a" * n | [0] * n | bytes(n) | n * (1,)
np.int64(n) | np.prod(x.shape) | np.array(x.shape) | np.sqrt(n) | np.zeros(n) | np.arange(n) | np.full((n, 2), n) | np.float32(n) * 2
complex(n) | fractions.Fraction(n, 3) | itertools.repeat(0, n).__length_hint__() | list(itertools.islice(table, n)) | copy.copy(n)
json.dumps(n) | operator.index(n) | math.gcd(n, 4) | math.factorial(n) | math.isqrt(n) | math.comb(n, 2) | int(str(n)) | round(n, -1)
round(n / 3, 2) | divmod(17, n) | pow(n, 2, 5) | 2**n | n**3 | n**0.5 | n**-1 | sum([n, n]) | math.prod(x.shape) | 17 // n | 17 % n
functools.reduce(operator.mul, x.shape) | all(x.shape) | -n // 2 | abs(3 - n) | min(n, 7) | max(n, 7) | n if n > 6 else -n | not n
(lambda k: k + 1)(n) | [n * i for i in range(3)] | {n: 1} | {"n": n} | {n, 5} | f"{n:>5}|{n:d}|{n!r}" | f"{n / 2:.2f}" | str([n]) | "%5d" % n
x.numel() // n | x.size(-2) | x.nbytes % 7 | len(x) - len(x[1:]) | x[n - 1] + 0 | x[-n] + 0 | x[n // 2] + 0 | x.narrow(0, 1, n - 1) + 0
x.select(0, n - 1) + 0 | x[mt.tensor(n - 1)] + 0 | mt.arange(n, 0, -1) | mt.linspace(0, 1, n) | x.split([1, n - 1])[1] + 0
x.unfold(0, 2, 1) + 0 | x.view(n, 3) + 0 | x.expand(n, n, 3) + 0 | mt.full((2,), n) | mt.full((2,), float(n)) | x.clone().fill_(n)
x.clamp(max=n) | x.abs() ** n | mt.tensor([1.0]) * n | mt.tensor([2, 3]) * n | n - x | n / (x.abs() + 1) | x // n | x % n | x > n
x.topk(n - 1, 0).values | x.cumsum(0)[n - 1] + 0 | F.one_hot(mt.arange(n), n) | mt.zeros(n).eq(0).all() | x.sum().item() > n
mt.tril_indices(n, n) | mt.eye(n, 3) | mt.ones(n).diag() | mt.stack([x[0]] * n) | mt.cat([x[i : i + 1] for i in range(n)])
x.new_full((n,), n) | x.repeat(n, 1) | x.flatten().unflatten(0, (n, 3)) + 0 | x.chunk(2)[0] + 0 | mt.meshgrid(mt.arange(n), mt.arange(2))[0]
x.unsqueeze(0).squeeze() + 0 | x.T.contiguous().view(-1) + 0 | x.roll(n // 2, 0) | x.index_fill(0, mt.tensor([n - 1]), 0.0) | x.std(0)
mt.randn(n, generator=None).shape | x.var(0, correction=0) / n | x.mean(0, keepdim=True).expand(n, 3) + 0 | F.normalize(x, dim=0)
"""


def expressions():
    return [part.strip() for line in EXPRESSIONS.strip().splitlines() for part in _parts(line)]


def _parts(line):
    """Split at bars that are not inside brackets or quotes; `n | 6` is one with a bar of its own."""
    return [
        part.replace("or_6", "n | 6")
        for part in line.replace("n | 6 if n else 0", "or_6 if n else 0").split(" | ")
    ]


@pytest.mark.filterwarnings("ignore:.*come rarely run as they are")
@pytest.mark.filterwarnings("ignore:.*runs as it is, not compiled")  # a set, say, at any size
@pytest.mark.parametrize("expression", expressions())
def test_every_way_to_use_a_size(expression):
    space = {
        "mt": mt, "np": np, "F": F, "math": math, "operator": operator, "functools": functools, "itertools": itertools,
        "copy": copy, "json": json, "fractions": fractions, "table": table,
    }  # fmt: skip
    source = f"def use(x):\n    n = x.shape[0]\n    return x * 2, {expression}\n"
    linecache.cache["<a use>"] = (len(source), None, source.splitlines(True), "<a use>")
    exec(compile(source, "<a use>", "exec"), space)
    compiled = mt.compile(space["use"], backend="numpy")
    for call, n in enumerate((5, 7, 6, 5, 9, 7, 4, 12)):
        mt.manual_seed(call)
        x = mt.randn(n, 3)
        results = []
        for each in (space["use"], compiled):
            mt.manual_seed(call)
            results.append(each(x.clone()))
        assert same(*results[::-1]), (n, results)


@pytest.mark.filterwarnings("ignore:.*come rarely run as they are")
@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_that_are_sometimes_equal(compile, dynamic):
    def function(x, y, z):
        if x.shape[0] == y.shape[0]:
            out = x + y
        elif x.shape[0] > y.shape[0]:
            out = x[: y.shape[0]] * y
        else:
            out = mt.cat([x, y])
        return out, (out.sum(0) + z.sum()) / (x.shape[0] + z.shape[0]), x.shape == z.shape

    f = compile(function, dynamic=dynamic)
    rng = np.random.default_rng(0)
    for call in range(24):
        sizes = rng.integers(1, 7, 3).tolist() if call % 3 else [int(rng.integers(1, 7))] * 3
        x, y, z = (mt.randn(n, 3) for n in sizes)
        assert same(f(x, y, z), function(x, y, z)), sizes


@pytest.mark.filterwarnings("ignore:.*come rarely run as they are")
def test_two_axes_of_one_argument_that_are_sometimes_equal(compile):
    def function(x):
        return (x @ x if x.shape[0] == x.shape[1] else x @ x.T), x.sum(0).unsqueeze(0).expand(
            x.shape[0], -1
        ) + x

    f = compile(function)
    for shape in ((3, 3), (4, 4), (5, 4), (4, 5), (6, 6), (7, 2), (2, 2), (8, 8), (1, 4), (4, 1), (9, 4)):
        x = mt.randn(*shape)
        assert same(f(x), function(x)), shape


@pytest.mark.filterwarnings("ignore:.*come rarely run as they are")
def test_what_is_known_of_shapes_does_not_grow_for_ever(monkeypatch):
    monkeypatch.setattr(cache, "MOST_SEEN", 10)
    looping, counting = mt.compile(loop, backend="numpy"), mt.compile(lambda x, n: x * n, backend="numpy")
    for n in range(2, 40):
        looping(mt.ones(n, 3))
        counting(mt.ones(2), n)
    (shapes,) = looping.cache.shapes.values()
    assert len(shapes._telling) <= 3
    assert len(counting.cache.shapes) <= 10


def _often_quickly(monkeypatch):
    monkeypatch.setattr(entry, "SAMPLED", 1)
    monkeypatch.setattr(specialisation, "OFTEN", 5)


def test_a_size_that_comes_often_gets_a_program_of_its_own(monkeypatch):
    pytest.importorskip("llvmlite")
    _often_quickly(monkeypatch)
    model = nn.Linear(3, 2)
    other = copy.deepcopy(model)
    steps = []
    for each in (model, other):
        optimizer = optim.SGD(each.parameters(), lr=0.1, momentum=0.9)

        def step(x, each=each, optimizer=optimizer):
            optimizer.zero_grad()
            loss = each(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        steps.append(step)
    compiled = mt.compile(steps[0])
    for n in (5, 7, 9, *[8] * 12, 6, 8, 6, 8, *[6] * 4, *[8] * 12):
        x = mt.randn(n, 3)
        assert abs(compiled(x).item() - steps[1](x).item()) < 1e-5
    # 5, all sizes, and 8 by itself; 6 came not so often
    assert compiled.compilations == 3
    assert compiled.explain().reasons[-1] == "sizes that come often: a program of their own"
    own = [p for p in compiled.cache.all() if not p.places and p.key.leaves[0].shape[0] == 8]
    assert own[0].calls >= 10
    np.testing.assert_allclose(model.weight.detach().numpy(), other.weight.detach().numpy(), rtol=1e-4)


def test_few_sizes_get_programs_of_their_own(monkeypatch):
    pytest.importorskip("llvmlite")
    _often_quickly(monkeypatch)
    compiled = mt.compile(lambda x: (x * 2).sum(0))
    for n in (3, 4, 5):
        compiled(mt.ones(n, 2))
    for n in range(6, 16):
        for _ in range(20):
            assert compiled(mt.ones(n, 2)).tolist() == [2 * n] * 2
    assert compiled.compilations == 2 + specialisation.MOST_OF_THEIR_OWN
    always = mt.compile(lambda x: (x * 2).sum(0), dynamic=True)
    for _ in range(30):
        always(mt.ones(6, 2))
    assert always.compilations == 1


def test_two_programs_in_turns_are_both_found_at_once(monkeypatch):
    pytest.importorskip("llvmlite")
    compiled = mt.compile(lambda x: x * 2)
    sizes = (5, 7, 9, 7, 5, 7, 5, 7)
    for n in sizes:
        compiled(mt.ones(n))
    monkeypatch.setattr(type(compiled), "_find", None)  # only what entries find
    for n in (5, 7, 9, 5, 5, 8, 7, 5):
        assert compiled(mt.ones(n)).tolist() == [2.0] * n


def test_where_there_is_no_program_for_a_size_alone_the_one_for_all_goes_on(monkeypatch):
    pytest.importorskip("llvmlite")
    _often_quickly(monkeypatch)
    compiled = mt.compile(lambda x: (x * 2).sum(0))
    for n in (3, 4, 5, 6):
        compiled(mt.ones(n, 2))
    monkeypatch.setattr(
        compiled, "_record", lambda key, arguments, reason: compiled.function(*arguments.args)
    )
    for _ in range(30):
        assert compiled(mt.ones(6, 2)).tolist() == [12, 12]
    assert compiled.compilations == 2
    assert max(program.calls for program in compiled.cache.all()) >= 25
