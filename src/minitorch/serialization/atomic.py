"""A file is whole or untouched. Enters: a path. Leaves: an open file that becomes `path` at the end."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def atomically(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes `path`'s place only when everything is written.

    Whatever happens in between (an exception, Ctrl-C, kill -9, no space left), `path` is as it was.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomically(Path(folder, "note.txt")) as file:
    ...         written = file.write(b"all of it")
    ...     Path(folder, "note.txt").read_bytes()
    b'all of it'
    """
    # Writing through a symbolic link means writing what it points to.
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"save: {path} is a folder; give the name of a file in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"save: the folder {target.parent} does not exist")
    if target.exists() and not target.is_file():  # a pipe or a device holds nothing that could be lost
        with open(target, "wb") as file:
            yield file
        return
    # In the same folder: only within one file system is a rename a single, indivisible step.
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        # Opened by hand and not by tempfile, so that the user's umask decides who may read it.
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o666)
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # the bytes first, then the name: a power cut cannot swap the two
        if target.exists():
            os.chmod(temporary, target.stat().st_mode & 0o7777)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    # So that the new name, too, survives a power cut. Not every system lets a folder be opened.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
