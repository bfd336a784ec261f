"""NVIDIA's library for convolutions, through ctypes. Enters: a `LibraryConvolution` and addresses. Leaves: its launch.

It comes as a wheel (nvidia-cudnn), which PyTorch and JAX bring too; where there is none, products of windows do.
The library proposes ways to compute a convolution, the one first that it takes for the fastest; some of them are timed.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler.backends.cuda.convolutions import LibraryConvolution, convolve
from minitorch.engine.precision import convolutions_are

MOST_WORKSPACE = 1 << 29
TIMED, ROUNDS = 4, 3  # so many ways are timed, so often
# What takes fewer additions and multiplications is called several times in a row to be timed: the host may take longer
# than the GPU, the more so as it does other things for so many seconds beside. And ways without tensor cores are timed
# too, which are often one kernel where others are three.
FEW_FLOPS, IN_A_ROW, BESIDE = 1 << 29, 8, 12e-6
MOST_AS_WRITTEN = (
    1 << 33
)  # flops of what is compared with a function's own numbers as it is written: that is slow
# Of addresses, kept for a way. From one step to the next arrays come to lie in each other's places: four layers were
# seen to be at the same addresses again after 60 steps.
MOST_PACKS = 1024

# The library describes everything by objects with numbered attributes; these are its numbers.
_FLOAT32, _CROSS_CORRELATION = 0, 1
_DTYPES = {"float32": _FLOAT32, "float16": 2, "bfloat16": 9}
_KINDS: dict[str, tuple[int, Any]] = {
    "handle": (0, ctypes.c_void_p),
    "dtype": (1, ctypes.c_int),
    "int64": (3, ctypes.c_int64),
    "float": (4, ctypes.c_float),
    "pointer": (6, ctypes.c_void_p),
    "mode": (7, ctypes.c_int),
    "heuristics": (8, ctypes.c_int),
    "note": (11, ctypes.c_int),
    "descriptor": (15, ctypes.c_void_p),
}
_CONVOLUTION, _ENGINE, _CONFIGURATION, _HEURISTICS, _PLAN, _GRAPH, _PACK, _TENSOR = 1, 2, 3, 4, 5, 15, 16, 17
_FORWARD, _OF_FILTERS, _OF_IMAGES = (10, 700), (11, 712), (12, 706)  # operations, and their first attributes
_BEST_FIRST, _WHATEVER_RUNS = 3, 2  # ways to ask for ways
_MOST_NOTES = 32
# What is noted of a way.
_ON_TENSOR_CORES, _IN_HALF_PRECISION, _SUMS_HALVES, _DIFFERS_EACH_TIME = 0, 1, 2, 4
_ROUNDS_MORE = {3, 5, 6, 7, 8}  # by Fourier's transform, or Winograd's
_AS_IT_IS_WRITTEN = 9  # what is not a number stays so: nothing is added and subtracted again, as by Winograd


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


def version() -> int | None:
    """The library's version; 91200, say."""
    return None if library() is None else int(library().cudnnGetVersion())


def _call(name: str, *arguments: Any) -> None:
    status = getattr(library(), name)(*arguments)
    if status:
        raise RuntimeError(f"{name} of cuDNN failed with status {status}")


