"""Arrays changed between forward and backward: noticed where a derivative needs them, and only there."""

import functools
import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minitorch
from minitorch import Tensor, autograd
from minitorch.engine import watch
from pytorch import torch
from tensors import leaf


def refuses():
    return pytest.raises(RuntimeError, match="changed after")


# --- every way to change an array is noticed ----------------------------------------------------


def write_element(x):
    x.data[0] = 50.0


def add_in_place(x):
    x.data += 1.0


def replace_data(x):
    x.data = np.array([9.0, 9.0, 9.0])


def through_detach_numpy(x):
    x.detach().numpy()[1] = 50.0


def through_asarray(x):
    np.asarray(x.detach())[1] = 50.0


def through_numpy_dlpack(x):
    np.from_dlpack(x.detach())[1] = 50.0


def through_torch_dlpack(x):
    torch.from_dlpack(x.detach())[1] = 50.0


def through_memoryview(x):
    memoryview(x.data)[0] = 50.0


def set_item(x):
    with minitorch.no_grad():
        x[0] = 50.0


def add_underscore(x):
    with minitorch.no_grad():
        x.add_(1.0)


def iadd(x):
    with minitorch.no_grad():
        x += 1.0


def zero_underscore(x):
    with minitorch.no_grad():
        x.zero_()


def copy_underscore(x):
    with minitorch.no_grad():
        x.copy_(Tensor([7.0, 7.0, 7.0]))


def detached_set_item(x):
    x.detach()[0] = 50.0


def through_a_view(x):
    x.detach()[1:][0] = 50.0


def through_a_reshaped_view(x):
    x.reshape(3, 1).data[2, 0] = 50.0


def through_a_numpy_view(x):
    x.data.reshape(3, 1)[1:][0] = 50.0


def permute_values(x):
    x.data[:] = x.data[::-1].copy()


def swap_two(x):
    x.data[[0, 1]] = x.data[[1, 0]]


def smallest_step(x):
    x.data[0] = np.nextafter(x.data[0], 10.0)


def to_nan(x):
    x.data[0] = np.nan


def sign_of_zero(x):
    x.data[:] = x.data * 1.0
    x.data[2] = 8.0


WRITES = [
    write_element, add_in_place, replace_data, through_detach_numpy, through_asarray, through_numpy_dlpack,
    through_torch_dlpack, through_memoryview, set_item, add_underscore, iadd, zero_underscore, copy_underscore,
    detached_set_item, through_a_view, through_a_reshaped_view, through_a_numpy_view, permute_values, swap_two,
    smallest_step, to_nan, sign_of_zero,
]  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
def test_a_changed_input_is_noticed(write):
    x = leaf([1.0, 2.0, 3.0])
    y = (x * x).sum()
    write(x)
    with refuses() as caught:
        y.backward()
    assert "'mul'" in str(caught.value)
    assert "(3,)" in str(caught.value)
    assert "clone()" in str(caught.value)
    assert x.grad is None


@pytest.mark.parametrize("write", WRITES)
def test_a_changed_input_is_noticed_by_grad_too(write):
    x = leaf([1.0, 2.0, 3.0])
    y = (x * x).sum()
    write(x)
    with refuses():
        autograd.grad(y, x)


@pytest.mark.parametrize("write", WRITES)
def test_a_changed_result_is_noticed_where_the_rule_reads_it(write):
    x = leaf([1.0, 2.0, 3.0])
    y = x.exp()
    out = (y + 1).sum()
    write(y)
    with refuses() as caught:
        out.backward()
    assert "result of 'exp'" in str(caught.value)


@pytest.mark.parametrize("write", WRITES)
def test_an_array_held_before_recording_is_watched_too(write):
    x = leaf([1.0, 2.0, 3.0])
    held = x.data
    y = (x * x).sum()
    write(x)
    with refuses():
        y.backward()
    assert held is not None


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("rounds", [1, 2])
def test_change_is_noticed_again_in_later_rounds(write, rounds):
    x = leaf([1.0, 2.0, 3.0])
    for _ in range(rounds):
        with minitorch.no_grad():
            x.copy_(Tensor([1.0, 2.0, 3.0]))
        (x * x).sum().backward()
    y = (x * x).sum()
    write(x)
    with refuses():
        y.backward()


