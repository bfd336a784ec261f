"""Writing into a Tensor: `x[i] = v`, `x += y`, `x.add_(y)`, `x.relu_()` and every other trailing underscore.

Enters: a tensor and what to write. Leaves: the same tensor, changed, and its memory with it.

A tensor no graph needs (a buffer, anything under no_grad) is simply written into. A leaf that requires grad is
refused: its gradient is asked for as it is. Where the tensor or what is written has a graph, the tensor becomes the
result of the new op, for every name it has; what it was lives on as a version (engine/versions.py). If it is a view,
its base becomes the result of having been written into there, and the view a view of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine import versions, watch
from minitorch.engine.dtypes import kind_of
from minitorch.engine.modes import current, enable_grad, is_grad_enabled
from minitorch.engine.node import Node
from minitorch.engine.reads import may_read
from minitorch.engine.record import apply
from minitorch.ops.indexing import WRITE, apart
from minitorch.ops.native import is_of_device
from minitorch.ops.op import zeros
from minitorch.ops.shape import CLONE
from minitorch.ops.views import WRITE_THROUGH
from minitorch.tensor.convert import as_tensor, cast, operand
from minitorch.tensor.methods.arguments import fill_of
from minitorch.tensor.methods.indexing import index_key
from minitorch.tensor.methods.public import in_place_names
from minitorch.tensor.random_fills import RandomFills

if TYPE_CHECKING:
    from minitorch.tensor import Tensor


class Writing(RandomFills):
    """What of a Tensor changes it in place."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write(key, value, "x[key] = value")

    def copy_(self, source: Any, non_blocking: bool = False) -> Tensor:
        """Write another tensor's values into this one.

        >>> minitorch.tensor([0.0, 0.0]).copy_(minitorch.tensor([1.0, 2.0]))
        tensor([1., 2.])
        """
        return self._write(..., source, "x.copy_(y)")

    def zero_(self) -> Tensor:
        """Write zeros.

        >>> minitorch.tensor([1.0, 2.0]).zero_()
        tensor([0., 0.])
        """
        return self._write(..., 0, "x.zero_()")

    def fill_(self, value: Any) -> Tensor:
        """Write one value everywhere.

        >>> minitorch.tensor([1.0, 2.0]).fill_(7)
        tensor([7., 7.])
        """
        return self._write(..., value, "x.fill_(v)")

    def fill_diagonal_(self, fill_value: Any, wrap: bool = False) -> Tensor:
        """Write one value on the main diagonal.

        >>> minitorch.zeros(2, 3).fill_diagonal_(5)
        tensor([[5., 0., 0.],
                [0., 5., 0.]])
        """
        shape = self._data.shape
        if len(shape) < 2:
            raise RuntimeError(f"fill_diagonal_: expects 2 axes or more, got shape {shape}")
        if len(shape) > 2 and len(set(shape)) > 1:
            raise RuntimeError(
                f"fill_diagonal_: with more than 2 axes all must be equally long, got shape {shape}"
            )
        step = 1 + sum(int(np.prod(shape[i:])) for i in range(1, len(shape)))
        end = int(np.prod(shape)) if wrap or len(shape) > 2 else min(shape[1] * shape[1], int(np.prod(shape)))
        places = np.unravel_index(np.arange(0, end, step), shape)
        value = fill_of(fill_value, self._array.dtype, "fill_diagonal_")
        return self._write(places, value, "x.fill_diagonal_(v)")

    def __iadd__(self, other: Any) -> Tensor:
        return self._become("add", (other,), {}, "x += y", "x = x + y")

    def __isub__(self, other: Any) -> Tensor:
        return self._become("sub", (other,), {}, "x -= y", "x = x - y")

    def __imul__(self, other: Any) -> Tensor:
        return self._become("mul", (other,), {}, "x *= y", "x = x * y")

    def __itruediv__(self, other: Any) -> Tensor:
        return self._become("div", (other,), {}, "x /= y", "x = x / y")

    def __ifloordiv__(self, other: Any) -> Tensor:
        return self._become("floor_divide", (other,), {}, "x //= y", "x = x // y")

    def __imod__(self, other: Any) -> Tensor:
        return self._become("remainder", (other,), {}, "x %= y", "x = x % y")

    def __ipow__(self, other: Any) -> Tensor:
        return self._become("pow", (other,), {}, "x **= y", "x = x ** y")

    def __iand__(self, other: Any) -> Tensor:
        return self._become("__and__", (other,), {}, "x &= y", "x = x & y")

    def __ior__(self, other: Any) -> Tensor:
        return self._become("__or__", (other,), {}, "x |= y", "x = x | y")

    def __ixor__(self, other: Any) -> Tensor:
        return self._become("__xor__", (other,), {}, "x ^= y", "x = x ^ y")

    def add_(self, other: Any, *old: Any, alpha: float = 1) -> Tensor:
        """x += α·y, in place. Old programs write add_(α, y).

        >>> minitorch.tensor([1.0, 2.0]).add_(1)
        tensor([2., 3.])
        """
        if old:
            alpha, (other,) = other, old
        scaled = other if alpha == 1 else as_tensor(other) * alpha
        return self._become("add", (scaled,), {}, "x.add_(y)", "x = x + y")

    def sub_(self, other: Any, *, alpha: float = 1) -> Tensor:
        """x -= α·y, in place.

        >>> minitorch.tensor([1.0, 2.0]).sub_(1)
        tensor([0., 1.])
        """
        scaled = other if alpha == 1 else as_tensor(other) * alpha
        return self._become("sub", (scaled,), {}, "x.sub_(y)", "x = x - y")

    def mul_(self, other: Any) -> Tensor:
        """x *= y, in place.

        >>> minitorch.tensor([1.0, 2.0]).mul_(3)
        tensor([3., 6.])
        """
        return self._become("mul", (other,), {}, "x.mul_(y)", "x = x * y")

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """x /= y, in place.

        >>> minitorch.tensor([1.0, 2.0]).div_(2)
        tensor([0.5000, 1.0000])
        """
        options = {} if rounding_mode is None else {"rounding_mode": rounding_mode}
        return self._become("div", (other,), options, "x.div_(y)", "x = x / y")

    # --- the two ways to write ----------------------------------------------------------------------

    def _become(
        self, name: str, args: tuple[Any, ...], options: dict[str, Any], spelling: str, instead: str
    ) -> Tensor:
        """Let x be what x.name(*args) is: the new values in its memory, and its place in the graph."""
        given = lambda x, each: x if each is self else each
        return rewrite(
            self,
            lambda x: getattr(x, name)(
                *(given(x, a) for a in args), **{k: given(x, v) for k, v in options.items()}
            ),
            spelling,
            instead,
            (*args, *options.values()),
        )

    def _write(self, key: Any, value: Any, spelling: str) -> Tensor:
        """Write at x[key]: into its memory, and, where x or the value has a graph, as a recorded op."""
        x: Any = versions.synced(self)
        value = operand(value, spelling)
        if isinstance(value, Node) and not (value._array.__class__ is x._array.__class__ is np.ndarray):
            there: Any = (
                value  # (moved only where it must be: of x[mask] while recording there is no array yet)
            )
            value = there.to(x.device) if there.device != x.device else value
        integers, key = index_key(key, x._data)
        _make_room(x, key, value)
        tracked = _is_tracked(x, (value,))
        if tracked and kind_of(x._array.dtype) not in "fc":
            raise RuntimeError(
                f"{spelling}: value requires grad, but x holds {x._array.dtype}, which has no gradient; write "
                "value.detach()"
            )
        _check_writable(x, spelling)
        if tracked:
            check_may_be_rewritten(x, spelling, "where, masked_fill, scatter or index_add")
        if integers is not None:
            x[integers]._write(key, value, spelling)
            return x
        shape = x._data.shape
        if not isinstance(value, Node):
            value = fill_of(value, x._array.dtype, spelling)
        try:
            if not tracked:
                x._data[key] = apart(value._data, x._data) if isinstance(value, Node) else value
                versions.note_write(x, spelling)
                return x
            room = x._data[key].shape
        except ValueError as error:
            raise RuntimeError(f"{spelling}: x has shape {shape}: {error}") from None
        except IndexError as error:
            raise IndexError(f"{spelling}: x has shape {shape}: {error}") from None
        before = versions.previous(x)
        if isinstance(value, Node):
            value = _fitted(before if value is x else value, x, room, spelling)
        result = apply(WRITE, before, value, key=key)
        rewritten(x, before, result, spelling)
        return x

    # --- the same memory, seen with other axes ----------------------------------------------------

    def _look_anew(self, name: str, *args: Any, **kwargs: Any) -> Tensor:
        """Let x be another view of its memory: the values stay, the shape and its place in the graph are new."""
        x: Any = versions.synced(self)
        leaf = x._operation is None
        if not (x._requires_grad or x._view is not None) or (leaf and not is_grad_enabled()):
            x._data = getattr(versions.previous(x), name)(*args, **kwargs)._data
            watch.touch(x, f"x.{name}_()")
            return x
        if x._requires_grad and leaf:
            _refuse_leaf("a leaf that requires grad", f"x.{name}_()", f"x = x.{name}()")
        # Its gradient has to find the way back to the old shape, whatever is recorded now.
        with enable_grad():
            versions.look_anew(x, lambda base: getattr(base, name)(*args, **kwargs))
        return x

    def squeeze_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Drop axes of length 1, of this very tensor.

        >>> minitorch.tensor([[1.0, 2.0]]).squeeze_(0)
        tensor([1., 2.])
        """
        return self._look_anew("squeeze", *args, **kwargs)

    def unsqueeze_(self, dim: int) -> Tensor:
        """Insert an axis of length 1, in this very tensor.

        >>> minitorch.tensor([1.0, 2.0]).unsqueeze_(0)
        tensor([[1., 2.]])
        """
        return self._look_anew("unsqueeze", dim)

    def transpose_(self, dim0: int, dim1: int) -> Tensor:
        """Exchange two axes of this very tensor.

        >>> minitorch.tensor([[1.0, 2.0]]).transpose_(0, 1).shape
        (2, 1)
        """
        return self._look_anew("transpose", dim0=dim0, dim1=dim1)

    swapaxes_ = swapdims_ = transpose_

    def t_(self) -> Tensor:
        """Transpose this very matrix.

        >>> minitorch.tensor([[1.0, 2.0]]).t_().shape
        (2, 1)
        """
        return self._look_anew("t")

    def as_strided_(self, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
        """Let this very tensor look at its memory by other steps; see as_strided.

        >>> minitorch.arange(4.0).as_strided_((2, 2), (1, 1))
        tensor([[0., 1.],
                [1., 2.]])
        """
        return self._look_anew("as_strided", size, stride, storage_offset)

    def resize_(self, *sizes: Any) -> Tensor:
        """Give this very tensor another shape; elements there are kept, new ones are 0 (PyTorch: anything).

        >>> minitorch.tensor([1.0, 2.0, 3.0]).resize_(2, 1)
        tensor([[1.],
                [2.]])
        """
        _check_writable(self, "x.resize_()")
        if self._requires_grad:
            raise RuntimeError(
                "x.resize_(): x requires grad, and a resize has no gradient; write x = x.reshape(…)"
            )
        shape = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
        count = int(np.prod(shape))
        flat = self._data.reshape(-1)[:count]
        if flat.size < count:
            flat = np.concatenate([flat, zeros((count - flat.size,), flat)])
        self._data = flat.reshape(shape)
        watch.touch(self)
        return self  # type: ignore[return-value]

    def detach_(self) -> Tensor:
        """Cut this very tensor off from the graph that made it: a leaf that requires no grad.

        >>> (minitorch.tensor([1.0], requires_grad=True) * 2).detach_().requires_grad
        False
        """
        x: Any = versions.synced(self)
        if x._requires_grad and versions.is_view(x):
            raise RuntimeError("x.detach_(): x is a view, whose graph is its base's; write x = x.detach()")
        if x._requires_grad:
            versions.renew(x, versions.previous(x), None, (), {}, overwritten=False)
        return x


def rewrite(
    x: Any, compute: Callable[[Any], Any], spelling: str, instead: str = "it out of place", others: Any = ()
) -> Any:
    """Let x be compute(x): the new values in its memory, and its place in the graph.

    spelling: how the write is written, instead: how else it can be, for messages. others: what else is computed with.
    """
    versions.synced(x)
    if not _is_tracked(x, others):
        _check_writable(x, spelling)
        result = compute(x)
        _check_fits(x, result, spelling, instead)
        if result is not x:
            _make_room(x, result)
            x._data[...] = apart(result._data, x._data)
            versions.note_write(x, spelling)
        return x
    check_may_be_rewritten(x, spelling, instead)
    before, start = versions.previous(x), watch.tick()
    result = compute(before)
    _check_fits(x, result, spelling, instead)
    result = cast(result, x._array.dtype)
    if result is not before:
        _keep_what_is_read(before, result, start)
        _make_room(x, result)
        x._data[...] = apart(result._data, x._data)
        rewritten(x, before, result, spelling)
    return x


def _make_room(x: Any, *written: Any) -> None:
    """Inside vmap: let a tensor hold an array for each example, if values of examples are to be written into it."""
    if (level := current().level) is not None:
        level.make_room(x, [each._data if isinstance(each, Node) else each for each in written])


def _is_tracked(x: Any, values: Any) -> bool:
    """Tell whether writing these values into x is to be recorded."""
    if not is_grad_enabled():
        return False
    return any(isinstance(each, Node) and versions.synced(each)._requires_grad for each in (x, *values))


def _check_writable(x: Any, spelling: str) -> None:
    view = versions.view_of(x)
    if x._view is not None and versions.base_of(x)._view is versions.COPY:
        raise RuntimeError(
            f"{spelling}: x is what as_strided gave, and on a GPU windows that overlap are copied: what is written "
            "here does not reach their tensor; write x.clone() first, or into that tensor by an index"
        )
    if view is not None and not view.recorded and is_grad_enabled() and _path_to_base(x)[0]._requires_grad:
        versions.check_may_follow(view, f"{spelling} writes into it")
    if is_of_device(x._data):  # CuPy's arrays have no such flag
        steps = zip(x._data.strides, x._data.shape, strict=True)
        writeable = not (x._data.size and any(not step and n > 1 for step, n in steps))
    else:
        writeable = getattr(x._data.flags, "writeable", True)
    if not writeable:
        raise RuntimeError(
            f"{spelling}: x shares memory it may not write to (an expanded view?); write x.clone() first"
        )


def check_may_be_rewritten(x: Any, spelling: str, instead: str) -> None:
    """Refuse to write, with a graph, into leaves that require grad and views of them, and views that cannot follow."""
    _check_writable(x, spelling)
    if x._requires_grad and x._operation is None:
        _refuse_leaf("a leaf that requires grad", spelling, instead)
    view = versions.view_of(x)
    if view is None:
        return
    versions.check_may_follow(view, f"{spelling} writes into it")
    base = _path_to_base(x)[0]
    if base._requires_grad and base._operation is None:
        _refuse_leaf("a view of a leaf that requires grad", spelling, instead)


def _refuse_leaf(what: str, spelling: str, instead: str) -> None:
    raise RuntimeError(
        f"{spelling}: x is {what}, and writing into it would falsify its graph; write {instead}, or, to "
        "change the values on purpose, do it inside `with minitorch.no_grad():`"
    )


def _check_fits(x: Any, result: Any, spelling: str, instead: str) -> None:
    if result.shape != x.shape:
        raise RuntimeError(
            f"{spelling}: the result has shape {result.shape}, but x has {x.shape}; write {instead}"
        )
    order = "biufc"
    given, have = kind_of(result.dtype), kind_of(x.dtype)
    if order.index(given) > max(order.index(have), 2 if have in "iu" else 0):
        raise RuntimeError(
            f"{spelling}: the result is {result.dtype} and cannot be written into {x.dtype}; write {instead}"
        )


def _fitted(value: Any, x: Any, room: tuple[int, ...], spelling: str) -> Any:
    """Return a value in x's dtype, without leading axes of length 1; checked to broadcast to the room for it."""
    value = cast(value, x._array.dtype)
    while value.ndim > len(room) and value.shape[0] == 1:
        value = value.squeeze(0)
    if value.ndim > len(room) or any(
        n not in (1, m) for n, m in zip(value.shape[::-1], room[::-1], strict=False)
    ):
        raise RuntimeError(
            f"{spelling}: x has shape {x._data.shape}, x[key] {room}; a value of shape {value.shape} does not "
            "broadcast to it"
        )
    return value


