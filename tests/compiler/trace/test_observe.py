"""Instrumented code does what plain code does: each construct of the language, observed and not.

A function is run as it is, instrumented with nobody observing, and instrumented under an observer. All three must give
the same results, the same errors and leave the same things behind.
"""

# The constructs themselves are the point here, also where there is a shorter way.
# ruff: noqa: B023, C400, C405, C406, C409, C420, F821, PIE800, PIE804, RUF005, SIM222, UP008, UP031

import collections
import contextlib
import dataclasses
import functools
import operator
import sys
import types

import numpy as np
import pytest

import minitorch as mt
from minitorch.compiler.call.compiled import CompileError, CompileWarning
from minitorch.compiler.trace.observe.hooks import rewriter
from minitorch.compiler.trace.observe.observer import watched_by
from minitorch.compiler.trace.observe.watchdog import watchdog

CONSTRUCTS = {}


def construct(function):
    """Enter a construct in the table: a function without arguments that returns plain things."""
    CONSTRUCTS[function.__name__] = function
    return function


def instrumented(function):
    """The same function, of rewritten code."""
    new = types.FunctionType(
        rewriter.instrumented(function.__code__),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    new.__kwdefaults__ = function.__kwdefaults__
    return new


def outcome(function, *args):
    try:
        return function(*args)
    except CompileError:
        raise
    except Exception as error:
        return type(error), str(error)


@construct
def closures_and_cells():
    count = 0

    def add(n):
        nonlocal count
        count += n
        return count

    return [add(1), add(2), count]


@construct
def a_cell_that_is_empty():
    def look():
        return later

    if CONSTRUCTS is None:
        later = 1
    return look()


@construct
def a_name_that_is_missing():
    return nothing_of_this_name


@construct
def comprehensions():
    n = 3
    squares = [i * n for i in range(4) if i % 2]
    return squares, {i: n for i in "ab"}, {i % 2 for i in range(5)}, list(i + n for i in range(3))


@construct
def nested_comprehensions():
    return [[i * j for j in range(i)] for i in range(4)], [
        (i, j) for i in range(2) for j in range(2) if i != j
    ]


class Manager:
    def __init__(self, log, swallows):
        self.log = log
        self.swallows = swallows

    def __enter__(self):
        self.log.append("enter")
        return 7

    def __exit__(self, kind, error, trace):
        self.log.append(kind)
        return self.swallows


@construct
def with_statements():
    log = []

    with Manager(log, False) as n:
        log.append(n)
    with Manager(log, True):
        raise ValueError("swallowed")
    try:
        with Manager(log, False), Manager(log, False):
            raise KeyError("passed on")
    except KeyError as error:
        log.append(str(error))
    return log


@construct
def with_a_generator():
    @contextlib.contextmanager
    def scope(log):
        log.append("in")
        try:
            yield len(log)
        finally:
            log.append("out")

    log = []
    with scope(log) as n:
        log.append(n)
    return log


@construct
def return_from_with():
    with contextlib.nullcontext(5) as n:
        return n


@construct
def try_except_else_finally():
    log = []
    for what in (None, ValueError, KeyError):
        try:
            if what is not None:
                raise what("x")
        except ValueError as error:
            log.append(("value", error.args))
        except (KeyError, IndexError):
            log.append("key")
        else:
            log.append("else")
        finally:
            log.append("finally")
    return log


@construct
def return_in_finally():
    try:
        raise ValueError
    finally:
        return "finally"  # noqa: B012


@construct
def raise_from():
    try:
        try:
            {}["a"]
        except KeyError as error:
            raise RuntimeError("wrapped") from error
    except RuntimeError as error:
        return type(error.__cause__).__name__, str(error)


@construct
def reraise():
    try:
        try:
            raise ValueError("again")
        except ValueError:
            raise
    except ValueError as error:
        return str(error)


@construct
def an_error_that_leaves():
    raise LookupError("out of here")


@construct
def unpacking():
    a, b = (1, 2)
    first, *middle, last = range(5)
    (c, d), e = [(3, 4), 5]
    return a, b, first, middle, last, c, d, e, [*middle, *"ab"], {**{"x": 1}, "y": 2}, (*middle, 9)


@construct
def too_many_to_unpack():
    a, b = [1, 2, 3]
    return a, b


@construct
def star_arguments():
    def f(a, b=2, *rest, c, d=4, **options):
        return a, b, rest, c, d, options

    return f(1, c=3), f(*[1, 2, 3, 4], c=5, **{"e": 6}), f(1, *(2,), c=3, **{"d": 7})


@construct
def wrong_arguments():
    def f(a, /, b, *, c):
        return a

    return f(1, 2, 3)


@construct
def formatted_strings():
    n, name = 3.14159, "pi"
    return (
        f"{name}={n:.2f}",
        f"{n!r:>10}",
        f"{name!s:^8}|",
        f"{n=}",
        f"{'nested ' + name:{10}}",
        "%s %d" % (name, 3),
    )


class A:
    def __init__(self, n):
        self.n = n

    @property
    def double(self):
        return self.n * 2

    @classmethod
    def make(cls, n):
        return cls(n)

    def scaled(self):
        return self.n


class B(A):
    def __init__(self, n):
        super().__init__(n + 1)

    @property
    def double(self):
        return super().double + 1

    @classmethod
    def make(cls, n):
        return super().make(n * 10)

    def scaled(self):
        return super(B, self).scaled() * 3


@construct
def supers():
    b = B.make(2)
    return b.n, b.double, b.scaled(), isinstance(b, A)


@construct
def generators():
    def count(n):
        for i in range(n):
            got = yield i
            if got:
                yield got

    def all_of():
        yield from count(2)
        yield "end"

    g = count(3)
    return list(count(3)), next(g), g.send("sent"), list(g), list(all_of()), sum(i for i in count(4))


@construct
def generator_that_returns():
    def inner():
        yield 1
        return "result"

    def outer():
        found = yield from inner()
        yield found

    return list(outer())


@construct
def decorators():
    def twice(function):
        @functools.wraps(function)
        def run(*args):
            return function(function(*args))

        return run

    @twice
    def more(n):
        """Add one."""
        return n + 1

    return more(1), more.__name__, more.__doc__


class Point:
    """A point."""

    count = 0

    def __init__(self, x):
        self.x = x
        self.y = x

    def __add__(self, other):
        return Point(self.x + other.x)

    def __eq__(self, other):
        return self.x == other.x

    def __hash__(self):
        return hash(self.x)

    def __getitem__(self, i):
        return self.x * i

    def __len__(self):
        return 2

    def __contains__(self, n):
        return n == self.x

    def __call__(self, n):
        return self.x + n

    def __iter__(self):
        return iter([self.x, self.x])

    def __repr__(self):
        return f"Point({self.x})"

    def __bool__(self):
        return self.x > 0

    def __lt__(self, other):
        return self.x < other.x

    @staticmethod
    def zero():
        return Point(0)


@construct
def classes():
    p = Point(2)
    return (
        (p + Point(3)).x, p == Point(2), p != Point(2), p[4], len(p), 2 in p, p(5), list(p), repr(p), bool(Point.zero()),
        p < Point(3),
    )  # fmt: skip


class Slotted:
    __slots__ = ("a",)


class Flexible:
    def __getattr__(self, name):
        return name.upper()

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * 2)

    def __delattr__(self, name):
        object.__delattr__(self, name)


