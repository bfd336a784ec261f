"""The short way into a program: one Python function per program, written out for it.

Enters: a Specialisation that runs natively. Leaves: a function of the arguments that checks everything the long way
(front.py) checks, calls the machine code and makes the results; or gives MISS, having done nothing, for the long way
to see to. On small models a step's arithmetic takes less time than a few Python calls: so nothing is looked up here
that can be known beforehand, and the source is generated.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm.native import HELD_BY_POOL, SMALL, Native
from minitorch.compiler.call.compiled import MISS, Leaf, filled
from minitorch.compiler.trace.recorder import (
    Draw,
    FromArgument,
    FromArray,
    FromScript,
    FromTensor,
    ReadNumber,
)
from minitorch.engine import dtypes, recording, watch
from minitorch.engine.dtypes import get_default_dtype
from minitorch.engine.modes import current
from minitorch.engine.node import Node
from minitorch.tensor import Tensor


class Cannot(Exception):
    """This program has no short way."""


class _Source:
    """Python source being written, and the objects it names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.globals: list[str] = []  # names that the function changes

    def add(self, line: str) -> None:
        self.lines.append("    " + line)

    def bind(self, thing: Any) -> str:
        name = f"k{len(self.names)}"
        self.names[name] = thing
        return name


def make_entry(program: Any, enabled: bool) -> Any:
    """Return the short way into a program, or None if it has none."""
    try:
        return _Writer(program, enabled).write()
    except Cannot:
        return None


