"""Random programs over Tensors of all dtypes, on a GPU: eager and compiled there, against eager on the CPU.

Enters: a seed. Leaves: a program (inputs of odd shapes and some dtype, steps of all families of ops, several outputs,
gradients), and where its runs on the device differ from the one here. Numbers are few and dyadic, so that what is exact
stays exact: what jumps (comparisons, sorting, places of the largest) is applied to nothing else, and ties are common.

    python -m random_tensors --count 500                  on a GPU
    python -m random_tensors --standin --count 50         on the one that the suite pretends to have
    python -m random_tensors --seed 12 [--standin]        shows one
"""

import argparse
import contextlib
import multiprocessing
import random
import sys
import time
import traceback
import warnings

import numpy as np

import minitorch as mt
from minitorch import nn
from minitorch.compiler.call.function import CompileWarning
from minitorch.engine.gpu import on_host

F = nn.functional
LENGTHS = [1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 33, 64, 127, 0]
EPS = {
    mt.float16: 1e-3, mt.bfloat16: 8e-3, mt.float32: 1.2e-7, mt.float64: 2.3e-16, mt.complex64: 1.2e-7,
    mt.complex128: 2.3e-16,
}  # fmt: skip
MOST = 60_000  # elements of a value
SLACK, SLACK_OF_HALVES = 400.0, 24.0


class Known:
    """What is known of a value: a Tensor here, whether rounding has touched it, how coarse it is."""

    def __init__(self, tensor, exact, eps):
        self.tensor, self.exact, self.eps = tensor, exact, eps


