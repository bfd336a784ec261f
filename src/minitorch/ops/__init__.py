"""Every differentiable op, by family: a forward and one derivative rule per input, NumPy only.

Read elementwise.py first. To add an op: declare it here, give it a method or function with a
docstring, and a row in proof/table.py.
"""

from minitorch.ops import (
    complex,
    contract,
    conv,
    elementwise,
    factors,
    indexing,
    layers,
    linalg,
    loss,
    pool,
    reduce,
    shape,
    special,
    statistics,
)
from minitorch.ops.op import OPS, Op, unbroadcast

__all__ = [
    "OPS",
    "Op",
    "complex",
    "contract",
    "conv",
    "elementwise",
    "factors",
    "indexing",
    "layers",
    "linalg",
    "loss",
    "pool",
    "reduce",
    "shape",
    "special",
    "statistics",
    "unbroadcast",
]
