"""Random programs that look at numbers, write in place and alias as they go: lazily against eagerly.

Enters: a seed. Leaves: everything a program saw and left behind: numbers it looked at, its tensors, their gradients,
arrays it held on to, errors it caught, and where the random stream stands. `run` gives the same for the same seed,
whether it is called inside `minitorch.lazy()` or not; only rounding may differ.
"""

import contextlib

import numpy as np

import minitorch as mt
from minitorch import nn, optim
from minitorch.nn import functional as F

STEPS = {}


def step(weight=1):
    def note(function):
        STEPS.update({(function.__name__, i): function for i in range(weight)})
        return function

    return note


class World:
    """The tensors of a program so far, and what it has seen."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        mt.manual_seed(seed)
        shapes = [(3, 4), (4,), (2, 3, 2), (), (5, 1), (3, 4)]
        self.tensors = []
        for shape in shapes[: 2 + self.below(5)]:
            array = self.rng.uniform(-1, 1, shape)
            made = mt.tensor(array, requires_grad=self.below(2) == 0)
            self.tensors.append(mt.from_numpy(array) if self.below(8) == 0 else made)
        self.leaves = list(self.tensors)
        self.arrays, self.seen, self.held = [], [], []
        self.module = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Dropout(0.4), nn.Linear(3, 2)).double()
        kind = [optim.Adam, optim.SGD, optim.RMSprop, optim.AdamW][self.below(4)]
        self.optimizer = kind(self.module.parameters(), lr=0.05)
        self.schedule = optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)

    def below(self, n):
        return int(self.rng.integers(n))

    def any(self, fits=lambda x: True):
        fitting = [x for x in self.tensors if fits(x)]
        return fitting[self.below(len(fitting))] if fitting else None

    def keep(self, x):
        """Let a result be one of the tensors; now and then another one is let go."""
        if x.numel() > 200 or x.ndim > 4:
            return
        self.tensors.append(x)
        if len(self.tensors) > 12:
            del self.tensors[self.below(len(self.tensors))]


def tame(x):
    return mt.tanh(x) if x.dtype.kind == "f" else x


UNARY = [
    mt.sin, mt.tanh, mt.exp, mt.relu, mt.abs, mt.sigmoid, mt.floor, lambda x: x * 0.5 + 1, lambda x: 2 - x, lambda x: x**2,
    lambda x: x.clamp(-0.4, 0.6), lambda x: x.clone(), lambda x: x.detach(), lambda x: x.float().double(), lambda x: x / 3,
    lambda x: x.sort(-1)[0] if x.ndim else x + 0, lambda x: x.cumsum(0) if x.ndim else -x, lambda x: F.dropout(x, 0.5),
    lambda x: mt.where(x > 0, x, x * 0.1), lambda x: x.softmax(-1) if x.ndim else x, lambda x: x.float().long().double(),
    lambda x: x + mt.rand_like(x), lambda x: x.flip(0) if x.ndim else x,
]  # fmt: skip
REDUCING = [
    lambda x: x.sum(), lambda x: x.mean(), lambda x: x.max(), lambda x: x.sum(0) if x.ndim else x,
    lambda x: x.std() if x.numel() > 1 else x, lambda x: x.amax(-1, keepdim=True) if x.ndim else x,
    lambda x: x.argmax(-1).double() if x.ndim else x, lambda x: x.logsumexp(-1) if x.ndim else x,
]  # fmt: skip


@step(4)
def unary(world):
    world.keep(tame(UNARY[world.below(len(UNARY))](world.any())))


@step(2)
def reduce(world):
    x = world.any(lambda x: x.numel())
    if x is not None:
        world.keep(tame(REDUCING[world.below(len(REDUCING))](x)))


@step(4)
def binary(world):
    x, y = world.any(), world.any()
    functions = [mt.add, mt.sub, mt.mul, mt.maximum, mt.atan2, lambda a, b: mt.where(a > b, a, b), mt.matmul]
    try:
        world.keep(tame(functions[world.below(len(functions))](x, y)))
    except (RuntimeError, ValueError) as error:
        world.seen.append(f"{type(error).__name__}: {error}")


@step(3)
def view(world):
    x = world.any(lambda x: x.ndim > 0 and x.numel() > 1)
    if x is None:
        return
    n = x.shape[0]
    views = [
        lambda: x.T, lambda: x[0], lambda: x[-1:], lambda: x[::2], lambda: x.reshape(-1), lambda: x.unsqueeze(0),
        lambda: x[..., 0], lambda: x.transpose(0, -1), lambda: x[None], lambda: x.expand(2, *x.shape), lambda: x.squeeze(),
        lambda: x[mt.tensor([0, n - 1, 0])], lambda: x[[n - 1]], lambda: x.flatten(), lambda: x.detach(),
        lambda: x.movedim(0, -1), lambda: mt.stack([x, x]), lambda: mt.cat([x, x]), lambda: x.diagonal() if x.ndim > 1 else x,
        lambda: x.view(-1) if x.is_contiguous() else x, lambda: x.split(1)[0], lambda: x.contiguous(),
    ]  # fmt: skip
    world.keep(views[world.below(len(views))]())


@step(5)
def write(world):
    """In place: into a tensor, a view of one, with or without a graph."""
    x = world.any()
    value = world.rng.uniform(-1, 1)
    other = world.any(lambda y: y.shape == x.shape)
    ways = [
        lambda: x.mul_(0.5), lambda: x.add_(value), lambda: x.add_(other, alpha=0.3), lambda: x.copy_(other),
        lambda: x.zero_(), lambda: x.clamp_(-0.3, 0.4), lambda: x.__setitem__(..., value), lambda: x.tanh_(),
        lambda: x.__setitem__(0, value) if x.ndim else None, lambda: x.__setitem__(x > 0.1, 0.25), lambda: x.sub_(x * 0.1),
        lambda: x.__setitem__(slice(None, None, 2), other[::2]) if x.ndim else None, lambda: x.uniform_(-1, 1),
        lambda: x.__iadd__(other), lambda: x.T.mul_(0.9) if x.ndim == 2 else None, lambda: x.masked_fill_(x < 0, 0.1),
        lambda: x.__setitem__((mt.tensor([0, 0]),), value) if x.ndim else None, lambda: x.requires_grad_(),
    ]  # fmt: skip
    way = ways[world.below(len(ways))]
    try:
        if world.below(2):
            with mt.no_grad():
                way()
        else:
            way()
    except (RuntimeError, ValueError, IndexError) as error:
        world.seen.append(f"{type(error).__name__}: {error}")


@step(2)
def look(world):
    x = world.any()
    ways = [
        lambda: float(x.sum()), lambda: x.tolist(), lambda: repr(x.detach().round(decimals=3)), lambda: bool((x > 0).all()),
        lambda: x.detach().numpy().copy(), lambda: x.data.sum(), lambda: None if x.grad is None else x.grad.copy(),
        lambda: x.detach().nonzero().tolist(), lambda: x[x > 0].detach().numpy().copy(), lambda: np.asarray(x.detach()).mean(),
        lambda: int(x.abs().sum() * 100), lambda: x.is_contiguous(), lambda: x.stride(), lambda: mt.unique(x.detach()).tolist(),
        lambda: x.equal(x + 0), lambda: len(str(x.requires_grad)),
    ]  # fmt: skip
    world.seen.append(ways[world.below(len(ways))]())


@step(2)
def decide(world):
    x = world.any()
    if x.numel() and x.mean() > 0.05:
        world.keep(x - 0.5)
    else:
        world.keep(x.detach() + 0.5)


@step(2)
def numpy(world):
    """Hold an array of a tensor's memory, and write into it, or see what was written."""
    x = world.any()
    if world.below(2):
        world.arrays.append(x.data)
    elif world.arrays:
        array = world.arrays[world.below(len(world.arrays))]
        if array.flags.writeable:
            array[...] = array * 0.5
        world.seen.append(np.array(array))
    if len(world.arrays) > 3:
        del world.arrays[0]


