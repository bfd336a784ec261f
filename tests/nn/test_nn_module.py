"""Module, Parameter and containers: what they hold, how they print, save, load, move and tell."""

import copy
import importlib
import inspect
import pickle
import warnings
from collections import OrderedDict

import numpy as np
import pytest

import minitorch
import minitorch.nn as nn
from pytorch import torch


def net(m):
    """The same small tree of modules in both libraries."""

    class Block(m.Module):
        def __init__(self, width):
            super().__init__()
            self.norm = m.LayerNorm(width)
            self.linear = m.Linear(width, width, bias=False)

        def forward(self, x):
            return x + self.linear(self.norm(x))

    class Net(m.Module):
        def __init__(self):
            super().__init__()
            self.table = m.Embedding(7, 4)
            self.blocks = m.ModuleList([Block(4), Block(4), m.Linear(4, 4)])
            self.parts = m.ModuleDict(
                {"act": m.ReLU(), "head": m.Sequential(m.Linear(4, 3), m.BatchNorm1d(3))}
            )
            self.extra = m.ParameterList([m.Parameter(library(m).ones(2)), m.Parameter(library(m).zeros(1))])
            self.named = m.ParameterDict({"scale": m.Parameter(library(m).ones(3))})
            self.register_buffer("mask", library(m).ones(3))
            self.register_buffer("scratch", library(m).zeros(2), persistent=False)
            self.nothing = None
            self.register_parameter("left_out", None)

        def forward(self, tokens):
            x = self.table(tokens)
            for block in self.blocks:
                x = block(x)
            x = self.parts["head"](self.parts["act"](x.mean(1)))
            return x * self.named["scale"] * self.mask + self.extra[0].sum()

    return Net()


def library(m):
    return minitorch if m is nn else torch


@pytest.fixture(params=["minitorch", "pytorch"])
def m(request):
    """The nn of each library: what holds of ours holds of PyTorch's."""
    return nn if request.param == "minitorch" else torch.nn


@pytest.fixture
def pair():
    minitorch.manual_seed(0)
    torch.manual_seed(0)
    return net(nn), net(torch.nn)


# --- the tree ------------------------------------------------------------------------------------


def test_names_of_everything_are_pytorchs(pair):
    ours, theirs = pair
    for walk in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        assert [n for n, _ in getattr(ours, walk)()] == [n for n, _ in getattr(theirs, walk)()]
    for walk in ("parameters", "buffers", "modules", "children"):
        assert len(list(getattr(ours, walk)())) == len(list(getattr(theirs, walk)()))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for walk in ("named_parameters", "named_buffers"):
        for options in ({"prefix": "model"}, {"recurse": False}, {"prefix": "a", "recurse": False}):
            mine, other = getattr(ours, walk)(**options), getattr(theirs, walk)(**options)
            assert [n for n, _ in mine] == [n for n, _ in other]


def test_output_and_gradients_are_pytorchs(pair):
    ours, theirs = pair[0].double(), pair[1].double()
    ours.load_state_dict(theirs.state_dict())
    tokens = np.array([[0, 1, 2], [6, 6, 1]])
    a, b = ours(minitorch.tensor(tokens)), theirs(torch.tensor(tokens))
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-12)
    (a**2).sum().backward(), (b**2).sum().backward()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if q.grad is None:
            assert p.grad is None, name
        else:
            np.testing.assert_allclose(p.grad, q.grad.numpy(), atol=1e-10, err_msg=name)


def test_printed_form_is_pytorchs(pair):
    ours, theirs = pair
    # A dtype's name is NumPy's; the rest is equal to the letter.
    expected = repr(theirs).replace("torch.float32", "float32").replace("torch.FloatTensor", "float32")
    assert repr(ours) == expected
    assert repr(nn.Sequential()) == repr(torch.nn.Sequential())
    assert repr(nn.ModuleList()) == repr(torch.nn.ModuleList())
    assert repr(nn.ModuleDict()) == repr(torch.nn.ModuleDict())
    assert repr(nn.Module()) == repr(torch.nn.Module())
    assert repr(nn.ParameterList()) == repr(torch.nn.ParameterList())
    for m in (nn, torch.nn):

        class Talkative(m.Module):
            def extra_repr(self):
                return "first\nsecond"

        assert repr(Talkative()) == "Talkative(\n  first\n  second\n)"
        nested = m.ModuleList([Talkative(), Talkative(), m.ReLU()])
        assert "(0-1): 2 x Talkative(\n    first\n    second\n  )" in repr(nested)


def test_shared_modules_and_parameters_come_once():
    for m in (nn, torch.nn):
        layer = m.Linear(2, 2)
        model = m.Sequential(layer, layer)
        model.tied = layer.weight
        assert [n for n, _ in model.named_parameters()] == ["tied", "0.bias"]
        assert len(list(model.named_parameters(remove_duplicate=False))) == 5
        assert len(list(model.modules())) == 2
        assert [n for n, _ in model.named_modules(remove_duplicate=False)] == ["", "0", "1"]
        assert len(model.state_dict()) == 5


