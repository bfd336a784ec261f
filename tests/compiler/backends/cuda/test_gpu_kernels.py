"""GPU kernels where there is no GPU: run by this processor, thread after thread, and assembled where there is ptxas."""

import copy
import dataclasses
import functools
import math
import shutil
from importlib.util import find_spec

import numpy as np
import pytest

import minitorch
from compiled import BACKENDS, assert_same
from minitorch.compiler.backends.cuda import arrangement, convolutions, loops, lower, sorting
from minitorch.compiler.backends.cuda import products as products_module
from minitorch.compiler.backends.cuda import ptx as machine_code
from minitorch.compiler.backends.cuda.backend import CudaBackend
from minitorch.compiler.backends.cuda.capabilities import GPU_FIGURES, Gpu
from minitorch.compiler.backends.cuda.convolutions import LibraryConvolution
from minitorch.compiler.backends.cuda.cpu_text import cpu_text
from minitorch.compiler.backends.cuda.devices import Emulated, Launch
from minitorch.compiler.backends.cuda.gpu_text import gpu_text
from minitorch.compiler.backends.cuda.products import LibraryProduct
from minitorch.compiler.backends.cuda.ptx import assembled, assembler, ptx
from minitorch.compiler.backends.cuda.words import BlockWriter, Kernel
from minitorch.compiler.ir import builder
from minitorch.compiler.ir.program import Program, interpret
from random_ir import given

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")

BOTH = ["gpu", "gpu backwards"]  # whichever thread comes first, results are the same


@pytest.fixture
def librarys(monkeypatch):
    """Products that are kernels of our own only because they are small are a library's."""
    monkeypatch.setattr(products_module, "LEAST_FOR_A_LIBRARY", 1)


def numbers(*shape):
    return np.random.default_rng([7, *shape]).normal(size=shape).astype(np.float32)


def layer_norm(x, w):
    gained = minitorch.nn.functional.layer_norm(x, x.shape[-1:], w)
    return minitorch.autograd.grad((gained * gained.detach().cos()).sum(), [x, w])


def running_sum(x, w):
    return (x * w).cumsum(1), x.cumsum(0)


def first_and_best(x, w):
    return x.argmax(1), x.argmin(0), (x * 0).argmax(1), x.max(), x.min(1)[0]


def several_sums(x, w):
    y = (x * w).exp()
    return y.sum(), y.sum(0), y.sum(1), (y**0.1).prod(1), (y > 1).any(0), (y > 0.5).all()


def table_rows(x, w):
    index = minitorch.tensor([0, 2, 1, 2, 2, 0])
    picked = x[index]
    return (
        picked,
        minitorch.zeros_like(x).index_add(0, index, picked),
        minitorch.autograd.grad(picked.sum(), [x])[0],
    )


def joined(x, w):
    return minitorch.cat([x, x * 2, w.reshape(1, -1)], 0), minitorch.stack([x, -x], 1)


def products(x, w):
    return x @ x.T, x.T @ x, (x * w) @ w, minitorch.einsum("ij,kj->ik", x, x)


def softmax(x, w):
    return minitorch.softmax(x, 1), minitorch.log_softmax(x * w, 0)


