"""A rank that fails in one of several ways while the others go on: run by tests/distributed/test_faults.py."""

import os
import signal
import sys
import time
from datetime import timedelta

import minitorch as torch
import minitorch.distributed as dist
from minitorch import nn

dist.init_process_group("mpi", timeout=timedelta(seconds=float(sys.argv[2])))
how, rank = sys.argv[1], dist.get_rank()
net = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
for step in range(10_000):
    net(torch.ones(2, 4)).sum().backward()
    if step == 20:
        print(f"pid of rank {rank}: {os.getpid()}", flush=True)
    if step == 20 and rank == 1:
        print("now", time.time(), flush=True)
        if how == "raise":
            raise ValueError("this rank has had enough")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "exit":
            sys.exit(3)
        if how == "hang":
            time.sleep(1000)
        if how == "other":
            dist.broadcast(torch.ones(3), 0)
    if how == "compute" and rank == 0:
        while True:  # far from any collective
            pass
    if how == "compute" and rank == 1 and step == 0:
        raise ValueError("this rank has had enough")
