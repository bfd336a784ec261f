"""The machine that code is made for. Enters: what LLVM says of this processor. Leaves: a `Target`.

A target says how many elements one vector register holds and how many registers there are; kernels are
written to these two numbers. LLVM itself (through llvmlite) is imported here, and only when needed.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np


@functools.cache
def require_llvmlite() -> Any:
    """Return `llvmlite.binding`, ready for use; where it is not installed, say how to install it."""
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise ImportError(
            "compiling needs llvmlite, which is not installed; in minitorch's folder: pip install '.[compile]'"
        ) from error
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@dataclass(frozen=True)
class Target:
    """A processor: LLVM's name for it, its features ("+avx2,-fma4,…"), and the system's triple."""

    name: str
    features: str
    triple: str

    def has(self, *features: str) -> bool:
        """Whether all these features are there."""
        mine = _switched_on(self.features)
        return all(feature in mine for feature in features)

    @property
    def is_x86(self) -> bool:
        """Whether this is a 64-bit processor of Intel's or AMD's kind."""
        return self.triple.split("-")[0] in ("x86_64", "amd64")

    @property
    def is_arm(self) -> bool:
        """Whether this is a 64-bit ARM processor."""
        return self.triple.split("-")[0] in ("aarch64", "arm64")

    @property
    def wide(self) -> bool:
        """Whether vectors of 512 bits work for every element type, with masks and all 32 registers."""
        return self.has("avx512f", "avx512bw", "avx512dq", "avx512vl")

    @property
    def vector_bytes(self) -> int:
        """How many bytes one vector register holds."""
        if self.wide:
            return 64
        return 32 if self.has("avx2") else 16

    def lanes(self, dtype: Any) -> int:
        """How many elements of a dtype one vector register holds.

        >>> avx2().lanes("float32"), baseline().lanes("float64")
        (8, 2)
        """
        return max(1, self.vector_bytes // np.dtype(dtype).itemsize)

    @property
    def registers(self) -> int:
        """How many vector registers there are."""
        return 32 if self.wide or self.is_arm else 16

    @property
    def has_fma(self) -> bool:
        """Whether multiply-add is one instruction."""
        return self.is_arm or self.has("fma")

    @property
    def attributes(self) -> str:
        """What to write behind the parameters of each `define`.

        Explicit vectors of 512 bits stay whole without this; memory copies and what LLVM widens by
        itself would be cut to 256. `nounwind` spares tables for exceptions that never come.
        """
        return f'nounwind "prefer-vector-width"="{8 * self.vector_bytes}"'

    @property
    def runs_here(self) -> bool:
        """Whether code for this target can run on this machine."""
        here = host()
        same = self.triple.split("-")[0] == here.triple.split("-")[0]
        return same and _switched_on(self.features) <= _switched_on(here.features)


@functools.lru_cache(maxsize=16)
def _switched_on(features: str) -> frozenset[str]:
    return frozenset(feature[1:] for feature in features.split(",") if feature.startswith("+"))


@functools.cache
def host() -> Target:
    """Return the processor this process runs on."""
    llvm = require_llvmlite()
    return Target(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), _triple())


def baseline() -> Target:
    """Return what every x86-64 processor can do: 4 floats at a time, no multiply-add."""
    return _named("x86-64", "+sse,+sse2")


def avx2() -> Target:
    """Return an x86-64 processor with AVX2 and multiply-add, as nearly all since 2013."""
    return _named("x86-64-v3", "+sse,+sse2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2")


def avx512() -> Target:
    """Return an x86-64 processor with vectors of 512 bits."""
    return _named("x86-64-v4", avx2().features + ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl")


def _named(name: str, features: str) -> Target:
    """A processor by name, on this system; elsewhere than on x86 it does not run here."""
    _, _, system = _triple().partition("-")
    return Target(name, features, f"x86_64-{system}")


@functools.cache
def _triple() -> str:
    return require_llvmlite().get_process_triple()
