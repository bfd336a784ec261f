"""Refusing what cannot be written down ahead of its numbers.

Enters: what was tried. Leaves: a `CompileError` that names the user's own line and what to write instead.
"""

from __future__ import annotations

import traceback
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
PYTHON = Path(traceback.__file__).parent


class Refused(Exception):
    """A check of a program failed before anything was changed: the function itself says what is wrong."""


class CheckFailed(Exception):
    """A check failed in the recording itself: the function run plainly says what is wrong."""


class CompileError(RuntimeError):
    """A function does something that cannot be written down ahead of its numbers."""


class StaysEager(CompileError):
    """A function does something that is done as it is, call by call."""


def where_in_user_code() -> str:
    """Return the line outside this library that is being run: 'file.py:12: the line'."""
    for frame in reversed(traceback.extract_stack()):
        path = Path(frame.filename)
        ours = PACKAGE in path.parents and path.relative_to(PACKAGE).parts[0] not in (
            "app",
            "course",
            "proof",
        )
        python = frame.filename.startswith("<frozen") or (
            PYTHON in path.parents and "site-packages" not in path.parts
        )
        if not ours and not python and "numpy" not in path.parts:
            return f"{path.name}:{frame.lineno}: {frame.line}"
    return "an unknown line"


def refuse(what: str, instead: str) -> CompileError:
    """Return the error for something that needs numbers which are only known when the program runs."""
    return CompileError(
        f"compile: {what} needs a number that is only known when the program runs\n"
        f"  {where_in_user_code()}\n{instead}"
    )
