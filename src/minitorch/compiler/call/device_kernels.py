"""Eager ops on a GPU as kernels of our own. Enters: an op's forward or rule, and arrays there. Leaves: its results.

The function runs once on arrays that record (trace/) and of which only shapes are known; what it writes down becomes
one kernel, or a few, of the backend for GPUs, which are launched one after the other on the current stream. They are
kept by dtypes, shapes and attributes; where a function comes with other lengths again and again, the axes that differ
vary from then on, and the same kernels serve all their lengths. The first calls are computed value by value, and what
kernels give the first time is compared with that. None is the answer where CuPy is to compute: llvmlite is not
installed, an order in memory that kernels do not know, a part of the function for which there is no kernel.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.words import ALIGNMENT
from minitorch.compiler.call.agreement import agrees
from minitorch.compiler.call.device_lengths import Lengths, Shapes, as_kernels_see, without_lengths
from minitorch.compiler.call.device_looks import Look, as_asked, look_of, seen_through
from minitorch.compiler.call.eager_backend import MOST_SHAPES, Lately, in_use, is_due, kept, making
from minitorch.compiler.call.kernels import Fixed, Function, places_in, put_together, recorded, warn
from minitorch.compiler.call.launches import DeviceKernel, Launches
from minitorch.compiler.call.update_kernels import NoKernel
from minitorch.compiler.ir.elsewhere import Elsewhere, lies_here
from minitorch.compiler.ir.halves import HALVES
from minitorch.compiler.ir.program import Program, interpret
from minitorch.compiler.trace.promised import NumbersMissing, promise
from minitorch.compiler.trace.refusal import CompileError
from minitorch.engine import recording
from minitorch.engine.watch import owner_of
from minitorch.ops.narrow import is_narrow
from minitorch.ops.native import ANY, ELEMENTWISE, first_of

# (uint8: at which place of its window a pooling found the largest, too.)
DTYPES = frozenset(
    np.dtype(t) for t in (np.float32, np.float64, np.uint8, np.int32, np.int64, np.bool_)
).union(HALVES)
MOST_QUICK = 4096  # that are found without a second look
LARGE = 1 << 20  # elements, from which on a kernel takes longer than its launch
# Elements after which large arrays of the same lengths, one of many, are worth a kernel of their own.
MUCH = 1 << 30

_met: dict[Any, int] = kept(Lately())
_kernels: dict[Any, DeviceKernel | None] = kept()
_shapes: dict[Any, int] = kept()  # how many kernels a function has
# By the classes, shapes and dtypes of arrays, and how they lie in memory: kernels, with the results' shape where arrays
# were laid out in a row; and where they do not lie in the order of their axes, how they are looked at.
_quick: dict[Any, tuple[DeviceKernel, Any] | Looking] = kept()
_lengths: dict[Any, Lengths] = kept(Lately())  # what is known of a function's lengths, by all but those
_sized: dict[Any, DeviceKernel] = kept()  # kernels for all lengths, as they are for some
# Functions before they have kernels.
_recorded: dict[Any, tuple[Program, list[int | None], bool] | None] = kept(Lately())
_computed: dict[Any, int] = kept(Lately())  # how many elements these have computed of some lengths
_NUMBERS = {float, int, bool, type(None)}
_UNKNOWN: Any = object()


def quick(function: Function, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Return what a function gives of arrays of which it has met the like, as they are."""
    try:
        key, arrays, addresses = _asked(function, inputs, attributes)
        found = _quick.get(key)
    except (AttributeError, TypeError):  # no arrays; an attribute that cannot be a part of a key
        return None
    if found is None:
        return None
    if isinstance(found, Looking):
        return found.quickly(inputs, attributes)
    kernel, shape = found
    return kernel(arrays, shape, addresses)