def test_changing_twice_back_to_the_old_values_is_no_change_of_values():
    # Through minitorch it counts as a write; through the array the content is what matters.
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    held = x.data
    held[0] = 50.0
    held[0] = 1.0
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_from_numpy_shares_memory_and_is_watched():
    a = np.array([1.0, 2.0])
    x = minitorch.from_numpy(a).requires_grad_()
    y = (x * x).sum()
    a[0] = 50.0
    with refuses():
        y.backward()


@pytest.mark.parametrize(
    "share",
    [
        minitorch.from_numpy, minitorch.as_tensor, minitorch.asarray, minitorch.from_dlpack,
        lambda a: minitorch.from_numpy(a[:]), lambda a: minitorch.from_numpy(a)[:],
        lambda a: minitorch.from_numpy(a.reshape(1, 2))[0],
    ],
)  # fmt: skip
def test_every_shared_array_is_watched(share):
    a, w = np.array([1.0, 2.0]), leaf([3.0, 4.0])
    y = (share(a) * w).sum()
    a[1] = 50.0
    with refuses():
        y.backward()
    y = (share(a) * w).sum()
    y.backward()
    assert w.grad.tolist() == [1.0, 50.0]


def test_a_plain_array_beside_a_tensor_is_watched():
    a, w = np.array([1.0, 2.0]), leaf([3.0, 4.0])
    for compute in (lambda: w * a, lambda: a * w, lambda: w @ a, lambda: np.multiply(a, w)):
        y = compute().sum()
        a[0] += 1.0
        with refuses():
            y.backward()


def test_an_array_assigned_to_data_is_watched():
    a, x = np.array([1.0, 2.0]), leaf([0.0, 0.0])
    x.data = a
    y = (x * x).sum()
    a[0] = 100.0
    with refuses():
        y.backward()


def test_a_torch_tensors_memory_is_watched():
    theirs, w = torch.tensor([1.0, 2.0], dtype=torch.float64), leaf([3.0, 4.0])
    y = (minitorch.from_dlpack(theirs) * w).sum()
    theirs[0] = 50.0
    with refuses():
        y.backward()


def test_a_view_recorded_before_its_base_was_handed_out():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    row = x[0]
    y = (row * row).sum()
    x.data[0, 1] = 50.0
    with refuses():
        y.backward()


def test_a_base_recorded_before_its_view_was_handed_out():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = (x * x).sum()
    x[1].data[0] = 50.0
    with refuses():
        y.backward()


def test_a_view_used_before_and_after_a_change():
    # The second use is right; it must not make the first one look right.
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    row = x[0]
    first = (row * row).sum()
    x.data[0, 1] = 50.0
    second = (row * row).sum()
    second.backward(retain_graph=True)
    with refuses():
        first.backward()


