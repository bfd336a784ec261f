"""The one table, compiled: each case recorded on some numbers, run on others, and compared with eager."""

import numpy as np
import pytest

import minitorch
from cases import floats
from compiled import BACKENDS, assert_same, calls_of, compiled, put_off_audits
from minitorch.compiler.call.compiled import CompileError
from minitorch.proof.table import CASES
from tensors import weights

pytestmark = pytest.mark.filterwarnings("ignore:.*:RuntimeWarning:numpy")

# What no program can be written for: the shape of the result depends on the numbers.
REFUSED = {
    "masked_select": "as many elements as the mask has trues",
    "getitem": "x[mask] has as many rows as the mask has trues",
    "repeat_interleave": "by a tensor of counts: their sum is the length of the result",
}
# What is called back into NumPy or SciPy: factorisations, which are LAPACK's; special functions, which are SciPy's;
# and a few functions of NumPy that no primitive comes near to.
LAPACK = {"svd", "inv", "solve", "det", "slogdet", "cholesky", "qr", "eigh", "eigvalsh"}
SPECIAL = {
    "gammaln", "psi", "_zeta", "airy", "erfc", "i0", "i1", "erfinv", "gammainc", "gammaincc", "erfcx", "log_ndtr", "i0e", "i1e",
    "entr", "ndtri", "j0", "j1", "y0", "y1", "k0", "k1", "k0e", "k1e", "eval_chebyt", "eval_chebyu", "eval_sh_chebyt",
    "eval_sh_chebyu", "eval_hermite", "eval_hermitenorm", "eval_laguerre", "eval_legendre",
}  # fmt: skip
OTHERS = {"nextafter", "frexp", "gcd", "lcm", "accumulate", "searchsorted"}
# No kernel computes with complex numbers: all they meet is called back.
COMPLEX = {
    "complex",
    "real",
    "imag",
    "conj",
    "angle",
    "polar",
    "view_as_real",
    "fft",
    "abs",
    "eig",
    "eigvals",
}


def is_refused(case):
    if case.op == "masked_select":
        return True
    if case.op == "getitem":
        return any(a.dtype == bool for a in case.arrays())
    return case.op == "repeat_interleave" and len(case.inputs) == 2


def call(case, *tensors):
    """Call a case. What looks at the memory of an argument is refused: here that is made inside."""
    return case.call(minitorch, *(t.clone() for t in tensors) if case.op == "as_strided" else tensors)


numbered = [pytest.param(case, id=f"{i}-{case.op}") for i, case in enumerate(CASES)]
recordable = [p for p in numbered if not is_refused(p.values[0])]
differentiable = [p for p in recordable if p.values[0].differentiable]
by_plain_and_native = pytest.mark.parametrize("backend", [b for b in BACKENDS if b in ("numpy", "native")])
# What a backend computes differently in single precision shows in code of its own: the others need one precision.
in_single = [
    pytest.param(b, np.float32, id=f"float32-{b}") for b in ("native", "gpu") if "native" in BACKENDS
]
everywhere = pytest.mark.parametrize(
    ("backend", "dtype"), [*(pytest.param(b, np.float64, id=f"float64-{b}") for b in BACKENDS), *in_single]
)


def tensors_of(case, trial, dtype, requires_grad=True):
    return [
        minitorch.tensor(a, dtype=dtype, requires_grad=requires_grad and case.differentiable)
        if a.dtype.kind == "f"
        else minitorch.tensor(a)
        for a in case.arrays(trial)
    ]


def starts(outputs):
    chosen = [o for o in outputs if o.requires_grad]
    return chosen, [minitorch.tensor(weights(o.shape, o.dtype)) for o in chosen]


FACTORISED = {
    "inv", "solve", "solve_triangular", "det", "cofactor", "logabsdet", "det_sign", "logdet", "cholesky", "qr", "pinv",
    "eigh", "eigvalsh", "svd", "svdvals", "lstsq", "matrix_power", "matrix_norm", "norm",
}  # fmt: skip


def slack(case):
    """Factorisations in single precision lose digits to the condition of the matrix."""
    return 10.0 if case.op in FACTORISED else 1.0


@everywhere
@pytest.mark.parametrize("case", recordable)
def test_values_and_gradients_inside(case, dtype, backend):
    def step(*tensors):
        outputs = floats(call(case, *tensors))
        if case.differentiable:
            minitorch.autograd.backward(*starts(outputs))
        return [o.detach() for o in outputs]

    run = compiled(step, backend)
    for trial in (0, 1, 2):
        ours, theirs = (tensors_of(case, trial, dtype) for _ in range(2))
        for a, b in zip(run(*ours), step(*theirs), strict=True):
            assert_same(a, b, case.op, slack(case))
        for a, b in zip(ours, theirs, strict=True):
            assert (a.grad is None) == (b.grad is None)
            if b.grad is not None:
                assert_same(a.grad, b.grad, f"gradient of {case.op}", slack(case))
        if not (backend == "native" and dtype == np.float64):
            put_off_audits(run)
    assert run.compilations == 1, run.cache.reasons
    called = calls_of(run)
    if case.op not in COMPLEX:
        assert set(called) <= LAPACK | SPECIAL | OTHERS, f"{case.op} calls {called} back"


@by_plain_and_native
@pytest.mark.parametrize("case", differentiable)
def test_gradients_from_outside(case, backend):
    def function(*tensors):
        return floats(call(case, *tensors))

    run = compiled(function, backend)
    for trial in (0, 1):
        ours, theirs = (tensors_of(case, trial, np.float64) for _ in range(2))
        mine, other = run(*ours), function(*theirs)
        assert [o.requires_grad for o in mine] == [o.requires_grad for o in other]
        for outputs in (mine, other):
            minitorch.autograd.backward(*starts(outputs))
        for a, b in zip(ours, theirs, strict=True):
            assert (a.grad is None) == (b.grad is None)
            if b.grad is not None:
                assert_same(a.grad, b.grad, f"gradient of {case.op}", slack(case))
        put_off_audits(run)
    assert run.compilations == 1, run.cache.reasons


@by_plain_and_native
@pytest.mark.parametrize("case", differentiable)
def test_second_order_inside(case, backend):
    def step(*tensors):
        wanted = [t for t in tensors if t.requires_grad]
        chosen, start = starts(floats(call(case, *tensors)))
        first = minitorch.autograd.grad(chosen, wanted, start, create_graph=True, allow_unused=True)
        first = [g for g in first if g is not None]
        again, start = starts(first)
        if not again:
            return first
        second = minitorch.autograd.grad(again, wanted, start, allow_unused=True)
        return [*(g.detach() for g in first), *(g for g in second if g is not None)]

    run = compiled(step, backend)
    for trial in (0, 1):
        ours, theirs = (tensors_of(case, trial, np.float64) for _ in range(2))
        mine, other = run(*ours), step(*theirs)
        assert len(mine) == len(other)
        for a, b in zip(mine, other, strict=True):
            assert_same(a, b, f"second derivative of {case.op}", 10 * slack(case))
        put_off_audits(run)
    assert run.compilations == 1, run.cache.reasons


@pytest.mark.parametrize("case", [p for p in numbered if is_refused(p.values[0])])
def test_results_whose_shape_depends_on_numbers_are_refused(case):
    assert case.op in REFUSED

    def function(*tensors):
        return case.call(minitorch, *tensors)

    run = minitorch.compile(function, backend="numpy", fullgraph=True)
    tensors = tensors_of(case, 0, np.float64)
    with pytest.raises(CompileError, match=r"shape of the result.*\n.*table\.py:\d+: "):
        run(*tensors)
