"""Attention, found in a program. Enters: a program. Leaves: the same with calls of `Attention`, or itself.

What is looked for is softmax(f(q @ kᵀ)) @ v, with any elementwise f (a scale, masks, biases), and the products of its
derivative, if they are there. Nothing of the size of q @ kᵀ is written then: kernels (tiles.py) compute it tile by
tile, twice more for the derivative, from the logarithms of the rows' sums. Programs in which anything else looks at the
scores, or at the probabilities, stay what they are.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from minitorch.compiler.backends.llvm.body import Body
from minitorch.compiler.ir import builder
from minitorch.compiler.ir.index import (
    Dim,
    Index,
    Inexpressible,
    Split,
    dims_of,
    offset,
    split_map,
    strides_of,
    through,
)
from minitorch.compiler.ir.program import Program, Value, in_order, interpret
from minitorch.compiler.ir.simplify import number, simplify
from minitorch.compiler.schedule.groups import Composite
from minitorch.engine.dtypes import bfloat16, is_bfloat16

SIZES = (32, 64, 128)  # of heads
LEAST_SCORES = 1 << 16  # fewer are as fast through memory
MOST_LOOKED_AT = 1 << 24  # elements of a mask that are computed to find out which tiles it leaves out
LONGEST = 32  # values between the scores and what a softmax is taken of
COPIED = 16  # bytes that are copied at once, and that everything has to be a multiple of
FLOAT32 = np.dtype(np.float32)
_VIEWS = {"reshape", "permute", "expand", "slice"}


@dataclass(frozen=True)
class Rows:
    """Where matrices lie, side by side in batches: neighbours of a row are neighbours in memory.

    source: the value whose memory it is (None: a result of the call). start: of its first element, and then steps in
    elements. factor: what every element is to be multiplied with. dtype: of elements in memory.
    """

    source: Value | None
    start: int
    batches: tuple[int, ...]
    row: int
    factor: float = 1.0
    dtype: np.dtype = FLOAT32


@dataclass(frozen=True)
class Band:
    """Which scores may be other than -∞: those of query i and key j with -below ≤ j - i ≤ above.

    masks: whether kernels are to see to that, and not the function that scores are made by.
    """

    below: int
    above: int
    masks: bool = False


@dataclass
class Attention(Composite):
    """What is computed, of queries, keys and values (and in the backward pass of the result's gradient).

    index: of the scores, a loop or a sum of loops for each axis. batches, query, key: the loops in it. size: of a
    head. product, scores, slope: the values q @ kᵀ, f(q @ kᵀ) and, in the backward pass, the gradient of q @ kᵀ as it
    is made from `inner`, that of the scores. leaves: the values that are read. written: where results go, by what they
    are: "o" and "l", the logarithms of sums; "q", "k" and "v". g: the gradient of "o". of_queries: what else is read, a
    number for each query: "l", and the sum of g times "o" along a head.
    """

    index: Index
    batches: list[Dim]
    query: Dim
    key: Dim
    size: int
    product: Value
    scores: Value
    band: Band
    q: Rows
    k: Rows
    v: Rows
    leaves: list[Value] = field(default_factory=list)
    written: dict[str, Rows] = field(default_factory=dict)
    g: Rows | None = None
    of_queries: tuple[Rows, ...] = ()
    inner: Value | None = None
    slope: Value | None = None

    @property
    def __name__(self) -> str:
        return "attention" if self.g is None else "gradient of attention"

    @property
    def dtype(self) -> np.dtype:
        """The dtype of all that is multiplied."""
        return self.q.dtype

    @property
    def rows_shape(self) -> tuple[int, ...]:
        """The shape of what there is one of for each query."""
        return (*(d.size for d in self.batches), self.query.size)

    @property
    def count(self) -> int:
        """How many heads there are, in all batches."""
        return math.prod(d.size for d in self.batches)


def with_attention(program: Program) -> Program:
    """Return a program in which attention is computed as a whole, wherever it is found."""
    if program.symbols or sum(v.primitive == "contract" for v in program.values()) < 2:
        return program  # (Kernels are written for tiles of sizes that are known.)
    plain = _with_ones(simplify(program))
    made = _with_attention(plain)
    return program if made is plain else made


def _with_attention(program: Program) -> Program:
    readers: dict[Value, list[Value]] = {}
    for value in program.values():
        for each in dict.fromkeys(value.inputs):
            readers.setdefault(each, []).append(value)
    taken: dict[Value, _Found] = {}
    for product in [v for v in program.values() if v.primitive == "contract"]:
        found = _found(product, readers, set(program.outputs))
        if found is not None:
            taken |= dict.fromkeys(found.results, found)
    return _rewritten(program, taken) if taken else program


def _with_ones(program: Program) -> Program:
    """Return a program whose products have the axes of length 1 that reshapes around them take away and put back."""
    readers: dict[Value, list[Value]] = {}
    for value in program.values():
        for each in value.inputs:
            readers.setdefault(each, []).append(value)
    new: dict[Value, Value] = {}
    changed = False
    for value in program.values():
        inputs = tuple(new[each] for each in value.inputs)
        product = inputs[0] if inputs else value
        new[value] = value if inputs == value.inputs else _with(value, inputs)
        if value.primitive != "reshape" or product.primitive != "contract":
            continue
        spec = _spec_with_ones(product, value.shape)
        if len(readers[value.inputs[0]]) == 1 and spec is not None:
            parts, out = spec.split("->")[0].split(","), spec.split("->")[1]
            lengths = dict(zip(out, value.shape, strict=True))
            before = product.attributes["spec"].split("->")[0].split(",")
            operands = []
            for part, old, operand in zip(parts, before, product.inputs, strict=True):
                mine = dict(zip(old, operand.shape, strict=True))
                shape = tuple(mine[c] if c in mine else lengths[c] for c in part)
                while operand.primitive == "reshape":
                    operand = operand.inputs[0]
                operands.append(builder.reshape(operand, shape))
            new[value] = Value("contract", tuple(operands), {"spec": spec}, value.shape, value.dtype)
            new[value].line = product.line
            changed = True
    if not changed:
        return program
    return Program(program.inputs, [new[each] for each in program.outputs], program.guards)


def _spec_with_ones(product: Value, shape: tuple[int, ...]) -> str | None:
    """Return a product's spec with letters for the axes of length 1 that a shape has more."""
    left, _, out = product.attributes["spec"].partition("->")
    letters = iter(c for c in string.ascii_letters if c not in left)
    rest, parts, made = list(zip(out, product.shape, strict=True)), left.split(","), ""
    for n in shape:
        if rest and rest[0][1] == n:
            made += rest.pop(0)[0]
        elif n == 1:
            letter, before = next(letters), made[-1:]
            if not all(before in part for part in parts):
                return None
            parts = [part.replace(before, before + letter) if before else letter + part for part in parts]
            made += letter
        else:
            return None
    return None if rest or made == out else f"{','.join(parts)}->{made}"


# --- finding it ---------------------------------------------------------------------------------------------


class _Other(Exception):
    """This is something else."""


class _Mixed(Exception):
    """Only some of the factors are bfloat16."""


@dataclass
class _Found:
    """Attention as a program has it.

    results: what each of its products is, by the product. orders: in which order of its axes each is written, by the
    same. gradient: of the result, its axes in this order.
    """

    forward: Attention
    backward: Attention | None
    results: dict[Value, str]
    orders: dict[Value, tuple[int, ...]]
    gradient: Value | None


def _is(value: Value, function: str) -> bool:
    return value.primitive == "map" and value.attributes["function"] == function


def _need(condition: object) -> None:
    if not condition:
        raise _Other


def _half_below(value: Value) -> Value | None:
    """Return the bfloat16 whose numbers a value has, in float32 or once more, if need be in another order."""
    if is_bfloat16(value.dtype) and _is(value, "cast"):
        return _half_below(value.inputs[0])
    while value.primitive in _VIEWS:
        value = value.inputs[0]
    is_half = value.dtype == FLOAT32 and _is(value, "cast") and is_bfloat16(value.inputs[0].dtype)
    return value.inputs[0] if is_half else None


def _folded_row(value: Value, function: str) -> Value:
    """Return what is folded along its last axis, if that is what is spread over these rows."""
    _need(value.primitive == "expand" and value.inputs[0].primitive == "reshape")
    fold = value.inputs[0].inputs[0]
    _need(fold.primitive == "reduce" and fold.attributes["function"] == function)
    source = fold.inputs[0]
    _need(fold.attributes["axes"] == (source.ndim - 1,) and source.shape == value.shape)
    _need(value.inputs[0].shape == (*source.shape[:-1], 1))
    return source


def _found(product: Value, readers: dict[Value, list[Value]], outputs: set[Value]) -> _Found | None:
    """Return the attention whose result a product is."""
    for operand in product.inputs:
        below = operand
        while below.primitive == "permute":
            below = below.inputs[0]
        if _is(below, "divide"):
            try:
                return _Search(product, below, readers, outputs).found()
            except (_Other, Inexpressible):
                continue
    return None


class _Search:
    """Looks for attention around the probabilities."""

    def __init__(
        self, result: Value, softmax: Value, readers: dict[Value, list[Value]], outputs: set[Value]
    ) -> None:
        self.readers, self.outputs = readers, outputs
        exp, total = softmax.inputs
        _need(_is(exp, "exp") and _folded_row(total, "add") is exp)
        below = exp.inputs[0]
        _need(_is(below, "subtract"))
        self.softmax, self.result = softmax, result
        self.scores = below.inputs[0]
        _need(_folded_row(below.inputs[1], "maximum") is self.scores)
        _need(softmax.dtype == FLOAT32 and softmax.size >= LEAST_SCORES and softmax.ndim >= 2)
        self.between = {softmax, exp, below, *self.spread(total), *self.spread(below.inputs[1]), self.scores}
        self.inside: set[Value] = set()  # made from the product
        self.product = self.first_product()
        self.index: Index = tuple((0, ((Dim(n), 1),)) for n in self.scores.shape)

    def spread(self, value: Value) -> list[Value]:
        return [value, value.inputs[0], value.inputs[0].inputs[0]]

    def first_product(self) -> Value:
        """Return the product that the scores are made from, by elementwise functions."""
        self.inside = self.made_of(self.scores, set())
        found = [value for value in self.inside if value.primitive == "contract"]
        _need(len(found) == 1)
        self.between |= self.inside
        return found[0]

    def made_of(self, value: Value, known: set[Value]) -> set[Value]:
        """Return what is made from products of the scores' shape, or from what is known, by elementwise functions."""
        found: dict[Value, bool] = dict.fromkeys(known, True)
        shape = self.scores.shape

        def depends(value: Value) -> bool:
            if value not in found:
                inputs = value.inputs if value.primitive == "map" and value.shape == shape else ()
                made = [depends(each) for each in inputs]  # (of all: there may be several products)
                found[value] = any(made) or (value.primitive == "contract" and value.shape == shape)
            return found[value]

        _need(depends(value) and len(found) - len(known) <= LONGEST)
        return {value for value, does in found.items() if does}

    def found(self) -> _Found:
        """Return what was looked for, with the loops of batches divided where views ask for it."""
        for _ in range(6):
            try:
                return self._found()
            except _Mixed:
                self.narrow = False
            except Split as request:
                rewrite = split_map(request)
                _need(all(request.dim is not d for a in self.index[-2:] for d, _ in a[1]))
                self.index = tuple(rewrite(each) for each in self.index)
        raise _Other

    def _found(self) -> _Found:
        self.seen = set(self.between)
        product, (query,), (key,) = self.product, *(dims_of([each]) for each in self.index[-2:])
        self.query, self.key = query, key
        self.batches = dims_of(self.index[:-2])
        first, second = self.factors(product, self.index)
        if key in first[2]:
            first, second = second, first
        _need(first[2] == {*self.batches, query} and second[2] == {*self.batches, key})
        size = first[3]
        _need(size in SIZES and size == second[3])
        q, k = self.rows(*first[:2], query), self.rows(*second[:2], key)
        results = {self.result: "o"}
        v_value, v_index, *_ = self.other(self.result, self.softmax, key)
        v = self.rows(v_value, v_index, key)
        _need(self.result.shape and self.head_size(v_index) == size)
        self.of_one_dtype(q, k, v)
        self.halves = is_bfloat16(q.dtype)
        band, left_out = _band(self.scores, self.inside, product)
        scores = self.scores
        if left_out is not None:
            band = replace(band, masks=True)
            scores = _opened(scores, self.inside, left_out, -math.inf)
        forward = Attention(
            self.index,
            self.batches,
            query,
            key,
            size,
            product,
            scores,
            band,
            q,
            k,
            v,
        )
        forward.written["o"] = self.target(self.result, self.softmax)
        backward, gradient = self.backward(forward, results, left_out)
        for value in self.seen - set(results):
            _need(value not in self.outputs)
            _need(all(reader in self.seen or reader in results for reader in self.readers.get(value, ())))
        if backward is not None:
            forward.written["l"] = backward.of_queries[0]
        forward.leaves = _leaves(forward)
        orders = {each: self.layout(each) for each in results}
        return _Found(forward, backward, results, orders, gradient)

    narrow = True  # whether factors are read as bfloat16, where they are
    halves = False  # whether all are

    def of_one_dtype(self, *rows: Rows) -> None:
        """See to it that factors are of one dtype in memory."""
        if len({each.dtype for each in rows}) > 1:
            raise _Mixed

    # Products.

    def letters(self, product: Value, known: dict[str, Dim]) -> tuple[list[tuple[Value, Index]], Index]:
        """Return a product's factors with their indices, and its own index."""
        left, _, out = product.attributes["spec"].partition("->")
        parts = left.split(",")
        for part, operand in zip(parts, product.inputs, strict=True):
            for letter, n in zip(part, operand.shape, strict=True):
                known.setdefault(letter, Dim(n))
        pairs: list[tuple[Value, Index]] = [
            (operand, tuple((0, ((known[c], 1),)) for c in part))
            for part, operand in zip(parts, product.inputs, strict=True)
        ]
        return pairs, tuple((0, ((known[c], 1),)) for c in out)

    def factors(self, product: Value, index: Index) -> list[tuple[Value, Index, set[Dim], int]]:
        """Return both factors of a product with the scores' axes: value, index, loops of these axes, summed length."""
        pairs, own = self.letters(product, {})
        _need(product.shape == self.scores.shape)
        moved = {dims_of([mine])[0]: theirs for mine, theirs in zip(own, index, strict=True)}
        found = []
        for value, where in pairs:
            inner = [d for d in dims_of(where) if d not in moved]
            _need(len(inner) == 1)
            placed = tuple(moved.get(dims_of([each])[0], each) for each in where)
            found.append((value, placed, {d for d in dims_of(placed) if d is not inner[0]}, inner[0].size))
        return found

    def other(self, product: Value, matrix: Value, summed: Dim) -> tuple[Value, Index, Index]:
        """Return the factor that a matrix of the scores' axes is multiplied with: value, index, the product's index."""
        pairs, own = self.letters(product, {})
        for number_, (value, where) in enumerate(pairs):
            views = [value]
            while value is not matrix and value.primitive == "permute":
                where, _ = through(value, where)
                value = value.inputs[0]
                views.append(value)
            if value is not matrix:
                continue
            self.seen |= set(views)
            moved = {dims_of([mine])[0]: theirs for mine, theirs in zip(where, self.index, strict=True)}
            factor, its = pairs[1 - number_]
            loops = {d for mine in its for d in dims_of([mine])}
            inner = [d for d in loops if d not in moved]
            _need(len(inner) == 1 and inner[0].size in SIZES)
            placed = tuple(moved.get(dims_of([each])[0], each) for each in its)
            results = tuple(moved.get(dims_of([each])[0], each) for each in own)
            _need(summed in dims_of(placed) and summed not in dims_of(results))
            _need({*dims_of(placed)} == {*self.batches, summed, inner[0]})
            return factor, placed, results
        raise _Other

    def head_size(self, index: Index) -> int:
        """Return the length along a head of what has an index."""
        own = {*self.batches, self.query, self.key}
        return next(d.size for d in dims_of(index) if d not in own)

    def rows(self, value: Value, index: Index, row: Dim) -> Rows:
        """Return where the elements of a factor lie in memory: below views, and before a number multiplies it."""
        factor = 1.0
        while True:
            if value.primitive in _VIEWS:
                index, conditions = through(value, index)
                _need(not conditions)
            elif _is(value, "multiply") and number(value.inputs[1]) is not None:
                factor *= float(number(value.inputs[1]))
            elif _is(value, "multiply") and number(value.inputs[0]) is not None:
                factor *= float(number(value.inputs[0]))
                value = value.inputs[1]
                continue
            else:
                break
            value = value.inputs[0]
        _need(value.dtype == FLOAT32 and value.size > 1 and np.isfinite(factor))
        while self.narrow and (half := _half_below(value)) is not None:
            while value is not half:
                if value.primitive in _VIEWS:
                    index, _ = through(value, index)
                value = value.inputs[0]
            while value.primitive in _VIEWS:
                index, _ = through(value, index)
                value = value.inputs[0]
        start, terms = offset(index, value.shape)
        return self.placed(value, start, dict(terms), row, factor, value.dtype)

    def placed(
        self,
        source: Value | None,
        start: int,
        steps: dict[Dim, int],
        row: Dim,
        factor: float = 1.0,
        dtype: np.dtype = FLOAT32,
    ) -> Rows:
        """Return rows with these steps from element to element."""
        own = {*self.batches, self.query, self.key}
        inner = [step for d, step in steps.items() if d not in own]
        batches = tuple(steps.get(d, 0) for d in self.batches)
        found = Rows(source, start, batches, steps.get(row, 0), factor, dtype)
        _need(inner == [1] and not any(n * dtype.itemsize % COPIED for n in (start, found.row, *batches)))
        _need(all(n >= 0 for n in (start, found.row, *batches)))
        return found

    def layout(self, product: Value) -> tuple[int, ...]:
        """Return the order of axes in which a product is best written: as it is read, the axis of a head last."""
        read = list(self.readers.get(product, []))
        head = self.head_axis(product)
        for reader in read:
            if reader.primitive == "permute" and reader.attributes["axes"][-1] == head:
                return tuple(reader.attributes["axes"])
            if reader.primitive == "map":  # it will be computed as it is read, too
                read += self.readers.get(reader, [])
        return (*(axis for axis in range(product.ndim) if axis != head), head)

    def head_axis(self, product: Value) -> int:
        """Return the axis of a head in a product of a matrix of the scores' axes."""
        left, _, out = product.attributes["spec"].partition("->")
        first, second = left.split(",")
        batches = set(first) & set(second)
        apart = [c for c in out if c not in batches]
        _need(len(apart) == 2)
        lengths = dict(zip(out, product.shape, strict=True))
        for matrix in (self.softmax, *self.slopes()):
            for part, operand in zip((first, second), product.inputs, strict=True):
                if self.is_view_of(operand, matrix):
                    return next(out.index(c) for c in apart if c not in part and lengths[c] in SIZES)
        raise _Other

    def slopes(self) -> list[Value]:
        return [self.slope] if self.slope is not None else []

    slope: Value | None = None

    def is_view_of(self, value: Value, matrix: Value) -> bool:
        """Whether a value is a matrix, with its axes in any order."""
        while value is not matrix and value.primitive == "permute":
            value = value.inputs[0]
        return value is matrix

    def target(self, product: Value, matrix: Value) -> Rows:
        """Return how a product of a matrix of the scores' axes is written."""
        row = next(d for d in (self.query, self.key) if self.is_row(product, matrix, d))
        own = self.other(product, matrix, self.key if row is self.query else self.query)[2]
        axes = self.layout(product)
        start, terms = offset(tuple(own[a] for a in axes), tuple(product.shape[a] for a in axes))
        return self.placed(None, start, dict(terms), row, dtype=self.read_as(product))

    def read_as(self, product: Value) -> np.dtype:
        """Return bfloat16, if everything is and all who read a product round it to that; if not, float32."""
        return bfloat16 if self.halves and self.is_rounded(product) else FLOAT32

    def is_rounded(self, value: Value) -> bool:
        """Whether all that read a value round it to bfloat16, if need be after a power of two has multiplied it."""

        def rounds(reader: Value) -> bool:
            if _is(reader, "cast"):
                return is_bfloat16(reader.dtype)
            if reader.primitive in ("permute", "reshape"):
                return self.is_rounded(reader)
            factor = number(reader.inputs[1]) if _is(reader, "multiply") else None
            return factor is not None and abs(math.frexp(factor)[0]) == 0.5 and self.is_rounded(reader)

        readers = self.readers.get(value, [])
        return bool(readers) and value not in self.outputs and all(map(rounds, readers))

    def is_row(self, product: Value, matrix: Value, dim: Dim) -> bool:
        try:
            self.other(product, matrix, self.key if dim is self.query else self.query)
        except _Other:
            return False
        return True

    # The derivative.

    def backward(
        self, forward: Attention, results: dict[Value, str], left_out: np.ndarray | None
    ) -> tuple[Attention | None, Value | None]:
        """Return the products of the derivative, if there are any, and the gradient that they begin with."""
        softmax = self.softmax
        sums = [r for r in self.reading(softmax) if r.primitive == "map" and r not in self.between]
        products = [r for r in self.reading(softmax) if r.primitive == "contract" and r is not self.result]
        if not sums and not products:
            return None, None
        inner, gained = self.inner_gradient(sums)
        slope = self.outer_gradient(inner)
        self.slope = slope
        made = Attention(**{**forward.__dict__, "leaves": [], "written": {}})
        made.inner, made.slope = inner, slope
        if left_out is not None:
            made.slope = _opened(slope, self.made_of(slope, {*self.inside, inner}) - {inner}, left_out, 0.0)
        gradient, values = self.gradient(gained, forward)
        made.g, made.of_queries = gradient, self.one_by_query()
        self.of_one_dtype(forward.q, gradient)
        for product in products:
            g_value, g_index, _ = self.other(product, softmax, self.query)
            _need(self.rows(g_value, g_index, self.query) == gradient)
            self.note(results, product, "v")
            made.written["v"] = self.target(product, softmax)
        for product in self.reading(slope):
            _need(product.primitive == "contract")
            name = "q" if self.is_row(product, slope, self.query) else "k"
            factor, index, _ = self.other(product, slope, self.key if name == "q" else self.query)
            expected = forward.k if name == "q" else forward.q
            _need(self.rows(factor, index, self.key if name == "q" else self.query) == expected)
            self.note(results, product, name)
            made.written[name] = self.target(product, slope)
        _need(set(made.written) == {"q", "k", "v"})
        made.leaves = _leaves(made)
        return made, values

    def note(self, results: dict[Value, str], product: Value, name: str) -> None:
        _need(name not in results.values())
        results[product] = name

    def reading(self, value: Value) -> Iterator[Value]:
        """Yield what reads a value, also with its axes in another order."""
        for reader in self.readers.get(value, ()):
            if reader.primitive == "permute":
                self.seen.add(reader)
                yield from self.reading(reader)
            else:
                yield reader

    def inner_gradient(self, sums: list[Value]) -> tuple[Value, Value]:
        """Return the gradient of the scores, p·(g - Σ p·g), and that of the probabilities, g."""
        softmax = self.softmax
        for times in sums:
            if not _is(times, "multiply"):
                continue
            gained = next((each for each in times.inputs if each is not softmax), None)
            if gained is None or gained.primitive != "contract" or gained.shape != softmax.shape:
                continue
            for second in sums:
                if second is times or not _is(second, "multiply"):
                    continue
                spread = next((each for each in second.inputs if each is not softmax), softmax)
                try:
                    if _folded_row(spread, "add") is not times:
                        continue
                except _Other:
                    continue
                for last in self.readers.get(second, ()):
                    if _is(last, "subtract") and last.inputs == (times, second):
                        self.seen |= {times, second, gained, last, *self.spread(spread)}
                        return last, gained
        raise _Other

    def outer_gradient(self, inner: Value) -> Value:
        """Return what is made of the scores' gradient by elementwise functions until products read it."""
        value = inner
        for _ in range(LONGEST):
            self.seen.add(value)
            readers = list(self.reading(value))
            if all(reader.primitive == "contract" for reader in readers):
                self.seen |= self.made_of(value, {*self.inside, inner})
                return value
            maps = [r for r in readers if r.primitive == "map" and r.shape == value.shape]
            _need(len(maps) == len(readers) == 1)
            value = maps[0]
        raise _Other

    def gradient(self, gained: Value, forward: Attention) -> tuple[Rows, Value]:
        """Return where the result's gradient lies, a factor of that of the probabilities; and itself."""
        first, second = self.factors(gained, self.index)
        if self.key in first[2]:
            first, second = second, first
        _need(first[2] == {*self.batches, self.query} and second[2] == {*self.batches, self.key})
        _need(self.rows(*second[:2], self.key) == forward.v)
        value, where = first[:2]
        order = [self.result_index()[axis] for axis in self.layout(self.result)]
        axes = [where.index(each) if each in where else self.head_of(where) for each in order]
        return self.rows(value, where, self.query), builder.permute(value, axes)

    def result_index(self) -> Index:
        """Return the index of the result."""
        return self.other(self.result, self.softmax, self.key)[2]

    def head_of(self, index: Index) -> int:
        """Return which axis is that of a head."""
        own = {*self.batches, self.query, self.key}
        return next(n for n, each in enumerate(index) if not own & set(dims_of([each])))

    def one_by_query(self) -> tuple[Rows, Rows]:
        """Return where numbers lie that there is one of for each query: by batches, and as the result has them."""
        sizes = [d.size for d in (*self.batches, self.query)]
        plain = Rows(None, 0, strides_of(tuple(sizes))[:-1], 1)
        own, axes = self.result_index(), self.layout(self.result)[:-1]
        start, terms = offset(
            tuple(own[axis] for axis in axes), tuple(self.result.shape[axis] for axis in axes)
        )
        steps = dict(terms)
        return plain, Rows(None, start, tuple(steps.get(d, 0) for d in self.batches), steps[self.query])


def _leaves(attention: Attention) -> list[Value]:
    """Return the values that kernels read, and see to it that they can."""
    body = expressions(attention)[0]
    found = [each[0] if isinstance(each, tuple) else each for each in body.operands]
    rows = [attention.q, attention.k, attention.v, attention.g]
    return list(dict.fromkeys([*found, *(r.source for r in rows if r is not None and r.source is not None)]))


def expressions(attention: Attention) -> tuple[Body, dict[str, object]]:
    """Return the scores as a function of the product and, in the backward pass, its gradient as one of the scores'."""
    a = attention
    body = Body(_is_read)
    dims = frozenset(dims_of(a.index))
    named: dict[str, object] = {"product": body.result(a.product, dims)}
    body.give(a.product, a.index, named["product"])  # type: ignore[arg-type]
    named["scores"] = body.at(a.scores, a.index)
    if a.inner is not None and a.slope is not None:
        named["inner"] = body.result(a.inner, dims)
        body.give(a.inner, a.index, named["inner"])  # type: ignore[arg-type]
        named["slope"] = body.at(a.slope, a.index)
    return body, named


def _is_read(value: Value) -> bool:
    return value.primitive not in ("map", "pad", "iota", "size", *_VIEWS)


def _band(scores: Value, inside: set[Value], product: Value) -> tuple[Band, np.ndarray | None]:
    """Return outside of which band all scores are -∞, whatever is multiplied; and where, if it is just there."""
    queries, keys = scores.shape[-2:]
    everything = Band(queries, keys), None
    if queries * keys > MOST_LOOKED_AT:
        return everything
    left_out = _left_out(scores, inside, product)
    if (
        left_out is None or left_out.all(axis=1).any()
    ):  # (A row of nothing else is no number, as it always was.)
        return everything
    apart = np.arange(keys) - np.arange(queries)[:, None]
    seen = apart[~left_out]
    band = Band(int(-seen.min()), int(seen.max()))
    is_band = np.array_equal(left_out, (apart < -band.below) | (apart > band.above))
    return band, left_out if is_band else None


def _opened(value: Value, inside: set[Value], left_out: np.ndarray, nothing: float) -> Value:
    """Return a value without the masks that only make it `nothing` where scores are left out."""
    if value not in inside or value.primitive != "map":
        return value
    function, inputs = value.attributes["function"], value.inputs
    if function == "where" and (chosen := _known(inputs[0])) is not None:
        for kept, masked, where in ((2, 1, chosen), (1, 2, ~chosen)):
            if number(inputs[masked]) == nothing and not (where & ~left_out).any():
                return _opened(inputs[kept], inside, left_out, nothing)
    if function == "add":
        for kept, masked in ((0, 1), (1, 0)):
            mask = _known(inputs[masked]) if inputs[masked] not in inside else None
            if mask is not None and not mask[~left_out].any() and np.isneginf(mask[left_out]).all():
                return _opened(inputs[kept], inside, left_out, nothing)
    opened = tuple(_opened(each, inside, left_out, nothing) for each in inputs)
    return value if opened == inputs else _with(value, opened)


def _left_out(value: Value, inside: set[Value], product: Value) -> np.ndarray | None:
    """Return where a value is -∞ whatever is multiplied, the same in all batches; None: that is not known."""
    if value is product:
        return None
    if value not in inside:
        array = _known(value)
        return None if array is None or array.dtype.kind != "f" else np.isneginf(array)
    function, inputs = value.attributes["function"], value.inputs
    if function == "where":
        chosen = _known(inputs[0])
        if chosen is None:
            return None
        nowhere = np.zeros(value.shape[-2:], bool)
        first, second = (_left_out(each, inside, product) for each in inputs[1:])
        return np.where(chosen, nowhere if first is None else first, nowhere if second is None else second)
    if function == "add":
        parts = [each for each in (_left_out(i, inside, product) for i in inputs) if each is not None]
        return None if not parts else np.logical_or.reduce(parts)
    return None


def _known(value: Value) -> np.ndarray | None:
    """Return a value along its last two axes, if it depends on nothing but places there."""
    shape, below = value.shape, value
    while below.primitive == "expand" or (
        below.primitive == "reshape" and below.inputs[0].size == below.size and _ones(below)
    ):
        below = below.inputs[0]
    lengths = below.shape[-2:]
    if math.prod(below.shape[:-2]) != 1:
        return None
    values = in_order([below])
    if any(v.primitive == "input" or v.size > MOST_LOOKED_AT for v in values):
        return None
    if any(v.primitive not in ("map", "iota", "constant", "pad", *_VIEWS) for v in values):
        return None
    array = interpret(Program([], [below]), [])[0].reshape(lengths)
    return np.broadcast_to(array, shape[-2:])


def _ones(reshape: Value) -> bool:
    """Whether a reshape only puts axes of length 1 in front."""
    before = reshape.inputs[0].shape
    return reshape.shape == (1,) * (reshape.ndim - len(before)) + before


# --- a program with it ----------------------------------------------------------------------------------------


def _rewritten(program: Program, taken: dict[Value, _Found]) -> Program:
    """Return a program in which products are results of calls."""
    firsts = {
        id(found): next(p for p, name in found.results.items() if name == "o") for found in taken.values()
    }

    def inputs_of(value: Value) -> Sequence[Value]:
        found = taken.get(value)
        if found is None:
            return value.inputs
        if found.results[value] == "o":
            return found.forward.leaves
        assert found.backward is not None
        assert found.gradient is not None
        return [*found.backward.leaves, found.gradient, firsts[id(found)]]

    new: dict[Value, Value] = {}
    sums: dict[int, Value] = {}
    calls: dict[int, dict[str, Value]] = {}

    def call(attention: Attention, inputs: list[Value], found: _Found) -> dict[str, Value]:
        """Return the results of a call, each with the axes of the product that it is in place of."""
        products = {name: product for product, name in found.results.items()}
        shapes = [
            attention.rows_shape
            if name == "l"
            else tuple(products[name].shape[axis] for axis in found.orders[products[name]])
            for name in attention.written
        ]
        dtypes = [rows.dtype for rows in attention.written.values()]
        examples = [np.broadcast_to(np.zeros((), d), s) for d, s in zip(dtypes, shapes, strict=True)]
        named = dict(
            zip(attention.written, builder.call(attention, inputs, examples, single=False), strict=True)
        )
        for name in [each for each in named if each != "l"]:
            for each in (named[name], named[name].inputs[0]):
                each.line = products[name].line
            order = found.orders[products[name]]
            back = [order.index(axis) for axis in range(len(order))]
            named[name] = builder.permute(builder.cast(named[name], FLOAT32), back)
        return named

    for value in in_order([*program.inputs, *program.outputs], inputs_of):
        found = taken.get(value)
        if found is None:
            moved = tuple(new[each] for each in value.inputs)
            new[value] = value if moved == value.inputs else _with(value, moved)
            continue
        products = {name: product for product, name in found.results.items()}
        if value is products["o"]:
            named = call(found.forward, [new[leaf] for leaf in found.forward.leaves], found)
            new[value] = named["o"]
            if "l" in named:
                sums[id(found)] = named["l"]
            continue
        if id(found) not in calls:
            assert found.backward is not None
            assert found.gradient is not None
            result = builder.permute(new[products["o"]], found.orders[products["o"]])
            times = builder.map_values("multiply", new[found.gradient], result)
            # Σ p·g along the keys, of the probabilities and their gradient, is this sum along a head.
            delta = builder.reduce("add", times, (times.ndim - 1,))
            inputs = [*(new[leaf] for leaf in found.backward.leaves), sums[id(found)], delta]
            calls[id(found)] = call(found.backward, inputs, found)
        new[value] = calls[id(found)][found.results[value]]
    return Program(program.inputs, [new[each] for each in program.outputs], program.guards)


def _with(value: Value, inputs: tuple[Value, ...]) -> Value:
    made = Value(value.primitive, inputs, value.attributes, value.shape, value.dtype)
    made.line = value.line
    return made
