"""autograd.grad, higher derivatives, functional transforms, and walking grad_fn."""

import numpy as np
import pytest

import minitorch
from minitorch import Tensor, autograd
from minitorch.autograd import functional, grad
from pytorch import torch
from tensors import leaf

# --- grad ---------------------------------------------------------------------------------------


def test_one_output_one_input():
    x = leaf([1.0, 2.0, 3.0])
    result = grad((x**3).sum(), x)
    assert type(result) is tuple
    assert len(result) == 1
    assert isinstance(result[0], Tensor)
    assert result[0].tolist() == [3.0, 12.0, 27.0]
    assert result[0].requires_grad is False


def test_grad_touches_no_grad_field():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    h = x * w
    loss = (h * h).sum()
    x.grad = np.array([7.0, 7.0])
    grad(loss, (x, w, h))
    assert x.grad.tolist() == [7.0, 7.0]
    assert (w.grad, h.grad, loss.grad) == (None, None, None)


def test_several_outputs_and_inputs():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    dx, dw = grad([(x * w).sum(), x.sum()], [x, w])
    assert dx.tolist() == [4.0, 5.0]
    assert dw.tolist() == [1.0, 2.0]


def test_grad_outputs():
    x = leaf([1.0, 2.0])
    y = x * x
    for seed in (Tensor(np.array([1.0, 10.0])), np.array([1.0, 10.0]), [Tensor(np.array([1.0, 10.0]))]):
        (dx,) = grad(y, x, seed, retain_graph=True)
        assert dx.tolist() == [2.0, 40.0]
    dx, = grad([y, x.sum()], x, [np.array([1.0, 1.0]), None], retain_graph=True)  # fmt: skip
    assert dx.tolist() == [3.0, 5.0]
    with pytest.raises(RuntimeError, match=r"shape \(2,\).*one element"):
        grad(y, x)
    with pytest.raises(RuntimeError, match=r"\(3,\).*\(2,\)"):
        grad(y, x, np.ones(3))
    with pytest.raises(RuntimeError, match="1 outputs but 2"):
        grad(y, x, [None, None])


def test_an_intermediate_is_an_input_too():
    x = leaf([1.0, 2.0])
    h = x * 3
    loss = (h * h).sum()
    dh, dx, dloss = grad(loss, (h, x, loss))
    assert dh.tolist() == [6.0, 12.0]
    assert dx.tolist() == [18.0, 36.0]
    assert dloss.item() == 1.0


def test_an_input_named_twice_gets_its_gradient_twice():
    x = leaf([1.0])
    a, b = grad((x * 3).sum(), (x, x))
    assert a.tolist() == b.tolist() == [3.0]
    a[0] = 50.0
    assert b.tolist() == [3.0]


def test_the_input_itself_as_output():
    x = leaf(2.0)
    assert grad(x, x)[0].item() == 1.0


def test_results_share_nothing():
    x, y = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    seed = np.array([1.0, 1.0])
    dx, dy = grad(x + y, (x, y), seed)
    dx[0] = 50.0
    assert dy.tolist() == [1.0, 1.0]
    assert seed.tolist() == [1.0, 1.0]
    seed[:] = 9.0
    assert dy.tolist() == [1.0, 1.0]
    (ds,) = grad(x.sum(), x)
    ds[0] = 5.0  # a gradient of its own, not a stretched view
    assert ds.tolist() == [5.0, 1.0]


def test_unused_inputs():
    x, unused = leaf([1.0]), leaf([2.0, 3.0])
    y = (x * 2).sum()
    with pytest.raises(RuntimeError, match=r"input 1 \(shape \(2,\)\).*allow_unused=True"):
        grad(y, (x, unused), retain_graph=True)
    assert grad(y, (x, unused), allow_unused=True, retain_graph=True)[1] is None
    zeros = grad(y, (x, unused), materialize_grads=True, retain_graph=True)[1]
    assert zeros.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="materialize_grads"):
        grad(y, x, materialize_grads=True, allow_unused=False)


