"""Eager ops as native kernels. Enters: an op's forward or rule, and large arrays. Leaves: its results, or None.

The function runs once on arrays that record (trace/), whose lengths are symbols: one program serves all lengths. It is
kept by dtypes, attributes, and which lengths are equal. What it gives the first time is compared with what NumPy gives,
as every program's results are. None is the answer where NumPy is to compute: llvmlite is not installed, arrays of
another kind, an order in memory that kernels do not know.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minitorch.compiler import backends
from minitorch.compiler.backends.llvm.stream import native_stream
from minitorch.compiler.call import verify
from minitorch.compiler.call.function import Disagreement
from minitorch.compiler.ir.program import Program, Value, in_order
from minitorch.compiler.ir.sizes import Symbol, collecting, evaluated
from minitorch.compiler.trace import lowerings as lowerings  # (they enter themselves in a table)
from minitorch.compiler.trace import recorder as recorder  # (and so do NumPy's functions)
from minitorch.compiler.trace.traced import Traced, as_traced
from minitorch.engine import recording
from minitorch.ops import native
from minitorch.ops.native import BATCH, ELEMENTWISE, FIRST
from minitorch.tensor.generator import draw_natively

Function = Callable[..., Any]
DTYPES = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.uint8))  # (the last: which tap was chosen)
MOST_SIZES = 1000  # for so many, shapes of results are kept

# What is different to a kernel (an attribute, equal lengths) has to be met by this share of what its function has to;
# one batch's shape by all of it, since a kernel for it serves less and takes longer to make.
SHARE = 4

# A function of no more steps is left to NumPy where arrays lie in memory in different orders: it needs no copies.
FEW_STEPS = 4

_met: dict[Any, int] = {}  # how many elements, where there is no kernel yet
_kernels: dict[Any, Kernel | None] = {}
_by_shapes: dict[
    Any, Kernel
] = {}  # those of arrays whose shapes were met before: found without naming lengths
_making = threading.Lock()


def compute(
    function: Function, plain: Function, inputs: tuple[Any, ...], attributes: dict[str, Any], lengths: str
) -> Any:
    """Return what a function gives, by a kernel; None if that is left to NumPy, which computes it by `plain`."""
    arrays, tree = _taken_apart(inputs)
    if arrays is None:
        return None
    like = seen = None  # what results lie in memory like, where elements alone matter
    if lengths == ELEMENTWISE and _have_one_shape(arrays):
        like = _order_setting(arrays)
        if like is None or any(a.dtype.kind != "f" for a in arrays):
            return None
        size = like.size
        shapes: list[list[int]] = [[size if size < 2 else ~0]] * len(arrays)
    elif _in_axis_order(arrays):
        seen = (function, tree, tuple([(a.dtype.num, a.shape) for a in arrays]), tuple(attributes.items()))
        try:
            known = _by_shapes.get(seen)
        except TypeError:  # an attribute that cannot be a part of a key
            return None
        if known is not None:
            return known(arrays)
        shapes = _with_names(arrays, lengths)
    else:
        return None
    pattern = tuple([(a.dtype.num, *shape) for a, shape in zip(arrays, shapes, strict=True)])
    key = (function, tree, pattern, tuple(attributes.items()))
    try:
        kernel = _kernels.get(key, _UNKNOWN)
    except TypeError:  # an attribute that cannot be a part of a key
        return None
    if kernel is None:
        return None
    if kernel is not _UNKNOWN:
        if like is not None:
            if kernel.steps <= FEW_STEPS and _are_turned(arrays, like, kernel.used):
                return None
            return kernel(_rows(arrays, like, kernel.used), like)
        if len(_by_shapes) > MOST_SIZES:
            _by_shapes.clear()
        _by_shapes[seen] = kernel
        return kernel(arrays)
    if recording.recorder() is not None:  # arrays that record would go to somebody else's program
        return None
    met = _met[key] = _met.get(key, 0) + arrays[0].size
    if met < (native.MANY if lengths in (BATCH, FIRST) else native.MANY // SHARE):
        return None
    expected = plain(*inputs, **attributes)
    if like is None:
        _make(key, function, arrays, shapes, tree, attributes, expected)
    else:
        (row,) = _rows([np.asarray(expected)], like, {0})
        _make(key, function, _rows(arrays, like), shapes, tree, attributes, row)
    return expected


def _rows(arrays: Sequence[np.ndarray], like: np.ndarray, used: Any = None) -> list[np.ndarray]:
    """Return arrays of one shape as rows, their elements in the order in which those of `like` lie in memory.

    used: which of them have to be right (None: all); for the others any will do that is as long.
    """
    strides = like.strides
    turn = None if like.flags.c_contiguous else sorted(range(like.ndim), key=lambda axis: -strides[axis])
    rows: list[Any] = []
    for i, array in enumerate(arrays):
        if array.strides != strides and not (array.flags.c_contiguous and turn is None):
            if used is not None and i not in used:
                rows.append(None)
                continue
            copy = np.empty_like(like, dtype=array.dtype)
            copy[...] = array
            array = copy
        rows.append((array if turn is None else array.transpose(turn)).reshape(-1))
    spare: Any = next((row for row in rows if row is not None), None)
    return [spare if row is None else row for row in rows]


def _are_turned(arrays: Sequence[np.ndarray], like: np.ndarray, used: set[int]) -> bool:
    """Tell whether some of the arrays would have to be copied into another order."""
    plain = like.flags.c_contiguous
    return any(
        arrays[i].strides != like.strides
        and not (plain and arrays[i].flags.c_contiguous)
        and not _is_expanded(arrays[i])
        for i in used
    )


def _have_one_shape(arrays: Sequence[np.ndarray]) -> bool:
    shape = arrays[0].shape
    return all(a.shape == shape for a in arrays)


def _in_axis_order(arrays: list[np.ndarray]) -> bool:
    """Copy what is expanded. Tell whether all arrays lie in memory in the order of their axes, as kernels want them."""
    for i, array in enumerate(arrays):
        if not array.flags.c_contiguous:
            if 0 not in array.strides:  # a result of NumPy's would lie in memory as the array does
                return False
            arrays[i] = np.ascontiguousarray(array)
    return True


def _order_setting(arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Return the array in whose order NumPy's results of arrays of one shape lie in memory; None: of none of them.

    Expanded ones have no say. Of several orders that of the axes counts, if an array has it.
    """
    first = arrays[0]
    if first.flags.c_contiguous:
        return first
    say = [a for a in arrays if a.flags.c_contiguous or not _is_expanded(a)]
    for array in say:
        if array.flags.c_contiguous:
            return array
    if not say:
        return np.empty(first.shape, first.dtype)
    return say[0] if in_a_row(say) is not None else None


