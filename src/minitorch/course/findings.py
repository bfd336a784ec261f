"""What a check finds. Enters: a learner's result beside the right one. Leaves: a `Mistake` by name, results.

A mistake has a name ("missing-accumulation"), by which text/LANGUAGE/mistakes.toml explains it, and facts: the program,
the smallest input on which it shows, what was expected and what came.
"""

from __future__ import annotations

import traceback
from dataclasses import asdict, dataclass, field
from types import ModuleType
from typing import Any

import numpy as np


class Mistake(Exception):
    """A mistake, by its name, with what shows it."""

    def __init__(self, name: str, **facts: Any) -> None:
        super().__init__(name)
        self.name = name
        self.facts = {key: value if isinstance(value, str) else show(value) for key, value in facts.items()}


class Skipped(Exception):
    """A check that cannot be made here, and what is missing."""

    def __init__(self, missing: str) -> None:
        super().__init__(missing)
        self.missing = missing


@dataclass(frozen=True)
class Result:
    """What one check found: nothing (`mistake` is empty), or a mistake with its facts.

    skipped: what it would have needed. note: the name of advice on something that is right, and could be better.
    """

    lab: str
    check: str
    mistake: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    skipped: str = ""
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.mistake

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)


def show(value: Any) -> str:
    """Return a value as a learner should see it: short numbers, the dtype where it is not the usual one.

    >>> show(np.array([1.0, 2.5])), show(np.float32(0.1)), show(None)
    ('[1.0, 2.5]', '0.1  (float32)', 'None')
    """
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        text = np.array2string(array, precision=5, separator=", ", threshold=60, floatmode="maxprec_equal")
        text = " ".join(text.split()).replace("[ ", "[")
        other = "" if array.dtype in (np.float64, np.int64, np.bool_) else f"  ({array.dtype})"
        return text + (other or ("" if array.size else f"  (shape {array.shape})"))
    return repr(value)


def where(error: BaseException, module: ModuleType | Any) -> str:
    """Return the last line of the learner's file that an error passed through, as "tensor.py, line 12: text"."""
    file = getattr(module, "__file__", None)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if file is not None and f.filename == file]
    if not frames:
        return ""
    last = frames[-1]
    name = last.filename.replace("\\", "/").rpartition("/")[2]
    return f"{name}, {last.lineno}: {last.line}"


def describe(error: BaseException) -> str:
    """Return an error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
