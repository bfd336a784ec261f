"""What is written in Tensors runs where these lie: on a GPU, or on one that does not exist (tests/support/standin_cupy.py).

The stand-in refuses arrays of the host's, so a constant made on the CPU fails here.
"""

import copy

import numpy as np
import pytest

import minitorch
import minitorch.nn.functional as F
import minitorch.vision.ops
import minitorch.vision.transforms as T
import standin_cupy
import standin_gpu
from minitorch import nn
from minitorch.autograd import Function, functional, gradcheck, gradgradcheck
from minitorch.autograd.gradcheck import GradcheckError
from minitorch.distributions import kl_divergence, transforms
from minitorch.func import functional_call, grad, hessian, jacfwd, jacrev, vjp, vmap
from minitorch.nn.attention.flex_attention import create_block_mask, flex_attention
from minitorch.nn.utils import parametrizations, prune
from minitorch.ops.shape import view_by_steps
from minitorch.vision.transforms import functional as TF

Di = minitorch.distributions


cuda = pytest.fixture(autouse=True)(standin_cupy.gpu_or_standin)


def values(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def x(d):
    return minitorch.tensor(values(6, 8), device=d)


def places(d, most=8):
    return minitorch.tensor(np.arange(6) * 5 % most, device=d)


def image(d):
    return minitorch.tensor(values(3, 16, 16)).sigmoid().to(d)


def linear(d):
    minitorch.manual_seed(0)
    return nn.Linear(8, 8).to(d)


def pruned(d):
    layer = linear(d)
    prune.l1_unstructured(layer, "weight", 0.5)
    prune.ln_structured(layer, "weight", 0.25, n=2, dim=0)
    return layer(x(d))


def set_by_an_index_of_the_cpu(d):
    out = x(d)
    out[minitorch.tensor([0, 2])] = 1.0
    out[minitorch.ones(6, 8) > 2] = 2.0
    return out


def written_by_steps(d):
    whole = x(d)
    whole[1:].as_strided((2, 2), (8, 1)).fill_(3.0)
    return whole


def gradient_of_steps(d):
    a = x(d).requires_grad_()
    (a.t() * 1).as_strided((3, 3), (1, 1), 2).square().sum().backward()
    return minitorch.as_tensor(a.grad)


def clipped_on_both(d):
    a, b = x(d).requires_grad_(), x("cpu").requires_grad_()
    (a.sum() + (b * 2).sum().to(d)).backward()
    total = nn.utils.clip_grad_norm_([a, b], 0.5)
    return minitorch.cat(
        [minitorch.as_tensor(each.grad).to(d).reshape(-1) for each in (a, b)] + [total.reshape(1)]
    )


def seeded_by_a_number(d):
    a = x(d).requires_grad_()
    (a * a).sum().backward(minitorch.tensor(2.0))
    return minitorch.as_tensor(a.grad)


def doubled(gradient):
    """Twice a tensor, whose gradient is what a function of the result's says."""

    class Doubled(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return gradient(g)

    return Doubled.apply


def gradient_of_a_function(d):
    a = x(d).sum().detach().requires_grad_()
    doubled(lambda g: minitorch.tensor(2.0))(a).backward()
    return minitorch.as_tensor(a.grad)


def added_up_in_place(d):
    a = x(d).requires_grad_()
    (a * 2).sum().backward()
    held = minitorch.as_tensor(a.grad)
    (a * 3).sum().backward()
    return held


def with_a_mask(d):
    q = minitorch.tensor(values(1, 2, 16, 8), device=d)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device=d)
    return flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s + (i - j), block_mask=mask)


def per_sample_gradients(d):
    net = nn.Sequential(linear(d), nn.ReLU(), linear(d))
    loss = lambda parameters, each: functional_call(net, parameters, (each,)).square().sum()
    return vmap(grad(loss), in_dims=(None, 0))(dict(net.named_parameters()), x(d))["0.weight"]


def sent_away_and_back(d):
    return vmap(grad(lambda a: a.cpu().square().sum().to(d)))(x(d))


def boxes(d):
    return minitorch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]], device=d)


def scores(d):
    return minitorch.tensor([0.5, 0.9, 0.1], device=d)


def bytes_of(d):
    return (image(d) * 255).to(minitorch.uint8)


CORNERS = [[0, 0], [15, 0], [15, 15], [0, 15]], [[1, 1], [14, 0], [15, 15], [0, 14]]

