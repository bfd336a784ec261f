"""Which dtype a result has, and with which values: every op on every pair of dtypes, against PyTorch."""

import contextlib
import itertools
import operator

import numpy as np
import pytest

import minitorch
from pytorch import torch
from same_as_torch import Functional, agree, line

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
INTEGERS = DTYPES[1:6]
FLOATS = DTYPES[6:]
BINARY = [
    "add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "maximum", "minimum", "eq", "ne",
    "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or",
    "bitwise_xor", "atan2", "hypot", "logaddexp",
]  # fmt: skip
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.and_, operator.or_,
    operator.xor,
]  # fmt: skip
UNARY = [
    "square", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin",
    "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "tanh", "sigmoid", "erf",
    "sign", "logical_not", "isnan", "isinf", "isfinite", "neg", "relu", "bitwise_not",
]  # fmt: skip


def first(dtype):
    """Left operands: negative where the dtype can, and large for an 8-bit one."""
    values = {"bool": [True, False, True, True], "uint8": [1, 2, 7, 200]}
    return np.array(values.get(dtype, [1, -2, 7, -100] if dtype in INTEGERS else [1.5, -2.25, 7, -3]), dtype)


def second(dtype):
    """Right operands: no zeros, so that every op is defined."""
    values = {"bool": [True] * 4, "uint8": [3, 2, 5, 4]}
    return np.array(values.get(dtype, [3, 2, -5, 4] if dtype in INTEGERS else [2.5, 2, -1.25, 3]), dtype)


def pytorch_has_no_kernel(call, *arrays):
    """Whether PyTorch merely has not written this op for this dtype; minitorch may answer all the same."""
    try:
        call(torch, *(torch.tensor(a) for a in arrays))
    except NotImplementedError:
        return True
    except (RuntimeError, TypeError) as error:
        return "INTERNAL ASSERT" in str(error)
    return False


@pytest.mark.parametrize("name", BINARY)
def test_two_tensors_of_any_two_dtypes(name):
    call = line(f"m.{name}(x, y)", "x y")
    for a, b in itertools.product(DTYPES, DTYPES):
        for x, y in itertools.product([first(a), first(a)[1]], [second(b), second(b)[0]]):
            if pytorch_has_no_kernel(call, x, y):
                continue
            # PyTorch's atan2 squares a small integer in its own dtype on the way back, and its floor_divide
            # has no way back: values alone there.
            gradients = name not in ("atan2", "floor_divide")
            agree(call, x, y, tol=1e-6, gradients=gradients, where=f"{name} {a}{x.shape} {b}{y.shape}:")


@pytest.mark.parametrize("a", DTYPES)
def test_ops_without_a_kernel_in_pytorch_answer_in_a_dtype_that_fits(a):
    for b in DTYPES:
        x, y = minitorch.tensor(first(a)), minitorch.tensor(second(b))
        together = minitorch.promote_types(a, b)
        floating = together if together.kind == "f" else np.float32
        for name in ("hypot", "logaddexp"):
            assert getattr(minitorch, name)(x, y).dtype == floating


def scalar_table():
    for op in OPERATORS:
        yield op.__name__, lambda x, s, op=op: op(x, s)
        yield f"reflected {op.__name__}", lambda x, s, op=op: op(s, x)
    for name in ("add", "sub", "mul", "div", "floor_divide", "remainder", "pow"):
        yield f"{name}(x, s)", lambda x, s, n=name: getattr(library_of(x), n)(x, s)
        yield f"{name}(s, x)", lambda x, s, n=name: getattr(library_of(x), n)(s, x)
        yield f"x.{name}(s)", lambda x, s, n=name: getattr(x, n)(s)
    yield "x.fmod(s)", lambda x, s: x.fmod(s)


def library_of(x):
    return torch if isinstance(x, torch.Tensor) else minitorch


SCALARS = [True, False, 2, -3, 0, 1.5, -0.5, float("inf"), float("nan")]


