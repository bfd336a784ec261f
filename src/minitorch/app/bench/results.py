"""What was measured, every round of it. Enters: numbers. Leaves: JSON, and what differs from an older file."""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import minitorch
from minitorch.app.bench.plan import BYTES, INSTRUCTIONS, SECONDS, Questions
from minitorch.serialization import atomically

FORMAT = 1
# A change below this is not reported, however still the machine was. Instruction counts vary by a percent or two.
LEAST_CHANGE = {SECONDS: 0.10, BYTES: 0.05, INSTRUCTIONS: 0.03}
# Shown beside the others, but no contender: it computes no gradients.
REFERENCES = {"NumPy"}
LEAST_MARGIN = 0.02  # differences below this say nothing, however quiet the rounds were
LIBRARIES = {"minitorch", "PyTorch"}  # whose modes are contenders of their own: 'PyTorch compiled'


@dataclass
class Row:
    """One quantity, for every contender, in every round; less is better."""

    name: str
    unit: str = SECONDS
    curve: str | None = None
    x: float | None = None
    flops: float | None = None
    traffic: float | None = None
    headline: bool = False
    goal: float | None = None  # what was aimed at
    values: dict[str, list[float]] = field(default_factory=dict)

    def best(self, contender: str) -> float:
        """Return the least of its rounds, the one the machine disturbed least; nan without any."""
        return min(self.values.get(contender) or [math.nan])

    def spread(self, contender: str) -> float:
        """Return how far the middle round lies above the best one, as a fraction."""
        ordered = sorted(self.values.get(contender) or [math.nan])
        return ordered[len(ordered) // 2] / ordered[0] - 1

    @property
    def present(self) -> list[str]:
        """The contenders with at least one number."""
        return [name for name, rounds in self.values.items() if rounds]

    @property
    def ours(self) -> str | None:
        """The contender that stands for this library: the first of its names."""
        return next((name for name in self.present if is_ours(name)), None)

    @property
    def best_peer(self) -> str | None:
        """The fastest of the others."""
        peers = [name for name in self.present if not is_ours(name) and name not in REFERENCES]
        return min(peers, key=self.best, default=None)

    @property
    def ratio(self) -> float:
        """How many times as long the best peer takes; nan without one."""
        if self.ours is None or self.best_peer is None:
            return math.nan
        return self.best(self.best_peer) / self.best(self.ours)

    @property
    def standing(self) -> str | None:
        """'ahead' or 'behind' of the best peer by more than the noise of both, else 'level'; None without a peer."""
        if self.ours is None or self.best_peer is None or math.isnan(self.ratio):
            return None
        margin = 1 + max(self.spread(self.ours), self.spread(self.best_peer), LEAST_MARGIN)
        return "ahead" if self.ratio > margin else "behind" if 1 / self.ratio > margin else "level"


def is_ours(contender: str) -> bool:
    """Tell minitorch, in whatever mode, from its peers."""
    return contender.startswith("minitorch")


@dataclass
class Section:
    """A group's rows, with the words that go with them."""

    name: str
    title: str
    threads: int = 1  # 0: a GPU's
    x: str = ""
    about: str = ""
    why: str = ""
    seconds: float = 0.0  # how long it took to measure
    rows: dict[str, Row] = field(default_factory=dict)

    @property
    def contenders(self) -> list[str]:
        """All that appear, in order."""
        return list(dict.fromkeys(name for row in self.rows.values() for name in row.present))


@dataclass
class Results:
    """A whole run: where, with what, and every number."""

    machine: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    finished: bool = False
    sections: dict[str, Section] = field(default_factory=dict)

    def section(self, group: Questions) -> Section:
        """Return a group's section, made when it is first wanted."""
        words = (group.name, group.title, group.threads, group.x, group.about, group.why)
        return self.sections.setdefault(group.name, Section(*words))

    def leave_out(self, line: str) -> bool:
        """Note what is missing, once; tell whether it is news."""
        news = line not in self.left_out
        if news:
            self.left_out.append(line)
        return news

    def versions_in_a_line(self) -> str:
        """Name every library once, whatever modes of it took part."""
        modes = {name for name in self.versions if name.split()[0] in LIBRARIES and " " in name}
        names = {"minitorch": self.machine["minitorch"]} if any(map(is_ours, modes)) else {}
        names |= {name: version for name, version in self.versions.items() if name not in modes}
        return ", ".join(f"{name} {version}" for name, version in names.items())

    def rows(self) -> Iterator[tuple[Section, Row]]:
        """Every row, with its section."""
        for section in self.sections.values():
            for row in section.rows.values():
                yield section, row

    def limit(self, kind: str, threads: int) -> float | None:
        """Return the best FLOP/s ('flops') or bytes/s ('traffic') that any contender reached with so many threads."""
        found = [
            work / row.best(name)
            for section, row in self.rows()
            if section.name.startswith("limits") and section.threads == threads
            for name in row.present
            if (work := getattr(row, kind)) is not None
        ]
        return max(found, default=None)

    def save(self, path: Path) -> None:
        """Write everything, so that the file is either as before or complete."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False)
        with atomically(path) as file:
            file.write(text.encode())


def load(path: Path) -> Results:
    """Read what `save` wrote."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise ValueError(f"{path} was not written by `minitorch bench --json` (format {FORMAT})")
    sections = {}
    for name, section in content.pop("sections").items():
        rows = {key: Row(**row) for key, row in section.pop("rows").items()}
        sections[name] = Section(**section, rows=rows)
    return Results(**content, sections=sections)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> dict[str, Any]:
    """Describe this machine: a time without it says little."""
    try:
        with open("/proc/cpuinfo") as file:
            model = next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return {
        "cpu": model,
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "minitorch": minitorch.__version__,
        "load": cores_in_use(),
        "date": datetime.datetime.now().isoformat(timespec="minutes"),
    }


def cores_in_use(seconds: float = 0.3) -> float | None:
    """Return how many cores others keep busy now, None where the system does not tell.

    Not the load average: that still remembers an installation that ended a minute ago.
    """

    def ticks() -> tuple[int, int]:
        with open("/proc/stat") as file:
            user, nice, system, idle, wait, *rest = map(int, file.readline().split()[1:9])
        return idle + wait, user + nice + system + sum(rest)

    try:
        idle, busy = ticks()
        time.sleep(seconds)
        idle, busy = (after - before for before, after in zip((idle, busy), ticks(), strict=True))
    except (OSError, ValueError):
        return None
    return round(busy / max(1, idle + busy) * (os.cpu_count() or 1), 2)


def in_a_line(machine: dict[str, Any]) -> str:
    """Write the machine as a line.

    >>> in_a_line({"cpu": "AMD EPYC", "cores": 2, "system": "Linux x86_64", "python": "3.11.2"})
    'AMD EPYC, 2 cores, Linux x86_64, Python 3.11.2'
    """
    gpu = f"{machine['gpu']}, " if machine.get("gpu") else ""
    return f"{gpu}{machine['cpu']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}"


def busy(machine: dict[str, Any]) -> str | None:
    """Say so if others were using the machine when the run began.

    >>> busy({"cores": 2, "load": 1.5})
    'the machine was busy when the run began (1.5 of 2 cores): libraries with several threads suffer most'
    >>> busy({"cores": 2, "load": 0.1})
    """
    load = machine.get("load")
    if load is None or load < 0.3 * machine["cores"]:
        return None
    words = f"{load:g} of {machine['cores']} cores"
    return f"the machine was busy when the run began ({words}): libraries with several threads suffer most"


# --- the guard ------------------------------------------------------------------------------------------------


@dataclass
class Change:
    """A row of ours in two runs; `factor` is new over old, after the machine's own drift is taken off."""

    section: str
    row: str
    contender: str
    unit: str
    old: float
    new: float
    factor: float
    noise: float

    @property
    def slower(self) -> bool:
        """Whether it became worse beyond the noise."""
        return self.factor > 1 + self.noise

    @property
    def faster(self) -> bool:
        """Whether it became better beyond the noise."""
        return self.factor < 1 / (1 + self.noise)


@dataclass
class RunComparison:
    """Everything two runs have in common."""

    changes: list[Change]
    drift: dict[str, float]  # section → how much longer the unchanged peers take now

    @property
    def slower(self) -> list[Change]:
        """What became worse, worst first."""
        return sorted((c for c in self.changes if c.slower), key=lambda c: -c.factor)

    @property
    def faster(self) -> list[Change]:
        """What became better, best first."""
        return sorted((c for c in self.changes if c.faster), key=lambda c: c.factor)


def comparable(old: Results, new: Results) -> str | None:
    """Return why two runs cannot be compared, or None."""
    for key in ("gpu", "cpu", "cores", "system"):
        if old.machine.get(key) != new.machine.get(key):
            return f"the old numbers are from another machine ({in_a_line(old.machine)})"
    return None


def compare(old: Results, new: Results) -> RunComparison:
    """Set our rows in two runs side by side.

    A machine is never twice the same: the peers of a section, where their versions are the same in both runs, tell
    how much slower all of it runs now (the median of their ratios). That is taken off before anything is blamed.
    The noise of a row is the largest spread of its rounds, of any contender, then and now (what disturbs one may have
    disturbed another's every round), and never less than LEAST_CHANGE.
    """
    changes: list[Change] = []
    drift: dict[str, float] = {}
    for name, section in new.sections.items():
        if name not in old.sections or old.sections[name].threads != section.threads:
            continue
        shared = [(old.sections[name].rows[key], row) for key, row in section.rows.items()
                  if key in old.sections[name].rows]  # fmt: skip
        ratios = sorted(
            after.best(peer) / before.best(peer)
            for before, after in shared
            for peer in after.present
            if after.unit == SECONDS and not is_ours(peer) and peer in before.present
            and old.versions.get(peer) == new.versions.get(peer)
        )  # fmt: skip
        if len(ratios) >= 3:
            drift[name] = ratios[len(ratios) // 2]
        for before, after in shared:
            for contender in filter(is_ours, after.present):
                if contender not in before.present:
                    continue
                least = LEAST_CHANGE[after.unit]
                factor = after.best(contender) / before.best(contender)
                if after.unit == SECONDS:
                    factor /= drift.get(name, 1.0)
                noise = max(least, *(row.spread(name) for row in (before, after) for name in row.present))
                change = (before.best(contender), after.best(contender), factor, noise)
                changes.append(Change(name, after.name, contender, after.unit, *change))
    return RunComparison(changes, drift)
