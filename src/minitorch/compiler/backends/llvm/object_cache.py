"""Object code on disk. Enters: a key and the code made for it. Leaves: the same code, in a later process.

The folder is $MINITORCH_CACHE, or `minitorch` where this system keeps caches; "off", "none", "0" or an empty value
mean no folder. A file is used only if it says it was made from this very text for this very processor and its
checksum holds; any other is made anew. Whatever goes wrong with the disk, compiling goes on without it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import stat
import sys
import tempfile
import time
from pathlib import Path

from minitorch.compiler.backends.llvm.target import Target, require_llvmlite

# Raise this when the same text should give other object code than before.
CACHE_VERSION = 1
CACHE_BYTES = 256 << 20
MOST_BYTES = 64 << 20  # of one file
NO_CACHE = ("", "0", "none", "off")  # values of MINITORCH_CACHE that name no folder

_MAGIC = b"minitorch object code\n"


def key(text: str, target: Target, optimization: int) -> str:
    """Return what tells one object file from all others: the text, the processor, and who makes it."""
    version = require_llvmlite().llvm_version_info
    what = (CACHE_VERSION, version, target.name, target.features, target.triple, optimization)
    return hashlib.blake2b(f"{what}\n{text}".encode(), digest_size=24).hexdigest()


def folder() -> Path | None:
    """Return the folder that keeps object code, or None if there is to be none."""
    chosen = os.environ.get("MINITORCH_CACHE")
    if chosen is not None:
        return None if chosen.strip().lower() in NO_CACHE else _absolute(chosen)
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "minitorch"


@functools.cache
def _absolute(chosen: str) -> Path:
    """A folder by its whole path: it stays the same folder when the working directory changes."""
    return Path(chosen).expanduser().absolute()


def file_for(key: str) -> Path | None:
    """Return the file of a key, in a folder that is there and nobody else's: its content will be run."""
    home = folder()
    if home is None:
        return None
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = home.stat()
    except OSError:
        return None
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        return None
    return home / f"{key}.o"


def _seal(key: str, code: bytes) -> bytes:
    return hashlib.blake2b(key.encode() + code, digest_size=32).digest()


def _content(path: Path) -> bytes:
    """Return what is in a file; nothing if it is no plain file, or larger than any that was written here.

    Opened without waiting: a pipe in its place would have us wait for somebody who writes into it.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            return b""
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(MOST_BYTES)
    finally:
        os.close(handle)


def read(path: Path | None, key: str) -> bytes | None:
    """Return the code of a file, if it is whole and made for this key."""
    if path is None:
        return None
    try:
        content = _content(path)
    except OSError:
        return None
    start = len(_MAGIC) + 32
    code = content[start:]
    if content[: len(_MAGIC)] != _MAGIC or content[len(_MAGIC) : start] != _seal(key, code):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # so that what is used lately is deleted last
    return code


def write(path: Path | None, key: str, code: bytes) -> None:
    """Write a file beside its place and move it there, so that a reader sees all of it or none."""
    content = _MAGIC + _seal(key, code) + code
    if path is None or len(content) > MOST_BYTES:
        return
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return
    if _write_number() % 32 == 0:
        trim(path.parent)


_write_number = itertools.count().__next__


def trim(home: Path, limit: int | None = None) -> None:
    """Delete the files unused for longest until the rest is within the limit; and pieces left by a crash."""
    limit = CACHE_BYTES if limit is None else limit
    files = []
    with contextlib.suppress(OSError), os.scandir(home) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat()
                if entry.name.endswith(".o"):
                    files.append((status.st_mtime, status.st_size, entry.path))
                elif entry.name.endswith(".part") and status.st_mtime < time.time() - 3600:
                    os.unlink(entry.path)
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
            total -= size
