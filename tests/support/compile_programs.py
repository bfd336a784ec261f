"""Whole random programs at Tensor level, for eager against compiled.

Hypothesis draws a list of steps (a kind and a seed each); `run` reads it as a program. Every step fits its
parameters (axes, keys, partners) to the shapes it finds, so that every list is a valid program, and a failing one
shrinks by losing steps. Results stay moderate, and thresholds are irregular numbers, so that what differs by
rounding does not differ by more.
"""

import math
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import minitorch as m

STEPS = {}


def step(kind, weight=1):
    def note(function):
        for i in range(weight):
            STEPS[kind if i == 0 else f"{kind}~{i}"] = function
        return function

    return note


class Pool:
    """The results so far by kind, and the choices of the step being run."""

    def __init__(self, inputs):
        self.floats = list(inputs)
        self.integers = []
        self.bools = []
        self.rng = None

    def choose(self, options):
        return options[int(self.rng.integers(len(options)))]

    def below(self, n):
        return int(self.rng.integers(n))

    def float(self, fits=lambda x: True):
        fitting = [x for x in self.floats if fits(x)]
        if not fitting:
            return self.floats[0]
        # Late results twice as often: programs that go deep, not only wide.
        return self.choose(fitting[-4:]) if self.below(2) else self.choose(fitting)

    def axis(self, x):
        axis = self.below(x.ndim)
        return axis - x.ndim if self.below(2) else axis

    def axes(self, x):
        chosen = [a for a in range(x.ndim) if self.below(2)] or [self.below(x.ndim)]
        return tuple(a - x.ndim if self.below(2) else a for a in chosen)


def has_axes(x):
    return x.ndim > 0


def partner(pool, x):
    """Something that broadcasts against x: another result, or a piece of x."""

    def fits(y):
        try:
            shape = np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return False
        return math.prod(shape) <= 600 and len(shape) <= 5

    y = pool.float(fits)
    if fits(y) and pool.below(4):
        return y
    for axis in range(x.ndim):
        if x.shape[axis] and pool.below(2):
            y = (
                x.narrow(axis, pool.below(x.shape[axis]), 1)
                if y.shape == x.shape
                else x.sum(axis, keepdim=True)
            )
            if fits(y):
                return y
    return x


def squash(x):
    return m.tanh(x)


def tame(x):
    """Finite and moderate numbers: 0·inf is 0 to some BLAS routines, and inf - inf depends on the order of a sum."""
    return m.where(m.isfinite(x), m.clamp(x, -100.0, 100.0), 0.0)


# --- element by element ---------------------------------------------------------------------------------

UNARY = [
    m.tanh, m.sin, m.cos, m.sigmoid, m.relu, m.abs, m.neg, m.erf, m.atan, m.sign,
    lambda x: m.exp(m.clamp(x, max=2.0)), lambda x: m.log(m.abs(x) + 0.1), lambda x: m.sqrt(m.abs(x) + 0.01),
    lambda x: m.expm1(m.clamp(x, -3.0, 2.0)), lambda x: m.log1p(m.square(x)), lambda x: 1 / (x * x + 0.3),
    lambda x: m.reciprocal(x) * 0.1, lambda x: m.rsqrt(m.square(x) + 0.2), lambda x: m.floor(x * 1.3 + 0.12345),
    lambda x: m.round(x * 1.7 + 0.23456), lambda x: x**2 * 0.1, lambda x: squash(x) ** 3, lambda x: m.abs(x) ** 0.7,
    lambda x: 2.0 ** m.clamp(x, -3.0, 3.0), lambda x: m.clamp(x, -0.7123, 0.8123), m.gelu, m.silu, m.softplus,
    m.leaky_relu, m.elu, lambda x: 1.5 - x, lambda x: x * 0.7 + 0.3, lambda x: x / 1.7, lambda x: x % 1.3123,
    lambda x: m.asinh(x), lambda x: m.atanh(squash(x) * 0.9), lambda x: m.nan_to_num(x) if hasattr(m, "nan_to_num") else x,
]  # fmt: skip
BINARY = [
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: squash(x * y), lambda x, y: x / (y * y + 0.4), m.maximum,
    m.minimum, m.atan2, m.hypot, m.logaddexp, lambda x, y: m.lerp(x, y, 0.3), lambda x, y: squash(x.abs() ** squash(y)),
    lambda x, y: m.fmod(x, m.abs(y) + 0.7123), lambda x, y: x // (m.abs(y) + 0.7123), lambda x, y: m.sub(x, y, alpha=0.5),
]  # fmt: skip
COMPARISONS = [m.lt, m.le, m.gt, m.ge, m.ne]


