"""torch.multiprocessing: Python's own, with `spawn`. Enters: a function. Leaves: processes that ran it.

Tensors are pickled from one process to another, not shared; the torch face is there in each.
"""

# ruff: noqa: F403
from __future__ import annotations

import multiprocessing
from multiprocessing import *
from typing import Any

_shared = ["file_descriptor"]


def get_sharing_strategy() -> str:
    """Return what set_sharing_strategy was given."""
    return _shared[0]


def get_all_sharing_strategies() -> set[str]:
    """Return the names PyTorch has."""
    return {"file_descriptor", "file_system"}


def set_sharing_strategy(new_strategy: str) -> None:
    """Remember a name: memory is not shared."""
    _shared[0] = new_strategy


class ProcessRaisedException(Exception):
    """A process of `spawn` ended with an error."""


class ProcessExitedException(Exception):
    """A process of `spawn` ended by itself."""


class SpawnContext:
    """Processes that were started; `join` waits for them."""

    def __init__(self, processes: Any) -> None:
        self.processes = processes

    def pids(self) -> Any:
        """Return their numbers."""
        return [each.pid for each in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until all have ended; an error if one failed."""
        for i, process in enumerate(self.processes):
            process.join(timeout)
            if process.exitcode is None:
                return False
            if process.exitcode:
                for other in self.processes:
                    if other.is_alive():
                        other.terminate()
                raise ProcessRaisedException(f"spawn: process {i} ended with exit code {process.exitcode}")
        return True


ProcessContext = SpawnContext


def start_processes(
    fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"
) -> Any:  # fmt: skip
    """Run fn(i, *args) in nprocs processes, and wait for them (or return what does)."""
    context = multiprocessing.get_context(start_method)
    processes = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]  # type: ignore[attr-defined]
    for each in processes:
        each.start()
    started = SpawnContext(processes)
    if not join:
        return started
    started.join()
    return None


def spawn(fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False) -> Any:
    """Run fn(i, *args) in nprocs processes that begin anew."""
    return start_processes(fn, args, nprocs, join, daemon)
