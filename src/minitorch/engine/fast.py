"""The short paths: what `record.apply` does for the commonest ops, at half its overhead.

Arithmetic between small tensors is where a library like this spends its time outside NumPy. A short path does
nothing that `apply` does not do: where anything uncommon is at hand it calls `apply`. The functions differ in how the
forward is called and when a gradient is wanted; the rest is one text, written out for each of them, because a call
per op would cost a tenth of the whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.engine import bfloat16, node
from minitorch.engine import complex as complex_numbers
from minitorch.engine.modes import USUAL, attention, current
from minitorch.engine.node import NO_ATTRIBUTES
from minitorch.engine.record import FLOAT32_THERE, TROUBLE, apply, second_try
from minitorch.engine.recording import recordings
from minitorch.engine.versions import VIEWED, is_view, note_view, rebased
from minitorch.engine.watch import exposed, is_exposed, tick
from minitorch.ops.native import LARGE_IF_CHEAP
from minitorch.ops.op import REFUSED

_TEMPLATE = """
def {name}({parameters}):
    {start}
    if (attention or exposed or (bfloat16_met and {first}.dtype.kind == 'V')) and (
        recordings
        or (rebased and ({is_view}))
        or (exposed and ({is_exposed}))
        or (complex_met and op.complex is REFUSED)
        or (bfloat16_met and {first}.dtype.kind == 'V' and computed_in_float32(op, ({arrays})))
        or (mode := current()).observers
        or (mode.precision is not None and mode.precision.cuda is not None and op.name in FLOAT32_THERE)
    ){or_uncommon}:
        return {apply}
    forward = op.forward  # in a name of its own: calling it as a method would look it up the slow way
    if op.of_large is not None and {first}.size >= LARGE:
        forward = op.of_large
    try:
        data = {forward}
    except TROUBLE as error:
        data = second_try(op, ({arrays}), {attributes}, error)
    out = new(node.result_class)
    kind = data.__class__
    if kind is ndarray or kind is {first}.__class__ or not isinstance(data, generic):
        out._array = data
    else:
        out._array = asarray(data)
    out._gradient = None
    out._hooks = None
    if ({wants_gradient}) and ((mode := current()) is USUAL or mode.enabled) and op.differentiable:
        out._requires_grad = True
        out._operation = op
        out._inputs = ({inputs})
        out._attributes = {attributes}
    else:
        out._requires_grad = False
        out._operation = None
        out._inputs = ()
        out._attributes = NO_ATTRIBUTES
    out._time = tick()
    out._view = None
    {look_for_a_view}
    return out
