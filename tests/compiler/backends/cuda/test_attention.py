"""Attention tile by tile: found in programs, and its kernels run by this processor, thread after thread."""

import ctypes
import itertools
import math
import shutil
import subprocess
from importlib.util import find_spec

import numpy as np
import pytest

import minitorch
from compiled import BACKENDS, assert_same, put_off_audits
from fenced import Fenced
from minitorch.compiler import backends
from minitorch.compiler.backends.cuda import attention_kernels, finding_attention
from minitorch.compiler.backends.cuda.backend import CudaBackend
from minitorch.compiler.backends.cuda.devices import Emulated
from minitorch.compiler.backends.cuda.gpu_text import gpu_text
from minitorch.compiler.backends.cuda.ptx import ptx
from minitorch.compiler.backends.cuda.words import with_sizes
from minitorch.compiler.ir.program import Value
from minitorch.nn import functional

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")

INFINITY = float("inf")


@pytest.fixture(autouse=True)
def rounding(monkeypatch):
    """Products may be rounded, and no scores are too few."""
    monkeypatch.setattr(finding_attention, "LEAST_SCORES", 1)
    before = minitorch.get_float32_matmul_precision()
    minitorch.set_float32_matmul_precision("high")
    yield
    minitorch.set_float32_matmul_precision(before)


@pytest.fixture
def cut_in_two(monkeypatch):
    """Factors are cut in two, which this processor, that rounds none, has no need of."""
    exact = lambda attention, writer: with_sizes(lambda: writer(attention, True).kernel())
    monkeypatch.setattr(attention_kernels, "kernel_of", exact)
    minitorch.set_float32_matmul_precision("highest")


def numbers(*shape, seed=0):
    array = np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)
    return minitorch.tensor(array, requires_grad=True)


