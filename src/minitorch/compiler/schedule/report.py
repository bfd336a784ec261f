"""What became of a program, in words and numbers. Enters: a schedule and a backend's steps. Leaves: a `BuildReport`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from minitorch.compiler.ir.program import Value
from minitorch.compiler.schedule.groups import Group


@dataclass
class StepReport:
    """One step: its values in words, how much work it is, and where it runs."""

    name: str
    kind: str
    values: list[str]
    units: int = 1
    parallel: bool = False
    flops: float = 0.0
    bytes: int = 0
    note: str = ""
    seconds: float = 0.0  # measured, if asked for
    lines: list[tuple[str, int]] = field(default_factory=list)  # of the person's code it comes from


@dataclass
class BuildReport:
    """What became of a program."""

    steps: list[StepReport] = field(default_factory=list)
    functions: int = 0  # different kernels
    arena: int = 0  # bytes
    unshared: int = 0  # bytes, if no two values shared a place
    called_back: list[str] = field(default_factory=list)  # what a library of arrays computes
    called: str = "NumPy"  # which
    undecided: dict[str, str] = field(default_factory=dict)  # of that, what varies too freely, and how
    copied: list[str] = field(default_factory=list)  # updates that could not be made in place
    unfused: dict[str, list[str]] = field(default_factory=dict)  # what goes through memory, by the reason
    text: str = ""
    seconds: dict[str, float] = field(default_factory=dict)  # of compiling, by stage
    last: float = field(default_factory=time.perf_counter)  # when a stage was over

    def tick(self, stage: str) -> None:
        """Note that a stage of compiling is over."""
        now = time.perf_counter()
        self.seconds[stage] = now - self.last
        self.last = now

    def __str__(self) -> str:
        lines = [
            f"{len(self.steps)} steps, {self.functions} different kernels, arena {self.arena:,} bytes "
            f"({self.unshared:,} without sharing)"
        ]
        for step in self.steps:
            how = "parallel" if step.parallel else "serial"
            timed = f" {step.seconds * 1e6:9.2f} µs" if step.seconds else ""
            lines.append(
                f"{timed} {step.kind:<11} {how:<8} {step.units:5} units {step.flops:12,.0f} flops "
                f"{step.bytes:12,} bytes  {step.note}: {', '.join(step.values)}"
            )
        return "\n".join(lines)


def group_in_words(group: Group) -> list[str]:
    """Name what a group computes."""
    if group.check is not None:
        return [f"indices below {group.check.bound}"]
    return [value_in_words(member) for member in group.members]


def lines_of(group: Group) -> list[tuple[str, int]]:
    """Return the lines of a person's code that a group comes from."""
    return sorted({value.line for value in group.members if value.line is not None})


def value_in_words(value: Value) -> str:
    """Name a value by what makes it, and its shape."""
    shape = "×".join(map(str, value.shape)) or "scalar"
    attributes = value.attributes
    what = attributes.get("kind", attributes.get("function", attributes.get("spec", "")))
    what = getattr(what, "__name__", what)
    word = str(what) if value.primitive == "map" else f"{value.primitive} {what}".strip()
    return f"{word}[{shape}]"
