"""detect_anomaly names the first op that makes nan or inf, and its line; the debug switch."""

import gc
import inspect
import threading
from pathlib import Path

import numpy as np
import pytest

import minitorch
from minitorch import Tensor, autograd
from minitorch.autograd.anomaly import AnomalyError
from tensors import leaf

HERE = __file__


def line_of(text):
    """The number of the only line of this file that contains `text` (and not this call)."""
    source = Path(HERE).read_text(encoding="utf-8").splitlines()
    numbers = [i for i, line in enumerate(source, 1) if text in line and "line_of" not in line]
    assert len(numbers) == 1, numbers
    return numbers[0]


def caught(run):
    with pytest.raises(AnomalyError) as error, minitorch.detect_anomaly():
        run()
    return str(error.value)


# --- forward ------------------------------------------------------------------------------------


def test_the_first_offending_op_and_its_line():
    def model(x):
        a = x + 1.0
        b = a - 1.0
        c = b.log()  # here
        return (c * 0.0).sum()  # makes nan too, later

    message = caught(lambda: model(leaf([1.0, 0.0, 2.0])))
    assert message.startswith("log made 1 inf among 3 elements out of finite inputs")
    assert f"{HERE}:{line_of('c = b.log()')}: c = b.log()  # here" in message


@pytest.mark.parametrize(
    ("run", "op"),
    [
        (lambda: leaf([0.0]).log(), "log"),
        (lambda: leaf([-1.0]).sqrt(), "sqrt"),
        (lambda: leaf([1.0]) / leaf([0.0]), "div"),
        (lambda: leaf([1.0]) / 0.0, "div"),
        (lambda: leaf([1000.0]).exp(), "exp"),
        (lambda: leaf([0.0]) ** -1.0, "pow"),
        (lambda: leaf([2.0]).acos(), "acos"),
        (lambda: np.log(leaf([0.0])), "log"),
        (lambda: minitorch.log(leaf([0.0])), "log"),
        (lambda: leaf([]).mean(), "mean"),
    ],
)
def test_ops_that_make_nan_or_inf(run, op):
    assert caught(run).startswith(f"{op} made 1")


def test_ops_without_a_graph_are_looked_at_too():
    assert caught(lambda: Tensor([0.0]).log()).startswith("log made 1 inf")
    with minitorch.no_grad():
        assert caught(lambda: leaf([0.0]).log()).startswith("log made 1 inf")


def test_the_line_is_the_users_however_deep_the_library_is():
    message = caught(lambda: minitorch.autograd.functional.jacobian(lambda t: t.log(), leaf([0.0])))  # deep
    assert f"{HERE}:{line_of('# deep')}" in message
    message = caught(lambda: np.linalg.det(leaf([[0.0]]).reciprocal()))  # through NumPy
    assert f"{HERE}:{line_of('# through NumPy')}" in message


def test_a_method_of_several_lines_names_a_line_of_it():
    def run():
        return (
            leaf([4.0])
            .sub(4.0)
            .log()
        )  # fmt: skip

    message = caught(run)
    start = inspect.getsourcelines(run)[1]
    number = int(message.split(f"{HERE}:")[1].split(":")[0])
    assert start <= number <= start + 5


def test_nan_and_inf_are_counted():
    message = caught(lambda: leaf([-1.0, 0.0, 1.0]).log())
    assert "1 nan and 1 inf among 3 elements" in message


def test_what_was_not_finite_before_is_not_this_ops_fault():
    with minitorch.detect_anomaly():
        x = leaf([np.inf, np.nan, 1.0])
        np.testing.assert_array_equal((x * 2).exp().numpy(force=True)[:2], [np.inf, np.nan])
        assert Tensor([float("-inf")]).exp().tolist() == [0.0]


