"""What must hold for a call: for each kind of condition, all readings of the one list agree that a call violates it.

The readings: the quick check (key, guards, captured arrays, memory, decisions), the check that says why, the check
written out as source, and the entry of a program that runs natively.
"""

import abc
import contextvars
import dataclasses
import functools
import types
from collections import OrderedDict

import numpy as np
import pytest

import minitorch as mt
from compiled import BACKENDS
from minitorch import nn, optim
from minitorch.compiler.call.conditions import MISS, Condition, SourceCode, compiled_from
from minitorch.compiler.call.guards import _LOOKS
from minitorch.compiler.call.key import Arguments
from minitorch.compiler.call.specialisation import Redecided
from minitorch.engine.modes import current, switch
from minitorch.engine.recording import changed
from minitorch.ops.exponential import EXP


class Thing:
    scale = 2.0
    __slots__ = ("__dict__", "slot")

    def __init__(self):
        self.number = 3.0
        self.slot = 4.0

    def __call__(self, x):
        return x * self.scale * self.number * self.slot


CALL = Thing.__call__


@dataclasses.dataclass
class Pair:
    a: object
    b: object


def with_more(pair):
    pair.more = 3
    return pair


def helper(x, factor=2.0):
    return x * factor


SOME_GLOBAL = 5.0


class Case:
    """A function, the arguments of a call that it is compiled for, and how to violate one condition.

    change: called with the arguments; what it returns, if anything, are the arguments of the violating call.
    """

    def __init__(self, function, args, change, told="", options=None, other_options=None):
        self.function = function
        self.args = args
        self.change = change
        self.told = told
        self.options = options or {}
        self.other_options = other_options


CASES = {}


def case(make):
    CASES[make.__name__] = make
    return make


def argument(name, args, other, told, function=None, options=None, other_options=None):
    """A condition on the arguments: a call with others violates it."""

    def make():
        given = args()
        changed = other(*given) if other is not None else given
        run = function or (lambda *a, **o: mt.ones(2) * 2)
        return Case(run, given, lambda *a: changed, told, options, other_options)

    CASES[name] = make


ones = lambda: (mt.ones(2),)
argument("count", ones, lambda x: (x, x), "the length of args was 1 and is 2")
argument("tensor_type", ones, lambda x: (nn.Parameter(x, requires_grad=False),), "the type of args[0]")
argument("array_for_tensor", ones, lambda x: (x.numpy(),), "the type of args[0]")
argument("tensor_for_array", lambda: (np.ones(2),), lambda x: (mt.tensor(x),), "the array of args[0]")
argument("shape", ones, lambda x: (mt.ones(3),), "the shape of args[0] was (2,) and is (3,)")
argument("dtype", ones, lambda x: (mt.ones(2, dtype=mt.float64),), "the dtype of args[0]")
argument("strided", ones, lambda x: (mt.ones(4)[::2],), "whether args[0] is contiguous was True")
argument("read_only", ones, lambda x: (mt.ones(1).expand(2),), "contiguous was True")
argument("requires_grad", ones, lambda x: (mt.ones(2, requires_grad=True),), "requires_grad of args[0]")
argument("an_int", lambda: (1,), lambda n: (2,), "args[0] was 1 and is 2")
argument("a_bool_for_an_int", lambda: (1,), lambda n: (True,), "the type of args[0]")
argument("a_string", lambda: ("a",), lambda n: ("b",), "args[0] was 'a' and is 'b'")
argument("none", lambda: (None,), lambda n: (0,), "the type of args[0]")
argument("a_float", lambda: (0.5,), lambda n: (0.25,), "args[0] was 0.5 and is 0.25")
argument("minus_zero", lambda: (0.0,), lambda n: (-0.0,), "args[0] was 0.0 and is -0.0")
argument("nan", lambda: (float("nan"),), lambda n: (0.0,), "args[0] was nan and is 0.0")
argument("a_slice", lambda: (slice(0, 2),), lambda n: (slice(0, 1),), "args[0] was 'slice(0, 2, None)'")
argument("a_list", lambda: ([1, 2],), lambda n: ([1],), "the length of args[0]")
argument("an_item", lambda: ([1, (2, 3)],), lambda n: ([1, (2, 4)],), "args[0][1][1] was 3 and is 4")
argument("keys", lambda: ({"a": 1},), lambda n: ({"b": 1},), "the keys of args[0]")
argument("a_value", lambda: ({"a": 1},), lambda n: ({"a": 2},), "args[0]['a'] was 1 and is 2")
argument("a_field", lambda: (Pair(1, 2),), lambda n: (Pair(1, 3),), "args[0].b was 2 and is 3")
argument(
    "more_than_fields", lambda: (Pair(1, 2),), lambda n: (with_more(Pair(1, 2)),), "has its fields alone"
)
argument("an_object", lambda: (Thing(),), lambda n: (Thing(),), "which object args[0] is")
argument("a_class", lambda: ((1, 2),), lambda n: ([1, 2],), "the type of args[0]")
argument(
    "identical", lambda: (mt.ones(2), mt.ones(2)), lambda x, y: (x, x), "are one object was False and is True"
)
argument(
    "different",
    lambda: (mt.ones(2),) * 2,
    lambda x, y: (x, x.clone()),
    "are one object was True and is False",
)
argument("options", ones, None, "the number of keyword arguments was 0 and is 1", other_options={"n": 2})
argument("an_option", ones, None, "options['n'] was 1 and is 2", options={"n": 1}, other_options={"n": 2})


