"""Operations of one's own: autograd.Function, and the op declaration with its check."""

import numpy as np
import pytest

import minitorch
from minitorch import Tensor, autograd
from minitorch.autograd import Function, grad
from minitorch.autograd.user_op import OpCheckError
from pytorch import torch
from tensors import leaf


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


class Exp(Function):
    """Saves its output."""

    @staticmethod
    def forward(ctx, x):
        out = x.exp()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, g):
        (out,) = ctx.saved_tensors
        return g * out


class SumAndProduct(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x + y, x * y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g + h * y, g + h * x


# --- Function -----------------------------------------------------------------------------------


def test_single_output():
    x = leaf([1.0, 2.0])
    y = Cube.apply(x)
    assert y.tolist() == [1.0, 8.0]
    assert y.requires_grad
    assert y.grad_fn.name() == "CubeBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_a_saved_output():
    x = leaf([1.0, 2.0])
    Exp.apply(x).sum().backward()
    np.testing.assert_allclose(x.grad, np.exp([1.0, 2.0]))


def test_several_outputs():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    total, product = SumAndProduct.apply(x, y)
    (total.sum() + (product * Tensor(np.array([10.0, 100.0]))).sum()).backward()
    assert x.grad.tolist() == [31.0, 401.0]
    assert y.grad.tolist() == [11.0, 201.0]


@pytest.mark.parametrize("which", [0, 1])
def test_one_of_several_outputs(which):
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    SumAndProduct.apply(x, y)[which].sum().backward()
    assert x.grad.tolist() == ([1.0, 1.0], [3.0, 4.0])[which]


def test_outputs_may_be_a_list():
    class AsList(Function):
        @staticmethod
        def forward(ctx, x):
            return [x * 1, x * 2]

        @staticmethod
        def backward(ctx, g, h):
            return g + 2 * h

    x = leaf([1.0])
    a, b = AsList.apply(x)
    (a + b).sum().backward()
    assert x.grad.tolist() == [3.0]


def test_gradcheck_and_gradgradcheck():
    x, y = leaf([0.5, -1.5]), leaf([0.3, 0.7])
    for f, inputs in ((Cube.apply, x), (Exp.apply, x), (SumAndProduct.apply, (x, y))):
        assert minitorch.gradcheck(f, inputs)
        assert minitorch.gradgradcheck(f, inputs)


def test_derivatives_to_the_fourth_order():
    x = leaf(2.0)
    value = Cube.apply(x)
    for expected in (12.0, 12.0, 6.0):
        (value,) = grad(value, x, create_graph=True)
        assert value.item() == expected
    x = leaf(0.5)
    value = Exp.apply(x)
    for _ in range(4):
        (value,) = grad(value, x, create_graph=True)
        np.testing.assert_allclose(value.item(), np.exp(0.5))


def test_forward_is_not_recorded_but_sees_the_arguments():
    seen = []

    class Look(Function):
        @staticmethod
        def forward(ctx, x, factor, name=None):
            seen.append((minitorch.is_grad_enabled(), x.requires_grad, (x * factor).requires_grad, name))
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g, None

    x = leaf([1.0])
    Look.apply(x, 3, name="n").sum().backward()
    assert seen == [(False, True, False, "n")]
    assert x.grad.tolist() == [1.0]


def test_backward_is_recorded_only_for_create_graph():
    seen = []

    class Look(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append((minitorch.is_grad_enabled(), isinstance(g, Tensor)))
            return g

    x = leaf([1.0])
    y = Look.apply(x).sum()
    grad(y, x, retain_graph=True)
    grad(y, x, create_graph=True)
    assert seen == [(False, True), (True, True)]


def test_needs_input_grad():
    seen = []

    class Look(Function):
        @staticmethod
        def forward(ctx, x, y, k):
            seen.append(ctx.needs_input_grad)
            return x * y * k

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            return g, None, None

    Look.apply(leaf([1.0]), Tensor([2.0]), 3).sum().backward()
    assert seen == [(True, False, False)] * 2


def test_arguments_that_are_no_tensors():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor, mode):
            ctx.factor = factor
            assert mode == "plain"
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None, None

    x = leaf([1.0])
    Scale.apply(x, 5.0, "plain").sum().backward()
    assert x.grad.tolist() == [5.0]


def test_nothing_is_recorded_without_need():
    x = Tensor(np.array([1.0]))
    assert Cube.apply(x).requires_grad is False
    assert Cube.apply(x).grad_fn is None
    with minitorch.no_grad():
        assert Cube.apply(leaf([1.0])).requires_grad is False


def test_mark_non_differentiable():
    class TopOne(Function):
        @staticmethod
        def forward(ctx, x):
            place = x.argmax()
            flag = (x > 0).double()
            ctx.mark_non_differentiable(place, flag)
            ctx.place = place.item()
            return x.max(), place, flag

        @staticmethod
        def backward(ctx, g, nothing, nothing_too):
            out = np.zeros(3)
            out[ctx.place] = g.item()
            return Tensor(out)

    x = leaf([1.0, 5.0, 2.0])
    value, place, flag = TopOne.apply(x)
    assert (value.requires_grad, place.requires_grad, flag.requires_grad) == (True, False, False)
    assert place.item() == 1
    value.backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]