def test_finding_by_path(pair):
    for model in pair:
        assert model.get_submodule("") is model
        assert model.get_submodule("blocks.1.linear") is model.blocks[1].linear
        assert model.get_parameter("parts.head.0.weight") is model.parts["head"][0].weight
        assert model.get_buffer("parts.head.1.running_mean") is model.parts["head"][1].running_mean
        for call, path, message in [
            ("get_submodule", "blocks.9", "has no attribute `9`"),
            ("get_submodule", "table.weight", "`weight` is not an nn.Module"),
            ("get_parameter", "mask", "is not an nn.Parameter"),
            ("get_buffer", "table.weight", "is not a buffer"),
            ("get_parameter", "nowhere", "has no attribute `nowhere`"),
        ]:
            with pytest.raises(AttributeError, match=message):
                getattr(model, call)(path)
        library_of = nn if isinstance(model, nn.Module) else torch.nn
        model.set_submodule("parts.act", library_of.Tanh())
        assert isinstance(model.parts["act"], library_of.Tanh)


def test_apply_visits_children_first():
    for m in (nn, torch.nn):
        seen = []
        model = m.Sequential(m.Linear(1, 1), m.Sequential(m.ReLU()))
        assert model.apply(lambda x, seen=seen: seen.append(type(x).__name__)) is model
        assert seen == ["Linear", "ReLU", "Sequential", "Sequential"]


# --- attributes ----------------------------------------------------------------------------------


def test_rules_of_assignment(m):
    lib = library(m)

    class Early(m.Module):
        def __init__(self, value):
            self.value = value

    with pytest.raises(AttributeError, match=r"cannot assign parameters before Module.__init__\(\) call"):
        Early(m.Parameter(lib.ones(1)))
    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\) call"):
        Early(m.ReLU())
    module = m.Module()
    module.w = m.Parameter(lib.ones(2))
    with pytest.raises(TypeError, match=r"cannot assign .*Tensor' as parameter 'w'"):
        module.w = lib.ones(2)
    module.w = None
    assert module.w is None
    assert list(module.parameters()) == []
    module.w = m.Parameter(lib.ones(3))
    assert [n for n, _ in module.named_parameters()] == ["w"]
    module.child = m.ReLU()
    with pytest.raises(TypeError, match="as child module 'child'"):
        module.child = 3
    module.child = None
    assert list(module.children()) == []
    module.register_buffer("b", lib.ones(1))
    with pytest.raises(TypeError, match="as buffer 'b'"):
        module.b = [1.0]
    module.b = lib.zeros(2)
    assert tuple(dict(module.named_buffers())["b"].shape) == (2,)
    # What a name stands for can change its kind.
    module.b = m.Parameter(lib.ones(1))
    assert not list(module.buffers())
    assert [n for n, _ in module.named_parameters()] == ["w", "b"]
    with pytest.raises(TypeError, match="as parameter 'b'"):
        module.b = m.ReLU()
    del module.b
    module.b = m.ReLU()
    module.b = m.Parameter(lib.ones(1))
    assert not list(module.children())
    module.plain = 3
    assert module.plain == 3
    del module.b, module.w, module.plain
    assert not hasattr(module, "b")
    assert not hasattr(module, "w")
    with pytest.raises(AttributeError, match="object has no attribute 'plain'"):
        module.plain
    with pytest.raises(AttributeError):
        del module.plain


def test_rules_of_registering(m):
    lib = library(m)
    module = m.Module()
    module.taken = 1
    for register, value in (
        ("register_parameter", m.Parameter(lib.ones(1))),
        ("register_buffer", lib.ones(1)),
        ("add_module", m.ReLU()),
    ):
        call = getattr(module, register)
        with pytest.raises(KeyError, match="attribute 'taken' already exists"):
            call("taken", value)
        with pytest.raises(KeyError, match=r"t contain \"\.\""):
            call("a.b", value)
        with pytest.raises(KeyError, match="t be empty string"):
            call("", value)
        with pytest.raises(TypeError):
            call(3, value)
        with pytest.raises(TypeError):
            call("fine", "not one")
        call(f"x_{register}", value)


def test_a_computed_tensor_is_no_parameter():
    made = nn.Parameter(minitorch.ones(1))
    result = made * 2
    made._operation, made._inputs = result._operation, result._inputs  # by force: ops give plain Tensors
    with pytest.raises(ValueError, match="cannot assign a computed Tensor to parameter 'w'"):
        nn.Module().register_parameter("w", made)


def test_module_takes_no_arguments():
    with pytest.raises(TypeError, match="takes no arguments"):
        nn.Module(3)


def test_forward_is_required():
    for m in (nn, torch.nn):
        with pytest.raises(NotImplementedError, match='missing the required "forward" function'):
            m.Module()(1)


