"""Elementwise functions as machine code against NumPy: values to the ulp, special cases to the bit."""

from __future__ import annotations

import ctypes
import functools

import numpy as np
import pytest

from minitorch.compiler.ir import program

pytest.importorskip("llvmlite")

from minitorch.compiler.backends.llvm.functions import cost, emit_function, plain, supported
from minitorch.compiler.backends.llvm.machine import compile_module
from minitorch.compiler.backends.llvm.target import Target, avx2, baseline, host
from minitorch.compiler.backends.llvm.text import TYPES, Emitter, literal, vector

FLOAT32, FLOAT64, BOOL = np.dtype("f4"), np.dtype("f8"), np.dtype(bool)
INTEGERS = [np.dtype(kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]
PREDICATES = program.COMPARISONS | program.TESTS | program.LOGIC
BITS = {"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert"}

# The largest error allowed in units of the last place. What is not here must be NumPy's to the bit.
ULPS = {
    "exp": (1.05, 1.05),
    "exp2": (1.2, 1.2),
    "expm1": (1.7, 2.0),
    "log": (0.9, 0.9),
    "log2": (1.0, 1.0),
    "log10": (1.0, 1.0),
    "log1p": (1.5, 1.5),
    "sin": (1.5, 0.9),
    "cos": (1.5, 0.9),
    "tan": (0.51, 2.4),
    "arcsin": (0.51, 2.4),
    "arccos": (0.51, 2.0),
    "arctan": (0.51, 2.0),
    "sinh": (0.51, 2.0),
    "cosh": (0.51, 2.0),
    "tanh": (1.3, 1.6),
    "arcsinh": (0.51, 2.2),
    "arccosh": (0.51, 2.4),
    "arctanh": (0.51, 2.4),
    "erf": (1.35, 1.5),
    "power": (0.6, 1.0),
    "arctan2": (0.51, 2.4),
    "hypot": (0.51, 1.3),
    "logaddexp": (0.51, 2.0),
}


# --- running one function over arrays -----------------------------------------------------------------


def _memory(dtype: np.dtype) -> str:
    return "i8" if dtype == BOOL else TYPES[dtype]


def _text(name, dtypes, result, lanes, to, literals) -> str:
    """A loop over arrays with the function inside, `lanes` elements at a time."""
    e = Emitter()
    operands = []
    for number, dtype in enumerate(dtypes):
        if literals and literals[number] is not None:
            operands.append(literals[number])
            continue
        kind = vector(_memory(dtype), lanes)
        place = e.op(f"getelementptr {_memory(dtype)}, ptr %a{number}, i64 %i")
        value = e.op(f"load {kind}, ptr {place}, align {dtype.itemsize}")
        operands.append(e.op(f"trunc {kind} {value} to {vector('i1', lanes)}") if dtype == BOOL else value)
    value = emit_function(e, name, operands, dtypes[-1], lanes, to=to)
    if result == BOOL:
        value = e.op(f"zext {vector('i1', lanes)} {value} to {vector('i8', lanes)}")
    place = e.op(f"getelementptr {_memory(result)}, ptr %out, i64 %i")
    e.line(f"store {vector(_memory(result), lanes)} {value}, ptr {place}, align {result.itemsize}")
    parameters = ", ".join([*(f"ptr %a{number}" for number in range(len(dtypes))), "ptr %out", "i64 %count"])
    return "\n".join(
        [
            f"define void @function({parameters}) nounwind {{",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *e.lines,
            f"  %next = add i64 %i, {lanes}",
            "  %more = icmp slt i64 %next, %count",
            "  br i1 %more, label %loop, label %end",
            "end:",
            "  ret void",
            "}",
            *e.externs.values(),
            "",
        ]
    )


@functools.cache
def _compiled(name, dtypes, result, lanes, target, to, literals):
    code = compile_module(_text(name, dtypes, result, lanes, to, literals), target, ["function"])
    pointers = [ctypes.c_void_p] * (len(dtypes) + 1)
    return ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(code.address("function")), code


def run(name, *arrays, how="native", to=None, literals=None):
    """Apply a function to arrays of one length, compiled for a target and a number of lanes."""
    target, lanes = HOW[how]
    dtypes = tuple(a.dtype for a in arrays)
    lanes = lanes or target.lanes(dtypes[-1])
    result = np.dtype(to) if to is not None else BOOL if name in PREDICATES else dtypes[-1]
    function, _code = _compiled(name, dtypes, result, lanes, target, to, literals)
    count = len(arrays[0])
    padded = -(-count // lanes) * lanes
    arrays = [np.ascontiguousarray(np.resize(a, padded)) for a in arrays]
    out = np.empty(padded, result)
    function(*(a.ctypes.data for a in arrays), out.ctypes.data, padded)
    return out[:count]


# Ways to compile: vectors as this processor has them, one element at a time, and without multiply-add.
HOW: dict[str, tuple[Target, int]] = {
    "native": (host(), 0),
    "scalar": (host(), 1),
    "baseline": (baseline(), 0),
    "avx2": (avx2(), 0),
}
HOW = {name: way for name, way in HOW.items() if way[0].runs_here}


@pytest.fixture(params=HOW)
def how(request):
    return request.param


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setenv("MINITORCH_CACHE", "")


# --- samples and exact values ---------------------------------------------------------------------------


@functools.cache
def sample(dtype: np.dtype) -> np.ndarray:
    """Every exponent with both signs, denormals, special numbers, and many where functions bend."""
    random = np.random.default_rng(0)
    information = np.finfo(dtype)
    bits = 8 * dtype.itemsize
    mantissa = information.nmant
    exponents = np.repeat(
        np.arange(2 ** (bits - mantissa), dtype=f"u{dtype.itemsize}"), 40 if bits == 32 else 6
    )
    mantissas = random.integers(0, 2**mantissa, len(exponents), dtype=exponents.dtype)
    every_exponent = ((exponents << np.array(mantissa, exponents.dtype)) | mantissas).view(dtype)
    special = [
        0,
        1,
        0.5,
        2,
        3,
        np.inf,
        np.nan,
        information.tiny,
        information.max,
        information.smallest_subnormal,
    ]
    special += [
        88.72283,
        88.7229,
        103.97,
        104,
        709.782712893384,
        709.7827128933841,
        745.13,
        746,
        1 - 1e-9,
        1 + 1e-9,
    ]
    special += [
        710.475860073943,
        710.475860073945,
        89.41598,
        2**20,
        2**20 + 1,
        1e22,
        np.sqrt(0.5),
        np.sqrt(2),
    ]
    special = np.array([*special, *np.arange(1, 50) * np.pi / 4]).astype(dtype)
    near = [random.normal(size=6000) * scale for scale in (0.01, 1, 10)]
    near += [1 + random.normal(size=3000) * 0.1, random.uniform(-1, 1, 3000), random.uniform(-760, 760, 3000)]
    with np.errstate(all="ignore"):
        around = np.concatenate([np.nextafter(special, dtype.type(end)) for end in (0, np.inf)])
    parts = [special, -special, around, -around, np.concatenate(near).astype(dtype), every_exponent]
    return np.concatenate(parts).astype(dtype)


@functools.cache
def pairs(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Special numbers with each other, small integers, and random ones of all sizes."""
    random = np.random.default_rng(1)
    information = np.finfo(dtype)
    special = [
        0,
        np.inf,
        np.nan,
        1,
        2,
        3,
        0.5,
        1.5,
        2.5,
        7,
        1e20,
        0.1,
        2**24 + 1,
        information.tiny,
        information.max,
    ]
    special = np.array([*special, information.smallest_subnormal, information.tiny / 8]).astype(dtype)
    special = np.concatenate([special, -special])
    x, y = (grid.ravel() for grid in np.meshgrid(special, special))
    kind = f"u{dtype.itemsize}"
    all_sizes = [random.integers(0, np.iinfo(kind).max, 4000, dtype=kind).view(dtype) for _ in range(2)]
    xs = [x, random.normal(size=4000) * 10, np.abs(random.normal(size=4000)), random.integers(-30, 30, 4000)]
    ys = [y, random.normal(size=4000) * 10, random.normal(size=4000) * 20, random.integers(-30, 30, 4000)]
    with np.errstate(invalid="ignore"):  # some of them are nan
        x, y = (
            np.concatenate([*some, sizes]).astype(dtype)
            for some, sizes in zip((xs, ys), all_sizes, strict=True)
        )
    return x, y


def exact(name: str, *arrays: np.ndarray) -> np.ndarray:
    """The function in the next wider float: float64, or long double where that is wider."""
    wide = np.longdouble if arrays[0].dtype == FLOAT64 else np.float64
    with np.errstate(all="ignore"):
        wider = [a.astype(wide) for a in arrays]
        if name == "erf" and wide is np.longdouble:
            return _erf(wider[0])
        return program.numpy_function(name)(*wider)


def _erf(x: np.ndarray) -> np.ndarray:
    """erf x = 2/√π·e^(-x²)·Σ 2ⁿx²ⁿ⁺¹ / (2n + 1)!!: no term is negative, so nothing cancels."""
    size = np.minimum(np.abs(x), 7)
    total = term = size
    for n in range(1, 260):
        term = term * 2 * size * size / (2 * n + 1)
        total = total + term
    root_pi = np.sqrt(np.arctan2(x.dtype.type(0), x.dtype.type(-1)))
    result = 2 / root_pi * np.exp(-size * size) * total
    return np.where(np.isnan(x), x, np.copysign(result, x))


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The distance from an exact result in units of the last place; infinite where one is special alone."""
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        spacing = np.spacing(np.minimum(np.abs(rounded), np.finfo(got.dtype).max)).astype(want.dtype)
        distance = np.abs(got.astype(want.dtype) - want) / spacing
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    special = ~np.isfinite(rounded) | ~np.isfinite(got)
    # A result just below the largest number may round to infinity and not be wrong by more than an ulp.
    edge = np.isinf(got) & np.isfinite(want) & (np.abs(want) > np.finfo(got.dtype).max * (1 - 1e-6))
    return np.where(same & special, 0, np.where(special & ~edge, np.inf, np.where(edge, 0.5, distance)))


def check_close(name, got, want, arrays):
    """Within the ulps allowed, and zeros with the right sign."""
    limit = ULPS[name][0 if got.dtype == FLOAT32 else 1]
    if got.dtype == FLOAT64 and np.finfo(np.longdouble).nmant == np.finfo(np.float64).nmant:
        limit += 1  # the reference itself is wrong by that much
    error = ulps(got, want)
    worst = int(error.argmax())
    where = ", ".join(repr(a[worst]) for a in arrays)
    assert error[worst] <= limit, (
        f"{name}({where}) is {want[worst]!r}, not {got[worst]!r}: {error[worst]:.2f} ulps"
    )
    zero = (got == 0) & (want == 0)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


def check_same(got, want):
    """Equal to the bit, but for which nan it is."""
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind == "f":
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


# --- floats -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("name", sorted((program.UNARY | program.TESTS | {"logical_not"}) - BITS))
def test_functions_of_one_float(name, dtype, how):
    x = sample(dtype)
    got = run(name, x, how=how)
    if name in ULPS:
        check_close(name, got, exact(name, x), [x])
    else:
        with np.errstate(all="ignore"):
            check_same(got, program.numpy_function(name)(x))


TWO_FLOATS = (program.BINARY | program.COMPARISONS | program.LOGIC) - BITS - {"logical_not"}


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("name", sorted(TWO_FLOATS))
def test_functions_of_two_floats(name, dtype, how):
    x, y = pairs(dtype)
    got = run(name, x, y, how=how)
    if name == "logaddexp" and dtype == FLOAT64:
        want = exact(name, x, y)
        cancels = np.abs(want) < 0.5  # max + log1p(...) loses digits there, in NumPy too
        check_close(name, got[~cancels], want[~cancels], [x[~cancels], y[~cancels]])
        np.testing.assert_allclose(got[cancels], want[cancels].astype("f8"), rtol=0, atol=1e-15)
    elif name in ULPS:
        check_close(name, got, exact(name, x, y), [x, y])
    else:
        with np.errstate(all="ignore"):
            check_same(got, program.numpy_function(name)(x, y))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_huge_angles_beside_moderate_ones(name, dtype, how):
    x = np.array([1, 1e30, 2, 3, 5, 1e22, -1e7, 4, 0.5, np.inf, 6, 7, 8, 9, -3e33, 11], dtype)
    check_close(name, run(name, x, how=how), exact(name, x), [x])


def test_angles_next_to_multiples_of_half_a_turn(how):
    multiples = np.arange(1, 600_000, 7) * np.longdouble(np.pi / 2)
    for dtype in (FLOAT32, FLOAT64):
        x = multiples.astype(dtype)
        for name in ("sin", "cos"):
            check_close(name, run(name, x, how=how), exact(name, x), [x])


def test_exact_powers_and_logarithms(how):
    powers = np.arange(-1000, 1000).astype("f8")
    check_same(run("exp2", powers, how=how), 2.0**powers)
    check_same(run("log2", 2.0**powers, how=how), powers)
    check_same(run("log10", 10.0 ** np.arange(23), how=how), np.arange(23.0))
    check_same(run("exp", np.zeros(8, "f4"), how=how), np.ones(8, "f4"))


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 1.5, 2.5, -3, 1 / 3])
def test_powers_known_beforehand(exponent, dtype, how):
    x = sample(dtype)
    lanes = HOW[how][1] or HOW[how][0].lanes(dtype)
    one = literal(exponent, dtype)
    spellings = {one, one if lanes == 1 else f"splat ({TYPES[dtype]} {one})"}
    y = np.full_like(x, exponent)
    want = exact("power", x, y)
    for spelling in spellings:
        got = run("power", x, y, how=how, literals=(None, spelling))
        error = ulps(got, want)
        # A square may be inf or 0 where the power of it is the smallest or largest number there is.
        assert error.max() <= 2.1, x[error.argmax()]
        zero = (got == 0) & (want == 0)
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


# --- integers and bools -----------------------------------------------------------------------------------


def integers(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    information = np.iinfo(dtype)
    edges = np.unique(np.clip([information.min, information.min + 1, -2, -1, 0, 1, 2, 3, 7, 8, 31, 32, 63, 64],
                              information.min, information.max))  # fmt: skip
    edges = np.concatenate([edges.astype(dtype), np.array([information.max - 1, information.max], dtype)])
    x, y = (grid.ravel() for grid in np.meshgrid(edges, edges))
    more = [
        random.integers(information.min, information.max, 2000, dtype=dtype, endpoint=True) for _ in range(2)
    ]
    small = [random.integers(max(-20, information.min), 20, 2000).astype(dtype) for _ in range(2)]
    return np.concatenate([x, more[0], small[0], more[0]]), np.concatenate([y, more[1], small[1], small[1]])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("way", HOW)
def test_functions_of_integers(dtype, way):
    x, y = integers(dtype)
    done = 0
    for name in sorted(program.FUNCTIONS - {"where", "cast"}):
        if not supported(name, dtype):
            continue
        function = program.numpy_function(name)
        with np.errstate(all="ignore"):
            want = function(*(x, y)[: function.nin])
        check_same(run(name, *(x, y)[: function.nin], how=way), want)
        done += 1
    assert done >= 30


def test_functions_of_bools(how):
    x, y = (grid.ravel() for grid in np.meshgrid([False, True], [False, True]))
    for name in sorted(program.FUNCTIONS - {"where", "cast"}):
        if supported(name, BOOL):
            function = program.numpy_function(name)
            check_same(run(name, *(x, y)[: function.nin], how=how), function(*(x, y)[: function.nin]))


def test_integer_powers_known_beforehand(how):
    x = np.arange(-50, 50)
    for exponent in (0, 1, 2, 5, 13):
        y = np.full_like(x, exponent)
        got = run("power", x, y, how=how, literals=(None, str(exponent)))
        check_same(got, x**exponent)


# --- where and cast ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, BOOL, *INTEGERS], ids=str)
def test_where(dtype, how):
    mask = np.arange(40) % 3 == 0
    x, y = np.arange(40).astype(dtype), np.arange(40)[::-1].astype(dtype)
    check_same(run("where", mask, x, y, how=how), np.where(mask, x, y))


@pytest.mark.parametrize("source", [FLOAT32, FLOAT64, BOOL, *INTEGERS], ids=str)
def test_casts(source, how):
    for to in (FLOAT32, FLOAT64, BOOL, *INTEGERS):
        x = _castable(source, to)
        with np.errstate(all="ignore"):
            want = x.astype(to)
        check_same(run("cast", x, how=how, to=to), want)


def _castable(source: np.dtype, to: np.dtype) -> np.ndarray:
    """Numbers whose cast NumPy defines: of floats, those within the range of the integer."""
    if source == BOOL:
        return np.array([True, False, True])
    if source.kind != "f":
        return integers(source)[0]
    if to.kind not in "iu":
        return sample(source)
    low, high = np.iinfo(to).min, np.iinfo(to).max
    inside = np.linspace(low, float(high) * 0.999, 500)
    near = np.concatenate([np.linspace(max(low, -5), 5, 401), [0.999999, 0.0, -0.0]])
    return np.concatenate([inside, near]).astype(source)


def test_casts_of_floats_beyond_small_integers_keep_the_lower_bits(how):
    if not host().is_x86:
        pytest.skip("other processors clip")
    x = np.array([300.7, -1.0, 70000.0, -70000.5, 255.9])
    for to in ("i1", "u1", "i2", "u2"):
        with np.errstate(all="ignore"):
            check_same(run("cast", x, how=how, to=np.dtype(to)), x.astype(to))


@pytest.mark.parametrize("source", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("to", ["u1", "u2", "u4", "u8"])
def test_casts_of_negative_floats_to_unsigned_integers_are_numpys(source, to, how):
    """C leaves them open: processors wrap or clip, and NumPy with them."""
    x = np.tile([-0.5, -1.0, -1.5, -77.9, -250.0, 3.7, 200.0], 16).astype(source)
    if to in ("u4", "u8"):
        x = np.concatenate([x, np.tile([-70000.5, -2147483000.0, 3e9, 4.2e9], 16).astype(source)])
    if to == "u4" and host().has("avx2"):
        x = np.concatenate([x, np.tile([-3e9, 5e9, np.inf, -np.inf], 16).astype(source)])
    with np.errstate(all="ignore"):
        check_same(run("cast", x, how=how, to=np.dtype(to)), x.astype(to))


@pytest.fixture
def as_on_arm(monkeypatch):
    """Functions as they are on processors that order zeros, and clip; compiled by this one."""
    _compiled.cache_clear()
    monkeypatch.setattr(plain, "ZEROS_ARE_ORDERED", True)
    monkeypatch.setattr(plain, "NEGATIVES_ARE_ZERO", True)
    yield
    _compiled.cache_clear()


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_zeros_in_order_and_negatives_clipped(dtype, how, as_on_arm):
    x = np.tile([0.0, -0.0, 0.0, -0.0, 1.0, -1.0, np.nan, 2.0], 16).astype(dtype)
    y = np.tile([-0.0, 0.0, 0.0, -0.0, -0.0, 0.0, 0.0, np.nan], 16).astype(dtype)
    for name, signs in (("maximum", [0, 0, 0, 1, 0, 0]), ("minimum", [1, 1, 0, 1, 1, 1])):
        got = run(name, x, y, how=how)
        np.testing.assert_array_equal(got, getattr(np, name)(x, y))
        assert np.signbit(got[:6]).tolist() == list(map(bool, signs))
    for to in ("u1", "u2", "u4", "u8"):
        assert not run("cast", np.full(40, -1.5, dtype), how=how, to=np.dtype(to)).any()
        assert (run("cast", np.full(40, 200.5, dtype), how=how, to=np.dtype(to)) == 200).all()


# --- operands, and what is said about functions -----------------------------------------------------------


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("name", ["exp", "log", "sin", "power", "remainder", "arctan2"])
def test_any_number_of_lanes(name, lanes):
    nin = program.numpy_function(name).nin
    for dtype in (FLOAT32, FLOAT64):
        arrays = [np.linspace(0.1, 9, 64).astype(dtype), np.linspace(3, 0.2, 64).astype(dtype)][:nin]
        function, _code = _compiled(name, (dtype,) * nin, dtype, lanes, host(), None, None)
        out = np.empty(64, dtype)
        function(*(a.ctypes.data for a in arrays), out.ctypes.data, 64)
        np.testing.assert_allclose(out, program.numpy_function(name)(*arrays), rtol=4 * np.finfo(dtype).eps)


def test_constants_as_operands(how):
    x = np.linspace(-3, 3, 40).astype("f4")
    check_same(
        run("maximum", x, x, how=how, literals=(None, literal(0.5, "f4"))), np.maximum(x, np.float32(0.5))
    )
    check_same(run("less", x, x, how=how, literals=(literal(1, "f4"), None)), x > 1)
    i = np.arange(-20, 20)
    check_same(run("floor_divide", i, i, how=how, literals=(None, "7")), i // 7)


def test_every_function_is_supported_for_floats():
    for dtype in (FLOAT32, FLOAT64):
        assert {name for name in program.FUNCTIONS if not supported(name, dtype)} == BITS


def test_what_numpy_refuses_or_promotes_is_not_supported():
    assert {name for name in program.FUNCTIONS if supported(name, np.dtype("f2"))} == {"cast", "where"}
    assert not any(supported(name, np.dtype("c16")) for name in program.FUNCTIONS)
    assert not supported("exp", np.dtype("i4"))
    assert not supported("divide", np.dtype("i8"))
    assert not supported("subtract", BOOL)
    assert not supported("power", np.dtype("i8"))  # a negative exponent is an error there
    assert supported("power", np.dtype("u8"))


def test_costs():
    assert cost("add", FLOAT32) == cost("multiply", FLOAT64) == cost("where", BOOL) == 1
    assert cost("add", FLOAT32) < cost("divide", FLOAT32) < cost("exp", FLOAT32) < cost("tanh", FLOAT32)
    assert cost("exp", FLOAT32) < 40 < cost("power", FLOAT64)
    assert all(cost(name, FLOAT64) >= 1 for name in program.FUNCTIONS)
