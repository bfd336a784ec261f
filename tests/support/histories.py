"""Histories: random programs with changes between the calls, run compiled and by an eager twin.

Enters: a seed. Leaves: a program as source text (a world of modules, containers, optimisers and closures; a function over
them; calls of it with changes in between), and where its compiled run differs from the eager one: in results, errors,
printed text, Tensors, gradients, optimisers' state, Python's objects, the random stream.

    python -m histories --count 20000        runs many, on all cores, and goes on where it was stopped
    python -m histories --seed 12            shows one, and what differs, shrunk
    python -m histories --backend cuda       runs them compiled on a GPU, and their eager twins here
"""

import argparse
import collections
import contextlib
import io
import json
import linecache
import math
import multiprocessing
import random
import re
import sys
import time
import types
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import minitorch as mt
from compiled import BACKENDS
from minitorch import nn, optim
from minitorch.compiler.call.function import CompiledFunction
from minitorch.compiler.call.module import CompiledModule
from minitorch.engine.versions import synced

# --- the world of a program ---------------------------------------------------------------------------------

IMPORTS = """\
import collections, copy, dataclasses, functools, itertools, logging, math, random
import numpy as np
import minitorch as mt
from minitorch import nn, optim
from minitorch.nn import functional as F"""

# Each piece can be left out when a program is shrunk; {…} is chosen at random.
ODD = """class Odd(dict):
    def __missing__(self, key):
        return 0.5
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self.get(name, 0.25)"""
WALK = """class Walk:
    def __init__(self):
        self.parts, self.depth = [0.5, 0.75], 0
    def __iter__(self):
        return iter(self.parts)
    def __getitem__(self, i):
        return self.parts[i]
    def __enter__(self):
        self.depth += 1
        return self
    def __exit__(self, *error):
        self.depth -= 1
    @classmethod
    def of(cls, k):
        return k * 2
    @staticmethod
    def twice(h):
        return h * 2"""
WORLD = [
    'Pair = collections.namedtuple("Pair", ["v", "k"])',
    """@dataclasses.dataclass
class Conf:
    scale: float = 1.5
    name: str = "a"
    flag: bool = True
    count: int = 0
    widths: list = dataclasses.field(default_factory=lambda: [1, 2])""",
    """@dataclasses.dataclass
class Batch:
    u: object
    k: float = 0.5""",
    """class Box:
    kind = "box"
    def __init__(self):
        self.k, self.count, self.last, self.history = 0.5, 0, None, []
        self.t, self.fn = mt.full((4,), 0.3), mt.tanh
    def bump(self, by=1):
        self.count += by
        return self.count""",
    """class OtherBox(Box):
    kind = "other"
    def bump(self, by=1):
        self.count += 2 * by
        return self.count""",
    """class Slot:
    __slots__ = ("v", "t", "n")
    def __init__(self):
        self.v, self.t, self.n = 0.25, mt.full((4,), 0.2), 1""",
    """class Prop:
    def __init__(self):
        self._v = 0.75
    @property
    def v(self):
        return self._v * 2
    @v.setter
    def v(self, new):
        self._v = new / 2
    def __len__(self):
        return 3
    def __call__(self, h):
        return h * self._v""",
    """class Block(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.lin, self.k = nn.Linear(4, 4), k
    def forward(self, h):
        return mt.tanh(self.lin(h)) * self.k + h * 0.5""",
    "class Doubled(Block):\n    def forward(self, h):\n        return super().forward(h) * 2",
    """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.act, self.scale, self.mode = nn.Linear(4, 4), nn.Tanh(), 1.5, "plain"
        self.steps, self.seen = 0, []
        self.register_buffer("shift", mt.full((4,), 0.1))
        self.register_buffer("runs", mt.zeros(1))
        self.branches = nn.ModuleDict({{"a": nn.Linear(4, 4), "b": nn.Tanh()}})
        self.parts = nn.ModuleList([Block(0.5), Block(0.25)])
    def forward(self, h):
        {forward}
        return h""",
    "net, lin, ln, bn = Net(), nn.Linear(4, 4), nn.LayerNorm(4), nn.BatchNorm1d(4)",
    "drop, act = nn.Dropout({rate}), mt.tanh",
    'blocks = nn.ModuleList([Block(0.5), nn.Tanh(), Block(0.75)]); seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU())',
    'table_m = nn.ModuleDict({{"a": nn.Linear(4, 4), "b": nn.Sigmoid(), "c": Block(0.5)}})',
    "w_vec = nn.Parameter(mt.full((4,), 0.5)); w_mat = nn.Parameter(mt.randn(4, 4) * 0.5)",
    "b_vec = mt.full((4,), 0.2); g_vec = mt.full((4,), 0.4, requires_grad=True)",
    "a_vec = np.array([0.1, 0.2, 0.3, 0.4], np.float32); a_int = np.array([1, 0, 3, 2])",
    "a_mat = np.arange(12, dtype=np.float32).reshape(3, 4) / 10",
    "box, other, slot, prop, conf = Box(), OtherBox(), Slot(), Prop(), Conf()",
    'nums, names, log, tens = [0.5, 1.5], ["a", "b"], [], [mt.full((4,), 0.6), mt.full((4,), 0.7)]',
    'table = {{"a": 0.5, "b": 1.25}}; table_t = {{"u": mt.full((4,), 0.3), "w": mt.full((4,), 0.1)}}',
    'nest = {{"inner": {{"k": 0.5, "t": mt.ones(4)}}, "list": [1, [2.0, 0.5]]}}; stats = collections.defaultdict(int)',
    "pair, tail, seen, gen = Pair(mt.full((4,), 0.3), 0.5), collections.deque(maxlen=3), set(), mt.Generator().manual_seed(3)",
    "order = collections.OrderedDict(p=0.5, q=0.75); total, level, flag, word = 0, 0.5, True, 'a'",
    "xs = [mt.randn(3, 4), mt.randn(3, 4), mt.randn(4, 4)]; kept = mt.randn(3, 4); leaf = mt.randn(3, 4, requires_grad=True)",
    ODD,
    WALK,
    "odd, walk, held = Odd(a=0.5), Walk(), Batch(mt.full((4,), 0.35), 0.5)",
    'table_f = {{"a": mt.tanh, "b": lambda h: h * level}}',
    "def u_of(batch):\n    return batch['u'] if isinstance(batch, dict) else batch.u if isinstance(batch, Batch) else batch[0]",
    "@functools.lru_cache\ndef squared(k):\n    return k * k",
    "def pieces(h):\n    for v in nums:\n        yield h * v",
    "def depth(h, n):\n    return h if n <= 0 else depth(h * 0.9 + level * 0.1, n - 1)",
    "def helper(h, by=0.5, *, plus=0.1):\n    return h * by + plus",
    "def scaled(h):\n    return h * level",
    "half = functools.partial(helper, by=0.25)",
    "inner = compile(lambda h: h * level + 0.1); net_c = compile(Block(0.5))",
    "def first(thing):\n"
    "    if isinstance(thing, mt.Tensor):\n        return thing if thing.requires_grad else None\n"
    "    parts = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, tuple)) else ()\n"
    "    return next((found for found in map(first, parts) if found is not None), None)",
    "params = [*net.parameters(), *lin.parameters(), w_vec, w_mat]",
    "opt = {optimizer}",
    "sched = {scheduler}",
]  # fmt: skip

FORWARD = [
    "h = self.act(self.inner(h)) * self.scale + self.shift",
    'h = self.inner(h) if self.mode == "plain" else h * 0.5',
    "for name, branch in self.branches.items():\n            h = h + branch(h) * (0.5 if name == 'a' else 0.25)",
    "for part in self.parts:\n            h = part(h)",
    "h = h + getattr(self, 'noise', 0.0)",
    "if self.training:\n            h = h * 0.9",
    "self.steps += 1",
    "self.runs += 1",
    "self.last = h.detach()",
    "h = h * (1 + 0.1 * self.steps)",
    "self.seen.append(h.shape[0])",
    "h = F.dropout(h, 0.3, self.training)",
    "h = self.parts[-1](h) + self.branches['a'](h)",
    "with mt.no_grad():\n            self.shift.mul_(0.9).add_(0.01)",
    "h = h * len(self.parts)",
]