def test_dir_lists_members(pair):
    assert {"table", "mask", "extra", "forward"} <= set(dir(pair[0]))


# --- Parameter -----------------------------------------------------------------------------------


def test_parameter():
    source = minitorch.ones(2)
    p = nn.Parameter(source)
    assert isinstance(p, minitorch.Tensor)
    assert p.requires_grad
    assert p.is_leaf
    assert type(p * 1) is minitorch.Tensor
    assert type(p.detach()) is minitorch.Tensor
    assert repr(p) == repr(torch.nn.Parameter(torch.ones(2)))
    assert not nn.Parameter(source, requires_grad=False).requires_grad
    with minitorch.no_grad():
        p.add_(1)
    assert source.tolist() == [2.0, 2.0]  # memory is shared, as in PyTorch
    p.note = "attributes are allowed"
    assert nn.Parameter([1.0, 2.0]).shape == (2,)
    assert nn.Parameter().shape == (0,)
    with pytest.raises(RuntimeError, match="only floating-point"):
        nn.Parameter(minitorch.tensor([1, 2]))


def test_parameter_copies_and_pickles():
    p = nn.Parameter(minitorch.tensor([1.0, 2.0]))
    (p * p).sum().backward()
    q = copy.deepcopy(p)
    assert type(q) is nn.Parameter
    assert q.tolist() == p.tolist()
    assert q._data is not p._data
    assert q.grad.tolist() == [2.0, 4.0]
    r = pickle.loads(pickle.dumps(nn.Parameter(minitorch.ones(2), requires_grad=False)))
    assert type(r) is nn.Parameter
    assert not r.requires_grad


def test_buffer():
    module = nn.Module()
    module.kept = nn.Buffer(minitorch.ones(2))
    module.passing = nn.Buffer(minitorch.ones(2), persistent=False)
    assert [n for n, _ in module.named_buffers()] == ["kept", "passing"]
    assert list(module.state_dict()) == ["kept"]
    assert not pickle.loads(pickle.dumps(module.passing)).persistent


# --- modes, dtype, device ------------------------------------------------------------------------


def test_train_eval_requires_grad_zero_grad(pair):
    for model in pair:
        assert all(m.training for m in model.modules())
        assert model.eval() is model
        assert not any(m.training for m in model.modules())
        model.parts.train()
        assert model.parts["act"].training
        assert not model.table.training
        with pytest.raises(ValueError, match="expected to be boolean"):
            model.train(3)
        model.requires_grad_(False)
        assert not any(p.requires_grad for p in model.parameters())
        model.requires_grad_()
        assert all(p.requires_grad for p in model.parameters())
    model = pair[0]
    model.train()
    model(minitorch.tensor([[0, 1], [2, 3]])).sum().backward()
    model.zero_grad(set_to_none=False)
    assert not model.table.weight.grad.any()
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("call", ["float", "double", "half"])
def test_dtypes(pair, call):
    ours, theirs = (getattr(model, call)() for model in pair)
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        assert str(b.dtype) == f"torch.{a.dtype}", name


def test_to():
    layer = nn.BatchNorm1d(2)
    layer(minitorch.ones(3, 2)).sum().backward()
    weight = layer.weight
    assert layer.to(minitorch.float64) is layer
    assert layer.weight is weight
    assert layer.weight.grad.dtype == np.float64
    assert layer.running_mean.dtype == np.float64
    assert layer.num_batches_tracked.dtype == np.int64
    layer.to("cpu", minitorch.float32)
    assert layer.weight.dtype == np.float32
    layer.to(minitorch.ones(1, dtype=minitorch.float64))
    assert layer.weight.dtype == np.float64
    layer.to(device="cpu", dtype=np.float32, non_blocking=True)
    assert layer.weight.dtype == np.float32
    assert layer.cpu().weight.device == "cpu"
    layer.type(minitorch.float64)
    assert layer.weight.dtype == np.float64
    with pytest.raises(TypeError, match="only accepts floating point"):
        layer.to(minitorch.int64)
    with pytest.raises(TypeError, match="unknown argument 'colour'"):
        layer.to(colour="red")
    with pytest.raises(RuntimeError, match="device"):
        layer.to("tpu")


# --- state dicts ---------------------------------------------------------------------------------


def test_weights_move_both_ways(pair):
    ours, theirs = pair
    with torch.no_grad():
        for p in theirs.parameters():
            p.normal_()
    result = ours.load_state_dict(theirs.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    for key, value in theirs.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[key].numpy(), value.numpy())
    nn.init.constant_(ours.table.weight, 3.0)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    assert theirs.table.weight[0, 0].item() == 3.0


def test_state_dict_shares_memory_and_keep_vars(pair):
    model = pair[0]
    state = model.state_dict()
    assert isinstance(state, OrderedDict)
    assert not state["table.weight"].requires_grad
    assert state["table.weight"]._data is model.table.weight._data
    assert model.state_dict(keep_vars=True)["table.weight"] is model.table.weight
    assert list(model.table.state_dict(prefix="a.")) == ["a.weight"]
    into = {}
    assert model.table.state_dict(destination=into) is into
    assert list(into) == ["weight"]