def test_infinities_asked_for_by_name_are_no_accident():
    with minitorch.detect_anomaly():
        x = leaf([1.0, 2.0])
        mask = Tensor([True, False])
        assert x.masked_fill(mask, -np.inf).tolist() == [-np.inf, 2.0]
        assert minitorch.where(mask, x, -np.inf).tolist() == [1.0, -np.inf]
        assert minitorch.pad(x, (1, 1), value=-np.inf).tolist() == [-np.inf, 1.0, 2.0, -np.inf]
        assert (minitorch.full((2,), np.inf) + 1).tolist() == [np.inf, np.inf]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_masked_softmax_raises_no_alarm(dtype):
    with minitorch.detect_anomaly():
        scores = leaf([[0.3, -0.2, 0.5], [0.1, 0.9, -0.4]], dtype)
        mask = Tensor([[False, True, True], [False, False, True]])
        weights = scores.masked_fill(mask, -minitorch.inf).softmax(-1)
        (weights * weights).sum().backward()
    assert np.isfinite(scores.grad).all()
    with minitorch.detect_anomaly():
        logits = leaf([[0.3, -0.2, 0.5], [0.1, 0.9, -0.4]], dtype)
        masked = logits.masked_fill(mask, -minitorch.inf)
        loss = minitorch.cross_entropy(masked, Tensor([0, 1]))
        loss.backward()
    assert np.isfinite(logits.grad).all()


# --- backward -----------------------------------------------------------------------------------


def test_the_first_offending_derivative_and_the_line_it_was_recorded_at():
    def run():
        x = leaf([1.0, 0.0])
        y = x * 1.0
        z = y.sqrt()  # recorded
        (z * 3.0).sum().backward()

    message = caught(run)
    assert message.startswith("the derivative of sqrt made 1 inf among 2 elements out of a finite gradient")
    assert f"{HERE}:{line_of('# recorded')}: z = y.sqrt()  # recorded" in message


def test_grad_is_looked_at_too():
    x = leaf([0.0])
    assert "derivative of sqrt" in caught(lambda: autograd.grad(x.sqrt().sum(), x))
    assert "derivative of sqrt" in caught(lambda: autograd.grad(x.sqrt().sum(), x, create_graph=True))


def test_leaves_stay_untouched():
    x, y = leaf([0.0]), leaf([1.0])
    caught(lambda: (x.sqrt() * y).sum().backward())
    assert (x.grad, y.grad) == (None, None)


def test_a_graph_recorded_outside_has_no_line():
    y = leaf([0.0]).sqrt().sum()
    assert "recorded outside detect_anomaly" in caught(y.backward)


def test_several_results_have_their_line():
    op = minitorch.op(lambda g, out, x: [g[0] / 0.0, g[1]][0], several=True, name="pair")(
        lambda x: (x * 1, x * 2)
    )

    def run():
        a, b = op(leaf([1.0]))  # pair of results
        (a + b).sum().backward()

    assert f"{HERE}:{line_of('# pair of results')}" in caught(run)


