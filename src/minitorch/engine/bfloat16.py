"""bfloat16 in the engine: two bytes in memory, float32 on the way. Enters: ops on such arrays. Leaves: such arrays.

NumPy has no bfloat16; the package ml_dtypes gives it one. No op is written for it: what an op reads is widened to
float32, and what it gives is rounded back, once (ops/narrow.py). That is also what processors do, and what PyTorch
computes. On a device the kernels do so on the way (ops/native.py). A program without bfloat16 pays for no more than the
question whether any was met.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from minitorch.engine.dtypes import is_bfloat16
from minitorch.ops.narrow import is_narrow
from minitorch.ops.native import computes_narrow
from minitorch.ops.op import Op

# Filled at the first bfloat16 tensor of this process: from then on ops and backward look out for them.
met: list[bool] = []
# These only look at an array, or move or convert what is in it: they take it as it is.
_AS_IT_IS = {
    "broadcast_to", "cast", "clone", "diagonal", "getitem", "index_put", "permute", "reshape", "select",
    "split", "to_int", "unbind", "unfold", "write_through",
}  # fmt: skip
# And so do the rules of these.
_BACK_AS_IT_IS = {"cast", "clone", "permute", "reshape"}


def meet_bfloat16(dtype: Any) -> None:
    """Note that there are bfloat16 tensors, if this is their dtype."""
    if not met and is_bfloat16(dtype):
        met.append(True)


def is_computed_in_float32(op: Op, arrays: Sequence[Any]) -> bool:
    """Tell whether an op is to be given other arrays than these: on a device, kernels read and write bfloat16."""
    if op.name in _AS_IT_IS or computes_narrow(op.forward, arrays):
        return False
    return any(map(is_narrow, arrays))


def are_given_float32(op: Op, rules: Iterable[Any], given: Sequence[Any]) -> bool:
    """Tell whether rules are to be given other arrays than these: a gradient, the result and the inputs."""
    if op.name in _BACK_AS_IT_IS or op.reads is False:  # (a person's Function reads nothing but the gradient)
        return False
    return not all(rule is None or computes_narrow(rule, given) for rule in rules)
