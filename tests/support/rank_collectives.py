"""Every collective on every dtype, by ranks of their own: run by tests/distributed/test_collectives.py."""

import time
from datetime import timedelta

import numpy as np

import minitorch as torch
import minitorch.distributed as dist

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
OPS = {
    "SUM": lambda xs: sum(xs[1:], xs[0]),
    "AVG": lambda xs: sum(xs[1:], xs[0]) / len(xs),
    "PRODUCT": lambda xs: np.prod(xs, axis=0),
    "MAX": lambda xs: np.max(xs, axis=0),
    "MIN": lambda xs: np.min(xs, axis=0),
}


def given(rank, dtype, shape=(3, 2)):
    """What a rank gives: known to all."""
    numbers = np.random.default_rng(rank).integers(0, 4, shape)
    return (numbers + 1j * rank if np.dtype(dtype).kind == "c" else numbers).astype(dtype)


def check_dtypes(rank, size):
    for dtype in DTYPES:
        mine, all_of = torch.tensor(given(rank, dtype)), [given(r, dtype) for r in range(size)]
        kind = mine.dtype.kind
        for name, compute in OPS.items():
            if (kind == "b" and name == "AVG") or (kind == "c" and name in ("MAX", "MIN")):
                refused(
                    lambda n=name, m=mine: dist.all_reduce(m.clone(), getattr(dist.ReduceOp, n)),
                    "not offered",
                )
                continue
            x = mine.clone()
            work = dist.all_reduce(x, getattr(dist.ReduceOp, name), async_op=True)
            assert work.wait() and work.is_completed() and work.is_success()
            np.testing.assert_allclose(
                x.numpy(), compute(all_of).astype(dtype), rtol=1e-3, err_msg=f"{name} {dtype}"
            )
            assert x.dtype == dtype
        x = mine.clone()
        dist.broadcast(x, src=1)
        same(x, all_of[1])
        outs = [torch.zeros_like(mine) for _ in range(size)]
        dist.all_gather(outs, mine)
        same(np.stack([o.numpy() for o in outs]), np.stack(all_of))
        out = torch.zeros((size * 3, 2), dtype=mine.dtype)
        dist.all_gather_into_tensor(out, mine)
        same(out, np.concatenate(all_of))
        dist.gather(mine, outs if rank == 2 else None, dst=2)
        x = torch.zeros_like(mine)
        dist.scatter(x, [torch.tensor(each) for each in all_of] if rank == 0 else None, src=0)
        same(x, all_of[rank])
        whole = [torch.tensor(given(10 * rank + r, dtype)) for r in range(size)]
        if kind not in "bc":
            dist.reduce_scatter(x, whole, dist.ReduceOp.MAX)
            same(x, np.max([given(10 * r + rank, dtype) for r in range(size)], axis=0))
        dist.all_to_all(outs, whole)
        same(
            np.stack([o.numpy() for o in outs]), np.stack([given(10 * r + rank, dtype) for r in range(size)])
        )


def check_others(rank, size):
    x = torch.full((2,), float(rank))
    dist.reduce(x, dst=1)
    same(x, np.full(2, sum(range(size)) if rank == 1 else rank, np.float32))
    part = torch.zeros(2)
    dist.reduce_scatter_tensor(part, torch.arange(2.0 * size) + rank)
    same(part, size * (np.arange(2) + 2 * rank) + sum(range(size)))
    out = torch.zeros(sum(range(1, size + 1)))
    dist.all_to_all_single(
        out, torch.full((size * (rank + 1),), float(rank)), list(range(1, size + 1)), [rank + 1] * size
    )
    same(out, np.concatenate([np.full(r + 1, float(r)) for r in range(size)]))
    # Messages.
    right, left = (rank + 1) % size, (rank - 1) % size
    got = torch.zeros(2)
    sent = dist.isend(torch.full((2,), float(rank)), right)
    assert dist.recv(got, left) == left
    sent.wait()
    same(got, np.full(2, float(left)))
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, got, left), dist.P2POp(dist.irecv, x, right)])
    for work in works:
        work.wait()
    same(x, np.full(2, float(rank)))
    # A view, and what is not contiguous.
    table = torch.zeros(3, 2)
    table[:, 1] = rank + 1
    dist.all_reduce(table[:, 1])
    same(table[:, 1], np.full(3, sum(range(1, size + 1))))
    # Objects.
    things = [None] * size
    dist.all_gather_object(things, {"rank": rank, "text": "x" * 100 * rank})
    assert [t["rank"] for t in things] == list(range(size))
    assert len(things[2]["text"]) == 200
    dist.gather_object(rank, things if rank == 1 else None, dst=1)
    assert rank != 1 or things == list(range(size))
    listed = ["a", 1] if rank == 2 else [None, None]
    dist.broadcast_object_list(listed, src=2)
    assert listed == ["a", 1]
    out = [None]
    dist.scatter_object_list(out, [f"for {r}" for r in range(size)] if rank == 1 else None, src=1)
    assert out == [f"for {rank}"]
    if rank == 0:
        dist.send_object_list([1, {"two": 2}], 1)
    elif rank == 1:
        got = [None, None]
        assert dist.recv_object_list(got, 0) == 0
        assert got == [1, {"two": 2}]


