"""Attention tile by tile: found in programs, and its kernels run by this processor, thread after thread."""

import math
import shutil
import subprocess

import numpy as np
import pytest

import minitorch
from compiled import BACKENDS
from minitorch.compiler.backends.cuda import attention as attention_module
from minitorch.compiler.backends.cuda import tiles
from minitorch.compiler.backends.cuda.ptx import ptx
from minitorch.compiler.backends.cuda.words import gpu_text
from minitorch.nn import functional

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")

INFINITY = float("inf")


@pytest.fixture(autouse=True)
def rounding(monkeypatch):
    """Products may be rounded, and no scores are too few."""
    monkeypatch.setattr(attention_module, "LEAST_SCORES", 1)
    before = minitorch.get_float32_matmul_precision()
    minitorch.set_float32_matmul_precision("high")
    yield
    minitorch.set_float32_matmul_precision(before)


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


def with_gradients(function):
    def run(*arrays):
        made = function(*arrays)
        return made, *minitorch.autograd.grad((made * made.detach().cos()).sum(), list(arrays))

    return run


def compared(function, *arrays, backend="gpu", verify=True):
    """Run a function compiled and as it is, and return what tells about the compiled one."""
    run = minitorch.compile(function, backend=backend, verify=verify)
    run(*arrays)
    found, expected = run(*arrays), function(*arrays)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
    (program,) = run.cache.all()
    return program.runner, str(run.explain())


CASES = [
    (plain, (2, 3, 70, 32), (2, 3, 70, 32)),
    (causal, (2, 3, 70, 32), (2, 3, 70, 32)),
    (causal, (1, 2, 65, 64), (1, 2, 65, 64)),
    (plain, (2, 1, 30, 64), (2, 1, 70, 64)),
    (causal, (3, 130, 32), (3, 130, 32)),
    (window, (2, 2, 150, 32), (2, 2, 150, 32)),
    (soft_capped_with_slopes, (2, 2, 70, 32), (2, 2, 70, 32)),
    (padded_with_bias, (2, 3, 70, 32), (2, 3, 70, 32)),
]


@pytest.mark.parametrize(
    ("function", "queries", "keys"), CASES, ids=lambda each: getattr(each, "__name__", str(each))
)
def test_gradients_as_eager(function, queries, keys):
    arrays = numbers(*queries), numbers(*keys, seed=1), numbers(*keys, seed=2)
    runner, text = compared(with_gradients(function), *arrays)
    assert "(attention, tiles of 64 by 64" in text
    assert "gradients of keys and values of attention, tiles of" in text
    assert "a library's" not in text
    heads = math.prod(queries[:-2])
    assert runner.report.arena < 4 * heads * queries[-2] * keys[-2] * 4 + 4 * sum(
        a.numel() * 4 for a in arrays
    )


@pytest.mark.parametrize("backend", ["gpu", "gpu backwards"])
def test_whichever_thread_comes_first(backend):
    arrays = [numbers(2, 2, 70, 32, seed=seed) for seed in range(3)]
    _, text = compared(with_gradients(causal), *arrays, backend=backend)
    assert "left out" in text


def test_kernels_that_round_nothing(monkeypatch):
    monkeypatch.setattr(tiles, "kernel_of", lambda attention, writer: writer(attention, True).kernel())
    _, text = compared(with_gradients(causal), *(numbers(1, 2, 70, 32, seed=seed) for seed in range(3)))
    assert "(attention, tiles of" in text


def test_queries_keys_and_values_of_one_product_are_read_where_they_lie():
    def step(x, w):
        q, k, v = (part.view(2, 70, 2, 32).transpose(1, 2) for part in (x @ w).split(64, dim=2))
        made = causal(q, k, v).transpose(1, 2).reshape(2, 70, 64)
        return made, *minitorch.autograd.grad((made * made.detach().cos()).sum(), [x, w])

    runner, text = compared(step, numbers(2, 70, 24), numbers(24, 192, seed=1))
    assert "(attention, tiles of" in text
    scores_bytes = 2 * 2 * 70 * 70 * 4
    assert runner.report.arena < 2 * 70 * 192 * 4 * 5 < 12 * scores_bytes
    assert all("70×70" not in words for each in runner.report.steps for words in each.values)


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


def test_where_nothing_may_be_rounded_products_are_a_librarys():
    minitorch.set_float32_matmul_precision("highest")
    _, text = compared(with_gradients(plain), *(numbers(2, 2, 70, 32, seed=seed) for seed in range(3)))
    assert "attention, tiles" not in text


@pytest.mark.parametrize("processor", ["sm_80", "sm_90"])
def test_ptx(processor, tmp_path):
    run = minitorch.compile(with_gradients(causal), backend="gpu", verify=False)
    run(*(numbers(2, 2, 128, 64, seed=seed) for seed in range(3)))
    (program,) = run.cache.all()
    kernels = [t.kernel for t in program.runner.tasks if t.kernel.variables]
    assert len(kernels) == 3
    code = ptx(gpu_text(kernels), processor)
    assert code.count(b"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32") > 300
    assert b"cp.async.cg.shared.global" in code
    assert b".local" not in code  # what threads keep, they keep in registers
    assembler = shutil.which("ptxas")
    if assembler is not None:
        (tmp_path / "a.ptx").write_bytes(code)
        command = [
            assembler,
            "-v",
            f"-arch={processor}",
            "-o",
            str(tmp_path / "a.cubin"),
            str(tmp_path / "a.ptx"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("0 bytes spill stores") == 3