SAME_NUMBERS = {
    "jacobian": lambda d: functional.jacobian(lambda a: a.sin(), x(d)[0]),
    "jacobian, no outputs": lambda d: functional.jacobian(lambda a: a[:0], x(d)[0]),
    "hessian": lambda d: functional.hessian(lambda a: a.sin().sum(), x(d)[0]),
    "jacrev": lambda d: jacrev(lambda a: a.sin())(x(d)[0]),
    "jacfwd": lambda d: jacfwd(lambda a: a.sin())(x(d)[0]),
    "func.hessian": lambda d: hessian(lambda a: (a**3).sum())(x(d)[0]),
    "per-sample gradients": per_sample_gradients,
    "vmap new_zeros": lambda d: vmap(lambda a: a + a.new_zeros(8))(x(d)),
    "vmap new_tensor": lambda d: vmap(lambda a: a + a.new_tensor([1.0] * 8))(x(d)),
    "vmap index_add": lambda d: vmap(lambda a: minitorch.zeros(4, device=d).index_add(0, places(d, 4), a[:6]))(
        x(d)
    ),
    "vmap indices": lambda d: vmap(lambda a, i: a[i] + a[minitorch.tensor([1, 1])].sum())(x(d), places(d)),
    "vmap scatter_add": lambda d: vmap(lambda a, i: a.scatter_add(0, i[None], a[:1]))(x(d), places(d)),
    "vmap and the way back": sent_away_and_back,
    "as_strided": lambda d: x(d).t()[1:].as_strided((3, 2), (1, 8)),
    "as_strided, from the start": lambda d: x(d)[2:, 1:].as_strided((3,), (2,), 1),
    "as_strided, in another order": lambda d: (x(d).T + 1).as_strided((3, 2), (1, 6)),
    "as_strided, twice": lambda d: x(d).as_strided((5,), (3,), 2).as_strided((3,), (1,), 4),
    "as_strided, overlapping": lambda d: x(d).as_strided((5, 3), (1, 1), 2),
    "as_strided, written into": written_by_steps,
    "an index for each example": lambda d: vmap(lambda i: x(d)[0][i])(minitorch.tensor([1, 2])),
    "a seed in a batch": lambda d: vmap(lambda a: vjp(lambda b: (b * b).sum(), a)[1](minitorch.tensor(2.0))[0])(x(d)),
    "as_strided, gradient": gradient_of_steps,
    "numbers there, in a list": lambda d: minitorch.tensor([x(d)[0, 0], 2.0, x(d).sum()], device=d),
    "numbers there, in an index": lambda d: x(d)[:, [places(d)[1]]],
    "searchsorted": lambda d: minitorch.searchsorted(x(d)[0].sort().values, 0.25),
    "bucketize": lambda d: minitorch.bucketize(minitorch.tensor(0.5), x(d)[0].sort().values),
    "isin": lambda d: minitorch.isin(places(d), 5) | minitorch.isin(5, places(d)),
    "heaviside": lambda d: x(d).heaviside(minitorch.tensor(0.5)),
    "index_put": lambda d: x(d).index_put((places(d, 6),), minitorch.tensor(1.0)),
    "numbers that do not fit": lambda d: bytes_of(d) * -3 + 300 - (-1 - bytes_of(d)) + (bytes_of(d) & 300),
    "numbers that do not fit, in place": lambda d: bytes_of(d).add_(-1).add(bytes_of(d), alpha=-3),
    "resized": lambda d: x(d).resize_(10, 8),
    "out grows": lambda d: minitorch.mm(x(d), x(d).T, out=minitorch.empty(0, device=d)),
    "gaussian_nll_loss": lambda d: F.gaussian_nll_loss(x(d), x(d) * 2, 2.0),
    "nextafter": lambda d: x(d).nextafter(minitorch.tensor(2.0)),
    "shifts": lambda d: (places(d) << minitorch.tensor(2)) + (minitorch.tensor(64) >> places(d)),
    "isclose": lambda d: x(d).isclose(minitorch.tensor(0.5), atol=0.5),
    "bernoulli_": lambda d: x(d).bernoulli_(minitorch.tensor([0.0, 1.0] * 4)),
    "LazyBatchNorm1d": lambda d: nn.LazyBatchNorm1d().to(d)(x(d)),
    "a seed of the CPU": seeded_by_a_number,
    "a function's gradient on the CPU": gradient_of_a_function,
    "type_as": lambda d: x("cpu").type_as(x(d)),
    "clipped": clipped_on_both,
    "gradients added up": added_up_in_place,
    "an index of the CPU": lambda d: x(d)[minitorch.tensor([1, -1, 1])],
    "two indices": lambda d: x(d)[minitorch.tensor([1, -1]), places(d)[:2]],
    "a mask of the CPU": lambda d: x(d)[minitorch.tensor([True, False] * 3)],
    "an index of NumPy's": lambda d: x(d)[np.array([0, 2])],
    "set by an index": set_by_an_index_of_the_cpu,
    "fill_diagonal_": lambda d: x(d).fill_diagonal_(3.0),
    "map2_": lambda d: x(d).map2_(x(d), x(d), lambda a, b, c: a + b * c),
    "householder": lambda d: parametrizations.orthogonal(linear(d), orthogonal_map="householder")(x(d)),
    "matrix_exp": lambda d: parametrizations.orthogonal(linear(d), orthogonal_map="matrix_exp")(x(d)),
    "cayley": lambda d: parametrizations.orthogonal(linear(d), orthogonal_map="cayley")(x(d)),
    "weight_norm": lambda d: parametrizations.weight_norm(linear(d))(x(d)),
    "pruned": pruned,
    "flex_attention": with_a_mask,
    "nms": lambda d: minitorch.vision.ops.nms(boxes(d), scores(d), 0.5),
    "batched_nms": lambda d: minitorch.vision.ops.batched_nms(boxes(d), scores(d), places(d)[:3], 0.5),
    "rotate": lambda d: TF.rotate(image(d), 30.0, fill=[1.0]),
    "affine": lambda d: TF.affine(image(d), 10.0, [1, 1], 1.1, [5.0]),
    "perspective": lambda d: TF.perspective(image(d), *CORNERS),
    "gaussian_blur": lambda d: TF.gaussian_blur(image(d), [3, 5]),
    "adjust_sharpness": lambda d: TF.adjust_sharpness(image(d), 2.0),
    "adjust_hue": lambda d: TF.adjust_hue(image(d), 0.1),
    "normalize": lambda d: TF.normalize(image(d), [0.5] * 3, [0.25] * 3),
    "elastic_transform": lambda d: TF.elastic_transform(image(d), minitorch.full((1, 16, 16, 2), 0.1)),
    "equalize": lambda d: TF.equalize(bytes_of(d)),
    "kl, normal": lambda d: kl_divergence(Di.Normal(x(d), x(d).exp()), Di.Normal(0.0, x(d).exp())),
    "kl, gamma": lambda d: kl_divergence(Di.Gamma(x(d).exp(), 1.0), Di.Gamma(1.0, x(d).exp())),
    "entropy": lambda d: Di.Categorical(logits=x(d)).entropy(),
    "support": lambda d: Di.Categorical(logits=x(d)).enumerate_support(),
    "binomial entropy": lambda d: Di.Binomial(5, logits=x(d)).entropy(),
    "log_prob": lambda d: Di.MixtureSameFamily(
        Di.Categorical(logits=x(d)), Di.Normal(x(d), x(d).exp())
    ).log_prob(x(d)[:, 0]),
    "stick breaking": lambda d: transforms.StickBreakingTransform()(x(d)),
    "correlations": lambda d: transforms.CorrCholeskyTransform()(x(d)[0, :3]),
    "variance": lambda d: Di.LowRankMultivariateNormal(
        x(d)[0], x(d)[:2].T, x(d)[1].exp()
    ).log_prob(x(d)),
    "square": lambda d: Di.constraints.square.check(x(d)[:, :6]),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME_NUMBERS)
