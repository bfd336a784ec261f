"""NVIDIA's library for convolutions, through ctypes. Enters: a `LibraryConvolution` and addresses. Leaves: its launch.

It comes as a wheel (nvidia-cudnn), which PyTorch and JAX bring too; where there is none, products of windows do.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler.backends.cuda.convolutions import LibraryConvolution, convolve
from minitorch.engine.precision import may_round

_FLOAT32, _NEIGHBOURING_CHANNELS, _CROSS_CORRELATION = 0, 1, 1  # the library's numbers
_AS_IT_LIKES, _FLOAT32_ALONE = 0, 3  # how it multiplies
_BEFOREHAND, _ON_THE_WAY = 1, 0  # when it computes the addresses of windows
# What is tried, in this order. (By its speed the last one does not use tensor cores either.)
_IN_TF32 = [(_AS_IT_LIKES, _BEFOREHAND), (_AS_IT_LIKES, _ON_THE_WAY)]
_IN_FLOAT32 = [
    (_FLOAT32_ALONE, _ON_THE_WAY),
    (_FLOAT32_ALONE, _BEFOREHAND),
    (_AS_IT_LIKES, _ON_THE_WAY),
]
MOST_WORKSPACE = 1 << 30


class Plan(NamedTuple):
    """How a convolution is computed: what the library calls it by, and memory that it needs."""

    descriptors: tuple[Any, ...]
    convolution: Any
    algorithm: int
    workspace: Any


@functools.cache
def library() -> Any:
    """The library, if it is installed."""
    for folder in sys.path:
        for path in sorted(Path(folder or ".").glob("nvidia/cudnn/lib/libcudnn.so.*")):
            try:
                return ctypes.CDLL(str(path))
            except OSError:  # for another machine, or without what it needs itself
                continue
    return None


class Cudnn:
    """The library with a handle of its own."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._plans: dict[Any, Plan] = {}

    @functools.cached_property
    def _handle(self) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._call("cudnnCreate", ctypes.byref(handle))
        return handle

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(library(), name)(*arguments)
        if status:
            raise RuntimeError(f"{name} of cuDNN failed with status {status}")

    def _descriptor(self, kind: str) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._call(f"cudnnCreate{kind}Descriptor", ctypes.byref(made))
        return made

    def _images(self, sizes: tuple[int, ...]) -> ctypes.c_void_p:
        n, height, width, channels = sizes
        steps = (height * width * channels, 1, width * channels, channels)
        made = self._descriptor("Tensor")
        self._call("cudnnSetTensor4dDescriptorEx", made, _FLOAT32, n, channels, height, width, *steps)
        return made

    @functools.cached_property
    def is_right(self) -> bool:
        """Whether the library computes what it should: an installation may lack parts, or know no such layouts."""
        random, sizes = np.random.default_rng(0), ((2, 6, 7, 4), (8, 3, 3, 4), (2, 4, 5, 8))
        for of_filters, rounds in itertools.product((False, True), repeat=2):
            small = LibraryConvolution([], of_filters, *sizes, (1, 1), (1, 1))
            shapes = [sizes[place] for place in ((0, 2, 1) if of_filters else (0, 1, 2))]
            *given, expected = (random.standard_normal(shape, np.float32) for shape in shapes)
            arrays = [self._cupy.asarray(array) for array in (*given, expected)]
            try:
                addresses = [array.data.ptr for array in arrays]
                plan = self._plan(small, addresses, rounds)
                status = self._run(small, plan, addresses, self._cupy.cuda.get_current_stream().ptr)
            except (RuntimeError, AttributeError):
                return False
            convolve(small, given[0], given[1], expected)
            if status or not np.allclose(self._cupy.asnumpy(arrays[2]), expected, rtol=2e-2, atol=0.1):
                return False
        return True

    def prepare(self, convolution: LibraryConvolution, addresses: list[int]) -> Plan:
        """Find out how a convolution is computed, on arrays that may be read (its result goes elsewhere)."""
        key = (convolution.key, may_round())
        if key not in self._plans:
            self._plans[key] = self._plan(convolution, addresses, may_round())
        return self._plans[key]

    def _plan(self, convolution: LibraryConvolution, addresses: list[int], rounds: bool) -> Plan:
        c = convolution
        images, results = self._images(c.images), self._images(c.results)
        filters, how = self._descriptor("Filter"), self._descriptor("Convolution")
        count, height, width, channels = c.filters
        sizes = (count, channels, height, width)
        self._call("cudnnSetFilter4dDescriptor", filters, _FLOAT32, _NEIGHBOURING_CHANNELS, *sizes)
        steps = (0, 0, *c.strides, *c.dilations)
        self._call("cudnnSetConvolution2dDescriptor", how, *steps, _CROSS_CORRELATION, _FLOAT32)
        order = (images, results, filters) if c.of_filters else (images, filters, results)
        made = self._cupy.empty(c.filters if c.of_filters else c.results, np.float32)
        stream = self._cupy.cuda.get_current_stream()
        for math, algorithm in _IN_TF32 if rounds else _IN_FLOAT32:
            self._call("cudnnSetConvolutionMathType", how, math)
            size = ctypes.c_size_t()
            name = f"cudnnGetConvolution{_way(c)}WorkspaceSize"
            first, second, third = order
            arguments = (self._handle, first, second, how, third, algorithm, ctypes.byref(size))
            if getattr(library(), name)(*arguments) or size.value > MOST_WORKSPACE:
                continue
            workspace = self._cupy.empty(max(1, size.value), np.uint8)
            plan = Plan(order, how, algorithm, workspace)
            if not self._run(c, plan, [*addresses[:2], made.data.ptr], stream.ptr):
                return plan
        raise RuntimeError(f"cuDNN has no way to compute {c}")

    def _run(self, convolution: LibraryConvolution, plan: Plan, addresses: list[int], stream: int) -> int:
        self._call("cudnnSetStream", self._handle, ctypes.c_void_p(stream))
        (first, second, third), workspace = plan.descriptors, plan.workspace
        a, b, made = (ctypes.c_void_p(address) for address in addresses)
        return getattr(library(), f"cudnnConvolution{_way(convolution)}")(
            self._handle,
            ctypes.byref(ctypes.c_float(1.0)),
            first,
            a,
            second,
            b,
            plan.convolution,
            plan.algorithm,
            ctypes.c_void_p(workspace.data.ptr),
            ctypes.c_size_t(workspace.nbytes),
            ctypes.byref(ctypes.c_float(0.0)),
            third,
            made,
        )

    def launch(self, convolution: LibraryConvolution, addresses: list[int], stream: int) -> None:
        """Launch a convolution that was prepared."""
        status = self._run(convolution, self._plans[convolution.key, may_round()], addresses, stream)
        if status:
            raise RuntimeError(f"a convolution of cuDNN's failed with status {status}")


def _way(convolution: LibraryConvolution) -> str:
    return "BackwardFilter" if convolution.of_filters else "Forward"
