"""Lazy execution: ordinary Tensor code, recorded and computed when a number is asked for; equal to eager."""

import copy
import gc
import io
import pickle
import signal
import threading
import weakref
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings

import minitorch as mt
from compile_programs import programs
from compile_programs import run as run_program
from compiled import BACKENDS
from lazy_programs import assert_same, run
from minitorch import nn, optim
from minitorch.compiler.call import lazy_recording
from minitorch.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")
NATIVE = "native" if "native" in BACKENDS else "numpy"
every_backend = pytest.mark.parametrize("backend", sorted({"numpy", NATIVE}))


@pytest.fixture(params=sorted({"numpy", NATIVE}))
def session(request):
    with mt.lazy(backend=request.param) as session:
        yield session


def numbers(shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


# --- random programs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_programs_that_look_write_and_alias_equal_eager(first):
    for seed in range(first, first + 25):
        eager = run(seed, 18)
        with mt.lazy(backend="numpy"):
            lazily = run(seed, 18)
        assert_same(lazily, eager, f"seed {seed}")


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_such_programs_natively(seed):
    eager = run(seed, 15)
    with mt.lazy(backend=NATIVE):
        lazily = run(seed, 15)
    assert_same(lazily, eager, f"seed {seed}")


@settings(max_examples=60, deadline=None)
@given(programs(max_steps=25))
def test_programs_of_every_primitive_equal_eager(program):
    def results():
        tensors = [mt.tensor(a, requires_grad=True) for a in program.arrays(0)]
        found = run_program(program, *tensors)
        return [x.numpy().copy() for x in found] + [
            None if t.grad is None else t.grad.copy() for t in tensors
        ]

    eager = results()
    with mt.lazy(backend="numpy"):
        lazily = results()
    for a, b in zip(lazily, eager, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            if b.dtype.kind == "f" and not program.special:
                scale = float(np.abs(b).max(initial=1.0))
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * scale)


# --- training ---------------------------------------------------------------------------------------------------

MODELS = {
    "mlp": lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3), nn.LayerNorm(16), nn.Linear(16, 4)),
    "batch norm": lambda: nn.Sequential(nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 4)),
    "cnn": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 4)), nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 4)
    ),
}  # fmt: skip
OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3),
    "Adam": lambda p: optim.Adam(p, lr=0.01),
    "AdamW": lambda p: optim.AdamW(p, lr=0.01),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01),
}


