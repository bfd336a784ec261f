"""Every differentiable op, by family: a forward and one derivative rule per input, NumPy only.

Read arithmetic.py first. To add an op: declare it in its family's file here, give it a method and a function with
a docstring in the file of the same name in tensor/methods/, and a row in proof/table.py.
"""

from minitorch.ops import (
    activation,
    arithmetic,
    comparison,
    complex,
    conv,
    exponential,
    indexing,
    joining,
    layers,
    linalg,
    loss,
    pool,
    products,
    reductions,
    rounding,
    shape,
    sorting,
    sparse,
    special,
    trigonometric,
)
from minitorch.ops.op import OPS, Op, unbroadcast

__all__ = [
    "OPS", "Op", "activation", "arithmetic", "comparison", "complex", "conv", "exponential", "indexing",
    "joining", "layers", "linalg", "loss", "pool", "products", "reductions", "rounding", "shape", "sorting",
    "sparse", "special", "trigonometric", "unbroadcast",
]  # fmt: skip
