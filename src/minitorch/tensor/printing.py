"""How a tensor looks: as text, like PyTorch's, and as HTML for notebooks. Enters: a tensor. Leaves: a string."""

from __future__ import annotations

import html as html_escape
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minitorch.engine import watch
from minitorch.engine.dtypes import dtype_of_number, get_default_dtype, kind_of
from minitorch.engine.gpu import on_host
from minitorch.engine.node import new_tensor
from minitorch.ops.sparse import Coo
from minitorch.tensor.torch_function import asked
from minitorch.tensor.torch_types import pytorchs, shown


@dataclass(frozen=True)
class Options:
    """How numbers are printed; set with set_printoptions."""

    precision: int = 4
    threshold: int = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_options = Options()


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed; what is left out stays. profile: 'default', 'short' or 'full'.

    >>> set_printoptions(precision=2); import minitorch; minitorch.tensor([1 / 3])
    tensor([0.33])
    >>> set_printoptions(profile="default")
    """
    global _options
    if profile is not None:
        presets = {"default": Options(), "short": Options(2, 1000, 2, 80), "full": Options(4, 10**12, 3, 80)}
        if profile not in presets:
            raise ValueError(f"set_printoptions: profile must be one of {sorted(presets)}, got {profile!r}")
        _options = presets[profile]
    given: dict[str, Any] = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    _options = replace(_options, **{k: v for k, v in given.items() if v is not None})
    if sci_mode is not None or profile is None:
        _options = replace(_options, sci_mode=sci_mode)


class _Formatter:
    """Decide once for all shown elements how each is written, so that columns line up."""

    def __init__(self, shown: np.ndarray) -> None:
        self.kind = kind_of(shown.dtype)
        self.whole, self.scientific, self.width = True, False, 1
        if self.kind == "c":
            self.real, self.imaginary = _Formatter(shown.real), _Formatter(shown.imag)
            return
        counted = shown.reshape(-1)
        if self.kind == "f":
            # Zeros and non-finite values adapt to the others.
            counted = counted[np.isfinite(counted) & (counted != 0)]
            sizes = np.absolute(counted.astype(np.float64))
            if sizes.size:
                large, small = float(sizes.max()), float(sizes.min())
                self.whole = bool((sizes == np.ceil(sizes)).all())
                self.scientific = large / small > 1000 or large > 1e8 or small < 1e-4
                if _options.sci_mode is not None:
                    self.scientific = _options.sci_mode
        self.width = max((len(self.plain(v)) for v in counted), default=1)

    def plain(self, value: Any) -> str:
        if self.kind == "f":
            number = float(value)
            if not math.isfinite(number):
                return str(number)
            if self.scientific:
                return f"{number:.{_options.precision}e}"
            return f"{number:.0f}." if self.whole else f"{number:.{_options.precision}f}"
        return str(value.item())

    def __call__(self, value: Any) -> str:
        if self.kind == "c":
            imaginary = self.imaginary.plain(value.imag)
            sign = "" if imaginary.startswith("-") else "+"
            return f"{self.real(value.real)}{sign}{imaginary}j"
        return self.plain(value).rjust(self.width)


def _summary(array: np.ndarray) -> np.ndarray:
    """Return the elements that are shown: all, or the corners of a large array."""
    if array.size <= _options.threshold or not array.ndim:
        return array
    edge = _options.edgeitems
    corners = [[*range(edge), *range(n - edge, n)] if n > 2 * edge else range(n) for n in array.shape]
    return array[np.ix_(*corners)]


def _lines(array: np.ndarray, write: _Formatter, indent: int, short: bool) -> str:
    if array.ndim == 0:
        return write(array[()])
    edge = _options.edgeitems
    cut = short and len(array) > 2 * edge
    if array.ndim == 1:
        if cut:
            cells = [*(write(v) for v in array[:edge]), " ...", *(write(v) for v in array[-edge:])]
        else:
            cells = [write(v) for v in array]
        per_line = (
            max(1, (_options.linewidth - indent) // max(write.width + 2, 1)) if write.width else len(cells)
        )
        rows = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(rows) + "]"
    if cut:
        parts = [_lines(a, write, indent + 1, short) for a in array[:edge]]
        parts.append("...")
        parts += [_lines(a, write, indent + 1, short) for a in array[-edge:]]
    else:
        parts = [_lines(a, write, indent + 1, short) for a in array]
    gap = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return "[" + gap.join(parts) + "]"


def _host(data: Any) -> np.ndarray:
    return data.get() if hasattr(data, "get") else np.asarray(watch.memory_of(data))


def _sparse(tensor: Any, prefix: str) -> str:
    """Return a sparse tensor as PyTorch would print it: its indices, its values, its size."""
    coo, parts = on_host(tensor._array), []
    indices: tuple[Any, ...] = (("indices", coo.indices),)
    if coo.by_rows:
        indices = (("crow_indices", coo.row_starts()), ("col_indices", coo.indices[1]))
    for name, array in (*indices, ("values", coo.values)):
        start = f"{name}=tensor("
        indent = len(prefix) + len(start)
        body = f"[], size={array.shape}"
        if array.size:
            body = _lines(array, _Formatter(_summary(array)), indent, array.size > _options.threshold)
        parts.append(f"{start}{body})")
    place = "" if tensor.is_cpu else f"device='{tensor.device}', "
    size, count = f"{place}size={coo.shape}", f"nnz={coo.indices.shape[1]}"
    gap = ",\n" + " " * len(prefix)
    implied = coo.dtype in (np.bool_, np.int64, get_default_dtype(), dtype_of_number(1j))
    kind = [] if implied else [f"dtype={shown(coo.dtype) if pytorchs.on else coo.dtype}"]
    line = len(prefix) + len(size)
    suffixes = [count, *kind, f"layout=torch.sparse_{'csr' if coo.by_rows else 'coo'}", *_of_graph(tensor)]
    if coo.by_rows:  # PyTorch goes on in the line of the values
        start = prefix + gap.join(parts)
        return _with_suffixes(start, [size, *suffixes], len(prefix), len(start.rpartition("\n")[2]) + 2)
    return _with_suffixes(prefix + gap.join([*parts, size]), suffixes, len(prefix), line)


def _of_graph(tensor: Any) -> list[str]:
    if tensor._operation is not None:
        return [f"grad_fn={tensor.grad_fn}"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def _with_suffixes(written: str, suffixes: list[str], indent: int, line: int) -> str:
    for suffix in suffixes:
        if line + len(suffix) + 2 <= _options.linewidth:
            written += f", {suffix}"
            line += len(suffix) + 2
        else:
            written += ",\n" + " " * indent + suffix
            line = indent + len(suffix)
    return written + ")"


def text(tensor: Any) -> str:
    """Return the tensor as PyTorch would print it.

    >>> import minitorch
    >>> minitorch.tensor([[1.0, -2.5], [3.0, 4.0]], requires_grad=True)
    tensor([[ 1.0000, -2.5000],
            [ 3.0000,  4.0000]], requires_grad=True)
    """
    if hasattr(tensor._data, "__minitorch_gradient__"):  # inside vmap
        return f"each example of {text(new_tensor(tensor._data.array))}"
    prefix = f"{type(tensor).__name__ if type(tensor) in asked else 'tensor'}("
    if tensor._array.__class__ is Coo:
        return _sparse(tensor, prefix)
    if tensor.is_meta:
        size = f"size={tuple(tensor._data.shape)}"
        kind = [] if tensor._array.dtype == get_default_dtype() else [f"dtype={tensor.dtype}"]
        parts = ["...", "device='meta'", size, *kind, *_of_graph(tensor)]
        return f"{prefix}{', '.join(parts)})"
    try:
        array = _host(tensor._data)
    except (TypeError, ValueError):
        return f"tensor(<{type(tensor._data).__name__} of shape {tuple(tensor._data.shape)}>)"
    if array.size:
        body = _lines(array, _Formatter(_summary(array)), len(prefix), array.size > _options.threshold)
    else:
        body = "[]" if array.ndim <= 1 else f"[], size={array.shape}"
    suffixes = [] if tensor.is_cpu else [f"device='{tensor.device}'"]
    implied = array.dtype in (np.bool_, np.int64, get_default_dtype(), dtype_of_number(1j))
    if not implied or (not array.size and array.dtype != get_default_dtype()):
        suffixes.append(f"dtype={shown(array.dtype) if pytorchs.on else array.dtype}")
    written = prefix + body
    line = len(written) - written.rfind("\n") + 1  # the length of its last line, as PyTorch counts it
    return _with_suffixes(written, [*suffixes, *_of_graph(tensor)], len(prefix), line)


def html(tensor: Any) -> str:
    """Return the tensor as an HTML table for notebooks: a heading, and its last two axes as a grid."""
    if tensor._array.__class__ is Coo:
        return f"<pre>{html_escape.escape(text(tensor))}</pre>"
    array = _host(tensor._data)
    made = f" · {tensor.grad_fn}" if tensor._operation is not None else ""
    grad = " · requires grad" if tensor.requires_grad and tensor._operation is None else ""
    place = "" if tensor.is_cpu else f" on {tensor.device}"
    heading = html_escape.escape(f"Tensor {tuple(array.shape)} {array.dtype}{place}{made}{grad}")
    if not 1 <= array.ndim <= 2 or array.size > _options.threshold or not array.size:
        return f"<div><b>{heading}</b><pre>{html_escape.escape(text(tensor))}</pre></div>"
    grid = array.reshape(1, -1) if array.ndim == 1 else array
    write = _Formatter(grid)
    rows = "".join("<tr>" + "".join(f"<td>{write(v).strip()}</td>" for v in row) + "</tr>" for row in grid)
    return f"<div><b>{heading}</b><table>{rows}</table></div>"