@construct
def attributes_of_all_sorts():
    s, f = Slotted(), Flexible()
    s.a = 1
    f.b = 2
    before = f.b
    del f.b
    return s.a, hasattr(s, "c"), before, f.b, f.other, getattr(s, "missing", "default")


@construct
def a_slot_that_is_missing():
    return Slotted().a


class Doubled:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, thing, owner=None):
        return self if thing is None else getattr(thing, self.name) * 2

    def __set__(self, thing, value):
        setattr(thing, self.name, value)


class Thing:
    n = Doubled()

    @functools.cached_property
    def once(self):
        return [1]


@construct
def descriptors():
    thing = Thing()
    thing.n = 4
    return thing.n, thing._n, thing.once is thing.once


@construct
def keyword_defaults_and_lambdas():
    f = lambda a, b=2, *c, d=4: (a, b, c, d)
    functions = [lambda i=i: i for i in range(3)]
    late = [lambda: i for i in range(3)]
    return f(1), f(1, 3, 5, d=6), [g() for g in functions], [g() for g in late]


@construct
def walrus():
    found = []
    while (n := len(found)) < 3:
        found.append(n)
    return found, [y := 5, y**2], (m := 10) > 5 and m


@construct
def comparisons():
    log = []

    def said(n):
        log.append(n)
        return n

    chained = 1 < said(2) < said(3) >= said(3) != said(4)
    short = 5 < said(1) < said(100)
    return chained, short, log, 1 == 1.0, [1, 2] < [1, 3], None is None, 3 not in [1, 2], "a" in "cat"


@construct
def boolean_operators():
    return [] or "x", "a" and "b", not [], 0 or None, (1 if [] else 2), all([]), any([0, 1])


