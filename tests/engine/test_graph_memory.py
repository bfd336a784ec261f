"""Nothing outlives its use: no reference cycles, nodes freed while backward walks, flat memory."""

import contextlib
import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import minitorch
from minitorch import Tensor, autograd
from minitorch.engine import node
from tensors import leaf


@contextlib.contextmanager
def no_collector():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def live_nodes():
    """Every Tensor and hidden node there is, cyclic garbage included."""
    return sum(issubclass(type(o), node.Node) for o in gc.get_objects())


def unreachable(kind):
    """How many objects of a kind the collector finds that reference counting did not free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return sum(issubclass(type(o), kind) for o in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def assert_nothing_left(run, times=3):
    """Run something several times without the collector; no node may be left over."""
    run()
    with no_collector():
        before = live_nodes()
        for _ in range(times):
            run()
        assert live_nodes() == before
        assert unreachable(node.Node) == 0


# --- training steps -----------------------------------------------------------------------------


def two_layers():
    rng = np.random.default_rng(0)
    x, y = Tensor(rng.standard_normal((4, 2))), Tensor(rng.standard_normal((4, 1)))
    shapes = [(2, 3), (3,), (3, 1), (1,)]
    parameters = [Tensor(0.1 * rng.standard_normal(s), requires_grad=True) for s in shapes]

    def step():
        W1, b1, W2, b2 = parameters
        loss = (((x @ W1 + b1).tanh() @ W2 + b2 - y) ** 2).mean()
        loss.backward()
        for p in parameters:
            p.data -= 0.01 * p.grad
            p.grad = None

    return step


@pytest.mark.slow
def test_memory_is_flat_over_ten_thousand_steps_without_the_collector():
    step = two_layers()
    for _ in range(100):
        step()
    with no_collector():
        nodes = live_nodes()
        tracked = len(gc.get_objects())
        for _ in range(10_000):
            step()
        assert live_nodes() == nodes
        assert len(gc.get_objects()) <= tracked + 10
        assert unreachable(node.Node) == 0


@pytest.mark.slow
def test_bytes_are_flat_too():
    step = two_layers()
    for _ in range(200):
        step()
    tracemalloc.start()
    try:
        for _ in range(200):
            step()
        gc.collect()  # it also empties Python's own stock of freed tuples, which counts as used
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(3000):
            step()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 3000 < 10  # no object, however small, is left behind by a step


# --- every feature, without leaving a node behind -----------------------------------------------


class Saves(autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        out = x.exp() * y
        ctx.save_for_backward(x, y, out)
        ctx.note = out.shape
        return out, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, _, out = ctx.saved_tensors
        return g * out + h, g * x.exp() + h


class Raises(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = x * 2
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, g):
        assert ctx.saved_tensors
        raise ArithmeticError("on purpose")


def swallow(error, run):
    with contextlib.suppress(error):
        run()


def backward_with_hooks():
    x = leaf([1.0, 2.0])
    y = x * 2
    y.register_hook(lambda g: g * 2)
    x.register_post_accumulate_grad_hook(lambda t: None)
    y.sum().backward()


def walk_grad_fn():
    x = leaf([1.0, 2.0])
    y = (x.split(1)[0] * 2).sum()
    assert y.grad_fn.next_functions[0][0].next_functions
    repr(y)


def detected():
    with minitorch.detect_anomaly():
        x = leaf([1.0, 2.0])
        (x.log() * x.split(1)[0]).sum().backward()


def anomaly():
    with minitorch.detect_anomaly():
        leaf([0.0]).log()


def hand_walk():
    x = leaf([1.0, 2.0])
    a, b = (x * x).unbind()
    y = a * b
    y.grad = np.ones_like(y.data)
    y._backward()
    a._backward()
    b._backward()


def higher_order():
    x = leaf([0.5, 1.5])
    (g,) = autograd.grad((x.sin() * x.exp()).sum(), x, create_graph=True)
    (h,) = autograd.grad(g.sum(), x, create_graph=True)
    (h * h).sum().backward()


def nested_checkpoints():
    w = leaf([2.0, 3.0])
    inner = lambda t: autograd.checkpoint(lambda u: (u * w).sin(), t) * w
    autograd.checkpoint(inner, leaf([1.0, 2.0])).sum().backward()


FEATURES = {
    "backward": lambda: (leaf([1.0]) * 2).sum().backward(),
    "retained graph": lambda: (leaf([1.0]) * 2).sum().backward(retain_graph=True),
    "forward alone": lambda: (leaf([1.0]) * 2).exp().sum(),
    "split": lambda: (leaf([1.0, 2.0]).split(1)[0] * 3).sum().backward(),
    "unused results": lambda: leaf([1.0, 2.0]).split(1),
    "iteration": lambda: sum(leaf([1.0, 2.0])).backward(),
    "sort": lambda: leaf([2.0, 1.0]).sort().values.sum().backward(),
    "Function": lambda: sum(Saves.apply(leaf([1.0]), leaf([2.0]))).sum().backward(),
    "Function, forward alone": lambda: Saves.apply(leaf([1.0]), leaf([2.0])),
    "Function, retained": lambda: Saves.apply(leaf([1.0]), leaf([2.0]))[0].sum().backward(retain_graph=True),
    "Function, twice": lambda: autograd.grad(
        autograd.grad(Saves.apply(leaf([1.0]), y := leaf([2.0]))[0].sum(), y, create_graph=True)[0].sum(),
        y,
        allow_unused=True,
    ),
    "Function that raises": lambda: swallow(
        ArithmeticError, lambda: Raises.apply(leaf([1.0])).sum().backward()
    ),
    "checkpoint": lambda: autograd.checkpoint(lambda t: t.exp() * t, leaf([1.0])).sum().backward(),
    "checkpoint, forward alone": lambda: autograd.checkpoint(lambda t: t.exp() * t, leaf([1.0])),
    "nested checkpoints": nested_checkpoints,
    "hooks": backward_with_hooks,
    "grad_fn": walk_grad_fn,
    "detect_anomaly": detected,
    "an anomaly": lambda: swallow(RuntimeError, anomaly),
    "walk by hand": hand_walk,
    "grad": lambda: autograd.grad((leaf([1.0]) * (w := leaf([2.0]))).sum(), w),
    "higher order": higher_order,
    "hessian": lambda: autograd.functional.hessian(lambda t: (t**3).sum(), leaf([1.0, 2.0])),
    "jvp": lambda: autograd.functional.jvp(lambda t: t.exp(), leaf([1.0]), leaf([1.0])),
    "gradcheck": lambda: minitorch.gradcheck(lambda t: t.exp(), leaf([1.0])),
    "gradgradcheck": lambda: minitorch.gradgradcheck(lambda t: t.exp(), leaf([1.0])),
    "an op's check": lambda: minitorch.op(lambda g, out, x: 2 * g * x, name="sq")(lambda x: x * x).check(
        Tensor([1.0])
    ),
    "wrong shapes": lambda: swallow(RuntimeError, lambda: leaf([1.0, 2.0]) + leaf([1.0, 2.0, 3.0])),
    "freed graph": lambda: swallow(RuntimeError, lambda: [y := leaf(1.0).exp(), y.backward(), y.backward()]),
    "written data": lambda: setattr(leaf([1.0]), "data", np.zeros(1)),
    "shared array": lambda: (minitorch.from_numpy(np.ones(2)).requires_grad_() ** 2).sum().backward(),
    "changed array": lambda: swallow(
        RuntimeError, lambda: [x := leaf([1.0]), y := x * x, x.data.fill(7.0), y.backward()]
    ),
    "NumPy's functions": lambda: np.concatenate([np.exp(leaf([1.0])), leaf([2.0])]).sum().backward(),
    "copies": lambda: [__import__("copy").deepcopy(leaf([1.0])), __import__("copy").copy(leaf([1.0]) * 2)],
}


@pytest.mark.parametrize("feature", FEATURES)
def test_reference_counting_frees_everything(feature):
    assert_nothing_left(FEATURES[feature])


# --- when things are freed ----------------------------------------------------------------------


def test_intermediates_are_freed_while_backward_walks():
    """Half-way down a chain, the upper half is gone already."""
    alive, seen = [], []

    def rule(g, out, x):
        seen.append(sum(r() is not None for r in alive))
        return g

    step = minitorch.op(rule, name="step")(lambda x: x * 1)
    with no_collector():
        x = leaf([1.0])
        y = x
        for _ in range(20):
            y = step(y)
            alive.append(weakref.ref(y))
        loss = y.sum()
        del y
        loss.backward()
    assert seen == list(range(20, 0, -1))
    assert not any(r() for r in alive)


def test_a_retained_graph_is_kept():
    x = leaf([1.0])
    middle = x * 2
    gone = weakref.ref(middle)
    loss = middle.sum()
    del middle
    loss.backward(retain_graph=True)
    assert gone() is not None
    loss.backward()
    assert gone() is None


def test_arrays_go_with_their_nodes():
    x = leaf(np.ones(10))
    h = x.exp()
    array = weakref.ref(h._data)
    loss = (h * h).sum()
    del h
    assert array() is not None
    loss.backward()
    assert array() is None


def test_forward_without_grad_keeps_nothing():
    w = leaf(np.ones(3))
    with minitorch.no_grad():
        h = w * 2
        gone = weakref.ref(h)
        out = h.exp()
        del h
        assert gone() is None
    assert out._prev == ()


def test_a_detached_tensor_lets_its_graph_go():
    h = leaf([1.0]) * 2
    gone = weakref.ref(h)
    kept = h.detach()
    del h
    assert gone() is None
    assert kept.tolist() == [2.0]


def test_grad_frees_what_backward_frees():
    x = leaf([1.0])
    h = x * 2
    gone = weakref.ref(h)
    loss = h.exp().sum()
    del h
    autograd.grad(loss, x)
    assert gone() is None


def test_the_gradient_of_a_freed_node_is_freed():
    """A leaf's gradient must not hold the gradients of the whole way down."""
    x = leaf(np.ones(1000))
    y = x
    for _ in range(10):
        y = y + 1.0
    loss = y.sum()
    del y
    loss.backward()
    assert x._grad.base is None
    assert x.grad.nbytes == 8000


