"""Writing into tensors of a graph: every write PyTorch allows gives its gradients, whoever else holds the tensor."""

import copy
import gc
import sys
import weakref

import numpy as np
import pytest

import minitorch
from minitorch import nn
from minitorch.engine import reads
from pytorch import torch


def run(m, program):
    """Run a program on a leaf; return its result, the leaf's gradient, or the kind of refusal."""
    w = m.tensor(np.linspace(-1.0, 2.0, 12).reshape(3, 4), requires_grad=True)
    out = program(m, w)
    weights = m.tensor(np.cos(np.arange(out.numel())).reshape(tuple(out.shape)))
    (out * weights).sum().backward()
    gradient = w.grad if isinstance(w.grad, np.ndarray) else w.grad.numpy()
    return out.detach().numpy(), np.array(gradient)


def same(program):
    mine, theirs = run(minitorch, program), run(torch, program)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def add_one(tensor):
    tensor += 1.0


class Holder:
    def __init__(self, tensor):
        self.tensor = tensor


def an_alias(m, w):
    x = w * 2
    other = x
    x += 1
    return other * x


def in_a_list(m, w):
    xs = [w * 2, w * 3]
    for x in xs:
        x *= w
    xs[0] -= xs[1]
    return xs[0] + xs[1]


def in_a_dict_and_an_object(m, w):
    held = {"x": w * 2}
    holder = Holder(held["x"])
    holder.tensor += w
    held["x"] *= 3.0
    return holder.tensor


def by_a_helper(m, w):
    x = w * 2
    add_one(x)
    (lambda t: t.mul_(2))(x)
    return x


def by_the_method_itself(m, w):
    x = w * 2
    x.__iadd__(1)
    type(x).mul_(x, w)
    return x


def after_an_op_that_does_not_read_it(m, w):
    x = w * 2
    y = x + 1
    x += 5
    return y * x


def read_twice_between_writes(m, w):
    x = w * 2
    parts = []
    for i in range(5):
        parts.append(x * 1.0 + i)
        x += w
    return m.stack(parts).sum(0) + x


def relu_on_a_stored_tensor(m, w):
    stored = [w * 2]
    stored[0].relu_()
    y = stored[0] + 1
    return y + stored[0]


def the_op_reads_its_input(m, w):
    x = w * 2
    x *= w
    x **= 2
    x /= w.exp()
    return x


def with_itself(m, w):
    x = w * 2
    x += x
    x -= x.mean()
    x /= x.sum() + 9
    return x


def a_linear_layer(m, w):
    x = w @ m.ones(4, 2, dtype=m.float64)
    x += 1.0
    return x


def a_view_written(m, w):
    x = w * 2
    v = x[0]
    v *= 3
    return x * v


def a_view_made_before_a_write(m, w):
    x = w * 2
    v = x[1:]
    x += w
    return v * v


def views_of_views(m, w):
    x = w * 2
    v = x.view(-1)[2:8].view(2, 3).t()
    v *= 2
    x[0] += 1
    v[0] = w[0, :2]
    return x.sum() + v


def a_transposed_view(m, w):
    x = w * 2
    x.t().mul_(w.t())
    x.permute(1, 0)[1] = w[:, 0]
    return x


def a_diagonal(m, w):
    x = (w * 2)[:, :3].clone()
    x.diagonal().mul_(w[:, 0])
    x.diagonal(1).zero_()
    return x


def a_buffer_filled(m, w):
    outs = m.zeros(4, 3, 4, dtype=m.float64)
    first = outs[0]
    for t in range(4):
        outs[t] = w * t
    return outs * first


def a_buffer_added_to_through_a_view(m, w):
    total = m.zeros(4, dtype=m.float64)
    part = total[1:3]
    part += w[0, :2]
    part *= w[1, 2:]
    return total * total


def index_and_mask(m, w):
    x = w * 2
    x[m.tensor([0, 2])] = w[:2]
    x[x.detach() > 1.0] = 0.5
    x[0, 1] += w[2, 2]
    x.index_fill_(1, m.tensor([3]), 7.0)
    return x


def whole(m, w):
    x = w * 2
    y = x.clone()
    x.zero_()
    y.copy_(w.exp())
    y.fill_diagonal_(2.0)
    return x + y + w


def expanded(m, w):
    x = (w * 2)[0]
    e = x.expand(3, 4)
    x += w[1]
    return e * w


def other_axes(m, w):
    x = w * 2
    v = x[0]
    x.unsqueeze_(0)
    x *= 3
    x.squeeze_(0).t_()
    x[0] += 1
    return v * x[0, 0] + x.sum()


