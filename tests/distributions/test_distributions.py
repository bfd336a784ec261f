"""minitorch.distributions against torch.distributions: samples of one seed, values, gradients, shapes, refusals."""

import numpy as np
import pytest

import minitorch
import minitorch.distributions as md
from pytorch import torch

# What PyTorch says of every good sample of a Wishart.
pytestmark = pytest.mark.filterwarnings("ignore:Singular sample")

R = np.random.default_rng(0)
REAL = R.normal(size=(3, 4))
POSITIVE = R.uniform(0.3, 3.0, (3, 4))
SHARES = R.dirichlet(np.ones(4), 3)
UNIT = R.uniform(0.1, 0.9, (3, 4))
A = R.normal(size=(3, 4, 4))
COVARIANCE = A @ A.transpose(0, 2, 1) + np.eye(4)
CORRELATED = np.linalg.cholesky(COVARIANCE)
CORRELATED /= np.linalg.norm(CORRELATED, axis=-1, keepdims=True)

# name → parameters, values inside the support
CASES = {
    "Normal": ({"loc": REAL, "scale": POSITIVE}, REAL + 0.3),
    "LogNormal": ({"loc": REAL, "scale": POSITIVE}, POSITIVE + 0.1),
    "HalfNormal": ({"scale": POSITIVE}, POSITIVE + 0.1),
    "Laplace": ({"loc": REAL, "scale": POSITIVE}, REAL + 0.3),
    "Cauchy": ({"loc": REAL, "scale": POSITIVE}, REAL + 0.3),
    "Gumbel": ({"loc": REAL, "scale": POSITIVE}, REAL + 0.3),
    "Uniform": ({"low": REAL, "high": REAL + POSITIVE}, REAL + 0.5 * POSITIVE),
    "Exponential": ({"rate": POSITIVE}, POSITIVE + 0.2),
    "Gamma": ({"concentration": POSITIVE, "rate": POSITIVE[::-1].copy()}, POSITIVE + 0.2),
    "Chi2": ({"df": POSITIVE}, POSITIVE + 0.2),
    "Beta": ({"concentration1": POSITIVE, "concentration0": POSITIVE[::-1].copy()}, UNIT),
    "Dirichlet": ({"concentration": POSITIVE}, SHARES),
    "MultivariateNormal": ({"loc": REAL, "covariance_matrix": COVARIANCE}, REAL + 0.3),
    "MultivariateNormal precision": ({"loc": REAL, "precision_matrix": COVARIANCE}, REAL + 0.3),
    "MultivariateNormal tril": ({"loc": REAL, "scale_tril": np.linalg.cholesky(COVARIANCE)}, REAL + 0.3),
    "Bernoulli": ({"probs": UNIT}, (UNIT > 0.5).astype(float)),
    "Bernoulli logits": ({"logits": REAL}, (UNIT > 0.5).astype(float)),
    "Geometric": ({"probs": UNIT}, np.floor(5 * UNIT)),
    "Geometric logits": ({"logits": REAL}, np.floor(5 * UNIT)),
    "Poisson": ({"rate": 5 * POSITIVE}, np.floor(5 * UNIT)),
    "Categorical": ({"probs": POSITIVE}, np.array([0, 3, 2])),
    "Categorical logits": ({"logits": REAL}, np.array([0, 3, 2])),
    "OneHotCategorical": ({"probs": POSITIVE}, np.eye(4)[[0, 3, 2]]),
    "OneHotCategorical logits": ({"logits": REAL}, np.eye(4)[[0, 3, 2]]),
    "StudentT": ({"df": POSITIVE + 0.7, "loc": REAL, "scale": POSITIVE}, REAL + 0.3),
    "FisherSnedecor": ({"df1": POSITIVE + 1, "df2": POSITIVE[::-1] + 2}, POSITIVE + 0.2),
    "HalfCauchy": ({"scale": POSITIVE}, POSITIVE + 0.1),
    "InverseGamma": ({"concentration": POSITIVE, "rate": POSITIVE[::-1].copy()}, POSITIVE + 0.2),
    "Kumaraswamy": ({"concentration1": POSITIVE, "concentration0": POSITIVE[::-1].copy()}, UNIT),
    "Pareto": ({"scale": POSITIVE, "alpha": POSITIVE[::-1].copy()}, POSITIVE + 0.2),
    "Weibull": ({"scale": POSITIVE, "concentration": POSITIVE[::-1].copy()}, POSITIVE + 0.2),
    "LogisticNormal": ({"loc": REAL[:, :3], "scale": POSITIVE[:, :3]}, SHARES),
    "ContinuousBernoulli": ({"probs": UNIT}, UNIT[::-1].copy()),
    "ContinuousBernoulli logits": ({"logits": REAL * 0.01}, UNIT),
    "VonMises": ({"loc": REAL, "concentration": POSITIVE}, REAL + 0.3),
    "LowRankMultivariateNormal": ({"loc": REAL, "cov_factor": A[..., :2], "cov_diag": POSITIVE}, REAL + 0.3),
    "Wishart": ({"df": POSITIVE[:, 0] + 4, "covariance_matrix": COVARIANCE}, COVARIANCE + np.eye(4)),
    "Wishart tril": ({"df": POSITIVE[:, 0] + 4, "scale_tril": np.linalg.cholesky(COVARIANCE)}, COVARIANCE),
    "Binomial": ({"total_count": np.full((3, 4), 30.0), "probs": UNIT}, np.floor(30 * UNIT)),
    "Binomial logits": ({"total_count": np.full((3, 4), 3.0), "logits": REAL}, np.floor(3 * UNIT)),
    "NegativeBinomial": ({"total_count": np.floor(9 * UNIT) + 1, "probs": UNIT}, np.floor(5 * UNIT)),
    "NegativeBinomial logits": ({"total_count": POSITIVE, "logits": REAL}, np.floor(5 * UNIT)),
    "OneHotCategoricalStraightThrough": ({"logits": REAL}, np.eye(4)[[0, 3, 2]]),
}


