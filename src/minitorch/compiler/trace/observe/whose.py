"""Whose code is it? Enters: a code object or a class. Leaves: whether it is observed, or trusted to read only what it
is given and what others report (call/guards.py walks through Modules and optimisers).
"""

from __future__ import annotations

import functools
import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import scipy

_HERE = str(Path(__file__).parents[3].resolve())
# Rooms of this package that use it as any program does.
_ROOMS_OF_USERS = ("app", "course", "proof")
_USERS = tuple(os.path.join(_HERE, room) + os.sep for room in _ROOMS_OF_USERS)
_TRUSTED = tuple(
    folder + os.sep
    for folder in (_HERE, *(str(Path(m.__file__ or "").parent.resolve()) for m in (np, scipy)))
)
_PYTHON = str(Path(os.__file__).parent.resolve()) + os.sep


@functools.lru_cache(maxsize=8192)
def is_trusted_file(file: str) -> bool:
    """Tell whether a file is this library's, but for the rooms that use it as a program does, or NumPy's."""
    if file.startswith(
        ("<frozen importlib", "<frozen abc", "<__array_function__", "<the conditions of", "<the entry of")
    ):
        return True
    if file.startswith("<"):
        return False  # typed at a prompt, or generated
    path = os.path.realpath(file)
    return path.startswith(_TRUSTED) and not path.startswith(_USERS)


def is_user_module(name: str) -> bool:
    """Tell whether a module of this package uses it as any program does."""
    return name.split(".")[1:2] in ([room] for room in _ROOMS_OF_USERS)


def is_trusted(code: types.CodeType) -> bool:
    """Tell whether code is this library's or NumPy's."""
    return is_trusted_file(code.co_filename)


@functools.lru_cache(maxsize=8192)
def is_pythons(file: str) -> bool:
    """Tell whether a file is Python's own."""
    return file.startswith("<frozen") or (
        os.path.realpath(file).startswith(_PYTHON) and "site-packages" not in file
    )


def is_trusted_class(kind: type) -> bool:
    """Tell whether a class is this library's, NumPy's, or built in."""
    home = kind.__module__
    if home == "builtins":
        return True
    module: Any = sys.modules.get(home)
    file = getattr(module, "__file__", None)
    return file is not None and is_trusted_file(file)
