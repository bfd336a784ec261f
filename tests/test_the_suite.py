"""What holds of the tests themselves: they stand in the source's rooms, run without PyTorch, and assert something."""

import ast
import functools
import re
from pathlib import Path

import pytest

import minitorch

TESTS = Path(__file__).parent
PACKAGE = Path(minitorch.__file__).parent
FILES = sorted(TESTS.rglob("test_*.py"))
NO_ROOMS = {"support", "programs", "fronts"}  # fronts: the public addresses that are one file each


@functools.lru_cache(maxsize=4)  # (all of them would be a million objects)
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def functions_of(path):
    return [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def asserts(function, helpers):
    """Whether a function asserts, itself or by a call of a helper that does."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("fail", "raises", "warns") or name.startswith("assert_") or name in helpers:
                return True
    return False


@functools.cache
def helpers_of(path):
    """The names in a file that assert when they are called: of its own functions, and of those it imports."""
    found = set()
    for node in ast.walk(tree_of(path)):
        source = TESTS / "support" / f"{node.module}.py" if isinstance(node, ast.ImportFrom) else None
        if source is not None and source.exists():
            found |= {alias.name for alias in node.names} & helpers_of(source)
    own, size = [f for f in functions_of(path) if not f.name.startswith("test_")], -1
    while len(found) > size:  # a helper may call another
        size = len(found)
        found |= {f.name for f in own if asserts(f, found)}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(TESTS)))
def test_every_test_asserts_something(path):
    tests = [f for f in functions_of(path) if f.name.startswith("test_")]
    assert [f.name for f in tests if not asserts(f, helpers_of(path))] == []


def test_pytorch_is_imported_in_one_place():
    for path in sorted(TESTS.rglob("*.py")):
        if not re.search(r"^\s*(import|from)\b.*\btorch\b", path.read_text(encoding="utf-8"), re.M):
            continue
        for node in ast.walk(tree_of(path)):
            names = (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else [getattr(node, "module", "")]
            )
            if any(str(name).split(".")[0] == "torch" for name in names):
                assert path == TESTS / "support" / "pytorch.py", f"{path}: write `from pytorch import torch`"


def test_the_rooms_are_the_sources():
    for path in FILES:
        room = path.parent.relative_to(TESTS)
        if room.parts and room.parts[0] not in NO_ROOMS:
            assert (PACKAGE / room).is_dir(), f"{path}: the source has no room {room}"
