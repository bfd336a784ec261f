"""NVIDIA's library for convolutions, through ctypes. Enters: a `LibraryConvolution` and addresses. Leaves: its launch.

It comes as a wheel (nvidia-cudnn), which PyTorch and JAX bring too; where there is none, products of windows do.
The library proposes ways to compute a convolution, the one first that it takes for the fastest; some of them are timed.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler.backends.cuda.convolutions import LibraryConvolution, convolve
from minitorch.engine.precision import convolutions_are

MOST_WORKSPACE = 1 << 29
TIMED, ROUNDS = 4, 3  # so many ways are timed, so often
MOST_PACKS = 64  # of addresses, kept for a way

# The library describes everything by objects with numbered attributes; these are its numbers.
_FLOAT32, _CROSS_CORRELATION = 0, 1
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
_FORWARD, _OF_FILTERS = (10, 700), (11, 712)  # operations, and their first attributes
_BEST_FIRST, _WHATEVER_RUNS = 3, 2  # ways to ask for ways
_MOST_NOTES = 32
# What is noted of a way.
_ON_TENSOR_CORES, _IN_HALF_PRECISION, _DIFFERS_EACH_TIME = 0, 1, 4
_ROUNDS_MORE = {3, 5, 6, 7, 8}  # by Fourier's transform, or Winograd's


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

    @functools.cached_property
    def _handle(self) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        _call("cudnnCreate", ctypes.byref(handle))
        return handle

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
                plan = self._plan(small, addresses, rounds, 1)
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
            self._plans[key] = self._plan(convolution, addresses, how == "rounded", timed)
        self._workspace(self._plans[key].size, 0)

    def _workspace(self, size: int, owner: int) -> Any:
        """Return memory for all that an owner does, one after the other: it is there as long as graphs may use it."""
        key = (owner, max(1, size).bit_length())
        if key not in self._workspaces:
            self._workspaces[key] = self._cupy.empty(1 << key[1], np.uint8)
        return self._workspaces[key]

    def _plan(
        self, convolution: LibraryConvolution, addresses: Sequence[int], rounds: bool, timed: int
    ) -> Plan:
        """Return the fastest of some ways to compute a convolution. timed: how many."""
        c = convolution
        made = self._cupy.empty(c.filters if c.of_filters else c.results, np.float32)
        given = [*addresses[:2], made.data.ptr]
        stream = self._cupy.cuda.get_current_stream()
        unwanted = set() if rounds else {_ON_TENSOR_CORES, *_ROUNDS_MORE}
        for notes in (unwanted, unwanted - _ROUNDS_MORE):  # (better so than not at all)
            found: list[tuple[float, Plan]] = []
            for plan in self._ways(c, notes):
                try:
                    found.append((self._seconds(plan, given, stream), plan))
                except RuntimeError:  # it is none after all
                    continue
                if len(found) == timed:
                    break
            if found:
                return min(found, key=lambda each: each[0])[1]
        raise RuntimeError(f"cuDNN has no way to compute {c}")

    def _seconds(self, plan: Plan, addresses: list[int], stream: Any) -> float:
        """Return how long a convolution takes, at its best."""
        cuda, seconds = self._cupy.cuda, []
        workspace = self._cupy.empty(max(1, plan.size), np.uint8)
        for _ in range(ROUNDS):
            began, ended = cuda.Event(), cuda.Event()
            began.record(stream)
            self._run(plan, addresses, stream.ptr, workspace)
            ended.record(stream)
            ended.synchronize()
            seconds.append(cuda.get_elapsed_time(began, ended))
        plan.packs.clear()
        return min(seconds)

    def _ways(self, convolution: LibraryConvolution, unwanted: set[int]) -> Iterator[Plan]:
        """Go through the ways to compute a convolution, the library's own favourite first. unwanted: by notes."""
        unwanted = unwanted | {_IN_HALF_PRECISION, _DIFFERS_EACH_TIME}
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
                if not unwanted.isdisjoint(engine.numbers(1303, "note", _MOST_NOTES)):
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
        how = _Descriptor(
            _CONVOLUTION,
            (100, "dtype", _FLOAT32),
            (101, "mode", _CROSS_CORRELATION),
            (102, "int64", c.dilations),
            (103, "int64", c.strides),
            (104, "int64", c.padding),
            (105, "int64", c.padding),
            (106, "int64", 2),
        )
        images, filters, results = (
            _tensor(number, sizes, c.channels_first)
            for number, sizes in enumerate((c.images, c.filters, c.results), 1)
        )
        kind, first = _OF_FILTERS if c.of_filters else _FORWARD
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
            _call("cudnnSetStream", self._handle, ctypes.c_void_p(stream))
            _call("cudnnBackendExecute", self._handle, plan.plan.pointer, pack.pointer)

    def launch(
        self, convolution: LibraryConvolution, addresses: Sequence[int], stream: int, owner: int = 0
    ) -> None:
        """Launch a convolution that was prepared. owner: of the memory that it needs, a stream; 0: graphs."""
        plan = self._plans[convolution.key, convolutions_are()]
        self._run(plan, addresses, stream, self._workspace(plan.size, owner))


def _tensor(number: int, sizes: tuple[int, ...], channels_first: bool) -> _Descriptor:
    """Return an array of images or filters."""
    n, height, width, channels = sizes
    steps = (height * width * channels, 1, width * channels, channels)
    if channels_first:
        n, channels, height, width = sizes
        steps = (height * width * channels, height * width, width, 1)
    return _Descriptor(
        _TENSOR,
        (900, "int64", 16),  # bytes, of which its address is a multiple
        (901, "dtype", _FLOAT32),
        (902, "int64", (n, channels, height, width)),
        (903, "int64", steps),
        (906, "int64", number),
    )
