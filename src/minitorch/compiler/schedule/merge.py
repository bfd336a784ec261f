"""Two groups as one. Enters: a group and another that computes what it reads. Leaves: one, or why there are two."""

from __future__ import annotations

from minitorch.compiler.ir.index import Dim, Index
from minitorch.compiler.ir.program import Shape, Value
from minitorch.compiler.ir.sizes import typical
from minitorch.compiler.schedule.grouping import Grouping
from minitorch.compiler.schedule.groups import Group, Obstacle

Renaming = dict[Dim, Dim]  # from one group's loops to another's


def merge(grouping: Grouping, group: Group, other: Group, leaf: Value, where: Index) -> str | None:
    """Let a group take in another, whose `leaf` is read at `where`; if the two cannot be one, return why."""
    renaming = _same_loops(other.index[leaf], where)
    if renaming is None or len(renaming) != len(other.dims):
        return "the two go through their elements in different ways"
    reason = _why_apart(grouping, group, other, leaf, renaming)
    if reason is None:
        _take_in(grouping, group, other, renaming)
    return reason


def _same_loops(theirs: Index, mine: Index) -> Renaming | None:
    """Return which loop of one index stands for which of another, if the two are equal but for that."""
    renaming: Renaming = {}
    for (their_start, their_terms), (my_start, my_terms) in zip(theirs, mine, strict=True):
        if their_start != my_start or len(their_terms) != len(my_terms):
            return None
        their_terms = tuple(sorted(their_terms, key=_slowest_first))
        my_terms = tuple(sorted(my_terms, key=_slowest_first))
        for (their_dim, their_factor), (my_dim, my_factor) in zip(their_terms, my_terms, strict=True):
            if their_factor != my_factor or their_dim.size != my_dim.size:
                return None
            if renaming.setdefault(their_dim, my_dim) is not my_dim:
                return None
    return renaming if len(set(renaming.values())) == len(renaming) else None


def _slowest_first(term: tuple[Dim, int]) -> int:
    return -typical(term[1])


def _why_apart(grouping: Grouping, group: Group, other: Group, leaf: Value, renaming: Renaming) -> str | None:
    """Say why two groups cannot be one, given how the other's loops would be called here; None if they can."""
    figures = grouping.machine.figures
    if not other.is_known_in_row(leaf):
        return "it is known only when all rows are done"
    if len(group.members) + len(other.members) > figures.largest_group:
        return "one kernel would be too large"
    scopes = {*group.scope.values(), *other.scope.values()}
    if figures.columns_apart and scopes >= {"row", "column"}:
        return "sums over columns are made apart from folds along rows"
    if group.kind == "contract":
        if other.inner is not None:
            return "a product does not sum anything else besides"
        if len(group.members) > figures.most_after(group.product):
            return "enough is done with the product's result already"
    here = set(renaming.values())
    if len(here) == len(group.dims):
        if not _divided_alike(group, other, renaming):
            return "the two have different rows"
    elif other.inner is not None or group.inner is None or here != set(group.outer):
        return "one goes through more elements than the other"
    # Nothing may have to come between the two.
    if other.comes_after(group) or _is_one_between(grouping, group, other):
        return "something has to be computed between the two"
    # What the other's folds give must not be wanted at another place by members here, nor the reverse.
    if any(
        not other.is_known_in_row(value) and group in grouping.readers.get(value, ()) for value in other.scope
    ):
        return "one reads what the other knows only when all its rows are done"
    if not _reads_in_place(grouping, group, other, renaming):
        return "one reads elements of the other at several places"
    return None


def _is_one_between(grouping: Grouping, group: Group, other: Group) -> bool:
    """Whether a group has to come after the other and before this one."""
    candidates = group.ancestors & ~other.ancestors & ~other.bit & ~group.bit
    while candidates:
        number = candidates.bit_length() - 1
        if grouping.made[number].ancestors & other.bit:
            return True
        candidates ^= 1 << number
    return False


def _divided_alike(group: Group, other: Group, renaming: Renaming) -> bool:
    """Whether two groups have the same rows, or one of them has none yet."""
    if other.inner is None or group.inner is None:
        return True
    return {renaming[d] for d in other.inner} == set(group.inner) and group.blocks == other.blocks


def _reads_in_place(grouping: Grouping, group: Group, other: Group, renaming: Renaming) -> bool:
    """Whether all that a group reads of another is read at the place where it would be computed."""
    group_of = grouping.group_of
    for reader in group.members:
        if reader.primitive == "contract":  # it reads its operands from memory
            below = (x for operand in reader.inputs for x in grouping.leaf_values(operand, group))
            if any(group_of.get(x) is other for x in below):
                return False
            continue
        for read in grouping.member_leaves(group, reader, other):
            if isinstance(read, Obstacle):
                return False
            if group_of.get(read.value) is other and (
                read.conditional or read.where != _renamed(other.index[read.value], renaming)
            ):
                return False
    return True


def _take_in(grouping: Grouping, group: Group, other: Group, renaming: Renaming) -> None:
    """Move all members of a group into another."""
    if other.inner is not None and group.inner is None:
        group.inner = [renaming[d] for d in other.inner]
        group.outer = [renaming[d] for d in other.outer]
        group.blocks = other.blocks
    group.members = other.members + group.members
    known: dict[tuple[Shape, Index], Index] = {}  # nearly all members have one shape, and lie at one index
    for member in other.members:
        grouping.group_of[member] = group
        theirs = (member.shape, other.index[member])
        mine = known.get(theirs)
        if mine is None:
            mine = known[theirs] = _renamed(theirs[1], renaming)
            group.remember(member.shape, mine)
        group.index[member] = mine
    for fold, index in other.source.items():
        group.source[fold] = _renamed(index, renaming)
        group.remember(fold.inputs[0].shape, group.source[fold])
    group.scope.update(other.scope)
    for value in other.needs:
        readers = grouping.readers[value]
        readers.remove(other)
        if group not in readers:
            readers.append(group)
    group.needs.update(other.needs)
    ancestors = (group.ancestors | other.ancestors) & ~other.bit & ~group.bit
    group.ancestors = ancestors
    grouping.groups.remove(other)
    for each in grouping.groups:
        if each.ancestors & (other.bit | group.bit):
            each.ancestors = (each.ancestors & ~other.bit) | group.bit | ancestors
            group.is_followed = True
    other.members, other.needs = [], {}


def _renamed(index: Index, renaming: Renaming) -> Index:
    """Express an index by another group's loops."""
    return tuple(
        (start, tuple(sorted(((renaming[d], c) for d, c in terms), key=_by_number))) for start, terms in index
    )


def _by_number(term: tuple[Dim, int]) -> int:
    return term[0].number
