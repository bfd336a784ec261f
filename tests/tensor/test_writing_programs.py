"""Random programs that write in place, through views, containers and several names: PyTorch's numbers.

What PyTorch accepts must be accepted, but for the few ops that keep other values for backward than PyTorch's do
(test_table_in_place.py lists them); a value or a gradient that differs is never allowed. Each program is lines of
text, so that names hold tensors exactly as they do in a person's code: at the top of a module, and inside a function.
`MINITORCH_PROGRAMS=20000` sets their number.
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

import minitorch
from pytorch import torch

PROGRAMS = int(os.environ.get("MINITORCH_PROGRAMS", "150"))
START = [
    "a = T.tensor(A, requires_grad=True)",
    "b = T.tensor(B, requires_grad=True)",
    "c = T.tensor(C)",
    "h = a * b",
    "z = T.zeros(3, 3, dtype=T.float64)",
]
LEAVES = ("a", "b")
KEYS = [
    "0",
    "1",
    "2",
    "-1",
    "0:2",
    "1:",
    ":, 0",
    ":, 1:",
    "0, 1",
    "[0, 2]",
    "..., -1",
    "::2",
    "{m} > 0",
    "None",
]
MAKES = [
    "{x} * {y}", "{x} + {y}", "{x} - {y}", "{x} * 2.0", "{x}.sin()", "{x}.exp()", "{x}.sigmoid()", "{x}.tanh()",
    "T.relu({x})", "{x} @ {y}", "{x}.sum()", "{x}.clone()", "T.where({x} > 0, {x}, {y})", "T.cat([{x}, {y}])[:3]",
    "{x}.softmax(-1)", "{x}.sum(-1)", "T.stack([{x}, {y}]).mean(0)", "{x} ** 2",
]  # fmt: skip
VIEWS = [
    "{x}", "{x}[{k}]", "{x}.t()", "{x}.view(-1)", "{x}.reshape(-1)", "{x}.unsqueeze(0)", "{x}.squeeze()",
    "{x}.diagonal()", "{x}.detach()", "{x}.transpose(0, -1)", "{x}.flatten()", "{x}.narrow(0, 0, 2)",
    "{x}.chunk(2)[0]", "{x}.expand(3, 3)", "{x}.flip(0)", "{x}.contiguous()", "{x}.split(2)[-1]", "{x}.select(0, 1)",
    "{x}.permute(1, 0)", "{x}.diag()",
]  # fmt: skip
WRITES = [
    "{x} += {y}", "{x} -= {y}", "{x} *= {y}", "{x} *= 0.5", "{x} += 1", "{x} /= 2", "{x}.add_({y}, alpha=0.5)",
    "{x}.sub_({y}, alpha=2)", "{x}.mul_({y})", "{x}[{k}] = {y}", "{x}[{k}] = 0.25", "{x}[{k}] += {y}",
    "{x}[{k}] *= {y}", "{x}[{k}] = {x}[{k}] + {y}", "{x}[{k}] -= 0.5", "{x}.relu_()", "{x}.sigmoid_()", "{x}.exp_()",
    "{x}.tanh_()", "{x}.abs_()", "{x}.zero_()", "{x}.fill_(0.3)", "{x}.copy_({y})",
    "{x}.masked_fill_({y} > 0, 0.1)", "{x} /= {x}.abs().sum()", "{x} -= {x}.mean()", "{x}[0].mul_({y})",
    "{x}.diagonal().add_({y})", "{x}.view(-1)[0] = 2.0", "{x}.t().add_({y})", "{x}[{k}].zero_()",
    "{x}.index_add_(0, T.tensor([0, 2]), {y}[:2])", "{x} **= 2", "{x}.neg_()", "{x}.add_({x})", "{x} += {x}.t()",
    "{x}.addcmul_({y}, {m})", "{x}.lerp_({y}, 0.3)", "{x}.div_({y}.exp())",
    "{x}.scatter_(0, T.zeros(1, 3, dtype=T.int64), {y}[:1])", "kept[-1].add_({y})", "kept[0] *= 0.5",
    "[t.mul_(0.9) for t in kept]", "(lambda t: t.add_({y}))({x})", "box['t'] = {x}; box['t'] -= {y}",
    "{x}.view(-1)[1:4].mul_({m}.view(-1)[:3])", "{x}.unsqueeze_(0).mul_(2)", "{x}.t_()", "{x}.clamp_(-1, 1)",
    "T.nn.functional.leaky_relu_({x})", "T.nn.ReLU(inplace=True)({x})", "{x}.fill_diagonal_(0.2)",
]  # fmt: skip
OTHERS = ["kept.append({x})", "kept.clear()", "del {x}", "{x} = {y}", "{x}.retain_grad()"]


class Draw:
    """A program, found by trying lines on PyTorch: what it refuses is left away."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        generator = np.random.default_rng(seed)
        self.arrays = {name: generator.normal(size=(3, 3)) for name in "ABC"}
        self.lines = list(START)
        self.scope: dict[str, Any] = {"T": torch, "kept": [], "box": {}, **self.arrays}
        for line in START:
            exec(line, self.scope)
        self.count = 0
        for _ in range(self.random.randint(2, 9)):
            self.add()

    def names(self) -> list[str]:
        return [name for name, value in self.scope.items() if isinstance(value, torch.Tensor)]

    def overlap(self, words: dict[str, str]) -> bool:
        """Tell whether a line reads the memory it writes, under another shape: PyTorch's answer is left to chance."""
        x, y, m = (self.scope[words[key]] for key in "xym")
        place = x.untyped_storage().data_ptr()
        return any(z is not x and z.untyped_storage().data_ptr() == place for z in (y, m))

    def add(self) -> None:
        kind = self.random.choices(("make", "view", "write", "other"), (3, 3, 6, 1))[0]
        names = self.names()
        words = {key: self.random.choice(names) for key in "xym"}
        words["k"] = self.random.choice(KEYS).format(**words)
        lines = {"make": MAKES, "view": VIEWS, "write": WRITES, "other": OTHERS}[kind]
        line = self.random.choice(lines).format(**words)
        if kind in ("make", "view"):
            again = self.random.random() < 0.15
            self.count += not again
            line = f"{self.random.choice(names) if again else f'v{self.count}'} = {line}"
        if kind == "write" and self.overlap(words):
            return
        if self.random.random() < 0.08:
            line = f"with T.no_grad(): {line}"
        if line.endswith(("del a", "del b")):
            return
        try:
            exec(line, self.scope)
        except (RuntimeError, IndexError, TypeError, ValueError):
            return
        if sum(value.numel() for value in map(self.scope.get, self.names())) > 2000:
            return
        self.lines.append(line)