def test_what_does_not_fit_is_listed(m):
    lib = library(m)
    model = m.Sequential(m.Linear(2, 3), m.Linear(3, 1))
    state = model.state_dict()
    state["1.weight"] = lib.ones(5, 3)
    state["2.weight"] = lib.ones(1)
    state["1.odd"] = lib.ones(1)
    del state["0.bias"]
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(state)
    message = str(caught.value)
    assert message.startswith("Error(s) in loading state_dict for Sequential:\n\t")
    assert 'Missing key(s) in state_dict: "0.bias"' in message
    assert 'Unexpected key(s) in state_dict: "2.weight", "1.odd"' in message
    assert "size mismatch for 1.weight: copying a param with shape" in message
    with pytest.raises(RuntimeError, match="size mismatch"):
        model.load_state_dict(state, strict=False)
    del state["1.weight"]
    result = model.load_state_dict(state, strict=False)
    assert result.missing_keys == ["0.bias", "1.weight"]
    assert result.unexpected_keys == ["2.weight", "1.odd"]
    assert "missing_keys" in repr(result)
    with pytest.raises(TypeError, match="dict-like"):
        model.load_state_dict([1])


def test_nothing_is_half_loaded():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    before = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    for wrong in (np.ones(7), "text", None):
        state = {k: v + 1 for k, v in before.items()}
        state["1.running_var"] = wrong
        with pytest.raises(RuntimeError, match="running_var"):
            model.load_state_dict(state)
        for key, value in model.state_dict().items():
            np.testing.assert_array_equal(value.numpy(), before[key])


def test_loading_keeps_identity_dtype_and_grad_flags():
    layer = nn.Linear(2, 1)
    weight = layer.weight
    layer.load_state_dict({"weight": np.ones((1, 2)), "bias": [3.0]})
    assert layer.weight is weight
    assert weight.dtype == np.float32
    assert weight.requires_grad
    assert layer(minitorch.ones(1, 2)).item() == 5.0


def test_loading_with_assign():
    for m in (nn, torch.nn):
        lib = library(m)
        layer = m.BatchNorm1d(2)
        state = {k: v.double() if v.dtype in (lib.float32,) else v for k, v in layer.state_dict().items()}
        layer.weight.requires_grad_(False)
        layer.load_state_dict(state, assign=True)
        assert layer.weight.dtype == lib.float64
        assert isinstance(layer.weight, m.Parameter)
        assert not layer.weight.requires_grad
        assert layer.bias.requires_grad
        assert layer.running_mean.dtype == lib.float64


def test_a_recorded_graph_notices_loading():
    layer = nn.Linear(2, 1)
    y = layer(minitorch.ones(1, 2, requires_grad=True)).sum()
    layer.load_state_dict({"weight": np.ones((1, 2)), "bias": np.ones(1)})
    with pytest.raises(RuntimeError, match="changed after the forward"):
        y.backward()


def test_extra_state():
    for m in (nn, torch.nn):

        class Counter(m.Module):
            def __init__(self):
                super().__init__()
                self.count = 0

            def get_extra_state(self):
                return {"count": self.count}

            def set_extra_state(self, state):
                self.count = state["count"]

        model = m.Sequential(Counter())
        model[0].count = 5
        state = model.state_dict()
        assert list(state) == ["0._extra_state"]
        fresh = m.Sequential(Counter())
        fresh.load_state_dict(state)
        assert fresh[0].count == 5
        with pytest.raises(RuntimeError, match="_extra_state"):
            fresh.load_state_dict({})
        with pytest.raises(RuntimeError, match="_extra_state"):
            m.Sequential(m.ReLU()).load_state_dict(state)


def test_state_dict_hooks():
    for m in (nn, torch.nn):
        lib = library(m)
        model = m.Sequential(m.Linear(1, 1))
        seen = []

        def rename(module, state, prefix, metadata):
            state[prefix + "w"] = state.pop(prefix + "weight")

        def pardon(module, keys):
            keys.missing_keys.clear()
            keys.unexpected_keys.clear()

        def back(module, state, prefix, metadata, strict, missing, unexpected, errors):
            state[prefix + "weight"] = state.pop(prefix + "w")

        model[0].register_state_dict_pre_hook(
            lambda mod, prefix, keep, seen=seen: seen.append((prefix, keep))
        )
        model[0].register_state_dict_post_hook(rename)
        pre = model[0].register_load_state_dict_pre_hook(back)
        state = model.state_dict()
        assert seen == [("0.", False)]
        assert list(state) == ["0.bias", "0.w"]
        given = dict(state)
        model.load_state_dict(given)
        assert list(given) == ["0.bias", "0.w"]  # the caller's dictionary is left alone
        pre.remove()
        with pytest.raises(RuntimeError, match="Missing key"):
            model.load_state_dict(given)
        # A post-hook may pardon what is missing.
        model.register_load_state_dict_post_hook(pardon)
        model.load_state_dict({"0.bias": lib.ones(1)})
        assert model[0].bias[0].item() == 1.0


