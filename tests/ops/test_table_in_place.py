"""The one table, read as: what may be written into after an op, and who shares whose memory. Both as in PyTorch."""

import numpy as np
import pytest

import minitorch
from minitorch.proof.table import CASES
from pytorch import torch

ROWS = [
    pytest.param(case, id=f"{case.op}-{i}")
    for i, case in enumerate(CASES)
    if case.torch is not None and case.differentiable
]

# Where PyTorch happens to keep something else for backward, and a write it allows is refused here.
KEPT_BY_PYTORCH = {
    "cross_entropy": "the log-softmax of the logits",
    "eigvals": "the eigenvectors",
    "div": "the reciprocal, for a number divided by a tensor",
    "frexp_mantissa": "the exponents",
    "matmul": "copies of operands that were broadcast",
    "matrix_norm": "the singular values and vectors",
    "norm": "the sign",
    "polar": "the result",
    "recurrence": "the gates",
    "sinc": "the input alone",
    "svdvals": "the singular vectors",
    "unfold": "nothing: its windows are a view, which NumPy does not let one write into",
}


def computed(m, call, arrays):
    """Run a case on results of other ops (leaves may not be written into); return the inputs and the outputs."""
    leaves = [m.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    inputs = [leaf + 0 if leaf.requires_grad else leaf for leaf in leaves]
    outputs = call(m, *inputs)
    return inputs, list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def allows(m, call, arrays, position):
    """Whether backward goes well after a write into an input (by its number) or an output (from -1 downwards)."""
    inputs, outputs = computed(m, call, arrays)
    chosen = [o for o in outputs if o.requires_grad]
    target = inputs[position] if position >= 0 else outputs[-1 - position]
    with m.no_grad():
        target.add_(0)
    try:
        sum(o.sum() for o in chosen).backward()
    except RuntimeError as error:
        if "changed after" in str(error) or "inplace" in str(error):
            return False
        raise
    return True


@pytest.mark.parametrize("case", ROWS)
def test_what_pytorch_allows_to_be_written_may_be_written(case):
    arrays = case.arrays()
    _, outputs = computed(torch, case.torch, arrays)
    floats = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
    outs = [-1 - i for i, o in enumerate(outputs) if o.requires_grad]
    for position in (*floats, *outs):
        try:
            allowed = allows(torch, case.torch, arrays, position)
        except RuntimeError:
            continue  # an expanded view, one of several: the write itself is refused
        if allowed and case.op not in KEPT_BY_PYTORCH:
            assert allows(minitorch, case.call, arrays, position), f"position {position}"


@pytest.mark.parametrize("case", ROWS)
def test_results_share_memory_where_pytorchs_do(case):
    arrays = case.arrays()
    mine, theirs = computed(minitorch, case.call, arrays), computed(torch, case.torch, arrays)
    for x, t in zip(mine[0], theirs[0], strict=True):
        for y, u in zip(mine[1], theirs[1], strict=True):
            if x.numel() and y.numel():
                shared = t.untyped_storage().data_ptr() == u.untyped_storage().data_ptr()
                assert np.shares_memory(x._data, y._data) == shared
