"""The words that GPU kernels are written in. Enters: phases of instructions. Leaves: a `Kernel`, for GPU and CPU.

A kernel runs in blocks of threads. What it computes is cut into phases: inside a phase a thread sees nothing of what
the other threads of its block do in it, and between two phases there is a barrier. Names do not outlive a phase; what
does lies in shared memory, which a block has for itself, or in memory. So a GPU runs the phases one after the other
with a barrier between them, and a CPU runs each phase for one thread after the other: a wrong index, a name that is not
known in every thread or a barrier that is missing shows there too.

Inside a phase there are `%block`, `%thread`, `%shared`, the counters of the turns around it, and `%operand0` …
Sizes that vary from call to call have names too, `%size.0` … (`with_sizes`): a launch is given what they are.
What a thread itself needs in a later phase of the same turn it can `keep`, and have back as `kept`: on a GPU that is a
register, so it must not be kept inside a branch or a loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from minitorch.compiler.backends.cuda.exact import renamed
from minitorch.compiler.backends.llvm.control import repeat
from minitorch.compiler.backends.llvm.text import Emitter
from minitorch.compiler.ir.sizes import Size, spelled

TRIPLE = "nvptx64-nvidia-cuda"
SHARED_BYTES = 48 << 10  # what every GPU gives a block
# Instructions that are right to two units in the last place, and what they are elsewhere.
INSTRUCTIONS = {
    "fast.exp2": (
        'asm "ex2.approx.ftz.f32 $0, $1;", "=f,f"',
        "declare float @llvm.exp2.f32(float)\n"
        "define internal float @fast.exp2(float %x) nounwind {\n"
        "  %r = call float @llvm.exp2.f32(float %x)\n  ret float %r\n}",
    ),
    "fast.reciprocal": (
        'asm "rcp.approx.ftz.f32 $0, $1;", "=f,f"',
        "define internal float @fast.reciprocal(float %x) nounwind {\n"
        "  %r = fdiv float 1.0, %x\n  ret float %r\n}",
    ),
    "fast.divide": (
        'asm "div.full.f32 $0, $1, $2;", "=f,f,f"',
        "define internal float @fast.divide(float %x, float %y) nounwind {\n"
        "  %r = fdiv float %x, %y\n  ret float %r\n}",
    ),
}
FAST = ("maximum", *INSTRUCTIONS)
_EXIT = "  exit"  # the line that ends a phase; each rendering has its own way
_KEEP = re.compile(r"  keep (\d+) (\w+) (\S+)")
_KEPT = re.compile(r"  (\S+) = kept (\d+) (\w+)")
KEPT_BYTES = 8  # of what is kept, where it lies in memory
SIZE = "size"  # (SIZE, size): an operand that is no address, but what a size is


@dataclass
class Phase:
    """Instructions that every thread of a block runs between two barriers.

    in_warps: whether at its end it is enough that the 32 threads of a warp wait for each other.
    """

    number: int
    lines: list[str]
    in_warps: bool = False


@dataclass
class Turns:
    """Phases that all threads of a block go through several times together. count: a number, or a size's name."""

    counter: str
    count: int | str
    items: list[Phase | Turns] = field(default_factory=list)


@dataclass
class Kernel:
    """A function that a GPU runs in `blocks` blocks of `threads` threads each.

    operands: what its addresses are of, in the order of its slots. shared: bytes that each block has for itself.
    externs: other functions it calls, with their declarations or texts. elements: places of its loops. parts: of one
    that has no phases of its own, the kernels that it runs side by side. kept: how many things a thread keeps.
    sizes: how many of its operands, the last ones, are sizes; blocks and elements may vary with them.
    """

    items: list[Phase | Turns]
    operands: list[Any]
    blocks: int
    threads: int
    shared: int
    externs: dict[str, str]
    flops: float = 0.0
    note: str = ""
    elements: int = 0
    parts: Sequence[Part] = ()
    kept: int = 0
    sizes: int = 0


def with_sizes(write: Callable[[], Kernel]) -> Kernel:
    """Write a kernel in which sizes may vary: each that it names is one more operand."""
    names: dict[Size, str] = {}
    with spelled(lambda size: names.setdefault(size, f"%size.{len(names)}")):
        kernel = write()
    if names:
        kernel.operands.extend((SIZE, size) for size in names)
        kernel.sizes = len(names)
    return kernel