def make(library, package, case, dtype=np.float64, grad=False):
    parameters, value = CASES[case]
    given = {k: library.tensor(v.astype(dtype), requires_grad=grad) for k, v in parameters.items()}
    value = library.tensor(value if value.dtype.kind == "i" else value.astype(dtype))
    return getattr(package, case.partition(" ")[0])(**given), given, value


def close(mine, other, tol=1e-8, what=""):
    other = other.detach()
    assert tuple(mine.shape) == tuple(other.shape), what
    np.testing.assert_allclose(mine.detach().numpy(), other.numpy(), rtol=tol, atol=tol, err_msg=what)


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case):
    for method in ("log_prob", "entropy", "cdf"):
        ours, our_given, our_value = make(minitorch, md, case, grad=True)
        theirs, their_given, their_value = make(torch, torch.distributions, case, grad=True)
        try:
            b = getattr(theirs, method)(*[their_value] * (method != "entropy"))
        except NotImplementedError:
            continue
        if method == "cdf" and case.partition(" ")[0] in ("Gamma", "Chi2", "Gumbel", "InverseGamma"):
            continue  # not offered
        a = getattr(ours, method)(*[our_value] * (method != "entropy"))
        # PyTorch's Bessel functions have 7 digits.
        tol = 3e-6 if case == "VonMises" else 1e-8
        close(a, b, tol, what=method)
        weights = np.cos(np.arange(a.numel())).reshape(a.shape)
        (a * minitorch.tensor(weights)).sum().backward()
        (b * torch.tensor(weights)).sum().backward()
        for name in our_given:
            if their_given[name].grad is None:
                continue
            mine, other = our_given[name].grad, their_given[name].grad
            if name in ("covariance_matrix", "precision_matrix"):  # only the symmetric part is determined
                mine, other = mine + mine.swapaxes(-1, -2), other + other.mT
            np.testing.assert_allclose(mine, other, rtol=10 * tol, atol=tol, err_msg=f"{method} d{name}")


