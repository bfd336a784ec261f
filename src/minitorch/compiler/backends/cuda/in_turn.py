"""Kernels of a single block, one after the other, as one. Enters: tasks in their order. Leaves: fewer tasks.

A block's threads wait for each other at a barrier in less time than a GPU takes to go on to the next kernel, and than
a host takes to launch it.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

from minitorch.compiler.backends.cuda.words import Item, Kernel, Phase, Turns
from minitorch.compiler.backends.interface import Task
from minitorch.compiler.ir.sizes import surely_equal
from minitorch.compiler.schedule.groups import Group

MOST_IN_TURN = 16
MOST_OPERANDS = 512  # of a kernel: the driver takes 4096 bytes
_EVERYBODYS = ("thread", "block", "shared")
_OPERAND = re.compile(r"operand(\d+)")
_SIZE = re.compile(r"size\.(\d+)")


def in_turn(tasks: list[Task], texts: dict[tuple[int, ...], list[Item]] | None = None) -> list[Task]:
    """Return tasks of which those that follow each other, and take one block each, are one.

    texts: the instructions of those that were made so far; of the same kernels they are not made anew.
    """
    found: list[Task] = []
    texts = {} if texts is None else texts
    for alone, some in itertools.groupby(tasks, _is_of_one_block):
        mine = list(some)
        if not alone:
            found += mine
            continue
        found += [few[0] if len(few) == 1 else _as_one(few, texts) for few in _in_parts(mine)]
    return found


def _in_parts(tasks: list[Task]) -> list[list[Task]]:
    """Return tasks in lists, each as long as one kernel can be."""
    parts: list[list[Task]] = []
    operands = 0
    for task in tasks:
        operands += len(task.kernel.operands)
        if not parts or len(parts[-1]) == MOST_IN_TURN or operands > MOST_OPERANDS:
            parts.append([])
            operands = len(task.kernel.operands)
        parts[-1].append(task)
    return parts


def _is_of_one_block(task: Task) -> bool:
    kernel = task.kernel
    if not isinstance(kernel, Kernel) or kernel.parts or kernel.kept or kernel.variables:
        return False
    return surely_equal(kernel.blocks, 1) and all(map(_is_plain, kernel.items))


def _is_plain(item: Item) -> bool:
    """Whether an item is made of phases alone, gone through as often by every block."""
    if isinstance(item, Turns):
        return not item.lines and all(map(_is_plain, item.items))
    return isinstance(item, Phase)


def _as_one(tasks: list[Task], texts: dict[tuple[int, ...], list[Item]]) -> Task:
    kernels: list[Kernel] = [task.kernel for task in tasks]
    threads = max(kernel.threads for kernel in kernels)
    key = tuple(id(kernel.items) for kernel in kernels)
    if key not in texts:
        texts[key] = _items(kernels, threads)
    firsts = [len(kernel.operands) - kernel.sizes for kernel in kernels]
    sizes = [size for kernel, first in zip(kernels, firsts, strict=True) for size in kernel.operands[first:]]
    one = replace(
        kernels[0],
        items=texts[key],
        operands=[*(o for k, first in zip(kernels, firsts, strict=True) for o in k.operands[:first]), *sizes],
        threads=threads,
        shared=max(kernel.shared for kernel in kernels),
        externs={name: text for kernel in kernels for name, text in kernel.externs.items()},
        flops=sum(kernel.flops for kernel in kernels),
        note=f"{len(kernels)} kernels one after the other, one block of {threads} threads",
        elements=sum(kernel.elements for kernel in kernels),
        sizes=len(sizes),
    )
    group = Group(0, "loop", members=[m for task in tasks for m in task.group.members])
    touches = list(dict.fromkeys(thing for task in tasks for thing in task.touches))
    return Task(group, touches, one)


def _items(kernels: list[Kernel], threads: int) -> list[Item]:
    """Return the phases of kernels, one after the other, for so many threads."""
    items: list[Item] = []
    numbers, place, size = itertools.count(), 0, 0
    for turn, kernel in enumerate(kernels):
        if turn and (
            not isinstance(items[-1], Phase) or items[-1].in_warps
        ):  # all wait, not just those of a warp
            number = next(numbers)
            items.append(Phase(number, [f"phase{number}:", "  exit"]))
        few = kernel.threads if kernel.threads < threads else 0
        items += [_renamed(item, f"turn{turn}", (place, size), few, numbers) for item in kernel.items]
        place += len(kernel.operands) - kernel.sizes
        size += kernel.sizes
    return items


def _renamed(
    item: Item, prefix: str, firsts: tuple[int, int], few: int, numbers: itertools.count[int]
) -> Item:
    """Return phases under names of their own.

    firsts: places of the first operand and of the first size. few: how many threads run them, 0: all.
    """

    def name(found: re.Match[str]) -> str:
        known = found[1]
        operand, size = _OPERAND.fullmatch(known), _SIZE.fullmatch(known)
        if operand is not None:
            return f"%operand{int(operand[1]) + firsts[0]}"
        if size is not None:
            return f"%size.{int(size[1]) + firsts[1]}"
        return found[0] if known in _EVERYBODYS else f"%{prefix}.{known}"

    def line(text: str) -> str:
        text = re.sub(r"%([\w.]+)", name, text)
        return f"{prefix}.{text}" if text.endswith(":") else text

    if isinstance(item, Turns):
        inside = [_renamed(each, prefix, firsts, few, numbers) for each in item.items]
        count = line(item.count) if isinstance(item.count, str) else item.count
        return Turns(line(item.counter), count, inside)
    assert isinstance(item, Phase)
    number, body = next(numbers), [line(text) for text in item.lines]
    begins = body[0].removesuffix(":")
    if not few:
        return Phase(number, [f"phase{number}:", f"  br label %{begins}", *body], item.in_warps)
    lines = [
        f"phase{number}:",
        f"  %few{number} = icmp ult i64 %thread, {few}",
        f"  br i1 %few{number}, label %{begins}, label %rest{number}",
        *body[:-1],
        f"  br label %rest{number}",
        f"rest{number}:",
        body[-1],
    ]
    return Phase(number, lines, item.in_warps)