def scores(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


def attend(score, v):
    return minitorch.softmax(score, -1) @ v


def plain(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v)


def causal(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def window(q, k, v):
    i, j = minitorch.arange(q.shape[-2])[:, None], minitorch.arange(k.shape[-2])[None]
    return attend(scores(q, k).masked_fill((i - j).abs() > 20, -INFINITY), v)


def soft_capped_with_slopes(q, k, v):
    capped = 5 * minitorch.tanh(scores(q, k) / 5)
    i, j = minitorch.arange(q.shape[-2])[:, None], minitorch.arange(k.shape[-2])[None]
    return attend(capped - 0.1 * (i - j).abs(), v)


KEYS = np.random.default_rng(5).random((2, 1, 1, 70)) < 0.7
BIAS = np.random.default_rng(6).normal(size=(3, 70, 70)).astype(np.float32)


def padded_with_bias(q, k, v):
    mask = minitorch.tensor(KEYS[: len(q)])
    return attend((scores(q, k) + minitorch.tensor(BIAS)).masked_fill(~mask, -INFINITY), v)


SEEN = np.random.default_rng(3).random((70, 70)) < 0.7
SEEN[3] = False


def dropped_and_masked(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=minitorch.tensor(SEEN), dropout_p=0.3)


def with_gradients(function):
    def run(*arrays):
        made = function(*arrays)
        return made, *minitorch.autograd.grad((made * made.detach().cos()).sum(), list(arrays))

    return run


def compared(function, *arrays, backend="gpu", verify=True, dynamic=None):
    """Run a function compiled and as it is, and return what tells about the compiled one."""
    run = minitorch.compile(function, backend=backend, verify=verify, dynamic=dynamic)
    run(*arrays)
    put_off_audits(run)
    found, expected = run(*arrays), function(*arrays)
    for a, b in zip(found, expected, strict=True):
        assert_same(a, b, slack=4)
    (program,) = run.cache.all()
    return program.runner, str(run.explain())


CASES = [
    (plain, (2, 1, 70, 32), (2, 1, 70, 32)),
    (causal, (1, 2, 65, 64), (1, 2, 65, 64)),
    (causal, (1, 1, 70, 128), (1, 1, 70, 128)),
    (plain, (2, 1, 30, 32), (2, 1, 70, 32)),
    (window, (2, 130, 32), (2, 130, 32)),
    (soft_capped_with_slopes, (2, 1, 70, 32), (2, 1, 70, 32)),
    (padded_with_bias, (1, 3, 70, 32), (1, 3, 70, 32)),
]


@pytest.mark.parametrize(
    ("function", "queries", "keys"), CASES, ids=lambda each: getattr(each, "__name__", str(each))
)
def test_gradients_as_eager(function, queries, keys):
    arrays = numbers(*queries), numbers(*keys, seed=1), numbers(*keys, seed=2)
    runner, text = compared(with_gradients(function), *arrays)
    assert "(attention, tiles of 64 by" in text
    assert "gradients of keys and values of attention, tiles of" in text
    assert "a library's" not in text
    heads = math.prod(queries[:-2])
    assert runner.report.arena < 4 * heads * queries[-2] * keys[-2] * 4 + 4 * sum(
        a.numel() * 4 for a in arrays
    )


def test_whichever_thread_comes_first():
    arrays = [numbers(2, 1, 70, 32, seed=seed) for seed in range(3)]
    _, text = compared(with_gradients(causal), *arrays, backend="gpu backwards")
    assert "left out" in text


@pytest.mark.parametrize("varies", [False, True])
def test_kernels_that_round_nothing(varies, cut_in_two):
    arrays = [numbers(2, 3, 70, 32, seed=seed) for seed in range(3)]
    _, text = compared(with_gradients(causal), *arrays, dynamic=varies)
    assert "(attention, tiles of" in text
    assert ("outside of a band" in text) == varies


def test_queries_keys_and_values_of_one_product_are_read_where_they_lie():
    def step(x, w):
        q, k, v = (part.view(2, 70, 2, 32).transpose(1, 2) for part in (x @ w).split(64, dim=2))
        made = causal(q, k, v).transpose(1, 2).reshape(2, 70, 64)
        return made, *minitorch.autograd.grad((made * made.detach().cos()).sum(), [x, w])

    runner, text = compared(step, numbers(2, 70, 24), numbers(24, 192, seed=1))
    assert "(attention, tiles of" in text
    scores_bytes = 2 * 2 * 70 * 70 * 4
    assert runner.report.arena < 2 * 70 * 192 * 4 * 5 < 12 * scores_bytes
    assert "place[" not in text  # gradients are written to where they are pieces of
    assert all("70×70" not in words for each in runner.report.steps for words in each.values)


def in_bfloat16(size):
    """Compile attention of heads of a size, and its gradients: its kernels, and what explain() says."""

    def step(x, w):
        with minitorch.autocast("cpu", dtype=minitorch.bfloat16):
            q, k, v = (part.view(1, 70, 2, size).transpose(1, 2) for part in (x @ w).split(2 * size, dim=2))
            made = causal(q, k, v).transpose(1, 2).reshape(1, 70, 2 * size)
        return made, *minitorch.autograd.grad((made * made.detach().cos()).sum(), [x, w])

    x, w = numbers(1, 70, 24), numbers(24, 6 * size, seed=1)
    run = minitorch.compile(step, backend="gpu")
    run(x, w)
    for found, expected in zip(run(x, w), step(x, w), strict=True):
        a, b = (each.detach().float().numpy() for each in (found, expected))
        np.testing.assert_allclose(a, b, atol=0.02 * np.abs(b).max())
    (program,) = run.cache.all()
    kernels = [t.kernel for t in program.runner.tasks if getattr(t.kernel, "variables", ())]
    return kernels, str(run.explain())


@pytest.mark.skipif(find_spec("ml_dtypes") is None, reason="ml_dtypes is not installed")
@pytest.mark.parametrize("size", [32, 64, 128])
def test_bfloat16_is_multiplied_as_such(size, tmp_path):
    kernels, text = in_bfloat16(size)
    assert "(attention, tiles of" in text
    assert "gradients of queries of attention" in text
    read = [each for kernel in kernels for each in kernel.operands if isinstance(each, Value)]
    assert {each.dtype for each in read if each.shape[-1] == 6 * size} == {np.dtype(minitorch.bfloat16)}
    if size == 32:
        code = assembled(kernels, "sm_80", tmp_path)
        assert b"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in code
        assert b"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in code
    else:  # by four warps together
        code = assembled(kernels, "sm_90a", tmp_path)
        assert b"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16" in code
        assert b"mma.sync" not in code


@pytest.mark.skipif(find_spec("ml_dtypes") is None, reason="ml_dtypes is not installed")
def test_bfloat16_where_four_warps_cannot_multiply_together(monkeypatch, tmp_path):
    monkeypatch.setattr(Emulated, "in_groups", False)
    code = assembled(in_bfloat16(64)[0], "sm_80", tmp_path)
    assert b"wgmma" not in code
    assert b"mma.sync" in code


@pytest.mark.parametrize("size", [32, 64])
def test_float16_is_multiplied_as_such(size, tmp_path):
    def step(q, k, v):
        made = causal(*(each.float() for each in (q, k, v))).to(q.dtype)
        return made, *minitorch.autograd.grad((made * made.detach().cos()).float().sum(), [q, k, v])

    wide = [numbers(1, 2, 70, size, seed=seed) for seed in range(3)]
    halves = [each.detach().half().requires_grad_() for each in wide]
    run = minitorch.compile(step, backend="gpu")
    run(*halves)
    for found, expected in zip(run(*halves), step(*wide), strict=True):
        assert found.dtype == np.float16
        a, b = (each.detach().float().numpy() for each in (found, expected))
        np.testing.assert_allclose(a, b, atol=0.003 * np.abs(b).max())
    (program,) = run.cache.all()
    kernels = [t.kernel for t in program.runner.tasks if getattr(t.kernel, "variables", ())]
    code = assembled(kernels, "sm_80" if size == 32 else "sm_90a", tmp_path)
    assert (b".m16n8k16.row.col.f32.f16.f16.f32" if size == 32 else b".m64n64k16.f32.f16.f16") in code


@pytest.mark.parametrize(
    ("function", "half"),
    [(causal, True), (causal, False), (padded_with_bias, False), (dropped_and_masked, False)],
)
def test_gradients_from_outside_compute_attention_again(function, half):
    if half and find_spec("ml_dtypes") is None:
        pytest.skip("ml_dtypes is not installed")

    def attended(q, k, v):
        with minitorch.autocast("cpu", dtype=minitorch.bfloat16, enabled=half):
            return function(q, k, v)

    def gradients(run):
        minitorch.manual_seed(3)
        made = run(*arrays)
        return made, *minitorch.autograd.grad((made * made.detach().cos()).float().sum(), arrays)

    arrays = [numbers(2, 3, 70, 32, seed=seed) for seed in range(3)]
    run = minitorch.compile(attended, backend="gpu")
    for _ in range(3):
        found = gradients(run)
    for a, b in zip(found, gradients(attended), strict=True):
        a, b = (each.detach().float().numpy() for each in (a, b))
        np.testing.assert_allclose(a, b, atol=(0.03 if half else 1e-4) * np.abs(b).max())
    there, back = str(run.explain()).split("the way back:")
    assert "(attention, tiles of" in there
    assert "gradients of queries of attention" in back
    (program,) = run.cache.all()
    kept = [each for each in program.backward.program.inputs if each.size >= 2 * 3 * 70 * 70]
    assert all(each.dtype == np.bool_ for each in kept)  # no scores, only what was dropped


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_some_probabilities_are_dropped(half, masked):
    if half and find_spec("ml_dtypes") is None:
        pytest.skip("ml_dtypes is not installed")
    mask = minitorch.tensor(SEEN) if masked else None

    def step(q, k, v):
        with minitorch.autocast("cpu", dtype=minitorch.bfloat16, enabled=half):
            made = functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=not masked, dropout_p=0.3
            )
        return made, *minitorch.autograd.grad((made * made.detach().cos()).float().sum(), [q, k, v])

    def seeded(run):
        minitorch.manual_seed(3)
        return run(*arrays)

    arrays = [numbers(1, 2, 70, 64 if half else 32, seed=seed) for seed in range(3)]
    run = minitorch.compile(step, backend="gpu")
    for _ in range(3):
        found = seeded(run)
    for a, b in zip(found, seeded(step), strict=True):
        a, b = (each.detach().float().numpy() for each in (a, b))
        np.testing.assert_allclose(a, b, atol=(0.03 if half else 1e-4) * np.abs(b).max())
    text = str(run.explain())
    assert "(attention, tiles of" in text
    assert "gradients of queries of attention" in text


def test_layers_that_are_alike_have_one_text():
    def layers(x):
        with minitorch.no_grad():
            for _ in range(3):
                q, k, v = (part.view(1, 70, 2, 32).transpose(1, 2) for part in x.split(64, dim=2))
                seen = causal(q, k, v).transpose(1, 2).reshape(1, 70, 64)
                x = minitorch.cat([seen * 2, seen.cos(), seen], 2)
            return (x,)

    runner, _ = compared(layers, numbers(1, 70, 192))
    kernels = [t.kernel for t in runner.tasks if t.kernel.variables]
    assert len(kernels) == 3
    assert len({id(kernel.items) for kernel in kernels}) == 1


def test_layers_that_differ_have_texts_of_their_own():
    """In their scale, in what they mask, in what they make of scores; those that differ in whose bias they read have one, and each reads its own."""
    biases = [minitorch.tensor(BIAS[:2] * factor) for factor in (1.0, -3.0)]

    def layers(x):
        def split():
            return (part.view(1, 70, 2, 32).transpose(1, 2) for part in x.split(64, dim=2))

        attentions = [
            causal, plain,
            lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, scale=0.7),
            *(lambda q, k, v, bias=bias: attend(scores(q, k) + bias, v) for bias in biases),
            *(lambda q, k, v, cap=cap: attend(cap * minitorch.tanh(scores(q, k)), v) for cap in (0.5, 4.0)),
        ]  # fmt: skip
        with minitorch.no_grad():
            for each in attentions:
                seen = each(*split()).transpose(1, 2).reshape(1, 70, 64)
                x = minitorch.cat([seen * 2, seen.cos(), seen], 2)
            return (x,)

    # (Unverified: nothing but this comparison would notice.)
    runner, _ = compared(layers, numbers(1, 70, 192), verify=False)
    kernels = [t.kernel for t in runner.tasks if t.kernel.variables]
    assert [[id(k.items) for k in kernels].index(id(kernel.items)) for kernel in kernels] == [
        0,
        1,
        2,
        3,
        3,
        5,
        6,
    ]