@pytest.mark.parametrize("case", CASES)
def test_moments_shapes_and_text(case):
    ours, _, _ = make(minitorch, md, case)
    theirs, _, _ = make(torch, torch.distributions, case)
    assert ours.batch_shape == tuple(theirs.batch_shape)
    assert ours.event_shape == tuple(theirs.event_shape)
    assert ours.has_rsample == theirs.has_rsample
    for name in ("mean", "variance", "stddev", "mode"):
        try:
            other = getattr(theirs, name)
        except NotImplementedError:
            continue
        close(getattr(ours, name), other, 1e-6 if case == "VonMises" else 1e-8, what=name)
    bigger = (2, *ours.batch_shape)
    if case != "LogisticNormal":  # which has none
        close(ours.expand(bigger).mean, theirs.expand(bigger).mean)
    assert ours.expand(bigger).sample((5,)).shape == tuple(theirs.expand(bigger).sample((5,)).shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES)
def test_the_same_seed_gives_the_same_samples(case, dtype):
    ours, _, _ = make(minitorch, md, case, dtype)
    theirs, _, _ = make(torch, torch.distributions, case, dtype)
    for shape in ((), (2,), (7, 5)):
        minitorch.manual_seed(5)
        torch.manual_seed(5)
        a, b = ours.sample(shape), theirs.sample(shape)
        assert a.dtype == str(b.dtype)[6:]
        ratios = case.partition(" ")[0] in ("StudentT", "FisherSnedecor", "InverseGamma", "Wishart")
        close(a, b, 2e-4 if dtype == np.float32 else 1e-6 if ratios else 1e-8)
        assert minitorch.rand(1).item() == torch.rand(1).item()  # and as many were drawn


# PyTorch writes over what the derivative of a Wishart's samples needs, and refuses.
DRAWN = [c for c in CASES if getattr(md, c.partition(" ")[0]).has_rsample and not c.startswith("Wishart")]


@pytest.mark.parametrize("case", DRAWN)
def test_gradients_through_samples(case):
    ours, our_given, _ = make(minitorch, md, case, grad=True)
    theirs, their_given, _ = make(torch, torch.distributions, case, grad=True)
    minitorch.manual_seed(3)
    torch.manual_seed(3)
    a, b = ours.rsample((2,)), theirs.rsample((2,))
    weights = np.cos(np.arange(a.numel())).reshape(a.shape)
    (a * minitorch.tensor(weights)).sum().backward()
    (b * torch.tensor(weights)).sum().backward()
    # PyTorch approximates the slopes of gamma and beta samples by series of limited accuracy.
    of_gamma = ("Gamma", "Chi2", "Beta", "Dirichlet", "StudentT", "FisherSnedecor", "InverseGamma")
    tol = 2e-3 if case.partition(" ")[0] in of_gamma else 1e-7
    for name in our_given:
        mine, other = our_given[name].grad, their_given[name].grad.numpy()
        if name in ("covariance_matrix", "precision_matrix"):
            mine, other = mine + mine.swapaxes(-1, -2), other + other.swapaxes(-1, -2)
        np.testing.assert_allclose(mine, other, rtol=tol, atol=tol, err_msg=name)


@pytest.mark.parametrize(
    "case", ["Normal", "Laplace", "Cauchy", "Uniform", "Exponential", "HalfNormal", "LogNormal"]
)
def test_quantiles_undo_probabilities(case):
    ours, _, value = make(minitorch, md, case)
    theirs, _, their_value = make(torch, torch.distributions, case)
    close(ours.icdf(minitorch.tensor(UNIT)), theirs.icdf(torch.tensor(UNIT)))
    close(ours.icdf(ours.cdf(value)), their_value, 1e-6)


