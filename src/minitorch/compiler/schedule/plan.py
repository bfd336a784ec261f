"""Where values lie. Enters: the order of steps, what each reads and writes. Leaves: one arena's plan.

Two values may have the same place if one is no longer needed when the other comes into being. Large ones are
placed first, each as low as it fits between those that live at the same time.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

ALIGNMENT = 64


@dataclass
class Buffer:
    """Some bytes that are needed from one step to another, both included."""

    key: Hashable
    size: int
    first: int
    last: int
    offset: int = 0


@dataclass
class Plan:
    """The arena: its size, what it would be if nothing shared a place, and where everything lies."""

    size: int = 0
    unshared: int = 0
    offsets: dict[Hashable, int] = field(default_factory=dict)


def lives(
    reads: Sequence[Sequence[Hashable]], writes: Sequence[Sequence[Hashable]]
) -> dict[Hashable, list[int]]:
    """Return the first and the last step that touches each buffer."""
    spans: dict[Hashable, list[int]] = {}
    for step, (read, written) in enumerate(zip(reads, writes, strict=True)):
        for key in (*read, *written):
            span = spans.setdefault(key, [step, step])
            span[1] = step
    return spans


def place(buffers: Sequence[Buffer]) -> Plan:
    """Give every buffer a place.

    >>> a, b, c = Buffer("a", 100, 0, 1), Buffer("b", 100, 1, 2), Buffer("c", 60, 2, 3)
    >>> plan = place([a, b, c])
    >>> plan.offsets, plan.size, plan.unshared
    ({'a': 0, 'b': 128, 'c': 0}, 256, 320)
    """
    plan = Plan()
    placed: list[Buffer] = []
    for buffer in sorted(buffers, key=lambda b: (-b.size, b.first)):
        size = -(-buffer.size // ALIGNMENT) * ALIGNMENT
        plan.unshared += size
        taken = sorted(
            (other.offset, other.offset + -(-other.size // ALIGNMENT) * ALIGNMENT)
            for other in placed
            if other.first <= buffer.last and buffer.first <= other.last
        )
        best, best_room, here = None, None, 0
        for begin, end in taken:
            room = begin - here
            if room >= size and (best_room is None or room < best_room):
                best, best_room = here, room
            here = max(here, end)
        buffer.offset = here if best is None else best
        placed.append(buffer)
        plan.offsets[buffer.key] = buffer.offset
        plan.size = max(plan.size, buffer.offset + size)
    return plan