OPTIMIZERS = [
    "optim.SGD(params, lr=0.05)",
    "optim.SGD(params, lr=0.05, momentum=0.9, weight_decay=0.01)",
    "optim.Adam(params, lr=0.02)",
    "optim.AdamW(params, lr=0.02, weight_decay=0.1)",
    'optim.SGD([{"params": params[:2], "lr": 0.1}, {"params": params[2:]}], lr=0.03)',
    "optim.RMSprop(params, lr=0.01)",
]
SCHEDULERS = [
    "optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.5)",
    "optim.lr_scheduler.CosineAnnealingLR(opt, T_max=5)",
    "optim.lr_scheduler.ExponentialLR(opt, gamma=0.8)",
    "optim.lr_scheduler.LambdaLR(opt, lambda epoch: 1 / (1 + epoch))",
]

# --- what the function is made of -------------------------------------------------------------------------------
# §name is a name of the function's own surroundings: a closure's, a global, or an attribute of self.

NUMBERS = [
    "§gain", "level", "conf.scale", "box.k", 'table["a"]', "nums[0]", "nums[-1]", "slot.v", "prop.v", "pair.k",
    'nest["inner"]["k"]', 'nest["list"][1][0]', 'order["q"]', "len(nums)", "len(log)", "len(table)", "len(prop)",
    'getattr(box, "extra", 0.5)', 'table.get("z", 0.25)', "sum(nums)", "max(nums)", "n", "t", 'opt.param_groups[0]["lr"]',
    "net.scale", "drop.p", "math.pi / 3", "h.shape[0]", "x.ndim", "float(flag)", "box.count", "conf.count", "total",
    "a_vec.shape[0]", "round(level, 1)", "§calls", "abs(nums[0])", "int(t * 2)", "sum(v for v in table.values())", "min(n, 2)",
    'stats["hits"]', "len(names[0])", "box.bump.__defaults__[0]", "helper.__kwdefaults__['plus']", "len(tens)", "a_mat.size",
    "float(a_vec[1])", "x.shape[-1] / 4", "len(seen)", "len(options)", "float(a_vec.sum())", "Box.kind == box.kind", "bn.eps",
    "len(box.history)", "sched.last_epoch", "len(list(net.parameters())) / 10", "int(w_vec.requires_grad)", "slot.n",
]  # fmt: skip
TENSORS = [
    "§bias", "w_vec", "b_vec", "g_vec", "box.t", 'table_t["u"]', "tens[0]", "tens[-1]", "pair.v", "a_vec", "mt.tensor(a_vec)",
    "net.shift", "slot.t", 'nest["inner"]["t"]', "mt.from_numpy(a_vec)", "w_mat[0]", "sum(tens)", "mt.stack(tens).mean(0)",
    "lin.bias", "w_vec.detach()", "h.mean(0)", "mt.as_tensor(a_vec)", "sum(table_t.values())", "y.mean(0)", "w_mat.diagonal()",
    "next(iter(table_t.values()))", "x.detach().mean(0)", "y[0]", "mt.tensor(nums).mean()", "w_vec.data", "b_vec[a_int]",
    "(extra if extra is not None else b_vec)", "options.get('bias', b_vec)", "net.inner.bias", "mt.tensor(a_mat).mean(0)",
]  # fmt: skip
LAYERS = [
    "inner", "net_c",
    "net", "lin", "ln", "bn", "drop", "act", "seq", "blocks[0]", "blocks[-1]", 'table_m["a"]', "box.fn", "helper", "half", "scaled",
    "prop", "net.inner", "F.relu", "mt.sigmoid", "blocks[2].lin", "(lambda v: v * §gain)", "net.act", "§layer", "table_m[word]",
]  # fmt: skip
QUESTIONS = [
    "flag", "conf.flag", '"a" in table', '"z" in table', "isinstance(x, mt.Tensor)", "x is y", "x is kept", "y is xs[0]", "len(nums) > 2",
    'hasattr(box, "extra")', "net.training", "n > 1", "t > 0.4", 'name == "a"', "word == conf.name", "nums is box.history", "not log",
    "x.requires_grad", "x.grad is None", "w_vec.grad is None", "x.shape[0] == 3", "type(box) is Box", "callable(act)", "bn.training",
    "isinstance(box, OtherBox)", "box.last is None", "box.kind == 'box'", "w_vec.requires_grad", "extra is None", "extra is b_vec",
    "len(blocks) == 3", "'mode' in vars(net)", "isinstance(net.act, nn.Tanh)", "any(v > 1 for v in nums)", "all(names)",
    "nums == [0.5, 1.5]", "table['a'] < level", "x in xs", "sorted(table)[0] == 'a'", "h.dtype == mt.float32", "n in (1, 2)",
    "names.count('a') == 1", "a_vec.dtype == np.float32", "0 < level < 1", "box is other", "tens[0] is tens[1]", "seen",
    "list(table) == ['a', 'b']", "x.is_leaf", "net is §layer", "n in seen", "'a' in table_m", "mt.is_grad_enabled()",
]  # fmt: skip
STEPS = [
    "h = h * {number}", "h = h + {tensor}", "h = h * {tensor}", "h = {layer}(h)", "h = {layer}(h) + {layer}(h)", "h = mt.tanh(h + {number})",
    "h = h - {number} * {tensor}", "h = h @ w_mat", "h = F.linear(h, w_mat, {tensor})", "h = mt.relu(h) + y.mean(0) * 0.1", "h = h.clamp(-3, 3)",
    "h = mt.where(h > {number}, h, h * 0.5)", "h = mt.cat([h, y])[: h.shape[0]]", "h = h.reshape(-1).view(-1, 4)", "h = h[:, [1, 0, 3, 2]]",
    "h = h[:, a_int]", "h = mt.softmax(h, -1) * {number}", "h = h.t().contiguous().t()", "h = h / (1 + h.abs().mean())",
    # choices, loops, errors
    "if {question}:\n    h = h * 0.75\nelse:\n    h = h + 0.25", "if {question}:\n    {step}", "if {question} and {question}:\n    {step}",
    "h = h * 0.5 if {question} else h + {tensor}", "h = h * (1 + {question})", "for v in nums:\n    h = h * v", "h = h + sum(v for v in nums)",
    "for key, v in table.items():\n    h = h * v if key != 'z' else h + v", "for key in sorted(table_t):\n    h = h + table_t[key] * 0.5",
    "for i, block in enumerate(blocks):\n    h = block(h) + i * 0.1", "for key, layer in table_m.items():\n    h = layer(h) * 0.5 + h * 0.5",
    "for v, u in zip(nums, tens):\n    h = h + v * u", "for key in table_m:\n    h = h + len(key) * 0.1", "h = h + mt.stack([u * 0.5 for u in tens]).sum(0)",
    "i = 0\nwhile i < n:\n    i += 1\n    h = mt.tanh(h) + 0.1 * i", "for key, v in order.items():\n    h = h * v + (0.1 if key == 'p' else 0.2)",
    "try:\n    h = h * table['z']\nexcept KeyError:\n    h = h * 0.8", "try:\n    h = h * box.extra\nexcept AttributeError:\n    h = h + 0.3",
    "try:\n    h = h * nums[2]\nexcept IndexError:\n    h = h * 1.1",
    "try:\n    {step}\nfinally:\n    {effect}",
    "for u in tens[1:]:\n    h = h + u", "first_one, *others = nums\nh = h * first_one + len(others)", "h = functools.reduce(lambda a, b: a + b, tens, h)",
    "for p in net.parameters():\n    h = h + p.mean() * 0.1", "for key, p in net.named_parameters():\n    h = h + p.sum() * (0.01 if 'bias' in key else 0.02)",
    "def inside(v, k={number}):\n    return v * k\nh = inside(h)", "h = [v * 2 for v in (h, y)][0]", "parts = {{'h': h, 'k': {number}}}\nh = parts['h'] * parts['k']",
    "with mt.no_grad():\n    {effect}\n    h = h + {tensor}.sum() * 0.1", "h = box.fn(h) if callable(box.fn) else h", "batch = Batch(h, {number})\nh = batch.u * batch.k",
    "q = Pair(h, {number})\nh = q.v * q.k", "z = Box()\nz.k = {number}\nh = h * z.k + z.bump()", "h = h * {{'a': 0.5, 'b': 2.0}}[word]",
    "h = h * box.bump()", "h = h * getattr(w_vec, 'tag', 0.5)", "h = h + mt.full((4,), {number})", "h = h.expand(h.shape[0], 4)", "h = mt.tensor(h.shape[0] * 1.0) * h",
    "h = h * odd['a'] + odd.b", "h = h * odd['q']", "for v in walk:\n    h = h * v", "h = h * walk[0] + len(walk.parts)", "with walk:\n    h = h * walk.depth", "h = walk.twice(h) * Walk.of(0.5)",
    "h = table_f[word](h)", "if 'batch' in options:\n    h = h + u_of(options['batch'])", "h = h * squared({number})", "for part in pieces(h):\n    h = h + part * 0.1", "h = depth(h, n)",
    "h = sum(pieces(h)) / 2", "h = h + max(table.values(), key=lambda v: -v)", "h = h * sum(map(lambda v: v * 0.5, nums))", "h = h + len([v for v in nums if v > 0.6])", "h = h * sorted(nums, reverse=True)[0]",
    "if (size := len(nums)) > 1:\n    h = h * size * 0.3", "(p, q), r = (nums[0], nums[1]), level\nh = h * p + q * r", "h = h + sum(a * b for a, b in zip(nums, nums[1:]))", "assert flag in (True, False)\nh = h * 1.1",
    "h = h + {{k: v * 2 for k, v in table.items()}}['a']", "h = h * (level or 1)", "h = h + float('0.5') * int('1')", "k = dict(table, c=1.0)\nh = h * k['c'] + k['a']", "k = [*nums, {number}]\nh = h * k[-1]",
    "try:\n    raise KeyError(name)\nexcept (KeyError, ValueError) as error:\n    h = h + len(error.args)", "for i in range(len(blocks)):\n    h = blocks[i](h)\n    if i >= n:\n        break\nelse:\n    h = h + 1",
    "import math as maths\nh = h * maths.sqrt(0.5)", "h = h + (lambda: {number})()", "h = getattr(mt, 'tanh')(h)", "h = h + sum(p.numel() for p in net.parameters()) * 0.01", "h = h * len(net.state_dict()) * 0.1",
    "with walk as w:\n    h = h + w.parts[-1]", "h = h if not isinstance(extra, mt.Tensor) else h + extra", "if x.requires_grad and x.grad is not None:\n    h = h + x.grad.mean()", "h = h + mt.tensor(x.shape).sum() * 0.1",
    # writes
    "x.data[0] = 0.5", "y.mul_(0.9)", "y[0] = 0.25", "kept.add_(0.1)", "xs[0].mul_(0.95)", "kept[0] = h.detach()[0]", "h = h * 1.0\nh.data[0] = 0.1", "walk.parts[0] = {number}", "held.u = held.u * 0.9", "a = mt.zeros(4)\na[:] = {tensor}.detach()\nh = h + a",
    "h = h.clone()\nh[0] = {number}", "h = h * 1\nh += {tensor}", "h = h * 1.0\nh.mul_({number})", "h = h.clone()\nh[:, 1] += y[0, 0]",
    "h = h.clone()\nview = h[:, :2]\nview.mul_(0.5)\nh = h + view.sum()", "b_vec.mul_(0.9)", "b_vec[0] = {number}", "tens[0].add_(0.1)", "net.shift.add_(0.01)",
    "with mt.no_grad():\n    w_vec.mul_(0.99)", "w_vec.data.mul_(0.98)", "w_vec.data -= 0.01 * b_vec.data", "y = y * 2",
    # randomness
    "h = h + mt.rand(4)", "h = h + mt.randn_like(h) * 0.1", "h = F.dropout(h, {rate}, net.training)", "h = h * mt.bernoulli(mt.full((4,), 0.5))",
    "h = h + mt.rand(4, generator=gen)", "h = h[mt.randperm(h.shape[0])]", "h = h + mt.randint(0, 3, (4,)) * 0.1", "h = h + mt.empty(4).uniform_(-1, 1)",
    "h = h + mt.empty(4).normal_(0, {rate})",
]  # fmt: skip
# What is refused, or keeps a call eager, is tried too, but not often.
RARE_STEPS = [
    "h = h.clone()\nh[h > 1] = 0.5",
    "h = h + random.random()",
    "mt.manual_seed(n)",
    "try:\n    h = h + mt.ones(5)\nexcept RuntimeError:\n    h = h * 0.7",
    "try:\n    h = h * float(h.sum() * 0 + 1)\nexcept Exception:\n    h = h * 0",
    "box.t = box.t * 0.9 + {number}",
]  # fmt: skip
RARE_EFFECTS = [
    "flag = not flag",
    "table_t['x'] = x.detach().mean(0)",
    "box.history = [*box.history, n]",
    "nums.reverse()",
]
EFFECTS = [
    "odd['n'] = n", "walk.parts.append({number})", "held.k = {number}", "out = {{'v': h.detach(), 'n': n}}\nbox.fresh = out\nlog.append(out)", "box.pair = Pair(h.detach(), n)", "box.batch = Batch(h.detach(), t)",
    "nest['new'] = {{'deep': [n, h.detach().sum()]}}", "box.history += [n]", "names[0] = name", "table['a'] *= 0.9", "box.cb = helper", "box.other = other", "stats.update(n=n)", "del names[1:]", "names[:] = [name]", "walk.depth = n",
    "§calls += 1", "box.count += 1", "log.append({number})", "log.append(h.detach().sum())", "table['last'] = 1.5", "table_t['w'] = h.detach().mean(0)",
    "box.last = h.detach()", "stats['hits'] += 1", "stats[name] += n", "seen.add(n)", "print('step', n, name)", "print(f'{{level:.2f}} {{h.detach().sum().item():.1f}}')",
    "total += n", "setattr(box, 'k2', {number})", "tens[0] = h.detach().mean(0)", "nums[0] = nums[0] * 0.9", "tail.append(n)", "tail.append(h.detach().mean())",
    "box.history.append({number})", "table.setdefault('s', 0.5)", "table.pop('s', None)", "conf.count += 1", "slot.n += 1",
    "slot.t = h.detach().mean(0)", "prop.v = {number}", "box.bump()", "other.bump(n)", "level = {number}", "net.steps += 1", "nest['inner']['k'] = {number}",
    "nest['list'].append(n)", "log.extend([n, t])", "log.insert(0, n)", "names.append(name)", "print(len(log), flag)", "order['p'] = {number}", "table.update(b={number})",
    "drop.p = 0.25", "conf.name = name", "box.fresh = {{'loss': h.detach().mean(), 'n': n}}", "stats['sum'] = stats.get('sum', 0) + {number}", "box.best = max(box.count, n)",
    "log.append((n, h.detach()[0]))", "log.append({{'n': n, 'v': h.detach().mean()}})", "nums.append(0.5) if len(nums) < 4 else None", "if 'last' in table:\n    del table['last']", "if hasattr(box, 'k2'):\n    del box.k2",
    "helper.calls = getattr(helper, 'calls', 0) + 1", "Box.kind = 'box'", "box.__dict__['k3'] = n", "tail.clear()", "log.clear()", "seen.discard(n)",
    "word = name", "log.append(float(h.detach().sum()))", "box.mean = h.detach().mean().item()", "log.append(x)", "box.last = x",
    "print(h.shape, conf.name)", "box.text = f'{{n}}-{{name}}'", "log.append(str(n))", "net.last = h.detach()",
]  # fmt: skip
LOSSES = [
    "loss = (h ** 2).mean()", "loss = F.mse_loss(h.mean(0), y.mean(0))", "loss = F.cross_entropy(h, mt.zeros(h.shape[0], dtype=mt.int64))", "loss = h.tanh().sum() * 0.1",
    "loss = (h ** 2).mean() + (w_vec ** 2).sum() * 0.01", "loss = (h * w_vec).pow(2).mean() + {number} * lin.weight.abs().mean()",
]  # fmt: skip
TRAINING = [
    "opt.zero_grad()\nloss.backward()\nopt.step()", "opt.zero_grad(set_to_none=False)\nloss.backward()\nopt.step()", "loss.backward()\nopt.step()\nopt.zero_grad()",
    "loss.backward()", "opt.zero_grad()\nloss.backward()\nnn.utils.clip_grad_norm_(params, 1.0)\nopt.step()\nsched.step()", "loss.backward()\nopt.step()",
    "opt.zero_grad()\nloss.backward()\nfor p in params:\n    if p.grad is not None:\n        p.grad.mul_(0.5)\nopt.step()",
    "opt.zero_grad()\nloss.backward()\nwith mt.no_grad():\n    for p in params:\n        if p.grad is not None:\n            p -= 0.05 * mt.tensor(p.grad)",
    "(g,) = mt.autograd.grad(loss, [w_vec], allow_unused=True, retain_graph=True)\nbox.g = 0.0 if g is None else g.sum().item()\nloss = loss + 0",
    "opt.zero_grad()\nloss.backward()\nfor group in opt.param_groups:\n    group['lr'] = group['lr'] * 0.9\nopt.step()", "for p in params:\n    p.grad = None\nloss.backward()\nopt.step()",
    "opt.zero_grad()\nloss.backward()\nif w_vec.grad is not None:\n    w_vec.grad.zero_()\nopt.step()", "opt.zero_grad()\nloss.backward()\nopt.step()\nsched.step()",
]  # fmt: skip
RETURNS = [
    "return {{'h': h, 'log': log, 'x': x}}", "return extra, h", "out = [h, n]\nbox.fresh = out\nreturn out", "return (h, (x, [y]))", "return table", "return options.get('batch'), h", "return h.shape, h.dtype, h", "return nest",
    "return h", "return h, n", "return {{'h': h, 'k': {number}}}", "return [h, h * 2]", "return h.sum().item()", "return float(h.sum()), word", "return None",
    "return Pair(h, {number})", "return Batch(h, 0.5)", "return x, h", "return f'{{name}} {{n}}'", "return h.detach(), len(log)", "return {number}", "return h.data",
    "return log, h", "return h, [{number}, (name, None)]", "return h.mean().item() + n", "return h.tolist()", "return box, h", "return h[0], y", "return tens", "return b_vec",
]  # fmt: skip
LOSS_RETURNS = [
    "return loss", "return loss.item()", "return loss.detach(), h.detach()", "return {{'loss': loss.detach(), 'n': n}}", "return float(loss)", "return loss, box.count",
    "return loss.detach(), w_vec.grad", "return None", "return h.detach(), {number}",
]  # fmt: skip