def tracked():
    return (mt.ones(2, requires_grad=True),)


def with_hook(x):
    x.register_hook(lambda g: g)


def with_gradient(x):
    x.grad = np.ones(2, np.float32)


argument("is_leaf", tracked, lambda x: (x * 1,), "whether args[0] is a leaf", lambda x: x.detach() * 2)


@case
def hooks_of_an_argument():
    return Case(
        lambda x: x.detach() * 2, tracked(), with_hook, "whether args[0] has hooks was False and is True"
    )


@case
def gradient_of_an_argument():
    function = lambda x: x * 2 if x.grad is None else x * 3
    return Case(function, ones(), with_gradient, "whether args[0] has no gradient was True and is False")


@case
def grad_mode():
    return Case(
        lambda x: x * 2, ones(), lambda x: mt.set_grad_enabled(False), "whether gradients are recorded"
    )


@case
def autocast():
    change = lambda x: switch(current()._replace(precision=mt.float16)) and None
    return Case(lambda x: x * 2, ones(), change, "what autocast chose")


@case
def observers():
    change = lambda x: switch(current()._replace(observers=(print,))) and None
    return Case(lambda x: x * 2, ones(), change, "who observes ops")


@case
def gradient_check():
    change = lambda x: switch(current()._replace(gradient_check=print)) and None
    return Case(lambda x: x * 2, ones(), change, "who checks gradients")


@case
def another_recording():
    change = lambda x: switch(current()._replace(recorder=types.SimpleNamespace())) and None
    return Case(lambda x: x * 2, ones(), change, "who records")


@case
def default_dtype():
    return Case(lambda x: x * 2, ones(), lambda x: mt.set_default_dtype(mt.float64), "the default dtype")


# --- guards -------------------------------------------------------------------------------------------------------


def guard(name, told, make):
    """A condition on what the function finds by itself. make: gives the function, and what violates the condition."""

    def build():
        function, change = make()
        return Case(function, ones(), lambda x: (change(), None)[1], told)

    CASES[name] = build


def changed_cell():
    number = 2.0

    def change():
        nonlocal number
        number = 3.0

    return lambda x: x * number, change


def changed_object():
    box = [object()]

    def change():
        nonlocal box
        box = (object(),)

    return lambda x: x * len(box), change


