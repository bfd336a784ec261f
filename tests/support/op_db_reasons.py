"""What the comparison with PyTorch's operator samples leaves out, and why. Read by op_db.py."""

INTEGER_FACTOR = "a float factor between integers would be cut to an integer; minitorch says so instead"
STORAGE = "the sample is a part of a larger storage, of which its copy for minitorch knows nothing"
ARBITRARY = "vectors beyond the rank are arbitrary: there is no derivative, and minitorch says so"

# (operator, a regular expression; pattern in the message; why minitorch raises there).
REASONS = [
    (
        r".*",
        r"not offered for complex numbers|dtype must be floating-point, got complex",
        "complex numbers are offered where they are natural (ops/complex.py lists the ops), and refused elsewhere",
    ),
    (r"addmv|addbmm|baddbmm|addmm.*|addr", r"beta and alpha must be ints", INTEGER_FACTOR),
    (r"nn\.functional\.avg_pool[123]d", r"a mean needs floating-point", "a mean of integers is no integer"),
    (r"nn\.functional\.avg_pool2d", r"stride must be one integer", "stride=() is no stride; leave it away"),
    (
        r"nn\.functional\.(multi_margin_loss|multilabel_margin_loss)",
        r"expects input",
        "a 0-d input has no axis of classes",
    ),
    (r"nn\.functional\.batch_norm", r"at least 2 axes", "an input without a channel axis"),
    (
        r"zero_",
        r"no attribute 'zero_'|would falsify its graph",
        "in place, in a tensor of a graph: refused, with the spelling to use instead",
    ),
    (r"(linalg\.)?svd", r"are arbitrary and have no derivative", ARBITRARY),
    (r"linalg\.qr", r"arbitrary, so there is no derivative|needs Q", ARBITRARY),
    (r"as_strided/partial_views", r"but the memory has", STORAGE),
    (r"linalg\.eig", r"up to multiplication", ARBITRARY),
    (r"histogramdd", r"must be monotonically increasing", "edges that go up and down again bound no bins"),
    (r"svd", r"for the singular values alone", "compute_uv=False is written linalg.svdvals"),
]

# (operator; pattern in the difference; why minitorch answers otherwise on purpose).
DIFFERENT = [
    (
        r"as_strided_scatter",
        r"^gradient 0 differs",
        "PyTorch gives x the gradient of the places that are overwritten, which gradcheck refutes",
    ),
    (r"as_strided/partial_views", r"^result 0 differs", STORAGE),
    (r"cov", r"^gradient 1 differs by 1.5e-05", "0 but for rounding, and in float32"),
    (
        r"cholesky_(inverse|solve)",
        r"^gradient",
        "of a triangular factor only the triangle that is read has a gradient; PyTorch gives one to the other too",
    ),
    (
        r"nn\.functional\.ctc_loss",
        r"^gradient",
        "PyTorch's gradient is that of the logits before log_softmax, which gradcheck refutes for any other use; "
        "minitorch's is that of its input. Behind log_softmax both are the same (test_nn_loss.py)",
    ),
]

# Results that are whatever was in memory: only shape and dtype are compared.
UNINITIALISED = {"empty", "empty_like", "new_empty", "empty_strided", "empty_permuted", "new_empty_strided"}

# Results that are unique up to signs or rotations: compared by PyTorch's own function that does not see them.
UP_TO_SIGN = {
    "linalg.eig",
    "linalg.eigh",
    "linalg.svd",
    "svd",
    "linalg.qr",
    "qr",
    "svd_lowrank",
    "pca_lowrank",
}

# Which of several equal elements is named is anybody's guess; the elements themselves are compared.
TIES = {"topk": 1, "kthvalue": 1, "sort": 0, "argsort": 0, "mode": 0}

# Functions that PyTorch itself computes to fewer digits.
LOOSE = dict.fromkeys(
    (
        "normal/number_mean",
        "special.bessel_j0",
        "special.bessel_j1",
        "special.bessel_y0",
        "special.bessel_y1",
    ),
    1e-05,
)
