"""minitorch.fft: discrete Fourier transforms, by PyTorch's names. Enters: tensors. Leaves: tensors.

One op does them all, the transform of complex numbers over some axes (ops/complex.py); the rest is composed: rfft is
the first half of the transform of a real signal, irfft gives the second half back first. n (one axis) and s (several)
cut the input or fill it up with zeros. norm says where the factor 1/n goes: "backward" to the inverse, "forward" to
the forward transform, "ortho" as 1/√n to both.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch.creation import arange
from minitorch.engine.dtypes import get_default_dtype
from minitorch.engine.record import apply
from minitorch.functions import cat, pad, roll
from minitorch.ops.complex import FFT
from minitorch.tensor import Tensor
from minitorch.tensor.convert import cast, one_axis, one_int, tensor_for
from minitorch.tensor.methods.public import with_out

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

_NORMS = ("backward", "ortho", "forward")


def _norm(norm: str | None, name: str) -> str:
    if norm not in (None, *_NORMS):
        raise RuntimeError(f"{name}: norm is 'backward', 'ortho' or 'forward', got {norm!r}")
    return norm or "backward"


def _signal(input: Any, name: str, real: bool = False) -> Tensor:
    """Return the input, as floats or, unless a real signal is asked for, as complex numbers."""
    x = tensor_for(input, name)
    if x.dtype.kind in "biu":
        x = cast(x, get_default_dtype())
    if x.dtype == np.float16:
        raise RuntimeError(f"{name}: not offered in half precision; write x.float()")
    if real:
        if x.dtype.kind == "c":
            raise RuntimeError(f"{name}: expects a real signal, got {x.dtype}; write fft.fft, or x.real")
        return x
    return x if x.dtype.kind == "c" else cast(x, np.result_type(x.dtype, np.complex64))


def _axis(dim: Any, ndim: int, name: str) -> int:
    if ndim == 0:
        raise IndexError(f"{name}: expects at least one axis, got a 0-d tensor")
    return one_axis(dim, ndim, name)


def _axes(x: Tensor, s: Any, dim: Any, name: str) -> tuple[tuple[int, ...], list[int]]:
    """Return the axes to transform and their lengths."""
    lengths = None if s is None else [s] if isinstance(s, int) else [one_int(n, name, "s") for n in s]
    if dim is None:
        if lengths is not None and len(lengths) > x.ndim:
            raise RuntimeError(f"{name}: s names {len(lengths)} axes, but the tensor has {x.ndim}")
        axes = tuple(range(x.ndim) if lengths is None else range(x.ndim - len(lengths), x.ndim))
    else:
        axes = tuple(_axis(d, x.ndim, name) for d in ([dim] if isinstance(dim, int) else dim))
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"{name}: dim {dim!r} names an axis twice")
    if lengths is not None and len(lengths) != len(axes):
        raise RuntimeError(f"{name}: s has {len(lengths)} lengths for {len(axes)} axes; give one each")
    sizes = [x.shape[a] for a in axes]
    wanted = sizes if lengths is None else [m if n == -1 else n for n, m in zip(lengths, sizes, strict=True)]
    return axes, wanted


def _resized(x: Tensor, axis: int, length: int, name: str) -> Tensor:
    """Cut an axis to a length, or fill it up with zeros."""
    if length < 1:
        raise RuntimeError(f"{name}: the transformed axis must have at least 1 element, got {length}")
    have = x.shape[axis]
    if length < have:
        return x.narrow(axis, 0, length)
    return x if length == have else pad(x, (0, 0) * (x.ndim - 1 - axis) + (0, length - have))


def _all_resized(x: Tensor, axes: Any, lengths: Any, name: str) -> Tensor:
    for axis, length in zip(axes, lengths, strict=True):
        x = _resized(x, axis, length, name)
    return x


def _transform(x: Tensor, axes: tuple[int, ...], norm: str, inverse: bool) -> Tensor:
    return apply(FFT, x, axes=axes, norm=norm, inverse=inverse) if axes else x


def _half_to_real(x: Tensor, axis: int, n: int | None, norm: str, inverse: bool, name: str) -> Tensor:
    """Transform half of a Hermitian signal into real numbers: the other half is its conjugate, mirrored."""
    length = 2 * (x.shape[axis] - 1) if n is None or n == -1 else n
    if length < 1:
        raise RuntimeError(f"{name}: the result must have at least 1 element along axis {axis}, got {length}")
    half = _resized(x, axis, length // 2 + 1, name)
    mirrored = half.narrow(axis, 1, (length - 1) // 2).flip(axis).conj()
    return _transform(cat([half, mirrored], axis), (axis,), norm, inverse).real


# --- one axis -----------------------------------------------------------------------------------


def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """X_k = Σⱼ xⱼ·e^(-2πi·jk/n).   dx = the adjoint transform of g: n·ifft(g)

    >>> fft(minitorch.tensor([1.0, 0.0, -1.0, 0.0]))
    tensor([0.+0.j, 2.+0.j, 0.+0.j, 2.+0.j])
    """
    return fftn(input, None if n is None else (n,), (dim,), norm, _name="fft")


def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """xⱼ = 1/n·Σ_k X_k·e^(2πi·jk/n): fft's inverse.   dx = fft(g) / n

    >>> ifft(fft(minitorch.tensor([1.0, 2.0]))).real
    tensor([1., 2.])
    """
    return ifftn(input, None if n is None else (n,), (dim,), norm, _name="ifft")


def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """fft of a real signal, its first n//2 + 1 elements.   dx = the real part of the adjoint transform of g

    >>> rfft(minitorch.tensor([1.0, 0.0, -1.0, 0.0]))
    tensor([0.+0.j, 2.+0.j, 0.+0.j])
    """
    return rfftn(input, None if n is None else (n,), (dim,), norm, _name="rfft")


def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real signal of length n (or 2·(m - 1)) whose rfft this is.   dx = the adjoint transform of g

    >>> irfft(rfft(minitorch.tensor([1.0, 2.0, 3.0])), 3)
    tensor([1., 2., 3.])
    """
    return irfftn(input, None if n is None else (n,), (dim,), norm, _name="irfft")


