"""What an operation is: a forward and its derivative rules, in plain NumPy.

Enters: NumPy functions. Leaves: `Op` objects, listed by name in `OPS`. Knows NumPy alone.

A rule answers one question: given `g`, the gradient of the loss with respect to this op's output,
what is the gradient with respect to one of its inputs? It receives `g`, then the output, then all
inputs in order, then the op's attributes by keyword:

    EXP = Op("exp", np.exp,      lambda g, out, x: g * out)
    MUL = Op("mul", np.multiply, lambda g, out, x, y: g * y, lambda g, out, x, y: g * x)

Rules ignore broadcasting: the engine sums each gradient back to its input's shape, once, for all
ops. Rules never write into what they are given. They say nothing about Tensors, and because Tensor
speaks NumPy's protocols the same lines run on arrays (a gradient) and on Tensors (a gradient that
can be differentiated again). Where a rule reads only an input's shape it writes `x.shape`, and
changing that input's values before backward stays harmless.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from minitorch.ops.narrow import takes_narrow
from minitorch.ops.native import (
    ANY,
    ELEMENTWISE,
    Shortcut,
    natively,
    natively_there,
    shortened,
    when_large,
)
from minitorch.ops.sums import total, total_there

# An array of any kind that speaks NumPy's protocols: numpy.ndarray, cupy.ndarray, Tensor, …
Array = Any
Rule = Callable[..., Any]

OPS: dict[str, Op] = {}
UNLISTED: list[Op] = []  # further ones that may be kernels

# What an op's rules make of complex numbers: it refuses them; its rules, written for real numbers, are the
# derivative of an analytic function, and the engine conjugates around them; its rules say all themselves.
REFUSED, ANALYTIC, OWN = "refused", "analytic", "own"

# What NumPy computes as fast as memory allows.
_CHEAP = frozenset(
    getattr(np, name)
    for name in (  # noqa: SIM905
        "add subtract multiply true_divide negative square absolute copysign maximum minimum fmax fmin sqrt floor ceil "
        "trunc conjugate"
    ).split()
)


class Op:
    """One operation: `forward` computes it, one rule per input differentiates it.

    Parameters
    ----------
    name: the tag a person sees in `tensor._op` and, capitalised, in `tensor.grad_fn`.
    forward: takes arrays by position and attributes by keyword; may be the NumPy ufunc itself.
    rules: one per input, in order; None for an input without a derivative (a mask, an index).
        No rules at all: the op is never recorded (a comparison, argmax).
    each: instead of rules, for any number of inputs: `each(i, g, out, *inputs, **attributes)`.
    joint: instead of rules, all gradients at once: `joint(g, out, *inputs, **attributes)` gives a
        sequence with one gradient (or None) per input.
    floating: integers and bools become the default float before the forward runs.
    takes_none: a joint rule of several results gets None, not zeros, for those nobody used.
    reads: whether the rules read values of the inputs or the result; None: found out when it matters. Numbers: those
        of the inputs, and of these results.
    native: of large arrays forward and rules may be computed by native kernels of their lines (see native.py); or only
        the forward, by kernels for these lengths: the rules call other ops that have theirs.
    elementwise: they compute each element from those at its place. costly: that takes NumPy many steps.
    there: on a GPU they may, though not here (of NumPy's ufuncs that is understood); or only "forward".
    whole: a kind of array may take the forward over as a whole (see `__call__`), and not only its lines.
    register: whether to list it in OPS; a user's own op is not.
    own: whether the rules give new arrays, or g itself, or a view of it; None: if it is listed.

    `complex` says what its rules make of complex numbers (see ops/complex.py, which sets it), `tangent` how its result
    moves when its inputs do (ops/tangents.py; None: the rules tell), `ufunc` which of NumPy's it is, if it is one;
    `of_large` and `rules_of_large` are forward and rules for large arrays, where these differ and such were met.
    """

    __slots__ = (
        "complex",
        "differentiable",
        "each",
        "elementwise",
        "floating",
        "forward",
        "gives_own_arrays",
        "joint",
        "name",
        "native",
        "of_large",
        "plain",
        "reads",
        "rules",
        "rules_of_large",
        "takes_none",
        "tangent",
        "there",
        "ufunc",
    )

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any],
        *rules: Rule | None,
        each: Rule | None = None,
        joint: Rule | None = None,
        floating: bool = False,
        takes_none: bool = False,
        reads: bool | frozenset[int] | None = None,
        native: bool | str = False,
        elementwise: bool = False,
        costly: bool = False,
        there: bool | str = False,
        whole: bool = False,
        register: bool = True,
        own: bool | None = None,
    ) -> None:
        self.name = name
        self.ufunc = forward if isinstance(forward, np.ufunc) else None
        if native:
            lengths = native if isinstance(native, str) else ELEMENTWISE if elementwise else ANY
            lines = self.__call__ if whole else forward  # (what takes it over as a whole does so in a kernel)
            forward = natively(lines, lengths, forward, costly)
            if native is True:
                rules = tuple(None if r is None else natively(r, lengths, costly=costly) for r in rules)
                joint = None if joint is None else natively(joint)
        self.there = False if native else there or (self.ufunc is not None and self.ufunc.signature is None)
        self.elementwise = elementwise or self.ufunc is not None
        self.forward = self._as_a_whole(forward) if whole else forward
        self.rules = rules
        self.each = each
        self.joint = joint
        self.floating = floating
        self.takes_none = takes_none
        self.reads = reads
        self.differentiable = bool(rules or each or joint)
        self.complex = REFUSED if register else OWN
        self.tangent: Callable[..., Any] | None = None
        self.of_large: Callable[..., Any] | None = None
        self.rules_of_large: tuple[Rule | None, ...] = ()
        # (A person's rules may give any array they hold.)
        self.gives_own_arrays = register if own is None else own
        self.plain = len(rules) in (1, 2) and None not in rules  # the engine's short way is for these
        self.native = bool(native)
        if register:
            if name in OPS:
                raise ValueError(f"an op named {name!r} exists already")
            OPS[name] = self
        elif native:
            UNLISTED.append(self)

    def open_to_devices(self) -> None:
        """Let kernels of a device compute forward and rules: called when arrays on one are first met."""
        if self.there:
            lengths = ELEMENTWISE if self.elementwise else ANY
            self.forward = natively_there(self.forward, lengths)
            if not isinstance(self.there, str):
                self.rules = tuple(
                    r if r is None or r is unchanged else natively_there(r, lengths) for r in self.rules
                )
            self.there = False

    def shorten(self, shortcut: Shortcut) -> None:
        """Let kernels of a device that were used before be called by a shortcut, in forward and rules."""
        self.forward = shortened(self.forward, shortcut) or self.forward
        self.rules = tuple(shortened(rule, shortcut) for rule in self.rules)
        self.joint = shortened(self.joint, shortcut)

    def open_to_large(self) -> None:
        """Let kernels compute a ufunc of NumPy's, and its rules, on large arrays: called when such are first met."""
        if self.ufunc is not None and self.ufunc.signature is None and self.differentiable:
            if self.native:
                return
            self.of_large = natively(self.forward, ELEMENTWISE, cheap=self.ufunc in _CHEAP)
            # (They are mostly products, cheap as well, or g itself.)
            self.rules_of_large = tuple(
                None if r is None else natively(r, ELEMENTWISE, cheap=True) for r in self.rules
            )

    def __repr__(self) -> str:
        return f"Op({self.name!r})"

    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        """Compute it, inside another op's rule: on arrays the forward, on Tensors a recorded op.

        A kind of array takes ops over by a method `__minitorch_op__(op, inputs, attributes)`, in the
        way `__array_function__` takes over NumPy's functions.
        """
        for each in inputs:
            if each.__class__ is np.ndarray:
                continue
            take_over = getattr(each, "__minitorch_op__", None)
            if take_over is not None:
                return take_over(self, inputs, attributes)
        return self.forward(*inputs, **attributes)

    def _as_a_whole(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(forward)
        def run(*inputs: Any, **attributes: Any) -> Any:
            for each in inputs:
                if each.__class__ is not np.ndarray and hasattr(each, "__minitorch_op__"):
                    return each.__minitorch_op__(self, inputs, attributes)
            return forward(*inputs, **attributes)

        return run

    def rules_for(self, count: int) -> Sequence[Rule | None]:
        """Return one rule per input, for an op called with `count` inputs."""
        if self.each is None:
            return self.rules
        return [_one_of(self.each, i) for i in range(count)]


def _one_of(each: Rule, i: int) -> Rule:
    """Return the rule of one input, of a rule for any."""

    def rule(*args: Any, **attributes: Any) -> Any:
        return each(i, *args, **attributes)

    return takes_narrow(rule) if getattr(each, "takes_narrow", False) else rule


@takes_narrow
def unchanged(g: Array, out: Array, x: Any, y: Any, z: Any = None) -> Array:
    """Return the gradient as it is: the rule of an input that is added."""
    return g


def _open_to_large() -> None:
    for op in list(OPS.values()):
        op.open_to_large()


when_large(_open_to_large)


def unbroadcast(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Undo broadcasting: sum `gradient` over the axes along which `shape` was stretched.

    Why a sum: an element that was stretched took part in several output elements, and by the chain
    rule its gradient is the sum over all of them.

    >>> unbroadcast(np.ones((4, 3)), (3,))
    array([4., 4., 4.])
    >>> unbroadcast(np.ones((4, 3)), (4, 1)).shape
    (4, 1)
    """
    have = gradient.shape
    extra = len(have) - len(shape)
    if extra < 0 or any(n not in (1, have[i + extra]) for i, n in enumerate(shape)):
        raise RuntimeError(
            f"a gradient of shape {have} cannot be summed back to shape {shape}: a rule must give the "
            "shape of its input, or one that broadcasting could have made from it"
        )
    stretched = tuple([i for i, n in enumerate((*[1] * extra, *shape)) if n == 1 and have[i] != 1])
    if stretched:
        add_up = total if gradient.__class__ is np.ndarray else total_there
        all_new = bool(shape) and stretched == tuple(range(extra))  # (no reshape, then: that would be a view)
        gradient = add_up(gradient, axis=stretched, keepdims=not all_new)
    return gradient if gradient.shape == shape else gradient.reshape(shape)


# --- questions about values --------------------------------------------------------------------
#
# An op may ask about its numbers, to take a shorter way or to refuse them. While a program is being
# recorded the numbers of later calls are not known: then the general way is taken, and a refusal is
# decided by the program when it runs. Arrays of that kind answer by `__decide__`.


def certain(condition: Any) -> bool:
    """Tell whether a condition holds for sure; where that is not known yet: no.

    >>> certain(np.array(True))
    True
    """
    decide = getattr(condition, "__decide__", None)
    return bool(condition) if decide is None else decide(False)


def possible(condition: Any) -> bool:
    """Tell whether a condition may hold; where that is not known yet: yes.

    >>> possible(np.array(False))
    False
    """
    decide = getattr(condition, "__decide__", None)
    return bool(condition) if decide is None else decide(True)


def violated(condition: Any) -> bool:
    """Tell whether input is to be refused; where that is not known yet it will be, if need be, when known.

    >>> violated(np.array(False))
    False
    """
    decide = getattr(condition, "__decide__", None)
    return bool(condition) if decide is None else decide(None)


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Return zeros of the kind and dtype of `like`.

    >>> zeros((2,), np.ones(3, dtype=np.float32))
    array([0., 0.], dtype=float32)
    """
    if like.__class__ is np.ndarray:  # asking NumPy to dispatch costs as much as the zeros themselves
        return np.zeros(shape, dtype=like.dtype)
    return np.zeros_like(like, shape=shape)


def like_of(numbers: Iterable[Any]) -> Any:
    """Return what an array that is made of numbers has to be like, if one of them varies from call to call; else None.

    Only while a function is recorded (compiler/) there are such numbers: sizes, which know an array of that kind.

    >>> like_of((2, 3)) is None
    True
    """
    for number in numbers:
        if type(number) is not int and (like := getattr(number, "like", None)) is not None:
            return like
    return None


def in_axis_order(x: Array) -> Array:
    """Return an array that lies in memory in the order of its axes, as PyTorch's result of some ops always does.

    Where numbers are drawn into a tensor like it, they are drawn in the order of its memory.
    """
    return x if x.flags.c_contiguous else x.copy()


def order_of(x: Array) -> Any:
    """Return in which order a copy of an array lies in memory: in the array's own, or, if expanded, its axes'."""
    if x.flags.c_contiguous:
        return "K"
    expanded = getattr(x, "expanded", None)  # (What is recorded knows it without its steps, which may vary.)
    if expanded is None:
        expanded = any(not step and n > 1 for step, n in zip(x.strides, x.shape, strict=True))
    return "C" if expanded else "K"


def axes_of(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Return `axis` as a tuple of numbers from 0 to ndim - 1; None means every axis.

    >>> axes_of(-1, 3), axes_of(None, 2), axes_of((0, -1), 3)
    ((2,), (0, 1), (0, 2))
    """
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(a % ndim if ndim else 0 for a in axes)


def keep_axes(shape: tuple[int, ...], axis: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return the shape a reduction with keepdims would leave: reduced axes become 1.

    >>> keep_axes((20, 3, 5), (0, -1))
    (1, 3, 1)
    """
    axes = axes_of(axis, len(shape))
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def count_of(shape: tuple[int, ...], axis: int | Sequence[int] | None) -> int:
    """Return how many elements a reduction over `axis` folds into one.

    >>> count_of((20, 3, 5), (0, 2))
    100
    """
    return math.prod(shape[a] for a in axes_of(axis, len(shape))) if shape else 1
