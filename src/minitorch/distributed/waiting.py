"""Waiting for other ranks, but not forever. Enters: a request of MPI. Leaves: when it is done; or an error that says
which rank it waits for, and what that one does.

Who has waited for a while asks the others. A rank that waits itself answers in what, and one that has come to its end
says so; one that computes does not answer. So a rank that ended too early, and ranks that wait in different
collectives, are found out in seconds, and named; what remains is told when the time is up.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import Any

from minitorch.distributed.errors import DistBackendError
from minitorch.distributed.world import World

SPINS = 200  # looks at a request before the clock is looked at for the first time
EAGER_SECONDS = 0.05  # for so long only other processes are let go first; then it sleeps between two looks
NAP_SECONDS = 2e-4
ASK_AFTER = 2.0  # seconds of waiting before the others are asked, and between two questions
GRACE = 1.0  # seconds in which what a rank did before it ended may still arrive
ASKED_AT_MOST = 64  # ranks
_ASK, _ANSWER = 1, 2  # tags


@dataclass
class Call:
    """A collective, or a message, as it is told to others.

    kind: 'all_reduce'. number: of the group's collectives, this is the n-th; None for a message between two.
    others: the ranks (of the world) that have to take part. is_check: it is what ranks agree on when they have begun so
    many collectives, and are about to begin the next.
    """

    kind: str
    group: str
    number: int | None
    others: list[int]
    timeout: float
    is_check: bool = False

    def words(self) -> str:
        """Name it."""
        if self.number is None or self.is_check:
            return self.kind
        return f"{self.kind} (number {self.number} of {self.group})"


@dataclass
class _Said:
    """What another rank has answered, and when."""

    when: float
    has_ended: bool
    kind: str = ""
    group: str = ""
    number: int | None = None
    is_check: bool = False
    words: str = ""


@dataclass
class _Talk:
    """Questions and answers of this process."""

    question: int = 0
    waits_in: Call | None = None
    sent: list[Any] = field(default_factory=list)  # until they are delivered

    def post(self, world: World, text: str, rank: int, tag: int) -> None:
        """Send a few words, and do not wait."""
        self.sent = [each for each in self.sent if not each[0].Test()]
        content = text.encode()
        self.sent.append((world.control.Isend([content, world.mpi.BYTE], dest=rank, tag=tag), content))

    def take(self, world: World, tag: int) -> tuple[int, str] | None:
        """Return a message that has come, and from whom."""
        status = world.mpi.Status()
        if not world.control.Iprobe(source=world.mpi.ANY_SOURCE, tag=tag, status=status):
            return None
        content = bytearray(status.Get_count(world.mpi.BYTE))
        source = status.Get_source()
        world.control.Recv([content, world.mpi.BYTE], source=source, tag=tag)
        return source, content.decode()

    def answer(self, world: World) -> None:
        """Tell whoever asks what this rank does."""
        while (asked := self.take(world, _ASK)) is not None:
            call = self.waits_in
            state: dict[str, Any] = {"question": int(asked[1]), "has_ended": world.is_ending}
            if call is not None:
                state |= {
                    "kind": call.kind,
                    "group": call.group,
                    "number": call.number,
                    "is_check": call.is_check,
                    "words": call.words(),
                }
            self.post(world, json.dumps(state), asked[0], _ANSWER)


_talk = _Talk()


def answer_at_the_end(world: World) -> None:
    """Answer questions while the others have not come to their end yet."""
    _talk.answer(world)
    time.sleep(NAP_SECONDS)


def wait(world: World, request: Any, call: Call, timeout: float | None = None) -> None:
    """Wait until a request is done; raise an error that says why if it will not be."""
    try:
        for _ in range(SPINS):
            if request.Test():
                return
        _wait_longer(world, request, call, call.timeout if timeout is None else timeout)
    except world.mpi.Exception as error:
        raise DistBackendError(
            f"rank {world.rank}: {call.words()} failed: {error}; do all ranks give the same shape and dtype, and call "
            "the same collectives? TORCH_DISTRIBUTED_DEBUG=DETAIL compares them before each"
        ) from error


def _wait_longer(world: World, request: Any, call: Call, timeout: float) -> None:
    began = now = time.monotonic()
    asked_at, said = began, {}  # type: ignore[var-annotated]
    outer, _talk.waits_in = _talk.waits_in, call
    try:
        while not request.Test():
            if now - began < EAGER_SECONDS:
                os.sched_yield()
            else:
                time.sleep(NAP_SECONDS)
            now = time.monotonic()
            _talk.answer(world)
            if now - asked_at > ASK_AFTER:
                asked_at = now
                _ask(world, call)
            while (message := _talk.take(world, _ANSWER)) is not None:
                _listen(said, *message, now)
            _judge(world, call, said, now)
            if now - began > timeout:
                raise DistBackendError(_overdue(world, call, said, timeout))
    finally:
        _talk.waits_in = outer


def _ask(world: World, call: Call) -> None:
    _talk.question += 1
    for rank in call.others[:ASKED_AT_MOST]:
        _talk.post(world, str(_talk.question), rank, _ASK)


def _listen(said: dict[int, _Said], rank: int, content: str, now: float) -> None:
    answer = json.loads(content)
    if answer.pop("question") == _talk.question:
        known = said.get(rank)
        new = _Said(now, **answer)
        # (Since when a rank is gone is what counts, not when it last said so.)
        said[rank] = known if known is not None and known.has_ended and new.has_ended else new


def _judge(world: World, call: Call, said: dict[int, _Said], now: float) -> None:
    """Raise an error if what others said means that this wait has no end."""
    for rank, other in said.items():
        if other.has_ended and now - other.when > GRACE:
            raise DistBackendError(
                f"rank {world.rank} waits in {call.words()} for rank {rank}, which has come to the end of its program; "
                "all ranks must make the same number of calls (uneven data: DistributedSampler makes it even)"
            )
        if _cannot_meet(call, other):
            raise DistBackendError(
                f"rank {world.rank} waits in {call.words()}, rank {rank} in {other.words}: all ranks must call the "
                "same collectives in the same order"
            )


def _cannot_meet(call: Call, other: _Said) -> bool:
    """Tell whether two ranks wait for each other in different places."""
    if call.group != other.group or call.number is None or other.number is None:
        return False
    if call.is_check == other.is_check:
        return not call.is_check and call.number == other.number and call.kind != other.kind
    begun, number = (call.number, other.number) if call.is_check else (other.number, call.number)
    return number > begun  # one has begun what the other would begin only after the check


def _overdue(world: World, call: Call, said: dict[int, _Said], timeout: float) -> str:
    lines = [f"rank {world.rank} has waited {timeout:g} s in {call.words()}"]
    for rank in call.others[:ASKED_AT_MOST]:
        if rank not in said:
            lines.append(f"rank {rank} does not answer: it computes, or hangs")
        elif said[rank].has_ended:
            lines.append(f"rank {rank} has come to its end")
        else:
            lines.append(f"rank {rank} waits in {said[rank].words}")
    return "; ".join(lines) + ". init_process_group(timeout=timedelta(minutes=…)) sets how long is waited"
