"""Recording an op: run its forward, and write down how the result was made.

Enters: an Op and its inputs. Leaves: a new Tensor that remembers them, if a gradient may be asked for. The same
with less overhead for the commonest ops is in fast.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.engine import bfloat16, errors, gpu, watch
from minitorch.engine import complex as complex_numbers
from minitorch.engine.dtypes import float16, float32, get_default_dtype, is_bfloat16, kind_of
from minitorch.engine.modes import Mode, current
from minitorch.engine.node import Node, new_tensor, write_down
from minitorch.engine.quiet import hush, restore
from minitorch.engine.reads import remember_what_is_read
from minitorch.engine.recording import recordings
from minitorch.engine.versions import note_view, rebased, synced
from minitorch.ops.narrow import narrowed, widened
from minitorch.ops.native import LARGE_IF_CHEAP
from minitorch.ops.op import Op
from minitorch.ops.rounding import CAST


def apply(op: Op, *inputs: Any, **attributes: Any) -> Any:
    """Run `op` on Tensors and Python numbers, and record it if a gradient may be asked for."""
    mode = current()
    if mode.precision is not None and mode.precision.cuda is not None and op.name in FLOAT32_THERE:
        inputs = tuple([_widened_there(each) for each in inputs])
    arrays = _arrays_of(op, inputs)
    data = forward(op, arrays, attributes)
    if mode.enabled and op.differentiable and _wants_gradient(inputs):
        out = new_tensor(data, op, inputs, attributes)
        if watch.exposed:
            remember_what_is_read(out)
    else:
        out = new_tensor(data)
    if getattr(data, "base", None) is not None and arrays:
        note_view(out, inputs[0], op, attributes, mode.enabled)
    if mode.observers:
        tell(mode, op, inputs, attributes, out)
    return out


# Ops that autocast lets a GPU compute in float32, as PyTorch does: their results leave float16's range, or lose by it.
FLOAT32_THERE = {
    "acos", "asin", "cosh", "cumprod", "cumsum", "erfinv", "exp", "expm1", "log", "log10", "log1p", "log2",
    "log_softmax", "logsumexp", "norm", "pow", "prod", "reciprocal", "rsqrt", "sinh", "softmax", "softplus", "square",
    "sum", "tan",
}  # fmt: skip


def _widened_there(thing: Any) -> Any:
    """Return a Tensor of half precision that lies on a GPU in float32; anything else as it is."""
    if not isinstance(thing, Node):
        return thing
    array = thing._data
    is_half = array.dtype == float16 or is_bfloat16(array.dtype)
    return apply(CAST, thing, dtype=float32) if is_half and gpu.device_of(array) is not None else thing


def _arrays_of(op: Op, inputs: Sequence[Any]) -> list[Any]:
    """Return what the forward computes on: the Tensors' arrays, and everything else as it is."""
    if rebased and current().enabled:
        for each in inputs:
            if isinstance(each, Node):
                synced(each)
    arrays = [each._data if isinstance(each, Node) else each for each in inputs]
    if op.floating:
        for i, array in enumerate(arrays):
            if getattr(array, "dtype", _FLOAT).kind in "iub":
                arrays[i] = array.astype(get_default_dtype())
    if complex_numbers.met:
        complex_numbers.check_complex(op, arrays)
    return arrays


def _wants_gradient(inputs: Sequence[Any]) -> bool:
    # `any` with a generator takes four times as long.
    for each in inputs:  # noqa: SIM110
        if isinstance(each, Node) and each._requires_grad:
            return True
    return False


# What a forward may raise that is ours to handle: arguments that do not fit, NumPy's floating-point warnings where
# someone made them errors, memory that is used up, and arrays that have to be computed on in another way.
TROUBLE = (*errors.EXPLAINED, RuntimeWarning, FloatingPointError, MemoryError, errors.AnotherWay)
_FLOAT = np.dtype(np.float64)


