"""The entry of a program: one Python function, written out for it from the conditions under which it may be used.

Enters: a Specialisation that runs natively. Leaves: a function of the arguments that looks at all its conditions,
calls the machine code and makes the results; or gives MISS, having done nothing, where one does not hold. On small
models a step's arithmetic takes less time than a few Python calls: so nothing is looked up here that can be known
beforehand.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.words import ALIGNMENT
from minitorch.compiler.backends.llvm.native import HELD_BY_POOL, SMALL, Native, VaryingNative
from minitorch.compiler.backends.llvm.stream import native_stream
from minitorch.compiler.call.conditions import Condition, Requirement, SourceCode, compiled_from
from minitorch.compiler.call.containers import Leaf, filled
from minitorch.compiler.call.key import Layout
from minitorch.compiler.call.specialisation import SAMPLED, Redecided, Specialisation, laid_out
from minitorch.compiler.call.there import DeviceProgram
from minitorch.compiler.ir.sizes import hint, is_fixed
from minitorch.compiler.trace.observe.observer import PLAIN
from minitorch.compiler.trace.recorded import (
    Draw,
    Effect,
    FromArgument,
    FromArray,
    FromPlace,
    FromScript,
    FromTensor,
    ReadNumber,
    Rebind,
    look_at,
)
from minitorch.engine import recording, watch
from minitorch.engine.fast import new_result
from minitorch.engine.gpu import on_host
from minitorch.engine.modes import Mode
from minitorch.engine.recording import GIVE_GRADIENT, GRADIENT, TAKE_GRADIENT
from minitorch.tensor.generator import draw_natively
from minitorch.tensor.plain import PlainArray

MOST_WRITTEN_OUT = 400  # guards; more of them are looked at by a call
MANY_DRAWN = 1000  # numbers of one draw from which on it pays to load machine code that draws them


class _NoEntry(Exception):
    """This program has no entry of its own."""


def make_entry(program: Specialisation, usual: Mode) -> Any:
    """Return the entry of a program, or None if it has none. usual: the mode of the call just made."""
    writer = _DeviceEntryWriter if isinstance(program.runner, DeviceProgram) else _EntryWriter
    try:
        return writer(program, usual).write()
    except _NoEntry:
        return None


class _EntryWriter:
    runs: Any = (Native, VaryingNative)

    def __init__(self, program: Specialisation, usual: Mode) -> None:
        key = program.key
        if not isinstance(program.runner, self.runs) or program.writes_arguments:
            raise _NoEntry
        if not all(leaf.contiguous is True or isinstance(leaf.contiguous, Layout) for leaf in key.leaves):
            raise _NoEntry
        self.program = program
        self.recorded = program.recorded
        self.native: Any = program.runner
        self.source = SourceCode()
        self.spelled = program.spelled(usual)
        self._prepare()

    def _prepare(self) -> None:
        self.empty: Any = np.empty
        self.early: Any = self.native.native.early
        self.pooled: Any = self.runs  # which programs keep arrays for their results

    def write(self) -> Any:
        """Return the function."""
        s = self.source
        s.lines.append("def entry(args, options):")
        self._conditions()
        self._run(self._inputs())
        self._results()
        s.lines.insert(1, f"    global {', '.join(s.globals)}")
        return compiled_from(s, "entry", "<the entry of a compiled function>")

    # --- before anything is done ----------------------------------------------------------------------------

    def _conditions(self) -> None:
        """Write all that must hold: what Specialisation.requirements lists, in its order."""
        s, program = self.source, self.program
        spelled = self.spelled.requirements
        reported = [each for each in spelled if isinstance(each, Condition) and each.reported]
        self._write(each for each in spelled if each not in reported)
        # Everything that reports its changes is looked at only when there were any.
        s.globals.append("seen")
        s.names.update(seen=-1, changes=recording.changes)
        s.add("if changes[0] != seen:")
        s.require(reported, indent="    ")
        s.add(f"    if not {s.bind(program.environment.holds)}(): return MISS")
        s.add("    seen = changes[0]")
        s.require(program.size_conditions)
        for number in program.key.inputs:
            s.add(f"{s.bind(program.given)}.n{number} = {self.spelled.numbers[number]}")
        guards = program.environment.unreported
        if len(guards) > MOST_WRITTEN_OUT:
            s.add(f"if not {s.bind(program.environment.unreported_hold)}(): return MISS")
            guards = []
        if program.sized:
            s.add("try:")
            s.require(guards, indent="    ")
            s.lines += [f"    {line}" for line in self._readings()]
            s.add("except GONE: return MISS")
            s.require(program.number_conditions)
            guards = []
        if program.names and program.audits.wanted and not program.audited_elsewhere:
            # The first call with other sizes is audited.
            s.add(f"if ({', '.join(program.names)}, ) != {tuple(program.hints.values())}: return MISS")
        if program.apart:
            s.add(f"if ({', '.join(program.names)}, ) in {s.bind(program.apart)}: return MISS")
        for name in program.names:
            s.add(f"{s.bind(program.given)}.{name} = {name}")
        if program.samples:
            whose = weakref.ref(program)  # (no method: it would hold the program, which holds this)
            turn = itertools.cycle(range(SAMPLED))
            s.add(f"if not next({s.bind(turn)}): {s.bind(whose)}().sample()")
        if guards or program.decisions:
            s.add("try:")
            s.require([*guards, *program.decisions], indent="    ")
            s.add("except GONE: return MISS")
        self._write([*program.identities(self.spelled.leaves), *program.places_apart()])
        self._write(program.captured)
        for rebind in self.recorded.rebinds:
            if rebind.in_place:
                self._gradient_to_write(rebind)

    def _gradient_to_write(self, rebind: Rebind) -> None:
        """Write that an output goes right into the gradient that is there: the last call's, or another that serves."""
        s, i = self.source, rebind.output
        if i is None or i in self.early or isinstance(rebind.tensor, int):
            raise _NoEntry
        output = self.recorded.program.outputs[i]
        if not is_fixed(*output.shape) or not output.size:
            raise _NoEntry
        tensor, last = s.bind(rebind.tensor), f"g{i}"
        s.globals.append(last)
        s.names[last] = None
        s.add(f"r{i} = {GRADIENT.format(tensor)}")
        s.add(f"if r{i} is not {last} or {tensor}._grad_is_shared:")
        takes = s.bind(_taker(self.program))
        s.add(
            f"    if not {takes}({tensor}, {s.bind(output)}, [{', '.join(self.spelled.leaves)}]): return MISS"
        )
        s.add(f"    {last} = r{i}")

    def _readings(self) -> list[str]:
        """Return lines that give ints which the function reads their names."""
        before = len(self.source.lines)
        for each in self.program.readings:
            each.write(self.source)
        lines = self.source.lines[before:]
        del self.source.lines[before:]
        return lines

    def _write(self, requirements: Iterable[Requirement]) -> None:
        """Write requirements, conditions that follow each other as one."""
        together: list[Condition] = []
        for each in requirements:
            if isinstance(each, Condition):
                together.append(each)
                continue
            self.source.require(together)
            together = []
            each.write(self.source)
        self.source.require(together)

    def _inputs(self) -> list[str]:
        """Write how each input is read; return their names."""
        s = self.source
        names: dict[int, str] = {}
        script = self.recorded.script
        for i, source in enumerate(self.recorded.sources):
            if isinstance(source, FromArgument) and not source.gradient:
                names[i] = self.spelled.arrays[source.position]
                if self.program.key.leaves[source.position].contiguous is not True:
                    if isinstance(self.native, DeviceProgram):
                        raise _NoEntry
                    s.names["ascontiguousarray"] = np.ascontiguousarray
                    names[i] = f"ascontiguousarray({names[i]})"
            elif isinstance(source, (FromTensor, FromArray)):
                array = source.tensor._data if isinstance(source, FromTensor) else source.array
                if not array.flags.c_contiguous:
                    raise _NoEntry
                names[i] = s.bind(array)
            elif isinstance(source, FromPlace):
                look = look_at(source.holder, source.key) + "._array"
                names[i] = look.format(s.bind(source.holder), s.write(source.key))
            elif isinstance(source, FromScript):
                names[i] = f"n{source.step}"
                if isinstance(script[source.step], ReadNumber) != (i in self.native.numbers):
                    raise _NoEntry
            else:
                raise _NoEntry
        # Numbers are read and looked at first: from the first draw or effect on, nothing can be given up any more.
        first = next((n for n, step in enumerate(script) if not isinstance(step, ReadNumber)), len(script))
        for number, step in enumerate(script):
            if isinstance(step, Draw):
                if isinstance(step.args[0], int) and hint(step.args[0]) >= MANY_DRAWN:
                    draw_natively(native_stream())
                drawn = f"{s.bind(step.method)}({', '.join(map(s.write, (step.source, *step.args)))})"
                s.add(f"n{number} = {drawn}")
            elif isinstance(step, Effect):
                s.add(f"{s.bind(step.run)}()")
                # A schedule may have changed the number a decision was about.
                s.names["Redecided"] = Redecided
                s.require(self.program.decisions, otherwise="raise Redecided")
            elif number < first:
                # (That it is there, and of its type, a guard has just looked at.)
                number_now = self._number(step)
                s.add(f"n{number} = {number_now if step.kind is float else f'float({number_now})'}")
            else:
                s.add(f"n{number} = float({self._number(step)})")
        return [names[i] for i in range(len(names))]

    def _given(self, given: Any) -> str:
        if isinstance(given, int):
            return self.spelled.leaves[given]
        if isinstance(given, FromPlace):
            return look_at(given.holder, given.key).format(
                self.source.bind(given.holder), self.source.write(given.key)
            )
        return self.source.bind(given)

    def _number(self, step: ReadNumber) -> str:
        return look_at(step.holder, step.key).format(
            self.source.bind(step.holder), self.source.write(step.key)
        )

    # --- running --------------------------------------------------------------------------------------------------

    def _outputs(self) -> list[str]:
        """Write how each output that is no update gets its array; return their names."""
        s, native = self.source, self.native
        s.names.update(empty=self.empty, getrefcount=sys.getrefcount)
        holders = {r.output: r for r in self.recorded.rebinds if r.output is not None}
        outputs = []
        for i in native.given:
            value = self.recorded.program.outputs[i]
            rebind = holders.get(i)
            if rebind is not None and rebind.in_place:
                outputs.append(f"r{i}")  # (see `_gradient_to_write`)
                continue
            if rebind is not None and (rebind.attribute != "_grad" or isinstance(rebind.tensor, int)):
                raise _NoEntry
            if rebind is not None and i not in self.early:
                # The gradient of the last call is overwritten, if it is still there and nobody else holds it.
                tensor, last = s.bind(rebind.tensor), f"g{i}"
                s.globals.append(last)
                # The one of the call just made is such an array; the pool's others are not needed here.
                arrays = native.pools[i].arrays if isinstance(native, Native) else []
                s.names[last] = next((a for a in arrays if a is rebind.tensor._grad), None)
                arrays.clear()
                s.add(f"r{i} = {GRADIENT.format(tensor)}")
                s.add(f"if r{i} is not {last} or getrefcount(r{i}) != {ALONE + 1}:")
                s.add(f"    r{i} = {last} = empty({value.shape!r}, {s.bind(value.dtype)})")
            elif (
                rebind is None
                and i >= len(self.program.results)
                and self.program.backward is None
                and is_fixed(*value.shape)
            ):
                # Nobody reads it (it is computed for the sake of its index check): one array serves all calls.
                s.names[f"r{i}"] = self.empty(value.shape, value.dtype)
            elif hint(value.nbytes) < SMALL or not isinstance(native, self.pooled):
                s.add(f"r{i} = empty({value.shape!r}, {s.bind(value.dtype)})")  # (sizes in it by their names)
            elif isinstance(native, VaryingNative):
                sizes = "".join(f"{name}, " for name in native.names)
                s.add(f"r{i} = {s.bind(native.take)}({native.given.index(i)}, ({sizes}))")
            else:
                s.add(f"r{i} = {s.bind(native.pools[i].take)}()")
            outputs.append(f"r{i}")
        return outputs

    def _run(self, inputs: list[str]) -> None:
        s, native = self.source, self.native
        before, call = self._native_call(inputs, self._outputs())
        held = "    " if before else ""
        stores = []
        if self.recorded.updates:
            written = watch.WrittenTogether([c.known for c in self.program.captured if c.written])
            stores.append(f"{s.bind(written.touch)}()")
        for rebind in self.recorded.rebinds:
            given = isinstance(rebind.tensor, int)
            tensor = self.spelled.leaves[rebind.tensor] if given else s.bind(rebind.tensor)
            if rebind.attribute != "_grad":
                raise _NoEntry
            if rebind.in_place:
                continue
            give = TAKE_GRADIENT if rebind.output is None else GIVE_GRADIENT
            stores.append(give.format(tensor, f"r{rebind.output}"))
        if self.program.must_not_be_interrupted or not stores:
            for line in before:
                s.add(line)
            s.add(f"{held}failed = {call}")
            s.add(f"if failed is not None: {s.bind(native.fail)}()")
            for line in stores:
                s.add(line)
            return
        # Ctrl-C may come when the machine code has changed the parameters: then the rest is done all the same. (On one
        # line: from the first half to the call nothing can come between. Its own errors say that it has not run.)
        s.add("has_run = False")
        s.add("try:")
        for line in before:
            s.add(f"    {line}")
        s.add(f"    {held}has_run = True; failed = {call}")
        s.add(f"    if failed is not None: has_run = False; {s.bind(native.fail)}()")
        for line in stores:
            s.add(f"    {line}")
        s.add("except TypeError: raise")
        s.add("except BaseException:")
        s.add("    if has_run:")
        for line in stores:
            s.add(f"        {line}")
        s.add("    raise")

    def _native_call(self, inputs: list[str], outputs: list[str]) -> tuple[list[str], str]:
        """Return lines that come before the call of the machine code and hold it, and the call."""
        s, native = self.source, self.native
        given = f"({', '.join([*inputs, *outputs])})"
        if (
            not isinstance(native, VaryingNative)
            or not (native.is_never_empty and native.now)
            or not set(native.names) <= set(self.program.names)
        ):
            return [], s.bind(native.entry) + given
        # What its own entry does, without another call of Python's. (The lock is another one after a fork.)
        varying, sizes = s.bind(native), "".join(f"{name}, " for name in native.names)
        switch = f"    if {varying}.now != ({sizes}): {varying}.switch(({sizes}))"
        return [f"with {varying}.lock:", switch], s.bind(native.entry_now) + given

    def _results(self) -> None:
        s, program = self.source, self.program
        s.names.update(new_result=new_result, filled=filled, PlainArray=PlainArray)
        # Counting down to the next audit.
        s.add(f"if next({s.bind(program.audits.ticks)}, None) is None: {s.bind(program.audits.tick)}()")
        names = []
        roots = () if program.backward is None else program.backward.roots
        for i, result in enumerate(program.results):
            if result.axes is not None:
                s.add(f"r{i} = {s.bind(laid_out)}(r{i}, {result.axes!r})")
            if result.given is not None:
                names.append(self._given(result.given))
            elif i in roots or result.view is not None:
                names.append("None")  # until it is a node of the graph, or a view of what is there by then
            elif not result.is_tensor:
                names.append(f"r{i}.view(PlainArray)" if result.is_plain else f"r{i}")
            else:
                used_up = "" if result.used_up is None else f", {s.bind(result.used_up)}"
                names.append(f"new_result(r{i}{used_up})")
        if program.backward is not None:
            outputs = [
                f"r{i}" if i in self.native.given else "None"
                for i in range(len(self.recorded.program.outputs))
            ]
            s.add(f"found = [{', '.join(names)}]")
            leaves = ", ".join(self.spelled.leaves)
            drawn = ", ".join(f"n{i}" for i in program.draws)
            call = f"(args, options, [{drawn}])"
            s.add(f"{s.bind(program.backward.attach)}(found, [{', '.join(outputs)}], [{leaves}], {call})")
            names = [f"found[{i}]" for i in range(len(names))]
        elif program.change is not None or any(result.view is not None for result in program.results):
            s.add(f"found = [{', '.join(names)}]")
            names = [f"found[{i}]" for i in range(len(names))]
        for i, result in enumerate(program.results):
            if result.view is not None:
                leaves = ", ".join(self.spelled.leaves)
                s.add(f"found[{i}] = {s.bind(result.view.made)}([{leaves}], found)")
        if program.takes_from_call:
            names.append("(args, options)")
            if program.change is not None:
                s.add("found.append((args, options))")
        if isinstance(program.template, Leaf):
            results = names[program.template.number]
        elif isinstance(program.template, PLAIN):
            results = s.bind(program.template)
        else:
            known = "" if program.change is None else ", known"
            results = f"filled({s.bind(program.template)}, [{', '.join(names)}]{known})"
        if program.change is not None:
            s.add("known = {}")
            s.add(f"results = {results}")  # numbers among them are read before they are changed
            s.add(
                f"{s.bind(program.change)}(found, known)"
            )  # (no method: it would hold the program, which holds this)
            results = "results"
        s.add(f"return {results}")


