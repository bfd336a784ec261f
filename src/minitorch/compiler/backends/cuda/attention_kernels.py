"""The kernels of attention. Enters: an `Attention`. Leaves: kernels for it, or for its gradients."""

from __future__ import annotations

from collections.abc import Callable

from minitorch.compiler.backends.cuda.attention import Attention
from minitorch.compiler.backends.cuda.attention_backward import Backward
from minitorch.compiler.backends.cuda.attention_forward import Forward
from minitorch.compiler.backends.cuda.tiles import Tiles
from minitorch.compiler.backends.cuda.words import Kernel, with_sizes
from minitorch.compiler.ir.halves import HALVES


def kernels_of(attention: Attention) -> list[Kernel]:
    """Return the kernels that compute attention, or its gradients."""
    if attention.g is None:
        return [kernel_of(attention, lambda a, exact: Forward(a, exact))]
    return [
        kernel_of(attention, lambda a, exact: Backward(a, exact, of_keys=False)),
        kernel_of(attention, lambda a, exact: Backward(a, exact, of_keys=True)),
    ]


def kernel_of(attention: Attention, writer: Callable[[Attention, bool], Tiles]) -> Kernel:
    """Return a kernel, with the one that runs where nothing may be rounded."""
    kernel = with_sizes(lambda: writer(attention, False).kernel())
    if attention.dtype not in HALVES:
        kernel.exact = with_sizes(lambda: writer(attention, True).kernel())
        assert kernel.exact.operands == kernel.operands  # (a launch has one list for both)
    return kernel