PAIRS = [
    ("Normal", "Normal"), ("LogNormal", "LogNormal"), ("HalfNormal", "HalfNormal"), ("Laplace", "Laplace"),
    ("Normal", "Laplace"), ("Uniform", "Normal"), ("Exponential", "Exponential"), ("Exponential", "Gamma"),
    ("Gamma", "Gamma"), ("Chi2", "Gamma"), ("Beta", "Beta"), ("Dirichlet", "Dirichlet"),
    ("MultivariateNormal", "MultivariateNormal tril"), ("Bernoulli", "Bernoulli logits"),
    ("Categorical", "Categorical logits"), ("OneHotCategorical", "OneHotCategorical logits"),
    ("Geometric", "Geometric logits"), ("Poisson", "Poisson"), ("Uniform", "Uniform"),
    ("Binomial", "Binomial"), ("ContinuousBernoulli", "ContinuousBernoulli logits"), ("Cauchy", "Cauchy"),
    ("Gumbel", "Gumbel"), ("Pareto", "Pareto"), ("Beta", "Pareto"), ("Beta", "Normal"), ("Beta", "Exponential"),
    ("Beta", "Gamma"), ("Beta", "ContinuousBernoulli"), ("Beta", "Uniform"), ("ContinuousBernoulli", "Normal"),
    ("ContinuousBernoulli", "Exponential"), ("ContinuousBernoulli", "Uniform"), ("Exponential", "Normal"),
    ("Exponential", "Gumbel"), ("Exponential", "Uniform"), ("Gamma", "Normal"), ("Gamma", "Exponential"),
    ("Gamma", "Gumbel"), ("Gumbel", "Normal"), ("Laplace", "Normal"), ("Normal", "Gumbel"), ("Normal", "Beta"),
    ("Pareto", "Normal"), ("Pareto", "Exponential"), ("Pareto", "Gamma"), ("Uniform", "Gumbel"),
    ("Bernoulli", "Poisson"), ("Poisson", "Binomial"), ("LowRankMultivariateNormal", "MultivariateNormal"),
    ("MultivariateNormal", "LowRankMultivariateNormal"), ("LowRankMultivariateNormal", "LowRankMultivariateNormal"),
]  # fmt: skip


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_kl_divergence(p, q):
    our_p, our_given, _ = make(minitorch, md, p, grad=True)
    their_p, their_given, _ = make(torch, torch.distributions, p, grad=True)
    (our_q, _, _), (their_q, _, _) = make(minitorch, md, q), make(torch, torch.distributions, q)
    if p == q:
        our_q, their_q = _moved(md, minitorch, our_q), _moved(torch.distributions, torch, their_q)
    a, b = md.kl_divergence(our_p, our_q), torch.distributions.kl_divergence(their_p, their_q)
    close(a, b)
    finite = np.isfinite(b.detach().numpy())
    if finite.all():
        a.sum().backward()
        b.sum().backward()
        for name in our_given:
            np.testing.assert_allclose(
                our_given[name].grad, their_given[name].grad, rtol=1e-7, atol=1e-8, err_msg=name
            )


def _moved(package, library, d):
    """The same kind with other parameters."""
    names = {
        "Normal": ("loc", "scale"), "LogNormal": ("loc", "scale"), "HalfNormal": ("scale",), "Laplace": ("loc", "scale"),
        "Uniform": ("low", "high"), "Exponential": ("rate",), "Gamma": ("concentration", "rate"),
        "Beta": ("concentration1", "concentration0"), "Dirichlet": ("concentration",), "Poisson": ("rate",),
        "Cauchy": ("loc", "scale"), "Gumbel": ("loc", "scale"), "Pareto": ("scale", "alpha"),
        "LowRankMultivariateNormal": ("loc", "cov_factor", "cov_diag"), "Binomial": (),
    }[type(d).__name__]  # fmt: skip
    if not names:
        return type(d)(d.total_count, probs=d.probs.detach() / 2)
    return type(d)(**{n: getattr(d, n).detach() * 1.5 + (0.1 if n != "low" else -3.0) for n in names})


def test_a_pair_without_a_formula_is_refused():
    with pytest.raises(NotImplementedError, match="Beta.*Laplace"):
        md.kl_divergence(md.Beta(1.0, 1.0), md.Laplace(0.0, 1.0))