@pytest.mark.parametrize(
    ("name", "call"), list(scalar_table()), ids=lambda p: p if isinstance(p, str) else ""
)
def test_a_tensor_and_a_python_number(name, call):
    comparing = any(word in name for word in ("lt", "le", "gt", "ge", "eq", "ne"))
    for dtype, scalar in itertools.product(DTYPES, SCALARS):
        if comparing and dtype == "uint8" and scalar == -3:
            continue  # see test_a_number_outside_the_dtype_compares_by_its_value
        for x in (first(dtype), first(dtype)[1]):
            both = lambda m, t, s=scalar: call(t, s)
            if pytorch_has_no_kernel(both, x):
                continue
            gradients = "floor" not in name
            agree(both, x, tol=1e-6, gradients=gradients, where=f"{name} {dtype}{x.shape} {scalar!r}:")


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("number", [300, -3, 70_000, -70_000])
@pytest.mark.parametrize("text", ["x + {}", "x - {}", "{} - x", "x * {}", "x // {}", "x % {}", "x / {}"])
def test_a_number_outside_the_dtype_wraps_around_as_in_pytorch(dtype, number, text):
    agree(line(text.format(number)), first(dtype))


def test_a_number_outside_the_dtype_compares_by_its_value():
    # PyTorch wraps the number first, and finds 1 < -3 (which is 253).
    x = minitorch.tensor([1, 200], dtype=np.uint8)
    assert (x > -3).tolist() == [True, True]
    assert (x < 300).tolist() == [True, True]
    assert x.clamp(min=-3).tolist() == [1, 200]


@pytest.mark.parametrize(
    "spelling", ["x // y", "x % y", "m.fmod(x, y)", "m.div(x, y, rounding_mode='trunc')"]
)
def test_integer_division_by_zero_is_refused(spelling):
    agree(line(spelling, "x y"), np.array([1, 2]), np.array([1, 0]))
    agree(line(spelling.replace("y", "0")), np.array([1, 2]))
    x = minitorch.tensor([1, 2])
    with pytest.raises(RuntimeError, match="zero"):
        x // 0


def test_floor_division_of_floats_is_pythons():
    # ⌊1.0 / 0.1⌋ would be 10: the quotient is rounded up before floor sees it.
    assert (minitorch.tensor(1.0, dtype=np.float64) // 0.1).item() == 1.0 // 0.1 == 9.0
    values = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 0.1, -7.5])
    x, y = (a.reshape(-1) for a in np.meshgrid(values, values))
    for dtype in ("float32", "float64"):
        agree(line("m.div(x, y, rounding_mode='floor')", "x y"), x.astype(dtype), y.astype(dtype))
        agree(line("m.div(x, y, rounding_mode='trunc')", "x y"), x.astype(dtype), y.astype(dtype))


def test_truncated_division_of_large_integers_is_exact():
    large = np.array([2**62 + 1, -(2**62) - 1, 2**53 + 1, 7, -7])
    for divisor in (1, -1, 2, 3):
        agree(lambda m, x, d=divisor: m.div(x, d, rounding_mode="trunc"), large)


@pytest.mark.parametrize("name", ["remainder", "fmod"])
def test_the_slope_of_a_remainder_counts_whole_divisors(name):
    # 1.0 % 0.1 is 1.0 - 9·0.1: the slope is -9, although 1.0 / 0.1 rounds to 10.
    y = minitorch.tensor([0.1], dtype=np.float64, requires_grad=True)
    getattr(minitorch.tensor([1.0], dtype=np.float64), name)(y).sum().backward()
    assert y.grad.tolist() == [-9.0]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_negative_integer_powers(dtype):
    base = np.array([1, -1, 2, -3, 0], dtype)
    for exponent in (-1, -2, -3):
        # 0 to a negative power divides by zero: PyTorch answers 0.
        agree(line("x ** y", "x y"), base, np.full(5, exponent, dtype))
    agree(line("2 ** x"), np.array([3, -1, 0], dtype))
    agree(line("x ** -1"), base)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_tensor_of_any_dtype(name, dtype):
    values = {"bool": [[True, False, True]], "uint8": [[3, 0, 7]]}
    other = [[3, 0, -7]] if dtype in INTEGERS else [[0.5, -0.25, 0.75]]
    x = np.array(values.get(dtype, other), dtype)
    for part in (x, x[0, 0], x[:, :0]):
        agree(line(f"m.{name}(x)"), part, tol=1e-5, where=f"{name} {dtype}{part.shape}:")
        agree(line(f"x.{name}()"), part, tol=1e-5, where=f"x.{name} {dtype}{part.shape}:")


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "abs"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_numbers_stay_what_they_are(name, dtype):
    x = minitorch.tensor(first(dtype))
    assert getattr(x, name)().dtype == x.dtype
    if dtype not in FLOATS and name != "abs":
        assert getattr(x, name)().equal(x)


