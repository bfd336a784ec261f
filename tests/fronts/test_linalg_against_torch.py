"""minitorch.linalg, on matrices and batches of every kind, line by line against PyTorch."""

import math

import numpy as np
import pytest

import minitorch
from minitorch import linalg
from same_as_torch import agree, line

nan, inf = math.nan, math.inf
rng = np.random.default_rng(3)


def positive_definite(*shape):
    a = rng.normal(size=shape)
    return a @ a.swapaxes(-1, -2) + 3 * np.eye(shape[-1])


SQUARE = {
    "square": rng.normal(size=(3, 3)) + 2 * np.eye(3),
    "batch": rng.normal(size=(2, 3, 3)) + 2 * np.eye(3),
    "batch of batches": rng.normal(size=(2, 1, 2, 2)) + 2 * np.eye(2),
    "positive definite": positive_definite(3, 3),
    "positive definite batch": positive_definite(2, 3, 3),
    "one element": np.array([[2.0]]),
    "no matrices": np.zeros((0, 3, 3)),
    "empty matrix": np.zeros((0, 0)),
}
OTHERS = {
    "tall": rng.normal(size=(4, 2)),
    "wide": rng.normal(size=(2, 4)),
    "tall batch": rng.normal(size=(2, 4, 3)),
    "no rows": np.zeros((0, 3)),
}
NO_MATRIX = {"vector": rng.normal(size=3), "number": np.array(2.0)}
SINGULAR = {
    "singular": np.ones((3, 3)),
    "zeros": np.zeros((2, 2)),
    "one of a batch": np.stack([np.eye(2), np.ones((2, 2))]),
}


def table(text):
    return [entry for row in text.strip().splitlines() for entry in row.split("; ") if entry]


EVERYWHERE = table("""
inv(x); inv(A=x); det(x); slogdet(x); slogdet(x).logabsdet; matrix_power(x, 1); matrix_power(x, 3); matrix_power(x, -2); matrix_power(x, n=2)
qr(x).R.abs(); qr(x, mode='reduced').Q.abs(); qr(x, 'complete').R.abs(); qr(x, 'bad'); svd(x).S; svd(x, full_matrices=False).S; svdvals(x)
svd(x, False)[0].abs(); pinv(x); pinv(x, rtol=0.1); eigvalsh(x); eigvalsh(x, 'U'); eigh(x).eigenvalues; eigh(x, UPLO='U').eigenvalues
eigh(x, 'u')[0]; eigh(x, 'X'); solve(x, x); solve(x, x[..., 0]); solve(x, x, left=False); solve(A=x, B=x); solve(x, x[..., :1]); solve(x, x.mT)
solve_triangular(x, x, upper=True); solve_triangular(x, x, upper=False); solve_triangular(x, x, upper=True, left=False)
solve_triangular(x, x, upper=True, unitriangular=True); solve_triangular(x, x[..., :1], upper=False); solve_triangular(x, x)
vector_norm(x); vector_norm(x, 1); vector_norm(x, ord=inf); vector_norm(x, 0); vector_norm(x, 3, dim=0); vector_norm(x, dim=(0, 1), keepdim=True)
vector_norm(x, -1.5); vector_norm(x, keepdim=True); vector_norm(x, 'a'); vector_norm(x, dtype=m.float64); matrix_norm(x); matrix_norm(x, 1)
matrix_norm(x, -1); matrix_norm(x, 2); matrix_norm(x, -2); matrix_norm(x, inf); matrix_norm(x, -inf); matrix_norm(x, 'nuc'); matrix_norm(x, 3)
matrix_norm(x, ord='fro', dim=(0, 1)); matrix_norm(x, 2, dim=(1, 0), keepdim=True); matrix_norm(x, 'nuc', keepdim=True); matrix_norm(x, 'a')
matrix_norm(x, 1, dim=(0, 0)); matrix_norm(x, 1, (0, -1)); matrix_norm(x, 'fro', (0, 1), True)
norm(x); norm(x, 2); norm(x, 'fro'); norm(x, 'nuc'); norm(x, 1); norm(x, inf); norm(x, dim=0); norm(x, dim=(0, 1)); norm(x, 2, dim=0)
norm(x, 2, (0, 1)); norm(x, 1, dim=(0, 1), keepdim=True); norm(x, keepdim=True); norm(x, ord=None, dim=None); norm(x, 0); norm(x, 'a')
norm(x, 2, keepdim=True)
""")


