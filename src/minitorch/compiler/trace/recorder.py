"""Running a function once, as usual, while writing down the program it is.

Enters: a function over Tensors and its arguments. Leaves: its results, and a `Recorded`: the program, where its
inputs come from at every call, and what it does to the Tensors it found (parameters, their gradients, running
statistics). This is the compiler's front room: the only one that knows Tensors.

While a function is recorded, a Tensor shows this thread a Traced in place of its array. Tensors from before
keep their arrays as they are: what is written to them is kept aside (tensors.py), and is done for real only when the
function came to its end. So nothing is half-updated when it fails. What it finds becomes inputs (inputs.py, and
on_devices.py where that lies on a device); what it does besides computing is in effects.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from minitorch.compiler.ir.program import Program, Value, in_order
from minitorch.compiler.ir.sizes import Size, collecting, hint
from minitorch.compiler.trace import deferred as deferred
from minitorch.compiler.trace import (
    indexing as indexing,  # these enter themselves in traced.py's tables
)
from minitorch.compiler.trace import lowerings as lowerings
from minitorch.compiler.trace import masked as masked
from minitorch.compiler.trace import numpy_functions as numpy_functions
from minitorch.compiler.trace import plain as plain
from minitorch.compiler.trace.effects import Effects
from minitorch.compiler.trace.interrupts import Uninterrupted
from minitorch.compiler.trace.number import Number
from minitorch.compiler.trace.promised import NumbersMissing
from minitorch.compiler.trace.recorded import (
    FromArgument,
    FromArray,
    FromGradient,
    FromPlace,
    FromTensor,
    Rebind,
    Recorded,
    Source,
    Update,
    first_sharing,
)
from minitorch.compiler.trace.refusal import CheckFailed, CompileError
from minitorch.compiler.trace.traced import Traced, as_traced
from minitorch.engine import recording, watch
from minitorch.engine.gpu import DeviceMemory, device_of, is_writeable, on_host
from minitorch.engine.modes import current, switch
from minitorch.engine.node import Node, new_tensor


def _rank(source: Source) -> tuple[int, int]:
    """Return where an input stands among those whose order has no reason: arguments' gradients are met by age."""
    if isinstance(source, FromArgument) and source.gradient:
        return 1, source.position
    return (2 if isinstance(source, FromGradient) else 0), 0


