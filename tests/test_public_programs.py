"""Whole programs under PyTorch and under minitorch, with the same seed: they must print the same numbers."""

import importlib
import inspect
import pathlib
import pkgutil
import warnings

import numpy as np
import pytest

import minitorch
import programs
from pytorch import torch


def collect():
    found = []
    for info in pkgutil.iter_modules(programs.__path__):
        module = importlib.import_module(f"programs.{info.name}")
        for name, function in vars(module).items():
            if (
                inspect.isfunction(function)
                and function.__module__ == module.__name__
                and [*inspect.signature(function).parameters] == ["torch"]
            ):
                found.append((f"{info.name}.{name}", function))
    return found


PROGRAMS = collect()


@pytest.fixture(autouse=True)
def precision():
    """Put back what programs choose for all products."""
    before = [(each, each.get_float32_matmul_precision()) for each in (minitorch, torch)]
    yield
    for each, chosen in before:
        each.set_float32_matmul_precision(chosen)


@pytest.fixture(autouse=True)
def kernels():
    """On a GPU by kernels of our own, as a program has them: CuPy's products cannot be captured."""
    minitorch.set_native_ops(minitorch.cuda.is_available())
    yield
    minitorch.set_native_ops(False)


@pytest.mark.parametrize("program", [f for _, f in PROGRAMS], ids=[n for n, _ in PROGRAMS])
def test_a_program_prints_the_same_numbers(program):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own deprecations
        expected = program(torch)
    printed = program(minitorch)
    assert len(printed) == len(expected)
    rtol = getattr(program, "tolerance", 1e-4)
    np.testing.assert_allclose(printed, expected, rtol=rtol, atol=1e-5)


def first_sentence(function, name):
    """What a program does, in its own words, or in those of its file and its name."""
    text = inspect.getdoc(function)
    if text is None and name.endswith(".main"):
        text = inspect.getdoc(inspect.getmodule(function))
    return (text or name.partition(".")[2].replace("_", " ").capitalize() + ".").partition("\n")[0]


def table():
    return [f"| `{name}` | {first_sentence(function, name)} |" for name, function in PROGRAMS]


def test_the_docs_list_every_program():
    page = (pathlib.Path(__file__).parents[1] / "docs" / "coming-from-pytorch.md").read_text(encoding="utf-8")
    listed = [line for line in page.partition("| program |")[2].splitlines() if line.startswith("| `")]
    assert listed == table()