# --- hooks ---------------------------------------------------------------------------------------


def test_forward_hooks(m):
    lib = library(m)

    class Scale(m.Module):
        def forward(self, x, by=1.0):
            return x * by

    layer = Scale()
    order = []
    one = lib.ones(1)
    handles = [
        layer.register_forward_pre_hook(lambda mod, args: order.append("pre")),
        layer.register_forward_pre_hook(lambda mod, args: args[0] + 1),
        layer.register_forward_pre_hook(lambda mod, args, kwargs: (args, {"by": 10.0}), with_kwargs=True),
        layer.register_forward_pre_hook(lambda mod, args: order.append("first"), prepend=True),
        layer.register_forward_hook(lambda mod, args, out: order.append("post")),
        layer.register_forward_hook(lambda mod, args, out: out + 0.5),
        layer.register_forward_hook(lambda mod, args, kwargs, out: out * kwargs["by"], with_kwargs=True),
    ]
    assert layer(one, by=3.0).item() == 205.0
    assert order == ["first", "pre", "post"]
    for handle in handles:
        handle.remove()
    assert layer(one, by=3.0).item() == 3.0
    with layer.register_forward_hook(lambda mod, args, out: out * 0):
        assert layer(one).item() == 0.0
    assert layer(one).item() == 1.0
    layer.register_forward_pre_hook(lambda mod, args, kwargs: args, with_kwargs=True)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        layer(one)


def test_forward_hook_that_is_always_called(m):
    class Broken(m.Module):
        def forward(self, x):
            raise ValueError("broken")

    layer = Broken()
    seen = []
    layer.register_forward_hook(lambda mod, args, out: seen.append("only if fine"))
    layer.register_forward_hook(lambda mod, args, out: seen.append(out), always_call=True)
    with pytest.raises(ValueError, match="broken"):
        layer(1)
    assert seen == [None]


def test_full_backward_hooks(m):
    lib = library(m)

    class Two(m.Module):
        def forward(self, x, y, factor):
            return x * y, x + y * factor

    layer = Two()
    seen = []
    layer.register_full_backward_pre_hook(lambda mod, grad_out: (grad_out[0] * 2, grad_out[1]))
    layer.register_full_backward_hook(
        lambda mod, grad_in, grad_out: seen.append(
            [None if g is None else g.tolist() for g in (*grad_in, *grad_out)]
        )
    )
    layer.register_full_backward_hook(lambda mod, grad_in, grad_out: (grad_in[0] * 100, grad_in[1], None))
    x, y = (lib.tensor([float(v)], requires_grad=True) for v in (3, 5))
    a, b = layer(x, y, 7.0)
    (a + b).sum().backward()
    assert seen == [[[11.0], [13.0], None, [2.0], [1.0]]]
    assert list(x.grad) == [1100.0]
    assert list(y.grad) == [13.0]


def test_hooks_of_every_module(m):
    where, seen = m.modules.module, []
    net = m.Sequential(m.Linear(2, 2), m.Tanh())
    with library(m).no_grad():
        net[0].weight.fill_(0.5)
        net[0].bias.fill_(0.25)
    handles = [
        where.register_module_forward_pre_hook(lambda mod, args: seen.append(type(mod).__name__)),
        where.register_module_forward_hook(
            lambda mod, args, out: out * 2 if isinstance(mod, m.Linear) else None
        ),
        where.register_module_full_backward_pre_hook(
            lambda mod, out: seen.append(("back", type(mod).__name__))
        ),
        where.register_module_full_backward_hook(
            lambda mod, into, out: (into[0] * 3,) if isinstance(mod, m.Tanh) else None
        ),
    ]
    net[0].register_forward_hook(lambda mod, args, out: out + 1)  # after those of every module
    x = library(m).ones(2, requires_grad=True)
    out = net(x)
    out.sum().backward()
    for handle in handles:
        handle.remove()
    plain = net(x)
    assert seen == [
        "Sequential",
        "Linear",
        "Tanh",
        ("back", "Sequential"),
        ("back", "Tanh"),
        ("back", "Linear"),
    ]
    np.testing.assert_allclose(out.detach().numpy(), np.tanh([3.5, 3.5]), rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), 6 * (1 - np.tanh(3.5) ** 2) * np.ones(2), rtol=1e-4)
    np.testing.assert_allclose(plain.detach().numpy(), np.tanh([2.25, 2.25]), rtol=1e-6)


