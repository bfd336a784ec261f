"""Markdown, as far as these documents use it. Enters: text. Leaves: HTML.

Headings, paragraphs, lists (nested by indentation), tables, fenced and indented code; inline code, bold, italic, links.
A `link` function decides what becomes of each target, and may drop a link by returning None.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator

Link = Callable[[str], str | None]
ITEM = re.compile(r"( *)([-*]|\d+\.) +(.*)")


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it.

    >>> slug("What is proven, and how"), slug("`backward()` walks back")
    ('what-is-proven-and-how', 'backward-walks-back')
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def to_html(text: str, link: Link = lambda target: target, top: int = 1) -> str:
    """Return a document as HTML. top: the level that a first-level heading gets.

    >>> to_html("# A *title*")
    '<h1 id="a-title">A <i>title</i></h1>'
    """
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    return "\n".join(_blocks(text.splitlines(), link, top))


def _blocks(lines: list[str], link: Link, top: int) -> Iterator[str]:
    i = 0
    while i < len(lines):
        line = lines[i]
        if not line.strip():
            i += 1
        elif line.startswith("```"):
            end = next((j for j in range(i + 1, len(lines)) if lines[j].startswith("```")), len(lines))
            yield _code(lines[i + 1 : end])
            i = end + 1
        elif line.startswith("    "):
            end = _while(lines, i, lambda each: each.startswith("    ") or not each.strip())
            yield _code([each[4:] for each in lines[i:end]], "formula")
            i = end
        elif match := re.match(r"(#{1,6}) +(.*)", line):
            level = min(6, len(match[1]) + top - 1)
            yield f'<h{level} id="{slug(match[2])}">{inline(match[2], link)}</h{level}>'
            i += 1
        elif _begins_table(lines, i):
            end = _while(lines, i, lambda each: each.startswith("|"))
            yield _table(lines[i:end], link)
            i = end
        elif ITEM.match(line):
            end = _while(lines, i, lambda each: bool(each.strip()))
            yield _list(lines[i:end], link)
            i = end
        else:
            end = i + 1
            while end < len(lines) and not _interrupts(lines, end):
                end += 1
            yield f"<p>{inline(' '.join(each.strip() for each in lines[i:end]), link)}</p>"
            i = end


def _begins_table(lines: list[str], i: int) -> bool:
    """A row, and below it a row of dashes; |x| alone is a formula."""
    return lines[i].startswith("|") and i + 1 < len(lines) and bool(re.fullmatch(r"\|[|:\- ]+", lines[i + 1]))


def _interrupts(lines: list[str], i: int) -> bool:
    """Whether a line ends the paragraph before it."""
    line = lines[i]
    begins = re.match(r"```|#{1,6} ", line) or ITEM.match(line)
    return not line.strip() or bool(begins) or _begins_table(lines, i)


def _while(lines: list[str], start: int, holds: Callable[[str], bool]) -> int:
    return next((j for j in range(start, len(lines)) if not holds(lines[j])), len(lines))


def _code(lines: list[str], kind: str = "") -> str:
    text = "\n".join(lines).rstrip()
    return f"<pre{f' class={kind}' if kind else ''}>{html.escape(text, quote=False)}</pre>"


def _cells(row: str) -> list[str]:
    # A bar inside inline code is not a border.
    kept = re.sub(r"`[^`]*`", lambda code: code[0].replace("|", "\0"), row.strip().strip("|"))
    return [cell.strip().replace("\0", "|") for cell in kept.split("|")]


def _table(lines: list[str], link: Link) -> str:
    head, *rest = [line for line in lines if not re.fullmatch(r"[|:\- ]+", line)] or [""]

    def row(line: str, tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{inline(cell, link)}</{tag}>" for cell in _cells(line)) + "</tr>"

    return f"<table>{row(head, 'th')}{''.join(row(line, 'td') for line in rest)}</table>"


def _list(lines: list[str], link: Link) -> str:
    first = ITEM.match(lines[0])
    indent, ordered = (len(first[1]), first[2][0].isdigit()) if first else (0, False)
    items: list[list[str]] = []
    for line in lines:
        match = ITEM.match(line)
        if match and len(match[1]) <= indent:
            items.append([match[3]])
        else:
            items[-1].append(line)
    parts = []
    for head, *rest in items:
        inner = next((j for j, line in enumerate(rest) if ITEM.match(line)), len(rest))
        text = " ".join([head, *(line.strip() for line in rest[:inner])])
        nested = _list(rest[inner:], link) if rest[inner:] else ""
        parts.append(f"<li>{inline(text, link)}{nested}</li>")
    tag = "ol" if ordered else "ul"
    return f"<{tag}>{''.join(parts)}</{tag}>"


def inline(text: str, link: Link = lambda target: target) -> str:
    """Return a line's text as HTML.

    >>> inline("**bold**, `a * b` and [here](x.md)")
    '<b>bold</b>, <code>a * b</code> and <a href="x.md">here</a>'
    """
    kept: list[str] = []

    def keep(piece: str) -> str:
        kept.append(piece)
        return f"\0{len(kept) - 1}\0"

    def code(match: re.Match[str]) -> str:
        return keep(f"<code>{html.escape(match[1].strip() or match[1], quote=False)}</code>")

    def anchor(match: re.Match[str]) -> str:
        target = link(match[2])
        return (
            match[1]
            if target is None
            else keep(f'<a href="{html.escape(target)}">') + match[1] + keep("</a>")
        )

    text = re.sub(r"`([^`]+)`", code, text)
    text = html.escape(text, quote=False)
    text = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", anchor, text)
    text = re.sub(r"\*\*(\S(?:[^*]*\S)?)\*\*", r"<b>\1</b>", text)
    text = re.sub(r"(?<![\w*])\*(\S(?:[^*]*\S)?)\*(?![\w*])", r"<i>\1</i>", text)
    while "\0" in text:
        text = re.sub("\0(\\d+)\0", lambda place: kept[int(place[1])], text)
    return text
