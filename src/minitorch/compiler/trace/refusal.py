"""Refusing what cannot be written down ahead of its numbers.

Enters: what was tried. Leaves: a `CompileError` that names the user's own line and what to write instead.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import FrameType

from minitorch.compiler.trace.observe.whose import is_pythons, is_trusted_file


class Refused(Exception):
    """A check of a program failed before anything was changed: the function itself says what is wrong."""


class TooMuchHere(BaseException):
    """More of a device's arrays than the host is to compute on. (A program's own `except Exception` is not meant.)"""


class CheckFailed(Exception):
    """A check failed in the recording itself: the function run plainly says what is wrong."""


class CompileError(RuntimeError):
    """A function does something that cannot be written down ahead of its numbers."""


def where_in_user_code() -> str:
    """Return the line outside this library that is being run: 'file.py:12: the line'."""
    for frame in reversed(traceback.extract_stack()):
        if not is_trusted_file(frame.filename) and not is_pythons(frame.filename):
            return f"{Path(frame.filename).name}:{frame.lineno}: {frame.line}"
    return "an unknown line"


def line_of_user() -> tuple[str, int] | None:
    """Return the file and the line outside this library that is being run; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_trusted_file(file) and not is_pythons(file):
            return file, frame.f_lineno
        frame = frame.f_back
    return None


def refuse(what: str, instead: str) -> CompileError:
    """Return the error for something that needs numbers which are only known when the program runs."""
    return CompileError(
        f"compile: {what} needs a number that is only known when the program runs\n"
        f"  {where_in_user_code()}\n{instead}"
    )
