"""Two languages in step: nothing missing, nothing stale, the same code and the same blanks to fill."""

import ast
import re
import shutil
from pathlib import Path

import pytest

from minitorch.app import command
from minitorch.course import tensor, words
from minitorch.course.broken import edited
from minitorch.course.check import check
from minitorch.course.labs import LABS

OTHERS = [language for language in words.LANGUAGES if language != "en"]


def test_there_are_two():
    assert set(words.LANGUAGES) == {"en", "es"}


@pytest.mark.parametrize("language", OTHERS)
def test_every_part_is_translated_from_the_english_of_today(language):
    assert words.out_of_step(language) == []


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The texts, in a place where they can be changed."""
    shutil.copytree(words.TEXT, tmp_path / "text")
    monkeypatch.setattr(words, "TEXT", tmp_path / "text")
    words.table.cache_clear()
    yield tmp_path / "text"
    words.table.cache_clear()


def test_what_is_missing_or_stale_is_found(copied):
    assert words.out_of_step("es") == []
    page = copied / "en" / "labs" / "08-matmul.md"
    page.write_text(page.read_text().replace("every rank", "any rank"))
    toml = copied / "en" / "mistakes.toml"
    toml.write_text(toml.read_text() + '\n[brand-new]\ntitle = "New"\ntext = "Of today."\n')
    (copied / "es" / "labs" / "99-extra.md").write_text("# Extra\n")
    words.table.cache_clear()
    problems = words.out_of_step("es")
    assert [p.partition(" (")[0] for p in problems] == [
        "missing: mistakes.toml: brand-new",
        "not in English: labs/99-extra.md",
        "stale: labs/08-matmul.md",
    ]


@pytest.mark.parametrize("language", OTHERS)
def test_sentences_have_the_same_blanks(language):
    english, other = words.parts("en"), words.parts(language)
    for key, (text, _) in english.items():
        if key.startswith("words.toml"):
            assert set(re.findall(r"\{[^}]*\}", text)) == set(re.findall(r"\{[^}]*\}", other[key][0])), key


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_pages_show_the_same_code_and_have_as_many_hints(language, lab):
    title, body, hints = words.page("en", lab)
    other_title, other_body, other_hints = words.page(language, lab)
    assert title != other_title or lab.name in ("adam", "elementwise")
    assert len(hints) == len(other_hints) == 3
    for one, two in zip([body, *hints], [other_body, *other_hints], strict=True):
        assert _programs(one) == _programs(two)
        assert one.count("\n| ") == two.count("\n| ")
    assert "## " not in body.replace("### ", "")


def _programs(text):
    """The Python blocks, without their comments."""
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [[line.partition("#")[0].rstrip() for line in block.splitlines()] for block in blocks]


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("file", ["tensor.py", "practice.py"])
def test_skeletons_are_the_same_program(language, file):
    def shape(text):
        strings = (n for n in ast.walk(ast.parse(text)) if not isinstance(n, ast.Constant))
        return [(type(n).__name__, getattr(n, "name", "")) for n in strings]

    assert shape(words.skeleton("en", file)) == shape(words.skeleton(language, file))


def test_a_diagnosis_in_spanish():
    report = check(edited(("self.grad + contribution", "contribution")), "add-mul", language="es")
    said = str(report)
    assert "falta el +=" in said
    assert "esperado  x.grad = 2." in said
    assert check(tensor, "softmax", language="es").ok


def test_a_folder_in_spanish_stays_spanish(tmp_path, capsys):
    assert command.main(["learn", "start", str(tmp_path / "mío"), "--lang", "es"]) == 0
    assert "está lista" in capsys.readouterr().out
    assert "El nodo" in (tmp_path / "mío" / "labs" / "01-node.md").read_text()
    assert command.main(["learn", "hint", "order", "--folder", str(tmp_path / "mío")]) == 0
    assert "pista 1 de 3" in capsys.readouterr().out
    assert command.main(["learn", "--folder", str(tmp_path / "mío"), "--lang", "en"]) == 0
    assert "The node" in capsys.readouterr().out


# --- the documents ------------------------------------------------------------------------------------------------------

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["guide.md", "course.md"])
def test_the_guide_is_translated_from_the_english_of_today(name):
    english, spanish = (path.read_text(encoding="utf-8") for path in (DOCS / name, DOCS / "es" / name))
    of = re.match(r"<!-- of: (\w+) -->\n", spanish)
    now = words.fingerprint(english)
    assert of is not None
    assert of[1] == now, (
        f"docs/{name} has changed: bring docs/es/{name} up to date, and write `of: {now}` at its top"
    )
    assert _programs(english) == _programs(spanish)
    assert english.count("\n## ") == spanish.count("\n## ")
