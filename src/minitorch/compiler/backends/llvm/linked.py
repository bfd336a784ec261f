"""Linked programs on disk. Enters: a program. Leaves: in a later process, what was linked for the same one.

To schedule a program and to write its kernels takes about as long as to run it the first time, and comes to the same
whenever the program, the processor, the number of threads and the lines that do it are the same. The file lies beside
the object code, under the same conditions (`object_cache.py`).
"""

from __future__ import annotations

import functools
import hashlib
import io
import pickle
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm import object_cache
from minitorch.compiler.backends.llvm.driver import Arena, Constant, External, Step
from minitorch.compiler.ir.program import Program
from minitorch.compiler.schedule.report import BuildReport

enabled = True  # False: every program is scheduled and written anew, as who looks for mistakes there wants it
MOST_BYTES = 4 << 20  # of constants and of everything else; larger programs are linked anew
ROOMS = ("ir", "schedule", "backends")  # of the compiler: where a change may give another linked program
_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Linked:
    """A program whose sizes are known, and that calls nothing of Python's, as plain data.

    kernels: the key of each one's object code, and the functions that it imports. steps: the function of each is the
    number of its kernel. The rest is what `Runner` and `NativeProgram` are made from.
    """

    kernels: Sequence[tuple[str, tuple[str, ...]]]
    steps: Sequence[Step]
    table: Sequence[Arena | External | Constant]
    arena: int
    externals: int
    release: bool
    early: frozenset[int]
    may_fail: bool
    report: BuildReport


def key(
    program: Program, updates: Mapping[int, int], numbers: Collection[int], machine: Sequence[Any]
) -> str | None:
    """Return what tells a program from all others, for a machine that is as described; None: it cannot be kept."""
    source = _source() if enabled else None
    if source is None or program.guards or program.symbols:
        return None
    hashed = hashlib.blake2b(digest_size=24)
    hashed.update(repr((source, *machine, sorted(updates.items()), sorted(numbers))).encode())
    values = program.values()
    place = {value: number for number, value in enumerate(values)}
    lines = []
    for value in values:
        attributes = []
        for name, thing in value.attributes.items():
            if isinstance(thing, np.ndarray):
                if thing.dtype.hasobject or thing.nbytes > MOST_BYTES:
                    return None
                hashed.update(np.ascontiguousarray(thing).tobytes())
                thing = (thing.dtype, thing.shape)
            elif not _is_plain(thing):
                return None
            attributes.append((name, thing))
        inputs = [place[i] for i in value.inputs]
        lines.append((value.primitive, inputs, attributes, value.shape, value.dtype.str, value.line))
    hashed.update(repr((lines, [place[o] for o in program.outputs])).encode())
    return hashed.hexdigest()


def _is_plain(thing: Any) -> bool:
    """Whether `repr` says all there is to say of something."""
    if type(thing) is tuple:
        return all(map(_is_plain, thing))
    return type(thing) in _PLAIN or isinstance(thing, (np.dtype, np.number, np.bool_))


@functools.cache
def _source() -> str | None:
    """Return what tells these lines from others that would link otherwise; None if they cannot be read."""
    hashed = hashlib.blake2b(digest_size=16)
    home = Path(__file__).parents[2]
    try:
        for path in sorted(
            p for room in ROOMS for p in (home / room).rglob("*") if p.suffix in (".py", ".ll")
        ):
            hashed.update(str(path.relative_to(home)).encode() + b"\n" + path.read_bytes())
    except OSError:
        return None
    return hashed.hexdigest()


def read(key: str) -> Linked | None:
    """Return what was kept under a key, if anything was."""
    content = object_cache.read(object_cache.file_for(key), key)
    if content is None:
        return None
    linked: Linked = pickle.loads(content)  # as much to be trusted as the code beside it, which is run
    return linked


def write(key: str, linked: Linked) -> None:
    """Keep a linked program."""
    content = io.BytesIO()
    pickle.dump(linked, content, pickle.HIGHEST_PROTOCOL)
    if content.tell() <= MOST_BYTES:
        object_cache.write(object_cache.file_for(key), key, content.getvalue())
