"""Steps in memory, which machine code goes through. Enters: kernels, calls of a library, functions. Leaves: sequences.

A step launches a kernel, or calls a library or Python. What of it is the same every time lies in memory; the addresses
of a call, and the stream, are given. (`templates/steps.ll` says how each kind goes.)
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.words import ALIGNMENT
from minitorch.compiler.backends.llvm.machine import MachineCode, compile_module
from minitorch.compiler.backends.llvm.runtime import Builtin, c_string
from minitorch.compiler.backends.llvm.target import host
from minitorch.compiler.backends.llvm.templates import fill

# Each kind of step in memory: 8 bytes each, in this order. Of each operand of a kernel follow two: which address
# it lies at (from 1 on; 0: at none), and how many bytes from there.
KERNEL = (
    "driver",  # its function that launches
    "function",  # the kernel
    "blocks",
    "threads",
    "shared",  # bytes that are asked for
    "count",  # how many operands
    "prepare",  # called with the driver's code, if that is not 0: raises, or it is tried once more
    "fail",  # and then, if it is not 0 again: raises
    "operands",
)
MOST_ARGUMENTS = 23  # of a library's function; those that it does not take do no harm
LIBRARY = (
    "acquire",  # called before, without arguments, so that nobody else uses the library meanwhile
    "release",  # and after it
    "turn",  # where the stream lies that the library's memory was used on last
    "told",  # and that the library was told of last
    "prepare",  # called with the stream, if either is another one
    "misaligned",  # bits that no address may have
    "otherwise",  # a step of Python's, in its place if one has
    "function",  # the library's
    "fail",  # called with its answer, if that is not 0: raises
    "tell_row",  # the library's function by which it is told where a row lies that is added, before; or 0
    "description",  # its first arguments
    "attribute",
    "row",  # where the row lies, as an operand of a kernel does
    "row_offset",
    "row_told",  # where its address lies that the library was told of last
    "count",  # how many of the arguments are addresses
    *(f"argument{number}" for number in range(MOST_ARGUMENTS)),
    "places",  # of each of those three: which argument, and as of a kernel; the stream is at -1
)
PYTHON = ("function", "count")  # a callable, of the stream and so many addresses
EITHER = ("flag", "yes", "yes_words", "no", "no_words")  # where the flag lies; two steps
# A sequence. Of each step follow two: its code, and where its words lie.
SEQUENCE = ("given", "type_error", "none", "count", "steps")
WRONG_NUMBER = "a kernel was launched with the wrong number of addresses"

# What finds sequences, in memory: Python's objects.
NUMBERS = (float, int, bool, type(None))
FINDS = (
    "entries",  # a dict: sequences, each with the arrays that it takes besides
    "kind",  # the class of the arrays
    "new",  # C's function that makes one that is empty inside, of the class
    "nothing",  # a tuple: the arguments of that
    "stream",  # returns the current one
    "true",
    "init",  # the name of an array's method, of a shape and a dtype
    "pointer",  # the class of an array's `data`
    # Attributes, of each: its name, what its class reads it with (C's function, or 0), and the descriptor that takes.
    # `ptr` is one of a `data`, and of a stream.
    *(
        f"{name}{part}"
        for name in ("data", "ptr", "contiguous", "shape", "dtype")
        for part in ("", "_reader", "_of")
    ),
    "error",  # the class of what may go wrong with arrays and attributes: then they are uncommon
    "numbers",  # the classes of numbers
)
# A shortcut, in memory.
SHORTCUT = (
    "finder",
    "of",  # the function that sequences are known for
    "otherwise",  # called with the same, where there is none
    "busy",  # a list: while there is anything in it, that is called
)
KINDS = {"kernel": KERNEL, "library": LIBRARY, "python": PYTHON, "either": EITHER}


@dataclass
class Step:
    """A step: which code goes through it, its words, and all that must live as long."""

    kind: str
    words: np.ndarray
    kept: list[Any] = field(default_factory=list)

    @property
    def pair(self) -> list[int]:
        """Where its code lies, and its words."""
        return [_code().address(self.kind), self.words.ctypes.data]


@functools.cache
def _code() -> MachineCode:
    target = host()
    of_kinds = [(f"{kind}_{name}", place) for kind in KINDS for place, name in enumerate(KINDS[kind])]
    others = [(name, place) for names in (SEQUENCE, FINDS, SHORTCUT) for place, name in enumerate(names)]
    places = {name: 8 * place for name, place in of_kinds + others}
    places["library_arguments"] = places["library_argument0"]
    numbered = range(MOST_ARGUMENTS)
    loads = [
        f"  %a{i}_at = getelementptr i64, ptr %arguments, i64 {i}\n  %a{i} = load i64, ptr %a{i}_at, align 8"
        for i in numbered
    ]
    texts = [
        fill(
            name,
            **places,
            attributes=target.attributes,
            misaligned=ALIGNMENT - 1,
            wrong_number=c_string(WRONG_NUMBER),
            count_of_numbers=len(NUMBERS),
            load_arguments="\n".join(loads),
            arguments=", ".join([f"i64 %a{i}" for i in numbered]),
        )
        for name in ("launch.ll", "steps.ll")
    ]
    return compile_module("\n".join(texts), target, ["launch", "shortcut", *KINDS])


@functools.cache
def builtins() -> tuple[Builtin, Builtin]:
    """Return what makes builtin functions: that run a sequence, and that find one."""
    code = _code()
    return Builtin(b"launch", code, "launch"), Builtin(b"shortcut", code, "shortcut", keywords=True)


def address_of(function: Any) -> int:
    """Return where a function of a library's lies."""
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found