def detached_alias_is_written(m, w):
    x = w + 2
    x.detach().add_(1)
    return x * 2


def under_no_grad(m, w):
    x = w + 2
    with m.no_grad():
        x.mul_(2)
        x[0] = 5.0
    return x + 1


def random_and_bounded(m, w):
    x = w * 2
    m.manual_seed(0)
    x[0].uniform_()
    x.clamp_(-1.0, 1.0)
    return x


def masked_and_scattered(m, w):
    x = w * 2
    x.masked_fill_(w.detach() > 0, 0.25)
    x.scatter_(1, m.tensor([[0], [1], [2]]), w[:, :1])
    x.index_add_(0, m.tensor([0, 0]), w[1:])
    x.addcmul_(w, w, value=0.5).lerp_(w, 0.25).tril_()
    return x


PROGRAMS = [
    an_alias, in_a_list, in_a_dict_and_an_object, by_a_helper, by_the_method_itself,
    after_an_op_that_does_not_read_it, read_twice_between_writes, relu_on_a_stored_tensor, the_op_reads_its_input,
    with_itself, a_linear_layer, a_view_written, a_view_made_before_a_write, views_of_views, a_transposed_view,
    a_diagonal, a_buffer_filled, a_buffer_added_to_through_a_view, index_and_mask, whole, expanded, other_axes,
    detached_alias_is_written, under_no_grad, random_and_bounded, masked_and_scattered,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_pytorchs_numbers_and_gradients(program):
    same(program)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_the_same_with_a_debugger_looking_on(program):
    seen = []

    def look(frame, event, argument):
        seen.append(dict(frame.f_locals))  # a debugger holds everything it shows
        return look

    before = sys.gettrace()
    plain = run(minitorch, program)
    sys.settrace(look)
    try:
        traced = run(minitorch, program)
    finally:
        sys.settrace(before)
    for a, b in zip(plain, traced, strict=True):
        np.testing.assert_array_equal(a, b)
    assert seen


# --- what is refused, and when -----------------------------------------------------------------------


def exp_needs_its_result(m, w):
    x = w.exp()
    x += 1
    return x


def mul_needs_its_input(m, w):
    x = w * 2
    y = x * x
    x += 1
    return y


def through_a_view(m, w):
    x = w * 2
    y = x.sin()
    x[0] += 1
    return y


def through_a_detached_alias(m, w):
    x = w * 2
    y = x * w
    x.detach().zero_()
    return y


def under_no_grad_too(m, w):
    x = w * 2
    y = x.tanh()
    with m.no_grad():
        y.mul_(2)
    return y


@pytest.mark.parametrize(
    "program",
    [exp_needs_its_result, mul_needs_its_input, through_a_view, through_a_detached_alias, under_no_grad_too],
    ids=lambda p: p.__name__,
)
def test_values_that_were_overwritten_are_refused_in_backward(program):
    for m in (minitorch, torch):
        out = program(m, m.tensor(np.linspace(-1.0, 2.0, 12).reshape(3, 4), requires_grad=True))
        with pytest.raises(RuntimeError, match="changed after the forward pass by|modified by an inplace"):
            out.sum().backward()


def test_the_refusal_names_the_op_and_the_write():
    x = minitorch.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    y += 1
    with pytest.raises(RuntimeError, match=r"the result of 'exp' \(shape \(2,\)\) was changed.* by x \+= y"):
        y.sum().backward()


def leaf(m, w):
    w += 1


def view_of_a_leaf(m, w):
    w[0].mul_(2)


def one_of_several(m, w):
    a, _ = (w * 2).split([1, 2])
    a += 1


def iterated(m, w):
    for row in w * 2:
        row += 1


def base_of_several(m, w):
    x = w * 2
    a, _ = x.split([1, 2])
    x += 1
    a.sum()


def made_under_no_grad(m, w):
    x = w * 2
    with m.no_grad():
        v = x[0]
    v += 1


def expanded_memory(m, w):
    x = (w * 2)[0].expand(3, 4)
    x += 1


def integers(m, w):
    m.zeros(3, 4, dtype=m.int64).add_(w)


def view_detached(m, w):
    (w * 2)[0].detach_()


def another_shape(m, w):
    x = (w * 2)[0]
    x += w


@pytest.mark.parametrize(
    "program",
    [leaf, view_of_a_leaf, one_of_several, iterated, base_of_several, made_under_no_grad, expanded_memory,
     integers, view_detached, another_shape],
    ids=lambda p: p.__name__,
)  # fmt: skip
def test_writes_that_are_refused_at_once(program):
    for m in (minitorch, torch):
        w = m.tensor(np.linspace(-1.0, 2.0, 12).reshape(3, 4), requires_grad=True)
        with pytest.raises(RuntimeError):
            program(m, w)
        assert w.detach().numpy().tolist() == np.linspace(-1.0, 2.0, 12).reshape(3, 4).tolist()


def test_a_write_that_fails_changes_nothing():
    w = minitorch.tensor([1.0, 2.0], requires_grad=True)
    x = w * 2
    other = x
    with pytest.raises(RuntimeError, match="do not broadcast"):
        x += minitorch.ones(3)
    with pytest.raises(RuntimeError, match="broadcast"):
        x[0] = minitorch.ones(3)
    with pytest.raises(IndexError, match="shape"):
        x[5] = w[0]
    assert x is other
    assert x.tolist() == [2.0, 4.0]
    x.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]


