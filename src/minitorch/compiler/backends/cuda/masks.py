"""Masks of scores that depend on places alone. Enters: how scores are made. Leaves: the band of those that are kept.

Where lengths are known a mask is computed and looked at; where they vary, its diagonals are (diagonals.py).
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from minitorch.compiler.backends.cuda.attention import LOOKS, Band
from minitorch.compiler.backends.cuda.diagonals import Diagonals, diagonals_of
from minitorch.compiler.ir.program import Program, Value, in_order, interpret
from minitorch.compiler.ir.simplify import number
from minitorch.compiler.ir.sizes import Undecided, is_fixed, surely_at_most

Places = Any  # of scores, by query and key: an array of bools, or `Diagonals`
MOST_LOOKED_AT = 1 << 24  # elements of a mask that are computed to find out which tiles it leaves out


def is_map(value: Value, function: str) -> bool:
    """Whether a value is an elementwise function of others."""
    return value.primitive == "map" and value.attributes["function"] == function


def remade(value: Value, inputs: tuple[Value, ...]) -> Value:
    """Return a value made from others."""
    made = Value(value.primitive, inputs, value.attributes, value.shape, value.dtype)
    made.line = value.line
    return made


def band_of(scores: Value, inside: set[Value], product: Value) -> tuple[Band, Places | None]:
    """Return outside of which band all scores are -∞, whatever is multiplied; and where, if it is just there."""
    queries, keys = scores.shape[-2:]
    everything = Band(queries, keys), None
    if is_fixed(queries, keys) and queries * keys > MOST_LOOKED_AT:
        return everything
    try:
        left_out = _left_out(scores, inside, product)
        if left_out is None:
            return everything
        found = (
            _band_of_array(left_out) if isinstance(left_out, np.ndarray) else _band(left_out, queries, keys)
        )
    except Undecided:
        return everything
    return everything if found is None else found


def _band_of_array(left_out: np.ndarray) -> tuple[Band, Places | None] | None:
    if left_out.all(axis=1).any():  # (A row of nothing else is no number, as it always was.)
        return None
    queries, keys = left_out.shape
    apart = np.arange(keys) - np.arange(queries)[:, None]
    seen = apart[~left_out]
    band = Band(int(-seen.min()), int(seen.max()))
    is_band = np.array_equal(left_out, (apart < -band.below) | (apart > band.above))
    return band, left_out if is_band else None


def _band(left_out: Diagonals, queries: int, keys: int) -> tuple[Band, Places | None] | None:
    spans = (~left_out).spans
    if len(spans) != 1:
        return None
    first, last = (None if isinstance(end, float) else end for end in spans[0])
    # (There is a key for the first query, and one for the last.)
    if (last is not None and not surely_at_most(0, last)) or (
        first is not None and not surely_at_most(first, keys - queries)
    ):
        return None
    return Band(queries if first is None else -first, keys if last is None else last), left_out


def opened(value: Value, inside: set[Value], left_out: Places, nothing: float) -> Value:
    """Return a value without the masks that only make it `nothing` where scores are left out."""
    if value not in inside or value.primitive != "map":
        return value
    function, inputs = value.attributes["function"], value.inputs
    if function == "where" and (chosen := _where(inputs[0], True)) is not None:
        for kept, masked, where in ((2, 1, chosen), (1, 2, ~chosen)):
            if number(inputs[masked]) == nothing and not (where & ~left_out).any():
                return opened(inputs[kept], inside, left_out, nothing)
    if function == "add":
        for kept, masked in ((0, 1), (1, 0)):
            if inputs[masked] in inside:
                continue
            none, infinite = (_where(inputs[masked], each) for each in (0.0, -math.inf))
            if none is None or infinite is None:
                continue
            if not (~none & ~left_out).any() and not (left_out & ~infinite).any():
                return opened(inputs[kept], inside, left_out, nothing)
    made = tuple(opened(each, inside, left_out, nothing) for each in inputs)
    return value if made == inputs else remade(value, made)


def _left_out(value: Value, inside: set[Value], product: Value) -> Places | None:
    """Return where a value is -∞ whatever is multiplied, the same in all batches; None: that is not known."""
    if value is product:
        return None
    if value not in inside:
        return _where(value, -math.inf) if value.dtype.kind == "f" else None
    function, inputs = value.attributes["function"], value.inputs
    if function == "where":
        chosen = _where(inputs[0], True)
        if chosen is None:
            return None
        nowhere = chosen & ~chosen
        first, second = (_left_out(each, inside, product) for each in inputs[1:])
        return (chosen & (nowhere if first is None else first)) | (
            ~chosen & (nowhere if second is None else second)
        )
    if function == "add":
        parts = [each for each in (_left_out(i, inside, product) for i in inputs) if each is not None]
        return None if not parts else functools.reduce(operator.or_, parts)
    return None


def _where(value: Value, number: Any) -> Places | None:
    """Return where a value is a number, along its last two axes, if it depends on nothing but places there."""
    if not is_fixed(*value.shape[-2:]):
        return diagonals_of(value, number)
    array = _known(value)
    return None if array is None else array == number


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
    if any(v.primitive == "input" or not surely_at_most(v.size, MOST_LOOKED_AT) for v in values):
        return None
    if any(v.primitive not in ("map", "iota", "constant", "pad", *LOOKS) for v in values):
        return None
    array = interpret(Program([], [below]), [])[0].reshape(lengths)
    return np.broadcast_to(array, shape[-2:])


def _ones(reshape: Value) -> bool:
    """Whether a reshape only puts axes of length 1 in front."""
    before = reshape.inputs[0].shape
    return reshape.shape == (1,) * (reshape.ndim - len(before)) + before
