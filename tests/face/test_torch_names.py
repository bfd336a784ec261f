"""A program that uses what PyTorch's programs import beside tensors and layers: it prints the same under both."""

import textwrap

from under_both import printed_by_both

PROGRAM = textwrap.dedent(
    """
    import collections
    import torch
    import torch.fx, torch.futures, torch.hub, torch.jit, torch.overrides, torch.profiler, torch.utils._pytree as tree
    from torch import Tensor, nn
    from torch.jit import Final
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
    from torch.utils.hooks import RemovableHandle

    torch.manual_seed(0)

    # memory formats, layouts, storages
    x = torch.arange(48.0).reshape(2, 3, 2, 4)
    last = x.contiguous(memory_format=torch.channels_last)
    print(last.stride(), last.is_contiguous(memory_format=torch.channels_last), last.is_contiguous(), torch.equal(x, last))
    print(torch.zeros_like(x, memory_format=torch.contiguous_format).stride(), last.clone(memory_format=torch.preserve_format).stride())
    print(x.to(memory_format=torch.channels_last).stride(), x.layout, isinstance(x.layout, torch.layout), torch.channels_last)
    print(torch.empty(2, 3, layout=torch.strided, pin_memory=False).shape, torch.empty_like(x, memory_format=torch.channels_last).stride())
    row = x[1, 2]
    print(row.untyped_storage().nbytes(), row.storage_offset(), len(row.untyped_storage()))
    y = torch.zeros(2)
    y.set_(x[0, 0])
    print(y, y.data_ptr() == x.data_ptr())

    # out=, old orders of arguments
    into = torch.zeros(3)
    print(torch.exp(torch.zeros(3), out=into) is into, into, torch.cat([into[:1], into[:2]], out=torch.zeros(3)))
    values, places = torch.zeros(2), torch.zeros(2, dtype=torch.int64)
    torch.max(torch.tensor([[1.0, 3.0], [5.0, 2.0]]), 1, out=(values, places))
    print(values, places, torch.arange(3, out=torch.zeros(3)), torch.matmul(torch.eye(2), torch.ones(2), out=torch.zeros(2)))
    v = torch.ones(2)
    v.add_(2, torch.ones(2)); v.addcmul_(0.5, torch.ones(2), torch.ones(2)); v.addcdiv_(-1, torch.ones(2), torch.ones(2) * 2)
    print(v, torch.add(v, 3, v))

    # gradients that have graphs, optimisers that wrap others
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    (w**3).sum().backward(create_graph=True)
    print(w.grad.requires_grad, w.grad.detach())
    (w.grad**2).sum().backward()
    print(w.grad.detach())
    w.grad = None

    class Wrapper(torch.optim.Optimizer):
        def __init__(self, base):
            self.base, self.param_groups, self.state, self.defaults = base, base.param_groups, base.state, base.defaults
        def step(self, closure=None):
            return self.base.step(closure)

    optimizer = Wrapper(torch.optim.SGD([w], lr=0.1))
    (w * w).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    print(w.detach(), w.grad)
    torch.autograd.backward([(w * 3).sum()], inputs=[w])
    print(w.grad)
    params = [torch.ones(2), torch.zeros(2)]
    torch._foreach_add_(params, [torch.ones(2)] * 2, alpha=2)
    torch._foreach_mul_(params, 3.0)
    print(params, torch._foreach_norm(params), torch._foreach_sqrt(params))

    # decorators of compilers, trees, futures
    @torch.jit.script
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    class Layer(nn.Module):
        size: Final[int]
        def __init__(self):
            super().__init__()
            self.size = 2
        @torch.jit.ignore
        def helper(self, x):
            return x + self.size
        @torch.jit.unused
        def other(self, x):
            return x
        def forward(self, x):
            return self.helper(x) if not torch.jit.is_scripting() and not torch.compiler.is_compiling() else x

    @torch.fx.wrap
    def wrapped(x):
        return x
    print(doubled(torch.ones(1)), Layer()(torch.ones(1)), torch.jit.annotate(int, 3), wrapped(1), torch.compiler.disable(wrapped)(2))
    print(torch.jit.trace(nn.ReLU(), torch.ones(1))(torch.tensor([-1.0])), isinstance(Layer(), torch.jit.ScriptModule))
    Pair = collections.namedtuple("Pair", "a b")
    nest = {"x": [1, (2, None)], "y": Pair(3, collections.OrderedDict(z=4))}
    ends, spec = tree.tree_flatten(nest)
    print(ends, spec.num_leaves, tree.tree_unflatten([e and e * 10 for e in ends], spec), tree.tree_leaves([1, [2]]))
    print(tree.tree_map_only(int, lambda n: -n, nest), tree.tree_all(lambda n: n is None or n > 0, nest))
    print([(tree.keystr(path), end) for path, end in tree.tree_flatten_with_path(nest)[0]])
    future = torch.futures.Future()
    after = future.then(lambda f: f.value() + 1)
    future.set_result(1)
    print(after.wait(), torch.futures.wait_all([future, after]))

    # fused layers, attention, hooks, questions
    conv, bn = nn.Conv2d(2, 3, 3).eval(), nn.BatchNorm2d(3).eval()
    bn.running_mean.normal_(), bn.running_var.uniform_(0.5, 2)
    print(torch.allclose(fuse_conv_bn_eval(conv, bn)(torch.ones(1, 2, 4, 4)), bn(conv(torch.ones(1, 2, 4, 4))), atol=1e-6))
    linear, bn = nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval()
    print(torch.allclose(fuse_linear_bn_eval(linear, bn)(torch.ones(1, 2)), bn(linear(torch.ones(1, 2))), atol=1e-6))
    with sdpa_kernel(SDPBackend.MATH), torch.profiler.record_function("attention"):
        print(nn.functional.scaled_dot_product_attention(*[torch.ones(1, 1, 2, 4)] * 3).shape)
    hooks = collections.OrderedDict()
    handle = RemovableHandle(hooks)
    hooks[handle.id] = print
    handle.remove()
    print(len(hooks), torch.is_autocast_enabled(), torch.overrides.has_torch_function([x]), torch.overrides.is_tensor_like(x))
    print(torch.float8_e4m3fn, torch.float8_e5m2.itemsize, x.dtype == torch.float8_e5m2, torch.typename(x), isinstance(3, torch.SymInt))
    torch._assert(True, "")
    torch._check(True)
    for fails in (lambda: torch._check(False, lambda: "no"), lambda: torch._assert(False, "no")):
        try:
            fails()
        except Exception as error:
            print(type(error).__name__, error)

    @torch.library.custom_op("mine::square", mutates_args=())
    def square(x: Tensor) -> Tensor:
        return x.clone() * x

    square.register_autograd(
        lambda ctx, g: 2 * g * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    z = torch.tensor([3.0], requires_grad=True)
    torch.ops.mine.square(z).sum().backward()
    print(z.grad, torch.ops.aten.add(torch.ones(1), 2), hasattr(torch.ops.mine, "cube"))
    """
)


