"""bfloat16 as a dtype, autocast and GradScaler: values, dtypes and gradients are PyTorch's, to bfloat16's rounding."""

import subprocess
import sys

import numpy as np
import pytest

import minitorch
from minitorch.engine import complex as complex_numbers
from minitorch.engine import fast
from minitorch.engine.backward import Walk
from minitorch.nn import functional as F
from pytorch import torch

pytest.importorskip("ml_dtypes")
draws = np.random.default_rng(0)
A, B, P = (draws.normal(size=(4, 6)), draws.normal(size=(6, 3)), draws.uniform(0.1, 2, (4, 6)))
EPS = 2.0**-7  # between 1 and the next bfloat16


def numbers(x):
    return x.detach().double().numpy()


def gradient(m, x):
    return (
        None if x.grad is None else numbers(x.grad) if m is torch else np.asarray(x.grad).astype(np.float64)
    )


def written(m, x):
    y = x.clone()
    y[0], y[1] = 2.0, x[2]
    return y.add_(1).mul_(2)


CASES = {
    "add": (lambda m, x, y: x + y, A, P),
    "numbers": (lambda m, x: 1 - x * 1.5 + 2, A),
    "div": (lambda m, x, y: x / y, A, P),
    "exp": (lambda m, x: x.exp(), A),
    "matmul": (lambda m, x, y: x @ y, A, B),
    "linear": (lambda m, x, w: m.nn.functional.linear(x, w.T), A, B),
    "einsum": (lambda m, x, y: m.einsum("ij,jk->ik", x, y), A, B),
    "conv": (lambda m, x, w: m.nn.functional.conv1d(x[None], w[:4].T[..., None]), A, B),
    "sum": (lambda m, x: x.sum(1), A),
    "mean": (lambda m, x: x.mean(), A),
    "var": (lambda m, x: x.var(1), A),
    "norm": (lambda m, x: x.norm(), A),
    "softmax": (lambda m, x: x.softmax(-1), A),
    "gelu": (lambda m, x: m.nn.functional.gelu(x), A),
    "relu": (lambda m, x: x.relu(), A),
    "layer_norm": (lambda m, x, w: m.nn.functional.layer_norm(x, (6,)) * w, A, P),
    "max": (lambda m, x: tuple(x.max(1)), A),
    "sort": (lambda m, x: tuple(x.sort(1)), A),
    "topk": (lambda m, x: tuple(x.topk(2)), A),
    "views": (lambda m, x: x.view(2, 12).T[1:3], A),
    "cat": (lambda m, x, y: m.cat([x, y]), A, P),
    "split": (lambda m, x: x.split(2, 1)[1], A),
    "where": (lambda m, x, y: m.where(x > 0, x, y), A, P),
    "masked_fill": (lambda m, x: x.masked_fill(x > 0, 1.0), A),
    "pow": (lambda m, x: x**2 + x**0.5, P),
    "cumsum": (lambda m, x: x.cumsum(1), A),
    "clamp": (lambda m, x: x.clamp(-0.5, 0.5), A),
    "cross_entropy": (lambda m, x: m.nn.functional.cross_entropy(x, m.tensor([0, 1, 2, 3])), A),
    "gather": (lambda m, x: x.gather(1, m.tensor([[0], [1], [2], [3]])), A),
    "index": (lambda m, x: x[[0, 2, 2]], A),
    "embedding": (lambda m, x: m.nn.functional.embedding(m.tensor([0, 2, 2]), x), A),
    "written into": (written, A),
    "compared": (lambda m, x: x > 0.5, A),
    "to int": (lambda m, x: x.long(), A),
    "to float": (lambda m, x: x.float(), A),
    "with float32": (lambda m, x: x + m.ones(6), A),
    "with a float32 number": (lambda m, x: x * m.tensor(2.0), A),
    "with float16": (lambda m, x: x + m.ones(6, dtype=m.float16), A),
    "with ints": (lambda m, x: x * m.tensor([1, 2, 3, 4, 5, 6]), A),
    "pool": (lambda m, x: m.nn.functional.max_pool2d(x[None, None], 2), A),
    "interpolate": (lambda m, x: m.nn.functional.interpolate(x[None, None], scale_factor=2, mode="bilinear"), A),
    "dropout": (lambda m, x: (m.manual_seed(0), m.nn.functional.dropout(x, 0.5))[1], A),
    "item": (lambda m, x: m.tensor([x[0, 0].item(), *x[1].tolist()]), A),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bfloat16_is_pytorchs(case):
    function, *arrays = CASES[case]
    found = []
    for m in (minitorch, torch):
        inputs = [m.tensor(a, dtype=m.bfloat16).requires_grad_() for a in arrays]
        results = function(m, *inputs)
        results = results if isinstance(results, tuple) else (results,)
        loss = sum((r.float() * 0.37).sum() for r in results if r.requires_grad)
        if any(r.requires_grad for r in results):
            loss.backward()
        found.append(
            (
                [str(r.dtype).rpartition(".")[2] for r in results],
                [*map(numbers, results), *(gradient(m, x) for x in inputs)],
            )
        )
    (dtypes, ours), (their_dtypes, theirs) = found
    assert dtypes == their_dtypes
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            np.testing.assert_allclose(a, b, rtol=EPS, atol=EPS * np.abs(b).max() / 8)


def test_a_parameter_in_bfloat16_is_trained_as_by_pytorch():
    found = []
    for m in (minitorch, torch):
        m.manual_seed(0)
        net = m.nn.Sequential(m.nn.Linear(6, 8), m.nn.Tanh(), m.nn.Linear(8, 1)).to(m.bfloat16)
        assert all(p.dtype == m.bfloat16 for p in net.parameters())
        optimizer = m.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        x = m.tensor(A, dtype=m.bfloat16)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert net[0].weight.dtype == m.bfloat16
        found.append(losses)
    np.testing.assert_allclose(*found, rtol=0.03)


def test_random_numbers_and_limits_are_pytorchs():
    for name in ("rand", "randn"):
        for size in (5, 16, 40):
            drawn = []
            for m in (minitorch, torch):
                m.manual_seed(0)
                drawn.append(numbers(getattr(m, name)(size, dtype=m.bfloat16)))
            np.testing.assert_array_equal(*drawn)
    ours, theirs = minitorch.finfo(minitorch.bfloat16), torch.finfo(torch.bfloat16)
    assert (ours.eps, ours.max, ours.tiny, ours.bits) == (theirs.eps, theirs.max, theirs.tiny, theirs.bits)
    assert minitorch.tensor([1.5]).bfloat16().type() == torch.tensor([1.5]).bfloat16().type()


def test_a_gradient_of_a_gradient_in_bfloat16():
    found = []
    for m in (minitorch, torch):
        x = m.tensor(P, dtype=m.bfloat16).requires_grad_()
        (first,) = m.autograd.grad((x**3).sum(), x, create_graph=True)
        (second,) = m.autograd.grad(first.sum(), x)
        found.append(numbers(second))
    np.testing.assert_allclose(*found, rtol=2 * EPS)


@pytest.mark.parametrize("name", ["max_pool1d", "gelu", "softmax"])
def test_what_a_rule_reads_is_asked_of_numbers_that_are_widened(name):
    call = {
        "max_pool1d": lambda x: F.max_pool1d(x, 2), "gelu": F.gelu, "softmax": lambda x: x.softmax(-1)
    }[name]  # fmt: skip
    x = minitorch.randn(1, 3, 4).bfloat16().requires_grad_()
    y = call(x * 1)
    y.relu_()
    if name == "softmax":
        with pytest.raises(RuntimeError, match="needs the values of then"):
            y.sum().backward()
    else:
        y.sum().backward()
        assert x.grad.dtype == minitorch.bfloat16


def test_without_the_package_the_name_can_be_mentioned():
    code = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import minitorch\n"
        "kinds = {'bfloat16': minitorch.bfloat16}\n"
        "try: minitorch.zeros(2, dtype=kinds['bfloat16'])\n"
        "except TypeError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "ml_dtypes has it" in said


def test_a_function_of_ones_own_is_given_the_gradient_in_the_dtype_of_its_result():
    found = []
    for m in (minitorch, torch):

        class Doubled(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * 2, x.float()

            @staticmethod
            def backward(ctx, g, h, m=m):
                assert ctx.saved_tensors[0].dtype == m.bfloat16
                found[-1].extend([g.dtype == m.bfloat16, h.dtype == m.float32])
                return g * 2 + h.to(g.dtype)

        found.append([])
        x = m.ones(2, 3, dtype=m.bfloat16).requires_grad_()
        one, other = Doubled.apply(x * x)
        checkpointed = m.utils.checkpoint.checkpoint(
            lambda y, function=Doubled: function.apply(y)[0], x, use_reentrant=False
        )
        (one.float().sum() + other.sum() + checkpointed.float().sum()).backward()
        found[-1].append(gradient(m, x).tolist())
    assert found[0] == found[1]
    assert found[0][:-1] == [True] * 4


# --- autocast -----------------------------------------------------------------------------------------


def under_autocast(m, x, y):
    """Return results of functions of each kind, by name."""
    F = m.nn.functional
    b = x.to(m.bfloat16)
    w = m.tensor(np.random.default_rng(1).normal(size=(4, 4, 1)).astype(np.float32))
    return {
        "matmul": x @ y,
        "addmm": m.addmm(m.ones(3), x, y),
        "einsum": m.einsum("ij,jk", x, y),
        "linear": F.linear(x, y.T),
        "conv": F.conv1d(x[None], w),
        "conv_transpose": F.conv_transpose1d(x[None], w),
        "attention": F.scaled_dot_product_attention(x[None], x[None], x[None]),
        "mv": m.mv(x, y[:, 0]),
        "doubles": x.double() @ y.double(),
        "softmax": b.softmax(1),
        "sum": b.sum(),
        "sum of both": x + b,
        "cat": m.cat([x, b]),
        "cross_entropy": F.cross_entropy(b, m.tensor([0, 1, 2, 3])),
        "mse_loss": F.mse_loss(b, x),
        "prod": b[:, :2].prod(1),
        "switched off": switched_off(m, x, y),
    }


def switched_off(m, x, y):
    with m.autocast("cpu", enabled=False):
        return x @ y


def test_autocast_chooses_as_pytorch():
    found = []
    for m in (minitorch, torch):
        x, y = (m.tensor(a.astype(np.float32)) for a in (A, B))
        with m.autocast("cpu", dtype=m.bfloat16):
            assert m.is_autocast_enabled("cpu")
            assert m.get_autocast_dtype("cpu") == m.bfloat16
            found.append(under_autocast(m, x, y))
        assert not m.is_autocast_enabled("cpu")
        assert (x @ y).dtype == m.float32
    for name, theirs in found[1].items():
        ours = found[0][name]
        assert str(ours.dtype) == str(theirs.dtype).rpartition(".")[2], name
        scale = np.abs(numbers(theirs)).max()
        np.testing.assert_allclose(numbers(ours), numbers(theirs), rtol=EPS, atol=EPS * scale, err_msg=name)


def block(m):
    """Attention and a perceptron, in either library's modules, with the same weights."""

    class Block(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norm = m.nn.Embedding(11, 16), m.nn.LayerNorm(16)
            self.qkv, self.out = m.nn.Linear(16, 48), m.nn.Linear(16, 16)
            self.up, self.head = m.nn.Linear(16, 32), m.nn.Linear(32, 11)

        def forward(self, text):
            x = self.embed(text)
            q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
            x = x + self.out(m.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
            return self.head(m.nn.functional.gelu(self.up(x)))

    m.manual_seed(3)
    return Block()


def trained(m, net, autocast, compile=None):
    """Train a few steps; return the losses and the dtypes of the parameters and their gradients."""
    m.manual_seed(0)
    optimizer = m.optim.AdamW(net.parameters(), lr=1e-2)
    text = m.tensor(np.random.default_rng(2).integers(0, 11, (6, 9)))

    def step(x, y):
        optimizer.zero_grad()
        with m.autocast("cpu", dtype=m.bfloat16, enabled=autocast):
            loss = m.nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    run = step if compile is None else compile(step, fullgraph=True)
    losses = [run(text[:, :-1], text[:, 1:]).item() for _ in range(8)]
    return losses, {str(p.dtype).rpartition(".")[2] for p in net.parameters()}


def test_training_under_autocast_is_as_far_from_float32_as_pytorchs():
    exact, _ = trained(minitorch, block(minitorch), autocast=False)
    ours, dtypes = trained(minitorch, block(minitorch), autocast=True)
    theirs, their_dtypes = trained(torch, block(torch), autocast=True)
    assert dtypes == their_dtypes == {"float32"}
    np.testing.assert_allclose(ours, exact, rtol=0.02)
    np.testing.assert_allclose(ours, theirs, rtol=0.02)
    assert np.abs(np.array(ours) - exact).max() > 0  # it did compute in another precision


def test_a_parameter_is_cast_once():
    weight = minitorch.ones(2, 2, requires_grad=True)
    seen = []
    weight.register_hook(lambda g: seen.append(g))
    with minitorch.autocast("cpu"):
        total = (weight @ minitorch.ones(2) + weight @ minitorch.ones(2)).sum()
    total.float().backward()
    assert len(seen) == 1
    assert weight.grad.dtype == np.float32
    np.testing.assert_array_equal(weight.grad, np.full((2, 2), 2.0))


def test_what_autocast_cannot_do_it_says(monkeypatch):
    monkeypatch.setattr(minitorch.amp, "has_gpu", lambda: False)
    with pytest.warns(UserWarning, match="no GPU"), minitorch.autocast("cuda"):
        assert (minitorch.ones(2, 2) @ minitorch.ones(2, 2)).dtype == np.float32
    with pytest.warns(UserWarning, match="only to bfloat16 and float16"):
        minitorch.autocast("cpu", dtype=minitorch.float64)
    with pytest.raises(RuntimeError, match="'cpu' or 'cuda'"):
        minitorch.autocast("gpu")


def weighted(m):
    """A layer with some weights, and what it is given."""
    layer = m.nn.Linear(6, 3)
    with m.no_grad():
        layer.weight.copy_(m.tensor(B.T.astype(np.float32)))
        layer.bias.zero_()
    return layer, m.tensor(A.astype(np.float32))


def test_gradients_of_several_losses_in_one_autocast():
    """What was cast once is used again after a backward: it is not consumed for good."""
    found = []
    for m in (minitorch, torch):
        layer, x = weighted(m)
        with m.autocast("cpu", dtype=m.bfloat16):
            for factor in (1.0, 2.0, -0.5):
                (layer(x).float() ** 2 * factor).sum().backward()
        found.append(gradient(m, layer.weight))
    np.testing.assert_allclose(*found, rtol=4 * EPS)


def test_training_inside_one_autocast_sees_the_weights_as_they_are():
    found = []
    for outside in (False, True):
        layer, x = weighted(minitorch)
        optimizer = minitorch.optim.SGD(layer.parameters(), lr=0.1)
        losses = []
        with minitorch.autocast("cpu", enabled=not outside):
            for _ in range(3):
                with minitorch.autocast("cpu"):
                    loss = (layer(x).float() ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        found.append(losses)
    assert found[0] == found[1]
    assert found[0][2] < found[0][0]


@pytest.mark.parametrize("how", ["cleared", "without a cache"])
def test_a_cast_of_before_a_write_may_be_forgotten(how):
    found = []
    for m in (minitorch, torch):
        layer, x = weighted(m)
        with m.autocast("cpu", dtype=m.bfloat16):
            layer(x)
            with m.no_grad():
                layer.weight.mul_(3)
            if how == "cleared":
                m.clear_autocast_cache()
            with m.autocast("cpu", dtype=m.bfloat16, cache_enabled=how == "cleared"):
                assert m.is_autocast_cache_enabled() == (how == "cleared")
                found.append(numbers(layer(x)))
            assert m.is_autocast_cache_enabled()
    np.testing.assert_allclose(*found, rtol=2 * EPS, atol=EPS)


def test_a_parameter_that_is_given_another_array_is_cast_anew():
    layer, x = weighted(minitorch)
    with minitorch.autocast("cpu"):
        before = layer(x)
        layer.weight.data = layer.weight.data * 2
        np.testing.assert_allclose(numbers(layer(x)), 2 * numbers(before), rtol=2 * EPS)


def test_custom_fwd_casts_what_pytorchs_does():
    """Floats on that kind of device, in lists and dicts too; neither float64 nor integers."""
    found = []
    for m in (minitorch, torch):
        for device_type in ("cpu", "cuda"):

            @m.amp.custom_fwd(device_type=device_type, cast_inputs=m.float16)
            def forward(ctx, one, several, named, m=m):
                found[-1].extend(str(each.dtype).split(".")[-1] for each in (one, *several, named["a"]))
                return m.is_autocast_enabled("cpu")

            found.append([])
            with m.autocast("cpu"):
                several = [m.ones(2), m.ones(2, dtype=m.float64), m.ones(2, dtype=m.int64)]
                found[-1].append(forward(type("Context", (), {})(), m.ones(2), several, {"a": m.ones(2)}))
    assert found[:2] == found[2:]
    assert found[0][:2] == ["float16", "float16"]


@minitorch.autocast("cpu", dtype=minitorch.float16)
def decorated(x):
    return x @ x


def test_autocast_decorates():
    assert decorated(minitorch.ones(2, 2)).dtype == np.float16


# --- GradScaler ---------------------------------------------------------------------------------------


def test_gradscaler_is_pytorchs():
    found = []
    for m in (minitorch, torch):
        w = m.nn.Parameter(m.ones(3))
        optimizer = m.optim.SGD([w], lr=0.5)
        scaler = m.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        said = []
        for factor in (1.0, 2.0, float("inf"), 1.0, float("nan"), 0.5, 0.25):
            optimizer.zero_grad()
            scaler.scale((w * factor).sum()).backward()
            if factor == 0.5:
                scaler.unscale_(optimizer)
                m.nn.utils.clip_grad_norm_([w], 0.1)
            scaler.step(optimizer)
            scaler.update()
            said.append((scaler.get_scale(), *w.tolist()))
        other = m.amp.GradScaler("cpu")
        other.load_state_dict(scaler.state_dict())
        said.append((other.get_scale(), other.state_dict()["_growth_tracker"], 0.0, 0.0))
        found.append(said)
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_gradscaler_says_what_comes_at_the_wrong_time():
    w = minitorch.nn.Parameter(minitorch.ones(1))
    optimizer, scaler = minitorch.optim.SGD([w], lr=0.5), minitorch.amp.GradScaler("cpu")
    with pytest.raises(RuntimeError, match="no optimiser made a step"):
        scaler.update()
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already since the last update"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already since the last update"):
        scaler.step(optimizer)
    assert w.item() == 0.5
    with pytest.warns(UserWarning, match="no GPU"):
        idle = minitorch.amp.GradScaler()
    assert (idle.is_enabled(), idle.get_scale(), idle.state_dict()) == (False, 1.0, {})


# --- compiled -----------------------------------------------------------------------------------------


def test_compiled_training_under_autocast_is_eagers(compile):
    eager, _ = trained(minitorch, block(minitorch), autocast=True)
    np.testing.assert_allclose(
        trained(minitorch, block(minitorch), autocast=True, compile=compile)[0], eager, rtol=1e-3
    )


def test_a_program_is_kept_for_the_precision_it_was_recorded_in(compile):
    product = compile(lambda x: x @ x, fullgraph=True)
    x = minitorch.ones(2, 2)
    for _ in range(3):
        assert product(x).dtype == np.float32
        with minitorch.autocast("cpu"):
            assert product(x).dtype == minitorch.bfloat16
        with minitorch.autocast("cpu", dtype=minitorch.float16):
            assert product(x).dtype == np.float16
    assert product.compilations == 3


def test_compiled_casts_round_as_eager_ones(compile):
    bits = np.random.default_rng(0).integers(0, 2**32, 5000, dtype=np.uint32).view(np.float32)
    bits[:7] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 3.4e38, 1e-40]

    def casts(x):
        half = x.bfloat16()
        return half, half.float(), x.double().bfloat16(), half.exp(), half + half, half.long().float() * 0

    x = minitorch.tensor(bits)
    run = compile(casts, fullgraph=True)
    with np.errstate(all="ignore"):
        for _ in range(3):
            for ours, eager in zip(run(x), casts(x), strict=True):
                assert ours.dtype == eager.dtype
                a, b = numbers(ours), numbers(eager)
                np.testing.assert_allclose(a, b, rtol=EPS, err_msg=str(eager.dtype))
    assert run.compilations == 1


def test_the_short_paths_of_other_dtypes_stay_short(monkeypatch):
    """Once there was a bfloat16 tensor, ops look out for another; they do not take longer ways for it."""
    minitorch.ones(2, dtype=minitorch.bfloat16)

    def too_long(*args, **options):
        raise AssertionError("a longer way")

    x, y = minitorch.randn(3, 4, requires_grad=True), minitorch.randn(3, 4)
    monkeypatch.setattr(complex_numbers, "met", [])  # (by other tests)
    for path in (fast.apply_unary, fast.apply_binary, fast.apply_to_tensor_and_number):
        monkeypatch.setitem(path.__globals__, "apply", too_long)
        monkeypatch.setitem(path.__globals__, "complex_met", [])
    monkeypatch.setattr(Walk, "pull_back", too_long)
    ((x * y).exp() + 2.0 * x).backward(np.ones((3, 4), np.float32))
    np.testing.assert_allclose(x.grad, y._data * np.exp(x._data * y._data) + 2, rtol=1e-5)
    with pytest.raises(AssertionError, match="a longer way"):
        x.bfloat16().exp()
