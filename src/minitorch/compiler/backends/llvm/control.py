"""Numbers and control flow as LLVM text. Enters: names of i64 numbers, or literals. Leaves: sums, loops and branches.

A number is written as text: a name that begins with %, or a literal. What is known already is computed here, and takes
no instruction. A size that varies has a name, too (`kernel.py`): f"{n}" spells any size, str(n) would not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minitorch.compiler.backends.llvm.text import Emitter


def known(value: str) -> int | None:
    """Return the number a literal stands for; None for a name."""
    return None if value.startswith("%") else int(value)


def add(e: Emitter, x: str, y: str) -> str:
    """Return the sum of two numbers."""
    if known(x) is not None and known(y) is not None:
        return str(int(x) + int(y))
    if x == "0" or y == "0":
        return y if x == "0" else x
    return e.op(f"add i64 {x}, {y}")


def multiply(e: Emitter, x: str, factor: int) -> str:
    """Return a number times a known factor."""
    if known(x) is not None:
        return f"{int(x) * factor}"
    if factor in (0, 1):
        return x if factor else "0"
    return e.op(f"mul i64 {x}, {factor}")


def divide(e: Emitter, x: str, divisor: int) -> tuple[str, str]:
    """Return quotient and remainder of a number that is not negative."""
    if known(x) is not None:
        return f"{int(x) // divisor}", f"{int(x) % divisor}"
    if divisor == 1:
        return x, "0"
    quotient = e.op(f"udiv i64 {x}, {divisor}")
    return quotient, e.op(f"sub i64 {x}, {multiply(e, quotient, divisor)}")


def take_apart(e: Emitter, number: str, sizes: Sequence[int]) -> list[str]:
    """Return the counters of nested loops, outermost first, out of the number of their turn."""
    inner = []
    for size in reversed(sizes[1:]):
        number, counter = divide(e, number, size)
        inner.append(counter)
    return [number, *reversed(inner)] if sizes else []


def smaller(e: Emitter, x: str, y: str) -> str:
    """Return the smaller of two numbers."""
    if known(x) is not None and known(y) is not None:
        return str(min(int(x), int(y)))
    return e.call("llvm.smin.i64", "i64", [("i64", x), ("i64", y)])


def larger(e: Emitter, x: str, y: str) -> str:
    """Return the larger of two numbers."""
    if known(x) is not None and known(y) is not None:
        return str(max(int(x), int(y)))
    return e.call("llvm.smax.i64", "i64", [("i64", x), ("i64", y)])


def at(e: Emitter, pointer: str, offset: str, element: str) -> str:
    """Return the address some elements further on."""
    return pointer if offset == "0" else e.op(f"getelementptr {element}, ptr {pointer}, i64 {offset}", "p")


def loop(
    e: Emitter,
    start: str,
    stop: str,
    body: Callable[[str, list[str]], list[str]],
    carried: Sequence[tuple[str, str]] = (),
    certain: bool = False,
) -> list[str]:
    """Write `for i in range(start, stop)` around a body that takes i and the carried values and returns new ones.

    carried: (type, first value) of each. Returned are the values after the last round. The test stands at the
    end of a round, and before the first only where it is not known to pass, or `certain` to.
    """
    first, last = known(start), known(stop)
    if first is not None and last is not None and last - first <= 1:
        values = [value for _, value in carried]
        return body(start, values) if last > first else values
    before, head, latch, done = (e.fresh(name) for name in ("before", "head", "latch", "done"))
    certain = certain or (first is not None and last is not None)
    e.line(f"br label %{before}")
    e.label(before)
    if certain:
        e.line(f"br label %{head}")
    else:
        enters = e.op(f"icmp slt i64 {start}, {stop}")
        e.line(f"br i1 {enters}, label %{head}, label %{done}")
    e.label(head)
    index, following = e.op("phi", "i"), "%" + e.fresh("i")
    places = [len(e.lines) - 1]
    values = []
    for _ in carried:
        values.append(e.op("phi"))
        places.append(len(e.lines) - 1)
    results = body(index, values)
    e.line(f"br label %{latch}")
    e.label(latch)
    e.line(f"{following} = add i64 {index}, 1")
    again = e.op(f"icmp slt i64 {following}, {stop}")
    e.line(f"br i1 {again}, label %{head}, label %{done}")
    e.label(done)
    kinds = ["i64", *(kind for kind, _ in carried)]
    firsts = [start, *(value for _, value in carried)]
    for place, kind, one, other in zip(places, kinds, firsts, [following, *results], strict=True):
        e.lines[place] += f" {kind} [ {one}, %{before} ], [ {other}, %{latch} ]"
    if certain:
        return results
    return [
        e.op(f"phi {kind} [ {one}, %{before} ], [ {result}, %{latch} ]")
        for (kind, one), result in zip(carried, results, strict=True)
    ]


def repeat(e: Emitter, start: str, stop: str, body: Callable[[str], None]) -> None:
    """Write `for i in range(start, stop)` around a body that carries nothing from round to round."""

    def turn(number: str, _: list[str]) -> list[str]:
        body(number)
        return []

    loop(e, start, stop, turn)


def when(
    e: Emitter, condition: str, then: Callable[[], None], otherwise: Callable[[], None] = lambda: None
) -> None:
    """Write `if condition: then() else: otherwise()`."""
    yes, no, end = (e.fresh(name) for name in ("yes", "no", "end"))
    e.line(f"br i1 {condition}, label %{yes}, label %{no}")
    for label, write in ((yes, then), (no, otherwise)):
        e.label(label)
        write()
        e.line(f"br label %{end}")
    e.label(end)


def when_all(e: Emitter, conditions: Sequence[str], then: Callable[[], None]) -> None:
    """Write `if` all conditions hold: `then()`; without any, `then()` alone."""
    if not conditions:
        then()
        return
    holds = conditions[0]
    for condition in conditions[1:]:
        holds = e.op(f"and i1 {holds}, {condition}")
    when(e, holds, then)


def counted_loop(
    e: Emitter,
    start: str,
    stop: str,
    step: int,
    carried: Sequence[tuple[str, str]],
    body: Callable[[str, list[str]], list[str]],
    certain: bool = True,
) -> list[str]:
    """Write a loop in steps, with values carried from turn to turn, and return them as they leave it.

    carried: (type, first value) of each. certain: there is at least one turn.
    """
    if start.isdigit() and stop.isdigit() and int(start) + step >= int(stop) and int(start) < int(stop):
        return body(start, [init for _, init in carried])
    head, done = e.fresh("loop"), e.fresh("done")
    before = e.block
    if certain:
        e.line(f"br label %{head}")
    else:
        some = e.op(f"icmp slt i64 {start}, {stop}")
        e.line(f"br i1 {some}, label %{head}, label %{done}")
    e.label(head)
    counter = "%" + e.fresh("i")
    names = ["%" + e.fresh("c") for _ in carried]
    at = len(e.lines)
    e.lines.extend([""] * (1 + len(carried)))
    after = body(counter, names)
    following = e.op(f"add nuw nsw i64 {counter}, {step}")
    more = e.op(f"icmp slt i64 {following}, {stop}")
    e.line(f"br i1 {more}, label %{head}, label %{done}")
    latch = e.block
    e.lines[at] = f"  {counter} = phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]"
    for k, ((kind, init), name, new) in enumerate(zip(carried, names, after, strict=True)):
        e.lines[at + 1 + k] = f"  {name} = phi {kind} [ {init}, %{before} ], [ {new}, %{latch} ]"
    e.label(done)
    if certain:
        return after
    return [
        e.op(f"phi {kind} [ {init}, %{before} ], [ {new}, %{latch} ]")
        for (kind, init), new in zip(carried, after, strict=True)
    ]