@step("unary", 3)
def unary(pool):
    return pool.choose(UNARY)(pool.float())


@step("binary", 4)
def binary(pool):
    x = pool.float()
    return pool.choose(BINARY)(x, partner(pool, x))


@step("where")
def where(pool):
    x = pool.float()
    y = partner(pool, x)
    condition = pool.choose(COMPARISONS)(y, 0.12345)
    kind = pool.below(3)
    if kind == 0:
        return m.where(condition, x, 0.5)
    return m.where(condition, x, y) if kind == 1 else m.where(condition & ~m.isnan(x), y, x)


@step("compare")
def compare(pool):
    x = pool.float()
    found = pool.choose(COMPARISONS)(x, pool.choose([0.12345, -0.54321]))
    if pool.bools and pool.below(2):
        other = pool.choose(pool.bools)
        if other.shape == found.shape:
            found = pool.choose([m.logical_and, m.logical_or, m.logical_xor])(found, ~other)
    pool.bools.append(found)
    return m.where(found, 1.0, -0.3).to(x.dtype) * x


@step("integers")
def integers(pool):
    x = pool.float()
    n = (m.nan_to_num(x) if hasattr(m, "nan_to_num") else m.where(m.isfinite(x), x, 0.0)) * 3.3 + 0.12345
    found = m.clamp(n, -9.0, 9.0).to(m.int64)
    kind = pool.below(6)
    if kind == 1:
        found = found * 3 - found // 2
    elif kind == 2:
        found = found % 5 - (found & 3)
    elif kind == 3 and found.ndim:
        found = found.cumsum(pool.axis(found))
    elif kind == 4 and found.ndim:
        found = found.sum(pool.axis(found), keepdim=True)
    pool.integers.append(found)
    return found.to(x.dtype) * 0.1


@step("cast")
def cast(pool):
    x = pool.float()
    return x.to(m.float32 if x.dtype == m.float64 else m.float64)


# --- along axes -----------------------------------------------------------------------------------------


@step("reduce", 3)
def reduce(pool):
    x = pool.float()
    name = pool.choose(["sum", "mean", "amax", "amin", "logsumexp", "var", "std", "norm", "prod"])
    axes = pool.axes(x) if x.ndim else ()
    count = math.prod(x.shape[a] for a in axes)
    if name in ("amax", "amin", "logsumexp", "mean") and count == 0:
        name = "sum"
    if name in ("var", "std") and count < 2:
        name = "sum"
    keepdim = bool(pool.below(2))
    if not x.ndim:
        return getattr(m, name)(x)
    if name == "prod":
        return m.prod(squash(x), dim=axes[0], keepdim=keepdim)
    return getattr(m, name)(x, dim=axes if pool.below(3) else axes[0], keepdim=keepdim) if (
        count and all(x.shape[a] for a in axes[:1])
    ) or name in ("sum", "norm") else x.sum()  # fmt: skip


@step("softmax")
def softmax(pool):
    x = pool.float(has_axes)
    if not x.ndim:
        return m.sigmoid(x)
    return pool.choose([m.softmax, m.log_softmax])(x, dim=pool.axis(x))


@step("scan")
def scan(pool):
    x = pool.float(has_axes)
    if not x.ndim:
        return x + 1
    if pool.below(2):
        return squash(m.cumsum(x, dim=pool.axis(x)))
    return m.cumprod(squash(x), dim=pool.axis(x))


@step("order")
def order(pool):
    x = pool.float(lambda x: x.ndim and 0 not in x.shape)
    if not x.ndim or 0 in x.shape:
        return -x
    axis = pool.axis(x)
    kind = pool.below(5)
    if kind == 0:
        pool.integers.append(pool.choose([m.argmax, m.argmin])(x, dim=axis, keepdim=bool(pool.below(2))))
        return x.amax(axis)
    if kind == 1:
        found = m.topk(x, 1 + pool.below(x.shape[axis]), dim=axis, largest=bool(pool.below(2)))
    elif kind == 2:
        found = pool.choose([m.max, m.min])(x, dim=axis)
    else:
        found = m.sort(x, dim=axis, descending=kind == 3)
    pool.integers.append(found.indices)
    return found.values


# --- views, indices, pieces -----------------------------------------------------------------------------


