"""Doctests may say `minitorch` and `np` without importing them."""

import numpy as np
import pytest

import minitorch


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace: dict) -> None:
    doctest_namespace["minitorch"] = minitorch
    doctest_namespace["np"] = np


def pytest_terminal_summary(terminalreporter) -> None:
    """Say how many mistakes were injected on purpose, and caught."""
    reports = [
        r
        for outcome in ("passed", "failed")
        for r in terminalreporter.stats.get(outcome, [])
        if "test_negative_controls" in r.nodeid and "_caught" in r.nodeid
    ]
    if reports:
        noticed = sum(r.passed for r in reports)
        terminalreporter.write_line(f"negative controls: {len(reports)} mistakes injected, {noticed} caught")
