"""Products and sums together: matmul and einsum.

Enters: arrays whose axes are multiplied and summed against each other. Leaves: the contraction.
"""

from __future__ import annotations

import functools
import string

import numpy as np

from minitorch.ops.fast import matmul
from minitorch.ops.native import takes_looks
from minitorch.ops.op import Array, Op

# --- matmul --------------------------------------------------------------------------------------


def _product(x: Array, y: Array) -> Array:
    return matmul(x, y) if type(x) is np.ndarray else MATMUL(x, y)


@takes_looks
def _matmul_left(g: Array, out: Array, x: Array, y: Array) -> Array:
    if x.ndim == 1 and y.ndim == 1:
        return g * y
    if y.ndim == 1:
        return g[..., None] * y
    if x.ndim == 1:
        return (g[..., None, :] @ y.swapaxes(-1, -2))[..., 0, :]
    return _product(g, y.swapaxes(-1, -2))


@takes_looks
def _matmul_right(g: Array, out: Array, x: Array, y: Array) -> Array:
    if x.ndim == 1 and y.ndim == 1:
        return g * x
    if y.ndim == 1:
        return (x.swapaxes(-1, -2) @ g[..., None])[..., 0]
    if x.ndim == 1:
        return x[:, None] * g[..., None, :]
    if y.ndim == 2 and x.ndim > 2 and 0 not in x.shape + y.shape:
        # The sum over the batch, done by the product itself.
        return x.reshape(-1, x.shape[-1]).swapaxes(0, 1) @ g.reshape(-1, g.shape[-1])
    return _product(x.swapaxes(-1, -2), g)


MATMUL = Op("matmul", takes_looks(matmul), _matmul_left, _matmul_right, there=True)

# --- einsum --------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=512)
def explicit_subscripts(subscripts: str, ndims: tuple[int, ...]) -> str:
    """Spell out einsum subscripts: no ellipsis, an explicit result.

    >>> explicit_subscripts("...ij,jk", (4, 2))
    'zyij,jk->zyik'
    """
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"{subscripts!r} describes {len(terms)} operands, but {len(ndims)} were given")
    spare = [c for c in reversed(string.ascii_letters[:26] + string.ascii_letters[26:]) if c not in text]
    spare.sort(key=lambda c: (c.isupper(), -ord(c)))
    widths = [n - len(term.replace("...", "")) for term, n in zip(terms, ndims, strict=True)]
    if any(w < 0 or (w > 0 and "..." not in t) for w, t in zip(widths, terms, strict=True)):
        raise ValueError(f"{subscripts!r} does not fit operands with {ndims} axes")
    longest = max((w for w, term in zip(widths, terms, strict=True) if "..." in term), default=0)
    batch = "".join(spare[:longest])
    terms = [t.replace("...", batch[longest - w :]) for t, w in zip(terms, widths, strict=True)]
    if arrow:
        right = right.replace("...", batch)
    else:
        letters = "".join(terms)
        right = batch + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in batch))
    return ",".join(terms) + "->" + right


def _einsum(*operands: Array, subscripts: str) -> Array:
    if any(operand.__class__ is not np.ndarray for operand in operands):
        return np.einsum(subscripts, *operands)
    work = 1
    for operand in operands:
        work *= max(operand.shape, default=1)
    # Finding a good order costs more than small products do.
    return np.einsum(subscripts, *operands, optimize=len(operands) > 1 and work > 4096)


def _einsum_rule(i: int, g: Array, out: Array, *operands: Array, subscripts: str) -> Array:
    left, _, right = subscripts.partition("->")
    terms = left.split(",")
    mine, shape = terms[i], operands[i].shape
    others = [term for k, term in enumerate(terms) if k != i]
    lengths = dict(zip(mine, shape, strict=True))
    # The gradient is the same contraction with the result's gradient in this operand's place …
    unique = "".join(dict.fromkeys(mine))
    known = "".join(c for c in unique if c in right or any(c in term for term in others))
    spec = ",".join([right, *others]) + "->" + known
    arrays = [operand for k, operand in enumerate(operands) if k != i]
    found = EINSUM(g, *arrays, subscripts=spec)
    # … an index that stands in this operand alone was summed: every element gets the same …
    found = found.reshape(tuple(lengths[c] if c in known else 1 for c in unique))
    if len(unique) == len(mine):
        return np.broadcast_to(found, shape)
    # … and of an index that stands twice in it (a diagonal) only the diagonal was used.
    positions = {c: np.arange(n, like=g) for c, n in lengths.items()}
    full = np.broadcast_to(found, tuple(lengths[c] for c in unique))
    expanded = full.reshape(tuple(lengths[c] if k == mine.index(c) else 1 for k, c in enumerate(mine)))
    for k, c in enumerate(mine):
        first = mine.index(c)
        if k != first:
            at = positions[c].reshape(tuple(-1 if j == first else 1 for j in range(len(mine))))
            here = positions[c].reshape(tuple(-1 if j == k else 1 for j in range(len(mine))))
            expanded = np.where(at == here, expanded, 0)
    return expanded


EINSUM = Op("einsum", _einsum, each=_einsum_rule)