@dataclass(frozen=True)
class Part:
    """A kernel among others, its first block and the place of its first operand there."""

    kernel: Kernel
    block: int
    operand: int


class BlockWriter:
    """A kernel while it is written."""

    def __init__(self) -> None:
        self.e = Emitter(fast=FAST)
        self.items: list[Phase | Turns] = []
        self._open = [self.items]
        self._count = 0

    @contextmanager
    def phase(self, in_warps: bool = False) -> Iterator[None]:
        """Write the instructions of one phase."""
        e, number = self.e, self._count
        self._count += 1
        e.lines = []
        e.label(f"phase{number}")
        yield
        e.lines.append(_EXIT)
        self._open[-1].append(Phase(number, [renamed(line) for line in e.lines], in_warps))
        e.lines = []

    @contextmanager
    def turns(self, count: int) -> Iterator[str]:
        """Write phases that are gone through several times; yields the counter's name."""
        if count == 1:
            yield "0"
            return
        turns = Turns("%" + self.e.fresh("turn"), f"{count}" if isinstance(count, Size) else count)
        self._open[-1].append(turns)
        self._open.append(turns.items)
        yield turns.counter
        self._open.pop()


# --- for a GPU ----------------------------------------------------------------------------------------------


def gpu_text(kernels: Sequence[Kernel]) -> str:
    """Return a module of kernels as LLVM text for NVPTX; they are called kernel0, kernel1 …"""
    externs = {
        name: text for kernel in kernels for name, text in kernel.externs.items() if name not in INSTRUCTIONS
    }
    parts = [f'target triple = "{TRIPLE}"', *externs.values(), *(f"declare {d}" for d in _REGISTERS)]
    for number, kernel in enumerate(kernels):
        parts += [*_gpu_kernel(kernel, number), ""]
    return "\n".join(parts)


_THREAD, _BLOCK = "llvm.nvvm.read.ptx.sreg.tid.x", "llvm.nvvm.read.ptx.sreg.ctaid.x"
_BARRIER, _IN_WARPS = "llvm.nvvm.barrier0", "llvm.nvvm.bar.warp.sync"
_REGISTERS = [f"i32 @{_THREAD}()", f"i32 @{_BLOCK}()", f"void @{_BARRIER}()", f"void @{_IN_WARPS}(i32)"]


def _gpu_kernel(kernel: Kernel, number: int) -> list[str]:
    parameters = ", ".join(f"i64 %given{place}" for place in range(len(kernel.operands)))
    lines = []
    if kernel.shared:
        kind = f"[{kernel.shared} x i8]"
        lines.append(f"@shared{number} = internal addrspace(3) global {kind} undef, align 16")
    lines += [
        f'define ptx_kernel void @kernel{number}({parameters}) "nvvm.maxntid"="{kernel.threads}" {{',
        "entry:",
        f"  %tid = call i32 @{_THREAD}()",
        "  %thread = zext i32 %tid to i64",
        f"  %ctaid = call i32 @{_BLOCK}()",
        "  %block = zext i32 %ctaid to i64",
    ]
    if kernel.shared:
        lines.append(f"  %shared = addrspacecast ptr addrspace(3) @shared{number} to ptr")
    if not kernel.parts:
        lines += [*_gpu_operands(kernel), *_gpu_items(kernel.items, kernel.items[-1])]
    else:
        first = len(kernel.operands) - kernel.sizes
        names = {size: f"%given{first + n}" for n, (_, size) in enumerate(kernel.operands[first:])}
        with spelled(names.__getitem__):
            lines += _gpu_parts(kernel)
    return [*lines, "  ret void", "}"]


def _gpu_operands(kernel: Kernel) -> list[str]:
    lines = _sizes(kernel)
    for place in range(len(kernel.operands) - kernel.sizes):
        lines += [
            *_found(place),
            # There and back: so that LLVM knows what kind of memory this is.
            f"  %global{place} = addrspacecast ptr %generic{place} to ptr addrspace(1)",
            f"  %operand{place} = addrspacecast ptr addrspace(1) %global{place} to ptr",
        ]
    return lines


def _sizes(kernel: Kernel) -> list[str]:
    """Give the sizes among the operands their names."""
    first = len(kernel.operands) - kernel.sizes
    return [f"  %size.{number} = add i64 %given{first + number}, 0" for number in range(kernel.sizes)]


