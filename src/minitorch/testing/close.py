"""assert_close, with PyTorch's tolerances. Enters: two results. Leaves: nothing, or an AssertionError."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor, is_array

# By dtype: relative and absolute.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


_OLD_TOLERANCES = {
    "float16": (1e-3, 1e-3),
    "float32": (1e-4, 1e-5),
    "float64": (1e-5, 1e-8),
}  # assert_allclose's


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Any = None,
) -> None:
    """Raise AssertionError unless |actual - expected| ≤ atol + rtol·|expected| everywhere.

    Tensors, arrays, numbers, and sequences and mappings of them. Tolerances left out follow the dtype.

    >>> assert_close(as_tensor([1.0, 2.0]), as_tensor([1.0, 2.0 + 1e-7]))
    >>> assert_close(as_tensor([1.0, 2.0]), as_tensor([1.0, 2.5]))
    Traceback (most recent call last):
        ...
    AssertionError: Tensor-likes are not close!
    <BLANKLINE>
    Mismatched elements: 1 / 2 (50.0%)
    Greatest absolute difference: 0.5 at index (1,) (up to 1e-05 allowed)
    Greatest relative difference: 0.2 at index (1,) (up to 1.3e-06 allowed)
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"assert_close: give both rtol and atol, or none; got rtol={rtol}, atol={atol}")
    options: dict[str, Any] = {
        "rtol": rtol,
        "atol": atol,
        "equal_nan": equal_nan,
        "check_dtype": check_dtype,
        "msg": msg,
    }
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        if actual.keys() != expected.keys():
            _fail(f"The keys of the mappings do not match: {sorted(actual)} and {sorted(expected)}", msg)
        for key in expected:
            assert_close(actual[key], expected[key], **options)
    elif _is_sequence(expected) and _is_sequence(actual):
        if len(actual) != len(expected):
            _fail(f"The length of the sequences do not match: {len(actual)} != {len(expected)}", msg)
        for a, b in zip(actual, expected, strict=True):
            assert_close(a, b, **options)
    elif actual is None or expected is None:
        if actual is not expected:
            _fail(f"None mismatch: {actual} is not {expected}", msg)
    else:
        _compare(actual, expected, **options)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _compare(
    actual: Any, expected: Any, rtol: Any, atol: Any, equal_nan: bool, check_dtype: bool, msg: Any
) -> None:
    numbers = not any(isinstance(v, Tensor) or is_array(v) for v in (actual, expected))
    # Python's numbers are compared as they are, not as the default dtype.
    a, b = (np.asarray(v) if numbers else as_tensor(v).detach().cpu()._data for v in (actual, expected))
    if a.shape != b.shape:
        _fail(f"The values for attribute 'shape' do not match: {a.shape} != {b.shape}.", msg)
    if check_dtype and a.dtype != b.dtype and not numbers:
        _fail(f"The values for attribute 'dtype' do not match: {a.dtype} != {b.dtype}.", msg)
    if rtol is None:
        pairs = [_TOLERANCES.get(v.dtype.name, (0.0, 0.0)) for v in (a, b)]
        rtol, atol = max(pairs)
    wide = (
        np.result_type(a.dtype, b.dtype, np.float64) if "c" not in (a.dtype.kind, b.dtype.kind) else complex
    )
    x, y = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        off = np.absolute(x - y)
        close = (x == y) | (off <= atol + rtol * np.absolute(y))
        if equal_nan:
            close |= np.isnan(x) & np.isnan(y)
        if close.all():
            return
        relative = np.where(close, 0, off / np.absolute(y))
    off = np.where(close, 0, off)
    if not close.ndim:
        what = "Scalars" if numbers else "Tensor-likes"
        _fail(
            f"{what} are not close!\n\nExpected {expected!r} but got {actual!r}.\n"
            f"Absolute difference: {_short(off)} (up to {atol} allowed)\n"
            f"Relative difference: {_short(relative)} (up to {rtol} allowed)",
            msg,
        )
    wrong = int((~close).sum())
    lines = [
        "Tensor-likes are not close!",
        "",
        f"Mismatched elements: {wrong} / {close.size} ({wrong / close.size:.1%})",
    ]
    for name, values, allowed in (("absolute", off, atol), ("relative", relative, rtol)):
        worst = int(np.nan_to_num(values, nan=np.inf).argmax())
        where = tuple(int(i) for i in np.unravel_index(worst, values.shape))
        lines.append(
            f"Greatest {name} difference: {_short(values[where])} at index {where} (up to {allowed} allowed)"
        )
    _fail("\n".join(lines), msg)


def _short(value: Any) -> str:
    return f"{float(value):.6g}"


def _fail(reason: str, msg: Any) -> None:
    raise AssertionError(msg(reason) if callable(msg) else reason if msg is None else msg)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """assert_close under its old name, which warns, and converts what is no Tensor."""
    warnings.warn(
        "testing.assert_allclose is deprecated; write testing.assert_close",
        FutureWarning,
        stacklevel=2,
    )
    first, second = as_tensor(actual), as_tensor(expected)
    usual = _OLD_TOLERANCES.get(str(np.dtype(first.dtype)), (0.0, 0.0))
    if rtol is None and atol is None:
        rtol, atol = usual
    assert_close(
        first, second.to(first.dtype), rtol=rtol, atol=atol, equal_nan=equal_nan, msg=msg or None,
        check_dtype=False, check_stride=False,
    )  # fmt: skip
