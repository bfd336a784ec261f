"""stft and istft: a signal's spectrum at each moment, and back.

Enters: signals (…, samples). Leaves: spectra (…, bins, frames).

Composed of padding, cutting into frames, a window and a Fourier transform, all of which are differentiable.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch.creation import ones, zeros
from minitorch.fft import fft, ifft, irfft, rfft
from minitorch.functions import pad
from minitorch.tensor import Tensor
from minitorch.tensor.convert import tensor_for
from minitorch.tensor.methods.complex import view_as_complex, view_as_real

__all__ = ["istft", "stft"]


def _window(window: Any, length: int, n_fft: int, x: Tensor, name: str) -> Tensor:
    """Return the window, of ones where none is given, in the middle of n_fft places."""
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, got {length} and {n_fft}")
    if window is None:
        window = ones(length, dtype=np.empty(0, x.dtype).real.dtype, device=x.device)
    elif tuple(window.shape) != (length,):
        raise RuntimeError(
            f"{name}: expected a window of win_length = {length}, got shape {tuple(window.shape)}"
        )
    left = (n_fft - length) // 2
    return pad(window, (left, n_fft - length - left)) if length < n_fft else window


def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The short-time Fourier transform: X[f, t] = Σₙ w[n] x[n + t·hop] exp(-2πi f n / n_fft).

    hop_length: from frame to frame, n_fft // 4 without it. center: frame t is centred at t·hop, the signal being
    continued by pad_mode at both ends. onesided: the n_fft // 2 + 1 bins of a real signal, the others mirror them.

    >>> stft(minitorch.ones(16), 4, 2, window=minitorch.hann_window(4), return_complex=True).shape
    (3, 9)
    >>> stft(minitorch.ones(16), 4, 2, window=minitorch.hann_window(4), return_complex=True)[:, 3].real
    tensor([ 2., -1.,  0.])
    """
    x = tensor_for(input, "stft")
    if x.ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a signal (samples,) or a batch of them, got shape {x.shape}")
    hop = n_fft // 4 if hop_length is None else hop_length
    is_complex = x.dtype.kind == "c" or (window is not None and window.dtype.kind == "c")
    half = not is_complex if onesided is None else onesided
    if return_complex is None and not is_complex:
        raise RuntimeError(
            "stft: say return_complex=True (or False for real and imaginary parts as a last axis)"
        )
    if half and is_complex:
        raise RuntimeError("stft: a complex signal has no mirrored half; write onesided=False")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, got {hop}")
    if center:
        batch = x.reshape(1, 1, -1) if x.ndim == 1 else x.unsqueeze(1)
        x = pad(batch, (n_fft // 2, n_fft // 2), mode=pad_mode).reshape(*x.shape[:-1], -1)
    if not 0 < n_fft <= x.shape[-1]:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {x.shape[-1]} samples, got {n_fft}")
    weights = _window(window, n_fft if win_length is None else win_length, n_fft, x, "stft")
    frames = x.unfold(-1, n_fft, hop) * weights  # (…, frames, n_fft)
    norm = "ortho" if normalized else None
    spectrum = (rfft if half else fft)(frames, norm=norm).transpose(-1, -2)
    return spectrum if return_complex or return_complex is None else view_as_real(spectrum)


def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal that a short-time Fourier transform came from: frames laid over each other, divided by Σ w².

    >>> wave = minitorch.arange(16.0)
    >>> spectrum = stft(wave, 4, 2, window=minitorch.hann_window(4), return_complex=True)
    >>> istft(spectrum, 4, 2, window=minitorch.hann_window(4))[4:8]
    tensor([4., 5., 6., 7.])
    """
    spectrum = tensor_for(input, "istft")
    if spectrum.dtype.kind != "c":
        if spectrum.ndim and spectrum.shape[-1] == 2:
            spectrum = view_as_complex(spectrum.contiguous())
        else:
            raise RuntimeError("istft: expected a complex spectrum, as stft(…, return_complex=True) gives")
    if spectrum.ndim not in (2, 3):
        raise RuntimeError(f"istft: expected (bins, frames) or a batch of them, got shape {spectrum.shape}")
    hop = n_fft // 4 if hop_length is None else hop_length
    half = spectrum.shape[-2] != n_fft if onesided is None else onesided
    expected = n_fft // 2 + 1 if half else n_fft
    if spectrum.shape[-2] != expected:
        raise RuntimeError(f"istft: expected {expected} bins for n_fft = {n_fft}, got {spectrum.shape[-2]}")
    if half and return_complex:
        raise RuntimeError("istft: half a spectrum gives a real signal; write return_complex=False")
    size = n_fft if win_length is None else win_length
    if not 0 < hop <= size:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, got {hop} and {size}")
    weights = _window(window, size, n_fft, spectrum, "istft")
    norm = "ortho" if normalized else None
    columns = spectrum.transpose(-1, -2)  # (…, frames, bins)
    # Of a real signal the second half of the bins says nothing new.
    half_of_it = columns[..., : n_fft // 2 + 1]
    frames = ifft(columns, norm=norm) if return_complex else irfft(half_of_it, n_fft, norm=norm)
    total = n_fft + hop * (columns.shape[-2] - 1)
    laid = _overlapped(frames * weights, hop, total)
    energy = _overlapped((weights * weights).expand(frames.shape[-2:]), hop, total)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - n_fft // 2 if center else total
    stop = min(end, total)
    kept, divisor = laid[..., start:stop], energy[start:stop]
    if float(divisor.abs().min().item()) < 1e-11:
        raise RuntimeError(
            "istft: the windows leave some samples uncovered (their sum of squares is 0 there)"
        )
    out = kept / divisor
    return pad(out, (0, end - stop)) if end > stop else out


def _overlapped(frames: Tensor, hop: int, total: int) -> Tensor:
    """Add frames (…, frames, n) to a signal, each hop samples after the one before."""
    count, n = frames.shape[-2:]
    # In blocks of hop samples frame t begins at block t: frames are cut into blocks, and each block is one addition.
    blocks = math.ceil(n / hop)
    padded = pad(frames, (0, blocks * hop - n)).reshape(*frames.shape[:-1], blocks, hop)
    signal: Any = zeros(*frames.shape[:-2], count + blocks - 1, hop, dtype=frames.dtype, device=frames.device)
    for b in range(blocks):
        # Axes from the last: hop, then blocks; each shift is a padding with empty blocks before and behind.
        signal = signal + pad(padded[..., b, :], (0, 0, b, blocks - 1 - b))
    return signal.flatten(-2)[..., :total]