def _gpu_parts(kernel: Kernel) -> list[str]:
    """Write kernels as one: each block finds out whose it is. Those with the same instructions have them once."""
    lines, entries = [], dict[int, list[int]]()
    for number, part in enumerate(kernel.parts):
        entries.setdefault(id(part.kernel.items), []).append(number)
        lines += [
            f"  %from{number} = sub i64 %block, {part.block}",
            f"  %is{number} = icmp ult i64 %from{number}, {part.kernel.blocks}",
            f"  br i1 %is{number}, label %enter{number}, label %pass{number}",
            f"enter{number}:",
            f"  br label %own{entries[id(part.kernel.items)][0]}",
            f"pass{number}:",
        ]
    for numbers in entries.values():
        lines += ["  ret void", *_gpu_part(kernel, numbers)]
    return lines


_EVERYBODYS = ("thread", "shared")


def _gpu_part(kernel: Kernel, numbers: list[int]) -> list[str]:
    """Write the instructions of equal parts, under names of their own."""
    mine, prefix = kernel.parts[numbers[0]].kernel, f"own{numbers[0]}"

    def chosen(name: str, given: list[str]) -> str:
        pairs = ", ".join(f"[ {each}, %enter{number} ]" for each, number in zip(given, numbers, strict=True))
        return f"  %{name} = phi i64 {pairs}"

    places = range(len(mine.operands))
    body = [chosen("block", [f"%from{number}." for number in numbers])]
    body += [
        chosen(f"given{place}", [f"%given{kernel.parts[number].operand + place}." for number in numbers])
        for place in places
    ]
    if mine.threads < kernel.threads:
        body += [
            f"  %mine = icmp ult i64 %thread, {mine.threads}",
            "  br i1 %mine, label %here, label %over",
            "over:",
            "  ret void",
            "here:",
        ]
    body += [*_gpu_operands(mine), *_gpu_items(mine.items, mine.items[-1])]

    def renamed(found: re.Match[str]) -> str:
        name = found[1]
        if name.endswith(".") or name.startswith("enter"):  # of the whole kernel
            return f"%{name.removesuffix('.')}"
        return found[0] if name in _EVERYBODYS else f"%{prefix}.{name}"

    lines = [f"{prefix}:"]
    for line in body:
        line = re.sub(r"%([\w.]+)", renamed, line)
        lines.append(f"{prefix}.{line}" if line.endswith(":") else line)
    return lines


def looked_up(entry: int) -> int:
    """Return what a kernel is given for an operand whose address it finds in memory, at `entry`, when it runs."""
    return entry - (1 << 63)


def _found(place: int) -> list[str]:
    """Write where an operand is: its address is given, or (a negative number) that of a place with its address."""
    given = f"%given{place}"
    return [
        f"  %inside{place} = icmp slt i64 {given}, 0",
        f"  br i1 %inside{place}, label %look{place}, label %there{place}",
        f"look{place}:",
        f"  %plain{place} = and i64 {given}, {(1 << 63) - 1}",
        f"  %entry{place} = inttoptr i64 %plain{place} to ptr",
        f"  %read{place} = load i64, ptr %entry{place}, align 8, !invariant.load !{{}}",
        f"  br label %found{place}",
        f"there{place}:",
        f"  br label %found{place}",
        f"found{place}:",
        f"  %address{place} = phi i64 [ %read{place}, %look{place} ], [ {given}, %there{place} ]",
        f"  %generic{place} = inttoptr i64 %address{place} to ptr",
    ]


def _with_instructions(line: str) -> str:
    """Return a line in which calls of a machine's own instructions are these."""
    if "@fast." in line:
        for name, (instruction, _) in INSTRUCTIONS.items():
            line = line.replace(f"@{name}(", f"{instruction}(")
    return line


