"""Linked programs on disk: found again for the very same program, and for no other; whatever happens to the files."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from minitorch.compiler.backends.llvm import linked, machine
from minitorch.compiler.backends.llvm.assemble import Assembler
from minitorch.compiler.ir import builder as b
from minitorch.compiler.ir.program import Program
from random_ir import F4, given

ARRAYS = [np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(8, dtype=np.float32).reshape(4, 2)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    path = tmp_path / "kept"
    monkeypatch.setenv("MINITORCH_CACHE", str(path))
    monkeypatch.setattr(machine, "_loaded", {})
    monkeypatch.setattr(linked, "enabled", True)
    return path


def product(number=2.0, line=1):
    x, w = given((3, 4), F4), given((4, 2), F4)
    factor = b.constant(np.float32(number))
    y = b.map_values("multiply", b.contract("ij,jk->ik", x, w), b.expand(b.reshape(factor, (1, 1)), (3, 2)))
    y.line = ("file.py", line)
    return Program([x, w], [y])


def built(program, **options):
    """What it gives, and whether it was loaded."""
    machine._loaded.clear()
    native = Assembler(**options).build(program, {})
    out = np.empty((3, 2), np.float32)
    native(ARRAYS, [out])
    return out, list(native.report.seconds) == ["load"]


def test_the_same_program_is_loaded_and_gives_the_same(folder):
    first, loaded = built(product())
    assert not loaded
    second, loaded = built(product())
    assert loaded
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(second, ARRAYS[0] @ ARRAYS[1] * 2, rtol=1e-6)


def test_the_report_is_the_same():
    reports = [Assembler().build(product(), {}).report for _ in range(2)]
    assert "load" in reports[1].seconds
    same = [replace(r, seconds={}, last=0.0) for r in reports]
    assert same[0] == same[1]


@pytest.mark.parametrize("other", [{"number": 3.0}, {"line": 2}], ids=str)
def test_another_program_is_not_taken_for_it(other):
    built(product())
    result, loaded = built(product(**other))
    assert not loaded
    np.testing.assert_allclose(result, ARRAYS[0] @ ARRAYS[1] * other.get("number", 2.0), rtol=1e-6)


def test_updates_numbers_threads_and_fusing_tell_programs_apart():
    program, here = product(), ("a machine",)
    keys = {
        linked.key(program, updates, numbers, machine)
        for updates, numbers, machine in [
            ({}, (), here), ({0: 0}, (), here), ({}, (1,), here), ({}, (), ("another",)),
        ]
    }  # fmt: skip
    assert len(keys) == 4
    assert None not in keys


def test_changed_lines_of_the_compiler_tell_programs_apart(monkeypatch):
    built(product())
    monkeypatch.setattr(linked, "_source", lambda: "other lines")
    assert not built(product())[1]
    monkeypatch.setattr(linked, "_source", lambda: None)
    assert linked.key(product(), {}, (), ()) is None


@pytest.mark.parametrize("damage", [lambda p: p.write_bytes(p.read_bytes()[:-3]), lambda p: p.unlink()])
def test_a_damaged_or_missing_file_means_linking_anew(folder, damage):
    want, _ = built(product())
    for path in folder.iterdir():
        content = path.read_bytes()
        damage(path)
        got, _ = built(product())
        np.testing.assert_array_equal(got, want)
        path.write_bytes(content)


def test_what_calls_python_is_not_kept():
    x = given((3, 4), F4)
    called = b.call(np.cbrt, [x], [ARRAYS[0]], True)
    assert linked.key(Program([x], list(called)), {}, (), ()) is None