ASSERTING = """
def asserts():
    assert True, "not this"
    try:
        assert 1 > 2, "this one"
    except AssertionError as error:
        return str(error)
"""
SPACE = {}
exec(ASSERTING, SPACE)  # (pytest writes the assertions of this file anew)
construct(SPACE["asserts"])


@construct
def deleting():
    a, things, table = 1, [1, 2, 3, 4], {"a": 1, "b": 2}
    del a, things[1], things[-1:], table["a"]
    try:
        a
    except UnboundLocalError as error:
        return things, table, str(error)


@construct
def nested_functions():
    def outer(n):
        def middle(m):
            def inner(k):
                return n + m + k

            return inner

        return middle

    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    return outer(1)(2)(3), factorial(6)


@construct
def imports():
    import collections.abc as abc
    import math
    from collections import OrderedDict as ordered
    from math import floor, sqrt

    return math.floor(2.5), abc.Mapping.__name__, floor(3.5), sqrt(4), list(ordered(a=1))


@construct
def an_import_that_fails():
    import no_module_of_this_name  # noqa: F401


@construct
def a_name_that_cannot_be_imported():
    from math import nothing_of_this_name  # noqa: F401


@construct
def loops():
    log = []
    for i in range(10):
        if i == 2:
            continue
        if i == 5:
            break
        log.append(i)
    else:
        log.append("not reached")
    for _ in []:
        pass
    else:
        log.append("else")
    n = 0
    while True:
        n += 1
        if n > 3:
            break
    for a, (b, *c) in [(1, (2, 3, 4)), (5, (6,))]:
        log.append((a, b, c))
    for i, x in enumerate("ab", 1):
        log.append((i, x))
    for x, y in zip([1, 2], "ab", strict=True):
        log.append((x, y))
    return log, n, list(reversed(log))[:2], list(map(str, [1, 2])), list(filter(None, [0, 1]))


@construct
def arithmetic():
    a, b = 7, 2
    found = [
        a + b,
        a - b,
        a * b,
        a / b,
        a // b,
        a % b,
        a**b,
        a << b,
        a >> b,
        a & b,
        a | b,
        a ^ b,
        -a,
        ~a,
        divmod(a, b),
    ]
    a += 1
    a -= 2
    a *= 3
    a /= 2
    a //= 1
    a %= 5
    a **= 2
    n = 6
    n <<= 1
    n >>= 1
    n &= 7
    n |= 8
    n ^= 3
    return found, a, n, "ab" * 2, [1] + [2], (1,) * 2, {1} | {2}, {1, 2} - {1}, {"a": 1} | {"b": 2}


@construct
def augmented_items_and_attributes():
    things, table, box = [1, 2], {"a": 1}, types.SimpleNamespace(n=1, log=[])
    things[0] += 5
    things += [9]
    table["a"] *= 3
    box.n -= 1
    box.log += ["x"]
    return things, table, box.n, box.log


@construct
def division_by_zero():
    return 1 / 0


@construct
def slices():
    things = list(range(10))
    things[2:4] = ["a"]
    return things, things[::2], things[-3:], things[slice(1, 3)], "abcdef"[1:-1:2], (1, 2, 3)[::-1]


@construct
def containers_and_their_methods():
    queue = collections.deque([1, 2], maxlen=2)
    queue.append(3)
    counts = collections.Counter("abca")
    nested = collections.defaultdict(list)
    nested["a"].append(1)
    order = collections.OrderedDict(a=1, b=2)
    order.move_to_end("a")
    things = [3, 1, 2]
    things.sort(key=lambda n: -n)
    table = {"a": 1}
    table.update(b=2)
    table.setdefault("c", 3)
    return (
        list(queue),
        dict(counts),
        dict(nested),
        list(order),
        things,
        table,
        table.pop("a"),
        table.get("z", 0),
    )


@construct
def a_key_that_is_missing():
    return {"a": 1}["b"]


@construct
def an_index_out_of_range():
    return [1, 2][5]


@dataclasses.dataclass(frozen=True)
class Config:
    a: int = 1
    b: list = dataclasses.field(default_factory=list)


Place = collections.namedtuple("Place", "x y")


@construct
def dataclasses_and_named_tuples():
    config = dataclasses.replace(Config(), a=5)
    point = Place(1, 2)._replace(y=3)
    x, y = point
    return config.a, config.b, config == Config(5), tuple(point), x, y


@construct
def a_frozen_dataclass_is_written():
    config = Config()
    config.a = 2


@construct
def a_class_statement():
    class Point:
        """A point."""

        count = 2

        def double(self):
            return self.count * 2

    return Point().double(), Point.__doc__


@construct
def keys_with_an_own_hash():
    return {Point(2): 1}[Point(2)]


