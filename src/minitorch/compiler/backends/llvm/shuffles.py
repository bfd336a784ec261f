"""Lanes of vectors in another order. Enters: names of vectors. Leaves: shuffles, as LLVM text."""

from __future__ import annotations

from collections.abc import Iterable

from minitorch.compiler.backends.llvm.text import Emitter, vector


def segment(element: str, lanes: int) -> int:
    """Return how many lanes the 128-bit segments have that vectors on x86 are made of: within them shuffles are cheap.

    >>> segment("float", 16), segment("double", 8), segment("float", 2)
    (4, 2, 2)
    """
    return min(lanes, 4 if element == "float" else 2)


def shuffle(e: Emitter, x: str, y: str, element: str, lanes: int, picks: Iterable[int]) -> str:
    """Return lanes of two vectors in a new order; those of y count on from those of x."""
    picks = list(picks)
    kind = vector(element, lanes)
    text = ", ".join(f"i32 {pick}" for pick in picks)
    return e.op(f"shufflevector {kind} {x}, {kind} {y}, <{len(picks)} x i32> <{text}>")


def interleave(e: Emitter, x: str, y: str, element: str, lanes: int) -> tuple[str, str]:
    """Return x₀ y₀ x₁ y₁ … in each 128-bit segment: first halves of the segments, second halves."""
    size = segment(element, lanes)
    halves = []
    for begin in (0, size // 2):
        picks = [lane // size * size + begin + lane % size // 2 + lanes * (lane % 2) for lane in range(lanes)]
        halves.append(shuffle(e, x, y, element, lanes, picks))
    return halves[0], halves[1]


def transpose(e: Emitter, values: list[str], element: str, lanes: int) -> list[str]:
    """Turn the square that each 128-bit segment of some vectors makes round; as many vectors as it has lanes.

    Write the place of an element as bits: the vector's number, then the lane. Interleaving two vectors whose
    numbers differ in one bit brings this bit into the lane's bits, from below, and the top bit of the lane into
    its place in the vector's number. After a round for each bit, all have changed places.
    """
    values = list(values)
    half = len(values) // 2
    while half:
        for i in range(len(values)):
            if not i & half:
                pair = values[i], values[i + half]
                values[i], values[i + half] = interleave(e, *pair, element, lanes)
        half //= 2
    return values


def join(e: Emitter, values: list[str], element: str, lanes: int) -> str:
    """Put vectors side by side into one."""
    while len(values) > 1:
        values = [
            shuffle(e, x, y, element, lanes, range(2 * lanes))
            for x, y in zip(values[::2], values[1::2], strict=True)
        ]
        lanes *= 2
    return values[0]


def sum_each(e: Emitter, values: list[str], element: str, lanes: int) -> str:
    """Sum the lanes of each of P vectors: one vector of P sums (P a power of two).

    The rounds of `_transpose`, with the two results of each added at once, as far as they stay in segments.
    """
    count = len(values)
    if count > segment(element, lanes):
        halves = [sum_each(e, part, element, lanes) for part in (values[: count // 2], values[count // 2 :])]
        if count == 2:
            pair = vector(element, 2)
            one = e.op(f"insertelement {pair} poison, {element} {halves[0]}, i64 0")
            return e.op(f"insertelement {pair} {one}, {element} {halves[1]}, i64 1")
        return join(e, halves, element, count // 2)
    kind = vector(element, lanes)
    while len(values) > 1:
        half = len(values) // 2
        pairs = [interleave(e, values[i], values[i + half], element, lanes) for i in range(half)]
        values = [e.op(f"fadd {kind} {low}, {high}") for low, high in pairs]
    total = values[0]
    while lanes > count:
        lanes //= 2
        low, high = (lanes_of(e, total, element, 2 * lanes, begin, lanes) for begin in (0, lanes))
        total = e.op(f"fadd {vector(element, lanes)} {low}, {high}")
    return total


def lanes_of(e: Emitter, value: str, element: str, lanes: int, begin: int, count: int) -> str:
    """Return some consecutive lanes of a vector; one lane is a scalar."""
    if count == lanes:
        return value
    if count == 1:
        return e.op(f"extractelement {vector(element, lanes)} {value}, i64 {begin}")
    return shuffle(e, value, "poison", element, lanes, range(begin, begin + count))


def zero(lanes: int) -> str:
    """Return 0.0 in all lanes."""
    return "zeroinitializer" if lanes > 1 else "0.0"