def forward(op: Op, arrays: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """Compute an op on arrays; what goes wrong is told in its words."""
    if bfloat16.met and bfloat16.is_computed_in_float32(op, arrays):
        return narrowed(forward(op, widened(arrays), attributes), arrays)
    run = op.forward
    # (Of arrays that record, the size may be known only when a program runs, or be what it must not depend on.)
    if op.of_large is not None and arrays[0].__class__ is np.ndarray and arrays[0].size >= LARGE_IF_CHEAP:
        run = op.of_large
    try:
        if recordings and (active := current().recorder) is not None:
            return active.run_op(op, "forward", op.forward, arrays, attributes)
        return run(*arrays, **attributes)
    except TROUBLE as error:
        return second_try(op, arrays, attributes, error)


def second_try(op: Op, arrays: Sequence[Any], attributes: dict[str, Any], error: BaseException) -> Any:
    """After a forward failed: compute quietly what is merely infinite or nan, explain everything else."""
    if isinstance(error.__cause__, errors.AnotherWay):  # NumPy tells it in words of its own (x[0] = value)
        error = error.__cause__
    if isinstance(error, errors.AnotherWay):
        return error.run(op.forward, arrays, attributes, op.name)
    assert isinstance(error, Exception)
    if isinstance(error, MemoryError):
        raise gpu.out_of_memory(op.name, error) from None
    if not isinstance(error, (RuntimeWarning, FloatingPointError)):
        raise errors.explain(op, arrays, attributes, error) from error
    token = hush()
    try:
        return op.forward(*arrays, **attributes)
    except errors.EXPLAINED as problem:
        raise errors.explain(op, arrays, attributes, problem) from problem
    finally:
        restore(token)


def tell(mode: Mode, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], out: Any) -> None:
    """Show a computed op to whoever looks on (detect_anomaly, checkpoint)."""
    for observer in mode.observers:
        observer(op, inputs, attributes, out)


# --- ops with several results -------------------------------------------------------------------------


class Outputs(list[Any]):
    """The arrays, or the gradients (None: nobody asked yet), of an op with several results."""

    __slots__ = ()
    shape = dtype = None

    def __add__(self, other: Any) -> Outputs:
        return Outputs(
            b if a is None else a if b is None else a + b for a, b in zip(self, other, strict=True)
        )

    def copy(self) -> Outputs:
        """Return the same arrays in a list of their own."""
        return Outputs(self)


class Bundle(Node):
    """The hidden node of an op with several results; each result selects one item from it."""

    __slots__ = ()


# Its derivative is in backward.py: the gradient goes to one place of the Bundle's.
SELECT = Op(
    "select",
    lambda bundle, *, index, count: bundle[index],
    joint=lambda *a, **k: (),
    reads=False,
    register=False,
)


def apply_many(op: Op, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
    """Run an op whose forward gives several arrays; its rules receive all their gradients at once."""
    arrays = _arrays_of(op, inputs)
    mode = current()
    results = tuple(forward(op, arrays, attributes))
    if mode.enabled and _wants_gradient(inputs):
        outs = bundle_outputs(op, inputs, attributes, results)
    else:
        outs = tuple(new_tensor(data) for data in results)
    for out in outs:
        if getattr(out._array, "base", None) is not None:
            note_view(out, inputs[0], None, attributes, mode.enabled)
        if mode.observers:
            tell(mode, op, inputs, attributes, out)
    return outs


def bundle_outputs(
    op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], results: Sequence[Any]
) -> tuple[Any, ...]:
    """Record an op with several results: one Bundle, and a Tensor per result that selects from it."""
    bundle = object.__new__(Bundle)
    write_down(bundle, Outputs(results), op, inputs, attributes)
    if watch.exposed:
        remember_what_is_read(bundle)
    return select_all(bundle)


def made_by(node: Any) -> Any:
    """Return the node of the op that made a tensor: itself, or the Bundle that it selects from."""
    return node._inputs[0] if node._operation is SELECT and node._inputs else node


def select_all(bundle: Bundle) -> tuple[Any, ...]:
    """Return a Tensor for each result of a Bundle."""
    outs = []
    for index, data in enumerate(bundle._data):
        differentiable = kind_of(data.dtype) in "fc"
        recipe = (SELECT, (bundle,), {"index": index, "count": len(bundle._data)}) if differentiable else ()
        outs.append(new_tensor(data, *recipe))
    return tuple(outs)