def test_a_function_has_its_line():
    class Breaks(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g / 0.0

    def run():
        out = Breaks.apply(leaf([1.0]))  # my own function
        out.sum().backward()

    # The division inside backward is itself an op, and is named as such.
    message = caught(run)
    assert "div made 1 inf" in message
    assert f"{HERE}:{line_of('return g / 0.0')}" in message


def test_a_function_that_breaks_unseen_has_its_line():
    class BreaksUnseen(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return np.array([np.nan])

    def run():
        out = BreaksUnseen.apply(leaf([1.0]))  # my silent function
        out.sum().backward()

    message = caught(run)
    assert message.startswith("the derivative of BreaksUnseen made 1 nan")
    assert f"{HERE}:{line_of('# my silent function')}" in message


def test_a_checkpoint_has_its_line():
    def run():
        x = leaf([0.0])
        out = autograd.checkpoint(lambda t: t.sqrt(), x)  # inside a checkpoint
        out.sum().backward()

    message = caught(run)
    assert "derivative of sqrt" in message
    assert f"{HERE}:{line_of('# inside a checkpoint')}" in message


# --- the branch not taken -----------------------------------------------------------------------


def test_where_in_forward_explains_the_fix():
    def run():
        x = leaf([1.0, 0.0])
        return minitorch.where(x > 0, x.log(), 0.0).sum()

    message = caught(run)
    assert message.startswith("log made 1 inf")
    assert "where" in message
    assert "safe = minitorch.where(condition, x, 1.0)" in message
    assert "log(safe)" in message


def test_where_in_backward_explains_the_fix():
    def run():
        x = leaf([4.0, 0.0])
        root = x.sqrt()  # finite, but its slope is not
        minitorch.where(x > 0, root, 0.0).sum().backward()

    message = caught(run)
    assert message.startswith("the derivative of sqrt made 1 nan among 2 elements")
    assert "0·inf = nan" in message
    assert "safe = minitorch.where(condition, x, 1.0)" in message
    assert "sqrt(safe)" in message
    assert f"{HERE}:{line_of('# finite, but its slope is not')}" in message


def test_the_fix_it_names_works():
    with minitorch.detect_anomaly():
        x = leaf([4.0, 0.0])
        condition = x > 0
        for f in (minitorch.sqrt, minitorch.log):
            safe = minitorch.where(condition, x, 1.0)
            y = minitorch.where(condition, f(safe), 0.0)
            y.sum().backward()
    assert np.isfinite(x.grad).all()
    np.testing.assert_allclose(x.grad, [0.25 + 0.25, 0.0])


def test_a_product_with_zero_is_no_where():
    def run():
        x = leaf([4.0, 0.0])
        (x.sqrt() * x).sum().backward()

    message = caught(run)
    assert message.startswith("the derivative of sqrt made 1 nan among 2 elements")
    assert "0·inf = nan" in message
    assert "where" not in message.partition(HERE)[2].partition("\n")[2]
    assert "x.sqrt() * x is x**1.5" in message
    assert "sqrt(x + eps)" in message
    with minitorch.detect_anomaly():  # what it suggests works
        (leaf([4.0, 0.0]) ** 1.5).sum().backward()
        (minitorch.sqrt(leaf([4.0, 0.0]) + 1e-6)).sum().backward()


def test_a_where_further_on_is_found():
    def run():
        x = leaf([4.0, 0.0])
        root = (x.sqrt() * 2.0).reshape(1, 2) + 1.0
        minitorch.where(x > 0, root, 0.0).sum().backward()

    assert "A where was computed from it" in caught(run)


def test_a_division_is_told_about_its_divisor():
    message = caught(lambda: leaf([1.0, 0.0]) / leaf([1.0, 0.0]))
    assert "div(safe)" not in message
    assert "Where a divisor is 0" in message
    assert "minitorch.where(b != 0, a / safe, other)" in message
    with minitorch.detect_anomaly():  # what it suggests works
        a, b = leaf([1.0, 0.0]), leaf([1.0, 0.0])
        safe = minitorch.where(b != 0, b, 1.0)
        minitorch.where(b != 0, a / safe, 0.0).sum().backward()
    assert np.isfinite(a.grad).all()
    assert np.isfinite(b.grad).all()


@pytest.mark.parametrize(
    ("run", "advice"),
    [
        (lambda: leaf([1000.0]).exp(), "logsumexp"),
        (lambda: leaf([]).mean(), "no elements"),
        (lambda: leaf([0.0]) ** -1.0, "x.clamp(min=eps)**p"),
        (lambda: leaf([2.0]).acos(), "acos(x.clamp(-1 + eps, 1 - eps))"),
        (lambda: leaf([1e308]) * 10.0, None),
    ],
)
def test_the_advice_is_that_of_the_op_at_hand(run, advice):
    message = caught(run)
    if advice is None:
        assert message.count("\n") == 1  # what, and the line: no advice is better than a wrong one
    else:
        assert advice in message


def test_an_infinite_slope_that_is_used_gets_no_lecture_on_where():
    message = caught(lambda: leaf([0.0]).sqrt().sum().backward())
    assert "0·inf" not in message


# --- the switch itself --------------------------------------------------------------------------


def looked_at():
    try:
        Tensor([0.0]).log()
    except AnomalyError:
        forward = True
    else:
        forward = False
    y = leaf([0.0]).sqrt().sum()
    try:
        y.backward()
    except AnomalyError:
        return forward, True
    return forward, False


def test_off_by_default():
    assert looked_at() == (False, False)


def test_it_ends_with_its_block_and_nests():
    with minitorch.detect_anomaly():
        assert looked_at() == (True, True)
        with minitorch.detect_anomaly():
            assert looked_at() == (True, True)
        assert looked_at() == (True, True)
        with minitorch.detect_anomaly(check_nan=False):
            assert looked_at() == (False, False)
        assert looked_at() == (True, True)
    assert looked_at() == (False, False)
    with pytest.raises(KeyError), minitorch.detect_anomaly():
        raise KeyError
    assert looked_at() == (False, False)


def test_as_a_decorator():
    @minitorch.detect_anomaly()
    def f():
        return looked_at()

    assert f() == (True, True)
    assert looked_at() == (False, False)


def test_set_detect_anomaly():
    autograd.set_detect_anomaly(True)
    try:
        assert looked_at() == (True, True)
    finally:
        autograd.set_detect_anomaly(False)
    assert looked_at() == (False, False)
    with autograd.set_detect_anomaly(True):
        assert looked_at() == (True, True)
        with autograd.set_detect_anomaly(False):
            assert looked_at() == (False, False)
        assert looked_at() == (True, True)
    assert looked_at() == (False, False)


def test_other_threads_are_not_looked_at_and_switch_nothing_off():
    """Two threads whose blocks overlap: each sees its own, and nothing stays switched on."""
    found = {}
    first_in, second_in, first_out = (threading.Event() for _ in range(3))

    def first():
        with minitorch.detect_anomaly():
            first_in.set()
            second_in.wait(10)
        found["first, after"] = looked_at()
        first_out.set()

    def second():
        first_in.wait(10)
        found["second, before"] = looked_at()
        with minitorch.detect_anomaly():
            second_in.set()
            first_out.wait(10)
            found["second, inside"] = looked_at()
        found["second, after"] = looked_at()

    threads = [threading.Thread(target=t) for t in (first, second)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {
        "first, after": (False, False),
        "second, before": (False, False),
        "second, inside": (True, True),
        "second, after": (False, False),
    }
    assert looked_at() == (False, False)


def test_no_grad_inside_keeps_looking():
    with minitorch.detect_anomaly(), minitorch.no_grad(), pytest.raises(AnomalyError):
        Tensor([0.0]).log()


def test_nothing_is_remembered_afterwards():
    from minitorch.autograd import anomaly

    gc.collect()
    before = len(anomaly._origins)
    with minitorch.detect_anomaly():
        for _ in range(10):
            (leaf([1.0, 2.0]).exp().split(1)[0] * 2).sum().backward()
    assert len(anomaly._origins) <= before


def test_a_right_program_passes_and_computes_the_same():
    rng = np.random.default_rng(0)
    w = leaf(rng.standard_normal((5, 3)))
    x = Tensor(rng.standard_normal((20, 5)))
    f = lambda: minitorch.cross_entropy((x @ w).relu().softmax(-1), Tensor(np.arange(20) % 3))
    f().backward()
    plain = w.grad
    w.grad = None
    with minitorch.detect_anomaly():
        f().backward()
    np.testing.assert_array_equal(w.grad, plain)


# --- debug --------------------------------------------------------------------------------------


class Liar(np.ndarray):
    """A gradient that claims a shape it can be summed from, and keeps another."""

    def astype(self, dtype):
        return np.asarray(self)


def test_debug_is_off_by_default_and_ends_with_its_block():
    assert autograd.is_debug() is False
    with autograd.debug():
        assert autograd.is_debug() is True
        with autograd.debug():
            pass
        assert autograd.is_debug() is True
    assert autograd.is_debug() is False
    with pytest.raises(KeyError), autograd.debug():
        raise KeyError
    assert autograd.is_debug() is False
    autograd.set_debug(True)
    assert autograd.is_debug() is True
    autograd.set_debug(False)
    assert autograd.is_debug() is False


def test_debug_asserts_the_contract_after_every_rule():
    # Only an array that evades the engine's own repair can break the contract.
    evades = minitorch.op(lambda g, out, x: g.astype(np.float32).view(Liar), name="evades")(lambda x: x * 1)
    x = leaf([1.0, 2.0])
    evades(x).sum().backward()  # off: nobody looks
    with (
        autograd.debug(),
        pytest.raises(AssertionError, match=r"'evades' gave a gradient of shape .* float32"),
    ):
        evades(leaf([1.0, 2.0])).sum().backward()


def test_debug_finds_nothing_wrong_with_right_programs():
    with autograd.debug():
        x, w = leaf(np.ones((4, 3)), np.float32), leaf(np.ones(3))
        a, b, c = (x * w).unbind(1)
        loss = (a * b + c.sort().values).sum() + minitorch.cat([x, x]).mean()
        loss.backward()
        (g,) = autograd.grad((w**3).sum(), w, create_graph=True)
        g.sum().backward()
    assert x.grad.dtype == np.float32
