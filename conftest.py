"""What doctests may say without importing it, a quick choice of the tests, what no test may leave behind for the next,
and what the suite says at its end.
"""

import gc
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import minitorch
from minitorch.engine import errors, modes
from minitorch.tensor import printing

# Another torch than the one the suite compares with; and a module that has every name one asks for.
collect_ignore = ["src/minitorch/face/site", "src/minitorch/face/names/ops.py"]

# An assert that fails in a helper says as much as one in a test.
pytest.register_assert_rewrite(
    *(file.stem for file in (Path(__file__).parent / "tests/support").glob("*.py"))
)


@pytest.fixture(autouse=True)
def _doctest_names(request: pytest.FixtureRequest, doctest_namespace: dict) -> None:
    """Docstrings are read inside the library: they may say `minitorch` and `np`. A page must import what it uses."""
    doctest_namespace.clear()
    if request.path.suffix == ".py":
        doctest_namespace.update(minitorch=minitorch, np=np)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the choice that `make test-quick` runs."""
    parser.addoption(
        "--quick", action="store_true", help="every twentieth case of each test, and no slow ones"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep of each test its first case and every twentieth after it, unless it is marked as slow."""
    if not config.getoption("--quick"):
        return
    cases: dict[str, int] = {}
    chosen, left = [], []
    for item in items:
        test = item.nodeid.partition("[")[0]
        cases[test] = cases.get(test, 0) + 1
        quick = cases[test] % 20 == 1 and item.get_closest_marker("slow") is None
        (chosen if quick else left).append(item)
    items[:] = chosen
    config.hook.pytest_deselected(items=left)


gc.disable()  # while tests are collected nothing is dropped


def pytest_collection_finish() -> None:
    """Note how the process is before any test."""
    gc.enable()
    _before.update(_settings())


# What a test may change and has to put back: the next one in this process must not depend on it.
_before: dict[str, object] = {}


def _settings() -> dict[str, object]:
    torch = getattr(sys.modules.get("pytorch"), "torch", None)  # (tests/support)
    return {
        "the mode": modes.current()._replace(outer=None),
        "recordings": [each for each in modes.attention if not isinstance(each, str)],
        "default dtype": minitorch.get_default_dtype(),
        "default device": minitorch.get_default_device(),
        "threads": minitorch.get_num_threads(),
        "precision of products": minitorch.get_float32_matmul_precision(),
        "debugging": errors.is_debug(),
        "print options": printing._options,
        "native ops": minitorch.are_native_ops_enabled(),
        "NumPy's errors": np.geterr(),
        "Ctrl-C": signal.getsignal(signal.SIGINT),
        "the collector": gc.isenabled(),
        "the folder": os.getcwd(),
        "PyTorch's mode": torch is None or (torch.is_grad_enabled(), torch.get_default_dtype()),
    }


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item):
    """Name the test that leaves something changed, and not those that fail for it."""
    result = yield
    after = _settings()
    if after != _before:
        changed = [
            f"{name}: {_before[name]} before, {now} after"
            for name, now in after.items()
            if now != _before[name]
        ]
        _before.update(after)
        raise AssertionError(f"{item.nodeid} leaves behind, for the tests after it:\n" + "\n".join(changed))
    return result


@pytest.fixture(autouse=True, scope="module")
def _small_heap() -> None:
    """Spare the collector what earlier files left, and the tests themselves: who calls it would wait for it."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter) -> None:
    """Say how many mistakes were injected on purpose and caught, and what was not compared with PyTorch."""
    reports = [
        r
        for outcome in ("passed", "failed")
        for r in terminalreporter.stats.get(outcome, [])
        if "test_negative_controls" in r.nodeid and "_caught" in r.nodeid
    ]
    if reports:
        noticed = sum(r.passed for r in reports)
        terminalreporter.write_line(f"negative controls: {len(reports)} mistakes injected, {noticed} caught")
    skipped = terminalreporter.stats.get("skipped", [])
    wanting = sum(
        "compares with PyTorch, which is not installed" in str(report.longrepr) for report in skipped
    )
    if wanting:
        terminalreporter.write_line(f"PyTorch is not installed: {wanting} comparisons with it were skipped")
