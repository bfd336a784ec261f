"""Random programs: eager = the program by NumPy = unfused = native. `pytest --hypothesis-profile=intense` for many.

One profile's worth of programs is drawn for machine code, a part of it for each other backend: a recording that is wrong
is wrong for all. `MINITORCH_PROGRAMS=20000` sets their number.
"""

import os
import warnings

import numpy as np
import pytest
from hypothesis import given, settings

import minitorch
from compile_programs import programs, run
from compiled import BACKENDS, RTOL, put_off_audits
from minitorch.compiler.call.compiled import Disagreement

many = int(os.environ.get("MINITORCH_PROGRAMS", "0"))
as_many = settings(max_examples=many) if many else (lambda test: test)
a_part = settings(max_examples=many or max(settings.default.max_examples * 3 // 8, 1))
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")


def eagerly(program, arrays, shake=None):
    tensors = [minitorch.tensor(a, requires_grad=True) for a in arrays]
    found = [x.numpy() for x in run(program, *tensors, shake=shake)]
    return found + [
        np.zeros(a.shape, a.dtype) if t.grad is None else t.grad for t, a in zip(tensors, arrays, strict=True)
    ]


def how_far(program, arrays, results):
    """How far each result moves when the inputs, and what each step computes, move by a few rounding errors.

    inf where it is another kind. (The steps too: many numbers have one tanh, or almost one. Which of these comes first
    in a sorted row is a matter of its last bit, whatever the inputs.)
    """
    moved = [np.zeros(r.shape) for r in results]
    for trial in range(8):
        rng = np.random.default_rng(trial)

        def noise(shape, dtype, rng=rng):
            return (1 + 8 * np.finfo(program.precision).eps * rng.uniform(-1, 1, shape)).astype(dtype)

        def shake(x, noise=noise):
            return x * minitorch.tensor(noise(x.shape, x.dtype))

        shaken = [a * noise(a.shape, a.dtype) for a in arrays]
        for i, (x, r) in enumerate(zip(eagerly(program, shaken, shake), results, strict=True)):
            if x.shape != r.shape:
                moved[i] = np.full(r.shape, np.inf)
                continue
            with np.errstate(all="ignore"):
                apart = np.abs(x.astype(np.float64) - r.astype(np.float64))
            # (nan became a number: such a place says nothing.)
            apart = np.where(
                (x == r) | (np.isnan(x) & np.isnan(r)), 0.0, np.where(np.isnan(apart), np.inf, apart)
            )
            moved[i] = np.maximum(moved[i], apart)
    return moved


def differences(program, results, expected, moved=None):
    """Which results differ by more than rounding, or than the inputs' rounding can do to a whole result."""
    wrong = []
    for i, (a, b) in enumerate(zip(results, expected, strict=True)):
        assert a.shape == b.shape, f"result {i}: shape {a.shape}, eager {b.shape}"
        assert a.dtype == b.dtype, f"result {i}: dtype {a.dtype}, eager {b.dtype}"
        if not a.size:
            continue
        with np.errstate(all="ignore"):
            fine = (a == b) | (np.isnan(a.astype(float)) & np.isnan(b.astype(float)))
            if b.dtype.kind == "f":
                scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
                rtol = 20 * RTOL[program.precision.itemsize]
                fine |= np.abs(a - b) <= rtol * (np.abs(b) + 0.1 * scale)
                # On the way back a product may meet 0·inf, which to some BLAS routines is 0.
                fine |= program.special and program.multiplies and (np.isnan(a) | np.isnan(b))
            if moved is not None:
                fine |= np.abs(a.astype(float) - b.astype(float)) <= 50 * float(moved[i].max(initial=0))
                fine |= ~np.isfinite(moved[i]).all()
        if not fine.all():
            wrong.append(i)
    return wrong


def check(program, backend, verify=False):
    compiled = minitorch.compile(run, backend=backend, verify=verify)
    for trial in (0, 1):  # recorded on the first numbers, run on both
        arrays = program.arrays(trial)
        expected = eagerly(program, arrays)
        for _ in range(2 if trial == 0 else 1):
            tensors = [minitorch.tensor(a, requires_grad=True) for a in arrays]
            found = [x.numpy() for x in compiled(program, *tensors)]
            found += [
                np.zeros(a.shape, a.dtype) if t.grad is None else t.grad
                for t, a in zip(tensors, arrays, strict=True)
            ]
            wrong = differences(program, found, expected)
            if wrong:
                wrong = differences(program, found, expected, how_far(program, arrays, expected))
            assert not wrong, (
                f"results {wrong} of {program}, trial {trial}: {backend} gives\n{found[wrong[0]]}\neager\n{expected[wrong[0]]}"
            )
            put_off_audits(compiled)
    assert compiled.compilations == 1, compiled.cache.reasons


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "native"])
@a_part
@given(program=programs())
def test_random_programs(program, backend):
    check(program, backend)


@pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")
@as_many
@given(program=programs())
def test_random_programs_in_machine_code(program):
    """And verification asks for no more than rounding allows: it would leave a right program unused."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", Disagreement)
        check(program, "native", verify=True)


# --- what once went wrong, each as small as it gets -------------------------------------------------------


def same(function, *arrays, backend="numpy", others=None):
    """Compile on some arrays, run on these and on others; results and gradients are eager's."""
    run_it = minitorch.compile(function, backend=backend)
    for numbers in (others or arrays, arrays, arrays):
        ours, theirs = (
            [minitorch.tensor(a, requires_grad=np.asarray(a).dtype.kind == "f") for a in numbers]
            for _ in range(2)
        )
        mine, other = run_it(*ours), function(*theirs)
        mine, other = ((r,) if isinstance(r, minitorch.Tensor) else r for r in (mine, other))
        for a, b in zip(mine, other, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)
        for results in (mine, other):
            chosen = [r for r in results if r.requires_grad]
            if chosen:
                minitorch.autograd.backward(chosen, [minitorch.ones_like(r) for r in chosen])
        for a, b in zip(ours, theirs, strict=True):
            assert (a.grad is None) == (b.grad is None)
            if b.grad is not None:
                np.testing.assert_allclose(a.grad, b.grad, rtol=1e-6)
    assert run_it.compilations == 1


X = np.linspace(-1.0, 1.5, 12).reshape(3, 4)
regression = pytest.mark.parametrize("backend", BACKENDS)


@regression
def test_gradients_of_the_first_call_go_through_an_index_that_was_recorded(backend):
    same(lambda x, i: x[i] * 2, X, np.array([2, 0, 0]), backend=backend)


@regression
def test_results_of_one_call_are_kept_one_by_one_for_the_way_back(backend):
    def function(x):
        u, s, v = minitorch.linalg.svd(x, full_matrices=False)
        return (u * s[..., None, :]) @ v, s

    same(function, X[:, :3] + np.eye(3), backend=backend)


@regression
def test_a_mask_without_axes_is_written_through(backend):
    def function(x):
        t = x.detach().clone()
        t[t < 0.5] = 0.1
        return t

    same(function, np.array(0.3), backend=backend, others=[np.array(0.7)])


@regression
def test_a_stretched_view_shows_what_is_written_later(backend):
    def function(x):
        t = x.detach().clone()
        wide, windows, diagonal = t.unsqueeze(0).expand(2, 3, 4), t.unfold(1, 2, 1), t.diagonal()
        t.mul_(2)
        return wide + 1, windows + 1, diagonal + 1

    same(function, X, backend=backend)


@regression
def test_windows_and_diagonals_of_a_number_without_axes_are_views(backend):
    for function in (
        lambda x: x[..., None].unfold(0, 1, 1).detach(),
        lambda x: x[None, None].diagonal().detach(),
    ):
        same(function, np.array(0.3), backend=backend)


@regression
def test_a_view_by_an_index_that_is_a_tensor_is_a_view(backend):
    def function(x, i):
        t = x.detach().clone()
        row = t[i]
        row.add_(1)
        return t + 0

    same(function, X, np.array(1), backend=backend, others=[X, np.array(2)])


@regression
def test_a_slice_written_in_place_is_written_once(backend):
    def function(x):
        t = x.detach().clone()
        t[1:, ::2] += 1
        t[:, -1] *= t[:, 0]
        return t

    same(function, X, backend=backend)


@regression
def test_a_view_of_a_copy_laid_out_otherwise_stays_a_copy(backend):
    def function(x):
        t = x.detach().T.clone()
        t.T.add_(x.detach())
        flat = t.reshape(-1)
        flat[0] = 5.0
        return t + 0

    same(function, X, backend=backend)


@regression
@pytest.mark.parametrize("spec", ["ii->i", "ii->", "iij->j", "iji->ij"])
def test_einsum_with_an_index_twice_in_one_operand(spec, backend):
    shape = {"ii->i": (3, 3), "ii->": (3, 3), "iij->j": (2, 2, 3), "iji->ij": (2, 3, 2)}[spec]
    same(
        lambda x: minitorch.einsum(spec, x),
        np.arange(np.prod(shape), dtype=float).reshape(shape),
        backend=backend,
    )


@regression
def test_einsum_of_integers(backend):
    same(
        lambda x, y: minitorch.einsum("ij,kj->ik", x, y),
        np.arange(6).reshape(2, 3),
        np.arange(9).reshape(3, 3),
        backend=backend,
    )


@regression
def test_sorting_what_was_added_into_places(backend):
    def function(x, i):
        y = minitorch.index_add(x, 1, i, x.index_select(1, i), alpha=0.5)
        return y, minitorch.take_along_dim(y, minitorch.argsort(y, dim=1), dim=1)

    same(function, X.astype(np.float32), np.array([0, 2, 0]), backend=backend)


