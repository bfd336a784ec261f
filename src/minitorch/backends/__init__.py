"""Flags of libraries: `torch.backends.cudnn.benchmark = True` may be said, and is remembered.

Enters: flags. Leaves: the same flags. On a GPU `cudnn.allow_tf32` and `cuda.matmul.allow_tf32` count; nothing depends
on the others. Each part can be imported as in PyTorch: `import torch.backends.cudnn as cudnn`.
"""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType
from typing import Any

from minitorch.engine.precision import Convolutions, Products


def _part(name: str, kind: type[ModuleType] = ModuleType, **attributes: Any) -> Any:
    part = kind(f"{__name__}.{name}", f"Flags of {name}.")
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
    Convolutions,
    benchmark=False,
    deterministic=True,
    enabled=False,
    is_available=_no,
    version=lambda: None,
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