def test_a_row_without_keys_is_no_number():
    q, k, v = (numbers(1, 2, 70, 32, seed=seed) for seed in range(3))
    mask = np.tri(70, dtype=bool)
    mask[3] = False

    def function(q, k, v):
        with minitorch.no_grad():
            return (attend(scores(q, k).masked_fill(~minitorch.tensor(mask), -INFINITY), v),)

    run = minitorch.compile(function, backend="gpu", verify=False)
    run(q, k, v)
    (found,), (expected,) = run(q, k, v), function(q, k, v)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
    assert np.isnan(found.numpy()[:, :, 3]).all()
    assert np.isfinite(found.numpy()[:, :, 4:]).all()
    assert "(attention, tiles of" in str(run.explain())
    assert "left out" not in str(run.explain())


@pytest.mark.parametrize("half", [False, True])
def test_a_mask_that_is_an_array_may_leave_a_row_nothing(half):
    if half and find_spec("ml_dtypes") is None:
        pytest.skip("ml_dtypes is not installed")
    array = np.random.default_rng(3).random((2, 1, 70, 70)) < 0.7
    array[0, 0, 3] = False
    mask = minitorch.tensor(array)

    def masked(q, k, v):
        with minitorch.autocast("cpu", dtype=minitorch.bfloat16, enabled=half):
            made = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return made, *minitorch.autograd.grad((made * made.detach().cos()).float().sum(), [q, k, v])

    arrays = [numbers(2, 1, 70, 64 if half else 32, seed=seed) for seed in range(3)]
    run = minitorch.compile(masked, backend="gpu")
    for _ in range(3):
        found = run(*arrays)
    for a, b in zip(found, masked(*arrays), strict=True):
        a, b = (each.detach().float().numpy() for each in (a, b))
        np.testing.assert_allclose(a, b, atol=(0.03 if half else 1e-4) * np.abs(b).max())
    assert not found[0].detach().float().numpy()[0, :, 3].any()
    assert not found[1].detach().float().numpy()[0, :, 3].any()
    assert "gradients of queries of attention" in str(run.explain())