class _Descriptor:
    """An object of the library's. attributes: their numbers, kinds and values. finished: whether it is whole then."""

    def __init__(self, kind: int, *attributes: tuple[int, str, Any], finished: bool = True) -> None:
        self.pointer = ctypes.c_void_p()
        _call("cudnnBackendCreateDescriptor", kind, ctypes.byref(self.pointer))
        weakref.finalize(self, library().cudnnBackendDestroyDescriptor, self.pointer).atexit = False
        self._parts = attributes  # kept as long as this
        for number, name, value in attributes:
            code, c_type = _KINDS[name]
            values = value if isinstance(value, (list, tuple)) else [value]
            plain = [each.pointer.value if isinstance(each, _Descriptor) else each for each in values]
            array = (c_type * len(plain))(*plain)
            count = ctypes.c_int64(len(plain))
            _call("cudnnBackendSetAttribute", self.pointer, number, code, count, array)
        if finished:
            _call("cudnnBackendFinalize", self.pointer)

    def get(self, number: int, name: str, array: Any) -> list[Any]:
        """Return an attribute's values, read into an array."""
        count = ctypes.c_int64()
        room = ctypes.c_int64(len(array))
        code = _KINDS[name][0]
        _call("cudnnBackendGetAttribute", self.pointer, number, code, room, ctypes.byref(count), array)
        return list(array)[: count.value]

    def numbers(self, number: int, name: str, most: int) -> list[int]:
        """Return an attribute that is some numbers."""
        return self.get(number, name, (_KINDS[name][1] * most)())

    def others(self, number: int, kind: int, count: int) -> list[_Descriptor]:
        """Return an attribute that is some other objects: they are made first, and filled in then."""
        made = [_Descriptor(kind, finished=False) for _ in range(count)]
        found = self.get(
            number, "descriptor", (ctypes.c_void_p * count)(*[each.pointer.value for each in made])
        )
        return made[: len(found)]


class Plan(NamedTuple):
    """A way to compute a convolution, how much memory it needs, and what was made ready for some addresses.

    order: which operand of the library's each address is.
    """

    plan: _Descriptor
    order: tuple[int, ...]
    size: int
    packs: dict[Any, _Descriptor]