@pytest.mark.parametrize("shape", [(200, 1024), (1024, 1024), (1 << 18,), (300, 1000), (3, 70_001)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_arrays_are_watched(shape, dtype):
    x = leaf(np.zeros(shape), dtype)
    assert x.data.nbytes > 800_000
    flat = x.data.reshape(-1)
    for place in (0, flat.size // 2, flat.size - 1):
        y = (x * x).sum()
        flat[place] = 1.0
        with refuses():
            y.backward()
        (x * x).sum().backward()


@pytest.mark.parametrize("n", [1000, 1024, 2048])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_permuted_rows_of_a_large_matrix_are_noticed(n, dtype):
    # Every row and every column of a permutation matrix has the same sum.
    x = leaf(np.eye(n), dtype)
    y = (x * x).sum()
    x.data[[3, 10]] = x.data[[10, 3]]
    with refuses():
        y.backward()


def test_two_values_swapped_far_apart_are_noticed():
    x = leaf(np.arange(3_000_000.0))
    for distance in (1, 8, 1024, 1021, 1023, 1024 * 1021, 2_000_000, 1024 * 1023, 1 << 20):
        y = (x * x).sum()
        x.data[[5, 5 + distance]] = x.data[[5 + distance, 5]]
        with refuses():
            y.backward()


@given(hnp.arrays(np.float64, st.integers(1, 40)), st.data())
def test_a_fingerprint_changes_with_any_byte(array, data):
    seen = watch.fingerprint(array)
    raw = array.view(np.uint8)
    place, step = data.draw(st.integers(0, raw.size - 1)), data.draw(st.integers(1, 255))
    raw[place] ^= np.uint8(step)
    assert watch.fingerprint(array) != seen
    raw[place] ^= np.uint8(step)
    assert watch.fingerprint(array) == seen


@pytest.mark.parametrize("count", [0, 1, 2047, 2048, 2049, 100_000])
def test_a_fingerprint_sees_every_place_of_a_large_array(count):
    array = np.zeros(count, np.uint8)
    seen = watch.fingerprint(array)
    rng = np.random.default_rng(0)
    for place in {0, count - 1, *rng.integers(0, max(count, 1), 50)} if count else ():
        array[place] = 1
        assert watch.fingerprint(array) != seen, place
        array[place] = 0


def test_a_fingerprint_of_strided_and_transposed_arrays():
    base = np.zeros((300, 300))
    for view in (base.T, base[::2, ::3], base[::-1], np.asfortranarray(base)):
        seen = watch.fingerprint(view)
        view[1, 2] = 1.0
        assert watch.fingerprint(view) != seen
        view[1, 2] = 0.0


# --- index arrays and other attributes ----------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda x, i: x[i],
        lambda x, i: x[i, :],
        lambda x, i: x[:, i],
        lambda x, i: x[minitorch.from_numpy(i)],
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.gather(0, minitorch.from_numpy(i.reshape(2, 1))),
        lambda x, i: np.take(x, i, axis=0),
    ],
)
def test_a_changed_index_is_noticed(use):
    x, i = leaf(np.arange(9.0).reshape(3, 3)), np.array([0, 1])
    y = use(x, i).sum()
    i[0] = 2
    with refuses():
        y.backward()
    y = use(x, i).sum()  # changed before recording: all is well
    y.backward()
    assert x.grad.sum() == use(x, i).numel()


def test_a_changed_mask_is_noticed():
    x, m = leaf([1.0, 2.0, 3.0]), np.array([True, False, True])
    for use in (
        lambda: x[m],
        lambda: x.masked_fill(minitorch.from_numpy(m), 0.0),
        lambda: minitorch.where(minitorch.from_numpy(m), x, 0.0),
    ):
        y = use().sum()
        m[0] = not m[0]
        with refuses():
            y.backward()


def test_changed_targets_are_noticed():
    x, target = leaf(np.zeros((2, 5))), np.array([1, 3])
    loss = minitorch.cross_entropy(x, minitorch.from_numpy(target))
    target[0] = 4
    with refuses():
        loss.backward()


# --- no false alarm -----------------------------------------------------------------------------


def no_alarm_cases():
    return {
        "input of add": lambda x, w: x + w,
        "input of sub": lambda x, w: x - w,
        "input of neg": lambda x, w: -x,
        "input of sum": lambda x, w: x.sum(),
        "input of mean": lambda x, w: x.mean(axis=0),
        "input of reshape": lambda x, w: x.reshape(-1),
        "input of transpose": lambda x, w: x.T,
        "input of broadcast": lambda x, w: x.broadcast_to(2, 3),
        "input of getitem": lambda x, w: x[1:],
        "input of cat": lambda x, w: minitorch.cat([x, w]),
        "input of stack": lambda x, w: minitorch.stack([w, x]),
        "input of split": lambda x, w: x.split(1)[0],
        "input of unbind": lambda x, w: x.unbind()[0],
        "input of flip": lambda x, w: x.flip(0),
        "input of cumsum": lambda x, w: x.cumsum(0),
        "input of exp": lambda x, w: x.exp(),
        "input of tanh": lambda x, w: x.tanh(),
        "input of sigmoid": lambda x, w: x.sigmoid(),
        "input of sqrt": lambda x, w: x.sqrt(),
        "input of softmax": lambda x, w: x.softmax(0),
        "input of a cast": lambda x, w: x.float(),
        "input of clone": lambda x, w: x.clone(),
        "input of a multiplication by a number": lambda x, w: x * 3.0,
        "the side of mul whose partner wants no gradient": lambda x, w: x * 2.0 + x * w.detach(),
    }


@pytest.mark.parametrize("case", no_alarm_cases())
@pytest.mark.parametrize("write", [write_element, add_in_place, set_item, permute_values])
def test_changing_what_the_rule_does_not_read_is_harmless(case, write):
    x, w = leaf([1.0, 2.0, 3.0]), leaf([4.0, 5.0, 6.0])
    expected = autograd.grad(no_alarm_cases()[case](x, w).sum(), x)[0].tolist()
    out = no_alarm_cases()[case](x, w).sum()
    write(x)
    out.backward()
    assert x.grad.tolist() == expected


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, w: x + w, lambda x, w: x * w, lambda x, w: x.sum(axis=0, keepdims=True) * 2,
        lambda x, w: minitorch.cat([x, w]), lambda x, w: minitorch.stack([x, w]), lambda x, w: x.log(),
        lambda x, w: x.sin(), lambda x, w: x.clone(),
    ],
)  # fmt: skip
def test_changing_a_result_no_rule_reads_is_harmless(compute):
    x, w = leaf([1.0, 2.0, 3.0]), leaf([4.0, 5.0, 6.0])
    y = compute(x, w)
    out = (y + 1).sum()
    y.data[0] = 50.0
    out.backward()
    assert x.grad is not None


