"""The course: an engine in one file, labs that check a learner's own, and a backward pass to step through.

`minitorch learn` is its command. `check(module)` checks an engine of yours in this process.
"""

from __future__ import annotations

from minitorch.course.check import check
from minitorch.course.findings import Result
from minitorch.course.report import Report

__all__ = ["Report", "Result", "check"]
