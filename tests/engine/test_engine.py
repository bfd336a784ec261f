"""backward(): what it accepts, what it leaves behind, and what it costs."""

import sys
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch
from minitorch import Tensor, autograd
from tensors import leaf

# --- where it may start -------------------------------------------------------------------------


def test_a_scalar_needs_no_gradient():
    for shape in [(), (1,), (1, 1)]:
        x = leaf(np.full(shape, 3.0))
        (x * x).backward()
        assert x.grad.tolist() == np.full(shape, 6.0).tolist()


def test_more_elements_need_one():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"\(2,\).*gradient="):
        (x * x).backward()
    assert x.grad is None
    with pytest.raises(RuntimeError, match=r"\(0,\)"):
        leaf([]).exp().backward()


@pytest.mark.parametrize(
    "gradient", [Tensor([1.0, 10.0]), np.array([1.0, 10.0]), [1.0, 10.0], np.array([1, 10])]
)
def test_a_gradient_may_be_anything_array_like(gradient):
    x = leaf([3.0, 4.0], np.float32)
    (x * x).backward(gradient=gradient)
    assert x.grad.tolist() == [6.0, 80.0]
    assert x.grad.dtype == np.float32


def test_a_gradient_of_another_shape_is_refused():
    x = leaf([1.0, 2.0])
    for wrong in (np.ones(3), np.ones((1, 2)), np.float64(1.0)):
        with pytest.raises(RuntimeError, match=r"gradient has shape"):
            (x * x).backward(wrong)
    assert x.grad is None


def test_a_constant_has_nothing_to_differentiate():
    for constant in (Tensor(1.0), Tensor(1.0) * 2, leaf(1.0).detach()):
        with pytest.raises(RuntimeError, match="requires_grad=True"):
            constant.backward()


def test_a_leaf_is_its_own_gradient():
    x = leaf(3.0)
    x.backward()
    assert x.grad == 1.0
    assert isinstance(x.grad, np.ndarray)


def test_create_graph_points_to_grad():
    with pytest.raises(RuntimeError, match=r"autograd\.grad"):
        leaf(1.0).exp().backward(create_graph=True)


def test_several_roots_in_one_walk():
    x = leaf([1.0, 2.0])
    shared = x * x
    autograd.backward([shared.sum(), shared], [None, np.array([1.0, 10.0])])
    assert x.grad.tolist() == [4.0, 44.0]
    with pytest.raises(RuntimeError, match="tensor 1 does not require grad"):
        autograd.backward([x.sum(), Tensor(1.0)])
    with pytest.raises(RuntimeError, match="2 outputs but 1"):
        autograd.backward([x.sum(), x.sum()], [None])


def test_the_same_root_twice_counts_twice():
    x = leaf(3.0)
    y = x * x
    autograd.backward([y, y])
    assert x.grad == 12.0


# --- consumed and retained graphs ---------------------------------------------------------------


def test_a_second_backward_says_what_to_do():
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"second time.*retain_graph=True"):
        y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_second_backward_into_a_freed_part_says_so_too():
    x = leaf([1.0, 2.0])
    shared = x.exp()
    shared.sum().backward()
    before = x.grad.copy()
    with pytest.raises(RuntimeError, match="'exp' a second time"):
        (shared * 2).sum().backward()
    np.testing.assert_array_equal(x.grad, before)


def test_retained_twice_is_exactly_twice():
    rng = np.random.default_rng(0)
    x, w = leaf(rng.standard_normal(5)), leaf(rng.standard_normal((5, 5)))
    y = ((x @ w).tanh() * x).exp().sum()
    y.backward(retain_graph=True)
    first = x.grad.copy(), w.grad.copy()
    y.backward(retain_graph=True)
    np.testing.assert_array_equal(x.grad, 2 * first[0])
    np.testing.assert_array_equal(w.grad, 2 * first[1])
    y.backward()
    np.testing.assert_array_equal(w.grad, first[1] + first[1] + first[1])
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_a_leafs_own_gradient_is_added_to_in_place():
    x = leaf([1.0])
    (x * 2).sum().backward()
    kept = x.grad
    (x * 3).sum().backward()
    assert kept.tolist() == [5.0]  # whoever holds it sees the sum, as in PyTorch
    assert x.grad is kept