def test_a_path_that_is_constant_is_unused():
    x = leaf([1.0])
    y = leaf([2.0])
    assert grad((x.detach() * y).sum(), (x, y), allow_unused=True)[0] is None


def test_what_cannot_be_differentiated():
    x, constant = leaf([1.0]), Tensor([1.0])
    with pytest.raises(RuntimeError, match="output 0 does not require grad"):
        grad(constant.sum(), x)
    with pytest.raises(RuntimeError, match="input 1 does not require grad"):
        grad(x.sum(), (x, constant))
    with pytest.raises(TypeError, match="input 0 must be a Tensor, got float"):
        grad(x.sum(), [1.0])
    with pytest.raises(TypeError, match="output 0 must be a Tensor"):
        grad([None], x)


def test_the_graph_is_consumed_unless_retained():
    x = leaf([1.0])
    y = x.exp().sum()
    grad(y, x, retain_graph=True)
    grad(y, x)
    with pytest.raises(RuntimeError, match="second time"):
        grad(y, x)
    y = x.exp().sum()
    grad(y, x, create_graph=True)  # keeps it
    y.backward()


def test_dtypes_and_shapes():
    x, w = leaf(np.ones((3, 1)), np.float32), leaf(np.ones(4))
    dx, dw = grad((x * w).sum(), (x, w))
    assert (dx.dtype, dx.shape) == (np.float32, (3, 1))
    assert (dw.dtype, dw.shape) == (np.float64, (4,))
    (scalar,) = grad(leaf(2.0) * (y := leaf(3.0)), y)
    assert isinstance(scalar.data, np.ndarray)


def test_rules_that_lead_nowhere_are_not_run():
    runs = []

    def spy(name):
        def rule(g, out, x):
            runs.append(name)
            return g

        return minitorch.op(rule, name=name)(lambda x: x * 1)

    x, y = leaf([1.0]), leaf([2.0])
    loss = (spy("on the way")(x) * spy("aside")(y) + spy("aside too")(y)).sum()
    grad(loss, x, retain_graph=True)
    assert runs == ["on the way"]
    runs.clear()
    loss.backward(inputs=[x], retain_graph=True)
    assert runs == ["on the way"]
    runs.clear()
    loss.backward()
    assert sorted(runs) == ["aside", "aside too", "on the way"]


def test_the_rule_for_a_parent_nobody_asked_for_is_not_run():
    runs = []

    def rule(name):
        def run(g, out, x, y):
            runs.append(name)
            return g

        return run

    add = minitorch.op(rule("x"), rule("y"), name="add_spy")(lambda x, y: x + y)
    x, y = leaf([1.0]), leaf([2.0])
    grad(add(x, y).sum(), y)
    assert runs == ["y"]
    runs.clear()
    add(x, Tensor(np.array([1.0]))).sum().backward()
    assert runs == ["x"]


def test_an_output_that_does_not_reach_the_inputs_is_left_alone():
    runs = []

    def joint(g, out, x):
        runs.append(1)
        return [g]

    aside = minitorch.op(joint=joint, name="aside")(lambda x: x * 1)
    x, y = leaf([1.0]), leaf([2.0])
    (dx,) = grad([x.sum(), aside(y).sum(), aside(y)], x, [None, None, np.ones(1)])
    assert dx.tolist() == [1.0]
    assert runs == []


# --- higher order -------------------------------------------------------------------------------


def derivatives(f, at, order):
    x = leaf(at)
    value = f(x)
    found = []
    for _ in range(order):
        (value,) = grad(value, x, create_graph=True)
        found.append(value.item())
    return found