# --- what happens between the calls ---------------------------------------------------------------------------

CHANGES = [
    "F.relu = mt.tanh", "mt.tanh = mt.sigmoid", "nn.Linear.forward = lambda self, h: h * 2", "math.pi = 3.0", "nn.Tanh.forward = lambda self, h: h", "net_c.k = 0.9", "net_c.eval()", "inner = compile(lambda h: h - level)", "level = 0.45",
    "np.sum = np.mean", "optim.SGD.step = lambda self: None", "nn.Dropout.forward = lambda self, h: h * 0.5", "mt.Tensor.tag = 3", "w_vec.tag = 2.0",
    "odd['a'] = 0.9", "odd['q'] = 0.8", "Odd.__missing__ = lambda self, key: 0.75", "walk.parts = [0.25, 0.5, 1.5]", "walk.parts.append(1.1)", "Walk.of = classmethod(lambda cls, k: k * 3)", "Walk.twice = staticmethod(mt.tanh)",
    "Walk.__getitem__ = lambda self, i: 2.0", "Walk.__iter__ = lambda self: iter([0.1])", "held.u = b_vec", "held.u.fill_(0.9)", "held = Batch(w_vec, 0.1)", "table_f['a'] = mt.sigmoid", "table_f = dict(reversed(table_f.items()))", "squared.cache_clear()", "squared(3)",
    "def depth(h, n):\n    return h * n", "def pieces(h):\n    yield h", "Prop.v = property(lambda self: 3.0)", "Box.bump = lambda self, by=1: 5", "box.bump = lambda by=1: 7", "Box.extra = 0.35", "net = copy.deepcopy(net)", "import copy; box = copy.copy(box)",
    "net.inner.weight = lin.weight", "bn.momentum = None", "net.register_buffer('shift', mt.ones(4), persistent=False)", "lin.weight.data = lin.weight.data.T", "w_vec.data = np.full(4, 0.3, np.float32)[::-1]", "w_mat.data = w_mat.data.T.copy().T",
    "held = kept", "a_vec.flags.writeable = False", "table[1] = 2", "nums[0] = nums[-1]", "nums[0] = float('nan')", "level = -0.0", "level = float('inf')", "level = np.float32(0.5)", "level = mt.tensor(0.5)", "box.k = w_vec", "table['a'] = mt.ones(4)", "nums[0] = b_vec",
    "flag = 1", "flag = None", "word = 'c' if word == 'a' else 'a'", "names[0] = ''", "tens[0] = tens[0].double()", "tens[0] = a_vec", "kept.data = kept.data[::-1]", "xs[0].requires_grad_(True)", "leaf.data[0] = 0.5", "leaf.retain_grad()", "w_vec.grad.fill(0.5)",
    "opt.param_groups[0]['lr'] = mt.tensor(0.01)", "opt.param_groups[0]['momentum'] = 0.5", "opt.param_groups[-1]['lr'] *= 2", "opt.defaults['lr'] = 9.0", "sched.base_lrs = [0.5 for _ in sched.base_lrs]", "sched = optim.lr_scheduler.StepLR(opt, 1)",
    "level = 0.9", "level = 2", "level = level + 0.1", "word = 'b'", "conf.scale = 0.7", "conf.flag = False", "conf = Conf(scale=0.3)", "conf.name = 'b'", "box.k = 0.8",
    "box.k = 1", "box.k = True", "box.extra = 0.6", "del box.extra", "box = OtherBox()", "box.__class__ = OtherBox", "Box.kind = 'new'", "box.kind = 'own'", "box.t = mt.full((4,), 0.9)",
    "box.t.fill_(0.45)", "box.t = w_vec", "box.fn = mt.sigmoid", "box.fn = nn.ReLU()", "box.last = None", "box.history = nums", "box.history.append(1.0)", "other = box", "box.count = 5",
    "table['a'] = 0.9", "table['z'] = 1.1", "table.pop('z', None)", "table = dict(reversed(table.items()))", "table['a'], table['b'] = table['b'], table['a']", "v = table.pop('a'); table['a'] = v",
    "table_t['u'] = table_t['w']", "table_t['u'] = mt.full((4,), 0.8)", "table_t = dict(reversed(table_t.items()))", "table_t['u'].mul_(2)", "nums.append(0.8)", "nums.pop() if len(nums) > 2 else None",
    "nums[0] = 0.7", "nums[:] = [1.5, 0.5]", "nums = [0.5, 1.5]", "nums = [0.5, 1.5, 0.25]", "nums[0] = 1", "names.append('c')", "names[0] = 'q'", "tens[0] = tens[1]",
    "tens.reverse()", "tens.append(mt.ones(4))", "tens = [w_vec, b_vec]", "tens[0] = kept[0]", "tens[0].add_(1)", "slot.v = 0.5", "slot.t = b_vec", "slot = Slot()", "prop.v = 0.8", "prop._v = 1",
    "Prop.__len__ = lambda self: 4", "pair = Pair(b_vec, 0.9)", "pair = pair._replace(k=1.0)", "nest['inner'] = {'k': 0.9, 't': b_vec}", "nest['inner']['k'] = 1.2", "nest['list'][1][0] = 3.0",
    "nest['list'][1] = [1.0]", "order.move_to_end('p')", "order['q'] = 0.1", "stats['hits'] = 4", "stats.clear()", "seen.add(2)", "seen.clear()", "log.clear()", "log.append(1)", "total = 10", "tail.clear()",
    "w_vec.requires_grad_(False)", "w_vec.requires_grad_(True)", "w_vec.grad = None", "w_vec.data[:] = 0.25", "w_vec.data = w_vec.data * 2", "w_vec = nn.Parameter(mt.full((4,), 0.9))", "w_vec.grad = np.ones(4, np.float32)",
    "w_mat.data *= 0.5", "w_mat = nn.Parameter(mt.eye(4))", "w_mat.requires_grad_(False)", "b_vec = b_vec * 2", "b_vec.data[0] = 3.0", "b_vec.requires_grad_(True)", "b_vec = b_vec.detach()", "b_vec = w_vec", "b_vec = kept[0]",
    "b_vec = mt.full((4,), 0.2, dtype=mt.float64)", "b_vec = mt.ones(1)", "b_vec.data = np.ones(4, np.float32)", "g_vec.requires_grad_(False)", "g_vec.grad = None", "a_vec[0] = 0.9", "a_vec *= 2",
    "a_vec = np.ones(4, np.float32)", "a_vec = np.ones(1, np.float32)", "a_vec = np.ones(4)", "a_vec.dtype = np.int32", "a_vec = a_vec[::-1]", "a_int[0] = 0", "a_int = np.array([3, 2, 1, 0])", "a_mat.shape = (4, 3); a_mat.shape = (3, 4)",
    "a_mat[0, 0] = 5", "a_mat = a_mat.T.copy().T", "a_mat = np.ones((2, 4), np.float32)", "net.scale = 0.6", "net.scale = 2", "net.mode = 'other'", "net.mode = 'plain'", "net.noise = 0.2", "net.noise = 0.4", "del net.noise",
    "net.eval()", "net.train()", "net.inner = nn.Linear(4, 4)", "net.inner.weight.data.mul_(0.5)", "net.inner.requires_grad_(False)", "net.act = nn.ReLU()", "net.forward = lambda h: h * 3", "del net.forward",
    "net.shift = mt.ones(4)", "net.shift.data[1] = 2.0", "net.steps = 3", "net.branches['a'], net.branches['b'] = net.branches['b'], net.branches['a']", "v = net.branches.pop('a'); net.branches['a'] = v", "net.branches['c'] = nn.Tanh()",
    "del net.branches['b']", "net.parts.append(Block(0.1))", "net.parts[0] = Block(0.9)", "net.parts[0].k = 0.9", "net.parts[0].__class__ = Doubled", "Net.forward = lambda self, h: self.inner(h)", "net = Net()", "net.train(not net.training)",
    "Block.forward = lambda self, h: self.lin(h) * self.k", "blocks[0] = nn.Tanh()", "blocks.append(nn.Tanh())", "blocks[0].k = 2.0", "blocks[0].lin = lin", "blocks = nn.ModuleList(reversed(list(blocks)))", "seq.append(nn.Tanh())",
    "seq[1] = nn.Sigmoid()", "del seq[1]", "table_m['a'] = nn.Tanh()", "v = table_m.pop('a'); table_m['a'] = v", "table_m = nn.ModuleDict(dict(reversed(list(table_m.items()))))", "table_m['c'].k = 1.0", "lin.weight.data[:] = 0.1",
    "lin.bias = None", "lin.weight = w_mat", "lin.requires_grad_(False)", "lin.weight.grad = None", "lin = nn.Linear(4, 4, bias=False)", "lin = net.inner", "bn.eval()", "bn.train()", "bn.momentum = 0.5", "bn.eps = 0.1", "bn.running_mean.fill_(0.5)",
    "bn.reset_running_stats()", "bn.weight.data.fill_(2.0)", "drop.p = 0.2", "drop.p = 0.7", "drop.eval()", "drop.train()", "ln = nn.LayerNorm(4, elementwise_affine=False)", "act = mt.sigmoid", "act = nn.ReLU()", "act = F.relu", "act = helper",
    "helper.__defaults__ = (0.75,)", "helper.__kwdefaults__ = {'plus': 0.3}", "helper.__kwdefaults__['plus'] = 0.2", "half = functools.partial(helper, by=0.9)", "half.keywords['by'] = 0.4",
    ODD,
    WALK,
    "odd, walk, held = Odd(a=0.5), Walk(), Batch(mt.full((4,), 0.35), 0.5)",
    'table_f = {"a": mt.tanh, "b": lambda h: h * level}',
    "def u_of(batch):\n    return batch['u'] if isinstance(batch, dict) else batch.u if isinstance(batch, Batch) else batch[0]",
    "@functools.lru_cache\ndef squared(k):\n    return k * k",
    "def pieces(h):\n    for v in nums:\n        yield h * v",
    "def depth(h, n):\n    return h if n <= 0 else depth(h * 0.9 + level * 0.1, n - 1)",
    "def helper(h, by=0.5, *, plus=0.1):\n    return h * by - plus", "scaled = helper", "scaled.__code__ = (lambda h: h + level).__code__", "opt.param_groups[0]['lr'] = 0.01", "opt.param_groups[0]['weight_decay'] = 0.2",
    "opt.param_groups[0]['params'].pop()", "opt = optim.SGD(params, lr=0.01)", "opt = optim.Adam(params, lr=0.01)", "opt.state.clear()", "opt.load_state_dict(opt.state_dict())", "opt.zero_grad()", "opt.step()", "sched.step()", "sched.last_epoch = 0",
    "opt.add_param_group({'params': [nn.Parameter(mt.ones(4))]})", "params.reverse()", "params.pop()", "mt.manual_seed(7)", "mt.rand(3)", "gen.manual_seed(5)", "gen = mt.Generator().manual_seed(9)", "mt.randn(5)", "random.seed(1)",
    "§gain = 0.9", "§gain = 2", "§gain = §gain + 0.25", "§bias = mt.full((4,), 0.7)", "§bias = w_vec", "§bias = b_vec", "§bias.data[0] = 4.0", "§layer = nn.Tanh()", "§layer = net", "§layer = helper", "§calls = 7",
    "first(result).sum().backward()", "kept = xs[0]", "xs[0] = kept", "kept.data[0] = 1.0", "kept.add_(0.5)", "leaf.grad = None", "leaf.requires_grad_(False)", "xs[0] = xs[0].t().contiguous().t()", "leaf = leaf.detach().requires_grad_()",
    "result.add_(1)", "result[0].mul_(0)", "log = []", "log = names", "box = conf", "mt.set_default_dtype(mt.float64); mt.set_default_dtype(mt.float32)", "net.load_state_dict(Net().state_dict())", "net.zero_grad()", "net.apply(lambda m: None)",
    "net.register_buffer('shift', mt.zeros(4))", "net.register_forward_hook(lambda m, i, o: o * 2)", "w_vec.register_hook(lambda g: g * 2)", "net.float()", "net.double(); net.float()", "net.half_used = 1", "F = nn.functional", "b_vec[:] = a_vec",
    "np.copyto(b_vec.data, a_vec)", "b_vec = mt.from_numpy(a_vec)", "w_vec.data = b_vec.data", "box.t = kept[1]", "tens = tuple(tens)", "nums = tuple(nums)", "nums = collections.deque(nums)", "table = collections.OrderedDict(table)",
    "w_vec.grad = b_vec.data", "w_vec.grad = lin.bias.grad", "lin.bias.grad = w_vec.data", "w_mat.grad = lin.weight.grad", "leaf.grad = kept.data", "slot.t = w_vec.detach()", "table_t['u'] = kept[2]", "b_vec = w_vec.detach()",
    "net.shift = net.inner.bias.detach()", "a_vec = b_vec.data", "a_mat = kept.data", "xs[1] = mt.from_numpy(w_mat.data[:3])", "kept = w_mat.detach()[:3]", "box.t = tens[1][:]", "tens[1] = a_mat[0]", "lin.weight.data = w_mat.data",
    "Slot.w = 3", "Conf.scale = 9.0", "Net.scale = 9.0", "net.__dict__['mode'] = 'other'", "vars(box)['k'] = 1.75", "globals()['level'] = 0.35", "object.__setattr__(box, 'k', 0.15)", "box.__dict__ = {**vars(box), 'k': 0.05}",
]  # fmt: skip
POSITIONAL = [
    "xs[0]",
    "xs[1]",
    "mt.randn(3, 4)",
    "kept",
    "leaf",
    "xs[2]",
    "mt.randn(3, 4, requires_grad=True)",
    "xs[0].detach()",
    "w_mat",
    "leaf * 2",
    "mt.rand(2, 4)",
    "kept[:2]",
    "mt.from_numpy(a_mat)",
    "w_mat.detach()[:3]",
]
SECOND = ["a_mat", "kept[:2]", "xs[1]", "kept", "mt.randn(3, 4)", "xs[0]", "leaf"]
BY_NAME = [
    "n=1", "n=2", "n=3", "t=0.5", "t=0.3", "t=0.9", "t=1", "name='a'", "name='b'", "extra=b_vec", "extra=w_vec", "extra=mt.ones(4)", "extra=tens[0]", "extra=None", "bias=mt.ones(4)", "bias=b_vec", "batch=held", "batch=Batch(mt.ones(4), 0.5)", "batch=pair", "batch={'u': b_vec, 'k': 1}", "batch=[b_vec]", "batch=Pair(mt.ones(4), 2)", "extra=nums", "more=nums", "more=2", "extra=w_vec.detach()", "extra=mt.from_numpy(w_vec.grad)", "bias=kept[0]",
]  # fmt: skip
SIGNATURE = "x, y, n=2, t=0.5, name='a', extra=None, **options"
GLOBALS = ("total", "level", "word", "flag")
OWN = {"gain": "1.25", "bias": "mt.full((4,), 0.15)", "layer": "nn.Linear(4, 4)", "calls": "0"}