def test_an_intermediates_gradient_read_before_is_not_changed_by_the_next_backward():
    x = leaf([1.0])
    y = x * 2
    (y * 3).sum().backward(retain_graph=True)
    kept = y.grad
    (y * 4).sum().backward()
    assert kept.tolist() == [3.0]
    assert y.grad.tolist() == [7.0]


# --- what is left behind ------------------------------------------------------------------------


def test_held_intermediates_keep_their_gradient():
    x = leaf([1.0, 2.0])
    a = x * 3
    b = a.exp()
    loss = (b * 2).sum()
    loss.backward()
    assert loss.grad == 1.0
    assert b.grad.tolist() == [2.0, 2.0]
    np.testing.assert_allclose(a.grad, 2 * b.data)
    np.testing.assert_allclose(x.grad, 6 * b.data)
    assert isinstance(loss.grad, np.ndarray)


def test_backward_with_inputs_touches_only_these():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    h = x * w
    loss = (h * h).sum()
    loss.backward(inputs=[w])
    assert (x.grad, h.grad, loss.grad) == (None, None, None)
    assert w.grad.tolist() == [6.0, 32.0]


def test_backward_with_an_input_named_twice_counts_it_once():
    x = leaf([1.0])
    (x * 3).sum().backward(inputs=[x, x])
    assert x.grad.tolist() == [3.0]


def test_backward_with_inputs_runs_their_hooks():
    x, seen = leaf([1.0]), []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    (x * 3).sum().backward(inputs=x)
    assert seen == [[3.0]]


def test_backward_refuses_inputs_it_cannot_serve():
    x = leaf([1.0])
    for wrong in ([], [Tensor([1.0])]):
        with pytest.raises(RuntimeError, match="inputs"):
            (x * 3).sum().backward(inputs=wrong)
    with pytest.raises(TypeError, match="Tensor"):
        (x * 3).sum().backward(inputs=[1.0])


# --- nobody shares a gradient -------------------------------------------------------------------


WAYS_TO_WRITE = [lambda a: a.__setitem__(Ellipsis, 99.0), lambda a: np.multiply(a, 7, out=a)]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("write", WAYS_TO_WRITE)
def test_writing_into_one_gradient_changes_no_other(shape, write):
    x, y = leaf(np.ones(shape)), leaf(np.ones(shape))
    middle = x + y
    out = middle.reshape(-1)
    out.sum().backward()
    tensors = [x, y, middle, out]
    for i, writer in enumerate(tensors):
        others = [t.grad.copy() for t in tensors]
        write(writer.grad)
        for j, t in enumerate(tensors):
            if j != i:
                np.testing.assert_array_equal(t.grad, others[j])


def test_reading_twice_gives_the_same_array():
    x, y = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    (x + y).sum().backward()
    assert x.grad is x.grad
    x.grad[0] = 5.0
    assert x.grad.tolist() == [5.0, 1.0]
    assert y.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.sum(), lambda x: x.mean(), lambda x: x.broadcast_to(4, 2, 3).sum(), lambda x: x.T.sum(),
        lambda x: x.reshape(-1).sum(), lambda x: x[0].sum(), lambda x: x.flip(0).sum(), lambda x: (x + 1).sum(),
        lambda x: minitorch.stack([x, x]).sum(), lambda x: minitorch.cat([x, x])[:2].sum(),
        lambda x: x.unbind()[1].sum(), lambda x: x.clone().sum(), lambda x: x.max(),
    ],
)  # fmt: skip
def test_gradients_can_be_written_into(f):
    x = leaf(np.arange(6.0).reshape(2, 3))
    f(x).backward()
    assert x.grad.flags.writeable
    assert x._grad.flags.owndata
    x.grad += 1.0
    x.grad *= 0.0
    assert x.grad.tolist() == [[0.0] * 3] * 2


