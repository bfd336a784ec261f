"""Sampling inside compiled functions: the same draws as outside, and the generator left in the same state."""

import pytest

import minitorch as mt
from minitorch import distributions, nn, optim
from scenarios import both, plain

F = nn.functional


def _categorical(x):
    d = distributions.Categorical(logits=x)
    drawn = d.sample()
    return drawn, d.log_prob(drawn), d.entropy()


def _normal(x):
    d = distributions.Normal(x, x.exp())
    drawn = d.rsample()
    return drawn, d.log_prob(drawn)


def _tokens(x):
    ids = x.argmax(1, keepdim=True)
    for _ in range(3):
        ids = mt.cat([ids, mt.multinomial((x[:, :1] * ids[:, -1:] + x).softmax(-1), 1)], 1)
    return ids, mt.rand(2)


DRAWS = {
    "multinomial": lambda x: mt.multinomial(x.softmax(-1), 1),
    "several": lambda x: mt.multinomial(x.softmax(-1), 3),
    "with replacement": lambda x: mt.multinomial(x.softmax(-1), 7, replacement=True),
    "of a vector": lambda x: x[0].exp().multinomial(2),
    "categorical": _categorical,
    "one hot": lambda x: distributions.OneHotCategorical(logits=x).sample(),
    "bernoulli": lambda x: distributions.Bernoulli(logits=x).sample((2,)),
    "normal": _normal,
    "uniform": lambda x: distributions.Uniform(x, x + 1).rsample(),
    "multivariate": lambda x: distributions.MultivariateNormal(x, mt.eye(5)).rsample(),
    "gumbel": lambda x: F.gumbel_softmax(x, hard=True),
    "permutation": lambda x: x[:, mt.randperm(5)],
    "token by token": _tokens,
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws(compile, name):
    def scenario(compile):
        f = compile(DRAWS[name])
        results = [f(mt.randn(3, 5)) for _ in range(4)]
        if compile is not plain:
            assert f.compilations == 1
            assert any(p.calls for p in f.cache.all())
        return results

    both(scenario, compile)


def test_a_policy_that_learns_from_its_draws(compile):
    def scenario(compile):
        policy = nn.Linear(4, 3)
        optimizer = optim.Adam(policy.parameters(), 0.01)

        @compile
        def step(x, reward):
            d = distributions.Categorical(logits=policy(x))
            action = d.sample()
            loss = -(d.log_prob(action) * reward).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return action, loss

        return [step(mt.randn(6, 4), mt.randn(6)) for _ in range(5)], list(policy.parameters())

    both(scenario, compile)


@pytest.mark.parametrize(
    ("draw", "wrong"),
    [
        (lambda x: mt.multinomial(x, 1), [-1.0, 2.0]),
        (lambda x: mt.multinomial(x, 1), [0.0, 0.0]),
        (lambda x: distributions.Normal(x, x).sample(), [1.0, -1.0]),
        (lambda x: distributions.Categorical(probs=x).log_prob(mt.tensor(1)), [float("nan"), 1.0]),
    ],
)
def test_what_cannot_be_drawn_is_an_error_at_any_call(compile, draw, wrong):
    f = compile(draw)
    good, bad = mt.tensor([1.0, 2.0]), mt.tensor(wrong)
    for each in (good, good, bad, good, bad):
        if each is good:
            f(each)
            continue
        state = mt.get_rng_state()
        with pytest.raises((RuntimeError, ValueError)) as found:
            f(each)
        with pytest.raises(type(found.value)) as expected:
            draw(each)
        assert str(found.value) == str(expected.value)
        assert mt.get_rng_state()["bits"]["state"]["pos"] == state["bits"]["state"]["pos"]


@pytest.mark.filterwarnings("ignore:compile")
def test_draws_by_rejection_stay_eager(compile):
    def scenario(compile):
        f = compile(lambda x: (mt.poisson(x), distributions.Gamma(x, x).sample(), mt.rand(2)))
        results = [f(mt.rand(4) + 1) for _ in range(3)]
        if compile is not plain:
            assert "by rejection" in str(f.explain())
        return results

    both(scenario, compile)
