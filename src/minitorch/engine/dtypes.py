"""Which dtype a result has, by PyTorch's rules. Enters: arrays and Python numbers. Leaves: dtypes.

Names are NumPy's own dtypes, so `x.dtype == np.float32` and `x.dtype == minitorch.float32` agree.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from minitorch.engine.recording import changed
from minitorch.ops.narrow import is_bfloat16

bool_ = np.dtype(np.bool_)
uint8 = np.dtype(np.uint8)
int8 = np.dtype(np.int8)
int16 = np.dtype(np.int16)
int32 = np.dtype(np.int32)
int64 = np.dtype(np.int64)
float16 = np.dtype(np.float16)
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)
complex64 = np.dtype(np.complex64)
complex128 = np.dtype(np.complex128)
uint16 = np.dtype(np.uint16)
uint32 = np.dtype(np.uint32)
uint64 = np.dtype(np.uint64)
half, float_, double = float16, float32, float64
cfloat, cdouble = complex64, complex128
short, int_, long = int16, int32, int64

DType = np.dtype[Any]


class _Missing:
    """The name of a dtype that is not there; it can be named, not used."""

    def __init__(self, name: str, package: str) -> None:
        self.name, self.package = name, package

    def __repr__(self) -> str:
        return f"{self.name} (which NumPy does not have; the package {self.package} has it)"


def __getattr__(name: str) -> Any:
    # At first use: most programs have none.
    if name == "bfloat16":
        try:
            return np.dtype(import_module("ml_dtypes").bfloat16)
        except ImportError:
            return _Missing("bfloat16", "ml_dtypes")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def kind_of(dtype: DType) -> str:
    """Return NumPy's letter for a dtype's kind, "f" for bfloat16 too.

    >>> kind_of(np.dtype(np.int64)), kind_of(float16)
    ('i', 'f')
    """
    return "f" if is_bfloat16(dtype) else dtype.kind


# PyTorch's old names: x.type() says them, x.type("torch.FloatTensor") takes them.
LEGACY_NAMES = {
    "float32": "FloatTensor",
    "float64": "DoubleTensor",
    "float16": "HalfTensor",
    "bfloat16": "BFloat16Tensor",
    "uint8": "ByteTensor",
    "int8": "CharTensor",
    "int16": "ShortTensor",
    "int32": "IntTensor",
    "int64": "LongTensor",
    "bool": "BoolTensor",
    "complex64": "ComplexFloatTensor",
    "complex128": "ComplexDoubleTensor",
}


def legacy_dtype(name: Any) -> DType:
    """Return the dtype of any of its names: NumPy's, or 'torch.FloatTensor', or the constructor FloatTensor.

    >>> legacy_dtype("torch.LongTensor")
    dtype('int64')
    """
    if isinstance(name, str) and name.endswith("Tensor"):
        last = name.rpartition(".")[2]
        for dtype, legacy in LEGACY_NAMES.items():
            if legacy == last:
                return np.dtype(dtype)
    return np.dtype(getattr(name, "legacy_dtype", name))


def legacy_names_gpu(name: Any) -> bool | None:
    """Tell whether a name of PyTorch's old kind, or its constructor, says that tensors lie on a GPU; None: nothing.

    >>> legacy_names_gpu("torch.cuda.FloatTensor"), legacy_names_gpu("torch.FloatTensor"), legacy_names_gpu(np.float32)
    (True, False, None)
    """
    if isinstance(name, str):
        return ".cuda." in name if name.endswith("Tensor") else None
    return hasattr(name, "on_cpu") if hasattr(name, "legacy_dtype") else None


class finfo:
    """The limits of a floating-point dtype, as Python's floats.

    >>> finfo(np.float32).eps, finfo(float32).max
    (1.1920928955078125e-07, 3.4028234663852886e+38)
    """

    def __init__(self, type: Any = None) -> None:
        if (known := getattr(type, "limits", None)) is not None:  # of a dtype that can only be named
            self.__dict__.update(known)
            return
        dtype = get_default_dtype() if type is None else np.dtype(type)
        if kind_of(dtype) not in "fc":
            raise TypeError(f"finfo: {dtype} is no floating-point dtype; write iinfo({dtype})")
        limits: Any = import_module("ml_dtypes").finfo(dtype) if is_bfloat16(dtype) else np.finfo(dtype)
        self.dtype, self.bits = limits.dtype.name, int(limits.bits)
        self.eps, self.max, self.min = float(limits.eps), float(limits.max), float(limits.min)
        self.tiny = self.smallest_normal = float(limits.tiny)
        self.resolution = float(limits.resolution)

    def __repr__(self) -> str:
        shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{n}={getattr(self, n):g}' for n in shown)}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer dtype, as Python's ints.

    >>> iinfo(np.int8)
    iinfo(min=-128, max=127, dtype=int8)
    """

    def __init__(self, type: Any) -> None:
        if np.dtype(type).kind not in "iu":
            raise TypeError(f"iinfo: {np.dtype(type)} is no integer dtype; write finfo({np.dtype(type)})")
        limits = np.iinfo(type)
        self.dtype, self.bits = np.dtype(type).name, int(limits.bits)
        self.min, self.max = int(limits.min), int(limits.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


_default = float32


def get_default_dtype() -> DType:
    """Return the dtype that Python floats become (float32 unless set otherwise)."""
    return _default


def set_default_dtype(dtype: Any) -> None:
    """Set the dtype that Python floats become.

    >>> set_default_dtype(np.float64); get_default_dtype()
    dtype('float64')
    >>> set_default_dtype(np.float32)
    """
    global _default
    chosen = np.dtype(dtype)
    if kind_of(chosen) != "f":
        raise TypeError(
            f"set_default_dtype: only floating-point dtypes are supported as the default, got {chosen}"
        )
    _default = chosen
    changed()


def dtype_of_number(value: Any) -> DType:
    """Return the dtype a Python number takes on its own: bool, int64, or the default float."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, int):
        return int64
    if isinstance(value, complex):
        return complex128 if _default == float64 else complex64
    return _default


def promote_types(a: Any, b: Any) -> DType:
    """Return the dtype that can hold both, a float winning over any integer as it is.

    >>> promote_types(np.int64, np.float32)      # NumPy would say float64
    dtype('float32')
    >>> promote_types(np.float32, np.float64)
    dtype('float64')
    """
    a, b = np.dtype(a), np.dtype(b)
    if a.kind in "iub" and b.kind not in "iub":
        return b
    if b.kind in "iub" and a.kind not in "iub":
        return a
    if {a.name, b.name} == {"bfloat16", "float16"}:
        return float32  # neither can hold the other
    return np.promote_types(a, b)


def _combine(strong: DType | None, weak: DType | None) -> DType | None:
    # A lower rank (0-d tensor, Python number) widens a higher one only across categories.
    if strong is None or weak is None:
        return strong if weak is None else weak
    if strong.kind == "c" or (kind_of(strong) == "f" and weak.kind != "c"):
        return strong
    if kind_of(strong) == "f":
        return complex128 if strong == float64 else complex64
    if strong.kind == "b" or kind_of(weak) in "fc":
        return promote_types(strong, weak)
    return strong


def common_dtype(*operands: Any) -> DType:
    """Return the dtype in which `operands` (arrays or Python numbers) are computed together.

    Arrays with axes count more than 0-d arrays, and these more than Python numbers: the lesser
    rank never widens the greater one within a category.

    >>> common_dtype(np.ones(3, np.float32), np.float64(2.0).reshape(()), 2.0)
    dtype('float32')
    """
    ranks: list[DType | None] = [None, None, None]
    for operand in operands:
        dtype = getattr(operand, "dtype", None)
        if dtype is None or isinstance(operand, np.generic):
            rank, dtype = 2, dtype_of_number(operand) if dtype is None else dtype
        else:
            rank = 0 if operand.ndim else 1
        seen = ranks[rank]
        ranks[rank] = dtype if seen is None else promote_types(seen, dtype)
    result = _combine(_combine(ranks[0], ranks[1]), ranks[2])
    assert result is not None
    return result
