"""`minitorch learn`: a learner's folder. Enters: what was asked. Leaves: words on the terminal, an exit code.

In the folder stand tensor.py and practice.py, which are the learner's and are never written to again once they exist, a
page for each lab, and progress.json: the labs that have passed, the hints that were shown, the language.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minitorch.course.findings import Result
from minitorch.course.labs import LABS, Lab, find, solution
from minitorch.course.process import SECONDS, check_folder
from minitorch.course.report import render_one
from minitorch.course.words import LANGUAGES, page, skeleton, word

FOLDER = Path("minitorch-course")
PROGRESS = "progress.json"
FILES = ("tensor.py", "practice.py")


class Progress:
    """What a folder remembers."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / PROGRESS
        self.passed: list[str] = []
        self.hints: dict[str, int] = {}
        self.language = ""
        self.warning = ""
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        try:
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            self.passed = [lab.name for lab in LABS if lab.name in kept["passed"]]
            self.hints = {lab.name: int(kept["hints"].get(lab.name, 0)) for lab in LABS}
            self.language = kept["language"] if kept["language"] in LANGUAGES else ""
        except (ValueError, KeyError, TypeError, AttributeError, OSError):
            aside = _free_name(self.path.with_name("progress-unreadable.json"))
            self.path.rename(aside)
            self.warning = aside.name

    def write(self) -> None:
        """Keep it."""
        text = json.dumps({"passed": self.passed, "hints": self.hints, "language": self.language}, indent=2)
        self.path.write_text(text + "\n", encoding="utf-8")

    def next_lab(self) -> Lab | None:
        """Return the first lab that has not passed."""
        return next((lab for lab in LABS if lab.name not in self.passed), None)


def _free_name(path: Path) -> Path:
    number, found = 1, path
    while found.exists():
        number += 1
        found = path.with_stem(f"{path.stem}-{number}")
    return found