def test_a_program_prints_what_it_prints_in_pytorch(tmp_path):
    ours, _, theirs = printed_by_both(PROGRAM, tmp_path, "-W", "ignore")
    for mine, other in zip(ours.splitlines(), theirs.splitlines(), strict=True):
        assert mine == other


SUBCLASSES = textwrap.dedent(
    """
    import torch

    class Image(torch.Tensor):
        pass

    class Learned(torch.nn.Parameter):
        pass

    def name(x):
        return type(x).__name__

    x = torch.arange(4.0).as_subclass(Image)
    print(name(x + 1), name(1 + x), name(torch.exp(x)), name(x[0]), name(x.sum()), name(torch.stack([x, x])), name(x.max(0).values))
    print(x.shape, x.tolist(), x, name(Learned(torch.ones(1)) + 1), name(torch.nn.functional.relu(x)))
    x.add_(1)
    w = torch.ones(2, requires_grad=True)
    (w.as_subclass(Image) * 3).sum().backward()
    print(x, w.grad)

    calls, handled = [], {torch.mean: lambda x: "mine"}

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            if func in handled:
                return handled[func](*args)
            return super().__torch_function__(func, types, args, kwargs or {})

    y = torch.ones(2).as_subclass(Logged)
    z = torch.relu(y) * 2 - torch.ones(2)
    print(name(z), name(y.add(1)), torch.mean(y), name(torch.cat([torch.ones(1), y])), calls)
    print(torch.overrides.has_torch_function([y]), torch.overrides.has_torch_function([w]))
    with torch._C.DisableTorchFunctionSubclass():
        print(name(x + 1))
    """
)


def test_classes_of_tensors_see_calls_and_get_their_own(tmp_path):
    ours, errors, theirs = printed_by_both(SUBCLASSES, tmp_path)
    assert (ours, errors) == (theirs, "")
