"""Collectives: on every dtype, by ranks of their own; and what is said where they cannot be."""

import subprocess
import sys

import pytest

import minitorch
import minitorch.distributed as dist
from minitorch.distributed import groups, shards, world
from pytorch import torch
from ranks import run_ranks


def test_every_collective_on_every_dtype():
    said = run_ranks(3, "rank_collectives.py")
    assert said.count("is done") == 3


def test_without_mpi_everything_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(world.importlib.util, "find_spec", lambda name: None)
    assert not dist.is_available()
    assert not dist.is_mpi_available()
    with pytest.raises(RuntimeError, match=r"mpi4py is not installed.*pip install '\.\[mpi\]'"):
        dist.init_process_group("gloo")


def test_before_init_there_is_no_group():
    assert not dist.is_initialized()
    for call in (dist.get_rank, dist.get_world_size, dist.barrier):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
    with pytest.raises(ValueError, match="one backend, 'mpi', not 'smoke'"):
        dist.init_process_group("smoke")


ALONE = """
import minitorch, warnings, os
import minitorch.distributed as dist
try:
    dist.init_process_group("gloo", world_size=4, rank=0)
except ValueError as error:
    assert "mpirun -n 4" in str(error), error
else:
    raise AssertionError
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    dist.init_process_group("nccl")
assert "'nccl' is served by MPI here" in str(said[0].message)
assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "mpi")
net = minitorch.nn.Linear(2, 2)
ddp = minitorch.nn.parallel.DistributedDataParallel(net)
ddp(minitorch.ones(1, 2)).sum().backward()
assert net.weight.grad.sum() == 4
assert list(ddp.state_dict()) == ["module.weight", "module.bias"]
x = minitorch.ones(2); dist.all_reduce(x); assert x.tolist() == [1, 1]
print("alone")
"""


def test_one_process_without_a_launcher_is_a_world_of_its_own():
    pytest.importorskip("mpi4py")
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "alone\n", done.stderr


def test_names_of_torchrun_are_offered_where_mpirun_has_started_us(monkeypatch):
    names = [
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "GROUP_RANK",
    ]
    for name in names:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0")
    world.offer_environment()
    assert [world.os.environ[n] for n in ("RANK", "WORLD_SIZE", "LOCAL_RANK")] == ["2", "4", "0"]
    assert groups.get_node_local_rank() == 0
    for name in names:  # monkeypatch would bring them back
        world.os.environ.pop(name, None)


@pytest.mark.parametrize("length", [0, 1, 5, 12, 13])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_the_distributed_sampler_is_pytorchs(length, shuffle, drop_last):
    for rank in range(3):
        ours, theirs = (
            m.utils.data.DistributedSampler(range(length), 3, rank, shuffle, seed=5, drop_last=drop_last)
            for m in (minitorch, torch)
        )
        assert len(ours) == len(theirs)
        for epoch in (0, 3):
            ours.set_epoch(epoch)
            theirs.set_epoch(epoch)
            if length:
                assert list(ours) == list(theirs)
    with pytest.raises(ValueError, match="rank 3 is not among 3 ranks"):
        minitorch.utils.data.DistributedSampler(range(5), 3, 3)


@pytest.mark.parametrize("total", [0, 1, 5, 12])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_shards_make_up_the_batch(total, size):
    batch = {"x": minitorch.arange(total), "more": (minitorch.arange(total) * 2, "text")}
    parts = [shards.shard_of(total, rank, size) for rank in range(size)]
    cut = [shards.cut(batch, p.first, p.first + p.mine)["x"].tolist() for p in parts]
    assert [i for part in cut for i in part] == list(range(total))
    assert max(p.mine for p in parts) - min(p.mine for p in parts) <= 1
    assert shards.rows_of(batch) == total
    with pytest.raises(TypeError, match="without Tensors"):
        shards.rows_of(["text"])
