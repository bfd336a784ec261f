"""The derivations: a page for each op of the course, made from the source that runs."""

import re

import pytest

from minitorch.app import command
from minitorch.course import derivations
from minitorch.course.rules import declarations
from minitorch.ops import OPS

COURSE = (
    "add sub mul div neg pow exp log relu gelu tanh sum mean amax reshape permute broadcast_to getitem cat stack matmul "
    "softmax cross_entropy"
)
FAMILIES = "gelu_tanh normalize convolution gather scatter_add norm logsumexp maximum"


def test_every_op_of_the_course_is_derived():
    assert set(f"{COURSE} {FAMILIES}".split()) <= set(derivations.page_of())
    assert set(derivations.page_of()) - set(OPS) <= {"max", "transpose"}


@pytest.mark.parametrize("name", derivations.pages())
def test_a_page_says_all_of_it(name):
    text = derivations.markdown(name)
    for part in ("**What ", "**The derivation.**", "**Numbers.**", "**Exercises.**", ">>> "):
        assert part in text
    assert "<!--" not in text
    assert re.search(r"^    .*[=→]", text, re.MULTILINE)
    links = re.findall(r"\]\(([\w-]+)\.md\)", text)
    assert set(links) <= set(derivations.pages())
    shown = "\n".join(re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE))
    for op in re.findall(r"<!-- rule: (\S+)", derivations.pages()[name]):
        assert declarations()[op].splitlines()[-1] in shown


@pytest.mark.parametrize("name", derivations.pages())
def test_html_is_well_formed(name):
    text = derivations.html(name)
    for tag in ("p", "pre", "table", "h3", "b", "code"):
        assert len(re.findall(rf"<{tag}[ >]", text)) == text.count(f"</{tag}>")
    assert not re.search(r"\*\*\S", re.sub(r"<(pre|code)[^>]*>.*?</\1>", "", text, flags=re.DOTALL))


def test_the_certificate_unfolds_a_derivation(tmp_path, capsys):
    code = command.main(["check", "--only", "softmax", "--trials", "1", "--html", str(tmp_path / "c.html")])
    assert code == 0
    assert "softmax" in capsys.readouterr().out
    assert (
        '<summary><code>softmax</code></summary><h3 id="softmax-and-its-jacobian">Softmax and its Jacobian</h3>'
        in (tmp_path / "c.html").read_text()
    )
