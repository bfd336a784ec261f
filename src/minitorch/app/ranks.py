"""Training by several processes. Enters: how many, and what to train. Leaves: the same training as by one.

`launch` starts the ranks by mpirun, in the process that the person has started. In each rank a `Team` divides every
batch, weighs what each part gives by its samples, and adds numbers up: so the batch as a whole, the losses and the
weights are one rank's, whatever the number of ranks, and so is the checkpoint.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

import minitorch
from minitorch import distributed, nn
from minitorch.app.experiment import Batches, Outcome
from minitorch.distributed.shards import Shard, cut, drawn_together, rows_of, shard_of
from minitorch.distributed.world import fail, is_launched
from minitorch.utils.data import DataLoader, Sampler

LOGS = "ranks"  # the folder of the ranks' own logs


class Alone:
    """One process, as if there were no others."""

    rank, size = 0, 1

    @property
    def leads(self) -> bool:
        """Whether this one writes files and talks to the person."""
        return self.rank == 0

    def wrapped(self, model: nn.Module) -> nn.Module:
        """Return the model that is trained."""
        return model

    def batches(self, batches: Batches) -> Iterator[tuple[Any, Shard | None]]:
        """Yield this rank's part of each batch."""
        for batch in batches:
            yield batch, None

    def shared(self, thing: Any) -> Any:
        """Return what rank 0 has."""
        return thing

    def drawing(self, shard: Shard | None) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which a step on a part of a batch runs."""
        return contextlib.nullcontext()

    def after(self, shard: Shard | None) -> None:
        """Do what has to be done after a step."""

    def log(self, text: str) -> None:
        """Write a line to this rank's own log."""

    def logs_to(self, folder: Path) -> None:
        """Say where the logs are."""


class Team(Alone):
    """This process among others that train the same model."""

    def __init__(self) -> None:
        distributed.init_process_group("mpi")
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()
        self._log: IO[str] | None = None

    def wrapped(self, model: nn.Module) -> nn.Module:
        """Return the model with gradients that are averaged, and batch norm over all ranks' parts."""
        return nn.parallel.DistributedDataParallel(
            nn.SyncBatchNorm.convert_sync_batchnorm(model), broadcast_buffers=False
        )

    def batches(self, batches: Batches) -> Iterator[tuple[Any, Shard | None]]:
        """Yield this rank's part of each batch; all ranks go through the same batches in the same order."""
        if isinstance(batches, DataLoader) and batches.batch_sampler is not None:
            sampler = _Parts(batches.batch_sampler, self.rank, self.size)
            for batch in _loading(batches, sampler):
                shard = sampler.shards.popleft()
                yield (batch if shard.mine else cut(batch, 0, 0)), shard
            return
        for batch in batches:
            shard = shard_of(rows_of(batch), self.rank, self.size)
            yield cut(batch, shard.first, shard.first + shard.mine), shard

    def shared(self, thing: Any) -> Any:
        """Return what rank 0 has."""
        things = [thing]
        distributed.broadcast_object_list(things, src=0)
        return things[0]

    def drawing(self, shard: Shard | None) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which dropout draws what one rank would draw."""
        together = contextlib.ExitStack()
        if shard is not None:
            together.enter_context(drawn_together(shard))
            if not shard.mine:  # the mean of no samples is nan, and counts nothing
                together.enter_context(np.errstate(invalid="ignore"))
        return together

    def after(self, shard: Shard | None) -> None:
        """Bring ranks without samples, which had nothing to draw for, to where the others' random numbers are."""
        if shard is not None and shard.total < self.size:
            minitorch.set_rng_state(self.shared(minitorch.get_rng_state()))

    def logs_to(self, folder: Path) -> None:
        """Open this rank's log."""
        (folder / LOGS).mkdir(parents=True, exist_ok=True)
        self._log = open(folder / LOGS / f"rank-{self.rank}.log", "a", encoding="utf-8")  # noqa: SIM115
        self.log(f"rank {self.rank} of {self.size} on {os.uname().nodename}, process {os.getpid()}")

    def log(self, text: str) -> None:
        """Write a line to this rank's own log."""
        if self._log is not None:
            print(time.strftime("%Y-%m-%d %H:%M:%S"), text, file=self._log, flush=True)

    def fails(self, error: BaseException) -> None:
        """Write an error to this rank's log, print it, and end all ranks."""
        self.log("".join(traceback.format_exception(error)).rstrip())
        fail(distributed.group.WORLD.world, error)


