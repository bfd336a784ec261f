"""The documentation as a site. Enters: the repository's pages, the labs, docstrings. Leaves: HTML, with search.

    python docs/site/build.py [FOLDER] [--certificate]      # docs/_site if not given

Plain files that can be opened from the disk: no server, no network, nothing to install. (Sphinx with MyST would bring
some thirty packages to convert pages that use a small part of Markdown; the converter here has 150 lines, and the build
takes seconds.) A link that leads nowhere stops the build. --certificate: prove every op first, and show that too.
"""

from __future__ import annotations

import html
import inspect
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import minitorch
from minitorch.course import derivations
from minitorch.course.labs import LABS
from minitorch.course.markdown import inline, slug, to_html
from minitorch.course.words import page as lab_page
from minitorch.proof import certificate

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MEASURED = ("benchmarks.html", "benchmarks-gpu.html")  # whole pages, as they are
MODULES = (
    "functions", "creation", "random", "nn", "nn.functional", "nn.init", "optim", "optim.lr_scheduler", "autograd",
    "autograd.functional", "autograd.graph", "func", "linalg", "fft", "special", "distributions", "utils.data",
    "serialization", "amp", "cuda", "testing", "testing.strategies", "course",
)  # fmt: skip


@dataclass
class Page:
    """One page of the site. source: the file it comes from, relative to the repository; body: its HTML."""

    url: str
    title: str
    section: str
    source: str = ""
    body: str = ""
    language: str = "en"
    other: str = ""  # the same page in the other language
    markdown: str = field(default="", repr=False)


def repository_pages() -> list[Page]:
    """Return the pages that stand in the repository as Markdown."""
    listed = [
        ("README.md", "index.html", "Start", "minitorch"),
        ("docs/guide.md", "guide.html", "Guide", ""),
        ("docs/coming-from-pytorch.md", "coming-from-pytorch.html", "Guide", ""),
        ("docs/compiling.md", "compiling.html", "Guide", ""),
        ("docs/ranks.md", "ranks.html", "Guide", ""),
        ("docs/func.md", "func.html", "Guide", ""),
        ("docs/conventions.md", "conventions.html", "Reference", ""),
        ("docs/operators.md", "operators.html", "Reference", ""),
        ("docs/benchmarks.md", "benchmarks-explained.html", "Reference", ""),
        ("docs/course.md", "course.html", "Course", ""),
        ("docs/es/guide.md", "es/guide.html", "Guía", ""),
        ("docs/es/course.md", "es/course.html", "Curso", ""),
        ("CONTRIBUTING.md", "contributing.html", "Project", ""),
        ("CHANGELOG.md", "changelog.html", "Project", ""),
    ]
    pages = []
    for source, url, section, title in listed:
        text = (ROOT / source).read_text(encoding="utf-8")
        title = title or next(line[2:] for line in text.splitlines() if line.startswith("# "))
        pages.append(
            Page(url, title, section, source, markdown=text, language="es" if url.startswith("es/") else "en")
        )
    return pages


def derivation_pages() -> list[Page]:
    """Return the derivations, with the rules' lines in their places."""
    folder = "src/minitorch/course/derivations"
    texts = {"index": ("Derivations", derivations.index())}
    texts |= {name: (derivations.title(name), derivations.markdown(name)) for name in derivations.pages()}
    return [
        Page(f"derivations/{name}.html", title, "Derivations", f"{folder}/{name}.md", markdown=text)
        for name, (title, text) in texts.items()
    ]


def lab_pages() -> list[Page]:
    """Return the labs' pages in both languages, their hints folded."""
    pages = []
    for language, prefix, section, word in (
        ("en", "", "Labs", "Hint"),
        ("es", "es/", "Laboratorios", "Pista"),
    ):
        for lab in LABS:
            title, text, hints = lab_page(language, lab)
            body = to_html(text) + "".join(
                f"<details><summary>{word} {i}</summary>{to_html(hint)}</details>"
                for i, hint in enumerate(hints, 1)
            )
            url = f"{prefix}labs/{lab.page.removesuffix('.md')}.html"
            pages.append(Page(url, f"{lab.number}. {title}", section, body=body, language=language))
    return pages


# --- from docstrings --------------------------------------------------------------------------------------------