def _gpu_items(
    items: Sequence[Phase | Turns], final: Phase | Turns | None, known: dict[str, str] | None = None
) -> list[str]:
    """Write phases one after the other, with a barrier after each but the final one. known: what is kept."""
    lines = []
    known = {} if known is None else known

    def written(line: str, number: int) -> str:
        if line == _EXIT:
            return f"  br label %after{number}"
        if (keep := _KEEP.fullmatch(line)) is not None:
            known[keep[1]] = keep[3]
            return f"  ; {line.strip()}"
        if (kept := _KEPT.fullmatch(line)) is not None:
            return f"  {kept[1]} = bitcast {kept[3]} {known[kept[2]]} to {kept[3]}"
        return _with_instructions(line)

    for item in items:
        if isinstance(item, Phase):
            body = [written(line, item.number) for line in item.lines]
            lines += [f"  br label %phase{item.number}", *body, f"after{item.number}:"]
            if item is not final:
                lines.append(
                    f"  call void @{_IN_WARPS}(i32 -1)" if item.in_warps else f"  call void @{_BARRIER}()"
                )
            continue
        name = item.counter[1:]
        inside = _gpu_items(item.items, None, known)
        last = next(line[:-1] for line in reversed(inside) if line.endswith(":"))
        lines += [
            f"  br label %{name}.before",
            f"{name}.before:",
            f"  br label %{name}.head",
            f"{name}.head:",
            f"  {item.counter} = phi i64 [ 0, %{name}.before ], [ {item.counter}.next, %{last} ]",
            *inside,
            f"  {item.counter}.next = add nuw nsw i64 {item.counter}, 1",
            f"  {item.counter}.more = icmp ult i64 {item.counter}.next, {item.count}",
            f"  br i1 {item.counter}.more, label %{name}.head, label %{name}.done",
            f"{name}.done:",
        ]
    return lines


# --- for a CPU ----------------------------------------------------------------------------------------------


def cpu_text(kernel: Kernel, backwards: bool = False) -> str:
    """Return a kernel as a function of a CPU's: `KERNEL(ptr given, ptr shared, i64 blocks)` runs them all.

    backwards: threads and blocks run in the other order, for what depends on the order and must not.
    """
    parts = [INSTRUCTIONS[name][1] if name in INSTRUCTIONS else text for name, text in kernel.externs.items()]
    for phase, counters in _phases(kernel.items, ()):
        parts += [*_cpu_phase(kernel, phase, counters), ""]
    e = Emitter()
    e.label("entry")
    e.lines += [*_given(range(len(kernel.operands) - kernel.sizes, len(kernel.operands))), *_sizes(kernel)]
    last = e.op("sub i64 %blocks, 1")

    def order(number: str, last: str) -> str:
        return e.op(f"sub i64 {last}, {number}") if backwards else number

    def items(listed: Sequence[Phase | Turns], block: str, names: dict[str, str]) -> None:
        for item in listed:
            if isinstance(item, Turns):
                repeat(
                    e,
                    "0",
                    str(item.count),
                    lambda turn, item=item: items(item.items, block, {**names, item.counter: turn}),  # type: ignore[misc]
                )
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


def _phases(
    items: Sequence[Phase | Turns], counters: tuple[str, ...]
) -> Iterator[tuple[Phase, tuple[str, ...]]]:
    for item in items:
        if isinstance(item, Phase):
            yield item, counters
        else:
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
    lines += [*_given(places), *_sizes(kernel)]
    for place in places[: len(places) - kernel.sizes]:
        lines += [
            *_found(place),
            f"  %operand{place} = getelementptr i8, ptr %generic{place}, i64 0",
        ]
    body: list[str] = []
    for line in phase.lines:
        body += _cpu_line(line, kernel, len(body))
    return [*lines, f"  br label %phase{phase.number}", *body, "}"]


def _cpu_line(line: str, kernel: Kernel, number: int) -> list[str]:
    if line == _EXIT:
        return ["  ret void"]
    keep, kept = _KEEP.fullmatch(line), _KEPT.fullmatch(line)
    if keep is None and kept is None:
        return [line]
    slot = int(keep[1] if keep is not None else kept[2])  # type: ignore[index]
    lines = [
        f"  %keeps{number} = mul i64 %thread, {KEPT_BYTES * kernel.kept}",
        f"  %keeps{number}.from = add i64 %keeps{number}, {_rounded(kernel.shared) + KEPT_BYTES * slot}",
        f"  %keeps{number}.at = getelementptr i8, ptr %shared, i64 %keeps{number}.from",
    ]
    if keep is not None:
        return [*lines, f"  store {keep[2]} {keep[3]}, ptr %keeps{number}.at, align {KEPT_BYTES}"]
    assert kept is not None
    return [*lines, f"  {kept[1]} = load {kept[3]}, ptr %keeps{number}.at, align {KEPT_BYTES}"]


def _rounded(size: int) -> int:
    return -(-size // KEPT_BYTES) * KEPT_BYTES


def cpu_shared(kernel: Kernel) -> int:
    """Return how many bytes a block has for itself on a CPU, with what its threads keep."""
    return _rounded(kernel.shared) + KEPT_BYTES * kernel.kept * kernel.threads
