"""Names of torch itself that exist because programs use them. Enters: what they are given. Leaves: what is right here.

Lists of tensors at once (`_foreach_*`), checks that compilers understand (`_assert`, `_check`), numbers that might be
symbols (`SymInt`), dtypes that NumPy has not, streams of a GPU.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import minitorch
from minitorch.cuda import AcceleratorError, Event, OutOfMemoryError, Stream
from minitorch.tensor.torch_types import dtype

__all__ = ["AcceleratorError", "Event", "OutOfMemoryError", "Stream"]

# --- lists of tensors at once -------------------------------------------------------------------------------


def _foreach(name: str, lists: int) -> Any:
    """Return a function of lists of tensors: a Tensor's method for each. lists: how many arguments may be lists."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        answers = []
        for i, tensor in enumerate(self):
            given = [a[i] if k < lists and isinstance(a, (list, tuple)) else a for k, a in enumerate(args)]
            answers.append(getattr(tensor, name)(*given, **kwargs))
        return None if name.endswith("_") else tuple(answers)

    run.__name__ = f"_foreach_{name}"
    return run


_UNARY = (
    *(
        "abs",
        "acos",
        "asin",
        "atan",
        "ceil",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "expm1",
        "floor",
        "frac",
        "lgamma",
    ),
    *(
        "log",
        "log10",
        "log1p",
        "log2",
        "neg",
        "reciprocal",
        "round",
        "rsqrt",
        "sigmoid",
        "sign",
        "sin",
        "sinh",
    ),
    *("sqrt", "tan", "tanh", "trunc"),
)
_BINARY = ("add", "clamp_max", "clamp_min", "copy", "div", "maximum", "minimum", "mul", "pow", "sub")
_TERNARY = ("addcdiv", "addcmul", "lerp")
FOREACH = {
    f"_foreach_{name}{end}": _foreach(name + end, lists)
    for lists, names in ((0, _UNARY), (1, _BINARY), (2, _TERNARY))
    for name in names
    for end in ("", "_")
    if hasattr(minitorch.Tensor, name + end)
}


def _foreach_ternary(name: str) -> Any:
    """Return addcdiv or addcmul of lists, whose factor may be a list too, or a tensor of numbers."""

    def run(self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
        values = value.tolist() if isinstance(value, minitorch.Tensor) else value
        each = values if isinstance(values, (list, tuple)) else [values] * len(self)
        answers = [
            getattr(t, name)(a, b, value=v) for t, a, b, v in zip(self, tensor1, tensor2, each, strict=True)
        ]
        return None if name.endswith("_") else tuple(answers)

    run.__name__ = f"_foreach_{name}"
    return run


FOREACH.update(
    {f"_foreach_{name}": _foreach_ternary(name) for name in ("addcdiv", "addcdiv_", "addcmul", "addcmul_")}
)


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Any, ...]:
    return tuple(each.norm(ord) for each in self)


def _foreach_zero_(self: Any) -> None:
    for each in self:
        each.zero_()


# --- checks -------------------------------------------------------------------------------------------------


def _assert(condition: Any, message: Any = "") -> None:
    if not condition:
        raise AssertionError(message)


_assert_async = _assert


def _check(cond: Any, message: Any = None) -> None:
    if not cond:
        raise RuntimeError(message() if callable(message) else message or "Expected cond to be True")


def _check_is_size(i: Any, message: Any = None, *, max: Any = None) -> None:
    _check(i >= 0, message)


def _check_with(error_type: Any, cond: Any, message: Any = None) -> None:
    if not cond:
        raise error_type(message() if callable(message) else message)


def _check_index(cond: Any, message: Any = None) -> None:
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Any = None) -> None:
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Any = None) -> None:
    _check_with(TypeError, cond, message)


def _check_tensor_all(cond: Any, message: Any = None) -> None:
    _check(cond.all(), message)


def _shape_as_tensor(input: Any) -> Any:
    return minitorch.tensor(tuple(input.shape))


# --- numbers that might be symbols: here they are numbers ---------------------------------------------------


class SymInt:
    """The class of sizes that are symbols; here sizes are ints, so nothing is one."""


class SymFloat:
    """The class of floats that are symbols; nothing is one."""


class SymBool:
    """The class of conditions that are symbols; nothing is one."""


def sym_int(a: Any) -> builtins.int:
    """Return a number as an int."""
    return builtins.int(a)


def sym_float(a: Any) -> builtins.float:
    """Return a number as a float."""
    return builtins.float(a)


def sym_not(a: Any) -> builtins.bool:
    """Return the opposite of a condition."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """Return the larger of two numbers."""
    return max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers."""
    return min(a, b)


def sym_sqrt(a: Any) -> builtins.float:
    """Return the square root of a number."""
    return math.sqrt(a)