def documented(text: str) -> str:
    """Return a docstring as HTML: its examples are code, everything else is text."""
    lines, inside = [], False
    for line in text.replace("<BLANKLINE>", "").splitlines():
        if not inside and line.lstrip().startswith(">>>"):
            lines.append("```")
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    fenced = "\n".join([*lines, "```"] if inside else lines)
    # Two spaces before an example are the docstring's, not the code's.
    return to_html(re.sub(r"^ {1,3}```", "```", fenced, flags=re.MULTILINE), link=lambda target: None, top=4)


def signature(name: str, value: Any) -> str:
    """Return how something is called."""
    try:
        shown = str(inspect.signature(value))
    except (ValueError, TypeError):  # a type of NumPy's, or built in
        shown = "(…)"
    shown = re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)
    shown = re.sub(r"\bminitorch\.\w+(?:\.\w+)*\.", "", shown)
    return f"{name}{shown}" if len(shown) < 160 else f"{name}(…)"


def entries(names: dict[str, Any]) -> str:
    """Return functions and classes with their signatures and docstrings."""
    parts = []
    for name, value in sorted(names.items(), key=lambda item: item[0].lower()):
        kind = "class " if inspect.isclass(value) else ""
        parts.append(f'<h3 id="{slug(name)}"><code>{html.escape(kind + signature(name, value))}</code></h3>')
        parts.append(documented(inspect.getdoc(value) or ""))
    return "\n".join(parts)


def api_pages() -> list[Page]:
    """Return a page for each public module, and one for Tensor."""
    pages = []
    for name in MODULES:
        module: Any = minitorch
        for part in name.split("."):
            module = getattr(module, part)
        public = getattr(module, "__all__", None) or [
            each for each in dir(module) if not each.startswith("_")
        ]
        found = {each: getattr(module, each) for each in public}
        found = {
            each: value
            for each, value in found.items()
            if callable(value) and str(getattr(value, "__module__", "")).startswith("minitorch")
        }
        title = "minitorch" if name == "functions" else f"minitorch.{name}"
        body = f"<h1>{title}</h1>{documented(inspect.getdoc(module) or '')}{entries(found)}"
        pages.append(Page(f"api/{name}.html", title, "API", body=body))
    methods = {
        name: value
        for name, value in inspect.getmembers(minitorch.Tensor)
        if not name.startswith("_")
        and (callable(value) or isinstance(value, property))
        and inspect.getdoc(value)
    }
    body = f"<h1>Tensor</h1>{documented(inspect.getdoc(minitorch.Tensor) or '')}{entries(methods)}"
    return [Page("api/tensor.html", "minitorch.Tensor", "API", body=body), *pages]


# --- putting it together ----------------------------------------------------------------------------------------


