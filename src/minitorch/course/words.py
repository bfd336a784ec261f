"""The course's words in a reader's language. Enters: names of labs, checks and mistakes. Leaves: text to read.

All text is in text/LANGUAGE: words.toml (the command's own words, and what checks are called), mistakes.toml, labs/*.md
(a page, then its hints), and the two files that a learner starts from. English is the original; every part of another
language says of which English text it is the translation, by a fingerprint, so that a test can find what is stale.
"""

from __future__ import annotations

import functools
import hashlib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from minitorch.course.labs import Lab

TEXT = Path(__file__).parent / "text"
LANGUAGES = tuple(sorted(path.name for path in TEXT.iterdir() if path.is_dir())) if TEXT.is_dir() else ()


def fingerprint(text: str) -> str:
    """Return eight letters that change when the text does.

    >>> fingerprint("a text"), fingerprint("a text") == fingerprint(" a  text ")
    ('...', True)
    """
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:8]


@functools.cache
def table(language: str, name: str) -> dict[str, Any]:
    """Return a table of text/LANGUAGE/NAME.toml."""
    with open(TEXT / language / f"{name}.toml", "rb") as file:
        return tomllib.load(file)


def word(language: str, key: str, **values: Any) -> str:
    """Return one of the command's sentences."""
    return str(table(language, "words")["words"][key]["text"]).format(**values)


def check_name(language: str, check: str) -> str:
    """Return what a check is called: an expression is its own name."""
    entry = table(language, "words")["checks"].get(check)
    return str(entry["text"]) if entry else check.rstrip("'")


def mistake(language: str, name: str) -> tuple[str, str]:
    """Return a mistake's title, and what it means and how it is mended."""
    entry = table(language, "mistakes")[name]
    return entry["title"], entry["text"].strip()


# --- pages -------------------------------------------------------------------------------------------------


@functools.cache
def page(language: str, lab: Lab) -> tuple[str, str, tuple[str, ...]]:
    """Return a lab's title, its page, and its hints."""
    text = (TEXT / language / "labs" / lab.page).read_text(encoding="utf-8")
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    body, *hints = re.split(r"^## (?:Hint|Pista) \d+\n", text, flags=re.MULTILINE)
    title = body.lstrip().splitlines()[0].removeprefix("# ").strip()
    return title, body.strip() + "\n", tuple(hint.strip() for hint in hints)


def skeleton(language: str, file: str) -> str:
    """Return the file that a learner starts from."""
    text = (TEXT / language / f"{file}.txt").read_text(encoding="utf-8")
    return re.sub(r"\A# translated from .*\n", "", text)


# --- translations ------------------------------------------------------------------------------------------


def parts(language: str) -> dict[str, tuple[str, str]]:
    """Return every part of a language: its text, and the fingerprint of the English text it is a translation of."""
    found: dict[str, tuple[str, str]] = {}
    for name in ("words", "mistakes"):
        for key, entry in _entries(table(language, name)):
            text = "\n".join(str(value) for field, value in sorted(entry.items()) if field != "of")
            found[f"{name}.toml: {key}"] = text, entry.get("of", "")
    for path in sorted((TEXT / language / "labs").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        of = re.match(r"<!-- of: (\w+) -->\n", text)
        found[f"labs/{path.name}"] = re.sub(r"\A<!-- of: .*-->\n", "", text), of[1] if of else ""
    for path in sorted((TEXT / language).glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        of = re.match(r"# translated from (\w+)\n", text)
        found[path.name] = re.sub(r"\A# translated from .*\n", "", text), of[1] if of else ""
    return found


def _entries(tree: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, dict[str, Any]]]:
    for key, value in tree.items():
        if any(isinstance(inner, dict) for inner in value.values()):
            yield from _entries(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def out_of_step(language: str) -> list[str]:
    """Return what a language lacks, has too much, or translates from an English text that has changed since."""
    english, other = parts("en"), parts(language)
    problems = [f"missing: {key}" for key in english if key not in other]
    problems += [f"not in English: {key}" for key in other if key not in english]
    for key in english.keys() & other.keys():
        right = fingerprint(english[key][0])
        if other[key][1] != right:
            problems.append(f"stale: {key} (its English text is now {right})")
    return sorted(problems)