@pytest.mark.parametrize("name", ["gelu", "silu", "softplus", "leaky_relu", "elu"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_activations_keep_a_float_dtype(name, dtype):
    x = np.array([[0.5, -0.25, 0.75]], dtype)
    for part in (x, x[0, 0], x[:, :0]):
        agree(line(f"m.{name}(x)"), part, tol=1e-4)
    if name == "gelu":
        agree(line("m.gelu(x, approximate='tanh')"), x, tol=1e-4)


REDUCTIONS = [
    "m.sum(x)", "m.sum(x, 0)", "m.prod(x)", "m.prod(x, 1)", "m.mean(x)", "m.mean(x, 0)", "m.var(x)",
    "m.std(x, 0)", "m.max(x)", "m.max(x, 0)", "m.min(x, 1)", "m.amax(x)", "m.amin(x, 0)", "m.cumsum(x, 0)",
    "m.cumprod(x, 1)", "m.count_nonzero(x)", "m.logsumexp(x, 0)", "m.sort(x)", "m.argsort(x)",
    "m.sum(x, dtype=m.float64)", "m.mean(x, dtype=m.float64)", "m.prod(x, dtype=m.float32)",
    "m.cumsum(x, 0, dtype=m.float64)",
]  # fmt: skip


@pytest.mark.parametrize("text", REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_of_any_dtype(text, dtype):
    x = (np.array([[3, 0, 7], [1, 2, 6]]) / (8 if dtype in FLOATS else 1)).astype(dtype)
    agree(line(text), x, tol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_and_any_answer_with_bools(dtype):
    # uint8 for uint8, as PyTorch does from the time before it had bools.
    x = minitorch.tensor(first(dtype))
    assert x.all().dtype == x.any(0).dtype == (np.uint8 if np.dtype(dtype) == np.uint8 else np.bool_)


TOGETHER = [
    "m.cat([x, y])", "m.cat([y, x], 1)", "m.stack([x, y])", "m.where(x > 1, x, y)", "m.where(x > 1, x, y[0, 0])",
    "m.where(x > 1, x[0, 0], y)", "m.where(x > 1, x, 2)", "m.where(x > 1, x, 2.5)", "m.where(x > 1, True, x)",
    "m.clamp(x, min=y)", "m.clamp(x, max=y[0])", "m.add(x, y, alpha=2)", "m.sub(x, y, alpha=3)",
    "m.add(x, y, alpha=0.5)", "m.add(x, 2, alpha=3)", "m.outer(x[0], y[0])", "m.cat([x, m.zeros(0)])",
    "m.cat([m.zeros(0, dtype=m.int64), x])", "x.masked_fill(x > 1, 0)", "x.masked_fill(x > 1, 1.5)",
]  # fmt: skip


@pytest.mark.parametrize("text", TOGETHER)
def test_dtypes_that_meet(text):
    for a, b in itertools.product(DTYPES, DTYPES):
        x, y = (np.arange(6).reshape(2, 3) % 3).astype(a), (np.arange(1, 7).reshape(2, 3) % 4).astype(b)
        call = line(text, "x y")
        if pytorch_has_no_kernel(call, x, y):
            continue
        # Tensor bounds of clamp meet x in places here: see test_conventions for who gets the gradient.
        agree(call, x, y, tol=1e-5, gradients="clamp" not in text, where=f"{text} {a} {b}:")


@pytest.mark.parametrize("text", ["x @ y", "m.einsum('ij,jk->ik', x, y)", "m.tensordot(x, y, 1)"])
@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)))
def test_products_promote(text, a, b):
    # PyTorch asks for one dtype; minitorch finds the common one, as everywhere else.
    x = minitorch.tensor((np.arange(6).reshape(2, 3) % 3).astype(a))
    y = minitorch.tensor((np.arange(12).reshape(3, 4) % 4).astype(b))
    out = line(text, "x y")(minitorch, x, y)
    assert out.dtype == minitorch.promote_types(a, b)
    expected = x.numpy().astype(np.int64) @ y.numpy().astype(np.int64)
    np.testing.assert_array_equal(out.numpy(), expected.astype(out.dtype))


@pytest.mark.parametrize("a", DTYPES)
@pytest.mark.parametrize("b", DTYPES)
def test_promote_types_is_pytorchs(a, b):
    theirs = torch.promote_types(getattr(torch, a), getattr(torch, b))
    assert str(minitorch.promote_types(a, b)) == str(theirs).removeprefix("torch.")


# --- float32 in, float32 out: every public function ----------------------------------------------


def every_function():
    """Each public function with float32 arguments, as one line."""
    lines = {}
    for name in [
        *UNARY,
        "abs",
        "floor",
        "ceil",
        "trunc",
        "round",
        "gelu",
        "silu",
        "softplus",
        "elu",
        "leaky_relu",
    ]:
        if name not in ("bitwise_not", "logical_not", "isnan", "isinf", "isfinite"):
            lines[name] = f"m.{name}(x)"
    for name in [*BINARY[:10], "atan2", "hypot", "logaddexp", "dot", "outer"]:
        flat = ".reshape(-1)" if name in ("dot", "outer") else ""
        lines[name] = f"m.{name}(x{flat}, y{flat})"
    for name in ("sum", "mean", "prod", "max", "min", "amax", "amin", "median", "var", "std", "norm"):
        lines[name] = f"m.{name}(x)"
        lines[name + "(1)"] = f"m.{name}(x, dim=1)" + (".values" if name in ("max", "min", "median") else "")
    for name in ("cumsum", "cumprod", "softmax", "log_softmax", "logsumexp", "unsqueeze"):
        lines[name] = f"m.{name}(x, 1)"
    lines |= {
        "lerp": "m.lerp(x, y, 0.3)", "clamp": "m.clamp(x, 0.2, 0.6)", "clamp by tensors": "m.clamp(x, y - 1, y)",
        "where": "m.where(x > 0.5, x, y)", "pow by a number": "x ** 2.5", "number to a power": "2.5 ** x",
        "sort": "m.sort(x).values", "topk": "m.topk(x, 2).values", "reshape": "m.reshape(x, (-1,))",
        "permute": "m.permute(x, (1, 0))", "cat": "m.cat([x, y])", "stack": "m.stack([x, y])",
        "split": "m.split(x, 2)[0]", "unbind": "m.unbind(x)[1]", "tile": "m.tile(x, (2, 1))",
        "repeat_interleave": "m.repeat_interleave(x, 2)", "flip": "m.flip(x, (0,))", "roll": "m.roll(x, 1)",
        "pad": "m.pad(x, (1, 1))", "pad reflect": "m.pad(x, (1, 1), mode='reflect')", "tril": "m.tril(x)",
        "triu": "m.triu(x)", "diag": "m.diag(x)", "diagonal": "m.diagonal(x)", "diag_embed": "m.diag_embed(x)",
        "trace": "m.trace(x)", "unfold": "x.unfold(0, 2, 1)", "getitem": "x[m.tensor([0, 0, 1])]",
        "mask": "x[x > 0.5]", "gather": "m.gather(x, 0, m.tensor([[0, 1, 2]]))",
        "scatter": "m.scatter(x, 0, m.tensor([[0, 1, 2]]), y)", "index_add": "m.index_add(x, 0, m.tensor([0, 0, 1]), y)",
        "scatter_add": "m.scatter_add(x, 0, m.tensor([[0, 1, 2]]), y)", "index_select": "m.index_select(x, 0, m.tensor([0, 0]))",
        "take_along_dim": "m.take_along_dim(x, m.tensor([[0], [1], [2]]), 1)", "masked_fill": "m.masked_fill(x, x > 0.5, 2.0)",
        "masked_select": "m.masked_select(x, x > 0.5)", "matmul": "x @ y", "einsum": "m.einsum('ij,kj->ik', x, y)",
        "tensordot": "m.tensordot(x, y, 1)", "mv": "m.mv(x, y[0])", "bmm": "m.bmm(x[None], y[None])",
        "cross_entropy": "m.cross_entropy(x, m.tensor([0, 1, 2]))",
        "cross_entropy, probabilities": "m.cross_entropy(x, y, label_smoothing=0.1)",
        "cross_entropy, weights": "m.cross_entropy(x, m.tensor([0, 1, 2]), weight=y[0].detach())",
        "div floor": "m.div(x, y, rounding_mode='floor')", "inv": "m.linalg.inv(x + 3 * m.eye(3))",
        "solve": "m.linalg.solve(x + 3 * m.eye(3), y)", "det": "m.linalg.det(x + 3 * m.eye(3))",
        "slogdet": "m.linalg.slogdet(x + 3 * m.eye(3)).logabsdet",
        "cholesky": "m.linalg.cholesky(x @ x.mT + m.eye(3))", "qr": "m.linalg.qr(x + 3 * m.eye(3)).R",
        "eigh": "m.linalg.eigh(x + x.mT).eigenvalues", "svd": "m.linalg.svd(x).S", "pinv": "m.linalg.pinv(x)",
        "svdvals": "m.linalg.svdvals(x)", "eigvalsh": "m.linalg.eigvalsh(x + x.mT)",
        "matrix_power": "m.linalg.matrix_power(x, 3)", "matrix_norm": "m.linalg.matrix_norm(x, 2)",
        "vector_norm": "m.linalg.vector_norm(x, 3)", "linalg.trace": "m.linalg.trace(x)",
        "solve_triangular": "m.linalg.solve_triangular(x.triu() + 3 * m.eye(3), y, upper=True)",
        "lstsq": "m.linalg.lstsq(x, y).solution",
    }  # fmt: skip
    return lines


@pytest.mark.parametrize("text", list(every_function().values()), ids=list(every_function()))
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_float_dtype_goes_in_and_comes_out_also_for_gradients(text, dtype):
    if dtype is np.float16 and "linalg" in text and "norm(x, 3" not in text and "trace" not in text:
        pytest.skip("LAPACK has no half precision: a RuntimeError says so (test_errors)")
    x = minitorch.tensor(np.array([[0.1, 0.55, 0.3], [0.7, 0.2, 0.9], [0.4, 0.8, 0.65]]), dtype=dtype)
    y = minitorch.tensor(np.array([[0.6, 0.15, 0.35], [0.75, 0.25, 0.5], [0.45, 0.85, 0.95]]), dtype=dtype)
    x, y = x.requires_grad_(), y.requires_grad_()
    if "acosh" in text:
        text = text.replace("(x)", "(x + 1)")
    if "eye(3)" in text:
        text = text.replace("eye(3)", f"eye(3, dtype=np.{np.dtype(dtype)})")
    out = eval(text, {"m": minitorch, "x": x, "y": y, "np": np})
    assert out.dtype == dtype
    assert type(out.detach().numpy()) is np.ndarray
    if out.requires_grad:
        with minitorch.autograd.debug():
            out.sum().backward()
        for tensor in (x, y):
            if tensor.grad is not None:
                assert tensor.grad.dtype == dtype
                assert tensor.grad.shape == tensor.shape


@pytest.mark.parametrize(
    "text", ["x + 1", "x.sum()", "x * x", "x.exp()", "x.max()", "x[()]", "x @ x[None]", "-x"]
)
def test_rank_zero_results_are_arrays(text):
    x = minitorch.tensor(2.0, requires_grad=True)
    if "@" in text:
        x = minitorch.tensor([2.0], requires_grad=True)
        text = "x @ x"
    out = eval(text, {"x": x})
    assert isinstance(out.data, np.ndarray)
    assert out.shape == ()
    out.backward()
    assert isinstance(x.grad, np.ndarray)


# --- values at the edges --------------------------------------------------------------------------

nan, inf = float("nan"), float("inf")
EDGES = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 20.0, 21.0, 1000.0, -1000.0, 1e-8]
# Where PyTorch's derivative is finite although the value is nan, or the other way round.
DIFFER = {"acosh": lambda v: v < 1, "sign": np.isnan, "abs": np.isnan, "elu": np.isnan}


