"""Which values lie in memory. Enters: groups. Leaves: the values that one group writes and another reads.

Writing a value and reading it again costs more than some functions: then whoever reads it computes it again, from
what lies in memory anyway.
"""

from __future__ import annotations

from typing import NamedTuple

from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import typical
from minitorch.compiler.schedule.grouping import Grouping
from minitorch.compiler.schedule.groups import PLACE, Group, Obstacle


def stored_values(grouping: Grouping) -> set[Value]:
    """Return the computed values that have to lie in memory: some other group reads them, or they are results."""
    stored: set[Value] = set(grouping.program.outputs)
    for leaf, readers in grouping.readers.items():
        maker = grouping.group_of.get(leaf)
        if maker is not None and any(reader is not maker for reader in readers):
            stored.add(leaf)
    for group in grouping.groups:
        for member in group.members:
            if not group.is_known_in_row(member) or group.kind in ("scatter", "concatenate", "scan"):
                stored.add(member)
            if member.primitive == "gather":
                stored.add(grouping.gather_source(member))
    return {v for v in stored if v in grouping.group_of and v.primitive != PLACE}


class Recipe(NamedTuple):
    """How to compute a value again: what is computed anew, itself among it, and what that reads from memory."""

    again: set[Value]
    ingredients: list[Value]


def compute_again(grouping: Grouping, stored: set[Value]) -> None:
    """Take values out of memory (out of `stored`) that cost less to compute again than to write and read."""
    outputs = set(grouping.program.outputs)
    users: dict[Value, list[tuple[Value, Group]]] = {}
    for group in grouping.groups:
        for member in group.members:
            for operand in member.inputs:
                for leaf in grouping.leaf_values(operand, group):
                    users.setdefault(leaf, []).append((member, group))
    for value in grouping.program.values():
        if value not in stored or value in outputs or value.primitive != "map" or value in grouping.forced:
            continue
        narrow = _narrower(grouping, value)
        mine = narrow is not None and grouping.group_of.get(narrow) is grouping.group_of[value]
        new = {narrow} - stored if narrow is not None and mine else set()
        stored |= new
        if _is_taken_out(grouping, value, stored, users.get(value, []), narrow is not None):
            stored.discard(value)
        else:
            stored -= new


def _is_taken_out(
    grouping: Grouping,
    value: Value,
    stored: set[Value],
    users: list[tuple[Value, Group]],
    costs_nothing: bool,
) -> bool:
    """Have all who read a value compute it, and return True; False if that costs too much, or is impossible."""
    recipe = _recipe(grouping, value, stored)
    if recipe is None:
        return False
    mine = grouping.group_of[value]
    elsewhere = [(user, group) for user, group in users if group is not mine]
    if not all(_may_compute(user, group, value, costs_nothing) for user, group in elsewhere):
        return False
    new = recipe.again - grouping.inlined
    grouping.inlined |= new
    if any(
        isinstance(read, Obstacle)  # what is no copy of memory cannot be looked at in this way
        for user, group in elsewhere
        for read in grouping.member_leaves(group, user, group)
    ):
        grouping.inlined -= new
        return False
    for group in list(grouping.readers.get(value, ())):
        if group is not mine:
            for leaf in recipe.ingredients:
                grouping.reads(group, leaf)
    return True


def _narrower(grouping: Grouping, value: Value) -> Value | None:
    """Return what may lie in memory in place of a value that is the same in a wider dtype; None if it is not."""
    if value.attributes["function"] != "cast":
        return None
    source = _plain_leaf(grouping, value.inputs[0])
    if source is None or source.primitive not in ("map", "input", "contract"):
        return None
    return source if source.dtype.itemsize < value.dtype.itemsize else None


def _recipe(grouping: Grouping, value: Value, stored: set[Value]) -> Recipe | None:
    """Return how to compute a value again; None if that costs more than to write and read it, or is impossible."""
    figures = grouping.machine.figures
    limit = figures.far_cost if typical(value.nbytes) >= figures.far_bytes else figures.cheap
    again: set[Value] = set()
    ingredients: dict[Value, None] = {}
    cost = 0.0
    stack = [value]
    while stack:
        each = stack.pop()
        if each in again:
            continue
        cost += grouping.machine.cost(each.attributes["function"], each.inputs[-1].dtype)
        again.add(each)
        if cost > limit:
            return None
        for operand in each.inputs:
            leaf = _plain_leaf(grouping, operand)
            if leaf is None:
                return None
            if leaf.primitive == "constant" or leaf in grouping.numbers:
                continue
            if leaf.primitive == "input" or leaf in stored:
                ingredients[leaf] = None
            elif leaf.primitive == "map" and leaf not in grouping.forced and leaf.size == value.size:
                stack.append(leaf)
            else:
                return None
    return Recipe(again, list(ingredients))


def _plain_leaf(grouping: Grouping, operand: Value) -> Value | None:
    """Return what an operand is, if it is that itself in the same order, or one number spread."""
    below = operand
    while not grouping.is_leaf(below) and (
        below.primitive == "reshape" or (below.primitive == "expand" and below.inputs[0].size == 1)
    ):
        below = below.inputs[0]
    known = grouping.is_leaf(below) or below in grouping.numbers
    return below if known and below.size in (operand.size, 1) else None


def _may_compute(user: Value, group: Group, value: Value, often: bool) -> bool:
    """Whether a group may compute an operand of a member by itself, without doing it many times over (or `often`)."""
    if group.kind not in ("loop", "contract") or user.primitive in ("contract", "gather"):
        return False
    if any(i.primitive == "gather" for i in user.inputs):
        return False
    size = user.inputs[0].size if user in group.source else user.size
    return often or typical(size) <= typical(value.size)
