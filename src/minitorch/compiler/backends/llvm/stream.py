"""Random words by machine code. Enters: a state of MT19937, as NumPy keeps it. Leaves: memory filled with its numbers.

The stream is NumPy's, word for word, and the state is left where NumPy would leave it: either may go on. A word needs
only words that lie hundreds further back, so a vector of them is made at a time, and as many are mixed and converted.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np

from minitorch.compiler.backends.llvm.machine import MachineCode, compile_module
from minitorch.compiler.backends.llvm.target import Target, host
from minitorch.compiler.backends.llvm.text import Emitter, literal, splat, vector

WORDS = 624  # of a state; behind them an i32: the place of the next one
SHIFTED = 397  # each word is made of one so far ahead, and of its neighbour
MATRIX = 0x9908B0DF
# Words are converted in pieces that stay in the nearest cache.
PIECE = 1024
# What can be asked for: raw words, float32 of 24 bits of one word, float64 of 53 bits of two (the first one high).
NAMES = {np.dtype(np.uint32): "words", np.dtype(np.float32): "floats", np.dtype(np.float64): "doubles"}


class _Function(Emitter):
    """One function while it is being written, with loops over neighbours."""

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes

    def jump(self, label: str) -> None:
        """Go on there."""
        self.line(f"br label %{label}")
        self.label(label)

    def each(self, start: str, stop: str, body: Callable[[str, int], None]) -> None:
        """Write loops over a range: the body at a place, for so many neighbours; all lanes at once, then one by one."""
        for lanes in dict.fromkeys((self.lanes, 1)):
            before, loop, inside, after = (
                self.block,
                *(self.fresh(each) for each in ("loop", "inside", "after")),
            )
            self.jump(loop)
            place = "%" + self.fresh("place")
            head = len(self.lines)
            end = self.op(f"add i64 {place}, {lanes}")
            fits = self.op(f"icmp ule i64 {end}, {stop}")
            self.line(f"br i1 {fits}, label %{inside}, label %{after}")
            self.label(inside)
            body(place, lanes)
            self.lines.insert(head, f"  {place} = phi i64 [ {start}, %{before} ], [ {end}, %{self.block} ]")
            self.line(f"br label %{loop}")
            self.label(after)
            start = place

    def at(self, base: str, element: str, place: str, further: int = 0) -> str:
        """Return the address of an element."""
        moved = self.op(f"add i64 {place}, {further}") if further else place
        return self.op(f"getelementptr {element}, ptr {base}, i64 {moved}")

    def load(self, base: str, place: str, lanes: int, further: int = 0) -> str:
        """Return words."""
        return self.op(f"load {vector('i32', lanes)}, ptr {self.at(base, 'i32', place, further)}, align 4")

    def words(self, lanes: int) -> Callable[..., str]:
        """Return what writes an instruction on words: `op(name, word, word or number)`."""
        kind = vector("i32", lanes)

        def op(name: str, word: str, other: str | int) -> str:
            given = splat(str(other), "i32", lanes) if isinstance(other, int) else other
            return self.op(f"{name} {kind} {word}, {given}")

        return op


def _refill(f: _Function, state: str) -> None:
    """Make all words of a state anew, each in its place."""

    def renew(place: str, lanes: int, ahead: int, neighbour: str | None = None) -> None:
        op = f.words(lanes)
        word, following = f.load(state, place, lanes), neighbour or f.load(state, place, lanes, 1)
        joined = op("or", op("and", word, 0x80000000), op("and", following, 0x7FFFFFFF))
        odd = op("and", op("sub", splat("0", "i32", lanes), op("and", following, 1)), MATRIX)
        mixed = op("xor", op("xor", op("lshr", joined, 1), odd), f.load(state, place, lanes, ahead))
        f.line(f"store {vector('i32', lanes)} {mixed}, ptr {f.at(state, 'i32', place)}, align 4")

    begin = WORDS - SHIFTED  # from here on the word that is needed is a new one
    f.each("0", str(begin), lambda place, lanes: renew(place, lanes, SHIFTED))
    f.each(str(begin), str(WORDS - 1), lambda place, lanes: renew(place, lanes, -begin))
    renew(str(WORDS - 1), 1, -begin, f.load(state, "0", 1))


def _write_words(lanes: int) -> _Function:
    f = _Function(lanes)
    f.label("entry")
    position = f.at("%state", "i32", str(WORDS))
    f.jump("more")
    f.line("%done = phi i64 [ 0, %entry ], [ %done_next, %taken ]")
    left = f.op("sub i64 %count, %done")
    finished = f.op(f"icmp eq i64 {left}, 0")
    f.line(f"br i1 {finished}, label %leave, label %look")
    f.label("look")
    place = f.op(f"load i32, ptr {position}, align 4")
    used_up = f.op(f"icmp uge i32 {place}, {WORDS}")
    known = f.op(f"zext i32 {place} to i64")
    f.line(f"br i1 {used_up}, label %refill, label %take")
    f.label("refill")
    _refill(f, "%state")
    refilled = f.block
    f.jump("take")
    begin = f.op(f"phi i64 [ {known}, %look ], [ 0, %{refilled} ]")
    there = f.op(f"sub i64 {WORDS}, {begin}")
    fewer = f.op(f"icmp ult i64 {there}, {left}")
    count = f.op(f"select i1 {fewer}, i64 {there}, i64 {left}")
    source, target = f.at("%state", "i32", begin), f.at("%out", "i32", "%done")

    def temper(place: str, lanes: int) -> None:
        op = f.words(lanes)
        word = f.load(source, place, lanes)
        word = op("xor", word, op("lshr", word, 11))
        word = op("xor", word, op("and", op("shl", word, 7), 0x9D2C5680))
        word = op("xor", word, op("and", op("shl", word, 15), 0xEFC60000))
        word = op("xor", word, op("lshr", word, 18))
        f.line(f"store {vector('i32', lanes)} {word}, ptr {f.at(target, 'i32', place)}, align 4")

    f.each("0", count, temper)
    f.jump("taken")
    f.line(f"%done_next = add i64 %done, {count}")
    stopped = f.op(f"trunc i64 {f.op(f'add i64 {begin}, {count}')} to i32")
    f.line(f"store i32 {stopped}, ptr {position}, align 4")
    f.line("br label %more")
    f.label("leave")
    f.line("ret void")
    return f


def _write_converted(lanes: int, dtype: str) -> _Function:
    """Write a function that draws words piece by piece and converts them."""
    each = 2 if dtype == "float64" else 1  # words for a number
    f = _Function(lanes // each)
    f.label("entry")
    piece = f.op(f"alloca [{PIECE} x i32], align 64")
    f.jump("more")
    f.line("%done = phi i64 [ 0, %entry ], [ %done_next, %converted ]")
    left = f.op("sub i64 %count, %done")
    finished = f.op(f"icmp eq i64 {left}, 0")
    f.line(f"br i1 {finished}, label %leave, label %draw")
    f.label("draw")
    whole = f.op(f"icmp ult i64 {PIECE // each}, {left}")
    count = f.op(f"select i1 {whole}, i64 {PIECE // each}, i64 {left}")
    f.line(f"call void @words(ptr %state, ptr {piece}, i64 {f.op(f'mul i64 {count}, {each}')})")
    target = f.at("%out", "double" if each == 2 else "float", "%done")

    def convert(place: str, lanes: int) -> None:
        bits, word, number = (53, "i64", "double") if each == 2 else (24, "i32", "float")
        words, numbers = vector(word, lanes), vector(number, lanes)
        drawn = f.op(f"load {words}, ptr {f.at(piece, word, place)}, align 4")
        if each == 2:  # the first one high
            high, low = (f.op(f"{to} {words} {drawn}, {splat('32', word, lanes)}") for to in ("shl", "lshr"))
            drawn = f.op(f"or {words} {high}, {low}")
        some = f.op(f"and {words} {drawn}, {splat(str(2**bits - 1), word, lanes)}")
        whole = f.op(f"uitofp {words} {some} to {numbers}")
        scaled = f.op(f"fmul {numbers} {whole}, {splat(literal(2.0**-bits, 'f8'), number, lanes)}")
        f.line(f"store {numbers} {scaled}, ptr {f.at(target, number, place)}, align 4")

    f.each("0", count, convert)
    f.jump("converted")
    f.line(f"%done_next = add i64 %done, {count}")
    f.line("br label %more")
    f.label("leave")
    f.line("ret void")
    return f


def text(target: Target) -> str:
    """Return the three functions `void (ptr state, ptr out, i64 count)` as LLVM text."""
    lanes = target.lanes("uint32")
    functions = {
        "words": _write_words(lanes),
        "floats": _write_converted(lanes, "float32"),
        "doubles": _write_converted(lanes, "float64"),
    }
    parameters = "ptr noalias %state, ptr noalias %out, i64 %count"
    return "\n".join(
        "\n".join([f"define void @{name}({parameters}) {target.attributes} {{", *function.lines, "}"])
        for name, function in functions.items()
    )


class NativeStream:
    """The functions, loaded: `fill(dtype, state, out, count)` draws into memory at an address."""

    def __init__(self, target: Target | None = None) -> None:
        target = target or host()
        self._code: MachineCode = compile_module(text(target), target, list(NAMES.values()))
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        self._functions = {dtype: kind(self._code.address(name)) for dtype, name in NAMES.items()}

    def fill(self, dtype: np.dtype, state: int, out: int, count: int) -> None:
        """Draw so many numbers. Nobody else may use the state meanwhile; Python's other threads go on."""
        self._functions[dtype](state, out, count)


@functools.cache
def native_stream() -> NativeStream:
    """Return the functions of this process."""
    return NativeStream()
