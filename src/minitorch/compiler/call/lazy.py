"""Lazy execution: `minitorch.lazy`. Enters: ordinary Tensor code. Leaves: the same results, computed when asked for.

Inside the block a Tensor's array is a Pending (trace/pending.py): every op writes itself down, with shape and dtype
worked out at once. When somebody looks at a number (print, item(), numpy(), .data, .grad, an if), and at the end of the
block, everything that is pending and that anybody still holds is computed as one program (lazy_recording.py). Since
ordinary code runs again at every round of a loop, nothing has to be guarded, and nothing is refused.
"""

from __future__ import annotations

import threading
from typing import Any

from minitorch.compiler import backends
from minitorch.compiler.call.lazy_recording import LazyRecording
from minitorch.compiler.call.pending_programs import ProgramsByStructure
from minitorch.engine import recording
from minitorch.engine.modes import Mode, ModeSwitch, current, switch

_programs: dict[tuple[str, bool], ProgramsByStructure] = {}


def _programs_of(backend: str | None, verify: bool) -> ProgramsByStructure:
    """Return the programs of a backend: of the fastest one there is, if none is named."""
    if backend is None:
        try:
            backends.named("native").require()
            backend = "native"
        except ImportError:
            backend = "numpy"
    elif backend not in backends.names():
        raise ValueError(f"lazy: backend must be one of {', '.join(backends.names())}, got {backend!r}")
    else:
        backends.named(backend).require()
    return _programs.setdefault((backend, verify), ProgramsByStructure(backend, verify))


class lazy(ModeSwitch):
    """Record what is done to Tensors, and compute it when a number is asked for, and at the end of the block.

    enabled: `lazy(False)` computes at once again, inside a lazy block. backend: what programs are run by (see
    `minitorch.compile`); the native one where llvmlite is installed, else NumPy. verify: compare each new program with
    NumPy's results before they are used. In a function that is being compiled it has no effect.

    What is pending is one program, fused as a compiled function is, and kept by its structure: the next round of a
    loop compiles nothing. The block gives an object that tells about it: `explain()`, `programs`, `compilations`.

    >>> import minitorch
    >>> x = minitorch.arange(4.0)
    >>> with minitorch.lazy(backend="numpy") as session:
    ...     for _ in range(3):
    ...         x = (x * 2 + 1).relu()
    ...     total = x.sum().item()
    >>> total, session.programs
    (76.0, 1)
    """

    def __new__(cls, enabled: Any = True, **options: Any) -> Any:
        """Serve as `lazy()` and, bare, as `@lazy`."""
        return super().__new__(cls) if isinstance(enabled, bool) else cls(**options)(enabled)

    def __init__(self, enabled: bool = True, *, backend: str | None = None, verify: bool = True) -> None:
        super().__init__(self._changed)
        self._enabled, self._backend, self._verify = enabled, backend, verify
        if enabled:
            _programs_of(backend, verify)  # what is missing is said here

    def _changed(self, mode: Mode) -> Mode:
        if mode.recorder is not None and mode.recorder.repeats:
            return mode
        if not self._enabled:
            return mode._replace(recorder=None)
        if mode.recorder is not None:
            return mode
        return mode._replace(recorder=LazyRecording(_programs_of(self._backend, self._verify)))

    def _another(self) -> ModeSwitch:
        return lazy(self._enabled, backend=self._backend, verify=self._verify)

    def __enter__(self) -> Any:
        outer = current()
        super().__enter__()
        active = current().recorder
        if active is not None and active is not outer.recorder:
            recording.begin(active)
        return active

    def __exit__(self, kind: Any = None, *exception: Any) -> None:
        active = current().recorder
        super().__exit__()
        if active is not None and active is not current().recorder and not active.repeats:
            _leave(active, quietly=kind is not None)


def _leave(active: LazyRecording, quietly: bool) -> None:
    try:
        if quietly:  # something else went wrong: what could not be computed is told to whoever asks for it
            active.flush()
        else:
            active.end()
    finally:
        recording.end(active)


_setting = threading.local()


def set_lazy(enabled: bool, *, backend: str | None = None, verify: bool = True) -> None:
    """Record from now on, in this thread, as in a block of `lazy()`; or, with False, compute what is pending and stop.

    >>> import minitorch
    >>> minitorch.set_lazy(True, backend="numpy")
    >>> minitorch.is_lazy(), (minitorch.ones(2) * 3).sum().item()
    (True, 6.0)
    >>> minitorch.set_lazy(False)
    >>> minitorch.is_lazy()
    False
    """
    mode = current()
    if mode.recorder is not None and mode.recorder.repeats:
        return
    before = getattr(_setting, "recording", None)
    if enabled:
        if mode.recorder is None:
            _setting.recording = LazyRecording(_programs_of(backend, verify))
            recording.begin(_setting.recording)
            switch(mode._replace(recorder=_setting.recording))
        if before is None or mode.recorder is before:
            return
    else:
        switch(mode._replace(recorder=None))
        if before is None:
            return
        _setting.recording = None
    _leave(before, quietly=False)


def is_lazy() -> bool:
    """Tell whether what is done to Tensors is recorded, to be computed later."""
    active = current().recorder
    return active is not None and not active.repeats