def seen(q, k, v):
    p = minitorch.softmax(scores(q, k), -1)
    return p @ v, p.sum(-2)


@pytest.mark.parametrize(
    ("function", "size"),
    [(seen, 32), (lambda q, k, v: (plain(q, k, v),), 24)],
    ids=["looked at", "a head of 24"],
)
def test_what_is_no_plain_attention_stays_what_it_was(function, size):
    def without_gradients(*arrays):
        with minitorch.no_grad():
            return function(*arrays)

    _, text = compared(without_gradients, *(numbers(2, 2, 70, size, seed=seed) for seed in range(3)))
    assert "attention, tiles" not in text


def test_where_nothing_may_be_rounded_attention_is_as_exact_as_float32(cut_in_two):
    """What is left of a factor in TF32 is multiplied too: here it is as large as can be, and would move what is seen."""
    _, text = compared(with_gradients(plain), *(numbers(2, 2, 70, 32, seed=seed) for seed in range(3)))
    assert "attention, tiles" in text

    q, k, v = (np.zeros((2, 2, 70, 64), np.float32) for _ in range(3))
    q[..., 9] = k[..., 1::2, 9] = 8 * (
        1 + 2**-10 - 2**-20
    )  # (one product a score, so that no sums are rounded)
    k[..., ::2, 9] = 8 * (1 + 2**-9)
    v[:, :, 1::2], v[:, :, ::2] = 1, -1

    def function(q, k, v):
        with minitorch.no_grad():
            return (functional.scaled_dot_product_attention(q, k, v, scale=1.0),)

    run = minitorch.compile(function, backend="gpu")
    for _ in range(2):
        (found,) = run(*map(minitorch.tensor, (q, k, v)))
    assert "attention, tiles" in str(run.explain())
    scores = np.exp(q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) - 64)
    expected = scores @ v.astype(np.float64) / scores.sum(-1, keepdims=True)
    assert np.abs(found.numpy() - expected).max() < 1.5e-5