@pytest.mark.parametrize("text", EVERYWHERE)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_matrices_and_batches(text, dtype):
    call = line("m.linalg." + text)
    for name, array in {**SQUARE, **OTHERS, **NO_MATRIX}.items():
        if "complete" in text and name in OTHERS:
            continue  # the last columns of Q are arbitrary: no derivative (test_errors)
        tol = 1e-7 if dtype == "float64" else 5e-3
        agree(call, array.astype(dtype), tol=tol, gradients=array.size > 0, where=f"{text} on {name}:")


DEFINITE = table(
    "cholesky(x); cholesky(x, upper=True); pinv(x, hermitian=True); eigh(x).eigenvectors.abs(); eigh(x, 'U').eigenvectors.abs()"
)


@pytest.mark.parametrize("text", DEFINITE)
def test_symmetric_matrices(text):
    for name in ("positive definite", "positive definite batch", "one element", "no matrices"):
        agree(line("m.linalg." + text), SQUARE[name], tol=1e-7, where=f"{text} on {name}:")
    for name, array in NO_MATRIX.items():
        agree(line("m.linalg." + text), array, where=f"{text} on {name}:")
    agree(line("m.linalg." + text), OTHERS["tall"], where=f"{text} on tall:")


@pytest.mark.parametrize(
    "text", ["lstsq(x, x[..., :1]).solution", "lstsq(x, x[..., 0]).solution", "lstsq(x, x).solution"]
)
def test_least_squares(text):
    for name in ("square", "batch", "positive definite", "one element"):
        agree(line("m.linalg." + text), SQUARE[name], tol=1e-7, where=f"{text} on {name}:")
    for name in ("tall", "tall batch"):
        agree(line("m.linalg." + text), OTHERS[name], tol=1e-7, where=f"{text} on {name}:")
    with pytest.raises(RuntimeError, match="lstsq"):
        linalg.lstsq(minitorch.ones(3, 2), minitorch.ones(4, 2))


@pytest.mark.parametrize("text", ["inv(x)", "solve(x, x)", "cholesky(x)", "matrix_power(x, -1)"])
@pytest.mark.parametrize("name", SINGULAR)
def test_singular_matrices_raise_linalg_error(text, name):
    call = line("m.linalg." + text)
    agree(call, SINGULAR[name])
    with pytest.raises(linalg.LinAlgError, match="singular|positive definite"):
        call(minitorch, minitorch.tensor(SINGULAR[name]))
    assert issubclass(linalg.LinAlgError, RuntimeError)


@pytest.mark.parametrize(
    "text", ["svd(x)", "svdvals(x)", "pinv(x)", "matrix_norm(x, 2)", "pinv(x, rtol=0.1)"]
)
def test_what_does_not_converge_says_why(text):
    x = minitorch.tensor([[1.0, nan], [nan, 1.0]])
    with pytest.raises(linalg.LinAlgError, match="nan"):
        line("m.linalg." + text)(minitorch, x)


def test_determinants_of_singular_and_broken_matrices():
    # PyTorch's gradient is 0 here: it divides by the determinant. The cofactors are not 0.
    x = minitorch.ones(2, 2, requires_grad=True)
    x.det().backward()
    np.testing.assert_allclose(x.grad, [[1, -1], [-1, 1]], atol=1e-6)
    broken = minitorch.tensor([[1.0, nan], [0.0, 1.0]], requires_grad=True)
    broken.det().backward()
    assert np.isnan(broken.grad).all()


def test_nothing_warns_about_nan():
    x = minitorch.tensor([[nan, 1.0], [inf, 1.0]], dtype=np.float64)
    for text in (
        "det(x)",
        "slogdet(x)",
        "qr(x)",
        "matrix_power(x, 2)",
        "vector_norm(x)",
        "matrix_norm(x, 1)",
        "trace(x)",
    ):
        found = line("m.linalg." + text)(minitorch, x)  # a warning would be an error here
        parts = found if isinstance(found, tuple) else (found,)
        assert not all(np.isfinite(part.numpy()).all() for part in parts), text