class Both(Function):
    seen = None
    materialize = True

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(Both.materialize)
        return x * 1, x * 2

    @staticmethod
    def backward(ctx, g, h):
        Both.seen.append([None if t is None else t.tolist() for t in (g, h)])
        zero = Tensor(np.zeros(2))
        return (zero if g is None else g) + 2 * (zero if h is None else h)


@pytest.mark.parametrize(("materialize", "missing"), [(True, [0.0, 0.0]), (False, None)])
def test_set_materialize_grads(materialize, missing, monkeypatch):
    monkeypatch.setattr(Both, "materialize", materialize)
    monkeypatch.setattr(Both, "seen", [])
    for create_graph in (False, True):
        x = leaf([1.0, 2.0])
        a, b = Both.apply(x)
        assert grad(a.sum(), x, create_graph=create_graph, retain_graph=True)[0].tolist() == [1.0, 1.0]
        assert grad(b.sum(), x, create_graph=create_graph, retain_graph=True)[0].tolist() == [2.0, 2.0]
    assert Both.seen == [[[1.0, 1.0], missing], [missing, [1.0, 1.0]]] * 2


def test_setup_context():
    class Square(Function):
        @staticmethod
        def forward(x, power):
            return x**power

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, power = inputs
            ctx.save_for_backward(x, output)
            ctx.power = power

        @staticmethod
        def backward(ctx, g):
            x, out = ctx.saved_tensors
            return g * ctx.power * out / x, None

    x = leaf([2.0, 3.0])
    Square.apply(x, 2).sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


