"""Images whose channels are neighbours in memory. Enters: a Program with convolutions. Leaves: one that computes so.

Programs have images as (batch, channels, rows, columns). A library for convolutions is fastest where they lie as
(batch, rows, columns, channels), so here convolutions are written that way, and so is everything that is computed of
their results element by element: what others read is a view of it, which costs nothing. Nothing is copied but what
enters and leaves that part of the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from minitorch.compiler.backends.cuda.convolutions import Convolution, convolution, present, sizes_of
from minitorch.compiler.ir import builder
from minitorch.compiler.ir.program import Program, Shape, Value
from minitorch.compiler.ir.simplify import simplify
from minitorch.compiler.ir.sizes import surely_at_most, surely_equal

IMAGES = (3, 4, 5)  # axes: a batch, channels, and places in one to three dimensions


def to_last(ndim: int) -> tuple[int, ...]:
    """Return axes in another order: channels, the second of them, become the last."""
    return (0, *range(2, ndim), 1)


def to_first(ndim: int) -> tuple[int, ...]:
    """Return axes in another order: channels, the last of them, become the second."""
    return (0, ndim - 1, *range(1, ndim - 1))


def channels_last(program: Program, wanted: Callable[[Value, Convolution], bool]) -> Program:
    """Return a program with its convolutions, and what is computed of them, turned. wanted: tells which of them."""
    if all(value.primitive != "window" for value in program.values()):
        return program
    program = _trimmed(simplify(program))
    found = {value: convolution(value) for value in program.values() if value.primitive == "contract"}
    chosen = {value: each for value, each in found.items() if each is not None and wanted(value, each)}
    if not chosen:
        return program
    turning = _Turning(chosen)
    for value in program.values():
        turning.take(value)
    outputs = [turning.now[value] for value in program.outputs]
    return Program(program.inputs, outputs, program.guards)


def _trimmed(program: Program) -> Program:
    """Return a program in which a part of a convolution's places is a convolution with a smaller border."""
    now: dict[Value, Value] = {}
    readers: dict[Value, list[Value]] = {each: [each] for each in program.outputs}
    for value in program.values():
        for each in value.inputs:
            readers.setdefault(each, []).append(value)
    for value in program.values():
        made = None
        if value.primitive == "slice":
            made = _with_smaller_border(value, readers, now)
        if made is None:
            inputs = tuple(now[each] for each in value.inputs)
            same = inputs == value.inputs
            made = (
                value if same else Value(value.primitive, inputs, value.attributes, value.shape, value.dtype)
            )
        _take_line(made, value)
        now[value] = made
    return Program(program.inputs, [now[value] for value in program.outputs], program.guards)


def _with_smaller_border(
    value: Value, readers: dict[Value, list[Value]], now: dict[Value, Value]
) -> Value | None:
    """Return a slice of a convolution as one of a convolution with a smaller border, or None.

    readers: of each value; all of the whole convolution's are to leave the same places out.
    """
    how, whole = value.attributes, value.inputs[0]
    product = whole.inputs[0] if whole.primitive == "reshape" else whole
    found = convolution(product) if product.primitive == "contract" else None
    if found is None or found.of_filters or len(found.made) > 1:
        return None
    grouped = whole is not product
    if grouped and (readers[product] != [whole] or not _joins_groups(whole, product, found)):
        return None
    window, image = found.window.attributes, found.window.inputs[0]
    parts, _, out = product.attributes["spec"].partition("->")
    along = {c: axis for c, axis in zip(found.places[1:], window["axes"], strict=True) if c in out}
    across = {out.index(c) - grouped: axis for c, axis in along.items()}
    if (
        image.primitive != "pad"
        or any(step != 1 for step in window["strides"])
        or not all(
            each.primitive == "slice" and _cut(each, across) == _cut(value, across) for each in readers[whole]
        )
        or any(how["steps"][i] != 1 for i in across)
    ):
        return None
    low, high = list(image.attributes["low"]), list(image.attributes["high"])
    for i, axis in across.items():
        low[axis] -= how["starts"][i]
        high[axis] -= whole.shape[i] - how["starts"][i] - value.shape[i]
    if not all(surely_at_most(0, width) for width in (*low, *high)):
        return None
    padded = builder.pad(now[image.inputs[0]], low, high, image.attributes["value"])
    names = ("axes", "sizes", "strides", "dilations")
    windows = builder.window(padded, *(window[name] for name in names))
    first = parts.partition(",")[0]
    sizes = dict(zip(first, product.inputs[0].shape, strict=True))
    sizes |= {c: windows.shape[axis] for c, axis in along.items()}
    windows = builder.reshape(windows, tuple(sizes[c] for c in first))
    made = builder.contract(product.attributes["spec"], windows, now[found.other])
    if grouped:
        made = builder.reshape(made, (*whole.shape[:2], *made.shape[3:]))
    starts = [0 if i in across else start for i, start in enumerate(how["starts"])]
    return builder.slice_axes(made, tuple(starts), value.shape, how["steps"])


