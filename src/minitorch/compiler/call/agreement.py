"""Whether kernels give what is expected, looked at on the device. Enters: two arrays there. Leaves: yes or no."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.compiler.call import verify
from minitorch.compiler.call.launches import DeviceKernel
from minitorch.compiler.ir.elsewhere import Elsewhere
from minitorch.engine import recording
from minitorch.engine.dtypes import is_bfloat16, kind_of


def agrees(kernel: DeviceKernel, arrays: list[Any], shape: Any, expected: Any) -> bool:
    """Tell whether a kernel gives what is expected, but for rounding, looked at on the device.

    expected: the results, or a function that gives them of those that were found.
    """
    with recording.rehearsal():  # (CuPy rounds no factors)
        found = kernel(arrays, shape)
    if callable(expected):
        with np.errstate(all="ignore"):
            expected = expected(found)
    wanted: Sequence[Any] = [expected] if kernel.alone else expected
    compute = kernel.run.launcher.computing()
    sizes = [(largest_of(_widened(a), compute), a.size) for a in arrays if kind_of(a.dtype) == "f"]
    for mine, other in zip([found] if kernel.alone else found, wanted, strict=True):
        if mine is None and other is None:
            continue
        if mine is None or other is None or mine.dtype != other.dtype or mine.shape != other.shape:
            return False
        if not close(mine, other, sizes, compute):
            return False
    return True


def _widened(array: Any) -> Any:
    """Return an array whose numbers can be compared: bfloat16 is told by NumPy to be none."""
    return array.astype(np.float32) if is_bfloat16(array.dtype) else array


def largest_of(array: Any, compute: Elsewhere) -> float:
    """Return the largest finite number of an array, by its size."""
    largest = float(compute.map("absolute", array).max())
    return largest if np.isfinite(largest) else largest_of(_finite(array, array, compute), compute)


def _finite(array: Any, where: Any, compute: Elsewhere) -> Any:
    """Return an array with 0 where another is not finite."""
    zero = np.broadcast_to(compute.to_device(np.zeros((), array.dtype)), array.shape)
    return compute.map("where", compute.map("isfinite", where), array, zero)


@np.errstate(all="ignore")
def close(mine: Any, other: Any, sizes: Sequence[tuple[float, int]], compute: Elsewhere) -> bool:
    """Tell whether two arrays differ by rounding alone.

    sizes: of what they were computed from, the largest number, and how many there are.
    """
    if kind_of(other.dtype) != "f" or not other.size:
        return verify.close(mine, other, 0.0, compute)
    rough = {2: 1e-2, 4: 1e-4, 8: 1e-10}[other.dtype.itemsize]
    mine, other = _widened(mine), _widened(other)
    # What cancels out may leave the rounding of what it was; the more, the more was added up.
    scale = largest_of(other, compute) + sum(s * max(1, n / other.size) ** 0.5 for s, n in sizes) / 10
    apart = compute.map("subtract", mine, other)
    if not np.isfinite(float(apart.sum())):
        finite = [compute.map("isfinite", each) for each in (mine, other)]
        if not verify.close(finite[0], finite[1], 0.0, compute):
            return False
        mine, other = _finite(mine, other, compute), _finite(other, other, compute)
        apart = compute.map("subtract", mine, other)
    factor = np.broadcast_to(compute.to_device(np.asarray(rough, other.dtype)), other.shape)
    allowed = compute.map("multiply", compute.map("absolute", other), factor)
    return float(compute.map("subtract", compute.map("absolute", apart), allowed).max()) <= rough * scale
