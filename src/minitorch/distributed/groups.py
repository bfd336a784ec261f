"""Process groups: which ranks talk to each other. Enters: ranks. Leaves: groups, and who this process is in them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from minitorch.distributed import waiting
from minitorch.distributed.errors import MISSING
from minitorch.distributed.waiting import Call
from minitorch.distributed.world import World, begin, from_environment, is_available, is_launched

DEFAULT_TIMEOUT = timedelta(minutes=30)
default_pg_timeout = DEFAULT_TIMEOUT


class ProcessGroup:
    """Some of the ranks, with a communicator of their own. ranks: their numbers in the world, in the group's order."""

    def __init__(
        self, world: World, communicator: Any, ranks: Sequence[int], name: str, timeout: float
    ) -> None:
        self.world = world
        self.communicator = communicator
        self.checker = communicator.Dup()  # for what is agreed on before a collective (checks.py)
        self.ranks = list(ranks)
        self.group_name = name
        self.timeout = timeout
        self.number = 0  # collectives so far
        self._rank: int = communicator.Get_rank()

    def rank(self) -> int:
        """Return this process's number in the group."""
        return self._rank

    def size(self) -> int:
        """Return how many ranks there are."""
        return len(self.ranks)

    def name(self) -> str:
        """Return the backend's name."""
        return "mpi"

    def call(self, kind: str) -> Call:
        """Return the next collective of this group, as it is told to others."""
        self.number += 1
        others = [r for r in self.ranks if r != self.world.rank]
        return Call(kind, self.group_name, self.number, others, self.timeout)

    def wait(self, request: Any, kind: str) -> None:
        """Wait for a request that belongs to the group itself."""
        waiting.wait(self.world, request, self.call(kind))

    def __repr__(self) -> str:
        return f"ProcessGroup({self.group_name}, rank {self._rank} of {self.size()})"


class GroupMember:
    """What stands for a group that this process is not a member of, and for the one of all ranks."""

    WORLD: Any = None
    NON_GROUP_MEMBER = object()


class _DefaultGroup(type):
    @property
    def WORLD(cls) -> Any:
        """The group of all ranks, or None before init_process_group."""
        return GroupMember.WORLD


class group(metaclass=_DefaultGroup):
    """PyTorch's address of the group of all ranks: group.WORLD."""


class Backend(str):
    """A backend by name. There is one, MPI; the other names are PyTorch's, and are taken for it."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"
    backend_list = ("undefined", "gloo", "nccl", "xccl", "ucc", "mpi")


_ALSO_MPI = ("gloo", "nccl", "ucc", "xccl")
_made: list[ProcessGroup] = []


def is_initialized() -> bool:
    """Tell whether init_process_group was called."""
    return GroupMember.WORLD is not None


def is_mpi_available() -> bool:
    """Tell whether there is an MPI to run on."""
    return is_available()


def is_gloo_available() -> bool:
    """Tell whether "gloo" may be asked for: it is served by MPI."""
    return is_available()


def is_nccl_available() -> bool:
    """Tell whether there is NCCL: there is not. Asked for all the same, it is served by MPI."""
    return False


def is_ucc_available() -> bool:
    """Tell whether there is UCC: there is not."""
    return False


def is_backend_available(backend: str) -> bool:
    """Tell whether a backend may be asked for."""
    return is_available() and _plain_name(backend) in ("mpi", "gloo")


def is_torchelastic_launched() -> bool:
    """Tell whether torchrun has started this process: mpirun has."""
    return False


def _plain_name(backend: Any) -> str:
    # "cpu:gloo,cuda:nccl" names one for each kind of device.
    return str(backend).lower().split(",")[0].rpartition(":")[2]


def init_process_group(
    backend: Any = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Begin to talk to the other ranks: those that the launcher (mpirun, srun) has started with this one.

    backend: "mpi"; "gloo" and "nccl" are taken for it. init_method, store: not needed, since MPI knows its ranks.
    world_size, rank: if given, they must be what the launcher says. timeout: how long a collective is waited for.
    """
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    wanted = _plain_name("mpi" if backend is None else backend)
    if wanted not in ("mpi", *_ALSO_MPI):
        raise ValueError(f"init_process_group: there is one backend, 'mpi', not {backend!r}")
    if not is_available():
        raise RuntimeError(MISSING)
    if store is not None:
        raise ValueError("init_process_group: MPI needs no store; leave store away, and start with mpirun")
    world = begin()
    for name, given, found in (("world_size", world_size, world.size), ("rank", rank, world.rank)):
        said = from_environment("WORLD_SIZE" if name == "world_size" else "RANK")
        expected = given if given is not None and given >= 0 else said
        if expected is not None and expected != found and (given >= 0 or not is_launched()):
            raise ValueError(
                f"init_process_group: {name} is said to be {expected}, but MPI has started {world.size} rank(s) and "
                f"this is rank {world.rank}; start the program with: mpirun -n {max(world_size, 2)} python script.py "
                "(not by torchrun, and not by multiprocessing)"
            )
    if wanted in _ALSO_MPI and world.rank == 0:
        warnings.warn(
            f"init_process_group: {wanted!r} is served by MPI here; write backend='mpi'", stacklevel=2
        )
    world.while_leaving = lambda: waiting.answer_at_the_end(world)
    seconds = (timeout or DEFAULT_TIMEOUT).total_seconds()
    GroupMember.WORLD = ProcessGroup(
        world, world.communicator, range(world.size), "the default group", seconds
    )
    _made.append(GroupMember.WORLD)
    os.environ.setdefault("RANK", str(world.rank))
    os.environ.setdefault("WORLD_SIZE", str(world.size))


