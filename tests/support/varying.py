"""Programs whose sizes vary, one for each primitive and for what layers make of them: built for plain ints or for Sizes.

Each case is a function of two lengths that gives inputs and outputs. The same function with plain ints builds the program
of one size, with which the one for all sizes is compared.
"""

import numpy as np

from minitorch.compiler.ir import builder as b
from minitorch.compiler.ir.program import Program
from minitorch.compiler.ir.sizes import (
    Symbol,
    collecting,
    hint,
    surely_equal,
    surely_less,
    surely_multiple,
)
from random_ir import BOOL, F4, I8, given, some

CASES = {}


def case(build):
    CASES[build.__name__] = build
    return build


def varying(build, n=6, m=5):
    """Return the program for all sizes, recorded at some."""
    with collecting([]) as guards:
        inputs, outputs = build(Symbol("s0", n).size, Symbol("s1", m).size)
    return Program(inputs, outputs, guards)


def fixed(build, n, m):
    """Return the program for one pair of sizes."""
    return Program(*build(n, m))


def arrays_for(program, seed=0):
    """Return arrays for a program of fixed sizes: whole numbers among them are indices, 0 or 1."""
    rng = np.random.default_rng(seed)
    arrays = []
    for value in program.inputs:
        array = some(rng, value.shape, value.dtype)
        arrays.append(np.abs(array) % 2 if value.dtype.kind == "i" else array)
    return arrays


def weight(rows, columns, seed=1):
    return b.constant(some(np.random.default_rng(seed), (rows, columns)))


@case
def elementwise(n, m):
    x, y = given((n, 4)), given((n, 4))
    return [x, y], [b.map_values("tanh", b.map_values("add", x, y)), b.map_values("less", x, y)]


@case
def elementwise_of_one_axis(n, m):
    x = given((n,))
    return [x], [b.map_values("exp", x), b.cast(b.map_values("floor", x), I8)]


@case
def broadcast_rows_and_columns(n, m):
    x, row, column = given((n, m)), given((m,)), given((n, 1))
    return [x, row, column], [b.map_values("add", b.map_values("multiply", x, row), column)]


@case
def sums(n, m):
    x = given((n, 3, m))
    return [x], [b.reduce("add", x, axes) for axes in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2))]


@case
def highest_and_lowest(n, m):
    x = given((n, m))
    found = [b.reduce(f, x, (axis,)) for f in ("maximum", "minimum") for axis in (0, 1)]
    return [x], [*found, b.arg_reduce("argmax", x, 0), b.arg_reduce("argmin", x, 1)]


@case
def all_and_any(n, m):
    x = given((n, m), BOOL)
    return [x], [
        b.reduce("logical_and", x, (0,)),
        b.reduce("logical_or", x, (0, 1)),
        b.reduce("add", x, (1,)),
    ]


@case
def mean(n, m):
    x = given((n, 7))
    count = b.cast(b.size(n * 7), F4)
    return [x], [b.map_values("divide", b.reduce("add", x, (0, 1)), count), b.size(n + m * 0 + 3)]


@case
def softmax_rows(n, m):
    x = given((n, m))
    return [x], [softmax(x, 1)]


@case
def softmax_columns(n, m):
    x = given((n, m, 3))
    return [x], [softmax(x, 1)]


def softmax(x, axis):
    high = b.reduce("maximum", x, (axis,), True)
    up = b.map_values("exp", b.map_values("subtract", x, high))
    return b.map_values("divide", up, b.reduce("add", up, (axis,), True))


@case
def layer_norm(n, m):
    x = given((n, m, 16))
    inverse = b.constant(np.float32(1 / 16))
    centre = b.map_values("subtract", x, b.map_values("multiply", b.reduce("add", x, (2,), True), inverse))
    spread = b.map_values("multiply", b.reduce("add", b.map_values("square", centre), (2,), True), inverse)
    eps = b.constant(np.float32(1e-5))
    return [x], [b.map_values("divide", centre, b.map_values("sqrt", b.map_values("add", spread, eps)))]


