"""What README and docs name is there: files, make's targets, the command's words and options."""

import re
import shlex
from pathlib import Path

import pytest

from minitorch.app import command
from minitorch.app.experiments import find

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)


def quoted(page):
    """All that a page shows as code: in the line, and in its blocks, line by line."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    inline = re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    return [" ".join(code.split()) for code in inline] + [
        line for block in blocks for line in block.splitlines()
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_exist(page):
    rooms = r"(?:\.?/)?((?:src|tests|docs|benchmarks|examples)/[\w./*-]*)"
    named = [match[1] for code in quoted(page) if (match := re.fullmatch(rooms, code))]
    new = re.findall(r"new file,\s`([^`]+)`", page.read_text(encoding="utf-8"))  # to be written by the reader
    links = re.findall(r"\]\((?!http)([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [name for name in named if name not in new and not list(ROOT.glob(name.rstrip("/")))]
    missing += [link for link in links if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_of_make_exist(page):
    named = [match[1] for code in quoted(page) if (match := re.match(r"make ([a-z][\w-]*)", code))]
    assert set(named) <= set(TARGETS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_understood(page):
    for code in quoted(page):
        words = re.match(
            r"(?:\w+=\w+ )?(?:\.venv/bin/)?minitorch ((?:check|train|list|bench|learn|explore)\b.*)", code
        )
        if words:
            chosen = command.parser().parse_args(shlex.split(words[1].partition("#")[0]))
            if chosen.command == "train" and chosen.name != "NAME":
                assert find(chosen.name)


def test_the_readmes_rooms_are_those_of_the_tree():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("| room | what is there |")[2].partition("\n\n")[0]
    named = {name.rstrip("/") for name in re.findall(r"`([\w/]+(?:/|\.py))`", table)}
    package = ROOT / "src" / "minitorch"
    assert [name for name in sorted(named) if not (package / name).exists()] == []
    rooms = {path.parent.relative_to(package).parts for path in package.rglob("__init__.py")} - {()}
    rooms = {parts[:2] if parts[0] == "compiler" else parts[:1] for parts in rooms} - {("compiler",)}
    assert {"/".join(parts) for parts in rooms} <= named
