"""The examples run, at small size, as a user would run them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ranks import run_ranks

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_digits():
    pytest.importorskip("sklearn")
    lines = []
    assert example("digits").main(epochs=5, show=lines.append) > 0.9
    assert len(lines) == 1


def test_digits_cnn():
    pytest.importorskip("sklearn")
    lines = []
    assert example("digits_cnn").main(epochs=2, width=300, show=lines.append) > 0.5
    assert len(lines) == 2


def test_grammar():
    lines = []
    impossible, possible = example("grammar").main(show=lines.append)
    assert impossible < 0.2  # below chance, by construction of the split
    assert possible > 0.7
    assert len(lines) == 2


def test_gpt():
    lines = []
    gpt = example("gpt")
    share = gpt.main(epochs=1, width=16, known=64, count=4, show=lines.append)
    assert 0 <= share <= 1
    assert lines[0].startswith("epoch   1  loss")
    assert len(gpt.GPT(16).write(3)) == 3


@pytest.mark.parametrize("name", ["digits", "digits_cnn", "grammar"])
def test_two_runs_are_equal(name):
    if name != "grammar":
        pytest.importorskip("sklearn")
    sizes = {"grammar": {"steps": 20}, "digits": {"epochs": 1}, "digits_cnn": {"epochs": 1, "width": 128}}[
        name
    ]
    runs = []
    for _ in range(2):
        runs.append(lines := [])
        example(name).main(**sizes, seed=3, show=lines.append)
    assert runs[0] == runs[1]


def test_an_example_is_a_script():
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, EXAMPLES / "grammar.py"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "letters → tense" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.name)
def test_an_example_is_a_page(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 120


def test_data_parallel():
    said = run_ranks(2, EXAMPLES / "data_parallel.py")
    assert "epoch 5" in said
    assert "by 2 ranks" in said
    assert said.count("epoch 1") == 1  # one rank speaks