FUNCTIONS = [layer_norm, running_sum, first_and_best, several_sums, table_rows, joined, products, softmax]


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("shape", [(3, 1), (7, 33), (300, 70), (700, 40), (3, 4000)], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_eager(function, shape, backend):
    if function in (products, running_sum) and max(shape) > 500:
        shape = (2, 600)
    x, w = (minitorch.tensor(numbers(*s), requires_grad=True) for s in (shape, shape[1:]))
    run = minitorch.compile(function, backend=backend, fullgraph=True)
    run(x, w)
    x, w = x.detach() * 0.5, w.detach() + 0.25
    x.requires_grad, w.requires_grad = True, True
    for a, b in zip(run(x, w), function(x, w), strict=True):
        assert_same(a, b, function.__name__)
    assert run.compilations == 1


@pytest.mark.parametrize("backend", BOTH)
def test_a_large_sum_is_shared_out_among_blocks(backend):
    x = minitorch.tensor(numbers(300, 500))
    run = minitorch.compile(lambda x: ((x * x).sum(), (x + 1).sum(0)), backend=backend)
    run(x)
    for a, b in zip(run(x + 1), (((x + 1) * (x + 1)).sum(), (x + 2).sum(0)), strict=True):
        assert_same(a, b)
    assert "blocks of" in str(run.explain())


@pytest.mark.parametrize("shape", [(3, 70000), (20, 8192), (800, 96)], ids=str)
def test_many_short_columns_are_summed_by_a_thread_each(shape):
    x = minitorch.tensor(numbers(*shape))
    run = minitorch.compile(lambda x: (x * x).sum(0) * 2, backend="gpu")
    run(x)
    assert_same(run(x + 1), ((x + 1) * (x + 1)).sum(0) * 2)
    assert ("partial" in str(run.explain())) == (shape[0] > shape[1])


@pytest.mark.parametrize("elements", [1 << 18, (1 << 18) + 300])
def test_a_thread_computes_some_elements_side_by_side(elements):
    x = minitorch.tensor(numbers(elements))
    run = minitorch.compile(lambda x: (x * 2 - 1, x.reshape(2, -1).T + 1), backend="gpu")
    run(x)
    for a, b in zip(run(x + 1), (x * 2 + 1, (x + 2).reshape(2, -1).T), strict=True):
        assert_same(a, b)


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize(
    ("rows", "length"),
    [(5, 392), (9, 64), (3, 518), (130, 16), (70, 24), (512, 64)],
    ids=str,
)
def test_rows_that_threads_keep_are_read_and_written_some_elements_at_once(
    rows, length, backend, monkeypatch
):
    monkeypatch.setattr(arrangement, "LEAST_THREADS_THAT_KEEP", 1)
    written = []
    write = lambda *given: written.append(loops.write_loop(*given)) or written[-1]
    monkeypatch.setattr(lower, "write_loop", write)

    def function(x, w, there):
        masked = minitorch.where(there, x, -1e9)
        normed = minitorch.nn.functional.layer_norm(x, x.shape[-1:], w[1], w[2])
        return (
            masked.softmax(1),
            normed,
            normed > 0,
            (x * w[0]).double().log_softmax(1),
            x.half().softmax(1),
            x.var(1),
        )

    def sums(x, w, there):
        return (x.log_softmax(1) * w[0]).square().sum(), (x * w[2]).logsumexp(1).mean()

    given = [minitorch.tensor(numbers(*shape)) for shape in ((rows, length), (3, length))]
    given.append(given[0] > -0.5)
    for each in (sums, function):
        written.clear()
        run = minitorch.compile(each, backend=backend)
        run(*given)
        for a, b in zip(run(*given), each(*given), strict=True):
            assert_same(a, b)
    kept = [kernel for kernel in written if kernel.kept]
    lines = [line for kernel in kept for phase in kernel.items for line in phase.lines]
    stored = {kind for kind in ("float", "double", "i8") if any(f"store <4 x {kind}>" in o for o in lines)}
    assert stored == ({"float", "double", "i8"} if length % 4 == 0 else set())


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("shape", [(9, 33), (3, 5000), (300, 8)], ids=str)
def test_a_sum_of_exponentials_reads_its_row_once(shape, backend):
    x = numbers(*shape) * 5
    x[0] = x[-1, 0] = x[1, 1:] = -np.inf
    x[2, 0] = np.inf

    def function(x):
        return minitorch.softmax(x, 1), minitorch.logsumexp(x, 1), minitorch.log_softmax(x, 1)

    run = minitorch.compile(function, backend=backend, verify=False)
    run(minitorch.tensor(x))
    for a, b in zip(run(minitorch.tensor(x)), function(minitorch.tensor(x)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize(
    ("shape", "axes"), [((200, 300), (1, 0)), ((3, 130, 70), (0, 2, 1)), ((9, 40, 50), (2, 1, 0))]
)
def test_what_is_read_along_one_axis_and_written_along_another_goes_by_tiles(shape, axes, backend):
    x = minitorch.tensor(numbers(*shape))
    run = minitorch.compile(lambda x: x.permute(*axes) * 2 + 1, backend=backend)
    run(x)
    assert_same(run(x + 1), (x + 1).permute(*axes) * 2 + 1)
    assert "tiles of" in str(run.explain())


def test_a_large_product_is_rounded_off_and_its_factors_lie_along_their_sums(monkeypatch):
    monkeypatch.setattr(products_module, "LEAST_WORTH_DIVIDING", 1)
    monkeypatch.setattr(products_module, "COPIED_A_SECOND", 1e30)
    monkeypatch.setattr(products_module, "LAUNCH_SECONDS", 0.0)
    a, b, c = (minitorch.tensor(numbers(*shape)) for shape in [(300, 64), (517, 64), (300, 517)])

    def function(a, b, c):
        y = a @ b.T
        return (y * c) @ b, (y * c).T @ a, y.cos()

    before = minitorch.get_float32_matmul_precision()
    minitorch.set_float32_matmul_precision("high")
    try:
        run = minitorch.compile(function, backend="gpu", verify=False)
        run(a, b, c)
        found = run(a + 1, b, c)
    finally:
        minitorch.set_float32_matmul_precision(before)
    for made, expected in zip(found, function(a + 1, b, c), strict=True):
        np.testing.assert_allclose(made.numpy(), expected.numpy(), rtol=2e-4, atol=5e-3)
    (program,) = run.cache.all()
    products = [t.kernel for t in program.runner.tasks if isinstance(t.kernel, LibraryProduct)]
    assert len(products) == 6
    assert sum(p.adds for p in products) == 1
    assert "tiles of" in str(run.explain())


@pytest.mark.parametrize("backend", BOTH)
def test_small_kernels_that_need_not_wait_run_side_by_side(backend):
    x, y = minitorch.tensor(numbers(6, 5)), minitorch.tensor(numbers(7, 3))

    def function(x, y):
        total = x.sum(0)
        return total, (y * 2).cumsum(1), y.amax(1), (x - total).sum(1), y.T @ y

    run = minitorch.compile(function, backend=backend)
    run(x, y)
    for a, b in zip(run(x + 1, y * 2), function(x + 1, y * 2), strict=True):
        assert_same(a, b)
    assert "kernels side by side" in str(run.explain())
    assert "own0.phase" in next(iter(run.cache.all())).runner.text()


LIBRARYS = ["ab,bc->ac", "ab,cb->ac", "ba,bc->ac", "ab,bc->ca", "xab,xbc->xac", "xab,xcb->axc", "abx,bxc->ac"]
OURS = ["xyab,xyb->xya", "axb,xcb->acx"]  # too few multiplications; a result with gaps between its neighbours


@pytest.mark.usefixtures("librarys")
@pytest.mark.parametrize("spec", LIBRARYS + OURS)
def test_large_products_are_a_librarys(spec):
    sizes = {"a": 90, "b": 80, "c": 96, "x": 4, "y": 3}
    shapes = [tuple(sizes[c] for c in part) for part in spec.partition("->")[0].split(",")]
    arrays = [minitorch.tensor(numbers(*shape)) for shape in shapes]
    run = minitorch.compile(lambda a, b: minitorch.einsum(spec, a, b), backend="gpu")
    run(*arrays)
    moved = [array + 0.5 for array in arrays]
    assert_same(run(*moved), minitorch.einsum(spec, *moved), spec)
    assert ("a library's" in str(run.explain())) == (spec in LIBRARYS)


SMALL = {
    "ab,bc->ac": ((50, 60), (60, 64)),
    "ab,cb->ac": ((60, 300), (33, 300)),  # (more sums than come at once, and not in whole tiles)
    "ba,bc->ac": ((150, 33), (150, 40)),
    "ab,bc->ca": ((17, 100), (100, 90)),
    "xab,xcb->axc": ((3, 33, 50), (3, 40, 50)),
    "abx,bxc->ac": ((40, 20, 5), (20, 5, 40)),
}


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("dtype", [minitorch.float32, minitorch.float64])
@pytest.mark.parametrize("spec", SMALL)
def test_small_products_go_by_tiles_with_what_follows_them(spec, dtype, backend):
    a, b = (minitorch.tensor(numbers(*shape)).to(dtype) for shape in SMALL[spec])

    def function(a, b):
        return minitorch.relu(minitorch.einsum(spec, a * 2, b) + 1)

    run = minitorch.compile(function, backend=backend)
    run(a, b)
    assert_same(run(a + 1, b), function(a + 1, b), spec, slack=4)
    assert "tiles of 16 by 16" in str(run.explain())


@pytest.mark.parametrize("backend", BOTH)
def test_a_small_step_is_five_kernels(backend):
    minitorch.manual_seed(0)
    layers = [minitorch.nn.Linear(20, 48), minitorch.nn.ReLU(), minitorch.nn.Linear(48, 10)]
    model, other = minitorch.nn.Sequential(*layers), minitorch.nn.Sequential(*copy.deepcopy(layers))
    x, y = minitorch.tensor(numbers(160, 20)), minitorch.tensor(np.arange(160) % 10)

    def step(model):
        loss = minitorch.nn.functional.cross_entropy(model(x), y)
        minitorch.optim.SGD(model.parameters(), lr=0.1).zero_grad()
        loss.backward()
        with minitorch.no_grad():
            for p in model.parameters():
                p.sub_(0.1 * p.grad)
        return loss

    run = minitorch.compile(step, backend=backend)
    for _ in range(3):
        assert_same(run(model), step(other), slack=4)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert_same(a.detach(), b.detach(), slack=4)
    (program,) = run.cache.all()
    assert len(program.runner.tasks) == 5


@pytest.mark.usefixtures("librarys")
def test_a_convolutions_windows_are_written_out_for_a_library():
    x, w = minitorch.tensor(numbers(8, 8, 16, 16)), minitorch.tensor(numbers(16, 8, 3, 3))

    def function(x, w):
        y = minitorch.nn.functional.conv2d(x, w, padding=1)
        return y, *minitorch.autograd.grad((y * y).sum(), [x, w])

    x.requires_grad, w.requires_grad = True, True
    run = minitorch.compile(function, backend="gpu")
    run(x, w)
    x, w = (x * 0.5).detach().requires_grad_(), (w + 0.1).detach().requires_grad_()
    for a, b in zip(run(x, w), function(x, w), strict=True):
        assert_same(a, b, slack=10)
    assert str(run.explain()).count("a library's") >= 2


@pytest.mark.usefixtures("librarys")
@pytest.mark.parametrize("backend", BOTH)
def test_rows_of_products_lie_apart_where_their_length_is_odd(backend):
    def function(x, w, y):
        scores = x @ w.T
        loss = minitorch.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), y)
        return loss, *minitorch.autograd.grad(loss, [x, w])

    y = minitorch.tensor(np.arange(40) * 7 % 301)
    run = minitorch.compile(function, backend=backend)
    for scale in (1.0, 0.5):
        x, w = (minitorch.tensor(scale * numbers(*s), requires_grad=True) for s in ((4, 10, 64), (301, 64)))
        for a, b in zip(run(x, w, y), function(x, w, y), strict=True):
            assert_same(a, b, slack=10)
    (program,) = run.cache.all()
    products = [t.kernel for t in program.runner.tasks if isinstance(t.kernel, LibraryProduct)]
    assert {max(each.c.apart, each.a.apart, each.b.apart) for each in products} == {304}


@pytest.mark.usefixtures("librarys")
def test_steps_are_measured_one_by_one():
    x, w = minitorch.tensor(numbers(100, 80)), minitorch.tensor(numbers(80, 90))
    run = minitorch.compile(lambda x, w: minitorch.linalg.det((x.exp() @ w)[:90]), backend="gpu")
    run(x, w)
    (program,) = run.cache.all()
    program.runner.measure([x.numpy(), w.numpy()], 3)
    steps = program.runner.report.steps
    assert {step.note for step in steps} >= {"NumPy", "a library's"}
    assert all(step.seconds > 0 and step.lines for step in steps)


@pytest.mark.parametrize("backend", BOTH)
def test_an_index_out_of_range_changes_nothing(backend):
    table = minitorch.tensor(numbers(5, 3))

    def step(index):
        with minitorch.no_grad():
            table.add_(table[index].sum(0))
        return table[index]

    run = minitorch.compile(step, backend=backend)
    run(minitorch.tensor([0, 1]))
    run(minitorch.tensor([4, 1]))
    before = table.numpy().copy()
    with pytest.raises(IndexError):
        run(minitorch.tensor([0, 5]))
    np.testing.assert_array_equal(table.numpy(), before)


@pytest.mark.parametrize("backend", BOTH)
def test_a_training_step(backend):
    def train(compile):
        minitorch.manual_seed(0)
        model = minitorch.nn.Sequential(
            minitorch.nn.Linear(9, 33), minitorch.nn.ReLU(), minitorch.nn.Linear(33, 4)
        )
        optimizer = minitorch.optim.AdamW(model.parameters(), lr=1e-2)

        def step(x, y):
            loss = minitorch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        step = compile(step)
        x, y = minitorch.tensor(numbers(20, 9)), minitorch.tensor(np.arange(20) % 4)
        losses = [step(x + i, y).item() for i in range(4)]
        return losses, [p.detach().numpy() for p in model.parameters()]

    losses, parameters = train(lambda step: minitorch.compile(step, backend=backend))
    expected, others = train(lambda step: step)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for a, b in zip(parameters, others, strict=True):
        assert_same(a, b, slack=10)


def awkward(dtype, *shape):
    """Numbers of which many are equal, and the first and last of a dtype; among floats nan, -0 and inf."""
    random = np.random.default_rng([11, *shape])
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        some = [np.nan, -0.0, 0.0, np.inf, -np.inf, 1.5, -1.5, 1e-3, np.finfo(dtype).max]
    else:
        some = [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1, 2, np.iinfo(dtype).max - 1]
    return random.choice(np.array(some, dtype), shape)


def ordered(x):
    values, places = x.sort(-1)
    highest, where = x.topk(min(3, x.shape[-1]))
    return values, places, x.sort(0)[0], x.argsort(0, descending=True), highest, where, x.kthvalue(2, 0)[1]


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("shape", [(5, 8), (130, 9), (2, 300), (2, 3, 40), (2, 5000)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int16, np.uint8, np.bool_])
def test_sorting(dtype, shape, backend):
    x, other = minitorch.tensor(awkward(dtype, *shape)), minitorch.tensor(awkward(dtype, *shape[::-1]))
    other = other.reshape(shape)
    run = minitorch.compile(ordered, backend=backend, fullgraph=True)
    run(x)
    for a, b in zip(run(other), ordered(other), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        np.testing.assert_array_equal(np.signbit(a.numpy() * 1.0), np.signbit(b.numpy() * 1.0))
    assert not any(program.runner.report.called_back for program in run.cache.all())


def sorted_with_gradients(x):
    values, _ = x.sort(1, descending=True)
    best, _ = x.topk(3)
    return values, *minitorch.autograd.grad((values * values.detach().cos()).sum() + best.sum(), [x])


@pytest.mark.parametrize(
    ("length", "most", "called"), [(1000, 0, False), (33000, 1 << 28, False), (5000, 0, True)]
)
def test_long_rows_are_merged_or_a_librarys_and_gradients_follow_the_order(length, most, called, monkeypatch):
    monkeypatch.setattr(sorting, "MOST_SCRATCH", most)
    x = minitorch.tensor(numbers(2, length), requires_grad=True)
    run = minitorch.compile(sorted_with_gradients, backend="gpu")
    run(x)
    for a, b in zip(run(x), sorted_with_gradients(x), strict=True):
        assert_same(a, b)
    assert any(bool(program.runner.report.called_back) for program in run.cache.all()) == called


def running(x):
    return x.cumsum(-1), x.cumprod(0), *x.cummax(-1), *x.cummin(0), x.logcumsumexp(-1)


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("shape", [(3, 64), (5, 100), (1, 5000), (300, 3), (2, 2, 2100), (2, 9000)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_running_results(dtype, shape, backend):
    x = 1 + 0.01 * numbers(*shape).astype(dtype)
    x.reshape(-1)[::7] *= -1
    x[0, ..., -3:] = np.nan
    x = minitorch.tensor(x)
    run = minitorch.compile(running, backend=backend, fullgraph=True)
    run(x)
    for a, b in zip(run(x * 1), running(x), strict=True):
        np.testing.assert_allclose(
            a.numpy(), b.numpy(), rtol=2e-4, atol=1e-4 if dtype == np.float32 else 1e-9
        )
    assert not any(program.runner.report.called_back for program in run.cache.all())


C_LIBRARY = {
    "sin": (minitorch.sin, math.sin),
    "cos": (minitorch.cos, math.cos),
    "tan": (minitorch.tan, math.tan),
    "fmod": (lambda x: minitorch.fmod(x, 0.7), lambda x: math.fmod(x, 0.7)),
    "remainder": (lambda x: minitorch.remainder(x, -3e-5), lambda x: np.remainder(x, -3e-5)),
}


@pytest.mark.parametrize("name", C_LIBRARY)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_a_c_library_would_be_called_for(name, dtype):
    function, exact = C_LIBRARY[name]
    random = np.random.default_rng(3)
    x = random.normal(size=200) * 10.0 ** random.uniform(-3, np.log10(np.finfo(dtype).max) - 2, 200)
    # Among them the number that is next to a multiple of π/2.
    x = np.array([*x, 2.0**20, -(2.0**20) - 1, 6381956970095103 * 2.0**797 if dtype == np.float64 else 1e22])
    x = x.astype(dtype)
    run = minitorch.compile(function, backend="gpu")
    for scale in (0.5, 0.25, 1.0):  # (the first calls are the function's own)
        found = run(minitorch.tensor(x * dtype(scale))).numpy()
    if name in ("fmod", "remainder"):
        expected = function(minitorch.tensor(x)).numpy()
    else:
        expected = np.array([exact(float(each)) for each in x])
    np.testing.assert_allclose(found, expected, rtol=16 * np.finfo(dtype).eps, atol=0)
    assert not any(program.runner.report.called_back for program in run.cache.all())


# --- the words themselves -----------------------------------------------------------------------------------


def reversal(with_barrier):
    """Every thread hands its number to the one across: through shared memory, with a barrier or without."""
    block = BlockWriter()
    e = block.e

    def hand_over():
        place = e.op("getelementptr i64, ptr %shared, i64 %thread")
        e.line(f"store i64 %thread, ptr {place}, align 8")

    def take():
        across = e.op("sub i64 31, %thread")
        there = e.op(f"getelementptr i64, ptr %shared, i64 {across}")
        number = e.op(f"load i64, ptr {there}, align 8")
        target = e.op("getelementptr i64, ptr %operand0, i64 %thread")
        e.line(f"store i64 {number}, ptr {target}, align 8")

    if with_barrier:
        with block.phase():
            hand_over()
        with block.phase():
            take()
    else:
        with block.phase():
            hand_over()
            take()
    return Kernel(block.items, ["out"], 1, 32, 8 * 32, e.externs)


def run_alone(kernel, device):
    out = device.empty((32,), np.int64)
    table = np.array([out.ctypes.data], np.int64)
    device.sequence([Launch(device.load([kernel])[0], kernel, [0])], table, table)()
    return out


@pytest.mark.parametrize("backwards", [False, True])
def test_a_missing_barrier_is_seen(backwards):
    device = Emulated(backwards)
    np.testing.assert_array_equal(run_alone(reversal(True), device), np.arange(32)[::-1])
    assert (run_alone(reversal(False), device) != np.arange(32)[::-1]).any()


def test_the_renderings_have_the_same_phases():
    kernel = reversal(True)
    assert gpu_text([kernel]).count("barrier0()") == 2  # declared, and once between two phases
    assert cpu_text(kernel).count("define internal void @phase") == 2


# --- PTX ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def programs():
    """The kernels of all functions above, as LLVM text."""
    texts = []
    for function in [*FUNCTIONS, lambda x, w: (ordered(x), running(x))]:
        x, w = (minitorch.tensor(numbers(*s), requires_grad=True) for s in ((7, 33), (33,)))
        run = minitorch.compile(function, backend="gpu")
        run(x, w)
        texts += [program.runner.text() for program in run.cache.all()]
    return texts


@pytest.mark.parametrize("processor", ["sm_80", "sm_90"])
def test_ptx(programs, processor):
    for text in programs:
        code = ptx(text, processor)
        assert f".target {processor}".encode() in code
        assert b".visible .entry kernel0" in code
        if assembler() is not None:
            made = assembled(text, processor)
            assert made is not None
            assert made.startswith(b"\x7fELF")


def test_what_the_assembler_does_not_know_is_left_to_the_driver(programs, monkeypatch):
    monkeypatch.setattr(machine_code, "assembler", lambda: shutil.which("false"))
    monkeypatch.setenv("MINITORCH_CACHE", "off")
    assert assembled(programs[0], "sm_90") is None
    monkeypatch.setattr(machine_code, "assembler", lambda: None)
    assert assembled(programs[0], "sm_90") is None


@pytest.mark.skipif(find_spec("cupy") is not None, reason="there may be a GPU")
def test_without_cupy_it_says_what_is_missing():
    with pytest.raises(ImportError, match="compiling for a GPU needs CuPy"):
        minitorch.compile(products, backend="cuda")(minitorch.ones(2, 2), minitorch.ones(2))


@pytest.mark.parametrize("backend", BOTH)
def test_kernels_of_one_block_run_in_turn(backend):
    def function(x):
        part = x.sum(1)
        return (part / part.amax(0)).cumsum(0).exp().sum()

    run = minitorch.compile(function, backend=backend)
    for scale in (1.0, 3.0):
        x = minitorch.tensor(scale * numbers(20, 30))
        assert_same(run(x), function(x), slack=10)
    (program,) = run.cache.all()
    (kernel,) = (task.kernel for task in program.runner.tasks if "one after the other" in task.kernel.note)
    assert b"bar.sync" in ptx(gpu_text([kernel]), "sm_80")


def test_a_factor_with_some_of_the_batches_is_not_read_beyond_its_end(librarys):
    x, w = minitorch.tensor(numbers(16, 2, 64, 32)), minitorch.tensor(numbers(2, 16, 32))
    function = lambda x, w: minitorch.einsum("ngux,gox->ngou", x, w)
    run = minitorch.compile(function, backend="gpu")
    run(x, w)
    assert_same(run(x, w), function(x, w), slack=10)
    assert "please report" not in str(run.explain())


@pytest.fixture
def small_ones_too(monkeypatch):
    """Convolutions are a library's however small they are."""
    monkeypatch.setattr(convolutions, "LEAST_CONVOLVED", 1)
    figures = dataclasses.replace(GPU_FIGURES, alone_from=1, is_small=lambda product: False)
    monkeypatch.setattr(CudaBackend, "machine", Gpu(figures))


@pytest.mark.parametrize("how", [{"padding": 1}, {"stride": 2, "padding": (2, 1)}, {"dilation": 2}], ids=str)
def test_convolutions_are_a_librarys(how, small_ones_too):
    x, w = (minitorch.tensor(numbers(*s), requires_grad=True) for s in [(8, 8, 12, 11), (12, 8, 3, 3)])

    def function(x, w):
        out = minitorch.nn.functional.conv2d(x * 2, w, **how)
        return out, *minitorch.autograd.grad((out * out.detach().cos()).sum(), [x, w])

    run = minitorch.compile(function, backend="gpu")
    run(x, w)
    for made, expected in zip(run(x, w), function(x, w), strict=True):
        assert_same(made, expected)
    assert len(library_convolutions(run)) == 3


def library_convolutions(run):
    (program,) = run.cache.all()
    return [task.kernel for task in program.runner.tasks if isinstance(task.kernel, LibraryConvolution)]


class Residual(minitorch.nn.Module):
    def __init__(self, channels, stride):
        super().__init__()
        nn = minitorch.nn
        self.first = nn.Conv2d(channels, channels, 3, padding=1, stride=stride, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.beside = nn.Conv2d(channels, channels, 1, stride=stride)
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)])

    def forward(self, x):
        inner = self.second(self.norms[0](self.first(x)).relu())
        return (self.norms[1](inner) + self.beside(x)).relu()


class Beside(minitorch.nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = (minitorch.nn.Conv2d(8, 8, 3, padding=1, stride=s) for s in (2, 1))
        self.last = minitorch.nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x):
        small = minitorch.nn.functional.interpolate(self.down(x).relu(), scale_factor=2)
        return self.last(minitorch.cat([self.up(x), small], 1))


def networks(nn):
    convolution = functools.partial(nn.Conv2d, kernel_size=3, padding=1)
    return {
        "residual": (16, lambda: nn.Sequential(Residual(8, 1), nn.MaxPool2d(2), Residual(8, 2))),
        "transposed": (
            5,
            lambda: nn.Sequential(convolution(8, 8), nn.ConvTranspose2d(8, 8, 3, stride=2), nn.ReLU()),
        ),
        "groups": (
            5,
            lambda: nn.Sequential(convolution(8, 8), convolution(8, 8, groups=2), nn.GroupNorm(2, 8)),
        ),
        "beside": (7, Beside),
        "flat": (
            5,
            lambda: nn.Sequential(convolution(8, 8), nn.AvgPool2d(2), convolution(8, 8), nn.Flatten()),
        ),
        "of one axis": (
            8,
            lambda: nn.Sequential(
                nn.Flatten(2),
                nn.Conv1d(8, 8, 3, padding=1),
                nn.BatchNorm1d(8),
                nn.ReLU(),
                nn.Conv1d(8, 16, 4, stride=2, groups=2),
                nn.ConvTranspose1d(16, 8, 3),
            ),
        ),
        "one image": (
            11,
            lambda: nn.Sequential(
                nn.Unflatten(0, (1, 2)),
                nn.Flatten(1, 2),
                nn.Conv2d(16, 8, (1, 3)),
                nn.ReLU(),
                nn.Conv2d(8, 8, (3, 1), groups=2),
                nn.Conv2d(8, 8, (10, 1)),
                nn.Conv2d(8, 16, 1),
            ),
        ),
        "of three axes": (
            8,
            lambda: nn.Sequential(
                nn.Unflatten(3, (3, 4)),
                nn.Conv3d(8, 8, 3, padding=1),
                nn.BatchNorm3d(8),
                nn.ReLU(),
                nn.Conv3d(8, 16, (3, 1, 3), dilation=(2, 1, 1), groups=2),
                nn.ConvTranspose3d(16, 8, 2),
            ),
        ),
    }


@pytest.mark.parametrize("name", networks(minitorch.nn))
def test_what_stands_around_convolutions_has_its_channels_last_too(name, small_ones_too):
    minitorch.manual_seed(0)
    count, make = networks(minitorch.nn)[name]
    model, x = make(), minitorch.tensor(numbers(2, 8, 12, 12))

    def step(model):
        for each in model.parameters():
            each.grad = None
        out = model(x)
        (out * out.detach().cos()).sum().backward()
        return out, [each.grad for each in model.parameters()]

    twin = copy.deepcopy(model)
    run = minitorch.compile(lambda: step(twin), backend="gpu")
    for _ in range(2):
        (out, gradients), (expected, others) = run(), step(model)
        assert_same(out, expected, name)
        for mine, other in zip(gradients, others, strict=True):
            assert_same(mine, other, name, slack=10, floor=1e-4)
    assert len(library_convolutions(run)) == count
    assert "please report" not in str(run.explain())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_convolutions_of_halves_are_a_librarys(dtype, small_ones_too):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    minitorch.manual_seed(0)
    nn = minitorch.nn
    model = nn.Sequential(
        nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.Tanh(), nn.Conv2d(8, 16, 3, groups=2)
    )
    x, slopes = minitorch.tensor(numbers(2, 8, 12, 12)), minitorch.tensor(numbers(2, 16, 10, 10))

    def step(model, dtype=dtype):
        with minitorch.autocast("cpu", dtype=getattr(minitorch, dtype), enabled=dtype != "float32"):
            out = model(x)
        out = out.float()
        loss = (out * slopes).sum()
        return out, *minitorch.autograd.grad(loss, list(model.parameters()))

    run = minitorch.compile(lambda: step(model), backend="gpu")
    exact = step(model, "float32")
    for _ in range(2):
        for mine, other in zip(run(), exact, strict=True):
            far = np.abs(mine.detach().numpy() - other.detach().numpy()).max()
            assert far <= (0.02 if dtype == "bfloat16" else 0.003) * np.abs(other.detach().numpy()).max()
    kinds = [each.dtype.name for each in library_convolutions(run)]
    assert kinds == [dtype] * 5


def test_one_kernel_brings_images_to_a_convolution_and_none_takes_results_back(small_ones_too):
    model, x = minitorch.nn.Conv2d(8, 8, 3, padding=1), minitorch.tensor(numbers(8, 8, 12, 12))

    def step():
        out = model(x)
        loss = (out * out).mean()
        return loss, *minitorch.autograd.grad(loss, list(model.parameters()))

    run = minitorch.compile(step, backend="gpu")
    run()
    for mine, other in zip(run(), step(), strict=True):
        assert_same(mine, other, slack=10)
    (program,) = run.cache.all()
    whole = [
        task
        for task in program.runner.tasks
        if sum(each.nbytes == 4 * x.numel() for each in task.touches) > 1
    ]
    assert len(whole) == 2 + 2  # the copy, the convolution; the loss with its gradient, the filters' gradient


@pytest.mark.parametrize("backend", ["numpy", "gpu"])
@pytest.mark.parametrize("length", [1, 70])
def test_places_in_sorted_sequences_are_one_kernel(length, backend):
    draw = np.random.default_rng(length)
    one, whole = (
        np.sort(draw.integers(0, 20, length)).astype(np.float32),
        np.sort(draw.integers(0, 9, length)),
    )
    one[length // 2 + 1 :] = np.nan
    rows = np.sort(draw.normal(size=(2, 3, length)), -1)
    values = np.array([-1.0, 3.0, 7.5, 19.0, 25.0, np.nan, np.inf, -np.inf], np.float32)
    given = [one, values, whole, draw.integers(-1, 10, (4, 5)), rows, draw.normal(size=(2, 3, 4))]

    def function(one, values, whole, numbers, rows, each):
        pairs = ((one, values), (whole, numbers), (whole, values), (rows, each))
        return [minitorch.searchsorted(*pair, right=right) for pair in pairs for right in (False, True)]

    given = [minitorch.tensor(array) for array in given]
    run = minitorch.compile(function, backend=backend)
    run(*given)
    for a, b in zip(run(*given), function(*given), strict=True):
        assert_same(a, b)
    if backend == "gpu":
        told = str(run.explain())
        assert "indices below" not in told
        assert "CuPy" not in told


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("shape", [(9, 7), (40, 7), (7, 40)])
def test_what_is_known_of_a_row_is_not_written_over_what_it_is_made_of(shape, backwards):
    """Each thread of a row computes it, and again in each pass."""
    for axis in (0, 1):
        x, r = given(shape, np.float64), given((shape[1 - axis],), np.float64)
        row = builder.map_values("add", r, builder.reduce("add", x, (axis,), False))
        wide = builder.expand(builder.reshape(row, (1, shape[1]) if axis == 0 else (shape[0], 1)), shape)
        y = builder.map_values("multiply", x, wide)
        total = builder.reduce("add", builder.map_values("multiply", y, y), (0, 1), False)
        program = Program(
            [x, r],
            [
                total,
                builder.map_values("divide", y, builder.expand(builder.reshape(total, (1, 1)), shape)),
                row,
            ],
        )
        arrays = [np.random.default_rng(i).normal(size=v.shape) for i, v in enumerate(program.inputs)]
        expected = interpret(program, [each.copy() for each in arrays])
        found = CudaBackend(Emulated(backwards)).compile(program, {2: 1})(arrays)
        for mine, other in zip((*found[:2], arrays[1]), expected, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-12)