def test_an_optimiser_between_steps_is_harmless():
    x = Tensor(np.random.default_rng(0).standard_normal((8, 3)))
    w, b = leaf(np.ones((3, 2))), leaf(np.zeros(2))
    losses = []
    for _ in range(5):
        loss = ((x @ w + b).tanh() ** 2).sum()
        loss.backward()
        losses.append(loss.item())
        for p in (w, b):
            p.data -= 0.01 * p.grad
            p.grad = None
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    "step",
    [
        lambda p: p.data.__isub__(0.1 * p.grad),
        lambda p: setattr(p, "data", p.data - 0.1 * p.grad),
        lambda p: p.detach().sub_(Tensor(0.1 * p.grad)),
        lambda p: np.subtract(p.data, 0.1 * p.grad, out=p.data),
    ],
)
@pytest.mark.parametrize("shape", [(3, 4), (400, 400)])
def test_every_spelling_of_an_update_is_harmless(step, shape):
    w, kept = leaf(np.full(shape, 0.1)), []
    expected = 0.1
    for _ in range(4):
        loss = (w * w * w).sum()
        loss.backward()
        kept.append((loss, w.data))
        np.testing.assert_allclose(w.grad, np.full(shape, 3 * expected**2), rtol=1e-6)
        step(w)
        w.grad = None
        expected -= 0.1 * 3 * expected**2
    np.testing.assert_allclose(w.data, np.full(shape, expected), rtol=1e-6)


def test_changing_before_recording_is_harmless():
    a = np.array([1.0, 2.0])
    x = minitorch.from_numpy(a).requires_grad_()
    a[0] = 7.0
    y = (x * x).sum()
    y.backward()
    assert x.grad.tolist() == [14.0, 4.0]


def test_changing_after_backward_is_harmless():
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    y.backward()
    x.data[0] = 9.0
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0 + 18.0, 8.0]


def test_changing_something_else_is_harmless():
    x, other = leaf([1.0, 2.0]), Tensor([1.0, 2.0])
    y = (x * x).sum()
    other[0] = 5.0
    other.data[1] = 6.0
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_running_statistics_updated_during_forward_are_harmless():
    w, running = leaf([1.0, 2.0]), Tensor(np.zeros(2))
    for _ in range(3):
        h = w * 3.0
        with minitorch.no_grad():
            running.mul_(0.9).add_(h.detach() * 0.1)
        (h * h).sum().backward()
    assert w.grad.tolist() == [3 * 18.0, 3 * 36.0]
    np.testing.assert_allclose(running.numpy(), (1 - 0.9**3) * np.array([3.0, 6.0]), rtol=1e-6)


def test_other_rows_of_a_persons_array_are_their_own_business():
    # A loader fills the buffer's next rows while the last batch still waits for backward.
    buffer, w = np.ones((4, 3)), leaf([1.0, 2.0, 3.0])
    y = (minitorch.from_numpy(buffer[0]) * w).sum()
    buffer[1] = 7.0
    y.backward()
    assert w.grad.tolist() == [1.0, 1.0, 1.0]
    whole = minitorch.from_numpy(buffer)
    y = (whole[0] * w).sum()
    buffer[2] = 8.0
    y.backward()
    assert w.grad.tolist() == [2.0, 2.0, 2.0]
    y = (whole[0] * w).sum()
    buffer[0] = 8.0
    with refuses():
        y.backward()


def test_a_mask_passed_again_and_again_is_harmless():
    x, i = leaf([1.0, 2.0, 3.0]), np.array([0, 1])
    for k in range(3):
        i[0] = k
        x[i].sum().backward()
    assert x.grad.tolist() == [1.0, 4.0, 1.0]


def test_a_large_array_without_change_raises_nothing():
    a = np.random.default_rng(0).standard_normal((600, 600))
    x = minitorch.from_numpy(a).requires_grad_()
    for _ in range(3):
        (x * x).sum().backward()
    np.testing.assert_allclose(x.grad, 6 * a)


# --- what watching costs ------------------------------------------------------------------------