@pytest.mark.parametrize(
    "name", [*UNARY, "abs", "floor", "round", "gelu", "silu", "softplus", "leaky_relu", "elu"]
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_functions_at_nan_infinity_and_the_very_large(name, dtype):
    if name == "bitwise_not":
        pytest.skip("not for floats")
    limits = np.finfo(dtype)
    for value in np.array([*EDGES, limits.max, limits.min, limits.tiny], dtype):
        if name in DIFFER and DIFFER[name](value):
            continue
        agree(line(f"m.{name}(x)"), value, tol=1e-6, where=f"{name}({value!r}):")


def test_the_sign_of_nan_is_pytorchs():
    # NumPy's is nan.
    assert minitorch.tensor(nan).sign().item() == 0


def test_relu_lets_the_gradient_of_a_nan_pass():
    agree(line("m.relu(x)"), np.array([nan, 1.0, -1.0, 0.0]))


@pytest.mark.parametrize("size", [10, 10_000])
@pytest.mark.parametrize("g", [1.0, -2.5, inf, -inf, nan, 1e308])
@pytest.mark.parametrize(
    "text",
    [
        "m.relu(x)",
        "m.clamp(x, -0.3, 0.3)",
        "m.clamp(x, min=0.1)",
        "m.maximum(x, y)",
        "m.minimum(x, y)",
        "m.leaky_relu(x)",
        "m.where(x > 0, x, y)",
    ],
)
def test_what_is_cut_off_gets_exactly_zero(text, size, g):
    # On large arrays the cut is a multiplication, and inf·0 would be nan.
    x, y = np.random.default_rng(0).normal(size=(2, size))
    ours, theirs = (make(x) for make in (minitorch.tensor, torch.tensor))
    our_y, their_y = (make(y) for make in (minitorch.tensor, torch.tensor))
    for tensor in (ours, theirs, our_y, their_y):
        tensor.requires_grad_()
    call = line(text, "x y")
    call(minitorch, ours, our_y).backward(np.full(size, g))
    call(Functional(), theirs, their_y).backward(torch.full((size,), g, dtype=torch.float64))
    for mine, other in ((ours, theirs), (our_y, their_y)):
        if other.grad is not None:
            np.testing.assert_array_equal(mine.grad, other.grad.numpy())
            assert not np.signbit(mine.grad[mine.grad == 0]).any()


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 5, -1, -2, 0.5, -0.5, 2.5, 3.0, 4.0])
def test_powers_by_a_number(exponent):
    values = np.array([0.5, 1.5, 3.0, 2.0] if exponent != int(exponent) else [0.5, -1.5, 3.0, -2.0])
    for dtype in ("float64", "float32"):
        agree(lambda m, x: x**exponent, values.astype(dtype), tol=1e-6)
    if exponent >= 0 and exponent == int(exponent):
        agree(lambda m, x: x ** int(exponent), np.array([3, -2, 0, 7]))


