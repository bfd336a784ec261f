"""Run one case of the table on minitorch and on PyTorch, in float64."""

import numpy as np

import minitorch
from pytorch import torch
from tensors import weights


def floats(outputs):
    """The differentiable outputs of a call, as a list."""
    several = isinstance(outputs, tuple | list)
    return list(outputs) if several else [outputs]


# How many elements these select depends on a mask or on counts: in a batch all examples share those, as they have to.
BY_COUNT = ("repeat_interleave", "getitem", "masked_select")


def is_shared(case, array):
    """Whether an input is the same for every example of a batch."""
    return case.op in BY_COUNT and array.dtype.kind != "f"


def run_minitorch(case, arrays, differentiate=True, dtype=np.float64):
    tensors = [
        minitorch.tensor(a, dtype=dtype, requires_grad=differentiate)
        if a.dtype.kind == "f"
        else minitorch.tensor(a)
        for a in arrays
    ]
    outputs = floats(case.call(minitorch, *tensors))
    if differentiate:
        chosen = [o for o in outputs if o.requires_grad]
        minitorch.autograd.backward(chosen, [weights(o.shape, o.dtype) for o in chosen])
    return outputs, tensors


def run_torch(case, arrays, differentiate=True):
    tensors = [
        torch.tensor(a, requires_grad=differentiate) if a.dtype.kind == "f" else torch.tensor(a)
        for a in arrays
    ]
    outputs = floats(case.torch(torch, *tensors))
    if differentiate:
        chosen = [o for o in outputs if o.requires_grad]
        torch.autograd.backward(chosen, [torch.tensor(weights(tuple(o.shape))) for o in chosen])
    return outputs, tensors