class _DeviceEntryWriter(_EntryWriter):
    """Writes the entry of a program on a device: it is given addresses, of which most stay what they are."""

    runs = (DeviceProgram,)

    def _prepare(self) -> None:
        self.device = self.native.device.device
        self.empty, self.early, self.pooled = self.device.empty, self.native.early, ()
        if self.native.brings_updates:
            raise _NoEntry

    def _native_call(self, inputs: list[str], outputs: list[str]) -> tuple[list[str], str]:
        """Return lines that come before the launch, and the launch."""
        s, native, program = self.source, self.native, self.native.device
        s.names["ready"] = self.device.ready
        sources = self.recorded.sources
        before: list[str] = []
        checked: list[str] = []  # addresses that may lie anywhere
        addresses: dict[int, str] = {}
        for i, name in enumerate(inputs):
            source = sources[i]
            if i in program.numbers:
                continue
            if i in native.here.inputs:
                before.append(f"h{i} = ready({name})")
                addresses[i] = self.device.ADDRESS.format(f"h{i}")
            elif isinstance(source, FromTensor):
                address = self.device.address(source.tensor._data)
                if address % ALIGNMENT:
                    raise _NoEntry
                addresses[i] = str(address)  # (another array is a miss)
            else:
                before.append(f"p{i} = {self.device.ADDRESS.format(name)}")
                checked.append(f"p{i}")
                addresses[i] = f"p{i}"
        if checked:
            before.append(f"if ({' | '.join(checked)}) % {ALIGNMENT}: raise Redecided")
            s.names["Redecided"] = Redecided
        count = len(inputs)
        for place, name in zip(range(count, count + len(outputs)), outputs, strict=True):
            addresses[place] = self.device.ADDRESS.format(name)
        for line in before:
            s.add(line)
        given = "".join(f"{addresses[i]}, " for i in program.taken)
        numbers = "".join(f"{self._as_float(i, inputs[i])}, " for i in program.order)
        sizes = "".join(f"{name}, " for name in program.names)  # (by their names)
        call = f"{s.bind(native.launch)}(({given}), ({numbers}){f', ({sizes})' if sizes else ''})"
        if native.reads:
            brought = [f"{s.bind(on_host)}(r{i})" for i in native.asked]
            read = ", ".join([*(inputs[i] for i in native.reads), *brought])
            call += f"; failed is not None or {s.bind(native.here_runs)}([{read}])"
        for i in native.brought:
            call += f"; r{i} = {s.bind(on_host)}(r{i})"
        return [], call

    def _as_float(self, i: int, name: str) -> str:
        return name if i in self.native.numbers else f"float({name})"


def _taker(program: Specialisation) -> Any:
    """Return `takes_gradient` as a function that does not hold the program, which holds the entry."""
    reference = weakref.ref(program)

    def takes(tensor: Any, output: Any, leaves: list[Any]) -> bool:
        found = reference()
        return found is not None and found.takes_gradient(tensor, output, leaves)

    return takes


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