@pytest.mark.parametrize("text", list(every_function().values()), ids=list(every_function()))
def test_nothing_warns(text):
    # A warning is an error in this suite. Some matrices have no answer; that is no warning either.
    for value in (nan, inf, -inf, 3e38, 0.0):
        x, y = minitorch.full((3, 3), value), minitorch.full((3, 3), value)
        with contextlib.suppress(minitorch.linalg.LinAlgError, np.linalg.LinAlgError):
            out = eval(text, {"m": minitorch, "x": x.requires_grad_(), "y": y.requires_grad_()})
            assert isinstance(out, minitorch.Tensor)
            if out.requires_grad:
                out.sum().backward()
                assert any(t.grad is not None for t in (x, y))


# --- closeness, and other names -------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "m.isclose(x, y)", "x.isclose(y)", "m.isclose(x, y, equal_nan=True)", "m.isclose(x, y, rtol=0.5)", "m.isclose(x, y[:2])",
        "m.isclose(x, y, atol=10.0, rtol=0.0)", "m.allclose(x, y)", "x.allclose(x)", "m.allclose(x, x, equal_nan=True)", "m.equal(x, x)",
    ],
)  # fmt: skip
def test_closeness(text):
    x = np.array([1.0, nan, inf, -inf, 0.0, 1.0])
    y = np.array([1.0 + 1e-9, nan, inf, inf, 1e-9, 1.1])
    agree(line(text, "x y"), x, y, gradients=False)
    agree(line(text, "x y"), np.arange(6), np.array([0, 1, 2, 3, 5, 5]), gradients=False)