def destroy_process_group(group: Any = None) -> None:
    """Forget a group; without one, all of them."""
    if group is None or group is GroupMember.WORLD:
        if not is_initialized():
            raise ValueError(
                "destroy_process_group: there is no process group; call init_process_group first"
            )
        GroupMember.WORLD = None
        _made.clear()
    elif group in _made:
        _made.remove(group)


def default_group() -> ProcessGroup:
    """Return the group of all ranks."""
    if GroupMember.WORLD is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call init_process_group."
        )
    return GroupMember.WORLD


def chosen(group: Any) -> ProcessGroup | None:
    """Return the group that an argument means; None if this process is not a member of it."""
    if group is None:
        return default_group()
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"expected a process group (new_group gives one), got {type(group).__name__}")
    return group


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: Any = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """Make a group of some ranks; all ranks must call this, members or not."""
    whole = default_group()
    members = sorted(set(range(whole.size()) if ranks is None else ranks))
    if any(not 0 <= r < whole.size() for r in members) or not members:
        raise ValueError(f"new_group: ranks {ranks} are not all among the {whole.size()} ranks there are")
    whole.wait(whole.communicator.Ibarrier(), f"new_group of ranks {members}")
    mine = whole.rank() in members
    color = 0 if mine else whole.world.mpi.UNDEFINED
    made = whole.communicator.Split(color, whole.rank())
    if not mine:
        return GroupMember.NON_GROUP_MEMBER
    seconds = whole.timeout if timeout is None else timeout.total_seconds()
    name = group_desc or f"the group of ranks {members}"
    group = ProcessGroup(whole.world, made, members, name, seconds)
    _made.append(group)
    return group


def new_subgroups(
    group_size: int | None = None, group: Any = None, timeout: timedelta | None = None, **options: Any
) -> tuple[Any, list[Any]]:
    """Divide all ranks into groups of a size; return this rank's, and all of them."""
    size = default_group().size()
    group_size = size if group_size is None else group_size
    if group_size <= 0 or size % group_size:
        raise ValueError(f"new_subgroups: {size} ranks cannot be divided into groups of {group_size}")
    made = [new_group(range(i, i + group_size), timeout) for i in range(0, size, group_size)]
    return made[default_group().rank() // group_size], made


def get_rank(group: Any = None) -> int:
    """Return this process's number in a group, -1 if it is not a member."""
    found = chosen(group)
    return -1 if found is None else found.rank()


def get_world_size(group: Any = None) -> int:
    """Return how many ranks a group has, -1 if this process is not a member."""
    found = chosen(group)
    return -1 if found is None else found.size()


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return this process's number among those of its machine."""
    found = from_environment("LOCAL_RANK")
    if found is None:
        found = fallback_rank
    if found is None:
        raise RuntimeError(
            "get_node_local_rank: LOCAL_RANK is not set; start with mpirun, or pass fallback_rank"
        )
    return found


def get_backend(group: Any = None) -> str:
    """Return the name of a group's backend."""
    if chosen(group) is None:
        raise ValueError("get_backend: this process is not a member of the group")
    return Backend.MPI


def get_process_group_ranks(group: Any = None) -> list[int]:
    """Return the ranks of a group, as numbers in the world."""
    found = chosen(group)
    return [] if found is None else list(found.ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """Return the number in the world of a group's rank."""
    found = chosen(group)
    if found is None or not 0 <= group_rank < found.size():
        raise ValueError(f"get_global_rank: {group} has no rank {group_rank}")
    return found.ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """Return the number in a group of a rank of the world."""
    found = chosen(group)
    if found is None or global_rank not in found.ranks:
        raise ValueError(f"get_group_rank: rank {global_rank} is not a member of {group}")
    return found.ranks.index(global_rank)