@case
def cross_entropy(n, m):
    x, target = given((n, 10)), given((n,), I8)
    high = b.reduce("maximum", x, (1,), True)
    moved = b.map_values("subtract", x, high)
    logs = b.map_values(
        "subtract", moved, b.map_values("log", b.reduce("add", b.map_values("exp", moved), (1,), True))
    )
    flat = b.reshape(logs, (n * 10,))
    places = b.map_values("add", b.map_values("multiply", b.iota(n), b.constant(np.int64(10))), target)
    picked = b.gather(flat, places, 0)
    loss = b.map_values("divide", b.reduce("add", picked, (0,)), b.cast(b.size(n), F4))
    share = b.map_values("divide", b.constant(np.float32(-1)), b.cast(b.size(n), F4))
    gradient = b.scatter("add", b.full((n * 10,), 0, F4), places, b.expand(share, (n,)), 0)
    return [x, target], [loss, b.reshape(gradient, (n, 10))]


@case
def products(n, m):
    x, y, w = given((n, 20)), given((m, 20)), given((20, 24))
    h = b.matmul(x, w)
    back = b.matmul(b.permute(x, (1, 0)), h)
    return [x, y, w], [b.map_values("tanh", h), back, b.matmul(x, b.permute(y, (1, 0)))]


@case
def products_with_few_columns(n, m):
    x, w, v = given((n, 256)), given((10, 256)), given((40, 5))
    y = b.matmul(x, b.permute(w, (1, 0)))
    z = b.matmul(b.crop(x, 1, 0, 40), v)
    g = b.map_values("tanh", z)
    return [x, w, v], [b.map_values("exp", b.map_values("tanh", y)), z, b.matmul(b.permute(g, (1, 0)), y)]


@case
def products_over_much(n, m):
    x, w, y = given((n, 3000)), given((3000, 48)), given((m, 3000))
    back = b.matmul(b.permute(b.crop(x, 1, 0, 64), (1, 0)), b.crop(x, 1, 64, 80))
    return [x, w, y], [b.matmul(x, w), b.matmul(x, b.permute(y, (1, 0))), back]


@case
def products_of_turned_factors(n, m):
    x, y, z = given((30, n)), given((m, n)), given((m, 2, n, 12))
    a = b.matmul(b.permute(x, (1, 0)), b.constant(some(np.random.default_rng(3), (30, 20))))
    c = b.matmul(y, b.permute(x, (1, 0)))
    batches = b.matmul(b.permute(z, (0, 1, 3, 2)), b.crop(z, 3, 0, 7))
    heads = b.permute(b.reshape(b.matmul(b.permute(y, (1, 0)), y), (n, n)), (1, 0))
    return [x, y, z], [a, c, batches, heads]


@case
def summed_product(n, m):
    x, y = given((n, 33)), given((n, 17))
    return [x, y], [b.matmul(b.permute(x, (1, 0)), y)]


@case
def batched_products(n, m):
    q, k, v = given((n, 2, m, 8)), given((n, 2, m, 8)), given((n, 2, m, 8))
    scores = b.matmul(q, b.permute(k, (0, 1, 3, 2)))
    return [q, k, v], [scores, b.matmul(softmax(scores, 3), v)]


@case
def attention(n, m):
    x, w = given((n, m, 16)), given((16, 48))
    qkv = b.matmul(x, w)
    heads = b.permute(b.reshape(qkv, (n, m, 3, 4, 4)), (2, 0, 3, 1, 4))
    q, k, v = (b.reshape(b.crop(heads, 0, i, 1), (n, 4, m, 4)) for i in range(3))
    scores = b.matmul(q, b.permute(k, (0, 1, 3, 2)))
    rows, columns = b.reshape(b.iota(m), (m, 1)), b.reshape(b.iota(m), (1, m))
    seen = b.map_values("less_equal", columns, rows)
    scores = b.where(seen, scores, b.full((), -np.inf, F4))
    out = b.reshape(b.permute(b.matmul(softmax(scores, 3), v), (0, 2, 1, 3)), (n, m, 16))
    return [x, w], [b.map_values("add", out, x)]