@dataclass
class Program:
    """A program in pieces, each of which can be left out; `source()` puts them together."""

    seed: int
    backend: str
    form: str
    world: list[str]
    body: list[str]
    history: list[str]
    own: list[str] = field(default_factory=lambda: list(OWN))

    def definition(self):
        """The function in its surroundings."""
        body = "\n".join(self.body)
        of_self = self.form in ("method", "module")
        names = [name for name in OWN if name in self.own]
        body = re.sub(r"§(\w+)", r"self.\1" if of_self else r"own_\1", body)
        written = [n for n in GLOBALS if re.search(rf"^\s*{n} (\+)?= ", body, re.MULTILINE)]
        if self.form == "global":
            written += [f"own_{n}" for n in names if re.search(rf"^\s*own_{n} (\+)?= ", body, re.MULTILINE)]
        lines = [f"global {', '.join(written)}"] if written else []
        nonlocals = [f"own_{n}" for n in names if re.search(rf"^\s*own_{n} (\+)?= ", body, re.MULTILINE)]
        if self.form == "closure" and nonlocals:
            lines.append(f"nonlocal {', '.join(nonlocals)}")
        lines += body.split("\n")
        if self.form in ("global", "closure"):
            function = [f"def step({SIGNATURE}):", *("    " + line for line in lines)]
            values = [f"own_{name} = {OWN[name]}" for name in names]
            if self.form == "global":
                return "\n".join([*values, "@compile", *function])
            setters = [
                line
                for name in names
                for line in (f"def set_{name}(v):", f"    nonlocal own_{name}", f"    own_{name} = v",
                             f"def get_{name}():", f"    return own_{name}")
            ]  # fmt: skip
            given = ", ".join(f"'{part}_{name}': {part}_{name}" for name in names for part in ("set", "get"))
            inside = [*values, "@compile", *function, *setters, f"return step, {{{given}}}"]
            return "\n".join(["def make():", *("    " + line for line in inside), "step, around = make()"])
        name, base = ("Trainer", "") if self.form == "method" else ("Model", "(nn.Module)")
        begin = ["def __init__(self):", *(["    super().__init__()"] if base else []), "    pass"]
        begin += [f"    self.{n} = {OWN[n]}" for n in names]
        method = "step" if self.form == "method" else "forward"
        function = [f"def {method}(self, {SIGNATURE}):", *("    " + line for line in lines)]
        inside = [*begin, *(["@compile"] if self.form == "method" else []), *function]
        last = (
            "trainer = Trainer()" if self.form == "method" else "trainer = Model(); step = compile(trainer)"
        )
        return "\n".join([f"class {name}{base}:", *("    " + line for line in inside), last])

    def event(self, text):
        """A change or a call, as source."""
        if self.form == "closure":
            text = re.sub(r"^§(\w+) = (.*)$", r"around['set_\1'](\2)", text)
            return re.sub(r"§(\w+)", r"around['get_\1']()", text)
        text = re.sub(r"§(\w+)", r"trainer.\1" if self.form in ("method", "module") else r"own_\1", text)
        return text.replace("step(", "trainer.step(") if self.form == "method" and is_call(text) else text

    def source(self):
        """The whole program, to read."""
        beginning = [IMPORTS, f"mt.manual_seed({self.seed % 1000})", *self.world, self.definition()]
        return "\n".join([*beginning, *map(self.event, self.history)])