def rearranged(pool, x):
    """A view (or where NumPy must, a copy) of x."""
    kind = pool.below(10)
    if kind == 0:
        shape = list(x.shape)
        if len(shape) > 1 and pool.below(2):
            at = pool.below(len(shape) - 1)
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        else:
            shape.insert(pool.below(len(shape) + 1), 1)
        return x.reshape(tuple(shape))
    if kind == 1 and x.ndim:
        return x.permute(*(int(a) for a in pool.rng.permutation(x.ndim)))
    if kind == 2:
        return x.unsqueeze(pool.below(x.ndim + 1)) if x.ndim < 5 else x.squeeze()
    if kind == 3:
        return x.squeeze()
    if kind == 4 and x.ndim:
        return m.flip(x, pool.axes(x))
    if kind == 5 and x.ndim and x.numel() < 100:
        return x.expand(*(int(n) if n != 1 else pool.choose([1, 2, 3]) for n in x.shape))
    if kind == 6 and x.ndim > 1:
        return m.diagonal(x, pool.below(3) - 1, *pool.choose([(0, 1), (-1, -2)]))
    if kind == 7 and x.ndim:
        axis = pool.axis(x)
        size = 1 + pool.below(max(x.shape[axis], 1))
        return x.unfold(axis, size, 1 + pool.below(3)) if size <= x.shape[axis] and x.ndim < 5 else x.mean()
    if kind == 8 and x.ndim > 1:
        return x.transpose(0, -1)
    return x.reshape(-1)


@step("view", 3)
def view(pool):
    return rearranged(pool, pool.float())


def random_slice(pool, n):
    start, stop = pool.below(2 * n + 3) - n - 1, pool.below(2 * n + 3) - n - 1
    return pool.choose(
        [
            slice(None),
            slice(start, None),
            slice(None, stop),
            slice(start, stop),
            slice(start, None, 2),
            slice(None, None, 3),
        ]
    )


def random_key(pool, x, arrays=True):
    """Slices, integers, None, an ellipsis, and integer tensors."""
    parts = []
    used_arrays = False
    for axis in range(pool.below(x.ndim + 1)):
        n = x.shape[axis]
        kind = pool.below(6)
        if kind == 0 and n:
            parts.append(pool.below(2 * n) - n)
        elif kind == 1 and n and arrays and not used_arrays:
            shape = pool.choose([(3,), (2, 2), (0,), (1,)])
            parts.append(m.tensor(pool.rng.integers(-n, n, size=shape)))
            used_arrays = pool.below(2) == 0
        elif kind == 2 and pool.integers and n and arrays and not used_arrays:
            parts.append(pool.choose(pool.integers) % n)
            used_arrays = True
            if parts[-1].numel() > 12 or parts[-1].ndim > 2:
                parts[-1] = parts[-1].reshape(-1)[:5]
        else:
            parts.append(random_slice(pool, n))
    if pool.below(3) == 0:
        parts.append(Ellipsis)
    if pool.below(3) == 0 and x.ndim < 4:
        parts.insert(pool.below(len(parts) + 1), None)
    return tuple(parts)


def valid(x, key):
    """Whether NumPy accepts the key, and the result stays small (index arrays must broadcast against each other)."""
    probe = np.zeros(x.shape, bool)
    try:
        found = probe[tuple(np.zeros(p.shape, int) if isinstance(p, m.Tensor) else p for p in key)]
    except (IndexError, ValueError):
        return False
    return found.size <= 400 and found.ndim <= 5


@step("getitem", 3)
def getitem(pool):
    x = pool.float(has_axes)
    key = random_key(pool, x)
    return x[key] if valid(x, key) else x[..., None]


@step("join", 2)
def join(pool):
    x = pool.float(has_axes)
    if not x.ndim or x.numel() > 150:
        return m.stack([x, x * 0.5]).mean(0)
    same = [y for y in pool.floats if y.shape == x.shape and y.dtype == x.dtype]
    y = pool.choose(same)
    kind = pool.below(4)
    if kind == 0:
        return m.stack([x, y, x], dim=pool.below(x.ndim + 1)) if x.ndim < 4 else x + y
    axis = pool.axis(x)
    if kind == 1:
        return m.cat(
            [x, y[tuple(slice(None, None, 2) if a == axis % x.ndim else slice(None) for a in range(x.ndim))]],
            dim=axis,
        )
    if kind == 2 and x.shape[axis]:
        pieces = m.chunk(x, 1 + pool.below(3), dim=axis)
        return m.cat([pieces[-1], *pieces], dim=axis)
    if x.shape[axis]:
        pieces = m.split(x, 1 + pool.below(x.shape[axis]), dim=axis)
        return pieces[0] * 0.5 + pieces[-1].sum(axis, keepdim=True)
    return m.roll(x, 1)