def test_a_gradient_given_to_backward_stays_the_persons_own():
    x, y = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    out = x + y
    g = np.array([3.0, 5.0])
    out.backward(g)
    g[:] = 0.0
    for t in (x, y, out):
        assert t.grad.tolist() == [3.0, 5.0]
    x.grad[:] = -1.0
    assert g.tolist() == [0.0, 0.0]


def test_a_gradient_tensor_given_to_backward_stays_as_it_is():
    x, g = leaf([1.0, 2.0]), Tensor(np.array([3.0, 5.0]))
    x.reshape(2).backward(g)
    x.grad[:] = 0.0
    assert g.tolist() == [3.0, 5.0]
    g.zero_()
    y = leaf([1.0, 2.0])
    g = Tensor(np.array([3.0, 5.0]))
    (y + 0).backward(g)
    g.zero_()
    assert y.grad.tolist() == [3.0, 5.0]


def test_a_rule_that_returns_its_input_gives_no_alias_of_the_data():
    half_square = minitorch.op(lambda g, out, x: x, name="half_square")(lambda x: x * x / 2)
    x = leaf([1.0, 2.0])
    half_square(x).sum().backward()
    x.data[:] = 50.0
    assert x.grad.tolist() == [1.0, 2.0]


def test_0d_gradients_are_arrays():
    x, y = leaf(2.0), leaf(3.0)
    z = x * y
    (z * z).backward()
    for t in (x, y, z):
        assert isinstance(t.grad, np.ndarray)
        assert t.grad.shape == ()
        t.grad[...] = 1.0
    (x * 2).backward()
    assert isinstance(x.grad, np.ndarray)
    assert x.grad == 3.0


def test_assigning_grad_checks_shape_and_dtype():
    x = leaf([1.0, 2.0], np.float32)
    with pytest.raises(RuntimeError, match=r"shape \(2,\).*\(3,\)"):
        x.grad = np.ones(3)
    x.grad = np.ones(2)
    assert x.grad.dtype == np.float32
    x.grad = [3, 4]
    assert x.grad.tolist() == [3.0, 4.0]
    x.grad = Tensor([5.0, 6.0])
    assert x.grad.tolist() == [5.0, 6.0]
    scalar = leaf(1.0)
    scalar.grad = np.float64(2.0)
    assert isinstance(scalar.grad, np.ndarray)
    scalar.grad[...] = 4.0
    assert scalar.grad == 4.0
    scalar.grad = None
    assert scalar.grad is None


# --- the dtype and shape contract ---------------------------------------------------------------


@pytest.mark.parametrize("a", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("b", [np.float32, np.float64, np.int64])
def test_a_gradient_has_its_tensors_dtype(a, b):
    x = leaf([1.0, 2.0], a)
    y = Tensor(np.array([[3], [4]], dtype=b), requires_grad=np.dtype(b).kind == "f")
    middle = x * y
    loss = (middle / 3 + x).exp().mean()
    loss.backward()
    for t in (x, y, middle, loss):
        if t.requires_grad:
            assert t.grad.dtype == t.dtype
            assert t.grad.shape == t.shape


STEPS = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "neg": lambda a, b: -a,
    "square": lambda a, b: a * a,
    "cast": lambda a, b: a.float(),
    "shift": lambda a, b: a + 1,
}


@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=8), st.data())
def test_random_graphs_keep_the_contract(steps, data):
    """Any mixture of shapes and dtypes: every node's gradient looks like its data."""
    shapes = [(3,), (2, 3), (1,), (), (2, 1)]
    nodes = [leaf(np.full(s, 0.3), d) for s in shapes for d in (np.float32, np.float64)]
    for step in steps:
        a, b = (nodes[data.draw(st.integers(0, len(nodes) - 1))] for _ in range(2))
        made = STEPS[step](a, b)
        nodes.append(made)
    autograd.backward([n.sum() for n in nodes])
    for n in nodes:
        assert n.grad.shape == n.shape
        assert n.grad.dtype == n.dtype


