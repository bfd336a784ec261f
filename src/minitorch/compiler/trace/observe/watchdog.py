"""The watchdog: refuses a run in which a program's own code ran unobserved.

Enters: frames as they begin. Leaves: nothing, or a refusal.

Special methods that C calls (a key's __hash__, an __eq__ inside a list's index), and functions that this library calls
without having been told to observe them, do not pass the hooks: what they read is not known.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minitorch.compiler.trace.observe.hooks import rewriter
from minitorch.compiler.trace.observe.observer import Observer, current_observer
from minitorch.compiler.trace.observe.whose import is_pythons, is_trusted, is_user_module
from minitorch.engine.gpu import has_code_in

# Packages that CuPy asks where things are: its compiled code does too, of which there is no frame.
_OF_NVIDIA = ("cuda", "nvidia")
_harmless: dict[int, Any] = {}  # code, by id, that was looked at before: a weak reference to it


def _is_harmless(frame: Any) -> bool:
    code = frame.f_code
    number = id(code)
    ours = is_trusted(code) or is_pythons(code.co_filename) or _is_tool(code)
    if code.co_filename.startswith("<"):  # generated: whose it is, its globals tell
        home = frame.f_globals.get("__name__", "")
        ours |= home.partition(".")[0] in ("minitorch", "numpy", "scipy") and not is_user_module(home)
        ours |= home.startswith("namedtuple_")  # it makes a tuple, and that is all
    if ours or rewriter.is_instrumented(code):
        _harmless[number] = weakref.ref(code, lambda _: _harmless.pop(number, None))
        return True
    return False


def _is_done_once(frame: Any) -> bool:
    """Tell whether a frame is of what is done at first use: finding or running a module that this library imports
    only now, or looking, by other packages, for what a device's library needs.
    """
    if "cupy" in sys.modules and frame.f_globals.get("__name__", "").partition(".")[0] in _OF_NVIDIA:
        return True
    is_helper = has_code_in(frame.f_code.co_filename, beside=True)
    while frame is not None and not rewriter.is_instrumented(frame.f_code):
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib") or (is_helper and has_code_in(file)):
            return True
        frame = frame.f_back
    return False


def _is_tool(code: Any) -> bool:
    file = code.co_filename
    return "/llvmlite/" in file or "/bytecode/" in file or has_code_in(file)


@contextmanager
def watchdog(observer: Observer) -> Iterator[None]:
    """Look at every frame that begins in this thread; where both a tracer and a profiler do already, trust it."""
    # A tracer that wants no lines is told of such frames alone, a profiler of every call in C too: a third of the time
    # that recording takes. But where a debugger traces, it goes on.
    get, put = (sys.gettrace, sys.settrace) if sys.gettrace() is None else (sys.getprofile, sys.setprofile)
    if get() is not None:
        yield
        return

    def look(frame: Any, event: str, argument: Any) -> None:
        if id(frame.f_code) in _harmless or event != "call" or _is_harmless(frame):
            return
        if current_observer() is observer and not _is_done_once(frame):
            refusal = observer.refuse(f"{frame.f_code.co_qualname} is called where it cannot be observed")
            if frame.f_code.co_name != "__del__":  # (whom nobody calls, and whose errors nobody catches)
                raise refusal  # before its first line: what it would do could not be undone

    collects = gc.isenabled()

    def end() -> None:
        if collects:
            gc.enable()
        if get() is look:  # (a breakpoint puts the debugger's in its place)
            put(None)

    try:  # (Twice: Ctrl-C may come at the end, too.)
        try:
            gc.disable()  # what it calls back, and what it finalises, is nothing the function does
            put(look)
            yield
        finally:
            end()
    finally:
        end()
