"""Kernels for a CPU. Enters: a `Kernel`. Leaves: LLVM text of a function that runs its phases thread after thread."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from minitorch.compiler.backends.cuda.cpu_warps import KEPT_BYTES, cpu_warps, rounded
from minitorch.compiler.backends.cuda.instructions import ON_A_CPU
from minitorch.compiler.backends.cuda.operands import find_operand, name_sizes
from minitorch.compiler.backends.cuda.words import (
    COPY,
    EXIT,
    KEEP,
    KEPT,
    SHOWN,
    WAIT,
    WARP,
    GroupProducts,
    Item,
    Kernel,
    Phase,
    Together,
    Turns,
)
from minitorch.compiler.backends.llvm.control import repeat, when
from minitorch.compiler.backends.llvm.text import Emitter


def cpu_text(kernel: Kernel, backwards: bool = False) -> str:
    """Return a kernel as a function of a CPU's: `KERNEL(ptr given, ptr shared, i64 blocks)` runs them all.

    backwards: threads and blocks run in the other order, for what depends on the order and must not.
    """
    parts = [ON_A_CPU.get(name, text) for name, text in kernel.externs.items()]
    for phase, counters in _phases(kernel.items, ()):
        parts += [*_cpu_phase(kernel, phase, counters), ""]
    if kernel.variables:
        parts.append(cpu_warps(kernel))
    e = Emitter()
    e.label("entry")
    e.lines += [
        *_given(range(len(kernel.operands) - kernel.sizes, len(kernel.operands))),
        *name_sizes(kernel),
    ]
    last = e.op("sub i64 %blocks, 1")

    def order(number: str, last: str) -> str:
        return e.op(f"sub i64 {last}, {number}") if backwards else number

    def between(turns: Turns, names: dict[str, str]) -> tuple[str, str]:
        """Write from where to where turns go, their names apart from ours."""
        if not turns.lines:
            return "0", str(turns.count)

        def ours(text: str) -> str:
            return re.sub(
                r"%(?!size\.)[\w.]+", lambda found: names.get(found[0]) or f"%of.{found[0][1:]}", text
            )

        e.lines += [ours(line) for line in turns.lines]
        return ours(turns.start), ours(turns.stop)

    def together(item: Together, warp: str) -> None:
        given = item.slots if item.kind.startswith("multiply") else [*item.slots, item.distance]
        slots = "".join(f", i64 {slot}" for slot in given)
        e.line(f"call void @words.{item.kind}(ptr %shared, i64 {warp}{slots})")

    def products(item: GroupProducts, warp: str) -> None:
        for number in range(len(item.products)):
            e.line(f"call void @words.products{item.number}.{number}(ptr %shared, i64 {warp})")

    def items(listed: Sequence[Item], block: str, names: dict[str, str]) -> None:
        for item in listed:
            if isinstance(item, Turns):
                start, stop = between(item, {"%block": block, **names})

                def turn(number: str, item: Turns = item) -> None:
                    items(item.items, block, {**names, item.counter: number})

                def turns(turn: Callable[[str], None] = turn, start: str = start, stop: str = stop) -> None:
                    repeat(e, start, stop, turn)

                if item.lines:
                    when(e, e.op(f"icmp slt i64 {start}, {stop}"), turns)
                else:
                    turns()
                continue
            if isinstance(item, Together):
                repeat(e, "0", str(kernel.threads // WARP), lambda warp, item=item: together(item, warp))  # type: ignore[misc]
                continue
            if isinstance(item, GroupProducts):
                repeat(e, "0", str(kernel.threads // WARP), lambda warp, item=item: products(item, warp))  # type: ignore[misc]
                continue
            given = "".join(f", i64 {turn}" for turn in names.values())
            call = f"call void @phase{item.number}(ptr %all, ptr %shared, i64 {block}, i64 "
            repeat(
                e,
                "0",
                str(kernel.threads),
                lambda thread, call=call, given=given: e.line(  # type: ignore[misc]
                    f"{call}{order(thread, str(kernel.threads - 1))}{given})"
                ),
            )

    repeat(e, "0", "%blocks", lambda block: items(kernel.items, order(block, last), {}))
    head = "define void @KERNEL(ptr %all, ptr %shared, i64 %blocks) nounwind {"
    return "\n".join([*parts, head, *e.lines, "  ret void", "}", ""])


def _phases(items: Sequence[Item], counters: tuple[str, ...]) -> Iterator[tuple[Phase, tuple[str, ...]]]:
    for item in items:
        if isinstance(item, Phase):
            yield item, counters
        elif isinstance(item, Turns):
            yield from _phases(item.items, (*counters, item.counter))


def _given(places: range) -> list[str]:
    """Read what some operands are given as."""
    lines = []
    for place in places:
        lines += [
            f"  %at{place} = getelementptr i64, ptr %all, i64 {place}",
            f"  %given{place} = load i64, ptr %at{place}, align 8",
        ]
    return lines


def _cpu_phase(kernel: Kernel, phase: Phase, counters: tuple[str, ...]) -> list[str]:
    given = "".join(f", i64 {counter}" for counter in counters)
    parameters = f"ptr %all, ptr %shared, i64 %block, i64 %thread{given}"
    places = range(len(kernel.operands))
    lines = [f"define internal void @phase{phase.number}({parameters}) nounwind {{", "entry:"]
    lines += [*_given(places), *name_sizes(kernel)]
    for place in places[: len(places) - kernel.sizes]:
        lines += [
            *find_operand(place),
            f"  %operand{place} = getelementptr i8, ptr %generic{place}, i64 0",
        ]
    body: list[str] = []
    for line in phase.lines:
        body += _cpu_line(line, kernel, len(body))
    return [*lines, f"  br label %phase{phase.number}", *body, "}"]


def _cpu_line(line: str, kernel: Kernel, number: int) -> list[str]:
    if line == EXIT:
        return ["  ret void"]
    if (copy := COPY.fullmatch(line)) is not None:
        return [f"  call void @words.copy(ptr {copy[1]}, ptr {copy[2]}, i32 {copy[3]})"]
    if WAIT.fullmatch(line) is not None or line == SHOWN:
        return []
    keep, kept = KEEP.fullmatch(line), KEPT.fullmatch(line)
    if keep is None and kept is None:
        return [line]
    slot = int(keep[1] if keep is not None else kept[2])  # type: ignore[index]
    lines = [
        f"  %keeps{number} = mul i64 %thread, {KEPT_BYTES * kernel.kept}",
        f"  %keeps{number}.from = add i64 %keeps{number}, {rounded(kernel.shared) + KEPT_BYTES * slot}",
        f"  %keeps{number}.at = getelementptr i8, ptr %shared, i64 %keeps{number}.from",
    ]
    if keep is not None:
        return [*lines, f"  store {keep[2]} {keep[3]}, ptr %keeps{number}.at, align {KEPT_BYTES}"]
    assert kept is not None
    return [*lines, f"  {kept[1]} = load {kept[3]}, ptr %keeps{number}.at, align {KEPT_BYTES}"]


def cpu_shared(kernel: Kernel) -> int:
    """Return how many bytes a block has for itself on a CPU, with what its threads keep."""
    return rounded(kernel.shared) + KEPT_BYTES * kernel.kept * kernel.threads
