"""Orders of work on a GPU, and moments in them. Enters: work. Leaves: the same, beside other work, and its time."""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Iterator
from typing import Any

from minitorch.cuda.devices import is_available, number_of
from minitorch.engine import gpu
from minitorch.tensor.devices import device as Device


def set_stream(stream: Any) -> None:
    """From now on, ask for everything on a stream."""
    if stream is not None and is_available():
        stream.stream.use()


class Stream:
    """An order of work on a GPU: what is asked for inside `with stream(s):` runs beside that of other streams.

    Where there is no GPU, everything is done when a function returns, and a stream has nothing to order.
    """

    def __init__(self, device: Any = None, priority: int = 0, *, wraps: Any = None, **options: Any) -> None:
        self.priority = priority
        self._entered: list[Any] = []
        if wraps is None and is_available():
            with gpu.working_on(number_of(device), "Stream") as cupy:
                wraps = cupy.cuda.Stream(non_blocking=True, priority=priority or None)
        self.stream = wraps  # CuPy's
        self.device = Device("cpu" if wraps is None else f"cuda:{number_of(device)}")

    @property
    def cuda_stream(self) -> int:
        """Its address, for other libraries."""
        return 0 if self.stream is None else int(self.stream.ptr)

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:  # what ctypes passes on
        return ctypes.c_void_p(self.cuda_stream)

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return a version and its address, by the protocol that NVIDIA's packages ask by."""
        return 0, self.cuda_stream

    def synchronize(self) -> None:
        """Wait until all is done that was asked for in it."""
        if self.stream is not None:
            self.stream.synchronize()
            gpu.tell()

    def query(self) -> bool:
        """Tell whether all is done that was asked for in it."""
        return self.stream is None or bool(self.stream.done)

    def wait_stream(self, stream: Any) -> None:
        """Let what is asked for here from now on wait for what was asked for in another stream until now."""
        self.wait_event(stream.record_event())

    def wait_event(self, event: Any) -> None:
        """Let what is asked for here from now on wait for an event."""
        if self.stream is not None and event.event is not None:
            self.stream.wait_event(event.event)

    def record_event(self, event: Any = None) -> Any:
        """Note a moment in it: an event that has come when all is done that was asked for until now."""
        made = Event() if event is None else event
        made.record(self)
        return made

    def __enter__(self) -> Stream:
        entered = contextlib.nullcontext() if self.stream is None else self.stream
        entered.__enter__()
        self._entered.append(entered)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._entered.pop().__exit__(*exception)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __repr__(self) -> str:
        return f"<minitorch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


def current_stream(device: Any = None) -> Stream:
    """Return the stream that work is asked for in.

    >>> current_stream().query()
    True
    """
    return Stream(device, wraps=gpu.library().cuda.get_current_stream() if is_available() else None)


def default_stream(device: Any = None) -> Stream:
    """Return the stream that work is asked for in where no other was chosen."""
    return Stream(device, wraps=gpu.library().cuda.Stream.null if is_available() else None)


@contextlib.contextmanager
def stream(stream: Any) -> Iterator[Any]:
    """Return a context in which work is asked for in a stream (None: nothing changes)."""
    with contextlib.nullcontext() if stream is None else stream:
        yield stream


StreamContext = stream


class Event:
    """A moment in a stream; two of them tell the milliseconds between.

    enable_timing: whether it can tell. blocking: whether waiting for it leaves the processor to others.

    >>> begin, end = Event(enable_timing=True), Event(enable_timing=True)
    >>> begin.record(); end.record(); end.synchronize(); begin.elapsed_time(end) >= 0
    True
    """

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, **options: Any
    ) -> None:
        self.time: float | None = None
        self._is_timed = enable_timing
        self.event: Any = None  # CuPy's
        if is_available():
            self.event = gpu.library().cuda.Event(block=blocking, disable_timing=not enable_timing)

    def record(self, stream: Any = None) -> None:
        """Note this moment, in the current stream or in another."""
        self.time = time.perf_counter()
        if self.event is not None:
            self.event.record(None if stream is None else stream.stream)

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this moment to another."""
        if self.time is None or end_event.time is None:
            raise RuntimeError("elapsed_time: both events must be recorded first")
        if self.event is None:
            return (end_event.time - self.time) * 1000
        if not (self._is_timed and end_event._is_timed):
            raise RuntimeError("elapsed_time: both events must be made with enable_timing=True")
        end_event.synchronize()
        return float(gpu.library().cuda.get_elapsed_time(self.event, end_event.event))

    def synchronize(self) -> None:
        """Wait until it has come."""
        if self.event is not None:
            self.event.synchronize()

    def wait(self, stream: Any = None) -> None:
        """Let what is asked for in a stream (the current one) from now on wait for it."""
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        """Tell whether it has come."""
        return self.event is None or bool(self.event.done)


class ExternalStream(Stream):
    """Another library's stream, by its address."""

    def __init__(self, stream_ptr: int, device: Any = None) -> None:
        super().__init__(device, wraps=gpu.library().cuda.ExternalStream(stream_ptr))


def get_stream_from_external(data_ptr: int, device: Any = None) -> ExternalStream:
    """Return another library's stream, by its address."""
    return ExternalStream(data_ptr, device)
