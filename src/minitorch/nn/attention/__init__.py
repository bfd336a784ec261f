"""torch.nn.attention: by which kernel attention is computed. Enters: a choice. Leaves: nothing else: there is one way.

`scaled_dot_product_attention` computes softmax(q·kᵀ)·v as it stands, which is PyTorch's MATH; compiled, it is fused.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from minitorch.backends import sdp_kernel

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """PyTorch's names of the kernels."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[dict[Any, Any]]:
    """Choose kernels. All give the same numbers, and here the one that is there gives them.

    >>> with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
    ...     x = minitorch.ones(1, 1, 2, 4); minitorch.nn.functional.scaled_dot_product_attention(x, x, x).shape
    (1, 1, 2, 4)
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not chosen or not all(isinstance(each, SDPBackend) for each in chosen):
        raise TypeError(f"sdpa_kernel: expected members of SDPBackend, got {backends!r}")
    kinds = {"flash": 1, "mem_efficient": 2, "math": 0, "cudnn": 3}
    with sdp_kernel(**{f"enable_{kind}": number in chosen for kind, number in kinds.items()}):
        yield {}