def train(model, optimizer, backend=None, rounds=6):
    """Return losses, parameters and state, and after each round how many programs had run and were compiled."""
    mt.manual_seed(0)
    model = MODELS[model]()
    optimizer = OPTIMIZERS[optimizer](model.parameters())
    schedule = optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    losses, counts = [], []
    with nullcontext() if backend is None else mt.lazy(backend=backend) as session:
        for i in range(rounds):
            x, y = mt.tensor(numbers((6, 8), i)), mt.tensor(np.random.default_rng(i).integers(0, 4, 6))
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            if session is not None:
                counts.append((session.programs, session.compilations))
    left = [p.detach().numpy().copy() for p in (*model.parameters(), *model.buffers())]
    state = [
        v.numpy().copy() for s in optimizer.state.values() for v in s.values() if isinstance(v, mt.Tensor)
    ]
    return losses, left, state, mt.rand(3).tolist(), counts


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_training_loop_gives_eagers_numbers_by_one_program(model, optimizer):
    losses, left, state, stream, _ = train(model, optimizer)
    found = train(model, optimizer, "numpy")
    np.testing.assert_allclose(found[0], losses, rtol=1e-5)
    for a, b in zip(found[1] + found[2], left + state, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert found[3] == stream
    # One program a round, and what the first has compiled serves all others: rates and step counts are inputs.
    assert [programs for programs, _ in found[4]] == [1, 2, 3, 4, 5, 6]
    assert len({compilations for _, compilations in found[4]}) == 1


def test_a_training_loop_natively():
    losses, left, state, stream, _ = train("mlp", "Adam")
    found = train("mlp", "Adam", NATIVE)
    np.testing.assert_allclose(found[0], losses, rtol=1e-5)
    for a, b in zip(found[1] + found[2], left + state, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert found[3] == stream
    assert found[4][-1][0] == 6
    assert found[4][-1][1] <= 1


def test_where_nobody_looks_two_steps_are_one_program():
    w = mt.tensor(numbers(4), requires_grad=True)
    optimizer = optim.Adam([w], lr=0.1)
    with mt.lazy(backend="numpy") as session:
        counts = []
        for _ in range(6):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
            counts.append(session.programs)
    assert counts == [0, 1, 1, 2, 2, 3]


# --- when it is computed --------------------------------------------------------------------------------------

ASKING = {
    "item": lambda x: x.sum().item(), "print": repr, "format": lambda x: f"{x.sum():.3f}", "float": lambda x: float(x[0]),
    "tolist": lambda x: x.tolist(), "numpy": lambda x: x.numpy(), "data": lambda x: x.data, "bool": lambda x: bool(x.sum() > 0),
    "asarray": np.asarray, "nonzero": lambda x: x.nonzero(), "mask": lambda x: x[x > 0], "data_ptr": lambda x: x.data_ptr(),
    "pickle": pickle.dumps, "dlpack": lambda x: np.from_dlpack(x), "equal": lambda x: x.equal(x), "unique": mt.unique,
    "save": lambda x: mt.save({"x": x}, io.BytesIO()), "int": lambda x: int(x.sum()), "index": lambda x: [0, 1][(x.sum() > 9).long()],
}  # fmt: skip


@pytest.mark.parametrize("way", ASKING)
def test_whoever_asks_for_a_number_gets_it(way):
    x = mt.tensor(numbers(5))
    with mt.lazy(backend="numpy") as session:
        y = x * 2 + 1
        assert session.programs == 0
        ASKING[way](y)
        assert session.programs >= 1
        np.testing.assert_allclose(y.numpy(), x.numpy() * 2 + 1)


def test_nothing_is_computed_before_and_all_at_the_end():
    x = mt.tensor(numbers((3, 4)), requires_grad=True)
    with mt.lazy(backend="numpy") as session:
        loss = (x.exp() * 2).sum()
        loss.backward()
        y = x.detach().T[0] + 1
        assert (y.shape, y.dtype, loss.requires_grad, session.programs) == ((3,), np.float32, True, 0)
    assert session.programs == 1
    assert type(loss._array) is type(y._array) is type(x._gradient) is np.ndarray
    np.testing.assert_allclose(x.grad, 2 * np.exp(x.data), rtol=1e-6)


def test_what_nobody_holds_is_not_computed():
    x = mt.tensor(numbers(4))
    with mt.lazy(backend="numpy") as session:
        for _ in range(5):
            y = x.exp().log() + 1
            del y
        assert session.programs == 0
    assert session.programs == 0


def test_memory_of_what_is_let_go_is_freed():
    x = mt.tensor(numbers(4))
    with mt.lazy(backend="numpy"):
        y = x * 2
        z = y + 1
        handle = weakref.ref(y._data)
        del y
        assert handle() is None
        assert z.sum().item() == pytest.approx(float((x.data * 2 + 1).sum()))


def test_a_chain_without_an_end_is_computed_in_pieces(monkeypatch):
    monkeypatch.setattr(lazy_recording, "MOST_PENDING", 100)
    x = y = mt.tensor(numbers(3))
    with mt.lazy(backend="numpy") as session:
        for _ in range(500):
            x = x * 0.99 + 0.01
        assert session.programs >= 8
        assert session.compilations <= 4
    for _ in range(500):
        y = y * 0.99 + 0.01
    np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-5)


def test_numbers_that_change_do_not_make_new_programs():
    x = mt.tensor(numbers(5))
    with mt.lazy(backend="numpy") as session:
        for i in range(8):
            assert (x * i + 0.1 * i).sum().item() == pytest.approx(
                float((x.data * i + 0.1 * i).sum()), abs=1e-4
            )
        assert session.compilations <= 4  # the first, and one for each number that turned out to change
        for i in range(20, 40):
            (x * i + 0.1 * i).sum().item()
        assert session.compilations <= 4


def test_new_arrays_are_new_inputs(session):
    for i in range(4):
        x = mt.tensor(numbers((3, 3), i))
        y = (x @ x).tanh().sum(0)
        np.testing.assert_allclose(y.numpy(), np.tanh(x.data @ x.data).sum(0), rtol=1e-5, atol=1e-6)
    assert session.compilations <= 1


# --- errors -----------------------------------------------------------------------------------------------------

WRONG = {
    "shapes": lambda: mt.ones(3) + mt.ones(4), "matmul": lambda: mt.ones(2, 3) @ mt.ones(2, 3), "index": lambda: mt.ones(3)[7],
    "reshape": lambda: mt.ones(6).reshape(4, 2), "axis": lambda: mt.ones(3).sum(2), "cat": lambda: mt.cat([mt.ones(2, 3), mt.ones(3, 2)]),
    "indices": lambda: mt.ones(3)[mt.tensor([0, 9])], "label": lambda: F.cross_entropy(mt.ones(2, 3), mt.tensor([0, 5])),
    "write": lambda: mt.ones(3).copy_(mt.ones(4)), "leaf": lambda: mt.ones(3, requires_grad=True).add_(1), "max": lambda: mt.ones(0).max(),
    "dtype": lambda: mt.ones(3, dtype=mt.int64).mean(), "backward": lambda: mt.ones(3, requires_grad=True).exp().backward(),
    "einsum": lambda: mt.einsum("ij,jk->ik", mt.ones(2, 3), mt.ones(2, 3)), "gather": lambda: mt.ones(2, 2).gather(1, mt.tensor([[5]])),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_errors_come_at_their_line_and_in_eagers_words(what):
    with pytest.raises((RuntimeError, IndexError, ValueError)) as eager:
        WRONG[what]()
    with mt.lazy(backend="numpy"):
        pending = mt.ones(3) * 2
        with pytest.raises(type(eager.value)) as lazily:
            WRONG[what]()
        assert str(lazily.value) == str(eager.value)
        assert (pending + 1).tolist() == [3, 3, 3]


def test_an_exception_leaves_what_is_pending_computable():
    x = mt.tensor(numbers(3), requires_grad=True)
    with pytest.raises(KeyError), mt.lazy(backend="numpy"):
        y = x * 3
        y.sum().backward()
        raise KeyError
    np.testing.assert_allclose(y.detach().numpy(), x.data * 3, rtol=1e-6)
    np.testing.assert_allclose(x.grad, [3, 3, 3])
    assert not mt.is_lazy()


def test_what_fails_when_it_is_computed_is_told_and_the_rest_is_there():
    x = mt.tensor(numbers(3))
    with mt.lazy(backend="numpy"):
        places = (mt.arange(3) * 5).clone() + mt.zeros(3, dtype=mt.int64)
        wrong, right = x[places] * 2, x * 2
        np.testing.assert_allclose(right.numpy(), x.data * 2)
        with pytest.raises(IndexError):
            wrong.sum().item()
        with pytest.raises(IndexError):
            (wrong + right).tolist()
        del wrong
    np.testing.assert_allclose(right.numpy(), x.data * 2)
    with pytest.raises(IndexError), mt.lazy(backend="numpy"):
        wrong = x[places.clone() + 0] + 1
        assert wrong.shape == (3,)


def test_an_interrupt_leaves_things_computable():
    x = mt.tensor(numbers(4))
    w = mt.tensor(numbers(4, 1))
    before = w.numpy().copy()
    compute = lazy_recording.ProgramsByStructure.prepared

    def interrupted(self, pattern):
        run, *rest = compute(self, pattern)

        def once():
            signal.raise_signal(signal.SIGINT)
            return run()

        return once, *rest

    with pytest.raises(KeyboardInterrupt), mt.lazy(backend="numpy"):
        y = x * 2
        w.add_(1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lazy_recording.ProgramsByStructure, "prepared", interrupted)
            y.sum().item()
    np.testing.assert_allclose(y.numpy(), x.numpy() * 2)
    np.testing.assert_allclose(w.numpy(), before + 1)


# --- memory -----------------------------------------------------------------------------------------------------


def test_parameters_keep_their_memory(session):
    w = mt.tensor(numbers(3), requires_grad=True)
    array, address = w._array, w.data_ptr()
    optimizer = optim.SGD([w], lr=0.5)
    for _ in range(2):
        (w * w).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    w.detach().sum().item()
    assert w._array is array
    assert w.data_ptr() == address


def test_writing_is_seen_from_numpy_at_once_and_the_other_way_round(session):
    array = numbers(4)
    x = mt.from_numpy(array)
    expected = array * 2
    y = x * 2
    array[0] = 9
    np.testing.assert_allclose(y.numpy(), expected)
    assert (x + 0).tolist()[0] == 9
    held = x.data
    x.mul_(3)
    np.testing.assert_allclose(held, array)
    assert array[0] == 27


def test_views_share_memory_as_eager_ones_do(session):
    x = mt.tensor(numbers((3, 4)))
    expected = x.numpy() * 2
    y = x * 2
    row, turned = y[1], y.T
    row.mul_(10)
    expected[1] *= 10
    np.testing.assert_allclose(turned.numpy(), expected.T)
    turned[0].zero_()
    expected[:, 0] = 0
    np.testing.assert_allclose(y.numpy(), expected)
    assert np.shares_memory(y.data, row.data)
    y.data[...] = 5
    assert (row + 0).tolist() == [5] * 4


def test_views_by_memory_follow_and_are_written_through():
    def program():
        y = mt.arange(24.0).view(4, 6) * 2
        part, turned, diagonal = y[1:, 2:], mt.einsum("ij->ji", y), mt.einsum("ii->i", y[:, :4])
        steps = [
            y.as_strided((2, 2), (3, 1), 1),
            y.t().as_strided((2, 3), (6, 1)),
            part.as_strided((2,), (6,), 3),
        ]
        views = [part, turned, diagonal, *steps]
        y.add_(1)
        found = [v * 1 for v in views]
        for i, view in enumerate(views):
            view.mul_(i + 2)
        return [*found, y, *views]

    eager = program()
    for backend in sorted({"numpy", NATIVE}):
        with mt.lazy(backend=backend):
            lazily = program()
        assert [t.tolist() for t in lazily] == [t.tolist() for t in eager]


def test_a_view_that_is_written_into_is_taken_anew(session):
    number = mt.tensor(0.5)
    piece = number[...]
    piece.mul_(0.5)
    piece += 0.125
    assert (number.item(), piece.item()) == (0.375, 0.375)
    row = mt.ones(2, 3)[0]
    held = row.data
    row.add_(1)
    row.mul_(2)
    assert held.tolist() == row.tolist() == [4, 4, 4]


def test_views_from_before_see_what_is_written(session):
    base = mt.zeros(2, 3)
    with mt.lazy(False):
        row = base[0]
    base.add_(1)
    assert row.tolist() == [1, 1, 1]
    row.add_(1)
    assert (base * 1).tolist() == [[2, 2, 2], [1, 1, 1]]


def test_a_gradient_that_is_held_is_added_to_in_place(session):
    w = mt.tensor(numbers(3), requires_grad=True)
    (w * 2).sum().backward()
    held = w.grad
    (w * 3).sum().backward()
    assert w.grad.tolist() == [5, 5, 5]
    assert held.tolist() == [5, 5, 5]


# --- what else there is -----------------------------------------------------------------------------------------


def test_second_derivatives_hooks_and_retained_graphs(session):
    x = mt.tensor(numbers(3), requires_grad=True)
    seen = []
    y = x**3
    handle = y.register_hook(lambda g: seen.append(g.shape) or g * 2)
    (g,) = mt.autograd.grad(y.sum(), x, create_graph=True)
    handle.remove()
    (g * g).sum().backward(retain_graph=True)
    (g * g).sum().backward()
    assert seen == [(3,)]
    np.testing.assert_allclose(x.grad, 2 * 2 * 36 * 2 * x.data**3, rtol=1e-5)


def test_functions_and_ops_of_ones_own(session):
    class Double(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 + x * 0

    cube = mt.op(lambda g, out, x: g * 3 * x**2)(lambda x: x**3)
    x = mt.tensor(numbers(3), requires_grad=True)
    (Double.apply(x) + cube(x)).sum().backward()
    np.testing.assert_allclose(x.grad, 2 + 3 * x.data**2, rtol=1e-5)


def test_modes_and_flags(session):
    x = mt.tensor(numbers(3), requires_grad=True)
    with mt.no_grad():
        y = x * 2
    assert not y.requires_grad
    y.requires_grad_()
    (y * x.detach()).sum().backward()
    np.testing.assert_allclose(y.grad, x.data)
    assert x.grad is None
    assert copy.deepcopy(y).tolist() == y.tolist()


def test_draws_keep_the_order_of_the_program(session):
    mt.manual_seed(3)
    a, b = mt.rand(4), F.dropout(mt.ones(6), 0.5)
    c = mt.randn(3)
    state = mt.rand(2).tolist()
    with mt.lazy(False):
        mt.manual_seed(3)
        expected = mt.rand(4), F.dropout(mt.ones(6), 0.5), mt.randn(3)
        assert mt.rand(2).tolist() == state
    for mine, other in zip((c, b, a), expected[::-1], strict=True):
        np.testing.assert_array_equal(mine.numpy(), other.numpy())


def test_a_block_inside_another_and_off_inside_on():
    x = mt.tensor(numbers(3))
    assert not mt.is_lazy()
    with mt.lazy(backend="numpy") as outer:
        y = x + 1
        with mt.lazy() as inner:
            assert inner is outer
            z = y * 2
        assert outer.programs == 0
        with mt.lazy(False):
            assert not mt.is_lazy()
            w = z + 1
            assert type(w._array) is np.ndarray
        assert mt.is_lazy()
        v = w + z
    assert not mt.is_lazy()
    np.testing.assert_allclose(v.numpy(), (x.numpy() + 1) * 4 + 1, rtol=1e-6)


def test_as_a_decorator_and_as_a_setting():
    @mt.lazy(backend="numpy")
    def double(x):
        assert mt.is_lazy()
        return x * 2

    @mt.lazy
    def triple(x):
        return x * 3

    x = mt.tensor(numbers(3))
    assert type(double(x)._array) is np.ndarray
    np.testing.assert_allclose(triple(x).numpy(), x.numpy() * 3)
    mt.set_lazy(True, backend="numpy")
    try:
        assert mt.is_lazy()
        y = x - 1
        assert type(y._array) is not np.ndarray
    finally:
        mt.set_lazy(False)
    assert not mt.is_lazy()
    assert type(y._array) is np.ndarray
    mt.set_lazy(False)
    with pytest.raises(ValueError, match="backend must be one of"):
        mt.lazy(backend="abacus")


def test_a_compiled_function_inside():
    @mt.compile(backend="numpy")
    def step(x):
        return (x * x).sum()

    w = mt.tensor(numbers(3), requires_grad=True)
    with mt.lazy(backend="numpy") as session:
        y = w * 2
        loss = step(y)
        assert session.programs == 1  # what it is given is computed first
        loss.backward()
        assert mt.is_lazy()
    np.testing.assert_allclose(w.grad, 8 * w.data, rtol=1e-5)
    assert step.compilations == 1


def test_inside_a_compiled_function_it_has_no_effect():
    def step(x):
        with mt.lazy():
            return x * 2 + 1

    x = mt.tensor(numbers(3))
    compiled = mt.compile(step, backend="numpy")
    for _ in range(3):
        np.testing.assert_allclose(compiled(x).numpy(), x.numpy() * 2 + 1)


def test_other_threads_see_numbers():
    x = mt.tensor(numbers(3))
    found = []
    with mt.lazy(backend="numpy") as session:
        y = x * 2

        def elsewhere():
            found.append(mt.is_lazy())
            found.append((y + 1).tolist())
            x.add_(1)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert session.programs == 1
    assert found[0] is False
    np.testing.assert_allclose(found[1], y.numpy() + 1, rtol=1e-6)
    np.testing.assert_allclose(y.numpy(), (x.numpy() - 1) * 2, rtol=1e-5, atol=1e-6)


def test_lazy_threads_do_not_disturb_each_other():
    results = {}

    def work(seed):
        with mt.lazy(backend="numpy"):
            x = mt.tensor(numbers((4, 4), seed), requires_grad=True)
            for _ in range(5):
                (x @ x).tanh().sum().backward()
            results[seed] = x.grad.copy()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(4):
        x = mt.tensor(numbers((4, 4), seed), requires_grad=True)
        for _ in range(5):
            (x @ x).tanh().sum().backward()
        np.testing.assert_allclose(results[seed], x.grad, rtol=1e-4, atol=1e-5)


def test_nothing_is_left_behind():
    x = mt.tensor(numbers(3), requires_grad=True)
    with mt.lazy(backend="numpy") as session:
        (x * 2).sum().backward()
    reference = weakref.ref(session)
    del session
    gc.collect()
    assert reference() is None
    assert mt.engine.recording.recordings == []
    assert (x + 1)._array.__class__ is np.ndarray


def test_explaining(session):
    x = mt.tensor(numbers((4, 4)))
    ((x * 2).tanh() + x.nonzero().sum()).sum().item()
    told = session.explain()
    assert "arrays recorded" in told
    assert "program 1" in told
    assert "computed at once 1×: nonzero" in told
    assert repr(session).startswith("<lazy:")
