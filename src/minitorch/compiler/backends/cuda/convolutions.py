"""Convolutions that a library computes. Enters: a product of windows. Leaves: a `LibraryConvolution`, or None.

A library is fastest where the channels of a place are neighbours in memory: images lie as (batch, places, channels),
filters as (results, taps, channels). See channels_last.py for how they come to lie so. Places are of one to three
axes, which are named rows and columns here.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch.compiler.ir.halves import FLOAT32, HALVES
from minitorch.compiler.ir.program import Value
from minitorch.compiler.ir.sizes import surely_equal, surely_multiple, typical

LEAST_CONVOLVED = 1 << 21  # multiplications; below, a copy takes as long as a product of windows
NEIGHBOURS = 4  # channels, of which libraries like whole numbers


@dataclass(frozen=True)
class LibraryConvolution:
    """A convolution, or the gradient of its filters.

    operands: images, filters and results of the one, or images, results and filters of the other.
    images, results, filters: their sizes as (batch, rows, columns, channels), which is how they lie; or, where channels
    come first, as (batch, channels, rows, columns). A filter has as many channels as an image, or those of a group.
    padding: with zeros, on both sides of rows and of columns.
    dtype: of all of them; sums are made in float32.
    turned: whether its filters lie as those of the convolution whose gradient of images it is: turned round, with
    results in the place of channels.
    """

    operands: list[Any]
    of_filters: bool
    images: tuple[int, ...]
    filters: tuple[int, ...]
    results: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[int, ...]
    channels_first: bool = False
    dtype: np.dtype = FLOAT32
    turned: bool = False

    @functools.cached_property
    def key(self) -> int:
        """A number that tells convolutions apart. (What it stands for would take a microsecond to look up.)"""
        how = (self.strides, self.dilations, self.padding, self.channels_first, self.dtype, self.turned)
        whole = (self.of_filters, self.images, self.filters, self.results, *how)
        return _numbers.setdefault(whole, len(_numbers))

    @property
    def groups(self) -> int:
        """How many parts of the channels are convolved by themselves."""
        channels = self.results if self.turned else self.images
        return _channels(channels, self) // _channels(self.filters, self)

    @property
    def flops(self) -> float:
        """How many additions and multiplications it takes."""
        made = _channels(self.results, self)
        return 2.0 * typical(math.prod(self.results) * math.prod(self.filters) // made)


_numbers: dict[Any, int] = {}  # of convolutions that were met


def _channels(sizes: tuple[int, ...], convolution: LibraryConvolution) -> int:
    return sizes[1 if convolution.channels_first else -1]


def convolve(convolution: LibraryConvolution, images: Any, factor: Any, made: Any) -> None:
    """Compute a convolution by NumPy: what a library has to give."""
    c = convolution
    if c.channels_first:
        images, factor, made = (np.moveaxis(each, 1, -1) for each in (images, factor, made))
        last = {"images": c.images, "filters": c.filters, "results": c.results}
        last = {name: (n, *places, channels) for name, (n, channels, *places) in last.items()}
        c = dataclasses.replace(c, channels_first=False, **last)  # type: ignore[arg-type]
    groups = c.groups
    if c.turned:
        whole = np.flip(factor, tuple(range(1, factor.ndim - 1)))
        factor = np.concatenate([part.swapaxes(0, -1) for part in np.split(whole, groups)])
        c = dataclasses.replace(c, filters=factor.shape, turned=False)
    images = np.pad(images, ((0, 0), *((n, n) for n in c.padding), (0, 0)))
    if groups > 1:
        images, results = (np.split(each, groups, -1) for each in (images, factor if c.of_filters else made))
        filters = np.split(made if c.of_filters else factor, groups)
        none = (0,) * len(c.padding)
        for few, some, other in zip(images, filters, results, strict=True):
            sizes = {"images": few.shape, "filters": some.shape, "results": other.shape, "padding": none}
            pair = (other, some) if c.of_filters else (some, other)
            convolve(dataclasses.replace(c, **sizes), few, *pair)
        return
    axes = tuple(range(images.ndim - 1))  # batch and places
    for tap in np.ndindex(*c.filters[1:-1]):
        places = zip(tap, c.results[1:-1], c.strides, c.dilations, strict=True)
        met = [slice(t * by, t * by + (count - 1) * step + 1, step) for t, count, step, by in places]
        here, at = images[:, *met], (slice(None), *tap)
        if c.of_filters:
            made[at] = np.tensordot(factor, here, (axes, axes))
        elif not any(tap):
            made[...] = here @ factor[at].T
        else:
            made += here @ factor[at].T


@dataclass(frozen=True)
class Convolution:
    """A product of windows with filters (of_filters: with results, which gives the gradient of filters).

    Letters of its spec: places (batch, rows and columns of results), group (if there are any), channel (of images, in a
    group), taps (rows and columns of a filter), and made: of what filters make, its channels last. Those of places and
    taps (and a channel) are digits where the spec does without them, because their length is 1.
    """

    window: Value
    other: Value
    of_filters: bool
    places: str
    group: str
    channel: str
    taps: str
    made: str

    @property
    def channels_first(self) -> bool:
        """Whether an image's channels stand before its rows and columns."""
        return self.window.attributes["axes"][0] == 2