@step("border")
def border(pool):
    x = pool.float(has_axes)
    if not x.ndim or x.numel() > 150:
        return x * 1.0
    kind = pool.below(6)
    if kind == 0:
        return m.pad(x, (pool.below(3), pool.below(3)), value=0.25)
    if kind == 1:
        return m.roll(x, pool.below(7) - 3, pool.axis(x))
    if kind == 2:
        return m.tile(x, (2,) * min(x.ndim, 2))
    if kind == 3 and x.shape[-1]:
        return m.repeat_interleave(x, 2, dim=-1)
    if kind == 4 and x.ndim > 1:
        return pool.choose([m.tril, m.triu])(x, pool.below(3) - 1)
    return m.pad(x, (-min(1, x.shape[-1]), 1))


@step("gather", 2)
def gather(pool):
    x = pool.float(lambda x: x.ndim and 0 not in x.shape)
    if not x.ndim or 0 in x.shape:
        return x
    axis = pool.axis(x)
    n = x.shape[axis]
    kind = pool.below(6)
    fitting = [
        i
        for i in pool.integers
        if i.ndim == x.ndim and all(a <= b for a, b in zip(i.shape, x.shape, strict=True))
    ]
    if fitting and kind < 4:
        index = pool.choose(fitting) % n
    else:
        shape = tuple(1 + pool.below(k) for k in x.shape)
        index = m.tensor(pool.rng.integers(0, n, size=shape))
    if kind == 0:
        return m.gather(x, axis, index) + 0.0  # one element of a row is picked by a sum, which starts at +0
    if kind == 1:
        return m.scatter_add(x, axis, index, m.gather(x, axis, index) * 0.5)
    if kind == 2:
        return m.take_along_dim(x, m.argsort(x, dim=axis), dim=axis) + 0.0
    if kind == 3:
        return m.index_select(x, axis, index.reshape(-1)[:6])
    if kind == 4:
        rows = m.tensor(pool.rng.integers(0, n, size=3))
        return m.index_add(x, axis, rows, x.index_select(axis, rows), alpha=0.5)
    rows = m.tensor(pool.rng.permutation(n).reshape((-1,) + (1,) * (x.ndim - axis % x.ndim - 1)))
    return m.scatter(x, axis, rows.expand(x.shape), x * 0.5)


# --- products -------------------------------------------------------------------------------------------


@step("matmul", 2)
def matmul(pool):
    x = tame(pool.float(has_axes))
    if not x.ndim:
        return x * x
    fitting = [
        y for y in pool.floats if y.dtype == x.dtype and y.ndim in (1, 2) and y.shape[0] == x.shape[-1]
    ]
    if fitting and pool.below(2):
        return squash(x @ tame(pool.choose(fitting))) + 0.0  # the sign of a zero is BLAS's
    if x.ndim == 1:
        return squash(pool.choose([x @ x, m.outer(x, x) if len(x) < 9 else x])) + 0.0
    products = [lambda: x @ x.mT, lambda: x.mT @ x, lambda: x @ x[..., :1, :].mT, lambda: x @ m.cos(x).mT]
    return squash(pool.choose(products)()) + 0.0


@step("einsum")
def einsum(pool):
    x = tame(pool.float(lambda x: x.ndim in (1, 2, 3)))
    specs = {
        1: ["i,i->", "i,j->ij", "i,i->i", "i->"],
        2: ["ij,kj->ik", "ij,ij->i", "ij,ik->jk", "ij,ij->ji", "ij,kl->jl", "ij->j", "ij->ji"],
        3: ["ijk,ilk->ijl", "ijk,ijl->kl", "ijk,ijk->j", "ijk,lmk->il", "ijk->ki", "...j,...j->..."],
    }.get(x.ndim)  # fmt: skip
    if specs is None or x.numel() > 200:
        return x * 0.5
    spec = pool.choose(specs)
    return squash(m.einsum(spec, *[x, m.cos(x)][: 1 + spec.count(",")])) + 0.0


# --- in place, on what no graph needs -------------------------------------------------------------------


