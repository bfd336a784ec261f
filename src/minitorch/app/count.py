"""How much is there to read? Enters: the package's own files. Leaves: code lines of the core path and of every room.

    python -m minitorch.app.count

A code line is one that is left when blank lines, comments and docstrings are taken away.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

PACKAGE = Path(__file__).parents[1]

# What to read, in this order, to understand one backward pass; the README walks the same path.
CORE = (
    "ops/op.py",
    "ops/arithmetic.py",
    "ops/exponential.py",
    "ops/activation.py",
    "engine/node.py",
    "engine/record.py",
    "engine/backward.py",
    "engine/versions.py",
    "tensor/tensor.py",
)


def code_lines(source: str) -> int:
    r"""Count the lines that hold code.

    >>> code_lines('"A module."' + "\n\n# A comment.\n" + "x = 1  # one\ny = (2,\n     3)\n")
    3
    """
    lines = {
        number
        for number, line in enumerate(source.split("\n"), 1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def count(paths: Iterable[Path]) -> int:
    """Count the code lines of several files."""
    return sum(code_lines(path.read_text(encoding="utf-8")) for path in paths)


def rooms() -> dict[str, int]:
    """Return the code lines of every room, the compiler's apart, and of the files that stand in none."""
    found: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        folders = path.relative_to(PACKAGE).parts[:-1]
        depth = 3 if folders[:2] == ("compiler", "backends") else 2 if folders[:1] == ("compiler",) else 1
        found.setdefault("/".join(folders[:depth]) or "public addresses", []).append(path)
    return {room: count(paths) for room, paths in sorted(found.items())}


def report() -> str:
    """Return both counts as a table."""
    core = {name: count([PACKAGE / name]) for name in CORE}
    everything = rooms()
    lines = ["the core, to be read in this order:"]
    lines += [f"  {name:28}{number:7,}" for name, number in core.items()]
    lines += [f"  {'in all':28}{sum(core.values()):7,}", "", "every room:"]
    lines += [f"  {room:28}{number:7,}" for room, number in everything.items()]
    return "\n".join([*lines, f"  {'in all':28}{sum(everything.values()):7,}"])


if __name__ == "__main__":
    print(report())