def test_derivatives_to_any_order():
    np.testing.assert_allclose(derivatives(lambda x: x**5, 2.0, 6), [80, 160, 240, 240, 120, 0])
    e = np.exp(0.7)
    np.testing.assert_allclose(derivatives(lambda x: x.exp(), 0.7, 5), [e] * 5)
    s, c = np.sin(0.7), np.cos(0.7)
    np.testing.assert_allclose(derivatives(lambda x: x.sin(), 0.7, 8), [c, -s, -c, s, c, -s, -c, s])
    np.testing.assert_allclose(derivatives(lambda x: x.log(), 2.0, 4), [0.5, -0.25, 0.25, -0.375])


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "f",
    [
        lambda m, x, w: (x @ w).tanh().sum(),
        lambda m, x, w: ((x * w).exp() / (1 + x * x)).mean(),
        lambda m, x, w: m.softmax(x @ w, -1)[0, 1],
        lambda m, x, w: m.stack([x * w, x + w]).prod(),
        lambda m, x, w: m.cat([x, w.mT]).split(1)[1].pow(3).sum() + m.logsumexp(x * w, 0).sum(),
        lambda m, x, w: m.linalg.inv(x @ w + 5 * m.eye(2, dtype=x.dtype)).sum(),
    ],
)
def test_mixed_higher_derivatives_as_pytorch(f, order):
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.3, 1.0, (2, 2)) for _ in range(2)]

    def nested(m, differentiate, x, w):
        value = f(m, x, w)
        for k in range(order):
            value = differentiate(value, (x, w)[k % 2])
            value = (value * value).sum() if k % 2 else value.sum()
        return value.item()

    ours = [leaf(a) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    mine = nested(minitorch, lambda v, t: grad(v, t, create_graph=True)[0], *ours)
    other = nested(torch, lambda v, t: torch.autograd.grad(v, t, create_graph=True)[0], *theirs)
    np.testing.assert_allclose(mine, other, rtol=1e-9)


def test_a_gradient_penalty_trains_through_backward():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (dx,) = grad(((x * w) ** 2).sum(), x, create_graph=True)
    assert dx.requires_grad
    dx.square().sum().backward()
    tx, tw = (torch.tensor(t.detach().numpy().copy(), requires_grad=True) for t in (x, w))
    (tdx,) = torch.autograd.grad(((tx * tw) ** 2).sum(), tx, create_graph=True)
    tdx.square().sum().backward()
    np.testing.assert_allclose(w.grad, tw.grad.numpy())
    np.testing.assert_allclose(x.grad, tx.grad.numpy())


def test_the_seed_may_depend_on_the_inputs():
    x = leaf([1.0, 2.0])
    v = leaf([3.0, 4.0])
    (jv,) = grad(x * x, x, v, create_graph=True)
    (dv,) = grad(jv.sum(), v)
    assert dv.tolist() == [2.0, 4.0]


def test_create_graph_on_a_linear_function_gives_a_constant():
    x = leaf([1.0])
    (g,) = grad((x * 3).sum(), x, create_graph=True)
    assert g.tolist() == [3.0]
    assert grad((g * x).sum(), x)[0].tolist() == [3.0]


def test_create_graph_inside_no_grad():
    x = leaf([2.0])
    y = (x**3).sum()
    with minitorch.no_grad():
        (g,) = grad(y, x, create_graph=True)
        assert not minitorch.is_grad_enabled()
    assert grad(g, x)[0].tolist() == [12.0]


def test_second_derivatives_in_float32_stay_float32():
    x = leaf([0.5], np.float32)
    (g,) = grad((x.exp() * x).sum(), x, create_graph=True)
    (h,) = grad(g.sum(), x)
    assert (g.dtype, h.dtype) == (np.float32, np.float32)


# --- functional ---------------------------------------------------------------------------------


def f_single(m, x):
    return (x**3).sin()


def f_scalar(m, x):
    return (x.exp() * x).sum()


def f_two_inputs(m, x, w):
    return x.exp() @ w


def f_two_outputs(m, x, w):
    return (x * w).sum(), x.exp()


def f_partly_constant(m, x, w):
    return x * 2, m.ones(2, dtype=x.dtype)


def f_scalar_of_two(m, x, w):
    return ((x * w).exp() + x**2).sum()


def f_linear(m, x, w):
    return (3 * x + w).sum()


X, W = np.array([0.3, -0.8]), np.array([1.1, 0.4])


def both(name, f, arrays, *vectors, **options):
    """functional.name(f, …) of both libraries."""
    results = []
    for m, make in ((minitorch, leafless), (torch, torch.tensor)):
        inputs = tuple(make(a) for a in arrays)
        given = [tuple(make(v) for v in vs) if isinstance(vs, list) else make(vs) for vs in vectors]
        transform = getattr(m.autograd.functional, name)
        call = lambda *t, m=m: f(m, *t)
        results.append(transform(call, inputs if len(inputs) > 1 else inputs[0], *given, **options))
    return results


def leafless(a):
    return Tensor(np.asarray(a))


def assert_same(mine, theirs):
    if isinstance(theirs, tuple):
        assert isinstance(mine, tuple)
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            assert_same(a, b)
        return
    assert isinstance(mine, Tensor)
    assert mine.shape == tuple(theirs.shape)
    assert mine.dtype == np.float64
    assert mine.requires_grad == theirs.requires_grad
    np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-12, atol=1e-12)


