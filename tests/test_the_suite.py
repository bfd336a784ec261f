"""What holds of the tests themselves: they stand in the source's rooms, run without PyTorch, and assert something."""

import ast
from pathlib import Path

import pytest

import minitorch

TESTS = Path(__file__).parent
PACKAGE = Path(minitorch.__file__).parent
FILES = sorted(TESTS.rglob("test_*.py"))
# Helpers of tests/support that assert; a file's own helpers are looked into.
ASSERTING = {
    "agree",
    "assert_same",
    "both",
    "close",
    "same_draws",
    "same_function",
    "same_module",
    "same_on_device",
    "same_refusal",
}
NO_ROOMS = {"support", "programs", "fronts"}  # fronts: the public addresses that are one file each


def functions_of(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def asserts(function, helpers):
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("fail", "raises", "warns") or name.startswith("assert_") or name in helpers:
                return True
    return False


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(TESTS)))
def test_every_test_asserts_something(path):
    functions = functions_of(path)
    helpers, size = set(ASSERTING), 0
    while len(helpers) > size:  # a helper may call another
        size = len(helpers)
        helpers |= {f.name for f in functions if not f.name.startswith("test_") and asserts(f, helpers)}
    tests = [f for f in functions if f.name.startswith("test_")]
    assert [f.name for f in tests if not asserts(f, helpers)] == []


def test_pytorch_is_imported_in_one_place():
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
