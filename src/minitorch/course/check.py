"""Running checks. Enters: a learner's modules and the labs. Leaves: results, one after the other, as they are found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from minitorch.course import tensor as reference
from minitorch.course.examine import Engine
from minitorch.course.findings import Mistake, Result, Skipped, describe, where
from minitorch.course.labs import ENGINE, LABS, Lab, find
from minitorch.course.practice_checks import Practice
from minitorch.course.report import Report


def check(module: ModuleType | type | Any, *labs: str, practice: Any = None, language: str = "en") -> Report:
    """Check an engine of yours in this process: a module, or a class with the fields data, grad, _prev, _op, _backward.

    labs: names of labs, all those of the engine if none is given. practice: your second file, for the labs that are
    written there. An endless loop is not interrupted here; `minitorch learn check` does that.

    >>> from minitorch.course import tensor
    >>> check(tensor, "softmax", "matmul").ok
    True
    """
    chosen = [find(name) for name in labs] or [
        lab for lab in LABS if lab.file == ENGINE or practice is not None
    ]
    modules = {ENGINE: module, "practice.py": practice}
    return Report(tuple(result for lab in chosen for result in run(lab, modules)), language)


def run(
    lab: Lab, modules: dict[str, Any], before: Callable[[str], None] = lambda name: None
) -> Iterator[Result]:
    """Run a lab's checks; stop at the first mistake, since the later ones build on it.

    before: is told the name of each check as it begins.
    """
    subject: Any
    try:
        subject = _subject(lab, modules)
    except Mistake as mistake:
        yield Result(lab.name, lab.checks[0][0], mistake.name, mistake.facts)
        return
    for name, function in lab.checks:
        before(name)
        result = _run_one(lab, name, function, subject, modules[lab.file])
        yield result
        if not result.ok:
            return


def _subject(lab: Lab, modules: dict[str, Any]) -> Any:
    if lab.file == ENGINE:
        return Engine(modules[ENGINE])
    if modules[lab.file] is None:
        raise Mistake("file-missing", what=lab.file)
    engine = modules[ENGINE]
    return Practice(modules[lab.file], engine if engine is not None else reference)


def _run_one(lab: Lab, name: str, function: Callable[[Any], Any], subject: Any, module: Any) -> Result:
    try:
        with np.errstate(all="ignore"):
            note = function(subject)
    except Mistake as mistake:
        return Result(lab.name, name, mistake.name, mistake.facts)
    except Skipped as skipped:
        return Result(lab.name, name, skipped=skipped.missing)
    except Exception as error:  # theirs, in a place where no check expects one
        found = (subject if isinstance(subject, Engine) else Engine(reference)).crash(
            "unexpected-error", error
        )
        facts = {**found.facts, "line": where(error, module)} if "line" in found.facts else found.facts
        return Result(lab.name, name, found.name, facts)
    return Result(lab.name, name, note=note or "")


def load(path: str, name: str) -> ModuleType:
    """Import a learner's file; what goes wrong is a Mistake."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError as error:
        raise Mistake("file-missing", what=path) from error
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake("file-unreadable", what=path, error=describe(error)) from error
    module = ModuleType(name)
    module.__file__ = path
    try:
        code = compile(text, path, "exec")
    except (SyntaxError, ValueError) as error:
        line = f"{name}.py, {getattr(error, 'lineno', '?')}: {(getattr(error, 'text', '') or '').strip()}"
        raise Mistake("syntax-error", error=getattr(error, "msg", str(error)), line=line) from error
    sys.modules[name] = module  # so that practice.py can say `from tensor import Tensor`
    try:
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        raise Mistake("import-crash", error=describe(error), line=where(error, module)) from error
    return module