def check_groups(rank, size):
    some = dist.new_group([0, 2])
    x = torch.full((1,), float(rank))
    dist.all_reduce(x, group=some)
    same(x, [2.0 if rank in (0, 2) else rank])
    if rank in (0, 2):
        assert dist.get_process_group_ranks(some) == [0, 2]
        assert dist.get_group_rank(some, 2) == 1
        assert dist.get_global_rank(some, 1) == 2
        dist.broadcast(x, group_src=1, group=some)
    assert dist.get_rank(some) == {0: 0, 1: -1, 2: 1}[rank]
    assert dist.get_world_size() == size
    assert dist.get_backend() == "mpi"
    assert dist.group.WORLD.rank() == rank


def check_gradients(rank, size):
    w = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    total = dist.nn.all_reduce(w * (rank + 1))
    (total * total).sum().backward()
    # The sum over ranks of (Σ k·w)² is size·(S·w)²; its derivative goes to each rank's factor.
    weight = sum(range(1, size + 1))
    same(w.grad, size * 2 * weight * w.data * (rank + 1))
    a = torch.tensor([float(rank)], dtype=torch.float64, requires_grad=True)
    parts = dist.nn.all_gather(a)
    sum((p * (i + 1) * (rank + 1)).sum() for i, p in enumerate(parts)).backward()
    same(a.grad, [(rank + 1) * weight])
    ins = [torch.ones(2, dtype=torch.float64) * (r + 1) for r in range(size)]
    for each in ins:
        each.requires_grad_()
    out = dist.nn.reduce_scatter(torch.empty(2, dtype=torch.float64), ins)
    (out * (rank + 1)).sum().backward()
    same(out, [size * (rank + 1)] * 2)
    same(np.stack([i.grad for i in ins]), [[r + 1] * 2 for r in range(size)])
    b = torch.tensor([3.0], requires_grad=True)
    (dist.nn.broadcast(b, 1) * (rank + 1)).sum().backward()
    same(b.grad, [weight if rank == 1 else 0])
    outs = dist.nn.all_to_all([torch.zeros(1)] * size, [b * r for r in range(size)])
    same(np.concatenate([o.detach().numpy() for o in outs]), [3.0 * rank] * size)
    (dist.nn.gather(b, 0)[1] * (rank + 5)).sum().backward()
    same(b.grad, [(weight if rank == 1 else 0) + (5 if rank == 1 else 0)])


def check_disagreements(rank, size):
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    refused(
        lambda: dist.all_reduce(torch.ones(3 + (rank == 1))), "rank 1 calls all_reduce of float32[4], SUM"
    )
    refused(
        lambda: dist.all_reduce(torch.ones(3, dtype=torch.float64 if rank == 2 else torch.float32)),
        "rank 2 calls all_reduce of float64[3], SUM",
    )
    refused(
        lambda: dist.barrier() if rank == 0 else dist.broadcast(torch.ones(3), 1),
        "rank 0 calls barrier; rank 1 calls broadcast of float32[3], from rank 1",
    )
    x = torch.ones(3)
    dist.all_reduce(x)
    same(x, [size] * 3)
    dist.set_debug_level(dist.DebugLevel.OFF)


def check_timeout(rank, size):
    dist.barrier()
    if rank == 1:
        time.sleep(3.0)  # long enough for the others to have waited, on a machine that has much else to do
        dist.barrier()
    else:
        refused(
            lambda: dist.monitored_barrier(timeout=timedelta(seconds=0.5)),
            f"rank {rank} has waited 0.5 s in barrier",
        )
    dist.barrier()


def same(found, expected):
    np.testing.assert_allclose(getattr(found, "data", found), expected, rtol=1e-6)


def refused(call, words):
    try:
        call()
    except RuntimeError as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError(f"not refused: {words}")


if __name__ == "__main__":
    dist.init_process_group("mpi")
    me, all_ranks = dist.get_rank(), dist.get_world_size()
    for check in (
        check_dtypes,
        check_others,
        check_groups,
        check_gradients,
        check_disagreements,
        check_timeout,
    ):
        check(me, all_ranks)
    dist.destroy_process_group()
    assert not dist.is_initialized()
    print(f"rank {me} is done")
