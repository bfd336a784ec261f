"""One collective on arrays. Enters: arrays of this rank. Leaves: something that is waited for, and gives arrays.

Everything here is non-blocking: `start` begins, `wait` gives the results. Eager code calls both; a compiled program has
them as two primitives, between which its scheduler puts whatever does not need the results (compiler/schedule).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.distributed import checks, waiting
from minitorch.distributed.groups import ProcessGroup
from minitorch.distributed.reduce_op import ReduceOp
from minitorch.distributed.transport import added_up, moved, on_host, operation, reduced, reducible
from minitorch.distributed.waiting import Call
from minitorch.engine.recording import recorder

Arrays = tuple[np.ndarray, ...]
# From arrays to a request of MPI, and to what its results are once it is done.
Begin = Callable[[list[np.ndarray]], tuple[Any, Callable[[], Arrays]]]


# Collectives that nobody may be waiting for any more: MPI still reads and writes their memory.
_under_way: set[Pending] = set()


class Pending:
    """A collective under way."""

    def __init__(self, group: ProcessGroup, request: Any, call: Call, result: Callable[[], Arrays]) -> None:
        self.group = group
        self.request = request
        self.call = call
        self._result: Callable[[], Arrays] | None = result
        self._arrays: Arrays = ()
        _under_way.add(self)

    def is_done(self) -> bool:
        """Look whether it is done; MPI moves on whatever is under way when it is asked."""
        return bool(self.request.Test())

    def wait(self, timeout: float | None = None) -> Arrays:
        """Wait, and return the results."""
        if self._result is not None:
            waiting.wait(self.group.world, self.request, self.call, timeout)
            self._arrays, self._result = self._result(), None
            _under_way.discard(self)
        return self._arrays


class Exchange:
    """What is done with arrays: kind, group, how it is begun. same: what all ranks must agree on besides the kind."""

    def __init__(
        self, group: ProcessGroup, kind: str, begin: Begin, same: str = "", alone: bool = False
    ) -> None:
        self.group = group
        self.kind = kind
        self.same = same
        self._begin = begin
        self._alone = alone  # a message from one to another, and no collective

    def start(self, arrays: Sequence[Any]) -> Any:
        """Begin; return what gives the results when it is waited for."""
        active = recorder()
        if active is not None:
            return active.exchange(self, arrays)
        return self.start_now(arrays)

    def start_now(self, arrays: Sequence[Any]) -> Pending:
        """Begin, recorded or not."""
        group = self.group
        call: Call
        if self._alone:
            others = [r for r in group.ranks if r != group.world.rank]
            call = Call(self.kind, group.group_name, None, others, group.timeout)
        else:
            checks.agree(group, self.kind, f"{self.kind} of {self.same}" if self.same else self.kind)
            call = group.call(self.kind)
        for earlier in [each for each in _under_way if each.is_done()]:
            _under_way.discard(earlier)
        request, result = self._begin([on_host(array) for array in arrays])
        return Pending(group, request, call, result)

    def agree_to_repeat(self, reason: object) -> None:
        """Make sure that all ranks are about to do once more what they have done since a recording began."""
        kind = f"running uncompiled what was compiled ({type(reason).__name__}: {reason})"
        checks.agree(self.group, kind, "what was compiled, uncompiled", always=True)


def in_words(array: Any) -> str:
    """Name what ranks must agree on: dtype and shape."""
    return f"{np.dtype(array.dtype)}{list(array.shape)}"


# --- the collectives ------------------------------------------------------------------------------------------------


def all_reduce(group: ProcessGroup, like: Any, op: ReduceOp = ReduceOp.SUM, owned: bool = False) -> Exchange:
    """Every rank's array, added up (or op) over ranks, to every rank. owned: the array may be written into."""
    mpi = group.world.mpi
    does = operation(mpi, op, np.dtype(like.dtype), "all_reduce")

    def begin(arrays: list[np.ndarray]) -> Any:
        (x,) = arrays
        usable = owned and x.flags.writeable and x.dtype != np.float16
        buffer = x if usable else reducible(x)
        request = group.communicator.Iallreduce(mpi.IN_PLACE, added_up(mpi, buffer), does)
        return request, lambda: (reduced(buffer, op, x.dtype, group.size()),)

    return Exchange(group, "all_reduce", begin, f"{in_words(like)}, {op.name}")


def reduce(group: ProcessGroup, like: Any, root: int, op: ReduceOp) -> Exchange:
    """Every rank's array, added up (or op) over ranks, to one rank; the others' stay as they are."""
    mpi = group.world.mpi
    does = operation(mpi, op, np.dtype(like.dtype), "reduce")

    def begin(arrays: list[np.ndarray]) -> Any:
        (x,) = arrays
        buffer = reducible(x)
        if group.rank() != root:
            return group.communicator.Ireduce(added_up(mpi, buffer), None, does, root), lambda: (x,)
        request = group.communicator.Ireduce(mpi.IN_PLACE, added_up(mpi, buffer), does, root)
        return request, lambda: (reduced(buffer, op, x.dtype, group.size()),)

    return Exchange(group, "reduce", begin, f"{in_words(like)}, {op.name}, to rank {group.ranks[root]}")


def broadcast(group: ProcessGroup, like: Any, root: int) -> Exchange:
    """One rank's array to every rank."""
    mpi = group.world.mpi

    def begin(arrays: list[np.ndarray]) -> Any:
        buffer = np.array(arrays[0], order="C")
        return group.communicator.Ibcast(moved(mpi, buffer), root), lambda: (buffer,)

    return Exchange(group, "broadcast", begin, f"{in_words(like)}, from rank {group.ranks[root]}")