# --- layers and functions that write in place ----------------------------------------------------------

IN_PLACE_LAYERS = [
    "ReLU", "ReLU6", "ELU", "SELU", "CELU", "LeakyReLU", "Hardtanh", "Hardswish", "SiLU", "Mish",
]  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE_LAYERS)
def test_layers_really_write(name):
    def program(m, w):
        x = w * 2
        layer = getattr(m.nn, name)(inplace=True)
        assert layer(x) is x
        return x * 1.0

    same(program)


IN_PLACE_FUNCTIONS = ["relu_", "elu_", "selu_", "celu_", "leaky_relu_", "hardtanh_"]


@pytest.mark.parametrize("name", IN_PLACE_FUNCTIONS)
def test_functions_really_write(name):
    def program(m, w):
        x = w * 2
        assert getattr(m.nn.functional, name)(x) is x
        return x * 1.0

    same(program)


def test_layers_with_arguments_really_write():
    def program(m, w):
        x = w * 2
        assert m.nn.Threshold(0.5, 7.0, inplace=True)(x) is x
        assert m.nn.functional.threshold_(x, 1.0, -1.0) is x
        y = w * 3
        assert m.nn.functional.hardsigmoid(y, True) is y
        return x + y

    mine, theirs = run(minitorch, program), run(torch, program)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)  # PyTorch's hardsigmoid divides by a float32 six


@pytest.mark.parametrize("name", ["Dropout", "AlphaDropout", "FeatureAlphaDropout"])
def test_dropout_really_writes(name):
    x = minitorch.ones(50, 4, requires_grad=True) * 2
    layer = getattr(nn, name)(0.5, inplace=True)
    assert layer(x) is x
    assert not (x == 2).all()
    layer.eval()
    assert layer(x) is x


# --- hooks, gradients kept, memory ----------------------------------------------------------------------


def test_a_hook_sees_the_gradient_of_what_the_tensor_was():
    for m in (minitorch, torch):
        w = m.tensor([1.0, 2.0], requires_grad=True)
        x = w * 2
        seen = []
        x.register_hook(lambda g: seen.append(("before", g.tolist())))  # noqa: B023
        x.mul_(5)
        x.register_hook(lambda g: seen.append(("after", g.tolist())))  # noqa: B023
        x.retain_grad()
        x.sum().backward()
        assert seen == [("after", [1.0, 1.0]), ("before", [5.0, 5.0])]
        assert x.grad.tolist() == [1.0, 1.0]
        assert w.grad.tolist() == [10.0, 10.0]


def test_higher_derivatives_through_writes():
    def program(x):
        y = x * x
        part = y[1:]
        part *= x[:-1]
        y += x.sin()
        return y

    x = minitorch.tensor([0.5, -1.5, 2.0], dtype=minitorch.float64, requires_grad=True)
    assert minitorch.gradcheck(program, x)
    assert minitorch.gradgradcheck(program, x)


def test_two_backwards_through_a_retained_graph_with_writes():
    w = minitorch.tensor([1.0, 2.0], requires_grad=True)
    x = w * 2
    early = (x + 1).sum()
    x *= w
    late = (x * 3).sum()
    late.backward(retain_graph=True)
    first = w.grad.copy()
    late.backward(retain_graph=True)
    np.testing.assert_array_equal(w.grad, 2 * first)
    early.backward()
    np.testing.assert_array_equal(w.grad, 2 * first + 2)
    with pytest.raises(RuntimeError, match="second time"):
        late.backward()


def test_a_long_sum_is_freed_by_backward():
    w = minitorch.tensor(1.0, requires_grad=True)
    total = minitorch.tensor(0.0)
    gc.disable()
    try:
        first = None
        for _ in range(20_000):
            loss = w * 2
            first = first or weakref.ref(loss)
            total += loss
        del loss
        total.backward()
        assert first() is None
        assert len(total._past.history) <= 1
        assert w.grad == 40_000
    finally:
        gc.enable()


