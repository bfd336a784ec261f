"""Freed arrays' memory is used again: counted in page faults, not in seconds."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc's")

FAULTS = """
import resource
import minitorch
x = minitorch.ones(100_000, requires_grad=True)
def step():
    y = x
    for _ in range(10):
        y = y * x
    y.sum().backward()
    x.grad = None
for _ in range(5):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, minitorch.engine.memory.KEEPS_FREED)
"""


def faults(**settings: str) -> tuple[int, bool]:
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("MALLOC_", "GLIBC_"))
    }
    environment.pop("MINITORCH_MALLOC", None)
    done = subprocess.run(
        [sys.executable, "-c", FAULTS],
        env={**environment, **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    number, kept = done.stdout.split()
    return int(number), kept == "True"


@glibc
def test_steps_on_mid_size_arrays_ask_the_system_for_no_new_pages() -> None:
    number, kept = faults()
    assert kept
    # 20 steps touch 20 · 10 · 98 pages at least; kept memory is not asked for again.
    assert number < 2_000


@pytest.mark.slow
@glibc
@pytest.mark.parametrize(
    "setting",
    [
        {"MINITORCH_MALLOC": "system"},
        {"MALLOC_TRIM_THRESHOLD_": "131072"},
        {"MALLOC_MMAP_THRESHOLD_": "131072"},
        {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"},
    ],
)
def test_the_environment_can_leave_the_c_library_alone(setting: dict[str, str]) -> None:
    number, kept = faults(**setting)
    assert not kept
    assert number > 10_000  # the same program, as glibc does it