def returning(*answers):
    class Returns(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            made = [g * 1 if isinstance(a, str) else a for a in answers]
            return made[0] if len(made) == 1 else tuple(made)

    return Returns


def test_the_wrong_number_of_gradients():
    x, y = leaf([1.0]), leaf([2.0])
    with pytest.raises(RuntimeError, match=r"Returns\.backward returned 1 gradients, but forward takes 2"):
        returning("g").apply(x, y).sum().backward()
    with pytest.raises(RuntimeError, match="returned 3 gradients"):
        returning("g", "g", "g").apply(x, y).sum().backward()
    returning("g", "g", None).apply(x, y).sum().backward()  # as PyTorch: what is None too much is no harm
    assert (x.grad.tolist(), y.grad.tolist()) == ([1.0], [1.0])


def test_a_gradient_of_the_wrong_shape():
    x, y = leaf([1.0, 2.0]), leaf([2.0, 3.0])
    with pytest.raises(RuntimeError, match=r"shape \(3,\) for argument 0 of shape \(2,\)"):
        returning(Tensor(np.ones(3)), None).apply(x, y).sum().backward()
    assert x.grad is None


def test_a_gradient_that_was_broadcast_is_summed():
    x, y = leaf([[1.0, 2.0]]), leaf([2.0, 3.0])
    returning(Tensor(np.ones((4, 2))), None).apply(x, y).sum().backward()
    assert x.grad.tolist() == [[4.0, 4.0]]


def test_gradients_may_be_arrays():
    x, y = leaf([1.0, 2.0]), leaf([2.0, 3.0])
    returning(np.array([7.0, 8.0]), None).apply(x, y).sum().backward()
    assert x.grad.tolist() == [7.0, 8.0]
    assert y.grad is None


def test_a_gradients_dtype_follows_its_input():
    x, y = leaf([1.0, 2.0], np.float32), leaf([2.0, 3.0])
    returning(np.array([7.0, 8.0]), "g").apply(x, y).sum().backward()
    assert x.grad.dtype == np.float32
    assert y.grad.dtype == np.float64


def test_forward_must_return_tensors():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1, 3.0

    with pytest.raises(TypeError, match=r"Wrong\.forward: output 1 must be a Tensor, got float"):
        Wrong.apply(leaf([1.0]))


def test_only_tensors_can_be_saved():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, 3.0)
            return x * 1

    with pytest.raises(TypeError, match="save_for_backward: argument 1 must be a Tensor, got float"):
        Wrong.apply(leaf([1.0]))


def test_nothing_may_be_saved_as_none():
    class SavesNone(Function):
        @staticmethod
        def forward(ctx, x, bias):
            ctx.save_for_backward(x, bias)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            _, bias = ctx.saved_tensors
            assert bias is None
            return g, None

    x = leaf([1.0])
    SavesNone.apply(x, None).sum().backward()
    assert x.grad.tolist() == [1.0]


def test_a_function_without_forward_or_backward_says_so():
    class Empty(Function):
        pass

    class OnlyForward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    with pytest.raises(NotImplementedError, match="forward"):
        Empty.apply(leaf([1.0]))
    with pytest.raises(NotImplementedError, match="backward"):
        OnlyForward.apply(leaf([1.0])).sum().backward()


