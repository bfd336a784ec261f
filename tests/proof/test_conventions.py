"""The convention table, executed: on minitorch, and on PyTorch where it says the same."""

from pathlib import Path

import numpy as np
import pytest

import minitorch
from minitorch.proof.conventions import DTYPES, ERRORS, KINKS, ZERO_SIZE, markdown
from pytorch import torch


def ids(rows):
    return [pytest.param(row, id=row.case.replace(" ", "_")) for row in rows]


@pytest.mark.parametrize("row", ids(KINKS))
def test_gradients_at_kinks(row):
    tensors = [minitorch.tensor(np.array(v), requires_grad=True) for v in row.inputs]
    row.call(minitorch, *tensors).sum().backward()
    for tensor, expected in zip(tensors, row.gradients, strict=True):
        np.testing.assert_array_equal(tensor.grad, np.array(expected))


@pytest.mark.parametrize("row", ids(k for k in KINKS if k.pytorch == "same"))
def test_pytorch_gives_the_same_gradients(row):
    tensors = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in row.inputs]
    (row.torch_call or row.call)(torch, *tensors).sum().backward()
    for tensor, expected in zip(tensors, row.gradients, strict=True):
        np.testing.assert_array_equal(tensor.grad.numpy(), np.array(expected))


@pytest.mark.filterwarnings("ignore:.*degrees of freedom:UserWarning")  # PyTorch's, for var and std
@pytest.mark.parametrize("library", [minitorch, torch], ids=["minitorch", "torch"])
@pytest.mark.parametrize("row", ids(ZERO_SIZE))
def test_reductions_of_nothing(row, library):
    empty = library.zeros(0, dtype=library.float64)
    if row.answer is Exception:
        with pytest.raises((IndexError, RuntimeError)):
            row.call(library, empty)
        return
    with np.errstate(all="raise"):
        answer = row.call(library, empty)
    np.testing.assert_array_equal(np.array(answer.tolist()), np.array(row.answer))


@pytest.mark.parametrize("library", [minitorch, torch], ids=["minitorch", "torch"])
@pytest.mark.parametrize("row", ids(DTYPES))
def test_dtypes(row, library):
    assert str(row.call(library).dtype).removeprefix("torch.") == row.answer


@pytest.mark.parametrize("row", ids(ERRORS))
def test_errors_name_what_met_and_what_to_write(row):
    with pytest.raises(row.error, match=f"(?s){row.says}"):
        row.call(minitorch)


def test_the_page_in_the_docs_is_this_table():
    page = Path(__file__).parents[2] / "docs" / "conventions.md"
    assert page.read_text(encoding="utf-8") == markdown(), "render it anew: make docs"
