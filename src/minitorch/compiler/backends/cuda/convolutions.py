"""Convolutions that a library computes. Enters: a product of windows. Leaves: a `LibraryConvolution`, or None.

A library is fastest where the channels of a place are neighbours in memory: images lie as (batch, places, channels),
filters as (results, taps, channels). Kernels bring them there, and results back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import typical

LEAST_CONVOLVED = 1 << 25  # multiplications; below, a copy takes as long as a product of windows
NEIGHBOURS = 4  # channels, of which libraries like whole numbers


@dataclass(frozen=True)
class LibraryConvolution:
    """A convolution in two dimensions, or the gradient of its filters.

    operands: images, filters and results of the one, or images, results and filters of the other.
    images, results, filters: their sizes, in the order in which they lie.
    """

    operands: list[Any]
    of_filters: bool
    images: tuple[int, ...]
    filters: tuple[int, ...]
    results: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells convolutions apart."""
        return (self.of_filters, self.images, self.filters, self.results, self.strides, self.dilations)

    @property
    def flops(self) -> float:
        """How many additions and multiplications it takes."""
        return 2.0 * typical(math.prod(self.results) * math.prod(self.filters[1:]))


def convolve(convolution: LibraryConvolution, images: Any, factor: Any, made: Any) -> None:
    """Compute a convolution by NumPy: what a library has to give."""
    c = convolution
    _, height, width, _ = c.results
    (down, across), (by, beside) = c.strides, c.dilations
    for y, x in np.ndindex(*c.filters[1:3]):
        rows = slice(y * by, y * by + (height - 1) * down + 1, down)
        columns = slice(x * beside, x * beside + (width - 1) * across + 1, across)
        here = images[:, rows, columns]
        if c.of_filters:
            made[:, y, x] = np.einsum("nuvc,nuvo->oc", here, factor)
        elif y == x == 0:
            made[...] = here @ factor[:, y, x].T
        else:
            made += here @ factor[:, y, x].T


@dataclass(frozen=True)
class Recognised:
    """A product as a convolution: the images that windows are cut from, and the other factor's and the result's axes.

    Their axes are in the order in which a library wants them.
    """

    image: Value
    of_filters: bool
    other: tuple[int, ...]
    result: tuple[int, ...]


def recognised(product: Value) -> Recognised | None:
    """Return what convolution a product is, if it is one that a library computes."""
    window, other = product.inputs
    if window.primitive != "window" or window.ndim != 6 or tuple(window.attributes["axes"]) != (2, 3):
        return None
    parts, _, out = product.attributes["spec"].partition("->")
    cut, second = parts.split(",")
    n, channel, *rest = cut
    places, taps = rest[:2], rest[2:]
    found = [c for c in second if c not in cut]
    if len(second) != 4 or len(out) != 4 or len(found) != 1 or product.dtype != np.float32:
        return None
    filters, results = [*found, *taps, channel], [n, *places, *found]
    image = window.inputs[0]
    sizes = (image.shape[1], other.shape[second.index(found[0])])
    if (
        any(size % NEIGHBOURS for size in sizes)
        or typical(math.prod(window.shape) * sizes[1]) < LEAST_CONVOLVED
        or math.prod(window.shape[4:]) == 1
        or {image.dtype, other.dtype} != {product.dtype}
    ):
        return None
    for of_filters, factor, made in ((False, filters, results), (True, results, filters)):
        if set(second) == set(factor) and set(out) == set(made):
            return Recognised(
                image,
                of_filters,
                tuple(second.index(c) for c in factor),
                tuple(out.index(c) for c in made),
            )
    return None
