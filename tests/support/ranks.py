"""Starting ranks from a test: `run_ranks(3, "rank_collectives.py")` runs a program of this folder by mpirun."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from minitorch.app.ranks import command, mpirun

SUPPORT = Path(__file__).parent
SOURCE = SUPPORT.parents[1] / "src"
SECONDS = 60  # the limit of every start: what hangs fails


def start(count, *arguments, **options):
    """Start ranks, each of them Python with some arguments."""
    pytest.importorskip("mpi4py")
    if mpirun() is None:
        pytest.skip("there is no mpirun")
    paths = os.pathsep.join([str(SOURCE), str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])])
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    env = {**os.environ, **threads, "PYTHONPATH": paths, **options.pop("env", {})}
    words = command(count, [str(a) for a in arguments])
    if "--oversubscribe" not in words:
        words.insert(1, "--oversubscribe")  # other tests run beside this one
    return subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=env,
        **options,
    )


def finish(process, seconds=SECONDS):
    """Wait for ranks that were started; return their exit code, what they said, and how long it took."""
    began = time.monotonic()
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
        pytest.fail(f"not done after {seconds} s:\n{said}")
    return process.returncode, said, time.monotonic() - began


def run_ranks(count, program, *arguments, **options):
    """Run a program of this folder by some ranks; it must succeed. Return what they said."""
    code, said, _ = finish(start(count, SUPPORT / program, *arguments, **options))
    assert code == 0, said
    return said