def test_an_op_recorded_before_a_freed_write_is_told_so():
    w = minitorch.tensor([1.0], requires_grad=True)
    x = w * 2
    x += 1
    early = x * 3
    x += 1
    x.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        early.sum().backward()


def test_a_constant_before_a_write_stays_one():
    w = minitorch.tensor([1.0], requires_grad=True)
    buffer = minitorch.tensor([5.0])
    early = buffer + w
    buffer += w
    buffer.sum().backward()
    early.sum().backward()
    assert w.grad.tolist() == [2.0]


def test_many_readers_of_many_versions():
    w = minitorch.tensor([1.0], requires_grad=True)
    x = w * 1.0
    parts = []
    for _ in range(3000):
        parts.append(x + 0.0)
        x += w
    minitorch.stack(parts).sum().backward()
    assert w.grad.tolist() == [3000 * 3001 / 2]


def test_a_view_that_is_held_while_its_base_is_written_into_and_consumed():
    w = minitorch.tensor([1.0, 2.0], requires_grad=True)
    state = minitorch.zeros(3, 2)
    row = state[0]
    for _ in range(4):
        state[0] = w * 2
        (state * 3).sum().backward()
        state.detach_()
        assert row.tolist() == [2.0, 4.0]
    state[0] = w * 5
    assert row.requires_grad
    row.sum().backward()
    assert w.grad.tolist() == [29.0, 29.0]


def test_turning_a_buffer_again_and_again_leaves_nothing_behind():
    buffer = minitorch.zeros(2, 3)
    for _ in range(100):
        buffer.t_().unsqueeze_(0).squeeze_(0)
    assert buffer.shape == (2, 3)
    assert not hasattr(buffer, "_past")
    w = minitorch.ones(2, 3, requires_grad=True)
    product = buffer * w
    buffer.t_()
    with pytest.raises(RuntimeError, match="changed after"):
        product.sum().backward()


def test_a_shallow_copy_has_a_history_of_its_own():
    w = minitorch.tensor([1.0], requires_grad=True)
    x = w * 2
    x += 1
    twin = copy.copy(x)
    before = len(twin._past.history)
    x += 1
    assert len(twin._past.history) == before


# --- what fresh eyes found --------------------------------------------------------------------------------


def unfolded(m, w):
    x = (w * 2)[0] * 1.0
    windows = x.unfold(0, 2, 1)
    x += w[1]
    return windows


def a_hook_that_reads_a_view(m, w):
    x = w * 2
    v = x[0]
    y = v + 1
    y.register_hook(lambda g: g * (v > 0).double())
    x += 5
    return y


def a_hook_before_another_shape(m, w):
    x = w * 2
    x.register_hook(lambda g: g * 10)
    x.unsqueeze_(0)
    return x


def another_shape_under_no_grad(m, w):
    x = w.cumsum(0)
    with m.no_grad():
        x.unsqueeze_(0)
    return x


def read_under_no_grad(m, w):
    x = w * 2
    part, _ = x.split([1, 2])
    x += 1
    with m.no_grad():
        total = part.sum()
    return x * total


def a_view_made_before_another_shape(m, w):
    x = (w * 2)[:, :3] * 1.0
    v = x.diagonal()
    x.t_()
    v[2] -= 0.5
    x[0] *= w[0, :3]
    return x * v


def detached_in_place_before_backward(m, w):
    h, loss = w[0] * 1.0, 0.0
    for _ in range(3):
        h = (h + w[1]).tanh()
        loss = loss + h.sum()
        h.detach_()
    return loss * m.ones(2, dtype=m.float64)


@pytest.mark.parametrize(
    "program",
    [unfolded, a_hook_that_reads_a_view, a_hook_before_another_shape, another_shape_under_no_grad,
     read_under_no_grad, a_view_made_before_another_shape, detached_in_place_before_backward],
    ids=lambda p: p.__name__,
)  # fmt: skip
def test_pytorchs_numbers_and_gradients_here_too(program):
    same(program)


def test_a_part_of_a_complex_tensor_is_not_written_into_with_a_graph():
    w = minitorch.ones(3, requires_grad=True)
    z = minitorch.complex(w, 2 * w)
    for part in (z.real, z.imag):
        with pytest.raises(RuntimeError, match="complex"):
            part.mul_(2)


