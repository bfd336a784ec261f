"""The Tensor a person holds: operators, methods by family, devices, printing, protocols."""

from types import FunctionType

from minitorch.tensor.conversions import move
from minitorch.tensor.devices import check_device
from minitorch.tensor.grad_fn import GradFn, HookHandle
from minitorch.tensor.tensor import Tensor, seed_gradient

__all__ = ["GradFn", "HookHandle", "Tensor", "check_device", "move", "seed_gradient"]

# A wrong call is Python's to refuse, and its message shall name what a person wrote: Tensor.relu(), not the class
# that holds the methods of relu's family.
for _family in Tensor.__mro__[1:-1]:
    for _method in vars(_family).values():
        if (
            isinstance(_method, FunctionType)
            and _method.__qualname__ == f"{_family.__name__}.{_method.__name__}"
        ):
            _method.__qualname__ = f"Tensor.{_method.__name__}"
