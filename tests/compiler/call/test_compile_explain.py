"""explain(): what was made of a function, as data, as text, as a page; and MINITORCH_DEBUG."""

import html.parser
from pathlib import Path

import pytest

import minitorch as mt
import minitorch.nn.functional as F
from compiled import BACKENDS
from minitorch import nn, optim
from minitorch.compiler.call.compiled import CompileWarning


def trained(compile):
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step(mt.randn(4, 6), mt.randint(0, 3, (4,)))
    return step


def test_the_report_as_data(compile):
    step = trained(compile)
    (program,) = step.explain().programs
    assert program.arguments == ["Tensor float32[4×6]", "Tensor int64[4]"]
    assert program.calls == 2
    assert program.seconds > 0
    assert program.reason == "the first call"
    assert program.values["contract"] >= 4
    assert sum(program.simplified.values()) <= sum(program.values.values())
    assert len(program.updates) == 4
    assert any("lr" in n for n in program.numbers)
    assert any("p of Dropout" in n for n in program.numbers)
    assert len(program.draws) == 1
    assert any("training" in g for g in program.guards)
    assert program.kernels
    assert sum(k.flops for k in program.kernels) >= 2 * 4 * 6 * 8
    assert all(k.bytes >= 0 for k in program.kernels)
    assert program.total > 0


def test_measuring_changes_nothing(compile):
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @compile
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step(mt.ones(2, 3))
    before = [p.data.copy() for p in model.parameters()]
    state = mt.get_rng_state()["bits"]["state"]["pos"]
    step.explain()
    assert all((p.data == b).all() for p, b in zip(model.parameters(), before, strict=True))
    assert mt.get_rng_state()["bits"]["state"]["pos"] == state


def test_the_report_as_text(compile):
    text = str(trained(compile).explain())
    for word in (
        "1 compiled",
        "contract",
        "relies on",
        "updated in place",
        "draws",
        "float32[4×6]",
        "read anew",
    ):
        assert word in text


def test_reasons_are_told(compile):
    scale = 2.0
    f = compile(lambda x: x * scale)
    f(mt.ones(2))
    scale = 3.0
    f(mt.ones(2))
    f(mt.ones(3))
    explanation = f.explain()
    assert explanation.compilations == 3
    assert "scale was 2.0 and is 3.0" in explanation.reasons
    assert "the shape of args[0] was (2,) and is (3,)" in explanation.reasons
    assert "scale was 2.0 and is 3.0" in str(explanation)


def test_dtype_changes_are_told(compile):
    model = nn.Linear(2, 2)
    f = compile(lambda: model.weight * 2)
    f()
    model.double()
    f()
    assert "float64" in f.explain().reasons[-1]


def test_before_the_first_call(compile):
    text = str(compile(lambda x: x).explain())
    assert "0 compiled" in text
    assert "not called yet" in text


def test_the_way_back_is_reported(compile):
    model = compile(nn.Linear(3, 2))
    model(mt.ones(2, 3)).sum().backward()
    (program,) = model.explain().programs
    assert program.backward is not None
    assert program.backward.values["contract"] >= 1
    assert "the way back" in str(model.explain())


class Checker(html.parser.HTMLParser):
    """Collects tags and what they refer to."""

    def __init__(self):
        super().__init__()
        self.tags, self.references = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.references += [v for k, v in attributes if k in ("src", "href")]


def test_the_page(compile, tmp_path):
    step = trained(compile)
    path = tmp_path / "page.html"
    step.explain(html=path)
    page = path.read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(page)
    assert not checker.references  # nothing from outside
    assert "http" not in page
    assert {"table", "style", "details"} <= set(checker.tags)
    assert "prefers-color-scheme: dark" in page
    assert "contract" in page
    assert page == step.explain().to_html() or "<title>" in page


def test_names_are_escaped(compile):
    f = compile(lambda x, s: x)
    f(mt.ones(1), "<script>")
    page = f.explain().to_html()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_keywords_and_containers_in_words(compile):
    f = compile(lambda a, b=None, **more: a["x"] * 2)
    f({"x": mt.ones(2), "n": 3}, b=[mt.ones(1), 0.5])
    (program,) = f.explain().programs
    assert program.arguments == ["{'x': Tensor float32[2], 'n': int 3}", "b=list(Tensor float32[1], a float)"]


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_debug(compile, monkeypatch, capsys, level):
    monkeypatch.setenv("MINITORCH_DEBUG", str(level))
    f = compile(lambda x: (x @ x).exp())
    f(mt.ones(3, 3))
    f(mt.ones(3, 3))
    text = capsys.readouterr().err
    assert ("the first call" in text) == (level >= 1)
    assert ("recorded:" in text) == (level >= 2)
    assert ("simplified:" in text) == (level >= 3)
    assert text.count("minitorch.compile:") == (1 if level else 0)


@pytest.mark.skipif("native" not in BACKENDS, reason="needs the native backend")
@pytest.mark.parametrize("level", [4, 5])
def test_debug_of_machine_code(monkeypatch, capsys, level):
    monkeypatch.setenv("MINITORCH_DEBUG", str(level))
    mt.compile(lambda x: x.exp(), backend="native")(mt.ones(3))
    text = capsys.readouterr().err
    assert "define" in text
    assert ("ret" in text.split("define")[-1]) or level == 4


def test_debug_says_when_a_function_stays_eager(monkeypatch, capsys):
    monkeypatch.setenv("MINITORCH_DEBUG", "1")

    @mt.compile(backend="numpy")
    def f(x):
        return x if x.sum() > 0 else -x

    with pytest.warns(CompileWarning):
        f(mt.ones(1))
    f(mt.ones(1))
    assert "stays eager" in capsys.readouterr().err
    assert "runs as it is: bool of a tensor's value" in str(f.explain())
    assert "2 calls were run as they are" in str(f.explain())


def test_each_kernel_names_the_lines_it_comes_from(compile):
    @compile
    def f(x):
        y = x.exp().sum(0)
        return y.softmax(-1) @ mt.ones(4, 2)

    f(mt.ones(3, 4))
    first = f.function.__code__.co_firstlineno
    report = f.explain()
    found = {line - first for kernel in report.programs[0].kernels for _, line in kernel.lines}
    assert found == {2, 3}
    assert f"{Path(__file__).name}:{first + 2}" in str(report)
    assert "y = x.exp().sum(0)" in report.to_html()
