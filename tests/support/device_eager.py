"""Eager ops on a stand-in for a device. Enters: arrays, calls. Leaves: tensors there, and how many kernels are launched."""

from minitorch.compiler.backends.llvm.driver import aligned
from minitorch.engine.node import new_tensor
from standin import DeviceArray


def there(array, requires_grad=False):
    """A tensor on the device; a GPU's memory begins at multiples of 16."""
    memory = aligned(array.nbytes).view(array.dtype).reshape(array.shape)
    memory[...] = array
    tensor = new_tensor(DeviceArray(memory))
    return tensor.requires_grad_() if requires_grad else tensor


def launches(launcher, call):
    call(), call()
    before = launcher.launched
    call()
    return launcher.launched - before