def _asked(
    function: Function, inputs: tuple[Any, ...], attributes: dict[str, Any]
) -> tuple[tuple[Any, ...], list[Any], list[int]]:
    """Return what is computed as a key, how arrays lie in memory among it; the arrays, and where they begin."""
    key: list[Any] = [function]
    arrays: list[Any] = []
    addresses = []
    for each in inputs:
        kind = each.__class__
        if kind in _NUMBERS:
            key += kind, each if each or each is None else str(each)  # (0.0 is no -0.0)
            continue
        several: Sequence[Any] = (each,)
        if isinstance(each, list):
            key += kind, len(each)
            several = each
        for array in several:
            if array is None:
                key.append(None)
                continue
            address = array.data.ptr
            key += array.__class__, array.shape, array.dtype, address % ALIGNMENT
            if not array._c_contiguous:  # (`flags` would take five times as long)
                owner = owner_of(array)
                key += array.strides, owner.dtype, owner.size, owner._c_contiguous, address - owner.data.ptr
            arrays.append(array)
            addresses.append(address)
    if attributes:
        key += _apart(attributes)
    return tuple(key), arrays, addresses


def _keep_for_quick(
    function: Function, inputs: tuple[Any, ...], attributes: dict[str, Any], kernel: DeviceKernel, shape: Any
) -> None:
    """Let `quick` find a kernel. shape: of the results, where the arrays were laid out in a row."""
    _find_quickly(function, inputs, attributes, (kernel, shape))
    finder = kernel.run.launcher.finder
    if finder is None or not kernel.made or any(isinstance(each, list) for each in inputs):
        return
    found = kernel.run.in_machine_code(shape)
    if found is not None and not any(map(_is_zero, (*inputs, *attributes.values()))):
        parts = [
            part
            for each in inputs
            for part in ((each.__class__, each) if each.__class__ in _NUMBERS else (each.shape, each.dtype))
        ]
        named = [part for name, each in attributes.items() for part in (name, each, type(each))]
        finder.keep((function, *parts, *named), *found, kernel.made)


