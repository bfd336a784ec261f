"""Run one case of the table on minitorch and on PyTorch, in float64."""

import numpy as np

import minitorch
from pytorch import torch
from tensors import weights


def floats(outputs):
    """The differentiable outputs of a call, as a list."""
    several = isinstance(outputs, tuple | list)
    return list(outputs) if several else [outputs]


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
