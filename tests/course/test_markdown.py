"""Markdown to HTML: what the documents use, and nothing that they say is lost."""

import html
import re
from pathlib import Path

import pytest

from minitorch.course.markdown import inline, to_html

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/minitorch/course/text/**/*.md")]
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\n\nc", "<p>a b</p>\n<p>c</p>"),
        ("- one\n  more\n- two\n  - inner", "<ul><li>one more</li><li>two<ul><li>inner</li></ul></li></ul>"),
        ("1. a\n2. b", "<ol><li>a</li><li>b</li></ol>"),
        ("| a | b |\n|---|---|\n| `x|y` | 2 |", "<table><tr><th>a</th><th>b</th></tr><tr><td><code>x|y</code></td><td>2</td></tr></table>"),
        ("```python\nx < 1\n```", "<pre>x &lt; 1</pre>"),
        ("text:\n\n    a = b\n    c\n", "<p>text:</p>\n<pre class=formula>a = b\nc</pre>"),
        ("<!-- of: x -->\n## H", '<h2 id="h">H</h2>'),
        ("x ** 0 and 2 * 3 * 4", "<p>x ** 0 and 2 * 3 * 4</p>"),
        ("|x|. A formula", "<p>|x|. A formula</p>"),
        ("intro:\n- a", "<p>intro:</p>\n<ul><li>a</li></ul>"),
    ],
)  # fmt: skip
def test_blocks(text, expected):
    assert to_html(text) == expected


def test_links_can_be_rewritten_or_dropped():
    assert inline("[a](b.md)", lambda target: target.replace(".md", ".html")) == '<a href="b.html">a</a>'
    assert inline("see [a](b.md) & c", lambda target: None) == "see a &amp; c"
    assert inline("`[a](b)` **`c`**") == "<code>[a](b)</code> <b><code>c</code></b>"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_word_of_a_page_is_lost(page):
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    shown = html.unescape(re.sub(r"<[^>]+>", " ", to_html(text)))
    words = set(re.findall(r"[^\W_]{3,}", re.sub(r"\]\([^)]*\)|^```\w*", " ", text, flags=re.MULTILINE)))
    assert words - set(re.findall(r"[^\W_]{3,}", shown)) == set()
    for tag in ("p", "pre", "ul", "ol", "li", "table", "tr", "td", "code", "b", "i", "a"):
        made = to_html(text)
        assert len(re.findall(rf"<{tag}(?=[ >])", made)) == made.count(f"</{tag}>")
