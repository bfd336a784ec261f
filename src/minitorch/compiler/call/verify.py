"""Is a program right? Enters: a new program and the run it was recorded from. Leaves: where they differ, if they do."""

from __future__ import annotations

import functools
import math
from collections.abc import Container, Iterable
from typing import Any

import numpy as np

from minitorch.compiler.call.there import FEW_NUMBERS, DeviceProgram, computing
from minitorch.compiler.ir.elsewhere import Elsewhere, lies_here
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.program import VIEWS, Program, Value, evaluate, interpret, numpy_function
from minitorch.compiler.ir.simplify import number
from minitorch.compiler.trace.recorder import Recording
from minitorch.engine.dtypes import finfo, is_bfloat16, kind_of
from minitorch.engine.gpu import device_of, on_host
from minitorch.engine.recording import rehearsal

# So many rounding errors are made at once on everything on the way: long sums in another order differ by as many.
# And so many times as far as that takes a result may it be from what the function gave.
ERRORS, FARTHER, ROUNDS = 16, 8, 5


def first_difference(program: Any, active: Recording) -> tuple[int, str] | None:
    """Run a Specialisation on what the function started from.

    Returns the first output that is not what the function gave, and 'recording' if that is what went wrong ('' if it
    is how the program is run); None if all agree.
    """
    with rehearsal():
        return _first_difference(program, active)


def _first_difference(program: Any, active: Recording) -> tuple[int, str] | None:
    compute = _computing(active.before)
    if compute is not None:
        compute.prepare([each for value in program.recorded.program.outputs for each in _looked_at(value)])
    updated = {u.output: u.input for u in program.recorded.updates}
    written = set(updated.values())
    before = [a.copy() if i in written else a for i, a in enumerate(active.before)]
    outputs = program.runner(before)
    back = program.backward
    given = [] if back is None else [outputs[i] for i in back.kept]
    results = [before[updated[i]] if i in updated else outputs[i] for i in range(len(active.after))]
    if isinstance(program.runner, DeviceProgram):
        for i in program.runner.unread:
            results[i] = active.after[i]
    del before, outputs
    itself = active.numbers_there  # (who writes down without numbers has them from what was written down)
    wrong = differing(program.recorded.program, program.runner, active.before, results, active.after, itself)
    if wrong:
        reference = interpret(program.recorded.program, active.before, compute=compute)
        return wrong[0], "" if close(reference[wrong[0]], active.after[wrong[0]]) else "recording"
    if back is None:
        return None
    given += [np.ones_like(active.after[i]) for i in back.roots]
    given += back.sizes_now()
    results = back.runner([np.array(a) if lies_here(a) else a.copy() for a in given])
    if itself:
        back.expected = interpret(back.program, given, compute=_computing(given))
    # From the numbers that the program keeps for it the way back may lead far from the function's own, where they are a
    # rounding error apart: it is looked at from where both begin.
    whole = back.program if itself else _from_the_beginning(program.recorded.program, back)
    begun = given if itself else [*active.before, *given[len(back.kept) :]]
    wrong = differing(whole, back.runner, begun, results, back.expected, itself)
    if not wrong:
        return None
    reference = interpret(back.program, given, compute=_computing(given))
    room = "" if close(reference[wrong[0]], back.expected[wrong[0]]) else "recording"
    return len(active.after) + wrong[0], room


def _from_the_beginning(forward: Program, back: Any) -> Program:
    """Return the way back as a function of what the forward program is given, and of the gradients."""
    new: dict[Value, Value] = {
        kept: forward.outputs[i] for kept, i in zip(back.program.inputs, back.kept, strict=False)
    }
    for value in back.program.values():
        if value not in new:
            inputs = tuple([new[each] for each in value.inputs])
            new[value] = Value(value.primitive, inputs, value.attributes, value.shape, value.dtype)
    gradients = [new.setdefault(each, each) for each in back.program.inputs[len(back.kept) :]]
    outputs = [new[each] for each in back.program.outputs]
    guards = (*forward.guards, *back.program.guards)
    return Program([*forward.inputs, *gradients], outputs, guards)


def _computing(arrays: Iterable[Any]) -> Any:
    """Return what computes values from arrays like these: None for NumPy."""
    there = next((memory for a in arrays if (memory := device_of(a)) is not None), None)
    return None if there is None else computing(there)


