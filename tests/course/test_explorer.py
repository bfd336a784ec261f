"""The explorer: what it records, and its page in a real Chromium, by clicks and keys."""

import json

import numpy as np
import pytest

import another_engine
import minitorch
from chromium import Browser
from minitorch import nn
from minitorch.app import command
from minitorch.course import tensor as course
from minitorch.course.explorer import Explorer, explore
from minitorch.course.explorer.boxes import boxes
from minitorch.course.rules import FORMULAS, declarations, source
from minitorch.nn.names import names_of_tensors
from minitorch.ops import OPS


def network():
    """A loss, and what it was made from."""
    minitorch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 3)
    )
    x, y = minitorch.randn(5, 4), minitorch.tensor([0, 1, 2, 0, 1])
    return model, minitorch.cross_entropy(model(x), y)


def test_gradients_are_those_of_backward_and_nothing_is_changed():
    model, loss = network()
    page = explore(loss, names=model)
    assert all(p.grad is None for p in model.parameters())
    loss.backward()
    found = {page.names.get(id(node.tensor)): node.grad for node in page.nodes}
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(found[name], parameter.grad, rtol=1e-6)


@pytest.mark.parametrize("library", [minitorch, course, another_engine], ids=lambda m: m.__name__)
def test_any_class_with_the_fields_can_be_explored(library):
    x = library.Tensor(np.array([[1.0], [2.0]]), requires_grad=True)
    y = library.Tensor(np.array([3.0, 4.0, 5.0]), requires_grad=True)
    before = y.grad
    z = x * y
    loss = (z * z + z).sum()
    page = explore(loss)
    assert x.grad is before or not np.any(x.grad)
    grads = {page.names.get(id(n.tensor)): n.grad for n in page.nodes}
    expected = 2 * x.data * y.data + 1
    np.testing.assert_allclose(grads["z"], expected)
    np.testing.assert_allclose(grads["x"], (expected * y.data).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(grads["y"], (expected * x.data).sum(axis=0))
    assert loss.requires_grad


def test_what_a_rule_gives_before_and_after_broadcasting_is_undone():
    x, y = minitorch.ones(3, 1, requires_grad=True), minitorch.ones(4, requires_grad=True)
    nodes = (x * y).sum().explore().nodes
    product = next(node for node in nodes if node.op == "mul")
    assert [(c.before.shape, c.after.shape) for c in product.contributions] == [
        ((3, 4), (3, 1)),
        ((3, 4), (4,)),
    ]


def test_times_are_measured():
    x = minitorch.ones(50, 50, requires_grad=True)
    product = next(node for node in (x @ x).sum().explore().nodes if node.op == "matmul")
    assert product.forward_seconds > 0
    assert product.seconds > 0


def test_ops_with_several_results():
    x = minitorch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    values, places = x.sort()
    loss = (values * minitorch.tensor([1.0, 10.0, 100.0])).sum() + x.split(2)[0].sum()
    page = explore(loss)
    loss.backward()
    leaf = next(node for node in page.nodes if node.tensor is x)
    np.testing.assert_allclose(leaf.grad, x.grad)
    assert places.tolist() == [1, 2, 0]


def test_refusals():
    x = minitorch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="single number"):
        explore(x * 2)
    with pytest.raises(RuntimeError, match="requires_grad"):
        explore(minitorch.ones(()))
    with pytest.raises(TypeError, match="got ndarray"):
        explore(np.ones(()))
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="freed by backward"):
        explore(loss)


def test_modules_are_found_by_their_parameters():
    model, loss = network()
    page = explore(loss, names={"net": model})
    by_op = [(n.op, b) for n, b in zip(page.nodes, boxes(page.nodes, page.names), strict=True) if n.parents]
    assert by_op[:6] == [
        ("linear", "net.0"), ("relu", "net"), ("linear", "net.2.0"), ("tanh", "net"), ("linear", "net.3"),
        ("cross_entropy", ""),
    ]  # fmt: skip
    assert names_of_tensors({"w": model[0].weight, "_hidden": model[0].bias, "all": [model[3].weight]}) == {
        id(model[0].weight): "w",
        id(model[3].weight): "all[0]",
    }


