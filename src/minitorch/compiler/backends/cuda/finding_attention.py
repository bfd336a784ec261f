"""Attention, found in a program. Enters: a product. Leaves: the attention whose result it is, with its gradients.

What is looked for is softmax(f(q @ kᵀ)) @ v, with any elementwise f, and the products of its derivative, if they are
there. Where anything else looks at the scores, or at the probabilities, there is nothing to be found.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from minitorch.compiler.backends.cuda.attention import (
    COPIED,
    FLOAT32,
    LOOKS,
    ROW_NUMBERS,
    SIZES,
    Attention,
    Rows,
    leaves_of,
)
from minitorch.compiler.backends.cuda.masks import Places, band_of, is_map, opened
from minitorch.compiler.ir import builder
from minitorch.compiler.ir.halves import FLOAT16, HALVES
from minitorch.compiler.ir.index import (
    Dim,
    Index,
    Inexpressible,
    Split,
    dims_of,
    forward,
    offset,
    shifted,
    split_map,
    strides_of,
    through,
)
from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.simplify import number
from minitorch.compiler.ir.sizes import Undecided, is_fixed, surely_at_most, surely_less, typical

LEAST_SCORES = 1 << 16  # fewer are as fast through memory
LONGEST = 32  # values between the scores and what a softmax is taken of


class _Other(Exception):
    """This is something else."""


class _Mixed(Exception):
    """Only some of the factors are halves."""


@dataclass
class Found:
    """Attention as a program has it.

    results: what each of its products is, by the product; and "m" and "l" (see `Attention`), where a program returns
    them. orders: in which order of its axes each is written, by the same. none: where the result is 0 whatever is
    computed, if anywhere: in rows of which all is masked. known: "m", "l" and "o", if a program has them from before:
    then its gradients alone are computed.
    """

    forward: Attention
    backward: Attention | None
    results: dict[Value, str]
    orders: dict[Value, tuple[int, ...]]
    none: Value | None
    known: tuple[Value, ...] = ()


def _need(condition: object) -> None:
    if not condition:
        raise _Other


def _half_below(value: Value) -> Value | None:
    """Return the halves whose numbers a value has, in float32 or once more, if need be in another order."""
    if value.dtype in HALVES and is_map(value, "cast"):
        below = _half_below(value.inputs[0])
        return below if below is not None and below.dtype == value.dtype else None
    while value.primitive in LOOKS:
        value = value.inputs[0]
    is_half = value.dtype == FLOAT32 and is_map(value, "cast") and value.inputs[0].dtype in HALVES
    return value.inputs[0] if is_half else None


def _origin(value: Value) -> Value:
    """Return what a value is another shape of, or spread from."""
    while value.primitive in ("expand", "reshape"):
        value = value.inputs[0]
    return value


def _folded_row(value: Value, function: str) -> Value:
    """Return what is folded along its last axis, if that is what is spread over these rows."""
    _need(value.primitive == "expand" and value.inputs[0].primitive == "reshape")
    fold = value.inputs[0].inputs[0]
    _need(fold.primitive == "reduce" and fold.attributes["function"] == function)
    source = fold.inputs[0]
    _need(fold.attributes["axes"] == (source.ndim - 1,) and source.shape == value.shape)
    _need(value.inputs[0].shape == (*source.shape[:-1], 1))
    return source


def find_attention(product: Value, readers: dict[Value, list[Value]], outputs: set[Value]) -> Found | None:
    """Return the attention whose result a product is."""
    for operand in product.inputs:
        below = operand
        while below.primitive == "permute":
            below = below.inputs[0]
        weights, dropped = before_dropout(below)
        softmax = weights.inputs[2] if some_rows_are_0(weights) else weights
        if is_map(softmax, "divide"):
            try:
                return _Search(product, softmax, weights, below, dropped, readers, outputs).found()
            except (_Other, Inexpressible, Undecided):
                continue
    return None


def results_of_gradients(products: list[Value], readers: dict[Value, list[Value]]) -> list[Value]:
    """Return what attention's results would be that a program has gradients of: it may not compute them itself.

    Of a gradient of the probabilities, g @ vᵀ, the values are known.
    """
    made = []
    for gained in products:
        maps = [gained]
        for _ in range(3):  # (some may be dropped, and some rows made 0)
            near = [reader for each in maps for reader in readers.get(each, [])]
            maps += [each for each in near if is_map(each, "multiply") or is_map(each, "where")]
        for softmax in {i: None for each in maps for i in each.inputs if is_map(i, "divide")}:
            left, _, out = gained.attributes["spec"].partition("->")
            parts = left.split(",")
            of_keys = [n for n, part in enumerate(parts) if out[-1:] in part]
            summed = [c for c in parts[0] if c in parts[1] and c not in out]
            if len(of_keys) != 1 or len(summed) != 1 or gained.shape != softmax.shape:
                continue
            part, values = parts[of_keys[0]], gained.inputs[of_keys[0]]
            weights = next((r for r in readers[softmax] if some_rows_are_0(r)), softmax)
            matrix = next((r for r in readers[weights] if before_dropout(r)[1] is not None), weights)
            spec = {"spec": f"{out},{part}->{out[:-1]}{summed[0]}"}
            shape = (*gained.shape[:-1], values.shape[part.index(summed[0])])
            made.append(Value("contract", (matrix, values), spec, shape, FLOAT32))
    return made


def are_enough(scores: Value) -> bool:
    """Whether there are so many scores that it pays not to write them."""
    if scores.dtype != FLOAT32 or scores.ndim < 2:
        return False
    # (A length that varies may be any, whatever it was first.)
    return not is_fixed(scores.shape[-2]) or typical(scores.size) >= LEAST_SCORES


def some_rows_are_0(value: Value) -> bool:
    """Whether some rows of a softmax are made 0: those of which all is masked."""
    return is_map(value, "where") and number(value.inputs[1]) == 0


class Dropped(NamedTuple):
    """What drops probabilities: numbers to multiply with, a factor where something is kept, and 0 elsewhere."""

    numbers: Value
    kept: Value
    factor: float


def before_dropout(matrix: Value) -> tuple[Value, Dropped | None]:
    """Return what probabilities were before some were dropped, and how."""
    for weights, numbers in [matrix.inputs, matrix.inputs[::-1]] if is_map(matrix, "multiply") else []:
        kept, factor = numbers, 1.0
        while is_map(kept, "cast") or (is_map(kept, "multiply") and number(kept.inputs[1]) is not None):
            factor *= 1.0 if is_map(kept, "cast") else float(number(kept.inputs[1]))
            kept = kept.inputs[0]
        is_kept = kept.dtype == np.bool_ and kept.shape == matrix.shape
        if is_kept and (is_map(weights, "divide") or some_rows_are_0(weights)):
            return weights, Dropped(numbers, kept, factor)
    return matrix, None


class _Search:
    """Looks for attention around the probabilities.

    weights: the softmax, or that with some rows made 0. matrix: what is multiplied with values: these, or what is left
    of them where some are dropped.
    """

    def __init__(
        self,
        result: Value,
        softmax: Value,
        weights: Value,
        matrix: Value,
        dropped: Dropped | None,
        readers: dict[Value, list[Value]],
        outputs: set[Value],
    ) -> None:
        self.readers, self.outputs, self.matrix = readers, outputs, matrix
        self.weights, self.dropped = weights, dropped
        exp, total = softmax.inputs
        _need(is_map(exp, "exp") and is_map(exp.inputs[0], "subtract"))
        below = exp.inputs[0]
        self.softmax, self.result = softmax, result
        self.scores, largest = below.inputs
        _need(are_enough(softmax))
        self.between = {softmax, weights, matrix, exp, below, self.scores}
        self.rows_known = self.known_rows(largest, total)
        if self.rows_known:
            self.between |= {largest, total, total.inputs[0], _origin(total)}
        else:
            _need(_folded_row(total, "add") is exp and _folded_row(largest, "maximum") is self.scores)
            self.between |= {*self.spread(total), *self.spread(largest)}
        self.largest, self.total = largest, total
        self.inside: set[Value] = set()  # made from the product
        self.product = self.first_product()
        self.index: Index = tuple((0, ((Dim(n), 1),)) for n in self.scores.shape)

    def spread(self, value: Value) -> list[Value]:
        return [value, value.inputs[0], value.inputs[0].inputs[0]]

    def known_rows(self, largest: Value, total: Value) -> tuple[Value, ...]:
        """Return "m" and "l", from which what is subtracted and divided by is spread; nothing if it is folded here."""
        powers = _origin(total)
        if largest.primitive != "expand" or total.primitive != "expand" or not is_map(powers, "exp2"):
            return ()
        found, numbers = (_origin(largest), _origin(powers.inputs[0])), self.scores.shape[:-1]
        return found if all(each.shape == numbers and each.dtype == FLOAT32 for each in found) else ()

    def returned_rows(self) -> dict[Value, str]:
        """Return "m" and "l" as a program returns them, if it does."""
        views = [self.largest.inputs[0], self.largest.inputs[0].inputs[0]]
        sums = [self.total.inputs[0], self.total.inputs[0].inputs[0]]
        logarithms = [r for each in sums for r in self.readers.get(each, ()) if is_map(r, "log2")]
        named = dict.fromkeys(views, "m") | dict.fromkeys(logarithms, "l")
        return {value: name for value, name in named.items() if value in self.outputs}

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

    def found(self) -> Found:
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

    def _found(self) -> Found:
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
        v_value, v_index, *_ = self.other(self.result, self.matrix, key)
        v = self.rows(v_value, v_index, key)
        _need(self.result.shape and self.head_size(v_index) == size)
        self.of_one_dtype(q, k, v)
        self.halves = q.dtype if q.dtype in HALVES else None
        band, left_out = band_of(self.scores, self.inside, product)
        scores = self.scores
        if left_out is not None:
            band = replace(band, masks=True)
            scores = opened(scores, self.inside, left_out, -math.inf)
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
        if self.dropped is not None:
            forward.kept, forward.kept_factor = self.dropped.kept, self.dropped.factor
        forward.written["o"] = self.target(self.result, self.matrix)
        backward = self.backward(forward, results, left_out)
        known: tuple[Value, ...] = ()
        if self.rows_known:
            _need(backward is not None)
            known = (*self.rows_known, *self.result_known)
        else:
            results |= self.returned_rows()
            if backward is not None or len(results) > 1:
                forward.written["m"] = forward.written["l"] = self.one_by_query()
        for value in self.seen - set(results):
            _need(value not in self.outputs)
            _need(all(reader in self.seen or reader in results for reader in self.readers.get(value, ())))
        forward.leaves = leaves_of(forward)
        orders = {
            each: tuple(range(each.ndim)) if name in ("whole", *ROW_NUMBERS) else self.layout(each)
            for each, name in results.items()
        }
        none = self.in_rows(self.result_index(), self.result.shape)
        return Found(forward, backward, results, orders, none, known)

    narrow = True  # whether factors are read as halves, where they are
    halves: np.dtype | None = None  # if all are

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
            if value.primitive in LOOKS:
                index, conditions = through(value, index)
                _need(not conditions)
            elif is_map(value, "multiply") and number(value.inputs[1]) is not None:
                factor *= float(number(value.inputs[1]))
            elif is_map(value, "multiply") and number(value.inputs[0]) is not None:
                factor *= float(number(value.inputs[0]))
                value = value.inputs[1]
                continue
            else:
                break
            value = value.inputs[0]
        _need(value.dtype == FLOAT32 and surely_less(1, value.size) and np.isfinite(factor))
        while self.narrow and (half := _half_below(value)) is not None:
            while value is not half:
                if value.primitive in LOOKS:
                    index, _ = through(value, index)
                value = value.inputs[0]
            while value.primitive in LOOKS:
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
        _need(all(surely_at_most(0, n) for n in (start, found.row, *batches)))
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
        for matrix in (self.matrix, *self.slopes()):
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
        """Return the halves' dtype, if all are and all who read a product round it to that; if not, float32."""
        return self.halves if self.halves is not None and self.is_rounded(product) else FLOAT32

    def is_rounded(self, value: Value) -> bool:
        """Whether all that read a value round it to halves, if need be after a power of two has multiplied it.

        (Not before that to float16, where small numbers have fewer digits, and large ones are infinite.)
        """

        def rounds(reader: Value) -> bool:
            if is_map(reader, "cast"):
                return reader.dtype == self.halves
            if reader.primitive in ("permute", "reshape"):
                return self.is_rounded(reader)
            scales = is_map(reader, "multiply") and self.halves != FLOAT16
            factor = number(reader.inputs[1]) if scales else None
            return factor is not None and abs(math.frexp(factor)[0]) == 0.5 and self.is_rounded(reader)

        readers = self.readers.get(value, [])
        return bool(readers) and value not in self.outputs and all(map(rounds, readers))

    def is_row(self, product: Value, matrix: Value, dim: Dim) -> bool:
        try:
            self.other(product, matrix, self.key if dim is self.query else self.query)
        except _Other:
            return False
        return True

    # Rows that are made 0.

    def rows_of_matrix(self) -> Value | None:
        """Return which rows are made 0, with an axis of length 1 for the keys; None: none are."""
        if self.weights is self.softmax:
            return None
        condition = self.weights.inputs[0]
        _need(condition.primitive == "expand" and condition.inputs[0].shape[-1] == 1)
        return condition.inputs[0]

    def in_rows(self, index: Index, shape: tuple[int, ...]) -> Value | None:
        """Return which rows are made 0, spread over what has an index of batches, queries and a head."""
        rows = self.rows_of_matrix()
        if rows is None:
            return None
        whole = builder.expand(rows, (*self.scores.shape[:-1], shape[self.head_of(index)]))
        axes = [self.index.index(each) if each in self.index else whole.ndim - 1 for each in index]
        return builder.permute(whole, axes)

    def without_rows(self, value: Value, index: Index) -> Value:
        """Return a gradient of the result as it is without the rows that are made 0."""
        rows = self.in_rows(index, value.shape)
        if rows is None:
            return value
        made = builder.where(rows, builder.full(value.shape, 0.0, FLOAT32), value)
        half = _half_below(value)
        return made if half is None else builder.cast(builder.cast(made, half.dtype), FLOAT32)

    def before_rows(self, value: Value) -> Value:
        """Return what the rows were taken from that are made 0, the same as those of the probabilities."""
        if self.weights is self.softmax or not is_map(value, "where"):
            return value
        condition, first, second = value.inputs
        below, other = _origin(condition), _origin(self.weights.inputs[0])
        inverted = is_map(below, "invert") or is_map(below, "logical_not")
        if inverted and _origin(below.inputs[0]) is other and number(second) == 0:
            return first
        return second if below is other and number(first) == 0 else value

    # The derivative.

    def backward(
        self, forward: Attention, results: dict[Value, str], left_out: Places | None
    ) -> Attention | None:
        """Return the products of the derivative, if there are any."""
        softmax = self.softmax
        sums = [r for r in self.reading(softmax) if r.primitive == "map" and r not in self.between]
        products = [
            r for r in self.reading(self.matrix) if r.primitive == "contract" and r is not self.result
        ]
        if not sums and not products:
            return None
        inner, gained = self.inner_gradient(sums)
        slope = self.outer_gradient(inner)
        self.slope = slope
        made = Attention(**{**forward.__dict__, "leaves": [], "written": {}})
        made.inner, made.slope = inner, slope
        if left_out is not None:
            made.slope = opened(slope, self.made_of(slope, {*self.inside, inner}) - {inner}, left_out, 0.0)
        gradient = self.gradient(gained, forward)
        plain = self.one_by_query()
        result = self.known_result() if self.rows_known else forward.written["o"]
        made.g, made.of_queries = gradient, (plain, plain, result)
        self.of_one_dtype(forward.q, gradient)
        for product in products:
            g_value, g_index, _ = self.other(product, self.matrix, self.query)
            _need(self.rows(g_value, g_index, self.query) == self.whole_gradient)
            self.note(results, product, "v")
            made.written["v"] = self.target(product, self.matrix)
        for product in self.reading(slope):
            _need(product.primitive == "contract")
            name = "q" if self.is_row(product, slope, self.query) else "k"
            factor, index, _ = self.other(product, slope, self.key if name == "q" else self.query)
            expected = forward.k if name == "q" else forward.q
            rows = self.rows(factor, index, self.key if name == "q" else self.query)
            _need(rows == expected or (replace(rows, factor=expected.factor) == expected and expected.factor))
            self.note(results, product, name)
            # (A number that multiplies a factor here, and not in the scores, multiplies what is written.)
            more = 1.0 if rows == expected else rows.factor / expected.factor
            made.written[name] = replace(self.target(product, slope), factor=more)
        _need(set(made.written) == {"q", "k", "v"})
        made.leaves = leaves_of(made)
        with contextlib.suppress(_Other, Inexpressible, Split):  # (Then each is an array of its own.)
            self.join(made, results)
        return made

    result_known: tuple[Value, ...] = ()  # whose memory has "o", if a program has that from before

    def known_result(self) -> Rows:
        """Return where "o" lies that a program has: what is multiplied with its gradient, and added up along a head."""
        pair = self.factors_of_sums
        _need(len(pair) == 2 and self.whole_gradient in pair)
        result = pair[1 - pair.index(self.whole_gradient)]
        assert result.source is not None
        _need(result.factor == 1)
        self.result_known = (result.source,)
        return replace(result, source=None)

    def sums_of_result(self, spread: Value) -> list[Rows]:
        """Return where two matrices lie whose products are added up along a head, and spread along the keys."""
        value, index = spread, self.index
        while value.primitive in LOOKS:
            index, _ = through(value, index)
            value = value.inputs[0]
        times = value.inputs[0]
        _need(value.primitive == "reduce" and value.attributes["function"] == "add")
        _need(value.attributes["axes"] == (times.ndim - 1,) and is_map(times, "multiply"))
        along: Index = ((0, ((Dim(times.shape[-1]), 1),)),)
        return [self.rows(each, (*index, *along), self.query) for each in times.inputs]

    def join(self, made: Attention, results: dict[Value, str]) -> None:
        """Let gradients that only become pieces of one array, as those of one product's parts do, be written there."""
        chains = {name: self.chain(product) for product, name in results.items() if name != "o"}
        wholes = {chain[-1] for chain in chains.values()}
        whole = next(iter(wholes))
        _need(len(wholes) == 1 and whole.primitive == "concatenate" and len(whole.inputs) == len(chains))
        axis, begins, begin = whole.attributes["axis"], {}, 0
        for piece in whole.inputs:
            begins[piece] = begin
            begin += piece.shape[axis]
        rounded = any(is_map(each, "cast") for chain in chains.values() for each in chain)
        dtype = FLOAT32
        if self.halves is not None and (rounded or self.is_rounded(whole)):
            dtype = self.halves
        found = {}
        for name, chain in chains.items():
            product, matrix = chain[0], self.matrix if name == "v" else self.slope
            assert matrix is not None
            row, other = (self.query, self.key) if name == "q" else (self.key, self.query)
            index, factor = self.other(product, matrix, other)[2], 1.0
            for each in chain[1:-1]:
                if each.primitive in ("permute", "reshape"):
                    index = forward(each, index)
                elif is_map(each, "multiply"):
                    factor *= float(number(each.inputs[1]))
            moved = tuple(
                shifted(each, begins[chain[-2]]) if n == axis else each for n, each in enumerate(index)
            )
            start, terms = offset(moved, whole.shape)
            found[name] = self.placed(None, start, dict(terms), row, factor, dtype)
        made.written, made.whole = found, whole
        for chain in chains.values():
            del results[chain[0]]
            self.seen |= set(chain[:-1])
        results[whole] = "whole"

    def chain(self, product: Value) -> list[Value]:
        """Return a product and what is made of it alone, by moving it and by numbers; the last is something else."""
        found = [product]
        while True:
            readers = self.readers.get(found[-1], [])
            if len(readers) != 1 or found[-1] in self.outputs:
                return found
            (reader,) = readers
            is_number = is_map(reader, "multiply") and number(reader.inputs[1]) is not None
            found.append(reader)
            if (
                reader.primitive not in ("permute", "reshape")
                and not is_map(reader, "cast")
                and not is_number
            ):
                return found

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

    factors_of_sums: Sequence[Rows] = ()

    def inner_gradient(self, sums: list[Value]) -> tuple[Value, Value]:
        """Return the gradient of the scores, p·(g - Σ p·g), and that of the probabilities, g."""
        softmax = self.softmax
        for times in sums:
            if not is_map(times, "multiply"):
                continue
            of_softmax = next((each for each in times.inputs if each is not softmax), softmax)
            gained = left = self.before_rows(of_softmax)
            if self.dropped is not None:
                if not is_map(left, "multiply") or self.dropped.numbers not in left.inputs:
                    continue
                gained = next(each for each in left.inputs if each is not self.dropped.numbers)
            if gained.primitive != "contract" or gained.shape != softmax.shape:
                continue
            for second in sums:
                if second is times or not is_map(second, "multiply"):
                    continue
                spread = next((each for each in second.inputs if each is not softmax), softmax)
                folded = {spread}
                try:
                    if self.rows_known:
                        self.factors_of_sums = self.sums_of_result(spread)
                    elif _folded_row(spread, "add") is not times:
                        continue
                    else:
                        folded |= {*self.spread(spread)}
                except _Other:
                    continue
                for last in self.readers.get(second, ()):
                    if is_map(last, "subtract") and last.inputs == (times, second):
                        self.seen |= {times, second, of_softmax, left, gained, last, *folded}
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

    def gradient(self, gained: Value, forward: Attention) -> Rows:
        """Return where the result's gradient lies, a factor of that of the probabilities."""
        first, second = self.factors(gained, self.index)
        if self.key in first[2]:
            first, second = second, first
        _need(first[2] == {*self.batches, self.query} and second[2] == {*self.batches, self.key})
        _need(self.rows(*second[:2], self.key) == forward.v)
        value, where = first[:2]
        self.whole_gradient = self.rows(value, where, self.query)
        return self.rows(self.without_rows(value, where), where, self.query)

    def result_index(self) -> Index:
        """Return the index of the result."""
        return self.other(self.result, self.matrix, self.key)[2]

    def head_of(self, index: Index) -> int:
        """Return which axis is that of a head."""
        own = {*self.batches, self.query, self.key}
        return next(n for n, each in enumerate(index) if not own & set(dims_of([each])))

    def one_by_query(self) -> Rows:
        """Return where numbers lie that there is one of for each query."""
        sizes = [d.size for d in (*self.batches, self.query)]
        return Rows(None, 0, strides_of(tuple(sizes))[:-1], 1)
