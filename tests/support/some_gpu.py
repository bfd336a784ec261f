"""A GPU to put tensors on: a real one where there is one, else one that does not exist (standin_gpu.py)."""

import numpy as np
import pytest

import minitorch
import standin_gpu
from minitorch.engine.gpu import on_host
from minitorch.tensor.devices import has_gpu
from small_nets import training_step
from standin_gpu import moved

REAL = has_gpu()


@pytest.fixture
def gpu(monkeypatch):
    """The GPU."""
    return None if REAL else standin_gpu.installed(monkeypatch)


def numbers(thing):
    """The numbers of a Tensor or an array, wherever it is."""
    return np.array(on_host(getattr(thing, "_data", thing)))


def there(tensor):
    """Whether a Tensor is on the GPU."""
    return tensor.device.type == "cuda"


def trained(model, optimizer, batches, on_device, fullgraph=True):
    """Train a model, compiled if it is on the GPU: the losses, everything it has in the end, and the step.

    model, optimizer: what makes one, of nothing, and of parameters. fullgraph: whether it must be compiled.
    """
    minitorch.manual_seed(0)
    model = model().to("cuda" if on_device else "cpu")
    step = training_step(model, optimizer(model.parameters()))
    if on_device:
        step = minitorch.compile(step, fullgraph=fullgraph)
    losses = []
    for batch in batches:
        x, y = (minitorch.tensor(each) for each in batch)
        if on_device:
            x, y = x.to("cuda"), y.to("cuda")
        moved.clear()
        loss = step(x, y)
        losses.append(float(numbers(loss)))
        assert there(loss) == on_device
    state = [*model.parameters(), *model.buffers()]
    assert all(there(each) == on_device for each in state if each.ndim)
    gradients = [p._grad for p in model.parameters()]
    return losses, [numbers(each) for each in (*state, *gradients)], step


__all__ = ["REAL", "gpu", "moved", "numbers", "there", "trained"]