def emptied_cell():
    number = 2.0

    def change():
        nonlocal number
        del number

    return lambda x: x * number, change


def of_globals(source, before, change):
    def make():
        space = {"x": 1, **before}
        exec(source, space)
        return space["f"], lambda: change(space)

    return make


def with_thing(change, use=lambda thing, x: thing(x)):
    def make():
        thing = type("Own", (Thing,), {"scale": 2.0, "__module__": __name__})()
        return lambda x: use(thing, x), lambda: change(thing)

    return make


def total(box, x):
    """Look at everything in a container."""
    for each in box:
        x = x * (box[each] if isinstance(box, dict) and not isinstance(box[each], Thing) else 1)
        x = x * 2 if each == 1 else x
    return x


def with_container(container, change, use=lambda box, x: x * len(box)):
    def make():
        box = container()
        return lambda x: use(box, x), lambda: change(box)

    return make


def with_function(change):
    def make():
        def inner(x, a=2.0, *, b=3.0):
            return x * a * b

        return lambda x: inner(x), lambda: change(inner)

    return make


def with_module(change, model=lambda: nn.Linear(2, 2)):
    def make():
        module = model()
        return lambda x: module(x).detach(), lambda: change(module)

    return make


def with_unread(change):
    """A Tensor of which nothing but its shape is read."""

    def make():
        w = mt.ones(2, 3)
        return lambda x: x * w.shape[0], lambda: setattr(w, "data", change(w.data))

    return make


def with_optimizer(change):
    def make():
        p = nn.Parameter(mt.ones(2))
        optimizer = optim.SGD([p], lr=0.1, momentum=0.5)

        def step(x):
            optimizer.zero_grad()
            (p * x).sum().backward()
            optimizer.step()

        for _ in range(2):
            step(mt.ones(2))
        return step, lambda: change(optimizer)

    return make


def remove_gradient_and_set_it():
    p = mt.ones(2)
    return lambda x: x * 2 if p.grad is None else x * 3, lambda: with_gradient(p)


reader = "def f(x): return x * g"
maybe = "def f(x):\n try: return x * g\n except NameError: return x"


def registered_class():
    class Kind(metaclass=abc.ABCMeta):  # noqa: B024
        pass

    class Other:
        pass

    other = Other()
    return (lambda x: x * 2 if isinstance(other, Kind) else x * 3), lambda: Kind.register(Other)


guard("registered", "whether it is a Kind was False and is True", registered_class)
guard("closure", "number was 2.0 and is 3.0", changed_cell)
guard("empty_closure", "number is gone", emptied_cell)
guard("global", "g was 2.0 and is 3.0", of_globals(reader, {"g": 2.0}, lambda s: s.update(g=3.0)))
guard("global_gone", "g is gone", of_globals(reader, {"g": 2.0}, lambda s: s.pop("g")))
guard("global_made", "g was not there and is now", of_globals(maybe, {}, lambda s: s.update(g=3.0)))
guard("attribute", "number was 3.0 and is 5.0", with_thing(lambda t: setattr(t, "number", 5.0)))
guard("slot", "slot was 4.0 and is 5.0", with_thing(lambda t: setattr(t, "slot", 5.0)))
guard("class_attribute", "scale was 2.0 and is 5.0", with_thing(lambda t: setattr(type(t), "scale", 5.0)))
guard("hidden_attribute", "scale was not there and is now", with_thing(lambda t: setattr(t, "scale", 5.0)))
guard("method", "__call__ was a function", with_thing(lambda t: setattr(Thing, "__call__", helper)))
guard(
    "code",
    "code of",
    with_function(lambda f: setattr(f, "__code__", (lambda x, a=1, *, b=2: x).__code__)),
)
guard("defaults", "defaults of", with_function(lambda f: setattr(f, "__defaults__", (9.0,))))
guard("keyword_default", "was 3.0 and is 9.0", with_function(lambda f: f.__kwdefaults__.update(b=9.0)))
guard(
    "list", "was [1, 2] and is [1, 3]", with_container(lambda: [1, 2], lambda b: b.__setitem__(1, 3), total)
)
guard(
    "list_item",
    "[1] was 2 and is 3",
    with_container(lambda: [1, 2], lambda b: b.__setitem__(1, 3), lambda b, x: x * b[1]),
)
guard(
    "list_length",
    "the length of a list was 2 and is 3",
    with_container(lambda: [1, 2], lambda b: b.append(3)),
)
guard("list_of_objects", "was a object and is a object",
      with_container(lambda: [object()], lambda b: b.__setitem__(0, object()), total))  # fmt: skip