@pytest.mark.parametrize("replacing", [False, True])
def test_hooks_see_what_any_module_is_given(replacing):
    """Parameters, buffers and children, by every way in; what a hook returns is taken in their place."""
    found = []
    for t in (minitorch, torch):
        seen = []

        def note(module, name, value, t=t, seen=seen):
            seen.append((type(module).__name__, name, type(value).__name__))
            if replacing and name in ("scale", "steps", "part") and value is not None:
                made = {
                    "scale": lambda: t.nn.Parameter(t.full((2,), 7.0)),
                    "steps": lambda: t.full((1,), 7.0),
                }
                return made.get(name, t.nn.Tanh)()
            return None

        where = t.nn.modules.module
        kinds = ("parameter", "buffer", "module")
        handles = [getattr(where, f"register_module_{kind}_registration_hook")(note) for kind in kinds]
        m = t.nn.Module()
        m.scale = t.nn.Parameter(t.ones(2))
        m.register_parameter("bias", None)
        m.register_parameter("bias", t.nn.Parameter(t.ones(1)))
        m.bias = None
        m.register_buffer("steps", t.zeros(1))
        m.steps = t.ones(1)
        m.steps = None
        m.register_buffer("none", None)
        m.part = t.nn.ReLU()
        m.part = None
        m.add_module("part", t.nn.ReLU())
        m.register_module("another", None)
        t.nn.Sequential(t.nn.Linear(1, 1), t.nn.BatchNorm1d(1))
        for handle in handles:
            handle.remove()
        m.after = t.nn.Parameter(t.ones(1))
        state = {name: value.tolist() for name, value in m.state_dict().items()}
        found.append((seen, state, repr(m)))
    assert found[0] == found[1]


def test_a_module_compiles_itself():
    minitorch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    twin = copy.deepcopy(net)
    calls = []
    for each in (net, twin):
        each.register_forward_hook(lambda module, args, out: out * 2)
    assert net.compile(backend="numpy", fullgraph=True) is None
    for seed in range(4):
        x = minitorch.tensor(np.random.default_rng(seed).normal(size=(5, 4)).astype(np.float32))
        for each in (net, twin):
            each(x).square().sum().backward()
        np.testing.assert_allclose(net(x).detach().numpy(), twin(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(a.grad, b.grad, rtol=1e-5)
    assert net._compiled_call_impl.compilations >= 1
    net[0].register_forward_hook(lambda *_: calls.append(1))
    net(x)
    assert len(calls) == 1  # what changes is noticed
    assert list(net.state_dict()) == list(twin.state_dict())
    plain = nn.Linear(2, 1)
    plain.compile()
    for copied in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(plain))):
        assert "_compiled_call_impl" not in vars(copied)


def test_compiled_models_notice_hooks_of_every_module():
    model, seen = nn.Linear(2, 2), []
    compiled = minitorch.compile(lambda x: model(x))
    x = minitorch.ones(1, 2)
    first = compiled(x)
    with nn.modules.module.register_module_forward_hook(lambda mod, args, out: out * 2):
        doubled = compiled(x)
    handle = nn.modules.module.register_module_forward_pre_hook(lambda mod, args: seen.append(1))
    compiled(x)
    handle.remove()
    assert doubled.tolist() == (first * 2).tolist()
    assert seen == [1]
    assert compiled(x).tolist() == first.tolist()


def test_a_model_as_bfloat16(m):
    model = m.Sequential(m.Linear(2, 3), m.BatchNorm1d(3)).bfloat16()
    told = {name: str(value.dtype).rpartition(".")[2] for name, value in model.state_dict().items()}
    kept = told.pop("1.num_batches_tracked")
    assert kept == "int64"
    assert set(told.values()) == {"bfloat16"}


def test_backward_hook_without_differentiable_inputs(m):
    lib = library(m)
    layer = m.Linear(2, 1)
    seen = []
    handle = layer.register_full_backward_hook(lambda mod, gi, go: seen.append((gi, go[0].tolist())))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Full backward hook is firing")  # PyTorch's
        layer(lib.ones(3, 2)).sum().backward()
    assert seen == [((None,), [[1.0], [1.0], [1.0]])]
    assert list(layer.bias.grad) == [3.0]
    handle.remove()
    layer(lib.ones(3, 2)).sum().backward()
    assert len(seen) == 1
    with lib.no_grad():
        layer.register_full_backward_hook(lambda mod, gi, go: seen.append(1))
        layer(lib.ones(3, 2))
    assert len(seen) == 1


def test_backward_hook_that_returns_too_many():
    layer = nn.Linear(2, 1)
    layer.register_full_backward_hook(lambda mod, gi, go: (gi[0], gi[0]))
    y = layer(minitorch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="invalid number of grad_input"):
        y.sum().backward()


# --- copies --------------------------------------------------------------------------------------


class Pickled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("b", minitorch.ones(1), persistent=False)

    def forward(self, x):
        return self.layer(x) * self.b


def test_deepcopy_and_pickle():
    model = Pickled().eval()
    model.tied = model.layer.weight
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        x = minitorch.ones(3, 2)
        assert minitorch.equal(other(x), model(x))
        assert not other.training
        assert other.tied is other.layer.weight
        assert [n for n, _ in other.named_buffers()] == ["b"]
        assert list(other.state_dict()) == list(model.state_dict())
        with minitorch.no_grad():
            other.layer.weight.zero_()
        assert model.layer.weight.numpy(force=True).any()


