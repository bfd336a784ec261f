"""What is measured. Enters: the checkout's benchmarks/suite.py. Leaves: groups of questions, and who is asked."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import minitorch

SECONDS, BYTES, INSTRUCTIONS = "seconds", "bytes", "instructions"


@dataclass(frozen=True)
class Part:
    """One number of an answer: the row it goes to, and the least work that any machine must do for it."""

    row: str
    curve: str | None = None  # rows of one curve are drawn as a line over x
    x: float | None = None
    unit: str = SECONDS
    flops: float | None = None
    traffic: float | None = None  # bytes to and from memory
    headline: bool = False  # one of the few rows that stand for all


@dataclass(frozen=True)
class Ask:
    """A question to a worker, in a line of text; it answers with a number for each part."""

    text: str
    parts: tuple[Part, ...]
    quick: bool = False  # also asked when the run has to be short


@dataclass(frozen=True)
class Questions:
    """Questions that belong together: one table, one section of the page."""

    name: str
    title: str
    script: str  # in benchmarks/, started once per contender with --worker CONTENDER
    contenders: tuple[str, ...]
    asks: tuple[Ask, ...]
    threads: int = 1
    rounds: int = 5
    quick_rounds: int = 2
    x: str = ""  # what the curves' x is
    about: str = ""  # what is compared, and whom the settings favour
    why: str = ""  # why a peer is ahead, where one is
    fresh: bool = False  # a new process for every question
    # Where making a step ready (compiling it) costs more than timing it, all rounds of a question follow each other.
    rounds_inside: bool = False
    not_quick: tuple[str, ...] = ()  # contenders that are left out when the run has to be short
    left_out: tuple[str, ...] = field(default=())  # lines: what could not be asked on this machine


class NoWorkloads(Exception):
    """There is no benchmarks/ folder to be found."""


def folder() -> Path:
    """Find the checkout's benchmarks/: beside the package's sources, or in the current folder."""
    for place in (Path(minitorch.__file__).resolve().parents[2], Path.cwd()):
        if (place / "benchmarks" / "suite.py").is_file():
            return place / "benchmarks"
    raise NoWorkloads(
        "the workloads are not part of the installed package: they import the peers, and lie in the source "
        "checkout's folder benchmarks/. Go to a checkout and run `make bench` there (it also installs the peers), "
        "or run this command in the checkout's folder"
    )


def load(where: Path) -> list[Questions]:
    """Read the groups from benchmarks/suite.py."""
    sys.path.insert(0, str(where))  # suite.py reads the names of the workloads from its neighbours
    try:
        spec = importlib.util.spec_from_file_location("minitorch_bench_suite", where / "suite.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return list(module.GROUPS)
    finally:
        sys.path.remove(str(where))


def with_rows(groups: Sequence[Questions], rows: set[tuple[str, str]]) -> list[Questions]:
    """Leave only the questions that some rows, given by their group's name and their own, come from."""
    chosen = []
    for group in groups:
        asks = tuple(a for a in group.asks if any((group.name, part.row) in rows for part in a.parts))
        if asks:
            chosen.append(replace(group, asks=asks))
    return chosen


def choose(
    groups: Sequence[Questions], only: str | None = None, quick: bool = False, rounds: int | None = None
) -> list[Questions]:
    """Leave away what was not asked for; a word chooses a group by its name, else all groups and rows that have it."""
    chosen = []
    named = [group for group in groups if group.name == only]
    if named:
        groups, only = named, None
    for group in groups:
        asks = [ask for ask in group.asks if ask.quick or not quick]
        if only is not None and not any(only.lower() in word.lower() for word in (group.name, group.title)):
            asks = [a for a in asks if any(only.lower() in part.row.lower() for part in a.parts)]
        contenders = tuple(c for c in group.contenders if not (quick and c in group.not_quick))
        number = rounds or (group.quick_rounds if quick else group.rounds)
        if asks or (group.left_out and only is None):
            chosen.append(replace(group, contenders=contenders, asks=tuple(asks), rounds=number))
    return chosen