def _keep_what_is_read(before: Any, result: Any, start: int) -> None:
    """Let the ops that computed `result` read a copy of `before`, where they need its values: these are overwritten."""
    kept = None
    waiting = [result]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Node) or node._time < start or node is before:
            continue
        for position, each in enumerate(node._inputs):
            if each is before and may_read(node, position):
                if kept is None:
                    kept = apply(CLONE, before)
                    kept._time = start  # as if it had been made first: older than what reads it
                node._inputs = (*node._inputs[:position], kept, *node._inputs[position + 1 :])
        waiting += node._inputs


def _path_to_base(x: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return whose memory x looks at in the end, and the ops that lead from there to x."""
    path: tuple[Any, ...] = ()
    while (view := versions.view_of(x)) is not None:
        path = ((view.op, view.attributes), *path)
        x = view.base
    return x, path


def rewritten(x: Any, before: Any, result: Any, spelling: str) -> None:
    """Let x, whose memory holds the result's values by now, take the result's place in the graph."""
    watch.touch(x._data, spelling)
    base, path = _path_to_base(x)
    if base is x:
        versions.take_place(x, before, result)
        return
    was = versions.previous(base)
    versions.take_place(base, was, apply(WRITE_THROUGH, was, result, path=path))
    versions.synced(x)


def _in_place(name: str) -> Callable[..., Any]:
    """Make `x.name_()` from `x.name()`."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._become(name, args, kwargs, f"x.{name}_()", f"x = x.{name}(…)")

    method.__name__, method.__qualname__ = f"{name}_", f"Tensor.{name}_"
    method.__doc__ = f"Do what `{name}` does, in place."
    return method


def add_in_place_forms(cls: Any) -> None:
    """Give the Tensor class `name_` for each method that is marked `@in_place`."""
    for name in in_place_names(cls):
        if not hasattr(cls, f"{name}_"):
            setattr(cls, f"{name}_", _in_place(name))
