"""`minitorch run`: a program that imports torch, as Python itself runs one. Enters: command line. Leaves: exit code.

sys.argv, sys.path[0], `__main__`, what an uncaught error prints and the exit code are Python's own. Started by mpirun,
a program finds what torchrun would tell it (RANK, WORLD_SIZE, LOCAL_RANK, …) in its environment.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minitorch.distributed.world import offer_environment
from minitorch.face.finder import install_as_torch

USAGE = "usage: minitorch run SCRIPT [ARGUMENT …] | -m MODULE [ARGUMENT …] | -c CODE [ARGUMENT …]"


def run(words: Sequence[str]) -> int:
    """Run a script, a module (-m) or code (-c) with torch being minitorch; return its exit code."""
    if not words or (words[0] in ("-m", "-c") and len(words) < 2):
        print(f"{USAGE}\nminitorch run: a script, -m MODULE or -c CODE is missing", file=sys.stderr)
        return 2
    if words[0].startswith("-") and words[0] not in ("-m", "-c"):
        print(f"{USAGE}\nminitorch run: {words[0]} is no option; give it after the script", file=sys.stderr)
        return 2
    offer_environment()
    install_as_torch()
    if words[0] == "-m":
        return _run_module(words[1], words[2:])
    if words[0] == "-c":
        _first_on_path("")
        sys.argv = ["-c", *words[2:]]
        code = _compiled(words[1] + "\n", "<string>")
        return _execute(code, {}) if code is not None else 1
    return _run_script(words[0], words[1:])


def _run_script(script: str, arguments: Sequence[str]) -> int:
    sys.argv = [script, *arguments]
    path = Path(script)
    if path.is_dir() or path.suffix in (".zip", ".pyz"):
        _first_on_path(script)
        return _run_module("__main__", arguments, script)
    try:
        source = path.read_bytes()
    except OSError as error:
        print(f"minitorch run: can't open file {str(path.absolute())!r}: {error.strerror}", file=sys.stderr)
        return 2
    _first_on_path(str(path.resolve().parent))
    whole = os.path.abspath(script)
    code = _compiled(source, whole)
    loader = importlib.machinery.SourceFileLoader("__main__", whole)
    return _execute(code, {"__file__": whole, "__loader__": loader}) if code is not None else 1


def _run_module(name: str, arguments: Sequence[str], script: str | None = None) -> int:
    if script is None:
        _first_on_path(os.getcwd())
        sys.argv = ["-m", *arguments]  # which it is, as long as the module is looked for
    sys.modules.pop("__main__", None)
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError:
        spec = None
    loader: Any = None if spec is None else spec.loader
    code = loader.get_code(spec.name) if spec is not None and hasattr(loader, "get_code") else None
    if spec is None or code is None:
        print(f"minitorch run: No module named {name!r} that can be run", file=sys.stderr)
        return 1
    sys.argv[0] = script or spec.origin or name
    return _execute(
        code,
        {
            "__file__": spec.origin,
            "__cached__": spec.cached,
            "__loader__": spec.loader,
            "__package__": spec.parent,
            "__spec__": spec,
        },
    )


def _first_on_path(place: str) -> None:
    """Put a folder where Python puts a script's own: in the place of the one it has put there for this command."""
    if sys.flags.safe_path:
        return
    sys.path[0:1] = [place]


def _compiled(source: Any, name: str) -> types.CodeType | None:
    try:
        return compile(source, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        return None


def _execute(code: types.CodeType, names: dict[str, Any]) -> int:
    """Run code as `__main__`; an uncaught error is told by sys.excepthook, without the frames of this file."""
    main = types.ModuleType("__main__")
    vars(main).update({"__builtins__": builtins, "__spec__": None, "__package__": None, **names})
    sys.modules["__main__"] = main
    try:
        exec(code, vars(main))
    except SystemExit:
        raise
    except BaseException as error:
        own = error.__traceback__
        theirs = own.tb_next if own is not None else None
        sys.excepthook(type(error), error.with_traceback(theirs), theirs)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0