def test_what_a_leafs_hook_keeps_is_its_own():
    w = minitorch.ones(3, requires_grad=True)
    seen = []
    w.register_hook(seen.append)
    (w * 2).sum().backward()
    (w * 3).sum().backward()
    w.grad.zero_()
    assert seen[0].tolist() == [2.0, 2.0, 2.0]


def test_checkpoint_of_a_function_that_writes_into_its_argument_is_refused():
    w = minitorch.ones(3, requires_grad=True)

    def written(a):
        a += 1
        return a * 2

    out = minitorch.autograd.checkpoint(written, w * 2).sum()
    with pytest.raises(RuntimeError, match="changed after"):
        out.backward()


def test_a_function_may_write_into_its_input_and_say_so():
    def program(m, w):
        class Double(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x.mul_(2)
                ctx.mark_dirty(x)
                return x

            @staticmethod
            def backward(ctx, g):
                return g * 2

        x = w * 3
        v = x[0]
        y = Double.apply(x)
        assert y is x
        return y * v

    same(program)
    w = minitorch.ones(2, requires_grad=True)

    class Seen(minitorch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view(-1)

        @staticmethod
        def backward(ctx, g):
            return g

    seen = Seen.apply(w * 2)
    with pytest.raises(RuntimeError, match="several results"):
        seen *= 2


@pytest.mark.parametrize("with_view", [False, True])
def test_no_cycles_without_backward(with_view):
    gc.collect()
    gc.disable()
    try:
        w = minitorch.ones(3, requires_grad=True)
        x = w * 2
        gone = weakref.ref(x)
        if with_view:
            v = x[0]
            v *= 2
            del v
        x -= x.mean()
        x[0] = x[1]
        x += x.sin()
        del x
        assert gone() is None
    finally:
        gc.enable()


def test_histories_stay_short():
    w = minitorch.ones(3, requires_grad=True)
    h = w * 1.0
    for _ in range(20):
        h.mul_(0.5).add_(w)
        h.sum().backward()
        h.detach_()
    assert len(h._past.history) < 6
    buffer = minitorch.zeros(3)
    for _ in range(5):
        buffer.detach_()
    assert not hasattr(buffer, "_past")


def test_long_chains_of_views_after_a_write_are_linear():
    w = minitorch.ones(4, requires_grad=True)
    x = w * 2
    v = x[:2]
    x += 1
    assert v.requires_grad  # views have been brought up to date in this process
    for _ in range(3000):
        x = x.view(2, 2).view(4)
    x.sum().backward()
    assert w.grad.tolist() == [2.0] * 4


def test_ops_of_a_single_call_are_not_remembered():
    w = minitorch.ones(2, requires_grad=True)
    held = w.data  # so that what each op reads is asked
    remembered = len(reads._found)
    for _ in range(20):
        out = minitorch.Tensor(w.data * 1.0, (w,), "by hand")
        out._backward = lambda: None
        out += 1
    assert len(reads._found) <= remembered + 4
    assert held is w.data


# --- a view taken before its base requires grad -----------------------------------------------------

BEFORE = {
    "view": lambda x: x.view(6), "index": lambda x: x[0], "transpose": lambda x: x.t(), "of a view": lambda x: x.view(6)[:3],
    "unbind": lambda x: x.unbind(0)[0], "expand": lambda x: x.expand(2, 2, 3),
}  # fmt: skip


@pytest.mark.parametrize("take", BEFORE.values(), ids=BEFORE)
def test_a_view_taken_before_its_base_requires_grad_requires_it_too(take):
    for m in (minitorch, torch):
        x, other = m.ones(2, 3), m.ones(1, requires_grad=True)
        view = take(x)
        x.requires_grad_()
        assert view.requires_grad
        assert view.is_leaf
        assert (view * 2).requires_grad
        for write in ("view.mul_(2)", "view[0].fill_(5.0)", "view.add_(other)"):
            with pytest.raises(RuntimeError):
                eval(write, {"view": view, "other": other})
        (x.sum() + view.sum()).backward()
        assert x.grad.tolist() == [[1, 1, 1], [1, 1, 1]]  # the view is a leaf of its own
        if take is not BEFORE["expand"]:
            with m.no_grad():
                view.mul_(2)
            assert x.detach()[0, 0] == 2


def test_views_of_others_are_left_alone():
    x, y = minitorch.ones(4), minitorch.ones(4)
    of_x, of_y, numbers = x[:2], y[:2], minitorch.arange(4)
    of_numbers = numbers[:2]
    x.requires_grad_()
    of_y.add_(1.0)
    of_numbers.add_(1)
    assert (of_x.requires_grad, of_y.requires_grad, of_numbers.requires_grad) == (True, False, False)
    assert y.tolist() == [2, 2, 1, 1]