def convolution(product: Value) -> Convolution | None:
    """Return a product as a convolution, if it is one, whatever the order of its axes."""
    window, other = product.inputs
    grouped = window
    if window.primitive == "reshape":
        window = window.inputs[0]
    if window.primitive != "window":
        return None
    axes = window.attributes["axes"]
    dims = len(axes)
    if window.ndim != 2 * dims + 2 or tuple(axes) not in (
        tuple(range(first, first + dims)) for first in (1, 2)
    ):
        return None
    parts, _, out = product.attributes["spec"].partition("->")
    first, second = parts.split(",")
    (place,) = set(range(1, dims + 2)) - set(axes)
    named = _named(window, grouped, first, place)
    if named is None:
        return None
    cut, group = named
    channel, taps = cut[place], cut[dims + 2 :]
    places = cut[0] + "".join(cut[axis] for axis in axes)
    made = "".join(c for c in out if c not in first)
    made = made[1:] + made[:1]
    for of_filters, factor, result in (
        (False, group + made + taps + channel, places + group + made),
        (True, places + group + made, group + made + taps + channel),
    ):
        if made and sorted(second) == sorted(present(factor)) and sorted(out) == sorted(present(result)):
            return Convolution(window, other, of_filters, places, group, channel, taps, made)
    return None


def _named(window: Value, factor: Value, letters: str, place: int) -> tuple[str, str] | None:
    """Return the letter of each axis of a window, and of the groups in which its channels lie in a factor; or None.

    An axis of length 1 that the factor, a reshaped window, does without has a digit.
    """
    cut, group, at, sizes = "", "", 0, factor.shape
    for axis, n in enumerate(window.shape):
        if at < len(sizes) and surely_equal(sizes[at], n):
            cut, at = cut + letters[at], at + 1
        elif surely_equal(n, 1):
            cut += str(axis)
        elif axis == place and at + 1 < len(sizes) and surely_equal(sizes[at] * sizes[at + 1], n):
            cut, group, at = cut + letters[at + 1], letters[at], at + 2
        else:
            return None
    return (cut, group) if at == len(sizes) else None


def present(letters: str) -> str:
    """Return letters without the digits of axes that a product does without."""
    return "".join(c for c in letters if not c.isdigit())


def multiplications(product: Value, found: Convolution) -> int:
    """Return how many multiplications a convolution takes."""
    return typical(math.prod(found.window.shape) * _sizes(product, found)[1])


def is_known(product: Value, found: Convolution) -> bool:
    """Whether a convolution is one of float32 or of halves, for which there are libraries."""
    dtypes = {found.window.dtype, found.other.dtype}
    return product.dtype == FLOAT32 and len(dtypes) == 1 and dtypes <= {FLOAT32, *HALVES}


def has_aligned_channels(product: Value, found: Convolution) -> bool:
    """Whether a place's channels, where they are neighbours in memory, begin where libraries like to read."""
    return all(surely_multiple(count, NEIGHBOURS) for count in _sizes(product, found))


def sizes_of(product: Value, found: Convolution) -> dict[str, int]:
    """Return the length of the axis of each letter."""
    parts, _, out = product.attributes["spec"].partition("->")
    second = parts.partition(",")[2]
    sizes = dict.fromkeys(found.places + found.channel + found.taps, 1)
    sizes |= zip(second, found.other.shape, strict=True)
    return sizes | dict(zip(out, product.shape, strict=True))


def _sizes(product: Value, found: Convolution) -> tuple[int, int]:
    """Return how many channels images and results have."""
    sizes = sizes_of(product, found)
    return sizes[found.channel], math.prod(sizes[c] for c in found.made)


def as_it_lies(product: Value) -> Convolution | None:
    """Return a product as a convolution if its axes are in one of the orders in which they lie for a library.

    (But for filters: those are small, and written out.)
    """
    found = convolution(product)
    parts, _, out = product.attributes["spec"].partition("->")
    if found is None or (found.of_filters and len(found.made) > 1):
        return None
    found = dataclasses.replace(found, made="".join(c for c in out if c in found.made))
    cut, filters, results = map(present, orders(found))
    second, made = (results, filters) if found.of_filters else (filters, results)
    first, other = parts.split(",")
    return found if first == cut and out == made and (other == second or not found.of_filters) else None


def orders(found: Convolution) -> tuple[str, str, str]:
    """Return the letters of windows, filters and results in the order in which they lie for a library."""
    batch, places = found.places[0], found.places[1:]

    def lie(outer: str, inner: str, channels: str) -> str:
        return outer + channels + inner if found.channels_first else outer + inner + channels

    cut = lie(batch, places, found.group + found.channel) + found.taps
    filters = lie(found.group + found.made, found.taps, found.channel)
    return cut, filters, lie(batch, places, found.group + found.made)


def swapped(letters: str, found: Convolution) -> str:
    """Return the letters of filters with those of channels and of what they make in each other's place."""
    return letters.translate(str.maketrans(found.made + found.channel, found.channel + found.made))
