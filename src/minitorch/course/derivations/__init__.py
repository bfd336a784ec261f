"""The derivations: where each rule comes from. Enters: an op's name. Leaves: its page, as Markdown or as HTML.

A page is a text beside this file, with places for what is written elsewhere: `<!-- rule: exp -->` becomes the lines
that declare the op, `<!-- function: unbroadcast -->` a function's lines, `<!-- kinks: relu -->` the rows of the
conventions whose case begins so. Its numbers are doctests. The explorer, the certificate and the site show them filled.
"""

from __future__ import annotations

import functools
import inspect
import re
from pathlib import Path

from minitorch.course.markdown import to_html
from minitorch.course.rules import declarations
from minitorch.ops import op
from minitorch.proof.conventions import KINKS, Kink

FOLDER = Path(__file__).parent
FUNCTIONS = {"unbroadcast": op.unbroadcast}


@functools.cache
def pages() -> dict[str, str]:
    """Return the text of every page by its name, as it was written."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}


@functools.cache
def page_of() -> dict[str, str]:
    """Return, by an op's name, the page that derives it.

    >>> page_of()["exp"], page_of()["matmul"]
    ('exponential', 'matmul')
    """
    found: dict[str, str] = {}
    for name, text in pages().items():
        match = re.match(r"<!-- ops: (.*) -->", text)
        found.update(dict.fromkeys(match[1].split() if match else [], name))
    return found


def title(name: str) -> str:
    """Return a page's title.

    >>> title("gelu")
    'gelu, both ways'
    """
    return next(line.removeprefix("# ") for line in pages()[name].splitlines() if line.startswith("# "))


def markdown(name: str) -> str:
    """Return a page with all its places filled."""
    text = re.sub(r"\A<!-- ops: .*-->\n", "", pages()[name])
    text = re.sub(r"(?:^<!-- rule: .* -->\n)+", _rules, text, flags=re.MULTILINE)
    return re.sub(r"^<!-- (function|kinks): (.*) -->$", _fill, text, flags=re.MULTILINE)


def _rules(place: re.Match[str]) -> str:
    names = re.findall(r"rule: (\S+)", place[0])
    lines = "\n\n".join(_bare(declarations()[name]) for name in names)
    head = "The rule, as it runs:" if len(names) == 1 else "The rules, as they run:"
    return f"{head}\n\n```python\n{lines}\n```\n"


def _fill(place: re.Match[str]) -> str:
    kind, what = place.groups()
    if kind == "function":
        return f"```python\n{_bare(inspect.getsource(FUNCTIONS[what])).strip()}\n```\n"
    rows = [kink for kink in KINKS if any(kink.case.startswith(start) for start in what.split())]
    if not rows:
        raise KeyError(f"no row of the conventions begins with one of {what}")
    lines = [f"| {row.case} | {_numbers(row)} | {row.jax} |" for row in rows]
    return "**Where mathematics leaves a choice.**\n\n| case | gradient | JAX |\n|---|---|---|\n" + "\n".join(
        lines
    )


def _bare(lines: str) -> str:
    """Leave docstrings out: the page says it in its own words."""
    return re.sub(r'^ *"""[^"]*"""\n', "", lines, flags=re.MULTILINE)


def _numbers(row: Kink) -> str:
    return "; ".join(", ".join(f"{value:g}" for value in gradient) for gradient in row.gradients)


def html(name: str) -> str:
    """Return a page as HTML, to stand inside another; the other pages, which are not there, are not linked."""
    return to_html(markdown(name), link=lambda target: None, top=3)


def index() -> str:
    """Return the list of all pages, as Markdown."""
    ops: dict[str, list[str]] = {}
    for each, name in page_of().items():
        ops.setdefault(name, []).append(f"`{each}`")
    lines = [f"- [{title(name)}]({name}.md): {', '.join(ops[name])}" for name in pages()]
    return (
        "# Derivations\n\nWhere the rules come from, by indices, with the lines that run and numbers to check.\n\n"
        + "\n".join(lines)
        + "\n"
    )
