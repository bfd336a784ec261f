"""Imports go one way: each room may use only rooms below it. Read off the syntax trees."""

import ast
import sys
from pathlib import Path

import pytest

import minitorch

PACKAGE = Path(minitorch.__file__).parent

# From the ground up. A module may import modules on lower floors, and others of its own floor only
# where it is a folder.
FLOORS = [
    ["ops"],
    ["engine"],
    ["tensor"],
    ["creation", "functions", "linalg"],
    ["fft", "random", "special"],
    ["signal", "amp", "backends", "settings", "testing"],
    ["cuda"],
    ["autograd"],
    ["nn"],
    ["optim", "utils", "serialization", "distributions", "func"],
    ["compiler"],
    ["proof"],
    ["app"],
]
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
OUTSIDE = {"numpy", "scipy", "cupy"}
# Imported where they are used, and only there; their absence is explained.
EXTRAS = {"compiler": ("llvmlite",), "app": ("rich", "matplotlib", "sklearn", "threadpoolctl")}
FILES = sorted(
    p for p in PACKAGE.rglob("*.py") if p.name not in ("__init__.py", "__main__.py") or p.parent != PACKAGE
)


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path):
    """Every module a file imports, at any depth, except for type checking alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            if node.module == "minitorch":
                yield from (f"minitorch.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_only_rooms_below_it(path):
    room = room_of(path)
    assert room in LEVEL, f"{room} has no floor yet: add it to FLOORS"
    for module in imports_of(path):
        parts = module.split(".")
        if parts[0] != "minitorch" or (module == "minitorch" and room in ("proof", "app")):
            continue  # the proof and the command use the library as a user does
        target = parts[1]
        if target == room:
            continue
        if LEVEL[room] > LEVEL["autograd"] and target not in LEVEL:
            continue  # a name of the public front
        assert LEVEL[target] < LEVEL[room], f"{room} must not import {module}"


@pytest.mark.parametrize("path", [p for p in FILES if room_of(p) == "ops"], ids=lambda p: p.name)
def test_ops_know_numpy_alone(path):
    for module in imports_of(path):
        root = module.split(".")[0]
        if root == "minitorch":
            assert module.startswith("minitorch.ops")
        else:
            assert root in ("numpy", "scipy", "cupy") or root in STANDARD, f"ops must not import {module}"


STANDARD = {"__future__", "collections", "functools", "math", "string", "typing"}


# What the command uses where it is installed; imported inside functions, never when a file is read.


def test_the_library_needs_only_numpy_and_scipy():
    for path in FILES:
        extras = EXTRAS.get(room_of(path), ())
        top = ast.parse(path.read_text(encoding="utf-8")).body
        eager = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
        eager |= {node.module for node in top if isinstance(node, ast.ImportFrom)}
        for module in imports_of(path):
            root = module.split(".")[0]
            if root in extras:
                assert module not in eager, f"{path} imports {module} before it is needed"
            else:
                known = root in {"minitorch", *OUTSIDE} or root in sys.stdlib_module_names
                assert known, f"{path} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_each_file_opens_with_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
