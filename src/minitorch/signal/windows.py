"""Windows: weights that fade a piece of a signal in and out. Enters: a length. Leaves: a vector.

sym=True gives a symmetric window, for filters; sym=False one that repeats after M samples, for spectra.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitorch.creation import asarray
from minitorch.engine.dtypes import get_default_dtype
from minitorch.ops.special import special
from minitorch.tensor import Tensor
from minitorch.tensor.convert import one_int


def _window(
    M: int, sym: bool, formula: Callable[[np.ndarray, int], np.ndarray], name: str, options: dict[str, Any]
) -> Tensor:
    """Compute a window from its formula in the places 0, 1, … and the number of steps between its ends."""
    unknown = set(options) - {"dtype", "layout", "device", "requires_grad"}
    if unknown:
        raise TypeError(f"{name}: unknown argument {sorted(unknown)[0]!r}")
    if one_int(M, name, "M") < 0:
        raise ValueError(f"{name}: the length must not be negative, got {M}")
    dtype = get_default_dtype() if options.get("dtype") is None else np.dtype(options["dtype"])
    if dtype.kind != "f":
        raise ValueError(f"{name}: a window holds floats, not {dtype}")
    steps = M - 1 if sym else M
    values = np.ones(M) if M < 2 else formula(np.arange(M, dtype=np.float64), steps)
    return asarray(
        values.astype(dtype),
        device=options.get("device"),
        requires_grad=bool(options.get("requires_grad", False)),
    )


def general_cosine(M: int, *, a: Sequence[float], sym: bool = True, **options: Any) -> Tensor:
    """Σᵢ (-1)ⁱ·aᵢ·cos(2πik / steps).

    >>> general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    if not isinstance(a, (list, tuple)) or not a:
        raise ValueError(f"general_cosine: a must be a list of at least one coefficient, got {a!r}")

    def formula(k: np.ndarray, steps: int) -> np.ndarray:
        angle = 2 * math.pi * k / steps
        return np.sum([(-1) ** i * c * np.cos(i * angle) for i, c in enumerate(a)], axis=0)

    return _window(M, sym, formula, "general_cosine", options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """α - (1 - α)·cos(2πk / steps).

    >>> general_hamming(3, alpha=0.5)
    tensor([0., 1., 0.])
    """
    return general_cosine(M, a=[alpha, 1 - alpha], sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """½ - ½·cos(2πk / steps).

    >>> hann(4, sym=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """0.54 - 0.46·cos(2πk / steps).

    >>> hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return general_hamming(M, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """0.42 - 0.5·cos(2πk / steps) + 0.08·cos(4πk / steps).

    >>> blackman(3)[1]
    tensor(1.)
    """
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Nuttall's sum of four cosines, with very low side lobes.

    >>> nuttall(5)[1]
    tensor(0.2270)
    """
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """A triangle: 1 - |2k / steps - 1|.

    >>> bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _window(M, sym, lambda k, steps: 1 - np.abs(2 * k / steps - 1), "bartlett", options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Half a wave: sin(π·(k + ½) / (steps + 1)).

    >>> cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    return _window(M, sym, lambda k, steps: np.sin(math.pi * (k + 0.5) / (steps + 1)), "cosine", options)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any
) -> Tensor:
    """e^{-|k - center| / τ}, centred unless said otherwise.

    >>> exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise ValueError(f"exponential: tau must be positive, got {tau}")
    if sym and center is not None:
        raise ValueError("exponential: a symmetric window has its center in the middle; write sym=False")

    def formula(k: np.ndarray, steps: int) -> np.ndarray:
        return np.exp(-np.abs(k - (steps / 2 if center is None else center)) / tau)

    return _window(M, sym, formula, "exponential", options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """The bell e^{-(k - middle)² / (2·std²)}.

    >>> gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ValueError(f"gaussian: std must be positive, got {std}")
    return _window(M, sym, lambda k, steps: np.exp(-(((k - steps / 2) / std) ** 2) / 2), "gaussian", options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """I₀(β·√(1 - (2k / steps - 1)²)) / I₀(β).

    >>> kaiser(3, beta=1.0)
    tensor([0.7898, 1.0000, 0.7898])
    """
    if beta < 0:
        raise ValueError(f"kaiser: beta must not be negative, got {beta}")

    def formula(k: np.ndarray, steps: int) -> np.ndarray:
        inside = np.maximum(1 - (2 * k / steps - 1) ** 2, 0)
        return special("i0")(beta * np.sqrt(inside)) / special("i0")(float(beta))

    return _window(M, sym, formula, "kaiser", options)


# --- the older spelling, minitorch.hann_window --------------------------------------------------


def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """½ - ½·cos(2πk / N).

    >>> hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return hann(window_length, sym=not periodic, **options)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: Any
) -> Tensor:
    """α - β·cos(2πk / N).

    >>> hamming_window(3, periodic=False)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return general_cosine(window_length, a=[alpha, beta], sym=not periodic, **options)


def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """0.42 - 0.5·cos(2πk / N) + 0.08·cos(4πk / N).

    >>> blackman_window(4)[1]
    tensor(0.3400)
    """
    return blackman(window_length, sym=not periodic, **options)


def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """A triangle.

    >>> bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return bartlett(window_length, sym=not periodic, **options)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any) -> Tensor:
    """Kaiser's window, by Bessel's I₀.

    >>> kaiser_window(2, beta=1.0)
    tensor([0.7898, 1.0000])
    """
    return kaiser(window_length, beta=beta, sym=not periodic, **options)


__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip
