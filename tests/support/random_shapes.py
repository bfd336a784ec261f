"""Random programs at random sequences of sizes: compiled, with sizes that vary, against eager.

Enters: a seed. Leaves: a training step over Tensors whose axes are named (n, t, and products of them) and an int, the
sizes and ints of its calls (0 and 1 among them), and where its compiled run differs from the eager one: in results,
errors, parameters, gradients, the optimiser's state, the random stream.

    python -m random_shapes --count 500 --backend native
"""

import argparse
import contextlib
import copy
import math
import random
import warnings

import numpy as np

import minitorch as mt
from minitorch import nn, optim
from minitorch.compiler.call.function import CompileWarning
from random_tensors import standin

F = nn.functional
FEATURES = 4  # the length of axes that do not vary

# --- steps: (name, function of the tensors so far) ------------------------------------------------------------------
# A step is chosen by the names of axes, never by a size: the program is the same one at all sizes.


class Plan:
    """A program being made up: the axes of each value so far, and the steps that make them."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        # inputs: x (n, t, F), y (n, F), labels (n,)
        self.axes = [("n", "t", "f"), ("n", "f")]
        self.steps = []
        while len(self.steps) < 3 + self.rng.randrange(8):
            name = self.rng.choice(sorted(STEPS))
            number = self.rng.randrange(len(self.axes))
            made = STEPS[name](self, number, self.axes[number])
            if made is not None:
                axes, run = made
                self.steps.append((name, run))
                self.axes.append(axes)
        self.draws = self.rng.random() < 0.3
        self.classifies = self.rng.random() < 0.4

    def axis(self, axes, varying=False):
        """Choose an axis; None if there is none."""
        choice = [i for i, a in enumerate(axes) if not varying or a not in ("f", "1", "k")]
        return self.rng.choice(choice) if choice else None

    def words(self):
        return " ".join(name for name, _ in self.steps)


STEPS = {}


def step(make):
    STEPS[make.__name__] = make
    return make


@step
def unary(plan, number, axes):
    function = plan.rng.choice([
        lambda x: x.tanh(), lambda x: x.relu(), lambda x: -x, lambda x: x.sigmoid() * 2, lambda x: (x * x + 1).sqrt(),
        lambda x: x.clamp(-1, 1), lambda x: F.gelu(x), lambda x: x.abs().log1p(),
    ])  # fmt: skip
    return axes, lambda v: function(v[number])


@step
def binary(plan, number, axes):
    partners = [i for i, other in enumerate(plan.axes) if _fits(axes, other)]
    other = plan.rng.choice(partners)
    function = plan.rng.choice([
        lambda a, b: a + b, lambda a, b: a * b, lambda a, b: mt.maximum(a, b), lambda a, b: mt.where(a > b, a, b / 2),
    ])  # fmt: skip
    return _together(axes, plan.axes[other]), lambda v: function(v[number], v[other])


def _fits(a, b):
    return all("1" in pair or len(set(pair)) == 1 for pair in zip(a[::-1], b[::-1], strict=False))


def _together(a, b):
    long, short = (a, b) if len(a) >= len(b) else (b, a)
    rest = len(long) - len(short)
    return long[:rest] + tuple(y if x == "1" else x for x, y in zip(long[rest:], short, strict=True))


@step
def reduction(plan, number, axes):
    axis = plan.axis(axes)
    if axis is None:
        return None
    keep = plan.rng.random() < 0.5
    function = plan.rng.choice(["sum", "mean", "amax", "logsumexp", "std", "norm"])
    kept = axes[:axis] + (("1",) if keep else ()) + axes[axis + 1 :]
    if function == "std":
        return kept, lambda v: v[number].std(axis, correction=0, keepdim=keep)
    return kept, lambda v: getattr(v[number], function)(dim=axis, keepdim=keep)


@step
def softmax(plan, number, axes):
    axis = plan.axis(axes)
    if axis is None:
        return None
    function = plan.rng.choice(["softmax", "log_softmax", "cumsum"])
    return axes, lambda v: getattr(v[number], function)(axis)


@step
def sorting(plan, number, axes):
    axis = plan.axis(axes)
    return None if axis is None else (axes, lambda v: v[number].sort(axis).values)


@step
def transpose(plan, number, axes):
    if len(axes) < 2:
        return None
    order = list(range(len(axes)))
    plan.rng.shuffle(order)
    return tuple(axes[i] for i in order), lambda v: v[number].permute(order)


@step
def merge(plan, number, axes):
    if len(axes) < 2:
        return None
    i = plan.rng.randrange(len(axes) - 1)
    merged = (*axes[:i], f"({axes[i]}*{axes[i + 1]})", *axes[i + 2 :])

    def run(v):
        x = v[number]
        rest = (*x.shape[:i], -1, *x.shape[i + 2 :])
        return x.reshape(rest) if x.numel() else x.flatten(i, i + 1)

    return merged, run


@step
def ungroup(plan, number, axes):
    """Split features, as heads are."""
    if axes[-1:] != ("f",):
        return None
    return (*axes[:-1], "2", "k"), lambda v: v[number].reshape(*v[number].shape[:-1], 2, FEATURES // 2)


@step
def product(plan, number, axes):
    if axes[-1:] != ("f",):
        return None
    bias = plan.rng.random() < 0.5
    return axes, lambda v: F.linear(v[number], v.weight, v.bias if bias else None)


@step
def gram(plan, number, axes):
    if len(axes) < 2 or axes[-1] != "f":
        return None
    return (*axes[:-1], axes[-2]), lambda v: v[number] @ v[number].transpose(-1, -2) / 2


@step
def causal(plan, number, axes):
    if len(axes) < 2 or axes[-1] != axes[-2]:
        return None

    def run(v):
        x = v[number]
        mask = mt.ones(x.shape[-1], x.shape[-1]).tril() == 0
        return x.masked_fill(mask, -1e9).softmax(-1)

    return axes, run


@step
def sliced(plan, number, axes):
    axis = plan.axis(axes, varying=True)
    if axis is None:
        return None
    kind = plan.rng.choice(["1:", ":-1", "::2", "-3:", ":3", "n//2", "flip", "[-1]"])
    name = axes[axis]

    def run(v):
        x = v[number]
        n = x.shape[axis]
        if kind == "flip":
            return x.flip(axis)
        if kind == "[-1]":
            return x.select(axis, -1)
        part = {
            "1:": slice(1, None), ":-1": slice(None, -1), "::2": slice(None, None, 2), "-3:": slice(-3, None),
            ":3": slice(3), "n//2": slice(None, n // 2),
        }[kind]  # fmt: skip
        return x[(slice(None),) * axis + (part,)]

    if kind == "[-1]":
        return axes[:axis] + axes[axis + 1 :], run
    return (*axes[:axis], name if kind == "flip" else f"{name}[{kind}]", *axes[axis + 1 :]), run


@step
def joined(plan, number, axes):
    axis = plan.axis(axes)
    if axis is None:
        return None
    kind = plan.rng.choice(["itself", "zeros", "stack", "repeat", "pad"])
    grown = (*axes[:axis], f"{axes[axis]}+{kind}", *axes[axis + 1 :])

    def run(v):
        x = v[number]
        if kind == "itself":
            return mt.cat([x, x * 2], dim=axis)
        if kind == "zeros":
            shape = [2 if i == axis else n for i, n in enumerate(x.shape)]
            return mt.cat([x, mt.zeros(*shape)], dim=axis)
        if kind == "stack":
            return mt.stack([x, -x], dim=axis)
        if kind == "repeat":
            return x.repeat(*(2 if i == axis else 1 for i in range(x.ndim)))
        return F.pad(x, [0, 0] * (x.ndim - axis - 1) + [1, 2])

    return ((*axes[:axis], "2", *axes[axis:]) if kind == "stack" else grown), run


@step
def positions(plan, number, axes):
    axis = plan.axis(axes, varying=True)
    if axis is None:
        return None

    def run(v):
        x = v[number]
        place = mt.arange(x.shape[axis], dtype=mt.float32) / 10
        return x + place.reshape([-1 if i == axis else 1 for i in range(x.ndim)])

    return axes, run


@step
def taken(plan, number, axes):
    axis = plan.axis(axes, varying=True)
    if axis is None:
        return None
    return axes, lambda v: v[number].index_select(axis, mt.arange(v[number].shape[axis]).flip(0))


@step
def scaled(plan, number, axes):
    axis = plan.axis(axes, varying=True)
    if axis is None:
        return None
    function = plan.rng.choice([
        lambda x, n: x / n, lambda x, n: x / math.sqrt(n), lambda x, n: x * (1 / len(x)) if x.ndim else x,
        lambda x, n: x * (n % 3 + 1), lambda x, n: x * (n // 2), lambda x, n: x if n > 4 else x * 2,
        lambda x, n: x * 2 if n == 5 else x, lambda x, n: x * float(n), lambda x, n: x + n,
    ])  # fmt: skip
    return axes, lambda v: function(v[number], v[number].shape[axis])


@step
def written(plan, number, axes):
    axis = plan.axis(axes, varying=True)
    if axis is None:
        return None
    kind = plan.rng.choice([slice(1, None), slice(None, None, 2), slice(None, -1), slice(0, 2)])

    def run(v):
        x = v[number].clone()
        x[(slice(None),) * axis + (kind,)] = 0.5
        return x

    return axes, run


@step
def convolved(plan, number, axes):
    if len(axes) != 3 or axes[-1] != "f" or axes[1] == "f":
        return None
    padding = plan.rng.choice([0, 1])
    name = axes[1] if padding else f"{axes[1]}-2"
    return (axes[0], name, "f"), lambda v: F.conv1d(
        v[number].transpose(1, 2), v.kernel, padding=padding
    ).transpose(1, 2)


@step
def pooled(plan, number, axes):
    if len(axes) != 3 or axes[-1] in ("f", "k", "1", "2"):
        return None
    kind = plan.rng.choice([F.max_pool1d, F.avg_pool1d])
    return (*axes[:-1], f"{axes[-1]}//2"), lambda v: kind(v[number], 2)


@step
def normalised(plan, number, axes):
    if axes[-1:] != ("f",):
        return None
    return axes, lambda v: F.layer_norm(v[number], (FEATURES,))


# --- by an int among the arguments, k, or one that the function counts up itself, place ---------------------------


@step
def cut(plan, number, axes):
    axis = plan.axis(axes)
    if axis is None:
        return None
    kind = plan.rng.choice([":k", "k:", "-k:", "k:k+2", ":k//2", "min", "::-1", "range", "split"])
    which = plan.rng.choice(["k", "place"])
    before = (slice(None),) * axis

    def run(v):
        x, k = v[number], getattr(v, which)
        if kind == "range":
            return x.index_select(axis, mt.arange(min(k, x.shape[axis])))
        if kind == "split":
            return x.split(k + 2, axis)[-1]
        part = {
            ":k": slice(k), "k:": slice(k, None), "-k:": slice(-k, None), "k:k+2": slice(k, k + 2),
            ":k//2": slice(k // 2), "min": slice(min(k, 3), None), "::-1": slice(None, k, None),
        }[kind]  # fmt: skip
        return x[(*before, part)]

    return (*axes[:axis], f"{axes[axis]}[{kind},{which}]", *axes[axis + 1 :]), run


@step
def selected(plan, number, axes):
    axis = plan.axis(axes)
    if axis is None:
        return None
    which = plan.rng.choice(["k", "place"])
    wrapped = plan.rng.random() < 0.8

    def run(v):
        x, k = v[number], getattr(v, which)
        return x.select(axis, k % x.shape[axis] if wrapped and x.shape[axis] else k)

    return axes[:axis] + axes[axis + 1 :], run


@step
def by_an_int(plan, number, axes):
    function = plan.rng.choice([
        lambda x, k: x * k, lambda x, k: x + k / 3, lambda x, k: x * 0.9**k, lambda x, k: x / (k + 1),
        lambda x, k: x * 2 if k % 2 else x, lambda x, k: x if k > 4 else x * 3, lambda x, k: x * (k // 2 + k % 3),
        lambda x, k: x * math.sqrt(k), lambda x, k: x * mt.full((1,), k), lambda x, k: x * (k == 5),
        lambda x, k: x.abs() ** min(k, 3), lambda x, k: x + mt.ones(k).sum(), lambda x, k: x * mt.arange(k).sum(),
        lambda x, k: x.roll(k, -1) if x.ndim else x, lambda x, k: x.tril(k) if x.ndim > 1 else x,
        lambda x, k: x * sum(range(k)), lambda x, k: x.clamp(max=k), lambda x, k: mt.where(x > k, x, -x),
    ])  # fmt: skip
    which = plan.rng.choice(["k", "place"])
    return axes, lambda v: function(v[number], getattr(v, which))


@step
def written_at(plan, number, axes):
    axis = plan.axis(axes)
    if axis is None:
        return None
    kind, which = plan.rng.choice(["k", ":k", "k:"]), plan.rng.choice(["k", "place"])

    def run(v):
        x, k = v[number].clone(), getattr(v, which)
        if x.shape[axis]:
            part = {"k": k % x.shape[axis], ":k": slice(k), "k:": slice(k, None)}[kind]
            x[(slice(None),) * axis + (part,)] = 0.5
        return x

    return axes, run


# --- running them -------------------------------------------------------------------------------------------------


class _Values(list):
    """The tensors so far, and the parameters."""


class World:
    """A step of training: one program and its parameters, started from a seed."""

    def __init__(self, plan, device="cpu"):
        self.plan, self.device = plan, device
        mt.manual_seed(1)
        shapes = {"weight": (FEATURES, FEATURES), "bias": (FEATURES,), "kernel": (FEATURES, FEATURES, 3)}
        self.parameters = {
            name: nn.Parameter((mt.randn(*shape) / 2).to(device)) for name, shape in shapes.items()
        }
        self.optimizer = optim.SGD(self.parameters.values(), lr=0.01, momentum=0.9)
        self.place = 0

    def step(self, x, y, labels, k):
        values = _Values([x, y])
        values.k, values.place = k, self.place
        self.place += 1
        for name, parameter in self.parameters.items():
            setattr(values, name, parameter)
        for _, run in self.plan.steps:
            values.append(run(values))
        self.optimizer.zero_grad()
        loss = sum((value.float() * 0.1).tanh().sum() for value in values) / 10
        loss = loss + sum((p * p).sum() for p in self.parameters.values())
        if self.plan.draws:
            loss = loss + (F.dropout(x, 0.5) * mt.randn(x.shape[0], 1, 1)).sum() / 10
        if self.plan.classifies:
            loss = loss + F.cross_entropy(F.linear(y, self.parameters["weight"]), labels)
        loss.backward()
        self.optimizer.step()
        return loss, values[-1], values[-1].shape

    def state(self):
        found = [t.detach().cpu().numpy().copy() for t in self.parameters.values()]
        found += [
            s["momentum_buffer"].cpu().numpy().copy()
            for s in self.optimizer.state.values()
            if "momentum_buffer" in s
        ]
        return [*found, np.array(self.place)]


def sizes_of_calls(seed, count=9):
    """Return lengths for n and t, and an int k, call by call."""
    rng = random.Random(seed + 1)
    few = [rng.choice([0, 1, 2, 3, 5, 8, 13]) for _ in range(3)]
    return [
        (
            rng.choice([*few, rng.randrange(2, 20)]),
            rng.choice([rng.randrange(2, 12), few[0], 5]),
            rng.choice([*few, rng.randrange(9)]),
        )
        for _ in range(count)
    ]


def arguments_for(n, t, k, call):
    rng = np.random.default_rng(call)
    x = mt.tensor(rng.standard_normal((n, t, FEATURES)).astype(np.float32))
    y = mt.tensor(rng.standard_normal((n, FEATURES)).astype(np.float32))
    return x, y, mt.tensor(rng.integers(0, FEATURES, n)), k


def outcome(function, arguments):
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=CompileWarning)
            warnings.filterwarnings("ignore", "std: ")
            return function(*arguments), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def close(a, b):
    scale = float(np.abs(np.where(np.isfinite(b), b, 0)).max()) if b.size else 0.0
    return a.shape == b.shape and np.allclose(a, b, rtol=2e-3, atol=2e-4 * max(scale, 1.0), equal_nan=True)


def difference(seed, backend, dynamic=None, device="cpu"):
    """Say where a program's compiled run differs from the eager one; '' if it does not. Returns the function too.

    device: where the compiled one runs. What both draw is not the same there: programs that draw are left out.
    """
    plan = Plan(seed)
    plan.draws = plan.draws and device == "cpu"
    eager, other = World(plan), World(plan, device)
    compiled = mt.compile(other.step, backend=backend, dynamic=dynamic)
    for call, (n, t, k) in enumerate(sizes_of_calls(seed)):
        arguments = arguments_for(n, t, k, call)
        results = []
        for world, function in ((eager, eager.step), (other, compiled)):
            mt.manual_seed(call)
            given = [each.to(world.device) if isinstance(each, mt.Tensor) else each for each in arguments]
            with mt.device(world.device):
                found = outcome(function, copy.deepcopy(given))
            results.append((*found, mt.rand(1).item(), world.state()))
        where = f"seed {seed}, call {call} (n = {n}, t = {t}, k = {k}), {plan.words()}"
        (want, error, stream, state), (got, said, other_stream, other_state) = results
        if error != said:
            return f"{where}: eager {error or 'goes well'!r}, compiled {said or 'goes well'!r}", compiled
        if not error:
            if tuple(want[2]) != tuple(got[2]) or not all(type(k) is int for k in got[2]):
                return f"{where}: shapes {want[2]} and {got[2]}", compiled
            for a, b in zip(got[:2], want[:2], strict=True):
                if a.dtype != b.dtype or not close(a.detach().cpu().numpy(), b.detach().numpy()):
                    return f"{where}: results differ", compiled
        if stream != other_stream:
            return f"{where}: the random stream", compiled
        if len(state) != len(other_state) or not all(map(close, other_state, state)):
            return f"{where}: parameters, or the optimiser's state", compiled
    return "", compiled


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--dynamic", default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--standin", action="store_true", help="with --device cuda, where there is none")
    options = parser.parse_args()
    dynamic = {None: None, "true": True, "false": False}[options.dynamic]
    symbolic = compilations = 0
    stack = contextlib.ExitStack()
    if options.standin:
        stack.enter_context(standin())
    for seed in range(options.start, options.start + options.count):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                words, compiled = difference(seed, options.backend, dynamic, options.device)
            except Exception as error:
                words, compiled = f"seed {seed}: {Plan(seed).words()}: {type(error).__name__}: {error}", None
        if words:
            print(words, flush=True)
        if compiled is not None:
            symbolic += any(p.places for p in compiled.cache.all())
            compilations += compiled.compilations
    stack.close()
    print(f"{options.count} programs, {symbolic} with sizes that vary, {compilations} compilations")


if __name__ == "__main__":
    main()