class Recording(Effects):
    """One function being written down while it runs; the mode (engine/modes.py) shows this to the rest of the library.

    What it is made with: see Inputs.
    """

    kind = Traced  # what writes down what is done to it
    repeats = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.unread: list[Any] = []  # Tensors from before of which nothing but the shape was read
        self._outputs: dict[int, int] = {}  # of updated Tensors, by their _Held's id: which output they get
        self.is_over = False
        self.masks: dict[Any, Any] = {}  # how many places masks hold (masked.py)
        self.before: list[np.ndarray] = []
        self.after: list[np.ndarray] = []

    def run(
        self,
        function: Callable[[], Any],
        collect: Callable[[Any], list[Any]],
        then: Callable[[Recorded, list[Any]], Any] = lambda recorded, found: None,
        settle: Callable[[], None] = lambda: None,
        begin: Callable[[Recorded, Any], None] = lambda recorded, more: None,
    ) -> tuple[Any, Recorded, Any]:
        """Run a function and write it down; return its results, what was written, and what `then` gave.

        collect: finds the Tensors and arrays among the results. then: what else to do while they are still being
        recorded; if it fails, nothing was changed. settle: what else is changed for real, when the Tensors are: all of
        it, or, if the function was interrupted before, nothing. begin: what may go on while a device computes.
        """
        try:
            with self._shown():
                results = function()
                found = collect(results)
                recorded = self.finish([as_traced(r._data if isinstance(r, Node) else r) for r in found])
                more = then(recorded, found)
            begin(recorded, more)
            self._compute_what_is_kept(recorded)
            with Uninterrupted():
                self.commit()
                self.release()
                settle()
        finally:
            self.release()
            self._around_pause = nullcontext  # whoever gave it may hold this, and would not be freed
        return results, recorded, more

    @contextmanager
    def _shown(self) -> Iterator[None]:
        """Show Traced arrays in place of real ones."""
        outer = current()
        inner = outer._replace(recorder=self)

        def hide() -> None:
            now = current()  # the function may leave another mode than it found: set_grad_enabled(False)
            if now.recorder is self:
                switch(outer if now is inner else now._replace(recorder=outer.recorder))
            if self in recording.recordings:
                recording.end(self)

        try:  # (Twice: Ctrl-C may come while it is hidden, too.)
            try:
                recording.begin(self)
                switch(inner)
                with collecting(self.assumed):
                    yield
            finally:
                hide()
        finally:
            hide()

    def run_op(self, op: Any, which: Any, function: Callable[..., Any], args: Any, attributes: Any) -> Any:
        """Run a function of an op."""
        return function(*args, **attributes)

    # --- what it is --------------------------------------------------------------------------------

    def finish(self, results: list[Traced]) -> Recorded:
        """Return what was written down, with these as the function's results."""
        outputs = [r.value for r in results]
        self.after = [r.array for r in results]  # what the outputs are in this run
        updates: list[Update] = []
        rebinds: list[Rebind] = []
        for held in self._data.values():
            place = self._positions.get(id(held.node), held.node)
            if held.is_written:
                updates.append(Update(len(outputs), held.number))
                self._outputs[id(held)] = len(outputs)
                outputs.append(held.at_first.value)
                self.after.append(held.at_first.array)
            if held.now is not held.at_first:
                rebinds.append(Rebind(place, "_data", len(outputs)))
                outputs.append(held.now.value)
                self.after.append(held.now.array)
        for array, number in self._written_arrays():
            if isinstance(self.sources[number], FromArray):
                raise CompileError(
                    "compile: it writes into a NumPy array from outside; make it a Tensor, or write into it outside"
                )
            updates.append(Update(len(outputs), number))
            self._outputs[id(array)] = len(outputs)
            outputs.append(array.value)
            self.after.append(array.array)
        # A walk backwards meets leaves by their age, and arguments are of any: theirs come by their positions.
        first = lambda held: self._positions.get(id(held.node), len(self._positions))
        for held in sorted(self._grads.values(), key=first):
            place = self._positions.get(id(held.node), held.node)
            if held.is_left_written:
                updates.append(Update(len(outputs), held.number))
                outputs.append(held.at_first.value)
                self.after.append(held.at_first.array)
            if held.now is None:
                rebinds.append(Rebind(place, "_grad", None))
            elif held.now.value is not held.value:
                rebinds.append(Rebind(place, "_grad", len(outputs), held.now is held.at_first))
                outputs.append(held.now.value)
                self.after.append(held.now.array)
        last = [] if self._last_start is None else [self._last_start]
        more = (*self.checks, *last, *self.asked_here)
        outputs += [each.value for each in more]
        self.after += [each.array for each in more]
        self.is_finished = True
        moved = self._drop_unread(outputs, {u.input for u in updates})
        updates = [Update(u.output, moved[u.input]) for u in updates]
        written = {u.input for u in updates}
        for held in self._grads.values():
            if held.value is not None and held.now is held.at_first:
                written.add(held.value.attributes["index"])
        before = [self._there.get(v, a) for v, a in zip(self.inputs, self.concrete, strict=True)]
        self.before = [a.copy() if i in written else a for i, a in enumerate(before)]
        program = Program(self.inputs, outputs)
        recorded = Recorded(
            program, self.sources, self.script, self.decisions, updates, rebinds, self.symbolic
        )
        self._refuse_mixed_devices(program)
        self._refuse_shared_memory(recorded)
        self._refuse_writing_into_places(recorded)
        return recorded

    def _drop_unread(self, outputs: list[Value], written: set[int]) -> dict[int, int]:
        """Leave out Tensors of which nothing but the shape was read, and gradients that were replaced without being
        read. Return the inputs' new numbers."""
        needed = set(in_order([*outputs, *self._asked_about]))
        found = lambda s: (
            isinstance(s, (FromTensor, FromGradient)) or (isinstance(s, FromArgument) and s.gradient)
        )
        needed.update(self.inputs[i] for i in written)
        unread = [
            s
            for i, s in enumerate(self.sources)
            if isinstance(s, FromTensor) and self.inputs[i] not in needed
        ]
        self.unread = [source.tensor for source in unread]
        kept = [i for i, s in enumerate(self.sources) if self.inputs[i] in needed or not found(s)]
        kept.sort(key=lambda i: _rank(self.sources[i]))
        for new, old in enumerate(kept):
            self.inputs[old].attributes["index"] = new
        self.inputs = [self.inputs[i] for i in kept]
        self.sources = [self.sources[i] for i in kept]
        self.concrete = [self.concrete[i] for i in kept]
        return {old: new for new, old in enumerate(kept)}

    def _refuse_writing_into_places(self, recorded: Recorded) -> None:
        written = [self.sources[u.input] for u in recorded.updates]
        rebound = [id(r.tensor) for r in recorded.rebinds if not isinstance(r.tensor, int)]
        if any(isinstance(source, FromPlace) for source in written) or not self.placed.keys().isdisjoint(
            rebound
        ):
            raise CompileError("compile: it writes into a tensor where it finds another one at each call")

    def _refuse_shared_memory(self, recorded: Recorded) -> None:
        """Arrays that overlap are one in NumPy and two in a program: if one of them is written, refuse."""
        arrays = dict(zip(self.inputs, self.concrete, strict=True))
        written = [self.inputs[u.input] for u in recorded.updates]
        for held in self._grads.values():  # a gradient that is written into, even if it is not read
            if held.is_written and held.value is not None:
                arrays[held.value] = held.node._gradient
                written.append(held.value)
        if not written:
            return
        there = {id(mirror): array for array, mirror in self._mirrors.values()}
        places = {value: number for number, value in enumerate(arrays)}
        found = first_sharing(
            [there.get(id(array), array) for array in arrays.values()], {places[value] for value in written}
        )
        if found is not None:
            mine, other = found
            raise CompileError(
                f"compile: two tensors of shapes {mine.shape} and {other.shape} share memory, and the function "
                "writes into one of them; clone() one of the two"
            )

    # --- what it leaves ----------------------------------------------------------------------------

    def _compute_what_is_kept(self, recorded: Recorded) -> None:
        """Compute all that this run leaves: nothing is changed yet."""
        if not self._there:
            return
        kept = [*recorded.program.outputs, *(traced.value for traced in self._conditions)]
        for node in self._nodes_made():
            for thing in (node._array, node._gradient, node._inputs, node._attributes):
                _plain(thing, lambda traced: kept.append(_value_of(traced)))
        wanted = [value for value in dict.fromkeys(kept) if self.is_promised(value)]
        self._made = dict(zip(wanted, self._computed(wanted), strict=True))
        if any(bool(self._made[traced.value]) for traced in self._conditions):
            raise CheckFailed
        outputs = recorded.program.outputs
        self.after = [self._made.get(o, a) for o, a in zip(outputs, self.after, strict=False)]

    def commit(self) -> None:
        """Do to the Tensors from before what the function did, by the arrays of this run.

        No more memory is taken than has to be: a step of a large model holds its parameters several times already.
        """
        self._keep_what_will_be_written_over()
        given = {id(watch.owner_of(array)) for array in self.concrete}
        is_given = lambda array: isinstance(array, np.ndarray) and id(watch.owner_of(array)) in given
        written = []
        for held in self._data.values():
            if held.is_written:
                new = self.of_this_run(held.at_first)
                written.append((held, held.node._array, new.copy() if is_given(new) else new))
            if held.now is not held.at_first:
                held.node._array = self._beside(held.node, _own(self.of_this_run(held.now)))
                watch.touch(held.node)
        for held in self._grads.values():
            if held.is_left_written:
                there, new = held.node._gradient, self.of_this_run(held.at_first)
                there[...] = self._beside(
                    held.node, new.copy() if is_given(new) else new
                )  # whoever holds it sees it
            if held.now is None or held.now is not held.at_first or held.now.value is not held.value:
                gradient = None if held.now is None else self.of_this_run(held.now)
                if gradient is not None and is_given(gradient):
                    gradient = gradient.copy()
                there = held.node._gradient
                if gradient is not None:
                    gradient = self._beside(held.node, gradient)
                if held.now is held.at_first and there is not None and is_writeable(there):
                    there[...] = gradient  # whoever holds it sees the new one
                else:
                    held.node._gradient = gradient
                    held.node._grad_is_shared = gradient is not None  # whoever looks gets a copy if it is
        for traced, number in self._written_arrays():
            array, new = self.concrete[number], on_host(self.of_this_run(traced))
            array[...] = new.copy() if is_given(new) else new
            watch.touch(array)
            self.after[self._outputs[id(traced)]] = array
        while written:
            held, array, new = written.pop()
            np.copyto(array, self._beside(held.node, new))  # (of a device's arrays that takes no kernel)
            watch.touch(array)
            if device_of(array) is None:
                # It is what the function gave: the other one may go.
                self.after[self._outputs[id(held)]] = held.at_first._array = array

    def _keep_what_will_be_written_over(self) -> None:
        """Let outputs stay what they are that look at memory which is written now: `x[0].item()` before `x.add_(1)`."""
        written = [held.node._array for held in self._data.values() if held.is_written]
        written += [held.node._gradient for held in self._grads.values() if held.is_written]
        written += [self.concrete[number] for _, number in self._written_arrays()]
        owners = {id(watch.owner_of(array)) for array in written}
        for i, array in enumerate(self.after):
            if array.__class__ is np.ndarray and id(watch.owner_of(array)) in owners:
                self.after[i] = array.copy()

    def _beside(self, node: Any, array: np.ndarray) -> Any:
        """Return an array of this run where a node's own array lies."""
        memory = device_of(node._array)
        return on_host(array) if memory is None else memory.to_device(array)

    def forget(self, arguments: list[Any]) -> None:
        """Let go of the arrays of this run. arguments: where decisions on numbers find those of a call from now on."""
        self.arguments = arguments
        self.concrete, self.before, self.after, self._fresh = [], [], [], []
        self.checks, self.asked_here = [], []
        self.live = {}
        held_things = (self._data, self._grads, self.asked, self._arrays, self._at_first, self._numbers)
        there = (
            self._lie,
            self._mirrors,
            self._there,
            self._promised,
            self._made,
            self._handed,
            self._conditions,
        )
        for held in (*held_things, self.begun, self.masks, *there):
            held.clear()
        for collective in self.collectives:
            collective.forget()

    def release(self) -> None:
        """Give the nodes made on the way, as far as somebody keeps them, plain arrays."""
        self.is_over = True
        for node in reversed(list(self._nodes_made())) if self.memory is not None else ():
            used: list[Traced] = []
            _plain([node._inputs, node._attributes], used.append)
            used += [i._array for i in node._inputs if isinstance(i, Node) and isinstance(i._array, Traced)]
            if isinstance(node._array, Traced):
                self.let_follow(node._array, used)
        for node in self._nodes_made():
            for slot in ("_array", "_gradient"):
                content = getattr(node, slot)
                if isinstance(content, Traced):
                    setattr(node, slot, self.settled(content))
                elif isinstance(content, list):
                    content[:] = [self.settled(c) if isinstance(c, Traced) else c for c in content]
            node._view = None  # each has memory of its own now
            # The first call's results have a graph as any: it must not go on recording.
            if node._operation is not None:
                node._inputs = _plain(node._inputs, self.settled)
                node._attributes = _plain(node._attributes, self.settled)
        for node in self._nodes_made() if self.memory is not None else ():
            memory = device_of(node._array)
            if node._operation is not None and memory is not None:
                node._inputs = tuple([_beside_others(each, memory) for each in node._inputs])

    def settled(self, traced: Traced) -> Any:
        """Return the array of this run, where it belongs, for whoever keeps it."""
        memory = None if self.memory is None else self.lies_on(traced.value)
        if self._made:
            array = self.of_this_run(traced)
            settled = _own(array)
        else:
            settled = traced.settled()
        return on_host(settled) if memory is None else memory.to_device(settled)


