"""Attention and dropout on a device, each as one op: kernels that this processor runs, beside the host's numbers."""

import warnings

import numpy as np
import pytest

import minitorch
from asked_of_device import asked
from compiled import BACKENDS
from device_eager import launches, there
from minitorch.compiler.backends.cuda import finding_attention
from minitorch.nn import functional as F
from minitorch.nn.functional import attention
from standin_cupy import installed

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")


@pytest.mark.parametrize(("name", "causal"), [("float16", False), ("bfloat16", True)])
def test_attention_of_halves_is_one_op(launcher, name, causal, monkeypatch):
    """Its scores are not written down, and neither they nor the weights are rounded: as in PyTorch."""
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    monkeypatch.setattr(finding_attention, "LEAST_SCORES", 1)
    draw, half = np.random.default_rng(0), np.dtype(getattr(minitorch, name))
    minitorch.zeros(1, dtype=half)
    arrays = [draw.normal(size=(1, n, 2, 32)).astype(half) for n in (40, 70, 70)]
    seed = draw.normal(size=(1, 2, 40, 32)).astype(half)

    def run(make, dtype):
        tensors = [make(each.astype(dtype)).requires_grad_() for each in arrays]
        out = F.scaled_dot_product_attention(*[each.transpose(1, 2) for each in tensors], is_causal=causal)
        out.backward(make(seed.astype(dtype))._data)
        return [out._data, *[each.grad for each in tensors]]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            found = run(there, half)
    for mine, other in zip(found, run(minitorch.tensor, np.float32), strict=True):
        assert mine.dtype == half
        assert np.abs(mine.host.astype(np.float32) - other).max() < 2e-2 * np.abs(other).max()
    assert launches(launcher, lambda: run(there, half)) <= 8


@pytest.mark.parametrize("scale", [None, 0.3, -0.5])
@pytest.mark.parametrize(("name", "lengths"), [("float32", (40, 70)), ("bfloat16", (65, 65))])
def test_gradients_of_attention_do_not_compute_it_again(launcher, name, lengths, scale, monkeypatch):
    """They begin from what it has written down of each query: a launch forward, and two backward."""
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    monkeypatch.setattr(finding_attention, "LEAST_SCORES", 1)
    monkeypatch.setattr(minitorch.backends.cuda.matmul, "allow_tf32", True)
    draw, dtype = np.random.default_rng(0), np.dtype(getattr(minitorch, name))
    minitorch.zeros(1, dtype=dtype)
    queries, keys = lengths
    arrays = [draw.normal(size=(2, n, 3, 32)).astype(dtype) for n in (queries, keys, keys)]
    seed = draw.normal(size=(2, 3, queries, 32)).astype(dtype)

    def prepared(make, dtype):
        tensors = [make(each.astype(dtype)).requires_grad_() for each in arrays]
        parts = [each.transpose(1, 2) for each in tensors]
        return tensors, lambda: F.scaled_dot_product_attention(*parts, is_causal=True, scale=scale)

    def run(make, dtype):
        tensors, attend = prepared(make, dtype)
        out = attend()
        return [
            out._data,
            *[each._data for each in minitorch.autograd.grad(out, tensors, make(seed.astype(dtype)))],
        ]

    for _ in range(3):
        found = run(there, dtype)
    for mine, other in zip(found, run(minitorch.tensor, np.float32), strict=True):
        bound = 2e-2 if name == "bfloat16" else 2e-3
        assert np.abs(mine.host.astype(np.float32) - other).max() < bound * np.abs(other).max()
    tensors, attend = prepared(there, dtype)
    made, g = [], there(seed)
    assert launches(launcher, lambda: made.append(attend())) == 1
    assert launches(launcher, lambda: minitorch.autograd.grad(made[0], tensors, g, retain_graph=True)) == 2