V, U = np.array([0.7, 1.3]), np.array([-0.2, 0.9])


@pytest.mark.parametrize(
    "case",
    [
        ("vjp", f_single, [X], V), ("vjp", f_scalar, [X]), ("vjp", f_two_inputs, [X, W]),
        ("vjp", f_two_outputs, [X, W], [np.array(2.0), V]), ("vjp", f_partly_constant, [X, W], [V, U]),
        ("jvp", f_single, [X], V), ("jvp", f_two_inputs, [X, W], [V, U]),
        ("jvp", f_two_outputs, [X, W], [V, U]), ("jvp", f_partly_constant, [X, W], [V, U]),
        ("jvp", f_single, [np.array(0.5)]),
        ("jacobian", f_single, [X]), ("jacobian", f_scalar, [X]), ("jacobian", f_two_inputs, [X, W]),
        ("jacobian", f_two_outputs, [X, W]), ("jacobian", f_partly_constant, [X, W]),
        ("jacobian", f_single, [np.arange(6.0).reshape(2, 3) / 5]),
        ("hessian", f_scalar, [X]), ("hessian", f_scalar_of_two, [X, W]), ("hessian", f_linear, [X, W]),
        ("hessian", f_scalar, [np.arange(4.0).reshape(2, 2) / 5]),
        ("hvp", f_scalar, [X], V), ("hvp", f_scalar_of_two, [X, W], [V, U]), ("hvp", f_linear, [X, W], [V, U]),
        ("vhp", f_scalar, [X], V), ("vhp", f_scalar_of_two, [X, W], [V, U]), ("vhp", f_linear, [X, W], [V, U]),
    ],
    ids=lambda c: f"{c[0]}-{c[1].__name__}",
)  # fmt: skip
def test_functional_as_pytorch(case):
    assert_same(*both(*case))


@pytest.mark.parametrize(
    ("name", "f", "vectors"),
    [
        ("vjp", f_single, [V]), ("jvp", f_single, [V]), ("jacobian", f_single, []), ("hessian", f_scalar, []),
        ("hvp", f_scalar, [V]), ("vhp", f_scalar, [V]),
    ],
)  # fmt: skip
def test_functional_results_can_be_differentiated_again(name, f, vectors):
    results = []
    for m in (minitorch, torch):
        x = leaf(X) if m is minitorch else torch.tensor(X, requires_grad=True)
        given = [leafless(v) if m is minitorch else torch.tensor(v) for v in vectors]
        found = getattr(m.autograd.functional, name)(lambda t, m=m: f(m, t), x, *given, create_graph=True)
        last = found[-1] if isinstance(found, tuple) else found
        assert last.requires_grad
        results.append(m.autograd.grad((last * last).sum(), x)[0].detach().numpy())
    np.testing.assert_allclose(*results, rtol=1e-10)