def is_call(event):
    return "result = step(" in event


def generate(seed, backend="numpy"):
    """The program of a seed."""
    rng = random.Random(seed)
    form = rng.choice(["global", "closure", "closure", "method", "module"])
    few = (
        rng.sample(range(1 << 30), 1)[0] % 4
    )  # how much of the world it uses: a few names often, or many once

    def narrowed(choices):
        return rng.sample(choices, min(len(choices), 3 + 6 * few))

    numbers, tensors, layers = narrowed(NUMBERS), narrowed(TENSORS), narrowed(LAYERS)
    questions, steps, effects = narrowed(QUESTIONS), narrowed(STEPS), narrowed(EFFECTS)
    if rng.random() < 0.15:
        steps = [*steps[2:], *rng.sample(RARE_STEPS, 2)]
        effects = [*effects[1:], rng.choice(RARE_EFFECTS)]

    def filled(text, depth=0):
        pools = {
            "number": numbers,
            "tensor": tensors,
            "layer": layers,
            "question": questions,
            "rate": ["0.2", "0.5"],
        }

        def one(found):
            name = found.group(1)
            if name in pools:
                return rng.choice(pools[name])
            plain = [s for s in (steps if name == "step" else effects) if "\n" not in s and "{step}" not in s]
            return filled(rng.choice(plain or ["h = h * 1.5"]), depth + 1)

        text = re.sub(r"\{(number|tensor|layer|question|rate|step|effect)\}", one, text)
        return text if depth else text.replace("{{", "{").replace("}}", "}")

    body = ["h = x"]
    for _ in range(rng.randint(1, 5)):
        body.append(filled(rng.choice(steps)))
        if rng.random() < 0.35:
            body.append(filled(rng.choice(effects)))
    if rng.random() < 0.1:
        body.insert(1, "if n == 3:\n    raise ValueError('three')")
    if rng.random() < 0.5:
        body.append(
            f"h = {rng.choice(['lin(h)', 'h * w_vec', 'h @ w_mat', 'net.inner(h)'])}"
        )  # so that there is a gradient
        body.append(filled(rng.choice(LOSSES)))
        body.append(rng.choice(TRAINING))
        body.append(filled(rng.choice(LOSS_RETURNS)))
    else:
        body.append(filled(rng.choice(RETURNS)))
    forward = rng.sample(FORWARD, rng.randint(1, 4))
    given = {
        "forward": "\n        ".join(forward), "rate": rng.choice(["0.2", "0.5"]),
        "optimizer": rng.choice(OPTIMIZERS), "scheduler": rng.choice(SCHEDULERS),
    }  # fmt: skip
    world = [piece.format(**given) for piece in WORLD]
    used = set(re.findall(r"§?\w+", " ".join(body)))
    if "net" in used:
        used |= set(re.findall(r"\w+", given["forward"])) | {"Net", "Block"}
    words = used - {"h", "x", "y", "n", "t", "self", "mt", "nn", "return", "F", "in", "if", "result"}
    near = [c for c in CHANGES if c.partition("=")[0].replace("[", ".").replace("'", ".").split(".")[0].strip() in words
            or set(re.findall(r"§\w+", c)) & words]  # fmt: skip
    history = []
    x, y, options = rng.choice(POSITIONAL[:6]), rng.choice(SECOND), rng.sample(BY_NAME, rng.randint(0, 2))
    for i in range(rng.randint(6, 10)):
        if i > 1 and rng.random() < 0.45:
            often = near if near and rng.random() < 0.85 else CHANGES
            history += [rng.choice(often) for _ in range(rng.choice([1, 1, 2]))]
        if rng.random() < 0.2:
            x = rng.choice(POSITIONAL)
        if rng.random() < 0.1:
            y = rng.choice([*SECOND, x if x in SECOND else "kept"])
        if rng.random() < 0.12:
            options = rng.sample(BY_NAME, rng.randint(0, 2))
        named = {option.partition("=")[0]: option for option in options}
        call = f"result = step({', '.join([x, y, *named.values()])})"
        history.append(
            f"with mt.no_grad():\n    {call}"
            if rng.random() < 0.05 and "backward" not in " ".join(body)
            else call
        )
    return Program(seed, backend, form, needed(world, [*body, *history, *OWN.values()]), body, history)


