"""The certificate: what it says of proven and broken ops, and a page that fits any screen."""

import re

from minitorch.proof.certificate import Certificate, Finding


def made():
    broken = Finding("broken", differentiable=True, cases=1, problem="ValueError: a < b")
    broken.first = 0.5
    return Certificate(
        [
            broken,
            Finding("exp", differentiable=True, cases=2),
            Finding("sign", differentiable=False, cases=1),
        ],
        1.0,
    )


def test_the_headline_counts():
    assert made().headline.startswith(
        "1 of 2 differentiable ops proven to second order (4 cases, 1 s); 1 op without"
    )
    assert not made().ok


def test_the_page_names_what_failed():
    page = made().html()
    assert "FAIL ValueError: a &lt; b" in page
    assert page.count(">proven<") == 1
    assert page.count(">ran<") == 1


def test_the_page_fits_a_phone():
    page = made().html()
    style = re.search("<style>(.*?)</style>", page, re.S)[1]
    assert "width=device-width" in page
    # Columns may shrink: no part of the table has a width of its own, and long words break.
    assert re.findall(r"[^-\w]width: *[\d.]+(?:rem|px|em)", style) == []
    assert "overflow-wrap: anywhere" in style
    rows = re.findall("<tr.*?</tr>", page, re.S)
    assert {row.count("<td") + row.count("<th") for row in rows} == {5}