END = """
outs = [value for name, value in sorted(dict(SCOPE).items()) if isinstance(value, T.Tensor)] + kept
loss = 0.0
for i, out in enumerate(outs):
    loss = loss + (out * (0.3 + 0.1 * i)).sum()
if loss.requires_grad:
    loss.backward()
"""


def run(library: Any, lines: list[str], arrays: dict[str, Any], inside: bool) -> dict[str, Any]:
    """Run the lines at the top of a module or inside a function; return every value and the leaves' gradients."""
    scope: dict[str, Any] = {"T": library, "kept": [], "box": {}, "SCOPE": {}, **arrays}
    body = "\n".join(lines)
    end = END.replace("SCOPE", "locals()" if inside else "globals()")
    if inside:
        text = "def program(T, kept, box, A, B, C):\n    " + (body + "\n" + end).replace("\n", "\n    ")
        text += "\n    return dict(locals())"
        exec(text, scope)
        scope = scope["program"](library, [], {}, *(arrays[name] for name in "ABC"))
    else:
        exec(body + "\n" + end, scope)
    found = {}
    for name, value in scope.items():
        if isinstance(value, library.Tensor) and name not in ("out", "value"):
            found[name] = np.array(value.detach().numpy())
    for i, value in enumerate(scope["kept"]):
        found[f"kept[{i}]"] = np.array(value.detach().numpy())
    for name in LEAVES:
        if scope[name].is_leaf and scope[name].grad is not None:
            found[f"{name}.grad"] = np.asarray(scope[name].grad).copy()
    return found


def compare(seed: int, inside: bool) -> str:
    """Return 'equal', 'refused' or 'not for PyTorch'; fail if a number differs."""
    drawn = Draw(seed)
    try:
        expected = run(torch, drawn.lines, drawn.arrays, inside)
    except (RuntimeError, AttributeError):
        return "not for PyTorch"
    program = "\n".join(drawn.lines)
    try:
        found = run(minitorch, drawn.lines, drawn.arrays, inside)
    except RuntimeError:
        return "refused"
    assert set(found) == set(expected), program
    for name, value in expected.items():
        np.testing.assert_allclose(
            found[name], value, rtol=1e-9, atol=1e-11, err_msg=f"{name}, seed {seed}:\n{program}"
        )
    return "equal"


@pytest.mark.parametrize("inside", [False, True], ids=["module", "function"])
def test_in_place_programs_agree(inside: bool) -> None:
    outcomes = [compare(seed, inside) for seed in range(PROGRAMS)]
    tally = {each: outcomes.count(each) for each in ("equal", "refused", "not for PyTorch")}
    assert tally["equal"] > 0.7 * PROGRAMS, tally
    assert tally["refused"] <= max(2, 0.005 * PROGRAMS), tally


if __name__ == "__main__":
    import collections
    import sys

    first, last = int(sys.argv[1]), int(sys.argv[2])
    tally: collections.Counter[str] = collections.Counter()
    for seed in range(first, last):
        for inside in (False, True):
            try:
                tally[compare(seed, inside)] += 1
            except Exception as error:
                tally["DIFFERS"] += 1
                print(f"--- {seed} {inside} {type(error).__name__}\n{error}\n", flush=True)
    print(dict(tally))
