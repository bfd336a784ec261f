"""The words that GPU kernels are written in. Enters: phases of instructions. Leaves: a `Kernel`, for GPU and CPU.

A kernel runs in blocks of threads. What it computes is cut into phases: inside a phase a thread sees nothing of what
the other threads of its block do in it, and between two phases there is a barrier. Names do not outlive a phase; what
does lies in shared memory, which a block has for itself, or in memory. So a GPU runs the phases one after the other
with a barrier between them, and a CPU runs each phase for one thread after the other: a wrong index, a name that is not
known in every thread or a barrier that is missing shows there too.

Inside a phase there are `%block`, `%thread`, `%shared`, the counters of the turns around it, and `%operand0` …
Sizes that vary from call to call have names too, `%size.0` … (`with_sizes`): a launch is given what they are.
What a thread itself needs in a later phase of the same turn it can `keep`, and have back as `kept`: on a GPU that is a
register, so it must not be kept inside a branch or a loop. A kernel that has `variables` keeps them as long as it runs.

What the 32 threads of a warp do together (multiply matrices, look at what another keeps) comes between two phases, too,
and concerns variables. `copy` brings 16 bytes (the last of them 0 where there are fewer) to shared memory while a
thread goes on, `commit` ends a bundle of copies, and `wait` waits until at most so many bundles are on their way.
Four warps multiply what lies in shared memory (`GroupProducts`): what was written there has to be `shown` to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.exact import renamed
from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.control import add, multiply, repeat, when
from minitorch.compiler.backends.llvm.text import Emitter
from minitorch.compiler.ir.halves import FLOAT32, HALVES
from minitorch.compiler.ir.sizes import Size, spelled
from minitorch.engine.dtypes import bfloat16

TRIPLE = "nvptx64-nvidia-cuda"
SHARED_BYTES = 48 << 10  # what every GPU gives a block
SHARED_ALIGNMENT = 1024  # of shared memory that four warps multiply from


def _packing(half: np.dtype, name: str) -> str:
    """Return a function that has two float32 in one register as halves, the first in its lower bits."""
    e = Emitter()
    e.label("entry")
    bits = [functions.emit_function(e, "cast", [each], FLOAT32, 1, to=half) for each in ("%x", "%y")]
    low, high = (e.op(f"zext i16 {each} to i32") for each in bits)
    both = e.op(f"or i32 {low}, {e.op(f'shl i32 {high}, 16')}")
    head = f"define internal i32 @{name}(float %x, float %y) nounwind {{"
    return "\n".join([head, *e.lines, f"  ret i32 {both}", "}"])


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
    # TF32 has ten bits, the others are cut off: about half of what that takes away is added before. (A number that has
    # no more bits stays what it is, and so do infinities and nans.)
    "fast.tf32": (
        'asm "mul.rn.f32 $0, $1, 0f3F800B8B;", "=f,f"',
        "define internal float @fast.tf32(float %x) nounwind {\n  ret float %x\n}",
    ),
    # Two halves in one register, the first in its lower bits.
    "fast.pack_bfloat16": (
        'asm "cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,f,f"',
        _packing(bfloat16, "fast.pack_bfloat16") if bfloat16 in HALVES else "",
    ),
    "fast.pack_float16": (
        'asm "cvt.rn.f16x2.f32 $0, $2, $1;", "=r,f,f"',
        _packing(np.dtype(np.float16), "fast.pack_float16"),
    ),
    "fast.divide": (
        'asm "div.full.f32 $0, $1, $2;", "=f,f,f"',
        "define internal float @fast.divide(float %x, float %y) nounwind {\n"
        "  %r = fdiv float %x, %y\n  ret float %r\n}",
    ),
}
FAST = ("maximum", "fast.exp2", "fast.reciprocal", "fast.divide")
_EXIT = "  exit"  # the line that ends a phase; each rendering has its own way
_KEEP = re.compile(r"  keep (\d+) (\w+) (\S+)")
_KEPT = re.compile(r"  (\S+) = kept (\d+) (\w+)")
_COPY = re.compile(r"  copy (\S+) (\S+) (\S+)")
_WAIT = re.compile(r"  (commit|wait) ?(\d*)")
_SHOWN = "  shown"
KEPT_BYTES = 8  # of what is kept, where it lies in memory
WARP = 32
SIZE = "size"  # (SIZE, size): an operand that is no address, but what a size is


@dataclass
class Phase:
    """Instructions that every thread of a block runs between two barriers.

    in_warps: whether at its end it is enough that the 32 threads of a warp wait for each other. waits: whether anybody
    has to wait there at all.
    """

    number: int
    lines: list[str]
    in_warps: bool = False
    waits: bool = True


@dataclass
class Together:
    """What the threads of each warp do together with their variables.

    'multiply': c += a @ b, of 16 × 8 and 8 × 8 elements in TF32; slots: four of c, four of a and two of b, as
    mma.m16n8k8 has them. 'multiply_bfloat16' and 'multiply_float16': the same of 16 × 16 and 16 × 8 elements, two in a
    slot of a and b.
    'exchange': the second is what the thread `distance` away (exclusive or) has in the first. 'matrices': four matrices
    of 8 × 8 elements of two bytes from shared memory, two elements of each in a slot. The fifth slot says where: of the
    8·n-th thread and the seven after it, where the rows of matrix n begin, in bytes, but for `distance`. In
    'matrices_transposed' rows and columns are exchanged.
    """

    number: int
    kind: str
    slots: tuple[int, ...]
    distance: int = 0


@dataclass(frozen=True)
class GroupProduct:
    """A product of four warps, 64 rows by some columns of halves: c += a @ b, or c = a @ bᵀ.

    c: four slots for each eight columns, of 16 rows for each warp as 'multiply_bfloat16' has them. a: slots of
    fragments likewise, four for each 16 that are summed; or the one that says where its rows begin in shared memory.
    b: the slot that says so of b's. summed: how many. across: c += a @ b. panels: how far apart in shared memory
    columns 0 and 64 of a row are, of a and of b: 64 columns lie side by side there, and eighths of them (16 bytes) in
    an order in which threads find all banks: eighth n of row i where n xor i % 8 says.
    """

    dtype: np.dtype
    c: tuple[int, ...]
    a: tuple[int, ...]
    b: int
    summed: int
    across: bool
    panels: tuple[int, int] = (0, 0)


@dataclass
class GroupProducts:
    """Products that each four warps of a block multiply together, one beside the other."""

    number: int
    products: list[GroupProduct]


@dataclass
class Turns:
    """Phases that all threads of a block go through several times together.

    count: a number, or a size's name. Where how often depends on the block, `lines` compute from where to where the
    counter goes: start and stop.
    """

    counter: str
    count: int | str
    items: list[Item] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    start: str = "0"
    stop: str = ""


Item = Phase | Turns | Together | GroupProducts


@dataclass
class Kernel:
    """A function that a GPU runs in `blocks` blocks of `threads` threads each.

    operands: what its addresses are of, in the order of its slots. shared: bytes that each block has for itself.
    externs: other functions it calls, with their declarations or texts. elements: places of its loops. parts: of one
    that has no phases of its own, the kernels that it runs side by side. kept: how many things a thread keeps.
    variables: their types, if they are kept for as long as the kernel runs. exact: the same, but nothing is rounded to
    TF32 in it.
    sizes: how many of its operands, the last ones, are sizes; blocks and elements may vary with them. at_once: for how
    many blocks a multiprocessor is to have registers, at least.
    """

    items: list[Item]
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
    variables: Sequence[str] = ()
    exact: Kernel | None = None
    sizes: int = 0
    at_once: int = 1

    @property
    def length(self) -> int:
        """How long it takes to be made, about: its lines."""
        return _length(self.items) + sum(part.kernel.length for part in self.parts)


def _length(items: Sequence[Item]) -> int:
    lines = 0
    for item in items:
        lines += 8 if isinstance(item, (Together, GroupProducts)) else len(item.lines)
        lines += _length(item.items) if isinstance(item, Turns) else 0
    return lines


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
        self.items: list[Item] = []
        self._open = [self.items]
        self._count = 0
        self.variables: list[str] = []

    @contextmanager
    def phase(self, in_warps: bool = False, waits: bool = True) -> Iterator[None]:
        """Write the instructions of one phase."""
        e, number = self.e, self._count
        self._count += 1
        e.lines = []
        e.label(f"phase{number}")
        yield
        e.lines.append(_EXIT)
        self._open[-1].append(Phase(number, [renamed(line) for line in e.lines], in_warps, waits))
        e.lines = []

    # Variables, and what concerns them.

    def variable(self, kind: str = "float") -> int:
        """Return the slot of something that each thread keeps."""
        self.variables.append(kind)
        return len(self.variables) - 1

    def keep(self, slot: int, name: str) -> None:
        """Keep something."""
        self.e.line(f"keep {slot} {self.variables[slot]} {name}")

    def kept(self, slot: int) -> str:
        """Return what is kept."""
        return self.e.op(f"kept {slot} {self.variables[slot]}")

    def together(self, kind: str, slots: Sequence[int], distance: int = 0) -> None:
        """Let the threads of each warp do something together."""
        self._open[-1].append(Together(self._count, kind, tuple(slots), distance))
        self._count += 1

    def group_products(self, products: list[GroupProduct]) -> None:
        """Let each four warps multiply."""
        self._open[-1].append(GroupProducts(self._count, products))
        self._count += 1

    @contextmanager
    def turns_between(self, bounds: Callable[[], tuple[str, str]]) -> Iterator[str]:
        """Write phases that are gone through for all numbers between two, which `bounds` computes from `%block`."""
        e = self.e
        e.lines = []
        start, stop = bounds()
        turns = Turns("%" + e.fresh("turn"), 0, lines=e.lines, start=start, stop=stop)
        e.lines = []
        self._open[-1].append(turns)
        self._open.append(turns.items)
        yield turns.counter
        self._open.pop()

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
        aligned = SHARED_ALIGNMENT if any(_products(kernel.items)) else 16
        lines.append(
            f"@shared{number} = internal addrspace(3) global {kind} undef, align {aligned}"
            if kernel.shared <= SHARED_BYTES
            else f"@shared{number} = external addrspace(3) global [0 x i8], align {aligned}"
        )
    limits = f'"nvvm.maxntid"="{kernel.threads}"' + (
        f' "nvvm.minctasm"="{kernel.at_once}"' * (kernel.at_once > 1)
    )
    lines += [
        f"define ptx_kernel void @kernel{number}({parameters}) {limits} {{",
        "entry:",
        f"  %tid = call i32 @{_THREAD}()",
        "  %thread = zext i32 %tid to i64",
        f"  %ctaid = call i32 @{_BLOCK}()",
        "  %block = zext i32 %ctaid to i64",
    ]
    if kernel.shared:
        lines.append(f"  %shared = addrspacecast ptr addrspace(3) @shared{number} to ptr")
    lines += [f"  %slot{slot} = alloca {kind}" for slot, kind in enumerate(kernel.variables)]
    if not kernel.parts:
        lines += _gpu_operands(kernel)
        lines += _gpu_items(kernel.items, kernel.items[-1], variables=bool(kernel.variables))
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
    items: Sequence[Item],
    final: Item | None,
    known: dict[str, str] | None = None,
    variables: bool = False,
) -> list[str]:
    """Write phases one after the other, with a barrier after each but the final one. known: what is kept."""
    lines: list[str] = []
    known = {} if known is None else known

    def written(line: str, number: int) -> Iterator[str]:
        if line == _EXIT:
            yield f"  br label %after{number}"
        elif (keep := _KEEP.fullmatch(line)) is not None:
            known[keep[1]] = keep[3]
            yield f"  store {keep[2]} {keep[3]}, ptr %slot{keep[1]}" if variables else f"  ; {line.strip()}"
        elif (kept := _KEPT.fullmatch(line)) is not None:
            source = f"load {kept[3]}, ptr %slot{kept[2]}"
            yield f"  {kept[1]} = " + (
                source if variables else f"bitcast {kept[3]} {known[kept[2]]} to {kept[3]}"
            )
        elif (copy := _COPY.fullmatch(line)) is not None:
            yield from _gpu_copy(copy[1], copy[2], copy[3], f"%copy{number}.{copy[1][1:]}")
        elif (wait := _WAIT.fullmatch(line)) is not None:
            asked = f"{wait[1]}_group {wait[2]}".strip()
            yield f'  call void asm sideeffect "cp.async.{asked};", "~{{memory}}"()'
        elif line == _SHOWN:
            yield '  call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"()'
        else:
            yield _with_instructions(line)

    for item in items:
        if isinstance(item, Phase):
            body = [each for line in item.lines for each in written(line, item.number)]
            lines += [f"  br label %phase{item.number}", *body, f"after{item.number}:"]
            if item is not final and item.waits:
                lines.append(
                    f"  call void @{_IN_WARPS}(i32 -1)" if item.in_warps else f"  call void @{_BARRIER}()"
                )
            continue
        if isinstance(item, Together):
            lines += _gpu_together(item)
            continue
        if isinstance(item, GroupProducts):
            lines += _gpu_group_products(item)
            continue
        name = item.counter[1:]
        inside = _gpu_items(item.items, None, known, variables)
        last = next(line[:-1] for line in reversed(inside) if line.endswith(":"))
        if item.lines:
            lines += [
                f"  br label %{name}.before",
                f"{name}.before:",
                *item.lines,
                f"  br label %{name}.head",
                f"{name}.head:",
                f"  {item.counter} = phi i64 [ {item.start}, %{name}.before ], [ {item.counter}.next, %{last} ]",
                f"  {item.counter}.more = icmp slt i64 {item.counter}, {item.stop}",
                f"  br i1 {item.counter}.more, label %{name}.body, label %{name}.done",
                f"{name}.body:",
                *inside,
                f"  {item.counter}.next = add nuw nsw i64 {item.counter}, 1",
                f"  br label %{name}.head",
                f"{name}.done:",
            ]
            continue
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


def _gpu_copy(target: str, source: str, count: str, name: str) -> list[str]:
    return [
        f"  {name}.near = addrspacecast ptr {target} to ptr addrspace(3)",
        f"  {name}.there = ptrtoint ptr addrspace(3) {name}.near to i32",
        '  call void asm sideeffect "cp.async.cg.shared.global [$0], [$1], 16, $2;", "r,l,r,~{memory}"'
        f"(i32 {name}.there, ptr {source}, i32 {count})",
    ]


_PRODUCTS = {
    "multiply": "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    "multiply_bfloat16": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    "multiply_float16": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
}
_FOUR = "{ float, float, float, float }"


def _gpu_together(item: Together) -> list[str]:
    """Write what a warp does together."""
    name, kind = item.number, item.kind

    def loaded(slots: Sequence[int], kind: str) -> tuple[list[str], list[str]]:
        names = [f"%w{name}.of{slot}" for slot in slots]
        return names, [f"  {n} = load {kind}, ptr %slot{slot}" for n, slot in zip(names, slots, strict=True)]

    def stored(slots: Sequence[int], kind: str) -> list[str]:
        lines = []
        for k, slot in enumerate(slots):
            lines += [
                f"  %w{name}.to{k} = extractvalue {{ {', '.join([kind] * 4)} }} %w{name}, {k}",
                f"  store {kind} %w{name}.to{k}, ptr %slot{slot}",
            ]
        return lines

    if kind == "exchange":
        (source,), lines = loaded(item.slots[:1], "float")
        asked = f"shfl.sync.bfly.b32 $0, $1, {item.distance}, 31, -1;"
        return [
            *lines,
            f'  %w{name} = call float asm sideeffect "{asked}", "=f,f"(float {source}) convergent',
            f"  store float %w{name}, ptr %slot{item.slots[1]}",
        ]
    if kind.startswith("matrices"):
        (where,), lines = loaded(item.slots[4:], "i32")
        how = ".trans" if kind == "matrices_transposed" else ""
        asked = f"ldmatrix.sync.aligned.m8n8.x4{how}.shared.b16 {{$0, $1, $2, $3}}, [$4+{item.distance}];"
        return [
            *lines,
            f"  %w{name}.near = addrspacecast ptr %shared to ptr addrspace(3)",
            f"  %w{name}.base = ptrtoint ptr addrspace(3) %w{name}.near to i32",
            f"  %w{name}.at = add i32 %w{name}.base, {where}",
            f'  %w{name} = call {{ i32, i32, i32, i32 }} asm sideeffect "{asked}", "=r,=r,=r,=r,r,~{{memory}}"'
            f"(i32 %w{name}.at) convergent",
            *stored(item.slots[:4], "i32"),
        ]
    sums, lines = loaded(item.slots[:4], "float")
    if kind == "multiply":
        factors, more = loaded(item.slots[4:], "float")
        lines += [*more, *(f"  {each}.bits = bitcast float {each} to i32" for each in factors)]
        factors = [f"{each}.bits" for each in factors]
    else:
        factors, more = loaded(item.slots[4:], "i32")
        lines += more
    asked = f"{_PRODUCTS[kind]} {{$0, $1, $2, $3}}, {{$4, $5, $6, $7}}, {{$8, $9}}, {{$10, $11, $12, $13}};"
    given = [*(f"i32 {each}" for each in factors), *(f"float {each}" for each in sums)]
    return [
        *lines,
        f'  %w{name} = call {_FOUR} asm "{asked}", "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3"({", ".join(given)}) convergent',
        *stored(item.slots[:4], "float"),
    ]


_SUMMED_AT_ONCE, _PANEL = 16, 64  # elements
_SHORT = {"bfloat16": "bf16", "float16": "f16"}
# How wgmma is told where a matrix lies: its address and steps in 16 bytes; eight rows begin 1,024 bytes further on.
_MATRIX = 1 << 62 | (1024 >> 4) << 32


def _gpu_group_products(item: GroupProducts) -> list[str]:
    """Write products as one instruction after the other, and wait for them."""
    name = f"%w{item.number}"
    lines = [
        f"  {name}.near = addrspacecast ptr %shared to ptr addrspace(3)",
        f"  {name}.base = ptrtoint ptr addrspace(3) {name}.near to i32",
    ]
    made = [slot for product in item.products for slot in product.c]
    given: list[str] = []  # after what is made: the sums so far, fragments and places
    kinds: list[str] = []

    def operand(text: str, kind: str) -> str:
        given.append(text)
        kinds.append(kind)
        return f"${len(made) + len(given) - 1}"

    def loaded(slot: int, kind: str) -> str:
        lines.append(f"  {name}.of{len(lines)} = load {kind}, ptr %slot{slot}")
        return f"{name}.of{len(lines) - 1}"

    def place(slot: int, panel: int) -> str:
        """Return how a matrix is told that begins where a slot says."""
        where, at = loaded(slot, "i32"), f"{name}.at{len(lines)}"
        lines.extend(
            [
                f"  {at}.bytes = add i32 {name}.base, {where}",
                f"  {at}.short = lshr i32 {at}.bytes, 4",
                f"  {at}.low = and i32 {at}.short, 16383",
                f"  {at}.wide = zext i32 {at}.low to i64",
                f"  {at} = or i64 {at}.wide, {_MATRIX | (max(panel, 16) >> 4) << 16}",
            ]
        )
        return at

    def further(at: str, distance: int) -> str:
        lines.append(f"  {name}.on{len(lines)} = add i64 {at}, {distance >> 4}")
        return operand(f"i64 {name}.on{len(lines) - 1}", "l")

    asked, first = ["wgmma.fence.sync.aligned;"], 0
    for p in item.products:
        columns = 2 * len(p.c)
        sums = ", ".join(f"${first + k}" for k in range(len(p.c)))
        if p.across:
            for k, slot in enumerate(p.c):
                operand(f"float {loaded(slot, 'float')}", str(first + k))
        first += len(p.c)
        b = place(p.b, p.panels[1])
        a = place(p.a[0], p.panels[0]) if len(p.a) == 1 else ""
        for step in range(p.summed // _SUMMED_AT_ONCE):
            panel, inside = divmod(_SUMMED_AT_ONCE * step, _PANEL)
            if a:
                left = further(a, panel * p.panels[0] + 2 * inside)
            else:
                four = [operand(f"i32 {loaded(slot, 'i32')}", "r") for slot in p.a[4 * step : 4 * step + 4]]
                left = f"{{{', '.join(four)}}}"
            apart = _SUMMED_AT_ONCE * step * 2 * _PANEL if p.across else panel * p.panels[1] + 2 * inside
            adds = "more" if p.across or step else "none"
            turned, kind = f"{'0, ' if a else ''}{int(p.across)}", _SHORT[p.dtype.name]
            asked.append(
                f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind} "
                f"{{{sums}}}, {left}, {further(b, apart)}, {adds}, 1, 1, {turned};"
            )
    asked += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    text = (
        "{ .reg .pred more, none; setp.eq.b32 more, 0, 0; setp.ne.b32 none, 0, 0; " + " ".join(asked) + " }"
    )
    constraints = ",".join([*(["=&f"] * len(made)), *kinds, "~{memory}"])
    result = f"{{ {', '.join(['float'] * len(made))} }}"
    lines.append(
        f'  {name} = call {result} asm sideeffect "{text}", "{constraints}"({", ".join(given)}) convergent'
    )
    for k, slot in enumerate(made):
        lines += [
            f"  {name}.to{k} = extractvalue {result} {name}, {k}",
            f"  store float {name}.to{k}, ptr %slot{slot}",
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
    if kernel.variables:
        parts.append(_cpu_words(kernel))
    e = Emitter()
    e.label("entry")
    e.lines += [*_given(range(len(kernel.operands) - kernel.sizes, len(kernel.operands))), *_sizes(kernel)]
    last = e.op("sub i64 %blocks, 1")

    def order(number: str, last: str) -> str:
        return e.op(f"sub i64 {last}, {number}") if backwards else number

    def between(turns: Turns, names: dict[str, str]) -> tuple[str, str]:
        """Write from where to where turns go, their names apart from ours."""
        if not turns.lines:
            return "0", str(turns.count)

        def ours(text: str) -> str:
            return re.sub(r"%[\w.]+", lambda found: names.get(found[0]) or f"%of.{found[0][1:]}", text)

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
    if (copy := _COPY.fullmatch(line)) is not None:
        return [f"  call void @words.copy(ptr {copy[1]}, ptr {copy[2]}, i32 {copy[3]})"]
    if _WAIT.fullmatch(line) is not None or line == _SHOWN:
        return []
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


def _cpu_words(kernel: Kernel) -> str:
    """Return the functions that stand for what a GPU copies, and for what a warp does together."""
    e = Emitter()

    def cell(thread: str, slot: str) -> str:
        place = add(e, multiply(e, thread, kernel.kept), slot)
        return e.op(f"getelementptr i8, ptr %first, i64 {multiply(e, place, KEPT_BYTES)}")

    def begun(head: str) -> None:
        e.lines.append(f"define internal void {head} nounwind {{")
        e.label("entry")
        threads = multiply(e, "%warp", WARP * KEPT_BYTES * kernel.kept)
        start = add(e, threads, str(_rounded(kernel.shared)))
        e.line(f"%first = getelementptr i8, ptr %shared, i64 {start}")

    def ended() -> None:
        e.lines += ["  ret void", "}"]

    begun("@words.exchange(ptr %shared, i64 %warp, i64 %from, i64 %to, i64 %distance)")

    def exchange(lane: str) -> None:
        other = e.op(f"xor i64 {lane}, %distance")
        found = e.op(f"load float, ptr {cell(other, '%from')}")
        e.line(f"store float {found}, ptr {cell(lane, '%to')}")

    repeat(e, "0", str(WARP), exchange)
    ended()
    kinds = {item.kind for item in _together(kernel.items)}
    for kind in sorted(kinds & set(_PRODUCTS)):
        begun(f"@words.{kind}(ptr %shared, i64 %warp, {', '.join(f'i64 %{slot}' for slot in _OF_PRODUCT)})")
        _cpu_multiply(e, cell, kind.removeprefix("multiply").removeprefix("_"))
        ended()
    for kind in sorted(kind for kind in kinds if kind.startswith("matrices")):
        slots = [f"i64 %to{k}" for k in range(4)]
        begun(f"@words.{kind}(ptr %shared, i64 %warp, {', '.join(slots)}, i64 %where, i64 %distance)")
        _cpu_matrices(e, cell, kind == "matrices_transposed")
        ended()
    for products in _products(kernel.items):
        for number, product in enumerate(products.products):
            begun(f"@words.products{products.number}.{number}(ptr %shared, i64 %warp)")
            _cpu_group_product(e, cell, product)
            ended()
    e.lines += [
        "define internal void @words.copy(ptr %to, ptr %from, i32 %bytes) nounwind {",
        "entry:",
        "  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 16, i1 false)",
        "  %count = zext i32 %bytes to i64",
        "  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %count, i1 false)",
        "  ret void",
        "}",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    ]
    return "\n".join(e.lines)


def _together(items: Sequence[Item]) -> Iterator[Together]:
    for item in items:
        if isinstance(item, Together):
            yield item
        elif isinstance(item, Turns):
            yield from _together(item.items)


def _products(items: Sequence[Item]) -> Iterator[GroupProducts]:
    for item in items:
        if isinstance(item, GroupProducts):
            yield item
        elif isinstance(item, Turns):
            yield from _products(item.items)


_OF_PRODUCT = [*(f"c{k}" for k in range(4)), *(f"a{k}" for k in range(4)), "b0", "b1"]
Cell = Callable[[str, str], str]  # where what a thread keeps in a slot lies


def _widened(e: Emitter, bits: str, dtype: np.dtype) -> str:
    """Return a half as a float32."""
    return functions.emit_function(e, "cast", [bits], dtype, 1, to=FLOAT32)


def _cpu_multiply(e: Emitter, cell: Cell, half: str) -> None:
    """Write a product of what the threads of a warp keep; half: the name of the dtype, if it is not float32."""
    e.line(f"%slots = alloca [{len(_OF_PRODUCT)} x i64]")
    for number, slot in enumerate(_OF_PRODUCT):
        place = e.op(f"getelementptr i64, ptr %slots, i64 {number}")
        e.line(f"store i64 %{slot}, ptr {place}")

    def slot_of(first: int, number: str) -> str:
        place = e.op(f"getelementptr i64, ptr %slots, i64 {add(e, number, str(first))}")
        return e.op(f"load i64, ptr {place}")

    def split(number: str, below: int) -> tuple[str, str]:
        """Return a number without its last bits, and these."""
        return e.op(f"lshr i64 {number}, {below}"), e.op(f"and i64 {number}, {(1 << below) - 1}")

    def factor(row: str, k: str, first: int, further: int) -> str:
        """Return an element of a factor; further: by how many slots rows further on are."""
        below, place = split(row, 3)
        within, odd = (k, "0") if not half else split(k, 1)
        beyond, part = split(within, 2)
        number = add(e, multiply(e, below, further), multiply(e, beyond, max(1, 2 * further)))
        where = cell(add(e, multiply(e, place, 4), part), slot_of(first, number))
        if not half:
            return e.op(f"load float, ptr {where}")
        bits = e.op(f"load i16, ptr {e.op(f'getelementptr i16, ptr {where}, i64 {odd}')}")
        return _widened(e, bits, next(each for each in HALVES if each.name == half))

    def entry(row: str, column: str) -> None:
        below, place = split(row, 3)
        part, odd = split(column, 1)
        thread = add(e, multiply(e, place, 4), part)
        target = cell(thread, slot_of(0, add(e, multiply(e, below, 2), odd)))

        def step(k: str) -> None:
            a, b = factor(row, k, 4, 1), factor(column, k, 8, 0)
            so_far, more = e.op(f"load float, ptr {target}"), e.op(f"fmul float {a}, {b}")
            e.line(f"store float {e.op(f'fadd float {so_far}, {more}')}, ptr {target}")

        repeat(e, "0", "16" if half else "8", step)

    repeat(e, "0", "16", lambda row: repeat(e, "0", "8", lambda column: entry(row, column)))


def _cpu_group_product(e: Emitter, cell: Cell, product: GroupProduct) -> None:
    """Write what one of the four warps has of a product: each thread of it has two rows of the result."""
    p = product

    def near(slot: int, panel: int, row: str, column: str) -> str:
        """Read an element from shared memory."""
        found = e.op(f"load i32, ptr {cell('0', str(slot))}")
        begin = e.op(f"zext i32 {found} to i64")
        eighth = e.op(f"and i64 {e.op(f'lshr i64 {column}, 3')}, 7")
        moved = e.op(f"xor i64 {eighth}, {e.op(f'and i64 {row}, 7')}")
        place = add(e, begin, multiply(e, e.op(f"lshr i64 {column}, 6"), panel))
        place = add(e, add(e, place, multiply(e, row, 128)), multiply(e, moved, 16))
        place = add(e, place, multiply(e, e.op(f"and i64 {column}, 7"), 2))
        return e.op(f"load i16, ptr {e.op(f'getelementptr i8, ptr %shared, i64 {place}')}")

    def kept(lane: str, below: int, k: str) -> str:
        """Return an element of what a thread's row has in fragments."""
        step, inside = e.op(f"lshr i64 {k}, 4"), e.op(f"and i64 {k}, 15")
        beyond, within = e.op(f"lshr i64 {inside}, 3"), e.op(f"and i64 {inside}, 7")
        number = add(e, add(e, multiply(e, step, 4), multiply(e, beyond, 2)), str(below))
        slot = e.op(f"load i64, ptr {e.op(f'getelementptr i64, ptr %fragments, i64 {number}')}")
        thread = add(e, e.op(f"and i64 {lane}, 28"), e.op(f"lshr i64 {within}, 1"))
        odd = e.op(f"and i64 {within}, 1")
        return e.op(f"load i16, ptr {e.op(f'getelementptr i16, ptr {cell(thread, slot)}, i64 {odd}')}")

    if len(p.a) > 1:
        e.line(f"%fragments = alloca [{len(p.a)} x i64]")
        for number, slot in enumerate(p.a):
            e.line(f"store i64 {slot}, ptr {e.op(f'getelementptr i64, ptr %fragments, i64 {number}')}")
    e.line(f"%sums = alloca [{len(p.c)} x i64]")
    for number, slot in enumerate(p.c):
        e.line(f"store i64 {slot}, ptr {e.op(f'getelementptr i64, ptr %sums, i64 {number}')}")
    first = multiply(e, e.op("and i64 %warp, 3"), 16)

    def entry(lane: str, number: str, below: int, odd: int) -> None:
        """Add up what a thread has of eight columns, in one of its two rows and columns."""
        row = add(e, add(e, first, e.op(f"lshr i64 {lane}, 2")), str(8 * below))
        column = add(e, multiply(e, number, 8), multiply(e, e.op(f"and i64 {lane}, 3"), 2))
        column = add(e, column, str(odd))
        place = add(e, multiply(e, number, 4), str(2 * below + odd))
        slot = e.op(f"load i64, ptr {e.op(f'getelementptr i64, ptr %sums, i64 {place}')}")
        target = cell(lane, slot)
        if not p.across:
            e.line(f"store float 0.0, ptr {target}")

        def step(k: str) -> None:
            a = near(p.a[0], p.panels[0], row, k) if len(p.a) == 1 else kept(lane, below, k)
            b = near(p.b, p.panels[1], *((k, column) if p.across else (column, k)))
            x, y = _widened(e, a, p.dtype), _widened(e, b, p.dtype)
            so_far, more = e.op(f"load float, ptr {target}"), e.op(f"fmul float {x}, {y}")
            e.line(f"store float {e.op(f'fadd float {so_far}, {more}')}, ptr {target}")

        repeat(e, "0", str(p.summed), step)

    def lane(number: str) -> None:
        def eight(columns: str) -> None:
            for below in range(2):
                for odd in range(2):
                    entry(number, columns, below, odd)

        repeat(e, "0", str(len(p.c) // 4), eight)

    repeat(e, "0", str(WARP), lane)


def _cpu_matrices(e: Emitter, cell: Cell, transposed: bool) -> None:
    """Write how the threads of a warp read four matrices of halves from shared memory."""

    def read(matrix: int, row: str, column: str) -> str:
        """Read an element."""
        at = e.op(f"load i32, ptr {cell(add(e, row, str(8 * matrix)), '%where')}")
        place = add(e, add(e, e.op(f"zext i32 {at} to i64"), "%distance"), multiply(e, column, 2))
        return e.op(f"load i16, ptr {e.op(f'getelementptr i8, ptr %shared, i64 {place}')}")

    def lane(number: str) -> None:
        place, part = e.op(f"lshr i64 {number}, 2"), e.op(f"and i64 {number}, 3")
        for matrix in range(4):
            target = cell(number, f"%to{matrix}")
            for k in range(2):
                along = add(e, multiply(e, part, 2), str(k))
                found = read(matrix, along, place) if transposed else read(matrix, place, along)
                e.line(f"store i16 {found}, ptr {e.op(f'getelementptr i16, ptr {target}, i64 {k}')}")

    repeat(e, "0", str(WARP), lane)


def _rounded(size: int) -> int:
    return -(-size // KEPT_BYTES) * KEPT_BYTES


def cpu_shared(kernel: Kernel) -> int:
    """Return how many bytes a block has for itself on a CPU, with what its threads keep."""
    return _rounded(kernel.shared) + KEPT_BYTES * kernel.kept * kernel.threads
