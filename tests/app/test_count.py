"""The count of code lines, and the path through the core that README walks."""

import functools
import re
from pathlib import Path

import pytest

from minitorch.app import count

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("", 0),
        ("# only words\n\n", 0),
        ('"""A module."""\n', 0),
        ("x = 1\n", 1),
        ("x = '''two\nlines'''\n", 2),
        ('def f():\n    """What."""\n\n    # why\n    return 1\n', 2),
        ('class A:\n    """What.\n\n    More.\n    """\n\n    x = 1\n    "no docstring"\n', 3),
        ("f(\n    1,  # one\n\n    2,\n)\n", 4),
    ],
)
def test_code_lines(source, lines):
    assert count.code_lines(source) == lines


def test_every_file_is_in_one_room(monkeypatch):
    monkeypatch.setattr(count, "code_lines", functools.cache(count.code_lines))  # each file is parsed once
    everything = count.rooms()
    assert sum(everything.values()) == count.count(count.PACKAGE.rglob("*.py"))
    assert {"ops", "engine", "tensor", "compiler/ir", "compiler/backends/llvm", "public addresses"} <= set(
        everything
    )
    text = count.report()
    assert text.count("in all") == 2


def test_the_readme_walks_the_core_in_this_order():
    assert [name for name in count.CORE if not (count.PACKAGE / name).is_file()] == []
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\d+\. .*", readme, re.M)
    path = [name for step in steps for name in re.findall(r"`([\w/]+\.py)`", step)]
    assert tuple(path) == count.CORE
    assert "make count" in readme
