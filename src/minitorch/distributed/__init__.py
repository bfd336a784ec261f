"""torch.distributed on MPI: process groups, collectives, messages. Enters: Tensors of this rank. Leaves: the others'.

Ranks are processes that mpirun (or srun) has started: `mpirun -n 4 python script.py`. The files, in the order data
walks: world (MPI begun and left; what happens when a rank fails), groups (which ranks talk to each other), checks (do
they mean the same?), transport (arrays through MPI), exchange (one collective on arrays, begun and waited for), waiting
(but not forever), work (a handle), collectives (on Tensors), objects (on anything that can be pickled), nn (with
gradients), buckets (gradients of many parameters, for DistributedDataParallel), shards (a batch divided among ranks).
"""

from typing import Any as _Any

# ruff: noqa: F401, F403
from minitorch.distributed import nn
from minitorch.distributed.checks import (
    DebugLevel,
    get_debug_level,
    set_debug_level,
    set_debug_level_from_env,
)
from minitorch.distributed.collectives import *
from minitorch.distributed.collectives import _all_gather_base, _reduce_scatter_base
from minitorch.distributed.errors import DistBackendError, DistError, DistNetworkError, DistStoreError
from minitorch.distributed.groups import (
    Backend,
    GroupMember,
    ProcessGroup,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    new_group,
    new_subgroups,
)
from minitorch.distributed.objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from minitorch.distributed.reduce_op import ReduceOp, reduce_op
from minitorch.distributed.work import Future, Work
from minitorch.distributed.world import is_available, offer_environment

offer_environment()


def __getattr__(name: str) -> _Any:
    if name in ("DeviceMesh", "init_device_mesh"):
        raise AttributeError(
            f"torch.distributed has no {name}: ranks are in a row; new_group makes groups of them"
        )
    raise AttributeError(f"module 'minitorch.distributed' has no attribute {name!r}")