@pytest.fixture
def fingerprinted(monkeypatch):
    """The sizes of the arrays that were looked at, in bytes."""
    sizes = []
    original = watch.fingerprint

    def spy(array):
        sizes.append(array.nbytes)
        return original(array)

    monkeypatch.setattr(watch, "fingerprint", spy)
    return sizes


def test_arrays_never_handed_out_cost_nothing(fingerprinted):
    x = leaf(np.ones(1000))
    for _ in range(3):
        (x * x).sum().backward()
    assert fingerprinted == []


def test_batches_of_a_large_dataset_cost_their_own_size(fingerprinted):
    dataset, w = np.ones((10_000, 10)), leaf(np.ones(10))
    whole = minitorch.from_numpy(dataset)
    fingerprinted.clear()
    for i in range(5):
        for batch in (whole[i : i + 4], minitorch.from_numpy(dataset[i : i + 4]), whole[np.arange(i, i + 4)]):
            (batch @ w).sum().backward()
    assert max(fingerprinted) <= 4 * 10 * 8
    assert len(fingerprinted) <= 3 * 5 * 4


def test_what_no_graph_needs_is_not_looked_at(fingerprinted):
    dataset, w = minitorch.from_numpy(np.ones((1000, 10))), leaf(np.ones(10))
    held = dataset.data
    fingerprinted.clear()
    (dataset * 2).sum()  # nothing is recorded
    (w * w).sum().backward()  # another graph
    (w + dataset).sum().backward()  # add reads neither
    assert fingerprinted == []
    assert held is dataset.data


def test_an_array_nobody_holds_any_more_is_forgotten(fingerprinted):
    x = leaf(np.ones(100))
    x.data[0] = 5.0
    (x * x).sum().backward()
    fingerprinted.clear()
    for _ in range(3):
        (x * x).sum().backward()
    assert fingerprinted == []


def test_an_array_somebody_holds_is_not_forgotten():
    x = leaf([1.0, 2.0])
    holders = [x.data, x.data[:1], memoryview(x.data), torch.from_dlpack(x.detach()), x.detach()]
    while holders:
        for _ in range(2):
            (x * x).sum().backward()
        y = (x * x).sum()
        holder = holders.pop()
        if isinstance(holder, Tensor):
            holder.data[0] += 1.0
        else:
            holder[0] += 1.0
        with refuses():
            y.backward()


def test_nothing_is_remembered_of_arrays_that_are_gone():
    def remembered():
        contents = [content for exposure in watch.exposed.values() for content in exposure.contents]
        return [len(d) for d in (watch.exposed, contents, watch._written, watch._noticed)]

    gc.collect()
    before = remembered()
    for _ in range(50):
        a = np.ones(3)
        x = minitorch.from_numpy(a).requires_grad_()
        y = (x * x[:2].sum()).sum()
        x.data[0] = 2.0
        with minitorch.no_grad():
            x.add_(1.0)
        x.data = np.zeros(3)
        del y
    del a, x
    assert remembered() == before


def test_an_address_used_again_is_another_array():
    # An array dies, another is made at the same address: it has its own history.
    w = leaf([3.0, 4.0])
    for _ in range(200):
        t = Tensor(np.array([1.0, 2.0]))
        t.data[0] = 5.0
        t[1] = 6.0
        del t
        fresh = Tensor(np.array([1.0, 2.0]))
        (fresh * w).sum().backward()
    assert w.grad.tolist() == [200.0, 400.0]


def test_looking_does_not_hold_the_array():
    x = Tensor(np.ones(3))
    owner = weakref.ref(x._data)
    held = x.data
    watch.read(x._data, watch.tick())
    del x
    assert owner() is not None  # a person still looks at its memory
    del held
    assert owner() is None


# --- saved tensors of Function, checkpoint ------------------------------------------------------