guard("dict_item", "['a'] was 1 and is 2", with_container(lambda: {"a": 1}, lambda b: b.update(a=2), total))
guard("item_of_a_dict_subclass", "['a'] was a Thing and is a Thing",
      with_container(lambda: OrderedDict(a=Thing()), lambda b: b.update(a=Thing()), total))  # fmt: skip
guard(
    "dict_length",
    "the length of a dict was 1 and is 2",
    with_container(lambda: {"a": 1}, lambda b: b.update(b=2)),
)
guard("set", "a set was [1] and is [1, 2]", with_container(lambda: {1}, lambda b: b.add(2), total))
guard("array_shape", "the layout of an array", with_container(lambda: np.ones((2, 3)), lambda b: setattr(b, "shape", (3, 2)),
      lambda box, x: x * len(box)))  # fmt: skip
guard("array_content", "the content of an array", with_container(lambda: np.arange(2), lambda b: b.__setitem__(0, 5),
      lambda box, x: x * int(np.asarray(box.tolist()).sum())))  # fmt: skip
guard("gradient", "the gradient of a tensor of shape (2,)", remove_gradient_and_set_it)
guard(
    "parameter",
    "Linear.weight was a Parameter",
    with_module(lambda m: setattr(m, "weight", nn.Parameter(mt.ones(2, 2)))),
)
guard(
    "frozen",
    "weight.requires_grad was True and is False",
    with_module(lambda m: m.weight.requires_grad_(False)),
)
guard("keyword_defaults", "defaults of", with_function(lambda f: setattr(f, "__kwdefaults__", {"b": 9.0})))
guard(
    "item_beside_objects",
    "[0] was 1 and is 2",
    with_container(lambda: [1, object()], lambda b: b.__setitem__(0, 2), total),
)
guard("closure_of_an_object", "box was a list and is a tuple", changed_object)
guard(
    "groups",
    "param_groups was a list",
    with_optimizer(lambda o: setattr(o, "param_groups", [*o.param_groups])),
)
guard("states", "SGD.state was", with_optimizer(lambda o: setattr(o, "state", {**o.state})))
guard(
    "graph",
    "the graph of Linear.weight",
    with_module(lambda m: (setattr(m.weight, "_operation", EXP), changed())),
)
guard("eval", "Linear.training was True and is False", with_module(lambda m: m.eval()))
guard("module_hook", "the hooks of Linear", with_module(lambda m: m.register_forward_hook(lambda *a: None)))
guard("tensor_hook", "the hooks of Linear.weight", with_module(lambda m: m.weight.register_hook(lambda g: None),
      lambda: (lambda m: (m.weight.register_hook(lambda g: g), m)[1])(nn.Linear(2, 2))))  # fmt: skip
guard(
    "first_tensor_hook",
    "weight.hooks was None",
    with_module(lambda m: m.weight.register_hook(lambda g: None)),
)
guard(
    "added_module",
    "the keys of _modules",
    with_module(lambda m: m._modules.update(x=nn.ReLU()), nn.Sequential),
)
guard(
    "option",
    "['momentum'] was 0.5 and is 0.9",
    with_optimizer(lambda o: o.param_groups[0].update(momentum=0.9)),
)
guard(
    "group",
    "SGD.param_groups",
    with_optimizer(lambda o: o.add_param_group({"params": [mt.zeros(1)]})),
)
guard("state", "len(SGD.state)", with_optimizer(lambda o: o.state.clear()))
guard(
    "step_hook",
    "the hooks of SGD",
    with_optimizer(lambda o: o.register_step_post_hook(lambda *a: None)),
)
guard(
    "captured_dtype", "the dtype of a tensor", with_module(lambda m: m.weight.data.__class__ and m.double())
)