def all_gather(group: ProcessGroup, like: Any) -> Exchange:
    """Every rank's array to every rank: (…) → (ranks, …)."""
    mpi = group.world.mpi

    def begin(arrays: list[np.ndarray]) -> Any:
        (x,) = arrays
        out = np.empty((group.size(), *x.shape), x.dtype)
        request = group.communicator.Iallgather(moved(mpi, x), moved(mpi, out))
        return request, _with(x, lambda: (out,))

    return Exchange(group, "all_gather", begin, in_words(like))


def gather(group: ProcessGroup, like: Any, root: int) -> Exchange:
    """Every rank's array to one rank: (…) → (ranks, …) there, and (0, …) elsewhere."""
    mpi = group.world.mpi

    def begin(arrays: list[np.ndarray]) -> Any:
        (x,) = arrays
        here = group.rank() == root
        out = np.empty((group.size() if here else 0, *x.shape), x.dtype)
        request = group.communicator.Igather(moved(mpi, x), moved(mpi, out) if here else None, root)
        return request, _with(x, lambda: (out,))

    return Exchange(group, "gather", begin, f"{in_words(like)}, to rank {group.ranks[root]}")


def scatter(group: ProcessGroup, like: Any, root: int) -> Exchange:
    """One rank's (ranks, …), a part to every rank: (…). like: such a part. The others give an array of it."""
    mpi = group.world.mpi
    shape, dtype = tuple(like.shape), np.dtype(like.dtype)

    def begin(arrays: list[np.ndarray]) -> Any:
        (x,) = arrays
        out = np.empty(shape, dtype)
        given = moved(mpi, x) if group.rank() == root else None
        return group.communicator.Iscatter(given, moved(mpi, out), root), _with(x, lambda: (out,))

    return Exchange(group, "scatter", begin, f"{in_words(like)}, from rank {group.ranks[root]}")


def reduce_scatter(group: ProcessGroup, like: Any, op: ReduceOp) -> Exchange:
    """Every rank's (ranks, …), added up (or op) over ranks, a part to every rank: (…). like: such a part."""
    mpi = group.world.mpi
    does = operation(mpi, op, np.dtype(like.dtype), "reduce_scatter")

    def begin(arrays: list[np.ndarray]) -> Any:
        (x,) = arrays
        given = reducible(x)
        out = np.empty(x.shape[1:], given.dtype)
        request = group.communicator.Ireduce_scatter_block(added_up(mpi, given), added_up(mpi, out), does)
        return request, _with(given, lambda: (reduced(out, op, x.dtype, group.size()),))

    return Exchange(group, "reduce_scatter", begin, f"{in_words(like)}, {op.name}")


def all_to_all(group: ProcessGroup, dtype: Any, sent: Sequence[int], received: Sequence[int]) -> Exchange:
    """Every rank's pieces, one for each rank, to these ranks: flat arrays; sent, received: the pieces' lengths."""
    mpi = group.world.mpi

    def begin(arrays: list[np.ndarray]) -> Any:
        (x,) = arrays
        out = np.empty(sum(received), x.dtype)
        kind = moved(mpi, x)[1]
        request = group.communicator.Ialltoallv([x, list(sent), kind], [out, list(received), kind])
        return request, _with(x, lambda: (out,))

    return Exchange(group, "all_to_all", begin, str(np.dtype(dtype)))


def barrier(group: ProcessGroup) -> Exchange:
    """Nothing, but all ranks have come here."""
    return Exchange(group, "barrier", lambda arrays: (group.communicator.Ibarrier(), lambda: ()))


def send(group: ProcessGroup, to: int, tag: int) -> Exchange:
    """An array to one rank."""
    mpi = group.world.mpi

    def begin(arrays: list[np.ndarray]) -> Any:
        buffer = np.array(arrays[0], order="C")
        request = group.communicator.Isend(moved(mpi, buffer), to, tag)
        return request, _with(buffer, lambda: ())

    return Exchange(group, f"send to rank {group.ranks[to]}", begin, alone=True)


def receive(group: ProcessGroup, source: int | None, tag: int, found: list[int]) -> Exchange:
    """An array from one rank, or from any (None); found gets from whom it came."""
    mpi = group.world.mpi
    words = "recv from any rank" if source is None else f"recv from rank {group.ranks[source]}"

    def begin(arrays: list[np.ndarray]) -> Any:
        buffer = np.empty(arrays[0].shape, arrays[0].dtype)
        place = mpi.ANY_SOURCE if source is None else source
        request = _Received(mpi, group.communicator.Irecv(moved(mpi, buffer), place, tag))

        def result() -> Arrays:
            found.append(group.ranks[request.status.Get_source()])
            return (buffer,)

        return request, result

    return Exchange(group, words, begin, alone=True)


class _Received:
    """A request for a message, which remembers from whom it came."""

    def __init__(self, mpi: Any, request: Any) -> None:
        self.request = request
        self.status = mpi.Status()
        self.done = False

    def Test(self) -> bool:
        """Look whether it has come."""
        self.done = self.done or self.request.Test(self.status)
        return self.done


def _with(kept: Any, result: Callable[[], Arrays]) -> Callable[[], Arrays]:
    """Return a result that keeps memory alive until it is asked for: MPI reads it as long as that."""

    def give(kept: Any = kept) -> Arrays:
        return result()

    return give
