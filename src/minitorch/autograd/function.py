"""Function: an operation written by hand, forward and backward, on Tensors.

Enters: a subclass with static `forward` and `backward`. Leaves: `apply`, which records it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.engine import watch
from minitorch.engine.modes import current, is_grad_enabled, no_grad, observed
from minitorch.engine.node import Node, new_tensor
from minitorch.engine.record import bundle_outputs, tell
from minitorch.engine.recording import made
from minitorch.engine.versions import note_view, previous
from minitorch.ops.op import Op
from minitorch.tensor import Tensor
from minitorch.tensor.conversions import gradient_beside
from minitorch.tensor.writing import check_may_be_rewritten, rewritten


class FunctionCtx:
    """What forward leaves for backward."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.materialize_grads = True
        self._saved: list[Any] = []
        self._saved_at = 0
        self._non_differentiable: set[int] = set()
        self._dirty: set[int] = set()
        self._outputs: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for backward, where they are `ctx.saved_tensors`."""
        for i, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Node):
                raise TypeError(
                    f"save_for_backward: argument {i} must be a Tensor, got {type(tensor).__name__}; keep other things "
                    "as attributes of ctx"
                )
        self._saved = list(tensors)
        self._saved_at = watch.tick()
        if watch.exposed:
            for tensor in tensors:
                if tensor is not None:
                    watch.read(tensor._data, self._saved_at)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that were saved; an error if one was changed since."""
        if watch.exposed:
            watch.look_again(self._saved_at)
        restored = [self._outputs[s.index] if isinstance(s, _Output) else s for s in self._saved]
        for i, tensor in enumerate(restored):
            if tensor is not None and (
                watch.changed_since(tensor, self._saved_at)
                or watch.changed_since(tensor._data, self._saved_at)
            ):
                raise RuntimeError(
                    f"saved tensor {i} (shape {tensor.shape}) was changed after it was saved for backward; save a copy "
                    "(x.clone()), or change it after backward()"
                )
        return tuple(restored)

    def mark_dirty(self, *inputs: Any) -> None:
        """Say which inputs forward has written into and returns: each becomes the result itself."""
        self._dirty = {id(i) for i in inputs}

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """Say which outputs carry no gradient (indices, masks)."""
        self._non_differentiable = {id(o) for o in outputs}

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether backward gets zeros (True) or None for outputs nobody used."""
        self.materialize_grads = value


class _Output:
    """Stands for a saved output: keeping the output itself would make a reference cycle."""

    def __init__(self, index: int) -> None:
        self.index = index


class Function:
    """An operation with its own derivative.

    `forward(ctx, *args)` computes with Tensors and is not recorded; `backward(ctx, *gradients)` gets
    one gradient per output and returns one (or None) per argument of forward. As in PyTorch, forward
    may leave out ctx if `setup_context(ctx, inputs, output)` is given.

    >>> import minitorch
    >>> class Cube(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return g * 3 * x * x
    >>> x = minitorch.tensor([1.0, 2.0], requires_grad=True)
    >>> Cube.apply(x).sum().backward(); x.grad
    array([ 3., 12.], dtype=float32)
    """

    setup_context: Callable[..., None] | None = None

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs."""
        raise NotImplementedError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Compute the gradient of each argument of forward."""
        raise NotImplementedError("a Function needs a static method backward(ctx, *gradients)")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record it, if an argument requires grad."""
        tracked = is_grad_enabled() and any(isinstance(a, Node) and a.requires_grad for a in args)
        ctx = FunctionCtx(tuple(isinstance(a, Node) and a.requires_grad for a in args))
        with no_grad():
            if cls.setup_context is None:
                output = observed(cls.forward)(made(ctx), *args, **kwargs)
            else:
                output = observed(cls.forward)(*args, **kwargs)
                observed(cls.setup_context)(made(ctx), args, output)
        several = isinstance(output, (tuple, list))
        results = tuple(output) if several else (output,)
        for i, r in enumerate(results):
            if not isinstance(r, Node):
                raise TypeError(
                    f"{cls.__name__}.forward: output {i} must be a Tensor, got {type(r).__name__}"
                )
        dirty = [r if id(r) in ctx._dirty and any(r is a for a in args) else None for r in results]
        # An input handed back is a result of its own all the same, unless it was written into.
        results = tuple(
            new_tensor(r._data) if any(r is a for a in args) and d is None else r
            for r, d in zip(results, dirty, strict=True)
        )
        if not tracked:
            return results if several else results[0]
        place = {id(r): i for i, r in enumerate(tuple(output) if several else (output,))}
        ctx._saved = [
            _Output(place[id(s)])
            if id(s) in place and (id(s) in ctx._dirty or not any(s is a for a in args))
            else s
            for s in ctx._saved
        ]
        constants = [id(r) in ctx._non_differentiable for r in results]
        # Whether something was changed, saved_tensors looks for itself.
        joint = _joint(cls, ctx, len(args))
        recorded = Op(
            cls.__name__, lambda *a, **k: None, joint=joint, takes_none=True, reads=False, register=False
        )
        for r in dirty:
            if r is not None:
                check_may_be_rewritten(r, f"{cls.__name__}.forward", "its result into a new tensor")
        before = {id(r): previous(r) for r in dirty if r is not None}
        inputs = tuple(before.get(id(a), a) for a in args)
        outputs = bundle_outputs(recorded, inputs, {}, [r._data for r in results])
        outputs = tuple(
            new_tensor(r._data) if constant else out
            for r, out, constant in zip(results, outputs, constants, strict=True)
        )
        for out, r in zip(outputs, dirty, strict=True):
            if r is not None:
                rewritten(r, before[id(r)], out, f"{cls.__name__}.forward")
            else:
                for each in args:
                    note_view(out, each, None, {}, True)  # which cannot be written into
            tell(current(), recorded, inputs, {}, out)
        outputs = tuple(out if r is None else r for out, r in zip(outputs, dirty, strict=True))
        return outputs if several else outputs[0]


def _joint(cls: type[Function], ctx: FunctionCtx, count: int) -> Callable[..., list[Any]]:
    def joint(g: Any, out: Any, *inputs: Any) -> list[Any]:
        differentiable = any(isinstance(each, Node) for each in g if each is not None)
        gradients = [each if isinstance(each, Node) or each is None else _wrap(each) for each in g]
        ctx._outputs = tuple(o if isinstance(o, Node) else _wrap(o) for o in out)
        if ctx.materialize_grads:
            gradients = [
                _wrap(np.zeros_like(getattr(o, "_data", o))) if each is None else each
                for each, o in zip(gradients, out, strict=True)
            ]
        try:
            answer = observed(cls.backward)(ctx, *gradients)
        finally:
            ctx._outputs = ()
        answers = list(answer) if isinstance(answer, (tuple, list)) else [answer]
        if len(answers) > count and all(a is None for a in answers[count:]):
            answers = answers[:count]
        if len(answers) != count:
            raise RuntimeError(
                f"{cls.__name__}.backward returned {len(answers)} gradients, but forward takes {count} arguments; "
                "return one per argument, None for those without"
            )
        for i, (a, x) in enumerate(zip(answers, inputs, strict=True)):
            if a is None or not hasattr(x, "shape"):
                continue
            if tuple(np.shape(a)) != tuple(x.shape):
                try:
                    fits = np.broadcast_shapes(np.shape(a), tuple(x.shape)) == tuple(np.shape(a))
                except ValueError:
                    fits = False
                if not fits:
                    raise RuntimeError(
                        f"{cls.__name__}.backward returned a gradient of shape {tuple(np.shape(a))} for argument {i} "
                        f"of shape {tuple(x.shape)}"
                    )
            answers[i] = gradient_beside(
                a, getattr(x, "_data", x), f"{cls.__name__}.backward: what it returned for argument {i}"
            )
        if differentiable:
            return answers
        return [getattr(a, "_data", a) for a in answers]

    return joint


def _wrap(array: Any) -> Tensor:
    return new_tensor(np.asarray(array) if isinstance(array, np.generic) else array)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a Function's backward that cannot be differentiated itself: what it does is not recorded.

    >>> class Cube(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, g):
    ...         return 3 * g * ctx.saved_tensors[0] ** 2
    >>> x = new_tensor(np.array(2.0)).requires_grad_()
    >>> Cube.apply(x).backward(); x.grad
    array(12.)
    """

    @functools.wraps(backward)
    def unrecorded(ctx: Any, *gradients: Any) -> Any:
        with no_grad():
            return observed(backward)(ctx, *gradients)

    return unrecorded