@step("write", 2)
def write(pool):
    x = pool.float()
    t = x.detach().clone()
    for _ in range(1 + pool.below(3)):
        kind = pool.below(9)
        if kind == 0:
            t.add_(0.25)
        elif kind == 1:
            t.mul_(x.detach())
        elif kind == 2:
            key = random_key(pool, t)
            if valid(t, key):
                t[key] = pool.choose([0.5, t.detach().sum() * 0.1])
        elif kind == 3:
            key = random_key(pool, t, arrays=False)
            piece = t[key]
            piece.mul_(0.5)
            piece += 0.125
        elif kind == 4:
            v = t.reshape(-1)
            v[::2] = -0.75
        elif kind == 5:
            key = random_key(pool, t, arrays=False)
            piece = t[key]
            t[key] = piece.detach().clone() * 2
        elif kind == 6:
            t.masked_fill_(t > 0.54321, 0.3)
        elif kind == 7 and t.ndim:
            wide = t.unsqueeze(0).expand(2, *t.shape)
            t.copy_(t * 0.5)
            pool.floats.append(wide * 1.0)
        else:
            t[t < -0.54321] = 0.1
    return t + x if pool.below(2) else t


KINDS = ["nothing", *sorted(STEPS)]


# --- programs -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """Steps, and the shapes and dtypes of what they start from."""

    steps: tuple
    shapes: tuple
    single: bool
    special: bool

    @property
    def precision(self):
        """The least precise dtype that numbers pass through."""
        return np.dtype(
            np.float32 if self.single or any(k.startswith("cast") for k, _ in self.steps) else np.float64
        )

    @property
    def multiplies(self):
        return any(k.startswith(("matmul", "einsum")) for k, _ in self.steps)

    def arrays(self, trial):
        """Numbers to start from; another trial gives others. special: with nan, inf and -0 among them."""
        found = []
        for i, shape in enumerate(self.shapes):
            rng = np.random.default_rng([trial, i, len(self.steps)])
            a = rng.uniform(-2, 2, size=shape)
            if self.special and i == 0 and a.size:
                flat = a.reshape(-1)
                places = rng.integers(a.size, size=1 + a.size // 6)
                flat[places] = rng.choice([math.nan, math.inf, -math.inf, -0.0, 0.0, 1e30], size=len(places))
            found.append(a.astype(np.float32 if self.single else np.float64))
        return found


# Steps that only move numbers round nothing.
MOVING = ("view", "getitem", "join", "border", "order")


def run(program, *inputs, shake=None):
    """Run a program on Tensors; returns its last results and the gradients of a number computed from them.

    shake: a function that each step's result goes through, if that was computed and not only moved.
    """
    pool = Pool(inputs)
    for kind, seed in program.steps:
        if kind == "nothing":
            continue
        pool.rng = np.random.default_rng(seed)
        found = STEPS[kind](pool)
        if found.numel() > 600 or found.ndim > 5:
            found = found.reshape(-1)[:50]
        if shake is not None and not kind.startswith(MOVING):
            found = shake(found)
        pool.floats.append(found)
    last = pool.floats[len(inputs) :][-5:] + pool.floats[: len(inputs)]
    loss = 0
    for x in last:
        weights = m.cos(1.0 + 1.7 * m.arange(x.numel(), dtype=m.float64)).reshape(x.shape)
        loss = loss + (m.tanh(x) * weights.to(x.dtype)).sum().to(m.float64)
    if loss.requires_grad:
        loss.backward()
    return [loss.detach(), *(x.detach() for x in last), *pool.integers[-3:], *pool.bools[-3:]]


@st.composite
def shapes(draw):
    """Ranks 0 to 4, sides 0 to 8 (mostly 1 to 4), not too many elements."""
    side = st.sampled_from([2, 3, 1, 4, 5, 0, 8])
    shape = draw(st.lists(side, max_size=4).map(tuple))
    while math.prod(shape) > 120:
        shape = tuple(max(1, n // 2) for n in shape)
    return shape


@st.composite
def programs(draw, min_steps=10, max_steps=60):
    """A whole program; steps named 'nothing' are what a failing one shrinks to."""
    one = st.tuples(st.sampled_from(KINDS), st.integers(0, 2**20))
    steps = draw(st.lists(one, min_size=min_steps, max_size=max_steps))
    starts = draw(st.lists(shapes(), min_size=1, max_size=3))
    return Program(tuple(steps), tuple(starts), draw(st.booleans()), draw(st.integers(0, 3)) == 3)
