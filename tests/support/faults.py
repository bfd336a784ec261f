"""Ranks killed at random moments of a training run. `python -m faults --count 50` (with PYTHONPATH=tests/support).

Each time: all ranks end within 10 s, a message names the one that was killed, no process stays, the newest checkpoint is
whole, and what was trained goes on from it, at most an epoch behind, to the very weights of a run that nobody disturbed.
"""

import argparse
import functools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import minitorch

SOURCE = Path(__file__).parents[2] / "src"
EXPERIMENT, EPOCHS, RANKS = "grammar-onehot", 12, 3


def command(out, ranks, epochs=EPOCHS):
    words = ["train", EXPERIMENT, "--epochs", str(epochs), "--ranks", str(ranks), "--out", str(out)]
    return [sys.executable, "-m", "minitorch", *words]


def surroundings():
    paths = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}


def checkpoint(out):
    return minitorch.load(out / EXPERIMENT / "checkpoint.npz")


@functools.cache
def undisturbed():
    """Return the checkpoint of a run by one process that nobody disturbed."""
    out = Path(tempfile.mkdtemp())
    alone = [
        sys.executable,
        "-m",
        "minitorch",
        "train",
        EXPERIMENT,
        "--epochs",
        str(EPOCHS),
        "--out",
        str(out),
    ]
    subprocess.run(alone, env=surroundings(), check=True, capture_output=True, timeout=120)
    return checkpoint(out)


def pids(out):
    """Return the process of each rank, from its log."""
    found = {}
    for log in (out / EXPERIMENT / "ranks").glob("rank-*.log"):
        said = re.findall(r"process (\d+)", log.read_text())
        if said:
            found[int(log.stem.partition("-")[2])] = int(said[-1])
    return found


def is_running(pid):
    """Tell whether a process is there, and is not one that has ended and waits to be asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def left_over(processes, until):
    """Return those processes that are still running at a time (by the monotonic clock)."""
    while (left := [pid for pid in processes if is_running(pid)]) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def train_and_kill(out, seed):
    """Train, kill a rank at a random moment, and go on; return what went wrong, or ''."""
    draws = random.Random(seed)
    how = draws.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
    process = subprocess.Popen(
        command(out, RANKS), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=surroundings()
    )
    deadline = time.monotonic() + 60
    while len(pids(out)) < RANKS and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(draws.uniform(0, 1.5))
    running = pids(out)
    rank = draws.choice(sorted(running))
    done = process.poll() is not None
    if not done:
        try:
            os.kill(running[rank], how)
        except ProcessLookupError:  # the rank has come to its end; mpirun is about to
            done = True
    killed = time.monotonic()
    said, _ = process.communicate(timeout=60)
    took = time.monotonic() - killed
    over = "epoch 12/12" in said or done  # too late: all was trained already
    if took > 10:
        return f"it took {took:.1f} s to end:\n{said}"
    if not over and f"rank {rank} was ended by signal {how.value}" not in said:
        return f"rank {rank} is not named:\n{said}"
    if left := left_over(running.values(), killed + 10):
        return f"processes {left} are still there"
    reached = re.findall(r"epoch (\d+)/", said)
    kept = checkpoint(out)
    if kept["epoch"] < int(reached[-1] if reached else 0):
        return f"epoch {reached[-1]} was done, the checkpoint is of {kept['epoch']}"
    again = subprocess.run(
        command(out, draws.choice([1, 2])), env=surroundings(), capture_output=True, text=True, timeout=120
    )
    if again.returncode:
        return f"it does not go on:\n{again.stdout}{again.stderr}"
    lines = (out / EXPERIMENT / "metrics.jsonl").read_text().splitlines()
    if [json.loads(line)["epoch"] for line in lines] != list(range(1, EPOCHS + 1)):
        return "the metrics are not one line for each epoch"
    whole, now = undisturbed(), checkpoint(out)
    apart = max(
        np.abs(a.data - b.data).max()
        for a, b in zip(whole["model"].values(), now["model"].values(), strict=True)
    )
    return "" if apart < 1e-4 else f"the weights are {apart} apart from an undisturbed run's"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    failed = 0
    for seed in range(parser.parse_args().count):
        with tempfile.TemporaryDirectory() as folder:
            problem = train_and_kill(Path(folder), seed)
        print(seed, problem or "as it should be", flush=True)
        failed += bool(problem)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