def sym_sum(args: Any) -> Any:
    """Return the sum of numbers."""
    return sum(args)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """Return one of two by a condition."""
    return t if b else f


# --- dtypes that NumPy has not: they can be named and compared, not used ------------------------------------


# The largest number, the step after 1, the smallest normal number.
FLOAT8 = {
    "float8_e4m3fn": (448.0, 0.125, 2.0**-6),
    "float8_e4m3fnuz": (240.0, 0.125, 2.0**-7),
    "float8_e5m2": (57344.0, 0.25, 2.0**-14),
    "float8_e5m2fnuz": (57344.0, 0.25, 2.0**-15),
}


class AbsentDtype(dtype):
    """A dtype that can be named, compared and asked for its size; making a tensor of it is an error that says so."""

    __slots__ = ("bytes", "name", "sort")

    def __init__(self, name: str, bytes: builtins.int, sort: str = "f") -> None:
        self.name, self.bytes, self.sort = name, bytes, sort

    def __getattribute__(self, key: str) -> Any:
        if key == "dtype":
            raise TypeError(
                f"torch.{object.__getattribute__(self, 'name')} is absent: NumPy has no such numbers; use "
                "torch.float32, or torch.float16 to save memory (with the package ml_dtypes there is torch.bfloat16)"
            )
        return object.__getattribute__(self, key)

    @property
    def itemsize(self) -> builtins.int:
        """The bytes of one number."""
        return self.bytes

    @property
    def limits(self) -> dict[str, Any] | None:
        """What torch.finfo tells of it, of floats of 8 bits."""
        if self.name not in FLOAT8:
            return None
        largest, eps, tiny = FLOAT8[self.name]
        named = {"dtype": self.name, "bits": 8, "eps": eps, "max": largest, "min": -largest}
        return {**named, "tiny": tiny, "smallest_normal": tiny, "resolution": 1.0}

    @property
    def is_floating_point(self) -> builtins.bool:
        """Whether its numbers are floats."""
        return self.sort == "f"

    @property
    def is_complex(self) -> builtins.bool:
        """Whether its numbers are complex."""
        return self.sort == "c"

    @property
    def is_signed(self) -> builtins.bool:
        """Whether it has negative numbers."""
        return True

    def __eq__(self, other: object) -> builtins.bool:
        return self is other

    def __hash__(self) -> builtins.int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return (ABSENT_DTYPES.get, (self.name,))


ABSENT_DTYPES = {
    each.name: each
    for each in (
        AbsentDtype("bfloat16", 2),
        *(AbsentDtype(f"float8_{kind}", 1) for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")),
        AbsentDtype("float4_e2m1fn_x2", 1),
        AbsentDtype("complex32", 4, "c"),
        *(AbsentDtype(f"{kind}{bits}", 1, "i") for kind in ("int", "uint") for bits in range(1, 8)),
        *(AbsentDtype(name, 1, "q") for name in ("quint4x2", "quint2x4")),
        *(AbsentDtype(f"q{kind}", 4 if kind == "int32" else 1, "q") for kind in ("int8", "uint8", "int32")),
    )
}


# Largest number, distance from 1 to the next, smallest normal number, resolution.
_LIMITS = {
    "bfloat16": (3.3895313892515355e38, 2**-7, 2**-126, 0.01),
    "float8_e4m3fn": (448.0, 0.125, 2**-6, 1.0),
    "float8_e4m3fnuz": (240.0, 0.125, 2**-7, 1.0),
    "float8_e5m2": (57344.0, 0.25, 2**-14, 1.0),
    "float8_e5m2fnuz": (57344.0, 0.125, 2**-15, 1.0),
}


class finfo(minitorch.finfo):
    """The limits of a floating-point dtype, also of those that can only be named."""

    def __init__(self, type: Any = None) -> None:
        if not isinstance(type, AbsentDtype) or type.name not in _LIMITS:
            super().__init__(type)
            return
        self.dtype, self.bits = type.name, 8 * type.itemsize
        self.max, self.eps, self.tiny, self.resolution = _LIMITS[type.name]
        self.min, self.smallest_normal = -self.max, self.tiny


# --- other questions ----------------------------------------------------------------------------------------


def compiled_with_cxx11_abi() -> builtins.bool:
    """Return True."""
    return True


def get_deterministic_debug_mode() -> builtins.int:
    """Return 0: everything is deterministic."""
    return 0


def is_deterministic_algorithms_warn_only_enabled() -> builtins.bool:
    """Return False."""
    return False


def fill(input: Any, value: Any) -> Any:
    """Return a tensor's like with one value everywhere."""
    return minitorch.full_like(input, value)


class qscheme(str):
    """How numbers are quantised; can be named, not used."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "torch." + self[:]

    __str__ = __repr__


QSCHEMES = {
    name: qscheme(name)
    for name in (
        *("per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric"),
        *("per_tensor_affine", "per_tensor_symmetric"),
    )
}
