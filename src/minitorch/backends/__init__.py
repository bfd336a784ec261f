"""Flags of libraries: `torch.backends.cudnn.benchmark = True` may be said, and is remembered.

Enters: flags. Leaves: the same flags. On a GPU `cudnn.allow_tf32` and `cuda.matmul.allow_tf32` count; nothing depends
on the others: by which kernel attention is computed is chosen for each call, whatever was said. Each part can be
imported as in PyTorch: `import torch.backends.cudnn as cudnn`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from minitorch.engine import gpu
from minitorch.engine.precision import Convolutions, Products, versions_of_cudnn


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


def _cudnn_version() -> int | None:
    found = [tell() for tell in versions_of_cudnn] if gpu.gpu_count() else []
    return found[0] if found else None


def _has_gpu() -> bool:
    return gpu.gpu_count() > 0


def _cpu_capability() -> str:
    """Return the vectors that NumPy's own loops use, by PyTorch's names."""
    found: Any = np.show_config(mode="dicts")
    names = found.get("SIMD Extensions", {}).get("found", [])
    known = [kind for kind in ("AVX512", "AVX2") if any(name.startswith(kind) for name in names)]
    return known[0] if known else "DEFAULT"


# --- kernels for attention: PyTorch's names for them, and which may be used ---------------------------------------

SDP = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def _enable_sdp(kind: str) -> Callable[[bool], None]:
    def enable(enabled: bool) -> None:
        SDP[kind] = bool(enabled)

    enable.__name__, enable.__doc__ = f"enable_{kind}_sdp", f"Say whether kernels called {kind} may be used."
    return enable


def _sdp_enabled(kind: str) -> Callable[[], bool]:
    def enabled() -> bool:
        return SDP[kind]

    enabled.__name__, enabled.__doc__ = (
        f"{kind}_sdp_enabled",
        f"Tell whether kernels called {kind} may be used.",
    )
    return enabled


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Say which kernels may be used inside the block."""
    before = dict(SDP)
    SDP.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield
    finally:
        SDP.update(before)


class SDPAParams(NamedTuple):
    """What attention is asked for, in the questions whether a kernel could be used."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any = None
    dropout: float = 0.0
    is_causal: bool = False
    enable_gqa: bool = False


def _preferred(*names: str) -> Callable[..., str]:
    """Return a function that is told which library is preferred, remembers it, and tells it."""
    kept = [names[0]]

    def preferred(backend: str | None = None) -> str:
        if backend is not None and backend not in names:
            raise RuntimeError(f"backends.cuda: there are {', '.join(names)}, not {backend!r}")
        kept[:] = [backend or kept[0]]
        return kept[0]

    return preferred


class _PlanCache:
    """What cuFFT keeps is CuPy's own business; programs ask for its size, and clear it."""

    size = max_size = 0

    def clear(self) -> None:
        """Forget plans for Fourier transforms."""
        if _has_gpu():
            gpu.library().fft.config.get_plan_cache().clear()

    def __getitem__(self, device: Any) -> _PlanCache:
        return self


cudnn = _part(
    "cudnn",
    Convolutions,
    benchmark=False,
    benchmark_limit=10,
    deterministic=True,
    enabled=True,
    is_available=lambda: _cudnn_version() is not None,
    version=_cudnn_version,
    is_acceptable=lambda tensor: tensor.is_cuda and _cudnn_version() is not None,
)
cuda = _part(
    "cuda",
    matmul=Products(),
    is_built=_has_gpu,
    sdp_kernel=sdp_kernel,
    SDPAParams=SDPAParams,
    can_use_flash_attention=lambda params, debug=False: False,
    can_use_efficient_attention=lambda params, debug=False: False,
    can_use_cudnn_attention=lambda params, debug=False: False,
    is_flash_attention_available=_no,
    allow_fp16_bf16_reduction_math_sdp=_accepted,
    fp16_bf16_reduction_math_sdp_allowed=_no,
    preferred_linalg_library=_preferred("default", "cusolver", "magma"),
    preferred_blas_library=_preferred("default", "cublas", "cublaslt", "ck", "hipblaslt"),
    cufft_plan_cache=_PlanCache(),
)
for _kind in SDP:
    vars(cuda)[f"enable_{_kind}_sdp"] = _enable_sdp(_kind)
    vars(cuda)[f"{_kind}_sdp_enabled"] = _sdp_enabled(_kind)
cpu = _part("cpu", get_cpu_capability=_cpu_capability)
opt_einsum = _part("opt_einsum", is_available=_no, enabled=False, strategy=None)
mps = _part("mps", is_available=_no, is_built=_no)
mkl = _part("mkl", is_available=_no)
mkldnn = _part("mkldnn", is_available=_no, enabled=False, flags=_unchanged)
openmp = _part("openmp", is_available=_no)
