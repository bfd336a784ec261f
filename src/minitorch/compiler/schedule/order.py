"""In which order groups run. Enters: groups and which of them have to come before which. Leaves: a list of them."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import typical
from minitorch.compiler.schedule.grouping import Grouping
from minitorch.compiler.schedule.groups import Contradiction, Group


def in_running_order(grouping: Grouping, kept: Collection[Value]) -> list[Group]:
    """Return the groups in an order that respects everything and needs little memory; checks come early.

    What waits for other ranks comes after all that can be computed before: the ranks talk meanwhile.
    kept: the values that lie in the program's own memory, from their group on to their last reader.
    """
    groups = [g for g in grouping.groups if g.members or g.kind == "check"]
    stage = _stages(groups)
    order = _sorted(groups, stage)
    return _released_early(grouping, order, {v for v in kept if v.primitive != "constant"}, stage)


def _stages(groups: list[Group]) -> dict[Group, int]:
    """Return, by group, the last wait for other ranks that it needs: the first is 1, and 0 is none.

    Waits come in the order of how much needs them: what only the updates need, gradients' sums, is waited for last.
    """
    waits = [g for g in groups if g.members and g.members[0].primitive == "wait"]
    needed_by = {w: sum(1 for g in groups if g.ancestors & w.bit) for w in waits}
    waits.sort(key=lambda w: (-needed_by[w], w.members[0].inputs[0].number))
    stage = dict.fromkeys(groups, 0)
    for number, wait in enumerate(waits, 1):
        stage.update((g, number) for g in groups if (g.ancestors | g.bit) & wait.bit)
    return stage


def _sorted(groups: list[Group], stage: dict[Group, int]) -> list[Group]:
    """Return groups so that each comes after all that have to come before it."""
    by_bit = {g.bit: g for g in groups}
    order: list[Group] = []
    done, known = 0, sum(by_bit)
    for root in sorted(groups, key=lambda g: (stage[g], g.kind != "check", g.number)):
        stack = [root]
        while stack:
            group = stack[-1]
            waiting = group.ancestors & known & ~done
            if waiting:
                if waiting & sum(g.bit for g in stack):
                    raise Contradiction(f"groups wait for each other: {[g.number for g in stack]}")
                stack.append(by_bit[waiting & -waiting])
                continue
            stack.pop()
            if not done & group.bit:
                done |= group.bit
                order.append(group)
    return order


def _released_early(
    grouping: Grouping, order: list[Group], kept: set[Value], stage: dict[Group, int]
) -> list[Group]:
    """Move up what leaves no more in memory than there was before: a weight's gradient and its update, say.

    Then a layer's arrays can go before the next layer's come, and are read while they are near.
    """
    few = grouping.machine.figures.few_bytes
    large = {v for v in kept if typical(v.nbytes) > few}  # (a small one may have hundreds of readers)
    known = sum(g.bit for g in order)
    reads: dict[Group, list[Value]] = {group: [] for group in order}
    waiting: dict[Value, int] = {}
    for value, readers in grouping.readers.items():
        for group in readers:
            reads.setdefault(group, []).append(value)
        waiting[value] = len(readers)
    place = {group: i for i, group in enumerate(order)}
    before = {n: sum(g.bit for g in order if stage[g] < n) for n in {*stage.values()} - {0}}
    done = 0
    moved: list[Group] = []

    def emit(group: Group) -> None:
        nonlocal done
        done |= group.bit
        moved.append(group)
        for value in reads[group]:
            waiting[value] -= 1

    def is_free(group: Group) -> bool:
        if done & group.bit or group.ancestors & known & ~done:
            return False
        if stage[group] and before[stage[group]] & ~done:
            return False  # others come first, while the ranks talk
        made = sum(typical(m.nbytes) for m in group.members if m in kept)
        gone = sum(typical(v.nbytes) for v in reads[group] if v in kept and waiting[v] == 1)
        return made <= gone + few

    # First what is small: a learning rate in another dtype, say, that everything else would wait for.
    small = (group for group in order if is_free(group))
    for root in itertools.chain(small, order):
        if done & root.bit:
            continue
        emit(root)
        latest = [root]
        while latest:
            group = latest.pop()
            near = [v for v in (*reads[group], *group.members) if v in large]
            others = dict.fromkeys(g for v in near for g in grouping.readers.get(v, ()))
            for other in sorted(others, key=place.__getitem__):
                if is_free(other):
                    emit(other)
                    latest.append(other)
    return moved