class Cudnn:
    """The library with a handle of its own."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._plans: dict[Any, Plan] = {}
        self._workspaces: dict[tuple[int, int], Any] = {}
        self._lock = threading.Lock()
        self._stream: int | None = None  # the handle's

    @functools.cached_property
    def _handle(self) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        _call("cudnnCreate", ctypes.byref(handle))
        return handle

    @functools.cached_property
    def _execute(self) -> Any:
        return library().cudnnBackendExecute

    @functools.cached_property
    def is_right(self) -> bool:
        """Whether the library computes what it should: an installation may lack parts, or know no such layouts."""
        random, sizes = np.random.default_rng(0), ((2, 6, 7, 4), (8, 3, 3, 4), (2, 6, 7, 8))
        for of_filters, rounds in itertools.product((False, True), repeat=2):
            small = LibraryConvolution([], of_filters, *sizes, (1, 1), (1, 1), (1, 1))
            shapes = [sizes[place] for place in ((0, 2, 1) if of_filters else (0, 1, 2))]
            *given, expected = (random.standard_normal(shape, np.float32) for shape in shapes)
            arrays = [self._cupy.asarray(array) for array in (*given, expected)]
            try:
                addresses = [array.data.ptr for array in arrays]
                plan = self._plan(small, addresses, "rounded" if rounds else "exact", 1)
                self._run(
                    plan, addresses, self._cupy.cuda.get_current_stream().ptr, self._workspace(plan.size, 0)
                )
            except (RuntimeError, AttributeError):
                return False
            convolve(small, given[0], given[1], expected)
            if not np.allclose(self._cupy.asnumpy(arrays[2]), expected, rtol=2e-2, atol=0.1):
                return False
        return True

    def prepare(self, convolution: LibraryConvolution, addresses: Sequence[int]) -> None:
        """Find out how a convolution is computed, on arrays that may be read (its result goes elsewhere)."""
        how = convolutions_are()
        key = (convolution.key, how)
        if key not in self._plans:
            timed = 1 if how == "tried" else TIMED
            self._plans[key] = self._plan(convolution, addresses, how, timed)
        self._workspace(self._plans[key].size, 0)

    def _workspace(self, size: int, owner: int) -> Any:
        """Return memory for all that an owner does, one after the other: it is there as long as graphs may use it.

        owner: a stream, and 1 more; 0: graphs.
        """
        key = (owner, max(1, size).bit_length())
        if key not in self._workspaces:
            self._workspaces[key] = self._cupy.empty(1 << key[1], np.uint8)
        return self._workspaces[key]

    def _plan(self, convolution: LibraryConvolution, addresses: Sequence[int], how: str, timed: int) -> Plan:
        """Return the fastest of some ways to compute a convolution. timed: how many."""
        c = convolution
        made = self._cupy.empty(c.filters if c.of_filters else c.results, c.dtype)
        given = [*addresses[:2], made.data.ptr]
        stream = self._cupy.cuda.get_current_stream()
        times, rounds = IN_A_ROW if c.flops < FEW_FLOPS and timed > 1 else 1, ROUNDS if timed > 1 else 1
        rounding = {_ON_TENSOR_CORES, *_ROUNDS_MORE}
        # What ways have to be noted with, and what they must not be; if there are none, others are better than nothing.
        kinds: list[tuple[set[int], set[int]]] = [(set(), rounding), (set(), {_ON_TENSOR_CORES})]
        if c.dtype != np.float32:  # (products of halves are exact)
            kinds = [(set(), _ROUNDS_MORE)]
        elif how == "tried" and c.flops < MOST_AS_WRITTEN:
            kinds.insert(0, ({_AS_IT_IS_WRITTEN}, rounding))
        elif how == "rounded":
            kinds = [(set(), set()), (set(), rounding)]
        several = how == "rounded" and times > 1
        found: list[tuple[float, Plan]] = []
        for wanted, unwanted in kinds:
            most = len(found) + timed
            for plan in self._ways(c, wanted, unwanted):
                try:
                    found.append((self._seconds(plan, given, stream, times, rounds), plan))
                except RuntimeError:  # it is none after all
                    continue
                if len(found) == most:
                    break
            if found and not several:
                break
        if not found:
            raise RuntimeError(f"cuDNN has no way to compute {c}")
        return min(found, key=lambda each: each[0])[1]

    def _seconds(self, plan: Plan, addresses: list[int], stream: Any, times: int, rounds: int) -> float:
        """Return how long a convolution takes, so many times in a row, in the best of some rounds."""
        cuda, seconds = self._cupy.cuda, []
        workspace = self._cupy.empty(max(1, plan.size), np.uint8)
        for _ in range(rounds):
            began, ended = cuda.Event(), cuda.Event()
            began.record(stream)
            start = time.perf_counter()
            for _ in range(times):
                self._run(plan, addresses, stream.ptr, workspace)
            of_host = time.perf_counter() - start + times * BESIDE
            ended.record(stream)
            ended.synchronize()
            of_gpu = 1e-3 * cuda.get_elapsed_time(began, ended)
            seconds.append(max(of_gpu, of_host) if times > 1 else of_gpu)
        plan.packs.clear()
        return min(seconds)

    def _ways(self, convolution: LibraryConvolution, wanted: set[int], unwanted: set[int]) -> Iterator[Plan]:
        """Go through the ways to compute a convolution, the library's own favourite first. (Un)wanted: by notes."""
        unwanted = unwanted | {_IN_HALF_PRECISION, _SUMS_HALVES, _DIFFERS_EACH_TIME}
        graph = self._graph(convolution)
        for how in (_BEST_FIRST, _WHATEVER_RUNS):
            try:
                asked = _Descriptor(_HEURISTICS, (201, "descriptor", graph), (200, "heuristics", how))
                count = ctypes.c_int64()
                code = _KINDS["descriptor"][0]
                arguments = (asked.pointer, 202, code, ctypes.c_int64(0), ctypes.byref(count), None)
                _call("cudnnBackendGetAttribute", *arguments)
                proposed = asked.others(202, _CONFIGURATION, count.value)
            except RuntimeError:  # nothing is proposed
                continue
            for configuration in proposed:
                (engine,) = configuration.others(300, _ENGINE, 1)
                notes = set(engine.numbers(1303, "note", _MOST_NOTES))
                if not unwanted.isdisjoint(notes) or not wanted <= notes:
                    continue
                try:
                    plan = _Descriptor(
                        _PLAN, (400, "handle", self._handle.value), (401, "descriptor", configuration)
                    )
                except RuntimeError:  # this GPU cannot
                    continue
                (size,) = plan.numbers(402, "int64", 1)
                if size <= MOST_WORKSPACE:
                    order = (1, 3, 2) if convolution.of_filters else (1, 2, 3)
                    yield Plan(plan, order, size, {})

    def _graph(self, convolution: LibraryConvolution) -> _Descriptor:
        """Return a convolution as the library describes it."""
        c = convolution
        row = (1,) * (2 - len(c.strides))  # (what has columns alone is told as one row)
        padding = (*[0] * len(row), *c.padding)
        if c.turned:  # the library is told of the convolution whose gradient this is
            taps = c.filters[2:] if c.channels_first else c.filters[1:-1]
            reach = [d * (k - 1) for d, k in zip(c.dilations, taps, strict=True)]
            padding = (*[0] * len(row), *[r - p for r, p in zip(reach, c.padding, strict=True)])
        how = _Descriptor(
            _CONVOLUTION,
            (100, "dtype", _FLOAT32),
            (101, "mode", _CROSS_CORRELATION),
            (102, "int64", (*row, *c.dilations)),
            (103, "int64", (*row, *c.strides)),
            (104, "int64", padding),
            (105, "int64", padding),
            (106, "int64", len(row) + len(c.strides)),
        )
        images, filters, results = (
            _tensor(number, sizes, c.channels_first, row, _DTYPES[c.dtype.name])
            for number, sizes in enumerate((c.images, c.filters, c.results), 1)
        )
        kind, first = _OF_FILTERS if c.of_filters else _OF_IMAGES if c.turned else _FORWARD
        if c.turned:
            images, results = results, images
        operation = _Descriptor(
            kind,
            (first, "float", 1.0),
            (first + 1, "float", 0.0),
            (first + 2, "descriptor", how),
            (first + 3, "descriptor", filters),
            (first + 4, "descriptor", images),
            (first + 5, "descriptor", results),
        )
        return _Descriptor(_GRAPH, (800, "handle", self._handle.value), (801, "descriptor", operation))

    def _run(self, plan: Plan, addresses: Sequence[int], stream: int, workspace: Any) -> None:
        key = (*addresses, workspace.data.ptr)
        pack = plan.packs.get(key)
        if pack is None:
            if len(plan.packs) >= MOST_PACKS:
                plan.packs.clear()
            pack = plan.packs[key] = _Descriptor(
                _PACK,
                (1000, "int64", plan.order),
                (1001, "pointer", addresses),
                (1003, "pointer", workspace.data.ptr),
            )
        with self._lock:  # (the handle has one stream for all threads)
            if stream != self._stream:
                _call("cudnnSetStream", self._handle, ctypes.c_void_p(stream))
                self._stream = stream
            if status := self._execute(self._handle, plan.plan.pointer, pack.pointer):
                raise RuntimeError(f"cudnnBackendExecute of cuDNN failed with status {status}")

    def compute(self, convolution: LibraryConvolution, addresses: Sequence[int], stream: int) -> None:
        """Launch a convolution on a stream, having found out how it is computed if nobody did before."""
        key = (convolution.key, convolutions_are())
        if key not in self._plans:
            self.prepare(convolution, addresses)
        plan = self._plans[key]
        self._run(plan, addresses, stream, self._workspace(plan.size, 1 + stream))

    def launch(self, convolution: LibraryConvolution, addresses: Sequence[int], stream: int) -> None:
        """Launch a convolution that was prepared, for a graph."""
        plan = self._plans[convolution.key, convolutions_are()]
        self._run(plan, addresses, stream, self._workspace(plan.size, 0))


def _tensor(
    number: int, sizes: tuple[int, ...], channels_first: bool, row: tuple[int, ...], dtype: int
) -> _Descriptor:
    """Return an array of images or filters. row: what stands before its places."""
    n, *places, channels = sizes
    if channels_first:
        n, channels, *places = sizes
    places = [*row, *places]
    in_memory = [n, channels, *places] if channels_first else [n, *places, channels]
    steps = [math.prod(in_memory[axis + 1 :]) for axis in range(len(in_memory))]
    if not channels_first:
        steps = [steps[0], steps[-1], *steps[1:-1]]
    return _Descriptor(
        _TENSOR,
        (900, "int64", 16),  # bytes, of which its address is a multiple
        (901, "dtype", dtype),
        (902, "int64", (n, channels, *places)),
        (903, "int64", steps),
        (906, "int64", number),
    )
