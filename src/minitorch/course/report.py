"""What is said of results. Enters: results, a language. Leaves: lines for a terminal; a `Report`."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from minitorch.course.findings import Result
from minitorch.course.words import check_name, mistake, word

WIDTH = 96


@dataclass(frozen=True)
class Report:
    """All results of a run, in order; printed, it explains what is wrong."""

    results: tuple[Result, ...]
    language: str = "en"

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(result.ok for result in self.results)

    @property
    def mistakes(self) -> list[str]:
        """The names of what is wrong, in the order found."""
        return [result.mistake for result in self.results if result.mistake]

    def __str__(self) -> str:
        return render(self.results, self.language)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


FACTS = ("program", "inputs", "arriving", "expected", "got", "error", "line")


def render(results: Iterable[Result], language: str = "en") -> str:
    """Return results as lines for a terminal: what passed, and of what did not, everything that helps."""
    lines: list[str] = []
    lab = ""
    for result in results:
        if result.lab != lab:
            lab = result.lab
            lines.append(lab)
        lines.append(render_one(result, language))
    return "\n".join(lines)


def render_one(result: Result, language: str = "en") -> str:
    """Return one result as lines for a terminal."""
    name = check_name(language, result.check)
    if result.skipped:
        return f"  –  {name}: {word(language, 'skipped', missing=result.skipped)}"
    if result.ok:
        lines = [f"  ok {name}"]
        if result.note:
            title, text = mistake(language, result.note)
            lines += _wrapped(f"{title}. {text}", "     ")
        return "\n".join(lines)
    title, text = mistake(language, result.mistake)
    what = result.facts.get("what", "")
    lines = [f"  ✗  {name}", "", *_wrapped(f"{title}  [{result.mistake}]", "     ")]
    if what:
        lines += _wrapped(what, "     → ")
    if any(result.facts.get(key) for key in FACTS):
        lines.append("")
    heads = {key: word(language, f"fact-{key}") for key in FACTS}
    width = max(len(head) for head in heads.values()) + 2
    for key in FACTS:
        if result.facts.get(key):
            first, *rest = result.facts[key].splitlines()
            lines.append(f"     {heads[key]:{width}}{first}")
            lines += [" " * (5 + width) + line for line in rest]
    lines += ["", *_wrapped(text, "     ")]
    return "\n".join(lines)


def _wrapped(text: str, indent: str) -> list[str]:
    paragraphs = re.split(r"\n\s*\n", text)
    lines: list[str] = []
    for i, paragraph in enumerate(paragraphs):
        if i:
            lines.append("")
        lines += textwrap.wrap(
            " ".join(paragraph.split()), WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent),
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    return lines