def weighed(outcome: Outcome) -> tuple[Any, Outcome]:
    """Return what to differentiate on this rank, and the outcome of the whole batch.

    With n samples here and N in all, the mean over all samples is Σ n/N · (mean here). Gradients are averaged over the
    ranks, so each counts its loss as ranks · n/N · mean; a rank without samples has no mean, and counts nothing.
    """
    loss, here = outcome.loss, minitorch.as_tensor(outcome.seen).to(minitorch.float64)
    mean = minitorch.where(here > 0, loss.detach().to(minitorch.float64), 0.0)
    sums = minitorch.stack([mean * here, minitorch.as_tensor(outcome.right).to(minitorch.float64), here])
    distributed.all_reduce(sums)
    total, right, seen = sums.unbind(0)
    share = (distributed.get_world_size() * here / seen).to(loss.dtype)
    return loss * share, Outcome((total / seen).to(loss.dtype), right, seen)


class _Parts(Sampler[list[int]]):
    """A rank's part of each batch of indices, and which part it is; where it is none, one index, to be cut away."""

    def __init__(self, batches: Any, rank: int, size: int) -> None:
        self.inner = batches
        self.rank, self.size = rank, size
        self.shards: deque[Shard] = deque()

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.inner:
            shard = shard_of(len(batch), self.rank, self.size)
            self.shards.append(shard)
            yield batch[shard.first : shard.first + shard.mine] or batch[:1]

    def __len__(self) -> int:
        return len(self.inner)


def _loading(loader: DataLoader, sampler: Sampler[list[int]]) -> DataLoader:
    """Return a loader of the same data by another order."""
    return DataLoader(
        loader.dataset,
        batch_sampler=sampler,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=loader.generator,
        prefetch_factor=loader.prefetch_factor if loader.num_workers else None,
    )


def team() -> Alone:
    """Return who trains: this process alone, or among those that mpirun has started with it."""
    if not is_launched():
        return Alone()
    made = Team()
    return made if made.size > 1 else Alone()


# --- starting them ----------------------------------------------------------------------------------------------------


def mpirun() -> str | None:
    """Return where mpirun is: beside this Python, or wherever it is found."""
    beside = Path(sys.executable).parent / "mpirun"
    return str(beside) if beside.exists() else shutil.which("mpirun")


def command(ranks: int, arguments: Sequence[str], hostfile: Path | None = None) -> list[str]:
    """Return the command that starts ranks of this Python with some arguments."""
    found = mpirun()
    assert found is not None
    options = ["-n", str(ranks), "--bind-to", "none"]
    if hostfile is not None:
        options += ["--hostfile", str(hostfile)]
    elif ranks > (os.cpu_count() or 1):
        options += ["--oversubscribe"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options += ["--allow-run-as-root"]  # in a container there often is nobody else
    return [found, *options, sys.executable, *arguments]


def surroundings(ranks: int) -> dict[str, str]:
    """Return the environment for ranks of one machine: its cores are divided among them."""
    threads = str(max(1, (os.cpu_count() or 1) // ranks))
    return {**dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads), **os.environ}


def launch(ranks: int, arguments: Sequence[str], hostfile: Path | None = None) -> tuple[int, str]:
    """Start ranks and wait for them. Return the exit code, and in words which rank has ended the others, if any."""
    process = subprocess.Popen(
        command(ranks, arguments, hostfile),
        stderr=subprocess.PIPE,
        env=surroundings(ranks),
        text=True,
        errors="replace",
        preexec_fn=_ends_with_parent,
    )
    heard: list[str] = []
    listener = threading.Thread(target=_pass_on, args=(process.stderr, heard), daemon=True)
    listener.start()
    try:
        code = process.wait()
    except BaseException:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
        raise
    listener.join(10)
    return code, who_failed("".join(heard))


def _pass_on(stream: Any, heard: list[str]) -> None:
    for line in stream:
        heard.append(line)
        sys.stderr.write(line)
        sys.stderr.flush()


def who_failed(text: str) -> str:
    """Say which rank has ended a job, from what it and mpirun have said.

    >>> who_failed("...\\nrank 2 of 4 failed: ValueError: no\\nall other ranks are ended\\n")
    'rank 2 failed: ValueError: no'
    >>> who_failed("prterun noticed that process rank 1 with PID 29891 on node vm exited on\\nsignal 9 (Killed).\\n")
    'rank 1 was ended by signal 9 (Killed)'
    """
    said = re.search(r"^rank (\d+) of \d+ failed: (.*)$", text, re.MULTILINE)
    if said:
        return f"rank {said[1]} failed: {said[2]}"
    words = " ".join(text.split())
    killed = re.search(r"process rank (\d+) with PID \d+ on node \S+ exited on signal (\d+ \([^)]*\))", words)
    if killed:
        return f"rank {killed[1]} was ended by signal {killed[2]}"
    left = re.search(r"process to do so was: Process name: \[[^,]*,(\d+)\] Exit code: (\d+)", words)
    return f"rank {left[1]} ended with exit code {left[2]}" if left else ""


def _ends_with_parent() -> None:
    """Ask Linux to end mpirun, and with it all ranks, when the process that started it is killed."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGTERM)
