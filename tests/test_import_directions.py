"""Imports go one way: each room may use only rooms below it. Read off the syntax trees."""

import ast
import functools
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
    ["fft", "masked", "random", "sparse", "special"],
    ["signal", "amp", "backends", "quasirandom", "settings", "testing"],
    ["autograd"],
    ["cuda"],
    ["cpu", "version"],
    ["accelerator"],
    ["distributed"],
    ["nn"],
    ["optim", "utils", "serialization", "distributions", "func"],
    ["vision", "rare"],
    ["compiler"],
    ["face"],
    ["proof"],
    ["course"],
    ["app"],
]
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
OUTSIDE = {"numpy", "scipy", "cupy"}
# Imported where they are used, and only there; their absence is explained.
EXTRAS = {
    "compiler": ("bytecode", "llvmlite"),
    "distributed": ("mpi4py",),
    "testing": ("hypothesis",),
    "utils": ("tensorboardX",),
    "vision": ("PIL",),
    "course": ("hypothesis",),
    "app": ("rich", "matplotlib", "sklearn", "threadpoolctl"),
}
FILES = sorted(
    p for p in PACKAGE.rglob("*.py") if p.name not in ("__init__.py", "__main__.py") or p.parent != PACKAGE
)


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


class Facts:
    """What a file says of itself. Each file is parsed once, for all tests."""

    def __init__(self, path):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.docstring = ast.get_docstring(tree)
        self.imports = list(imports_in(tree, path))
        # What it imports when it is read; and what a function imports, with the line.
        self.eager = {
            alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names
        }
        self.eager |= {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
        inside = [n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)]
        self.late = [(a.name, n.lineno) for n in inside if isinstance(n, ast.Import) for a in n.names]
        self.late += [(n.module or "", n.lineno) for n in inside if isinstance(n, ast.ImportFrom)]


facts = functools.cache(Facts)


def imports_of(path):
    """Every module a file imports, at any depth, except for type checking alone."""
    return facts(path).imports


def imports_in(tree, path):
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
        if parts[0] != "minitorch" or (module == "minitorch" and room in ("proof", "app", "face")):
            continue  # the proof, the face and the command use the library as a user does
        target = parts[1]
        if target == room:
            continue
        if LEVEL[room] > LEVEL["autograd"] and target not in LEVEL:
            continue  # a name of the public front
        assert LEVEL[target] < LEVEL[room], f"{room} must not import {module}"


# --- inside the compiler --------------------------------------------------------------------------------------

# What each of its rooms may import of the library. Where no room outside the compiler is named, no Tensor is seen.
COMPILER = {
    # (How numbers are added up is said once, in NumPy alone; so is the error function, and which dtypes there are.)
    "ir": ["compiler.ir", "engine.dtypes", "ops.sums", "ops.error_function"],
    "schedule": ["compiler.ir", "compiler.schedule"],
    # (The process's own memory is the engine's to speak to, and so is how exactly to multiply; no Tensor is involved.
    # Polynomials are numbers.)
    "backends": [
        "compiler.ir",
        "compiler.schedule",
        "compiler.backends",
        "engine.dtypes",
        "engine.memory",
        "engine.precision",
        "ops.error_function",
    ],
    # (What `.data` and `.grad` hand out is an array that is spelled as PyTorch does: of Tensors it knows the names.)
    "trace": ["compiler.ir", "compiler.trace", "ops", "engine", "tensor.plain"],
    "call": [""],
}
# Backends know the interface, and not each other (but the GPU's writes LLVM's language, in the words of the CPU's);
# only the file that chooses by name knows them all.
WRITES_WITH = {"cuda": ["compiler.backends.llvm"]}
COMPILER_FILES = [p for p in FILES if room_of(p) == "compiler" and p.parent.name != "compiler"]


def compiler_room(path):
    return path.relative_to(PACKAGE / "compiler").parts[0]


def inner_path(path):
    return str(path.relative_to(PACKAGE / "compiler"))


def is_within(module, room):
    return not room or module == room or module.startswith(f"{room}.")


def library_imports(path):
    """The modules of the library that a file imports, names in a module included, without 'minitorch.'."""
    found = [m.removeprefix("minitorch.") for m in imports_of(path) if m.split(".")[0] == "minitorch"]
    return [m for m in found if m != "minitorch"]


@pytest.mark.parametrize("path", COMPILER_FILES, ids=inner_path)
def test_a_room_of_the_compiler_imports_only_what_it_may(path):
    allowed = COMPILER[compiler_room(path)]
    for module in library_imports(path):
        assert any(is_within(module, room) for room in allowed), f"must not import {module}"


@pytest.mark.parametrize(
    "path",
    [p for p in COMPILER_FILES if compiler_room(p) == "backends" and p.parent.name != "backends"],
    ids=inner_path,
)
def test_a_backend_does_not_know_another(path):
    name = path.relative_to(PACKAGE / "compiler" / "backends").parts[0]
    known = ["compiler.backends.interface", f"compiler.backends.{name}", *WRITES_WITH.get(name, ())]
    for module in library_imports(path):
        if is_within(module, "compiler.backends"):
            assert any(is_within(module, room) for room in known), module


@pytest.mark.parametrize("path", [p for p in COMPILER_FILES if compiler_room(p) == "ir"], ids=inner_path)
def test_the_program_knows_numpy_and_scipy_alone(path):
    for module in imports_of(path):
        root = module.split(".")[0]
        assert root in {"minitorch", "numpy", "scipy"} or root in sys.stdlib_module_names, module


@pytest.mark.parametrize("path", COMPILER_FILES, ids=inner_path)
def test_the_compiler_imports_at_the_top(path):
    """An import inside a function hides a cycle; only what is optional, or slow and rarely needed, waits there."""
    late = {"bytecode", "cupy", "llvmlite", "scipy"}
    for name, line in facts(path).late:
        assert name.split(".")[0] in late, f"{name}, in line {line}"


@pytest.mark.parametrize("path", [p for p in FILES if room_of(p) == "ops"], ids=lambda p: p.name)
def test_ops_know_numpy_alone(path):
    for module in imports_of(path):
        root = module.split(".")[0]
        if root == "minitorch":
            assert module.startswith("minitorch.ops")
        else:
            assert root in ("numpy", "scipy", "cupy") or root in STANDARD, f"ops must not import {module}"


STANDARD = {
    "__future__",
    "collections",
    "concurrent",
    "contextvars",
    "functools",
    "math",
    "os",
    "string",
    "typing",
}


# What the command uses where it is installed; imported inside functions, never when a file is read.


def test_the_library_needs_only_numpy_and_scipy():
    for path in FILES:
        extras = EXTRAS.get(room_of(path), ())
        for module in imports_of(path):
            root = module.split(".")[0]
            if root in extras:
                assert module not in facts(path).eager, f"{path} imports {module} before it is needed"
            else:
                known = root in {"minitorch", *OUTSIDE} or root in sys.stdlib_module_names
                assert known, f"{path} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_each_file_opens_with_what_it_is(path):
    assert facts(path).docstring