def needed(world, texts):
    """The pieces of a world whose names come up, and what those need."""
    defined = [
        set(re.findall(r"(?:^|; |, )(\w+)(?=(?:, \w+)* = )|^(?:def|class) (\w+)", p, re.MULTILINE))
        for p in world
    ]
    names = [{n for pair in found for n in pair if n} for found in defined]
    words, chosen = set(re.findall(r"\w+", " ".join(texts))), set()
    grown = True
    while grown:
        grown = False
        for i, piece in enumerate(world):
            if i not in chosen and names[i] & words:
                chosen.add(i)
                words |= set(re.findall(r"\w+", piece))
                grown = True
    return [piece for i, piece in enumerate(world) if i in chosen]


# --- running one --------------------------------------------------------------------------------------------


def plain(function):
    return function


@dataclass
class Run:
    """What came of a program: after each event, an error's type (or ''), printed text, and a picture of everything."""

    after: list
    compiled: int = 0  # calls that ran a program
    recorded: int = 0
    eager: int = 0
    reasons: list = field(default_factory=list)


# What programs patch, and is put back: a class or a module, and a name.
PATCHED = [
    (nn.functional, "relu"), (mt, "tanh"), (nn.Linear, "forward"), (nn.Tanh, "forward"), (nn.Dropout, "forward"), (math, "pi"),
    (np, "sum"), (optim.SGD, "step"), (mt.Tensor, "tag"),
]  # fmt: skip
MISSING = object()