@pytest.mark.parametrize("attention", [plain, causal])
@pytest.mark.parametrize(
    ("which", "number"), [*itertools.product("qv", [np.inf, -np.inf, np.nan]), ("v", 3.4e38)]
)
def test_numbers_that_cannot_be_cut_stay_what_they_are(which, number, attention, cut_in_two):
    """Also where they meet a 1 of the softmax, of which nothing is left."""
    q, k, v = (numbers(2, 2, 70, 32, seed=seed).detach() for seed in range(3))
    (v if which == "v" else q)[0, 0, 0, 7] = number

    def function(q, k, v):
        with minitorch.no_grad():
            return (attention(q, k, v),)

    run = minitorch.compile(function, backend="gpu")
    for _ in range(2):
        (found,) = run(q, k, v)
    assert "attention, tiles" in str(run.explain())
    np.testing.assert_allclose(found.numpy(), attention(q, k, v).numpy(), rtol=1e-3, atol=1e-5)


def assembled(kernels, processor, folder):
    """The PTX of some kernels, which an assembler takes if there is one; nothing that threads keep is in memory."""
    code = ptx(gpu_text(kernels), processor)
    assert b".local" not in code
    assembler = shutil.which("ptxas")
    if assembler is not None:
        (folder / "a.ptx").write_bytes(code)
        command = [assembler, f"-arch={processor}", "-o", str(folder / "a.cubin"), str(folder / "a.ptx")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return code


def test_ptx(tmp_path):
    run = minitorch.compile(with_gradients(causal), backend="gpu", verify=False)
    run(*(numbers(1, 2, 65, 32, seed=seed) for seed in range(3)))
    (program,) = run.cache.all()
    kernels = [t.kernel for t in program.runner.tasks if t.kernel.variables]
    assert len(kernels) == 3
    for processor in ("sm_80", "sm_90"):
        code = assembled(kernels, processor, tmp_path)
        assert code.count(b"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32") > 150
        assert b"cp.async.cg.shared.global" in code


@pytest.mark.parametrize("nothing", [-1e9, float(np.finfo(np.float32).min)])
def test_rows_that_a_later_mask_leaves_nothing_of(nothing):
    """Queries that are padding have all their scores alike, and no gradient: nothing else gets one from them."""

    def run(q, k, v, kept):
        mask = kept[:, None, :] & kept[:, :, None]
        made = attend(scores(q, k).masked_fill(~mask, nothing), v)
        loss = (made * kept[:, :, None]).square().sum()
        return made, *minitorch.autograd.grad(loss, [q, k, v])

    arrays = [numbers(1, 70, 32, seed=seed) for seed in range(3)]
    compiled = minitorch.compile(run, backend="gpu")
    for length in (70, 70, 60):
        kept = minitorch.arange(70)[None] < length
        for a, b in zip(compiled(*arrays, kept), run(*arrays, kept), strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert "attention" in str(compiled.explain())


@pytest.mark.parametrize("nothing", [-1e9, float(np.finfo(np.float32).min)])
def test_rows_of_which_nothing_is_left_and_that_have_gradients(nothing):
    """Their scores are all alike: every value has its share of their gradient."""

    def run(q, k, v, length):
        rows = minitorch.arange(70)[:, None] < length
        made = attend(scores(q, k).masked_fill(~rows, nothing), v)
        return made, *minitorch.autograd.grad(made.square().sum(), [q, k, v])

    arrays = [numbers(1, 70, 32, seed=seed) for seed in range(3)]
    compiled = minitorch.compile(run, backend="gpu")
    for length in (70, 70, 60):
        given = minitorch.tensor(length)
        for a, b in zip(compiled(*arrays, given), run(*arrays, given), strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert "attention" in str(compiled.explain())


# --- lengths and batches that vary ------------------------------------------------------------------------------------


def masked(q, k, v, mask):
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def biased_and_padded(q, k, v, bias, kept):
    return attend((scores(q, k) + bias).masked_fill(~kept, -INFINITY), v)


def dropped(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.3)


def later_keys(q, k, v):
    """The last query sees all keys: those before are seen by all, as where some were computed earlier."""
    i, j = minitorch.arange(q.shape[-2])[:, None], minitorch.arange(k.shape[-2])[None]
    return attend(scores(q, k).masked_fill(j > i + (k.shape[-2] - q.shape[-2]), -INFINITY), v)


def more_of(function, batch, heads, queries, keys):
    """What else a function is given, of these sizes."""
    draw = np.random.default_rng([batch, queries])
    if function is masked:
        mask = draw.random((batch, 1, queries, keys)) < 0.7
        mask[0, 0, 1] = False
        return [minitorch.tensor(mask)]
    if function is biased_and_padded:
        kept = draw.random((batch, 1, 1, keys)) < 0.7
        kept[..., 0] = True
        bias = draw.normal(size=(heads, queries, keys)).astype(np.float32)
        return [minitorch.tensor(bias), minitorch.tensor(kept)]
    return []


def with_a_mask_of_the_transformers(q, k, v):
    later = minitorch.nn.Transformer.generate_square_subsequent_mask(q.shape[-2])
    return attend(scores(q, k) + later, v)


OF_ANY_LENGTH = {
    plain: "",
    with_a_mask_of_the_transformers: "left out",
    causal: "left out",
    window: "left out",
    soft_capped_with_slopes: "",
    masked: "",
    biased_and_padded: "",
    dropped: "left out",
    later_keys: "",
}
# batch, heads, queries and keys: with and without a last tile that is not full, shorter than a tile, of one tile
LENGTHS = [(3, 4, 21, 41), (2, 2, 70, 97), (3, 2, 5, 7), (2, 2, 64, 128)]


@pytest.fixture
def fenced(monkeypatch):
    """Whoever reads or writes beyond an array's end ends the process."""
    if not hasattr(ctypes.CDLL(None), "mprotect"):
        pytest.skip("memory cannot be protected here")
    monkeypatch.setitem(backends._BACKENDS, "gpu", CudaBackend(Fenced()))


@pytest.mark.parametrize(
    ("function", "size"),
    [*((each, 32) for each in OF_ANY_LENGTH), (causal, 64), (masked, 128)],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_one_program_for_all_lengths(function, size, fenced):
    def step(q, k, v, *more):
        assert q.shape[-1] == size  # (of heads alone a program is for one size)
        made = function(q, k, v, *more)
        return made, *minitorch.autograd.grad((made * made.detach().cos()).sum(), [q, k, v])

    run = minitorch.compile(step, backend="gpu", dynamic=True)
    apart = (
        plain,
        masked,
        biased_and_padded,
        later_keys,
    )  # whose queries and keys may be of different lengths
    for batch, heads, queries, keys in LENGTHS:
        keys = max(keys, queries) if function is later_keys else keys if function in apart else queries
        shapes = [(batch, heads, n, size) for n in (queries, keys, keys)]
        arrays = [numbers(*shape, seed=seed) for seed, shape in enumerate(shapes)]
        arrays += more_of(function, batch, heads, queries, keys)
        minitorch.manual_seed(7)
        expected = step(*arrays)
        if not run.compilations:
            run(*arrays)
            continue
        put_off_audits(run)
        minitorch.manual_seed(7)
        for a, b in zip(run(*arrays), expected, strict=True):
            assert_same(a, b, f"{batch, heads, queries, keys}", slack=4)
    assert run.compilations == 1
    assert run.cache.eager_calls == 0
    text = str(run.explain())
    assert "sizes that vary: s0" in text
    assert "(attention, tiles of" in text
    assert "gradients of keys and values of attention, tiles of" in text
    assert OF_ANY_LENGTH[function] in text
    assert "a library's" not in text


def of_one_product(size, half):
    def attended(x, w):
        batch, length, _ = x.shape
        with minitorch.autocast("cpu", dtype=minitorch.bfloat16, enabled=half):
            parts = (x @ w).split(2 * size, dim=2)
            q, k, v = (part.view(batch, length, 2, size).transpose(1, 2) for part in parts)
            return causal(q, k, v).transpose(1, 2).reshape(batch, length, 2 * size)

    return attended


@pytest.mark.parametrize(
    ("size", "half", "outside"),
    [(32, False, False), (32, False, True), (32, True, False), (64, True, False), (64, True, True)],
)
def test_one_program_for_all_lengths_of_a_layer(size, half, outside, fenced, tmp_path):
    if half and find_spec("ml_dtypes") is None:
        pytest.skip("ml_dtypes is not installed")
    attended = of_one_product(size, half)

    def gradients(function, x, w):
        made = function(x, w)
        loss = (made * made.detach().cos()).float().sum()
        return made, *minitorch.autograd.grad(loss, [x, w])

    def step(x, w):
        return gradients(attended, x, w)

    run = minitorch.compile(attended if outside else step, backend="gpu")
    w = numbers(24, 6 * size, seed=1)
    for batch, length in ((3, 21), (2, 33), (2, 70), (3, 5), (2, 64)):
        x = numbers(batch, length, 24)
        if run.compilations == 2:
            put_off_audits(run)
        found = gradients(run, x, w) if outside else run(x, w)
        for a, b in zip(found, step(x, w), strict=True):
            a, b = (each.detach().float().numpy() for each in (a, b))
            np.testing.assert_allclose(a, b, atol=(0.03 if half else 1e-4) * np.abs(b).max())
    assert run.compilations == 2
    assert run.cache.eager_calls == 0
    text = str(run.explain()).partition("sizes that vary: s0")[2]
    assert "(attention, tiles of" in text
    assert "gradients of keys and values of attention, tiles of" in text
    assert "s1×s1" not in text
    assert "place[" not in text
    program = next(each for each in run.cache.all() if each.recorded.program.symbols)
    kernels = [t.kernel for t in program.runner.tasks if getattr(t.kernel, "variables", ())]
    code = assembled(kernels, "sm_90a" if half else "sm_90", tmp_path)
    assert (b"wgmma" in code) == (half and size > 32)