class Site:
    """All pages, and where each file of the repository is found among them."""

    def __init__(self) -> None:
        self.pages = [*repository_pages(), *lab_pages(), *derivation_pages(), *api_pages()]
        self.urls = {page.source: page.url for page in self.pages if page.source}
        self.urls |= {f"docs/{name}": name for name in MEASURED}
        self.sources: list[str] = []
        self.certificate = ""
        known = {page.url: page for page in self.pages}
        for page in self.pages:
            twin = page.url.removeprefix("es/") if page.language == "es" else f"es/{page.url}"
            page.other = twin if twin in known else ""

    def prove(self) -> None:
        """Make the certificate, and show it as it is."""
        pages = {op: derivations.html(page) for op, page in derivations.page_of().items()}
        self.certificate = certificate.make(trials=1).html(pages)
        self.pages.append(Page("certificate.html", "Certificate of gradients", "Reference"))

    def link(self, page: Page, target: str) -> str:
        """Return a link of a page as it must be in the site."""
        if re.match(r"https?:|#|mailto:", target):
            return target
        path, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(page.source), path)).replace("\\", "/")
        if file not in self.urls and (ROOT / file).is_file():
            self.urls[file] = f"source/{file}.html"
            self.sources.append(file)
        if file not in self.urls:
            raise ValueError(f"{page.source} links to {target}, which does not exist")
        return relative(page.url, self.urls[file]) + (f"#{anchor}" if anchor else "")

    def build(self, folder: Path) -> None:
        """Write everything."""
        if folder.exists() and any(folder.iterdir()) and not (folder / "search.js").exists():
            raise SystemExit(f"{folder} is not empty, and holds no earlier site: give another folder")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for page in self.pages:
            if page.markdown:
                page.body = to_html(page.markdown, link=lambda target, page=page: self.link(page, target))
        for file in self.sources:
            text = html.escape((ROOT / file).read_text(encoding="utf-8"), quote=False)
            self.pages.append(Page(f"source/{file}.html", file, "", body=f"<h1>{file}</h1><pre>{text}</pre>"))
        for page in self.pages:
            path = folder / page.url
            path.parent.mkdir(parents=True, exist_ok=True)
            proven = page.url == "certificate.html"
            path.write_text(self.certificate if proven else self.frame(page), encoding="utf-8")
        for name in MEASURED:
            shutil.copy(ROOT / "docs" / name, folder / name)
        shutil.copy(HERE / "style.css", folder / "style.css")
        script = (HERE / "search.js").read_text(encoding="utf-8")
        (folder / "search.js").write_text(
            f"const INDEX = {json.dumps(self.index())};\n{script}", encoding="utf-8"
        )

    def index(self) -> list[list[str]]:
        """Return what search looks through: for each part of a page its address, page, heading and beginning."""
        found = []
        for page in self.pages:
            if page.section:
                for i, part in enumerate(re.split(r"(?=<h[1-3][ >])", page.body)):
                    head = re.match(r'<h[1-3](?: id="([^"]*)")?>(.*?)</h[1-3]>', part, re.DOTALL)
                    words = html.unescape(re.sub(r"<[^>]+>", " ", part[head.end() :] if head else part))
                    heading = html.unescape(re.sub(r"<[^>]+>", "", head[2])) if head else ""
                    anchor = f"#{head[1]}" if head and head[1] and i > 1 else ""
                    text = " ".join(words.split())[:600]
                    if heading or text:
                        found.append([page.url + anchor, page.title, heading, text])
        return found

    def frame(self, page: Page) -> str:
        """Return a page with navigation around it."""
        sections: dict[str, list[Page]] = {}
        for each in self.pages:
            if each.section and each.language == page.language:
                sections.setdefault(each.section, []).append(each)
        navigation = []
        for section, pages in sections.items():
            here = " open" if page.section == section else ""
            links = "".join(
                f'<li><a href="{relative(page.url, each.url)}"{" class=here" if each is page else ""}>'
                f"{inline(each.title)}</a></li>"
                for each in pages
            )
            navigation.append(f"<details{here}><summary>{section}</summary><ul>{links}</ul></details>")
        home = "index.html" if page.language == "en" else "es/guide.html"
        switch = ""
        if page.other:
            word = "Español" if page.language == "en" else "English"
            switch = f'<a class=switch href="{relative(page.url, page.other)}">{word}</a>'
        root = relative(page.url, "")
        search = "Search" if page.language == "en" else "Buscar"
        return f"""<!doctype html>
<html lang={page.language}><meta charset=utf-8><meta name=viewport content="width=device-width,initial-scale=1">
<title>{html.escape(page.title)} · minitorch</title><link rel=stylesheet href="{root}style.css">
<header><a class=home href="{relative(page.url, home)}">minitorch</a>
<input id=search type=search placeholder="{search}  /" aria-label="{search}" autocomplete=off>{switch}
<ol id=found hidden></ol></header>
<div class=all><nav><details class=menu open><summary>☰</summary>{"".join(navigation)}</details></nav><main>
{page.body}
</main></div><script>const ROOT = "{root}";</script><script src="{root}search.js"></script></html>
"""


def relative(from_url: str, to_url: str) -> str:
    """Return the way from one page to another.

    >>> relative("es/labs/a.html", "index.html"), relative("index.html", "")
    ('../../index.html', '')
    """
    up = "../" * from_url.count("/")
    return up + to_url


if __name__ == "__main__":
    places = [word for word in sys.argv[1:] if not word.startswith("-")]
    site = Site()
    if "--certificate" in sys.argv:
        site.prove()
    site.build(Path(places[0]) if places else ROOT / "docs" / "_site")