@case
def captured_shape():
    p = mt.ones(2)

    def change(x):
        p.data = np.ones((1, 2), np.float32)

    return Case(lambda x: x * p, ones(), change, "the shape of a tensor was (2,) and is (1, 2)")


@case
def an_option_of_another_type():
    p = mt.ones(2, requires_grad=True)
    optimizer = mt.optim.SGD([p], lr=0.5)

    def step(x):
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()
        return p * 1

    def change(x):
        optimizer.param_groups[0]["lr"] = 1

    return Case(step, ones(), change, "the type of the number 'lr' was")


@case
def a_rate_of_another_type():
    layer = nn.Dropout(0.5)

    def change(x):
        vars(layer)["p"] = 1

    return Case(lambda x: layer(x), ones(), change, "the type of the number 'p' was")


@case
def captured_gradient():
    p = mt.ones(2)
    p.grad = np.ones(2, np.float32)

    def change(x):
        p.grad = None

    return Case(lambda x: x * mt.tensor(0.0) + p * p.grad, ones(), change, "was there and is none now")


@case
def memory():
    p = mt.ones(2)

    def add(x):
        p.add_(x)
        return x * 2

    return Case(add, ones(), lambda x: (p,), "shares memory with what is written")


@case
def decision():
    dropout = nn.Dropout(0.5)

    def change(x):
        dropout.p = 0.0

    return Case(lambda x: dropout(x), ones(), change, "a decision on a number goes the other way")


# --- what is looked at in other ways ----------------------------------------------------------------------------------


class Base:
    def scaled(self, x):
        return x * 2


class Inherited(Base):
    def scaled(self, x):
        return super().scaled(x) + 1


class Other(Inherited):
    pass


class Meta(type):
    def __bool__(cls):
        return True


class OfMeta(metaclass=Meta):
    size = 2.0


def restored_afterwards(change, *places):
    """Change something for everybody; RESTORE is what puts it back."""

    def make():
        for holder, name in places:
            RESTORE.append((holder, name, vars(holder)[name]))
        change()

    return make


RESTORE = []


def with_inherited(change):
    def make():
        thing = Inherited()
        return lambda x: thing.scaled(x), lambda: change(thing)

    return make


def patched(holder, name, new):
    return restored_afterwards(lambda: setattr(holder, name, new), (holder, name))


def a_cached_function():
    table = {"factor": 2.0}

    @functools.lru_cache
    def factor():
        return table["factor"]

    return lambda x: x * factor(), lambda: (factor.cache_clear(), table.update(factor=3.0), factor())


def a_context_variable():
    factor = contextvars.ContextVar("factor", default=2.0)
    return lambda x: x * factor.get(), lambda: factor.set(3.0)


def an_argument_found_by_name():
    p = mt.ones(2)
    return Case(lambda x: x * 2 + p, ones(), lambda x: (p,), "also finds by itself")


def compared_by_identity():
    p = mt.ones(2)
    return Case(lambda x: x * 2 if x is p else x, ones(), lambda x: (p,), "also finds by itself")


def an_argument_that_was_found_by_name():
    p = mt.ones(2)
    return Case(lambda x: x * 2 + p, (p,), lambda x: (mt.ones(2),), "p was")


def a_partial():
    partial = functools.partial(helper, factor=2.0)
    return lambda x: partial(x), lambda: partial.__setstate__((helper, (), {"factor": 3.0}, None))


for make in (an_argument_found_by_name, compared_by_identity, an_argument_that_was_found_by_name):
    case(make)
