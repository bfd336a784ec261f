"""The one table, read as: values and gradients against PyTorch, finite differences, second order, dtype."""

import numpy as np
import pytest

import minitorch
from cases import run_minitorch, run_torch
from minitorch.autograd import gradcheck, gradgradcheck
from minitorch.proof.certificate import STEP
from minitorch.proof.table import CASES
from pytorch import torch
from tensors import weights

numbered = [pytest.param(case, id=f"{i}-{case.op}") for i, case in enumerate(CASES)]
differentiable = [p for p in numbered if p.values[0].differentiable]


@pytest.mark.parametrize("case", numbered)
def test_values_and_gradients_equal_pytorchs(case):
    if case.torch is None:
        pytest.fail("every case needs a PyTorch twin")
    for trial in range(2):
        arrays = case.arrays(trial)
        ours, inputs = run_minitorch(case, arrays, case.differentiable)
        theirs, references = run_torch(case, arrays, case.differentiable)
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            other = other.detach().numpy() if isinstance(other, torch.Tensor) else np.asarray(other)
            assert mine.shape == other.shape
            assert mine.dtype == other.dtype
            np.testing.assert_allclose(mine.detach().numpy(), other, rtol=1e-9, atol=1e-9)
        for mine, other in zip(inputs, references, strict=True):
            if other.grad is not None:
                assert mine.grad is not None
                np.testing.assert_allclose(mine.grad, other.grad.numpy(), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("case", differentiable)
def test_finite_differences_agree(case):
    for trial in (2, 3):
        tensors = tensors_of(case, trial)
        assert gradcheck(lambda *xs: float_outputs(case, xs), tensors, eps=STEP)


@pytest.mark.parametrize("case", differentiable)
def test_second_order_agrees(case):
    tensors = tensors_of(case, 4)
    assert gradgradcheck(lambda *xs: float_outputs(case, xs), tensors, eps=STEP, atol=1e-4)


@pytest.mark.parametrize("case", differentiable)
def test_float32_in_float32_out_also_for_gradients(case):
    tensors = tensors_of(case, 5, np.float32)
    outputs = float_outputs(case, tensors)
    for output in outputs:
        # Constants inside these cases are float64; the contract is about the rest.
        assert output.dtype == np.float32 or case.op in ("cast", "cross_entropy")
        assert isinstance(output.data, np.ndarray)
    with minitorch.autograd.debug():
        minitorch.autograd.backward(outputs, [weights(o.shape, o.dtype) for o in outputs])
    for tensor in tensors:
        if tensor.requires_grad and tensor.grad is not None:
            assert tensor.grad.dtype == np.float32
            assert tensor.grad.shape == tensor.shape
            assert isinstance(tensor.grad, np.ndarray)


def tensors_of(case, trial, dtype=np.float64):
    return [
        minitorch.tensor(a.astype(dtype), requires_grad=True) if a.dtype.kind == "f" else minitorch.tensor(a)
        for a in case.arrays(trial)
    ]


def float_outputs(case, tensors):
    outputs = case.call(minitorch, *tensors)
    listed = list(outputs) if isinstance(outputs, tuple | list) else [outputs]
    return [o for o in listed if o.requires_grad] or [o for o in listed if o.dtype.kind == "f"]


class Recorder:
    """A library that notes which of its functions were asked for."""

    def __init__(self, library, prefix=""):
        self.library, self.prefix, self.used = library, prefix, set()

    def __getattr__(self, name):
        self.used.add(self.prefix + name)
        if name == "linalg":
            sub = Recorder(minitorch.linalg, "linalg.")
            sub.used = self.used
            return sub
        return getattr(self.library, name)


def test_every_op_has_a_row():
    from minitorch.ops import OPS

    missing = set(OPS) - {case.op for case in CASES}
    assert not missing, f"ops without a row in proof/table.py: {sorted(missing)}"


def test_every_public_function_is_called_by_some_row_or_compared_on_op_db():
    from op_db import operators  # here: it needs PyTorch, which most of this file does not

    recorder = Recorder(minitorch)
    for case in CASES:
        tensors = [minitorch.tensor(a) for a in case.arrays()]
        case.call(recorder, *tensors)
    public = {name for name in vars(minitorch.functions) if not name.startswith("_")}
    public |= {f"linalg.{n}" for n in minitorch.linalg.__all__}
    same = {alias for names in ALIASES for alias in names if set(names) & recorder.used}
    composed = {spelling.removeprefix("x.") for operator in operators() for spelling, _ in operator.spellings}
    assert not public - recorder.used - same - composed - SPARSE


SPARSE = {"sparse_coo_tensor", "sparse_csr_tensor", "spmm"}  # tests/tensor/test_sparse.py
ALIASES = [
    ("sub", "subtract"), ("mul", "multiply"), ("div", "divide", "true_divide"), ("neg", "negative"),
    ("asin", "arcsin"), ("acos", "arccos"), ("atan", "arctan"), ("atan2", "arctan2"), ("asinh", "arcsinh"),
    ("acosh", "arccosh"), ("atanh", "arctanh"), ("abs", "absolute"), ("trunc", "fix"), ("ne", "not_equal"),
    ("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"),
]  # fmt: skip


def test_aliases_are_the_same_function():
    for names in ALIASES:
        assert len({getattr(minitorch, name) for name in names}) == 1