# --- containers ----------------------------------------------------------------------------------


def test_sequential(m):
    def kinds(model):
        return [(n, type(c).__name__) for n, c in model.named_children()]

    model = m.Sequential(m.ReLU(), m.Tanh(), m.Sigmoid(), m.GELU())
    assert len(model) == 4
    assert isinstance(model[-1], m.GELU)
    assert kinds(model[1:3]) == [("1", "Tanh"), ("2", "Sigmoid")]
    assert isinstance(model[1:3], m.Sequential)
    assert [type(x).__name__ for x in model] == ["ReLU", "Tanh", "Sigmoid", "GELU"]
    assert model.append(m.ELU()) is model
    assert model.insert(1, m.SiLU()) is model
    assert kinds(model)[1] == ("1", "SiLU")
    assert kinds(model)[5] == ("5", "ELU")
    assert isinstance(model.pop(1), m.SiLU)
    model.extend([m.Mish(), m.CELU()])
    del model[0]
    del model[-1]
    assert kinds(model) == [("0", "Tanh"), ("1", "Sigmoid"), ("2", "GELU"), ("3", "ELU"), ("4", "Mish")]
    model[1] = m.Softsign()
    assert isinstance(model[1], m.Softsign)
    del model[1:4]
    assert kinds(model) == [("0", "Tanh"), ("1", "Mish")]
    assert len(model + model) == 4
    assert len(model * 3) == 6
    model += m.Sequential(m.ReLU())
    assert len(model) == 3
    named = m.Sequential(OrderedDict([("a", m.ReLU()), ("b", m.Tanh())]))
    assert isinstance(named.b, m.Tanh)
    assert kinds(named) == [("a", "ReLU"), ("b", "Tanh")]
    for bad in (3, -4):
        with pytest.raises(IndexError):
            model[bad]
    with pytest.raises(TypeError):
        m.Sequential("no module")
    with pytest.raises(ValueError, match=r"add|operator"):
        model + m.ModuleList([m.ReLU()])


def test_module_list(m):
    layers = m.ModuleList([m.ReLU(), m.Tanh()])
    layers.append(m.GELU()).extend([m.ELU()])
    layers.insert(0, m.SiLU())
    assert [type(x).__name__ for x in layers] == ["SiLU", "ReLU", "Tanh", "GELU", "ELU"]
    assert isinstance(layers[-1], m.ELU)
    assert isinstance(layers[1:3], m.ModuleList)
    assert len(layers[1:3]) == 2
    layers[0] = m.Mish()
    del layers[1]
    assert isinstance(layers.pop(-1), m.ELU)
    assert [n for n, _ in layers.named_children()] == ["0", "1", "2"]
    layers += [m.ReLU()]
    assert len(layers + m.ModuleList([m.ReLU()])) == 5
    assert len(layers) == 4
    del layers[1:3]
    assert [type(x).__name__ for x in layers] == ["Mish", "ReLU"]
    assert layers[0] in layers
    with pytest.raises(IndexError):
        layers[9]
    with pytest.raises(NotImplementedError):
        layers(1)
    with pytest.raises(TypeError):
        layers.append("no module")
    with pytest.raises(TypeError):
        layers.extend(3)


def test_module_dict(m):
    parts = m.ModuleDict({"a": m.ReLU()})
    parts["b"] = m.Tanh()
    parts.update([("c", m.GELU())])
    assert list(parts) == list(parts.keys()) == ["a", "b", "c"]
    assert "b" in parts
    assert len(parts) == 3
    assert isinstance(parts.pop("b"), m.Tanh)
    del parts["c"]
    assert [k for k, _ in parts.items()] == ["a"]
    assert isinstance(next(iter(parts.values())), m.ReLU)
    parts.clear()
    assert len(parts) == 0
    with pytest.raises(TypeError):
        parts.update(3)
    with pytest.raises(ValueError, match=r"2|pair"):
        parts.update([("a", m.ReLU(), 3)])
    with pytest.raises(KeyError):
        parts["missing"]