def test_data_of_a_leaf_stays_floating_point():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="floating-point"):
        x.data = np.array([1, 2])
    assert x.tolist() == [1.0, 2.0]
    x.data = np.array([1, 2], np.float32)
    assert x.dtype == np.float32


def test_data_of_another_dtype_or_shape_drops_the_old_gradient():
    x = leaf([1.0, 2.0])
    for new in (np.zeros(3), np.zeros(3, np.float32)):
        x.grad = np.ones_like(x.data)
        x.data = new
        assert x.grad is None


def test_backward_from_one_of_several_results():
    x = leaf([1.0, 2.0, 3.0])
    x.split(1)[1].backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]
    a, b, c = (x * 2).split(1)
    da, dx, dc = autograd.grad((a * b).sum() + c.sum(), (a, x, c))
    assert (da.tolist(), dx.tolist(), dc.tolist()) == ([4.0], [8.0, 4.0, 2.0], [1.0])


# --- failures half-way --------------------------------------------------------------------------


class Stop(Exception):
    pass


def failing_rule():
    def rule(g, out, x):
        raise Stop

    return minitorch.op(rule, name="failing")(lambda x: x * 1)


def test_a_failing_rule_leaves_leaves_untouched():
    fails = failing_rule()
    x, y = leaf([1.0]), leaf([2.0])
    y.grad = np.array([7.0])
    loss = (y * 3).sum() + fails(x).sum() + (y * x).sum()
    with pytest.raises(Stop):
        loss.backward()
    assert x.grad is None
    assert y.grad.tolist() == [7.0]


def test_a_failing_hook_leaves_leaves_untouched():
    x, y = leaf([1.0]), leaf([2.0])

    def hook(g):
        raise Stop

    x.register_hook(hook)
    with pytest.raises(Stop):
        (x * y).sum().backward()
    assert (x.grad, y.grad) == (None, None)


def test_a_failure_switches_nothing():
    before = minitorch.is_grad_enabled(), np.geterr()
    with pytest.raises(Stop):
        failing_rule()(leaf([1.0])).sum().backward()
    assert (minitorch.is_grad_enabled(), np.geterr()) == before
    assert (leaf([1.0]) * 2).requires_grad
    with pytest.raises(RuntimeError):
        leaf([1.0, 2.0]) @ leaf([1.0, 2.0, 3.0])
    assert np.geterr() == before[1]
    with minitorch.no_grad():
        with pytest.raises(Stop), minitorch.enable_grad():
            failing_rule()(leaf([1.0])).sum().backward()
        assert not minitorch.is_grad_enabled()


def test_backward_holds_back_warnings_and_gives_them_back():
    x = leaf([0.0])
    x.sqrt().sum().backward()  # 1 / 0: inf, quietly
    assert np.isinf(x.grad).all()
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.ones(1) / np.zeros(1)


def test_backward_works_inside_no_grad():
    x = leaf([2.0])
    y = (x * x).sum()
    with minitorch.no_grad():
        y.backward()
        assert not minitorch.is_grad_enabled()
    assert x.grad.tolist() == [4.0]


# --- order, depth and cost ----------------------------------------------------------------------


def test_a_node_waits_for_all_its_children():
    # The short path reaches x·x first; its rule must still run once, with the whole gradient.
    runs = []

    def rule(g, out, x):
        runs.append(g.tolist())
        return 2 * g * x

    square = minitorch.op(rule, name="square_once")(lambda x: x * x)
    x = leaf([3.0])
    shared = square(x)
    long_way = shared
    for _ in range(5):
        long_way = long_way * 1.0
    (shared + long_way).sum().backward()
    assert runs == [[2.0]]
    assert x.grad.tolist() == [12.0]


