"""What programs are run by, chosen by name. Enters: a name. Leaves: a `Backend` (see interface.py)."""

from __future__ import annotations

from minitorch.compiler.backends.cuda.backend import CudaBackend
from minitorch.compiler.backends.interface import Backend
from minitorch.compiler.backends.llvm.native import Llvm
from minitorch.compiler.backends.numpy.interpreter import Numpy

_BACKENDS: dict[str, Backend] = {
    "native": Llvm(),
    "unfused": Llvm(fuse=False),  # one kernel per operation
    "numpy": Numpy(),  # the recorded program, value by value
    "cuda": CudaBackend(),  # kernels for a GPU
}


def register(name: str, backend: Backend) -> None:
    """Let `compile(backend=name)` use a backend."""
    _BACKENDS[name] = backend


def names() -> list[str]:
    """Return the names there are."""
    return list(_BACKENDS)


def named(name: str) -> Backend:
    """Return the backend of a name."""
    return _BACKENDS[name]