@construct
def sorting_by_an_own_comparison():
    return [p.x for p in sorted([Point(3), Point(1)])]


@construct
def matching():
    log = []
    for thing in (1, "a", [1, 2, 3], {"kind": "x", "n": 5}, (1,), None):
        match thing:
            case 1:
                log.append("one")
            case str() as text:
                log.append(text)
            case [first, *rest]:
                log.append((first, rest))
            case {"kind": "x", **others}:
                log.append(others)
            case _:
                log.append("other")
    return log


@construct
def operators_as_functions():
    box = types.SimpleNamespace(a=types.SimpleNamespace(b=3))
    first = operator.itemgetter(1)([5, 6])
    return (
        operator.attrgetter("a.b")(box),
        first,
        functools.reduce(operator.add, [1, 2, 3]),
        functools.partial(max, 5)(3),
    )


@construct
def numpy_beside():
    a = np.arange(6.0).reshape(2, 3)
    a[0, 1] += 10
    return a.sum(), a[:, 1].tolist(), (a > 2).tolist(), float(np.sqrt(a[1, 1]) * 2), a.shape, len(a)


@construct
def locals_and_scopes():
    a, b = 1, 2
    here = sorted(name for name in locals() if len(name) == 1)
    return here, a + b


@construct
def annotations_and_globals():
    n: int = 3

    def f(x: int, *, y: "str" = "a") -> float:
        return x

    return n, f(1), f.__annotations__, "CONSTRUCTS" in globals()


@construct
def conversions():
    return (
        int("5"),
        float("2.5"),
        str(3),
        bool([]),
        list("ab"),
        tuple([1]),
        set([1, 1]),
        dict([("a", 1)]),
        bytes([65]),
    )


@construct
def builtins_that_look():
    things = [3, 1, 2]
    return (
        min(things), max(things, key=lambda n: -n), sum(things), sorted(things, reverse=True), any(n > 2 for n in things),
        isinstance(things, list), callable(len), issubclass(bool, int), abs(-2), round(2.567, 1), ord("a"), chr(98),
        type(things).__name__, hash("a") == hash("a"), repr(things),
    )  # fmt: skip


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_a_construct_unobserved(name):
    function = CONSTRUCTS[name]
    assert outcome(instrumented(function)) == outcome(function)


NOT_UNDERSTOOD = {
    "a_class_statement": "load_build_class",
    "matching": "match_",
    "keys_with_an_own_hash": "cannot be observed",
    "sorting_by_an_own_comparison": "cannot be observed",
}


@pytest.mark.parametrize("name", NOT_UNDERSTOOD)
def test_what_is_not_understood_is_refused(name):
    function = CONSTRUCTS[name]
    compiled = mt.compile(lambda x: (x * 2, function()), backend="numpy")
    with pytest.warns(CompileWarning, match=NOT_UNDERSTOOD[name]):
        assert compiled(mt.ones(2))[1] == function()
    assert compiled(mt.ones(2))[1] == function()
    assert compiled.compilations == 0


@pytest.mark.parametrize("name", [name for name in CONSTRUCTS if name not in NOT_UNDERSTOOD])
def test_a_construct_observed(name):
    function = CONSTRUCTS[name]
    found = []

    def run(x):
        found.append(repr(outcome(function)))
        return x * 2

    compiled = mt.compile(run, backend="numpy", fullgraph=True, verify=False)
    assert compiled(mt.ones(2)).tolist() == [2, 2]
    assert found == [repr(outcome(function))]
    assert compiled.compilations == 1, compiled.cache.reasons


def test_what_a_library_of_devices_does_at_first_use_is_nothing_the_function_does(monkeypatch, tmp_path):
    library = types.ModuleType("cupy")
    library.__file__ = str(tmp_path / "cupy" / "__init__.py")
    monkeypatch.setitem(sys.modules, "cupy", library)
    names, elsewhere = {}, {"__name__": "cuda.pathfinder.headers"}
    exec(compile("def find(): return 3", str(tmp_path / "finder" / "find.py"), "exec"), names)
    exec(compile("def find_header(): return 3", str(tmp_path / "cuda" / "pathfinder.py"), "exec"), elsewhere)
    exec(compile("def first_use(): return find()", str(tmp_path / "cupy" / "environment.py"), "exec"), names)
    observer = types.SimpleNamespace(refuse=CompileError)
    with watched_by(observer), watchdog(observer):
        assert names["first_use"]() == 3
        assert elsewhere["find_header"]() == 3  # as CuPy's compiled code calls it, which has no frame
    refused = pytest.raises(CompileError, match="find is called where it cannot be observed")
    with refused, watched_by(observer), watchdog(observer):
        names["find"]()