def test_rules_are_the_librarys_own_lines():
    assert source(OPS["mul"]).startswith('MUL = Op("mul", np.multiply')
    assert "_softmax_rule" in source(OPS["softmax"])
    assert len(set(declarations()) & set(OPS)) > 150
    assert set(FORMULAS) - set(OPS) <= {"mean", "max", "transpose", "square"}

    x = course.Tensor([1.0], requires_grad=True)
    text = json.loads(explore((x * x).sum()).json())["rules"]["mul"]["code"]
    assert "other._accumulate(out.grad * self.data)" in text


def test_large_arrays_are_sampled_and_odd_numbers_survive():
    x = minitorch.tensor(
        np.linspace(-1, 1, 300 * 400, dtype=np.float32).reshape(300, 400), requires_grad=True
    )
    data = json.loads(explore((x * minitorch.tensor(float("nan"))).sum()).json())
    sampled = next(array for array in data["arrays"] if array["shape"] == [300, 400] and not array["nan"])
    assert len(sampled["numbers"]) <= 1024
    assert (sampled["rows"][-1], sampled["columns"][-1]) == (299, 399)
    assert (sampled["min"], sampled["max"]) == (-1.0, 1.0)
    bad = data["arrays"][data["nodes"][-1]["value"]]
    assert (bad["nan"], bad["numbers"]) == (1, [None])


def test_a_notebook_shows_it_inline():
    page = (minitorch.ones(2, requires_grad=True) * 2).sum().explore()
    assert isinstance(page, Explorer)
    assert page._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')


SCRIPT = """
import sys
import minitorch
w = minitorch.tensor([1.0, 2.0], requires_grad=True)
def train():
    for step in range(3):
        loss = (w * w * (step + 1)).sum()
        loss.backward()
        print("step", step, sys.argv[1:])
train()
"""


def test_a_script_is_explored(tmp_path, capsys):
    script, out = tmp_path / "train.py", tmp_path / "page.html"
    script.write_text(SCRIPT)
    own = minitorch.Tensor.backward
    code = command.main(["explore", str(script), "a", "b", "--out", str(out), "--backward", "2"])
    said = capsys.readouterr().out
    assert code == 0
    assert "step 0 ['a', 'b']" in said
    assert "step 1" not in said
    assert "written to" in said
    assert '"name": "w"' in out.read_text()
    assert minitorch.Tensor.backward is own
    script.write_text(
        "from minitorch.course.tensor import Tensor\nloss = (Tensor([2.0], True) * 3.0).sum()\n"
    )
    assert command.main(["explore", str(script), "--out", str(out)]) == 0
    script.write_text("x = 1\n")
    assert command.main(["explore", str(script), "--out", str(out)]) == 1
    assert command.main(["explore", str(tmp_path / "nothing.py")]) == 2
    assert command.main(["explore", str(script), "--out", str(tmp_path / "no" / "page.html")]) == 2


# --- in a browser ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    """One Chromium for all tests of this file."""
    with Browser() as found:
        yield found


def test_buttons_keys_and_slider_step_through(browser, tmp_path):
    model, loss = network()
    explore(loss, tmp_path / "page.html", names={"model": model})
    page = browser.open(tmp_path / "page.html")
    assert page.text("#where") == "forward 1 / 8"
    assert "linear" in page.text("#detail h2")
    page.press("ArrowRight")
    page.click("#next")
    assert page.text("#where") == "forward 3 / 8"
    page.press("ArrowLeft")
    assert page.text("#where") == "forward 2 / 8"
    page.click("#turn")
    assert page.text("#where") == "backward 1 / 8"
    assert "backward: div" in page.text("#detail h2")
    page.press("End")
    assert page.text("#where") == "backward 8 / 8"
    assert "model.0.weight" in page.text("#detail")
    assert "db = Σ g over the batch" in page.text("#detail")
    page.press("Home")
    page.click("#last")
    page.run("document.getElementById('slider').focus()")
    page.press("b")
    assert page.text("#where") == "backward 1 / 8"


