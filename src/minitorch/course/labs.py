"""The labs, in order. Enters: nothing. Leaves: `LABS`, each with its checks and where its solution stands.

A lab's page, hints and title are in text/LANGUAGE/labs/NUMBER-NAME.md.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitorch.course import engine_checks as e
from minitorch.course import practice_checks as p

Check = Callable[[Any], Any]
ENGINE, PRACTICE = "tensor.py", "practice.py"


@dataclass(frozen=True, eq=False)
class Lab:
    """One lab: what is written in which file, and how it is checked.

    solution: the names in the course's own file that solve it, methods with their class: "Tensor.exp".
    """

    number: int
    name: str
    file: str
    solution: tuple[str, ...]
    checks: tuple[tuple[str, Check], ...]

    @property
    def page(self) -> str:
        """The name of its page."""
        return f"{self.number:02}-{self.name}.md"


def _lab(name: str, file: str, solution: str, *checks: Any) -> None:
    """Add a lab; a check is a row of a table or a function, and is called by its expression or its name."""
    named: list[tuple[str, Check]] = []
    for check in checks:
        title = check.name if isinstance(check, e.Row) else check.__name__.replace("_", "-")
        while title in (known for known, _ in named):  # the same expression on other inputs
            title += "'"
        named.append((title, check))
    _LABS.append(Lab(len(_LABS) + 1, name, file, tuple(solution.split()), tuple(named)))


_LABS: list[Lab] = []

_lab(
    "node", ENGINE, "Tensor.__init__ result Tensor.__add__", e.fields, e.dtypes_are_kept, e.identity, e.propagation
)  # fmt: skip
_lab(
    "add-mul",
    ENGINE,
    "Tensor._accumulate Tensor._records Tensor._wrap Tensor.__add__ Tensor.__mul__ Tensor.__neg__ Tensor.__sub__ "
    "Tensor.__truediv__ Tensor.__pow__ Tensor.__rsub__ Tensor.__rtruediv__",
    *e.ADD_MUL,
)
_lab(
    "order",
    ENGINE,
    "Tensor.backward Tensor._topological_order",
    e.order,
    e.seed,
    e.refusals,
    e.adds_up,
    e.depth,
)
_lab("unbroadcast", ENGINE, "unbroadcast Tensor._accumulate", e.unbroadcast_itself, *e.UNBROADCAST)
_lab("reductions", ENGINE, "kept Tensor.sum Tensor.mean Tensor.max", *e.reductions(), e.ties)
_lab(
    "shapes",
    ENGINE,
    "Tensor.reshape Tensor.transpose Tensor.broadcast_to Tensor.__getitem__ cat stack",
    *e.SHAPES,
)
_lab(
    "elementwise",
    ENGINE,
    "Tensor.exp Tensor.log Tensor.relu Tensor.tanh Tensor.gelu",
    *e.ELEMENTWISE,
    e.gelu,
)
_lab("matmul", ENGINE, "Tensor.__matmul__", *e.MATMUL)
_lab("softmax", ENGINE, "Tensor.softmax", *e.SOFTMAX, e.softmax_large)
_lab(
    "cross-entropy",
    ENGINE,
    "cross_entropy",
    *e.CROSS_ENTROPY,
    e.cross_entropy_large,
    e.arriving_gradient,
    e.saved_values,
)
_lab(
    "no-grad",
    ENGINE,
    "no_grad result Tensor.detach",
    e.no_grad_block,
    e.no_grad_after_an_error,
    e.no_grad_nested,
    e.detach,
)
_lab("gradcheck", PRACTICE, "gradcheck", p.gradcheck_accepts, p.gradcheck_rejects)
_lab("hypothesis", PRACTICE, "property_check", p.property_accepts, p.property_rejects)
_lab("xor", PRACTICE, "MLP train_xor", p.network, p.xor)
_lab("grammar", PRACTICE, "train_classifier", p.grammar)
_lab("zero-grad", PRACTICE, "zero_grad train_step", p.steps)
_lab("digits", PRACTICE, "train_classifier", p.reads_digits)
_lab("conv2d", PRACTICE, "conv2d", p.convolution)
_lab("adam", PRACTICE, "Adam", p.adam)
_lab("batch", PRACTICE, "MLP", p.batch)
_lab("function", PRACTICE, "Context Function", p.function)
_lab("forward-mode", PRACTICE, "Dual jvp", p.forward_mode)
_lab(
    "compare", PRACTICE, "network_gradients", *(p.compare_with(n) for n in ("minitorch", "torch", "tinygrad"))
)
LABS: tuple[Lab, ...] = tuple(_LABS)


def find(word: str) -> Lab:
    """Return the lab of a name or a number; KeyError with the nearest name if there is none.

    >>> find("softmax").number, find("3").name, find("03").name
    (9, 'order', 'order')
    >>> find("sofmax")
    Traceback (most recent call last):
    ...
    KeyError: 'softmax'
    """
    for lab in LABS:
        if (
            word == lab.name
            or (word.isdecimal() and int(word) == lab.number)
            or word == lab.page.removesuffix(".md")
        ):
            return lab
    raise KeyError(*difflib.get_close_matches(word, [lab.name for lab in LABS], 1, 0.4))


def solution(lab: Lab) -> str:
    """Return the course's own lines for a lab.

    >>> print(solution(find("softmax")).splitlines()[0])
    class Tensor:
    """
    text = (Path(__file__).parent / lab.file).read_text(encoding="utf-8")
    tree = ast.parse(text)
    found: list[str] = []
    inside = ""
    for name in lab.solution:
        owner, _, method = name.rpartition(".")
        body: list[ast.stmt] = tree.body
        if owner:
            body = next(n.body for n in body if isinstance(n, ast.ClassDef) and n.name == owner)
        node = next(n for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == method)
        if owner and owner != inside:
            found.append(f"class {owner}:\n    ...")
        inside = owner
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        found.append("\n".join(text.splitlines()[first - 1 : node.end_lineno]))
    return "\n\n".join(found)
