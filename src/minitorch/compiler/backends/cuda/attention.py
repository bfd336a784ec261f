"""Attention, as kernels compute it. Enters: where things lie and how scores are made. Leaves: an `Attention`.

That is softmax(f(q @ kᵀ)) @ v, with any elementwise f (a scale, masks, biases), or its gradients. Nothing of the size
of q @ kᵀ is written: kernels (tiles.py) compute it tile by tile, twice more for the gradients, from the logarithms of
the rows' sums. It is found in programs by finding_attention.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from minitorch.compiler.backends.llvm.body import Body, Expression
from minitorch.compiler.ir.index import Dim, Index, dims_of
from minitorch.compiler.ir.program import Value
from minitorch.compiler.schedule.groups import Composite

SIZES = (32, 64, 128)  # of heads
COPIED = 16  # bytes that are copied at once, and that everything has to be a multiple of
FLOAT32 = np.dtype(np.float32)
LOOKS = {"reshape", "permute", "expand", "slice"}
ROW_NUMBERS = ("m", "l")  # results of which there is one for each query: see Attention
SUM = "t"  # and one more, of gradients, that nobody else reads: the sum of "g" times "o" along a head


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
    are: "o", "m", each row's largest score, and "l", the logarithm (to base 2) of its sum of e to the scores less that;
    "q", "k" and "v". g: the gradient of "o". of_queries: what else is read there: "m", "l" and "o". whole: the one
    array that all results are pieces of, if they are. kept: which probabilities are not dropped, if some are, but
    multiplied with a factor. in_groups: whether four warps can multiply together.
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
    whole: Value | None = None
    kept: Value | None = None
    kept_factor: float = 1.0
    in_groups: bool = False

    @property
    def __name__(self) -> str:
        return "attention" if self.g is None else "gradient of attention"

    def result(self, name: str) -> str:
        """Return in which result of the call something is written."""
        return name if self.whole is None else "whole"

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


def leaves_of(attention: Attention) -> list[Value]:
    """Return the values that kernels read, and see to it that they can."""
    body = expressions(attention)[0]
    found = [each[0] if isinstance(each, tuple) else each for each in body.operands]
    rows = [attention.q, attention.k, attention.v, attention.g]
    return list(dict.fromkeys([*found, *(r.source for r in rows if r is not None and r.source is not None)]))


def expressions(attention: Attention) -> tuple[Body, dict[str, Expression]]:
    """Return the scores as a function of the product and, in the backward pass, its gradient as one of the scores'."""
    a = attention
    drawn = None if a.kept is None else seen_in(a.kept)
    body = Body(lambda value: value is drawn or _is_read(value))
    dims = frozenset(dims_of(a.index))
    named: dict[str, Expression] = {"product": body.result(a.product, dims)}
    body.give(a.product, a.index, named["product"])
    named["scores"] = body.at(a.scores, a.index)
    if a.inner is not None and a.slope is not None:
        named["inner"] = body.result(a.inner, dims)
        body.give(a.inner, a.index, named["inner"])
        named["slope"] = body.at(a.slope, a.index)
    if a.kept is not None:
        named["kept"] = body.at(a.kept, a.index)
    return body, named


def seen_in(value: Value) -> Value:
    """Return what a value is a look at."""
    while value.primitive in LOOKS:
        value = value.inputs[0]
    return value


def _is_read(value: Value) -> bool:
    return value.primitive not in ("map", "pad", "iota", "size", *LOOKS)