@regression
def test_extremes_that_ignore_nan(backend):
    x, y = np.array([np.nan, 1.0, np.nan, np.inf, 2.0]), np.array([2.0, np.nan, np.nan, np.inf, 3.0])
    functions = [
        getattr(minitorch, n) for n in ("fmax", "fmin", "logaddexp2", "deg2rad") if hasattr(minitorch, n)
    ]

    def function(x, y):
        return [f(x, y) if f.__name__ != "deg2rad" else f(x) for f in functions]

    run_it = minitorch.compile(function, backend=backend)
    for _ in range(2):
        for a, b in zip(
            run_it(minitorch.tensor(x), minitorch.tensor(y)),
            function(minitorch.tensor(x), minitorch.tensor(y)),
            strict=True,
        ):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


@regression
def test_whole_numbers_and_infinities_survive(backend):
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0])
    same(
        lambda x: (minitorch.maximum(x, x * 0), x.amax(), minitorch.relu(x), minitorch.sort(x).values),
        special,
        backend=backend,
    )


@regression
def test_arrays_without_elements_and_without_axes(backend):
    empty = np.zeros((0, 3))
    same(lambda x: (x.sum(0), x * 2, x.T @ x, minitorch.cat([x, x]), x.prod()), empty, backend=backend)
    same(
        lambda x: (x.sum(), x * 2, x.reshape(1), x[None], minitorch.softmax(x[None], 0)),
        np.array(0.3),
        backend=backend,
    )


@regression
def test_rows_that_passes_keep_for_one_another_do_not_touch(backend):
    def function(x):  # 4 rows of 10: the last vector of one reaches beyond its end
        y = minitorch.pad(x, (0, 2), value=0.25)
        a, b = minitorch.tanh(y), minitorch.cos(y)
        return a * (a * b).sum() + b

    same(function, np.linspace(-1.0, 1.5, 32).reshape(4, 8), backend=backend)


@regression
def test_a_view_written_out_for_a_later_reader_is_not_there_for_earlier_ones(backend):
    def function(x):
        y = minitorch.exp(x.detach())
        shifted = minitorch.pad(y[1:], (0, 1))
        total = y.sum() + minitorch.tanh(shifted).sum()
        return total, shifted.index_select(0, minitorch.tensor([2, 0, 0])), y * total

    same(function, X[0], backend=backend)


@regression
@pytest.mark.parametrize("shape", [(1,), (4,), (3, 1), (3, 40), (40, 3), (1, 1)])
def test_a_sum_is_never_minus_zero(shape, backend):
    x = np.full(shape, -0.0)
    run_it = minitorch.compile(
        lambda x: (x.sum(-1), x.sum(0), x.sum(), minitorch.cumsum(x, 0)), backend=backend
    )
    for _ in range(2):
        *sums, running = run_it(minitorch.tensor(x))
        assert not any(np.signbit(s.numpy()).any() for s in sums)
        assert np.signbit(running.numpy()).all()


def test_memory_of_an_outside_array_is_not_written_by_copies():
    given = np.ones(3)

    def function(x):
        t = minitorch.tensor(given) * 1.0
        t.add_(x.detach())
        return t

    same(function, np.arange(3.0))
    np.testing.assert_array_equal(given, 1)


@regression
def test_picking_a_minus_zero_from_a_row(backend):
    def function(x, i):
        picked = minitorch.gather(x, 1, i)
        return picked, minitorch.atan2(picked, -minitorch.ones_like(picked))

    same(function, np.array([[-0.0, 1.0], [0.0, 2.0]], np.float32), np.array([[0], [0]]), backend=backend)


@regression
def test_rows_of_a_computed_array_in_another_shape_picked_by_a_matrix_of_indices(backend):
    """Where the operand's elements lie says nothing about where those of the larger result do."""
    places = np.arange(50)[::-1].reshape(10, 5)
    same(lambda x, i: (x * 2).reshape(50, 4, 30)[i], np.ones((200, 30)), places, backend=backend)


def test_a_program_that_cannot_be_fused_is_compiled_without(monkeypatch):
    pytest.importorskip("llvmlite")
    from minitorch.compiler.schedule import schedule
    from minitorch.compiler.schedule.groups import Contradiction

    order = schedule.in_running_order

    def contradict_when_fused(fuser, kept):
        if fuser.fuse:
            raise Contradiction("groups wait for each other")
        return order(fuser, kept)

    monkeypatch.setattr(schedule, "in_running_order", contradict_when_fused)
    f = minitorch.compile(lambda x: (x * 2 + 1).sum())
    x = minitorch.tensor([1.0, 2.0])
    assert f(x).item() == f(x).item() == 8.0
    assert f.compilations == 1
    assert "fusing the program failed (groups wait for each other)" in str(f.explain())