def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """fft of a signal of which this is the first half, the second its conjugate: real.   dx = g's adjoint transform

    >>> hfft(minitorch.tensor([1.0, 2.0, 1.0]))
    tensor([ 6.,  0., -2.,  0.])
    """
    return hfftn(input, None if n is None else (n,), (dim,), norm, _name="hfft")


def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """ifft of a real signal, its first n//2 + 1 elements: hfft's inverse.   dx = g's adjoint transform

    >>> ihfft(minitorch.tensor([6.0, 0.0, -2.0, 0.0]))
    tensor([1.+0.j, 2.+0.j, 1.+0.j])
    """
    return ihfftn(input, None if n is None else (n,), (dim,), norm, _name="ihfft")


# --- several axes -------------------------------------------------------------------------------


def fftn(
    input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, _name: str = "fftn"
) -> Tensor:
    """fft over several axes.   dx = the adjoint transform of g

    >>> fftn(minitorch.ones(2, 2))
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]])
    """
    return _complex(input, s, dim, _norm(norm, _name), False, _name)


def ifftn(
    input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, _name: str = "ifftn"
) -> Tensor:
    """ifft over several axes.   dx = the adjoint transform of g

    >>> ifftn(fftn(minitorch.ones(2, 2))).real
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _complex(input, s, dim, _norm(norm, _name), True, _name)


def rfftn(
    input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, _name: str = "rfftn"
) -> Tensor:
    """rfft over the last axis, fft over the others.   dx = the real part of the adjoint transform of g

    >>> rfftn(minitorch.ones(2, 2)).shape
    (2, 2)
    """
    return _to_half(input, s, dim, _norm(norm, _name), False, _name)


def irfftn(
    input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, _name: str = "irfftn"
) -> Tensor:
    """ifft over all axes but the last, irfft over that: rfftn's inverse.   dx = the adjoint transform of g

    >>> irfftn(rfftn(minitorch.ones(2, 2)))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _to_real(input, s, dim, _norm(norm, _name), True, _name)


def hfftn(
    input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, _name: str = "hfftn"
) -> Tensor:
    """fft over all axes but the last, hfft over that.   dx = the adjoint transform of g

    >>> hfftn(minitorch.ones(2, 2)).shape
    (2, 2)
    """
    return _to_real(input, s, dim, _norm(norm, _name), False, _name)