def test_functional_leaves_inputs_alone():
    x = leaf(X)
    functional.jacobian(lambda t: t * t, x)
    functional.hessian(lambda t: (t * t).sum(), x)
    functional.vjp(lambda t: t.sum(), x)
    assert x.grad is None
    constant = leafless(X)
    functional.hvp(lambda t: (t * t).sum(), constant, leafless(V))
    assert constant.requires_grad is False


def test_the_jacobian_of_nothing_has_its_shape():
    assert functional.jacobian(lambda t: t * t, leafless(np.zeros((0, 2)))).shape == (0, 2, 0, 2)


def test_functional_inside_no_grad():
    with minitorch.no_grad():
        assert functional.jacobian(lambda t: t * t, leafless(X)).tolist() == np.diag(2 * X).tolist()
        assert (
            functional.hvp(lambda t: (t * t).sum(), leafless(X), leafless(V))[1].tolist() == (2 * V).tolist()
        )


def test_functional_agrees_with_itself():
    f = lambda t: (t.exp() * t).cumsum(0)
    x, v = leafless(np.array([0.1, 0.2, 0.3])), leafless(np.array([1.0, -2.0, 0.5]))
    J = functional.jacobian(f, x).numpy()
    np.testing.assert_allclose(functional.jvp(f, x, v)[1].numpy(), J @ v.numpy())
    np.testing.assert_allclose(functional.vjp(f, x, v)[1].numpy(), v.numpy() @ J)


def test_functional_refuses_what_it_cannot_do():
    x = leafless(X)
    for call in (
        lambda: functional.vjp(f_single.__get__(minitorch), x),
        lambda: functional.vjp(lambda t: t * t, x, leafless([1.0, 2.0, 3.0])),
        lambda: functional.jvp(lambda t: t * t, x),
        lambda: functional.hessian(lambda t: t * t, x),
        lambda: functional.hvp(lambda t: t * t, x, x),
        lambda: functional.vjp(lambda t: Tensor(1.0), x, strict=True),
        lambda: functional.jacobian(lambda t: Tensor([1.0, 2.0]), x, strict=True),
    ):
        with pytest.raises(RuntimeError):
            call()
    for call in (
        lambda: functional.vjp(lambda t: 3.0, x),
        lambda: functional.vjp(lambda t: t, 3.0),
        lambda: functional.vjp(lambda t: t, [3.0]),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="strategy"):
        functional.jacobian(lambda t: t, x, strategy="sideways")


# --- grad_fn ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: x + 1, "AddBackward0"), (lambda x: x * x, "MulBackward0"), (lambda x: x.exp(), "ExpBackward0"),
        (lambda x: x.sum(), "SumBackward0"), (lambda x: x.reshape(2, 1), "ReshapeBackward0"),
        (lambda x: x.log_softmax(0), "LogSoftmaxBackward0"), (lambda x: x.split(1)[1], "SplitBackward0"),
        (lambda x: x.unbind()[0], "UnbindBackward0"), (lambda x: x @ x, "MatmulBackward0"),
        (lambda x: minitorch.cat([x, x]), "CatBackward0"), (lambda x: -x, "NegBackward0"),
    ],
)  # fmt: skip
def test_names(make, name):
    y = make(leaf([1.0, 2.0]))
    assert y.grad_fn.name() == name
    assert repr(y.grad_fn) == f"<{name}>"
    assert repr(y).endswith(f"grad_fn=<{name}>)")


def test_leaves_and_constants_have_no_grad_fn():
    assert leaf([1.0]).grad_fn is None
    assert (Tensor([1.0]) * 2).grad_fn is None
    assert (leaf([1.0]) * 2).detach().grad_fn is None


def test_next_functions_of_constants_are_none():
    x, c = leaf([1.0]), Tensor(np.array([2.0]))
    ((to_x, _), (to_c, place)) = (x * c).grad_fn.next_functions
    assert to_x.name() == "AccumulateGrad"
    assert (to_c, place) == (None, 0)