@contextlib.contextmanager
def unpatched():
    """Put back what a program patches."""
    before = [(holder, name, vars(holder).get(name, MISSING)) for holder, name in PATCHED]
    try:
        yield
    finally:
        for holder, name, value in before:
            if value is not MISSING:
                setattr(holder, name, value)
            elif name in vars(holder):
                delattr(holder, name)


class Failure(Exception):
    """The compiler has said itself that it is wrong."""


def run(program, compile):
    """Run a program, with functions compiled or left as they are."""
    name = f"history_{program.seed}"
    module = types.ModuleType(name)
    space = module.__dict__
    space["compile"] = compile
    sys.modules[name] = module
    found = Run([])
    mt.set_default_dtype(mt.float32)
    mt.set_grad_enabled(True)
    for seeded in (mt.manual_seed, np.random.seed, random.seed):
        seeded(program.seed % 1000)
    try:
        for i, piece in enumerate([IMPORTS, *program.world, program.definition()]):
            if (error := execute(piece, f"<{name} {i}>", space)[0]) is not None:
                found.after.append((type(error).__name__, "", None))
                return found
        for i, text in enumerate(program.history):
            event = program.event(text)
            function = None
            if is_call(text) and compile is not plain:
                function = space["trainer"].step if program.form == "method" else space["step"]
                function = function.compiled if isinstance(function, CompiledModule) else function
                before = counts(function)
            error, printed = execute(event, f"<{name} event {i}>", space)
            if function is not None:
                now = counts(function)
                found.compiled += now[0] > before[0]
                found.recorded += now[0] == before[0] and now[1] > before[1]
                found.eager += now[0] == before[0] and now[1] == before[1]
                found.reasons = [r for r in function.cache.reasons if r.startswith("stays eager")]
                audits = [reason for reason in function.cache.reasons if reason.startswith("an audit")]
                if function.cache.eager_because or audits:
                    raise Failure(function.cache.eager_because or audits[0])
            said = "" if error is None else "three" if str(error) == "three" else type(error).__name__
            found.after.append((said, printed, Picture().of_space(space) if is_call(text) else []))
            if error is not None and is_call(text) and said != "three":
                break  # what an error in the middle leaves behind is not compared
    finally:
        del sys.modules[name]
        for i in range(len(program.world) + 2):
            linecache.cache.pop(f"<{name} {i}>", None)
        for i in range(len(program.history)):
            linecache.cache.pop(f"<{name} event {i}>", None)
    return found