def test_parameter_list_and_dict(m):
    lib = library(m)
    values = m.ParameterList([lib.ones(2), m.Parameter(lib.ones(3)), "anything"])
    assert len(values) == 3
    assert isinstance(values[0], m.Parameter)
    assert values[-1] == "anything"
    values.append(lib.zeros(1)).extend([lib.zeros(4)])
    values[0] = lib.zeros(5)
    assert [n for n, _ in values.named_parameters()] == ["0", "1", "3", "4"]
    assert isinstance(values[1:3], m.ParameterList)
    assert [tuple(p.shape) for p in values if isinstance(p, m.Parameter)] == [(5,), (3,), (1,), (4,)]
    with pytest.raises(IndexError):
        values[7]
    with pytest.raises(TypeError):
        values.extend(3)
    named = m.ParameterDict({"a": lib.ones(2)})
    named["b"] = lib.ones(3)
    named.update({"c": m.Parameter(lib.ones(1))})
    assert list(named) == ["a", "b", "c"]
    assert list(reversed(named)) == ["c", "b", "a"]
    assert list(named.state_dict()) == ["a", "b", "c"]
    assert named.get("x", 7) == 7
    assert named.setdefault("d", lib.ones(4)).shape[0] == 4
    assert "d" in named
    assert tuple(named.pop("d").shape) == (4,)
    assert named.popitem()[0] == "c"
    assert list(named.copy().keys()) == ["a", "b"]
    merged = named | m.ParameterDict({"z": lib.ones(1)})
    assert list(merged.keys()) == ["a", "b", "z"]
    named |= m.ParameterDict({"y": lib.ones(1)})
    assert [k for k, _ in named.items()] == ["a", "b", "y"]
    assert len(list(named.values())) == len(named) == 3
    del named["y"]
    named.clear()
    assert len(named) == 0
    with pytest.raises((KeyError, AttributeError)):  # ours, PyTorch's
        named["gone"]


# --- the front -----------------------------------------------------------------------------------


def test_nn_is_reached_from_the_front_at_first_use():
    import subprocess
    import sys

    code = (
        "import sys, minitorch; assert 'minitorch.nn' not in sys.modules; "
        "assert minitorch.nn.Linear(2, 1)(minitorch.ones(2)).shape == (1,); assert 'nn' in dir(minitorch)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        minitorch.nonsense


def parameters_of(function):
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]


def public(*names):
    for name in names:
        ours = importlib.import_module(f"minitorch.nn.{name}")
        theirs = (
            torch.nn.functional
            if name.startswith("functional")
            else torch.nn.init
            if name == "init"
            else torch.nn
        )
        for each in filter(
            theirs.__dict__.__contains__, ours.__all__
        ):  # PyTorch need not have all that we have
            yield pytest.param(getattr(ours, each), getattr(theirs, each), id=f"{name}.{each}")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        *public("activation", "containers", "dropout", "embedding", "linear", "normalization", "init"),
        *public(*(f"functional.{n}" for n in ("activation", "dropout", "linear", "normalization"))),
    ],
)
def test_signatures_are_pytorchs(ours, theirs):
    try:
        expected = parameters_of(theirs)
    except ValueError:  # PyTorch wrote it in C++, and its text is all there is
        assert ours.__name__ in theirs.__doc__
        return
    if ours is nn.Hardtanh:
        expected = expected[:3]  # two old names of the first two are not taken over
    assert parameters_of(ours) == expected


def test_methods_of_module_take_what_pytorchs_do():
    for name, method in vars(torch.nn.Module).items():
        if name.startswith("_") or not callable(method) or not hasattr(nn.Module, name):
            continue
        mine = dict(parameters_of(getattr(nn.Module, name)))
        if "args" not in mine:
            expected = {k: v for k, v in parameters_of(method) if k != "args"}
            assert expected.items() <= mine.items(), name


def test_a_forgotten_super_init_is_named():
    class Forgetful(nn.Module):
        def __init__(self, value=None):
            if value is not None:
                self.value = value

        def forward(self, x):
            return x

    for wrong in (
        lambda: Forgetful(nn.Parameter(minitorch.ones(1))),
        lambda: Forgetful(nn.ReLU()),
        lambda: Forgetful().register_buffer("b", minitorch.ones(1)),
        lambda: Forgetful()(minitorch.ones(2)),
        lambda: nn.Sequential(Forgetful())(minitorch.ones(2)),
        lambda: list(Forgetful().parameters()),
        lambda: Forgetful().state_dict(),
        lambda: Forgetful().train(),
        lambda: repr(Forgetful()),
    ):
        with pytest.raises(
            AttributeError, match=r"Write super\(\).__init__\(\) as the first line of Forgetful.__init__"
        ):
            wrong()
    with pytest.raises(AttributeError, match=r"'Linear' object has no attribute 'wieght'$"):
        nn.Linear(1, 1).wieght


def test_calling_a_module_costs_little_memory_and_leaves_no_cycle():
    import gc
    import weakref

    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Dropout(0.1))
    gc.collect()
    gc.disable()
    try:
        y = model(minitorch.ones(2, 3))
        ref = weakref.ref(y)
        y.sum().backward()
        del y
        assert ref() is None
        other = weakref.ref(copy.deepcopy(model))
        assert other() is None
    finally:
        gc.enable()


def test_a_notebook_shows_a_table_of_modules():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
    shown = model._repr_html_()
    assert (
        "<td>0</td><td>Linear(in_features=3, out_features=4, bias=True)</td><td>weight 4×3, bias 4</td><td>16</td>"
        in shown
    )
    assert shown.count("<tr>") == 5
    assert "<td>24</td>" in shown