def test_closeness_of_two_dtypes_is_that_of_their_common_one():
    # PyTorch asks for one dtype.
    assert minitorch.ones(2).allclose(minitorch.ones(2, dtype=np.float64))
    assert minitorch.tensor([1, 2]).isclose(minitorch.tensor([1.0, 2.5])).tolist() == [True, False]


ALIASES = (
    "absolute negative fix subtract multiply divide true_divide arcsin arccos arctan arctan2 arcsinh arccosh arctanh not_equal "
    "less less_equal greater greater_equal"
)


@pytest.mark.parametrize("name", ALIASES.split())
def test_other_names_as_methods_and_functions(name):
    two = name in [
        "subtract",
        "multiply",
        "divide",
        "true_divide",
        "arctan2",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
    ]
    x, y = np.array([0.3, 0.7, -0.2]) + (1.5 if name == "arccosh" else 0), np.array([0.5, 0.7, 2.0])
    for spelling in (f"m.{name}(x{', y' if two else ''})", f"x.{name}({'y' if two else ''})"):
        agree(line(spelling, "x y"), x, y)


@pytest.mark.parametrize(
    "line",
    [
        "x.sum(dtype=d)",
        "x.sum(0, dtype=d)",
        "x.cumsum(0, dtype=d)",
        "x.cumprod(0, dtype=d)",
        "x.prod(dtype=d)",
        "m.nansum(x, dtype=d)",
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "int64", "float32", "float16"])
def test_the_dtype_that_is_asked_for(line, dtype):
    for source in ("int64", "int32", "uint8", "float32", "bool"):
        made = [
            eval(
                line, {"m": m, "d": getattr(m, dtype), "x": m.tensor([[1, 2], [3, 0]]).to(getattr(m, source))}
            )
            for m in (minitorch, torch)
        ]
        assert str(made[0].dtype) == str(made[1].dtype).removeprefix("torch.") == dtype
        np.testing.assert_array_equal(made[0].numpy(), made[1].numpy())


ODD = [
    "x.all()", "x.any(0)", "x.trace()", "m.xlogy(x, 3)", "m.xlogy(x, 2.5)", "m.special.xlog1py(x, 3)", "x.float().sign()", "(x.float() / 0).sign()",
    "m.nn.functional.hardshrink(x.float() / 0)", "m.nn.functional.softshrink(x.float() / 0)", "m.fmod(x.float() + 1, x.float())",
]  # fmt: skip


@pytest.mark.parametrize("line", ODD)
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float32"])
def test_odd_dtypes_and_nans(line, dtype):
    with np.errstate(all="ignore"):
        mine, theirs = (
            eval(line, {"m": m, "x": m.tensor([[1, 2], [3, 0]]).to(getattr(m, dtype))})
            for m in (minitorch, torch)
        )
    assert str(mine.dtype) == str(theirs.dtype).removeprefix("torch.")
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=2e-3)