def execute(text, file, space):
    """Run source; return the error it raised, if any, and what it printed."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(text, file, "exec"), space)
    except Exception as error:
        return error, printed.getvalue()
    return None, printed.getvalue()


def counts(function):
    cache = function.cache
    return sum(p.calls for p in cache.all()), cache.compilations + cache.audits


class Picture:
    """Everything that can be reached, as nested tuples; what was come across before is named by its number."""

    def __init__(self):
        self.seen = {}
        self.kept = []

    def of_space(self, space):
        skip = ("__", "compile", "first")
        names = [n for n in space if not n.startswith(skip) and not isinstance(space[n], types.ModuleType)]
        found = [(name, self.of(space[name])) for name in sorted(names)]
        return [*found, ("streams", self.stream(mt.get_rng_state()), random.getstate()[1][-1])]

    def stream(self, state):
        bits = state["bits"]["state"]
        return (bits["key"].tobytes(), bits["pos"], state["next_normal"])

    def of(self, thing):
        thing = thing._orig_mod if isinstance(thing, CompiledModule) else thing
        thing = thing.function if isinstance(thing, CompiledFunction) else thing
        if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes)):
            return thing
        if isinstance(thing, np.generic):
            return (type(thing).__name__, thing.item())
        if isinstance(thing, np.ndarray):
            return np.array(thing)
        if id(thing) in self.seen:
            return ("as", self.seen[id(thing)])
        if not isinstance(thing, tuple):
            self.seen[id(thing)] = len(self.seen)
        self.kept.append(thing)  # its id stays its own
        return (type(thing).__name__, *self.inside(thing))

    def inside(self, thing):
        if isinstance(thing, mt.Tensor):
            own = {k: v for k, v in getattr(thing, "__dict__", {}).items() if not k.startswith("_")}
            synced(thing, strictly=False)
            gradient = None if thing._grad is None or not thing.is_leaf else np.array(thing._grad)
            return (np.array(thing._data), thing.requires_grad, gradient, self.of(own))
        if isinstance(thing, types.FunctionType):
            cells = [c.cell_contents for c in thing.__closure__ or ()]
            cells = [c for c in cells if not isinstance(c, (type, types.FunctionType, CompiledFunction))]
            return (
                thing.__name__,
                self.of(thing.__defaults__),
                self.of(thing.__kwdefaults__),
                self.of(vars(thing)),
                *map(self.of, cells),
            )
        if isinstance(thing, types.MethodType):
            return (self.of(thing.__self__), self.of(thing.__func__))
        if isinstance(thing, type):
            if thing.__module__.startswith("history_"):
                return tuple(
                    (k, self.of(v)) for k, v in vars(thing).items() if isinstance(v, (int, str, float))
                )
            return (thing.__name__,)
        if isinstance(thing, dict):
            return tuple(
                (self.key(k), self.of(v)) for k, v in thing.items() if not str(k).startswith("_compiled_")
            )
        if isinstance(thing, (list, tuple, collections.deque)):
            return tuple(map(self.of, thing))
        if isinstance(thing, (set, frozenset)):
            return tuple(sorted(map(repr, thing)))
        if isinstance(thing, mt.Generator):
            return self.stream(thing.get_state())
        if isinstance(thing, optim.Optimizer):
            state = [(self.of(p), self.of(values)) for p, values in thing.state.items()]
            return (self.of(thing.param_groups), *state)
        if isinstance(thing, optim.lr_scheduler.LRScheduler):
            return (self.of({k: v for k, v in vars(thing).items() if k != "optimizer" and not callable(v)}),)
        if isinstance(thing, nn.Module):
            return (self.of({k: v for k, v in vars(thing).items() if not k.endswith("hooks")}),)
        slots = [n for n in getattr(type(thing), "__slots__", ()) if hasattr(thing, n)]
        return (self.of(getattr(thing, "__dict__", {})), *((n, self.of(getattr(thing, n))) for n in slots))

    def key(self, key):
        return key if isinstance(key, (str, int, float, tuple, type(None))) else self.of(key)


def difference(a, b):
    """Say where two pictures differ; '' if they do not. b: the eager one."""
    if isinstance(b, np.ndarray) and isinstance(a, np.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f": {a.dtype}{a.shape}, eager {b.dtype}{b.shape}"
        return "" if near(a, b) else f": {a.tolist()}, eager {b.tolist()}"
    if type(a) is not type(b):
        return f": {brief(a)}, eager {brief(b)}"
    if isinstance(b, (tuple, list)):
        if len(a) != len(b):
            return f": {brief(a)}, eager {brief(b)}"
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            if found := difference(one, other):
                label = other[0] if isinstance(other, tuple) and other and isinstance(other[0], str) else i
                return f"/{label}{found}"
        return ""
    if isinstance(b, float):
        return "" if a == b or near(np.float32(a), np.float32(b)) else f": {a}, eager {b}"
    return "" if a == b else f": {brief(a)}, eager {brief(b)}"


def brief(thing):
    text = repr(thing)
    return text if len(text) < 200 else text[:200] + "…"


def near(a, b):
    """Equal but for the order of additions."""
    a, b = np.asarray(a), np.asarray(b)
    if a.tobytes() == b.tobytes():
        return True
    if b.dtype.kind != "f":
        return np.array_equal(a, b)
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 0.0
    return np.allclose(a, b, rtol=2e-3, atol=1e-5 + 2e-4 * min(scale, 1e30), equal_nan=True)


NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


def text_difference(a, b):
    """As difference, of printed text: its floats may be rounded."""
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return f"printed: {a!r}, eager {b!r}"
    pairs = zip(map(float, NUMBER.findall(a)), map(float, NUMBER.findall(b)), strict=True)
    return "" if all(abs(x - y) <= 0.11 + 2e-3 * abs(y) for x, y in pairs) else f"printed: {a!r}, eager {b!r}"


def compiling(program):
    """How the functions of a program are compiled: every other one without a look at what comes of it."""
    return lambda function: mt.compile(function, backend=program.backend, verify=program.seed % 2 == 0)


def check(program):
    """Run a program compiled and eagerly; return where they differ ('' if nowhere), and the compiled run."""
    with unpatched():
        expected = run(program, plain)
    try:
        with unpatched():
            found = run(program, compiling(program))
    except Failure as failure:
        return f"a mistake: {failure}", Run([])
    for i, (one, other) in enumerate(zip(found.after, expected.after, strict=False)):
        where = f"event {i}"
        if one[0] != other[0]:
            return f"{where}: raised {one[0] or 'nothing'}, eager {other[0] or 'nothing'}", found
        if said := text_difference(one[1], other[1]):
            return f"{where}: {said}", found
        if one[0] and one[0] != "three" and is_call(program.history[i]):
            continue
        if said := difference(one[2], other[2]):
            return f"{where}: {said}", found
    if len(found.after) != len(expected.after):
        return "one of the two went further", found
    return "", found


def kind_of(said):
    """A difference without its numbers: raised, printed, or the name under which something differs."""
    return re.sub(r"event \d+: ", "", said).split(",")[0].split("/")[:2]


def shrunk(program):
    """A smaller program that differs too."""
    kind = kind_of(check(program)[0])
    deadline = time.monotonic() + 120

    def differs(candidate):
        return kind_of(check(candidate)[0]) == kind

    changed = True
    while changed and time.monotonic() < deadline:
        changed = False
        for part in ("history", "body", "world", "own"):
            size = max(1, len(getattr(program, part)) // 2)
            while size:
                at = 0
                while at < len(getattr(program, part)):
                    pieces = getattr(program, part)
                    candidate = replace(program, **{part: pieces[:at] + pieces[at + size :]})
                    if differs(candidate):
                        program, changed = candidate, True
                    else:
                        at += size
                size //= 2
    return program


def check_seed(job):
    """What came of a seed, small enough to be sent to another process."""
    seed, backend = job
    difference_found, found = check(generate(seed, backend))
    reasons = [re.sub(r"\d+", "#", reason.split("\n")[0]) for reason in found.reasons]
    return seed, backend, difference_found, (found.compiled, found.recorded, found.eager), reasons


def backend_of(seed):
    """Mostly the program by NumPy; each tenth is scheduled, and machine code where there is some."""
    others = [b for b in BACKENDS if b in ("device", "native")]
    return others[seed // 10 % len(others)] if seed % 10 == 9 else "numpy"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--from", type=int, default=0, dest="start")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--state", type=Path, default=Path("runs/histories.json"))
    parser.add_argument("--backend", help="of all programs; left out: mostly NumPy's")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--no-shrink", action="store_true")
    options = parser.parse_args()
    if options.seed is not None:
        show(options.seed, options.backend or backend_of(options.seed), not options.no_shrink)
        return
    state = {"done": options.start, "differ": {}, "calls": [0, 0, 0], "reasons": {}}
    if options.state.exists():
        state = json.loads(options.state.read_text())
    options.state.parent.mkdir(parents=True, exist_ok=True)
    seeds = range(state["done"], options.start + options.count)
    jobs = [(seed, options.backend or backend_of(seed)) for seed in seeds]
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.processes, maxtasksperchild=500) as pool:
        for i, (seed, backend, differs, calls, reasons) in enumerate(
            pool.imap(check_seed, jobs, chunksize=10)
        ):
            state["calls"] = [a + b for a, b in zip(state["calls"], calls, strict=True)]
            for reason in set(reasons):
                state["reasons"][reason] = state["reasons"].get(reason, 0) + 1
            if differs:
                state["differ"][seed] = differs
                print(f"seed {seed} ({backend}): {differs}", flush=True)
                if not options.no_shrink:
                    show(seed, backend, True)
            state["done"] = seed + 1
            if i % 100 == 99 or seed == jobs[-1][0]:
                options.state.write_text(json.dumps(state, indent=1))
                per = (time.monotonic() - began) / (i + 1)
                compiled, recorded, eager = state["calls"]
                print(f"{state['done']} histories, {len(state['differ'])} differ; calls: {compiled} by programs, "
                      f"{recorded} recorded, {eager} eager; {per * 1e3:.0f} ms each", flush=True)  # fmt: skip
    for reason, count in sorted(state["reasons"].items(), key=lambda item: -item[1]):
        print(f"{count:6} {reason}")
    sys.exit(bool(state["differ"]))


def show(seed, backend, shrinking):
    """Print a program and what differs."""
    program = generate(seed, backend)
    said = check(program)[0]
    if said and shrinking:
        program = shrunk(program)
    print(
        f"--- seed {seed}, backend {backend}\n{program.source()}\n--- {check(program)[0] or 'nothing differs'}\n",
        flush=True,
    )


if __name__ == "__main__":
    main()
