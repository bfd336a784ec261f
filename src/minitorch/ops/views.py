"""Writing through a view, as an op on the base: what a base is after one of its views was written into.

Enters: the base's array, what its view holds now, and the ops that lead from the base to the view. Leaves: the base's
array: its memory has been written to already, so the forward has nothing left to do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch.ops.indexing import INDEX_PUT, parts_of
from minitorch.ops.native import is_of_device
from minitorch.ops.op import Array, Op

Path = tuple[tuple[Op, dict[str, Any]], ...]


def places_of(shape: tuple[int, ...], path: Path) -> Array:
    """Return where each element of the view lies in the flattened base: the view of the elements' numbers."""
    places: Array = np.arange(math.prod(shape)).reshape(shape)
    for op, attributes in path:
        for part in parts_of(attributes.get("key")):
            if hasattr(
                part, "__decide__"
            ):  # an index that a recording does not know: then nor does it the places
                places = np.asarray(places, like=part)
        places = op.forward(places, **attributes)
    return places


def _places_in(g: Array, base: Array, path: Path) -> Array:
    """Return the places of the view in the base, where a gradient lies."""
    places = places_of(base.shape, path)
    return np.asarray(places, like=g) if is_of_device(g) else places


# What was written over gets no gradient; what was written gets the gradient of its places.
WRITE_THROUGH = Op(
    "write_through",
    lambda base, values, *, path: base,
    lambda g, out, base, values, *, path: INDEX_PUT(
        g.reshape(-1), 0.0, key=_places_in(g, base, path)
    ).reshape(base.shape),
    lambda g, out, base, values, *, path: g.reshape(-1)[_places_in(g, base, path)],
    register=False,
)
WRITE_THROUGH.complex = INDEX_PUT.complex