def test_an_old_child_of_a_young_leaf():
    # requires_grad may be set long after a tensor was made; the order must not depend on it.
    x = Tensor(np.array([2.0]))
    early = leaf([3.0])
    x.requires_grad_()
    (early * x * early).sum().backward()
    assert x.grad.tolist() == [9.0]
    assert early.grad.tolist() == [12.0]


@pytest.mark.parametrize("op", [lambda x: x + 1.0, lambda x: x * x])
def test_a_ladder_of_diamonds_is_no_exponential(op):
    x = leaf([1e-30])
    y = x
    for _ in range(200):  # 2**200 paths
        y = (y + y) * 0.5
    y.sum().backward()
    np.testing.assert_allclose(x.grad, [1.0])


def calls_during(run):
    """How many Python and C calls `run` makes."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    outer = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(outer)
    return count


def chain(n):
    x = leaf([0.5])
    y = x
    for _ in range(n):
        y = y * x
    return y.sum()


def fan(n):
    x = leaf([0.5])
    return sum((x * 1.0 for _ in range(n)), start=Tensor(0.0)).sum()


def ladder(n):
    y = leaf([0.5])
    for _ in range(n):
        y = y.tanh() + y
    return y.sum()


def rows(n):
    total = Tensor(0.0, dtype=np.float64)
    for row in leaf(np.ones((n, 2))):
        total = total + row.sum()
    return total


def pieces(n):
    return minitorch.cat([p * 2.0 for p in leaf(np.ones(n)).split(1)]).sum()


def many_leaves(n):
    return minitorch.stack([leaf([1.0]) for _ in range(n)]).sum()


@pytest.mark.parametrize("graph", [chain, fan, ladder, rows, pieces, many_leaves])
@pytest.mark.parametrize("watched", [False, True])
def test_the_cost_of_backward_grows_linearly(graph, watched):
    held = []
    counts = []
    for n in (100, 200, 400):
        loss = graph(n)
        if watched:  # an array in a person's hands must not change that
            held.append(leaf([1.0]).data)
        counts.append(calls_during(loss.backward))
    small, large = counts[1] - counts[0], counts[2] - counts[1]
    assert large <= 2.02 * small + 20
    assert counts[2] > counts[0]


@pytest.mark.parametrize("graph", [chain, fan, ladder, rows, pieces])
def test_the_cost_of_grad_grows_linearly(graph):
    counts = []
    for n in (100, 200, 400):
        loss = graph(n)
        found = minitorch.autograd.graph.nodes(loss)
        wanted = [t for t in found if t.is_leaf and t.requires_grad]
        counts.append(calls_during(lambda loss=loss, wanted=wanted: autograd.grad(loss, wanted)))
    small, large = counts[1] - counts[0], counts[2] - counts[1]
    assert large <= 2.02 * small + 20


@pytest.mark.slow
def test_a_chain_of_a_million_ops():
    x = leaf(1.0)
    y = x
    for _ in range(1_000_000):
        y = -y
    y.backward()
    assert x.grad == 1.0


@pytest.mark.slow
def test_dropping_a_long_chain():
    x = leaf(1.0)
    y = x
    for _ in range(200_000):  # (recursion would end at a tenth of them)
        y = -y
    gone = weakref.ref(y)
    del y  # one by one, not recursively: no crash
    assert gone() is None
    assert x.grad is None


class Pass(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g + 0 * x


@pytest.mark.parametrize(
    "step",
    [
        Pass.apply,
        lambda y: autograd.checkpoint(lambda t: t * 1.0, y),
        lambda y: y.split(1)[0],
        lambda y: minitorch.cat([y, y])[:1],
    ],
    ids=["Function", "checkpoint", "split", "cat"],
)
def test_long_chains_of_every_kind_of_node_can_be_walked_and_dropped(step):
    for drop in (True, False):
        x = leaf([1.0])
        y = x
        for _ in range(5_000):
            y = step(y)
        if not drop:
            y.sum().backward()
            assert x.grad is not None
        del y


def test_higher_derivatives_of_a_long_chain():
    x = leaf([0.999])
    y = x
    for _ in range(3000):
        y = y * x
    (first,) = autograd.grad(y, x, create_graph=True)
    (second,) = autograd.grad(first, x)
    np.testing.assert_allclose(second.data, 3001 * 3000 * 0.999**2999, rtol=1e-9)


# --- threads ------------------------------------------------------------------------------------


def in_threads(count, target):
    failures = []

    def run(i):
        try:
            target(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def test_threads_differentiate_their_own_graphs():
    found = {}

    def work(i):
        x = leaf([float(i + 1)])
        y = x
        for _ in range(200):
            y = y * 1.0 + x * 0.0
        (y * y).sum().backward()
        found[i] = x.grad.tolist()

    in_threads(4, work)
    assert found == {i: [2.0 * (i + 1)] for i in range(4)}


def test_threads_lose_no_gradient_of_a_shared_leaf():
    w = leaf(np.zeros(100_000))  # large enough that NumPy lets go of the interpreter while adding
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(4, lambda i: [(w * 1.0).sum().backward() for _ in range(25)])
    finally:
        sys.setswitchinterval(interval)
    assert set(w.grad.tolist()) == {100.0}


# --- errors -------------------------------------------------------------------------------------


def test_an_error_of_an_op_names_op_and_shapes():
    with pytest.raises(RuntimeError, match=r"add\(\(2,\) float64 and \(3,\) float64\).*broadcast"):
        leaf([1.0, 2.0]) + leaf([1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match=r"matmul.*\(2,\)"):
        leaf([1.0, 2.0]) @ leaf([1.0, 2.0, 3.0])
    with pytest.raises(IndexError, match="getitem"):
        leaf([1.0, 2.0])[5]
    with pytest.raises(IndexError, match="sum"):
        leaf([1.0, 2.0]).sum(axis=3)
    with pytest.raises(TypeError, match="expected a Tensor"):
        leaf([1.0]) + object()
    with pytest.raises(TypeError):
        leaf([1.0]).sum(axis="rows")


def test_an_error_raised_inside_a_forward_is_not_its_own_cause():
    def forward(x):
        raise RuntimeError("no")

    broken = minitorch.op(lambda g, out, x: g, name="broken")(forward)
    with pytest.raises(RuntimeError, match="no") as caught:
        broken(leaf([1.0]))
    assert caught.value.__cause__ is not caught.value


def test_writing_into_a_leaf_names_the_other_spelling():
    x = leaf([1.0, 2.0])
    view = x[:1]
    for write, instead in [
        (lambda: x.__setitem__(0, 5.0), "where"),
        (lambda: view.__setitem__(0, 5.0), "a view of a leaf.*where"),
        (lambda: x.add_(1.0), r"x = x \+ y"),
        (lambda: view.mul_(2.0), r"x = x \* y"),
        (lambda: x.zero_(), "no_grad"),
        (lambda: x.copy_(Tensor([0.0, 0.0])), "no_grad"),
    ]:
        with pytest.raises(RuntimeError, match=instead):
            write()
    with pytest.raises(RuntimeError, match=r"x = x \+ y"):
        x += 1
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="int64, which has no gradient"):
        Tensor([1, 2])[0] = x[0]


def test_writing_where_no_graph_is_needed_works():
    buffer = Tensor([1.0, 2.0])
    buffer[0] = 5.0
    buffer += 1
    buffer *= 2
    assert buffer.tolist() == [12.0, 6.0]
    x = leaf([1.0, 2.0])
    with minitorch.no_grad():
        x[0] = 7.0
        x.sub_(1.0)
        x.add_(Tensor(np.array([1.0, 1.0])), alpha=2)
    assert x.tolist() == [8.0, 3.0]
    assert x.is_leaf
    assert x.requires_grad


def test_a_view_that_repeats_memory_is_not_written_into():
    with pytest.raises(RuntimeError, match="clone"):
        Tensor([1.0]).expand(3)[0] = 2.0