class Square(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


class PlusTwo(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + 2

    @staticmethod
    def backward(ctx, g):
        return g


@pytest.mark.parametrize("write", WRITES)
def test_a_changed_saved_tensor_is_noticed(write):
    x = leaf([1.0, 2.0, 3.0])
    y = Square.apply(x).sum()
    write(x)
    with pytest.raises(RuntimeError, match="saved tensor 0"):
        y.backward()


def test_a_shared_saved_tensor_is_watched():
    a = np.ones((4, 3))
    x = minitorch.from_numpy(a)[1].requires_grad_()
    y = Square.apply(x).sum()
    a[0] = 5.0
    y.backward(retain_graph=True)
    a[1] = 5.0
    with pytest.raises(RuntimeError, match="saved tensor 0"):
        y.backward()


def test_an_input_a_function_did_not_save_may_change():
    x = leaf([1.0, 2.0, 3.0])
    y = PlusTwo.apply(x).sum()
    x.data[0] = 50.0
    y.backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_changed_input_of_a_checkpoint_is_noticed():
    x, c = leaf([1.0, 2.0]), Tensor(np.array([3.0, 4.0]))
    for changed in (x, c):
        y = autograd.checkpoint(lambda t: (t * c).sin(), x).sum()
        changed.data[0] += 1.0
        with refuses():
            y.backward()


def test_a_checkpoint_that_made_its_own_constants_raises_nothing():
    x = leaf([1.0, 2.0])

    def f(t):
        scale = minitorch.ones(2)
        scale[0] = 2.0
        return t * scale * t

    autograd.checkpoint(f, x).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_changed_parts_of_a_decomposition_are_noticed():
    x = leaf([[2.0, 1.0], [0.5, 3.0]])
    q, r = minitorch.linalg.qr(x)
    q.data[0, 0] = 5.0
    with refuses() as caught:
        (q.sum() + r.sum()).backward()
    assert "qr" in str(caught.value)


def test_a_change_elsewhere_costs_a_glance_not_an_examination(monkeypatch):
    """Batch norm writes its running mean in every forward: the whole graph must not be examined for that."""
    asked = []
    original = watch.changed_since
    monkeypatch.setattr(watch, "changed_since", lambda *args: asked.append(args) or original(*args))
    x, running = leaf([1.0, 2.0]), Tensor(np.zeros(2))
    y = x * x
    with minitorch.no_grad():
        running.add_(y.detach())
    for _ in range(20):
        y = y * x
    y.sum().backward()
    assert asked == []


# --- what a rule reads is found out by looking at it ----------------------------------------------


def reads_in_a_closure(g, out, x):
    return (lambda: 2 * g * x)()


def reads_in_a_comprehension(g, out, x):
    return np.stack([g * x for _ in range(2)]).sum(axis=0)


def reads_after_the_shape(g, out, x):
    shape = x.shape
    return (2 * g * x).reshape(shape)


def reads_through_another_name(g, out, x):
    y = x
    return 2 * g * y


def reads_by_helper(g, out, x):
    return helper(g, x)


def helper(g, x):
    return 2 * g * x


def reads_all(g, *values):
    return 2 * g * values[1]


def reads_length(g, out, x):
    return g * (2.0 + 0 * len(x))


class CallableRule:
    def __call__(self, g, out, x):
        return 2 * g * x


def reads_nothing(g, out, x):
    return g


def reads_shape(g, out, x):
    return np.broadcast_to(g, x.shape)


def reads_metadata_twice(g, out, x):
    n = x.ndim
    return g.reshape(x.shape).astype(x.dtype) * (n / n)


def reads_no_values(g, *values):
    return 2 * g


READING = [
    reads_in_a_closure, reads_in_a_comprehension, reads_after_the_shape, reads_through_another_name, reads_by_helper,
    reads_all, CallableRule(), functools.partial(reads_through_another_name),
]  # fmt: skip


@pytest.mark.parametrize("rule", READING)
def test_a_rule_that_may_read_its_input(rule):
    op = minitorch.op(rule, name="reading")(lambda x: x * x)
    for change in (write_element, set_item):
        x = leaf([1.0, 2.0, 3.0])
        y = op(x).sum()
        change(x)
        with refuses():
            y.backward()


@pytest.mark.parametrize(
    "rule", [reads_nothing, reads_shape, reads_length, reads_metadata_twice, reads_no_values]
)
def test_a_rule_that_reads_at_most_the_shape(rule):
    op = minitorch.op(rule, name="blind")(lambda x: x * x)
    for change in (write_element, set_item):
        x = leaf([1.0, 2.0, 3.0])
        y = op(x).sum()
        change(x)
        y.backward()
        assert x.grad.shape == (3,)


def test_only_the_rules_that_run_count():
    # d(x·c)/dx reads c, never x: c wants no gradient, so x may change.
    x, c = leaf([1.0, 2.0]), Tensor(np.array([3.0, 4.0]))
    y = (x * c).sum()
    x.data[0] = 50.0
    y.backward(retain_graph=True)
    assert x.grad.tolist() == [3.0, 4.0]
    c[0] = 50.0
    with refuses():
        y.backward()