def test_one_of_several_results_says_which():
    a, b, c = leaf([1.0, 2.0, 3.0]).split(1)
    out = a * c
    (first, i), (second, k) = out.grad_fn.next_functions
    assert (first.name(), i, second.name(), k) == ("SplitBackward0", 0, "SplitBackward0", 2)
    assert first == second == b.grad_fn
    assert len({first, second, b.grad_fn}) == 1
    assert first.next_functions[0][0].name() == "AccumulateGrad"
    assert (first == 3) is False


def test_the_walk_reaches_every_leaf_of_a_model():
    names = {"W1": leaf(np.ones((2, 3))), "b1": leaf(np.ones(3)), "W2": leaf(np.ones((3, 1)))}
    hidden = (Tensor(np.ones((4, 2))) @ names["W1"] + names["b1"]).relu()
    loss = (hidden @ names["W2"]).mean()
    found, seen, stack = [], set(), [loss.grad_fn]
    while stack:
        fn = stack.pop()
        if fn is None or fn in seen:
            continue
        seen.add(fn)
        if fn.name() == "AccumulateGrad":
            found.append(fn.variable)
        stack += [f for f, _ in fn.next_functions]
    assert {id(t) for t in found} == {id(t) for t in names.values()}
    with pytest.raises(AttributeError, match="MeanBackward0 has no variable"):
        loss.grad_fn.variable


def test_a_freed_graph_still_has_its_names():
    x = leaf([1.0, 2.0])
    piece = x.split(1)[0]
    loss = piece.sum()
    loss.backward()
    assert loss.grad_fn.name() == "SumBackward0"
    assert loss.grad_fn.next_functions == ()
    assert "grad_fn" in repr(piece)


def test_the_graph_as_text():
    x = leaf([1.0, 2.0])
    loss = (x.split(1)[0] * 3).sum()
    table = autograd.graph.describe(loss).splitlines()
    assert [row.split()[1] for row in table] == ["leaf", "split", "mul", "sum"]
    drawing = autograd.graph.dot(loss)
    assert drawing.startswith("digraph {")
    assert drawing.count("->") == 3


def test_a_freed_graph_says_so():
    x = leaf([1.0, 2.0])
    y = x * 3
    loss = y.sum()
    loss.backward()
    for made in (y, loss):
        (row,) = autograd.graph.describe(made).splitlines()
        assert row.endswith("its graph was freed by backward(); backward(retain_graph=True) keeps it")
        assert "freed by backward()" in autograd.graph.dot(made)
    kept = (x * 3).sum()
    kept.backward(retain_graph=True)
    assert "freed" not in autograd.graph.describe(kept) + autograd.graph.dot(kept) + autograd.graph.describe(
        x
    )


# --- what a tensor says of its place in the graph -----------------------------------------------


def test_is_leaf_and_retain_grad():
    x = leaf([1.0])
    y = x * 2
    assert (x.is_leaf, y.is_leaf, y.detach().is_leaf, Tensor([1.0]).is_leaf) == (True, False, True, True)
    assert (x.retains_grad, y.retains_grad) == (False, True)
    y.retain_grad()
    y.sum().backward()
    assert y.grad.tolist() == [1.0]
    with pytest.raises(RuntimeError, match="does not require grad"):
        Tensor([1.0]).retain_grad()


def test_detach_shares_memory_and_clone_does_not():
    x = leaf([1.0, 2.0])
    assert np.shares_memory(x.data, x.detach().data)
    copy = x.clone()
    assert not np.shares_memory(x.data, copy.data)
    assert copy.requires_grad
    copy.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert x.detach().requires_grad is False


def test_requires_grad_underscore_returns_itself():
    x = Tensor([1.0])
    assert x.requires_grad_() is x
    assert x.requires_grad
    assert x.requires_grad_(False) is x
    assert not x.requires_grad
