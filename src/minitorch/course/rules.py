"""The rule of an op, as a formula and as the lines that run. Enters: an op. Leaves: text, from the library's source."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from pathlib import Path
from typing import Any

import minitorch.ops

FOLDER = Path(minitorch.ops.__file__).parent

# g: the arriving gradient. What mathematics says; the lines below it say how it is computed.
FORMULAS: dict[str, tuple[str, ...]] = {
    "add": ("dx = g", "dy = g"),
    "sub": ("dx = g", "dy = −g"),
    "mul": ("dx = g · y", "dy = g · x"),
    "div": ("dx = g / y", "dy = −g · x / y²"),
    "neg": ("dx = −g",),
    "pow": ("dx = g · n · xⁿ⁻¹", "dn = g · xⁿ · ln x"),
    "square": ("dx = 2 · g · x",),
    "exp": ("dx = g · eˣ",),
    "log": ("dx = g / x",),
    "sqrt": ("dx = g / (2 · √x)",),
    "relu": ("dx = g where x > 0, else 0",),
    "tanh": ("dx = g · (1 − tanh² x)",),
    "sigmoid": ("dx = g · σ(x) · (1 − σ(x))",),
    "gelu": ("dx = g · (Φ(x) + x · φ(x))",),
    "sum": ("dx = g, stretched over the axes that were summed",),
    "mean": ("dx = g / N, stretched over the axes that were averaged",),
    "amax": ("dx = g where x is the largest; ties share it",),
    "max": ("dx = g where x is the largest",),
    "reshape": ("dx = g in the old shape",),
    "permute": ("dx = g, axes in their old order",),
    "transpose": ("dx = g, axes in their old order",),
    "broadcast_to": ("dx = Σ g over the axes that were stretched",),
    "getitem": ("dx = 0, with g added at the index",),
    "cat": ("dxᵢ = the i-th piece of g",),
    "stack": ("dxᵢ = the i-th slice of g",),
    "matmul": ("dA = g · Bᵀ", "dB = Aᵀ · g"),
    "linear": ("dx = g · W", "dW = gᵀ · x", "db = Σ g over the batch"),
    "softmax": ("dx = p · (g − Σ g · p)",),
    "log_softmax": ("dx = g − p · Σ g",),
    "cross_entropy": ("dx = g · (p − y) / N",),
    "where": ("dx = g where the condition holds, else 0", "dy = g where it does not, else 0"),
}


def formula(op: str) -> tuple[str, ...]:
    """Return an op's rule in mathematics, one line for each input; nothing where none is written down.

    >>> formula("mul")
    ('dx = g · y', 'dy = g · x')
    """
    return FORMULAS.get(op, ())


@functools.cache
def declarations() -> dict[str, str]:
    """Return the source of every `Op(...)` of the library by its name, with the functions of its file that it names."""
    found: dict[str, str] = {}
    for path in sorted(FOLDER.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines, tree = text.splitlines(), ast.parse(text)
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        for statement in tree.body:
            value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
            called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
            name = value.args[0] if isinstance(value, ast.Call) and called == "Op" and value.args else None
            if not isinstance(name, ast.Constant):
                continue
            used = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id in functions]
            parts = [functions[each] for each in dict.fromkeys(used)]
            blocks = ["\n".join(lines[n.lineno - 1 : n.end_lineno]) for n in [*parts, statement]]
            found[str(name.value)] = "\n\n\n".join(blocks)
    return found


def source(operation: Any, backward: Any = None) -> str:
    """Return the lines of an op's rule; of a learner's closure, the closure's own.

    >>> print(source(minitorch.ops.OPS["exp"]))
    EXP = Op("exp", np.exp, lambda g, out, x: g * out, floating=True)
    """
    if operation is not None:
        return declarations().get(operation.name, "")
    try:
        return textwrap.dedent(inspect.getsource(backward)).strip() if backward is not None else ""
    except (OSError, TypeError):  # made at a prompt, or not by Python
        return ""