def test_independent():
    for library, package in ((minitorch, md), (torch, torch.distributions)):
        base = package.Normal(library.tensor(REAL), library.tensor(POSITIVE))
        d = package.Independent(base, 1)
        other = package.Independent(package.Normal(library.zeros(3, 4), library.ones(3, 4)), 1)
        answers = (
            tuple(d.batch_shape), tuple(d.event_shape), d.log_prob(library.tensor(REAL)).tolist(), d.entropy().tolist(),
            package.kl_divergence(d, other).tolist(), tuple(d.expand((2, 3)).sample().shape), tuple(d.mean.shape),
        )  # fmt: skip
        if library is minitorch:
            ours = answers
    for a, b in zip(ours, answers, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("kind", ["tanh", "affine", "exp", "sigmoid", "softplus", "several", "inverse"])
def test_transformed(kind):
    results = []
    for library, package in ((minitorch, md), (torch, torch.distributions)):
        loc = library.tensor(REAL, requires_grad=True)
        scale = library.tensor(POSITIVE, requires_grad=True)
        make_transforms = {
            "tanh": lambda p: [p.TanhTransform(cache_size=1)],
            "affine": lambda p: [p.AffineTransform(1.5, -2.0)],
            "exp": lambda p: p.transforms.ExpTransform(),
            "sigmoid": lambda p: [p.SigmoidTransform()],
            "softplus": lambda p: [p.SoftplusTransform()],
            "several": lambda p: [p.AffineTransform(0.5, 0.7), p.TanhTransform(cache_size=1), p.AffineTransform(0.0, 2.0)],
            "inverse": lambda p: [p.ExpTransform(), p.ExpTransform().inv, p.AffineTransform(1.0, 3.0).inv],
        }  # fmt: skip
        d = package.TransformedDistribution(package.Normal(loc, scale), make_transforms[kind](package))
        library.manual_seed(11)
        x = d.rsample()
        log_prob = d.log_prob(x)
        log_prob.sum().backward()
        results.append(
            [
                x.detach().numpy(),
                log_prob.detach().numpy(),
                np.asarray(loc.grad.tolist()),
                np.asarray(scale.grad.tolist()),
            ]
        )
        if kind != "several":
            results[-1].append(d.cdf(x).detach().numpy())
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "line",
    [
        "D.Normal(0.0, -1.0)", "D.Uniform(1.0, 0.0)", "D.Bernoulli(1.5)", "D.Bernoulli()", "D.Bernoulli(0.5, 0.5)",
        "D.Categorical(m.tensor(1.0))", "D.Categorical(m.tensor([-1.0, 2.0]))", "D.Normal('a', 1.0)",
        "D.Categorical(m.ones(3)).log_prob(m.tensor(3))", "D.Normal(0.0, 1.0).log_prob(m.tensor(float('nan')))",
        "D.Exponential(1.0).log_prob(m.tensor(-1.0))", "D.Dirichlet(m.tensor(1.0))", "D.Beta(0.0, 1.0)",
        "D.Bernoulli(0.5).log_prob(m.tensor(0.5))", "D.Gamma(1.0, 1.0).log_prob(m.tensor(-1.0))",
        "D.MultivariateNormal(m.zeros(2))", "D.MultivariateNormal(m.zeros(2), -m.eye(2))",
        "D.MultivariateNormal(m.zeros(2), m.eye(2)).log_prob(m.zeros(3))", "D.Normal(m.zeros(3), 1.0).log_prob(m.zeros(2))",
        "D.Independent(D.Normal(0.0, 1.0), 1)", "D.OneHotCategorical(m.ones(3)).log_prob(m.ones(3))",
        "D.Poisson(-1.0)", "D.Normal(0.0, 1.0).log_prob(1.0)",
    ],
)  # fmt: skip
def test_what_pytorch_refuses_is_refused(line):
    kinds = []
    for library, package in ((minitorch, md), (torch, torch.distributions)):
        try:
            eval(line, {"m": library, "D": package})
            kinds.append(None)
        except Exception as error:
            kinds.append(type(error))
    assert kinds[1] is None or issubclass(kinds[0], ValueError), kinds