def _beside_others(thing: Any, memory: DeviceMemory) -> Any:
    """Return what an op on a device was given there: single numbers without a gradient may have lain on the host."""
    array = thing._array if isinstance(thing, Node) else thing
    if getattr(thing, "_requires_grad", False) or not isinstance(array, np.ndarray) or array.ndim:
        return thing
    moved = memory.to_device(array)
    if not isinstance(thing, Node):
        return moved
    made = new_tensor(moved)
    made._time = thing._time  # (it was there before the op)
    return made


def _own(array: Any) -> Any:
    """Return a copy of an array of the host's; what a device has computed is nobody else's."""
    return np.array(array) if isinstance(array, np.ndarray) else array


def _value_of(traced: Traced) -> Value:
    if traced.is_masked:  # which rows a mask has chosen nobody knows before
        raise NumbersMissing("rows that a mask has chosen")
    return traced.value


def _plain(thing: Any, settled: Callable[[Traced], Any]) -> Any:
    """Return what an op was given with the arrays and numbers of this run in it."""
    if isinstance(thing, Traced):
        return settled(thing)
    if isinstance(thing, Number):
        return thing.concrete
    if type(thing) is Size:
        return hint(thing)
    if type(thing) is slice:
        return slice(*(_plain(part, settled) for part in (thing.start, thing.stop, thing.step)))
    if isinstance(thing, (tuple, list)) and not hasattr(thing, "_fields"):
        return type(thing)(_plain(i, settled) for i in thing)
    return {k: _plain(v, settled) for k, v in thing.items()} if type(thing) is dict else thing
