"""A short path for the walk backwards: ops with one or two rules, on arrays, without lists and calls in between."""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from minitorch.engine import bfloat16
from minitorch.engine.node import Node
from minitorch.engine.record import Outputs
from minitorch.ops.arithmetic import ADD
from minitorch.ops.native import LARGE_IF_CHEAP, is_of_device
from minitorch.ops.op import unbroadcast
from minitorch.ops.rounding import CAST


def added_up(a: Any, b: Any) -> Any:
    """Return the sum of two gradients of a node."""
    if a.__class__ is b.__class__:
        if a.__class__ is ndarray and ADD.of_large is not None and a.size >= LARGE_IF_CHEAP:
            return ADD.of_large(a, b)
        if is_of_device(a):
            return ADD.forward(a, b)
    return a + b


def converted(gradient: Any, dtype: Any) -> Any:
    """Return a gradient in the dtype of the tensor that it is for: on a device by a kernel."""
    return CAST.forward(gradient, dtype=dtype) if is_of_device(gradient) else gradient.astype(dtype)


def pull_back(node: Any, g: Any, pending: dict[Node, Any], own: set[Node]) -> bool:
    """Do what `backward.Walk.pull_back` does for the commonest ops; return whether it was one."""
    given: Any
    op, inputs, attributes = node._operation, node._inputs, node._attributes
    if not op.plain or len(inputs) != len(op.rules):
        return False
    if g.__class__ is not ndarray and (g.__class__ is Outputs or hasattr(g, "__minitorch_gradient__")):
        return False
    rules = op.rules
    if bfloat16.met and g.dtype.kind == "V" and bfloat16.are_given_float32(op, rules, (g,)):
        return False
    if op.of_large is not None and g.__class__ is ndarray and g.size >= LARGE_IF_CHEAP:
        rules = op.rules_of_large
    if len(inputs) == 1:
        (a,), (rule,), out = inputs, rules, node._array
        contribution = rule(g, out, a._array, **attributes) if attributes else rule(g, out, a._array)
        given = ((a, contribution),)
    elif attributes:
        return False
    else:
        a, b = inputs
        left, right = rules
        out = node._array
        if not isinstance(a, Node):
            given = ((b, right(g, out, a, b._array)),)
        elif not isinstance(b, Node):
            given = ((a, left(g, out, a._array, b)),)
        else:
            x, y = a._array, b._array
            if a._requires_grad and b._requires_grad:
                given = ((a, left(g, out, x, y)), (b, right(g, out, x, y)))
            elif a._requires_grad:
                given = ((a, left(g, out, x, y)),)
            else:
                given = ((b, right(g, out, x, y)),)
    for parent, contribution in given:
        like, made = parent._array, contribution
        if contribution.shape != like.shape:
            contribution = unbroadcast(contribution, like.shape)
        if contribution.dtype is not like.dtype and contribution.dtype != like.dtype:
            contribution = converted(contribution, like.dtype)
        if parent in pending:
            pending[parent] = added_up(pending[parent], contribution)
            if parent._operation is None:
                own.add(parent)
        else:
            pending[parent] = contribution
            if parent._operation is None and op.gives_own_arrays:
                # The rule has made an array, or it was made of what the rule has given (see `backward._is_new`).
                is_made = made is not g and made.base is None
                if is_made or (contribution is not made and contribution.base is None):
                    own.add(parent)
    return True