class Learn:
    """One call of the command."""

    def __init__(self, folder: Path | None, language: str | None) -> None:
        self.folder = folder if folder is not None else _usual_folder()
        self.exists = self.folder.is_dir() and (self.folder / FILES[0]).exists()
        self.progress = Progress(self.folder)
        self.language = language or self.progress.language or "en"
        if self.progress.warning:
            print(self.say("progress-unreadable", kept=self.progress.warning), file=sys.stderr)

    def say(self, key: str, **values: Any) -> str:
        """Return a sentence in the learner's language."""
        return word(self.language, key, **values)

    def refuse(self, key: str, **values: Any) -> int:
        """Say what is wrong with the request."""
        print(f"minitorch learn: {self.say(key, **values)}", file=sys.stderr)
        return 2

    def find(self, name: str) -> Lab | int:
        """Return a lab, or the exit code after saying that there is none."""
        try:
            return find(name)
        except KeyError as error:
            if error.args:
                return self.refuse("did-you-mean", lab=name, nearest=error.args[0])
            return self.refuse("no-lab", lab=name)

    # --- what can be asked ----------------------------------------------------------------------------------

    def list(self) -> int:
        """Show the labs, and which have passed."""
        print(self.say("list-head"), end="\n\n")
        for lab in LABS:
            mark = "✓" if lab.name in self.progress.passed else " "
            print(f"  {mark} {lab.number:02} {lab.name:15}{page(self.language, lab)[0]}")
        print()
        following = self.progress.next_lab()
        if not self.exists:
            print(self.say("list-begin"))
        elif following is None:
            print(self.say("list-all", total=len(LABS), folder=self.folder))
        else:
            passed = len(self.progress.passed)
            print(
                self.say("list-go-on", passed=passed, total=len(LABS), folder=self.folder, lab=following.name)
            )
        return 0

    def start(self) -> int:
        """Write what is missing; leave what is there."""
        wanted = {file: skeleton(self.language, file) for file in FILES}
        wanted |= {f"labs/{lab.page}": page(self.language, lab)[1] for lab in LABS}
        kept = []
        try:
            (self.folder / "labs").mkdir(parents=True, exist_ok=True)
            for name, text in wanted.items():
                try:
                    with open(self.folder / name, "x", encoding="utf-8") as file:  # x: never over what exists
                        file.write(text)
                except FileExistsError:
                    kept.append(name)
            self.progress.language = self.language
            self.progress.write()
        except OSError as error:
            return self.refuse("cannot-write", folder=self.folder, reason=error.strerror or str(error))
        print(self.say("started", folder=self.folder))
        if kept:
            print(self.say("kept", files=", ".join(kept) if len(kept) < 5 else f"{len(kept)}"))
        following = self.progress.next_lab() or LABS[0]
        print(self.say("start-next", page=self.folder / "labs" / following.page))
        return 0

    def check(self, name: str | None, seconds: float = SECONDS) -> int:
        """Check one lab, or all in order up to the first that fails; 0 if nothing is wrong."""
        if not self.exists:
            return self.refuse("no-folder", folder=self.folder)
        labs = list(LABS)
        if name is not None:
            lab = self.find(name)
            if isinstance(lab, int):
                return lab
            labs = [lab]
        try:
            failed = self._run(labs, seconds, every=name is not None)
        finally:  # what has passed is kept, also when somebody presses Ctrl-C
            self._keep()
        if failed is not None:
            print("\n" + self.say("ask-hint", lab=failed.lab))
            return 1
        following = self.progress.next_lab()
        if following is None:
            print(self.say("all-passed"))
        else:
            print(self.say("next", number=following.number, page=self.folder / "labs" / following.page))
        return 0

    def _run(self, labs: Sequence[Lab], seconds: float, every: bool) -> Result | None:
        """Check labs in order, and say what is found; return what is wrong. every: show what is right as well."""
        title = ""
        for found in check_folder(self.folder.resolve(), labs, seconds):
            if isinstance(found, Lab):
                self._passed(found)
                continue
            if every or not found.ok or found.skipped or found.note:
                if title != found.lab:
                    title = found.lab
                    print(f"{find(title).number:02} {title}")
                print(render_one(found, self.language), flush=True)
            if not found.ok:
                if found.lab in self.progress.passed:
                    self.progress.passed.remove(found.lab)
                return found
        return None

    def _passed(self, lab: Lab) -> None:
        print(self.say("passed", number=lab.number, name=lab.name), flush=True)
        if lab.name not in self.progress.passed:
            self.progress.passed.append(lab.name)

    def _keep(self) -> None:
        try:
            self.progress.write()
        except OSError as error:
            self.refuse("cannot-write", folder=self.folder, reason=error.strerror or str(error))

    def hint(self, name: str) -> int:
        """Show the next hint of a lab; after the last, the last again."""
        lab = self.find(name)
        if isinstance(lab, int):
            return lab
        hints = page(self.language, lab)[2]
        shown = min(self.progress.hints.get(lab.name, 0), len(hints) - 1)
        print(
            f"{lab.number:02} {lab.name}, {self.say('hint', number=shown + 1, total=len(hints))}\n\n{hints[shown]}\n"
        )
        last = shown + 1 == len(hints)
        print(self.say("no-more-hints" if last else "more-hints", lab=lab.name))
        self.progress.hints[lab.name] = shown + 1
        if self.exists:
            self._keep()
        return 0

    def solution(self, name: str) -> int:
        """Show the course's own lines."""
        lab = self.find(name)
        if isinstance(lab, int):
            return lab
        print(f"# {self.say('solution', number=lab.number, name=lab.name)}\n\n{solution(lab)}")
        return 0


def _usual_folder() -> Path:
    """The folder one stands in, if it is one of the course; else the one that start makes."""
    here = Path()
    return here if (here / PROGRESS).exists() and (here / FILES[0]).exists() else FOLDER


def learn(chosen: Any) -> int:
    """Do what the command line says."""
    if chosen.lang is not None and chosen.lang not in LANGUAGES:
        problem = word("en", "language", asked=chosen.lang, known=", ".join(LANGUAGES))
        print(f"minitorch learn: {problem}", file=sys.stderr)
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows no ✓ or Σ shows the rest
    course = Learn(chosen.place or chosen.folder, chosen.lang)
    try:
        if chosen.action == "start":
            return course.start()
        if chosen.action == "check":
            return course.check(chosen.lab, chosen.seconds)
        if chosen.action == "hint":
            return course.hint(chosen.lab)
        if chosen.action == "solution":
            return course.solution(chosen.lab)
        return course.list()
    except KeyboardInterrupt:
        print(course.say("interrupted"), file=sys.stderr)
        return 130