def _joins_groups(whole: Value, product: Value, found: Convolution) -> bool:
    """Whether a reshape makes one axis, the second, of the groups of a convolution and of what each of them makes."""
    out = product.attributes["spec"].partition("->")[2]
    first = bool(found.group) and found.channels_first
    as_known = out == found.places[0] + found.group + found.made + found.places[1:]
    kept = (*product.shape[:1], *product.shape[3:])
    return first and as_known and surely_equal((*whole.shape[:1], *whole.shape[2:]), kept)


def _cut(value: Value, axes: Iterable[int]) -> list[Any]:
    """Return what a slice leaves of some axes."""
    return [value.attributes[name][axis] for name in ("starts", "counts", "steps") for axis in axes]


class _Turning:
    """now: what stands for each value. last: for those that are computed with their channels last, that."""

    def __init__(self, chosen: dict[Value, Convolution]) -> None:
        self.chosen = chosen
        self.now: dict[Value, Value] = {}
        self.last: dict[Value, Value] = {}

    def take(self, value: Value) -> None:
        """Write a value."""
        made = self._turned(value)
        if made is not None:
            _take_line(made, value)
            self.last[value] = made
            self.now[value] = builder.permute(made, to_first(made.ndim))
            return
        if value in self.chosen:
            made = self.convolved(value, self.chosen[value])
        elif (
            value.primitive == "window" and value.inputs[0] in self.last and 0 not in value.attributes["axes"]
        ):
            made = self.windows(value)
        else:
            inputs = tuple(self.now[each] for each in value.inputs)
            made = value
            if inputs != value.inputs:
                made = Value(value.primitive, inputs, value.attributes, value.shape, value.dtype)
        _take_line(made, value)
        self.now[value] = made

    def _turned(self, value: Value) -> Value | None:
        """Return a value with its channels last; None if it is not one to be computed so."""
        if value.ndim not in IMAGES:
            return None
        inputs = value.inputs
        if value in self.chosen:
            found = self.chosen[value]
            if found.of_filters or len(found.made) > 1 or found.group or value.ndim != len(found.taps) + 2:
                return None
            return self.convolved(value, found, turned=True)
        if value.primitive == "reshape" and inputs[0] in self.chosen and inputs[0] not in self.last:
            found = self.chosen[inputs[0]]  # in groups, or of one image
            whole = not found.of_filters and len(found.made) == 1 and value.ndim == len(found.taps) + 2
            return self.view(self.of(value)) if whole else None
        if not any(each in self.last for each in inputs):
            return None
        if value.primitive == "map":
            operands = tuple(self.view(self.now[each]) for each in inputs)
            shape = tuple(value.shape[axis] for axis in to_last(value.ndim))
            return Value("map", operands, value.attributes, shape, value.dtype)
        if value.primitive in ("pad", "slice"):
            return self.view(self.of(value))
        if value.primitive == "concatenate":
            parts = [self.view(self.now[each]) for each in inputs]
            return builder.concatenate(parts, to_last(value.ndim).index(value.attributes["axis"]))
        return self.mixed(value) if value.primitive == "contract" else None

    def of(self, value: Value) -> Value:
        """Return a value of one input, of what that is now."""
        below = self.now[value.inputs[0]]
        return Value(value.primitive, (below,), value.attributes, value.shape, value.dtype)

    def mixed(self, value: Value) -> Value | None:
        """Return a convolution of single places: a product with its result's channels last."""
        parts, _, out = value.attributes["spec"].partition("->")
        first, second = parts.split(",")
        batch, channel, *places = first
        if value.inputs[0] not in self.last or len(second) != 2 or channel not in second:
            return None
        (made,) = (c for c in second if c != channel)
        if list(out) != [batch, made, *places]:
            return None
        order = "".join((batch, *places, made))
        return builder.contract(f"{parts}->{order}", *(self.now[each] for each in value.inputs))

    def view(self, value: Value) -> Value:
        """Return an image with its channels last: of what lies below its views, if that is possible."""
        order = to_last(value.ndim)
        shape = tuple(value.shape[axis] for axis in order)
        if value.primitive == "expand":
            return builder.expand(self.view(value.inputs[0]), shape)
        if value.primitive in ("pad", "slice"):
            turned = {
                name: tuple(each[axis] for axis in order) if isinstance(each, tuple) else each
                for name, each in value.attributes.items()
            }
            return Value(value.primitive, (self.view(value.inputs[0]),), turned, shape, value.dtype)
        if value.primitive == "reshape":
            below = value.inputs[0]
            parts = _axes_of_each(below.shape, value.shape)
            if parts is not None:
                whole = [axis for part in order for axis in parts[part]]
                return builder.reshape(builder.permute(below, whole), shape)
        return builder.permute(value, order)

    def windows(self, value: Value) -> Value:
        """Return windows of an image whose channels are last, as they were with its channels first."""
        how, image = value.attributes, self.last[value.inputs[0]]
        axes = tuple(to_last(image.ndim).index(axis) for axis in how["axes"])
        made = builder.window(image, axes, how["sizes"], how["strides"], how["dilations"])
        return builder.permute(made, (*to_first(image.ndim), *range(image.ndim, made.ndim)))

    def convolved(self, value: Value, found: Convolution, turned: bool = False) -> Value:
        """Return a convolution, computed as a library likes it. turned: whether its result stays so."""
        how = found.window.attributes
        images = self.view(self.now[found.window.inputs[0]])
        dims = len(found.taps)
        along = tuple(range(1, dims + 1))
        windows = builder.window(images, along, how["sizes"], how["strides"], how["dilations"])
        group = found.group
        parts, _, out = value.attributes["spec"].partition("->")
        second = parts.partition(",")[2]
        factor = self.now[found.other]
        filters, results = group + found.made + found.taps + found.channel, found.places + group + found.made
        wanted, result = (results, filters) if found.of_filters else (filters, results)
        sizes = sizes_of(value, found)
        count = math.prod(sizes[c] for c in found.made)
        ordered = builder.permute(factor, [second.index(c) for c in present(wanted)])
        rest = [sizes[c] for c in wanted if c not in found.made]
        first = len(rest) if found.of_filters else len(group)
        together = (*rest[:first], count, *rest[first:])
        g, places, taps = "g" if group else "", "uvw"[:dims], "xyz"[:dims]
        letters = f"{g}o{taps}c", f"n{places}{g}o"
        spec = f"n{places}{g}c{taps}," + "->".join(reversed(letters) if found.of_filters else letters)
        if group:
            outer, inner = windows.shape[: dims + 1], windows.shape[dims + 2 :]
            windows = builder.reshape(windows, (*outer, sizes[group], sizes[found.channel], *inner))
        made = builder.contract(spec, windows, builder.reshape(ordered, together))
        if turned:
            return made
        result = present(result)
        made = builder.reshape(made, tuple(sizes[c] for c in result))
        return builder.permute(made, [result.index(c) for c in out])


def _take_line(made: Value, value: Value) -> None:
    if made is not value and made.line is None:
        made.line = value.line


def _axes_of_each(before: Shape, after: Shape) -> list[list[int]] | None:
    """Return, for each axis of a reshaped array, which axes it was made of; None if it is not made of whole ones."""
    parts: list[list[int]] = []
    axis = 0
    for n in after:
        part: list[int] = []
        count = 1
        while not surely_equal(count, n):
            if axis == len(before):
                return None
            part.append(axis)
            count *= before[axis]
            axis += 1
        parts.append(part)
    if not all(surely_equal(n, 1) for n in before[axis:]):
        return None
    parts[-1] += range(axis, len(before))
    return parts