def test_attention_of_halves_is_differentiated_twice(launcher):
    pytest.importorskip("ml_dtypes")
    draw, half = np.random.default_rng(0), np.dtype(minitorch.bfloat16)
    minitorch.zeros(1, dtype=half)
    arrays = [draw.normal(size=(1, 2, 6, 4)).astype(half) for _ in range(3)]

    def run(make, dtype):
        tensors = [make(each.astype(dtype)).requires_grad_() for each in arrays]
        out = F.scaled_dot_product_attention(*tensors, is_causal=True)
        (slope,) = minitorch.autograd.grad((out * out).sum(), tensors[:1], create_graph=True)
        (slope * slope).sum().backward()
        return [each.grad for each in tensors]

    for mine, other in zip(run(there, half), run(minitorch.tensor, np.float32), strict=True):
        assert np.abs(mine.host.astype(np.float32) - other).max() < 2e-2 * np.abs(other).max()


def test_attention_is_differentiated_twice(launcher):
    """Also where the second derivative goes through what the first one reads of each query."""
    draw = np.random.default_rng(0)
    arrays = [draw.normal(size=(2, 2, n, 4)).astype(np.float32) for n in (5, 6, 6)]
    directions = [draw.normal(size=each.shape).astype(np.float32) for each in arrays]

    def run(make):
        tensors = [make(each).requires_grad_() for each in arrays]
        out = F.scaled_dot_product_attention(*tensors)
        slopes = minitorch.autograd.grad((out * out * out).sum(), tensors, create_graph=True)
        sum((slope * make(d)).sum() for slope, d in zip(slopes, directions, strict=True)).backward()
        return [each.grad for each in tensors]

    expected = run(minitorch.tensor)
    for _ in range(4):
        for mine, other in zip(run(there), expected, strict=True):
            np.testing.assert_allclose(mine.host, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", [("highest", "high", "highest"), ("high", "highest", "high")])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_in_float32_is_one_op(launcher, causal, order, monkeypatch):
    """By kernels that write no scores, if products may round when they are made; whether they may is asked each time."""
    monkeypatch.setattr(finding_attention, "LEAST_SCORES", 1)
    draw = np.random.default_rng(0)
    arrays = [draw.normal(size=(2, n, 2, 32)).astype(np.float32) for n in (40, 70, 70)]
    seed = draw.normal(size=(2, 2, 40, 32)).astype(np.float32)

    def run(make):
        tensors = [make(each).requires_grad_() for each in arrays]
        out = F.scaled_dot_product_attention(*[each.transpose(1, 2) for each in tensors], is_causal=causal)
        out.backward(make(seed)._data)
        return [out._data, *[each.grad for each in tensors]]

    wanted = run(minitorch.tensor)
    before = minitorch.get_float32_matmul_precision()
    counts = {}
    try:
        for precision in order:
            bound = 1e-5 if precision == "highest" else 2e-3
            minitorch.set_float32_matmul_precision(precision)
            for _ in range(3):
                found = run(there)
            for mine, other in zip(found, wanted, strict=True):
                assert mine.dtype == np.float32
                assert np.abs(mine.host - other).max() < bound * np.abs(other).max()
            counts[precision] = launches(launcher, lambda: run(there))
    finally:
        minitorch.set_float32_matmul_precision(before)
    assert max(counts.values()) <= (8 if order[0] == "high" else 16)


MASKS = {
    "of keys": lambda draw: draw.random((2, 1, 1, 48)) < 0.7,
    "rows that see nothing": lambda draw: (draw.random((40, 48)) < 0.7) & (np.arange(40) != 3)[:, None],
    "added": lambda draw: draw.normal(size=(2, 1, 40, 48)).astype(np.float32),
    "added to each head": lambda draw: np.where(
        draw.random((2, 2, 40, 48)) < 0.7, draw.normal(size=(2, 2, 40, 48)), -np.inf
    ).astype(np.float32),
    "added, rows that see nothing": lambda draw: np.where(
        (draw.random((40, 48)) < 0.7) & (np.arange(40) != 3)[:, None], 0, -np.inf
    ).astype(np.float32),
}


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("kind", MASKS)
def test_attention_with_a_mask_is_one_op(launcher, kind, half, monkeypatch):
    """By kernels that write no scores; the host does not wait to see whether a row sees nothing."""
    if half:
        pytest.importorskip("ml_dtypes")
    monkeypatch.setattr(finding_attention, "LEAST_SCORES", 1)
    draw = np.random.default_rng(0)
    arrays = [draw.normal(size=(2, n, 2, 32)).astype(np.float32) for n in (40, 48, 48)]
    seed, mask = draw.normal(size=(2, 2, 40, 32)).astype(np.float32), MASKS[kind](draw)

    def given(make):
        made = [make(each) for each in (*arrays, seed, mask)]
        if half:
            made = [each if each._data.dtype == np.bool_ else each.bfloat16() for each in made]
        return [each.requires_grad_() for each in made[:3]], *made[3:]

    def run(tensors, seed, mask):
        for each in tensors:
            each.grad = None
        out = F.scaled_dot_product_attention(*[each.transpose(1, 2) for each in tensors], attn_mask=mask)
        out.backward(seed)
        return [out.detach().float()._data, *[minitorch.Tensor(each.grad).float()._data for each in tensors]]

    wanted, on_device = run(*given(minitorch.tensor)), given(there)
    for _ in range(3):
        found = run(*on_device)
    for mine, other in zip(found, wanted, strict=True):
        assert np.abs(mine.host - other).max() < (3e-2 if half else 1e-5) * np.abs(other).max()
    with asked(monkeypatch) as noted:
        run(*on_device)
    assert not {"__bool__", "__matmul__", "where", "all", "exp"} & set(noted)
    # (The mask's rows, what is seen and its gradients, and where a row sees nothing; halves are widened to be compared.)
    assert launches(launcher, lambda: run(*on_device)) <= (11 if half else 7)


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("added", ["float16", "bfloat16", "float32", "float64"])
def test_numbers_of_a_mask_are_not_rounded_to_other_halves(launcher, half, added):
    """Float32's -1e9 is no infinity: where a row has no other number, a query sees all keys alike."""
    pytest.importorskip("ml_dtypes")
    draw, half, added = np.random.default_rng(0), *(np.dtype(getattr(minitorch, n)) for n in (half, added))
    arrays = [draw.normal(size=(2, 2, n, 8)).astype(half) for n in (5, 6, 6)]
    mask = np.where(
        (draw.random((5, 6)) < 0.7) & (np.arange(5) != 3)[:, None], draw.normal(size=(5, 6)), -1e9
    )
    with np.errstate(over="ignore"):
        mask = mask.astype(added)

    def run(make):
        tensors = [make(each).requires_grad_() for each in arrays]
        out = F.scaled_dot_product_attention(*tensors, attn_mask=make(mask))
        out.backward(make(np.ones(out.shape, half))._data)
        return [out._data, *[each.grad for each in tensors]]

    wanted = run(minitorch.tensor)
    for _ in range(3):
        for mine, other in zip(run(there), wanted, strict=True):
            assert mine.dtype == half
            other = other.astype(np.float32)
            np.testing.assert_allclose(mine.host.astype(np.float32), other, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_dropout_is_one_op(launcher, dtype, monkeypatch):
    """Besides what draws: the same elements are kept by a kernel and its gradient's."""
    installed(monkeypatch)
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    array = np.random.default_rng(0).normal(size=(6, 8, 5)).astype(np.float32)
    x = there(array).to(getattr(minitorch, dtype)).detach().requires_grad_()
    numbers = x._data.host.astype(np.float64)
    rounding = 1e-2 if dtype.endswith("16") else 1e-6

    def run():
        minitorch.manual_seed(3)
        x.grad = None
        y = F.dropout(x, 0.3)
        y.backward(minitorch.ones_like(y)._data)
        return y._data.host.astype(np.float64), x.grad.host.astype(np.float64)

    at_first = run()
    for _ in range(3):
        y, gradient = run()
    assert 0.6 < (y != 0).mean() < 0.8
    np.testing.assert_array_equal(y != 0, at_first[0] != 0)
    np.testing.assert_allclose(y, (y != 0) * numbers / 0.7, rtol=rounding)
    np.testing.assert_allclose(gradient, (y != 0) / 0.7, rtol=rounding)
    assert launches(launcher, run) == 2


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("kind", [None, "causal", *MASKS])
def test_attention_that_drops_is_one_op(launcher, kind, half, monkeypatch):
    """The same is dropped as where it is composed of other ops."""
    installed(monkeypatch)
    if half:
        pytest.importorskip("ml_dtypes")
    monkeypatch.setattr(finding_attention, "LEAST_SCORES", 1)
    draw = np.random.default_rng(0)
    arrays = [draw.normal(size=(2, n, 2, 32)).astype(np.float32) for n in (40, 48, 48)]
    options = {"dropout_p": 0.3, "is_causal": kind == "causal"}
    if kind in MASKS:
        options["attn_mask"] = there(MASKS[kind](draw))
    tensors = [there(each) for each in arrays]
    if half:
        tensors = [each.bfloat16() for each in tensors]
    tensors = [each.detach().requires_grad_() for each in tensors]

    def run():
        minitorch.manual_seed(1)
        for each in tensors:
            each.grad = None
        out = F.scaled_dot_product_attention(*[each.transpose(1, 2) for each in tensors], **options)
        out.backward(minitorch.ones_like(out)._data)
        return [each.host.astype(np.float32) for each in (out._data, *[each.grad for each in tensors])]

    with monkeypatch.context() as patched:
        patched.setattr(attention, "_is_one_op", lambda *given: False)
        wanted = run()
    for _ in range(4):
        found = run()
    for mine, other in zip(found, wanted, strict=True):
        assert np.abs(mine - other).max() < (3e-2 if half else 1e-5) * np.abs(other).max()
    with asked(monkeypatch) as noted:
        run()
    assert set(noted) <= {"copy", "ones_like"}
    assert launches(launcher, run) <= (9 if kind in MASKS else 4)


@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
@pytest.mark.parametrize("kind", MASKS)
def test_attention_with_a_mask_is_differentiated_twice(launcher, kind, dropout_p, monkeypatch):
    installed(monkeypatch)
    draw = np.random.default_rng(0)
    arrays = [draw.normal(size=(2, 2, n, 8)).astype(np.float32) for n in (40, 48, 48)]
    tensors, mask = [there(each, requires_grad=True) for each in arrays], there(MASKS[kind](draw))

    def run():
        minitorch.manual_seed(1)
        out = F.scaled_dot_product_attention(*tensors, attn_mask=mask, dropout_p=dropout_p)
        first = minitorch.autograd.grad(out.square().sum(), tensors, create_graph=True)
        second = minitorch.autograd.grad(sum((each * each).sum() for each in first), tensors)
        return [each._data.host for each in (*first, *second)]

    found = run()
    monkeypatch.setattr(attention, "_is_one_op", lambda *given: False)
    for mine, other in zip(found, run(), strict=True):
        assert np.abs(mine - other).max() < 1e-4 * np.abs(other).max()


def test_attention_with_shared_heads_is_one_op(launcher, monkeypatch):
    monkeypatch.setattr(finding_attention, "LEAST_SCORES", 1)
    draw = np.random.default_rng(0)
    arrays = [draw.normal(size=(2, heads, 40, 32)).astype(np.float32) for heads in (4, 2, 2)]

    def run(make):
        tensors = [make(each).requires_grad_() for each in arrays]
        out = F.scaled_dot_product_attention(*tensors, is_causal=True, enable_gqa=True)
        out.backward(make(np.ones(out.shape, np.float32))._data)
        return [out._data, *[each.grad for each in tensors]]

    for _ in range(3):
        found = run(there)
    for mine, other in zip(found, run(minitorch.tensor), strict=True):
        assert np.abs(mine.host - other).max() < 1e-5 * np.abs(other).max()
    with asked(monkeypatch) as noted:
        run(there)
    assert "__matmul__" not in noted


@pytest.mark.parametrize(("shape", "options"), [((4,), {}), ((5, 8), {"enable_gqa": True})])
def test_attention_refuses_on_a_device_what_it_refuses_elsewhere(launcher, shape, options):
    said = []
    for make in (minitorch.tensor, there):
        parts = [make(np.ones(shape, np.float32)) for _ in range(3)]
        with pytest.raises(RuntimeError, match="scaled_dot_product_attention: ") as error:
            F.scaled_dot_product_attention(*parts, **options)
        said.append(str(error.value))
    assert said[0] == said[1]
