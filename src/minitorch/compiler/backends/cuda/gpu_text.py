"""Kernels for a GPU. Enters: `Kernel`s. Leaves: LLVM text for NVPTX, in which phases have barriers between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from minitorch.compiler.backends.cuda.gpu_warps import gpu_group_products, gpu_together
from minitorch.compiler.backends.cuda.instructions import CONVERSIONS, CONVERTED, INSTRUCTIONS, ON_A_CPU
from minitorch.compiler.backends.cuda.operands import find_operand, name_sizes
from minitorch.compiler.backends.cuda.words import (
    COPY,
    EXIT,
    KEEP,
    KEPT,
    SHARED_ALIGNMENT,
    SHARED_BYTES,
    SHOWN,
    TRIPLE,
    WAIT,
    GroupProducts,
    Item,
    Kernel,
    Phase,
    Together,
    all_of,
)
from minitorch.compiler.ir.sizes import spelled


def gpu_text(kernels: Sequence[Kernel]) -> str:
    """Return a module of kernels as LLVM text for NVPTX; they are called kernel0, kernel1 …"""
    externs = {
        name: text for kernel in kernels for name, text in kernel.externs.items() if name not in ON_A_CPU
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
        aligned = SHARED_ALIGNMENT if any(all_of(GroupProducts, kernel.items)) else 16
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
    lines = name_sizes(kernel)
    for place in range(len(kernel.operands) - kernel.sizes):
        lines += [
            *find_operand(place),
            # There and back: so that LLVM knows what kind of memory this is.
            f"  %global{place} = addrspacecast ptr %generic{place} to ptr addrspace(1)",
            f"  %operand{place} = addrspacecast ptr addrspace(1) %global{place} to ptr",
        ]
    return lines


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


def _with_instructions(line: str) -> list[str]:
    """Return a line in which calls of a machine's own instructions are these."""
    if "@fast." not in line:
        return [line]
    converted = CONVERTED.fullmatch(line)
    if converted is not None and converted[2] in CONVERSIONS:
        result, name, given = converted.groups()
        first, second = CONVERSIONS[name][0]
        return [f"  {result}.half = {first.format(given)}", f"  {result} = {second.format(f'{result}.half')}"]
    for name, (instruction, _) in INSTRUCTIONS.items():
        line = line.replace(f"@{name}(", f"{instruction}(")
    return [line]


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
        if line == EXIT:
            yield f"  br label %after{number}"
        elif (keep := KEEP.fullmatch(line)) is not None:
            known[keep[1]] = keep[3]
            yield f"  store {keep[2]} {keep[3]}, ptr %slot{keep[1]}" if variables else f"  ; {line.strip()}"
        elif (kept := KEPT.fullmatch(line)) is not None:
            source = f"load {kept[3]}, ptr %slot{kept[2]}"
            yield f"  {kept[1]} = " + (
                source if variables else f"bitcast {kept[3]} {known[kept[2]]} to {kept[3]}"
            )
        elif (copy := COPY.fullmatch(line)) is not None:
            yield from _gpu_copy(copy[1], copy[2], copy[3], f"%copy{number}.{copy[1][1:]}")
        elif (wait := WAIT.fullmatch(line)) is not None:
            asked = f"{wait[1]}_group {wait[2]}".strip()
            yield f'  call void asm sideeffect "cp.async.{asked};", "~{{memory}}"()'
        elif line == SHOWN:
            yield '  call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"()'
        else:
            yield from _with_instructions(line)

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
            lines += gpu_together(item)
            continue
        if isinstance(item, GroupProducts):
            lines += gpu_group_products(item)
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
