"""The same seed gives the same numbers as PyTorch: function by function, and in any sequence of calls."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch
from minitorch import Generator, Tensor
from pytorch import torch

SEEDS = [0, 1, 42, 2**31, 2**32 - 1, 2**32, 2**40 + 7, -1, 123456789012345]
FLOATS = ["float32", "float64", "float16"]
# A normal number goes through log, sin and cos: equal to a few units in the last place.
CLOSE = {np.dtype(np.float32): 5e-7, np.dtype(np.float64): 1e-14, np.dtype(np.float16): 2e-3}


def assert_same(mine, theirs, exact=True):
    mine, theirs = mine.numpy(), theirs.numpy()
    assert mine.shape == theirs.shape
    assert mine.dtype == theirs.dtype
    if exact:
        np.testing.assert_array_equal(mine, theirs)
    else:
        np.testing.assert_allclose(mine, theirs, rtol=CLOSE[mine.dtype], atol=CLOSE[mine.dtype])


def seeded(seed):
    minitorch.manual_seed(seed)
    torch.manual_seed(seed)


# --- against PyTorch ----------------------------------------------------------------------------

COUNTS = [0, 1, 2, 5, 15, 16, 17, 31, 32, 33, 100, 1000]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_rand(seed, dtype):
    for n in COUNTS:
        seeded(seed)
        assert_same(minitorch.rand(n, dtype=dtype), torch.rand(n, dtype=getattr(torch, dtype)))
    seeded(seed)
    assert_same(minitorch.rand(2, 3, 4), torch.rand(2, 3, 4))
    assert_same(minitorch.rand((3, 5)), torch.rand((3, 5)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_randn(seed, dtype):
    for n in COUNTS:
        seeded(seed)
        assert_same(minitorch.randn(n, dtype=dtype), torch.randn(n, dtype=getattr(torch, dtype)), exact=False)
    seeded(seed)
    assert_same(minitorch.randn(20, 3, 5), torch.randn(20, 3, 5), exact=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_randint(seed):
    for low, high in [
        (0, 1), (0, 5), (-3, 10), (0, 2**20), (0, 2**28 - 1), (0, 2**28), (0, 2**31), (0, 2**32 - 1), (0, 2**32),
        (0, 2**40), (-(2**62), 2**62),
    ]:  # fmt: skip
        seeded(seed)
        assert_same(minitorch.randint(low, high, (7,)), torch.randint(low, high, (7,)))
    for mine, theirs in [
        (np.int32, torch.int32),
        (np.int8, torch.int8),
        (np.uint8, torch.uint8),
        (np.float32, torch.float32),
    ]:
        seeded(seed)
        assert_same(minitorch.randint(0, 100, (5,), dtype=mine), torch.randint(0, 100, (5,), dtype=theirs))
    seeded(seed)
    assert_same(minitorch.randint(10, (2, 3)), torch.randint(10, (2, 3)))


@pytest.mark.parametrize("seed", SEEDS)
def test_randperm(seed):
    for n in (0, 1, 2, 5, 100, 1000, 5000):
        seeded(seed)
        assert_same(minitorch.randperm(n), torch.randperm(n))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bernoulli(seed, dtype):
    for n in (1, 5, 16, 100):
        seeded(seed)
        chance = np.linspace(0, 1, n).astype(dtype)
        assert_same(minitorch.bernoulli(Tensor(chance)), torch.bernoulli(torch.tensor(chance)))


@pytest.mark.parametrize("seed", SEEDS)
def test_normal(seed):
    mean = np.linspace(-1, 3, 20).astype(np.float32)
    for n in (5, 50):
        seeded(seed)
        assert_same(minitorch.normal(2.0, 3.0, (n,)), torch.normal(2.0, 3.0, (n,)), exact=False)
    seeded(seed)
    assert_same(minitorch.normal(Tensor(mean), 2.0), torch.normal(torch.tensor(mean), 2.0), exact=False)
    std = mean + 2
    for part in (slice(0, 5), slice(None)):
        seeded(seed)
        m, s = mean[part], std[part]
        assert_same(
            minitorch.normal(Tensor(m), Tensor(s)),
            torch.normal(torch.tensor(m), torch.tensor(s)),
            exact=False,
        )
        seeded(seed)
        assert_same(minitorch.normal(1.0, Tensor(s)), torch.normal(1.0, torch.tensor(s)), exact=False)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_like(seed, dtype):
    mine, theirs = Tensor(np.zeros((4, 5), dtype)), torch.zeros(4, 5, dtype=getattr(torch, dtype))
    seeded(seed)
    assert_same(minitorch.rand_like(mine), torch.rand_like(theirs))
    assert_same(minitorch.randn_like(mine), torch.randn_like(theirs), exact=False)


CALLS = {
    "rand": lambda m, n: m.rand(n),
    "rand float64": lambda m, n: m.rand(n, dtype=m.float64),
    "randn": lambda m, n: m.randn(n),
    "randn float64": lambda m, n: m.randn(n, dtype=m.float64),
    "randint": lambda m, n: m.randint(0, 2 + n, (n,)),
    "randint wide": lambda m, n: m.randint(0, 2**33, (n,)),
    "randperm": lambda m, n: m.randperm(n),
    "bernoulli": lambda m, n: m.bernoulli(m.full((n,), 0.3)),
    "seed again": lambda m, n: m.manual_seed(n) and m.rand(1),
    "own generator": lambda m, n: m.rand(n, generator=m.Generator().manual_seed(n)),
}


@given(
    st.integers(-(2**63), 2**64 - 1),
    st.lists(st.tuples(st.sampled_from(sorted(CALLS)), st.integers(0, 40)), min_size=1, max_size=12),
)
def test_any_sequence_of_calls(seed, calls):
    """What one call leaves behind (a kept normal, the place in the stream) matters to the next."""
    seeded(seed)
    for name, n in calls:
        assert_same(CALLS[name](minitorch, n), CALLS[name](torch, n), exact="randn" not in name)


# --- seeds, states, generators ------------------------------------------------------------------


def test_manual_seed_returns_the_generator_and_says_its_seed():
    g = minitorch.manual_seed(7)
    assert minitorch.initial_seed() == g.initial_seed() == 7
    minitorch.manual_seed(-1)
    torch.manual_seed(-1)
    assert minitorch.initial_seed() == torch.initial_seed()
    for wrong in (2**64, -(2**63) - 1):
        with pytest.raises(RuntimeError, match="64 bits"):
            minitorch.manual_seed(wrong)


def test_seed_draws_a_new_one():
    seeds = {minitorch.seed() for _ in range(5)}
    assert len(seeds) == 5
    assert minitorch.initial_seed() in seeds


def test_the_state_determines_what_comes():
    minitorch.manual_seed(3)
    minitorch.randn(3)  # leaves half a pair behind
    state = minitorch.get_rng_state()
    first = minitorch.randn(3).tolist(), minitorch.rand(5).tolist(), minitorch.randperm(9).tolist()
    minitorch.set_rng_state(state)
    assert (minitorch.randn(3).tolist(), minitorch.rand(5).tolist(), minitorch.randperm(9).tolist()) == first


def test_a_state_is_a_snapshot():
    g = Generator().manual_seed(1)
    state = g.get_state()
    a = minitorch.rand(700, generator=g).tolist()  # past the first 624 words
    g.set_state(state)
    assert minitorch.rand(700, generator=g).tolist() == a
    g.set_state(state)
    assert minitorch.rand(700, generator=g).tolist() == a
    other = Generator()
    other.set_state(state)
    assert other.initial_seed() == 1
    assert minitorch.rand(700, generator=other).tolist() == a


def test_generators_are_independent():
    minitorch.manual_seed(0)
    expected = minitorch.rand(4).tolist()
    minitorch.manual_seed(0)
    own = Generator().manual_seed(5)
    got = []
    for _ in range(4):
        got += minitorch.rand(1).tolist()
        minitorch.randn(3, generator=own)
        minitorch.randperm(4, generator=own)
        minitorch.randint(0, 9, (2,), generator=own)
        minitorch.bernoulli(minitorch.full((2,), 0.5), generator=own)
        minitorch.normal(0.0, 1.0, (2,), generator=own)
    assert got == expected


def test_a_fresh_generator_starts_as_pytorchs():
    assert Generator().initial_seed() == torch.Generator().initial_seed()
    assert_same(minitorch.rand(5, generator=Generator()), torch.rand(5, generator=torch.Generator()))
    assert Generator().device == "cpu"


def test_numpys_own_randomness_is_left_alone():
    np.random.seed(0)
    expected = np.random.rand()
    np.random.seed(0)
    minitorch.manual_seed(1)
    minitorch.randn(100)
    assert np.random.rand() == expected


# --- what is made -------------------------------------------------------------------------------


def test_requires_grad_and_dtypes():
    for make in (minitorch.rand, minitorch.randn):
        x = make(3, requires_grad=True)
        assert x.requires_grad
        assert x.is_leaf
        assert make(2).dtype == np.float32
    assert minitorch.randint(0, 3, (2,)).dtype == np.int64
    assert minitorch.randperm(3, dtype=np.int32).dtype == np.int32
    try:
        minitorch.set_default_dtype(np.float64)
        assert minitorch.rand(2).dtype == minitorch.randn(2).dtype == np.float64
    finally:
        minitorch.set_default_dtype(np.float32)


def test_uniforms_stay_below_one():
    for dtype in FLOATS:
        x = minitorch.rand(200_000, dtype=dtype).numpy()
        assert x.min() >= 0
        assert x.max() < 1


def test_what_cannot_be_drawn():
    for call in (
        lambda: minitorch.rand(2, dtype=np.int64),
        lambda: minitorch.randn(2, dtype=np.bool_),
        lambda: minitorch.randint(5, 5, (2,)),
        lambda: minitorch.randint(5, 2, (2,)),
        lambda: minitorch.bernoulli(Tensor([1.5])),
        lambda: minitorch.bernoulli(Tensor([-0.1])),
        lambda: minitorch.bernoulli(Tensor([1])),
    ):
        with pytest.raises(RuntimeError):
            call()


def test_bernoulli_keeps_no_graph():
    x = Tensor([0.5, 0.5], requires_grad=True)
    assert minitorch.bernoulli(x).requires_grad is False


# --- in the order of memory ---------------------------------------------------------------------

LAYOUTS = {
    "contiguous": lambda m: m.zeros(3, 4, 5),
    "permuted": lambda m: m.zeros(5, 3, 4).permute(1, 2, 0),
    "reversed": lambda m: m.zeros(5, 4, 3).permute(2, 1, 0),
    "small": lambda m: m.zeros(3, 4).t(),
    "sliced": lambda m: m.zeros(3, 8, 5)[:, ::2],
    "a part": lambda m: m.zeros(3, 4, 9)[..., 2:7],
    "permuted and sliced": lambda m: m.zeros(10, 3, 4).permute(1, 2, 0)[..., ::2],
    "an axis of one": lambda m: m.zeros(4, 5).t()[:, None],
    "heads": lambda m: m.zeros(2, 3, 4, 5).transpose(1, 2),
    "float64": lambda m: m.zeros(5, 3, 4, dtype=m.float64).permute(1, 2, 0),
    "diagonal": lambda m: m.zeros(20, 20).diagonal(),
}
DRAWS = [
    "m.rand_like(x)", "m.randn_like(x)", "m.randint_like(x, 9)", "m.nn.functional.dropout(x + 1, 0.3)", "m.nn.Dropout(0.5)(x + 1)",
    "m.nn.functional.alpha_dropout(x + 1, 0.5, True)", "x.normal_()", "x.normal_(2, 3)", "x.uniform_()", "x.uniform_(-2, 3)",
    "x.bernoulli_(0.3)", "x.bernoulli_(m.full(tuple(x.shape), 0.4))", "(x + 0.4).bernoulli()", "x.bernoulli(0.3)", "x.exponential_()",
    "x.cauchy_()", "x.geometric_(0.3)", "x.log_normal_()", "x.random_(10)", "m.normal(x, 1.0)", "m.poisson(x + 2)",
    "m.nn.functional.gumbel_softmax(x)", "m.nn.functional.rrelu(x - 1, training=True)", "m.nn.init.normal_(x)", "m.nn.init.uniform_(x)",
    "m.nn.init.trunc_normal_(x)", "m.rand_like(x.clone())", "m.rand_like(x.contiguous())", "m.rand_like(m.zeros_like(x))",
    "m.rand_like(m.ones_like(x.double()))", "m.rand_like(m.relu(x + 1) * 2 + x)", "m.rand_like(x.softmax(-1))", "m.rand_like(x.log_softmax(0))",
    "m.rand_like(x.masked_fill(x > 0, 1))", "m.rand_like(m.cat([x, x]))", "m.rand_like(m.stack([x, x]))", "m.rand_like(x.cumsum(0))",
    "m.rand_like(m.nn.functional.layer_norm(x, (x.shape[-1],)))", "m.rand_like(m.nn.functional.pad(x, (1, 1)))", "m.rand_like(x.flip(0))",
    "m.rand_like(x.roll(1, 0))", "m.rand_like(m.where(x > 0, x, x))", "m.rand_like(x @ m.ones(x.shape[-1], 3, dtype=x.dtype))",
    "m.rand_like(x[None].expand(2, *x.shape))", "m.rand_like(x.mean(-1))", "m.rand_like(x.sum(0))",
]  # fmt: skip


@pytest.mark.parametrize("draw", DRAWS)
def test_numbers_are_drawn_in_the_order_of_memory(draw):
    for name, make in LAYOUTS.items():
        if name == "diagonal" and ("dim" in draw or ".permute" in draw or "gumbel" in draw):
            continue
        seeded(7)
        mine, theirs = (eval(draw, {"m": m, "x": make(m)}) for m in (minitorch, torch))
        close = {"rtol": 1e-5, "atol": 1e-6, "err_msg": f"{draw}, {name}"}
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), **close)
        assert_same(minitorch.rand(2), torch.rand(2))


def test_draws_without_replacement_follow_memory():
    seeded(3)
    mine, theirs = (m.ones(6, 4).t().multinomial(2) for m in (minitorch, torch))
    assert_same(mine, theirs)