@case
def matrix_and_vector(n, m):
    x, y, z = given((n, m)), given((m,)), given((n,))
    return [x, y, z], [b.matmul(x, y), b.matmul(z, x), b.contract("a,b->ab", z, y)]


@case
def bare_linear(n, m):
    x, w, bias = given((n, 64)), given((64, 32)), given((32,))
    h = b.map_values("maximum", b.map_values("add", b.matmul(x, w), bias), b.constant(np.float32(0)))
    return [x, w, bias], [h, b.reduce("add", h, (0,))]


@case
def reshapes(n, m):
    x = given((n, m, 6))
    return [x], [
        b.map_values("exp", b.reshape(x, (n * m, 6))),
        b.map_values("exp", b.reshape(x, (n, m, 2, 3))),
        b.map_values("exp", b.reshape(x, (n, m * 6))),
        b.reduce("add", b.reshape(x, (n * m * 2, 3)), (0,)),
    ]


@case
def permutes(n, m):
    x = given((n, 4, m))
    return [x], [
        b.permute(x, (2, 0, 1)),
        b.map_values("tanh", b.permute(x, (1, 2, 0))),
        b.reshape(b.permute(x, (2, 0, 1)), (m * n, 4)),
    ]


@case
def slices(n, m):
    x = given((n, m, 3))
    return [x], [
        b.crop(x, 0, 1, n - 1),
        b.crop(x, 0, n - 1, 1),
        b.flip(x, (0, 1)),
        b.slice_axes(x, (0, 1, 0), ((n + 1) // 2, m - 1, 3), (2, 1, 1)),
    ]


@case
def differences(n, m):
    x = given((n, 5))
    return [x], [b.map_values("subtract", b.crop(x, 0, 1, n - 1), b.crop(x, 0, 0, n - 1))]


@case
def pads(n, m):
    x = given((n, m))
    return [x], [b.pad(x, (1, 0), (0, 2), 3), b.map_values("tanh", b.pad(x, (0, 2), (2, 0)))]


@case
def padded_to_a_size(n, m):
    x, y = given((n, 3)), given((m,))
    return [x, y], [b.pad(x, (0, 0), (n, m)), b.pad(x, (m, 0), (0, 0)), b.pad(y, (n,), (0,))]


@case
def windows(n, m):
    given_x = given((n, 2, m))
    x = b.pad(given_x, (0, 0, 1), (0, 0, 2))
    return [given_x], [
        b.reduce("maximum", b.window(x, (2,), (3,), (1,), (1,)), (3,)),
        b.reduce("add", b.window(x, (2,), (2,), (2,), (2,)), (0, 3)),
    ]


@case
def convolution(n, m):
    x, w = given((n, 3, m, m)), given((8, 3, 3, 3))
    windows = b.window(b.pad(x, (0, 0, 1, 1), (0, 0, 1, 1)), (2, 3), (3, 3), (1, 1), (1, 1))
    return [x, w], [b.contract("ncyxij,ocij->noyx", windows, w)]


@case
def convolution_of_a_batch(n, m):
    x, w = given((n, 3, 8, 8)), given((8, 3, 3, 3))
    windows = b.window(b.pad(x, (0, 0, 1, 1), (0, 0, 1, 1)), (2, 3), (3, 3), (1, 1), (1, 1))
    y = b.contract("ncyxij,ocij->noyx", windows, w)
    g = b.map_values("tanh", y)
    return [x, w], [
        b.map_values("maximum", y, b.constant(np.float32(0))),
        b.contract("ncyxij,noyx->ocij", windows, g),
    ]


@case
def strided_convolution(n, m):
    x, w = given((n, 4, m, 7)), given((8, 4, 3, 3))
    windows = b.window(b.pad(x, (0, 0, 1, 0), (0, 0, 1, 0)), (2, 3), (3, 3), (2, 2), (1, 1))
    return [x, w], [b.contract("ncyxij,ocij->noyx", windows, w)]


@case
def convolution_backwards(n, m):
    g, w = given((n, 8, m, 6)), given((8, 3, 3, 3))
    spread = b.pad(b.spread(b.spread(g, 2, 2), 3, 2), (0, 0, 2, 2), (0, 0, 2, 2))
    windows = b.window(spread, (2, 3), (3, 3), (1, 1), (1, 1))
    return [g, w], [b.contract("noyxij,ocij->ncyx", windows, w)]


@case
def max_pool(n, m):
    x, y = given((n, 4, m, 8)), given((n, 4, m, 8))
    tiles = b.reshape(b.concatenate([x, y], 2), (n, 4, m, 2, 4, 2))
    return [x, y], [b.reduce("maximum", tiles, (3, 5))]


@case
def gathers(n, m):
    x, rows, columns = given((n, m)), given((m, 3), I8), given((n,), I8)
    return [x, rows, columns], [b.gather(x, rows, 0), b.map_values("tanh", b.gather(x, columns, 1))]


@case
def embedding(n, m):
    table, tokens = given((11, 8)), given((n, m), I8)
    rows = b.gather(table, tokens, 0)
    grown = b.map_values("multiply", rows, b.constant(np.float32(2)))
    flat = b.reshape(tokens, (n * m,))
    zero = b.full((11, 8), 0, F4)
    return [table, tokens], [grown, b.scatter("add", zero, flat, b.reshape(grown, (n * m, 8)), 0)]


@case
def scatters(n, m):
    x, places, rows = given((n, m)), given((m,), I8), given((m, m))
    places_set = b.map_values("multiply", places, b.constant(np.int64(0)))
    one = b.crop(places_set, 0, 0, 1)
    return [x, places, rows], [
        b.scatter("add", x, places, rows, 0),
        b.scatter("set", x, one, b.crop(rows, 0, 0, 1), 0),
        b.scatter("add", x, places, b.full((n, m), 1, F4), 1),
    ]


@case
def concatenations(n, m):
    x, y = given((n, 3)), given((m, 3))
    return [x, y], [
        b.concatenate([x, b.map_values("exp", y), x], 0),
        b.reduce("add", b.concatenate([x, y], 0), (0,)),
        b.concatenate([x, b.full((n, 2), 1, F4)], 1),
        b.map_values("tanh", b.concatenate([b.crop(x, 0, 1, n - 1), b.crop(x, 0, 0, 1)], 0)),
    ]


@case
def running_sums(n, m):
    x = given((n, m, 2))
    return [x], [b.scan("add", x, axis) for axis in (0, 1, 2)] + [
        b.scan("multiply", b.map_values("tanh", x), 1)
    ]


@case
def counts(n, m):
    ramp = b.cast(b.iota(n), F4)
    x = given((n, 4))
    return [x, given((m,))], [ramp, b.map_values("multiply", x, b.reshape(ramp, (n, 1))), b.iota(n * m)]


@case
def sorts(n, m):
    x = given((n, m))
    order = b.Value("argsort", (x,), {"axis": 1}, (n, m), I8)
    return [x], [b.Value("sort", (x,), {"axis": 0}, (n, m), F4), order, b.map_values("negative", order)]


@case
def call_backs(n, m):
    x = given((n, m))
    doubled = given((n, m))  # only its shape and dtype are looked at
    twice = b.call(lambda a: a * 2, [x], [doubled], True)[0]
    long = b.call(
        lambda a, count: a.sum() * np.ones(count, np.float32), [x], [given((n * 2,))], True, (n * 2,)
    )[0]
    two = b.call(lambda a: (a + 1, a.sum(1)), [x], [doubled, given((n,))], False)
    return [x], [b.map_values("tanh", twice), long, *two]


@case
def small_and_large_together(n, m):
    x, w = given((n, 32)), given((32, 32))
    for _ in range(3):
        x = b.map_values("tanh", b.matmul(x, w))
    loss = b.reduce("add", b.map_values("square", x), (0, 1))
    return [x_input(x), w], [loss, x]


def x_input(x):
    while x.primitive != "input":
        x = x.inputs[0]
    return x


@case
def updates(n, m):
    x, w, rate = given((n, 12)), given((12, 5)), given(())
    g = b.matmul(b.permute(x, (1, 0)), b.map_values("tanh", b.matmul(x, w)))
    return [x, w, rate], [b.map_values("subtract", w, b.map_values("multiply", g, rate))]


class RandomVarying:
    """A program from a seed, in which two sizes vary: inputs, outputs, and which outputs update which input."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.n, self.m = (Symbol(f"s{i}", int(self.rng.integers(2, 12))) for i in range(2))
        self.inputs, self.pool = [], []
        lengths = [self.n.size, self.n.size, self.m.size, self.m.size, 3, 8, 16, 20]
        for axes in ((self.n.size, self.m.size), *(self.rng.integers(0, 8, k) for k in (2, 3))):
            shape = tuple(a if type(a) is type(self.n.size) else lengths[a] for a in axes)
            self.inputs.append(given(shape, self.rng.choice([F4, F4, F4, np.dtype("f8"), I8])))
        self.pool += self.inputs
        with collecting([]) as guards:
            for _ in range(self.rng.integers(8, 30)):
                made = self.step()
                if made is not None and made.ndim <= 4 and hint(made.size) < 20_000:
                    self.pool.append(made)
        late = self.pool[len(self.pool) // 2 :]
        self.outputs = [late[i] for i in self.rng.integers(0, len(late), self.rng.integers(1, 5))]
        self.updates = {}
        for number, value in enumerate(self.inputs):
            fitting = [v for v in self.pool if surely_equal(v.shape, value.shape) and v.dtype == value.dtype]
            if fitting and self.rng.random() < 0.4:
                self.updates[len(self.outputs)] = number
                self.outputs.append(fitting[self.rng.integers(len(fitting))])
        self.program = Program(self.inputs, self.outputs, guards)

    def pick(self, fits=lambda value: True):
        found = [v for v in self.pool if fits(v)]
        return found[self.rng.integers(max(0, len(found) - 8), len(found))] if found else None

    def step(self):
        rng = self.rng
        x = self.pick()
        kind = rng.integers(12)
        if kind == 0:
            if x.dtype.kind == "f":
                return b.map_values(str(rng.choice(["tanh", "sin", "negative", "absolute", "square"])), x)
            return b.cast(x, rng.choice([F4, np.dtype("f8")]))
        if kind in (1, 2):
            return self.binary(x)
        if x.ndim == 0:
            return b.expand(x, (self.n.size, 3))
        axis = int(rng.integers(x.ndim))
        if kind == 3:
            axes = tuple(sorted({int(a) for a in rng.integers(0, x.ndim, rng.integers(1, x.ndim + 1))}))
            name = str(rng.choice(["add", "maximum", "minimum"])) if x.dtype.kind != "b" else "logical_or"
            made = b.reduce(name, x, axes, bool(rng.random() < 0.5))
            if x.dtype.kind in "bi" and name == "add":
                return b.map_values("remainder", made, b.constant(np.int64(13)))
            return b.map_values("tanh", made) if name == "add" else made
        if kind == 4 and x.dtype.kind == "f":
            return softmax(x, axis)
        if kind in (5, 6, 7):
            return self.view(x, axis)
        if kind in (8, 9) and x.dtype.kind == "f" and x.ndim >= 2:
            return self.product(x)
        if kind == 10:
            return self.places(x, axis)
        return self.other(x, axis)

    def binary(self, x):
        rng = self.rng
        y = self.pick(lambda v: surely_equal(v.shape, x.shape) or surely_equal(v.shape, x.shape[1:]))
        y = b.cast(y, x.dtype)
        if x.dtype.kind == "b":
            return b.map_values(str(rng.choice(["logical_and", "logical_or"])), x, y)
        name = str(rng.choice(["add", "subtract", "multiply", "maximum", "less", "where"]))
        if name == "where":
            return b.where(b.map_values("less", x, y), y, x)
        made = b.map_values(name, x, y)
        if name != "less" and x.dtype.kind == "i":
            return b.map_values("remainder", made, b.constant(np.asarray(11, x.dtype)))
        return b.map_values("tanh", made) if name == "multiply" else made

    def view(self, x, axis):
        rng = self.rng
        n = x.shape[axis]
        choice = rng.integers(9)
        if choice == 0:
            return b.permute(x, tuple(int(a) for a in rng.permutation(x.ndim)))
        if choice == 1 and axis + 1 < x.ndim:
            return b.reshape(x, (*x.shape[:axis], n * x.shape[axis + 1], *x.shape[axis + 2 :]))
        if choice == 2:
            return b.reshape(x, (x.size,))
        if choice == 3 and surely_multiple(n, 4) and x.ndim < 4:
            return b.reshape(x, (*x.shape[:axis], n // 4, 4, *x.shape[axis + 1 :]))
        if choice == 4:
            return b.flip(x, (axis,))
        if choice == 5 and surely_less(1, n):
            first = int(rng.integers(0, 2))
            return b.crop(x, axis, first, n - 1)
        if choice == 6:
            low = [int(k) for k in rng.integers(0, 3, x.ndim)]
            return b.pad(x, low, low[::-1], 1)
        if choice == 7 and x.ndim < 4:
            size = int(rng.integers(1, 4))
            apart = [size if i == axis else 0 for i in range(x.ndim)]
            padded = b.pad(x, apart, [0] * x.ndim)
            return b.window(padded, (axis,), (size,), (int(rng.integers(1, 3)),), (1,))
        y = b.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))
        return b.expand(y, (*x.shape[:axis], self.m.size, *x.shape[axis:]))

    def product(self, x):
        rng = self.rng
        like = self.pick(
            lambda v: v.dtype.kind == "f" and v.ndim == 2 and surely_equal(v.shape[1], x.shape[-1])
        )
        if like is not None and rng.random() < 0.6:
            return b.map_values("tanh", b.matmul(x, b.permute(b.cast(like, x.dtype), (1, 0))))
        turned = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
        if rng.random() < 0.5:
            return b.map_values("tanh", b.matmul(b.permute(x, turned), x))
        if type(x.shape[-1]) is int:
            w = some(rng, (x.shape[-1], int(rng.choice([2, 5, 16, 24]))), x.dtype)
            return b.map_values("tanh", b.matmul(x, b.constant(w)))
        return b.map_values("tanh", b.matmul(x, b.permute(x, turned)))

    def places(self, x, axis):
        """Gathered, or scattered to, by numbers that lie in an axis whatever its length."""
        index = self.pick(lambda v: v.ndim == 1 and v.dtype.kind == "i")
        if index is None:
            index = b.iota(self.n.size)
        length = b.size(x.shape[axis])
        index = b.map_values("remainder", b.map_values("absolute", b.cast(index, I8)), length)
        if self.rng.random() < 0.5 or x.dtype.kind == "b":
            return b.gather(x, index, axis)
        shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
        updates = b.expand(b.reshape(b.cast(b.size(index.shape[0]), x.dtype), (1,) * len(shape)), shape)
        made = b.scatter("add", x, index, updates, axis)
        return b.map_values("tanh", made) if x.dtype.kind == "f" else made

    def other(self, x, axis):
        choice = self.rng.integers(4)
        if choice == 0 and x.dtype.kind != "b":
            return b.arg_reduce("argmax", x, axis)
        if choice == 1 and x.dtype.kind == "f":
            return b.map_values("tanh", b.scan("add", x, axis))
        if choice == 2:
            return b.Value("sort", (x,), {"axis": axis}, x.shape, x.dtype)
        return b.concatenate([x, b.flip(x, (axis,)), x], axis)