def test_unchecked_values_are_computed():
    assert md.Exponential(1.0, validate_args=False).log_prob(minitorch.tensor(-1.0)).item() == 1.0
    md.Distribution.set_default_validate_args(False)
    try:
        assert md.Normal(0.0, -1.0).scale.item() == -1.0
    finally:
        md.Distribution.set_default_validate_args(True)


def test_every_value_there_is():
    for package, library in ((md, minitorch), (torch.distributions, torch)):
        values = [
            package.Bernoulli(library.full((2,), 0.5)).enumerate_support().tolist(),
            package.Categorical(library.ones(2, 3)).enumerate_support().tolist(),
            package.OneHotCategorical(library.ones(2, 3)).enumerate_support().tolist(),
            package.Categorical(library.ones(2, 3)).enumerate_support(expand=False).tolist(),
        ]
        if library is minitorch:
            ours = values
    assert ours == values


def test_the_printed_form():
    assert repr(md.Normal(0.0, 1.0)) == repr(torch.distributions.Normal(0.0, 1.0))
    assert "Categorical(logits: " in repr(md.Categorical(logits=minitorch.zeros(3)))


def of_mixtures(m, d):
    m.manual_seed(0)
    weights = m.tensor([[0.2, 0.8], [0.5, 0.5]], requires_grad=True)
    means = m.tensor([[0.0, 1.0], [2.0, 3.0]], requires_grad=True)
    mixture = d.MixtureSameFamily(d.Categorical(weights), d.Normal(means, 1.0))
    drawn = mixture.sample((5,))
    density = mixture.log_prob(drawn)
    density.sum().backward()
    found = [drawn, density, mixture.mean, mixture.variance, mixture.cdf(drawn), weights.grad, means.grad]
    parts = d.Independent(d.Normal(m.arange(6.0).reshape(3, 2), m.ones(3, 2)), 1)
    mixture = d.MixtureSameFamily(d.Categorical(m.ones(3)), parts)
    drawn = mixture.sample((4, 2))
    return [*found, drawn, mixture.log_prob(drawn), mixture.variance, mixture.expand((2,)).sample()]


def of_relaxed(m, d):
    m.manual_seed(0)
    logits = m.tensor([[0.1, -0.4, 1.0], [0.3, 0.2, 0.1]], requires_grad=True)
    choice = d.RelaxedOneHotCategorical(m.tensor(0.7), logits=logits)
    drawn = choice.rsample((3,))
    drawn.pow(2).sum().backward()
    chance = m.tensor([0.1, 0.6], requires_grad=True)
    coin = d.RelaxedBernoulli(m.tensor([0.5]), probs=chance)
    tossed = coin.rsample((3,))
    tossed.sum().backward()
    found = [drawn, choice.log_prob(drawn), logits.grad, tossed, chance.grad, coin.probs, coin.temperature]
    return [*found, coin.log_prob(m.tensor([0.3, 0.8])), choice.expand((4, 2)).rsample()]


@pytest.mark.parametrize("program", [of_mixtures, of_relaxed])
def test_mixtures_and_relaxed_choices(program):
    for ours, theirs in zip(program(minitorch, md), program(torch, torch.distributions), strict=True):
        np.testing.assert_allclose(np.array(ours.tolist()), np.array(theirs.tolist()), rtol=2e-5, atol=1e-6)


def test_a_mixture_that_does_not_fit_is_refused():
    normal = md.Normal(minitorch.zeros(3), 1.0)
    with pytest.raises(ValueError, match="2 weights, but 3 components"):
        md.MixtureSameFamily(md.Categorical(minitorch.ones(2)), normal)
    with pytest.raises(ValueError, match="Categorical"):
        md.MixtureSameFamily(normal, normal)
    with pytest.raises(ValueError, match="batch shape"):
        md.MixtureSameFamily(md.Categorical(minitorch.ones(4, 3)), md.Normal(minitorch.zeros(2, 3), 1.0))