class Plan:
    """A program being made up."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.seed = seed
        self.inputs, self.values, self.steps = [], [], []
        self.main = self.rng.choice([mt.float32] * 5 + [mt.float64, mt.float16, mt.bfloat16])
        for _ in range(self.rng.randrange(1, 4)):
            self.add(self.shape(), self.main)
        if self.rng.random() < 0.5:
            self.add(self.shape(), self.rng.choice(
                [mt.int64, mt.int32, mt.bool, mt.float32, mt.float64, mt.uint8, mt.int8, mt.int16, mt.complex64]
            ))  # fmt: skip
        count = self.rng.randrange(2, 11)
        for _ in range(60):
            if len(self.steps) >= count:
                break
            self.step()
        self.checks = self.rng.random() < 0.5
        self.outside = self.rng.random() < 0.3  # whether gradients are asked for outside
        last = len(self.values)
        self.outputs = sorted({last - 1} | {self.rng.randrange(last) for _ in range(self.rng.randrange(3))})

    def shape(self, ndim=None):
        ndim = self.rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4]) if ndim is None else ndim
        most = {4: 8, 3: 33}.get(ndim, 200)
        pick = lambda: self.rng.choice([n for n in LENGTHS if n <= most])
        found = [pick() for _ in range(ndim)]
        return tuple(n if n or self.rng.random() < 0.15 else 3 for n in found)

    def add(self, shape, dtype):
        self.inputs.append((shape, dtype))
        self.values.append(
            Known(numbers(shape, dtype, [self.seed, len(self.inputs), 0]), True, EPS.get(dtype, 0.0))
        )

    def pick(self, test=lambda k: True):
        """Choose a value, a late one rather; its number, or None."""
        fitting = [i for i, k in enumerate(self.values) if test(k)]
        if not fitting:
            return None
        return self.rng.choice(fitting[-3:] if self.rng.random() < 0.6 else fitting)

    def step(self):
        name = self.rng.choice(NAMES)
        made = STEPS[name](self)
        if made is None:
            return
        numbers_of, kind, run = made
        if any(n is None for n in numbers_of):
            return
        given = [self.values[n] for n in numbers_of]
        if kind == "jumps" and not all(k.exact for k in given):
            return
        try:
            with warnings.catch_warnings(), mt.no_grad():
                warnings.simplefilter("ignore")
                result = run(*[k.tensor for k in given])
        except Exception as error:
            if not isinstance(error, (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)):
                raise
            return
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        if not results or any(r.numel() > MOST or r.ndim > 6 for r in results):
            return
        for r in results:
            there = on_host(r.detach()._data)
            if there.dtype.kind in "fcV" and r.numel():
                large = np.abs(np.asarray(there, np.complex128 if there.dtype.kind == "c" else np.float64))
                if not np.isfinite(large).all() or large.max() > 3e3:
                    return
        exact = kind in ("exact", "jumps") and all(k.exact for k in given)
        eps = max([k.eps for k in given], default=0.0)
        self.steps.append((name, numbers_of, run))
        for r in results:
            self.values.append(Known(r, exact, max(eps, EPS.get(r.dtype, 0.0))))

    def words(self):
        dtypes = ", ".join(f"{str(d).rpartition('.')[2]}{list(s)}" for s, d in self.inputs)
        return f"{dtypes}: " + " ".join(f"{name}{list(n)}" for name, n, _ in self.steps)

    # --- running it ---

    def arguments(self, call, device):
        made = [
            numbers(shape, dtype, [self.seed, i + 1, call]).to(device)
            for i, (shape, dtype) in enumerate(self.inputs)
        ]
        for each in made:
            if each.dtype in EPS:
                each.requires_grad_()
        return made

    def run(self, *inputs):
        values = list(inputs)
        for _, numbers_of, run in self.steps:
            result = run(*[values[n] for n in numbers_of])
            values += result if isinstance(result, (tuple, list)) else [result]
        return values

    def forward(self, *inputs):
        values = self.run(*inputs)
        loss = mt.zeros((), dtype=mt.float64, device=inputs[0].device)
        for value in values[len(inputs) :]:
            if value.requires_grad:
                value = value.real if value.is_complex() else value
                loss = (
                    loss
                    + (value.double() * 0.5).sum()
                    + (value.double() * value.double()).mean() * bool(value.numel())
                )
        return loss, [values[n] for n in self.outputs]

    def step_of_training(self, *inputs):
        loss, outputs = self.forward(*inputs)
        if loss.requires_grad:
            loss.backward()
        return loss.detach(), [o.detach() for o in outputs]


def numbers(shape, dtype, seed):
    """A Tensor of dyadic numbers, few different ones."""
    rng = np.random.default_rng(seed)
    if dtype == mt.bool:
        return mt.tensor(rng.random(shape) < 0.5)
    if dtype not in EPS:
        low = 0 if dtype == mt.uint8 else -5
        return mt.tensor(rng.integers(low, 6, shape)).to(dtype)
    made = rng.integers(-12, 13, shape) / 8
    if dtype in (mt.complex64, mt.complex128):
        made = made + 1j * rng.integers(-12, 13, shape) / 8
    return mt.tensor(made).to(dtype)


# --- steps: what they read, whether they are exact, how they are computed ---------------------------------------------

STEPS = {}


def step(make):
    STEPS[make.__name__] = make
    return make


def is_float(k):
    return k.tensor.dtype in EPS and not k.tensor.is_complex()


def is_wide(k):
    return is_float(k) and k.tensor.dtype in (mt.float32, mt.float64)


def is_exact(k):
    return k.exact and is_float(k)


def has_axes(n, test=is_float):
    return lambda k: test(k) and k.tensor.ndim >= n


def axis_of(plan, n):
    return plan.rng.randrange(plan.values[n].tensor.ndim) if n is not None else None


SMOOTH = {
    "tanh": mt.tanh, "exp": lambda x: (x.tanh()).exp(), "sigmoid": mt.sigmoid, "gelu": F.gelu, "silu": F.silu,
    "log": lambda x: (x * x + 0.5).log(), "sqrt": lambda x: (x * x + 0.25).sqrt(), "sin": mt.sin, "cos": mt.cos,
    "erf": mt.erf, "softplus": F.softplus, "rsqrt": lambda x: (x * x + 0.5).rsqrt(), "log1p": lambda x: (x * x).log1p(),
    "expm1": lambda x: x.tanh().expm1(), "atan": mt.atan, "reciprocal": lambda x: (x * x + 1).reciprocal(),
    "mish": F.mish, "elu": F.elu, "gelu tanh": lambda x: F.gelu(x, approximate="tanh"), "pow": lambda x: (x * x + 0.5) ** 1.5,
    "sinh": lambda x: x.tanh().sinh(), "logsigmoid": F.logsigmoid, "selu": F.selu, "asinh": mt.asinh,
    "lgamma": lambda x: (x * x + 1).lgamma(), "digamma": lambda x: (x * x + 1).digamma(), "erfc": lambda x: x.tanh().erfc(),
    "exp2": lambda x: x.tanh().exp2(), "log2": lambda x: (x * x + 0.5).log2(), "tan": lambda x: x.tanh().tan(),
    "celu": F.celu, "hardswish": F.hardswish, "tanhshrink": F.tanhshrink, "softsign": F.softsign,
}  # fmt: skip
PLAIN = {
    "neg": lambda x: -x, "half": lambda x: x * 0.5, "plus": lambda x: x + 1, "minus": lambda x: 2 - x,
}  # fmt: skip
KINKED = {
    "abs": mt.abs, "relu": F.relu, "clamp": lambda x: x.clamp(-1, 0.5), "leaky": lambda x: F.leaky_relu(x, 0.25),
    "hardtanh": F.hardtanh, "relu6": F.relu6, "hardsigmoid": lambda x: F.hardsigmoid(x) * 6,
    "floor": mt.floor, "ceil": mt.ceil, "round": mt.round, "trunc": mt.trunc, "sign": mt.sign, "frac": lambda x: x.frac(),
}  # fmt: skip


@step
def smooth(plan):
    run = plan.rng.choice(list(SMOOTH.values()))
    return [plan.pick(is_float)], "rounded", lambda x: run(x)


@step
def plain(plan):
    run = plan.rng.choice(list(PLAIN.values()))
    return [plan.pick(lambda k: k.tensor.dtype != mt.bool)], "exact", lambda x: run(x)


@step
def kinked(plan):
    run = plan.rng.choice(list(KINKED.values()))
    return [plan.pick(is_exact)], "jumps", lambda x: run(x)


def fits(a, b):
    return all(1 in pair or pair[0] == pair[1] for pair in zip(a[::-1], b[::-1], strict=False))


def pair(plan, test):
    a = plan.pick(test)
    if a is None:
        return None, None
    shape = plan.values[a].tensor.shape
    return a, plan.pick(lambda k: test(k) and fits(k.tensor.shape, shape))


@step
def binary(plan):
    run = plan.rng.choice([lambda a, b: a + b, lambda a, b: a - b, lambda a, b: (a * b) * 0.25])
    return pair(plan, lambda k: k.tensor.dtype != mt.bool), "rounded", run


@step
def ratio(plan):
    run = plan.rng.choice([
        lambda a, b: a / (b * b + 1), lambda a, b: mt.atan2(a, b * b + 1), lambda a, b: mt.logaddexp(a, b),
        lambda a, b: mt.hypot(a, b + 4), lambda a, b: (a * a + 1) ** b.tanh(), lambda a, b: mt.lerp(a, b, 0.25),
        lambda a, b: mt.addcmul(a, b, b, value=0.5) * 0.25,
    ])  # fmt: skip
    return pair(plan, is_float), "rounded", run


@step
def chosen(plan):
    run = plan.rng.choice([
        mt.maximum, mt.minimum, lambda a, b: mt.where(a > b, a, b * 2), lambda a, b: a * (a >= b),
        lambda a, b: a.masked_fill(a <= b, 0.5), lambda a, b: (a == b).to(a.dtype) + b, lambda a, b: mt.copysign(a, b - 0.0625),
        lambda a, b: mt.heaviside(a, b), lambda a, b: mt.fmax(a, b), lambda a, b: mt.remainder(a, b.abs() + 1),
        lambda a, b: mt.floor_divide(a, b.abs() + 1), lambda a, b: mt.fmod(a, b.abs() + 1),
    ])  # fmt: skip
    return pair(plan, is_exact), "jumps", lambda a, b: run(a, b)


@step
def whole_numbers(plan):
    run = plan.rng.choice([
        lambda a: a // 3, lambda a: a % 4, lambda a: -a, lambda a: a * 3 + 1, lambda a: a & 5, lambda a: a | 2, lambda a: a ^ 3,
        lambda a: a << 2, lambda a: a >> 1, lambda a: ~a, lambda a: a.abs(), lambda a: a.to(mt.float32) / 3, lambda a: a > 1,
        lambda a: a.clamp(-2, 3), lambda a: a ** 2, lambda a: a.sum(), lambda a: a.to(mt.int8), lambda a: a.to(mt.uint8),
        lambda a: a.cumsum(-1), lambda a: a.max(), lambda a: a.argmax(), lambda a: a.sort(-1)[0], lambda a: a.bool(),
        lambda a: a.double(), lambda a: a.prod() if a.numel() < 5 else a.sum(), lambda a: a.unsqueeze(0) + a,
        lambda a: F.one_hot(a.long() % 5, 5),
    ])  # fmt: skip
    return (
        [plan.pick(lambda k: k.tensor.dtype not in EPS and k.tensor.dtype != mt.bool)],
        "jumps",
        lambda a: run(a),
    )


@step
def booleans(plan):
    run = plan.rng.choice([
        lambda a: ~a, lambda a: a.any(), lambda a: a.all(-1) if a.ndim else a, lambda a: a.sum(), lambda a: a.float(), lambda a: a & ~a,
        lambda a: a ^ a.flip(-1) if a.ndim else a, lambda a: a.cumsum(0) if a.ndim else a, lambda a: a.logical_not(),
        lambda a: a.long() * 3, lambda a: a.half() * 1.5,
    ])  # fmt: skip
    return [plan.pick(lambda k: k.tensor.dtype == mt.bool)], "jumps", lambda a: run(a)


@step
def comparison(plan):
    run = plan.rng.choice(
        [lambda a: a > 0.25, lambda a: a.isfinite(), lambda a: a == 0.5, lambda a: a.sign().to(mt.int32)]
    )
    return [plan.pick(is_exact)], "jumps", lambda a: run(a)


@step
def complexes(plan):
    run = plan.rng.choice([
        lambda z: z * z * 0.25, lambda z: z.conj(), lambda z: z.real, lambda z: z.imag * 2, lambda z: z.abs(), lambda z: (z * 0.25).exp(),
        lambda z: z.sum(-1) if z.ndim else z, lambda z: z + 1j, lambda z: mt.view_as_real(z), lambda z: z.mean(), lambda z: (z + 4).log(),
    ])  # fmt: skip
    return [plan.pick(lambda k: k.tensor.is_complex())], "rounded", lambda z: run(z)


@step
def cast(plan):
    dtype = plan.rng.choice([mt.float32, mt.float64, mt.float16, mt.bfloat16])
    return [plan.pick(is_float)], "exact", lambda x: x.to(dtype)


@step
def reduction(plan):
    n = plan.pick(has_axes(1))
    if n is None:
        return None
    ndim = plan.values[n].tensor.ndim
    axes = tuple(sorted(plan.rng.sample(range(ndim), plan.rng.randrange(1, ndim + 1))))
    keep = plan.rng.random() < 0.5
    name = plan.rng.choice(["sum", "mean", "logsumexp", "var", "std", "norm", "amax", "amin", "prod"])
    if name in ("amax", "amin"):
        return (
            [plan.pick(lambda k: k is plan.values[n] and k.exact)],
            "jumps",
            lambda x: getattr(x, name)(axes, keepdim=keep),
        )
    if name == "prod":
        return [n], "rounded", lambda x: (x.tanh() + 1.25).prod(axes[0], keepdim=keep).tanh()
    if name in ("var", "std"):
        return (
            [n],
            "rounded",
            lambda x: (
                getattr(x + 0.5, name)(axes, correction=0, keepdim=keep)
                if name == "var"
                else (x.var(axes, correction=0, keepdim=keep) + 0.5).sqrt()
            ),
        )
    if name == "norm":
        return [n], "rounded", lambda x: (x + 0.0625).norm(dim=axes, keepdim=keep)
    return [n], "rounded", lambda x: getattr(x, name)(axes, keepdim=keep) * (0.25 if name == "sum" else 1)


@step
def softmax(plan):
    n = plan.pick(has_axes(1))
    axis = axis_of(plan, n)
    run = plan.rng.choice(
        [
            mt.softmax,
            mt.log_softmax,
            lambda x, dim: F.softmin(x, dim),
            lambda x, dim: F.normalize(x + 0.0625, dim=dim),
            lambda x, dim: F.glu(x, dim),
        ]
    )
    return [n], "rounded", lambda x: run(x, dim=axis)


@step
def norms(plan):
    n = plan.pick(has_axes(2, is_float))
    if n is None:
        return None
    last = plan.values[n].tensor.shape[-1]
    run = plan.rng.choice([
        lambda x: F.layer_norm(x, (last,), eps=0.1), lambda x: F.layer_norm(x, x.shape[-2:], eps=0.1), lambda x: F.rms_norm(x, (last,), eps=0.1),
        lambda x: F.batch_norm(x, None, None, training=True, eps=0.1), lambda x: F.group_norm(x, 1, eps=0.1),
        lambda x: F.instance_norm(x, eps=0.1), lambda x: F.local_response_norm(x, 3),
    ])  # fmt: skip
    return [n], "rounded", lambda x: run(x)


@step
def losses(plan):
    n = plan.pick(lambda k: is_float(k) and k.tensor.ndim == 2 and k.tensor.shape[1] > 1)
    if n is None:
        return None
    rows, classes = plan.values[n].tensor.shape
    labels = [(7 * i) % classes for i in range(rows)]
    ignore = plan.rng.choice([-100, 1])
    how = plan.rng.choice(["mean", "sum", "none"])
    smoothing = plan.rng.choice([0.0, 0.25])
    run = plan.rng.choice([
        lambda x: F.cross_entropy(x, mt.tensor(labels, device=x.device), ignore_index=ignore, reduction=how, label_smoothing=smoothing),
        lambda x: F.nll_loss(x.log_softmax(1), mt.tensor(labels, device=x.device), reduction=how),
        lambda x: F.mse_loss(x, x.flip(0), reduction=how), lambda x: F.smooth_l1_loss(x, x.tanh() * 2, reduction=how),
        lambda x: F.binary_cross_entropy_with_logits(x, x.sigmoid().detach(), reduction=how),
        lambda x: F.kl_div(x.log_softmax(1), x.softmax(1).detach(), reduction="sum"),
        lambda x: F.cosine_similarity(x + 0.0625, x.flip(1) + 0.0625, dim=1), lambda x: F.huber_loss(x, x * 0.25, reduction=how),
        lambda x: F.cross_entropy(x, x.softmax(1).detach()),
    ])  # fmt: skip
    return [n], "rounded", lambda x: run(x) * (0.0625 if how == "sum" else 1)


@step
def views(plan):
    n = plan.pick(lambda k: k.tensor.ndim >= 1)
    if n is None:
        return None
    x = plan.values[n].tensor
    axis, order = axis_of(plan, n), list(range(x.ndim))
    plan.rng.shuffle(order)
    length = x.shape[axis]
    begin = plan.rng.randrange(length + 1)
    before = (slice(None),) * axis
    sizes = [d for d in (1, 2, 3, 4, 5, 7) if x.numel() % d == 0]
    rows = plan.rng.choice(sizes)
    run = plan.rng.choice([
        lambda x: x.permute(order), lambda x: x.flip(axis), lambda x: x[(*before, slice(begin, None))], lambda x: x[(*before, slice(None, None, 2))],
        lambda x: x[(*before, slice(1, None))], lambda x: x.reshape(rows, -1), lambda x: x.unsqueeze(axis), lambda x: x.reshape(-1)[1:],
        lambda x: x.unsqueeze(axis).expand(*x.shape[:axis], 3, *x.shape[axis:]), lambda x: x.roll(begin, axis), lambda x: x.reshape(-1),
        lambda x: x.T if x.ndim == 2 else x.transpose(0, -1), lambda x: x.contiguous(), lambda x: x.select(axis, 0), lambda x: x.diagonal(0, 0, 1) if x.ndim > 1 else x,
        lambda x: x.unfold(axis, 2, 1), lambda x: x.tril() if x.ndim > 1 else x, lambda x: x.triu(1) if x.ndim > 1 else x, lambda x: x.rot90(1, [0, 1]) if x.ndim > 1 else x,
        lambda x: x.narrow(axis, begin, length - begin), lambda x: x.squeeze(), lambda x: x.repeat_interleave(2, axis), lambda x: x.repeat(*[2] * x.ndim),
        lambda x: x.movedim(axis, 0), lambda x: x.as_strided((1,), (1,)) if x.numel() else x, lambda x: x[..., None, :].flatten(-2), lambda x: x.diag() if x.ndim == 1 else x,
    ])  # fmt: skip
    return [n], "exact", lambda x: run(x)


@step
def padded(plan):
    n = plan.pick(has_axes(2))
    amounts = [plan.rng.randrange(0, 3) for _ in range(plan.rng.choice([2, 2, 4]))]
    mode = plan.rng.choice(["constant", "constant", "reflect", "replicate", "circular"])
    return [n], "exact", lambda x: F.pad(x, amounts, mode=mode)


@step
def joined(plan):
    n = plan.pick(has_axes(1))
    axis = axis_of(plan, n)
    run = plan.rng.choice([
        lambda x: mt.cat([x, x.flip(axis)], axis), lambda x: mt.stack([x, x * 2, x], axis), lambda x: mt.cat([x[:0], x, x + 1]),
        lambda x: mt.cat([x * 2, x.unsqueeze(0).squeeze(0), -x], axis),
    ])  # fmt: skip
    return [n], "exact", lambda x: run(x)


@step
def parts(plan):
    n = plan.pick(has_axes(1))
    axis = axis_of(plan, n)
    size = plan.rng.randrange(1, 4)
    run = plan.rng.choice(
        [
            lambda x: x.split(max(1, x.shape[axis] // 2), axis),
            lambda x: x.chunk(size, axis),
            lambda x: mt.aminmax(x) if x.numel() else (x, x),
            lambda x: x.tensor_split(2, axis),
        ]
    )
    return [n], "exact" if plan.values[n or 0].exact else "rounded", lambda x: run(x)


@step
def scans(plan):
    n = plan.pick(has_axes(1))
    axis = axis_of(plan, n)
    run = plan.rng.choice([
        lambda x: x.cumsum(axis) * 0.125, lambda x: (x.tanh() + 0.25).cumprod(axis), lambda x: x.logcumsumexp(axis), lambda x: x.diff(dim=axis), lambda x: mt.trapezoid(x, dim=axis) * 0.125,
    ])  # fmt: skip
    return [n], "rounded", lambda x: run(x)


@step
def ordered(plan):
    n = plan.pick(has_axes(1, is_exact))
    if n is None:
        return None
    axis, k = axis_of(plan, n), None
    length = plan.values[n].tensor.shape[axis]
    k = plan.rng.randrange(1, length + 1) if length else 1
    down = plan.rng.random() < 0.5
    run = plan.rng.choice([
        lambda x: x.sort(axis, descending=down, stable=True), lambda x: x.topk(k, axis, largest=down)[0], lambda x: x.argsort(axis, descending=down, stable=True), lambda x: x.max(axis), lambda x: x.min(axis),
        lambda x: x.argmax(axis), lambda x: x.argmin(axis), lambda x: x.median(axis)[0], lambda x: x.kthvalue(k, axis)[0], lambda x: x.cummax(axis), lambda x: x.cummin(axis)[0], lambda x: x.sort(axis)[0],
        lambda x: mt.searchsorted(x.sort(-1)[0], x), lambda x: mt.bucketize(x, mt.tensor([-1.0, 0.0, 0.5], dtype=x.dtype, device=x.device)),
        lambda x: (x > 0).any(axis), lambda x: x.count_nonzero(axis), lambda x: mt.quantile(x, 0.5, dim=axis) if x.dtype in (mt.float32, mt.float64) else x, lambda x: x.msort(),
    ])  # fmt: skip
    return [n], "jumps", lambda x: tuple(run(x)) if isinstance(run(x), tuple) else run(x)


@step
def places(plan):
    n = plan.pick(has_axes(1))
    if n is None:
        return None
    axis = axis_of(plan, n)
    length = plan.values[n].tensor.shape[axis]
    if not length:
        return None
    few = [plan.rng.randrange(length) for _ in range(plan.rng.choice([1, 3, 9, 40]))]
    signed = [i - length if plan.rng.random() < 0.3 else i for i in few]
    here = lambda x, values: mt.tensor(values, device=x.device)
    before = (slice(None),) * axis

    def like(x, values):  # places for gather: as many axes as x
        shape = [1] * x.ndim
        shape[axis] = len(values)
        return (
            here(x, values)
            .reshape(shape)
            .expand(*[len(values) if i == axis else m for i, m in enumerate(x.shape)])
        )

    def updates(x):
        return (
            mt.ones(
                [len(few) if i == axis else m for i, m in enumerate(x.shape)], dtype=x.dtype, device=x.device
            )
            * 0.5
        )

    distinct = sorted(set(few))
    run = plan.rng.choice([
        lambda x: x.index_select(axis, here(x, few)), lambda x: x[(*before, here(x, signed))], lambda x: x.gather(axis, like(x, few)),
        lambda x: x.scatter_add(axis, like(x, few), updates(x)), lambda x: x.index_add(axis, here(x, few), updates(x)), lambda x: x.scatter(axis, like(x, distinct), 0.5),
        lambda x: x.index_fill(axis, here(x, few), 0.25), lambda x: x.index_copy(axis, here(x, distinct), updates(x).narrow(axis, 0, len(distinct))), lambda x: mt.take_along_dim(x, like(x, few), axis),
        lambda x: mt.take(x, here(x, few)), lambda x: x.index_put((here(x, [i % x.shape[0] for i in few]),), mt.ones((), dtype=x.dtype, device=x.device), accumulate=True),
        lambda x: F.embedding(here(x, few), x) if x.ndim == 2 and axis == 0 else x.index_select(axis, here(x, few)), lambda x: mt.zeros_like(x).scatter_reduce(axis, like(x, few), updates(x), "sum"),
        lambda x: F.embedding_bag(here(x, few).reshape(1, -1), x, mode="sum") if x.ndim == 2 and axis == 0 else x,
    ])  # fmt: skip
    return [n], "rounded", lambda x: run(x)


@step
def written(plan):
    n = plan.pick(has_axes(1, lambda k: k.tensor.dtype != mt.bool))
    if n is None:
        return None
    axis = axis_of(plan, n)
    before = (slice(None),) * axis

    def at(key):
        def run(x):
            y = x.clone()
            y[(*before, key)] = 2
            return y

        return run

    def added(x):
        y = x * 1
        y += 1
        y[..., 0] *= 2
        return y

    def through_a_view(x):
        y = x.clone()
        z = y.transpose(0, -1)
        z[0] = 3
        return y + z.transpose(0, -1)

    def filled(x):
        y = x.clone()
        y.reshape(-1)[: x.numel() // 2].fill_(1)
        y.flip(0)
        return y

    def masked(x):
        y = x.clone()
        y[y > 0.25] = -1
        return y

    def copied(x):
        y = mt.zeros_like(x)
        y.copy_(x)
        y.add_(x).mul_(2)
        return y

    run = plan.rng.choice(
        [at(slice(1, None)), at(slice(None, None, 2)), at(0), added, through_a_view, filled, copied, masked]
    )
    kind = "jumps" if run is masked else "exact"
    return [n], kind, run


@step
def product(plan):
    a = plan.pick(has_axes(1))
    if a is None:
        return None
    x = plan.values[a].tensor
    matching = lambda k: (
        is_float(k)
        and k.tensor.dtype == x.dtype
        and k.tensor.ndim >= 1
        and x.shape[-1] in k.tensor.shape[-2:]
    )

    def run(x, y):
        if y.ndim > 1 and y.shape[-2] != x.shape[-1]:
            y = y.transpose(-1, -2)
        return (x @ y) * 0.0625

    return [a, plan.pick(matching)], "rounded", run


@step
def gram(plan):
    n = plan.pick(has_axes(2))
    run = plan.rng.choice([
        lambda x: x @ x.transpose(-1, -2) * 0.0625, lambda x: x.transpose(-1, -2) @ x * 0.0625, lambda x: mt.einsum("...ij,...kj->...ik", x, x.tanh()) * 0.125,
        lambda x: F.linear(x, x.reshape(-1, x.shape[-1])[:5], None) * 0.125, lambda x: mt.outer(x.reshape(-1)[:33], x.reshape(-1)[:127]), lambda x: mt.einsum("...ij->...i", x) * 0.25,
        lambda x: mt.tensordot(x, x, dims=1) * 0.0625, lambda x: mt.bmm(x, x.transpose(1, 2)) * 0.0625, lambda x: mt.cdist(x + 0.0625, x.flip(-2) * 2),
        lambda x: mt.addmm(mt.ones(x.shape[0], device=x.device, dtype=x.dtype), x, x.t()) * 0.0625, lambda x: F.bilinear(x, x, mt.ones(3, x.shape[-1], x.shape[-1], device=x.device, dtype=x.dtype)) * 0.01,
        lambda x: mt.kron(x, mt.ones(2, 2, device=x.device, dtype=x.dtype)), lambda x: (x.transpose(-1, -2) * 0.5) @ x.tanh() * 0.25,
        lambda x: F.scaled_dot_product_attention(x, x, x), lambda x: F.scaled_dot_product_attention(x, x.tanh(), x, is_causal=True),
    ])  # fmt: skip
    return [n], "rounded", lambda x: run(x)


@step
def convolution(plan):
    n = plan.pick(lambda k: is_float(k) and 2 <= k.tensor.ndim <= 5 and k.tensor.numel())
    if n is None:
        return None
    x = plan.values[n].tensor
    shape = (1, *x.shape) if x.ndim == 2 else tuple(x.shape)
    channels, space = shape[1], shape[2:]
    rank = len(space)
    groups = plan.rng.choice([g for g in (1, 1, 2, 3, channels) if channels % g == 0])
    out = groups * plan.rng.randrange(1, 4)
    size = [plan.rng.choice([1, 2, 3]) for _ in space]
    stride, padding, dilation = (
        [plan.rng.choice(c) for _ in space] for c in ([1, 1, 2, 3], [0, 0, 1, 2], [1, 1, 2])
    )
    turned = plan.rng.random() < 0.25
    bias = plan.rng.random() < 0.5
    weight_shape = (channels, out // groups, *size) if turned else (out, channels // groups, *size)
    weight = np.random.default_rng([plan.seed, n]).integers(-4, 5, weight_shape) / 16
    name = f"conv_transpose{rank}d" if turned else f"conv{rank}d"
    function = getattr(F, name)
    more = {} if turned else {"padding": padding}

    def run(x):
        w = mt.tensor(weight, dtype=x.dtype, device=x.device)
        b = mt.ones(out, dtype=x.dtype, device=x.device) if bias else None
        y = x.reshape(shape)
        # (The gradient of filters too: they are made of the input.)
        w = w * (1 + y.mean() * 0.125)
        return function(y, w, b, stride=stride, groups=groups, dilation=dilation, **more)

    return [n], "rounded", run


@step
def pooling(plan):
    n = plan.pick(lambda k: is_exact(k) and 3 <= k.tensor.ndim <= 5)
    if n is None:
        return None
    rank = plan.values[n].tensor.ndim - 2
    size, stride, padding = (plan.rng.choice(c) for c in ([1, 2, 3], [1, 2, 3], [0, 0, 1]))
    kind = plan.rng.choice(
        ["max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool", "lp_pool", "max indices"]
    )
    wanted = plan.rng.randrange(1, 4)
    if kind == "max indices":
        return (
            [n],
            "jumps",
            lambda x: getattr(F, f"max_pool{rank}d")(x, size, stride, padding, return_indices=True),
        )
    if kind.startswith("adaptive"):
        return [n], "jumps", lambda x: getattr(F, f"{kind}{rank}d")(x, wanted)
    if kind == "lp_pool":
        return [n], "rounded", lambda x: getattr(F, f"lp_pool{rank}d")(x.abs() + 1, 2, size, stride)
    ceil = plan.rng.random() < 0.3
    return (
        [n],
        "rounded" if kind == "avg_pool" else "jumps",
        lambda x: getattr(F, f"{kind}{rank}d")(x, size, stride, padding, ceil_mode=ceil),
    )


@step
def images(plan):
    n = plan.pick(lambda k: is_float(k) and k.tensor.ndim == 4 and k.tensor.numel())
    run = plan.rng.choice([
        lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), lambda x: F.interpolate(x, size=(5, 4), mode="bilinear", align_corners=False),
        lambda x: F.unfold(x, 2), lambda x: F.pixel_shuffle(x, 1), lambda x: F.interpolate(x, size=(3, 3), mode="bicubic", align_corners=True), lambda x: F.fold(F.unfold(x, 2, padding=1), x.shape[-2:], 2, padding=1) * 0.25,
        lambda x: F.pixel_unshuffle(x, 1),
    ])  # fmt: skip
    return [n], "rounded", lambda x: run(x)


@step
def autocast(plan):
    n = plan.pick(has_axes(2, is_wide))
    dtype = plan.rng.choice([mt.bfloat16, mt.float16])

    def run(x):
        with mt.autocast(x.device.type, dtype=dtype):
            return (x @ x.transpose(-1, -2)) * 0.0625

    return [n], "rounded", run


@step
def linear_algebra(plan):
    n = plan.pick(
        lambda k: (
            is_wide(k)
            and k.tensor.ndim >= 2
            and k.tensor.shape[-1] == k.tensor.shape[-2]
            and k.tensor.numel()
        )
    )
    eye = lambda x: mt.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    positive = lambda x: x.tanh() @ x.tanh().transpose(-1, -2) + eye(x) * x.shape[-1]
    run = plan.rng.choice([
        lambda x: mt.linalg.inv(positive(x)), lambda x: mt.linalg.cholesky(positive(x)), lambda x: mt.linalg.solve(positive(x), x), lambda x: mt.linalg.slogdet(positive(x))[1], lambda x: mt.trace(x) if x.ndim == 2 else x,
    ])  # fmt: skip
    return [n], "rounded", lambda x: run(x)


NAMES = [
    *sorted(STEPS),
    "smooth",
    "binary",
    "views",
    "views",
    "reduction",
    "places",
    "convolution",
    "product",
    "chosen",
    "ordered",
    "written",
]

# --- running them -----------------------------------------------------------------------------------------------------


def outcome(function, arguments):
    """What a function gives: numbers, and gradients of its arguments; or the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loss, outputs = function(*arguments)
            if loss.requires_grad:
                loss.backward()
            found = [loss, *outputs, *[a.grad if a.requires_grad else None for a in arguments]]
            return [None if t is None else np.array(on_host(getattr(t, "_data", t))) for t in found], ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}", traceback.format_exc()


