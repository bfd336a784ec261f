"""The site: it builds, no link is broken, search finds, and a page leads to its translation."""

import html
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from chromium import Browser

ROOT = Path(__file__).parents[2]


def load():
    spec = importlib.util.spec_from_file_location("site_build", ROOT / "docs" / "site" / "build.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "site"
    load().Site().build(folder)
    return folder


def test_the_pages_are_there(site):
    for name in (
        "index.html", "guide.html", "course.html", "labs/01-node.html", "derivations/softmax.html", "api/tensor.html",
        "api/nn.functional.html", "operators.html", "conventions.html", "compiling.html", "benchmarks.html",
        "coming-from-pytorch.html", "es/guide.html", "es/labs/23-compare.html", "source/src/minitorch/course/tensor.py.html",
    ):  # fmt: skip
        assert (site / name).stat().st_size > 1000, name


def test_no_link_is_broken(site):
    anchors = {}
    for path in site.rglob("*.html"):
        anchors[path] = set(re.findall(r'\bid="?([^"\s>]+)', path.read_text(encoding="utf-8")))
    broken = []
    for path in anchors:
        for target in re.findall(r'(?:href|src)="([^"]*)"', path.read_text(encoding="utf-8")):
            if re.match(r"https?:|data:|mailto:", target):
                continue
            file, _, anchor = html.unescape(target).partition("#")
            there = (path.parent / file).resolve() if file else path
            if not there.is_file() or (anchor and there.suffix == ".html" and anchor not in anchors[there]):
                broken.append(f"{path.relative_to(site)} → {target}")
    assert broken == []


def test_nothing_is_fetched_from_elsewhere(site):
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', text), path


def test_a_broken_link_stops_the_build_and_strangers_folders_are_left_alone(tmp_path):
    module = load()
    built = module.Site()
    page = next(p for p in built.pages if p.source == "docs/guide.md")
    with pytest.raises(ValueError, match="which does not exist"):
        built.link(page, "nowhere.md")
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit, match="not empty"):
        built.build(tmp_path)
    assert (tmp_path / "mine.txt").exists()


def test_search_and_the_switch_of_language(site):
    with Browser() as browser:
        page = browser.open(site / "labs" / "09-softmax.html")
        page.press("/")
        page.type("unbroadcast")
        assert "Undoing a broadcast" in page.text("#found")
        page.press("Enter")
        page.wait("document.title.includes('broadcast') && document.documentElement?.dataset.ready === 'yes'")
        page.click(".switch")
        page.wait(
            "document.documentElement?.lang === 'es' && document.documentElement?.dataset.ready === 'yes'"
        )
        page = browser.open(site / "index.html", width=390, height=844)
        assert page.run("document.documentElement.scrollWidth") <= 390
