"""minitorch.masked beside PyTorch: values, dtypes, gradients."""

import numpy as np
import pytest

import minitorch
from pytorch import torch
from same_as_torch import agree, line

numbers = np.random.default_rng(0)
X, MASK = numbers.normal(size=(3, 5)), numbers.random((3, 5)) < 0.6

LINES = [
    *(f"f.{name}(x, 1, mask=k)" for name in ("sum", "prod", "amax", "amin", "mean", "var", "std", "logsumexp", "median")),
    *(f"f.{name}(x, 0, mask=k)" for name in ("argmax", "argmin", "cumsum", "cumprod", "softmax", "log_softmax", "softmin")),
    *(f"f.{name}(x, mask=k)" for name in ("sum", "prod", "amax", "mean", "var")),
    *(f"f.{name}(x, (0, 1), keepdim=True, mask=k[:1])" for name in ("sum", "amin", "mean", "std")),
    *(f"f.{name}(x, 1)" for name in ("sum", "mean", "softmax", "median")),
    "f.norm(x, 2, 1, mask=k)", "f.norm(x, 1.0, 0, mask=k)", "f.norm(x, float('-inf'), 0, mask=k)", "f.norm(x, mask=k)",
    "f.normalize(x, 2, 1, mask=k)", "f.var(x, 1, unbiased=False, mask=k)", "f.std(x, 1, correction=2, mask=k)",
    "f.logaddexp(x, x * 2, input_mask=k, other_mask=~k)", "f.sum((x * 3).long(), 1, mask=k)", "f.amax((x * 3).long(), 1, mask=k)",
    "f.mean(x.float(), 1, dtype=x.dtype, mask=k)", "f.prod((x * 3).long(), mask=k)", "f.softmax(x, 1, mask=k & (k.sum(1, keepdim=True) > 9))",
    "f.mean(x, 1, mask=k & False)", "f.amax(x, 1, mask=k & False)",
]  # fmt: skip


@pytest.mark.parametrize("text", LINES)
def test_masked_functions(text):
    call = line(text, "f x k")

    def run(m, x, k):
        return call(m, m.masked, x, k)

    torch.masked
    gradients = not any(word in text for word in ("& False", "> 9"))
    assert agree(run, X, MASK, where=text, gradients=gradients) is not None, "both refuse"


def test_masked_tensors_are_refused():
    for call in (
        minitorch.masked.masked_tensor,
        minitorch.masked.as_masked_tensor,
        minitorch.masked.MaskedTensor,
    ):
        with pytest.raises(NotImplementedError, match="functions take mask="):
            call(minitorch.ones(2), minitorch.ones(2) > 0)
    assert not minitorch.masked.is_masked_tensor(minitorch.ones(1))