def apart(mine, other, eps):
    """How two arrays differ, in words; '' if by rounding alone."""
    if (mine is None) != (other is None):
        return f"{'none' if mine is None else 'one'} instead of {'none' if other is None else 'one'}"
    if mine is None:
        return ""
    if mine.shape != other.shape or mine.dtype != other.dtype:
        return f"{mine.dtype}{list(mine.shape)} instead of {other.dtype}{list(other.shape)}"
    if other.dtype.kind not in "fcV":
        wrong = mine != other
        return (
            f"{int(wrong.sum())} of {wrong.size} differ, first at {np.argwhere(wrong)[0].tolist()}"
            if wrong.any()
            else ""
        )
    wide = np.complex128 if other.dtype.kind == "c" else np.float64
    mine, other = mine.astype(wide), other.astype(wide)
    scale = np.abs(other[np.isfinite(other)]).max(initial=0.0)
    tolerance = max(eps, 1e-16) * (SLACK if eps < 1e-4 else SLACK_OF_HALVES)
    close = np.isclose(mine, other, rtol=tolerance, atol=tolerance * max(scale, 1e-2), equal_nan=True)
    if close.all():
        return ""
    at = tuple(np.argwhere(~close)[0])
    return f"{int((~close).sum())} of {close.size} differ, first at {[int(i) for i in at]}: {mine[at]} instead of {other[at]}, largest {scale:.3g}"