def differing(
    program: Program,
    runner: Any,
    inputs: list[Any],
    results: list[Any],
    expected: list[Any],
    itself: bool = False,
) -> list[int]:
    """Return which results are not what is expected, beyond what rounding may do on the way.

    itself: whether what is expected was computed by the program, value by value, and not by the function.
    """
    compute = _computing(inputs)
    pairs = enumerate(zip(results, expected, strict=True))
    wrong = [i for i, (a, b) in pairs if not close(a, b, 0.0, compute)]
    if not wrong:
        return []
    # The memory is needed: NumPy takes more of it for a large program than the function does.
    runner.settle()
    if compute is None:
        still = _not_made_from_the_others(program, wrong, inputs, results, expected)
    else:
        still = _asked_for_themselves(program, wrong, inputs, results, expected, compute)
        if still != wrong and not itself:
            there = [_beside(a, b, compute) for a, b in zip(expected, results, strict=True)]
            right = [i for i in wrong if i not in still]
            still = sorted(still + _asked_for_themselves(program, right, inputs, there, there, compute))
    if not still:
        return []
    for i in set(range(len(results))).difference(wrong):
        results[i] = None
    own = [there if here is None else here for here, there in zip(results, expected, strict=True)]
    # How far do these outputs move when the inputs and everything on the way move by some rounding errors? Asked some
    # times: not all directions show it.
    # It is asked of the program, value by value, and seen from where that comes to without them: a program that is
    # another function is far from what the function gave, and that is no rounding error.
    # (What is small is looked at here.)
    near = lambda a: compute is None or a.nbytes <= FEW_NUMBERS
    results, expected = ([on_host(a) if near(a) else a for a in each] for each in (own, expected))
    unmoved = {i: expected[i] for i in still}
    if not itself:
        part = Program(program.inputs, [program.outputs[i] for i in still])
        outputs = interpret(part, inputs, compute=compute)
        unmoved = {i: _beside(a, expected[i], compute) for i, a in zip(still, outputs, strict=True)}
        del outputs
    moved = {i: np.zeros_like(expected[i], _DISTANCE.get(expected[i].dtype.char, "d")) for i in still}
    halves = any(value.dtype in HALVES for value in program.values())
    coarse = compute is not None or halves
    if compute is not None:
        compute.prepare(_shaken_by({v.dtype for v in program.values() if v.dtype in _FLOATS}))
    for seed in range(ROUNDS):
        part = Program(program.inputs, [program.outputs[i] for i in still])
        outputs = _shaken(part, inputs, _Shake(seed, compute), compute)
        if compute is None and any(_is_lost(a, expected[i]) for a, i in zip(outputs, still, strict=True)):
            # So many errors lead where there are no numbers: log(1 - tanh(x)² + 1e-6), where tanh(x) is all but 1.
            outputs = _shaken(part, inputs, _Shake(seed, compute, errors=1), compute)
        for k, i in enumerate(still):
            shaken, outputs[k] = outputs[k], None  # it may go when it was looked at
            farther = _apart(_beside(shaken, expected[i], compute), unmoved[i], moved[i].dtype, compute)
            moved[i] = _mapped(compute, "maximum", moved[i], farther)
        still = [
            i
            for i in still
            if not close(
                results[i], expected[i], _spread(moved[i], expected[i], program.outputs[i], compute), compute
            )
            or (halves and not _on_the_whole(results[i], expected[i], moved[i], compute))
        ]
        if still and coarse and (compute is None or seed in (0, ROUNDS - 1)):
            # What agrees now may be gradients that the rest is made of; it agrees within so much that they may be of
            # any sign. What is made of them then is another number, but of the same size. (On a device most of that
            # was seen before; it takes half as long as to ask once more.)
            unlike = _not_made_from_the_others(program, still, inputs, results, expected)
            still = [
                i for i in still if i in unlike or not _of_the_same_size(results[i], expected[i], compute)
            ]
        if not still:
            break
    return still


def _shaken(program: Program, inputs: list[Any], shake: _Shake, compute: Elsewhere | None) -> list[Any]:
    return interpret(program, [shake.moved(a) for a in inputs], shake, compute)


def _is_lost(shaken: Any, expected: Any) -> bool:
    """Tell whether there are no numbers any more where there were some."""
    if kind_of(expected.dtype) != "f":
        return False
    return bool((np.isfinite(expected) & ~np.isfinite(shaken)).any())