@step(3)
def backward(world):
    x = world.any(lambda x: x.requires_grad)
    if x is None:
        return
    try:
        if world.below(3) == 0:
            wanted = [t for t in world.leaves if t.requires_grad and t.is_leaf]
            loss = (x * x).sum()
            found = mt.autograd.grad(loss, wanted, create_graph=world.below(2) == 0, allow_unused=True)
            for each in found:
                if each is not None:
                    world.keep(each)
        else:
            x.sum().backward(retain_graph=world.below(2) == 0)
    except RuntimeError as error:
        world.seen.append(f"RuntimeError: {str(error)[:60]}")


@step()
def hook(world):
    x = world.any(lambda x: x.requires_grad)
    if x is not None:
        factor = world.rng.uniform()
        x.register_hook(lambda g: g * factor)


@step(2)
def train(world):
    x, y = mt.randn(5, 4, dtype=mt.float64), mt.randint(0, 2, (5,))
    loss = F.cross_entropy(world.module(x), y)
    loss.backward()
    if world.below(2):
        nn.utils.clip_grad_norm_(world.module.parameters(), 0.7)
    world.optimizer.step()
    world.optimizer.zero_grad(set_to_none=world.below(2) == 0)
    world.schedule.step()
    world.keep(loss.detach())


@step()
def forget(world):
    x = world.any()
    x.grad = None
    world.held.append(x)


@step()
def aside(world):
    """Compute at once for a while, whatever is around."""
    with mt.lazy(False):
        world.keep(tame(world.any() * 1.5))


@step()
def fail(world):
    try:
        world.any() @ mt.ones(17)
    except (RuntimeError, ValueError) as error:
        world.seen.append(f"{type(error).__name__}: {error}")


NAMES = sorted(STEPS)


def run(seed, count=25):
    """Run a program; return all it saw and left."""
    world = World(seed)
    with contextlib.suppress(IndexError):
        for _ in range(count):
            STEPS[NAMES[world.below(len(NAMES))]](world)
    left = [x.detach().numpy().copy() for x in (*world.tensors, *world.held, *world.module.parameters())]
    gradients = [x.grad if x.grad is None else np.array(x.grad) for x in (*world.tensors, *world.leaves)]
    return [world.seen, left, gradients, [np.array(a) for a in world.arrays], mt.rand(3).tolist()]


def assert_same(a, b, where="result"):
    """The same kinds of things, and the same numbers but for rounding."""
    if isinstance(b, (np.ndarray, float)):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), where
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8, err_msg=where)
    elif isinstance(b, (list, tuple)):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{i}]")
    else:
        assert type(a) is type(b), where
        assert a == b, where