def _is_expanded(array: np.ndarray) -> bool:
    return any(not step and n > 1 for step, n in zip(array.strides, array.shape, strict=True))


def in_a_row(arrays: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Return arrays of one shape that lie in memory in one order, without gaps, as rows of it; None if they do not."""
    first = arrays[0]
    shape, strides = first.shape, first.strides
    if all(a.flags.c_contiguous and a.shape == shape for a in arrays):
        return [a.reshape(-1) for a in arrays]
    if any(a.strides != strides or a.shape != shape for a in arrays):
        return None
    order = sorted(range(first.ndim), key=lambda axis: -strides[axis])
    turned = [a.transpose(order) for a in arrays]
    return [a.reshape(-1) for a in turned] if turned[0].flags.c_contiguous else None


def _with_names(arrays: Sequence[np.ndarray], lengths: str) -> list[list[int]]:
    """Return the arrays' shapes with ~0, ~1, … for lengths that may vary; equal ones have one name."""
    if lengths == BATCH:
        batch, ndim = arrays[0].shape[0], arrays[0].ndim
        vary = batch > 1
        return [[~0, *a.shape[1:]] if vary and a.ndim == ndim else list(a.shape) for a in arrays]
    if lengths == FIRST:
        first, *others = ([*a.shape] for a in arrays)
        return [[~0, *first[1:]] if first[0] > 1 else first, *others]
    names: dict[int, int] = {}
    return [[n if n < 2 else ~names.setdefault(n, len(names)) for n in a.shape] for a in arrays]


def _taken_apart(inputs: Sequence[Any]) -> tuple[list[np.ndarray] | None, Any]:
    """Return all arrays among the inputs, if kernels know them, and how the inputs are made of them."""
    arrays: list[np.ndarray] = []
    tree: list[Any] = []
    for each in inputs:
        if isinstance(each, (list, tuple)):
            tree.append(places_in(each))
            arrays += [part for part in each if part is not None]
        elif each is None:
            tree.append(None)
        else:
            tree.append(-1)
            arrays.append(each)
    for array in arrays:
        if array.__class__ is not np.ndarray or array.dtype not in DTYPES:
            return None, None
    return arrays, tuple(tree)


def places_in(several: Sequence[Any]) -> tuple[int | None, ...]:
    """Return where there are arrays in a list of them, as a part of what inputs are made of; None: there is none."""
    return tuple([None if each is None else -1 for each in several])


class Fixed(NamedTuple):
    """A number among the inputs, which a kernel is for."""

    number: Any
    kind: type | str  # (0 is no 0.0, nor -0.0, nor False)


def put_together(arrays: Sequence[Any], tree: Any) -> list[Any]:
    """Return inputs made of arrays."""
    rest = iter(arrays)
    return [
        None
        if each is None
        else each.number
        if isinstance(each, Fixed)
        else next(rest)
        if each == -1
        else [None if part is None else next(rest) for part in each]
        for each in tree
    ]


class Kernel:
    """A function of arrays as native code.

    results: of each, None, the number of the input that it is, or ~ the number of the output that it is; alone: there
    is one result, and no tuple. steps: how many NumPy would take. used: the inputs that it reads.
    """

    def __init__(self, program: Program, results: list[int | None], alone: bool) -> None:
        self.program = program
        self.results = results
        self.alone = alone
        needed = {each for value in in_order(program.outputs) for each in (value, *value.inputs)}
        self.steps = sum(value.primitive == "map" for value in needed)
        self.used = {i for i, value in enumerate(program.inputs) if value in needed}
        self.executable: Any = backends.named("native").compile(program, {})
        self._lock = threading.Lock()
        self._symbols = list(program.symbols)
        self._shapes: dict[tuple[int, ...], list[tuple[int, ...]]] = {}

    def __call__(self, arrays: list[np.ndarray], like: np.ndarray | None = None) -> Any:
        """Run it. like: an array of the results' shape and order in memory, where arrays were laid out in a row."""
        outputs = self.outputs(arrays, like)
        found = [None if i is None else arrays[i] if i >= 0 else outputs[~i] for i in self.results]
        return found[0] if self.alone else tuple(found)

    def outputs(self, arrays: list[np.ndarray], like: np.ndarray | None = None) -> list[np.ndarray]:
        """Run it, and return the outputs of the program, in arrays of their own."""
        sizes = self.executable.sizes_of(arrays) if self._symbols else ()
        shapes = self._shapes.get(sizes)
        if shapes is None:
            if len(self._shapes) > MOST_SIZES:
                self._shapes.clear()
            binding = dict(zip(self._symbols, sizes, strict=True))
            shapes = self._shapes[sizes] = [evaluated(o.shape, binding) for o in self.program.outputs]
        kinds = [o.dtype for o in self.program.outputs]
        if like is None:
            filled = made = [np.empty(own, kind) for own, kind in zip(shapes, kinds, strict=True)]
        else:
            made = [np.empty_like(like, kind) for kind in kinds]
            filled = [each.reshape(-1) for each in made] if like.flags.c_contiguous else in_a_row(made) or []
        with self._lock:  # it works in memory of its own
            if self.executable.entry(*arrays, *filled) is not None:
                self.executable.fail()
        return made


_UNKNOWN: Any = object()


def _make(
    key: Any,
    function: Function,
    arrays: list[np.ndarray],
    shapes: list[list[int]],
    tree: Any,
    attributes: Any,
    expected: Any,
) -> None:
    """Make a kernel of a function, and keep it if it gives what is expected."""
    with _making:
        _kernels[key] = None
        try:
            backends.named("native").require()
        except ImportError:
            return
        try:
            found = recorded(function, arrays, shapes, tree, attributes)
            if found is None or not found[0].outputs:  # (nothing is computed: a result is one of the inputs)
                return
            kernel = Kernel(*found)
        except Exception as problem:  # the numbers are there all the same
            warn(function, f"could not be compiled ({type(problem).__name__}: {problem})")
            return
        wanted = [expected] if kernel.alone else list(expected)
        outputs = kernel.outputs(arrays)
        pairs = zip(kernel.results, wanted, strict=True)
        given = [w.reshape(outputs[~i].shape) for i, w in pairs if i is not None and i < 0]
        if verify.differing(kernel.program, kernel.executable, arrays, outputs, given):
            warn(function, "does not give what NumPy gives")
        else:
            _kernels[key] = kernel
            draw_natively(native_stream())  # who has large arrays draws many numbers, too


def recorded(
    function: Function, arrays: Sequence[np.ndarray], shapes: list[list[int]], tree: Any, attributes: Any
) -> tuple[Program, list[int | None], bool] | None:
    """Return a function as a program, which of its results are what, and whether there is one alone (see `Kernel`).

    None if it holds for some lengths only.
    """
    symbols: dict[int, Symbol] = {}
    inputs = []
    for i, (array, named) in enumerate(zip(arrays, shapes, strict=True)):
        shape = tuple(
            n if n >= 0 else symbols.setdefault(n, Symbol(f"s{~n}", length)).size
            for n, length in zip(named, array.shape, strict=True)
        )
        inputs.append(Value("input", (), {"index": i}, shape, array.dtype))
    traced = [Traced(value, array) for value, array in zip(inputs, arrays, strict=True)]
    guards: list[Any] = []
    with collecting(guards), np.errstate(all="ignore"):
        found = function(*put_together(traced, tree), **attributes)
    if guards:
        return None
    alone = not isinstance(found, (list, tuple))
    outputs: list[Value] = []
    results: list[int | None] = []
    for each in [found] if alone else found:
        if each is None:
            results.append(None)
            continue
        given = next((i for i, array in enumerate(traced) if array is each), None)
        if given is not None and traced[given].value is inputs[given]:
            results.append(given)
        else:  # (a copy of an input is an array of its own, though of the same value)
            results.append(~len(outputs))
            outputs.append(as_traced(each).value)
    return Program(inputs, outputs), results, alone


def warn(function: Function, what: str, otherwise: str = "NumPy") -> None:
    """Tell of a kernel that is not used."""
    name = getattr(function, "__qualname__", function.__name__)
    warnings.warn(
        f"an eager op: a kernel of {name} {what}; {otherwise} computes it. Please report this",
        Disagreement,
        stacklevel=2,
    )
