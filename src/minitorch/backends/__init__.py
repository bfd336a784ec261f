"""Flags of libraries that are not used here: `torch.backends.cudnn.benchmark = True` may be said, and is remembered.

Enters: flags. Leaves: the same flags. Each part can be imported as in PyTorch: `import torch.backends.cudnn as cudnn`.
"""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType
from typing import Any

from minitorch.engine.precision import Products


def _part(name: str, **attributes: Any) -> ModuleType:
    part = ModuleType(f"{__name__}.{name}", f"Flags of {name}, which is not used here.")
    vars(part).update(attributes)
    sys.modules[part.__name__] = part
    return part


def _no() -> bool:
    return False


def _accepted(*args: Any, **kwargs: Any) -> None:
    """Take note of nothing: there is one way to compute it here."""


@contextlib.contextmanager
def _unchanged(*args: Any, **kwargs: Any) -> Any:
    yield


cudnn = _part(
    "cudnn",
    benchmark=False,
    deterministic=True,
    enabled=False,
    allow_tf32=False,
    is_available=_no,
    version=lambda: None,
    flags=_unchanged,
)
cuda = _part(
    "cuda",
    matmul=Products(),
    is_built=_no,
    enable_flash_sdp=_accepted,
    enable_math_sdp=_accepted,
    enable_mem_efficient_sdp=_accepted,
    flash_sdp_enabled=_no,
    math_sdp_enabled=lambda: True,
    mem_efficient_sdp_enabled=_no,
    sdp_kernel=_unchanged,
)
mps = _part("mps", is_available=_no, is_built=_no)
mkl = _part("mkl", is_available=_no)
mkldnn = _part("mkldnn", is_available=_no, enabled=False, flags=_unchanged)
openmp = _part("openmp", is_available=_no)
