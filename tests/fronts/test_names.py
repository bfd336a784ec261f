"""Names that were offered once stay: docs/operators.md lists them, and each has its forms."""

import re
from pathlib import Path

import pytest

import minitorch
from minitorch.tensor.methods.public import in_place_names

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
SECTIONS = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
ROWS = [
    (section.partition("\n")[0], *row)
    for section in SECTIONS
    for row in re.findall(r"^\| `(\w+)` \| ([\w, ]*) \|", section, flags=re.M)
]


def test_the_page_is_read():
    assert len(ROWS) > 700
    assert ("minitorch and Tensor", "exp", "function, method") in ROWS


@pytest.mark.parametrize("section", sorted({row[0] for row in ROWS}))
def test_every_listed_name_is_offered(section):
    for title, name, where in ROWS:
        if title != section:
            continue
        if title == "minitorch and Tensor":
            assert ("method" in where) <= hasattr(minitorch.Tensor, name), name
            assert ("function" in where) <= hasattr(minitorch, name), name
        else:
            room = minitorch
            for part in title.split(".")[1:]:
                room = getattr(room, part)
            assert hasattr(room, name), f"{title}.{name}"


def test_what_is_marked_in_place_has_that_form_as_method_and_function():
    names = in_place_names(minitorch.Tensor)
    assert {"exp", "add", "absolute", "clamp"} <= set(names)
    for name in names:
        assert getattr(minitorch, f"{name}_") is getattr(minitorch.Tensor, f"{name}_")


def test_a_function_is_its_method_and_takes_what_is_no_tensor_yet():
    x = minitorch.tensor([0.5, 1.5])
    assert minitorch.exp(x).equal(x.exp())
    assert minitorch.exp([0.5, 1.5]).equal(x.exp())
    assert minitorch.exp.__name__ == "exp"
    assert minitorch.exp.__doc__ == minitorch.Tensor.exp.__doc__
    # A Python number beside a float32 tensor widens nothing, on the left as on the right.
    assert minitorch.sub(1, x).dtype == minitorch.float32