def test_the_same_numbers_there(name):
    expected, found = SAME_NUMBERS[name]("cpu"), SAME_NUMBERS[name]("cuda")
    assert expected.is_cpu
    assert found.is_cuda
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.detach().cpu().numpy(), expected.detach().numpy(), rtol=2e-5, atol=2e-5)


def one(d):
    return minitorch.tensor([0.3, 0.6], device=d)


def two(d):
    return minitorch.tensor([1.5, 2.5], device=d, requires_grad=True)


DISTRIBUTIONS = {
    "Bernoulli": lambda d: Di.Bernoulli(one(d)),
    "Beta": lambda d: Di.Beta(two(d), two(d)),
    "Binomial": lambda d: Di.Binomial(10, one(d)),
    "Categorical": lambda d: Di.Categorical(one(d)),
    "Cauchy": lambda d: Di.Cauchy(one(d), two(d)),
    "Chi2": lambda d: Di.Chi2(two(d)),
    "ContinuousBernoulli": lambda d: Di.ContinuousBernoulli(one(d)),
    "Dirichlet": lambda d: Di.Dirichlet(two(d)),
    "Exponential": lambda d: Di.Exponential(two(d)),
    "FisherSnedecor": lambda d: Di.FisherSnedecor(two(d), two(d)),
    "Gamma": lambda d: Di.Gamma(two(d), two(d)),
    "GeneralizedPareto": lambda d: Di.GeneralizedPareto(one(d), two(d), one(d)),
    "Geometric": lambda d: Di.Geometric(one(d)),
    "Gumbel": lambda d: Di.Gumbel(one(d), two(d)),
    "HalfCauchy": lambda d: Di.HalfCauchy(two(d)),
    "HalfNormal": lambda d: Di.HalfNormal(two(d)),
    "InverseGamma": lambda d: Di.InverseGamma(two(d), two(d)),
    "Kumaraswamy": lambda d: Di.Kumaraswamy(two(d), two(d)),
    "LKJCholesky": lambda d: Di.LKJCholesky(3, two(d)),
    "Laplace": lambda d: Di.Laplace(one(d), two(d)),
    "LogNormal": lambda d: Di.LogNormal(one(d), two(d)),
    "LogisticNormal": lambda d: Di.LogisticNormal(one(d), two(d)),
    "LowRankMultivariateNormal": lambda d: Di.LowRankMultivariateNormal(one(d), one(d)[:, None], two(d)),
    "Multinomial": lambda d: Di.Multinomial(5, one(d)),
    "MultivariateNormal": lambda d: Di.MultivariateNormal(one(d), two(d).diag()),
    "NegativeBinomial": lambda d: Di.NegativeBinomial(two(d), one(d)),
    "Normal": lambda d: Di.Normal(one(d), two(d)),
    "OneHotCategorical": lambda d: Di.OneHotCategorical(one(d)),
    "Pareto": lambda d: Di.Pareto(two(d), two(d)),
    "Poisson": lambda d: Di.Poisson(two(d)),
    "RelaxedBernoulli": lambda d: Di.RelaxedBernoulli(two(d)[0], one(d)),
    "RelaxedOneHotCategorical": lambda d: Di.RelaxedOneHotCategorical(two(d)[0], one(d)),
    "StudentT": lambda d: Di.StudentT(two(d)),
    "Tanh": lambda d: Di.TransformedDistribution(Di.Normal(one(d), two(d)), [transforms.TanhTransform()]),
    "Uniform": lambda d: Di.Uniform(one(d), two(d)),
    "VonMises": lambda d: Di.VonMises(one(d), two(d)),
    "Weibull": lambda d: Di.Weibull(two(d), two(d)),
    "Wishart": lambda d: Di.Wishart(two(d)[0] + 1, two(d).diag()),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_draw_and_answer_there(name):
    there, here = DISTRIBUTIONS[name]("cuda"), DISTRIBUTIONS[name]("cpu")
    drawn = there.rsample((4,)) if there.has_rsample else there.sample((4,))
    assert drawn.is_cuda
    assert drawn.shape == here.sample((4,)).shape
    given = drawn.detach()
    np.testing.assert_allclose(
        there.log_prob(given).detach().cpu().numpy(),
        here.log_prob(given.cpu()).detach().numpy(),
        rtol=2e-4,
        atol=2e-4,
    )
    for fact in ("mean", "variance"):
        try:
            expected = getattr(here, fact)
        except NotImplementedError:
            continue
        assert getattr(there, fact).is_cuda
        np.testing.assert_allclose(
            getattr(there, fact).detach().cpu().numpy(), expected.detach().numpy(), rtol=2e-4
        )
    if drawn.requires_grad:
        drawn.sum().backward()


DRAWN = {
    "randn_like": lambda a: minitorch.randn_like(a),
    "rand": lambda a: minitorch.rand(8, device=a.device),
    "randint": lambda a: minitorch.randint(0, 1000, (8,), device=a.device).float(),
    "randperm": lambda a: minitorch.randperm(8, device=a.device).float(),
    "normal_": lambda a: minitorch.empty_like(a).normal_(),
    "bernoulli": lambda a: a.sigmoid().bernoulli(),
    "dropout": lambda a: F.dropout(a, 0.5),
    "poisson": lambda a: minitorch.poisson(a.exp()),
    "one by one": lambda a: minitorch.rand_like(a) + (0.0 if a.sum().item() > -1000 else 1.0),
}


@pytest.mark.filterwarnings("ignore:vmap:UserWarning")
@pytest.mark.parametrize("name", DRAWN)
def test_batches_draw_there(name):
    given = minitorch.ones(5, 8, device="cuda")
    with pytest.raises(RuntimeError, match="randomness='different'"):
        vmap(DRAWN[name])(given)
    same = vmap(DRAWN[name], randomness="same")(given)
    different = vmap(DRAWN[name], randomness="different")(given)
    assert same.is_cuda
    assert different.is_cuda
    same, different = same.cpu().numpy(), different.cpu().numpy()
    assert (same == same[:1]).all()
    assert len(np.unique(different, axis=0)) > 1


@pytest.mark.parametrize(
    "function",
    [
        lambda r: (r * r.new_ones(8)).sum(),
        lambda r: F.dropout(r, 0.5) * minitorch.rand_like(r),
        grad(lambda r: (r * minitorch.randn(8, device=r.device)).sum()),
    ],
)
def test_batches_compile_there(function, monkeypatch):
    if not minitorch.cuda.get_device_name().startswith("NVIDIA"):
        standin_gpu.installed(monkeypatch)
    eager = vmap(function, randomness="different")
    compiled = minitorch.compile(eager)
    results = []
    for run in (eager, compiled):
        minitorch.manual_seed(0)
        results.append(minitorch.stack([run(x("cuda")) for _ in range(4)]).cpu().numpy())
    np.testing.assert_allclose(*results, rtol=1e-5)
    assert "1 compiled" in str(compiled.explain())


TRANSFORMS = {
    "ColorJitter": lambda d: T.ColorJitter(0.4, 0.4, 0.4, 0.1)(image(d)),
    "ElasticTransform": lambda d: T.ElasticTransform(sigma=1.0)(image(d)),
    "RandomAffine": lambda d: T.RandomAffine(10)(image(d)),
    "RandomErasing": lambda d: T.RandomErasing(1.0, value="random")(image(d)),
    "RandAugment": lambda d: T.RandAugment()(bytes_of(d)),
    "TrivialAugmentWide": lambda d: T.TrivialAugmentWide()(bytes_of(d)),
    "AugMix": lambda d: T.AugMix()(bytes_of(d)),
    "stochastic_depth": lambda d: minitorch.vision.ops.StochasticDepth(0.5, "row")(image(d)),
    "random_structured": lambda d: prune.random_structured(linear(d), "weight", 0.5, dim=0)(x(d)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_random_transforms_stay_there(name):
    for seed in range(6):
        minitorch.manual_seed(seed)
        assert TRANSFORMS[name]("cuda").is_cuda


def test_derivatives_are_checked_there():
    for given in (values(2, 3, dtype=np.float64), values(3, dtype=np.float64) + 1j):
        a = minitorch.tensor(given, device="cuda", requires_grad=True)
        assert gradcheck(lambda t: t * t.sin() if not t.is_complex() else t * t, (a,))
        assert gradgradcheck(lambda t: t * t * t, (a,))

    with pytest.raises(GradcheckError, match="backward gives 3, differences give 2"):
        gradcheck(
            doubled(lambda g: g * 3),
            (minitorch.ones(2, device="cuda", dtype=minitorch.float64, requires_grad=True),),
        )


def test_an_index_on_a_gpu_is_refused_by_a_tensor_on_the_cpu():
    with pytest.raises(RuntimeError, match=r"indices should be either on the CPU .* write index.cpu\(\)"):
        x("cpu")[places("cuda")]
    with pytest.raises(IndexError, match="out of"):
        x("cuda")[minitorch.tensor([0, 100])].cpu()


def test_seeds_of_another_device_are_refused():
    for here, there in (("cpu", "cuda"), ("cuda", "cpu")):
        given = minitorch.ones(6, 8, device=there)
        with pytest.raises(RuntimeError, match=r"the gradient lies on '.*'; write gradient.to\('c"):
            (x(here).requires_grad_() * 2).backward(given)
        with pytest.raises(RuntimeError, match=r"Doubled.backward: what it returned for argument 0 lies on"):
            doubled(lambda g, given=given: given)(x(here).requires_grad_()).sum().backward()


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
def test_range_lies_where_it_is_asked_to():
    made = minitorch.range(0, 3, device="cuda", requires_grad=True)
    assert made.is_cuda
    assert made.requires_grad
    assert made.tolist() == [0, 1, 2, 3]


def test_numbers_name_gpus():
    assert minitorch.zeros(2, device=0).is_cuda
    assert minitorch.ones(1).to(device=0).get_device() == 0
    assert nn.Linear(2, 2, device=0).weight.is_cuda
    assert vmap(lambda a: a * a.get_device())(minitorch.ones(2, 2, device=0)).sum().item() == 0
    minitorch.set_default_device(0)
    try:
        assert minitorch.ones(2).is_cuda
    finally:
        minitorch.set_default_device("cpu")


@pytest.mark.parametrize("write", ["the view", "its tensor", "a part"])
def test_a_view_by_steps_is_written_into_before_backward(write):
    w, whole = minitorch.ones(2, device="cuda", requires_grad=True), minitorch.ones(4, device="cuda")
    view = whole.as_strided((2,), (2,))
    product = (w * whole[::2] if write == "the view" else w * view).sum()
    if write == "the view":
        view.zero_()
    elif write == "its tensor":
        whole.add_(1)
    else:
        whole[2:].zero_()
    with pytest.raises(RuntimeError, match="changed"):
        product.backward()


@pytest.mark.parametrize("write", ["the windows", "their tensor", "before"])
def test_windows_are_written_into(write):
    w, whole = minitorch.ones(2, 3, device="cuda", requires_grad=True), minitorch.ones(6, device="cuda")
    windows = whole.unfold(0, 3, 3)
    if write == "before":
        windows[1].mul_(w[1] * 3)
        whole.sum().backward()
        np.testing.assert_array_equal(minitorch.as_tensor(w.grad).cpu().numpy(), [[0, 0, 0], [3, 3, 3]])
        return
    product = (w * (windows if write == "their tensor" else whole.reshape(2, 3))).sum()
    (whole if write == "their tensor" else windows[0]).add_(1)
    with pytest.raises(RuntimeError, match="changed"):
        product.backward()


def test_copies_in_place_of_views_are_not_written_into():
    whole = minitorch.ones(5, device="cuda")
    for windows in (whole.as_strided((3, 3), (1, 1)), whole.as_strided((3, 3), (1, 1))[0]):
        with pytest.raises(RuntimeError, match="windows that overlap are copied"):
            windows.zero_()
    with pytest.raises(RuntimeError, match="ends at element 8, but the memory has 5"):
        whole.requires_grad_().as_strided((9,), (1,))


def test_as_strided_of_memory_in_another_order():
    a = (minitorch.arange(24.0).reshape(2, 3, 4).permute(1, 0, 2) + 1).as_strided((6,), (2,), 1)
    assert a.tolist() == [2, 4, 6, 8, 10, 12]


@pytest.mark.filterwarnings("ignore:vmap:UserWarning")
def test_batches_one_by_one_draw_on_devices_that_no_argument_lies_on():
    draw = lambda a: minitorch.rand(2, device="cuda").cpu() + (a.sum().item() > -100)
    given = minitorch.ones(3, 2)
    with pytest.raises(RuntimeError, match="randomness='different'"):
        vmap(draw)(given)
    same = vmap(draw, randomness="same")(given).numpy()
    assert (same == same[:1]).all()
    assert len(np.unique(vmap(draw, randomness="different")(given).numpy())) > 2


def test_copies_lie_where_they_lay():
    layer = parametrizations.orthogonal(linear("cuda"))
    twin = copy.deepcopy(layer)
    assert twin.weight.is_cuda
    np.testing.assert_allclose((twin.weight @ twin.weight.T).detach().cpu().numpy(), np.eye(8), atol=1e-5)


def test_views_made_by_slices_are_those_by_steps():
    rng, views = np.random.default_rng(0), 0
    for _ in range(3000):
        flat = np.arange(rng.integers(1, 40))
        shape = tuple(rng.choice([1, 2, 3, 4], rng.integers(0, 4)).tolist())
        strides = tuple(rng.choice([0, 1, 2, 3, 4, 5, 6, 8, 12], len(shape)).tolist())
        first = int(rng.integers(0, len(flat)))
        if first + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) >= len(flat):
            continue
        view = view_by_steps(flat, first, shape, strides)
        if view is not None:
            views += 1
            expected = np.lib.stride_tricks.as_strided(flat[first:], shape, [step * 8 for step in strides])
            np.testing.assert_array_equal(view, expected)
            assert np.shares_memory(view, flat)
    assert views > 1000