def _beside(array: Any, other: Any, compute: Elsewhere | None) -> Any:
    """Return an array where another one lies."""
    if compute is None or lies_here(array) == lies_here(other):
        return array
    return on_host(array) if lies_here(other) else compute.to_device(array)


def _apart(a: Any, b: Any, dtype: np.dtype, compute: Elsewhere | None) -> Any:
    """Return how far arrays are apart, in a dtype; what is no number in one of them is nowhere."""
    kind = kind_of(a.dtype)
    with np.errstate(all="ignore"):
        if kind == "c":
            return np.nan_to_num(np.abs(a - b).astype(dtype))
        if kind != "f":
            # (An index, a count or a truth may be another one after a rounding error: where, is what counts.)
            return _mapped(compute, "cast", _mapped(compute, "not_equal", a, b), to=dtype)
        a, b = (_mapped(compute, "cast", each, to=dtype) for each in (a, b))
        gap = _mapped(compute, "absolute", _mapped(compute, "subtract", a, b))
        gap = _mapped(compute, "minimum", gap, float(np.finfo(dtype).max))
        return _mapped(compute, "where", _mapped(compute, "isnan", gap), 0.0, gap)


def _mapped(compute: Elsewhere | None, function: str, *operands: Any, to: Any = None) -> Any:
    """Return an elementwise function of arrays of one shape, and of numbers: of a device's by few kernels of our own.

    (CuPy would make one for each function and dtype, in a tenth of a second.)
    """
    arrays = [
        each for each in operands if not isinstance(each, float)
    ]  # (NumPy's own numbers are floats, too)
    if compute is None or lies_here(arrays[-1]):
        return operands[0].astype(to) if to is not None else numpy_function(function)(*operands)
    like = arrays[-1]
    if to is not None and like.dtype == to:
        return like
    given = [compute.number(each, like) if isinstance(each, float) else each for each in operands]
    return compute.map(function, *given, to=to)


def _not_made_from_the_others(
    program: Program, wrong: list[int], inputs: list[Any], results: list[Any], expected: list[Any]
) -> list[int]:
    """Return which of these outputs are not what the program makes of its inputs and of its own other outputs.

    Those agree with what the function gave. A parameter that Adam moves by the sign of a gradient next to nothing need
    not, and is right all the same if it is the right function of this gradient: one that makes what the function gave
    of the function's own gradient. (Else what was written down is something else.)
    """
    others = [i for i in range(len(results)) if i not in wrong]
    unlike = dict.fromkeys(wrong, False)
    for found in (results, expected):
        known = {program.outputs[i]: found[i] for i in others}
        known.update(zip(program.inputs, inputs, strict=True))
        part = Program(list(known), [program.outputs[i] for i in wrong if not unlike[i]])
        compute = _computing(known.values())
        outputs = interpret(part, list(known.values()), compute=compute)
        for i, a in zip([i for i in wrong if not unlike[i]], outputs, strict=True):
            unlike[i] = not close(found[i], a, 0.0, compute)
    return [i for i in wrong if unlike[i]]


def _asked_for_themselves(
    program: Program,
    wrong: list[int],
    inputs: list[Any],
    results: list[Any],
    expected: list[Any],
    compute: Elsewhere,
) -> list[int]:
    """Return which of these outputs are not, in few steps, what the program makes of its own other outputs.

    The rest is right if those are: where a step is an optimiser's, its gradients alone have to be asked for. What is
    made of others that are in question is another number, but of the same size.
    """
    outputs, known = program.outputs, dict(zip(program.outputs, results, strict=True))
    known.update(zip(program.inputs, inputs, strict=True))
    in_question = {outputs[i] for i in wrong}
    anew: dict[int, Value] = {}
    made_of_those = set()
    for i in wrong:
        reached = _few_steps_to(outputs[i], known)
        if reached is not None:
            old = outputs[i]
            anew[i] = Value(old.primitive, old.inputs, old.attributes, old.shape, old.dtype)
            if not in_question.isdisjoint(reached):
                made_of_those.add(i)
    part = Program(list(known), list(anew.values()))
    found = dict(zip(anew, interpret(part, list(known.values()), compute=compute), strict=True))
    return [
        i
        for i in wrong
        if i not in found
        or not close(results[i], found[i], 0.0, compute)
        or (i in made_of_those and not _of_the_same_size(results[i], expected[i], compute))
    ]