def test_search_folding_and_picking_a_node(browser, tmp_path):
    model, loss = network()
    explore(loss, tmp_path / "page.html", names={"model": model})
    page = browser.open(tmp_path / "page.html", height=1000)
    page.press("/")
    page.type("model.3.weight")
    assert page.run("document.querySelectorAll('.node.found').length") == 1
    page.press("Enter")
    assert "model.3.weight" in page.text("#detail h2")
    assert "its gradient came from" in page.text("#detail")
    page.press("Escape")
    count = page.run("document.querySelectorAll('.node').length")
    page.click("[data-fold='model']")
    assert page.run("document.querySelectorAll('.node').length") < count - 8
    assert page.run("document.querySelectorAll('.node.group').length") == 1
    page.click(".node.group")
    page.click("[data-fold='model.2']")
    assert page.run("document.querySelectorAll('.node.group').length") == 1
    page.run("document.querySelector('.node').focus()")
    page.press("Enter")
    assert "forward" not in page.text("#detail h2")


def test_nan_is_red_and_the_first_culprit_is_found(browser, tmp_path):
    with np.errstate(all="ignore"):
        x = minitorch.tensor([0.0, 1.0, -1.0], requires_grad=True)
        loss = ((x * 2).log() * x).sum()
    explore(loss, tmp_path / "page.html")
    page = browser.open(tmp_path / "page.html")
    assert page.text("#alarm") == "nan or inf: first made by log (step 2)"
    page.click("#alarm")
    assert "forward: log" in page.text("#detail h2")
    assert page.run("document.querySelectorAll('.cells .odd').length") == 2
    assert page.run("document.querySelectorAll('.node.bad').length") >= 3


def test_numbers_appear_on_hover_and_unbroadcast_is_shown(browser, tmp_path):
    x = minitorch.tensor(np.arange(40 * 50, dtype=np.float32).reshape(40, 50) / 100, requires_grad=True)
    bias = minitorch.zeros(50, requires_grad=True)
    explore(((x + bias) ** 2).sum(), tmp_path / "page.html")
    page = browser.open(tmp_path / "page.html")
    page.press("End")
    assert "what the rule gives, 40×50" in page.text("#detail")
    assert "summed over what was stretched, 50" in page.text("#detail")
    page.run("document.querySelector('#detail canvas').scrollIntoView()")
    page.hover("#detail canvas")
    assert page.run("getComputedStyle(tip).display") == "block"
    assert " = " in page.text("#tip")
    assert page.text("#tip").startswith("[")


@pytest.mark.parametrize("dark", [False, True])
def test_light_dark_and_phone_width(browser, tmp_path, dark):
    model, loss = network()
    explore(loss, tmp_path / "page.html", names={"model": model})
    page = browser.open(tmp_path / "page.html", width=390, height=844, dark=dark)
    assert page.run("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    assert page.run("document.documentElement.scrollWidth") <= 390
    assert page.run("graph.getBoundingClientRect().bottom <= detail.getBoundingClientRect().top + 1")
    before = page.run("getComputedStyle(document.body).backgroundColor")
    page.press("t")
    assert page.run("getComputedStyle(document.body).backgroundColor") != before
    page.picture(tmp_path / "phone.png")
    assert (tmp_path / "phone.png").stat().st_size > 5000


@pytest.mark.slow
def test_five_thousand_nodes(browser, tmp_path):
    h = minitorch.randn(20, requires_grad=True)
    s = h
    for _ in range(1250):
        s = (s * 1.001 + h).tanh() * h
    page = explore(s.sum(), tmp_path / "page.html")
    assert len(page.nodes) > 5000
    assert (tmp_path / "page.html").stat().st_size < 12_000_000
    tab = browser.open(tmp_path / "page.html")
    tab.press("End")
    times = []
    for _ in range(30):
        tab.press("ArrowLeft")
        times.append(float(tab.run("document.documentElement.dataset.ms")))
    assert sorted(times)[len(times) // 2] <= 50
