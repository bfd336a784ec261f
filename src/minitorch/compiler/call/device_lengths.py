"""The lengths that eager ops are met with on a GPU. Enters: those of calls. Leaves: kernels for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitorch.compiler.call.eager_backend import is_due
from minitorch.compiler.call.launches import DeviceKernel, ManySizes
from minitorch.compiler.ir.polynomial import LEAST

MOST_TRIES = 3  # to make kernels of a function for all lengths
MOST_ALONE = 8  # lengths of large arrays that kernels of their own are made for, before some are made for all
Shapes = tuple[tuple[int, ...], ...]


class Lengths:
    """The lengths that a function is met with, all else being alike, and kernels for all of them, if there are some."""

    def __init__(self, first: Shapes) -> None:
        self._seen = [first]
        self._met = self._tries = 0
        self._alone: set[Shapes] = set()
        self.many: tuple[ManySizes, list[int | None], bool, Sequence[Sequence[int]]] | None = None

    def vary(self, lengths: Shapes) -> bool:
        """Note a call for which there is no kernel; tell whether it is time to make some for all lengths."""
        self._met += lengths != self._seen[0]
        return is_due(self._met) and self._tries < MOST_TRIES and lengths != self._seen[0]

    def are_alone(self, lengths: Shapes) -> bool:
        """Note lengths of large arrays; tell whether they are among the first, which have kernels of their own.

        The layers of a model have so many at the most, and from its third step on each is computed as fast as can be.
        """
        if len(self._alone) < MOST_ALONE:
            self._alone.add(lengths)
        return lengths in self._alone

    def named(self, lengths: Shapes) -> list[list[int]]:
        """Return lengths with a negative number for those that have differed; equal ones were always equal."""
        self._tries, self._met = self._tries + 1, 0
        self._seen.append(lengths)
        names: dict[tuple[int, ...], int] = {}
        found = []
        for all_of_one in zip(*self._seen, strict=True):
            named = []
            for different in zip(*all_of_one, strict=True):
                varies = len(set(different)) > 1 and min(different) >= LEAST
                named.append(names.setdefault(different, ~len(names)) if varies else different[-1])
            found.append(named)
        return found

    def kernel(self, lengths: Shapes) -> DeviceKernel | None:
        """Return the kernels for all lengths as they are for some; None if there are none."""
        if self.many is None:
            return None
        made, results, alone, all_named = self.many
        sizes: dict[str, int] = {}
        for named, shape in zip(all_named, lengths, strict=True):
            for n, length in zip(named, shape, strict=True):
                if n != length if n >= 0 else length < LEAST or sizes.setdefault(f"s{~n}", length) != length:
                    return None
        run = made.at([sizes[symbol.name] for symbol in made.symbols])
        return None if run is None else DeviceKernel(run, results, alone)


def as_kernels_see(arrays: list[Any], shape: Any) -> Shapes:
    """Return the shapes of arrays as kernels see them. shape: given where they were laid out in a row."""
    return tuple([(a.size,) if shape is not None else a.shape for a in arrays])


def without_lengths(key: Any, arrays: list[Any], lengths: Shapes) -> Any:
    """Return the key of a function and its arrays, whatever their lengths."""
    function, tree, _, attributes = key
    return (
        function,
        tree,
        tuple([(a.dtype, len(n)) for a, n in zip(arrays, lengths, strict=True)]),
        attributes,
    )
