"""Image operations on Tensors (…, C, H, W). Enters: floats in [0, 1] or integers. Leaves: a Tensor of that dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch import creation
from minitorch.engine.dtypes import float32, iinfo
from minitorch.functions import cat, stack, where
from minitorch.nn.functional import conv2d, grid_sample, interpolate
from minitorch.nn.functional import pad as pad_by_mode
from minitorch.tensor import Tensor
from minitorch.vision.images import InterpolationMode, dimensions


def largest_value(dtype: Any) -> float:
    """Return what stands for white: 1 of floats, the largest number of integers."""
    return 1.0 if np.dtype(dtype).kind == "f" else float(iinfo(dtype).max)


def is_floating(image: Tensor) -> bool:
    """Tell whether it holds floats."""
    return image.dtype.kind == "f"


def _as_batch(image: Tensor, dtype: Any = float32) -> tuple[Tensor, bool]:
    """Return it as floats (N, C, H, W), and whether an axis was added."""
    single = image.ndim < 4
    batch = image.reshape((1, *image.shape)) if single else image
    return batch.to(dtype) if not is_floating(batch) else batch, single


def _as_it_was(image: Tensor, single: bool, dtype: Any) -> Tensor:
    image = image.squeeze(0) if single else image
    if np.dtype(dtype).kind in "iu":
        image = image.round()
    return image.to(dtype)


def convert_image_dtype(image: Tensor, dtype: Any) -> Tensor:
    """Return it in another dtype, its values stretched from the old one's range to the new one's."""
    source, target = image.dtype, np.dtype(dtype)
    if source == target:
        return image
    if source.kind == "f":
        if target.kind == "f":
            return image.to(target)
        if (source == np.float32 and target in (np.int32, np.int64)) or (
            source == np.float64 and target == np.int64
        ):
            raise RuntimeError(f"The cast from {source} to {target} cannot be performed safely.")
        return (image * (largest_value(target) + 1.0 - 1e-3)).to(target)
    top = largest_value(source)
    if target.kind == "f":
        return image.to(target) / top
    other = largest_value(target)
    if top > other:
        return (image // int((top + 1) // (other + 1))).to(target)
    return image.to(target) * int((other + 1) // (top + 1))


def resize(image: Tensor, size: tuple[int, int], mode: InterpolationMode, antialias: bool) -> Tensor:
    """Return it with this height and width."""
    if tuple(image.shape[-2:]) == tuple(size):
        return image
    name = mode.value
    if name not in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        raise ValueError(f"a Tensor is resized by nearest, nearest-exact, bilinear or bicubic, got {name}")
    smooth = name in ("bilinear", "bicubic")
    shape = image.shape
    batch, _ = _as_batch(image.reshape(-1, *shape[-3:]) if image.ndim > 4 else image)
    out = interpolate(
        batch,
        size=list(size),
        mode=name,
        align_corners=False if smooth else None,
        antialias=antialias and smooth,
    )
    if name == "bicubic" and image.dtype == np.uint8:
        out = out.clamp(min=0, max=255)
    return _as_it_was(out.reshape(*shape[:-2], *size), False, image.dtype)


def crop(image: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """Return a part of it; what lies outside is 0."""
    _, h, w = dimensions(image)
    right, bottom = left + width, top + height
    if left < 0 or top < 0 or right > w or bottom > h:
        inside = image[..., max(top, 0) : bottom, max(left, 0) : right]
        around = (max(min(right, 0) - left, 0), max(right - max(w, left), 0))
        above = (max(min(bottom, 0) - top, 0), max(bottom - max(h, top), 0))
        return pad(inside, (around[0], above[0], around[1], above[1]), 0, "constant")
    return image[..., top:bottom, left:right]


def pad(image: Tensor, sides: tuple[int, int, int, int], fill: Any, mode: str) -> Tensor:
    """Add pixels at left, top, right and bottom."""
    left, top, right, bottom = sides
    if mode == "symmetric":
        around = [(0, 0)] * (image.ndim - 2) + [(top, bottom), (left, right)]
        return creation.from_numpy(np.pad(image.detach().numpy(), around, mode="symmetric"))
    if isinstance(fill, (list, tuple)):
        if len(fill) != 1:
            raise ValueError("a Tensor is padded with one number")
        fill = fill[0]
    kind = {"edge": "replicate"}.get(mode, mode)
    batch = image.reshape((1, *image.shape)) if image.ndim < 4 and kind != "constant" else image
    whole = not is_floating(batch) and kind != "constant"
    out = pad_by_mode(
        batch.to(float32) if whole else batch,
        (left, right, top, bottom),
        mode=kind,
        value=(0 if fill is None else fill) if kind == "constant" else 0,
    )
    out = out.to(image.dtype) if whole else out
    return out.reshape(*image.shape[:-2], *out.shape[-2:])


def _blend(image: Tensor, other: Tensor, ratio: float) -> Tensor:
    top = largest_value(image.dtype)
    return (
        (ratio * image.to(float32 if not is_floating(image) else image.dtype) + (1.0 - ratio) * other)
        .clamp(min=0, max=top)
        .to(image.dtype)
    )


def rgb_to_grayscale(image: Tensor, channels: int = 1) -> Tensor:
    """0.2989 red + 0.587 green + 0.114 blue."""
    if channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    if image.shape[-3] == 3:
        r, g, b = image.unbind(-3)
        gray = (0.2989 * r + 0.587 * g + 0.114 * b).to(image.dtype).unsqueeze(-3)
    else:
        gray = image.clone()
    return gray.expand(*image.shape[:-3], 3, *image.shape[-2:]) if channels == 3 else gray


def adjust_brightness(image: Tensor, factor: float) -> Tensor:
    """Mix it with black."""
    return _blend(image, creation.zeros_like(image), factor)


def adjust_contrast(image: Tensor, factor: float) -> Tensor:
    """Mix it with its mean gray."""
    kind = image.dtype if is_floating(image) else float32
    gray = rgb_to_grayscale(image) if image.shape[-3] == 3 else image
    return _blend(image, gray.to(kind).mean(dim=(-3, -2, -1), keepdim=True), factor)


def adjust_saturation(image: Tensor, factor: float) -> Tensor:
    """Mix it with its grays."""
    return image if image.shape[-3] == 1 else _blend(image, rgb_to_grayscale(image), factor)


def adjust_hue(image: Tensor, factor: float) -> Tensor:
    """Turn the colours around their circle, 0.5 being half of it."""
    if image.shape[-3] == 1:
        return image
    floats = convert_image_dtype(image, float32)
    h, s, v = _rgb_to_hsv(floats).unbind(dim=-3)
    turned = _hsv_to_rgb(stack(((h + factor) % 1.0, s, v), dim=-3))
    return convert_image_dtype(turned, image.dtype)


def _rgb_to_hsv(image: Tensor) -> Tensor:
    r, g, b = image.unbind(dim=-3)
    high, low = image.max(dim=-3).values, image.min(dim=-3).values
    flat = high == low
    spread = high - low
    ones = creation.ones_like(high)
    s = spread / where(flat, ones, high)
    divisor = where(flat, ones, spread)
    rc, gc, bc = (high - r) / divisor, (high - g) / divisor, (high - b) / divisor
    hr = (high == r) * (bc - gc)
    hg = ((high == g) & (high != r)) * (2.0 + rc - bc)
    hb = ((high != g) & (high != r)) * (4.0 + gc - rc)
    h = ((hr + hg + hb) / 6.0 + 1.0).fmod(1.0)
    return stack((h, s, high), dim=-3)


def _hsv_to_rgb(image: Tensor) -> Tensor:
    h, s, v = image.unbind(dim=-3)
    sector = (h * 6.0).floor()
    f = h * 6.0 - sector
    i = sector.to(np.int32) % 6
    p = (v * (1.0 - s)).clamp(min=0.0, max=1.0)
    q = (v * (1.0 - s * f)).clamp(min=0.0, max=1.0)
    t = (v * (1.0 - s * (1.0 - f))).clamp(min=0.0, max=1.0)
    red = stack((v, q, p, p, t, v), dim=-3)
    green = stack((t, v, v, q, p, p), dim=-3)
    blue = stack((p, p, t, v, v, q), dim=-3)
    mask = (i.unsqueeze(-3) == creation.arange(6, device=image.device).reshape(-1, 1, 1)).to(image.dtype)
    return stack([(mask * part).sum(-3) for part in (red, green, blue)], dim=-3)


def adjust_gamma(image: Tensor, gamma: float, gain: float) -> Tensor:
    """gain·x^gamma, of values in [0, 1]."""
    floats = image if is_floating(image) else convert_image_dtype(image, float32)
    return convert_image_dtype((gain * floats**gamma).clamp(min=0, max=1), image.dtype)


def normalize(image: Tensor, mean: Any, std: Any, inplace: bool) -> Tensor:
    """(x - mean) / std, channel by channel."""
    if not is_floating(image):
        raise TypeError(
            f"normalize: expects floats, got {image.dtype}; write to_tensor or x.float() / 255 first"
        )
    if image.ndim < 3:
        raise ValueError(f"normalize: expects (…, C, H, W), got {tuple(image.shape)}")
    out = image if inplace else image.clone()
    shift, scale = (creation.as_tensor(v, dtype=image.dtype, device=image.device) for v in (mean, std))
    if bool((scale == 0).any()):
        raise ValueError(
            f"normalize: std is 0 after conversion to {image.dtype}, leading to division by zero."
        )
    shift, scale = (v.reshape(-1, 1, 1) if v.ndim == 1 else v for v in (shift, scale))
    return out.sub_(shift).div_(scale)


def _sampled(image: Tensor, grid: Tensor, mode: str, fill: Any) -> Tensor:
    """Read an image at the places of a grid; outside of it, take the fill."""
    batch, single = _as_batch(image)
    batch_grid = grid.expand(batch.shape[0], *grid.shape[1:]).to(batch.dtype)
    if fill is not None:
        batch = cat(
            (
                batch,
                creation.ones(batch.shape[0], 1, *batch.shape[-2:], dtype=batch.dtype, device=batch.device),
            ),
            dim=1,
        )
    out = grid_sample(batch, batch_grid, mode=mode, padding_mode="zeros", align_corners=False)
    if fill is not None:
        out, mask = out[:, :-1], out[:, -1:].expand(-1, batch.shape[1] - 1, -1, -1)
        colours = fill if isinstance(fill, (list, tuple)) else [float(fill)]
        colour = (
            creation.tensor([float(c) for c in colours], dtype=out.dtype, device=out.device)
            .reshape(1, -1, 1, 1)
            .expand_as(out)
        )
        sharp = mode == "nearest"
        out = where(mask < 0.5, colour, out) if sharp else out * mask + (1.0 - mask) * colour
    return _as_it_was(out, single, image.dtype)


def _affine_grid(matrix: Sequence[float], image: Tensor, ow: int, oh: int) -> Tensor:
    w, h, there = image.shape[-1], image.shape[-2], image.device
    theta = creation.tensor(matrix, dtype=float32, device=there).reshape(1, 2, 3)
    x = creation.linspace(-ow * 0.5 + 0.5, ow * 0.5 + 0.5 - 1, ow, device=there)
    y = creation.linspace(-oh * 0.5 + 0.5, oh * 0.5 + 0.5 - 1, oh, device=there)
    one = creation.ones(oh, ow, device=there)
    base = stack((x.expand(oh, ow), y.unsqueeze(-1).expand(oh, ow), one), dim=-1)
    rescaled = theta.transpose(1, 2) / creation.tensor([0.5 * w, 0.5 * h], device=there)
    return (base.reshape(1, oh * ow, 3) @ rescaled).reshape(1, oh, ow, 2)


def affine(image: Tensor, matrix: Sequence[float], mode: InterpolationMode, fill: Any) -> Tensor:
    """Move each pixel by the inverse of an affine map around the centre."""
    grid = _affine_grid(matrix, image, image.shape[-1], image.shape[-2])
    return _sampled(image, grid, mode.value, fill)


def rotate(
    image: Tensor, matrix: Sequence[float], mode: InterpolationMode, expand: bool, fill: Any
) -> Tensor:
    """Turn it; expand: make it as large as the turned one is."""
    w, h = image.shape[-1], image.shape[-2]
    ow, oh = _turned_size(matrix, w, h) if expand else (w, h)
    return _sampled(image, _affine_grid(matrix, image, ow, oh), mode.value, fill)


def _turned_size(matrix: Sequence[float], w: int, h: int) -> tuple[int, int]:
    corners = np.array(
        [
            [-0.5 * w, -0.5 * h, 1.0],
            [-0.5 * w, 0.5 * h, 1.0],
            [0.5 * w, 0.5 * h, 1.0],
            [0.5 * w, -0.5 * h, 1.0],
        ],
        dtype=np.float32,
    )
    moved = corners @ np.array(matrix, dtype=np.float32).reshape(2, 3).T
    low = moved.min(axis=0) + np.array([w * 0.5, h * 0.5], np.float32)
    high = moved.max(axis=0) + np.array([w * 0.5, h * 0.5], np.float32)
    low, high = (
        np.trunc(low / 1e-4) * 1e-4,
        np.trunc(high / 1e-4) * 1e-4,
    )  # so that 1e-7 more is no pixel more
    size = np.ceil(high) - np.floor(low)
    return int(size[0]), int(size[1])


def perspective(image: Tensor, coefficients: Sequence[float], mode: InterpolationMode, fill: Any) -> Tensor:
    """Look at it from another place."""
    w, h = image.shape[-1], image.shape[-2]
    a, b, c, d, e, f, g, i = coefficients
    x = creation.linspace(0.5, w + 0.5 - 1.0, w, device=image.device).expand(h, w)
    y = creation.linspace(0.5, h + 0.5 - 1.0, h, device=image.device).unsqueeze(-1).expand(h, w)
    below = g * x + i * y + 1
    across, down = (a * x + b * y + c) / below, (d * x + e * y + f) / below
    grid = stack((across / (0.5 * w) - 1.0, down / (0.5 * h) - 1.0), dim=-1).unsqueeze(0)
    return _sampled(image, grid, mode.value, fill)


def elastic(image: Tensor, displacement: Tensor, mode: InterpolationMode, fill: Any) -> Tensor:
    """Move each pixel by its own displacement."""
    h, w = image.shape[-2:]
    x = creation.linspace((-w + 1) / w, (w - 1) / w, w, device=image.device).expand(h, w)
    y = creation.linspace((-h + 1) / h, (h - 1) / h, h, device=image.device).unsqueeze(-1).expand(h, w)
    return _sampled(
        image, stack((x, y), dim=-1).unsqueeze(0) + displacement.to(image.device), mode.value, fill
    )


def gaussian_kernel(size: int, sigma: float, dtype: Any = float32, device: Any = None) -> Tensor:
    """Return e^(-x²/2σ²) at whole places around 0, summing to 1."""
    half = (size - 1) * 0.5
    x = creation.linspace(-half, half, size, dtype=dtype, device=device)
    weights = (-0.5 * (x / sigma) ** 2).exp()
    return weights / weights.sum()


def _filtered(image: Tensor, kernel: Tensor) -> Tensor:
    batch, single = _as_batch(image)
    channels = batch.shape[-3]
    weight = kernel.to(batch.dtype).expand(channels, 1, *kernel.shape)
    return _as_it_was(conv2d(batch, weight, groups=channels), single, image.dtype)


def gaussian_blur(image: Tensor, size: Sequence[int], sigma: Sequence[float]) -> Tensor:
    """Take means over neighbourhoods, weighted by a bell."""
    kx, ky = size
    across, down = (gaussian_kernel(n, s, device=image.device) for n, s in zip(size, sigma, strict=True))
    kernel = down.unsqueeze(-1) @ across.unsqueeze(0)
    padded = pad(image, (kx // 2, ky // 2, kx // 2, ky // 2), 0, "reflect")
    return _filtered(padded, kernel)


def adjust_sharpness(image: Tensor, factor: float) -> Tensor:
    """Mix it with a blurred one."""
    if image.shape[-1] <= 2 or image.shape[-2] <= 2:
        return image
    kernel = creation.ones(3, 3, device=image.device)
    kernel[1, 1] = 5.0
    blurred = image.clone()
    blurred[..., 1:-1, 1:-1] = _filtered(image, kernel / kernel.sum())
    return _blend(image, blurred, factor)


def invert(image: Tensor) -> Tensor:
    """Exchange black and white."""
    top = largest_value(image.dtype)
    return (top if is_floating(image) else int(top)) - image


def posterize(image: Tensor, bits: int) -> Tensor:
    """Keep the first bits of each byte."""
    if image.dtype != np.uint8:
        raise TypeError(f"posterize: expects uint8, got {image.dtype}")
    return image & creation.tensor(-int(2 ** (8 - bits)) & 255, dtype=np.uint8)


def solarize(image: Tensor, threshold: float) -> Tensor:
    """Invert what is at least the threshold."""
    if threshold > largest_value(image.dtype):
        raise TypeError("solarize: the threshold should be less than the largest value of an image")
    return where(image >= threshold, invert(image), image)


def autocontrast(image: Tensor) -> Tensor:
    """Stretch each channel from black to white."""
    top = largest_value(image.dtype)
    kind = image.dtype if is_floating(image) else float32
    low, high = (
        image.amin(dim=(-2, -1), keepdim=True).to(kind),
        image.amax(dim=(-2, -1), keepdim=True).to(kind),
    )
    scale = top / (high - low)
    flat = ~scale.isfinite()
    low, scale = where(flat, 0.0, low), where(flat, 1.0, scale)
    return ((image - low) * scale).clamp(min=0, max=top).to(image.dtype)


def equalize(image: Tensor) -> Tensor:
    """Spread each channel's values so that all are about as frequent."""
    if image.dtype != np.uint8:
        raise TypeError(f"equalize: expects uint8, got {image.dtype}")
    array = image.cpu().numpy()
    out = np.empty_like(array)
    for index in np.ndindex(array.shape[:-2]):
        counts = np.bincount(array[index].reshape(-1), minlength=256)
        seen = counts[counts != 0]
        step = int(seen[:-1].sum()) // 255
        if step == 0:
            out[index] = array[index]
            continue
        table = (np.cumsum(counts) + step // 2) // step
        table = np.clip(np.concatenate([[0], table[:-1]]), 0, 255)
        out[index] = table[array[index]].astype(np.uint8)
    return creation.from_numpy(out).to(image.device)


def erase(image: Tensor, top: int, left: int, height: int, width: int, value: Any, inplace: bool) -> Tensor:
    """Write a value over a part of it."""
    out = image if inplace else image.clone()
    out[..., top : top + height, left : left + width] = value
    return out