@pytest.mark.parametrize(
    "text", ["inv(x)", "det(x)", "svd(x).S", "qr(x).R", "eigvalsh(x)", "cholesky(x)", "solve(x, x)"]
)
def test_integers_are_computed_in_the_default_float(text):
    # PyTorch refuses them.
    x = np.array([[2, 1], [1, 3]])
    ours = line("m.linalg." + text)(minitorch, minitorch.tensor(x))
    assert ours.dtype == np.float32
    floats = line("m.linalg." + text)(minitorch, minitorch.tensor(x.astype(np.float32)))
    np.testing.assert_allclose(ours.data, floats.data)


def test_a_batch_and_a_single_matrix_broadcast():
    agree(line("m.linalg.solve(x, y)", "x y"), SQUARE["batch"], rng.normal(size=(3, 4)), tol=1e-8)
    agree(line("m.linalg.solve(x, y)", "x y"), SQUARE["square"], rng.normal(size=(5, 3, 4)), tol=1e-8)
    agree(line("m.linalg.solve(x, y)", "x y"), SQUARE["batch"], rng.normal(size=(2, 3)), tol=1e-8)
    agree(
        line("m.linalg.solve_triangular(x, y, upper=True)", "x y"),
        SQUARE["square"],
        rng.normal(size=(5, 3, 4)),
        tol=1e-8,
    )


OLDER = table(
    "m.inverse(x); m.det(x); m.slogdet(x); m.logdet(x); x.inverse(); x.det(); x.logdet(); x.slogdet(); m.trace(x); x.trace(); m.qr(x)[1].abs(); m.svd(x)[1]"
)


@pytest.mark.parametrize("text", OLDER)
def test_the_older_spellings(text):
    for name, array in {**SQUARE, **NO_MATRIX}.items():
        agree(line(text), array, tol=1e-7, where=f"{text} on {name}:")


def test_svd_in_the_older_spelling_gives_v_and_not_its_transpose():
    x = minitorch.tensor(OTHERS["tall"])
    u, s, v = minitorch.svd(x)
    np.testing.assert_allclose((u @ s.diag() @ v.mT).data, x.data, atol=1e-12)
    u, s, vh = linalg.svd(x, full_matrices=False)
    np.testing.assert_allclose((u @ s.diag() @ vh).data, x.data, atol=1e-12)


GENERAL = {
    "real": rng.normal(size=(4, 4)),
    "batch": rng.normal(size=(2, 3, 3)),
    "complex": rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3)),
    "one element": np.array([[2.0]]),
    "empty matrix": np.zeros((0, 0)),
}


@pytest.mark.parametrize("name", GENERAL)
def test_eigenvalues_of_any_square_matrix(name):
    for text in (
        "m.linalg.eigvals(x)",
        "m.linalg.eig(x)[0]",
        "m.linalg.eig(x)[1].abs()",
        "m.linalg.eig(x)[0].imag ** 2",
    ):
        agree(line(text), GENERAL[name], tol=1e-7, where=f"{text} on {name}:")


def test_a_loss_of_an_eigenvectors_phase_has_no_derivative():
    agree(lambda m, x: m.autograd.grad(m.linalg.eig(x)[1].imag.sum(), x), GENERAL["complex"])
    with pytest.raises(RuntimeError, match="phase of the eigenvectors"):
        linalg.eig(minitorch.tensor(GENERAL["complex"], requires_grad=True))[1].imag.sum().backward()


def test_what_does_not_depend_on_its_input_keeps_its_graph():
    agree(line("m.linalg.matrix_power(x, 0)"), SQUARE["batch"])
    agree(line("m.linalg.householder_product(x, y)", "x y"), np.zeros((3, 0)), np.zeros(0))
    agree(line("m.linalg.householder_product(x, y)", "x y"), np.zeros((3, 2)), np.zeros(0))


@pytest.mark.parametrize("tolerance", ["rtol", "atol"])
def test_a_tolerance_for_each_matrix(tolerance):
    matrices, limits = np.stack([np.diag([1.0, 0.1, 0.01])] * 2), np.array([0.5, 0.05])
    found = agree(lambda m, a, t: m.linalg.pinv(a, **{tolerance: t.detach()}), matrices, limits)
    assert isinstance(found.detach().numpy(), np.ndarray)
