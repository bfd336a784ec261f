"""Which sizes vary. Enters: the shapes of calls that are alike in all else. Leaves: shapes with names for some sizes.

Ints among the arguments vary likewise: they are one more shape, behind those of arrays.

The first call's sizes are numbers. Where a later call has another one, that axis has a name from then on, and one
program serves all of its sizes but 0 and 1, which are never named: whether an axis is empty, or stretches, has to be
known. Axes that were never seen to differ have one name. What cannot vary (a loop over it, a list as long) is fixed
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from minitorch.compiler.ir.polynomial import GREATEST, LEAST

Axis = tuple[int, int]  # which of the arrays among the arguments, and which of its axes
Lengths = tuple[int, ...]
Shapes = Sequence[Lengths]
MOST_SPECIAL = 8  # lengths of one axis; where there are more, there will be others
MOST_INTS = 16  # among the arguments; where there are more, they are a table, and no sizes

Named = tuple[tuple[int | str, ...], ...]


class VaryingShapes:
    """What was seen of the shapes of calls that are alike in all else.

    axes: what has varied. fixed: what cannot, and why. ints: which of the shapes is none, but the ints.
    """

    def __init__(self, first: Shapes, all_of_them: bool = False, ints: int = -1) -> None:
        self.ints = ints
        self.axes: set[Axis] = set(_axes(first)) if all_of_them else set()
        self._lengths: dict[Axis, int] = {}  # the first one seen of each axis, but 0 and 1
        self.fixed: dict[Axis, str] = {}
        self._telling = [tuple(first)]  # shapes by which axes are told apart
        self._compared: set[tuple[Axis, Axis]] = set()  # axes that the function compares
        self._special: dict[Axis, set[int]] = {}  # lengths that the function does something else for
        self._layouts: set[Any] = set()  # the first ones seen
        self.fixed_layout = ""  # why strides cannot vary
        if ints >= 0 and len(first[ints]) > MOST_INTS:
            axes = [axis for axis in _axes(first) if axis[0] == ints]
            self.fix(axes, f"there are more than {MOST_INTS} ints among the arguments")

    def see(self, shapes: Shapes, layouts: Any = None) -> None:
        """Look at the shapes of a call: what differs from those of earlier ones varies."""
        if len(self._layouts) < 2:
            self._layouts.add(layouts)
        long = {a: n for a in _axes(shapes) if (n := _at(shapes, a)) >= LEAST or a[0] == self.ints}
        differing = {a for a, n in long.items() if self._lengths.setdefault(a, n) != n}
        differing -= self.axes | self.fixed.keys()
        self.axes |= differing
        if differing or any(len({_at(shapes, a) for a in group}) > 1 for group in self._groups()):
            self._telling.append(tuple(shapes))

    def fix(self, axes: Iterable[Axis], why: str) -> None:
        """Note that axes cannot vary."""
        for axis in axes:
            self.axes.discard(axis)
            self.fixed[axis] = why

    def except_for(self, axes: Iterable[Axis], shapes: Shapes, why: str) -> None:
        """Note that there is something about the lengths that axes have in a call."""
        for axis in axes:
            special = self._special.setdefault(axis, set())
            special.add(_at(shapes, axis))
            if len(special) > MOST_SPECIAL:
                self.fix([axis], why)

    def compare(self, one: Axis, other: Axis) -> None:
        """Note that what the function does depends on whether two axes are equally long."""
        self._compared.add((one, other))

    def named(self, shapes: Shapes) -> Named | None:
        """Return shapes with names for what varies; None if nothing does, or axes have to be told apart first.

        If it is strides alone, nothing has a name.
        """
        if self.fixed_layout:
            return None
        varying = {
            a
            for a in self.axes
            if LEAST <= (n := _at(shapes, a)) <= GREATEST and n not in self._special.get(a, ())
        }
        if not varying:
            return tuple(shapes) if len(self._layouts) > 1 and not self.axes else None
        name: dict[Axis, str] = {}
        for group in self._groups():
            if len({_at(shapes, a) for a in group}) > 1:
                return None
            group = [a for a in group if a in varying]
            if group:
                equals = [
                    name[other]
                    for one, two in self._compared
                    for axis, other in ((one, two), (two, one))
                    if axis in group and other in name and _at(shapes, one) == _at(shapes, two)
                ]
                name.update(dict.fromkeys(group, equals[0] if equals else f"s{len(set(name.values()))}"))
        return tuple(
            tuple(name.get((leaf, axis), n) for axis, n in enumerate(shape))
            for leaf, shape in enumerate(shapes)
        )

    def _groups(self) -> list[list[Axis]]:
        """Return the axes that vary, those together that were never seen to differ."""
        groups: dict[Lengths, list[Axis]] = {}
        for axis in sorted(self.axes):
            groups.setdefault(tuple(_at(shapes, axis) for shapes in self._telling), []).append(axis)
        return list(groups.values())


Place = tuple[int, Any]  # the id of what holds a number, and by which key


class VaryingNumbers:
    """Which ints that a function reads by itself (attributes, items, variables) may be sizes that vary.

    fixed: those that cannot, and why.
    """

    def __init__(self) -> None:
        self.fixed: dict[Place, str] = {}
        self._special: dict[Place, set[int]] = {}

    def may_vary(self, place: Place, now: int) -> bool:
        """Tell whether an int may be a size that varies, in a call in which it is this."""
        return place not in self.fixed and now not in self._special.get(place, ())

    def except_for(self, place: Place, now: int, why: str) -> None:
        """Note that there is something about an int as it is in a call."""
        special = self._special.setdefault(place, set())
        special.add(now)
        if len(special) > MOST_SPECIAL:
            self.fixed[place] = why


def _axes(shapes: Shapes) -> Iterator[Axis]:
    return ((leaf, axis) for leaf, shape in enumerate(shapes) for axis in range(len(shape)))


def _at(shapes: Shapes, axis: Axis) -> int:
    return shapes[axis[0]][axis[1]]


def places_of(shapes: Sequence[Sequence[int | str]]) -> dict[str, list[Axis]]:
    """Return where each name stands in shapes."""
    found: dict[str, list[Axis]] = {}
    for leaf, shape in enumerate(shapes):
        for axis, n in enumerate(shape):
            if isinstance(n, str):
                found.setdefault(n, []).append((leaf, axis))
    return found
