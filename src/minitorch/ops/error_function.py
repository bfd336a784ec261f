"""The error function and its complement. Enters: an array of floats. Leaves: one of its shape and dtype.

    erf x = 2/√π·∫₀ˣ e^(-t²) dt        erfc x = 1 - erf x

NumPy has neither, and SciPy takes a fifth of a second to import. So they are polynomials here, to about one unit
in the last place: near 0 in x², for erf(x)/x; further out for log(1 - erf x), for the fewer elements that lie there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# An array of any kind that speaks NumPy's protocols.
Array = Any

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
# Up to so many elements Python's own functions, one element after the other, take less time than NumPy's calls.
_FEW = 128

# erf(x) / x - 1 as a function of x², for |x| ≤ 1
ERF = {
    FLOAT32: (0.12837917, -0.3761263, 0.11283618, -0.026855126, 0.005190734, -0.0008030763, 7.920386e-05),
    FLOAT64: (
        0.12837916709551256, -0.3761263890318334, 0.11283791670936538, -0.026866170641869528,
        0.005223977595845374, -0.0008548325436481487, 0.00012055278911174006, -1.4924433232327693e-05,
        1.6443732998260095e-06, -1.6180697274579863e-07, 1.3602175990608496e-08, -7.580398905890982e-10,
    ),
}  # fmt: skip
# log(1 - erf x) for 1 ≤ x up to a bound from where erf is 1
ERF_TAIL = {
    FLOAT32: (-0.00035372685, -1.12704, -0.6382256, -0.10303753, 0.021805467, -0.0029396664, 0.00018558199),
    FLOAT64: (
        -5.132440091251902e-07, -1.1283739919170603, -0.6366440531363613, -0.10270229810964321,
        0.01898806341222929, 0.0004134989685271198, -0.001918897580071973, 0.0007729969106935687,
        -0.00013652013588560548, -1.9543298182238096e-05, 2.254194178904504e-05, -8.581902541938077e-06,
        2.1156250631855033e-06, -3.697297608879957e-07, 4.59570432413316e-08, -3.892387380299908e-09,
        2.021794684940158e-10, -4.869207332629645e-12,
    ),
}  # fmt: skip
ERF_BOUND = {FLOAT32: 4.0, FLOAT64: 6.0}
# erfc(x)·e^(x²)·(x + 3) as a function of (x - 3) / (x + 3), for ½ ≤ x up to a bound from where erfc is 0
ERFC_TAIL = {
    FLOAT32: (
        1.074006907340969, -0.8833944516807709, 0.590228319266051, -0.31046733380431124, 0.11952866604759049,
        -0.026826139717906126, -0.0012201068826745102, 0.0030265685107283523, -0.000520366126728973,
        -0.00025273666496833207, 6.59466480000773e-05,
    ),
    FLOAT64: (
        1.0740069070883398, -0.8833944531698836, 0.5902283571041016, -0.3104672619005649, 0.11952776128730747,
        -0.026827234624582055, -0.0012124166276355043, 0.0030340620029560457, -0.0005483096867629285,
        -0.0002767778616708319, 0.00010756145711510314, 3.0398236165235784e-05, -1.747048604527422e-05,
        -4.7494012485165386e-06, 2.765383852968009e-06, 9.989851670020434e-07, -4.085173587568932e-07,
        -2.3290737313166647e-07, 4.756155737758757e-08, 4.890567107401972e-08, -2.776346214410588e-09,
        -6.510960009692507e-09,
    ),
}  # fmt: skip
ERFC_BOUND = {FLOAT32: 11.0, FLOAT64: 28.0}
# x·_HALVES - (x·_HALVES - x) is the upper half of a float64's digits: its square is exact.
_HALVES = 2.0**27 + 1


def erf(x: Array) -> Array:
    """Return the error function of each element.

    >>> erf(np.array([0.0, 1.0, np.inf]))
    array([0.        , 0.84270079, 1.        ])
    """
    return _computed(x, math.erf, _erf)


def erfc(x: Array) -> Array:
    """Return 1 - erf x of each element, exact where that is tiny.

    >>> erfc(np.array([0.0, 1.0, 10.0]))
    array([1.00000000e+00, 1.57299207e-01, 2.08848758e-45])
    """
    return _computed(x, math.erfc, _erfc)


def _computed(x: Array, of_one: Callable[[float], float], of_row: Callable[..., np.ndarray]) -> Array:
    """Return a function of each element, given as one of a number and one of an array with one axis."""
    if x.__class__ is not np.ndarray and not isinstance(x, np.generic):  # a GPU's, say: SciPy's dispatches
        import scipy.special

        return getattr(scipy.special, of_one.__name__)(x).astype(x.dtype, copy=False)
    out = np.empty_like(x)  # in the order in which x lies in memory
    if x.size <= _FEW:
        out.flat[:] = [of_one(each) for each in x.ravel().tolist()]
        return out
    found = of_row(x.reshape(-1) if x.dtype in ERF else x.reshape(-1).astype(FLOAT32)).reshape(x.shape)
    if x.dtype in ERF and x.flags.c_contiguous:
        return found
    out[...] = found
    return out


def _erf(x: np.ndarray) -> np.ndarray:
    bound = ERF_BOUND[x.dtype]
    x = x.clip(-bound, bound)  # nothing changes out there, and no square overflows
    out = _polynomial(x * x, ERF[x.dtype])
    out *= x
    out += x
    far = np.flatnonzero(np.absolute(x) > 1)
    if far.size:
        outside = x[far]
        tail = _polynomial(np.absolute(outside), ERF_TAIL[x.dtype])
        np.exp(tail, out=tail)
        np.subtract(1, tail, out=tail)
        out[far] = np.copysign(tail, outside, out=tail)
    return out


def _erfc(x: np.ndarray) -> np.ndarray:
    out = 1 - _erf(x)
    far = np.flatnonzero(x > 0.5)
    if far.size:
        out[far] = erfc_tail(x[far])
    return out


def erfc_tail(x: Array) -> Array:
    """Return erfc of elements from ½ on, in float32 or float64; computed in float64."""
    kind = x.dtype
    x = np.minimum(x, ERFC_BOUND[kind]).astype(FLOAT64)
    further = x + 3
    tail = _polynomial((x - 3) / further, ERFC_TAIL[kind]) / further
    if kind == FLOAT64:
        # e^(-x²) in two steps, from the upper half h of x's digits: e^((h - x)·(h + x))·e^(-h²). Rounding x² would cost
        # as many digits as it has before the point.
        scaled = x * _HALVES
        upper = scaled - (scaled - x)
        tail *= np.exp((upper - x) * (upper + x))
        x = upper
    return (tail * np.exp(-x * x)).astype(kind)


def _polynomial(x: np.ndarray, coefficients: Sequence[float]) -> np.ndarray:
    """Return c₀ + c₁·x + c₂·x² + …"""
    *lower, last = coefficients
    out = x * float(last)  # (a number of Python's: a GPU's array takes no other of the host's)
    for coefficient in reversed(lower[1:]):
        out += coefficient
        out *= x
    out += lower[0]
    return out
