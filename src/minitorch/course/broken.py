"""Engines with a mistake in them. Enters: the one-file engine's source, and a small edit. Leaves: a module.

The four mistakes that every course of this kind warns of are here, because a learner's own tests must notice them.
"""

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType

from minitorch.course import tensor

Edit = tuple[str, str]  # what the source says, and what it would say with the mistake
FOUR_BUGS: dict[str, tuple[Edit, ...]] = {
    "missing-accumulation": (
        ("contribution if self.grad is None else self.grad + contribution", "contribution"),
    ),
    "wrong-order": (("stack.append((node, True))", "order.append(node)"), ("reversed(order)", "order")),
    "missing-unbroadcast": (
        ("unbroadcast(np.asarray(contribution), self.shape)", "np.asarray(contribution)"),
    ),
    "wrong-axis-keepdims": (("grad = out.grad.reshape(kept(self.shape, axis))", "grad = out.grad"),),
}


@functools.cache
def source() -> str:
    """Return the one-file engine's text."""
    return Path(tensor.__file__).read_text(encoding="utf-8")


def edited(*edits: Edit, text: str | None = None, name: str = "tensor") -> ModuleType:
    """Return the engine with some lines changed, each edit (what is there, what shall be there).

    >>> edited(("self.data * other.data", "self.data + other.data")).Tensor(2.0) * 3.0
    Tensor(5.)
    """
    text = source() if text is None else text
    for old, new in edits:
        if old not in text:
            raise ValueError(f"the engine's source does not contain {old!r}")
        text = text.replace(old, new)
    module = ModuleType(name)
    module.__file__ = f"<{name}, edited>"
    exec(compile(text, module.__file__, "exec"), module.__dict__)
    return module


@functools.cache
def engines() -> dict[str, ModuleType]:
    """Return an engine for each of the four mistakes."""
    return {name: edited(*edits) for name, edits in FOUR_BUGS.items()}
