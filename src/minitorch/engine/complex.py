"""Complex numbers in the engine: which ops take them, and how their gradients go back.

A program of real numbers pays for no more than the question whether any were met.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.engine.modes import attention
from minitorch.ops.op import ANALYTIC, REFUSED, Op

# Filled at the first complex tensor of this process: from then on ops and backward look out for them.
met: list[bool] = []


def meet_complex() -> None:
    """Note that there are complex tensors."""
    if not met:
        met.append(True)
        attention.append("complex numbers")


def check_complex(op: Op, arrays: Sequence[Any]) -> None:
    """Refuse complex numbers to an op that has no meaning for them (an order, a rounding)."""
    for array in arrays if op.complex is REFUSED else ():
        if getattr(getattr(array, "dtype", None), "kind", "") == "c":
            raise RuntimeError(
                f"{op.name}: not offered for complex numbers ({array.dtype}); write it with x.real, x.imag or x.abs()"
            )


def is_conjugated(op: Op, g: Any) -> bool:
    """Tell whether an op's rules, written for real numbers, are to be conjugated around for this gradient."""
    if op.complex is not ANALYTIC:
        return False
    if isinstance(g, list):  # of an op with several results
        return any(each is not None and each.dtype.kind == "c" for each in g)
    return g.dtype.kind == "c"


def conjugate(g: Any) -> Any:
    """Return the conjugate of a gradient, or of each of several."""
    if isinstance(g, list):
        return type(g)(None if each is None else conjugate(each) for each in g)
    conjugated = np.conjugate(g)
    return np.asarray(conjugated) if isinstance(conjugated, np.generic) else conjugated


def real_part(op: Op, contribution: Any, dtype: Any) -> Any:
    """Return what a tensor of `dtype` gets of a complex gradient: a real one gets the real part."""
    if contribution.dtype.kind != "c" or dtype.kind == "c":
        return contribution
    if not met or op.complex is REFUSED:
        raise RuntimeError(
            f"the gradient of {op.name!r} is complex, but its input is real and its rules are for real numbers; "
            "compute with the real and imaginary part"
        )
    return contribution.real
