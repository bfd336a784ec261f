"""What ops write down, remembered. Enters: an op's function, and pending arrays. Leaves: what it gives of them.

An op's forward, or a derivative rule, writes the same values down whenever its arguments have the same shapes and
dtypes. So it runs once; from then on its values are written down from a template, without running it. Only where it did
nothing else: looked at no number, drew none, wrote into nothing that was there before, and made what it gives from its
arguments and small constants alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitorch.compiler.ir.program import Value
from minitorch.compiler.trace.kinds import INPUT, kind_of
from minitorch.compiler.trace.pending import Pending, pending
from minitorch.ops.op import Op

MOST_TEMPLATES = 4096  # then all are forgotten
# What a value is made by that whoever reads it may see through.
_SEEN_THROUGH = {"reshape", "permute", "expand"}
# And what an argument may be of which numbers, or bounds of them, are known: then nothing is remembered.
_KNOWN = {"constant", "iota", "arg_reduce"}
_PLAIN = (int, bool, str, type(None), type, slice)


class Template:
    """Values over arguments: how each is made, its operands by their places behind the arguments' values."""

    __slots__ = ("gathered", "results", "steps")

    def __init__(self, steps: list[Any], results: list[int | None], gathered: type | None) -> None:
        self.steps = steps
        self.results = results
        self.gathered = gathered  # how several results are given: as a tuple, or a list

    def written_down(self, values: list[Value]) -> Any:
        """Write it down over other values."""
        for primitive, operands, attributes, shape, dtype, kind in self.steps:
            value = Value(primitive, tuple([values[i] for i in operands]), attributes, shape, dtype)
            value.kind = kind
            values.append(value)
        found = [None if place is None else pending(values[place]) for place in self.results]
        return found[0] if self.gathered is None else self.gathered(found)


def key_of(
    op: Op, which: Any, args: Sequence[Any], attributes: dict[str, Any]
) -> tuple[Any, list[Value]] | None:
    """Return what the template of a function of an op is found by, and its arguments' values; None if there is none."""
    parts: list[Any] = [op, which]
    places: dict[Value, int] = {}
    if not _describe(args, parts, places):
        return None
    if not any(value.shape for value in places):  # single numbers may be there, and be computed at once
        return None
    for name, each in attributes.items():
        if each.__class__ is float:
            parts.append((name, each.hex()))  # (of zeros, the sign too)
        elif each.__class__ is tuple and any(part.__class__ is float for part in each):
            return None
        else:
            parts.append((name, each.__class__, each))
    key = tuple(parts)
    try:
        hash(key)
    except TypeError:
        return None
    return key, list(places)


def _describe(args: Sequence[Any], parts: list[Any], places: dict[Value, int]) -> bool:
    """Add what there is to say of arguments to the parts of a key, and their values; tell whether that was possible."""
    for each in args:
        kind = each.__class__
        if kind is Pending:
            value, array = each.value, each._array
            parts.append((array.shape, array.dtype, array.strides))
            # What a value is a view of may be looked at in its place.
            while value not in places and value.primitive in _SEEN_THROUGH:
                parts += (value.primitive, *value.attributes.values(), value.inputs[0].shape)
                places[value] = len(places)
                (value,) = value.inputs
            parts.append(places.setdefault(value, len(places)))
            if value.primitive == "constant" and value.size == 1:  # zeros, say: that number alone is known
                parts.append(value.attributes["array"].tobytes())
            elif each._known or value.primitive in _KNOWN:
                return False
        elif kind in _PLAIN:
            parts.append((kind, each))
        elif isinstance(each, (list, tuple)):
            parts.append((kind, len(each)))
            if not _describe(each, parts, places):
                return False
        else:
            return False
    return True


def template_of(values: list[Value], first: int, result: Any) -> Template | None:
    """Return what was written down since the value of this number as a template; None if it is not all there is to it.

    values: those of the arguments, and of what they are views of.
    """
    gathered = type(result) if type(result) in (tuple, list) else None
    results = (result,) if gathered is None else result
    places = {value: i for i, value in enumerate(values)}
    for each in results:
        if each is not None and (
            each.__class__ is not Pending
            or each.root()._memory is not None
            or each.root()._value in places  # an argument, or a view of one
            or each._value in places
            or each._known
            or not each._array.flags.c_contiguous
        ):
            return None
    needed: set[Value] = set()
    waiting = [each._value for each in results if each is not None]
    while waiting:
        value = waiting.pop()
        if value in places or value in needed:
            continue
        if value.number < first or kind_of(value) % 4 == INPUT:
            return None
        needed.add(value)
        waiting += value.inputs
    steps = []
    for value in sorted(needed, key=lambda each: each.number):
        operands = tuple(places[i] for i in value.inputs)
        places[value] = len(places)
        steps.append((value.primitive, operands, value.attributes, value.shape, value.dtype, kind_of(value)))
    return Template(steps, [None if each is None else places[each._value] for each in results], gathered)