guard(
    "class_of_an_object", "the class of a Inherited", with_inherited(lambda t: setattr(t, "__class__", Other))
)
guard("method_by_super", "Base.scaled was a function", with_inherited(
    lambda t: patched(Base, "scaled", lambda self, x: x * 5)()))  # fmt: skip
guard(
    "class_with_a_metaclass",
    "OfMeta.size was 2.0",
    lambda: (lambda x: x * OfMeta.size, patched(OfMeta, "size", 3.0)),
)
guard("forward", "Linear.forward was a function", with_module(
    lambda m: patched(nn.Linear, "forward", lambda self, x: x * 2)()))  # fmt: skip
guard("function_of_a_layer", "the functions of nn.functional was a list and is a list", with_module(
    lambda m: patched(nn.functional, "linear", lambda *args: args[0])()))  # fmt: skip
guard("forward_of_an_instance", "Linear.forward was not there and is now",
      with_module(lambda m: setattr(m, "forward", lambda x: x * 2)))  # fmt: skip
guard(
    "class_of_a_module",
    "the class of",
    with_module(lambda m: setattr(m, "__class__", type("L", (nn.Linear,), {}))),
)
guard("zero_grad", "SGD.zero_grad was", with_optimizer(
    lambda o: patched(optim.Optimizer, "zero_grad", lambda self: None)()))  # fmt: skip
guard("attributes_replaced", "the attributes of a Own",
      with_thing(lambda t: setattr(t, "__dict__", {"number": 3.0})))  # fmt: skip
guard("unread_shape", "the shape of a tensor", with_unread(lambda a: a.T))
guard("unread_dtype", "the dtype of a tensor", with_unread(lambda a: a.astype(np.float64)))
guard("remembered", "what factor remembers was 2.0 and is 3.0", a_cached_function)
guard("context", "a context variable was 2.0 and is 3.0", a_context_variable)
guard("partial", "a partial function was", a_partial)
guard("function_attribute", "factor was 2.0 and is 3.0", lambda: (
    lambda f: (lambda x: x * f.factor, lambda: setattr(f, "factor", 3.0)))(
    [f := (lambda: None), setattr(f, "factor", 2.0)][0]))  # fmt: skip
guard("order_of_a_dict", "the keys of a dict was ('a', 'b') and is ('b', 'a')", with_container(
    lambda: {"a": 2, "b": 3}, lambda b: b.update(a=b.pop("a")), lambda box, x: [x * v for v in box.values()]))  # fmt: skip
guard("in_a_dict", "whether 'a' is in it was False and is True", with_container(
    dict, lambda b: b.update(a=1), lambda box, x: x * 2 if "a" in box else x))  # fmt: skip
guard("not_in_a_dict", "['a'] was not there and is now", with_container(
    dict, lambda b: b.update(a=1), lambda box, x: x * box.get("a", 2)))  # fmt: skip
guard("bytes", "some bytes was b'ab' and is b'cb'", with_container(
    lambda: bytearray(b"ab"), lambda b: b.__setitem__(0, 99), lambda box, x: x * sum(box)))  # fmt: skip
guard("absent_slot", "Thing.slot was", with_container(
    lambda: Thing.__new__(Thing), lambda t: setattr(t, "slot", 3.0), lambda t, x: x * getattr(t, "slot", 2.0)))  # fmt: skip
guard("absent_attribute", "Thing.more was not there and is now", with_container(
    Thing, lambda t: setattr(t, "more", 3.0), lambda t, x: x * getattr(t, "more", 2.0)))  # fmt: skip

WITHOUT_ENTRY = {"captured_gradient"}  # the gradient of a Tensor is an input of its program