def _few_steps_to(output: Value, known: Container[Value]) -> set[Value] | None:
    """Return what of some known values an output is made of, if that takes few steps; else None."""
    reached, seen, stack = set(), set(), [*output.inputs]
    if output.primitive not in _QUICK:
        return None
    while stack:
        value = stack.pop()
        if value in known:
            reached.add(value)
        elif value not in seen:
            seen.add(value)
            if value.primitive not in _QUICK or len(seen) > FEW_STEPS:
                return None
            stack += value.inputs
    return reached


def _on_the_whole(a: Any, b: Any, moved: Any, compute: Elsewhere | None) -> bool:
    """Tell whether most floats are as near to others as rounding on the way takes them.

    Between two halves there is so much room that one element alone may be far off; but rounding errors are each of
    their own, and a mistake that all elements share is seen in the one in the middle.
    """
    if kind_of(a.dtype) != "f" or a.size < FEW:
        return True
    few = [_sample(each, _SAMPLE, compute).astype(np.float64) for each in (a, b, moved)]
    with np.errstate(all="ignore"):
        apart, size = np.nan_to_num(np.abs(few[0] - few[1])), np.nan_to_num(np.abs(few[1]), posinf=0.0)
    allowed = ON_THE_WHOLE * np.median(few[2]) + _RTOL["f"] * (np.median(size) + 0.05 * size.max())
    return bool(np.median(apart) <= allowed)


def _of_the_same_size(a: Any, b: Any, compute: Elsewhere | None) -> bool:
    """Tell whether floats are no farther from others than twice as far as those are large: all but a sign agrees."""
    if kind_of(a.dtype) != "f":
        return True
    size = _size(_mapped(compute, "cast", b, to=np.float32) if is_bfloat16(b.dtype) else b, compute)
    return close(a, b, 2 * size / FARTHER, compute)