def differences(seed, device="cuda", ways=("eager", "compiled"), calls=5):
    """Yield where a program's runs on the device differ from the one here."""
    plan = Plan(seed)
    if not plan.steps:
        return
    rough = max(k.eps for k in plan.values)
    if any(name in ("convolution",) for name, _, _ in plan.steps) and rough < 1e-3:
        rough = max(rough, 1e-6)
    if any(name in ("autocast",) for name, _, _ in plan.steps):
        rough = max(rough, 8e-3)
    names = [
        "loss",
        *[f"output {n}" for n in plan.outputs],
        *[f"gradient {i}" for i in range(len(plan.inputs))],
    ]
    function = plan.forward if plan.outside else plan.step_of_training
    expected = [outcome(function, plan.arguments(call, "cpu")) for call in range(calls)]
    for way in ways:
        run = function
        if way == "compiled":
            run = mt.compile(function, verify=plan.checks)
        for call in range(calls):
            with mt.device(device):
                got = outcome(run, plan.arguments(call, device))
            want = expected[call]
            where = f"seed {seed} {way}{'' if way == 'eager' else ' verified' if plan.checks else ' unverified'} call {call}{' outside' if plan.outside else ''}"
            if got[0] is None or want[0] is None:
                if bool(got[1]) != bool(want[1]) or got[1].partition(":")[0] != want[1].partition(":")[0]:
                    yield (
                        f"{where}: {got[1] or 'went well'!r}, here {want[1] or 'went well'!r}\n    {plan.words()}",
                        got[-1],
                    )
                    break
                continue
            eps = [rough, *[plan.values[n].eps for n in plan.outputs], *[rough] * len(plan.inputs)]
            said = [
                f"{name}: {a}"
                for name, m, o, e in zip(names, got[0], want[0], eps, strict=True)
                if (a := apart(m, o, max(e, 1e-6 if rough == 1e-6 else 0)))
            ]
            if said:
                yield f"{where}: {'; '.join(said[:3])}\n    {plan.words()}", ""
                break
        if way == "compiled" and not run.compilations:
            global refused
            refused += 1


