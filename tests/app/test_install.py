"""The distribution's name, its extras, and every `pip install` a reader may copy: each works from this checkout."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PAGES = sorted(
    path
    for pattern in ("*.md", "Makefile", "docs/**/*.*", "examples/**/*", "benchmarks/*.py", "src/**/*.py")
    for path in ROOT.glob(pattern)
    if path.is_file()
)


def test_the_distribution_has_a_name_of_its_own():
    assert PROJECT["name"] == "minitorch-numpy"  # `minitorch` on PyPI is another project
    assert PROJECT["scripts"] == {"minitorch": "minitorch.app.command:main"}
    for extra, needs in EXTRAS.items():
        for need in needs:
            if need.startswith("minitorch"):
                own = re.fullmatch(r"minitorch-numpy\[(\w+(?:,\w+)*)\]", need)
                assert own, (extra, need)
                assert set(own[1].split(",")) <= set(EXTRAS)


def test_the_app_can_compile():
    assert "minitorch-numpy[compile]" in EXTRAS["app"]


def wrong_installs(text):
    found = re.findall(r"minitorch\[\w+(?:,\w+)*\]", text)
    for options, what in re.findall(r"pip install((?: --\w+)*) ['\"]?(\.\S*|minitorch\S*)", text):
        local = re.match(r"\.(?:\[([\w,]+)\])?(?![\w/])", what)
        if not local or not set((local[1] or "test").split(",")) <= EXTRAS.keys():
            found.append(f"pip install{options} {what}")
    return found


def test_every_pip_install_works_from_this_checkout():
    wrong = {str(p.relative_to(ROOT)): wrong_installs(p.read_text(encoding="utf-8")) for p in PAGES}
    assert len(wrong) > 100
    assert {path: found for path, found in wrong.items() if found} == {}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("pip install .", 0),
        ("`pip install '.[compile]'` brings", 0),
        ("pip install --quiet --editable '.[test,lint]'", 0),
        ("pip install 'minitorch[compile]'", 2),
        ("pip install minitorch", 1),
        ("pip install '.[gpus]'", 1),
        ("pip install into a fresh environment", 0),
    ],
)
def test_wrong_ones_would_be_found(text, wrong):
    assert len(wrong_installs(text)) == wrong
