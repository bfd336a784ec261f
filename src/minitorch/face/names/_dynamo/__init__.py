"""torch._dynamo: words to PyTorch's compiler. Enters: marks and settings. Leaves: nothing changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import minitorch
from minitorch.face.names.compiler import allow_in_graph, assume_constant_result, disable, is_compiling, reset

__all__ = ["allow_in_graph", "assume_constant_result", "disable", "is_compiling", "reset"]


class OptimizedModule(minitorch.nn.Module):
    """The class of compiled Modules in PyTorch; here torch.compile gives its own kind, so nothing is one."""


# Settings may be made, and are remembered; none changes a number.
config = SimpleNamespace(suppress_errors=False, cache_size_limit=8, verbose=False)
eval_frame = SimpleNamespace(OptimizedModule=OptimizedModule)


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Do nothing: parameters and buffers stay where they are."""


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Do nothing: a size that changes is noticed."""


maybe_mark_dynamic = mark_static = mark_dynamic


def optimize(*args: Any, **kwargs: Any) -> Any:
    """Return torch.compile as a decorator."""
    return minitorch.compile
