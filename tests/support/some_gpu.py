"""A GPU to put tensors on: a real one where there is one, else one that does not exist (standin_gpu.py)."""

import numpy as np

from minitorch.engine.device_arrays import on_host
from minitorch.tensor.devices import has_gpu

REAL = has_gpu()
moved: list[int] = []  # the bytes of whatever went to the host or came from it, as far as it is watched
if not REAL:
    import standin_gpu

    moved = standin_gpu.moved


def numbers(thing):
    """The numbers of a Tensor or an array, wherever it is."""
    array = getattr(thing, "_data", thing)
    return np.array(on_host(array))


def there(tensor):
    """Whether a Tensor is on the GPU."""
    return tensor.device.type == "cuda"