def kernel_step(
    driver: int,
    function: int,
    grid: tuple[int, int, int],
    operands: Sequence[tuple[int, int]],
    prepare: Callable[[int], Any],
    fail: Callable[[int], Any],
    owner: Any,
) -> Step:
    """Return the launch of a kernel that the driver has loaded.

    driver: where the driver's function lies. grid: blocks, threads of each, bytes of shared memory. operands: which
    address each lies at (-1: none), and how many bytes from there. prepare: gets the driver's code where that is not 0,
    and raises, or it is tried once more. fail: gets the code after that, and raises. owner: lives as long as the step.
    """
    pairs = [number for at, offset in operands for number in (1 + at, offset)]
    words = [driver, function, *grid, len(operands), id(prepare), id(fail), *pairs]
    return Step("kernel", np.array(words, np.int64), [prepare, fail, owner])


def python_step(function: Callable[..., Any], count: int) -> Step:
    """Return the call of a function, of a stream and so many addresses."""
    return Step("python", np.array([id(function), count], np.int64), [function])


def either_step(flag: np.ndarray, yes: Step, no: Step) -> Step:
    """Return what goes through one of two steps, as a number in memory says each time."""
    words = np.array([flag.ctypes.data, *yes.pair, *no.pair], np.int64)
    return Step("either", words, [flag, yes, no])


def library_step(
    otherwise: Step, places: Sequence[tuple[int, int, int]], kept: list[Any], **named: int
) -> Step:
    """Return a call of a library's function. named: its words. places: which arguments are addresses, and which."""
    words = np.array([named.get(name, 0) for name in LIBRARY[:-1]] + [n for p in places for n in p], np.int64)
    words[LIBRARY.index("otherwise")] = otherwise.words.ctypes.data
    words[LIBRARY.index("count")] = len(places)
    return Step("library", words, [otherwise, *kept])


def in_a_row(steps: Sequence[Step], addresses: int) -> Callable[..., None]:
    """Return the builtin function that goes through steps, of a stream and so many addresses."""
    objects = [TypeError, None]
    pairs = [number for step in steps for number in step.pair]
    words = np.array([1 + addresses, *map(id, objects), len(steps), *pairs], np.int64)
    return builtins()[0].function(words.ctypes.data, (words, objects, list(steps)))