def test_helpers_of_distributions():
    probs = minitorch.tensor([0.0, 0.25, 0.75])
    for binary in (False, True):
        ours = md.utils.probs_to_logits(probs, binary)
        theirs = torch.distributions.utils.probs_to_logits(torch.tensor([0.0, 0.25, 0.75]), binary)
        np.testing.assert_allclose(ours.tolist(), theirs.tolist(), rtol=1e-6)
        back = md.utils.logits_to_probs(ours, binary)
        np.testing.assert_allclose(
            back.tolist(), torch.distributions.utils.logits_to_probs(theirs, binary).tolist(), rtol=1e-6
        )


def of_generalized_pareto(m, d):
    loc, scale, shape = (
        m.tensor(v, requires_grad=True) for v in ([0.1, 0.2, 0.3], [1.0, 2.0, 0.5], [0.4, 0.0, -0.3])
    )
    tails = d.GeneralizedPareto(loc, scale, shape)
    m.manual_seed(0)
    drawn = tails.rsample((4,))
    x = m.tensor([0.7, 0.9, 0.5])
    found = [
        drawn,
        tails.log_prob(x),
        tails.cdf(x),
        tails.entropy(),
        tails.mean,
        tails.variance,
        tails.icdf(x),
    ]
    (drawn.sum() + tails.log_prob(x).sum() + tails.cdf(x).sum()).backward()
    return [
        *found,
        loc.grad,
        scale.grad,
        shape.grad,
        tails.expand((2, 3)).mean,
        tails.log_survival_function(x),
    ]


def of_counts(m, d):
    m.manual_seed(0)
    probs = m.tensor([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], requires_grad=True)
    choices = d.Multinomial(5, probs)
    drawn = choices.sample((4,))
    (choices.log_prob(drawn).sum() + choices.entropy().sum()).backward()
    found = [drawn, choices.log_prob(drawn), choices.entropy(), choices.mean, choices.variance, probs.grad]
    found += [choices.expand((3, 2)).sample(), m.rand(1)]
    trials = d.Binomial(3, m.tensor([0.2, 0.9]))
    found += [
        trials.enumerate_support(),
        trials.entropy(),
        m.binomial(m.tensor([90.0, 3.0, 40.0]), m.tensor([0.3, 0.5, 0.9])),
    ]
    return [*found, d.Binomial(m.tensor([100.0, 1000.0]), m.tensor([0.5, 0.02])).sample((50,)), m.rand(1)]


def of_correlations(m, d):
    m.manual_seed(0)
    strength = m.tensor([0.5, 1.0, 3.0], requires_grad=True)
    factors = d.LKJCholesky(3, strength)
    drawn = factors.sample((4,))
    density = factors.log_prob(drawn)
    density.sum().backward()
    return [drawn, density, strength.grad, factors.expand((2, 3)).sample(), m.rand(1)]


@pytest.mark.parametrize("program", [of_generalized_pareto, of_counts, of_correlations])
def test_tails_counts_and_correlations(program):
    for ours, theirs in zip(program(minitorch, md), program(torch, torch.distributions), strict=True):
        np.testing.assert_allclose(np.array(ours.tolist()), np.array(theirs.tolist()), rtol=2e-5, atol=2e-6)