def ihfftn(
    input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, _name: str = "ihfftn"
) -> Tensor:
    """ihfft over the last axis, ifft over the others: hfftn's inverse.   dx = the adjoint transform of g

    >>> ihfftn(minitorch.ones(2, 2)).shape
    (2, 2)
    """
    return _to_half(input, s, dim, _norm(norm, _name), True, _name)


def _some_axes(x: Tensor, s: Any, dim: Any, name: str) -> tuple[tuple[int, ...], list[int]]:
    axes, lengths = _axes(x, s, dim, name)
    if not axes:
        raise RuntimeError(f"{name}: at least one axis must be transformed")
    return axes, lengths


def _complex(input: Any, s: Any, dim: Any, norm: str, inverse: bool, name: str) -> Tensor:
    x = _signal(input, name)
    axes, lengths = _axes(x, s, dim, name)
    return _transform(_all_resized(x, axes, lengths, name), axes, norm, inverse)


def _to_half(input: Any, s: Any, dim: Any, norm: str, inverse: bool, name: str) -> Tensor:
    """Transform a real signal: of the last axis the first half, of which the second is the conjugate, mirrored."""
    x = _signal(input, name, real=True)
    axes, lengths = _some_axes(x, s, dim, name)
    x = _all_resized(x, axes, lengths, name)
    full = _transform(_signal(x, "rfft"), axes[-1:], norm, inverse)
    half = full.narrow(axes[-1], 0, x.shape[axes[-1]] // 2 + 1)
    return _transform(half, axes[:-1], norm, inverse)


def _to_real(input: Any, s: Any, dim: Any, norm: str, inverse: bool, name: str) -> Tensor:
    x = _signal(input, name)
    axes, lengths = _some_axes(x, s, dim, name)
    n = None if s is None else lengths[-1] if (s if isinstance(s, int) else s[-1]) != -1 else None
    x = _transform(_all_resized(x, axes[:-1], lengths[:-1], name), axes[:-1], norm, inverse)
    return _half_to_real(x, axes[-1], n, norm, inverse, name)


def _over_two(name: str, whole: Any) -> Any:
    def transform(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
        return whole(input, s, dim, norm, _name=name)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = (
        f"{name[:-1]}n over the last two axes, or two others.   dx = the adjoint transform of g"
    )
    return transform


fft2, ifft2, rfft2, irfft2, hfft2, ihfft2 = (
    _over_two(f"{whole.__name__[:-1]}2", whole) for whole in (fftn, ifftn, rfftn, irfftn, hfftn, ihfftn)
)

# --- frequencies --------------------------------------------------------------------------------


def fftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequency of each element of an fft, in cycles per unit: 0, 1, …, -2, -1 over n·d.

    >>> fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    places = arange(one_int(n, "fftfreq", "n"), dtype=dtype or get_default_dtype(), device=device)
    places[(n + 1) // 2 :] = places[(n + 1) // 2 :] - n
    return (places / (n * d)).requires_grad_(requires_grad)


def rfftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequency of each element of an rfft: 0, 1, …, n//2 over n·d.

    >>> rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    places = arange(one_int(n, "rfftfreq", "n") // 2 + 1, dtype=dtype or get_default_dtype(), device=device)
    return (places / (n * d)).requires_grad_(requires_grad)


def _shifted(input: Any, dim: Any, name: str, back: bool) -> Tensor:
    x = tensor_for(input, name)
    axes = list(range(x.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if not axes:
        return x.clone()
    return roll(x, [math.ceil(x.shape[a] / 2) if back else x.shape[a] // 2 for a in axes], axes)


def fftshift(input: Any, dim: Any = None) -> Tensor:
    """Frequency 0 from the first place to the middle.   dx = g, rolled back

    >>> fftshift(minitorch.tensor([0.0, 1.0, -2.0, -1.0]))
    tensor([-2., -1.,  0.,  1.])
    """
    return _shifted(input, dim, "fftshift", back=False)


def ifftshift(input: Any, dim: Any = None) -> Tensor:
    """Frequency 0 from the middle to the first place: fftshift undone.   dx = g, rolled back

    >>> ifftshift(minitorch.tensor([-2.0, -1.0, 0.0, 1.0]))
    tensor([ 0.,  1., -2., -1.])
    """
    return _shifted(input, dim, "ifftshift", back=True)


# Last, so that nothing above is written for it: `out=`, as PyTorch's have.
globals().update({name: with_out(globals()[name]) for name in __all__})