class _Writer:
    def __init__(self, program: Any, enabled: bool) -> None:
        if not isinstance(program.runner, Native) or program.backward is not None:
            raise Cannot
        self.program = program
        self.recorded = program.recorded
        self.native: Native = program.runner
        self.enabled = enabled
        self.source = _Source()

    def write(self) -> Any:
        s = self.source
        s.lines.append("def fast(args):")
        self._modes()
        self._arguments()
        self._world()
        inputs = self._inputs()
        self._run(inputs)
        self._results()
        s.lines.insert(1, f"    global {', '.join(s.globals)}")
        text = "\n".join(s.lines)
        space = dict(s.names)
        exec(compile(text, "<the short way into a compiled function>", "exec"), space)
        fast = space["fast"]
        fast.source = text
        return fast

    # --- before anything is done ----------------------------------------------------------------------------

    def _modes(self) -> None:
        s = self.source
        s.names.update(MISS=MISS, recordings=recording.recordings, current=current, changes=recording.changes)
        s.names.update(dtypes=dtypes, Tensor=Tensor, owner_of=watch.owner_of, ref=weakref.ref)
        s.names.update(usual=current() if current().enabled is self.enabled else None)
        s.add("mode = current()")
        s.add(
            f"if recordings or mode is not usual and (mode.enabled is not {self.enabled} or mode.observers "
            f"or mode.gradient_check is not None) or dtypes._default is not {s.bind(get_default_dtype())}: return MISS"
        )

    def _arguments(self) -> None:
        """Check that the arguments are of the kind the program was made for."""
        s = self.source
        structure, options = self.program.key[0]
        if options:
            raise Cannot
        self.leaf_names: list[str] = []
        self._signatures = iter(self.program.key[1:])
        written = {id(watch.owner_of(self._updated_array(u.input))) for u in self.recorded.updates}
        self.written = s.bind(written)
        self._part("args", structure)
        for i, one in enumerate(self.leaf_names):
            for two in self.leaf_names[:i]:
                s.add(f"if {one} is {two}: return MISS")

    def _part(self, name: str, part: Any) -> None:
        """Check one argument, or what is in a list, tuple or dict of them."""
        s = self.source
        if part == ("leaf",):
            self._argument(name, next(self._signatures), len(self.leaf_names))
            self.leaf_names.append(name)
            return
        kind, *inside = part
        if kind in (tuple, list):
            s.add(f"if {name}.__class__ is not {s.bind(kind)} or len({name}) != {len(inside)}: return MISS")
            names = [f"{'a' if name == 'args' else name + '_'}{i}" for i in range(len(inside))]
            if names:
                s.add(f"{', '.join(names)}, = {name}")
            for one, each in zip(names, inside, strict=True):
                self._part(one, each)
        elif kind in (int, bool, str, type(None)):
            s.add(f"if {name}.__class__ is not {s.bind(kind)} or {name} != {s.bind(inside[0])}: return MISS")
        else:
            raise Cannot

    def _argument(self, name: str, signature: tuple[Any, ...], number: int) -> None:
        s = self.source
        kind, shape, dtype, contiguous, *of_tensor = signature
        if not contiguous:
            raise Cannot
        array = f"d{number}"
        if issubclass(kind, Node):
            requires_grad, is_leaf, no_gradient, hooks = of_tensor
            if hooks or not is_leaf:
                raise Cannot
            s.add(f"if {name}.__class__ is not {s.bind(kind)}: return MISS")
            if requires_grad:
                s.add(
                    f"if not {name}._requires_grad or {name}._operation is not None or {name}._hooks "
                    f"or ({name}._gradient is None) is not {no_gradient}: return MISS"
                )
            else:
                s.add(f"if {name}._requires_grad: return MISS")
            s.add(f"{array} = {name}._array")
        else:
            s.add(f"{array} = {name}")
        # The same array as last time needs no second look; it is remembered without being kept alive.
        last = s.bind([_nothing])
        s.add(f"if {last}[0]() is not {array}:")
        s.add(
            f"    if {array}.__class__ is not {s.bind(np.ndarray)} or {array}.shape != {shape!r} "
            f"or {array}.dtype != {s.bind(dtype)} or not {array}.flags.c_contiguous: return MISS"
        )
        s.add(f"    if id(owner_of({array})) in {self.written}: return MISS")
        s.add(f"    {last}[0] = ref({array})")

    def _updated_array(self, number: int) -> np.ndarray:
        source = self.recorded.sources[number]
        if not isinstance(source, FromTensor):
            raise Cannot  # an argument that is written into
        return source.tensor._data

    def _world(self) -> None:
        s = self.source
        world = self.program.world
        # Everything that reports its changes is looked at only when there were any.
        s.globals.append("seen")
        s.names["seen"] = -1
        s.add("if changes[0] != seen:")
        s.add(f"    if not {s.bind(world.holds)}(): return MISS")
        s.add("    seen = changes[0]")
        conditions = world._conditions[False]
        if len(conditions) > 400:
            s.add(f"if not {s.bind(world._check_plain)}(): return MISS")
        elif conditions:
            s.names.update(world._bound)  # its names begin with o, ours with k
            s.add("try:")
            s.add(f"    if not ({' and '.join(conditions)}): return MISS")
            s.add("except (KeyError, AttributeError, IndexError, ValueError): return MISS")
        for question, answer in self.recorded.decisions:
            s.add(f"if {s.bind(question)}() != {s.bind(answer)}: return MISS")

    def _inputs(self) -> list[str]:
        """Write how each input is read; return their names."""
        s = self.source
        names: dict[int, str] = {}
        tensors: dict[int, str] = {}
        later = []
        for i, source in enumerate(self.recorded.sources):
            if isinstance(source, FromTensor):
                array = source.tensor._data
                if not array.flags.c_contiguous:
                    raise Cannot
                tensors[i] = s.bind(source.tensor)
                names[i] = s.bind(array)
                s.add(f"if {tensors[i]}._array is not {names[i]}: return MISS")
            elif isinstance(source, FromArgument) and not source.gradient:
                names[i] = f"d{source.position}"
            elif isinstance(source, FromArray):
                if not source.array.flags.c_contiguous:
                    raise Cannot
                names[i] = s.bind(source.array)
            elif isinstance(source, FromScript):
                later.append((i, source.step))
            else:
                raise Cannot
        # Numbers are read and looked at first: from the first draw or effect on, nothing can be given up any more.
        script = list(enumerate(self.recorded.script))
        first = next((n for n, step in script if not isinstance(step, ReadNumber)), len(script))
        for number, step in script[:first]:
            s.add(f"n{number} = {self._number(step)}")
            s.add(f"if n{number}.__class__ is not float: return MISS")
        for number, step in script[first:]:
            if isinstance(step, ReadNumber):
                s.add(f"n{number} = float({self._number(step)})")
            elif isinstance(step, Draw):
                s.add(
                    f"n{number} = {s.bind(step.method)}({', '.join(map(s.bind, (step.source, *step.args)))})"
                )
            else:
                s.add(f"{s.bind(step.run)}()")
        for i, step in later:
            names[i] = f"n{step}"
            if isinstance(self.recorded.script[step], ReadNumber) != (i in self.native.numbers):
                raise Cannot
        return [names[i] for i in range(len(names))]

    def _number(self, step: ReadNumber) -> str:
        holder = self.source.bind(step.holder)
        return f"{holder}[{step.key!r}]" if isinstance(step.holder, dict) else f"{holder}.{step.key}"

    # --- running --------------------------------------------------------------------------------------------------

    def _run(self, inputs: list[str]) -> None:
        s = self.source
        native = self.native
        s.names.update(empty=np.empty, getrefcount=sys.getrefcount)
        holders = {r.output: r for r in self.recorded.rebinds if r.output is not None}
        outputs = []
        for i in native.given:
            value = self.recorded.program.outputs[i]
            rebind = holders.get(i)
            if rebind is not None and (rebind.attribute != "_grad" or isinstance(rebind.tensor, int)):
                raise Cannot
            if rebind is not None and i not in native.native.early:
                # The gradient of the last call is overwritten, if it is still there and nobody else holds it.
                tensor, last = s.bind(rebind.tensor), f"g{i}"
                s.globals.append(last)
                # The one of the call just made is such an array; the pool's others are not needed on this way.
                arrays = native.pools[i].arrays
                s.names[last] = next((a for a in arrays if a is rebind.tensor._grad), None)
                arrays.clear()
                s.add(f"r{i} = {tensor}._gradient")
                s.add(f"if r{i} is not {last} or getrefcount(r{i}) != {ALONE + 1}:")
                s.add(f"    r{i} = {last} = empty({value.shape!r}, {s.bind(value.dtype)})")
            elif value.nbytes < SMALL:
                s.add(f"r{i} = empty({value.shape!r}, {s.bind(value.dtype)})")
            else:
                s.add(f"r{i} = {s.bind(native.pools[i].take)}()")
            outputs.append(f"r{i}")
        s.add(
            f"if {s.bind(native.entry)}({', '.join([*inputs, *outputs])}) is not None: {s.bind(native.fail)}()"
        )
        if self.recorded.updates:
            group = watch.Group([self._updated_array(u.input) for u in self.recorded.updates])
            s.names.update(watch=watch, tick=watch.tick)
            s.add(f"watch._last_change = {s.bind(group)}.time = tick()")
        for rebind in self.recorded.rebinds:
            tensor = (
                f"{self.leaf_names[rebind.tensor]}"
                if isinstance(rebind.tensor, int)
                else s.bind(rebind.tensor)
            )
            s.add(f"{tensor}._gradient = {'None' if rebind.output is None else f'r{rebind.output}'}")
            if rebind.output is not None:
                s.add(f"{tensor}._grad_is_shared = False")

    def _results(self) -> None:
        s = self.source
        program = self.program
        s.add(f"{s.bind(program)}.calls += 1")
        names = []
        s.names.update(new=object.__new__, tick=watch.tick, nothing={})
        for i, (same, kind) in enumerate(zip(program.leaves, program.kinds, strict=True)):
            if same is not None:
                names.append(self.leaf_names[same] if isinstance(same, int) else s.bind(same))
            elif kind is None:
                names.append(f"r{i}")
            else:
                used_up = kind is not True
                s.add(f"t{i} = new(Tensor)")
                s.add(f"t{i}._array = r{i}")
                s.add(f"t{i}._gradient = t{i}._hooks = None")
                s.add(f"t{i}._requires_grad = {used_up}")
                s.add(f"t{i}._operation = {s.bind(kind) if used_up else None}")
                s.add(f"t{i}._inputs = ()")
                s.add(f"t{i}._attributes = nothing")
                s.add(f"t{i}._time = tick()")
                names.append(f"t{i}")
        if isinstance(program.shape, Leaf):
            s.add(f"return {names[program.shape.number]}")
        elif not names:
            s.add(f"return {s.bind(program.shape)}")
        else:
            s.add(f"return {s.bind(filled)}({s.bind(program.shape)}, [{', '.join(names)}])")


def _nothing() -> Any:
    """What a weak reference to nothing gives."""
    return None


class _Slot:
    __slots__ = ("array",)

    def __init__(self, array: np.ndarray) -> None:
        self.array = array


_probe = _Slot(np.zeros(1))


def _alone() -> int:
    held = _probe.array
    return sys.getrefcount(held)


# What sys.getrefcount says of an array that a Tensor and a name here hold; measured, not assumed.
ALONE = _alone()
assert HELD_BY_POOL <= ALONE