refused = 0


@contextlib.contextmanager
def standin():
    """The GPU that does not exist, with kernels for eager ops too."""
    import pytest

    import standin_gpu
    from minitorch.compiler.call import eager_backend
    from minitorch.ops import native
    from minitorch.ops.op import OPS
    from standin import DeviceArray
    from standin_kernels import StandinLauncher

    with pytest.MonkeyPatch.context() as patch:
        standin_gpu.installed(patch)
        eager_backend.use(StandinLauncher())
        patch.setattr(eager_backend, "CALLS", 2)
        enabled = mt.are_native_ops_enabled()
        native.meet(DeviceArray)
        mt.set_native_ops(True)
        for op in OPS.values():
            op.open_to_devices()
        try:
            yield
        finally:
            native.forget(DeviceArray)
            mt.set_native_ops(enabled)
            eager_backend.forget()


def work(job):
    first, count, every, pretend, seconds, ways = job
    began, done, found = time.monotonic(), 0, []
    warnings.simplefilter("ignore", CompileWarning)
    with standin() if pretend else contextlib.nullcontext():
        for seed in range(first, first + count * every, every):
            if time.monotonic() - began > seconds:
                break
            try:
                for said, trace in differences(seed, ways=ways):
                    found.append(said)
                    print(
                        said,
                        *(["    " + "\n    ".join(trace.splitlines()[-7:])] if trace else []),
                        flush=True,
                    )
            except Exception:
                print(f"seed {seed}: the check itself failed", traceback.format_exc(), flush=True)
                found.append(f"seed {seed}")
            done += 1
    return done, len(found), refused


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10**6)
    parser.add_argument("--from", type=int, default=0, dest="start")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--standin", action="store_true")
    parser.add_argument("--ways", default="eager,compiled")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    ways = options.ways.split(",")
    if options.seed is not None:
        print(Plan(options.seed).words())
        print(work((options.seed, 1, 1, options.standin, 1e9, ways)))
        return
    every = options.processes
    jobs = [
        (options.start + i, -(-options.count // every), every, options.standin, options.seconds, ways)
        for i in range(every)
    ]
    if every == 1:
        results = [work(jobs[0])]
    else:
        with multiprocessing.get_context("spawn").Pool(every) as pool:
            results = pool.map(work, jobs)
    done, differ, eagerly = (sum(column) for column in zip(*results, strict=True))
    print(f"{done} programs, {differ} differences, {eagerly} not compiled")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