class _Shake:
    """Moves floats by some rounding errors: the inputs, and whatever is computed with rounding.

    A sum's error goes with the size of what is summed, not only with the sum, which may be next to nothing. Halves are
    computed in float32 and rounded once, which after another rounding error on the way may be to a neighbour.
    """

    def __init__(self, seed: int, compute: Elsewhere | None, errors: int = ERRORS) -> None:
        self.noise, self._compute, self._errors = np.random.default_rng(seed), compute, errors
        self._there: dict[Any, Any] = {}  # noise on a device, by dtype and whether it is full

    def __call__(self, value: Value, inputs: list[Any], array: Any) -> Any:
        if value.primitive not in ("map", "reduce", "contract", "scan", "scatter"):
            return array
        if value.attributes.get("function") == "cast" and value.dtype in HALVES:
            # To a neighbour, and always: one that stays where it is shows nothing of what depends on it.
            error = 0.75 * float(finfo(value.dtype).eps)
            if self._compute is not None and not lies_here(array) and array.nbytes > FEW_NUMBERS:
                found = self._by_kernel(array, array, error, float(np.finfo(np.float32).tiny), True)
                if found is not None:
                    return found
            wide = self.moved(_mapped(self._compute, "cast", array, to=np.float32), error=error, fully=True)
            return _mapped(self._compute, "cast", wide, to=value.dtype)
        if value.attributes.get("function") in _EXACT:  # what is compared for equality later stays equal
            return array
        kind = (value.primitive, value.attributes.get("function"))
        summed = value.primitive == "contract" or kind == ("reduce", "add")
        if summed and getattr(array, "dtype", None) in _FLOATS:
            # Squared relative to the largest of each: squares of small numbers would vanish.
            of = functools.partial(_mapped, self._compute)
            sizes = [_size(i, self._compute) or 1.0 for i in inputs]
            squares = [of("square", of("divide", i, s)) for i, s in zip(inputs, sizes, strict=True)]
            summed = (self._compute or evaluate)(value, squares)
            if self._compute is not None and lies_here(summed) != lies_here(array):
                summed = on_host(summed) if lies_here(array) else self._compute.to_device(np.asarray(summed))
            size = of("multiply", of("sqrt", summed), math.prod(sizes))
            half = _rounds_a_factor_to(value)
            if half is not None:
                array = self.moved(array, size, float(finfo(half).eps))
            return self.moved(array, of("maximum", size, of("absolute", array)))
        return self.moved(array)

    def moved(self, array: Any, sized: Any = None, error: float = 0.0, fully: bool = False) -> Any:
        """Return an array moved by some rounding errors of `sized`, or of itself.

        error: in place of those, by this. fully: by all of it, up or down, and not by some of it.
        """
        if getattr(array, "dtype", None) not in _FLOATS:
            return array
        error = error or self._errors * float(np.finfo(array.dtype).eps)
        if not lies_here(array) and array.nbytes <= FEW_NUMBERS:
            array, sized = on_host(array), None if sized is None else on_host(sized)
        if not lies_here(array):
            return self._moved_there(array, sized, error, fully)
        # In few arrays of its own dtype: a large model has to be shaken too.
        drawn = np.float32 if array.dtype == np.float16 else array.dtype
        moved = np.asarray(self.noise.random(array.shape, drawn)).astype(array.dtype, copy=False)
        moved -= 0.5
        moved = np.copysign(np.asarray(0.5, array.dtype), moved) if fully else moved
        moved *= 2 * error
        size = np.asarray(np.abs(array if sized is None else sized))
        # The numbers next to 0 are as far apart as the smallest that have all their digits.
        np.maximum(size, np.finfo(array.dtype).tiny, out=size, where=array != 0)
        with np.errstate(all="ignore"):
            moved *= size
            moved += array
        np.copyto(moved, array, where=~np.isfinite(moved))
        return moved

    def _moved_there(self, array: Any, sized: Any, error: float, fully: bool) -> Any:
        """The same on a device, by noise that comes again after many numbers."""
        assert self._compute is not None
        least = float(np.finfo(array.dtype).tiny)
        found = self._by_kernel(array, array if sized is None else sized, error, least, fully)
        if found is not None:
            return found
        noise, first = self._some_noise(array.dtype, fully)
        times = 1 + -(-array.size // _NOISE)
        noise = self._compute.laid_out(np.broadcast_to(noise, (times, _NOISE))).reshape(-1)
        of = functools.partial(_mapped, self._compute)
        noise = of("multiply", noise[first : first + array.size].reshape(array.shape), 2 * error)
        size = of("absolute", array if sized is None else sized)
        size = of("where", of("not_equal", array, 0.0), of("maximum", size, least), size)
        moved = of("add", of("multiply", noise, size), array)
        return of("where", of("isfinite", moved), moved, array)

    def _by_kernel(self, array: Any, sized: Any, error: float, least: float, fully: bool) -> Any:
        """The same by one kernel, halves in float32; None if there is none."""
        assert self._compute is not None
        wide = array.dtype if array.dtype == np.float64 else np.dtype(np.float32)
        noise, first = self._some_noise(wide, fully)
        return self._compute.shaken(array, sized, noise, first, error, least)

    def _some_noise(self, dtype: np.dtype, fully: bool) -> tuple[Any, int]:
        """Return noise on a device, from -½ to ½, or of these alone, and where to begin."""
        assert self._compute is not None
        noise = self._there.get((dtype, fully))
        if noise is None:
            drawn = self.noise.random(_NOISE, np.float64 if dtype == np.float64 else np.float32) - 0.5
            drawn = np.copysign(0.5, drawn) if fully else drawn
            noise = self._there[dtype, fully] = self._compute.to_device(drawn.astype(dtype))
        return noise, int(self.noise.integers(_NOISE))


def _rounds_a_factor_to(product: Value) -> np.dtype | None:
    """Return the half that a product may round one of its factors to, because the other one is such."""
    if product.primitive != "contract":
        return None
    first, second = map(_half_of, product.inputs)
    return (first or second) if first is None or second is None else None


def _half_of(value: Value, scaled: bool = False) -> np.dtype | None:
    """Return which half a float32 was, but for a number that it is multiplied by. scaled: for any number."""
    while value.dtype not in HALVES:
        function = value.attributes.get("function") if value.primitive == "map" else None
        known = function == "multiply" and number(value.inputs[1]) is not None
        scales = known or (scaled and function == "multiply" and _is_one_number(value.inputs[1]))
        if value.primitive not in VIEWS and function != "cast" and not scales:
            return None
        value = value.inputs[0]
    return value.dtype


def _is_one_number(value: Value) -> bool:
    """Tell whether all elements of a value are one."""
    while value.primitive in ("expand", "reshape"):
        value = value.inputs[0]
    return math.prod(value.shape) == 1


FEW_STEPS = 4096  # that an optimiser takes, at most, to see whether all gradients are finite, say
_NOISE = 1 << 20  # numbers that are drawn for an array on a device
_FLOATS = (np.float16, np.float32, np.float64)
_DISTANCE = {
    "E": "f",
    "e": "f",
    "f": "f",
    "F": "f",
}  # in which dtype how far two are apart is kept: a large model's have to fit
# What is allowed without asking further; more where further questions are not understood: they are about real numbers.
_RTOL = {"E": 8e-3, "e": 2e-3, "f": 2e-5, "d": 1e-11, "F": 2e-4, "D": 1e-9, "g": 1e-11, "G": 1e-9}
# Where halves are on the way, the element in the middle may be no farther than so many times as far as that one was
# moved. (Of two runs that round independently of each other it would be 0.5 times.)
ON_THE_WHOLE, FEW, _SAMPLE = 1.2, 32, 1 << 14
# On a device sums are long, are added up in orders of their own, and to ask further takes seconds.
FARTHER_THERE = 5
PIECE, PIECE_THERE = 1 << 16, 1 << 26  # elements that are compared at once: on the host, and on a device
# What takes little time, and gives the same each time.
_QUICK = {"map", "reduce", "reshape", "permute", "expand", "slice", "concatenate", "pad", "constant", "iota"}
_EXACT = {
    "maximum", "minimum", "where", "cast", "negative", "absolute", "sign", "copysign", "floor", "ceil", "trunc",
    "rint", "set",
}  # fmt: skip


def _spread(moved: Any, expected: Any, output: Value, compute: Elsewhere | None) -> Any:
    """Return how far rounding on the way may take each element of an output, by how far some of it has moved it."""
    if not moved.size:
        return moved
    # Where a quarter of the elements are so sensitive (a gradient of 0 but for rounding, made ±1 by Adam) all are.
    few = moved if lies_here(moved) else _sample(moved, _SAMPLE, compute)
    spread = _mapped(compute, "maximum", moved, float(np.quantile(few, 0.75)))
    half = _half_of(output, scaled=True) if output.dtype == np.float32 else None
    if half is None:
        return spread
    # What was a half is one of its numbers, and may be the next one: whether it has moved there is a matter of luck,
    # and of millions of elements some never have it.
    size = _mapped(compute, "absolute", _mapped(compute, "cast", expected, to=spread.dtype))
    size = _mapped(compute, "where", _mapped(compute, "isfinite", size), size, 0.0)
    next_one = _mapped(compute, "multiply", size, float(finfo(half).eps) / FARTHER)
    return _mapped(compute, "add", spread, next_one)


def _sample(array: Any, most: int, compute: Elsewhere | None) -> np.ndarray:
    """Return some of an array's elements, here."""
    few = np.ravel(array)[:: 1 + array.size // most]
    return few if lies_here(few) or compute is None else on_host(compute.laid_out(few))


def _shaken_by(dtypes: Iterable[np.dtype]) -> list[Value]:
    """Return what is computed, on a device, to shake values of some dtypes and to see how far they move."""
    found, many, truth = [], (1 << 24,), np.dtype(bool)
    for dtype in {*dtypes, np.dtype(np.float32)}:
        value, flag = (Value("input", (), {"index": 0}, many, each) for each in (dtype, truth))
        takes = {"add": 2, "subtract": 2, "multiply": 2, "divide": 2, "maximum": 2, "minimum": 2}
        takes |= {"absolute": 1, "square": 1, "sqrt": 1}
        found += [_map(function, (value,) * n, dtype) for function, n in takes.items()]
        found += [
            _map(function, (value,) * n, truth)
            for function, n in (("not_equal", 2), ("isfinite", 1), ("isnan", 1))
        ]
        found.append(_map("where", (flag, value, value), dtype))
    return found


def close(a: Any, b: Any, spread: Any = 0.0, compute: Elsewhere | None = None) -> bool:
    """Tell whether two arrays agree to rounding, or within some times of `spread`, what rounding on the way can do.

    compute: of what was computed on a device, what computes there. Such numbers are sums in orders of their own, where
    they are few and lie on the host, too.
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if lies_here(a) != lies_here(b):
        a, b = on_host(a), on_host(b)
    rtol = _RTOL.get(a.dtype.char)
    if rtol is not None and a.dtype not in HALVES and (compute is not None or not lies_here(a)):
        rtol *= FARTHER_THERE
    if is_bfloat16(a.dtype):
        a, b = (_mapped(compute, "cast", each, to=np.float32) for each in (a, b))
    if np.ndim(spread):
        spread = np.ravel(np.broadcast_to(spread, a.shape))
    a, b = np.ravel(a), np.ravel(b)
    if compute is not None and not lies_here(a) and a.size:
        at_once = _close_at_once(a, b, rtol, spread, compute)
        if at_once is not None:
            return at_once
    # Piece by piece: what is computed on the way stays small, and near.
    length = PIECE if lies_here(a) else PIECE_THERE
    pieces = [slice(i, i + length) for i in range(0, a.size, length)]
    of = lambda array, piece: array[piece] if np.size(array) > 1 else array
    if a.dtype.kind not in "fc":
        return all(_all((a[p] == b[p]) | (of(spread, p) > 0)) for p in pieces)
    scale = max((_size(b[p]) for p in pieces), default=0.0)
    return all(_close(a[p], b[p], rtol, scale, of(spread, p)) for p in pieces)


def _close_at_once(a: Any, b: Any, rtol: Any, spread: Any, compute: Elsewhere) -> bool | None:
    """Tell the same by few of a device's kernels, looking at the farthest elements; None if that does not tell."""
    if a.dtype.kind in "biu" and not np.ndim(spread):
        return bool(compute.map("cast", compute.map("equal", a, b), to=np.uint8).min())
    if a.dtype.kind != "f":
        return None
    gap, size = compute.map("subtract", a, b), compute.map("absolute", b)
    if not np.isfinite(float(gap.sum())) or not np.isfinite(scale := float(size.max())):
        return None
    allowed, more = _mapped(compute, "multiply", size, rtol), 0.0
    if np.ndim(spread):
        spread = _mapped(compute, "cast", spread, to=a.dtype)
        allowed = _mapped(compute, "add", allowed, _mapped(compute, "multiply", spread, float(FARTHER)))
    else:
        more = FARTHER * float(spread)
    farthest = compute.map("subtract", compute.map("absolute", gap), allowed).max()
    return float(farthest) <= 0.05 * rtol * scale + more + _least(a.dtype)


def _looked_at(value: Value) -> list[Value]:
    """Return what is computed, on a device, to tell whether a value is close to another."""
    if value.dtype.kind == "f":
        takes = {"subtract": 2, "absolute": 1, "multiply": 2}
        return [_map(function, (value,) * n, value.dtype) for function, n in takes.items()]
    equal = _map("equal", (value, value), np.dtype(bool))
    return [equal, _map("cast", (equal,), np.dtype(np.uint8))]


def _map(function: str, inputs: tuple[Value, ...], dtype: np.dtype) -> Value:
    return Value("map", inputs, {"function": function}, inputs[0].shape, dtype)


def _least(dtype: np.dtype) -> float:
    """Return how far gradients that have all but vanished may be apart."""
    return 64 * float(np.finfo(dtype).smallest_subnormal)


def _size(array: Any, compute: Elsewhere | None = None) -> float:
    size = _mapped(compute, "absolute", array)
    if not lies_here(size):
        largest = float(size.max())
        if math.isfinite(largest):
            return largest
        return float(_mapped(compute, "where", _mapped(compute, "isfinite", size), size, 0.0).max())
    return float(np.max(size, where=np.isfinite(size), initial=0.0))


def _close(a: Any, b: Any, rtol: Any, scale: float, spread: Any) -> bool:
    with np.errstate(all="ignore"):
        allowed = rtol * (np.abs(b) + 0.05 * scale) + FARTHER * spread
        allowed = allowed + _least(a.dtype)
        return _all((np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b)))


def _all(truths: Any) -> bool:
    # (CuPy has the smallest ready; for `all` it would have to make a kernel, in seconds.)
    return bool(truths.all() if lies_here(truths) else truths.astype(np.uint8).min())