def readings(program, args, options, written):
    """Whether a call fits, by each of the readings."""
    arguments = Arguments(args, options, current())
    quick = arguments.key_with(program.key.inputs) == program.key and not current().observers
    quick = quick and current().gradient_check is None and current().recorder is None
    quick = quick and program.fits(arguments) and not program.overlaps(arguments.leaves)
    if quick:
        try:
            program.decide(arguments)
        except Redecided:
            quick = False
    told = program.violation(arguments)
    return quick, told, written(args, options) is True


def written_out(program):
    """The check of a program's conditions as one function."""
    source = SourceCode()
    source.lines.append("def check(args, options):")
    source.add("try:")
    lines = source.lines
    source.lines = []
    for requirement in program.requirements(program.spelled(current())):
        requirement.write(source)
    source.lines = [*lines, *("    " + line for line in source.lines)]
    source.add("    return True")
    source.add("except GONE: return MISS")
    return compiled_from(source, "check", "<a check>")


@pytest.fixture
def restored():
    """What the cases change for everybody."""
    mode = current()
    yield
    put_back(mode)


def put_back(mode):
    switch(mode)
    Thing.__call__ = CALL
    mt.set_default_dtype(mt.float32)
    while RESTORE:
        holder, name, before = RESTORE.pop()
        setattr(holder, name, before)
    changed()


@pytest.mark.parametrize("name", CASES)
def test_readings_of_a_condition_agree(name, restored):
    one = CASES[name]()
    f = mt.compile(one.function, backend="numpy")
    for _ in range(3):
        f(*one.args, **one.options)
    program = next(iter(f.cache.all()), None)
    assert program is not None, f.cache.reasons
    written = written_out(program)
    assert readings(program, one.args, one.options, written) == (True, "", True)
    args = one.change(*one.args) or one.args
    options = one.other_options or one.options
    quick, told, by_source = readings(program, args, options, written)
    assert (quick, by_source) == (False, False)
    assert one.told in told


@pytest.mark.skipif("native" not in BACKENDS, reason="needs the native backend")
@pytest.mark.parametrize("name", CASES)
def test_an_entry_gives_way_where_a_condition_does_not_hold(name, restored):
    one = CASES[name]()
    f = mt.compile(one.function, backend="native")
    for _ in range(3):
        f(*one.args, **one.options)
    if f.cache.latest.entry is None:
        assert name in WITHOUT_ENTRY
        return
    assert f.cache.latest.entry(one.args, one.options) is not MISS
    args = one.change(*one.args) or one.args
    assert f.cache.latest.entry(args, one.other_options or one.options) is MISS


def kinds(requirement):
    """The kinds of conditions in a requirement: what they look at, and how."""
    inner = getattr(requirement, "conditions", [requirement])
    return {kind(c) for c in inner if isinstance(c, Condition)}


def kind(condition):
    """What a condition looks at, and how: one attribute of a class is like any other."""
    if isinstance(next(iter(condition.operands), None), type) and condition.look.startswith(
        ("{0}.", "lookup")
    ):
        return "a class's", "is"
    if isinstance(next(iter(condition.operands), None), functools.partial):
        return "a partial function's", "is"
    return condition.look, condition.test


def violated(program, args, options):
    """The kind of the first condition that a call violates."""
    call = {"args": args, "options": options}
    for requirement in program.requirements(program.spelled()):
        for each in getattr(requirement, "conditions", [requirement]):
            if requirement is not each:
                requirement.violation(call)  # a captured array is named by it
            if each.violation(call):
                return kind(each)
    return None


def test_every_kind_of_condition_has_a_case(restored):
    mode = current()
    known, shown = set(), set()
    for make in CASES.values():
        one = make()
        f = mt.compile(one.function, backend="numpy")
        for _ in range(3):
            f(*one.args, **one.options)
        program = f.cache.all()[0]
        for requirement in program.requirements(program.spelled()):
            known |= kinds(requirement)
        args = one.change(*one.args) or one.args
        shown.add(violated(program, args, one.other_options or one.options))
        put_back(mode)
    assert known - shown == set()
    assert {look for look, _ in _LOOKS.values()} - {look for look, _ in shown} == set()