def test_saved_tensors_live_as_long_as_the_graph():
    x = leaf([1.0])
    out, other = Saves.apply(x, leaf([2.0]))
    gone = weakref.ref(out)
    loss = out.sum() + other.sum()
    del out, other
    assert gone() is not None
    loss.backward()
    assert gone() is None


def test_a_failed_backward_leaves_no_garbage():
    fails = minitorch.op(lambda g, out, x: 1 / 0, name="fails")(lambda x: x * 1)

    def run():
        x = leaf([1.0])
        with contextlib.suppress(ZeroDivisionError):
            fails(x * 2).sum().backward()

    assert_nothing_left(run)


def test_a_constant_result_holds_neither_inputs_nor_attributes():
    x, places = Tensor(np.arange(5.0)), np.array([0, 3])
    alive = weakref.ref(places)
    y = x[places]
    del places
    assert alive() is None
    assert y.tolist() == [0.0, 3.0]


def test_a_view_of_a_recorded_op_holds_its_base_and_nothing_else():
    x = minitorch.ones(2, 3, requires_grad=True) * 1.0
    tracemalloc.start()
    views = [x.reshape(3, 2) for _ in range(10)]  # (what is made once for all of them)
    before, _ = tracemalloc.get_traced_memory()
    views += [x.reshape(3, 2) for _ in range(1000)]
    size = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert all(view._view is x for view in views)
    assert size / 1000 < 620  # the node, the array, the attributes and their shape, the inputs
