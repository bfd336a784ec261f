"""Gradients of many parameters, averaged over ranks while backward still runs. Enters: gradients, as a walk completes
them. Leaves: the mean over ranks, in `.grad`.

Parameters are put into buckets in reverse order, since backward meets the last layer first. When all gradients of a
bucket are there, it is one array, and its sum over ranks begins; the walk goes on meanwhile. All ranks begin buckets
in the same order, whatever the order in which they are filled. At the end of the walk the sums are waited for and
written where the gradients are. In a compiled function the same lines record two primitives for each bucket, a start
and a wait.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.distributed import exchange
from minitorch.distributed.groups import ProcessGroup
from minitorch.distributed.reduce_op import ReduceOp
from minitorch.engine.backward import own_gradient
from minitorch.engine.hooks import on_complete
from minitorch.engine.recording import replayed

MEBIBYTE = 1 << 20


class Bucket:
    """Some parameters, by number, whose gradients travel as one array."""

    def __init__(self, members: list[int], parameters: Sequence[Any]) -> None:
        self.members = members
        self.shapes = [parameters[i]._array.shape for i in members]
        self.sizes = [parameters[i]._array.size for i in members]
        self.dtype: np.dtype = parameters[members[0]]._array.dtype


def divided(parameters: Sequence[Any], first: int, most: int) -> list[Bucket]:
    """Put parameters into buckets, the last ones first. first, most: bytes of the first bucket, and of each other.

    >>> layers = [minitorch.ones(4), minitorch.ones(100), minitorch.ones(2)]
    >>> [bucket.members for bucket in divided(layers, 1, 400)]
    [[2], [1], [0]]
    >>> [bucket.members for bucket in divided(layers, 400, 400)]
    [[2, 1], [0]]
    """
    buckets: list[list[int]] = []
    open_buckets: dict[Any, tuple[list[int], int]] = {}  # by dtype: the one that is filled, and its bytes
    limit = first
    for i in reversed(range(len(parameters))):
        dtype = parameters[i]._array.dtype
        members, size = open_buckets.get(dtype, ([], 0))
        if not members:
            buckets.append(members)
        members.append(i)
        size += parameters[i]._array.nbytes
        open_buckets[dtype] = (members, size)
        if size >= limit:
            open_buckets[dtype], limit = ([], 0), most
    return [Bucket(members, parameters) for members in buckets]


class Reducer:
    """Averages the gradients of parameters over the ranks of a group.

    allows_unused: parameters that get no gradient count as 0, and keep what they have if no rank gave them one.
    is_static: which these are is the same at every step, and known after the first.
    is_on: whether gradients of the walks to come are averaged (else they stay this rank's own).

    All gradients may come in one walk or, as two losses have two, in several; then the last one averages.
    """

    def __init__(
        self,
        parameters: Sequence[Any],
        group: ProcessGroup,
        first: int,
        most: int,
        allows_unused: bool,
        is_static: bool,
        names: Sequence[str],
    ) -> None:
        self.parameters = list(parameters)
        self.names = list(names)
        self.group = group
        self.buckets = divided(self.parameters, first, most)
        self.allows_unused = allows_unused or is_static
        self.is_static = is_static
        self.is_on = False
        self._never: set[int] = set()  # parameters of a static graph that no rank uses
        self._is_known = False
        self._bucket_of = {i: number for number, b in enumerate(self.buckets) for i in b.members}
        self._place = {id(p): i for i, p in enumerate(self.parameters)}
        self.reset()
        # Weakly: when a wrapper is gone, another one may be put around the same parameters.
        told = weakref.WeakMethod(self._complete), weakref.WeakMethod(self._accumulated)
        for parameter in self.parameters:
            on_complete(parameter, _Told(told[0]))
            parameter._hooks.when_accumulated[id(self)] = _Told(told[1])

    @replayed
    def prepare(self, is_on: bool) -> None:
        """Begin anew, for the walk to come. (A compiled function does so at each call: its backward may be outside.)"""
        self.is_on = is_on
        if self._arrived or self._pending:
            self.reset()

    def missing(self) -> list[str]:
        """Return the parameters whose gradients the latest walk lacks, if it brought others'."""
        return [self.names[i] for i in self._absent()] if self._arrived else []

    def _absent(self) -> list[int]:
        return [i for i in self._place.values() if i not in self._arrived and i not in self._never]

    def reset(self) -> None:
        """Begin anew: no gradients have come."""
        self._arrived: dict[int, Any] = {}
        self._missing_in = [len(self._expected(b)) for b in self.buckets]
        self._pending: list[Any] = []

    def _expected(self, bucket: Bucket) -> list[int]:
        return [i for i in bucket.members if i not in self._never]

    # --- while backward runs --------------------------------------------------------------------------------------

    def _complete(self, parameter: Any, g: Any) -> None:
        """Take a gradient; begin the sums of all buckets that are full now, in their order."""
        if not self.is_on:
            return
        i = self._place[id(parameter)]
        if i in self._arrived:
            raise RuntimeError(
                f"Expected to mark a variable ready only once: {self.names[i]} got its gradient by two backward passes "
                "before all parameters had theirs; call forward again between them, or use no_sync()"
            )
        held = parameter._grad  # of earlier walks, not averaged yet: under no_sync
        self._arrived[i] = g if held is None else held + g
        self._missing_in[self._bucket_of[i]] -= 1
        for pending in self._pending:
            pending.is_done()  # MPI moves on only when it is asked
        self._start_full_ones()

    def _start_full_ones(self) -> None:
        while len(self._pending) < len(self.buckets) and self._missing_in[len(self._pending)] <= 0:
            self._start(self.buckets[len(self._pending)])

    def _start(self, bucket: Bucket) -> None:
        """Make one array of a bucket's gradients, divided by the number of ranks, and begin its sum."""
        parts = []
        for i, size in zip(bucket.members, bucket.sizes, strict=True):
            g = self._arrived.get(i)
            if g is None:
                g = self.parameters[i]._grad
            parts.append(np.zeros(size, bucket.dtype) if g is None else g.reshape(-1))
        flat = np.concatenate(parts) / bucket.dtype.type(self.group.size())
        work = exchange.all_reduce(self.group, flat, ReduceOp.SUM, owned=True)
        self._pending.append(work.start([flat]))

    # --- at its end -----------------------------------------------------------------------------------------------

    def _accumulated(self, parameter: Any) -> None:
        """Be told that all gradients of a walk are in `.grad`: if these are all there are, put the means there."""
        if not self.is_on or not self._arrived or (self._absent() and not self.allows_unused):
            return
        used: Any = None
        if self.allows_unused and not self._is_known:
            flags = np.array([i in self._arrived for i in range(len(self.parameters))], np.int8)
            self._missing_in = [0] * len(self.buckets)
            self._start_full_ones()
            work = exchange.all_reduce(self.group, flags, ReduceOp.MAX)
            (used,) = work.start_now([flags]).wait()
            if self.is_static:
                self._never = {i for i, flag in enumerate(used) if not flag}
                self._is_known = True
        for bucket, pending in zip(self.buckets, self._pending, strict=False):
            (mean,) = pending.wait()
            self._put(bucket, mean, used)
        self.reset()

    def _put(self, bucket: Bucket, mean: Any, used: Any) -> None:
        """Write a bucket's means where its gradients are."""
        start = 0
        for i, shape, size in zip(bucket.members, bucket.shapes, bucket.sizes, strict=True):
            part = mean[start : start + size].reshape(shape)
            start += size
            if i in self._never or (used is not None and not used[i]):
                continue  # no rank has given it a gradient: it keeps what it has
            parameter = self.parameters[i]
            held = own_gradient(parameter)
            if held is None:
                parameter._grad = part.copy()
                parameter._grad_is_shared = False
            else:
                held[...] = part  # whoever holds the array sees the mean


class _Told:
    """Calls a method of an object, as long as there is one."""

    def __init__(self, method: weakref.WeakMethod[Any]) -> None:
        self.method = method

    def __call__(self, *args: Any) -> None:
        if (found := self.method()) is not None:
            found(*args)
