"""What is pending in a lazy block. Enters: what is done to Tensors. Leaves: arrays, computed when they are asked for.

Everything that is pending, and that anybody still holds, becomes one program (pending_programs.py); its results go into
the memory that they belong to.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from minitorch.compiler.call.lazy_memory import (
    filled,
    is_one_number,
    is_seen_by_others,
    laid_out_as,
    with_numbers,
)
from minitorch.compiler.call.lazy_templates import MOST_TEMPLATES, key_of, template_of
from minitorch.compiler.call.pending_programs import Pattern, ProgramsByStructure, one_by_one
from minitorch.compiler.ir.program import Value, in_order
from minitorch.compiler.trace import recorder as recorder  # (what NumPy's functions do enters itself there)
from minitorch.compiler.trace.interrupts import Uninterrupted
from minitorch.compiler.trace.pending import UNRECORDED, Pending, elementwise, input_of, pending
from minitorch.compiler.trace.traced import Traced
from minitorch.engine import recording, watch
from minitorch.engine.modes import current, switch
from minitorch.engine.node import Node

MOST_PENDING = 3000  # so many arrays wait at most: a chain without an end is computed piece by piece
_NOTHING = np.empty(0)
FEW = 24  # a condition on inputs of so many steps is looked at by itself


class LazyRecording:
    """What is pending in one lazy block; the mode (engine/modes.py) shows this to the rest of the library.

    recorded, programs, compilations: how many arrays were written down, how many programs have run, and how many of
    these had to be compiled. at_once_because: what was computed at once, and how often.
    """

    kind = Pending
    repeats = False  # Python's own lines run every time

    def __init__(self, programs: ProgramsByStructure) -> None:
        self.lock = threading.RLock()
        self.pending: list[weakref.ref[Pending]] = []  # all that may wait; those nobody holds are dead code
        self.recorded = self.programs = self.compilations = 0
        self.at_once_because: Counter[str] = Counter()
        self.executables: list[Any] = []  # of the programs run here, each once
        self._by = programs
        self._nodes: list[weakref.ref[Any]] = []  # whose slots may hold a Pending
        self._inputs: weakref.WeakValueDictionary[int, Pending] = weakref.WeakValueDictionary()  # by array
        self._held: dict[int, Pending] = {}  # the same, as long as what is pending may read them
        self._depth = 0
        self._steps = 0  # of optimisers, since the last program
        self._done = 0  # how often something was computed, drawn, or written to memory that is there
        self._failed: list[weakref.ref[Pending]] = []  # what could not be computed
        self._told: list[Exception] = []  # why, as far as somebody was told

    def __repr__(self) -> str:
        return (
            f"<lazy: {self.recorded} arrays recorded, {self.programs} programs, {self.compilations} compiled>"
        )

    # --- recording --------------------------------------------------------------------------------------------------

    def do(
        self,
        record: Callable[..., Any],
        compute: Callable[..., Any],
        args: tuple[Any, ...],
        options: dict[str, Any],
        writes: bool = False,
    ) -> Any:
        """Write something down; where that cannot be, or somebody else than the recording asks, compute it.

        writes: it changes one of its arguments.
        """
        with self.lock:
            if current().recorder is self:
                if not self._depth and len(self.pending) > MOST_PENDING:
                    self._cut()
                self._depth += 1
                try:
                    return record(*args, **options)
                except UNRECORDED as problem:
                    name = getattr(compute, "__qualname__", getattr(compute, "__name__", "a function"))
                    self.at_once_because[f"{name}: {type(problem).__name__}"] += 1
                finally:
                    self._depth -= 1
            self._done += 1
            if writes:
                self.flush()
            result = compute(*with_numbers(args), **with_numbers(options))
            return self._taken_up(result) if current().recorder is self else result

    def _taken_up(self, result: Any) -> Any:
        """Return what was computed at once as arrays that go on being recorded."""
        if type(result) in (np.ndarray, tuple, list):
            return (
                self.input(result)
                if type(result) is np.ndarray
                else type(result)(map(self._taken_up, result))
            )
        return result

    def map(self, ufunc: Any, operands: tuple[Any, ...]) -> Pending | None:
        """Write an elementwise function down the short way; None where that does not do."""
        if current().recorder is not self:
            return None
        with self.lock:
            if not self._depth and len(self.pending) > MOST_PENDING:
                self._cut()
            value = elementwise(ufunc, operands)
            return None if value is None else pending(value)

    def map_into(self, target: Pending, ufunc: Any, operands: tuple[Any, ...]) -> bool:
        """Write an elementwise function down the short way, and its result into an array; tell whether that did."""
        if current().recorder is not self:
            return False
        with self.lock:
            if not self._depth and len(self.pending) > MOST_PENDING:
                self._cut()
            value = elementwise(ufunc, operands)
            return value is not None and (target.stand_for(value) or self._assigned(target, value))

    def _assigned(self, target: Pending, value: Value) -> bool:
        """Write what is of the same shape and dtype, and tell if it was."""
        fits = value.shape == target._array.shape and value.dtype == target._array.dtype
        if fits:
            target.assign(pending(value))
        return fits

    def _cut(self) -> None:
        """Compute a piece of a long chain."""
        self.flush()
        self._steps = 1  # (from here to the end of an optimiser's step is a program of its own)

    def at_once(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Compute on single numbers that are there: counters, and what is made of them."""
        with self.lock:
            self._done += 1
            result = function(*with_numbers(args))
            if result is NotImplemented or current().recorder is not self:
                return result
            return self.input(np.asarray(result))

    def input(self, array: np.ndarray) -> Pending:
        """Return what stands for an array that holds its numbers."""
        held = self._inputs.get(id(array))
        if held is None:
            held = Pending(input_of(array), array)
            held.settle(array)
            self._inputs[id(array)] = held
        elif held.is_settled() and self.may_change(array):
            held.settle(array)  # as it is now
        self._held[id(array)] = held
        return held

    def may_change(self, array: np.ndarray) -> bool:
        """Tell whether an array may be written into before what is pending reads it: then it is read now."""
        return not array.ndim or (bool(watch.exposed) and id(watch.owner_of(array)) in watch.exposed)

    def written(self, handle: Pending) -> None:
        """Be told that an array with memory was written into: at once, where others look at the memory."""
        self._done += 1
        self.pending.append(weakref.ref(handle))
        self._held[id(handle._memory)] = (
            handle  # whoever sees the memory waits for it, though nobody holds the handle
        )
        if not handle.ndim and "array" in handle._value.attributes:
            handle._memory[...] = handle._value.attributes["array"]  # type: ignore[index]
            handle.settle(handle._memory)  # type: ignore[arg-type]
        elif is_seen_by_others(handle):
            self.flush()

    def run_op(self, op: Any, which: Any, function: Callable[..., Any], args: Any, attributes: Any) -> Any:
        """Return what a function of an op gives: by a template, where it has run before."""
        if not op.gives_own_arrays:  # somebody's own: who knows what it does
            return function(*args, **attributes)
        with self.lock:
            if self._depth or current().recorder is not self:
                return function(*args, **attributes)
            if len(self.pending) > MOST_PENDING:
                self._cut()
            if op.ufunc is not None and which == "forward" and not attributes:
                value = elementwise(op.ufunc, args)
                if value is not None:
                    return pending(value)
            found = key_of(op, which, args, attributes)
            if found is None:
                return function(*args, **attributes)
            key, values = found
            templates = self._by.templates
            template = templates.get(key, templates)
            if template is None:
                return function(*args, **attributes)
            if template is not templates:
                return template.written_down(values)
            return self._run_and_remember(key, values, function, args, attributes)

    def _run_and_remember(
        self, key: Any, values: list[Value], function: Callable[..., Any], args: Any, attributes: Any
    ) -> Any:
        """Run an op's function, and keep what it writes down as a template, if that is all it does."""
        flat = [part for each in args for part in (each if isinstance(each, (list, tuple)) else (each,))]
        versions = lambda: [each.root()._version for each in flat if each.__class__ is Pending]
        first, done, before = input_of(_NOTHING).number, self._done, versions()
        result = function(*args, **attributes)
        is_all = self._done == done and versions() == before
        templates = self._by.templates
        if len(templates) >= MOST_TEMPLATES:
            templates.clear()
        template = templates[key] = template_of(values, first, result) if is_all else None
        # (Where it gave a view of what it made, a template does not: so it is written down as it will be from now on.)
        return result if template is None else template.written_down(values)

    # --- what the engine tells a recorder (engine/recording.py) ---------------------------------------------------

    def read_data(self, node: Node) -> Any:
        """Return what a node shows as its array."""
        return self._shown(node._array)

    def read_grad(self, node: Node) -> Any:
        """Return what a node shows as its gradient."""
        return self._shown(node._gradient)

    def _shown(self, array: Any) -> Any:
        if array.__class__ is Pending:
            if array._recording is not self:
                return self.input(array.numbers())
            if watch.exposed and array._source is not None and array.is_settled():
                self.input(array.root()._memory)  # as it is now, for views of it
            return array
        return self.input(array) if array.__class__ is np.ndarray else array

    def write_data(self, node: Node, new: Any) -> None:
        """Give a node another array."""
        is_fresh = new.__class__ is Pending and new._memory is None and new._source is None
        if is_fresh and node._operation is None and is_one_number(new._value):
            # Zeros to begin with, of an optimiser: they are an input in every round.
            memory = filled(new)
            watch.moved(new, memory)
            new.settle(memory)
            self._inputs[id(memory)] = new
        if new.__class__ is Pending and new._memory is not None and new.is_settled():
            new = new._memory
        node._array = new
        if new.__class__ is not np.ndarray:
            self._nodes.append(weakref.ref(node))

    def write_grad(self, node: Node, new: Any) -> None:
        """Give a node another gradient."""
        node._gradient = new
        if new.__class__ is Pending:
            self._nodes.append(weakref.ref(node))

    def looked_at(self, node: Node) -> None:
        """Be told that somebody who is not recorded here looks at a node: what is pending of it is computed."""
        for array in (node._array, node._gradient):
            if (array.__class__ is Pending and array._recording is self) or id(array) in self._held:
                self.flush()
                return

    def foreign(self, array: np.ndarray) -> Pending:
        """Return what stands for an array that is no Tensor's, as it is now."""
        self._done += 1
        return self.input(array.copy())

    def call_back(self, function: Callable[..., Any], args: Any, options: Any) -> Any:
        """Compute what has no primitive."""
        self._done += 1
        self.at_once_because[getattr(function, "__name__", "a function")] += 1
        result = function(*with_numbers(tuple(args)), **with_numbers(dict(options)))
        if not isinstance(result, (tuple, list)):
            return self.input(np.asarray(result))
        results = [self.input(np.asarray(each)) for each in result]
        return type(result)(*results) if hasattr(result, "_fields") else tuple(results)

    def changeable(self, holder: Any, key: str) -> Any:
        """Return a number as it is: in a program it is an input, if it changes."""
        return holder[key] if isinstance(holder, dict) else getattr(holder, key)

    def number(self, array: Any) -> float:
        """Return the only element of an array."""
        return float(array)

    def fixed(self, array: Any) -> Any:
        """Return the numbers of an array."""
        return array.settled() if isinstance(array, Traced) else array

    def draw(self, source: Any, method: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Draw random numbers now: in the order of the program."""
        self._done += 1
        given = with_numbers(args)
        with self._unrecorded():
            drawn = method(source, *given)
        return self.input(np.asarray(drawn))

    def unless(self, condition: Any, step: Callable[[], Any], states: Mapping[Any, Any]) -> Any:
        """Let an optimiser step, if a condition does not hold."""
        return None if bool(condition) else step()

    def replay(self, effect: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Do something to Python's objects."""
        self._done += 1
        return effect(*args, **options)

    def beforehand(self, states: Any, begin: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a parameter's first state."""
        return begin()

    def exchange(self, exchange: Any, arrays: Any) -> Any:
        """Begin a collective, now."""
        self._done += 1
        return exchange.start_now(with_numbers(arrays))

    def aside(self, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call a function that is not to be recorded: a compiled one."""
        self.flush()
        with self._unrecorded():
            return function(*args, **options)

    def observed(self, function: Any) -> Any:
        """Return the function itself."""
        return function

    def stepped(self) -> None:
        """Be told that an optimiser has made a step: where nobody looks at anything, every second one is computed."""
        self._steps += 1
        if self._steps > 1:
            self.flush()

    def refusal(self, why: str) -> Exception:
        """Return an error: nothing is refused here."""
        return AssertionError(why)

    def made(self, thing: Any) -> None:
        """Nothing has to be known of objects."""

    def renewing(self, node: Node) -> None:
        """A node may get another place in the graph."""

    def walking(self, nodes: Any, boundary: Any) -> None:
        """Gradients may go anywhere."""

    def flagging(self, node: Node) -> None:
        """Any flag may be changed."""

    # --- computing --------------------------------------------------------------------------------------------------

    def computed(self, handle: Pending) -> np.ndarray:
        """Return the array of a handle, with its numbers in it."""
        with self.lock, self._active():
            self._done += 1
            if not handle.is_settled():
                self.flush()
            return self._memory_of(handle)

    def evaluated(self, handle: Pending) -> np.ndarray:
        """Return a value that is made of inputs in a few steps, without computing what else is pending."""
        with self.lock:
            self._done += 1
            if len(in_order([handle.value])) > FEW:
                return self.computed(handle)
            (found,) = one_by_one([handle.value])
            if isinstance(found, Exception):
                raise found
            return found

    def flush(self) -> None:
        """Compute everything that is pending and held by somebody, as one program."""
        with self.lock, self._active():
            self._steps = 0
            self._done += 1
            waiting = {id(h): h for h in (reference() for reference in self.pending) if h is not None}
            views = [h for h in waiting.values() if h._source is not None]
            roots = [h for h in waiting.values() if h._source is None and h._value is not h._settled]
            self.recorded += len(self.pending)
            if roots:
                self._compute(roots)
            self.pending.clear()
            for view in views:
                view.let_go()
            self._show_memory()
            self._held.clear()

    def _compute(self, roots: list[Pending]) -> None:
        """Compute what handles stand for, and put it into their memory, or into memory of its own."""
        # One value may be that of several: the others get copies. Best is one that has memory already.
        first: dict[Value, Pending] = {}
        for root in roots:
            if root._value not in first or (first[root._value]._memory is None and root._memory is not None):
                first[root._value] = root
        outputs = list(first)
        if self._depth:
            # Somebody is in the middle of writing something down, and may hold a value that reads the memory as it is.
            for root in roots:
                if root._settled is not None and "array" in root._settled.attributes:
                    root._settled.attributes["array"] = np.array(root._settled.attributes["array"])
        targets = {
            i: root._memory
            for i, root in enumerate(first.values())
            if root._memory is not None and not is_seen_by_others(root)
        }
        if self._failed and any("error" in value.attributes for value in in_order(outputs)):
            self._commit(roots, dict(zip(outputs, one_by_one(outputs), strict=True)))
            return
        pattern = Pattern(outputs, targets)
        run, executable, is_new = self._by.prepared(pattern)
        with Uninterrupted():  # memory that is written into and what is known of it change together
            try:
                results = run()
            except (
                Exception
            ):  # an index out of range: what does not depend on it is computed, and the rest says why
                self._commit(roots, dict(zip(outputs, one_by_one(outputs), strict=True)))
                return
            self.programs += 1
            self.compilations += is_new
            if not any(executable is each for each in self.executables):
                self.executables.append(executable)
            for i in pattern.updates:
                results[i] = targets[i]
            self._commit(roots, dict(zip(outputs, results, strict=True)))

    def _commit(self, roots: list[Pending], results: dict[Value, Any]) -> None:
        """Put results where they belong."""
        taken = {id(result) for result in results.values() if any(result is root._memory for root in roots)}
        arrays: list[Any] = []
        for root in roots:
            result = results[root._value]
            is_own = isinstance(result, np.ndarray) and result.base is None and id(result) not in taken
            if is_own or result is root._memory or isinstance(result, Exception):
                arrays.append(result)
                taken.add(id(result))
            else:
                arrays.append(np.array(result))
        for root, array in zip(roots, arrays, strict=True):
            if isinstance(array, Exception):
                root._settled = root._value = Value("input", (), {"error": array}, root.shape, root.dtype)
                self._failed.append(weakref.ref(root))
                continue
            memory = root._memory
            if memory is None:
                memory = laid_out_as(root._array, array)
                watch.moved(root, memory)
            elif memory is not array:
                memory[...] = array
            root.settle(memory)
            self._inputs[id(memory)] = root

    def _memory_of(self, handle: Pending) -> np.ndarray:
        """Return the array that a settled handle, or a view of one, is."""
        root = handle.root()
        if "error" in root._value.attributes:
            error = root._value.attributes["error"]
            self._told.append(error)
            raise error.with_traceback(None)
        memory = root._memory
        assert memory is not None
        if root is handle:
            return memory
        view = handle.array
        if not view.size or not memory.flags.c_contiguous:
            return view.view(np.ndarray)
        offset = view.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
        clean = np.ndarray(view.shape, view.dtype, memory, offset, view.strides)
        clean.flags.writeable = view.flags.writeable
        return clean

    def _show_memory(self) -> None:
        """Give nodes the arrays in place of the handles on them."""
        nodes, self._nodes = self._nodes, []
        plain: dict[int, Any] = {}

        def of(thing: Any) -> Any:
            if isinstance(thing, Pending) and thing._recording is self:
                if "error" in thing.root()._value.attributes:
                    return thing  # it could not be computed: whoever asks for it is told why
                if id(thing) not in plain:
                    plain[id(thing)] = self._memory_of(thing)
                return plain[id(thing)]
            if type(thing) in (tuple, list):
                return type(thing)(map(of, thing))
            return {k: of(v) for k, v in thing.items()} if type(thing) is dict else thing

        for reference in nodes:
            node = reference()
            if node is None:
                continue
            for slot in ("_array", "_gradient"):
                content = getattr(node, slot)
                if isinstance(content, list):
                    content[:] = map(of, content)
                else:
                    setattr(node, slot, of(content))
            if node._operation is not None:
                node._inputs, node._attributes = of(node._inputs), of(node._attributes)

    @contextmanager
    def _active(self) -> Iterator[None]:
        """Let what is done here be recorded here, whoever asks."""
        outer = current()
        if outer.recorder is self:
            yield
            return
        recording.begin(self)
        switch(outer._replace(recorder=self))
        try:
            yield
        finally:
            switch(outer)
            recording.end(self)

    @contextmanager
    def _unrecorded(self) -> Iterator[None]:
        outer = current()
        inner = outer._replace(recorder=None)
        switch(inner)
        try:
            yield
        finally:
            now = current()  # it may leave another mode than it found: set_grad_enabled(False)
            switch(outer if now is inner else now._replace(recorder=outer.recorder))

    def end(self) -> None:
        """Compute what is left; raise what went wrong on the way, if somebody holds what depends on it."""
        self.flush()
        for handle in (reference() for reference in self._failed):
            error = None if handle is None else handle._value.attributes.get("error")
            if error is not None and not any(error is told for told in self._told):
                raise error

    def explain(self) -> str:
        """Tell what was recorded, the programs it became, and what was computed at once."""
        lines = [
            f"{self.recorded} arrays recorded; {self.programs} programs run, {self.compilations} of them compiled "
            f"({self._by.backend})"
        ]
        lines += [f"computed at once {count}×: {what}" for what, count in self.at_once_because.most_common()]
        for number, executable in enumerate(self.executables, start=1):
            told = executable.report if executable.report is not None else executable.text()
            lines.append(f"program {number}:\n{told}")
        return "\n".join(lines)
