"""In which order the elements of an array lie in memory: the order in which PyTorch draws random numbers into it.

Enters: an array, and numbers one after the other. Leaves: the numbers in the array's shape, each at the place it would
have been drawn into.
"""

from __future__ import annotations

from typing import Any


def axes_in_memory(array: Any) -> tuple[int, ...]:
    """Return the axes of an array from the one with the largest steps in memory to the one with the smallest.

    They are sorted as PyTorch does it, by insertion: what is repeated without steps (an expanded axis) stays where it
    is, and of equal steps the longer axis comes first.

    >>> import numpy as np
    >>> axes_in_memory(np.zeros((2, 3, 4)).transpose(1, 2, 0))
    (2, 0, 1)
    """
    if array.flags.c_contiguous:
        return tuple(range(array.ndim))
    steps, shape = [abs(step) for step in array.strides], array.shape
    order = [axis for axis in range(array.ndim) if shape[axis] != 1][::-1]  # from the smallest steps
    for end in range(1, len(order)):
        here = end
        for before in range(end - 1, -1, -1):
            a, b = order[before], order[here]
            if steps[a] and steps[b] and (steps[a], shape[a]) > (steps[b], shape[b]):
                order[before], order[here] = b, a
                here = before
            elif steps[a] and steps[b] and steps[a] < steps[b]:
                break
    return (*(axis for axis in range(array.ndim) if shape[axis] == 1), *order[::-1])


def in_axis_order(array: Any) -> bool:
    """Tell whether an array, and another one made like it, lies in the order of its axes, with or without gaps."""
    long = [axis for axis in axes_in_memory(array) if array.shape[axis] != 1]
    return long == sorted(long)


def laid_out_like(values: Any, array: Any) -> Any:
    """Return numbers that were drawn one after the other in an array's shape, in the order of its memory.

    >>> import numpy as np
    >>> laid_out_like(np.arange(6), np.zeros((3, 2)).T)
    array([[0, 2, 4],
           [1, 3, 5]])
    """
    order = axes_in_memory(array)
    if order == tuple(range(array.ndim)):
        return values.reshape(array.shape)
    back = sorted(range(array.ndim), key=order.__getitem__)
    return values.reshape([array.shape[axis] for axis in order]).transpose(back)
