"""A GPU to put tensors on: a real one where there is one, else one that does not exist (standin_gpu.py)."""

import numpy as np
import pytest

import standin_gpu
from minitorch.engine.gpu import on_host
from minitorch.tensor.devices import has_gpu
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


__all__ = ["REAL", "gpu", "moved", "numbers", "there"]