class Looking:
    """How a function is computed of arrays some of which lie in another order of their axes: kernels know of it.

    looks: what each input is a look at. alike: the look that all arrays are, if they are of one shape.
    """

    def __init__(
        self, function: Function, plain: Function, looks: tuple[Look | None, ...], alike: Look | None
    ) -> None:
        self._looks, self._lie_as = looks, getattr(function, "as_a_whole", ())
        self._back = None if alike is None or alike.shape is not None else alike.back
        self._function, self._otherwise = function, plain
        if self._back is None:
            self._function = seen_through(function, looks, self._lie_as)
            self._otherwise = seen_through(plain, looks, self._lie_as)

    def quickly(self, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Return what it gives by kernels that `quick` finds; None if it finds none."""
        return self._as_asked(quick(self._function, self._looked_at(inputs), attributes))

    def compute(self, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Return what it gives, by kernels; None if that is left to CuPy."""
        given, lengths = self._looked_at(inputs), ANY if self._back is None else ELEMENTWISE
        found = compute(self._function, self._otherwise, given, attributes, lengths)
        if found is None and self._lie_as and self._back is None:
            found = self._otherwise(*given, **attributes)  # results shall lie so, whatever computes them
        return self._as_asked(found)

    def _looked_at(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        looks = zip(inputs, self._looks, strict=True)
        return tuple([x if look is None else look.taken_from(x) for x, look in looks])

    def _as_asked(self, found: Any) -> Any:
        if found is None:
            return None
        if self._back is not None:
            return found.transpose(self._back)
        return as_asked(found, self._looks, self._lie_as)


def _find_quickly(
    function: Function, inputs: tuple[Any, ...], attributes: dict[str, Any], found: Any
) -> None:
    """Let `quick` find something; if that is much already, all else is forgotten."""
    if len(_quick) >= MOST_QUICK:
        _quick.clear()
        backend = in_use()
        if backend is not None and backend.launcher.finder is not None:
            backend.launcher.finder.entries.clear()
    with contextlib.suppress(AttributeError, TypeError):  # as in `quick`, which would not find it
        _quick[_asked(function, inputs, attributes)[0]] = found


def _apart(attributes: dict[str, Any]) -> tuple[Any, ...]:
    """Return attributes as a part of a key, in which 1, True and 1.0 differ, and 0.0 and -0.0."""
    # (What `_is_zero` tells stands here: a call of it for each would take as long as the rest.)
    kinds = [(name, each, each.__class__) for name, each in attributes.items()]
    return tuple(
        [(name, kind, str(each) if kind is float and not each else each) for name, each, kind in kinds]
    )


def _is_zero(each: Any) -> bool:
    return each.__class__ is float and not each


def compute(
    function: Function, plain: Function, inputs: tuple[Any, ...], attributes: dict[str, Any], lengths: str
) -> Any:
    """Return what a function gives, by kernels; None if that is left to CuPy, which computes it by `plain`."""
    first = inputs[1] if inputs[0].__class__ is float else inputs[0]
    kind = (first_of(first) if isinstance(first, list) else first).__class__
    arrays: list[Any] = []
    tree: list[Any] = []
    for each in inputs:
        if each.__class__ is kind:
            tree.append(-1)
            arrays.append(each)
        elif each is None:
            tree.append(None)
        elif isinstance(each, (list, tuple)):
            tree.append(places_in(each))
            arrays += [part for part in each if part is not None]
        elif each.__class__ in (float, int, bool):
            tree.append(Fixed(each, each.__class__ if each else str(each)))
        else:
            return None
    pattern = []
    as_they_are = True
    for i, array in enumerate(arrays):
        if array.__class__ is not kind or not array.size:
            return None
        if not array.flags.c_contiguous:
            if 0 not in array.strides:  # a result of CuPy's would lie in memory as the array does
                wanted = hasattr(function, "takes_looks")
                looks = tuple([look_of(x, gaps=wanted) if x.__class__ is kind else None for x in inputs])
                alike = _alike(inputs, looks, kind) if lengths == ELEMENTWISE else None
                if any(looks) and (wanted or alike or is_narrow(array)):
                    looking = Looking(function, plain, looks, alike)
                    found = looking.compute(inputs, attributes)
                    if found is not None:
                        _find_quickly(function, inputs, attributes, looking)
                    return found
                if not wanted and not is_narrow(array):
                    return None
            arrays[i] = array = array.copy(order="C")
            as_they_are = False
        pattern.append((array.dtype, array.shape))
    flat = lengths == ELEMENTWISE and all(shape == pattern[0][1] for _, shape in pattern)
    shape = None
    if flat and len(pattern[0][1]) != 1:
        shape = pattern[0][1]
        pattern = [(dtype, arrays[0].size) for dtype, _ in pattern]
    key = (function, tuple(tree), tuple(pattern), _apart(attributes) if attributes else ())
    try:
        kernel = _kernels.get(key, _UNKNOWN)
    except TypeError:  # an attribute that cannot be a part of a key
        return None
    if kernel is None:
        return None
    if kernel is _UNKNOWN:
        kernel = _for_all_lengths(key, arrays, shape)
        if kernel is not _UNKNOWN and _are_large(arrays):
            as_they_are = False  # (what is found quickly is not counted)
            kernel = _of_its_own(key, arrays, attributes, shape, kernel)
    if kernel is not _UNKNOWN:
        address = kernel.run.launcher.address
        for array in arrays:
            if address(array) % ALIGNMENT:
                return None
        if as_they_are and not any(isinstance(each, tuple) for each in inputs):
            _keep_for_quick(function, inputs, attributes, kernel, shape)
        return kernel(arrays, shape)
    return _later(key, function, plain, inputs, arrays, tuple(tree), attributes, shape)


def _alike(inputs: tuple[Any, ...], looks: tuple[Look | None, ...], kind: Any) -> Look | None:
    """Return the look that all arrays are, being of one shape; None: they differ.

    What is computed of them element by element lies in memory as they do.
    """
    arrays = [(look, x) for x, look in zip(inputs, looks, strict=True) if x.__class__ is kind]
    alike = len({(look, x.shape) for look, x in arrays}) == 1
    return arrays[0][0] if alike and not any(isinstance(x, (list, tuple)) for x in inputs) else None


def _later(
    key: Any,
    function: Function,
    plain: Function,
    inputs: tuple[Any, ...],
    arrays: list[Any],
    tree: Any,
    attributes: dict[str, Any],
    shape: Any,
) -> Any:
    """Count a call for which there is no kernel; make one at the last of some, whose results are CuPy's still."""
    if recording.recorder() is not None:  # arrays that record would go to somebody else's program
        return None
    met = _met[key] = _met.get(key, 0) + 1
    lengths = as_kernels_see(arrays, shape)
    without = without_lengths(key, arrays, lengths)
    known = _lengths.get(without)
    if known is None:
        known = _lengths[without] = Lengths(lengths)
    apart = hasattr(function, "as_a_whole") and _shapes.get(function, 0) < MOST_SHAPES // 2
    apart = (_are_large(arrays) and known.are_alone(lengths)) or apart
    vary = known.vary(lengths) and not apart
    expected = _value_by_value(key, arrays, attributes, shape)
    if not is_due(met) and not vary:
        return expected
    if expected is None:
        expected = plain(*inputs, **attributes)
    with making:
        kernel, before = None, known.many
        if _shapes.get(function, 0) < MOST_SHAPES and all(a.dtype in DTYPES for a in arrays):
            _shapes[function] = _shapes.get(function, 0) + 1
            named = known.named(lengths) if vary else lengths
            kernel = _made(function, arrays, tree, attributes, lengths, named, known)
            wanted = _compared_with(function, arrays, tree, attributes) or expected
            if kernel is not None and not _is_right(function, kernel, arrays, shape, wanted):
                kernel, known.many = None, before
        if kernel is not None and known.many is not before:
            _sized[key] = kernel
        elif kernel is not None or not vary:
            _kernels[key] = kernel
        if kernel is not None:
            _recorded.pop(key, None)
    return expected


def _value_by_value(key: Any, arrays: list[Any], attributes: dict[str, Any], shape: Any) -> Any:
    """Return what a function gives, each value by a kernel that knows no lengths; None if CuPy is to compute it.

    CuPy's kernels are made when they are first called, each in a tenth of a second.
    """
    backend, (function, tree, *_) = in_use(), key
    if backend is None or not all(array.dtype in DTYPES for array in arrays):
        return None
    if key not in _recorded:
        lengths = as_kernels_see(arrays, shape)
        promised = [promise(length, a.dtype) for length, a in zip(lengths, arrays, strict=True)]
        try:
            _recorded[key] = recorded(function, promised, [list(n) for n in lengths], tree, attributes)
        except (Exception, NumbersMissing):
            # Any error: what the function refuses it refuses again when CuPy runs it, and that is the user's to see;
            # what only a recording fails at, `_made` records again, and warns of.
            _recorded[key] = None
    before = _recorded[key]
    if before is None:
        return None
    program, results, alone = before
    given = arrays if shape is None else [array.reshape(-1) for array in arrays]
    compute = backend.by_values
    try:
        compute.prepare(program.values())
        found = interpret(program, given, compute=compute)
    except (IndexError, MemoryError):  # CuPy's way tells which, or takes less
        return None
    except Exception as problem:  # CuPy computes it all the same
        warn(function, f"could not be computed value by value ({type(problem).__name__}: {problem})", "CuPy")
        _recorded[key] = None
        return None
    made = _own(found, given, compute)
    if shape is not None:
        made = [array.reshape(shape) for array in made]
    outputs = [None if i is None else arrays[i] if i >= 0 else made[~i] for i in results]
    return outputs[0] if alone else tuple(outputs)


def _own(found: list[Any], given: list[Any], compute: Elsewhere) -> list[Any]:
    """Return results as kernels leave them: arrays of their own, with their elements in the order of their axes."""
    taken = {id(owner_of(array)) for array in given}
    made = []
    for array in found:
        if lies_here(array):
            array = compute.to_device(array)
        elif not array.flags.c_contiguous:
            array = compute.laid_out(array)
        elif id(owner_of(array)) in taken:  # a part of another one, or the same
            array = array.copy()
        taken.add(id(owner_of(array)))
        made.append(array)
    return made


def _are_large(arrays: list[Any]) -> bool:
    """Tell whether a kernel of arrays takes longer than its launch."""
    return max([array.size for array in arrays]) >= LARGE


def _for_all_lengths(key: Any, arrays: list[Any], shape: Any) -> Any:
    """Return the kernels for all lengths as they are for those of a call; _UNKNOWN if there are none."""
    kernel = _sized.get(key)
    if kernel is None:
        lengths = as_kernels_see(arrays, shape)
        known = _lengths.get(without_lengths(key, arrays, lengths))
        kernel = None if known is None else known.kernel(lengths)
        if kernel is None:
            return _UNKNOWN
        if len(_sized) >= MOST_QUICK:
            _sized.clear()
        _sized[key] = kernel
    return kernel


def _of_its_own(
    key: Any, arrays: list[Any], attributes: dict[str, Any], shape: Any, general: DeviceKernel
) -> DeviceKernel:
    """Return the kernels for all lengths; for lengths that come again and again, kernels for these alone."""
    if recording.recorder() is not None:
        return general
    function, tree, *_ = key
    lengths = as_kernels_see(arrays, shape)
    calls = _met[key] = _met.get(key, 0) + 1
    computed = _computed[key] = _computed.get(key, 0) + max([array.size for array in arrays])
    known = _lengths.get(without_lengths(key, arrays, lengths))
    if computed < MUCH and not (is_due(calls) and known is not None and known.are_alone(lengths)):
        return general
    with making:
        kernel = None
        if _shapes.get(function, 0) < MOST_SHAPES:
            _shapes[function] = _shapes.get(function, 0) + 1
            kernel = _made(function, arrays, tree, attributes, lengths, lengths, Lengths(lengths))
            with recording.rehearsal():
                expected = general(arrays, shape)
            wanted = _compared_with(function, arrays, tree, attributes) or expected
            if kernel is not None and not _is_right(function, kernel, arrays, shape, wanted):
                kernel = None
        kernel = _kernels[key] = general if kernel is None else kernel
    return kernel


def _made(
    function: Function,
    arrays: list[Any],
    tree: Any,
    attributes: dict[str, Any],
    lengths: Shapes,
    named: Sequence[Sequence[int]],
    known: Lengths,
) -> DeviceKernel | None:
    """Return a function as kernels; None if it cannot be. named: lengths, of which the negative ones vary."""
    backend = in_use()
    if backend is None:
        return None
    promised = [promise(length, a.dtype) for length, a in zip(lengths, arrays, strict=True)]
    try:
        found = recorded(function, promised, [list(length) for length in named], tree, attributes)
        if found is None:
            return None
        program, results, alone = found
        if not program.outputs or any(value.dtype not in DTYPES for value in program.outputs):
            return None
        made = backend.build(program, {})
        if isinstance(made, Launches):
            return DeviceKernel(made, results, alone)
        known.many = made, results, alone, named
        return known.kernel(lengths)
    except (NoKernel, NumbersMissing, CompileError):
        return None
    except Exception as problem:  # the numbers are there all the same
        warn(function, f"could not be compiled ({type(problem).__name__}: {problem})", "CuPy")
        return None


def _compared_with(
    function: Function, arrays: list[Any], tree: Any, attributes: dict[str, Any]
) -> Function | None:
    """Return what gives the results to compare with, of those that were found; None if a function's own will do."""
    expected = getattr(function, "compared_with", None)
    if expected is None:
        return None
    return lambda found: expected(found, *put_together(arrays, tree), **attributes)


def _is_right(function: Function, kernel: DeviceKernel, arrays: list[Any], shape: Any, expected: Any) -> bool:
    """Tell whether a kernel runs and gives what is expected; if not, say so."""
    try:
        right = agrees(kernel, arrays, shape, expected)
    except Exception as problem:  # the numbers are there all the same
        warn(function, f"could not be run ({type(problem).__name__}: {problem})", "CuPy")
        return False
    if not right:
        warn(function, "does not give what its steps give", "CuPy")
    return right