TRANSFORMS = {
    "power": ("d.PowerTransform(m.tensor([2.0, -1.5, 0.5]))", (2, 3), "positive"),
    "stick": ("d.StickBreakingTransform()", (2, 3), "real"),
    "softmax": ("d.SoftmaxTransform()", (2, 3), "real"),
    "cholesky": ("d.LowerCholeskyTransform()", (2, 3, 3), "real"),
    "definite": ("d.PositiveDefiniteTransform()", (2, 3, 3), "real"),
    "correlation": ("d.CorrCholeskyTransform()", (2, 6), "real"),
    "absolute": ("d.AbsTransform()", (2, 3), "positive"),
    "reshape": ("d.ReshapeTransform((6,), (2, 3))", (4, 6), "real"),
    "independent": ("d.IndependentTransform(d.ExpTransform(), 1)", (2, 3), "real"),
    "cdf": ("d.CumulativeDistributionTransform(d.Normal(m.zeros(3), m.ones(3)))", (2, 3), "real"),
    "affine of vectors": (
        "d.AffineTransform(m.ones(3), m.tensor([1.0, -2.0, 3.0]), event_dim=1)",
        (2, 3),
        "real",
    ),
    "cat": (
        "d.CatTransform([d.ExpTransform(), d.SigmoidTransform()], dim=-1, lengths=[1, 2])",
        (2, 3),
        "real",
    ),
    "stack": ("d.StackTransform([d.ExpTransform(), d.SigmoidTransform()], dim=0)", (2, 3), "real"),
    "several": (
        "d.ComposeTransform([d.AffineTransform(0.1, 2.0), d.StickBreakingTransform()])",
        (2, 3),
        "real",
    ),
    "biject to a simplex": ("d.biject_to(d.constraints.simplex)", (2, 3), "real"),
    "to positive vectors": (
        "d.transform_to(d.constraints.independent(d.constraints.positive, 1))",
        (2, 3),
        "real",
    ),
    "to an interval": ("d.transform_to(d.constraints.interval(-1.0, 3.0))", (2, 3), "real"),
    "below": ("d.biject_to(d.constraints.less_than(2.0))", (2, 3), "real"),
    "above": ("d.biject_to(d.constraints.greater_than(2.0))", (2, 3), "real"),
    "inverse": ("d.StickBreakingTransform().inv", (2, 3), "share"),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    text, shape, kind = TRANSFORMS[name]
    numbers = np.random.default_rng(1)
    start = {"real": numbers.normal(size=shape), "positive": numbers.uniform(0.5, 2, shape)}.get(kind)
    start = numbers.dirichlet(np.ones(shape[-1]), shape[:-1]) if start is None else start
    found = []
    for m, d in ((minitorch, md), (torch, torch.distributions)):
        transform = eval(text, {"m": m, "d": d})
        x = m.tensor(start, requires_grad=True)
        y = transform(x)
        try:
            slope = transform.log_abs_det_jacobian(x, y)
        except NotImplementedError:
            slope = m.zeros(1)
        (y.sin().sum() + slope.sum()).backward()
        shapes = [
            m.tensor(tuple(f(s)))
            for f, s in ((transform.forward_shape, x.shape), (transform.inverse_shape, y.shape))
        ]
        dims = m.tensor([transform.domain.event_dim, transform.codomain.event_dim])
        found.append([y, slope, x.grad, transform.inv(y), *shapes, dims, transform.codomain.check(y)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(np.array(ours.tolist()), np.array(theirs.tolist()), rtol=1e-6, atol=1e-7)


def test_a_distribution_whose_transform_takes_vectors():
    found = []
    for m, d in ((minitorch, md), (torch, torch.distributions)):
        m.manual_seed(0)
        shares = d.TransformedDistribution(
            d.Normal(m.zeros(2, 3), m.ones(2, 3)), [d.StickBreakingTransform()]
        )
        x = shares.sample((5,))
        found.append(
            [list(shares.batch_shape), list(shares.event_shape), x.tolist(), shares.log_prob(x).tolist()]
        )
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert repr(shares.support) == repr(torch.distributions.constraints.simplex)


def test_a_constraint_without_a_transform_is_refused():
    with pytest.raises(NotImplementedError, match="Boolean"):
        md.biject_to(md.constraints.boolean)
    with pytest.raises(ValueError, match="dependent"):
        md.constraints.dependent.check(minitorch.ones(1))
    assert md.constraints.is_dependent(md.Pareto.support)
    assert not md.constraints.is_dependent(md.Pareto(1.0, 1.0).support)
