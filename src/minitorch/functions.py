"""The functions of `minitorch.*` that tensors have as methods, and what belongs to no single tensor, by family.

Enters: Tensors or anything array-like. Leaves: Tensors. Each family's file says in `__all__` what it offers here.
"""

from minitorch.tensor.methods.activation import *
from minitorch.tensor.methods.arithmetic import *
from minitorch.tensor.methods.comparison import *
from minitorch.tensor.methods.complex import *
from minitorch.tensor.methods.exponential import *
from minitorch.tensor.methods.indexing import *
from minitorch.tensor.methods.joining import *
from minitorch.tensor.methods.linalg import *
from minitorch.tensor.methods.products import *
from minitorch.tensor.methods.public import with_out as _with_out
from minitorch.tensor.methods.reductions import *
from minitorch.tensor.methods.rounding import *
from minitorch.tensor.methods.shape import *
from minitorch.tensor.methods.sorting import *
from minitorch.tensor.methods.sparse import *
from minitorch.tensor.methods.special import *
from minitorch.tensor.methods.statistics import *
from minitorch.tensor.methods.trigonometric import *

# What is no method takes `out=` here, not inside: there nobody uses it.
for _name in (
    *(
        "bucketize",
        "cat",
        "chain_matmul",
        "column_stack",
        "concat",
        "concatenate",
        "dstack",
        "hstack",
        "matmul",
    ),
    *("polygamma", "row_stack", "searchsorted", "stack", "tensordot", "vstack", "where"),
):
    globals()[_name] = _with_out(globals()[_name])