"""
_NAMES = {
    "FLOAT32_THERE": FLOAT32_THERE,
    "LARGE": LARGE_IF_CHEAP,
    "NO_ATTRIBUTES": NO_ATTRIBUTES,
    "REFUSED": REFUSED,
    "TROUBLE": TROUBLE,
    "USUAL": USUAL,
    "VIEWED": VIEWED,
    "apply": apply,
    "attention": attention,
    "asarray": np.asarray,
    "bfloat16_met": bfloat16.met,
    "computed_in_float32": bfloat16.is_computed_in_float32,
    "complex_met": complex_numbers.met,
    "current": current,
    "exposed": exposed,
    "float32": np.dtype(np.float32),
    "generic": np.generic,
    "is_exposed": is_exposed,
    "is_view": is_view,
    "ndarray": np.ndarray,
    "new": object.__new__,
    "node": node,
    "note_view": note_view,
    "rebased": rebased,
    "recordings": recordings,
    "second_try": second_try,
    "tick": tick,
}


def _short_path(name: str, documentation: str, **places: str) -> Any:
    space: dict[str, Any] = dict(_NAMES)
    places = {"attributes": "NO_ATTRIBUTES", "or_uncommon": "", "start": "", "look_for_a_view": "", **places}
    exec(compile(_TEMPLATE.format(name=name, **places), f"{__file__}:{name}", "exec"), space)
    space[name].__doc__ = documentation
    return space[name]


apply_unary = _short_path(
    "apply_unary",
    "Do what `apply` does for one Tensor.",
    parameters="op, x, attributes=NO_ATTRIBUTES",
    is_view="is_view(x)",
    is_exposed="attributes or is_exposed(x)",  # attributes may hold an index that others can write into
    start="array = x._array",
    or_uncommon=" or (op.floating and array.dtype.kind not in 'fcV')",
    apply="apply(op, x, **attributes)",
    arrays="array,",
    first="array",
    forward="forward(array, **attributes) if attributes else forward(array)",
    wants_gradient="x._requires_grad",
    inputs="x,",
    attributes="attributes",
    look_for_a_view="""
    # What note_view does. An op without attributes that gives a view (the real part) does not come here.
    if attributes and (base := data.base) is not None:
        if base is array or base is array.base:
            out._view = x if out._requires_grad else (x, op, attributes, (mode := current()) is USUAL or mode.enabled)
            if x._view is None:
                x._view = VIEWED
        else:
            note_view(out, x, op, attributes, current().enabled)""",
)
apply_along = _short_path(
    "apply_along",
    "Do what `apply` does for one Tensor and an axis, of an op that gives no view.",
    parameters="op, x, axis",
    is_view="is_view(x)",
    is_exposed="is_exposed(x)",
    start="array = x._array",
    or_uncommon=" or (op.floating and array.dtype is not float32 and array.dtype.kind not in 'fcV')",
    apply="apply(op, x, axis=axis)",
    arrays="array,",
    first="array",
    forward="forward(array, axis=axis)",  # (a dict of it, unpacked, would take a tenth of a small op)
    wants_gradient="x._requires_grad",
    inputs="x,",
    attributes="{'axis': axis}",
)
apply_binary = _short_path(
    "apply_binary",
    "Do what `apply` does for two Tensors of one dtype and no attributes.",
    parameters="op, a, b",
    is_view="is_view(a) or is_view(b)",
    is_exposed="is_exposed(a) or is_exposed(b)",
    or_uncommon=" or (op.floating and a._array.dtype.kind not in 'fcV')",
    apply="apply(op, a, b)",
    arrays="a._array, b._array",
    first="a._array",
    forward="forward(a._array, b._array)",
    wants_gradient="a._requires_grad or b._requires_grad",
    inputs="a, b",
)
apply_to_number_and_tensor = _short_path(
    "apply_to_number_and_tensor",
    "Do what `apply` does for a Python number and a Tensor of floats.",
    parameters="op, number, x",
    is_view="is_view(x)",
    is_exposed="is_exposed(x)",
    apply="apply(op, number, x)",
    arrays="number, x._array",
    first="x._array",
    forward="forward(number, x._array)",
    wants_gradient="x._requires_grad",
    inputs="number, x",
)
apply_to_tensor_and_number = _short_path(
    "apply_to_tensor_and_number",
    "Do what `apply` does for a Tensor of floats and a Python number.",
    parameters="op, x, number",
    is_view="is_view(x)",
    is_exposed="is_exposed(x)",
    apply="apply(op, x, number)",
    arrays="x._array, number",
    first="x._array",
    forward="forward(x._array, number)",
    wants_gradient="x._requires_grad",
    inputs="x, number",
)


apply_ternary = _short_path(
    "apply_ternary",
    "Do what `apply` does for a Tensor and two more, or None in the place of one.",
    parameters="op, a, b, c, attributes=NO_ATTRIBUTES",
    is_view="is_view(a) or (b is not None and is_view(b)) or (c is not None and is_view(c))",
    is_exposed="True",
    or_uncommon=" or op.floating",
    apply="apply(op, a, b, c, **attributes)",
    arrays="a._array, None if b is None else b._array, None if c is None else c._array",
    first="a._array",
    forward="forward(a._array, None if b is None else b._array, None if c is None else c._array, **attributes)",
    wants_gradient=(
        "a._requires_grad or (b is not None and b._requires_grad) or (c is not None and c._requires_grad)"
    ),
    inputs="a, b, c",
    attributes="attributes",
    look_for_a_view="""
    if data.base is not None:
        note_view(out, a, op, attributes, current().enabled)""",
)


def new_result(array: Any, op: Any = None, _new: Any = object.__new__, _nothing: Any = NO_ATTRIBUTES) -> Any:
    """Do what `new_tensor` does for an array, where nobody records: a compiled function's result.

    op: of one whose graph was used up inside.
    """
    out = _new(node.result_class)
    out._array = array
    out._gradient = None
    out._hooks = None
    out._requires_grad = op is not None
    out._operation = op
    out._inputs = ()
    out._attributes = _nothing
    out._time = tick()
    out._view = None
    return out