def test_an_input_handed_back_is_a_result_of_its_own():
    class Identity(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    x = leaf([1.0])
    y = Identity.apply(x)
    assert y is not x
    y.sum().backward()
    assert x.grad.tolist() == [5.0]
    assert Identity.apply(x.detach()) is not x


def test_the_same_tensor_as_two_arguments():
    x = leaf([3.0])
    SumAndProduct.apply(x, x)[1].sum().backward()
    assert x.grad.tolist() == [6.0]


def test_functions_inside_functions():
    class Outer(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return Cube.apply(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with minitorch.enable_grad():
                again = x.detach().requires_grad_()
                (inner,) = grad(Cube.apply(again), again, g)
            return inner

    x = leaf([2.0])
    Outer.apply(x).sum().backward()
    assert x.grad.tolist() == [12.0]


def test_clamp_with_a_straight_through_gradient_as_pytorch():
    def straight_through(module):
        class RoundSTE(module.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.round()

            @staticmethod
            def backward(ctx, g):
                return g.clamp(-1, 1)

        return RoundSTE

    values = np.array([0.2, 1.7, -2.4])
    ours, theirs = leaf(values), torch.tensor(values, requires_grad=True)
    (straight_through(minitorch).apply(ours) * 3).sum().backward()
    (straight_through(torch).apply(theirs) * 3).sum().backward()
    assert ours.grad.tolist() == theirs.grad.tolist()


def test_reading_saved_tensors_gives_the_arguments_themselves():
    seen = []

    class Look(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.saved_tensors[0])
            return g

    x = leaf([1.0])
    Look.apply(x).sum().backward()
    assert seen[0] is x


# --- op: what it makes --------------------------------------------------------------------------


def squared_relu():
    return minitorch.op(lambda g, out, x: g * (x > 0) * 2 * x)(lambda x: np.maximum(x, 0) ** 2)


def test_an_op_is_a_function_of_tensors():
    @minitorch.op(lambda g, out, x, y: g * y, lambda g, out, x, y: g * x)
    def times(x, y):
        """The product."""
        return x * y

    x, y = leaf([[1.0], [2.0]]), leaf([3.0, 4.0, 5.0])
    out = times(x, y)
    assert (out._op, out.grad_fn.name(), times.__name__) == ("times", "TimesBackward0", "times")
    assert times.__doc__ == "The product."
    assert repr(times) == "<op times>"
    out.sum().backward()
    assert x.grad.tolist() == [[12.0], [12.0]]
    assert y.grad.tolist() == [3.0, 3.0, 3.0]


def test_an_op_takes_numbers_lists_and_arrays():
    times = minitorch.op(lambda g, out, x, y: g * y, lambda g, out, x, y: g * x, name="times")(np.multiply)
    assert times([1.0, 2.0], 3.0).tolist() == [3.0, 6.0]
    assert times(np.ones(2), leaf([1.0, 2.0])).dtype == np.float64
    assert times(Tensor([1.0]), Tensor(np.ones(1))).dtype == np.float64


def test_attributes_reach_forward_and_rules():
    scale = minitorch.op(lambda g, out, x, *, by: g * by, name="scale")(lambda x, *, by: x * by)
    x = leaf([1.0])
    scale(x, by=4.0).sum().backward()
    assert x.grad.tolist() == [4.0]


def test_an_input_without_a_derivative():
    pick = minitorch.op(lambda g, out, x, m: g * m, None, name="pick")(lambda x, m: x * m)
    x, mask = leaf([1.0, 2.0]), Tensor([True, False])
    pick(x, mask).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0]


def test_a_joint_rule_and_several_results():
    both = minitorch.op(
        joint=lambda g, out, x, y: [g[0] * y + g[1], g[0] * x - g[1]], several=True, name="both"
    )(lambda x, y: (x * y, x - y))
    x, y = leaf([2.0]), leaf([3.0])
    product, difference = both(x, y)
    (product * 10 + difference).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([31.0], [19.0])
    assert both.check(x, y).ok


def test_an_op_has_higher_derivatives():
    x = leaf([1.5])
    op = squared_relu()
    (g,) = grad(op(x).sum(), x, create_graph=True)
    (h,) = grad(g.sum(), x)
    assert h.tolist() == [2.0]


def test_an_op_does_not_enter_the_librarys_own_table():
    before = set(minitorch.ops.OPS)
    minitorch.op(lambda g, out, x: g, name="exp")(lambda x: x)
    assert set(minitorch.ops.OPS) == before


def test_rules_and_inputs_must_be_equally_many():
    x = Tensor([1.0, 2.0], requires_grad=True)
    half = minitorch.op(lambda g, out, x, y: g * y, name="half")(lambda x, y: x * y)
    with pytest.raises(TypeError, match=r"half: 2 inputs met 1 rule\. Give op\(…\) one rule for each input"):
        half(x, x)
    with pytest.raises(TypeError, match="half: 2 inputs met 1 rule"):  # also where nothing is recorded
        half(1.0, 2.0)
    with pytest.raises(OpCheckError, match="half: 2 inputs met 1 rule"):
        half.check(x, x)
    half(x, y=3.0).sum().backward()  # y is no input here
    assert x.grad.tolist() == [3.0, 3.0]
    rule = lambda g, out, *inputs: g
    for forward, most in ((lambda x: x, 1), (np.exp, 1), (np.add, 2), (lambda x, y=None: x, 2)):
        with pytest.raises(TypeError, match=rf"op: same takes at most {most} inputs, but 3 rules were given"):
            minitorch.op(rule, rule, rule, name="same")(forward)
    minitorch.op(rule, rule, rule, name="any")(lambda *xs: xs[0])
    minitorch.op(rule, None, name="optional")(lambda x, y=None: x * 1)(x).sum().backward()


def test_a_declaration_that_cannot_work_is_refused():
    with pytest.raises(TypeError, match="one rule per input"):
        minitorch.op()
    with pytest.raises(TypeError, match="rules must be functions"):
        minitorch.op(3.0)


# --- op: its check ------------------------------------------------------------------------------


def good(*rules, **options):
    return lambda forward: minitorch.op(*rules, name="candidate", **options)(forward)


def test_a_right_op_is_proven():
    report = squared_relu().check(Tensor([0.5, -1.0, 2.0]))
    assert report.ok
    assert "proven" in str(report)
    names = [what for what, passed, _ in report.lines if passed]
    assert names == [
        "float32 in, float32 out",
        "inputs and gradient left as they were",
        "gradcheck",
        "gradgradcheck",
        "many examples at once (vmap)",
        "forward mode",
        "compiled",
    ]
    assert not any(why for _, _, why in report.lines)
    times = good(lambda g, out, x, y: g * y, lambda g, out, x, y: g * x)(lambda x, y: x * y)
    report = times.check(np.array([[0.5, 1.5], [2.0, 0.1]]), np.array([[0.3, 0.7], [1.0, -1.0]]))
    assert report.ok
    assert "broadcasting" in [what for what, _, _ in report.lines]


def test_an_op_with_odd_code_is_right_in_every_reading_and_told():
    odd = good(lambda g, out, x: g * float(np.sqrt(2.0)) + 0 * x)(
        lambda x: x * float(np.sqrt(abs(float(x[0]) * 0 + 2.0)))
    )
    report = odd.check(Tensor([0.5, -1.0]))
    assert report.ok
    said = {what: why for what, _, why in report.lines}
    assert "one after the other" in said["many examples at once (vmap)"]
    assert not said["forward mode"]


def test_a_reading_that_differs_is_told():
    # On a batch, or compiled, it would compute something else than on one array.
    sly = good(lambda g, out, x: g * 2)(lambda x: x * 2 if type(x) is np.ndarray else x * 3)
    report = sly.check(Tensor([0.5, -1.0]), raise_exception=False)
    assert next(what for what, passed, _ in report.lines if not passed) == "many examples at once (vmap)"
    assert "differs" in str(report)


def forward_writes_into_input(x):
    x[0] = 5.0
    return x * 2


def rule_writes_into_gradient(g, out, x):
    g *= 2
    return g


def rule_writes_into_output(g, out, x):
    out[...] = 0
    return 2 * g


def rule_writes_into_input(g, out, x):
    x *= 2
    return 2 * g


BROKEN = {
    "a wrong rule": (good(lambda g, out, x: 3 * g * x)(lambda x: x * x), 1, "gradcheck"),
    "a wrong sign": (good(lambda g, out, x: g * np.sin(x))(np.cos), 1, "gradcheck"),
    "the right rule at one place only": (good(lambda g, out, x: g * 2.0)(lambda x: x * x), 1, "gradcheck"),
    "rules in the wrong order": (
        good(lambda g, out, x, y: g * x, lambda g, out, x, y: g * y)(lambda x, y: x * y), 2, "gradcheck",
    ),
    "a rule that forgets g": (good(lambda g, out, x: 2 * x)(lambda x: x * x), 1, "gradcheck"),
    "a rule that is right only to first order": (
        good(lambda g, out, x: 2 * g * np.asarray(getattr(x, "_data", x)))(lambda x: x * x), 1, "gradgradcheck",
    ),
    "double precision whatever comes in": (
        good(lambda g, out, x: 2 * g * x)(lambda x: (x * x).astype(np.float64)), 1, "float32",
    ),
    "single precision whatever comes in": (
        good(lambda g, out, x: 2 * g * x)(lambda x: (x * x).astype(np.float32)), 1, "float32",
    ),
    "a forward that writes into its input": (
        good(lambda g, out, x: 2 * g)(forward_writes_into_input), 1, "left as they were",
    ),
    "a rule that writes into g": (
        good(rule_writes_into_gradient)(lambda x: x * 2), 1, "left as they were",
    ),
    "a rule that writes into out": (
        good(rule_writes_into_output)(lambda x: x * 2), 1, "left as they were",
    ),
    "a rule that writes into an input": (
        good(rule_writes_into_input)(lambda x: x * 2), 1, "left as they were",
    ),
    "a rule that does not run on Tensors": (
        good(lambda g, out, x: g * np.interp(x, [0, 9], [0, 9]) * 2)(lambda x: x * x), 1, "gradgradcheck",
    ),
    "a rule that reads raw memory": (
        good(lambda g, out, x: 2 * g * np.frombuffer(x.tobytes()).reshape(x.shape))(lambda x: x * x), 1,
        "gradgradcheck",
    ),
    "a gradient of another shape": (
        good(lambda g, out, x: (2 * g * x)[:1])(lambda x: x * x), 1, "gradcheck",
    ),
    "broadcasting undone along the wrong axis": (
        good(lambda g, out, x, y: (g * y).sum(axis=1, keepdims=True) * np.ones(x.shape) / g.shape[1]
             if x.shape != g.shape else g * y, lambda g, out, x, y: g * x)(lambda x, y: x * y), 2, "broadcasting",
    ),
    "broadcasting cut off instead of summed": (
        good(lambda g, out, x, y: (g * y)[: x.shape[0]], lambda g, out, x, y: g * x)(lambda x, y: x * y), 2,
        "broadcasting",
    ),
    "broadcasting of the last axis forgotten": (
        good(lambda g, out, x, y: (g * y)[:, : x.shape[1]], lambda g, out, x, y: g * x)(lambda x, y: x * y), 2,
        "broadcasting",
    ),
    "a random forward": (
        good(lambda g, out, x: g)(lambda x: x + np.random.default_rng().normal(size=x.shape)), 1, "gradcheck",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_each_kind_of_broken_op_is_caught(name):
    op, count, where = BROKEN[name]
    values = [np.array([[0.5, 1.5, 2.0], [0.7, 0.1, 1.1]]), np.array([[0.3, 0.6, 1.0], [1.2, -1.0, 0.4]])]
    report = op.check(*values[:count], raise_exception=False)
    assert not report.ok
    failed = [what for what, passed, _ in report.lines if not passed]
    assert any(where in what for what in failed), str(report)
    with pytest.raises(OpCheckError, match="not proven"):
        op.check(*values[:count])


def test_a_check_leaves_the_callers_tensors_alone():
    op = good(lambda g, out, x: 2 * g * x)(lambda x: x * x)
    x = leaf([1.0, 2.0])
    op.check(x)
    assert x.grad is None
    assert x.tolist() == [1.0, 2.0]
    bad = good(lambda g, out, x: 2 * g)(forward_writes_into_input)
    bad.check(x, raise_exception=False)
    assert x.tolist() == [1.0, 2.0]


def test_a_check_takes_integer_inputs_and_attributes():
    take = good(lambda g, out, x, i, *, by: np.zeros(x.shape, like=g) + 0 * g.sum() + by, None)(
        lambda x, i, *, by: x[i] * by
    )
    assert not take.check(np.ones(3), np.array([0, 1]), by=2.0, raise_exception=False).ok
    scale = good(lambda g, out, x, k, *, by: g * k.astype(x.dtype) * by, None)(
        lambda x, k, *, by: x * k.astype(x.dtype) * by
    )
    assert scale.check(np.ones(3), np.array([1, 2, 3]), by=2.0).ok


def test_a_check_accepts_a_missing_input():
    maybe = good(lambda g, out, x, y: g if y is None else g * y, lambda g, out, x, y: g * x)(
        lambda x, y: x * 1 if y is None else x * y
    )
    assert maybe.check(np.ones(3), None).ok


def test_op_and_function_agree():
    cube = good(lambda g, out, x: 3 * g * x * x)(lambda x: x * x * x)
    for f in (cube, Cube.apply):
        x = leaf([0.5, -2.0])
        f(x).sum().backward()
        np.testing.assert_allclose(x.grad, 3 * x.data**2)
    assert autograd.op is minitorch.op
